//! Protocols, a folder each, and the table of those that listeners speak. Beside them is what several of them share: `mail`
//! by those of mail servers, `grpc_transport` by those over gRPC, `input` and `batch` by those that bring events in bodies.
//! A protocol never imports another one.

mod batch;
pub mod content_encoding;
mod envoy;
mod grpc;
pub mod grpc_transport;
pub(crate) mod http;
mod input;
pub mod mail;
pub mod milter;
pub mod policy;
pub mod resp;
mod rspamd;
mod spamc;

use std::sync::Arc;

use plan::Protocol;

use crate::core::listener::ServeConnection;
use crate::core::listener_context::ListenerContext;

/// A protocol of listeners.
struct ProtocolEntry {
    protocol: Protocol,
    /// Makes what holds conversations on a listener.
    open: fn(Arc<ListenerContext>) -> ServeConnection,
}

/// Returns the entry of a protocol whose conversations share what `open` makes of their listener.
macro_rules! entry {
    ($protocol:ident, $converse:path) => {
        entry!($protocol, $converse, |listener| listener)
    };
    ($protocol:ident, $converse:path, $open:expr) => {
        ProtocolEntry {
            protocol: Protocol::$protocol,
            open: |listener| {
                let shared = $open(listener);
                Box::new(move |stream, stop| Box::pin($converse(stream, Arc::clone(&shared), stop)))
            },
        }
    };
}

/// All protocols of listeners.
static PROTOCOLS: [ProtocolEntry; Protocol::ALL.len()] = [
    entry!(Milter, milter::converse),
    entry!(Policy, policy::converse),
    entry!(Rspamd, rspamd::converse, rspamd::RspamdListener::open),
    entry!(Spamc, spamc::converse),
    entry!(Resp, resp::converse),
    entry!(Envoy, envoy::converse),
    entry!(Grpc, grpc::converse),
];

/// Returns what holds conversations on a listener of this protocol.
pub(crate) fn open(protocol: Protocol, listener: Arc<ListenerContext>) -> ServeConnection {
    let entry = PROTOCOLS.iter().find(|entry| entry.protocol == protocol);
    let entry = entry.unwrap_or_else(|| unreachable!("`{protocol}` is in the table, as a test holds"));
    (entry.open)(listener)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_protocol_has_an_entry() {
        for (protocol, entry) in Protocol::ALL.into_iter().zip(&PROTOCOLS) {
            assert_eq!(
                entry.protocol, protocol,
                "the table is in the order of the configuration's protocols"
            );
        }
    }
}
