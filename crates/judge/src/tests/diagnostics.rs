use super::{TestScope, compile};

/// The diagnostics of a condition, rendered.
fn rendered(source: &str) -> String {
    match compile(source, &mut TestScope::new()) {
        Ok(_) => "no diagnostic".to_owned(),
        Err(found) => found.iter().map(|found| found.render(source)).collect::<Vec<_>>().join("\n"),
    }
}

/// `expected` begins with a line break, for the eye.
#[track_caller]
fn check(source: &str, expected: &str) {
    assert_eq!(format!("\n{}", rendered(source)), expected, "{source}");
}

#[test]
fn bounds_hold_before_anything_recurses() {
    let check = |source: String, expected: &str| {
        let found = compile(&source, &mut TestScope::new()).unwrap_err();
        let messages: Vec<&str> = found.iter().map(|found| found.message.as_str()).collect();
        assert_eq!(messages, [expected]);
    };
    check(" ".repeat(16_385), "a condition is at most 16384 bytes long, this one is 16385");
    check(vec!["mail.reply"; 400].join("&&"), "a condition has at most 1024 words and signs");
    let deep = "brackets and `?` nest at most 32 deep";
    check(format!("{}true{}", "(".repeat(33), ")".repeat(33)), deep);
    check(format!("{}true", "mail.reply ? true : ".repeat(33)), deep);
    check(format!("{}1 > 0", "(".repeat(1000)), deep);
    let operators = "the condition nests more than 64 operators";
    check(format!("{} > 1", vec!["mail.size"; 66].join(" + ")), operators);
    check(format!("mail{} > 1", ".size".repeat(300)), operators);
    check(vec!["mail.subject.matches('a')"; 60].join(" && "), "the condition costs more than 2000");
    let most = format!("{}mail.reply{}", "!(".repeat(32), ")".repeat(32));
    assert!(compile(&most, &mut TestScope::new()).is_ok());
}

#[test]
fn nested_choices_of_which_one_is_left_are_looked_at_once() {
    let mut source = "mail.size > 9".to_owned();
    for _ in 0..30 {
        source = format!("(mail.size < 5 || {source})");
    }
    // In a time that doubles with each bracket this would not end.
    assert!(compile(&format!("mail.size > 7 && {source}"), &mut TestScope::new()).is_ok());
}

#[test]
fn twenty_diagnostics_are_enough() {
    // Warnings take no room from an error.
    let source = format!("{} && nix", vec!["mail.from in nothing"; 40].join(" && "));
    let found = compile(&source, &mut TestScope::new()).unwrap_err();
    assert_eq!((found.len(), found[19].message.as_str()), (20, "unknown name `nix`"));
    for source in [vec!["nix"; 100].join(" && "), "$".repeat(100), vec!["mail.links[0]"; 100].join(" && ")] {
        assert_eq!(compile(&source, &mut TestScope::new()).unwrap_err().len(), 20, "{source}");
    }
}

#[test]
fn signs_and_words() {
    check(
        "a = 1",
        r"
`=` is no operator
  | a = 1
  |   ^
  = values are compared with `==`",
    );
    check(
        "mail.size = 1",
        r"
`=` is no operator
  | mail.size = 1
  |           ^
  = values are compared with `==`",
    );
    check(
        "mail.reply & true",
        r"
`&` is no operator
  | mail.reply & true
  |            ^
  = write `&&`",
    );
    check(
        "'abc",
        r"
the text is never closed
  | 'abc
  | ^^^^",
    );
    check(
        "mail.subject == “x”",
        r"
unexpected character `“`
  | mail.subject == “x”
  |                 ^
  = text stands in straight quotes: `'text'`
unexpected character `”`
  | mail.subject == “x”
  |                   ^
  = text stands in straight quotes: `'text'`",
    );
    check(
        r"'\d'",
        r"
`\\d` is no escape
  | '\d'
  |  ^^
  = a backslash is written `\\`, or as it is in a raw text: `r'\d'`",
    );
    check(
        "mail.size > 10m",
        r"
`10m` is no number
  | mail.size > 10m
  |             ^^^
  = a length of time is `duration('10m')`",
    );
    check(
        "mail.size > 99999999999999999999",
        r"
the number does not fit in 64 bits
  | mail.size > 99999999999999999999
  |             ^^^^^^^^^^^^^^^^^^^^",
    );
    check(
        "mail.size > 9223372036854775808",
        r"
the number does not fit in 64 bits
  | mail.size > 9223372036854775808
  |             ^^^^^^^^^^^^^^^^^^^",
    );
    check(
        "if mail.reply",
        r"
`if` is a reserved word
  | if mail.reply
  | ^^
  = a choice is written `condition ? value : other`",
    );
    check(
        "(mail.size > 1",
        r"
`(` is never closed
  | (mail.size > 1
  | ^",
    );
    check(
        "mail.size > 1)",
        r"
`)` closes nothing
  | mail.size > 1)
  |              ^",
    );
    check(
        "(mail.size > 1]",
        r"
`(` is closed by `]`
  | (mail.size > 1]
  |               ^",
    );
    check(
        "",
        r"
the condition is empty
  = a condition that always holds is `true`",
    );
    check(
        "// nothing",
        r"
the condition is empty
  | // nothing
  | ^
  = a condition that always holds is `true`",
    );
}

