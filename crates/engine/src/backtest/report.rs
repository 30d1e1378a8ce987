//! Report of a backtest.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use event::{Table, Time};
use journal::{JournalArchive, Record, RecordId};
use judge::{Action, FitExample, Mode, Rule};
use serde::Serialize;

use super::{
    Backtest, BacktestQuery, BlockJudgement, RowComparison, RowExample, RowVerdict, ScoreFit, ScoreFitError,
};
use crate::ON_ALLOW_LIST;
use plan::Pipeline;

/// Rows that are shown.
const EXAMPLES: usize = 50;
/// Most labels that are told apart.
const LABELS_MAX: usize = 64;
/// Most rows that scores are fitted to: the newest. Each takes some hundred bytes.
const FIT_EXAMPLES_MAX: usize = 200_000;

/// The number of rows that have this action before and that one after.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ActionChange {
    /// The action as it was decided.
    pub before: Action,
    /// The action of the rules that are tried.
    pub after: Action,
    /// The number of rows.
    pub rows: u64,
}

impl ActionChange {
    /// The changes of these counts, the most frequent first.
    fn of(counts: &HashMap<(Action, Action), u64>) -> Vec<ActionChange> {
        let counts = counts.iter();
        let mut changes: Vec<ActionChange> = counts
            .map(|((before, after), rows)| ActionChange { before: *before, after: *after, rows: *rows })
            .collect();
        changes
            .sort_by_key(|change| (std::cmp::Reverse(change.rows), change.before as u8, change.after as u8));
        changes
    }
}

/// The rows with a label, by their actions before and after.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LabelChange {
    /// The label.
    pub label: String,
    /// True if events with it should be caught, false if not; none if it says neither.
    pub is_bad: Option<bool>,
    /// The number of rows.
    pub rows: u64,
    /// Rows with another action.
    pub changed: u64,
    /// Rows by action before and after, the most frequent first.
    pub actions: Vec<ActionChange>,
}

/// Labelled rows by what was said of them and whether they are caught.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ConfusionMatrix {
    /// Bad ones that are caught.
    pub true_positives: u64,
    /// Good ones that are caught.
    pub false_positives: u64,
    /// Bad ones that are not.
    pub false_negatives: u64,
    /// Good ones that are not.
    pub true_negatives: u64,
}

/// The quality with which labelled rows are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ClassificationQuality {
    /// The counts that it is made of.
    #[serde(flatten)]
    pub counts: ConfusionMatrix,
    /// The share of caught events that is bad; none if nothing is caught.
    pub precision: Option<f64>,
    /// The share of bad events that is caught; none if nothing is bad.
    pub recall: Option<f64>,
    /// The share of good events that is caught; none if nothing is good.
    pub false_positive_rate: Option<f64>,
}

impl ConfusionMatrix {
    fn add(&mut self, bad: bool, caught: bool) {
        let count = match (bad, caught) {
            (true, true) => &mut self.true_positives,
            (false, true) => &mut self.false_positives,
            (true, false) => &mut self.false_negatives,
            (false, false) => &mut self.true_negatives,
        };
        *count += 1;
    }

    fn quality(self) -> ClassificationQuality {
        let share = |of: u64, all: u64| (all > 0).then(|| of as f64 / all as f64);
        let ConfusionMatrix { true_positives, false_positives, false_negatives, true_negatives } = self;
        ClassificationQuality {
            counts: self,
            precision: share(true_positives, true_positives + false_positives),
            recall: share(true_positives, true_positives + false_negatives),
            false_positive_rate: share(false_positives, false_positives + true_negatives),
        }
    }
}

/// Before and after.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct BacktestPair<T> {
    /// The value as it was decided.
    pub before: T,
    /// The value by the rules under trial.
    pub after: T,
}

/// The number of times that a rule fired and fires.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RuleHits {
    /// Its name.
    pub rule: String,
    /// Its mode in the set that is tried; none if that does not have it.
    pub mode: Option<Mode>,
    /// Rows on which it had fired, enforced or in shadow.
    pub before: u64,
    /// Rows on which it fires, enforced or in shadow.
    pub after: u64,
}

