//! Limits that are exact: what is asked of them is decided where their counts lie, and not by what this node knows.
//!
//! ```text
//! observe ─► asks ─► queue of the partition ─► round `number`, at most `ROUND_ASKS` ─► Remote::take ─► what cells had before
//!                          ▲                          └ no answer: the same round again, until its time is over
//!                          └ while a round is under way what comes waits for the next
//! ```
//!
//! A partition has one round of a node under way at most, and remembers the number of the last with its answers: a round
//! that is sent again is made once, and answered the same. So takes that come together cost one call, however many they
//! are, and an answered take is counted once. Rounds for different shards are calls of their own: one that does not answer
//! holds nobody up but who asks it.
//!
//! What has no answer in time may have been counted or not. It is given up: it is never counted twice, and a take is
//! answered as missing, so that the limit's `on_error` decides. Nothing here is in the journal, so a failover without
//! replicas to wait for can forget takes that were answered.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};

use event::Time;
use futures_util::future::{Either, select};
use stats::limit::GcraOperation;
use stats::{Addition, LedgerError, Quality, ReadingHead};

use crate::cache::{InFlightCall, InFlightGuard};
use crate::catalog::{ClusterCatalog, ClusterStatistic};
use crate::cluster::ClusterCore;
use crate::intent::MarkStatuses;
use crate::lock;
use crate::observation::ObserveCall;
use crate::remote::{
    ExactLimitBatch, ExactLimitRequest, Partition, PriorReading, RemoteCell, RemoteError, TIME_MAX,
};

/// Most that is asked in a round: a server does nothing else meanwhile.
const BATCH_REQUESTS: usize = 256;
/// Most that waits to be asked. What comes beyond is not asked.
const WAITING_MAX: usize = 1 << 18;

type ExactLimitResult = Result<PriorReading, RemoteError>;

/// One for each thing that a call asks, in order; none yet at first.
type ExactLimitResults = Mutex<Vec<Option<ExactLimitResult>>>;

/// The requests to exact limits, and the rounds in which they are asked.
pub(crate) struct ExactLimitQueue {
    owner: [u8; 16],
    queues: Vec<Mutex<PartitionQueue>>,
    /// The number of requests in all of the queues.
    waiting: AtomicUsize,
}

#[derive(Default)]
struct PartitionQueue {
    /// Of the last round.
    number: u64,
    /// True if the last round is under way.
    is_busy: bool,
    waiting: VecDeque<QueuedRequest>,
}

/// Something that waits to be asked, or for its answer.
struct QueuedRequest {
    ask: ExactLimitRequest,
    who: RequestWaiter,
}

/// The one that asks.
struct RequestWaiter {
    /// Gone, if nobody waits any more.
    answers: Weak<ExactLimitResults>,
    at: usize,
    /// Wakes who waits once all that he asks was answered, or let go of.
    _landing: Arc<InFlightGuard>,
}

impl RequestWaiter {
    fn is_there(&self) -> bool {
        self.answers.strong_count() > 0
    }

    fn answer(self, answer: ExactLimitResult) {
        if let Some(answers) = self.answers.upgrade()
            && let Some(place) = lock(&answers).get_mut(self.at)
        {
            *place = Some(answer);
        }
    }
}

/// A round that is under way, and who is told what.
struct SentBatch {
    batch: ExactLimitBatch,
    askers: Vec<RequestWaiter>,
}

