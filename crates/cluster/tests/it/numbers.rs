//! The registry of numbers that nodes share.

use std::collections::HashSet;

use cluster::wire::{ChangeEntry, ChangeEntryKind, ChangeListPosition, SUBJECT_BYTES};
use event::{Shingle, Space};
use stats::{NumberRegistry, NumberedSection, RegisteredName};

use crate::servers::Cluster;
use crate::support::{WireNode, settings};

const NAMES: usize = 40;
const NODES: u8 = 4;

fn kind(name: &str) -> RegisteredName {
    RegisteredName { space: Space(3), section: NumberedSection::Kind, name: name.to_owned() }
}

/// The names that a node of this number meets: all nodes the same, each in another order.
fn wanted(node: u8) -> NumberRegistry {
    let mut registry = NumberRegistry::default();
    for at in 0..NAMES {
        let name = (at * 7 + usize::from(node) * 11) % NAMES;
        registry.allot(kind(&format!("k{name}"))).unwrap();
    }
    registry
}

#[test]
fn nodes_that_meet_new_names_at_once_give_them_the_same_numbers() {
    let Some(cluster) = Cluster::single(&[]) else { return };
    let none = NumberRegistry::default();
    let nodes: Vec<WireNode> =
        (0..NODES).map(|node| WireNode::open(settings(cluster.addresses(), node))).collect();
    let registries: Vec<NumberRegistry> = std::thread::scope(|scope| {
        let ask = |(node, wired): (u8, &WireNode)| {
            let mut known = NumberRegistry::default();
            // A few names at a time, so that nodes come between each other.
            for (number, name) in wanted(node).iter() {
                let mut one = NumberRegistry::default();
                one.add_line(&format!("3 kind {} {}", number.0, name.name)).unwrap();
                known = wired.wait(async |wire| wire.allot_numbers(&known, &one).await).unwrap();
            }
            known
        };
        let nodes: Vec<_> = (0..NODES).zip(&nodes).map(|node| scope.spawn(move || ask(node))).collect();
        nodes.into_iter().map(|node| node.join().unwrap()).collect()
    });
    let all = nodes[0].wait(async |wire| wire.allot_numbers(&none, &none).await).unwrap();
    assert_eq!(all.iter().count(), NAMES);
    let mut numbers: Vec<u16> = all.iter().map(|(number, _)| number.0).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=NAMES as u16).collect::<Vec<_>>(), "none is left out");
    for registry in registries {
        assert!(all.includes(&registry), "{registry}\n{all}");
    }
}

#[test]
fn a_registry_that_was_lost_is_given_back_by_who_knows_it() {
    let Some(cluster) = Cluster::single(&[]) else { return };
    let node = WireNode::open(settings(cluster.addresses(), 1));
    let none = NumberRegistry::default();
    let known = node.wait(async |wire| wire.allot_numbers(&none, &wanted(0)).await).unwrap();
    cluster.servers[0].cli(&["FLUSHALL"]);
    let other: NumberRegistry = "3 kind 1 stranger\n".parse().unwrap();
    let there = node.wait(async |wire| wire.allot_numbers(&none, &other).await).unwrap();
    assert_eq!(there, other);
    let both = node.wait(async |wire| wire.allot_numbers(&known, &known).await).unwrap();
    assert_eq!(both.number(&kind("stranger")).unwrap().0, 1);
    let (first, rest): (Vec<_>, Vec<_>) = known.iter().partition(|(number, _)| number.0 == 1);
    assert_eq!(both.number(first[0].1), None, "its number is another's: who has counted by it says so");
    assert!(rest.iter().all(|(number, name)| both.number(name) == Some(*number)), "{both}");
}

