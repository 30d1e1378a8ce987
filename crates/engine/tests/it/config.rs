//! Every mistake in a configuration is reported with file, line, column, the offending piece and the mend.

use plan::{Config, Overrides, Plan};

fn problems(text: &str) -> String {
    let config = Config::from_text("test.toml", text, &Overrides::default());
    match Plan::compile(&config) {
        Ok(_) => "fine".to_owned(),
        Err(problems) => problems.to_string(),
    }
}

/// Holds if the problems are those, given as `line:column: message` and, behind ` / `, a part of the help.
#[track_caller]
fn check(text: &str, expected: &[&str]) {
    let found = problems(text);
    let lines: Vec<&str> = found.lines().collect();
    let heads: Vec<&str> = lines.iter().filter_map(|line| line.strip_prefix("test.toml:")).collect();
    assert_eq!(heads.len(), expected.len(), "\n{found}");
    for (head, expected) in heads.iter().zip(expected) {
        let (start, help) = expected.split_once(" / ").unwrap_or((expected, ""));
        assert_eq!(head.replacen(" error:", "", 1), start, "\n{found}");
        let at = lines.iter().position(|line| line.ends_with(head)).unwrap();
        let marks = lines[at + 2];
        assert!(marks.contains('^') && marks.contains(help), "no {help:?} in {marks:?}\n{found}");
    }
}

#[test]
fn a_problem_shows_its_line_and_marks_its_place() {
    assert_eq!(
        problems("preset = \"mail\"\n\n[ledger]\ndurabilty = \"1s\"\n"),
        "test.toml:4:1: error: unknown key `durabilty` in [ledger]\n    \
             4 | durabilty = \"1s\"\n      \
               | ^^^^^^^^^ did you mean `durability`? expected one of: durability, memory, segment\n\
         1 error"
    );
}

#[test]
fn all_problems_are_found_at_once() {
    check(
        "input = \"message\"\nspace = -1\n[server]\nlisten = 8080\ntimeout = \"soon\"\n\
         [[rule]]\nname = \"X\"\nscore = 1\nwhen = \"mail.size > 'a'\"\n",
        &[
            "2:9: `space` cannot be -1 / an integer from 0 to 65533",
            "4:10: `listen` cannot be 8080 / expected an IP address and a port",
            "5:11: `timeout` cannot be \"soon\" / a length of time",
            "9:9: `X`: an integer is not compared with a string",
        ],
    );
}

#[test]
fn unknown_keys_and_sections_are_errors() {
    check("prest = \"mail\"\n", &["1:1: unknown key `prest` / did you mean `preset`?"]);
    check("[sever]\n", &["1:2: unknown key `sever` / did you mean `server`?"]);
    check("preset = \"male\"\n", &["1:10: there is no preset `male` / did you mean `mail`?"]);
    // What follows from not knowing the input is not told as well.
    let text = "input = \"mesage\"\n[[rule]]\nname = \"X\"\nscore = 1\nwhen = \"mail.size > 1\"\n";
    check(text, &["1:9: `input` cannot be \"mesage\" / did you mean `message`?"]);
    check("rule = 5\n", &["1:8: `rule` is an integer / a list of tables, written [[rule]]"]);
}

#[test]
fn syntax_errors_have_a_place() {
    let found = problems("a = \nb = [1,\n");
    assert!(found.starts_with("test.toml:1:"), "{found}");
}

#[test]
fn entries_that_lack_something_say_what() {
    check(
        "preset = \"mail\"\n[[rule]]\nname = \"X\"\nscore = 1\n",
        &["2:1: [[rule]] has no `when` / add `when = ...`"],
    );
}

