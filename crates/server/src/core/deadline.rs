//! The deadline of a request.
//!
//! A deadline ends the waiting for an answer, and so does a client that goes away. Either ends all work of which nothing is
//! counted yet: what has waited too long to be read is never read, a reading in progress is cancelled
//! ([`ReadingPool`](crate::core::reading_pool::ReadingPool)), and so is a call that only looks ([`AdmissionQueue`](crate::core::admission::AdmissionQueue)). What was
//! begun to be counted is finished, so that no event is counted and then left unjudged.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::core::repoll::next_poll;

tokio::task_local! {
    static CURRENT: Deadline;
}

/// A moment after which nobody waits for an answer any more; an earlier one if who waits goes away.
#[derive(Clone, Debug)]
pub(crate) struct Deadline {
    moment: Instant,
    /// The one who waits for the answer. `None` where that ends the work by itself.
    waiter: Option<Arc<AnswerWaiter>>,
}

/// One who waits for an answer, or has gone.
#[derive(Debug, Default)]
struct AnswerWaiter {
    has_gone: AtomicBool,
    left: Notify,
}

/// The presence of one who waits: it ends when this is dropped.
struct AnswerWaiterGuard(Arc<AnswerWaiter>);

impl Drop for AnswerWaiterGuard {
    fn drop(&mut self) {
        self.0.has_gone.store(true, Ordering::Release);
        self.0.left.notify_waiters();
    }
}

impl AnswerWaiter {
    fn has_gone(&self) -> bool {
        self.has_gone.load(Ordering::Acquire)
    }

    /// Waits until it has gone.
    async fn gone(&self) {
        // It is told of what happens from here on, so a waiter that goes after the look is not missed.
        let left = self.left.notified();
        if !self.has_gone() {
            left.await;
        }
    }
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
        self.waiter.as_ref().is_some_and(|waiter| waiter.has_gone()) || self.moment <= Instant::now()
    }

    /// Waits until nobody waits any more.
    pub(crate) async fn over(self) {
        match &self.waiter {
            None => sleep_until(self.moment).await,
            Some(waiter) => _ = timeout_at(self.moment, waiter.gone()).await,
        }
    }

    /// Does work with this as its deadline. The work ends by itself.
    pub(crate) fn bound<T>(self, work: impl Future<Output = T>) -> impl Future<Output = T> {
        // No `async fn`: that would have room for the work twice.
        CURRENT.scope(self, work)
    }

    /// Does work of which nothing is counted, and drops it once nobody waits any more.
    pub(crate) async fn cut<T>(self, work: impl Future<Output = T>) -> Result<T, Late> {
        if self.is_over() {
            return Err(Late);
        }
        let bound = self.clone();
        // Work comes first: what is there already, or with the next poll, needs no timer.
        let late = async move {
            next_poll().await;
            self.over().await;
        };
        tokio::select! {
            biased;
            done = bound.bound(work) => Ok(done),
            () = late => Err(Late),
        }
    }

    /// Does work, and waits for it until the deadline: neither that nor a client that goes away ends what is being counted,
    /// and a panic ends the work and nothing else. What is being read both end.
    ///
    /// Most work waits for nothing, and is done here at once: to hand it to a task, and its answer back, would wake another
    /// thread for each request. What has to wait goes on in a task of its own.
    pub(crate) async fn run<T: Send + 'static>(
        self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, NoAnswerReason> {
        let waiter = Arc::<AnswerWaiter>::default();
        let moment = self.moment;
        let deadline = Deadline { moment, waiter: Some(Arc::clone(&waiter)) };
        // It is dropped with this waiting.
        let _waits = AnswerWaiterGuard(waiter);
        let mut work = Box::pin(CURRENT.scope(deadline, work));
        let begun = poll_fn(|context| {
            // After a panic the work is only dropped.
            Poll::Ready(catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context))))
        });
        match begun.await {
            Ok(Poll::Ready(done)) => return Ok(done),
            Ok(Poll::Pending) => {}
            Err(_) => return Err(NoAnswerReason::Panicked),
        }
        match timeout_at(moment, tokio::spawn(work)).await {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(_)) => Err(NoAnswerReason::Panicked),
            Err(_) => Err(NoAnswerReason::Late),
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::future::BoxFuture;

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
    async fn a_panic_ends_its_work() {
        let panic = || std::hint::black_box(None::<()>).expect("this panics on purpose");
        let at_once = async move { panic() };
        assert_eq!(
            Deadline::after(Duration::from_secs(60)).run(at_once).await,
            Err(NoAnswerReason::Panicked)
        );
        let later = async move {
            tokio::task::yield_now().await;
            panic();
        };
        assert_eq!(Deadline::after(Duration::from_secs(60)).run(later).await, Err(NoAnswerReason::Panicked));
    }

    /// Checks that work which waits for nothing is done where it was asked for, and that what is late is not begun.
    #[tokio::test]
    async fn work_that_waits_for_nothing_needs_no_task() {
        let here = tokio::task::try_id();
        let run = |work| Deadline::after(Duration::from_secs(60)).run(work);
        assert_eq!(run(Box::pin(async { tokio::task::try_id() }) as BoxFuture<'static, _>).await, Ok(here));
        let later = async {
            tokio::task::yield_now().await;
            tokio::task::try_id()
        };
        assert_ne!(run(Box::pin(later)).await, Ok(here));
        assert_eq!(Deadline::at(Instant::now()).cut(async { 7 }).await, Err(Late));
        assert_eq!(Deadline::after(Duration::from_secs(60)).cut(async { 7 }).await, Ok(7));
    }
}
