//! Finds the date of a line among many forms: the one that the last line had first, else the one that begins first.

use crate::date::{DateContext, KnownTime};
use crate::date_pattern::{DatePattern, FoundDate, LINE_START_MARK};
use crate::line_pattern::LinePatternError;

/// Forms of dates that are known without a pattern: those that fail2ban's date detector knows.
const KNOWN: &[&str] = &[
    // 2005-01-23T21:59:59.981746Z, 2005-01-23 8:59:59 +0100, 2005/01/23 21:59:59, 2006.12.21 06:43:20
    r"%ExY-%m-%d(?:T|  ?)%H:%M:%S(?:[.,]%f)?(?:\s*%z)?",
    r"%ExY/%m/%d(?:T|  ?)%H:%M:%S(?:[.,]%f)?(?:\s*%z)?",
    r"%ExY\.%m\.%d(?:T|  ?)%H:%M:%S(?:[.,]%f)?(?:\s*%z)?",
    // Sun Jan 23 21:59:59.011 2005
    r"(?:%a )?%b %d %k:%M:%S(?:\.%f)?(?: %ExY)?",
    // Sun Jan 23 2005 21:59:59.011
    r"(?:%a )?%b %d %ExY %k:%M:%S(?:\.%f)?",
    // 23/01/2005 21:59:59, 17-07-08 17:23:25
    r"%d/%m/(?:%ExY|%Exy) %k:%M:%S",
    r"%d-%m-(?:%ExY|%Exy) %k:%M:%S",
    // 31/Oct/2006:09:22:55 -0000, 26-Jul-2007 15:20:52.252
    r"%d/%b/%ExY[ :]?%H:%M:%S(?:\.%f)?(?: %z)?",
    r"%d-%b-%ExY[ :]?%H:%M:%S(?:\.%f)?(?: %z)?",
    // 05/20/2008:01:57:39
    r"%m/%d/%ExY:%H:%M:%S",
    // 01-27-2012 16:22:44.252
    r"%m-%d-%ExY %k:%M:%S(?:\.%f)?",
    // 1138049999.123
    "EPOCH",
    // 21:59:59
    r"{^LN-BEG}%H:%M:%S",
    // <09/16/08@05:03:30>
    r"^<%m/%d/%Exy@%H:%M:%S>",
    // 130322 11:46:11
    r"%Exy%Exm%Exd  ?%H:%M:%S",
    // Jan 23, 2005 9:59:59 PM
    r"%b %d, %ExY %I:%M:%S %p",
    // Apr-27-13 02:33:06
    r"^%b-%d-%Exy %k:%M:%S",
    // 20050123T215959, 20050123 085959
    r"%ExY%Exm%Exd(?:T|  ?)%ExH%ExM%ExS(?:[.,]%f)?(?:\s*%z)?",
    // PDT Apr 16 21:05:29
    r"(?:%Z )?(?:%a )?%b %d %k:%M:%S(?:\.%f)?(?: %ExY)?",
    // +00:00 Jan 23 21:59:59.011 2005
    r"(?:%z )?(?:%a )?%b %d %k:%M:%S(?:\.%f)?(?: %ExY)?",
    // @4000000050d7c9a01d4c3b24
    "TAI64N",
];

/// Most patterns of a detector, those that stand for several counted as one.
pub const DATE_PATTERNS_MAX: usize = 100;

/// Forms of dates in an order.
pub struct DateDetector {
    patterns: Vec<DatePattern>,
}

/// The form that the last line had, and where. One of each source of lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LastDate {
    form: Option<(usize, usize, usize)>,
    time: KnownTime,
}