#[test]
fn names_must_mean_something() {
    check(
        "preset = \"mail\"\n[[kind]]\nname = \"k\"\nof = \"mail.subjekt\"\n",
        &["4:6: there is no fact `mail.subjekt` / did you mean `mail.subject`?"],
    );
    for section in ["kind", "distinct", "last", "label", "classifier"] {
        let text = format!("preset = \"mail\"\n[[{section}]]\nname = \"k\"\nnumber = 1\n");
        let config = Config::from_text("t.toml", &text, &Overrides::default());
        let problems = Plan::compile(&config).unwrap_err().to_string();
        let expected =
            format!("4:1: error: the number of [[{section}]] is allotted when its name is first used");
        assert!(problems.contains(&expected) && problems.contains("take the line out"), "{problems}");
    }
    check(
        "preset = \"mail\"\n[settle]\nspan = [\"reject\"]\n",
        &["3:1: no statistic has a counter `span` / did you mean `spam`?"],
    );
    check(
        "preset = \"mail\"\n[[statistic]]\nname = \"more\"\nkeys = [\"from\"]\ncounts = [\"a\"]\nwindows = [\"1h x 2\"]\n",
        &["4:9: kind `from` already has the statistic `mass` / a kind has one statistic"],
    );
    check(
        "preset = \"mail\"\n[[kind]]\nname = \"k\"\nof = \"mail.subject\"\n\
         [[statistic]]\nname = \"more\"\nkeys = [\"k\"]\ncounts = [\"a\"]\nwindows = [\"1h times 2\"]\n",
        &["9:12: `1h times 2` is no tier"],
    );
}

#[test]
fn a_rules_mistake_is_marked_inside_its_condition() {
    check(
        "preset = \"mail\"\n[[rule]]\nname = \"X\"\nscore = 1\nwhen = \"mail.subjet == 'a'\"\n",
        &["5:9: `X`: unknown name `mail.subjet` / did you mean `mail.subject`?"],
    );
    check(
        "preset = \"mail\"\n[[rule]]\nname = \"X\"\nscore = 1\nwhen = \"mail.has_date\"\nshare = \"mail.upper_shar\"\n",
        &["6:10: `X`: unknown name `mail.upper_shar` / did you mean `mail.upper_share`?"],
    );
    check(
        "preset = \"mail\"\n[[rule]]\nname = \"X\"\nscore = 1\nwhen = \"from.seen('15d') > 3\"\n",
        &["5:19: `X`: no tier can answer the window 15d; possible are 10m to 1d, 1d to 14d"],
    );
}

/// A pipeline of JSON objects with one statistic, of which the text gives all but its name and keys.
fn statistic(text: &str) -> String {
    format!(
        "[[field]]\nname = \"n\"\ntype = \"integer\"\n[[field]]\nname = \"f\"\ntype = \"float\"\n\
         [[kind]]\nname = \"k\"\nof = \"n\"\n\
         [[statistic]]\nname = \"s\"\nkeys = [\"k\"]\n{text}\n"
    )
}

