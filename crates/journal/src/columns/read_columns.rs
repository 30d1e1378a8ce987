//! Columns of a group as far as they were read.

use std::sync::Arc;

use super::kept_pages::KeptPages;
use super::pages::DecodedChunk;

/// Memory that the columns of a group take while they are read, about.
const BUDGET: usize = 512 << 20;

/// The columns of a group that were read so far: who looks at a group and then takes records from it reads each once. A copy shares
/// their content.
#[derive(Clone, Debug)]
pub(crate) struct ReadColumns {
    pub(super) budget: usize,
    /// The columns by their numbers, as far as one of them was read.
    pub(super) columns: Vec<ReadColumn>,
}

/// A column, as far as it was read.
#[derive(Clone, Debug, Default)]
pub(super) enum ReadColumn {
    #[default]
    Unread,
    /// The bytes that are stored, with those pages of which a row was read alone.
    Stored(Arc<Vec<u8>>, KeptPages),
    /// All of its rows.
    Decoded(Arc<DecodedChunk>),
}

impl ReadColumns {
    /// The bytes of one column as they are stored.
    #[cfg(test)]
    pub(super) fn of_stored(column: usize, bytes: Vec<u8>) -> ReadColumns {
        let mut read = ReadColumns::default();
        *read.column(column) = ReadColumn::Stored(Arc::new(bytes), KeptPages::default());
        read
    }

    /// Bytes that it takes up in memory, about.
    pub(super) fn bytes(&self) -> usize {
        let of = |column: &ReadColumn| match column {
            ReadColumn::Unread => 0,
            ReadColumn::Stored(bytes, kept) => bytes.len() + kept.memory(),
            ReadColumn::Decoded(chunk) => chunk.memory(),
        };
        self.columns.iter().map(of).sum()
    }

    pub(super) fn column(&mut self, number: usize) -> &mut ReadColumn {
        if self.columns.len() <= number {
            self.columns.resize_with(number + 1, ReadColumn::default);
        }
        &mut self.columns[number]
    }

    /// Adds what others have read of the group.
    pub(super) fn add(&mut self, others: ReadColumns) {
        for (number, other) in others.columns.into_iter().enumerate() {
            let own = self.column(number);
            match (&mut *own, other) {
                (ReadColumn::Decoded(_), _) | (_, ReadColumn::Unread) => {}
                (ReadColumn::Stored(_, kept), ReadColumn::Stored(_, more)) => kept.add(more),
                (_, other) => *own = other,
            }
        }
    }

    /// Has as much memory again as at first, as what was read is at rest.
    pub(super) fn rest(&mut self) {
        self.budget = BUDGET;
    }
}

impl Default for ReadColumns {
    fn default() -> ReadColumns {
        ReadColumns { budget: BUDGET, columns: Vec::new() }
    }
}
