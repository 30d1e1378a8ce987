//! Events counted and judged anew from the beginning, by the journal's rows in the order in which they were written.
//!
//! An event is what its row holds of it: fields and content features that are journalled. Keys of a fact that is not,
//! such as a whole text, are those that the row itself names, if the kind is what it was. Statistics and limits begin empty and
//! live by the events' own arrivals; feedback adds to them where it came. What takes from a limit and is no event of the
//! pipeline, such as a take by name, is not in the journal.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use catboost::ModelScratch;
use event::{Key, Kind, Secret, Shingle, Slot, Table, TableIndex, Time, Value};
use journal::{
    Block, DecisionRow, Record, RecordId, RecordVisitor, ReplacedReport, ReportRecord, SegmentError,
    VersionDescription,
};
use judge::Evaluation;
use stats::{Catalog, EmbeddedLedger, Ledger, LedgerError, ObserveRequest, Origin};

use super::logged_version::{LoggedVersion, computable};
use super::{Backtest, BacktestQuery, BacktestTally, BlockJudgement, RowComparison, RowVerdict};
use crate::ban_list::BanList;
use crate::feedback::{EventAmounts, VoteTarget};
use crate::limit::{ClearedLimits, LimitContext, LimitExceptions};
use crate::pipeline::fields::RowDraft;
use crate::pipeline::{keys, observe, settle};
use crate::{EngineOpenError, ON_ALLOW_LIST};
use plan::{KeyFields, KindPlan, PartMeasure, Pipeline, Plan, ReadingSource, RuleLimit};

/// Reasons for a replay to stop.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// A block is damaged.
    #[error(transparent)]
    Segment(#[from] SegmentError),
    /// The ledger.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

/// A pipeline with statistics of its own, in memory.
#[derive(Debug)]
pub struct Replay {
    backtest: Backtest,
    ledger: EmbeddedLedger,
    catalog: Catalog,
    secret: Secret,
    /// The exceptions of limits that the configuration has.
    exceptions: LimitExceptions,
    /// The allow list, above bans of limits and of labels.
    ban_list: BanList,
    kinds: HashMap<String, Table<KindPlan, ReplayKeySource>>,
    tally: BacktestTally,
    /// Decisions on which there is feedback, and what it counts for once they are there. Some 30 bytes a key.
    answered: HashMap<RecordId, (Vec<Key>, EventAmounts)>,
    /// The earliest arrival of the block at work.
    earliest: Time,
    outcome: Evaluation,
    scratch: ModelScratch,
}

/// Decision, class, when it was said, and the id of that.
#[derive(Default)]
struct FeedbackCollector(Vec<(RecordId, Option<String>, Time, RecordId)>);

impl<'w> RecordVisitor<'w> for FeedbackCollector {
    fn feedback(&mut self, id: RecordId, decision: RecordId, class: Option<&str>, time: Time) {
        self.0.push((decision, class.map(str::to_owned), time, id));
    }
}

/// The source of a kind's keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReplayKeySource {
    /// The row's fact.
    Fact,
    /// The row's keys of the kind that had this number then.
    Keys(Kind),
    /// Neither is there.
    Nowhere,
}

impl Replay {
    /// A replay of one of a plan's pipelines, with the secret of the rows' keys and the journal's descriptions of former
    /// versions. Rows before the question's time are counted and not compared.
    ///
    /// # Errors
    /// If the statistics do not fit into the plan's memory.
    pub fn new(
        plan: &Plan,
        pipeline: Arc<Pipeline>,
        secret: Secret,
        question: BacktestQuery,
        descriptions: &[(String, VersionDescription)],
    ) -> Result<Replay, EngineOpenError> {
        let mut kinds = HashMap::new();
        let mut versions = HashMap::new();
        for (version, description) in descriptions {
            let sources = sources(&pipeline, description);
            let lost = lost(&pipeline, description, &sources);
            versions.insert(version.clone(), LoggedVersion::of_inputs(&pipeline, description, &lost));
            kinds.insert(version.clone(), sources);
        }
        let backtest = Backtest { pipeline, question, versions };
        let ban_list = BanList::default();
        ban_list.set_allow(Arc::clone(&plan.allow));
        Ok(Replay {
            ledger: EmbeddedLedger::in_memory(plan.catalog.clone(), plan.node.ledger_memory)?,
            catalog: plan.catalog.clone(),
            exceptions: LimitExceptions::new(plan, Vec::new(), &secret),
            ban_list,
            tally: backtest.tally(),
            backtest,
            secret,
            kinds,
            answered: HashMap::new(),
            earliest: Time(i64::MAX),
            outcome: Evaluation::default(),
            scratch: ModelScratch::default(),
        })
    }

