//! Encoded words of header fields (RFC 2047), read as mail programs read them rather than as they should be.
//!
//! Adjacent words of one charset are joined before their bytes become text: many programs cut a word within a
//! multi-byte character, which the RFC forbids and every reader puts together again.

use std::borrow::Cow;

use memchr::memmem;

use super::decode::{base64, charset_text, hex};

/// A run of encoded words with nothing but white space between them.
struct EncodedWordRun {
    start: usize,
    end: usize,
    text: String,
}

/// The runs in a value. One pass: what has no end is found not to have one once.
fn runs(value: &[u8]) -> Vec<EncodedWordRun> {
    let mut runs: Vec<EncodedWordRun> = Vec::new();
    // The bytes of the words before that are not text yet, with their charset.
    let mut open: Option<(String, Vec<u8>)> = None;
    let mut read_to = 0;
    let Some(last_end) = memmem::rfind(value, b"?=") else { return runs };
    for start in memmem::find_iter(value, b"=?").take_while(|start| *start < last_end) {
        if start < read_to {
            continue;
        }
        let Some(word) = EncodedWord::read(value, start) else { continue };
        let adjacent = runs.last().is_some_and(|run| value[run.end..start].trim_ascii().is_empty());
        if let (Some(run), Some((charset, bytes))) = (runs.last_mut(), &mut open)
            && adjacent
        {
            if !charset.eq_ignore_ascii_case(&word.charset) {
                run.text.push_str(&charset_text(Some(charset), bytes));
                bytes.clear();
                charset.clone_from(&word.charset);
            }
            bytes.extend_from_slice(&word.bytes);
            run.end = word.end;
        } else {
            close(&mut runs, open.take());
            runs.push(EncodedWordRun { start, end: word.end, text: String::new() });
            open = Some((word.charset, word.bytes));
        }
        read_to = word.end;
    }
    close(&mut runs, open);
    runs
}

fn close(runs: &mut [EncodedWordRun], open: Option<(String, Vec<u8>)>) {
    if let (Some(run), Some((charset, bytes))) = (runs.last_mut(), open) {
        run.text.push_str(&charset_text(Some(&charset), &bytes));
    }
}

struct EncodedWord {
    charset: String,
    bytes: Vec<u8>,
    end: usize,
}

impl EncodedWord {
    /// Longest charset name.
    const CHARSET_BYTES_MAX: usize = 64;

    /// Reads `=?charset?encoding?text?=` at `start`; a language behind the charset (RFC 2231, 5) is dropped.
    fn read(value: &[u8], start: usize) -> Option<EncodedWord> {
        let rest = &value[start + 2..];
        let name = &rest[..rest.len().min(Self::CHARSET_BYTES_MAX)];
        let name = &name[..memchr::memchr(b'?', name)?];
        if name.is_empty() || !name.iter().all(u8::is_ascii_graphic) {
            return None;
        }
        let charset = name.split(|&byte| byte == b'*').next().unwrap_or_default();
        let rest = &rest[name.len() + 1..];
        let (encoding, rest) = rest.split_first()?;
        let text = rest.strip_prefix(b"?")?;
        let length = memmem::find(text, b"?=")?;
        let encoded = &text[..length];
        let bytes = match encoding.to_ascii_lowercase() {
            b'q' => quoted(encoded),
            b'b' => base64(encoded, usize::MAX).0,
            _ => return None,
        };
        let end = value.len() - text.len() + length + 2;
        Some(EncodedWord { charset: String::from_utf8_lossy(charset).into_owned(), bytes, end })
    }
}

/// The "Q" encoding; what is no pair of hexadecimal digits stands for itself.
fn quoted(encoded: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(encoded.len());
    let mut rest = encoded;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match (byte, after) {
            // A word that was folded within.
            (b'\r' | b'\n', _) => rest = after.trim_ascii_start(),
            (b'_', _) => bytes.push(b' '),
            (b'=', [a, b, after @ ..]) => match (hex(*a), hex(*b)) {
                (Some(a), Some(b)) => {
                    bytes.push(a << 4 | b);
                    rest = after;
                }
                _ => bytes.push(byte),
            },
            _ => bytes.push(byte),
        }
    }
    bytes
}

