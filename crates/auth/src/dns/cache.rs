//! Answers that are kept: each name is asked for once, however many want it, and again when its time is over.
//!
//! When the resolvers fail, or take longer than who asks can wait, an answer whose time is over stands in for a
//! while (RFC 8767), and a failure without one is kept for a moment (RFC 9520). An answer that comes after everybody
//! has gone is kept all the same. The bound is in bytes; what was used least lately and seldom goes first.

use parking_lot::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use moka::sync::Cache as Store;
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, timeout, timeout_at};

use super::{DnsAnswer, DnsRecord, DnsRecordType, DnsUpstream, normal};
use crate::metrics::{DnsAnswerSource, DnsMetrics};

/// The time for which a failure is kept.
const FAILURE: Duration = Duration::from_secs(5);
/// The number of bytes that an entry takes beside its name and its records.
const ENTRY_BYTES: usize = 160;
/// Longest time for one question, all servers and repetitions taken together: who asks went long before.
const FLIGHT: Duration = Duration::from_secs(30);

/// The bounds of a cache.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DnsCacheLimits {
    pub(crate) ttl_min: Duration,
    pub(crate) ttl_max: Duration,
    pub(crate) negative_max: Duration,
    /// The time for which an answer may stand in after its own time is over.
    pub(crate) stale: Duration,
    /// Bytes of all entries.
    pub(crate) memory: u64,
    /// Questions under way at once.
    pub(crate) queries_max: usize,
}

type DnsKey = (DnsRecordType, Box<str>);

#[derive(Clone, Debug)]
struct DnsEntry {
    answer: DnsAnswer,
    fresh_until: Instant,
    /// Until when it may stand in.
    stale_until: Instant,
}

/// The receiver of a flight's result, for those who wait for it: nothing yet, or the answer.
type DnsFlight = watch::Receiver<Option<DnsAnswer>>;

/// A cache with resolvers behind it.
pub(crate) struct DnsCache {
    upstream: Box<dyn DnsUpstream>,
    limits: DnsCacheLimits,
    entries: Store<DnsKey, DnsEntry>,
    flights: Mutex<HashMap<DnsKey, DnsFlight>>,
    places: Arc<Semaphore>,
    metrics: DnsMetrics,
}

impl DnsCache {
    pub(crate) fn new(
        upstream: Box<dyn DnsUpstream>,
        limits: DnsCacheLimits,
        metrics: DnsMetrics,
    ) -> DnsCache {
        let entries = Store::builder()
            .max_capacity(limits.memory)
            .weigher(|key: &DnsKey, entry: &DnsEntry| u32::try_from(weight(key, entry)).unwrap_or(u32::MAX))
            .time_to_live(limits.ttl_max.max(limits.negative_max) + limits.stale)
            .build();
        let places = Arc::new(Semaphore::new(limits.queries_max.min(Semaphore::MAX_PERMITS)));
        DnsCache { upstream, limits, entries, flights: Mutex::default(), places, metrics }
    }

    /// The metrics that it counts in.
    pub(crate) fn metrics(&self) -> &DnsMetrics {
        &self.metrics
    }