#[test]
fn order_of_words() {
    check(
        "mail.size >",
        r"
the condition ends too early
  | mail.size >
  |            ^",
    );
    check(
        "mail.size > 1 and mail.reply",
        r"
unexpected `and`
  | mail.size > 1 and mail.reply
  |               ^^^
  = write `&&`",
    );
    check(
        "not mail.reply",
        r"
unexpected `not`
  | not mail.reply
  | ^^^
  = write `!`",
    );
    check(
        "mail.size <> 1",
        r"
unexpected `>`
  | mail.size <> 1
  |            ^
  = write `!=`",
    );
    check(
        "mail.size 1",
        r"
unexpected `1`
  | mail.size 1
  |           ^",
    );
    check(
        "ratio(,)",
        r"
unexpected `,`
  | ratio(,)
  |       ^",
    );
    check(
        "mail.size > 1\n&& mail.subject == == 'é'",
        r"
unexpected `==`
  | && mail.subject == == 'é'
  |                    ^^",
    );
    check(
        "`a`",
        r"
unexpected backquote
  | `a`
  | ^
unexpected backquote
  | `a`
  |   ^",
    );
    check(
        "mail.`b`",
        r"
unexpected backquote
  | mail.`b`
  |      ^
unexpected backquote
  | mail.`b`
  |        ^",
    );
    check(
        "mail.?subject == 'a'",
        r"
rules have no optional fields
  | mail.?subject == 'a'
  | ^^^^^^^^^^^^^
  = a missing value is replaced with `mail.subject.or('')`",
    );
}

#[test]
fn values_of_an_aggregate() {
    for source in [
        "user.count() > 3",
        "user.sum() < 0 || user.min() < -5 || user.max() != 7",
        "user.decayed('1h') >= 2.5",
        "user.sum() / user.count() > 100",
        "user.first_age() < duration('1d') && user.last_age() > duration('1h')",
    ] {
        assert_eq!(rendered(source), "no diagnostic", "{source}");
    }
    check(
        "user.count('1h') > 1",
        r"
`count` takes no argument
  | user.count('1h') > 1
  | ^^^^^^^^^^^^^^^^
  = an aggregate has no windows: write `user.count()`",
    );
    check(
        "user.decayed() > 1",
        r"
`decayed` takes one half-life, not 0
  | user.decayed() > 1
  | ^^^^^^^^^^^^^^
  = write it as in `user.decayed('1h')`",
    );
    check(
        "user.decayed('2h') > 1",
        r"
the aggregate keeps the half-life 1h
  | user.decayed('2h') > 1
  |              ^^^^",
    );
    check(
        "user.decayed('0s') > 1",
        r"
a half-life is longer than 0
  | user.decayed('0s') > 1
  |              ^^^^
  = write it as in `'1h'`",
    );
    check(
        "user.cuont() > 1 && user.seen('1h') > 1",
        r"
`user` has an aggregate and no counter `cuont`
  | user.cuont() > 1 && user.seen('1h') > 1
  |      ^^^^^
  = did you mean `count`?
`user` has an aggregate and no counter `seen`
  | user.cuont() > 1 && user.seen('1h') > 1
  |                          ^^^^
  = it has `count`, `decayed`, `max`, `min`, `sum`",
    );
    check(
        "ratio(user.sum(), user.count()) > 1",
        r"
`ratio` takes counters, and `user` has an aggregate
  | ratio(user.sum(), user.count()) > 1
  |       ^^^^^^^^^^
  = divide its values with `/`: `user.sum() / user.count()`
`ratio` takes counters, and `user` has an aggregate
  | ratio(user.sum(), user.count()) > 1
  |                   ^^^^^^^^^^^^
  = divide its values with `/`: `user.sum() / user.count()`",
    );
    check(
        "user.count() < 0",
        r"
this is always false
  | user.count() < 0
  | ^^^^^^^^^^^^^^^^
  = counts, sizes, ages and ratios are never below 0; `has(...)` asks if there is one",
    );
}

