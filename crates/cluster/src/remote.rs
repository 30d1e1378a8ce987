//! A node's requests to the cluster, in terms of statistics: the seam between a node's state and the wire. Behind
//! [`RemoteCluster`] is a real cluster, or a model of one in tests.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use event::{Key, Shingle, Span, Time};
use stats::cell_export::CellDefinition;
use stats::limit::GcraOperation;
use stats::{Addition, CellPlan, LayoutError, LedgerMetric, SketchPlace};

/// A future that answers later.
pub type RemoteFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// One of the equal parts that all keys are divided into by the leading bits of their shingles. All keys of one lie in
/// one slot of the cluster, so a script can change any of them together; pairs are in the partition of their owners.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Partition(pub u16);

/// Into how many parts the keys are divided: a power of two, the same for all nodes and for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionCount(u16);

impl PartitionCount {
    /// The most partitions: as many as a cluster has slots.
    pub const MAX: u16 = 1 << 14;

    /// The number of partitions that a new cluster gets.
    pub const USUAL: PartitionCount = PartitionCount(1024);

    /// `None` where it is no power of two, or too many.
    pub fn new(count: u16) -> Option<PartitionCount> {
        (count.is_power_of_two() && count <= PartitionCount::MAX).then_some(PartitionCount(count))
    }

    /// Returns the number of partitions.
    pub fn count(self) -> u16 {
        self.0
    }

    /// The partition of a key.
    pub fn of(self, shingle: Shingle) -> Partition {
        let bits = self.0.trailing_zeros();
        Partition(shingle.route().checked_shr(Shingle::ROUTE_BITS - bits).unwrap_or(0))
    }
}

/// The latest time that the cluster keeps, in the year 2255; the earliest is as long before 1970. What is beyond is
/// kept as one of the two: its scripts count in floating-point numbers.
pub const TIME_MAX: Time = Time((1 << 53) - 1);

/// The form that all cells of one definition have in common.
#[derive(Clone, Debug)]
pub struct CellForm {
    /// A hash of the definition. It is in the names of cells, so that what is written under one definition is never
    /// read under another.
    pub id: u32,
    /// The definition of what is kept. Of a pair it is the distinct count's.
    pub definition: CellDefinition,
    /// The operations on its cells.
    pub plan: CellPlan,
}

impl CellForm {
    /// Compiles the form of a definition.
    ///
    /// # Errors
    /// Says what does not fit.
    pub fn new(definition: CellDefinition) -> Result<CellForm, LayoutError> {
        Ok(CellForm { id: definition.id(), plan: definition.plan()?, definition })
    }
}

/// A key under its definition. For the pair of an exact distinct count, the kind is that of the count with
/// [`RemoteCell::PAIR`] set, and the shingle is the pair's.
#[derive(Clone, Debug)]
pub struct RemoteCell {
    /// The key of the cell.
    pub key: Key,
    /// The form of the cell.
    pub form: Arc<CellForm>,
}

impl RemoteCell {
    /// The bit that tells the kind of pairs from that of their owners.
    pub const PAIR: u16 = 0x8000;
}

/// All that the cluster keeps of a cell, or a part that is to be added: the words of a cell, as the plan of its form has them.
pub type CellImage = Vec<u64>;

/// The change that happens to a cell.
#[derive(Clone, Debug, PartialEq)]
pub enum CellChange {
    /// The cell has seen what the image has seen, too.
    Merge(CellImage),
    /// The cell is the owner of a distinct count, and has seen a value: the event is seen, and one is added to the period of
    /// `time` if the pair's mark for that period is not there yet and would be kept. The mark is there afterwards.
    Unique {
        /// The pair's shingle.
        pair: Shingle,
        /// The time of the change.
        time: Time,
    },
    /// A change to the bucket of a `stats::Measure::gcra()`.
    Flow {
        /// The time of the change.
        now: Time,
        /// The operation that happens to the bucket.
        flow: GcraOperation,
    },
}

/// A change of one cell.
#[derive(Clone, Debug)]
pub struct CellWrite {
    /// The cell to be read.
    pub cell: RemoteCell,
    /// The change that happens to the cell.
    pub change: CellChange,
    /// True if the cell's time to live begins anew, as that of a new cell does anyway.
    pub renews: bool,
}

/// Changes of one partition, which are made all or not at all, and once however often they are sent.
#[derive(Clone, Debug)]
pub struct WriteBatch {
    /// The partition of all its cells.
    pub partition: Partition,
    /// The node's batches of a partition are numbered from one, without a gap. The partition remembers the last that it
    /// has from each node.
    pub number: u64,
    /// The number of the batch that the partition must have before it: one less, unless batches between are lost and
    /// cannot be sent again.
    pub previous: u64,
    /// A cell that has expired at this time is nothing to add to: it begins anew.
    pub horizon: Time,
    /// In order.
    pub writes: Arc<[CellWrite]>,
}

