//! A table is a map, whatever happens to it, and its snapshot is the same table.

use std::collections::BTreeMap;
use std::sync::Arc;

use cells::{CellTable, FormRegistry, TableForm, TableKey, TableScratch, snapshot};
use event::{Kind, Space, Time};
use proptest::prelude::*;
use stats::cell_export::CellDefinition;
use stats::{Layout, Measure};

/// Counts by bucket, whose cells become as long as one likes.
pub(crate) fn form(registry: &mut FormRegistry, kind: u16) -> Arc<TableForm> {
    let definition = CellDefinition {
        space: Space(1),
        kind: Kind(kind),
        statistic: "statistic".to_owned(),
        kind_name: "kind".to_owned(),
        measure: Measure::Windows(
            Layout::new(vec!["seen".to_owned()], &["1m x 200".parse().unwrap()], Vec::new(), None).unwrap(),
        ),
    };
    registry.find(&TableForm::field_of(7, &definition)).unwrap()
}

fn contents(table: &CellTable) -> Vec<(u64, u16, u16, Vec<u8>)> {
    let mut all = Vec::new();
    table.each(|form, key, content| {
        all.push((key.shingle, form.definition.kind.0, key.flags(), content.to_vec()))
    });
    all
}

/// The table that a snapshot becomes.
pub(crate) fn reloaded(table: &CellTable, registry: &mut FormRegistry) -> Result<CellTable, &'static str> {
    let mut copy = CellTable::default();
    let mut reader = snapshot::SnapshotReader::begin(&snapshot::head(table), &mut copy, registry)?;
    let mut answer = Ok(());
    snapshot::pieces(table, |piece| {
        if answer.is_ok() {
            answer = reader.piece(piece, &mut copy);
        }
    });
    answer.map(|()| copy)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn a_table_is_a_map(
        steps in proptest::collection::vec((0u64..300, 0usize..3, any::<bool>(), 0u8..10), 1..3000),
        spread in 0u32..40,
    ) {
        let mut registry = FormRegistry::default();
        let forms: Vec<_> = (0..3).map(|kind| form(&mut registry, kind)).collect();
        let mut table = CellTable::default();
        let mut scratch = TableScratch::default();
        let mut model = BTreeMap::<(u64, usize, bool), Vec<u64>>::new();
        for (at, (shingle, kind, is_pair, what)) in steps.into_iter().enumerate() {
            let shingle = shingle << spread;
            let numbers = table.give_numbers(forms.iter()).unwrap();
            let key = TableKey::of(shingle, numbers[kind], is_pair);
            // Most are changed, some removed; now and then one is large.
            let length = [0, 0, 1, 1, 2, 2, 3, 3, 3, 40][usize::from(what)];
            let mut words = Vec::new();
            for bucket in 0..length {
                let time = Time::from_seconds(1_750_000_000 + 60 * (bucket + at as i64));
                forms[kind].plan.add(&mut words, time, [(0, at as u64 + 1)]);
            }
            // What is not used of a cell is not kept.
            let used = words.iter().rposition(|word| *word != 0).map_or(0, |last| last + 1);
            words.truncate(used);
            let before = table.update(key, &mut scratch, |cell| std::mem::replace(cell, words.clone()));
            let known = match words.is_empty() {
                true => model.remove(&(shingle, kind, is_pair)),
                false => model.insert((shingle, kind, is_pair), words),
            };
            prop_assert_eq!(before, known.unwrap_or_default());
        }
        prop_assert!(table.verify());
        prop_assert_eq!(table.len(), model.len() as u64);
        let mut words = Vec::new();
        let numbers = table.give_numbers(forms.iter()).unwrap();
        for ((shingle, kind, is_pair), expected) in &model {
            prop_assert!(table.read(TableKey::of(*shingle, numbers[*kind], *is_pair), &mut words));
            prop_assert_eq!(&words, expected);
        }
        prop_assert!(contents(&table).is_sorted_by_key(|(shingle, ..)| *shingle));
        // Leaves are about full, and short ones are united.
        let bytes: usize = contents(&table).iter().map(|(.., content)| content.len() + 12).sum();
        prop_assert!(table.memory_bytes() < 4 * bytes + 2000, "{} {}", table.memory_bytes(), bytes);
    }
}

#[test]
fn a_snapshot_is_the_same_table() {
    let mut registry = FormRegistry::default();
    let forms: Vec<_> = (0..3).map(|kind| form(&mut registry, kind)).collect();
    let mut table = CellTable::default();
    let mut scratch = TableScratch::default();
    let numbers = table.give_numbers(forms.iter()).unwrap();
    let put = |table: &mut CellTable, number: u64, form: usize, scratch: &mut TableScratch| {
        let key = TableKey::of(number.wrapping_mul(0x9e37_79b9_7f4a_7c15), numbers[form], false);
        table.update(key, scratch, |cell| forms[form].plan.add(cell, Time(1000), [(0, 3)]));
    };
    (0..5000).for_each(|number| put(&mut table, number, (number % 3) as usize, &mut scratch));
    // The first form goes, so that numbers are others in the copy.
    let gone = (0..5000u64).filter(|number| number % 3 == 0);
    gone.for_each(|number| {
        let key = TableKey::of(number.wrapping_mul(0x9e37_79b9_7f4a_7c15), numbers[0], false);
        table.update(key, &mut scratch, Vec::clear);
    });
    let copy = reloaded(&table, &mut registry).unwrap();
    assert!(copy.verify());
    assert_eq!(contents(&copy), contents(&table));
    assert_eq!(copy.len(), 3333);
    // What comes in order lies closely.
    assert!(copy.memory_bytes() <= table.memory_bytes(), "{} {}", copy.memory_bytes(), table.memory_bytes());
    let mut sweep = 0;
    loop {
        let swept = table.sweep(Time(i64::MAX - 1), 100, &mut scratch);
        sweep += swept.removed;
        assert!(swept.looked <= 101);
        if swept.is_over {
            break;
        }
    }
    assert_eq!((sweep, table.len(), table.leaf_count()), (3333, 0, 0));
}