impl DateDetector {
    /// Builds a detector of fail2ban's patterns; of all known forms if there are none.
    pub fn new(patterns: &[&str]) -> Result<DateDetector, LinePatternError> {
        let mut compiled = Vec::new();
        let anchored = |known: &&str| !known.starts_with('^') && !known.starts_with(LINE_START_MARK);
        let at_start = |compiled: &mut Vec<DatePattern>| {
            for known in KNOWN.iter().filter(|known| anchored(known)) {
                compiled.push(DatePattern::new(&format!("{LINE_START_MARK}{known}"))?);
            }
            Ok::<(), LinePatternError>(())
        };
        for pattern in patterns.iter().take(DATE_PATTERNS_MAX).filter(|pattern| !pattern.trim().is_empty()) {
            let pattern = pattern.trim();
            if pattern.eq_ignore_ascii_case(LINE_START_MARK) {
                at_start(&mut compiled)?;
                for known in KNOWN.iter().filter(|known| !anchored(known)) {
                    compiled.push(DatePattern::new(known)?);
                }
            } else if pattern.eq_ignore_ascii_case("{DEFAULT}") {
                at_start(&mut compiled)?;
                for known in KNOWN {
                    compiled.push(DatePattern::new(known)?);
                }
            } else if DatePattern::has_date_mark(pattern) {
                let mut first_error = None;
                let before = compiled.len();
                for known in KNOWN.iter().filter(|known| !known.starts_with('^')) {
                    let is_named = !known.contains('%');
                    if is_named && !pattern.eq_ignore_ascii_case("^{DATE}") {
                        continue;
                    }
                    match DatePattern::around(pattern, known) {
                        Ok(date) => compiled.push(date),
                        Err(error) => first_error = first_error.or(Some(error)),
                    }
                }
                if let (true, Some(error)) = (compiled.len() == before, first_error) {
                    return Err(error);
                }
            } else {
                compiled.push(DatePattern::new(pattern)?);
            }
        }
        if compiled.is_empty() {
            at_start(&mut compiled)?;
            for known in KNOWN {
                compiled.push(DatePattern::new(known)?);
            }
        }
        Ok(DateDetector { patterns: compiled })
    }

