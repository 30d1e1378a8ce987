//! The challenge page's solver against the libraries of ALTCHA's makers: each makes challenges and verifies what we find.

use std::path::Path;
use std::process::Command;

use crate::npm::{CHALLENGE_PACKAGES, packages};
use crate::python::environment;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/challenge");
const PURPOSE: &str = "the challenge page's solver against ALTCHA's libraries";

fn verified(command: &mut Command) -> usize {
    let ran = command.output().unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "{said}{}", String::from_utf8_lossy(&ran.stderr));
    said.trim().strip_prefix("verified ").and_then(|count| count.parse().ok()).unwrap()
}

#[test]
fn others_verify_what_the_page_finds() {
    if Command::new("node").arg("--version").output().is_err() {
        println!("skipped: {PURPOSE}: node is not installed");
        return;
    }
    let Some(npm) = packages(Path::new(env!("CARGO_TARGET_TMPDIR")), &CHALLENGE_PACKAGES, PURPOSE) else {
        return;
    };
    let solver = format!("{FOLDER}/solver.mjs");
    assert_eq!(verified(Command::new("node").arg(&solver).arg(&npm)), 104);
    let Some(python) = environment("altcha", &["altcha==2.3.0"], PURPOSE) else { return };
    let script = format!("{FOLDER}/solver.py");
    let mut command = Command::new(python.join("bin/python"));
    assert_eq!(verified(command.arg(script).arg("node").arg(&solver).arg(&npm)), 130);
}
