//! Stage 6, settle: what hangs on the verdict is counted. Stage 4 counted the event itself, refused or not.

use event::{Key, Span, TableIndex};
use judge::{Action, Effect, Verdict};
use stats::{Addition, Ledger, LedgerError, Observation, ObserveRequest, Origin};

use super::keys::pieces;
use super::observe::{ObservedBatch, ObservedEvent, counters};
use crate::ban_list::NewBan;
use plan::{KindPlan, LabelPlan, Pipeline};

/// Returns the requests for what the verdicts add. Events that were counted before settle nothing, and neither does one whose
/// statistics could not be had: what was not counted as seen must not be counted as judged.
pub(crate) fn requests(observed: &ObservedBatch, verdicts: &[Verdict]) -> Vec<ObserveRequest> {
    let judged =
        observed.events().zip(verdicts).filter(|(observed, _)| !observed.duplicate && !observed.failed);
    let mut requests = Vec::new();
    for (observed, verdict) in judged {
        let mut observations = settled(&observed, verdict.action);
        carry_out(&observed, verdict, &mut observations);
        for part in observations.chunks(ObserveRequest::OBSERVATIONS_MAX) {
            requests.push(ObserveRequest {
                once: None,
                origin: Origin::Verdict,
                observations: part.to_vec(),
            });
        }
    }
    requests
}

/// Adds it.
pub(crate) async fn settle(ledger: &dyn Ledger, requests: &[ObserveRequest]) -> Result<(), LedgerError> {
    if !requests.is_empty() {
        ledger.observe(requests).await?;
    }
    Ok(())
}

/// Marks and additions that rules ask for: each label and counter once, however many rules do.
fn carry_out(observed: &ObservedEvent<'_>, verdict: &Verdict, observations: &mut Vec<Observation>) {
    let prepared = &observed.prepared;
    // A label holds from when it is put: what an event says of its own time does not shorten it.
    let arrival = prepared.row.arrival;
    let pipeline: &Pipeline = &prepared.row.pipeline;
    let mut marks: Vec<(TableIndex<LabelPlan>, Span)> = Vec::new();
    let mut adds: Vec<(TableIndex<KindPlan>, u8, u64)> = Vec::new();
    for due in &verdict.effects {
        match &due.effect {
            Effect::Mark { kind, label, lasts } => {
                let is_meant =
                    |plan: &LabelPlan| plan.name == *label && pipeline.kinds[plan.of].name == *kind;
                let Some(label) = pipeline.labels.position(is_meant) else { continue };
                match marks.iter_mut().find(|(other, _)| *other == label) {
                    Some((_, longest)) => *longest = (*longest).max(*lasts),
                    None => marks.push((label, *lasts)),
                }
            }
            Effect::Add { kind, counter, amount } => {
                let Some(kind) = pipeline.kinds.position(|plan| plan.name == *kind) else { continue };
                let Some(counter) = pipeline.kinds[kind].counter(counter) else { continue };
                match adds.iter_mut().find(|(of, other, _)| (*of, *other) == (kind, counter)) {
                    Some((.., sum)) => *sum = sum.saturating_add(*amount),
                    None => adds.push((kind, counter, *amount)),
                }
            }
            Effect::Set(_) | Effect::Lift(_) | Effect::Notify(_) => {}
        }
    }
    for (label, lasts) in marks {
        let plan = &pipeline.labels[label];
        observations.extend(prepared.of_kind(plan.of).iter().map(|key| Observation {
            key: Key { kind: plan.kind, ..*key },
            time: arrival,
            add: Addition::Value(Some((arrival + lasts).0)),
        }));
    }
    for (kind, counter, amount) in adds {
        observations.extend(prepared.of_kind(kind).iter().map(|key| Observation {
            key: *key,
            time: prepared.row.time,
            add: counters(std::iter::once((counter, amount))),
        }));
    }
}

/// The labels that verdicts put on keys, by what the keys are of: those of which enforcement points are told.
pub(crate) fn new_bans(observed: &ObservedBatch, verdicts: &[Verdict]) -> Vec<NewBan> {
    let mut puts = Vec::new();
    for (observed, verdict) in observed.events().zip(verdicts).filter(|(observed, _)| !observed.duplicate) {
        let pipeline: &Pipeline = &observed.prepared.row.pipeline;
        for due in &verdict.effects {
            let Effect::Mark { kind, label, lasts } = &due.effect else { continue };
            let is_meant = |plan: &&LabelPlan| plan.name == *label && pipeline.kinds[plan.of].name == *kind;
            let found = pipeline.labels.iter().find(is_meant);
            let Some((plan, decision)) = found.and_then(|plan| Some((plan, plan.decision.as_ref()?))) else {
                continue;
            };
            pieces(&pipeline.kinds[plan.of], &observed.prepared.row.facts, |piece| {
                puts.push(NewBan {
                    pipeline: pipeline.name.clone(),
                    kind: kind.clone(),
                    label: label.clone(),
                    decision: decision.clone(),
                    value: piece.to_owned(),
                    by: due.rule.clone(),
                    until: observed.prepared.row.arrival + *lasts,
                });
            });
        }
    }
    puts
}

/// Returns what the action counts.
fn settled(observed: &ObservedEvent<'_>, action: Action) -> Vec<Observation> {
    let prepared = &observed.prepared;
    let mut observations = Vec::new();
    for (index, plan) in prepared.row.pipeline.kinds.entries() {
        let settled = plan.settle.iter().filter(|(other, _)| *other == action);
        let add = counters(settled.map(|(_, counter)| (*counter, 1)));
        if matches!(add, Addition::Nothing) {
            continue;
        }
        let keys = prepared.counted_keys(index);
        observations.extend(keys.iter().map(|key| Observation {
            key: *key,
            time: prepared.row.time,
            add: add.clone(),
        }));
    }
    observations
}
