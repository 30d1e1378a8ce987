//! Reading a segment from front to back, past whatever is damaged.

use std::io;
use std::ops::Range;

use disk::Blob;
use disk::log::SegmentReader;

use super::error::LogLosses;
use super::format::{
    FRAME_HEADER_BYTES, FRAME_MARK, FrameHeader, Position, RECORD_HEADER_BYTES, RecordHeader, address,
    read_record, record_length,
};

/// Bytes that are read at once.
const WINDOW_BYTES: usize = 4 << 20;
/// Bytes that the search behind one damaged record may put under the checksum, and all searches in a segment.
const PROBE_BYTES_EACH: u64 = 64 << 20;
/// Most records are shorter.
const SHORT_BYTES: usize = 4 << 10;
const PROBE_BYTES: u64 = 512 << 20;

/// A segment that is read from front to back.
pub(crate) type LogReader<'a> = SegmentReader<&'a dyn Blob, &'a mut Vec<u8>>;

/// Reads the first `size` bytes of a segment. The buffer's content does not matter; it only saves allocations.
pub(crate) fn read_segment<'a>(blob: &'a dyn Blob, size: u64, buffer: &'a mut Vec<u8>) -> LogReader<'a> {
    SegmentReader::new(blob, size, WINDOW_BYTES, buffer)
}

/// The first intact frame header at or behind `offset`, and where it is.
pub(crate) fn next_frame(
    reader: &mut LogReader<'_>,
    id: u32,
    offset: u64,
) -> io::Result<Option<(u64, FrameHeader)>> {
    let read = |bytes: &[u8], offset| FrameHeader::decode(bytes, address(id, offset));
    reader.next_head(FRAME_MARK, (FRAME_HEADER_BYTES, 8), offset, read)
}

/// Returns true if a frame's records are all there and intact.
pub(crate) fn is_whole(reader: &mut LogReader<'_>, offset: u64, header: &FrameHeader) -> io::Result<bool> {
    let frame = reader.at(offset, header.bytes() as usize)?;
    let body = frame.get(FRAME_HEADER_BYTES..).unwrap_or_default();
    let (mut at, mut count) = (0, 0);
    while let Some((_, words)) = read_record(&body[at..]) {
        at += RECORD_HEADER_BYTES + words.len();
        count += 1;
    }
    Ok(at as u64 == u64::from(header.length) && count == header.count)
}

/// The receiver of the things that a [`walk`] finds.
pub(crate) trait RecordSink {
    /// An intact record; `words` are the bytes of its words.
    fn record(&mut self, position: Position, header: &RecordHeader, words: &[u8]);
    /// All records of a frame were intact and have been given.
    fn frame(&mut self, _header: &FrameHeader, _frame: &[u8]) {}
}

/// The facts learned on the way through one segment or several.
#[derive(Debug)]
pub(crate) struct WalkSummary {
    pub(crate) records: u64,
    pub(crate) groups: u64,
    pub(crate) floor: i64,
    /// The greatest number of a group.
    pub(crate) group: Option<u64>,
    /// The number of the record that should come next.
    pub(crate) sequence: Option<u64>,
    /// Bytes behind the last frame that are no frame.
    pub(crate) gap: u64,
}

impl WalkSummary {
    pub(crate) fn new() -> WalkSummary {
        WalkSummary { records: 0, groups: 0, floor: i64::MIN, group: None, sequence: None, gap: 0 }
    }

    /// Takes note of a frame before which so many bytes were skipped.
    pub(crate) fn frame(&mut self, header: &FrameHeader, skipped: u64, losses: &mut LogLosses) {
        self.expect(header.sequence, skipped, losses);
        self.sequence = Some(header.sequence_end());
        self.floor = self.floor.max(header.floor);
        self.group = self.group.max(Some(header.group));
        self.groups += u64::from(header.last);
    }

    /// Takes note that the next record has this number.
    pub(crate) fn expect(&mut self, sequence: u64, skipped: u64, losses: &mut LogLosses) {
        if let Some(expected) = self.sequence {
            // Records that were taken back leave no gap; what does not fit into the bytes is not believed.
            let fit = skipped / RECORD_HEADER_BYTES as u64;
            losses.records += sequence.saturating_sub(expected).min(fit);
        }
        self.sequence = Some(sequence);
    }
}

