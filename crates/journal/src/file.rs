//! A file of a journal, on whichever device that is.

use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::sync::Arc;

use disk::{Blob, Device};

use super::{JournalError, io_error};

/// A file by its name, which need not be there.
#[derive(Clone, Debug)]
pub(super) struct JournalFile {
    device: Arc<dyn Device>,
    name: String,
}

impl JournalFile {
    pub(super) fn new(device: &Arc<dyn Device>, name: impl Into<String>) -> JournalFile {
        JournalFile { device: Arc::clone(device), name: name.into() }
    }

    pub(super) fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The file as messages call it.
    pub(super) fn path(&self) -> PathBuf {
        self.device.path(&self.name)
    }

    /// Returns the part that comes behind the last dot.
    pub(super) fn extension(&self) -> Option<&str> {
        self.name.rsplit_once('.').map(|(_, extension)| extension)
    }

    /// The file whose name ends otherwise.
    pub(super) fn with_extension(&self, extension: &str) -> JournalFile {
        let stem = self.name.rsplit_once('.').map_or(self.name.as_str(), |(stem, _)| stem);
        JournalFile::new(&self.device, format!("{stem}.{extension}"))
    }

    /// Says of an error of the system that it is this file's.
    pub(super) fn error(&self, error: io::Error) -> JournalError {
        io_error(&self.path())(error)
    }

    /// Opens it; `None` if it is not there.
    pub(super) fn open(&self) -> Result<Option<Box<dyn Blob>>, JournalError> {
        match self.device.open(&self.name) {
            Ok(blob) => Ok(Some(blob)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.error(error)),
        }
    }

    /// Opens what should be there.
    pub(super) fn open_present(&self) -> Result<Box<dyn Blob>, JournalError> {
        self.device.open(&self.name).map_err(|error| self.error(error))
    }

    /// Its bytes, or the first of them; `None` if it is not there.
    pub(super) fn read(&self, bytes_max: u64) -> Result<Option<Vec<u8>>, JournalError> {
        let Some(blob) = self.open()? else { return Ok(None) };
        disk::read_all(&*blob, bytes_max).map(Some).map_err(|error| self.error(error))
    }

    /// Bytes of the file; none if it is not there.
    pub(super) fn length(&self) -> Result<u64, JournalError> {
        let length = self.open()?.map_or(Ok(0), |blob| blob.size());
        length.map_err(|error| self.error(error))
    }

    /// Makes its bytes durable.
    pub(super) fn sync(&self) -> Result<(), JournalError> {
        self.open_present()?.sync().map_err(disk::sync_error).map_err(|error| self.error(error))
    }

    /// Puts bytes in its place, durably.
    pub(super) fn replace(&self, bytes: &[u8]) -> Result<(), JournalError> {
        self.device.replace(&self.name, bytes).map_err(|error| self.error(error))
    }

    /// Removes it, if it is there.
    pub(super) fn remove(&self) -> Result<(), JournalError> {
        disk::remove_if_there(&*self.device, &self.name).map_err(|error| self.error(error))
    }

    /// Gives it the name of another, in whose place it is then, durably.
    pub(super) fn place(&self, to: &JournalFile) -> Result<(), JournalError> {
        self.device.rename(&self.name, &to.name).map_err(|error| to.error(error))
    }
}
