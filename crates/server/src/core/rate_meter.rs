//! Requests a second, over the last ten seconds.

use std::collections::HashMap;

use event::Time;
use parking_lot::Mutex;

/// Seconds that are counted.
const SECONDS: usize = 10;

/// Requests a second, by the name of what they ask for. Names come from the configuration, so there are few.
#[derive(Debug, Default)]
pub(crate) struct RateMeters(Mutex<HashMap<String, RateMeter>>);

/// Requests in each of the last seconds.
#[derive(Debug, Default)]
struct RateMeter {
    second: i64,
    counts: [u32; SECONDS],
}

impl RateMeters {
    /// Counts a request, and returns the requests a second with it.
    pub(crate) fn count(&self, name: &str, now: Time) -> f64 {
        let mut meters = self.0.lock();
        match meters.get_mut(name) {
            Some(meter) => meter.count(now),
            None => meters.entry(name.to_owned()).or_default().count(now),
        }
    }
}

impl RateMeter {
    fn count(&mut self, now: Time) -> f64 {
        let second = now.0.div_euclid(1_000_000).max(self.second);
        let passed = usize::try_from(second - self.second).unwrap_or(SECONDS).min(SECONDS);
        for later in 0..passed {
            self.counts[slot(second - later as i64)] = 0;
        }
        self.second = second;
        let now = &mut self.counts[slot(second)];
        *now = now.saturating_add(1);
        self.counts.iter().map(|count| f64::from(*count)).sum::<f64>() / SECONDS as f64
    }
}

fn slot(second: i64) -> usize {
    second.rem_euclid(SECONDS as i64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_of_the_last_ten_seconds_count() {
        let meters = RateMeters::default();
        let at = |seconds: i64| Time(seconds * 1_000_000);
        for second in 100..110 {
            for _ in 0..5 {
                meters.count("site", at(second));
            }
        }
        assert_eq!(meters.count("site", at(109)), 5.1);
        assert_eq!(meters.count("other", at(109)), 0.1);
        assert_eq!(meters.count("site", at(110)), 4.7, "the first second is over");
        assert_eq!(meters.count("site", at(50)), 4.8, "a clock that is put back counts as now");
        assert_eq!(meters.count("site", at(1000)), 0.1);
        assert_eq!(meters.count("site", Time(i64::MAX)), 0.1);
    }
}
