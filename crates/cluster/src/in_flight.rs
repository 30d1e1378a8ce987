//! Calls to the cluster that are under way, and who waits for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use event_listener::Event;

/// A call to the cluster that some entries wait for.
#[derive(Debug, Default)]
pub(crate) struct InFlightCall {
    ended: AtomicBool,
    end: Event,
}

impl InFlightCall {
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    pub(crate) async fn wait(&self) {
        loop {
            let end = self.end.listen();
            if self.has_ended() {
                return;
            }
            end.await;
        }
    }
}

/// Ends a flight when it is dropped, whatever became of it.
pub(crate) struct InFlightGuard(pub(crate) Arc<InFlightCall>);

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        self.0.ended.store(true, Ordering::Release);
        self.0.end.notify(usize::MAX);
    }
}
