//! Reads what [`super::write`] wrote.

use std::fmt::Debug;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use disk::{Blob, read_full};
use event::Type;

use super::group_cache::GroupCache;
use super::index_cache::{FileIdentity, IndexCache};
use super::kept_pages::PageMemory;
use super::pages::{self, DecodedChunk};
use super::read_columns::ReadColumns;
use super::{
    ColumnsFormat, ColumnsIndex, GroupHead, HEAD_BYTES, INDEX_BYTES_MAX, MAGIC, OWN, OWN_HEAD_BYTES, PARQUET,
    ROWS_MAX, RowGroup,
};
use crate::compression::decompress;
use crate::format::{SegmentError, VERSION};
use crate::id::RecordId;
use crate::summary::{self, RecordSummary, STORED_BLOCK_BYTES, SearchProbe, SummaryFilter};

/// The source from which a file is read.
pub(crate) trait ColumnarSource: Debug + Send + Sync {
    /// Its length.
    fn length(&self) -> io::Result<u64>;
    /// Fills a buffer from here on.
    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<()>;
}

impl ColumnarSource for Box<dyn Blob> {
    fn length(&self) -> io::Result<u64> {
        self.size()
    }

    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<()> {
        let count = read_full(&**self, at, buffer)?;
        if count == buffer.len() { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }
}

impl ColumnarSource for Vec<u8> {
    fn length(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<()> {
        let part = usize::try_from(at).ok().and_then(|at| self.get(at..)?.get(..buffer.len()));
        buffer.copy_from_slice(part.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

/// The two copies of head and index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IndexCopy {
    First,
    Second,
}

/// The content of a head and its index.
struct ColumnarHeader {
    index: ColumnsIndex,
    /// The start of Parquet's footer, and its checksum.
    footer: (u64, u32),
}

impl ColumnarHeader {
    fn read(
        source: &dyn ColumnarSource,
        bytes: u64,
        copy: IndexCopy,
        form: ColumnsFormat,
    ) -> Result<ColumnarHeader, SegmentError> {
        const OWN: u64 = OWN_HEAD_BYTES as u64;
        if bytes < 2 * HEAD_BYTES as u64 {
            return Err(SegmentError::Magic);
        }
        let mut magic = [0; PARQUET.len()];
        source.read_at(&mut magic, 0)?;
        let place = match copy {
            IndexCopy::First if magic == PARQUET => PARQUET.len() as u64,
            IndexCopy::First => return Err(SegmentError::Magic),
            IndexCopy::Second => {
                // In front of the footer, whose length stands before the last four bytes.
                let mut length = [0; 4];
                source.read_at(&mut length, bytes - 8)?;
                let place = (bytes - 8 - OWN).checked_sub(u64::from(u32::from_le_bytes(length)));
                place.ok_or(SegmentError::Damaged(bytes - 8))?
            }
        };
        let mut head = [0; OWN_HEAD_BYTES];
        source.read_at(&mut head, place)?;
        let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        if !head.starts_with(&MAGIC) {
            return Err(SegmentError::Magic);
        }
        if form == ColumnsFormat::Sealed && crc32fast::hash(&head[..OWN_HEAD_BYTES - 4]) != word(36) {
            return Err(SegmentError::Damaged(place));
        }
        if word(8) != VERSION {
            return Err(SegmentError::Other(word(8)));
        }
        let at = u64::from(word(12)) | u64::from(word(16)) << 32;
        let (length, raw) = (u64::from(word(20)), word(24) as usize);
        let damaged = || SegmentError::Damaged(at);
        let copies = if copy == IndexCopy::First { 2 } else { 1 };
        let footer = at.checked_add(copies * length + OWN).filter(|end| *end <= bytes).ok_or_else(damaged)?;
        if raw > INDEX_BYTES_MAX || length as usize > zstd::zstd_safe::compress_bound(raw) {
            return Err(damaged());
        }
        let mut index = vec![0; length as usize];
        source.read_at(&mut index, at)?;
        if form == ColumnsFormat::Sealed {
            if crc32fast::hash(&index) != word(28) {
                return Err(damaged());
            }
            index = decompress(&index, raw).map_err(|_| damaged())?;
        }
        let mut index: ColumnsIndex = postcard::from_bytes(&index).map_err(|_| damaged())?;
        // The first copy begins where the groups end.
        let begins = if copy == IndexCopy::First { Some(at) } else { at.checked_sub(length) };
        if !begins.is_some_and(|begins| index.is_sound(begins)) {
            return Err(damaged());
        }
        index.heads = index.groups.iter().map(RowGroup::head).collect();
        Ok(ColumnarHeader { index, footer: (footer, word(32)) })
    }
}

/// A segment by columns, open to be read.
#[derive(Debug)]
pub(crate) struct ColumnarSegment {
    pub(super) source: Box<dyn ColumnarSource>,
    pub(super) index: Arc<ColumnsIndex>,
    /// The start of Parquet's footer, and its checksum.
    pub(super) footer: (u64, u32),
    /// Length of the file.
    bytes: u64,
    pub(super) form: ColumnsFormat,
    /// The columns that others have read of its groups, if they are kept, and how often all were forgotten before it was opened.
    cache: Option<(Arc<GroupCache>, u64)>,
}

impl ColumnarSegment {
    pub(crate) fn open(file: Box<dyn Blob>) -> Result<ColumnarSegment, SegmentError> {
        ColumnarSegment::of(Box::new(file), ColumnsFormat::Sealed)
    }

    pub(crate) fn of(
        source: Box<dyn ColumnarSource>,
        form: ColumnsFormat,
    ) -> Result<ColumnarSegment, SegmentError> {
        let bytes = source.length()?;
        let first = ColumnarHeader::read(&*source, bytes, IndexCopy::First, form);
        let described = match first {
            Err(SegmentError::Damaged(_) | SegmentError::Magic) if form == ColumnsFormat::Sealed => {
                ColumnarHeader::read(&*source, bytes, IndexCopy::Second, form).or(first)
            }
            first => first,
        }?;
        let ColumnarHeader { index, footer } = described;
        Ok(ColumnarSegment { source, index: Arc::new(index), footer, bytes, form, cache: None })
    }

    /// Keeps what is read of its groups for those who come next, unless all is forgotten after so many times.
    pub(crate) fn with_cache(self, cache: &Arc<GroupCache>, times_forgotten: u64) -> ColumnarSegment {
        ColumnarSegment { cache: Some((Arc::clone(cache), times_forgotten)), ..self }
    }

    /// Returns what was read of a group before.
    pub(crate) fn read_before(&self, number: usize) -> ReadColumns {
        self.cache.as_ref().map(|(cache, _)| cache.get(&self.index, number)).unwrap_or_default()
    }

    /// Hands in what was read of a group, for those who come next.
    pub(crate) fn hand_in(&self, number: usize, read: ReadColumns) {
        if let Some((cache, opened)) = &self.cache {
            cache.hand_in((&self.index, number), read, *opened);
        }
    }

    /// Opens a file of this name, whose index may be known from before.
    pub(crate) fn open_known(
        file: Box<dyn Blob>,
        name: &str,
        known: &IndexCache,
    ) -> Result<ColumnarSegment, SegmentError> {
        let bytes = file.length()?;
        let mut head = [0; HEAD_BYTES];
        if bytes < HEAD_BYTES as u64 {
            return ColumnarSegment::open(file);
        }
        ColumnarSource::read_at(&file, &mut head, 0)?;
        let identity = FileIdentity { head, bytes };
        if let Some((index, footer)) = known.of(name, &identity) {
            let form = ColumnsFormat::Sealed;
            return Ok(ColumnarSegment { source: Box::new(file), index, footer, bytes, form, cache: None });
        }
        let opened = ColumnarSegment::open(file)?;
        known.keep(name, identity, (&opened.index, opened.footer));
        Ok(opened)
    }

    /// The bytes of one of the two copies of head and index that are not as they were written, from and to.
    pub(super) fn damage_of(&self, copy: IndexCopy) -> Result<Option<(u64, u64)>, SegmentError> {
        let second = self.footer.0 - OWN_HEAD_BYTES as u64;
        let head = match copy {
            IndexCopy::First => (0, HEAD_BYTES as u64),
            IndexCopy::Second => (second, self.footer.0),
        };
        match ColumnarHeader::read(&*self.source, self.bytes, copy, self.form) {
            Ok(_) => Ok(None),
            // The two indices lie in front of the second head.
            Err(SegmentError::Damaged(at)) if at > head.1 || (copy == IndexCopy::Second && at < second) => {
                let copies = if copy == IndexCopy::First { 2 } else { 1 };
                Ok(Some((at, at + second.saturating_sub(at) / copies)))
            }
            Err(SegmentError::Damaged(_) | SegmentError::Magic) => Ok(Some(head)),
            Err(error) => Err(error),
        }
    }

    /// Groups of rows.
    pub(crate) fn groups(&self) -> usize {
        self.index.groups.len()
    }

    /// Records of all groups.
    pub(crate) fn records_count(&self) -> u64 {
        self.index.groups.iter().map(|group| u64::from(group.rows)).sum()
    }

    /// Length of the file.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The whole file.
    pub(super) fn all(&self) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; usize::try_from(self.bytes).map_err(io::Error::other)?];
        self.source.read_at(&mut bytes, 0)?;
        Ok(bytes)
    }

    /// Returns true if a group has the same bytes as one of another file, which are here as they should be.
    pub(crate) fn is_copy(
        &self,
        number: usize,
        other: &ColumnarSegment,
        its: usize,
    ) -> Result<bool, SegmentError> {
        let (Some(group), Some(of)) = (self.index.groups.get(number), other.index.groups.get(its)) else {
            return Ok(false);
        };
        if (RowGroup { at: of.at, ..group.clone() }) != *of {
            return Ok(false);
        }
        let mut at = group.at;
        for (length, crc) in &group.chunks {
            if crc32fast::hash(&self.chunk_bytes(at, *length)?) != *crc {
                return Ok(false);
            }
            at += u64::from(*length);
        }
        Ok(self.filters(group)? == other.filters(of)?)
    }

    /// The filters of a group, as they are stored.
    pub(super) fn filters(&self, group: &RowGroup) -> Result<Vec<u8>, SegmentError> {
        let length = usize::try_from(group.filters_bytes()).map_err(|_| SegmentError::Damaged(group.at))?;
        // The index was found to lie behind them.
        let mut bytes = vec![0; length];
        self.source.read_at(&mut bytes, group.filters_at())?;
        Ok(bytes)
    }

    /// The summary of a group with all of its filters.
    pub(crate) fn summary(&self, number: usize) -> Result<Option<RecordSummary>, SegmentError> {
        let Some(group) = self.index.groups.get(number) else { return Ok(None) };
        let (stored, is_checked) = (self.filters(group)?, self.form == ColumnsFormat::Sealed);
        Ok(Some(RecordSummary::of_stored(&group.summary, &stored, is_checked)))
    }

    /// The length of the filters of a group.
    pub(crate) fn filters_bytes(&self, number: usize) -> u64 {
        self.index.groups.get(number).map_or(0, RowGroup::filters_bytes)
    }

    /// Returns false if there is no feedback in a group.
    pub(crate) fn has_reports(&self, number: usize) -> bool {
        self.index.groups.get(number).is_some_and(|group| group.summary.has_reports)
    }

    /// Returns false if no decision of a group fits. Reads a few bytes for each name and each piece of a text that is asked for;
    /// where they are damaged the group is read.
    pub(crate) fn may_hold(&self, number: usize, probe: &SearchProbe) -> Result<bool, SegmentError> {
        let Some(group) = self.index.groups.get(number) else { return Ok(false) };
        let [names, pieces] = group.summary.blocks;
        let mut failure = None;
        let mut has = |filter: SummaryFilter, value: u64| {
            let (blocks, before) = match filter {
                SummaryFilter::Names => (names, 0),
                SummaryFilter::Pieces => (pieces, u64::from(names)),
            };
            if blocks == 0 {
                return true;
            }
            let (block, mask) = summary::asked(blocks, value);
            let at = group.filters_at() + (before + block) * STORED_BLOCK_BYTES as u64;
            let mut bytes = [0; STORED_BLOCK_BYTES];
            if let Err(error) = self.source.read_at(&mut bytes, at) {
                failure.get_or_insert(error);
                return true;
            }
            let block = summary::stored_block(&bytes, self.form == ColumnsFormat::Sealed);
            block.is_none_or(|block| block.iter().zip(mask).all(|(word, bit)| word & bit != 0))
        };
        let may_fit = probe.may_fit(&group.summary, &mut has);
        failure.map_or(Ok(may_fit), |error| Err(error.into()))
    }

    /// Returns the layout of the file's columns.
    pub(crate) fn layout(&self) -> &super::ColumnLayout {
        &self.index.layout
    }

    /// The smallest and the greatest id of a group.
    pub(crate) fn ids(&self, number: usize) -> Option<(RecordId, RecordId)> {
        self.index.heads.get(number).map(|head| (head.first, head.last))
    }

    /// The head of a group.
    pub(crate) fn group(&self, number: usize) -> Option<&GroupHead> {
        self.index.heads.get(number)
    }

    /// Some rows of the bytes of a column of a group.
    pub(super) fn decode(
        &self,
        group: &RowGroup,
        (column, bytes): (usize, &[u8]),
        rows: Range<usize>,
        memory: &mut PageMemory<'_>,
    ) -> Result<DecodedChunk, SegmentError> {
        let rows = (group.rows as usize, rows);
        pages::decode(bytes, self.form, self.kind(column), rows, memory)
            .ok_or_else(|| SegmentError::Damaged(group.column_at(column)))
    }

    /// The bytes of a column of a group, which are as they were written.
    pub(super) fn column_bytes(&self, group: &RowGroup, column: usize) -> Result<Vec<u8>, SegmentError> {
        let (length, crc) = group.chunks.get(column).copied().unwrap_or_default();
        let at = group.column_at(column);
        let bytes = self.chunk_bytes(at, length)?;
        if self.form == ColumnsFormat::Sealed && crc32fast::hash(&bytes) != crc {
            return Err(SegmentError::Damaged(at));
        }
        Ok(bytes)
    }

    fn chunk_bytes(&self, at: u64, length: u32) -> io::Result<Vec<u8>> {
        // The index was found to lie behind it.
        let mut bytes = vec![0; length as usize];
        self.source.read_at(&mut bytes, at)?;
        Ok(bytes)
    }

    pub(super) fn kind(&self, column: usize) -> Type {
        let fact = |column: usize| self.index.layout.facts.get(column).map(|(_, kind)| *kind);
        match OWN.get(column) {
            Some((_, kind)) => *kind,
            None => fact(column - OWN.len()).unwrap_or(Type::Bytes),
        }
    }
}

impl ColumnsIndex {
    /// Returns true if all that the index says may be true of a file in which it begins here.
    fn is_sound(&self, at: u64) -> bool {
        let columns = OWN.len() + self.layout.facts.len();
        let mut slots = self.layout.versions.iter().flat_map(|version| &version.slots).flatten();
        if !slots.all(|column| (*column as usize) < self.layout.facts.len()) {
            return false;
        }
        let mut end = HEAD_BYTES as u64;
        for group in &self.groups {
            let begins_there = group.at == end;
            let is_usual = group.chunks.len() == columns && (1..=ROWS_MAX).contains(&(group.rows as usize));
            match end.checked_add(group.bytes()).and_then(|end| end.checked_add(group.filters_bytes())) {
                Some(next) if begins_there && is_usual => end = next,
                _ => return false,
            }
        }
        end == at
    }
}
