//! The store itself: the key directory, the one writer, recovery and merging.
//!
//! Locks are taken in the order writer, segments, shard. Only the writer's is held over I/O: it *is* the order of
//! appends. Reads take neither it nor, while they read, any other.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError,
};

use crate::device::{Blob, Device};
use crate::format::{
    self, FRAME_BYTES, FRAME_HEADER_BYTES, FrameHeader, HeaderError, KEY_BYTES, Located, RECORD_HEADER_BYTES,
    SEGMENT_HEADER_BYTES, SegmentHeader, VALUE_BYTES_MAX,
};

/// How a store is kept.
#[derive(Clone, Debug)]
pub struct Options {
    /// A segment that has reached this length is sealed, synced and followed by a new one. At most
    /// [`Options::SEGMENT_BYTES_MAX`]; every segment costs an open file.
    pub segment_bytes: u32,
}

impl Options {
    /// Longest [`Options::segment_bytes`].
    pub const SEGMENT_BYTES_MAX: u32 = 1 << 30;
}

impl Default for Options {
    fn default() -> Options {
        Options { segment_bytes: 128 << 20 }
    }
}

/// One image to be kept.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// What it is found by.
    pub key: [u8; KEY_BYTES],
    /// When it may be forgotten, in microseconds since the Unix epoch: it is gone once [`Store::merge_step`] or
    /// [`Store::raise_floor`] was told of that time. Never earlier than the image before it was allowed to go.
    pub expires: i64,
    /// At most [`VALUE_BYTES_MAX`] bytes.
    pub value: &'a [u8],
}

/// Where an image lies. Two different images of a key never have the same position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    segment: u32,
    offset: u32,
}

/// An image that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// As it was appended.
    pub value: Vec<u8>,
    /// Where it was found, to be compared with [`Store::position`] later.
    pub position: Position,
}

/// A stretch of a segment that belongs to no intact group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The file's name.
    pub segment: String,
    /// First byte.
    pub from: u64,
    /// Byte behind the last.
    pub to: u64,
}

/// What [`Store::open`] found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Segments in use, the active one included.
    pub segments: usize,
    /// Records read.
    pub records: u64,
    /// Keys that have an image.
    pub keys: u64,
    /// Bytes of a torn tail that were cut off.
    pub truncated_bytes: u64,
    /// Stretches that were skipped; everything else is served.
    pub damage: Vec<Damage>,
}

/// What [`Store::verify`] found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verification {
    /// Segments read.
    pub segments: usize,
    /// Intact records, superseded ones included.
    pub records: u64,
    /// Stretches that belong to no intact group.
    pub damage: Vec<Damage>,
}

/// What one [`Store::merge_step`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Merged {
    /// Keys that left the directory because they had expired.
    pub expired: u64,
    /// Segments removed.
    pub segments: u64,
    /// Bytes of live images that were appended again.
    pub rewritten_bytes: u64,
}

/// What a store takes up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Keys in the directory.
    pub keys: u64,
    /// Segment files.
    pub segments: u64,
    /// Their length.
    pub disk_bytes: u64,
    /// The part of it that the directory points at.
    pub live_bytes: u64,
    /// Memory of the directory, about.
    pub directory_bytes: u64,
}

/// Why the store cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The device failed; the message names the file.
    #[error("{what}: {error}")]
    Io {
        /// What was being done, with the file's name.
        what: String,
        /// The device's answer.
        error: io::Error,
    },
    /// A segment was written by a later release.
    #[error(
        "{segment} has format {found}, this release reads up to format {supported}: use the later release"
    )]
    Newer {
        /// The file's name.
        segment: String,
        /// Its format.
        found: u16,
        /// The latest format that can be read here.
        supported: u16,
    },
    /// An image cannot be read back as it was written. Other keys are served on.
    #[error("the image at {segment}:{offset} is damaged")]
    Damaged {
        /// The file's name.
        segment: String,
        /// Where in it.
        offset: u32,
    },
    /// An earlier write or sync failed, so it is unknown what is on the disk: nothing is written until reopened.
    #[error("writing was stopped after a failure: {0}")]
    Failed(Arc<str>),
    /// More than the format can hold; nothing was written.
    #[error("{0}")]
    TooLarge(&'static str),
}

