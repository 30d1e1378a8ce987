//! Environment of a node: a monotonic clock, tasks, and threads that may block. Behind [`Environment`] is a runtime of
//! its own, or a simulation that knows no other order and no other time than its seed.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};

/// Work without an answer.
pub type BackgroundTask = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The runner of a node's background work.
pub trait Environment: Send + Sync {
    /// The time since some beginning. It never goes back, and has nothing to do with the times of events.
    fn now(&self) -> Duration;

    /// Runs a task beside the caller. One that is let go of before its end is dropped.
    fn spawn(&self, task: BackgroundTask);

    /// Ends after so long.
    fn sleep(&self, time: Duration) -> BackgroundTask;

    /// Runs a job on a thread that may wait for a disk.
    fn block(&self, job: Box<dyn FnOnce() + Send>);

    /// Bits that no other node has drawn.
    fn seed(&self) -> u64;
}

/// A small runtime of a node's own, so that a ledger can be used from any other, or from none.
#[derive(Debug)]
pub struct ThreadedEnvironment {
    runtime: Option<Runtime>,
    start: Instant,
    seed: u64,
}

impl ThreadedEnvironment {
    /// Starts so many threads for the network, at least one.
    ///
    /// # Errors
    /// The system's, if it gives no thread or no random bits.
    pub fn new(threads: usize) -> io::Result<ThreadedEnvironment> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(threads.max(1))
            .thread_name("cluster")
            .enable_all()
            .build()?;
        let seed = getrandom::u64().map_err(|error| io::Error::other(error.to_string()))?;
        Ok(ThreadedEnvironment { runtime: Some(runtime), start: Instant::now(), seed })
    }

    /// The runtime, for connections.
    ///
    pub fn handle(&self) -> Option<tokio::runtime::Handle> {
        self.runtime.as_ref().map(|runtime| runtime.handle().clone())
    }
}

impl Drop for ThreadedEnvironment {
    /// Lets go of what is at work without waiting for it: this may be one of the runtime's own threads.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Environment for ThreadedEnvironment {
    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn spawn(&self, task: BackgroundTask) {
        if let Some(runtime) = &self.runtime {
            runtime.spawn(task);
        }
    }

    fn sleep(&self, time: Duration) -> BackgroundTask {
        // Who sleeps may be on another runtime, or on none.
        let _here = self.runtime.as_ref().map(Runtime::enter);
        Box::pin(tokio::time::sleep(time))
    }

    fn block(&self, job: Box<dyn FnOnce() + Send>) {
        if let Some(runtime) = &self.runtime {
            runtime.spawn_blocking(job);
        }
    }

    fn seed(&self) -> u64 {
        self.seed
    }
}
