use event::{Facts, TableIndex, Type, Value};
use proptest::prelude::*;

use super::oracle::{self, OracleContext};
use super::{TestScope, compile, library};
use crate::syntax::{self, SyntaxKind, SyntaxNode};
use crate::{
    Diagnostic, Evaluation, GroupSource, Library, LibrarySource, Mode, Rule, RuleProblem, RuleSet,
    RuleSetPart, RuleSetSource, RuleSource,
};

type Text = BoxedStrategy<String>;

fn one_of(texts: &[&'static str]) -> Text {
    prop::sample::select(texts.to_vec()).prop_map(str::to_owned).boxed()
}

/// Sources of conditions, well typed but for what only the checker knows to be pointless.
fn conditions() -> Text {
    let texts = || {
        let leaf = one_of(&["mail.subject", "mail.from", "'a'", "'ab'", "''", "'é'"]);
        let made = one_of(&[
            "string(mail.size)",
            "string(conn.ip)",
            "mail.links[0]",
            "mail.links[-1]",
            "mail.links.join('b')",
            "mail.subject.split('b')[0]",
            "mail.subject.split('b')[-2]",
            "(mail.subject + mail.from).substring(1, 3)",
            "mail.subject.lower()",
        ]);
        prop_oneof![
            4 => leaf.clone(),
            1 => (leaf.clone(), leaf.clone()).prop_map(|(a, b)| format!("({a}).or({b})")),
            1 => (leaf.clone(), leaf).prop_map(|(a, b)| format!("({a} + {b})")),
            1 => made,
        ]
    };
    let numbers = || {
        let leaf = one_of(&[
            "mail.size",
            "mail.parts",
            "mail.html",
            "mail.caps",
            "from.seen('1h')",
            "from.spam('1d')",
            "size(mail.subject)",
            "mail.links.size()",
            "size(mail.body)",
            "seen_lately",
            "bulk",
            "share",
            "spam_share",
            "now.getHours('Europe/Berlin')",
            "mail.date.getDayOfWeek('America/New_York')",
            "now.getDayOfYear()",
            "rate(from.seen('1h'), '1m')",
            "rate(from.spam('1d'), '3d')",
            "max_bucket(from.seen('1h'), '10m')",
            "dispersion(from.seen('1h'), '10m')",
            "interval_variation(from.seen('1h'), '10m')",
            "trend(from.seen('1h'), from.seen('1d'), 2)",
            "model('spam')",
            "2",
            "-1",
            "0.5",
            "1.0",
            "9223372036854775807",
            "1e300",
        ]);
        leaf.prop_recursive(3, 12, 2, |inner| {
            prop_oneof![
                (inner.clone(), one_of(&["+", "-", "*", "/", "%"]), inner.clone())
                    .prop_map(|(a, sign, b)| format!("({a} {sign} {b})")),
                (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a}).or({b})")),
                (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("(mail.reply ? {a} : {b})")),
                inner.clone().prop_map(|a| format!("-({a})")),
                inner.clone().prop_map(|a| format!("int({a})")),
                inner.prop_map(|a| format!("double({a})")),
            ]
        })
    };
    let spans = || {
        one_of(&[
            "duration('1s')",
            "subject.first_age()",
            "age(mail.date)",
            "(now - mail.date)",
            "-duration('2us')",
        ])
    };
    let times =
        || one_of(&["now", "mail.date", "(now - duration('1s'))", "(mail.date + subject.first_age())"]);
    let compare = || one_of(&["==", "!=", "<", "<=", ">", ">="]);
    let sides =
        |a: Text, sign: Text, b: Text| (a, sign, b).prop_map(|(a, sign, b)| format!("{a} {sign} {b}"));
    let leaf = prop_oneof![
        6 => sides(numbers().boxed(), compare(), numbers().boxed()),
        3 => sides(texts().boxed(), compare(), texts().boxed()),
        1 => sides(spans(), compare(), spans()),
        1 => sides(times(), compare(), times()),
        1 => sides(one_of(&["conn.ip", "ip"]), one_of(&["==", "!="]), one_of(&["ip", "'192.0.2.7'", "'::1'"])),
        2 => (texts(), one_of(&["contains", "startsWith", "endsWith"]), texts())
            .prop_map(|(a, method, b)| format!("({a}).{method}({b})")),
        1 => texts().prop_map(|a| format!("({a}).matches('^a|é$')")),
        1 => texts().prop_map(|a| format!("{a} in mail.links")),
        1 => (texts(), texts()).prop_map(|(a, b)| format!("{a} in ({b}).split('a')")),
        1 => texts().prop_map(|a| format!("{a} in ['b', 'a', 'é']")),
        1 => numbers().prop_map(|a| format!("{a} in [3, 0, -1, 2]")),
        1 => numbers().prop_map(|a| format!("{a} in [3, 0.0, 0.5, -1]")),
        1 => texts().prop_map(|a| format!("{a} in words")),
        1 => texts().prop_map(|a| format!("{a} in hosts")),
        2 => one_of(&["conn.ip in ['192.0.2.7', '10.0.0.0/8']", "conn.ip in nets", "ip in ['::/1']", "mail.size in sizes",
            "mail.parts in small", "sets.intersects(mail.links, words)", "sets.intersects(mail.links, hosts)",
            "sets.intersects(mail.links, ['b', 'é'])", "is_bulk", "fresh", "ip.marked('scanner')",
            "estimated(from.seen('1h'))", "mail.reply"]),
        1 => one_of(&["mail.subject", "mail.caps", "mail.links", "ip", "from.seen('1h')", "now", "mail.body"])
            .prop_map(|fact| format!("has({fact})")),
    ];
    leaf.prop_recursive(4, 24, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 2..4).prop_map(|parts| format!("({})", parts.join(" && "))),
            prop::collection::vec(inner.clone(), 2..4).prop_map(|parts| format!("({})", parts.join(" || "))),
            inner.clone().prop_map(|a| format!("!({a})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("(({a}) == ({b}))")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a}).or({b})")),
            (inner.clone(), inner.clone(), inner).prop_map(|(a, b, c)| format!("({a} ? {b} : {c})")),
        ]
    })
    .boxed()
}

