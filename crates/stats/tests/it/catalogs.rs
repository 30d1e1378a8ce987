//! Stored cells when the configuration changes.

use std::sync::Arc;

use disk::MemoryDevice;
use event::Kind;
use stats::{Catalog, EmbeddedLedger, Ledger, LedgerError, Measure};

use crate::support::*;

fn with_mass(measure: Measure) -> Catalog {
    let mut builder = Catalog::builder();
    builder.add(SPACE, MASS, statistic("mass", "from", measure)).unwrap();
    builder.build()
}

fn open(device: &MemoryDevice, catalog: Catalog) -> Result<EmbeddedLedger, LedgerError> {
    let (ledger, _) = EmbeddedLedger::open(Arc::new(device.clone()), catalog, options(1 << 20, "sync"))?;
    Ok(ledger)
}

/// Counts under one layout and reads the timeline under another, with a restart in between and without one.
fn check(before: Measure, after: Measure, expected: &[(i64, &str, &[u64])]) {
    let key = key(MASS, 1);
    let count = |ledger: &EmbeddedLedger| {
        let observations =
            [1200, 1215, 1290, 1300].map(|time| add(key, at(time), [(0, 1), (1, 10)])).to_vec();
        observe(ledger, &[request(observations)]);
    };
    let compare = |ledger: &EmbeddedLedger| {
        let timeline = pollster::block_on(ledger.timeline(key)).unwrap().unwrap();
        assert_eq!((timeline.first, timeline.last), (at(1200), at(1300)));
        let found: Vec<(i64, String, Vec<u64>)> = timeline
            .buckets
            .into_iter()
            .map(|bucket| (bucket.start.seconds(), bucket.width.to_string(), bucket.counts))
            .collect();
        let expected: Vec<_> = expected
            .iter()
            .map(|(start, width, counts)| (*start, (*width).to_owned(), counts.to_vec()))
            .collect();
        assert_eq!(found, expected);
    };
    let device = MemoryDevice::new();
    let ledger = open(&device, with_mass(before.clone())).unwrap();
    count(&ledger);
    drop(ledger);
    let ledger = open(&device, with_mass(after.clone())).unwrap();
    compare(&ledger);
    observe(&ledger, &[request(vec![peek(key, at(1300))])]);
    compare(&ledger);

    let ledger = open(&MemoryDevice::new(), with_mass(before)).unwrap();
    count(&ledger);
    ledger.set_catalog(with_mass(after)).unwrap();
    compare(&ledger);
    observe(&ledger, &[request(vec![peek(key, at(1300))])]);
    compare(&ledger);
}

#[test]
fn cells_are_translated_when_the_layout_changes() {
    let two = &["10s x 6", "1m x 5"];
    let before = || windows(&["seen", "spam"], two, &[], None);
    let same: &[(i64, &str, &[u64])] =
        &[(1200, "1m", &[2, 20]), (1290, "10s", &[1, 10]), (1300, "10s", &[1, 10])];
    check(before(), windows(&["seen", "spam"], two, &["1m"], None), same);
    let turned: &[(i64, &str, &[u64])] =
        &[(1200, "1m", &[20, 0, 2]), (1290, "10s", &[10, 0, 1]), (1300, "10s", &[10, 0, 1])];
    check(before(), windows(&["spam", "new", "seen"], two, &[], None), turned);
    check(
        before(),
        windows(&["spam"], &["30s x 2", "2m x 3"], &[], None),
        &[(1200, "2m", &[20]), (1290, "30s", &[20])],
    );
    check(before(), windows(&["seen"], &["1m x 5"], &[], None), &[(1200, "1m", &[2]), (1260, "1m", &[2])]);
    check(before(), windows(&["seen"], &["15s x 8"], &[], None), &[]);
}

