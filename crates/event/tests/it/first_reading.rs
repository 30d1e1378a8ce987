//! The files that CONTRIBUTING.md has a newcomer read are there, and few enough for one sitting.

use std::fs;
use std::path::{Path, PathBuf};

use crate::sources::rust_files;

/// Every file is less than this many lines in all.
const LINES_MAX: usize = 1_700;

/// The files of a paragraph, as links and in code marks.
fn named(paragraph: &str) -> Vec<&str> {
    let links = paragraph.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let marked = paragraph.split('`').skip(1).step_by(2);
    links.chain(marked).collect()
}

/// The lines of a file, or of the Rust files below a folder.
fn lines(path: &Path) -> usize {
    let mut files: Vec<PathBuf> = Vec::new();
    if path.is_dir() {
        rust_files(path, &mut files)
    } else {
        files.push(path.to_owned())
    }
    assert!(!files.is_empty(), "{}: there is no source", path.display());
    let read = |file: &PathBuf| {
        fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
    };
    files.iter().map(|file| read(file).lines().count()).sum()
}

#[test]
fn a_newcomer_reads_little() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(root.join("CONTRIBUTING.md")).unwrap();
    let paragraph =
        page.split("\n\n").find(|paragraph| paragraph.starts_with("Read first, less than 1,700 lines"));
    let files = named(paragraph.expect("CONTRIBUTING.md says what to read first"));
    let begins = [
        "README",
        "docs/concepts",
        "ARCHITECTURE",
        "crates/engine",
        "presets",
        "crates/stats",
        "crates/server",
    ];
    assert_eq!(files.len(), begins.len(), "{files:?}");
    let is_whole = files.iter().zip(begins).all(|(file, begin)| file.starts_with(begin));
    assert!(is_whole, "documents, the flow, a preset, a statistic, a protocol are not {files:?}");
    let counts: Vec<(&str, usize)> = files.iter().map(|file| (*file, lines(&root.join(file)))).collect();
    let all: usize = counts.iter().map(|(_, lines)| lines).sum();
    assert!(all < LINES_MAX, "{all} lines are to be read first: {counts:?}");
    let flow = fs::read_to_string(root.join(files[3])).unwrap();
    assert!(flow.contains("pub async fn decide("), "`decide` is not in {}", files[3]);
}
