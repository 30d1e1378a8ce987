//! Share of a segment that has expired, found without reading it.

use super::format::NEVER;

/// Bytes of records by when they may be forgotten: in steps of equal length, each counted at its end, so that never more is
/// called expired than has. There are few, and they become longer where records expire at many different times.
#[derive(Clone, Debug, Default)]
pub(crate) struct Expiries {
    /// A step is two to the power of so many minutes.
    bits: u32,
    /// Number of a step, and bytes.
    steps: Vec<(u32, u64)>,
}

impl Expiries {
    const STEPS_MAX: usize = 64;

    /// Takes note of a record. What never expires is left out.
    pub(crate) fn add(&mut self, minutes: u32, bytes: u64) {
        if minutes == NEVER {
            return;
        }
        let step = minutes >> self.bits;
        match self.steps.binary_search_by_key(&step, |(step, _)| *step) {
            Ok(at) => self.steps[at].1 += bytes,
            Err(at) => {
                self.steps.insert(at, (step, bytes));
                while self.steps.len() > Expiries::STEPS_MAX {
                    self.lengthen();
                }
            }
        }
    }

    /// Makes steps twice as long.
    fn lengthen(&mut self) {
        self.bits += 1;
        self.steps.iter_mut().for_each(|(step, _)| *step >>= 1);
        self.steps.dedup_by(|later, earlier| {
            let same = later.0 == earlier.0;
            earlier.1 += if same { later.1 } else { 0 };
            same
        });
    }

    /// Bytes of records that have expired at this time, in microseconds since the Unix epoch, or some fewer.
    pub(crate) fn expired(&self, now: i64) -> u64 {
        let minutes = u64::try_from(now / 60_000_000).unwrap_or(0);
        let ends = |step: u32| ((u64::from(step) + 1) << self.bits) - 1;
        self.steps.iter().take_while(|(step, _)| ends(*step) <= minutes).map(|(_, bytes)| bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_expired_is_never_said_too_high_and_at_most_a_step_too_low() {
        let mut expiries = Expiries::default();
        let minutes = |number: u64| (29_000_000 + number.wrapping_mul(0x9e37_79b9) % 300_000) as u32;
        for number in 0..5_000 {
            expiries.add(minutes(number), 24 + number);
        }
        expiries.add(NEVER, 1 << 40);
        assert!(expiries.steps.len() <= Expiries::STEPS_MAX);
        let step = 1u32 << expiries.bits;
        for now in (28_990_000..29_310_000).step_by(777) {
            let until = |minute: u32| {
                let expired = (0..5_000).filter(|number| minutes(*number) <= minute);
                expired.map(|number| 24 + number).sum::<u64>()
            };
            let said = expiries.expired(i64::from(now) * 60_000_000 + 59_999_999);
            assert!(said <= until(now) && said >= until(now - step), "{now}: {said}");
        }
        assert_eq!(Expiries::default().expired(i64::MAX) + expiries.expired(-1), 0);
    }
}