#[test]
fn a_statistic_has_counters_or_an_aggregate() {
    let check = |text: &str, expected: &[&str]| check(&statistic(text), expected);
    let aggregate = "aggregate = [\"first\", \"last\", \"count\"]\nkeep = \"30d\"";
    check(aggregate, &[]);
    check(
        "aggregate = [\"sum\", \"min\", \"max\"]\nvalue = \"n\"\ndecay = [\"1h\", \"1d\"]\nkeep = \"30d\"",
        &[],
    );
    check("aggregate = []\ndecay = [\"1h\"]\nkeep = \"30d\"", &[]);
    check(
        "",
        &["10:1: [[statistic]] has neither `counts` nor `aggregate` / `aggregate = [...]` and `keep = ...`"],
    );
    check("counts = [\"a\"]", &["10:1: [[statistic]] has no `windows` / add `windows = [...]`"]);
    check("windows = [\"1h\"]", &["10:1: [[statistic]] has no `counts` / add `counts = [...]`"]);
    check(
        &format!("{aggregate}\ncounts = [\"a\"]\nwindows = [\"1h\"]"),
        &["15:10: `s` has `aggregate` and `counts` / make a [[kind]] of the same fact"],
    );
    check(
        &format!("{aggregate}\nreadings = [\"1h\"]"),
        &["15:12: `s` has `aggregate` and `readings` / leave `readings` out"],
    );
    check(
        "counts = [\"a\"]\nwindows = [\"1h\"]\nvalue = \"n\"\ndecay = [\"1h\"]",
        &[
            "15:9: `value` is for aggregates / add `aggregate = [...]`",
            "16:9: `decay` is for aggregates / leave it out",
        ],
    );
    check("aggregate = [\"count\"]", &["13:13: an aggregate has no `keep` / add `keep = \"30d\"`"]);
    check("aggregate = []\nkeep = \"1d\"", &["13:13: columns: there are none"]);
    check("aggregate = [\"last\", \"last\"]\nkeep = \"1d\"", &["13:13: columns: one is there twice"]);
    check(
        "aggregate = [\"cuont\"]\nkeep = \"1d\"",
        &["13:14: `aggregate` cannot be \"cuont\" / did you mean `count`?"],
    );
    check("aggregate = [\"sum\"]\nkeep = \"1d\"", &["13:14: `sum` has no value / add `value = ...`"]);
    check(
        "aggregate = [\"count\"]\nvalue = \"n\"\nkeep = \"1d\"",
        &["14:9: nothing is kept of `value` / add `sum`, `min` or `max`"],
    );
    check(
        "aggregate = [\"sum\"]\nvalue = \"f\"\nkeep = \"1d\"",
        &["14:9: `f` is of type float / an integer of a smaller unit, such as cents"],
    );
    check(
        "aggregate = [\"sum\"]\nvalue = \"m\"\nkeep = \"1d\"",
        &["14:9: there is no fact `m` / did you mean `n`?"],
    );
    check(
        "aggregate = [\"count\"]\ndecay = [\"1s\", \"2s\", \"3s\", \"4s\", \"5s\"]\nkeep = \"1d\"",
        &["14:34: `decay` has 5 half-lives / at most 4"],
    );
}

#[test]
fn admission_is_bounded() {
    let check = |admit: &str, expected: &[&str]| {
        check(&statistic(&format!("aggregate = [\"count\"]\nkeep = \"30d\"\nadmit = {admit}")), expected);
    };
    check("{ after = 16, rotate = \"3d\", memory = \"64MiB\" }", &[]);
    check("{ after = 2, rotate = \"3d\", keys = 10_000_000 }", &[]);
    check(
        "{ after = 17, rotate = \"3d\", keys = 1000 }",
        &["15:19: `after` cannot be 17 / counters have four bits: write an integer from 2 to 16"],
    );
    check("{ after = 1, rotate = \"3d\", keys = 1000 }", &["15:19: `after` cannot be 1 / from 2 to 16"]);
    check("3", &["15:9: `admit` cannot be 3 / a table, written { after = ..., rotate = ... }"]);
    check("{ rotate = \"3d\", keys = 9 }", &["15:9: `admit` has no `after` / add `after = ...`"]);
    check(
        "{ after = 3, rotate = \"3d\", key = 9, memory = \"1MiB\" }",
        &["15:37: unknown key `key` in `admit` / did you mean `keys`?"],
    );
    check(
        "{ after = 3, rotate = \"3d\" }",
        &["15:9: `admit` has neither `memory` nor `keys` / add `memory = \"64MiB\"`"],
    );
    check(
        "{ after = 3, rotate = \"3d\", keys = 9, memory = \"1MiB\" }",
        &["15:44: `admit` has both `memory` and `keys` / leave one of them out"],
    );
    let keys = "{ after = 3, rotate = \"3d\", keys = 1_000_000_000 }";
    let found = problems(&statistic(&format!("aggregate = [\"count\"]\nkeep = \"30d\"\nadmit = {keys}")));
    assert!(
        found.contains("15:9: error: the sketch of `s` takes") && found.contains("raise `memory`"),
        "{found}"
    );
}

