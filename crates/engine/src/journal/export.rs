//! The journal as a table: one row a decision, for notebooks, warehouses and training.
//!
//! Columns are the decision's own, then every fact by its name, over all versions of the pipelines that the export
//! covers; where two versions give one name different types, the newer version's type stands and values that do
//! not fit it are null.

use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;

use event::{Column, Slot, Time, Type, Value};
use parquet::basic::{
    Compression, ConvertedType, LogicalType, Repetition, TimeUnit, Type as Physical, ZstdLevel,
};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{PrimitiveTypeBuilder, Type as SchemaType, TypePtr};

use super::{Description, Journal, JournalError, Record, Row};
use crate::id::RecordId;
use crate::json::json_value;

/// Which decisions are exported.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Events at this time or later.
    pub from: Option<Time>,
    /// Events before this time.
    pub to: Option<Time>,
    /// Decisions of this pipeline.
    pub pipeline: Option<String>,
    /// Only decisions on which somebody gave feedback.
    pub labelled: bool,
}

/// Why an export failed.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The journal cannot be read.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The output cannot be written.
    #[error("the export cannot be written: {0}")]
    Write(#[from] std::io::Error),
    /// The output cannot be encoded.
    #[error("the export cannot be written: {0}")]
    Parquet(#[from] ParquetError),
}

/// Rows of one Parquet row group, and so of the memory that an export takes.
const GROUP_ROWS: usize = 8192;

impl Filter {
    fn takes(&self, id: RecordId, row: &Row, labels: &HashMap<RecordId, String>) -> bool {
        self.from.is_none_or(|from| row.time >= from)
            && self.to.is_none_or(|to| row.time < to)
            && self.pipeline.as_ref().is_none_or(|pipeline| *pipeline == row.pipeline)
            && (!self.labelled || labels.contains_key(&id))
    }
}

/// What is read before rows are: the last word of feedback on each decision, and what the versions' rows mean.
struct Outline {
    labels: HashMap<RecordId, String>,
    /// In the order in which versions first appear.
    descriptions: Vec<(String, Description)>,
}

impl Outline {
    fn read(journal: &Journal, filter: &Filter) -> Result<Outline, JournalError> {
        let mut labels = HashMap::new();
        let mut versions: Vec<String> = Vec::new();
        journal.scan(|_, record| {
            match record {
                Record::Feedback(feedback) => {
                    labels.insert(feedback.decision, feedback.class);
                }
                Record::Decision(row) => {
                    let wanted = filter.pipeline.as_ref().is_none_or(|pipeline| *pipeline == row.pipeline);
                    if wanted && !versions.contains(&row.version) {
                        versions.push(row.version);
                    }
                }
            }
            true
        })?;
        let described =
            versions.into_iter().map(|version| Ok((version.clone(), journal.description(&version)?)));
        Ok(Outline { labels, descriptions: described.collect::<Result<_, JournalError>>()? })
    }

    fn description(&self, version: &str) -> Option<&Description> {
        self.descriptions.iter().find(|(other, _)| other == version).map(|(_, description)| description)
    }
}

/// Writes one JSON object a line. Returns the number of rows.
pub fn ndjson(journal: &Journal, filter: &Filter, out: &mut dyn Write) -> Result<u64, ExportError> {
    let outline = Outline::read(journal, filter)?;
    let mut count = 0;
    each_row(journal, filter, &outline, |id, row| {
        let facts = outline.description(&row.version).map(|description| {
            let values = description.columns.iter().zip(row.facts.values());
            let named =
                values.filter_map(|(column, value)| Some((column.name.clone(), json_value(value.as_ref()?))));
            named.collect::<serde_json::Map<_, _>>()
        });
        let object = serde_json::json!({
            "id": id.to_string(),
            "pipeline": row.pipeline,
            "version": row.version,
            "event_id": row.event_id,
            "time": row.time.to_string(),
            "arrival": row.arrival.to_string(),
            "duplicate": row.duplicate,
            "action": row.verdict.action.name(),
            "score": row.verdict.score,
            "reasons": reasons(&row),
            "label": outline.labels.get(&id),
            "facts": facts,
        });
        writeln!(out, "{object}")?;
        count += 1;
        Ok(())
    })?;
    out.flush()?;
    Ok(count)
}

fn reasons(row: &Row) -> serde_json::Value {
    let reasons = row.verdict.reasons.iter().map(
        |reason| serde_json::json!({ "name": reason.rule, "score": reason.score, "detail": reason.detail }),
    );
    reasons.collect()
}

fn each_row(
    journal: &Journal,
    filter: &Filter,
    outline: &Outline,
    mut each: impl FnMut(RecordId, Row) -> Result<(), ExportError>,
) -> Result<(), ExportError> {
    let mut result = Ok(());
    journal.scan(|id, record| {
        if let Record::Decision(row) = record
            && filter.takes(id, &row, &outline.labels)
        {
            result = each(id, *row);
        }
        result.is_ok()
    })?;
    result
}

/// Writes one Parquet file, zstd-compressed, with a row group for every 8192 rows. Times are microseconds in UTC,
/// addresses are strings, lists are lists of strings. Returns the
/// number of rows.
pub fn parquet(journal: &Journal, filter: &Filter, out: impl Write + Send) -> Result<u64, ExportError> {
    let outline = Outline::read(journal, filter)?;
    let columns = table(&outline);
    let fields = columns.iter().map(field).collect::<Result<Vec<_>, _>>()?;
    let schema = SchemaType::group_type_builder("decisions").with_fields(fields).build()?;
    let properties =
        WriterProperties::builder().set_compression(Compression::ZSTD(ZstdLevel::default())).build();
    let mut writer = SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties))?;
    let mut rows = Vec::with_capacity(GROUP_ROWS);
    let mut count = 0;
    each_row(journal, filter, &outline, |id, row| {
        rows.push(cells(id, row, &columns, &outline));
        count += 1;
        if rows.len() == GROUP_ROWS {
            let mut group = writer.next_row_group()?;
            write_group(&mut group, &columns, &rows)?;
            group.close()?;
            rows.clear();
        }
        Ok(())
    })?;
    if !rows.is_empty() {
        let mut group = writer.next_row_group()?;
        write_group(&mut group, &columns, &rows)?;
        group.close()?;
    }
    writer.close()?;
    Ok(count)
}

