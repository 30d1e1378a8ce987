//! Sockets that whoever started the program has opened for it, such as systemd (`sd_listen_fds(3)`): they stay open while one
//! process ends and the next starts, so that no connection is refused meanwhile.
//!
//! Each has the name of the listener that it is for, [`HTTP`] that of HTTP. It must have the address that the configuration
//! gives this listener: who may ask at an address is decided by the configuration, so it has to know it.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;

use listenfd::ListenFd;
use plan::Endpoint;

/// The name of the listener of HTTP.
pub(crate) const HTTP: &str = "http";

/// Reasons not to take sockets over.
#[derive(Debug, thiserror::Error)]
pub enum InheritedSocketError {
    /// The sockets cannot be used.
    #[error("the sockets that were handed over (LISTEN_FDS) cannot be used: {0}")]
    Unusable(io::Error),
    /// A socket has the name of no listener.
    #[error(
        "a socket was handed over for `{0}`, and no listener has this name: a name (FileDescriptorName=) is `http`, or that of \
         a [[listener]]"
    )]
    Unknown(String),
    /// Two sockets have the same name.
    #[error("two sockets were handed over for `{0}`: a listener has one")]
    Twice(String),
    /// A socket has another address than its listener.
    #[error(
        "the socket that was handed over for `{name}` listens on {found}, and the configuration says {configured}: make them agree"
    )]
    Address {
        /// The listener's name.
        name: String,
        /// The address of the socket.
        found: String,
        /// The address of the listener.
        configured: Endpoint,
    },
}

/// A socket that listens already.
#[derive(Debug)]
pub(crate) enum InheritedSocket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// The sockets that were opened for this process, by the names of their listeners.
#[derive(Debug, Default)]
pub struct InheritedSockets(Vec<(String, InheritedSocket)>);

impl InheritedSockets {
    /// Returns the sockets that the environment announces (`LISTEN_FDS`, `LISTEN_FDNAMES`, `LISTEN_PID`). To be called once.
    ///
    /// # Errors
    /// If one of them is no listening stream socket, or they have too few names.
    pub fn from_environment() -> Result<InheritedSockets, InheritedSocketError> {
        let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
        InheritedSockets::take_all(ListenFd::from_env(), &names).map_err(InheritedSocketError::Unusable)
    }

    fn take_all(mut handed: ListenFd, names: &str) -> io::Result<InheritedSockets> {
        let mut names = names.split(':');
        let mut sockets = Vec::new();
        for at in 0..handed.len() {
            let name = names.next().filter(|name| !name.is_empty());
            let name =
                name.ok_or_else(|| io::Error::other(format!("number {at} has no name (LISTEN_FDNAMES)")))?;
            let unix = handed.take_unix_listener(at);
            let socket = match unix {
                Ok(socket) => socket.map(InheritedSocket::Unix),
                Err(_) => handed.take_tcp_listener(at)?.map(InheritedSocket::Tcp),
            };
            let socket = socket.ok_or_else(|| io::Error::other(format!("number {at} was taken before")))?;
            match &socket {
                InheritedSocket::Tcp(socket) => socket.set_nonblocking(true)?,
                InheritedSocket::Unix(socket) => socket.set_nonblocking(true)?,
            }
            sockets.push((name.to_owned(), socket));
        }
        Ok(InheritedSockets(sockets))
    }

    /// Takes the socket of a listener, if one was handed over.
    ///
    /// # Errors
    /// If there are two, or it has another address than the listener; a configured port of 0 is any port.
    pub(crate) fn take(
        &mut self,
        name: &str,
        configured: &Endpoint,
    ) -> Result<Option<InheritedSocket>, InheritedSocketError> {
        let Some(at) = self.0.iter().position(|(other, _)| other == name) else { return Ok(None) };
        let (_, socket) = self.0.swap_remove(at);
        if self.0.iter().any(|(other, _)| other == name) {
            return Err(InheritedSocketError::Twice(name.to_owned()));
        }
        let (found, agrees) = match (&socket, configured) {
            (InheritedSocket::Tcp(socket), Endpoint::Tcp(address)) => {
                let found = socket.local_addr().map_err(InheritedSocketError::Unusable)?;
                (found.to_string(), is_same(found, *address))
            }
            (InheritedSocket::Unix(socket), Endpoint::Unix(path)) => {
                let found = socket.local_addr().map_err(InheritedSocketError::Unusable)?;
                let found = found.as_pathname();
                let shown = found.map_or_else(|| "no path".to_owned(), |path| path.display().to_string());
                (shown, found == Some(path.as_path()))
            }
            (InheritedSocket::Tcp(socket), Endpoint::Unix(_)) => {
                (socket.local_addr().map_or_else(|_| "TCP".to_owned(), |found| found.to_string()), false)
            }
            (InheritedSocket::Unix(_), Endpoint::Tcp(_)) => ("a unix socket".to_owned(), false),
        };
        if agrees {
            return Ok(Some(socket));
        }
        Err(InheritedSocketError::Address { name: name.to_owned(), found, configured: configured.clone() })
    }

    /// Ends the distribution.
    ///
    /// # Errors
    /// If a socket is left, whose listener nobody is.
    pub(crate) fn finish(self) -> Result<(), InheritedSocketError> {
        match self.0.into_iter().next() {
            None => Ok(()),
            Some((name, _)) => Err(InheritedSocketError::Unknown(name)),
        }
    }
}

/// Returns whether a socket's address is the configured one.
fn is_same(found: SocketAddr, configured: SocketAddr) -> bool {
    found.ip() == configured.ip() && (configured.port() == 0 || found.port() == configured.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The fate of a socket of this name and address under a configured address.
    fn check(name: &str, ip: &str, configured: &str, expected: Result<(), &str>) {
        let socket = TcpListener::bind((ip, 0)).unwrap();
        let port = socket.local_addr().unwrap().port();
        let configured: Endpoint = configured.replace("PORT", &port.to_string()).parse().unwrap();
        let mut sockets = InheritedSockets(vec![(name.to_owned(), InheritedSocket::Tcp(socket))]);
        let taken = sockets.take(HTTP, &configured).and_then(|taken| {
            let is_taken = taken.is_some();
            sockets.finish().map(|()| assert!(is_taken))
        });
        match (taken, expected) {
            (Ok(()), Ok(())) => {}
            (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
            (taken, _) => panic!("{name} {ip} {configured}: {taken:?}"),
        }
    }

    #[test]
    fn a_socket_is_taken_by_its_name_and_address() {
        check("http", "127.0.0.1", "127.0.0.1:PORT", Ok(()));
        check("http", "127.0.0.1", "127.0.0.1:0", Ok(()));
        check("http", "127.0.0.1", "127.0.0.1:1", Err("the configuration says 127.0.0.1:1"));
        check("http", "0.0.0.0", "127.0.0.1:PORT", Err("listens on 0.0.0.0:"));
        check("http", "127.0.0.1", "unix:/run/tollhouse", Err("listens on 127.0.0.1:"));
        check("milter", "127.0.0.1", "127.0.0.1:PORT", Err("no listener has this name"));
    }

    #[test]
    fn a_listener_has_one_socket() {
        let socket = || InheritedSocket::Tcp(TcpListener::bind("127.0.0.1:0").unwrap());
        let mut sockets =
            InheritedSockets(vec![("http".to_owned(), socket()), ("http".to_owned(), socket())]);
        let taken = sockets.take(HTTP, &"127.0.0.1:0".parse().unwrap());
        assert!(matches!(taken, Err(InheritedSocketError::Twice(_))), "{taken:?}");
    }
}
