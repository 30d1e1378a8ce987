//! Records come back from columns as they were, and damage is found.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use disk::{Device, MemoryDevice};
use event::{Column, Facts, Kind, Slot, Span, Value};
use judge::{Action, Consequence, Effect};
use proptest::prelude::*;

use super::*;
use crate::encoding::{DecisionHead, DecisionOutcome};
use crate::file::JournalFile;
use crate::id::IdRange;
use crate::samples;
use crate::visitor::{self, FactChoice, FactTest, RecordVisitor, RowQuery, StoredFact};
use crate::{DecisionRow, Record, ReportRecord, SegmentError};

/// A version's columns: names that others have, too, with types of its own, one that is not journalled.
/// The name of a fact.
fn name(fact: usize) -> String {
    if fact == 0 { "score".to_owned() } else { format!("fact.{fact}") }
}

fn description(types: &[Type]) -> VersionDescription {
    let column = |(index, kind): (usize, &Type)| Column {
        name: name(index),
        kind: *kind,
        doc: String::new(),
        journalled: index != 3,
    };
    VersionDescription {
        columns: types.iter().enumerate().map(column).collect(),
        kinds: Vec::new(),
        rules: Vec::new(),
        rules_version: Some("r1".to_owned()),
        preset: None,
        models: vec![("spam".to_owned(), "m1".to_owned())],
    }
}

fn record() -> impl Strategy<Value = Record> {
    let values = prop::collection::vec(prop::option::of(samples::value()), 0..9);
    let decision = (values, 0usize..4, 0usize..2, any::<bool>(), any::<f64>()).prop_map(
        |(values, version, pipeline, named, score)| {
            let mut row = samples::row(values);
            row.version = format!("v{version}");
            row.pipeline = ["mail", "web"][pipeline].to_owned();
            row.event_id = named.then(|| "größer".to_owned());
            row.verdict.score = score;
            if named {
                let effect = Effect::Mark { kind: "ip".into(), label: "x".into(), lasts: Span::days(1) };
                row.verdict.effects = vec![Consequence { rule: "A".to_owned(), effect }];
                row.verdict.shadow.clear();
            }
            Record::Decision(Box::new(row))
        },
    );
    let report = (any::<u64>(), samples::report()).prop_map(|(decision, report)| {
        Record::Report(ReportRecord { decision: RecordId(decision), ..report })
    });
    prop_oneof![2 => decision, 1 => report]
}

/// Types of the columns of three versions; rows of a fourth have no description.
fn versions() -> impl Strategy<Value = Vec<Vec<Type>>> {
    let types = prop::collection::vec(prop::sample::select(Type::ALL.to_vec()), 0..8);
    prop::collection::vec(types, 3)
}

/// The columns of these versions, and of another without a description.
fn layout(versions: &[Vec<Type>]) -> ColumnLayout {
    let mut known: Vec<_> = versions
        .iter()
        .enumerate()
        .map(|(number, types)| (format!("v{number}"), Some(description(types))))
        .collect();
    known.push(("v3".to_owned(), None));
    ColumnLayout::of(&known)
}

/// Writes records, with a new group after every so many.
fn written(
    form: ColumnsFormat,
    versions: &[Vec<Type>],
    records: &[(RecordId, Record)],
    per_group: usize,
) -> Vec<u8> {
    let device = MemoryDevice::new();
    let half: Arc<dyn Device> = Arc::new(device.clone());
    let half = JournalFile::new(&half, "a.half");
    let mut writer = ColumnarWriter::create(&half, layout(versions), form).unwrap();
    for group in records.chunks(per_group) {
        assert_eq!(writer.push_all(&encoded(group).concat(), Time(5)).unwrap() as usize, group.len());
        writer.flush().unwrap();
    }
    writer.finish().unwrap();
    let bytes = device.read("a.half").unwrap();
    // In memory it is the same.
    let mut writer = ColumnarWriter::over(Vec::new(), &half.path(), layout(versions), form).unwrap();
    for group in records.chunks(per_group) {
        writer.push_all(&encoded(group).concat(), Time(5)).unwrap();
        writer.flush().unwrap();
    }
    assert_eq!(writer.finish().unwrap(), bytes);
    bytes
}

