//! The service manager that started the program, such as systemd: it is told when the server serves, that it is alive, and
//! when it stops (`sd_notify(3)`), over a datagram socket that the environment names.
//!
//! A message that cannot be sent is logged and changes nothing: a service manager draws its own conclusions.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// The service manager, if there is one that wants to be told.
#[derive(Debug, Default)]
pub struct ServiceManager {
    socket: Option<(UnixDatagram, SocketAddr)>,
    watchdog: Option<Duration>,
}

impl ServiceManager {
    /// Returns the service manager that the environment names (`NOTIFY_SOCKET`, `WATCHDOG_USEC`, `WATCHDOG_PID`).
    ///
    /// # Errors
    /// If the name is none of a socket, or no socket can be made.
    pub fn from_environment() -> io::Result<ServiceManager> {
        let Some(name) = std::env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()) else {
            return Ok(ServiceManager::default());
        };
        let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
        let is_ours = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
        let watchdog = number("WATCHDOG_USEC").filter(|time| is_ours && *time > 0).map(Duration::from_micros);
        ServiceManager::at(&name, watchdog)
    }

    /// The service manager that listens at a path, or after an `@` at an abstract name.
    fn at(name: &OsStr, watchdog: Option<Duration>) -> io::Result<ServiceManager> {
        let address = match name.as_bytes().strip_prefix(b"@") {
            Some(name) => SocketAddr::from_abstract_name(name)?,
            None => SocketAddr::from_pathname(name)?,
        };
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        Ok(ServiceManager { socket: Some((socket, address)), watchdog })
    }

    /// Returns the interval at which to say [`ServiceManager::alive`]: a third of the time after which the program is
    /// killed.
    pub(crate) fn interval(&self) -> Option<Duration> {
        self.socket.as_ref().and(self.watchdog).map(|time| time / 3)
    }

    /// Says that requests are served, and where.
    pub(crate) fn ready(&self, address: &str) {
        self.send(&format!("READY=1\nSTATUS=serving on {address}"));
    }

    /// Says that the server is alive.
    pub(crate) fn alive(&self) {
        self.send("WATCHDOG=1");
    }

    /// Says that the server takes no more connections.
    pub(crate) fn stopping(&self) {
        self.send("STOPPING=1\nSTATUS=finishing requests, writing what is left");
    }

    fn send(&self, message: &str) {
        let Some((socket, address)) = &self.socket else { return };
        if let Err(error) = socket.send_to_addr(message.as_bytes(), address) {
            tracing::warn!(%error, message, "the service manager could not be told");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &OsStr, address: &SocketAddr) {
        let socket = UnixDatagram::bind_addr(address).unwrap();
        let manager = ServiceManager::at(name, Some(Duration::from_secs(30))).unwrap();
        assert_eq!(manager.interval(), Some(Duration::from_secs(10)));
        manager.ready("http://127.0.0.1:1");
        manager.alive();
        manager.stopping();
        let mut bytes = [0; 200];
        for expected in ["READY=1\nSTATUS=serving on http://127.0.0.1:1", "WATCHDOG=1", "STOPPING=1\n"] {
            let length = socket.recv(&mut bytes).unwrap();
            assert!(bytes[..length].starts_with(expected.as_bytes()), "{expected}");
        }
    }

    #[test]
    fn it_is_told_over_both_kinds_of_sockets() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        check(path.as_os_str(), &SocketAddr::from_pathname(&path).unwrap());
        let name = format!("tollhouse-test-{}", std::process::id());
        check(OsStr::new(&format!("@{name}")), &SocketAddr::from_abstract_name(name).unwrap());
    }

    #[test]
    fn nobody_is_told_without_one() {
        let manager = ServiceManager::default();
        assert_eq!(manager.interval(), None);
        manager.ready("");
    }
}
