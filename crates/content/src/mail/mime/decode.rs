//! Transfer encodings and charsets, read so that as much as possible shows: hostile mail breaks them on purpose,
//! and readers mend them in their own ways.

use std::borrow::Cow;

use mail_parser::decoders::charsets::map::charset_decoder;

/// The value of a hexadecimal digit.
pub(crate) fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|value| value as u8)
}

const NO_DIGIT: u8 = 0xFF;

const BASE64: [u8; 256] = {
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut table = [NO_DIGIT; 256];
    let mut value = 0;
    while value < alphabet.len() {
        table[alphabet[value] as usize] = value as u8;
        value += 1;
    }
    table
};

/// Base64 (RFC 4648) of at most `bytes_max` bytes, and whether it held bytes that are neither of the alphabet nor
/// padding nor white space. Those are skipped; what follows padding is decoded on.
pub(crate) fn base64(encoded: &[u8], bytes_max: usize) -> (Vec<u8>, bool) {
    let mut bytes = Vec::with_capacity((encoded.len() / 4 * 3 + 3).min(bytes_max));
    let mut bad = false;
    let (mut group, mut digits) = (0u32, 0u8);
    let mut rest = encoded;
    while bytes.len() < bytes_max {
        if digits == 0 {
            while let [a, b, c, d, after @ ..] = rest {
                let [a, b, c, d] = [a, b, c, d].map(|&byte| BASE64[usize::from(byte)]);
                if (a | b | c | d) >= 64 || bytes.len() >= bytes_max {
                    break;
                }
                let group = u32::from(a) << 18 | u32::from(b) << 12 | u32::from(c) << 6 | u32::from(d);
                bytes.extend_from_slice(&group.to_be_bytes()[1..]);
                rest = after;
            }
        }
        let Some((&byte, after)) = rest.split_first() else { break };
        rest = after;
        match BASE64[usize::from(byte)] {
            NO_DIGIT if byte == b'=' => {
                flush(&mut bytes, group, digits);
                (group, digits) = (0, 0);
            }
            NO_DIGIT => bad |= !byte.is_ascii_whitespace(),
            digit => {
                group = group << 6 | u32::from(digit);
                digits += 1;
                if digits == 4 {
                    bytes.extend_from_slice(&group.to_be_bytes()[1..]);
                    (group, digits) = (0, 0);
                }
            }
        }
    }
    flush(&mut bytes, group, digits);
    bytes.truncate(bytes_max);
    (bytes, bad)
}

/// Writes the whole bytes of a group of fewer than four digits.
fn flush(bytes: &mut Vec<u8>, group: u32, digits: u8) {
    match digits {
        2 => bytes.push((group >> 4) as u8),
        3 => bytes.extend_from_slice(&((group >> 2) as u16).to_be_bytes()),
        _ => {}
    }
}

/// Quoted-printable (RFC 2045, 6.7), and whether it held an `=` that encodes nothing. Such a one stands for
/// itself; white space before a line's end is dropped.
pub(crate) fn quoted_printable(encoded: &[u8]) -> (Vec<u8>, bool) {
    let mut bytes = Vec::with_capacity(encoded.len());
    let mut bad = false;
    let mut rest = encoded;
    while let Some(at) = memchr::memchr2(b'=', b'\n', rest) {
        bytes.extend_from_slice(&rest[..at]);
        let after = &rest[at + 1..];
        if rest[at] == b'\n' {
            let line_end: &[u8] = if bytes.last() == Some(&b'\r') { b"\r\n" } else { b"\n" };
            let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r');
            bytes.truncate(bytes.iter().rposition(|byte| !is_blank(byte)).map_or(0, |at| at + 1));
            bytes.extend_from_slice(line_end);
            rest = after;
            continue;
        }
        rest = match after {
            [a, b, after @ ..] if hex(*a).is_some() && hex(*b).is_some() => {
                bytes.extend(hex(*a).zip(hex(*b)).map(|(a, b)| a << 4 | b));
                after
            }
            _ => {
                // A soft line end may have white space before it.
                let blank = after.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\r')).count();
                match after.get(blank) {
                    Some(b'\n') => &after[blank + 1..],
                    None => &[],
                    Some(_) => {
                        bad = true;
                        bytes.push(b'=');
                        after
                    }
                }
            }
        };
    }
    bytes.extend_from_slice(rest);
    (bytes, bad)
}

