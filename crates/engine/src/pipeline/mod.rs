//! The pipeline: event → decision. The numbered stages of the flow are one module each. `judge`, the fifth, is a crate of its
//! own, and what models say comes before it; the seventh is the journal.
//!
//! [`Engine::decide`] reads like the picture of the flow.

pub(crate) mod canary;
pub(crate) mod challenge;
pub(crate) mod classifiers;
pub(crate) mod features;
pub(crate) mod fields;
pub(crate) mod form;
pub(crate) mod keys;
pub(crate) mod log;
pub(crate) mod observe;
pub(crate) mod ranges;
pub(crate) mod reputation;
pub(crate) mod score;
pub(crate) mod settle;
mod tally;
pub(crate) mod trainer;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use content::budget::Cancellation;
use event::{Event, Facts, Time};
use futures_util::future::join;
use journal::{PendingDecision, RecordId};
use judge::{Action, BandsInForce, Evaluation, Reason, Verdict};
use plan::{ChallengePlan, FailureMode, Pipeline};
use stats::{LedgerError, ObserveRequest};

use crate::metrics::{DisagreementLabel, label};
use crate::{Engine, ban_list, limit};
use challenge::IssuedChallenge;
use features::UnkeyedEvent;
use keys::PreparedEvent;
use observe::{ObserveMode, ObservedBatch, ObservedEvent};

/// The rule that speaks when statistics cannot be had and the pipeline fails closed.
pub const LEDGER_UNAVAILABLE: &str = "LEDGER_UNAVAILABLE";

/// The name of the reason that stands for a journal that cannot be written, in pipelines that fail closed.
pub const JOURNAL_UNAVAILABLE: &str = "JOURNAL_UNAVAILABLE";

/// The name of the reason that stands for an event that found no place, or was not read or decided in time, in pipelines
/// that fail closed.
pub const UNDECIDED: &str = "UNDECIDED";

/// The name of the reason that says that a label is not put on what the allow list has.
pub const ON_ALLOW_LIST: &str = "ON_ALLOW_LIST";

/// The decision about an event.
#[derive(Clone, Debug)]
pub struct Decision {
    /// Its name, for feedback and `explain`.
    pub id: RecordId,
    /// The caller's name for the event.
    pub event_id: Option<String>,
    /// The pipeline that decided.
    pub pipeline: Arc<Pipeline>,
    /// The time of the event.
    pub time: Time,
    /// An event of this id had been counted before.
    pub duplicate: bool,
    /// Statistics could not be had: the event was judged without them, and not counted.
    pub uncounted: bool,
    /// The journal could not be written: nobody can ask for it later.
    pub unlogged: bool,
    /// Score, action and reasons.
    pub verdict: Verdict,
    /// The bands that the score was held against.
    pub bands: BandsInForce,
    /// The challenge that the caller can hand on, where one is asked for.
    pub challenge: Option<IssuedChallenge>,
}

impl Engine {
    /// Stages 1 to 3: all that needs no statistics, and most of the work. Pure, so it can be done on any thread
    /// and ahead of time.
    ///
    /// ```text
    /// event ─► 1 fields ─► 2 content features ─► 3 keys
    /// ```
    ///
    /// Who has something to add to the facts of the content, or wants to end the reading before it is done, calls
    /// [`Engine::read`] and [`Engine::key`] instead.
    pub fn prepare(&self, pipeline: &Arc<Pipeline>, event: Event, arrival: Time) -> PreparedEvent {
        self.key(self.read(pipeline, event, arrival, &Cancellation::default()))
    }

    /// Stages 1 and 2: the facts that the event and its content show. Pure.
    ///
    /// Costs what a message of its size may cost ([`content::budget`]) and ends within milliseconds once it is
    /// cancelled: the facts are then those of what was read, and `mail.cut_short` says so.
    pub fn read(
        &self,
        pipeline: &Arc<Pipeline>,
        event: Event,
        arrival: Time,
        cancellation: &Cancellation,
    ) -> UnkeyedEvent {
        let mut row = features::fill(fields::fill(pipeline, event, arrival), cancellation);
        if pipeline.challenge.is_some() || pipeline.form.is_some() {
            // What is shown may be bound to a derived field, and fields may be derived from what was shown.
            fields::derive_late(&mut row);
        }
        let pipeline = Arc::clone(&row.pipeline);
        self.read_block_lists(&pipeline, &mut row.facts, row.arrival);
        self.read_pass(&mut row);
        self.read_form(&mut row);
        self.read_bait(&mut row);
        UnkeyedEvent::new(row)
    }

