//! Stage 6, settle: what hangs on the verdict is counted. Stage 4 counted the event itself, refused or not.

use event::{Key, Secret, Shingle, TableIndex};
use journal::RecordId;
use judge::{Action, Evaluation, Rule};
use smallvec::{SmallVec, smallvec};
use stats::{Addition, Catalog, CounterSet, Ledger, LedgerError, Observation, ObserveRequest, Origin};

use super::contributors::ContributorLists;
use super::keys::pieces;
use super::observe::{ObservedEvent, counters, value};
use crate::ban_list::{BanCause, NewBan};
use crate::limit::{ClearedLimits, LimitContext};
use plan::{AllowPlan, AllowSource, EffectPlan, KindPlan, LabelPlan, LabelSpan};

/// Adds the requests for what a verdict adds, by its action and the enforced rules that fired. An event that was counted before
/// settles nothing, and neither does one whose statistics could not be had: what was not counted as seen must not be counted as
/// judged.
pub(crate) fn requests(
    observed: &ObservedEvent<'_>,
    action: Action,
    outcome: &Evaluation,
    allow: &AllowPlan,
    requests: &mut Vec<ObserveRequest>,
) {
    if observed.duplicate || observed.uncounted {
        return;
    }
    // What an event clears is what was there before it.
    let mut observations = cleared(observed, outcome);
    observations.extend(settled(observed, action));
    carry_out(observed, action, outcome, allow, &mut observations);
    while !observations.is_empty() {
        let rest = observations.split_off(observations.len().min(ObserveRequest::OBSERVATIONS_MAX));
        requests.push(ObserveRequest { once: None, origin: Origin::Verdict, observations });
        observations = rest;
    }
}

/// Adds it.
pub(crate) async fn settle(ledger: &dyn Ledger, requests: &[ObserveRequest]) -> Result<(), LedgerError> {
    if !requests.is_empty() {
        ledger.observe(requests).await?;
    }
    Ok(())
}

/// Marks and additions that rules ask for, and values that the action adds: each label, counter and aggregate once, however
/// many do. What rules clear came before.
fn carry_out(
    observed: &ObservedEvent<'_>,
    action: Action,
    outcome: &Evaluation,
    allow: &AllowPlan,
    observations: &mut Vec<Observation>,
) {
    let prepared = &observed.prepared;
    // A label holds from when it is put: what an event says of its own time does not shorten it.
    let arrival = prepared.row.arrival;
    let pipeline = &prepared.row.pipeline;
    let mut marks: Vec<(TableIndex<LabelPlan>, SmallVec<[LabelSpan; 1]>)> = Vec::new();
    let mut adds: Vec<(TableIndex<KindPlan>, u8, u64)> = Vec::new();
    let settled = pipeline.kinds.entries().filter_map(|(kind, plan)| {
        let of_action = plan.settle_values.iter().filter(|(other, _)| *other == action);
        let sum = of_action.fold(0i64, |sum, (_, value)| sum.saturating_add(*value));
        (sum != 0).then_some((kind, sum))
    });
    let mut values: Vec<(TableIndex<KindPlan>, i64)> = settled.collect();
    let effects = outcome
        .fired()
        .iter()
        .flat_map(|rule| pipeline.effects[*rule].iter().map(move |effect| (*rule, effect)));
    for (rule, effect) in effects {
        match *effect {
            EffectPlan::Mark { label, lasts } => match marks.iter_mut().find(|(other, _)| *other == label) {
                Some((_, spans)) => spans.push(lasts),
                None => marks.push((label, smallvec![lasts])),
            },
            EffectPlan::Clear { .. }
            | EffectPlan::ClearLimit { .. }
            | EffectPlan::MarkContributors { .. } => {}
            EffectPlan::AddValue { kind, value, by_share } => {
                // A share is at most the whole, so this fits.
                let value =
                    if by_share { (value as f64 * outcome.share(rule)).round() as i64 } else { value };
                match values.iter_mut().find(|(of, _)| *of == kind) {
                    Some((_, sum)) => *sum = sum.saturating_add(value),
                    None if value != 0 => values.push((kind, value)),
                    None => {}
                }
            }
            EffectPlan::Add { kind, counter, amount } => {
                match adds.iter_mut().find(|(of, other, _)| (*of, *other) == (kind, counter)) {
                    Some((.., sum)) => *sum = sum.saturating_add(amount),
                    None => adds.push((kind, counter, amount)),
                }
            }
        }
    }
    for (label, spans) in marks {
        let plan = &pipeline.labels[label];
        let keys = prepared.of_kind(plan.of);
        // Keys have no names here: of several one that is allowed passes for all, rather than none.
        if plan.decision.is_some() && passed_over(allow, observed, plan).is_some() {
            continue;
        }
        let end = |key: &Key| spans.iter().map(|span| arrival + span.of(key.shingle, arrival)).max();
        observations.extend(keys.iter().map(|key| Observation {
            key: Key { kind: plan.kind, ..*key },
            time: arrival,
            add: Addition::Value(end(key).map(|end| end.0)),
        }));
    }
    for (kind, value) in values {
        observations.extend(prepared.of_kind(kind).iter().map(|key| Observation {
            key: *key,
            time: prepared.row.time,
            add: Addition::Value(Some(value)),
        }));
    }
    for (kind, counter, amount) in adds {
        let plan = &pipeline.kinds[kind];
        let add = counters(plan.amounts(std::iter::once((counter, amount)), value(plan, prepared)));
        if matches!(add, Addition::Nothing) {
            continue;
        }
        observations.extend(prepared.of_kind(kind).iter().map(|key| Observation {
            key: *key,
            time: prepared.row.time,
            add: add.clone(),
        }));
    }
}

