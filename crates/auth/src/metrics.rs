//! Counters of name service.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// Upper bounds of the buckets of resolvers' times, in seconds.
const SECONDS: [f64; 14] =
    [0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0];

/// The source of an answer.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub(crate) enum DnsAnswerSource {
    Cache,
    /// A question that was under way already.
    Flight,
    Upstream,
    /// One whose time was over.
    Stale,
    /// Nowhere: too many questions were under way.
    Refused,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct DnsSourceLabel {
    from: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OutcomeLabel {
    outcome: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ListLabel {
    list: String,
}

/// The metrics that are counted about name service.
#[derive(Clone, Debug)]
pub struct DnsMetrics {
    lookups: Family<DnsSourceLabel, Counter>,
    queries: Family<OutcomeLabel, Histogram>,
    /// Questions whose deadline came first.
    pub(crate) timeouts: Counter,
    /// Answers by which a DNS list refuses to serve us.
    refusals: Family<ListLabel, Counter>,
}

impl Default for DnsMetrics {
    fn default() -> DnsMetrics {
        DnsMetrics {
            lookups: Family::default(),
            queries: Family::new_with_constructor((|| Histogram::new(SECONDS)) as fn() -> Histogram),
            timeouts: Counter::default(),
            refusals: Family::default(),
        }
    }
}

impl DnsMetrics {
    /// Counts a question.
    pub(crate) fn lookup(&self, from: DnsAnswerSource) {
        let from = match from {
            DnsAnswerSource::Cache => "cache",
            DnsAnswerSource::Flight => "flight",
            DnsAnswerSource::Upstream => "upstream",
            DnsAnswerSource::Stale => "stale",
            DnsAnswerSource::Refused => "refused",
        };
        self.lookups.get_or_create(&DnsSourceLabel { from }).inc();
    }

    /// Counts what resolvers answered, in a word.
    pub(crate) fn answered(&self, outcome: &'static str, took: Duration) {
        self.queries.get_or_create(&OutcomeLabel { outcome }).observe(took.as_secs_f64());
    }

    /// Counts a list's refusal.
    pub(crate) fn refused(&self, list: &str) {
        self.refusals.get_or_create(&ListLabel { list: list.to_owned() }).inc();
    }

    /// Adds the counters to a page.
    pub fn register(&self, registry: &mut Registry) {
        let help =
            "DNS lookups, by where the answer came from; `stale`: an expired answer stood in for a new one";
        registry.register("tollhouse_dns_lookups", help, self.lookups.clone());
        let help = "Time until a resolver answered, in seconds, by result";
        registry.register("tollhouse_dns_query_seconds", help, self.queries.clone());
        let help = "DNS lookups that were not answered before their deadline";
        registry.register("tollhouse_dns_timeouts", help, self.timeouts.clone());
        let help = "Answers by which a DNS list refuses to serve this resolver";
        registry.register("tollhouse_dnsbl_refusals", help, self.refusals.clone());
    }
}
