//! Requests to the module that servers load, and snapshots of its tables: whatever comes is refused or done, nothing panics, and
//! tables stay sound.
#![no_main]

use cells::command::{TableCommand, execute};
use cells::memory::MemoryKeys;
use cells::snapshot::{self, SnapshotReader};
use cells::{CellTable, FormRegistry};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|commands: Vec<(u8, Vec<u8>)>| {
    let mut registry = FormRegistry::default();
    let names = ["number", "writer", "a", "b"].map(|name| name.as_bytes().to_vec());
    let mut keys = MemoryKeys::new(names.to_vec());
    for (command, mut request) in commands {
        let command = TableCommand::ALL[usize::from(command) % TableCommand::ALL.len()];
        // All but the version is up to who asks.
        request.insert(0, cells::request::VERSION);
        keys.names = match command {
            TableCommand::Sweep | TableCommand::Scan | TableCommand::Load => names[2..3].to_vec(),
            _ => names.to_vec(),
        };
        let _ = execute(command, &mut keys, &request, 1_750_000_000_000, &mut registry);
    }
    for table in keys.tables() {
        assert!(table.verify());
        let mut copy = CellTable::default();
        let mut reader = SnapshotReader::begin(&snapshot::head(table), &mut copy, &mut registry).unwrap();
        snapshot::pieces(table, |piece| reader.piece(piece, &mut copy).unwrap());
        assert!(copy.verify() && copy.len() == table.len());
    }
});
