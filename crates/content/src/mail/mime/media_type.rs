//! A field of a type with parameters: `Content-Type` and `Content-Disposition` (RFC 2045, RFC 2183), with
//! continued and encoded parameters (RFC 2231) and what programs write instead of them.

use std::borrow::Cow;

use memchr::memchr;

use super::decode::{charset_text, hex};
use super::encoded_word;

/// Most parameters that are kept; a field is of bounded length, so this only bounds the search in them.
const PARAMETERS_MAX: usize = 64;

/// A type and its parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MediaType {
    /// The type before the slash, lower case.
    pub(crate) main: String,
    /// The subtype behind the slash, lower case; empty where there is no slash.
    pub(crate) sub: String,
    parameters: Vec<(String, String)>,
}

/// A parameter as it stands in the field, and its place if it is a piece of one.
struct ParameterPiece<'v> {
    name: String,
    number: usize,
    is_encoded: bool,
    value: Cow<'v, [u8]>,
}

impl MediaType {
    /// Reads a field's value. Nothing is refused: what cannot be read is not there.
    pub(crate) fn parse(value: &[u8]) -> MediaType {
        let end = memchr(b';', value).unwrap_or(value.len());
        let (kind, mut rest) = value.split_at(end);
        // `text/plain charset=x`: a parameter without the semicolon before it.
        let kind = kind.trim_ascii();
        let word = memchr(b'=', kind)
            .and_then(|at| kind[..at].trim_ascii_end().iter().rposition(u8::is_ascii_whitespace));
        let (kind, mut behind) = kind.split_at(word.unwrap_or(kind.len()));
        let kind = without_comments(kind);
        let is_shown = |c: &char| !c.is_whitespace() && *c != '"';
        let kind: String = String::from_utf8_lossy(&kind).chars().filter(is_shown).collect();
        let kind = kind.to_ascii_lowercase();
        let (main, sub) = kind.split_once('/').unwrap_or((&kind, ""));

        let mut plain = Vec::new();
        let mut pieces = Vec::new();
        while !behind.is_empty() && plain.len() + pieces.len() < PARAMETERS_MAX {
            behind = parameter(behind, &mut plain, &mut pieces);
        }
        while !rest.is_empty() && plain.len() + pieces.len() < PARAMETERS_MAX {
            rest = parameter(rest, &mut plain, &mut pieces);
        }
        // What RFC 2231 encodes goes before what older readers were given beside it.
        let mut parameters = together(pieces);
        parameters.extend(plain);
        MediaType { main: main.to_owned(), sub: sub.to_owned(), parameters }
    }

    /// The value of a parameter.
    pub(crate) fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// The value without its comments, which nest.
fn without_comments(value: &[u8]) -> Cow<'_, [u8]> {
    if memchr(b'(', value).is_none() {
        return Cow::Borrowed(value);
    }
    let mut depth = 0usize;
    let outside = |byte: &u8| {
        let inside = depth > 0;
        match byte {
            b'(' => depth += 1,
            b')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        !inside && depth == 0
    };
    Cow::Owned(value.iter().copied().filter(outside).collect())
}

/// Reads one parameter and returns what follows it.
fn parameter<'v>(
    value: &'v [u8],
    plain: &mut Vec<(String, String)>,
    pieces: &mut Vec<ParameterPiece<'v>>,
) -> &'v [u8] {
    let skipped = value.iter().take_while(|byte| byte.is_ascii_whitespace() || **byte == b';').count();
    let value = &value[skipped..];
    let Some(end) = value.iter().position(|byte| matches!(byte, b'=' | b';')) else { return &[] };
    let (name, after) = value.split_at(end);
    let Some(after) = after.strip_prefix(b"=") else { return after };
    let name: String = String::from_utf8_lossy(&without_comments(name)).trim().to_ascii_lowercase();
    let after = after.trim_ascii_start();
    let is_name = name.starts_with("name") || name.starts_with("filename");

    let (content, rest) = match after.strip_prefix(b"\"") {
        Some(quoted) => quoted_string(quoted),
        None => {
            let end = memchr(b';', after).unwrap_or(after.len());
            let (token, rest) = after.split_at(end);
            // File names are written bare with spaces and brackets in them; other values never have any.
            let (token, rest) = if is_name {
                match memchr(b'\n', token).filter(|&at| token[at..].contains(&b'=')) {
                    Some(at) => (token[..at].trim_ascii(), &after[at..]),
                    None => (token.trim_ascii(), rest),
                }
            } else {
                let token = token[..memchr(b'(', token).unwrap_or(token.len())].trim_ascii_end();
                match token.iter().position(|byte| byte.is_ascii_whitespace()) {
                    Some(at) if token[at..].contains(&b'=') => (&token[..at], &after[at..]),
                    Some(at) => (&token[..at], rest),
                    None => (token, rest),
                }
            };
            (Cow::Borrowed(token), rest)
        }
    };
    let mut parts = name.splitn(3, '*');
    let base = parts.next().unwrap_or_default().trim().to_owned();
    match (parts.next(), parts.next()) {
        (None, _) => {
            let text = if memchr::memmem::find(&content, b"=?").is_some() {
                encoded_word::decode(&content)
            } else {
                charset_text(None, &content).replace(['\r', '\n'], "")
            };
            plain.push((base, text));
        }
        (Some(number), more) => {
            let is_encoded = number.is_empty() || more.is_some();
            let number = number.trim().parse().unwrap_or(0);
            pieces.push(ParameterPiece { name: base, number, is_encoded, value: content });
        }
    }
    rest
}

