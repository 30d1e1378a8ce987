//! Cache of the cluster's cells on a node: the image last read of each, and the additions made here since.
//!
//! ```text
//! entry     image (with the number of the node's last batch that it includes) + sent + pending = what a reading sees
//! pending   ─ cut, or sealed ─► sent ─ acknowledged, and folded when it is next in the way ─► image
//! ```
//!
//! **What an image includes** is said by the number that came with it: `sent` is added to it only if that is later.
//! So nothing has to be done to the cells of a batch when it is acknowledged. An image that is older than what was
//! folded here already is void.
//!
//! **How old an image is** follows from when it was asked for, and from what its partition has said since of who wrote
//! to it (`chain`).
//!
//! **Budget.** Entries without additions of their own, and that no running request has looked at, are evicted by CLOCK
//! (Corbató, A paging experiment with the Multics system, 1968) where their images need more than the budget. Additions
//! cannot be evicted: flushes bound them.
//!
//! Keys that the cluster does not have are kept, too: what was looked for once is not asked for again.

use std::sync::Arc;
use std::time::Duration;

use event::{Shingle, Time};
use smallvec::SmallVec;
use stats::CellPlan;

use crate::cell::{CellId, PlannedCell};
use crate::cell_map::{CellMap, NO_HINT};
use crate::chain::ChainId;
use crate::delta::{CellDelta, CellOperation};
use crate::in_flight::{CallId, ShardCalls};
use crate::partition::{BatchItem, PartitionState};
use crate::sighting::SightingQueue;

/// The delta that was cut for a batch.
#[derive(Debug)]
pub(crate) struct SentDelta {
    pub(crate) number: u64,
    pub(crate) delta: Arc<CellDelta>,
    /// The delta of the batch before, where several wait.
    pub(crate) earlier: Option<Box<SentDelta>>,
}

impl SentDelta {
    /// The deltas of batches after a number, the latest first.
    fn after(&self, number: u64) -> impl Iterator<Item = &SentDelta> {
        let list = std::iter::successors(Some(self), |sent| sent.earlier.as_deref());
        list.take_while(move |sent| sent.number > number)
    }

    /// Takes away the deltas of batches up to a number, and answers them, the latest first.
    pub(crate) fn split(this: &mut Option<SentDelta>, number: u64) -> Option<SentDelta> {
        match this {
            Some(sent) if sent.number > number => sent.split_earlier(number),
            sent => sent.take(),
        }
    }

    fn split_earlier(&mut self, number: u64) -> Option<SentDelta> {
        match &mut self.earlier {
            Some(earlier) if earlier.number > number => earlier.split_earlier(number),
            earlier => earlier.take().map(|earlier| *earlier),
        }
    }

    /// Puts another behind the later ones.
    fn insert(&mut self, number: u64, delta: Arc<CellDelta>) {
        match &mut self.earlier {
            Some(earlier) if earlier.number > number => earlier.insert(number, delta),
            earlier => {
                let before = earlier.take();
                *earlier = Some(Box::new(SentDelta { number, delta, earlier: before }));
            }
        }
    }
}

#[derive(Debug)]
pub(crate) struct CacheEntry {
    /// The number of its definition.
    pub(crate) form: u32,
    /// No words are those of a cell that is not there. `None` is unknown.
    pub(crate) image: Option<Vec<u64>>,
    /// The last of the node's batches that the image includes.
    pub(crate) number: u64,
    /// The time at which the image was asked for.
    pub(crate) read_at: Duration,
    /// The chain by which it can be known not to have changed.
    pub(crate) link: ChainId,
    /// The second in which a batch last renewed its time to live, and one more.
    renewed: u32,
    pub(crate) sent: Option<SentDelta>,
    /// Nobody else has it before it is cut.
    pub(crate) pending: Option<Arc<CellDelta>>,
    /// The call that is about to read it, if that has not ended.
    pub(crate) flight: CallId,
    /// True if it is among those of its partition that are to be read anew.
    pub(crate) is_aging: bool,
    /// The last request that has looked at it.
    stamp: u64,
    was_used: bool,
}

impl CacheEntry {
    /// Memory of an entry beside its words.
    const BYTES: usize = CellMap::<CacheEntry>::BYTES;

    fn new(form: u32) -> CacheEntry {
        CacheEntry {
            form,
            image: None,
            number: 0,
            read_at: Duration::ZERO,
            link: ChainId::NONE,
            renewed: 0,
            sent: None,
            pending: None,
            flight: CallId::NONE,
            is_aging: false,
            stamp: 0,
            was_used: false,
        }
    }