/// A fact that rows do not have, and what cannot be judged without it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MissingFact {
    /// The fact or reading.
    pub fact: String,
    /// The rules, and models as `model NAME`, that were left out for want of it.
    pub needed_by: Vec<String>,
    /// The rows of which that is true.
    pub rows: u64,
}

/// A row that is judged otherwise.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BacktestExample {
    /// The decision, for `explain`.
    pub id: String,
    /// The time of the event.
    pub time: String,
    /// The caller's name for it.
    pub event_id: Option<String>,
    /// The latest label of it.
    pub label: Option<String>,
    /// The verdict that was decided.
    pub before: RowVerdict,
    /// The verdict of the rules that are tried.
    pub after: RowVerdict,
    /// Enforced rules that fire now and had not.
    pub fires_now: Vec<String>,
    /// Enforced rules that had fired and do not now.
    pub fires_no_more: Vec<String>,
}

/// The report of a backtest.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BacktestReport {
    /// The pipeline.
    pub pipeline: String,
    /// The version of the rules that were tried.
    pub rules_version: String,
    /// Rows judged.
    pub rows: u64,
    /// Rows with another action.
    pub changed: u64,
    /// Rows with another score.
    pub rescored: u64,
    /// Rows by action before and after, the most frequent first; those that keep theirs are there, too.
    pub actions: Vec<ActionChange>,
    /// Rows with a judgement.
    pub labelled: u64,
    /// Rows by label, the most frequent first.
    pub labels: Vec<LabelChange>,
    /// The quality with which these are told apart.
    pub quality: BacktestPair<ClassificationQuality>,
    /// All rules, in the order of the set that is tried; then those that it does not have, by name.
    pub rules: Vec<RuleHits>,
    /// The facts for want of which something was not judged.
    pub not_logged: Vec<MissingFact>,
    /// Rows whose version nobody described, which are not judged.
    pub undescribed: u64,
    /// The scores fitted to the rows with a judgement, if that was asked for.
    #[serde(skip)]
    pub fit: Option<Result<ScoreFit, ScoreFitError>>,
    /// The rows that tell most: first those whose action changes, among these those with a label, then by how far apart the
    /// actions are and how far the score moves.
    pub examples: Vec<BacktestExample>,
}

/// A row that changes much.
#[derive(Debug)]
struct LargestChange {
    row: RowComparison,
    label: Option<String>,
    /// The rules that fire, unless they can be found out from the row.
    fired: Option<Vec<String>>,
}

/// Judgements, added up. Takes some 100 bytes for each decision on which there is feedback.
#[derive(Debug)]
pub struct BacktestTally {
    question: BacktestQuery,
    pipeline: Arc<Pipeline>,
    rows: u64,
    rescored: u64,
    bytes: u64,
    actions: HashMap<(Action, Action), u64>,
    by_label: BTreeMap<String, HashMap<(Action, Action), u64>>,
    labels: HashMap<RecordId, (Time, RecordId, Option<String>)>,
    labelled: u64,
    before: ConfusionMatrix,
    after: ConfusionMatrix,
    hits_before: BTreeMap<String, u64>,
    hits_after: Table<Rule, u64>,
    versions: HashMap<String, u64>,
    undescribed: u64,
    examples: Vec<(Time, FitExample)>,
    /// The largest changes, largest first.
    largest: Vec<LargestChange>,
}

impl BacktestTally {
    pub(super) fn new(question: BacktestQuery, pipeline: Arc<Pipeline>) -> BacktestTally {
        let hits_after = pipeline.rules.rules().map(|_| 0);
        BacktestTally {
            question,
            pipeline,
            rows: 0,
            rescored: 0,
            bytes: 0,
            actions: HashMap::new(),
            by_label: BTreeMap::new(),
            labels: HashMap::new(),
            labelled: 0,
            before: ConfusionMatrix::default(),
            after: ConfusionMatrix::default(),
            hits_before: BTreeMap::new(),
            hits_after,
            versions: HashMap::new(),
            undescribed: 0,
            examples: Vec::new(),
            largest: Vec::new(),
        }
    }

