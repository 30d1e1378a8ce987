//! Segment files that are being written: a head, then blocks of compressed records. `docs/internals/format.md` draws the bytes.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use disk::log::{FrameDamage, FrameFormat, FrameHead, FramePiece, FrameReader, SegmentWriter, keep_tail};
use disk::{Blob, Device, create_anew, read_full};
use event::Time;

use super::block::{BLOCK_HEAD_BYTES, Block, BlockInfo};
use super::columns::{ColumnarSegment, ColumnsFormat};
use super::compression::{LEVEL_ROWS, compress};
use super::file::JournalFile;
use super::format::{DamagedStretch, SegmentError, VERSION};
use super::{JournalDamage, JournalError, Record, segment_error};
use crate::id::RecordId;

const MAGIC: [u8; 8] = *b"TOLLJRNL";
/// Magic, version, checksum.
const HEAD_BYTES: usize = 16;
/// Begins every block, so that it is found behind bytes that cannot be read.
const MARK: [u8; 4] = [0xf5, 0x54, 0x48, 0x6a];
/// The length of what a block's head says beside place, length and checksum: raw length, count, first id, last id, arrival.
const OWN_BYTES: usize = 4 + 4 + 8 + 8 + 8;
/// Largest block content, so that a damaged or hostile length costs no memory.
const RAW_BYTES_MAX: usize = 128 << 20;

/// Blocks are mostly passed over, or longer than the window.
const FORMAT: FrameFormat<OWN_BYTES> =
    FrameFormat { mark: MARK, is_plausible: |frame| BlockHeader::of(*frame).is_plausible(), window: 8 << 10 };

const _: () = assert!(BLOCK_HEAD_BYTES == FrameHead::<OWN_BYTES>::BYTES);

/// The next piece of a segment.
pub type SegmentPiece<T> = FramePiece<T, DamagedStretch>;

/// The blocks of a segment one after another, and the stretches between them that cannot be read. Behind such a stretch
/// it goes on with the next block that begins where it says.
#[derive(Debug)]
pub struct BlockIter {
    frames: FrameReader<OWN_BYTES>,
}

impl BlockIter {
    /// Reads a segment's head. A damaged one costs nothing but itself.
    ///
    /// # Errors
    /// [`SegmentError::Other`] for the head of another format.
    pub fn new(blob: Box<dyn Blob>) -> Result<BlockIter, SegmentError> {
        let length = blob.size()?;
        let mut head = [0; HEAD_BYTES];
        let got = read_full(&*blob, 0, &mut head)?;
        let version = u32_at(&head, MAGIC.len());
        let is_sound = got == HEAD_BYTES && crc32fast::hash(&head[..12]) == u32_at(&head, 12);
        if head.starts_with(&MAGIC) && version != VERSION && is_sound {
            return Err(SegmentError::Other(version));
        }
        let at = if is_sound && head.starts_with(&MAGIC) { HEAD_BYTES as u64 } else { 0 };
        Ok(BlockIter { frames: FrameReader::new(blob, at, length, &FORMAT) })
    }

    /// Returns true if the segment's own head is as it was written, before anything else is read.
    fn has_head(&self) -> bool {
        self.frames.place() > 0
    }

    /// The next block's head; its content is passed over unread and unchecked.
    fn next_head(&mut self) -> io::Result<Option<SegmentPiece<BlockHeader>>> {
        Ok(self.frames.next_head()?.map(|piece| match piece {
            FramePiece::Sound(frame) => SegmentPiece::Sound(BlockHeader::of(frame)),
            FramePiece::Damaged(damage) => SegmentPiece::Damaged(stretch(damage)),
        }))
    }

    /// The block that has this head, or that it is damaged.
    fn content(&mut self, head: &BlockHeader) -> io::Result<SegmentPiece<Block>> {
        let block = self.frames.content(&head.frame)?.and_then(|content| head.block(content));
        let damage = || SegmentPiece::Damaged(stretch(self.frames.damage(&head.frame)));
        Ok(block.map_or_else(damage, SegmentPiece::Sound))
    }

