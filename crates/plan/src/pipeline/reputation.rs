//! Reputations: a score and a grade for each key of a kind, made of statistics that there are already.
//!
//! A reputation keeps nothing of its own. It is a formula over readings, and so it is the same wherever statistics live, in
//! whatever order they were added. What verdicts have added is kept apart from what people and later systems said: it moves the
//! score by no more than a bound, and it is never handed on to another reputation.

use event::{Slot, Span, TableIndex};
use stats::AggregateColumn;

use super::{DistinctPlan, KindPlan};
use crate::config::{ConfigOrigin, ConfigView};

/// Half-lives that counters are read over.
pub const HALF_LIVES: usize = 4;
/// The greatest score, and the least below zero.
pub const SCORE_MAX: f64 = 100.0;
/// The computation of a score and a grade.
#[derive(Clone, Debug, PartialEq)]
pub struct ReputationFormula {
    /// The reputation's name.
    pub name: String,
    /// The parts of its score.
    pub parts: Vec<ReputationPart>,
    /// The weight of knowing nothing.
    pub prior: f64,
    /// The least score.
    pub floor: f64,
    /// The greatest score.
    pub ceiling: f64,
    /// Most points by which verdicts move the score.
    pub verdict_max: f64,
    /// The scores at which grades begin.
    pub grades: GradeThresholds,
}

/// A reputation of the keys of events.
#[derive(Clone, Debug, PartialEq)]
pub struct ReputationPlan {
    /// The formula of its score.
    pub formula: ReputationFormula,
    /// The kind whose keys have it.
    pub of: TableIndex<KindPlan>,
    /// The reputation that a key begins with, and the share of its score.
    pub inherits: Option<(TableIndex<ReputationPlan>, f64)>,
    /// The reputations of what belongs to a key, and the weight of each.
    pub includes: Vec<(TableIndex<ReputationPlan>, f64)>,
    /// The column of its score.
    pub score: Slot,
    /// The column of its grade.
    pub grade: Slot,
    /// The column of the weight of what is known.
    pub evidence: Slot,
}

/// A part of a reputation's score.
#[derive(Clone, Debug, PartialEq)]
pub struct ReputationPart {
    /// Its name, for people.
    pub name: String,
    /// The statistic that is read for it.
    pub measure: PartMeasure,
    /// The weight of each that was counted: above zero for the key, below zero against it.
    pub weight: f64,
    /// The origin of what it counts.
    pub source: EvidenceSource,
}

/// The statistic that is read for a part of a reputation's score.
#[derive(Clone, Debug, PartialEq)]
pub enum PartMeasure {
    /// A counter over one, two, three and four half-lives, as far as it is kept.
    Counter {
        /// The kind.
        kind: TableIndex<KindPlan>,
        /// The counter.
        counter: TableIndex<String>,
        /// The windows.
        windows: PartWindows,
    },
    /// A distinct count over the same windows.
    Distinct {
        /// The distinct count.
        distinct: TableIndex<DistinctPlan>,
        /// The windows.
        windows: PartWindows,
    },
    /// A decayed sum.
    Decayed {
        /// The kind that has the aggregate.
        kind: TableIndex<KindPlan>,
        /// The decayed sum among the values of the aggregate.
        column: TableIndex<AggregateColumn>,
    },
    /// A counter of reporters over the same windows.
    Report {
        /// The counter.
        counter: TableIndex<String>,
        /// The windows.
        windows: PartWindows,
    },
}

/// The windows of a part.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PartWindows {
    /// Lengths of the windows: whole half-lives, shortest first.
    pub spans: Vec<Span>,
    /// Places of the windows among the windows of readings; none before all pipelines have said which ones they read.
    pub places: Vec<TableIndex<Span>>,
}

impl PartWindows {
    /// Adds windows to those of a reading where they are missing there.
    pub(super) fn among(windows: &mut event::Table<Span>, spans: Vec<Span>) -> PartWindows {
        for span in &spans {
            if windows.position(|known| known == span).is_none() {
                windows.push(*span);
            }
        }
        PartWindows { spans, places: Vec::new() }
    }

    pub(super) fn compile(&mut self, windows: &event::Table<Span>) {
        let place = |span: &Span| windows.position(|known| known == span);
        self.places = self.spans.iter().filter_map(place).collect();
    }
}

/// The origin of a part's evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvidenceSource {
    /// People and later systems, or the events themselves.
    Outcome,
    /// The engine's own verdicts and rules.
    Verdict,
}

impl EvidenceSource {
    /// Returns its name in configurations.
    pub fn name(self) -> &'static str {
        match self {
            EvidenceSource::Outcome => "outcome",
            EvidenceSource::Verdict => "verdict",
        }
    }
}