    /// Stage 3: the keys of these facts. Pure.
    pub fn key(&self, read: UnkeyedEvent) -> PreparedEvent {
        let row = read.finish();
        let arrival = row.arrival;
        let prepared = keys::derive(row, &self.secret);
        self.latest.fetch_max(arrival.0, Ordering::Relaxed);
        self.count_prepared(&prepared);
        prepared
    }

    /// Stages 4 to 7: counts the events as one batch, has models score them, judges each, and logs what was decided.
    ///
    /// ```text
    /// ─► 4 observe ─► 5 models, then rules ─► 6 settle ─► 7 journal
    /// ```
    ///
    /// Answers once the configured durability holds for all of it. It never fails: a decision says of itself that it was made
    /// without statistics or could not be logged, and is then as `on_error` says. Within a batch each event's readings include
    /// those before it, but what hangs on verdicts is added after the whole batch is judged.
    pub async fn decide(&self, prepared: Vec<PreparedEvent>) -> Vec<Decision> {
        let mut observed = self.observe_all(prepared).await;
        score::score(&mut observed);
        self.conclude(observed).await
    }

    /// Decides as [`Engine::decide`] does, and tells somebody when stages begin and end.
    pub async fn decide_watched(
        &self,
        prepared: Vec<PreparedEvent>,
        watcher: &dyn StageWatcher,
    ) -> Vec<Decision> {
        watcher.begins(DecisionStage::Observe);
        let observed = self.observe_all(prepared).await;
        watcher.ends(DecisionStage::Observe);
        self.conclude_watched(observed, watcher).await
    }

    /// Scores events and does the rest of the stages, and tells somebody when they begin and end.
    pub(crate) async fn conclude_watched(
        &self,
        mut observed: ObservedBatch,
        watcher: &dyn StageWatcher,
    ) -> Vec<Decision> {
        watcher.begins(DecisionStage::Judge);
        score::score(&mut observed);
        let mut due = PendingEffects::default();
        let ids = self.decision_ids(&observed);
        let verdicts = self.judge_all(&observed, &ids, &mut due);
        watcher.ends(DecisionStage::Judge);
        watcher.begins(DecisionStage::Settle);
        watcher.begins(DecisionStage::Journal);
        let settled = async {
            self.carry_out(due).await;
            watcher.ends(DecisionStage::Settle);
        };
        let logged = async {
            let decisions = self.log(observed, &ids, verdicts, watcher).await;
            watcher.ends(DecisionStage::Journal);
            decisions
        };
        join(settled, logged).await.1
    }

    /// Stage 4, with the limits that rules ask for. Statistics that cannot be had are missing then, and say so.
    pub(crate) async fn observe_all(&self, prepared: Vec<PreparedEvent>) -> ObservedBatch {
        let exceptions = self.exceptions();
        let limits = limit::LimitContext { exceptions: &exceptions, secret: &self.secret };
        let (mut observed, failure) = observe::observe(&*self.ledger, prepared, Some(&limits)).await;
        if let Some(error) = failure {
            tracing::error!(%error, "statistics are unavailable");
        }
        ranges::fill(&self.ban_list, observed.prepared_mut());
        self.learners.fill(observed.prepared_mut());
        self.judged.fill(observed.prepared_mut());
        self.route_to_canaries(observed.prepared_mut());
        observed
    }

    /// Stages 5 to 7 of events that models have scored.
    pub(crate) async fn conclude(&self, observed: ObservedBatch) -> Vec<Decision> {
        let mut due = PendingEffects::default();
        let ids = self.decision_ids(&observed);
        let verdicts = self.judge_all(&observed, &ids, &mut due);
        // Neither waits for the other's disk: both go by what was observed and judged.
        let ((), decisions) = join(self.carry_out(due), self.log(observed, &ids, verdicts, &NoWatcher)).await;
        decisions
    }

    /// Returns the ids of the decisions on events, which bans name before these are logged.
    pub(crate) fn decision_ids(&self, observed: &ObservedBatch) -> Vec<RecordId> {
        observed.events().map(|observed| self.ids.next(observed.prepared.row.arrival)).collect()
    }

