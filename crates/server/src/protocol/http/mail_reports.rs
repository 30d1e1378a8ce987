//! Mail in which people report mail: sent on, attached, or as a feedback report (ARF).

use std::borrow::Cow;
use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::HeaderMap;
use content::budget::Cancellation;
use content::mail::arf::{self, FeedbackType};
use content::mail::message::Envelope;
use data_encoding::HEXLOWER;
use engine::feedback::ID_FIELD;
use engine::{DecisionLookupError, FeedbackError, FeedbackInput};
use event::Time;
use plan::{FeedbackSide, Pipeline};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use tokio::runtime::Handle;
use utoipa::IntoParams;

use super::{QueryParams, feedback};
use crate::api;
use crate::core::deadline::Late;
use crate::core::node::Node;
use crate::core::problem::{HttpFailure, NOT_APPLICABLE, ProblemResponses, shown};
use crate::core::reading_pool::PooledReading;
use crate::protocol::input::{self, BodyFormat, EventHeaders};

/// The parameters that say whose mail it is.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ReportParams {
    /// The pipeline; the first of the configuration if none is named.
    pipeline: Option<String>,
    /// The class of the mail itself, which somebody moved to a folder for spam or out of it: the body is then what is reported, and
    /// no mail about it.
    class: Option<String>,
}

