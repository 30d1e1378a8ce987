//! `rules`: rules are checked, tested, listed.

use serde_json::Value;

use crate::program::{Data, corpus, run};

/// A file with rules over the preset `mail`.
fn rules(rules: &str) -> String {
    format!("preset = \"mail\"\n\n{rules}")
}

const TESTED: &str = "\
[[rule]]
name = 'BULKY'
when = \"mail.size > 1000 && mail.subject.or('').contains('now')\"
score = 1.5
owner = 'mail team'
expires = 2020-01-01T00:00:00Z

[[rule.test]]
facts = { 'mail.size' = 1001, 'mail.subject' = 'buy now' }
fires = true

[[rule.test]]
facts = { 'mail.size' = 1001, 'mail.subject' = 'buy later' }
fires = true

[[rule]]
name = 'QUIET'
when = \"rule('BULKY')\"
score = 0
mode = 'shadow'

[[rule.test]]
facts = { 'mail.size' = 10 }
fires = false
";

#[test]
fn rules_are_tested() {
    let data = Data::new(&["mail"]);
    let file = data.file("tested.toml", &rules(TESTED));
    let ran = run(["rules", "test", &file], "").expect(1);
    let expected = format!(
        "failed  BULKY test 2  {file}:16\n  the test says that it fires; its condition is false\n    \
         mail.size = 1001\n    mail.subject = buy later\n"
    );
    assert_eq!(ran.stdout, expected);
    // The preset's own tests are among those that passed.
    assert!(ran.stderr.contains(" passed, 1 failed; "), "{}", ran.stderr);

    let tests = run(["rules", "test", "--json", "--rule", "BULKY", &file], "").expect(1).json();
    let passed: Vec<bool> = tests.iter().map(|test| test["passed"].as_bool().unwrap()).collect();
    assert_eq!(passed, [true, false]);
    assert_eq!((&tests[1]["test"], &tests[1]["condition"]), (&2.into(), &false.into()));
    assert_eq!(tests[1]["values"]["mail.subject"], "buy later");

    let all = run(["rules", "test", "--all", "--rule", "QUIET", &file], "").expect(0);
    assert!(all.stdout.starts_with("passed  QUIET test 1"), "{}", all.stdout);
    run(["rules", "test", "--rule", "QUITE", &file], "").expect(2);
    run(["rules", "test", "--pipeline", "web", &file], "").expect(2);
    // What fails a test is refused where it would work.
    let checked = run(["rules", "check", &file], "").expect(1);
    assert!(
        checked.stderr.contains(&format!("{file}:16:9: error: `BULKY`: the test says")),
        "{}",
        checked.stderr
    );
}

#[test]
fn a_file_is_checked_with_its_warnings() {
    let data = Data::new(&["mail"]);
    let division = "[[rule]]\nname = 'D'\nwhen = \"mail.size / from.seen('1d') > 2.0\"\nscore = 1\n";
    let file = data.file("warned.toml", &rules(division));
    for command in ["rules", "config"] {
        let ran = run([command, "check", "--json", &file], "").expect(0);
        let objects = ran.json();
        let [warning] = objects.as_slice() else { panic!("{}", ran.stdout) };
        assert_eq!((&warning["severity"], &warning["line"]), (&"warning".into(), &5.into()), "{warning}");
        assert!(ran.stderr.contains("warning: `D`: this may be zero"), "{}", ran.stderr);
        run([command, "check", "--strict", &file], "").expect(1);
    }
    let ran = run(["rules", "check", &file], "").expect(0);
    assert!(ran.stderr.contains("nothing is wrong\nmail: "), "{}", ran.stderr);

    // Warnings are told beside errors.
    let both = data.file("both.toml", &rules(&division.replace("score = 1", "score = 1\nowenr = 'x'")));
    let found = run(["rules", "check", "--json", &both], "").expect(1).json();
    let severities: Vec<&str> = found.iter().map(|object| object["severity"].as_str().unwrap()).collect();
    assert_eq!(severities, ["warning", "error"], "{found:?}");
    let ran = run(["rules", "check", "--preset", "web"], "").expect(0);
    assert!(ran.stderr.starts_with("preset web: nothing is wrong\nweb: "), "{}", ran.stderr);
}

#[test]
fn rules_are_listed() {
    let data = Data::new(&["mail", "web"]);
    let file = data.file("tested.toml", &rules(TESTED));
    let listed = run(["rules", "list", "--json", &file], "").expect(0).json();
    let one = |name: &str| -> Value {
        let found = listed.iter().find(|rule| rule["name"] == name);
        found.unwrap_or_else(|| panic!("{name}")).clone()
    };
    let bulky = one("BULKY");
    assert_eq!(bulky["reads"], serde_json::json!(["mail.size", "mail.subject"]));
    assert_eq!(bulky["tests"], serde_json::json!({"fire": 2, "silent": 0}));
    assert_eq!((&bulky["mode"], &bulky["owner"]), (&"enforce".into(), &"mail team".into()));
    assert_eq!((&bulky["expired"], &bulky["score"]), (&true.into(), &1.5.into()));
    assert!(bulky["cost"].as_u64().unwrap() > 5, "{bulky}");
    assert_eq!(one("QUIET")["mode"], "shadow");

    let drawn = run(["rules", "list", &file], "").expect(0).stdout;
    let line = drawn.lines().find(|line| line.contains("BULKY")).unwrap_or_else(|| panic!("{drawn}"));
    for part in ["enforce", "+1.5", "mail team", "2020-01-01, past", "mail.size, mail.subject"] {
        assert!(line.contains(part), "{part} is missing in {line}");
    }
    let both = data.run(&["rules", "list", "--json"], "").expect(0).json();
    let web = data.run(&["rules", "list", "--json", "--pipeline", "web"], "").expect(0).json();
    assert!(web.len() > 10 && both.len() > web.len());
    assert!(web.iter().all(|rule| rule["pipeline"] == "web"));
}

