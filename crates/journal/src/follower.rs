//! Threads that hand on what a journal has, such as one that uploads it: they end with their owner, at once or after what is
//! left.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use event_listener::Event as Signal;

/// The time between two looks whether threads have ended.
const LOOK: Duration = Duration::from_millis(10);

/// Tells followers of a journal to end.
#[derive(Debug, Default)]
pub struct FollowerStop {
    is_stopped: AtomicBool,
    /// One more pass is made, and no further one.
    is_ending: AtomicBool,
    changed: Signal,
}

impl FollowerStop {
    /// Returns true if a follower is to end at once.
    pub fn is_raised(&self) -> bool {
        self.is_stopped.load(Ordering::Acquire)
    }

    /// Returns true if a follower is to end after what is left. Asked before the last look at the journal.
    pub fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Acquire)
    }

    /// Ends when a follower is to end at once.
    pub async fn raised(&self) {
        loop {
            let changed = self.changed.listen();
            if self.is_raised() {
                return;
            }
            changed.await;
        }
    }

    /// Ends when a follower is to end, at once or soon.
    pub async fn any(&self) {
        loop {
            let changed = self.changed.listen();
            if self.is_raised() || self.is_ending() {
                return;
            }
            changed.await;
        }
    }

    fn tell(&self, flag: &AtomicBool) {
        flag.store(true, Ordering::Release);
        self.changed.notify(usize::MAX);
    }
}

/// Threads that follow a journal. They end when this value is dropped.
#[derive(Debug, Default)]
pub struct FollowerThreads {
    stop: Arc<FollowerStop>,
    threads: Vec<JoinHandle<()>>,
}

impl FollowerThreads {
    /// Returns what tells the threads to end.
    pub fn stop(&self) -> Arc<FollowerStop> {
        Arc::clone(&self.stop)
    }

    /// Starts a thread of a name.
    ///
    /// # Errors
    /// The system's, if it gives no thread.
    pub fn spawn(&mut self, name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
        self.threads.push(std::thread::Builder::new().name(name.to_owned()).spawn(work)?);
        Ok(())
    }

    /// Lets the threads hand on what is left of a journal that was closed, as far as that takes no longer than this, and ends
    /// them.
    pub fn finish(self, within: Duration) {
        self.stop.tell(&self.stop.is_ending);
        let end = Instant::now() + within;
        while self.threads.iter().any(|thread| !thread.is_finished()) && Instant::now() < end {
            std::thread::sleep(LOOK);
        }
    }
}

impl Drop for FollowerThreads {
    fn drop(&mut self) {
        self.stop.tell(&self.stop.is_stopped);
        for thread in self.threads.drain(..) {
            // One that panicked has nothing more to do.
            let _ = thread.join();
        }
    }
}

/// Returns the pause after so many failures in a row, from one: twice as long each time, up to the longest.
pub fn retry_pause(failures: u64, first: Duration, longest: Duration) -> Duration {
    let doublings = u32::try_from(failures.saturating_sub(1)).unwrap_or(u32::MAX).min(16);
    first.saturating_mul(1 << doublings).min(longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_end_after_what_is_left_or_at_once() {
        let mut threads = FollowerThreads::default();
        let (stop, done) = (threads.stop(), Arc::new(AtomicBool::new(false)));
        let is_done = Arc::clone(&done);
        threads
            .spawn("follower", move || {
                pollster::block_on(stop.any());
                is_done.store(stop.is_ending() && !stop.is_raised(), Ordering::Release);
            })
            .expect("thread");
        threads.finish(Duration::from_secs(60));
        assert!(done.load(Ordering::Acquire), "it was let finish");

        let mut threads = FollowerThreads::default();
        let stop = threads.stop();
        let told = Arc::clone(&stop);
        threads.spawn("follower", move || pollster::block_on(stop.raised())).expect("thread");
        drop(threads);
        assert!(told.is_raised() && !told.is_ending());
    }

    #[test]
    fn pauses_double_up_to_the_longest() {
        let pause =
            |failures| retry_pause(failures, Duration::from_secs(1), Duration::from_secs(300)).as_secs();
        assert_eq!([0, 1, 2, 3, 9, 10, 1000, u64::MAX].map(pause), [1, 1, 2, 4, 256, 300, 300, 300]);
    }
}
