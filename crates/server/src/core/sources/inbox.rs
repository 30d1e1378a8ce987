//! Lines that were sent to a source's listener and wait for its thread: bounded in number, bytes, and rate of one sender.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::status::SourceStatus;

/// Lines and bytes that wait at most.
const LINES_MAX: usize = 8_192;
const BYTES_MAX: usize = 8 << 20;
/// Bytes that a line counts for beside its own.
const LINE_COST: usize = 128;
/// Most senders whose rates are known; beyond that all begin anew.
const SENDERS_MAX: usize = 10_000;

/// A line that was sent.
pub(crate) struct SentLine {
    pub(crate) sender: Option<IpAddr>,
    pub(crate) line: Vec<u8>,
    _room: OwnedSemaphorePermit,
}

/// The lines of a sender within a second.
struct SenderRate {
    since: Instant,
    lines: u32,
}

/// The place that a listener puts lines into.
pub(crate) struct SourceInbox {
    status: Arc<SourceStatus>,
    to: Sender<SentLine>,
    from: Mutex<Option<Receiver<SentLine>>>,
    room: Arc<Semaphore>,
    rate_max: u32,
    rates: Mutex<HashMap<Option<IpAddr>, SenderRate>>,
}

impl std::fmt::Debug for SourceInbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SourceInbox").finish_non_exhaustive()
    }
}

impl SourceInbox {
    pub(super) fn new(rate_max: u32, status: Arc<SourceStatus>) -> SourceInbox {
        let (to, from) = channel(LINES_MAX);
        let room = Arc::new(Semaphore::new(BYTES_MAX));
        SourceInbox { status, to, from: Mutex::new(Some(from)), room, rate_max, rates: Mutex::default() }
    }

    /// The end at which lines are taken; once.
    pub(crate) fn receiver(&self) -> Option<Receiver<SentLine>> {
        self.from.lock().take()
    }

    /// Bytes that wait.
    pub(crate) fn waiting(&self) -> usize {
        BYTES_MAX.saturating_sub(self.room.available_permits())
    }

    /// Returns true if a sender may send one more line now; counts it as dropped otherwise.
    fn is_within_rate(&self, sender: Option<IpAddr>) -> bool {
        let now = Instant::now();
        let mut rates = self.rates.lock();
        if rates.len() >= SENDERS_MAX && !rates.contains_key(&sender) {
            rates.clear();
        }
        let rate = rates.entry(sender).or_insert(SenderRate { since: now, lines: 0 });
        if now.duration_since(rate.since) >= Duration::from_secs(1) {
            *rate = SenderRate { since: now, lines: 0 };
        }
        rate.lines = rate.lines.saturating_add(1);
        let is_within = rate.lines <= self.rate_max;
        drop(rates);
        if !is_within {
            self.status.dropped.inc();
        }
        is_within
    }

    /// Puts a line in, and waits for room: its sender is then read no further.
    pub(crate) async fn put(&self, sender: Option<IpAddr>, line: Vec<u8>) {
        if !self.is_within_rate(sender) {
            return;
        }
        let cost = cost(&line);
        // Neither the semaphore nor the channel is closed before the node ends.
        let Ok(room) = Arc::clone(&self.room).acquire_many_owned(cost).await else { return };
        if self.to.send(SentLine { sender, line, _room: room }).await.is_err() {
            self.status.dropped.inc();
        }
    }

    /// Puts a line in if there is room, and counts it as dropped if there is none.
    pub(crate) fn try_put(&self, sender: Option<IpAddr>, line: Vec<u8>) {
        if !self.is_within_rate(sender) {
            return;
        }
        let Ok(room) = Arc::clone(&self.room).try_acquire_many_owned(cost(&line)) else {
            self.status.dropped.inc();
            return;
        };
        if let Err(TrySendError::Full(_) | TrySendError::Closed(_)) =
            self.to.try_send(SentLine { sender, line, _room: room })
        {
            self.status.dropped.inc();
        }
    }
}

fn cost(line: &[u8]) -> u32 {
    u32::try_from((line.len() + LINE_COST).min(BYTES_MAX)).unwrap_or(1)
}
