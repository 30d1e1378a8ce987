use event::Table;
use plan::GradeThresholds;
use proptest::prelude::*;

use super::*;

/// A reputation of parts of these weights and sources.
fn reputation(parts: &[(f64, EvidenceSource)]) -> ReputationFormula {
    let measure = PartMeasure::Decayed {
        kind: Table::<plan::KindPlan, ()>::default().push(()),
        column: Table::<stats::AggregateColumn, ()>::default().push(()),
    };
    let part = |(weight, source): &(f64, EvidenceSource)| ReputationPart {
        name: String::new(),
        measure: measure.clone(),
        weight: *weight,
        source: *source,
    };
    ReputationFormula {
        name: String::new(),
        parts: parts.iter().map(part).collect(),
        prior: 10.0,
        floor: -100.0,
        ceiling: 100.0,
        verdict_max: 15.0,
        grades: GradeThresholds::default(),
    }
}

use EvidenceSource::{Outcome, Verdict};

fn of(formula: &ReputationFormula, amounts: &[PartAmount], inherited: f64) -> Assessment {
    let from = Table::<ReputationPlan, ()>::default().push(());
    let relations = Relations { inherits: Some((from, inherited)), ..Relations::default() };
    assess(formula, Shingle(7), amounts, &relations)
}

fn lately(amount: f64) -> PartAmount {
    PartAmount::ByAge([amount, 0.0, 0.0, 0.0])
}

#[test]
fn a_key_of_which_nothing_is_known_is_unknown_and_evidence_moves_it() {
    let formula = reputation(&[(1.0, Outcome), (-5.0, Outcome)]);
    let check = |good: f64, bad: f64, expected: (f64, Grade)| {
        let assessment = of(&formula, &[lately(good), lately(bad)], 0.0);
        assert_eq!((assessment.score, assessment.grade), expected, "{good} good, {bad} bad");
    };
    check(0.0, 0.0, (0.0, Grade::Unknown));
    check(1.0, 0.0, (9.091, Grade::Unknown));
    check(10.0, 0.0, (50.0, Grade::Known));
    check(40.0, 0.0, (80.0, Grade::Trusted));
    check(0.0, 1.0, (-33.333, Grade::Suspicious));
    check(0.0, 6.0, (-75.0, Grade::Bad));
    // Much that speaks both ways is unknown, and not forgotten.
    check(500.0, 100.0, (0.0, Grade::Unknown));
    assert_eq!(of(&formula, &[lately(500.0), lately(100.0)], 0.0).evidence, 1000.0);
}

#[test]
fn what_was_counted_weighs_half_after_each_half_life() {
    let check = |sums: &[u64], expected: [f64; HALF_LIVES]| {
        let amount = PartAmount::of_sums(sums.iter().copied());
        assert_eq!([0, 1, 2, 3].map(|ago| amount.as_of(ago)), expected, "{sums:?}");
    };
    check(&[], [0.0; 4]);
    check(&[8, 8, 8, 8], [8.0, 0.0, 0.0, 0.0]);
    check(&[0, 8, 8, 8], [4.0, 8.0, 0.0, 0.0]);
    check(&[0, 0, 0, 8], [1.0, 2.0, 4.0, 8.0]);
    check(&[8, 16, 24, 32], [15.0, 14.0, 12.0, 8.0]);
    // Of what is kept for less than four half-lives the rest is forgotten.
    check(&[8, 16], [12.0, 8.0, 0.0, 0.0]);
    // An estimate may have less in the longer window.
    check(&[8, 7, 9], [8.25, 0.5, 1.0, 0.0]);
    assert_eq!(PartAmount::Ageless(3.0).as_of(3), 3.0);
}

#[test]
fn a_grade_is_kept_while_the_score_leaves_it_slowly() {
    let formula = reputation(&[(-5.0, Outcome)]);
    let check = |ages: [f64; HALF_LIVES], expected: Grade| {
        assert_eq!(of(&formula, &[PartAmount::ByAge(ages)], 0.0).grade, expected, "{ages:?}");
    };
    // Just as much as half of what made it bad.
    check([0.0, 9.0, 0.0, 0.0], Grade::Bad);
    check([4.5, 0.0, 0.0, 0.0], Grade::Suspicious);
    check([0.0, 0.0, 9.0, 0.0], Grade::Suspicious);
    check([0.0, 0.0, 0.0, 3.0], Grade::Unknown);
}

#[test]
fn verdicts_move_a_score_by_their_bound_and_are_not_handed_on() {
    let formula = reputation(&[(1.0, Outcome), (-1.0, Verdict)]);
    let refused = of(&formula, &[lately(0.0), lately(1e9)], 0.0);
    assert_eq!((refused.score, refused.of_outcomes, refused.grade), (-15.0, 0.0, Grade::Unknown));
    assert_eq!(refused.evidence, 0.0);
    let liked = of(&formula, &[lately(40.0), lately(1e9)], 0.0);
    assert_eq!((liked.score, liked.of_outcomes, liked.grade), (65.0, 80.0, Grade::Known));
}