    /// Notes what a block says of decisions. To be called with every block before the first is replayed.
    ///
    /// # Errors
    /// If the block is damaged.
    pub fn note(&mut self, block: &Block) -> Result<(), SegmentError> {
        let mut answers = FeedbackCollector::default();
        block.look(&mut answers)?;
        let FeedbackCollector(feedback) = answers;
        self.answered.extend(feedback.iter().map(|(decision, ..)| (*decision, Default::default())));
        self.tally.add(BlockJudgement { feedback, ..BlockJudgement::default() });
        Ok(())
    }

    /// Replays a block; the oldest comes first.
    ///
    /// # Errors
    /// If the block is damaged, or statistics cannot be had.
    pub async fn take(&mut self, block: &Block) -> Result<(), ReplayError> {
        let mut judgement = BlockJudgement {
            after: self.backtest.pipeline.rules.rules().map(|_| 0),
            ..BlockJudgement::default()
        };
        judgement.bytes = block.disk_bytes();
        for (id, record) in block.records()? {
            match record {
                Record::Decision(row) if row.pipeline == self.backtest.pipeline.name => {
                    self.decide(id, *row, &mut judgement).await?;
                }
                Record::Decision(_) => {}
                Record::Report(report) => self.report(&report).await?,
            }
        }
        // What was imported may go back in time: nothing is forgotten that the next block could ask for.
        let now = std::mem::replace(&mut self.earliest, Time(i64::MAX));
        if now < Time(i64::MAX) {
            self.ledger.maintain(now)?;
        }
        self.tally.add(judgement);
        Ok(())
    }

    /// Rows and bytes so far.
    pub fn progress(&self) -> (u64, u64) {
        (self.tally.rows(), self.tally.bytes())
    }

    async fn decide(
        &mut self,
        id: RecordId,
        row: DecisionRow,
        judgement: &mut BlockJudgement,
    ) -> Result<(), LedgerError> {
        let Backtest { pipeline, question, versions } = &self.backtest;
        if question.to.is_some_and(|to| row.time >= to) {
            return Ok(());
        }
        let (Some(version), Some(kinds)) = (versions.get(&row.version), self.kinds.get(&row.version)) else {
            judgement.undescribed += u64::from(question.takes(row.time));
            return Ok(());
        };
        let logged = |kind: TableIndex<KindPlan>| -> Option<Vec<Shingle>> {
            match &kinds[kind] {
                ReplayKeySource::Fact => None,
                ReplayKeySource::Keys(number) => {
                    Some(row.keys.iter().filter(|key| key.kind == *number).map(|key| key.shingle).collect())
                }
                ReplayKeySource::Nowhere => Some(Vec::new()),
            }
        };
        let mut prepared = keys::derive_with(fielded(pipeline, version, &row), &self.secret, logged);
        prepared.tokens.clear();
        self.earliest = self.earliest.min(row.arrival);
        if let Some((keys, amounts)) = self.answered.get_mut(&id) {
            keys.clone_from(&prepared.keys);
            *amounts = EventAmounts::of(pipeline, |slot| prepared.row.facts.get(slot));
        }
        let limits =
            LimitContext { exceptions: &self.exceptions, secret: &self.secret, ban_list: &self.ban_list };
        let (mut observed, failure) = observe::observe(&self.ledger, vec![prepared], Some(&limits)).await;
        if let Some(error) = failure {
            return Err(error);
        }
        for prepared in observed.prepared_mut() {
            version.score(pipeline, &mut [&mut prepared.row.facts], &mut self.scratch);
            let facts = &prepared.row.facts;
            pipeline.rules.evaluate_selected(&version.selection, facts, &mut self.outcome);
        }
        let outcome = &self.outcome;
        let (event, mut adds, mut cleared) = (observed.event(0), Vec::new(), ClearedLimits::default());
        settle::requests(&event, outcome.action(), outcome, &self.ban_list.allow(), &mut adds);
        settle::clear_limits(&event, outcome, &limits, &self.catalog, &mut cleared);
        adds.extend(cleared.requests());
        settle::settle(&self.ledger, &adds).await?;
        if !question.takes(row.time) {
            return Ok(());
        }
        for index in outcome.fired().iter().chain(outcome.shadow()) {
            judgement.after[*index] += 1;
        }
        for (reasons, shadow) in [(&row.verdict.reasons, 0), (&row.verdict.shadow, 1)] {
            for reason in reasons.iter().filter(|reason| reason.rule != ON_ALLOW_LIST) {
                judgement.before.entry(reason.rule.clone()).or_default()[shadow] += 1;
            }
        }
        *judgement.versions.entry(row.version.clone()).or_default() += 1;
        let before = RowVerdict { score: row.verdict.score, action: row.verdict.action };
        let after = RowVerdict { score: outcome.score(), action: outcome.action() };
        if before != after {
            judgement.fired.insert(id, self.backtest.names(outcome.fired()));
        }
        judgement.rows.push(RowComparison { id, before, after });
        Ok(())
    }

