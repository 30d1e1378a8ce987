//! Merging: live images leave segments that are mostly dead, and the segments go.
//!
//! ```text
//! some victims ─► all entries of the index, table by table ─┬─► cell with an image there: to be written by a flush
//!                                                           └─► no cell: the victim has cold images
//! victim with cold images ─► its images, in the order of their shards ─► index lines ─┬─► cold: copied
//!                                                                                     └─► superseded or expired: nothing
//! some victims ─► one flush ─► their files are removed
//! ```
//!
//! Victims are mostly dead, and to ask for each image whether it is costs a line of memory. So the living are asked
//! where their image is: they are fewer, and lie one behind the other. A victim all of whose keys are in memory is never
//! read.

use std::collections::HashSet;

use crate::key_hash::{KeyHash, SHARDS, TABLES};
use crate::log::{
    Log, LogRecord, Position, RecordKey, SegmentUsage, StoreError, VisitedRecord, micros, minutes_up,
};
use crate::shard::{KeyLookup, class_bytes, value_class};
use crate::store::{CellSemantics, Store};

/// Live bytes that are copied between two commits.
const COPY_BYTES: usize = 1 << 20;
/// Images whose keys are looked up together.
const TOGETHER: usize = 512;
/// Victims that one flush lets go, at least.
const VICTIMS: usize = 4;
/// Bytes of victims for each key that one round over all keys is worth, so that it costs less than writing them did.
const PASS_BYTES_PER_KEY: u64 = 32;
/// To ask all keys is cheaper than to read the victims where there is no more than one for so many bytes of them: a key
/// takes some 15 ns, and an image, of some 30 bytes, twenty times as long.
const BYTES_PER_KEY: u64 = 2;

/// The effects of one [`Store::merge`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MergeReport {
    /// Segments removed.
    pub segments: u64,
    /// Keys that were let go because they had expired.
    pub expired: u64,
    /// Bytes of live images that were written again.
    pub rewritten_bytes: u64,
}

impl Store {
    /// Removes segments that have expired, unread. Once the files hold more than three times what is live and has not
    /// expired, and two segments, merges those with the most other bytes, until they hold at most twice that and two segments,
    /// or `budget` bytes of live images were written again: what is merged later is dead to a greater part. To be called
    /// after flushes with what they wrote, and now and then. `now` is the time up to which images are let go.
    ///
    /// # Errors
    /// As [`Store::flush`].
    pub fn merge<M: CellSemantics>(
        &self,
        now: i64,
        budget: u64,
        meaning: impl Fn() -> M,
    ) -> Result<MergeReport, StoreError> {
        let mut merged = MergeReport::default();
        let Some(log) = self.log() else { return Ok(merged) };
        let mut stuck = self.merging();
        log.raise_floor(now);
        let floor = log.floor();
        let mut expired = log.segments();
        expired.retain(|segment| {
            segment.sealed && segment.record_bytes > 0 && micros(segment.expires_max_minutes) <= floor
        });
        let expired: Vec<u16> = expired.iter().map(|segment| segment.slot).collect();
        if !expired.is_empty() {
            let meaning = meaning();
            (0..SHARDS).for_each(|number| self.sweep_shard(number, floor, &expired, &meaning));
        }
        for slot in expired {
            log.remove(slot)?;
            merged.segments += 1;
        }
        log.measure();
        let mut left = budget;
        // What the merge itself fills is for the next one: it ends, however much of a file is headers.
        let newest = log.segments().last().map_or(0, |segment| segment.id);
        let (keys, mut begun) = (self.usage().keys, false);
        loop {
            let mut victims: Vec<SegmentUsage> = Vec::new();
            let is_round = |victims: &[SegmentUsage]| {
                let bytes: u64 = victims.iter().map(|victim| victim.bytes).sum();
                victims.len() >= VICTIMS && bytes >= keys.saturating_mul(PASS_BYTES_PER_KEY)
            };
            while !is_round(&victims)
                && let Some(victim) = self.victim(log, newest, &stuck, &victims, begun)
            {
                begun = true;
                if victim.kept_bytes() > left && left < budget {
                    left = 0;
                    break;
                }
                left = left.saturating_sub(victim.kept_bytes());
                victims.push(victim);
            }
            if victims.is_empty() {
                break;
            }
            let cold = self.renew_hot(&victims);
            let mut copied = Vec::new();
            for victim in victims {
                let mut copy = SegmentCopier::new(self, log, floor, &mut merged);
                if !cold.contains(&victim.slot) || copy.all(victim.slot)? {
                    copied.push(victim);
                } else {
                    stuck.insert(victim.id);
                }
            }
            if copied.is_empty() {
                continue;
            }
            // What is dirty has its newest image there until it was written somewhere else.
            self.flush(true, &meaning)?;
            for victim in copied {
                log.remove(victim.slot)?;
                merged.segments += 1;
            }
        }
        self.add_rewritten(merged.rewritten_bytes);
        Ok(merged)
    }

