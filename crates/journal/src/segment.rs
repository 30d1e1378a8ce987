//! Segment files that are being written: a head, then blocks of compressed records. `docs/internals/format.md` draws the bytes.

use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use event::Time;

use super::block::{BLOCK_HEAD_BYTES, Block, BlockInfo};
use super::columns::{ColumnarSegment, ColumnsFormat};
use super::compression::{LEVEL_ROWS, compress};
use super::format::{DamagedStretch, SegmentError, VERSION};
use super::{JournalDamage, JournalError, Record, io_error, segment_error};
use crate::id::RecordId;

const MAGIC: [u8; 8] = *b"TOLLJRNL";
/// Magic, version, checksum.
const HEAD_BYTES: usize = 16;
/// Begins every block, so that it is found behind bytes that cannot be read.
const MARK: [u8; 4] = [0xf5, 0x54, 0x48, 0x6a];
/// Largest block content, so that a damaged or hostile length costs no memory.
const RAW_BYTES_MAX: usize = 128 << 20;

/// What comes next in a segment.
#[derive(Debug)]
pub enum SegmentPiece<T> {
    /// Something that is as it was written.
    Sound(T),
    /// Something that is not.
    Damaged(DamagedStretch),
}

/// The blocks of a segment one after another, and the stretches between them that cannot be read. Behind such a stretch
/// it goes on with the next block that begins where it says.
#[derive(Debug)]
pub struct BlockIter<R> {
    reader: BufReader<R>,
    at: u64,
    length: u64,
}

impl<R: Read + Seek> BlockIter<R> {
    /// Reads a segment's head. A damaged one costs nothing but itself.
    ///
    /// # Errors
    /// [`SegmentError::Other`] for the head of another format.
    pub fn new(mut reader: R) -> Result<BlockIter<R>, SegmentError> {
        let length = reader.seek(SeekFrom::End(0))?;
        reader.rewind()?;
        let mut head = [0; HEAD_BYTES];
        let got = read_up_to(&mut reader, &mut head)?;
        let version = u32_at(&head, MAGIC.len());
        let is_sound = got == HEAD_BYTES && crc32fast::hash(&head[..12]) == u32_at(&head, 12);
        if head.starts_with(&MAGIC) && version != VERSION && is_sound {
            return Err(SegmentError::Other(version));
        }
        let at = if is_sound && head.starts_with(&MAGIC) { HEAD_BYTES as u64 } else { 0 };
        Ok(BlockIter { reader: BufReader::new(reader), at, length })
    }

    /// Whether the segment's own head is as it was written, before anything else is read.
    fn has_head(&self) -> bool {
        self.at > 0
    }

    fn seek(&mut self, at: u64) -> io::Result<()> {
        let now = self.reader.stream_position()?;
        self.reader.seek_relative(at.wrapping_sub(now) as i64)?;
        self.at = at;
        Ok(())
    }

    /// The next block's head; its content is passed over unread and unchecked.
    fn next_head(&mut self) -> io::Result<Option<SegmentPiece<BlockHeader>>> {
        if self.at >= self.length {
            return Ok(None);
        }
        let from = self.at;
        self.seek(from)?;
        let mut bytes = [0; BLOCK_HEAD_BYTES];
        let got = read_up_to(&mut self.reader, &mut bytes)?;
        let head = if got == BLOCK_HEAD_BYTES { BlockHeader::read(&bytes, from) } else { None };
        let (to, records, is_tail) = match head {
            Some(head) if head.end() <= self.length => {
                self.at = head.end();
                return Ok(Some(SegmentPiece::Sound(head)));
            }
            // Its end is missing, and with it all that could follow.
            Some(head) => (self.length, u64::from(head.count), true),
            None => match self.search(from + 1)? {
                Some(next) => (next, 0, false),
                None => (self.length, 0, true),
            },
        };
        self.at = to;
        Ok(Some(SegmentPiece::Damaged(DamagedStretch { from, to, records, is_tail })))
    }

