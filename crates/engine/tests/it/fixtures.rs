//! A data directory that was written once is read for as long as there is its format, and says what it said.
//! `UPDATE=1 cargo test -p tollhouse-engine` writes it where it is missing: remove it when a format changes.

use std::collections::HashSet;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use disk::FileDevice;
use engine::{Directory, Engine, Explanation};
use event::{Key, Kind, Shingle, Space, Span, Time, Value};
use journal::{Record, RecordId};
use plan::{Config, Overrides, Plan};
use stats::{
    Addition, Admission, AggregateColumn, AggregateLayout, Catalog, DecayWeight, DedupeMark, EmbeddedLedger,
    Layout, Ledger, Measure, Observation, ObserveRequest, Quality, Reading, Statistic,
};

use crate::pipeline::{CONFIG, NOW, decide_at, event, plan};

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/data")
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), &target).unwrap();
        }
    }
}

/// A copy of a fixture that can be opened; git does not keep the secret's mode.
fn copied() -> (tempfile::TempDir, PathBuf) {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("data");
    copy(&fixture(), &path);
    std::fs::set_permissions(path.join("secret"), std::fs::Permissions::from_mode(0o600)).unwrap();
    (parent, path)
}

/// Opens a directory with the pipeline's plan, does something, and closes it.
fn with_engine(path: &Path, act: impl FnOnce(&Engine)) {
    let engine = Engine::open(&Directory::open(path).unwrap(), plan()).unwrap();
    act(&engine);
    engine.close().unwrap();
}

/// Does what the writer did with a pipeline. Never change it: it tells what the stored bytes must mean.
fn write_pipeline(path: &Path) {
    let directory = Directory::create(path, &[]).unwrap();
    let engine = Engine::open(&directory, plan()).unwrap();
    for minute in 0..300 {
        let mail = format!("user{}@example.org", minute % 7);
        decide_at(&engine, event("192.0.2.1", &mail), NOW + Span::minutes(10 * minute));
    }
    let mut named = event("2001:db8::1", "z@example.org");
    named.id = Some("order-1".to_owned());
    let id = decide_at(&engine, named, NOW + Span::days(3)).id;
    pollster::block_on(engine.feedback(id, "spam", NOW + Span::days(3))).unwrap();
    engine.close().unwrap();
}

fn check_pipeline(engine: &Engine) {
    let pipeline = Arc::clone(&engine.plan().pipelines[0]);
    let timeline = |kind: &str, value: &str| {
        pollster::block_on(engine.timeline(&pipeline, kind, value, NOW)).unwrap().timeline
    };
    let ip = timeline("ip", "192.0.2.1").unwrap();
    assert_eq!((ip.first, ip.last), (NOW, NOW + Span::minutes(2990)));
    assert_eq!(ip.buckets.iter().map(|bucket| bucket.counts[0]).sum::<u64>(), 300);
    assert!(ip.buckets.iter().any(|bucket| bucket.width == Span::days(1)), "some were folded into days");
    let mails = timeline("mails", "192.0.2.1").unwrap();
    assert_eq!(
        mails.buckets.iter().map(|bucket| bucket.counts[0]).collect::<Vec<_>>(),
        [7, 1],
        "the day before and the last minutes"
    );
    let mail = timeline("mail", "z@example.org").unwrap();
    assert_eq!(mail.buckets[0].counts, [1, 0, 1], "seen once, and complained about");

    let records = all(engine);
    let Explanation { facts, keys, event_id, verdict, .. } = engine.explain(records[300].0).unwrap();
    assert_eq!(event_id.as_deref(), Some("order-1"));
    assert!(
        facts.contains(&(
            "user.ip".to_owned(),
            Value::from("2001:db8::1".parse::<std::net::IpAddr>().unwrap())
        ))
    );
    assert!(facts.contains(&("user.ip_net".to_owned(), Value::from("2001:db8::/64"))));
    assert!(keys.iter().any(|key| key.kind == "mail" && key.piece.as_deref() == Some("z@example.org")));
    assert_eq!(verdict.unwrap().shadow[0].rule, "WATCHED");
    // The event's mark is still there.
    let mut again = event("2001:db8::1", "z@example.org");
    again.id = Some("order-1".to_owned());
    assert!(decide_at(engine, again, NOW + Span::days(3)).duplicate);
}