    /// Stage 5. What verdicts ask for is put behind what is due.
    pub(crate) fn judge_all(
        &self,
        observed: &ObservedBatch,
        ids: &[RecordId],
        due: &mut PendingEffects,
    ) -> Vec<Verdict> {
        let (mut outcome, mut verdicts) = (Evaluation::default(), Vec::with_capacity(observed.len()));
        let allow = self.ban_list.allow();
        for (observed, id) in observed.events().zip(ids) {
            let mut verdict = self.judge(&observed, &mut outcome);
            settle::requests(&observed, verdict.action, &outcome, Some(&allow), &mut due.adds);
            let (bans, passed_over) = settle::new_bans(&observed, *id, outcome.fired(), &allow);
            due.bans.extend(bans);
            for setting in passed_over.iter().map(|passed| passed.setting) {
                self.metrics.count_passed_over("rule", setting, 1);
            }
            verdict.reasons.extend(canary::reason(observed.prepared));
            let passed_over = passed_over.into_iter();
            verdict.reasons.extend(passed_over.map(|passed| Reason {
                rule: ON_ALLOW_LIST.to_owned(),
                score: 0.0,
                detail: passed.detail,
                values: Vec::new(),
            }));
            verdicts.push(verdict);
        }
        self.count_verdicts(observed, &verdicts);
        due.training_examples.extend(self.auto_training_examples(observed, &verdicts));
        verdicts
    }

    /// Stage 5 for one row, with the pipeline's word for lost statistics. The memory of `outcome` is used again.
    pub(crate) fn judge(&self, observed: &ObservedEvent<'_>, outcome: &mut Evaluation) -> Verdict {
        let pipeline = &observed.prepared.row.pipeline;
        let row = &observed.prepared.row.facts;
        pipeline.rules.evaluate(row, outcome);
        let mut verdict = pipeline.rules.verdict(outcome);
        pipeline.rules.explain(&mut verdict, row);
        if observed.failed {
            fail(pipeline, &mut verdict, LEDGER_UNAVAILABLE, "statistics are unavailable");
        }
        verdict
    }

    /// Stage 6.
    pub(crate) async fn carry_out(&self, due: PendingEffects) {
        let PendingEffects { adds, bans, training_examples: lessons } = due;
        self.ban_list.put(bans);
        if let Err(error) = settle::settle(&*self.ledger, &adds).await {
            tracing::error!(%error, "verdicts cannot be counted");
            self.metrics.settle_failures.inc_by(adds.len() as u64);
        }
        if !lessons.is_empty() {
            Box::pin(self.learn_examples(&lessons)).await;
        }
    }

