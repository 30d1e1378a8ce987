//! The field `Date` of answers (RFC 9110, 6.6.1), by the node's clock. Its text is made once a second, not for each answer.

use axum::http::HeaderValue;
use event::Time;
use jiff::fmt::rfc2822::DateTimePrinter;
use parking_lot::Mutex;

/// The date that was told last, and its second since 1970.
#[derive(Debug, Default)]
pub(crate) struct HttpDate(Mutex<Option<(i64, HeaderValue)>>);

impl HttpDate {
    /// Returns the date of a time; `None` for one that cannot be written.
    pub(crate) fn of(&self, now: Time) -> Option<HeaderValue> {
        let second = now.0.div_euclid(1_000_000);
        let mut told = self.0.lock();
        if let Some((of, date)) = &*told
            && *of == second
        {
            return Some(date.clone());
        }
        let at = jiff::Timestamp::from_second(second).ok()?;
        let text = DateTimePrinter::new().timestamp_to_rfc9110_string(&at).ok()?;
        let date = HeaderValue::try_from(text).ok()?;
        *told = Some((second, date.clone()));
        Some(date)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_second_has_its_date() {
        let date = HttpDate::default();
        let told = |micros| date.of(Time(micros)).map(|date| date.to_str().unwrap().to_owned());
        assert_eq!(told(0).as_deref(), Some("Thu, 01 Jan 1970 00:00:00 GMT"));
        assert_eq!(told(999_999).as_deref(), Some("Thu, 01 Jan 1970 00:00:00 GMT"));
        assert_eq!(told(1_000_000).as_deref(), Some("Thu, 01 Jan 1970 00:00:01 GMT"));
        assert_eq!(told(-1).as_deref(), Some("Wed, 31 Dec 1969 23:59:59 GMT"), "a clock that was set back");
        assert_eq!(told(i64::MAX), None);
        assert_eq!(told(1_764_493_200_000_000).as_deref(), Some("Sun, 30 Nov 2025 09:00:00 GMT"));
    }
}