    /// Has the next flush write all cells whose image is in one of the segments; answers the segments that also have, or may
    /// have, images of keys without a cell.
    fn renew_hot(&self, victims: &[SegmentUsage]) -> HashSet<u16> {
        let bytes: u64 = victims.iter().map(|victim| victim.bytes).sum();
        if self.usage().keys > bytes / BYTES_PER_KEY {
            return victims.iter().map(|victim| victim.slot).collect();
        }
        let mut cold = HashSet::new();
        self.renew_each(victims, &mut |at| _ = cold.insert(at.slot()));
        cold
    }

    /// Has the next flush write all cells whose image is in one of the segments; `cold` gets the images there of keys without a
    /// cell.
    pub(crate) fn renew_each(&self, victims: &[SegmentUsage], cold: &mut dyn FnMut(Position)) {
        let meant = |position: Position| victims.iter().any(|victim| victim.slot == position.slot());
        for number in 0..SHARDS {
            for table in 0..TABLES {
                // Dirty cells stay in memory and cold ones do not come back by themselves: what is asked here stays so,
                // or was told of.
                let run = self.run();
                let mut keys = run.shard(number);
                let epoch = keys.epoch();
                keys.shard_mut().renew_all(table, &meant, &mut |at| cold(at), epoch);
            }
        }
    }

    /// The sealed segment with the largest share of bytes that are dead or have expired, if the files are too long by now: for a merge that has
    /// `begun`, or for one to begin. Those that are `copied` are as good as gone.
    fn victim(
        &self,
        log: &Log,
        newest: u32,
        stuck: &HashSet<u32>,
        copied: &[SegmentUsage],
        begun: bool,
    ) -> Option<SegmentUsage> {
        let mut segments = log.segments();
        let is_gone = |segment: &SegmentUsage| copied.iter().any(|gone| gone.id == segment.id);
        // What has to be kept is no reason to write others again.
        segments.retain(|segment| !stuck.contains(&segment.id) && !is_gone(segment));
        let sum = |of: fn(&SegmentUsage) -> u64| segments.iter().map(of).sum::<u64>();
        let (all, kept) = (sum(|segment| segment.bytes), sum(SegmentUsage::kept_bytes));
        let sealed = segments.iter().filter(|segment| segment.sealed && segment.id <= newest);
        let share = |segment: &SegmentUsage| {
            // Of the whole file: of small groups much is headers.
            let dead = segment.bytes.saturating_sub(segment.kept_bytes());
            (dead << 20) / segment.bytes.max(1)
        };
        let victim = *sealed.max_by_key(|segment| share(segment))?;
        let times = if begun { 2 } else { 3 };
        let allowed = times * kept.min(all) + 2 * log.segment_bytes();
        // Once all keys are asked for one victim, others that are all but dead cost next to nothing.
        let is_due =
            all > allowed || victim.kept_bytes() == 0 || !copied.is_empty() && share(&victim) > 7 << 17;
        // A merge that frees next to nothing would go on for ever.
        (share(&victim) > 1 << 17 && is_due).then_some(victim)
    }
}

/// An image of the segment that is copied.
struct MergeImage {
    shard: usize,
    hash: KeyHash,
    at: Position,
    key: RecordKey,
    tag: u16,
    expires_minutes: u32,
    words: std::ops::Range<usize>,
}

/// Copies what is live out of a segment.
pub(crate) struct SegmentCopier<'a> {
    store: &'a Store,
    log: &'a Log,
    /// Images that expire earlier are not copied.
    floor_minutes: u32,
    merged: &'a mut MergeReport,
    /// Images that were read, and their words.
    seen: Vec<MergeImage>,
    seen_words: Vec<u64>,
    /// Images that are to be written, and their words.
    live: Vec<MergeImage>,
    live_words: Vec<u64>,
}

