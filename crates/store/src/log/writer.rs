//! The one writer: groups of records, cut into frames, one segment after the other.

use parking_lot::MutexGuard;
use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::error::StoreError;
use super::format::{
    FRAME_BYTES_MAX, FRAME_HEADER_BYTES, FrameHeader, Position, RecordHeader, RecordKey,
    SEGMENT_HEADER_BYTES, SegmentHeader, WORDS_MAX, address, hint_name, id_in, minutes_up, push_record,
    record_bytes, segment_name, trimmed,
};
use super::hint::HintWriter;
use super::manifest::{SegmentManifest, gone_name};
use super::{Log, Segment};
use disk::log::SEGMENT_LIST;
use disk::{Blob, Device, is_lack};

/// The state that only the holder of the writer's lock may see.
pub(crate) struct WriterState {
    active: Arc<Segment>,
    /// Bytes of the active segment that are written.
    size: u64,
    /// The frame that is being filled, with room for its header in front.
    frame: Vec<u8>,
    /// Records in it.
    count: u32,
    /// The latest time at which one of them expires.
    expires_max: u32,
    /// Expiries in minutes, with the bytes that have them; equal neighbours are one entry.
    expiries: Vec<(u32, u64)>,
    /// The floor that it will carry.
    frame_floor: i64,
    /// No record in it may expire before this minute.
    expires_min: u32,
    /// Length that it may reach.
    limit: usize,
    /// Number of the group and of the frame in it.
    group: u64,
    index: u32,
    /// Number of the first record of the frame.
    sequence: u64,
    /// The floor that the newest frame or segment header carries.
    floor: i64,
    /// The address before which everything is durable.
    durable: u64,
    unsynced: bool,
    next_id: u32,
    manifest: SegmentManifest,
    /// Segments that were removed and are in the list that is on disk.
    removed: Vec<u32>,
    hint: HintWriter,
    start: GroupStart,
    failed: Option<Arc<str>>,
}

/// The start of a group, to take it back.
struct GroupStart {
    segment: Arc<Segment>,
    size: u64,
    record_bytes: u64,
    expires_max: u32,
    sequence: u64,
    floor: i64,
    /// Segments that it has filled meanwhile.
    filled: Vec<Arc<Segment>>,
}

impl GroupStart {
    fn of(segment: &Arc<Segment>, size: u64, sequence: u64, floor: i64) -> GroupStart {
        GroupStart {
            segment: segment.clone(),
            size,
            record_bytes: segment.record_bytes.load(Ordering::Relaxed),
            expires_max: segment.expires_max.load(Ordering::Relaxed),
            sequence,
            floor,
            filled: Vec::new(),
        }
    }
}

/// The state that recovery hands on to the writer.
pub(crate) struct ResumePoint {
    pub(crate) active: Arc<Segment>,
    pub(crate) hint: HintWriter,
    pub(crate) group: u64,
    pub(crate) sequence: u64,
    pub(crate) floor: i64,
    pub(crate) next_id: u32,
    pub(crate) manifest: SegmentManifest,
}

impl WriterState {
    /// All of the active segment is durable.
    pub(crate) fn new(resume: ResumePoint) -> WriterState {
        let ResumePoint { active, hint, group, sequence, floor, next_id, manifest } = resume;
        let size = active.size.load(Ordering::Acquire);
        WriterState {
            start: GroupStart::of(&active, size, sequence, floor),
            durable: address(active.id, size),
            active,
            size,
            frame: vec![0; FRAME_HEADER_BYTES],
            count: 0,
            expires_max: 0,
            expiries: Vec::new(),
            frame_floor: floor,
            expires_min: 0,
            limit: 0,
            group,
            index: 0,
            sequence,
            floor,
            unsynced: false,
            next_id,
            manifest,
            removed: Vec::new(),
            hint,
            failed: None,
        }
    }

    pub(crate) fn active_slot(&self) -> u16 {
        self.active.slot
    }

    /// The names of segments that were found to be missing.
    pub(crate) fn lost(&self) -> Vec<String> {
        self.manifest.lost.iter().map(|id| segment_name(*id)).collect()
    }

