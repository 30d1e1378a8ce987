//! Statistics leave a cluster, and are erased in it, while nodes run.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use cluster::wire::{self, WireClient};
use cluster::{ClusterExport, ClusterSettings, ClusterTransfer, ClusterTransferReport};
use event::Key;
use sim::suite::model::HomeUnderTest;
use sim::suite::*;
use stats::cell_export::{CellContent, CellDefinition, ExportedCell};

use crate::homes::{Home, fresh_for, over, prefix};
use crate::reshard::{move_slots, slots_of};
use crate::servers::{Cluster, wait};
use crate::support::WireNode;

const PARTITIONS: u16 = 64;

/// A way to the cluster that is no node's.
fn way(cluster: &Cluster, prefix: &str) -> WireNode {
    WireNode::open(wire::WireSettings {
        prefix: prefix.to_owned(),
        replicas: 0,
        partitions: cluster::remote::PartitionCount::new(PARTITIONS).unwrap(),
        ..wire::WireSettings::new(cluster.addresses(), [99; 16])
    })
}

/// Adds a number to as many keys, and to some distinct counts.
fn fill(home: &Home, keys: u64) {
    let one = |number: u64| {
        let owner = key(DISTINCT, number % 5);
        request(vec![add(key(MASS, number), at(1000), [(0, number + 1)]), distinct(owner, at(1000), number)])
    };
    observe(home.ledger(), &(0..keys).map(one).collect::<Vec<_>>());
    home.settle();
}

/// All cells, of which none comes twice.
fn exported(way: &WireNode, names_max: usize) -> BTreeMap<(Key, bool), ExportedCell> {
    let definitions = ClusterExport::definitions(&catalog());
    way.wait(async |wire: &WireClient| {
        let mut export = ClusterExport::begin_in_shares(wire, &definitions, names_max).await.unwrap();
        let mut all = BTreeMap::new();
        while let Some(cells) = export.next().await.unwrap() {
            for cell in cells {
                assert_eq!(definitions[cell.definition].kind, cell.key.kind);
                assert!(all.insert((cell.key, cell.pair), cell.clone()).is_none(), "{cell:?} comes twice");
            }
        }
        let done = export.done();
        assert_eq!((done.cells, done.lost, done.others), (all.len() as u64, 0, 0));
        all
    })
}

#[test]
pub(crate) fn every_cell_leaves_once() {
    let Some(cluster) = Cluster::start() else { return };
    let prefix = prefix();
    let home = over(&cluster, &prefix, 1, PARTITIONS, fresh_for(Duration::ZERO));
    fill(&home, 3000);
    let way = way(&cluster, &prefix);
    let all = exported(&way, usize::MAX);
    assert_eq!(all.len(), 3000 + 5 + 3000, "keys, owners and pairs");
    for number in 0..3000 {
        let CellContent::Buckets(buckets) = &all[&(key(MASS, number), false)].content else { panic!() };
        assert_eq!(buckets[0].counts, [number + 1, 0]);
    }
    assert_eq!(exported(&way, 300), all, "in shares");

    // A definition that is not in force has no meaning here.
    let others = way.wait(async |wire: &WireClient| {
        let mut export = ClusterExport::begin(wire, &[]).await.unwrap();
        while let Some(cells) = export.next().await.unwrap() {
            assert_eq!(cells, []);
        }
        export.done().others
    });
    assert_eq!(others, 6005);
}

#[test]
fn an_export_fails_where_slots_move_meanwhile() {
    let Some(cluster) = Cluster::start() else { return };
    let prefix = prefix();
    let home = over(&cluster, &prefix, 1, PARTITIONS, fresh_for(Duration::ZERO));
    fill(&home, 3000);
    let way = way(&cluster, &prefix);
    let definitions = ClusterExport::definitions(&catalog());
    let mut export =
        way.wait(async |wire: &WireClient| ClusterExport::begin(wire, &definitions).await.unwrap());
    way.wait(async |_: &WireClient| export.next().await.unwrap());
    let masters = cluster.masters();
    let slots = slots_of(&cluster, masters[0], 300);
    move_slots(&cluster, masters[0], masters[1], &slots);
    let failure = way.wait(async |_: &WireClient| {
        loop {
            match export.next().await {
                Ok(Some(_)) => {}
                Ok(None) => panic!("it came to its end"),
                Err(failure) => break failure,
            }
        }
    });
    assert!(failure.to_string().contains("begin again"), "{failure}");
    assert_eq!(exported(&way, usize::MAX).len(), 6005, "begun again");
}

