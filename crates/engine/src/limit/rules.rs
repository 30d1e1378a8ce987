//! Limits that rules ask for: taken in the same batch in which an event's keys are observed.

use std::borrow::Cow;

use event::{Facts, Schema, Secret, Time, Value};
use stats::{Observation, Quality, Readings};

use super::decide::Asked;
use super::{Exceptions, LimitPlan, Take};
use crate::plan::{Pipeline, Plan};

/// Most keys of one limit in one event.
const KEYS_MAX: usize = 16;
/// Most observations that limits add to those of one event.
pub(crate) const OBSERVATIONS_MAX: usize = 128;

/// What is needed to take from limits.
pub(crate) struct Limits<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) exceptions: &'a Exceptions,
    pub(crate) secret: &'a Secret,
}

/// What one event takes: for each limit that the pipeline's rules name, by index, its keys.
#[derive(Default)]
pub(crate) struct AskedByRules<'a>(Vec<(usize, Asked<'a>)>);

impl<'a> Limits<'a> {
    /// What an event takes at its arrival: its own time is what its sender says.
    pub(crate) fn asked(&self, pipeline: &Pipeline, facts: &Facts, arrival: Time) -> AskedByRules<'a> {
        let mut all = Vec::new();
        for (index, name) in pipeline.limits.iter().enumerate() {
            // One that is gone from the configuration says nothing.
            let Some(limit) = self.plan.limit(name) else { continue };
            for values in keys(limit, &pipeline.schema, facts) {
                let key = super::take::key(self.secret, limit, values.iter().map(String::as_bytes));
                let take = Take { limit, key, cost: limit.cost };
                // Each may look at its ban, too.
                if all.len() < OBSERVATIONS_MAX / 2 {
                    all.push((index, Asked::new(&take, arrival, self.exceptions, self.secret)));
                }
            }
        }
        AskedByRules(all)
    }
}

/// The keys that a limit has in a row: one for each way to take a value of each field. None where a field is missing.
fn keys(limit: &LimitPlan, schema: &Schema, facts: &Facts) -> Vec<Vec<String>> {
    let mut keys = vec![Vec::with_capacity(limit.key.len())];
    for field in &limit.key {
        let value = schema.slot(&field.name).and_then(|slot| facts.get(slot));
        let values: Vec<String> = match value {
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

impl AskedByRules<'_> {
    /// What is sent to the ledger.
    pub(crate) fn observations(&self, adds: bool) -> impl Iterator<Item = Observation> {
        self.0.iter().flat_map(move |(_, asked)| asked.observations(adds))
    }

    /// For each limit, by index, whether one of its keys is over, and the least that is left; `None` where it has no key or its
    /// counts cannot be had.
    pub(crate) fn told(&self, readings: Readings<'_>, adds: bool, limits: usize) -> Vec<Option<(bool, u64)>> {
        let mut told: Vec<Option<(bool, u64)>> = vec![None; limits];
        let mut readings = readings.iter();
        for (index, asked) in &self.0 {
            let decided = asked.decided(&mut readings, adds);
            let taken = &decided.taken;
            if taken.quality == Quality::Missing && !decided.refused {
                continue;
            }
            if let Some(told) = told.get_mut(*index) {
                let (over, left) = told.unwrap_or((false, u64::MAX));
                *told = Some((over || decided.refused, left.min(taken.remaining)));
            }
        }
        told
    }
}
