//! Files as seen from outside, by which it is noticed that one was written or replaced.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The state of a file as seen from outside, just before it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileStamp {
    length: u64,
    modified: (i64, i64),
    changed: (i64, i64),
    file: (u64, u64),
}

/// The files that were read, with what they looked like: two are equal if no file was written or replaced between.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileStamps(Vec<(PathBuf, Option<FileStamp>)>);

impl FileStamps {
    /// Looks at a file that is about to be read.
    pub(super) fn add(&mut self, path: &Path) {
        if !self.0.iter().any(|(other, _)| other == path) {
            self.0.push((path.to_path_buf(), stamp(path)));
        }
    }

    /// Looks at the same files again.
    pub fn look_again(&self) -> FileStamps {
        FileStamps(self.0.iter().map(|(path, _)| (path.clone(), stamp(path))).collect())
    }
}

/// Links are followed: what is replaced may be what a link names. `None` for a file that is not there.
fn stamp(path: &Path) -> Option<FileStamp> {
    let metadata = std::fs::metadata(path).ok()?;
    Some(FileStamp {
        length: metadata.len(),
        modified: (metadata.mtime(), metadata.mtime_nsec()),
        changed: (metadata.ctime(), metadata.ctime_nsec()),
        file: (metadata.dev(), metadata.ino()),
    })
}
