//! Failure modes: the outcome of an event, or of a take from a limit, that cannot be decided.

use judge::Action;

/// The handling of an event that cannot be decided on as it should be: statistics cannot be had, the journal cannot be
/// written, no place is free, or the time is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureMode {
    /// Judge by what there is.
    Open,
    /// Answer `throttle`.
    Closed,
}

impl FailureMode {
    /// The action of an event of which something failed; `judged` is what could be judged of it.
    pub fn action(self, judged: Action) -> Action {
        match self {
            FailureMode::Open => judged,
            FailureMode::Closed => Action::Throttle,
        }
    }

    /// The stricter of both.
    pub fn or(self, other: FailureMode) -> FailureMode {
        if self == FailureMode::Closed { self } else { other }
    }
}
