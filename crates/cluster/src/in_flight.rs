//! Calls to the cluster that are under way, and who waits for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use event_listener::Event;
use hashbrown::HashMap;

/// The number of a call, different for each of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct CallId(u64);

impl CallId {
    /// No call.
    pub(crate) const NONE: CallId = CallId(0);
}

/// A call to the cluster that some entries wait for.
#[derive(Debug)]
pub(crate) struct InFlightCall {
    id: CallId,
    ended: AtomicBool,
    end: Event,
}

impl Default for InFlightCall {
    fn default() -> InFlightCall {
        static CALLS: AtomicU64 = AtomicU64::new(0);
        let id = CallId(1 + CALLS.fetch_add(1, Ordering::Relaxed));
        InFlightCall { id, ended: AtomicBool::new(false), end: Event::new() }
    }
}

impl InFlightCall {
    pub(crate) fn id(&self) -> CallId {
        self.id
    }

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

/// The calls that entries of a shard wait for, by their numbers. Entries keep the number alone: tens of thousands may wait for
/// one call, and each that counted itself among its holders would take the count from the processor of another.
#[derive(Debug, Default)]
pub(crate) struct ShardCalls {
    calls: HashMap<CallId, Arc<InFlightCall>>,
    /// The call that was added last.
    last: CallId,
    /// The number of calls at which those that have ended are let go of.
    most: usize,
}

impl ShardCalls {
    const FEW: usize = 16;

    pub(crate) fn add(&mut self, call: &Arc<InFlightCall>) {
        if call.id == self.last {
            return;
        }
        if self.calls.len() >= self.most {
            self.calls.retain(|_, call| !call.has_ended());
            self.most = 2 * self.calls.len() + ShardCalls::FEW;
        }
        self.last = call.id;
        self.calls.insert(call.id, Arc::clone(call));
    }

    /// Returns a call that has not ended.
    pub(crate) fn flying(&self, id: CallId) -> Option<&Arc<InFlightCall>> {
        if id == CallId::NONE {
            return None;
        }
        self.calls.get(&id).filter(|call| !call.has_ended())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_known_until_they_end() {
        let (mut calls, mut flying) = (ShardCalls::default(), Vec::new());
        for number in 0..1000 {
            let call = Arc::<InFlightCall>::default();
            calls.add(&call);
            calls.add(&call);
            flying.push(InFlightGuard(call));
            if number % 3 > 0 {
                let ended = flying.remove(number * 7 % flying.len());
                let id = ended.0.id();
                assert!(calls.flying(id).is_some());
                drop(ended);
                assert!(calls.flying(id).is_none());
            }
            assert!(flying.iter().all(|call| calls.flying(call.0.id()).is_some()));
            assert!(calls.calls.len() <= 2 * flying.len() + ShardCalls::FEW + 1);
        }
        assert!(calls.flying(CallId::NONE).is_none());
    }
}
