//! Statistics of past decisions: by action, by rule and label, and by score, with what another line would have changed.
//!
//! Read from the newest backwards as far as a [`ReadBudget`] goes; how far that was is said. Nothing of this is kept.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use event::{Secret, Time};
use journal::{BlockAnswer, DecisionSource, JournalArchive, ReadBudget, RecordId, SkippedData};
use judge::Action;
use plan::{Pipeline, Plan};

use super::matcher::{FiredRow, FiredRows, RowMatcher, VersionArena};
use super::{DecisionFilter, DecisionSearchError, PASSED_RECORDS, check};
use crate::Engine;
use crate::backtest::BacktestQuery;
use crate::directory::Directory;
use crate::error::UnknownName;

/// Bins of scores on either side of 0; what is further away is in the outermost.
const BINS_MAX: f64 = 500.0;

/// The statistics that are asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StatisticsQuery {
    /// The decisions. Without a pipeline those of the first.
    pub filter: DecisionFilter,
    /// The width of a bin of scores, above 0.
    pub bin: f64,
    /// A line to move: the action, and the score at which its band would begin.
    pub line: Option<(Action, f64)>,
}

/// Decisions by the side of their last judgement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JudgedCounts {
    /// Decisions judged good.
    pub good: u64,
    /// Decisions judged bad.
    pub bad: u64,
    /// Decisions that nobody judged, or not to a side.
    pub unjudged: u64,
}

/// The decisions for which a rule fired.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleStatistics {
    /// The rule.
    pub rule: String,
    /// Decisions for which it fired enforced.
    pub enforced: JudgedCounts,
    /// Decisions for which it fired in shadow.
    pub shadow: JudgedCounts,
    /// Decisions other than `accept` for which no other enforced rule fired: what it alone decided.
    pub alone: JudgedCounts,
}

/// A line that is moved.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MovedLine {
    /// The action of the band.
    pub action: Action,
    /// The score at which the band begins now.
    pub at: f64,
    /// The score at which it would begin.
    pub to: f64,
    /// Decisions whose score lies between both: those that would newly reach the band if it is moved down, and that would reach
    /// it no more if it is moved up. Actions that rules set by themselves are not looked at.
    pub between: JudgedCounts,
}

/// Decisions whose probability, as it was said then, is within a range.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProbabilityBin {
    /// The lowest probability of the bin.
    pub from: f64,
    /// The probability at which the next bin begins; 1 belongs to the last.
    pub to: f64,
    /// The decisions.
    pub decisions: JudgedCounts,
    /// The number of bad ones among the judged that their probabilities let expect: the sum of these.
    pub expected: f64,
}

/// The edges of bins of probabilities: narrow at both ends, where most decisions are.
const PROBABILITIES: [f64; 14] = [0.0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99];

/// Statistics of past decisions of a pipeline.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DecisionStatistics {
    /// The pipeline.
    pub pipeline: String,
    /// The decisions.
    pub decisions: JudgedCounts,
    /// The decisions by the place of their action in [`Action::ALL`].
    pub actions: [u64; Action::ALL.len()],
    /// The decisions by the class of their last judgement.
    pub labels: BTreeMap<Arc<str>, u64>,
    /// The rules that fired, those that fired most first.
    pub rules: Vec<RuleStatistics>,
    /// Decisions by the score at which their bin begins, rising.
    pub scores: Vec<(f64, JudgedCounts)>,
    /// Decisions by the probability that was said of them, in bins that have some, rising.
    pub probabilities: Vec<ProbabilityBin>,
    /// The bands as they begin now, by score.
    pub bands: Vec<(Action, f64)>,
    /// The line that was to be moved, if the pipeline has it.
    pub moved: Option<MovedLine>,
    /// The time of the oldest decision that was looked at, if not all that were asked for were.
    pub reached: Option<Time>,
    /// Records that were looked at.
    pub looked_at: u64,
    /// The data that was passed over because it is damaged.
    pub skipped: SkippedData,
}

impl JudgedCounts {
    fn add(&mut self, is_bad: Option<bool>) {
        match is_bad {
            Some(false) => self.good += 1,
            Some(true) => self.bad += 1,
            None => self.unjudged += 1,
        }
    }

    /// The sum of all.
    pub fn total(&self) -> u64 {
        self.good + self.bad + self.unjudged
    }

    /// The share of bad ones among those that were judged; `None` if none was.
    pub fn precision(&self) -> Option<f64> {
        let judged = self.good + self.bad;
        (judged > 0).then(|| self.bad as f64 / judged as f64)
    }
}

