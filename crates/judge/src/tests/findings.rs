//! Findings about a condition beside its syntax and types: every diagnostic of bounds, sets, clocks, rates, qualities and
//! definitions, as people see it. None where a condition is as it should be. Nothing at all where a condition is as it
//! should be.

use super::{TestScope, compile};

/// Checks the diagnostics of a condition, refused or not; each begins with a line break, for the eye.
#[track_caller]
fn check(source: &str, expected: &str) {
    let found = match compile(source, &mut TestScope::new()) {
        Ok(condition) => condition.warnings().to_vec(),
        Err(found) => found,
    };
    let told: String = found.iter().map(|found| format!("\n{}", found.render(source))).collect();
    assert_eq!(told, expected, "{source}");
}

#[test]
fn divisions_by_what_may_be_zero() {
    check(
        "mail.size / mail.parts > 2",
        r"
warning: this may be zero: then the result is missing, and what depends on it does not hold
  | mail.size / mail.parts > 2
  |             ^^^^^^^^^^
  = ask for it first, as in `b > 0 && a / b > 2`, give a value with `(a / b).or(0.0)`, or use `ratio`",
    );
    check(
        "from.spam('1d') / from.seen('1d') >= 0.9",
        r"
warning: this may be zero: then the result is missing, and what depends on it does not hold
  | from.spam('1d') / from.seen('1d') >= 0.9
  |                   ^^^^^^^^^^^^^^^
  = ask for it first, as in `b > 0 && a / b > 2`, give a value with `(a / b).or(0.0)`, or use `ratio`",
    );
    check(
        "mail.size % size(mail.links) == 1",
        r"
warning: this may be zero: then the result is missing, and what depends on it does not hold
  | mail.size % size(mail.links) == 1
  |             ^^^^^^^^^^^^^^^^
  = ask for it first, as in `b > 0 && a / b > 2`, give a value with `(a / b).or(0.0)`, or use `ratio`",
    );
    check("mail.parts > 0 && mail.size / mail.parts > 2", "");
    check("mail.size / mail.parts > 2 && mail.parts != 0", "");
    check("mail.parts == 0 || mail.size / mail.parts > 2", "");
    check("(mail.parts > 0 ? mail.size / mail.parts : 0.0) > 2", "");
    check(
        "(mail.parts > 0 ? 0.0 : mail.size / mail.parts) > 2",
        r"
warning: this may be zero: then the result is missing, and what depends on it does not hold
  | (mail.parts > 0 ? 0.0 : mail.size / mail.parts) > 2
  |                                     ^^^^^^^^^^
  = ask for it first, as in `b > 0 && a / b > 2`, give a value with `(a / b).or(0.0)`, or use `ratio`",
    );
    check("(mail.size / mail.parts).or(0.0) > 2", "");
    check("mail.size / (from.seen('1h') + 1) > 2", "");
    check("from.seen('1h') > 0 && mail.size / (from.seen('1h') + from.spam('1h')) > 2", "");
    check("mail.parts > 0 && (mail.reply || mail.size / mail.parts > 2)", "");
    check(
        "spam_share > 0.9 && mail.reply",
        r"
warning: this may be zero: then the result is missing, and what depends on it does not hold
  | spam_share > 0.9 && mail.reply
  | ^^^^^^^^^^
  = ask for it first, as in `b > 0 && a / b > 2`, give a value with `(a / b).or(0.0)`, or use `ratio`",
    );
    check("from.seen('1d') >= 20 && spam_share > 0.9", "");
    check(
        "mail.html / (now.getHours() - 12) > 1",
        r"
warning: this may be zero: then the result is missing, and what depends on it does not hold
  | mail.html / (now.getHours() - 12) > 1
  |              ^^^^^^^^^^^^^^^^^^^
  = ask for it first, as in `b > 0 && a / b > 2`, give a value with `(a / b).or(0.0)`, or use `ratio`",
    );
    check("mail.html / (now.getDate()) > 1", "");
}

