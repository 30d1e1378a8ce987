//! Decimal fractions in fixed point: a whole number of units, so many of which are one.

/// Most decimals.
pub const DECIMALS_MAX: u8 = 6;

/// The units in one.
fn scale(decimals: u8) -> i64 {
    10i64.pow(u32::from(decimals.min(DECIMALS_MAX)))
}

/// Reads `-12.34` as units; `None` for what is no number, has more decimals, or is beyond `most` to either side.
pub fn decimal_units(text: &str, decimals: u8, most: u64) -> Option<i64> {
    let (is_negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let (whole, part) = digits.split_once('.').unwrap_or((digits, "0"));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(part) || digits.contains('.') && part.len() > usize::from(decimals) {
        return None;
    }
    let part: i64 = format!("{part:0<width$}", width = usize::from(decimals)).parse().ok()?;
    let units = whole.parse::<i64>().ok()?.checked_mul(scale(decimals))?.checked_add(part)?;
    let is_within = units.unsigned_abs() <= most.saturating_mul(scale(decimals).unsigned_abs());
    is_within.then_some(if is_negative { -units } else { units })
}

/// Prints units as they are read, without zeros at the end of the fraction.
pub fn decimal_text(units: i64, decimals: u8) -> String {
    let (scale, sign) = (scale(decimals).unsigned_abs(), if units < 0 { "-" } else { "" });
    let (whole, part) = (units.unsigned_abs() / scale, units.unsigned_abs() % scale);
    let text = match part {
        0 => String::new(),
        part => format!(".{part:0>width$}", width = usize::from(decimals)),
    };
    format!("{sign}{whole}{}", text.trim_end_matches('0'))
}

/// Returns the number that units are.
pub fn decimal_value(units: f64, decimals: u8) -> f64 {
    units / scale(decimals) as f64
}

/// The units nearest to a number, the greatest or least ones for what is beyond them; `None` of what is no number.
pub fn nearest_units(number: f64, decimals: u8) -> Option<i64> {
    // A float beyond the integers saturates.
    (!number.is_nan()).then(|| (number * scale(decimals) as f64).round() as i64)
}

/// The units of a whole number, the greatest or least ones for what is beyond them.
pub fn whole_units(number: i64, decimals: u8) -> i64 {
    number.saturating_mul(scale(decimals))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_read_and_printed() {
        for (text, units) in
            [("12.34", 1234), ("-0.5", -50), ("7", 700), ("0.01", 1), ("-1000000", -100_000_000)]
        {
            assert_eq!(decimal_units(text, 2, 1_000_000), Some(units), "{text}");
            assert_eq!(decimal_text(units, 2), text);
        }
        for text in
            ["", "-", ".5", "5.", "1.234", "1000000.01", "+1", "1e3", "--1", "1.-5", "99999999999999999999"]
        {
            assert_eq!(decimal_units(text, 2, 1_000_000), None, "{text:?}");
        }
        assert_eq!((decimal_units("5", 0, 9), decimal_units("5.0", 0, 9)), (Some(5), None));
        assert_eq!(decimal_units("1.000001", 6, 9), Some(1_000_001));
        assert_eq!(decimal_text(i64::MIN, 6), "-9223372036854.775808");
    }

    #[test]
    fn numbers_become_the_nearest_units() {
        for (number, units) in [(12.34, 1234), (-0.005, -1), (1e300, i64::MAX), (f64::NEG_INFINITY, i64::MIN)]
        {
            assert_eq!(nearest_units(number, 2), Some(units), "{number}");
        }
        assert_eq!(nearest_units(f64::NAN, 2), None);
        assert_eq!((whole_units(12, 2), whole_units(i64::MAX, 2)), (1200, i64::MAX));
        assert_eq!(decimal_value(1234.0, 2), 12.34);
    }
}