    /// Where the next block begins at or behind a place.
    fn search(&mut self, from: u64) -> io::Result<Option<u64>> {
        const PART: usize = 64 << 10;
        let mut bytes = Vec::with_capacity(PART + BLOCK_HEAD_BYTES);
        let mut at = from;
        while at + BLOCK_HEAD_BYTES as u64 <= self.length {
            self.seek(at)?;
            bytes.clear();
            self.reader.by_ref().take((PART + BLOCK_HEAD_BYTES) as u64).read_to_end(&mut bytes)?;
            let heads = bytes.windows(BLOCK_HEAD_BYTES).enumerate();
            let mut marked = heads.filter(|(_, head)| head.starts_with(&MARK));
            if let Some((found, _)) =
                marked.find(|(offset, head)| BlockHeader::read(head, at + *offset as u64).is_some())
            {
                return Ok(Some(at + found as u64));
            }
            at += PART as u64;
        }
        Ok(None)
    }

    /// The block that has this head, or that it is damaged.
    fn content(&mut self, head: &BlockHeader) -> io::Result<SegmentPiece<Block>> {
        self.seek(head.at + BLOCK_HEAD_BYTES as u64)?;
        // As much as was found plausible.
        let mut content = vec![0; head.length as usize];
        let got = read_up_to(&mut self.reader, &mut content)?;
        self.at = head.end();
        let block = (got == content.len() && crc32fast::hash(&content) == head.content_crc)
            .then(|| head.block(content))
            .flatten();
        Ok(block.map_or_else(|| SegmentPiece::Damaged(head.stretch(self.length)), SegmentPiece::Sound))
    }

    /// The block that begins here.
    pub(super) fn block_at(&mut self, at: u64) -> io::Result<Option<SegmentPiece<Block>>> {
        self.at = at;
        self.next_piece()
    }

    fn next_piece(&mut self) -> io::Result<Option<SegmentPiece<Block>>> {
        Ok(match self.next_head()? {
            Some(SegmentPiece::Sound(head)) => Some(self.content(&head)?),
            Some(SegmentPiece::Damaged(stretch)) => Some(SegmentPiece::Damaged(stretch)),
            None => None,
        })
    }
}

impl<R: Read + Seek> Iterator for BlockIter<R> {
    type Item = io::Result<SegmentPiece<Block>>;

    /// The next piece. An error of the system ends them.
    fn next(&mut self) -> Option<io::Result<SegmentPiece<Block>>> {
        let piece = self.next_piece().transpose();
        if matches!(piece, Some(Err(_))) {
            self.at = self.length;
        }
        piece
    }
}

/// The head of a block, as it is on disk.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockHeader {
    at: u64,
    length: u32,
    raw_bytes: u32,
    count: u32,
    first: RecordId,
    last: RecordId,
    arrival: Time,
    content_crc: u32,
}

impl BlockHeader {
    /// Reads the head of a block that begins at a place; `None` for bytes that are none, or that of another place.
    fn read(bytes: &[u8], at: u64) -> Option<BlockHeader> {
        let is_sound = bytes.starts_with(&MARK)
            && bytes.get(8..BLOCK_HEAD_BYTES).map(crc32fast::hash) == Some(u32_at(bytes, 4))
            && u64_at(bytes, 8) == at;
        let head = BlockHeader {
            at,
            length: u32_at(bytes, 16),
            raw_bytes: u32_at(bytes, 20),
            count: u32_at(bytes, 24),
            first: RecordId(u64_at(bytes, 28)),
            last: RecordId(u64_at(bytes, 36)),
            arrival: Time(u64_at(bytes, 44) as i64),
            content_crc: u32_at(bytes, 52),
        };
        let (length, raw_bytes) = (head.length as usize, head.raw_bytes as usize);
        let is_plausible = match raw_bytes {
            0 => length <= RAW_BYTES_MAX,
            _ => {
                raw_bytes <= RAW_BYTES_MAX
                    && length <= zstd::zstd_safe::compress_bound(raw_bytes)
                    && head.count as usize <= raw_bytes
            }
        };
        (is_sound && is_plausible).then_some(head)
    }

    fn write(&self) -> Vec<u8> {
        let mut rest = Vec::with_capacity(BLOCK_HEAD_BYTES);
        rest.extend_from_slice(&self.at.to_le_bytes());
        for word in [self.length, self.raw_bytes, self.count] {
            rest.extend_from_slice(&word.to_le_bytes());
        }
        rest.extend_from_slice(&self.first.0.to_le_bytes());
        rest.extend_from_slice(&self.last.0.to_le_bytes());
        rest.extend_from_slice(&self.arrival.0.to_le_bytes());
        rest.extend_from_slice(&self.content_crc.to_le_bytes());
        [&MARK[..], &crc32fast::hash(&rest).to_le_bytes(), &rest].concat()
    }

