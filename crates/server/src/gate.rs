//! Whose batch is worked on: a few at a time, a few that wait, and the others are told at once to come again.
//!
//! A batch is thousands of events, so more of them at work than there are processors only take memory and time from one
//! another. What is refused here has not been counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::problem::{Failure, OVERLOADED};

/// Most batches that wait.
const WAITING_MAX: usize = 64;

const AGAIN: &str = "send it again after the time in Retry-After";

/// The places of batches.
#[derive(Debug)]
pub(crate) struct Gate {
    places: Arc<Semaphore>,
    waiting: AtomicUsize,
}

/// One that waits, as long as it does.
struct Waits<'a>(&'a AtomicUsize);

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Gate {
    /// A gate with room for so many.
    pub(crate) fn new(places: usize) -> Gate {
        Gate { places: Arc::new(Semaphore::new(places.max(1))), waiting: AtomicUsize::new(0) }
    }

    /// A gate with room for two batches a processor: one that is worked on, and one that waits for its disk.
    pub(crate) fn of_machine() -> Gate {
        Gate::new(2 * std::thread::available_parallelism().map_or(1, usize::from))
    }

    /// Whether as many wait as may.
    pub(crate) fn is_crowded(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) >= WAITING_MAX
    }

    /// What those are told that cannot even wait.
    pub(crate) fn queued() -> Failure {
        let detail = format!("{WAITING_MAX} batches wait already; nothing of this one was counted");
        OVERLOADED.failure(detail).help(AGAIN)
    }

    /// Waits for a place.
    pub(crate) async fn enter(&self, patience: Duration) -> Result<OwnedSemaphorePermit, Failure> {
        let places = Arc::clone(&self.places);
        if let Ok(place) = Arc::clone(&places).try_acquire_owned() {
            return Ok(place);
        }
        if self.waiting.fetch_add(1, Ordering::Relaxed) >= WAITING_MAX {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            return Err(Gate::queued());
        }
        let _waits = Waits(&self.waiting);
        match timeout(patience, places.acquire_owned()).await {
            // The semaphore is never closed.
            Ok(place) => place.map_err(|_| OVERLOADED.failure("the node is shutting down")),
            Err(_) => {
                let seconds = patience.as_secs_f64();
                let detail = format!("the batch has waited for {seconds} s; nothing of it was counted");
                Err(OVERLOADED.failure(detail).help(AGAIN))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn those_that_find_no_place_are_told() {
        let gate = Gate::new(1);
        let place = gate.enter(Duration::ZERO).await.unwrap();
        let told = gate.enter(Duration::from_secs(5)).await.unwrap_err().problem();
        assert_eq!(told.status, 503);
        assert!(told.detail.contains("has waited for 5 s"), "{}", told.detail);
        let crowd = (0..=WAITING_MAX).map(|_| gate.enter(Duration::from_secs(5)));
        let told = futures_util::future::join_all(crowd).await;
        let details = told.into_iter().map(|answer| answer.unwrap_err().problem().detail);
        let (waited, refused): (Vec<_>, Vec<_>) = details.partition(|detail| detail.contains("has waited"));
        assert_eq!((waited.len(), refused.len()), (WAITING_MAX, 1), "{refused:?}");
        drop(place);
        assert!(gate.enter(Duration::ZERO).await.is_ok(), "nobody waits any more");
    }

    #[tokio::test(start_paused = true)]
    async fn those_that_wait_get_the_next_place() {
        let gate = Gate::new(1);
        let place = gate.enter(Duration::ZERO).await.unwrap();
        let leave = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            drop(place);
        };
        let (waited, ()) = tokio::join!(gate.enter(Duration::from_secs(5)), leave);
        assert!(waited.is_ok());
    }
}
