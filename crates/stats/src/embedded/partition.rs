//! One share of the cells in memory: a table of slots that can be sampled at random, for eviction.

use std::sync::atomic::{AtomicUsize, Ordering};

use event::Key;
use hashbrown::HashTable;

use crate::cell::Cell;

/// How a slot relates to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// The store has this image.
    Clean,
    /// It has changed since it was last collected.
    Dirty,
    /// Its image is being written, and it has not changed since.
    Flushing,
}

pub(crate) struct Slot {
    pub(crate) key: Key,
    pub(crate) cell: Cell,
    /// Index into the registry.
    pub(crate) definition: u16,
    pub(crate) state: State,
    /// What was stored of it could not be read.
    pub(crate) missing: bool,
    /// The tick of its last use.
    pub(crate) touched: u32,
}

impl Slot {
    fn bytes(&self) -> usize {
        // A slot's share of the table, of the index and of the room that both keep free.
        size_of::<Slot>() * 17 / 16 + 10 + self.cell.heap_bytes()
    }
}

/// Memory in use by all partitions.
#[derive(Default)]
pub(crate) struct Gauge {
    pub(crate) bytes: AtomicUsize,
    pub(crate) dirty: AtomicUsize,
}

#[derive(Default)]
pub(crate) struct Partition {
    index: HashTable<u32>,
    slots: Vec<Slot>,
    /// Keys whose slots became dirty; some may be gone or listed twice.
    dirty: Vec<Key>,
}

impl Partition {
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn slots(&self) -> &[Slot] {
        &self.slots
    }

    pub(crate) fn find(&self, key: &Key) -> Option<usize> {
        let at = self
            .index
            .find(hash(key), |at| self.slots.get(*at as usize).is_some_and(|slot| slot.key == *key))?;
        Some(*at as usize)
    }

    pub(crate) fn slot(&mut self, at: usize) -> &mut Slot {
        &mut self.slots[at]
    }

    /// Adds a slot whose key is not there yet; its place is valid until the next removal.
    pub(crate) fn insert(&mut self, slot: Slot, gauge: &Gauge) -> usize {
        let at = self.slots.len();
        if at == self.slots.capacity() {
            // By an eighth and not by doubling: the table is most of the memory.
            self.slots.reserve_exact(at / 8 + 8);
        }
        gauge.bytes.fetch_add(slot.bytes(), Ordering::Relaxed);
        if slot.state != State::Clean {
            gauge.dirty.fetch_add(slot.bytes(), Ordering::Relaxed);
            self.dirty.push(slot.key);
        }
        let hashed = hash(&slot.key);
        self.slots.push(slot);
        let slots = &self.slots;
        self.index
            .insert_unique(hashed, at as u32, |at| slots.get(*at as usize).map_or(0, |slot| hash(&slot.key)));
        at
    }

    /// Changes a slot's cell, and marks it dirty.
    pub(crate) fn change(&mut self, at: usize, gauge: &Gauge, change: impl FnOnce(&mut Cell)) {
        let slot = &mut self.slots[at];
        let before = slot.bytes();
        change(&mut slot.cell);
        let after = slot.bytes();
        move_gauge(&gauge.bytes, before, after);
        move_gauge(&gauge.dirty, if slot.state == State::Clean { 0 } else { before }, after);
        if slot.state != State::Dirty {
            slot.state = State::Dirty;
            self.dirty.push(slot.key);
        }
    }

    /// Replaces a slot's cell by the same one under another definition; it need not be written for that.
    pub(crate) fn translate(&mut self, at: usize, gauge: &Gauge, definition: u16, cell: Cell) {
        let slot = &mut self.slots[at];
        let before = slot.bytes();
        slot.cell = cell;
        slot.definition = definition;
        move_gauge(&gauge.bytes, before, slot.bytes());
        if slot.state != State::Clean {
            move_gauge(&gauge.dirty, before, slot.bytes());
        }
    }

    pub(crate) fn remove(&mut self, at: usize, gauge: &Gauge) {
        let slot = self.slots.swap_remove(at);
        gauge.bytes.fetch_sub(slot.bytes(), Ordering::Relaxed);
        if slot.state != State::Clean {
            gauge.dirty.fetch_sub(slot.bytes(), Ordering::Relaxed);
        }
        if let Ok(entry) = self.index.find_entry(hash(&slot.key), |index| *index as usize == at) {
            entry.remove();
        }
        let moved = self.slots.len();
        if let Some(slot) = self.slots.get(at)
            && let Some(index) = self.index.find_mut(hash(&slot.key), |index| *index as usize == moved)
        {
            *index = at as u32;
        }
        if self.slots.capacity() > 2 * self.slots.len() + 64 {
            self.slots.shrink_to(self.slots.len() + self.slots.len() / 8);
            let slots = &self.slots;
            self.index.shrink_to(slots.len(), |at| slots.get(*at as usize).map_or(0, |slot| hash(&slot.key)));
        }
    }

    /// Calls `collect` with every dirty slot, once, and regards it as being written.
    pub(crate) fn collect(&mut self, mut collect: impl FnMut(&Slot)) {
        for key in std::mem::take(&mut self.dirty) {
            if let Some(at) = self.find(&key)
                && let Some(slot) = self.slots.get_mut(at)
                && slot.state == State::Dirty
            {
                slot.state = State::Flushing;
                collect(slot);
            }
        }
    }

    /// The image that was collected is on disk: the slot is clean unless it has changed again.
    pub(crate) fn written(&mut self, key: &Key, gauge: &Gauge) {
        if let Some(at) = self.find(key)
            && let Some(slot) = self.slots.get_mut(at)
            && slot.state == State::Flushing
        {
            slot.state = State::Clean;
            gauge.dirty.fetch_sub(slot.bytes(), Ordering::Relaxed);
        }
    }
}

fn move_gauge(gauge: &AtomicUsize, before: usize, after: usize) {
    if after >= before {
        gauge.fetch_add(after - before, Ordering::Relaxed);
    } else {
        gauge.fetch_sub(before - after, Ordering::Relaxed);
    }
}

/// Shingles are keyed hashes already: one multiplication spreads kind and space over them.
fn hash(key: &Key) -> u64 {
    let kind = u64::from(key.space.0) << 16 | u64::from(key.kind.0);
    let mixed =
        (key.shingle.0 ^ kind.wrapping_mul(0xff51_afd7_ed55_8ccd)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ (mixed >> 32)
}
