use super::TestScope;
use crate::{Constant, Library, LibrarySource, Set, SetType};

/// Constants, expressions and one set, and what is wrong with them.
fn compiled(
    scope: &mut TestScope,
    constants: &[(&str, Constant)],
    expressions: &[(&str, &str)],
) -> (Library, String) {
    let source = LibrarySource {
        constants: constants.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect(),
        expressions: expressions
            .iter()
            .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()))
            .collect(),
        tables: Vec::new(),
        sets: vec![("freemail".to_owned(), Set::new(SetType::Domain, ["mail.example"]).unwrap().into())],
    };
    let (library, problems) = Library::compile(source, scope);
    let rendered = problems.iter().map(|problem| {
        let source = expressions.iter().find(|(name, _)| *name == problem.name).map_or("", |(_, text)| text);
        format!("\n{}: {}", problem.name, problem.diagnostic.render(source))
    });
    let rendered = rendered.collect();
    (library, rendered)
}

#[track_caller]
fn check(constants: &[(&str, Constant)], expressions: &[(&str, &str)], expected: &str) {
    assert_eq!(compiled(&mut TestScope::new(), constants, expressions).1, expected);
}

#[test]
fn names_stand_for_what_they_are_defined_as() {
    let mut scope = TestScope::new();
    let (library, problems) = compiled(
        &mut scope,
        &[("week", Constant::String("7d".to_owned())), ("limit", Constant::Integer(10))],
        &[
            ("busy", "lately > limit || from.seen() > 1000 * limit"),
            ("lately", "from.seen(week)"),
            ("fresh", "duration(week)"),
        ],
    );
    assert_eq!(problems, "");
    let condition = crate::compile("busy && subject.first_age() < fresh", &library, &mut scope).unwrap();
    let reads: Vec<&str> = condition.reads().iter().map(|read| read.text.as_str()).collect();
    assert_eq!(reads, ["from.seen('7d')", "from.seen()", "subject.first_age()"]);
    let written = "(from.seen('7d') > 10 || from.seen() > 1000 * 10) && subject.first_age() < duration('7d')";
    let written = crate::compile(written, &library, &mut scope).unwrap();
    assert_eq!(condition.cost(), written.cost());
}

#[test]
fn names_have_to_be_free_and_plain() {
    let one = || Constant::Integer(1);
    check(
        &[("from", one()), ("ip", one()), ("ratio", one()), ("if", one()), ("now", one()), ("a.b", one())],
        &[("1st", "true"), ("freemail", "mail.reply")],
        r"
from: `from` is a kind of keys
  = give it another name
ip: `ip` is a fact
  = give it another name
ratio: `ratio` is a function
  = give it another name
if: `if` is a reserved word
  = give it another name
now: `now` is a reserved word
  = give it another name
a.b: `a.b` is no name: it has 1 to 64 letters, digits and `_`
  = give it another name
1st: `1st` is no name: it has 1 to 64 letters, digits and `_`
  | true
  | ^
  = give it another name
freemail: `freemail` is defined twice, or there are more than 4096 definitions
  | mail.reply
  | ^
  = give it another name",
    );
}

#[test]
fn an_expression_is_checked_by_itself() {
    check(
        &[("limit", Constant::String("10".to_owned()))],
        &[("big", "mail.size > limit"), ("odd", "mail.sizes % 2 == 1"), ("late", "mail.size >")],
        r"
late: the condition ends too early
  | mail.size >
  |            ^
big: an integer is not compared with a string
  | mail.size > limit
  | ^^^^^^^^^^^^^^^^^
  = a number stands without quotes
odd: unknown name `mail.sizes`
  | mail.sizes % 2 == 1
  | ^^^^^^^^^^
  = did you mean `mail.size`?",
    );
    // Whoever uses what is wrong is not told of it again.
    let mut scope = TestScope::new();
    let (library, _) = compiled(&mut scope, &[], &[("big", "mail.sizes > 1")]);
    assert_eq!(crate::compile("big && mail.size > 7", &library, &mut scope).unwrap_err(), []);
}

#[test]
fn expressions_are_made_of_others_and_not_of_themselves() {
    check(
        &[],
        &[("a", "b > 1"), ("b", "mail.size + c"), ("c", "a ? 1 : 2"), ("d", "d")],
        r"
c: `c` is made of itself: a → b → c → a
  | a ? 1 : 2
  | ^
  = write out what it stands for
d: `d` is made of itself: d → d
  | d
  | ^
  = write out what it stands for",
    );
}

#[test]
fn expressions_cannot_grow_without_end() {
    let names: Vec<String> = (0..40).map(|index| format!("e{index}")).collect();
    let doubled: Vec<String> = (0..40)
        .map(|index| if index == 0 { "mail.size".to_owned() } else { format!("e{0} + e{0}", index - 1) })
        .collect();
    let expressions: Vec<(&str, &str)> =
        names.iter().map(String::as_str).zip(doubled.iter().map(String::as_str)).collect();
    let (_, problems) = compiled(&mut TestScope::new(), &[], &expressions);
    assert!(
        problems.starts_with("\ne11: with its expressions written out it has more than 4096 parts"),
        "{problems}"
    );
    let chain: Vec<String> = (0..40)
        .map(|index| if index == 0 { "mail.reply".to_owned() } else { format!("!(!(!(e{})))", index - 1) })
        .collect();
    let expressions: Vec<(&str, &str)> =
        names.iter().map(String::as_str).zip(chain.iter().map(String::as_str)).collect();
    let (_, problems) = compiled(&mut TestScope::new(), &[], &expressions);
    assert!(
        problems.starts_with("\ne33: with its expressions written out it nests more than 96 operators"),
        "{problems}"
    );
}
