//! Combining of takes from several conversations into one batch.
//!
//! A thread that serves many connections finds many of them readable at once. Each conversation puts its takes into the
//! batch that is open on its thread and lets the others go first. Who comes back first decides them all, and the others
//! find what came of theirs. So the ledger is asked once for all of them, and their answers are written one right after
//! the other: a client with many connections is woken once and not by each, which costs as much as many takes.
//!
//! A batch never waits for more to come: it ends as soon as nobody else of the thread is ready.

use parking_lot::Mutex;
use std::cell::RefCell;
use std::ops::Range;
use std::sync::{Arc, Weak};
use std::time::Instant;

use engine::limit::{Take, TakeResult};
use prometheus_client::metrics::histogram::Histogram;
use tokio::sync::OnceCell;
use tokio::task::yield_now;

use super::RespContext;
use super::engine_call::in_time;
use super::take::TakeRequest;
use crate::core::listener_context::DecisionFailure;
use crate::core::shares::Caller;

/// Takes that are decided as one batch: what is made of them stays in the processor's caches.
pub(super) const TAKES_MAX: usize = 256;

thread_local! {
    /// The batch that conversations of this thread join. Weak, so that it ends with the last of them.
    static OPEN: RefCell<Weak<TakeBatch>> = const { RefCell::new(Weak::new()) };
}

#[derive(Debug)]
struct TakeBatch {
    /// Only conversations of one listener decide together: they have its patience in common.
    listener: Arc<RespContext>,
    /// The takes that are to be made, until somebody decides.
    asked: Mutex<Option<Vec<TakeRequest>>>,
    decided: OnceCell<Result<DecidedTakes, String>>,
}

/// The takes that were to be made, and the outcome of each.
#[derive(Debug)]
struct DecidedTakes {
    asked: Vec<TakeRequest>,
    taken: Vec<TakeResult>,
}

/// A conversation's part of a batch.
#[derive(Debug)]
pub(super) struct TakeBatchSlot {
    batch: Arc<TakeBatch>,
    places: Range<usize>,
}

impl TakeBatchSlot {
    /// Puts takes, at most [`TAKES_MAX`], into the batch of this thread, which is then decided before long.
    pub(super) async fn join(listener: &Arc<RespContext>, takes: &mut Vec<TakeRequest>) -> TakeBatchSlot {
        let slot = OPEN.with_borrow_mut(|open| {
            let known = open.upgrade().filter(|batch| Arc::ptr_eq(&batch.listener, listener));
            if let Some(batch) = known
                && let Some(places) = batch.add(takes)
            {
                return TakeBatchSlot { batch, places };
            }
            let places = 0..takes.len();
            let asked = Mutex::new(Some(std::mem::take(takes)));
            let batch =
                Arc::new(TakeBatch { listener: Arc::clone(listener), asked, decided: OnceCell::new() });
            *open = Arc::downgrade(&batch);
            TakeBatchSlot { batch, places }
        });
        yield_now().await;
        slot
    }

    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// Returns what was to be taken, and what came of it, in its order.
    ///
    /// # Errors
    /// Why nothing can be told, as an answer.
    pub(super) async fn taken(
        &self,
        batches: &Histogram,
    ) -> Result<impl Iterator<Item = (&TakeRequest, &TakeResult)>, &str> {
        let decided = self.batch.decided.get_or_init(|| self.batch.decide(batches)).await;
        let DecidedTakes { asked, taken } = decided.as_ref().map_err(String::as_str)?;
        let asked = asked.get(self.places.clone()).unwrap_or_default();
        Ok(asked.iter().zip(taken.get(self.places.clone()).unwrap_or_default()))
    }
}

impl TakeBatch {
    /// Adds takes, unless it is being decided already or would become too long.
    fn add(&self, takes: &mut Vec<TakeRequest>) -> Option<Range<usize>> {
        let mut asked = self.asked.lock();
        let asked = asked.as_mut().filter(|asked| asked.len() + takes.len() <= TAKES_MAX)?;
        let start = asked.len();
        asked.append(takes);
        Some(start..asked.len())
    }

