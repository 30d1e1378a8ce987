//! Opening a log: where it ends, what it holds, and what it has lost.
//!
//! A crash may leave an unfinished group at the end, and of what was not synced any part may be missing. Damage may be
//! anywhere. Which is which decides what is served:
//!
//! * What is known to be *durable* — every segment but the newest, and of that what its frames or its hint say was
//!   durable — was written whole. What is broken there has rotted, and costs only itself: a record, or the
//!   records of a frame without a header.
//! * Behind that a group counts only if it is whole, every record included, and so is every one before it.
//! * The log ends with the last group that counts. What lies behind is a torn tail and is cut off.

use std::collections::{BTreeSet, HashSet};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use disk::log::{SEGMENT_LIST, forget_tails, keep_tail};
use disk::{Blob, Device, is_lack, read_full};

use super::error::StoreError;
use super::expiry::Expiries;
use super::format::{
    FORMAT, FRAME_HEADER_BYTES, FrameHeader, Position, RecordHeader, SEGMENT_BYTES_MAX, SEGMENT_HEADER_BYTES,
    SegmentHeader, SegmentHeaderError, hint_name, id_in, micros, offset_in, offset_of, record_bytes,
    segment_name,
};
use super::hint::{Hint, HintEntry, HintWriter};
use super::manifest::{SegmentManifest, gone_name};
use super::reader::{RecordSink, WalkSummary, is_whole, next_frame, read_segment, walk};
use super::writer::{ResumePoint, WriterState, create_segment};
use super::{Log, LogOptions, Recovery, SLOTS, Segment, VisitedRecord};

const HEADER: u64 = SEGMENT_HEADER_BYTES as u64;

struct FoundSegment {
    id: u32,
    blob: Box<dyn Blob>,
    /// The bytes that a position reaches.
    size: u64,
    /// Length of the file.
    bytes: u64,
    header: Option<SegmentHeader>,
    hint: Option<Hint>,
}

impl FoundSegment {
    fn io(&self) -> impl FnOnce(io::Error) -> StoreError + use<> {
        StoreError::io(segment_name(self.id))
    }

    fn has_frames(&self, buffer: &mut Vec<u8>) -> Result<bool, StoreError> {
        let mut reader = read_segment(&*self.blob, self.size, buffer);
        Ok(next_frame(&mut reader, self.id, HEADER).map_err(self.io())?.is_some())
    }
}