/// A column of the table: of the decision itself, or a fact.
struct TableColumn {
    name: String,
    kind: Type,
    source: Source,
}

enum Source {
    Decision(fn(RecordId, &Row, Option<&str>) -> Option<Value>),
    /// The fact's slot in each version.
    Fact(HashMap<String, Slot>),
}

fn table(outline: &Outline) -> Vec<TableColumn> {
    type Get = fn(RecordId, &Row, Option<&str>) -> Option<Value>;
    let own: [(&str, Type, Get); 11] = [
        ("id", Type::String, |id, _, _| Some(id.to_string().into())),
        ("pipeline", Type::String, |_, row, _| Some(row.pipeline.as_str().into())),
        ("version", Type::String, |_, row, _| Some(row.version.as_str().into())),
        ("event_id", Type::String, |_, row, _| row.event_id.as_deref().map(Value::from)),
        ("time", Type::Time, |_, row, _| Some(row.time.into())),
        ("arrival", Type::Time, |_, row, _| Some(row.arrival.into())),
        ("duplicate", Type::Bool, |_, row, _| Some(row.duplicate.into())),
        ("action", Type::String, |_, row, _| Some(row.verdict.action.name().into())),
        ("score", Type::Float, |_, row, _| Some(row.verdict.score.into())),
        ("rules", Type::List, |_, row, _| {
            Some(Value::List(row.verdict.reasons.iter().map(|reason| reason.rule.as_str().into()).collect()))
        }),
        ("label", Type::String, |_, _, label| label.map(Value::from)),
    ];
    let mut columns: Vec<TableColumn> = own
        .into_iter()
        .map(|(name, kind, get)| TableColumn { name: name.to_owned(), kind, source: Source::Decision(get) })
        .collect();
    let first_fact = columns.len();
    let mut by_name: HashMap<String, usize> = HashMap::new();
    for (version, description) in &outline.descriptions {
        for (Column { name, kind, journalled, .. }, slot) in description.columns.iter().zip(0..) {
            if !journalled {
                continue;
            }
            let index = *by_name.entry(name.clone()).or_insert_with(|| {
                let source = Source::Fact(HashMap::new());
                columns.push(TableColumn { name: name.clone(), kind: *kind, source });
                columns.len() - 1
            });
            if let Some(column) = columns.get_mut(index).filter(|_| index >= first_fact) {
                column.kind = *kind;
                if let Source::Fact(slots) = &mut column.source {
                    slots.insert(version.clone(), Slot(slot));
                }
            }
        }
    }
    columns
}

fn cells(id: RecordId, row: Row, columns: &[TableColumn], outline: &Outline) -> Vec<Option<Value>> {
    let label = outline.labels.get(&id).map(String::as_str);
    let cells = columns.iter().map(|column| {
        let value = match &column.source {
            Source::Decision(get) => get(id, &row, label),
            Source::Fact(slots) => slots.get(&row.version).and_then(|slot| row.facts.get(*slot)).cloned(),
        };
        value.and_then(|value| value.coerce(column.kind))
    });
    cells.collect()
}

