//! The example of a site: people and abusers before nginx, a guest book and this program, by `examples/site/run`.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::npm::{CHALLENGE_PACKAGES, packages};

const PURPOSE: &str = "people and abusers come to examples/site";

/// The figures of the quick run, or nothing where a program that it needs is not installed.
fn quick_run() -> Option<(Value, String)> {
    for (program, version) in [
        ("python3", "--version"),
        ("nginx", "-v"),
        ("node", "--version"),
        ("chromium", "--version"),
        ("curl", "--version"),
    ] {
        let tried = Command::new(program).arg(version).stdout(Stdio::null()).stderr(Stdio::null()).status();
        if !tried.is_ok_and(|status| status.success()) {
            println!("skipped: {PURPOSE}: {program} is not installed");
            return None;
        }
    }
    let packages = packages(Path::new(env!("CARGO_TARGET_TMPDIR")), &CHALLENGE_PACKAGES, PURPOSE)?;
    let mut command = Command::new("python3");
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("TOLLHOUSE_"))
    {
        command.env_remove(name);
    }
    command.args([
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/site/run"),
        "--quick",
        "--seed",
        "1",
        "--json",
    ]);
    command
        .args(["--tollhouse", env!("CARGO_BIN_EXE_tollhouse"), "--packages"])
        .arg(packages.join("node_modules"));
    let ran = command.env("PYTHONDONTWRITEBYTECODE", "1").output().unwrap();
    let said = String::from_utf8(ran.stdout).unwrap();
    assert!(ran.status.success(), "{said}{}", String::from_utf8_lossy(&ran.stderr));
    let (figures, table) = said.split_once('\n').unwrap();
    Some((serde_json::from_str(figures).unwrap(), table.to_owned()))
}

#[test]
fn people_pass_and_programs_are_asked() {
    let Some((run, table)) = quick_run() else { return };
    let count =
        |path: &str| run.pointer(path).and_then(Value::as_u64).unwrap_or_else(|| panic!("{path}: {run}"));
    // Everybody was judged; else what follows would say nothing.
    assert_eq!(count("/unanswered"), 0, "{table}");
    assert_eq!((&run["failed"], count("/asked")), (&serde_json::json!([]), 0), "{table}");
    assert!(count("/sessions") >= 11, "{table}");
    // Who is asked gets there, too: with scripts and without.
    assert_eq!(run["busy_failed"], serde_json::json!([]), "{table}");
    assert!(count("/busy") >= 2 && count("/busy_asked") == count("/busy"), "{table}");
    let row = |name: &str, member: &str| count(&format!("/rows/{name}/{member}"));
    assert_eq!(row("spammer, curl", "got"), 0, "{table}");
    assert!(row("spammer, curl", "asked") > 0, "{table}");
    // Who gets past the proxy fills in what nobody sees.
    let curl = "spammer, curl with a browser's head";
    assert!(row(curl, "attempts") > 0 && row(curl, "got") == 0, "{table}");
    assert!(row(curl, "rules/BAIT") > 0, "{table}");
    let scraper = "scraper, a browser's head";
    assert!(row(scraper, "attempts") >= 160 && row(scraper, "got") <= 8, "{table}");
    assert!(row("scraper, a tool's head", "asked") > row("scraper, a tool's head", "got"), "{table}");
    assert!(row("scraper, solves challenges", "solved") > 0, "{table}");
    for part in ["time to solve: median ", "Anubis at its default difficulty 4", "sign-up farm"] {
        assert!(table.contains(part), "{part} is missing in {table}");
    }
}

/// The lines of a configuration of nginx, without comments and blanks.
fn nginx_lines(text: &str) -> impl Iterator<Item = String> {
    let bare = text.lines().map(|line| line.split(" #").next().unwrap_or_default().trim());
    bare.filter(|line| !line.is_empty() && !line.starts_with('#')).map(str::to_owned)
}

/// The example's configuration is called a template, so it has each line of the guide's, but for names and times.
#[test]
fn the_template_of_nginx_has_each_line_of_the_guide() {
    let (guide, template) = (
        include_str!("../../../../docs/guides/challenges.md"),
        include_str!("../../../../examples/site/nginx.conf"),
    );
    let section = guide.split("\n### nginx\n").nth(1).and_then(|rest| rest.split("\n### ").next()).unwrap();
    let blocks: String =
        section.split("```nginx\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    let in_template: Vec<String> = nginx_lines(template).collect();
    let mut compared = 0;
    for line in nginx_lines(&blocks) {
        let own = match line.as_str() {
            "server 127.0.0.1:8377 max_fails=0;" => "server @TOLLHOUSE@ max_fails=0;".to_owned(),
            "proxy_pass http://app;" => "proxy_pass http://book;".to_owned(),
            _ => line.replace(" 250ms;", " @PATIENCE@;"),
        };
        assert!(in_template.contains(&own), "examples/site/nginx.conf has no `{own}`");
        compared += 1;
    }
    assert!(compared > 50, "{compared} lines");
}
