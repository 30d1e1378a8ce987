//! A durable pull consumer of NATS JetStream.
//!
//! ```text
//! connect ─► look at the stream, make the consumer ─► ask for messages ─► handed over, answered ─► +ACK each
//! ```
//!
//! What is not acknowledged comes again, to this process or the next one. A message is named after its stream, when that was
//! made, and its sequence number there, so it counts once: a stream that was made anew has the same numbers again. A
//! connection that broke is therefore not taken up again: another one looks at the stream anew.

use parking_lot::Mutex;
use std::env;
use std::error::Error;
use std::ffi::OsString;
use std::fmt::Display;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_nats::connection::State;
use async_nats::jetstream;
use async_nats::jetstream::consumer::pull::Config;
use async_nats::jetstream::consumer::{AckPolicy, PullConsumer};
use async_nats::jetstream::message::Acker;
use async_nats::rustls;
use async_nats::rustls::pki_types::pem::{Error as PemError, PemObject};
use async_nats::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use async_nats::{Client, ConnectErrorKind, ConnectOptions, Event, ServerAddr};
use futures_util::StreamExt;
use percent_encoding::percent_decode_str;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use super::{LINES_MAX, NamedLine};
use crate::exit::CommandError;

/// The time that the server is to wait for messages before it says that there are no more.
const WAIT: Duration = Duration::from_millis(250);
/// The time in which a consumer says something after it was asked. The client ends a batch five seconds after [`WAIT`].
const SILENCE: Duration = Duration::from_secs(4);
/// The time that the server may take to answer.
const WITHIN: Duration = Duration::from_secs(15);
/// The interval at which a silent server is asked whether it is there. Two such questions may be open.
const PING: Duration = Duration::from_secs(10);
/// After so long an unacknowledged message comes again.
const ACK_WAIT: Duration = Duration::from_secs(60);
/// Bytes of messages that are asked for at once. A larger message comes alone.
const BATCH_BYTES_MAX: usize = 8 << 20;

/// The stream of NATS that is consumed, and who asks for it. Flags and variables are those of the command `nats`.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct NatsOptions {
    /// NATS server whose JetStream is consumed instead of a file: nats://[USER:PASSWORD@]HOST[:PORT], or tls://...; or several
    /// with commas
    #[arg(long, value_name = "URL", requires = "stream", conflicts_with_all = ["files", "position", "once"])]
    pub(super) nats: Option<String>,
    /// Stream to consume
    #[arg(long, value_name = "NAME", requires = "nats")]
    stream: Option<String>,
    /// Durable consumer; made if it does not exist
    #[arg(long, value_name = "NAME", default_value = "tollhouse", requires = "nats")]
    consumer: String,
    /// Credentials file of the NATS user [env: NATS_CREDS]
    #[arg(long, value_name = "FILE", requires = "nats")]
    creds: Option<PathBuf>,
    /// NATS user, or without a password a token [env: NATS_USER]
    #[arg(long, value_name = "USER", requires = "nats")]
    user: Option<String>,
    /// Password of the NATS user [env: NATS_PASSWORD]
    #[arg(long, value_name = "PASSWORD", requires = "user")]
    password: Option<String>,
    /// Authorities, in PEM, that vouch for the NATS server instead of the system's [env: NATS_CA]
    #[arg(long, value_name = "FILE", requires = "nats")]
    tlsca: Option<PathBuf>,
    /// Certificate, in PEM, that NATS is shown [env: NATS_CERT]
    #[arg(long, value_name = "FILE", requires_all = ["nats", "tlskey"])]
    tlscert: Option<PathBuf>,
    /// Private key of that certificate, in PEM [env: NATS_KEY]
    #[arg(long, value_name = "FILE", requires = "tlscert")]
    tlskey: Option<PathBuf>,
}

/// The user or token that NATS is told.
#[derive(Clone, Debug, PartialEq, Eq)]
enum NatsLogin {
    Password(String, String),
    Token(String),
}

/// The reason for a stream that cannot be consumed, and the mend.
#[derive(Debug)]
pub(super) struct NatsProblem {
    pub(super) why: String,
    help: Option<&'static str>,
}

impl NatsProblem {
    fn new(why: impl Display) -> NatsProblem {
        NatsProblem { why: why.to_string(), help: None }
    }

    fn help(self, help: &'static str) -> NatsProblem {
        NatsProblem { help: Some(help), ..self }
    }

    /// The file that is at fault.
    fn of(path: &Path, why: impl Display) -> NatsProblem {
        NatsProblem::new(format_args!("{}: {why}", path.display()))
    }
}

impl From<NatsProblem> for CommandError {
    fn from(problem: NatsProblem) -> CommandError {
        let failure = CommandError::new(format_args!("NATS: {}", problem.why));
        match problem.help {
            Some(help) => failure.help(help),
            None => failure,
        }
    }
}