/// A row of the columns that a scope has, often missing, now and then of a wrong type.
fn rows(scope: &TestScope) -> BoxedStrategy<Facts> {
    let text = || one_of(&["", "a", "ab", "b", "é"]);
    let cell = move |kind: Type| -> BoxedStrategy<Value> {
        match kind {
            Type::String => text().prop_map(Value::from).boxed(),
            Type::Integer => prop_oneof![
                6 => -3i64..4,
                1 => prop::sample::select(vec![i64::MIN, i64::MAX, 1 << 53, (1 << 53) + 1, 1_000_000]),
            ]
            .prop_map(Value::from)
            .boxed(),
            Type::Float => {
                prop::sample::select(vec![0.0, -0.0, 0.5, 1.0, -1.0, 1e308, 2.0, f64::NAN, f64::INFINITY])
                    .prop_map(Value::from)
                    .boxed()
            }
            Type::Bool => any::<bool>().prop_map(Value::from).boxed(),
            Type::Time => prop_oneof![
                4 => (0i64..4).prop_map(|time| time * 1_000_000),
                2 => -60_000_000_000_000_000i64..=250_000_000_000_000_000,
                1 => prop::sample::select(vec![i64::MIN, i64::MAX]),
            ]
            .prop_map(|time| Value::Time(event::Time(time)))
            .boxed(),
            Type::Ip => one_of(&["192.0.2.7", "192.0.3.0", "10.1.2.3", "::1", "2001:db8::7"])
                .prop_map(|ip| Value::Ip(ip.parse().unwrap()))
                .boxed(),
            Type::Bytes => {
                prop::collection::vec(any::<u8>(), 0..4).prop_map(|bytes| Value::Bytes(bytes.into())).boxed()
            }
            Type::List => prop::collection::vec(text(), 0..4).prop_map(Value::from).boxed(),
        }
    };
    let columns = scope.schema().columns().iter().map(|column| {
        prop_oneof![6 => cell(column.kind).prop_map(Some), 2 => Just(None), 1 => cell(Type::Bool).prop_map(Some)]
    });
    let empty = scope.schema().empty_row();
    columns
        .collect::<Vec<_>>()
        .prop_map(move |values| {
            let mut row = empty.clone();
            for (value, slot) in values.into_iter().zip(0..) {
                if let Some(value) = value {
                    row.set(event::Slot(slot), value);
                }
            }
            row
        })
        .boxed()
}

