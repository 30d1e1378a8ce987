//! Directories of the first format: read, and brought up to date.
//!
//! Format 1 held byte images under keys of 12 bytes. What the images mean is the caller's affair: [`upgrade`] gives
//! it the newest one of each key, and it pushes what they become.
//!
//! ```text
//! segment   header of 32 bytes, then frames
//! header    0  8 "TOLLSEG\n"      8 u16 format, 1   10 u16 zero  12 u32 CRC-32 of 0..12 and 16..32
//!          16  u64 number        24 i64 floor
//! frame     0  4 f5 54 48 9a      4 u32 CRC-32 of all behind it  8 u32 bytes of the records   12 u32 index in its group
//!          16  u32 frames of the group that follow              20 u32 records
//!          24  u64 sequence      32 i64 floor       40 records
//! record    0 u32 CRC-32 of the rest  4 12 key  16 i64 expires  24 u32 bytes of the value, at most 1 MiB  28 value
//! ```
//!
//! # An upgrade that is interrupted
//!
//! All that the caller pushes is one group of the new log, in segments with greater numbers than the old ones, and
//! the old files are removed only after that group is durable. So whatever interrupts it: if the new log has no
//! group, nothing has happened, and the upgrade starts again (what there is of the group is cut off as a torn tail).
//! If it has one, all was converted, and only the removal is left to be finished. Until then both [`present`] and
//! [`crate::log::Log::open`] say that the directory is not up to date, and the earlier release refuses it.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use crate::device::{Device, read_full};
use crate::log::format::{
    SEGMENT_HEADER_BYTES, SegmentHeader, SegmentHeaderError, id_in, segment_name, u32_at, u64_at,
};
use crate::log::reader::SegmentReader;
use crate::log::{Log, LogLosses, LogOptions, LogWriter, StoreError};

/// Length of a key.
pub const KEY_BYTES: usize = 12;

const VALUE_BYTES_MAX: usize = 1 << 20;
const HEADER_BYTES: usize = 32;
const FRAME_HEADER_BYTES: usize = 40;
const RECORD_HEADER_BYTES: usize = 28;
const FRAME_BYTES_MAX: usize = (4 << 20) + RECORD_HEADER_BYTES + VALUE_BYTES_MAX;
const FRAME_MARK: &[u8] = &[0xf5, b'T', b'H', 0x9a];

/// The newest image of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct V1Image<'a> {
    /// Space, kind (16 bits each) and shingle (64 bits), big-endian.
    pub key: [u8; KEY_BYTES],
    /// When it may be forgotten, in microseconds since the Unix epoch.
    pub expires: i64,
    /// As it was written.
    pub value: &'a [u8],
}

/// What [`upgrade`] did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpgradeReport {
    /// Images given to the caller; none if an interrupted upgrade only had to be finished.
    pub images: u64,
    /// What of the old segments could not be read.
    pub losses: LogLosses,
    /// Old segments removed.
    pub segments: usize,
}

/// Whether there are segments of the first format.
///
/// # Errors
/// The device's.
pub fn present(device: &dyn Device) -> io::Result<bool> {
    Ok(list(device)?.iter().any(|segment| segment.header.is_some()))
}