    async fn decide(&self, batches: &Histogram) -> Result<DecidedTakes, String> {
        let started = Instant::now();
        let asked = self.asked.lock().take();
        // Only where whoever was to decide has panicked, or was given up meanwhile: whether anything was taken is not known.
        let asked = asked.ok_or_else(|| format!("TRYAGAIN {}", DecisionFailure::Defect))?;
        let takes: Vec<Take<'_>> = asked.iter().map(TakeRequest::take).collect();
        // Several clients ask in one batch, so its place is nobody's own.
        let taken = in_time(&self.listener, Caller::Local, |engine, now| engine.take_each(&takes, now)).await;
        batches.observe(started.elapsed().as_secs_f64());
        let node = &self.listener.node;
        if let Some(trace) = node.begin_trace(started, None, false, None) {
            let answer = if taken.is_ok() { "answered" } else { "undecided" };
            trace.stage("limits", started);
            trace.finish_listener("take", &self.listener.plan.name, answer, taken.is_err());
        }
        // Where there is no place, or no time, the limits' `on_error` decides.
        let taken = taken.unwrap_or_else(|_| node.engine.untaken(&takes, node.now()));
        drop(takes);
        Ok(DecidedTakes { taken, asked })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use engine::{Directory, Engine, LedgerHome};
    use event::{Key, Time};
    use plan::{Config, Overrides, Plan, ProtocolPlan};
    use stats::{
        CancellationCheck, Catalog, EmbeddedLedger, HottestQuery, Ledger, LedgerCensus, LedgerError,
        LedgerFuture, ObserveOutcomes, ObserveRequest, Timeline,
    };
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
    use tokio::net::UnixStream;
    use tokio::sync::watch;
    use tokio::time::timeout;

    use super::*;
    use crate::core::listener::ShutdownSignal;
    use crate::core::node::Node;
    use crate::core::socket::{ListenerSocket, PlainSocket};
    use crate::core::write_timeout::WriteTimeoutStream;
    use crate::protocol::resp::converse;

    const CLIENTS: usize = 3;
    /// A take from a bucket that gets nothing back while a test runs, as its clock stands still.
    const TAKE: &[u8] = b"CL.THROTTLE shared 99 1 3600\n";
    const QUOTA: i64 = 100;
    /// Never reached where nobody hangs.
    const DEADLINE: Duration = Duration::from_secs(60);

    /// A ledger that does nothing until it is let.
    struct HeldLedger {
        home: EmbeddedLedger,
        open: watch::Receiver<bool>,
        asked: Arc<AtomicUsize>,
    }

    impl Ledger for HeldLedger {
        fn observe_each<'a>(&'a self, requests: &'a [ObserveRequest]) -> LedgerFuture<'a, ObserveOutcomes> {
            Box::pin(async move {
                self.asked.fetch_add(1, Ordering::Relaxed);
                self.open.clone().wait_for(|open| *open).await.unwrap();
                self.home.observe_each(requests).await
            })
        }

        fn timeline<'a>(&'a self, key: Key) -> LedgerFuture<'a, Option<Timeline>> {
            self.home.timeline(key)
        }

