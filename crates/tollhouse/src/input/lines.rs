//! Lines of events, streamed: a line that is too long is reported and passed over, whatever its length.

use std::io::{self, BufRead, Read};

use content::json::JSON_BYTES_MAX;

/// One line, or what is wrong with it.
pub(crate) enum InputLine {
    /// Its bytes, without the line end.
    Bytes(Vec<u8>),
    /// The line is longer than any event may be.
    TooLong,
}

/// Reads numbered lines, from 1; empty ones are left out.
pub(crate) struct InputLineIter<R> {
    reader: R,
    number: u64,
    failed: bool,
    /// True if blanks and empty lines mean something.
    has_blanks: bool,
}

impl<R: BufRead> InputLineIter<R> {
    /// The lines of a stream.
    pub(crate) fn new(reader: R) -> InputLineIter<R> {
        InputLineIter { reader, number: 0, failed: false, has_blanks: false }
    }

    /// Returns the lines with their blanks, the empty ones among them.
    pub(crate) fn with_blanks(self) -> InputLineIter<R> {
        InputLineIter { has_blanks: true, ..self }
    }

    fn read(&mut self) -> io::Result<Option<(u64, InputLine)>> {
        loop {
            let mut bytes = Vec::new();
            let length =
                self.reader.by_ref().take(JSON_BYTES_MAX as u64 + 1).read_until(b'\n', &mut bytes)?;
            if length == 0 {
                return Ok(None);
            }
            self.number += 1;
            if length > JSON_BYTES_MAX && !bytes.ends_with(b"\n") {
                self.reader.skip_until(b'\n')?;
                return Ok(Some((self.number, InputLine::TooLong)));
            }
            let blanks =
                if self.has_blanks { bytes.strip_suffix(b"\n") } else { Some(bytes.trim_ascii_end()) };
            let end = blanks.unwrap_or(&bytes).len();
            bytes.truncate(end);
            if self.has_blanks || !bytes.is_empty() {
                return Ok(Some((self.number, InputLine::Bytes(bytes))));
            }
        }
    }
}

impl<R: BufRead> Iterator for InputLineIter<R> {
    type Item = io::Result<(u64, InputLine)>;

    fn next(&mut self) -> Option<io::Result<(u64, InputLine)>> {
        if self.failed {
            return None;
        }
        let read = self.read().transpose();
        self.failed = matches!(read, Some(Err(_)));
        read
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_numbered_and_bounded() {
        let mut text = b"{}\r\n\n  \n".to_vec();
        text.resize(text.len() + JSON_BYTES_MAX + 10, b'x');
        text.extend_from_slice(b"\nlast");
        let read: Vec<(u64, String)> = InputLineIter::new(text.as_slice())
            .map(|line| match line.unwrap() {
                (number, InputLine::Bytes(bytes)) => (number, String::from_utf8(bytes).unwrap()),
                (number, InputLine::TooLong) => (number, "too long".to_owned()),
            })
            .collect();
        let expected = [(1, "{}"), (4, "too long"), (5, "last")];
        assert_eq!(read, expected.map(|(number, text)| (number, text.to_owned())));
        let whole = InputLineIter::new(b" a \n\n\r\nlast".as_slice()).with_blanks();
        let whole = whole.map(|line| match line.unwrap() {
            (_, InputLine::Bytes(bytes)) => bytes,
            (_, InputLine::TooLong) => Vec::new(),
        });
        assert_eq!(whole.collect::<Vec<_>>(), [b" a ".as_slice(), b"", b"\r", b"last"]);
    }
}
