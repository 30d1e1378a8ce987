//! Sets of rules: order, groups, views, versions, tests, bounds.

use event::{Time, Value};

use super::{TestScope, library, mail};
use crate::{
    Action, Band, Bands, Effect, Evaluation, GroupSource, Mode, RuleProblem, RuleSet, RuleSetPart,
    RuleSetSource, RuleSource, RuleTest, judge,
};

fn rule(name: &str, when: &str, score: f64) -> RuleSource {
    RuleSource { name: name.to_owned(), when: when.to_owned(), score, ..RuleSource::default() }
}

fn group(name: &str, floor: Option<f64>, cap: Option<f64>) -> GroupSource {
    GroupSource { name: name.to_owned(), cap, floor, ..GroupSource::default() }
}

fn compile(
    scope: &mut TestScope,
    rules: Vec<RuleSource>,
    groups: Vec<GroupSource>,
) -> Result<RuleSet, Vec<RuleProblem>> {
    let bands = vec![Band { at: 4.0, action: Action::Tag }, Band { at: 8.0, action: Action::Reject }];
    let library = library(scope);
    RuleSet::compile(RuleSetSource { rules, groups, bands: Bands::new(bands).unwrap(), library }, scope)
}

/// The names of the enforced rules that fire for the mail of the tests, of those in shadow, the score and the action.
#[track_caller]
fn told(rules: Vec<RuleSource>, groups: Vec<GroupSource>) -> String {
    let mut scope = TestScope::new();
    let set = compile(&mut scope, rules, groups).unwrap_or_else(|problems| panic!("{problems:#?}"));
    let row = mail(&scope);
    let verdict = judge(&set, &row);
    let names = |reasons: &[crate::Reason]| {
        let mut names: Vec<&str> = reasons.iter().map(|reason| reason.rule.as_str()).collect();
        names.sort_unstable();
        names.join(" ")
    };
    format!("[{}] ({}) {} {}", names(&verdict.reasons), names(&verdict.shadow), verdict.score, verdict.action)
}

/// Returns the problems of rules: the part, and the diagnostic as people see it.
#[track_caller]
fn problems(rules: Vec<RuleSource>, groups: Vec<GroupSource>) -> String {
    let sources = rules.clone();
    let found = match compile(&mut TestScope::new(), rules, groups) {
        Ok(set) => set.warnings().to_vec(),
        Err(found) => found,
    };
    let rendered = found.iter().map(|RuleProblem { part, diagnostic }| {
        let source = match part {
            RuleSetPart::When(index) => &sources[*index].when,
            RuleSetPart::Share(index) => sources[*index].share.as_deref().unwrap_or_default(),
            RuleSetPart::Effect(index, number) => {
                sources[*index].effects.get(*number).map_or("", |text| text)
            }
            _ => "",
        };
        format!("\n{part:?}: {}", diagnostic.render(source))
    });
    rendered.collect()
}

const YES: &str = "mail.size == 7";
const NO: &str = "mail.size == 8";

#[test]
fn a_rule_sees_those_that_it_names_wherever_they_stand() {
    let sees = rule("SEES", "rule('LATER') && !rule('NEVER')", 1.0);
    assert_eq!(
        told(vec![sees, rule("LATER", YES, 2.0), rule("NEVER", NO, 4.0)], vec![]),
        "[LATER SEES] () 3 accept"
    );
    let chain = (0..50).rev().map(|index| {
        let when = if index == 0 { YES.to_owned() } else { format!("rule('R{}')", index - 1) };
        rule(&format!("R{index}"), &when, 0.1)
    });
    assert!(told(chain.collect(), vec![]).ends_with("() 5 tag"));
    // A rule that is missing a value has not fired, and that is no missing value itself.
    assert_eq!(
        told(vec![rule("A", "mail.caps > 0.5", 1.0), rule("B", "!rule('A')", 2.0)], vec![]),
        "[B] () 2 accept"
    );
}