    fn bytes(&self) -> usize {
        CacheEntry::BYTES + 8 * self.image.as_ref().map_or(0, Vec::capacity)
    }

    /// Returns the deltas that were sent and are not in the image, the latest first.
    fn unseen(&self) -> impl Iterator<Item = &CellDelta> {
        self.sent.iter().flat_map(|sent| sent.after(self.number)).map(|sent| &*sent.delta)
    }

    /// Adds what is cut for a batch to what waits.
    pub(crate) fn send(&mut self, number: u64, delta: Arc<CellDelta>) {
        match &mut self.sent {
            Some(later) if later.number > number => later.insert(number, delta),
            _ => {
                let earlier = self.sent.take().map(Box::new);
                self.sent = Some(SentDelta { number, delta, earlier });
            }
        }
    }

    /// Gives the batches from a number on, which wait, numbers that are so much higher.
    pub(crate) fn renumber(&mut self, from: u64, by: u64) {
        let mut next = self.sent.as_mut();
        while let Some(sent) = next.filter(|sent| sent.number >= from) {
            sent.number += by;
            next = sent.earlier.as_deref_mut();
        }
    }

    /// The cell as it is known here.
    pub(crate) fn show<'a>(&'a self, plan: &CellPlan, room: &'a mut Vec<u64>) -> &'a [u64] {
        match self.show_in(plan, room) {
            true => room,
            false => self.image(),
        }
    }

    /// Puts the cell as it is known here into a room; false, and nothing is done, if that is its image.
    pub(crate) fn show_in(&self, plan: &CellPlan, room: &mut Vec<u64>) -> bool {
        let pending = self.pending.as_deref();
        if self.unseen().next().is_none() && pending.is_none() {
            return false;
        }
        room.clear();
        room.extend_from_slice(self.image());
        self.show_unseen(plan, room);
        pending.into_iter().for_each(|delta| delta.show(plan, room));
        true
    }

    /// The words that the cluster had; none where that is not known.
    pub(crate) fn image(&self) -> &[u64] {
        self.image.as_deref().unwrap_or_default()
    }

    fn show_unseen(&self, plan: &CellPlan, room: &mut Vec<u64>) {
        let mut unseen: SmallVec<[&CellDelta; 2]> = self.unseen().collect();
        unseen.reverse();
        unseen.iter().for_each(|delta| delta.show(plan, room));
    }

    /// Makes what was sent, and is acknowledged up to this batch, a part of the image.
    pub(crate) fn fold(&mut self, plan: &CellPlan, acknowledged: u64) {
        let Some(sent) = SentDelta::split(&mut self.sent, acknowledged) else { return };
        let mut list: SmallVec<[&SentDelta; 2]> = sent.after(self.number).collect();
        list.reverse();
        for sent in list {
            self.number = sent.number;
            if let Some(image) = &mut self.image {
                sent.delta.show(plan, image);
            }
            if !sent.delta.is_certain(self.link) {
                self.link = ChainId::NONE;
            }
        }
    }

    /// Takes an image that was asked for at a time; false if it lacks what is folded here.
    fn arrive(&mut self, number: u64, words: Vec<u64>, asked: Duration, link: ChainId) -> bool {
        self.flight = CallId::NONE;
        if number < self.number {
            return false;
        }
        (self.image, self.number) = (Some(words), number);
        (self.read_at, self.link) = (asked, link);
        true
    }

    /// Forgets the image if it has expired by itself: as the cluster does when it is next added to.
    pub(crate) fn expire_image(&mut self, plan: &CellPlan, horizon: i64) {
        if let Some(image) = &mut self.image
            && plan.expires(image).0 <= horizon
        {
            image.clear();
        }
    }

    /// Forgets what has expired: it begins anew. Of what was added the journal has to be told.
    pub(crate) fn expire(&mut self) {
        if let Some(sent) = self.sent.take() {
            self.number = self.number.max(sent.number);
        }
        self.pending = None;
        self.image = self.image.take().map(|_| Vec::new());
    }

    /// Returns true if a batch that is cut now is to have its time to live begin anew.
    pub(crate) fn renews(&mut self, now: Duration, after: Duration) -> bool {
        let is_due = self.renewed == 0 || now >= Duration::from_secs(u64::from(self.renewed - 1)) + after;
        if is_due {
            self.renewed = u32::try_from(now.as_secs()).unwrap_or(0).saturating_add(1);
        }
        is_due
    }

    /// Returns true if its cell is known to hold anything.
    pub(crate) fn holds(&self) -> bool {
        self.pending.is_some()
            || self.sent.is_some()
            || self.image.as_ref().is_some_and(|image| !image.is_empty())
    }
}