#[test]
fn what_was_cleared_stays_so_when_no_rule_clears_any_more() {
    let layout =
        |counters: &[&str]| with_mass(windows(counters, &["10s x 6", "1m x 5"], &["20s", "5m"], None));
    let (clearable, plain) = (layout(&["seen", "failed", "~failed"]), layout(&["seen", "failed"]));
    let key = key(MASS, 1);
    let ledger = open(&MemoryDevice::new(), plain.clone()).unwrap();
    let read = || {
        let reading = observe_one(&ledger, request(vec![peek(key, at(1305))])).readings.remove(0);
        [reading.sum(0, 1), reading.sum(1, 1), reading.sum(1, 0)]
    };
    let fail = |seconds| _ = observe(&ledger, &[request(vec![add(key, at(seconds), [(0, 1), (1, 1)])])]);
    let refused = pollster::block_on(ledger.observe(&[request(vec![clear(key, at(1300), [1])])]));
    assert!(matches!(refused, Err(LedgerError::Unfit { .. })), "{refused:?}");
    [1100, 1200, 1300].into_iter().for_each(fail);
    ledger.set_catalog(clearable.clone()).unwrap();
    assert_eq!(read(), [1, 3, 3]);
    observe(&ledger, &[request(vec![clear(key, at(1300), [1])])]);
    assert_eq!(read(), [0, 0, 3]);
    fail(1302);
    ledger.set_catalog(plain).unwrap();
    assert_eq!(read(), [1, 1, 4]);
    ledger.set_catalog(clearable).unwrap();
    assert_eq!(read(), [1, 1, 4]);
}

#[test]
fn a_kind_that_would_change_its_form_is_refused() {
    let layout = || windows(&["seen"], &["10s x 6"], &[], None);
    let device = MemoryDevice::new();
    drop(open(&device, with_mass(layout())).unwrap());
    let other = |name: &str, kind_name: &str, measure: Measure| {
        let mut builder = Catalog::builder();
        builder.add(SPACE, MASS, statistic(name, kind_name, measure)).unwrap();
        builder.build()
    };
    let distinct = Measure::distinct("1m".parse().unwrap(), vec![]);
    let message = "kind 1 of space 3 is stored as windows `mass` of `from` and now configured as distinct `mass` of `from`: \
                   give the new one another name, or let go of the stored one with `tollhouse ledger names --drop`";
    let catalog = other("mass", "from", distinct);
    assert_eq!(open(&device, catalog.clone()).err().unwrap().to_string(), message);
    let ledger = open(&device, with_mass(layout())).unwrap();
    assert_eq!(ledger.set_catalog(catalog).unwrap_err().to_string(), message);
    observe(&ledger, &[request(vec![add(key(MASS, 1), at(1000), [(0, 1)])])]);
    drop(ledger);
    assert!(open(&device, Catalog::default()).is_ok(), "a kind may go and come back");
    for (seen, (name, kind_name)) in (1..).zip([("other", "from"), ("mass", "ip"), ("mass", "from")]) {
        let ledger = open(&device, other(name, kind_name, layout())).unwrap();
        observe(&ledger, &[request(vec![add(key(MASS, 1), at(1000), [(0, 1)])])]);
        let timeline = pollster::block_on(ledger.timeline(key(MASS, 1))).unwrap().unwrap();
        let total: u64 = timeline.buckets.iter().map(|bucket| bucket.counts[0]).sum();
        assert_eq!(total, seen + 1, "names are none of what is stored");
    }
}

#[test]
fn catalogs_are_checked() {
    let layout = || windows(&["seen"], &["10s x 6"], &[], None);
    let mut builder = Catalog::builder();
    builder.add(SPACE, MASS, statistic("mass", "from", layout())).unwrap();
    builder.add(SPACE, MASS, statistic("mass", "from", layout())).unwrap();
    let mut check = |kind: Kind, name: &str, measure: Measure, message: &str| {
        let refused = builder.add(SPACE, kind, statistic(name, "from", measure)).err().unwrap();
        assert_eq!(refused.to_string(), message);
    };
    check(MASS, "other", layout(), "kind 1 of space 3 is `mass` already and cannot be `other` too");
    check(Kind(0x7ffd), "x", layout(), "kind 32765 is out of range: kinds are numbered below 32765");
    check(Kind(5), "", layout(), "the name `` must have 1 to 64 bytes");
    let distinct = Measure::distinct("1m x 2".parse().unwrap(), vec!["4m".parse().unwrap()]);
    let message = "statistic `d`: no tier can answer the window 4m; possible are multiples of 1m up to 3m";
    check(Kind(5), "d", distinct, message);
    let catalog = builder.build();
    assert_eq!(catalog.iter().count(), 1);
    assert_eq!(catalog.get(SPACE, MASS).unwrap().name, "mass");
    assert!(catalog.get(SPACE, Kind(9)).is_none());
}
