//! Statistics of past decisions that were made a moment ago: pages show them to many, and each time they cost as much as a search
//! through all there is.

use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::{DecisionStatistics, StatisticsQuery};
use parking_lot::Mutex;

/// The age above which statistics are made anew.
const AGE_MAX: Duration = Duration::from_secs(15);
/// Statistics that are kept.
const KEPT_MAX: usize = 32;

/// Statistics by what they were asked for.
#[derive(Debug, Default)]
pub(crate) struct StatisticsCache(Mutex<Vec<KeptStatistics>>);

#[derive(Debug)]
struct KeptStatistics {
    query: StatisticsQuery,
    made: Arc<DecisionStatistics>,
    at: Instant,
}

impl StatisticsCache {
    /// Returns what was made for this query, if it is not too old.
    pub(crate) fn of(&self, query: &StatisticsQuery, now: Instant) -> Option<Arc<DecisionStatistics>> {
        let kept = self.0.lock();
        let found = kept.iter().find(|kept| kept.query == *query)?;
        (now.saturating_duration_since(found.at) < AGE_MAX).then(|| Arc::clone(&found.made))
    }

    /// Keeps what was made for a query. What was kept first makes room.
    pub(crate) fn keep(&self, query: StatisticsQuery, made: &Arc<DecisionStatistics>, at: Instant) {
        let mut kept = self.0.lock();
        kept.retain(|kept| kept.query != query);
        if kept.len() >= KEPT_MAX {
            kept.remove(0);
        }
        kept.push(KeptStatistics { query, made: Arc::clone(made), at });
    }
}

#[cfg(test)]
mod tests {
    use engine::DecisionFilter;

    use super::*;

    #[test]
    fn statistics_are_kept_for_a_moment() {
        let (cache, now) = (StatisticsCache::default(), Instant::now());
        let query = |rule: usize| StatisticsQuery {
            filter: DecisionFilter { rule: Some(rule.to_string()), ..DecisionFilter::default() },
            ..StatisticsQuery::default()
        };
        for number in 0..=KEPT_MAX {
            let made = DecisionStatistics { looked_at: number as u64, ..DecisionStatistics::default() };
            cache.keep(query(number), &Arc::new(made), now);
        }
        let known = |number, at| cache.of(&query(number), at).map(|made| made.looked_at);
        assert_eq!(
            (known(0, now), known(1, now), known(KEPT_MAX, now)),
            (None, Some(1), Some(KEPT_MAX as u64))
        );
        assert_eq!((known(1, now + AGE_MAX), known(1, now + AGE_MAX / 2)), (None, Some(1)));
    }
}
