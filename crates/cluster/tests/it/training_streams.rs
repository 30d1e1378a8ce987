//! Streams of training examples of linear models, and snapshots of these, over a server.

use std::time::Duration;

use cluster::remote::RemoteError;
use cluster::wire::{StreamExample, StreamPage, StreamPosition, StreamRange, StreamReceipt};

use crate::servers::{Cluster, wait};
use crate::support::{Random, WireNode, settings};

const MODEL: [u8; 5] = [3, 0, 7, 0, 1];
const LEASE: Duration = Duration::from_secs(60);

fn example(sender: u64, number: u64) -> StreamExample {
    StreamExample { id: [sender, number], content: format!("{sender} teaches {number}\0\r\n").into_bytes() }
}

fn examples(sender: u64, numbers: std::ops::Range<u64>) -> Vec<StreamExample> {
    numbers.map(|number| example(sender, number)).collect()
}

fn append(node: &WireNode, known: u64, examples: Vec<StreamExample>) -> StreamReceipt {
    node.wait(async |wire| wire.append_examples(MODEL, known, examples).await).unwrap()
}

fn after(node: &WireNode, position: StreamPosition) -> StreamPage {
    node.wait(async |wire| wire.examples_after(MODEL, position).await).unwrap()
}

fn place(number: u64, id: [u64; 2]) -> StreamPosition {
    StreamPosition { number, id }
}

/// All examples behind a place that is one of the stream.
fn all(node: &WireNode, mut position: StreamPosition) -> Vec<StreamExample> {
    let mut found = Vec::new();
    loop {
        let page = after(node, position);
        assert!(page.follows);
        let Some(last) = page.examples.last() else {
            assert_eq!(position.number, page.head);
            return found;
        };
        position = place(position.number + page.examples.len() as u64, last.id);
        found.extend(page.examples);
    }
}

fn lease(node: &WireNode, span: Duration) -> Option<u64> {
    node.wait(async |wire| wire.lease_model(MODEL, span).await).unwrap()
}

fn put(
    node: &WireNode,
    lease: u64,
    position: StreamPosition,
    range: StreamRange,
    content: Vec<u8>,
) -> Result<bool, RemoteError> {
    node.wait(async |wire| wire.put_model_snapshot(MODEL, lease, position, range, content).await)
}

#[test]
fn examples_of_many_nodes_have_one_order_and_come_once() {
    let Some(cluster) = Cluster::single(&[]) else { return };
    let nodes: Vec<WireNode> =
        (1..=3).map(|node| WireNode::open(settings(cluster.addresses(), node))).collect();
    assert!(after(&nodes[0], StreamPosition::default()).examples.is_empty());
    std::thread::scope(|scope| {
        for (sender, node) in (1..).zip(&nodes) {
            scope.spawn(move || {
                let mut random = Random(sender);
                let mut next = 1u64;
                while next <= 200 {
                    // Some of them come again, as after an answer that was lost.
                    let from = next.saturating_sub(random.below(5)).max(1);
                    let to = next + 1 + random.below(20);
                    let receipt = append(node, 0, examples(sender, from..to));
                    assert_eq!(receipt, StreamReceipt { last: to - 1, is_full: false, is_behind: false });
                    next = to;
                }
            });
        }
    });
    let whole = all(&nodes[0], StreamPosition::default());
    assert!(whole.len() >= 600 && whole == all(&nodes[2], StreamPosition::default()));
    for sender in 1..=3 {
        let own: Vec<&StreamExample> = whole.iter().filter(|example| example.id[0] == sender).collect();
        let expected = examples(sender, 1..own.len() as u64 + 1);
        assert!(own.into_iter().eq(&expected), "each once, in order");
    }
    // What comes again does nothing, and who knows of more than there is, is told so.
    let head = whole.len() as u64;
    assert_eq!(
        append(&nodes[1], head, examples(2, 1..20)).last,
        whole.iter().filter(|example| example.id[0] == 2).count() as u64
    );
    assert!(append(&nodes[1], head + 1, examples(9, 1..2)).is_behind);
    let page = after(&nodes[0], place(head, whole.last().unwrap().id));
    assert!((page.head, page.follows, page.examples.len()) == (head, true, 0));
    // A place of another stream is none of this one.
    for wrong in [place(head, [9, 9]), place(head + 1, [1, 1]), place(3, whole[3].id)] {
        assert!(!after(&nodes[0], wrong).follows, "{wrong:?}");
    }
    let page = after(&nodes[0], place(4, whole[3].id));
    assert!(page.follows && page.examples[..] == whole[4..4 + page.examples.len()]);
}