    /// Answers a question, at the latest at the deadline. Runs on Tokio's runtime.
    pub(crate) async fn lookup(
        self: &Arc<Self>,
        name: &str,
        kind: DnsRecordType,
        deadline: Instant,
    ) -> DnsAnswer {
        let Some(name) = normal(name) else { return DnsAnswer::NoName };
        let key = (kind, name);
        let known = self.entries.get(&key);
        if let Some(entry) = known.as_ref().filter(|entry| entry.fresh_until > Instant::now()) {
            self.metrics.lookup(DnsAnswerSource::Cache);
            return entry.answer.clone();
        }
        let stale = || {
            let entry = known.as_ref().filter(|entry| entry.stale_until > Instant::now())?;
            self.metrics.lookup(DnsAnswerSource::Stale);
            Some(entry.answer.clone())
        };
        let mut flight = match self.flight(key) {
            Ok(flight) => flight,
            Err(answer) => {
                return Some(answer)
                    .filter(|answer| !answer.is_unknown())
                    .or_else(stale)
                    .unwrap_or(DnsAnswer::Failed);
            }
        };
        let answer = match timeout_at(deadline, flight.wait_for(Option::is_some)).await {
            Ok(Ok(answer)) => answer.clone().unwrap_or(DnsAnswer::Failed),
            Ok(Err(_)) => DnsAnswer::Failed,
            Err(_) => DnsAnswer::TimedOut,
        };
        if !answer.is_unknown() {
            return answer;
        }
        if answer == DnsAnswer::TimedOut {
            self.metrics.timeouts.inc();
        }
        stale().unwrap_or(answer)
    }

    /// The flight that is under way for a question, or a new one; an answer where there is one by now, or no room.
    fn flight(self: &Arc<Self>, key: DnsKey) -> Result<DnsFlight, DnsAnswer> {
        let mut flights = self.flights();
        if let Some(flight) = flights.get(&key) {
            self.metrics.lookup(DnsAnswerSource::Flight);
            return Ok(flight.clone());
        }
        // It may have landed since this was asked.
        if let Some(entry) = self.entries.get(&key).filter(|entry| entry.fresh_until > Instant::now()) {
            self.metrics.lookup(DnsAnswerSource::Cache);
            return Err(entry.answer);
        }
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            self.metrics.lookup(DnsAnswerSource::Refused);
            return Err(DnsAnswer::Failed);
        };
        self.metrics.lookup(DnsAnswerSource::Upstream);
        let (landed, flight) = watch::channel(None);
        flights.insert(key.clone(), flight.clone());
        drop(flights);
        let landing = DnsFlightGuard { cache: Arc::clone(self), key };
        tokio::spawn(async move {
            let _place = place;
            let answer = landing.cache.ask(&landing.key).await;
            // Before anybody who waits goes on, nobody finds the flight any more.
            drop(landing);
            landed.send_replace(Some(answer));
        });
        Ok(flight)
    }

    /// Asks the resolvers and keeps what they say.
    async fn ask(&self, key: &DnsKey) -> DnsAnswer {
        let begun = Instant::now();
        let reply = timeout(FLIGHT, self.upstream.query(key.1.clone(), key.0)).await;
        let now = Instant::now();
        let (answer, ttl) = match reply {
            Ok(reply) => (reply.answer, reply.ttl),
            Err(_) => (DnsAnswer::TimedOut, None),
        };
        self.metrics.answered(answer.name(), now - begun);
        let limits = &self.limits;
        let entry = match answer {
            DnsAnswer::Found(_) | DnsAnswer::Nothing | DnsAnswer::NoName => {
                let max =
                    if matches!(answer, DnsAnswer::Found(_)) { limits.ttl_max } else { limits.negative_max };
                let fresh = now + ttl.unwrap_or(max).max(limits.ttl_min).min(max);
                DnsEntry { answer, fresh_until: fresh, stale_until: fresh + limits.stale }
            }
            DnsAnswer::Failed | DnsAnswer::TimedOut => match self.entries.get(key) {
                // What stands in is not asked for again for a moment.
                Some(known) if known.stale_until > now && !known.answer.is_unknown() => {
                    self.metrics.lookup(DnsAnswerSource::Stale);
                    DnsEntry { fresh_until: (now + FAILURE).min(known.stale_until), ..known }
                }
                _ => DnsEntry { answer: DnsAnswer::Failed, fresh_until: now + FAILURE, stale_until: now },
            },
        };
        let answer = entry.answer.clone();
        self.entries.insert(key.clone(), entry);
        answer
    }

    fn flights(&self) -> MutexGuard<'_, HashMap<DnsKey, DnsFlight>> {
        // A map of handles is sound at every moment.
        self.flights.lock()
    }
}