#[test]
fn names_and_counters() {
    check(
        "mail.subjet == 'a'",
        r"
unknown name `mail.subjet`
  | mail.subjet == 'a'
  | ^^^^^^^^^^^
  = did you mean `mail.subject`?",
    );
    check(
        "fom.seen('1h') > 1",
        r"
unknown kind `fom`
  | fom.seen('1h') > 1
  | ^^^
  = did you mean `from`?",
    );
    check(
        "from > 1",
        r"
`from` is a kind of keys, not a value
  | from > 1
  | ^^^^
  = read a counter of it: `from.seen('1h')`",
    );
    check(
        "from.sen('1h') > 1",
        r"
unknown counter `sen`
  | from.sen('1h') > 1
  |      ^^^
  = did you mean `seen`?",
    );
    check(
        "from.zzzzzz('1h') > 1",
        r"
unknown counter `zzzzzz`
  | from.zzzzzz('1h') > 1
  |      ^^^^^^
  = it has `seen`, `spam`, `ham`, `complaint`",
    );
    check(
        "from.seen('15d') > 1",
        r"
the longest window kept is 14d
  | from.seen('15d') > 1
  |           ^^^^^",
    );
    check(
        "from.seen('1x') > 1",
        r"
`1x` is no length of time
  | from.seen('1x') > 1
  |           ^^^^
  = expected a length of time such as `90s`, `10m`, `1h30m`, `14d` or `250ms`",
    );
    check(
        "from.seen('0s') > 1",
        r"
a window is longer than 0
  | from.seen('0s') > 1
  |           ^^^^
  = write it as in `'1h'`",
    );
    check(
        "from.seen(1) > 1",
        r"
a length of time is a text in quotes
  | from.seen(1) > 1
  |           ^
  = write it out: `from.seen('1h')`",
    );
    check(
        "from.seen('1h', '2h') > 1",
        r"
a counter takes one window, not 2
  | from.seen('1h', '2h') > 1
  | ^^^^^^^^^^^^^^^^^^^^^
  = write it as in `from.seen('1h')`",
    );
}

#[test]
fn conditions() {
    check(
        "from.seen('1h') + 1",
        r"
a condition is true or false, this is an integer
  | from.seen('1h') + 1
  | ^^^^^^^^^^^^^^^^^^^
  = compare it, as in `... > 10`",
    );
    check(
        "mail.subject",
        r"
a condition is true or false, this is a string
  | mail.subject
  | ^^^^^^^^^^^^
  = compare it, as in `... == 'a'`",
    );
    check(
        "subject.first_age()",
        r"
a condition is true or false, this is a duration
  | subject.first_age()
  | ^^^^^^^^^^^^^^^^^^^
  = compare it, as in `... < duration('1d')`",
    );
    check(
        "subject.last_age() > duration('1d')",
        r"
`subject` does not keep when it was last seen
  | subject.last_age() > duration('1d')
  | ^^^^^^^^^^^^^^^^^^",
    );
    check(
        "from.first_age('1d') > duration('1d')",
        r"
`first_age` takes no argument
  | from.first_age('1d') > duration('1d')
  | ^^^^^^^^^^^^^^^^^^^^
  = write `from.first_age()`",
    );
}

