//! Addresses of listeners.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// The address of a listener.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Endpoint {
    /// Address and port.
    Tcp(SocketAddr),
    /// Path of a unix socket.
    Unix(PathBuf),
}

/// A text is no [`Endpoint`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected an address and a port, or `unix:` and an absolute path")]
pub struct EndpointError;

/// The prefix before the path of a unix socket.
const UNIX: &str = "unix:";
/// Longest path of a socket that all systems take.
const PATH_BYTES_MAX: usize = 103;

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Endpoint, EndpointError> {
        match text.strip_prefix(UNIX) {
            Some(path) => {
                let fits = path.starts_with('/') && path.len() <= PATH_BYTES_MAX && !path.contains('\0');
                fits.then(|| Endpoint::Unix(path.into())).ok_or(EndpointError)
            }
            None => text.parse().map(Endpoint::Tcp).map_err(|_| EndpointError),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Endpoint::Tcp(address) => address.fmt(f),
            Endpoint::Unix(path) => write!(f, "{UNIX}{}", path.display()),
        }
    }
}