#[test]
fn groups_add_within_their_bounds() {
    let of = |name: &str, when: &str, score: f64, group: &str| RuleSource {
        group: Some(group.to_owned()),
        ..rule(name, when, score)
    };
    let groups = || vec![group("links", Some(-1.0), Some(3.0)), group("open", None, None)];
    let rules = |sees: &str| {
        vec![
            rule("SEES", sees, 0.25),
            of("A", YES, 2.0, "links"),
            of("B", YES, 2.0, "links"),
            of("C", NO, 2.0, "links"),
            of("D", YES, 1.5, "open"),
        ]
    };
    assert_eq!(
        told(rules("group('links') == 3.0 && group('open') > 1"), groups()),
        "[A B D SEES] () 4.75 tag"
    );
    assert_eq!(told(rules("group('links') < 3.0"), groups()), "[A B D] () 4.5 tag");
    let down = vec![of("A", YES, -2.0, "links"), rule("B", YES, 5.0)];
    assert_eq!(told(down, groups()), "[A B] () 4 tag");

    let mut scope = TestScope::new();
    let set = compile(&mut scope, rules("group('links') == 3.0"), groups()).unwrap();
    let row = mail(&scope);
    let mut verdict = judge(&set, &row);
    set.explain(&mut verdict, &row);
    let detail =
        |name: &str| verdict.reasons.iter().find(|reason| reason.rule == name).unwrap().detail.clone();
    assert_eq!(detail("A"), "mail.size = 7; group links counts 3 of 4");
    assert_eq!(detail("D"), "mail.size = 7");
}

#[test]
fn a_rule_in_shadow_changes_nothing() {
    let shadow =
        |name: &str, when: &str, score: f64| RuleSource { mode: Mode::Shadow, ..rule(name, when, score) };
    let mut trial = shadow("TRIAL", YES, 9.0);
    trial.effects = vec!["set reject".to_owned(), "mark ip as scanner for 1d".to_owned()];
    trial.group = Some("links".to_owned());
    let rules = || {
        vec![
            trial.clone(),
            shadow("SEES", "rule('TRIAL') && group('links') >= 9", 1.0),
            rule("LIVE", "rule('TRIAL') || group('links') > 0", 5.0),
            RuleSource { mode: Mode::Off, ..rule("OFF", YES, 7.0) },
        ]
    };
    assert_eq!(told(rules(), vec![group("links", None, None)]), "[] (SEES TRIAL) 0 accept");
    let mut scope = TestScope::new();
    let set = compile(&mut scope, rules(), vec![group("links", None, None)]).unwrap();
    assert_eq!(judge(&set, &mail(&scope)).effects, []);
    assert_eq!(
        problems(rules(), vec![group("links", None, None)]),
        r"
When(2): warning: the rule `TRIAL` is in shadow, so this is always false
  | rule('TRIAL') || group('links') > 0
  |      ^^^^^^^
  = rules in shadow change nothing, so only others in shadow see them"
    );
}

#[test]
fn a_rule_expires_by_the_time_of_the_event() {
    let until = |seconds| RuleSource { expires: Some(Time::from_seconds(seconds)), ..rule("A", YES, 1.0) };
    assert_eq!(told(vec![until(1_000_001)], vec![]), "[A] () 1 accept");
    assert_eq!(told(vec![until(1_000_000)], vec![]), "[] () 0 accept");
    let sees = rule("SEES", "rule('A')", 1.0);
    assert_eq!(told(vec![until(1_000_000), sees], vec![]), "[] () 0 accept");
}

#[test]
fn effects_set_and_lift_actions() {
    let with = |name: &str, when: &str, score: f64, effects: &[&str]| RuleSource {
        effects: effects.iter().map(|effect| (*effect).to_owned()).collect(),
        ..rule(name, when, score)
    };
    let check = |rules: Vec<RuleSource>, expected: &str| assert_eq!(told(rules, vec![]), expected);
    check(vec![with("A", YES, 1.0, &["set throttle"])], "[A] () 1 throttle");
    check(vec![with("A", NO, 1.0, &["set throttle"])], "[] () 0 accept");
    let but = "set throttle unless reject";
    check(vec![with("A", YES, 1.0, &[but])], "[A] () 1 throttle");
    check(vec![with("A", YES, 9.0, &[but])], "[A] () 9 reject");
    check(vec![with("A", YES, 9.0, &[but, "lift reject"])], "[A] () 9 throttle");
    check(vec![with("A", YES, 9.0, &["set review_after", but])], "[A] () 9 throttle");
    check(vec![with("A", YES, 1.0, &["set reject"]), with("B", YES, 1.0, &[but])], "[A B] () 2 reject");
    check(vec![with("A", YES, 1.0, &[but]), with("B", YES, 1.0, &["set reject"])], "[A B] () 2 reject");
    check(vec![with("A", YES, 9.0, &["lift reject"])], "[A] () 9 tag");
    check(vec![with("A", YES, 9.0, &["lift reject", "lift tag"])], "[A] () 9 accept");
    let both = || vec![with("A", YES, 1.0, &["set throttle"]), with("B", YES, 1.0, &["set review_after"])];
    check(both(), "[A B] () 2 review_after");
    let mut lifted = both();
    lifted.push(with("C", YES, 1.0, &["lift review_after"]));
    check(lifted, "[A B C] () 3 throttle");
    check(vec![with("A", YES, 9.0, &["set reject", "set challenge", "lift challenge"])], "[A] () 9 reject");
}

