//! The bytes of a segment and the walk over them; drawn in `docs/format.md`. All numbers are little-endian.
//!
//! A segment is a header and then *groups*: what one append was given, cut into frames of bounded size. A group
//! counts only if every one of its frames is intact, which is how a torn write disappears as a whole. Each record
//! has a checksum of its own besides its frame's, so that a single one can be read and trusted later.

use std::io;
use std::ops::Range;

use crate::device::Blob;

/// Length of a key.
pub const KEY_BYTES: usize = 12;
/// Longest value of a record.
pub const VALUE_BYTES_MAX: usize = 1 << 20;

pub(crate) const SEGMENT_HEADER_BYTES: usize = 32;
pub(crate) const FRAME_HEADER_BYTES: usize = 40;
pub(crate) const RECORD_HEADER_BYTES: usize = 28;
/// A frame is closed when its records reach this length, so it is at most one record longer.
pub(crate) const FRAME_BYTES: usize = 4 << 20;
const FRAME_BYTES_MAX: usize = FRAME_BYTES + RECORD_HEADER_BYTES + VALUE_BYTES_MAX;

const SEGMENT_MAGIC: [u8; 8] = *b"TOLLSEG\n";
pub(crate) const FORMAT: u16 = 1;
const FRAME_MARK: [u8; 4] = [0xf5, b'T', b'H', 0x9a];

pub(crate) struct SegmentHeader {
    pub(crate) id: u64,
    pub(crate) floor: i64,
}

#[derive(Debug)]
pub(crate) enum HeaderError {
    Damaged,
    Newer(u16),
}

impl SegmentHeader {
    pub(crate) fn encode(&self) -> [u8; SEGMENT_HEADER_BYTES] {
        let mut bytes = [0; SEGMENT_HEADER_BYTES];
        bytes[..8].copy_from_slice(&SEGMENT_MAGIC);
        bytes[8..10].copy_from_slice(&FORMAT.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.id.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.floor.to_le_bytes());
        let crc = header_crc(&bytes);
        bytes[12..16].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<SegmentHeader, HeaderError> {
        let bytes: &[u8; SEGMENT_HEADER_BYTES] =
            bytes.first_chunk().filter(|bytes| bytes[..8] == SEGMENT_MAGIC).ok_or(HeaderError::Damaged)?;
        // The version comes before the checksum: a later format may place or compute the latter otherwise.
        match u16::from_le_bytes([bytes[8], bytes[9]]) {
            0 => return Err(HeaderError::Damaged),
            version if version > FORMAT => return Err(HeaderError::Newer(version)),
            _ => {}
        }
        if u32_at(bytes, 12) != header_crc(bytes) {
            return Err(HeaderError::Damaged);
        }
        Ok(SegmentHeader { id: u64_at(bytes, 16), floor: u64_at(bytes, 24).cast_signed() })
    }
}

fn header_crc(bytes: &[u8; SEGMENT_HEADER_BYTES]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&bytes[..12]);
    hasher.update(&bytes[16..]);
    hasher.finalize()
}

/// What a frame says about itself.
pub(crate) struct FrameHeader {
    /// Its place in its group, from 0.
    pub(crate) index: u32,
    /// How many frames of the group follow.
    pub(crate) remaining: u32,
    /// Records in the frame.
    pub(crate) count: u32,
    /// Number of its first record, counted over the life of the store.
    pub(crate) sequence: u64,
    /// Records that expire at or before this are gone.
    pub(crate) floor: i64,
}

/// Writes the header into the first [`FRAME_HEADER_BYTES`] of a frame whose records are already behind it.
pub(crate) fn seal_frame(header: &FrameHeader, frame: &mut [u8]) {
    let length = (frame.len() - FRAME_HEADER_BYTES) as u32;
    frame[..4].copy_from_slice(&FRAME_MARK);
    frame[8..12].copy_from_slice(&length.to_le_bytes());
    frame[12..16].copy_from_slice(&header.index.to_le_bytes());
    frame[16..20].copy_from_slice(&header.remaining.to_le_bytes());
    frame[20..24].copy_from_slice(&header.count.to_le_bytes());
    frame[24..32].copy_from_slice(&header.sequence.to_le_bytes());
    frame[32..40].copy_from_slice(&header.floor.to_le_bytes());
    let crc = crc32fast::hash(&frame[8..]);
    frame[4..8].copy_from_slice(&crc.to_le_bytes());
}

