//! Decisions as they are made, for those who watch.
//!
//! Deciding costs nothing more while nobody watches. Who watches has a queue of his own with a bound: what he does not take in
//! time is lost to him, and he is told how much that was. What fits his filter is found out on his time, not on that of
//! who decides.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use event::{Facts, Kind, Shingle};
use event_listener::Event as Signal;
use journal::IdRange;
use parking_lot::Mutex;
use plan::Pipeline;

use super::matcher::{KeyMatch, VersionMatcher};
use super::{DecisionFilter, DecisionSearchError, FactSelection, ListedDecision, check, chosen};
use crate::Engine;
use crate::pipeline::Decision;
use crate::pipeline::log;
use crate::pipeline::observe::ObservedBatch;

/// Most that watch at once.
pub const WATCHERS_MAX: usize = 16;
/// Decisions that wait for one who watches.
const QUEUED_MAX: usize = 512;
/// Versions whose matchers a watcher keeps.
const VERSIONS_MAX: usize = 16;

/// The queues of all who watch decisions.
#[derive(Debug, Default)]
pub(crate) struct LiveDecisions {
    queues: Mutex<Vec<Arc<WatchQueue>>>,
    /// The number of them.
    count: AtomicUsize,
}

/// A decision that was just made.
#[derive(Debug)]
struct LiveDecision {
    listed: ListedDecision,
    pipeline: Arc<Pipeline>,
    facts: Facts,
    keys: Vec<(Kind, Shingle)>,
}

/// The decisions that wait for one who watches.
#[derive(Debug, Default)]
struct WatchQueue {
    queued: Mutex<QueuedDecisions>,
    filled: Signal,
}

#[derive(Debug, Default)]
struct QueuedDecisions {
    decisions: VecDeque<Arc<LiveDecision>>,
    /// The number that found no place since the last that did.
    lost: u64,
}

/// The next event of a watch.
#[derive(Clone, Debug, PartialEq)]
pub enum WatchedEvent {
    /// A decision that fits the filter.
    Decision(Box<ListedDecision>),
    /// The number of decisions, whether they fit or not, that came faster than they were taken and are not shown.
    Lost(u64),
}

/// A watch over decisions: those that fit a filter, in the order in which they are logged. It ends when this is dropped.
#[derive(Debug)]
pub struct DecisionWatch {
    live: Arc<LiveDecisions>,
    queue: Arc<WatchQueue>,
    filter: DecisionFilter,
    /// The text that is looked for, in lower case.
    text: Option<String>,
    facts: FactSelection,
    keys: Vec<KeyMatch>,
    versions: Vec<VersionMatcher>,
}

impl Engine {
    /// Begins to watch decisions; `None` if [`WATCHERS_MAX`] watch already. Of the filter, times and labels are not heeded: what is just
    /// made is new, and nobody has judged it.
    ///
    /// # Errors
    /// If a filter cannot be looked for.
    pub fn watch_decisions(
        &self,
        filter: DecisionFilter,
        facts: FactSelection,
    ) -> Result<Option<DecisionWatch>, DecisionSearchError> {
        let keys = check(&filter, &self.plan(), &self.secret)?;
        let queue = Arc::new(WatchQueue::default());
        if !self.live.add(&queue) {
            return Ok(None);
        }
        let (live, text) = (Arc::clone(&self.live), filter.text.as_ref().map(|text| text.to_lowercase()));
        Ok(Some(DecisionWatch { live, queue, filter, text, facts, keys, versions: Vec::new() }))
    }

    /// Shows decisions to those who watch. Facts that are not journalled were taken away before.
    pub(crate) fn show_live(&self, observed: &ObservedBatch, decisions: &[Decision]) {
        if self.live.count.load(Ordering::Relaxed) == 0 {
            return;
        }
        let shown: Vec<Arc<LiveDecision>> = observed
            .events()
            .zip(decisions)
            .map(|(observed, decision)| {
                let row = &observed.prepared.row;
                let keys = observed.known().map(|(key, _)| (key.kind, key.shingle)).collect();
                let verdict = &decision.verdict;
                let listed = ListedDecision {
                    id: decision.id,
                    pipeline: row.pipeline.name.clone(),
                    version: row.pipeline.version.clone(),
                    event_id: decision.event_id.clone(),
                    time: decision.time,
                    arrival: row.arrival,
                    duplicate: decision.duplicate,
                    action: verdict.action,
                    score: verdict.score,
                    probability: verdict.probability,
                    rules: verdict.reasons.iter().map(|reason| (reason.rule.clone(), reason.score)).collect(),
                    shadow: verdict.shadow.iter().map(|reason| reason.rule.clone()).collect(),
                    label: None,
                    facts: Vec::new(),
                };
                Arc::new(LiveDecision {
                    listed,
                    pipeline: Arc::clone(&row.pipeline),
                    facts: row.facts.clone(),
                    keys,
                })
            })
            .collect();
        let queues = self.live.queues.lock().clone();
        for queue in queues {
            queue.put(&shown);
        }
    }
}

