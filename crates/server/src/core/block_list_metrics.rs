//! Counts of the block lists that were read.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// A result of reading a list.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct BlockListReadLabel {
    list: String,
    result: &'static str,
}

/// A list.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct BlockListLabel {
    list: String,
}

/// Counts of the block lists that were read.
#[derive(Clone, Debug, Default)]
pub(crate) struct BlockListMetrics {
    reads: Family<BlockListReadLabel, Counter>,
    ranges: Family<BlockListLabel, Gauge>,
}

impl BlockListMetrics {
    pub(crate) fn new(registry: &mut Registry) -> BlockListMetrics {
        let metrics = BlockListMetrics::default();
        registry.register(
            "tollhouse_block_list_reads",
            "Block lists that were read, by result: `ok`, `bad-lines` or `failed`",
            metrics.reads.clone(),
        );
        registry.register(
            "tollhouse_block_list_ranges",
            "Ranges of addresses on a block list",
            metrics.ranges.clone(),
        );
        metrics
    }

    /// Counts a reading of a list.
    pub(crate) fn count_read(&self, list: &str, result: &'static str) {
        self.reads.get_or_create(&BlockListReadLabel { list: list.to_owned(), result }).inc();
    }

    /// Notes the number of ranges of a list.
    pub(crate) fn set_ranges(&self, list: &str, ranges: usize) {
        let label = BlockListLabel { list: list.to_owned() };
        self.ranges.get_or_create(&label).set(i64::try_from(ranges).unwrap_or(i64::MAX));
    }
}