#[test]
fn many_records_are_groups_of_about_one_size() {
    let (types, records) = sample();
    let one = encoded(&records[..1]).concat();
    for (count, groups) in [(1, 1), (8192, 1), (8193, 2), (20_000, 3)] {
        let mut writer =
            ColumnarWriter::over(Vec::new(), Path::new(""), layout(&types), ColumnsFormat::Sealed).unwrap();
        writer.expect(count);
        assert_eq!(writer.push_all(&one.repeat(count as usize), Time(5)).unwrap(), count);
        let columns = ColumnarSegment::of(Box::new(writer.finish().unwrap()), ColumnsFormat::Sealed).unwrap();
        let rows: Vec<u32> =
            (0..columns.groups()).map(|number| columns.group(number).unwrap().rows).collect();
        assert_eq!((rows.len(), rows.iter().sum::<u32>()), (groups, count));
        assert!(rows.iter().all(|it| rows[0] - it < groups as u32), "{rows:?}");
    }
}

fn read(columns: &ColumnarSegment) -> Result<Vec<(RecordId, Record)>, SegmentError> {
    let mut records = Vec::new();
    for number in 0..columns.groups() {
        records.extend(columns.records((number, &mut ReadColumns::default()), |_| true, FactChoice::All)?);
    }
    Ok(records)
}

fn find(columns: &ColumnarSegment, number: usize, id: RecordId) -> Option<(RecordId, Record)> {
    columns
        .find_all((number, &mut ReadColumns::default()), &BTreeSet::from([id]), FactChoice::All)
        .unwrap()
        .into_iter()
        .next()
}

fn encoded(records: &[(RecordId, Record)]) -> Vec<Vec<u8>> {
    records.iter().map(|(id, record)| record.encode(*id)).collect()
}

/// Writes down all that it is shown.
struct Notes<'w> {
    /// The facts wanted of each version.
    wanted: &'w [Vec<Option<Slot>>],
    facts: Facts,
    told: Vec<String>,
}

impl<'w> RecordVisitor<'w> for Notes<'w> {
    fn version(&mut self, pipeline: &str, version: &str) -> Option<&'w [Option<Slot>]> {
        // What nobody wrote has versions that nobody wrote.
        let number: usize = version.get(1..)?.parse().ok()?;
        self.wanted.get(number).filter(|_| pipeline == "mail").map(Vec::as_slice)
    }

    fn decision(&mut self, head: &DecisionHead<'_>) -> Option<&mut Facts> {
        self.told.push(format!("{head:?}"));
        self.facts = Facts::from_values(vec![None; 8]);
        (head.pipeline == "mail").then_some(&mut self.facts)
    }

    fn wants_event_ids(&self) -> bool {
        true
    }

    fn wants_probabilities(&self) -> bool {
        true
    }

    fn wants_keys(&self) -> bool {
        true
    }

    fn key(&mut self, kind: Kind, shingle: Shingle) {
        self.told.push(format!("{kind:?} {shingle:?}"));
    }

    fn fired(&mut self, rule: &str, shadow: bool) {
        self.told.push(format!("{rule} {shadow}"));
    }

    fn decided(&mut self, decided: DecisionOutcome) {
        self.told.push(format!("{:?} {decided:?}", self.facts));
    }

    fn feedback(&mut self, id: RecordId, decision: RecordId, class: Option<&str>, time: Time) {
        self.told.push(format!("{id} {decision} {class:?} {time:?}"));
    }

    fn wants_signals(&self) -> bool {
        true
    }

    fn signal(&mut self, id: RecordId, decision: RecordId, class: Option<&str>, time: Time) {
        self.told.push(format!("signal {id} {decision} {class:?} {time:?}"));
    }
}

/// A fact that is this value; one that is missing if there is none. All others, if it is denied.
#[derive(Clone, Debug)]
struct ValueTest {
    facts: Vec<Slot>,
    value: Option<Value>,
    is_denied: bool,
}

