//! The bytes of a segment, format 2. All numbers are little-endian; everything begins at a multiple of eight bytes.
//!
//! ```text
//! segment   header, then frames to the end of the file
//! header    0  8 "TOLLSEG\n"        8 u16 format, 2         10 u16 zero     12 u32 CRC-32 of 0..12 and 16..40
//!          16  u64 segment's id    24 i64 floor when created 32 u64 sequence of the first record to come
//! frame     header, then records
//! header    0 u32 mark f5 54 48 9a  4 u32 CRC-32 of 8..64    8 u64 group     16 u32 index of the frame in its group
//!          20 u32 1: the group's last frame, else 0         24 u32 records  28 u32 their bytes
//!          32 u64 sequence of the first record, counted over the life of the log
//!          40 i64 floor            48 u64 address before which all was durable when this was written
//!          56 u64 address of this frame
//! record    0 u32 CRC-32 of the rest 4 u16 words             6 u16 tag        8 u16 space    10 u16 kind
//!          12 u32 expires, in minutes since the Unix epoch, rounded up; ffff_ffff is never
//!          16 u64 shingle          24 words
//! ```
//!
//! An *address* is the segment's id shifted left by 24 and the offset divided by eight: it rises over the life of
//! the log. A *group* is what was appended at once: frames with indices 0, 1, ... of which only the last one is
//! marked as last. A frame lies in one segment, a group may go on in the next. Since a frame names its own address,
//! bytes that were copied or left over elsewhere are not taken for it.

/// Most words of a value.
pub const WORDS_MAX: usize = u16::MAX as usize;
/// [`crate::log::VisitedRecord::expires_minutes`] of what never expires.
pub const NEVER: u32 = u32::MAX;

pub(crate) const FORMAT: u16 = 2;
pub(crate) const SEGMENT_HEADER_BYTES: usize = 40;
pub(crate) const FRAME_HEADER_BYTES: usize = 64;
pub(crate) const RECORD_HEADER_BYTES: usize = 24;
/// A frame is closed before it would become longer, its header included.
pub(crate) const FRAME_BYTES_MAX: usize = 1 << 20;
/// The most bytes that a [`Position`] reaches.
pub(crate) const SEGMENT_BYTES_MAX: u64 = 1 << (OFFSET_BITS + 3);

const OFFSET_BITS: u32 = 24;
const SEGMENT_MAGIC: [u8; 8] = *b"TOLLSEG\n";
pub(crate) const FRAME_MARK: [u8; 4] = [0xf5, b'T', b'H', 0x9a];
const MINUTE_MICROS: i64 = 60_000_000;

// The longest record makes a frame of its own.
const _: () = assert!(FRAME_HEADER_BYTES + record_bytes(WORDS_MAX) <= FRAME_BYTES_MAX);

/// The place of a record: 16 bits of the segment's slot, 24 bits of the offset in units of eight bytes. Good for one run
/// of the process: slots are given out anew when the log is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(u64);

impl Position {
    /// No record is ever here.
    pub const NONE: Position = Position((1 << Position::BITS) - 1);
    /// Bits that a position takes.
    pub const BITS: u32 = 16 + OFFSET_BITS;

    /// The position of these [`Position::bits`]; higher bits are dropped.
    pub const fn from_bits(bits: u64) -> Position {
        Position(bits & Position::NONE.0)
    }

    /// The position as a number below 2^40.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// The slot of its segment.
    pub const fn slot(self) -> u16 {
        (self.0 >> OFFSET_BITS) as u16
    }

    /// The offset in its segment, in bytes.
    pub const fn offset(self) -> u64 {
        (self.0 & ((1 << OFFSET_BITS) - 1)) << 3
    }

    /// `offset` is below [`SEGMENT_BYTES_MAX`].
    pub(crate) const fn new(slot: u16, offset: u64) -> Position {
        Position((slot as u64) << OFFSET_BITS | offset >> 3)
    }
}

/// The key by which a record is found. Plain numbers: the log knows no meaning of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordKey {
    /// The tenant or stream.
    pub space: u16,
    /// The kind of thing that is counted.
    pub kind: u16,
    /// The thing, hashed.
    pub shingle: u64,
}

