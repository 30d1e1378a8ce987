//! The log: atomic groups of checked records in segment files, one writer, any number of readers.
//!
//! ```text
//! begin() ─► push(record)… ─► commit(sync)   one group of frames, appended to the active segment
//! read(position)                             one read of the device, checked
//! open(visit)                                every record of every group, oldest first, from hints where there are any
//! ```
//!
//! The log knows no keys: who uses it keeps the position of each key's newest record and says how many bytes of each
//! segment still count ([`Log::account`]), rewrites what counts in a segment that is mostly dead, and removes the
//! segment.
//!
//! What is promised, and tested with crash images:
//! * A group is found after a crash wholly or not at all; after [`LogWriter::commit`] with `sync` has answered,
//!   wholly. That holds across segments.
//! * Rot costs a record, or, where it hits the 64 bytes in front of a frame, at most 1 MiB of records. It is found
//!   by opening without hints, by [`Log::verify`], and by reading the record. In the last group, if the log was not
//!   closed, rot cannot be told from a torn write and costs the group.
//! * A disk that is full costs the group that did not fit. After a failed sync nothing is written.
//!
//! The module `format` draws the segments, `hint` the hint files.

mod error;
mod expiry;
mod fetch;
pub(crate) mod format;
mod hint;
mod manifest;
pub(crate) mod reader;
mod recovery;
mod writer;

use parking_lot::{Mutex, RwLock};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

pub use error::{DamagedRange, LogLosses, StoreError};
pub use format::{NEVER, Position, RecordKey, WORDS_MAX, micros, minutes_up, record_bytes, trimmed};
pub use writer::LogWriter;

use disk::{Blob, Device};
use expiry::Expiries;
use format::{
    FrameHeader, RecordHeader, SEGMENT_BYTES_MAX, SEGMENT_HEADER_BYTES, SegmentHeader, hint_name,
    segment_name,
};
use hint::Hint;
use reader::{RecordSink, WalkSummary, read_segment, walk};
use writer::WriterState;

/// The settings by which a log is kept.
#[derive(Clone, Debug)]
pub struct LogOptions {
    /// A segment that has reached this length is sealed, synced and followed by a new one. At most
    /// [`LogOptions::SEGMENT_BYTES_MAX`]; every segment costs an open file. While little counts, segments are shorter, down to
    /// a MiB: what is dead can only be let go of segment by segment.
    pub segment_bytes: u32,
}

impl LogOptions {
    /// Longest [`LogOptions::segment_bytes`].
    pub const SEGMENT_BYTES_MAX: u32 = SEGMENT_BYTES_MAX as u32;
}

impl Default for LogOptions {
    fn default() -> LogOptions {
        LogOptions { segment_bytes: LogOptions::SEGMENT_BYTES_MAX }
    }
}

/// A record without its words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VisitedRecord {
    /// The key by which the record is found.
    pub key: RecordKey,
    /// The tag it was pushed with.
    pub tag: u16,
    /// The place of the record.
    pub position: Position,
    /// The number of words of the record, zero words at the end left out.
    pub words: usize,
    /// The expiry, in minutes since the Unix epoch; [`NEVER`] for never.
    pub expires_minutes: u32,
    /// While opening: it had expired when the log was last written to.
    pub has_expired: bool,
}

impl VisitedRecord {
    fn new(position: Position, header: &RecordHeader) -> VisitedRecord {
        let RecordHeader { key, tag, expires_minutes, words } = *header;
        VisitedRecord { key, tag, position, words: usize::from(words), expires_minutes, has_expired: false }
    }
}

/// A record that was read and checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogRecord {
    /// The key by which the record is found.
    pub key: RecordKey,
    /// The tag it was pushed with.
    pub tag: u16,
    /// The expiry, in minutes since the Unix epoch; [`NEVER`] for never.
    pub expires_minutes: u32,
    /// The words it was pushed with, zero words at the end left out.
    pub words: Vec<u64>,
}

