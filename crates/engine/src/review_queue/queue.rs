//! The queue as threads share it: the table behind a lock, and its files, which one thread writes.
//!
//! ```text
//! change ─► the table, its entry, a place among those who wait ─► the writer: entries of all of them ─► who waits is woken
//! ```
//!
//! Whoever changes something waits as a future, so neither a lock nor a thread of callers is held while the disk is written.

use std::collections::HashSet;
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::thread::JoinHandle;

use disk::Device;
use event::{Key, Shingle, Time};
use journal::RecordId;
use parking_lot::{Condvar, Mutex};
use plan::ReviewPlan;

use super::agreement::{AgreementCount, ReviewAgreement, UnequalKeys};
use super::item::{ReviewItem, ReviewVerdict};
use super::store::{self, ReviewLog};
use super::table::{
    AlikeReviews, QueueOutcome, ReviewCensus, ReviewCursor, ReviewError, ReviewFilter, ReviewOrder,
    ReviewPage, ReviewTable,
};

/// Bytes of logs after which images of all items are written, unless these are longer still.
const LOG_BYTES_MIN: u64 = 4 << 20;
/// Entries that are looked at while others wait for the lock.
const LOOKED_AT: usize = 512;

/// The queue of reviews.
#[derive(Debug, Default)]
pub struct ReviewQueue {
    shared: Arc<SharedReviews>,
    /// Writes what has changed; `None` for a queue in memory.
    writer: Option<JoinHandle<()>>,
}

/// A queue, as its writer sees it, too.
#[derive(Debug, Default)]
struct SharedReviews {
    state: Mutex<ReviewQueueState>,
    /// Wakes the writer.
    changed: Condvar,
    /// `None` for a queue in memory.
    files: Option<ReviewFiles>,
}

#[derive(Debug, Default)]
struct ReviewQueueState {
    table: ReviewTable,
    /// Entries for the log, in the order of the changes.
    pending: Vec<Vec<u8>>,
    /// The places of those who wait until their entries are written.
    waiting: Vec<Arc<Mutex<PendingReviewWrite>>>,
    /// True once nothing more will change.
    is_closed: bool,
}

/// A wait for what was changed to be written.
#[derive(Debug, Default)]
struct PendingReviewWrite {
    result: Option<io::Result<()>>,
    waker: Option<Waker>,
}

/// The writer and the housekeeping use them. The locks are taken in the order `writing`, `log`, state.
#[derive(Debug)]
struct ReviewFiles {
    device: Box<dyn Device>,
    log: Mutex<ReviewLog>,
    /// Held while images are written.
    writing: Mutex<()>,
    /// Bytes that could not be read at the start.
    lost: u64,
}

impl ReviewQueueState {
    fn note(&mut self, item: &Arc<ReviewItem>) {
        self.pending.push(store::put_entry(item));
    }
}

impl ReviewQueue {
    /// Opens the queue of a directory.
    ///
    /// # Errors
    /// The device's.
    pub fn open(device: Box<dyn Device>) -> io::Result<ReviewQueue> {
        let mut stored = store::read(&*device)?;
        let mut table = ReviewTable::default();
        for (id, item) in std::mem::take(&mut stored.items) {
            match item {
                Some(item) => table.put(item),
                None => _ = table.remove(id),
            }
        }
        let log = Mutex::new(ReviewLog::behind(&stored));
        let files = ReviewFiles { device, log, writing: Mutex::default(), lost: stored.lost };
        let state = ReviewQueueState { table, ..ReviewQueueState::default() };
        let shared =
            Arc::new(SharedReviews { state: Mutex::new(state), changed: Condvar::new(), files: Some(files) });
        let written = Arc::clone(&shared);
        let writer =
            std::thread::Builder::new().name("reviews".to_owned()).spawn(move || written.keep_writing())?;
        Ok(ReviewQueue { shared, writer: Some(writer) })
    }

    /// Returns the bytes of its files that could not be read when they were opened.
    pub fn lost_bytes(&self) -> u64 {
        self.shared.files.as_ref().map_or(0, |files| files.lost)
    }

