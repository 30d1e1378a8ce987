//! Heads of requests in the form that SpamAssassin's spamd began and Rspamd's old protocol kept: one line with a
//! command and the protocol's name and version, header lines, an empty line. The message follows.
//!
//! ```text
//! CHECK SPAMC/1.5            CHECK RSPAMC/1.3
//! User: joe                  From: <a@example.org>
//! Content-length: 2816       Content-length: 584
//! ```
//!
//! Bytes are given as they came so far, from the beginning; nothing is kept between two calls. Lines end with LF or CR LF.
//! (Source: `spamd/PROTOCOL` of SpamAssassin.)

/// Bytes of a request's line.
pub const LINE_BYTES_MAX: usize = 1024;
/// Bytes of all header lines: room for a thousand recipients.
pub const HEADERS_BYTES_MAX: usize = 128 << 10;
/// Header lines.
pub const HEADERS_MAX: usize = 2048;

/// The line that a request begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestLine {
    /// The command that is asked for, in capitals: `CHECK`.
    pub command: String,
    /// The protocol's name, in capitals: `SPAMC`.
    pub protocol: String,
    /// The protocol's version.
    pub version: (u16, u16),
}

/// The header lines of a request, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeaderLines(Vec<(String, String)>);

/// The result of reading: what was read, and how many bytes it takes; `None` while it is not whole.
pub type HeadResult<T> = Result<Option<(T, usize)>, HeadError>;

/// Reasons to refuse a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeadError {
    /// Longer than [`LINE_BYTES_MAX`].
    #[error("the request line is too long")]
    LongLine,
    /// No command, or no protocol with a version.
    #[error("the request line is not of the form `COMMAND PROTOCOL/1.5`")]
    Line,
    /// More than [`HEADERS_BYTES_MAX`] or [`HEADERS_MAX`].
    #[error("there are too many header lines")]
    TooMany,
    /// A line without a colon, or with control characters.
    #[error("a header line is not of the form `Name: value`")]
    Header,
    /// Not a number, or two that differ.
    #[error("Content-length is not one number")]
    Length,
}

/// Reads the first line; `None` until it is whole. With it comes the number of bytes that it takes, its end included.
///
/// # Errors
/// If it is too long, or none of a request.
pub fn line(bytes: &[u8]) -> HeadResult<RequestLine> {
    let seen = &bytes[..bytes.len().min(LINE_BYTES_MAX)];
    let Some(end) = seen.iter().position(|byte| *byte == b'\n') else {
        return if bytes.len() >= LINE_BYTES_MAX { Err(HeadError::LongLine) } else { Ok(None) };
    };
    let text = std::str::from_utf8(&seen[..end]).map_err(|_| HeadError::Line)?;
    let mut words = text.split_ascii_whitespace();
    let command = words.next().ok_or(HeadError::Line)?;
    // Some clients of Rspamd's old protocol name a path, too, which says nothing more.
    let last = words.next_back().ok_or(HeadError::Line)?;
    let (protocol, version) = last.split_once('/').ok_or(HeadError::Line)?;
    let (major, minor) = version.split_once('.').unwrap_or((version, "0"));
    let number = |text: &str| text.parse().map_err(|_| HeadError::Line);
    let plain =
        |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'_');
    if !plain(command) || !plain(protocol) || words.count() > 1 {
        return Err(HeadError::Line);
    }
    let line = RequestLine {
        command: command.to_ascii_uppercase(),
        protocol: protocol.to_ascii_uppercase(),
        version: (number(major)?, number(minor)?),
    };
    Ok(Some((line, end + 1)))
}