/// The findings of [`Log::open`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Segments in use, the active one included.
    pub segments: usize,
    /// Groups whose end was found.
    pub groups: u64,
    /// Records visited.
    pub records: u64,
    /// The greatest floor found: records that expire at or before it are gone.
    pub floor: i64,
    /// Bytes of a torn tail that were cut off.
    pub truncated_bytes: u64,
    /// Files beside the segments with what was cut off, by name, and their lengths.
    pub torn: Vec<(String, u64)>,
    /// The parts that were skipped; everything else is served.
    pub losses: LogLosses,
    /// Hints that were used instead of what they cover.
    pub hints: usize,
    /// Hints that were unfinished, damaged or did not fit, by name. The segment was read instead.
    pub hints_ignored: Vec<String>,
    /// The list of segments was missing or damaged, and was made anew of those that are there.
    pub manifest_made_anew: bool,
}

/// The findings of [`Log::verify`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verification {
    /// Segments read.
    pub segments: usize,
    /// Intact records, superseded ones included.
    pub records: u64,
    /// The parts that are damaged.
    pub losses: LogLosses,
    /// Hints read.
    pub hints: usize,
    /// Hints of sealed segments that are missing, damaged or do not fit, by name. They cost time at the next start,
    /// not data; a damaged segment has none.
    pub hints_ignored: Vec<String>,
}

/// The content of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentUsage {
    /// Its slot in positions.
    pub slot: u16,
    /// Its number, which rises.
    pub id: u32,
    /// Length of its file.
    pub bytes: u64,
    /// The part of it that is records.
    pub record_bytes: u64,
    /// The part of that which counts, as [`Log::account`] was told.
    pub live_bytes: u64,
    /// The part of the records, whether they count or not, that has expired, or some less.
    pub expired_bytes: u64,
    /// The expiry of its last record, in minutes since the Unix epoch; [`NEVER`] for never.
    pub expires_max_minutes: u32,
    /// A sealed segment: nothing is appended to it any more.
    pub sealed: bool,
}

impl SegmentUsage {
    /// The file's name.
    pub fn name(&self) -> String {
        segment_name(self.id)
    }

    /// The part of it that counts and has not expired, at most.
    pub fn kept_bytes(&self) -> u64 {
        self.live_bytes.min(self.record_bytes.saturating_sub(self.expired_bytes))
    }
}

/// The space that a log takes up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogUsage {
    /// Segment files.
    pub segments: u64,
    /// The length of the files, hints left out.
    pub disk_bytes: u64,
    /// The part of it that is records.
    pub record_bytes: u64,
    /// The part of that which counts, as [`Log::account`] was told.
    pub live_bytes: u64,
}

/// Segments are not shorter, unless they are meant to be.
const SEGMENT_BYTES_SHORT: u64 = 1 << 20;

/// Slots that positions can name; the last one is that of [`Position::NONE`].
const SLOTS: usize = u16::MAX as usize;

pub(crate) struct Segment {
    id: u32,
    slot: u16,
    blob: Box<dyn Blob>,
    /// Bytes that are written.
    size: AtomicU64,
    record_bytes: AtomicU64,
    expires_max: AtomicU32,
    /// A group that was taken back stays in it: it is there to choose by.
    expiries: Mutex<Expiries>,
    sealed: AtomicBool,
}

impl Segment {
    fn new(id: u32, slot: u16, blob: Box<dyn Blob>, size: u64) -> Segment {
        Segment {
            id,
            slot,
            blob,
            size: AtomicU64::new(size),
            record_bytes: AtomicU64::new(0),
            expires_max: AtomicU32::new(0),
            expiries: Mutex::default(),
            sealed: AtomicBool::new(false),
        }
    }

    fn name(&self) -> String {
        segment_name(self.id)
    }
}