impl Engine {
    /// Statistics of past decisions of a pipeline. Blocks.
    ///
    /// # Errors
    /// If the filter cannot be searched for, or the journal cannot be read.
    pub fn decision_statistics(
        &self,
        query: &StatisticsQuery,
        budget: &mut ReadBudget<'_>,
    ) -> Result<DecisionStatistics, DecisionSearchError> {
        let journal = self.journal.as_ref().ok_or(DecisionSearchError::NoJournal)?;
        let plan = self.plan();
        let pipeline = pipeline(&plan, query.filter.pipeline.as_deref())?;
        let mut bands = configured(pipeline);
        // Lines by promise lie where judged events have put them.
        for line in self.promised_lines(pipeline) {
            bands.iter_mut().filter(|(action, _)| *action == line.action).for_each(|(_, at)| *at = line.at);
        }
        statistics(&**journal, (&plan, pipeline, bands), &self.secret, query, budget)
    }
}

impl Directory {
    /// Statistics of the decisions in the files of a journal, as [`Engine::decision_statistics`] makes them; bands begin where the
    /// configuration says.
    ///
    /// # Errors
    /// If the filter cannot be searched for, or the journal cannot be read.
    pub fn archive_statistics(
        &self,
        archive: &JournalArchive,
        plan: &Plan,
        query: &StatisticsQuery,
        budget: &mut ReadBudget<'_>,
    ) -> Result<DecisionStatistics, DecisionSearchError> {
        let pipeline = pipeline(plan, query.filter.pipeline.as_deref())?;
        statistics(archive, (plan, pipeline, configured(pipeline)), &self.secret()?, query, budget)
    }
}

/// The bands of a pipeline as the configuration has them.
fn configured(pipeline: &Pipeline) -> Vec<(Action, f64)> {
    pipeline.rules.bands().as_slice().iter().map(|band| (band.action, band.at)).collect()
}

fn pipeline<'p>(plan: &'p Plan, name: Option<&str>) -> Result<&'p Arc<Pipeline>, UnknownName> {
    plan.pipeline(name).ok_or_else(|| {
        let names = plan.pipelines.iter().map(|pipeline| pipeline.name.as_str());
        let name = name.unwrap_or_default();
        UnknownName { what: "pipeline", name: name.to_owned(), help: plan::expected(name, names) }
    })
}

fn statistics(
    source: &(impl DecisionSource + ?Sized),
    (plan, pipeline, bands): (&Plan, &Pipeline, Vec<(Action, f64)>),
    secret: &Secret,
    query: &StatisticsQuery,
    budget: &mut ReadBudget<'_>,
) -> Result<DecisionStatistics, DecisionSearchError> {
    let filter = DecisionFilter { pipeline: Some(pipeline.name.clone()), ..query.filter.clone() };
    let keys = check(&filter, plan, secret)?;
    let arena = VersionArena::default();
    let matcher = RowMatcher::new(&filter, &keys, source, &arena);
    let probe = matcher.probe();
    let mut sums = StatisticsBuilder::new(pipeline, bands, query);
    let ids = filter.ids();
    let mut blocks = source.ranked(ids)?;
    let mut fired = FiredRows::default();
    while let Some(head) = blocks.next_head()? {
        if !source.read_labels(head.first.max(ids.from), budget)? && budget.is_spent() {
            sums.made.reached = Some(head.last.time());
            break;
        }
        let block = match blocks.ask(source.summaries(), &probe)? {
            BlockAnswer::MayFit(block) => Some(block),
            BlockAnswer::FitsNone => None,
            BlockAnswer::Damaged => continue,
        };
        budget.take(if block.is_some() { head.count } else { head.count.div_ceil(PASSED_RECORDS) });
        sums.made.looked_at += u64::from(head.count);
        fired.clear();
        let found = match block {
            Some(block) => matcher.fired(&block, ids, &mut fired).map_err(|error| block.error(error)),
            None => Ok(()),
        };
        if sums.made.skipped.pass(found)?.is_some() {
            for row in fired.rows().filter(|row| filter.fits_label(source.labels(), row.id)) {
                if sums.seen.insert(row.id) {
                    sums.add(&fired, row, source.labels().of(row.id).map(|(class, _)| class));
                }
            }
        }
        // What was waiting may be written meanwhile, and is read once more; blocks that overlap are near each other.
        let greatest = blocks.greatest()?;
        match greatest {
            Some(greatest) => drop(sums.seen.split_off(&RecordId(greatest.0.saturating_add(1)))),
            None => sums.seen.clear(),
        }
        if budget.is_spent() && greatest.is_some() {
            sums.made.reached = Some(head.first.time());
            break;
        }
    }
    let skipped = blocks.skipped();
    sums.made.skipped.stretches += skipped.stretches;
    sums.made.skipped.bytes += skipped.bytes;
    sums.made.skipped.records += skipped.records;
    Ok(sums.finish(&fired))
}

