//! Writing a segment at its end.

use std::io;

use crate::device::{Blob, sync_error};

/// A segment that is written to.
#[derive(Debug)]
pub struct SegmentWriter {
    blob: Box<dyn Blob>,
    size: u64,
}

impl SegmentWriter {
    /// Goes on at the end of a file.
    ///
    /// # Errors
    /// The device's.
    pub fn new(blob: Box<dyn Blob>) -> io::Result<SegmentWriter> {
        Ok(SegmentWriter { size: blob.size()?, blob })
    }

    /// Bytes that were written whole.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Adds parts, one behind the other. After an error any part of them may have been added, until [`SegmentWriter::cut`].
    ///
    /// # Errors
    /// The device's.
    pub fn append(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        parts.iter().try_for_each(|part| self.blob.append(part))?;
        self.size += parts.iter().map(|part| part.len() as u64).sum::<u64>();
        Ok(())
    }

    /// Takes back what is behind so many bytes.
    ///
    /// # Errors
    /// The device's.
    pub fn cut(&mut self, size: u64) -> io::Result<()> {
        self.blob.truncate(size)?;
        self.size = size;
        Ok(())
    }

    /// Makes all of it durable.
    ///
    /// # Errors
    /// The device's, which is never a mere lack.
    pub fn sync(&self) -> io::Result<()> {
        self.blob.sync().map_err(sync_error)
    }
}
