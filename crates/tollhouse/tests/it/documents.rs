//! What the documents tell people to type works.

use std::process::Command;

use rustix::process::Signal;

use crate::program::{Data, Server};

/// The shell lines of a document's fenced `sh` blocks, but for those that start the program.
fn shell(document: &str) -> String {
    let blocks = document.split("\n```sh\n").skip(1).filter_map(|rest| rest.split("\n```").next());
    let lines = blocks
        .flat_map(str::lines)
        .filter(|line| !line.starts_with("tollhouse ") && !line.starts_with("TOLL="));
    lines.map(|line| format!("{line}\n")).collect()
}

#[test]
fn the_examples_over_http_work() {
    if Command::new("curl").arg("--version").output().is_err() {
        println!("skipped: the documented curl lines work: curl is not installed");
        return;
    }
    let lines = shell(include_str!("../../../../docs/http.md"));
    assert!(lines.matches("curl ").count() >= 12, "{lines}");
    // Every answer must be a success, and every part of a pipe.
    let script = format!("set -euo pipefail\n{}", lines.replace("curl -s ", "curl -sSf "));
    let data = Data::new(&["mail", "web", "analytics"]);
    let server = Server::start(&data.path(), &[]);
    let folder = tempfile::tempdir().unwrap();
    let ran = Command::new("bash")
        .args(["-c", &script])
        .current_dir(folder.path())
        .env("TOLL", &server.url)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{said}\n{script}");
    let answers = String::from_utf8_lossy(&ran.stdout);
    for part in ["\"action\":", "\"duplicate\":false", "\"buckets\":", "tollhouse_judge_verdicts"] {
        assert!(answers.contains(part), "{part} is missing in {answers}");
    }
    assert_eq!(server.end(Signal::TERM), Some(0));
}
