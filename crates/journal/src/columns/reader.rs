//! Reads what [`super::write`] wrote.

use std::collections::HashMap;
use std::fmt::Debug;
use std::io;
use std::net::IpAddr;
use std::ops::Range;
use std::sync::Arc;

use disk::{Blob, read_full};
use event::{Facts, Slot, Time, Type, Value};
use judge::Action;
use parking_lot::Mutex;

use super::pages::{self, DecodedChunk, DecodedValues};
use super::{
    ColumnsFormat, ColumnsIndex, HEAD_BYTES, INDEX_BYTES_MAX, MAGIC, OWN, OWN_HEAD_BYTES, PARQUET, ROWS_MAX,
    ReportDetail, RowGroup, own,
};
use crate::compression::decompress;
use crate::encoding::{self, RecordReader, RecordWrite, variant};
use crate::encoding::{DecisionHead, DecisionOutcome};
use crate::format::{SegmentError, VERSION};
use crate::id::RecordId;
use crate::keys;
use crate::record::counted;
use crate::summary::{self, STORED_BLOCK_BYTES, SearchProbe, SummaryFilter};
use crate::visitor::RecordVisitor;
use crate::{Record, ReportRecord};

/// Rows of a group that are read one by one.
const FEW: usize = 4;
/// Memory that the columns of a group take while they are read, about.
const BUDGET: usize = 512 << 20;

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
        let index: ColumnsIndex = postcard::from_bytes(&index).map_err(|_| damaged())?;
        // The first copy begins where the groups end.
        let begins = if copy == IndexCopy::First { Some(at) } else { at.checked_sub(length) };
        if !begins.is_some_and(|begins| index.is_sound(begins)) {
            return Err(damaged());
        }
        Ok(ColumnarHeader { index, footer: (footer, word(32)) })
    }
}

/// Bytes of indices that are kept, about. Those that were used longest ago make room.
const INDICES_BYTES_MAX: usize = 32 << 20;

/// The bytes by which a file is known again: its head has the checksum of its index, which has those of all columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileIdentity {
    head: [u8; HEAD_BYTES],
    bytes: u64,
}

/// The indices of files that were opened before: whoever searches opens all of them again and again.
#[derive(Debug, Default)]
pub(crate) struct IndexCache(Mutex<KnownIndices>);

#[derive(Debug, Default)]
struct KnownIndices {
    of: HashMap<String, KnownIndex>,
    bytes: usize,
    /// The number of uses so far.
    uses: u64,
}

#[derive(Debug)]
struct KnownIndex {
    identity: FileIdentity,
    index: Arc<ColumnsIndex>,
    footer: (u64, u32),
    bytes: usize,
    used: u64,
}

impl IndexCache {
    fn of(&self, name: &str, identity: &FileIdentity) -> Option<(Arc<ColumnsIndex>, (u64, u32))> {
        let mut known = self.0.lock();
        known.uses += 1;
        let uses = known.uses;
        let found = known.of.get_mut(name).filter(|found| found.identity == *identity)?;
        found.used = uses;
        Some((Arc::clone(&found.index), found.footer))
    }

    fn keep(&self, name: &str, identity: FileIdentity, opened: &ColumnarSegment) {
        let index = Arc::clone(&opened.index);
        let bytes = 1024 + index.groups.iter().map(|group| 128 + 8 * group.chunks.len()).sum::<usize>();
        let mut known = self.0.lock();
        let used = known.uses;
        let kept = KnownIndex { identity, index, footer: opened.footer, bytes, used };
        known.bytes += bytes;
        if let Some(before) = known.of.insert(name.to_owned(), kept) {
            known.bytes -= before.bytes;
        }
        while known.bytes > INDICES_BYTES_MAX {
            let oldest = known.of.iter().min_by_key(|(_, index)| index.used).map(|(name, _)| name.clone());
            let Some(oldest) = oldest.and_then(|name| known.of.remove(&name)) else { break };
            known.bytes -= oldest.bytes;
        }
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
        Ok(ColumnarSegment { source, index: Arc::new(index), footer, bytes, form })
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
            return Ok(ColumnarSegment { source: Box::new(file), index, footer, bytes, form });
        }
        let opened = ColumnarSegment::open(file)?;
        known.keep(name, identity, &opened);
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

