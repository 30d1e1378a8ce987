//! Bodies and headers → events. A content type says how a body is read; the pipeline says whether it fits.

use std::sync::Arc;

use axum::body::Bytes;
use axum::http::{HeaderMap, HeaderValue, header};
use content::json::JsonError;
use content::mail::message::{Envelope, RECIPIENTS_MAX};
use content::text::received;
use engine::{Decision, Engine, JsonEventError};
use event::{Event, Time};
use plan::{Pipeline, PipelineInput};
use serde::Deserialize;
use utoipa::openapi::Required;
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::{IntoParams, ToSchema};

use crate::core::challenges;
use crate::core::node::Node;
use crate::core::preparation::{LookupMode, SubmittedEvent};
use crate::core::problem::{
    HttpFailure, INVALID_BODY, INVALID_EVENT, INVALID_PARAMETER, TOO_LARGE, UNAVAILABLE, UNSUPPORTED_TYPE,
    shown,
};
use crate::core::reading_pool::{INLINE_BYTES_MAX, SHORT_BYTES_MAX};

/// A JSON object, or lines of them.
pub(crate) const JSON: &str = "application/json";
pub(crate) const JSON_LINES: &str = "application/x-ndjson";
/// Columns: an Arrow IPC stream.
pub const ARROW: &str = "application/vnd.apache.arrow.stream";
/// An RFC 5322 message.
pub(crate) const MESSAGE: &str = "message/rfc822";
/// An access log's line, or lines.
pub(crate) const LOG: &str = "text/plain";

/// The format in which an event is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyFormat {
    Json,
    Message,
    LogLine,
    /// An array of JSON objects.
    JsonArray,
    /// Columns, as an Arrow IPC stream.
    Arrow,
}

/// The source of a message's envelope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum EnvelopeSource {
    /// The message's own `Received`, `Return-Path` and `Delivered-To` fields: only for mail that one's own servers
    /// stored. What `Tollhouse-` headers say goes before.
    Headers,
}

/// The options that say how a message is to be understood.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MessageReadOptions {
    /// At the time that it says it was received.
    pub(crate) message_time: bool,
    pub(crate) envelope: Option<EnvelopeSource>,
}

/// A header by which the caller says what the body does not: its name, its description.
type HeaderDescription = (&'static str, &'static str);
const CLIENT_IP: HeaderDescription =
    ("tollhouse-client-ip", "Messages: address of the client that handed the message over");
const HELO: HeaderDescription = ("tollhouse-helo", "Messages: name by which the client introduced itself");
const MAIL_FROM: HeaderDescription =
    ("tollhouse-mail-from", "Messages: envelope sender, `<>` for the null sender");
const RCPT_TO: HeaderDescription =
    ("tollhouse-rcpt-to", "Messages: envelope recipients, comma-separated; may be repeated");
const USER: HeaderDescription = ("tollhouse-user", "Messages: name under which the client was authenticated");
const EVENT_ID: HeaderDescription = (
    "tollhouse-event-id",
    "Messages and log lines: the caller's name for the event, at most 256 bytes; the same is counted once",
);
const EVENT_TIME: HeaderDescription =
    ("tollhouse-event-time", "Messages and log lines: when it happened, RFC 3339 or seconds since 1970");
const HEADERS: [HeaderDescription; 7] = [CLIENT_IP, HELO, MAIL_FROM, RCPT_TO, USER, EVENT_ID, EVENT_TIME];
/// Headers for an event of any form but JSON, which has fields for them.
const OF_ANY: [HeaderDescription; 2] = [EVENT_ID, EVENT_TIME];
const PREFIX: &str = "tollhouse-";

/// The headers, for the description of the interface.
pub(crate) struct EventHeaders;

impl IntoParams for EventHeaders {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        HEADERS.into_iter().map(parameter).collect()
    }
}

fn parameter((name, description): HeaderDescription) -> Parameter {
    let text = ObjectBuilder::new().schema_type(Type::String).build();
    ParameterBuilder::new()
        .name(name)
        .parameter_in(ParameterIn::Header)
        .required(Required::False)
        .description(Some(description))
        .schema(Some(text))
        .build()
}

/// The content type without its parameters, lower case.
pub(crate) fn media_type(headers: &HeaderMap) -> Option<String> {
    let value = received(headers.get(header::CONTENT_TYPE)?.as_bytes());
    let essence = value.split_once(';').map_or(&*value, |(essence, _)| essence);
    Some(essence.trim().to_ascii_lowercase())
}