#[test]
fn effects_are_handed_on_in_the_order_of_the_rules() {
    let mut scope = TestScope::new();
    let with = |name: &str, effects: &[&str]| RuleSource {
        effects: effects.iter().map(|effect| (*effect).to_owned()).collect(),
        ..rule(name, YES, 1.0)
    };
    let rules = vec![
        with("FIRST", &["add ip.seen by 5", "set tag"]),
        with("SECOND", &["mark ip as \"scanner\" for 1d", "notify 'operators'"]),
    ];
    let set = compile(&mut scope, rules, vec![]).unwrap();
    let row = mail(&scope);
    let mut verdict = judge(&set, &row);
    let told: Vec<String> =
        verdict.effects.iter().map(|due| format!("{}: {}", due.rule, due.effect)).collect();
    assert_eq!(
        told,
        [
            "FIRST: add ip.seen by 5",
            "FIRST: set tag",
            "SECOND: mark ip as \"scanner\" for 1d",
            "SECOND: notify \"operators\""
        ]
    );
    assert_eq!(set.rule("FIRST").unwrap().effects[1], Effect::Set(Action::Tag));
    set.explain(&mut verdict, &row);
    assert_eq!(verdict.reasons[0].detail, "mail.size = 7; add ip.seen by 5, set tag");
}

#[test]
fn the_version_is_that_of_everything() {
    let version = |rules: Vec<RuleSource>, groups: Vec<GroupSource>| {
        compile(&mut TestScope::new(), rules, groups).unwrap().version().to_owned()
    };
    let one = version(vec![rule("A", YES, 1.0)], vec![]);
    assert_eq!(one.len(), 16);
    assert_eq!(one, version(vec![rule("A", YES, 1.0)], vec![]));
    assert_ne!(one, version(vec![rule("A", YES, 1.5)], vec![]));
    assert_ne!(one, version(vec![RuleSource { owner: "ann".to_owned(), ..rule("A", YES, 1.0) }], vec![]));
    assert_ne!(one, version(vec![rule("A", YES, 1.0)], vec![group("links", None, None)]));
    let mut scope = TestScope::new();
    let source = RuleSetSource { rules: vec![rule("A", YES, 1.0)], ..RuleSetSource::default() };
    assert_ne!(one, RuleSet::compile(source, &mut scope).unwrap().version(), "another library, other bands");
}

#[test]
fn a_rule_adds_a_share_of_its_score() {
    let part = |name: &str, score: f64, share: &str| RuleSource {
        share: Some(share.to_owned()),
        ..rule(name, YES, score)
    };
    assert_eq!(told(vec![part("A", 6.0, "mail.size / 10.0")], vec![]), "[A] () 4.2 tag");
    assert_eq!(told(vec![part("A", 6.0, "mail.size")], vec![]), "[A] () 6 tag", "at most all of it");
    assert_eq!(told(vec![part("A", -6.0, "-mail.size")], vec![]), "[A] () 0 accept", "at least nothing");
    assert_eq!(
        told(vec![part("A", 6.0, "mail.caps")], vec![]),
        "[A] () 0 accept",
        "nothing where it is missing"
    );
    assert_eq!(
        told(vec![part("A", 8.0, "rule('B') ? 0.75 : 0.25"), rule("B", YES, 1.0)], vec![]),
        "[A B] () 7 tag",
        "it sees what conditions see, and is asked after them"
    );
    let of = |source: RuleSource| RuleSource { group: Some("g".to_owned()), ..source };
    let grouped = || vec![of(part("A", 4.0, "mail.size / 10.0")), of(part("B", 4.0, "0.5 / mail.size"))];
    assert_eq!(told(grouped(), vec![group("g", None, Some(3.0))]), "[A B] () 3 accept");

    let mut scope = TestScope::new();
    let mut rules = grouped();
    rules.push(RuleSource { share: Some("mail.size / 14.0".to_owned()), ..rule("C", NO, 3.0) });
    let set = compile(&mut scope, rules, vec![group("g", None, Some(3.0))]).unwrap();
    let row = mail(&scope);
    let mut verdict = judge(&set, &row);
    set.explain(&mut verdict, &row);
    let scores: Vec<f64> = verdict.reasons.iter().map(|reason| reason.score).collect();
    assert_eq!(scores, [2.8, 0.285714], "what a reason adds, to a millionth");
    assert_eq!(verdict.reasons[0].detail, "mail.size = 7; group g counts 3 of 3.085714");
    let counted: f64 = set.counted(&verdict).iter().sum();
    assert!((counted - 3.0).abs() < 1e-9, "{counted}");
    let near = set.nearest(&verdict, &row, 1, |_| true);
    let half = set.rules().index(2).unwrap();
    assert_eq!((near[0].rule, near[0].score), (half, 4.5), "half of its score more");
    assert!(set.cost() > set.rules().iter().map(|rule| rule.condition.cost()).sum());
    let reads: Vec<&str> = set.rules().as_slice()[0].reads().map(|read| read.text.as_str()).collect();
    assert_eq!(reads, ["mail.size"], "each once");

    let version = |share: &str| {
        compile(&mut TestScope::new(), vec![part("A", 1.0, share)], vec![]).unwrap().version().to_owned()
    };
    assert_eq!(version("mail.size/10.0"), version("mail.size / 10.0"), "layout has no meaning");
    assert_ne!(version("mail.size / 10.0"), version("mail.size / 11.0"));
    let known = set.select(|read| read.text != "mail.size");
    assert_eq!(known.left_out(), set.rules().indices().collect::<Vec<_>>());
}

