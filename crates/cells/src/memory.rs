//! Keys without a server: for tests of commands.

use std::collections::HashMap;

use crate::command::{CommandKeys, RefusedCommand};
use crate::table::CellTable;

/// The content of a key.
#[derive(Clone, Debug)]
enum KeyContent {
    Text(Vec<u8>),
    Table(CellTable),
}

/// Keys in memory; a command gets some of them.
#[derive(Clone, Debug, Default)]
pub struct MemoryKeys {
    all: HashMap<Vec<u8>, KeyContent>,
    /// The keys of the command that runs, which differ.
    pub names: Vec<Vec<u8>>,
}

impl MemoryKeys {
    /// No keys are there; a command gets these.
    pub fn new(names: Vec<Vec<u8>>) -> MemoryKeys {
        MemoryKeys { all: HashMap::new(), names }
    }

    /// The tables, in no order.
    pub fn tables(&self) -> impl Iterator<Item = &CellTable> {
        self.all.values().filter_map(|content| match content {
            KeyContent::Table(table) => Some(table),
            KeyContent::Text(_) => None,
        })
    }
}

impl CommandKeys for MemoryKeys {
    fn count(&self) -> usize {
        self.names.len()
    }

    fn table(&mut self, key: usize) -> Result<Option<&mut CellTable>, RefusedCommand> {
        match self.all.get_mut(&self.names[key]) {
            None => Ok(None),
            Some(KeyContent::Table(table)) => Ok(Some(table)),
            Some(KeyContent::Text(_)) => Err(RefusedCommand::WrongType),
        }
    }

    fn make_table(&mut self, key: usize) -> &mut CellTable {
        let empty = || KeyContent::Table(CellTable::default());
        let content = self.all.entry(self.names[key].clone()).or_insert_with(empty);
        if matches!(content, KeyContent::Text(_)) {
            *content = empty();
        }
        match content {
            KeyContent::Table(table) => table,
            KeyContent::Text(_) => unreachable!("it was just made a table"),
        }
    }

    fn text(&mut self, key: usize) -> Result<Option<&[u8]>, RefusedCommand> {
        match self.all.get(&self.names[key]) {
            None => Ok(None),
            Some(KeyContent::Text(text)) => Ok(Some(text)),
            Some(KeyContent::Table(_)) => Err(RefusedCommand::WrongType),
        }
    }

    fn set_text(&mut self, key: usize, text: &[u8], _until: Option<i64>) {
        self.all.insert(self.names[key].clone(), KeyContent::Text(text.to_vec()));
    }

    fn keep(&mut self, _key: usize, _until: i64) {}

    fn remove(&mut self, key: usize) {
        self.all.remove(&self.names[key]);
    }
}
