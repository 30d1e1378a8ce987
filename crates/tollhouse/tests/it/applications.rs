//! Presets for applications: their clients in `examples/applications`, the scripts that make and judge their corpora.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rustix::process::Signal;

use crate::program::{Data, Server};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Runs a program, or prints that the test is skipped where it is not installed.
fn run(program: &str, purpose: &str, set: impl FnOnce(&mut Command)) -> Option<Output> {
    if Command::new(program).arg("--version").output().is_err() {
        println!("skipped: {purpose}: {program} is not installed");
        return None;
    }
    let mut command = Command::new(program);
    // Nothing is written beside the scripts.
    command.current_dir(root()).env("PYTHONDONTWRITEBYTECODE", "1");
    set(&mut command);
    Some(command.output().unwrap())
}

/// Each client says whom it lets pass, and that it refuses the others; it fails if it is otherwise.
fn check_clients(preset: &str) {
    for (program, ending) in [("python3", "py"), ("node", "mjs")] {
        let data = Data::new(&[preset]);
        let server = Server::start(&data.path(), &[]);
        let script = format!("examples/applications/{preset}.{ending}");
        let Some(ran) = run(program, &script, |command| {
            command.args([&script, &server.url]);
        }) else {
            continue;
        };
        let said = String::from_utf8_lossy(&ran.stdout);
        assert!(ran.status.success(), "{script}: {said}{}", String::from_utf8_lossy(&ran.stderr));
        assert!(said.contains("honest: accept") && said.contains("abuse: "), "{script}: {said}");
        assert_eq!(server.end(Signal::TERM), Some(0));
    }
}

#[test]
fn log_ins_are_asked_about() {
    check_clients("login");
}

#[test]
fn comments_are_asked_about() {
    check_clients("comments");
}

#[test]
fn sign_ups_are_asked_about() {
    check_clients("signup");
}

#[test]
fn requests_are_asked_about() {
    check_clients("api");
}

#[test]
fn payments_are_asked_about() {
    check_clients("payment");
}

/// The committed corpora are what the scripts make, byte for byte.
#[test]
fn the_corpora_are_made_by_their_scripts() {
    let script = "\
import gzip, pathlib, sys
sys.path.insert(0, 'corpora/applications')
import make
for preset in make.PRESETS:
    for text, ending in zip(make.committed(preset), make.ENDINGS):
        path = pathlib.Path(f'corpora/applications/{preset}.{ending}.gz')
        assert gzip.decompress(path.read_bytes()).decode() == text, f'{path} is old: make.py --committed'
        print(path)
";
    let purpose = "corpora/applications is what its scripts make";
    let Some(ran) = run("python3", purpose, |command| {
        command.args(["-c", script]);
    }) else {
        return;
    };
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(
        ran.status.success() && said.lines().count() >= 2,
        "{said}{}",
        String::from_utf8_lossy(&ran.stderr)
    );
}

#[test]
fn presets_are_measured() {
    let purpose = "scripts/applications measures a preset";
    let Some(ran) = run("python3", purpose, |command| {
        let words = [
            "scripts/applications",
            "login",
            "--seed",
            "1",
            "--mix",
            "usual",
            "--size",
            "0.05",
            "--tollhouse",
        ];
        command.args(words).arg(env!("CARGO_BIN_EXE_tollhouse"));
    }) else {
        return;
    };
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "{said}{}", String::from_utf8_lossy(&ran.stderr));
    for part in ["precision ", "honest sessions met ", "abuse: stuffing, one address", "honest: office"] {
        assert!(said.contains(part), "{part} is missing in {said}");
    }
}
