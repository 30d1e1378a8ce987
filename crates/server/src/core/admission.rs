//! Admission of batches and other costly calls: a few run, a few wait, and the rest are told to come back.
//!
//! A batch is thousands of events, so more of them at work than there are processors only take memory and time from one
//! another. What is refused here has not been counted. A look at all keys, a change of rules or a copy costs as much as
//! thousands of decisions, too: such calls have a gate of their own, whose places rest after work for as long as it took of a
//! processor, and their work ends where nobody waits for it any more.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use rustix::time::{ClockId, clock_gettime};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};

use crate::core::blocking::blocking;
use crate::core::costly_threads::CostlyThreads;
use crate::core::deadline::Deadline;
use crate::core::problem::{HttpFailure, OVERLOADED};

/// Most that wait at one gate.
const WAITING_MAX: usize = 64;
/// Calls that may wait for other nodes at once.
const RELAYS: usize = 32;
/// Calls that may wait for object storage at once. Each may have an index of a segment in memory.
const ARCHIVES: usize = 4;
/// Work that is not worth a rest.
const SHORT: Duration = Duration::from_millis(20);
/// The longest rest of a place.
const REST_MAX: Duration = Duration::from_secs(10);

const AGAIN: &str = "send it again after the time in Retry-After";

/// A few places, and a few that wait for them.
#[derive(Debug)]
pub(crate) struct AdmissionQueue {
    /// The names of what passes it: of one, and of several.
    what: [&'static str; 2],
    places: Arc<Semaphore>,
    waiting: Arc<AtomicUsize>,
    /// The threads on which what passes it is worked on, if these are not those of all that blocks.
    threads: Option<Arc<CostlyThreads>>,
}

/// One that waits, as long as it does.
struct QueuedGuard<'a>(&'a AtomicUsize);

