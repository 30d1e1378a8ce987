//! Records that another filter has of senders are counted for the senders' keys, as if the messages had come here.
//!
//! A record says how many messages there were and how that filter judged them. So it adds to the counters that events and verdicts
//! add to, and to no others: a sender becomes known by it, and verdicts make no grade. How much of a record was counted is
//! remembered where votes are, for 90 days: the same record counts once, and one that has grown counts by what it has grown.

use std::sync::Arc;

use event::{Event, Key, Span, Time};
use judge::Action;
use plan::{KindPlan, Pipeline, REPORT};
use stats::{Addition, Catalog, DedupeMark, LedgerError, Measure, Observation, ObserveRequest, Origin};

use crate::Engine;
use crate::feedback::greatest;
use crate::pipeline::keys::{self, PreparedEvent};
use crate::pipeline::observe::counters;

/// The least age of what is counted: a rule about the last hour or day would take all of a record for a crowd.
const AGE_MIN: Span = Span::hours(25);

/// The record that another filter has of a sender.
#[derive(Clone, Debug)]
pub struct SenderHistory {
    /// Tells the record from all others, of other filters, too.
    pub name: String,
    /// An event with the sender's fields and nothing else.
    pub event: Event,
    /// The number of the sender's messages.
    pub count: u64,
    /// The action that stands for the verdict on them, if it was clear.
    pub verdict: Option<Action>,
    /// The time of the latest one.
    pub last: Time,
}

/// The outcome of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HistoryOutcome {
    /// Messages that were counted, or would be.
    Counted(u64),
    /// All of it had been counted before.
    Duplicate,
    /// No window of the sender's statistics reaches back so far.
    Expired,
    /// The pipeline counts nothing of such a sender.
    Keyless,
}

/// Reasons to refuse records.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// A pipeline that cannot remember what was counted.
    #[error("the pipeline `{0}` has no [feedback], with which it is remembered what was imported")]
    Forgetful(String),
    /// The ledger.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

impl Engine {
    /// Counts what records say that was not counted before, or says what would be. The outcomes are in the order of the records.
    ///
    /// # Errors
    /// If the pipeline cannot remember records, and the ledger's: then some may have been counted, and will not be again.
    pub async fn count_history(
        &self,
        pipeline: &Arc<Pipeline>,
        records: Vec<SenderHistory>,
        now: Time,
        pretend: bool,
    ) -> Result<Vec<HistoryOutcome>, HistoryError> {
        if pipeline.reports.is_none() {
            return Err(HistoryError::Forgetful(pipeline.name.clone()));
        }
        let plan = self.plan();
        let marks: Vec<Key> = records.iter().map(|record| self.history_mark(pipeline, record)).collect();
        let look = |key: &Key| Observation { key: *key, time: now, add: Addition::Nothing };
        let looks = marks.chunks(ObserveRequest::OBSERVATIONS_MAX).map(|marks| ObserveRequest {
            observations: marks.iter().map(look).collect(),
            ..ObserveRequest::default()
        });
        let known = self.ledger.observe(&looks.collect::<Vec<_>>()).await?;
        let known: Vec<u64> = known
            .all()
            .map(|reading| greatest(&reading.to_reading()).map_or(0, |count| count.max(0).cast_unsigned()))
            .collect();
        let (mut outcomes, mut requests, mut places) = (Vec::new(), Vec::new(), Vec::new());
        for ((record, mark), before) in records.into_iter().zip(marks).zip(known) {
            let fresh = record.count.saturating_sub(before);
            if fresh == 0 {
                outcomes.push(HistoryOutcome::Duplicate);
                continue;
            }
            let time = record.last.min(now - AGE_MIN);
            let SenderHistory { name, event, count, verdict, .. } = record;
            let prepared = self.prepare(pipeline, Event { time: Some(time), ..event }, now);
            let mut observations = match additions(&prepared, (fresh, verdict), &plan.catalog, (time, now)) {
                Ok(observations) => observations,
                Err(outcome) => {
                    outcomes.push(outcome);
                    continue;
                }
            };
            let value = i64::try_from(count).unwrap_or(i64::MAX);
            observations.push(Observation { key: mark, time: now, add: Addition::Value(Some(value)) });
            let once = keys::once(pipeline, &self.secret, "history", &format!("{name}\0{before}"));
            requests.push(ObserveRequest {
                once: Some(DedupeMark { key: once, time: now }),
                // Who came once has no place of his own here, either.
                origin: if count > 1 { Origin::Report } else { Origin::Event },
                observations,
            });
            places.push(outcomes.len());
            outcomes.push(HistoryOutcome::Counted(fresh));
        }
        if !pretend && !requests.is_empty() {
            let added = self.ledger.observe(&requests).await?;
            // Another node, or a line before it, was quicker.
            for (_, place) in places.into_iter().enumerate().filter(|(number, _)| added.duplicate(*number)) {
                outcomes[place] = HistoryOutcome::Duplicate;
            }
        }
        Ok(outcomes)
    }

    /// The key under which it is remembered how much of a record was counted: once for all pipelines that share statistics.
    fn history_mark(&self, pipeline: &Pipeline, record: &SenderHistory) -> Key {
        let name = format!("history\0{}", record.name);
        Key { space: pipeline.space, kind: REPORT, shingle: self.secret.shingle(name.as_bytes()) }
    }
}

/// Returns what messages of a sender add to the counters of its keys, or the reason why nothing.
fn additions(
    prepared: &PreparedEvent,
    (count, verdict): (u64, Option<Action>),
    catalog: &Catalog,
    (time, now): (Time, Time),
) -> Result<Vec<Observation>, HistoryOutcome> {
    let pipeline = prepared.pipeline();
    let (mut observations, mut outcome) = (Vec::new(), HistoryOutcome::Keyless);
    for (index, plan) in pipeline.kinds.entries() {
        let add = counted(plan, count, verdict);
        let keys = prepared.counted_keys(index);
        if matches!(add, Addition::Nothing) || keys.is_empty() {
            continue;
        }
        outcome = HistoryOutcome::Expired;
        let Some(Measure::Windows(layout)) = catalog.get(pipeline.space, plan.kind).map(|of| &of.measure)
        else {
            continue;
        };
        let shape = layout.shape();
        if time + shape.coarse().unwrap_or(shape.fine()).span() > now {
            observations.extend(keys.iter().map(|key| Observation { key: *key, time, add: add.clone() }));
        }
    }
    if observations.is_empty() { Err(outcome) } else { Ok(observations) }
}

/// Returns what so many events, and the verdict on them, add to the counters of a kind. Amounts are of one event's value, and of
/// these nobody knows it.
fn counted(plan: &KindPlan, count: u64, verdict: Option<Action>) -> Addition {
    if !plan.aggregate.is_empty() || plan.last.is_some() {
        return Addition::Nothing;
    }
    let seen = plan.observe.iter().map(|(counter, times)| (*counter, times.saturating_mul(count)));
    let settled = plan.settle.iter().filter(|(action, _)| Some(*action) == verdict);
    let settled = settled.map(|(_, counter)| (*counter, count));
    counters(seen.chain(settled).filter(|(counter, _)| !plan.amounts.contains(counter)))
}