/// A grade, worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Grade {
    /// A key that did harm, by much evidence.
    Bad,
    /// A key that did harm, by some evidence.
    Suspicious,
    /// A key of which nothing is known, or as much for it as against it.
    Unknown,
    /// A key that did well, by some evidence.
    Known,
    /// A key that did well, by much evidence.
    Trusted,
}

impl Grade {
    /// All of them, worst first.
    pub const ALL: [Grade; 5] = [Grade::Bad, Grade::Suspicious, Grade::Unknown, Grade::Known, Grade::Trusted];

    /// Returns its name.
    pub fn name(self) -> &'static str {
        judge::GRADES[self as usize]
    }
}

/// The scores at which grades begin.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GradeThresholds {
    /// The least score that is trusted.
    pub trusted: f64,
    /// The least score that is known.
    pub known: f64,
    /// The greatest score that is suspicious.
    pub suspicious: f64,
    /// The greatest score that is bad.
    pub bad: f64,
    /// Points by which a score must leave a grade's range before the grade is lost.
    pub hysteresis: f64,
}

impl Default for GradeThresholds {
    fn default() -> GradeThresholds {
        GradeThresholds { trusted: 70.0, known: 25.0, suspicious: -25.0, bad: -70.0, hysteresis: 5.0 }
    }
}

impl GradeThresholds {
    /// Returns the grade of a score that had another grade before. A grade is lost only once the score is beyond its range by the
    /// hysteresis.
    pub fn next(&self, before: Grade, score: f64) -> Grade {
        let slack = |holds: bool| if holds { self.hysteresis } else { 0.0 };
        if score <= self.bad + slack(before == Grade::Bad) {
            Grade::Bad
        } else if score <= self.suspicious + slack(before <= Grade::Suspicious) {
            Grade::Suspicious
        } else if score >= self.trusted - slack(before == Grade::Trusted) {
            Grade::Trusted
        } else if score >= self.known - slack(before >= Grade::Known) {
            Grade::Known
        } else {
            Grade::Unknown
        }
    }
}

/// A reputation in the making: what of it can be told of once others are known.
pub(crate) struct ReputationDraft<'a> {
    pub(super) view: ConfigView<'a>,
    /// The source that somebody has given for each part, and where the part stands.
    pub(super) sources: Vec<(Option<EvidenceSource>, &'a ConfigOrigin)>,
}

impl ReputationPlan {
    /// Names the windows of its parts by their places among those of readings.
    pub(crate) fn compile_windows(
        &mut self,
        kinds: &event::Table<KindPlan>,
        distincts: &event::Table<DistinctPlan>,
    ) {
        for part in &mut self.formula.parts {
            match &mut part.measure {
                PartMeasure::Counter { kind, windows, .. } => windows.compile(&kinds[*kind].windows),
                PartMeasure::Distinct { distinct, windows } => windows.compile(&distincts[*distinct].windows),
                PartMeasure::Decayed { .. } | PartMeasure::Report { .. } => {}
            }
        }
    }
}

impl ReputationFormula {
    /// A reputation that is made of nothing yet.
    pub(super) fn none(name: &str, prior: f64, grades: GradeThresholds) -> ReputationFormula {
        let (floor, ceiling) = (-SCORE_MAX, SCORE_MAX);
        let name = name.to_owned();
        ReputationFormula { name, parts: Vec::new(), prior, floor, ceiling, verdict_max: 0.0, grades }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grades_have_the_names_that_rules_know() {
        let names: Vec<&str> = Grade::ALL.into_iter().map(Grade::name).collect();
        assert_eq!(names, judge::GRADES);
    }

    #[test]
    fn a_grade_is_lost_only_beyond_the_hysteresis() {
        let grades = GradeThresholds::default();
        let check = |scores: &[f64], expected: Grade| {
            let grade = scores.iter().fold(Grade::Unknown, |before, score| grades.next(before, *score));
            assert_eq!(grade, expected, "{scores:?}");
        };
        check(&[0.0], Grade::Unknown);
        check(&[-70.0], Grade::Bad);
        check(&[-66.0], Grade::Suspicious);
        check(&[-70.0, -66.0], Grade::Bad);
        check(&[-70.0, -64.0], Grade::Suspicious);
        check(&[-70.0, -64.0, -66.0], Grade::Suspicious);
        check(&[-22.0], Grade::Unknown);
        check(&[-70.0, -22.0], Grade::Suspicious);
        check(&[70.0, 66.0], Grade::Trusted);
        check(&[70.0, 22.0], Grade::Known);
        check(&[70.0, 19.0], Grade::Unknown);
        check(&[70.0, -25.0], Grade::Suspicious);
    }
}
