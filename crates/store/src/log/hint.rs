//! Hint files: what recovery needs of a segment without reading its words.
//!
//! `<id>.hint` is the segment with the words left out. A hint says at its end how much of the segment it covers; it
//! counts only if that end is there, and it gets one only when what it covers is durable. Hints are never synced:
//! one that was torn is noticed, and the segment is read instead.
//!
//! ```text
//! header    0  8 "TOLLHNT\n"        8 u16 format, 2         10 u16 zero     12 u32 CRC-32 of 0..12 and 16..24
//!          16  u64 segment's id
//! frames    the frame's header of 64 bytes, u32 CRC-32 of what follows, then of each record the bytes 4..24
//! end       0 u32 mark f5 54 48 9b  4 u32 CRC-32 of 8..40    8 u64 covered bytes of the segment
//!          16 u64 where in the segment the last group ends that ends there, 0 for none
//!          24 u64 offset of the last covered frame          32 u32 CRC-32 in that frame's header      36 u32 zero
//! ```

use std::io;
use std::sync::Arc;

use super::format::{
    FORMAT, FRAME_HEADER_BYTES, FrameHeader, RECORD_ENTRY_BYTES, RECORD_HEADER_BYTES, SEGMENT_HEADER_BYTES,
    address, hint_name, offset_in, record_bytes, u16_at, u32_at, u64_at,
};
use super::reader::read_segment;
use disk::{Blob, Device, read_full};

const MAGIC: [u8; 8] = *b"TOLLHNT\n";
const END_MARK: [u8; 4] = [0xf5, b'T', b'H', 0x9b];
const HEADER_BYTES: usize = 24;
const END_BYTES: usize = 40;
/// Bytes that are gathered before they are written.
const BUFFER_BYTES: usize = 256 << 10;

/// The trailer of a hint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct HintTrailer {
    covers: u64,
    group_end: u64,
    frame: u64,
    frame_crc: u32,
}

impl HintTrailer {
    const NONE: HintTrailer =
        HintTrailer { covers: SEGMENT_HEADER_BYTES as u64, group_end: 0, frame: 0, frame_crc: 0 };

    fn encode(&self) -> [u8; END_BYTES] {
        let mut bytes = [0; END_BYTES];
        bytes[..4].copy_from_slice(&END_MARK);
        bytes[8..16].copy_from_slice(&self.covers.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.group_end.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.frame.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.frame_crc.to_le_bytes());
        let crc = crc32fast::hash(&bytes[8..]);
        bytes[4..8].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8; END_BYTES]) -> Option<HintTrailer> {
        if bytes[..4] != END_MARK || crc32fast::hash(&bytes[8..]) != u32_at(bytes, 4) {
            return None;
        }
        Some(HintTrailer {
            covers: u64_at(bytes, 8),
            group_end: u64_at(bytes, 16),
            frame: u64_at(bytes, 24),
            frame_crc: u32_at(bytes, 32),
        })
    }
}

fn header(id: u32) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..10].copy_from_slice(&FORMAT.to_le_bytes());
    bytes[16..24].copy_from_slice(&u64::from(id).to_le_bytes());
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&bytes[..12]);
    hasher.update(&bytes[16..]);
    bytes[12..16].copy_from_slice(&hasher.finalize().to_le_bytes());
    bytes
}

/// Writes the hint of one segment, frame by frame. A hint is a convenience: whatever fails ends it, silently for
/// the caller, and removes the file.
pub(crate) struct HintWriter {
    device: Arc<dyn Device>,
    id: u32,
    /// `None` once something has failed.
    blob: Option<Box<dyn Blob>>,
    buffer: Vec<u8>,
    end: HintTrailer,
    /// The start of the trailer of the hint that this one goes on with: it stays good until more is written.
    resumed_at: Option<u64>,
}

