//! Tests of the ban list.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, OpenOptions};

use event::Span;
use journal::RecordId;

use super::*;

const NOW: Time = Time::from_seconds(1_779_012_000);

fn put(value: &str, seconds: i64) -> NewBan {
    NewBan {
        pipeline: "web".into(),
        kind: "ip".into(),
        label: "scanner".into(),
        decision: "ban".into(),
        value: value.into(),
        by: "PROBE".into(),
        since: NOW,
        until: NOW + Span::seconds(seconds),
        cause: BanCause::default(),
    }
}

fn values(bans: &[Ban]) -> Vec<&str> {
    bans.iter().map(|ban| &*ban.value).collect()
}

/// All of what is new, page by page.
fn new(bans: &BanList, changes: &BanChanges, now: Time) -> Vec<Ban> {
    let (mut rest, mut all) = (changes.new.clone(), Vec::new());
    while rest.is_some() {
        all.extend(bans.page(&mut rest, now));
    }
    all
}

#[test]
fn who_polls_is_told_what_has_changed() {
    let bans = BanList::default();
    bans.put(vec![put("192.0.2.1", 60), put("192.0.2.2", 600)]);
    let first = bans.held(NOW);
    assert_eq!(values(&new(&bans, &first, NOW)), ["192.0.2.1", "192.0.2.2"]);
    assert_eq!(bans.since(first.next, NOW), BanChanges { next: first.next, ..BanChanges::default() });
    // The same again says nothing new, a longer one does.
    bans.put(vec![put("192.0.2.2", 500), put("192.0.2.3", 600), put("192.0.2.1", 90)]);
    let second = bans.since(first.next, NOW);
    assert_eq!(values(&new(&bans, &second, NOW)), ["192.0.2.3", "192.0.2.1"]);
    let later = NOW + Span::seconds(90);
    let third = bans.since(second.next, later);
    let changed = (new(&bans, &third, later), values(&third.deleted));
    assert_eq!(changed, (vec![], vec!["192.0.2.1"]));
    assert_eq!(bans.lift("192.0.2.3"), 1);
    let fourth = bans.since(third.next, later);
    assert_eq!(values(&fourth.deleted), ["192.0.2.3"]);
    assert_eq!(values(&new(&bans, &bans.held(later), later)), ["192.0.2.2"]);
    // A number of another table's.
    assert_eq!(values(&new(&bans, &bans.since(u64::MAX, later), later)), ["192.0.2.2"]);
}

#[test]
fn a_restart_forgets_nothing() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("labels.ndjson");
    let bans = BanList::open(&path, false).unwrap();
    bans.put(vec![put("192.0.2.1", 60), put("192.0.2.2", 600), put("192.0.2.2", 700)]);
    bans.lift("192.0.2.1");
    bans.maintain(NOW).unwrap();
    let before = new(&bans, &bans.held(NOW), NOW);
    drop(bans);
    // A crash in the middle of a line.
    OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"put\":{\"id\"").unwrap();
    let bans = BanList::open(&path, false).unwrap();
    assert_eq!(new(&bans, &bans.held(NOW), NOW), before);
    bans.put(vec![put("192.0.2.9", 60)]);
    let after = new(&bans, &bans.held(NOW), NOW);
    assert!(after[1].id > before[0].id, "numbers are not given twice");
    assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 2);
}

#[test]
fn a_ban_says_since_when_it_holds_and_why() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("labels.ndjson");
    let bans = BanList::open(&path, false).unwrap();
    let at = |seconds| NOW + Span::seconds(seconds);
    let cause = |number| BanCause { decision: Some(RecordId(number)), why: None };
    let held = |bans: &BanList, now| {
        let ban = bans.of_value("192.0.2.1", now).pop().unwrap();
        (ban.since, ban.until, ban.cause.as_deref().cloned().unwrap())
    };
    bans.put(vec![NewBan { cause: cause(1), ..put("192.0.2.1", 60) }]);
    bans.put(vec![NewBan { since: at(30), cause: cause(2), ..put("192.0.2.1", 120) }]);
    assert_eq!(held(&bans, at(30)), (NOW, at(120), cause(2)), "made longer");
    bans.put(vec![NewBan { since: at(40), cause: cause(3), ..put("192.0.2.1", 90) }]);
    assert_eq!(held(&bans, at(40)), (NOW, at(120), cause(2)), "it is long enough");
    // It had ended, though nobody has swept it away yet.
    let by_hand = BanCause { decision: None, why: Some("It tries \"passwords\"\n".to_owned()) };
    bans.put(vec![NewBan { since: at(200), cause: by_hand.clone(), ..put("192.0.2.1", 300) }]);
    assert_eq!(held(&bans, at(200)), (at(200), at(300), by_hand.clone()));
    drop(bans);
    let bans = BanList::open(&path, false).unwrap();
    assert_eq!(held(&bans, at(200)), (at(200), at(300), by_hand));
}