const SHARDS: usize = 16;

/// Directory entries are packed to four-byte alignment: with millions of keys every byte is megabytes.
#[derive(Clone, Copy)]
struct Entry {
    segment: u32,
    offset: u32,
    length: u32,
    expires: [u32; 2],
}

impl Entry {
    fn new(segment: u32, record: &Located) -> Entry {
        let bits = record.expires.cast_unsigned();
        let expires = [bits as u32, (bits >> 32) as u32];
        Entry { segment, offset: record.offset, length: record.length, expires }
    }

    fn expires(&self) -> i64 {
        (u64::from(self.expires[0]) | u64::from(self.expires[1]) << 32).cast_signed()
    }

    fn position(&self) -> Position {
        Position { segment: self.segment, offset: self.offset }
    }
}

/// Keys end in a keyed hash already, so folding is enough.
#[derive(Default)]
struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.0 = (self.0 ^ u64::from_le_bytes(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        }
    }

    fn write_usize(&mut self, _: usize) {}

    fn finish(&self) -> u64 {
        self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (self.0 >> 32)
    }
}

type Shard = HashMap<[u8; KEY_BYTES], Entry, BuildHasherDefault<KeyHasher>>;

struct Segment {
    id: u32,
    blob: Box<dyn Blob>,
    size: AtomicU64,
    /// Bytes of its records, dead or live.
    records: AtomicU64,
    /// Bytes of the records that the directory points at.
    live: AtomicU64,
    /// Live images could not be read while merging: the file is kept as it is.
    stuck: AtomicBool,
}

impl Segment {
    fn name(&self) -> String {
        segment_name(self.id)
    }
}

fn segment_name(id: u32) -> String {
    format!("{id:08x}.seg")
}

fn segment_id(name: &str) -> Option<u32> {
    let digits = name.strip_suffix(".seg")?;
    let id = u32::from_str_radix(digits, 16).ok()?;
    (segment_name(id) == name).then_some(id)
}

struct Writer {
    active: Arc<Segment>,
    /// Number of the next record.
    sequence: u64,
    /// The floor that the newest frame or header carries.
    floor: i64,
    unsynced: bool,
    failed: Option<Arc<str>>,
}

/// The store. All methods may be called from any thread.
pub struct Store {
    device: Arc<dyn Device>,
    options: Options,
    writer: Mutex<Writer>,
    segments: RwLock<BTreeMap<u32, Arc<Segment>>>,
    shards: [RwLock<Shard>; SHARDS],
    /// Held while a merge runs; who finds it held leaves the merging to its holder.
    merging: Mutex<()>,
    /// Images that expire at or before this are gone for good, whatever the caller's clock says later. It is
    /// written with every frame, and before any file is removed: that keeps an older image of a forgotten key,
    /// which may still lie in an earlier segment, from coming back.
    floor: AtomicI64,
}