/// Records a mail in which somebody reports other mail. The reporter is the authenticated user, or an envelope sender
/// allowed to report; never what the mail says.
#[utoipa::path(
    post,
    path = "/v1/report",
    tag = "feedback",
    params(ReportParams, EventHeaders),
    request_body(content = String, content_type = "message/rfc822", description = "The mail"),
    responses((status = 200, description = "What it did", body = api::MailReportJson), ProblemResponses),
)]
pub(super) async fn report(
    State(node): State<Arc<Node>>,
    QueryParams(params): QueryParams<ReportParams>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Json<api::MailReportJson>, HttpFailure> {
    let pipeline = node.pipeline(params.pipeline.as_deref())?;
    input::form(&node, &pipeline, &headers, &[(input::MESSAGE, BodyFormat::Message)])?;
    let envelope = input::envelope(&headers)?;
    let (at, now) = (Arc::clone(&node), node.now());
    // Decisions are read from the journal, which blocks.
    let bytes = body.len();
    let work = move |reading: PooledReading| {
        let cancellation = &reading.cancellation;
        let class = params.class.as_deref();
        Handle::current().block_on(take(&at, &pipeline, class, &envelope, &body, now, cancellation))
    };
    Ok(Json(node.reading.begin(bytes, work).await??))
}

async fn take(
    node: &Arc<Node>,
    pipeline: &Arc<Pipeline>,
    own_class: Option<&str>,
    envelope: &Envelope,
    raw: &[u8],
    now: Time,
    cancellation: &Cancellation,
) -> Result<api::MailReportJson, HttpFailure> {
    let Some(plan) = &pipeline.reports else {
        let detail = format!("nothing can be said of events of `{}`", pipeline.name);
        return Err(NOT_APPLICABLE.failure(detail).help("give it [feedback]"));
    };
    let sender = envelope.sender.as_deref().unwrap_or_default();
    let user = envelope.user.as_deref().filter(|user| !user.trim().is_empty());
    let Some(by) = user.or_else(|| plan.may_report(sender).then_some(sender)) else {
        let detail = format!("`{}` may not report", shown(sender));
        return Err(NOT_APPLICABLE
            .failure(detail)
            .help("authenticate, or name it in `senders` of [reports]"));
    };
    let by = by.trim().trim_start_matches('<').trim_end_matches('>').to_owned();
    let report = arf::read(raw).filter(|_| own_class.is_none());
    let class = match &report {
        _ if own_class.is_some() => own_class,
        Some(report) => match report.feedback_type {
            FeedbackType::Abuse | FeedbackType::Fraud | FeedbackType::Virus => {
                plan.class_for(FeedbackSide::Bad)
            }
            FeedbackType::NotSpam => plan.class_for(FeedbackSide::Good),
            FeedbackType::Other => None,
        },
        None => plan.class_of_address(&envelope.recipients),
    };
    let mut reported =
        api::MailReportJson { by: by.clone(), class: class.map(str::to_owned), feedback: Vec::new() };
    let Some(class) = class else {
        if report.is_some() {
            // One of another sort, such as of authentication that failed: it says nothing of the mail.
            return Ok(reported);
        }
        let detail = "no recipient is an address for reports";
        return Err(NOT_APPLICABLE.failure(detail).help("[report_addresses] names them"));
    };
    let (engine, feedback) = (&node.engine, FeedbackInput { class, by: Some(&by) });
    let mails = match own_class {
        Some(_) => own_mail(raw)?,
        None => mails(raw, report, &[&by, sender])?,
    };
    for mail in mails {
        let signed_id =
            arf::fields(&mail, ID_FIELD).iter().find_map(|signed_id| engine.decision_of(signed_id));
        if let Some(id) = signed_id {
            let outcome = match engine.feedback(id, feedback, now).await {
                Ok(outcome) => Some(api::FeedbackOutcomeJson::new(id.to_string(), class.to_owned(), outcome)),
                Err(FeedbackError::Lookup(DecisionLookupError::NoDecision(_))) => {
                    let by = Some(by.clone());
                    let feedback = api::FeedbackJson { id: id.to_string(), class: class.to_owned(), by };
                    feedback::of_owner(node, id, feedback).await?
                }
                Err(
                    FeedbackError::Lookup(DecisionLookupError::NoJournal) | FeedbackError::PipelineGone(_),
                ) => None,
                Err(error) => return Err(error.into()),
            };
            // Of a decision that is forgotten, what the mail itself says is learned.
            if let Some(outcome) = outcome {
                reported.feedback.push(outcome);
                continue;
            }
        }
        let digest: String = HEXLOWER.encode(&Sha256::digest(&mail));
        // The envelope of the mail that is reported is not known: anybody could have written what it says of it.
        let event = content::mail::message::event(&mail[..], Envelope::default());
        let read = engine.read(pipeline, event, now, cancellation);
        // Of those before it each is learned, and counts once when the report is sent again.
        if cancellation.is_cancelled() {
            return Err(Late.into());
        }
        let outcome = engine.learn(engine.key(read), &digest, feedback).await?;
        reported.feedback.push(api::FeedbackOutcomeJson::new(digest, class.to_owned(), outcome));
    }
    Ok(reported)
}

/// The mail itself, which is reported whoever wrote it and whatever is attached to it.
fn own_mail(raw: &[u8]) -> Result<Vec<Cow<'_, [u8]>>, HttpFailure> {
    if raw.trim_ascii().is_empty() {
        return Err(NOT_APPLICABLE.failure("the mail is empty"));
    }
    Ok(vec![Cow::Borrowed(raw)])
}

/// The mails that a mail reports.
fn mails<'x>(
    raw: &'x [u8],
    report: Option<arf::FeedbackReport<'x>>,
    senders: &[&str],
) -> Result<Vec<Cow<'x, [u8]>>, HttpFailure> {
    let mut mails = match report {
        Some(report) => report.original.into_iter().map(arf::ReportedMail::into_bytes).collect(),
        None => arf::attached(raw),
    };
    mails.retain(|mail| !mail.trim_ascii().is_empty());
    if !mails.is_empty() {
        return Ok(mails);
    }
    // Sent on as it is, it has the author whom it had. One of the reporter's own is a text about another mail.
    let from = arf::fields(raw, "From").concat().to_lowercase();
    let own = senders.iter().any(|sender| sender.contains('@') && from.contains(&sender.to_lowercase()));
    if own || raw.trim_ascii().is_empty() {
        let detail = "there is no mail in it that could be reported";
        return Err(NOT_APPLICABLE.failure(detail).help("redirect the mail, or forward it as an attachment"));
    }
    Ok(vec![Cow::Borrowed(raw)])
}
