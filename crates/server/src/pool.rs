//! Reading, away from the threads that answer everybody.
//!
//! ```text
//! bytes of a stranger ─┬─ a few, and no message ─► read where they are
//!                      ├─ short ─► a place of one in each processor ─┐
//!                      └─ long  ─► a place of half as many ──────────┴─► read on a thread that answers nobody
//! ```
//!
//! How long a message takes to be read its sender decides. So all reading has places, and waits for one no longer than
//! until its deadline; a reading whose deadline comes is told to stop, and nothing of it is counted. Long messages have
//! places of their own, so that short ones do not wait behind them.

use std::sync::Arc;
use std::thread::available_parallelism;

use content::budget::Cancellation;
use event::{Event, Value};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::deadline::Deadline;
use crate::node::blocking;

/// Bytes of fields up to which an event is read where it is: that takes some hundred microseconds at most. A message
/// never is.
pub(crate) const INLINE_BYTES_MAX: usize = 4 << 10;
/// Bytes up to which a reading is short.
const SHORT_BYTES_MAX: usize = 64 << 10;

/// An event was not read before its deadline; nothing of it was counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it could not be read in time; nothing of it was counted")]
pub(crate) struct Late;

/// Places for readings.
#[derive(Debug)]
pub(crate) struct ReadingPool {
    short: Arc<Semaphore>,
    long: Arc<Semaphore>,
}

impl ReadingPool {
    /// Returns a pool with so many places for short readings, and half as many for long ones; at least one of each.
    pub(crate) fn new(places: usize) -> ReadingPool {
        let of = |places: usize| Arc::new(Semaphore::new(places.max(1)));
        ReadingPool { short: of(places), long: of(places / 2) }
    }

    /// Returns a pool with a place for each processor.
    pub(crate) fn of_machine() -> ReadingPool {
        ReadingPool::new(available_parallelism().map_or(1, usize::from))
    }

    /// Waits for a place for a reading of so many bytes.
    ///
    /// # Errors
    /// If the current deadline comes first.
    pub(crate) async fn enter(&self, bytes: usize) -> Result<OwnedSemaphorePermit, Late> {
        let places = if bytes <= SHORT_BYTES_MAX { &self.short } else { &self.long };
        let place = Arc::clone(places).acquire_owned();
        // The semaphores are never closed.
        in_time(place).await?.map_err(|_| Late)
    }

    /// Reads so many bytes in a place. A panic goes on in the caller.
    ///
    /// # Errors
    /// If the current deadline comes before the end: what is read then is of no use, and ends soon.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        bytes: usize,
        work: impl FnOnce(&Cancellation) -> T + Send + 'static,
    ) -> Result<T, Late> {
        let place = self.enter(bytes).await?;
        let cancellation = Cancellation::new();
        let told = cancellation.clone();
        let reading = blocking(move || {
            let _place = place;
            (!told.is_cancelled()).then(|| work(&told))
        });
        // Also when this is dropped, because the client has gone or its connection was closed.
        let _cancels = Cancels(cancellation);
        in_time(reading).await?.ok_or(Late)
    }
}

/// Cancels a reading that nobody waits for any more.
struct Cancels(Cancellation);

impl Drop for Cancels {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

async fn in_time<T>(work: impl Future<Output = T>) -> Result<T, Late> {
    match Deadline::current() {
        None => Ok(work.await),
        Some(deadline) => tokio::select! {
            biased;
            () = deadline.passed() => Err(Late),
            done = work => Ok(done),
        },
    }
}

/// Returns whether so little of an event is read that it is read where it is.
pub(crate) fn is_brief(event: &Event) -> bool {
    event.raw.is_none() && bytes(event) <= INLINE_BYTES_MAX
}

/// Returns the bytes of an event's message and fields.
pub(crate) fn bytes(event: &Event) -> usize {
    let of = |value: &Value| match value {
        Value::String(text) => text.len(),
        Value::Bytes(bytes) => bytes.len(),
        Value::List(items) => items.iter().map(|item| item.len()).sum(),
        _ => 0,
    };
    let fields: usize = event.fields.iter().map(|(_, value)| of(value)).sum();
    event.raw.as_ref().map_or(0, |raw| raw.len()) + fields
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use axum::body::Bytes;
    use engine::{Config, Engine, Overrides, Plan};

    use super::*;
    use crate::input::Lookups;
    use crate::node::Node;

    /// Whatever wire it comes over, a message is read in a place, and never where it is asked for.
    #[tokio::test]
    async fn messages_wait_for_places_and_brief_events_do_not() {
        let plan = Plan::compile(&Config::from_preset("mail", &Overrides::default()));
        let engine =
            Arc::new(Engine::ephemeral(plan.unwrap_or_else(|problems| panic!("{problems}"))).unwrap());
        let node = Node::new(engine, crate::Clock::of(crate::SystemClock, None), Bytes::new());
        let pipeline = node.pipeline(None).unwrap();
        let taken = Arc::clone(&node.reading.short).available_permits() as u32;
        let taken = Arc::clone(&node.reading.short).try_acquire_many_owned(taken).unwrap();
        let prepare = |event: Event| {
            let reading = node.prepare(&pipeline, event, node.now(), Lookups::None);
            Deadline::after(Duration::from_millis(1)).bound(reading)
        };
        let message =
            || Event { raw: Some(Arc::from(&b"From: a@example.org\r\n\r\nb\r\n"[..])), ..Event::default() };
        assert_eq!(prepare(message()).await.err(), Some(Late));
        assert!(prepare(Event::default()).await.is_ok());
        drop(taken);
        assert!(node.prepare(&pipeline, message(), node.now(), Lookups::None).await.is_ok());
    }

    #[tokio::test]
    async fn long_readings_leave_places_to_short_ones() {
        let pool = ReadingPool::new(2);
        let long = pool.enter(1 << 20).await.unwrap();
        let soon = Deadline::after(Duration::from_millis(1));
        assert_eq!(soon.bound(pool.read(1 << 20, |_| ())).await, Err(Late), "it waits until its deadline");
        assert_eq!(pool.read(10, |_| 7).await, Ok(7));
        drop(long);
        assert_eq!(pool.read(1 << 20, |_| 8).await, Ok(8));
    }

    #[tokio::test]
    async fn a_reading_that_nobody_waits_for_ends() {
        let pool = ReadingPool::new(1);
        let (begin, begun) = tokio::sync::oneshot::channel();
        let (tell, told) = mpsc::channel();
        let read = pool.read(10, move |cancellation| {
            let _ = begin.send(());
            while !cancellation.is_cancelled() {
                std::thread::yield_now();
            }
            let _ = tell.send(());
        });
        tokio::select! {
            _ = begun => {}
            _ = read => panic!("it ended by itself"),
        }
        told.recv().unwrap();
        // Its place is free again, and the next is read.
        assert_eq!(pool.read(10, |_| 7).await, Ok(7));
    }

    #[test]
    fn a_message_is_never_brief() {
        let mut event = Event::default();
        event.push("text", "a".repeat(INLINE_BYTES_MAX).as_str());
        assert!(is_brief(&event));
        event.push("more", "a");
        assert!(!is_brief(&event));
        assert!(!is_brief(&Event { raw: Some(Arc::from(&b"a"[..])), ..Event::default() }));
    }
}
