//! Reads what [`super::write`] wrote.

use std::borrow::Borrow;
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::io;
use std::net::IpAddr;
use std::ops::Range;
use std::sync::Arc;

use disk::{Blob, read_full};
use event::{Time, Type, Value};
use judge::Action;

use super::group_cache::GroupCache;
use super::index_cache::{FileIdentity, IndexCache};
use super::kept_pages::PageMemory;
use super::look::{ColumnsOfGroup, ReadColumns};
use super::pages::{self, DecodedChunk, DecodedValues};
use super::{
    ColumnsFormat, ColumnsIndex, GroupHead, HEAD_BYTES, INDEX_BYTES_MAX, MAGIC, OWN, OWN_HEAD_BYTES, PARQUET,
    ROWS_MAX, ReportDetail, RowGroup, own,
};
use crate::compression::decompress;
use crate::encoding::{self, RecordReader, RecordWrite, variant};
use crate::format::{SegmentError, VERSION};
use crate::id::RecordId;
use crate::summary::{self, RecordSummary, STORED_BLOCK_BYTES, SearchProbe, SummaryFilter};
use crate::visitor::{FactChoice, StoredFact};
use crate::{Record, ReportRecord};

/// Rows of a group that are read one by one, each from its pages: of more of them all lie on nearly all pages.
pub(super) const FEW: usize = 4;
/// Memory that the columns of a group take while they are read, about.
pub(super) const BUDGET: usize = 512 << 20;

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
    form: ColumnsFormat,
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

    /// The columns of a group, of which some may have been read before; `None` where there is no such group.
    pub(super) fn columns_of<'s>(
        &'s self,
        number: usize,
        read: &'s mut ReadColumns,
    ) -> Option<ColumnsOfGroup<'s>> {
        self.index.groups.get(number).map(|group| ColumnsOfGroup::new(self, group, read))
    }

    /// The records of a group whose ids are wanted, with these facts at least.
    pub(crate) fn records(
        &self,
        (number, read): (usize, &mut ReadColumns),
        wanted: impl Fn(RecordId) -> bool,
        facts: FactChoice<'_>,
    ) -> Result<Vec<(RecordId, Record)>, SegmentError> {
        let Some(group) = self.index.groups.get(number) else { return Ok(Vec::new()) };
        let mut bytes = Vec::new();
        let count = self.rows((number, read), wanted, facts, &mut bytes)?;
        let records = Record::decode_all(&bytes);
        if records.len() == count { Ok(records) } else { Err(SegmentError::Damaged(group.at)) }
    }

    /// The records of these ids of a group. Where ids rise evenly, one page of them is read to find the row of one of few.
    pub(crate) fn find_all(
        &self,
        (number, read): (usize, &mut ReadColumns),
        ids: &BTreeSet<RecordId>,
        facts: FactChoice<'_>,
    ) -> Result<Vec<(RecordId, Record)>, SegmentError> {
        let Some(group) = self.index.groups.get(number) else { return Ok(Vec::new()) };
        if group.first > group.last {
            return Ok(Vec::new());
        }
        let few: Vec<RecordId> = ids.range(group.first..=group.last).take(FEW + 1).copied().collect();
        let mut columns = ColumnsOfGroup::new(self, group, &mut *read);
        let rows = match few.len() {
            0 => return Ok(Vec::new()),
            1..=FEW => self.rows_of(&mut columns, &few)?,
            _ => None,
        };
        let Some(rows) = rows else {
            return self.records((number, read), |id| ids.contains(&id), facts);
        };
        let mut bytes = Vec::new();
        if !rows.is_empty() {
            self.put_rows(&mut columns, (&rows, facts), &mut bytes)?;
        }
        let records = Record::decode_all(&bytes);
        if records.len() == rows.len() { Ok(records) } else { Err(SegmentError::Damaged(group.at)) }
    }

    /// The rows of those of some ids that are in a group, rising. `None` where all ids have to be read to tell.
    fn rows_of(
        &self,
        columns: &mut ColumnsOfGroup<'_>,
        ids: &[RecordId],
    ) -> Result<Option<Vec<(usize, RecordId)>>, SegmentError> {
        let group = columns.group();
        let (column, mut memory) = columns.stored(own::ID)?;
        let span = group.last.0.saturating_sub(group.first.0);
        let mut rows = Vec::new();
        for id in ids {
            let before = id.0.saturating_sub(group.first.0);
            let guess = u128::from(before) * u128::from(group.rows) / (u128::from(span) + 1);
            let place = (group.rows as usize, guess as usize);
            match pages::find_text(column, self.form, place, &id.digits(), &mut memory) {
                None => return Ok(None),
                Some(row) => rows.extend(row.map(|row| (row, *id))),
            }
        }
        rows.sort_unstable();
        Ok(Some(rows))
    }

    /// Puts the bytes of these records behind others, as rows have them, and answers how many records they are.
    pub(crate) fn rows(
        &self,
        (number, read): (usize, &mut ReadColumns),
        wanted: impl Fn(RecordId) -> bool,
        facts: FactChoice<'_>,
        into: &mut Vec<u8>,
    ) -> Result<usize, SegmentError> {
        let Some(mut columns) = self.columns_of(number, read) else { return Ok(0) };
        let mut ids = columns.whole(own::ID)?;
        let ids = (0..columns.group().rows as usize)
            .map(|row| Some((row, ids.next().text()?.parse::<RecordId>().ok()?)));
        let rows: Vec<(usize, RecordId)> = ids
            .filter(|row| row.is_none_or(|(_, id)| wanted(id)))
            .collect::<Option<_>>()
            .ok_or_else(|| columns.damaged())?;
        if !rows.is_empty() {
            self.put_rows(&mut columns, (&rows, facts), into)?;
        }
        Ok(rows.len())
    }

    /// Puts the bytes of these rows of a group behind others, in their order. The ids were read before; for all facts all other
    /// columns are, so that damage to any is found.
    fn put_rows(
        &self,
        columns: &mut ColumnsOfGroup<'_>,
        (rows, facts): (&[(usize, RecordId)], FactChoice<'_>),
        into: &mut Vec<u8>,
    ) -> Result<(), SegmentError> {
        let count = columns.group().chunks.len();
        for part in rows.chunks(if rows.len() <= FEW { 1 } else { rows.len() }) {
            let (Some((first, _)), Some((last, _))) = (part.first(), part.last()) else { continue };
            let range = *first..*last + 1;
            let cursors = (0..count).map(|column| {
                let is_wanted = column != own::ID && self.index.layout.is_of(column, facts);
                is_wanted.then(|| columns.cursor(column, range.clone())).transpose()
            });
            let mut cursors = cursors.collect::<Result<Vec<_>, SegmentError>>()?;
            let mut next = range.start;
            for (row, id) in part {
                cursors.iter_mut().flatten().for_each(|column| column.pass(row - next));
                next = row + 1;
                let entries: Vec<ColumnEntry<'_>> = cursors
                    .iter_mut()
                    .map(|column| match column {
                        Some(column) => column.next(),
                        None => ColumnEntry::missing(),
                    })
                    .collect();
                self.row(*id, &entries, into).ok_or_else(|| columns.damaged())?;
            }
        }
        Ok(())
    }

    /// Puts the bytes of a record there. `None` if it is none; that it is one shows when it is decoded.
    fn row(&self, id: RecordId, row: &[ColumnEntry<'_>], into: &mut Vec<u8>) -> Option<()> {
        let owned = |column: usize| row[column].text().map(str::to_owned);
        let time = Time(row[own::TIME].integer()?);
        match row[own::WHAT].bytes()? {
            what if what == super::DECISION.as_bytes() => return self.decision(id, row, into),
            what if super::REPORTS.iter().any(|report| what == report.as_bytes()) => {
                let detail: ReportDetail = postcard::from_bytes(row[own::DETAIL].bytes()?).ok()?;
                let report = ReportRecord {
                    decision: row[own::DECISION].text()?.parse().ok()?,
                    class: owned(own::CLASS).or(detail.class),
                    signal: what == super::SIGNAL.as_bytes(),
                    time,
                    by: detail.by,
                    weight: detail.weight,
                    limited: detail.limited,
                    counters: detail.counters,
                    replaced: detail.replaced,
                };
                Record::Report(report).encode_into(id, into);
            }
            _ => return None,
        }
        Some(())
    }

    fn decision(&self, id: RecordId, row: &[ColumnEntry<'_>], into: &mut Vec<u8>) -> Option<()> {
        let detail = DecisionDetail::read(row[own::DETAIL].bytes()?)?;
        into.put_varint(id.0);
        into.put_varint(encoding::DECISION);
        let version = row[own::VERSION].bytes()?;
        into.put_content(row[own::PIPELINE].bytes()?);
        into.put_content(version);
        match row[own::EVENT_ID].bytes() {
            None => into.push(0),
            Some(name) => {
                into.push(1);
                into.put_content(name);
            }
        }
        into.put_signed(row[own::TIME].integer()?);
        into.put_signed(row[own::ARRIVAL].integer()?);
        into.push(u8::from(row[own::DUPLICATE].truth()?));
        into.put_varint(detail.facts);
        let known = self.index.layout.versions.iter().find(|known| known.version.as_bytes() == version);
        let mut slots = known.map_or(&[][..], |known| &known.slots).iter();
        let mut extras = detail.extras.iter().peekable();
        for fact in 0..detail.facts {
            let slot = slots.next().copied().flatten();
            match (extras.next_if(|(extra, _)| *extra == fact), slot) {
                (Some((_, value)), _) => {
                    into.push(1);
                    into.extend_from_slice(value);
                }
                (None, Some(slot)) => row.get(OWN.len() + slot as usize)?.put(into)?,
                (None, None) => into.push(0),
            }
        }
        if extras.next().is_some() {
            return None;
        }
        into.put_content(detail.keys);
        into.extend_from_slice(&row[own::SCORE].float()?.to_le_bytes());
        into.extend_from_slice(&row[own::PROBABILITY].float()?.to_le_bytes());
        into.put_made(&row[own::ACTION].text()?.parse::<Action>().ok()?);
        for (rules, (count, mut reasons)) in
            [&row[own::RULES], &row[own::SHADOW]].into_iter().zip(detail.reasons)
        {
            let (first, end) = rules.values;
            if (end - first) as u64 != count {
                return None;
            }
            into.put_varint(count);
            for rule in first..end {
                into.put_content(rules.chunk.bytes(rule)?);
                into.extend_from_slice(reasons.passed(RecordReader::pass_reason).ok()?);
            }
        }
        into.extend_from_slice(detail.next);
        into.extend_from_slice(detail.effects);
        Some(())
    }
}

/// The parts of a decision that have no column of their own, and their places in its bytes.
pub(super) struct DecisionDetail<'b> {
    /// Facts, missing ones included.
    facts: u64,
    /// Facts without a column, rising, and their values.
    pub(super) extras: Vec<(u64, &'b [u8])>,
    pub(super) keys: &'b [u8],
    /// The number of rules that fired, enforced and in shadow, and all of them but their names.
    reasons: [(u64, RecordReader<'b>); 2],
    next: &'b [u8],
    effects: &'b [u8],
}

impl<'b> DecisionDetail<'b> {
    /// The detail as rows have it.
    pub(super) fn read(bytes: &'b [u8]) -> Option<DecisionDetail<'b>> {
        let mut reader = RecordReader::new(bytes);
        let facts = reader.varint().ok().filter(|facts| *facts <= u64::from(u16::MAX))?;
        let mut extras = Vec::new();
        for _ in 0..reader.varint().ok()? {
            extras.push((reader.varint().ok()?, reader.passed(RecordReader::pass_value).ok()?));
        }
        let keys = reader.content().ok()?;
        let mut reasons = [(0, reader); 2];
        for of in &mut reasons {
            let count = reader.varint().ok()?;
            *of = (count, reader);
            for _ in 0..of.0 {
                reader.pass_reason().ok()?;
            }
        }
        let next = reader.passed(RecordReader::pass_next).ok()?;
        let effects = reader.passed(RecordReader::effects).ok()?;
        reader.is_at_end().then_some(DecisionDetail { facts, extras, keys, reasons, next, effects })
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

/// Goes through a column row by row.
#[derive(Clone, Debug)]
pub(super) struct ColumnCursor<C = DecodedChunk> {
    kind: Type,
    chunk: C,
    entry: usize,
    value: usize,
}

/// The part of a column that belongs to a row.
#[derive(Clone, Copy)]
pub(super) struct ColumnEntry<'c> {
    kind: Type,
    chunk: &'c DecodedChunk,
    /// 0 for a missing value.
    level: u8,
    /// Its first value and the one behind its last.
    values: (usize, usize),
}

impl<C: Borrow<DecodedChunk>> ColumnCursor<C> {
    /// From the first row on that was wanted.
    pub(super) fn of(kind: Type, chunk: C) -> ColumnCursor<C> {
        let (entry, value) = chunk.borrow().begin;
        ColumnCursor { kind, chunk, entry, value }
    }

    #[inline]
    pub(super) fn next(&mut self) -> ColumnEntry<'_> {
        let before = self.value;
        let level = self.chunk.borrow().levels.get(self.entry).copied().unwrap_or(0);
        if self.kind == Type::List {
            self.pass(1);
        } else {
            self.entry += 1;
            self.value += usize::from(level);
        }
        ColumnEntry { kind: self.kind, chunk: self.chunk.borrow(), level, values: (before, self.value) }
    }

    /// Passes over so many rows.
    #[inline]
    pub(super) fn pass(&mut self, rows: usize) {
        let chunk: &DecodedChunk = self.chunk.borrow();
        let from = self.entry;
        if self.kind == Type::List {
            for _ in 0..rows {
                self.entry += 1;
                while chunk.repeats.get(self.entry) == Some(&1) {
                    self.entry += 1;
                }
            }
        } else {
            self.entry += rows;
        }
        self.value += chunk.values_among(from..self.entry, self.kind);
    }

    /// Returns true if all rows have the same value, as far as that is seen from where it lies.
    pub(super) fn is_uniform(&self) -> bool {
        self.chunk.borrow().is_uniform()
    }

    /// The type of the column.
    pub(super) fn kind(&self) -> Type {
        self.kind
    }

    /// The bytes in which the texts of the column lie.
    pub(super) fn texts(&self) -> &[u8] {
        self.chunk.borrow().texts()
    }

    /// Hands on the rows that have this text, of a column whose rows are all here.
    pub(super) fn rows_with(&self, text: &[u8], each: &mut dyn FnMut(usize)) {
        self.chunk.borrow().rows_with(text, each);
    }

    /// The rows that have a text in which one of these places, rising, lies, of a column whose rows are all here. `None` where one of
    /// lists is to be gone through.
    pub(super) fn rows_around(&self, places: &[usize]) -> Option<Vec<usize>> {
        (self.kind != Type::List).then(|| self.chunk.borrow().rows_around(places))
    }

    /// Returns the number of rows that are still to come, at most.
    pub(super) fn rows_left(&self) -> usize {
        self.chunk.borrow().levels.len().saturating_sub(self.entry)
    }
}

impl StoredFact for ColumnEntry<'_> {
    fn kind(&self) -> Type {
        self.kind
    }

    fn bytes(&self) -> Option<&[u8]> {
        ColumnEntry::bytes(self).filter(|_| self.kind != Type::List)
    }

    fn text(&self, number: usize) -> Option<&[u8]> {
        let (first, end) = if self.is_missing() { (0, 0) } else { self.values };
        (first..end).nth(number).and_then(|value| self.chunk.bytes(value))
    }

    fn value(&self) -> Option<Option<Value>> {
        ColumnEntry::value(self)
    }
}

/// The content of a column that there is not.
static NO_CHUNK: DecodedChunk = DecodedChunk::none();

impl<'c> ColumnEntry<'c> {
    /// The entry of a column that there is not.
    pub(super) fn missing() -> ColumnEntry<'static> {
        ColumnEntry { kind: Type::String, chunk: &NO_CHUNK, level: 0, values: (0, 0) }
    }

    pub(super) fn is_missing(&self) -> bool {
        self.level == 0
    }

    /// A number that two entries of one column share only if they have the same value: for a text the place where it lies.
    /// `None` for what is missing, and for lists.
    pub(super) fn place(&self) -> Option<u64> {
        if self.is_missing() || self.kind == Type::List {
            return None;
        }
        match &self.chunk.values {
            DecodedValues::Bools(values) => values.get(self.values.0).map(|value| u64::from(*value)),
            DecodedValues::Integers(values) => values.get(self.values.0).map(|value| value.cast_unsigned()),
            DecodedValues::Floats(values) => values.get(self.values.0).map(|value| value.to_bits()),
            DecodedValues::Texts(values) => values.get(self.values.0).map(|(start, _)| u64::from(*start)),
        }
    }

    /// Returns true if one of these places, rising, lies in a text of the entry.
    pub(super) fn has_any_place(&self, places: &[usize]) -> bool {
        let DecodedValues::Texts(texts) = &self.chunk.values else { return false };
        let (first, end) = if self.is_missing() { (0, 0) } else { self.values };
        texts.get(first..end).unwrap_or_default().iter().any(|text| pages::has_place(places, *text))
    }

    /// Returns true if [`ColumnEntry::place`] is the place of a text.
    pub(super) fn is_text(&self) -> bool {
        matches!(self.chunk.values, DecodedValues::Texts(_))
    }

    pub(super) fn bytes(&self) -> Option<&'c [u8]> {
        if self.is_missing() { None } else { self.chunk.bytes(self.values.0) }
    }

    pub(super) fn text(&self) -> Option<&'c str> {
        std::str::from_utf8(self.bytes()?).ok()
    }

    pub(super) fn integer(&self) -> Option<i64> {
        match &self.chunk.values {
            DecodedValues::Integers(values) if !self.is_missing() => values.get(self.values.0).copied(),
            _ => None,
        }
    }

    pub(super) fn float(&self) -> Option<f64> {
        match &self.chunk.values {
            DecodedValues::Floats(values) if !self.is_missing() => values.get(self.values.0).copied(),
            _ => None,
        }
    }

    fn truth(&self) -> Option<bool> {
        match &self.chunk.values {
            DecodedValues::Bools(values) if !self.is_missing() => values.get(self.values.0).copied(),
            _ => None,
        }
    }

    /// A list's items; `None` for one that is no text.
    pub(super) fn items(&self) -> impl Iterator<Item = Option<&'c str>> + use<'c> {
        let chunk = self.chunk;
        (self.values.0..self.values.1)
            .map(move |value| chunk.bytes(value).and_then(|item| std::str::from_utf8(item).ok()))
    }

    /// Puts the bytes of the value there, which may be missing. `None` if it is none of its type.
    fn put(&self, into: &mut Vec<u8>) -> Option<()> {
        if self.is_missing() {
            into.push(0);
            return Some(());
        }
        let mut begin = |variant| into.extend_from_slice(&[1, variant]);
        match self.kind {
            Type::String => {
                begin(variant::STRING);
                into.put_content(self.bytes()?);
            }
            Type::Integer => {
                begin(variant::INTEGER);
                into.put_signed(self.integer()?);
            }
            Type::Float => {
                begin(variant::FLOAT);
                into.extend_from_slice(&self.float()?.to_le_bytes());
            }
            Type::Bool => {
                begin(variant::BOOL);
                into.push(u8::from(self.truth()?));
            }
            Type::Time => {
                begin(variant::TIME);
                into.put_signed(self.integer()?);
            }
            Type::Ip => {
                begin(variant::IP);
                into.put_made(&self.text()?.parse::<IpAddr>().ok()?);
            }
            Type::Bytes => {
                begin(variant::BYTES);
                into.put_content(self.bytes()?);
            }
            Type::List => {
                begin(variant::LIST);
                into.put_varint((self.values.1 - self.values.0) as u64);
                for item in self.values.0..self.values.1 {
                    into.put_content(self.chunk.bytes(item)?);
                }
            }
        }
        Some(())
    }

    /// The value, which may be missing. `None` if it is none of its type.
    pub(super) fn value(&self) -> Option<Option<Value>> {
        if self.is_missing() {
            return Some(None);
        }
        let value = match self.kind {
            Type::String => Value::from(self.text()?),
            Type::Integer => Value::Integer(self.integer()?),
            Type::Float => Value::Float(self.float()?),
            Type::Bool => Value::Bool(self.truth()?),
            Type::Time => Value::Time(Time(self.integer()?)),
            Type::Ip => Value::Ip(self.text()?.parse::<IpAddr>().ok()?),
            Type::Bytes => Value::Bytes(self.bytes()?.into()),
            Type::List => {
                let items = self.items().map(|item| Some(Box::from(item?)));
                Value::List(items.collect::<Option<_>>()?)
            }
        };
        Some(Some(value))
    }
}