/// The words of a value without zero words at the end, which mean nothing: so many are written.
pub fn trimmed(words: &[u64]) -> &[u64] {
    let end = words.iter().rposition(|word| *word != 0).map_or(0, |last| last + 1);
    &words[..end]
}

/// Bytes that a record of so many words takes in a segment.
pub const fn record_bytes(words: usize) -> usize {
    RECORD_HEADER_BYTES + 8 * words
}

/// A time in microseconds since the Unix epoch as minutes, rounded up; [`NEVER`] where minutes do not reach.
pub const fn minutes_up(micros: i64) -> u32 {
    if micros <= 0 {
        return 0;
    }
    let minutes = (micros - 1) / MINUTE_MICROS + 1;
    if minutes >= NEVER as i64 { NEVER } else { minutes as u32 }
}

/// The time in microseconds since the Unix epoch of so many minutes; `i64::MAX` for [`NEVER`].
pub const fn micros(minutes: u32) -> i64 {
    if minutes == NEVER { i64::MAX } else { minutes as i64 * MINUTE_MICROS }
}

/// A place in the log as a number that rises over its life.
pub(crate) const fn address(id: u32, offset: u64) -> u64 {
    (id as u64) << OFFSET_BITS | offset >> 3
}

/// The offset of an address in its segment, in bytes.
pub(crate) const fn offset_of(address: u64) -> u64 {
    (address & ((1 << OFFSET_BITS) - 1)) << 3
}

/// The offset that an address means in the segment `id`; `None` if it lies in another.
pub(crate) const fn offset_in(id: u32, address: u64) -> Option<u64> {
    if address >> OFFSET_BITS == id as u64 { Some(offset_of(address)) } else { None }
}

pub(crate) fn segment_name(id: u32) -> String {
    format!("{id:08x}.seg")
}

pub(crate) fn hint_name(id: u32) -> String {
    format!("{id:08x}.hint")
}

/// The number in a name like `0000002a.seg`.
pub(crate) fn id_in(name: &str, suffix: &str) -> Option<u32> {
    let digits = name.strip_suffix(suffix)?;
    let lower = digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if digits.len() == 8 && lower { u32::from_str_radix(digits, 16).ok() } else { None }
}

pub(crate) struct SegmentHeader {
    pub(crate) id: u32,
    pub(crate) floor: i64,
    pub(crate) sequence: u64,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SegmentHeaderError {
    Damaged,
    /// A header of another format.
    Format(u16),
}

impl SegmentHeader {
    pub(crate) fn encode(&self) -> [u8; SEGMENT_HEADER_BYTES] {
        let mut bytes = [0; SEGMENT_HEADER_BYTES];
        bytes[..8].copy_from_slice(&SEGMENT_MAGIC);
        bytes[8..10].copy_from_slice(&FORMAT.to_le_bytes());
        bytes[16..24].copy_from_slice(&u64::from(self.id).to_le_bytes());
        bytes[24..32].copy_from_slice(&self.floor.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.sequence.to_le_bytes());
        let crc = segment_crc(&bytes);
        bytes[12..16].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// `id` is the one in the file's name.
    pub(crate) fn decode(bytes: &[u8], id: u32) -> Result<SegmentHeader, SegmentHeaderError> {
        if !bytes.starts_with(&SEGMENT_MAGIC) || bytes.len() < 16 {
            return Err(SegmentHeaderError::Damaged);
        }
        let version = u16_at(bytes, 8);
        if version != FORMAT {
            // Another format may compute its checksum as it likes. But if the checksum is the one of this format, it is
            // the version that was damaged.
            let mut patched = bytes.to_vec();
            patched.resize(SEGMENT_HEADER_BYTES, 0);
            patched[8..10].copy_from_slice(&FORMAT.to_le_bytes());
            let is_damaged = version == 0 || segment_crc(&patched) == u32_at(bytes, 12);
            return Err(if is_damaged {
                SegmentHeaderError::Damaged
            } else {
                SegmentHeaderError::Format(version)
            });
        }
        let header: &[u8; SEGMENT_HEADER_BYTES] = bytes.first_chunk().ok_or(SegmentHeaderError::Damaged)?;
        if segment_crc(header) != u32_at(header, 12) || u64_at(header, 16) != u64::from(id) {
            return Err(SegmentHeaderError::Damaged);
        }
        Ok(SegmentHeader { id, floor: u64_at(header, 24).cast_signed(), sequence: u64_at(header, 32) })
    }
}

fn segment_crc(bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&bytes[..12]);
    hasher.update(&bytes[16..]);
    hasher.finalize()
}

/// The content of a frame's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameHeader {
    pub(crate) group: u64,
    /// Its place in its group, from 0.
    pub(crate) index: u32,
    /// No frame of the group follows.
    pub(crate) last: bool,
    /// Records in the frame.
    pub(crate) count: u32,
    /// Bytes of the records.
    pub(crate) length: u32,
    /// Number of its first record.
    pub(crate) sequence: u64,
    /// Records that expire at or before this are gone.
    pub(crate) floor: i64,
    /// The address before which everything was durable when the frame was written.
    pub(crate) durable: u64,
    /// The address of the frame.
    pub(crate) address: u64,
}