/// Turns a directory of the first format into one of the present format: gives `convert` every image that has not
/// expired, those whose keys are `first` before the others, and the writer to push to. A directory without old
/// segments is left alone. Reads the old segments three times, and keeps about 50 bytes a key in memory meanwhile, as
/// the earlier release did.
///
/// # Errors
/// What `convert` answers, and the device's; the directory can then still be opened by the earlier release, once
/// segments of the present format are removed, and the upgrade can be tried again as it is.
pub fn upgrade(
    device: &Arc<dyn Device>,
    options: LogOptions,
    first: &dyn Fn(&[u8; KEY_BYTES]) -> bool,
    convert: &mut dyn FnMut(&V1Image<'_>, &mut LogWriter<'_>) -> Result<(), StoreError>,
) -> Result<UpgradeReport, StoreError> {
    let old = list(&**device).map_err(StoreError::io("listing segments"))?;
    let mut upgraded = UpgradeReport::default();
    if old.iter().all(|segment| segment.header.is_none()) {
        return Ok(upgraded);
    }
    let ids: Vec<u32> = old.iter().map(|segment| segment.id).collect();
    let (log, recovery) = Log::open_beside_older(device.clone(), options, &ids)?;
    if recovery.groups == 0 {
        let newest = find_newest(&**device, &old, &mut upgraded.losses)?;
        log.raise_floor(newest.floor);
        let mut writer = log.begin()?;
        for early in [true, false] {
            upgraded.images += give(&**device, &old, &newest, &mut |image| {
                if first(&image.key) == early {
                    convert(image, &mut writer).map(|()| true)
                } else {
                    Ok(false)
                }
            })?;
        }
        writer.commit(true)?;
    }
    log.close()?;
    // Those that say what they are come last: until they are gone, the directory is known not to be up to date.
    let (told, untold): (Vec<&OldSegment>, Vec<&OldSegment>) =
        old.iter().partition(|segment| segment.header.is_some());
    for segment in untold.into_iter().chain(told) {
        let name = segment_name(segment.id);
        device.remove(&name).map_err(StoreError::io(name.as_str()))?;
        device.sync_names().map_err(StoreError::io("syncing the directory"))?;
        upgraded.segments += 1;
    }
    Ok(upgraded)
}

/// An old segment, with the floor in its header if that is intact.
struct OldSegment {
    id: u32,
    header: Option<i64>,
}

/// Old segments by their numbers: those that say so, and before the last of them those that say nothing.
fn list(device: &dyn Device) -> io::Result<Vec<OldSegment>> {
    let mut found = Vec::new();
    for id in device.list()?.iter().filter_map(|name| id_in(name, ".seg")) {
        let blob = device.open(&segment_name(id))?;
        let mut bytes = [0; SEGMENT_HEADER_BYTES];
        let count = read_full(&*blob, 0, &mut bytes)?;
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&bytes[..12]);
        hasher.update(&bytes[16..HEADER_BYTES]);
        let intact = u32_at(&bytes, 12) == hasher.finalize() && u64_at(&bytes, 16) == u64::from(id);
        match SegmentHeader::decode(&bytes[..count], id) {
            Err(SegmentHeaderError::Older(1)) if intact => {
                found.push(OldSegment { id, header: Some(u64_at(&bytes, 24).cast_signed()) });
            }
            Err(SegmentHeaderError::Older(_) | SegmentHeaderError::Damaged) => {
                found.push(OldSegment { id, header: None })
            }
            Err(SegmentHeaderError::Newer(_)) | Ok(_) => {}
        }
    }
    found.sort_unstable_by_key(|segment| segment.id);
    let end = found.iter().rposition(|segment| segment.header.is_some()).map_or(0, |last| last + 1);
    found.truncate(end);
    Ok(found)
}

/// Where the newest image of each key lies.
struct NewestImages {
    places: HashMap<[u8; KEY_BYTES], (u32, u32)>,
    /// Images that expire at or before this are gone.
    floor: i64,
}

fn find_newest(
    device: &dyn Device,
    old: &[OldSegment],
    losses: &mut LogLosses,
) -> Result<NewestImages, StoreError> {
    let mut newest = NewestImages { places: HashMap::new(), floor: i64::MIN };
    for segment in old {
        newest.floor = newest.floor.max(segment.header.unwrap_or(i64::MIN));
        walk_segment(device, segment.id, Some(&mut *losses), &mut |group, _| {
            newest.floor = newest.floor.max(group.floor);
            newest
                .places
                .extend(group.records.iter().map(|record| (record.key, (segment.id, record.offset))));
            Ok(())
        })?;
    }
    Ok(newest)
}

