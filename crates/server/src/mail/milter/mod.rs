//! The mail filter protocol of Sendmail, which Postfix speaks, too: asked at each message's end, answered with what to
//! do with it.
//!
//! [`codec`] cuts bytes into commands, [`session`] knows what they mean, and here both meet a socket.

pub mod codec;
pub mod session;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use engine::{ListenerPlan, MailReply};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, interval_at, timeout};

use self::codec::{Command, Decoder, Reply, actions};
use self::session::{Agreed, Known, Received, Session, Step};
use super::answer::{Answer, OWN_FIELDS};
use super::limits::Part;
use super::{Body, Face, Message};
use crate::listen::{Stop, Stream};
use crate::pace::TooSlow;
use crate::shares::Caller;

/// Bytes that are read at once.
const READ_BYTES: usize = 16 << 10;
/// A mail server is told so often that a decision takes a while yet.
const PROGRESS: Duration = Duration::from_secs(5);
/// Before the field of this number ours are put: below the mail server's own `Received`.
const PLACE: u32 = 1;

/// Holds a conversation to its end.
pub(super) async fn converse(mut stream: Stream, face: Arc<Face>, stop: Stop) {
    match talk(&mut stream, &face, stop).await {
        Ok(()) => {}
        Err(Ending::Gone(error)) => {
            tracing::debug!(%error, listener = face.plan.name, "a mail server has gone")
        }
        Err(Ending::Silent) => tracing::debug!(listener = face.plan.name, "a mail server said nothing more"),
        Err(Ending::Slow(slow)) => face.misused(stream.client(), "slow-body", &slow),
        Err(Ending::Misuse(what)) => {
            face.misused(stream.client(), "protocol", &what);
        }
    }
}

/// Why a conversation ended before its end.
enum Ending {
    Gone(io::Error),
    Silent,
    Slow(TooSlow),
    Misuse(String),
}

impl From<io::Error> for Ending {
    fn from(error: io::Error) -> Ending {
        Ending::Gone(error)
    }
}

