//! The line that the log has of each message: from whom, to whom, what was decided, by which rules, and how long it took.

use std::time::Duration;

use content::mail::message::Envelope;
use plan::{ListenerPlan, MailPlan};

use super::score;
use super::{EnvelopeVerdict, MessageOutcome};
use crate::core::log_text::{named, on_one_line, rules};

/// Characters of a name that somebody else has chosen.
const CHARS_MAX: usize = 200;

/// The facts that are known of a message before it is judged.
pub(crate) struct MailLogLine {
    id: String,
    client: String,
    from: String,
    to: String,
}

impl MailLogLine {
    pub(crate) fn of(envelope: &Envelope, id: Option<&str>) -> MailLogLine {
        let text = |text: &str| on_one_line(text, CHARS_MAX);
        MailLogLine {
            id: text(id.unwrap_or_default()),
            client: envelope.client_ip.map(|ip| ip.to_string()).unwrap_or_default(),
            from: text(envelope.sender.as_deref().unwrap_or_default()),
            to: named(envelope.recipients.len(), envelope.recipients.iter().map(|recipient| text(recipient))),
        }
    }

    /// Tells what was thought of an envelope, and answered.
    pub(crate) fn consulted(
        &self,
        plan: &ListenerPlan<MailPlan>,
        consulted: &EnvelopeVerdict,
        answer: &str,
        took: Duration,
    ) {
        let MailLogLine { id: queue_id, client, from, to } = self;
        let EnvelopeVerdict { verdict, id } = consulted;
        let (listener, ms) = (&plan.name, took.as_millis() as u64);
        let id = id.map(|id| id.to_string()).unwrap_or_default();
        let (action, score, rules) = (verdict.action, verdict.score, rules(verdict));
        tracing::info!(
            listener, queue_id, client, from, to, id, %action, answer, score, rules, ms, "answered"
        );
    }

    pub(crate) fn write(&self, plan: &ListenerPlan<MailPlan>, outcome: &MessageOutcome, took: Duration) {
        let MailLogLine { id: queue_id, client, from, to } = self;
        let (listener, ms) = (&plan.name, took.as_millis() as u64);
        match outcome {
            MessageOutcome::Decided(decision) => {
                let verdict = &decision.verdict;
                let (id, action, score) = (decision.id, verdict.action, verdict.score);
                let reply = score::reply(plan, action).name();
                let rules = rules(verdict);
                tracing::info!(
                    listener, queue_id, client, from, to, %id, %action, reply, score, rules, ms, "answered"
                );
            }
            MessageOutcome::FailOpen(failure) | MessageOutcome::FailClosed(failure) => {
                let reply = if matches!(outcome, MessageOutcome::FailOpen(_)) { "pass" } else { "defer" };
                tracing::warn!(listener, queue_id, client, from, to, %failure, reply, ms, "not decided on");
            }
        }
    }
}