impl LiveDecisions {
    fn add(&self, queue: &Arc<WatchQueue>) -> bool {
        let mut queues = self.queues.lock();
        if queues.len() >= WATCHERS_MAX {
            return false;
        }
        queues.push(Arc::clone(queue));
        self.count.store(queues.len(), Ordering::Relaxed);
        true
    }

    fn remove(&self, queue: &Arc<WatchQueue>) {
        let mut queues = self.queues.lock();
        queues.retain(|other| !Arc::ptr_eq(other, queue));
        self.count.store(queues.len(), Ordering::Relaxed);
    }
}

impl WatchQueue {
    fn put(&self, shown: &[Arc<LiveDecision>]) {
        let mut queued = self.queued.lock();
        let room = QUEUED_MAX - queued.decisions.len().min(QUEUED_MAX);
        // What is lost is said in its place: nothing is put behind a gap that nobody was told of.
        let taken = if queued.lost > 0 { 0 } else { room.min(shown.len()) };
        queued.decisions.extend(shown.iter().take(taken).cloned());
        queued.lost += (shown.len() - taken) as u64;
        drop(queued);
        self.filled.notify(1);
    }

    /// The next decision, or how many were lost.
    fn take(&self) -> Option<Result<Arc<LiveDecision>, u64>> {
        let mut queued = self.queued.lock();
        match queued.decisions.pop_front() {
            Some(decision) => Some(Ok(decision)),
            None => Some(std::mem::take(&mut queued.lost)).filter(|lost| *lost > 0).map(Err),
        }
    }
}

impl DecisionWatch {
    /// Waits for the next decision that fits.
    pub async fn next(&mut self) -> WatchedEvent {
        /// Decisions that are looked at before others have a turn.
        const AT_ONCE: usize = 64;
        loop {
            let listener = self.queue.filled.listen();
            for _ in 0..AT_ONCE {
                match self.queue.take() {
                    Some(Err(lost)) => return WatchedEvent::Lost(lost),
                    Some(Ok(decision)) => {
                        if let Some(listed) = self.listed(&decision) {
                            return WatchedEvent::Decision(Box::new(listed));
                        }
                    }
                    None => break,
                }
            }
            if self.queue.is_empty() {
                listener.await;
            } else {
                yield_once().await;
            }
        }
    }

    /// The decision as it is shown, if it fits.
    fn listed(&mut self, decision: &LiveDecision) -> Option<ListedDecision> {
        let LiveDecision { listed, pipeline, facts, keys } = decision;
        let query = self.filter.row_query(IdRange::default());
        let mut fired = listed.rules.iter().map(|(rule, _)| rule).chain(&listed.shadow);
        let fits = self.filter.pipeline.as_ref().is_none_or(|wanted| *wanted == listed.pipeline)
            && (query.rule.is_none() || fired.any(|fired| query.has_rule(fired)))
            && query.has_event_id(listed.event_id.as_deref())
            && query.has_score(listed.score)
            && query.has_action(listed.action);
        if !fits {
            return None;
        }
        let known = self.versions.iter().position(|known| known.is_of(&listed.pipeline, &listed.version));
        let place = match known {
            Some(place) => place,
            None => {
                if self.versions.len() >= VERSIONS_MAX {
                    self.versions.clear();
                }
                let mut made = VersionMatcher::new(&listed.pipeline, &listed.version);
                made.compile(&self.filter, &self.keys, &log::description(pipeline));
                self.versions.push(made);
                self.versions.len() - 1
            }
        };
        if !self.versions[place].fits_whole(facts, self.text.as_deref(), keys) {
            return None;
        }
        let facts = chosen(&self.facts, pipeline.schema.columns(), facts);
        Some(ListedDecision { facts, ..listed.clone() })
    }
}

impl WatchQueue {
    fn is_empty(&self) -> bool {
        let queued = self.queued.lock();
        queued.decisions.is_empty() && queued.lost == 0
    }
}

impl Drop for DecisionWatch {
    fn drop(&mut self) {
        self.live.remove(&self.queue);
    }
}

/// Lets others have a turn.
async fn yield_once() {
    let mut is_first = true;
    std::future::poll_fn(|context| {
        if std::mem::take(&mut is_first) {
            context.waker().wake_by_ref();
            return std::task::Poll::Pending;
        }
        std::task::Poll::Ready(())
    })
    .await;
}
