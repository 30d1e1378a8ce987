//! SpamAssassin's protocol: `spamc`, Exim's `spam=` and all else that asks a spamd.
//!
//! One request a connection: [`command`](crate::protocol::mail::command) reads its head, [`answer`] says what is answered, here is what
//! happens in between. The protocol has no envelope: it is read from the fields that the local mail server wrote.

mod answer;

use std::sync::Arc;

use content::mail::message::Envelope;
use tokio::time::timeout;

use self::answer::{STALE, SpamcCommand, SpamdExitCode, SpamdResult, pong, refusal, tell_response};
use crate::core::listener::{ListenerStream, ShutdownSignal};
use crate::core::listener_context::DecisionFailure;
use crate::core::shares::Caller;
use crate::protocol::content_encoding::{DecompressError, MessageEncoding};
use crate::protocol::mail::MailListener;
use crate::protocol::mail::command::{HeaderLines, RequestLine};
use crate::protocol::mail::command_reader::{CommandReadError, CommandReader};
use crate::protocol::mail::score::defers;
use crate::protocol::mail::{LearnError, MailMessage, MessageBody, MessageOutcome, decompressed, header};

/// Holds the one exchange of a connection.
pub(super) async fn converse(stream: ListenerStream, listener: Arc<MailListener>, mut stop: ShutdownSignal) {
    let mut reader = CommandReader::new(stream, Vec::new());
    let name = listener.plan.name.as_str();
    // All of a request has to come within the time that a connection may be silent.
    let exchange = timeout(listener.idle(), async {
        tokio::select! {
            () = stop.wanted() => return Ok(None),
            more = reader.more() => if more?.is_empty() { return Ok(None) },
        }
        request(&mut reader, &listener).await
    });
    let asked = match exchange.await {
        Ok(Ok(Some(asked))) => asked,
        Ok(Ok(None)) => return,
        Ok(Err(CommandReadError::Gone(error))) => {
            tracing::debug!(%error, listener = name, "a request was not finished");
            return;
        }
        Ok(Err(CommandReadError::Slow(slow))) => {
            listener.misused(reader.client(), "slow-body", &slow);
            SpamcRequest::Answered(refusal(SpamdExitCode::TemporaryFailure, &slow.to_string()))
        }
        Ok(Err(error)) => {
            tracing::debug!(%error, listener = name, "a request was refused");
            SpamcRequest::Answered(refusal(SpamdExitCode::Protocol, &error.to_string()))
        }
        Err(_) => {
            tracing::debug!(listener = name, "a request did not come in time");
            return;
        }
    };
    let answer = match asked {
        SpamcRequest::Answered(answer) => answer,
        SpamcRequest::Message(request) => answered(&listener, *request).await,
    };
    if let Err(error) = reader.finish(&answer).await {
        tracing::debug!(%error, listener = name, "an answer was not taken");
    }
}

/// A request that was read.
enum SpamcRequest {
    /// The request needs no message.
    Answered(Vec<u8>),
    Message(Box<MessageRequest>),
}

/// A command with its message.
struct MessageRequest {
    command: SpamcCommand,
    line: RequestLine,
    headers: HeaderLines,
    body: MessageBody,
}

/// Reads a request; `None` for one that wants no answer.
async fn request(
    reader: &mut CommandReader,
    listener: &MailListener,
) -> Result<Option<SpamcRequest>, CommandReadError> {
    let line = reader.line().await?;
    let command = SpamcCommand::named(&line.command).filter(|_| line.protocol == "SPAMC");
    let command = match command {
        Some(SpamcCommand::Skip) => return Ok(None),
        Some(SpamcCommand::Ping) => return Ok(Some(SpamcRequest::Answered(pong()))),
        Some(command) => command,
        None => {
            return Ok(Some(SpamcRequest::Answered(refusal(
                SpamdExitCode::Protocol,
                "no such command of SPAMC",
            ))));
        }
    };
    // The first version of the protocol had no headers.
    let headers = if line.version > (1, 0) { reader.headers().await? } else { HeaderLines::default() };
    let length = headers.content_length()?;
    let mut body = listener.body(Caller::of_peer(reader.client()));
    reader.body(length, &mut body).await?;
    Ok(Some(SpamcRequest::Message(Box::new(MessageRequest { command, line, headers, body }))))
}

