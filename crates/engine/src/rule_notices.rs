//! The notices of rules: effects `notify` of decisions, for who sends them on.
//!
//! Deciding costs nothing more unless a rule notifies a place that the configuration has. Notices wait in a queue with a bound;
//! what finds no room is counted, and lost.

use std::collections::{BTreeMap, VecDeque};

use event::{Time, Value};
use journal::RecordId;
use judge::{Action, Effect};
use parking_lot::Mutex;

use crate::Engine;
use crate::pipeline::Decision;
use crate::pipeline::observe::ObservedBatch;

/// Most notices that wait.
const NOTICES_MAX: usize = 2048;

/// The notice of a rule.
#[derive(Clone, Debug, PartialEq)]
pub struct RuleNotice {
    /// The place that is notified.
    pub whom: String,
    /// The pipeline.
    pub pipeline: String,
    /// The rule.
    pub rule: String,
    /// The decision.
    pub decision: RecordId,
    /// The caller's name for the event.
    pub event_id: Option<String>,
    /// The action that was decided.
    pub action: Action,
    /// The score.
    pub score: f64,
    /// The time of the event.
    pub time: Time,
    /// The address of the client, where the event has one and the journal shows it.
    pub address: Option<String>,
}

/// The notices that wait.
#[derive(Debug, Default)]
pub(crate) struct RuleNotices(Mutex<WaitingNotices>);

#[derive(Debug, Default)]
struct WaitingNotices {
    notices: VecDeque<RuleNotice>,
    /// The number of notices that found no room, by place.
    lost: BTreeMap<String, u64>,
}

impl RuleNotices {
    fn put(&self, notices: Vec<RuleNotice>) {
        let mut waiting = self.0.lock();
        for notice in notices {
            if waiting.notices.len() < NOTICES_MAX {
                waiting.notices.push_back(notice);
            } else {
                *waiting.lost.entry(notice.whom).or_default() += 1;
            }
        }
    }
}

impl Engine {
    /// Takes the notices that wait, and the number of those that found no room since the last time, by place.
    pub fn take_rule_notices(&self) -> (Vec<RuleNotice>, BTreeMap<String, u64>) {
        let mut waiting = self.notices.0.lock();
        (waiting.notices.drain(..).collect(), std::mem::take(&mut waiting.lost))
    }

    /// Keeps the notices of decisions for places that the configuration has.
    pub(crate) fn keep_notices(&self, observed: &ObservedBatch, decisions: &[Decision]) {
        let notifies = |decision: &Decision| {
            !decision.duplicate
                && decision.verdict.effects.iter().any(|due| matches!(due.effect, Effect::Notify(_)))
        };
        if !decisions.iter().any(notifies) {
            return;
        }
        let plan = self.plan();
        let mut notices = Vec::new();
        for (observed, decision) in observed.events().zip(decisions).filter(|(_, one)| notifies(one)) {
            let row = &observed.prepared.row;
            let slot = row.pipeline.schema.slot("client.ip");
            let address = slot.and_then(|slot| match row.facts.get(slot) {
                Some(Value::Ip(address)) => Some(address.to_string()),
                _ => None,
            });
            for due in &decision.verdict.effects {
                let Effect::Notify(whom) = &due.effect else { continue };
                if !plan.notifications.iter().any(|place| *place.name == **whom) {
                    continue;
                }
                notices.push(RuleNotice {
                    whom: whom.clone(),
                    pipeline: row.pipeline.name.clone(),
                    rule: due.rule.clone(),
                    decision: decision.id,
                    event_id: decision.event_id.clone(),
                    action: decision.verdict.action,
                    score: decision.verdict.score,
                    time: decision.time,
                    address: address.clone(),
                });
            }
        }
        self.notices.put(notices);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notices_without_room_are_counted() {
        let notices = RuleNotices::default();
        let notice = RuleNotice {
            whom: "ops".to_owned(),
            pipeline: "web".to_owned(),
            rule: "A".to_owned(),
            decision: RecordId::first_of(Time::from_seconds(1)),
            event_id: None,
            action: Action::Accept,
            score: 0.0,
            time: Time::from_seconds(1),
            address: None,
        };
        notices.put(vec![notice; NOTICES_MAX + 3]);
        let waiting = notices.0.lock();
        assert_eq!((waiting.notices.len(), waiting.lost["ops"]), (NOTICES_MAX, 3));
    }
}