/// A ban that the allow list passes over.
pub(crate) struct PassedOverBan {
    /// The setting of the allow list.
    pub(crate) setting: &'static str,
    /// The sentence about it in the explanation.
    pub(crate) detail: String,
}

/// Returns the first key of an event that a label with a decision would ban, and the allow list has.
fn passed_over(allow: &AllowPlan, observed: &ObservedEvent<'_>, label: &LabelPlan) -> Option<PassedOverBan> {
    let row = &observed.prepared.row;
    let (pipeline, name) = (&row.pipeline, &label.name);
    if allow.is_of_robot(pipeline, &row.facts) {
        let source = AllowSource::Robots;
        let detail = format!("the event is of a verified robot ({source}): `{name}` bans nobody");
        return Some(PassedOverBan { setting: source.name(), detail });
    }
    let mut found = None;
    pieces(&pipeline.kinds[label.of], &row.facts, |piece| {
        if let (None, Some(source)) = (&found, allow.find(piece)) {
            let detail = format!("{piece} is on the allow list ({source}): `{name}` does not ban it");
            found = Some(PassedOverBan { setting: source.name(), detail });
        }
    });
    found
}

/// The labels that the rules that fired put on keys, by what the keys are of: those of which enforcement points are told.
///
/// Labels that the allow list passes over are told apart, each label once.
pub(crate) fn new_bans(
    observed: &ObservedEvent<'_>,
    id: RecordId,
    fired: &[TableIndex<Rule>],
    allow: &AllowPlan,
) -> (Vec<NewBan>, Vec<PassedOverBan>) {
    let (mut puts, mut passed) = (Vec::new(), Vec::<PassedOverBan>::new());
    if observed.duplicate {
        return (puts, passed);
    }
    let row = &observed.prepared.row;
    let pipeline = &row.pipeline;
    for (rule, effect) in
        fired.iter().flat_map(|rule| pipeline.effects[*rule].iter().map(move |it| (rule, it)))
    {
        let EffectPlan::Mark { label, lasts } = *effect else { continue };
        let label = &pipeline.labels[label];
        let Some(decision) = &label.decision else { continue };
        let kind = &pipeline.kinds[label.of];
        if let Some(over) = passed_over(allow, observed, label) {
            if !passed.iter().any(|other| other.detail == over.detail) {
                passed.push(over);
            }
            continue;
        }
        // Keys are made of pieces in their order; of too many there are no keys.
        let mut keys = observed.prepared.of_kind(label.of).iter();
        pieces(kind, &row.facts, |piece| {
            let key = keys.next().map_or(Shingle::default(), |key| key.shingle);
            puts.push(NewBan {
                pipeline: pipeline.name.clone(),
                kind: kind.name.clone(),
                label: label.name.clone(),
                decision: decision.clone(),
                value: piece.to_owned(),
                by: pipeline.rules.rules()[*rule].name.clone(),
                since: row.arrival,
                cause: BanCause { decision: Some(id), why: None },
                until: row.arrival + lasts.of(key, row.arrival),
            });
        });
    }
    (puts, passed)
}

