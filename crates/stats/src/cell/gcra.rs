//! The generic cell rate algorithm: one moment a key, the theoretical arrival time of its next cell (ITU-T I.371, annex
//! A; the same as a leaky bucket that is read as a meter, or a token bucket that starts full).
//!
//! ```text
//! word 0   the moment, in nanoseconds since 1970, with its sign bit turned: never zero
//! ```
//!
//! How fast a bucket fills and how much it holds are said by each [`Flow`] and not kept, so they can change from one to
//! the next. What a take does depends on the takes before it, so a cell is no sum: two that are merged give the
//! later moment, as if the one with less had not been. That is too lenient for two halves of one key's takes, and right for
//! two states of the same key, of which the later one knows all that the earlier did.
//!
//! A cell is forgotten when its moment has come: it then says no more than none.

use event::Time;

use super::{Room, ensure};
use crate::limit::Flow;

const SIGN: u64 = 1 << 63;

/// The operations on the cells of [`crate::Measure::Gcra`].
#[derive(Clone, Debug)]
pub(crate) struct GcraPlan;

impl GcraPlan {
    /// Values of a reading: the moment.
    pub(super) const COLUMNS: usize = 1;

    /// The moment.
    #[inline]
    pub(super) fn moment(words: &[u64]) -> Option<i64> {
        words.first().filter(|word| **word != 0).map(|word| (word ^ SIGN).cast_signed())
    }

    /// Makes it the cell of a moment.
    #[inline]
    pub(super) fn set(room: &mut impl Room, moment: i64) {
        ensure(room, 1);
        if let Some(word) = room.words_mut().first_mut() {
            *word = moment.max(i64::MIN + 1).cast_unsigned() ^ SIGN;
        }
    }

    #[inline]
    pub(super) fn apply(room: &mut impl Room, now: Time, flow: &Flow) {
        if let Some(moment) = flow.after(GcraPlan::moment(room.words()), now) {
            GcraPlan::set(room, moment);
        }
    }

    pub(super) fn merge(room: &mut impl Room, other: &[u64]) {
        if let Some(moment) = GcraPlan::moment(other) {
            GcraPlan::set(room, GcraPlan::moment(room.words()).map_or(moment, |own| own.max(moment)));
        }
    }

    #[inline]
    pub(super) fn read(words: &[u64], out: &mut [u64]) {
        if let Some(out) = out.first_mut() {
            *out = GcraPlan::moment(words).unwrap_or(i64::MIN).cast_unsigned();
        }
    }

    /// The moment, rounded up, stands for first and last time.
    #[inline]
    pub(super) fn times(words: &[u64]) -> Option<(Time, Time)> {
        let moment = GcraPlan::moment(words)?;
        let time = Time(moment.div_euclid(1000).saturating_add(i64::from(moment.rem_euclid(1000) > 0)));
        Some((time, time))
    }

    pub(super) fn check(words: &[u64]) -> bool {
        words.iter().skip(1).all(|word| *word == 0)
    }
}
