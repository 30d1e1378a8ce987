//! Copies of a whole data directory, and back.
//!
//! ```text
//! snapshot   TARGET.partial: configuration, ledger, journal, secret ─► sync ─► TARGET
//! restore    DIR: configuration, ledger, journal ─► verify ─► secret
//! ```
//!
//! The ledger comes before the journal: a decision that was counted has its row in the copy, unless it was being made
//! at that moment. Files that will never change again are hard links where the file system can.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use event::Time;
use journal::JournalError;
use stats::{CancellationCheck, EmbeddedLedger, Ledger, LedgerError};

use super::verification::{DirectoryPart, DirectoryVerification};
use super::{Directory, DirectoryError, io_error};
use crate::EngineOpenError;
use crate::content_keys;

/// Largest file beside ledger and journal that is copied: configurations, sets and models are.
const SETTINGS_BYTES_MAX: u64 = catboost::ModelLimits::FILE_BYTES as u64;

/// The end of the name of a snapshot that is being made.
const PARTIAL: &str = ".partial";
/// The length of the time in a snapshot's name.
const STAMP_BYTES: usize = "20261121T090753Z".len();
/// Most snapshots that are listed.
const LISTED_MAX: usize = 1000;
/// Most files whose bytes are added up for a list.
const FILES_MAX: usize = 100_000;

/// Reasons for a failed restore. Nothing of it is left in the target.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The target is not empty.
    #[error("{0} is not empty: a snapshot is restored into a directory that is missing or empty")]
    NotEmpty(PathBuf),
    /// Parts of it cannot be read any more.
    #[error("the snapshot is damaged")]
    Damaged(Box<DirectoryVerification>),
    /// The directory is no data directory, or files could not be read or written.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// The snapshot could not be opened to be verified.
    #[error(transparent)]
    Open(#[from] EngineOpenError),
}

/// The name of a snapshot that is made now: `20261121T090753Z`.
pub(crate) fn name(now: Time) -> String {
    let text = Time::from_seconds(now.seconds()).to_string();
    text.chars().filter(char::is_ascii_alphanumeric).collect()
}

/// Returns the time that a snapshot's name says.
fn time_of(name: &str) -> Option<Time> {
    let stamp = name.split('-').next().filter(|stamp| stamp.len() == STAMP_BYTES)?;
    let part = |from: usize, to: usize| stamp.get(from..to);
    let date = format!("{}-{}-{}", part(0, 4)?, part(4, 6)?, part(6, 8)?);
    let clock = format!("{}:{}:{}", part(9, 11)?, part(11, 13)?, part(13, 15)?);
    let time: Time = format!("{date}T{clock}Z").parse().ok()?;
    // Names of another form say no time.
    (self::name(time) == stamp).then_some(time)
}

/// A snapshot that lies in the folder of a data directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptSnapshot {
    /// Its name.
    pub name: String,
    /// The time at which it was made, if its name says that.
    pub time: Option<Time>,
    /// The bytes of its files; `None` if there are too many to count, or it goes away meanwhile.
    pub bytes: Option<u64>,
}