/// Reads the header lines up to the empty one; `None` until that is there. With them comes the number of bytes that
/// they take, the empty line included.
///
/// # Errors
/// If there are too many, or one is no header line.
pub fn headers(bytes: &[u8]) -> HeadResult<HeaderLines> {
    let mut headers = Vec::new();
    let mut at = 0;
    let seen = &bytes[..bytes.len().min(HEADERS_BYTES_MAX)];
    while let Some(length) = seen[at..].iter().position(|byte| *byte == b'\n') {
        let line = &seen[at..at + length];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        at += length + 1;
        if line.is_empty() {
            return Ok(Some((HeaderLines(headers), at)));
        }
        if headers.len() == HEADERS_MAX {
            return Err(HeadError::TooMany);
        }
        // Names of people may be in any charset.
        let text = content::text::received(line);
        let (name, value) = text.split_once(':').ok_or(HeadError::Header)?;
        let (name, value) = (name.trim(), value.trim());
        if name.is_empty() || line.iter().any(|byte| byte.is_ascii_control() && *byte != b'\t') {
            return Err(HeadError::Header);
        }
        headers.push((name.to_ascii_lowercase(), value.to_owned()));
    }
    if bytes.len() >= HEADERS_BYTES_MAX { Err(HeadError::TooMany) } else { Ok(None) }
}

/// Returns whether the first line may have its end in bytes of which the first `seen` had none.
pub fn ends_line(bytes: &[u8], seen: usize) -> bool {
    bytes[seen..].contains(&b'\n')
}

/// Returns whether the empty line behind the header lines is in bytes of which the first `seen` did not have it whole.
pub fn ends_headers(bytes: &[u8], seen: usize) -> bool {
    // The end of the line before may have been seen, and so may the carriage return.
    let from = seen.saturating_sub(2);
    let is_first = seen < 2 && (bytes.starts_with(b"\n") || bytes.starts_with(b"\r\n"));
    let after_a_line = |pair: &[u8]| pair[0] == b'\n' && (pair[1] == b'\n' || pair[1..] == *b"\r\n");
    is_first || bytes[from..].ends_with(b"\n\n") || bytes[from..].windows(3).any(after_a_line)
}