#[test]
fn comparisons() {
    check(
        "mail.subject > 1",
        r"
a string is not compared with an integer
  | mail.subject > 1
  | ^^^^^^^^^^^^^^^^",
    );
    check(
        "mail.subject == mail.links",
        r"
a string is not compared with a list
  | mail.subject == mail.links
  | ^^^^^^^^^^^^^^^^^^^^^^^^^^
  = an item is sought with `'a' in mail.links`",
    );
    check(
        "mail.size == '7'",
        r"
an integer is not compared with a string
  | mail.size == '7'
  | ^^^^^^^^^^^^^^^^
  = a number stands without quotes",
    );
    check(
        "subject.first_age() < '1d'",
        r"
a duration is not compared with a string
  | subject.first_age() < '1d'
  | ^^^^^^^^^^^^^^^^^^^^^^^^^^
  = a length of time is written `duration('1d')`",
    );
    check(
        "subject.first_age() < 86400",
        r"
a duration is not compared with an integer
  | subject.first_age() < 86400
  | ^^^^^^^^^^^^^^^^^^^^^^^^^^^
  = a length of time is written `duration('1d')`",
    );
    check(
        "now > '2026-05-17'",
        r"
a time is not compared with a string
  | now > '2026-05-17'
  | ^^^^^^^^^^^^^^^^^^
  = a point in time is written `timestamp('2026-05-17T10:05:03Z')`",
    );
    check(
        "now > duration('1d')",
        r"
a time is not compared with a duration
  | now > duration('1d')
  | ^^^^^^^^^^^^^^^^^^^^
  = `now - time` is a duration",
    );
    check(
        "conn.ip == '10.0.0.0/8'",
        r"
an ip is not compared with a string
  | conn.ip == '10.0.0.0/8'
  | ^^^^^^^^^^^^^^^^^^^^^^^
  = an address is compared with one written out: `'192.0.2.7'`",
    );
    check(
        "conn.ip < ip",
        r"
values of type ip have no order
  | conn.ip < ip
  | ^^^^^^^^^^^^",
    );
    check(
        "mail.links == mail.links",
        r"
values of type list are not compared
  | mail.links == mail.links
  | ^^^^^^^^^^^^^^^^^^^^^^^^",
    );
    check(
        "mail.size > 1 && mail.size || mail.subject",
        r"
`&&` takes a bool, not an integer
  | mail.size > 1 && mail.size || mail.subject
  |                  ^^^^^^^^^
  = compare it, as in `... > 0`
`||` takes a bool, not a string
  | mail.size > 1 && mail.size || mail.subject
  |                               ^^^^^^^^^^^^
  = compare it, as in `... != ''`, or ask with `has(...)`",
    );
    check(
        "!mail.size",
        r"
`!` takes a bool, not an integer
  | !mail.size
  |  ^^^^^^^^^
  = compare it, as in `... > 0`",
    );
    check(
        "-mail.subject == 'a'",
        r"
`-` takes a number, not a string
  | -mail.subject == 'a'
  | ^^^^^^^^^^^^^",
    );
}

#[test]
fn texts_that_are_made() {
    check(
        "mail.subject.split('') == 'a'",
        r"
the separator is empty
  | mail.subject.split('') == 'a'
  |                    ^^
  = give the text between the parts, as in `mail.subject.split(' ')`",
    );
    check(
        "mail.subject.split(mail.from)[0] == 'a'",
        r"
a separator is a text in quotes
  | mail.subject.split(mail.from)[0] == 'a'
  |                    ^^^^^^^^^
  = write it out: `mail.subject.split(' ')`",
    );
    check(
        "mail.subject.join(' ') == 'a'",
        r"
`join` takes a list, not a string
  | mail.subject.join(' ') == 'a'
  | ^^^^^^^^^^^^
  = texts are joined with `+`",
    );
    check(
        "mail.subject.substring(-1) == 'a'",
        r"
characters are counted from 0
  | mail.subject.substring(-1) == 'a'
  |                        ^^
  = `size(...)` is the number of all of them",
    );
    check(
        "regex.replace(mail.subject, 'a') == 'a'",
        r"
`regex.replace` does not take 2 arguments
  | regex.replace(mail.subject, 'a') == 'a'
  | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  = write it as in `regex.replace(mail.subject, '[0-9]+', '0')`",
    );
    check(
        "registrable(mail.from) == 'a'",
        r"
`registrable` is not known here
  | registrable(mail.from) == 'a'
  | ^^^^^^^^^^^^^^^^^^^^^^
  = leave it out",
    );
    check(
        "string(mail.links) == 'a'",
        r"
`string` does not take a list
  | string(mail.links) == 'a'
  |        ^^^^^^^^^^
  = it prints numbers, bools, times and addresses; a list is joined: `mail.links.join(' ')`",
    );
}