impl Drop for QueuedGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl AdmissionQueue {
    fn new(what: [&'static str; 2], places: usize) -> AdmissionQueue {
        let (places, waiting) = (Arc::new(Semaphore::new(places.max(1))), Arc::default());
        AdmissionQueue { what, places, waiting, threads: None }
    }

    /// A gate for batches, two a processor: one that is worked on, and one that waits for its disk.
    pub(crate) fn of_batches() -> AdmissionQueue {
        AdmissionQueue::new(["batch", "batches"], 2 * processors())
    }

    /// A gate for calls that go through all there is, on half of the processors.
    pub(crate) fn of_scans(threads: &Arc<CostlyThreads>) -> AdmissionQueue {
        AdmissionQueue::new(["call", "costly calls"], processors() / 2).on(threads)
    }

    /// A gate for calls that look up one thing on disk.
    pub(crate) fn of_lookups() -> AdmissionQueue {
        AdmissionQueue::new(["call", "look-ups"], processors())
    }

    /// A gate for changes of rules, one at a time: who stops a wave must not wait behind those who search in what is past.
    pub(crate) fn of_changes() -> AdmissionQueue {
        AdmissionQueue::new(["change", "changes of rules"], 1)
    }

    /// A gate for calls that wait for other nodes, which takes no processor.
    pub(crate) fn of_relays() -> AdmissionQueue {
        AdmissionQueue::new(["call", "calls for other nodes"], RELAYS)
    }

    /// A gate for calls that wait for object storage.
    pub(crate) fn of_archives() -> AdmissionQueue {
        AdmissionQueue::new(["call", "calls for object storage"], ARCHIVES)
    }

    /// A gate for pages of metrics: one at a time, as all of them show the same.
    pub(crate) fn of_pages() -> AdmissionQueue {
        AdmissionQueue::new(["page", "pages of metrics"], 1)
    }

    /// A gate for searches in past decisions, each of which reads a bounded part of them. There are two a processor, as the next one
    /// needs a moment to begin, and others have to read from a disk. Their threads leave the processors to all others.
    pub(crate) fn of_searches(threads: &Arc<CostlyThreads>) -> AdmissionQueue {
        AdmissionQueue::new(["search", "searches"], 2 * processors()).on(threads)
    }

    /// The gate whose calls are worked on by these threads.
    fn on(self, threads: &Arc<CostlyThreads>) -> AdmissionQueue {
        AdmissionQueue { threads: Some(Arc::clone(threads)), ..self }
    }

    /// Returns how many places are free.
    #[cfg(test)]
    pub(crate) fn free(&self) -> usize {
        self.places.available_permits()
    }

    /// Returns how many wait.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Returns whether as many wait as may.
    pub(crate) fn is_crowded(&self) -> bool {
        self.waiting() >= WAITING_MAX
    }

    /// Returns what those are told that cannot even wait.
    pub(crate) fn queued(&self) -> HttpFailure {
        let detail = format!("{WAITING_MAX} {} wait already; nothing of this one was done", self.what[1]);
        OVERLOADED.failure(detail).help(AGAIN)
    }

    /// Waits for a place.
    pub(crate) async fn enter(&self, patience: Duration) -> Result<OwnedSemaphorePermit, HttpFailure> {
        let places = Arc::clone(&self.places);
        if let Ok(place) = Arc::clone(&places).try_acquire_owned() {
            return Ok(place);
        }
        if self.waiting.fetch_add(1, Ordering::Relaxed) >= WAITING_MAX {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            return Err(self.queued());
        }
        let _waits = QueuedGuard(&self.waiting);
        match timeout(patience, places.acquire_owned()).await {
            // The semaphore is never closed.
            Ok(place) => place.map_err(|_| OVERLOADED.failure("the node is shutting down")),
            Err(_) => {
                let seconds = patience.as_secs_f64();
                let detail =
                    format!("the {} has waited for {seconds} s; nothing of it was done", self.what[0]);
                Err(OVERLOADED.failure(detail).help(AGAIN))
            }
        }
    }

    /// Does costly work in a place, away from the threads that serve connections, and ends it where nobody waits for it any
    /// more, by the current deadline: `work` is told by its argument. The place then rests for as long as the work took of a
    /// processor. By the clock work would take the longer the more others work, and where many search all would mostly rest.
    pub(crate) async fn run<T, F>(&self, patience: Duration, work: F) -> Result<T, HttpFailure>
    where
        T: Send + 'static,
        F: FnOnce(&(dyn Fn() -> bool + Sync)) -> T + Send + 'static,
    {
        let place = self.enter(patience).await?;
        let deadline = Deadline::current();
        let is_over = move || deadline.as_ref().is_some_and(Deadline::is_over);
        if is_over() {
            return Err(OVERLOADED.failure("nobody waits for this any more").help(AGAIN));
        }
        let work = move || {
            let before = processor_time();
            let is_over = || {
                journal::give_way();
                is_over()
            };
            let done = work(&is_over);
            rest(place, processor_time().saturating_sub(before));
            done
        };
        Ok(match &self.threads {
            Some(threads) => threads.run(work).await,
            None => blocking(work).await,
        })
    }
}

/// A gate by its name.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct GateLabel {
    gate: &'static str,
}

/// The collector of how many wait at gates.
#[derive(Debug)]
pub(crate) struct WaitingCollector(Vec<(&'static str, Arc<AtomicUsize>)>);

impl WaitingCollector {
    /// Returns the collector of these gates.
    pub(crate) fn of(gates: &[&AdmissionQueue]) -> WaitingCollector {
        WaitingCollector(gates.iter().map(|gate| (gate.what[1], Arc::clone(&gate.waiting))).collect())
    }
}

impl Collector for WaitingCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let family = Family::<GateLabel, Gauge>::default();
        for (gate, waiting) in &self.0 {
            let count = i64::try_from(waiting.load(Ordering::Relaxed)).unwrap_or(i64::MAX);
            family.get_or_create(&GateLabel { gate }).set(count);
        }
        let help = "Requests that wait for a free slot, by type";
        family.encode(encoder.encode_descriptor(
            "tollhouse_http_waiting",
            help,
            None,
            family.metric_type(),
        )?)
    }
}

