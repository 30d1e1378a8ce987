//! Postfix's policy delegation: asked about an envelope before its message comes, answered with an action of Postfix's
//! `access(5)`.
//!
//! One message is decided on once: further requests of the same instance and state get the same answer. What cannot
//! be decided on the listener's `on_error` answers; who is not understood is closed on, and what Postfix does then is its own
//! setting.

pub mod request;

use std::sync::Arc;
use std::time::Instant;

use plan::{CountedEnvelopes, ListenerPlan, MailEnforcement, MailFailureMode, MailPlan, MailReply};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use self::request::{PolicyDecoder, PolicyRequest};
use crate::core::listener::{ListenerStream, ShutdownSignal};
use crate::core::shares::Caller;
use crate::protocol::mail::EnvelopeVerdict;
use crate::protocol::mail::MailListener;
use crate::protocol::mail::answer::TOLLHOUSE;
use crate::protocol::mail::limits::EnvelopePart;
use crate::protocol::mail::log::MailLogLine;
use crate::protocol::mail::score;

/// Bytes that are read at once.
const READ_BYTES: usize = 4 << 10;

/// A listener of policy clients.
pub(super) struct PolicyListener {
    pub(super) mail: MailListener,
    /// The messages that are counted by their envelopes.
    pub(super) counting: CountedEnvelopes,
}

/// Holds a conversation to its end.
pub(super) async fn converse(
    mut stream: ListenerStream,
    policy: Arc<PolicyListener>,
    mut stop: ShutdownSignal,
) {
    let listener = &policy.mail;
    let caller = Caller::of_peer(stream.client());
    let mut decoder = PolicyDecoder::default();
    let mut input = vec![0; READ_BYTES];
    let mut last: Option<LastPolicyAnswer> = None;
    // The message whose envelope was seen last.
    let mut message = String::new();
    loop {
        loop {
            let request = match decoder.next_request() {
                Ok(Some(request)) => request,
                Ok(None) => break,
                Err(error) => {
                    return listener.misused(stream.client(), "protocol", &error);
                }
            };
            let action = answer(&policy, caller, request, &mut last, &mut message).await;
            if stream.write_all(format!("action={action}\n\n").as_bytes()).await.is_err() {
                return;
            }
        }
        let read = tokio::select! {
            () = stop.wanted() => return,
            read = timeout(listener.idle(), stream.read(&mut input)) => read,
        };
        match read {
            Ok(Ok(read)) if read > 0 => decoder.feed(&input[..read]),
            _ => return,
        }
    }
}

/// The last answer, and what it was an answer to.
struct LastPolicyAnswer {
    instance: String,
    state: String,
    action: String,
}

/// The action for a request.
async fn answer(
    PolicyListener { mail: listener, counting }: &PolicyListener,
    caller: Caller,
    request: PolicyRequest,
    last: &mut Option<LastPolicyAnswer>,
    message: &mut String,
) -> String {
    let PolicyRequest { state, instance, envelope, queue_id } = request;
    if state == "RCPT" {
        // What hangs on the client and the sender is taken once a message, the rest for each recipient.
        let is_next = !instance.is_empty() && *message == instance;
        message.clone_from(&instance);
        let part = if is_next { EnvelopePart::Recipient } else { EnvelopePart::All };
        if let Some(reply) = listener.limited(&envelope, part).await {
            return limited(&listener.plan, reply);
        }
    }
    let same =
        last.as_ref().filter(|last| !instance.is_empty() && last.instance == instance && last.state == state);
    if let Some(last) = same {
        return last.action.clone();
    }
    let started = Instant::now();
    let line = MailLogLine::of(&envelope, Some(&queue_id));
    let action = match listener.consult(caller, envelope, listener.event_id(&instance), *counting).await {
        Ok(consulted) => {
            let action = action(&listener.plan, &consulted);
            line.consulted(&listener.plan, &consulted, &action, started.elapsed());
            action
        }
        // Asked again for the next recipient, it may be known.
        Err(_) => return undecided(&listener.plan),
    };
    *last = Some(LastPolicyAnswer { instance, state, action: action.clone() });
    action
}

/// The action for an envelope that could not be decided on.
fn undecided(plan: &ListenerPlan<MailPlan>) -> String {
    match plan.settings.on_error {
        MailFailureMode::Closed if plan.settings.acting == MailEnforcement::Enforce => {
            limited(plan, MailReply::Defer)
        }
        MailFailureMode::Open | MailFailureMode::Closed => "DUNNO".to_owned(),
    }
}

/// The action for an envelope that is over a limit.
fn limited(plan: &ListenerPlan<MailPlan>, reply: MailReply) -> String {
    match reply {
        MailReply::Discard => "DISCARD".to_owned(),
        _ => format!("DEFER_IF_PERMIT {}", plan.settings.defer_text.replace("{id}", "")),
    }
}

/// The action of `access(5)`. Texts of the configuration were checked to be one line.
fn action(plan: &ListenerPlan<MailPlan>, EnvelopeVerdict { verdict, id }: &EnvelopeVerdict) -> String {
    let reply = score::reply(plan, verdict.action);
    let id = id.map(|id| id.to_string()).unwrap_or_default();
    let field = || format!("PREPEND {TOLLHOUSE}: action={}, score={:.2}", verdict.action, verdict.score);
    match reply {
        MailReply::Pass => "DUNNO".to_owned(),
        MailReply::Tag => field(),
        MailReply::Quarantine => "HOLD held by Tollhouse".to_owned(),
        MailReply::Redirect => {
            plan.settings.quarantine_to.as_ref().map_or_else(field, |mailbox| format!("REDIRECT {mailbox}"))
        }
        MailReply::Reject => format!("REJECT {}", plan.settings.reject_text.replace("{id}", &id)),
        MailReply::Defer => format!("DEFER_IF_PERMIT {}", plan.settings.defer_text.replace("{id}", &id)),
        MailReply::Discard => "DISCARD".to_owned(),
    }
}
