//! Repair of a store that nobody else uses: what can be had of damaged segments is written anew, and keys are let go of with all
//! their images.

use std::collections::HashSet;

use crate::key_hash::KeyHash;
use crate::log::{RecordKey, SegmentUsage, StoreError};
use crate::merge::{MergeReport, SegmentCopier};
use crate::shard::KeyLookup;
use crate::store::{CellSemantics, Store};

/// The work that [`Store::repair`] is to do.
#[derive(Clone, Debug, Default)]
pub struct Repair {
    /// Names of segments that are written anew, as far as they can be read, and removed.
    pub segments: Vec<String>,
    /// Keys that are let go of.
    pub keys: Vec<RecordKey>,
    /// The latest that the floor may be, see [`Store::floor`]; `None` to leave it.
    pub floor_max: Option<i64>,
}

impl Store {
    /// Carries a repair out, and stops missing segments that are gone. Segments in which a key that is let go of has any image
    /// are written anew, or else an older image would take the newest one's place. Where the floor is brought down, all
    /// are, those that say so first. Interrupted, it is to be begun again.
    ///
    /// # Errors
    /// As [`Store::flush`].
    pub fn repair<M: CellSemantics>(
        &self,
        repair: &Repair,
        meaning: impl Fn() -> M,
    ) -> Result<MergeReport, StoreError> {
        let mut merged = MergeReport::default();
        let Some(log) = self.log() else { return Ok(merged) };
        self.flush(true, &meaning)?;
        let _alone = self.merging();
        let is_lowered = repair.floor_max.is_some_and(|floor| log.lower_floor(floor));
        let keys: HashSet<(usize, KeyHash)> =
            repair.keys.iter().map(|key| KeyHash::of(key.space, key.kind, key.shingle)).collect();
        {
            let mut writer = log.begin()?;
            writer.commit(true)?;
            writer.seal()?;
        }
        let mut touched = HashSet::new();
        if !keys.is_empty() {
            log.verify(&mut |_, _| {}, &mut |seen| {
                if keys.contains(&KeyHash::of(seen.key.space, seen.key.kind, seen.key.shingle)) {
                    touched.insert(seen.position.slot());
                }
            })?;
        }
        for (shard, hash) in keys {
            let run = self.run();
            let mut keys = run.shard(shard);
            match keys.find(hash) {
                KeyLookup::Hot(place) => keys.forget(place),
                KeyLookup::Cold(_, position, _) => keys.forget_cold(hash, position),
                KeyLookup::Absent => {}
            }
        }
        let is_meant = |segment: &SegmentUsage| {
            let is_damaged = repair.segments.iter().any(|name| *name == segment.name());
            segment.sealed && (is_lowered || is_damaged || touched.contains(&segment.slot))
        };
        let mut victims: Vec<SegmentUsage> = log.segments().into_iter().filter(is_meant).collect();
        victims.reverse();
        for victim in &victims {
            SegmentCopier::new(self, log, log.floor(), &mut merged).all(victim.slot)?;
        }
        // Behind a damaged head there are images that a hint has named.
        let mut rest = Vec::new();
        self.renew_each(&victims, &mut |at| rest.push(at));
        let mut copy = SegmentCopier::new(self, log, log.floor(), &mut merged);
        for at in rest {
            match log.read(at, 0) {
                Ok(record) => copy.one(at, &record)?,
                Err(StoreError::Damaged { .. } | StoreError::Missing { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        copy.write()?;
        self.flush(true, &meaning)?;
        for victim in victims {
            log.remove(victim.slot)?;
            merged.segments += 1;
        }
        log.forget_missing()?;
        Ok(merged)
    }
}
