//! The impact of a rule on past events, and taking it back.
//!
//! ```text
//! decisions for which it fired ─► judged again without it, by the version that decided ─► alone? which action instead?
//!                                                                                     └► a correction, decision by decision:
//!    counters that its effects added, and that the action settled ─► what holds how much was taken back, at the event's time
//!    labels and bans that it put on keys ─► end now, unless somebody else's holds
//! ```
//!
//! A correction is never done twice: each decision's additions are one request with a mark of its own, and a file says up to which
//! decision each correction has come, so that another one passes over what was done.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use event::{Facts, Key, Kind, Shingle, TableIndex, Time, Value};
use journal::{DecisionRow, JournalError, ReadBudget, RecordId};
use judge::{Action, Evaluation, Rule};
use plan::{EffectPlan, KindPlan, LabelSpan, Pipeline};
use serde::{Deserialize, Serialize};
use stats::{
    Addition, AggregateColumn, CounterAmounts, DedupeMark, LedgerError, Observation, ObserveRequest, Origin,
};

use crate::backtest::{Backtest, BacktestQuery};
use crate::directory::{DirectoryError, io_error, read_sealed};
use crate::pipeline::keys;
use crate::search::{DecisionFilter, DecisionQuery, DecisionSearchError, FactSelection};
use crate::{ContentError, Engine, LEDGER_UNAVAILABLE};

/// The file of what was taken back.
const FILE: &str = "corrections.json";
/// Largest file that is read.
const BYTES_MAX: u64 = 64 << 20;
/// Most corrections that are remembered.
const RECORDS_MAX: usize = 10_000;
/// Decisions of a step.
const PAGE: usize = 500;
/// Records that are looked at for a step.
const PAGE_RECORDS: u64 = 1_000_000;
/// Most decisions that are listed.
const LISTED_MAX: usize = 200;
/// Most keys whose labels are taken off by one correction.
const KEYS_MAX: usize = 1_000_000;

/// The decisions of which it is asked what a rule did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CorrectionOrder {
    /// The pipeline.
    pub pipeline: String,
    /// The rule.
    pub rule: String,
    /// Only decisions of this version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Decided at this time or later.
    pub from: Time,
    /// Decided before this time.
    pub to: Time,
}

/// A correction that was begun: decisions from one on up to another are done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct CorrectionRecord {
    order: CorrectionOrder,
    /// The smallest decision that is done.
    reached: RecordId,
    /// The one above the greatest.
    below: RecordId,
    by: String,
    at: Time,
    /// True once labels and bans ended, too.
    #[serde(default)]
    is_ended: bool,
}

/// The parts of what was done to a decision that were taken back before.
#[derive(Clone, Copy, Debug, Default)]
struct DoneParts {
    counts: bool,
    labels: bool,
}

impl CorrectionRecord {
    /// Returns true if all that another has done is done by this one, too.
    fn covers(&self, other: &CorrectionRecord) -> bool {
        let [own, their] = [&self.order, &other.order];
        (&own.pipeline, &own.rule, &own.version) == (&their.pipeline, &their.rule, &their.version)
            && self.reached <= other.reached
            && other.below <= self.below
    }

    fn has_done(&self, order: &CorrectionOrder, version: &str, id: RecordId) -> bool {
        let of = &self.order;
        of.pipeline == order.pipeline
            && of.rule == order.rule
            && of.version.as_deref().is_none_or(|only| only == version)
            && (self.reached..self.below).contains(&id)
    }
}

/// The decision on which a rule fired.
#[derive(Clone, Debug, PartialEq)]
pub struct RuleHit {
    /// The decision.
    pub id: RecordId,
    /// The time of the event.
    pub time: Time,
    /// The caller's name for the event.
    pub event_id: Option<String>,
    /// The version that decided.
    pub version: String,
    /// The action that was decided.
    pub action: Action,
    /// The action without the rule; `None` where that cannot be told.
    pub without: Option<Action>,
    /// True if what the rule did to it was taken back before.
    pub is_corrected: bool,
}