    /// Stops missing them.
    pub(crate) fn forget_missing(&mut self, device: &dyn Device) -> Result<(), StoreError> {
        if self.manifest.lost.is_empty() {
            return Ok(());
        }
        let manifest = SegmentManifest { present: self.manifest.present.clone(), lost: BTreeSet::new() };
        manifest.write(device).map_err(StoreError::of_device(SEGMENT_LIST))?;
        self.manifest = manifest;
        Ok(())
    }

    fn check(&self) -> Result<(), StoreError> {
        match &self.failed {
            Some(why) => Err(StoreError::Failed(why.clone())),
            None => Ok(()),
        }
    }

    fn fail(&mut self, error: StoreError) -> StoreError {
        self.failed = Some(error.to_string().into());
        error
    }

    fn start_frame(&mut self, floor: i64, segment_bytes: u64) {
        self.frame.truncate(FRAME_HEADER_BYTES);
        (self.count, self.expires_max) = (0, 0);
        self.expiries.clear();
        self.frame_floor = floor;
        // What expires at or before the floor of its frame would be gone at once, and an older image of its key
        // might come back in its place.
        self.expires_min = if floor < 0 { 0 } else { minutes_up(floor.saturating_add(1)) };
        self.limit = FRAME_BYTES_MAX.min(segment_bytes.saturating_sub(self.size) as usize);
    }

    fn begin_group(&mut self) {
        self.start = GroupStart::of(&self.active, self.size, self.sequence, self.floor);
        self.index = 0;
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        if self.unsynced {
            let synced = self.active.blob.sync();
            synced.map_err(StoreError::io(self.active.name())).map_err(|error| self.fail(error))?;
            self.unsynced = false;
            self.durable = address(self.active.id, self.size);
        }
        Ok(())
    }

    /// Makes the segments durably what they were before the group, newest first: if this is interrupted, what is
    /// left is still an unfinished group at the end of the log, which recovery cuts off.
    fn roll_back(&mut self) -> io::Result<()> {
        let start = &mut self.start;
        let cut = |segment: &Segment, size: u64, record_bytes: u64, expires_max: u32| {
            segment.size.store(size, Ordering::Release);
            segment.record_bytes.store(record_bytes, Ordering::Relaxed);
            segment.expires_max.store(expires_max, Ordering::Relaxed);
            segment.blob.truncate(size)?;
            segment.blob.sync()
        };
        self.hint.give_up();
        let header = SEGMENT_HEADER_BYTES as u64;
        if self.active.id != start.segment.id {
            // Hints say how long their segments were: those of what is cut have to be gone for good before it is.
            let device = self.hint.device();
            for segment in start.filled.iter().chain([&start.segment]) {
                let _ = device.remove(&hint_name(segment.id));
            }
            device.sync_names()?;
            cut(&self.active, header, 0, 0)?;
            self.size = header;
            for segment in start.filled.drain(..).rev().filter(|segment| segment.id != start.segment.id) {
                cut(&segment, header, 0, 0)?;
            }
        } else {
            self.size = start.size;
        }
        cut(&start.segment, start.size, start.record_bytes, start.expires_max)?;
        (self.sequence, self.floor) = (start.sequence, start.floor);
        self.durable = address(self.active.id, self.size);
        self.unsynced = false;
        // Never the same number again: of two attempts no mixture must pass for a group.
        self.group = self.group.wrapping_add(1);
        Ok(())
    }
}

/// Appends groups. There is one at a time; dropping it takes back the group that was not committed.
pub struct LogWriter<'a> {
    log: &'a Log,
    state: MutexGuard<'a, WriterState>,
    /// The group was taken back.
    over: bool,
}

