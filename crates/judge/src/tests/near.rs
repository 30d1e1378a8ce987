//! Rules that nearly fired, and shares of a score.

use event::Value;
use proptest::prelude::*;

use super::{TestScope, compile, library};
use crate::expr::EvalEnv;
use crate::{Action, Band, Bands, GroupSource, Mode, RuleSet, RuleSetSource, RuleSource, judge};

/// Parts that are free of each other, and the fact that each reads.
const PARTS: [(&str, &str); 5] = [
    ("mail.size > 0", "mail.size"),
    ("mail.parts > 0", "mail.parts"),
    ("mail.html > 0.5", "mail.html"),
    ("mail.caps > 0.5", "mail.caps"),
    ("mail.subject == 'a'", "mail.subject"),
];

fn value(fact: &str, truth: bool) -> Value {
    match fact {
        "mail.subject" => Value::from(if truth { "a" } else { "b" }),
        "mail.size" | "mail.parts" => Value::from(i64::from(truth)),
        _ => Value::from(f64::from(u8::from(truth))),
    }
}

fn row(scope: &TestScope, truths: usize) -> event::Facts {
    let values: Vec<(&str, Value)> = PARTS
        .iter()
        .enumerate()
        .map(|(index, (_, fact))| (*fact, value(fact, truths >> index & 1 == 1)))
        .collect();
    scope.row(&values)
}

/// A condition in which each part stands once.
fn conditions() -> BoxedStrategy<String> {
    (Just((0..PARTS.len()).collect::<Vec<_>>()).prop_shuffle(), prop::collection::vec(0u8..8, 32))
        .prop_map(|(parts, draws)| {
            let mut draws = draws.into_iter();
            let mut left: Vec<String> = parts.into_iter().map(|part| PARTS[part].0.to_owned()).collect();
            while left.len() > 1 {
                let (one, other) = (left.remove(0), left.remove(0));
                let joined = match draws.next().unwrap_or(0) {
                    0 | 1 => format!("({one} && {other})"),
                    2 | 3 => format!("({one} || {other})"),
                    4 => format!("!({one} && {other})"),
                    5 => format!("(!({one}) || {other})"),
                    6 if !left.is_empty() => {
                        let third = left.remove(0);
                        format!("({one} ? {other} : {third})")
                    }
                    _ => format!("({one} && !({other}))"),
                };
                left.push(joined);
            }
            left.remove(0)
        })
        .boxed()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    /// Beside a search through all rows.
    #[test]
    fn no_fewer_changes_would_do(source in conditions(), truths in 0usize..1 << PARTS.len()) {
        let mut scope = TestScope::new();
        let condition = compile(&source, &mut scope).unwrap();
        let fewest = (0..1 << PARTS.len())
            .filter(|other| condition.fires(&row(&scope, *other)))
            .map(|other| (truths ^ other).count_ones() as usize)
            .min();
        let here = row(&scope, truths);
        let changes = condition.changes(&EvalEnv::of(&here));
        prop_assert_eq!(Some(changes.len()), fewest, "{} {:?}", source, changes);
        // And these very changes do.
        let mut changed = truths;
        for part in changes {
            let index = PARTS.iter().position(|(source, _)| *source == part.source).unwrap();
            prop_assert_eq!(part.found, Some(truths >> index & 1 == 1));
            changed ^= 1 << index;
        }
        prop_assert!(condition.fires(&row(&scope, changed)), "{}", source);
    }
}

fn rule(name: &str, when: &str, score: f64, group: Option<&str>) -> RuleSource {
    let group = group.map(str::to_owned);
    RuleSource { name: name.to_owned(), when: when.to_owned(), score, group, ..RuleSource::default() }
}

