//! The positions up to which a server has read its own sources: `sources.json` of the data directory. Their meaning is the
//! server's.

use std::path::PathBuf;

use serde_json::Value;

use crate::directory::{Directory, DirectoryError, io_error, or_put_aside, read_sealed};

/// Largest file that is read.
const BYTES_MAX: u64 = 64 << 20;
const LOST: &str = "sources are then read as new ones are; what is decided again counts once within `dedupe`";

impl Directory {
    /// The path of the positions.
    pub(crate) fn source_positions_path(&self) -> PathBuf {
        self.path().join("sources.json")
    }

    /// Reads the positions.
    pub(crate) fn stored_source_positions(&self) -> Result<Option<Value>, DirectoryError> {
        let path = self.source_positions_path();
        let Some(bytes) = read_sealed(&path, BYTES_MAX, LOST)? else { return Ok(None) };
        let read = serde_json::from_slice(&bytes);
        read.map(Some).map_err(|error| DirectoryError::Damaged { path, why: format!("{error}; {LOST}") })
    }

    /// Reads the positions; a damaged file is put aside, and told.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn source_positions(&self) -> Result<(Option<Value>, Vec<String>), DirectoryError> {
        let mut told = Vec::new();
        let read = or_put_aside(self.stored_source_positions(), &mut told)?;
        Ok((read, told))
    }

    /// Replaces the positions, so that a crash leaves the old ones or the new ones.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write_source_positions(&self, positions: &Value) -> Result<(), DirectoryError> {
        let path = self.source_positions_path();
        let bytes = disk::seal(positions.to_string().as_bytes());
        disk::replace(&path, &bytes).map_err(io_error(&path))
    }
}