/// Opens the log in a directory.
pub(crate) fn open(
    device: Arc<dyn Device>,
    options: LogOptions,
    visit: &mut dyn FnMut(&VisitedRecord),
) -> Result<(Log, Recovery), StoreError> {
    let mut recovery = Recovery::default();
    let (mut found, hints, mut next_id) = list(&*device)?;
    let (known, gone) = manifest_of(&*device)?;
    recovery.manifest_made_anew = known.is_none() && found.iter().any(|found| found.size > HEADER);
    let listed = known.clone().unwrap_or_default();
    remove_unborn(&*device, &mut found, &listed, &mut recovery)?;
    // One that has become empty is as good as missing; its file is left alone.
    found.retain(|found| found.bytes > 0 || !listed.contains(&found.id));
    let mut manifest =
        SegmentManifest { present: found.iter().map(|found| found.id).collect(), lost: BTreeSet::new() };
    for id in listed.iter().filter(|id| !manifest.present.contains(id) && !gone.contains(id)) {
        manifest.lost.insert(*id);
        next_id = next_id.max(id.saturating_add(1));
    }
    recovery.losses.missing = manifest.lost.iter().map(|id| segment_name(*id)).collect();
    for found in &mut found {
        if hints.contains(&found.id) {
            let opened = Hint::open(&*device, found.id, &*found.blob, found.size);
            found.hint = opened.ok().flatten();
            if found.hint.is_none() {
                recovery.hints_ignored.push(hint_name(found.id));
                let covered = Hint::covered(&*device, found.id).ok().flatten().unwrap_or(0);
                if covered > found.bytes {
                    recovery.losses.add(found.id, found.bytes, covered);
                }
            }
        }
    }

    let mut buffer = Vec::new();
    let end = find_end(&found, &mut buffer)?;
    let floors = found.iter().filter_map(|found| Some(found.header.as_ref()?.floor));
    let floor = floors.fold(end.floor, i64::max);
    let mut tally = WalkSummary::new();
    let mut table = Vec::new();
    let mut active = None;
    let mut previous = None;
    let mut kept_bytes = Vec::new();
    for (index, mut found) in found.into_iter().enumerate() {
        if table.len() >= SLOTS {
            return Err(StoreError::TooLarge("there are more segments than a position can tell apart"));
        }
        let newest = index == end.segments - 1;
        let within = if index < end.segment {
            found.size
        } else if index == end.segment {
            end.offset
        } else {
            HEADER
        };
        // Without header and frames it is not known what this is: it is not touched.
        let kept =
            if found.header.is_none() && !found.has_frames(&mut buffer)? { found.size } else { within };
        kept_bytes.push(kept);
        recovery.truncated_bytes += found.size.saturating_sub(kept);
        let cut = kept < found.size;
        let gap = if previous == found.id.checked_sub(1) { tally.gap } else { 0 };
        previous = Some(found.id);
        match &found.header {
            Some(header) => {
                tally.floor = tally.floor.max(header.floor);
                tally.expect(header.sequence, gap, &mut recovery.losses);
            }
            None => recovery.losses.add(found.id, 0, HEADER.min(found.size)),
        }
        let (id, slot) = (found.id, table.len() as u16);
        let io = found.io();
        let hint = found.hint.take();
        let mut visitor = RecoverySink {
            slot,
            visit: &mut *visit,
            floor,
            record_bytes: 0,
            expires_max: 0,
            expiries: Expiries::default(),
            hint: None,
        };
        let mut from = HEADER;
        if let Some(hint) = &hint {
            let walked = hint.walk(id, &mut buffer, |offset, header, entries| {
                if offset >= kept {
                    return;
                }
                tally.frame(header, 0, &mut recovery.losses);
                tally.records += entries.len() as u64;
                visitor.entries(offset, entries);
            });
            from = walked.min(kept);
            if walked < hint.covers() {
                recovery.hints_ignored.push(hint_name(id));
                // Without it the segment is read as a whole the next time, and gets another.
                let _ = device.remove(&hint_name(id));
            } else {
                recovery.hints += 1;
            }
        }
        // A hint that is worth writing: for all of an intact segment that has none, and for what is to be appended.
        let whole_hint = hint.filter(|hint| from == hint.covers() && !cut);
        let needed = !cut && (newest || from < kept) && found.header.is_some();
        visitor.hint = match whole_hint {
            Some(hint) if needed => Some(HintWriter::resume(&device, id, hint)),
            Some(_) => None,
            None if needed && from == HEADER => Some(HintWriter::create(&device, id)),
            None => None,
        };
        let mut reader = read_segment(&*found.blob, kept, &mut buffer);
        let intact = walk(&mut reader, (id, slot), from, &mut visitor, &mut tally, &mut recovery.losses)
            .map_err(io)?;
        if found.bytes > found.size {
            recovery.losses.add(id, found.size, found.bytes);
        }
        let RecoverySink { record_bytes, expires_max, expiries, hint, .. } = visitor;
        let mut hint = hint.unwrap_or_else(|| HintWriter::none(&device, id));
        if !intact {
            hint.give_up();
        } else if !newest {
            hint.finish();
        }
        let segment = Arc::new(Segment::new(id, slot, found.blob, found.size));
        segment.record_bytes.store(record_bytes, Ordering::Relaxed);
        segment.expires_max.store(expires_max, Ordering::Relaxed);
        *segment.expiries.lock() = expiries;
        // What is damaged does not grow.
        if newest && found.header.is_some() && intact && found.bytes == found.size {
            active = Some((segment.clone(), hint));
        } else {
            segment.sealed.store(true, Ordering::Relaxed);
        }
        table.push(Some(segment));
    }

    recovery.torn = cut_tail(&*device, &table, &kept_bytes, &hints)?;
    forget_tails(&*device);
    let orphans: Vec<u32> =
        hints.into_iter().filter(|id| !table.iter().flatten().any(|segment| segment.id == *id)).collect();
    for id in orphans {
        device.remove(&hint_name(id)).map_err(StoreError::io(hint_name(id)))?;
    }
    // What was read may only have been in the system's cache, left by a killed process.
    if let Some(newest) = table.last().and_then(Option::as_ref) {
        newest.blob.sync().map_err(StoreError::io(newest.name()))?;
    }
    device.sync_names().map_err(StoreError::io("syncing the directory"))?;

    let (sequence, floor) = (tally.sequence.unwrap_or(0), tally.floor);
    let (active, hint) = match active {
        Some(active) => active,
        None => {
            let slot = u16::try_from(table.len()).ok().filter(|slot| usize::from(*slot) < SLOTS);
            let slot =
                slot.ok_or(StoreError::TooLarge("there are more segments than a position can tell apart"))?;
            let segment = create_segment(&*device, next_id, slot, floor, sequence)
                .map_err(StoreError::io(segment_name(next_id)))?;
            let hint = HintWriter::create(&device, next_id);
            next_id = next_id.checked_add(1).ok_or(StoreError::TooLarge("segment numbers are used up"))?;
            table.push(Some(segment.clone()));
            manifest.present.insert(segment.id);
            (segment, hint)
        }
    };
    let is_listed = known.as_ref().is_some_and(|known| manifest.all().eq(known.iter().copied()));
    if !is_listed || !gone.is_empty() {
        match manifest.write(&*device) {
            Ok(()) => gone.iter().for_each(|id| _ = device.remove(&gone_name(*id))),
            // The one that there is says enough until there is room: what is written is missed if it goes.
            Err(error)
                if is_lack(&error) && known.is_some_and(|known| manifest.present.is_subset(&known)) => {}
            Err(error) => return Err(StoreError::io(SEGMENT_LIST)(error)),
        }
    }
    recovery.segments = table.len();
    (recovery.records, recovery.groups, recovery.floor) = (tally.records, tally.groups, floor);
    if !recovery.losses.is_empty() || recovery.truncated_bytes > 0 {
        tracing::warn!(
            truncated_bytes = recovery.truncated_bytes,
            kept_in = %recovery.torn.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(" "),
            damaged_bytes = recovery.losses.bytes,
            lost_records = recovery.losses.records,
            "segments were recovered"
        );
    }
    let group = tally.group.max(end.group).map_or(0, |group| group.wrapping_add(1));
    let state = WriterState::new(ResumePoint { active, hint, group, sequence, floor, next_id, manifest });
    Ok((Log::new(device, options, state, table, floor), recovery))
}

