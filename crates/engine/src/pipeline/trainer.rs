//! Training of classifiers from feedback and from rules that agree.
//!
//! ```text
//! example ─► alone with the event ─► look: all, the event, its tokens ─► one request that makes it so ─► done
//! ```
//!
//! The event's own key says what it has taught, so that the same example twice counts once, and another one first takes
//! back what the last has added. Two examples of one event are never at work at once; those of different events add up.

use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};

use event::{Key, Shingle, Span, Time};
use event_listener::Event as Signal;
use journal::{DecisionRow, VersionDescription};
use judge::Verdict;
use stats::{Addition, Evidence, LedgerError, Observation, ObserveOutcomes, ObserveRequest};

use super::classifiers::{self, ClassifierReading, TokenKeys};
use super::observe::ObservedBatch;
use crate::Engine;
use plan::{ClassifierPlan, FeedbackClass, Pipeline, TrainingLabel};

/// Examples at work, and how many were drawn from verdicts.
#[derive(Default)]
pub(crate) struct Trainer {
    at_work: Mutex<HashSet<Key>>,
    left: Signal,
    /// The hour of each classifier, and the number of events it has learned in it by itself.
    hours: Mutex<HashMap<Key, (i64, u64)>>,
}

/// An example that a verdict gives.
pub(crate) struct AutoTrainingExample {
    tokens: TokenKeys,
    label: TrainingLabel,
    time: Time,
}

/// A word on an event, as far as it counts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TrainingFeedback<'a> {
    /// The class of the feedback; `None` if that counts nothing.
    pub(crate) class: Option<&'a FeedbackClass>,
    /// The class of the same reporter's earlier feedback, which is taken back, if it counted.
    pub(crate) was: Option<&'a FeedbackClass>,
    /// True if the feedback is from a reporter, not the operator.
    pub(crate) by: bool,
    /// True if the same feedback had been given before.
    pub(crate) again: bool,
}

/// The condition on what an event must have taught so far for an example of it to be learned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TrainingPrecondition {
    Always,
    /// A label from outside, and nothing else.
    Taught(TrainingLabel),
}

impl TrainingPrecondition {
    fn holds(self, known: &ClassifierReading) -> bool {
        match self {
            TrainingPrecondition::Always => true,
            TrainingPrecondition::Taught(label) => known.taught() == label,
        }
    }
}

impl TrainingFeedback<'_> {
    /// Returns what a classifier learns of the feedback. A reporter can take back what the event has taught only if that is
    /// what the reporter had said; and repeating it makes up for a crash between counting and learning, no more: else anybody
    /// could go on undoing what others said since.
    fn label(&self, plan: &ClassifierPlan) -> Option<(TrainingLabel, TrainingPrecondition)> {
        let of = |class: Option<&FeedbackClass>| class.and_then(|class| plan.training_label(&class.name));
        let was = of(self.was).filter(|was| *was != TrainingLabel::Forget);
        match of(self.class) {
            None => Some((TrainingLabel::Forget, TrainingPrecondition::Taught(was?))),
            Some(TrainingLabel::Forget) if self.by => {
                Some((TrainingLabel::Forget, TrainingPrecondition::Taught(was?)))
            }
            Some(label) if self.by && self.again => {
                Some((label, TrainingPrecondition::Taught(TrainingLabel::Forget)))
            }
            Some(label) => Some((label, TrainingPrecondition::Always)),
        }
    }
}

impl Trainer {
    /// Waits until no other example of the event is at work.
    async fn alone(&self, event: Key) -> TrainingGuard<'_> {
        loop {
            let left = self.left.listen();
            if self.at_work.lock().insert(event) {
                return TrainingGuard { trainer: self, event };
            }
            left.await;
        }
    }

    /// Returns true if a classifier may learn one more by itself in this hour.
    fn may_learn(&self, classifier: Key, arrival: Time, per_hour: u64) -> bool {
        let hour = arrival.bucket(Span::hours(1));
        let mut hours = self.hours.lock();
        let (of, learned) = hours.entry(classifier).or_default();
        if *of != hour {
            (*of, *learned) = (hour, 0);
        }
        *learned += 1;
        *learned <= per_hour
    }
}

struct TrainingGuard<'s> {
    trainer: &'s Trainer,
    event: Key,
}

