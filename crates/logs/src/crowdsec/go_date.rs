//! Dates in the forms in which Go writes them, such as `02/Jan/2006:15:04:05 -0700`.

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::Offset;

/// Forms that are tried in turn for a date of no known form.
const USUAL: [&str; 16] = [
    "2006-01-02T15:04:05Z07:00",
    "02/Jan/2006:15:04:05 -0700",
    "Mon Jan 2 15:04:05 2006",
    "02-Jan-2006 15:04:05 europe/paris",
    "01/02/2006 15:04:05",
    "2006-01-02 15:04:05.999999999 -0700 MST",
    "Jan  2 15:04:05",
    "Mon Jan 02 15:04:05.000000 2006",
    "2006-01-02T15:04:05Z07:00",
    "2006/01/02",
    "2006/01/02 15:04",
    "2006-01-02",
    "2006-01-02 15:04",
    "2006/01/02 15:04:05",
    "2006-01-02 15:04:05",
    "2006-01-02T15:04:05",
];

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
/// Days of the week, from Sunday on.
pub(crate) const DAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// A moment, and the zone that its text was in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GoDate {
    /// Nanoseconds since 1970.
    pub time: i64,
    /// Seconds that the zone is off UTC.
    pub offset: i32,
}

/// A piece of a form.
enum FormPart {
    LongMonth,
    Month,
    NumMonth,
    ZeroMonth,
    LongWeekDay,
    WeekDay,
    Day,
    UnderDay,
    ZeroDay,
    DayOfYear,
    Hour,
    Hour12,
    ZeroHour12,
    Minute,
    ZeroMinute,
    Second,
    ZeroSecond,
    LongYear,
    Year,
    AfterNoon,
    Zone,
    /// `Z07:00`: with `Z` for UTC, with a colon, seconds.
    Offset {
        z: bool,
        colon: bool,
        hours_only: bool,
    },
    /// `.000`: exactly so many digits.
    Fraction(usize),
    /// `.999`: any digits, or none.
    OptionalFraction,
}

/// Splits a form at its next part: the text before, the part, the rest.
fn next_part(form: &str, before_second: bool) -> Option<(usize, FormPart, usize)> {
    use FormPart as P;
    let _ = before_second;
    for (at, _) in form.char_indices() {
        let rest = &form[at..];
        let no_letter_after = |length: usize| !rest[length..].starts_with(|c: char| c.is_ascii_lowercase());
        let (part, length) = if rest.starts_with("January") {
            (P::LongMonth, 7)
        } else if rest.starts_with("Jan") && no_letter_after(3) {
            (P::Month, 3)
        } else if rest.starts_with("Monday") {
            (P::LongWeekDay, 6)
        } else if rest.starts_with("Mon") && no_letter_after(3) {
            (P::WeekDay, 3)
        } else if rest.starts_with("MST") {
            (P::Zone, 3)
        } else if rest.starts_with("002") {
            (P::DayOfYear, 3)
        } else if rest.starts_with("01") {
            (P::ZeroMonth, 2)
        } else if rest.starts_with("02") {
            (P::ZeroDay, 2)
        } else if rest.starts_with("03") {
            (P::ZeroHour12, 2)
        } else if rest.starts_with("04") {
            (P::ZeroMinute, 2)
        } else if rest.starts_with("05") {
            (P::ZeroSecond, 2)
        } else if rest.starts_with("06") {
            (P::Year, 2)
        } else if rest.starts_with("15") {
            (P::Hour, 2)
        } else if rest.starts_with('1') {
            (P::NumMonth, 1)
        } else if rest.starts_with("2006") {
            (P::LongYear, 4)
        } else if rest.starts_with("_2006") {
            return Some((at + 1, P::LongYear, at + 5));
        } else if rest.starts_with("_2") {
            (P::UnderDay, 2)
        } else if rest.starts_with('2') {
            (P::Day, 1)
        } else if rest.starts_with('3') {
            (P::Hour12, 1)
        } else if rest.starts_with('4') {
            (P::Minute, 1)
        } else if rest.starts_with('5') {
            (P::Second, 1)
        } else if rest.starts_with("PM") || rest.starts_with("pm") {
            (P::AfterNoon, 2)
        } else if let Some((part, length)) = offset_part(rest) {
            (part, length)
        } else if rest.starts_with(".0")
            || rest.starts_with(",0")
            || rest.starts_with(".9")
            || rest.starts_with(",9")
        {
            let digit = &rest[1..2];
            let digits = rest[1..].len() - rest[1..].trim_start_matches(digit).len();
            if rest[1 + digits..].starts_with(|c: char| c.is_ascii_digit()) {
                continue;
            }
            (if digit == "0" { P::Fraction(digits) } else { P::OptionalFraction }, digits + 1)
        } else {
            continue;
        };
        return Some((at, part, at + length));
    }
    None
}