impl ValueTest {
    fn is_passed_by(&self, value: Option<&Value>) -> bool {
        (value == self.value.as_ref()) != self.is_denied
    }
}

impl FactTest for ValueTest {
    fn facts(&self) -> &[Slot] {
        &self.facts
    }

    fn passes(&self, value: &dyn StoredFact) -> Option<bool> {
        Some(self.is_passed_by(value.value()?.as_ref()))
    }

    fn only(&self, kind: Type) -> Option<&[u8]> {
        match (kind, &self.value) {
            (Type::String, Some(Value::String(text))) if !self.is_denied => Some(text.as_bytes()),
            _ => None,
        }
    }
}

/// Looks for decisions, and says in advance for which, or does not.
struct Searcher<'w> {
    query: RowQuery<'w>,
    tests: &'w [ValueTest],
    boxed: &'w [Box<dyn FactTest>],
    wanted: &'w [Option<Slot>],
    asks: bool,
    facts: Facts,
    /// The row that is being shown, and whether the rule fired for it.
    row: Option<(RecordId, bool)>,
    found: Vec<String>,
    seen: usize,
}

impl<'w> RecordVisitor<'w> for Searcher<'w> {
    fn version(&mut self, _pipeline: &str, version: &str) -> Option<&'w [Option<Slot>]> {
        (version != "v2").then_some(self.wanted)
    }

    fn query(&self) -> Option<RowQuery<'w>> {
        self.asks.then_some(self.query)
    }

    fn tests(&self, _pipeline: &str, _version: &str) -> &'w [Box<dyn FactTest>] {
        self.boxed
    }

    fn decision(&mut self, head: &DecisionHead<'_>) -> Option<&mut Facts> {
        self.seen += 1;
        let is_wanted = self.query.ids.contains(head.id) && self.query.has_event_id(head.event_id);
        if head.version == "v2" || !is_wanted {
            return None;
        }
        self.facts = Facts::from_values(vec![None; 9]);
        self.row = Some((head.id, self.query.rule.is_none()));
        Some(&mut self.facts)
    }

    fn wants_event_ids(&self) -> bool {
        true
    }

    fn fired(&mut self, rule: &str, _shadow: bool) {
        self.row = self.row.map(|(id, has_rule)| (id, has_rule || self.query.has_rule(rule)));
    }

    fn decided(&mut self, DecisionOutcome { score, action, .. }: DecisionOutcome) {
        let Some((id, has_rule)) = self.row.take() else { return };
        let fits = has_rule && self.query.has_score(score) && self.query.has_action(action);
        let passes =
            |test: &ValueTest| test.facts.iter().any(|fact| test.is_passed_by(self.facts.get(*fact)));
        if fits && self.tests.iter().all(passes) {
            self.found.push(format!("{id} {:?}", self.facts));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn records_come_back_as_they_were(
        versions in versions(),
        records in prop::collection::vec((any::<u64>().prop_map(RecordId), record()), 1..40),
        per_group in 1usize..20,
    ) {
        let columns = ColumnarSegment::of(Box::new(written(ColumnsFormat::Sealed, &versions, &records, per_group)), ColumnsFormat::Sealed).unwrap();
        prop_assert_eq!(columns.groups(), records.len().div_ceil(per_group));
        let again = read(&columns).unwrap();
        prop_assert_eq!(encoded(&again), encoded(&records));
        for number in 0..columns.groups() {
            let head = columns.group(number).unwrap();
            let part = &records[number * per_group..records.len().min((number + 1) * per_group)];
            prop_assert_eq!(head.rows as usize, part.len());
            prop_assert_eq!(Some(head.first), part.iter().map(|(id, _)| *id).min());
            prop_assert_eq!(Some(head.last), part.iter().map(|(id, _)| *id).max());
            for (id, _) in part {
                let first = part.iter().find(|(other, _)| other == id).cloned();
                prop_assert_eq!(find(&columns, number, *id), first);
            }
            prop_assert_eq!(find(&columns, number, RecordId(head.last.0.wrapping_add(1))), None);
        }
    }

    #[test]
    fn chosen_facts_are_read_and_all_else_but_facts(
        versions in versions(),
        records in prop::collection::vec((any::<u64>().prop_map(RecordId), record()), 1..40),
        chosen in prop::collection::vec((0usize..9).prop_map(name), 0..4),
        per_group in 1usize..20,
    ) {
        let bytes = written(ColumnsFormat::Sealed, &versions, &records, per_group);
        let columns = ColumnarSegment::of(Box::new(bytes), ColumnsFormat::Sealed).unwrap();
        let ids: BTreeSet<RecordId> = records.iter().map(|(id, _)| *id).collect();
        // What was not chosen may be missing; where it is not, it is what it was.
        let without_others = |record: &Record, of: &Record| match (record, of) {
            (Record::Decision(row), Record::Decision(of)) => {
                let values = row.facts.values().iter().zip(of.facts.values()).enumerate();
                let kept = values.map(|(fact, (value, of))| {
                    let is_open = !chosen.contains(&name(fact)) && of.is_none();
                    value.clone().filter(|_| !is_open)
                });
                Record::Decision(Box::new(DecisionRow { facts: Facts::from_values(kept.collect()), ..(**row).clone() }))
            }
            (record, _) => record.clone(),
        };
        let one_by_one: Vec<BTreeSet<RecordId>> = ids.iter().map(|id| BTreeSet::from([*id])).collect();
        for ids in one_by_one.iter().chain([&ids]) {
            for number in 0..columns.groups() {
                let mut read = ReadColumns::default();
                let some = columns.find_all((number, &mut read), ids, FactChoice::Named(&chosen)).unwrap();
                let all = columns.find_all((number, &mut ReadColumns::default()), ids, FactChoice::All);
                let all = all.unwrap();
                // What was read before makes no difference.
                let again = columns.find_all((number, &mut read), ids, FactChoice::All).unwrap();
                prop_assert_eq!(encoded(&again), encoded(&all));
                let expected: Vec<_> = all.iter().zip(&some).map(|((id, record), (_, of))| (*id, without_others(record, of))).collect();
                prop_assert_eq!(all.len(), some.len());
                prop_assert_eq!(encoded(&some), encoded(&expected));
            }
        }
    }

    #[test]
    fn groups_are_copied_where_they_mean_the_same(
        (versions, others) in (versions(), versions()),
        records in prop::collection::vec((any::<u64>().prop_map(RecordId), record()), 1..40),
        per_group in 1usize..20,
    ) {
        let bytes = written(ColumnsFormat::Sealed, &versions, &records, per_group);
        let columns = ColumnarSegment::of(Box::new(bytes), ColumnsFormat::Sealed).unwrap();
        // Some records before it, and a version more than it knows.
        let mut wider = layout(&versions);
        wider.versions.push(VersionLayout { version: "v9".to_owned(), ..wider.versions[0].clone() });
        let mut writer = ColumnarWriter::over(Vec::new(), Path::new(""), wider, ColumnsFormat::Sealed).unwrap();
        writer.push_all(&encoded(&records).concat(), Time(5)).unwrap();
        prop_assert!(writer.copy(&columns).unwrap());
        let copied = ColumnarSegment::of(Box::new(writer.finish().unwrap()), ColumnsFormat::Sealed).unwrap();
        let twice = [records.as_slice(), &records].concat();
        prop_assert_eq!(encoded(&read(&copied).unwrap()), encoded(&twice));
        prop_assert_eq!(copied.groups(), 1 + columns.groups());
        for number in 0..columns.groups() {
            prop_assert!(copied.is_copy(number + 1, &columns, number).unwrap());
        }
        prop_assert!(!copied.is_copy(copied.groups(), &columns, 0).unwrap());
        // Other columns, or others for the same facts: nothing is copied, and nothing is broken.
        let mut writer = ColumnarWriter::over(Vec::new(), Path::new(""), layout(&others), ColumnsFormat::Sealed).unwrap();
        let mean_the_same = layout(&others) == layout(&versions);
        prop_assert_eq!(writer.copy(&columns).unwrap(), mean_the_same);
        let left = ColumnarSegment::of(Box::new(writer.finish().unwrap()), ColumnsFormat::Sealed).unwrap();
        prop_assert_eq!(left.groups(), if mean_the_same { columns.groups() } else { 0 });
    }

    #[test]
    fn who_looks_sees_the_same_in_rows_and_columns(
        versions in versions(),
        records in prop::collection::vec((any::<u64>().prop_map(RecordId), record()), 1..40),
        wanted in prop::collection::vec(prop::collection::vec(any::<bool>(), 8), 4),
        per_group in 1usize..20,
    ) {
        let slots = |wanted: &Vec<bool>| {
            (0..).zip(wanted).map(|(slot, wanted)| wanted.then_some(Slot(slot))).collect::<Vec<_>>()
        };
        let wanted: Vec<_> = wanted.iter().map(slots).collect();
        let notes = || Notes { wanted: &wanted, facts: Facts::default(), told: Vec::new() };
        let (mut of_rows, mut of_columns) = (notes(), notes());
        visitor::look(&encoded(&records).concat(), records.len() as u32, &mut of_rows).unwrap();
        let columns = ColumnarSegment::of(Box::new(written(ColumnsFormat::Sealed, &versions, &records, per_group)), ColumnsFormat::Sealed).unwrap();
        for number in 0..columns.groups() {
            columns.look((number, &mut ReadColumns::default()), &mut of_columns).unwrap();
        }
        prop_assert_eq!(of_columns.told, of_rows.told);
    }

    #[test]
    fn who_asks_is_shown_what_others_would_pass_over(
        versions in versions(),
        records in prop::collection::vec((0u64..60, record()), 1..40),
        asked in (0u64..60, 1u64..60, prop::option::of(-1e9..1e9f64), any::<[bool; 4]>()),
        tests in prop::collection::vec((prop::collection::vec((0u16..9).prop_map(Slot), 1..3), samples::value(), any::<bool>()), 0..3),
        per_group in 1usize..40,
    ) {
        let records: Vec<_> = records.into_iter().map(|(id, record)| (RecordId(id), record)).collect();
        let (from, length, score_from, [has_action, has_rule, has_name, is_below]) = asked;
        let query = RowQuery {
            ids: IdRange { from: RecordId(from), below: RecordId(from + length) },
            actions: if has_action { &[Action::ReviewAfter, Action::Reject] } else { &[] },
            score_from: score_from.filter(|_| !is_below),
            score_below: score_from.filter(|_| is_below),
            rule: has_rule.then_some("C"),
            event_id: has_name.then_some("größer"),
        };
        // A value that some row has is met more often than any other.
        let known: Vec<Value> = records.iter().filter_map(|(_, record)| match record {
            Record::Decision(row) => row.facts.values().iter().flatten().next().cloned(),
            Record::Report(_) => None,
        }).collect();
        let tests: Vec<ValueTest> = tests.into_iter().enumerate().map(|(number, (facts, value, is_denied))| {
            let value = known.get(number).filter(|_| is_denied).unwrap_or(&value).clone();
            ValueTest { facts, value: Some(value).filter(|_| number < 2), is_denied }
        }).collect();
        let boxed: Vec<Box<dyn FactTest>> = tests.iter().map(|test| Box::new(test.clone()) as _).collect();
        let wanted: Vec<_> = (0..9).map(|slot| Some(Slot(slot))).collect();
        let searcher = |asks| Searcher {
            query, tests: &tests, boxed: &boxed, wanted: &wanted, asks,
            facts: Facts::default(), row: None, found: Vec::new(), seen: 0,
        };
        let (mut plain, mut asking) = (searcher(false), searcher(true));
        let columns = ColumnarSegment::of(Box::new(written(ColumnsFormat::Sealed, &versions, &records, per_group)), ColumnsFormat::Sealed).unwrap();
        for number in 0..columns.groups() {
            let mut read = ReadColumns::default();
            columns.look((number, &mut read), &mut plain).unwrap();
            columns.look((number, &mut read), &mut asking).unwrap();
        }
        prop_assert_eq!(&asking.found, &plain.found);
        prop_assert!(asking.seen <= plain.seen);
    }

    #[test]
    fn bytes_that_nobody_wrote_are_read_or_refused(
        versions in versions(),
        records in prop::collection::vec((any::<u64>().prop_map(RecordId), record()), 1..20),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
    ) {
        let mut bytes = written(ColumnsFormat::Bare, &versions, &records, 10);
        for (at, byte) in changes {
            // All but the head and what is Parquet's own.
            let at = 44 + at.index(bytes.len() - 44);
            bytes[at] = byte;
        }
        let Ok(columns) = ColumnarSegment::of(Box::new(bytes), ColumnsFormat::Bare) else { return Ok(()) };
        let wanted = vec![vec![Some(Slot(0)); 8]; 4];
        let mut notes = Notes { wanted: &wanted, facts: Facts::default(), told: Vec::new() };
        for number in 0..columns.groups() {
            let mut read = ReadColumns::default();
            let records = columns.records((number, &mut read), |_| true, FactChoice::All);
            let _ = (records, columns.look((number, &mut read), &mut notes));
        }
    }
}

/// Thirty records of four versions.
fn sample() -> (Vec<Vec<Type>>, Vec<(RecordId, Record)>) {
    let types = vec![vec![Type::String, Type::List, Type::Ip], vec![Type::Integer], vec![Type::Bool]];
    let record = |number: i64| {
        let list = vec!["a".to_owned(), number.to_string()];
        let mut row = samples::row(match number % 4 {
            0 => {
                vec![Some(Value::from("x")), Some(Value::from(list)), Some(Value::Ip([127, 0, 0, 1].into()))]
            }
            1 => vec![None, Some(Value::Integer(number))],
            2 => vec![Some(Value::Bool(number > 9)), Some(Value::Float(0.5))],
            _ => vec![Some(Value::Integer(number))],
        });
        row.version = format!("v{}", number % 4);
        (RecordId(number as u64), Record::Decision(Box::new(row)))
    };
    let report = ReportRecord::judgement(RecordId(3), "spam", Time(7));
    let mut records: Vec<_> = (0..29).map(record).collect();
    records.push((RecordId(29), Record::Report(report)));
    (types, records)
}

/// The bytes with which the fuzz target begins are those that would be written. `UPDATE=1` writes it where it is missing.
#[test]
fn the_fuzz_target_has_a_seed() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/archive");
    let (types, records) = sample();
    let path = seeds.join("columns");
    if !path.exists() && std::env::var_os("UPDATE").is_some() {
        std::fs::create_dir_all(&seeds).unwrap();
        std::fs::write(&path, written(ColumnsFormat::Bare, &types, &records, 10)).unwrap();
    }
    let columns = ColumnarSegment::of(Box::new(std::fs::read(&path).unwrap()), ColumnsFormat::Bare).unwrap();
    assert_eq!(encoded(&read(&columns).unwrap()), encoded(&records));
}