#[test]
fn sketches_of_presets_fit_into_little_memory() {
    let text = "preset = \"mail\"\n[ledger]\nmemory = \"2MiB\"\n";
    let config = Config::from_text("test.toml", text, &Overrides::default());
    assert_eq!(Plan::compile(&config).unwrap().node.ledger_memory, (2 << 20) / 4 * 3);
}

#[test]
fn memory_is_shared_with_sketches() {
    let text = statistic(
        "aggregate = [\"count\"]\nkeep = \"30d\"\nadmit = { after = 3, rotate = \"3d\", memory = \"64MiB\" }\n\
         [ledger]\nmemory = \"256MiB\"",
    );
    let config = Config::from_text("test.toml", &text, &Overrides::default());
    assert_eq!(Plan::compile(&config).unwrap().node.ledger_memory, 192 << 20);
}

#[test]
fn aggregates_take_no_counters() {
    let aggregate = "aggregate = [\"count\"]\nkeep = \"30d\"\n";
    let mend =
        "every event is added to it: what verdicts and feedback add is counted by a statistic with `counts`";
    let wrong = |at: &str, name: &str| format!("{at}: no statistic has a counter `{name}` / {mend}");
    check(&statistic(&format!("{aggregate}[observe]\nadd = [\"seen\"]")), &[&wrong("16:8", "seen")]);
    check(&statistic(&format!("{aggregate}[settle]\ncount = [\"reject\"]")), &[&wrong("16:1", "count")]);
    check(&statistic(&format!("{aggregate}[feedback]\nspam = [\"bad\"]")), &[&wrong("16:9", "bad")]);
}

#[test]
fn rules_read_what_an_aggregate_keeps() {
    let check = |when: &str, expected: &[&str]| {
        let aggregate = "aggregate = [\"last\", \"count\"]\ndecay = [\"1h\", \"1d\"]\nkeep = \"30d\"\n";
        check(
            &statistic(&format!("{aggregate}[[rule]]\nname = \"X\"\nscore = 1\nwhen = \"{when}\"\n")),
            expected,
        );
    };
    check("k.count() > 3 && k.decayed('1d') > 0.5 && k.last_age() < duration('1d')", &[]);
    check(
        "k.max() > 3",
        &[
            "19:9: `X`: the aggregate of `k` does not keep `max`: add \"max\" to `aggregate` of its [[statistic]]",
        ],
    );
    check(
        "k.first_age() > duration('1d')",
        &[
            "19:9: `X`: the aggregate of `k` does not keep `first`: add \"first\" to `aggregate` of its [[statistic]]",
        ],
    );
    check(
        "k.decayed('2h') > 3",
        &[
            "19:19: `X`: the aggregate of `k` has no half-life 2h: it has 1h, 1d, and more may be added to `decay` of its [[statistic]]",
        ],
    );
    check("k.count('1h') > 3", &["19:9: `X`: `count` takes no argument / write `k.count()`"]);
}

#[test]
fn approximate_counts_have_a_precision() {
    let check = |text: &str, expected: &[&str]| {
        let base = "[[field]]\nname = \"n\"\ntype = \"integer\"\n[[kind]]\nname = \"k\"\nof = \"n\"\n";
        let distinct = "[[distinct]]\nname = \"d\"\nper = \"k\"\nof = \"n\"\n";
        check(&format!("{base}{distinct}{text}"), expected);
    };
    check("window = \"1d x 7\"\nmethod = \"approximate\"\nprecision = 14", &[]);
    check("window = \"1d\"\nmethod = \"approximate\"", &[]);
    check(
        "window = \"1d\"\nmethod = \"approximate\"\nprecision = 15",
        &["13:13: `precision` cannot be 15 / from 10 to 14"],
    );
    check(
        "window = \"1d\"\nprecision = 12",
        &["12:13: an exact count has no precision / add `method = \"approximate\"`"],
    );
    check(
        "window = \"1d\"\nmethod = \"about\"",
        &["12:10: `method` cannot be \"about\" / expected one of: exact, approximate"],
    );
    check(
        "window = \"1m x 1440\"\nmethod = \"approximate\"",
        &["11:10: tiers: 1m x 1440: with a precision of 12 a cell could have 605247 words, of at most 65535"],
    );
}

