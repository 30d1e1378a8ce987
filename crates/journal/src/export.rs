//! The journal as a table: one row a decision, for notebooks, warehouses and training.
//!
//! Columns are the decision's own, then every fact by its name, over all versions of the pipelines that the export
//! covers; where two versions give one name different types, the newer version's type stands and values that do
//! not fit it are null. A fact that is named like one of the decision's own columns has `fact.` before its name.
//!
//! Both formats have the same columns, all of them nullable and none of them nested: a list is the JSON text of its
//! items, so that whatever reads tables reads these. Every line of NDJSON has every column, as readers guess columns
//! from the first lines. Feedback labels its decision whenever it came, also after the end of the export's time.
//!
//! A server may go on deciding meanwhile: the export has what was decided before it began, perhaps some of what comes after,
//! and nothing of versions that came after.

use std::collections::{HashMap, HashSet};
use std::io::Write;
use std::sync::Arc;

use event::{Column, Slot, Time, Type, Value};
use parquet::basic::{Compression, LogicalType, Repetition, TimeUnit, Type as Physical, ZstdLevel};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{Type as SchemaType, TypePtr};

use super::labels::LabelIndex;
use super::visitor::RecordVisitor;
use super::{
    DecisionRow, JournalArchive, JournalError, MissingRecords, Record, SkippedData, VersionDescription,
};
use crate::id::RecordId;
use crate::json::json_value;

/// A table that was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExportSummary {
    /// Rows in it.
    pub rows: u64,
    /// The data that is not in the export because it is damaged.
    pub skipped: SkippedData,
    /// The records that are not in the export because they are gone.
    pub lacking: Vec<MissingRecords>,
    /// Versions whose facts are not in it, as nothing says any more which they are.
    pub undescribed: Vec<String>,
}

impl ExportSummary {
    /// Returns true if the export has all that was asked for.
    pub fn is_whole(&self) -> bool {
        self.skipped.is_empty() && self.lacking.is_empty() && self.undescribed.is_empty()
    }
}

/// The decisions to export.
#[derive(Clone, Debug, Default)]
pub struct ExportFilter {
    /// Events at this time or later.
    pub from: Option<Time>,
    /// Events before this time.
    pub to: Option<Time>,
    /// Decisions of this pipeline.
    pub pipeline: Option<String>,
    /// Only decisions on which somebody gave feedback.
    pub labelled: bool,
}

/// Reasons for a failed export.
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
/// Bytes of values of a group, about, above which it has fewer rows.
const GROUP_BYTES: usize = 64 << 20;

impl ExportFilter {
    fn takes(&self, id: RecordId, row: &DecisionRow, labels: &LabelIndex) -> bool {
        self.from.is_none_or(|from| row.time >= from)
            && self.to.is_none_or(|to| row.time < to)
            && self.pipeline.as_ref().is_none_or(|pipeline| *pipeline == row.pipeline)
            && (!self.labelled || labels.of(id).is_some())
    }
}

/// The data that is read before rows are: labels, signals, and what the versions' rows mean.
struct ExportOutline {
    labels: LabelIndex,
    signals: LabelIndex,
    /// In the order in which versions first appear.
    descriptions: Vec<(String, VersionDescription)>,
    undescribed: Vec<String>,
}

/// Looks for labels, signals and versions alone.
struct OutlineCollector<'f> {
    filter: &'f ExportFilter,
    labels: LabelIndex,
    signals: LabelIndex,
    versions: Vec<String>,
}

impl<'w> RecordVisitor<'w> for OutlineCollector<'_> {
    fn version(&mut self, pipeline: &str, version: &str) -> Option<&'w [Option<Slot>]> {
        let is_wanted = self.filter.pipeline.as_ref().is_none_or(|wanted| wanted == pipeline);
        if is_wanted && !self.versions.iter().any(|known| known == version) {
            self.versions.push(version.to_owned());
        }
        None
    }

    fn feedback(&mut self, id: RecordId, decision: RecordId, class: Option<&str>, time: Time) {
        self.labels.add(id, decision, class, time);
    }

    fn wants_signals(&self) -> bool {
        true
    }

    fn signal(&mut self, id: RecordId, decision: RecordId, class: Option<&str>, time: Time) {
        self.signals.add(id, decision, class, time);
    }
}