#[test]
fn tables() {
    check(
        "lookup('place', conn.ip) == 'home'",
        r"
there is no table `place`
  | lookup('place', conn.ip) == 'home'
  |        ^^^^^^^
  = did you mean `places`?",
    );
    check(
        "lookup('places', mail.from) == 'home'",
        r"
the keys of the table `places` are addresses and networks, this is a string
  | lookup('places', mail.from) == 'home'
  |                  ^^^^^^^^^
  = `ip(...)` reads an address",
    );
    check(
        "conn.ip in owners",
        r"
the keys of the table `owners` are domain names, this is an ip
  | conn.ip in owners
  | ^^^^^^^
  = `string(...)` prints an address",
    );
    check(
        "lookup(places, conn.ip) == 'home'",
        r"
a table is named in quotes
  | lookup(places, conn.ip) == 'home'
  |        ^^^^^^
  = write it out: `lookup('table', mail.from)`",
    );
    check(
        "places == 'home'",
        r"
`places` is a table, not a value
  | places == 'home'
  | ^^^^^^
  = look a value up in it: `lookup('places', mail.from)`",
    );
}

#[test]
fn arithmetic() {
    check(
        "mail.subject + mail.size == 'a'",
        r"
`+` does not take a string and an integer
  | mail.subject + mail.size == 'a'
  | ^^^^^^^^^^^^^^^^^^^^^^^^",
    );
    check(
        "mail.subject * 2 == 'a'",
        r"
`*` does not take a string and an integer
  | mail.subject * 2 == 'a'
  | ^^^^^^^^^^^^^^^^",
    );
    check(
        "mail.html % 2 == 1",
        r"
`%` does not take a float and an integer
  | mail.html % 2 == 1
  | ^^^^^^^^^^^^^",
    );
    check(
        "mail.size / 0 > 1",
        r"
division by zero
  | mail.size / 0 > 1
  |             ^
  = the result would always be missing",
    );
    check(
        "mail.size % 0 > 1",
        r"
division by zero
  | mail.size % 0 > 1
  |             ^
  = the result would always be missing",
    );
    check(
        "mail.size / 0.0 > 1",
        r"
division by zero
  | mail.size / 0.0 > 1
  |             ^^^
  = the result would always be missing",
    );
}

#[test]
fn what_never_changes() {
    check(
        "1 < 2",
        r"
this is always true
  | 1 < 2
  | ^^^^^
  = both sides are constants",
    );
    check(
        "'a' == 'b'",
        r"
this is always false
  | 'a' == 'b'
  | ^^^^^^^^^^
  = both sides are constants",
    );
    check(
        "from.seen('1h') < 0",
        r"
this is always false
  | from.seen('1h') < 0
  | ^^^^^^^^^^^^^^^^^^^
  = counts, sizes, ages and ratios are never below 0; `has(...)` asks if there is one",
    );
    check(
        "from.seen('1h') >= 0",
        r"
this is always true
  | from.seen('1h') >= 0
  | ^^^^^^^^^^^^^^^^^^^^
  = counts, sizes, ages and ratios are never below 0; `has(...)` asks if there is one",
    );
    check(
        "mail.links.size() == -1",
        r"
this is always false
  | mail.links.size() == -1
  | ^^^^^^^^^^^^^^^^^^^^^^^
  = counts, sizes, ages and ratios are never below 0; `has(...)` asks if there is one",
    );
    check(
        "from.seen('1h') + 5 > 3",
        r"
this is always true
  | from.seen('1h') + 5 > 3
  | ^^^^^^^^^^^^^^^^^^^^^^^
  = counts, sizes, ages and ratios are never below 0; `has(...)` asks if there is one",
    );
}

#[test]
fn lists() {
    check(
        "mail.size in []",
        r"
this is always false
  | mail.size in []
  | ^^^^^^^^^^^^^^^
  = the list is empty",
    );
    check(
        "mail.size in [1, 'a']",
        r"
an integer is sought, this is a string
  | mail.size in [1, 'a']
  |                  ^^^",
    );
    check(
        "mail.subject in ['a', mail.from]",
        r"
the list holds something that is no constant
  | mail.subject in ['a', mail.from]
  |                       ^^^^^^^^^
  = compare with it by `==`",
    );
    check(
        "mail.reply in [true]",
        r"
`in` does not seek a bool
  | mail.reply in [true]
  | ^^^^^^^^^^
  = it seeks strings, numbers and addresses",
    );
    check(
        "mail.subject in mail.from",
        r"
`in` takes a list, not a string
  | mail.subject in mail.from
  |                 ^^^^^^^^^
  = a text is searched with `text.contains('a')`",
    );
    check(
        "mail.size in mail.links",
        r"
a list holds strings, not an integer
  | mail.size in mail.links
  | ^^^^^^^^^",
    );
    check(
        "mail.size in 7",
        r"
`in` takes a list, not an integer
  | mail.size in 7
  |              ^
  = write `x in ['a', 'b']`",
    );
    check(
        "[1, 2]",
        r"
a list has no place here
  | [1, 2]
  | ^^^^^^
  = a list of constants stands to the right of `in`",
    );
}

