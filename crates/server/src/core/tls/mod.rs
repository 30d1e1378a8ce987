//! TLS of listeners: handshakes, and certificates that are renewed while connections go on.
//!
//! ```text
//! accepted ─► room among handshakes ─► handshake, on its own threads, within the time for a request ─► protocol
//! files ─► read now and then ─► as they were twice? ─► certificate, key, authorities fit and are valid? ─► new connections
//!                                                                          no: the old stay, and that is said
//! ```
//!
//! A protocol never sees any of it: it is handed a stream. What is done before a handshake has cost nothing dear, and who
//! stalls in one holds a place that was counted before, as its address has only so many.

mod handshakes;
mod identity;
mod metrics;
pub(crate) mod validity;

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use event::Time;
use parking_lot::{Mutex, RwLock};
use plan::TlsPlan;
use rustls::ProtocolVersion;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

pub(crate) use self::handshakes::HandshakeThreads;
pub use self::identity::TlsError;
use self::identity::{TlsFiles, TlsIdentity};
pub(crate) use self::metrics::TlsMetrics;
use crate::core::auth_failures::LogThrottle;
use crate::core::shares::{Caller, Shares};
use crate::core::shutdown::ShutdownSignal;
use crate::core::socket::{ListenerSocket, PlainSocket};

/// The names of HTTP/1 in handshakes (ALPN, RFC 7301).
pub(crate) const HTTP_1: &[&[u8]] = &[b"http/1.1", b"http/1.0"];
/// The name of HTTP/2.
pub(crate) const HTTP_2: &[&[u8]] = &[b"h2"];
/// One in so many connections of a listener may be in its handshake.
const HANDSHAKES: usize = 4;
/// Longest time for which an end waits for a handshake. Who connects to a socket that stays open from one server to the next
/// must not be turned away.
const HANDSHAKE_WAIT: Duration = Duration::from_secs(1);

/// The end of TLS on one listener.
pub(crate) struct TlsTerminator {
    listener: String,
    plan: TlsPlan,
    protocols: &'static [&'static [u8]],
    current: RwLock<Arc<TlsIdentity>>,
    renewal: Mutex<RenewalState>,
    /// Places for handshakes.
    room: Shares,
    timeout: Duration,
    threads: Arc<HandshakeThreads>,
    metrics: TlsMetrics,
    log_throttle: LogThrottle,
}

impl fmt::Debug for TlsTerminator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsTerminator").field("listener", &self.listener).finish_non_exhaustive()
    }
}

/// The files as they were seen.
#[derive(Debug)]
struct RenewalState {
    used: [u8; 32],
    /// The digest at the last look; `None` if they could not be read.
    seen: Option<[u8; 32]>,
    /// The fault for which those that are there are not in use.
    failure: Option<String>,
}

/// The settings of a listener's TLS.
pub(crate) struct TlsSettings<'a> {
    /// The name of the listener.
    pub(crate) listener: &'a str,
    pub(crate) plan: &'a TlsPlan,
    /// The protocols that its clients may name, in the order of preference.
    pub(crate) protocols: &'static [&'static [u8]],
    pub(crate) connections_max: usize,
    /// Time for a handshake.
    pub(crate) timeout: Duration,
}

impl TlsTerminator {
    /// Reads the certificate and its key. Blocks.
    ///
    /// # Errors
    /// If they cannot be used. One that has expired is used: a server that starts with it is no worse than one that runs on.
    pub(crate) fn open(
        settings: TlsSettings<'_>,
        threads: Arc<HandshakeThreads>,
        metrics: &TlsMetrics,
        now: Time,
    ) -> Result<TlsTerminator, TlsError> {
        let TlsSettings { listener, plan, protocols, connections_max, timeout } = settings;
        let files = TlsFiles::read(plan)?;
        let identity = TlsIdentity::of(plan, &files, protocols)?;
        if let Err(error) = identity.check_validity(plan, now) {
            tracing::error!(listener, %error, "clients will refuse the certificate");
        }
        metrics.expires(listener, seconds(identity.validity.not_after));
        Ok(TlsTerminator {
            listener: listener.to_owned(),
            plan: plan.clone(),
            protocols,
            current: RwLock::new(Arc::new(identity)),
            renewal: Mutex::new(RenewalState { used: files.digest, seen: Some(files.digest), failure: None }),
            room: Shares::for_anybody((connections_max / HANDSHAKES).max(1)),
            timeout,
            threads,
            metrics: metrics.clone(),
            log_throttle: LogThrottle::default(),
        })
    }