/// Puts, ends and lifts in any order: look-ups, polls and the file say what a plain list says.
#[test]
fn the_table_says_what_a_list_says() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("labels.ndjson");
    let mut bans = BanList::open(&path, false).unwrap();
    let mut state = 7u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % below
    };
    let value = |number: u64| match number {
        0..20 => format!("192.0.2.{number}"),
        20..30 => format!("192.0.2.{}/{}", (number - 20) * 16, 28),
        30..33 => format!("192.0.{}.0/16", number - 30),
        33..38 => format!("2001:db8::{number:x}"),
        38 => "2001:db8::/64".to_owned(),
        _ => format!("user{number}"),
    };
    let (mut list, mut now): (BTreeMap<String, Time>, Time) = (BTreeMap::new(), NOW);
    let (mut seen, mut place): (BTreeSet<String>, Option<u64>) = (BTreeSet::new(), None);
    for step in 0..2000 {
        match random(10) {
            0..6 => {
                let (value, seconds) = (value(random(45)), 1 + random(100) as i64);
                let until = now + Span::seconds(seconds);
                bans.put(vec![NewBan { until, ..put(&value, 0) }]);
                list.entry(value).and_modify(|end| *end = until.max(*end)).or_insert(until);
            }
            6 => {
                let value = value(random(45));
                bans.lift(&value);
                // A network is the same in whatever form it is written.
                let range = AddressRange::parse(&value);
                list.retain(|own, _| *own != value && (range.is_none() || AddressRange::parse(own) != range));
            }
            7 => now = now + Span::seconds(random(20) as i64),
            8 => bans.maintain(now).unwrap(),
            _ if random(20) == 0 => {
                (bans, place) = (BanList::open(&path, false).unwrap(), None);
            }
            _ => {}
        }
        list.retain(|_, until| *until > now);
        if step % 7 == 0 {
            let address: IpAddr = value(random(20)).parse().unwrap();
            let mut found: Vec<String> =
                bans.of_address(address, now).iter().map(|ban| ban.value.to_string()).collect();
            let covers = |value: &str| {
                AddressRange::parse(value).is_some_and(|range| range.contains(AddressRange::of(address)))
            };
            found.sort();
            let expected: Vec<&String> = list.keys().filter(|value| covers(value)).collect();
            assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{address}");
            let in_range = bans.is_in_range(("web", "ip", "scanner"), address, now);
            assert_eq!(in_range, expected.iter().any(|value| value.contains('/')));
        }
        if step % 5 == 0 {
            let changes = place.map_or_else(|| bans.held(now), |place| bans.since(place, now));
            if place.is_none() {
                seen.clear();
            }
            for ban in &changes.deleted {
                seen.remove(&*ban.value);
            }
            seen.extend(new(&bans, &changes, now).iter().map(|ban| ban.value.to_string()));
            place = Some(changes.next);
            assert_eq!(seen.iter().collect::<Vec<_>>(), list.keys().collect::<Vec<_>>());
        }
    }
}

#[test]
fn ranges_are_read_and_shown() {
    let shown = |text: &str| AddressRange::parse(text).map(|range| range.to_string());
    let check = |text: &str, expected: Option<&str>| assert_eq!(shown(text).as_deref(), expected, "{text}");
    check("192.0.2.7", Some("192.0.2.7"));
    check("192.0.2.7/24", Some("192.0.2.0/24"));
    check("192.0.2.7/32", Some("192.0.2.7"));
    check("::ffff:192.0.2.7", Some("192.0.2.7"));
    check("2001:db8::7/64", Some("2001:db8::/64"));
    check("0.0.0.0/0", Some("0.0.0.0/0"));
    check("::/0", Some("::/0"));
    check("192.0.2.0/33", None);
    check("not an address", None);
    for own in ["127.0.0.1", "127.8.0.0/16", "0.0.0.0", "0.0.0.0/0", "::1", "::/0", "::ffff:127.0.0.1"] {
        assert!(AddressRange::parse(own).unwrap().is_of_this_machine(), "{own}");
    }
    assert!(!AddressRange::parse("10.0.0.0/8").unwrap().is_of_this_machine());
}

#[test]
fn this_machine_itself_is_told_nobody() {
    let bans = BanList::default();
    bans.put(vec![put("127.0.0.1", 60), put("::1", 60), put("192.0.2.1", 60)]);
    assert_eq!(values(&new(&bans, &bans.held(NOW), NOW)), ["192.0.2.1"]);
}

