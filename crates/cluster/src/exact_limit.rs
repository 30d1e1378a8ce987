//! Limits that are exact: what is asked of them is decided where their counts lie, and not by what this node knows.
//!
//! ```text
//! observe ─► asks ─► queue of the partition ─► round `number`, at most `ROUND_ASKS` ─► RemoteCluster::take ─► what cells had before
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

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use event::Time;
use futures_util::future::{Either, select};
use stats::Addition;
use stats::limit::GcraOperation;

use crate::call::ObserveCall;
use crate::catalog::ClusterCatalog;
use crate::core::ClusterCore;
use crate::exact_queue::{ExactLimitReadings, ExactLimitResults, QueuedRequest, RequestWaiter, SentBatch};
use crate::in_flight::{InFlightCall, InFlightGuard};
use crate::intent::MarkStatuses;
use crate::remote::{
    ExactLimitBatch, ExactLimitRequest, Partition, PriorReading, RemoteCell, RemoteError, TIME_MAX,
};

/// Returns true if what becomes of the addition shows in the answer, also if there is none.
fn is_take(add: &Addition) -> bool {
    matches!(add, Addition::Nothing | Addition::Take(_) | Addition::Flow(GcraOperation::Take { .. }))
}

impl ClusterCore {
    /// Asks what a call is to know and to take of exact limits. Requests of which what is given back, or counted in any
    /// case, may not have been are in doubt then.
    pub(crate) async fn decide(
        self: &Arc<ClusterCore>,
        catalog: &ClusterCatalog,
        call: &ObserveCall<'_>,
        verdicts: &mut MarkStatuses,
    ) -> ExactLimitReadings {
        let (flight, answers) = (Arc::<InFlightCall>::default(), Arc::<ExactLimitResults>::default());
        let landing = Arc::new(InFlightGuard(flight.clone()));
        let mut readings = Vec::new();
        let mut items = Vec::new();
        for (request, reading, planned, observation) in call.exact(catalog) {
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
            readings.push((request, reading, is_take(&ask.add)));
            items.push(QueuedRequest { ask, who });
        }
        drop(landing);
        if items.is_empty() {
            return ExactLimitReadings::default();
        }
        self.counts.exact.fetch_add(items.len() as u64, Ordering::Relaxed);
        answers.lock().resize(items.len(), None);
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
        let answers = std::mem::take(&mut *answers.lock());
        let mut decisions = ExactLimitReadings::default();
        for ((request, reading, is_take), answer) in readings.into_iter().zip(answers) {
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
                verdicts.doubt(request, why);
            }
        }
        decisions
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
