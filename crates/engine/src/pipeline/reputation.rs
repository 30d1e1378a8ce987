//! Reputations of keys: a score and a grade, computed from readings.
//!
//! Nothing is kept for it, and nothing here adds to statistics. Counts are cut into half-lives by their age: those of the last
//! half-life weigh whole, those before it half, and so on. From the same cuts the score of one, two and three half-lives ago is
//! computed, from which a grade has its hysteresis: no node needs to remember a grade.

use event::{Kind, Shingle, Span, TableIndex};
use plan::{
    EvidenceSource, Grade, HALF_LIVES, PartMeasure, Pipeline, REPORTER, ReputationFormula, ReputationPart,
    ReputationPlan, SCORE_MAX,
};
use smallvec::SmallVec;
use stats::{Quality, Reading, ReadingView, Readings};

use super::keys::PreparedEvent;

/// Keys of a kind in one event that are looked at: its first.
const KEYS_MAX: usize = 64;

/// A reputation of a key, with its reasons.
#[derive(Clone, Debug, PartialEq)]
pub struct ExplainedReputation {
    /// Its name.
    pub name: String,
    /// The hash of the key's piece.
    pub shingle: Shingle,
    /// The score, from -100 to 100.
    pub score: f64,
    /// The grade.
    pub grade: Grade,
    /// The weight of what outcomes said.
    pub evidence: f64,
    /// The scores of one, two and three half-lives ago, as far as counts are kept; none where nothing has ages.
    pub history: Vec<PastScore>,
    /// The parts that say anything, in the order of the configuration, and what is inherited and included.
    pub reasons: Vec<ReputationReason>,
}

/// The score that a reputation had.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PastScore {
    /// The time since then.
    pub ago: Span,
    /// The score, by what is inherited and included now.
    pub score: f64,
}

/// A part of a reputation's score, as it is for one key.
#[derive(Clone, Debug, PartialEq)]
pub struct ReputationReason {
    /// The part, or the other reputation.
    pub part: String,
    /// Its source: `outcome`, `verdict`, `inherited` or `included`.
    pub source: &'static str,
    /// The amount that was counted, halved for each half-life; or the score of the other reputation.
    pub amount: f64,
    /// Points that it adds to the score, before the score's bounds.
    pub adds: f64,
}

/// The reputation of a key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Assessment {
    pub(crate) key: Shingle,
    /// The score.
    pub(crate) score: f64,
    /// The score without what verdicts said: what other reputations are given of it.
    pub(crate) of_outcomes: f64,
    pub(crate) grade: Grade,
    pub(crate) evidence: f64,
}

/// The amount that a part has counted of a key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum PartAmount {
    /// Sums by age: in the last half-life, in the one before it, and so on.
    ByAge([f64; HALF_LIVES]),
    /// A sum that has no ages.
    Ageless(f64),
}

impl PartAmount {
    /// Returns what counts as of so many half-lives ago.
    fn as_of(&self, ago: usize) -> f64 {
        match self {
            PartAmount::ByAge(ages) => {
                ages.iter().skip(ago).rev().fold(0.0, |older, amount| older / 2.0 + amount)
            }
            PartAmount::Ageless(amount) => *amount,
        }
    }

    /// Returns the amount of trailing sums, each over one half-life more.
    fn of_sums(sums: impl Iterator<Item = u64>) -> PartAmount {
        let (mut ages, mut before) = ([0.0; HALF_LIVES], 0);
        for (age, sum) in ages.iter_mut().zip(sums) {
            // A longer window that has less is the error of an estimate.
            *age = sum.saturating_sub(before) as f64;
            before = before.max(sum);
        }
        PartAmount::ByAge(ages)
    }
}

/// The scores of other reputations that a key is given.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Relations {
    /// The reputation that it inherits from, and the score that it begins with.
    pub(crate) inherits: Option<(TableIndex<ReputationPlan>, f64)>,
    /// Reputations of what belongs to it, their scores, and the weight of each.
    pub(crate) includes: SmallVec<[(TableIndex<ReputationPlan>, f64, f64); 4]>,
}

impl Relations {
    fn inherited(&self) -> f64 {
        self.inherits.map_or(0.0, |(_, score)| score)
    }
}

