//! The keys with the largest sums, gathered cell by cell: by either home of statistics.
//!
//! A bucket of the generic cell rate algorithm has no sums: its keys are ranked by how far their moments are ahead.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};

use event::{Key, Time};

use crate::catalog::Statistic;
use crate::kind::gcra::nanoseconds;
use crate::kind::{CellPlan, Measure};
use crate::ledger::{HottestQuery, LedgerError};

/// The keys that have been found so far.
#[derive(Debug)]
pub struct HottestKeys {
    plan: CellPlan,
    counter: usize,
    is_bucket: bool,
    since: Option<Time>,
    now: Time,
    limit: usize,
    values: Vec<u64>,
    /// The least of the best on top, so that it can be replaced.
    best: BinaryHeap<(Reverse<u64>, Key)>,
}

impl HottestKeys {
    /// Looks for what is asked for at this time.
    ///
    /// # Errors
    /// For a window that the statistic cannot answer, or a counter that it does not have.
    pub fn new(
        statistic: &Statistic,
        &HottestQuery { counter, window, since, limit, .. }: &HottestQuery,
        now: Time,
    ) -> Result<HottestKeys, LedgerError> {
        let is_bucket = matches!(statistic.measure, Measure::Gcra(_));
        let plan = if is_bucket {
            CellPlan::new(&statistic.measure)?
        } else {
            CellPlan::over(&statistic.measure, &[window])?
        };
        let counter = usize::from(counter);
        if counter >= plan.columns() {
            let why = "there are fewer counters".to_owned();
            return Err(LedgerError::Unfit { statistic: statistic.name.clone(), why });
        }
        let values = vec![0; plan.reading()];
        Ok(HottestKeys { plan, counter, is_bucket, since, now, limit, values, best: BinaryHeap::new() })
    }

    /// The plan by which cells are read.
    pub fn plan(&self) -> &CellPlan {
        &self.plan
    }

    /// Takes a cell into account, unless it has expired at `horizon`.
    pub fn look(&mut self, key: Key, words: &[u64], horizon: Time) {
        let Some((first, last)) = self.plan.times(words) else { return };
        if self.plan.expires_after(last) <= horizon || self.since.is_some_and(|since| first < since) {
            return;
        }
        self.plan.read(words, self.now, &mut self.values);
        let mut sum = self.values.get(self.counter).copied().unwrap_or(0);
        if self.is_bucket {
            let ahead = sum.cast_signed().saturating_sub(nanoseconds(self.now));
            sum = u64::try_from(ahead).unwrap_or(0);
        }
        if sum > 0 {
            self.best.push((Reverse(sum), key));
            // As many again, for keys that come twice.
            if self.best.len() > self.limit.saturating_mul(2) {
                self.best.pop();
            }
        }
    }

    /// The keys and their sums, the largest first.
    pub fn finish(self) -> Vec<(Key, u64)> {
        let mut seen = HashSet::new();
        let best = self.best.into_sorted_vec().into_iter().filter(|(_, key)| seen.insert(*key));
        best.map(|(sum, key)| (key, sum.0)).take(self.limit).collect()
    }
}