    /// Stage 7. What cannot be logged is answered as the pipeline says.
    pub(crate) async fn log(
        &self,
        mut observed: ObservedBatch,
        ids: &[RecordId],
        verdicts: Vec<Verdict>,
        watcher: &dyn StageWatcher,
    ) -> Vec<Decision> {
        let decided = observed.events().zip(ids).zip(verdicts).map(|((observed, &id), verdict)| {
            let row = &observed.prepared.row;
            let decision = Decision {
                challenge: self.issue_challenge(row, id, &verdict),
                id,
                event_id: row.event_id.clone(),
                pipeline: Arc::clone(&row.pipeline),
                time: row.time,
                duplicate: observed.duplicate,
                uncounted: observed.failed,
                unlogged: false,
                bands: row.pipeline.rules.bands_for(&row.facts, &verdict),
                verdict,
            };
            self.compare(&observed, &decision);
            decision
        });
        let mut decisions: Vec<Decision> = decided.collect();
        for (prepared, decision) in observed.prepared_mut().iter_mut().zip(&decisions) {
            let row = &mut prepared.row;
            if let (Some(issued), Some(plan)) = (&decision.challenge, &row.pipeline.challenge) {
                row.facts.set(plan.cost, issued.units);
            }
        }
        let reviews = self.reviews_of(&observed, &decisions);
        let mut logged = Vec::with_capacity(decisions.len());
        for (prepared, decision) in observed.prepared_mut().iter_mut().zip(&decisions) {
            let row = &mut prepared.row;
            let keys = &self.content_keys;
            logged.push(keys.seal(decision.id, &row.pipeline, &mut row.facts, &decision.verdict));
            row.pipeline.schema.transient().iter().for_each(|slot| _ = row.facts.clear(*slot));
        }
        let Some(journal) = &self.journal else {
            self.queue_reviews(reviews, &decisions).await;
            self.show_live(&observed, &decisions);
            self.keep_notices(&observed, &decisions);
            report_decisions(watcher, &observed, &decisions);
            return decisions;
        };
        let mut records = self.records.take();
        for ((observed, decision), logged) in observed.events().zip(&decisions).zip(&logged) {
            let row = &observed.prepared.row;
            let decided = PendingDecision {
                id: decision.id,
                pipeline: &row.pipeline.name,
                version: &row.pipeline.version,
                event_id: decision.event_id.as_deref(),
                time: decision.time,
                arrival: row.arrival,
                duplicate: decision.duplicate,
                facts: &row.facts,
                verdict: logged.as_ref().unwrap_or(&decision.verdict),
            };
            records.push_decision(&decided, observed.known());
            records.expect(decisions.len());
        }
        match journal.append_all(&records).await {
            Ok(()) => {
                self.metrics.journal_records.inc_by(records.count() as u64);
                for (observed, decision) in observed.events().zip(&decisions) {
                    self.challenged.keep(observed.prepared, decision);
                }
            }
            Err(error) => {
                tracing::error!(%error, "decisions cannot be logged");
                self.metrics.journal_failures.inc_by(records.count() as u64);
                for decision in &mut decisions {
                    decision.unlogged = true;
                    let pipeline = &decision.pipeline;
                    fail(
                        pipeline,
                        &mut decision.verdict,
                        JOURNAL_UNAVAILABLE,
                        "the journal cannot be written",
                    );
                    if !ChallengePlan::is_for(decision.verdict.action) {
                        decision.challenge = None;
                    }
                }
            }
        }
        records.clear();
        self.records.give(records);
        // After the journal: who opens a review finds its decision there.
        self.queue_reviews(reviews, &decisions).await;
        self.show_live(&observed, &decisions);
        self.keep_notices(&observed, &decisions);
        report_decisions(watcher, &observed, &decisions);
        decisions
    }

    /// Has a candidate judge the same row, which changes nothing, or the enforced rules where it has decided.
    pub(crate) fn compare(&self, observed: &ObservedEvent<'_>, decision: &Decision) {
        let canary_of = observed.prepared.canary_of.as_ref();
        let pipeline = canary_of.unwrap_or(&decision.pipeline);
        if canary_of.is_some() {
            self.metrics.canary_decisions.get_or_create(&label(pipeline)).inc();
        }
        // Without statistics both would judge blindly.
        let Some(candidate) = pipeline.candidate.as_ref().filter(|_| !observed.failed) else { return };
        self.metrics.candidate_events.get_or_create(&label(pipeline)).inc();
        let tally = self.candidates.of(candidate);
        let facts = &observed.prepared.row.facts;
        if let Some((enforced, asked)) = tally.compare(pipeline, candidate, decision, facts) {
            let label = DisagreementLabel {
                pipeline: pipeline.name.clone(),
                enforced: enforced.to_string(),
                candidate: asked.to_string(),
            };
            self.metrics.candidate_disagreements.get_or_create(&label).inc();
        }
    }

    /// Returns what `on_error` of a pipeline says of an event that was not read or not decided: nothing is counted or logged.
    pub fn undecided(&self, pipeline: &Arc<Pipeline>, arrival: Time, why: &str) -> Decision {
        let mut verdict = Verdict {
            score: 0.0,
            probability: 0.0,
            action: Action::Accept,
            reasons: Vec::new(),
            shadow: Vec::new(),
            next: None,
            effects: Vec::new(),
        };
        let bands = pipeline.rules.bands().in_force(&Facts::default());
        verdict.probability = bands.probability(verdict.score);
        fail(pipeline, &mut verdict, UNDECIDED, why);
        Decision {
            id: self.ids.next(arrival),
            event_id: None,
            pipeline: Arc::clone(pipeline),
            time: arrival,
            duplicate: false,
            uncounted: true,
            unlogged: true,
            verdict,
            bands,
            challenge: None,
        }
    }