/// Evidence for a key and against it.
#[derive(Clone, Copy, Debug, Default)]
struct Balance {
    good: f64,
    bad: f64,
}

impl Balance {
    fn add(&mut self, evidence: f64) {
        if evidence > 0.0 {
            self.good += evidence;
        } else {
            self.bad -= evidence;
        }
    }

    fn weight(&self) -> f64 {
        self.good + self.bad
    }

    /// The score of it, which begins at another one that weighs `prior`.
    fn score(&self, prior: f64, begin: f64) -> f64 {
        (SCORE_MAX * (self.good - self.bad) + prior * begin) / (self.weight() + prior)
    }
}

/// The evidence as of so many half-lives ago: of outcomes, and of outcomes and verdicts.
fn balances(
    formula: &ReputationFormula,
    amounts: &[PartAmount],
    relations: &Relations,
    ago: usize,
) -> (Balance, Balance) {
    let (mut outcomes, mut verdicts) = (Balance::default(), Balance::default());
    for (part, amount) in formula.parts.iter().zip(amounts) {
        let evidence = part.weight * amount.as_of(ago);
        match part.source {
            EvidenceSource::Outcome => outcomes.add(evidence),
            EvidenceSource::Verdict => verdicts.add(evidence),
        }
    }
    for (_, score, weight) in &relations.includes {
        outcomes.add(weight * score / SCORE_MAX);
    }
    (outcomes, Balance { good: outcomes.good + verdicts.good, bad: outcomes.bad + verdicts.bad })
}

/// The score without and with what verdicts said, as of so many half-lives ago.
fn scores(
    formula: &ReputationFormula,
    amounts: &[PartAmount],
    relations: &Relations,
    ago: usize,
) -> (f64, f64) {
    let (outcomes, all) = balances(formula, amounts, relations, ago);
    let inherited = relations.inherited();
    let of_outcomes = outcomes.score(formula.prior, inherited);
    let moved = all.score(formula.prior, inherited) - of_outcomes;
    (of_outcomes, of_outcomes + moved.clamp(-formula.verdict_max, formula.verdict_max))
}

/// Brings a score within its bounds, to a thousandth.
fn bounded(formula: &ReputationFormula, score: f64) -> f64 {
    (score.clamp(formula.floor, formula.ceiling) * 1000.0).round() / 1000.0 + 0.0
}

/// Returns the reputation that amounts make. Pure: the same amounts give the same, wherever they were read.
pub(crate) fn assess(
    formula: &ReputationFormula,
    key: Shingle,
    amounts: &[PartAmount],
    relations: &Relations,
) -> Assessment {
    let mut grade = Grade::Unknown;
    let (mut of_outcomes, mut score) = (0.0, 0.0);
    for ago in (0..HALF_LIVES).rev() {
        let (outcomes, all) = scores(formula, amounts, relations, ago);
        (of_outcomes, score) = (bounded(formula, outcomes), bounded(formula, all));
        grade = formula.grades.next(grade, score);
    }
    let evidence = balances(formula, amounts, relations, 0).0.weight();
    Assessment { key, score, of_outcomes, grade, evidence }
}

/// A source of readings of keys.
pub(crate) trait ReadingLookup {
    /// The keys that have a reputation, at most so many.
    fn keys(&self, plan: &ReputationPlan, most: usize) -> SmallVec<[Shingle; 8]>;

    /// Returns the amount that a part has counted of a key; `None` where that could not be read.
    fn amount(&self, part: &ReputationPart, key: Shingle) -> Option<PartAmount>;
}

/// The worst key of each reputation of a pipeline.
pub(crate) type Assessments = SmallVec<[Option<Assessment>; 4]>;

/// Returns the amounts that the parts of a reputation have counted of a key; `None` where one could not be read.
fn amounts_of(
    formula: &ReputationFormula,
    lookup: &impl ReadingLookup,
    key: Shingle,
) -> Option<SmallVec<[PartAmount; 8]>> {
    formula.parts.iter().map(|part| lookup.amount(part, key)).collect()
}

