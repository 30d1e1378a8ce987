//! Backtests of other rules and models: the rows of a journal judged anew.
//!
//! [`Backtest::judge`] takes a block and can run on any thread; [`BacktestTally::add`] takes what it answers, in the order of
//! [`JournalArchive::newest_first`](journal::JournalArchive::newest_first), and [`BacktestTally::report`] tells it all. Rows are
//! read as they were logged. Of facts that a row's version did not log nothing is assumed: what needs them is left out, and
//! named.
//!
//! [`Engine::backtest_sample`](crate::Engine::backtest_sample) and [`Engine::backtest`](crate::Engine::backtest) do so over the
//! journal of an engine that is at work.
//!
//! [`Replay`] counts the logged events anew instead, so that other statistics can be tried, too.

mod live;
mod logged_version;
mod replay;
mod report;
mod score_fit;

use std::collections::HashMap;
use std::sync::Arc;

use catboost::ModelScratch;
use event::{Facts, Slot, Table, TableIndex, Time};
use journal::{
    Block, DecisionHead, DecisionLabels, DecisionOutcome, DecisionRow, RecordId, RecordVisitor, SegmentError,
    VersionDescription,
};
use judge::{Action, Evaluation, FitExample, Mode, Rule};
use serde::Serialize;

use crate::{LEDGER_UNAVAILABLE, ON_ALLOW_LIST};
pub use live::BacktestProgress;
use logged_version::LoggedVersion;
use plan::FailureMode;
use plan::Pipeline;
pub use replay::{Replay, ReplayError};
pub use report::{
    ActionChange, BacktestExample, BacktestPair, BacktestReport, BacktestTally, ClassificationQuality,
    ConfusionMatrix, LabelChange, MissingFact, RuleHits,
};
pub use score_fit::{FittedScore, ScoreFit, ScoreFitError, ScoreFitQuery, ScoreQuality};

/// The rows of a backtest, and the meaning of their labels and actions.
#[derive(Clone, Debug, Default)]
pub struct BacktestQuery {
    /// Only events at this time or later.
    pub from: Option<Time>,
    /// Only events before this time.
    pub to: Option<Time>,
    /// Feedback classes that say that an event should have been caught; all other judgements say that it should not. If empty,
    /// what `[reports]` says of them; where that says nothing, those of [`BacktestQuery::BAD`].
    pub bad: Vec<String>,
    /// Actions that catch an event. Empty for all but `accept`.
    pub caught: Vec<Action>,
    /// The terms on which scores are fitted to the events with a judgement, if they are.
    pub fit: Option<ScoreFitQuery>,
}

impl BacktestQuery {
    /// Names that classes of bad events usually have.
    pub const BAD: [&str; 5] = ["spam", "bad", "complaint", "abuse", "fraud"];

    /// Returns true if a label says that an event should have been caught; `None` if it says neither.
    pub(crate) fn is_bad(&self, pipeline: &Pipeline, class: &str) -> Option<bool> {
        let is_named = self.bad.iter().any(|bad| bad == class);
        match pipeline.reports.as_ref().filter(|reports| reports.has_sides()) {
            _ if is_named => Some(true),
            // What names neither side is no judgement, also where it was logged as one under another configuration.
            Some(reports) => {
                reports.side_of(class).map(|side| self.bad.is_empty() && side == plan::FeedbackSide::Bad)
            }
            None => Some(self.bad.is_empty() && BacktestQuery::BAD.contains(&class)),
        }
    }

    fn catches(&self, action: Action) -> bool {
        if self.caught.is_empty() { action != Action::Accept } else { self.caught.contains(&action) }
    }

    fn takes(&self, time: Time) -> bool {
        self.from.is_none_or(|from| time >= from) && self.to.is_none_or(|to| time < to)
    }
}

/// A pipeline's rules and models, ready to judge the rows of its former versions.
#[derive(Debug)]
pub struct Backtest {
    pipeline: Arc<Pipeline>,
    question: BacktestQuery,
    versions: HashMap<String, LoggedVersion>,
}

/// The verdict of a rule set on a row.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RowVerdict {
    /// The score.
    pub score: f64,
    /// The action.
    pub action: Action,
}

/// A row that was judged anew.
#[derive(Clone, Copy, Debug)]
struct RowComparison {
    id: RecordId,
    before: RowVerdict,
    after: RowVerdict,
}

/// A row as an example to fit scores to, of which nobody has said yet what it was.
#[derive(Debug)]
struct RowExample {
    id: RecordId,
    time: Time,
    example: FitExample,
}

/// A block that was judged anew.
#[derive(Debug, Default)]
pub struct BlockJudgement {
    rows: Vec<RowComparison>,
    examples: Vec<RowExample>,
    /// The enforced rules that fire on rows that change, where the rows do not tell.
    fired: HashMap<RecordId, Vec<String>>,
    /// Decision, class, when it was said, and the id of that.
    feedback: Vec<(RecordId, Option<String>, Time, RecordId)>,
    /// The number of times that each enforced and each shadow rule had fired.
    before: HashMap<String, [u64; 2]>,
    /// The number of times that each rule of the new set fires.
    after: Table<Rule, u64>,
    /// Rows of each version.
    versions: HashMap<String, u64>,
    /// Rows whose version nobody described.
    undescribed: u64,
    /// Bytes on disk.
    bytes: u64,
}