fn field(column: &TableColumn) -> Result<TypePtr, ParquetError> {
    fn text(name: &str) -> PrimitiveTypeBuilder<'_> {
        SchemaType::primitive_type_builder(name, Physical::BYTE_ARRAY)
            .with_logical_type(Some(LogicalType::String))
    }
    let primitive = SchemaType::primitive_type_builder;
    let optional = Repetition::OPTIONAL;
    let name = column.name.as_str();
    let field = match column.kind {
        Type::String | Type::Ip => text(name).with_repetition(optional).build()?,
        Type::Bytes => primitive(name, Physical::BYTE_ARRAY).with_repetition(optional).build()?,
        Type::Integer => primitive(name, Physical::INT64).with_repetition(optional).build()?,
        Type::Float => primitive(name, Physical::DOUBLE).with_repetition(optional).build()?,
        Type::Bool => primitive(name, Physical::BOOLEAN).with_repetition(optional).build()?,
        Type::Time => primitive(name, Physical::INT64)
            .with_logical_type(Some(LogicalType::timestamp(true, TimeUnit::MICROS)))
            .with_repetition(optional)
            .build()?,
        Type::List => {
            let element = text("element").with_repetition(Repetition::REQUIRED).build()?;
            let list = SchemaType::group_type_builder("list")
                .with_repetition(Repetition::REPEATED)
                .with_fields(vec![Arc::new(element)])
                .build()?;
            SchemaType::group_type_builder(name)
                .with_repetition(optional)
                .with_logical_type(Some(LogicalType::List))
                .with_converted_type(ConvertedType::LIST)
                .with_fields(vec![Arc::new(list)])
                .build()?
        }
    };
    Ok(Arc::new(field))
}

fn write_group<W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    columns: &[TableColumn],
    rows: &[Vec<Option<Value>>],
) -> Result<(), ParquetError> {
    for index in 0..columns.len() {
        let Some(mut writer) = group.next_column()? else { break };
        let cells = || rows.iter().map(|row| row.get(index).and_then(Option::as_ref));
        let definition: Vec<i16> = cells().map(|cell| i16::from(cell.is_some())).collect();
        match writer.untyped() {
            ColumnWriter::BoolColumnWriter(column) => {
                let values = cells().filter_map(|cell| match cell? {
                    Value::Bool(truth) => Some(*truth),
                    _ => None,
                });
                column.write_batch(&values.collect::<Vec<_>>(), Some(&definition), None)?;
            }
            ColumnWriter::Int64ColumnWriter(column) => {
                let values = cells().filter_map(|cell| match cell? {
                    Value::Integer(integer) => Some(*integer),
                    Value::Time(time) => Some(time.0),
                    _ => None,
                });
                column.write_batch(&values.collect::<Vec<_>>(), Some(&definition), None)?;
            }
            ColumnWriter::DoubleColumnWriter(column) => {
                let values = cells().filter_map(|cell| match cell? {
                    Value::Float(float) => Some(*float),
                    _ => None,
                });
                column.write_batch(&values.collect::<Vec<_>>(), Some(&definition), None)?;
            }
            ColumnWriter::ByteArrayColumnWriter(column) => {
                let (mut values, mut definition, mut repetition) = (Vec::new(), Vec::new(), Vec::new());
                for cell in cells() {
                    match cell {
                        // A list: absent 0, empty 1, an element 2; its first element starts a new row.
                        Some(Value::List(items)) => {
                            values.extend(items.iter().map(|item| ByteArray::from(item.as_bytes().to_vec())));
                            definition.extend(std::iter::repeat_n(
                                if items.is_empty() { 1 } else { 2 },
                                items.len().max(1),
                            ));
                            repetition.extend((0..items.len().max(1)).map(|place| i16::from(place > 0)));
                            continue;
                        }
                        Some(Value::Bytes(bytes)) => values.push(ByteArray::from(bytes.to_vec())),
                        Some(scalar) => values.push(ByteArray::from(scalar.to_string().into_bytes())),
                        None => {}
                    }
                    definition.push(i16::from(cell.is_some()));
                    repetition.push(0);
                }
                let list = columns.get(index).is_some_and(|column| column.kind == Type::List);
                column.write_batch(&values, Some(&definition), list.then_some(&repetition[..]))?;
            }
            _ => {}
        }
        writer.close()?;
    }
    Ok(())
}
