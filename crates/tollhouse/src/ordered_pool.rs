//! Work spread over threads whose results come back in the order of the input, with bounded read-ahead.
//!
//! Items are dealt round to the workers and collected in the same round, so no result waits in a growing heap: what
//! is under way is at most [`AHEAD`] items before and behind each worker.

use std::ops::ControlFlow;
use std::sync::mpsc::sync_channel;
use std::thread;

/// Items that wait before and behind each worker.
const AHEAD: usize = 4;

/// Maps items on so many threads and takes the results in the items' order, on the caller's thread. With one thread
/// everything happens on the caller's.
pub(crate) fn map_ordered<T: Send, U: Send, B>(
    threads: usize,
    items: impl Iterator<Item = T> + Send,
    map: impl Fn(T) -> U + Sync,
    mut take: impl FnMut(U) -> ControlFlow<B>,
) -> ControlFlow<B> {
    if threads <= 1 {
        for item in items {
            take(map(item))?;
        }
        return ControlFlow::Continue(());
    }
    thread::scope(|scope| {
        let map = &map;
        let mut inlets = Vec::with_capacity(threads);
        let mut outlets = Vec::with_capacity(threads);
        for _ in 0..threads {
            let (inlet, work) = sync_channel::<T>(AHEAD);
            let (done, outlet) = sync_channel::<U>(AHEAD);
            inlets.push(inlet);
            outlets.push(outlet);
            // Whoever finds the next one gone ends, too: reader, workers and taker stop one another.
            scope.spawn(move || work.into_iter().map(map).try_for_each(|result| done.send(result)));
        }
        scope.spawn(move || {
            for (item, inlet) in items.zip(inlets.iter().cycle()) {
                if inlet.send(item).is_err() {
                    break;
                }
            }
        });
        for outlet in outlets.iter().cycle() {
            match outlet.recv() {
                Ok(result) => take(result)?,
                Err(_) => break,
            }
        }
        ControlFlow::Continue(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn results_come_in_order_on_any_number_of_threads() {
        for threads in [1, 2, 3, 8] {
            let mut results = Vec::new();
            let flow: ControlFlow<()> = map_ordered(
                threads,
                0..1000u64,
                |n| n * n,
                |square| {
                    results.push(square);
                    ControlFlow::Continue(())
                },
            );
            assert_eq!(flow, ControlFlow::Continue(()));
            assert_eq!(results, (0..1000).map(|n| n * n).collect::<Vec<u64>>(), "{threads} threads");
        }
    }

    #[test]
    fn a_break_stops_reading() {
        let read = AtomicUsize::new(0);
        let items = std::iter::repeat_with(|| read.fetch_add(1, Ordering::Relaxed));
        let flow = map_ordered(
            2,
            items,
            |n| n,
            |n| if n == 10 { ControlFlow::Break(n) } else { ControlFlow::Continue(()) },
        );
        assert_eq!(flow, ControlFlow::Break(10));
        assert!(read.load(Ordering::Relaxed) <= 11 + 2 * (2 * AHEAD + 2), "read-ahead is bounded");
    }
}
