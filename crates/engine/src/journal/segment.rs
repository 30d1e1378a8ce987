//! Segment files: a head, then blocks of compressed records. `docs/format.md` draws the bytes.

use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use event::Time;

use super::{JournalError, Record, io_error};
use crate::id::RecordId;

const MAGIC: [u8; 8] = *b"TOLLJRNL";
const VERSION: u32 = 1;
const HEAD_BYTES: usize = 12;
/// Length, raw length, count, first id, last id, arrival, checksum.
const BLOCK_HEAD_BYTES: usize = 4 + 4 + 4 + 8 + 8 + 8 + 4;
/// Largest block content, so that a damaged or hostile length costs no memory.
const RAW_BYTES_MAX: usize = 128 << 20;
/// zstd's own default.
const LEVEL: i32 = 3;

/// What is wrong with a segment's bytes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SegmentError {
    /// It does not begin like a segment.
    #[error("this is not a journal segment")]
    Magic,
    /// A newer program wrote it.
    #[error("format {0} is newer than this program, which reads up to {VERSION}; use the newer program")]
    Newer(u32),
    /// A block's checksum or lengths do not fit.
    #[error("the block at byte {0} is damaged")]
    Damaged(u64),
}

/// The head of a block, and its compressed content.
#[derive(Debug)]
pub struct Block {
    /// Smallest id in it.
    pub first: RecordId,
    /// Largest id in it.
    pub last: RecordId,
    /// Latest arrival in it.
    pub arrival: Time,
    /// Records in it.
    pub count: u32,
    raw_bytes: usize,
    content: Vec<u8>,
    path: PathBuf,
    at: u64,
}

impl Block {
    /// The records.
    pub fn records(&self) -> Result<Vec<(RecordId, Record)>, JournalError> {
        let raw = zstd::bulk::decompress(&self.content, self.raw_bytes);
        let records = raw.map(|raw| Record::decode_all(&raw)).unwrap_or_default();
        if records.len() != self.count as usize {
            let error = SegmentError::Damaged(self.at);
            return Err(JournalError::Segment { path: self.path.clone(), error });
        }
        Ok(records)
    }
}

/// The blocks of a file one after another; ends after the first that is damaged.
#[derive(Debug)]
pub(super) struct Blocks {
    reader: BufReader<File>,
    path: PathBuf,
    at: u64,
    failed: bool,
}

/// Opens a segment and reads its head.
pub(super) fn blocks(path: &Path) -> Result<Blocks, JournalError> {
    let mut reader = BufReader::new(File::open(path).map_err(io_error(path))?);
    let mut head = [0; HEAD_BYTES];
    let fail = |error| JournalError::Segment { path: path.to_path_buf(), error };
    match reader.read_exact(&mut head) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Err(fail(SegmentError::Magic)),
        Err(error) => return Err(io_error(path)(error)),
    }
    let (magic, version) = head.split_at(MAGIC.len());
    let version = u32_at(version, 0);
    if magic != MAGIC {
        return Err(fail(SegmentError::Magic));
    }
    if version > VERSION {
        return Err(fail(SegmentError::Newer(version)));
    }
    Ok(Blocks { reader, path: path.to_path_buf(), at: HEAD_BYTES as u64, failed: false })
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|part| part.try_into().ok()).map_or(0, u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|part| part.try_into().ok()).map_or(0, u64::from_le_bytes)
}