/// A condition, its scope once it is compiled, and rows.
fn cases() -> impl Strategy<Value = (String, Vec<Facts>)> {
    conditions().prop_flat_map(|source| {
        let mut scope = TestScope::new();
        let _ = compile(&source, &mut scope);
        (Just(source), prop::collection::vec(rows(&scope), 8))
    })
}

fn has_negative_reading(schema: &event::Schema, row: &Facts) -> bool {
    schema.columns().iter().zip(row.values()).any(|(column, value)| {
        let is_reading = column.name.contains('(') && !column.name.starts_with("model");
        let is_negative = match value {
            Some(Value::Integer(integer)) => *integer < 0,
            Some(Value::Float(float)) => *float < 0.0,
            _ => false,
        };
        is_reading && is_negative
    })
}

/// Parts of which a diagnostic says that they are never true, or never false.
fn claims(node: &SyntaxNode, found: &[Diagnostic]) -> Vec<(SyntaxNode, bool)> {
    fn collect(node: &mut SyntaxNode, found: &[Diagnostic], claims: &mut Vec<(SyntaxNode, bool)>) {
        for diagnostic in found {
            match diagnostic.message.as_str() {
                "this is always true" if node.range == diagnostic.range => claims.push((node.clone(), false)),
                "this is always false" if node.range == diagnostic.range => claims.push((node.clone(), true)),
                // The part that cannot be true beside the others is marked.
                "this is never true" => {
                    let copy = node.clone();
                    if let SyntaxKind::All(parts) = &node.kind
                        && parts.iter().any(|part| part.range == diagnostic.range)
                    {
                        claims.push((copy, true));
                    }
                }
                _ => {}
            }
        }
        node.children_mut().into_iter().for_each(|child| collect(child, found, claims));
    }
    let mut claims = Vec::new();
    // A mistake of another kind could have left something unchecked.
    if found
        .iter()
        .all(|found| found.message.starts_with("this is ") || found.severity == crate::Severity::Warning)
    {
        collect(&mut node.clone(), found, &mut claims);
    }
    claims
}

/// Rules that refer to others, and rows.
fn sets() -> impl Strategy<Value = (Vec<RuleSource>, Vec<Facts>)> {
    let shares = prop_oneof![
        4 => Just(None),
        2 => one_of(&["mail.caps", "mail.html * 2.0 - mail.caps", "from.seen('1h') / 3", "mail.parts", "mail.reply ? 0.25 : 1"])
            .prop_map(Some),
    ];
    let one =
        (conditions(), 0usize..3, any::<prop::sample::Index>(), 0..5u8, any::<bool>(), -2i8..=2, shares);
    prop::collection::vec(one, 2..6).prop_flat_map(|drawn| {
        // Names are given backwards: a rule refers to those behind it.
        let count = drawn.len();
        let mut scope = TestScope::new();
        let library = library(&mut scope);
        let rules: Vec<RuleSource> = drawn
            .into_iter()
            .enumerate()
            .map(|(index, (when, mode, other, link, grouped, score, share))| {
                // A set is refused for one condition that is.
                let is_right = crate::compile(&when, &library, &mut scope).is_ok();
                let when = if is_right { when } else { "mail.reply".to_owned() };
                let later = index + 1 + other.index(count);
                let when = match link {
                    0 if later < count => format!("({when}) && rule('R{later}')"),
                    1 if later < count => format!("({when}) || !rule('R{later}')"),
                    2 if index == 0 => format!("({when}) && group('g') > 0.5"),
                    _ => when,
                };
                RuleSource {
                    name: format!("R{index}"),
                    when,
                    score: f64::from(score) * 0.75,
                    share,
                    mode: [Mode::Enforce, Mode::Shadow, Mode::Off][mode],
                    group: (grouped && index > 0).then(|| "g".to_owned()),
                    ..RuleSource::default()
                }
            })
            .collect();
        (Just(rules), prop::collection::vec(rows(&scope), 4))
    })
}