#[test]
fn files_are_laid_out() {
    let data = Data::new(&["mail", "web"]);
    let untidy = "# Ours.\npreset='mail'\n[[rule]]\nscore=1\nname='A' # first\nwhen=\"mail.size>1&&has( mail.subject )\"\n";
    let tidy = "# Ours.\npreset = 'mail'\n\n[[rule]]\nname = 'A'  # first\n\
                when = \"mail.size > 1 && has(mail.subject)\"\nscore = 1\n";
    let file = data.file("untidy.toml", untidy);
    let version = |file: &str| {
        let listed = run(["rules", "list", file], "").expect(0).stdout;
        listed.lines().next().unwrap().to_owned()
    };
    let before = version(&file);
    let checked = run(["rules", "fmt", "--check", &file], "").expect(1);
    assert_eq!(checked.stdout, format!("{file}\n"));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), untidy, "--check changes nothing");
    assert_eq!(run(["rules", "fmt", "-"], untidy).expect(0).stdout, tidy);

    let changed = run(["rules", "fmt", "--json", &file], "").expect(0).json();
    assert_eq!(changed[0]["changed"], true);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), tidy);
    assert_eq!(version(&file), before, "what it means is the same");
    assert_eq!(run(["rules", "fmt", &file], "").expect(0).stdout, "");
    run(["rules", "fmt", "--check", &file], "").expect(0);

    // What `init` makes is laid out, and what cannot be read is left alone.
    data.run(&["rules", "fmt", "--check"], "").expect(0);
    let broken = data.file("broken.toml", "[[rule]]\nname = 'A'\nwhen='a >'\n");
    let ran = run(["rules", "fmt", &broken], "").expect(1);
    assert!(
        ran.stderr.contains(&format!("{broken}:3:10: error: the condition ends too early")),
        "{}",
        ran.stderr
    );
    assert!(std::fs::read_to_string(&broken).unwrap().contains("when='a >'"));
}

/// A rule of `rules coverage --json`.
fn covered<'a>(lines: &'a [Value], rule: &str) -> &'a Value {
    lines.iter().find(|line| line["rule"] == rule).unwrap_or_else(|| panic!("{rule}"))
}

#[test]
fn coverage_of_a_corpus_and_of_its_journal_agree() {
    let data = Data::new(&["mail"]);
    let mail = corpus("mail.mbox");
    let decided =
        data.run(&["check", "--json", "--message-time", "--threads", "1", &mail], "").expect(0).json();
    let expected = |rule: &str| {
        let fired =
            |one: &&Value| one["reasons"].as_array().unwrap().iter().any(|reason| reason["name"] == rule);
        decided.iter().filter(fired).count()
    };
    let of_journal = data.run(&["rules", "coverage", "--json"], "").expect(0).json();
    let of_corpus =
        run(["rules", "coverage", "--json", "--preset", "mail", "--mbox", &mail], "").expect(0).json();
    assert_eq!(of_journal, of_corpus, "statistics and times are the same");
    for rule in ["HTML_ONLY", "REPLY", "EXECUTABLE"] {
        let line = covered(&of_journal, rule);
        assert_eq!(line["hits"], expected(rule), "{line}");
        assert_eq!(line["decisions"], decided.len());
    }
    let none = data.run(&["rules", "coverage", "--json", "--from", "2100-01-01"], "").expect(0).json();
    assert!(none.iter().all(|line| line["hits"] == 0 && line["decisions"] == 0));
}

#[test]
fn rules_that_fire_together_or_never_are_told() {
    let data = Data::new(&["web"]);
    let twins = "preset = 'web'\n[[rule]]\nname = 'TWIN'\nwhen = 'http.probe && http.is_page && http.error && \
                 !http.server_error'\nscore = 1\nmode = 'shadow'\n\
                 [[rule]]\nname = 'NEVER'\nwhen = \"http.path == '/never'\"\nscore = 1\n\
                 [[rule.test]]\nfacts = { 'http.path' = '/never' }\nfires = true\n";
    let file = data.file("twins.toml", twins);
    let log = corpus("web.log");
    let lines = run(["rules", "coverage", "--json", &file, "--log", &log], "").expect(0).json();
    let twin = covered(&lines, "TWIN");
    assert_eq!((&twin["together"], &twin["mode"]), (&serde_json::json!(["PROBE"]), &"shadow".into()));
    assert!(twin["hits"].as_u64().unwrap() > 0);
    assert_eq!(covered(&lines, "NEVER")["tests"], serde_json::json!({"fire": 1, "silent": 0}));

    let drawn = run(["rules", "coverage", &file, "--log", &log], "").expect(0).stdout;
    for part in ["PROBE", "and TWIN, ", "    NEVER", "none in which it does not fire", "never fired: "] {
        assert!(drawn.contains(part), "{part} is missing in {drawn}");
    }

    // A rule is measured on the decisions that were made while it was there.
    data.run(&["replay", &log], "").expect(0);
    let later = data.run(&["rules", "coverage", "--json", &file], "").expect(0).json();
    assert_eq!(
        (&covered(&later, "TWIN")["decisions"], &covered(&later, "TWIN")["hits"]),
        (&0.into(), &0.into())
    );
    assert!(covered(&later, "PROBE")["hits"].as_u64().unwrap() > 0);
}