/// An event that nobody else teaches anything as long as this is there, so that what was looked up of its tokens need not be
/// looked up again for an example.
pub(crate) struct HeldEvent<'s> {
    _alone: Vec<TrainingGuard<'s>>,
    /// Nothing has been learned of it since.
    is_fresh: AtomicBool,
}

impl Drop for TrainingGuard<'_> {
    fn drop(&mut self) {
        self.trainer.at_work.lock().remove(&self.event);
        self.trainer.left.notify(usize::MAX);
    }
}

/// The amount that a classifier has learned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrainingTotal {
    /// The classifier.
    pub classifier: String,
    /// Events that it was told are bad.
    pub bad: u64,
    /// Events that it was told are good.
    pub good: u64,
}

impl Engine {
    /// Returns how much each classifier of a pipeline has learned, but for those that each key has for itself.
    ///
    /// # Errors
    /// The ledger's.
    pub async fn learned(&self, pipeline: &Pipeline, now: Time) -> Result<Vec<TrainingTotal>, LedgerError> {
        let shared = || pipeline.classifiers.iter().filter(|plan| plan.per.is_none());
        let keys = shared().map(|plan| classifiers::all(pipeline, plan, &self.secret));
        let observations: Vec<Observation> =
            keys.map(|key| Observation { key, time: now, add: Addition::Nothing }).collect();
        if observations.is_empty() {
            return Ok(Vec::new());
        }
        let outcomes =
            self.ledger.observe(&[ObserveRequest { observations, ..ObserveRequest::default() }]).await?;
        let totals = shared().zip(outcomes.readings(0).iter()).map(|(plan, view)| {
            let Evidence { bad, good, .. } = Evidence::of(|window, column| view.sum(window, column));
            let count = |count: i64| u64::try_from(count).unwrap_or(0);
            TrainingTotal { classifier: plan.name.clone(), bad: count(bad), good: count(good) }
        });
        Ok(totals.collect())
    }

    /// Teaches classifiers what a word says of an event; answers how many tokens' evidence has changed.
    pub(crate) async fn teach(
        &self,
        pipeline: &Pipeline,
        tokens: &[Option<TokenKeys>],
        word: TrainingFeedback<'_>,
        time: Time,
        held: Option<&HeldEvent<'_>>,
    ) -> Result<usize, LedgerError> {
        let is_fresh = held.is_some_and(|held| held.is_fresh.swap(false, Ordering::Relaxed));
        let mut changed = 0;
        for (plan, tokens) in pipeline.classifiers.iter().zip(tokens) {
            let (Some((label, when)), Some(tokens)) = (word.label(plan), tokens) else { continue };
            let _alone = match held {
                None => Some(self.trainer.alone(tokens.event).await),
                Some(_) => None,
            };
            let known = tokens.known.filter(|_| is_fresh);
            changed += self.teach_one(tokens, known, label, time, |known| when.holds(known)).await?;
        }
        Ok(changed)
    }

