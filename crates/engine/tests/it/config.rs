//! Every mistake in a configuration is said with file, line, column, the offending piece and the mend.

use engine::{Config, Overrides, Plan};

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
            "2:9: `space` cannot be -1 / an integer from 0 to 65535",
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
        "preset = \"mail\"\n[[kind]]\nname = \"k\"\nnumber = 900\nof = \"mail.subjekt\"\n",
        &["5:6: there is no fact `mail.subjekt` / did you mean `mail.subject`?"],
    );
    check(
        "preset = \"mail\"\n[[kind]]\nname = \"k\"\nnumber = 1\nof = \"mail.subject\"\n",
        &["4:10: number 1 is already that of `from` / another number"],
    );
    check(
        "preset = \"mail\"\n[settle]\nspan = [\"reject\"]\n",
        &["3:1: no statistic has a counter `span` / did you mean `spam`?"],
    );
    check(
        "preset = \"mail\"\n[[statistic]]\nname = \"more\"\nkeys = [\"from\"]\ncounts = [\"a\"]\nwindows = [\"1h x 2\"]\n",
        &["4:9: kind `from` already has the statistic `mass` / a kind has one statistic"],
    );
    check(
        "preset = \"mail\"\n[[kind]]\nname = \"k\"\nnumber = 900\nof = \"mail.subject\"\n\
         [[statistic]]\nname = \"more\"\nkeys = [\"k\"]\ncounts = [\"a\"]\nwindows = [\"1h times 2\"]\n",
        &["10:12: `1h times 2` is no tier"],
    );
}

#[test]
fn a_rules_mistake_is_marked_inside_its_condition() {
    check(
        "preset = \"mail\"\n[[rule]]\nname = \"X\"\nscore = 1\nwhen = \"mail.subjet == 'a'\"\n",
        &["5:9: `X`: unknown name `mail.subjet` / did you mean `mail.subject`?"],
    );
    check(
        "preset = \"mail\"\n[[rule]]\nname = \"X\"\nscore = 1\nwhen = \"from.seen('15d') > 3\"\n",
        &["5:19: `X`: no tier can answer the window 15d; possible are 10m to 1d, 1d to 14d"],
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
    let overrides =
        Overrides { environment: vec![], flags: vec![("ledger.durabilty".into(), "sync".into())] };
    let config = Config::from_text("test.toml", "preset = \"mail\"", &overrides);
    let problems = Plan::compile(&config).unwrap_err().to_string();
    assert!(problems.contains("there is no setting `ledger.durabilty`"), "{problems}");
    assert!(problems.contains("did you mean `ledger.durability`?"), "{problems}");
}

#[test]
fn the_reference_is_what_the_checker_reads() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference.md");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, engine::reference()).unwrap();
    }
    let stored = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        stored == engine::reference(),
        "docs/reference.md is old: UPDATE=1 cargo test -p tollhouse-engine"
    );
}

proptest::proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in "[ -~\\n\\t\u{e9}\u{1F600}]{0,200}") {
        let _ = problems(&text);
    }

    #[test]
    fn no_change_to_a_preset_makes_it_panic(at in 0usize..20_000, with in "[ -~\\n]{0,12}", cut in 0usize..40) {
        let text = engine::preset::find("mail").unwrap().text;
        let at = (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap();
        let end = (at + cut).min(text.len());
        let end = (at..=end).rev().find(|end| text.is_char_boundary(*end)).unwrap();
        let _ = problems(&format!("{}{with}{}", &text[..at], &text[end..]));
    }
}

#[test]
fn the_documented_conditions_compile() {
    let document = include_str!("../../../../docs/rules.md");
    let blocks = document.split("\n```cel\n").skip(1).filter_map(|rest| rest.split("\n```").next());
    let conditions: Vec<&str> = blocks.flat_map(str::lines).filter(|line| !line.trim().is_empty()).collect();
    assert!(conditions.len() >= 5, "{conditions:?}");
    for condition in conditions {
        let text =
            format!("preset = \"mail\"\n[[rule]]\nname = \"X\"\nscore = 1\nwhen = '''{condition}'''\n");
        assert_eq!(problems(&text), "fine", "{condition}");
    }
}