/// Sums that are being made.
struct StatisticsBuilder<'q> {
    query: &'q StatisticsQuery,
    pipeline: &'q Pipeline,
    sides: BacktestQuery,
    made: DecisionStatistics,
    /// The sums of each rule, by its number.
    rules: Vec<RuleStatistics>,
    scores: BTreeMap<i64, JudgedCounts>,
    probabilities: [ProbabilityBin; PROBABILITIES.len()],
    /// Ids of the block before that may come again.
    seen: BTreeSet<RecordId>,
}

impl<'q> StatisticsBuilder<'q> {
    fn new(
        pipeline: &'q Pipeline,
        bands: Vec<(Action, f64)>,
        query: &'q StatisticsQuery,
    ) -> StatisticsBuilder<'q> {
        let line = query.line.and_then(|(action, to)| {
            let (_, at) = bands.iter().find(|(of, _)| *of == action)?;
            Some(MovedLine { action, at: *at, to, between: JudgedCounts::default() })
        });
        let made = DecisionStatistics {
            pipeline: pipeline.name.clone(),
            bands,
            moved: line,
            ..DecisionStatistics::default()
        };
        let (sides, rules, scores, seen) = Default::default();
        let probabilities = std::array::from_fn(|place| ProbabilityBin {
            from: PROBABILITIES[place],
            to: PROBABILITIES.get(place + 1).copied().unwrap_or(1.0),
            ..ProbabilityBin::default()
        });
        StatisticsBuilder { query, pipeline, sides, made, rules, scores, probabilities, seen }
    }

    fn add(&mut self, fired: &FiredRows, row: &FiredRow, class: Option<Arc<str>>) {
        let is_bad = class.as_ref().and_then(|class| self.sides.is_bad(self.pipeline, class));
        self.made.decisions.add(is_bad);
        self.made.actions[row.action as usize] += 1;
        if let Some(class) = class {
            *self.made.labels.entry(class).or_default() += 1;
        }
        let rules = fired.of(row);
        let enforced = rules.iter().filter(|(_, is_shadow)| !is_shadow).count();
        for (rule, is_shadow) in rules {
            if self.rules.len() <= *rule {
                self.rules.resize_with(rule + 1, RuleStatistics::default);
            }
            let sums = &mut self.rules[*rule];
            if *is_shadow {
                sums.shadow.add(is_bad);
                continue;
            }
            sums.enforced.add(is_bad);
            if enforced == 1 && row.action != Action::Accept {
                sums.alone.add(is_bad);
            }
        }
        let bin = (row.score / self.query.bin).floor().clamp(-BINS_MAX, BINS_MAX - 1.0);
        self.scores.entry(bin as i64).or_default().add(is_bad);
        if let Some(probability) = row.probability.filter(|probability| !probability.is_nan()) {
            let place = PROBABILITIES.partition_point(|from| *from <= probability).saturating_sub(1);
            let bin = &mut self.probabilities[place];
            bin.decisions.add(is_bad);
            if is_bad.is_some() {
                bin.expected += probability.clamp(0.0, 1.0);
            }
        }
        if let Some(moved) = &mut self.made.moved {
            let (low, high) = (moved.at.min(moved.to), moved.at.max(moved.to));
            if low <= row.score && row.score < high {
                moved.between.add(is_bad);
            }
        }
    }

    fn finish(mut self, fired: &FiredRows) -> DecisionStatistics {
        let named = self.rules.into_iter().enumerate();
        let named =
            named.map(|(number, sums)| RuleStatistics { rule: fired.name(number).to_owned(), ..sums });
        let mut rules: Vec<_> = named.filter(|sums| sums.fired() > 0).collect();
        rules.sort_by(|one, other| other.fired().cmp(&one.fired()).then_with(|| one.rule.cmp(&other.rule)));
        self.made.rules = rules;
        let bin = self.query.bin;
        self.made.scores =
            self.scores.into_iter().map(|(number, sums)| (number as f64 * bin, sums)).collect();
        self.made.probabilities =
            self.probabilities.into_iter().filter(|bin| bin.decisions.total() > 0).collect();
        self.made
    }
}

impl RuleStatistics {
    /// The share of bad ones among the judged decisions for which it fired; `None` if none is judged.
    pub fn precision(&self) -> Option<f64> {
        let sums = |counts: fn(&JudgedCounts) -> u64| counts(&self.enforced) + counts(&self.shadow);
        let (good, bad) = (sums(|counts| counts.good), sums(|counts| counts.bad));
        JudgedCounts { good, bad, unjudged: 0 }.precision()
    }

    fn fired(&self) -> u64 {
        self.enforced.total() + self.shadow.total()
    }
}
