//! Cells out of a home and into one, spelled out: see [`crate::portable`].

use std::sync::atomic::Ordering;

use hashbrown::HashMap;
use store::{CellLocation, ColdKey, KeyHash, KeyLookup, LogRecord, Position, RecordKey, ShardGuard};

use super::compiled_catalog::{CompiledCatalog, MERGED, PAIR};
use super::{EmbeddedCore, EmbeddedLedger, key_of, sketches};
use crate::cell_export::{CellDecoder, CheckedCell, ExportedCell, spelled};
use crate::definition::{CellDefinition, CompiledDefinition, translated};
use crate::ledger::LedgerError;

/// Counts of what [`EmbeddedLedger::export`] went through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LedgerExportReport {
    /// Cells that were given out.
    pub cells: u64,
    /// Cells that had expired, and were left out.
    pub expired: u64,
    /// Cells that could not be read, or are none of their definition.
    pub lost: u64,
}

/// Counts of what an [`LedgerImporter`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LedgerImportReport {
    /// Cells that were made.
    pub created: u64,
    /// Cells that were added to those that were there.
    pub merged: u64,
    /// Cells that have expired by what was let go here, and were left out.
    pub expired: u64,
}

/// The state of the merge of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergeState {
    /// Begun and not ended: a part of it may have been added.
    Begun,
    /// All of it was added.
    Ended,
}

/// Adds cells to a home.
#[derive(Debug)]
pub struct LedgerImporter<'a> {
    home: &'a EmbeddedLedger,
    decoder: &'a CellDecoder,
    /// The number here of each definition.
    numbers: Vec<u16>,
    done: LedgerImportReport,
}

impl EmbeddedLedger {
    /// All definitions that cells may have, the present catalog's and earlier ones, as [`EmbeddedLedger::export`] counts
    /// them.
    pub fn definitions(&self) -> Vec<CellDefinition> {
        let catalog = self.inner.catalog();
        catalog.registry.iter().map(|(_, defined)| defined.definition.clone()).collect()
    }

    /// Spells out every cell, pairs and marks of requests included, in no order. Reads all files once, in bounded
    /// memory. A cell that is added to meanwhile may come twice. `each` is called under a lock: nobody else is to
    /// use the home.
    ///
    /// # Errors
    /// The device's. What cannot be read is counted.
    pub fn export(&self, each: &mut dyn FnMut(ExportedCell)) -> Result<LedgerExportReport, LedgerError> {
        let inner = &self.inner;
        let catalog = inner.catalog();
        let horizon = inner.horizon.load(Ordering::Acquire);
        let known: HashMap<u16, usize> =
            catalog.registry.iter().zip(0..).map(|((number, _), index)| (number, index)).collect();
        let keys = inner.store.usage().keys;
        let (mut exported, mut seen) = (LedgerExportReport::default(), 0);
        inner.store.each(&*catalog, &mut |record, tag, words| {
            seen += 1;
            // What belongs to no definition is the ledger's own.
            if tag & !PAIR == 0 {
                return;
            }
            let index = known.get(&(tag & !PAIR)).copied();
            let sound = index.zip(catalog.defined(tag)).filter(|(_, defined)| fits(defined, &record, words));
            let portable = sound.and_then(|(index, defined)| spelled(defined, index, key_of(record), words));
            match (sound, portable) {
                (Some((_, defined)), _) if defined.plan.expires(words).0 <= horizon => exported.expired += 1,
                (_, Some(portable)) => {
                    exported.cells += 1;
                    each(portable);
                }
                _ => exported.lost += 1,
            }
        })?;
        exported.lost += keys.saturating_sub(seen);
        Ok(exported)
    }

    /// Returns whether no statistic is kept of any key. Reads all files.
    ///
    /// # Errors
    /// The device's.
    pub fn is_empty(&self) -> Result<bool, LedgerError> {
        let mut empty = true;
        self.inner.store.each(&*self.inner.catalog(), &mut |_, tag, _| empty &= tag & !PAIR == 0)?;
        Ok(empty)
    }

