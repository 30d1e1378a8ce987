//! Points in time and lengths of time, both in whole microseconds, passed in and never read from a clock.

use std::fmt;
use std::ops::{Add, Sub};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A point in time: microseconds since the Unix epoch. Arithmetic saturates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Time(pub i64);

/// A length of time in microseconds. Arithmetic saturates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Span(pub i64);

impl Time {
    /// The Unix epoch.
    pub const EPOCH: Time = Time(0);

    /// From whole seconds since the Unix epoch.
    pub const fn from_seconds(seconds: i64) -> Time {
        Time(seconds.saturating_mul(1_000_000))
    }

    /// From milliseconds since the Unix epoch.
    pub const fn from_millis(millis: i64) -> Time {
        Time(millis.saturating_mul(1_000))
    }

    /// Whole seconds since the Unix epoch, rounded down.
    pub const fn seconds(self) -> i64 {
        self.0.div_euclid(1_000_000)
    }

    /// The number of the bucket of this width that the time falls into: `floor(t / width)`, counted from the
    /// Unix epoch. A width below one microsecond counts as one.
    pub const fn bucket(self, width: Span) -> i64 {
        self.0.div_euclid(if width.0 < 1 { 1 } else { width.0 })
    }
}

impl Span {
    /// No time at all.
    pub const ZERO: Span = Span(0);
    /// The longest span there is.
    pub const MAX: Span = Span(i64::MAX);

    /// From whole seconds.
    pub const fn seconds(seconds: i64) -> Span {
        Span(seconds.saturating_mul(1_000_000))
    }
    /// From minutes.
    pub const fn minutes(minutes: i64) -> Span {
        Span::seconds(minutes.saturating_mul(60))
    }
    /// From hours.
    pub const fn hours(hours: i64) -> Span {
        Span::minutes(hours.saturating_mul(60))
    }
    /// From days of 24 hours.
    pub const fn days(days: i64) -> Span {
        Span::hours(days.saturating_mul(24))
    }
    /// The span in seconds with a fraction.
    pub fn as_seconds_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }
    /// A span `count` times as long.
    pub const fn times(self, count: i64) -> Span {
        Span(self.0.saturating_mul(count))
    }
}

impl Add<Span> for Time {
    type Output = Time;
    fn add(self, span: Span) -> Time {
        Time(self.0.saturating_add(span.0))
    }
}

impl Sub<Span> for Time {
    type Output = Time;
    fn sub(self, span: Span) -> Time {
        Time(self.0.saturating_sub(span.0))
    }
}

impl Sub for Time {
    type Output = Span;
    fn sub(self, earlier: Time) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

/// A text that is no point in time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeError;

impl fmt::Display for TimeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "expected a time such as `2026-05-17T10:05:03Z`, or seconds since 1970 such as `1431857103.5`",
        )
    }
}

impl std::error::Error for TimeError {}

impl FromStr for Time {
    type Err = TimeError;

    /// Reads RFC 3339 (`2026-05-17T10:05:03.25+02:00`) or seconds since the Unix epoch, with up to six decimals.
    fn from_str(text: &str) -> Result<Time, TimeError> {
        if let Ok(timestamp) = text.parse::<jiff::Timestamp>() {
            return Ok(Time(timestamp.as_microsecond()));
        }
        match text.parse::<f64>() {
            Ok(seconds) if seconds.is_finite() && seconds.abs() < 9e12 => {
                Ok(Time((seconds * 1e6).round() as i64))
            }
            _ => Err(TimeError),
        }
    }
}

impl fmt::Display for Time {
    /// RFC 3339 in UTC; microseconds since the epoch where the year has more than four digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_microsecond(self.0) {
            Ok(timestamp) => write!(f, "{timestamp}"),
            Err(_) => write!(f, "{}us", self.0),
        }
    }
}

/// A text that is no length of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpanError;

impl fmt::Display for SpanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected a length of time such as `90s`, `10m`, `1h30m`, `14d` or `250ms`")
    }
}

impl std::error::Error for SpanError {}

const UNITS: [(&str, i64); 7] = [
    ("w", 7 * 86_400_000_000),
    ("d", 86_400_000_000),
    ("h", 3_600_000_000),
    ("m", 60_000_000),
    ("s", 1_000_000),
    ("ms", 1_000),
    ("us", 1),
];

impl FromStr for Span {
    type Err = SpanError;

    /// Reads whole numbers with units `w d h m s ms us`, largest first or not, added up: `1h30m`. Each number
    /// has a unit, the sum is not negative and fits.
    fn from_str(text: &str) -> Result<Span, SpanError> {
        let mut rest = text.trim();
        if rest.is_empty() {
            return Err(SpanError);
        }
        let mut total = 0i64;
        while !rest.is_empty() {
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            let number: i64 = rest[..digits].parse().map_err(|_| SpanError)?;
            rest = &rest[digits..];
            let letters = rest.bytes().take_while(u8::is_ascii_alphabetic).count();
            let (_, scale) = UNITS.iter().find(|(unit, _)| *unit == &rest[..letters]).ok_or(SpanError)?;
            let part = number.checked_mul(*scale).ok_or(SpanError)?;
            total = total.checked_add(part).ok_or(SpanError)?;
            rest = &rest[letters..];
        }
        Ok(Span(total))
    }
}

impl fmt::Display for Span {
    /// The form that [`Span::from_str`] reads, largest units first, weeks written as days: `1d12h`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return f.write_str("0s");
        }
        if self.0 < 0 {
            f.write_str("-")?;
        }
        let mut rest = self.0.unsigned_abs();
        for (unit, scale) in &UNITS[1..] {
            let scale = scale.unsigned_abs();
            if rest >= scale {
                write!(f, "{}{unit}", rest / scale)?;
                rest %= scale;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_read_back_what_they_print() {
        for text in ["10m", "1h30m", "14d", "250ms", "1d2h3m4s5ms6us"] {
            assert_eq!(text.parse::<Span>().unwrap().to_string(), text);
        }
        assert_eq!("2w".parse::<Span>().unwrap(), Span::days(14));
        for text in ["", "10", "m", "-5m", "10 m", "99999999999999w", "1x", "1h\u{e9}"] {
            assert_eq!(text.parse::<Span>(), Err(SpanError), "{text:?}");
        }
    }

    #[test]
    fn times_read_rfc3339_and_seconds() {
        let time = Time::from_seconds(1_431_857_103);
        assert_eq!("2015-05-17T10:05:03Z".parse(), Ok(time));
        assert_eq!("2015-05-17T12:05:03+02:00".parse(), Ok(time));
        assert_eq!("1431857103".parse(), Ok(time));
        assert_eq!(time.to_string(), "2015-05-17T10:05:03Z");
        assert_eq!("yesterday".parse::<Time>(), Err(TimeError));
        assert_eq!("inf".parse::<Time>(), Err(TimeError));
    }

    #[test]
    fn buckets_count_down_before_the_epoch() {
        assert_eq!(Time(-1).bucket(Span::minutes(10)), -1);
        assert_eq!(Time(0).bucket(Span::minutes(10)), 0);
        assert_eq!(Time(1).bucket(Span::ZERO), 1);
    }
}
