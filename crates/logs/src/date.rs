//! A date in the parts that a line shows of it, and the time that it means.
//!
//! A line may leave out the year, the day, or the zone. The present and the zone of the machine that wrote the log are
//! passed in: a date without a year is of this year unless that were more than a day ahead, one without a day is of
//! today unless that were ahead.

use event::Time;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};

/// Most seconds that a zone is away from UTC.
const OFFSET_MAX: i64 = 24 * 3600;

/// The present, and the zone of dates that name none.
#[derive(Clone, Debug)]
pub struct DateContext {
    /// The present.
    pub now: Time,
    /// The zone of the machine that wrote the log.
    pub zone: TimeZone,
}

/// The parts of a date that a line shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DateParts {
    /// The year.
    pub year: Option<i16>,
    /// The month, from 1.
    pub month: Option<i8>,
    /// The day of the month, from 1.
    pub day: Option<i8>,
    /// The day of the year, from 1.
    pub day_of_year: Option<i16>,
    /// The hour.
    pub hour: i8,
    /// The minute.
    pub minute: i8,
    /// The second.
    pub second: i8,
    /// Microseconds.
    pub microsecond: i32,
    /// Seconds east of UTC.
    pub offset: Option<i32>,
}

impl DateParts {
    /// Returns the time that the parts mean; `None` if there is no such day or hour.
    pub fn time(&self, context: &DateContext) -> Option<Time> {
        let zone = match self.offset {
            Some(offset) => TimeZone::fixed(jiff::tz::Offset::from_seconds(offset).ok()?),
            None => context.zone.clone(),
        };
        let now = Timestamp::from_microsecond(context.now.0).ok()?;
        let today = now.to_zoned(context.zone.clone()).date();
        // A leap second is the one before it.
        let second = self.second.min(59);
        let at = |date: Date| -> Option<Timestamp> {
            let time =
                jiff::civil::Time::new(self.hour, self.minute, second, self.microsecond.checked_mul(1000)?)
                    .ok()?;
            let civil = DateTime::from_parts(date, time);
            Some(civil.to_zoned(zone.clone()).ok()?.timestamp())
        };
        let day = |year: i16| -> Option<Date> {
            match (self.month, self.day, self.day_of_year) {
                (Some(month), Some(day), _) => Date::new(year, month, day).ok(),
                (_, _, Some(day)) => {
                    let date = Date::new(year, 1, 1).ok()?.checked_add(i32::from(day - 1).days()).ok()?;
                    (date.year() == year).then_some(date)
                }
                (Some(month), None, _) => Date::new(year, month, 1).ok(),
                (None, Some(day), _) => Date::new(year, today.month(), day).ok(),
                (None, None, None) => None,
            }
        };
        let has_day = self.month.is_some() || self.day.is_some() || self.day_of_year.is_some();
        let timestamp = if !has_day {
            let of_today = at(today)?;
            if of_today > now { at(today.yesterday().ok()?)? } else { of_today }
        } else if let Some(year) = self.year {
            at(day(year)?)?
        } else {
            // A day ahead may be another zone's.
            let this_year = day(today.year()).and_then(at);
            match this_year {
                Some(timestamp) if timestamp <= now.checked_add(24.hours()).ok()? => timestamp,
                // Also where this year has no such day: the 29th of February.
                _ => at(day(today.year() - 1)?)?,
            }
        };
        Some(Time(timestamp.as_microsecond()))
    }
}

/// The time of the last date of a source: lines that are written within a second have one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct KnownTime(Option<(DateParts, Time, Option<Time>)>);

impl KnownTime {
    /// Returns the time that parts mean. The zone is one source's, so it is that of the last date.
    pub(crate) fn of(&mut self, mut parts: DateParts, context: &DateContext) -> Option<Time> {
        let fraction = i64::from(std::mem::take(&mut parts.microsecond));
        let second = match self.0 {
            Some((known, now, time)) if known == parts && now == context.now => time,
            _ => {
                let time = parts.time(context);
                self.0 = Some((parts, context.now, time));
                time
            }
        };
        Some(Time(second?.0.checked_add(fraction)?))
    }
}