/// Gives the newest images, in the order in which they lie; answers how many were taken.
fn give(
    device: &dyn Device,
    old: &[OldSegment],
    newest: &NewestImages,
    each: &mut dyn FnMut(&V1Image<'_>) -> Result<bool, StoreError>,
) -> Result<u64, StoreError> {
    let mut images = 0;
    for segment in old {
        walk_segment(device, segment.id, None, &mut |group, values| {
            for record in &group.records {
                let here = newest.places.get(&record.key) == Some(&(segment.id, record.offset));
                if !here || record.expires <= newest.floor {
                    continue;
                }
                let bytes = values
                    .at(u64::from(record.offset), record.length)
                    .map_err(StoreError::io(segment_name(segment.id)))?;
                let value = bytes.get(RECORD_HEADER_BYTES..).unwrap_or_default();
                images += u64::from(each(&V1Image { key: record.key, expires: record.expires, value })?);
            }
            Ok(())
        })?;
    }
    Ok(images)
}

/// Where a record lies in its segment, header included.
struct LocatedRecord {
    key: [u8; KEY_BYTES],
    expires: i64,
    offset: u32,
    length: usize,
}

/// What one append was given.
struct V1Group {
    floor: i64,
    records: Vec<LocatedRecord>,
}

struct V1Frame {
    index: u32,
    /// Frames of the group that follow.
    remaining: u32,
    sequence: u64,
    floor: i64,
    records: Vec<LocatedRecord>,
}

impl V1Frame {
    fn is_followed_by(&self, next: &V1Frame, records: u64) -> bool {
        next.index == self.index.wrapping_add(1)
            && next.remaining == self.remaining - 1
            && next.sequence == self.sequence.saturating_add(records)
    }
}

/// Calls `each` with every whole group of a segment, and with a reader of the same segment.
///
/// Where a frame is damaged the next intact one is searched by its mark. The search checks at most a few times the
/// segment's length in all, so bytes made to look like frames cannot make it quadratic.
fn walk_segment(
    device: &dyn Device,
    id: u32,
    mut losses: Option<&mut LogLosses>,
    each: &mut dyn FnMut(&V1Group, &mut SegmentReader<'_>) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let name = segment_name(id);
    let io = || StoreError::io(name.as_str());
    let blob = device.open(&name).map_err(io())?;
    let size = blob.size().map_err(io())?.min(u64::from(u32::MAX));
    let (mut buffer, mut value_buffer) = (Vec::new(), Vec::new());
    let mut reader = SegmentReader::new(&*blob, size, &mut buffer);
    let mut values = SegmentReader::new(&*blob, size, &mut value_buffer);
    let mut probes = size.saturating_mul(4).max(1 << 20);
    let (mut end, mut offset) = (HEADER_BYTES as u64, HEADER_BYTES as u64);
    // The group of which more frames are to come: where it starts, its records, its last frame and that one's count.
    let mut open: Option<(u64, Vec<LocatedRecord>, V1Frame, u64)> = None;
    while offset < size {
        let Some((mut frame, next)) = read_frame(&mut reader, offset).map_err(io())? else {
            open = None;
            match next_frame(&mut reader, size, offset + 1, &mut probes).map_err(io())? {
                Some(found) => offset = found,
                None => break,
            }
            continue;
        };
        let continued = open.take().filter(|(_, _, last, count)| last.is_followed_by(&frame, *count));
        let (start, mut records) = match continued {
            Some((start, records, ..)) => (start, records),
            None if frame.index == 0 => (offset, Vec::new()),
            // A stray one is part of a broken group.
            None => {
                offset = next;
                continue;
            }
        };
        let count = frame.records.len() as u64;
        records.append(&mut frame.records);
        offset = next;
        if frame.remaining > 0 {
            open = Some((start, records, frame, count));
            continue;
        }
        if let Some(losses) = losses.as_deref_mut().filter(|_| start > end) {
            losses.add(id, end, start);
        }
        end = next;
        each(&V1Group { floor: frame.floor, records }, &mut values)?;
    }
    if let Some(losses) = losses.filter(|_| end < size) {
        losses.add(id, end, size);
    }
    Ok(())
}

/// The frame at `offset` and the offset behind it; `None` if there is no intact one.
fn read_frame(reader: &mut SegmentReader<'_>, offset: u64) -> io::Result<Option<(V1Frame, u64)>> {
    let Some(length) = frame_length(reader.at(offset, FRAME_HEADER_BYTES)?) else { return Ok(None) };
    let bytes = reader.at(offset, length)?;
    if bytes.len() < length || crc32fast::hash(&bytes[8..]) != u32_at(bytes, 4) {
        return Ok(None);
    }
    let mut frame = V1Frame {
        index: u32_at(bytes, 12),
        remaining: u32_at(bytes, 16),
        sequence: u64_at(bytes, 24),
        floor: u64_at(bytes, 32).cast_signed(),
        records: Vec::new(),
    };
    let mut at = FRAME_HEADER_BYTES;
    while at < bytes.len() {
        let Some((key, expires, length)) = read_record(&bytes[at..]) else { return Ok(None) };
        let Ok(place) = u32::try_from(offset + at as u64) else { return Ok(None) };
        frame.records.push(LocatedRecord { key, expires, offset: place, length });
        at += length;
    }
    let whole = frame.records.len() as u64 == u64::from(u32_at(bytes, 20));
    Ok(whole.then_some((frame, offset + length as u64)))
}

/// The length of a frame that starts like this.
fn frame_length(header: &[u8]) -> Option<usize> {
    let header: &[u8; FRAME_HEADER_BYTES] = header.first_chunk()?;
    let length = FRAME_HEADER_BYTES + u32_at(header, 8) as usize;
    (header.starts_with(FRAME_MARK) && length <= FRAME_HEADER_BYTES + FRAME_BYTES_MAX).then_some(length)
}

/// Key, expiry and whole length of the record at the start of `bytes`; `None` if it is cut short or damaged.
fn read_record(bytes: &[u8]) -> Option<([u8; KEY_BYTES], i64, usize)> {
    let header: &[u8; RECORD_HEADER_BYTES] = bytes.first_chunk()?;
    let value = u32_at(header, 24) as usize;
    let whole = bytes.get(..RECORD_HEADER_BYTES + value).filter(|_| value <= VALUE_BYTES_MAX)?;
    let intact = crc32fast::hash(&whole[4..]) == u32_at(header, 0);
    let key = *header[4..].first_chunk()?;
    intact.then_some((key, u64_at(header, 16).cast_signed(), whole.len()))
}

/// Where the next intact frame starts, at or behind `offset`. Takes what it checked from `probes`, and gives up when
/// that is used up.
fn next_frame(
    reader: &mut SegmentReader<'_>,
    size: u64,
    mut offset: u64,
    probes: &mut u64,
) -> io::Result<Option<u64>> {
    const STEP_BYTES: usize = 64 << 10;
    while offset < size {
        let window = reader.at(offset, STEP_BYTES)?;
        let Some(found) = window.windows(FRAME_MARK.len()).position(|bytes| bytes == FRAME_MARK) else {
            // The mark may lie across the end of the window.
            offset += window.len().saturating_sub(FRAME_MARK.len() - 1).max(1) as u64;
            continue;
        };
        offset += found as u64;
        if let Some(length) = frame_length(reader.at(offset, FRAME_HEADER_BYTES)?) {
            let Some(left) = probes.checked_sub(length as u64) else { return Ok(None) };
            *probes = left;
            if read_frame(reader, offset)?.is_some() {
                return Ok(Some(offset));
            }
        }
        offset += 1;
    }
    Ok(None)
}