impl Directory {
    /// Returns the snapshots in the directory, the newest first: the latest [`LISTED_MAX`]. One that is being made is none yet.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn snapshots(&self, is_over: CancellationCheck<'_>) -> Result<Vec<KeptSnapshot>, DirectoryError> {
        let mut files_left = FILES_MAX;
        let folder = self.snapshots_path();
        let is_whole = |name: &String| !name.ends_with(PARTIAL) && folder.join(name).is_dir();
        let names = self.snapshot_names()?.into_iter().rev().filter(is_whole).take(LISTED_MAX);
        let kept = names.map(|name| {
            let (time, path) = (time_of(&name), folder.join(&name));
            KeptSnapshot { time, bytes: bytes_of(&path, &mut files_left, is_over), name }
        });
        Ok(kept.collect())
    }

    /// The folder of a server's snapshots.
    pub fn snapshots_path(&self) -> PathBuf {
        self.path.join("snapshots")
    }

    /// Makes `target`, which must be missing, a copy of this data directory, which no process may have open. The
    /// copy is a data directory itself.
    ///
    /// # Errors
    /// [`EngineOpenError::Device`] of the kind `WouldBlock` if it is in use; or what could not be read or written.
    pub fn snapshot(&self, target: &Path) -> Result<(), EngineOpenError> {
        let (ledger, _) = self.open_ledger(None)?;
        let journal = self.journal_path();
        let made = self.snapshot_of(target, &ledger, |to| journal::snapshot(&journal, to), &|| Ok(()));
        ledger.close()?;
        made
    }

    /// Makes a snapshot of open parts, as [`Directory::snapshot`] does. It ends with the error that it is told before one of
    /// them, and leaves nothing behind.
    pub(crate) fn snapshot_of<E>(
        &self,
        target: &Path,
        ledger: &EmbeddedLedger,
        journal: impl FnOnce(&Path) -> Result<(), JournalError>,
        go_on: &dyn Fn() -> Result<(), E>,
    ) -> Result<(), E>
    where
        E: From<DirectoryError> + From<LedgerError> + From<JournalError>,
    {
        if target.symlink_metadata().is_ok() {
            let error = io::Error::new(io::ErrorKind::AlreadyExists, "it exists already");
            return Err(io_error(target)(error).into());
        }
        let mut partial = target.as_os_str().to_owned();
        partial.push(PARTIAL);
        let partial = PathBuf::from(partial);
        let made = self.copy_into(&partial, ledger, journal, go_on).and_then(|()| {
            go_on()?;
            let renamed = disk::place(&partial, target);
            Ok(renamed.map_err(io_error(target))?)
        });
        if made.is_err() {
            // What was linked or copied is of no use; why it ended is told.
            let _ = fs::remove_dir_all(&partial);
        }
        made
    }

    fn copy_into<E>(
        &self,
        partial: &Path,
        ledger: &EmbeddedLedger,
        journal: impl FnOnce(&Path) -> Result<(), JournalError>,
        go_on: &dyn Fn() -> Result<(), E>,
    ) -> Result<(), E>
    where
        E: From<DirectoryError> + From<LedgerError> + From<JournalError>,
    {
        if let Some(parent) = partial.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            disk::create_directories(parent).map_err(io_error(parent))?;
        }
        // One that was interrupted.
        if partial.exists() {
            fs::remove_dir_all(partial).map_err(io_error(partial))?;
        }
        disk::create_directory(partial).map_err(io_error(partial))?;
        let to = Directory { path: partial.to_path_buf() };
        self.copy_settings(&to)?;
        self.copy_rules(&to)?;
        go_on()?;
        ledger.snapshot(&to.ledger_path())?;
        go_on()?;
        journal(&to.journal_path())?;
        self.copy_secret(&to)?;
        Ok(disk::sync_directory(partial).map_err(io_error(partial))?)
    }

    /// Copies the files that lie in the directory itself, but for the secret: the configuration. The keys of content are not
    /// copied: whoever has the copy has no content by it.
    fn copy_settings(&self, to: &Directory) -> Result<(), DirectoryError> {
        for entry in fs::read_dir(&self.path).map_err(io_error(&self.path))? {
            let entry = entry.map_err(io_error(&self.path))?;
            let path = entry.path();
            // Links to files are followed: a configuration may be one.
            let Ok(metadata) = fs::metadata(&path) else { continue };
            let is_left_out = path == self.secret_path() || path == self.path.join(content_keys::FILE);
            if !metadata.is_file() || is_left_out || metadata.len() > SETTINGS_BYTES_MAX {
                continue;
            }
            disk::copy(&path, &to.path.join(entry.file_name()), u64::MAX).map_err(io_error(&path))?;
        }
        Ok(())
    }

    /// Copies what stands over the configuration. Its files are replaced and never written to.
    fn copy_rules(&self, to: &Directory) -> Result<(), DirectoryError> {
        let (from, to) = (self.rules_path(), to.rules_path());
        if from.exists() { disk::copy_flat(&from, &to).map_err(io_error(&from)) } else { Ok(()) }
    }

    /// Copies the secret, last: a directory with one is whole.
    fn copy_secret(&self, to: &Directory) -> Result<(), DirectoryError> {
        let path = self.secret_path();
        disk::copy(&path, &to.secret_path(), 1024).map_err(io_error(&path))?;
        disk::sync_directory(&to.path).map_err(io_error(&to.path))
    }

    /// Copies a snapshot to `target`, which must be missing or empty, and verifies the copy. The snapshot is not
    /// touched.
    ///
    /// # Errors
    /// [`RestoreError`]; `target` is then as it was.
    pub fn restore(
        snapshot: &Path,
        target: &Path,
        progress: &mut dyn FnMut(DirectoryPart, u64, u64),
    ) -> Result<Directory, RestoreError> {
        let from = Directory::open(snapshot)?;
        from.secret()?;
        let existed = target.exists();
        if existed {
            let mut entries = fs::read_dir(target).map_err(io_error(target))?;
            if entries.next().is_some() {
                return Err(RestoreError::NotEmpty(target.to_path_buf()));
            }
        } else {
            if let Some(parent) = target.parent().filter(|parent| !parent.as_os_str().is_empty()) {
                disk::create_directories(parent).map_err(io_error(parent))?;
            }
            disk::create_directory(target).map_err(io_error(target))?;
        }
        let to = Directory { path: target.to_path_buf() };
        let restored = from.restore_into(&to, progress);
        if restored.is_err() {
            to.clear(existed);
        }
        restored.map(|()| to)
    }

    fn restore_into(
        &self,
        to: &Directory,
        progress: &mut dyn FnMut(DirectoryPart, u64, u64),
    ) -> Result<(), RestoreError> {
        self.copy_settings(to)?;
        self.copy_rules(to)?;
        for (from, to) in [(self.ledger_path(), to.ledger_path()), (self.journal_path(), to.journal_path())] {
            // A directory that was never served has neither.
            if from.exists() {
                disk::copy_flat(&from, &to).map_err(io_error(&from))?;
            }
        }
        let secret = self.secret()?.fingerprint();
        let verified = to.verify_data(Some(secret), None, progress)?;
        if !verified.is_sound() {
            return Err(RestoreError::Damaged(Box::new(verified)));
        }
        self.copy_secret(to)?;
        Ok(disk::sync_parent(&to.path).map_err(io_error(&to.path))?)
    }

    /// Takes back a restore that failed. What cannot be removed is left: there is no secret, so it is no data
    /// directory.
    fn clear(&self, keep: bool) {
        if !keep {
            let _ = fs::remove_dir_all(&self.path);
            return;
        }
        for entry in fs::read_dir(&self.path).into_iter().flatten().flatten() {
            let path = entry.path();
            let _ = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        }
    }
}