#[test]
fn parts_that_cannot_hold_together() {
    check(
        "mail.size > 5 && mail.reply && mail.size < 3",
        r"
this is never true
  | mail.size > 5 && mail.reply && mail.size < 3
  |                                ^^^^^^^^^^^^^
  = not beside `mail.size > 5`",
    );
    check(
        "mail.size > 5 && mail.size < 6",
        r"
this is never true
  | mail.size > 5 && mail.size < 6
  |                  ^^^^^^^^^^^^^
  = not beside `mail.size > 5`",
    );
    check(
        "mail.html > 0.5 && mail.html <= 0.5",
        r"
this is never true
  | mail.html > 0.5 && mail.html <= 0.5
  |                    ^^^^^^^^^^^^^^^^
  = not beside `mail.html > 0.5`",
    );
    check(
        "mail.subject == 'a' && mail.subject == 'b'",
        r"
this is never true
  | mail.subject == 'a' && mail.subject == 'b'
  |                        ^^^^^^^^^^^^^^^^^^^
  = not beside `mail.subject == 'a'`",
    );
    check(
        "mail.subject in ['a', 'b'] && mail.subject != 'a' && mail.subject != 'b'",
        r"
this is never true
  | mail.subject in ['a', 'b'] && mail.subject != 'a' && mail.subject != 'b'
  |                                                      ^^^^^^^^^^^^^^^^^^^
  = not beside the parts before it",
    );
    check(
        "mail.reply && !mail.reply",
        r"
this is never true
  | mail.reply && !mail.reply
  |               ^^^^^^^^^^^
  = not beside `mail.reply`",
    );
    check(
        "!has(mail.caps) && mail.caps > 0.5",
        r"
this is never true
  | !has(mail.caps) && mail.caps > 0.5
  |                    ^^^^^^^^^^^^^^^
  = not beside `!has(mail.caps)`",
    );
    check(
        "mail.size > 5 && (mail.size == 2 || mail.size < 4)",
        r"
this is never true
  | mail.size > 5 && (mail.size == 2 || mail.size < 4)
  |                   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  = not beside `mail.size > 5`",
    );
    check(
        "mail.size > 5 && !(mail.size > 2 || mail.reply)",
        r"
this is never true
  | mail.size > 5 && !(mail.size > 2 || mail.reply)
  |                  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  = not beside `mail.size > 5`",
    );
    check(
        "mail.reply && false",
        r"
this is never true
  | mail.reply && false
  |               ^^^^^
  = no value makes it so",
    );
    check(
        "false",
        r#"
this is never true
  | false
  | ^^^^^
  = a rule rests with `mode = "off"`"#,
    );
    check(
        "mail.size in [1, 2] && mail.size > 2",
        r"
this is never true
  | mail.size in [1, 2] && mail.size > 2
  |                        ^^^^^^^^^^^^^
  = not beside `mail.size in [1, 2]`",
    );
    check(
        "is_bulk && from.seen('1h') < 10",
        r"
this is never true
  | is_bulk && from.seen('1h') < 10
  |            ^^^^^^^^^^^^^^^^^^^^
  = not beside `is_bulk`",
    );
    check(
        "mail.size > 5 || mail.size < 10",
        r"
this is always true
  | mail.size > 5 || mail.size < 10
  | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  = `mail.size > 5` holds wherever it does not; `has(...)` asks if there is a value",
    );
    check(
        "mail.reply || !mail.reply",
        r"
this is always true
  | mail.reply || !mail.reply
  | ^^^^^^^^^^^^^^^^^^^^^^^^^
  = `mail.reply` holds wherever it does not; `has(...)` asks if there is a value",
    );
    check(
        "subject.first_age() < duration('1h') && subject.first_age() > duration('1d')",
        r"
this is never true
  | subject.first_age() < duration('1h') && subject.first_age() > duration('1d')
  |                                         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  = not beside `subject.first_age() < duration('1h')`",
    );
}

