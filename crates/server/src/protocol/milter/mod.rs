//! The mail filter protocol of Sendmail, which Postfix speaks, too: asked at each message's end, answered with what to
//! do with it.
//!
//! [`codec`] cuts bytes into commands, [`session`] knows what they mean, and here both meet a socket.

pub mod codec;
pub mod session;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use plan::{CountedEnvelopes, ListenerPlan, MailPlan, MailReply};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, interval_at, timeout};

use self::codec::{MilterCommand, MilterDecoder, MilterReply, actions};
use self::session::{
    EnvelopeProgress, MessageContext, MilterSession, MilterStep, NegotiatedOptions, WaitedEnvelope,
};
use crate::core::listener::{ListenerStream, ShutdownSignal};
use crate::core::pace::TooSlow;
use crate::core::shares::Caller;
use crate::protocol::mail::MailListener;
use crate::protocol::mail::answer::{MailAnswer, OWN_FIELDS};
use crate::protocol::mail::limits::EnvelopePart;
use crate::protocol::mail::log::MailLogLine;
use crate::protocol::mail::subject;
use crate::protocol::mail::{MailMessage, MessageBody};

/// Bytes that are read at once.
const READ_BYTES: usize = 16 << 10;
/// A mail server is told so often that a decision takes a while yet.
const PROGRESS: Duration = Duration::from_secs(5);
/// Before the field of this number ours are put: below the mail server's own `Received`.
const PLACE: u32 = 1;

/// A listener of milter clients.
pub(super) struct MilterListener {
    pub(super) mail: MailListener,
    /// True if envelopes are judged before their messages come.
    pub(super) envelope_first: bool,
}

/// Holds a conversation to its end.
pub(super) async fn converse(mut stream: ListenerStream, milter: Arc<MilterListener>, stop: ShutdownSignal) {
    let listener = &milter.mail;
    match talk(&mut stream, &milter, stop).await {
        Ok(()) => {}
        Err(ConversationError::Gone(error)) => {
            tracing::debug!(%error, listener = listener.plan.name, "a mail server has gone")
        }
        Err(ConversationError::Silent) => {
            tracing::debug!(listener = listener.plan.name, "a mail server said nothing more")
        }
        Err(ConversationError::Slow(slow)) => listener.misused(stream.client(), "slow-body", &slow),
        Err(ConversationError::Misuse(what)) => {
            listener.misused(stream.client(), "protocol", &what);
        }
    }
}

/// Reasons for a conversation that ended early.
enum ConversationError {
    Gone(io::Error),
    Silent,
    Slow(TooSlow),
    Misuse(String),
}

impl From<io::Error> for ConversationError {
    fn from(error: io::Error) -> ConversationError {
        ConversationError::Gone(error)
    }
}

async fn talk(
    stream: &mut ListenerStream,
    milter: &MilterListener,
    mut stop: ShutdownSignal,
) -> Result<(), ConversationError> {
    let listener = &milter.mail;
    let misuse = |error: &dyn std::fmt::Display| ConversationError::Misuse(error.to_string());
    let mut decoder = MilterDecoder::default();
    let mut session = MilterSession::new(wanted(&listener.plan), waited(milter));
    let caller = Caller::of_peer(stream.client());
    let mut body: Option<MessageBody> = None;
    let mut input = vec![0; READ_BYTES];
    let mut output = Vec::new();
    loop {
        while let Some(command) = decoder.next_command().map_err(|error| misuse(&error))? {
            if matches!(command, MilterCommand::Mail(_)) {
                // One before it that neither ended nor was given up is over.
                body = None;
            }
            let mut keep = |bytes: &[u8]| {
                let body = body.get_or_insert_with(|| listener.body(caller));
                body.push(bytes);
                !body.is_cut()
            };
            let step = session.handle(&command, &mut keep).map_err(|error| misuse(&error))?;
            match step {
                MilterStep::Silent => {}
                MilterStep::Reply(reply) => reply.encode(&mut output),
                MilterStep::Envelope(EnvelopeProgress::Whole) => {
                    whole_envelope(listener, caller, &mut session, &mut output).await;
                }
                MilterStep::Envelope(known) => envelope(listener, &mut session, known, &mut output).await,
                MilterStep::Decide => {
                    let body = body.take().unwrap_or_else(|| listener.body(caller));
                    decide(stream, listener, &mut session, body, &mut output).await?;
                }
                MilterStep::End => {
                    stream.write_all(&output).await?;
                    return Ok(());
                }
            }
            if session.is_between() {
                // What there is belongs to a message that was given up.
                body = None;
            }
        }
        stream.write_all(&output).await?;
        output.clear();
        let read = async {
            let more = stream.read(&mut input);
            match &mut body {
                Some(body) => body.paced.wait(more).await.map_err(ConversationError::Slow),
                None => Ok(more.await),
            }
        };
        let read = tokio::select! {
            () = stop.wanted(), if session.is_between() => return Ok(()),
            read = timeout(listener.idle(), read) => read.map_err(|_| ConversationError::Silent)???,
        };
        if read == 0 {
            return Ok(());
        }
        if let Some(body) = &mut body {
            body.paced.add(read);
        }
        decoder.feed(&input[..read]);
    }
}