/// To have one row a page of each column is decoded, and not the group.
#[test]
fn one_row_takes_a_page_of_each_column() {
    let types = vec![vec![Type::String, Type::List, Type::Ip], vec![Type::Integer], vec![Type::Bool]];
    let (_, short) = sample();
    let record = |number: usize| {
        let (_, mut record) = short[number % short.len()].clone();
        if let Record::Decision(row) = &mut record
            && row.version == "v0"
        {
            // More different texts than a dictionary takes, and lists of any length.
            row.facts.set(Slot(0), Value::from(format!("{number:0700}")));
            let items = (0..number % 700).map(|item| item.to_string()).collect::<Vec<_>>();
            row.facts.set(Slot(1), Value::from(items));
        }
        (RecordId(number as u64), record)
    };
    let records: Vec<_> = (0..1300).map(record).collect();
    let bytes = written(ColumnsFormat::Sealed, &types, &records, 1300);
    let columns = ColumnarSegment::of(Box::new(bytes), ColumnsFormat::Sealed).unwrap();
    assert_eq!(encoded(&read(&columns).unwrap()), encoded(&records));
    for wanted in [
        &[0][..],
        &[1],
        &[255],
        &[256],
        &[511],
        &[512],
        &[1023],
        &[1024],
        &[1299],
        &[3, 600, 601, 1299],
        &[0, 7, 8, 900, 1000, 1299],
    ] {
        let found = columns
            .records(
                (0, &mut ReadColumns::default()),
                |id| wanted.contains(&(id.0 as usize)),
                FactChoice::All,
            )
            .unwrap();
        let expected: Vec<_> = wanted.iter().map(|number| records[*number].clone()).collect();
        assert_eq!(encoded(&found), encoded(&expected), "{wanted:?}");
    }
    for record in &records {
        let found = find(&columns, 0, record.0).unwrap();
        assert_eq!(encoded(&[found]), encoded(std::slice::from_ref(record)), "row {} alone", record.0);
    }
    let group = columns.index.groups[0].clone();
    // Texts and lists: all others are less than a page. A row is read alone unless it has a long list.
    for column in [OWN.len(), OWN.len() + 1] {
        for (row, rows) in [(0, 1), (4, 1), (604, PAGE_ROWS), (1294, 1300 % PAGE_ROWS)] {
            let rows = if column == OWN.len() { 1 } else { rows };
            let chunk = {
                let stored = columns.column_bytes(&group, column).unwrap();
                let (budget, kept) = (&mut (1 << 30), &mut kept_pages::KeptPages::default());
                let memory = &mut kept_pages::PageMemory { budget, kept };
                columns.decode(&group, (column, &stored), row..row + 1, memory).unwrap()
            };
            let begins = chunk.repeats.iter().filter(|repeat| **repeat == 0).count();
            let decoded = if chunk.repeats.is_empty() { chunk.levels.len() } else { begins };
            assert_eq!(decoded, rows, "row {row} of column {column}");
        }
    }
}