#[test]
fn comparisons_that_bounds_decide() {
    check(
        "now.getHours() > 23",
        r"
this is always false
  | now.getHours() > 23
  | ^^^^^^^^^^^^^^^^^^^
  = one side is from 0 to 23",
    );
    check(
        "now.getDayOfWeek('Europe/Berlin') == 7",
        r"
this is always false
  | now.getDayOfWeek('Europe/Berlin') == 7
  | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  = one side is from 0 to 6",
    );
    check(
        "mail.size % 5 == 5",
        r"
this is always false
  | mail.size % 5 == 5
  | ^^^^^^^^^^^^^^^^^^
  = one side is from -4 to 4",
    );
    check(
        "mail.size == 2.5",
        r"
this is always false
  | mail.size == 2.5
  | ^^^^^^^^^^^^^^^^
  = an integer has no fraction",
    );
    check(
        "mail.size == mail.size",
        r"
this is always true
  | mail.size == mail.size
  | ^^^^^^^^^^^^^^^^^^^^^^
  = both sides are the same; `has(...)` asks if there is a value",
    );
    check(
        "mail.size < mail.size",
        r"
this is always false
  | mail.size < mail.size
  | ^^^^^^^^^^^^^^^^^^^^^
  = both sides are the same; `has(...)` asks if there is a value",
    );
    check(
        "from.seen('1h') in [-1, -2]",
        r"
this is always false
  | from.seen('1h') in [-1, -2]
  | ^^^^^^^^^^^^^^^^^^^^^^^^^^^
  = counts, sizes, ages and ratios are never below 0",
    );
    check(
        "ratio(from.spam('1d'), from.seen('1d')) > -0.5",
        r"
this is always true
  | ratio(from.spam('1d'), from.seen('1d')) > -0.5
  | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  = counts, sizes, ages and ratios are never below 0; `has(...)` asks if there is one",
    );
    check("mail.size > 9007199254740993", "");
}

#[test]
fn clocks() {
    check(
        "hour(now, 'Europe/Berlin') > 22",
        r"
unknown function `hour`
  | hour(now, 'Europe/Berlin') > 22
  | ^^^^
  = write `now.getHours('Europe/Berlin')`",
    );
    check(
        "getHours(now) > 22",
        r"
unknown function `getHours`
  | getHours(now) > 22
  | ^^^^^^^^
  = it follows a time and a dot: `now.getHours('Europe/Berlin')`",
    );
    check(
        "now.getHours('Europe/Berln') > 22",
        r"
there is no time zone `Europe/Berln`
  | now.getHours('Europe/Berln') > 22
  |              ^^^^^^^^^^^^^^
  = did you mean `Europe/Berlin`?",
    );
    check(
        "now.getHours('nowhere at all') > 22",
        r"
there is no time zone `nowhere at all`
  | now.getHours('nowhere at all') > 22
  |              ^^^^^^^^^^^^^^^^
  = zones are named as in `Europe/Berlin` or `+02:00`",
    );
    check(
        "now.getHours('+25:99') > 22",
        r"
there is no time zone `+25:99`
  | now.getHours('+25:99') > 22
  |              ^^^^^^^^
  = zones are named as in `Europe/Berlin` or `+02:00`",
    );
    check(
        "mail.size.getHours() > 22",
        r"
`getHours` takes a time, not an integer
  | mail.size.getHours() > 22
  | ^^^^^^^^^^^^^^^^^^^^
  = write it as in `now.getHours('Europe/Berlin')`",
    );
    check(
        "now.getHours('UTC', 1) > 22",
        r"
`getHours` does not take 2 arguments
  | now.getHours('UTC', 1) > 22
  | ^^^^^^^^^^^^^^^^^^^^^^
  = write it as in `now.getHours('Europe/Berlin')`",
    );
    check(
        "now.getHours(mail.subject) > 22",
        r"
a time zone is a text in quotes
  | now.getHours(mail.subject) > 22
  |              ^^^^^^^^^^^^
  = write it out: `now.getHours('Europe/Berlin')`",
    );
    check(
        "age(mail.size) > duration('1d')",
        r"
`age` takes a time, not an integer
  | age(mail.size) > duration('1d')
  |     ^^^^^^^^^
  = the age of a key is `from.first_age()` or `from.last_age()`",
    );
    check(
        "age(from) > duration('1d')",
        r"
`from` is a kind of keys, not a value
  | age(from) > duration('1d')
  |     ^^^^
  = read a counter of it: `from.seen('1h')`",
    );
}

