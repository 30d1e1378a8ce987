//! A way through the words and quoted texts of a log's line.

use std::borrow::Cow;

use memchr::{memchr, memchr2};

use crate::web::request_line::FIELD_BYTES_MAX;

/// A place in the line.
pub(crate) struct LineCursor<'l> {
    pub(crate) line: &'l [u8],
    pub(crate) at: usize,
}

impl<'l> LineCursor<'l> {
    pub(crate) fn rest(&self) -> &'l [u8] {
        self.line.get(self.at..).unwrap_or_default()
    }

    fn skip_spaces(&mut self) {
        self.at += self.rest().iter().take_while(|&&byte| byte == b' ').count();
    }

    pub(crate) fn word(&mut self) -> &'l [u8] {
        self.skip_spaces();
        let rest = self.rest();
        let word = &rest[..memchr(b' ', rest).unwrap_or(rest.len())];
        self.at += word.len();
        word
    }

    /// Reads the text in quotes here. Some servers do not escape quotes inside: one ends the field only if a space or the
    /// line's end follows, and `ends` agrees with what comes after.
    pub(crate) fn quoted(&mut self, ends: impl Fn(&[u8]) -> bool) -> Option<&'l [u8]> {
        self.skip_spaces();
        let inside = self.rest().strip_prefix(b"\"")?;
        let mut from = 0;
        while let Some(found) = memchr2(b'"', b'\\', inside.get(from..)?) {
            let length = from + found;
            from = length + 1;
            if inside[length] == b'\\' {
                // Whatever follows is escaped.
                from += 1;
                continue;
            }
            let after = &inside[length + 1..];
            if (after.is_empty() || after.starts_with(b" ")) && ends(after) {
                self.at += length + 2;
                self.skip_spaces();
                return Some(&inside[..length]);
            }
        }
        None
    }
}

pub(crate) fn is_before_status(after: &[u8]) -> bool {
    let after = after.trim_ascii_start();
    after.is_empty() || after.starts_with(b"- ") || after.first().is_some_and(u8::is_ascii_digit)
}

/// Undoes the escapes of Apache's and nginx's logs.
pub(crate) fn unescape(bytes: &[u8]) -> Cow<'_, [u8]> {
    let bytes = &bytes[..bytes.len().min(FIELD_BYTES_MAX)];
    if memchr(b'\\', bytes).is_none() {
        return Cow::Borrowed(bytes);
    }
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        let hex = |digit: &u8| char::from(*digit).to_digit(16);
        match after {
            [b'x', high, low, after @ ..] if hex(high).is_some() && hex(low).is_some() => {
                let value = hex(high).unwrap_or(0) * 16 + hex(low).unwrap_or(0);
                out.push(value as u8);
                rest = after;
            }
            [c @ (b'"' | b'\\'), after @ ..] => {
                out.push(*c);
                rest = after;
            }
            [c @ (b'n' | b'r' | b't' | b'b' | b'v'), after @ ..] => {
                out.push(match c {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 8,
                    _ => 11,
                });
                rest = after;
            }
            _ => out.push(b'\\'),
        }
    }
    Cow::Owned(out)
}