    /// The ids, the latest arrival, the number of rows, the place and the length of a group.
    pub(crate) fn group(&self, number: usize) -> Option<GroupHead> {
        let group = self.index.groups.get(number)?;
        Some(GroupHead {
            first: group.first,
            last: group.last,
            arrival: group.arrival,
            rows: group.rows,
            at: group.at,
            bytes: group.bytes(),
        })
    }

    /// A column of some rows of a group, decoded.
    pub(super) fn chunk(
        &self,
        group: &RowGroup,
        column: usize,
        rows: Range<usize>,
        budget: &mut usize,
    ) -> Result<DecodedChunk, SegmentError> {
        let bytes = self.column_bytes(group, column)?;
        let rows = (group.rows as usize, rows);
        pages::decode(&bytes, self.form, self.kind(column), rows, budget)
            .ok_or_else(|| SegmentError::Damaged(group.column_at(column)))
    }

    /// The bytes of a column of a group, which are as they were written.
    fn column_bytes(&self, group: &RowGroup, column: usize) -> Result<Vec<u8>, SegmentError> {
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

    fn kind(&self, column: usize) -> Type {
        let fact = |column: usize| self.index.layout.facts.get(column).map(|(_, kind)| *kind);
        match OWN.get(column) {
            Some((_, kind)) => *kind,
            None => fact(column - OWN.len()).unwrap_or(Type::Bytes),
        }
    }

    /// Goes through all of a column of a group.
    fn cursor(
        &self,
        group: &RowGroup,
        column: usize,
        budget: &mut usize,
    ) -> Result<ColumnCursor, SegmentError> {
        let chunk = self.chunk(group, column, 0..group.rows as usize, budget)?;
        Ok(ColumnCursor::of(self.kind(column), chunk))
    }

    /// All columns of a group, read at once and checked.
    fn all_chunks(&self, group: &RowGroup) -> Result<AllChunks, SegmentError> {
        let length = usize::try_from(group.bytes()).map_err(|_| SegmentError::Damaged(group.at))?;
        // The index was found to lie behind them.
        let mut bytes = vec![0; length];
        self.source.read_at(&mut bytes, group.at)?;
        let all = AllChunks(bytes);
        if self.form == ColumnsFormat::Sealed {
            for ((at, bytes), (_, crc)) in all.of_columns(group).zip(&group.chunks) {
                if crc32fast::hash(bytes) != *crc {
                    return Err(SegmentError::Damaged(at));
                }
            }
        }
        Ok(all)
    }

    /// The records of a group whose ids are wanted.
    pub(crate) fn records(
        &self,
        number: usize,
        wanted: impl Fn(RecordId) -> bool,
    ) -> Result<Vec<(RecordId, Record)>, SegmentError> {
        let Some(group) = self.index.groups.get(number) else { return Ok(Vec::new()) };
        let mut bytes = Vec::new();
        let count = self.rows(number, wanted, &mut bytes)?;
        let records = Record::decode_all(&bytes);
        if records.len() == count { Ok(records) } else { Err(SegmentError::Damaged(group.at)) }
    }

    /// The record of this id of a group. Where ids rise evenly, one page of them is read to find its row.
    pub(crate) fn find(
        &self,
        number: usize,
        id: RecordId,
    ) -> Result<Option<(RecordId, Record)>, SegmentError> {
        let Some(group) = self.index.groups.get(number) else { return Ok(None) };
        let damaged = || SegmentError::Damaged(group.at);
        let mut budget = BUDGET;
        let column = self.column_bytes(group, own::ID)?;
        let (before, span) = (id.0.saturating_sub(group.first.0), group.last.0.saturating_sub(group.first.0));
        let guess = u128::from(before) * u128::from(group.rows) / (u128::from(span) + 1);
        let place = (group.rows as usize, guess as usize);
        let row = match pages::find_text(&column, self.form, place, &id.digits(), &mut budget) {
            None => return Ok(self.records(number, |other| other == id)?.pop()),
            Some(None) => return Ok(None),
            Some(Some(row)) => row,
        };
        let mut bytes = Vec::new();
        self.put_rows(group, &[(row, id)], &mut budget, &mut bytes)?;
        Record::decode_all(&bytes).pop().map(Some).ok_or_else(damaged)
    }

    /// Puts the bytes of these records behind others, as rows have them, and answers how many records they are.
    pub(crate) fn rows(
        &self,
        number: usize,
        wanted: impl Fn(RecordId) -> bool,
        into: &mut Vec<u8>,
    ) -> Result<usize, SegmentError> {
        let Some(group) = self.index.groups.get(number) else { return Ok(0) };
        let mut budget = BUDGET;
        let mut ids = self.cursor(group, own::ID, &mut budget)?;
        let ids =
            (0..group.rows as usize).map(|row| Some((row, ids.next().text()?.parse::<RecordId>().ok()?)));
        let rows: Vec<(usize, RecordId)> = ids
            .filter(|row| row.is_none_or(|(_, id)| wanted(id)))
            .collect::<Option<_>>()
            .ok_or(SegmentError::Damaged(group.at))?;
        if !rows.is_empty() {
            self.put_rows(group, &rows, &mut budget, into)?;
        }
        Ok(rows.len())
    }

    /// Puts the bytes of these rows of a group behind others, in their order.
    fn put_rows(
        &self,
        group: &RowGroup,
        rows: &[(usize, RecordId)],
        budget: &mut usize,
        into: &mut Vec<u8>,
    ) -> Result<(), SegmentError> {
        let all = self.all_chunks(group)?;
        // Few rows are read one by one, each from its page; of many all lie on nearly all pages.
        for part in rows.chunks(if rows.len() <= FEW { 1 } else { rows.len() }) {
            let (Some((first, _)), Some((last, _))) = (part.first(), part.last()) else { continue };
            let range = *first..*last + 1;
            let columns = all.of_columns(group).enumerate().map(|(column, (at, bytes))| {
                let (kind, rows) = (self.kind(column), (group.rows as usize, range.clone()));
                let chunk = pages::decode(bytes, self.form, kind, rows, budget);
                chunk.map(|chunk| ColumnCursor::of(kind, chunk)).ok_or(SegmentError::Damaged(at))
            });
            let mut columns: Vec<ColumnCursor> = columns.collect::<Result<_, _>>()?;
            let mut part = part.iter().peekable();
            for row in range {
                let Some((_, id)) = part.next_if(|(wanted, _)| *wanted == row) else {
                    columns.iter_mut().for_each(ColumnCursor::pass);
                    continue;
                };
                let entries: Vec<ColumnEntry<'_>> = columns.iter_mut().map(ColumnCursor::next).collect();
                self.row(*id, &entries, into).ok_or(SegmentError::Damaged(group.at))?;
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

    /// Shows a group to `look`, and reads no more than that wants.
    pub(crate) fn look<'w>(
        &self,
        number: usize,
        look: &mut dyn RecordVisitor<'w>,
    ) -> Result<(), SegmentError> {
        let Some(group) = self.index.groups.get(number) else { return Ok(()) };
        let mut budget = BUDGET;
        let of = [own::WHAT, own::PIPELINE, own::VERSION, own::ID, own::TIME, own::DECISION, own::CLASS];
        let mut of = ColumnarSegment::cursors(self, group, of, &mut budget)?;
        let wanted = self.wanted(&of, group, look)?;
        let mut verdicts = if wanted.iter().any(|kind| kind.is_wanted) {
            let of = [own::SCORE, own::ACTION, own::RULES, own::SHADOW];
            Some(ColumnarSegment::cursors(self, group, of, &mut budget)?)
        } else {
            None
        };
        // Each column that is read, and for each version of the group the slot that its values go to.
        let mut facts: Vec<(ColumnCursor, Vec<Option<Slot>>)> = Vec::new();
        for column in 0..self.index.layout.facts.len() {
            let slots: Vec<Option<Slot>> = wanted.iter().map(|kind| kind.slot(column)).collect();
            if slots.iter().any(Option::is_some) {
                facts.push((self.cursor(group, OWN.len() + column, &mut budget)?, slots));
            }
        }
        let wants_signals = look.wants_signals() && self.has_signals(&of[0], group);
        let wants_keys = look.wants_keys() && verdicts.is_some();
        let mut event_ids = match look.wants_event_ids() {
            true => Some(self.cursor(group, own::EVENT_ID, &mut budget)?),
            false => None,
        };
        let mut probabilities = match look.wants_probabilities() && verdicts.is_some() {
            true => Some(self.cursor(group, own::PROBABILITY, &mut budget)?),
            false => None,
        };
        let mut details = match wants_signals || wants_keys || (group.extras && verdicts.is_some()) {
            true => Some(self.cursor(group, own::DETAIL, &mut budget)?),
            false => None,
        };
        let damaged = || SegmentError::Damaged(group.at);
        let verdicts_are_read = verdicts.is_some();
        let mut same = 0;
        for _ in 0..group.rows {
            let [what, pipeline, version, id, time, decision, class] = of.each_mut().map(ColumnCursor::next);
            let verdict = verdicts.as_mut().map(|of| of.each_mut().map(ColumnCursor::next));
            let probability = probabilities.as_mut().map(ColumnCursor::next);
            let detail = details.as_mut().map(ColumnCursor::next);
            let event_id = event_ids.as_mut().map(ColumnCursor::next);
            let id = id.text().and_then(|id| id.parse().ok()).ok_or_else(damaged)?;
            let time = Time(time.integer().ok_or_else(damaged)?);
            if what.text().is_some_and(|what| [super::SIGNAL, super::UNCOUNTED].contains(&what)) {
                facts.iter_mut().for_each(|(cursor, _)| cursor.pass());
                if let Some(detail) = detail.filter(|_| wants_signals && what.text() == Some(super::SIGNAL)) {
                    let decision = decision.text().and_then(|id| id.parse().ok()).ok_or_else(damaged)?;
                    let detail = detail.bytes().and_then(|bytes| postcard::from_bytes(bytes).ok());
                    let ReportDetail { class, weight, replaced, .. } = detail.ok_or_else(damaged)?;
                    if let Some(class) = counted(class.as_deref(), weight, replaced.is_some()) {
                        look.signal(id, decision, class, time);
                    }
                }
                continue;
            }
            if what.text() == Some(super::REPORT) {
                let decision = decision.text().and_then(|id| id.parse().ok()).ok_or_else(damaged)?;
                look.feedback(id, decision, class.text(), time);
                facts.iter_mut().for_each(|(cursor, _)| cursor.pass());
                continue;
            }
            let names = (pipeline.text().ok_or_else(damaged)?, version.text().ok_or_else(damaged)?);
            if !wanted.get(same).is_some_and(|kind| kind.is(names)) {
                same = wanted.iter().position(|kind| kind.is(names)).ok_or_else(damaged)?;
            }
            let event_id = event_id.and_then(|event_id| event_id.text());
            let head = DecisionHead { id, pipeline: names.0, version: names.1, time, event_id };
            let Some(row) = look.decision(&head) else {
                facts.iter_mut().for_each(|(cursor, _)| cursor.pass());
                continue;
            };
            for (cursor, slots) in &mut facts {
                match slots[same] {
                    None => cursor.pass(),
                    Some(slot) => {
                        let entry = cursor.next();
                        if !entry.is_missing() {
                            row.set(slot, entry.value().flatten().ok_or_else(damaged)?);
                        }
                    }
                }
            }
            if let Some(detail) = detail.filter(|_| group.extras && verdicts_are_read) {
                wanted[same].set_extras(detail, row).ok_or_else(damaged)?;
            }
            if let Some(detail) = detail.filter(|_| wants_keys) {
                let detail = detail.bytes().and_then(DecisionDetail::read).ok_or_else(damaged)?;
                keys::names(detail.keys, |kind, shingle| look.key(kind, shingle)).map_err(|_| damaged())?;
            }
            let Some([score, action, rules, shadow]) = verdict else { continue };
            for (rules, is_shadow) in [(rules, false), (shadow, true)] {
                for rule in rules.items() {
                    look.fired(rule.ok_or_else(damaged)?, is_shadow);
                }
            }
            let action: Option<Action> = action.text().and_then(|action| action.parse().ok());
            let (score, action) = (score.float().ok_or_else(damaged)?, action.ok_or_else(damaged)?);
            let probability = match probability {
                Some(probability) => Some(probability.float().ok_or_else(damaged)?),
                None => None,
            };
            look.decided(DecisionOutcome { score, probability, action });
        }
        Ok(())
    }

    fn cursors<const N: usize>(
        &self,
        group: &RowGroup,
        columns: [usize; N],
        budget: &mut usize,
    ) -> Result<[ColumnCursor; N], SegmentError> {
        let cursors = columns.into_iter().map(|column| self.cursor(group, column, budget));
        let cursors = cursors.collect::<Result<Vec<_>, _>>()?;
        // There are as many as columns.
        cursors.try_into().map_err(|_| SegmentError::Damaged(group.at))
    }

    /// Returns true if a group has signals.
    fn has_signals(&self, what: &ColumnCursor, group: &RowGroup) -> bool {
        let mut what = what.again();
        (0..group.rows).any(|_| what.next().text() == Some(super::SIGNAL))
    }

    /// The versions of a group, and what is wanted of each.
    fn wanted<'w>(
        &self,
        of: &[ColumnCursor; 7],
        group: &RowGroup,
        look: &mut dyn RecordVisitor<'w>,
    ) -> Result<Vec<VersionProjection<'w>>, SegmentError> {
        let damaged = || SegmentError::Damaged(group.at);
        let mut wanted: Vec<VersionProjection<'w>> = Vec::new();
        let [_, pipelines, versions, ..] = of;
        let (mut pipelines, mut versions) = (pipelines.again(), versions.again());
        for _ in 0..group.rows {
            let (pipeline, version) = (pipelines.next(), versions.next());
            let (Some(pipeline), Some(version)) = (pipeline.text(), version.text()) else { continue };
            if wanted.iter().any(|kind| kind.is((pipeline, version))) {
                continue;
            }
            let facts = look.version(pipeline, version);
            let mut slots = vec![None; self.index.layout.facts.len()];
            let columns = self.index.layout.version(version).map_or(&[][..], |layout| &layout.slots);
            for (column, slot) in columns.iter().zip(facts.unwrap_or_default()) {
                if let Some(column) = column {
                    *slots.get_mut(*column as usize).ok_or_else(damaged)? = *slot;
                }
            }
            wanted.push(VersionProjection {
                pipeline: pipeline.to_owned(),
                version: version.to_owned(),
                is_wanted: facts.is_some(),
                facts: facts.unwrap_or_default(),
                slots,
            });
        }
        Ok(wanted)
    }
}

/// The bytes of all columns of a group.
struct AllChunks(Vec<u8>);

impl AllChunks {
    /// The start of each column in the file, and its bytes.
    fn of_columns<'a>(&'a self, group: &'a RowGroup) -> impl Iterator<Item = (u64, &'a [u8])> {
        let (mut rest, mut at) = (&self.0[..], group.at);
        group.chunks.iter().map(move |(length, _)| {
            // As many were read as these lengths say.
            let (bytes, behind) = rest.split_at((*length as usize).min(rest.len()));
            rest = behind;
            at += u64::from(*length);
            (at - u64::from(*length), bytes)
        })
    }
}

