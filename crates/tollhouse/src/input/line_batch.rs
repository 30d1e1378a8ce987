//! Batches of lines, cut by number and size.

use std::io;

use crate::input::lines::InputLine;

/// Events that are decided as one batch, unless told otherwise.
pub(crate) const BATCH: u16 = 256;
/// Bytes of lines after which a batch is cut short.
const BATCH_BYTES: usize = 4 << 20;

/// A line with its number.
pub(crate) type NumberedLine = (u64, InputLine);

/// Cuts lines into batches by number and size.
pub(crate) struct LineBatchIter<I> {
    pub(crate) lines: I,
    /// Most lines of a batch.
    pub(crate) size: u16,
}

impl<I: Iterator<Item = io::Result<NumberedLine>>> Iterator for LineBatchIter<I> {
    type Item = io::Result<Vec<NumberedLine>>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut batch = Vec::new();
        let mut bytes = 0;
        while batch.len() < usize::from(self.size) && bytes < BATCH_BYTES {
            match self.lines.next() {
                Some(Ok(line)) => {
                    bytes += if let InputLine::Bytes(line) = &line.1 { line.len() } else { 0 };
                    batch.push(line);
                }
                Some(Err(error)) => return Some(Err(error)),
                None => break,
            }
        }
        (!batch.is_empty()).then_some(Ok(batch))
    }
}
