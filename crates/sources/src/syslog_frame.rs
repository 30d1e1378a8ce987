//! Messages of syslog in a stream of bytes (RFC 6587): lines, or messages with their length in front, as each of them begins.
//!
//! ```text
//! <34>Oct 11 22:14:15 host su: text LF          up to the end of the line, or a NUL
//! 45 <34>Oct 11 22:14:15 host su: text          as many octets as the number says
//! ```

use crate::LINE_BYTES_MAX;

/// Most digits of a length.
const DIGITS_MAX: usize = 9;

/// The rest of a message that is passed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PassedRest {
    None,
    ToLineEnd,
    Octets(usize),
}

/// The kind of message that a buffer begins with.
enum FrameStart {
    /// A line.
    Line,
    /// Digits of a length, and the octets that it counts.
    Counted(usize, usize),
    /// Too few bytes to know.
    Unknown,
}

/// A stream of bytes that is cut into messages.
#[derive(Debug)]
pub struct SyslogFrames {
    buffer: Vec<u8>,
    at: usize,
    /// Bytes behind `at` in which no line ends, as was found before.
    searched: usize,
    passed: PassedRest,
    cut: u64,
}

impl Default for SyslogFrames {
    fn default() -> SyslogFrames {
        SyslogFrames { buffer: Vec::new(), at: 0, searched: 0, passed: PassedRest::None, cut: 0 }
    }
}

impl SyslogFrames {
    /// Adds bytes that came. All messages are to be taken before more are added, so that no more than one of them and these
    /// bytes are held.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.at);
        self.at = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the number of messages that were cut, as they were longer than any line may be.
    pub fn cut(&self) -> u64 {
        self.cut
    }

    /// The next whole message, without its frame. Of one that is too long the beginning.
    pub fn next_message(&mut self) -> Option<Vec<u8>> {
        loop {
            self.pass();
            if self.passed != PassedRest::None {
                return None;
            }
            let rest = &self.buffer[self.at..];
            let (message, taken) = match start(rest) {
                FrameStart::Unknown => return None,
                FrameStart::Counted(digits, octets) if octets > LINE_BYTES_MAX => {
                    let there = rest.len() - digits;
                    if there < LINE_BYTES_MAX {
                        return None;
                    }
                    let message = rest[digits..digits + LINE_BYTES_MAX].to_vec();
                    self.passed = PassedRest::Octets(octets - LINE_BYTES_MAX);
                    self.cut += 1;
                    (message, digits + LINE_BYTES_MAX)
                }
                FrameStart::Counted(digits, octets) => {
                    (rest.get(digits..digits + octets)?.to_vec(), digits + octets)
                }
                FrameStart::Line => {
                    let searched = &rest[..rest.len().min(LINE_BYTES_MAX + 1)];
                    let known = self.searched.min(searched.len());
                    let end = searched[known..].iter().position(|byte| matches!(byte, b'\n' | 0));
                    self.searched = searched.len();
                    match end.map(|end| known + end) {
                        Some(end) => (rest[..end].to_vec(), end + 1),
                        None if rest.len() > LINE_BYTES_MAX => {
                            self.passed = PassedRest::ToLineEnd;
                            self.cut += 1;
                            (rest[..LINE_BYTES_MAX].to_vec(), LINE_BYTES_MAX)
                        }
                        None => return None,
                    }
                }
            };
            self.at += taken;
            self.searched = 0;
            let message = message.trim_ascii_end();
            if !message.is_empty() {
                return Some(message.to_vec());
            }
        }
    }

    /// The line that the stream ended in.
    pub fn last_message(&mut self) -> Option<Vec<u8>> {
        let rest = self.buffer.split_off(self.at.min(self.buffer.len()));
        (self.buffer, self.at, self.searched) = (Vec::new(), 0, 0);
        let is_line = self.passed == PassedRest::None && matches!(start(&rest), FrameStart::Line);
        let message = rest.trim_ascii_end();
        (is_line && !message.is_empty()).then(|| message.to_vec())
    }