/// Rows that models score together.
const ROWS: usize = 256;

impl BlockJudgement {
    /// Takes the labels of its rows from those that are known, instead of what is said later in the journal.
    fn label_by(&mut self, labels: &DecisionLabels) {
        let known = |row: &RowComparison| {
            labels.of(row.id).map(|(class, time)| (row.id, Some(class.to_string()), time, row.id))
        };
        self.feedback = self.rows.iter().filter_map(known).collect();
    }
}

impl Backtest {
    /// A backtest of the pipeline under trial, with the journal's descriptions of former versions.
    pub fn new(
        pipeline: Arc<Pipeline>,
        question: BacktestQuery,
        descriptions: &[(String, VersionDescription)],
    ) -> Backtest {
        let of = |(version, description): &(String, VersionDescription)| {
            (version.clone(), LoggedVersion::new(&pipeline, description))
        };
        let versions = descriptions.iter().map(of).collect();
        Backtest { pipeline, question, versions }
    }

    /// The pipeline that is tried.
    pub fn pipeline(&self) -> &Arc<Pipeline> {
        &self.pipeline
    }

    /// An empty tally.
    pub fn tally(&self) -> BacktestTally {
        BacktestTally::new(self.question.clone(), Arc::clone(&self.pipeline))
    }

    /// Judges the rows of a block.
    ///
    /// # Errors
    /// If the block is damaged.
    pub fn judge(&self, block: &Block) -> Result<BlockJudgement, SegmentError> {
        let bench = RowBatch::new(self, block.disk_bytes());
        let mut judging = RowCollector { bench, last: None, current: None, fired: HashMap::new() };
        block.look(&mut judging)?;
        let RowCollector { mut bench, fired, .. } = judging;
        bench.settle();
        let mut judgement = bench.judgement;
        judgement.before = fired;
        Ok(judgement)
    }

    /// The enforced rules that fire on a row.
    fn fired(&self, row: &DecisionRow) -> Option<Vec<String>> {
        let mut outcome = Evaluation::default();
        self.evaluate(row, None, &mut outcome)?;
        Some(self.names(outcome.fired()))
    }

    /// Evaluates the rules on a row, but for one that is left out; `None` for a version that nobody described.
    pub(crate) fn evaluate(
        &self,
        row: &DecisionRow,
        without: Option<TableIndex<Rule>>,
        outcome: &mut Evaluation,
    ) -> Option<()> {
        let version = self.versions.get(&row.version)?;
        let mut facts = self.pipeline.schema.empty_row();
        version.take(row, &mut facts);
        version.derive(&self.pipeline, &mut facts);
        version.score(&self.pipeline, &mut [&mut facts], &mut ModelScratch::default());
        match without {
            None => self.pipeline.rules.evaluate_selected(&version.selection, &facts, outcome),
            Some(rule) => {
                let fewer = version.selection.without(rule);
                self.pipeline.rules.evaluate_selected(&fewer, &facts, outcome);
            }
        }
        Some(())
    }

    fn names(&self, rules: &[TableIndex<Rule>]) -> Vec<String> {
        let all = self.pipeline.rules.rules();
        rules.iter().map(|index| all[*index].name.clone()).collect()
    }
}

/// A row whose facts are read.
struct PendingRow<'a> {
    id: RecordId,
    version: &'a LoggedVersion,
    before: RowVerdict,
    time: Time,
    /// The ledger could not be had.
    failed: bool,
}

/// Takes the rows of a block to the bench.
struct RowCollector<'a> {
    bench: RowBatch<'a>,
    /// The version that was asked for last, if anything is known of it.
    last: Option<(String, Option<&'a LoggedVersion>)>,
    /// The row whose facts are being read.
    current: Option<(RecordId, Time, &'a LoggedVersion, bool)>,
    /// The number of times that each enforced and each shadow rule had fired.
    fired: HashMap<String, [u64; 2]>,
}

impl<'a> RowCollector<'a> {
    fn known(&mut self, version: &str) -> Option<&'a LoggedVersion> {
        match &self.last {
            Some((name, known)) if name == version => *known,
            _ => {
                let known = self.bench.backtest.versions.get(version);
                self.last = Some((version.to_owned(), known));
                known
            }
        }
    }
}