#[test]
fn sets() {
    check(
        "mail.from in word",
        r"
unknown name `word`
  | mail.from in word
  |              ^^^^
  = did you mean `words`?",
    );
    check(
        "words == 'a'",
        r"
`words` is a set, not a value
  | words == 'a'
  | ^^^^^
  = seek a value in it: `mail.from in words`",
    );
    check(
        "mail.size in words",
        r"
the set `words` holds strings, this is an integer
  | mail.size in words
  | ^^^^^^^^^",
    );
    check(
        "conn.ip in words",
        r"
the set `words` holds strings, this is an ip
  | conn.ip in words
  | ^^^^^^^",
    );
    check(
        "mail.from in nets",
        r"
the set `nets` holds addresses and networks, this is a string
  | mail.from in nets
  | ^^^^^^^^^",
    );
    check(
        "mail.links in words",
        r"
`in` seeks one value in the set `words`, not a list
  | mail.links in words
  | ^^^^^^^^^^
  = items of a list are sought with `sets.intersects(mail.links, words)`",
    );
    check(
        "mail.from in nothing",
        r"
warning: the set `nothing` is empty, so this is never true
  | mail.from in nothing
  |              ^^^^^^^",
    );
    check(
        "sets.intersects(mail.links, wrods)",
        r"
there is no set `wrods`
  | sets.intersects(mail.links, wrods)
  |                             ^^^^^
  = did you mean `words`?",
    );
    check(
        "sets.intersects(mail.from, words)",
        r"
`sets.intersects` takes a list, not a string
  | sets.intersects(mail.from, words)
  |                 ^^^^^^^^^
  = one value is sought with `x in ...`",
    );
    check(
        "sets.intersects(mail.links, nets)",
        r"
a list holds strings, the set holds addresses and networks
  | sets.intersects(mail.links, nets)
  |                             ^^^^
  = take a set of type string or domain",
    );
    check(
        "sets.intersects(mail.links, [1])",
        r"
the list holds something that is no text
  | sets.intersects(mail.links, [1])
  |                             ^^^
  = write `['a', 'b']`",
    );
    check(
        "sets.intersects(mail.links, 'a')",
        r"
`sets.intersects` takes a named set or a list of texts
  | sets.intersects(mail.links, 'a')
  |                             ^^^
  = write it as in `sets.intersects(mail.link_hosts, bad_hosts)`",
    );
    check(
        "sets.contains(mail.links, words)",
        r"
of the functions on sets rules have `sets.intersects` with two arguments
  | sets.contains(mail.links, words)
  | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  = write `sets.intersects(mail.link_hosts, bad_hosts)`",
    );
    check(
        "conn.ip in ['10.0.0.0/33']",
        r"
an ip is sought, this is a string
  | conn.ip in ['10.0.0.0/33']
  |             ^^^^^^^^^^^^^
  = an address is compared with one written out: `'192.0.2.7'`",
    );
}

#[test]
fn buckets() {
    check(
        "max_bucket(from.seen('2h'), '7m') > 1",
        r"
the window 2h is no whole number of buckets of 7m
  | max_bucket(from.seen('2h'), '7m') > 1
  |                             ^^^^
  = write it as in `max_bucket(from.seen('2h'), '10m')`",
    );
    check(
        "empty_buckets(from.seen(), '10m') > 1",
        r"
`empty_buckets` takes a counter over a window
  | empty_buckets(from.seen(), '10m') > 1
  |               ^^^^^^^^^^^
  = write it as in `empty_buckets(from.seen('2h'), '10m')`",
    );
    check(
        "dispersion(from.seen('2h') + from.spam('2h'), '10m') > 1",
        r"
`dispersion` takes one counter
  | dispersion(from.seen('2h') + from.spam('2h'), '10m') > 1
  |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  = write it as in `dispersion(from.seen('2h'), '10m')`",
    );
    check(
        "dispersion(mail.size, '10m') > 1",
        r"
`dispersion` takes counters of a kind
  | dispersion(mail.size, '10m') > 1
  |            ^^^^^^^^^
  = write it as in `dispersion(from.seen('2h'), '10m')`",
    );
    check(
        "max_bucket(from.seen('2h')) > 1",
        r"
`max_bucket` does not take 1 argument
  | max_bucket(from.seen('2h')) > 1
  | ^^^^^^^^^^^^^^^^^^^^^^^^^^^
  = write it as in `max_bucket(from.seen('2h'), '10m')`",
    );
    check(
        "max_bucket(from.seen('2h'), '0s') > 1",
        r"
a bucket is longer than 0
  | max_bucket(from.seen('2h'), '0s') > 1
  |                             ^^^^
  = write it as in `max_bucket(from.seen('2h'), '10m')`",
    );
    check(
        "max_buckets(from.seen('2h'), '10m') > 1",
        r"
unknown function `max_buckets`
  | max_buckets(from.seen('2h'), '10m') > 1
  | ^^^^^^^^^^^
  = did you mean `max_bucket`?",
    );
    check(
        "max_bucket(from.sen('2h'), '10m') > 1",
        r"
unknown counter `sen`
  | max_bucket(from.sen('2h'), '10m') > 1
  |                 ^^^
  = did you mean `seen`?",
    );
}