/// Returns what rules clear, each key of a kind once.
fn cleared(observed: &ObservedEvent<'_>, outcome: &Evaluation) -> Vec<Observation> {
    let row = &observed.prepared.row;
    let mut cleared: SmallVec<[(TableIndex<KindPlan>, CounterSet); 1]> = SmallVec::new();
    for effect in outcome.fired().iter().flat_map(|rule| &row.pipeline.effects[*rule]) {
        let EffectPlan::Clear { kind, counter } = *effect else { continue };
        let counters = CounterSet::from_iter([counter]);
        match cleared.iter_mut().find(|(of, _)| *of == kind) {
            Some((_, all)) => *all = all.with(counters),
            None => cleared.push((kind, counters)),
        }
    }
    let of_kind = |(kind, counters): (TableIndex<KindPlan>, CounterSet)| {
        let keys = observed.prepared.of_kind(kind).iter();
        keys.map(move |key| Observation { key: *key, time: row.time, add: Addition::Clear(counters) })
    };
    cleared.into_iter().flat_map(of_kind).collect()
}

/// Clears the limits that rules say, for the event's keys.
pub(crate) fn clear_limits(
    observed: &ObservedEvent<'_>,
    outcome: &Evaluation,
    limits: &LimitContext<'_>,
    catalog: &Catalog,
    cleared: &mut ClearedLimits,
) {
    if observed.duplicate || observed.uncounted {
        return;
    }
    let row = &observed.prepared.row;
    for effect in outcome.fired().iter().flat_map(|rule| &row.pipeline.effects[*rule]) {
        let EffectPlan::ClearLimit { limit } = *effect else { continue };
        let of = &row.pipeline.cleared_limits[limit];
        limits.takes(of, &row.facts, row.arrival).for_each(|key| cleared.clear(&key, catalog));
    }
}

/// Labels that rules put on the latest values of distinct counts: marks for the ledger, and bans for enforcement points.
pub(crate) fn mark_contributors(
    observed: &ObservedEvent<'_>,
    id: RecordId,
    outcome: &Evaluation,
    contributors: &Contributors<'_>,
    requests: &mut Vec<ObserveRequest>,
) -> Vec<NewBan> {
    let mut bans = Vec::new();
    if observed.duplicate || observed.uncounted {
        return bans;
    }
    let row = &observed.prepared.row;
    let pipeline = &row.pipeline;
    let mut marks = Vec::new();
    let effects =
        outcome.fired().iter().flat_map(|rule| pipeline.effects[*rule].iter().map(move |it| (rule, it)));
    for (rule, effect) in effects {
        let EffectPlan::MarkContributors { distinct, label, lasts } = *effect else { continue };
        let label = &pipeline.labels[label];
        for value in contributors.lists.of_event(observed.prepared, distinct) {
            if label.decision.is_some() && contributors.allow.find(&value).is_some() {
                continue;
            }
            let shingle = contributors.secret.shingle(value.as_bytes());
            let until = row.arrival + lasts.of(shingle, row.arrival);
            marks.push(Observation {
                key: Key { space: pipeline.space, kind: label.kind, shingle },
                time: row.arrival,
                add: Addition::Value(Some(until.0)),
            });
            bans.extend(label.decision.as_ref().map(|decision| NewBan {
                pipeline: pipeline.name.clone(),
                kind: pipeline.kinds[label.of].name.clone(),
                label: label.name.clone(),
                decision: decision.clone(),
                value: value.into(),
                by: pipeline.rules.rules()[*rule].name.clone(),
                since: row.arrival,
                cause: BanCause { decision: Some(id), why: None },
                until,
            }));
        }
    }
    requests.extend(marks.chunks(ObserveRequest::OBSERVATIONS_MAX).map(|chunk| ObserveRequest {
        once: None,
        origin: Origin::Verdict,
        observations: chunk.to_vec(),
    }));
    bans
}

/// The means by which rules mark the values that contributed to a distinct count.
pub(crate) struct Contributors<'a> {
    pub(crate) lists: &'a ContributorLists,
    pub(crate) secret: &'a Secret,
    pub(crate) allow: &'a AllowPlan,
}

/// Returns what the action counts.
fn settled(observed: &ObservedEvent<'_>, action: Action) -> Vec<Observation> {
    let prepared = &observed.prepared;
    let mut observations = Vec::new();
    for (index, plan) in prepared.row.pipeline.kinds.entries() {
        let settled = plan.settle.iter().filter(|(other, _)| *other == action);
        let settled = settled.map(|(_, counter)| (*counter, 1));
        let add = counters(plan.amounts(settled, value(plan, prepared)));
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