/// The head of a group.
#[derive(Clone, Debug)]
pub(crate) struct GroupHead {
    pub(crate) first: RecordId,
    pub(crate) last: RecordId,
    pub(crate) arrival: Time,
    pub(crate) rows: u32,
    pub(crate) at: u64,
    pub(crate) bytes: u64,
}

/// The parts of a version's decisions that are wanted.
struct VersionProjection<'w> {
    pipeline: String,
    version: String,
    is_wanted: bool,
    /// The slot of each fact.
    facts: &'w [Option<Slot>],
    /// The slot of each column of facts.
    slots: Vec<Option<Slot>>,
}

impl VersionProjection<'_> {
    fn is(&self, (pipeline, version): (&str, &str)) -> bool {
        self.version == version && self.pipeline == pipeline
    }

    fn slot(&self, column: usize) -> Option<Slot> {
        self.slots.get(column).copied().flatten()
    }

    fn set_extras(&self, detail: ColumnEntry<'_>, row: &mut Facts) -> Option<()> {
        let DecisionDetail { extras, .. } = DecisionDetail::read(detail.bytes()?)?;
        for (fact, value) in extras {
            let slot = usize::try_from(fact).ok().and_then(|fact| self.facts.get(fact).copied().flatten());
            if let Some(slot) = slot {
                row.set(slot, postcard::from_bytes::<Value>(value).ok()?);
            }
        }
        Some(())
    }
}