#[test]
fn what_cel_has_and_rules_have_not() {
    check(
        "mail.links.exists(x, x == 'a')",
        r"
rules have no loops, so no `exists`
  | mail.links.exists(x, x == 'a')
  | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  = one item is sought with `'a' in mail.links`",
    );
    check(
        "mail.links.map(x, x + 1)",
        r"
rules have no loops, so no `map`
  | mail.links.map(x, x + 1)
  | ^^^^^^^^^^^^^^^^^^^^^^^^
  = one item is sought with `'a' in mail.links`",
    );
    check(
        "mail.links[mail.size] == 'a'",
        r"
the place of an item is a whole number
  | mail.links[mail.size] == 'a'
  |            ^^^^^^^^^
  = write it out: `mail.links[0]` is the first item, `mail.links[-1]` the last",
    );
    check(
        "mail.links[?0] == 'a'",
        r"
rules have no optional items
  | mail.links[?0] == 'a'
  | ^^^^^^^^^^^^^^
  = an item that is not there is missing: write `mail.links[0]`",
    );
    check(
        "mail.subject[0] == 'a'",
        r"
a string has no items
  | mail.subject[0] == 'a'
  | ^^^^^^^^^^^^
  = a text is cut with `split` or `substring`: `mail.subject.split(' ')[0]`",
    );
    check(
        "mail.subject in [?'a']",
        r"
rules have no optional items
  | mail.subject in [?'a']
  |                 ^^^^^^
  = write the items without `?`",
    );
    check(
        "{'a': 1} == 1",
        r"
rules have no maps
  | {'a': 1} == 1
  | ^^^^^^^^
  = values are tested with `in` and a list: `x in ['a', 'b']`",
    );
    check(
        "Foo{a: 1} == 1",
        r"
rules have no messages
  | Foo{a: 1} == 1
  |    ^^^^^^
  = facts are dotted names: `mail.subject`",
    );
    check(
        "null == mail.subject",
        r"
rules have no null
  | null == mail.subject
  | ^^^^
  = ask with `has(mail.subject)`",
    );
    check(
        "b'x' == mail.subject",
        r"
rules have no bytes
  | b'x' == mail.subject
  | ^^^^
  = write a text without `b`",
    );
    check(
        ".mail.size > 1",
        r"
a name does not start with a dot
  | .mail.size > 1
  |  ^^^^
  = write the fact's whole name",
    );
    check(
        "('a').b == 1",
        r"
only names have fields
  | ('a').b == 1
  | ^^^^^^^
  = facts are dotted names: `mail.subject`",
    );
}