        fn hottest<'a>(
            &'a self,
            queries: &'a [HottestQuery],
            now: Time,
            is_over: CancellationCheck<'a>,
        ) -> LedgerFuture<'a, Vec<Vec<(Key, u64)>>> {
            self.home.hottest(queries, now, is_over)
        }

        fn erase<'a>(
            &'a self,
            shingles: &'a std::collections::HashSet<event::Shingle>,
            pretend: bool,
            is_over: CancellationCheck<'a>,
        ) -> LedgerFuture<'a, stats::ErasedKeys> {
            self.home.erase(shingles, pretend, is_over)
        }

        fn set_catalog(&self, catalog: Catalog) -> Result<(), LedgerError> {
            self.home.set_catalog(catalog)
        }

        fn maintain(&self, now: Time) -> Result<(), LedgerError> {
            self.home.maintain(now)
        }

        fn sync(&self) -> LedgerFuture<'_, ()> {
            self.home.sync()
        }

        fn close(&self) -> Result<(), LedgerError> {
            self.home.close()
        }

        fn census(&self) -> LedgerCensus {
            self.home.census()
        }
    }

    /// The end of a client's part while the ledger is being asked.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum End {
        /// The client closes its connection.
        Closed,
        /// Its conversation is given up, as by a defect.
        GivenUp,
    }

    /// Returns what a take is answered: what is left, or an error.
    async fn heard(client: &mut BufReader<UnixStream>) -> Result<i64, String> {
        let mut line = String::new();
        client.read_line(&mut line).await.unwrap();
        if let Some(error) = line.strip_prefix('-') {
            return Err(error.trim_end().to_owned());
        }
        assert_eq!(line, "*5\r\n");
        let mut numbers = [0; 5];
        for number in &mut numbers {
            line.clear();
            client.read_line(&mut line).await.unwrap();
            *number = line.trim_start_matches(':').trim_end().parse().unwrap();
        }
        assert_eq!(numbers[0], 0, "it is allowed");
        Ok(numbers[2])
    }

    /// Clients take in one batch, and one of them ends before the ledger answers. Says whether the others were told to try again.
    async fn ends_meanwhile(leaver: usize, end: End) -> bool {
        let parent = tempfile::tempdir().unwrap();
        let directory = Directory::create(&parent.path().join("data"), &[]).unwrap();
        let text =
            "[[listener]]\nname = \"m\"\nprotocol = \"resp\"\nlisten = \"[::1]:0\"\ntimeout = \"10m\"\n";
        let plan = Plan::compile(&Config::from_text("test.toml", text, &Overrides::default()));
        let plan = plan.unwrap_or_else(|problems| panic!("{problems}"));
        let (let_go, open) = watch::channel(false);
        let asked = Arc::new(AtomicUsize::new(0));
        let asked_there = Arc::clone(&asked);
        let held = |plan: &Plan| {
            let home = EmbeddedLedger::in_memory(plan.catalog.clone(), plan.node.ledger_memory)?;
            Ok(LedgerHome::Elsewhere(Box::new(HeldLedger { home, open, asked: asked_there })))
        };
        let engine = Arc::new(Engine::open_over(&directory, plan, None, held).unwrap());
        let plan = engine.plan();
        let listener = &plan.node.listeners[0];
        let ProtocolPlan::Resp(resp) = &listener.settings else { panic!("{listener:?}") };
        let listener = listener.with(resp.clone());
        let clock = crate::Clock::driven(|| Time::from_seconds(1_779_012_000));
        let listener = Arc::new(RespContext::new(Arc::new(Node::new(engine, clock)), listener));
        let (_node_ends, stop) = ShutdownSignal::new();

        // All of them are readable before the first is read, on a runtime of one thread: so they are one batch.
        let mut sockets = Vec::new();
        for _ in 0..CLIENTS {
            let (mut client, served) = UnixStream::pair().unwrap();
            client.write_all(TAKE).await.unwrap();
            served.readable().await.unwrap();
            sockets.push((client, served));
        }
        let begin = |(client, served)| {
            let socket = ListenerSocket::Plain(PlainSocket::Unix(served));
            let stream = WriteTimeoutStream::new(socket, DEADLINE);
            (BufReader::new(client), tokio::spawn(converse(stream, Arc::clone(&listener), stop.clone())))
        };
        let mut clients: Vec<_> = sockets.into_iter().map(begin).collect();
        while asked.load(Ordering::Relaxed) == 0 {
            yield_now().await;
        }

        let (client, talk) = clients.remove(leaver);
        match end {
            End::Closed => drop(client),
            End::GivenUp => {
                talk.abort();
                assert!(talk.await.unwrap_err().is_cancelled());
            }
        }
        let_go.send(true).unwrap();
        let mut left = BTreeSet::new();
        let mut errors = Vec::new();
        for (client, _) in &mut clients {
            match heard(client).await {
                Ok(number) => assert!(left.insert(number), "two were given the same"),
                Err(error) => errors.push(error),
            }
        }
        assert_eq!(asked.load(Ordering::Relaxed), 1, "they were one batch, and nobody asked for it again");
        let of_batch = QUOTA - CLIENTS as i64..QUOTA;
        assert!(left.iter().all(|left| of_batch.contains(left)), "{left:?}");
        assert!(errors.iter().all(|error| error.starts_with("TRYAGAIN ")), "{errors:?}");
        assert!(left.is_empty() || errors.is_empty(), "they are answered alike: {left:?} {errors:?}");

        // It goes on, and each take of the batch was counted once, or none.
        let counted = if errors.is_empty() { CLIENTS as i64 } else { 0 };
        for (take, (client, _)) in (1..).zip(&mut clients) {
            client.write_all(TAKE).await.unwrap();
            assert_eq!(heard(client).await, Ok(QUOTA - counted - take));
        }
        for (client, talk) in clients {
            drop(client);
            talk.await.unwrap();
        }
        !errors.is_empty()
    }

    #[tokio::test]
    async fn whoever_leaves_a_batch_leaves_nobody_waiting() {
        let mut lost = Vec::new();
        for leaver in 0..CLIENTS {
            for end in [End::Closed, End::GivenUp] {
                let is_lost = timeout(DEADLINE, ends_meanwhile(leaver, end)).await.expect("nobody hangs");
                if is_lost {
                    lost.push(end);
                }
            }
        }
        assert_eq!(lost, [End::GivenUp], "only who asks the ledger for all takes their answers along");
    }
}
