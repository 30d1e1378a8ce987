//! Writes records by columns.

use std::collections::HashSet;
use std::io::Write;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use disk::{Blob, create_anew, read_full};
use event::{Time, Type, dotted};
use judge::{Action, Consequence};
use parquet::basic::{Compression, CompressionCodec, LogicalType, Repetition, TimeUnit, Type as Physical};
use parquet::column::page::{CompressedPage, Page, PageWriteSpec, PageWriter};
use parquet::column::writer::{ColumnCloseResult, ColumnWriter, ColumnWriterImpl, get_column_writer};
use parquet::data_type::{ByteArray, DataType};
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaDataReader;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesPtr};
use parquet::file::writer::{SerializedFileWriter, SerializedPageWriter, TrackedWrite};
use parquet::schema::types::{ColumnDescPtr, ColumnPath, SchemaDescPtr, Type as SchemaType, TypePtr};

use super::{
    ColumnLayout, ColumnarSegment, ColumnsFormat, ColumnsIndex, DECISION, HEAD_BYTES, INDEX_BYTES_MAX,
    ITEMS_MAX, MAGIC, NO_EFFECTS, OWN, OWN_HEAD_BYTES, PAGE_BYTES, REPORT, ReportDetail, RowGroup, SIGNAL,
    UNCOUNTED, own, pages,
};
use crate::bloom::VALUE_BITS;
use crate::compression::{LEVEL, compress};
use crate::encoding::DecisionHead;
use crate::encoding::{self, ArrivalInfo, RecordReader, RecordStart, RecordWrite, ValueRef};
use crate::file::JournalFile;
use crate::format::VERSION;
use crate::id::RecordId;
use crate::summary::SummaryBuilder;
use crate::{JournalError, ReportRecord, io_error, segment_error};

/// Most rows of a group.
const GROUP_ROWS: usize = 8192;
/// Bytes of a column's different texts above which it has no dictionary: to have one row, all of that is read.
const DICTIONARY_BYTES: usize = 64 << 10;
/// Different values of a column that go into a dictionary however many rows there are.
const FEW_VALUES: usize = 16;
/// Bytes of records of a group, above which it has fewer rows: what a reader has in memory at once.
const GROUP_BYTES: usize = 8 << 20;
/// Items of lists of a group, above which it has fewer rows.
const GROUP_ITEMS: usize = 1 << 20;

/// The sink to which a file is written.
pub(crate) trait ColumnarSink: Write + Send {
    /// The checksum of all from here on.
    fn checksum(&self, from: u64) -> std::io::Result<u32>;
    /// Overwrites what is here, and makes all of it as durable as it can be.
    fn seal(&mut self, head: &[u8], at: u64) -> std::io::Result<()>;
}

/// A file at its end.
#[derive(Debug)]
pub(crate) struct BlobSink(Box<dyn Blob>);

