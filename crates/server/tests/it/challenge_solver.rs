//! Challenges between us and the makers of ALTCHA: the challenge page's solver solves those of their libraries, which verify what it
//! finds, and their libraries and widget solve those of a node.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use engine::Directory;
use serde_json::json;
use server::{Clock, SystemClock};

use crate::harness::{directory, start_by};
use crate::npm::{CHALLENGE_PACKAGES, packages};
use crate::python::environment;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/challenge");
const PURPOSE: &str = "the challenge page's solver against ALTCHA's libraries";

/// The packages of Python that make, solve and verify challenges.
const PYTHON_PACKAGES: [&str; 2] = ["altcha==2.3.0", "argon2-cffi==25.1.0"];

/// Runs a program to its good end, and returns the number that it verified, and what it printed.
fn verified(command: &mut Command) -> (usize, String) {
    let ran = command.output().unwrap();
    let said = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert!(ran.status.success(), "{said}{}", String::from_utf8_lossy(&ran.stderr));
    let first = said.lines().next().unwrap();
    (first.strip_prefix("verified ").and_then(|count| count.parse().ok()).unwrap(), said)
}

/// The packages of npm, where there is a program to run them.
fn with_node(purpose: &str) -> Option<PathBuf> {
    if Command::new("node").arg("--version").output().is_err() {
        println!("skipped: {purpose}: node is not installed");
        return None;
    }
    packages(Path::new(env!("CARGO_TARGET_TMPDIR")), &CHALLENGE_PACKAGES, purpose)
}

#[test]
fn others_verify_what_the_page_finds() {
    let Some(npm) = with_node(PURPOSE) else { return };
    let solver = format!("{FOLDER}/solver.mjs");
    assert_eq!(verified(Command::new("node").arg(&solver).arg(&npm)).0, 104);
    let Some(python) = environment("altcha", &PYTHON_PACKAGES, PURPOSE) else { return };
    let script = format!("{FOLDER}/solver.py");
    let mut command = Command::new(python.join("bin/python"));
    assert_eq!(verified(command.arg(script).arg("node").arg(&solver).arg(&npm)).0, 130);
}

const CLIENTS: &str = "ALTCHA's libraries and widget against challenges of a node";

/// The pipelines of the test, each named after its algorithm, and the work that is asked: the least, and what takes one digit and
/// two.
const WORKS: [(&str, [u32; 3]); 4] = [
    ("pbkdf2", [1, 20, 150]),
    ("sha-256", [1, 20, 150]),
    ("scrypt", [1, 100, 300]),
    ("argon2id", [1, 100, 300]),
];

/// Returns a data directory with a pipeline for each algorithm, which asks users for as much work as their event says.
fn directory_of_algorithms(path: &Path) -> Directory {
    let directory = directory(path);
    let main = directory.config_path();
    let files = WORKS.map(|(name, _)| format!("{name}.toml"));
    let config = std::fs::read_to_string(&main).unwrap();
    let named = config.replace("pipelines = [\"web.toml\"]", &format!("pipelines = {files:?}"));
    assert_ne!(named, config);
    std::fs::write(&main, named).unwrap();
    for (space, (name, _)) in WORKS.iter().enumerate() {
        let mut text = format!("name = \"{name}\"\nspace = {}\ninput = \"json\"\n", 40 + space);
        for (field, kind) in [("user", "string"), ("work", "float")] {
            write!(text, "[[field]]\nname = \"{field}\"\ntype = \"{kind}\"\n").unwrap();
        }
        write!(text, "[challenge]\ncost = \"work\"\nalgorithm = \"{name}\"\n").unwrap();
        text.push_str("visitor = [\"user\"]\npass_bound_to = [\"user\"]\n");
        text.push_str("[[rule]]\nname = \"UNKNOWN\"\nscore = 5.0\n");
        text.push_str("when = \"!pass.valid.or(false) && challenge.result.or('') != 'solved'\"\n");
        text.push_str("[[band]]\nat = 5.0\naction = \"challenge\"\n");
        std::fs::write(main.with_file_name(format!("{name}.toml")), text).unwrap();
    }
    directory
}

#[test]
fn others_solve_what_a_node_asks() {
    let parent = tempfile::tempdir().unwrap();
    let directory = directory_of_algorithms(&parent.path().join("data"));
    // The widget goes by the machine's clock, and asks anew for what has expired.
    let server = start_by(&directory, &[], |_| Clock::of(SystemClock, None));
    let url = format!("http://{}", server.address);
    let works = serde_json::Value::from_iter(WORKS.map(|(name, works)| (name, json!(works))));
    let cases = WORKS.iter().map(|(_, works)| works.len()).sum::<usize>();
    if let Some(npm) = with_node(CLIENTS) {
        let chromium = "/usr/bin/chromium";
        let has_browser = Path::new(chromium).exists();
        if !has_browser {
            println!("skipped: ALTCHA's widget against challenges of a node: chromium is not installed");
        }
        let asked = json!({
            "url": url, "packages": npm.to_str(), "works": works, "chromium": has_browser.then_some(chromium),
        });
        let clients = format!("{FOLDER}/clients.mjs");
        let (count, said) = verified(Command::new("node").arg(clients).arg(asked.to_string()));
        println!("{said}");
        // One of the two libraries has Argon2id only from a later Node on.
        assert!(count == 2 * cases || count == 2 * cases - WORKS[3].1.len(), "{said}");
        let widget = said.lines().filter(|line| line.starts_with("ok: ")).count();
        assert_eq!(widget, if has_browser { 2 * WORKS.len() } else { 0 }, "{said}");
    }
    if let Some(python) = environment("altcha", &PYTHON_PACKAGES, CLIENTS) {
        let mut command = Command::new(python.join("bin/python"));
        let (count, _) =
            verified(command.arg(format!("{FOLDER}/clients.py")).arg(&url).arg(works.to_string()));
        assert_eq!(count, cases);
    }
    server.stop();
}
