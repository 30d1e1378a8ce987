use event::{Facts, Type, Value};
use proptest::prelude::*;

use super::{TestScope, compile, oracle};
use crate::syntax;

type Text = BoxedStrategy<String>;

fn one_of(texts: &[&'static str]) -> Text {
    prop::sample::select(texts.to_vec()).prop_map(str::to_owned).boxed()
}

/// Sources of conditions, well typed but for what only the checker knows to be pointless.
fn conditions() -> Text {
    let texts = || {
        let leaf = one_of(&["mail.subject", "mail.from", "'a'", "'ab'", "''", "'é'"]);
        prop_oneof![4 => leaf.clone(), 1 => (leaf.clone(), leaf).prop_map(|(a, b)| format!("({a}).or({b})"))]
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
    let spans =
        || one_of(&["duration('1s')", "subject.first_age()", "(now - mail.date)", "-duration('2us')"]);
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
        1 => texts().prop_map(|a| format!("{a} in ['b', 'a', 'é']")),
        1 => numbers().prop_map(|a| format!("{a} in [3, 0, -1, 2]")),
        1 => numbers().prop_map(|a| format!("{a} in [3, 0.0, 0.5, -1]")),
        1 => one_of(&["conn.ip in ['192.0.2.7']", "mail.reply", "true", "false"]),
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
            Type::Time => (0i64..4).prop_map(|time| Value::Time(event::Time(time * 1_000_000))).boxed(),
            Type::Ip => one_of(&["192.0.2.7", "::1"]).prop_map(|ip| Value::Ip(ip.parse().unwrap())).boxed(),
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

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_compiled_form_agrees_with_the_plain_one((source, rows) in cases()) {
        let mut scope = TestScope::new();
        // What is always true or false, or takes the remainder of a float, is refused: nothing to compare.
        if let Ok(condition) = compile(&source, &mut scope) {
            let (node, _) = syntax::parse(&source).unwrap();
            for row in rows {
                let expected = oracle::condition(&node, scope.schema(), &row);
                prop_assert_eq!(condition.evaluate(&row), expected, "{} of {:?}", source, row);
            }
        }
    }

    #[test]
    fn no_text_breaks_the_compiler(source in "\\PC{0,60}") {
        let _ = compile(&source, &mut TestScope::new());
    }

    #[test]
    fn no_tokens_break_the_compiler(tokens in prop::collection::vec(one_of(&[
        "a", "mail.size", "from", "mail", ".", "seen", "(", ")", "[", "]", "{", "}", ",", ":", "?", "!", "-", "+",
        "*", "/", "%", "<", "==", "&&", "||", "in", "has", "ratio", "or", "size", "matches", "'1h'", "'('", "1",
        "0.5", "true", "null", "b'x'", "from.seen('1h')", "x.exists(", "ratio(", "has(", "é", "//", "\n", "5u",
        "-9223372036854775808", "distinct(", "duration(", "'a' in", "mail.links",
    ]), 0..40), spaced in any::<bool>()) {
        let source = tokens.join(if spaced { " " } else { "" });
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