/// Answers to an envelope's sender, or to one more of its recipients.
async fn envelope(
    listener: &MailListener,
    session: &mut MilterSession,
    known: EnvelopeProgress,
    output: &mut Vec<u8>,
) {
    let part = match known {
        EnvelopeProgress::Sender => EnvelopePart::Sender,
        EnvelopeProgress::Recipient => EnvelopePart::Recipient,
        EnvelopeProgress::Whole => EnvelopePart::All,
    };
    match listener.limited(&session.envelope(), part).await {
        None => MilterReply::Continue.encode(output),
        Some(MailReply::Discard) => {
            session.refuse(EnvelopeProgress::Sender);
            MilterReply::Discard.encode(output);
        }
        Some(_) => {
            session.refuse(known);
            let text = listener.plan.settings.defer_text.replace("{id}", "");
            MilterReply::Code(&format!("451 {}", text.trim_end())).encode(output);
        }
    }
}

/// Judges an envelope whose message comes next. What is not refused for it is judged once more, with its message.
async fn whole_envelope(
    listener: &MailListener,
    caller: Caller,
    session: &mut MilterSession,
    output: &mut Vec<u8>,
) {
    let started = std::time::Instant::now();
    let envelope = session.envelope();
    let line = MailLogLine::of(&envelope, session.queue_id());
    let id = session.queue_id().and_then(|queue| listener.event_id(queue));
    let Ok(consulted) = listener.consult(caller, envelope, id, CountedEnvelopes::Refused).await else {
        return MilterReply::Continue.encode(output);
    };
    let settings = &listener.plan.settings;
    let signed_id = consulted.id.map(|id| id.to_string()).unwrap_or_default();
    let reply = settings.replies.of(consulted.verdict.action);
    let (code, text) = match reply {
        MailReply::Reject => ("550", &settings.reject_text),
        MailReply::Defer => ("451", &settings.defer_text),
        MailReply::Discard => ("", &settings.defer_text),
        MailReply::Pass | MailReply::Tag | MailReply::Quarantine | MailReply::Redirect => {
            return MilterReply::Continue.encode(output);
        }
    };
    line.consulted(&listener.plan, &consulted, reply.name(), started.elapsed());
    session.refuse(EnvelopeProgress::Whole);
    if reply == MailReply::Discard {
        return MilterReply::Discard.encode(output);
    }
    let text = text.replace("{id}", &signed_id);
    MilterReply::Code(&format!("{code} {}", text.trim_end())).encode(output);
}

/// Returns the parts of envelopes on which replies hang. Where nothing is refused, nothing hangs on the whole.
fn waited(milter: &MilterListener) -> WaitedEnvelope {
    let refuses = milter.mail.plan.settings.acting == plan::MailEnforcement::Enforce;
    WaitedEnvelope { parts: milter.mail.has_limits(), whole: milter.envelope_first && refuses }
}

/// Returns what is wanted to be done to messages, by what the listener can answer.
fn wanted(plan: &ListenerPlan<MailPlan>) -> u32 {
    use plan::MailEnforcement;
    let tags = actions::ADD_FIELDS | actions::CHANGE_FIELDS;
    match plan.settings.acting {
        MailEnforcement::Nothing => 0,
        MailEnforcement::Tag => tags,
        MailEnforcement::Enforce => {
            let redirects = actions::ADD_RECIPIENTS | actions::REMOVE_RECIPIENTS;
            tags | actions::QUARANTINE | plan.settings.quarantine_to.as_ref().map_or(0, |_| redirects)
        }
    }
}