/// An unstructured value: encoded words decoded, folding undone, trimmed.
pub(crate) fn decode(value: &[u8]) -> String {
    let mut out = String::with_capacity(value.len());
    let mut at = 0;
    for run in runs(value) {
        unfold(&value[at..run.start], &mut out);
        out.extend(run.text.chars().map(|c| if c.is_control() { ' ' } else { c }));
        at = run.end;
    }
    unfold(&value[at..], &mut out);
    let trimmed = out.trim();
    if trimmed.len() == out.len() { out } else { trimmed.to_owned() }
}

/// Appends text whose line ends, and the white space around them, are one space.
fn unfold(value: &[u8], out: &mut String) {
    let text = charset_text(None, value);
    let mut lines = text.split(['\r', '\n']).filter(|line| !line.is_empty()).peekable();
    let mut first = true;
    while let Some(line) = lines.next() {
        let begins = if std::mem::take(&mut first) { line } else { line.trim_start() };
        let line = if lines.peek().is_some() { begins.trim_end() } else { begins };
        out.push_str(line);
        if lines.peek().is_some() && !out.ends_with(' ') {
            out.push(' ');
        }
    }
}

/// The value of a structured field in which each run of encoded words is one word in UTF-8, so that a parser
/// that reads word by word reads it rightly.
pub(crate) fn join(value: &[u8]) -> Cow<'_, [u8]> {
    if memmem::find(value, b"=?").is_none() {
        return Cow::Borrowed(value);
    }
    let mut out = Vec::with_capacity(value.len());
    let mut at = 0;
    for run in runs(value) {
        out.extend_from_slice(&value[at..run.start]);
        out.extend_from_slice(b"=?utf-8?Q?");
        for byte in run.text.bytes() {
            if byte.is_ascii_alphanumeric() {
                out.push(byte);
            } else {
                const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
                let (high, low) = (usize::from(byte >> 4), usize::from(byte & 15));
                out.extend_from_slice(&[b'=', DIGITS[high], DIGITS[low]]);
            }
        }
        out.extend_from_slice(b"?=");
        at = run.end;
    }
    out.extend_from_slice(&value[at..]);
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_become_text() {
        for (value, expected) in [
            ("plain  text", "plain  text"),
            (" a\r\n\tb \r\n c\r\n", "a b c"),
            ("=?utf-8?q?h=C3=A9?=\n llo", "h\u{e9} llo"),
            ("=?utf-8?q?a?= =?utf-8?b?Yg==?=\r\n =?utf-8?q?c?=", "abc"),
            ("=?utf-8?q?=C3?= =?UTF-8?q?=A9?=", "\u{e9}"),
            ("=?utf-8?b?4oI=?= =?utf-8?b?rA==?=", "\u{20ac}"),
            ("=?iso-8859-1?q?=E9?= =?koi8-r?q?=F0?=", "\u{e9}\u{41f}"),
            ("=?us-ascii*en?q?a_b?= c", "a b c"),
            ("=?utf-8?q?with space?=", "with space"),
            ("=?utf-8?q?bad=zz?=", "bad=zz"),
            ("=?nonesuch?q?=C3=A9?=", "\u{e9}"),
            ("=?utf-8?x?a?= =?utf-8?q?b", "=?utf-8?x?a?= =?utf-8?q?b"),
            ("=?utf-8?q?a=0D=0Ab?=", "a  b"),
            ("caf\u{e9}", "caf\u{e9}"),
        ] {
            assert_eq!(decode(value.as_bytes()), expected, "{value:?}");
        }
        assert_eq!(decode(b"caf\xe9"), "caf\u{e9}");
    }

    #[test]
    fn runs_are_joined() {
        assert_eq!(
            join(b"=?utf-8?b?4oI=?= =?utf-8?b?rA==?= <a@b>").as_ref(),
            b"=?utf-8?Q?=E2=82=AC?= <a@b>".as_slice()
        );
        assert_eq!(join(b"a <a@b>").as_ref(), b"a <a@b>");
    }
}