impl HeaderLines {
    /// The value of the first line of this name, which is given in lower case.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    /// The values of all lines of this name, which is given in lower case.
    pub fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    /// Names, in lower case, and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The number of bytes of the message, if it is said.
    ///
    /// # Errors
    /// If it is no number, or two are said that differ.
    pub fn content_length(&self) -> Result<Option<u64>, HeadError> {
        let mut length = None;
        for value in self.all("content-length") {
            let digits = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
            let said = value.parse::<u64>().ok().filter(|_| digits).ok_or(HeadError::Length)?;
            if length.replace(said).is_some_and(|before| before != said) {
                return Err(HeadError::Length);
            }
        }
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lines_are_read() {
        let check = |text: &str, words: &str, version: (u16, u16), used: usize| {
            let (line, length) = line(text.as_bytes()).unwrap().unwrap();
            assert_eq!(
                (format!("{} {}", line.command, line.protocol).as_str(), line.version),
                (words, version)
            );
            assert_eq!(length, used, "{text:?}");
        };
        check("CHECK SPAMC/1.5\r\nUser", "CHECK SPAMC", (1, 5), 17);
        check("check rspamc/1.3\n", "CHECK RSPAMC", (1, 3), 17);
        check("CHECK /checkv2 RSPAMC/1.3\r\n", "CHECK RSPAMC", (1, 3), 27);
        check("REPORT_IFSPAM SPAMC/2\r\n", "REPORT_IFSPAM SPAMC", (2, 0), 23);
        for part in ["", "CHECK SPAMC/1.5"] {
            assert_eq!(line(part.as_bytes()), Ok(None));
        }
        for bad in [
            "\n",
            "CHECK\n",
            "CHECK SPAMC\n",
            "CHECK SPAMC/x\n",
            "CHECK SPAMC/1.99999\n",
            "C a b SPAMC/1.5\n",
        ] {
            assert_eq!(line(bad.as_bytes()), Err(HeadError::Line), "{bad:?}");
        }
        assert_eq!(line("C".repeat(LINE_BYTES_MAX).as_bytes()), Err(HeadError::LongLine));
    }

    #[test]
    fn headers_are_read() {
        let text = b"User: joe\r\nCONTENT-LENGTH:12\r\nRcpt: <a@x.org>\r\nRcpt: <b@x.org>\r\n\r\nbody";
        let (headers, used) = headers(text).unwrap().unwrap();
        assert_eq!(&text[used..], b"body");
        assert_eq!(headers.get("user"), Some("joe"));
        assert_eq!(headers.all("rcpt").collect::<Vec<_>>(), ["<a@x.org>", "<b@x.org>"]);
        assert_eq!(headers.content_length(), Ok(Some(12)));
    }

    #[test]
    fn bad_headers_are_refused() {
        let check =
            |text: &str, expected: HeadError| assert_eq!(headers(text.as_bytes()), Err(expected), "{text:?}");
        check("User joe\r\n\r\n", HeadError::Header);
        check(": joe\r\n\r\n", HeadError::Header);
        check("User: j\u{1}oe\r\n\r\n", HeadError::Header);
        check("User: j\roe\r\n\r\n", HeadError::Header);
        check(&"a: b\n".repeat(HEADERS_MAX + 1), HeadError::TooMany);
        check(&format!("a: {}", "b".repeat(HEADERS_BYTES_MAX)), HeadError::TooMany);
        let length = |text: &str| headers(text.as_bytes()).unwrap().unwrap().0.content_length();
        assert_eq!(length("Content-length: 3\nContent-length: 3\n\n"), Ok(Some(3)));
        for bad in ["-1", "+1", "", "1x", "99999999999999999999", "3\nContent-length: 4"] {
            assert_eq!(length(&format!("Content-length: {bad}\n\n")), Err(HeadError::Length), "{bad}");
        }
    }

    proptest! {
        /// The end of the header lines is found where reading them finds it, and no sooner, however their bytes come.
        #[test]
        fn the_end_of_a_head_is_found(text in "(a:|b|\r|\n){0,12}", cuts in prop::collection::vec(1usize..4, 24)) {
            let (mut seen, mut found) = (0, None);
            for cut in cuts {
                let now = text.len().min(seen + cut);
                found = found.or_else(|| ends_headers(&text.as_bytes()[..now], seen).then_some(now));
                seen = now;
            }
            let ends = |end: &usize| {
                let lines: Vec<&str> = text[..*end].split_inclusive('\n').collect();
                lines.iter().any(|line| matches!(*line, "\n" | "\r\n"))
            };
            let first = (0..=seen).find(ends);
            prop_assert_eq!(found.is_some(), first.is_some(), "{:?}", text);
            prop_assert!(found.zip(first).is_none_or(|(found, first)| found >= first && found < first + 4));
        }

        /// A head is read alike, however its bytes come.
        #[test]
        fn a_part_says_nothing_else_than_the_whole(
            names in prop::collection::vec("[A-Za-z-]{1,8}", 0..6),
            values in prop::collection::vec("[ -~]{0,20}", 6),
            cut in 0.0f64..1.0,
        ) {
            let mut head = String::new();
            for (name, value) in names.iter().zip(&values) {
                head += &format!("{name}: {value}\r\n");
            }
            head += "\r\n";
            let whole = headers(head.as_bytes()).unwrap();
            prop_assert_eq!(whole.as_ref().map(|(read, _)| read.iter().count()), Some(names.len()));
            let part = (head.len() as f64 * cut) as usize;
            prop_assert_eq!(headers(&head.as_bytes()[..part]), Ok(None));
            let more = format!("{head}body\r\n\r\n");
            prop_assert_eq!(headers(more.as_bytes()).unwrap(), whole);
        }

        #[test]
        fn nothing_panics(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = line(&bytes);
            let _ = headers(&bytes);
        }
    }
}