#[test]
fn rates_and_trends() {
    check(
        "rate(from.seen('1h'), '1m') > 'a'",
        r"
a float is not compared with a string
  | rate(from.seen('1h'), '1m') > 'a'
  | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  = a number stands without quotes",
    );
    check(
        "rate(from.seen(), '1m') > 1",
        r"
`rate` takes a counter over a window
  | rate(from.seen(), '1m') > 1
  |      ^^^^^^^^^^^
  = write it as in `rate(from.seen('1h'), '1m')`",
    );
    check(
        "rate(from.seen('1h'), 'often') > 1",
        r"
`often` is no length of time
  | rate(from.seen('1h'), 'often') > 1
  |                       ^^^^^^^
  = expected a length of time such as `90s`, `10m`, `1h30m`, `14d` or `250ms`",
    );
    check(
        "rate(from.seen('1h'), '0s') > 1",
        r"
a rate is over more than 0
  | rate(from.seen('1h'), '0s') > 1
  |                       ^^^^
  = write it as in `'1m'`",
    );
    check(
        "rate(mail.size, '1m') > 1",
        r"
`rate` takes counters of a kind
  | rate(mail.size, '1m') > 1
  |      ^^^^^^^^^
  = write it as in `rate(from.seen('1h'), '1m')`",
    );
    check(
        "rate(from.seen('1h')) > 1",
        r"
`rate` does not take 1 argument
  | rate(from.seen('1h')) > 1
  | ^^^^^^^^^^^^^^^^^^^^^
  = write it as in `rate(from.seen('1h'), '1m')`",
    );
    check(
        "trend(from.seen('1h'), from.spam('1d')) > 2",
        r"
`trend` compares the same counters over two windows
  | trend(from.seen('1h'), from.spam('1d')) > 2
  | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  = write it as in `trend(from.seen('1h'), from.seen('7d'), 20)`",
    );
    check(
        "trend(from.seen('1d'), from.seen('1h')) > 2",
        r"
the first window of `trend` is the shorter one
  | trend(from.seen('1d'), from.seen('1h')) > 2
  | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  = write it as in `trend(from.seen('1h'), from.seen('7d'), 20)`",
    );
    check(
        "trend(from.seen('1h'), from.seen()) > 2",
        r"
`trend` takes counters over windows
  | trend(from.seen('1h'), from.seen()) > 2
  | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  = write it as in `trend(from.seen('1h'), from.seen('7d'), 20)`",
    );
    check(
        "trend(from.seen('1h'), mail.size) > 2",
        r"
`trend` takes counters of a kind
  | trend(from.seen('1h'), mail.size) > 2
  |                        ^^^^^^^^^
  = write it as in `trend(from.seen('1h'), from.seen('7d'), 20)`",
    );
    check(
        "trend(user.count(), from.seen('1d')) > 2",
        r"
`trend` takes counters, and `user` has an aggregate
  | trend(user.count(), from.seen('1d')) > 2
  |       ^^^^^^^^^^^^
  = divide its values with `/`: `user.sum() / user.count()`",
    );
    check(
        "trend(from.seen('1h'), from.seen('1d'), 0) > 2",
        r"
the least denominator is a whole number from 1
  | trend(from.seen('1h'), from.seen('1d'), 0) > 2
  |                                         ^
  = below it the ratio is 0: `ratio(from.spam('1d'), from.seen('1d'), 20)`",
    );
}