impl<'a> LogWriter<'a> {
    pub(crate) fn new(
        log: &'a Log,
        mut state: MutexGuard<'a, WriterState>,
    ) -> Result<LogWriter<'a>, StoreError> {
        state.check()?;
        state.begin_group();
        state.start_frame(log.floor(), log.segment_bytes());
        Ok(LogWriter { log, state, over: false })
    }

    /// Adds a record to the group, without the zero words at its end. It expires at `expires`, in microseconds since
    /// the Unix epoch, rounded up to a minute, and not before the present floor has passed. It can be read at the
    /// answered position once [`Log::is_written`] says so, at the latest after [`LogWriter::commit`].
    ///
    /// # Errors
    /// [`StoreError::TooLarge`] for a value of more than [`WORDS_MAX`] words, which changes nothing. After any other
    /// error the group is gone, and all positions of its records with it.
    pub fn push(
        &mut self,
        key: RecordKey,
        tag: u16,
        expires: i64,
        words: &[u64],
    ) -> Result<Position, StoreError> {
        let words = trimmed(words);
        if words.len() > WORDS_MAX {
            return Err(StoreError::TooLarge("a value has more words than the format can hold"));
        }
        if self.state.frame.len() + record_bytes(words.len()) > self.state.limit || self.over {
            let made = self.make_room(record_bytes(words.len()));
            self.settle(made)?;
        }
        let state = &mut *self.state;
        let expires_minutes = minutes_up(expires).max(state.expires_min);
        let position = Position::new(state.active.slot, state.size + state.frame.len() as u64);
        push_record(
            &mut state.frame,
            &RecordHeader { key, tag, expires_minutes, words: words.len() as u16 },
            words,
        );
        state.count += 1;
        state.expires_max = state.expires_max.max(expires_minutes);
        let bytes = record_bytes(words.len()) as u64;
        match state.expiries.last_mut() {
            Some((minutes, sum)) if *minutes == expires_minutes => *sum += bytes,
            _ => state.expiries.push((expires_minutes, bytes)),
        }
        Ok(position)
    }

    /// Ends the group, and the next record begins another. With `sync`, all groups so far are durable when this
    /// answers. Costs one append for what is left of the group, and one `fdatasync`.
    ///
    /// # Errors
    /// [`StoreError::Full`] if the group was taken back because there is no room, or no descriptor; after any other error nothing is
    /// written any more, and it is unknown whether the group will be found when the log is next opened.
    pub fn commit(&mut self, sync: bool) -> Result<(), StoreError> {
        let done = self.end_group(sync, false);
        self.settle(done)
    }

    /// Commits durably, and makes sure that a group ends in the active segment, be it one without records: so that
    /// the end of the log is found there, and not in a segment that is about to be removed.
    pub(crate) fn commit_here(&mut self) -> Result<(), StoreError> {
        let blank = self.state.size == SEGMENT_HEADER_BYTES as u64;
        let done = self.end_group(true, blank);
        self.settle(done)
    }

    fn end_group(&mut self, sync: bool, always: bool) -> Result<(), StoreError> {
        self.check()?;
        // A floor that was raised is worth a frame without records.
        let floor = self.log.floor();
        if always || self.state.count > 0 || self.state.index > 0 || floor > self.state.floor {
            if self.state.count == 0 {
                self.state.start_frame(floor, self.log.segment_bytes());
            }
            if self.state.frame.len() > self.state.limit {
                self.make_room(0)?;
            }
            self.write_frame(true)?;
            self.state.group = self.state.group.wrapping_add(1);
        }
        self.state.begin_group();
        if sync { self.state.sync() } else { Ok(()) }
    }

    /// Seals the active segment, if there is anything in it, and starts the next. What was pushed so far is written,
    /// but the group goes on.
    ///
    /// # Errors
    /// As [`LogWriter::commit`].
    pub fn seal(&mut self) -> Result<(), StoreError> {
        let done = self.end_segment();
        self.settle(done)
    }

    fn end_segment(&mut self) -> Result<(), StoreError> {
        self.check()?;
        if self.state.count > 0 {
            self.write_frame(false)?;
        }
        if self.state.size > SEGMENT_HEADER_BYTES as u64 { self.roll() } else { Ok(()) }
    }

    /// Commits, seals, and makes `target` a directory with all that the log has: sealed segments as hard links where
    /// that is possible, durably. It can be opened like the log itself. Writing waits meanwhile.
    ///
    /// # Errors
    /// As [`LogWriter::commit`], or the device's, which leaves the log as it is.
    pub fn snapshot(&mut self, target: &Path) -> Result<(), StoreError> {
        self.commit(true)?;
        self.seal()?;
        let active = segment_name(self.state.active.id);
        let names = self.log.device.list().map_err(StoreError::io("listing segments"))?;
        let (link, copy): (Vec<String>, Vec<String>) = names
            .into_iter()
            .filter(|name| {
                let id =
                    id_in(name, ".seg").or(id_in(name, ".hint").filter(|id| *id != self.state.active.id));
                let is_list = name == SEGMENT_LIST || id_in(name, ".gone").is_some();
                id.is_some_and(|id| self.log.has(id)) || is_list
            })
            .partition(|name| id_in(name, ".gone").is_none() && *name != active && name != SEGMENT_LIST);
        disk::export(&*self.log.device, &link, &copy, target)
            .map_err(StoreError::io(format!("snapshot to {}", target.display())))
    }

    /// Makes all durable, leaves a hint for the active segment too, and lets nothing be written any more.
    pub(crate) fn close(&mut self) -> Result<(), StoreError> {
        self.commit(true)?;
        self.state.hint.finish();
        self.state.failed = Some("the log was closed".into());
        Ok(())
    }

    pub(crate) fn active_slot(&self) -> u16 {
        self.state.active_slot()
    }

    /// Lets whoever opens the log know that a segment that is not there was removed.
    pub(crate) fn announce_removal(&mut self, id: u32) -> Result<(), StoreError> {
        let name = gone_name(id);
        match self.log.device.create(&name) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(StoreError::of_device(name)(error));
            }
            _ => {}
        }
        self.log.device.sync_names().map_err(StoreError::io("syncing the directory"))
    }

    /// Takes a segment that was removed out of the list of those that there are. Where that has to wait, as there is no room,
    /// what was announced stands meanwhile.
    pub(crate) fn note_removal(&mut self, id: u32) {
        let (state, device) = (&mut *self.state, &*self.log.device);
        state.manifest.present.remove(&id);
        state.removed.push(id);
        if state.manifest.write(device).is_ok() {
            state.removed.drain(..).for_each(|id| _ = device.remove(&gone_name(id)));
        }
    }

    fn check(&self) -> Result<(), StoreError> {
        self.state.check()?;
        if self.over {
            return Err(StoreError::Failed("an earlier part of this group could not be written".into()));
        }
        Ok(())
    }

    /// Writes out the frame that is being filled if it is half full, so that the next few pushes need not. For callers
    /// that push under a lock of their own, and call this without it.
    ///
    /// # Errors
    /// As [`LogWriter::push`].
    pub fn spill(&mut self) -> Result<(), StoreError> {
        if self.state.frame.len() * 2 > self.state.limit && !self.over {
            let made = self.make_room(self.state.limit / 2);
            self.settle(made)?;
        }
        Ok(())
    }

    /// Starts a frame that has room for a record of `bytes`, in the next segment if need be.
    fn make_room(&mut self, bytes: usize) -> Result<(), StoreError> {
        self.check()?;
        if self.state.count > 0 {
            self.write_frame(false)?;
        }
        let needed = FRAME_HEADER_BYTES + bytes;
        if needed > self.state.limit && self.state.size > SEGMENT_HEADER_BYTES as u64 {
            self.roll()?;
        }
        // A segment takes at least one record, however short it was meant to be.
        self.state.limit = self.state.limit.max(needed);
        Ok(())
    }

    fn write_frame(&mut self, last: bool) -> Result<(), StoreError> {
        let state = &mut *self.state;
        let header = FrameHeader {
            group: state.group,
            index: state.index,
            last,
            count: state.count,
            length: (state.frame.len() - FRAME_HEADER_BYTES) as u32,
            sequence: state.sequence,
            floor: state.frame_floor,
            durable: state.durable,
            address: address(state.active.id, state.size),
        };
        state.frame[..FRAME_HEADER_BYTES].copy_from_slice(&header.encode());
        state.unsynced = true;
        if let Err(error) = state.active.blob.append(&state.frame) {
            let name = state.active.name();
            return Err(self.give_up(name, error));
        }
        let active = &state.active;
        state.size += header.bytes();
        active.record_bytes.fetch_add(u64::from(header.length), Ordering::Relaxed);
        active.expires_max.fetch_max(state.expires_max, Ordering::Relaxed);
        {
            let mut expiries = active.expiries.lock();
            state.expiries.iter().for_each(|(minutes, bytes)| expiries.add(*minutes, *bytes));
        }
        active.size.store(state.size, Ordering::Release);
        state.hint.frame(&header, &state.frame);
        state.sequence = header.sequence_end();
        state.floor = state.frame_floor;
        state.index += 1;
        state.start_frame(self.log.floor(), self.log.segment_bytes());
        Ok(())
    }

    /// Seals the active segment and starts the next. The frame is empty.
    fn roll(&mut self) -> Result<(), StoreError> {
        let state = &mut *self.state;
        state.sync()?;
        let slot = self.log.free_slot(state.active.slot)?;
        let id = state.next_id;
        state.next_id = id.checked_add(1).ok_or(StoreError::TooLarge("segment numbers are used up"))?;
        let floor = self.log.floor();
        state.manifest.present.insert(id);
        let created = create_segment(&*self.log.device, id, slot, floor, state.sequence)
            .and_then(|next| state.manifest.write(&*self.log.device).map(|()| next));
        let next = match created {
            Ok(next) => next,
            Err(error) => {
                state.manifest.present.remove(&id);
                let name = segment_name(id);
                return Err(match self.log.device.remove(&name) {
                    Err(other) if other.kind() != io::ErrorKind::NotFound => {
                        state.fail(StoreError::Io { what: name, error: other })
                    }
                    _ => self.give_up(name, error),
                });
            }
        };
        self.log.measure();
        state.hint.finish();
        state.hint = HintWriter::create(&self.log.device, id);
        state.active.sealed.store(true, Ordering::Release);
        self.log.install(&next);
        let sealed = std::mem::replace(&mut state.active, next);
        state.size = SEGMENT_HEADER_BYTES as u64;
        state.durable = address(id, state.size);
        state.floor = floor;
        if state.index > 0 {
            state.start.filled.push(sealed);
        } else {
            state.begin_group();
        }
        state.start_frame(floor, self.log.segment_bytes());
        Ok(())
    }

    /// After an error the rest of the group must not be written as if it were all of it.
    fn settle(&mut self, done: Result<(), StoreError>) -> Result<(), StoreError> {
        if done.is_err() {
            self.abandon();
        }
        done
    }

    /// Takes the group back if any of it was written.
    fn abandon(&mut self) {
        if !self.over && self.state.index > 0 && self.state.failed.is_none() {
            let what = self.state.active.name();
            if let Err(error) = self.state.roll_back() {
                self.state.fail(StoreError::Io { what, error });
            }
        }
        self.over = true;
    }

    /// After a failed append or creation: takes the group back if all that failed is that something is lacking.
    fn give_up(&mut self, what: String, error: io::Error) -> StoreError {
        self.over = true;
        if !is_lack(&error) {
            return self.state.fail(StoreError::Io { what, error });
        }
        match self.state.roll_back() {
            Ok(()) => StoreError::Full { what, error },
            Err(error) => self.state.fail(StoreError::Io { what, error }),
        }
    }
}

impl Drop for LogWriter<'_> {
    fn drop(&mut self) {
        self.abandon();
    }
}

/// Creates a segment, durably.
pub(crate) fn create_segment(
    device: &dyn Device,
    id: u32,
    slot: u16,
    floor: i64,
    sequence: u64,
) -> io::Result<Arc<Segment>> {
    let blob: Box<dyn Blob> = device.create(&segment_name(id))?;
    blob.append(&SegmentHeader { id, floor, sequence }.encode())?;
    blob.sync()?;
    device.sync_names()?;
    Ok(Arc::new(Segment::new(id, slot, blob, SEGMENT_HEADER_BYTES as u64)))
}