/// Assesses the keys of all reputations, and hands on each.
fn assess_each(
    pipeline: &Pipeline,
    lookup: &impl ReadingLookup,
    mut each: impl FnMut(&ReputationFormula, &[PartAmount], &Relations, &Assessment),
) -> Assessments {
    let mut worst = Assessments::from_elem(None, pipeline.reputations.len());
    for index in &pipeline.reputation_order {
        let plan = &pipeline.reputations[*index];
        let relations = relations(plan, &worst);
        let assessed = lookup.keys(plan, KEYS_MAX).into_iter().filter_map(|key| {
            let amounts = amounts_of(&plan.formula, lookup, key)?;
            let assessment = assess(&plan.formula, key, &amounts, &relations);
            each(&plan.formula, &amounts, &relations, &assessment);
            Some(assessment)
        });
        worst[index.get()] = assessed.min_by(|one, other| one.score.total_cmp(&other.score));
    }
    worst
}

/// Assesses the keys of all reputations; of several keys the worst counts.
pub(crate) fn assess_all(pipeline: &Pipeline, lookup: &impl ReadingLookup) -> Assessments {
    assess_each(pipeline, lookup, |_, _, _, _| {})
}

/// Assesses the keys of all reputations, and tells the reasons of each key.
pub(crate) fn explain_all(pipeline: &Pipeline, lookup: &impl ReadingLookup) -> Vec<ExplainedReputation> {
    let mut all = Vec::new();
    assess_each(pipeline, lookup, |formula, amounts, relations, assessment| {
        all.push(explained(pipeline, formula, amounts, relations, assessment));
    });
    all
}

/// Assesses one key by itself, without what it is given of other reputations.
pub(crate) fn explain_one(
    pipeline: &Pipeline,
    formula: &ReputationFormula,
    lookup: &impl ReadingLookup,
    key: Shingle,
) -> Option<ExplainedReputation> {
    let amounts = amounts_of(formula, lookup, key)?;
    let relations = Relations::default();
    let assessment = assess(formula, key, &amounts, &relations);
    Some(explained(pipeline, formula, &amounts, &relations, &assessment))
}

fn explained(
    pipeline: &Pipeline,
    formula: &ReputationFormula,
    amounts: &[PartAmount],
    relations: &Relations,
    assessment: &Assessment,
) -> ExplainedReputation {
    ExplainedReputation {
        name: formula.name.clone(),
        shingle: assessment.key,
        score: assessment.score,
        grade: assessment.grade,
        evidence: assessment.evidence,
        history: history(formula, amounts, relations),
        reasons: reasons(pipeline, formula, amounts, relations),
    }
}

/// The grade of a reporter.
pub(crate) fn standing(formula: &ReputationFormula, reporter: Shingle, reading: &Reading) -> Grade {
    let amount = |part: &ReputationPart| match &part.measure {
        PartMeasure::Report { counter, windows } => {
            let sums = windows.places.iter().map(|window| reading.sum(window.get(), counter.get()));
            PartAmount::of_sums(sums)
        }
        measure => unreachable!("a standing of {measure:?}"),
    };
    let amounts: SmallVec<[PartAmount; 8]> = formula.parts.iter().map(amount).collect();
    assess(formula, reporter, &amounts, &Relations::default()).grade
}

/// The scores of past half-lives that counts tell of.
fn history(formula: &ReputationFormula, amounts: &[PartAmount], relations: &Relations) -> Vec<PastScore> {
    let windows = formula.parts.iter().filter_map(|part| match &part.measure {
        PartMeasure::Counter { windows, .. }
        | PartMeasure::Distinct { windows, .. }
        | PartMeasure::Report { windows, .. } => Some(&windows.spans),
        PartMeasure::Decayed { .. } => None,
    });
    let longest = windows.max_by_key(|spans| spans.len()).map_or(&[][..], Vec::as_slice);
    let past = longest.iter().zip(1..longest.len());
    past.map(|(span, ago)| PastScore {
        ago: *span,
        score: bounded(formula, scores(formula, amounts, relations, ago).1),
    })
    .collect()
}