    /// Rows so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Bytes of blocks so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Adds a block that is older than all before it.
    pub fn add(&mut self, mut judgement: BlockJudgement) {
        for (decision, class, time, id) in judgement.feedback {
            let last = self.labels.get(&decision);
            // The last word stands.
            if last.is_none_or(|(at, by, _)| (*at, *by) < (time, id)) {
                self.labels.insert(decision, (time, id, class));
            }
        }
        for RowExample { id, time, mut example } in judgement.examples {
            let class = self.labels.get(&id).and_then(|(.., class)| class.as_deref());
            if let Some(is_bad) = class.and_then(|class| self.question.is_bad(&self.pipeline, class)) {
                example.is_bad = is_bad;
                if self.examples.len() < FIT_EXAMPLES_MAX {
                    self.examples.push((time, example));
                }
            }
        }
        for row in judgement.rows {
            self.add_row(row, judgement.fired.remove(&row.id));
        }
        for (rule, [enforced, shadow]) in judgement.before {
            *self.hits_before.entry(rule).or_default() += enforced + shadow;
        }
        self.hits_after.iter_mut().zip(&judgement.after).for_each(|(all, more)| *all += more);
        for (version, rows) in judgement.versions {
            *self.versions.entry(version).or_default() += rows;
        }
        self.undescribed += judgement.undescribed;
        self.bytes += judgement.bytes;
    }

    fn add_row(&mut self, row: RowComparison, fired: Option<Vec<String>>) {
        self.rows += 1;
        self.rescored += u64::from(row.before.score != row.after.score);
        *self.actions.entry((row.before.action, row.after.action)).or_default() += 1;
        // A decision comes behind all that is said of it, so its label is not needed again.
        let label = if self.labels.is_empty() { None } else { self.labels.remove(&row.id) };
        // One that was taken back is none.
        let label = label.and_then(|(.., class)| class);
        if let Some(bad) = label.as_ref().and_then(|class| self.question.is_bad(&self.pipeline, class)) {
            self.labelled += 1;
            self.before.add(bad, self.question.catches(row.before.action));
            self.after.add(bad, self.question.catches(row.after.action));
        }
        if let Some(class) = &label
            && (self.by_label.contains_key(class) || self.by_label.len() < LABELS_MAX)
        {
            let of_label = self.by_label.entry(class.clone()).or_default();
            *of_label.entry((row.before.action, row.after.action)).or_default() += 1;
        }
        if row.before != row.after {
            let change = LargestChange { row, label, fired };
            let at = self.largest.partition_point(|other| larger(other, &change) != Ordering::Greater);
            if at < EXAMPLES {
                self.largest.insert(at, change);
                self.largest.truncate(EXAMPLES);
            }
        }
    }

    /// The newest events with a judgement, in the order of their times, if scores are fitted to them; rules are known by their
    /// places in the set.
    pub fn take_examples(&mut self) -> Vec<FitExample> {
        self.examples.sort_by_key(|(time, _)| *time);
        self.examples.drain(..).map(|(_, example)| example).collect()
    }

    /// Returns the ids of the rows that are shown, which [`BacktestTally::report_by`] asks for.
    pub fn example_ids(&self) -> BTreeSet<RecordId> {
        self.largest.iter().map(|change| change.row.id).collect()
    }

    /// Tells it all; examples are looked up in the journal.
    pub fn report(self, backtest: &Backtest, archive: &JournalArchive) -> BacktestReport {
        self.report_by(backtest, |id| archive.find(id).ok().flatten())
    }

