//! Forms of all kinds, and short names for long constructions.

use std::sync::Arc;
use std::time::Duration;

use cluster::remote::{
    CellChange, CellForm, CellWrite, Partition, PartitionCount, PartitionImages, PartitionRead, RemoteCell,
    RemoteCluster, RemoteError, WriteBatch, WriteOutcome,
};
use cluster::wire::{WireClient, WireSettings};
use event::{Key, Kind, Shingle, Space, Span, Time};
use stats::cell_export::CellDefinition;
use stats::{AggregateColumn, AggregateLayout, DecayWeight, Layout, Measure};
use tokio::runtime::Runtime;

pub(crate) const WITHIN: Duration = Duration::from_secs(5);

/// SplitMix64.
#[derive(Clone)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

fn windows(counters: &[&str], tiers: &[&str], keep: Option<Span>) -> Measure {
    let tiers: Vec<_> = tiers.iter().map(|tier| tier.parse().unwrap()).collect();
    let counters = counters.iter().map(|counter| (*counter).to_owned()).collect();
    Measure::Windows(Layout::new(counters, &tiers, Vec::new(), keep).unwrap())
}

pub(crate) fn measures() -> Vec<Measure> {
    let decayed = |minutes, weight| AggregateColumn::Decayed { half_life: Span::minutes(minutes), weight };
    let aggregate = |columns: &[AggregateColumn]| {
        Measure::Aggregate(AggregateLayout::new(columns.to_vec(), Span::minutes(30)).unwrap())
    };
    let columns = [
        AggregateColumn::Sum,
        AggregateColumn::Min,
        AggregateColumn::Max,
        decayed(1, DecayWeight::One),
        decayed(60, DecayWeight::Value),
    ];
    vec![
        windows(&["seen"], &["10s x 6"], None),
        windows(&["seen", "spam", "~spam"], &["10s x 6", "1m x 5"], None),
        windows(&["seen", "spam", "ham"], &["1s x 90", "1m x 5"], Some(Span::hours(2))),
        windows(&["seen"], &["1us x 3", "7us x 2"], None),
        Measure::limit(Span::minutes(1), 10).unwrap(),
        Measure::distinct("1m x 2".parse().unwrap(), Vec::new()),
        aggregate(&[AggregateColumn::Count]),
        aggregate(&columns),
        Measure::evidence(Span::minutes(10)),
        Measure::gcra(),
        Measure::last(Span::minutes(10)),
        Measure::approx("1m x 3".parse().unwrap(), Vec::new(), 10),
        Measure::once(Span::minutes(1)),
    ]
}

pub(crate) fn form(kind: u16, measure: Measure) -> Arc<CellForm> {
    let definition = CellDefinition {
        space: Space(3),
        kind: Kind(kind),
        statistic: "statistic".to_owned(),
        kind_name: "kind".to_owned(),
        measure,
    };
    Arc::new(CellForm { id: 0xfeed_0000 + u32::from(kind), ..CellForm::new(definition).unwrap() })
}

pub(crate) fn cell(form: &Arc<CellForm>, shingle: u64) -> RemoteCell {
    let key = Key { space: Space(3), kind: form.definition.kind, shingle: Shingle(shingle) };
    RemoteCell { key, form: form.clone() }
}

/// The wires, with a runtime of their own.
pub(crate) struct WireNode {
    pub(crate) wire: WireClient,
    pub(crate) partitions: PartitionCount,
    runtime: Runtime,
}

impl WireNode {
    pub(crate) fn open(settings: WireSettings) -> WireNode {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let partitions = settings.partitions;
        let wire = runtime.block_on(WireClient::open(settings, runtime.handle().clone())).unwrap();
        WireNode { wire, partitions, runtime }
    }

    /// Waits for what is done over them.
    pub(crate) fn wait<T>(&self, call: impl AsyncFnOnce(&WireClient) -> T) -> T {
        self.runtime.block_on(call(&self.wire))
    }

    pub(crate) fn of(&self, cell: &RemoteCell) -> Partition {
        self.partitions.of(cell.key.shingle)
    }

    pub(crate) fn write_one(&self, batch: WriteBatch) -> Result<WriteOutcome, RemoteError> {
        pollster::block_on(self.wire.write(vec![batch], WITHIN)).remove(0)
    }

    pub(crate) fn read_one(
        &self,
        partition: Partition,
        cells: &[RemoteCell],
    ) -> Result<PartitionImages, RemoteError> {
        let read = PartitionRead { partition, cells: cells.to_vec(), places: Vec::new() };
        pollster::block_on(self.wire.read(vec![read], WITHIN)).remove(0)
    }
}

#[track_caller]
pub(crate) fn assert_made(written: Result<WriteOutcome, RemoteError>) {
    assert!(matches!(written, Ok(WriteOutcome::Now(_))), "{written:?}");
}

pub(crate) fn batch(
    partition: Partition,
    number: u64,
    horizon: Time,
    writes: Vec<(RemoteCell, CellChange)>,
) -> WriteBatch {
    let write = |(cell, change)| CellWrite { cell, change, renews: true };
    let writes = writes.into_iter().map(write).collect();
    WriteBatch { partition, number, previous: number - 1, horizon, writes }
}

/// Settings of a node of this number, for a cluster of one server.
pub(crate) fn settings(nodes: Vec<String>, node: u8) -> WireSettings {
    WireSettings { replicas: 0, open_within: Duration::from_secs(60), ..WireSettings::new(nodes, [node; 16]) }
}