/// Returns how the body is to be read, if the pipeline's input fits one of these content types.
pub(crate) fn form(
    node: &Node,
    pipeline: &Pipeline,
    headers: &HeaderMap,
    known: &[(&'static str, BodyFormat)],
) -> Result<BodyFormat, HttpFailure> {
    let names = || known.iter().map(|(name, _)| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let Some(media) = media_type(headers) else {
        return Err(UNSUPPORTED_TYPE
            .failure("Content-Type is missing")
            .help(format!("send one of {}", names())));
    };
    let Some((_, form)) = known.iter().find(|(name, _)| *name == media) else {
        let detail = format!("Content-Type: `{}` is not read here", shown(&media));
        return Err(UNSUPPORTED_TYPE.failure(detail).help(format!("send one of {}", names())));
    };
    let fits = |pipeline: &Pipeline| match form {
        BodyFormat::Json | BodyFormat::JsonArray | BodyFormat::Arrow => true,
        BodyFormat::Message => pipeline.input == PipelineInput::Message,
        BodyFormat::LogLine => pipeline.input == PipelineInput::AccessLog,
    };
    if fits(pipeline) {
        return Ok(*form);
    }
    let plan = node.engine.plan();
    let others = plan.pipelines.iter().filter(|other| fits(other));
    let others: Vec<String> = others.map(|other| format!("`?pipeline={}`", other.name)).collect();
    let failure = UNSUPPORTED_TYPE.failure(format!(
        "Content-Type: the pipeline `{}` reads {}, not `{media}`",
        pipeline.name,
        pipeline.input.name()
    ));
    Err(match others.as_slice() {
        [] => failure.help("no pipeline of this configuration reads it; JSON objects fit every one"),
        others => failure.help(format!("name a pipeline that does: {}", others.join(", "))),
    })
}

/// The forms of a single event.
pub(crate) const SINGLE: &[(&str, BodyFormat)] =
    &[(JSON, BodyFormat::Json), (MESSAGE, BodyFormat::Message), (LOG, BodyFormat::LogLine)];
/// The forms of a batch.
pub(crate) const BATCH: &[(&str, BodyFormat)] = &[(JSON_LINES, BodyFormat::Json), (LOG, BodyFormat::LogLine)];
/// The forms of a batch that is answered in columns.
pub(crate) const COLUMNS: &[(&str, BodyFormat)] =
    &[(ARROW, BodyFormat::Arrow), (JSON_LINES, BodyFormat::Json), (JSON, BodyFormat::JsonArray)];

/// The caller's name for a batch that is answered in columns.
pub(crate) const BATCH_ID: HeaderDescription =
    ("tollhouse-batch-id", "The caller's name for the batch, at most 256 bytes; the same is counted once");

/// The headers of such a batch, for the description of the interface.
pub(crate) struct BatchHeaders;

impl IntoParams for BatchHeaders {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        vec![parameter(BATCH_ID)]
    }
}

/// The name of a batch.
pub(crate) fn batch_id(headers: &HeaderMap) -> Result<Option<String>, HttpFailure> {
    if let Some(name) =
        headers.keys().map(|name| name.as_str()).find(|name| name.starts_with(PREFIX) && *name != BATCH_ID.0)
    {
        return Err(INVALID_PARAMETER
            .failure(format!("{}: not for a batch in columns", shown(name)))
            .help(format!("there is: {}; events say the rest themselves", BATCH_ID.0)));
    }
    checked_batch_id(single(headers, BATCH_ID)?.unwrap_or_default())
}

/// The name of a batch that was said; none if it is empty.
pub(crate) fn checked_batch_id(id: &str) -> Result<Option<String>, HttpFailure> {
    if id.len() > Event::ID_BYTES_MAX {
        return Err(invalid(BATCH_ID, "expected at most 256 bytes"));
    }
    Ok((!id.is_empty()).then(|| id.to_owned()))
}

/// The durability that a request's answer waits for, beside what the node's configuration says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum DurabilityParam {
    /// All that the request has added is on disk and synced, in statistics and journal.
    Sync,
}

/// Returns true if all events were counted and logged, as far as is known.
pub(crate) fn are_whole(decisions: &[Decision]) -> bool {
    !decisions.iter().any(|decision| decision.uncounted || decision.unlogged)
}

impl DurabilityParam {
    /// Waits for it. Who asks for it forgets the events once they are answered: those that could not be counted are an
    /// error then, whatever `on_error` says.
    pub(crate) async fn hold(
        wanted: Option<DurabilityParam>,
        node: &Node,
        is_whole: bool,
    ) -> Result<(), HttpFailure> {
        let Some(DurabilityParam::Sync) = wanted else { return Ok(()) };
        if !is_whole {
            let failure = UNAVAILABLE.failure("not all events could be counted and logged");
            return Err(failure.help("send it again: what has an id counts once"));
        }
        Ok(node.engine.sync().await?)
    }
}

/// The fate of a challenge's solution that comes with an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SolutionUse {
    /// Opens it, which uses the challenge up.
    Open,
    /// Puts it aside, as the event is only looked at.
    PutAside,
}