impl HintWriter {
    /// The hint of a segment without frames.
    pub(crate) fn create(device: &Arc<dyn Device>, id: u32) -> HintWriter {
        let name = hint_name(id);
        // One of that name is unfinished or does not fit, or it would not be written again.
        let _ = device.remove(&name);
        let blob = device.create(&name).ok();
        HintWriter {
            device: device.clone(),
            id,
            blob,
            buffer: header(id).to_vec(),
            end: HintTrailer::NONE,
            resumed_at: None,
        }
    }

    /// No hint will be written for this segment.
    pub(crate) fn none(device: &Arc<dyn Device>, id: u32) -> HintWriter {
        HintWriter {
            device: device.clone(),
            id,
            blob: None,
            buffer: Vec::new(),
            end: HintTrailer::NONE,
            resumed_at: None,
        }
    }

    /// Goes on behind what a finished hint covers.
    pub(crate) fn resume(device: &Arc<dyn Device>, id: u32, hint: Hint) -> HintWriter {
        HintWriter {
            device: device.clone(),
            id,
            blob: Some(hint.blob),
            buffer: Vec::new(),
            end: hint.end,
            resumed_at: Some(hint.size),
        }
    }

    pub(crate) fn device(&self) -> &dyn Device {
        &*self.device
    }

    /// Takes a frame that is written, whole and intact.
    pub(crate) fn frame(&mut self, header: &FrameHeader, frame: &[u8]) {
        if self.blob.is_none() {
            return;
        }
        let offset = offset_in(self.id, header.address);
        let Some((head, mut body)) = frame.split_first_chunk::<FRAME_HEADER_BYTES>() else { return };
        if offset != Some(self.end.covers) {
            self.give_up();
            return;
        }
        self.buffer.extend_from_slice(head);
        let start = self.buffer.len();
        self.buffer.extend_from_slice(&[0; 4]);
        while let Some(record) = body.first_chunk::<RECORD_HEADER_BYTES>() {
            self.buffer.extend_from_slice(&record[4..]);
            body = body.get(record_bytes(usize::from(u16_at(record, 4)))..).unwrap_or_default();
        }
        let crc = crc32fast::hash(&self.buffer[start + 4..]);
        self.buffer[start..start + 4].copy_from_slice(&crc.to_le_bytes());
        let covers = self.end.covers + frame.len() as u64;
        let group_end = if header.last { covers } else { self.end.group_end };
        self.end = HintTrailer { covers, group_end, frame: self.end.covers, frame_crc: u32_at(head, 4) };
        if self.buffer.len() >= BUFFER_BYTES {
            self.flush();
        }
    }

    fn flush(&mut self) {
        let Some(blob) = &self.blob else { return };
        let begun = self.resumed_at.take().map_or(Ok(()), |size| blob.truncate(size));
        let done = begun.and_then(|()| blob.append(&self.buffer));
        self.buffer.clear();
        if done.is_err() {
            self.give_up();
        }
    }

    /// Ends the hint. All that it covers is durable.
    pub(crate) fn finish(&mut self) {
        if self.end.covers == HintTrailer::NONE.covers {
            self.give_up();
        } else if self.resumed_at.is_none() || !self.buffer.is_empty() {
            self.buffer.extend_from_slice(&self.end.encode());
            self.flush();
            self.blob = None;
        }
    }

    /// Writes no hint after all.
    pub(crate) fn give_up(&mut self) {
        if self.blob.take().is_some() {
            let _ = self.device.remove(&hint_name(self.id));
        }
        self.buffer = Vec::new();
    }
}

/// The part of a record that a hint keeps.
pub(crate) type HintEntry = [u8; RECORD_ENTRY_BYTES];

/// A finished hint that fits its segment.
pub(crate) struct Hint {
    blob: Box<dyn Blob>,
    /// Bytes before its end.
    size: u64,
    end: HintTrailer,
}