fn offset_part(rest: &str) -> Option<(FormPart, usize)> {
    let forms = [("-07:00", true, false), ("-0700", false, false), ("-07", false, true)];
    let z = [("Z07:00", true, false), ("Z0700", false, false), ("Z07", false, true)];
    let found = |forms: &[(&str, bool, bool)], z| {
        forms.iter().find(|(form, ..)| rest.starts_with(form)).map(|(form, colon, hours_only)| {
            (FormPart::Offset { z, colon: *colon, hours_only: *hours_only }, form.len())
        })
    };
    found(&forms, false).or_else(|| found(&z, true))
}

/// Reads the next digits: at least and at most so many.
fn digits(text: &mut &str, least: usize, most: usize) -> Option<u32> {
    let length = text.bytes().take(most).take_while(u8::is_ascii_digit).count();
    if length < least {
        return None;
    }
    let number = text[..length].parse().ok()?;
    *text = &text[length..];
    Some(number)
}

/// Reads one of some names, in full or by its first three letters.
fn name(text: &mut &str, names: &[&str], in_full: bool) -> Option<u32> {
    let number = names.iter().position(|name| {
        let name = if in_full { name } else { &name[..3] };
        text.get(..name.len()).is_some_and(|found| found.eq_ignore_ascii_case(name))
    })?;
    *text = &text[if in_full { names[number].len() } else { 3 }..];
    u32::try_from(number).ok()
}

/// Takes the plain text of a form off a text. A blank stands for any number of them, as in Go.
fn plain<'t>(mut text: &'t str, mut form: &str) -> Option<&'t str> {
    while let Some(wanted) = form.chars().next() {
        if wanted == ' ' {
            if !text.is_empty() && !text.starts_with(' ') {
                return None;
            }
            form = form.trim_start_matches(' ');
            text = text.trim_start_matches(' ');
            continue;
        }
        text = text.strip_prefix(wanted)?;
        form = &form[wanted.len_utf8()..];
    }
    Some(text)
}