/// The sum of what a rule did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RuleImpact {
    /// Decisions for which it fired, enforced.
    pub hits: u64,
    /// Decisions that it alone decided: without it the action would be another.
    pub alone: u64,
    /// Decisions of which it cannot be told what the action would be without it.
    pub untold: u64,
    /// Decisions of which what it did was taken back before.
    pub corrected: u64,
    /// Decisions whose version is not kept any more, of which nothing can be taken back.
    pub unknown: u64,
    /// Decisions by the action that was decided and the one without the rule, the most frequent first.
    pub actions: Vec<(Action, Action, u64)>,
    /// Additions to counters that are, or would be, taken back.
    pub counts: u64,
    /// Additions that are not, by statistic: what is kept of them cannot be taken back.
    pub lasting: BTreeMap<String, u64>,
    /// Labels on keys that end, or would.
    pub labels: u64,
    /// Bans that end, or would.
    pub bans: u64,
    /// The newest decisions, those first that it alone decided.
    pub listed: Vec<RuleHit>,
    /// True if not all was looked at.
    pub is_partial: bool,
}

/// The progress of a correction, for those who watch.
#[derive(Debug, Default)]
pub struct CorrectionProgress {
    hits: AtomicU64,
}

impl CorrectionProgress {
    /// Returns the number of decisions that were gone through.
    pub fn hits(&self) -> u64 {
        self.hits.load(Ordering::Relaxed)
    }
}

/// Reasons for a correction that cannot be made, or ended.
#[derive(Debug, thiserror::Error)]
pub enum CorrectionFailure {
    /// The search for decisions.
    #[error(transparent)]
    Search(#[from] DecisionSearchError),
    /// The journal.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The ledger.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The data directory.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// Too many were made.
    #[error("{RECORDS_MAX} corrections are remembered, and none is forgotten: it would be done twice")]
    Full,
    /// The correction was ended; what is done stays done, and the same order goes on.
    #[error("the correction was ended: order it again, and it goes on where it ended")]
    Ended,
}

/// A version of the pipeline, ready to judge its rows again.
struct CorrectedVersion {
    backtest: Backtest,
    rule: TableIndex<Rule>,
}

/// A row judged again.
struct RejudgedRow {
    without: Option<Action>,
    share: f64,
}

/// The keys that a rule put labels on, by the number of the label: until when, and until when another rule of the same event did.
type MarkedKeys = HashMap<(Kind, Shingle), (Time, Option<Time>)>;

/// A correction at work.
struct Corrector<'a> {
    engine: &'a Engine,
    order: &'a CorrectionOrder,
    /// The pipeline that is in force: the numbers in the ledger are its.
    pipeline: Arc<Pipeline>,
    versions: HashMap<String, Option<Arc<CorrectedVersion>>>,
    impact: RuleImpact,
    actions: HashMap<(Action, Action), u64>,
    marked: MarkedKeys,
}