impl ExportOutline {
    fn read(archive: &JournalArchive, filter: &ExportFilter) -> Result<ExportOutline, JournalError> {
        let (labels, signals) = Default::default();
        let mut outlook = OutlineCollector { filter, labels, signals, versions: Vec::new() };
        archive.look(&mut outlook)?;
        let OutlineCollector { labels, signals, versions, .. } = outlook;
        let mut outline =
            ExportOutline { labels, signals, descriptions: Vec::new(), undescribed: Vec::new() };
        for version in versions {
            match archive.description(&version) {
                Ok(description) => outline.descriptions.push((version, description)),
                Err(error) => {
                    tracing::warn!(%error, "the facts of its rows have no names, and are left out");
                    outline.undescribed.push(version);
                }
            }
        }
        Ok(outline)
    }

    /// Returns true if a version decided when this was read.
    fn knows(&self, version: &str) -> bool {
        self.description(version).is_some() || self.undescribed.iter().any(|other| other == version)
    }

    fn description(&self, version: &str) -> Option<&VersionDescription> {
        self.descriptions.iter().find(|(other, _)| other == version).map(|(_, description)| description)
    }
}

/// Writes one JSON object a line: times as RFC 3339, bytes as hexadecimal digits, floats that JSON cannot write as
/// null, everything else as in Parquet. Returns how many rows.
pub fn ndjson(
    archive: &JournalArchive,
    filter: &ExportFilter,
    out: &mut dyn Write,
) -> Result<ExportSummary, ExportError> {
    let outline = ExportOutline::read(archive, filter)?;
    let columns = table(&outline);
    let mut count = 0;
    let skipped = each_row(archive, filter, &outline, |id, row| {
        let values = cells(id, row, &columns, &outline);
        for (index, (column, value)) in columns.iter().zip(values).enumerate() {
            out.write_all(if index == 0 { b"{" } else { b"," })?;
            serde_json::to_writer(&mut *out, &column.name).map_err(std::io::Error::from)?;
            out.write_all(b":")?;
            let value = value.map(flat).as_ref().map(json_value).unwrap_or_default();
            serde_json::to_writer(&mut *out, &value).map_err(std::io::Error::from)?;
        }
        out.write_all(b"}\n")?;
        count += 1;
        Ok(())
    })?;
    out.flush()?;
    Ok(ExportSummary { rows: count, skipped, lacking: archive.lacking()?, undescribed: outline.undescribed })
}

fn each_row(
    archive: &JournalArchive,
    filter: &ExportFilter,
    outline: &ExportOutline,
    mut each: impl FnMut(RecordId, DecisionRow) -> Result<(), ExportError>,
) -> Result<SkippedData, ExportError> {
    let mut result = Ok(());
    let skipped = archive.scan(|id, record| {
        if let Record::Decision(row) = record
            && filter.takes(id, &row, &outline.labels)
            && outline.knows(&row.version)
        {
            result = each(id, *row);
        }
        result.is_ok()
    })?;
    result.map(|()| skipped)
}

/// Writes one Parquet file, zstd-compressed, with a row group for every 8192 rows. Times are microseconds in UTC,
/// addresses are strings, lists are JSON in strings. Returns how many rows.
pub fn parquet(
    archive: &JournalArchive,
    filter: &ExportFilter,
    out: impl Write + Send,
) -> Result<ExportSummary, ExportError> {
    let outline = ExportOutline::read(archive, filter)?;
    let columns = table(&outline);
    let named = columns.iter().map(|column| (column.name.clone(), column.kind)).collect();
    let mut table = ParquetTable::new(named, GROUP_BYTES, out)?;
    let mut count = 0;
    let skipped = each_row(archive, filter, &outline, |id, row| {
        count += 1;
        table.put(cells(id, row, &columns, &outline))
    })?;
    table.finish()?;
    Ok(ExportSummary { rows: count, skipped, lacking: archive.lacking()?, undescribed: outline.undescribed })
}

/// A Parquet file that rows are put into, one by one. A row group has 8192 rows, or fewer where their values are long.
pub struct ParquetTable<W: Write + Send> {
    writer: SerializedFileWriter<W>,
    kinds: Vec<Type>,
    rows: Vec<Vec<Option<Value>>>,
    bytes: usize,
    group_bytes: usize,
}

