//! Reasons not to use a server, with the mend of each.

use std::error::Error;
use std::io;
use std::sync::Arc;

use redis::{ErrorKind, RedisError, ServerError};

/// Reasons not to use a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServerFault {
    /// The server does not answer, or is not ready.
    Away,
    /// The server is of a cluster that has no slots.
    Slotless,
    /// The server is of no cluster.
    Alone,
    /// The server does not know the user or the password, or wants some.
    Credentials,
    /// The user may not do what is needed.
    Rights,
    /// The server speaks no TLS.
    Plain,
    /// The server speaks TLS.
    Encrypted,
    /// Its certificate is not trusted.
    Certificate,
}

impl ServerFault {
    /// Returns true if the fault can be otherwise in a while.
    pub(super) fn may_pass(self) -> bool {
        matches!(self, ServerFault::Away | ServerFault::Slotless)
    }

    pub(super) fn mend(self) -> &'static str {
        match self {
            ServerFault::Away => "Start its servers, or correct `nodes` in [cluster]",
            ServerFault::Slotless => "Give its servers their slots: `redis-cli --cluster create`",
            ServerFault::Alone => {
                "A cluster is needed, of one server at least: start it with `cluster-enabled yes` and give it its slots \
                 (`redis-cli --cluster create`)"
            }
            ServerFault::Credentials => "Correct `user` and `password` in [cluster]",
            ServerFault::Rights => "Give the user the rights that docs/operating/cluster.md names",
            ServerFault::Plain => {
                "Leave `tls` out of [ledger], or name ports that speak TLS and let servers announce them (`tls-cluster yes`)"
            }
            ServerFault::Encrypted => "Set `tls = true` in [cluster], or name ports that do not speak TLS",
            ServerFault::Certificate => {
                "Set `tls_ca` in [cluster] to the certificate of the authority, and name servers as their certificates do"
            }
        }
    }

    /// The fault behind a broken connection.
    pub(super) fn of(error: &RedisError) -> ServerFault {
        if error.kind() == ErrorKind::AuthenticationFailed {
            return ServerFault::Credentials;
        }
        // The client keeps what its own errors came from behind one more pointer.
        let source = error.source().and_then(|error| error.downcast_ref::<Arc<dyn Error + Send + Sync>>());
        let system = source.and_then(|error| error.downcast_ref::<io::Error>());
        match system.and_then(io::Error::get_ref).and_then(|error| error.downcast_ref::<rustls::Error>()) {
            Some(rustls::Error::InvalidCertificate(_)) => ServerFault::Certificate,
            Some(rustls::Error::InvalidMessage(_)) => ServerFault::Plain,
            _ => ServerFault::Away,
        }
    }

    /// The fault behind a server's answer about its slots.
    pub(super) fn of_answer(error: &ServerError) -> ServerFault {
        match error.code() {
            "NOAUTH" | "WRONGPASS" => ServerFault::Credentials,
            "NOPERM" => ServerFault::Rights,
            "ERR" if error.details().is_some_and(|text| text.contains("cluster support disabled")) => {
                ServerFault::Alone
            }
            _ => ServerFault::Away,
        }
    }
}