/// The segments by their ids, the ids of the hints, and the first id that no segment has or is below.
fn list(device: &dyn Device) -> Result<(Vec<FoundSegment>, HashSet<u32>, u32), StoreError> {
    let names = device.list().map_err(StoreError::io("listing segments"))?;
    let hints = names.iter().filter_map(|name| id_in(name, ".hint")).collect();
    let mut ids: Vec<u32> = names.iter().filter_map(|name| id_in(name, ".seg")).collect();
    ids.sort_unstable();
    let next = match ids.last() {
        Some(id) => id.checked_add(1).ok_or(StoreError::TooLarge("segment numbers are used up"))?,
        None => 0,
    };
    let mut found = Vec::new();
    for id in ids {
        let segment = segment_name(id);
        let io = || StoreError::io(segment.as_str());
        let blob = device.open(&segment).map_err(io())?;
        let bytes = blob.size().map_err(io())?;
        let size = bytes.min(SEGMENT_BYTES_MAX);
        let mut head = [0; SEGMENT_HEADER_BYTES];
        let count = read_full(&*blob, 0, &mut head).map_err(io())?;
        let header = match SegmentHeader::decode(&head[..count], id) {
            Ok(header) => Some(header),
            Err(SegmentHeaderError::Damaged) => None,
            Err(SegmentHeaderError::Format(found)) => {
                return Err(StoreError::Format { segment, found, supported: FORMAT });
            }
        };
        found.push(FoundSegment { id, blob, size, bytes, header, hint: None });
    }
    Ok((found, hints, next))
}