async fn talk(stream: &mut Stream, face: &Face, mut stop: Stop) -> Result<(), Ending> {
    let misuse = |error: &dyn std::fmt::Display| Ending::Misuse(error.to_string());
    let mut decoder = Decoder::default();
    let mut session = Session::new(wanted(&face.plan), face.has_limits());
    let caller = Caller::of_peer(stream.client());
    let mut body: Option<Body> = None;
    let mut input = vec![0; READ_BYTES];
    let mut output = Vec::new();
    loop {
        while let Some(command) = decoder.next_command().map_err(|error| misuse(&error))? {
            if matches!(command, Command::Mail(_)) {
                // One before it that neither ended nor was given up is over.
                body = None;
            }
            let mut keep = |bytes: &[u8]| {
                let body = body.get_or_insert_with(|| face.body(caller));
                body.push(bytes);
                !body.is_cut()
            };
            let step = session.handle(&command, &mut keep).map_err(|error| misuse(&error))?;
            match step {
                Step::Silent => {}
                Step::Reply(reply) => reply.encode(&mut output),
                Step::Envelope(known) => envelope(face, &mut session, known, &mut output).await,
                Step::Decide => {
                    let body = body.take().unwrap_or_else(|| face.body(caller));
                    decide(stream, face, &mut session, body, &mut output).await?;
                }
                Step::End => {
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
                Some(body) => body.paced.wait(more).await.map_err(Ending::Slow),
                None => Ok(more.await),
            }
        };
        let read = tokio::select! {
            () = stop.wanted(), if session.is_between() => return Ok(()),
            read = timeout(face.idle(), read) => read.map_err(|_| Ending::Silent)???,
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
async fn envelope(face: &Face, session: &mut Session, known: Known, output: &mut Vec<u8>) {
    let part = match known {
        Known::Sender => Part::Sender,
        Known::Recipient => Part::Recipient,
    };
    match face.limited(&session.envelope(), part).await {
        None => Reply::Continue.encode(output),
        Some(MailReply::Discard) => {
            session.refuse(Known::Sender);
            Reply::Discard.encode(output);
        }
        Some(_) => {
            session.refuse(known);
            let text = face.plan.defer_text.replace("{id}", "");
            Reply::Code(&format!("451 {}", text.trim_end())).encode(output);
        }
    }
}

/// Returns what is wanted to be done to messages, by what the listener can answer.
fn wanted(plan: &ListenerPlan) -> u32 {
    use engine::Acting;
    let tags = actions::ADD_FIELDS | actions::CHANGE_FIELDS;
    match plan.acting {
        Acting::Nothing => 0,
        Acting::Tag => tags,
        Acting::Enforce => {
            let redirects = actions::ADD_RECIPIENTS | actions::REMOVE_RECIPIENTS;
            tags | actions::QUARANTINE | plan.quarantine_to.as_ref().map_or(0, |_| redirects)
        }
    }
}

/// Decides on the message whose end has come, and writes the answer.
async fn decide(
    stream: &mut Stream,
    face: &Face,
    session: &mut Session,
    body: Body,
    output: &mut Vec<u8>,
) -> Result<(), Ending> {
    let Some(agreed) = session.agreed() else { return Ok(()) };
    let mut received = session.finish();
    let envelope = std::mem::take(&mut received.envelope);
    let recipients = envelope.recipients.clone();
    let id = received.queue_id.as_deref().and_then(|queue| face.event_id(queue));
    let deciding = face.decide(Ok(Message { body, envelope, time: None, id }));
    let mut deciding = std::pin::pin!(deciding);
    let mut ticks = interval_at(Instant::now() + PROGRESS, PROGRESS);
    let outcome = loop {
        tokio::select! {
            outcome = &mut deciding => break outcome,
            _ = ticks.tick() => {
                Reply::Progress.encode(output);
                stream.write_all(output).await?;
                output.clear();
            }
        }
    };
    let ticket = face.ticket(outcome.id(), &recipients);
    let answer = Answer::of(&face.plan, &outcome, &ticket);
    write(&face.plan, agreed, &received, &recipients, &answer, output);
    stream.write_all(output).await?;
    output.clear();
    Ok(())
}

/// Writes an answer as far as the mail server lets us: what may not be done to a message is left out, and what would be
/// held or sent elsewhere is tagged then.
fn write(
    plan: &ListenerPlan,
    agreed: Agreed,
    received: &Received,
    recipients: &[String],
    answer: &Answer,
    output: &mut Vec<u8>,
) {
    match answer.reply {
        MailReply::Reject => return Reply::Code(&format!("550 {}", answer.text)).encode(output),
        MailReply::Defer => return Reply::Code(&format!("451 {}", answer.text)).encode(output),
        MailReply::Discard => return Reply::Discard.encode(output),
        MailReply::Pass | MailReply::Tag | MailReply::Quarantine | MailReply::Redirect => {}
    }
    if agreed.may(actions::CHANGE_FIELDS) {
        let brought = OWN_FIELDS.iter().zip(received.forged);
        for (name, count) in brought.filter(|(name, _)| answer.stale.contains(name)) {
            // The last first, so that no number changes before its turn.
            (1..=count).rev().for_each(|at| Reply::RemoveField { at, name }.encode(output));
        }
    }
    if agreed.may(actions::ADD_FIELDS) {
        let blank = if agreed.steps & codec::steps::LEADING_BLANKS == 0 { "" } else { " " };
        // Each is put above the one before it.
        for (name, value) in answer.fields.iter().rev() {
            let value = &format!("{blank}{value}");
            let field = match agreed.version {
                ..=2 => Reply::AddField { name, value },
                _ => Reply::InsertField { at: PLACE, name, value },
            };
            field.encode(output);
        }
    }
    let redirects = actions::ADD_RECIPIENTS | actions::REMOVE_RECIPIENTS;
    match (answer.reply, &plan.quarantine_to) {
        (MailReply::Redirect, Some(mailbox)) if agreed.may(redirects) => {
            recipients.iter().for_each(|recipient| Reply::RemoveRecipient(recipient).encode(output));
            Reply::AddRecipient(&format!("<{mailbox}>")).encode(output);
        }
        (MailReply::Quarantine | MailReply::Redirect, _) if agreed.may(actions::QUARANTINE) => {
            Reply::Quarantine("held by Tollhouse").encode(output);
        }
        _ => {}
    }
    Reply::Accept.encode(output);
}