impl FrameHeader {
    pub(crate) fn encode(&self) -> [u8; FRAME_HEADER_BYTES] {
        let mut bytes = [0; FRAME_HEADER_BYTES];
        bytes[..4].copy_from_slice(&FRAME_MARK);
        bytes[8..16].copy_from_slice(&self.group.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.index.to_le_bytes());
        bytes[20..24].copy_from_slice(&u32::from(self.last).to_le_bytes());
        bytes[24..28].copy_from_slice(&self.count.to_le_bytes());
        bytes[28..32].copy_from_slice(&self.length.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.floor.to_le_bytes());
        bytes[48..56].copy_from_slice(&self.durable.to_le_bytes());
        bytes[56..64].copy_from_slice(&self.address.to_le_bytes());
        let crc = crc32fast::hash(&bytes[8..]);
        bytes[4..8].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// The header at the start of `bytes`, if it is intact and belongs at this address.
    pub(crate) fn decode(bytes: &[u8], address: u64) -> Option<FrameHeader> {
        let bytes: &[u8; FRAME_HEADER_BYTES] = bytes.first_chunk()?;
        if bytes[..4] != FRAME_MARK || crc32fast::hash(&bytes[8..]) != u32_at(bytes, 4) {
            return None;
        }
        let header = FrameHeader {
            group: u64_at(bytes, 8),
            index: u32_at(bytes, 16),
            last: u32_at(bytes, 20) == 1,
            count: u32_at(bytes, 24),
            length: u32_at(bytes, 28),
            sequence: u64_at(bytes, 32),
            floor: u64_at(bytes, 40).cast_signed(),
            durable: u64_at(bytes, 48),
            address: u64_at(bytes, 56),
        };
        let (length, count) = (header.length as usize, header.count as usize);
        let sane = header.address == address
            && length.is_multiple_of(8)
            && length <= FRAME_BYTES_MAX - FRAME_HEADER_BYTES
            && count <= length / RECORD_HEADER_BYTES;
        sane.then_some(header)
    }

    /// Length of the whole frame.
    pub(crate) fn bytes(&self) -> u64 {
        FRAME_HEADER_BYTES as u64 + u64::from(self.length)
    }

    pub(crate) fn sequence_end(&self) -> u64 {
        self.sequence.saturating_add(u64::from(self.count))
    }
}

/// The content of a record besides its words.
#[derive(Clone, Copy)]
pub(crate) struct RecordHeader {
    pub(crate) key: RecordKey,
    pub(crate) tag: u16,
    pub(crate) expires_minutes: u32,
    pub(crate) words: u16,
}

/// Length of a [`RecordHeader`] without the checksum in front of it.
pub(crate) const RECORD_ENTRY_BYTES: usize = RECORD_HEADER_BYTES - 4;

impl RecordHeader {
    /// Reads what follows the checksum.
    pub(crate) fn decode(bytes: &[u8; RECORD_ENTRY_BYTES]) -> RecordHeader {
        RecordHeader {
            words: u16_at(bytes, 0),
            tag: u16_at(bytes, 2),
            key: RecordKey { space: u16_at(bytes, 4), kind: u16_at(bytes, 6), shingle: u64_at(bytes, 12) },
            expires_minutes: u32_at(bytes, 8),
        }
    }