    /// Takes in definitions, so that cells can be added. What was sighted where they come from is not with them: a key that
    /// is new here is called estimated until admission sketches have counted for half of their life.
    ///
    /// # Errors
    /// [`LedgerError::Catalog`] if one gives a kind number another meaning than here; the store's.
    pub fn importer<'a>(&'a self, decoder: &'a CellDecoder) -> Result<LedgerImporter<'a>, LedgerError> {
        let mut catalog = self.inner.catalog.write();
        let mut registry = catalog.registry.clone();
        let (mut numbers, mut new) = (Vec::with_capacity(decoder.defined.len()), Vec::new());
        for defined in &decoder.defined {
            let (number, is_new) = registry.define(defined.definition.clone())?;
            numbers.push(number);
            if is_new {
                new.push(CompiledCatalog::definition_image(number, &defined.definition));
            }
        }
        self.inner.store.put(&new, i64::MAX)?;
        *catalog =
            CompiledCatalog::new(catalog.catalog.clone(), registry, &self.inner.store, Some(&catalog))?
                .into();
        sketches::forget(&catalog);
        drop(catalog);
        Ok(LedgerImporter { home: self, decoder, numbers, done: LedgerImportReport::default() })
    }

    /// Returns how far the export of this number was merged here, if ever it was.
    ///
    /// # Errors
    /// The store's.
    pub fn merge_state(&self, id: u64) -> Result<Option<MergeState>, LedgerError> {
        let state = self.inner.store.get(merge_key(id))?;
        Ok(state.map(|(_, words)| match words.first() {
            Some(2) => MergeState::Ended,
            _ => MergeState::Begun,
        }))
    }

    /// Notes, durably, how far the export of this number was merged.
    ///
    /// # Errors
    /// The store's.
    pub fn set_merge_state(&self, id: u64, state: MergeState) -> Result<(), LedgerError> {
        let word = match state {
            MergeState::Begun => 1,
            MergeState::Ended => 2,
        };
        Ok(self.inner.store.put(&[(merge_key(id), 0, vec![word])], i64::MAX)?)
    }
}

fn merge_key(id: u64) -> RecordKey {
    let (space, kind) = MERGED;
    RecordKey { space, kind, shingle: id }
}

fn fits(defined: &CompiledDefinition, record: &RecordKey, words: &[u64]) -> bool {
    let CellDefinition { space, kind, .. } = defined.definition;
    (space.0, kind.0) == (record.space, record.kind & !PAIR) && defined.plan.check(words)
}

impl LedgerImporter<'_> {
    /// Returns whether a pair's mark is there already, for a time that the cell has one for, too. The owner's count would
    /// count its value twice if both were added. False for other cells.
    ///
    /// # Errors
    /// The store's.
    pub fn overlaps(&self, cell: &CheckedCell) -> Result<bool, LedgerError> {
        if !cell.pair {
            return Ok(false);
        }
        let Some((tag, words)) = self.home.inner.store.get(record_key(cell))? else { return Ok(false) };
        let catalog = self.home.inner.catalog();
        let Some(old) = catalog.defined(tag).filter(|old| old.plan.check(&words)) else { return Ok(false) };
        let Some(new) = self.decoder.defined.get(cell.definition) else { return Ok(false) };
        let [old, new] = [old.plan.rows(&words), new.plan.rows(&cell.words)];
        Ok(old.iter().any(|old| {
            new.iter().any(|new| old.start < new.start + new.width && new.start < old.start + old.width)
        }))
    }

    /// Adds cells: as they are where there is none, and merged into the ones that are there, under the definition in
    /// force. What of another layout fits nowhere is dropped, as with [`EmbeddedLedger::set_catalog`]. Waits for the disk
    /// when much is not written yet.
    ///
    /// # Errors
    /// If the home is closed, full or poisoned; the store's. Some of the cells may have been added.
    pub fn add(&mut self, cells: &[CheckedCell]) -> Result<(), LedgerError> {
        let inner = &self.home.inner;
        inner.check_writable()?;
        if inner.store.dirty_bytes() > inner.dirty_bytes_max {
            inner.flush(false)?;
        }
        let catalog = inner.catalog();
        let mut images = HashMap::<(usize, KeyHash), (Position, Option<LogRecord>)>::new();
        let mut rest: Vec<&CheckedCell> = cells.iter().collect();
        loop {
            let run = inner.store.run();
            let mut missing = Vec::new();
            rest.retain(|cell| {
                let RecordKey { space, kind, shingle } = record_key(cell);
                let (shard, hash) = KeyHash::of(space, kind, shingle);
                let mut keys = run.shard(shard);
                let place = match keys.find(hash) {
                    KeyLookup::Absent => None,
                    KeyLookup::Hot(place) => Some(place),
                    KeyLookup::Cold(_, position, words) => match images.get(&(shard, hash)) {
                        Some((at, record)) if *at == position => {
                            self.load(&catalog, &mut keys, cell, (hash, position), record.as_ref());
                            keys.again(hash, None)
                        }
                        _ => {
                            missing.push(ColdKey { shard, hash, position, words });
                            return true;
                        }
                    },
                };
                let done = put(inner, &catalog, &mut keys, (hash, place), cell, self.number(cell));
                match done {
                    ImportOutcome::Created => self.done.created += 1,
                    ImportOutcome::Merged => self.done.merged += 1,
                    ImportOutcome::Expired => self.done.expired += 1,
                }
                false
            });
            drop(run);
            if missing.is_empty() {
                return Ok(());
            }
            inner.store.read_many(&missing, &mut |at, record| {
                if let Some(cold) = missing.get(at) {
                    images.insert((cold.shard, cold.hash), (cold.position, record));
                }
            })?;
        }
    }

    /// Makes all that was added durable.
    ///
    /// # Errors
    /// If the home is full or poisoned; the store's.
    pub fn finish(self) -> Result<LedgerImportReport, LedgerError> {
        self.home.inner.flush(true)?;
        Ok(self.done)
    }

    fn number(&self, cell: &CheckedCell) -> u16 {
        let number =
            *self.numbers.get(cell.definition).expect("a cell is of the decoder that has checked it");
        if cell.pair { number | PAIR } else { number }
    }

    fn load(
        &self,
        catalog: &CompiledCatalog,
        keys: &mut ShardGuard<'_>,
        cell: &CheckedCell,
        (hash, position): (KeyHash, Position),
        record: Option<&LogRecord>,
    ) {
        let sound = record.filter(|record| {
            catalog.defined(record.tag).is_some_and(|defined| fits(defined, &record.key, &record.words))
        });
        match sound {
            Some(record) => keys.load(hash, position, record.tag, Some(&record.words)),
            None => {
                self.home.inner.counts.damaged.fetch_add(1, Ordering::Relaxed);
                keys.load(hash, position, self.number(cell), None);
            }
        }
    }
}