    /// Returns an item.
    ///
    /// # Errors
    /// [`ReviewError::Unknown`].
    pub fn get(&self, id: RecordId) -> Result<Arc<ReviewItem>, ReviewError> {
        self.shared.state.lock().table.get(id).map(Arc::clone).ok_or(ReviewError::Unknown(id))
    }

    /// Returns a page of those that are wanted, behind a place.
    pub fn page(
        &self,
        filter: &ReviewFilter,
        order: ReviewOrder,
        after: Option<ReviewCursor>,
        limit: usize,
        now: Time,
    ) -> ReviewPage {
        self.shared.state.lock().table.page(filter, order, after, limit, now)
    }

    /// Returns the number of items by state.
    pub fn census(&self, plan: &ReviewPlan, now: Time) -> ReviewCensus {
        self.shared.state.lock().table.census(plan, now)
    }

    /// Returns the number of items that are not decided and share a key, counted up to `most`.
    pub fn waiting_with(&self, key: Key, most: usize) -> usize {
        self.shared.state.lock().table.waiting_with(key, most)
    }

    /// Returns the agreement between reviewers over the decided items, of one pipeline if one is named. Goes through all of them, until
    /// `is_over`: first the items, the newest first, then their keys.
    pub fn agreement(&self, pipeline: Option<&str>, is_over: &dyn Fn() -> bool) -> ReviewAgreement {
        let (mut count, mut unequal) = (AgreementCount::default(), UnequalKeys::default());
        let mut before = None;
        loop {
            let items = self.shared.state.lock().table.decided_before(before, LOOKED_AT);
            let Some(last) = items.last() else { break };
            before = Some(last.id);
            let of_pipeline = |item: &&Arc<ReviewItem>| pipeline.is_none_or(|name| name == item.pipeline);
            items.iter().filter(of_pipeline).for_each(|item| count.add(item));
            if is_over() {
                count.cut_short();
                break;
            }
        }
        let mut after = None;
        loop {
            let keys = self.shared.state.lock().table.keys_after(after, pipeline, LOOKED_AT);
            let Some((key, id, _)) = keys.last() else { break };
            after = Some((*key, *id));
            let decided = keys.iter().filter_map(|(key, id, verdict)| Some((*key, *id, (*verdict)?)));
            decided.for_each(|(key, id, verdict)| unequal.add(key, id, verdict));
            if is_over() {
                count.cut_short();
                break;
            }
        }
        count.finish(unequal)
    }

    /// Returns the items that share a key and wait for a reviewer's vote, the oldest first, at most so many; and as many others
    /// at most, which he cannot decide now.
    pub fn alike(
        &self,
        key: Key,
        vote: (&str, ReviewVerdict),
        most: usize,
        plan: &ReviewPlan,
        now: Time,
    ) -> AlikeReviews {
        self.shared.state.lock().table.alike(key, vote, most, plan, now)
    }

    /// Queues items. Answers what became of each.
    ///
    /// # Errors
    /// If they cannot be written: they are in the queue, and a restart may lose them.
    pub(crate) async fn push(
        &self,
        items: Vec<ReviewItem>,
        plan: &ReviewPlan,
    ) -> (Vec<QueueOutcome>, io::Result<()>) {
        let mut outcomes = Vec::with_capacity(items.len());
        {
            let mut state = self.shared.state.lock();
            for item in items {
                let id = item.id;
                let queued = state.table.push(item, plan);
                if let QueueOutcome::InPlaceOf(gone) = queued {
                    state.pending.push(store::gone_entry(gone));
                }
                if let Some(item) = state.table.get(id).map(Arc::clone) {
                    state.note(&item);
                }
                outcomes.push(queued);
            }
        }
        (outcomes, self.written().await)
    }

    /// Gives an item to a reviewer for a time, or for longer.
    ///
    /// # Errors
    /// [`ReviewError`].
    pub async fn claim(
        &self,
        id: RecordId,
        by: &str,
        plan: &ReviewPlan,
        now: Time,
    ) -> Result<Arc<ReviewItem>, ReviewError> {
        self.change(|table| table.claim(id, by, plan, now)).await
    }