/// The content of a quoted string whose opening quote was taken off, and what follows it.
fn quoted_string(value: &[u8]) -> (Cow<'_, [u8]>, &[u8]) {
    let mut at = 0;
    let mut escaped = false;
    while let Some(&byte) = value.get(at) {
        match byte {
            b'\\' => {
                escaped = true;
                at += 1;
            }
            b'"' => break,
            _ => {}
        }
        at += 1;
    }
    let at = at.min(value.len());
    let rest = value.get(at + 1..).unwrap_or_default();
    let content = &value[..at];
    if !escaped {
        return (Cow::Borrowed(content), rest);
    }
    let mut plain = Vec::with_capacity(content.len());
    let mut bytes = content.iter();
    while let Some(&byte) = bytes.next() {
        // `C:\dir` is not an escape: only quotes and backslashes need one.
        match (byte, bytes.as_slice().first()) {
            (b'\\', Some(b'"' | b'\'' | b'\\')) => plain.extend(bytes.next()),
            _ => plain.push(byte),
        }
    }
    (Cow::Owned(plain), rest)
}

/// Puts the pieces of parameters together: bytes first, then text, as a character may be cut between two.
fn together(mut pieces: Vec<ParameterPiece<'_>>) -> Vec<(String, String)> {
    pieces.sort_by(|a, b| (&a.name, a.number).cmp(&(&b.name, b.number)));
    let mut parameters = Vec::new();
    for of_one in pieces.chunk_by(|a, b| a.name == b.name) {
        let mut charset = None;
        let mut bytes = Vec::new();
        let mut last = None;
        for piece in of_one {
            if last.replace(piece.number) == Some(piece.number) {
                continue;
            }
            let mut value: &[u8] = &piece.value;
            if !piece.is_encoded {
                bytes.extend_from_slice(value);
                continue;
            }
            if bytes.is_empty() && charset.is_none() {
                let mut parts = value.splitn(3, |&byte| byte == b'\'');
                if let (Some(name), Some(_), Some(text)) = (parts.next(), parts.next(), parts.next()) {
                    charset = Some(String::from_utf8_lossy(name).into_owned());
                    value = text;
                }
            } else if let Some(charset) = &charset
                && let Some(behind) = value.strip_prefix(charset.as_bytes())
            {
                // Some programs write the charset once more before each piece.
                value = behind.strip_prefix(b"'").unwrap_or(value);
            }
            percent(value, &mut bytes);
        }
        let charset = charset.filter(|charset| !charset.is_empty());
        let text = charset_text(charset.as_deref(), &bytes).into_owned();
        parameters.push((of_one[0].name.clone(), text));
    }
    parameters
}

fn percent(value: &[u8], out: &mut Vec<u8>) {
    let mut rest = value;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if let (b'%', [a, b, after @ ..]) = (byte, after)
            && let (Some(a), Some(b)) = (hex(*a), hex(*b))
        {
            out.push(a << 4 | b);
            rest = after;
        } else {
            out.push(byte);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(value: &str, kind: &str, parameters: &[(&str, &str)]) {
        let read = MediaType::parse(value.as_bytes());
        let slash = if read.sub.is_empty() { "" } else { "/" };
        assert_eq!(format!("{}{slash}{}", read.main, read.sub), kind, "{value:?}");
        for (name, expected) in parameters {
            assert_eq!(read.parameter(name), Some(*expected), "{name} of {value:?}");
        }
        assert_eq!(read.parameters.len(), parameters.len(), "{value:?}: {read:?}");
    }

    #[test]
    fn types_and_parameters_are_read() {
        check("Text / HTML ; Charset = \"UTF-8\"\r\n", "text/html", &[("charset", "UTF-8")]);
        check(
            "text/plain; charset=us-ascii (Plain text); x=y",
            "text/plain",
            &[("charset", "us-ascii"), ("x", "y")],
        );
        check("text/plain charset=utf-8", "text/plain", &[("charset", "utf-8")]);
        check(
            "multipart/mixed; boundary=\"a;\\\"b\" type=x",
            "multipart/mixed",
            &[("boundary", "a;\"b"), ("type", "x")],
        );
        check("a/b; boundary=a charset=c", "a/b", &[("boundary", "a"), ("charset", "c")]);
        check("attachment; filename=my report (1).pdf", "attachment", &[("filename", "my report (1).pdf")]);
        check("attachment; filename=\"C:\\dir\\a.exe\"", "attachment", &[("filename", "C:\\dir\\a.exe")]);
        check("attachment; filename=\"=?utf-8?q?=C3=A9?=.pdf\"", "attachment", &[("filename", "\u{e9}.pdf")]);
        check("a/b; name=\"not closed", "a/b", &[("name", "not closed")]);
        check("", "", &[]);
        check(";;;=;", "", &[("", "")]);
    }

    #[test]
    fn pieces_come_together() {
        check(
            "a/b; title*0*=us-ascii'en'This%20is; title*1*=%20a%20; title*2=\"last\"",
            "a/b",
            &[("title", "This is a last")],
        );
        check("a/b; n*1=b; n*0=a; n*1=c", "a/b", &[("n", "ab")]);
        check(
            "a/b; filename*=utf-8''%E2%82%AC.exe; filename=old.txt",
            "a/b",
            &[("filename", "\u{20ac}.exe"), ("filename", "\u{20ac}.exe")],
        );
        check("a/b; n*0*=utf-8''%E2%82; n*1*=%AC", "a/b", &[("n", "\u{20ac}")]);
        check("a/b; n*0*=iso-8859-1''%E9; n*1*=%E8", "a/b", &[("n", "\u{e9}\u{e8}")]);
    }
}
