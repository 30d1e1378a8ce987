//! Test data of others: peers' test suites, real mail, real logs. Used by tests and benchmarks alone.
//!
//! ```
//! let Some(folder) = corpora::folder("mail/auth/spf") else { return };
//! assert!(!corpora::files(&folder).is_empty());
//! ```
//!
//! A set is looked for in three places: under `TOLLHOUSE_TEST_DATA`, in `test-data/` (where `scripts/test-data` puts the
//! complete sets), and beside the workspace. The small cases that may ship lie in `corpora/peers/`, and stand in for a
//! set that was not fetched.

use std::path::{Path, PathBuf};

/// The path of a set, such as `mail/mime` or `text/sms.tsv`: the complete one, or else the cases of it that ship.
/// Prints that the test is skipped where neither is there.
pub fn folder(name: &str) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let places = [
        std::env::var_os("TOLLHOUSE_TEST_DATA").map(PathBuf::from),
        Some(root.join("test-data")),
        Some(root.join("../shared/data")),
        Some(root.join("corpora/peers")),
    ];
    let found = places.into_iter().flatten().map(|place| place.join(name)).find(|path| path.exists());
    if found.is_none() {
        println!("skipped: {name} is absent (scripts/test-data fetches what is public)");
    }
    found
}

/// All files beneath a folder, in order.
///
/// # Panics
///
/// Panics if a folder cannot be read.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries =
            std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        for path in entries.map(|entry| entry.expect("an entry of a folder can be read").path()) {
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    files
}
