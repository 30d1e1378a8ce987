//! Calendar periods in a time zone.

use std::fmt;

use event::{Span, Time};
use jiff::tz::TimeZone;
use jiff::{RoundMode, Timestamp, ToSpan, Unit, Zoned, ZonedRound};

/// A unit of the calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Period {
    /// From one minute's first second to the next one's.
    Minute,
    /// An hour.
    Hour,
    /// From midnight to midnight: 23 to 25 hours.
    Day,
    /// From the first of a month to that of the next.
    Month,
}

/// A time zone, for its midnight.
#[derive(Clone, Debug, PartialEq)]
pub struct Zone {
    name: String,
    zone: TimeZone,
}

impl Zone {
    /// Coordinated universal time.
    pub fn utc() -> Zone {
        Zone { name: "UTC".to_owned(), zone: TimeZone::UTC }
    }

    /// A zone by its name in the time zone database of IANA, such as `Europe/Berlin`, as the binary
    /// has it.
    pub fn named(name: &str) -> Option<Zone> {
        Some(Zone { name: name.to_owned(), zone: TimeZone::get(name).ok()? })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Period {
    /// All of them.
    pub const ALL: [Period; 4] = [Period::Minute, Period::Hour, Period::Day, Period::Month];

    /// Returns the name of the period in configurations.
    pub fn name(self) -> &'static str {
        match self {
            Period::Minute => "minute",
            Period::Hour => "hour",
            Period::Day => "day",
            Period::Month => "month",
        }
    }

    /// The longest that one can be.
    pub fn longest(self) -> Span {
        match self {
            Period::Minute => Span::minutes(1),
            Period::Hour => Span::hours(2),
            Period::Day => Span::hours(26),
            Period::Month => Span::days(32),
        }
    }

    /// The start of the period that a time falls into, and the start of the next. Outside of the calendar, that is before
    /// the year -9999 or after 9999, periods are of equal length.
    pub fn bounds(self, zone: &Zone, now: Time) -> (Time, Time) {
        let even = |width: Span| {
            let start = Time(now.bucket(width).saturating_mul(width.0));
            (start, start + width)
        };
        if zone.zone == TimeZone::UTC {
            match self {
                Period::Minute => return even(Span::minutes(1)),
                Period::Hour => return even(Span::hours(1)),
                Period::Day => return even(Span::days(1)),
                Period::Month => {}
            }
        }
        self.of_calendar(zone, now).unwrap_or_else(|| even(self.longest()))
    }

    fn of_calendar(self, zone: &Zone, now: Time) -> Option<(Time, Time)> {
        let now = Timestamp::from_microsecond(now.0).ok()?.to_zoned(zone.zone.clone());
        let truncated = |unit: Unit| now.round(ZonedRound::new().smallest(unit).mode(RoundMode::Trunc)).ok();
        let (start, next): (Zoned, Zoned) = match self {
            Period::Minute => {
                let start = truncated(Unit::Minute)?;
                let next = start.checked_add(1.minute()).ok()?;
                (start, next)
            }
            Period::Hour => {
                let start = truncated(Unit::Hour)?;
                let next = start.checked_add(1.hour()).ok()?;
                (start, next)
            }
            Period::Day => (now.start_of_day().ok()?, now.tomorrow().ok()?.start_of_day().ok()?),
            Period::Month => {
                let first = now.first_of_month().ok()?;
                let next = first.checked_add(1.month()).ok()?;
                (first.start_of_day().ok()?, next.start_of_day().ok()?)
            }
        };
        let time = |zoned: &Zoned| Time(zoned.timestamp().as_microsecond());
        Some((time(&start), time(&next)))
    }
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(period: Period, zone: &str, now: &str, start: &str, next: &str) {
        let zone = Zone::named(zone).unwrap();
        let [now, start, next] = [now, start, next].map(|text| text.parse::<Time>().unwrap());
        assert_eq!(period.bounds(&zone, now), (start, next), "{period} at {now}");
        assert!(next.0 - start.0 <= period.longest().0);
    }

    #[test]
    fn periods_follow_the_calendar_of_their_zone() {
        let utc = "UTC";
        check(Period::Minute, utc, "2026-03-29T01:30:07.5Z", "2026-03-29T01:30:00Z", "2026-03-29T01:31:00Z");
        check(Period::Day, utc, "2026-03-29T01:30:00Z", "2026-03-29T00:00:00Z", "2026-03-30T00:00:00Z");
        check(Period::Month, utc, "2028-02-29T23:00:00Z", "2028-02-01T00:00:00Z", "2028-03-01T00:00:00Z");
        check(Period::Month, utc, "2026-12-31T23:59:59Z", "2026-12-01T00:00:00Z", "2027-01-01T00:00:00Z");
        // A day of 23 hours, one of 25, and a month that begins in the old year of Greenwich.
        let berlin = "Europe/Berlin";
        check(Period::Day, berlin, "2026-03-29T10:00:00Z", "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z");
        check(Period::Day, berlin, "2026-10-25T10:00:00Z", "2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z");
        check(Period::Month, berlin, "2025-12-31T23:30:00Z", "2025-12-31T23:00:00Z", "2026-01-31T23:00:00Z");
        // Hours of a zone that is not whole hours away.
        check(
            Period::Hour,
            "Asia/Kolkata",
            "2026-01-01T00:45:00Z",
            "2026-01-01T00:30:00Z",
            "2026-01-01T01:30:00Z",
        );
        assert!(Zone::named("Middle/Earth").is_none());
    }

    #[test]
    fn beyond_the_calendar_periods_are_even() {
        for now in [Time(i64::MIN), Time(i64::MAX)] {
            for period in Period::ALL {
                for zone in [Zone::utc(), Zone::named("Europe/Berlin").unwrap()] {
                    let (start, next) = period.bounds(&zone, now);
                    assert!(start <= now && now <= next);
                }
            }
        }
    }
}
