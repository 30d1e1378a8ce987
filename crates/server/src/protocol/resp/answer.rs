//! Answers in RESP2 and RESP3, appended to what is still to be written.

use serde_json::Value;

/// Answers that are not written yet.
#[derive(Debug, Default)]
pub(super) struct ReplyBuffer {
    bytes: Vec<u8>,
    /// True if the client speaks RESP3, which has maps, booleans, floats and a null of their own.
    pub(super) resp3: bool,
}

impl ReplyBuffer {
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Removes the written answers. Room above this is given back.
    pub(super) fn clear(&mut self) {
        const KEPT_BYTES_MAX: usize = 128 << 10;
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES_MAX);
    }

    /// `+OK`.
    pub(super) fn ok(&mut self) {
        self.simple("OK");
    }

    /// A word of ours.
    pub(super) fn simple(&mut self, text: &str) {
        self.bytes.push(b'+');
        self.bytes.extend_from_slice(text.as_bytes());
        self.end();
    }

    /// An error: a word in upper case, a blank, and what is wrong. What it quotes may not end the line.
    pub(super) fn error(&mut self, text: &str) {
        self.bytes.push(b'-');
        self.bytes.extend(text.bytes().map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { byte }));
        self.end();
    }

    pub(super) fn integer(&mut self, number: i64) {
        self.head(b':', number);
    }

    pub(super) fn bulk(&mut self, bytes: &[u8]) {
        self.length(b'$', bytes.len());
        self.bytes.extend_from_slice(bytes);
        self.end();
    }

    pub(super) fn null(&mut self) {
        self.bytes.extend_from_slice(if self.resp3 { b"_\r\n" } else { b"$-1\r\n" });
    }

    /// No array, as RESP2 says it.
    pub(super) fn null_array(&mut self) {
        self.bytes.extend_from_slice(b"*-1\r\n");
    }

    /// The error for a second word that is not known.
    pub(super) fn unknown_subcommand(&mut self, word: &[u8], known: &str) {
        self.error(&format!("ERR unknown subcommand '{}'. Try {known}.", quoted(word)));
    }

    /// The head of an array; its items are to follow.
    pub(super) fn array(&mut self, items: usize) {
        self.length(b'*', items);
    }

    /// The head of a map; its pairs are to follow. RESP2 has them as an array.
    pub(super) fn map(&mut self, pairs: usize) {
        if self.resp3 { self.length(b'%', pairs) } else { self.length(b'*', 2 * pairs) }
    }

    /// Text for people, of several lines.
    pub(super) fn text(&mut self, text: &str) {
        if !self.resp3 {
            return self.bulk(text.as_bytes());
        }
        self.length(b'=', text.len() + 4);
        self.bytes.extend_from_slice(b"txt:");
        self.bytes.extend_from_slice(text.as_bytes());
        self.end();
    }

    /// Writes what HTTP answers as JSON: objects as maps, and all else as what comes closest. RESP2 has booleans as 0 and 1,
    /// and floats as text. As deep as the value, which is one of ours.
    pub(super) fn value(&mut self, value: &Value) {
        match value {
            Value::Null => self.null(),
            Value::Bool(truth) if self.resp3 => {
                self.bytes.extend_from_slice(if *truth { b"#t\r\n" } else { b"#f\r\n" });
            }
            Value::Bool(truth) => self.integer(i64::from(*truth)),
            Value::Number(number) => match number.as_i64() {
                Some(number) => self.integer(number),
                None if self.resp3 && number.is_f64() => {
                    self.bytes.push(b',');
                    self.bytes.extend_from_slice(number.to_string().as_bytes());
                    self.end();
                }
                None => self.bulk(number.to_string().as_bytes()),
            },
            Value::String(text) => self.bulk(text.as_bytes()),
            Value::Array(items) => {
                self.array(items.len());
                for item in items {
                    self.value(item);
                }
            }
            Value::Object(members) => {
                self.map(members.len());
                for (name, member) in members {
                    self.bulk(name.as_bytes());
                    self.value(member);
                }
            }
        }
    }

    fn length(&mut self, sign: u8, length: usize) {
        self.head(sign, i64::try_from(length).unwrap_or(i64::MAX));
    }

    /// A sign, a number and the line's end. Most of an answer are such lines, so each is written in its place: bytes of a
    /// known number are cheap to append, and what is too much is cut off. (Put together elsewhere, byte by byte, they could
    /// not be copied before all of them have arrived in memory.)
    fn head(&mut self, sign: u8, number: i64) {
        const BYTES: usize = 24;
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[sign; BYTES]);
        let line = &mut self.bytes[start..];
        let mut rest = number.unsigned_abs();
        let digits = rest.checked_ilog10().map_or(1, |digits| digits as usize + 1);
        let (mut at, mut end) = (1, 1 + digits);
        if number < 0 {
            line[1] = b'-';
            (at, end) = (at + 1, end + 1);
        }
        for digit in line[at..end].iter_mut().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        line[end..end + 2].copy_from_slice(b"\r\n");
        self.bytes.truncate(start + end + 2);
    }

    fn end(&mut self) {
        self.bytes.extend_from_slice(b"\r\n");
    }
}

/// A word of a client as an error shows it: the beginning, without what is no plain text.
pub(super) fn quoted(word: &[u8]) -> String {
    const BYTES_MAX: usize = 64;
    let cut = &word[..word.len().min(BYTES_MAX)];
    String::from_utf8_lossy(cut).chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(resp3: bool, write: impl Fn(&mut ReplyBuffer), expected: &str) {
        let mut answers = ReplyBuffer { resp3, ..ReplyBuffer::default() };
        write(&mut answers);
        assert_eq!(String::from_utf8_lossy(answers.bytes()), expected);
    }

    #[test]
    fn both_versions_are_written() {
        for (number, text) in [
            (0, ":0\r\n"),
            (-1, ":-1\r\n"),
            (1234567890, ":1234567890\r\n"),
            (i64::MIN, ":-9223372036854775808\r\n"),
        ] {
            check(false, |answers| answers.integer(number), text);
        }
        check(false, |answers| answers.error("ERR unknown 'a\r\nb'"), "-ERR unknown 'a  b'\r\n");
        check(false, |answers| answers.bulk(b"a\r\n"), "$3\r\na\r\n\r\n");
        let value = json!({"a": [1, null, true], "b": 0.5, "c": "x", "d": 18446744073709551615u64});
        check(
            false,
            |answers| answers.value(&value),
            "*8\r\n$1\r\na\r\n*3\r\n:1\r\n$-1\r\n:1\r\n$1\r\nb\r\n$3\r\n0.5\r\n$1\r\nc\r\n$1\r\nx\r\n$1\r\nd\r\n$20\r\n18446744073709551615\r\n",
        );
        check(
            true,
            |answers| answers.value(&value),
            "%4\r\n$1\r\na\r\n*3\r\n:1\r\n_\r\n#t\r\n$1\r\nb\r\n,0.5\r\n$1\r\nc\r\n$1\r\nx\r\n$1\r\nd\r\n$20\r\n18446744073709551615\r\n",
        );
        check(true, |answers| answers.text("a\n"), "=6\r\ntxt:a\n\r\n");
    }
}