/// Reads a date in a form of Go's. A year that is not in it is that of the present, which is in nanoseconds since 1970.
pub fn parse(form: &str, text: &str, now: i64) -> Option<GoDate> {
    let mut rest = text;
    let mut form = form;
    let (mut year, mut month, mut day, mut day_of_year) = (None, 1, None, None);
    let (mut hour, mut minute, mut second, mut nanosecond) = (0, 0, 0, 0u32);
    let (mut is_after_noon, mut is_before_noon, mut offset) = (false, false, None);
    let mut has_month = false;
    while let Some((start, part, end)) = next_part(form, false) {
        rest = plain(rest, &form[..start])?;
        form = &form[end..];
        match part {
            FormPart::LongYear => year = Some(digits(&mut rest, 4, 4)?),
            FormPart::Year => {
                let short = digits(&mut rest, 2, 2)?;
                year = Some(if short >= 69 { 1900 + short } else { 2000 + short });
            }
            FormPart::LongMonth => (month, has_month) = (name(&mut rest, &MONTHS, true)? + 1, true),
            FormPart::Month => (month, has_month) = (name(&mut rest, &MONTHS, false)? + 1, true),
            FormPart::NumMonth => (month, has_month) = (digits(&mut rest, 1, 2)?, true),
            FormPart::ZeroMonth => (month, has_month) = (digits(&mut rest, 2, 2)?, true),
            FormPart::LongWeekDay => {
                name(&mut rest, &DAYS, true)?;
            }
            FormPart::WeekDay => {
                name(&mut rest, &DAYS, false)?;
            }
            FormPart::Day => day = Some(digits(&mut rest, 1, 2)?),
            FormPart::UnderDay => {
                rest = rest.strip_prefix(' ').unwrap_or(rest);
                day = Some(digits(&mut rest, 1, 2)?);
            }
            FormPart::ZeroDay => day = Some(digits(&mut rest, 2, 2)?),
            FormPart::DayOfYear => day_of_year = Some(digits(&mut rest, 3, 3)?),
            FormPart::Hour => hour = digits(&mut rest, 1, 2)?,
            FormPart::Hour12 => hour = digits(&mut rest, 1, 2)?,
            FormPart::ZeroHour12 => hour = digits(&mut rest, 2, 2)?,
            FormPart::Minute => minute = digits(&mut rest, 1, 2)?,
            FormPart::ZeroMinute => minute = digits(&mut rest, 2, 2)?,
            FormPart::Second | FormPart::ZeroSecond => {
                second = digits(&mut rest, if matches!(part, FormPart::Second) { 1 } else { 2 }, 2)?;
                // A fraction may follow though the form has none.
                let is_wanted = matches!(
                    next_part(form, true),
                    Some((0, FormPart::Fraction(_) | FormPart::OptionalFraction, _))
                );
                if !is_wanted
                    && rest.starts_with(['.', ','])
                    && rest[1..].starts_with(|c: char| c.is_ascii_digit())
                {
                    nanosecond = fraction(&mut rest)?;
                }
            }
            FormPart::Fraction(length) => {
                let length_there = rest.get(1..)?.bytes().take_while(u8::is_ascii_digit).count();
                if !rest.starts_with(['.', ',']) || length_there < length {
                    return None;
                }
                let mut exact = &rest[..=length];
                nanosecond = fraction(&mut exact)?;
                rest = &rest[length + 1..];
            }
            FormPart::OptionalFraction => {
                if rest.starts_with(['.', ',']) && rest[1..].starts_with(|c: char| c.is_ascii_digit()) {
                    nanosecond = fraction(&mut rest)?;
                }
            }
            FormPart::AfterNoon => {
                match rest.get(..2)?.to_ascii_uppercase().as_str() {
                    "PM" => is_after_noon = true,
                    "AM" => is_before_noon = true,
                    _ => return None,
                }
                rest = &rest[2..];
            }
            FormPart::Zone => {
                if let Some(after) = rest.strip_prefix("UTC") {
                    (offset, rest) = (offset.or(Some(0)), after);
                } else {
                    let length = rest.bytes().take_while(|byte| byte.is_ascii_uppercase()).count();
                    if !(3..=5).contains(&length) {
                        return None;
                    }
                    rest = &rest[length..];
                }
            }
            FormPart::Offset { z, colon, hours_only } => {
                if let Some(after) = rest.strip_prefix('Z').filter(|_| z) {
                    (offset, rest) = (Some(0), after);
                    continue;
                }
                let sign = if rest.starts_with('-') { -1 } else { 1 };
                rest = rest.strip_prefix(['+', '-'])?;
                let hours = digits(&mut rest, 2, 2)?;
                if colon {
                    rest = rest.strip_prefix(':')?;
                }
                let minutes = if hours_only { 0 } else { digits(&mut rest, 2, 2)? };
                if hours > 24 || minutes > 60 {
                    return None;
                }
                offset = Some(sign * i32::try_from(hours * 3600 + minutes * 60).ok()?);
            }
        }
    }
    if !plain(rest, form)?.is_empty() {
        return None;
    }
    if is_after_noon && hour < 12 {
        hour += 12;
    } else if is_before_noon && hour == 12 {
        hour = 0;
    }
    let present = jiff::Timestamp::from_nanosecond(i128::from(now)).ok()?;
    let present = Offset::UTC.to_datetime(present);
    let year = match year {
        Some(year) => i16::try_from(year).ok()?,
        None => present.year(),
    };
    let date = match day_of_year.filter(|_| !has_month) {
        Some(day) => Date::new(year, 1, 1)
            .ok()?
            .checked_add(jiff::Span::new().try_days(i64::from(day) - 1).ok()?)
            .ok()?,
        None => {
            let (month, day) = (i8::try_from(month).ok()?, i8::try_from(day.unwrap_or(1)).ok()?);
            // The 29th of February without a year is of a leap year; as Go, one day later in others.
            match Date::new(year, month, day) {
                Ok(date) => date,
                Err(_) if (month, day) == (2, 29) => Date::new(year, 3, 1).ok()?,
                Err(_) => return None,
            }
        }
    };
    let time = Time::new(
        i8::try_from(hour).ok()?,
        i8::try_from(minute).ok()?,
        i8::try_from(second.min(59)).ok().filter(|_| second < 60)?,
        i32::try_from(nanosecond).ok()?,
    )
    .ok()?;
    let offset = offset.unwrap_or(0);
    let zone = Offset::from_seconds(offset).ok()?;
    let moment = zone.to_timestamp(DateTime::from_parts(date, time)).ok()?;
    Some(GoDate { time: i64::try_from(moment.as_nanosecond()).ok()?, offset })
}

