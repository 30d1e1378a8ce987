//! Counters of signatures of requests.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

/// A verified signature, or why one does not count.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct SignatureLabel {
    of: &'static str,
    result: &'static str,
}

/// The counters of signatures.
#[derive(Clone, Debug, Default)]
pub(crate) struct SignatureMetrics(Family<SignatureLabel, Counter>);

impl SignatureMetrics {
    pub(crate) fn new(registry: &mut Registry) -> SignatureMetrics {
        let metrics = SignatureMetrics::default();
        registry.register(
            "tollhouse_request_signatures",
            "Signatures of requests, by who signs (`robot` or `application`) and result: `verified`, or why they do not count",
            metrics.0.clone(),
        );
        metrics
    }

    /// Counts a signature.
    pub(crate) fn count(&self, of: &'static str, result: &'static str) {
        self.0.get_or_create(&SignatureLabel { of, result }).inc();
    }
}