#[test]
fn a_share_is_a_number_that_differs() {
    let part = |share: &str| vec![RuleSource { share: Some(share.to_owned()), ..rule("A", YES, 1.0) }];
    let check =
        |share: &str, expected: &str| assert_eq!(problems(part(share), vec![]).trim(), expected.trim());
    check(
        "mail.reply",
        "
Share(0): a share is a number from 0 to 1, this is a bool
  | mail.reply
  | ^^^^^^^^^^
  = put it into `when`, or choose between two numbers with `... ? 1.0 : 0.5`",
    );
    check(
        "mail.subject",
        "
Share(0): a share is a number from 0 to 1, this is a string
  | mail.subject
  | ^^^^^^^^^^^^
  = make a number of it, as in `size(mail.subject) / 100.0`",
    );
    check(
        "1 - 0.5",
        "
Share(0): this is always the same
  | 1 - 0.5
  | ^^^^^^^
  = multiply the score by it and leave `share` out",
    );
    check(
        "mail.sise / 2.0",
        "
Share(0): unknown name `mail.sise`
  | mail.sise / 2.0
  | ^^^^^^^^^
  = did you mean `mail.size`?",
    );
    check(
        "rule('A') ? 1.0 : 0.5",
        "
Share(0): rules refer to each other in a circle: A → A
  | rule('A') ? 1.0 : 0.5
  |      ^^^
  = a rule sees the results of those that do not depend on its own",
    );
}

#[test]
fn tests_of_rules_are_run() {
    let test = |facts: &[(&str, Value)], fires: bool| RuleTest {
        facts: facts.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect(),
        fires,
    };
    let mut scope = TestScope::new();
    let mut tested = rule(
        "A",
        "from.seen('60m') > bulk && subject.first_age() < duration('1d') && now.getHours() < 6",
        1.0,
    );
    let night = ("now", Value::from("2026-05-17T03:00:00Z"));
    tested.tests = vec![
        test(
            &[("from.seen('1h')", 1001i64.into()), ("subject.first_age()", "2h".into()), night.clone()],
            true,
        ),
        test(
            &[("from.seen('60m')", 1000i64.into()), ("subject.first_age()", "2h".into()), night.clone()],
            false,
        ),
        test(&[("from.seen('1h')", 1001i64.into()), night.clone()], true),
        test(&[("from.seen('1h')", 1001i64.into()), ("subject.first_age()", "2h".into()), night], false),
    ];
    let mut other = rule("B", "rule('A') && mail.size > 0", 1.0);
    other.mode = Mode::Off;
    other.tests = vec![test(&[("mail.size", 1i64.into())], false)];
    let set = compile(&mut scope, vec![tested, other], vec![]).unwrap();
    let runs = set.test(scope.schema());
    assert_eq!(runs.len(), 5);
    let failures = runs.iter().filter(|run| !run.passed());
    let told: Vec<String> = failures.map(|run| format!("{}.{} {run}", run.rule, run.test)).collect();
    assert_eq!(
        told,
        [
            "0.2 the test says that it fires, and its condition is missing: from.seen('1h') = 1001, \
             subject.first_age() is missing, now = 2026-05-17T03:00:00Z",
            "0.3 the test says that it does not fire, and its condition is true: from.seen('1h') = 1001, \
             subject.first_age() = 2h, now = 2026-05-17T03:00:00Z",
        ]
    );
}