impl Engine {
    /// Finds out what a rule did to past events, and takes it back unless it is only to `pretend`: then as much is looked at as
    /// the budget has. `None` for a pipeline that there is not. Blocks, and may take long.
    ///
    /// # Errors
    /// [`CorrectionFailure`]. What is done stays done, and is not done again.
    pub async fn correct(
        &self,
        order: &CorrectionOrder,
        (by, now): (&str, Time),
        pretend: Option<&mut ReadBudget<'_>>,
        progress: &CorrectionProgress,
        is_over: &(dyn Fn() -> bool + Sync),
    ) -> Result<Option<RuleImpact>, CorrectionFailure> {
        let plan = self.plan();
        let Some(pipeline) = plan.pipeline(Some(&order.pipeline)).cloned() else { return Ok(None) };
        let mut corrector = Corrector {
            engine: self,
            order,
            pipeline,
            versions: HashMap::new(),
            impact: RuleImpact::default(),
            actions: HashMap::new(),
            marked: HashMap::new(),
        };
        let is_pretence = pretend.is_some();
        let mut budget = pretend;
        let mut records = self.corrections()?;
        if !is_pretence && records.len() >= RECORDS_MAX {
            return Err(CorrectionFailure::Full);
        }
        // An id tells its time to a millisecond: one that has begun is in it.
        let below = RecordId::first_of(Time(order.to.0.saturating_add(999)));
        let own = CorrectionRecord {
            order: order.clone(),
            reached: below,
            below,
            by: by.to_owned(),
            at: now,
            is_ended: false,
        };
        let before = records.clone();
        records.push(own);
        let mut next = Some(below);
        while let Some(below) = next {
            if is_over() {
                return Err(CorrectionFailure::Ended);
            }
            let query = DecisionQuery {
                filter: DecisionFilter {
                    pipeline: Some(order.pipeline.clone()),
                    rule: Some(order.rule.clone()),
                    from: Some(order.from),
                    ..DecisionFilter::default()
                },
                facts: FactSelection::None,
                below: Some(below),
                above: None,
                limit: PAGE,
            };
            let page = match &mut budget {
                Some(budget) => self.find_rows(&query, budget)?,
                None => {
                    let mut own = ReadBudget { records: PAGE_RECORDS, is_over: &is_over };
                    self.find_rows(&query, &mut own)?
                }
            };
            let is_meant = |version: &str| order.version.as_deref().is_none_or(|only| only == version);
            let mut requests = Vec::new();
            for (id, row) in page.decisions {
                // In shadow it did nothing.
                if !is_meant(&row.version) || !row.verdict.reasons.iter().any(|it| it.rule == order.rule) {
                    continue;
                }
                let done = before.iter().filter(|done| done.has_done(order, &row.version, id));
                let done = done.fold(DoneParts::default(), |parts, done| DoneParts {
                    counts: true,
                    labels: parts.labels || done.is_ended,
                });
                corrector.take(id, row, (now, done), &mut requests);
                progress.hits.fetch_add(1, Ordering::Relaxed);
            }
            next = page.next;
            if !is_pretence {
                if !requests.is_empty() {
                    self.ledger.observe(&requests).await?;
                }
                if let Some(own) = records.last_mut() {
                    own.reached = next.unwrap_or(RecordId::first_of(order.from));
                }
                self.keep_corrections(&records)?;
            }
            if next.is_some() && budget.as_ref().is_some_and(|budget| budget.is_spent()) {
                corrector.impact.is_partial = true;
                break;
            }
        }
        corrector.lift(now, is_pretence).await?;
        if !is_pretence {
            if let Some(mut own) = records.pop() {
                own.is_ended = true;
                // What it has gone through again needs no record any more.
                records.retain(|other| !own.covers(other));
                records.push(own);
            }
            self.keep_corrections(&records)?;
        }
        Ok(Some(corrector.finish()))
    }

    fn corrections_path(&self) -> Option<PathBuf> {
        self.directory.as_ref().map(|directory| directory.path().join(FILE))
    }

    /// Returns the corrections that were made; of an engine in memory those are none.
    fn corrections(&self) -> Result<Vec<CorrectionRecord>, DirectoryError> {
        let Some(path) = self.corrections_path() else { return Ok(Vec::new()) };
        let lost = "remove it only if no correction may be ordered again";
        let Some(bytes) = read_sealed(&path, BYTES_MAX, lost)? else { return Ok(Vec::new()) };
        let records = serde_json::from_slice(&bytes);
        records.map_err(|error| DirectoryError::Damaged { path, why: error.to_string() })
    }

    fn keep_corrections(&self, records: &[CorrectionRecord]) -> Result<(), DirectoryError> {
        let Some(path) = self.corrections_path() else { return Ok(()) };
        let bytes = serde_json::to_vec(records).map_err(std::io::Error::from);
        bytes.and_then(|bytes| disk::replace(&path, &disk::seal(&bytes))).map_err(io_error(&path))
    }
}