const SPACE: Space = Space(9);
/// The time up to which images were let go.
const FLOOR: Time = Time::from_seconds(1000);
const WINDOWS: Kind = Kind(1);
const AGGREGATE: Kind = Kind(2);
const DISTINCT: Kind = Kind(3);
const APPROX: Kind = Kind(4);
const ONCE: Kind = Kind(5);
const ADMITTED: Kind = Kind(6);

/// A statistic of each form, beside those of the pipeline. Never change it.
fn catalog() -> Catalog {
    let tier = |text: &str| text.parse().unwrap();
    let windows = Layout::new(
        vec!["seen".to_owned(), "spam".to_owned()],
        &[tier("10s x 6"), tier("1m x 5")],
        vec![Span::minutes(1), Span::minutes(5)],
        None,
    );
    let decayed = AggregateColumn::Decayed { half_life: Span::hours(1), weight: DecayWeight::Value };
    let columns = vec![
        AggregateColumn::First,
        AggregateColumn::Last,
        AggregateColumn::Count,
        AggregateColumn::Sum,
        AggregateColumn::Min,
        AggregateColumn::Max,
        decayed,
    ];
    let days = vec![Span::days(1), Span::days(2)];
    let measures = [
        (WINDOWS, Measure::Windows(windows.unwrap())),
        (AGGREGATE, Measure::Aggregate(AggregateLayout::new(columns, Span::days(30)).unwrap())),
        (DISTINCT, Measure::distinct(tier("1d x 2"), days.clone())),
        (APPROX, Measure::approx(tier("1d x 2"), days, 10)),
        (ONCE, Measure::once(Span::hours(1))),
        (
            ADMITTED,
            Measure::Aggregate(AggregateLayout::new(vec![AggregateColumn::Count], Span::days(30)).unwrap()),
        ),
    ];
    let mut builder = Catalog::builder();
    for (kind, measure) in measures {
        let name = format!("statistic{}", kind.0);
        let admit = (kind == ADMITTED).then(|| Admission {
            sketch: Admission::sketch_of(&name),
            after: 4,
            rotate: Span::days(2),
            bytes: 0,
        });
        builder
            .add(SPACE, kind, Statistic { kind_name: name.clone(), name, measure, admit, exact: false })
            .unwrap();
    }
    builder.build()
}

fn ledger(path: &Path) -> EmbeddedLedger {
    let device = FileDevice::open(path.join("ledger")).unwrap();
    let options =
        stats::Options { memory_bytes: 1 << 20, segment_bytes: 8192, durability: stats::Durability::Sync };
    let (ledger, recovery) = EmbeddedLedger::open(Arc::new(device), catalog(), options).unwrap();
    assert!(recovery.losses.is_empty() && recovery.truncated_bytes == 0, "{recovery:?}");
    ledger
}

/// The numbers are mixed, so that they look like hashes; the leading bits are those of the first.
fn key(kind: Kind, number: u64) -> Key {
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    Key { space: SPACE, kind, shingle: Shingle(mixed ^ mixed >> 31) }
}

fn distinct(owner: Key, value: u64) -> Addition {
    let mixed = value.wrapping_add(owner.shingle.0).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    Addition::Distinct { pair: Shingle(owner.shingle.0 >> 48 << 48 | (mixed ^ mixed >> 31) >> 16) }
}

fn observe(
    ledger: &EmbeddedLedger,
    once: Option<u64>,
    observations: Vec<(Key, Time, Addition)>,
) -> Vec<Reading> {
    let observations =
        observations.into_iter().map(|(key, time, add)| Observation { key, time, add }).collect();
    let once = once.map(|number| DedupeMark { key: key(ONCE, number), time: NOW });
    let outcomes = pollster::block_on(ledger.observe(&[ObserveRequest {
        once,
        observations,
        ..ObserveRequest::default()
    }]))
    .unwrap();
    outcomes.outcomes().next().unwrap().readings
}

