//! Rules that are judged beside the enforced ones, on the same rows: what they would have done. They change nothing.

use parking_lot::{Mutex, RwLock};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use event::{Facts, Time};
use journal::RecordId;
use judge::{Action, Evaluation};

use crate::Decision;
use plan::Candidate;

/// Examples that are kept, the latest.
const EXAMPLES: usize = 32;
/// Rules of an example that are named.
const RULES: usize = 32;
/// The number of actions.
const ACTIONS: usize = Action::ALL.len();

thread_local! {
    /// Memory that judging uses.
    static OUTCOME: RefCell<Evaluation> = RefCell::default();
}

/// The tally of one candidate's comparison.
#[derive(Debug, Default)]
pub(crate) struct CandidateTally {
    /// Events by what was enforced and what the candidate says.
    actions: [[AtomicU64; ACTIONS]; ACTIONS],
    /// Events with the same action and another score.
    rescored: AtomicU64,
    examples: Mutex<VecDeque<CandidateExample>>,
}

/// The tallies of the candidates of plans that are in use.
#[derive(Debug, Default)]
pub(crate) struct CandidateTallies(RwLock<Vec<(Weak<Candidate>, Arc<CandidateTally>)>>);

impl CandidateTallies {
    /// The tally of a candidate, which begins with its first use. Those of candidates that are gone go then.
    pub(crate) fn of(&self, candidate: &Arc<Candidate>) -> Arc<CandidateTally> {
        let known = |tallies: &[(Weak<Candidate>, Arc<CandidateTally>)]| {
            let mut its = tallies.iter().filter(|(of, _)| std::ptr::eq(of.as_ptr(), Arc::as_ptr(candidate)));
            its.next().map(|(_, tally)| Arc::clone(tally))
        };
        if let Some(tally) = known(&self.0.read()) {
            return tally;
        }
        let mut tallies = self.0.write();
        known(&tallies).unwrap_or_else(|| {
            tallies.retain(|(of, _)| of.strong_count() > 0);
            let tally = Arc::<CandidateTally>::default();
            tallies.push((Arc::downgrade(candidate), Arc::clone(&tally)));
            tally
        })
    }
}

/// The comparison of a candidate with what is enforced, since either was changed.
#[derive(Clone, Debug)]
pub struct CandidateComparison {
    /// The pipeline.
    pub pipeline: String,
    /// The version that is enforced.
    pub version: String,
    /// The version that it would have with the candidate.
    pub candidate: String,
    /// Events that both judged.
    pub events: u64,
    /// Events for which they ask for different actions.
    pub disagreements: u64,
    /// Events for which they ask for the same action by different scores.
    pub rescored: u64,
    /// The number of times that each action was enforced while the candidate asked for each; none that never was.
    pub actions: Vec<(Action, Action, u64)>,
    /// The latest events for which they disagree, the newest first.
    pub examples: Vec<CandidateExample>,
}

/// An event for which enforced rules and candidate ask for different actions.
#[derive(Clone, Debug)]
pub struct CandidateExample {
    /// The decision.
    pub id: RecordId,
    /// The caller's name for the event.
    pub event_id: Option<String>,
    /// The time of the event.
    pub time: Time,
    /// The verdict that was enforced.
    pub enforced: ComparedVerdict,
    /// The verdict of the candidate.
    pub candidate: ComparedVerdict,
}

/// The verdict of rules on an event.
#[derive(Clone, Debug, PartialEq)]
pub struct ComparedVerdict {
    /// The action.
    pub action: Action,
    /// The score.
    pub score: f64,
    /// The first rules that fired, of those that are enforced or would be.
    pub rules: Vec<String>,
}

impl CandidateTally {
    /// Judges a row as the enforced rules have judged it, and counts how they compare. The action that the candidate
    /// asks for, if it is another.
    pub(crate) fn compare(&self, candidate: &Candidate, decision: &Decision, row: &Facts) -> Option<Action> {
        OUTCOME.with_borrow_mut(|outcome| {
            candidate.rules.evaluate(row, outcome);
            let (enforced, action) = (decision.verdict.action, outcome.action());
            self.actions[enforced as usize][action as usize].fetch_add(1, Ordering::Relaxed);
            if action == enforced {
                let other = outcome.score() != decision.verdict.score;
                self.rescored.fetch_add(u64::from(other), Ordering::Relaxed);
                return None;
            }
            self.remember(candidate, decision, outcome);
            Some(action)
        })
    }

    /// Keeps an example, unless another is being kept or looked at: nobody waits for that.
    fn remember(&self, candidate: &Candidate, decision: &Decision, outcome: &Evaluation) {
        let Some(mut examples) = self.examples.try_lock() else { return };
        if examples.len() >= EXAMPLES {
            examples.pop_front();
        }
        let fired = outcome.fired().iter().take(RULES);
        let rules = fired.map(|index| &candidate.rules.rules()[*index]);
        let reasons = decision.verdict.reasons.iter().take(RULES);
        examples.push_back(CandidateExample {
            id: decision.id,
            event_id: decision.event_id.clone(),
            time: decision.time,
            enforced: ComparedVerdict {
                action: decision.verdict.action,
                score: decision.verdict.score,
                rules: reasons.map(|reason| reason.rule.clone()).collect(),
            },
            candidate: ComparedVerdict {
                action: outcome.action(),
                score: outcome.score(),
                rules: rules.map(|rule| rule.name.clone()).collect(),
            },
        });
    }

    /// Returns what came of the comparison so far.
    pub(crate) fn comparison(
        &self,
        candidate: &Candidate,
        pipeline: &str,
        version: &str,
    ) -> CandidateComparison {
        let mut actions = Vec::new();
        for (enforced, row) in Action::ALL.iter().zip(&self.actions) {
            for (asked, count) in Action::ALL.iter().zip(row) {
                let count = count.load(Ordering::Relaxed);
                if count > 0 {
                    actions.push((*enforced, *asked, count));
                }
            }
        }
        let examples = self.examples.lock().iter().rev().cloned().collect();
        CandidateComparison {
            pipeline: pipeline.to_owned(),
            version: version.to_owned(),
            candidate: candidate.version.clone(),
            events: actions.iter().map(|(.., count)| count).sum(),
            disagreements: actions
                .iter()
                .filter(|(one, other, _)| one != other)
                .map(|(.., count)| count)
                .sum(),
            rescored: self.rescored.load(Ordering::Relaxed),
            actions,
            examples,
        }
    }
}