/// Walks over the frames of a segment from `from` on, and gives every intact record. What is damaged is added to
/// `losses`. Answers whether nothing was.
///
/// # Errors
/// Only what the device answers.
pub(crate) fn walk(
    reader: &mut LogReader<'_>,
    (id, slot): (u32, u16),
    from: u64,
    sink: &mut impl RecordSink,
    tally: &mut WalkSummary,
    losses: &mut LogLosses,
) -> io::Result<bool> {
    let mut probes = PROBE_BYTES;
    let mut intact = true;
    let mut expected = from;
    while let Some((offset, header)) = next_frame(reader, id, expected)? {
        if offset > expected {
            losses.add(id, expected, offset);
            intact = false;
        }
        tally.frame(&header, offset - expected, losses);
        expected = offset + header.bytes();
        let frame = reader.at(offset, header.bytes() as usize)?;
        let body = frame.get(FRAME_HEADER_BYTES..).unwrap_or_default();
        let start = offset + FRAME_HEADER_BYTES as u64;
        let mut found = 0;
        let whole = records(body, &mut probes, |item| match item {
            Ok((at, record, words)) => {
                found += 1;
                sink.record(Position::new(slot, start + at as u64), &record, words);
            }
            Err(bad) => losses.add(id, start + bad.start as u64, start + bad.end as u64),
        });
        tally.records += u64::from(found);
        if body.len() < header.length as usize {
            losses.add(id, start + body.len() as u64, expected);
        }
        if whole && found == header.count && body.len() == header.length as usize {
            sink.frame(&header, frame);
        } else {
            losses.records += u64::from(header.count.saturating_sub(found));
            intact = false;
        }
    }
    tally.gap = reader.size().saturating_sub(expected);
    if tally.gap > 0 {
        losses.add(id, expected, reader.size());
        intact = false;
    }
    Ok(intact)
}

/// Gives a frame's intact records with their offsets, and the ranges between them; answers whether there was none.
fn records<'f>(
    body: &'f [u8],
    probes: &mut u64,
    mut each: impl FnMut(Result<(usize, RecordHeader, &'f [u8]), Range<usize>>),
) -> bool {
    let mut whole = true;
    let mut at = 0;
    while at < body.len() {
        if let Some((header, words)) = read_record(&body[at..]) {
            each(Ok((at, header, words)));
            at += RECORD_HEADER_BYTES + words.len();
        } else {
            let next = resume(body, at, probes);
            each(Err(at..next));
            whole = false;
            at = next;
        }
    }
    whole
}

/// The start of the next intact record behind the damaged one at `at`; the end if there is none.
///
/// Any bytes claim to be a record of some length. Short claims are looked at first, and long ones only where they end
/// before the short record that was found: so the bytes under the checksum stay few even if a long stretch is garbage.
/// The damaged record's own length is believed last: if that is what was damaged, it leads past intact records.
fn resume(body: &[u8], at: usize, probes: &mut u64) -> usize {
    let announced = record_length(&body[at..]).map(|length| at + length);
    let announced = announced.filter(|next| *next == body.len() || read_record(&body[*next..]).is_some());
    let end = announced.unwrap_or(body.len());
    let mut left = PROBE_BYTES_EACH.min(*probes);
    let mut first = |starts: Range<usize>, ends: usize, lengths: Range<usize>| {
        for candidate in starts.step_by(8) {
            let length = record_length(&body[candidate..]).filter(|length| lengths.contains(length));
            let Some(length) = length.filter(|length| candidate + length <= ends) else { continue };
            left = left.checked_sub(length as u64)?;
            *probes -= length as u64;
            if read_record(&body[candidate..]).is_some() {
                return Some(candidate);
            }
        }
        None
    };
    let short = first(at + 8..end, body.len(), 0..SHORT_BYTES);
    let limit = short.unwrap_or(end);
    let long = first(at + 8..limit, limit, SHORT_BYTES..body.len());
    long.or(short).unwrap_or(end)
}