/// Does what the writer did with statistics of all forms. Never change it.
fn write_ledger(path: &Path) {
    let written = ledger(path);
    // A cell with columns, one with a single event, one with long entries.
    for second in 0..400 {
        let amounts = [(0, 1 + second % 300), (1, second % 7)].into();
        let time = NOW + Span::seconds(second as i64);
        observe(&written, None, vec![(key(WINDOWS, 1), time, Addition::Counters(amounts))]);
    }
    observe(&written, Some(1), vec![(key(WINDOWS, 2), NOW, Addition::Counters([(0, 1)].into()))]);
    for amount in [u64::MAX - 1, 1 << 40, 3] {
        let amounts = [(1, amount)].into();
        observe(
            &written,
            None,
            vec![(key(WINDOWS, 3), NOW + Span::seconds(10), Addition::Counters(amounts))],
        );
    }
    for number in 0..20 {
        let time = NOW + Span::minutes(number as i64);
        observe(
            &written,
            None,
            vec![(key(WINDOWS, 100 + number), time, Addition::Counters([(0, 2)].into()))],
        );
    }
    for (minute, value) in [(0, Some(40)), (60, Some(-7)), (30, None), (120, Some(1000))] {
        let time = NOW + Span::minutes(minute);
        observe(&written, None, vec![(key(AGGREGATE, 1), time, Addition::Value(value))]);
    }
    observe(
        &written,
        None,
        vec![(key(AGGREGATE, 2), Time::from_seconds(-5), Addition::Value(Some(i64::MIN)))],
    );
    written.maintain(FLOOR).unwrap();
    for (day, values) in [(0, 0..5), (1, 3..9), (1, 4..6)] {
        for value in values {
            let owner = key(DISTINCT, 1);
            observe(&written, None, vec![(owner, NOW + Span::days(day), distinct(owner, value))]);
        }
    }
    for (number, day, values) in [(1, 0, 0..20), (1, 1, 10..30), (2, 0, 0..3000), (2, 1, 2990..3010)] {
        let owner = key(APPROX, number);
        let add = |value| (owner, NOW + Span::days(day), distinct(owner, value));
        observe(&written, None, values.map(add).collect());
    }
    for (number, times) in [(1, 2), (2, 9)] {
        for _ in 0..times {
            observe(&written, None, vec![(key(ADMITTED, number), NOW, Addition::Value(None))]);
        }
    }
    written.close().unwrap();
}

fn check_ledger(ledger: &EmbeddedLedger) {
    let peek = |kind, number, after: Span| {
        observe(ledger, None, vec![(key(kind, number), NOW + after, Addition::Nothing)]).remove(0)
    };
    let sums = |reading: &Reading, columns: usize| -> Vec<u64> {
        (0..2).flat_map(|window| (0..columns).map(move |at| reading.sum(window, at))).collect()
    };
    let timeline = |kind, number| pollster::block_on(ledger.timeline(key(kind, number))).unwrap();

    let dense = peek(WINDOWS, 1, Span::seconds(399));
    assert_eq!((dense.first, dense.last), (Some(NOW), Some(NOW + Span::seconds(399))));
    let since = |seconds: std::ops::Range<u64>| {
        [seconds.clone().map(|second| 1 + second % 300).sum(), seconds.map(|second| second % 7).sum::<u64>()]
    };
    let minute = since(330..400);
    assert_eq!(sums(&dense, 2)[..2], minute, "the whole buckets of a minute and a part of one");
    let all = timeline(WINDOWS, 1).unwrap();
    let total = |at: usize| all.buckets.iter().map(|bucket| bucket.counts[at]).sum::<u64>();
    let kept = (all.buckets[0].start - NOW).0.max(0) as u64 / 1_000_000;
    assert_eq!([total(0), total(1)], since(kept..400));
    assert!(all.buckets.iter().any(|bucket| bucket.width == Span::minutes(1)), "some were folded");
    assert_eq!(sums(&peek(WINDOWS, 2, Span::ZERO), 2), [1, 0, 1, 0]);
    assert_eq!(sums(&peek(WINDOWS, 3, Span::seconds(10)), 2), [0, u64::MAX, 0, u64::MAX]);
    for number in 0..20 {
        assert_eq!(sums(&peek(WINDOWS, 100 + number, Span::minutes(number as i64)), 2), [2, 0, 2, 0]);
    }

    let aggregate = peek(AGGREGATE, 1, Span::hours(2));
    let at = |minutes| (NOW + Span::minutes(minutes)).0.cast_unsigned();
    let integer = |number: i64| number.cast_unsigned();
    let decayed = 40.0 / 4.0 - 7.0 / 2.0 + 1000.0;
    let expected = [at(0), at(120), 4, 1033, integer(-7), 1000, f64::to_bits(decayed)];
    assert_eq!((0..7).map(|column| aggregate.sum(0, column)).collect::<Vec<_>>(), expected);
    let early = peek(AGGREGATE, 2, Span::ZERO);
    assert_eq!((early.first, early.sum(0, 4)), (Some(Time::from_seconds(-5)), i64::MIN.cast_unsigned()));

    let pairs = peek(DISTINCT, 1, Span::days(1));
    assert_eq!((pairs.quality, pairs.sum(0, 0), pairs.sum(1, 0)), (Quality::Exact, 6, 11));
    let owner = key(DISTINCT, 1);
    for (value, fresh) in [(0, true), (4, false), (8, false), (9, true)] {
        let again = observe(ledger, Some(1), vec![(owner, NOW + Span::days(1), distinct(owner, value))]);
        assert_eq!(again[0].fresh, fresh, "value {value}; the request's mark keeps it from being added");
    }
    let about = |number| {
        let reading = peek(APPROX, number, Span::days(1));
        (reading.quality, reading.sum(0, 0), reading.sum(1, 0))
    };
    assert_eq!(about(1), (Quality::Estimated, FEW[0], FEW[1]));
    assert_eq!(about(2), (Quality::Estimated, MANY[0], MANY[1]));
    assert_eq!(timeline(ONCE, 1).unwrap().first, NOW);
    assert_eq!(timeline(ONCE, 2), None);

    let seen = |number| {
        let reading = peek(ADMITTED, number, Span::ZERO);
        (reading.quality, reading.sum(0, 0))
    };
    assert_eq!(seen(1), (Quality::Estimated, 2), "the sketch remembers");
    assert_eq!(seen(2), (Quality::Exact, 9));
    assert_eq!(seen(3), (Quality::Estimated, 0), "it may have been forgotten");
    assert!(ledger.verify(None, &mut |_, _| {}).unwrap().is_sound());
}

