//! Limits that verdicts have cleared, while the events behind them in a batch are judged.
//!
//! The takes of a batch are made when its events are observed, before any of them is judged. What a verdict clears is given back
//! when all are. Behind a clear a key is one that has used nothing: so what later events of the batch take is decided anew, in a
//! cell of the key's own.
//!
//! ```text
//! verdict ─► clear(key)                    an empty cell
//! later   ─► take(key) ─► a reading, from that cell, and what is charged
//! the end ─► observations: all is given back, then what later events were charged
//! ```

use std::collections::BTreeMap;

use event::Key;
use smallvec::{SmallVec, smallvec};
use stats::{Catalog, CellPlan, Observation, ObservationContext, ObserveRequest, Origin};

use super::decision::{LimitReading, PendingTake};

/// The keys of limits that were cleared.
#[derive(Default)]
pub(crate) struct ClearedLimits(BTreeMap<Key, ClearedKey>);

/// A key from when it was cleared.
struct ClearedKey {
    /// The operations on its cell; `None` where the ledger does not know the limit.
    plan: Option<CellPlan>,
    words: Vec<u64>,
    /// The observations that make the ledger's cell what this one is.
    due: Vec<Observation>,
}

impl ClearedLimits {
    /// Returns true if nothing was cleared.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Clears the key of a take.
    pub(crate) fn clear(&mut self, of: &PendingTake<'_>, catalog: &Catalog) {
        if of.is_idle() {
            return;
        }
        let statistic = catalog.get(of.key.space, of.key.kind);
        let plan = statistic.and_then(|statistic| CellPlan::new(&statistic.measure).ok());
        let due = of.set(0).into_iter().filter(|observation| observation.add.adds()).collect();
        self.0.insert(of.key, ClearedKey { plan, words: Vec::new(), due });
    }

    /// Returns the reading of a take's key, if that was cleared, and takes if `adds`.
    pub(crate) fn take(
        &mut self,
        take: &PendingTake<'_>,
        ban: Option<LimitReading>,
        adds: bool,
    ) -> Option<LimitReading> {
        let ClearedKey { plan, words, due } = self.0.get_mut(&take.key)?;
        let plan = plan.as_ref()?;
        let Observation { time, add, .. } = take.observations(true).next()?;
        let last = plan.last(words);
        let mut values: SmallVec<[u64; 2]> = smallvec![0; plan.reading()];
        plan.read(words, add.as_of(time, last), &mut values);
        let value = |at: usize| values.get(at).copied().unwrap_or(0);
        let reading = LimitReading::new(last, [value(0), value(1)]);
        if adds {
            let charged = take.decide(reading, ban, true).taken.charged;
            let context =
                ObservationContext { time, last, values: &values, origin: Origin::Event, sightings: 0 };
            plan.apply(words, &plan.change(&add, &context));
            if charged > 0 {
                due.push(take.charge(charged));
            }
        }
        Some(reading)
    }

    /// Returns the requests that clear the keys in the ledger and charge what was taken since.
    pub(crate) fn requests(self) -> Vec<ObserveRequest> {
        let due: Vec<Observation> = self.0.into_values().flat_map(|key| key.due).collect();
        let chunks = due.chunks(ObserveRequest::OBSERVATIONS_MAX);
        let request = |chunk: &[Observation]| ObserveRequest {
            observations: chunk.to_vec(),
            origin: Origin::Verdict,
            ..ObserveRequest::default()
        };
        chunks.map(request).collect()
    }
}