/// Appends one record.
pub(crate) fn push_record(frame: &mut Vec<u8>, key: &[u8; KEY_BYTES], expires: i64, value: &[u8]) {
    let start = frame.len();
    frame.extend_from_slice(&[0; 4]);
    frame.extend_from_slice(key);
    frame.extend_from_slice(&expires.to_le_bytes());
    frame.extend_from_slice(&(value.len() as u32).to_le_bytes());
    frame.extend_from_slice(value);
    let crc = crc32fast::hash(&frame[start + 4..]);
    frame[start..start + 4].copy_from_slice(&crc.to_le_bytes());
}

/// A record that was read and checked.
pub(crate) struct RawRecord<'a> {
    pub(crate) key: [u8; KEY_BYTES],
    pub(crate) expires: i64,
    pub(crate) value: &'a [u8],
}

/// Reads the record at the start of `bytes`; `None` if it is cut short or damaged.
pub(crate) fn read_record(bytes: &[u8]) -> Option<RawRecord<'_>> {
    let header: &[u8; RECORD_HEADER_BYTES] = bytes.first_chunk()?;
    let length = u32_at(header, 24) as usize;
    if length > VALUE_BYTES_MAX {
        return None;
    }
    let whole = bytes.get(..RECORD_HEADER_BYTES + length)?;
    if crc32fast::hash(&whole[4..]) != u32_at(header, 0) {
        return None;
    }
    let mut key = [0; KEY_BYTES];
    key.copy_from_slice(&header[4..16]);
    Some(RawRecord { key, expires: u64_at(header, 16).cast_signed(), value: &whole[RECORD_HEADER_BYTES..] })
}

/// Where a record lies in its segment, header included.
#[derive(Clone, Copy)]
pub(crate) struct Located {
    pub(crate) key: [u8; KEY_BYTES],
    pub(crate) expires: i64,
    pub(crate) offset: u32,
    pub(crate) length: u32,
}

/// What one append was given, read back whole.
pub(crate) struct Group {
    /// The number after its last record's.
    pub(crate) sequence_end: u64,
    pub(crate) floor: i64,
    pub(crate) records: Vec<Located>,
}

/// What a walk over a segment found besides the groups.
pub(crate) struct Walk {
    /// Where the last intact group ends: what lies behind it is a torn tail.
    pub(crate) end: u64,
    /// Stretches before `end` that belong to no intact group.
    pub(crate) damage: Vec<Range<u64>>,
}

/// Walks over a segment's groups from behind its header, and calls `visit` with each intact one.
///
/// Where a frame is damaged the next intact one is searched by its mark. The search checks at most a few times the
/// segment's length in all, so bytes made to look like frames cannot make it quadratic.
///
/// # Errors
/// Only what the device answers.
pub(crate) fn walk(blob: &dyn Blob, size: u64, mut visit: impl FnMut(Group)) -> io::Result<Walk> {
    let mut reader = Reader { blob, size, start: 0, bytes: Vec::new() };
    let mut walk = Walk { end: SEGMENT_HEADER_BYTES as u64, damage: Vec::new() };
    let mut offset = walk.end;
    let mut open: Option<Open> = None;
    let mut probes = size.saturating_mul(4).max(1 << 20);
    while offset < size {
        let Some((header, records, next)) = reader.frame(offset)? else {
            open = None;
            match reader.next_frame(offset + 1, &mut probes)? {
                Some(found) => offset = found,
                None => break,
            }
            continue;
        };
        // A frame continues the group before it or starts one; a stray one is left out as part of a broken group.
        let continued = open.take().filter(|open| open.is_continued_by(&header));
        let mut group = match continued {
            Some(group) => group,
            None if header.index == 0 => Open { start: offset, header: None, records: Vec::new() },
            None => {
                offset = next;
                continue;
            }
        };
        group.records.extend(records);
        offset = next;
        if header.remaining > 0 {
            open = Some(Open { header: Some(header), ..group });
            continue;
        }
        if group.start > walk.end {
            walk.damage.push(walk.end..group.start);
        }
        walk.end = next;
        visit(Group { sequence_end: header.sequence_end(), floor: header.floor, records: group.records });
    }
    Ok(walk)
}

/// A group of which more frames are to come.
struct Open {
    start: u64,
    header: Option<FrameHeader>,
    records: Vec<Located>,
}

impl Open {
    fn is_continued_by(&self, next: &FrameHeader) -> bool {
        self.header.as_ref().is_some_and(|last| {
            next.index == last.index.wrapping_add(1)
                && next.remaining == last.remaining - 1
                && next.sequence == last.sequence_end()
        })
    }
}