    fn end(&self) -> u64 {
        self.at + BLOCK_HEAD_BYTES as u64 + u64::from(self.length)
    }

    /// The whole block as one that cannot be read, in a file of this length.
    fn stretch(&self, length: u64) -> DamagedStretch {
        let to = self.end();
        DamagedStretch { from: self.at, to, records: u64::from(self.count), is_tail: to >= length }
    }

    fn head(&self) -> BlockInfo {
        BlockInfo {
            first: self.first,
            last: self.last,
            arrival: self.arrival,
            count: self.count,
            at: self.at,
            length: u64::from(self.length),
        }
    }

    fn block(&self, content: Vec<u8>) -> Option<Block> {
        if self.raw_bytes > 0 {
            return Some(Block::of_rows(self.head(), content, self.raw_bytes as usize));
        }
        let columns = ColumnarSegment::of(Box::new(content), ColumnsFormat::Sealed).ok()?;
        // Its records would be taken for copied, and the block for done with.
        (columns.records_count() == u64::from(self.count)).then(|| Block::of_file(self.head(), columns))
    }
}

/// Opens a segment file; `None` for one that is not there any more, as it was too old to be kept.
pub(super) fn open(path: &Path) -> Result<Option<FileBlockIter>, JournalError> {
    match File::open(path) {
        Ok(file) => BlockIter::new(file).map(Some).map_err(segment_error(path)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(io_error(path)(error)),
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|part| part.try_into().ok()).map_or(0, u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|part| part.try_into().ok()).map_or(0, u64::from_le_bytes)
}

fn read_up_to(reader: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match reader.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// The blocks of a file.
pub(super) type FileBlockIter = BlockIter<File>;

impl FileBlockIter {
    /// Where the blocks of a segment begin, and the stretches that are no block's, in their order. Of one that may be
    /// written to, what is just being written, or torn, is left out.
    pub(super) fn places(&mut self, growing: bool) -> io::Result<Vec<SegmentPiece<u64>>> {
        let mut places = Vec::new();
        while let Some(piece) = self.next_head()? {
            match piece {
                SegmentPiece::Sound(head) => places.push(SegmentPiece::Sound(head.at)),
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
        self.at = at;
        while self.at < end {
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

/// What a segment holds. One without records is from the end of time.
#[derive(Clone, Debug)]
pub(super) struct SegmentSummary {
    /// Something of it cannot be read, or is of another kind: nothing is added to it any more.
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

    /// Of a file of so many bytes.
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

    /// Where the blocks that may hold an id begin and end. Appends race for their ids, so that neighbouring
    /// entries may overlap: one more is searched on either side.
    pub(super) fn range(&self, id: RecordId) -> (u64, u64) {
        let after = self.index.partition_point(|(first, _)| *first <= id);
        let at = |index: usize| self.index.get(index).map(|(_, at)| *at);
        (at(after.saturating_sub(2)).unwrap_or(HEAD_BYTES as u64), at(after + 1).unwrap_or(self.bytes))
    }
}

/// What [`summary`] found wrong with a segment.
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
pub(super) fn summary(path: &Path, newest: bool) -> Result<(SegmentSummary, SegmentFaults), JournalError> {
    let (mut summary, mut wounds) = (SegmentSummary::empty(), SegmentFaults::default());
    let Some(mut blocks) = open(path)? else { return Ok((summary, wounds)) };
    if newest && blocks.length < HEAD_BYTES as u64 {
        // A crash between making the file and writing its head.
        cut(path, 0).map_err(io_error(path))?;
        return Ok((summary, wounds));
    }
    summary.is_closed = !blocks.has_head();
    let failed = io_error(path);
    let mut read = || {
        while let Some(piece) = if newest { blocks.next_whole()? } else { blocks.next_head()? } {
            match piece {
                SegmentPiece::Sound(head) => summary.add(&head.head()),
                SegmentPiece::Damaged(stretch) if newest && stretch.is_tail => {
                    wounds.torn = cut(path, stretch.from)?.map(|kept| (kept, stretch.to - stretch.from));
                }
                SegmentPiece::Damaged(stretch) => wounds.damage.push(stretch.in_file(path)),
            }
        }
        Ok(())
    };
    read().map_err(failed)?;
    summary.is_closed |= !wounds.damage.is_empty();
    if wounds.torn.is_none() {
        summary.bytes = blocks.length;
    }
    Ok((summary, wounds))
}

impl FileBlockIter {
    /// The next block's head, if its content is whole.
    fn next_whole(&mut self) -> io::Result<Option<SegmentPiece<BlockHeader>>> {
        let Some(piece) = self.next_head()? else { return Ok(None) };
        let SegmentPiece::Sound(head) = piece else { return Ok(Some(piece)) };
        Ok(Some(match self.content(&head)? {
            SegmentPiece::Sound(_) => SegmentPiece::Sound(head),
            SegmentPiece::Damaged(stretch) => SegmentPiece::Damaged(stretch),
        }))
    }
}

/// What the name of a file ends in that has the cut off end of a segment.
pub(super) const TORN: &str = "torn";

/// Cuts a segment off, and keeps what is behind in a file beside it, whose name is returned.
fn cut(path: &Path, at: u64) -> io::Result<Option<PathBuf>> {
    let mut file = OpenOptions::new().read(true).write(true).open(path)?;
    let length = file.metadata()?.len();
    // Not even a head: a crash between making the file and writing it.
    let kept = (at >= HEAD_BYTES as u64).then(|| path.with_extension(format!("{at}.{TORN}")));
    if let Some(kept) = &kept {
        let mut draft = disk::AtomicFile::of(kept)?;
        file.seek(SeekFrom::Start(at))?;
        io::copy(&mut Read::by_ref(&mut file).take(length - at), &mut draft)?;
        draft.commit()?;
    }
    file.set_len(at)?;
    if at < HEAD_BYTES as u64 {
        file.rewind()?;
        file.write_all(&head())?;
    }
    file.sync_all()?;
    Ok(kept)
}

/// What a segment begins with.
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
    path: &Path,
    progress: &mut dyn FnMut(u64),
    each: &mut BlockVisitor<'_>,
) -> Result<Vec<DamagedStretch>, JournalError> {
    let mut damage: Vec<DamagedStretch> = Vec::new();
    let Some(mut blocks) = open(path)? else { return Ok(damage) };
    while let Some(piece) = blocks.next_piece().map_err(io_error(path))? {
        progress(blocks.at);
        match piece {
            SegmentPiece::Sound(block) => match block.records() {
                Ok(records) => each(&records),
                Err(_) => {
                    let (from, to) = (block.head.at, blocks.at);
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

/// Which records a block has.
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

    /// Of these records and others.
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
    file: File,
    path: PathBuf,
    bytes: u64,
}

impl RowSegmentWriter {
    pub(super) fn create(path: &Path) -> Result<RowSegmentWriter, JournalError> {
        let mut file = disk::create(path).map_err(io_error(path))?;
        file.write_all(&head()).and_then(|()| file.sync_all()).map_err(io_error(path))?;
        Ok(RowSegmentWriter { file, path: path.to_path_buf(), bytes: HEAD_BYTES as u64 })
    }

    pub(super) fn append(path: &Path) -> Result<RowSegmentWriter, JournalError> {
        let mut file = OpenOptions::new().write(true).open(path).map_err(io_error(path))?;
        let bytes = file.seek(SeekFrom::End(0)).map_err(io_error(path))?;
        Ok(RowSegmentWriter { file, path: path.to_path_buf(), bytes })
    }

    /// Writes a block of rows and returns its head.
    pub(super) fn write(&mut self, of: &BlockExtent, raw: &[u8]) -> Result<BlockInfo, JournalError> {
        let content = compress(raw, LEVEL_ROWS).map_err(io_error(&self.path))?;
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
        let head = BlockHeader {
            at: self.bytes,
            length: content.len() as u32,
            raw_bytes: raw_bytes as u32,
            count,
            first,
            last,
            arrival,
            content_crc: crc32fast::hash(content),
        };
        let written = self.file.write_all(&head.write()).and_then(|()| self.file.write_all(content));
        written.map_err(io_error(&self.path))?;
        self.bytes = head.end();
        Ok(head.head())
    }

    pub(super) fn sync(&mut self) -> Result<(), JournalError> {
        self.file.sync_data().map_err(io_error(&self.path))
    }
}