/// Decides on the message whose end has come, and writes the answer.
async fn decide(
    stream: &mut ListenerStream,
    listener: &MailListener,
    session: &mut MilterSession,
    body: MessageBody,
    output: &mut Vec<u8>,
) -> Result<(), ConversationError> {
    let Some(agreed) = session.agreed() else { return Ok(()) };
    let mut received = session.finish();
    let envelope = std::mem::take(&mut received.envelope);
    let recipients = envelope.recipients.clone();
    let id = received.queue_id.as_deref().and_then(|queue| listener.event_id(queue));
    let deciding = listener.decide(Ok(MailMessage { body, envelope, time: None, id }));
    let mut deciding = std::pin::pin!(deciding);
    let mut ticks = interval_at(Instant::now() + PROGRESS, PROGRESS);
    let outcome = loop {
        tokio::select! {
            outcome = &mut deciding => break outcome,
            _ = ticks.tick() => {
                MilterReply::Progress.encode(output);
                stream.write_all(output).await?;
                output.clear();
            }
        }
    };
    let signed_id = listener.id_field_action(outcome.id(), &recipients);
    let answer = MailAnswer::of(&listener.plan, &outcome, &signed_id);
    write(&listener.plan, agreed, &received, &recipients, &answer, output);
    stream.write_all(output).await?;
    output.clear();
    Ok(())
}

/// Writes an answer as far as the mail server lets us: what may not be done to a message is left out, and what would be
/// held or sent elsewhere is tagged then.
fn write(
    plan: &ListenerPlan<MailPlan>,
    agreed: NegotiatedOptions,
    received: &MessageContext,
    recipients: &[String],
    answer: &MailAnswer,
    output: &mut Vec<u8>,
) {
    match answer.reply {
        MailReply::Reject => return MilterReply::Code(&format!("550 {}", answer.text)).encode(output),
        MailReply::Defer => return MilterReply::Code(&format!("451 {}", answer.text)).encode(output),
        MailReply::Discard => return MilterReply::Discard.encode(output),
        MailReply::Pass | MailReply::Tag | MailReply::Quarantine | MailReply::Redirect => {}
    }
    if agreed.may(actions::CHANGE_FIELDS) {
        let brought = OWN_FIELDS.iter().zip(received.forged);
        for (name, count) in brought.filter(|(name, _)| answer.stale.contains(name)) {
            // The last first, so that no number changes before its turn.
            (1..=count).rev().for_each(|at| MilterReply::RemoveField { at, name }.encode(output));
        }
    }
    if agreed.may(actions::ADD_FIELDS) {
        let blank = if agreed.steps & codec::steps::LEADING_BLANKS == 0 { "" } else { " " };
        // Each is put above the one before it.
        for (name, value) in answer.fields.iter().rev() {
            let value = &format!("{blank}{value}");
            let field = match agreed.version {
                ..=2 => MilterReply::AddField { name, value },
                _ => MilterReply::InsertField { at: PLACE, name, value },
            };
            field.encode(output);
        }
    }
    let redirects = actions::ADD_RECIPIENTS | actions::REMOVE_RECIPIENTS;
    let is_held = match (answer.reply, &plan.settings.quarantine_to) {
        (MailReply::Redirect, Some(mailbox)) if agreed.may(redirects) => {
            recipients.iter().for_each(|recipient| MilterReply::RemoveRecipient(recipient).encode(output));
            MilterReply::AddRecipient(&format!("<{mailbox}>")).encode(output);
            true
        }
        (MailReply::Quarantine | MailReply::Redirect, _) if agreed.may(actions::QUARANTINE) => {
            MilterReply::Quarantine("held by Tollhouse").encode(output);
            true
        }
        _ => false,
    };
    if answer.reply != MailReply::Pass && !is_held {
        tag_subject(plan, agreed, received, output);
    }
    MilterReply::Accept.encode(output);
}

/// Puts the listener's tag before the subject of a message that is delivered as spam.
fn tag_subject(
    plan: &ListenerPlan<MailPlan>,
    agreed: NegotiatedOptions,
    received: &MessageContext,
    output: &mut Vec<u8>,
) {
    let Some(tag) = &plan.settings.subject_tag else { return };
    let Some(mut value) = subject::tagged(received.subject.as_deref().unwrap_or_default(), tag) else {
        return;
    };
    if agreed.steps & codec::steps::LEADING_BLANKS != 0 {
        value.insert(0, b' ');
    }
    if received.subject.is_some() && agreed.may(actions::CHANGE_FIELDS) {
        MilterReply::ChangeField { at: 1, name: "Subject", value: &value }.encode(output);
    } else if received.subject.is_none() && agreed.may(actions::ADD_FIELDS) {
        let value = &String::from_utf8_lossy(&value);
        MilterReply::AddField { name: "Subject", value }.encode(output);
    }
}