/// Cells with their definitions.
fn named<'a>(
    all: &'a BTreeMap<(Key, bool), ExportedCell>,
    definitions: &'a [CellDefinition],
) -> impl Iterator<Item = (&'a CellDefinition, ExportedCell)> {
    all.values().map(move |cell| (&definitions[cell.definition], cell.clone()))
}

/// Nodes answer for an hour what they have read, unless they are told of a change.
fn lasting() -> ClusterSettings {
    let hour = Duration::from_secs(3600);
    ClusterSettings { stale_for: hour, ..fresh_for(hour) }
}

/// The counts of keys of these numbers.
fn sums(home: &Home, numbers: &[u64]) -> Vec<u64> {
    let observations = numbers.iter().map(|number| peek(key(MASS, *number), at(1000))).collect();
    let outcome = observe_one(home.ledger(), request(observations));
    outcome.readings.iter().map(|reading| reading.sum(0, 0)).collect()
}

#[test]
pub(crate) fn what_is_brought_in_is_read_by_every_node() {
    let Some(cluster) = Cluster::start() else { return };
    let prefixes = [prefix(), prefix()];
    let [from, to] = prefixes.each_ref().map(|prefix| over(&cluster, prefix, 1, PARTITIONS, lasting()));
    fill(&from, 200);
    assert_eq!(sums(&to, &[7, 8]), [0, 0]);
    let [from, into] = prefixes.each_ref().map(|prefix| way(&cluster, prefix));
    let all = exported(&from, usize::MAX);
    let definitions = ClusterExport::definitions(&catalog());
    let moved = |writes: bool| {
        into.wait(async |wire: &WireClient| {
            let mut transfer =
                ClusterTransfer::new(Arc::new(wire.clone()), into.partitions, at(1000), writes);
            transfer.take(named(&all, &definitions)).await.unwrap();
            let ClusterTransferReport { same, created, changed, .. } = transfer.end().await.unwrap();
            [same, created, changed]
        })
    };
    let count = all.len() as u64;
    assert_eq!(moved(false), [0, count, 0], "only compared");
    assert_eq!(sums(&to, &[7, 8]), [0, 0]);
    assert_eq!(moved(true), [0, count, 0]);
    wait("the node has been told", || sums(&to, &[7, 8]) == [8, 9]);
    assert_eq!(moved(true), [count, 0, 0], "all is as it was there");
}

#[test]
pub(crate) fn what_is_erased_is_gone_for_every_node() {
    let Some(cluster) = Cluster::start() else { return };
    let prefix = prefix();
    let nodes = [1, 2].map(|node| over(&cluster, &prefix, node, PARTITIONS, lasting()));
    fill(&nodes[0], 200);
    for node in &nodes {
        assert_eq!(sums(node, &[7, 3, 8]), [8, 4, 9]);
    }
    let way = way(&cluster, &prefix);
    let shingles = HashSet::from([key(MASS, 7).shingle, key(DISTINCT, 3).shingle]);
    let erase = |pretend| {
        let mut looked = 0;
        let erased = way.wait(async |wire: &WireClient| {
            cluster::erase(wire, &shingles, pretend, &mut |names| looked = names).await.unwrap()
        });
        assert!(looked > 0);
        erased
    };
    // The number 3 is a key of both kinds.
    assert_eq!(erase(true), 3);
    assert_eq!(erase(false), 3);
    for node in &nodes {
        wait("the node has been told", || sums(node, &[7, 3, 8]) == [0, 0, 9]);
        assert_eq!(pollster::block_on(node.ledger().timeline(key(DISTINCT, 3))).unwrap(), None);
        assert!(node.node().metrics().renewals > 0);
    }
    assert_eq!(erase(false), 0);
    assert_eq!(exported(&way, usize::MAX).len(), 200 + 5 + 200 - 3, "pairs do not tell whose they are");
}