    /// Waits until nobody else teaches an event anything, and keeps it so. It has to be observed after that for what it is known
    /// by to be used.
    pub(crate) async fn hold(&self, tokens: &[Option<TokenKeys>]) -> HeldEvent<'_> {
        let mut alone = Vec::with_capacity(tokens.len());
        // In the order of the classifiers, so that two events that share some never wait for each other.
        for tokens in tokens.iter().flatten() {
            alone.push(self.trainer.alone(tokens.event).await);
        }
        HeldEvent { _alone: alone, is_fresh: AtomicBool::new(true) }
    }

    /// Teaches one classifier, given what it knows if that was just looked up. The caller is alone with the event.
    async fn teach_one(
        &self,
        tokens: &TokenKeys,
        known: Option<ClassifierReading>,
        label: TrainingLabel,
        time: Time,
        may: impl Fn(&ClassifierReading) -> bool,
    ) -> Result<usize, LedgerError> {
        // It is kept from when it was said: of old mail that is learned today the words are as good as of today's.
        let time = time.max(Time(self.latest.load(Ordering::Relaxed)));
        let known = match known {
            Some(known) => Some(known),
            None => {
                let outcomes: ObserveOutcomes = self.ledger.observe(&[tokens.look(time)]).await?;
                ClassifierReading::of(tokens, outcomes.readings(0).iter())
            }
        };
        let Some(known) = known.filter(may) else { return Ok(0) };
        let Some(request) = tokens.training_request(&known, label, time) else {
            self.learners.catch_up(tokens, label, known.count(label));
            return Ok(0);
        };
        self.ledger.observe(std::slice::from_ref::<ObserveRequest>(&request)).await?;
        self.learners.teach(tokens, known.taught(), label);
        if self.learners.is_crowded() {
            let _ = self.exchange_examples();
        }
        Ok(tokens.len())
    }

    /// Returns what classifiers that may learn by themselves can draw from verdicts: other rules than those that ask the
    /// classifier itself, or a model, are clearly of one opinion. An event that was counted before teaches nothing.
    pub(crate) fn auto_training_examples(
        &self,
        observed: &ObservedBatch,
        verdicts: &[Verdict],
    ) -> Vec<AutoTrainingExample> {
        let mut examples = Vec::new();
        for (observed, verdict) in observed.events().zip(verdicts) {
            let prepared = observed.prepared;
            if observed.duplicate || observed.is_blind {
                continue;
            }
            let pipeline = &prepared.row.pipeline;
            for (plan, tokens) in pipeline.classifiers.iter().zip(&prepared.tokens) {
                let Some(tokens) = tokens else { continue };
                let Some((label, per_hour)) = auto_training_label(pipeline, plan, verdict) else { continue };
                let classifier = Key { space: pipeline.space, kind: plan.kind, shingle: Shingle(0) };
                if self.trainer.may_learn(classifier, prepared.row.arrival, per_hour) {
                    examples.push(AutoTrainingExample {
                        tokens: tokens.clone(),
                        label,
                        time: prepared.row.time,
                    });
                }
            }
        }
        examples
    }

    /// Learns them. What somebody has said of an event stands, and so does a balance of the classes.
    pub(crate) async fn learn_examples(&self, examples: &[AutoTrainingExample]) {
        for AutoTrainingExample { tokens, label, time } in examples {
            let may = |known: &ClassifierReading| !known.is_taught() && known.is_balanced(*label);
            let _alone = self.trainer.alone(tokens.event).await;
            // It may have learned since.
            if let Err(error) = self.teach_one(tokens, None, *label, *time, may).await {
                tracing::error!(%error, "a classifier cannot learn from a verdict");
            }
        }
    }

    /// The tokens of a past decision, from the facts that were journalled.
    pub(crate) fn tokens_of_row(
        &self,
        pipeline: &Pipeline,
        row: &DecisionRow,
        description: &VersionDescription,
    ) -> Vec<Option<TokenKeys>> {
        let of = |plan: &ClassifierPlan| {
            let owner = match plan.per.map(|kind| &pipeline.kinds[kind]) {
                None => None,
                Some(kind) => {
                    let mut own = row.keys.iter().filter(|key| key.kind == kind.kind);
                    let owner = own.next()?.shingle;
                    if own.next().is_some() {
                        return None;
                    }
                    Some(owner)
                }
            };
            let value = |name: &str, _| description.slot(name).and_then(|slot| row.facts.get(slot));
            Some(TokenKeys::of(pipeline, plan, &self.secret, owner, value))
        };
        pipeline.classifiers.iter().map(of).collect()
    }
}

fn auto_training_label(
    pipeline: &Pipeline,
    plan: &ClassifierPlan,
    verdict: &Verdict,
) -> Option<(TrainingLabel, u64)> {
    let auto = plan.auto.as_ref()?;
    let counted = pipeline.rules.counted(verdict);
    let others =
        verdict.reasons.iter().zip(counted).filter(|(reason, _)| !auto.partial.contains(&reason.rule));
    let scores: Vec<f64> = others.map(|(_, score)| score).collect();
    let sum: f64 = scores.iter().sum();
    let agree = |is_so: fn(f64) -> bool| scores.iter().filter(|score| is_so(**score)).count() >= auto.rules;
    if sum >= auto.bad_at && agree(|score| score > 0.0) {
        Some((TrainingLabel::Bad, auto.per_hour))
    } else if sum <= auto.good_at && agree(|score| score < 0.0) {
        Some((TrainingLabel::Good, auto.per_hour))
    } else {
        None
    }
}
