//! Requests to be counted once: see [`crate::claim`].

use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;
use stats::ObserveRequest;

use crate::wal::ClaimToken;

/// The status of a request's mark, as far as it is known.
#[derive(Clone, Copy)]
pub(crate) enum MarkStatus {
    /// The request has no mark.
    Unmarked,
    /// The request was the first.
    Had(ClaimToken),
    /// Another was.
    Refused(ClaimToken),
    /// Nobody knows whether the request counts: the cluster has not said whose the mark is, or whether something that
    /// the request adds to an exact limit was added.
    Unknown,
}

/// The statuses of the marks of a call's requests, as far as they are known.
pub(crate) struct MarkStatuses {
    pub(crate) list: Vec<MarkStatus>,
    /// The last reason for which one is unknown.
    pub(crate) failure: Option<Arc<str>>,
    /// The begin of the call.
    pub(crate) at: Duration,
}

impl MarkStatuses {
    pub(crate) fn had(token: ClaimToken) -> MarkStatuses {
        MarkStatuses { list: vec![MarkStatus::Had(token)], failure: None, at: Duration::MAX }
    }

    /// Returns true if a request adds.
    pub(crate) fn adds(&self, request: usize) -> bool {
        matches!(self.list.get(request), Some(MarkStatus::Had(_) | MarkStatus::Unmarked))
    }

    /// Notes that it is not known whether a request counts. If it has a mark, its intent stays, and is seen to later.
    pub(crate) fn doubt(&mut self, request: usize, why: Arc<str>) {
        if let Some(status) = self.list.get_mut(request) {
            *status = MarkStatus::Unknown;
            self.failure = Some(why);
        }
    }
}

/// Intents that are not settled.
#[derive(Default)]
pub(crate) struct Intents(pub(crate) Mutex<HashMap<ClaimToken, Intent>>);

pub(crate) struct Intent {
    pub(crate) request: ObserveRequest,
    /// Somebody sees to it.
    pub(crate) is_held: bool,
    pub(crate) attempts: u32,
    pub(crate) not_before: Duration,
}

impl Intents {
    /// Takes in one that nobody sees to.
    pub(crate) fn restore(&self, token: ClaimToken, request: ObserveRequest) {
        let intent = Intent { request, is_held: false, attempts: 0, not_before: Duration::ZERO };
        self.0.lock().insert(token, intent);
    }

    pub(crate) fn settle(&self, tokens: &[ClaimToken]) {
        if !tokens.is_empty() {
            let mut intents = self.0.lock();
            tokens.iter().for_each(|token| drop(intents.remove(token)));
        }
    }

    pub(crate) fn list(&self) -> Vec<(ClaimToken, ObserveRequest)> {
        self.0.lock().iter().map(|(token, intent)| (*token, intent.request.clone())).collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.lock().len()
    }
}
