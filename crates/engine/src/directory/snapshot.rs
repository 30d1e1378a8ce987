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
use stats::{EmbeddedLedger, Ledger, LedgerError};

use super::verification::{DirectoryPart, DirectoryVerification};
use super::{Directory, DirectoryError, io_error};
use crate::EngineOpenError;
use crate::content_keys;

/// Largest file beside ledger and journal that is copied: configurations, sets and models are.
const SETTINGS_BYTES_MAX: u64 = catboost::ModelLimits::FILE_BYTES as u64;

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

impl Directory {
    /// The folder of a server's snapshots.
    pub fn snapshots_path(&self) -> PathBuf {
        self.path.join("snapshots")
    }

    /// Makes `target`, which must be missing, a copy of this data directory, which no process may have open. The
    /// copy is a data directory itself.
    ///
    /// # Errors
    /// [`OpenError::Device`] of the kind `WouldBlock` if it is in use; or what could not be read or written.
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
        partial.push(".partial");
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshots_are_named_after_the_second() {
        assert_eq!(name("2026-11-21T09:07:53.25Z".parse().unwrap()), "20261121T090753Z");
    }
}
