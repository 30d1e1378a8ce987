//! Limits that rules ask for: taken in the same batch in which an event's keys are observed.

use std::borrow::Cow;

use event::{Facts, Secret, Slot, Table, TableIndex, Time, Value};
use smallvec::SmallVec;
use stats::{Observation, Quality, Readings};

use super::cleared::ClearedLimits;
use super::decision::{LimitReading, PendingTake};
use super::{LimitExceptions, Take};
use crate::ban_list::BanList;
use plan::limit::LimitPlan;
use plan::{Pipeline, RuleLimit};

/// Most keys of one limit in one event.
const KEYS_MAX: usize = 16;
/// Most observations that limits add to those of one event.
pub(crate) const OBSERVATIONS_MAX: usize = 128;

/// The means by which rules take from limits.
pub(crate) struct LimitContext<'a> {
    pub(crate) exceptions: &'a LimitExceptions,
    pub(crate) secret: &'a Secret,
    /// The list whose allow list stands above bans of limits, too.
    pub(crate) ban_list: &'a BanList,
}

/// Takes of one event from the limits that the pipeline's rules name.
#[derive(Default)]
pub(crate) struct RuleTakes<'a> {
    /// Each key of a limit that applies.
    keys: Vec<(TableIndex<RuleLimit>, PendingTake<'a>)>,
    /// The limits that do not apply to the event.
    idle: SmallVec<[TableIndex<RuleLimit>; 8]>,
}

/// A limit's reading for an event: whether it is over it, and what is left where the limit applies.
pub(crate) type RuleReading = (bool, Option<u64>);

impl<'a> LimitContext<'a> {
    /// Returns what an event takes at its arrival: its own time is what its sender says.
    pub(crate) fn asked(&self, pipeline: &'a Pipeline, facts: &Facts, arrival: Time) -> RuleTakes<'a> {
        let mut all = RuleTakes::default();
        for (index, of) in pipeline.limits.entries() {
            if !of.applies(facts) {
                all.idle.push(index);
                continue;
            }
            // Each may look at its ban, too.
            let room = (OBSERVATIONS_MAX / 2).saturating_sub(all.keys.len());
            let takes = self.takes(of, facts, arrival).take(room);
            all.keys.extend(takes.map(|take| (index, take)));
        }
        all
    }

    /// The takes of an event from a limit, one for each of its keys.
    pub(crate) fn takes(
        &self,
        of: &'a RuleLimit,
        facts: &Facts,
        arrival: Time,
    ) -> impl Iterator<Item = PendingTake<'a>> {
        let limit = &*of.limit;
        keys(limit, &of.key, facts).into_iter().map(move |values| {
            let key = super::key::key(self.secret, limit, values.iter().map(String::as_bytes));
            let key = key.checked(limit, self.ban_list, values.iter().map(String::as_str));
            let take = Take { limit, key, cost: limit.cost };
            PendingTake::new(&take, arrival, self.exceptions, self.secret)
        })
    }
}

/// The keys that a limit has in a row, in which the fields of its keys have these slots: one for each way to take a value of each field. None where a field is missing.
pub(crate) fn keys(limit: &LimitPlan, slots: &[Slot], facts: &Facts) -> Vec<Vec<String>> {
    let mut keys = vec![Vec::with_capacity(slots.len())];
    for (field, slot) in limit.key.iter().zip(slots) {
        let values: Vec<String> = match facts.get(*slot) {
            Some(Value::List(items)) => {
                let normal = items.iter().take(KEYS_MAX).filter_map(|item| field.how.normal(item));
                normal.map(Cow::into_owned).collect()
            }
            Some(value) => field.how.normal(&value.to_string()).map(Cow::into_owned).into_iter().collect(),
            None => Vec::new(),
        };
        let longer = keys
            .iter()
            .flat_map(|key| values.iter().map(|value| key.iter().chain([value]).cloned().collect()));
        keys = longer.take(KEYS_MAX).collect();
    }
    keys
}

impl RuleTakes<'_> {
    /// Returns what is sent to the ledger.
    pub(crate) fn observations(&self, adds: bool) -> impl Iterator<Item = Observation> {
        self.keys.iter().flat_map(move |(_, asked)| asked.observations(adds))
    }

    /// Returns the readings as they are if limits were cleared before the event, and takes from these; `None` if it takes from
    /// none of them.
    pub(crate) fn after_clearing(
        &self,
        readings: Readings<'_>,
        cleared: &mut ClearedLimits,
        adds: bool,
    ) -> Option<Vec<LimitReading>> {
        let mut all: Vec<LimitReading> = readings.iter().map(LimitReading::from).collect();
        let (mut at, mut has_changed) = (0, false);
        for (_, asked) in &self.keys {
            // Its own, and then that of its ban.
            let count = asked.observations(adds).count();
            let ban = all.get(at + 1).copied().filter(|_| count > 1);
            if let Some(own) = all.get_mut(at).filter(|_| count > 0)
                && let Some(reading) = cleared.take(asked, ban, adds)
            {
                (*own, has_changed) = (reading, true);
            }
            at += count;
        }
        has_changed.then_some(all)
    }

    /// Returns for each limit whether one of its keys is over, and the least that is left; `None` where it has no key or its
    /// counts cannot be had. One that does not apply is not over.
    pub(crate) fn results<S: Into<LimitReading>>(
        &self,
        readings: impl IntoIterator<Item = S>,
        adds: bool,
        limits: &Table<RuleLimit>,
    ) -> Table<RuleLimit, Option<RuleReading>> {
        let mut told: Table<RuleLimit, Option<RuleReading>> = limits.map(|_| None);
        for index in &self.idle {
            told[*index] = Some((false, None));
        }
        let mut readings = readings.into_iter();
        for (index, asked) in &self.keys {
            let decided = asked.decided(&mut readings, adds);
            let taken = &decided.taken;
            if taken.quality == Quality::Missing && !decided.refused {
                continue;
            }
            let (over, left) = told[*index].unwrap_or((false, None));
            let least = left.map_or(taken.remaining, |left| left.min(taken.remaining));
            told[*index] = Some((over || decided.refused, Some(least)));
        }
        told
    }
}
