//! The framing of requests, watched byte by byte as they come in: where a head ends and a body begins.
//!
//! The HTTP library takes a bare line feed for the end of a line, and where a request has both a length and chunks it
//! believes the chunks and forgets the length. Another program in front, or behind, may see the other request in the same
//! bytes, and so a second one inside of the first. Both faults are gone from what the library hands over, so they are
//! looked for in the bytes themselves. What the watcher finds is remembered; the bytes pass unchanged.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};

use crate::core::through::write_through;

/// Bytes of a line that are looked at: every name and value that matters is shorter.
const LINE_BYTES_MAX: usize = 128;

/// A way in which a request can be read as two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FramingFault {
    /// A line of a head ends without a carriage return.
    #[error("a line of the head ends with a bare line feed")]
    BareLineFeed,
    /// The body's length is told in two ways.
    #[error("the head has more than one of Content-Length and Transfer-Encoding")]
    TwoLengths,
    /// The body comes in another form than in chunks.
    #[error("Transfer-Encoding is not `chunked`")]
    Encoding,
    /// The length is no number.
    #[error("Content-Length is no number")]
    Length,
}

const FAULTS: [FramingFault; 4] =
    [FramingFault::BareLineFeed, FramingFault::TwoLengths, FramingFault::Encoding, FramingFault::Length];

/// The first fault of a connection, shared between who reads it and who answers.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedFault(Arc<AtomicU8>);

impl SharedFault {
    pub(crate) fn get(&self) -> Option<FramingFault> {
        FAULTS.get(usize::from(self.0.load(Ordering::Acquire)).checked_sub(1)?).copied()
    }

    fn set(&self, fault: FramingFault) {
        let number = FAULTS.iter().position(|own| *own == fault).unwrap_or_default();
        self.0.store(number as u8 + 1, Ordering::Release);
    }
}

/// The part to which the next byte belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FramingStep {
    /// A line of a head.
    Head,
    /// The bytes left of a body.
    Body(u64),
    /// The line before a chunk.
    Size,
    /// The bytes left of a chunk, and the line end behind it.
    Chunk(u64),
    /// A line behind the last chunk.
    Trailer,
}

/// The watcher of one connection.
#[derive(Debug)]
pub struct RequestFraming {
    step: FramingStep,
    /// The line that has not ended, as much of it as is looked at.
    line: Vec<u8>,
    /// The length of the line.
    length: usize,
    /// The last byte of it was a carriage return.
    returned: bool,
    /// The head has a line already.
    begun: bool,
    content_length: Option<u64>,
    is_chunked: bool,
    fault: Option<FramingFault>,
}

impl Default for RequestFraming {
    fn default() -> RequestFraming {
        RequestFraming {
            step: FramingStep::Head,
            line: Vec::new(),
            length: 0,
            returned: false,
            begun: false,
            content_length: None,
            is_chunked: false,
            fault: None,
        }
    }
}

impl RequestFraming {
    /// Looks at bytes that follow those before; answers the first fault so far. Behind a fault nothing is looked at.
    pub fn watch(&mut self, mut bytes: &[u8]) -> Option<FramingFault> {
        while self.fault.is_none() && !bytes.is_empty() {
            bytes = match &mut self.step {
                FramingStep::Body(left) | FramingStep::Chunk(left) if *left > 0 => {
                    let passed = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                    *left -= passed as u64;
                    &bytes[passed..]
                }
                FramingStep::Body(_) => {
                    self.step = FramingStep::Head;
                    bytes
                }
                FramingStep::Chunk(_) => {
                    self.step = FramingStep::Size;
                    bytes
                }
                FramingStep::Head | FramingStep::Size | FramingStep::Trailer => self.read_line(bytes),
            };
        }
        self.fault
    }