/// Reads the body of a request for one event and does all that needs no statistics.
pub(crate) async fn submitted(
    node: &Arc<Node>,
    pipeline: &Arc<Pipeline>,
    headers: &HeaderMap,
    reading: MessageReadOptions,
    body: Bytes,
    lookups: LookupMode,
) -> Result<SubmittedEvent, HttpFailure> {
    submitted_for(node, pipeline, headers, reading, body, (lookups, SolutionUse::Open)).await
}

/// Reads the body of a request for one event, of which a solution is put aside unless it is to be opened.
pub(crate) async fn submitted_for(
    node: &Arc<Node>,
    pipeline: &Arc<Pipeline>,
    headers: &HeaderMap,
    reading: MessageReadOptions,
    body: Bytes,
    (lookups, solutions): (LookupMode, SolutionUse),
) -> Result<SubmittedEvent, HttpFailure> {
    let form = form(node, pipeline, headers, SINGLE)?;
    let said = EventMetadata::of(headers, form, reading)?;
    let arrival = node.now();
    let (of, engine, bytes) = (Arc::clone(pipeline), Arc::clone(&node.engine), body.len());
    let inline_max = said.inline_max(form);
    let work = move || said.event(&engine, &of, form, &body, arrival);
    let (mut event, warnings) = match bytes > inline_max {
        true => Box::pin(node.reading.read(bytes, |_| work())).await?,
        false => work(),
    }?;
    let id = event.id.clone();
    let payload = challenges::take_solution(pipeline, &mut event);
    if let Some(payload) = payload.filter(|_| solutions == SolutionUse::Open) {
        let solved = Box::pin(node.prepare_solved(pipeline, event, &payload, arrival));
        let (prepared, pass) = solved.await?;
        return Ok(SubmittedEvent { id, prepared, warnings, pass });
    }
    let prepared = node.prepare(pipeline, event, arrival, lookups).await?;
    Ok(SubmittedEvent { id, prepared, warnings, pass: None })
}

/// The envelope that the headers of a request with a message tell.
pub(crate) fn envelope(headers: &HeaderMap) -> Result<Envelope, HttpFailure> {
    Ok(EventMetadata::of(headers, BodyFormat::Message, MessageReadOptions::default())?.envelope)
}

/// The metadata of the event that the request gives beside its body.
#[derive(Debug, Default)]
pub(crate) struct EventMetadata {
    reading: MessageReadOptions,
    envelope: Envelope,
    id: Option<String>,
    time: Option<Time>,
}

impl EventMetadata {
    fn of(
        headers: &HeaderMap,
        form: BodyFormat,
        reading: MessageReadOptions,
    ) -> Result<EventMetadata, HttpFailure> {
        if form != BodyFormat::Message && (reading.message_time || reading.envelope.is_some()) {
            let name = if reading.message_time { "message_time" } else { "envelope" };
            return Err(INVALID_PARAMETER.failure(format!("{name}: only for messages")).help("leave it out"));
        }
        let own = || headers.keys().map(|name| name.as_str()).filter(|name| name.starts_with(PREFIX));
        if own().next().is_none() {
            return Ok(EventMetadata { reading, ..EventMetadata::default() });
        }
        for name in own() {
            if !HEADERS.iter().any(|(known, _)| *known == name) {
                let known = HEADERS.map(|(known, _)| known).join(", ");
                return Err(INVALID_PARAMETER
                    .failure(format!("{}: no such header", shown(name)))
                    .help(format!("there are: {known}")));
            }
            let fits = match form {
                BodyFormat::Message => true,
                BodyFormat::LogLine => OF_ANY.iter().any(|(known, _)| *known == name),
                BodyFormat::Json | BodyFormat::JsonArray | BodyFormat::Arrow => false,
            };
            if !fits {
                return Err(INVALID_PARAMETER
                    .failure(format!("{name}: not for this content type"))
                    .help("say it in the body"));
            }
        }
        let ip = single(headers, CLIENT_IP)?.map(|text| {
            let parsed = text.trim_matches(['[', ']']).parse();
            parsed.map_err(|_| invalid(CLIENT_IP, "expected an IPv4 or IPv6 address"))
        });
        let time = single(headers, EVENT_TIME)?.map(|text| {
            text.parse().map_err(|error: event::TimeError| invalid(EVENT_TIME, &error.to_string()))
        });
        let id = single(headers, EVENT_ID)?.filter(|id| !id.is_empty()).map(str::to_owned);
        if id.as_ref().is_some_and(|id| id.len() > Event::ID_BYTES_MAX) {
            return Err(invalid(EVENT_ID, "expected at most 256 bytes"));
        }
        let mut recipients = Vec::new();
        for value in headers.get_all(RCPT_TO.0) {
            recipients.extend(split_addresses(text(RCPT_TO, value)?));
        }
        let envelope = Envelope {
            client_ip: ip.transpose()?,
            helo: single(headers, HELO)?.map(str::to_owned),
            sender: single(headers, MAIL_FROM)?.map(str::to_owned),
            recipients,
            user: single(headers, USER)?.map(str::to_owned),
        };
        Ok(EventMetadata { reading, envelope, id, time: time.transpose()? })
    }

