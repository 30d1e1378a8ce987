//! The pages of `docs/start`: each command runs, and prints what stands behind it.

use std::fs;
use std::path::Path;
use std::process::Command;

use regex::Regex;

/// A line between what two blocks print.
const MARK: &str = "@@@";

/// The secret of all directories: by one drawn anew, approximate counts of the pages would differ from run to run.
const SECRET: &str = "000102030405060708090a0b0c0d0e0f";

/// Times that a page is run until it prints what it says. Commands without a directory draw a secret of their own, with which an
/// approximate count is another one in three runs of a hundred.
const RUNS: usize = 4;

/// A block of shell lines, and where the page has what they print, if it does.
struct Block<'a> {
    script: &'a str,
    printed: Option<&'a str>,
}

/// The shell blocks of a page but for the one that builds the program.
fn blocks(page: &str) -> Vec<Block<'_>> {
    let parts = page.split("\n```sh\n").skip(1).map(|part| {
        let (script, rest) = part.split_once("\n```\n").unwrap();
        let printed = rest.strip_prefix("\n```text\n").map(|rest| &rest[..rest.find("```").unwrap()]);
        Block { script, printed }
    });
    parts.filter(|block| !block.script.starts_with("cargo ")).collect()
}

/// A text without what differs from run to run: ids, versions, secret hashes, times, rates and the length of lines.
fn masked(text: &str) -> String {
    let mut text = text.trim_end().to_owned();
    for (pattern, with) in [
        (r"\b\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME"),
        (r"\b[0-9a-f]{16}\b", "HASH"),
        (r"\b[0-9][0-9a-z]{12}\b", "ID"),
        (r"[\d,.]+ (rows|decisions) a second", "RATE"),
        (r"(?m) +$", ""),
    ] {
        text = Regex::new(pattern).unwrap().replace_all(&text, with).into_owned();
    }
    text
}

/// Runs a page's blocks in one shell, in a folder that has the repository's samples. What each of them prints.
fn run(name: &str, blocks: &[Block<'_>]) -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let folder = tempfile::tempdir().unwrap();
    for samples in ["corpora", "examples"] {
        std::os::unix::fs::symlink(root.join(samples), folder.path().join(samples)).unwrap();
    }
    // The server takes a free port, and is waited for.
    let mut script =
        String::from("set -euo pipefail\ntrap 'kill $(jobs -p) 2> /dev/null || true; wait' EXIT\n");
    for block in blocks {
        for line in block.script.lines() {
            let line = line.replace("http://127.0.0.1:8377", "$TOLL");
            let directory =
                line.strip_prefix("tollhouse init ").and_then(|rest| rest.split("--data ").nth(1));
            let line = match directory {
                Some(directory) => format!("{line}\necho {SECRET} > {directory}/secret"),
                None => line,
            };
            script += &match line.strip_suffix(" &") {
                Some(serve) => format!(
                    "{serve} --listen 127.0.0.1:0 2> served &\n\
                     until TOLL=$(grep -o 'http://127[0-9.:]*' served); do sleep 0.05; done\n"
                ),
                None => line + "\n",
            };
        }
        script += &format!("echo {MARK}\n");
    }
    let program = Path::new(env!("CARGO_BIN_EXE_tollhouse"));
    let path = format!("{}:{}", program.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let mut bash = Command::new("bash");
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("TOLLHOUSE_"))
    {
        bash.env_remove(name);
    }
    let ran = bash.args(["-c", &script]).current_dir(folder.path()).env("PATH", path).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{name}: {out}{err}\n{script}");
    let address = Regex::new(r"http://127\.0\.0\.1:\d+").unwrap();
    let out = address.replace_all(&out, "http://127.0.0.1:8377").into_owned();
    out.split(&format!("{MARK}\n")).map(str::to_owned).collect()
}

/// `UPDATE=1` writes what is printed into the pages.
fn check(name: &str) {
    if Command::new("curl").arg("--version").output().is_err() {
        println!("skipped: the commands of docs/start/{name}.md: curl is not installed");
        return;
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../docs/start/{name}.md"));
    let page = fs::read_to_string(&path).unwrap();
    let blocks = blocks(&page);
    assert!(blocks.len() >= 3, "{name}");
    let is_as_said = |printed: &[String]| {
        let said = blocks.iter().zip(printed).filter_map(|(block, out)| Some((block.printed?, out)));
        said.into_iter().all(|(said, out)| masked(said) == masked(out))
    };
    let mut printed = run(name, &blocks);
    for _ in 1..RUNS {
        if !is_as_said(&printed) {
            printed = run(name, &blocks);
        }
    }
    let mut written = page.clone();
    for (block, out) in blocks.iter().zip(printed) {
        let Some(printed) = block.printed else { continue };
        if masked(printed) == masked(&out) {
            continue;
        }
        assert!(
            std::env::var_os("UPDATE").is_some(),
            "docs/start/{name}.md is old: UPDATE=1 cargo test -p tollhouse --test it start\n{}\nprints\n{out}",
            block.script
        );
        let old = format!("{}\n```\n\n```text\n{printed}```", block.script);
        let new = format!("{}\n```\n\n```text\n{}\n```", block.script, out.trim_end());
        written = written.replacen(&old, &new, 1);
    }
    if written != page {
        fs::write(&path, written).unwrap();
    }
}

#[test]
fn mail() {
    check("mail");
}

#[test]
fn site() {
    check("site");
}

#[test]
fn events() {
    check("events");
}

#[test]
fn analytics() {
    check("analytics");
}

#[test]
fn login() {
    check("login");
}

#[test]
fn comments() {
    check("comments");
}

#[test]
fn signup() {
    check("signup");
}

#[test]
fn api() {
    check("api");
}

#[test]
fn payment() {
    check("payment");
}

/// The README's picture is what the command in it prints.
#[test]
fn the_picture_is_no_older_than_the_program() {
    let script = "tollhouse init --data shop\ncp examples/shop/signups.toml shop/tollhouse.toml\n\
        ID=$(tollhouse replay --data shop --all --json examples/shop/signups.ndjson | tail -1 | sed 's/.*\"id\":\"\\([^\"]*\\)\".*/\\1/')\n\
        tollhouse explain --data shop $ID";
    let printed = run("explain.svg", &[Block { script, printed: None }]).swap_remove(0);
    let picture = include_str!("../../../../docs/explain.svg");
    let tags = Regex::new("<[^>]*>").unwrap();
    // The first line is the command.
    let drawn = picture.lines().filter(|line| line.starts_with("<text")).skip(1).map(|line| {
        tags.replace_all(line, "").replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
    });
    let printed: String =
        printed.lines().filter(|line| !line.is_empty()).map(|line| format!("{line}\n")).collect();
    let drawn: String = drawn.map(|line| format!("{line}\n")).collect();
    assert_eq!(masked(&drawn), masked(&printed), "scripts/picture draws docs/explain.svg anew");
}

/// The running example of the documents is one, and as long as they say.
#[test]
fn the_shop_is_quoted_whole() {
    let shop = include_str!("../../../../examples/shop/signups.toml");
    let settings = shop.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    assert_eq!(settings.count(), 24);
    for page in
        [include_str!("../../../../docs/concepts.md"), include_str!("../../../../docs/start/events.md")]
    {
        assert!(page.contains(&format!("\n```toml\n{shop}```\n")) && page.contains("24 lines"));
    }
}