impl Store {
    /// Opens the store, reading every segment once, and cuts off what a crash tore.
    ///
    /// # Errors
    /// [`StoreError::Newer`], or the device's. Damage is no error: it is in the [`Recovery`].
    pub fn open(device: Arc<dyn Device>, options: Options) -> Result<(Store, Recovery), StoreError> {
        let options = Options { segment_bytes: options.segment_bytes.min(Options::SEGMENT_BYTES_MAX) };
        let mut ids: Vec<u32> = device
            .list()
            .map_err(io_error("listing segments"))?
            .iter()
            .filter_map(|name| segment_id(name))
            .collect();
        ids.sort_unstable();

        let mut recovery = Recovery::default();
        let mut segments = BTreeMap::new();
        let mut shards: [RwLock<Shard>; SHARDS] = Default::default();
        let (mut sequence, mut floor) = (0, i64::MIN);
        let newest = ids.last().copied();
        for id in ids {
            let name = segment_name(id);
            let blob = device.open(&name).map_err(io_error(&name))?;
            let size = blob.size().map_err(io_error(&name))?.min(u64::from(u32::MAX));
            let mut header = [0; SEGMENT_HEADER_BYTES];
            blob.read_at(0, &mut header).map_err(io_error(&name))?;
            let header = match SegmentHeader::decode(&header) {
                Err(HeaderError::Newer(found)) => {
                    return Err(StoreError::Newer { segment: name, found, supported: format::FORMAT });
                }
                Err(HeaderError::Damaged) => None,
                Ok(header) => Some(header).filter(|header| header.id == u64::from(id)),
            };
            floor = header.as_ref().map_or(floor, |header| floor.max(header.floor));
            let segment = Arc::new(Segment {
                id,
                blob,
                size: AtomicU64::new(size),
                records: AtomicU64::new(0),
                live: AtomicU64::new(0),
                stuck: AtomicBool::new(false),
            });
            segments.insert(id, segment.clone());
            let mut groups = 0u64;
            let walked = format::walk(&*segment.blob, size, |group| {
                groups += 1;
                recovery.records += group.records.len() as u64;
                sequence = sequence.max(group.sequence_end);
                floor = floor.max(group.floor);
                for record in &group.records {
                    let shard =
                        shards[shard_of(&record.key)].get_mut().unwrap_or_else(PoisonError::into_inner);
                    point_at(shard, &segments, &segment, record);
                }
            })
            .map_err(io_error(&name))?;
            let damage = |range: std::ops::Range<u64>| Damage {
                segment: name.clone(),
                from: range.start,
                to: range.end,
            };
            recovery.damage.extend(walked.damage.into_iter().map(damage));
            if header.is_none() && groups > 0 {
                recovery.damage.push(damage(0..SEGMENT_HEADER_BYTES as u64));
            }
            if walked.end < size || header.is_none() {
                if Some(id) != newest {
                    recovery.damage.extend((walked.end < size).then(|| damage(walked.end..size)));
                } else if header.is_none() && groups == 0 {
                    // Torn while it was being created: nothing was ever in it.
                    recovery.truncated_bytes += size;
                    segments.remove(&id);
                    device.remove(&name).map_err(io_error(&name))?;
                    device.sync_names().map_err(io_error("syncing the directory"))?;
                } else {
                    recovery.truncated_bytes += size - walked.end;
                    segment.blob.truncate(walked.end).map_err(io_error(&name))?;
                    segment.size.store(walked.end, Ordering::Relaxed);
                }
            }
        }
        for shard in &mut shards {
            let shard = shard.get_mut().unwrap_or_else(PoisonError::into_inner);
            forget_expired(shard, &segments, floor);
            recovery.keys += shard.len() as u64;
        }

        // What was read may only have been in the system's cache, left by a killed process.
        let active = match segments.last_key_value() {
            Some((_, segment)) => {
                segment.blob.sync().map_err(io_error(&segment.name()))?;
                segment.clone()
            }
            None => {
                let first = create_segment(&*device, newest.map_or(0, |id| id.wrapping_add(1)), floor)?;
                segments.insert(first.id, first.clone());
                first
            }
        };
        recovery.segments = segments.len();
        if !recovery.damage.is_empty() || recovery.truncated_bytes > 0 {
            tracing::warn!(
                truncated_bytes = recovery.truncated_bytes,
                damaged = recovery.damage.len(),
                "segments were recovered"
            );
        }
        let writer = Writer { active, sequence, floor, unsynced: false, failed: None };
        let store = Store {
            device,
            options,
            writer: Mutex::new(writer),
            merging: Mutex::new(()),
            segments: RwLock::new(segments),
            shards,
            floor: AtomicI64::new(floor),
        };
        Ok((store, recovery))
    }