#[test]
fn the_nearest_rules_tell_what_was_missing() {
    let mut scope = TestScope::new();
    let library = library(&mut scope);
    let mut tried = rule("TRIED", "mail.size > 4", 9.0, None);
    tried.mode = Mode::Shadow;
    let mut off = rule("OFF", "mail.size > 4", 9.0, None);
    off.mode = Mode::Off;
    let source = RuleSetSource {
        rules: vec![
            rule("FIRED", "mail.size == 3", 3.0, Some("g")),
            rule("FAR", "mail.size > 4 && mail.parts > 4 && from.seen('1h') > 4", 9.0, None),
            rule("NEAR", "mail.size == 3 && (mail.parts>4 || mail.html > 0.5 && mail.caps > 0.5)", 3.0, None),
            rule("CAPPED", "rule('FIRED') && mail.subject == 'x'", 4.0, Some("g")),
            rule("LESS", "!(mail.size == 3)", -0.5, None),
            tried,
            off,
        ],
        groups: vec![GroupSource { name: "g".to_owned(), cap: Some(5.0), ..GroupSource::default() }],
        bands: Bands::new(vec![
            Band { at: 4.0, action: Action::Tag },
            Band { at: 6.0, action: Action::Reject },
        ])
        .unwrap(),
        library,
    };
    let set = RuleSet::compile(source, &mut scope).unwrap();
    let row =
        scope.row(&[("mail.size", 3i64.into()), ("mail.parts", 2i64.into()), ("mail.html", 0.0.into())]);
    let verdict = judge(&set, &row);
    let told = |is_known: &dyn Fn(&crate::Rule) -> bool| -> Vec<String> {
        let misses = set.nearest(&verdict, &row, 10, is_known);
        let miss = |miss: crate::NearMiss| {
            let parts: Vec<String> =
                miss.parts.iter().map(|part| format!("{}: {:?}", part.part, part.was)).collect();
            format!("{} [{}] {} {}", set.rules()[miss.rule].name, parts.join("; "), miss.score, miss.action)
        };
        misses.into_iter().map(miss).collect()
    };
    assert_eq!(
        told(&|_| true),
        [
            "TRIED [mail.size > 4: Some(false)] 3 accept",
            "NEAR [mail.parts > 4: Some(false)] 6 reject",
            "CAPPED [mail.subject == 'x': None] 5 tag",
            "LESS [mail.size == 3: Some(true)] 2.5 accept",
            "FAR [mail.size > 4: Some(false); mail.parts > 4: Some(false); from.seen('1h') > 4: None] 12 reject",
        ]
    );
    assert_eq!(told(&|rule| rule.name == "LESS").len(), 1);
    let misses = set.nearest(&verdict, &row, 10, |_| true);
    let reached: Vec<Vec<Option<f64>>> =
        misses.iter().map(|miss| miss.parts.iter().map(|part| part.reached).collect()).collect();
    assert_eq!(
        reached,
        [vec![Some(0.75)], vec![Some(0.5)], vec![None], vec![None], vec![Some(0.75), Some(0.5), None]]
    );
}

#[test]
fn numbers_near_their_bounds_are_nearer_than_what_is_otherwise() {
    let check = |source: &str, value: i64, reached: Option<f64>| {
        let mut scope = TestScope::new();
        let condition = compile(source, &mut scope).unwrap();
        let row = scope.row(&[("mail.size", value.into())]);
        let unmet = condition.unmet(&row);
        assert_eq!(unmet.iter().map(|part| part.reached).collect::<Vec<_>>(), [reached], "{source} {value}");
    };
    check("mail.size > 100", 90, Some(0.9));
    check("mail.size > 100", 100, Some(0.99));
    check("mail.size >= 100", 0, Some(0.0));
    check("mail.size < 100", 400, Some(0.25));
    check("!(mail.size > 100)", 200, Some(0.5));
    check("mail.size == 100", 99, None);
    check("mail.size > 100", -5, None);
    check("mail.size * 2.0 > 100.0", 25, Some(0.5));
}

#[test]
fn what_a_group_keeps_is_shared() {
    let mut scope = TestScope::new();
    let library = library(&mut scope);
    let source = RuleSetSource {
        rules: vec![
            rule("A", "mail.size == 3", 6.0, Some("g")),
            rule("B", "mail.size > 2", 2.0, Some("g")),
            rule("C", "mail.size > 1", -1.0, None),
        ],
        groups: vec![GroupSource { name: "g".to_owned(), cap: Some(4.0), ..GroupSource::default() }],
        bands: Bands::default(),
        library,
    };
    let set = RuleSet::compile(source, &mut scope).unwrap();
    let verdict = judge(&set, &scope.row(&[("mail.size", 3i64.into())]));
    let counted = set.counted(&verdict);
    assert_eq!(counted, [3.0, 1.0, -1.0]);
    assert_eq!(counted.iter().sum::<f64>(), verdict.score);
}