/// Returns the time for which the current thread has had a processor.
pub(crate) fn processor_time() -> Duration {
    // Both parts are as POSIX has them: no less than zero.
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Gives a place back after as long as it was worked in.
fn rest(place: OwnedSemaphorePermit, took: Duration) {
    if took < SHORT {
        return;
    }
    Handle::current().spawn(async move {
        sleep(took.min(REST_MAX)).await;
        drop(place);
    });
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn those_that_find_no_place_are_told() {
        let gate = AdmissionQueue::new(["batch", "batches"], 1);
        let place = gate.enter(Duration::ZERO).await.unwrap();
        let told = gate.enter(Duration::from_secs(5)).await.unwrap_err().problem();
        assert_eq!(told.status, 503);
        assert!(told.detail.contains("has waited for 5 s"), "{}", told.detail);
        let crowd = (0..=WAITING_MAX).map(|_| gate.enter(Duration::from_secs(5)));
        let told = futures_util::future::join_all(crowd).await;
        let details = told.into_iter().map(|answer| answer.unwrap_err().problem().detail);
        let (waited, refused): (Vec<_>, Vec<_>) = details.partition(|detail| detail.contains("has waited"));
        assert_eq!((waited.len(), refused.len()), (WAITING_MAX, 1), "{refused:?}");
        drop(place);
        assert!(gate.enter(Duration::ZERO).await.is_ok(), "nobody waits any more");
    }

    #[tokio::test]
    async fn work_that_nobody_waits_for_ends() {
        let gate = AdmissionQueue::new(["call", "calls"], 1);
        let gate = Arc::new(gate);
        let (begun, has_begun) = tokio::sync::oneshot::channel();
        let (tell, told) = tokio::sync::oneshot::channel();
        let work = move |is_over: &(dyn Fn() -> bool + Sync)| {
            let mut rounds = 0u64;
            begun.send(()).unwrap();
            while !is_over() {
                rounds += 1;
                std::thread::yield_now();
            }
            tell.send(rounds).unwrap();
        };
        let at = Arc::clone(&gate);
        let call = async move { at.run(Duration::from_secs(60), work).await.is_ok() };
        tokio::select! {
            _ = Deadline::after(Duration::from_secs(3600)).run(call) => panic!("it ended by itself"),
            _ = has_begun => {}
        }
        told.await.unwrap();
        assert!(gate.enter(Duration::from_secs(60)).await.is_ok(), "its place is free again");
    }

    #[tokio::test(start_paused = true)]
    async fn a_place_rests_after_work() {
        let gate = AdmissionQueue::new(["call", "calls"], 1);
        rest(gate.enter(Duration::ZERO).await.unwrap(), SHORT / 2);
        assert_eq!(gate.places.available_permits(), 1, "short work needs none");
        rest(gate.enter(Duration::ZERO).await.unwrap(), Duration::from_secs(3));
        assert!(gate.enter(Duration::from_secs(2)).await.is_err());
        assert!(gate.enter(Duration::from_secs(2)).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_place_does_not_rest_after_waiting() {
        let gate = AdmissionQueue::new(["call", "calls"], 1);
        let waits = |_: &(dyn Fn() -> bool + Sync)| std::thread::sleep(3 * SHORT);
        gate.run(Duration::ZERO, waits).await.unwrap();
        assert_eq!(gate.free(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn those_that_wait_get_the_next_place() {
        let gate = AdmissionQueue::new(["batch", "batches"], 1);
        let place = gate.enter(Duration::ZERO).await.unwrap();
        let leave = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            drop(place);
        };
        let (waited, ()) = tokio::join!(gate.enter(Duration::from_secs(5)), leave);
        assert!(waited.is_ok());
    }
}
