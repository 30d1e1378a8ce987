//! Segment files that are being written: a head, then blocks of compressed records. `docs/format.md` draws the bytes.

use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use event::Time;

use super::block::{Block, Head, LEVEL_ROWS, compress};
use super::columns::{Columns, Form};
use super::{JournalError, Record, io_error, segment_error};
use crate::id::RecordId;

const MAGIC: [u8; 8] = *b"TOLLJRNL";
/// Of rows and columns alike. In 1 decisions had no effects, and all segments rows; in 2 all blocks were rows.
pub(super) const VERSION: u32 = 3;
/// The first in which a block can be columns.
const VERSION_OF_COLUMNS: u32 = 3;
const HEAD_BYTES: usize = 12;
/// Length, raw length, count, first id, last id, arrival, checksum.
pub(super) const BLOCK_HEAD_BYTES: usize = 4 + 4 + 4 + 8 + 8 + 8 + 4;
/// Largest block content, so that a damaged or hostile length costs no memory.
const RAW_BYTES_MAX: usize = 128 << 20;

/// What is wrong with a segment.
#[derive(Debug, thiserror::Error)]
pub enum SegmentError {
    /// It does not begin like a segment.
    #[error("this is not a journal segment")]
    Magic,
    /// A newer program wrote it.
    #[error("format {0} is newer than this program, which reads up to {VERSION}; use the newer program")]
    Newer(u32),
    /// A checksum, lengths or content of a block or a column do not fit.
    #[error("what begins at byte {0} is damaged")]
    Damaged(u64),
    /// The operating system said no.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// The blocks of a segment one after another; ends after the first that is damaged.
#[derive(Debug)]
pub struct Blocks<R> {
    reader: R,
    version: u32,
    at: u64,
    failed: bool,
}

impl<R: Read> Blocks<R> {
    /// Reads a segment's head. Reads in small pieces: give it a buffered reader.
    pub fn new(mut reader: R) -> Result<Blocks<R>, SegmentError> {
        let mut head = [0; HEAD_BYTES];
        if read_up_to(&mut reader, &mut head)? < HEAD_BYTES || !head.starts_with(&MAGIC) {
            return Err(SegmentError::Magic);
        }
        match u32_at(&head, MAGIC.len()) {
            0 => Err(SegmentError::Magic),
            version if version <= VERSION => {
                Ok(Blocks { reader, version, at: HEAD_BYTES as u64, failed: false })
            }
            newer => Err(SegmentError::Newer(newer)),
        }
    }
}

/// Opens a segment file; `None` for one that is not there any more, as it was too old to be kept.
pub(super) fn open(path: &Path) -> Result<Option<FileBlocks>, JournalError> {
    match File::open(path) {
        Ok(file) => Blocks::new(BufReader::new(file)).map(Some).map_err(segment_error(path)),
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

impl<R: Read> Blocks<R> {
    /// The bytes of the next head, what they say, and how long the content is uncompressed.
    fn read_head(&mut self) -> Result<Option<([u8; BLOCK_HEAD_BYTES], Head, usize)>, SegmentError> {
        let mut bytes = [0; BLOCK_HEAD_BYTES];
        let got = read_up_to(&mut self.reader, &mut bytes)?;
        if got == 0 {
            return Ok(None);
        }
        let (length, raw_bytes) = (u32_at(&bytes, 0) as usize, u32_at(&bytes, 4) as usize);
        let head = Head {
            length: length as u64,
            count: u32_at(&bytes, 8),
            first: RecordId(u64_at(&bytes, 12)),
            last: RecordId(u64_at(&bytes, 20)),
            arrival: Time(u64_at(&bytes, 28) as i64),
            at: self.at,
        };
        let plausible = match raw_bytes {
            0 => self.version >= VERSION_OF_COLUMNS && length <= RAW_BYTES_MAX,
            _ => {
                raw_bytes <= RAW_BYTES_MAX
                    && length <= zstd::zstd_safe::compress_bound(raw_bytes)
                    && head.count as usize <= raw_bytes
            }
        };
        if got < BLOCK_HEAD_BYTES || !plausible {
            return Err(SegmentError::Damaged(self.at));
        }
        Ok(Some((bytes, head, raw_bytes)))
    }

    fn read(&mut self) -> Result<Option<Block>, SegmentError> {
        let Some((bytes, head, raw_bytes)) = self.read_head()? else { return Ok(None) };
        // As much as was found plausible.
        let mut content = vec![0; head.length as usize];
        let got = read_up_to(&mut self.reader, &mut content)?;
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&bytes[..BLOCK_HEAD_BYTES - 4]);
        hasher.update(&content);
        if got < content.len() || hasher.finalize() != u32_at(&bytes, BLOCK_HEAD_BYTES - 4) {
            return Err(SegmentError::Damaged(self.at));
        }
        self.at += BLOCK_HEAD_BYTES as u64 + head.length;
        if raw_bytes > 0 {
            return Ok(Some(Block::of_rows(head, content, raw_bytes)));
        }
        let columns = Columns::of(Box::new(content), Form::Sealed);
        // Its records would be taken for copied, and the block for done with.
        let columns = columns.ok().filter(|columns| columns.records_count() == u64::from(head.count));
        let columns = columns.ok_or(SegmentError::Damaged(head.at))?;
        Ok(Some(Block::of_file(head, columns)))
    }
}

impl<R: Read + Seek> Blocks<BufReader<R>> {
    /// The next block's head; its content is passed over unread and unchecked.
    fn next_head(&mut self) -> Result<Option<Head>, SegmentError> {
        let Some((_, head, _)) = self.read_head()? else { return Ok(None) };
        self.reader.seek_relative(head.length as i64)?;
        self.at += BLOCK_HEAD_BYTES as u64 + head.length;
        Ok(Some(head))
    }

    /// Goes on at a block that begins here.
    fn seek(&mut self, at: u64) -> Result<(), SegmentError> {
        self.reader.seek(SeekFrom::Start(at))?;
        self.at = at;
        Ok(())
    }

    /// The block that begins here.
    pub(super) fn block_at(&mut self, at: u64) -> Result<Option<Block>, SegmentError> {
        self.seek(at)?;
        self.read()
    }
}

impl<R: Read> Iterator for Blocks<R> {
    type Item = Result<Block, SegmentError>;

    fn next(&mut self) -> Option<Result<Block, SegmentError>> {
        if self.failed {
            return None;
        }
        let block = self.read().transpose();
        self.failed = matches!(block, Some(Err(_)));
        block
    }
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
pub(super) type FileBlocks = Blocks<BufReader<File>>;

impl FileBlocks {
    /// Where the blocks of a segment begin. Of one that may be written to, what is just being written, or torn, is left
    /// out.
    pub(super) fn begins(&mut self, path: &Path, growing: bool) -> Result<Vec<u64>, JournalError> {
        let length = self.reader.get_ref().metadata().map_err(io_error(path))?.len();
        let mut begins = Vec::new();
        loop {
            match self.next_head() {
                Ok(Some(head)) if self.at <= length => begins.push(head.at),
                Ok(None) => break,
                Ok(Some(_)) | Err(SegmentError::Damaged(_)) if growing => break,
                Ok(Some(head)) => return Err(segment_error(path)(SegmentError::Damaged(head.at))),
                Err(error) => return Err(segment_error(path)(error)),
            }
        }
        Ok(begins)
    }

    /// The record of this id among the blocks from `at` to `end`.
    pub(super) fn find(mut self, at: u64, end: u64, id: RecordId) -> Result<Option<Record>, SegmentError> {
        self.seek(at.max(HEAD_BYTES as u64))?;
        while self.at < end {
            let start = self.at;
            let Some(head) = self.next_head()? else { break };
            if !(head.first..=head.last).contains(&id) {
                continue;
            }
            let found = self.block_at(start)?.map(|block| block.find(id)).transpose()?.flatten();
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }
}

/// Whether a file is a segment of which not even the head is written.
pub(super) fn is_begun(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|file| file.len() < HEAD_BYTES as u64)
}

/// What a segment holds. One without records is from the end of time.
#[derive(Clone, Debug)]
pub(super) struct Summary {
    /// The version of the format that the file has.
    pub(super) version: u32,
    pub(super) bytes: u64,
    pub(super) last: Option<RecordId>,
    /// Earliest arrival of a block.
    pub(super) from: Time,
    /// The smallest id from a block on, and where that block begins: an entry for every [`INDEX_BYTES`] or so.
    index: Vec<(RecordId, u64)>,
}

/// Bytes of a segment for which its index in memory has one entry.
const INDEX_BYTES: u64 = 256 << 10;

impl Summary {
    pub(super) fn empty() -> Summary {
        Summary::unknown(HEAD_BYTES as u64)
    }

    /// Of a file of so many bytes.
    pub(super) fn unknown(bytes: u64) -> Summary {
        Summary { version: VERSION, bytes, last: None, from: Time(i64::MAX), index: Vec::new() }
    }

    /// Takes in a block that was read or written.
    pub(super) fn add(&mut self, head: &Head) {
        self.last = self.last.max(Some(head.last));
        self.from = self.from.min(head.arrival);
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

/// Reads what a segment holds, and how many bytes of a torn tail were cut off. The newest segment is checked byte
/// by byte and what follows its last whole block is cut off; of an older one only the heads are read, and damage
/// is left as it is for readers to report.
pub(super) fn summary(path: &Path, newest: bool) -> Result<(Summary, u64), JournalError> {
    let length = std::fs::metadata(path).map_err(io_error(path))?.len();
    let mut summary = Summary::empty();
    if newest && length < HEAD_BYTES as u64 {
        // A crash between making the file and writing its head.
        Writer::create(path)?;
        return Ok((summary, length));
    }
    let Some(mut blocks) = open(path)? else { return Ok((summary, 0)) };
    summary.version = blocks.version;
    loop {
        let head = if newest {
            blocks.read().map(|block| block.map(|block| block.head))
        } else {
            blocks.next_head()
        };
        match head {
            Ok(Some(head)) => summary.add(&head),
            Ok(None) => break,
            Err(SegmentError::Io(error)) => return Err(io_error(path)(error)),
            Err(_) => break,
        }
    }
    if newest && summary.bytes < length {
        let file = OpenOptions::new().write(true).open(path).map_err(io_error(path))?;
        file.set_len(summary.bytes).and_then(|()| file.sync_all()).map_err(io_error(path))?;
        return Ok((summary.clone(), length - summary.bytes));
    }
    summary.bytes = length;
    Ok((summary, 0))
}

/// What [`check`] found in a segment.
#[derive(Debug, Default)]
pub(super) struct Checked {
    /// Length of the file.
    pub(super) bytes: u64,
    /// Intact blocks.
    pub(super) blocks: u64,
    /// Stretches that cannot be read: first byte, byte behind the last, and how many records were in there as far as
    /// it says.
    pub(super) damage: Vec<(u64, u64, u64)>,
    /// From here on there is no block: what was being written when the process was killed, or a damaged head.
    pub(super) tail: Option<u64>,
}

/// Gets a block's place and its records.
pub(super) type EachBlock<'a> = dyn FnMut(u64, &[(RecordId, Record)]) + 'a;

/// Reads a whole segment and checks every block. Behind a damaged one it goes on where its head says that the next
/// begins. `each` gets the records of intact blocks, `progress` the bytes read.
pub(super) fn check(
    path: &Path,
    progress: &mut dyn FnMut(u64),
    each: &mut EachBlock<'_>,
) -> Result<Checked, JournalError> {
    let bytes = std::fs::metadata(path).map_err(io_error(path))?.len();
    let mut checked = Checked { bytes, ..Checked::default() };
    let mut blocks = match open(path) {
        Ok(Some(blocks)) => blocks,
        Ok(None) => return Ok(checked),
        Err(JournalError::Segment { error: SegmentError::Magic, .. }) => {
            if bytes < HEAD_BYTES as u64 {
                checked.tail = Some(0);
            } else {
                checked.damage.push((0, bytes, 0));
            }
            return Ok(checked);
        }
        Err(error) => return Err(error),
    };
    loop {
        let at = blocks.at;
        progress(at);
        let read =
            blocks.read().and_then(|block| block.map(|block| Ok((block.records()?, block))).transpose());
        match read {
            Ok(None) => break,
            Ok(Some((records, _))) => {
                checked.blocks += 1;
                each(at, &records);
            }
            Err(SegmentError::Damaged(_)) => {
                let skipped = blocks.seek(at).and_then(|()| blocks.next_head());
                match skipped {
                    Ok(Some(head)) if blocks.at <= bytes => {
                        let records = u64::from(head.count);
                        match checked.damage.last_mut() {
                            Some(last) if last.1 == at => (last.1, last.2) = (blocks.at, last.2 + records),
                            _ => checked.damage.push((at, blocks.at, records)),
                        }
                    }
                    Err(SegmentError::Io(error)) => return Err(io_error(path)(error)),
                    _ => {
                        checked.tail = Some(at);
                        break;
                    }
                }
            }
            Err(SegmentError::Io(error)) => return Err(io_error(path)(error)),
            Err(error) => return Err(segment_error(path)(error)),
        }
    }
    progress(bytes);
    Ok(checked)
}

/// Which records a block has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    /// Smallest id.
    pub(super) first: RecordId,
    /// Largest id.
    pub(super) last: RecordId,
    /// Latest arrival.
    pub(super) arrival: Time,
    pub(super) count: u32,
}

impl Extent {
    pub(super) fn holds(&self, id: RecordId) -> bool {
        (self.first..=self.last).contains(&id)
    }

    /// Of these records and others.
    pub(super) fn and(self, other: Extent) -> Extent {
        Extent {
            first: self.first.min(other.first),
            last: self.last.max(other.last),
            arrival: self.arrival.max(other.arrival),
            count: self.count.saturating_add(other.count),
        }
    }
}

/// An open segment at its end.
#[derive(Debug)]
pub(super) struct Writer {
    file: File,
    path: PathBuf,
    bytes: u64,
}

impl Writer {
    pub(super) fn create(path: &Path) -> Result<Writer, JournalError> {
        let mut file = disk::create(path).map_err(io_error(path))?;
        let mut head = MAGIC.to_vec();
        head.extend_from_slice(&VERSION.to_le_bytes());
        file.write_all(&head).and_then(|()| file.sync_all()).map_err(io_error(path))?;
        Ok(Writer { file, path: path.to_path_buf(), bytes: HEAD_BYTES as u64 })
    }

    pub(super) fn append(path: &Path) -> Result<Writer, JournalError> {
        let mut file = OpenOptions::new().write(true).open(path).map_err(io_error(path))?;
        let bytes = file.seek(SeekFrom::End(0)).map_err(io_error(path))?;
        Ok(Writer { file, path: path.to_path_buf(), bytes })
    }

    /// Writes a block of rows and returns its head.
    pub(super) fn write(&mut self, of: &Extent, raw: &[u8]) -> Result<Head, JournalError> {
        let content = compress(raw, LEVEL_ROWS).map_err(io_error(&self.path))?;
        self.block(of, raw.len(), &content)
    }

    /// Writes a block that is a file by columns and returns its head.
    pub(super) fn write_columns(&mut self, of: &Extent, file: &[u8]) -> Result<Head, JournalError> {
        self.block(of, 0, file)
    }

    fn block(&mut self, of: &Extent, raw_bytes: usize, content: &[u8]) -> Result<Head, JournalError> {
        let Extent { first, last, arrival, count } = *of;
        let mut head = Vec::with_capacity(BLOCK_HEAD_BYTES);
        head.extend_from_slice(&(content.len() as u32).to_le_bytes());
        head.extend_from_slice(&(raw_bytes as u32).to_le_bytes());
        head.extend_from_slice(&count.to_le_bytes());
        head.extend_from_slice(&first.0.to_le_bytes());
        head.extend_from_slice(&last.0.to_le_bytes());
        head.extend_from_slice(&arrival.0.to_le_bytes());
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&head);
        hasher.update(content);
        head.extend_from_slice(&hasher.finalize().to_le_bytes());
        let written = self.file.write_all(&head).and_then(|()| self.file.write_all(content));
        written.map_err(io_error(&self.path))?;
        let (at, length) = (self.bytes, content.len() as u64);
        self.bytes += BLOCK_HEAD_BYTES as u64 + length;
        Ok(Head { first, last, arrival, count, at, length })
    }

    pub(super) fn sync(&mut self) -> Result<(), JournalError> {
        self.file.sync_data().map_err(io_error(&self.path))
    }
}