/// Returns the month of an English name or its first three letters, from 1.
pub(crate) fn month(name: &str) -> Option<i8> {
    const MONTHS: [&str; 12] =
        ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
    let start = name.get(..3)?.to_ascii_lowercase();
    MONTHS.iter().position(|month| *month == start).map(|index| index as i8 + 1)
}

/// Returns seconds east of UTC: `Z`, `UTC`, `CEST`, `+02`, `-0730`, `+05:30`, or a name with digits behind it.
pub fn zone_offset(text: &str) -> Option<i32> {
    let digits_at = text.find(['+', '-']).unwrap_or(text.len());
    let (name, digits) = text.split_at(digits_at);
    let mut seconds = if name.is_empty() { 0 } else { zone_of_name(name)? };
    if let Some(sign) = digits.chars().next() {
        let digits: String = digits[1..].chars().filter(|character| *character != ':').collect();
        if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let (hours, minutes) = match digits.len() {
            2 => (digits.parse::<i64>().ok()?, 0),
            4 => (digits[..2].parse::<i64>().ok()?, digits[2..].parse::<i64>().ok()?),
            _ => return None,
        };
        let offset = hours * 3600 + minutes * 60;
        seconds += if sign == '-' { -offset } else { offset };
    }
    (seconds.abs() < OFFSET_MAX).then_some(seconds as i32)
}

/// Abbreviations of zones that logs show, by minutes east of UTC. Several have more than one meaning; that of the
/// most people stands here.
const ZONES: &[(i64, &[&str])] = &[
    (-12 * 60, &["Y"]),
    (-11 * 60, &["X", "NUT", "SST"]),
    (-10 * 60, &["W", "HST", "HAST", "TAHT", "CKT", "TKT"]),
    (-570, &["MART", "MIT"]),
    (-9 * 60, &["V", "AKST", "GAMT", "HADT"]),
    (-8 * 60, &["U", "PST", "PT", "AKDT", "CIST"]),
    (-7 * 60, &["T", "PDT", "MST"]),
    (-6 * 60, &["S", "CST", "MDT", "GALT", "EAST"]),
    (-5 * 60, &["R", "EST", "CDT", "ET", "COT", "ECT", "PET", "EASST"]),
    (-270, &["VET", "HLV"]),
    (-4 * 60, &["Q", "EDT", "AST", "BOT", "CLT", "GYT", "FKT", "COST"]),
    (-210, &["NST", "NT"]),
    (-3 * 60, &["P", "ADT", "ART", "BRT", "UYT", "CLST", "GFT", "PMST", "PYST", "SRT", "ROTT", "FKST"]),
    (-150, &["NDT"]),
    (-2 * 60, &["O", "BRST", "FNT", "PMDT", "UYST"]),
    (-60, &["N", "AZOT", "CVT", "EGT"]),
    (0, &["Z", "UTC", "GMT", "UT", "WET", "WT", "EGST"]),
    (60, &["A", "CET", "WAT", "WEST", "DFT"]),
    (2 * 60, &["B", "CEST", "EET", "SAST", "CAT", "WAST"]),
    (3 * 60, &["C", "MSK", "EEST", "EAT", "IDT"]),
    (210, &["IRST"]),
    (4 * 60, &["D", "GST", "MSD", "AMT", "AZT", "GET", "MUT", "RET", "SAMT", "SCT"]),
    (270, &["IRDT", "AFT"]),
    (5 * 60, &["E", "PKT", "UZT", "YEKT", "MVT", "TJT", "TMT", "AMST", "AZST", "MAWT", "TFT"]),
    (330, &["IST", "SLT"]),
    (345, &["NPT"]),
    (6 * 60, &["F", "BTT", "ALMT", "NOVT", "OMST", "KGT", "BIOT", "YEKST"]),
    (390, &["MMT", "CCT"]),
    (7 * 60, &["G", "ICT", "WIB", "KRAT", "CXT", "HOVT", "DAVT", "THA"]),
    (8 * 60, &["H", "HKT", "SGT", "AWST", "MYT", "PHT", "IRKT", "BNT", "ULAT", "WITA", "BDT", "ACT"]),
    (9 * 60, &["I", "JST", "KST", "WIT", "YAKT", "PWT", "TLT", "AWDT"]),
    (570, &["ACST"]),
    (10 * 60, &["K", "AEST", "VLAT", "PGT", "YAPT"]),
    (630, &["ACDT", "LHST"]),
    (11 * 60, &["L", "AEDT", "MAGT", "SBT", "VUT", "NCT", "PONT", "LHDT"]),
    (12 * 60, &["M", "NZST", "FJT", "ANAT", "PETT", "TVT", "WFT", "GILT", "MHT"]),
    (13 * 60, &["NZDT", "FJST"]),
];

