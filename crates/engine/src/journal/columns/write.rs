//! Writes records by columns.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use event::{Time, Type, Value};
use judge::Reason;
use parquet::basic::{Compression, LogicalType, Repetition, TimeUnit, Type as Physical, ZstdLevel};
use parquet::column::writer::{ColumnCloseResult, ColumnWriter, get_column_writer};
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesPtr};
use parquet::file::writer::{SerializedFileWriter, SerializedPageWriter, TrackedWrite};
use parquet::schema::types::{ColumnDescPtr, ColumnPath, SchemaDescPtr, Type as SchemaType, TypePtr};

use super::{
    DECISION, Detail, DetailReason, FEEDBACK, Form, Group, HEAD_BYTES, INDEX_BYTES_MAX, ITEMS_MAX, Index,
    Layout, MAGIC, OWN, REPORT, ReportDetail, own,
};
use crate::id::RecordId;
use crate::journal::block::{LEVEL, compress};
use crate::journal::segment::VERSION;
use crate::journal::{JournalError, Record, Report, Row, io_error};

/// Rows of a group.
const GROUP_ROWS: usize = 8192;
/// Bytes of records of a group, above which it has fewer rows: what a reader has in memory at once.
const GROUP_BYTES: usize = 8 << 20;
/// The same of items of lists.
const GROUP_ITEMS: usize = 1 << 20;

/// Writes a file. What was written of it is of no use before [`Writer::finish`].
pub(in crate::journal) struct Writer {
    path: PathBuf,
    file: SerializedFileWriter<File>,
    schema: SchemaDescPtr,
    properties: WriterPropertiesPtr,
    form: Form,
    /// Where the next group begins.
    at: u64,
    index: Index,
    gathered: Gathered,
}

/// The rows of a group.
struct Gathered {
    columns: Vec<Column>,
    rows: usize,
    bytes: usize,
    items: usize,
    ids: Option<(RecordId, RecordId)>,
    arrival: Time,
    extras: bool,
}

/// What a column has of a group.
struct Column {
    kind: Type,
    /// Rows of which it has an entry.
    rows: usize,
    levels: Vec<i16>,
    repeats: Vec<i16>,
    values: Values,
}

enum Values {
    Bools(Vec<bool>),
    Integers(Vec<i64>),
    Floats(Vec<f64>),
    Texts(Vec<ByteArray>),
}