/// The last writer to a partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LastWriter {
    /// The last writer is not known.
    #[default]
    Unknown,
    /// The batch of this number, from this node.
    This(u64),
    /// Another node, its batch of this number.
    Other([u8; 16], u64),
}

/// The outcome of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteOutcome {
    /// The batch was made now, after what this one wrote.
    Now(LastWriter),
    /// The batch had been made before, or a later one was.
    Before,
    /// The one before it is not there: a replica that had not got it took its master's place. Nothing was made. The
    /// batches after this number are to be sent again.
    Behind(u64),
}

/// Cells of one partition, to be read together.
#[derive(Clone, Debug)]
pub struct PartitionRead {
    /// The partition of all of them.
    pub partition: Partition,
    /// The cells to be read.
    pub cells: Vec<RemoteCell>,
    /// Places in sketches, of which it is asked how often they were sighted.
    pub places: Vec<(SketchHalf, SketchPlace)>,
}

/// The images that were read of a partition, all at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct PartitionImages {
    /// The node's last batch that the images include.
    pub number: u64,
    /// The last writer of what the images include.
    pub writer: LastWriter,
    /// One a cell, in order; `None` for what is not there.
    pub images: Vec<Option<CellImage>>,
    /// The places of cells, in order, of which something is there that is no cell of their form. They have no image.
    pub unsound: Vec<usize>,
    /// One a place, in order; none at all while the partition is being moved.
    pub sightings: Vec<SightingCounts>,
}

/// The counters of an admission sketch that nodes share, in one half of its life. Nodes whose sketches have other options
/// share nothing with those.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SketchHalf {
    /// The number of the sketch, see `stats::Admission::sketch_of`.
    pub sketch: u32,
    /// The lines of a partition.
    pub lines: u32,
    /// Half a life.
    pub span: Span,
    /// The number of the half: a time in it, divided by the span.
    pub number: i64,
}

/// The number of times that a place was sighted in a half of a life, and in the half before; at most
/// [`stats::Sketch::COUNT_MAX`] each.
pub type SightingCounts = [u32; 2];

/// Sightings of a partition's keys, in one half of the life of one sketch.
#[derive(Clone, Debug)]
pub struct HalfSightings {
    /// The sketch and its period.
    pub half: SketchHalf,
    /// The number of times that each place was sighted, from one to [`stats::Sketch::COUNT_MAX`].
    pub places: Vec<(SketchPlace, u32)>,
}

/// Sightings of a partition's keys, counted all or not at all, and once however often they are sent.
#[derive(Clone, Debug)]
pub struct SightingBatch {
    /// The partition of the keys.
    pub partition: Partition,
    /// The owner of these batches: one opening of one node.
    pub owner: [u8; 16],
    /// An owner's batches of a partition are numbered from one. The partition remembers the last that it has counted, for
    /// as long as it keeps what was counted.
    pub number: u64,
    /// Each half once.
    pub halves: Arc<[HalfSightings]>,
}

/// A mark that a request wants to be the first to leave.
#[derive(Clone, Debug)]
pub struct MarkClaim {
    /// A cell of a `stats::Measure::Once`.
    pub cell: RemoteCell,
    /// The request's time.
    pub time: Time,
    /// The token of the one that claims: the same token may claim again, and gets the same answer.
    pub token: [u8; 16],
}

/// Changes of cells by others than nodes: an erasure, or an import. Each time has a number that no other has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartitionGenerations {
    /// The last time; zero for never.
    pub latest: u64,
    /// The last of each partition that ever had one.
    pub partitions: HashMap<Partition, u64>,
}

/// A request to a limit's cell, decided by the cell's state when it arrives.
#[derive(Clone, Debug)]
pub struct ExactLimitRequest {
    /// The cell of the limit.
    pub cell: RemoteCell,
    /// The time of the request.
    pub time: Time,
    /// The windows that a reading of the cell is over, at most two; none for a bucket.
    pub windows: [Option<Span>; 2],
    /// [`Addition::Nothing`], what is taken or given back, or what counts whatever is there.
    pub add: Addition,
}