impl<W: Write + Send> ParquetTable<W> {
    /// Begins a file with these columns. No two of them may have the same name. A group has about so many bytes of values at most.
    ///
    /// # Errors
    /// If the columns are none, or it cannot be written.
    pub fn new(
        columns: Vec<(String, Type)>,
        group_bytes: usize,
        out: W,
    ) -> Result<ParquetTable<W>, ExportError> {
        let fields = columns.iter().map(|(name, kind)| field(name, *kind)).collect::<Result<Vec<_>, _>>()?;
        let schema = SchemaType::group_type_builder("decisions").with_fields(fields).build()?;
        let properties =
            WriterProperties::builder().set_compression(Compression::ZSTD(ZstdLevel::default())).build();
        let writer = SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties))?;
        let kinds = columns.into_iter().map(|(_, kind)| kind).collect();
        Ok(ParquetTable { writer, kinds, rows: Vec::new(), bytes: 0, group_bytes })
    }

    /// Puts a row behind the others. A value that is none of its column's type is null.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn put(&mut self, row: Vec<Option<Value>>) -> Result<(), ExportError> {
        let row = row.into_iter().zip(&self.kinds);
        let row: Vec<Option<Value>> =
            row.map(|(value, kind)| value.and_then(|value| value.coerce(*kind)).map(flat)).collect();
        self.bytes += row.iter().map(size).sum::<usize>();
        self.rows.push(row);
        if self.rows.len() == GROUP_ROWS || self.bytes >= self.group_bytes {
            self.end_group()
        } else {
            Ok(())
        }
    }

    fn end_group(&mut self) -> Result<(), ExportError> {
        let mut group = self.writer.next_row_group()?;
        write_group(&mut group, self.kinds.len(), &self.rows)?;
        group.close()?;
        self.rows.clear();
        self.bytes = 0;
        Ok(())
    }

    /// Ends the file.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn finish(mut self) -> Result<(), ExportError> {
        if !self.rows.is_empty() {
            self.end_group()?;
        }
        self.writer.close()?;
        Ok(())
    }
}

/// A column of the table: of the decision itself, or a fact.
struct ExportColumn {
    name: String,
    kind: Type,
    source: ColumnSource,
}

