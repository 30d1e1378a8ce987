//! Counters of a listener for `/stat` and `/auth`, since it was started.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use engine::TrainingTotal;
use serde_json::{Map, Value, json};

use super::answer::{ACTIONS, RspamdResult};

/// The most durations, as in Rspamd.
const TIMES_MAX: usize = 31;

/// Counts of one listener.
#[derive(Debug)]
pub(crate) struct RspamdTally {
    started: Instant,
    actions: [AtomicU64; ACTIONS.len()],
    spam: AtomicU64,
    ham: AtomicU64,
    pub(crate) connections: AtomicU64,
    /// The latest durations, in seconds.
    times: Mutex<VecDeque<f64>>,
}

impl Default for RspamdTally {
    fn default() -> RspamdTally {
        RspamdTally {
            started: Instant::now(),
            actions: Default::default(),
            spam: AtomicU64::default(),
            ham: AtomicU64::default(),
            connections: AtomicU64::default(),
            times: Mutex::default(),
        }
    }
}

/// Messages that were learned: by the classifier that knows most, as each learns the same ones.
fn total(classifiers: &[TrainingTotal]) -> u64 {
    classifiers.iter().map(|of| of.bad.saturating_add(of.good)).max().unwrap_or(0)
}

impl RspamdTally {
    /// Counts a message.
    pub(crate) fn scanned(&self, judged: &RspamdResult, took: Duration) {
        if let Some(index) = ACTIONS.iter().position(|action| *action == judged.action) {
            self.actions[index].fetch_add(1, Relaxed);
        }
        if judged.is_spam() { &self.spam } else { &self.ham }.fetch_add(1, Relaxed);
        let mut times = self.times.lock();
        if times.len() == TIMES_MAX {
            times.pop_front();
        }
        times.push_back(took.as_secs_f64());
    }

    fn common(&self, version: &str, learned: u64) -> Map<String, Value> {
        let scanned: u64 = self.actions.iter().map(|count| count.load(Relaxed)).sum();
        let members = [
            ("version", json!(env!("CARGO_PKG_VERSION"))),
            ("config_id", json!(version)),
            ("uptime", json!(self.started.elapsed().as_secs())),
            ("read_only", json!(false)),
            ("scanned", json!(scanned)),
            ("learned", json!(learned)),
        ];
        members.map(|(name, value)| (name.to_owned(), value)).into_iter().collect()
    }

    /// The answer to `/stat`, with what classifiers have learned, from whomever. What Rspamd says of its memory is 0.
    pub(crate) fn stat(&self, version: &str, classifiers: &[TrainingTotal]) -> Value {
        let mut answer = self.common(version, total(classifiers));
        let actions = ACTIONS.iter().zip(&self.actions);
        let actions: Map<String, Value> =
            actions.map(|(name, count)| ((*name).to_owned(), json!(count.load(Relaxed)))).collect();
        let times: Vec<f64> = self.times.lock().iter().copied().collect();
        let class = |of: &TrainingTotal, class: &str, learned: u64| {
            json!({
                "symbol": format!("{}_{class}", of.classifier.to_uppercase()), "type": "ledger",
                "revision": learned, "used": 0, "total": 0, "size": 0, "languages": 0, "users": 1,
            })
        };
        let classes: Vec<Value> = classifiers
            .iter()
            .flat_map(|of| [class(of, "SPAM", of.bad), class(of, "HAM", of.good)])
            .collect();
        let members = [
            ("actions", Value::from(actions)),
            ("scan_times", json!(times)),
            ("spam_count", json!(self.spam.load(Relaxed))),
            ("ham_count", json!(self.ham.load(Relaxed))),
            ("connections", json!(self.connections.load(Relaxed))),
            ("control_connections", json!(0)),
            ("pools_allocated", json!(0)),
            ("pools_freed", json!(0)),
            ("bytes_allocated", json!(0)),
            ("chunks_allocated", json!(0)),
            ("shared_chunks_allocated", json!(0)),
            ("chunks_freed", json!(0)),
            ("chunks_oversized", json!(0)),
            ("fragmented", json!(0)),
            ("total_learns", json!(total(classifiers))),
            ("statfiles", json!(classes)),
            ("fuzzy_hashes", json!({})),
        ];
        answer.extend(members.map(|(name, value)| (name.to_owned(), value)));
        Value::from(answer)
    }

    /// The answer to `/auth`, of which `rspamc uptime` shows a part.
    pub(crate) fn auth(&self, version: &str, classifiers: &[TrainingTotal]) -> Value {
        let mut answer = self.common(version, total(classifiers));
        let names = ["clean", "greylist", "probable", "rewrite_subject", "soft_reject", "reject"];
        answer.insert("auth".to_owned(), json!("ok"));
        for (name, count) in names.iter().zip(&self.actions) {
            answer.insert((*name).to_owned(), json!(count.load(Relaxed)));
        }
        Value::from(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scans_are_counted_by_action() {
        let tally = RspamdTally::default();
        for _ in 0..40 {
            tally.scanned(&RspamdResult::skipped(true), Duration::from_millis(500));
        }
        tally.scanned(&RspamdResult::skipped(false), Duration::from_secs(2));
        let learned = TrainingTotal { classifier: "learned".to_owned(), bad: 1, good: 2 };
        let stat = tally.stat("v", &[learned]);
        assert_eq!(stat["statfiles"][1]["symbol"], "LEARNED_HAM");
        assert_eq!(
            (&stat["scanned"], &stat["ham_count"], &stat["learned"]),
            (&json!(41), &json!(41), &json!(3))
        );
        assert_eq!(stat["actions"]["no action"], 40);
        assert_eq!(stat["actions"]["soft reject"], 1);
        let times = stat["scan_times"].as_array().unwrap();
        assert_eq!((times.len(), &times[30]), (TIMES_MAX, &json!(2.0)));
        assert_eq!(tally.auth("v", &[])["clean"], 40);
    }
}