    /// Counts what a report adds, and takes back. Of the classes that the pipeline has still.
    async fn report(&mut self, report: &ReportRecord) -> Result<(), LedgerError> {
        let counters = |class: &str| self.backtest.pipeline.feedback.get(class).cloned();
        if let Some(counters) = report.class.as_deref().and_then(counters) {
            self.answer(report.decision, &counters, (report.weight, report.time), false).await?;
        }
        let Some(ReplacedReport { class, time, weight, .. }) = &report.replaced else { return Ok(()) };
        let Some(counters) = self.backtest.pipeline.feedback.get(class).cloned() else { return Ok(()) };
        self.answer(report.decision, &counters, (*weight, *time), true).await
    }

    /// Counts feedback on a decision.
    async fn answer(
        &mut self,
        decision: RecordId,
        counters: &[String],
        counts: (u8, Time),
        taken_back: bool,
    ) -> Result<(), LedgerError> {
        let pipeline = &self.backtest.pipeline;
        let Some((keys, amounts)) = self.answered.get(&decision) else { return Ok(()) };
        let target = VoteTarget { pipeline, secret: &self.secret, keys, amounts };
        let observations = target.counted(counters, counts, taken_back).collect();
        self.ledger.observe(&[ObserveRequest { once: None, origin: Origin::Report, observations }]).await?;
        Ok(())
    }

    /// Keys that were forgotten for want of memory: what they would have said is missing.
    pub fn forgotten(&self) -> u64 {
        self.ledger.census().evictions
    }

    /// Returns what was compared, for a report.
    pub fn finish(self) -> (Backtest, BacktestTally) {
        (self.backtest, self.tally)
    }
}

/// The row as the first three stages would have left it.
fn fielded(pipeline: &Arc<Pipeline>, version: &LoggedVersion, row: &DecisionRow) -> RowDraft {
    let mut facts = pipeline.schema.empty_row();
    version.take(row, &mut facts);
    facts.set(pipeline.columns.event.time, row.time);
    facts.set(pipeline.columns.event.arrival, row.arrival);
    for (field, network) in &pipeline.columns.networks {
        if let Some(Value::Ip(ip)) = facts.get(*field) {
            let text = content::network::network(*ip, pipeline.prefixes);
            facts.set(*network, text);
        }
    }
    version.derive(pipeline, &mut facts);
    RowDraft {
        pipeline: Arc::clone(pipeline),
        event_id: row.event_id.clone(),
        time: row.time,
        arrival: row.arrival,
        clamped: false,
        ignored: 0,
        facts,
        raw: None,
    }
}