#[test]
fn too_many_entries_are_said_and_not_dropped_in_silence() {
    let rules: String = (0..4097)
        .map(|index| format!("[[rule]]\nname = \"R{index}\"\nscore = 1\nwhen = \"true\"\n"))
        .collect();
    let found = problems(&rules);
    assert!(
        found.contains(": error: there are 4097 [[rule]]") && found.contains("at most 4096"),
        "{found:.600}"
    );
}

#[test]
fn a_listener_that_others_reach_needs_a_token() {
    check(
        "preset = \"mail\"\n[server]\nlisten = \"0.0.0.0:80\"\n",
        &["3:10: 0.0.0.0:80 can be reached from outside and no token is asked for / add tokens"],
    );
    check("preset = \"mail\"\n[server]\nlisten = \"0.0.0.0:80\"\ntokens = [\"0123456789abcdef\"]\n", &[]);
}

#[test]
fn layers_override_each_other_and_say_so() {
    let overrides = Overrides {
        environment: vec![
            ("TOLLHOUSE_LEDGER_DURABILITY".into(), "sync".into()),
            ("OTHER".into(), "x".into()),
        ],
        flags: vec![("server.batch_max".into(), "7".into())],
        ..Overrides::default()
    };
    let text = "preset = \"mail\"\n[[rule]]\nname = \"NO_DATE\"\nscore = 0.25\n[ledger]\nmemory = \"2MiB\"\n\
                [server]\ntokens = [\"0123456789abcdef\"]\n";
    let config = Config::from_text("test.toml", text, &overrides);
    let effective = config.effective();
    let value = |path: &str| {
        let found = effective.iter().find(|value| value.path == path);
        found.map(|value| (value.value.as_str(), value.origin.split(':').next().unwrap_or_default()))
    };
    assert_eq!(value("ledger.durability"), Some(("\"sync\"", "environment TOLLHOUSE_LEDGER_DURABILITY")));
    assert_eq!(value("ledger.memory"), Some(("\"2MiB\"", "file test.toml")));
    assert_eq!(value("ledger.segment"), Some(("\"64MiB\"", "default")));
    assert_eq!(value("server.batch_max"), Some(("7", "flag --set server.batch_max")));
    assert_eq!(value("rule.NO_DATE.score"), Some(("0.25", "file test.toml")));
    assert_eq!(value("rule.NO_DATE.when"), Some(("\"!mail.has_date\"", "preset mail")));
    assert_eq!(value("rule.NO_DATE.mode"), Some(("\"enforce\"", "default")));
    assert_eq!(value("server.tokens"), Some(("\"***\"", "file test.toml")), "secrets are not shown");

    let plan = Plan::compile(&config).unwrap();
    assert_eq!(plan.node.server.batch_max, 7);
    let rule = plan.pipelines[0].rules.rule("NO_DATE").unwrap();
    assert_eq!(rule.score, 0.25);
}

#[test]
fn an_override_that_fits_nothing_is_an_error() {
    let flags = vec![("ledger.durabilty".into(), "sync".into())];
    let overrides = Overrides { flags, ..Overrides::default() };
    let config = Config::from_text("test.toml", "preset = \"mail\"", &overrides);
    let problems = Plan::compile(&config).unwrap_err().to_string();
    assert!(problems.contains("there is no setting `ledger.durabilty`"), "{problems}");
    assert!(problems.contains("did you mean `ledger.durability`?"), "{problems}");
}

