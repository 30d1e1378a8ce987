//! Reading many records at once: near neighbours in one read, several reads in flight.

use parking_lot::{Condvar, Mutex};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use super::error::StoreError;
use super::format::{
    Position, RECORD_HEADER_BYTES, WORDS_MAX, read_record, read_words, record_bytes, u16_at,
};
use super::{LogRecord, Segment};
use disk::read_full;

/// Threads that read besides the caller's: about the depth at which a flash disk reaches its speed.
const THREADS: usize = 8;
/// Records that lie no further apart are read together: a page of the system's cache is read anyway.
const GAP_BYTES: u64 = 4 << 10;
/// A read is not made longer than this by its neighbours.
const READ_BYTES: u64 = 256 << 10;

/// Reads one record. One read if it has at most `words_hint` words, else two.
pub(crate) fn fetch(
    segment: &Segment,
    position: Position,
    words_hint: usize,
) -> Result<LogRecord, StoreError> {
    let offset = position.offset();
    if offset >= segment.size.load(Ordering::Acquire) {
        return Err(StoreError::Missing { slot: position.slot(), offset });
    }
    // Most records are short: they need no buffer of their own.
    let mut short = [0; 512];
    let mut long = Vec::new();
    let length = record_bytes(words_hint.min(WORDS_MAX));
    let buffer = match short.get_mut(..length) {
        Some(short) => short,
        None => {
            long.resize(length, 0);
            &mut long[..]
        }
    };
    let io = |error| StoreError::io(segment.name())(error);
    let count = read_full(&*segment.blob, offset, buffer).map_err(io)?;
    let buffer = &buffer[..count];
    let Some(head) = buffer.first_chunk::<RECORD_HEADER_BYTES>() else {
        return Err(damaged(segment, offset));
    };
    let whole = record_bytes(usize::from(u16_at(head, 4)));
    if whole <= count {
        return decode(buffer).ok_or_else(|| damaged(segment, offset));
    }
    let mut bytes = buffer.to_vec();
    bytes.resize(whole, 0);
    read_full(&*segment.blob, offset + count as u64, &mut bytes[count..]).map_err(io)?;
    decode(&bytes).ok_or_else(|| damaged(segment, offset))
}

fn decode(bytes: &[u8]) -> Option<LogRecord> {
    let (header, words) = read_record(bytes)?;
    let mut record = LogRecord {
        key: header.key,
        tag: header.tag,
        expires_minutes: header.expires_minutes,
        words: Vec::new(),
    };
    read_words(words, &mut record.words);
    Some(record)
}

fn damaged(segment: &Segment, offset: u64) -> StoreError {
    StoreError::Damaged { segment: segment.name(), offset }
}

/// One read of the device.
struct FetchJob {
    segment: Arc<Segment>,
    from: u64,
    to: u64,
    /// Index, position and hint of each record in it.
    wanted: Vec<(usize, Position, usize)>,
}

impl FetchJob {
    fn run(&self, each: &mut dyn FnMut(usize, Result<LogRecord, StoreError>)) {
        if let [(index, position, hint)] = self.wanted[..] {
            each(index, fetch(&self.segment, position, hint));
            return;
        }
        let mut bytes = vec![0; (self.to - self.from) as usize];
        let count = read_full(&*self.segment.blob, self.from, &mut bytes).unwrap_or(0);
        for &(index, position, hint) in &self.wanted {
            let from = (position.offset() - self.from) as usize;
            let found = bytes[..count].get(from..).and_then(decode);
            // What is longer than its hint, or could not be read with the others, is read alone.
            each(index, found.map_or_else(|| fetch(&self.segment, position, hint), Ok));
        }
    }
}

/// The jobs of one call, taken by whoever is free.
struct FetchBatch {
    jobs: Vec<FetchJob>,
    next: AtomicUsize,
}

impl FetchBatch {
    fn has_more(&self) -> bool {
        self.next.load(Ordering::Relaxed) < self.jobs.len()
    }

    fn run(&self, each: &mut dyn FnMut(usize, Result<LogRecord, StoreError>)) {
        while let Some(job) = self.jobs.get(self.next.fetch_add(1, Ordering::Relaxed)) {
            job.run(each);
        }
    }
}

type FetchSender = mpsc::Sender<(usize, Result<LogRecord, StoreError>)>;