#[test]
fn nodes_have_numbers_of_their_own_and_hear_of_each_other() {
    let Some(cluster) = Cluster::single(&[]) else { return };
    let nodes: Vec<WireNode> =
        (1..=6).map(|node| WireNode::open(settings(cluster.addresses(), node))).collect();
    let numbers: Vec<u16> = std::thread::scope(|scope| {
        let ask = |wired: &WireNode| wired.wait(async |wire| wire.node_number(9).await).unwrap();
        let asked: Vec<_> = nodes.iter().map(|node| scope.spawn(move || ask(node))).collect();
        asked.into_iter().map(|node| node.join().unwrap()).collect()
    });
    let mut sorted = numbers.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, [1, 2, 3, 4, 5, 6], "as many as there are nodes, each once");
    // One that comes back has its number again.
    let again = WireNode::open(settings(cluster.addresses(), 3));
    assert_eq!(again.wait(async |wire| wire.node_number(9).await).unwrap(), numbers[2]);
    // There is no seventh of six.
    let seventh = WireNode::open(settings(cluster.addresses(), 7));
    let refused = seventh.wait(async |wire| wire.node_number(6).await).unwrap_err().to_string();
    assert!(refused.contains("all 6 numbers of nodes are taken"), "{refused}");

    let announce = |node: &WireNode, number: u16, entry: &str| {
        node.wait(async |wire| wire.announce(number, entry.to_owned()).await)
    };
    assert_eq!(announce(&nodes[0], numbers[0], "one").unwrap().into_values().collect::<Vec<_>>(), ["one"]);
    let both = announce(&nodes[1], numbers[1], "two").unwrap();
    assert_eq!(both.len(), 2);
    assert_eq!((both[&numbers[0]].as_str(), both[&numbers[1]].as_str()), ("one", "two"));
    assert_eq!(announce(&nodes[0], numbers[0], "one again").unwrap()[&numbers[0]], "one again");
    // Nobody speaks for another.
    let refused = announce(&nodes[0], numbers[1], "not two").unwrap_err().to_string();
    assert!(refused.contains("another node's"), "{refused}");
    assert!(announce(&nodes[0], numbers[0], &"x".repeat(17 << 10)).is_err(), "more than an entry may be");
    assert_eq!(announce(&nodes[0], numbers[0], "one").unwrap()[&numbers[1]], "two");
}

/// The digests and texts of posted rules that the cluster has.
fn kept_texts(wired: &WireNode, digests: &[&str]) -> Vec<bool> {
    let has = |digest: &&str| wired.wait(async |wire| wire.rules((*digest).to_owned()).await).is_ok();
    digests.iter().map(has).collect()
}

#[test]
fn posted_rules_have_one_order_and_old_texts_go() {
    let Some(cluster) = Cluster::single(&[]) else { return };
    let [one, other] = [1, 2].map(|node| WireNode::open(settings(cluster.addresses(), node)));
    let put = |node: &WireNode, known: u64, digest: &str| {
        node.wait(async |wire| {
            wire.put_rules(known, digest.to_owned(), format!("text of {digest}\nand more")).await
        })
    };
    let last = |node: &WireNode| node.wait(async |wire| wire.last_rules().await).unwrap();
    assert_eq!(last(&one), (0, String::new()));
    assert!(put(&one, 0, "a").unwrap());
    assert_eq!(last(&other), (1, "a".to_owned()));
    assert_eq!(other.wait(async |wire| wire.rules("a".to_owned()).await).unwrap(), "text of a\nand more");
    // Who does not know the last is refused, and leaves nothing; one with the same text takes nothing away.
    assert!(!put(&other, 0, "b").unwrap() && !put(&other, 0, "a").unwrap());
    assert_eq!(kept_texts(&one, &["a", "b"]), [true, false]);
    for (known, digest) in (1..).zip(["c", "d", "a", "e", "f"]) {
        assert!(put(&other, known, digest).unwrap(), "{digest}");
    }
    // Of a, c, d, a, e, f the last four have theirs.
    assert_eq!(last(&one), (6, "f".to_owned()));
    assert_eq!(kept_texts(&one, &["a", "c", "d", "e", "f"]), [true, false, true, true, true]);
    assert!(one.wait(async |wire| wire.put_rules(6, "g".to_owned(), "x".repeat(17 << 20)).await).is_err());
    // Of many at once each number has one.
    let taken: Vec<bool> = std::thread::scope(|scope| {
        let ask = |(node, digest)| scope.spawn(move || put(node, 6, digest).unwrap());
        let asked: Vec<_> = [(&one, "h"), (&other, "i"), (&one, "j"), (&other, "k")].map(ask).into();
        asked.into_iter().map(|asked| asked.join().unwrap()).collect()
    });
    assert_eq!(taken.iter().filter(|taken| **taken).count(), 1);
    let (number, digest) = last(&one);
    assert_eq!(number, 7);
    assert_eq!(kept_texts(&one, &[&digest]), [true]);
}

fn subject(number: u8) -> [u8; SUBJECT_BYTES] {
    [number; SUBJECT_BYTES]
}

fn change(number: u8, kind: ChangeEntryKind, until: u64, text: &str) -> ChangeEntry {
    ChangeEntry { subject: subject(number), kind, until, text: text.into() }
}

/// All changes behind a place, in pages; moves the place behind them.
fn read_all(
    wired: &WireNode,
    position: &mut ChangeListPosition,
) -> Option<Vec<(u8, ChangeEntryKind, u64, String)>> {
    let mut all = Vec::new();
    loop {
        let page = wired.wait(async |wire| wire.changes_since(*position).await).unwrap()?;
        all.extend(page.entries.into_iter().map(|entry| {
            (entry.subject[0], entry.kind, entry.until, String::from_utf8(entry.text).unwrap())
        }));
        *position = page.position;
        if !page.has_more {
            return Some(all);
        }
    }
}

