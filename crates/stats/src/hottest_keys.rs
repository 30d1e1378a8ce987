//! The keys with the largest sums, gathered cell by cell: by either home of statistics.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};

use event::{Key, Time};

use crate::catalog::Statistic;
use crate::kind::CellPlan;
use crate::ledger::{HottestQuery, LedgerError};

/// The keys that have been found so far.
#[derive(Debug)]
pub struct HottestKeys {
    plan: CellPlan,
    counter: usize,
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
        &HottestQuery { counter, window, limit, .. }: &HottestQuery,
        now: Time,
    ) -> Result<HottestKeys, LedgerError> {
        let plan = CellPlan::over(&statistic.measure, &[window])?;
        let counter = usize::from(counter);
        if counter >= plan.columns() {
            let why = "there are fewer counters".to_owned();
            return Err(LedgerError::Unfit { statistic: statistic.name.clone(), why });
        }
        let values = vec![0; plan.reading()];
        Ok(HottestKeys { plan, counter, now, limit, values, best: BinaryHeap::new() })
    }

    /// The plan by which cells are read.
    pub fn plan(&self) -> &CellPlan {
        &self.plan
    }

    /// Takes a cell into account, unless it has expired at `horizon`.
    pub fn look(&mut self, key: Key, words: &[u64], horizon: Time) {
        if self.plan.last(words).is_none_or(|last| self.plan.expires_after(last) <= horizon) {
            return;
        }
        self.plan.read(words, self.now, &mut self.values);
        let sum = self.values.get(self.counter).copied().unwrap_or(0);
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