/// All that is needed to connect, checked as far as it can be without a server.
pub(super) struct NatsSource {
    servers: Vec<ServerAddr>,
    stream: String,
    consumer: String,
    login: Option<NatsLogin>,
    /// The text of the credentials file.
    creds: Option<String>,
    tlsca: Option<PathBuf>,
    /// Certificate and key.
    identity: Option<(PathBuf, PathBuf)>,
}

impl NatsSource {
    /// Reads flags, and the variables of the environment that stand in for them.
    pub(super) fn new(options: &NatsOptions) -> Result<NatsSource, NatsProblem> {
        let stream = options.stream.clone().unwrap_or_default();
        let consumer = options.consumer.clone();
        // They become part of subjects.
        let is_name = |name: &str| {
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
        };
        if !is_name(&stream) || !is_name(&consumer) {
            return Err(NatsProblem::new("names of streams and consumers have letters, digits, `-` and `_`"));
        }
        let servers = servers(options.nats.as_deref().unwrap_or_default())?;
        let file = |flag: &Option<PathBuf>, variable| {
            flag.clone().or_else(|| variable_of(variable).map(PathBuf::from))
        };
        let text = |flag: &Option<String>, variable| {
            flag.clone().or_else(|| variable_of(variable)?.into_string().ok())
        };
        let login = login(&servers).or_else(|| {
            let user = text(&options.user, "NATS_USER")?;
            Some(match text(&options.password, "NATS_PASSWORD") {
                Some(password) => NatsLogin::Password(user, password),
                None => NatsLogin::Token(user),
            })
        });
        let creds = file(&options.creds, "NATS_CREDS").map(|path| read_creds(&path)).transpose()?;
        let tlsca = file(&options.tlsca, "NATS_CA");
        if let Some(path) = &tlsca {
            check_certificates(path)?;
        }
        let identity = match (file(&options.tlscert, "NATS_CERT"), file(&options.tlskey, "NATS_KEY")) {
            (Some(certificate), Some(key)) => {
                check_certificates(&certificate)?;
                PrivateKeyDer::from_pem_file(&key).map_err(|error| unusable(&key, error, "private key"))?;
                Some((certificate, key))
            }
            (None, None) => None,
            _ => return Err(NatsProblem::new("NATS_CERT and NATS_KEY belong together")),
        };
        Ok(NatsSource { servers, stream, consumer, login, creds, tlsca, identity })
    }

    /// Whoever names an authority, or shows a certificate, means TLS: a server that offers none gets no password.
    fn is_tls(&self) -> bool {
        self.tlsca.is_some() || self.identity.is_some() || self.servers.iter().any(ServerAddr::tls_required)
    }

    fn options(&self) -> Result<ConnectOptions, NatsProblem> {
        let mut options = ConnectOptions::new()
            .name("tollhouse")
            .connection_timeout(WITHIN)
            .request_timeout(Some(WITHIN))
            .ping_interval(PING)
            .subscription_capacity(2 * LINES_MAX)
            // The server's word does not decide who gets the password.
            .ignore_discovered_servers()
            .require_tls(self.is_tls());
        options = match self.login.clone() {
            Some(NatsLogin::Password(user, password)) => options.user_and_password(user, password),
            Some(NatsLogin::Token(token)) => options.token(token),
            None => options,
        };
        if let Some(creds) = &self.creds {
            options = options.credentials(creds).map_err(NatsProblem::new)?;
        }
        if let Some(path) = &self.tlsca {
            options = options.add_root_certificates(path.clone());
        }
        if let Some((certificate, key)) = &self.identity {
            options = options.add_client_certificate(certificate.clone(), key.clone());
        }
        Ok(options)
    }

    /// The servers, without what is secret in their addresses.
    fn place(&self) -> String {
        let places = self.servers.iter().map(|server| match server.host() {
            host if host.contains(':') => format!("[{host}]:{}", server.port()),
            host => format!("{host}:{}", server.port()),
        });
        places.collect::<Vec<_>>().join(", ")
    }
}

/// A variable of the environment that says something.
fn variable_of(name: &str) -> Option<OsString> {
    env::var_os(name).filter(|value| !value.is_empty())
}

/// Reads addresses. Of the protocols that carry NATS, web sockets are not spoken.
fn servers(text: &str) -> Result<Vec<ServerAddr>, NatsProblem> {
    let read = |url: &str| {
        let is_spoken = url.starts_with("nats://") || url.starts_with("tls://");
        let server = is_spoken.then(|| url.parse::<ServerAddr>().ok()).flatten();
        // The text may have a password in it, so it is not repeated.
        server.filter(|server| !server.host().is_empty()).ok_or_else(|| {
            NatsProblem::new("no address of a server")
                .help("expected nats://[USER:PASSWORD@]HOST[:PORT], or tls://...; or several with commas")
        })
    };
    text.split(',').map(read).collect()
}