/// Estimates of 20 and 30, and of 20 and 3010.
const FEW: [u64; 2] = [19, 29];
const MANY: [u64; 2] = [20, 3012];

/// The pipeline with a rule that has effects, and every block a segment of its own.
fn plan_with_effects() -> Plan {
    let rule = "[[rule]]\nname = \"TOLD\"\nwhen = \"user.mail == 'told@example.org'\"\nscore = 0\n\
                effects = [\"set review_after\", \"add ip.bad by 2\", \"notify 'ops'\"]\n";
    let config = Config::from_text("signup.toml", &(CONFIG.to_owned() + rule), &Overrides::default());
    let mut plan = Plan::compile(&config).unwrap_or_else(|problems| panic!("{problems}"));
    plan.node.journal.segment = 1;
    plan
}

/// Does what the writer did with a journal: beside rows of decisions with and without effects there are as many decisions at
/// once as are written by columns, in a segment that was closed and in the newest one. Never change it.
fn write_many(path: &Path) {
    write_pipeline(path);
    let engine = Engine::open(&Directory::open(path).unwrap(), plan_with_effects()).unwrap();
    let journal = engine.journal().unwrap();
    let pipeline = Arc::clone(&engine.plan().pipelines[0]);
    for day in [3, 4] {
        let now = NOW + Span::days(day);
        decide_at(&engine, event("192.0.2.99", "told@example.org"), now);
        journal.sync().unwrap();
        let prepared = (0..MANY_AT_ONCE).map(|number| {
            let mail = format!("user{}@example.com", number % 50);
            engine.prepare(&pipeline, event(&format!("198.51.100.{}", number % 200), &mail), now)
        });
        pollster::block_on(engine.decide(prepared.collect()));
        journal.sync().unwrap();
    }
    journal.settle();
    engine.close().unwrap();
}

const MANY_AT_ONCE: usize = 2500;
/// The number of records that [`write_many`] wrote.
const RECORDS: usize = 302 + 2 * (1 + MANY_AT_ONCE);