    /// Bytes of a body up to which its event is made where it is. A message is only copied then, and read later in a place.
    fn inline_max(&self, form: BodyFormat) -> usize {
        let is_copied =
            form == BodyFormat::Message && !self.reading.message_time && self.reading.envelope.is_none();
        if is_copied { SHORT_BYTES_MAX } else { INLINE_BYTES_MAX }
    }

    /// The event of a body, and what its answer has to warn of. Linear in the body.
    pub(crate) fn event(
        self,
        engine: &Engine,
        pipeline: &Pipeline,
        form: BodyFormat,
        body: &[u8],
        arrival: Time,
    ) -> Result<(Event, Vec<String>), HttpFailure> {
        let mut warnings = Vec::new();
        let mut event = match form {
            // Batches are cut into events before these are read.
            BodyFormat::Json | BodyFormat::JsonArray | BodyFormat::Arrow => {
                let event;
                (event, warnings) = engine.read_json(pipeline, body, arrival).map_err(not_event)?;
                event
            }
            BodyFormat::LogLine => log_line(pipeline, body)?,
            BodyFormat::Message => {
                if body.len() > content::mail::message::MESSAGE_BYTES_MAX {
                    let max = content::mail::message::MESSAGE_BYTES_MAX;
                    return Err(TOO_LARGE.failure(format!("a message has at most {max} bytes")));
                }
                if body.is_empty() {
                    return Err(INVALID_EVENT
                        .failure("the message is empty")
                        .help("send it with --data-binary"));
                }
                let own = self.reading.message_time.then(|| content::mail::message::time(body)).flatten();
                let mut event = content::mail::message::event(body, self.full_envelope(body));
                event.time = own;
                event
            }
        };
        event.id = self.id.or(event.id);
        event.time = self.time.or(event.time);
        Ok((event, warnings))
    }

    fn full_envelope(&self, message: &[u8]) -> Envelope {
        let said = self.envelope.clone();
        match self.reading.envelope {
            None => said,
            Some(EnvelopeSource::Headers) => {
                let own = Envelope::from_headers(message);
                Envelope {
                    client_ip: said.client_ip.or(own.client_ip),
                    helo: said.helo.or(own.helo),
                    sender: said.sender.or(own.sender),
                    recipients: if said.recipients.is_empty() { own.recipients } else { said.recipients },
                    user: said.user.or(own.user),
                }
            }
        }
    }
}

/// A failure of what was to be an event.
pub(crate) fn not_event(error: JsonEventError) -> HttpFailure {
    match error {
        JsonEventError::Json(JsonError::Syntax(_)) => INVALID_BODY.failure(error.to_string()),
        JsonEventError::Json(_) => INVALID_EVENT.failure(error.to_string()),
        JsonEventError::Unknown(_) => INVALID_EVENT.failure(error.to_string()).help(
            "send the fields that the pipeline has; with `unknown = \"warn\"` it judges without the others",
        ),
    }
}

fn log_line(pipeline: &Pipeline, body: &[u8]) -> Result<Event, HttpFailure> {
    let line = body.strip_suffix(b"\n").unwrap_or(body);
    if line.contains(&b'\n') {
        let failure = INVALID_EVENT.failure("expected one line, found several");
        return Err(failure.help("send lines to /v1/decide/batch"));
    }
    pipeline.access_log_event(line).map_err(|error| {
        INVALID_EVENT.failure(error.to_string()).help(match pipeline.access_log_format() {
            Some(_) => "lines are of the pipeline's own format: [access_log] `format`",
            None => "lines are of the combined format, with or without a virtual host",
        })
    })
}

fn invalid((name, _): HeaderDescription, expected: &str) -> HttpFailure {
    INVALID_PARAMETER.failure(format!("{name}: {expected}"))
}

