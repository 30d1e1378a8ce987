//! Changes made by others than nodes, as far as a node knows of them: see [`crate::renewal`].

use std::time::Duration;

use crate::remote::{Partition, PartitionGenerations};

/// The bounds of the time after which a node asks again: as often as images are fresh, but within these.
const EVERY_MIN: Duration = Duration::from_millis(100);
const EVERY_MAX: Duration = Duration::from_secs(10);

/// The knowledge that a node has of changes.
#[derive(Default)]
pub(crate) struct GenerationWatch {
    is_busy: bool,
    not_before: Duration,
    /// The generations of the last answer.
    known: PartitionGenerations,
}

impl GenerationWatch {
    /// Begins to ask, if it is time to; answers the last change that is known. Images are fresh for so long.
    pub(crate) fn begin(&mut self, now: Duration, fresh_for: Duration) -> Option<u64> {
        if self.is_busy || now < self.not_before {
            return None;
        }
        self.is_busy = true;
        self.not_before = now + fresh_for.clamp(EVERY_MIN, EVERY_MAX);
        Some(self.known.latest)
    }

    /// Takes an answer in, if there is one: which partitions were changed since the last.
    pub(crate) fn end(&mut self, found: Option<PartitionGenerations>) -> Vec<Partition> {
        self.is_busy = false;
        let Some(found) = found else { return Vec::new() };
        let changed = changed(&self.known, &found);
        self.known = found;
        changed
    }
}

/// The partitions that were changed since. To a node that has just begun these are all that ever were.
fn changed(known: &PartitionGenerations, found: &PartitionGenerations) -> Vec<Partition> {
    let is_new = |(partition, number): &(&Partition, &u64)| known.partitions.get(*partition) != Some(*number);
    found.partitions.iter().filter(is_new).map(|(partition, _)| *partition).collect()
}
