//! Requests of the form of [`command`](super::command) as they come over a connection.

use std::io;
use std::net::IpAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Duration, timeout};

use super::MessageBody;
use super::command::{self, HeadError, HeadResult, HeaderLines, RequestLine};
use crate::core::listener::ListenerStream;
use crate::core::pace::TooSlow;

/// Bytes that are asked for at once.
const CHUNK: usize = 32 << 10;

/// A connection and what came over it that nobody has taken yet.
pub(crate) struct CommandReader {
    stream: ListenerStream,
    buffer: Vec<u8>,
}

/// Reasons for a request that is not whole.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandReadError {
    /// Its head was refused.
    #[error(transparent)]
    Head(#[from] HeadError),
    /// The client ended before the message did.
    #[error("the message ends before its Content-length")]
    Short,
    /// The head comes too slowly.
    #[error("the message: {0}")]
    Slow(#[from] TooSlow),
    /// The client ended before the head did, or the connection broke.
    #[error("the connection ended: {0}")]
    Gone(#[from] io::Error),
}

impl CommandReader {
    /// Over a connection of which these bytes were read before.
    pub(crate) fn new(stream: ListenerStream, buffer: Vec<u8>) -> CommandReader {
        CommandReader { stream, buffer }
    }

    /// Returns what came and was not taken.
    pub(crate) fn seen(&self) -> &[u8] {
        &self.buffer
    }

    /// Returns the address at the other end, if it came over TCP.
    pub(crate) fn client(&self) -> Option<IpAddr> {
        self.stream.client()
    }

    /// The connection, and what came over it and was not taken.
    pub(crate) fn into_parts(self) -> (ListenerStream, Vec<u8>) {
        (self.stream, self.buffer)
    }

    /// Waits for more, and shows it; nothing once the client has ended.
    pub(crate) async fn more(&mut self) -> io::Result<&[u8]> {
        let before = self.buffer.len();
        self.buffer.reserve(CHUNK);
        self.stream.read_buf(&mut self.buffer).await?;
        Ok(&self.buffer[before..])
    }

    /// The first line.
    pub(crate) async fn line(&mut self) -> Result<RequestLine, CommandReadError> {
        self.until(command::line, command::ends_line, command::LINE_BYTES_MAX).await
    }

    /// The header lines behind it.
    pub(crate) async fn headers(&mut self) -> Result<HeaderLines, CommandReadError> {
        self.until(command::headers, command::ends_headers, command::HEADERS_BYTES_MAX).await
    }

    /// Reads on until a part `ends`, which looks only at what is new, and parses it then: once, however its bytes come.
    async fn until<T>(
        &mut self,
        parse: fn(&[u8]) -> HeadResult<T>,
        ends: fn(&[u8], usize) -> bool,
        max: usize,
    ) -> Result<T, CommandReadError> {
        let mut seen = 0;
        loop {
            let may_be_whole = ends(&self.buffer, seen) || self.buffer.len() >= max;
            if may_be_whole && let Some((parsed, used)) = parse(&self.buffer)? {
                self.buffer.drain(..used);
                return Ok(parsed);
            }
            seen = self.buffer.len();
            if self.more().await?.is_empty() {
                return Err(CommandReadError::Gone(io::ErrorKind::UnexpectedEof.into()));
            }
        }
    }

    /// The message: so many bytes, or all up to the end. What comes behind them is not looked at.
    pub(crate) async fn body(
        &mut self,
        length: Option<u64>,
        body: &mut MessageBody,
    ) -> Result<(), CommandReadError> {
        let mut left = length.unwrap_or(u64::MAX);
        loop {
            let taken = self.buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            body.push(&self.buffer[..taken]);
            left -= taken as u64;
            self.buffer.clear();
            if left == 0 {
                return Ok(());
            }
            let came = body.paced.wait(self.more()).await??.len();
            body.paced.add(came);
            if came == 0 {
                return if length.is_none() { Ok(()) } else { Err(CommandReadError::Short) };
            }
        }
    }

    /// Writes an answer and ends the connection, so that the client reads all of it: it hears of a reset connection
    /// before the answer if anything of what it sent was not read.
    pub(crate) async fn finish(mut self, answer: &[u8]) -> io::Result<()> {
        const LINGER: Duration = Duration::from_secs(2);
        const BYTES_MAX: usize = 1 << 20;
        self.stream.write_all(answer).await?;
        self.stream.shutdown().await?;
        let drain = async {
            let mut seen = 0;
            while seen < BYTES_MAX {
                self.buffer.clear();
                match self.more().await {
                    Ok(more) if !more.is_empty() => seen += more.len(),
                    _ => break,
                }
            }
        };
        // Whoever does not end within it has had its answer.
        let _ = timeout(LINGER, drain).await;
        Ok(())
    }
}
