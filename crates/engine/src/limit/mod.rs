//! Limits: how much of something a key may have in a time.
//!
//! ```text
//! Take { limit, key, cost } ─► Engine::take ─► Taken: allowed, remaining, when there is more
//!                              one request to the ledger; counts, refusals and bans are keys in it
//! ```
//!
//! What a limit has counted lives where all statistics live, so it is as durable, expires by itself and is in every
//! snapshot. A [`LimitPlan`] is made of a `[[limit]]` of the configuration, or by whoever reads the limits of other
//! programs: nothing here depends on where it came from.
//!
//! Several limits for one request are one call of [`Engine::take`](crate::Engine::take): all are taken, and one that counts only
//! what is allowed is given back, in a second request, if another refuses. In between others may find less than there is, never
//! more: the ledger goes from key to key and holds no two of them at once.

pub(crate) mod cleared;
pub(crate) mod decision;
pub(crate) mod key;
pub(crate) mod overrides;
pub(crate) mod rules;
pub(crate) mod take;

use std::sync::Arc;

use event::{Shingle, Span, Time};
use stats::Quality;

use crate::ban_list::BanList;

pub(crate) use cleared::ClearedLimits;
pub use overrides::{EXCEPTIONS_MAX, LimitExceptionError};
pub(crate) use overrides::{LimitExceptions, read as read_exceptions};
pub use plan::limit::{
    BanPlan, BucketError, Enforcement, FIELDS_MAX, FieldForm, LIMITS, LimitAlgorithm, LimitException,
    LimitField, LimitPlan, Period, Zone, network,
};
pub(crate) use rules::{LimitContext, OBSERVATIONS_MAX, RuleReading, RuleTakes};

/// The key under which the use of a limit is counted: the keyed hash of its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LimitKey {
    pub(crate) shingle: Shingle,
    /// True if the allow list has one of the values: the limit refuses it, and bans it never.
    is_allowed: bool,
}

impl LimitKey {
    /// A key of which no value is on the allow list, or nothing else is known.
    pub(crate) fn new(shingle: Shingle) -> LimitKey {
        LimitKey { shingle, is_allowed: false }
    }

    /// Returns the key with whether the allow list has one of its values, if the limit bans.
    pub(crate) fn checked<'v>(
        self,
        limit: &LimitPlan,
        list: &BanList,
        mut values: impl Iterator<Item = &'v str>,
    ) -> LimitKey {
        if limit.ban.is_none() {
            return self;
        }
        let allow = list.allow();
        LimitKey { is_allowed: values.any(|value| allow.find(value).is_some()), ..self }
    }
}

/// A take that is to be made.
#[derive(Clone, Copy, Debug)]
pub struct Take<'a> {
    /// From which limit.
    pub limit: &'a LimitPlan,
    /// The key whose use is counted.
    pub key: LimitKey,
    /// The amount; nothing is a look.
    pub cost: u64,
}

/// The result of a [`Take`].
#[derive(Clone, Debug, PartialEq)]
pub struct TakeResult {
    /// The limit's name.
    pub limit: Arc<str>,
    /// The answer that the caller may be given.
    pub allowed: bool,
    /// True if the take is over the limit, and the caller is not to hear of it.
    pub silent: bool,
    /// True if the take is over the limit, whatever the caller hears. Never so for a shadow ban, where [`TakeResult::silent`] says
    /// it.
    pub over: bool,
    /// Most that could be taken at once.
    pub quota: u64,
    /// The limit's window.
    pub window: Span,
    /// The amount that is used by now, rounded up for a bucket.
    pub used: u64,
    /// The amount that is left.
    pub remaining: u64,
    /// The time until all is left again, if nothing more is taken.
    pub reset_after: Span,
    /// The time until the refused amount can be taken, if nothing more is taken; `None` where nothing was refused, or
    /// never.
    pub retry_after: Option<Span>,
    /// Until when the key is banned.
    pub banned_until: Option<Time>,
    /// The key is not limited.
    pub exempt: bool,
    /// The trust that the numbers deserve; missing means that `on_error` has decided.
    pub quality: Quality,
    /// The amount that this take has counted: what may be given back.
    pub charged: u64,
    /// The time at which it was counted, later than now if the key's latest take was. A refund is to name it.
    pub time: Time,
}

impl TakeResult {
    /// The one that says most of several limits that were taken together: the one to be waited for longest, or with
    /// the least left.
    pub fn strictest(all: &[TakeResult]) -> Option<&TakeResult> {
        all.iter().min_by_key(|taken| {
            let wait = taken.retry_after.map_or(i64::MAX, |span| span.0);
            (
                taken.allowed,
                if taken.allowed { 0 } else { wait.saturating_neg() },
                taken.exempt,
                taken.remaining,
            )
        })
    }
}

/// Reasons for a limit without a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LimitKeyError {
    /// A field is not given.
    #[error("the limit `{limit}` counts by `{field}`, which is not given")]
    Missing {
        /// The limit.
        limit: String,
        /// The field.
        field: String,
    },
    /// A value is empty once it is normalised.
    #[error("`{value}` is no value of `{field}`")]
    Unfit {
        /// The field.
        field: String,
        /// Its value, at most 100 characters of it.
        value: String,
    },
}