#[test]
fn functions_and_methods() {
    check(
        "sizee(mail.links) > 1",
        r"
unknown function `sizee`
  | sizee(mail.links) > 1
  | ^^^^^
  = did you mean `size`?",
    );
    check(
        "contains(mail.subject, 'a')",
        r"
unknown function `contains`
  | contains(mail.subject, 'a')
  | ^^^^^^^^
  = it follows a value and a dot: `mail.subject.contains(...)`",
    );
    check(
        "mail.subject.contain('a')",
        r"
unknown method `contain`
  | mail.subject.contain('a')
  |              ^^^^^^^
  = did you mean `contains`?",
    );
    check(
        "mail.subject.lowerAscii() == 'a'",
        r"
unknown method `lowerAscii`
  | mail.subject.lowerAscii() == 'a'
  |              ^^^^^^^^^^
  = letters of either case match with `.matches('(?i)...')`",
    );
    check(
        "mail.subject.first_age() < duration('1d')",
        r"
unknown method `first_age`
  | mail.subject.first_age() < duration('1d')
  |              ^^^^^^^^^
  = ages are read of kinds, not of facts",
    );
    check(
        "mail.subject.contains(1)",
        r"
`contains` takes a string, not an integer
  | mail.subject.contains(1)
  |                       ^",
    );
    check(
        "mail.links.contains('a')",
        r"
`contains` takes a string, not a list
  | mail.links.contains('a')
  | ^^^^^^^^^^
  = an item is sought with `'a' in mail.links`",
    );
    check(
        "mail.subject.contains()",
        r"
`contains` does not take 0 arguments
  | mail.subject.contains()
  | ^^^^^^^^^^^^^^^^^^^^^^^
  = write it as in `mail.subject.contains('a')`",
    );
    check(
        "mail.subject.matches('(')",
        r"
the regular expression cannot be read
  | mail.subject.matches('(')
  |                      ^^^
  = unclosed group",
    );
    check(
        r"mail.subject.matches(r'\w{900}')",
        r"
the regular expression is too large
  | mail.subject.matches(r'\w{900}')
  |                      ^^^^^^^^^^
  = repeat less, or use `[0-9]` and `(?-u:\w)` instead of Unicode classes",
    );
    check(
        "mail.subject.matches(mail.from)",
        r"
a regular expression is a text in quotes
  | mail.subject.matches(mail.from)
  |                      ^^^^^^^^^
  = write it out: `.matches(r'^re:\s')`",
    );
    check(
        "has(1 + 1)",
        r"
`has` takes a fact or a reading
  | has(1 + 1)
  |     ^^^^^
  = write it as in `has(mail.subject)` or `has(from.seen('1h'))`",
    );
    check(
        "has()",
        r"
`has` does not take 0 arguments
  | has()
  | ^^^^^
  = write it as in `has(mail.subject)`",
    );
    check(
        "size(mail.size) > 1",
        r"
an integer has no size
  | size(mail.size) > 1
  |      ^^^^^^^^^
  = texts, lists and bytes have one",
    );
    check(
        "duration('1 day') < now - mail.date",
        r"
`1 day` is no length of time
  | duration('1 day') < now - mail.date
  |          ^^^^^^^
  = expected a length of time such as `90s`, `10m`, `1h30m`, `14d` or `250ms`",
    );
    check(
        "duration(mail.size) < now - mail.date",
        r"
a length of time is a text in quotes
  | duration(mail.size) < now - mail.date
  |          ^^^^^^^^^
  = write it out: `duration('1d')`",
    );
    check(
        "timestamp('x') < now",
        r"
`x` is no point in time
  | timestamp('x') < now
  |           ^^^
  = expected a time such as `2026-05-17T10:05:03Z`, or seconds since 1970 such as `1431857103.5`",
    );
    check(
        "double('a') > 1.0",
        r"
`double` takes a number, not a string
  | double('a') > 1.0
  |        ^^^",
    );
    check(
        "int('a') > 1",
        r"
`int` takes a number, not a string
  | int('a') > 1
  |     ^^^",
    );
    check(
        "mail.subject.or(1) == 'a'",
        r"
`or` replaces a string with an integer
  | mail.subject.or(1) == 'a'
  | ^^^^^^^^^^^^^^^^^^",
    );
    check(
        "mail.links.or('a') == 'a'",
        r"
`or` replaces a list with a string
  | mail.links.or('a') == 'a'
  | ^^^^^^^^^^^^^^^^^^
  = an item is sought with `'a' in mail.links`",
    );
    check(
        "mail.reply ? 1 : 'a'",
        r"
`?` chooses between an integer and a string
  | mail.reply ? 1 : 'a'
  | ^^^^^^^^^^^^^^^^^^^^
  = both choices have one type",
    );
    check(
        "mail.reply ? mail.links : mail.links",
        r"
`?` does not choose between values of type list
  | mail.reply ? mail.links : mail.links
  | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^",
    );
}

#[test]
fn last_values() {
    check(
        "last('contry') == 'DE'",
        r"
no last value is called `contry`
  | last('contry') == 'DE'
  | ^^^^^^^^^^^^^^",
    );
    check(
        "last(country) == 'DE'",
        r"
a name in quotes belongs here
  | last(country) == 'DE'
  |      ^^^^^^^
  = write it as in `last('country')`",
    );
    check(
        "last('country', '1d') == 'DE'",
        r"
`last` does not take 2 arguments
  | last('country', '1d') == 'DE'
  | ^^^^^^^^^^^^^^^^^^^^^
  = write it as in `last('country')`",
    );
}