/// The parts of a decision that have no column of their own, and their places in its bytes.
struct DecisionDetail<'b> {
    /// Facts, missing ones included.
    facts: u64,
    /// Facts without a column, rising, and their values.
    extras: Vec<(u64, &'b [u8])>,
    keys: &'b [u8],
    /// The number of rules that fired, enforced and in shadow, and all of them but their names.
    reasons: [(u64, RecordReader<'b>); 2],
    next: &'b [u8],
    effects: &'b [u8],
}

impl<'b> DecisionDetail<'b> {
    /// The detail as rows have it.
    fn read(bytes: &'b [u8]) -> Option<DecisionDetail<'b>> {
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
#[derive(Debug)]
struct ColumnCursor<C = DecodedChunk> {
    kind: Type,
    chunk: C,
    entry: usize,
    value: usize,
}

/// The part of a column that belongs to a row.
#[derive(Clone, Copy)]
struct ColumnEntry<'c> {
    kind: Type,
    chunk: &'c DecodedChunk,
    /// 0 for a missing value.
    level: u8,
    /// Its first value and the one behind its last.
    values: (usize, usize),
}

impl ColumnCursor {
    /// From the first row on that was wanted.
    fn of(kind: Type, chunk: DecodedChunk) -> ColumnCursor {
        let (entry, value) = chunk.begin;
        ColumnCursor { kind, chunk, entry, value }
    }

    fn again(&self) -> ColumnCursor<&DecodedChunk> {
        ColumnCursor { kind: self.kind, chunk: &self.chunk, entry: 0, value: 0 }
    }
}

impl<C: std::borrow::Borrow<DecodedChunk>> ColumnCursor<C> {
    #[inline]
    fn next(&mut self) -> ColumnEntry<'_> {
        let chunk: &DecodedChunk = self.chunk.borrow();
        let (level, before) = (chunk.levels.get(self.entry).copied().unwrap_or(0), self.value);
        self.entry += 1;
        if self.kind == Type::List {
            self.value += usize::from(level == pages::full(Type::List));
            while chunk.repeats.get(self.entry) == Some(&1) {
                self.value += usize::from(chunk.levels.get(self.entry) == Some(&pages::full(Type::List)));
                self.entry += 1;
            }
        } else {
            self.value += usize::from(level);
        }
        ColumnEntry { kind: self.kind, chunk, level, values: (before, self.value) }
    }

    /// Passes over a row.
    #[inline]
    fn pass(&mut self) {
        self.next();
    }
}

impl<'c> ColumnEntry<'c> {
    fn is_missing(&self) -> bool {
        self.level == 0
    }

    fn bytes(&self) -> Option<&'c [u8]> {
        if self.is_missing() { None } else { self.chunk.bytes(self.values.0) }
    }

    fn text(&self) -> Option<&'c str> {
        std::str::from_utf8(self.bytes()?).ok()
    }

    fn integer(&self) -> Option<i64> {
        match &self.chunk.values {
            DecodedValues::Integers(values) if !self.is_missing() => values.get(self.values.0).copied(),
            _ => None,
        }
    }

    fn float(&self) -> Option<f64> {
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
    fn items(&self) -> impl Iterator<Item = Option<&'c str>> + use<'c> {
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
    fn value(&self) -> Option<Option<Value>> {
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