    /// Does the handshake of a connection; `None` if it comes to nothing, which is counted and told.
    pub(crate) async fn accept(
        &self,
        socket: PlainSocket,
        mut stop: ShutdownSignal,
    ) -> Option<ListenerSocket> {
        let client = socket.client();
        let Some(place) = self.room.take(Caller::of_peer(client), 1) else {
            self.failed(client, "crowded", &"too many handshakes are under way");
            return None;
        };
        let acceptor = TlsAcceptor::from(Arc::clone(&self.current.read().config));
        let handshake = timeout(self.timeout, async move {
            let done = acceptor.accept(socket).await;
            drop(place);
            done
        });
        let stopped = async {
            stop.wanted().await;
            sleep(HANDSHAKE_WAIT).await;
        };
        // One that is left behind ends with its time, or with the threads.
        let done = tokio::select! {
            done = self.threads.run(handshake) => done?,
            () = stopped => return None,
        };
        match done {
            Ok(Ok(stream)) => {
                let version = stream.get_ref().1.protocol_version();
                let version = if version == Some(ProtocolVersion::TLSv1_3) { "1.3" } else { "1.2" };
                self.metrics.handshake(&self.listener, version);
                Some(ListenerSocket::tls(stream))
            }
            Ok(Err(error)) => {
                self.failed(client, "failed", &HandshakeFault(&error));
                None
            }
            Err(_) => {
                let seconds = self.timeout.as_secs_f64();
                self.failed(client, "timeout", &format_args!("the handshake was not done after {seconds} s"));
                None
            }
        }
    }

    fn failed(&self, client: Option<IpAddr>, result: &'static str, what: &dyn fmt::Display) {
        let listener = &self.listener;
        self.metrics.handshake(listener, result);
        if let Some(more) = self.log_throttle.pass() {
            let client = client.map(tracing::field::display);
            tracing::warn!(listener, client, result, more, "TLS: {what}");
        }
    }

    /// Takes over what the files say, if it is another certificate than the one in use, or other authorities: at once, or once
    /// they look the same twice, as a certificate and its key are two files. What cannot be used changes nothing. Blocks.
    pub(crate) fn renew(&self, now: Time, at_once: bool) {
        let listener = &self.listener;
        let read = TlsFiles::read(&self.plan);
        let mut state = self.renewal.lock();
        let digest = read.as_ref().map(|files| files.digest).ok();
        let is_steady = at_once || digest == state.seen;
        state.seen = digest;
        if digest == Some(state.used) {
            state.failure = None;
            return;
        }
        if !is_steady {
            return;
        }
        let renewed = read.and_then(|files| {
            let identity = TlsIdentity::of(&self.plan, &files, self.protocols)?;
            identity.check_validity(&self.plan, now)?;
            Ok((files.digest, identity))
        });
        match renewed {
            Ok((digest, identity)) => {
                let not_after = identity.validity.not_after;
                *self.current.write() = Arc::new(identity);
                (state.used, state.failure) = (digest, None);
                self.metrics.expires(listener, seconds(not_after));
                self.metrics.reload(listener, "ok");
                tracing::info!(listener, expires = %not_after, "a new certificate is in use");
            }
            Err(error) => {
                let failure = error.to_string();
                if at_once || state.failure.as_ref() != Some(&failure) {
                    self.metrics.reload(listener, "failed");
                    tracing::warn!(listener, "the certificate before stays in use: {failure}");
                }
                state.failure = Some(failure);
            }
        }
    }

    /// Returns what is wrong with the certificate.
    pub(crate) fn fault(&self, now: Time) -> Option<String> {
        let listener = &self.listener;
        if let Err(error) = self.current.read().check_validity(&self.plan, now) {
            return Some(format!("listener `{listener}`: {error}"));
        }
        let failure = self.renewal.lock().failure.clone()?;
        Some(format!("listener `{listener}` still has the certificate before: {failure}"))
    }
}

/// A reason for a handshake that failed, in words for who runs the server.
struct HandshakeFault<'a>(&'a io::Error);

impl fmt::Display for HandshakeFault<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cause = self.0.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>());
        match cause {
            Some(rustls::Error::InvalidMessage(_)) => {
                write!(f, "the client speaks no TLS, or plain text ({})", self.0)
            }
            Some(rustls::Error::NoCertificatesPresented) => f.write_str("the client shows no certificate"),
            Some(rustls::Error::AlertReceived(alert)) => {
                write!(f, "the client gave up: {alert:?}; does it trust the certificate?")
            }
            _ => write!(f, "{}", self.0),
        }
    }
}

fn seconds(time: Time) -> i64 {
    time.0.div_euclid(1_000_000)
}

#[cfg(test)]
mod tests;