/// Nothing on the allow list is put there, and what was leaves when the list changes; who polls hears of it, and so does the file.
#[test]
fn what_is_allowed_is_not_banned() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("labels.ndjson");
    let bans = BanList::open(&path, false).unwrap();
    bans.put(vec![put("192.0.2.1", 60), put("192.0.2.0/28", 60), put("192.0.2.99", 60)]);
    let first = bans.held(NOW);
    let text = "[allow]\nnetworks = [\"192.0.2.1\", \"198.51.100.0/24\"]\naccounts = [\"ann\"]\n";
    let config = plan::Config::from_text("allow.toml", text, &plan::Overrides::default());
    let allow = plan::Plan::compile(&config).unwrap().allow;
    assert_eq!(bans.set_allow(Arc::clone(&allow)), 2);
    assert!(bans.of_address("192.0.2.1".parse().unwrap(), NOW).is_empty());
    assert!(!bans.has_ranges());
    let second = bans.since(first.next, NOW);
    assert_eq!(values(&second.deleted), ["192.0.2.1", "192.0.2.0/28"]);
    bans.put(vec![put("192.0.2.1", 600), put("198.51.100.7", 60), put("ann", 60), put("10.1.1.1", 60)]);
    assert_eq!(values(&new(&bans, &bans.held(NOW), NOW)), ["192.0.2.99"]);
    drop(bans);
    let bans = BanList::open(&path, false).unwrap();
    assert_eq!(values(&new(&bans, &bans.held(NOW), NOW)), ["192.0.2.99"]);
    assert_eq!(bans.set_allow(allow), 0);
}

#[test]
fn values_show_what_they_are() {
    for (value, scope) in [
        ("192.0.2.1", BanScope::Ip),
        ("2001:db8::1", BanScope::Ip),
        ("192.0.2.0/24", BanScope::Range),
        ("2001:db8::/64", BanScope::Range),
        ("192.0.2.1/32", BanScope::Ip),
        ("192.0.2.0/99", BanScope::Other),
        ("ann", BanScope::Other),
    ] {
        assert_eq!(BanScope::of(value), scope, "{value}");
    }
}

/// A network of full length is its address, however it was put there, asked for or lifted; other forms of an address are found, too.
#[test]
fn a_network_of_full_length_is_its_address() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("labels.ndjson");
    let bans = BanList::open(&path, true).unwrap();
    bans.put(vec![put("192.0.2.7/32", 60), put("2001:db8::7/128", 60), put("192.0.2.8", 60)]);
    bans.put(vec![put("192.0.2.8/32", 90)]);
    let all = new(&bans, &bans.held(NOW), NOW);
    assert_eq!(values(&all), ["192.0.2.7", "2001:db8::7", "192.0.2.8"]);
    assert!(all.iter().all(|ban| ban.scope == BanScope::Ip) && !bans.has_ranges());
    for value in ["192.0.2.7", "192.0.2.7/32", "::ffff:192.0.2.7"] {
        assert_eq!(values(&bans.of_value(value, NOW)), ["192.0.2.7"], "{value}");
        assert!(all[0].is_of(value) && !all[1].is_of(value) && !bans.is_shared(value), "{value}");
        let label = bans.labels_of(value).pop().unwrap();
        assert_eq!((&*label.0.label, &*label.1), ("scanner", "192.0.2.7"));
    }
    drop(bans);
    let bans = BanList::open(&path, true).unwrap();
    for (lifted, listed) in
        [("192.0.2.7/32", "192.0.2.7"), ("2001:DB8::7/128", "2001:db8::7"), ("192.0.2.8", "192.0.2.8")]
    {
        assert_eq!((bans.lift(lifted), bans.lift(listed)), (1, 0));
        for value in [lifted, listed] {
            assert!(!bans.is_shared(value), "{value}: others have not heard of it");
        }
        assert!(bans.is_lifted(("web", "ip", "scanner"), listed, NOW));
    }
    assert!(new(&bans, &bans.held(NOW), NOW).is_empty());
    // What another node says.
    let changes = |value: &str, is_lift| vec![SharedBan { ban: put(value, 600), is_lift }];
    bans.acknowledge(&bans.unshared(100, NOW));
    bans.apply(changes("192.0.2.9/32", false), NOW);
    assert_eq!(values(&bans.of_value("192.0.2.9", NOW)), ["192.0.2.9"]);
    bans.apply(changes("192.0.2.9", true), NOW);
    assert!(bans.of_value("192.0.2.9/32", NOW).is_empty());
}

#[test]
fn a_flipped_bit_costs_one_label() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("labels.ndjson");
    let bans = BanList::open(&path, false).unwrap();
    bans.put((0..3).map(|number| put(&format!("192.0.2.{number}"), 60)).collect());
    drop(bans);
    let whole = fs::read(&path).unwrap();
    for at in 0..whole.len() - 1 {
        let mut flipped = whole.clone();
        flipped[at] ^= 1 << (at % 8);
        fs::write(&path, flipped).unwrap();
        assert!(damaged_lines(&path).unwrap() > 0, "byte {at}");
        let left = BanList::open(&path, false).unwrap().size().0;
        // An end of line that is gone costs the line behind it, too.
        assert!(left == 2 || (left == 1 && whole[at] == b'\n'), "byte {at}: {left}");
    }
}

