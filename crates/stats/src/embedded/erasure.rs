//! Keys are taken out of the home while requests go on.

use std::collections::HashSet;
use std::sync::atomic::Ordering;

use event::Shingle;
use store::{KeyHash, RecordKey, StoreError};

use super::compiled_catalog::PAIR;
use super::{EmbeddedCore, sketches};
use crate::ledger::{CancellationCheck, ErasedKeys, LedgerError};

impl EmbeddedCore {
    /// See [`crate::Ledger::erase`]. Marks do not say whose they are, and lie where their owner does: of a count that one of the
    /// shingles owns, all marks of the same part go, of 65,536. Another owner there, if there is one, may count a value
    /// again that he had in the same period.
    pub(super) fn erase(
        &self,
        shingles: &HashSet<Shingle>,
        pretend: bool,
        is_over: CancellationCheck<'_>,
    ) -> Result<ErasedKeys, LedgerError> {
        self.check_writable()?;
        let catalog = self.catalog();
        let (mut keys, mut marks, mut owned) = (HashSet::new(), HashSet::new(), HashSet::new());
        for (_, defined) in catalog.registry.iter() {
            let (space, kind) = (defined.definition.space.0, defined.definition.kind.0);
            for shingle in shingles {
                let key = RecordKey { space, kind, shingle: shingle.0 };
                let is_there = match self.store.get(key) {
                    Ok(found) => found.is_some(),
                    // It goes all the same.
                    Err(StoreError::Damaged { .. }) => true,
                    Err(error) => return Err(error.into()),
                };
                if is_there {
                    keys.insert(key);
                    owned.insert((space, kind | PAIR, shingle.route()));
                }
            }
        }
        self.store.each_until(&*catalog, (&|_, _| true, is_over), &mut |key, _, _| {
            let shingle = Shingle(key.shingle);
            if key.space == u16::MAX {
                return;
            }
            let is_meant = shingles.contains(&shingle);
            if key.kind & PAIR == 0 {
                is_meant.then(|| keys.insert(key));
            } else if is_meant || owned.contains(&(key.space, key.kind, shingle.route())) {
                marks.insert(key);
            }
        })?;
        if is_over() {
            return Err(LedgerError::Stopped);
        }
        let erased = ErasedKeys { keys: keys.len() as u64, marks: marks.len() as u64, damaged: 0 };
        if pretend {
            return Ok(erased);
        }
        sketches::forget_shingles(&catalog, shingles);
        for planned in &catalog.plans {
            for shingle in shingles {
                let (shard, hash) = KeyHash::of(planned.space.0, planned.kind.0, shingle.0);
                self.overflow.forget_hash(hash.part(shard), hash.bits());
            }
        }
        keys.extend(marks);
        match self.store.erase(&keys, is_over, || self.catalog()) {
            Ok(done) if done.is_ended => Err(LedgerError::Stopped),
            Ok(done) => {
                self.keep_sketches(None)?;
                Ok(ErasedKeys { damaged: done.damaged, ..erased })
            }
            Err(error @ StoreError::Full { .. }) => Err(LedgerError::Full { why: error.to_string().into() }),
            Err(StoreError::Failed(_)) if self.closed.load(Ordering::SeqCst) => Err(LedgerError::Closed),
            Err(error) => Err(self.poisoned(&error.to_string())),
        }
    }
}
