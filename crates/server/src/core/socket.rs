//! Sockets of connections: over TCP or a unix socket, and over either in TLS.

use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::server::TlsStream;

/// A connection without TLS.
#[derive(Debug)]
pub(crate) enum PlainSocket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl PlainSocket {
    /// Returns the address of the other end, if it came over TCP.
    pub(crate) fn client(&self) -> Option<IpAddr> {
        match self {
            PlainSocket::Tcp(stream) => stream.peer_addr().ok().map(|address| address.ip().to_canonical()),
            PlainSocket::Unix(_) => None,
        }
    }

    /// Returns whether it came to a loopback address over TCP, where any page that a browser of this host shows can ask.
    pub(crate) fn is_loopback(&self) -> bool {
        match self {
            PlainSocket::Tcp(stream) => {
                stream.local_addr().is_ok_and(|address| address.ip().to_canonical().is_loopback())
            }
            PlainSocket::Unix(_) => false,
        }
    }

    fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            PlainSocket::Tcp(stream) => stream.try_write(bytes),
            PlainSocket::Unix(stream) => stream.try_write(bytes),
        }
    }
}

/// A connection of a listener.
#[derive(Debug)]
pub(crate) enum ListenerSocket {
    Plain(PlainSocket),
    Tls(Box<TlsSocket>),
}

/// A connection in TLS, after its handshake.
#[derive(Debug)]
pub(crate) struct TlsSocket(TlsStream<PlainSocket>);

impl ListenerSocket {
    pub(crate) fn tls(stream: TlsStream<PlainSocket>) -> ListenerSocket {
        ListenerSocket::Tls(Box::new(TlsSocket(stream)))
    }

    /// Returns the connection beneath.
    pub(crate) fn plain(&self) -> &PlainSocket {
        match self {
            ListenerSocket::Plain(socket) => socket,
            ListenerSocket::Tls(socket) => socket.0.get_ref().0,
        }
    }
}

/// Says that nothing more comes, as far as that can be sent at once: without it a client cannot tell an end from a cut.
impl Drop for TlsSocket {
    fn drop(&mut self) {
        let (socket, session) = self.0.get_mut();
        session.send_close_notify();
        // One that takes nothing now is told nothing.
        let _ = session.write_tls(&mut UnblockedWriter(socket));
    }
}

/// A writer that takes what can be sent without waiting.
struct UnblockedWriter<'a>(&'a PlainSocket);

impl io::Write for UnblockedWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Calls one function on whichever stream it is.
macro_rules! each_stream {
    ($socket:expr, $kind:ident, $($variant:ident)|+, $stream:ident => $call:expr) => {
        match $socket {
            $($kind::$variant($stream) => $call,)+
        }
    };
}

macro_rules! write_to_each {
    ($kind:ident, $($variant:ident)|+) => {
        impl AsyncWrite for $kind {
            fn poll_write(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
                bytes: &[u8],
            ) -> Poll<io::Result<usize>> {
                each_stream!(self.get_mut(), $kind, $($variant)|+, stream => Pin::new(stream).poll_write(context, bytes))
            }

            fn poll_write_vectored(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
                slices: &[io::IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                each_stream!(self.get_mut(), $kind, $($variant)|+, stream => {
                    Pin::new(stream).poll_write_vectored(context, slices)
                })
            }

            fn is_write_vectored(&self) -> bool {
                each_stream!(self, $kind, $($variant)|+, stream => stream.is_write_vectored())
            }

            fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
                each_stream!(self.get_mut(), $kind, $($variant)|+, stream => Pin::new(stream).poll_flush(context))
            }

            fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
                each_stream!(self.get_mut(), $kind, $($variant)|+, stream => Pin::new(stream).poll_shutdown(context))
            }
        }
    };
}

impl AsyncRead for PlainSocket {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        each_stream!(self.get_mut(), PlainSocket, Tcp | Unix, stream => Pin::new(stream).poll_read(context, buffer))
    }
}

write_to_each!(PlainSocket, Tcp | Unix);

impl AsyncRead for ListenerSocket {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            ListenerSocket::Plain(socket) => Pin::new(socket).poll_read(context, buffer),
            ListenerSocket::Tls(socket) => Pin::new(&mut **socket).poll_read(context, buffer),
        }
    }
}

write_to_each!(ListenerSocket, Plain | Tls);

impl AsyncRead for TlsSocket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // A write is done once its bytes are encrypted. Those that found no room in the socket go on from here, as a protocol
        // that has answered reads next, and need not know of flushes.
        if self.0.get_ref().1.wants_write()
            && let Poll::Ready(Err(error)) = Pin::new(&mut self.0).poll_flush(context)
        {
            return Poll::Ready(Err(error));
        }
        // An end without a word that it is one is an error: who cuts a connection must not pass for who has finished.
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for TlsSocket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