/// The places of windows among those of the readings that a pipeline's kinds and distinct counts have now.
pub(crate) fn place_of(pipeline: &Pipeline) -> impl Fn(Kind, Span) -> Option<usize> + '_ {
    |kind, window| {
        let counted = pipeline.kinds_and_reporters().map(|plan| (plan.kind, &plan.windows));
        let distinct = pipeline.distincts.iter().map(|plan| (plan.kind, &plan.windows));
        let (_, windows) = counted.chain(distinct).find(|(number, _)| *number == kind)?;
        windows.iter().position(|known| *known == window)
    }
}

/// The scores that a reputation is given of those that were assessed before it.
fn relations(plan: &ReputationPlan, assessed: &[Option<Assessment>]) -> Relations {
    let score = |of: &TableIndex<ReputationPlan>| {
        assessed.get(of.get()).copied().flatten().map(|assessment| assessment.of_outcomes)
    };
    let inherits =
        plan.inherits.map(|(from, discount)| (from, score(&from).map_or(0.0, |score| score * discount)));
    let includes =
        plan.includes.iter().map(|(of, weight)| (*of, score(of).unwrap_or(0.0), *weight)).collect();
    Relations { inherits, includes }
}

fn reasons(
    pipeline: &Pipeline,
    formula: &ReputationFormula,
    amounts: &[PartAmount],
    relations: &Relations,
) -> Vec<ReputationReason> {
    let (outcomes, all) = balances(formula, amounts, relations, 0);
    let (of_outcomes, score) = scores(formula, amounts, relations, 0);
    let points = |evidence: f64| SCORE_MAX * evidence / (outcomes.weight() + formula.prior);
    // What verdicts move is shared out by how much each of them says.
    let of_verdicts = all.weight() - outcomes.weight();
    let share = |evidence: f64| {
        if of_verdicts > 0.0 { (score - of_outcomes) * evidence.abs() / of_verdicts } else { 0.0 }
    };
    let name = |of: TableIndex<ReputationPlan>| pipeline.reputations[of].formula.name.clone();
    let mut reasons = Vec::new();
    for (part, amount) in formula.parts.iter().zip(amounts) {
        let amount = amount.as_of(0);
        let evidence = part.weight * amount;
        let adds = match part.source {
            EvidenceSource::Outcome => points(evidence),
            EvidenceSource::Verdict => share(evidence),
        };
        reasons.push(ReputationReason { part: part.name.clone(), source: part.source.name(), amount, adds });
    }
    for (of, score, weight) in &relations.includes {
        let adds = points(weight * score / SCORE_MAX);
        reasons.push(ReputationReason { part: name(*of), source: "included", amount: *score, adds });
    }
    if let Some((from, amount)) = relations.inherits {
        let adds = formula.prior * amount / (outcomes.weight() + formula.prior);
        reasons.push(ReputationReason { part: name(from), source: "inherited", amount, adds });
    }
    reasons.retain(|reason| reason.amount != 0.0);
    reasons
}

/// The readings of an event's keys and of the owners of distinct values.
pub(crate) struct EventReadings<'a> {
    prepared: &'a PreparedEvent,
    of_keys: Readings<'a>,
    of_pairs: Readings<'a>,
}

impl<'a> EventReadings<'a> {
    pub(crate) fn new(
        prepared: &'a PreparedEvent,
        of_keys: Readings<'a>,
        of_pairs: Readings<'a>,
    ) -> EventReadings<'a> {
        EventReadings { prepared, of_keys, of_pairs }
    }
}

