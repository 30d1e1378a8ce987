//! Counters of TLS.

use std::sync::atomic::AtomicI64;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// A listener with TLS.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct TlsListenerLabel {
    listener: String,
}

/// A listener, and how handshakes on it end.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct HandshakeLabel {
    listener: String,
    result: &'static str,
}

/// The counters of TLS.
#[derive(Clone, Debug, Default)]
pub(crate) struct TlsMetrics {
    handshakes: Family<HandshakeLabel, Counter>,
    expiries: Family<TlsListenerLabel, Gauge<i64, AtomicI64>>,
    reloads: Family<HandshakeLabel, Counter>,
}

impl TlsMetrics {
    pub(crate) fn new(registry: &mut Registry) -> TlsMetrics {
        let metrics = TlsMetrics::default();
        let help = "TLS handshakes, by listener and result: the version, or `failed`, `timeout`, `crowded`";
        registry.register("tollhouse_tls_handshakes", help, metrics.handshakes.clone());
        let help = "Time at which the certificate of a listener expires, in seconds since 1970";
        registry.register(
            "tollhouse_tls_certificate_expiration_timestamp_seconds",
            help,
            metrics.expiries.clone(),
        );
        let help = "Reloads of certificates, by result: `ok`, or `failed` where the old one stays in use";
        registry.register("tollhouse_tls_reloads", help, metrics.reloads.clone());
        metrics
    }

    pub(super) fn handshake(&self, listener: &str, result: &'static str) {
        self.handshakes.get_or_create(&HandshakeLabel { listener: listener.to_owned(), result }).inc();
    }

    pub(super) fn reload(&self, listener: &str, result: &'static str) {
        self.reloads.get_or_create(&HandshakeLabel { listener: listener.to_owned(), result }).inc();
    }

    pub(super) fn expires(&self, listener: &str, seconds: i64) {
        self.expiries.get_or_create(&TlsListenerLabel { listener: listener.to_owned() }).set(seconds);
    }
}