fn text(named: HeaderDescription, value: &HeaderValue) -> Result<&str, HttpFailure> {
    // `to_str` refuses all but ASCII; addresses and names may be UTF-8 (RFC 6531).
    std::str::from_utf8(value.as_bytes()).map(str::trim).map_err(|_| invalid(named, "expected UTF-8"))
}

fn single(headers: &HeaderMap, named: HeaderDescription) -> Result<Option<&str>, HttpFailure> {
    let mut values = headers.get_all(named.0).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => text(named, value).map(Some),
        (Some(_), Some(_)) => Err(invalid(named, "given more than once")),
    }
}

/// Splits at commas, but for those within the quotes of a local part such as `"a,b"@example.org`. Ends at the most recipients
/// that a message may have.
pub(crate) fn split_addresses(list: &str) -> Vec<String> {
    let mut addresses = Vec::new();
    let (mut start, mut quoted, mut escaped) = (0, false, false);
    for (at, byte) in list.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b',' if !quoted => {
                push_address(&mut addresses, &list[start..at]);
                start = at + 1;
            }
            _ => {}
        }
        if addresses.len() == RECIPIENTS_MAX {
            return addresses;
        }
    }
    push_address(&mut addresses, &list[start..]);
    addresses
}

fn push_address(addresses: &mut Vec<String>, text: &str) {
    let address = text.trim();
    if !address.is_empty() {
        addresses.push(address.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recipients_are_split_outside_quotes() {
        let check = |list: &str, expected: &[&str]| assert_eq!(split_addresses(list), expected, "{list}");
        check("", &[]);
        check("a@x.org", &["a@x.org"]);
        check(" a@x.org ,, <b@x.org>,", &["a@x.org", "<b@x.org>"]);
        check(r#""a,b"@x.org, c@x.org"#, &[r#""a,b"@x.org"#, "c@x.org"]);
        check(r#""a\",b"@x.org,c"#, &[r#""a\",b"@x.org"#, "c"]);
        check(r#""never closed, c@x.org"#, &[r#""never closed, c@x.org"#]);
        assert_eq!(split_addresses(&"a,".repeat(3 * RECIPIENTS_MAX)).len(), RECIPIENTS_MAX);
    }

    #[test]
    fn headers_are_documented() {
        let page = include_str!("../../../../docs/reference/http.md").to_ascii_lowercase();
        for (name, _) in HEADERS.into_iter().chain([BATCH_ID]) {
            assert!(page.contains(&format!("| `{name}` ")), "`{name}` is not in docs/reference/http.md");
        }
    }

    fn check(headers: &[(&'static str, &str)], form: BodyFormat, expected: Result<(), &str>) {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_str(value).unwrap());
        }
        let outcome = EventMetadata::of(&map, form, MessageReadOptions::default()).map(|_| ());
        assert_eq!(
            outcome.map_err(|failure| failure.problem().detail),
            expected.map_err(str::to_owned),
            "{headers:?}"
        );
    }

    #[test]
    fn headers_are_checked() {
        check(
            &[("tollhouse-client-ip", "[2001:db8::1]"), ("tollhouse-mail-from", "<>")],
            BodyFormat::Message,
            Ok(()),
        );
        check(
            &[("tollhouse-client-ip", "nowhere")],
            BodyFormat::Message,
            Err("tollhouse-client-ip: expected an IPv4 or IPv6 address"),
        );
        check(
            &[("tollhouse-client-pi", "192.0.2.1")],
            BodyFormat::Message,
            Err("tollhouse-client-pi: no such header"),
        );
        check(
            &[("tollhouse-helo", "a"), ("tollhouse-helo", "b")],
            BodyFormat::Message,
            Err("tollhouse-helo: given more than once"),
        );
        check(
            &[("tollhouse-helo", "a")],
            BodyFormat::LogLine,
            Err("tollhouse-helo: not for this content type"),
        );
        check(&[("tollhouse-event-id", "a")], BodyFormat::LogLine, Ok(()));
        check(
            &[("tollhouse-event-id", "a")],
            BodyFormat::Json,
            Err("tollhouse-event-id: not for this content type"),
        );
        check(
            &[("tollhouse-event-id", &"a".repeat(257))],
            BodyFormat::LogLine,
            Err("tollhouse-event-id: expected at most 256 bytes"),
        );
        check(
            &[("tollhouse-event-time", "noon")],
            BodyFormat::LogLine,
            Err(
                "tollhouse-event-time: expected a time such as `2026-05-17T10:05:03Z`, or seconds since 1970 such as `1431857103.5`",
            ),
        );
    }
}