/// Live bytes by slot, apart from the segments so that accounting takes no lock.
struct LiveBytes([OnceLock<Box<[AtomicI64; 256]>>; 256]);

impl Default for LiveBytes {
    fn default() -> LiveBytes {
        LiveBytes([const { OnceLock::new() }; 256])
    }
}

impl LiveBytes {
    fn of(&self, slot: u16) -> &AtomicI64 {
        let [high, low] = slot.to_be_bytes().map(usize::from);
        &self.0[high].get_or_init(|| Box::new([const { AtomicI64::new(0) }; 256]))[low]
    }
}

/// The log. All methods may be called from any thread.
///
/// Locks are taken in the order writer, slots. Only the writer's is held over I/O: it *is* the order of appends.
pub struct Log {
    device: Arc<dyn Device>,
    options: LogOptions,
    state: Mutex<WriterState>,
    slots: RwLock<Vec<Option<Arc<Segment>>>>,
    live: LiveBytes,
    /// Length at which the present segment is sealed.
    segment_bytes: AtomicU64,
    /// Records that expire at or before this are gone for good, whatever the caller's clock says later. It is
    /// written with every frame, and before any file is removed: that keeps an older record of a forgotten key,
    /// which may still lie in an earlier segment, from coming back.
    floor: AtomicI64,
    pool: OnceLock<fetch::FetchPool>,
}

impl Log {
    /// Opens the log, calls `visit` with each record of its groups, oldest first, and cuts off what a crash tore.
    /// Records that have expired are among them. Segments without a fitting hint are read and get one.
    ///
    /// # Errors
    /// [`StoreError::Format`], or the device's. Damage is no error: it is in the [`Recovery`].
    pub fn open(
        device: Arc<dyn Device>,
        options: LogOptions,
        visit: &mut dyn FnMut(&VisitedRecord),
    ) -> Result<(Log, Recovery), StoreError> {
        recovery::open(device, options, visit)
    }

    fn new(
        device: Arc<dyn Device>,
        options: LogOptions,
        state: WriterState,
        slots: Vec<Option<Arc<Segment>>>,
        floor: i64,
    ) -> Log {
        Log {
            device,
            options,
            state: Mutex::new(state),
            slots: RwLock::new(slots),
            live: LiveBytes::default(),
            segment_bytes: AtomicU64::new(0),
            floor: AtomicI64::new(floor),
            pool: OnceLock::new(),
        }
    }