#[test]
fn distinct_and_ratio() {
    check(
        "distinct('rcptz', '1d') > 1",
        r"
unknown distinct statistic `rcptz`
  | distinct('rcptz', '1d') > 1
  |          ^^^^^^^
  = did you mean `rcpts`?",
    );
    check(
        "distinct('rcpts', '30d') > 1",
        r"
the longest window kept is 14d
  | distinct('rcpts', '30d') > 1
  |                   ^^^^^",
    );
    check(
        "distinct(rcpts, '1d') > 1",
        r"
a distinct statistic is named in quotes
  | distinct(rcpts, '1d') > 1
  |          ^^^^^
  = write it as in `distinct('rcpts', '1d')`",
    );
    check(
        "ratio(mail.size, mail.parts) > 0.5",
        r"
`ratio` takes counters of a kind
  | ratio(mail.size, mail.parts) > 0.5
  |       ^^^^^^^^^
  = divide other numbers with `/`; a ratio is `ratio(from.spam('1d'), from.seen('1d'), 20)`
`ratio` takes counters of a kind
  | ratio(mail.size, mail.parts) > 0.5
  |                  ^^^^^^^^^^
  = divide other numbers with `/`; a ratio is `ratio(from.spam('1d'), from.seen('1d'), 20)`",
    );
    check(
        "ratio(from.spam('1d'), ip.seen('1d')) > 0.5",
        r"
`ratio` divides counters of one kind, not of `from` by `ip`
  | ratio(from.spam('1d'), ip.seen('1d')) > 0.5
  | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  = divide what is unlike with `/`",
    );
    check(
        "ratio(from.spam('1d') + from.ham('2d'), from.seen('1d')) > 0.5",
        r"
`ratio` adds counters of one kind over one window
  | ratio(from.spam('1d') + from.ham('2d'), from.seen('1d')) > 0.5
  |       ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  = what differs is added up outside of `ratio`",
    );
    check(
        "ratio(from.spam('1d'), from.sen('1d')) > 0.5",
        r"
unknown counter `sen`
  | ratio(from.spam('1d'), from.sen('1d')) > 0.5
  |                             ^^^
  = did you mean `seen`?",
    );
    check(
        "ratio(from.spam('1d'), fom.seen('1d')) > 0.5",
        r"
unknown kind `fom`
  | ratio(from.spam('1d'), fom.seen('1d')) > 0.5
  |                        ^^^
  = did you mean `from`?",
    );
    check(
        "ratio(from.spam('1d'), from.seen('1d'), 0) > 0.5",
        r"
the least denominator is a whole number from 1
  | ratio(from.spam('1d'), from.seen('1d'), 0) > 0.5
  |                                         ^
  = below it the ratio is 0: `ratio(from.spam('1d'), from.seen('1d'), 20)`",
    );
    check(
        "ratio(from.spam('1d')) > 0.5",
        r"
`ratio` does not take 1 argument
  | ratio(from.spam('1d')) > 0.5
  | ^^^^^^^^^^^^^^^^^^^^^^
  = write it as in `ratio(from.spam('1d'), from.seen('1d'), 20)`",
    );
}

#[test]
fn all_mistakes_are_found() {
    check(
        "mail.subjet == 'a' && fom.seen('1h') > 'x' || mail.size / 0 > 1",
        r"
unknown name `mail.subjet`
  | mail.subjet == 'a' && fom.seen('1h') > 'x' || mail.size / 0 > 1
  | ^^^^^^^^^^^
  = did you mean `mail.subject`?
unknown kind `fom`
  | mail.subjet == 'a' && fom.seen('1h') > 'x' || mail.size / 0 > 1
  |                       ^^^
  = did you mean `from`?
division by zero
  | mail.subjet == 'a' && fom.seen('1h') > 'x' || mail.size / 0 > 1
  |                                                           ^
  = the result would always be missing",
    );
}

#[test]
fn grades_are_compared_with_grades() {
    let check = |source: &str, expected: Option<&str>| {
        let found = compile(source, &mut TestScope::new()).err().unwrap_or_default();
        assert_eq!(found.first().map(|found| found.message.as_str()), expected, "{source}");
    };
    check("grade('account') == 'bad'", None);
    check("'trusted' != grade('account')", None);
    check("grade('account') == mail.subject", None);
    check("mail.subject == 'baad'", None);
    check("grade('account') == 'baad'", Some("no grade is called `baad`"));
    check("'Bad' == grade('account')", Some("no grade is called `Bad`"));
    check("grade('account') in ['bad', 'worse']", Some("no grade is called `worse`"));
    check("grade('account') < 'known'", Some("grades have no order here"));
    check("reputation('nobody') < 0.0", Some("there is no reputation `nobody`"));
    check("reputation('account', '1d') < 0.0", Some("`reputation` does not take 2 arguments"));
    check("evidence('account') < 0.0", Some("this is always false"));
    assert!(
        crate::GRADES.into_iter().all(|grade| compile(
            &format!("grade('account') == '{grade}'"),
            &mut TestScope::new()
        )
        .is_ok())
    );
}