#[test]
fn what_was_written_says_what_it_said() {
    let stored = fixture();
    if !stored.exists() && std::env::var_os("UPDATE").is_some() {
        write_many(&stored);
        write_ledger(&stored);
    }
    let of_kind = |extension: &str| {
        let names = std::fs::read_dir(stored.join("journal")).unwrap().map(|entry| entry.unwrap().path());
        names.filter(|name| name.extension().is_some_and(|it| it == extension)).count()
    };
    assert_eq!((of_kind("journal"), of_kind("parquet")), (1, 4));
    for hints in [true, false] {
        let (_parent, path) = copied();
        if !hints {
            for entry in std::fs::read_dir(path.join("ledger")).unwrap().map(|entry| entry.unwrap().path()) {
                if entry.extension().is_some_and(|extension| extension == "hint") {
                    std::fs::remove_file(entry).unwrap();
                }
            }
        }
        let ledger = ledger(&path);
        check_ledger(&ledger);
        ledger.close().unwrap();
        drop(ledger);
        with_engine(&path, |engine| {
            check_many(engine);
            check_pipeline(engine);
        });
        let found = Directory::open(&path).unwrap().verify(None, &mut |_, _, _| ()).unwrap();
        let journal = &found.journal;
        assert!(journal.is_sound() && journal.records as usize == RECORDS + 1, "{found:?}");
        assert!(found.ledger.unwrap().is_sound());
    }
}

fn check_many(engine: &Engine) {
    let ids: Vec<_> = all(engine).into_iter().map(|(id, _)| id).collect();
    assert_eq!(ids.len(), RECORDS);
    for told in [302, 302 + 1 + MANY_AT_ONCE] {
        let explained = engine.explain(ids[told]).unwrap();
        let verdict = explained.verdict.unwrap();
        assert_eq!((verdict.effects.len(), verdict.effects[0].rule.as_str()), (3, "TOLD"));
        let explained = engine.explain(ids[told + 777]).unwrap();
        let ip = explained.keys.iter().find(|key| key.kind == "ip").unwrap();
        assert_eq!(ip.piece.as_deref(), Some("198.51.100.176"));
        assert_eq!(ip.last, Some(explained.time));
        assert!(explained.verdict.unwrap().effects.is_empty());
    }
}

fn all(engine: &Engine) -> Vec<(RecordId, Record)> {
    let mut all = Vec::new();
    let skipped = engine.journal().unwrap().scan(|id, record| {
        all.push((id, record));
        true
    });
    assert!(skipped.unwrap().is_empty());
    all
}

/// A subject's decisions go out of blocks and files by columns, and all others stay.
#[test]
fn one_subject_is_erased() {
    let (_parent, path) = copied();
    let mut shingles = HashSet::new();
    let mut before = Vec::new();
    with_engine(&path, |engine| {
        before = all(engine);
        let explained = engine.explain(before[302 + 777].0).unwrap();
        shingles.extend(explained.keys.iter().filter(|key| key.kind == "ip").map(|key| key.shingle));
    });
    let concerned = |record: &Record| match record {
        Record::Decision(row) => row.keys.iter().any(|key| shingles.contains(&key.shingle)),
        _ => false,
    };
    let erased = Directory::open(&path).unwrap().erase(Some(&plan()), &shingles, false, &|| false).unwrap();
    // Of 2500 decisions at once, those whose number modulo 200 is 176, twice.
    assert_eq!((erased.records.decisions, erased.records.feedback), (24, 0));
    before.retain(|(_, record)| !concerned(record));
    with_engine(&path, |engine| {
        let left = all(engine);
        assert!(left == before, "{} of {}", left.len(), before.len());
    });
    let found = Directory::open(&path).unwrap().verify(None, &mut |_, _, _| ()).unwrap();
    assert!(found.journal.is_sound() && found.journal.records as usize == before.len(), "{found:?}");
}

/// Changes the version in a file and brings its checksum up to date, as a release that keeps the rest would.
fn of_other_format(path: &Path) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[8] += 1;
    let crc = crc32fast::hash(&[&bytes[..12], &bytes[16..40]].concat());
    bytes[12..16].copy_from_slice(&crc.to_le_bytes());
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn other_formats_are_refused_untouched() {
    let names = |path: &Path| {
        let mut names: Vec<_> = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect();
        names.sort();
        names.into_iter().map(|name| (std::fs::read(&name).unwrap(), name)).collect::<Vec<_>>()
    };
    let (_parent, path) = copied();
    let ledger = path.join("ledger");
    of_other_format(&ledger.join("00000000.seg"));
    let before = names(&ledger);
    let refused = Engine::open(&Directory::open(&path).unwrap(), plan()).err().unwrap().to_string();
    assert_eq!(
        refused,
        "00000000.seg has format 3, this release reads format 2: use the release that wrote it"
    );
    assert_eq!(names(&ledger), before);
}