#[test]
fn a_snapshot_is_put_by_who_has_the_lease_and_lets_the_stream_be_cut() {
    let Some(cluster) = Cluster::single(&[]) else { return };
    let [one, other] = [1, 2].map(|node| WireNode::open(settings(cluster.addresses(), node)));
    let keys = || cluster.servers[0].cli(&["DBSIZE"]).trim().parse::<u64>().unwrap();
    let before = keys();
    for from in (1..3_000).step_by(100) {
        append(&one, 0, examples(1, from..from + 100));
    }
    let own = lease(&one, LEASE).unwrap();
    assert_eq!(lease(&other, LEASE), None, "one at a time");
    let content: Vec<u8> =
        (0..1_300_000u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 7) as u8).collect();
    let position = place(2_500, [1, 2_500]);
    assert!(!put(&other, own ^ 1, position, StreamRange::Kept(100), vec![1; 9]).unwrap(), "not the lease");
    assert!(!put(&one, own, place(2_500, [1, 2_499]), StreamRange::Kept(100), vec![1; 9]).unwrap());
    assert!(!put(&one, own, place(3_001, [1, 3_001]), StreamRange::Kept(100), vec![1; 9]).unwrap());
    assert!(put(&one, own, position, StreamRange::Kept(100), content.clone()).unwrap());
    let page = after(&other, StreamPosition::default());
    let found = page.snapshot.unwrap();
    assert!((page.head, page.follows, found.position, found.pieces) == (3_000, false, position, 3));
    let read = other.wait(async |wire| wire.model_snapshot(MODEL, found).await).unwrap();
    assert!(read.as_ref() == Some(&content));
    // All behind it is there, and a little before it.
    assert_eq!(all(&other, position), examples(1, 2_501..3_001));
    assert_eq!(all(&other, place(2_400, [1, 2_400])), examples(1, 2_401..3_001));
    assert!(
        !after(&other, place(2_399, [1, 2_399])).follows && !after(&other, place(2_400, [1, 2_401])).follows
    );
    assert_eq!(
        after(&other, position).bytes,
        examples(1, 2_401..3_001).iter().map(|example| 16 + example.content.len() as u64).sum::<u64>()
    );

    // The next one: the pieces of this one go, and of one whose writer was killed; an older one takes no place.
    let dead = lease(&one, Duration::from_millis(200)).unwrap();
    wait("the lease ends", || lease(&other, Duration::from_millis(1)).is_some());
    wait("this one, too", || {
        lease(&other, LEASE).is_some_and(|lease| {
            assert!(
                !put(&one, dead, place(3_000, [1, 3_000]), StreamRange::Kept(0), vec![3; 700_000]).unwrap()
            );
            assert!(!put(&other, lease, place(2_450, [1, 2_450]), StreamRange::Kept(0), vec![4; 5]).unwrap());
            assert!(
                put(&other, lease, place(3_000, [1, 3_000]), StreamRange::Kept(0), vec![5; 600_000]).unwrap()
            );
            true
        })
    });
    assert_eq!(one.wait(async |wire| wire.model_snapshot(MODEL, found).await).unwrap(), None);
    let page = after(&one, place(3_000, [1, 3_000]));
    assert!((page.follows, page.bytes, page.examples.len()) == (true, 0, 0));
    let read = one.wait(async |wire| wire.model_snapshot(MODEL, page.snapshot.unwrap()).await).unwrap();
    assert!(read == Some(vec![5; 600_000]));
    assert_eq!(keys(), before + 3, "the stream, its senders, pieces, and no lease");
    // One that is damaged is asked for anew, of the same example.
    assert!(!page.is_snapshot_wanted);
    one.wait(async |wire| wire.ask_for_model_snapshot(MODEL).await).unwrap();
    assert!(after(&other, place(3_000, [1, 3_000])).is_snapshot_wanted);
    let again = lease(&other, LEASE).unwrap();
    assert!(put(&other, again, place(3_000, [1, 3_000]), StreamRange::Kept(0), vec![6; 9]).unwrap());
    assert!(!after(&other, place(3_000, [1, 3_000])).is_snapshot_wanted);
    // And goes on.
    append(&other, 3_000, examples(2, 1..3));
    assert_eq!(all(&one, place(3_000, [1, 3_000])), examples(2, 1..3));
}

