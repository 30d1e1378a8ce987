use std::slice::from_ref;

use event::{Facts, Value};

use super::{TestScope, mail};
use crate::scope::Scope;
use crate::{
    Action, Band, BandPromise, Bands, Evaluation, GroupSource, Mode, RuleSet, RuleSetSource, RuleSource,
    Verdict, judge,
};

fn source(name: &str, when: &str, score: f64, mode: Mode) -> RuleSource {
    RuleSource { name: name.to_owned(), when: when.to_owned(), score, mode, ..RuleSource::default() }
}

fn set(scope: &mut TestScope, rules: &[(&str, &str, f64, Mode)]) -> RuleSet {
    let rules = rules.iter().map(|(name, when, score, mode)| source(name, when, *score, *mode));
    let bands = vec![
        Band { at: 4.0, action: Action::Tag },
        Band { at: 8.0, action: Action::Quarantine },
        Band { at: 12.0, action: Action::Reject },
    ];
    let bands = Bands::new(bands).unwrap();
    let source = RuleSetSource { rules: rules.collect(), bands, ..RuleSetSource::default() };
    RuleSet::compile(source, scope).unwrap()
}

fn told(verdict: &Verdict) -> String {
    let names = |reasons: &[crate::Reason]| {
        reasons.iter().map(|reason| format!("{}:{}", reason.rule, reason.score)).collect::<Vec<_>>().join(" ")
    };
    let next = verdict.next.map_or(String::new(), |next| format!(" {} in {}", next.action, next.distance));
    format!(
        "{} {}{next} [{}] ({})",
        verdict.score,
        verdict.action,
        names(&verdict.reasons),
        names(&verdict.shadow)
    )
}

#[test]
fn scores_add_up_to_an_action() {
    use Mode::{Enforce, Off, Shadow};
    let check = |rules: &[(&str, &str, f64, Mode)], expected: &str| {
        let mut scope = TestScope::new();
        let set = set(&mut scope, rules);
        assert_eq!(told(&judge(&set, &mail(&scope))), expected);
    };
    let (yes, no, missing) = ("mail.size == 7", "mail.size == 8", "mail.caps > 0.5");
    check(&[], "0 accept tag in 4 [] ()");
    check(&[("a", no, 9.0, Enforce), ("b", missing, 9.0, Enforce)], "0 accept tag in 4 [] ()");
    check(
        &[
            ("b", yes, 2.0, Enforce),
            ("a", yes, -2.0, Enforce),
            ("c", yes, 6.5, Enforce),
            ("d", no, 9.0, Enforce),
        ],
        "6.5 tag quarantine in 1.5 [c:6.5 a:-2 b:2] ()",
    );
    check(
        &[("a", yes, 5.0, Shadow), ("b", yes, 7.0, Shadow), ("c", yes, 9.0, Off), ("d", no, 9.0, Shadow)],
        "0 accept tag in 4 [] (b:7 a:5)",
    );
    check(&[("a", "true", 12.0, Enforce)], "12 reject [a:12] ()");
    check(&[("a", yes, 3.3, Enforce), ("b", yes, 0.7, Enforce)], "4 tag quarantine in 4 [a:3.3 b:0.7] ()");
    check(
        &[("a", yes, 0.7, Enforce), ("b", yes, 0.1, Enforce), ("c", yes, 7.2, Enforce)],
        "8 quarantine reject in 4 [c:7.2 a:0.7 b:0.1] ()",
    );
    let most = judge(
        &set(&mut TestScope::new(), &[("a", "true", f64::MAX, Enforce), ("b", "true", f64::MAX, Enforce)]),
        &Facts::default(),
    );
    assert_eq!(most.score, f64::MAX);
}

