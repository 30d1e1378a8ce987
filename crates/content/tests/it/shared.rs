//! Where the shared test data is, for those who have it.

use std::path::{Path, PathBuf};

/// A folder of the shared data: under `TOLLHOUSE_SHARED`, else beside the workspace. Says so where it is absent.
pub(crate) fn folder(name: &str) -> Option<PathBuf> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let root = std::env::var_os("TOLLHOUSE_SHARED").map_or_else(beside, PathBuf::from);
    let folder = root.join(name);
    if !folder.exists() {
        println!("skipped: {} is absent", folder.display());
        return None;
    }
    Some(folder)
}

/// All files beneath a folder, in order.
pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { folders.push(path) } else { found.push(path) }
        }
    }
    found.sort();
    found
}