proptest::proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in "[ -~\\n\\t\u{e9}\u{1F600}]{0,200}") {
        let _ = problems(&text);
    }

    #[test]
    fn no_change_to_a_preset_makes_it_panic(at in 0usize..20_000, with in "[ -~\\n]{0,12}", cut in 0usize..40) {
        let text = plan::preset::find("mail").unwrap().text;
        let at = (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap();
        let end = (at + cut).min(text.len());
        let end = (at..=end).rev().find(|end| text.is_char_boundary(*end)).unwrap();
        let _ = problems(&format!("{}{with}{}", &text[..at], &text[end..]));
    }
}

#[test]
fn the_documented_conditions_compile() {
    let document = include_str!("../../../../docs/guides/rules.md");
    let blocks = document.split("\n```cel\n").skip(1).filter_map(|rest| rest.split("\n```").next());
    let conditions: Vec<&str> = blocks.flat_map(str::lines).filter(|line| !line.trim().is_empty()).collect();
    assert!(conditions.len() >= 5, "{conditions:?}");
    let bases = ["preset = \"mail\"\n", include_str!("../../../../examples/shop/signups.toml")];
    for condition in conditions {
        let rule = format!("[[rule]]\nname = \"X\"\nscore = 1\nwhen = '''{condition}'''\n");
        let found = bases.map(|base| problems(&format!("{base}{rule}")));
        assert!(found.contains(&"fine".to_owned()), "{condition}: {found:?}");
    }
}

#[test]
fn listeners_are_checked() {
    const MAIL: &str = "preset = \"mail\"\n[[listener]]\nname = \"m\"\nprotocol = \"milter\"\n";
    let with = |keys: &str| format!("{MAIL}{keys}\n");
    check(&with("listen = \"127.0.0.1:0\""), &[]);
    check(&with("listen = \"0.0.0.0:0\"\nclients = [\"10.0.0.0/8\", \"2001:db8::1\"]"), &[]);
    check(MAIL, &["2:1: [[listener]] has no `listen` / add `listen = ...`"]);
    check(
        &with("listen = \"unix:milter.sock\""),
        &["5:10: `listen` cannot be \"unix:milter.sock\" / or a path"],
    );
    check(
        &with("listen = \"0.0.0.0:11332\""),
        &["5:10: 0.0.0.0:11332 can be reached from outside and anybody may ask there / add clients ="],
    );
    check(
        &with("listen = \"[::1]:0\"\nclients = [\"10.0.0.0/33\"]\nmode = \"0999\""),
        &[
            "6:12: `clients` cannot be \"10.0.0.0/33\" / a network",
            "7:8: `mode` cannot be \"0999\" / octal digits",
        ],
    );
    check(
        &with("listen = \"[::1]:0\"\npipeline = \"mial\""),
        &["6:12: no pipeline that reads messages is called `mial` / did you mean `mail`?"],
    );
    check(
        "preset = \"web\"\n[[listener]]\nname = \"m\"\nprotocol = \"milter\"\nlisten = \"[::1]:0\"\n",
        &["2:1: no pipeline reads messages / the preset `mail`"],
    );
    let twice =
        "listen = \"unix:/a\"\n[[listener]]\nname = \"m\"\nprotocol = \"spamc\"\nlisten = \"unix:/a\"";
    check(&with(twice), &["7:8: listener `m` is defined twice", "9:10: two listeners have unix:/a"]);
}