fn zone_of_name(name: &str) -> Option<i64> {
    let name = name.to_ascii_uppercase();
    let (minutes, _) = ZONES.iter().find(|(_, names)| names.contains(&name.as_str()))?;
    Some(minutes * 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context(now: &str, zone: &str) -> DateContext {
        let zone = TimeZone::posix(zone).expect("zone");
        DateContext { now: now.parse().expect("time"), zone }
    }

    #[test]
    fn parts_that_are_missing_are_of_the_present() {
        let check = |parts: DateParts, now: &str, expected: &str| {
            let context = context(now, "CET-1CEST,M3.5.0,M10.5.0/3");
            assert_eq!(parts.time(&context), Some(expected.parse().expect("time")), "{parts:?} at {now}");
        };
        let noon = DateParts { hour: 12, ..DateParts::default() };
        check(noon, "2005-08-14T10:00:00Z", "2005-08-14T10:00:00Z");
        check(noon, "2005-08-14T09:59:59Z", "2005-08-13T10:00:00Z");
        let january = DateParts { month: Some(1), day: Some(23), hour: 21, ..DateParts::default() };
        check(january, "2005-08-14T10:00:00Z", "2005-01-23T20:00:00Z");
        let december = DateParts { month: Some(12), day: Some(31), ..DateParts::default() };
        check(december, "2005-01-01T00:00:00Z", "2004-12-30T23:00:00Z");
        let tomorrow = DateParts { month: Some(8), day: Some(15), ..DateParts::default() };
        check(tomorrow, "2005-08-14T10:00:00Z", "2005-08-14T22:00:00Z");
        let leap_day = DateParts { month: Some(2), day: Some(29), ..DateParts::default() };
        check(leap_day, "2005-08-14T10:00:00Z", "2004-02-28T23:00:00Z");
        let full = DateParts {
            year: Some(1999),
            day_of_year: Some(32),
            offset: Some(-7200),
            ..DateParts::default()
        };
        check(full, "2005-08-14T10:00:00Z", "1999-02-01T02:00:00Z");
    }

    #[test]
    fn days_that_are_none_have_no_time() {
        let context = context("2005-08-14T10:00:00Z", "UTC0");
        let none = DateParts { month: Some(2), day: Some(31), ..DateParts::default() };
        assert_eq!(none.time(&context), None);
        assert_eq!(DateParts { day_of_year: Some(400), year: Some(2001), ..none }.time(&context), None);
        assert_eq!(DateParts { hour: 25, ..DateParts::default() }.time(&context), None);
    }

    #[test]
    fn zones_by_name_and_digits() {
        let check = |text: &str, expected: Option<i32>| assert_eq!(zone_offset(text), expected, "{text}");
        check("Z", Some(0));
        check("CEST", Some(7200));
        check("+05:30", Some(19_800));
        check("-0730", Some(-27_000));
        check("UTC+2", None);
        check("CET+0100", Some(7200));
        check("+99", None);
        check("XYZ", None);
    }
}
