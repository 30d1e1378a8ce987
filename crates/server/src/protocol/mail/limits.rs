//! Limits before a message's body: what an envelope takes from, as soon as its parts are known.

use content::mail::message::Envelope;
use engine::limit::{Take, TakeResult};
use plan::limit::LimitPlan;
use plan::{MailEnforcement, MailReply};

use super::MailListener;

/// The field whose values come one by one.
const RECIPIENT: &str = "mail.recipients";

/// The part of an envelope that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EnvelopePart {
    /// Client and sender.
    Sender,
    /// The last recipient.
    Recipient,
    /// All of a message's that has one recipient.
    All,
}

impl MailListener {
    /// Returns whether the listener's envelopes take from limits.
    pub(crate) fn has_limits(&self) -> bool {
        !self.plan.settings.limits.is_empty()
    }

    /// Takes from the limits whose fields are known with this part. What the mail server is to be asked to do, if it is not
    /// to go on.
    pub(crate) async fn limited(&self, envelope: &Envelope, part: EnvelopePart) -> Option<MailReply> {
        if !self.has_limits() {
            return None;
        }
        let plan = self.node.engine.plan();
        let ip = envelope.client_ip.map(|ip| ip.to_string());
        let value = |field: &str| match field {
            "client.ip" => ip.as_deref(),
            "client.helo" => envelope.helo.as_deref(),
            "client.user" => envelope.user.as_deref(),
            "mail.sender" => envelope.sender.as_deref(),
            "mail.recipients" => envelope.recipients.last().map(String::as_str),
            _ => None,
        };
        let by_recipient = |limit: &LimitPlan| limit.key.iter().any(|field| field.name == RECIPIENT);
        let limits = plan.limits_of(self.plan.settings.limits.iter().map(String::as_str)).into_iter();
        let wanted = limits.filter(|limit| match part {
            EnvelopePart::All => true,
            EnvelopePart::Sender => !by_recipient(limit),
            EnvelopePart::Recipient => by_recipient(limit),
        });
        // A limit that counts by what the envelope does not have does not count it.
        let takes = wanted.filter_map(|limit| {
            let key = self.node.engine.limit_key_of(limit, value).ok()?;
            Some(Take { limit, key, cost: limit.cost })
        });
        let takes: Vec<Take<'_>> = takes.collect();
        if takes.is_empty() {
            return None;
        }
        let taken = self.node.engine.take(&takes, self.node.now()).await;
        let reply = reply(&taken)?;
        let limit = TakeResult::strictest(&taken).map_or("", |taken| &taken.limit);
        tracing::info!(
            listener = self.plan.name,
            limit,
            reply = reply.name(),
            "an envelope is over its limit"
        );
        (self.plan.settings.acting == MailEnforcement::Enforce).then_some(reply)
    }
}

/// Returns the reply to takes: what is over a limit is to come again, and what is so in the shadow is taken and delivered to nobody.
fn reply(taken: &[TakeResult]) -> Option<MailReply> {
    if taken.iter().any(|taken| !taken.allowed) {
        return Some(MailReply::Defer);
    }
    taken.iter().any(|taken| taken.silent).then_some(MailReply::Discard)
}