impl Hint {
    /// The hint of a segment; `None` if there is none that is finished and fits.
    pub(crate) fn open(
        device: &dyn Device,
        id: u32,
        segment: &dyn Blob,
        segment_size: u64,
    ) -> io::Result<Option<Hint>> {
        let blob = device.open(&hint_name(id))?;
        let Some(size) = blob.size()?.checked_sub(END_BYTES as u64) else { return Ok(None) };
        let mut head = [0; HEADER_BYTES];
        read_full(&*blob, 0, &mut head)?;
        let mut tail = [0; END_BYTES];
        read_full(&*blob, size, &mut tail)?;
        let Some(end) = HintTrailer::decode(&tail).filter(|_| head == header(id)) else { return Ok(None) };
        // The same id and length do not make the same segment: its last frame has to be the one that was covered.
        let mut frame = [0; FRAME_HEADER_BYTES];
        read_full(segment, end.frame, &mut frame)?;
        let fits = end.covers <= segment_size
            && end.group_end <= end.covers
            && FrameHeader::decode(&frame, address(id, end.frame)).is_some_and(|frame| {
                end.frame.checked_add(frame.bytes()) == Some(end.covers)
                    && frame.last == (end.group_end == end.covers)
            })
            && u32_at(&frame, 4) == end.frame_crc;
        Ok(fits.then_some(Hint { blob, size, end }))
    }

    /// Returns how much of its segment a finished hint covers, whether it fits or not: so much was once there, durably.
    pub(crate) fn covered(device: &dyn Device, id: u32) -> io::Result<Option<u64>> {
        let blob = device.open(&hint_name(id))?;
        let Some(size) = blob.size()?.checked_sub(END_BYTES as u64) else { return Ok(None) };
        let mut head = [0; HEADER_BYTES];
        read_full(&*blob, 0, &mut head)?;
        let mut tail = [0; END_BYTES];
        read_full(&*blob, size, &mut tail)?;
        Ok(HintTrailer::decode(&tail).filter(|_| head == header(id)).map(|end| end.covers))
    }

    /// Returns how much of the segment the hint covers. All of that is durable.
    pub(crate) fn covers(&self) -> u64 {
        self.end.covers
    }

    /// Returns true if a group ends where the hint does.
    pub(crate) fn ends_group(&self) -> bool {
        self.end.group_end == self.end.covers
    }

    /// Gives each covered frame with its offset and its records, as long as they are intact; answers where in the
    /// segment the next frame would begin, which is what it covers if all of it was intact.
    pub(crate) fn walk(
        &self,
        id: u32,
        buffer: &mut Vec<u8>,
        mut each: impl FnMut(u64, &FrameHeader, &[HintEntry]),
    ) -> u64 {
        let mut reader = read_segment(&*self.blob, self.size, buffer);
        let (mut at, mut offset) = (HEADER_BYTES as u64, SEGMENT_HEADER_BYTES as u64);
        while offset < self.end.covers {
            // A hint that cannot be read is as good as none.
            let Ok(head) = reader.at(at, FRAME_HEADER_BYTES) else { break };
            let Some(header) = FrameHeader::decode(head, address(id, offset)) else { break };
            let length = FRAME_HEADER_BYTES + 4 + header.count as usize * RECORD_ENTRY_BYTES;
            let Ok(whole) = reader.at(at, length) else { break };
            let Some((crc, entries)) =
                whole.get(FRAME_HEADER_BYTES..).and_then(<[u8]>::split_first_chunk::<4>)
            else {
                break;
            };
            let (entries, rest) = entries.as_chunks::<RECORD_ENTRY_BYTES>();
            let bytes: u64 =
                entries.iter().map(|entry| record_bytes(usize::from(u16_at(entry, 0))) as u64).sum();
            let intact = entries.len() == header.count as usize
                && rest.is_empty()
                && bytes == u64::from(header.length)
                && offset + header.bytes() <= self.end.covers
                && crc32fast::hash(entries.as_flattened()) == u32::from_le_bytes(*crc);
            if !intact {
                break;
            }
            each(offset, &header, entries);
            at += length as u64;
            offset += header.bytes();
        }
        offset
    }
}