#[test]
fn shared_changes_have_one_order_and_the_last_of_each_subject_stays() {
    use ChangeEntryKind::{Lift, Put, Set};
    let Some(cluster) = Cluster::single(&[]) else { return };
    let [one, other] = [1, 2].map(|node| WireNode::open(settings(cluster.addresses(), node)));
    let append = |node: &WireNode, entries: Vec<ChangeEntry>, horizon: u64| {
        node.wait(async |wire| wire.append_changes(entries, horizon).await).unwrap()
    };
    let (mut at_one, mut at_other) = (ChangeListPosition::default(), ChangeListPosition::default());
    assert_eq!(read_all(&one, &mut at_one), Some(vec![]));
    append(&one, vec![change(1, Put, 100, "a"), change(2, Put, 900, "b")], 0);
    let text = |text: &str| text.to_owned();
    assert_eq!(
        read_all(&other, &mut at_other),
        Some(vec![(1, Put, 100, text("a")), (2, Put, 900, text("b"))])
    );
    assert_eq!(read_all(&other, &mut at_other), Some(vec![]), "nothing is read twice");

    // A ban is not made shorter, nor said twice; a lift stays until something is put over it.
    append(&other, vec![change(1, Put, 50, "shorter"), change(2, Put, 900, "again")], 0);
    assert_eq!(read_all(&one, &mut at_one).unwrap().len(), 2);
    assert_eq!(read_all(&other, &mut at_other), Some(vec![]));
    append(&one, vec![change(1, Lift, 100, "l")], 0);
    append(&one, vec![change(1, Lift, 100, "l2")], 0);
    assert_eq!(read_all(&other, &mut at_other), Some(vec![(1, Lift, 100, text("l"))]));
    append(&other, vec![change(1, Put, 50, "new"), change(3, Set, u64::MAX, "s"), change(3, Set, 7, "t")], 0);
    let expected = [(1, Lift, 100, text("l")), (1, Put, 50, text("new")), (3, Set, 7, text("t"))];
    assert_eq!(read_all(&one, &mut at_one).unwrap(), expected[1..], "the last of each");
    assert_eq!(read_all(&other, &mut at_other).unwrap(), expected[1..]);

    // What has ended goes, and a place behind it stays good.
    append(&one, vec![], 60);
    let mut anew = ChangeListPosition::default();
    assert_eq!(read_all(&one, &mut anew), Some(vec![(2, Put, 900, text("b"))]));
    assert_eq!(read_all(&one, &mut at_one), Some(vec![]));
    append(&one, vec![change(1, Put, 200, "later")], 60);
    assert_eq!(read_all(&one, &mut at_one), Some(vec![(1, Put, 200, text("later"))]));

    // Many at once: pages, in order.
    let many = |from: u16| {
        let entry = |at: u16| {
            let mut entry = change(9, Put, 1000 + u64::from(at), "many");
            entry.subject[..2].copy_from_slice(&at.to_be_bytes());
            entry
        };
        (from..from + 500).map(entry).collect::<Vec<_>>()
    };
    for from in [1000, 1500, 2000] {
        assert_eq!(append(&one, many(from), 60), 0);
    }
    let read = read_all(&other, &mut at_other).unwrap();
    let untils: Vec<u64> = read.iter().map(|(_, _, until, _)| *until).collect();
    assert_eq!(untils, [vec![200], (2000..3500).collect::<Vec<_>>()].concat());

    // What is of some piece can be erased: subjects begin with its shingle.
    let shingles = HashSet::from([Shingle(u64::from_be_bytes([2; 8])), Shingle(1)]);
    assert_eq!(one.wait(async |wire| wire.erase_changes(&shingles).await).unwrap(), 1);
    let left = read_all(&one, &mut ChangeListPosition::default()).unwrap();
    assert!(left.len() == 1501 && left.iter().all(|(subject, ..)| *subject != 2), "{}", left.len());

    // A failover that has forgotten the last calls is noticed, also where others have their numbers by now.
    cluster.servers[0].cli(&["FLUSHALL"]);
    assert_eq!(read_all(&other, &mut at_other), None);
    for from in [1000, 1500, 2000, 2500, 3000, 3500, 4000, 4500, 5000] {
        append(&one, many(from), 60);
    }
    assert_eq!(read_all(&other, &mut at_other), None);
    assert_eq!(read_all(&other, &mut ChangeListPosition::default()).unwrap().len(), 4500);

    let too_long = change(1, Put, 100, &"x".repeat((8 << 10) + 1));
    assert!(one.wait(async |wire| wire.append_changes(vec![too_long], 0).await).is_err());
}