    fn encode(&self) -> [u8; RECORD_HEADER_BYTES] {
        let mut bytes = [0; RECORD_HEADER_BYTES];
        bytes[4..6].copy_from_slice(&self.words.to_le_bytes());
        bytes[6..8].copy_from_slice(&self.tag.to_le_bytes());
        bytes[8..10].copy_from_slice(&self.key.space.to_le_bytes());
        bytes[10..12].copy_from_slice(&self.key.kind.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.expires_minutes.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.key.shingle.to_le_bytes());
        bytes
    }
}

/// Appends a record; the header says as many words as there are.
pub(crate) fn push_record(frame: &mut Vec<u8>, header: &RecordHeader, words: &[u64]) {
    let start = frame.len();
    frame.extend_from_slice(&header.encode());
    for word in words {
        frame.extend_from_slice(&word.to_le_bytes());
    }
    let crc = crc32fast::hash(&frame[start + 4..]);
    frame[start..start + 4].copy_from_slice(&crc.to_le_bytes());
}

/// Returns the length that the record at the start of `bytes` states; `None` if `bytes` does not hold all of it.
pub(crate) fn record_length(bytes: &[u8]) -> Option<usize> {
    let header: &[u8; RECORD_HEADER_BYTES] = bytes.first_chunk()?;
    let length = record_bytes(usize::from(u16_at(header, 4)));
    (length <= bytes.len()).then_some(length)
}

/// The record at the start of `bytes` with the bytes of its words; `None` if it is cut short or damaged.
pub(crate) fn read_record(bytes: &[u8]) -> Option<(RecordHeader, &[u8])> {
    let record = &bytes[..record_length(bytes)?];
    let (crc, rest) = record.split_first_chunk::<4>()?;
    if crc32fast::hash(rest) != u32::from_le_bytes(*crc) {
        return None;
    }
    let (entry, words) = rest.split_first_chunk::<RECORD_ENTRY_BYTES>()?;
    Some((RecordHeader::decode(entry), words))
}

/// Puts the words that `bytes` holds into `into`.
pub(crate) fn read_words(bytes: &[u8], into: &mut Vec<u64>) {
    into.clear();
    into.extend(bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)));
}

/// Two bytes of a header that is known to be long enough.
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    bytes[at..].first_chunk().map_or(0, |bytes| u16::from_le_bytes(*bytes))
}

/// Four bytes of a header that is known to be long enough.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes[at..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

/// Eight bytes of a header that is known to be long enough.
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes[at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minutes_round_up_and_come_back() {
        assert_eq!([i64::MIN, -1, 0, 1, 60_000_000, 60_000_001].map(minutes_up), [0, 0, 0, 1, 1, 2]);
        assert_eq!(minutes_up(i64::MAX), NEVER);
        assert_eq!((micros(0), micros(2), micros(NEVER)), (0, 120_000_000, i64::MAX));
        for minutes in [0, 1, 29_000_000, NEVER - 1, NEVER] {
            assert_eq!(minutes_up(micros(minutes)), minutes);
        }
    }

    #[test]
    fn positions_fit_forty_bits() {
        let position = Position::new(65_534, SEGMENT_BYTES_MAX - 8);
        assert_eq!((position.slot(), position.offset()), (65_534, SEGMENT_BYTES_MAX - 8));
        assert!(position < Position::NONE);
        assert_eq!(Position::from_bits(position.bits() | 1 << 40), position);
    }

    #[test]
    fn a_flipped_version_is_damage_and_not_another_format() {
        let whole = SegmentHeader { id: 7, floor: 5, sequence: 9 }.encode();
        let decoded = SegmentHeader::decode(&whole, 7).unwrap();
        assert_eq!((decoded.id, decoded.floor, decoded.sequence), (7, 5, 9));
        for bit in 0..8 * SEGMENT_HEADER_BYTES {
            let mut bytes = whole;
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(
                SegmentHeader::decode(&bytes, 7).err(),
                Some(SegmentHeaderError::Damaged),
                "bit {bit}"
            );
        }
        let mut later = whole;
        later[8] = 3;
        later[12] ^= 1;
        assert_eq!(SegmentHeader::decode(&later, 7).err(), Some(SegmentHeaderError::Format(3)));
        assert_eq!(SegmentHeader::decode(&whole, 8).err(), Some(SegmentHeaderError::Damaged));
    }

    #[test]
    fn blank_bytes_are_no_record() {
        assert!(read_record(&[0; 64]).is_none());
    }
}
