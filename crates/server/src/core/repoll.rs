//! A future that is polled again at once if it was woken while it was polled.
//!
//! The parts of a connection wake each other: who reads a body tells the part that reads the socket to go on. For the runtime
//! that is a task that wants its turn again, and it wakes another thread to take it over: two switches of threads for each
//! request on an idle node, which cost as much as the request. Here the task goes on by itself instead, a few times before
//! others have their turn.
//!
//! ```text
//! idle ── poll ──► polling ── woken ──► again ── pending ──► polling once more
//!  │ woken: the     └── pending ──► idle              └── a few times: idle, and the runtime is told
//!  └ runtime is told
//! ```

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;

/// The phase in which nobody polls the future.
const IDLE: u8 = 0;
/// The phase in which it is polled.
const POLLING: u8 = 1;
/// The phase in which it is polled, and was woken meanwhile.
const AGAIN: u8 = 2;

/// Most polls at once.
const POLLS_MAX: usize = 4;

/// A future that is polled again at once if it was woken meanwhile.
pub(crate) struct RepollFuture<F> {
    work: Pin<Box<F>>,
    state: Arc<RepollState>,
    waker: Waker,
}

#[derive(Default)]
struct RepollState {
    phase: AtomicU8,
    /// The runtime's.
    outer: AtomicWaker,
}

impl Wake for RepollState {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let again = |phase| (phase != IDLE).then_some(AGAIN);
        if self.phase.fetch_update(Ordering::AcqRel, Ordering::Acquire, again).is_err() {
            self.outer.wake();
        }
    }
}

impl<F: Future> RepollFuture<F> {
    pub(crate) fn new(work: F) -> RepollFuture<F> {
        let state = Arc::<RepollState>::default();
        RepollFuture { work: Box::pin(work), waker: Waker::from(Arc::clone(&state)), state }
    }
}

impl<F: Future> Future for RepollFuture<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let RepollFuture { work, state, waker } = &mut *self;
        state.outer.register(context.waker());
        for _ in 0..POLLS_MAX {
            state.phase.store(POLLING, Ordering::Release);
            if let Poll::Ready(done) = work.as_mut().poll(&mut Context::from_waker(waker)) {
                return Poll::Ready(done);
            }
            // Whoever wakes it from here on tells the runtime.
            let ended = state.phase.compare_exchange(POLLING, IDLE, Ordering::AcqRel, Ordering::Acquire);
            if ended.is_ok() {
                return Poll::Pending;
            }
        }
        state.phase.store(IDLE, Ordering::Release);
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

/// Returns a future that is ready at its second poll, for which it asks itself.
///
/// A body that came with its head is there by then, as other parts of the connection have had their turn. A timer that is set
/// behind this is not set for most requests.
pub(crate) fn next_poll() -> impl Future<Output = ()> {
    let mut is_next = false;
    poll_fn(move |context| {
        if std::mem::replace(&mut is_next, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::time::Duration;

    use super::*;

    #[derive(Default)]
    struct CountedWakes(AtomicUsize);

    impl Wake for CountedWakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A future that wakes itself so many times before it is done, and how it fares: polls of the runtime until it is, and wakes
    /// that the runtime has seen.
    #[track_caller]
    fn check(wakes: usize, expected: (usize, usize)) {
        let mut left = wakes;
        let mut work = RepollFuture::new(poll_fn(move |context| {
            if left == 0 {
                return Poll::Ready(());
            }
            left -= 1;
            // Many times are as good as once.
            context.waker().wake_by_ref();
            let kept = context.waker().clone();
            kept.wake();
            Poll::Pending
        }));
        let seen = Arc::<CountedWakes>::default();
        let waker = Waker::from(Arc::clone(&seen));
        let mut polls = 1;
        while Pin::new(&mut work).poll(&mut Context::from_waker(&waker)).is_pending() {
            assert_eq!(
                seen.0.load(Ordering::Relaxed),
                polls,
                "who is not done and was woken is polled again"
            );
            polls += 1;
        }
        assert_eq!((polls, seen.0.load(Ordering::Relaxed)), expected, "{wakes} wakes");
    }

    #[test]
    fn the_next_poll_is_asked_for() {
        let seen = Arc::<CountedWakes>::default();
        let waker = Waker::from(Arc::clone(&seen));
        let mut next = std::pin::pin!(next_poll());
        assert!(next.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        assert_eq!(seen.0.load(Ordering::Relaxed), 1);
        assert!(next.as_mut().poll(&mut Context::from_waker(&waker)).is_ready());
        assert_eq!(seen.0.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn who_wakes_itself_goes_on_by_itself() {
        check(0, (1, 0));
        check(1, (1, 0));
        check(POLLS_MAX - 1, (1, 0));
        check(POLLS_MAX, (2, 1));
        check(3 * POLLS_MAX, (4, 3));
    }

    /// Checks that no wake is lost, whenever it comes.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn others_wake_it() {
        let (send, mut receive) = tokio::sync::mpsc::channel(1);
        let sender = tokio::spawn(async move {
            for number in 0..20_000u32 {
                send.send(number).await.unwrap();
                if number % 64 == 0 {
                    tokio::task::yield_now().await;
                }
            }
        });
        let receiver = tokio::spawn(RepollFuture::new(async move {
            let mut next = 0;
            while let Some(number) = receive.recv().await {
                assert_eq!(number, next);
                next += 1;
            }
            next
        }));
        let received = tokio::time::timeout(Duration::from_secs(60), receiver).await;
        assert_eq!(received.unwrap().unwrap(), 20_000);
        sender.await.unwrap();
    }
}
