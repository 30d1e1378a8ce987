//! The pipeline: event → decision. The numbered stages of the flow are one module each. `judge`, the fifth, is a crate of its
//! own, and what models say comes before it; the seventh is the journal.
//!
//! [`Engine::decide`] reads like the picture of the flow.

pub(crate) mod canary;
pub(crate) mod challenge;
pub(crate) mod classifiers;
mod consultation;
pub(crate) mod contributors;
pub(crate) mod features;
pub(crate) mod fields;
pub(crate) mod form;
pub(crate) mod keys;
pub(crate) mod log;
pub(crate) mod observe;
pub(crate) mod ranges;
mod recording;
pub(crate) mod reputation;
pub(crate) mod score;
pub(crate) mod settle;
mod tally;
pub(crate) mod trainer;
mod watcher;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use content::budget::Cancellation;
use event::{Event, Time};
use futures_util::future::join;
use journal::RecordId;
use judge::{BandsInForce, Evaluation, Reason, Verdict};
use plan::{FailureMode, Pipeline};
use stats::{AdditionOverlay, ObserveRequest};

pub(crate) use self::watcher::NoWatcher;
pub use self::watcher::{DecisionStage, StageWatcher};
use crate::{Engine, ban_list, limit};
use challenge::IssuedChallenge;
use features::UnkeyedEvent;
use keys::PreparedEvent;
use observe::{ObservedBatch, ObservedEvent};

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
    /// The event is not known to be counted, and was judged by what could be read. One with an id may be counted later, once.
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
    /// without statistics or could not be logged, and is then as `on_error` says. A batch is judged as its events would be one by
    /// one: each event's readings include those before it, and what the verdicts on those add ([`AdditionOverlay`] says what is
    /// not seen). What automatic training examples teach is learned after the whole batch is judged.
    pub async fn decide(&self, prepared: Vec<PreparedEvent>) -> Vec<Decision> {
        let mut observed = self.observe_all(prepared).await;
        score::score(observed.prepared_mut());
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
        score::score(observed.prepared_mut());
        let mut due = PendingEffects::default();
        let ids = self.decision_ids(&observed);
        let verdicts = self.judge_all(&mut observed, &ids, &mut due);
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
        let limits = self.limit_context(&exceptions);
        let (mut observed, failure) = observe::observe(&*self.ledger, prepared, Some(&limits)).await;
        if let Some(error) = failure {
            tracing::error!(%error, "statistics of some events are unavailable");
        }
        ranges::fill(&self.ban_list, observed.prepared_mut());
        self.learners.fill(observed.prepared_mut());
        self.judged.fill(observed.prepared_mut());
        self.route_to_canaries(observed.prepared_mut());
        observed
    }

    fn limit_context<'a>(&'a self, exceptions: &'a limit::LimitExceptions) -> limit::LimitContext<'a> {
        limit::LimitContext { exceptions, secret: &self.secret, ban_list: &self.ban_list }
    }

    /// Stages 5 to 7 of events that models have scored.
    pub(crate) async fn conclude(&self, mut observed: ObservedBatch) -> Vec<Decision> {
        let mut due = PendingEffects::default();
        let ids = self.decision_ids(&observed);
        let verdicts = self.judge_all(&mut observed, &ids, &mut due);
        // Neither waits for the other's disk: both go by what was observed and judged.
        let ((), decisions) = join(self.carry_out(due), self.log(observed, &ids, verdicts, &NoWatcher)).await;
        decisions
    }

    /// Returns the ids of the decisions on events, which bans name before these are logged.
    pub(crate) fn decision_ids(&self, observed: &ObservedBatch) -> Vec<RecordId> {
        observed.events().map(|observed| self.ids.next(observed.prepared.row.arrival)).collect()
    }

    /// Stage 5. What verdicts ask for is put behind what is due, and later events are judged by it.
    pub(crate) fn judge_all(
        &self,
        observed: &mut ObservedBatch,
        ids: &[RecordId],
        due: &mut PendingEffects,
    ) -> Vec<Verdict> {
        let (mut outcome, mut verdicts) = (Evaluation::default(), Vec::with_capacity(observed.len()));
        let allow = self.ban_list.allow();
        let (plan, exceptions) = (self.plan(), self.exceptions());
        let limits = self.limit_context(&exceptions);
        let contributors =
            settle::Contributors { lists: &self.contributors, secret: &self.secret, allow: &allow };
        for (at, id) in ids.iter().enumerate() {
            if !due.overlay.is_empty() || !due.limits.is_empty() {
                self.see_effects(observed, at, &limits, due);
            }
            let event = observed.event(at);
            let mut verdict = self.judge(&event, &mut outcome);
            if !event.duplicate && !event.uncounted {
                self.contributors.note(event.prepared);
            }
            let before = due.adds.len();
            let marked = settle::mark_contributors(&event, *id, &outcome, &contributors, &mut due.adds);
            due.bans.extend(marked);
            settle::requests(&event, verdict.action, &outcome, &allow, &mut due.adds);
            if observed.len() > 1 {
                due.adds.iter().skip(before).for_each(|request| due.overlay.add(&request.observations));
            }
            settle::clear_limits(&event, &outcome, &limits, &plan.catalog, &mut due.limits);
            let (bans, passed_over) = settle::new_bans(&event, *id, outcome.fired(), &allow);
            due.bans.extend(bans);
            for setting in passed_over.iter().map(|passed| passed.setting) {
                self.metrics.count_passed_over("rule", setting, 1);
            }
            verdict.reasons.extend(canary::reason(event.prepared));
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

    /// Brings the facts of an event, and the scores of models, to what they would be if the effects that are due were
    /// carried out.
    fn see_effects(
        &self,
        observed: &mut ObservedBatch,
        at: usize,
        limits: &limit::LimitContext<'_>,
        due: &mut PendingEffects,
    ) {
        let has_less = !due.limits.is_empty() && observed.take_anew(at, limits, &mut due.limits);
        if !observed.overlay(at, &mut due.overlay, &self.plan().catalog) && !has_less {
            return;
        }
        if self.ban_list.has_lifted() {
            // A label that was lifted is on a key again from when the list has it again.
            self.ban_list.put(std::mem::take(&mut due.bans));
        }
        if let Some(event) = observed.prepared_mut().get_mut(at) {
            let event = std::slice::from_mut(event);
            ranges::fill(&self.ban_list, event);
            score::score(event);
        }
    }

    /// Stage 5 for one row, with the pipeline's word for lost statistics. The memory of `outcome` is used again.
    pub(crate) fn judge(&self, observed: &ObservedEvent<'_>, outcome: &mut Evaluation) -> Verdict {
        let pipeline = &observed.prepared.row.pipeline;
        let row = &observed.prepared.row.facts;
        pipeline.rules.evaluate(row, outcome);
        let mut verdict = pipeline.rules.verdict(outcome);
        pipeline.rules.explain(&mut verdict, row);
        if observed.is_blind {
            fail(pipeline, &mut verdict, LEDGER_UNAVAILABLE, "statistics are unavailable");
        }
        verdict
    }

    /// Stage 6.
    pub(crate) async fn carry_out(&self, due: PendingEffects) {
        let PendingEffects { mut adds, limits, bans, training_examples: examples, .. } = due;
        adds.extend(limits.requests());
        self.ban_list.put(bans);
        if let Err(error) = settle::settle(&*self.ledger, &adds).await {
            tracing::error!(%error, "verdicts cannot be counted");
            self.metrics.settle_failures.inc_by(adds.len() as u64);
        }
        if !examples.is_empty() {
            Box::pin(self.learn_examples(&examples)).await;
        }
    }
}

/// The effects that verdicts ask for, to be done once all events of a batch are judged.
#[derive(Default)]
pub(crate) struct PendingEffects {
    adds: Vec<ObserveRequest>,
    /// The additions, for later events of the batch to be judged by.
    overlay: AdditionOverlay,
    /// The limits that are cleared, for later events to take from.
    limits: limit::ClearedLimits,
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