    /// The newest image of a key. One read of the device, none if there is no image.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] if it cannot be read back as written, or the device's.
    pub fn get(&self, key: &[u8; KEY_BYTES]) -> Result<Option<Image>, StoreError> {
        loop {
            let Some(entry) = self.entry(key) else { return Ok(None) };
            // Between the two look-ups a merge may have moved the image and removed the file: look again.
            let Some(segment) = read(&self.segments).get(&entry.segment).cloned() else { continue };
            let mut bytes = vec![0; entry.length as usize];
            let count = segment
                .blob
                .read_at(u64::from(entry.offset), &mut bytes)
                .map_err(io_error(&segment.name()))?;
            bytes.truncate(count);
            return match format::read_record(&bytes) {
                Some(record) if record.key == *key => {
                    bytes.drain(..RECORD_HEADER_BYTES);
                    Ok(Some(Image { value: bytes, position: entry.position() }))
                }
                _ => Err(StoreError::Damaged { segment: segment.name(), offset: entry.offset }),
            };
        }
    }

    /// Where the newest image of a key lies; `None` if there is none. Reads no device.
    pub fn position(&self, key: &[u8; KEY_BYTES]) -> Option<Position> {
        self.entry(key).map(|entry| entry.position())
    }

    /// The keys that start with these bytes and whose newest images expire at or after `expires`, in any order.
    /// Looks at every key.
    pub fn keys(&self, prefix: &[u8], expires: i64) -> Vec<[u8; KEY_BYTES]> {
        let mut keys = Vec::new();
        for shard in &self.shards {
            let shard = read(shard);
            let wanted =
                shard.iter().filter(|(key, entry)| key.starts_with(prefix) && entry.expires() >= expires);
            keys.extend(wanted.map(|(key, _)| *key));
        }
        keys
    }