    /// Waits for the one writer and begins a group.
    ///
    /// # Errors
    /// [`StoreError::Failed`] if an earlier write or sync has failed.
    pub fn begin(&self) -> Result<LogWriter<'_>, StoreError> {
        LogWriter::new(self, self.state.lock())
    }

    /// Returns true if a record that was pushed can be read already. Positions of groups that were not committed may be given
    /// again.
    pub fn is_written(&self, position: Position) -> bool {
        self.segment(position.slot())
            .is_some_and(|segment| position.offset() < segment.size.load(Ordering::Acquire))
    }

    /// A position as a number that rises over the life of the log: of two records the one with the greater
    /// address was written later. `None` if its segment was removed.
    pub fn address(&self, position: Position) -> Option<u64> {
        self.segment(position.slot()).map(|segment| format::address(segment.id, position.offset()))
    }

    /// Reads the record at a position: one read of the device if it has at most `words_hint` words, else two.
    ///
    /// A position of a segment that was removed meanwhile answers [`StoreError::Missing`] or, once its slot was
    /// given out again after tens of thousands of segments, another record. Compare the key, and look the position
    /// up again before taking an error for the truth.
    ///
    /// # Errors
    /// [`StoreError::Damaged`], [`StoreError::Missing`], or the device's.
    pub fn read(&self, position: Position, words_hint: usize) -> Result<LogRecord, StoreError> {
        match self.segment(position.slot()) {
            Some(segment) => fetch::fetch(&segment, position, words_hint),
            None => Err(StoreError::Missing { slot: position.slot(), offset: position.offset() }),
        }
    }

    /// Reads many records, each given with how many words it may have, and calls `each` with the index and what
    /// [`Log::read`] would answer, in any order. Near neighbours are read together and several reads are in flight,
    /// on a few threads that are started when they are first needed.
    pub fn read_many(
        &self,
        wanted: &[(Position, usize)],
        each: &mut dyn FnMut(usize, Result<LogRecord, StoreError>),
    ) {
        let pool = || self.pool.get_or_init(fetch::FetchPool::start);
        fetch::fetch_many(wanted, |slot| self.segment(slot), pool, each);
    }

    /// Adds to the bytes that count in a record's segment: [`record_bytes`] of the [`trimmed`] words when its position
    /// is kept, the same below zero when it is let go. Costs one atomic addition.
    pub fn account(&self, position: Position, delta: i64) {
        self.live.of(position.slot()).fetch_add(delta, Ordering::Relaxed);
    }

    /// Returns the content of each segment, in the order of their ids.
    pub fn segments(&self) -> Vec<SegmentUsage> {
        let mut segments: Vec<SegmentUsage> =
            self.slots.read().iter().flatten().map(|segment| self.usage_of(segment)).collect();
        segments.sort_unstable_by_key(|segment| segment.id);
        segments
    }

    fn usage_of(&self, segment: &Segment) -> SegmentUsage {
        let live = self.live.of(segment.slot).load(Ordering::Relaxed);
        SegmentUsage {
            slot: segment.slot,
            id: segment.id,
            bytes: segment.size.load(Ordering::Acquire),
            record_bytes: segment.record_bytes.load(Ordering::Relaxed),
            live_bytes: u64::try_from(live).unwrap_or(0),
            expired_bytes: segment.expiries.lock().expired(self.floor()),
            expires_max_minutes: segment.expires_max.load(Ordering::Relaxed),
            sealed: segment.sealed.load(Ordering::Acquire),
        }
    }

    /// Returns the space that the log takes up.
    pub fn usage(&self) -> LogUsage {
        self.segments().iter().fold(LogUsage::default(), |sum, segment| LogUsage {
            segments: sum.segments + 1,
            disk_bytes: sum.disk_bytes + segment.bytes,
            record_bytes: sum.record_bytes + segment.record_bytes,
            live_bytes: sum.live_bytes + segment.live_bytes,
        })
    }

    /// Reads one segment from front to back, in bounded memory, and gives each record with its words. A segment that
    /// a group which is being written has filled may be read, and that group taken back afterwards.
    ///
    /// # Errors
    /// [`StoreError::Missing`] if there is no such segment, or the device's. Damage is in the answer.
    pub fn scan(
        &self,
        slot: u16,
        each: &mut dyn FnMut(&VisitedRecord, &[u64]),
    ) -> Result<LogLosses, StoreError> {
        struct ScanSink<'a>(Vec<u64>, &'a mut dyn FnMut(&VisitedRecord, &[u64]));
        impl RecordSink for ScanSink<'_> {
            fn record(&mut self, position: Position, header: &RecordHeader, words: &[u8]) {
                format::read_words(words, &mut self.0);
                (self.1)(&VisitedRecord::new(position, header), &self.0);
            }
        }
        let segment = self.segment(slot).ok_or(StoreError::Missing { slot, offset: 0 })?;
        let mut losses = LogLosses::default();
        let mut buffer = Vec::new();
        let size = segment.size.load(Ordering::Acquire);
        let mut reader = read_segment(&*segment.blob, size, &mut buffer);
        let header = SEGMENT_HEADER_BYTES as u64;
        let (at, mut sink) = ((segment.id, slot), ScanSink(Vec::new(), each));
        walk(&mut reader, at, header, &mut sink, &mut WalkSummary::new(), &mut losses)
            .map_err(StoreError::io(segment.name()))?;
        Ok(losses)
    }

    /// Removes a sealed segment, after making all groups and the floor durable. Its slot is given out again later.
    /// Answers false, and does nothing, if there is none or it is the active one. Waits for the writer.
    ///
    /// # Errors
    /// [`LogWriter::commit`]'s or the device's.
    pub fn remove(&self, slot: u16) -> Result<bool, StoreError> {
        let mut writer = self.begin()?;
        let Some(segment) = self.segment(slot).filter(|_| writer.active_slot() != slot) else {
            return Ok(false);
        };
        // A segment need not have a hint; one that stays is removed when the log is next opened. It goes first: on a
        // disk that is full this makes room for the floor.
        let _ = self.device.remove(&hint_name(segment.id));
        writer.commit_here()?;
        writer.announce_removal(segment.id)?;
        self.device.remove(&segment.name()).map_err(StoreError::of_device(segment.name()))?;
        self.slots.write()[usize::from(slot)] = None;
        self.live.of(slot).store(0, Ordering::Relaxed);
        self.device.sync_names().map_err(StoreError::io("syncing the directory"))?;
        writer.note_removal(segment.id);
        Ok(true)
    }

    /// Lets go of what expires at or before `floor`, in microseconds since the Unix epoch; a lower floor than before
    /// changes nothing. It becomes durable with the next group, and before a segment is removed.
    pub fn raise_floor(&self, floor: i64) {
        self.floor.fetch_max(floor, Ordering::AcqRel);
    }

    /// Brings the floor down to this if it lies above; false if it does not. It becomes durable as the segments go whose frames
    /// say otherwise.
    pub(crate) fn lower_floor(&self, floor: i64) -> bool {
        self.floor.fetch_min(floor, Ordering::AcqRel) > floor
    }

    /// Stops missing segments that are gone.
    pub(crate) fn forget_missing(&self) -> Result<(), StoreError> {
        self.state.lock().forget_missing(&*self.device)
    }

    /// The latest time up to which records were let go.
    pub fn floor(&self) -> i64 {
        self.floor.load(Ordering::Acquire)
    }

    /// Reads all segments and all hints, checks every checksum, and gives each intact record; changes nothing.
    /// `progress` is told how many bytes of all are done. What is removed meanwhile is still read. Waits for the
    /// writer at the beginning.
    ///
    /// # Errors
    /// The device's.
    pub fn verify(
        &self,
        progress: &mut dyn FnMut(u64, u64),
        each: &mut dyn FnMut(&VisitedRecord),
    ) -> Result<Verification, StoreError> {
        struct VerifySink<'a> {
            each: &'a mut dyn FnMut(&VisitedRecord),
            progress: &'a mut dyn FnMut(u64, u64),
            done: u64,
            all: u64,
        }
        impl RecordSink for VerifySink<'_> {
            fn record(&mut self, position: Position, header: &RecordHeader, _words: &[u8]) {
                (self.each)(&VisitedRecord::new(position, header));
            }

            fn frame(&mut self, header: &FrameHeader, _frame: &[u8]) {
                let end = format::offset_of(header.address) + header.bytes();
                (self.progress)(self.done + end, self.all);
            }
        }
        let mut segments: Vec<(Arc<Segment>, u64)> = {
            // Between two groups: of an unfinished one nothing is said.
            let _writer = self.state.lock();
            let sized = |segment: &Arc<Segment>| (segment.clone(), segment.size.load(Ordering::Acquire));
            self.slots.read().iter().flatten().map(sized).collect()
        };
        segments.sort_unstable_by_key(|(segment, _)| segment.id);
        let lost = self.state.lock().lost();
        let all = segments.iter().map(|(_, size)| size).sum();
        let mut check = VerifySink { each, progress, done: 0, all };
        let mut found = Verification { segments: segments.len(), ..Verification::default() };
        found.losses.missing = lost;
        let mut buffer = Vec::new();
        for (segment, size) in segments {
            let io = || StoreError::io(segment.name());
            let start = SEGMENT_HEADER_BYTES as u64;
            let mut reader = read_segment(&*segment.blob, size, &mut buffer);
            let mut tally = WalkSummary::new();
            match SegmentHeader::decode(reader.at(0, SEGMENT_HEADER_BYTES).map_err(io())?, segment.id) {
                Ok(header) => tally.sequence = Some(header.sequence),
                Err(_) => found.losses.add(segment.id, 0, start.min(size)),
            }
            let at = (segment.id, segment.slot);
            walk(&mut reader, at, start, &mut check, &mut tally, &mut found.losses).map_err(io())?;
            found.records += tally.records;
            if segment.sealed.load(Ordering::Acquire) && size > start {
                let hint = Hint::open(&*self.device, segment.id, &*segment.blob, size).ok().flatten();
                if hint.is_some_and(|hint| hint.walk(segment.id, &mut buffer, |_, _, _| {}) == size) {
                    found.hints += 1;
                } else if self.has(segment.id) {
                    found.hints_ignored.push(hint_name(segment.id));
                }
            }
            check.done += size;
            (check.progress)(check.done, all);
        }
        Ok(found)
    }

    /// Makes `target`, which must be missing or empty, a directory with all that the log has; see
    /// [`LogWriter::snapshot`].
    ///
    /// # Errors
    /// As [`LogWriter::snapshot`].
    pub fn snapshot(&self, target: &Path) -> Result<(), StoreError> {
        self.begin()?.snapshot(target)
    }

    /// Makes all groups durable and leaves hints for a fast start. Nothing can be written any more; reading goes on.
    /// A log that is dropped instead loses nothing but the hint of its active segment.
    ///
    /// # Errors
    /// As [`LogWriter::commit`].
    pub fn close(&self) -> Result<(), StoreError> {
        self.begin()?.close()
    }

    fn segment(&self, slot: u16) -> Option<Arc<Segment>> {
        self.slots.read().get(usize::from(slot))?.clone()
    }

    fn has(&self, id: u32) -> bool {
        self.slots.read().iter().flatten().any(|segment| segment.id == id)
    }

    /// Length at which the present segment is sealed.
    pub(crate) fn segment_bytes(&self) -> u64 {
        match self.segment_bytes.load(Ordering::Relaxed) {
            0 => self.measure(),
            bytes => bytes,
        }
    }

    /// Chooses the length of segments by what counts: an eighth of it, so that there are neither many files nor much in one
    /// that cannot be let go of yet.
    pub(crate) fn measure(&self) -> u64 {
        let kept: u64 = self.segments().iter().map(SegmentUsage::kept_bytes).sum();
        let most = u64::from(self.options.segment_bytes).min(SEGMENT_BYTES_MAX);
        let bytes = (kept / 8).max(SEGMENT_BYTES_SHORT).min(most);
        self.segment_bytes.store(bytes, Ordering::Relaxed);
        bytes
    }

    /// The next free slot after the one given out last: so a stale position meets another segment late.
    fn free_slot(&self, last: u16) -> Result<u16, StoreError> {
        let slots = self.slots.read();
        (1..=SLOTS)
            .map(|step| (usize::from(last) + step) % SLOTS)
            .find(|slot| slots.get(*slot).is_none_or(Option::is_none))
            .and_then(|slot| u16::try_from(slot).ok())
            .ok_or(StoreError::TooLarge("there are more segments than a position can tell apart"))
    }

    fn install(&self, segment: &Arc<Segment>) {
        self.live.of(segment.slot).store(0, Ordering::Relaxed);
        let slot = usize::from(segment.slot);
        let mut slots = self.slots.write();
        if slots.len() <= slot {
            slots.resize(slot + 1, None);
        }
        slots[slot] = Some(segment.clone());
    }
}