impl Write for BlobSink {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.append(bytes).map(|()| bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl ColumnarSink for BlobSink {
    fn checksum(&self, from: u64) -> std::io::Result<u32> {
        let mut hasher = crc32fast::Hasher::new();
        let mut bytes = vec![0; 64 << 10];
        let mut at = from;
        loop {
            let count = read_full(&*self.0, at, &mut bytes)?;
            if count == 0 {
                return Ok(hasher.finalize());
            }
            hasher.update(&bytes[..count]);
            at += count as u64;
        }
    }

    fn seal(&mut self, head: &[u8], at: u64) -> std::io::Result<()> {
        self.0.overwrite(at, head)?;
        self.0.sync()
    }
}

impl ColumnarSink for Vec<u8> {
    fn checksum(&self, from: u64) -> std::io::Result<u32> {
        let from = usize::try_from(from).ok().and_then(|from| self.get(from..));
        from.map(crc32fast::hash).ok_or_else(|| std::io::ErrorKind::UnexpectedEof.into())
    }

    fn seal(&mut self, head: &[u8], at: u64) -> std::io::Result<()> {
        let place = usize::try_from(at).ok().and_then(|at| self.get_mut(at..)?.get_mut(..head.len()));
        place.ok_or(std::io::ErrorKind::UnexpectedEof)?.copy_from_slice(head);
        Ok(())
    }
}

/// Writes a file. What was written of it is of no use before [`ColumnarWriter::finish`].
pub(crate) struct ColumnarWriter<S: ColumnarSink = BlobSink> {
    /// The path that is named as having failed.
    path: PathBuf,
    file: SerializedFileWriter<S>,
    schema: SchemaDescPtr,
    properties: WriterPropertiesPtr,
    /// The properties for columns without a dictionary.
    plain: WriterPropertiesPtr,
    form: ColumnsFormat,
    /// The start of the next group.
    at: u64,
    index: ColumnsIndex,
    gathered: RowGroupBuilder,
    /// Rows of a group.
    rows_max: usize,
}

/// The rows of a group.
struct RowGroupBuilder {
    columns: Vec<ColumnBuilder>,
    rows: usize,
    bytes: usize,
    items: usize,
    ids: Option<(RecordId, RecordId)>,
    arrival: Time,
    extras: bool,
    summary: SummaryBuilder,
    /// The row that is being added: its facts without a column, its reasons, and its keys if they were long.
    aside: [Vec<u8>; 2],
}

/// The part of a column that belongs to a group.
struct ColumnBuilder {
    kind: Type,
    /// Rows of which it has an entry.
    rows: usize,
    levels: Levels,
    repeats: Levels,
    values: PendingValues,
}

/// The levels that tell whether each entry has a value, or where lists begin: mostly the same for all of a group.
#[derive(Default)]
struct Levels {
    /// The first number of a run.
    first: i16,
    same: usize,
    /// All of them, from the first other one on.
    all: Vec<i16>,
}

impl Levels {
    #[inline]
    fn push(&mut self, level: i16) {
        self.push_many(level, 1);
    }

    #[inline]
    fn push_many(&mut self, level: i16, count: usize) {
        if self.all.is_empty() && (self.same == 0 || level == self.first) {
            self.first = level;
            self.same += count;
            return;
        }
        if self.all.is_empty() {
            self.all.resize(self.same, self.first);
        }
        self.all.resize(self.all.len() + count, level);
    }

    fn into_all(mut self) -> Vec<i16> {
        if self.all.is_empty() {
            self.all.resize(self.same, self.first);
        }
        self.all
    }
}

enum PendingValues {
    Bools(Vec<bool>),
    Integers(Vec<i64>),
    Floats(Vec<f64>),
    Texts(TextArena),
}

/// Texts or bytes, one behind the other.
#[derive(Default)]
struct TextArena {
    arena: Vec<u8>,
    /// The end of each.
    ends: Vec<usize>,
}

impl ColumnarWriter {
    /// Makes a file, in the place of any that is there.
    pub(crate) fn create(
        file: &JournalFile,
        layout: ColumnLayout,
        form: ColumnsFormat,
    ) -> Result<ColumnarWriter, JournalError> {
        let blob = create_anew(&**file.device(), file.name()).map_err(|error| file.error(error))?;
        ColumnarWriter::over(BlobSink(blob), &file.path(), layout, form)
    }
}

impl<S: ColumnarSink> ColumnarWriter<S> {
    /// Begins in what is still empty.
    pub(crate) fn over(
        sink: S,
        path: &Path,
        layout: ColumnLayout,
        form: ColumnsFormat,
    ) -> Result<ColumnarWriter<S>, JournalError> {
        let fields = layout.columns().map(|(name, kind)| field(name, kind)).collect::<Result<Vec<_>, _>>();
        let failed = |error| parquet_error(path, error);
        let schema = SchemaType::group_type_builder("records").with_fields(fields.map_err(failed)?).build();
        let mut properties = WriterProperties::builder()
            .set_created_by(concat!("tollhouse ", env!("CARGO_PKG_VERSION")).to_owned())
            // [`Pages`] compresses them, not the crate.
            .set_compression(Compression::UNCOMPRESSED)
            // Each batch of [`write_pages`] is one, and nothing else ends them.
            .set_data_page_row_count_limit(1)
            .set_data_page_size_limit(usize::MAX)
            .set_write_batch_size(usize::MAX)
            .set_dictionary_page_size_limit(usize::MAX)
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
        let plain = Arc::new(properties.clone().set_dictionary_enabled(false).build());
        let properties = Arc::new(properties.build());
        let mut file =
            SerializedFileWriter::new(sink, Arc::new(schema.map_err(failed)?), Arc::clone(&properties))
                .map_err(failed)?;
        // The head is written last.
        file.write_all(&[0; OWN_HEAD_BYTES]).map_err(io_error(path))?;
        Ok(ColumnarWriter {
            path: path.to_path_buf(),
            schema: Arc::new(file.schema_descr().clone()),
            file,
            properties,
            plain,
            form,
            at: HEAD_BYTES as u64,
            gathered: RowGroupBuilder::new(&layout),
            index: ColumnsIndex { layout, ..ColumnsIndex::default() },
            rows_max: GROUP_ROWS,
        })
    }

    /// Says how many records will be added, so that all groups have about as many.
    pub(crate) fn expect(&mut self, records: u32) {
        let records = records.max(1) as usize;
        self.rows_max = records.div_ceil(records.div_ceil(GROUP_ROWS));
    }

    /// Adds records, as rows have them, and when they arrived, about. Answers how many: bytes that are no record end them,
    /// and then the file is of no use.
    pub(crate) fn push_all(&mut self, records: &[u8], arrival: Time) -> Result<u32, JournalError> {
        let (mut reader, mut count) = (RecordReader::new(records), 0);
        while !reader.is_at_end() {
            if self.gathered.is_full(self.rows_max) {
                self.flush()?;
            }
            if self.gathered.push(&mut reader, &self.index.layout, arrival).is_err() {
                break;
            }
            count += 1;
        }
        Ok(count)
    }

    /// Writes what was gathered.
    pub(super) fn flush(&mut self) -> Result<(), JournalError> {
        let gathered = std::mem::replace(&mut self.gathered, RowGroupBuilder::new(&self.index.layout));
        let Some((first, last)) = gathered.ids else { return Ok(()) };
        let path = self.path.clone();
        let failed = |error| parquet_error(&path, error);
        let (at, mut chunks) = (self.at, Vec::with_capacity(gathered.columns.len()));
        let mut group = self.file.next_row_group().map_err(failed)?;
        for (number, column) in gathered.columns.into_iter().enumerate() {
            let description = self.schema.column(number);
            let has_dictionary = column.values.are_few();
            let properties = if has_dictionary { &self.properties } else { &self.plain };
            let encoded = column.encode(gathered.rows, description, properties, has_dictionary, self.form);
            let (bytes, closed) = encoded.map_err(failed)?;
            // A group holds at most some megabytes.
            chunks.push((bytes.len() as u32, crc32fast::hash(&bytes)));
            self.at += bytes.len() as u64;
            group.append_column(&bytes, closed).map_err(failed)?;
        }
        group.close().map_err(failed)?;
        let summary = gathered.summary.finish(VALUE_BITS);
        let filters = summary.stored();
        self.file.write_all(&filters).map_err(io_error(&self.path))?;
        self.at += filters.len() as u64;
        self.index.groups.push(RowGroup {
            at,
            // At most GROUP_ROWS.
            rows: gathered.rows as u32,
            first,
            last,
            arrival: gathered.arrival,
            extras: gathered.extras,
            chunks,
            summary: summary.head,
        });
        Ok(())
    }

    /// Adds all groups of another file as they are, if their columns are those of this one and mean the same; else
    /// nothing. Answers whether that was so.
    pub(crate) fn copy(&mut self, columns: &ColumnarSegment) -> Result<bool, JournalError> {
        if !self.index.layout.has_all_of(columns.layout()) {
            return Ok(false);
        }
        self.flush()?;
        let path = self.path.clone();
        let failed = |error| parquet_error(&path, error);
        let bytes = Bytes::from(columns.all().map_err(io_error(&path))?);
        let footer = ParquetMetaDataReader::new().parse_and_finish(&bytes).map_err(failed)?;
        if footer.num_row_groups() != columns.index.groups.len() {
            return Ok(false);
        }
        for (of, group) in columns.index.groups.iter().zip(footer.row_groups()) {
            let mut copy = self.file.next_row_group().map_err(failed)?;
            for metadata in group.columns() {
                let closed = ColumnCloseResult {
                    bytes_written: metadata.compressed_size().unsigned_abs(),
                    rows_written: u64::from(of.rows),
                    metadata: metadata.clone(),
                    bloom_filter: None,
                    column_index: None,
                    offset_index: None,
                };
                copy.append_column(&bytes, closed).map_err(failed)?;
            }
            copy.close().map_err(failed)?;
            let filters = columns.filters(of).map_err(segment_error(&path))?;
            self.file.write_all(&filters).map_err(io_error(&path))?;
            self.index.groups.push(RowGroup { at: self.at, ..of.clone() });
            self.at += of.bytes() + of.filters_bytes();
        }
        Ok(true)
    }

    /// Writes what is left and all that says where things are, and syncs. Returns what it is written to.
    pub(crate) fn finish(mut self) -> Result<S, JournalError> {
        self.flush()?;
        let path = self.path;
        let raw = postcard::to_stdvec(&self.index).unwrap_or_default();
        let too_large = || std::io::Error::other("too many columns and versions for one file");
        if raw.len() > INDEX_BYTES_MAX {
            return Err(io_error(&path)(too_large()));
        }
        let index = match self.form {
            ColumnsFormat::Sealed => compress(&raw, LEVEL).map_err(io_error(&path))?,
            ColumnsFormat::Bare => raw.clone(),
        };
        // Twice, each with a head of its own: all groups hang on it.
        for bytes in [&index, &index, &vec![0; OWN_HEAD_BYTES]] {
            self.file.write_all(bytes).map_err(io_error(&path))?;
        }
        let mut file = self.file.into_inner().map_err(|error| parquet_error(&path, error))?;
        let again = self.at + index.len() as u64;
        let second = again + index.len() as u64;
        let footer = second + OWN_HEAD_BYTES as u64;
        let mut written = || {
            let crc = file.checksum(footer)?;
            for (place, index_at) in [(second, again), (super::PARQUET.len() as u64, self.at)] {
                let mut head = Vec::with_capacity(OWN_HEAD_BYTES);
                head.extend_from_slice(&MAGIC);
                head.extend_from_slice(&VERSION.to_le_bytes());
                head.extend_from_slice(&index_at.to_le_bytes());
                head.extend_from_slice(&(index.len() as u32).to_le_bytes());
                head.extend_from_slice(&(raw.len() as u32).to_le_bytes());
                head.extend_from_slice(&crc32fast::hash(&index).to_le_bytes());
                head.extend_from_slice(&crc.to_le_bytes());
                head.extend_from_slice(&crc32fast::hash(&head).to_le_bytes());
                file.seal(&head, place)?;
            }
            Ok::<_, std::io::Error>(())
        };
        written().map_err(io_error(&path))?;
        Ok(file)
    }
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

impl RowGroupBuilder {
    fn new(layout: &ColumnLayout) -> RowGroupBuilder {
        let columns = layout.columns().map(|(_, kind)| ColumnBuilder::new(kind)).collect();
        let arrival = Time(i64::MIN);
        let (summary, aside) = Default::default();
        RowGroupBuilder {
            columns,
            rows: 0,
            bytes: 0,
            items: 0,
            ids: None,
            arrival,
            extras: false,
            summary,
            aside,
        }
    }

    fn is_full(&self, rows_max: usize) -> bool {
        self.rows >= rows_max || self.bytes >= GROUP_BYTES || self.items >= GROUP_ITEMS
    }

    /// A column of its own, for the next row's value.
    fn own(&mut self, number: usize) -> &mut ColumnBuilder {
        self.columns[number].after(self.rows)
    }

    /// Adds the next record.
    fn push(
        &mut self,
        reader: &mut RecordReader<'_>,
        layout: &ColumnLayout,
        arrival: Time,
    ) -> encoding::Result<()> {
        let mut id = None;
        let bytes = reader.passed(|reader| {
            let (of, start) = reader.start()?;
            id = Some(of);
            match start {
                RecordStart::Decision { head, arrived } => {
                    return self.decision(&head, &arrived, reader, layout);
                }
                RecordStart::Report(report) => self.report(&report),
            }
            Ok(())
        })?;
        self.summary.add(&mut RecordReader::new(bytes))?;
        let id = id.ok_or(encoding::RecordFormatError)?;
        self.own(own::ID).bytes(&id.digits());
        self.rows += 1;
        self.bytes += bytes.len();
        self.ids = match self.ids {
            None => Some((id, id)),
            Some((first, last)) => Some((first.min(id), last.max(id))),
        };
        self.arrival = self.arrival.max(arrival);
        Ok(())
    }

    fn decision(
        &mut self,
        head: &DecisionHead<'_>,
        arrived: &ArrivalInfo<'_>,
        reader: &mut RecordReader<'_>,
        layout: &ColumnLayout,
    ) -> encoding::Result<()> {
        let known = layout.version(head.version);
        let RowGroupBuilder { columns, rows, items, aside: [extras, reasons], .. } = self;
        let rows = *rows;
        extras.clear();
        reasons.clear();
        let (facts, mut extra) = (reader.varint()?, 0);
        for fact in 0..facts {
            if !reader.flag()? {
                continue;
            }
            let before = *reader;
            let value = reader.value()?;
            let slot = usize::try_from(fact).ok().and_then(|fact| known?.slots.get(fact).copied().flatten());
            let column = slot.and_then(|slot| columns.get_mut(OWN.len() + slot as usize));
            let column = column.map(|column| column.after(rows));
            match column {
                Some(column) if column.takes(&value) => column.value(value, items)?,
                _ => {
                    extra += 1;
                    extras.put_varint(fact);
                    extras.extend_from_slice(reader.since(before));
                }
            }
        }
        let keys = reader.content()?;
        columns[own::SCORE].after(rows).float(reader.float()?);
        columns[own::PROBABILITY].after(rows).float(reader.float()?);
        columns[own::ACTION].after(rows).text(reader.made::<Action>()?.name());
        for column in [own::RULES, own::SHADOW] {
            let count = reader.varint()?;
            reasons.put_varint(count);
            columns[column].after(rows).list(count, items, || {
                let rule = reader.text()?;
                reasons.extend_from_slice(reader.passed(RecordReader::pass_reason)?);
                Ok(rule)
            })?;
        }
        let next = reader.passed(RecordReader::pass_next)?;
        let mut made = Vec::<Consequence>::new();
        let effects = reader.passed(|reader| {
            made = reader.made()?;
            Ok(())
        })?;
        if effects != NO_EFFECTS {
            let texts: Vec<String> = made.iter().map(|due| due.effect.to_string()).collect();
            let mut texts = texts.iter();
            columns[own::EFFECTS].after(rows).list(made.len() as u64, items, || {
                texts.next().map(String::as_str).ok_or(encoding::RecordFormatError)
            })?;
        }
        columns[own::DETAIL].after(rows).make(|detail| {
            detail.put_varint(facts);
            detail.put_varint(extra);
            detail.extend_from_slice(extras);
            detail.put_content(keys);
            for part in [reasons.as_slice(), next, effects] {
                detail.extend_from_slice(part);
            }
        });
        self.extras |= extra > 0;
        columns[own::WHAT].after(rows).text(DECISION);
        columns[own::PIPELINE].after(rows).text(head.pipeline);
        columns[own::VERSION].after(rows).text(head.version);
        for (number, said) in known.iter().flat_map(|known| known.provenance.iter().enumerate()) {
            if let Some(said) = said {
                columns[own::PROVENANCE + number].after(rows).text(said);
            }
        }
        if let Some(name) = arrived.event_id {
            columns[own::EVENT_ID].after(rows).text(name);
        }
        columns[own::TIME].after(rows).integer(head.time.0);
        columns[own::ARRIVAL].after(rows).integer(arrived.arrival.0);
        columns[own::DUPLICATE].after(rows).bool(arrived.duplicate);
        Ok(())
    }

    fn report(&mut self, report: &ReportRecord) {
        let label = report.label();
        let detail = ReportDetail {
            class: report.class.clone().filter(|_| label.flatten().is_none()),
            by: report.by,
            weight: report.weight,
            limited: report.limited,
            counters: report.counters.clone(),
            replaced: report.replaced.clone(),
        };
        self.own(own::WHAT).text(match label {
            Some(_) => REPORT,
            None if report.signal => SIGNAL,
            None => UNCOUNTED,
        });
        self.own(own::TIME).integer(report.time.0);
        self.own(own::DECISION).bytes(&report.decision.digits());
        if let Some(label) = label.flatten() {
            self.own(own::CLASS).text(label);
        }
        self.own(own::DETAIL).make(|bytes| bytes.put_made(&detail));
    }
}

impl ColumnBuilder {
    fn new(kind: Type) -> ColumnBuilder {
        let values = match kind {
            Type::Bool => PendingValues::Bools(Vec::new()),
            Type::Integer | Type::Time => PendingValues::Integers(Vec::new()),
            Type::Float => PendingValues::Floats(Vec::new()),
            Type::String | Type::Ip | Type::Bytes | Type::List => PendingValues::Texts(TextArena::default()),
        };
        ColumnBuilder { kind, rows: 0, levels: Levels::default(), repeats: Levels::default(), values }
    }

    /// Returns true if a value has its place here.
    #[inline]
    fn takes(&self, value: &ValueRef<'_>) -> bool {
        match value {
            ValueRef::Text(_) => self.kind == Type::String,
            ValueRef::Integer(_) => self.kind == Type::Integer,
            ValueRef::Float(_) => self.kind == Type::Float,
            ValueRef::Bool(_) => self.kind == Type::Bool,
            ValueRef::Time(_) => self.kind == Type::Time,
            ValueRef::Ip(_) => self.kind == Type::Ip,
            ValueRef::Bytes(_) => self.kind == Type::Bytes,
            ValueRef::List(count, _) => self.kind == Type::List && *count <= ITEMS_MAX as u64,
        }
    }

    /// Adds the row's value, one that [`ColumnBuilder::takes`].
    #[inline]
    fn value(&mut self, value: ValueRef<'_>, items: &mut usize) -> encoding::Result<()> {
        match value {
            ValueRef::Text(text) => self.text(text),
            ValueRef::Bytes(bytes) => self.bytes(bytes),
            ValueRef::Integer(integer) => self.integer(integer),
            ValueRef::Time(time) => self.integer(time.0),
            ValueRef::Float(float) => self.float(float),
            ValueRef::Bool(truth) => self.bool(truth),
            ValueRef::Ip(IpAddr::V4(ip)) => {
                let (text, length) = dotted(ip);
                self.bytes(&text[..length]);
            }
            // Writing to a vector cannot fail.
            ValueRef::Ip(ip) => self.make(|text| drop(write!(text, "{ip}"))),
            ValueRef::List(count, mut list) => self.list(count, items, || list.text())?,
        }
        Ok(())
    }

    fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.make(|made| made.extend_from_slice(bytes));
    }

    /// Adds what is put behind the other texts.
    #[inline]
    fn make(&mut self, make: impl FnOnce(&mut Vec<u8>)) {
        if let PendingValues::Texts(texts) = &mut self.values {
            make(&mut texts.arena);
            texts.ends.push(texts.arena.len());
            self.entry();
        }
    }

    #[inline]
    fn integer(&mut self, integer: i64) {
        if let PendingValues::Integers(values) = &mut self.values {
            values.push(integer);
            self.entry();
        }
    }

    #[inline]
    fn float(&mut self, float: f64) {
        if let PendingValues::Floats(values) = &mut self.values {
            values.push(float);
            self.entry();
        }
    }

    fn bool(&mut self, truth: bool) {
        if let PendingValues::Bools(values) = &mut self.values {
            values.push(truth);
            self.entry();
        }
    }

    /// Adds a list of so many items; counts them, too.
    fn list<'v>(
        &mut self,
        count: u64,
        items: &mut usize,
        mut next: impl FnMut() -> encoding::Result<&'v str>,
    ) -> encoding::Result<()> {
        let PendingValues::Texts(texts) = &mut self.values else { return Err(encoding::RecordFormatError) };
        for number in 0..count {
            texts.arena.extend_from_slice(next()?.as_bytes());
            texts.ends.push(texts.arena.len());
            self.repeats.push(i16::from(number > 0));
            self.levels.push(2);
            *items += 1;
        }
        if count == 0 {
            self.levels.push(1);
            self.repeats.push(0);
        }
        self.rows += 1;
        Ok(())
    }

    /// The column after so many rows: those of which it has nothing are missing a value.
    #[inline]
    fn after(&mut self, rows: usize) -> &mut ColumnBuilder {
        if self.rows < rows {
            self.levels.push_many(0, rows - self.rows);
            self.repeats.push_many(0, rows - self.rows);
            self.rows = rows;
        }
        self
    }

    /// A row's only entry.
    #[inline]
    fn entry(&mut self) {
        self.levels.push(1);
        self.rows += 1;
    }

    /// The column's pages, and what the file has to know of them.
    fn encode(
        mut self,
        rows: usize,
        description: ColumnDescPtr,
        properties: &WriterPropertiesPtr,
        has_dictionary: bool,
        form: ColumnsFormat,
    ) -> Result<(Bytes, ColumnCloseResult), ParquetError> {
        let mut sink = TrackedWrite::new(Vec::new());
        let pages = Box::new(PageCompressor { file: SerializedPageWriter::new(&mut sink), form });
        let mut writer = get_column_writer(description, Arc::clone(properties), pages);
        self.after(rows);
        let (levels, repeats) = (self.levels.into_all(), self.repeats.into_all());
        let bytes = self.values.page_bytes(has_dictionary);
        let page_rows = pages::rows_of_page(rows, bytes.div_ceil(PAGE_BYTES).max(1));
        let repeats = (self.kind == Type::List).then_some(repeats.as_slice());
        match (&mut writer, self.values) {
            (ColumnWriter::BoolColumnWriter(writer), PendingValues::Bools(values)) => {
                write_pages(writer, &values, &levels, repeats, page_rows)?;
            }
            (ColumnWriter::Int64ColumnWriter(writer), PendingValues::Integers(values)) => {
                write_pages(writer, &values, &levels, repeats, page_rows)?;
            }
            (ColumnWriter::DoubleColumnWriter(writer), PendingValues::Floats(values)) => {
                write_pages(writer, &values, &levels, repeats, page_rows)?;
            }
            (ColumnWriter::ByteArrayColumnWriter(writer), PendingValues::Texts(values)) => {
                write_pages(writer, &values.cut(), &levels, repeats, page_rows)?;
            }
            _ => return Err(ParquetError::General("a column of another type".to_owned())),
        }
        let mut closed = writer.close()?;
        if form == ColumnsFormat::Sealed {
            let codec = CompressionCodec::ZSTD;
            closed.metadata = closed.metadata.into_builder().set_compression_codec(codec).build()?;
        }
        Ok((Bytes::from(sink.into_inner()?), closed))
    }
}

/// Writes a column's values, a page for every so many rows. Those that repeat are of lists.
fn write_pages<T: DataType>(
    writer: &mut ColumnWriterImpl<'_, T>,
    mut values: &[T::T],
    mut levels: &[i16],
    mut repeats: Option<&[i16]>,
    rows: usize,
) -> Result<(), ParquetError> {
    let full = if repeats.is_some() { 2 } else { 1 };
    while !levels.is_empty() {
        let entries = match repeats {
            None => levels.len().min(rows),
            Some(repeats) => {
                let mut begins = repeats.iter().enumerate().filter(|(_, repeat)| **repeat == 0);
                begins.nth(rows).map_or(levels.len(), |(next, _)| next)
            }
        };
        let count = levels[..entries].iter().filter(|level| **level == full).count();
        let (page, page_repeats) = (&levels[..entries], repeats.map(|repeats| &repeats[..entries]));
        writer.write_batch(&values[..count], Some(page), page_repeats)?;
        (values, levels) = (&values[count..], &levels[entries..]);
        repeats = repeats.map(|repeats| &repeats[entries..]);
    }
    Ok(())
}

/// Compresses pages on their way. The crate would make a context of zstd for every column, which takes longer than to
/// compress what most columns have; each thread keeps its own.
struct PageCompressor<'s> {
    file: SerializedPageWriter<'s, Vec<u8>>,
    form: ColumnsFormat,
}

