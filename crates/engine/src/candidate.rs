//! Rules that are judged beside the enforced ones, on the same rows: what they would have done, and where they decide, as a canary,
//! what the enforced ones would have done. Whichever is judged beside changes nothing.

use parking_lot::{Mutex, RwLock};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use event::{Facts, TableIndex, Time};
use journal::RecordId;
use judge::{Action, Evaluation, Rule};

use crate::Decision;
use crate::pipeline::canary::DECIDED_BY_CANDIDATE;
use plan::{CanaryScope, Candidate, EffectPlan, Pipeline};

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
    /// Events for which the candidate decided.
    decided: AtomicU64,
    /// Events on whose keys the enforced rules put each label, or would, and those on whose keys the candidate does.
    labels: Mutex<Vec<[u64; 2]>>,
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
    /// The events for which the candidate decides, if there are any.
    pub canary: Option<CanaryScope>,
    /// Events for which it has decided.
    pub decided: u64,
    /// The labels that either puts on keys: the name, and on keys of how many events the enforced rules put it, or would, and the
    /// candidate; none that neither put.
    pub labels: Vec<(String, u64, u64)>,
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
    /// Judges a row by the rules that have not decided, and counts how they compare. What the enforced rules and the candidate ask
    /// for, if that differs.
    pub(crate) fn compare(
        &self,
        enforced: &Pipeline,
        candidate: &Candidate,
        decision: &Decision,
        row: &Facts,
    ) -> Option<(Action, Action)> {
        let has_decided = !std::ptr::eq(enforced, Arc::as_ptr(&decision.pipeline));
        let (decided_by, beside) = if has_decided {
            (&candidate.rules, &enforced.rules)
        } else {
            (&enforced.rules, &candidate.rules)
        };
        OUTCOME.with_borrow_mut(|outcome| {
            beside.evaluate(row, outcome);
            let reasons = decision.verdict.reasons.iter();
            let fired = reasons.filter_map(|reason| decided_by.index(&reason.rule));
            let order = |decided, other| if has_decided { [other, decided] } else { [decided, other] };
            let [by_enforced, by_candidate] = if has_decided {
                let decided = labels(&candidate.effects, fired);
                [labels(&enforced.effects, outcome.fired().iter().copied()), decided]
            } else {
                let decided = labels(&enforced.effects, fired);
                [decided, labels(&candidate.effects, outcome.fired().iter().copied())]
            };
            self.count_labels(&by_enforced, &by_candidate);
            self.decided.fetch_add(u64::from(has_decided), Ordering::Relaxed);
            let [of_enforced, of_candidate] = order(decision.verdict.action, outcome.action());
            self.actions[of_enforced as usize][of_candidate as usize].fetch_add(1, Ordering::Relaxed);
            if of_enforced == of_candidate {
                let other = outcome.score() != decision.verdict.score;
                self.rescored.fetch_add(u64::from(other), Ordering::Relaxed);
                return None;
            }
            let rules = decision.verdict.reasons.iter().filter(|reason| reason.rule != DECIDED_BY_CANDIDATE);
            let decided = ComparedVerdict {
                action: decision.verdict.action,
                score: decision.verdict.score,
                rules: rules.take(RULES).map(|reason| reason.rule.clone()).collect(),
            };
            let fired = outcome.fired().iter().take(RULES).map(|index| &beside.rules()[*index]);
            let other = ComparedVerdict {
                action: outcome.action(),
                score: outcome.score(),
                rules: fired.map(|rule| rule.name.clone()).collect(),
            };
            let (enforced, candidate) = if has_decided { (other, decided) } else { (decided, other) };
            self.remember(CandidateExample {
                id: decision.id,
                event_id: decision.event_id.clone(),
                time: decision.time,
                enforced,
                candidate,
            });
            Some((of_enforced, of_candidate))
        })
    }

    /// Counts an event under the labels that its keys get.
    fn count_labels(&self, by_enforced: &[usize], by_candidate: &[usize]) {
        if by_enforced.is_empty() && by_candidate.is_empty() {
            return;
        }
        let mut counts = self.labels.lock();
        for (side, labels) in [by_enforced, by_candidate].into_iter().enumerate() {
            for label in labels {
                if counts.len() <= *label {
                    counts.resize(label + 1, [0; 2]);
                }
                counts[*label][side] += 1;
            }
        }
    }

    /// Keeps an example, unless another is being kept or looked at: nobody waits for that.
    fn remember(&self, example: CandidateExample) {
        let Some(mut examples) = self.examples.try_lock() else { return };
        if examples.len() >= EXAMPLES {
            examples.pop_front();
        }
        examples.push_back(example);
    }

    /// Returns what came of the comparison so far.
    pub(crate) fn comparison(&self, candidate: &Candidate, pipeline: &Pipeline) -> CandidateComparison {
        let mut actions = Vec::new();
        for (enforced, row) in Action::ALL.iter().zip(&self.actions) {
            for (asked, count) in Action::ALL.iter().zip(row) {
                let count = count.load(Ordering::Relaxed);
                if count > 0 {
                    actions.push((*enforced, *asked, count));
                }
            }
        }
        let counts = self.labels.lock().clone();
        let labels = pipeline.labels.iter().zip(counts).filter(|(_, counts)| *counts != [0; 2]);
        let examples = self.examples.lock().iter().rev().cloned().collect();
        CandidateComparison {
            pipeline: pipeline.name.clone(),
            version: pipeline.version.clone(),
            candidate: candidate.version.clone(),
            events: actions.iter().map(|(.., count)| count).sum(),
            disagreements: actions
                .iter()
                .filter(|(one, other, _)| one != other)
                .map(|(.., count)| count)
                .sum(),
            rescored: self.rescored.load(Ordering::Relaxed),
            canary: candidate.canary.as_ref().map(|canary| canary.scope.clone()),
            decided: self.decided.load(Ordering::Relaxed),
            labels: labels
                .map(|(plan, [enforced, candidate])| (plan.name.clone(), enforced, candidate))
                .collect(),
            actions,
            examples,
        }
    }
}

/// The labels that rules put on keys, each once, by their place among those of the pipeline.
fn labels(
    effects: &event::Table<Rule, Vec<EffectPlan>>,
    fired: impl Iterator<Item = TableIndex<Rule>>,
) -> Vec<usize> {
    let mut labels: Vec<usize> = Vec::new();
    for effect in fired.flat_map(|rule| &effects[rule]) {
        if let EffectPlan::Mark { label, .. } = effect
            && !labels.contains(&label.get())
        {
            labels.push(label.get());
        }
    }
    labels
}
