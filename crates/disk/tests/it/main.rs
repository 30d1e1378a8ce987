//! Written files are whole, private, and written by this crate alone.

mod devices;
mod logs;

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use disk::AtomicFile;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_file_is_replaced_whole_and_is_its_owners() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("file.json");
    fs::write(&path, "old").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();

    let mut draft = AtomicFile::of(&path).unwrap();
    draft.write_all(b"new").unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "old", "not before it is placed");
    drop(draft);
    assert_eq!(
        (fs::read_to_string(&path).unwrap().as_str(), names(parent.path())),
        ("old", vec!["file.json".into()])
    );

    disk::replace(&path, b"new").unwrap();
    assert_eq!((fs::read_to_string(&path).unwrap().as_str(), mode(&path)), ("new", 0o600));
    assert_eq!(names(parent.path()), ["file.json"]);
}

#[test]
fn a_draft_that_a_crash_left_is_made_anew() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("file");
    let half = parent.path().join("file.half");
    fs::write(&half, "much longer than what comes").unwrap();
    fs::set_permissions(&half, fs::Permissions::from_mode(0o666)).unwrap();
    disk::replace(&path, b"short").unwrap();
    assert_eq!((fs::read_to_string(&path).unwrap().as_str(), mode(&path)), ("short", 0o600));
}

#[test]
fn a_new_file_takes_no_other_ones_place() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("export");
    let mut draft = AtomicFile::of_new(&path).unwrap();
    draft.write_all(b"mine").unwrap();
    fs::write(&path, "of somebody who came first").unwrap();
    assert_eq!(draft.commit().unwrap_err().kind(), std::io::ErrorKind::AlreadyExists);
    assert_eq!(fs::read_to_string(&path).unwrap(), "of somebody who came first");
    assert!(AtomicFile::of_new(&path).is_err());
    fs::remove_file(&path).unwrap();
    let mut draft = AtomicFile::of_new(&path).unwrap();
    draft.write_all(b"mine").unwrap();
    draft.commit().unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
    assert_eq!(names(parent.path()), ["export"]);
}

#[test]
fn copies_and_directories_are_their_owners() {
    let parent = tempfile::tempdir().unwrap();
    let (from, to) = (parent.path().join("from"), parent.path().join("a/to"));
    disk::create_directories(&from).unwrap();
    disk::create_directories(to.parent().unwrap()).unwrap();
    fs::write(from.join("file"), "0123456789").unwrap();
    fs::set_permissions(from.join("file"), fs::Permissions::from_mode(0o644)).unwrap();
    disk::copy_flat(&from, &to).unwrap();
    assert_eq!([mode(&from), mode(&to), mode(&to.join("file"))], [0o700, 0o700, 0o600]);
    disk::copy(&from.join("file"), &to.join("part"), 4).unwrap();
    assert_eq!(fs::read_to_string(to.join("part")).unwrap(), "0123");
    assert_eq!(disk::exposed(&from.join("file")).unwrap(), Some(0o644));
    assert_eq!(disk::exposed(&to.join("file")).unwrap(), None);
}

#[test]
fn a_sealed_text_is_the_same_in_every_bit() {
    for text in [&b""[..], b"x", b"{\"a\": 1}\n# crc32 00000000\n"] {
        let sealed = disk::seal(text);
        assert_eq!(disk::unseal(&sealed), Some(text));
        for at in 0..sealed.len() {
            for bit in 0..8 {
                let mut flipped = sealed.clone();
                flipped[at] ^= 1 << bit;
                assert_eq!(disk::unseal(&flipped), None, "bit {bit} of byte {at}");
            }
            assert_eq!(disk::unseal(&sealed[..at]), None, "cut at {at}");
        }
    }
}

/// The part of a source file that is no test.
fn product(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default().to_owned()
}

fn sources(directory: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") && !path.ends_with("tests.rs") {
            into.push(path);
        }
    }
}

/// A file that is written anywhere else may be half, or lie open.
#[test]
fn files_are_made_and_renamed_by_this_crate_alone() {
    const WAYS: [&str; 9] = [
        "fs::rename",
        ".persist(",
        "fs::write(",
        "fs::copy(",
        "File::create",
        "fs::create_dir",
        ".create(true)",
        ".create_new(true)",
        "DirBuilder",
    ];
    /// Places that write what is no data: a manual, pages of the reference, what a measurement needs, what tests keep in memory.
    const OTHERS: [&str; 5] = [
        "tollhouse/src/commands/man.rs",
        "tollhouse/src/reference.rs",
        "tollhouse/src/commands/bench/",
        "store/src/memory.rs",
        "sim/src/",
    ];
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut files = Vec::new();
    for entry in fs::read_dir(crates).unwrap() {
        let source = entry.unwrap().path().join("src");
        if source.is_dir() && !source.starts_with(crates.join("disk")) {
            sources(&source, &mut files);
        }
    }
    assert!(files.len() > 100, "{} sources", files.len());
    let mut found = Vec::new();
    for path in files {
        let name = path.strip_prefix(crates).unwrap().display().to_string();
        if OTHERS.iter().any(|other| name.starts_with(other)) {
            continue;
        }
        for (number, line) in product(&path).lines().enumerate() {
            let opened_privately = line.contains("disk::private()");
            if !opened_privately && WAYS.iter().any(|way| line.contains(way)) {
                found.push(format!("{name}:{}: {}", number + 1, line.trim()));
            }
        }
    }
    assert!(found.is_empty(), "use the crate `disk`:\n{}", found.join("\n"));
}