impl<'a> SegmentCopier<'a> {
    pub(crate) fn new(
        store: &'a Store,
        log: &'a Log,
        floor: i64,
        merged: &'a mut MergeReport,
    ) -> SegmentCopier<'a> {
        SegmentCopier {
            store,
            log,
            floor_minutes: minutes_up(floor.saturating_add(1)),
            merged,
            seen: Vec::new(),
            seen_words: Vec::new(),
            live: Vec::new(),
            live_words: Vec::new(),
        }
    }

    /// Copies a whole segment; false if some of it cannot be read.
    pub(crate) fn all(&mut self, slot: u16) -> Result<bool, StoreError> {
        let mut failed = None;
        let log = self.log;
        let losses = log.scan(slot, &mut |seen, words| {
            if failed.is_none() {
                failed = self.see(seen, words).err();
            }
        })?;
        if let Some(error) = failed {
            return Err(error);
        }
        self.sift()?;
        self.write()?;
        Ok(losses.is_empty())
    }

    /// Copies an image that was read by itself, if it is still the newest of its key. The rest is written with
    /// [`SegmentCopier::write`].
    pub(crate) fn one(&mut self, at: Position, record: &LogRecord) -> Result<(), StoreError> {
        let RecordKey { space, kind, shingle } = record.key;
        let (shard, hash) = KeyHash::of(space, kind, shingle);
        let start = self.live_words.len();
        self.live_words.extend_from_slice(&record.words);
        self.live.push(MergeImage {
            shard,
            hash,
            at,
            key: record.key,
            tag: record.tag,
            expires_minutes: record.expires_minutes,
            words: start..self.live_words.len(),
        });
        if self.live_words.len() * 8 + self.live.len() * 24 > COPY_BYTES { self.write() } else { Ok(()) }
    }

    fn see(&mut self, seen: &VisitedRecord, words: &[u64]) -> Result<(), StoreError> {
        let RecordKey { space, kind, shingle } = seen.key;
        let (shard, hash) = KeyHash::of(space, kind, shingle);
        let start = self.seen_words.len();
        self.seen_words.extend_from_slice(words);
        self.seen.push(MergeImage {
            shard,
            hash,
            at: seen.position,
            key: seen.key,
            tag: seen.tag,
            expires_minutes: seen.expires_minutes,
            words: start..self.seen_words.len(),
        });
        if self.seen.len() < TOGETHER && self.seen_words.len() * 8 < COPY_BYTES {
            Ok(())
        } else {
            self.sift()
        }
    }

    /// Finds out what is live of what was read.
    fn sift(&mut self) -> Result<(), StoreError> {
        let run = self.store.run();
        // A flush writes shard by shard, so those of one are mostly together.
        let shards = || self.seen.chunk_by(|a, b| a.shard == b.shard);
        for group in shards() {
            let keys = run.shard(group[0].shard);
            group.iter().for_each(|image| keys.prefetch(image.hash));
        }
        for group in shards() {
            let keys = run.shard(group[0].shard);
            group.iter().for_each(|image| {
                keys.find(image.hash);
            });
        }
        let mut live = std::mem::take(&mut self.live);
        for group in shards() {
            let mut keys = run.shard(group[0].shard);
            for image in group {
                match keys.find(image.hash) {
                    KeyLookup::Cold(_, at, _) if at == image.at => {
                        if image.expires_minutes < self.floor_minutes {
                            keys.forget_cold(image.hash, at);
                            self.merged.expired += 1;
                            continue;
                        }
                        let start = self.live_words.len();
                        self.live_words.extend_from_slice(&self.seen_words[image.words.clone()]);
                        live.push(MergeImage { words: start..self.live_words.len(), ..*image });
                    }
                    KeyLookup::Hot(_) => keys.renew(image.hash, image.at),
                    _ => {}
                }
            }
        }
        drop(run);
        self.live = live;
        self.seen.clear();
        self.seen_words.clear();
        if self.live_words.len() * 8 + self.live.len() * 24 > COPY_BYTES { self.write() } else { Ok(()) }
    }

    /// Writes what is live.
    pub(crate) fn write(&mut self) -> Result<(), StoreError> {
        let mut writer = self.log.begin()?;
        {
            // A newer image may have been written since this one was read, and in the log the last one counts.
            // While we hold the writer there will be none.
            let run = self.store.run();
            self.live.retain(|image| {
                let mut keys = run.shard(image.shard);
                let cold = matches!(keys.find(image.hash), KeyLookup::Cold(_, at, _) if at == image.at);
                if !cold {
                    keys.renew(image.hash, image.at);
                }
                cold
            });
        }
        let mut positions = Vec::with_capacity(self.live.len());
        for MergeImage { key, tag, expires_minutes, words, .. } in &self.live {
            let words = &self.live_words[words.clone()];
            positions.push(writer.push(*key, *tag, micros(*expires_minutes), words)?);
        }
        writer.commit(false)?;
        drop(writer);
        let run = self.store.run();
        for (image, to) in self.live.drain(..).zip(positions) {
            run.shard(image.shard).relocate(image.hash, image.at, to, value_class(image.words.len()));
        }
        self.merged.rewritten_bytes += self.live_words.len() as u64 * 8;
        self.live_words.clear();
        Ok(())
    }
}

impl crate::store::ShardGuard<'_> {
    /// Lets go of a cold key, if its image is the one at `position`.
    pub(crate) fn forget_cold(&mut self, hash: KeyHash, position: Position) {
        let class = self.shard_mut().forget_cold(hash, position);
        self.account(class.map(|class| (position, -class_bytes(class))));
    }

    /// Lets the next flush write a clean cell whose image lies at `position`.
    fn renew(&mut self, hash: KeyHash, position: Position) {
        let epoch = self.epoch();
        self.shard_mut().renew(hash, position, epoch);
    }

    /// Moves a cold key's entry to where its image was copied; if it was loaded meanwhile, lets it be written.
    fn relocate(&mut self, hash: KeyHash, from: Position, to: Position, class: u8) {
        match self.shard_mut().relocate(hash, from, to, class) {
            Some(before) => self.account([(from, -class_bytes(before)), (to, class_bytes(class))]),
            None => self.renew(hash, from),
        }
    }
}
