//! One try to send a message, on a thread of its own: a place that hangs holds up neither others nor the end of the server.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use event::Time;
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Certificate, CertificateStore, Tls, TlsParameters};
use lettre::{SmtpTransport, Transport};
use plan::{MailDelivery, MailSecurity, NotificationForm, NotificationPlan};
use tokio::sync::oneshot;
use ureq::http::Request;

use super::body::{NotificationBody, NotificationRequest, body};
use super::channel::NotificationChannel;
use super::notice::Notice;
use super::text::line;
use crate::core::http_client::{certificates, http_client};

/// Most bytes of an answer that are read.
const ANSWER_BYTES_MAX: u64 = 4 << 10;
/// Most characters of a reason.
const REASON_CHARS_MAX: usize = 300;
/// The longest wait that an answer may ask for.
const WAIT_MAX: Duration = Duration::from_secs(3600);

/// A reason for which a message was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SendFailure {
    pub(crate) why: String,
    /// True if another try would end as this one.
    pub(crate) is_final: bool,
    /// The wait that the answer asks for.
    pub(crate) wait: Option<Duration>,
}

impl SendFailure {
    fn again(why: impl ToString) -> SendFailure {
        SendFailure { why: line(&why.to_string(), REASON_CHARS_MAX), is_final: false, wait: None }
    }
}

/// Sends a message about notices. False if there is nothing in it for this place.
///
/// # Errors
/// If it was not taken.
pub(crate) async fn send(
    channel: Arc<NotificationChannel>,
    notices: Arc<[Notice]>,
    now: Time,
) -> Result<bool, SendFailure> {
    let (sender, sent) = oneshot::channel();
    let work = move || _ = sender.send(send_now(&channel.plan, &notices, now));
    thread::Builder::new().name("notification".to_owned()).spawn(work).map_err(SendFailure::again)?;
    sent.await.unwrap_or_else(|_| Err(SendFailure::again("it stopped by a mistake of the program")))
}

/// Sends a message, and blocks until it is taken or not.
fn send_now(plan: &NotificationPlan, notices: &[Notice], now: Time) -> Result<bool, SendFailure> {
    let made = body(plan, notices, now);
    let made = made.map_err(|why| SendFailure { is_final: true, ..SendFailure::again(why) })?;
    let timeout = Duration::from_micros(plan.timeout.0.unsigned_abs());
    match (made, &plan.form) {
        (NotificationBody::Request(request), _) => {
            post(request, timeout, plan.authority.as_deref()).map_err(|failure| SendFailure {
                // A URL may hold a secret.
                why: failure.why.replace(&plan.url.0, plan.url.host()),
                ..failure
            })?;
            Ok(true)
        }
        (NotificationBody::Mail(message), NotificationForm::Smtp(mail)) => {
            mail_out(mail, &message, timeout, plan.authority.as_deref())?;
            Ok(true)
        }
        (NotificationBody::Mail(_) | NotificationBody::Nothing, _) => Ok(false),
    }
}

fn post(request: NotificationRequest, timeout: Duration, authority: Option<&str>) -> Result<(), SendFailure> {
    let agent = http_client(authority, timeout, true);
    let method = if request.is_put { "PUT" } else { "POST" };
    let mut asked = Request::builder().method(method).uri(&request.url);
    for (name, value) in &request.headers {
        asked = asked.header(*name, value);
    }
    let asked = asked
        .body(request.bytes)
        .map_err(|_| SendFailure { is_final: true, ..SendFailure::again("the request cannot be made") })?;
    let mut answer = agent.run(asked).map_err(SendFailure::again)?;
    let status = answer.status().as_u16();
    if (200..300).contains(&status) {
        return Ok(());
    }
    let wait = answer.headers().get("retry-after").and_then(|value| value.to_str().ok()?.trim().parse().ok());
    let wait = wait.map(|seconds: u64| Duration::from_secs(seconds).min(WAIT_MAX));
    let text = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_vec().unwrap_or_default();
    let text = String::from_utf8_lossy(&text).into_owned();
    let why = match status {
        300..400 => format!("it answers {status}, and redirects are not followed"),
        _ if text.trim().is_empty() => format!("it answers {status}"),
        _ => format!("it answers {status}: {}", text.trim()),
    };
    // Too early, too many, and what may be another's lock are worth another try.
    let is_final = (300..500).contains(&status) && ![408, 409, 425, 429].contains(&status);
    Err(SendFailure { is_final, wait, ..SendFailure::again(why) })
}

fn mail_out(
    mail: &MailDelivery,
    message: &lettre::Message,
    timeout: Duration,
    authority: Option<&str>,
) -> Result<(), SendFailure> {
    let tls = || {
        let mut parameters =
            TlsParameters::builder(mail.host.clone()).certificate_store(CertificateStore::WebpkiRoots);
        if let Some(pem) = authority {
            parameters = parameters.certificate_store(CertificateStore::None);
            for certificate in certificates(pem) {
                let read = Certificate::from_der(certificate.der().to_vec());
                parameters = parameters.add_root_certificate(read.map_err(SendFailure::again)?);
            }
        }
        parameters.build().map_err(|error| SendFailure { is_final: true, ..SendFailure::again(error) })
    };
    let tls = match mail.security {
        MailSecurity::None => Tls::None,
        MailSecurity::StartTls => Tls::Required(tls()?),
        MailSecurity::Tls => Tls::Wrapper(tls()?),
    };
    let mut transport =
        SmtpTransport::builder_dangerous(&mail.host).port(mail.port).tls(tls).timeout(Some(timeout));
    if let Some((user, password)) = &mail.login {
        transport = transport.credentials(Credentials::new(user.clone(), password.clone()));
    }
    match transport.build().send(message) {
        Ok(_) => Ok(()),
        Err(error) => {
            let is_final = error.is_permanent();
            Err(SendFailure { is_final, ..SendFailure::again(error) })
        }
    }
}