    /// The block that begins here.
    pub(super) fn block_at(&mut self, at: u64) -> io::Result<Option<SegmentPiece<Block>>> {
        self.frames.seek(at);
        self.next_piece()
    }

    fn next_piece(&mut self) -> io::Result<Option<SegmentPiece<Block>>> {
        Ok(match self.next_head()? {
            Some(SegmentPiece::Sound(head)) => Some(self.content(&head)?),
            Some(SegmentPiece::Damaged(stretch)) => Some(SegmentPiece::Damaged(stretch)),
            None => None,
        })
    }

    /// The next block's head, if its content is whole.
    fn next_whole(&mut self) -> io::Result<Option<SegmentPiece<BlockHeader>>> {
        let Some(piece) = self.next_head()? else { return Ok(None) };
        let SegmentPiece::Sound(head) = piece else { return Ok(Some(piece)) };
        Ok(Some(match self.content(&head)? {
            SegmentPiece::Sound(_) => SegmentPiece::Sound(head),
            SegmentPiece::Damaged(stretch) => SegmentPiece::Damaged(stretch),
        }))
    }

    /// The heads of a segment's blocks, and the stretches that belong to no block, in order. Of one that may be written
    /// to, what is just being written, or torn, is left out. Those up to some block may be known: if it is still there, only what is
    /// behind it is read.
    pub(super) fn places(
        &mut self,
        growing: bool,
        known: Vec<SegmentPiece<BlockInfo>>,
    ) -> io::Result<Vec<SegmentPiece<BlockInfo>>> {
        let begin = self.frames.place();
        let mut places = known;
        if let Some(SegmentPiece::Sound(last)) = places.last() {
            self.frames.seek(last.at);
            let is_there =
                matches!(self.next_head()?, Some(SegmentPiece::Sound(head)) if head.info() == *last);
            if !is_there {
                places.clear();
                self.frames.seek(begin);
            }
        } else {
            places.clear();
        }
        while let Some(piece) = self.next_head()? {
            match piece {
                SegmentPiece::Sound(head) => places.push(SegmentPiece::Sound(head.info())),
                SegmentPiece::Damaged(stretch) if growing && stretch.is_tail => {}
                SegmentPiece::Damaged(stretch) => places.push(SegmentPiece::Damaged(stretch)),
            }
        }
        Ok(places)
    }

    /// Records of all blocks, as these say.
    pub(super) fn count_records(mut self) -> io::Result<u64> {
        let mut count = 0;
        while let Some(piece) = self.next_head()? {
            if let SegmentPiece::Sound(head) = piece {
                count += u64::from(head.count);
            }
        }
        Ok(count)
    }

    /// The record of this id among the blocks from `at` to `end`. Blocks that cannot be read are passed over.
    pub(super) fn find(mut self, at: u64, end: u64, id: RecordId) -> io::Result<Option<Record>> {
        self.frames.seek(at);
        while self.frames.place() < end {
            let Some(piece) = self.next_head()? else { break };
            let SegmentPiece::Sound(head) = piece else { continue };
            if !(head.first..=head.last).contains(&id) {
                continue;
            }
            if let SegmentPiece::Sound(block) = self.content(&head)?
                && let Ok(Some(record)) = block.find(id)
            {
                return Ok(Some(record));
            }
        }
        Ok(None)
    }
}

impl Iterator for BlockIter {
    type Item = io::Result<SegmentPiece<Block>>;

    /// The next piece. An error of the system ends them.
    fn next(&mut self) -> Option<io::Result<SegmentPiece<Block>>> {
        let piece = self.next_piece().transpose();
        if matches!(piece, Some(Err(_))) {
            self.frames.seek(self.frames.length());
        }
        piece
    }
}

fn stretch(damage: FrameDamage<OWN_BYTES>) -> DamagedStretch {
    let FrameDamage { from, to, head, is_tail } = damage;
    let records = head.map_or(0, |frame| u64::from(BlockHeader::of(frame).count));
    DamagedStretch { from, to, records, is_tail }
}

/// The head of a block, as it is on disk.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockHeader {
    frame: FrameHead<OWN_BYTES>,
    raw_bytes: u32,
    count: u32,
    first: RecordId,
    last: RecordId,
    arrival: Time,
}