/// Adds up the bytes of the files in a folder and those in it; `None` if that is too much, or cannot be read.
fn bytes_of(folder: &Path, files_left: &mut usize, is_over: CancellationCheck<'_>) -> Option<u64> {
    let mut folders = vec![folder.to_path_buf()];
    let mut bytes: u64 = 0;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).ok()? {
            *files_left = files_left.checked_sub(1).filter(|_| !is_over())?;
            let entry = entry.ok()?;
            // Links are not followed.
            let metadata = entry.metadata().ok()?;
            if metadata.is_dir() {
                folders.push(entry.path());
            } else {
                bytes = bytes.saturating_add(metadata.len());
            }
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshots_are_listed_with_the_time_of_their_name() {
        let parent = tempfile::tempdir().unwrap();
        let directory = Directory { path: parent.path().to_path_buf() };
        let names = |files: usize| {
            let kept = directory.snapshots(&|| files == 0).unwrap().into_iter();
            kept.map(|one| (one.name, one.time.is_some(), one.bytes)).collect::<Vec<_>>()
        };
        assert!(names(1).is_empty());
        for name in [
            "20261121T090753Z",
            "20261121T090753Z-2",
            "20261121T090754Z.partial",
            "by hand",
            "29991399T990000Z",
        ] {
            let folder = directory.snapshots_path().join(name);
            fs::create_dir_all(folder.join("ledger")).unwrap();
            fs::write(folder.join("ledger/a"), "four").unwrap();
            fs::write(folder.join("secret"), "sixsix").unwrap();
        }
        fs::write(directory.snapshots_path().join("note.txt"), "no snapshot").unwrap();
        let kept = |bytes: Option<u64>| {
            let of = |name: &str, has_time: bool| (name.to_owned(), has_time, bytes);
            vec![
                of("by hand", false),
                of("29991399T990000Z", false),
                of("20261121T090753Z-2", true),
                of("20261121T090753Z", true),
            ]
        };
        assert_eq!(names(1), kept(Some(10)));
        assert_eq!(names(0), kept(None), "what takes too long is not counted");
        assert_eq!(time_of("20261121T090753Z-2"), "2026-11-21T09:07:53Z".parse().ok());
        for other in ["", "é20261121T09075Z", "20261121X090753Z", "20261121T090753", "2026112\u{202e}T0753Z"]
        {
            assert_eq!(time_of(other), None, "{other}");
        }
    }

    #[test]
    fn snapshots_are_named_after_the_second() {
        assert_eq!(name("2026-11-21T09:07:53.25Z".parse().unwrap()), "20261121T090753Z");
    }
}
