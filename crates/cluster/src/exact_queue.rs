//! The queue of requests to exact limits, cut into batches: see [`crate::exact_limit`].

use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use event::Time;
use stats::{Quality, ReadingHead};

use crate::catalog::ClusterStatistic;
use crate::in_flight::InFlightGuard;
use crate::remote::{ExactLimitBatch, ExactLimitRequest, Partition, PriorReading, RemoteError};

/// Most that is asked in a round: a server does nothing else meanwhile.
const BATCH_REQUESTS: usize = 256;
/// Most that waits to be asked. What comes beyond is not asked.
const WAITING_MAX: usize = 1 << 18;

pub(crate) type ExactLimitResult = Result<PriorReading, RemoteError>;

/// One for each thing that a call asks, in order; none yet at first.
pub(crate) type ExactLimitResults = Mutex<Vec<Option<ExactLimitResult>>>;

/// The requests to exact limits, and the rounds in which they are asked.
pub(crate) struct ExactLimitQueue {
    owner: [u8; 16],
    queues: Vec<Mutex<PartitionQueue>>,
    /// The number of requests in all of the queues.
    waiting: AtomicUsize,
}

#[derive(Default)]
struct PartitionQueue {
    /// The number of the last round.
    number: u64,
    /// True if the last round is under way.
    is_busy: bool,
    waiting: VecDeque<QueuedRequest>,
}

/// A queued request: not sent yet, or without its answer.
pub(crate) struct QueuedRequest {
    pub(crate) ask: ExactLimitRequest,
    pub(crate) who: RequestWaiter,
}

/// The one that asks.
pub(crate) struct RequestWaiter {
    /// Gone, if nobody waits any more.
    pub(crate) answers: Weak<ExactLimitResults>,
    pub(crate) at: usize,
    /// Wakes who waits once all that he asks was answered, or let go of.
    pub(crate) _landing: Arc<InFlightGuard>,
}

impl RequestWaiter {
    pub(crate) fn is_there(&self) -> bool {
        self.answers.strong_count() > 0
    }

    fn answer(self, answer: ExactLimitResult) {
        if let Some(answers) = self.answers.upgrade()
            && let Some(place) = answers.lock().get_mut(self.at)
        {
            *place = Some(answer);
        }
    }
}

/// A round that is under way, and who is told what.
pub(crate) struct SentBatch {
    pub(crate) batch: ExactLimitBatch,
    pub(crate) askers: Vec<RequestWaiter>,
}

impl SentBatch {
    pub(crate) fn answer(self, answer: Result<Vec<PriorReading>, RemoteError>) {
        match answer {
            Ok(befores) => {
                for (asker, before) in self.askers.into_iter().zip(befores) {
                    asker.answer(Ok(before));
                }
            }
            Err(failure) => self.askers.into_iter().for_each(|asker| asker.answer(Err(failure.clone()))),
        }
    }
}

impl ExactLimitQueue {
    /// A queue for `partitions` partitions. No other has the owner.
    pub(crate) fn new(owner: [u8; 16], partitions: usize) -> ExactLimitQueue {
        let queues = (0..partitions).map(|_| Mutex::default()).collect();
        ExactLimitQueue { owner, queues, waiting: AtomicUsize::new(0) }
    }

    /// Puts something into the queue of a partition.
    pub(crate) fn push(&self, partition: Partition, item: QueuedRequest) {
        let Some(queue) = self.queues.get(usize::from(partition.0)) else { return };
        if self.waiting.fetch_add(1, Ordering::Relaxed) < WAITING_MAX {
            queue.lock().waiting.push_back(item);
        } else {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            item.who.answer(Err(RemoteError::Unreachable("too much waits to be asked".into())));
        }
    }

    /// The next round of a partition, if something waits for it and none is under way.
    pub(crate) fn next(&self, partition: Partition, horizon: Time) -> Option<SentBatch> {
        let mut queue = self.queues.get(usize::from(partition.0))?.lock();
        if queue.is_busy {
            return None;
        }
        let (mut asks, mut askers) = (Vec::new(), Vec::new());
        while asks.len() < BATCH_REQUESTS
            && let Some(QueuedRequest { ask, who }) = queue.waiting.pop_front()
        {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            if who.is_there() {
                asks.push(ask);
                askers.push(who);
            }
        }
        if asks.is_empty() {
            return None;
        }
        queue.is_busy = true;
        queue.number += 1;
        let round = ExactLimitBatch {
            partition,
            owner: self.owner,
            number: queue.number,
            horizon,
            asks: asks.into(),
        };
        Some(SentBatch { batch: round, askers })
    }

    /// The round of a partition is over.
    pub(crate) fn end(&self, partition: Partition) {
        if let Some(queue) = self.queues.get(usize::from(partition.0)) {
            queue.lock().is_busy = false;
        }
    }
}

/// The answers of the exact limits that a call asks, by the place of the reading.
#[derive(Default)]
pub(crate) struct ExactLimitReadings(pub(crate) BTreeMap<u32, PriorReading>);

impl ExactLimitReadings {
    /// Puts what a reading says into `values`.
    pub(crate) fn read(
        &self,
        reading: u32,
        planned: &ClusterStatistic,
        values: &mut Vec<u64>,
    ) -> ReadingHead {
        values.clear();
        let columns = planned.plan.columns() as u8;
        let mut told = ReadingHead { quality: Quality::Exact, times: None, fresh: false, columns };
        match self.0.get(&reading) {
            Some(PriorReading::Nothing) => {}
            Some(PriorReading::Held { first, last, values: held }) => {
                told.times = Some((*first, *last));
                values.extend(held.iter().take(planned.plan.reading()));
            }
            Some(PriorReading::Damaged) | None => told.quality = Quality::Missing,
        }
        told
    }
}