/// The parts of which a row of the table is made.
struct ExportRow<'a> {
    id: RecordId,
    row: &'a DecisionRow,
    description: Option<&'a VersionDescription>,
    label: Option<(&'a Arc<str>, Time)>,
    signal: Option<(&'a Arc<str>, Time)>,
}

/// The value of a column of the decision's own.
type DecisionAccessor = fn(&ExportRow<'_>) -> Option<Value>;

enum ColumnSource {
    Decision(DecisionAccessor),
    /// The fact's slot in each version.
    Fact(HashMap<String, Slot>),
}

fn table(outline: &ExportOutline) -> Vec<ExportColumn> {
    let own: [(&str, Type, DecisionAccessor); 20] = [
        ("id", Type::String, |told| Some(told.id.to_string().into())),
        ("pipeline", Type::String, |told| Some(told.row.pipeline.as_str().into())),
        ("version", Type::String, |told| Some(told.row.version.as_str().into())),
        ("rules_version", Type::String, |told| told.description?.rules_version.as_deref().map(Value::from)),
        ("preset", Type::String, |told| Some(told.description?.preset.as_ref()?.0.as_str().into())),
        ("preset_version", Type::String, |told| Some(told.description?.preset.as_ref()?.1.as_str().into())),
        ("models", Type::String, |told| told.description?.models_text().map(Value::from)),
        ("event_id", Type::String, |told| told.row.event_id.as_deref().map(Value::from)),
        ("time", Type::Time, |told| Some(told.row.time.into())),
        ("arrival", Type::Time, |told| Some(told.row.arrival.into())),
        ("duplicate", Type::Bool, |told| Some(told.row.duplicate.into())),
        ("action", Type::String, |told| Some(told.row.verdict.action.name().into())),
        ("score", Type::Float, |told| Some(told.row.verdict.score.into())),
        ("probability", Type::Float, |told| Some(told.row.verdict.probability.into())),
        ("rules", Type::List, |told| {
            let reasons = told.row.verdict.reasons.iter();
            Some(Value::List(reasons.map(|reason| reason.rule.as_str().into()).collect()))
        }),
        ("effects", Type::List, |told| {
            let effects = told.row.verdict.effects.iter();
            Some(Value::List(effects.map(|due| due.effect.to_string().into()).collect()))
        }),
        ("label", Type::String, |told| told.label.map(|(class, _)| (&**class).into())),
        ("label_time", Type::Time, |told| told.label.map(|(_, time)| time.into())),
        ("signal", Type::String, |told| told.signal.map(|(class, _)| (&**class).into())),
        ("signal_time", Type::Time, |told| told.signal.map(|(_, time)| time.into())),
    ];
    let mut columns: Vec<ExportColumn> = own
        .into_iter()
        .map(|(name, kind, get)| ExportColumn {
            name: name.to_owned(),
            kind,
            source: ColumnSource::Decision(get),
        })
        .collect();
    let own: HashSet<String> = columns.iter().map(|column| column.name.clone()).collect();
    let mut by_name: HashMap<String, usize> = HashMap::new();
    for (version, description) in &outline.descriptions {
        for (Column { name, kind, journalled, .. }, slot) in description.columns.iter().zip(0..) {
            if !journalled {
                continue;
            }
            let index = *by_name.entry(name.clone()).or_insert_with(|| {
                let name = if own.contains(name) { format!("fact.{name}") } else { name.clone() };
                columns.push(ExportColumn { name, kind: *kind, source: ColumnSource::Fact(HashMap::new()) });
                columns.len() - 1
            });
            if let Some(column) = columns.get_mut(index) {
                column.kind = *kind;
                if let ColumnSource::Fact(slots) = &mut column.source {
                    slots.insert(version.clone(), Slot(slot));
                }
            }
        }
    }
    columns
}

fn cells(
    id: RecordId,
    row: DecisionRow,
    columns: &[ExportColumn],
    outline: &ExportOutline,
) -> Vec<Option<Value>> {
    let (label, signal) = (outline.labels.of(id), outline.signals.of(id));
    let description = outline.description(&row.version);
    let told = ExportRow { id, row: &row, description, label, signal };
    let cells = columns.iter().map(|column| {
        let value = match &column.source {
            ColumnSource::Decision(get) => get(&told),
            ColumnSource::Fact(slots) => {
                slots.get(&row.version).and_then(|slot| row.facts.get(*slot)).cloned()
            }
        };
        value.and_then(|value| value.coerce(column.kind))
    });
    cells.collect()
}

/// Bytes that a cell takes up in memory.
fn size(cell: &Option<Value>) -> usize {
    let content = match cell {
        Some(Value::String(text)) => text.len(),
        Some(Value::Bytes(bytes)) => bytes.len(),
        _ => 0,
    };
    size_of::<Option<Value>>() + content
}

/// A value that is one cell.
fn flat(value: Value) -> Value {
    match value {
        Value::List(_) => json_value(&value).to_string().into(),
        scalar => scalar,
    }
}

fn field(name: &str, kind: Type) -> Result<TypePtr, ParquetError> {
    let (physical, logical) = match kind {
        Type::String | Type::Ip | Type::List => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        Type::Bytes => (Physical::BYTE_ARRAY, None),
        Type::Integer => (Physical::INT64, None),
        Type::Float => (Physical::DOUBLE, None),
        Type::Bool => (Physical::BOOLEAN, None),
        Type::Time => (Physical::INT64, Some(LogicalType::timestamp(true, TimeUnit::MICROS))),
    };
    let field = SchemaType::primitive_type_builder(name, physical)
        .with_logical_type(logical)
        .with_repetition(Repetition::OPTIONAL);
    Ok(Arc::new(field.build()?))
}

fn write_group<W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    columns: usize,
    rows: &[Vec<Option<Value>>],
) -> Result<(), ParquetError> {
    for index in 0..columns {
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
                let values = cells().filter_map(|cell| match cell? {
                    Value::Bytes(bytes) => Some(ByteArray::from(bytes.to_vec())),
                    Value::String(text) => Some(ByteArray::from(text.as_bytes().to_vec())),
                    scalar => Some(ByteArray::from(scalar.to_string().into_bytes())),
                });
                column.write_batch(&values.collect::<Vec<_>>(), Some(&definition), None)?;
            }
            _ => {}
        }
        writer.close()?;
    }
    Ok(())
}