/// Points of a group with a `default_share` count only for that share where an event must reach the `at` of a promising band.
#[test]
fn a_promise_alone_is_not_enough_for_points_of_a_group() {
    let mut scope = TestScope::new();
    let rules = [
        ("learned", "mail.size > 0", 10.0),
        ("more", "mail.parts > 0", 6.0),
        ("good", "'x' in mail.links", -9.0),
    ];
    let of_group = |(name, when, score): (&str, &str, f64)| RuleSource {
        group: Some("g".to_owned()),
        ..source(name, when, score, Mode::Enforce)
    };
    let mut rules: Vec<RuleSource> = rules.map(of_group).into();
    rules.push(source("rule", "mail.caps > 0.5", 3.0, Mode::Enforce));
    let (line, _) = scope.fact("mail.html").unwrap();
    let bands = vec![Band { at: 4.0, action: Action::Tag }, Band { at: 12.0, action: Action::Reject }];
    let source = |line_alone| RuleSetSource {
        rules: rules.clone(),
        groups: vec![GroupSource {
            name: "g".to_owned(),
            default_share: Some(0.4),
            ..GroupSource::default()
        }],
        bands: Bands::new(bands.clone()).unwrap().with_promises(vec![BandPromise {
            action: Action::Tag,
            false_positives: 0.005,
            line,
            line_alone,
        }]),
        ..RuleSetSource::default()
    };
    let [set, alone] =
        [false, true].map(|line_alone| RuleSet::compile(source(line_alone), &mut scope).unwrap());
    // The facts that fire rules, and the promised line; where the bands begin, the score, and the action.
    let check_in = |set: &RuleSet, facts: &[(&str, Value)], line: Option<f64>, expected: &str| {
        let mut row = scope.row(facts);
        if let Some(line) = line {
            row.set(scope.fact("mail.html").unwrap().0, line);
        }
        let mut outcome = Evaluation::default();
        set.evaluate(&row, &mut outcome);
        let begin = |bands: &[Band]| bands.iter().map(|band| band.at).collect::<Vec<_>>();
        assert_eq!(
            format!("{:?} {} {}", begin(outcome.bands().as_slice()), outcome.score(), outcome.action()),
            expected
        );
        let verdict = judge(set, &row);
        assert_eq!(set.bands_for(&row, &verdict), *outcome.bands(), "as the verdict tells it");
        set.nearest(&verdict, &row, 10, |_: &crate::Rule| true)
            .iter()
            .for_each(|miss| assert!(miss.score.is_finite()));
    };
    let check = |facts: &[(&str, Value)], line, expected: &str| check_in(&set, facts, line, expected);
    let learned = ("mail.size", Value::from(1i64));
    let more = ("mail.parts", Value::from(1i64));
    let rule = ("mail.caps", Value::from(1.0));
    let good = ("mail.links", Value::from(vec!["x".to_owned()]));
    // Ten points, of which four count: just the band's `at`.
    check(from_ref(&learned), Some(-2.0), "[10.0, 12.0] 10 tag");
    check(from_ref(&more), Some(-2.0), "[7.6, 12.0] 6 accept");
    check(from_ref(&more), None, "[7.6, 12.0] 6 accept");
    check(&[more.clone(), rule.clone()], Some(-2.0), "[7.6, 12.0] 9 tag");
    check(&[more.clone(), rule.clone()], Some(9.5), "[9.5, 12.0] 9 accept");
    // Rules alone reach a band, but no lower than at its `at`. What a group takes is held against the line alone.
    check(from_ref(&rule), Some(2.0), "[4.0, 12.0] 3 accept");
    check(&[more.clone(), good.clone(), rule.clone()], Some(-7.0), "[1.0, 12.0] 0 accept");
    check(&[more.clone(), good, rule], None, "[4.0, 12.0] 0 accept");
    // A band without a promise begins at its own score, or where the one below it does.
    check(&[learned.clone(), more.clone()], Some(0.0), "[13.6, 13.6] 16 reject");
    // Where the line decides alone, it is not asked for more.
    check_in(&alone, from_ref(&more), Some(-2.0), "[-2.0, 12.0] 6 tag");
    check_in(&alone, &[learned, more], None, "[4.0, 12.0] 16 reject");
}

