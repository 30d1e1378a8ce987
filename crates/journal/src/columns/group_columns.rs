//! Columns of a group, each read when it is first asked for.

use std::ops::Range;
use std::sync::Arc;

use super::RowGroup;
use super::cursor::ColumnCursor;
use super::kept_pages::{KeptPages, PageMemory};
use super::pages::DecodedChunk;
use super::read_columns::{ReadColumn, ReadColumns};
use super::reader::ColumnarSegment;
use crate::format::SegmentError;

/// Rows of a group that are read one by one, each from its pages: of more of them all lie on nearly all pages.
pub(super) const FEW: usize = 4;

impl ColumnarSegment {
    /// The columns of a group, of which some may have been read before; `None` where there is no such group.
    pub(super) fn columns_of<'s>(
        &'s self,
        number: usize,
        read: &'s mut ReadColumns,
    ) -> Option<ColumnsOfGroup<'s>> {
        self.index.groups.get(number).map(|group| ColumnsOfGroup::new(self, group, read))
    }
}

/// The columns of a group.
pub(super) struct ColumnsOfGroup<'s> {
    pub(super) segment: &'s ColumnarSegment,
    pub(super) group: &'s RowGroup,
    read: &'s mut ReadColumns,
}

/// Goes through a column that others go through, too.
pub(super) type SharedCursor = ColumnCursor<Arc<DecodedChunk>>;

impl<'s> ColumnsOfGroup<'s> {
    pub(super) fn new(
        segment: &'s ColumnarSegment,
        group: &'s RowGroup,
        read: &'s mut ReadColumns,
    ) -> ColumnsOfGroup<'s> {
        ColumnsOfGroup { segment, group, read }
    }

    pub(super) fn group(&self) -> &'s RowGroup {
        self.group
    }

    pub(super) fn damaged(&self) -> SegmentError {
        SegmentError::Damaged(self.group.at)
    }

    /// Goes through all rows of a column.
    pub(super) fn whole(&mut self, column: usize) -> Result<SharedCursor, SegmentError> {
        self.cursor(column, 0..self.group.rows as usize)
    }

    /// Goes through some rows of a column. Only their pages are decoded, unless all were before.
    pub(super) fn cursor(&mut self, column: usize, rows: Range<usize>) -> Result<SharedCursor, SegmentError> {
        let kind = self.segment.kind(column);
        if let ReadColumn::Decoded(chunk) = self.read.column(column) {
            let mut cursor = ColumnCursor::of(kind, Arc::clone(chunk));
            cursor.pass(rows.start);
            return Ok(cursor);
        }
        let is_whole = rows.len() == self.group.rows as usize;
        let (segment, group) = (self.segment, self.group);
        let (stored, mut memory) = self.stored(column)?;
        let chunk = segment.decode(group, (column, stored), rows, &mut memory)?;
        let chunk = Arc::new(chunk);
        if is_whole {
            *self.read.column(column) = ReadColumn::Decoded(Arc::clone(&chunk));
        }
        Ok(ColumnCursor::of(kind, chunk))
    }

    /// The bytes of a column as they are stored, and the memory to decode them with.
    pub(super) fn stored(&mut self, column: usize) -> Result<(&[u8], PageMemory<'_>), SegmentError> {
        if !matches!(self.read.column(column), ReadColumn::Stored(..)) {
            let bytes = Arc::new(self.segment.column_bytes(self.group, column)?);
            *self.read.column(column) = ReadColumn::Stored(bytes, KeptPages::default());
        }
        let ReadColumns { budget, columns } = &mut *self.read;
        let Some(ReadColumn::Stored(stored, kept)) = columns.get_mut(column) else {
            unreachable!("it was put there");
        };
        Ok((stored, PageMemory { budget, kept }))
    }

    pub(super) fn cursors<const N: usize>(
        &mut self,
        columns: [usize; N],
        rows: &Range<usize>,
    ) -> Result<[SharedCursor; N], SegmentError> {
        let cursors = columns.into_iter().map(|column| self.cursor(column, rows.clone()));
        let cursors = cursors.collect::<Result<Vec<_>, _>>()?;
        // There are as many as columns.
        cursors.try_into().map_err(|_| self.damaged())
    }

    pub(super) fn cursor_if(
        &mut self,
        is_wanted: bool,
        column: usize,
        rows: &Range<usize>,
    ) -> Result<Option<SharedCursor>, SegmentError> {
        is_wanted.then(|| self.cursor(column, rows.clone())).transpose()
    }
}