impl Writer {
    /// Makes a file, in the place of any that is there.
    pub(in crate::journal) fn create(
        path: &Path,
        layout: Layout,
        form: Form,
    ) -> Result<Writer, JournalError> {
        let fields = layout.columns().map(|(name, kind)| field(name, kind)).collect::<Result<Vec<_>, _>>();
        let failed = |error| parquet_error(path, error);
        let schema = SchemaType::group_type_builder("records").with_fields(fields.map_err(failed)?).build();
        let level = ZstdLevel::try_new(LEVEL).map_err(failed)?;
        let mut properties = WriterProperties::builder()
            .set_created_by(concat!("tollhouse ", env!("CARGO_PKG_VERSION")).to_owned())
            .set_compression(match form {
                Form::Sealed => Compression::ZSTD(level),
                Form::Bare => Compression::UNCOMPRESSED,
            })
            .set_offset_index_disabled(true)
            .set_statistics_enabled(EnabledStatistics::None);
        for column in [own::ID, own::TIME, own::ARRIVAL] {
            let path = ColumnPath::from(vec![OWN[column].0.to_owned()]);
            properties = properties.set_column_statistics_enabled(path, EnabledStatistics::Chunk);
        }
        // No two rows have the same: looking for it would cost more than all else of them.
        for column in [own::ID, own::DETAIL] {
            let path = ColumnPath::from(vec![OWN[column].0.to_owned()]);
            properties = properties.set_column_dictionary_enabled(path, false);
        }
        let properties = Arc::new(properties.build());
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path);
        let file = file.map_err(io_error(path))?;
        let mut file =
            SerializedFileWriter::new(file, Arc::new(schema.map_err(failed)?), Arc::clone(&properties))
                .map_err(failed)?;
        // The head is written last.
        file.write_all(&[0; HEAD_BYTES - 4]).map_err(io_error(path))?;
        Ok(Writer {
            path: path.to_path_buf(),
            schema: Arc::new(file.schema_descr().clone()),
            file,
            properties,
            form,
            at: HEAD_BYTES as u64,
            gathered: Gathered::new(&layout),
            index: Index { layout, groups: Vec::new() },
        })
    }

    /// Adds a record, of which so many bytes are known to be in rows, and when it arrived, about.
    pub(in crate::journal) fn push(
        &mut self,
        id: RecordId,
        record: &Record,
        bytes: usize,
        arrival: Time,
    ) -> Result<(), JournalError> {
        let full = |gathered: &Gathered| {
            gathered.rows >= GROUP_ROWS
                || gathered.bytes + bytes > GROUP_BYTES
                || gathered.items >= GROUP_ITEMS
        };
        if self.gathered.rows > 0 && full(&self.gathered) {
            self.flush()?;
        }
        let gathered = &mut self.gathered;
        match record {
            Record::Decision(row) => gathered.decision(row, &self.index.layout),
            Record::Feedback(feedback) => {
                gathered.columns[own::WHAT].text(FEEDBACK);
                gathered.columns[own::TIME].integer(feedback.time.0);
                gathered.columns[own::DECISION].text(&feedback.decision.to_string());
                gathered.columns[own::CLASS].text(&feedback.class);
            }
            Record::Report(report) => gathered.report(report),
        }
        gathered.columns[own::ID].text(&id.to_string());
        gathered.rows += 1;
        gathered.bytes += bytes;
        gathered.ids = match gathered.ids {
            None => Some((id, id)),
            Some((first, last)) => Some((first.min(id), last.max(id))),
        };
        gathered.arrival = gathered.arrival.max(arrival);
        gathered.end_row();
        Ok(())
    }

    /// Writes what was gathered.
    fn flush(&mut self) -> Result<(), JournalError> {
        let gathered = std::mem::replace(&mut self.gathered, Gathered::new(&self.index.layout));
        let Some((first, last)) = gathered.ids else { return Ok(()) };
        let path = self.path.clone();
        let failed = |error| parquet_error(&path, error);
        let (at, mut chunks) = (self.at, Vec::with_capacity(gathered.columns.len()));
        let mut group = self.file.next_row_group().map_err(failed)?;
        for (number, column) in gathered.columns.into_iter().enumerate() {
            let description = self.schema.column(number);
            let (bytes, closed) = column.encode(description, &self.properties).map_err(failed)?;
            // A group holds at most some megabytes.
            chunks.push((bytes.len() as u32, crc32fast::hash(&bytes)));
            self.at += bytes.len() as u64;
            group.append_column(&bytes, closed).map_err(failed)?;
        }
        group.close().map_err(failed)?;
        self.index.groups.push(Group {
            at,
            // At most GROUP_ROWS.
            rows: gathered.rows as u32,
            first,
            last,
            arrival: gathered.arrival,
            extras: gathered.extras,
            chunks,
        });
        Ok(())
    }

    /// Writes what is left and all that says where things are, and syncs. Returns how many bytes the file has.
    pub(in crate::journal) fn finish(mut self) -> Result<u64, JournalError> {
        self.flush()?;
        let path = self.path;
        let raw = postcard::to_stdvec(&self.index).unwrap_or_default();
        let too_large = || std::io::Error::other("too many columns and versions for one file");
        if raw.len() > INDEX_BYTES_MAX {
            return Err(io_error(&path)(too_large()));
        }
        let index = match self.form {
            Form::Sealed => compress(&raw, LEVEL).map_err(io_error(&path))?,
            Form::Bare => raw.clone(),
        };
        self.file.write_all(&index).map_err(io_error(&path))?;
        let file = self.file.into_inner().map_err(|error| parquet_error(&path, error))?;
        let footer = self.at + index.len() as u64;
        let written = || {
            let bytes = file.metadata()?.len();
            let mut head = Vec::with_capacity(HEAD_BYTES);
            head.extend_from_slice(&MAGIC);
            head.extend_from_slice(&VERSION.to_le_bytes());
            head.extend_from_slice(&self.at.to_le_bytes());
            head.extend_from_slice(&(index.len() as u32).to_le_bytes());
            head.extend_from_slice(&(raw.len() as u32).to_le_bytes());
            head.extend_from_slice(&crc32fast::hash(&index).to_le_bytes());
            head.extend_from_slice(&crc_of(&file, footer, bytes)?.to_le_bytes());
            head.extend_from_slice(&crc32fast::hash(&head).to_le_bytes());
            file.write_all_at(&head, super::PARQUET.len() as u64)?;
            file.sync_all()?;
            Ok(bytes)
        };
        written().map_err(io_error(&path))
    }
}

/// The checksum of a part of a file.
fn crc_of(file: &File, from: u64, to: u64) -> std::io::Result<u32> {
    let mut hasher = crc32fast::Hasher::new();
    let mut bytes = vec![0; 64 << 10];
    let mut at = from;
    while at < to {
        let part = usize::try_from(to - at).unwrap_or(usize::MAX).min(bytes.len());
        file.read_exact_at(&mut bytes[..part], at)?;
        hasher.update(&bytes[..part]);
        at += part as u64;
    }
    Ok(hasher.finalize())
}