/// Reads a `.` and digits, as nanoseconds.
fn fraction(text: &mut &str) -> Option<u32> {
    let length = text.get(1..)?.bytes().take_while(u8::is_ascii_digit).count();
    let digits = &text[1..=length];
    let mut padded = digits.get(..length.min(9))?.to_owned();
    while padded.len() < 9 {
        padded.push('0');
    }
    *text = &text[length + 1..];
    padded.parse().ok()
}

/// Reads a date in one of the usual forms, or seconds since 1970, whose fraction is left out as CrowdSec leaves it out.
pub fn parse_usual(text: &str, now: i64) -> Option<GoDate> {
    USUAL.iter().find_map(|form| parse(form, text, now)).or_else(|| {
        let seconds: i64 = text.split('.').next()?.parse().ok()?;
        let time = seconds.checked_mul(1_000_000_000).filter(|time| *time > 0)?;
        Some(GoDate { time, offset: 0 })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crowdsec::value::rfc3339;

    #[test]
    fn dates_are_read_as_in_go() {
        // The present is 2024-06-01.
        let now = 1_717_200_000_000_000_000;
        let check = |form: &str, text: &str, expected: &str| {
            let date = if form.is_empty() { parse_usual(text, now) } else { parse(form, text, now) };
            let date = date.map(|date| rfc3339(date.time, date.offset)).unwrap_or_default();
            assert_eq!(date, expected, "{text} in {form}");
        };
        check("", "Feb  2 14:10:21", "2024-02-02T14:10:21Z");
        check("", "Feb 12 14:10:21", "2024-02-12T14:10:21Z");
        check("", "12/Feb/2023:14:10:21 +0100", "2023-02-12T14:10:21+01:00");
        check("", "2023-11-14T00:20:42.738197+01:00", "2023-11-14T00:20:42.738197+01:00");
        check("", "2023-11-14 00:20:42", "2023-11-14T00:20:42Z");
        check("", "Mon Nov 14 00:20:42.123456 2023", "2023-11-14T00:20:42.123456Z");
        check("", "tomorrow", "");
        check("2006-01-02T15:04:05.999Z", "2023-11-14T00:20:42.5Z", "2023-11-14T00:20:42.5Z");
        check("01/02/2006 3:04:05 PM", "11/14/2023 1:20:42 AM", "2023-11-14T01:20:42Z");
        check("2006.01.02 15:04:05.000", "2023.11.14 00:20:42.123", "2023-11-14T00:20:42.123Z");
        check("2006-01-02", "2023-13-14", "");
        check("2006-01-02", "2023-11-14x", "");
        check("02-Jan-2006 15:04:05 MST", "14-Nov-2023 01:02:03 CET", "2023-11-14T01:02:03Z");
    }
}