impl Blocks {
    fn read(&mut self) -> Result<Option<Block>, JournalError> {
        let damaged = || {
            let error = SegmentError::Damaged(self.at);
            JournalError::Segment { path: self.path.clone(), error }
        };
        let mut head = [0; BLOCK_HEAD_BYTES];
        let got = read_up_to(&mut self.reader, &mut head).map_err(io_error(&self.path))?;
        if got == 0 {
            return Ok(None);
        }
        let (length, raw_bytes) = (u32_at(&head, 0) as usize, u32_at(&head, 4) as usize);
        if got < BLOCK_HEAD_BYTES
            || raw_bytes > RAW_BYTES_MAX
            || length > zstd::zstd_safe::compress_bound(raw_bytes)
        {
            return Err(damaged());
        }
        let mut content = vec![0; length];
        let got = read_up_to(&mut self.reader, &mut content).map_err(io_error(&self.path))?;
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&head[..BLOCK_HEAD_BYTES - 4]);
        hasher.update(&content);
        if got < length || hasher.finalize() != u32_at(&head, BLOCK_HEAD_BYTES - 4) {
            return Err(damaged());
        }
        let block = Block {
            count: u32_at(&head, 8),
            first: RecordId(u64_at(&head, 12)),
            last: RecordId(u64_at(&head, 20)),
            arrival: Time(u64_at(&head, 28) as i64),
            raw_bytes,
            content,
            path: self.path.clone(),
            at: self.at,
        };
        self.at += (BLOCK_HEAD_BYTES + length) as u64;
        Ok(Some(block))
    }
}

impl Iterator for Blocks {
    type Item = Result<Block, JournalError>;

    fn next(&mut self) -> Option<Result<Block, JournalError>> {
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

/// What a segment holds. One without records is from the end of time to its beginning.
#[derive(Debug)]
pub(super) struct Summary {
    pub(super) bytes: u64,
    pub(super) torn_bytes: u64,
    pub(super) last: Option<RecordId>,
    pub(super) from: Time,
    pub(super) to: Time,
}

/// Reads a segment's heads and checksums. In the newest segment what follows the last whole block is a torn tail
/// and is cut off; elsewhere damage is left as it is, for readers to report.
pub(super) fn summary(path: &Path, newest: bool) -> Result<Summary, JournalError> {
    let bytes = std::fs::metadata(path).map_err(io_error(path))?.len();
    let mut summary = Summary { bytes, torn_bytes: 0, last: None, from: Time(i64::MAX), to: Time(i64::MIN) };
    if newest && bytes < HEAD_BYTES as u64 {
        // A crash between making the file and writing its head.
        summary.torn_bytes = bytes;
        Writer::create(path)?;
        summary.bytes = HEAD_BYTES as u64;
    }
    let mut blocks = blocks(path)?;
    for block in &mut blocks {
        match block {
            Ok(block) => {
                summary.last = summary.last.max(Some(block.last));
                summary.from = summary.from.min(block.arrival);
                summary.to = summary.to.max(block.arrival);
            }
            Err(JournalError::Segment { .. }) => break,
            Err(error) => return Err(error),
        }
    }
    if newest && blocks.at < summary.bytes {
        summary.torn_bytes += summary.bytes - blocks.at;
        summary.bytes = blocks.at;
        let file = OpenOptions::new().write(true).open(path).map_err(io_error(path))?;
        file.set_len(blocks.at).and_then(|()| file.sync_all()).map_err(io_error(path))?;
    }
    Ok(summary)
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
        let mut file = File::create(path).map_err(io_error(path))?;
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

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Writes one block.
    pub(super) fn write(
        &mut self,
        first: RecordId,
        last: RecordId,
        arrival: Time,
        count: u32,
        raw: &[u8],
    ) -> Result<(), JournalError> {
        let content = zstd::bulk::compress(raw, LEVEL).map_err(io_error(&self.path))?;
        let mut block = Vec::with_capacity(BLOCK_HEAD_BYTES + content.len());
        block.extend_from_slice(&(content.len() as u32).to_le_bytes());
        block.extend_from_slice(&(raw.len() as u32).to_le_bytes());
        block.extend_from_slice(&count.to_le_bytes());
        block.extend_from_slice(&first.0.to_le_bytes());
        block.extend_from_slice(&last.0.to_le_bytes());
        block.extend_from_slice(&arrival.0.to_le_bytes());
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&block);
        hasher.update(&content);
        block.extend_from_slice(&hasher.finalize().to_le_bytes());
        block.extend_from_slice(&content);
        self.file.write_all(&block).map_err(io_error(&self.path))?;
        self.bytes += block.len() as u64;
        Ok(())
    }

    pub(super) fn sync(&mut self) -> Result<(), JournalError> {
        self.file.sync_data().map_err(io_error(&self.path))
    }
}