#[test]
fn a_stream_begins_with_a_snapshot_where_it_is_as_it_was_known() {
    let Some(cluster) = Cluster::single(&[]) else { return };
    let node = WireNode::open(settings(cluster.addresses(), 1));
    append(&node, 0, examples(1, 1..11));
    let own = lease(&node, LEASE).unwrap();
    assert!(!put(&node, own, place(10, [7, 1]), StreamRange::Instead(9), vec![1]).unwrap());
    assert!(put(&node, own, place(11, [7, 1]), StreamRange::Instead(10), vec![2]).unwrap());
    let page = after(&node, place(10, [1, 10]));
    assert!((page.follows, page.head, page.snapshot.unwrap().position) == (false, 11, place(11, [7, 1])));
    assert_eq!(append(&node, 11, examples(1, 5..13)).last, 12, "senders are known as before");
    assert_eq!(all(&node, place(11, [7, 1])), examples(1, 11..13));
}

#[test]
fn a_stream_has_a_bound_and_damage_is_said() {
    let Some(cluster) = Cluster::single(&[]) else { return };
    let node = WireNode::open(settings(cluster.addresses(), 1));
    let mut sent = 0;
    let last = loop {
        let receipt = append(&node, 0, examples(1, sent + 1..sent + 401));
        sent += 400;
        if receipt.is_full {
            break receipt.last;
        }
        assert_eq!(receipt.last, sent);
    };
    assert_eq!(last, 20_000);
    let own = lease(&node, LEASE).unwrap();
    assert!(put(&node, own, place(19_000, [1, 19_000]), StreamRange::Kept(500), vec![1]).unwrap());
    assert_eq!(append(&node, 0, examples(1, 20_001..20_050)).last, 20_049);
    assert_eq!(all(&node, place(18_500, [1, 18_500])).len(), 20_049 - 18_500);
    // Bytes are bounded, too.
    let large = |number| StreamExample { id: [2, number], content: vec![7; 400 << 10] };
    let mut number = 0;
    let receipt = loop {
        number += 1;
        let receipt = append(&node, 0, vec![large(number)]);
        if receipt.is_full {
            break receipt;
        }
    };
    assert_eq!((receipt.last, number), (number - 1, 164));
    // Many senders: those of long ago are forgotten.
    let own = lease(&node, LEASE).unwrap();
    let head = after(&node, StreamPosition::default()).head;
    assert!(put(&node, own, place(head, [2, 163]), StreamRange::Kept(0), vec![1]).unwrap());
    for sender in 10..1_100 {
        append(&node, 0, examples(sender, 1..2));
    }
    assert_eq!(append(&node, 0, examples(1_099, 1..2)).last, 1);
    let known = after(&node, StreamPosition::default()).head;
    append(&node, 0, examples(1_099, 1..2));
    append(&node, 0, examples(500, 1..2));
    assert_eq!(after(&node, StreamPosition::default()).head, known);
}
