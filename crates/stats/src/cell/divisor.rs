//! Division by a number that is known long before.

/// A divisor of at least one, prepared so that dividing costs one multiplication: Granlund and Montgomery, "Division
/// by invariant integers using multiplication", 1994.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Divisor {
    by: i64,
    magic: u64,
    shift: u32,
}

/// Numbers below this take the fast way: all times until the year 148,000.
const FAST: u64 = 1 << 62;

impl Divisor {
    /// Prepares a divisor; anything below one counts as one, anything above 2^62 as that.
    pub(crate) fn new(by: i64) -> Divisor {
        let by = by.clamp(1, 1 << 62);
        // Twice the number over twice the divisor: so one needs no case of its own. The magic number exceeds
        // 2^(64 + shift) / double by less than one, which no number below 2^63 can feel.
        let double = 2 * by.unsigned_abs();
        let shift = 63 - (double - 1).leading_zeros();
        let magic = (1u128 << (64 + shift)) / u128::from(double) + 1;
        Divisor { by, magic: magic as u64, shift }
    }

    pub(crate) fn by(&self) -> i64 {
        self.by
    }

    /// Rounded down.
    #[inline]
    pub(crate) fn floor(&self, number: i64) -> i64 {
        let plain = number.cast_unsigned();
        if plain < FAST {
            let product = u128::from(2 * plain) * u128::from(self.magic);
            (((product >> 64) as u64) >> self.shift).cast_signed()
        } else {
            number.div_euclid(self.by)
        }
    }

    /// Rounded down, and what is left: from zero to the divisor less one.
    #[inline]
    pub(crate) fn split(&self, number: i64) -> (i64, i64) {
        let quotient = self.floor(number);
        (quotient, number.wrapping_sub(quotient.wrapping_mul(self.by)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn it_divides(number in any::<i64>(), by in 1i64..1 << 62, right in 0u32..63, left in 0u32..63, near in -2i64..3) {
            for by in [by, by >> left.min(61), 1, 2, 3, 10, 600_000_000, 86_400_000_000, 1 << left.min(62)] {
                let by = by.max(1);
                let divisor = Divisor::new(by);
                let multiple = (number >> right).div_euclid(by).saturating_mul(by).saturating_add(near);
                for number in [number, number >> right, multiple, (1 << 62) + near, i64::MIN, i64::MAX, 0, -1] {
                    prop_assert_eq!(divisor.floor(number), number.div_euclid(by), "{} / {}", number, by);
                    prop_assert_eq!(divisor.split(number), (number.div_euclid(by), number.rem_euclid(by)));
                }
            }
        }
    }
}