    /// Appends the records as one group: after a crash either all of them are found or none. With `sync` they are
    /// durable when this answers, and so is everything appended before. With no records it writes a risen floor, if
    /// there is one. Of two records of one key the later counts.
    ///
    /// # Errors
    /// [`StoreError::TooLarge`] writes nothing. After the device's error the store is [`StoreError::Failed`].
    pub fn append(&self, records: &[Record<'_>], sync: bool) -> Result<(), StoreError> {
        let mut writer = lock(&self.writer);
        self.append_held(&mut writer, records, sync)
    }

    /// Says that images that expire at or before `now` are gone. Durable with the next `append`.
    pub fn raise_floor(&self, now: i64) {
        self.floor.fetch_max(now, Ordering::AcqRel);
    }

    /// The latest time up to which images were let go; `i64::MIN` at first.
    pub fn floor(&self) -> i64 {
        self.floor.load(Ordering::Acquire)
    }

    /// Lets go of what has expired at `now` and merges segments that are more than half dead, emptiest first, until
    /// `budget_bytes` live bytes were rewritten; a segment that has been begun is finished. A segment in which
    /// nothing lives is removed unread. Looks at every key once. Does nothing while another call is at it.
    ///
    /// # Errors
    /// The device's; what was done so far stays done.
    pub fn merge_step(&self, now: i64, budget_bytes: u64) -> Result<Merged, StoreError> {
        self.raise_floor(now);
        let _only = match self.merging.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(guard)) => guard.into_inner(),
            Err(TryLockError::WouldBlock) => return Ok(Merged::default()),
        };
        let mut merged = Merged { expired: self.sweep(), ..Merged::default() };
        while merged.rewritten_bytes <= budget_bytes {
            let active = {
                let writer = lock(&self.writer);
                writer.check()?;
                writer.active.id
            };
            let Some(segment) = self.emptiest(active) else { break };
            if segment.live.load(Ordering::Acquire) > 0 {
                merged.rewritten_bytes += self.rewrite(&segment)?;
            }
            {
                let mut writer = lock(&self.writer);
                self.append_held(&mut writer, &[], true)?;
            }
            if segment.live.load(Ordering::Acquire) > 0 {
                // Left behind is what expired meanwhile, or what could not be read.
                merged.expired += self.sweep();
            }
            if segment.live.load(Ordering::Acquire) > 0 {
                tracing::warn!(
                    segment = segment.name(),
                    "live images could not be read: the segment is kept"
                );
                segment.stuck.store(true, Ordering::Release);
                continue;
            }
            write(&self.segments).remove(&segment.id);
            self.device.remove(&segment.name()).map_err(io_error(&segment.name()))?;
            merged.segments += 1;
        }
        if merged.segments > 0 {
            self.device.sync_names().map_err(io_error("syncing the directory"))?;
        }
        Ok(merged)
    }

    /// Reads every segment and says what is damaged; changes nothing.
    ///
    /// # Errors
    /// The device's.
    pub fn verify(&self) -> Result<Verification, StoreError> {
        let segments: Vec<Arc<Segment>> = read(&self.segments).values().cloned().collect();
        let mut found = Verification { segments: segments.len(), ..Verification::default() };
        for segment in segments {
            let name = segment.name();
            let size = segment.size.load(Ordering::Acquire);
            let walked =
                format::walk(&*segment.blob, size, |group| found.records += group.records.len() as u64)
                    .map_err(io_error(&name))?;
            let tail = (walked.end < size).then_some(walked.end..size);
            for range in walked.damage.into_iter().chain(tail) {
                found.damage.push(Damage { segment: name.clone(), from: range.start, to: range.end });
            }
        }
        Ok(found)
    }

    /// What the store takes up.
    pub fn usage(&self) -> Usage {
        let mut usage = Usage::default();
        for shard in &self.shards {
            let shard = read(shard);
            usage.keys += shard.len() as u64;
            usage.directory_bytes += (shard.capacity() * (size_of::<([u8; KEY_BYTES], Entry)>() + 1)) as u64;
        }
        for segment in read(&self.segments).values() {
            usage.segments += 1;
            usage.disk_bytes += segment.size.load(Ordering::Relaxed);
            usage.live_bytes += segment.live.load(Ordering::Relaxed);
        }
        usage
    }

    fn entry(&self, key: &[u8; KEY_BYTES]) -> Option<Entry> {
        let entry = *read(&self.shards[shard_of(key)]).get(key)?;
        (entry.expires() > self.floor()).then_some(entry)
    }

    fn append_held(&self, writer: &mut Writer, records: &[Record<'_>], sync: bool) -> Result<(), StoreError> {
        writer.check()?;
        let mut group_bytes = 0u64;
        for record in records {
            if record.value.len() > VALUE_BYTES_MAX {
                return Err(StoreError::TooLarge("an image is longer than the format can hold"));
            }
            group_bytes += (RECORD_HEADER_BYTES + record.value.len()) as u64;
        }
        group_bytes += (group_bytes / FRAME_BYTES as u64 + 1) * FRAME_HEADER_BYTES as u64;
        if group_bytes > u64::from(Options::SEGMENT_BYTES_MAX) {
            return Err(StoreError::TooLarge("one append is larger than a segment may be"));
        }
        let written = self.write_group(writer, records, group_bytes, sync);
        if let Err(error) = &written {
            writer.failed = Some(error.to_string().into());
        }
        let located = written?;
        let segments = read(&self.segments);
        for record in &located {
            point_at(&mut write(&self.shards[shard_of(&record.key)]), &segments, &writer.active, record);
        }
        Ok(())
    }

    /// Writes one group and answers where its records lie. After an error it is unknown what was written.
    fn write_group(
        &self,
        writer: &mut Writer,
        records: &[Record<'_>],
        group_bytes: u64,
        sync: bool,
    ) -> Result<Vec<Located>, StoreError> {
        let floor = self.floor();
        let mut located = Vec::with_capacity(records.len());
        if !records.is_empty() || floor > writer.floor {
            let size = writer.active.size.load(Ordering::Acquire);
            if size > SEGMENT_HEADER_BYTES as u64
                && size + group_bytes > u64::from(self.options.segment_bytes)
            {
                self.rotate(writer, floor)?;
            }
            let frames = cut_into_frames(records);
            let count = frames.len();
            let mut bytes = Vec::new();
            for (index, frame) in frames.into_iter().enumerate() {
                bytes.clear();
                bytes.resize(FRAME_HEADER_BYTES, 0);
                let start = writer.active.size.load(Ordering::Acquire);
                for record in frame {
                    // An image never expires before its predecessor does, and not before it was written: then a
                    // key that has been forgotten has no image left anywhere that would count again.
                    let before = self.entry(&record.key).map_or(i64::MIN, |entry| entry.expires());
                    let expires = record.expires.max(before).max(floor.saturating_add(1));
                    let offset = (start + bytes.len() as u64) as u32;
                    let length = (RECORD_HEADER_BYTES + record.value.len()) as u32;
                    format::push_record(&mut bytes, &record.key, expires, record.value);
                    located.push(Located { key: record.key, expires, offset, length });
                }
                let header = FrameHeader {
                    index: index as u32,
                    remaining: (count - 1 - index) as u32,
                    count: frame.len() as u32,
                    sequence: writer.sequence,
                    floor,
                };
                format::seal_frame(&header, &mut bytes);
                writer.unsynced = true;
                writer.active.blob.append(&bytes).map_err(io_error(&writer.active.name()))?;
                writer.active.size.store(start + bytes.len() as u64, Ordering::Release);
                writer.sequence += frame.len() as u64;
            }
            writer.floor = floor;
        }
        if sync && writer.unsynced {
            writer.active.blob.sync().map_err(io_error(&writer.active.name()))?;
            writer.unsynced = false;
        }
        Ok(located)
    }

    /// Seals the active segment and starts the next.
    fn rotate(&self, writer: &mut Writer, floor: i64) -> Result<(), StoreError> {
        writer.active.blob.sync().map_err(io_error(&writer.active.name()))?;
        let id =
            writer.active.id.checked_add(1).ok_or(StoreError::TooLarge("segment numbers are used up"))?;
        let next = create_segment(&*self.device, id, floor)?;
        write(&self.segments).insert(id, next.clone());
        writer.active = next;
        writer.floor = floor;
        writer.unsynced = false;
        Ok(())
    }

    /// Takes expired keys out of the directory; answers how many.
    fn sweep(&self) -> u64 {
        let segments = read(&self.segments);
        self.shards.iter().map(|shard| forget_expired(&mut write(shard), &segments, self.floor())).sum()
    }

    /// The sealed segment with the smallest live share, if that is below a half.
    fn emptiest(&self, active: u32) -> Option<Arc<Segment>> {
        // Of the records, not of the file: headers can be most of it, and merging would then never end.
        let share = |segment: &Segment| {
            let records = segment.records.load(Ordering::Relaxed).max(1);
            segment.live.load(Ordering::Relaxed) as f64 / records as f64
        };
        read(&self.segments)
            .values()
            .filter(|segment| segment.id != active && !segment.stuck.load(Ordering::Acquire))
            .filter(|segment| share(segment) < 0.5)
            .min_by(|a, b| share(a).total_cmp(&share(b)))
            .cloned()
    }

    /// Appends what lives in a sealed segment again. What cannot be read stays where it is.
    fn rewrite(&self, segment: &Arc<Segment>) -> Result<u64, StoreError> {
        const BATCH_BYTES: usize = 1 << 20;
        let name = segment.name();
        let mut located = Vec::new();
        let size = segment.size.load(Ordering::Acquire);
        format::walk(&*segment.blob, size, |group| {
            located.extend(group.records.into_iter().filter(|record| self.points_at(segment, record)));
        })
        .map_err(io_error(&name))?;
        let mut rewritten = 0;
        let mut rest = located.as_slice();
        while !rest.is_empty() {
            let mut images: Vec<(Located, Vec<u8>)> = Vec::new();
            let mut batch_bytes = 0;
            while let Some((record, tail)) = rest.split_first() {
                let mut bytes = vec![0; record.length as usize];
                let count =
                    segment.blob.read_at(u64::from(record.offset), &mut bytes).map_err(io_error(&name))?;
                bytes.truncate(count);
                if format::read_record(&bytes).is_some_and(|read| read.key == record.key) {
                    batch_bytes += bytes.len();
                    images.push((*record, bytes));
                }
                rest = tail;
                if batch_bytes >= BATCH_BYTES {
                    break;
                }
            }
            let mut writer = lock(&self.writer);
            // Only while the writer is held is it certain that an image is not superseded in between.
            let records: Vec<Record<'_>> = images
                .iter()
                .filter(|(record, _)| self.points_at(segment, record))
                .map(|(record, bytes)| Record {
                    key: record.key,
                    expires: record.expires,
                    value: bytes.get(RECORD_HEADER_BYTES..).unwrap_or_default(),
                })
                .collect();
            rewritten += records.iter().map(|record| record.value.len() as u64).sum::<u64>();
            self.append_held(&mut writer, &records, false)?;
        }
        Ok(rewritten)
    }

    fn points_at(&self, segment: &Segment, record: &Located) -> bool {
        self.entry(&record.key)
            .is_some_and(|entry| entry.position() == Position { segment: segment.id, offset: record.offset })
    }
}

impl Writer {
    fn check(&self) -> Result<(), StoreError> {
        match &self.failed {
            Some(why) => Err(StoreError::Failed(why.clone())),
            None => Ok(()),
        }
    }
}

/// Cuts the records into frames of about [`FRAME_BYTES`]; at least one, be it empty.
fn cut_into_frames<'r, 'v>(records: &'r [Record<'v>]) -> Vec<&'r [Record<'v>]> {
    let mut frames = Vec::new();
    let (mut start, mut bytes) = (0, 0);
    for (index, record) in records.iter().enumerate() {
        bytes += RECORD_HEADER_BYTES + record.value.len();
        if bytes >= FRAME_BYTES {
            frames.push(&records[start..=index]);
            (start, bytes) = (index + 1, 0);
        }
    }
    if start < records.len() || frames.is_empty() {
        frames.push(&records[start..]);
    }
    frames
}