    /// Takes the rest of a line, or all there is; answers what follows.
    fn read_line<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let part = &bytes[..end.unwrap_or(bytes.len())];
        let room = LINE_BYTES_MAX - self.line.len();
        self.line.extend_from_slice(&part[..part.len().min(room)]);
        self.length = self.length.saturating_add(part.len());
        self.returned = part.last().map_or(self.returned, |last| *last == b'\r');
        let Some(end) = end else { return &[] };
        if !self.returned {
            self.fault = Some(FramingFault::BareLineFeed);
        } else if let Err(fault) = self.end_line() {
            self.fault = Some(fault);
        }
        self.line.clear();
        (self.length, self.returned) = (0, false);
        &bytes[end + 1..]
    }

    fn end_line(&mut self) -> Result<(), FramingFault> {
        let is_empty = self.length == 1;
        match self.step {
            FramingStep::Head if !is_empty => {
                let is_first = !std::mem::replace(&mut self.begun, true);
                if is_first { Ok(()) } else { self.field() }
            }
            // Lines before the first are passed over, as by the library.
            FramingStep::Head if !self.begun => Ok(()),
            FramingStep::Head => {
                self.step = match (self.is_chunked, self.content_length) {
                    (true, _) => FramingStep::Size,
                    (false, length) => FramingStep::Body(length.unwrap_or(0)),
                };
                (self.begun, self.content_length, self.is_chunked) = (false, None, false);
                Ok(())
            }
            FramingStep::Size => {
                let digits = self.line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
                let digits = str::from_utf8(&self.line[..digits]).unwrap_or_default();
                // What is no size the library refuses.
                let size = u64::from_str_radix(digits, 16).unwrap_or(0);
                self.step =
                    if size == 0 { FramingStep::Trailer } else { FramingStep::Chunk(size.saturating_add(2)) };
                Ok(())
            }
            FramingStep::Trailer if is_empty => {
                self.step = FramingStep::Head;
                Ok(())
            }
            FramingStep::Trailer | FramingStep::Body(_) | FramingStep::Chunk(_) => Ok(()),
        }
    }

    /// Takes in a field of a head, if it is one that says where the body ends.
    fn field(&mut self) -> Result<(), FramingFault> {
        let Some(colon) = self.line.iter().position(|byte| *byte == b':') else { return Ok(()) };
        let (name, value) = (&self.line[..colon], self.line[colon + 1..].trim_ascii());
        let is_length = name.eq_ignore_ascii_case(b"content-length");
        let is_encoding = name.eq_ignore_ascii_case(b"transfer-encoding");
        if !(is_length || is_encoding) {
            return Ok(());
        }
        if self.content_length.is_some() || self.is_chunked {
            return Err(FramingFault::TwoLengths);
        }
        let is_whole = self.length <= LINE_BYTES_MAX;
        if is_encoding {
            self.is_chunked = is_whole && value.eq_ignore_ascii_case(b"chunked");
            return if self.is_chunked { Ok(()) } else { Err(FramingFault::Encoding) };
        }
        let is_number = is_whole && !value.is_empty() && value.iter().all(u8::is_ascii_digit);
        let number = str::from_utf8(value).ok().and_then(|digits| digits.parse().ok());
        self.content_length = Some(number.filter(|_| is_number).ok_or(FramingFault::Length)?);
        Ok(())
    }
}

/// A stream whose incoming bytes are watched.
pub(crate) struct WatchedStream<S> {
    stream: S,
    framing: RequestFraming,
    found: SharedFault,
}

impl<S> WatchedStream<S> {
    pub(crate) fn new(stream: S, found: SharedFault) -> WatchedStream<S> {
        WatchedStream { stream, framing: RequestFraming::default(), found }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WatchedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        if let Some(fault) = self.framing.watch(&buffer.filled()[before..]) {
            self.found.set(fault);
        }
        Poll::Ready(Ok(()))
    }
}

write_through!(WatchedStream);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(requests: &str, expected: Option<FramingFault>) {
        assert_eq!(RequestFraming::default().watch(requests.as_bytes()), expected, "{requests:?}");
        // However the bytes come.
        let mut framing = RequestFraming::default();
        let found = requests.as_bytes().iter().map(|byte| framing.watch(&[*byte])).last().flatten();
        assert_eq!(found, expected, "{requests:?} byte by byte");
    }

    #[test]
    fn requests_that_can_be_read_in_two_ways_are_found() {
        use FramingFault::{BareLineFeed, Encoding, Length, TwoLengths};
        check("GET / HTTP/1.1\r\nHost: a\r\n\r\n", None);
        check("\r\nGET / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n", None);
        check("GET / HTTP/1.1\nHost: a\r\n\r\n", Some(BareLineFeed));
        check("GET / HTTP/1.1\r\nHost: a\n\r\n", Some(BareLineFeed));
        check("GET / HTTP/1.1\r\nHost: a\r\n\n", Some(BareLineFeed));
        check("\nGET / HTTP/1.1\r\n\r\n", Some(BareLineFeed));
        let post = |fields: &str, rest: &str| format!("POST / HTTP/1.1\r\n{fields}\r\n\r\n{rest}");
        check(&post("Content-Length: 4", "a\nb\n"), None);
        check(&post("Content-Length: 4", "a\nb\nGET / HTTP/1.1\n"), Some(BareLineFeed));
        check(&post("content-length:4\r\nTransfer-Encoding: chunked", ""), Some(TwoLengths));
        check(&post("Transfer-Encoding: chunked\r\nCONTENT-LENGTH: 4", ""), Some(TwoLengths));
        check(&post("Content-Length: 4\r\nContent-Length: 4", ""), Some(TwoLengths));
        check(&post("Transfer-Encoding: gzip, chunked", ""), Some(Encoding));
        check(&post(&format!("Transfer-Encoding: chunked{}x", " ".repeat(200)), ""), Some(Encoding));
        check(&post("Content-Length: +4", ""), Some(Length));
        check(&post("Content-Length: 99999999999999999999", ""), Some(Length));
        let chunks = "3;a=b\r\na\nb\r\nA\r\n0123456789\r\n0\r\nX: y\r\n\r\n";
        check(&post("Transfer-Encoding: Chunked", chunks), None);
        check(&post("Transfer-Encoding: chunked", &format!("{chunks}GET / HTTP/1.1\n")), Some(BareLineFeed));
    }

    proptest! {
        /// Checks that what is found does not depend on how the bytes come, and that nothing panics.
        #[test]
        fn pieces_do_not_matter(
            bytes in prop::collection::vec(prop::sample::select(b"\r\n0a:; Content-Length:3Transfer-Encoding:chunked".to_vec()), 0..200),
            cuts in prop::collection::vec(0usize..200, 0..5),
        ) {
            let whole = RequestFraming::default().watch(&bytes);
            let mut framing = RequestFraming::default();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let found = cuts.windows(2).map(|cut| framing.watch(&bytes[cut[0]..cut[1]])).last().flatten();
            prop_assert_eq!(found, whole);
        }
    }
}
