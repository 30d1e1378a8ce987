//! Counts of a command at work, and the summary at its end.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::time::{Duration, Instant};

use indicatif::HumanCount;
use judge::Action;
use server::api::DecisionJson;

/// Verdicts by action and fired rules, since it was begun.
pub(crate) struct VerdictTally {
    what: &'static str,
    started: Instant,
    decided: u64,
    actions: HashMap<Action, u64>,
    rules: BTreeMap<String, u64>,
    /// The number of inputs that could not be read, or were no event.
    pub(crate) bad: u64,
}

impl VerdictTally {
    /// Begins to count things of this name.
    pub(crate) fn new(what: &'static str) -> VerdictTally {
        let (actions, rules) = (HashMap::new(), BTreeMap::new());
        VerdictTally { what, started: Instant::now(), decided: 0, actions, rules, bad: 0 }
    }

    /// Counts a decision.
    pub(crate) fn add(&mut self, decision: &DecisionJson) {
        self.count(decision.action, decision.reasons.iter().map(|reason| reason.name.as_str()));
    }

    /// Counts a decision with this action, for which these rules fired.
    pub(crate) fn count<'r>(&mut self, action: Action, rules: impl Iterator<Item = &'r str>) {
        self.decided += 1;
        *self.actions.entry(action).or_default() += 1;
        for rule in rules {
            match self.rules.get_mut(rule) {
                Some(count) => *count += 1,
                None => _ = self.rules.insert(rule.to_owned(), 1),
            }
        }
    }

    /// The rules that fired most often, with their counts.
    pub(crate) fn top_rules(&self, limit: usize) -> Vec<(&str, u64)> {
        let mut rules: Vec<(&str, u64)> =
            self.rules.iter().map(|(name, count)| (name.as_str(), *count)).collect();
        rules.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        rules.truncate(limit);
        rules
    }
}

impl fmt::Display for VerdictTally {
    /// `3,023 messages in 2.1 s (1,430/s): accept 2,500, tag 523; 2 not read`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let took = self.started.elapsed();
        let rate = per_second(self.decided, took).round() as u64;
        write!(
            f,
            "{} {} in {:.1} s ({}/s)",
            HumanCount(self.decided),
            self.what,
            took.as_secs_f64(),
            HumanCount(rate)
        )?;
        let mut before = ": ";
        for action in Action::ALL {
            if let Some(count) = self.actions.get(&action) {
                write!(f, "{before}{action} {}", HumanCount(*count))?;
                before = ", ";
            }
        }
        if self.bad > 0 {
            write!(f, "; {} not read", HumanCount(self.bad))?;
        }
        Ok(())
    }
}

/// Returns the number of times that something happened in a second.
pub(crate) fn per_second(count: u64, took: Duration) -> f64 {
    count as f64 / took.as_secs_f64().max(1e-9)
}
