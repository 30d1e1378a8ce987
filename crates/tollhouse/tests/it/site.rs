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
    let scraper = "scraper, a browser's head";
    assert!(row(scraper, "attempts") >= 160 && row(scraper, "got") <= 8, "{table}");
    assert!(row("scraper, a tool's head", "asked") > row("scraper, a tool's head", "got"), "{table}");
    assert!(row("scraper, solves challenges", "solved") > 0, "{table}");
    for part in ["time to solve: median ", "Anubis at its default difficulty 4", "sign-up farm"] {
        assert!(table.contains(part), "{part} is missing in {table}");
    }
}