impl FrameHeader {
    fn sequence_end(&self) -> u64 {
        self.sequence.saturating_add(u64::from(self.count))
    }
}

/// Reads a file through one window, so that small frames do not cost a system call each.
struct Reader<'a> {
    blob: &'a dyn Blob,
    size: u64,
    start: u64,
    bytes: Vec<u8>,
}

impl Reader<'_> {
    const WINDOW_BYTES: usize = 1 << 20;

    /// The bytes at `offset`: `length` of them, or as many as the file has.
    fn at(&mut self, offset: u64, length: usize) -> io::Result<&[u8]> {
        let end = offset.saturating_add(length as u64).min(self.size);
        if offset < self.start || end > self.start + self.bytes.len() as u64 {
            let wanted = (self.size.saturating_sub(offset)).min(length.max(Reader::WINDOW_BYTES) as u64);
            self.bytes.resize(wanted as usize, 0);
            self.start = offset;
            let count = self.blob.read_at(offset, &mut self.bytes)?;
            self.bytes.truncate(count);
        }
        let from = (offset - self.start) as usize;
        let bytes = self.bytes.get(from..).unwrap_or_default();
        Ok(&bytes[..bytes.len().min(length)])
    }

    /// The frame at `offset` with its records and the offset behind it; `None` if there is no intact one.
    fn frame(&mut self, offset: u64) -> io::Result<Option<(FrameHeader, Vec<Located>, u64)>> {
        let Some(length) = frame_length(self.at(offset, FRAME_HEADER_BYTES)?) else { return Ok(None) };
        let frame = self.at(offset, FRAME_HEADER_BYTES + length)?;
        if frame.len() < FRAME_HEADER_BYTES + length || crc32fast::hash(&frame[8..]) != u32_at(frame, 4) {
            return Ok(None);
        }
        let header = FrameHeader {
            index: u32_at(frame, 12),
            remaining: u32_at(frame, 16),
            count: u32_at(frame, 20),
            sequence: u64_at(frame, 24),
            floor: u64_at(frame, 32).cast_signed(),
        };
        let mut records = Vec::new();
        let mut rest = FRAME_HEADER_BYTES;
        while rest < frame.len() {
            let Some(record) = read_record(&frame[rest..]) else { return Ok(None) };
            let length = RECORD_HEADER_BYTES + record.value.len();
            let Ok(place) = u32::try_from(offset + rest as u64) else { return Ok(None) };
            records.push(Located {
                key: record.key,
                expires: record.expires,
                offset: place,
                length: length as u32,
            });
            rest += length;
        }
        if records.len() as u64 != u64::from(header.count) {
            return Ok(None);
        }
        Ok(Some((header, records, offset + frame.len() as u64)))
    }

    /// Where the next intact frame starts, at or behind `offset`. Takes what it checked from `probes`, and gives
    /// up when that is used up.
    fn next_frame(&mut self, mut offset: u64, probes: &mut u64) -> io::Result<Option<u64>> {
        while offset < self.size {
            self.at(offset, FRAME_MARK.len())?;
            let window = self.bytes.get((offset - self.start) as usize..).unwrap_or_default();
            let Some(found) = window.windows(FRAME_MARK.len()).position(|bytes| bytes == FRAME_MARK) else {
                // The mark may lie across the end of the window.
                offset += window.len().saturating_sub(FRAME_MARK.len() - 1).max(1) as u64;
                continue;
            };
            offset += found as u64;
            if let Some(length) = frame_length(self.at(offset, FRAME_HEADER_BYTES)?) {
                let Some(left) = probes.checked_sub((FRAME_HEADER_BYTES + length) as u64) else {
                    return Ok(None);
                };
                *probes = left;
                if self.frame(offset)?.is_some() {
                    return Ok(Some(offset));
                }
            }
            offset += 1;
        }
        Ok(None)
    }
}

/// The length of the records of a frame that starts like this.
fn frame_length(header: &[u8]) -> Option<usize> {
    let header: &[u8; FRAME_HEADER_BYTES] = header.first_chunk()?;
    let length = u32_at(header, 8) as usize;
    (header[..4] == FRAME_MARK && length <= FRAME_BYTES_MAX).then_some(length)
}

/// Four bytes of a header that is known to be long enough.
fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes[at..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

/// Eight bytes of a header that is known to be long enough.
fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes[at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}