impl Corrector<'_> {
    /// Takes a decision for which the rule fired; adds what takes its additions back.
    fn take(
        &mut self,
        id: RecordId,
        mut row: DecisionRow,
        (now, done): (Time, DoneParts),
        requests: &mut Vec<ObserveRequest>,
    ) {
        self.impact.hits += 1;
        let version = self.version(&row);
        let Some(version) = version else {
            self.impact.unknown += 1;
            self.list(id, &row, None, done.counts);
            return;
        };
        let CorrectedVersion { backtest, rule } = &*version;
        let (of, rule) = (Arc::clone(backtest.pipeline()), *rule);
        let facts = self.facts(id, &mut row, &of);
        let judged = rejudged(backtest, &row, rule);
        let without = judged.as_ref().and_then(|judged| judged.without);
        match without {
            Some(without) => {
                self.impact.alone += u64::from(without != row.verdict.action);
                *self.actions.entry((row.verdict.action, without)).or_default() += 1;
            }
            None => self.impact.untold += 1,
        }
        self.impact.corrected += u64::from(done.counts);
        self.list(id, &row, without, done.counts);
        // A repeated event puts no labels and settles nothing, and one whose statistics could not be had settles nothing.
        if !row.duplicate && !done.labels {
            self.note_marks(&row, &facts, &of, rule);
        }
        let is_failed = row.verdict.reasons.iter().any(|it| it.rule == LEDGER_UNAVAILABLE);
        if row.duplicate || is_failed || done.counts {
            return;
        }
        let mut observations = Vec::new();
        let share = judged.map_or(1.0, |judged| judged.share);
        self.take_back_effects(&row, &facts, (&of, rule, share), &mut observations);
        if let Some(without) = without.filter(|without| *without != row.verdict.action) {
            self.take_back_action(&row, &facts, (&of, without), &mut observations);
        }
        for (number, part) in observations.chunks(ObserveRequest::OBSERVATIONS_MAX).enumerate() {
            let name = format!("{}\0{id}\0{number}", self.order.rule);
            let mark = keys::once(&self.pipeline, &self.engine.secret, "correction", &name);
            requests.push(ObserveRequest {
                once: Some(DedupeMark { key: mark, time: now }),
                origin: Origin::Verdict,
                observations: part.to_vec(),
            });
        }
    }

    /// The version that decided on a row, if it is kept and has the rule.
    fn version(&mut self, row: &DecisionRow) -> Option<Arc<CorrectedVersion>> {
        if !self.versions.contains_key(&row.version) {
            let known = self.engine.pipeline_of(&self.order.pipeline, &row.version);
            let description = self.engine.journal.as_ref().map(|journal| journal.description(&row.version));
            let made = known.zip(description.and_then(Result::ok)).and_then(|(pipeline, description)| {
                let rule = pipeline.rules.index(&self.order.rule)?;
                let described = [(row.version.clone(), (*description).clone())];
                let backtest = Backtest::new(pipeline, BacktestQuery::default(), &described);
                Some(Arc::new(CorrectedVersion { backtest, rule }))
            });
            self.versions.insert(row.version.clone(), made);
        }
        self.versions.get(&row.version)?.clone()
    }

    /// The facts of a row, in the columns of the version that decided.
    fn facts(&self, id: RecordId, row: &mut DecisionRow, of: &Pipeline) -> Facts {
        let mut facts = of.schema.empty_row();
        let Some(Ok(description)) =
            self.engine.journal.as_ref().map(|journal| journal.description(&row.version))
        else {
            return facts;
        };
        // The row is as it would be without its content.
        let _: Result<(), ContentError> = self.engine.content_keys.unseal(id, row, &description);
        for (column, value) in description.columns.iter().zip(row.facts.values()) {
            let slot =
                of.schema.slot(&column.name).filter(|slot| of.schema.column(*slot).kind == column.kind);
            if let (Some(slot), Some(value)) = (slot, value) {
                facts.set(slot, value.clone());
            }
        }
        facts
    }

    /// The keys of a kind that an event had: as they were logged, or else as its facts make them.
    fn keys(&self, row: &DecisionRow, facts: &Facts, kind: &KindPlan) -> Vec<Shingle> {
        let logged = row.keys.iter().filter(|key| key.kind == kind.kind).map(|key| key.shingle);
        let mut shingles: Vec<Shingle> = logged.collect();
        if shingles.is_empty() {
            keys::pieces(kind, facts, |piece| shingles.push(self.engine.secret.shingle(piece.as_bytes())));
        }
        shingles
    }

    /// Notes the labels that the rule put on keys.
    fn note_marks(&mut self, row: &DecisionRow, facts: &Facts, of: &Pipeline, rule: TableIndex<Rule>) {
        let fired: Vec<_> =
            row.verdict.reasons.iter().filter_map(|reason| of.rules.index(&reason.rule)).collect();
        for effect in &of.effects[rule] {
            let EffectPlan::Mark { label, lasts } = *effect else { continue };
            let others = fired.iter().filter(|other| **other != rule).flat_map(|other| &of.effects[*other]);
            let others: Vec<LabelSpan> = others
                .filter_map(|effect| match *effect {
                    EffectPlan::Mark { label: theirs, lasts } if theirs == label => Some(lasts),
                    _ => None,
                })
                .collect();
            let plan = &of.labels[label];
            for shingle in self.keys(row, facts, &of.kinds[plan.of]) {
                if self.marked.len() >= KEYS_MAX {
                    self.impact.is_partial = true;
                    return;
                }
                let end = |span: &LabelSpan| row.arrival + span.of(shingle, row.arrival);
                let (until, other) = (end(&lasts), others.iter().map(end).max());
                let known = self.marked.entry((plan.kind, shingle)).or_insert((until, other));
                *known = (known.0.max(until), known.1.max(other));
            }
        }
    }

    /// Adds what takes back the additions of the rule's effects.
    fn take_back_effects(
        &mut self,
        row: &DecisionRow,
        facts: &Facts,
        (of, rule, share): (&Pipeline, TableIndex<Rule>, f64),
        observations: &mut Vec<Observation>,
    ) {
        for effect in &of.effects[rule] {
            match *effect {
                EffectPlan::Mark { .. } => {}
                EffectPlan::MarkContributors { distinct, .. } => {
                    // The values were of other events.
                    *self.impact.lasting.entry(of.distincts[distinct].name.clone()).or_default() += 1;
                }
                EffectPlan::ClearLimit { limit } => {
                    let name = &of.cleared_limits[limit].limit.name;
                    *self.impact.lasting.entry(name.to_string()).or_default() += 1;
                }
                EffectPlan::Clear { kind, counter } => {
                    // What was there is not known any more.
                    let plan = &of.kinds[kind];
                    let name = plan.counters.as_slice().get(usize::from(counter));
                    let keys = self.keys(row, facts, plan).len() as u64;
                    if let (Some(name), 1..) = (name, keys) {
                        *self.impact.lasting.entry(format!("{}.{name}", plan.name)).or_default() += keys;
                    }
                }
                EffectPlan::Add { kind, counter, amount } => {
                    let plan = &of.kinds[kind];
                    let name =
                        &plan.counters.as_slice().get(usize::from(counter)).cloned().unwrap_or_default();
                    self.add(row, facts, (plan, name, amount), true, observations);
                }
                EffectPlan::AddValue { kind, value, by_share } => {
                    let plan = &of.kinds[kind];
                    let value = if by_share { (value as f64 * share).round() as i64 } else { value };
                    self.add_value(row, facts, plan, value.saturating_neg(), observations);
                }
            }
        }
    }

    /// Adds what makes the settled counters and values those of another action.
    fn take_back_action(
        &mut self,
        row: &DecisionRow,
        facts: &Facts,
        (of, without): (&Pipeline, Action),
        observations: &mut Vec<Observation>,
    ) {
        for (_, plan) in of.kinds.entries() {
            for (action, counter) in &plan.settle {
                let is_taken = *action == row.verdict.action;
                if is_taken || *action == without {
                    let name =
                        plan.counters.as_slice().get(usize::from(*counter)).cloned().unwrap_or_default();
                    self.add(row, facts, (plan, &name, 1), is_taken, observations);
                }
            }
            let sum = |of: Action| {
                let values = plan.settle_values.iter().filter(|(action, _)| *action == of);
                values.fold(0i64, |sum, (_, value)| sum.saturating_add(*value))
            };
            let value = sum(without).saturating_sub(sum(row.verdict.action));
            self.add_value(row, facts, plan, value, observations);
        }
    }

    /// Adds to a counter, or to what holds how much of it was taken back, at the time of the event.
    fn add(
        &mut self,
        row: &DecisionRow,
        facts: &Facts,
        (of, counter, amount): (&KindPlan, &str, u64),
        is_taken_back: bool,
        observations: &mut Vec<Observation>,
    ) {
        let keys = self.keys(row, facts, of);
        let pipeline = Arc::clone(&self.pipeline);
        let plan = pipeline.kinds.iter().find(|plan| plan.name == of.name && plan.kind == of.kind);
        let number = plan.and_then(|plan| {
            let number = plan.counter(counter)?;
            if is_taken_back { plan.taken_back(number) } else { Some(number) }
        });
        let (Some(plan), Some(number)) = (plan, number) else {
            if is_taken_back && !keys.is_empty() {
                *self.impact.lasting.entry(format!("{}.{counter}", of.name)).or_default() +=
                    keys.len() as u64;
            }
            return;
        };
        let Some(counted) = plan.counter(counter) else { return };
        let value: Option<&Value> = of.value.and_then(|slot| facts.get(slot));
        let value = value.and_then(|value| plan.units(value));
        let added = plan.amounts(std::iter::once((counted, amount)), value);
        let added: CounterAmounts = added.map(|(_, amount)| (number, amount)).collect();
        if added.iter().next().is_none() {
            return;
        }
        self.impact.counts += if is_taken_back { keys.len() as u64 } else { 0 };
        observations.extend(keys.into_iter().map(|shingle| Observation {
            key: Key { space: pipeline.space, kind: plan.kind, shingle },
            time: row.time,
            add: Addition::Counters(added.clone()),
        }));
    }

    /// Adds to an aggregate's sum. What else an aggregate keeps, its greatest value and the number of events, stays.
    fn add_value(
        &mut self,
        row: &DecisionRow,
        facts: &Facts,
        of: &KindPlan,
        value: i64,
        observations: &mut Vec<Observation>,
    ) {
        if value == 0 {
            return;
        }
        let keys = self.keys(row, facts, of);
        let pipeline = Arc::clone(&self.pipeline);
        let plan = pipeline.kinds.iter().find(|plan| plan.name == of.name && plan.kind == of.kind);
        let Some(plan) = plan.filter(|plan| is_of_sums(plan)) else {
            *self.impact.lasting.entry(of.name.clone()).or_default() += keys.len() as u64;
            return;
        };
        self.impact.counts += keys.len() as u64;
        observations.extend(keys.into_iter().map(|shingle| Observation {
            key: Key { space: pipeline.space, kind: plan.kind, shingle },
            time: row.time,
            add: Addition::Value(Some(value)),
        }));
    }

    /// Ends the labels that the rule put on keys, and the bans that these are.
    async fn lift(&mut self, now: Time, is_pretence: bool) -> Result<(), LedgerError> {
        let engine = self.engine;
        self.marked.retain(|_, (until, _)| *until > now);
        // Whose ban it is the list knows: one that somebody else made longer stays.
        let mut rest = engine.ban_list.all();
        while rest.is_some() {
            for ban in engine.ban_list.page(&mut rest, now) {
                let source = &ban.source;
                if source.pipeline != self.order.pipeline {
                    continue;
                }
                let label = self.pipeline.labels.iter().find(|label| {
                    label.name == source.label && self.pipeline.kinds[label.of].name == source.kind
                });
                let Some(label) = label else { continue };
                let key = (label.kind, engine.secret.shingle(ban.value.as_bytes()));
                let Some((until, other)) = self.marked.get(&key).copied() else { continue };
                // One that holds longer is of another decision.
                let is_other = source.by != self.order.rule || ban.until > until;
                if is_other || other.is_some_and(|other| other > now) {
                    self.marked.remove(&key);
                    continue;
                }
                self.impact.bans += 1;
                if !is_pretence {
                    engine.ban_list.lift_label(&ban.value, source);
                }
            }
        }
        self.impact.labels = self.marked.len() as u64;
        if is_pretence || engine.ledger.embedded().is_none() {
            return Ok(());
        }
        let lowered = self.marked.iter().map(|((kind, shingle), (_, other))| Observation {
            key: Key { space: self.pipeline.space, kind: *kind, shingle: *shingle },
            time: now,
            add: Addition::Lower(other.map_or(now, |other| other.max(now)).0),
        });
        let lowered: Vec<Observation> = lowered.collect();
        for part in lowered.chunks(ObserveRequest::OBSERVATIONS_MAX) {
            let request = ObserveRequest { observations: part.to_vec(), ..ObserveRequest::default() };
            engine.ledger.observe(&[request]).await?;
        }
        Ok(())
    }

    fn list(&mut self, id: RecordId, row: &DecisionRow, without: Option<Action>, is_corrected: bool) {
        let is_alone = |hit: &RuleHit| hit.without.is_some_and(|without| without != hit.action);
        let hit = RuleHit {
            id,
            time: row.time,
            event_id: row.event_id.clone(),
            version: row.version.clone(),
            action: row.verdict.action,
            without,
            is_corrected,
        };
        let listed = &mut self.impact.listed;
        let at = match is_alone(&hit) {
            true => listed.partition_point(is_alone),
            false => listed.len(),
        };
        if at < LISTED_MAX {
            listed.insert(at, hit);
            listed.truncate(LISTED_MAX);
        }
    }

    fn finish(self) -> RuleImpact {
        let mut impact = self.impact;
        impact.actions =
            self.actions.into_iter().map(|((before, without), rows)| (before, without, rows)).collect();
        impact
            .actions
            .sort_by_key(|(before, without, rows)| (std::cmp::Reverse(*rows), *before as u8, *without as u8));
        impact
    }
}

/// Judges a row again with and without a rule, by the version that decided; `None` where it is not judged as it was.
fn rejudged(backtest: &Backtest, row: &DecisionRow, rule: TableIndex<Rule>) -> Option<RejudgedRow> {
    let mut outcome = Evaluation::default();
    backtest.evaluate(row, None, &mut outcome)?;
    let share = outcome.share(rule);
    if outcome.action() != row.verdict.action {
        return Some(RejudgedRow { without: None, share });
    }
    backtest.evaluate(row, Some(rule), &mut outcome)?;
    Some(RejudgedRow { without: Some(outcome.action()), share })
}

/// Returns true if what was added to an aggregate can be taken back: it has sums, and no least or greatest value.
fn is_of_sums(plan: &KindPlan) -> bool {
    let is_extreme = |column: &AggregateColumn| matches!(column, AggregateColumn::Min | AggregateColumn::Max);
    plan.aggregate.iter().next().is_some() && !plan.aggregate.iter().any(is_extreme)
}