/// Bytes as text: by the charset named, else UTF-8, else Windows-1252, which reads anything. A charset of nothing
/// but ASCII says nothing of bytes beyond it, and one that no decoder knows is as good as none.
pub(crate) fn charset_text<'b>(charset: Option<&str>, bytes: &'b [u8]) -> Cow<'b, str> {
    let charset = charset.map(str::trim).filter(|charset| !is_vague(charset));
    if bytes.is_ascii() && !charset.is_some_and(is_ascii_incompatible) {
        return String::from_utf8_lossy(bytes);
    }
    // One byte that is no UTF-8 must not change how all others are read.
    if charset.is_some_and(|charset| charset.eq_ignore_ascii_case("utf-8")) {
        return String::from_utf8_lossy(bytes);
    }
    let decoder = charset.and_then(|charset| charset_decoder(charset.as_bytes()));
    if let Some(decode) = decoder {
        return Cow::Owned(decode(bytes));
    }
    match (std::str::from_utf8(bytes), charset_decoder(b"windows-1252")) {
        (Ok(text), _) => Cow::Borrowed(text),
        (Err(_), Some(decode)) => Cow::Owned(decode(bytes)),
        (Err(_), None) => String::from_utf8_lossy(bytes),
    }
}

/// The charset that a byte order mark names, and the mark's length.
pub(crate) fn byte_order_mark(bytes: &[u8]) -> Option<(&'static str, usize)> {
    match bytes {
        [0xEF, 0xBB, 0xBF, ..] => Some(("utf-8", 3)),
        [0xFF, 0xFE, ..] => Some(("utf-16le", 2)),
        [0xFE, 0xFF, ..] => Some(("utf-16be", 2)),
        _ => None,
    }
}

/// Names that say no more than that the writer did not know, and encodings that the WHATWG standard replaces by
/// a single error character: text in those is better read as if nothing had been said.
fn is_vague(charset: &str) -> bool {
    const VAGUE: [&str; 13] = [
        "",
        "us-ascii",
        "ascii",
        "unknown",
        "unknown-8bit",
        "x-unknown",
        "default",
        "default_charset",
        "_default",
        "hz-gb-2312",
        "iso-2022-kr",
        "iso-2022-cn",
        "replacement",
    ];
    VAGUE.iter().any(|vague| charset.eq_ignore_ascii_case(vague))
}

/// Charsets in which ASCII bytes can mean something else.
fn is_ascii_incompatible(charset: &str) -> bool {
    let charset = charset.as_bytes();
    let starts =
        |prefix: &[u8]| charset.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix));
    starts(b"utf-7") || starts(b"utf-16") || starts(b"iso-2022") || starts(b"utf7") || starts(b"utf_16")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn base64_is_mended() {
        for (encoded, expected, bad) in [
            ("aGVsbG8=", "hello", false),
            ("aGVs\r\nbG8", "hello", false),
            ("aGVs!bG8=", "hello", true),
            ("aGk=aGk=", "hihi", false),
            ("a", "", false),
            ("====", "", false),
        ] {
            assert_eq!(base64(encoded.as_bytes(), 100), (expected.as_bytes().to_vec(), bad), "{encoded:?}");
        }
        assert_eq!(base64(b"aGVsbG8=", 4).0, b"hell");
    }

    #[test]
    fn quoted_printable_is_mended() {
        for (encoded, expected, bad) in [
            ("a=3Db=\r\nc", "a=bc", false),
            ("a  \r\nb\t\nc", "a\r\nb\nc", false),
            ("a= \nb", "ab", false),
            ("50 % == 5=0", "50 % == 5=0", true),
            ("=zz=4", "=zz=4", true),
            ("end=", "end", false),
        ] {
            assert_eq!(
                quoted_printable(encoded.as_bytes()),
                (expected.as_bytes().to_vec(), bad),
                "{encoded:?}"
            );
        }
    }

    #[test]
    fn charsets_are_read() {
        for (charset, bytes, expected) in [
            (Some("koi8-r"), b"\xf0".as_slice(), "\u{41f}"),
            (Some("us-ascii"), b"\xc3\xa9", "\u{e9}"),
            (Some("us-ascii"), b"\xe9", "\u{e9}"),
            (Some("nonesuch"), b"\xe9", "\u{e9}"),
            (Some("hz-gb-2312"), b"hidden \xff", "hidden \u{ff}"),
            (Some("utf-7"), b"+ADw-", "<"),
            (None, b"a", "a"),
        ] {
            assert_eq!(charset_text(charset, bytes), expected, "{charset:?}");
        }
    }

    proptest! {
        #[test]
        fn encodings_are_undone(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let quoted: String = bytes.iter().map(|byte| format!("={byte:02X}")).collect();
            prop_assert_eq!(quoted_printable(quoted.as_bytes()), (bytes.clone(), false));
            let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
            let encoded: String = bytes.chunks(3).flat_map(|group| {
                let bits = group.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
                (0..=group.len()).map(move |i| char::from(alphabet[(bits >> (18 - 6 * i) & 63) as usize]))
            }).collect();
            // Groups of fewer than three bytes only stand at the end, so no padding is needed.
            prop_assert_eq!(base64(encoded.as_bytes(), usize::MAX), (bytes, false));
        }
    }
}