/// The user or token of the first address that has one.
fn login(servers: &[ServerAddr]) -> Option<NatsLogin> {
    let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    servers.iter().find_map(|server| {
        let user = decoded(server.username()?);
        Some(match server.password() {
            Some(password) => NatsLogin::Password(user, decoded(password)),
            None => NatsLogin::Token(user),
        })
    })
}

fn read_creds(path: &Path) -> Result<String, NatsProblem> {
    let text = fs::read_to_string(path).map_err(|error| NatsProblem::of(path, error))?;
    match ConnectOptions::new().credentials(&text) {
        Ok(_) => Ok(text),
        Err(error) => Err(NatsProblem::of(path, error).help("expected a credentials file as `nsc` makes it")),
    }
}

/// Makes sure that a file has certificates: the client takes one without any, and then trusts nobody.
fn check_certificates(path: &Path) -> Result<(), NatsProblem> {
    let all = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match all {
        Ok(all) if all.is_empty() => Err(unusable(path, PemError::NoItemsFound, "certificate")),
        Ok(_) => Ok(()),
        Err(error) => Err(unusable(path, error, "certificate")),
    }
}

fn unusable(path: &Path, error: PemError, wanted: &str) -> NatsProblem {
    match error {
        PemError::NoItemsFound => NatsProblem::of(path, format_args!("no {wanted} in PEM is in it")),
        PemError::Io(error) => NatsProblem::of(path, error),
        error => NatsProblem::of(path, error),
    }
}

/// A connection with a consumer.
pub(super) struct NatsConsumer {
    client: Client,
    consumer: PullConsumer,
    /// Beginning of messages' names: the stream, and when it was made.
    origin: String,
    /// The acknowledgements of the messages that were taken last.
    taken: Vec<Acker>,
    /// The runtime of the connection. It answers the server's pings while messages are judged.
    runtime: Runtime,
}

impl NatsConsumer {
    /// Connects and makes the consumer, unless there is one of this name.
    pub(super) fn open(source: &NatsSource) -> Result<NatsConsumer, NatsProblem> {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.map_err(NatsProblem::new)?;
        let (client, consumer, origin) = runtime.block_on(connect(source))?;
        Ok(NatsConsumer { client, consumer, origin, taken: Vec::new(), runtime })
    }

    /// The next messages as lines, or none if none came for a while.
    pub(super) fn take(&mut self) -> Result<Vec<NamedLine>, String> {
        self.taken.clear();
        let NatsConsumer { client, consumer, origin, taken, runtime } = self;
        let lines = runtime.block_on(async {
            let (mut lines, mut why) = batch(consumer, LINES_MAX, BATCH_BYTES_MAX, origin, taken).await?;
            if lines.is_empty() && why.is_some() {
                // The next message may be larger than a batch.
                (lines, why) = batch(consumer, 1, 0, origin, taken).await?;
            }
            match why {
                Some(why) if lines.is_empty() => Err(why),
                _ => Ok(lines),
            }
        })?;
        match client.connection_state() {
            State::Connected => Ok(lines),
            _ => Err("the connection broke".to_owned()),
        }
    }

    /// Says that the messages taken last need not come again. Those whose word is lost on the way do, and count once.
    pub(super) fn acknowledge(&mut self) -> Result<(), String> {
        let NatsConsumer { client, taken, runtime, .. } = self;
        let all = async {
            for acker in taken.drain(..) {
                acker.ack().await.map_err(|error| error.to_string())?;
            }
            client.flush().await.map_err(|error| error.to_string())
        };
        let acknowledged = runtime.block_on(async { timeout(WITHIN, all).await });
        acknowledged.unwrap_or_else(|_| Err("the server does not take acknowledgements".to_owned()))
    }
}

/// Lines of a batch, and why it ended, unless there was no more or it was full.
type NatsBatch = (Vec<NamedLine>, Option<String>);

/// Asks for messages, at most so many and so many bytes; 0 is any number of bytes.
async fn batch(
    consumer: &PullConsumer,
    most: usize,
    bytes_max: usize,
    origin: &str,
    taken: &mut Vec<Acker>,
) -> Result<NatsBatch, String> {
    let asked = consumer.batch().max_messages(most).max_bytes(bytes_max).expires(WAIT).messages().await;
    let mut messages = asked.map_err(|error| error.to_string())?;
    let mut lines = Vec::new();
    loop {
        // A consumer that is gone may leave a request without any answer.
        let Ok(next) = timeout(SILENCE, messages.next()).await else {
            return Ok((lines, Some("the consumer does not answer".to_owned())));
        };
        let message = match next {
            Some(Ok(message)) => message,
            Some(Err(error)) => return Ok((lines, Some(error.to_string()))),
            None => return Ok((lines, None)),
        };
        let sequence = message.info().map_err(|error| error.to_string())?.stream_sequence;
        let (message, acker) = message.split();
        lines.push((Some(format!("{origin}:{sequence}")), message.payload.into()));
        taken.push(acker);
    }
}