    /// Passes over the rest of a message that was cut.
    fn pass(&mut self) {
        let rest = &self.buffer[self.at..];
        match self.passed {
            PassedRest::None => {}
            PassedRest::ToLineEnd => match rest.iter().position(|byte| matches!(byte, b'\n' | 0)) {
                Some(end) => (self.at, self.passed) = (self.at + end + 1, PassedRest::None),
                None => self.at = self.buffer.len(),
            },
            PassedRest::Octets(left) => {
                let passed = left.min(rest.len());
                self.at += passed;
                self.passed =
                    if passed == left { PassedRest::None } else { PassedRest::Octets(left - passed) };
            }
        }
    }
}

/// Returns how the next message begins: a length is followed by a blank and a priority.
fn start(bytes: &[u8]) -> FrameStart {
    let digits = bytes.iter().take(DIGITS_MAX + 1).take_while(|byte| byte.is_ascii_digit()).count();
    if digits == 0 || digits > DIGITS_MAX || bytes[0] == b'0' {
        return if bytes.is_empty() { FrameStart::Unknown } else { FrameStart::Line };
    }
    match (bytes.get(digits), bytes.get(digits + 1)) {
        (None, _) | (Some(b' '), None) => FrameStart::Unknown,
        (Some(b' '), Some(b'<')) => {
            let length = bytes[..digits].iter().fold(0, |sum, byte| sum * 10 + usize::from(byte - b'0'));
            FrameStart::Counted(digits + 1, length)
        }
        _ => FrameStart::Line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The messages of a stream that comes in pieces of this many bytes.
    fn messages(stream: &[u8], piece: usize) -> Vec<String> {
        let (mut frames, mut found) = (SyslogFrames::default(), Vec::new());
        for bytes in stream.chunks(piece) {
            frames.push(bytes);
            while let Some(message) = frames.next_message() {
                found.push(message);
            }
            assert!(frames.buffer.len() - frames.at <= LINE_BYTES_MAX + DIGITS_MAX + 1 + piece);
        }
        found.extend(frames.last_message());
        let shown = |message: Vec<u8>| match message.len() {
            0..100 => String::from_utf8_lossy(&message).into_owned(),
            length => format!("{length}"),
        };
        found.into_iter().map(shown).collect()
    }

    #[test]
    fn lines_and_counted_octets() {
        let long = "x".repeat(LINE_BYTES_MAX + 5);
        let check = |stream: &str, expected: &[&str]| {
            for piece in [1, 2, 7, 1000, 1 << 20].into_iter().filter(|piece| stream.len() / piece < 10_000) {
                assert_eq!(messages(stream.as_bytes(), piece), expected, "{piece} {stream:.99}");
            }
        };
        check("<1>a\n<2>b\r\n\n<3>c", &["<1>a", "<2>b", "<3>c"]);
        check("<1>a\0<2>b\0", &["<1>a", "<2>b"]);
        check("4 <1>a5 <2>b\n6 <3>c\nd<4>e\n", &["<1>a", "<2>b", "<3>c\nd", "<4>e"]);
        check("12 monkeys\n0 <1>\n1234567890 <1>a\n", &["12 monkeys", "0 <1>", "1234567890 <1>a"]);
        check("9 <1>a", &[]);
        check("12", &[]);
        check(&format!("{long}\n<1>a\n"), &["65536", "<1>a"]);
        check(&format!("65542 <1>{long}", long = &long[2..]), &["65536"]);
        check(&format!("65540 <{long}<1>a\n", long = &long[6..]), &["65536"]);
        check("", &[]);
    }

    #[test]
    fn any_bytes_are_survived() {
        let mut state = 7u32;
        let mut bytes = Vec::new();
        for _ in 0..20_000 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            bytes.push(b"<1> 09\n\0ab"[(state >> 24) as usize % 10]);
        }
        assert!(!messages(&bytes, 333).is_empty());
    }
}