impl BlockHeader {
    fn of(frame: FrameHead<OWN_BYTES>) -> BlockHeader {
        let own = &frame.own;
        BlockHeader {
            raw_bytes: u32_at(own, 0),
            count: u32_at(own, 4),
            first: RecordId(u64_at(own, 8)),
            last: RecordId(u64_at(own, 16)),
            arrival: Time(u64_at(own, 24) as i64),
            frame,
        }
    }

    fn is_plausible(&self) -> bool {
        let (length, raw_bytes) = (self.frame.length as usize, self.raw_bytes as usize);
        match raw_bytes {
            0 => length <= RAW_BYTES_MAX,
            _ => {
                raw_bytes <= RAW_BYTES_MAX
                    && length <= zstd::zstd_safe::compress_bound(raw_bytes)
                    && self.count as usize <= raw_bytes
            }
        }
    }

    fn info(&self) -> BlockInfo {
        BlockInfo {
            first: self.first,
            last: self.last,
            arrival: self.arrival,
            count: self.count,
            at: self.frame.at,
            length: u64::from(self.frame.length),
        }
    }

    fn block(&self, content: Vec<u8>) -> Option<Block> {
        if self.raw_bytes > 0 {
            return Some(Block::of_rows(self.info(), content, self.raw_bytes as usize));
        }
        let columns = ColumnarSegment::of(Box::new(content), ColumnsFormat::Sealed).ok()?;
        // Its records would be taken for copied, and the block for done with.
        (columns.records_count() == u64::from(self.count)).then(|| Block::of_file(self.info(), columns))
    }
}

/// Opens a segment file; `None` for one that is not there any more, as it was too old to be kept.
pub(super) fn open(file: &JournalFile) -> Result<Option<BlockIter>, JournalError> {
    file.open()?.map(BlockIter::new).transpose().map_err(segment_error(&file.path()))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|part| part.try_into().ok()).map_or(0, u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|part| part.try_into().ok()).map_or(0, u64::from_le_bytes)
}

/// The content of a segment. One without records is from the end of time.
#[derive(Clone, Debug)]
pub(super) struct SegmentSummary {
    /// The segment has unreadable parts or another format: nothing is added to it any more.
    pub(super) is_closed: bool,
    pub(super) bytes: u64,
    /// Records in blocks that say how many they are.
    pub(super) records: u64,
    pub(super) last: Option<RecordId>,
    /// Earliest arrival of a block.
    pub(super) from: Time,
    /// Latest arrival of a block, if any could be read.
    pub(super) to: Option<Time>,
    /// The smallest id from a block on, and where that block begins: an entry for every [`INDEX_BYTES`] or so.
    index: Vec<(RecordId, u64)>,
}

/// Bytes of a segment for which its index in memory has one entry.
const INDEX_BYTES: u64 = 256 << 10;

impl SegmentSummary {
    pub(super) fn empty() -> SegmentSummary {
        SegmentSummary { is_closed: false, ..SegmentSummary::unknown(HEAD_BYTES as u64) }
    }

    /// The summary of a file of this length.
    pub(super) fn unknown(bytes: u64) -> SegmentSummary {
        SegmentSummary {
            is_closed: true,
            bytes,
            records: 0,
            last: None,
            from: Time(i64::MAX),
            to: None,
            index: Vec::new(),
        }
    }

    /// Takes in a block that was read or written.
    pub(super) fn add(&mut self, head: &BlockInfo) {
        self.last = self.last.max(Some(head.last));
        self.from = self.from.min(head.arrival);
        self.to = self.to.max(Some(head.arrival));
        self.records += u64::from(head.count);
        self.bytes = head.at + BLOCK_HEAD_BYTES as u64 + head.length;
        match self.index.last_mut() {
            Some((first, at)) if head.at - *at < INDEX_BYTES => *first = (*first).min(head.first),
            _ => self.index.push((head.first, head.at)),
        }
    }