/// Takes a flight off the list, also if it crashed.
struct DnsFlightGuard {
    cache: Arc<DnsCache>,
    key: DnsKey,
}

impl Drop for DnsFlightGuard {
    fn drop(&mut self) {
        self.cache.flights().remove(&self.key);
    }
}

fn weight((_, name): &DnsKey, entry: &DnsEntry) -> usize {
    let records = entry.answer.records().iter().map(|record| {
        size_of::<DnsRecord>()
            + match record {
                DnsRecord::A(_) | DnsRecord::Aaaa(_) => 0,
                DnsRecord::Mx(_, name) | DnsRecord::Ptr(name) => name.len(),
                DnsRecord::Txt(text) => text.len(),
            }
    });
    ENTRY_BYTES + name.len() + records.sum::<usize>()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use futures_util::future::{BoxFuture, join_all};
    use tokio::time::sleep;

    use super::super::DnsReply;
    use super::*;

    /// Answers each question after a time with how many there were; after some it fails.
    #[derive(Clone)]
    struct CountingResolver {
        asked: Arc<AtomicU32>,
        takes: Duration,
        fails_after: u32,
    }

    impl DnsUpstream for CountingResolver {
        fn query(&self, name: Box<str>, _: DnsRecordType) -> BoxFuture<'static, DnsReply> {
            let own = self.clone();
            Box::pin(async move {
                let count = own.asked.fetch_add(1, Ordering::SeqCst) + 1;
                sleep(own.takes).await;
                assert_ne!(&*name, "crash.example");
                let answer = match &*name {
                    "none.example" => DnsAnswer::NoName,
                    _ if count > own.fails_after => DnsAnswer::Failed,
                    _ => DnsAnswer::Found([DnsRecord::A(count.into())].into()),
                };
                DnsReply { answer, ttl: Some(Duration::from_secs(60)) }
            })
        }
    }

    const SECOND: Duration = Duration::from_secs(1);

    fn limits() -> DnsCacheLimits {
        DnsCacheLimits {
            ttl_min: SECOND,
            ttl_max: 100 * SECOND,
            negative_max: 10 * SECOND,
            stale: 1000 * SECOND,
            memory: 1 << 20,
            queries_max: 100,
        }
    }

    fn cache(takes: Duration, fails_after: u32, limits: DnsCacheLimits) -> (Arc<DnsCache>, Arc<AtomicU32>) {
        let upstream = CountingResolver { asked: Arc::default(), takes, fails_after };
        let asked = Arc::clone(&upstream.asked);
        (Arc::new(DnsCache::new(Box::new(upstream), limits, DnsMetrics::default())), asked)
    }

    async fn ask(cache: &Arc<DnsCache>, name: &str, patience: Duration) -> DnsAnswer {
        cache.lookup(name, DnsRecordType::A, Instant::now() + patience).await
    }

    fn found(count: u32) -> DnsAnswer {
        DnsAnswer::Found([DnsRecord::A(count.into())].into())
    }

    #[tokio::test(start_paused = true)]
    async fn a_name_is_asked_for_once_however_many_ask() {
        let (cache, asked) = cache(2 * SECOND, u32::MAX, limits());
        let long_deadline = join_all((0..1000).map(|_| ask(&cache, "A.example.", 5 * SECOND)));
        let hasty = ask(&cache, "a.example", SECOND);
        let (long_deadline, hasty) = tokio::join!(long_deadline, hasty);
        assert!(long_deadline.iter().all(|answer| *answer == found(1)));
        assert_eq!(hasty, DnsAnswer::TimedOut);
        assert_eq!(asked.load(Ordering::SeqCst), 1);
        // Kept for its time, then asked for again.
        sleep(59 * SECOND).await;
        assert_eq!(ask(&cache, "a.example", SECOND).await, found(1));
        sleep(2 * SECOND).await;
        assert_eq!(ask(&cache, "a.example", 5 * SECOND).await, found(2));
        // Another type of record is another question.
        cache.lookup("a.example", DnsRecordType::Txt, Instant::now() + 5 * SECOND).await;
        assert_eq!(asked.load(Ordering::SeqCst), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_came_too_late_is_kept() {
        let (cache, asked) = cache(2 * SECOND, u32::MAX, limits());
        assert_eq!(ask(&cache, "a.example", SECOND).await, DnsAnswer::TimedOut);
        sleep(2 * SECOND).await;
        assert_eq!(ask(&cache, "a.example", Duration::ZERO).await, found(1));
        assert_eq!(asked.load(Ordering::SeqCst), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_not_there_is_kept_for_less() {
        let (cache, asked) = cache(Duration::ZERO, u32::MAX, limits());
        assert_eq!(ask(&cache, "none.example", SECOND).await, DnsAnswer::NoName);
        sleep(9 * SECOND).await;
        assert_eq!(ask(&cache, "none.example", SECOND).await, DnsAnswer::NoName);
        assert_eq!(asked.load(Ordering::SeqCst), 1);
        sleep(2 * SECOND).await;
        ask(&cache, "none.example", SECOND).await;
        assert_eq!(asked.load(Ordering::SeqCst), 2);
        // What cannot be a name is nobody's business.
        assert_eq!(ask(&cache, "a b", SECOND).await, DnsAnswer::NoName);
        assert_eq!(asked.load(Ordering::SeqCst), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn an_old_answer_stands_in_for_a_while() {
        let (cache, asked) = cache(2 * SECOND, 1, limits());
        assert_eq!(ask(&cache, "a.example", 5 * SECOND).await, found(1));
        sleep(61 * SECOND).await;
        // Who cannot wait gets the old one, and so does who waits for a failure.
        assert_eq!(ask(&cache, "a.example", SECOND).await, found(1));
        assert_eq!(ask(&cache, "a.example", 5 * SECOND).await, found(1));
        assert_eq!(asked.load(Ordering::SeqCst), 2);
        // For a moment nobody asks.
        sleep(4 * SECOND).await;
        assert_eq!(ask(&cache, "a.example", SECOND).await, found(1));
        assert_eq!(asked.load(Ordering::SeqCst), 2);
        sleep(1200 * SECOND).await;
        assert_eq!(ask(&cache, "a.example", 5 * SECOND).await, DnsAnswer::Failed);
        // A failure is kept for a moment, too.
        assert_eq!(ask(&cache, "a.example", 5 * SECOND).await, DnsAnswer::Failed);
        assert_eq!(asked.load(Ordering::SeqCst), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn questions_and_memory_are_bounded() {
        let limits = DnsCacheLimits { queries_max: 3, memory: 10_000, ..limits() };
        let (cache, asked) = cache(SECOND, u32::MAX, limits);
        let names: Vec<String> = (0..10).map(|number| format!("{number}.example")).collect();
        let answers = join_all(names.iter().map(|name| ask(&cache, name, 5 * SECOND))).await;
        assert_eq!(answers.iter().filter(|answer| **answer == DnsAnswer::Failed).count(), 7);
        assert_eq!(asked.load(Ordering::SeqCst), 3);
        for number in 0..1000 {
            ask(&cache, &format!("b{number}.example"), 5 * SECOND).await;
        }
        cache.entries.run_pending_tasks();
        assert!(cache.entries.weighted_size() <= 10_000 && cache.entries.entry_count() > 10);
        assert!(cache.flights().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_crash_is_a_failure_and_leaves_nothing_behind() {
        let (cache, _) = cache(SECOND, u32::MAX, limits());
        assert_eq!(ask(&cache, "crash.example", 5 * SECOND).await, DnsAnswer::Failed);
        assert!(cache.flights().is_empty());
        assert_eq!(cache.places.available_permits(), 100);
    }
}
