//! A batch's observes by key, for engines that read and write each key once a batch.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::cell::Cell;
use crate::engine::Error;
use crate::workload::Batch;

/// The observes of a batch in the order of their keys, those of a key in their own order: trees and tables are walked
/// in order, and a frequent key is read and written once.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    order: Vec<(u64, u32)>,
}

impl Groups {
    pub(crate) fn sort(&mut self, batch: &Batch) {
        self.order.clear();
        self.order.extend(batch.keys.iter().zip(0..).map(|(key, index)| (*key, index)));
        self.order.sort_unstable();
    }

    /// The distinct keys, in order, each with its observes.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &[(u64, u32)])> {
        self.order.chunk_by(|left, right| left.0 == right.0).map(|group| (group[0].0, group))
    }
}

/// Reads and adds the observes of one key; answers what the readings counted.
pub(crate) fn observe(cell: &mut Cell, batch: &Batch, group: &[(u64, u32)]) -> u64 {
    let mut counted = 0;
    for (_, index) in group {
        let index = *index as usize;
        let time = batch.time(index);
        // All of it is made, as the others' is, though only a sum is used.
        counted += std::hint::black_box(cell.reading(time)).counted();
        cell.add(time, batch.counters[index]);
    }
    counted
}

/// A key as ordered bytes.
pub(crate) fn key_bytes(key: u64) -> [u8; 8] {
    key.to_be_bytes()
}

/// The interval at which the write-ahead logs are synced.
pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// A thread that does something again and again until it is dropped: what makes things durable, mostly.
pub(crate) struct Background {
    stop: Arc<AtomicBool>,
    failure: Arc<Mutex<Option<Error>>>,
    thread: Option<JoinHandle<()>>,
}

impl Background {
    pub(crate) fn every(
        interval: Duration,
        mut act: impl FnMut() -> Result<(), Error> + Send + 'static,
    ) -> Background {
        let stop = Arc::new(AtomicBool::new(false));
        let failure = Arc::new(Mutex::new(None));
        let (stopped, failed) = (stop.clone(), failure.clone());
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                std::thread::park_timeout(interval);
                if let Err(error) = act() {
                    failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                }
            }
        });
        Background { stop, failure, thread: Some(thread) }
    }

    /// Ends it and says whether it ever failed.
    pub(crate) fn stop(&mut self) -> Result<(), Error> {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            thread.join().map_err(|_| "the thread that syncs panicked")?;
        }
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take().map_or(Ok(()), Err)
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        // Whoever wants to know of a failure stops it first.
        let _ = self.stop();
    }
}