impl SentBatch {
    fn answer(self, answer: Result<Vec<PriorReading>, RemoteError>) {
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
    /// For so many partitions. No other has the owner.
    pub(crate) fn new(owner: [u8; 16], partitions: usize) -> ExactLimitQueue {
        let queues = (0..partitions).map(|_| Mutex::default()).collect();
        ExactLimitQueue { owner, queues, waiting: AtomicUsize::new(0) }
    }

    /// Puts something into the queue of a partition.
    fn push(&self, partition: Partition, item: QueuedRequest) {
        let Some(queue) = self.queues.get(usize::from(partition.0)) else { return };
        if self.waiting.fetch_add(1, Ordering::Relaxed) < WAITING_MAX {
            lock(queue).waiting.push_back(item);
        } else {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            item.who.answer(Err(RemoteError::Unreachable("too much waits to be asked".into())));
        }
    }

    /// The next round of a partition, if something waits for it and none is under way.
    fn next(&self, partition: Partition, horizon: Time) -> Option<SentBatch> {
        let mut queue = lock(self.queues.get(usize::from(partition.0))?);
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
    fn end(&self, partition: Partition) {
        if let Some(queue) = self.queues.get(usize::from(partition.0)) {
            lock(queue).is_busy = false;
        }
    }
}

/// The answers of the exact limits that a call asks, by the place of the reading.
#[derive(Default)]
pub(crate) struct ExactLimitReadings(BTreeMap<u32, PriorReading>);

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

/// Returns true if what becomes of the addition shows in the answer, also if there is none.
fn is_take(add: &Addition) -> bool {
    matches!(add, Addition::Nothing | Addition::Take(_) | Addition::Flow(GcraOperation::Take { .. }))
}

impl ClusterCore {
    /// Asks what a call is to know and to take of exact limits.
    ///
    /// # Errors
    /// If what is given back, or counted in any case, may not have been.
    pub(crate) async fn decide(
        self: &Arc<ClusterCore>,
        world: &ClusterCatalog,
        call: &ObserveCall<'_>,
        verdicts: &MarkStatuses,
    ) -> Result<ExactLimitReadings, LedgerError> {
        let (flight, answers) = (Arc::<InFlightCall>::default(), Arc::<ExactLimitResults>::default());
        let landing = Arc::new(InFlightGuard(flight.clone()));
        let mut readings = Vec::new();
        let mut items = Vec::new();
        for (request, reading, planned, observation) in call.exact(world) {
            let cell = RemoteCell { key: observation.key, form: planned.known.form.clone() };
            let mut windows = planned.statistic.measure.windows().iter().copied();
            let ask = ExactLimitRequest {
                cell,
                time: observation.time.clamp(Time(-TIME_MAX.0), TIME_MAX),
                windows: [windows.next(), windows.next()],
                add: if verdicts.adds(request) { observation.add.clone() } else { observation.add.look() },
            };
            let who = RequestWaiter {
                answers: Arc::downgrade(&answers),
                at: items.len(),
                _landing: landing.clone(),
            };
            readings.push((reading, is_take(&ask.add)));
            items.push(QueuedRequest { ask, who });
        }
        drop(landing);
        if items.is_empty() {
            return Ok(ExactLimitReadings::default());
        }
        self.counts.exact.fetch_add(items.len() as u64, Ordering::Relaxed);
        lock(&answers).resize(items.len(), None);
        let mut partitions = Vec::new();
        for item in items {
            let partition = self.partitions.of(item.ask.cell.key.shingle);
            self.exact_limits.push(partition, item);
            partitions.push(partition);
        }
        partitions.sort_unstable();
        partitions.dedup();
        self.dispatch(partitions);
        let late = self.environment.sleep(self.settings.within);
        if let Either::Right(_) = select(Box::pin(flight.wait()), late).await {
            tracing::debug!("the cluster has not said in time what is left of a limit");
        }
        let answers = std::mem::take(&mut *lock(&answers));
        let mut decisions = ExactLimitReadings::default();
        let mut failed = None;
        for ((reading, is_take), answer) in readings.into_iter().zip(answers) {
            let why = match answer {
                Some(Ok(PriorReading::Damaged)) => {
                    self.counts.unsound.fetch_add(1, Ordering::Relaxed);
                    tracing::error!("the counts of a limit in the cluster are no cell of its definition");
                    "what the cluster has of the key is damaged".into()
                }
                Some(Ok(before)) => {
                    decisions.0.insert(reading, before);
                    continue;
                }
                Some(Err(failure)) => failure.to_string().into(),
                None => "the cluster has not answered in time".into(),
            };
            self.counts.exact_failures.fetch_add(1, Ordering::Relaxed);
            if !is_take {
                failed = Some(why);
            }
        }
        match failed {
            Some(why) => Err(LedgerError::Unreachable { why }),
            None => Ok(decisions),
        }
    }

    /// Sends the next round of each of these partitions that has none under way.
    fn dispatch(self: &Arc<ClusterCore>, partitions: impl IntoIterator<Item = Partition>) {
        let horizon = Time(self.horizon.load(Ordering::Acquire));
        let mut shards = BTreeMap::<usize, Vec<SentBatch>>::new();
        for partition in partitions {
            if let Some(sent) = self.exact_limits.next(partition, horizon) {
                shards.entry(self.remote.shard(partition)).or_default().push(sent);
            }
        }
        for sent in shards.into_values() {
            let inner = self.clone();
            self.environment.spawn(Box::pin(async move { inner.hold(sent).await }));
        }
    }

    /// Sends rounds until they are answered, or their time is over.
    async fn hold(self: Arc<ClusterCore>, mut sent: Vec<SentBatch>) {
        let end = self.environment.now() + self.settings.within;
        for attempt in 0.. {
            let rounds: Vec<ExactLimitBatch> = sent.iter().map(|sent| sent.batch.clone()).collect();
            self.counts.exact_batches.fetch_add(rounds.len() as u64, Ordering::Relaxed);
            let left = end.saturating_sub(self.environment.now());
            let mut answers = self.remote.take(rounds, left).await.into_iter();
            let pause = self.again(attempt);
            let is_late = self.environment.now() + pause >= end;
            let (mut again, mut free) = (Vec::new(), Vec::new());
            for sent in sent {
                let lost = || Err(RemoteError::Unexpected("there is no answer to it".into()));
                let answer = answers.next().unwrap_or_else(lost);
                let may_be_heard =
                    matches!(answer, Err(RemoteError::Unreachable(_) | RemoteError::Moving(_)));
                if may_be_heard && !is_late && sent.askers.iter().any(RequestWaiter::is_there) {
                    again.push(sent);
                    continue;
                }
                let partition = sent.batch.partition;
                if let Err(failure) = &answer {
                    tracing::debug!(partition = partition.0, %failure, "limits were not asked");
                }
                self.exact_limits.end(partition);
                free.push(partition);
                sent.answer(answer);
            }
            self.dispatch(free);
            if again.is_empty() {
                return;
            }
            sent = again;
            self.environment.sleep(pause).await;
        }
    }
}