#[test]
fn qualities_labels_and_models() {
    check(
        "estimated(mail.size)",
        r"
`estimated` takes a reading
  | estimated(mail.size)
  |           ^^^^^^^^^
  = write it as in `estimated(from.seen('1h'))`",
    );
    check(
        "estimated(from.sen('1h'))",
        r"
unknown counter `sen`
  | estimated(from.sen('1h'))
  |                ^^^
  = did you mean `seen`?",
    );
    check(
        "estimated(from.seen('1h') + 1)",
        r"
`estimated` takes a reading
  | estimated(from.seen('1h') + 1)
  |           ^^^^^^^^^^^^^^^^^^^
  = write it as in `estimated(from.seen('1h'))`",
    );
    check(
        "estimated(ip.marked('scanner'))",
        r"
`estimated` takes a reading
  | estimated(ip.marked('scanner'))
  |           ^^^^^^^^^^^^^^^^^^^^
  = write it as in `estimated(from.seen('1h'))`",
    );
    check(
        "ip.marked('scaner')",
        r"
unknown label `scaner`
  | ip.marked('scaner')
  |           ^^^^^^^^
  = did you mean `scanner`?",
    );
    check(
        "from.marked('scanner')",
        r"
unknown label `scanner`
  | from.marked('scanner')
  |             ^^^^^^^^^
  = define it with [[label]]",
    );
    check(
        "ip.marked(scanner)",
        r"
a label is named in quotes
  | ip.marked(scanner)
  |           ^^^^^^^
  = write it as in `ip.marked('scanner')`",
    );
    check(
        "ip.marked()",
        r"
`marked` takes one label, not 0
  | ip.marked()
  | ^^^^^^^^^^^
  = write it as in `ip.marked('scanner')`",
    );
    check(
        "ip.marked('scanner') > 1",
        r"
a bool is not compared with an integer
  | ip.marked('scanner') > 1
  | ^^^^^^^^^^^^^^^^^^^^^^^^",
    );
    check(
        "model('spma') > 0.5",
        r"
there is no model `spma`
  | model('spma') > 0.5
  |       ^^^^^^
  = did you mean `spam`?",
    );
    check(
        "model(spam) > 0.5",
        r"
a name in quotes belongs here
  | model(spam) > 0.5
  |       ^^^^
  = write it as in `model('spam')`",
    );
    check(
        "model('spam') == 'a'",
        r"
a float is not compared with a string
  | model('spam') == 'a'
  | ^^^^^^^^^^^^^^^^^^^^
  = a number stands without quotes",
    );
    check(
        "rule('A')",
        r"
there are no rules to refer to here
  | rule('A')
  |      ^^^
  = only the condition of a [[rule]] can refer to rules and groups",
    );
    check(
        "group('links') > 1",
        r"
there are no rules to refer to here
  | group('links') > 1
  |       ^^^^^^^
  = only the condition of a [[rule]] can refer to rules and groups",
    );
}

#[test]
fn names_of_definitions() {
    check(
        "blk > 10 || mail.size > 2",
        r"
unknown name `blk`
  | blk > 10 || mail.size > 2
  | ^^^
  = did you mean `bulk`?",
    );
    check(
        "mail.from == bulk",
        r"
a string is not compared with an integer
  | mail.from == bulk
  | ^^^^^^^^^^^^^^^^^",
    );
    check(
        "from.seen(windw) > 1",
        r"
a length of time is a text in quotes
  | from.seen(windw) > 1
  |           ^^^^^
  = write it out: `from.seen('1h')`",
    );
    check("mail.subject.matches(greeting)", "");
    check(
        "from.seen(bulk) > 1",
        r"
a length of time is a text in quotes
  | from.seen(bulk) > 1
  |           ^^^^
  = write it out: `from.seen('1h')`",
    );
}