impl ReadingLookup for EventReadings<'_> {
    fn keys(&self, plan: &ReputationPlan, most: usize) -> SmallVec<[Shingle; 8]> {
        let mut keys = SmallVec::new();
        for key in self.prepared.of_kind(plan.of) {
            if keys.len() == most {
                break;
            }
            // The same link twice is one.
            if !keys.contains(&key.shingle) {
                keys.push(key.shingle);
            }
        }
        keys
    }

    fn amount(&self, part: &ReputationPart, key: Shingle) -> Option<PartAmount> {
        let of_kind = |kind| {
            let at = self.prepared.counted_keys(kind).iter().position(|other| other.shingle == key)?;
            present(self.of_keys.part(self.prepared.counted(kind)).iter().nth(at)?)
        };
        match &part.measure {
            PartMeasure::Counter { kind, counter, windows } => {
                let reading = of_kind(*kind)?;
                let sums = windows.places.iter().map(|window| reading.sum(window.get(), counter.get()));
                Some(PartAmount::of_sums(sums))
            }
            PartMeasure::Decayed { kind, column } => {
                Some(PartAmount::Ageless(f64::from_bits(of_kind(*kind)?.sum(0, column.get()))))
            }
            PartMeasure::Distinct { distinct, windows } => {
                let range = self.prepared.of_distinct(*distinct);
                let at =
                    self.prepared.pairs[range.clone()].iter().position(|pair| pair.owner.shingle == key)?;
                let reading = present(self.of_pairs.part(range).iter().nth(at)?)?;
                Some(PartAmount::of_sums(windows.places.iter().map(|window| reading.sum(window.get(), 0))))
            }
            // No event has a reporter.
            PartMeasure::Report { .. } => None,
        }
    }
}

fn present(reading: ReadingView<'_>) -> Option<ReadingView<'_>> {
    (reading.quality() != Quality::Missing).then_some(reading)
}

/// Readings by key: of a decision that was logged, or of keys that were looked up by themselves.
pub(crate) struct KnownReadings<'a, W> {
    pub(crate) pipeline: &'a Pipeline,
    pub(crate) readings: &'a [(Kind, Shingle, Reading)],
    /// The place of a window among those of a kind's readings.
    pub(crate) place: W,
}

impl<W: Fn(Kind, Span) -> Option<usize>> KnownReadings<'_, W> {
    fn reading(&self, kind: Kind, key: Shingle) -> Option<&Reading> {
        let found = self.readings.iter().find(|(other, shingle, _)| (*other, *shingle) == (kind, key));
        found.map(|(.., reading)| reading).filter(|reading| reading.quality != Quality::Missing)
    }

    fn sums(&self, kind: Kind, key: Shingle, windows: &[Span], column: usize) -> Option<PartAmount> {
        let reading = self.reading(kind, key)?;
        let places = windows.iter().map(|window| (self.place)(kind, *window)).collect::<Option<Vec<_>>>()?;
        Some(PartAmount::of_sums(places.into_iter().map(|place| reading.sum(place, column))))
    }
}

/// The stored number under which a part's statistic is kept.
pub(crate) fn number_of(pipeline: &Pipeline, part: &ReputationPart) -> Kind {
    match &part.measure {
        PartMeasure::Counter { kind, .. } | PartMeasure::Decayed { kind, .. } => pipeline.kinds[*kind].kind,
        PartMeasure::Distinct { distinct, .. } => pipeline.distincts[*distinct].kind,
        PartMeasure::Report { .. } => REPORTER,
    }
}

impl<W: Fn(Kind, Span) -> Option<usize>> ReadingLookup for KnownReadings<'_, W> {
    fn keys(&self, plan: &ReputationPlan, most: usize) -> SmallVec<[Shingle; 8]> {
        let mut keys = SmallVec::new();
        let own = self.pipeline.kinds[plan.of].kind;
        let parts = &plan.formula.parts;
        let numbers: Vec<Kind> = match parts.is_empty() {
            true => vec![own],
            false => parts.iter().map(|part| number_of(self.pipeline, part)).collect(),
        };
        for (kind, shingle, _) in self.readings {
            if keys.len() < most && numbers.contains(kind) && !keys.contains(shingle) {
                keys.push(*shingle);
            }
        }
        keys
    }

    fn amount(&self, part: &ReputationPart, key: Shingle) -> Option<PartAmount> {
        let number = number_of(self.pipeline, part);
        match &part.measure {
            PartMeasure::Counter { counter, windows, .. } | PartMeasure::Report { counter, windows } => {
                self.sums(number, key, &windows.spans, counter.get())
            }
            PartMeasure::Distinct { windows, .. } => self.sums(number, key, &windows.spans, 0),
            PartMeasure::Decayed { column, .. } => {
                let reading = self.reading(number, key)?;
                Some(PartAmount::Ageless(f64::from_bits(reading.sum(0, column.get()))))
            }
        }
    }
}

#[cfg(test)]
mod tests;