/// The requests to one partition that are asked at once. All of it is made or nothing, in order, and once however often it is
/// sent.
#[derive(Clone, Debug)]
pub struct ExactLimitBatch {
    /// The partition of all its cells.
    pub partition: Partition,
    /// The owner of these rounds: one opening of one node.
    pub owner: [u8; 16],
    /// An owner's rounds of a partition are numbered from one. The partition remembers the last that it has made, with
    /// what it answered. An earlier one is made no more.
    pub number: u64,
    /// A cell that has expired at this time is nothing.
    pub horizon: Time,
    /// In order.
    pub asks: Arc<[ExactLimitRequest]>,
}

/// The reading of what a cell had before something was asked of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PriorReading {
    /// The cell was not there.
    Nothing,
    /// The cell was there, and a reading of it says this.
    Held {
        /// First event.
        first: Time,
        /// Last event.
        last: Time,
        /// The amounts that were used in each of the windows; of a bucket its moment, as a reading has it. Counts are told up
        /// to 2^53.
        values: [u64; 2],
    },
    /// The content that is there is no cell of its form. Nothing was changed.
    Damaged,
}

/// Reasons for a missing answer of the cluster. What was to be changed may have been changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RemoteError {
    /// The shard did not answer in time, or its connection broke.
    #[error("{0}")]
    Unreachable(Arc<str>),
    /// The shard's circuit is open: it was not asked.
    #[error("the shard of partition {} is not asked for now: it did not answer before", .0.0)]
    Open(Partition),
    /// The slot is being moved and its keys lie apart: to be tried again. Nothing was changed.
    #[error("partition {} is being moved", .0.0)]
    Moving(Partition),
    /// The shard has no memory left. Nothing was changed.
    #[error("{0}")]
    Full(Arc<str>),
    /// The answer is not what was asked for.
    #[error("{0}")]
    Unexpected(Arc<str>),
}

/// A cluster. Every call answers within its time, one answer for each thing asked, in order; what goes to one shard goes
/// in one round trip.
pub trait RemoteCluster: Send + Sync {
    /// Reads cells.
    fn read(
        &self,
        asked: Vec<PartitionRead>,
        within: Duration,
    ) -> RemoteFuture<'_, Vec<Result<PartitionImages, RemoteError>>>;

    /// Makes batches.
    fn write(
        &self,
        batches: Vec<WriteBatch>,
        within: Duration,
    ) -> RemoteFuture<'_, Vec<Result<WriteOutcome, RemoteError>>>;

    /// Leaves marks: true for each that nobody else had left, by the rule of `stats::Measure::Once`.
    fn claim(
        &self,
        claims: Vec<MarkClaim>,
        within: Duration,
    ) -> RemoteFuture<'_, Vec<Result<bool, RemoteError>>>;

    /// Makes rounds: what each cell had before, one for each thing asked, in order. What it then has follows from that
    /// by the rules of `stats`.
    fn take(
        &self,
        rounds: Vec<ExactLimitBatch>,
        within: Duration,
    ) -> RemoteFuture<'_, Vec<Result<Vec<PriorReading>, RemoteError>>>;

    /// Counts sightings. Of each partition one answer for each place, in order: what the place then has, from all nodes.
    fn sight(
        &self,
        batches: Vec<SightingBatch>,
        within: Duration,
    ) -> RemoteFuture<'_, Vec<Result<Vec<SightingCounts>, RemoteError>>>;

    /// The shard of a partition, as far as is known. Rounds for different shards are sent in calls of their own, so that
    /// none waits for a shard that does not answer.
    fn shard(&self, _partition: Partition) -> usize {
        0
    }

    /// The node's last batch of each partition, in their order.
    fn numbers(&self, within: Duration) -> RemoteFuture<'_, Vec<Result<u64, RemoteError>>>;

    /// The latest changes of cells by others than nodes; `None` if they are `known`.
    fn generations(
        &self,
        known: u64,
        within: Duration,
    ) -> RemoteFuture<'_, Result<Option<PartitionGenerations>, RemoteError>>;

    /// Says that cells of these partitions were changed by others than nodes, which then read them anew.
    fn renew(
        &self,
        partitions: Vec<Partition>,
        within: Duration,
    ) -> RemoteFuture<'_, Result<(), RemoteError>>;

    /// Returns the figures on the way to the cluster, for metrics.
    fn figures(&self) -> Vec<LedgerMetric> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_are_the_leading_bits() {
        let of = |count, shingle| PartitionCount::new(count).unwrap().of(Shingle(shingle));
        assert_eq!(of(1, u64::MAX), Partition(0));
        assert_eq!(of(2, 1 << 63), Partition(1));
        assert_eq!(of(1024, 0xffc0 << 48), Partition(1023));
        assert_eq!(of(16384, 0x0007 << 48), Partition(1));
        for count in [0, 3, 1 << 15] {
            assert_eq!(PartitionCount::new(count), None);
        }
    }
}