#[test]
fn what_is_wrong_with_a_set() {
    let check = |rules: Vec<RuleSource>, groups: Vec<GroupSource>, expected: &str| {
        assert_eq!(problems(rules, groups), expected);
    };
    check(
        vec![rule("A", YES, 1.0), rule("A", YES, f64::NAN), rule("", YES, 1.0)],
        vec![],
        r"
Name(1): two rules are named `A`
Score(1): the score of rule `A` is no finite number
Name(2): a rule's name has 1 to 128 bytes: ``",
    );
    check(
        vec![
            rule("A", "rule('B') && mail.reply", 1.0),
            rule("B", "mail.size > 1 && rule('C')", 1.0),
            rule("C", "rule('A')", 1.0),
        ],
        vec![],
        r"
When(0): rules refer to each other in a circle: A → B → C → A
  | rule('B') && mail.reply
  |      ^^^
  = a rule sees the results of those that do not depend on its own",
    );
    check(
        vec![rule("A", "rule('A')", 1.0)],
        vec![],
        r"
When(0): rules refer to each other in a circle: A → A
  | rule('A')
  |      ^^^
  = a rule sees the results of those that do not depend on its own",
    );
    check(
        vec![RuleSource { group: Some("links".to_owned()), ..rule("A", "group('links') > 0", 1.0) }],
        vec![group("links", None, Some(3.0))],
        r"
When(0): rules refer to each other in a circle: A → A
  | group('links') > 0
  |       ^^^^^^^
  = a rule sees the results of those that do not depend on its own",
    );
    check(
        vec![
            rule("LINKS", "rule('LINSK') || group('lonks') > 1", 1.0),
            RuleSource { group: Some("link".to_owned()), ..rule("B", "rule(LINKS)", 1.0) },
        ],
        vec![group("links", None, None)],
        r"
When(0): there is no rule `LINSK`
  | rule('LINSK') || group('lonks') > 1
  |      ^^^^^^^
  = did you mean `LINKS`?
When(0): there is no group `lonks`
  | rule('LINSK') || group('lonks') > 1
  |                        ^^^^^^^
  = did you mean `links`?
When(1): a name in quotes belongs here
  | rule(LINKS)
  |      ^^^^^
  = write it as in `rule('NAME')`
GroupOf(1): there is no group `link`
  = did you mean `links`?",
    );
    check(
        vec![RuleSource { mode: Mode::Off, ..rule("REST", YES, 1.0) }, rule("A", "!rule('REST')", 1.0)],
        vec![],
        r"
When(1): warning: the rule `REST` is off, so this is always false
  | !rule('REST')
  |       ^^^^^^
  = take it out, or turn the rule on",
    );
    check(
        vec![
            RuleSource { group: Some("links".to_owned()), ..rule("A", YES, 2.0) },
            rule("B", "group('links') > 3.5", 1.0),
            rule("C", "rule('A') && mail.size > 1 && !rule('A')", 1.0),
        ],
        vec![group("links", None, Some(9.0))],
        r"
When(1): this is always false
  | group('links') > 3.5
  | ^^^^^^^^^^^^^^^^^^^^
  = one side is from -0.001 to 2.001
When(2): this is never true
  | rule('A') && mail.size > 1 && !rule('A')
  |                               ^^^^^^^^^^
  = not beside `rule('A')`",
    );
    check(
        vec![],
        vec![group("a", Some(1.0), None), group("a", None, Some(-1.0)), group("", None, Some(f64::INFINITY))],
        r"
Group(0): the bounds of group `a` do not have 0 between them
  = a group of which no rule fires adds 0: give a `cap` from 0 up and a `floor` from 0 down
Group(1): the bounds of group `a` do not have 0 between them
  = a group of which no rule fires adds 0: give a `cap` from 0 up and a `floor` from 0 down
Group(1): two groups are named `a`
Group(2): a group's name has 1 to 128 bytes: ``
Group(2): the bounds of group `` do not have 0 between them
  = a group of which no rule fires adds 0: give a `cap` from 0 up and a `floor` from 0 down",
    );
    check(
        vec![],
        [Some(1.5), Some(f64::NAN), Some(0.4)]
            .map(|share| GroupSource { default_share: share, ..group("a", None, None) })
            .into(),
        r"
Group(0): the `default_share` of group `a` is not between 0 and 1
Group(1): the `default_share` of group `a` is not between 0 and 1
Group(1): two groups are named `a`
Group(2): two groups are named `a`",
    );
    let mut tested = rule("A", YES, 1.0);
    tested.tests = vec![
        RuleTest { facts: vec![("mail.sizes".to_owned(), 7i64.into())], fires: true },
        RuleTest { facts: vec![("mail.size".to_owned(), "seven".into())], fires: true },
        RuleTest { facts: vec![("from.first_age()".to_owned(), 7i64.into())], fires: true },
        RuleTest { facts: vec![("mail.size + 1".to_owned(), 7i64.into())], fires: true },
    ];
    check(
        vec![tested],
        vec![],
        r#"
Test(0, 0): `mail.sizes`: unknown name `mail.sizes`
  = did you mean `mail.size`?
Test(0, 1): `mail.size` cannot be `seven`
  = expected a value of type integer
Test(0, 2): `from.first_age()` cannot be `7`
  = expected a length of time such as "2h"
Test(0, 3): `mail.size + 1`: this is no fact and no reading
  = name one as rules do: `mail.subject`, `from.seen('1h')`"#,
    );
}

