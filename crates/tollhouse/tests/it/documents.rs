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

/// The fenced `toml` blocks of a document.
fn settings(document: &str) -> impl Iterator<Item = &str> {
    document.split("\n```toml\n").skip(1).filter_map(|rest| rest.split("\n```").next())
}

#[test]
fn the_guides_settings_are_taken() {
    let guides = [
        ("postfix.md", include_str!("../../../../docs/guides/postfix.md")),
        ("exim.md", include_str!("../../../../docs/guides/exim.md")),
        ("from-rspamd.md", include_str!("../../../../docs/guides/from-rspamd.md")),
        ("feedback.md", include_str!("../../../../docs/guides/feedback.md")),
        ("authentication.md", include_str!("../../../../docs/guides/authentication.md")),
    ];
    for (name, guide) in guides {
        assert!(settings(guide).count() > 0, "{name}");
        for block in settings(guide) {
            let data = Data::new(&["mail"]);
            let path = data.path().join("tollhouse.toml");
            let made = std::fs::read_to_string(&path).unwrap();
            let written = if block.starts_with('[') {
                format!("{made}\n{block}\n")
            } else if block.starts_with("tokens =") {
                made.replace("[server]\n", &format!("[server]\n{block}\n"))
            } else {
                // What a listener has besides.
                let listen = if block.contains("listen =") { "" } else { "listen = \"127.0.0.1:11332\"\n" };
                format!("{made}\n[[listener]]\nname = \"one\"\nprotocol = \"milter\"\n{listen}{block}\n")
            };
            std::fs::write(&path, &written).unwrap();
            let checked = data.run(&["config", "check"], "");
            assert_eq!(checked.code, 0, "{name}:\n{block}\n{}{}", checked.stdout, checked.stderr);
        }
    }
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