fn parquet_error(path: &Path, error: ParquetError) -> JournalError {
    // A full disk has to be known as one.
    let error = match error {
        ParquetError::External(error) => match error.downcast::<std::io::Error>() {
            Ok(error) => *error,
            Err(error) => std::io::Error::other(error),
        },
        other => std::io::Error::other(other),
    };
    io_error(path)(error)
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
    let of = |name: &str, repetition| {
        let field = SchemaType::primitive_type_builder(name, physical).with_logical_type(logical.clone());
        Ok::<_, ParquetError>(Arc::new(field.with_repetition(repetition).build()?))
    };
    if kind != Type::List {
        return of(name, Repetition::OPTIONAL);
    }
    let items = SchemaType::group_type_builder("list")
        .with_repetition(Repetition::REPEATED)
        .with_fields(vec![of("element", Repetition::REQUIRED)?])
        .build()?;
    let list = SchemaType::group_type_builder(name)
        .with_repetition(Repetition::OPTIONAL)
        .with_logical_type(Some(LogicalType::List))
        .with_fields(vec![Arc::new(items)]);
    Ok(Arc::new(list.build()?))
}

impl Gathered {
    fn new(layout: &Layout) -> Gathered {
        let columns = layout.columns().map(|(_, kind)| Column::new(kind)).collect();
        let arrival = Time(i64::MIN);
        Gathered { columns, rows: 0, bytes: 0, items: 0, ids: None, arrival, extras: false }
    }

    fn decision(&mut self, row: &Row, layout: &Layout) {
        let known = layout.version(&row.version);
        let mut detail = Detail { facts: row.facts.values().len() as u32, ..Detail::default() };
        for (fact, value) in (0..).zip(row.facts.values()) {
            let Some(value) = value else { continue };
            let column = known.and_then(|known| known.slots.get(fact as usize).copied().flatten());
            match column.and_then(|column| self.columns.get_mut(OWN.len() + column as usize)) {
                Some(column) if column.takes(value) => column.value(value, &mut self.items),
                _ => detail.extras.push((fact, value.clone())),
            }
        }
        self.extras |= !detail.extras.is_empty();
        detail.keys.clone_from(&row.keys);
        let verdict = &row.verdict;
        let columns = &mut self.columns;
        columns[own::WHAT].text(DECISION);
        columns[own::PIPELINE].text(&row.pipeline);
        columns[own::VERSION].text(&row.version);
        for (number, said) in known.iter().flat_map(|known| known.said.iter().enumerate()) {
            if let Some(said) = said {
                columns[own::SAID + number].text(said);
            }
        }
        if let Some(name) = &row.event_id {
            columns[own::EVENT_ID].text(name);
        }
        columns[own::TIME].integer(row.time.0);
        columns[own::ARRIVAL].integer(row.arrival.0);
        columns[own::DUPLICATE].bool(row.duplicate);
        columns[own::ACTION].text(verdict.action.name());
        columns[own::SCORE].float(verdict.score);
        for (column, reasons, details) in [
            (own::RULES, &verdict.reasons, &mut detail.reasons),
            (own::SHADOW, &verdict.shadow, &mut detail.shadow),
        ] {
            columns[column].list(reasons.iter().map(|reason| reason.rule.as_bytes()), &mut self.items);
            details.extend(reasons.iter().map(|Reason { score, detail, values, .. }| DetailReason {
                score: *score,
                detail: detail.clone(),
                values: values.clone(),
            }));
        }
        if !verdict.effects.is_empty() {
            let texts: Vec<String> = verdict.effects.iter().map(|due| due.effect.to_string()).collect();
            columns[own::EFFECTS].list(texts.iter().map(String::as_bytes), &mut self.items);
        }
        detail.next.clone_from(&verdict.next);
        detail.effects.clone_from(&verdict.effects);
        // Writing to a vector cannot fail, and no type here refuses to be written.
        columns[own::DETAIL].bytes(postcard::to_stdvec(&detail).unwrap_or_default());
    }

    fn report(&mut self, report: &Report) {
        let label = report.label();
        let detail = ReportDetail {
            class: report.class.clone().filter(|_| label.is_none()),
            by: report.by,
            weight: report.weight,
            limited: report.limited,
            counters: report.counters.clone(),
            replaced: report.replaced.clone(),
        };
        let columns = &mut self.columns;
        columns[own::WHAT].text(REPORT);
        columns[own::TIME].integer(report.time.0);
        columns[own::DECISION].text(&report.decision.to_string());
        if let Some(label) = label {
            columns[own::CLASS].text(label);
        }
        columns[own::DETAIL].bytes(postcard::to_stdvec(&detail).unwrap_or_default());
    }

