//! The time for which a certificate is valid, read from its DER (X.690; RFC 5280, 4.1).
//!
//! ```text
//! Certificate { TBSCertificate { [0] version?, serial, signature, issuer, validity { notBefore, notAfter }, ... }, ... }
//! ```
//!
//! The library that verifies chains says only whether a certificate is valid at a moment; when it ends has to be known before.

use event::Time;

/// Tags of DER.
const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// The time for which a certificate is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CertificateValidity {
    /// The first moment.
    pub not_before: Time,
    /// The last moment.
    pub not_after: Time,
}

impl CertificateValidity {
    /// Returns the validity of a certificate; `None` if these bytes are none.
    pub fn of_der(certificate: &[u8]) -> Option<CertificateValidity> {
        let (body, _) = value(certificate, SEQUENCE)?;
        let (mut fields, _) = value(body, SEQUENCE)?;
        if fields.first() == Some(&VERSION) {
            (_, fields) = value(fields, VERSION)?;
        }
        for tag in [INTEGER, SEQUENCE, SEQUENCE] {
            (_, fields) = value(fields, tag)?;
        }
        let (validity, _) = value(fields, SEQUENCE)?;
        let (not_before, rest) = time(validity)?;
        let (not_after, _) = time(rest)?;
        Some(CertificateValidity { not_before, not_after })
    }
}

/// Returns the content of the value at the start, which has this tag, and what follows it.
fn value(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (found, rest) = bytes.split_first()?;
    if *found != tag {
        return None;
    }
    let (first, rest) = rest.split_first()?;
    let (length, rest) = match usize::from(*first) {
        short @ 0..0x80 => (short, rest),
        long => {
            let (digits, rest) = rest.split_at_checked(long & 0x7f)?;
            // No certificate is longer than four digits of 256 can say.
            if digits.is_empty() || digits.len() > 4 {
                return None;
            }
            (digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)), rest)
        }
    };
    rest.split_at_checked(length)
}

/// Returns the time at the start, and what follows it.
fn time(bytes: &[u8]) -> Option<(Time, &[u8])> {
    let (year_digits, (text, rest)) = match *bytes.first()? {
        UTC_TIME => (2, value(bytes, UTC_TIME)?),
        GENERALIZED_TIME => (4, value(bytes, GENERALIZED_TIME)?),
        _ => return None,
    };
    let text = str::from_utf8(text).ok()?.strip_suffix('Z')?;
    if text.len() != year_digits + 10 || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (year, rest_of_date) = text.split_at(year_digits);
    let year: i16 = match (year_digits, year.parse().ok()?) {
        (2, year @ ..50) => 2000 + year,
        (2, year) => 1900 + year,
        (_, year) => year,
    };
    let part = |at: usize| rest_of_date.get(at..at + 2)?.parse::<i8>().ok();
    let date = jiff::civil::DateTime::new(year, part(0)?, part(2)?, part(4)?, part(6)?, part(8)?, 0).ok()?;
    // The end of the year 9999, which stands for no end (RFC 5280, 4.1.2.5), is later than what a timestamp can be.
    let moment = jiff::tz::Offset::UTC.to_timestamp(date).unwrap_or(jiff::Timestamp::MAX);
    Some((Time(moment.as_microsecond()), rest))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    use super::*;

    fn certificate(from: (i32, u8, u8), to: (i32, u8, u8)) -> Vec<u8> {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.not_before = date_time_ymd(from.0, from.1, from.2);
        params.not_after = date_time_ymd(to.0, to.1, to.2);
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    #[track_caller]
    fn check(from: (i32, u8, u8), to: (i32, u8, u8)) {
        let time = |(year, month, day): (i32, u8, u8)| {
            let text = format!("{year:04}-{month:02}-{day:02}T00:00:00Z");
            text.parse::<jiff::Timestamp>().unwrap_or(jiff::Timestamp::MAX)
        };
        let expected = [from, to].map(|date| Time(time(date).as_microsecond()));
        let found = CertificateValidity::of_der(&certificate(from, to)).unwrap();
        assert_eq!([found.not_before, found.not_after], expected);
    }

    #[test]
    fn both_forms_of_time_are_read() {
        check((1950, 1, 1), (2049, 12, 31));
        check((1999, 12, 31), (2050, 1, 1));
        check((2026, 2, 28), (9999, 12, 31));
    }

    proptest! {
        /// Checks that no bytes, and no damage to a certificate, are taken for more than they are, or panic.
        #[test]
        fn damage_is_none_or_another_time(
            bytes in prop::collection::vec(any::<u8>(), 0..64),
            at in any::<prop::sample::Index>(),
            byte in any::<u8>(),
            cut in any::<prop::sample::Index>(),
        ) {
            let _ = CertificateValidity::of_der(&bytes);
            let mut damaged = certificate((2026, 1, 1), (2027, 1, 1));
            let place = at.index(damaged.len());
            damaged[place] = byte;
            let _ = CertificateValidity::of_der(&damaged);
            damaged.truncate(cut.index(damaged.len()));
            // The outermost length reaches beyond the end.
            prop_assert!(place < 4 || CertificateValidity::of_der(&damaged).is_none());
        }
    }
}
