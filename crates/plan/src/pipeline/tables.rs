//! Tables in which values are looked up.

use std::sync::Arc;

use data_encoding::HEXLOWER;
use judge::{LookupTable, SetType};

use crate::config::{ConfigOrigin, ConfigProblems, ConfigView, Document, table_key};
use crate::entries;

/// A table of a pipeline.
#[derive(Clone, Debug)]
pub struct TablePlan {
    /// Its name.
    pub name: String,
    /// Its entries.
    pub table: Arc<LookupTable>,
}

fn kind(view: &ConfigView<'_>) -> SetType {
    let kind = SetType::ALL.into_iter().find(|kind| Some(kind.name()) == view.str("type"));
    kind.unwrap_or(SetType::String)
}

fn separator(view: &ConfigView<'_>) -> char {
    match view.str("separator") {
        Some("comma") => ',',
        Some("semicolon") => ';',
        Some("blank") => ' ',
        _ => '\t',
    }
}

/// Reads the tables of a pipeline. One that is `now` in force, made of the same text, is not made again.
pub(crate) fn compile(
    document: &Document,
    now: &[TablePlan],
    problems: &mut ConfigProblems,
) -> Vec<TablePlan> {
    let mut tables = Vec::new();
    for view in entries(document, "table", problems) {
        let Some(name) = view.str("name") else { continue };
        let (kind, separator, key) = (kind(&view), separator(&view), table_key(name));
        let known = |digest: [u8; 32]| {
            let known = now.iter().find(|known| *known.table.digest() == digest);
            known.map(|known| Arc::clone(&known.table))
        };
        // A file that could not be read was told of. What looks values up in a bad one is not refused for that as well.
        let table = if view.str("format") == Some("mmdb") {
            let Some(bytes) = document.model_file(&key) else { continue };
            if kind != SetType::Ip {
                let help = "write `type = \"ip\"`".to_owned();
                problems.add(view.origin("type"), "the keys of a network database are networks", Some(help));
                continue;
            }
            let digest = LookupTable::digest_of(kind, LookupTable::DATABASE, bytes);
            let read = || LookupTable::read_database(bytes.to_vec()).map(Arc::new);
            known(digest).map_or_else(read, Ok).unwrap_or_else(|error| {
                let help = "fetch the file again: it has MaxMind's format, unpacked".to_owned();
                let message = format!("table `{name}`: the network database is damaged: {error}");
                problems.add(view.origin("file"), message, Some(help));
                Arc::new(LookupTable::empty(kind, true))
            })
        } else {
            let Some(file) = document.list_file(&key) else { continue };
            let digest = LookupTable::digest_of(kind, separator, file.text.as_bytes());
            let read = || LookupTable::read(kind, separator, &file.text).map(Arc::new);
            known(digest).map_or_else(read, Ok).unwrap_or_else(|errors| {
                for error in errors {
                    let origin = ConfigOrigin { source: Arc::clone(file), range: error.range };
                    problems.add(&origin, format!("table `{name}`: {}", error.message), None);
                }
                Arc::new(LookupTable::empty(kind, false))
            })
        };
        tables.push(TablePlan { name: name.to_owned(), table });
    }
    tables
}

/// The part of a pipeline's version that comes from the files of its tables, one line each.
pub(crate) fn canonical(tables: &[TablePlan]) -> String {
    let line = |TablePlan { name, table }: &TablePlan| {
        let digest: String = HEXLOWER.encode(table.digest());
        format!("table.{name}.digest = \"{digest}\"\n")
    };
    tables.iter().map(line).collect()
}