    /// What has no value in the row that was added is missing.
    fn end_row(&mut self) {
        for column in &mut self.columns {
            column.end_row(self.rows);
        }
    }
}

impl Column {
    fn new(kind: Type) -> Column {
        let values = match kind {
            Type::Bool => Values::Bools(Vec::new()),
            Type::Integer | Type::Time => Values::Integers(Vec::new()),
            Type::Float => Values::Floats(Vec::new()),
            Type::String | Type::Ip | Type::Bytes | Type::List => Values::Texts(Vec::new()),
        };
        Column { kind, rows: 0, levels: Vec::new(), repeats: Vec::new(), values }
    }

    /// Whether a value has its place here.
    fn takes(&self, value: &Value) -> bool {
        let fits = |items: &[Box<str>]| items.len() <= ITEMS_MAX;
        value.type_of() == self.kind && value.as_list().is_none_or(fits)
    }

    /// Adds the row's value, one that [`Column::takes`].
    fn value(&mut self, value: &Value, items: &mut usize) {
        match value {
            Value::String(text) => self.text(text),
            Value::Bytes(bytes) => self.bytes(bytes.to_vec()),
            Value::Integer(integer) => self.integer(*integer),
            Value::Time(time) => self.integer(time.0),
            Value::Float(float) => self.float(*float),
            Value::Bool(truth) => self.bool(*truth),
            Value::Ip(ip) => self.text(&ip.to_string()),
            Value::List(list) => self.list(list.iter().map(|item| item.as_bytes()), items),
        }
    }

    fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes().to_vec());
    }

    fn bytes(&mut self, bytes: Vec<u8>) {
        if let Values::Texts(values) = &mut self.values {
            values.push(ByteArray::from(bytes));
            self.entry(1);
        }
    }

    fn integer(&mut self, integer: i64) {
        if let Values::Integers(values) = &mut self.values {
            values.push(integer);
            self.entry(1);
        }
    }

    fn float(&mut self, float: f64) {
        if let Values::Floats(values) = &mut self.values {
            values.push(float);
            self.entry(1);
        }
    }

    fn bool(&mut self, truth: bool) {
        if let Values::Bools(values) = &mut self.values {
            values.push(truth);
            self.entry(1);
        }
    }

    fn list<'v>(&mut self, list: impl Iterator<Item = &'v [u8]>, items: &mut usize) {
        let Values::Texts(values) = &mut self.values else { return };
        let before = self.levels.len();
        for item in list {
            values.push(ByteArray::from(item.to_vec()));
            self.repeats.push(i16::from(self.levels.len() > before));
            self.levels.push(2);
        }
        *items += self.levels.len() - before;
        if self.levels.len() == before {
            self.levels.push(1);
            self.repeats.push(0);
        }
        self.rows += 1;
    }

    /// After so many rows.
    fn end_row(&mut self, rows: usize) {
        if self.rows < rows {
            self.entry(0);
            if self.kind == Type::List {
                self.repeats.push(0);
            }
        }
    }

    /// A row's only entry.
    fn entry(&mut self, level: i16) {
        self.levels.push(level);
        self.rows += 1;
    }

    /// The column's pages, and what the file has to know of them.
    fn encode(
        self,
        description: ColumnDescPtr,
        properties: &WriterPropertiesPtr,
    ) -> Result<(Bytes, ColumnCloseResult), ParquetError> {
        let mut sink = TrackedWrite::new(Vec::new());
        let pages = Box::new(SerializedPageWriter::new(&mut sink));
        let mut writer = get_column_writer(description, Arc::clone(properties), pages);
        let levels = Some(self.levels.as_slice());
        let repeats = (self.kind == Type::List).then_some(self.repeats.as_slice());
        match (&mut writer, &self.values) {
            (ColumnWriter::BoolColumnWriter(writer), Values::Bools(values)) => {
                writer.write_batch(values, levels, repeats)?;
            }
            (ColumnWriter::Int64ColumnWriter(writer), Values::Integers(values)) => {
                writer.write_batch(values, levels, repeats)?;
            }
            (ColumnWriter::DoubleColumnWriter(writer), Values::Floats(values)) => {
                writer.write_batch(values, levels, repeats)?;
            }
            (ColumnWriter::ByteArrayColumnWriter(writer), Values::Texts(values)) => {
                writer.write_batch(values, levels, repeats)?;
            }
            _ => return Err(ParquetError::General("a column of another type".to_owned())),
        }
        let closed = writer.close()?;
        Ok((Bytes::from(sink.into_inner()?), closed))
    }
}