/// The numbers of the segments that are listed, if the list is intact, and of those that were being removed.
fn manifest_of(device: &dyn Device) -> Result<(Option<BTreeSet<u32>>, BTreeSet<u32>), StoreError> {
    let known = SegmentManifest::listed(device).map_err(StoreError::io(SEGMENT_LIST))?;
    let names = device.list().map_err(StoreError::io("listing segments"))?;
    Ok((known, names.iter().filter_map(|name| id_in(name, ".gone")).collect()))
}

/// Removes a newest segment that was torn while it was being created: nothing was ever in it.
fn remove_unborn(
    device: &dyn Device,
    found: &mut Vec<FoundSegment>,
    listed: &BTreeSet<u32>,
    recovery: &mut Recovery,
) -> Result<(), StoreError> {
    let is_unborn = |newest: &mut FoundSegment| {
        newest.header.is_none() && newest.size <= HEADER && !listed.contains(&newest.id)
    };
    let unborn = found.pop_if(is_unborn);
    if let Some(unborn) = unborn {
        recovery.truncated_bytes += unborn.size;
        device.remove(&segment_name(unborn.id)).map_err(unborn.io())?;
        device.sync_names().map_err(StoreError::io("syncing the directory"))?;
    }
    Ok(())
}

/// The end of the log.
struct LogEnd {
    /// The number of segments, and the index of the one in which the log ends.
    segments: usize,
    segment: usize,
    offset: u64,
    /// The greatest number of a group that was looked at, be it behind the end.
    group: Option<u64>,
    /// The greatest floor of a frame that was looked at before the end.
    floor: i64,
}

/// Looks for the last group that counts, from the newest segment backwards; one segment is nearly always enough.
fn find_end(found: &[FoundSegment], buffer: &mut Vec<u8>) -> Result<LogEnd, StoreError> {
    let mut end = LogEnd { segments: found.len(), segment: 0, offset: HEADER, group: None, floor: i64::MIN };
    for (index, segment) in found.iter().enumerate().rev() {
        let newest = index + 1 == found.len();
        if let Some(offset) = end_in(segment, newest, &mut end, buffer).map_err(segment.io())? {
            (end.segment, end.offset) = (index, offset);
            break;
        }
    }
    Ok(end)
}

/// The end of the last valid group in a segment, if it has one.
fn end_in(
    segment: &FoundSegment,
    newest: bool,
    end: &mut LogEnd,
    buffer: &mut Vec<u8>,
) -> io::Result<Option<u64>> {
    let group_behind = end.group;
    let hint = segment.hint.as_ref().filter(|hint| hint.ends_group());
    let from = hint.map_or(HEADER, Hint::covers);
    let mut ends = hint.map(Hint::covers);
    let mut durable = if newest { segment.hint.as_ref().map_or(HEADER, Hint::covers) } else { u64::MAX };
    let mut reader = read_segment(&*segment.blob, segment.size, buffer);
    if newest {
        let mut at = from;
        while let Some((offset, header)) = next_frame(&mut reader, segment.id, at)? {
            let said = offset_in(segment.id, header.durable).unwrap_or(0);
            durable = durable.max(said.min(offset));
            at = offset + header.bytes();
        }
    }
    // The last frame of a group of which more should come.
    let mut open: Option<FrameHeader> = None;
    let mut torn = false;
    let mut at = from;
    while let Some((offset, header)) = next_frame(&mut reader, segment.id, at)? {
        end.group = end.group.max(Some(header.group));
        let gap = at..offset;
        at = offset + header.bytes();
        // A later group was not begun before this one was finished, be its last frame damaged.
        if open.is_some_and(|open| offset_of(open.address) < durable && open.group < header.group) {
            open = None;
            ends = Some(offset);
        }
        if offset >= durable {
            let goes_on = match &open {
                Some(open) => open.group == header.group && open.index.checked_add(1) == Some(header.index),
                // A group may go on from the segment before. All of that is durable, if it was not removed.
                None => header.index == 0 || offset == HEADER,
            };
            // Behind a group that was torn none counts, even if it is whole: what is found is what had been appended
            // up to some moment, and stays that when more is appended.
            let whole =
                goes_on && (gap.is_empty() || offset == durable) && is_whole(&mut reader, offset, &header)?;
            torn |= !whole;
        }
        if header.last && !torn {
            ends = Some(at.min(segment.size));
            end.floor = end.floor.max(header.floor);
        }
        open = (!header.last).then_some(header);
    }
    // With groups behind it, the last one here was finished.
    if group_behind.is_some() && open.is_some_and(|open| Some(open.group) < group_behind) {
        ends = Some(segment.size);
    }
    Ok(ends)
}

