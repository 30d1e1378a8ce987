use super::TestScope;
use crate::effect;

fn rendered(source: &str) -> String {
    match effect::compile(source, &mut TestScope::new()) {
        Ok(effect) => effect.to_string(),
        Err(found) => found.render(source),
    }
}

#[test]
fn effects_are_read_and_print_as_they_are_written() {
    let check = |source: &str, expected: &str| assert_eq!(rendered(source), expected);
    check("set throttle", "set throttle");
    check("set throttle unless  reject", "set throttle unless reject");
    check("  lift   reject ", "lift reject");
    check("mark ip as scanner for 24h", "mark ip as \"scanner\" for 1d");
    check("mark ip as 'vpn' for 30d", "mark ip as \"vpn\" for 30d");
    check("mark ip as scanner for 60m to 2h", "mark ip as \"scanner\" for 1h to 2h");
    check("add from.spam", "add from.spam");
    check("add from.spam by 1", "add from.spam");
    check("add from.spam by 20", "add from.spam by 20");
    check("add user by -20 times share", "add user by -20 times share");
    check("clear from.spam", "clear from.spam");
    check("clear 'from.spam' ", "clear from.spam");
    check("notify 'on-call'", "notify \"on-call\"");
}

#[test]
fn what_an_effect_clears_is_known_by_its_text() {
    use crate::effect::cleared_counter;
    assert_eq!(cleared_counter(" clear  from.spam"), Some(("from", "spam")));
    assert_eq!(cleared_counter("clear \"mail.from.spam\""), Some(("mail.from", "spam")));
    assert_eq!(["clear", "clear from", "add from.spam", ""].map(cleared_counter), [None; 4]);
}

#[test]
fn what_is_wrong_with_an_effect() {
    let check = |source: &str, expected: &str| assert_eq!(format!("\n{}", rendered(source)), expected);
    check(
        "",
        "
the effect is empty
  = write it as in `mark ip as \"scanner\" for 1d`",
    );
    check(
        "makr ip as scanner for 1d",
        r"
unknown effect `makr`
  | makr ip as scanner for 1d
  | ^^^^
  = did you mean `mark`?",
    );
    check(
        "ban ip",
        r"
unknown effect `ban`
  | ban ip
  | ^^^
  = an effect begins with set, lift, mark, add, clear or notify",
    );
    check(
        "mark ip as scanner",
        "
`mark` is not followed by what it needs
  | mark ip as scanner
  | ^^^^^^^^^^^^^^^^^^
  = write it as in `mark ip as \"scanner\" for 1d`",
    );
    check(
        "set rejct",
        r"
unknown action `rejct`
  | set rejct
  |     ^^^^^
  = did you mean `reject`?",
    );
    check(
        "lift accept",
        r"
`accept` cannot be lifted: it is what is left when all else is
  | lift accept
  |      ^^^^^^
  = to lift all of them, lift each",
    );
    check(
        "mark ips as scanner for 1d",
        r"
unknown kind `ips`
  | mark ips as scanner for 1d
  |      ^^^
  = did you mean `ip`?",
    );
    check(
        "mark ip as \"scaner\" for 1d",
        "
unknown label `scaner`
  | mark ip as \"scaner\" for 1d
  |            ^^^^^^^^
  = did you mean `scanner`?",
    );
    check(
        "mark from as scanner for 1d",
        r"
unknown label `scanner`
  | mark from as scanner for 1d
  |              ^^^^^^^
  = define it with [[label]]",
    );
    check(
        "mark ip as 'a b' for 1d",
        r"
this is no name
  | mark ip as 'a b' for 1d
  |            ^^^^^
  = it has 1 to 64 letters, digits, `_`, `-` and `.`",
    );
    check(
        "mark ip as scanner for 8d",
        r"
the label `scanner` is kept for 7d, not for 8d
  | mark ip as scanner for 8d
  |                        ^^
  = raise `keep` of its [[label]]",
    );
    check(
        "mark ip as scanner for long",
        r"
`long` is no length of time
  | mark ip as scanner for long
  |                        ^^^^
  = expected a length of time such as `90s`, `10m`, `1h30m`, `14d` or `250ms`",
    );
    check(
        "mark ip as scanner for 0s",
        r"
a label holds longer than 0
  | mark ip as scanner for 0s
  |                        ^^",
    );
    check(
        "mark ip as scanner for 2h to 1h",
        r"
no time is from 2h to 1h
  | mark ip as scanner for 2h to 1h
  |                        ^^^^^^^^
  = write the lesser one first",
    );
    check(
        "mark ip as scanner for 2h to 8d",
        r"
the label `scanner` is kept for 7d, not for 8d
  | mark ip as scanner for 2h to 8d
  |                              ^^
  = raise `keep` of its [[label]]",
    );
    check(
        "add from.spma",
        r"
unknown counter `spma`
  | add from.spma
  |     ^^^^^^^^^
  = did you mean `spam`?",
    );
    check(
        "add spam",
        r"
a counter is named with its kind
  | add spam
  |     ^^^^
  = write it as in `add ip.caught`",
    );
    check(
        "add user.spam",
        r"
`user` has an aggregate and no counters
  | add user.spam
  |     ^^^^^^^^^",
    );
    check(
        "add user by 0",
        r"
`0` cannot be added
  | add user by 0
  |             ^
  = write a whole number from -1000000 to 1000000, but 0",
    );
    check(
        "add from.spam by 0",
        r"
`0` cannot be added
  | add from.spam by 0
  |                  ^
  = write a whole number from 1 to 1000000",
    );
    check(
        "clear from.spma",
        r"
unknown counter `spma`
  | clear from.spma
  |       ^^^^^^^^^
  = did you mean `spam`?",
    );
    check(
        "clear from",
        r"
a counter is named with its kind
  | clear from
  |       ^^^^
  = write it as in `add ip.caught`",
    );
    check(
        "mark contributors of cards as scanner for 1h",
        r"
nothing distinct is called `cards`
  | mark contributors of cards as scanner for 1h
  |                      ^^^^^",
    );
    check(
        "clear limit logins",
        r"
there is no limit `logins`
  | clear limit logins
  |             ^^^^^^",
    );
    check(
        "clear",
        r"
`clear` is not followed by what it needs
  | clear
  | ^^^^^
  = write it as in `clear ip.caught` or `clear limit logins`",
    );
    check(
        "notify 'operators",
        r"
the text is never closed
  | notify 'operators
  |        ^^^^^^^^^^",
    );
    let long = effect::compile(&"a".repeat(513), &mut TestScope::new()).unwrap_err();
    assert_eq!(long.message, "an effect is at most 512 bytes long");
}