impl<'a> RecordVisitor<'a> for RowCollector<'a> {
    fn version(&mut self, pipeline: &str, version: &str) -> Option<&'a [Option<Slot>]> {
        let known = self.known(version).filter(|_| pipeline == self.bench.backtest.pipeline.name);
        known.map(|version| version.wanted.as_slice())
    }

    fn decision(&mut self, head: &DecisionHead<'_>) -> Option<&mut Facts> {
        let Backtest { pipeline, question, .. } = self.bench.backtest;
        if head.pipeline != pipeline.name || !question.takes(head.time) {
            return None;
        }
        let Some(version) = self.known(head.version) else {
            self.bench.judgement.undescribed += 1;
            return None;
        };
        self.current = Some((head.id, head.time, version, false));
        Some(self.bench.row())
    }

    fn fired(&mut self, rule: &str, shadow: bool) {
        // It says what was not done, and is no rule.
        if rule == ON_ALLOW_LIST {
            return;
        }
        match self.fired.get_mut(rule) {
            Some(hits) => hits[usize::from(shadow)] += 1,
            None => self.fired.entry(rule.to_owned()).or_default()[usize::from(shadow)] += 1,
        }
        if let Some((.., failed)) = &mut self.current {
            *failed |= rule == LEDGER_UNAVAILABLE;
        }
    }

    fn decided(&mut self, DecisionOutcome { score, action, .. }: DecisionOutcome) {
        if let (Some((id, time, version, failed)), Some((name, _))) = (self.current.take(), &self.last) {
            let before = RowVerdict { score, action };
            self.bench.keep(PendingRow { id, version, before, time, failed }, name);
        }
    }

    fn feedback(&mut self, id: RecordId, decision: RecordId, class: Option<&str>, time: Time) {
        self.bench.judgement.feedback.push((decision, class.map(str::to_owned), time, id));
    }
}

/// Rows that are judged together, and room for them.
struct RowBatch<'a> {
    backtest: &'a Backtest,
    /// The first of these belong to `waiting`; all others are empty.
    facts: Vec<Facts>,
    waiting: Vec<PendingRow<'a>>,
    outcome: Evaluation,
    scratch: ModelScratch,
    judgement: BlockJudgement,
}

impl<'a> RowBatch<'a> {
    fn new(backtest: &'a Backtest, bytes: u64) -> RowBatch<'a> {
        let after = backtest.pipeline.rules.rules().map(|_| 0);
        RowBatch {
            backtest,
            facts: Vec::new(),
            waiting: Vec::new(),
            outcome: Evaluation::default(),
            scratch: ModelScratch::default(),
            judgement: BlockJudgement { after, bytes, ..BlockJudgement::default() },
        }
    }

    /// An empty row.
    fn row(&mut self) -> &mut Facts {
        let index = self.waiting.len();
        if self.facts.len() == index {
            self.facts.push(self.backtest.pipeline.schema.empty_row());
        }
        &mut self.facts[index]
    }

    /// Keeps the row that was last given out.
    fn keep(&mut self, row: PendingRow<'a>, version: &str) {
        match self.judgement.versions.get_mut(version) {
            Some(rows) => *rows += 1,
            None => drop(self.judgement.versions.insert(version.to_owned(), 1)),
        }
        // Models are asked for many rows of one version at a time.
        let same = self.waiting.last().is_none_or(|last| std::ptr::eq(last.version, row.version));
        self.waiting.push(row);
        let rows = if self.backtest.pipeline.models.is_empty() { 1 } else { ROWS };
        if !same || self.waiting.len() >= rows {
            self.settle();
        }
    }

    /// Judges what waits.
    fn settle(&mut self) {
        let RowBatch { backtest, facts, waiting, outcome, scratch, judgement } = self;
        let Backtest { pipeline, .. } = backtest;
        let rows = waiting.len();
        let mut rest = &mut facts[..rows];
        for run in waiting.chunk_by(|one, other| std::ptr::eq(one.version, other.version)) {
            let (of_run, behind) = rest.split_at_mut(run.len());
            rest = behind;
            of_run.iter_mut().for_each(|facts| run[0].version.derive(pipeline, facts));
            if !pipeline.models.is_empty() {
                let mut facts: Vec<&mut Facts> = of_run.iter_mut().collect();
                run[0].version.score(pipeline, &mut facts, scratch);
            }
            for (row, facts) in run.iter().zip(&*of_run) {
                pipeline.rules.evaluate_selected(&row.version.selection, facts, outcome);
                for index in outcome.fired().iter().chain(outcome.shadow()) {
                    judgement.after[*index] += 1;
                }
                let mut after = RowVerdict { score: outcome.score(), action: outcome.action() };
                if row.failed && pipeline.on_error == FailureMode::Closed {
                    after.action = Action::Throttle;
                }
                if backtest.question.fit.is_some() && !row.failed {
                    let shares = pipeline.rules.shares(outcome);
                    let shares = shares.map(|(rule, share)| (rule.get(), share as f32)).collect();
                    let example = FitExample { is_bad: false, shares };
                    judgement.examples.push(RowExample { id: row.id, time: row.time, example });
                }
                judgement.rows.push(RowComparison { id: row.id, before: row.before, after });
            }
        }
        facts[..rows].iter_mut().for_each(Facts::clear_all);
        waiting.clear();
    }
}

/// Returns true if a rule is judged at all.
fn is_on(mode: Mode) -> bool {
    mode != Mode::Off
}
