//! Statistics that come into a cluster from elsewhere: each cell is made what it was there.
//!
//! ```text
//! cells ─► RemoteCluster::read, one round trip a shard ─► those that differ ─► RemoteCluster::write ─► begun anew with what came
//! ```
//!
//! Nothing is added up, so a transfer can be broken off and repeated, and repeated again with what has changed at the
//! source since; one that finds no difference is the check that all is there. Meanwhile nobody else may count the
//! same keys: what they add between the reading and the writing of a cell is lost.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use event::{Key, Kind, Time};
use stats::cell_export::{CellContent, CellDefinition, ExportedCell};
use stats::{CellPlan, Measure};

use crate::remote::{
    CellChange, CellForm, CellImage, CellWrite, Partition, PartitionCount, PartitionRead, RemoteCell,
    RemoteCluster, RemoteError, WriteBatch, WriteOutcome,
};

/// The time that one call may take, and the number of times that it is tried before the transfer ends.
pub(crate) const WITHIN: Duration = Duration::from_secs(10);
const TRIES: u32 = 30;
const PAUSE: Duration = Duration::from_secs(1);

/// The report of what a transfer has found and done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClusterTransferReport {
    /// Cells that were as they came.
    pub same: u64,
    /// Cells that were not there.
    pub created: u64,
    /// Cells that were otherwise.
    pub changed: u64,
    /// Batches that a failover has lost after they had been made: the transfer is to be repeated.
    pub lost_batches: u64,
}

/// A transfer into a cluster.
pub struct ClusterTransfer {
    remote: Arc<dyn RemoteCluster>,
    partitions: PartitionCount,
    forms: HashMap<u32, Arc<CellForm>>,
    numbers: HashMap<Partition, u64>,
    now: Time,
    writes: bool,
    done: ClusterTransferReport,
    /// Partitions with written cells that nodes have not been told of.
    written: BTreeSet<Partition>,
}

impl ClusterTransfer {
    /// Begins one, over a way to the cluster under a node's identity that nobody else has, and that was never used
    /// before. If it does not write it only compares. `now` is when buckets of limits are looked at.
    pub fn new(
        remote: Arc<dyn RemoteCluster>,
        partitions: PartitionCount,
        now: Time,
        writes: bool,
    ) -> ClusterTransfer {
        ClusterTransfer {
            remote,
            partitions,
            forms: HashMap::new(),
            numbers: HashMap::new(),
            now,
            writes,
            done: ClusterTransferReport::default(),
            written: BTreeSet::new(),
        }
    }

    /// Ends it, also where it was broken off: has nodes read anew what was written. Answers what was found and done.
    ///
    /// # Errors
    /// What the cluster answered last. Nodes then answer what they had read before for as long as it is not too old.
    pub async fn end(self) -> Result<ClusterTransferReport, RemoteError> {
        renew(&*self.remote, self.written).await?;
        Ok(self.done)
    }