async fn answered(listener: &MailListener, request: MessageRequest) -> Vec<u8> {
    let MessageRequest { command, line, headers, body } = request;
    let body = match plain(listener, &headers, body).await {
        Ok(body) => body,
        Err(refused) => return refused,
    };
    if command == SpamcCommand::Tell {
        return tell(listener, &headers, body).await;
    }
    // To give back a message of which a part is missing would lose mail.
    let gives_back = matches!(command, SpamcCommand::Process | SpamcCommand::Headers);
    if gives_back && !body.is_whole() {
        return refusal(SpamdExitCode::Unavailable, "the message is too large to be given back");
    }
    let bytes = body.bytes().len();
    let read = move || {
        let given_back = gives_back.then(|| body.part(body.bytes()));
        (message(body), given_back)
    };
    let (message, given_back) = listener
        .aside(bytes, read)
        .await
        .map_or_else(|late| (Err(late), None), |(message, given_back)| (Ok(message), given_back));
    let outcome = listener.decide(message).await;
    // The protocol does not say to whom a message goes, and what its fields say of that anybody can write.
    let signed_id = listener.id_field_action(outcome.id(), &[]);
    let judged = match outcome {
        MessageOutcome::Decided(decision) => SpamdResult::of(&decision, &listener.plan, signed_id),
        MessageOutcome::FailOpen(_) => Some(SpamdResult::passed()),
        MessageOutcome::FailClosed(_) if !defers(&listener.plan) => Some(SpamdResult::passed()),
        MessageOutcome::FailClosed(failure) => {
            return refusal(SpamdExitCode::TemporaryFailure, &failure.to_string());
        }
    };
    let Some(judged) = judged else {
        return refusal(SpamdExitCode::TemporaryFailure, "the message is to be sent again later");
    };
    if !gives_back {
        return judged.answer(command, &line, &[]);
    }
    // What cannot be given back, because it was not even looked at, nobody may take for empty.
    let Some(body) = given_back.filter(MessageBody::is_whole) else {
        return refusal(SpamdExitCode::TemporaryFailure, &DecisionFailure::Overloaded.to_string());
    };
    match listener.aside(bytes, move || judged.answer(command, &line, body.bytes())).await {
        Ok(answer) => answer,
        Err(late) => refusal(SpamdExitCode::TemporaryFailure, &late.to_string()),
    }
}

/// The message without its compression.
async fn plain(
    listener: &MailListener,
    headers: &HeaderLines,
    body: MessageBody,
) -> Result<MessageBody, Vec<u8>> {
    let Some(encoding) = headers.get("compress") else { return Ok(body) };
    if !encoding.eq_ignore_ascii_case("zlib") {
        return Err(refusal(SpamdExitCode::Protocol, "(compression type not supported)"));
    }
    match decompressed(listener, body, MessageEncoding::Zlib).await {
        Ok(body) => Ok(body),
        Err(error @ DecompressError::Damaged) => Err(refusal(SpamdExitCode::Protocol, &error.to_string())),
        Err(error @ (DecompressError::TooLarge | DecompressError::TooCostly | DecompressError::Slow)) => {
            Err(refusal(SpamdExitCode::Unavailable, &error.to_string()))
        }
    }
}

/// The message as it is judged and learned: as it came from the sender's side, with an envelope from what the local
/// mail server wrote into it.
fn message(body: MessageBody) -> MailMessage {
    let (said, bytes) = header::unwrapped(body.bytes());
    let own = Envelope::from_headers(bytes);
    let start = body.bytes().len() - bytes.len();
    let envelope = Envelope {
        sender: said.sender.or(own.sender),
        recipients: if said.recipients.is_empty() { own.recipients } else { said.recipients },
        ..own
    };
    MailMessage { body: body.after(start), envelope, time: None, id: None }
}

/// Takes in what somebody says about a message.
async fn tell(listener: &MailListener, headers: &HeaderLines, body: MessageBody) -> Vec<u8> {
    if !listener.plan.settings.learn {
        return refusal(
            SpamdExitCode::Unavailable,
            "TELL commands are not enabled, set `learn = true` for this listener",
        );
    }
    let names = |name: &str, place: &str| {
        headers.get(name).is_some_and(|value| value.to_ascii_lowercase().contains(place))
    };
    let [set_local, set_remote] = ["local", "remote"].map(|place| names("set", place));
    let [remove_local, remove_remote] = ["local", "remote"].map(|place| names("remove", place));
    if set_local && remove_local || set_remote && remove_remote {
        return refusal(SpamdExitCode::Protocol, "(to set and to remove the same is not possible)");
    }
    let class = headers.get("message-class").map(str::to_ascii_lowercase);
    let sets = set_local || set_remote;
    let class = match class.as_deref() {
        Some(class @ ("spam" | "ham")) => Some(class),
        None if !sets => None,
        _ => return refusal(SpamdExitCode::Protocol, "(Message-class header contains invalid class)"),
    };
    // What this program or a spamd has put in is not the sender's.
    let body = Arc::new(body);
    let cleaned = || {
        let whole = Arc::clone(&body);
        let clean = move || message(whole.part(&header::without(whole.bytes(), &STALE)));
        listener.aside(body.bytes().len(), clean)
    };
    let (mut set, mut removed) = (Vec::new(), Vec::new());
    if let Some(class) = class.filter(|_| sets) {
        match listener.learn(cleaned().await, class).await {
            Ok(outcome) if outcome.duplicate => {}
            Ok(_) => {
                set.extend(Some("local").filter(|_| set_local));
                set.extend(Some("remote").filter(|_| set_remote));
                // To revoke a report is to say that the message is wanted.
                removed.extend(Some("remote").filter(|_| remove_remote && class == "ham"));
            }
            Err(error) => return unlearned(&error),
        }
    } else if remove_local {
        match listener.unlearn(cleaned).await {
            Ok(known) => removed.extend(Some("local").filter(|_| known)),
            Err(error) => return unlearned(&error),
        }
    }
    tell_response(&set, &removed)
}

/// Returns what is told of what could not be learned, or forgotten.
fn unlearned(error: &LearnError) -> Vec<u8> {
    match error {
        LearnError::NoClass(_) => refusal(SpamdExitCode::Unavailable, &error.to_string()),
        LearnError::Failure(failure) => refusal(SpamdExitCode::TemporaryFailure, &failure.to_string()),
    }
}