    /// Tells it all; `find` looks examples up.
    pub fn report_by(
        mut self,
        backtest: &Backtest,
        mut find: impl FnMut(RecordId) -> Option<Record>,
    ) -> BacktestReport {
        let fit = self.question.fit.take();
        let fit = fit.map(|query| ScoreFit::of(&backtest.pipeline, &self.take_examples(), &query));
        let rules = &backtest.pipeline.rules;
        let mut hits_before = self.hits_before;
        let mut hits: Vec<RuleHits> = Vec::with_capacity(rules.rules().len());
        for (rule, after) in rules.rules().iter().zip(&self.hits_after) {
            let before = hits_before.remove(&rule.name).unwrap_or(0);
            hits.push(RuleHits { rule: rule.name.clone(), mode: Some(rule.mode), before, after: *after });
        }
        hits.extend(hits_before.into_iter().map(|(rule, before)| RuleHits {
            rule,
            mode: None,
            before,
            after: 0,
        }));
        let mut not_logged: Vec<MissingFact> = Vec::new();
        for (version, rows) in &self.versions {
            let Some(version) = backtest.versions.get(version) else { continue };
            for (fact, needed_by) in &version.not_logged {
                match not_logged.iter_mut().find(|it| it.fact == *fact && it.needed_by == *needed_by) {
                    Some(known) => known.rows += rows,
                    None => not_logged.push(MissingFact {
                        fact: fact.clone(),
                        needed_by: needed_by.clone(),
                        rows: *rows,
                    }),
                }
            }
        }
        not_logged.sort_by(|one, other| one.fact.cmp(&other.fact).then(one.needed_by.cmp(&other.needed_by)));
        let actions = ActionChange::of(&self.actions);
        let mut labels: Vec<LabelChange> = self
            .by_label
            .into_iter()
            .map(|(label, of_label)| LabelChange {
                is_bad: self.question.is_bad(&self.pipeline, &label),
                label,
                rows: of_label.values().sum(),
                changed: of_label.iter().filter(|((before, after), _)| before != after).map(|(_, n)| n).sum(),
                actions: ActionChange::of(&of_label),
            })
            .collect();
        labels.sort_by_key(|label| std::cmp::Reverse(label.rows));
        let changed = actions.iter().filter(|change| change.before != change.after).map(|change| change.rows);
        BacktestReport {
            pipeline: backtest.pipeline.name.clone(),
            rules_version: rules.version().to_owned(),
            rows: self.rows,
            changed: changed.sum(),
            rescored: self.rescored,
            actions,
            labelled: self.labelled,
            labels,
            quality: BacktestPair { before: self.before.quality(), after: self.after.quality() },
            rules: hits,
            not_logged,
            undescribed: self.undescribed,
            fit,
            examples: self.largest.iter().filter_map(|it| it.example(backtest, find(it.row.id)?)).collect(),
        }
    }
}

impl LargestChange {
    /// Returns it with what its row says.
    fn example(&self, backtest: &Backtest, record: Record) -> Option<BacktestExample> {
        let Record::Decision(row) = record else { return None };
        let after = match &self.fired {
            Some(fired) => fired.clone(),
            None => backtest.fired(&row)?,
        };
        let reasons = row.verdict.reasons.iter().map(|reason| &reason.rule);
        let before: Vec<String> = reasons.filter(|rule| *rule != ON_ALLOW_LIST).cloned().collect();
        let only = |these: &[String], those: &[String]| -> Vec<String> {
            these.iter().filter(|name| !those.contains(name)).cloned().collect()
        };
        Some(BacktestExample {
            id: self.row.id.to_string(),
            time: row.time.to_string(),
            event_id: row.event_id.clone(),
            label: self.label.clone(),
            before: self.row.before,
            after: self.row.after,
            fires_now: only(&after, &before),
            fires_no_more: only(&before, &after),
        })
    }
}

/// Orders changes, the more telling before the less.
fn larger(one: &LargestChange, other: &LargestChange) -> Ordering {
    let moved = |of: &LargestChange| (of.row.after.score - of.row.before.score).abs();
    let distance =
        |of: &LargestChange| severity(of.row.before.action).abs_diff(severity(of.row.after.action));
    let turned = |of: &LargestChange| of.row.before.action != of.row.after.action;
    let is_labelled = |of: &LargestChange| turned(of) && of.label.is_some();
    turned(other)
        .cmp(&turned(one))
        .then(is_labelled(other).cmp(&is_labelled(one)))
        .then(distance(other).cmp(&distance(one)))
        .then(moved(other).total_cmp(&moved(one)))
}

/// The degree to which an action keeps an event from its addressee.
fn severity(action: Action) -> u8 {
    match action {
        Action::Accept => 0,
        Action::Tag | Action::ReviewAfter => 1,
        Action::Challenge | Action::Quarantine | Action::ReviewBefore => 2,
        Action::Throttle | Action::Shadow | Action::Reject => 3,
    }
}