#[test]
fn listeners_can_be_given_from_outside() {
    let text =
        "preset = \"mail\"\n[[listener]]\nname = \"m\"\nprotocol = \"milter\"\nlisten = \"127.0.0.1:1\"\n";
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let overrides = Overrides {
        environment: vec![
            pair("TOLLHOUSE_LISTENER_MINE_PROTOCOL", "policy"),
            pair("TOLLHOUSE_LISTENER_MINE_LISTEN", "unix:/p"),
            pair("TOLLHOUSE_LISTENER_MINE_CLIENT_CONNECTIONS_MAX", "7"),
            pair("TOLLHOUSE_LISTENER_M_LISTEN", "127.0.0.1:2"),
        ],
        flags: vec![pair("listener.m.listen", "127.0.0.1:3"), pair("listener.m.on_error", "closed")],
        ..Overrides::default()
    };
    let plan = Plan::compile(&Config::from_text("test.toml", text, &overrides)).unwrap();
    let told = |listener: &plan::ListenerPlan| {
        let plan::ListenerPlan { name, listen, settings, client_connections_max, .. } = listener;
        let (protocol, on_error) = (settings.protocol(), settings.mail().unwrap().on_error);
        format!("{name} {protocol} {listen} {on_error:?} {client_connections_max}")
    };
    let listeners: Vec<String> = plan.node.listeners.iter().map(told).collect();
    assert_eq!(listeners, ["m milter 127.0.0.1:3 Closed 500", "mine policy unix:/p Open 7"]);
    let flags = vec![pair("listener.m.listne", "127.0.0.1:3"), pair("rule.X.score", "1")];
    let overrides = Overrides { flags, ..Overrides::default() };
    let problems = Plan::compile(&Config::from_text("test.toml", text, &overrides)).unwrap_err().to_string();
    assert!(problems.contains("there is no setting `listener.m.listne`"), "{problems}");
    assert!(problems.contains("there is no setting `rule.X.score`"), "{problems}");
}

/// The blocks of settings in a page.
fn settings(page: &str) -> Vec<&str> {
    page.split("```").skip(1).step_by(2).filter_map(|block| block.strip_prefix("toml\n")).collect()
}

#[test]
fn guides_switch_on_modules() {
    let check = |text: &str| {
        let plan = Plan::compile(&Config::from_text("guide", text, &Overrides::default()));
        plan.unwrap_or_else(|problems| panic!("{text}\n{problems}")).pipelines.remove(0)
    };
    let greylisting = settings(include_str!("../../../../docs/guides/greylisting.md"));
    let pipeline = check(&greylisting.concat());
    assert_eq!((greylisting.len(), pipeline.name.as_str()), (3, "mail-incoming"));
    assert_eq!(pipeline.rules.rule("GREYLISTED").unwrap().mode, judge::Mode::Shadow);
    let authentication = settings(include_str!("../../../../docs/guides/authentication.md"));
    let switched: Vec<&&str> =
        authentication.iter().filter(|block| block.starts_with("preset = \"mail\"\nmodules = [")).collect();
    let asked = |text: &str| check(text).lists.iter().filter(|list| !list.of.is_empty()).count();
    assert_eq!(switched.iter().map(|text| asked(text)).collect::<Vec<_>>(), [8, 7]);
    // Each list of the module has its weight and terms in the page.
    let page = include_str!("../../../../docs/guides/authentication.md");
    for list in &check("preset = \"mail\"\nmodules = [\"dns-lists\", \"dns-list-barracuda\"]\n").lists {
        assert!(page.contains(&format!("`{}`", list.name)), "{}", list.name);
    }
}

/// Lists that are switched on, and never asked, would be missed by nobody.
#[test]
fn lists_without_a_resolver_are_warned_of() {
    let warnings = |text: &str| {
        let plan = Plan::compile(&Config::from_text("mail.toml", text, &Overrides::default())).unwrap();
        let of_lists = plan.warnings.list().iter().filter(|it| it.message.contains("never asked"));
        of_lists.map(|it| it.message.clone()).collect::<Vec<_>>()
    };
    let switched = "preset = \"mail\"\nmodules = [\"dns-lists\"]\n";
    let told = "`spamhaus_zen` and the other 7 DNS lists are never asked: no resolver is named";
    assert_eq!(warnings(switched), [told]);
    assert!(warnings(&format!("{switched}[dns]\nresolvers = [\"127.0.0.1\"]\n")).is_empty());
    assert!(warnings("preset = \"mail\"\n").is_empty());
    let one = "preset = \"mail\"\n[[dnsbl]]\nname = \"own\"\nzone = \"bl.example\"\nof = [\"client.ip\"]\n";
    assert_eq!(warnings(one), ["the DNS list `own` is never asked: no resolver is named"]);
}