/// Returns what rules say of a row, asked from the last to the first: those that fire, those in shadow that do, and the
/// score. An enforced rule sees enforced ones only, one in shadow sees all.
fn asked(rules: &[RuleSource], schema: &event::Schema, row: &Facts) -> (Vec<u32>, Vec<u32>, f64) {
    let bounded = |score: f64| score.clamp(-1.0, 2.5);
    let mut live = OracleContext::new(schema, row);
    live.groups.insert("g".to_owned(), 0.0);
    let mut trial = live.clone();
    let (mut fired, mut shadow) = (Vec::new(), Vec::new());
    let (mut in_group, mut in_trial, mut alone) = (0.0, 0.0, 0.0);
    for (index, rule) in rules.iter().enumerate().rev() {
        let (node, _) = syntax::parse(&rule.when).unwrap();
        let enforced = rule.mode == Mode::Enforce;
        let context = if enforced { &live } else { &trial };
        let fires = rule.mode != Mode::Off && oracle::condition(&node, context) == Some(true);
        if !fires {
            live.rules.insert(rule.name.clone(), false);
            trial.rules.insert(rule.name.clone(), false);
            continue;
        }
        if enforced { &mut fired } else { &mut shadow }.insert(0, index as u32);
        let share = rule.share.as_ref().map_or(1.0, |share| {
            let (node, _) = syntax::parse(share).unwrap();
            oracle::number(&node, context).map_or(0.0, |share| share.clamp(0.0, 1.0))
        });
        let score = rule.score * share;
        match (enforced, rule.group.is_some()) {
            (true, true) => (in_group, in_trial) = (in_group + score, in_trial + score),
            (true, false) => alone += score,
            (false, true) => in_trial += score,
            (false, false) => {}
        }
        live.rules.insert(rule.name.clone(), enforced);
        trial.rules.insert(rule.name.clone(), true);
        live.groups.insert("g".to_owned(), bounded(in_group));
        trial.groups.insert("g".to_owned(), bounded(in_trial));
    }
    (fired, shadow, alone + bounded(in_group))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_compiled_form_agrees_with_the_plain_one((source, rows) in cases()) {
        let mut scope = TestScope::new();
        // What is always true or false, or takes the remainder of a float, is refused: nothing to compare.
        let (node, _) = syntax::parse(&source).unwrap();
        match compile(&source, &mut scope) {
            Ok(condition) => {
                for row in rows {
                    let expected = oracle::condition(&node, &OracleContext::new(scope.schema(), &row));
                    prop_assert_eq!(condition.evaluate(&row), expected, "{} of {:?}", source, row);
                    prop_assert_eq!(condition.fires(&row), expected == Some(true), "{} of {:?}", source, row);
                }
            }
            Err(found) => {
                for (part, never) in claims(&node, &found) {
                    // What statistics say is never below 0.
                    for row in rows.iter().filter(|row| !has_negative_reading(scope.schema(), row)) {
                        let said = oracle::condition(&part, &OracleContext::new(scope.schema(), row));
                        prop_assert_ne!(said, Some(never), "{:?} in {} of {:?}", part, source, row);
                    }
                }
            }
        }
    }

    #[test]
    fn layout_has_no_meaning(
        (source, rows) in cases(),
        gaps in prop::collection::vec(one_of(&[" ", "", "\n", "  \t", " // why\n", "\n\n//\n"]), 1..8),
        width in 0usize..80,
    ) {
        // No text in these sources has a blank.
        let pieces: Vec<&str> = source.split(' ').collect();
        let mut spread = String::new();
        for (piece, gap) in pieces.iter().zip(gaps.iter().cycle()) {
            let is_word = *piece == "in" || spread.ends_with("in");
            spread.push_str(if is_word && !spread.ends_with(char::is_whitespace) { " " } else { "" });
            spread.push_str(piece);
            spread.push_str(gap);
        }
        let spread = spread.replace("\n in", "\nin");
        let laid_out = crate::format(&spread, width).unwrap();
        prop_assert_eq!(crate::format(&laid_out, width), Ok(laid_out.clone()), "the same again");
        prop_assert_eq!(crate::canonical(&laid_out), crate::canonical(&source));
        let (mut scope, mut again) = (TestScope::new(), TestScope::new());
        match (compile(&source, &mut scope), compile(&laid_out, &mut again)) {
            (Ok(one), Ok(other)) => {
                prop_assert_eq!((one.cost(), one.reads()), (other.cost(), other.reads()));
                for row in &rows {
                    prop_assert_eq!(one.evaluate(row), other.evaluate(row));
                }
            }
            (Err(one), Err(other)) => {
                let messages = |found: &[Diagnostic]| found.iter().map(|found| found.message.clone()).collect::<Vec<_>>();
                prop_assert_eq!(messages(&one), messages(&other));
            }
            (one, other) => prop_assert!(false, "{one:?} {other:?}"),
        }
    }

    #[test]
    fn a_set_agrees_with_rules_that_are_asked_one_by_one((rules, rows) in sets()) {
        let mut scope = TestScope::new();
        let library = library(&mut scope);
        let groups = vec![GroupSource { name: "g".to_owned(), floor: Some(-1.0), cap: Some(2.5), ..GroupSource::default() }];
        let source = RuleSetSource { rules: rules.clone(), groups, library, ..RuleSetSource::default() };
        if let Ok(set) = RuleSet::compile(source, &mut scope) {
            let mut outcome = Evaluation::default();
            for row in rows {
                set.evaluate(&row, &mut outcome);
                let (fired, shadow, score) = asked(&rules, scope.schema(), &row);
                let numbers = |rules: &[TableIndex<Rule>]| rules.iter().map(|rule| rule.get() as u32).collect::<Vec<_>>();
                prop_assert_eq!(numbers(outcome.fired()), fired, "{:?} of {:?}", rules, row);
                prop_assert_eq!(numbers(outcome.shadow()), shadow, "{:?} of {:?}", rules, row);
                // Each share is rounded to a millionth.
                prop_assert!((outcome.score() - score).abs() < 5e-6, "{} is not {}", outcome.score(), score);
            }
        }
    }

    #[test]
    fn no_text_breaks_the_compiler(source in "\\PC{0,60}") {
        let _ = compile(&source, &mut TestScope::new());
    }

    #[test]
    fn no_words_break_a_set(pieces in prop::collection::vec(prop::collection::vec(one_of(&[
        "a", "b", "mail.size", "from", "ip", "spam", "+", "/", ">", "&&", "||", "!", "(", ")", "[", "]", "'", "\"", ",",
        "rule('R0')", "rule('R1')", "group('g')", "has(", "1", "0", "'1h'", "from.seen('1h')", "in", "words", "é", " ",
        "set", "lift", "reject", "accept", "mark ip as", "scanner", "for", "1d", "add", "from.spam", "by", "notify",
    ]), 0..12), 0..12), spaced in any::<bool>()) {
        let texts: Vec<String> = pieces.iter().map(|piece| piece.join(if spaced { " " } else { "" })).collect();
        let (expressions, rules) = texts.split_at(texts.len() / 3);
        let named = expressions.iter().zip(["a", "b", "c", "d"]).map(|(text, name)| (name.to_owned(), text.clone()));
        let named: Vec<(String, String)> = named.collect();
        let mut scope = TestScope::new();
        let source = LibrarySource { expressions: named.clone(), ..LibrarySource::default() };
        let (library, problems) = Library::compile(source, &mut scope);
        for problem in problems {
            let (_, source) = named.iter().find(|(name, _)| *name == problem.name).unwrap();
            prop_assert!(source.get(problem.diagnostic.range.clone()).is_some(), "{problem:?} of {source}");
            problem.diagnostic.render(source);
        }
        let rules: Vec<RuleSource> = rules.chunks(2).enumerate().map(|(index, chunk)| RuleSource {
            name: format!("R{index}"),
            when: chunk[0].clone(),
            effects: chunk[1..].to_vec(),
            group: (index % 2 == 0).then(|| "g".to_owned()),
            ..RuleSource::default()
        }).collect();
        let groups = vec![GroupSource { name: "g".to_owned(), ..GroupSource::default() }];
        let source = RuleSetSource { rules: rules.clone(), groups, library, ..RuleSetSource::default() };
        if let Err(problems) = RuleSet::compile(source, &mut scope) {
            for RuleProblem { part, diagnostic } in problems {
                let source = match part {
                    RuleSetPart::When(index) => &rules[index].when,
                    RuleSetPart::Effect(index, number) => &rules[index].effects[number],
                    _ => "",
                };
                prop_assert!(source.get(diagnostic.range.clone()).is_some(), "{diagnostic:?} of {source}");
                diagnostic.render(source);
            }
        }
    }

    #[test]
    fn no_tokens_break_the_compiler(tokens in prop::collection::vec(one_of(&[
        "a", "mail.size", "from", "mail", ".", "seen", "(", ")", "[", "]", "{", "}", ",", ":", "?", "!", "-", "+",
        "*", "/", "%", "<", "==", "&&", "||", "in", "has", "ratio", "or", "size", "matches", "'1h'", "'('", "1",
        "0.5", "true", "null", "b'x'", "from.seen('1h')", "x.exists(", "ratio(", "has(", "é", "//", "\n", "5u",
        "-9223372036854775808", "distinct(", "last(", "duration(", "'a' in", "mail.links",
        "bulk", "is_bulk", "small", "words", "nets", "sets.intersects(", "rule(", "group(", "model(", "'spam'", "rate(",
        "trend(", "estimated(", "age(", ".getHours(", ".marked(", "'scanner'", "'UTC'",
    ]), 0..40), spaced in any::<bool>()) {
        let source = tokens.join(if spaced { " " } else { "" });
        if let Ok(laid_out) = crate::format(&source, 30) {
            prop_assert_eq!(crate::format(&laid_out, 30), Ok(laid_out.clone()), "the same again");
            prop_assert_eq!(crate::canonical(&laid_out), crate::canonical(&source));
        }
        if let Err(found) = compile(&source, &mut TestScope::new()) {
            prop_assert!(!found.is_empty());
            for diagnostic in found {
                prop_assert!(source.get(diagnostic.range.clone()).is_some(), "{:?} of {:?}", diagnostic, source);
                diagnostic.render(&source);
            }
        }
    }
}

#[test]
fn most_conditions_made_are_accepted() {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let accepted = (0..200)
        .filter(|_| {
            let source = conditions().new_tree(&mut runner).unwrap().current();
            compile(&source, &mut TestScope::new()).is_ok()
        })
        .count();
    assert!(accepted > 100, "{accepted} of 200");
}

#[test]
fn many_sets_made_are_accepted() {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let accepted = (0..200)
        .filter(|_| {
            let (rules, _) = sets().new_tree(&mut runner).unwrap().current();
            let mut scope = TestScope::new();
            let library = library(&mut scope);
            let groups = vec![GroupSource { name: "g".to_owned(), ..GroupSource::default() }];
            let source = RuleSetSource { rules, groups, library, ..RuleSetSource::default() };
            RuleSet::compile(source, &mut scope).is_ok()
        })
        .count();
    assert!(accepted > 120, "{accepted} of 200");
}