/// The source of each kind's keys in the rows of a version.
fn sources(pipeline: &Pipeline, description: &VersionDescription) -> Table<KindPlan, ReplayKeySource> {
    let there = there(pipeline, description);
    let is_there = |slot: Slot| there.contains(&slot);
    let are_there = |fields: &KeyFields| fields.as_slice().iter().all(|field| is_there(field.slot));
    let of = |plan: &KindPlan| {
        let asks = plan.when.iter().flat_map(|when| when.reads()).all(|read| is_there(read.slot));
        if asks && are_there(&plan.fields) {
            return ReplayKeySource::Fact;
        }
        let was = description.kinds.iter().find(|kind| kind.name == plan.name);
        let same = was.filter(|kind| {
            let fields = plan.fields.as_slice();
            kind.fields().len() == fields.len()
                && kind.fields().zip(fields).all(|((slot, normalise), field)| {
                    let column = description.columns.get(usize::from(slot.0));
                    column.is_some_and(|column| column.name == pipeline.schema.column(field.slot).name)
                        && *normalise == field.normalise.to_string()
                })
        });
        same.map_or(ReplayKeySource::Nowhere, |kind| ReplayKeySource::Keys(kind.kind))
    };
    pipeline.kinds.map(of)
}

/// The columns that the rows of a version have, and those of fields that are derived from them.
fn there(pipeline: &Pipeline, description: &VersionDescription) -> HashSet<Slot> {
    let columns = description.columns.iter().filter(|column| column.journalled);
    let mut there: HashSet<Slot> = columns.filter_map(|column| pipeline.schema.slot(&column.name)).collect();
    let derived = computable(pipeline, |slot| there.contains(&slot));
    there.extend(derived.into_iter().flat_map(|index| pipeline.columns.derived[index].slots()));
    there
}

/// Columns of readings that cannot be made, as rows lack keys or values.
fn lost(
    pipeline: &Pipeline,
    description: &VersionDescription,
    sources: &Table<KindPlan, ReplayKeySource>,
) -> Vec<Slot> {
    let there = there(pipeline, description);
    let is_there = |slot: Slot| there.contains(&slot);
    let is_lost = |kind| sources[kind] == ReplayKeySource::Nowhere;
    let is_limited = |of: &RuleLimit| {
        let asked = of.when.iter().flat_map(|(when, _)| when.reads()).map(|read| read.slot);
        asked.chain(of.key.iter().copied()).all(is_there)
    };
    let has_no_value = |kind| pipeline.kinds[kind].value.is_some_and(|slot| !is_there(slot));
    let readings = pipeline.readings.iter().filter(|column| match &column.source {
        ReadingSource::Distinct { distinct, .. }
        | ReadingSource::NewValue { distinct }
        | ReadingSource::EstimatedDistinct { distinct } => {
            let plan = &pipeline.distincts[*distinct];
            is_lost(plan.per) || !plan.of.as_slice().iter().all(|field| is_there(field.slot))
        }
        ReadingSource::Marked { label } => is_lost(pipeline.labels[*label].of),
        ReadingSource::Last { kind } => {
            let of = pipeline.kinds[*kind].last.as_ref();
            is_lost(*kind) || of.is_some_and(|last| !is_there(last.of))
        }
        ReadingSource::Aggregate { kind, .. }
        | ReadingSource::Count { kind, .. }
        | ReadingSource::Buckets { kind, .. }
        | ReadingSource::Ratio { kind, .. } => is_lost(*kind) || has_no_value(*kind),
        ReadingSource::Estimated { kind }
        | ReadingSource::New { kind }
        | ReadingSource::FirstAge { kind }
        | ReadingSource::LastAge { kind } => is_lost(*kind),
        ReadingSource::Reputation { reputation, .. } => {
            let plan = &pipeline.reputations[*reputation];
            plan.formula.parts.iter().any(|part| match &part.measure {
                PartMeasure::Counter { kind, .. } | PartMeasure::Decayed { kind, .. } => {
                    is_lost(*kind) || has_no_value(*kind)
                }
                PartMeasure::Distinct { distinct, .. } => is_lost(pipeline.distincts[*distinct].per),
                // No event has a reporter.
                PartMeasure::Report { .. } => true,
            })
        }
        ReadingSource::Limit { limit, .. } => !is_limited(&pipeline.limits[*limit]),
    });
    readings.map(|column| column.slot).collect()
}