    /// The start and end of the blocks that may hold an id. Appends race for their ids, so that neighbouring entries may
    /// overlap: one more is searched on either side.
    pub(super) fn range(&self, id: RecordId) -> (u64, u64) {
        let after = self.index.partition_point(|(first, _)| *first <= id);
        let at = |index: usize| self.index.get(index).map(|(_, at)| *at);
        (at(after.saturating_sub(2)).unwrap_or(HEAD_BYTES as u64), at(after + 1).unwrap_or(self.bytes))
    }
}

/// The faults that [`summary`] found in a segment.
#[derive(Debug, Default)]
pub(super) struct SegmentFaults {
    /// Stretches that cannot be read, and have blocks behind them, or are in a segment that is closed.
    pub(super) damage: Vec<JournalDamage>,
    /// Bytes of a tail that were cut off, and the file that has them now.
    pub(super) torn: Option<(PathBuf, u64)>,
}

/// Reads what a segment holds. The newest segment is checked byte by byte, and what follows its last whole block is put
/// into a file beside; of an older one only the heads are read. Whatever else is damaged is left as it is, for readers to
/// pass over.
pub(super) fn summary(
    file: &JournalFile,
    newest: bool,
) -> Result<(SegmentSummary, SegmentFaults), JournalError> {
    let (mut summary, mut wounds) = (SegmentSummary::empty(), SegmentFaults::default());
    let Some(mut blocks) = open(file)? else { return Ok((summary, wounds)) };
    if newest && blocks.frames.length() < HEAD_BYTES as u64 {
        // A crash between making the file and writing its head.
        cut(file, 0).map_err(|error| file.error(error))?;
        return Ok((summary, wounds));
    }
    summary.is_closed = !blocks.has_head();
    let mut read = || {
        while let Some(piece) = if newest { blocks.next_whole()? } else { blocks.next_head()? } {
            match piece {
                SegmentPiece::Sound(head) => summary.add(&head.info()),
                SegmentPiece::Damaged(stretch) if newest && stretch.is_tail => {
                    wounds.torn = cut(file, stretch.from)?.map(|kept| (kept, stretch.to - stretch.from));
                }
                SegmentPiece::Damaged(stretch) => wounds.damage.push(stretch.in_file(file.name())),
            }
        }
        Ok(())
    };
    read().map_err(|error| file.error(error))?;
    summary.is_closed |= !wounds.damage.is_empty();
    if wounds.torn.is_none() {
        summary.bytes = blocks.frames.length();
    }
    Ok((summary, wounds))
}

/// Cuts a segment off, and keeps what is behind in a file beside it, which is returned.
fn cut(file: &JournalFile, at: u64) -> io::Result<Option<PathBuf>> {
    let device = &**file.device();
    let blob = device.open(file.name())?;
    let mut kept = None;
    if at >= HEAD_BYTES as u64 {
        kept = Some(device.path(&keep_tail(device, file.name(), &*blob, at..blob.size()?)?));
        device.sync_names()?;
    }
    // Not even a head: a crash between making the file and writing it.
    blob.truncate(at)?;
    if at < HEAD_BYTES as u64 {
        blob.append(&head())?;
    }
    blob.sync()?;
    Ok(kept)
}

/// Returns the bytes with which a segment begins.
fn head() -> Vec<u8> {
    let mut head = [&MAGIC[..], &VERSION.to_le_bytes()].concat();
    head.extend_from_slice(&crc32fast::hash(&head).to_le_bytes());
    head
}

/// Gets a block's place and its records.
pub(super) type BlockVisitor<'a> = dyn FnMut(&[(RecordId, Record)]) + 'a;

/// Reads a whole segment, checks every block, and returns the stretches that cannot be read. `each` gets the records of
/// intact blocks, `progress` the bytes read.
pub(super) fn check(
    file: &JournalFile,
    progress: &mut dyn FnMut(u64),
    each: &mut BlockVisitor<'_>,
) -> Result<Vec<DamagedStretch>, JournalError> {
    let mut damage: Vec<DamagedStretch> = Vec::new();
    let Some(mut blocks) = open(file)? else { return Ok(damage) };
    while let Some(piece) = blocks.next_piece().map_err(|error| file.error(error))? {
        progress(blocks.frames.place());
        match piece {
            SegmentPiece::Sound(block) => match block.records() {
                Ok(records) => each(&records),
                Err(_) => {
                    let (from, to) = (block.head.at, blocks.frames.place());
                    damage.push(DamagedStretch {
                        from,
                        to,
                        records: u64::from(block.head.count),
                        is_tail: false,
                    });
                }
            },
            SegmentPiece::Damaged(stretch) => damage.push(stretch),
        }
    }
    Ok(damage)
}

