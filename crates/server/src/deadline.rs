//! When the work for a request ends.
//!
//! A deadline ends the waiting for an answer, and all work of which nothing is counted yet: what has waited too long to
//! be read is never read, and a reading in progress is cancelled ([`ReadingPool`](crate::pool::ReadingPool)). What was
//! begun to be counted is finished, so that no event is counted and then left unjudged.

use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout_at};

tokio::task_local! {
    static CURRENT: Deadline;
}

/// A moment after which nobody waits for an answer any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Deadline(Instant);

/// A reason for which there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unanswered {
    /// The deadline came first.
    Late,
    /// The work has panicked.
    Panicked,
}

impl Deadline {
    /// Returns the deadline that is so far ahead.
    pub(crate) fn after(patience: Duration) -> Deadline {
        Deadline(Instant::now() + patience)
    }

    /// Returns the deadline at this moment.
    pub(crate) fn at(moment: Instant) -> Deadline {
        Deadline(moment)
    }

    /// Returns the deadline of the work that is being done; none outside of [`Deadline::run`] and [`Deadline::bound`].
    pub(crate) fn current() -> Option<Deadline> {
        CURRENT.try_with(|deadline| *deadline).ok()
    }

    /// Returns whether it has passed.
    pub(crate) fn is_over(self) -> bool {
        self.0 <= Instant::now()
    }

    /// Waits for it.
    pub(crate) async fn passed(self) {
        sleep_until(self.0).await;
    }

    /// Does work with this as its deadline. The work ends by itself.
    pub(crate) async fn bound<T>(self, work: impl Future<Output = T>) -> T {
        CURRENT.scope(self, work).await
    }

    /// Does work in a task of its own, and waits for it until the deadline: neither that nor a client that goes away ends
    /// what is being counted, and a panic ends that task and nothing else.
    pub(crate) async fn run<T: Send + 'static>(
        self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, Unanswered> {
        match timeout_at(self.0, tokio::spawn(self.bound(work))).await {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(_)) => Err(Unanswered::Panicked),
            Err(_) => Err(Unanswered::Late),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::sync::Notify;

    use super::*;

    #[tokio::test]
    async fn it_ends_the_waiting_and_not_what_is_being_counted() {
        let (go, done) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (wait, tell) = (Arc::clone(&go), Arc::clone(&done));
        let deadline = Deadline::after(Duration::from_millis(1));
        let answered = deadline.run(async move {
            assert_eq!(Deadline::current(), Some(deadline));
            wait.notified().await;
            tell.notify_one();
        });
        assert_eq!(answered.await, Err(Unanswered::Late));
        go.notify_one();
        done.notified().await;
    }

    #[tokio::test]
    async fn a_panic_ends_its_task() {
        let panics = async { std::hint::black_box(None::<()>).expect("this panics on purpose") };
        assert_eq!(Deadline::after(Duration::from_secs(60)).run(panics).await, Err(Unanswered::Panicked));
    }
}
