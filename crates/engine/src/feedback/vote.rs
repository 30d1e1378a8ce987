//! A reporter's latest vote on an event, in one integer that rises from vote to vote.

use event::{Span, Time};

use plan::CLASS_TAG_BITS;
use plan::WEIGHT_MAX;

/// A vote. Packed, from the highest bits down: sign 0, number 12, seconds since 1970 36, class 12, weight 3. So the
/// latest vote is the greatest, which is what an aggregate keeps of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Vote {
    /// The number of votes that came before, with this one; 0 for none.
    pub(super) number: u16,
    seconds: u64,
    /// [`Vote::tag`] of the class.
    pub(super) class: u16,
    /// The amount that was added to each counter.
    pub(super) weight: u8,
}

const NUMBER_BITS: u32 = 12;
const SECONDS_BITS: u32 = 36;
const CLASS_BITS: u32 = CLASS_TAG_BITS;
const WEIGHT_BITS: u32 = 3;

const _: () = assert!(WEIGHT_MAX == (1 << WEIGHT_BITS) - 1);

impl Vote {
    /// The tag of no class: nothing was said, or it was taken back.
    pub(super) const NO_CLASS: u16 = 0;

    /// The vote after this one; `None` if there were too many.
    pub(super) fn next(self, class: u16, time: Time, weight: u8) -> Option<Vote> {
        let number = self.number.checked_add(1).filter(|number| *number < 1 << NUMBER_BITS)?;
        let seconds = time.bucket(Span::seconds(1)).clamp(0, (1 << SECONDS_BITS) - 1);
        Some(Vote { number, seconds: seconds.cast_unsigned(), class, weight: weight.min(WEIGHT_MAX) })
    }

    /// The time at which its additions count: a whole second, so that their withdrawal finds the same bucket.
    pub(super) fn time(self) -> Time {
        Time::from_seconds(i64::try_from(self.seconds).unwrap_or(i64::MAX))
    }

    pub(super) fn pack(self) -> i64 {
        let mut packed = u64::from(self.number);
        packed = packed << SECONDS_BITS | self.seconds;
        packed = packed << CLASS_BITS | u64::from(self.class);
        packed = packed << WEIGHT_BITS | u64::from(self.weight);
        packed.cast_signed()
    }

    pub(super) fn unpack(packed: i64) -> Vote {
        let mut packed = packed.cast_unsigned();
        let mut take = |bits: u32| {
            let low = packed & ((1 << bits) - 1);
            packed >>= bits;
            low
        };
        let (weight, class) = (take(WEIGHT_BITS) as u8, take(CLASS_BITS) as u16);
        let seconds = take(SECONDS_BITS);
        Vote { number: take(NUMBER_BITS) as u16, seconds, class, weight }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn words_are_packed_and_rise(
            number in 0u16..4096, seconds in 0u64..1 << 36, class in 0u16..4096, weight in 0u8..8,
            next in 0u16..4096, time in 0i64..1 << 55,
        ) {
            let vote = Vote { number, seconds, class, weight };
            prop_assert_eq!(Vote::unpack(vote.pack()), vote);
            let after = vote.next(next, Time(time), 1);
            prop_assert_eq!(after.is_some(), number < 4095);
            if let Some(after) = after {
                prop_assert!(after.pack() > vote.pack() && vote.pack() >= 0);
                prop_assert_eq!(Vote::unpack(after.pack()), after);
                prop_assert_eq!(after.time().bucket(Span::seconds(10)), Time(time).bucket(Span::seconds(10)));
            }
        }
    }
}