/// One of the shares of the cache, with the partitions whose keys it holds.
pub(crate) struct CacheShard {
    pub(crate) parts: Vec<PartitionState>,
    pub(crate) sightings: SightingQueue,
    pub(crate) calls: ShardCalls,
    /// In a ring.
    cells: CellMap<CacheEntry>,
    hand: usize,
    bytes: usize,
    budget: usize,
    pub(crate) evictions: u64,
}

impl CacheShard {
    pub(crate) fn new(parts: Vec<PartitionState>, sightings: SightingQueue, budget: usize) -> CacheShard {
        CacheShard {
            parts,
            sightings,
            calls: ShardCalls::default(),
            cells: CellMap::default(),
            hand: 0,
            bytes: 0,
            budget,
            evictions: 0,
        }
    }

    pub(crate) fn get(&self, id: CellId) -> Option<&CacheEntry> {
        self.cells.get(id)
    }

    pub(crate) fn get_mut(&mut self, id: CellId) -> Option<&mut CacheEntry> {
        self.get_mut_at(id, NO_HINT)
    }

    /// Returns where the entry of a cell is, looking first where it was.
    pub(crate) fn place(&self, id: CellId, hint: usize) -> Option<usize> {
        self.cells.place(id, hint)
    }

    /// The entry of a cell that was at a place.
    pub(crate) fn get_mut_at(&mut self, id: CellId, hint: usize) -> Option<&mut CacheEntry> {
        self.cells.at_mut(self.cells.place(id, hint)?)
    }

    /// The entry at a place where it was found just now.
    pub(crate) fn at_mut(&mut self, place: usize) -> Option<&mut CacheEntry> {
        self.cells.at_mut(place)
    }

    /// An entry for a cell of a form, see [`CacheShard::entry_at`].
    pub(crate) fn entry(
        &mut self,
        id: CellId,
        form: u32,
        part: usize,
        stamp: u64,
    ) -> (&mut CacheEntry, Duration) {
        let (_, entry, as_of) = self.entry_at((id, NO_HINT), form, part, stamp);
        (entry, as_of)
    }

    /// The place of an entry for a cell, which may have been at a place before; the entry, of a form, without an image that is
    /// not to be used any more; and the time as of which its image is what the cluster has. The additions of one of another
    /// form that was in its place go on to be sent.
    pub(crate) fn entry_at(
        &mut self,
        (id, hint): (CellId, usize),
        form: u32,
        part: usize,
        stamp: u64,
    ) -> (usize, &mut CacheEntry, Duration) {
        let CacheShard { parts, cells, bytes, .. } = self;
        let invalidated = parts.get(part).map_or(Duration::ZERO, |part| part.invalidated);
        let (place, entry) = cells.entry(id, hint, || {
            let entry = CacheEntry::new(form);
            *bytes += entry.bytes();
            entry
        });
        if entry.form != form {
            let before = entry.bytes();
            let mut old = std::mem::replace(entry, CacheEntry::new(form));
            *bytes = (*bytes + entry.bytes()).saturating_sub(before);
            if let (Some(delta), Some(part)) = (old.pending.take(), parts.get_mut(part)) {
                part.orphans.push(BatchItem::new(id, old.form, delta));
            }
        }
        if entry.read_at < invalidated && entry.image.is_some() {
            // It was on its way meanwhile.
            let before = entry.bytes();
            entry.image = None;
            *bytes = (*bytes + entry.bytes()).saturating_sub(before);
        }
        entry.stamp = entry.stamp.max(stamp);
        entry.was_used = true;
        let as_of = |part: &PartitionState| part.chain.as_of(entry.link, entry.read_at);
        let as_of = parts.get(part).map_or(entry.read_at, as_of);
        (place, entry, as_of)
    }

    /// Adds to a cell, which has an entry.
    pub(crate) fn add(
        &mut self,
        (id, hint): (CellId, usize),
        part: usize,
        plan: &CellPlan,
        op: &CellOperation,
    ) {
        self.change((id, hint), part, |delta| delta.add(plan, op));
    }

    /// Counts a value for its owner, or sets the mark of its pair, which the owner's addition brings to the cluster.
    pub(crate) fn believe(&mut self, id: CellId, part: usize, plan: &CellPlan, time: Time, basis: ChainId) {
        self.change((id, NO_HINT), part, |delta| delta.believe(plan, time, basis));
    }

    /// Returns the chain that an image belongs to, if its partition's chain still goes on; else none.
    pub(crate) fn link(&self, id: CellId, part: usize) -> ChainId {
        let link = self.get(id).map_or(ChainId::NONE, |entry| entry.link);
        if self.goes_on(link, part) { link } else { ChainId::NONE }
    }