    /// Takes back a reviewer's claim.
    ///
    /// # Errors
    /// [`ReviewError`].
    pub async fn release(&self, id: RecordId, by: &str, now: Time) -> Result<Arc<ReviewItem>, ReviewError> {
        self.change(|table| table.release(id, by, now)).await
    }

    /// Has a lead decide an item.
    ///
    /// # Errors
    /// [`ReviewError`].
    pub async fn escalate(
        &self,
        id: RecordId,
        by: &str,
        why: &str,
        now: Time,
    ) -> Result<Arc<ReviewItem>, ReviewError> {
        self.change(|table| table.escalate(id, by, why, now)).await
    }

    /// Adds a comment, whoever works on the item, and also once it is decided.
    ///
    /// # Errors
    /// [`ReviewError`].
    pub async fn comment(
        &self,
        id: RecordId,
        by: &str,
        text: &str,
        now: Time,
    ) -> Result<Arc<ReviewItem>, ReviewError> {
        self.change(|table| table.comment(id, by, text, now)).await
    }

    /// Checks whether a reviewer may vote so on an item now.
    ///
    /// # Errors
    /// As [`ReviewQueue::decide`].
    pub(crate) fn may_decide(
        &self,
        id: RecordId,
        by: &str,
        verdict: ReviewVerdict,
        plan: &ReviewPlan,
        now: Time,
    ) -> Result<Arc<ReviewItem>, ReviewError> {
        let state = self.shared.state.lock();
        state.table.may_decide(id, by, verdict, plan, now)?;
        state.table.get(id).map(Arc::clone).ok_or(ReviewError::Unknown(id))
    }

    /// Takes a reviewer's vote. Answers whether anything has changed.
    ///
    /// # Errors
    /// [`ReviewError`].
    pub(crate) async fn decide(
        &self,
        id: RecordId,
        by: &str,
        verdict: ReviewVerdict,
        plan: &ReviewPlan,
        now: Time,
    ) -> Result<(Arc<ReviewItem>, bool), ReviewError> {
        let (item, is_new) = {
            let mut state = self.shared.state.lock();
            let (item, is_new) = state.table.decide(id, by, verdict, plan, now)?;
            state.note(&item);
            (item, is_new)
        };
        self.written().await?;
        Ok((item, is_new))
    }

    async fn change(
        &self,
        change: impl FnOnce(&mut ReviewTable) -> Result<Arc<ReviewItem>, ReviewError>,
    ) -> Result<Arc<ReviewItem>, ReviewError> {
        let item = {
            let mut state = self.shared.state.lock();
            let item = change(&mut state.table)?;
            state.note(&item);
            item
        };
        self.written().await?;
        Ok(item)
    }

