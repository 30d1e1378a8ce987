//! The slowest pace at which a body may come.
//!
//! A deadline alone lets a sender hold a place and memory to its end with a byte now and then. So a body that has begun has
//! some time, and for each further stretch of it so many bytes must have come: as Apache's `RequestReadTimeout` has it with
//! `MinRate`. Only the time for which somebody waits for bytes counts, not that in which others work on what has come.

use std::time::Duration;

use plan::ServerPlan;
use tokio::time::{Instant, sleep};

use crate::core::repoll::next_poll;

/// The slowest pace of bodies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pace {
    bytes_a_second: u64,
    grace: Duration,
}

/// A body came slower than it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it comes slower than {} bytes a second", .0.bytes_a_second)]
pub(crate) struct TooSlow(Pace);

/// A body that is coming.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PaceMeter {
    pace: Pace,
    /// Bytes that have come.
    bytes: u64,
    /// The time spent waiting for them.
    waited: Duration,
}

impl Pace {
    /// Any pace.
    #[cfg(test)]
    pub(crate) const UNBOUNDED: Pace = Pace { bytes_a_second: 0, grace: Duration::ZERO };

    /// Returns the pace that is configured.
    pub(crate) fn of(plan: &ServerPlan) -> Pace {
        let grace = Duration::from_micros(plan.body_grace.0.unsigned_abs());
        Pace { bytes_a_second: plan.body_rate_min, grace }
    }

    /// Returns a body that begins to come.
    pub(crate) fn body(self) -> PaceMeter {
        PaceMeter { pace: self, bytes: 0, waited: Duration::ZERO }
    }
}

impl PaceMeter {
    /// Counts bytes that have come.
    pub(crate) fn add(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes as u64);
    }

    /// Returns for how long more bytes may still be waited for; `None` for ever.
    pub(crate) fn left(&self) -> Option<Duration> {
        let rate = Some(self.pace.bytes_a_second).filter(|rate| *rate > 0)?;
        let earned = Duration::from_micros(self.bytes.saturating_mul(1_000_000) / rate);
        Some(self.pace.grace.saturating_add(earned).saturating_sub(self.waited))
    }

    /// Returns the error of a body that did not come in the time that was left.
    pub(crate) fn too_slow(&self) -> TooSlow {
        TooSlow(self.pace)
    }

    /// Counts a time for which bytes were waited for.
    pub(crate) fn has_waited(&mut self, time: Duration) {
        self.waited = self.waited.saturating_add(time);
    }

    /// Waits for more of the body.
    ///
    /// # Errors
    /// If it does not come in the time that is left.
    pub(crate) async fn wait<T>(&mut self, more: impl Future<Output = T>) -> Result<T, TooSlow> {
        let Some(left) = self.left() else { return Ok(more.await) };
        let since = Instant::now();
        let late = async {
            next_poll().await;
            sleep(left).await;
        };
        let came = tokio::select! {
            biased;
            came = more => Ok(came),
            () = late => Err(self.too_slow()),
        };
        self.has_waited(since.elapsed());
        came
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn pace(bytes_a_second: u64) -> Pace {
        Pace { bytes_a_second, grace: 5 * SECOND }
    }

    /// Each second behind the grace has to be paid for in bytes.
    #[tokio::test(start_paused = true)]
    async fn a_slow_body_is_given_up() {
        let mut body = pace(100).body();
        for _ in 0..5 {
            body.wait(sleep(SECOND - Duration::from_millis(1))).await.unwrap();
            body.add(1);
        }
        // 5.05 s are paid for, and 4.995 s are used up.
        assert!(body.wait(sleep(SECOND)).await.is_err());
        let told = body.too_slow().to_string();
        assert_eq!(told, "it comes slower than 100 bytes a second");
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_at_its_pace_may_take_for_ever() {
        let mut body = pace(100).body();
        for _ in 0..1_000 {
            body.wait(sleep(SECOND)).await.unwrap();
            body.add(100);
        }
        // The time in which nobody waits for it is not its.
        sleep(1_000 * SECOND).await;
        assert_eq!(body.left(), Some(5 * SECOND));
        let mut unbounded = pace(0).body();
        unbounded.wait(sleep(1_000_000 * SECOND)).await.unwrap();
    }
}
