//! Past decisions as a Parquet file, which is written as pages of them come.

use std::io::{self, Write};
use std::sync::Arc;

use event::{Type, Value};
use journal::export::{ExportError, ParquetTable};
use parking_lot::Mutex;

use super::decision_csv::COLUMNS;
use super::search::ListedDecisionJson;

/// Bytes of values that are in memory at once, about: those of one row group.
const GROUP_BYTES: usize = 8 << 20;

/// Bytes that were written, until they are taken.
#[derive(Clone, Debug, Default)]
struct WrittenBytes(Arc<Mutex<Vec<u8>>>);

impl WrittenBytes {
    fn take(&self) -> Vec<u8> {
        std::mem::take(&mut *self.0.lock())
    }
}

impl Write for WrittenBytes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A Parquet file of decisions: the columns of CSV, and one for each fact, of its type. Rules are JSON in texts.
pub(crate) struct DecisionTable {
    table: ParquetTable<WrittenBytes>,
    facts: Vec<(String, Type)>,
    written: WrittenBytes,
}

impl DecisionTable {
    /// Begins a file with these facts. One that is named like a column of every decision gets `fact.` before its name.
    pub(crate) fn new(facts: Vec<(String, Type)>) -> Result<DecisionTable, ExportError> {
        let own = COLUMNS.into_iter().map(|name| {
            let kind = match name {
                "time" => Type::Time,
                "score" | "probability" => Type::Float,
                "rules" | "shadow" => Type::List,
                _ => Type::String,
            };
            (name.to_owned(), kind)
        });
        let mut named: Vec<(String, Type)> = own.collect();
        let mut kept: Vec<(String, Type)> = Vec::new();
        for (fact, kind) in facts {
            let name = if COLUMNS.contains(&fact.as_str()) { format!("fact.{fact}") } else { fact.clone() };
            if !named.iter().any(|(known, _)| *known == name) {
                named.push((name, kind));
                kept.push((fact, kind));
            }
        }
        let written = WrittenBytes::default();
        let table = ParquetTable::new(named, GROUP_BYTES, written.clone())?;
        Ok(DecisionTable { table, facts: kept, written })
    }

    /// Puts a decision behind others.
    pub(crate) fn put(&mut self, one: &ListedDecisionJson) -> Result<(), ExportError> {
        let rules = one.rules.iter().map(|rule| rule.name.clone()).collect::<Vec<_>>();
        let mut row: Vec<Option<Value>> = vec![
            Some(one.id.as_str().into()),
            one.event_id.as_deref().map(Value::from),
            Some(one.pipeline.as_str().into()),
            Some(one.version.as_str().into()),
            Some(one.time.0.into()),
            Some(one.action.name().into()),
            Some(one.score.into()),
            Some(one.probability.into()),
            Some(rules.into()),
            Some(one.shadow.clone().into()),
            one.label.as_deref().map(Value::from),
        ];
        row.extend(self.facts.iter().map(|(fact, kind)| cell(one.facts.get(fact)?, *kind)));
        self.table.put(row)
    }

    /// Takes what was written since it was last asked.
    pub(crate) fn take(&self) -> Vec<u8> {
        self.written.take()
    }

    /// Ends the file, and returns what was written since it was last asked.
    pub(crate) fn finish(self) -> Result<Vec<u8>, ExportError> {
        self.table.finish()?;
        Ok(self.written.take())
    }
}

/// A fact in JSON as a value of its type; nothing for one that is of another.
fn cell(fact: &serde_json::Value, kind: Type) -> Option<Value> {
    match kind {
        Type::Integer => fact.as_i64().map(Value::from),
        Type::Float => fact.as_f64().map(Value::from),
        Type::Bool => fact.as_bool().map(Value::from),
        Type::Time => fact.as_str().and_then(|text| text.parse::<event::Time>().ok()).map(Value::from),
        // Addresses and bytes come as texts, and lists are written as JSON.
        Type::String | Type::Ip | Type::Bytes | Type::List => match fact {
            serde_json::Value::Null => None,
            serde_json::Value::String(text) => Some(text.as_str().into()),
            other => Some(other.to_string().into()),
        },
    }
}

/// Returns the type of a fact's column: its own, where all pipelines agree on it and a column has it.
pub(crate) fn column_type(kinds: impl IntoIterator<Item = Type>) -> Type {
    let mut kinds = kinds.into_iter();
    let first = kinds.next().unwrap_or(Type::String);
    let is_scalar = matches!(first, Type::Integer | Type::Float | Type::Bool | Type::Time);
    if is_scalar && kinds.all(|kind| kind == first) { first } else { Type::String }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use parquet::file::reader::FileReader;
    use parquet::file::serialized_reader::SerializedFileReader;
    use serde_json::json;

    use super::*;

    #[test]
    fn decisions_are_read_back() {
        let facts = [("mail.size", Type::Integer), ("id", Type::String), ("mail.size", Type::Integer)];
        let facts = facts.map(|(name, kind)| (name.to_owned(), kind)).to_vec();
        let mut table = DecisionTable::new(facts).unwrap();
        let one: ListedDecisionJson = serde_json::from_value(json!({
            "id": "0000000000001", "pipeline": "mail", "version": "1", "time": "2026-05-17T10:00:00Z",
            "arrival": "2026-05-17T10:00:00Z", "action": "reject", "score": 7.5, "probability": 0.9,
            "rules": [{"name": "PILLS", "score": 7.5}], "label": "spam",
            "facts": {"mail.size": 77, "id": "=1+1"},
        }))
        .unwrap();
        for _ in 0..9000 {
            table.put(&one).unwrap();
        }
        let mut file = table.take();
        assert!(file.starts_with(b"PAR1"), "a group is written before the end");
        file.extend(table.finish().unwrap());
        let reader = SerializedFileReader::new(axum::body::Bytes::from(file)).unwrap();
        let rows: Vec<_> = reader.get_row_iter(None).unwrap().collect::<Result<_, _>>().unwrap();
        assert_eq!(rows.len(), 9000);
        let row: BTreeMap<&str, String> =
            rows[8999].get_column_iter().map(|(name, field)| (name.as_str(), field.to_string())).collect();
        assert_eq!(row.len(), COLUMNS.len() + 2, "{row:?}");
        for (name, expected) in [
            ("id", "\"0000000000001\""),
            ("fact.id", "\"=1+1\""),
            ("mail.size", "77"),
            ("score", "7.5"),
            ("rules", "\"[\"PILLS\"]\""),
            ("shadow", "\"[]\""),
            ("event_id", "null"),
        ] {
            assert_eq!(row[name], expected, "{name}");
        }
    }

    #[test]
    fn facts_are_values_of_their_columns() {
        let check = |fact, kind, expected: Option<Value>| assert_eq!(cell(&fact, kind), expected);
        check(json!(4), Type::Integer, Some(4_i64.into()));
        check(json!(4), Type::Float, Some(4.0.into()));
        check(json!("four"), Type::Integer, None);
        check(
            json!("2026-05-17T10:00:00Z"),
            Type::Time,
            Some(event::Time::from_seconds(1_779_012_000).into()),
        );
        check(json!(["a", "b"]), Type::String, Some("[\"a\",\"b\"]".into()));
        check(json!(null), Type::String, None);
        assert_eq!(column_type([Type::Integer, Type::Integer]), Type::Integer);
        assert_eq!(column_type([Type::Integer, Type::Float]), Type::String);
        assert_eq!((column_type([Type::Ip]), column_type([])), (Type::String, Type::String));
    }
}
