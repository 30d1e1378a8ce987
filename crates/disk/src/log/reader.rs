//! Reading a segment from front to back.

use std::borrow::BorrowMut;
use std::io;
use std::ops::Deref;

use crate::device::{Blob, read_full};

/// A file seen through a window that moves forward.
#[derive(Debug)]
pub struct SegmentReader<B, V> {
    blob: B,
    size: u64,
    /// Bytes that are read at once.
    window: usize,
    /// The start of the window in the file.
    start: u64,
    /// The number of bytes of the buffer that the window has.
    filled: usize,
    buffer: V,
}

impl<B: Deref<Target: Blob>, V: BorrowMut<Vec<u8>>> SegmentReader<B, V> {
    /// Reads the first `size` bytes of the file, `window` of them at once. The buffer's content does not matter; it only
    /// saves allocations.
    pub fn new(blob: B, size: u64, window: usize, buffer: V) -> SegmentReader<B, V> {
        SegmentReader { blob, size, window, start: 0, filled: 0, buffer }
    }

    /// Returns the number of bytes that are read in all.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The bytes at `offset`: `length` of them, or as many as the file has.
    ///
    /// # Errors
    /// The device's.
    pub fn at(&mut self, offset: u64, length: usize) -> io::Result<&[u8]> {
        let end = offset.saturating_add(length as u64).min(self.size);
        if end <= offset {
            return Ok(&[]);
        }
        let buffer = self.buffer.borrow_mut();
        let filled_end = self.start + self.filled as u64;
        if offset < self.start || end > filled_end {
            let kept = if (self.start..filled_end).contains(&offset) {
                let from = (offset - self.start) as usize;
                buffer.copy_within(from..self.filled, 0);
                self.filled - from
            } else {
                0
            };
            (self.start, self.filled) = (offset, kept);
            let wanted = (self.size - offset).min(length.max(self.window) as u64) as usize;
            if buffer.len() < wanted {
                buffer.resize(wanted, 0);
            }
            self.filled += read_full(&*self.blob, offset + kept as u64, &mut buffer[kept..wanted])?;
        }
        let (from, to) = ((offset - self.start) as usize, (end - self.start) as usize);
        Ok(buffer.get(from..to.min(self.filled)).unwrap_or_default())
    }

    /// A copy of the bytes at `offset`, of which the window keeps none that it would not hold whole.
    ///
    /// # Errors
    /// The device's.
    pub fn copy_of(&mut self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        if length <= self.window {
            return self.at(offset, length).map(<[u8]>::to_vec);
        }
        let mut bytes = vec![0; length];
        let count = read_full(&*self.blob, offset, &mut bytes)?;
        bytes.truncate(count);
        Ok(bytes)
    }

    /// The first head at or behind `offset` that `read` makes of `length` bytes and their place, and where it is. Heads begin
    /// with `mark`, at multiples of `step`.
    ///
    /// A candidate costs a checksum over a head, so bytes made to look like frames cannot make the search slow.
    ///
    /// # Errors
    /// The device's.
    pub fn next_head<H>(
        &mut self,
        mark: [u8; 4],
        (length, step): (usize, u64),
        offset: u64,
        read: impl Fn(&[u8], u64) -> Option<H>,
    ) -> io::Result<Option<(u64, H)>> {
        let mut offset = offset.next_multiple_of(step);
        while offset < self.size {
            if let Some(head) = read(self.at(offset, length)?, offset) {
                return Ok(Some((offset, head)));
            }
            offset += step;
            self.at(offset, mark.len())?;
            let from = offset.saturating_sub(self.start) as usize;
            let bytes = self.buffer.borrow().get(from..self.filled).unwrap_or_default();
            let mut places = (0..bytes.len()).step_by(step as usize);
            // A mark that the window cuts off is looked at as one.
            let is_mark = |at: &usize| mark.starts_with(&bytes[*at..bytes.len().min(at + mark.len())]);
            offset += places.find(is_mark).unwrap_or(bytes.len()) as u64;
            offset = offset.next_multiple_of(step);
        }
        Ok(None)
    }
}
