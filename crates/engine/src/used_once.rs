//! Tokens that are used once: nonces of signatures, challenges that were solved.
//!
//! ```text
//! (purpose, token) ─► keyed hash ─► a bucket that holds one ─► First, Again, Unknown
//! ```
//!
//! A use fills the token's bucket until the token has expired, so that no second use fits in. The ledger reads and fills under one
//! lock, and in a cluster where the bucket lies: of several uses at the same time, on whatever nodes, one is the first. A used
//! token is as durable as a limit, and forgotten when it has expired.

use event::{Key, Span, Time};
use plan::limit::{LIMITS, USED_ONCE};
use stats::limit::GcraOperation;
use stats::{Addition, Observation, ObserveRequest, Quality};

use crate::Engine;

/// The time by which the clocks of nodes may differ, and be put back: a used token is remembered for so much longer than it holds.
const SLACK: Span = Span::minutes(10);
/// The longest time for which a token is remembered.
const KEPT_MAX: Span = Span::days(365);

/// The result of a token's use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UseResult {
    /// The token had not been used, and now is.
    First,
    /// The token was used before, or has expired.
    Again,
    /// The ledger cannot tell: it is away, full or damaged there. The use may have been counted.
    Unknown,
}

impl Engine {
    /// Uses a token for a purpose. The first use before `expires` is the only one that is told so, among all threads and nodes that share
    /// the ledger. Purposes are apart: the same token can be used once for each.
    ///
    /// One request to the ledger. It never fails: the caller decides on [`UseResult::Unknown`], by its own failure mode.
    pub async fn use_once(&self, purpose: &str, token: &[u8], expires: Time, now: Time) -> UseResult {
        if expires <= now || expires > now + KEPT_MAX {
            return UseResult::Again;
        }
        let mut named = Vec::with_capacity(purpose.len() + token.len() + 8);
        named.extend_from_slice(&(purpose.len() as u64).to_le_bytes());
        named.extend_from_slice(purpose.as_bytes());
        named.extend_from_slice(token);
        let key = Key { space: LIMITS, kind: USED_ONCE, shingle: self.secret.shingle(&named) };
        let length = (expires + SLACK - now).0.saturating_mul(1000);
        let flow = GcraOperation::Take { cost: length, burst: length, counts_all: false };
        let observations = vec![Observation { key, time: now, add: Addition::Flow(flow) }];
        let outcomes = match self
            .ledger
            .observe(&[ObserveRequest { observations, ..ObserveRequest::default() }])
            .await
        {
            Ok(outcomes) => outcomes,
            Err(error) => {
                tracing::error!(%error, purpose, "it cannot be known if a token was used before");
                return UseResult::Unknown;
            }
        };
        let Some(before) = outcomes.all().next() else { return UseResult::Unknown };
        let moment = before.last().map(|_| before.sum(0, 0).cast_signed());
        match before.quality() {
            _ if !flow.is_within(moment, now) => UseResult::Again,
            Quality::Exact => UseResult::First,
            // It had no place for the token, so that a second use would not be seen, or another node may have seen the first.
            Quality::Estimated | Quality::Missing | Quality::Lagging => UseResult::Unknown,
        }
    }
}