    /// Returns true if a chain is one, and still that of a partition.
    pub(crate) fn goes_on(&self, link: ChainId, part: usize) -> bool {
        link != ChainId::NONE && self.parts.get(part).is_some_and(|part| part.chain.link() == link)
    }

    fn change(&mut self, (id, hint): (CellId, usize), part: usize, change: impl FnOnce(&mut CellDelta)) {
        let CacheShard { cells, parts, .. } = self;
        let Some(place) = cells.place(id, hint) else { return };
        let (Some(entry), Some(part)) = (cells.at_mut(place), parts.get_mut(part)) else { return };
        let before = entry.pending.as_ref().map_or(0, |delta| delta.bytes());
        let delta = Arc::make_mut(entry.pending.get_or_insert_with(|| {
            part.dirty.push((id, place as u32));
            Arc::default()
        }));
        change(delta);
        part.pending_bytes += delta.bytes().saturating_sub(before);
    }

    /// Takes an image in; false if it is void.
    pub(crate) fn arrive(
        &mut self,
        (id, hint): (CellId, usize),
        form: u32,
        number: u64,
        words: Vec<u64>,
        (asked, link): (Duration, ChainId),
    ) -> bool {
        let CacheShard { cells, bytes, .. } = self;
        let entry = cells.place(id, hint).and_then(|place| cells.at_mut(place));
        let Some(entry) = entry.filter(|entry| entry.form == form) else { return true };
        let before = entry.bytes();
        let taken = entry.arrive(number, words, asked, link);
        *bytes = (*bytes + entry.bytes()).saturating_sub(before);
        taken
    }

    /// Has a cell, whose image is answered meanwhile, be read anew together with others of its partition, by a time.
    pub(crate) fn age(&mut self, cell: PlannedCell, part: usize, by: Duration) {
        let CacheShard { cells, parts, .. } = self;
        let (Some(entry), Some(part)) = (cells.at_mut(cell.hint as usize), parts.get_mut(part)) else {
            return;
        };
        part.refresh_by = if part.aging.is_empty() { by } else { part.refresh_by.min(by) };
        if !std::mem::replace(&mut entry.is_aging, true) {
            part.aging.push(cell);
        }
    }

    /// Lets no image of a partition be used that was asked for before this.
    pub(crate) fn forget(&mut self, at: usize, now: Duration) {
        let Some(part) = self.parts.get_mut(at) else { return };
        part.invalidated = now;
        let mut cells = std::mem::take(&mut self.cells);
        cells.iter_mut().filter(|(id, _)| self.part_of(**id) == at).for_each(|(_, entry)| entry.image = None);
        self.cells = cells;
        self.recount();
    }

    /// Makes room, where there is too little: not by what requests from `running` on have looked at. Looks at no more
    /// than so many entries.
    pub(crate) fn evict(&mut self, running: u64, mut steps: usize) {
        while self.bytes > self.budget && steps > 0 && self.cells.places() > 0 {
            steps -= 1;
            self.hand %= self.cells.places();
            let part = self.cells.at(self.hand).map_or(0, |(id, _)| self.part_of(*id));
            let Some(entry) = self.cells.at_mut(self.hand) else {
                self.hand += 1;
                continue;
            };
            let acknowledged = self.parts.get(part).map_or(0, |part| part.acknowledged);
            let is_needed = entry.pending.is_some()
                || entry.sent.as_ref().is_some_and(|sent| sent.number > acknowledged)
                || self.calls.flying(entry.flight).is_some()
                || entry.stamp >= running;
            if is_needed || entry.was_used {
                entry.was_used = false;
                self.hand += 1;
                continue;
            }
            self.bytes = self.bytes.saturating_sub(entry.bytes());
            self.cells.remove(self.hand);
            self.hand += 1;
            self.evictions += 1;
        }
    }

    /// The place of a key's partition among those of the shard.
    pub(crate) fn part_of(&self, id: CellId) -> usize {
        let route = usize::from(Shingle(id.shingle).route());
        let bits = self.parts.first().map_or(0, |part| part.shift);
        // Their number is a power of two.
        (route >> bits) & self.parts.len().wrapping_sub(1)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&CellId, &CacheEntry)> {
        self.cells.iter()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (&CellId, &mut CacheEntry)> {
        self.cells.iter_mut()
    }

    /// The number of entries.
    pub(crate) fn entries(&self) -> usize {
        self.cells.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Corrects what is counted after images were changed in place.
    pub(crate) fn recount(&mut self) {
        self.bytes = self.cells.iter().map(|(_, entry)| entry.bytes()).sum();
    }
}