    /// Returns what would be decided on an event, by what is known of its keys now. Nothing is counted, logged or settled.
    ///
    /// # Errors
    /// If statistics cannot be had, whatever the pipeline's `on_error` says.
    pub async fn consult(&self, prepared: PreparedEvent) -> Result<Verdict, LedgerError> {
        let mut observed = self.observe_one(prepared, ObserveMode::Nothing).await?;
        score::score(&mut observed);
        let prepared = observed.event(0).prepared;
        let (rules, facts) = (&prepared.row.pipeline.rules, &prepared.row.facts);
        let mut verdict = judge::judge(rules, facts);
        rules.explain(&mut verdict, facts);
        verdict.reasons.extend(canary::reason(prepared));
        Ok(verdict)
    }

    /// Returns the score that an event would have, with the event itself.
    pub(crate) async fn score_of(
        &self,
        prepared: PreparedEvent,
    ) -> Result<(f64, PreparedEvent), LedgerError> {
        let mut observed = self.observe_one(prepared, ObserveMode::Nothing).await?;
        score::score(&mut observed);
        let mut outcome = Evaluation::default();
        let PreparedEvent { row, .. } = observed.event(0).prepared;
        row.pipeline.rules.evaluate(&row.facts, &mut outcome);
        Ok((outcome.score(), observed.into_first()))
    }

    pub(crate) async fn observe_one(
        &self,
        prepared: PreparedEvent,
        what: ObserveMode,
    ) -> Result<ObservedBatch, LedgerError> {
        let exceptions = self.exceptions();
        let limits = limit::LimitContext { exceptions: &exceptions, secret: &self.secret };
        // Of what is only counted rules are not asked, so what they would take from limits is not taken.
        let limits = (what == ObserveMode::Nothing).then_some(&limits);
        let mut observed = observe::observe_one(&*self.ledger, prepared, limits, what).await?;
        ranges::fill(&self.ban_list, observed.prepared_mut());
        self.learners.fill(observed.prepared_mut());
        self.judged.fill(observed.prepared_mut());
        if what == ObserveMode::Nothing {
            self.route_to_canaries(observed.prepared_mut());
        }
        Ok(observed)
    }
}

/// A stage of a decision that may take time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecisionStage {
    /// Statistics are read and added.
    Observe,
    /// Models and rules judge.
    Judge,
    /// The additions that hang on verdicts are made.
    Settle,
    /// The decision is logged.
    Journal,
}

impl DecisionStage {
    /// The number of stages.
    pub const COUNT: usize = 4;

    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            DecisionStage::Observe => "observe",
            DecisionStage::Judge => "judge",
            DecisionStage::Settle => "settle",
            DecisionStage::Journal => "journal",
        }
    }
}

/// Somebody who is told when stages of a decision begin and end; the engine itself knows no clock.
pub trait StageWatcher: Send + Sync {
    /// Hears that a stage begins.
    fn begins(&self, stage: DecisionStage);

    /// Hears that a stage is at its end.
    fn ends(&self, stage: DecisionStage);

    /// Returns true if it wants to be told of each decision.
    fn is_told_decisions(&self) -> bool {
        false
    }

    /// Hears of a decision that was logged, with the facts that the journal has in the clear.
    fn decided(&self, _decision: &Decision, _facts: &Facts) {}
}

/// Tells a watcher of decisions. Facts that are not journalled were taken away before.
fn report_decisions(watcher: &dyn StageWatcher, observed: &ObservedBatch, decisions: &[Decision]) {
    if watcher.is_told_decisions() {
        for (observed, decision) in observed.events().zip(decisions) {
            watcher.decided(decision, &observed.prepared.row.facts);
        }
    }
}

/// A watcher that does nothing.
pub(crate) struct NoWatcher;

impl StageWatcher for NoWatcher {
    fn begins(&self, _: DecisionStage) {}

    fn ends(&self, _: DecisionStage) {}
}

/// The effects that verdicts ask for, to be done once all events of a batch are judged.
#[derive(Default)]
pub(crate) struct PendingEffects {
    adds: Vec<ObserveRequest>,
    bans: Vec<ban_list::NewBan>,
    training_examples: Vec<trainer::AutoTrainingExample>,
}

/// The pipeline's word for an event of which something failed.
fn fail(pipeline: &Pipeline, verdict: &mut Verdict, rule: &str, what: &str) {
    if pipeline.on_error == FailureMode::Open {
        return;
    }
    verdict.action = pipeline.on_error.action(verdict.action);
    verdict.next = None;
    verdict.reasons.push(Reason {
        rule: rule.to_owned(),
        score: 0.0,
        detail: format!("{what} and the pipeline fails closed"),
        values: Vec::new(),
    });
}
