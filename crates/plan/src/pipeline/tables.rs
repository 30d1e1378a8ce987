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
        // One that could not be read was told of.
        let Some(file) = document.list_file(&table_key(name)) else { continue };
        let (kind, separator) = (kind(&view), separator(&view));
        let digest = LookupTable::digest_of(kind, separator, &file.text);
        let known = now.iter().find(|known| *known.table.digest() == digest);
        let table = match known {
            Some(known) => Ok(Arc::clone(&known.table)),
            None => LookupTable::read(kind, separator, &file.text).map(Arc::new),
        };
        let table = table.unwrap_or_else(|errors| {
            for error in errors {
                let origin = ConfigOrigin { source: Arc::clone(file), range: error.range };
                problems.add(&origin, format!("table `{name}`: {}", error.message), None);
            }
            // What looks values up in it is not refused for that as well.
            Arc::new(LookupTable::empty(kind))
        });
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