    /// Searches a line for its date.
    pub fn find(&self, line: &str, context: &DateContext, last: &mut LastDate) -> Option<FoundDate> {
        if let Some((form, start, end)) = last.form
            && let Some(pattern) = self.patterns.get(form)
            && let Some(found) = pattern.find(line, context, &mut last.time)
            && (pattern.is_anchored() || self.patterns.len() == 1 || (found.start, found.end) == (start, end))
        {
            return Some(found);
        }
        let mut best: Option<(usize, FoundDate)> = None;
        for (form, pattern) in self.patterns.iter().enumerate() {
            let Some(found) = pattern.find(line, context, &mut last.time) else { continue };
            let is_anchored = pattern.is_anchored();
            if is_anchored || best.as_ref().is_none_or(|(_, best)| found.start < best.start) {
                best = Some((form, found));
            }
            // Anything else that begins as early has been asked before.
            if is_anchored || found.start == 0 {
                break;
            }
        }
        let (form, found) = best?;
        last.form = Some((form, found.start, found.end));
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use event::Time;
    use jiff::tz::TimeZone;

    fn context() -> DateContext {
        let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0").expect("zone");
        DateContext { now: "2005-08-14T10:00:00Z".parse().expect("time"), zone }
    }

    #[test]
    fn every_known_form_is_found_in_a_line() {
        let detector = DateDetector::new(&[]).expect("detector");
        let check = |date: &str, expected: &str| {
            for line in [format!("{date} text 1"), format!("[{date}] text"), date.to_owned()] {
                let found = detector
                    .find(&line, &context(), &mut LastDate::default())
                    .unwrap_or_else(|| panic!("{line}"));
                let expected: Time = expected.parse().expect("time");
                assert_eq!(found.time, Some(expected), "{line}");
                assert_eq!(&line[found.taken.0..found.taken.1], date, "{line}");
            }
        };
        check("2005-01-23T21:59:59.981746Z", "2005-01-23T21:59:59.981746Z");
        check("2005-01-23T15:59:59.981746321-05:00", "2005-01-23T20:59:59.981746Z");
        check("2005-01-23T21:59:59.1Z", "2005-01-23T21:59:59.1Z");
        check("2005-01-23 21:59:59", "2005-01-23T20:59:59Z");
        check("2005-01-23  8:59:59", "2005-01-23T07:59:59Z");
        check("2005-01-23T15:59:59-05:00", "2005-01-23T20:59:59Z");
        check("2005.01.23 21:59:59", "2005-01-23T20:59:59Z");
        check("2005/01/23 21:59:59", "2005-01-23T20:59:59Z");
        check("Sun Jan 23 21:59:59.011 2005", "2005-01-23T20:59:59.011Z");
        check("Jan 23 21:59:59", "2005-01-23T20:59:59Z");
        check("Jan  3 21:59:59", "2005-01-03T20:59:59Z");
        check("Sun Jan 23 2005 21:59:59", "2005-01-23T20:59:59Z");
        check("23/01/2005 21:59:59", "2005-01-23T20:59:59Z");
        check("23-01-05 21:59:59", "2005-01-23T20:59:59Z");
        check("23/Jan/2005:21:59:59 +0100", "2005-01-23T20:59:59Z");
        check("23-Jan-2005 21:59:59.252", "2005-01-23T20:59:59.252Z");
        check("01/23/2005:21:59:59", "2005-01-23T20:59:59Z");
        check("01-23-2005 21:59:59.252", "2005-01-23T20:59:59.252Z");
        check("050123 21:59:59", "2005-01-23T20:59:59Z");
        check("Jan 23, 2005 9:59:59 PM", "2005-01-23T20:59:59Z");
        check("20050123T215959", "2005-01-23T20:59:59Z");
        check("20050123  085959", "2005-01-23T07:59:59Z");
        check("CET Jan 23 21:59:59", "2005-01-23T20:59:59Z");
        check("+00:00 Jan 23 20:59:59 2005", "2005-01-23T20:59:59Z");
        check("1106513999", "2005-01-23T20:59:59Z");
        check("@4000000041f4104f00000000", "2005-01-23T20:59:59Z");
        check("11:59:59", "2005-08-14T09:59:59Z");
        check("21:59:59", "2005-08-13T19:59:59Z");
    }

    #[test]
    fn patterns_of_a_user() {
        let check = |pattern: &str, line: &str, taken: &str, expected: &str| {
            let detector = DateDetector::new(&pattern.lines().collect::<Vec<_>>()).expect(pattern);
            let found =
                detector.find(line, &context(), &mut LastDate::default()).unwrap_or_else(|| panic!("{line}"));
            assert_eq!(&line[found.taken.0..found.taken.1], taken, "{line}");
            assert_eq!(found.time, Some(expected.parse().expect("time")), "{line}");
        };
        check(
            r"^\[%d/%b/%Y %H:%M:%S\]",
            "[23/Jan/2005 21:59:59] x",
            "[23/Jan/2005 21:59:59]",
            "2005-01-23T20:59:59Z",
        );
        check(
            r"^[^\[]*\[({DATE})",
            r#"- "x" [23/Jan/2005:21:59:59 +0100] "GET"#,
            "23/Jan/2005:21:59:59 +0100",
            "2005-01-23T20:59:59Z",
        );
        check("{^LN-BEG}Epoch\n{^LN-BEG}", "1106513999.123 x", "1106513999.123", "2005-01-23T20:59:59.123Z");
        check(
            "{^LN-BEG}Epoch\n{^LN-BEG}",
            "[2005-01-23 21:59:59] x",
            "2005-01-23 21:59:59",
            "2005-01-23T20:59:59Z",
        );
        check("EPOCH", "type=X msg=audit(1106513999.234:9): x", "1106513999.234", "2005-01-23T20:59:59.234Z");
        check("LEPOCH", "1106513999123 x", "1106513999123", "2005-01-23T20:59:59.123Z");
        check(
            r"^%ExY(?P<_sep>[-/.])%m(?P=_sep)%d[T ]%H:%M:%S",
            "2005/01/23 21:59:59 x",
            "2005/01/23 21:59:59",
            "2005-01-23T20:59:59Z",
        );
        check(
            r"^<\d+>\d+\s+{DATE}",
            "<86>1 2005-01-23T21:59:59.9+01:00 x",
            "<86>1 2005-01-23T21:59:59.9+01:00",
            "2005-01-23T20:59:59.9Z",
        );
        check(r"**time%Y%m%d%H%M%S**", "uptime20050123215959x", "time20050123215959", "2005-01-23T20:59:59Z");
    }

    #[test]
    fn a_date_that_is_none_is_said_to_be_none() {
        let detector = DateDetector::new(&["^%Y-%m-%d"]).expect("detector");
        let found = detector.find("2005-02-31 x", &context(), &mut LastDate::default()).expect("found");
        assert_eq!(found.time, None);
        assert_eq!(detector.find("x 2005-02-01", &context(), &mut LastDate::default()), None);
        let none = DateDetector::new(&["{NONE}"]).expect("detector");
        let found = none.find("anything", &context(), &mut LastDate::default()).expect("found");
        assert_eq!((found.taken, found.time), ((0, 0), None));
    }
}
