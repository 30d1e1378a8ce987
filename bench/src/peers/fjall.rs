//! fjall: keys are read, changed and written in one write batch.

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};

use super::group::{Background, Groups, SECOND, key_bytes, observe};
use crate::cell::{Cell, Reading};
use crate::engine::{Engine, EngineOptions, Error};
use crate::workload::{Batch, Micros, Statistic};

/// Size of a table that is not yet written.
const MEMTABLE_BYTES: u64 = 128 << 20;

pub(crate) fn open(opening: EngineOptions<'_>) -> Result<Box<dyn Engine>, Error> {
    let database = Database::builder(opening.directory).cache_size(opening.memory_bytes).open()?;
    // Reads nearly always find their key; tables of the size that RocksDB is given too.
    let options =
        || KeyspaceCreateOptions::default().expect_point_read_hits(true).max_memtable_size(MEMTABLE_BYTES);
    let keyspace = database.keyspace("statistics", options)?;
    let synced = database.clone();
    let sync = Background::every(SECOND, move || Ok(synced.persist(PersistMode::SyncAll)?));
    Ok(Box::new(Fjall { database, keyspace, sync, statistic: opening.statistic, groups: Groups::default() }))
}

struct Fjall {
    database: Database,
    keyspace: Keyspace,
    sync: Background,
    statistic: Statistic,
    groups: Groups,
}

impl Engine for Fjall {
    fn observe(&mut self, batch: &Batch) -> Result<u64, Error> {
        self.groups.sort(batch);
        let mut writes = self.database.batch();
        let (mut cell, mut bytes, mut counted) = (Cell::new(self.statistic), Vec::new(), 0);
        for (key, group) in self.groups.iter() {
            let key = key_bytes(key);
            match self.keyspace.get(key)? {
                Some(value) => cell.load(&value),
                None => cell.load(&[]),
            }
            counted += observe(&mut cell, batch, group);
            cell.store(&mut bytes);
            writes.insert(&self.keyspace, key, bytes.as_slice());
        }
        writes.commit()?;
        Ok(counted)
    }

    fn read(&mut self, keys: &[u64], time: Micros) -> Result<Vec<Reading>, Error> {
        let mut cell = Cell::new(self.statistic);
        let read = |key: &u64| -> Result<Reading, Error> {
            match self.keyspace.get(key_bytes(*key))? {
                Some(value) => cell.load(&value),
                None => cell.load(&[]),
            }
            Ok(cell.reading(time))
        };
        keys.iter().map(read).collect()
    }

    fn settle(&mut self) -> Result<(), Error> {
        Ok(self.database.persist(PersistMode::SyncAll)?)
    }

    fn close(mut self: Box<Self>) -> Result<(), Error> {
        self.sync.stop()?;
        self.settle()
    }
}