fn create_segment(device: &dyn Device, id: u32, floor: i64) -> Result<Arc<Segment>, StoreError> {
    let name = segment_name(id);
    let blob = device.create(&name).map_err(io_error(&name))?;
    blob.append(&SegmentHeader { id: u64::from(id), floor }.encode()).map_err(io_error(&name))?;
    blob.sync().map_err(io_error(&name))?;
    device.sync_names().map_err(io_error("syncing the directory"))?;
    Ok(Arc::new(Segment {
        id,
        blob,
        size: AtomicU64::new(SEGMENT_HEADER_BYTES as u64),
        records: AtomicU64::new(0),
        live: AtomicU64::new(0),
        stuck: AtomicBool::new(false),
    }))
}

/// Makes the directory point at a record, which the one before it thereby stops being live.
fn point_at(shard: &mut Shard, segments: &BTreeMap<u32, Arc<Segment>>, segment: &Segment, record: &Located) {
    segment.records.fetch_add(u64::from(record.length), Ordering::AcqRel);
    segment.live.fetch_add(u64::from(record.length), Ordering::AcqRel);
    if let Some(before) = shard.insert(record.key, Entry::new(segment.id, record)) {
        release(segments, &before);
    }
}

fn forget_expired(shard: &mut Shard, segments: &BTreeMap<u32, Arc<Segment>>, floor: i64) -> u64 {
    let before = shard.len();
    shard.retain(|_, entry| {
        let alive = entry.expires() > floor;
        if !alive {
            release(segments, entry);
        }
        alive
    });
    if shard.capacity() > 4 * shard.len() + 1024 {
        shard.shrink_to(2 * shard.len());
    }
    (before - shard.len()) as u64
}

fn release(segments: &BTreeMap<u32, Arc<Segment>>, entry: &Entry) {
    if let Some(segment) = segments.get(&entry.segment) {
        segment.live.fetch_sub(u64::from(entry.length), Ordering::AcqRel);
    }
}

/// By a byte in the middle: callers' keys start with what few values share.
fn shard_of(key: &[u8; KEY_BYTES]) -> usize {
    usize::from(key[5]) % SHARDS
}

fn io_error(what: &str) -> impl FnOnce(io::Error) -> StoreError {
    let what = what.to_owned();
    move |error| StoreError::Io { what, error }
}

// A panic elsewhere leaves these structures whole: every change under a lock is complete or harmless.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}