#[test]
fn what_is_inherited_gives_way_to_what_is_known() {
    let formula = reputation(&[(1.0, Outcome)]);
    let check = |good: f64, expected: f64| {
        assert_eq!(of(&formula, &[lately(good)], -40.0).score, expected, "{good} good");
    };
    check(0.0, -40.0);
    check(10.0, 30.0);
    check(90.0, 86.0);
}

fn sources() -> impl Strategy<Value = EvidenceSource> {
    prop_oneof![Just(Outcome), Just(Verdict)]
}

fn part() -> impl Strategy<Value = (f64, EvidenceSource)> {
    ((1i32..=1000, any::<bool>()), sources())
        .prop_map(|((weight, good), source)| (f64::from(if good { weight } else { -weight }) / 8.0, source))
}

fn ages() -> impl Strategy<Value = [u32; HALF_LIVES]> {
    prop_oneof![
        Just([0; HALF_LIVES]),
        proptest::array::uniform4(0u32..20),
        proptest::array::uniform4(0u32..1_000_000)
    ]
}

fn amount(ages: &[u32; HALF_LIVES]) -> PartAmount {
    PartAmount::ByAge(ages.map(f64::from))
}

proptest! {
    #[test]
    fn scores_keep_their_bounds_and_follow_the_evidence(
        parts in proptest::collection::vec((part(), ages()), 1..6),
        (floor, ceiling) in (0u8..=100, 0u8..=100),
        inherited in -100i32..=100,
        (more, age, added) in (any::<prop::sample::Index>(), 0..HALF_LIVES, 1u32..1000),
    ) {
        let weights: Vec<_> = parts.iter().map(|(part, _)| *part).collect();
        let (floor, ceiling) = (-f64::from(floor), f64::from(ceiling));
        let formula = ReputationFormula { floor, ceiling, ..reputation(&weights) };
        let amounts: Vec<PartAmount> = parts.iter().map(|(_, ages)| amount(ages)).collect();
        let inherited = f64::from(inherited);
        let before = of(&formula, &amounts, inherited);
        prop_assert!((floor..=ceiling).contains(&before.score), "{before:?}");
        prop_assert!((floor..=ceiling).contains(&before.of_outcomes), "{before:?}");
        // Both are rounded to a thousandth.
        prop_assert!((before.score - before.of_outcomes).abs() <= formula.verdict_max + 0.0011, "{before:?}");

        // More of one part moves the score its way, or leaves it, to the thousandth to which it is rounded.
        let at = more.index(parts.len());
        let mut ages = parts[at].1;
        ages[age] += added;
        let mut amounts = amounts;
        amounts[at] = amount(&ages);
        let after = of(&formula, &amounts, inherited);
        if weights[at].0 > 0.0 {
            prop_assert!(after.score >= before.score - 0.0011, "{before:?} then {after:?}");
        } else {
            prop_assert!(after.score <= before.score + 0.0011, "{before:?} then {after:?}");
        }
        if weights[at].1 == Verdict {
            prop_assert_eq!((after.of_outcomes, after.evidence), (before.of_outcomes, before.evidence));
        }
    }

    #[test]
    fn verdicts_alone_never_make_a_grade(ages in proptest::collection::vec((part(), ages()), 1..6)) {
        let weights: Vec<_> = ages.iter().map(|((weight, _), _)| (*weight, Verdict)).collect();
        let amounts: Vec<PartAmount> = ages.iter().map(|(_, ages)| amount(ages)).collect();
        let assessment = of(&reputation(&weights), &amounts, 0.0);
        prop_assert_eq!((assessment.grade, assessment.of_outcomes), (Grade::Unknown, 0.0));
    }

    #[test]
    fn counts_that_are_merged_count_together(one in ages(), other in ages()) {
        let sums = |ages: &[u32; HALF_LIVES]| {
            let mut sum = 0;
            ages.map(|age| { sum += u64::from(age); sum })
        };
        let merged: Vec<u64> = sums(&one).iter().zip(sums(&other)).map(|(one, other)| one + other).collect();
        let of = |sums: &[u64]| PartAmount::of_sums(sums.iter().copied());
        for ago in 0..HALF_LIVES {
            // Eighths of whole numbers: sums of them are exact.
            let apart = of(&sums(&one)).as_of(ago) + of(&sums(&other)).as_of(ago);
            prop_assert_eq!(of(&merged).as_of(ago), apart);
        }
    }
}