    /// Takes cells, each of them once. To be awaited where tokio's clock goes.
    ///
    /// # Errors
    /// What the cluster answered last. What was taken before stays.
    pub async fn take(
        &mut self,
        cells: impl IntoIterator<Item = (&CellDefinition, ExportedCell)>,
    ) -> Result<(), RemoteError> {
        let mut parts: BTreeMap<Partition, (Vec<RemoteCell>, Vec<CellImage>)> = BTreeMap::new();
        for (definition, portable) in cells {
            let ExportedCell { key, pair, first, last, content, .. } = portable;
            let id = definition.id();
            let unfit = |why: String| RemoteError::Unexpected(why.into());
            let form = match self.forms.entry(id) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(place) => {
                    let form = CellForm::new(definition.clone());
                    place.insert(Arc::new(form.map_err(|error| unfit(error.to_string()))?))
                }
            };
            let image = form.plan.restore(first, last, &content).map_err(|why| unfit(why.to_owned()))?;
            let kind = if pair { Kind(key.kind.0 | RemoteCell::PAIR) } else { key.kind };
            let (cells, images) = parts.entry(self.partitions.of(key.shingle)).or_default();
            cells.push(RemoteCell { key: Key { kind, ..key }, form: form.clone() });
            images.push(image);
        }
        let mut tries = 0;
        while !parts.is_empty() {
            let asked = parts.iter().map(|(partition, (cells, _))| PartitionRead {
                partition: *partition,
                cells: cells.clone(),
                places: Vec::new(),
            });
            let found = self.remote.read(asked.collect(), WITHIN).await;
            let (mut batches, mut failure) = (Vec::new(), None);
            for (answer, (partition, (cells, images))) in found.into_iter().zip(std::mem::take(&mut parts)) {
                match answer {
                    Ok(found) => self.compare(partition, cells, images, found.images, &mut batches),
                    Err(why) => {
                        failure = Some(why);
                        parts.insert(partition, (cells, images));
                    }
                }
            }
            self.write(batches).await?;
            if let Some(failure) = failure {
                again(&mut tries, failure).await?;
            }
        }
        Ok(())
    }

    fn compare(
        &mut self,
        partition: Partition,
        cells: Vec<RemoteCell>,
        images: Vec<CellImage>,
        found: Vec<Option<CellImage>>,
        batches: &mut Vec<WriteBatch>,
    ) {
        // At the end of time every cell has expired: what is written then begins it anew.
        let [mut anew, mut on] = [(Time(i64::MAX), Vec::new()), (self.now, Vec::new())];
        for ((cell, image), found) in cells.into_iter().zip(images).zip(found) {
            match &found {
                Some(found) if is_same(&cell.form.plan, found, &image) => {
                    self.done.same += 1;
                    continue;
                }
                Some(_) => self.done.changed += 1,
                None => self.done.created += 1,
            }
            // How long a bucket is kept is counted from the horizon.
            let of =
                if matches!(cell.form.definition.measure, Measure::Gcra(_)) { &mut on } else { &mut anew };
            of.1.push(CellWrite { cell, change: CellChange::Merge(image), renews: true });
        }
        for (horizon, writes) in [anew, on] {
            if writes.is_empty() || !self.writes {
                continue;
            }
            self.written.insert(partition);
            let number = self.numbers.entry(partition).or_default();
            let previous = *number;
            *number += 1;
            batches.push(WriteBatch { partition, number: *number, previous, horizon, writes: writes.into() });
        }
    }

    /// Sends batches until they are made; those of one partition one after the other.
    async fn write(&mut self, mut batches: Vec<WriteBatch>) -> Result<(), RemoteError> {
        let mut tries = 0;
        while !batches.is_empty() {
            let (mut now, mut later) = (Vec::<WriteBatch>::new(), Vec::new());
            for batch in batches {
                let is_next = now.iter().all(|other| other.partition != batch.partition);
                if is_next { now.push(batch) } else { later.push(batch) }
            }
            let answers = self.remote.write(now.clone(), WITHIN).await;
            let mut failure = None;
            for (mut batch, answer) in now.into_iter().zip(answers) {
                match answer {
                    Ok(WriteOutcome::Now(_) | WriteOutcome::Before) => {}
                    Ok(WriteOutcome::Behind(has)) => {
                        self.done.lost_batches += batch.previous.saturating_sub(has);
                        batch.previous = has;
                        later.push(batch);
                    }
                    Err(why) => {
                        failure = Some(why);
                        later.push(batch);
                    }
                }
            }
            later.sort_by_key(|batch| (batch.partition, batch.number));
            batches = later;
            if let Some(failure) = failure {
                again(&mut tries, failure).await?;
            }
        }
        Ok(())
    }
}

/// Has nodes read cells of partitions anew.
pub(crate) async fn renew(
    remote: &dyn RemoteCluster,
    partitions: BTreeSet<Partition>,
) -> Result<(), RemoteError> {
    let mut tries = 0;
    while !partitions.is_empty()
        && let Err(failure) = remote.renew(partitions.iter().copied().collect(), WITHIN).await
    {
        again(&mut tries, failure).await?;
    }
    Ok(())
}

/// A bucket may have gone on.
fn is_same(plan: &CellPlan, found: &CellImage, image: &CellImage) -> bool {
    match (plan.content(found), plan.content(image)) {
        (Some(CellContent::Moment(found)), Some(CellContent::Moment(moment))) => found >= moment,
        (one, other) => one == other && plan.times(found) == plan.times(image),
    }
}

/// Waits before the next try of a call, if there is to be one.
pub(crate) async fn again(tries: &mut u32, failure: RemoteError) -> Result<(), RemoteError> {
    *tries += 1;
    if *tries >= TRIES || matches!(failure, RemoteError::Unexpected(_)) {
        return Err(failure);
    }
    tracing::warn!("tried again in a second: {failure}");
    tokio::time::sleep(PAUSE).await;
    Ok(())
}