/// The client, the consumer, and the beginning of messages' names.
async fn connect(source: &NatsSource) -> Result<(Client, PullConsumer, String), NatsProblem> {
    // Once it is open it is not made again by the client, which would go on with names of a stream that may be another one.
    let is_open = Arc::new(AtomicBool::new(false));
    let delay = {
        let is_open = Arc::clone(&is_open);
        move |_| if is_open.load(Ordering::Acquire) { Duration::MAX } else { Duration::ZERO }
    };
    // The server answers what a user may not do beside the request, which then is not answered at all.
    let denied = Arc::new(Mutex::new(None));
    let listen = {
        let denied = Arc::clone(&denied);
        move |event| {
            if let Event::ServerError(error) = event {
                *denied.lock() = Some(error.to_string());
            }
            async {}
        }
    };
    let options = source.options()?.reconnect_delay_callback(delay).event_callback(listen);
    let place = source.place();
    let client = options.connect(source.servers.as_slice()).await;
    let client = client.map_err(|error| {
        NatsProblem::new(format_args!("{place}: {}", reasons(&error))).help(advice(&error))
    })?;
    is_open.store(true, Ordering::Release);
    let opened = open_consumer(&client, source).await;
    let (consumer, origin) = opened.map_err(|why| match denied.lock().take() {
        Some(denied) => NatsProblem::new(format_args!("{place}: {why}: {denied}")),
        None => NatsProblem::new(format_args!("{place}: {why}")),
    })?;
    Ok((client, consumer, origin))
}

async fn open_consumer(client: &Client, source: &NatsSource) -> Result<(PullConsumer, String), String> {
    let NatsSource { stream, consumer: name, .. } = source;
    let found = jetstream::new(client.clone()).get_stream(stream).await;
    let found = found.map_err(|error| format!("stream `{stream}`: {}", reasons(&error)))?;
    let created = found.cached_info().created.unix_timestamp_nanos();
    let config = Config { durable_name: Some(name.clone()), ack_wait: ACK_WAIT, ..Config::default() };
    let consumer = found.get_or_create_consumer(name, config).await;
    let consumer = consumer.map_err(|error| format!("consumer `{name}`: {}", reasons(&error)))?;
    if consumer.cached_info().config.ack_policy != AckPolicy::Explicit {
        return Err(format!(
            "the consumer `{name}` does not have each message acknowledged, so one that is lost on the way would \
             not come again: make it with the policy `explicit`, or name another with --consumer"
        ));
    }
    Ok((consumer, format!("{stream}@{created}")))
}

/// An error and its causes, each once.
fn reasons(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

/// The advice on what to do about a connection that was not made.
fn advice(error: &async_nats::ConnectError) -> &'static str {
    let mut source = error.source();
    let mut is_tls = error.kind() == ConnectErrorKind::Tls;
    while let Some(cause) = source {
        let inner = cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        is_tls |= inner.is_some_and(|inner| inner.is::<rustls::Error>());
        source = cause.source();
    }
    match error.kind() {
        _ if is_tls => {
            "does the server offer TLS? --tlsca FILE names an authority that the system does not know"
        }
        ConnectErrorKind::AuthorizationViolation | ConnectErrorKind::Authentication => {
            "say who asks: --creds FILE, --user and --password, or nats://USER:PASSWORD@HOST"
        }
        _ => "does it run there? Its clients' port is 4222 unless it is configured otherwise",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_name_servers_and_a_user() {
        let check = |text: &str, expected: &[(&str, u16, bool)], user: Option<NatsLogin>| {
            let found = servers(text).unwrap();
            let places: Vec<_> =
                found.iter().map(|server| (server.host(), server.port(), server.tls_required())).collect();
            assert_eq!(places, expected, "{text}");
            assert_eq!(login(&found), user, "{text}");
        };
        let password = |user: &str, password: &str| Some(NatsLogin::Password(user.into(), password.into()));
        check("nats://127.0.0.1:4333", &[("127.0.0.1", 4333, false)], None);
        check("nats://user:p%40ss@nats.example/", &[("nats.example", 4222, false)], password("user", "p@ss"));
        check("tls://token@[::1]", &[("::1", 4222, true)], Some(NatsLogin::Token("token".into())));
        check("tls://a,nats://b:1", &[("a", 4222, true), ("b", 1, false)], None);
        for wrong in
            ["", "nats.example", "ws://nats.example", "nats://", "nats://host:port", "nats://a,", "tls://,"]
        {
            assert!(servers(wrong).is_err(), "{wrong}");
        }
    }
}
