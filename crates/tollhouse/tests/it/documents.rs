//! Instructions of the documents, carried out.

use std::path::{Path, PathBuf};
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

/// `cargo run`, the README's first command, wants one program among the packages that it builds unless told others.
#[test]
fn cargo_run_needs_no_name_of_a_program() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let arguments = ["metadata", "--no-deps", "--format-version=1", "--offline"];
    let output = Command::new(cargo).args(arguments).current_dir(root).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let built = metadata["workspace_default_members"].as_array().unwrap();
    let packages =
        metadata["packages"].as_array().unwrap().iter().filter(|package| built.contains(&package["id"]));
    let targets = packages.flat_map(|package| package["targets"].as_array().unwrap());
    let programs: Vec<_> = targets
        .filter(|target| target["kind"] == serde_json::json!(["bin"]))
        .map(|target| &target["name"])
        .collect();
    assert_eq!(programs, ["tollhouse"]);
}

#[test]
fn the_guides_settings_are_taken() {
    let guides = [
        ("postfix.md", include_str!("../../../../docs/guides/postfix.md")),
        ("exim.md", include_str!("../../../../docs/guides/exim.md")),
        ("from-rspamd.md", include_str!("../../../../docs/guides/from-rspamd.md")),
        ("content.md", include_str!("../../../../docs/guides/content.md")),
        ("feedback.md", include_str!("../../../../docs/guides/feedback.md")),
        ("authentication.md", include_str!("../../../../docs/guides/authentication.md")),
        ("sinks.md", include_str!("../../../../docs/guides/sinks.md")),
        ("tls.md", include_str!("../../../../docs/operating/tls.md")),
        ("program-logs.md", include_str!("../../../../docs/guides/program-logs.md")),
        ("personal-data.md", include_str!("../../../../docs/operating/personal-data.md")),
    ];
    for (name, guide) in guides {
        assert!(settings(guide).count() > 0, "{name}");
        for block in settings(guide) {
            let data = Data::new(&["mail"]);
            let path = data.path().join("tollhouse.toml");
            let made = std::fs::read_to_string(&path).unwrap();
            let written = if block.starts_with("[server]\n") {
                let (server, more) = block.split_once("\n\n").unwrap_or((block, ""));
                format!("{}\n{more}\n", made.replace("[server]\n", &format!("{server}\n")))
            } else if block.starts_with('[') {
                format!("{made}\n{block}\n")
            } else if block.starts_with("preset =") {
                made.replace("preset = \"mail\"\n", block)
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
    let lines = shell(include_str!("../../../../docs/reference/http.md"));
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

/// The names by which links lead into a page: of its headings, as forges make them, and those that are set by hand.
fn anchors(page: &str) -> Vec<String> {
    let mut is_code = false;
    let mut names = Vec::new();
    for line in page.lines() {
        is_code ^= line.starts_with("```");
        if let Some(name) = line.strip_prefix("<a id=\"").and_then(|rest| rest.split('"').next()) {
            names.push(name.to_owned());
        }
        let title = line.trim_start_matches('#');
        if !is_code && title.len() < line.len() && title.starts_with(' ') {
            let kept = title.trim().chars().filter(|c| c.is_alphanumeric() || ['-', '_', ' '].contains(c));
            names.push(kept.collect::<String>().to_lowercase().replace(' ', "-"));
        }
    }
    names
}

/// The relative links of a page, outside of code.
fn links(page: &str) -> Vec<&str> {
    let text = page.split("\n```").step_by(2).flat_map(|text| text.split("](").skip(1));
    let targets = text.filter_map(|rest| rest.split([')', ' ', '\n']).next());
    targets.filter(|target| !target.contains("://")).collect()
}

/// All pages in a folder; those below it, too.
fn pages(folder: &Path, into: &mut Vec<PathBuf>) {
    for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        match path.is_dir() {
            true => pages(&path, into),
            false if path.extension().is_some_and(|ending| ending == "md") => into.push(path),
            false => {}
        }
    }
}

#[test]
fn links_lead_to_pages_and_headings() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let at_root = ["ARCHITECTURE", "CHANGELOG", "CODE_OF_CONDUCT", "CONTRIBUTING", "README", "SECURITY"];
    let mut all: Vec<PathBuf> = at_root.iter().map(|name| root.join(name).with_extension("md")).collect();
    pages(&root.join("docs"), &mut all);
    let mut wrong = Vec::new();
    for page in &all {
        let text = std::fs::read_to_string(page).unwrap();
        for link in links(&text) {
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if path.is_empty() { page.clone() } else { page.parent().unwrap().join(path) };
            let there = target.canonicalize().ok().filter(|target| target.starts_with(&root));
            let is_found = match there {
                Some(there) if !anchor.is_empty() => {
                    anchors(&std::fs::read_to_string(there).unwrap()).iter().any(|name| name == anchor)
                }
                Some(_) => true,
                None => false,
            };
            if !is_found {
                wrong.push(format!("{}: {link}", page.strip_prefix(&root).unwrap().display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// All files and folders of the repository's that documents may name, relative to its root.
fn sources(root: &Path, folder: &Path, into: &mut Vec<String>) {
    for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name.starts_with('.') || name == "target" {
            continue;
        }
        into.push(path.strip_prefix(root).unwrap().to_string_lossy().into_owned());
        if path.is_dir() {
            sources(root, &path, into);
        }
    }
}

/// The files and folders that a page names in code marks and that do not exist, with the line. One is named from the
/// repository's root, from a folder that the heading above names, or from the crate of another one on the line.
fn missing_sources(page: &str, sources: &[String]) -> Vec<String> {
    let marked =
        |line: &str| -> Vec<String> { line.split('`').skip(1).step_by(2).map(str::to_owned).collect() };
    let mut folders = Vec::new();
    let mut missing = Vec::new();
    for (number, line) in (1..).zip(page.lines()) {
        if line.starts_with('#') {
            folders = marked(line);
        }
        let mut folders = folders.clone();
        for name in marked(line) {
            if let Some((krate, _)) = name.strip_prefix("crates/").and_then(|rest| rest.split_once('/')) {
                folders.push(format!("crates/{krate}"));
            }
            let is_path = name.ends_with(".rs") || name.ends_with('/');
            if !is_path || name.contains([' ', '*', '<']) {
                continue;
            }
            let path = name.trim_end_matches('/');
            let is_there = sources.iter().any(|source| {
                source == path
                    || folders.iter().any(|folder| {
                        let rest = source.strip_prefix(folder.trim_end_matches('/'));
                        rest.is_some_and(|rest| rest.ends_with(&format!("/{path}")))
                    })
            });
            if !is_there {
                missing.push(format!("{number}: {name}"));
            }
        }
    }
    missing
}

#[test]
fn the_files_that_documents_name_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let mut all = Vec::new();
    sources(&root, &root, &mut all);
    for page in ["ARCHITECTURE.md", "CONTRIBUTING.md"] {
        let text = std::fs::read_to_string(root.join(page)).unwrap();
        assert!(text.matches(".rs`").count() > 0, "{page} names no file");
        assert_eq!(missing_sources(&text, &all), [""; 0], "of {page}");
    }
    let page = "## Of `crates/event/src/`\n`time.rs`, `gone.rs`, `crates/disk/`, `crates/gone/`\n";
    assert_eq!(missing_sources(page, &all), ["2: gone.rs", "2: crates/gone/"]);
}
