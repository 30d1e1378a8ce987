//! Commands take anything.

use cells::FormRegistry;
use cells::command::{CommandReply, RefusedCommand, TableCommand, execute};
use cells::memory::MemoryKeys;
use cells::request::{self, CellPlace, RequestWriter, VERSION};
use event::{Shingle, Span, Time};
use proptest::prelude::*;

use crate::tables::{form, reloaded};

fn place(table: u16, shingle: u64) -> CellPlace {
    CellPlace { form: 0, is_pair: false, table, shingle: Shingle(shingle) }
}

fn names(names: &[&str]) -> Vec<Vec<u8>> {
    names.iter().map(|name| name.as_bytes().to_vec()).collect()
}

/// A batch of some cells.
fn batch(registry: &mut FormRegistry, number: u64, shingles: std::ops::Range<u64>) -> Vec<u8> {
    let form = form(registry, 1);
    let time = Time::from_seconds(1_750_000_000);
    let mut batch = RequestWriter::write((number, number - 1), &[3; 16], time - Span::hours(1), 1000);
    batch.form(form.field());
    for shingle in shingles {
        let mut words = Vec::new();
        form.plan.add(&mut words, time, [(0, 1)]);
        batch.merge(place(2 + (shingle % 2) as u16, shingle), &words);
    }
    batch.finish()
}

#[test]
fn batches_count_once_and_names_are_told_in_parts() {
    let mut registry = FormRegistry::default();
    let mut keys = MemoryKeys::new(names(&["number", "writer", "a", "b"]));
    let write = |keys: &mut MemoryKeys, number, registry: &mut FormRegistry| {
        let request = batch(registry, number, 0..100);
        match execute(TableCommand::Write, keys, &request, 1_750_000_000_000, registry) {
            Ok(CommandReply::List(parts)) => parts[0].clone(),
            other => panic!("{other:?}"),
        }
    };
    for (number, expected) in [(2, 2), (1, 0), (1, 1), (2, 0), (1, 1)] {
        assert_eq!(write(&mut keys, number, &mut registry), CommandReply::Integer(expected), "{number}");
    }
    // One that is to come after the first is refused after the second: what the second has of it would be counted again.
    let mut late = RequestWriter::write((5, 1), &[3; 16], Time(0), 1000);
    late.form(form(&mut registry, 1).field());
    let refused = execute(TableCommand::Write, &mut keys, &late.finish(), 0, &mut registry).unwrap();
    let CommandReply::List(parts) = refused else { panic!("{refused:?}") };
    assert_eq!(parts[..2], [CommandReply::Integer(2), CommandReply::Integer(2)]);
    keys.names = names(&["a"]);
    let (mut from, mut all) = (Vec::new(), Vec::new());
    loop {
        let asked = request::scan(&from, 7);
        let answer = execute(TableCommand::Scan, &mut keys, &asked, 0, &mut registry).unwrap();
        let CommandReply::Bytes(answer) = answer else { panic!("{answer:?}") };
        let (next, some) = request::read_names(&answer).unwrap();
        assert!(some.len() <= 7);
        all.extend(some.into_iter().map(|name| name.shingle));
        if next.is_empty() {
            break;
        }
        from = next;
    }
    assert_eq!(all, (0..100).step_by(2).collect::<Vec<u64>>());
    // A writer under the name of a table, and a table under that of a text.
    keys.names = names(&["writer"]);
    let asked = execute(TableCommand::Scan, &mut keys, &request::scan(&[], 7), 0, &mut registry);
    assert_eq!(asked, Err(RefusedCommand::WrongType));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_request_makes_it_panic(
        command in 0usize..TableCommand::ALL.len(),
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        changes in proptest::collection::vec((0usize..4000, any::<u8>()), 0..4),
        is_known: bool,
    ) {
        let mut registry = FormRegistry::default();
        let mut keys = MemoryKeys::new(names(&["number", "writer", "a", "b"]));
        let first = batch(&mut registry, 1, 0..100);
        execute(TableCommand::Write, &mut keys, &first, 0, &mut registry).unwrap();
        let mut request = [&[VERSION][..], &bytes].concat();
        if is_known {
            request = batch(&mut registry, 2, 50..150);
            for (at, byte) in changes {
                let at = at % request.len();
                request[at] = byte;
            }
        }
        let _ = execute(TableCommand::ALL[command], &mut keys, &request, 0, &mut registry);
        for table in keys.tables() {
            prop_assert!(table.verify());
            prop_assert!(reloaded(table, &mut registry).is_ok());
        }
    }
}