/// Threads that wait for batches.
pub(crate) struct FetchPool {
    queue: Arc<FetchQueue>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct FetchQueue {
    waiting: Mutex<FetchQueueState>,
    ready: Condvar,
}

#[derive(Default)]
struct FetchQueueState {
    batches: std::collections::VecDeque<(Arc<FetchBatch>, FetchSender)>,
    closed: bool,
}

impl FetchPool {
    /// A pool of as many threads as the system grants.
    pub(crate) fn start() -> FetchPool {
        let queue = Arc::new(FetchQueue::default());
        let spawn = |number| {
            let queue = queue.clone();
            std::thread::Builder::new()
                .name(format!("ledger-read-{number}"))
                .spawn(move || queue.serve())
                .ok()
        };
        let threads = (0..THREADS).map_while(spawn).collect();
        FetchPool { queue, threads }
    }
}

impl FetchQueue {
    fn serve(&self) {
        let mut waiting = self.waiting.lock();
        while !waiting.closed {
            let Some((batch, answers)) = waiting.batches.pop_front() else {
                self.ready.wait(&mut waiting);
                continue;
            };
            // Waking costs more than a read that the system has cached: each wakes the next, while there is work.
            if !waiting.batches.is_empty() && batch.has_more() {
                self.ready.notify_one();
            }
            drop(waiting);
            // Who asked may be gone already; then so is the interest in the answer.
            batch.run(&mut |index, found| drop(answers.send((index, found))));
            drop((batch, answers));
            waiting = self.waiting.lock();
        }
    }
}

impl Drop for FetchPool {
    fn drop(&mut self) {
        let mut waiting = self.queue.waiting.lock();
        waiting.closed = true;
        waiting.batches.clear();
        drop(waiting);
        self.queue.ready.notify_all();
        for thread in self.threads.drain(..) {
            // A reader does not panic; if it did, there is nothing to save.
            let _ = thread.join();
        }
    }
}

/// Reads the records `wanted` in the order of their positions, and gives each with its index, in any order. The
/// caller's thread reads too; a batch of one or two reads is its alone.
pub(crate) fn fetch_many<'p>(
    wanted: &[(Position, usize)],
    segment: impl Fn(u16) -> Option<Arc<Segment>>,
    pool: impl FnOnce() -> &'p FetchPool,
    each: &mut dyn FnMut(usize, Result<LogRecord, StoreError>),
) {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_unstable_by_key(|index| wanted[*index].0);
    let mut jobs: Vec<FetchJob> = Vec::new();
    for index in order {
        let (position, hint) = wanted[index];
        let from = position.offset();
        let to = from + record_bytes(hint.min(WORDS_MAX)) as u64;
        if let Some(job) = jobs.last_mut()
            && job.segment.slot == position.slot()
            && from <= job.to + GAP_BYTES
            && to.max(job.to) - job.from <= READ_BYTES
        {
            job.to = job.to.max(to);
            job.wanted.push((index, position, hint));
        } else if let Some(segment) = segment(position.slot()) {
            jobs.push(FetchJob { segment, from, to, wanted: vec![(index, position, hint)] });
        } else {
            each(index, Err(StoreError::Missing { slot: position.slot(), offset: from }));
        }
    }
    let helpers = jobs.len().saturating_sub(2).min(THREADS);
    let records: usize = jobs.iter().map(|job| job.wanted.len()).sum();
    let batch = Arc::new(FetchBatch { jobs, next: AtomicUsize::new(0) });
    if helpers == 0 {
        batch.run(each);
        return;
    }
    let pool = pool();
    if pool.threads.is_empty() {
        batch.run(each);
        return;
    }
    let (answers, answered) = mpsc::channel();
    {
        let mut waiting = pool.queue.waiting.lock();
        waiting.batches.extend((0..helpers).map(|_| (batch.clone(), answers.clone())));
    }
    drop(answers);
    pool.queue.ready.notify_one();
    let mut done = 0;
    batch.run(&mut |index, found| {
        done += 1;
        each(index, found);
    });
    // Every job was taken; those that took them answer, and hang up when they are through.
    while done < records {
        let Ok((index, found)) = answered.recv() else { break };
        done += 1;
        each(index, found);
    }
}