/// Cuts off what lies behind the bytes to be kept of each segment, newest first: whatever interrupts this, what is left
/// is still an unfinished group at the end. What is cut off is kept in files beside, whose names and lengths are returned.
fn cut_tail(
    device: &dyn Device,
    table: &[Option<Arc<Segment>>],
    kept_bytes: &[u64],
    hints: &HashSet<u32>,
) -> Result<Vec<(String, u64)>, StoreError> {
    let mut torn = Vec::new();
    for (segment, &kept) in table.iter().flatten().zip(kept_bytes).collect::<Vec<_>>().into_iter().rev() {
        let size = segment.size.load(Ordering::Relaxed);
        if kept < size {
            match keep_tail(device, &segment.name(), &*segment.blob, kept..size) {
                Ok(name) => torn.push((name, size - kept)),
                // It was not promised: that there is no room for it must not keep the rest from being served.
                Err(error) if is_lack(&error) => {
                    tracing::error!(%error, bytes = size - kept, "a torn tail could not be put aside, and is cut off");
                }
                Err(error) => return Err(StoreError::io(segment.name())(error)),
            }
            if hints.contains(&segment.id) {
                device.remove(&hint_name(segment.id)).map_err(StoreError::io(hint_name(segment.id)))?;
            }
            // Before the segment can grow again, a hint that covers other bytes has to be gone for good.
            device.sync_names().map_err(StoreError::io("syncing the directory"))?;
            segment.blob.truncate(kept).map_err(StoreError::io(segment.name()))?;
            segment.blob.sync().map_err(StoreError::io(segment.name()))?;
            segment.size.store(kept, Ordering::Relaxed);
        } else {
            segment.blob.sync().map_err(StoreError::io(segment.name()))?;
        }
    }
    Ok(torn)
}

/// Hands records on, and sums them up for their segment.
struct RecoverySink<'a> {
    slot: u16,
    visit: &'a mut dyn FnMut(&VisitedRecord),
    floor: i64,
    record_bytes: u64,
    expires_max: u32,
    expiries: Expiries,
    hint: Option<HintWriter>,
}

impl RecoverySink<'_> {
    fn entries(&mut self, frame: u64, entries: &[HintEntry]) {
        let mut offset = frame + FRAME_HEADER_BYTES as u64;
        for entry in entries {
            let header = RecordHeader::decode(entry);
            self.give(Position::new(self.slot, offset), &header);
            offset += record_bytes(usize::from(header.words)) as u64;
        }
    }

    fn give(&mut self, position: Position, header: &RecordHeader) {
        let bytes = record_bytes(usize::from(header.words)) as u64;
        self.record_bytes += bytes;
        self.expires_max = self.expires_max.max(header.expires_minutes);
        self.expiries.add(header.expires_minutes, bytes);
        let has_expired = micros(header.expires_minutes) <= self.floor;
        (self.visit)(&VisitedRecord { has_expired, ..VisitedRecord::new(position, header) });
    }
}

impl RecordSink for RecoverySink<'_> {
    fn record(&mut self, position: Position, header: &RecordHeader, _words: &[u8]) {
        self.give(position, header);
    }

    fn frame(&mut self, header: &FrameHeader, frame: &[u8]) {
        if let Some(hint) = &mut self.hint {
            hint.frame(header, frame);
        }
    }
}
