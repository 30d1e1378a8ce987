//! The deadline of a request.
//!
//! A deadline ends the waiting for an answer, and so does a client that goes away. Either ends all work of which nothing is
//! counted yet: what has waited too long to be read is never read, a reading in progress is cancelled
//! ([`ReadingPool`](crate::core::reading_pool::ReadingPool)), and so is a call that only looks ([`AdmissionQueue`](crate::core::admission::AdmissionQueue)). What was
//! begun to be counted is finished, so that no event is counted and then left unjudged.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout_at};

tokio::task_local! {
    static CURRENT: Deadline;
}

/// A moment after which nobody waits for an answer any more; an earlier one if who waits goes away.
#[derive(Clone, Debug)]
pub(crate) struct Deadline {
    moment: Instant,
    /// Closed once who waits for the answer does so no more. `None` where that ends the work by itself.
    waiter: Option<watch::Receiver<()>>,
}

/// Nobody waits for what was to be done: its deadline has passed, or its client has gone. Nothing of it was counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it could not be read in time; nothing of it was counted")]
pub(crate) struct Late;

/// A reason for which there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoAnswerReason {
    /// The deadline came first.
    Late,
    /// The work has panicked.
    Panicked,
}

impl Deadline {
    /// Returns the deadline that is so far ahead.
    pub(crate) fn after(patience: Duration) -> Deadline {
        Deadline::at(Instant::now() + patience)
    }

    /// Returns the deadline at this moment.
    pub(crate) fn at(moment: Instant) -> Deadline {
        Deadline { moment, waiter: None }
    }

    /// Returns the deadline of the work that is being done; none outside of [`Deadline::run`] and [`Deadline::bound`].
    pub(crate) fn current() -> Option<Deadline> {
        CURRENT.try_with(Deadline::clone).ok()
    }

    /// Returns whether nobody waits any more.
    pub(crate) fn is_over(&self) -> bool {
        let has_gone = |waiter: &watch::Receiver<()>| waiter.has_changed().is_err();
        self.moment <= Instant::now() || self.waiter.as_ref().is_some_and(has_gone)
    }

    /// Waits until nobody waits any more.
    pub(crate) async fn over(mut self) {
        match &mut self.waiter {
            None => sleep_until(self.moment).await,
            // Nothing is ever sent: it ends when the channel is closed.
            Some(waiter) => _ = timeout_at(self.moment, waiter.changed()).await,
        }
    }

    /// Does work with this as its deadline. The work ends by itself.
    pub(crate) async fn bound<T>(self, work: impl Future<Output = T>) -> T {
        CURRENT.scope(self, work).await
    }

    /// Does work of which nothing is counted, and drops it once nobody waits any more.
    pub(crate) async fn cut<T>(self, work: impl Future<Output = T>) -> Result<T, Late> {
        tokio::select! {
            biased;
            () = self.clone().over() => Err(Late),
            done = self.bound(work) => Ok(done),
        }
    }

    /// Does work in a task of its own, and waits for it until the deadline: neither that nor a client that goes away ends
    /// what is being counted, and a panic ends that task and nothing else. What is being read both end.
    pub(crate) async fn run<T: Send + 'static>(
        self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, NoAnswerReason> {
        // It is dropped with this waiting.
        let (_waits, waiter) = watch::channel(());
        let moment = self.moment;
        let deadline = Deadline { moment, waiter: Some(waiter) };
        match timeout_at(moment, tokio::spawn(deadline.bound(work))).await {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(_)) => Err(NoAnswerReason::Panicked),
            Err(_) => Err(NoAnswerReason::Late),
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
            assert!(Deadline::current().is_some());
            wait.notified().await;
            tell.notify_one();
        });
        assert_eq!(answered.await, Err(NoAnswerReason::Late));
        go.notify_one();
        done.notified().await;
    }

    /// Checks that a client that goes away ends the work that looks whether anybody waits, long before its time is over.
    #[tokio::test]
    async fn work_hears_that_its_client_has_gone() {
        let (begin, begun) = tokio::sync::oneshot::channel();
        let (tell, told) = tokio::sync::oneshot::channel();
        let work = Deadline::after(Duration::from_secs(3600)).run(async move {
            let deadline = Deadline::current().unwrap();
            assert!(!deadline.is_over());
            begin.send(()).unwrap();
            deadline.clone().over().await;
            tell.send(deadline.is_over()).unwrap();
        });
        tokio::select! {
            _ = work => panic!("it ended by itself"),
            _ = begun => {}
        }
        assert_eq!(told.await, Ok(true));
    }

    #[tokio::test]
    async fn a_panic_ends_its_task() {
        let panics = async { std::hint::black_box(None::<()>).expect("this panics on purpose") };
        assert_eq!(Deadline::after(Duration::from_secs(60)).run(panics).await, Err(NoAnswerReason::Panicked));
    }
}
