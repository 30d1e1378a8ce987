//! Records for tests.

use event::{Kind, Shingle, Slot, Time, Value};
use judge::{Action, NextBand, Reason, Verdict};
use proptest::prelude::*;
use stats::{Quality, Reading};

use super::{DecisionRow, KeyReading, ReplacedReport, ReportRecord};
use crate::id::RecordId;

/// A report of any sort.
pub(super) fn report() -> impl Strategy<Value = ReportRecord> {
    let counters = || prop::collection::vec("[a-z]{0,5}", 0..3);
    let replaced = ("[a-z]{0,5}", counters(), any::<i64>(), any::<u8>());
    let replaced = replaced.prop_map(|(class, counters, time, weight)| ReplacedReport {
        class,
        counters,
        time: Time(time),
        weight,
    });
    let class = prop::option::of("[a-z]{0,5}");
    let who = (prop::option::of(any::<u64>()), any::<bool>(), any::<bool>());
    let said = (any::<i64>(), 0u8..3, counters(), prop::option::of(replaced));
    (class, who, said).prop_map(|(class, (by, limited, signal), (time, weight, counters, replaced))| {
        ReportRecord {
            decision: RecordId(3),
            class,
            signal,
            time: Time(time),
            by: by.map(Shingle),
            weight,
            limited,
            counters,
            replaced,
        }
    })
}

/// A decision with these facts.
pub(super) fn row(values: Vec<Option<Value>>) -> DecisionRow {
    let reason = |rule: &str, value: Option<Value>| Reason {
        rule: rule.to_owned(),
        score: -1.5,
        detail: "größer".to_owned(),
        values: vec![("from.seen('1h')".to_owned(), value)],
    };
    let columns = values.iter().enumerate().map(|(index, value)| event::Column {
        name: index.to_string(),
        kind: value.as_ref().map_or(event::Type::Bool, Value::type_of),
        doc: String::new(),
        journalled: true,
    });
    let mut facts = event::Schema::from_columns(columns.collect()).empty_row();
    for (value, slot) in values.iter().zip(0..) {
        if let Some(value) = value {
            facts.set(Slot(slot), value.clone());
        }
    }
    // Estimated, first seen at -5, never last, one counter in two windows.
    let reading = postcard::from_bytes(&[1, 1, 9, 0, 0, 1, 2, 1, 0xac, 0x02]).unwrap();
    DecisionRow {
        pipeline: "mail".to_owned(),
        version: "0123".to_owned(),
        event_id: Some("an id".to_owned()),
        time: Time(-7),
        arrival: Time(i64::MAX),
        duplicate: true,
        facts,
        keys: vec![KeyReading { kind: Kind(700), shingle: Shingle(u64::MAX), reading }],
        verdict: Verdict {
            score: 2.5,
            probability: 0.75,
            action: Action::ReviewAfter,
            reasons: vec![reason("A", values.first().cloned().flatten()), reason("B", None)],
            shadow: vec![reason("C", values.last().cloned().flatten())],
            next: Some(NextBand { action: Action::Reject, distance: 0.5 }),
            effects: Vec::new(),
        },
    }
}

/// A key with any reading.
pub(super) fn key() -> impl Strategy<Value = KeyReading> {
    let quality =
        prop::sample::select(vec![Quality::Exact, Quality::Estimated, Quality::Missing, Quality::Lagging]);
    let time = || prop::option::of(any::<i64>().prop_map(Time));
    let parts = (quality, time(), time(), any::<bool>(), any::<u8>());
    // As aggregates have them, and otherwise.
    let sums = (any::<[bool; 2]>(), prop::collection::vec(any::<u64>(), 0..5));
    (any::<u16>(), any::<u64>(), parts, sums).prop_map(|(kind, shingle, parts, (says, others))| {
        let (quality, first, last, fresh, counters) = parts;
        let times = [first, last].into_iter().zip(says);
        let times = times.filter_map(|(time, says)| time.filter(|_| says).map(|time| time.0 as u64));
        let sums: Vec<u64> = times.chain(others).collect();
        let reading = Reading::of(quality, (first, last), fresh, counters, &sums);
        KeyReading { kind: Kind(kind), shingle: Shingle(shingle), reading }
    })
}

/// Any value.
pub(super) fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        ".{0,20}".prop_map(Value::from),
        any::<i64>().prop_map(Value::Integer),
        (-1e9..1e9).prop_map(Value::Float),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(|micros| Value::Time(Time(micros))),
        any::<std::net::IpAddr>().prop_map(Value::Ip),
        prop::collection::vec(any::<u8>(), 0..200).prop_map(|bytes| Value::Bytes(bytes.into())),
        prop::collection::vec(".{0,9}", 0..5).prop_map(Value::from),
    ]
}