#[test]
fn reasons_tell_the_values_seen() {
    let mut scope = TestScope::new();
    let when = "from.seen('1h') > 1000 && (has(mail.caps) || mail.subject != '') && 'x' in mail.links \
                && subject.first_age() < duration('1d')";
    let set = set(
        &mut scope,
        &[("mass", when, 5.0, Mode::Enforce), ("odd", "size(mail.body) == 3", 1.0, Mode::Shadow)],
    );
    let row = scope.row(&[
        ("from.seen('1h')", Value::from(2310i64)),
        ("mail.subject", Value::from("\"\u{202e}".to_owned() + &"é".repeat(100))),
        ("mail.links", Value::from(["x", "y", "z\n", "w", "v", "u"].map(str::to_owned).to_vec())),
        ("subject.first_age()", Value::from(5_400_000_000i64)),
        ("mail.body", Value::Bytes(Box::new([0; 3]))),
    ]);
    let mut verdict = judge(&set, &row);
    assert_eq!(verdict.reasons[0].detail, "");
    set.explain(&mut verdict, &row);
    assert_eq!(
        verdict.reasons[0].detail,
        format!(
            "from.seen('1h') = 2310, mail.caps is missing, mail.subject = \"\\\"\\u{{202e}}{}…\", \
             mail.links = [\"x\", \"y\", \"z\\n\", \"w\", \"… 2 more\"], subject.first_age() = 1h30m",
            "é".repeat(78)
        )
    );
    assert_eq!(verdict.reasons[0].values[1], ("mail.caps".to_owned(), None));
    assert_eq!(verdict.reasons[0].values[4], ("subject.first_age()".to_owned(), Some(Value::from("1h30m"))));
    assert_eq!(verdict.shadow[0].detail, "mail.body = 3 bytes");
    let written = serde_json::to_string(&verdict).unwrap();
    assert_eq!(serde_json::from_str::<Verdict>(&written).unwrap(), verdict);
    // Another set leaves alone what it does not know.
    let before = verdict.clone();
    RuleSet::default().explain(&mut verdict, &row);
    assert_eq!(verdict, before);
}

fn compiled(scope: &mut TestScope, pattern: &str, count: usize) -> Result<RuleSet, Vec<String>> {
    let when = |number| format!("mail.subject.matches('{pattern}{number}')");
    let rules = (0..count).map(|number| source(&format!("R{number}"), &when(number), 1.0, Mode::Enforce));
    let source = RuleSetSource { rules: rules.collect(), ..RuleSetSource::default() };
    let told = |found: Vec<crate::RuleProblem>| found.into_iter().map(|it| it.diagnostic.message).collect();
    RuleSet::compile(source, scope).map_err(told)
}

/// The room for compiled regular expressions is bounded for all together, those included that are refused; small ones may be
/// many.
#[test]
fn regular_expressions_have_room_together() {
    const ROOM: usize = 2 << 20;
    let mut scope = TestScope { regex_bytes: Some(ROOM), ..TestScope::new() };
    assert!(compiled(&mut scope, "spam", 100).is_ok());
    for pattern in ["[a-z]{1000}", r"\\w{500}"] {
        scope.regex_bytes = Some(ROOM);
        let told = compiled(&mut scope, pattern, 100).unwrap_err();
        let together = told.iter().filter(|told| told.contains("too much memory together")).count();
        assert!(together > 100 - 40, "{pattern}: {together} of {told:?}");
        assert!(scope.regex_bytes < Some(1 << 18), "{:?}", scope.regex_bytes);
    }
    let mut scope = TestScope { is_over: true, ..TestScope::new() };
    let told = compiled(&mut scope, "spam", 100).unwrap_err();
    assert!(told.iter().any(|told| told == "compiling was ended") && told.len() < 4, "{told:?}");
}
