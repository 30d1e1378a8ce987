//! A file of the data directory that commands change as a whole, one after the other by a lock beside it, and that a server notices
//! by its metadata. Sealed with a checksum, readable by its owner alone.

use std::fs::{self, File};
use std::io::{self, Read};
use std::marker::PhantomData;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{TokenError, UserError};

/// Largest file that is read.
const BYTES_MAX: u64 = 128 << 20;

/// The metadata by which a changed file is noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStamp {
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
}

/// Reasons for tokens or people that are neither read nor changed.
#[derive(Debug, thiserror::Error)]
pub enum AccessFileError {
    /// The operating system said no.
    #[error("{path}: {error}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        error: io::Error,
    },
    /// The file is not as it was written.
    #[error("{path} is damaged: {why}; restore it from a backup, or remove it and make what was in it again")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The fault.
        why: String,
    },
    /// The change of tokens was refused.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// The change of people was refused.
    #[error(transparent)]
    User(#[from] UserError),
}

/// A file of one value.
#[derive(Debug)]
pub struct SealedFile<T> {
    path: PathBuf,
    value: PhantomData<fn() -> T>,
}

impl<T> Clone for SealedFile<T> {
    fn clone(&self) -> SealedFile<T> {
        SealedFile::at(self.path.clone())
    }
}

impl<T> SealedFile<T> {
    /// Returns the file at a path, which may be missing.
    pub fn at(path: PathBuf) -> SealedFile<T> {
        SealedFile { path, value: PhantomData }
    }

    /// The path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of a file beside it.
    pub(crate) fn beside(&self, ending: &str) -> PathBuf {
        self.path.with_extension(ending)
    }

    /// Returns the metadata by which a change is noticed; `None` if there is no file.
    pub fn stamp(&self) -> Option<FileStamp> {
        let metadata = fs::metadata(&self.path).ok()?;
        let modified = (metadata.mtime(), metadata.mtime_nsec());
        Some(FileStamp { inode: metadata.ino(), bytes: metadata.len(), modified })
    }

    fn failed(&self) -> impl Fn(io::Error) -> AccessFileError + '_ {
        |error| AccessFileError::Io { path: self.path.clone(), error }
    }
}

impl<T: Default + Serialize + DeserializeOwned> SealedFile<T> {
    /// Reads the value; `None` if there is no file.
    ///
    /// # Errors
    /// [`AccessFileError`].
    pub fn read(&self) -> Result<Option<T>, AccessFileError> {
        let damaged = |why: String| AccessFileError::Damaged { path: self.path.clone(), why };
        match read_sealed(&self.path).map_err(self.failed())? {
            None => Ok(None),
            Some(Err(why)) => Err(damaged(why)),
            Some(Ok(text)) => {
                serde_json::from_slice(&text).map(Some).map_err(|error| damaged(error.to_string()))
            }
        }
    }

    /// Changes the value, durably and as a whole; nobody else changes it meanwhile. Returns what the change did, and the value
    /// after it. Blocks.
    ///
    /// # Errors
    /// [`AccessFileError`]; the file is then as it was.
    pub fn change<D, E: Into<AccessFileError>>(
        &self,
        change: impl FnOnce(&mut T) -> Result<D, E>,
    ) -> Result<(D, T), AccessFileError> {
        let lock = disk::private().create(true).append(true).open(self.beside("lock"));
        let lock = lock.map_err(self.failed())?;
        lock.lock().map_err(self.failed())?;
        let mut value = self.read()?.unwrap_or_default();
        let done = change(&mut value).map_err(Into::into)?;
        let bytes = serde_json::to_vec_pretty(&value).map_err(io::Error::from).map_err(self.failed())?;
        disk::replace(&self.path, &disk::seal(&bytes)).map_err(self.failed())?;
        Ok((done, value))
    }
}

/// Reads a sealed file: `None` if there is none, and why it is damaged if it is.
pub(crate) fn read_sealed(path: &Path) -> io::Result<Option<Result<Vec<u8>, String>>> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let mut bytes = Vec::new();
    file.take(BYTES_MAX).read_to_end(&mut bytes)?;
    let text = disk::unseal(&bytes).map(<[u8]>::to_vec);
    Ok(Some(text.ok_or_else(|| "its checksum does not fit".to_owned())))
}