/// A look-up goes by the index: however many keys there are, it looks at as many. With `TOLLHOUSE_KEYS=4000000` it says
/// how long that takes.
#[test]
fn a_look_up_looks_at_what_it_finds() {
    let bans = BanList::default();
    let wanted = std::env::var("TOLLHOUSE_KEYS").ok().and_then(|keys| keys.parse::<u32>().ok());
    let keys = wanted.unwrap_or(20_000);
    let address = |at: u32| std::net::Ipv4Addr::from(0x0a00_0000 + at);
    for first in (0..keys).step_by(1000) {
        bans.put((first..(first + 1000).min(keys)).map(|at| put(&address(at).to_string(), 60)).collect());
    }
    if wanted.is_some() {
        let started = std::time::Instant::now();
        let found: usize =
            (0..10_000).map(|at| bans.of_address(address(at * 397 % keys).into(), NOW).len()).sum();
        println!("{keys} keys: {:?} a look-up, {found} of 10,000 found", started.elapsed() / 10_000);
    }
    bans.put(vec![put("10.0.0.0/16", 60), put("10.0.0.0/24", 60)]);
    let table = bans.table.lock();
    let address = AddressRange::parse("10.0.0.7").unwrap();
    assert_eq!(table.lengths.len(), 3, "as many looks as there are lengths");
    assert_eq!(table.around(address, AddressRange::WHOLE).count(), 3);
    assert_eq!(table.of_value("10.0.0.7").count(), 1);
}

#[test]
fn the_table_is_bounded() {
    let mut table = BanTable::default();
    let [pipeline, kind, label, decision, by] = ["web", "user", "abuser", "ban", "R"].map(str::to_owned);
    let source = table.source(LabelSource { pipeline, kind, label, decision, by });
    let ban = |at: usize| Ban {
        id: at as u64,
        scope: BanScope::Other,
        source: Arc::clone(&source),
        value: format!("user{at}").into(),
        since: NOW,
        until: NOW + Span::seconds(60 + at as i64),
        cause: None,
    };
    let max = 1000;
    (0..max + 5).for_each(|at| table.put_within(ban(at), max));
    assert_eq!((table.held.len(), table.crowded_out), (max, 5));
    assert_eq!(table.of_value("user4").count() + table.of_value("user5").count(), 1);
}

/// With `TOLLHOUSE_KEYS=5000000` it says how much memory the list takes, and how long a look-up.
#[test]
fn a_look_up_is_one_search_for_each_length_of_prefix() {
    let wanted = std::env::var("TOLLHOUSE_KEYS").ok().and_then(|keys| keys.parse::<u32>().ok());
    let keys = wanted.unwrap_or(20_000);
    // An odd factor, so that no two are the same.
    let address = |at: u32| std::net::Ipv4Addr::from_bits(at.wrapping_mul(2_654_435_761));
    let resident = || {
        let statm = fs::read_to_string("/proc/self/statm").unwrap_or_default();
        statm.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).unwrap_or_default() * 4096
    };
    let before = resident();
    let bans = BanList::default();
    // Not 0.0.0.0, which is this machine.
    for chunk in (1..=keys).collect::<Vec<u32>>().chunks(10_000) {
        bans.put(chunk.iter().map(|at| put(&address(*at).to_string(), i64::from(*at) + 60)).collect());
    }
    bans.put(vec![put("203.0.113.0/24", 60), put("2001:db8::/64", 60)]);
    let is_listed =
        |at: u32| bans.of_address(address(at).into(), NOW).iter().any(|ban| ban.scope == BanScope::Ip);
    // Those of this machine's own network are never listed.
    let listed = (1..=keys).filter(|at| !address(*at).is_loopback() && !address(*at).is_unspecified());
    assert!(listed.step_by(97).all(is_listed));
    assert!((keys + 1..keys + 1000).all(|at| !is_listed(at)));
    assert_eq!(
        bans.of_address([203, 0, 113, 9].into(), NOW)
            .iter()
            .filter(|ban| ban.scope == BanScope::Range)
            .count(),
        1
    );
    if wanted.is_some() {
        let each = (resident() - before) / keys as usize;
        let started = std::time::Instant::now();
        let found = (0..1_000_000u32).filter(|at| is_listed(at.wrapping_mul(7) % (2 * keys))).count();
        let look_up = started.elapsed() / 1_000_000;
        println!("{keys} bans of {each} bytes: {look_up:?} a look-up, {found} found");
    }
}