/// Ids need not rise evenly, nor at all, for their rows to be found.
#[test]
fn a_row_is_found_wherever_its_id_lies() {
    let report =
        |id: u64| (RecordId(id), Record::Report(ReportRecord::judgement(RecordId(id / 2), "spam", Time(7))));
    for uneven in
        [|number: u64| number.pow(3), |number: u64| 9_000 - number, |number: u64| number * 7919 % 3001]
    {
        let records: Vec<_> = (1..3000).map(|number| report(uneven(number))).collect();
        let bytes = written(ColumnsFormat::Sealed, &[], &records, 3000);
        let columns = ColumnarSegment::of(Box::new(bytes), ColumnsFormat::Sealed).unwrap();
        for record in records.iter().step_by(7) {
            assert_eq!(find(&columns, 0, record.0).as_ref(), Some(record));
        }
        assert_eq!(find(&columns, 0, RecordId(u64::MAX)), None);
        assert_eq!(find(&columns, 0, RecordId(3001)), None);
    }
}

/// Every bit of a file is covered by a checksum.
#[test]
fn a_flipped_bit_is_found_wherever_it_is() {
    let (types, records) = sample();
    let bytes = written(ColumnsFormat::Sealed, &types, &records, 10);
    let device = MemoryDevice::new();
    let damage = |bytes: &[u8]| {
        device.write("a.parquet", bytes);
        let mut intact = 0;
        let file = device.open("a.parquet").unwrap();
        let damage = check(file, &mut |_| (), &mut |records| intact += records.len() as u64);
        let damage = damage.unwrap();
        let lost: u64 = damage.iter().map(|damaged| damaged.records).sum();
        (damage, intact + lost)
    };
    assert_eq!(damage(&bytes), (vec![], 30));
    for at in (0..bytes.len()).step_by(3) {
        let mut flipped = bytes.clone();
        flipped[at] ^= 1 << (at % 8);
        let (found, told) = damage(&flipped);
        assert_eq!(told, 30, "every record is read or missed");
        assert!(found.len() == 1 && (found[0].from..found[0].to).contains(&(at as u64)), "{at}: {found:?}");
        flipped.truncate(at);
        assert!(!damage(&flipped).0.is_empty(), "cut at {at}");
    }
}