    /// Waits until what has changed by now is written: it outlives the process then, and is synced with the housekeeping.
    async fn written(&self) -> io::Result<()> {
        if self.writer.is_none() {
            self.shared.state.lock().pending.clear();
            return Ok(());
        }
        let place = Arc::<Mutex<PendingReviewWrite>>::default();
        self.shared.state.lock().waiting.push(Arc::clone(&place));
        self.shared.changed.notify_one();
        poll_fn(|context| {
            let mut place = place.lock();
            match place.result.take() {
                Some(result) => Poll::Ready(result),
                None => {
                    place.waker = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }

    /// Writes images of all items. Decisions and reviewers go on meanwhile.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn save(&self) -> io::Result<()> {
        self.shared.save()
    }

    /// Returns the number of items of events that have a key of these.
    pub(crate) fn count_of(&self, shingles: &HashSet<Shingle>) -> u64 {
        let is_meant = |item: &ReviewItem| item.keys.iter().any(|(_, shingle)| shingles.contains(shingle));
        self.shared.state.lock().table.all().iter().filter(|item| is_meant(item)).count() as u64
    }

    /// Takes out the items of events that have a key of these, and writes the others. Answers how many went.
    ///
    /// # Errors
    /// If the device does not write.
    pub(crate) fn erase(&self, shingles: &HashSet<Shingle>) -> io::Result<u64> {
        self.shared.erase(shingles)
    }

    /// Lets go of what was decided before a time, or was published and not looked at, and syncs the log or writes images of all.
    /// Answers how many items went.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn maintain(&self, before: Option<Time>) -> io::Result<usize> {
        self.shared.maintain(before)
    }
}

impl Drop for ReviewQueue {
    fn drop(&mut self) {
        self.shared.state.lock().is_closed = true;
        self.shared.changed.notify_one();
        // It has nothing to write but what is waited for.
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}

impl SharedReviews {
    /// Writes what is waited for, until the queue is closed.
    fn keep_writing(&self) {
        loop {
            let waiting = {
                let mut state = self.state.lock();
                while state.waiting.is_empty() && !state.is_closed {
                    self.changed.wait(&mut state);
                }
                std::mem::take(&mut state.waiting)
            };
            if waiting.is_empty() {
                return;
            }
            // With images of all items if something was not written before.
            let written = self.write().or_else(|_| self.save());
            for place in waiting {
                let mut place = place.lock();
                place.result = Some(match &written {
                    Ok(()) => Ok(()),
                    Err(error) => Err(io::Error::new(error.kind(), error.to_string())),
                });
                if let Some(waker) = place.waker.take() {
                    waker.wake();
                }
            }
        }
    }

    /// Writes what has changed by now.
    fn write(&self) -> io::Result<()> {
        let Some(ReviewFiles { device, log, .. }) = &self.files else {
            self.state.lock().pending.clear();
            return Ok(());
        };
        let mut log = log.lock();
        let pending = std::mem::take(&mut self.state.lock().pending);
        log.append(&**device, &pending)
    }

    /// See [`ReviewQueue::save`].
    fn save(&self) -> io::Result<()> {
        let Some(ReviewFiles { device, log, writing, .. }) = &self.files else { return Ok(()) };
        let _alone = writing.lock();
        {
            let log = log.lock();
            if log.is_current() && self.state.lock().pending.is_empty() {
                return Ok(());
            }
        }
        let (number, items, was_behind) = {
            let mut log = log.lock();
            let (pending, items) = {
                let mut state = self.state.lock();
                (std::mem::take(&mut state.pending), state.table.all())
            };
            let was_behind = log.is_behind();
            // Until the images are in place the old log has it all.
            let is_behind = log.append(&**device, &pending).is_err();
            let number = log.turn();
            (number, items, was_behind || is_behind)
        };
        let written = store::write_images(&**device, number, &items);
        let mut log = log.lock();
        match written {
            Ok(bytes) => {
                (log.bytes, log.image_bytes) = (0, bytes);
                Ok(())
            }
            Err(error) => {
                if was_behind {
                    log.set_behind();
                }
                Err(error)
            }
        }
    }

    /// See [`ReviewQueue::erase`].
    fn erase(&self, shingles: &HashSet<Shingle>) -> io::Result<u64> {
        let mut erased = 0;
        {
            let mut state = self.state.lock();
            let is_meant =
                |item: &ReviewItem| item.keys.iter().any(|(_, shingle)| shingles.contains(shingle));
            for item in state.table.all().into_iter().filter(|item| is_meant(item)) {
                state.table.remove(item.id);
                state.pending.push(store::gone_entry(item.id));
                erased += 1;
            }
        }
        self.save()?;
        Ok(erased)
    }

    /// See [`ReviewQueue::maintain`].
    fn maintain(&self, before: Option<Time>) -> io::Result<usize> {
        let gone = {
            let mut state = self.state.lock();
            let gone = before.map(|before| state.table.expire(before)).unwrap_or_default();
            state.pending.extend(gone.iter().map(|id| store::gone_entry(*id)));
            gone.len()
        };
        let written = self.write();
        let Some(ReviewFiles { device, log, .. }) = &self.files else { return Ok(gone) };
        let (is_long, blob) = {
            let log = log.lock();
            (log.bytes > LOG_BYTES_MIN.max(log.image_bytes.saturating_mul(2)), log.blob())
        };
        if written.is_err() || is_long || log.lock().is_behind() {
            self.save()?;
        } else if let Some(blob) = blob {
            blob.sync()?;
            device.sync_names()?;
        }
        Ok(gone)
    }
}
