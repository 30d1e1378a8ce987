//! PooledReading, away from the threads that answer everybody.
//!
//! ```text
//! bytes of a stranger ─┬─ a few, and no message ─► read where they are
//!                      ├─ short ─► a place of one in each processor ─┐
//!                      └─ long  ─► a place of half as many ──────────┴─► read on a thread that answers nobody
//! ```
//!
//! How long a message takes to be read its sender decides. So all reading has places, of batches too, and waits for one no
//! longer than until its deadline; a reading whose deadline comes, or whose client goes away, is told to stop, and nothing
//! of it is counted. Long messages have places of their own, so that short ones do not wait behind them; and so has what
//! callers of the API send ([`asked_by`]), so that it does not wait behind what anybody may send.

use std::pin::pin;
use std::sync::Arc;
use std::thread::available_parallelism;

use content::budget::Cancellation;
use event::{Event, Value};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::core::blocking::blocking;
use crate::core::deadline::{Deadline, Late};
use crate::core::shares::Caller;

/// Bytes of fields up to which an event is read where it is: that takes some hundred microseconds at most. A message
/// never is.
pub(crate) const INLINE_BYTES_MAX: usize = 4 << 10;
/// Bytes up to which a reading is short.
pub(crate) const SHORT_BYTES_MAX: usize = 64 << 10;

tokio::task_local! {
    static CALLER: Caller;
}

/// Does work that this caller asks for: what is read in it has the caller's places. Of work that does not say it, anybody's.
pub(crate) fn asked_by<T>(caller: Caller, work: impl Future<Output = T>) -> impl Future<Output = T> {
    CALLER.scope(caller, work)
}

/// Places for readings.
#[derive(Debug)]
pub(crate) struct ReadingPool {
    open: Places,
    /// The places reserved for callers of the API.
    reserved: Places,
}

#[derive(Debug)]
struct Places {
    short: Arc<Semaphore>,
    long: Arc<Semaphore>,
}

impl Places {
    fn new(places: usize) -> Places {
        let of = |places: usize| Arc::new(Semaphore::new(places.max(1)));
        Places { short: of(places), long: of(places / 2) }
    }
}

impl ReadingPool {
    /// Returns a pool with so many places for short readings, and half as many for long ones; at least one of each. Callers
    /// of the API have as many once more.
    pub(crate) fn new(places: usize) -> ReadingPool {
        ReadingPool { open: Places::new(places), reserved: Places::new(places) }
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
        let of = match CALLER.try_with(|caller| *caller) {
            Ok(Caller::Known) => &self.reserved,
            _ => &self.open,
        };
        let places = if bytes <= SHORT_BYTES_MAX { &of.short } else { &of.long };
        let place = Arc::clone(places).acquire_owned();
        let place = match Deadline::current() {
            None => place.await,
            Some(deadline) => deadline.cut(place).await?,
        };
        // The semaphores are never closed.
        place.map_err(|_| Late)
    }

    /// Reads so many bytes in a place. A panic goes on in the caller.
    ///
    /// # Errors
    /// If nobody waits for it before the end: what is read then is of no use, and ends soon.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        bytes: usize,
        work: impl FnOnce(&Cancellation) -> T + Send + 'static,
    ) -> Result<T, Late> {
        let work = move |reading: PooledReading| {
            let done = (!reading.cancellation.is_cancelled()).then(|| work(&reading.cancellation));
            reading.end().and(done.ok_or(Late))
        };
        self.begin(bytes, work).await?
    }

    /// Does work that begins with reading so many bytes, and goes on once the reading has ended. It is told when nobody
    /// waits for it any more, and waited for to its end. A panic goes on in the caller.
    ///
    /// # Errors
    /// If nobody waits for it before there is a place: then it was not begun.
    pub(crate) async fn begin<T: Send + 'static>(
        &self,
        bytes: usize,
        work: impl FnOnce(PooledReading) -> T + Send + 'static,
    ) -> Result<T, Late> {
        let place = self.enter(bytes).await?;
        // Also cancelled when this is dropped.
        let cancels = CancelGuard(Cancellation::new());
        let reading = PooledReading { cancellation: cancels.0.clone(), _place: place };
        let mut working = pin!(blocking(move || work(reading)));
        let Some(deadline) = Deadline::current() else { return Ok(working.await) };
        tokio::select! {
            biased;
            done = &mut working => return Ok(done),
            () = deadline.over() => {}
        }
        drop(cancels);
        Ok(working.await)
    }
}

/// A reading, in its place.
#[derive(Debug)]
pub(crate) struct PooledReading {
    /// Said once nobody waits for it any more.
    pub(crate) cancellation: Cancellation,
    _place: OwnedSemaphorePermit,
}

impl PooledReading {
    /// Gives the place back, as all is read.
    ///
    /// # Errors
    /// If nobody waits for it any more: what was read may not be whole.
    pub(crate) fn end(self) -> Result<(), Late> {
        if self.cancellation.is_cancelled() { Err(Late) } else { Ok(()) }
    }
}

/// Cancels a reading that nobody waits for any more.
struct CancelGuard(Cancellation);

impl Drop for CancelGuard {
    fn drop(&mut self) {
        self.0.cancel();
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

    use engine::Engine;
    use plan::{Config, Overrides, Plan};

    use super::*;
    use crate::core::node::Node;
    use crate::core::preparation::LookupMode;

    /// A message of any protocol is read in a place of the pool; brief events need none.
    #[tokio::test]
    async fn messages_wait_for_places_and_brief_events_do_not() {
        let plan = Plan::compile(&Config::from_preset("mail", &Overrides::default()));
        let engine =
            Arc::new(Engine::ephemeral(plan.unwrap_or_else(|problems| panic!("{problems}"))).unwrap());
        let node = Node::new(engine, crate::Clock::of(crate::SystemClock, None));
        let pipeline = node.pipeline(None).unwrap();
        let places = &node.reading.open.short;
        let taken = places.available_permits() as u32;
        let taken = Arc::clone(places).try_acquire_many_owned(taken).unwrap();
        let prepare = |event: Event| {
            let reading = node.prepare(&pipeline, event, node.now(), LookupMode::None);
            Deadline::after(Duration::from_millis(1)).bound(reading)
        };
        let message =
            || Event { raw: Some(Arc::from(&b"From: a@example.org\r\n\r\nb\r\n"[..])), ..Event::default() };
        assert_eq!(prepare(message()).await.err(), Some(Late));
        assert!(prepare(Event::default()).await.is_ok());
        assert!(
            asked_by(Caller::Known, node.prepare(&pipeline, message(), node.now(), LookupMode::None))
                .await
                .is_ok()
        );
        drop(taken);
        assert!(node.prepare(&pipeline, message(), node.now(), LookupMode::None).await.is_ok());
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
    async fn those_who_are_known_do_not_wait_behind_others() {
        let pool = ReadingPool::new(1);
        let _held = (pool.enter(10).await.unwrap(), pool.enter(1 << 20).await.unwrap());
        for bytes in [10, 1 << 20] {
            let soon = Deadline::after(Duration::from_millis(1));
            assert_eq!(asked_by(Caller::Local, soon.bound(pool.read(bytes, |_| 7))).await, Err(Late));
            assert_eq!(asked_by(Caller::Known, pool.read(bytes, |_| 7)).await, Ok(7));
        }
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