/// The records of a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockExtent {
    /// Smallest id.
    pub(super) first: RecordId,
    /// Largest id.
    pub(super) last: RecordId,
    /// Latest arrival.
    pub(super) arrival: Time,
    pub(super) count: u32,
}

impl BlockExtent {
    pub(super) fn holds(&self, id: RecordId) -> bool {
        (self.first..=self.last).contains(&id)
    }

    /// The head of a block of them that is in no file yet.
    pub(super) fn info(self) -> BlockInfo {
        let BlockExtent { first, last, arrival, count } = self;
        BlockInfo { first, last, arrival, count, at: 0, length: 0 }
    }

    /// The extent of these records and others.
    pub(super) fn and(self, other: BlockExtent) -> BlockExtent {
        BlockExtent {
            first: self.first.min(other.first),
            last: self.last.max(other.last),
            arrival: self.arrival.max(other.arrival),
            count: self.count.saturating_add(other.count),
        }
    }
}

/// An open segment at its end.
#[derive(Debug)]
pub(super) struct RowSegmentWriter {
    writer: SegmentWriter,
    file: JournalFile,
}

impl RowSegmentWriter {
    /// Makes a file with a head, in the place of any that is there.
    pub(super) fn create(file: &JournalFile) -> Result<RowSegmentWriter, JournalError> {
        let create = |device: &Arc<dyn Device>| {
            let mut writer = SegmentWriter::new(create_anew(&**device, file.name())?)?;
            writer.append(&[&head()])?;
            writer.sync()?;
            Ok(writer)
        };
        let writer = create(file.device()).map_err(|error| file.error(error))?;
        Ok(RowSegmentWriter { writer, file: file.clone() })
    }

    pub(super) fn append(file: &JournalFile) -> Result<RowSegmentWriter, JournalError> {
        let writer = SegmentWriter::new(file.open_present()?).map_err(|error| file.error(error))?;
        Ok(RowSegmentWriter { writer, file: file.clone() })
    }

    /// Writes a block of rows and returns its head.
    pub(super) fn write(&mut self, of: &BlockExtent, raw: &[u8]) -> Result<BlockInfo, JournalError> {
        let content = compress(raw, LEVEL_ROWS).map_err(|error| self.file.error(error))?;
        self.block(of, raw.len(), &content)
    }

    /// Writes a block that is a file by columns and returns its head.
    pub(super) fn write_columns(&mut self, of: &BlockExtent, file: &[u8]) -> Result<BlockInfo, JournalError> {
        self.block(of, 0, file)
    }

    fn block(
        &mut self,
        of: &BlockExtent,
        raw_bytes: usize,
        content: &[u8],
    ) -> Result<BlockInfo, JournalError> {
        let BlockExtent { first, last, arrival, count } = *of;
        let mut own = [0; OWN_BYTES];
        own[..4].copy_from_slice(&(raw_bytes as u32).to_le_bytes());
        own[4..8].copy_from_slice(&count.to_le_bytes());
        own[8..16].copy_from_slice(&first.0.to_le_bytes());
        own[16..24].copy_from_slice(&last.0.to_le_bytes());
        own[24..].copy_from_slice(&arrival.0.to_le_bytes());
        let frame = FrameHead::of(self.writer.size(), own, content);
        self.writer.append(&[&frame.write(MARK), content]).map_err(|error| self.file.error(error))?;
        Ok(BlockHeader::of(frame).info())
    }

    /// Takes back what is behind so many bytes.
    pub(super) fn cut(&mut self, bytes: u64) -> Result<(), JournalError> {
        self.writer.cut(bytes).map_err(|error| self.file.error(error))
    }

    pub(super) fn sync(&mut self) -> Result<(), JournalError> {
        self.writer.sync().map_err(|error| self.file.error(error))
    }
}
