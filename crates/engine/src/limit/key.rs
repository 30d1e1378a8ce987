//! Keys of limits, made of the values of their fields.

use event::Secret;
use plan::limit::LimitPlan;

use super::LimitKey;

/// The keyed hash of a limit's values.
pub(crate) fn key<'v>(
    secret: &Secret,
    limit: &LimitPlan,
    values: impl IntoIterator<Item = &'v [u8]>,
) -> LimitKey {
    let mut all = LimitKeyBuilder::of(limit);
    values.into_iter().for_each(|value| all.push(value));
    all.key(secret)
}

/// Values on their way to becoming a key. Each is told with its length, so that no two lists look alike.
pub(super) struct LimitKeyBuilder(Vec<u8>);

impl LimitKeyBuilder {
    pub(super) fn of(limit: &LimitPlan) -> LimitKeyBuilder {
        let mut values = LimitKeyBuilder(Vec::with_capacity(128));
        if limit.shares_kind {
            values.push(limit.name.as_bytes());
        }
        values
    }

    pub(super) fn push(&mut self, value: &[u8]) {
        self.0.extend_from_slice(&(value.len() as u64).to_le_bytes());
        self.0.extend_from_slice(value);
    }

    pub(super) fn key(&self, secret: &Secret) -> LimitKey {
        LimitKey::new(secret.shingle(&self.0))
    }
}