impl PageWriter for PageCompressor<'_> {
    fn write_page(&mut self, page: CompressedPage) -> Result<PageWriteSpec, ParquetError> {
        if self.form == ColumnsFormat::Bare {
            return self.file.write_page(page);
        }
        let mut compressed = page.compressed_page().clone();
        let (Page::DataPage { buf, .. } | Page::DictionaryPage { buf, .. }) = &mut compressed else {
            return Err(ParquetError::General("a page of another version".to_owned()));
        };
        *buf = compress(buf, LEVEL)?.into();
        self.file.write_page(CompressedPage::new(compressed, page.uncompressed_size()))
    }

    fn close(&mut self) -> Result<(), ParquetError> {
        self.file.close()
    }
}

impl PendingValues {
    /// Bytes that they take in pages, about: of those in a dictionary their places there.
    fn page_bytes(&self, has_dictionary: bool) -> usize {
        match self {
            PendingValues::Bools(values) => values.len() / 8,
            PendingValues::Integers(values) => values.len() * 4,
            PendingValues::Floats(values) => values.len() * 4,
            PendingValues::Texts(TextArena { ends, .. }) if has_dictionary => ends.len() * 2,
            PendingValues::Texts(TextArena { arena, ends }) => arena.len() + ends.len() * 4,
        }
    }

    /// Returns true if the values are better off in a dictionary: those that differ fit into one, and are half of all at most. To
    /// have one row of others, such as ids, a page of them is read, and not all that there are.
    fn are_few(&self) -> bool {
        // Of numbers a group has too few for more.
        let PendingValues::Texts(TextArena { arena, ends }) = self else { return true };
        let (mut known, mut bytes, mut start) = (HashSet::new(), 0, 0);
        ends.iter().all(|end| {
            let text = &arena[std::mem::replace(&mut start, *end)..*end];
            bytes += if known.insert(text) { text.len() } else { 0 };
            bytes <= DICTIONARY_BYTES && known.len() <= ends.len().div_ceil(2).max(FEW_VALUES)
        })
    }
}

impl TextArena {
    /// Each for itself; none is copied.
    fn cut(self) -> Vec<ByteArray> {
        let (arena, mut start) = (Bytes::from(self.arena), 0);
        let cut = |end| {
            let text = arena.slice(start..end);
            start = end;
            ByteArray::from(text)
        };
        self.ends.into_iter().map(cut).collect()
    }
}
