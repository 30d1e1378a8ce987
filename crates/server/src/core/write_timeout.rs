//! A stream that gives up on a peer that does not read: without it, a client that asks and never takes the answer
//! holds its connection for ever.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// A stream whose writes fail once nothing could be written for some time. Reads are left alone: whoever reads
/// knows better how long to wait.
pub(crate) struct WriteTimeoutStream<S> {
    stream: S,
    timeout: Duration,
    timer: Pin<Box<Sleep>>,
    waiting: bool,
}

impl<S: AsyncWrite + Unpin> WriteTimeoutStream<S> {
    pub(crate) fn new(stream: S, patience: Duration) -> WriteTimeoutStream<S> {
        WriteTimeoutStream { stream, timeout: patience, timer: Box::pin(sleep(patience)), waiting: false }
    }

    /// Returns the stream within.
    pub(crate) fn get_ref(&self) -> &S {
        &self.stream
    }

    /// Does a write, unless it has been waited for too long.
    fn poll<T>(
        &mut self,
        context: &mut Context<'_>,
        write: impl FnOnce(Pin<&mut S>, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        let written = write(Pin::new(&mut self.stream), context);
        if written.is_ready() {
            self.waiting = false;
            return written;
        }
        if !self.waiting {
            self.waiting = true;
            self.timer.as_mut().reset(Instant::now() + self.timeout);
        }
        ready!(self.timer.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not read")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteTimeoutStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteTimeoutStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll(context, |stream, context| stream.poll_write(context, bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll(context, |stream, context| stream.poll_write_vectored(context, slices))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll(context, |stream, context| stream.poll_flush(context))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll(context, |stream, context| stream.poll_shutdown(context))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn a_peer_that_does_not_read_is_given_up() {
        let (near, mut far) = tokio::io::duplex(4);
        let mut near = WriteTimeoutStream::new(near, Duration::from_millis(20));
        near.write_all(b"1234").await.unwrap();
        let error = near.write_all(b"5").await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        // One that reads after all is served on.
        far.read_exact(&mut [0; 4]).await.unwrap();
        near.write_all(b"5").await.unwrap();
        let (wrote, read) = tokio::join!(near.write_all(b"678"), far.read_u32());
        assert_eq!((wrote.is_ok(), read.unwrap()), (true, u32::from_be_bytes(*b"5678")));
    }
}