enum ImportOutcome {
    Created,
    Merged,
    Expired,
}

fn put(
    inner: &EmbeddedCore,
    catalog: &CompiledCatalog,
    keys: &mut ShardGuard<'_>,
    (hash, place): (KeyHash, Option<CellLocation>),
    cell: &CheckedCell,
    number: u16,
) -> ImportOutcome {
    let horizon = inner.horizon.load(Ordering::Acquire);
    let Some(given) = catalog.defined(number) else { return ImportOutcome::Expired };
    if given.plan.expires(&cell.words).0 <= horizon {
        return ImportOutcome::Expired;
    }
    let Some(at) = place else {
        let at = keys.create(hash, number, cell.words.len());
        write(keys, at, hash, &cell.words, number);
        return ImportOutcome::Created;
    };
    let (tag, ..) = keys.visit(at);
    let old = keys.words(at).to_vec();
    let live = catalog.defined(tag).filter(|defined| defined.plan.expires(&old).0 > horizon);
    let Some(known) = live else {
        write(keys, at, hash, &cell.words, number);
        return ImportOutcome::Created;
    };
    let planned = catalog.planned(cell.key.space, cell.key.kind).ok();
    let (target, defined) =
        planned.map_or((tag & !PAIR, known), |planned| (planned.number, &planned.defined));
    let brought = |from: u16, words: &[u64], of: &CompiledDefinition| {
        let mut new = Vec::new();
        if from & !PAIR == target {
            new.extend_from_slice(words);
        } else {
            translated(words, of, defined, &mut new);
        }
        new
    };
    let mut words = brought(tag, &old, known);
    let more = brought(number, &cell.words, given);
    defined.plan.merge(&mut words, &more);
    write(keys, at, hash, &words, target | tag & PAIR);
    ImportOutcome::Merged
}

fn write(keys: &mut ShardGuard<'_>, at: CellLocation, hash: KeyHash, words: &[u64], tag: u16) {
    let mut cell = keys.change(at, hash);
    cell.words_mut().fill(0);
    cell.resize(words.len());
    if let Some(room) = cell.words_mut().get_mut(..words.len()) {
        room.copy_from_slice(words);
    }
    cell.set_tag(tag);
}

fn record_key(cell: &CheckedCell) -> RecordKey {
    let kind = if cell.pair { cell.key.kind.0 | PAIR } else { cell.key.kind.0 };
    RecordKey { space: cell.key.space.0, kind, shingle: cell.key.shingle.0 }
}