#[test]
fn a_set_has_bounds() {
    let many = (0..=RuleSet::RULES_MAX).map(|index| rule(&format!("R{index}"), YES, 1.0));
    assert_eq!(problems(many.collect(), vec![]), "\nSet: a set has at most 10000 rules and 1000 groups");
    let dear = vec!["mail.subject.matches('a')"; 28].join(" && ");
    let many = (0..300).map(|index| rule(&format!("R{index}"), &dear, 1.0));
    assert_eq!(
        problems(many.collect(), vec![]),
        "\nSet: the rules cost more than 500000 together, which is the most accepted\n  \
         = turn off what is not needed, or look for what is dear: a regular expression, a search in a list"
    );
    let mut greedy = rule("A", YES, 1.0);
    greedy.effects = vec!["set tag".to_owned(); 17];
    assert_eq!(
        problems(vec![greedy], vec![]),
        "\nEffect(0, 16): a rule has at most 16 effects\n  | set tag\n  | ^"
    );
}

#[test]
fn an_outcome_is_used_again() {
    let mut scope = TestScope::new();
    let of = |name: &str, when: &str| RuleSource { group: Some("g".to_owned()), ..rule(name, when, 5.0) };
    let rules = vec![of("A", "mail.size > 3"), of("B", "rule('A')"), rule("C", "group('g') > 6", 1.0)];
    let set = compile(&mut scope, rules, vec![group("g", None, Some(8.0))]).unwrap();
    let (full, empty) = (mail(&scope), scope.row(&[]));
    let mut outcome = Evaluation::default();
    for _ in 0..2 {
        set.evaluate(&full, &mut outcome);
        let all: Vec<_> = set.rules().indices().collect();
        assert_eq!((outcome.fired(), outcome.score(), outcome.action()), (&all[..], 9.0, Action::Reject));
        set.evaluate(&empty, &mut outcome);
        assert_eq!((outcome.fired(), outcome.score(), outcome.action()), (&[][..], 0.0, Action::Accept));
    }
}

#[test]
fn what_is_enforced_does_not_hang_on_a_model_that_is_not() {
    let reads = |model: &str, mode: Mode| {
        let when = format!("model('{model}') > 0.9");
        problems(vec![RuleSource { mode, ..rule("READS", &when, 1.0) }], vec![])
    };
    assert_eq!(reads("spam", Mode::Enforce), "");
    assert_eq!(reads("trial", Mode::Shadow), "");
    assert_eq!(
        reads("trial", Mode::Enforce),
        r"
When(0): the model `trial` is in shadow
  | model('trial') > 0.9
  |       ^^^^^^^
  = enforce the model, or put the rule in shadow, too"
    );
    assert_eq!(
        reads("resting", Mode::Enforce),
        r"
When(0): the model `resting` is off
  | model('resting') > 0.9
  |       ^^^^^^^^^
  = turn the model on, or the rule off"
    );
    assert_eq!(
        reads("resting", Mode::Shadow),
        r"
When(0): warning: the model `resting` is off, so this is always missing
  | model('resting') > 0.9
  |       ^^^^^^^^^
  = take it out, or turn the model on"
    );
}
