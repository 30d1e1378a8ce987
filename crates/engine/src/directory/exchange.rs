//! All statistics as text, one key a line: the exchange format of `docs/internals/format.md`.
//!
//! ```text
//! header   format, version, number of the export, check of the secret, definitions
//! cell     …
//! end      how many cells there were
//! ```
//!
//! Reading takes anything: lines are bounded, every cell is checked against its definition, and a text that ends too
//! early is refused. An import into an empty ledger, or in place of another, is built beside it and put in its place
//! once it is whole. A merge reads the text twice, and adds nothing if any of it cannot be.

use std::borrow::Cow;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use event::{Key, Kind, Secret, Shingle, Space, Span, Time};
use serde::{Deserialize, Serialize};
use stats::cell_export::{
    AggregateTotals, CellContent, CellDecoder, CellDefinition, CheckedCell, ExportedCell,
    HyperLogLogRegisters,
};
use stats::{
    CatalogError, EmbeddedLedger, Evidence, Ledger, LedgerError, LedgerExportReport, LedgerImportReport,
    LedgerImporter, Measure, MergeState, NumberRegistry, NumberedSection, TimelineBucket,
};

use super::{Directory, DirectoryError, io_error};
use crate::EngineOpenError;
use plan::Plan;
use plan::limit::allotted_number;

/// The format that the header names.
const FORMAT: &str = "tollhouse-statistics";
const VERSION: u32 = 1;
/// Longest line. The longest that a cell can have is some 12 MiB, usual ones have a few hundred bytes.
const LINE_BYTES_MAX: u64 = 16 << 20;
/// Longest header: 32,767 definitions.
const HEADER_BYTES_MAX: u64 = 64 << 20;
/// Cells that are added at once, and bytes of their lines.
const BATCH_CELLS: usize = 512;
const BATCH_BYTES: usize = 1 << 20;
/// Shingled under a secret this tells whether two secrets are the same.
const SECRET_CHECK: &[u8] = b"tollhouse-statistics: which secret is it?";
/// zstd's own default.
const LEVEL: i32 = 3;

/// The treatment of statistics that are there already by an import.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImportMode {
    /// The target must have no statistics.
    Fresh,
    /// The statistics of the target are replaced.
    Replace,
    /// The statistics are added to the target's.
    Merge {
        /// Exact distinct counts may have values in common, which then count twice.
        overlap: bool,
    },
}

/// Reasons for a failed export or import of statistics.
#[derive(Debug, thiserror::Error)]
pub enum StatisticsExchangeError {
    /// The data directory.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// The data directory cannot be opened.
    #[error(transparent)]
    Open(#[from] EngineOpenError),
    /// The ledger.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The text cannot be read.
    #[error("the export cannot be read: {0}")]
    Read(io::Error),
    /// The text cannot be written.
    #[error("the export cannot be written: {0}")]
    Write(io::Error),
    /// Another home, which they were to go to or come from.
    #[error("{0}")]
    Elsewhere(String),
    /// The text is no export.
    #[error("this is no export of statistics: {0}")]
    Format(String),
    /// A release with another format wrote it.
    #[error(
        "the export has format {found}, this release reads format {VERSION}: use the release that wrote it"
    )]
    Version {
        /// Its format.
        found: u32,
    },
    /// Its shingles were made with another secret.
    #[error("the export was made with another secret: none of its keys would ever be found here")]
    Secret,
    /// Its definitions cannot be.
    #[error("line 1: {0}")]
    Definitions(CatalogError),
    /// A line cannot be understood.
    #[error("line {line}: {what}")]
    Line {
        /// Its number, from 1.
        line: u64,
        /// The fault of the line.
        what: String,
    },
    /// The text ends before its last line.
    #[error("the export ends after line {0}: its last part is missing")]
    Torn(u64),
    /// The target has statistics already.
    #[error("there are statistics already")]
    NotEmpty,
    /// The export was merged before.
    #[error("this export was added here before: its counts would be doubled")]
    Merged,
    /// The export was merged in part.
    #[error("an import of this export was interrupted here: an unknown part of it is counted")]
    Interrupted,
    /// Exact distinct counts that have values in common.
    #[error(
        "line {line}: a value of the distinct count `{statistic}` was seen here, too: the sum of both counts \
         would count it twice"
    )]
    Overlap {
        /// The number of the first such line.
        line: u64,
        /// Its statistic.
        statistic: String,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExchangeHeader<'a> {
    format: Cow<'a, str>,
    version: u32,
    id: String,
    secret: String,
    /// The names that its numbers stand for, as the registry has them.
    names: Vec<String>,
    definitions: Vec<DefinitionLine>,
}

/// The part of a header that can be read whatever its version.
#[derive(Deserialize)]
struct ExchangeVersion {
    format: String,
    version: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct DefinitionLine {
    name: String,
    statistic: String,
    kind_name: String,
    space: u16,
    kind: u16,
    measure: Measure,
}

fn is_false(value: &bool) -> bool {
    !value
}

/// A cell. Which members are there depends on the form.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CellLine<'a> {
    #[serde(borrow)]
    statistic: Cow<'a, str>,
    space: u16,
    kind: u16,
    #[serde(borrow)]
    shingle: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "is_false")]
    pair: bool,
    first: i64,
    last: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    buckets: Option<Vec<(i64, i64, Vec<u64>)>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    count: Option<u64>,
    /// The sum as text, because readers of JSON may round numbers; so are the fields below.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sum: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    min: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max: Option<i64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    decayed: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    registers: Option<Vec<PeriodLine>>,
    /// Bad, good, weight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    evidence: Option<[i64; 3]>,
    /// In nanoseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    moment: Option<i64>,
    /// The last value of a field.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    value: Option<Cow<'a, str>>,
}

/// A period's number, and its registers that are not zero with their ranks.
type PeriodLine = (i64, Vec<(u32, u8)>);

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct EndLine {
    end: bool,
    cells: u64,
}

/// A name for each definition, that no other has: statistic and kind, and a number where a layout was changed.
fn names(definitions: &[CellDefinition]) -> Vec<String> {
    let mut names: Vec<String> = Vec::with_capacity(definitions.len());
    let mut taken = std::collections::HashSet::new();
    for CellDefinition { statistic, kind_name, .. } in definitions {
        let first = format!("{statistic}.{kind_name}");
        let more = (2u64..).map(|number| format!("{first}#{number}"));
        let name = std::iter::once(first.clone()).chain(more).find(|name| taken.insert(name.clone()));
        names.push(name.unwrap_or(first));
    }
    names
}

fn cell_line<'a>(name: &'a str, cell: ExportedCell) -> CellLine<'a> {
    let ExportedCell { key, pair, first, last, content, .. } = cell;
    let mut line = CellLine {
        statistic: name.into(),
        space: key.space.0,
        kind: key.kind.0,
        shingle: key.shingle.to_string().into(),
        pair,
        first: first.0,
        last: last.0,
        buckets: None,
        count: None,
        sum: None,
        min: None,
        max: None,
        decayed: Vec::new(),
        registers: None,
        evidence: None,
        moment: None,
        value: None,
    };
    match content {
        CellContent::Evidence(Evidence { bad, good, weight }) => line.evidence = Some([bad, good, weight]),
        CellContent::Moment(moment) => line.moment = Some(moment),
        CellContent::Last(value) => line.value = Some(value.into()),
        CellContent::Buckets(buckets) => {
            let buckets = buckets.into_iter().map(|bucket| (bucket.start.0, bucket.width.0, bucket.counts));
            line.buckets = Some(buckets.collect());
        }
        CellContent::Totals(AggregateTotals { count, sum, min, max, decayed }) => {
            (line.count, line.min, line.max) = (Some(count), min, max);
            line.sum = sum.map(|sum| sum.to_string());
            line.decayed = decayed.iter().map(f64::to_string).collect();
        }
        CellContent::Registers(periods) => {
            let periods = periods.into_iter().map(|period| (period.start.0, period.ranks));
            line.registers = Some(periods.collect());
        }
    }
    line
}

fn portable(line: CellLine<'_>, definition: usize) -> Result<ExportedCell, String> {
    let wrong = |what: &str| Err(what.to_owned());
    let CellLine { buckets, count, sum, min, max, decayed, registers, evidence, moment, value, .. } = line;
    let content = match (buckets, count, registers, evidence, moment, value) {
        (Some(buckets), None, None, None, None, None) => {
            let buckets = buckets.into_iter().map(|(start, width, counts)| TimelineBucket {
                start: Time(start),
                width: Span(width),
                counts,
            });
            CellContent::Buckets(buckets.collect())
        }
        (None, Some(count), None, None, None, None) => {
            let Ok(sum) = sum.as_deref().map(str::parse).transpose() else {
                return wrong("`sum` is no integer of 128 bits");
            };
            let Ok(decayed) = decayed.iter().map(|sum| sum.parse()).collect() else {
                return wrong("`decayed` holds what is no number");
            };
            CellContent::Totals(AggregateTotals { count, sum, min, max, decayed })
        }
        (None, None, Some(periods), None, None, None) => {
            let periods =
                periods.into_iter().map(|(start, ranks)| HyperLogLogRegisters { start: Time(start), ranks });
            CellContent::Registers(periods.collect())
        }
        (None, None, None, Some([bad, good, weight]), None, None) => {
            CellContent::Evidence(Evidence { bad, good, weight })
        }
        (None, None, None, None, Some(moment), None) => CellContent::Moment(moment),
        (None, None, None, None, None, Some(value)) => CellContent::Last(value.into_owned()),
        _ => {
            return wrong(
                "expected one of `buckets`, `count`, `registers`, `evidence`, `moment` and `value`",
            );
        }
    };
    let hex = line.shingle.len() == 16 && line.shingle.bytes().all(|byte| byte.is_ascii_hexdigit());
    let Some(shingle) = u64::from_str_radix(&line.shingle, 16).ok().filter(|_| hex) else {
        return wrong("`shingle`: expected 16 hexadecimal digits");
    };
    let key = Key { space: Space(line.space), kind: Kind(line.kind), shingle: Shingle(shingle) };
    Ok(ExportedCell {
        key,
        pair: line.pair,
        definition,
        first: Time(line.first),
        last: Time(line.last),
        content,
    })
}

/// Reads an export line by line.
struct ExchangeReader<R> {
    input: R,
    buffer: Vec<u8>,
    /// Number of the line in the buffer.
    line: u64,
}

/// Takes cells, which name their definitions by number; or says why not.
pub type CellBatchSink<'a> = dyn FnMut(&[CellDefinition], Vec<ExportedCell>) -> Result<(), String> + 'a;

/// Gets cells with the number of their first line.
type DecodedBatchSink<'a> = dyn FnMut(u64, &[CheckedCell]) -> Result<(), StatisticsExchangeError> + 'a;

impl<R: BufRead> ExchangeReader<R> {
    fn new(input: R) -> ExchangeReader<R> {
        ExchangeReader { input, buffer: Vec::new(), line: 0 }
    }

    /// Reads the next line; false at the end.
    fn next(&mut self, bytes_max: u64) -> Result<bool, StatisticsExchangeError> {
        self.buffer.clear();
        let read = (&mut self.input).take(bytes_max + 1).read_until(b'\n', &mut self.buffer);
        let read = read.map_err(StatisticsExchangeError::Read)?;
        if read == 0 {
            return Ok(false);
        }
        self.line += 1;
        if self.buffer.last() == Some(&b'\n') {
            self.buffer.pop();
            return Ok(true);
        }
        if read as u64 > bytes_max {
            return Err(self.wrong(format!("it is longer than {bytes_max} bytes")));
        }
        // Every line is ended, the last one, too.
        Err(StatisticsExchangeError::Torn(self.line))
    }

    fn wrong(&self, what: impl Into<String>) -> StatisticsExchangeError {
        StatisticsExchangeError::Line { line: self.line, what: what.into() }
    }

    /// The number of the export, its definitions by name, and what makes cells of its lines, under the numbers that names have
    /// here.
    fn header(
        &mut self,
        secret: &Secret,
        here: &NumberRegistry,
    ) -> Result<DecodedHeader, StatisticsExchangeError> {
        let strange = |error: &dyn std::fmt::Display| StatisticsExchangeError::Format(error.to_string());
        match self.next(HEADER_BYTES_MAX) {
            Ok(true) => {}
            Ok(false) => return Err(strange(&"it is empty")),
            Err(StatisticsExchangeError::Torn(_) | StatisticsExchangeError::Line { .. }) => {
                return Err(strange(&"it does not begin with a line of an export"));
            }
            Err(error) => return Err(error),
        }
        let versioned: ExchangeVersion =
            serde_json::from_slice(&self.buffer).map_err(|error| strange(&error))?;
        if versioned.format != FORMAT {
            return Err(strange(&format_args!("the member `format` is not `{FORMAT}`")));
        }
        match versioned.version {
            VERSION => {}
            found => return Err(StatisticsExchangeError::Version { found }),
        }
        let header: ExchangeHeader<'_> =
            serde_json::from_slice(&self.buffer).map_err(|error| self.wrong(error.to_string()))?;
        let id =
            u64::from_str_radix(&header.id, 16).map_err(|_| self.wrong("`id` is no hexadecimal number"))?;
        if header.secret != secret_check(secret) {
            return Err(StatisticsExchangeError::Secret);
        }
        let mut there = NumberRegistry::default();
        let registered = header.names.iter().try_for_each(|line| there.add_line(line));
        registered.map_err(|error| self.wrong(format!("`names`: {error}")))?;
        let numbers = here.with(&there).map_err(|error| self.wrong(error.to_string()))?;
        let mut names = std::collections::HashMap::new();
        let mut kinds = std::collections::HashMap::new();
        let mut definitions = Vec::with_capacity(header.definitions.len());
        for (line, index) in header.definitions.into_iter().zip(0..) {
            let DefinitionLine { name, statistic, kind_name, space, kind, measure } = line;
            let (space, kind) = (Space(space), Kind(kind));
            let Some(own) = renumbered(space, kind, &there, &numbers) else {
                return Err(self.wrong(format!("kind {} of space {} is none of `names`", kind.0, space.0)));
            };
            kinds.insert((space, kind), own);
            definitions.push(CellDefinition { space, kind: own, statistic, kind_name, measure });
            if names.insert(name, index).is_some() {
                return Err(self.wrong("two definitions have the same name"));
            }
        }
        let decoder = CellDecoder::new(definitions).map_err(StatisticsExchangeError::Definitions)?;
        Ok(DecodedHeader { id, names, numbers, kinds, decoder })
    }

    /// Gives all cells in batches with the number of their first line, and sees to it that the end is there.
    fn cells(
        &mut self,
        opened: &DecodedHeader,
        each: &mut DecodedBatchSink<'_>,
    ) -> Result<u64, StatisticsExchangeError> {
        let (mut batch, mut bytes, mut cells) = (Vec::with_capacity(BATCH_CELLS), 0, 0u64);
        loop {
            if !self.next(LINE_BYTES_MAX)? {
                return Err(StatisticsExchangeError::Torn(self.line));
            }
            let line: CellLine<'_> = match serde_json::from_slice(&self.buffer) {
                Ok(line) => line,
                Err(error) => match serde_json::from_slice::<EndLine>(&self.buffer) {
                    Ok(EndLine { end: true, cells: said }) if said == cells => break,
                    Ok(_) => {
                        return Err(self.wrong(format!("the end does not tell the {cells} cells before it")));
                    }
                    Err(_) => return Err(self.wrong(error.to_string())),
                },
            };
            let definition = opened.names.get(line.statistic.as_ref()).copied();
            let definition =
                definition.ok_or_else(|| self.wrong("`statistic` is none of the header's definitions"))?;
            let mut cell = portable(line, definition).map_err(|what| self.wrong(what))?;
            let own = opened.kinds.get(&(cell.key.space, cell.key.kind));
            cell.key.kind = *own.ok_or_else(|| self.wrong("its kind is none of the header's definitions"))?;
            batch.push(opened.decoder.decode(&cell).map_err(|what| self.wrong(what))?);
            bytes += self.buffer.len();
            cells += 1;
            if batch.len() >= BATCH_CELLS || bytes >= BATCH_BYTES {
                each(self.line + 1 - batch.len() as u64, &batch)?;
                batch.clear();
                bytes = 0;
            }
        }
        each(self.line - batch.len() as u64, &batch)?;
        if self.next(LINE_BYTES_MAX)? {
            return Err(self.wrong("there is something behind the end"));
        }
        Ok(cells)
    }
}

/// The content of an export's header.
struct DecodedHeader {
    id: u64,
    names: std::collections::HashMap<String, usize>,
    /// The numbers here, also of names that are new.
    numbers: NumberRegistry,
    /// The number here of each kind there.
    kinds: std::collections::HashMap<(Space, Kind), Kind>,
    decoder: CellDecoder,
}

/// The number that a kind of another ledger has here; `None` if nobody knows its name. Where all names have the same numbers,
/// so have kinds without one.
fn renumbered(space: Space, kind: Kind, there: &NumberRegistry, here: &NumberRegistry) -> Option<Kind> {
    match allotted_number(space, kind) {
        None => Some(kind),
        Some(_) if there == here => Some(kind),
        Some((number, more)) => here.number(there.name(space, number)?).map(|own| Kind(own.0 | more)),
    }
}

fn secret_check(secret: &Secret) -> String {
    secret.shingle(SECRET_CHECK).to_string()
}

/// Opens an export for reading; one that ends in `.zst` is compressed with zstd.
///
/// # Errors
/// The operating system's.
pub fn open(path: &Path) -> io::Result<Box<dyn BufRead>> {
    let file = File::open(path)?;
    if is_compressed(path) {
        return Ok(Box::new(BufReader::with_capacity(256 << 10, zstd::Decoder::new(file)?)));
    }
    Ok(Box::new(BufReader::with_capacity(256 << 10, file)))
}

fn is_compressed(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "zst")
}

/// The source that merges, and that [`Directory::import_statistics`] reads from.
pub enum StatisticsSource<'a> {
    /// A file, which can be read twice.
    File(&'a Path),
    /// Anything else, which cannot be merged.
    Stream(&'a mut dyn BufRead),
}

/// A home whose statistics can be exported, while nobody else uses it.
pub trait ExportableStatistics {
    /// All definitions that its cells have, which they name by number.
    fn definitions(&self) -> Vec<CellDefinition>;

    /// Gives each cell once, in no order.
    ///
    /// # Errors
    /// What is wrong with the home, and what `each` says. What cannot be read is counted in the answer.
    fn export(&mut self, each: &mut CellSink<'_>) -> Result<LedgerExportReport, StatisticsExchangeError>;
}

/// Takes a cell, or says why no more are to come.
pub type CellSink<'a> = dyn FnMut(ExportedCell) -> Result<(), StatisticsExchangeError> + 'a;

impl ExportableStatistics for EmbeddedLedger {
    fn definitions(&self) -> Vec<CellDefinition> {
        EmbeddedLedger::definitions(self)
    }

    fn export(&mut self, each: &mut CellSink<'_>) -> Result<LedgerExportReport, StatisticsExchangeError> {
        let mut failed = None;
        let exported = EmbeddedLedger::export(self, &mut |cell| {
            if failed.is_none() {
                failed = each(cell).err();
            }
        })?;
        failed.map_or(Ok(()), Err)?;
        self.close()?;
        Ok(exported)
    }
}

impl Directory {
    /// The statistics of a directory that no process has open.
    ///
    /// # Errors
    /// [`StatisticsExchangeError::Open`].
    pub fn statistics(&self) -> Result<impl ExportableStatistics + use<>, StatisticsExchangeError> {
        let (ledger, _) = self.open_ledger(None)?;
        Ok(ledger)
    }

    /// Writes all statistics of a home under this directory's secret, with `tell` hearing of the cells written so far.
    /// Bounded memory; goes through the home once.
    ///
    /// # Errors
    /// [`StatisticsExchangeError`]. What cannot be read is counted in the answer.
    pub fn export_statistics(
        &self,
        home: &mut dyn ExportableStatistics,
        out: &mut dyn Write,
        tell: &mut dyn FnMut(u64),
    ) -> Result<LedgerExportReport, StatisticsExchangeError> {
        write(home, &self.secret()?, &self.numbers()?, out, tell)
    }

    /// Writes what [`Directory::export_statistics`] writes into a new file; one that ends in `.zst` is compressed with zstd.
    /// If it fails there is no file.
    ///
    /// # Errors
    /// As [`Directory::export_statistics`].
    pub fn export_statistics_to(
        &self,
        home: &mut dyn ExportableStatistics,
        path: &Path,
        tell: &mut dyn FnMut(u64),
    ) -> Result<LedgerExportReport, StatisticsExchangeError> {
        let draft = disk::AtomicFile::of_new(path).map_err(StatisticsExchangeError::Write)?;
        let mut out = BufWriter::with_capacity(256 << 10, draft);
        let exported = if is_compressed(path) {
            let mut encoder = zstd::Encoder::new(&mut out, LEVEL).map_err(StatisticsExchangeError::Write)?;
            let exported = self.export_statistics(home, &mut encoder, tell)?;
            encoder.finish().map_err(StatisticsExchangeError::Write)?;
            exported
        } else {
            self.export_statistics(home, &mut out, tell)?
        };
        let written =
            out.into_inner().map_err(io::IntoInnerError::into_error).and_then(disk::AtomicFile::commit);
        written.map(|_| exported).map_err(StatisticsExchangeError::Write)
    }

    /// Takes in what [`Directory::export_statistics`] wrote, in a directory that no process has open, with `tell`
    /// hearing of the cells read so far. But for a merge that is interrupted, all of it is taken in or nothing.
    ///
    /// # Errors
    /// [`StatisticsExchangeError`].
    pub fn import_statistics(
        &self,
        plan: &Plan,
        source: StatisticsSource<'_>,
        how: ImportMode,
        tell: &mut dyn FnMut(u64),
    ) -> Result<LedgerImportReport, StatisticsExchangeError> {
        let secret = self.secret()?;
        finish_replacing(self)?;
        match (how, source) {
            (ImportMode::Merge { overlap }, StatisticsSource::File(path)) => {
                self.merge(plan, &secret, path, overlap, tell)
            }
            (ImportMode::Merge { .. }, StatisticsSource::Stream(_)) => {
                Err(StatisticsExchangeError::Format("what is merged is read twice: give a file".to_owned()))
            }
            (_, StatisticsSource::File(path)) => {
                let mut input = open(path).map_err(StatisticsExchangeError::Read)?;
                self.replace(plan, &secret, &mut input, how, tell)
            }
            (_, StatisticsSource::Stream(input)) => self.replace(plan, &secret, input, how, tell),
        }
    }

    /// Reads what [`Directory::export_statistics`] wrote under this directory's secret, for whoever takes it elsewhere:
    /// gives cells in batches with the definitions that they name, under the numbers that names have `here`. Answers how many
    /// there were.
    ///
    /// # Errors
    /// [`StatisticsExchangeError`], and what `each` says.
    pub fn read_statistics(
        &self,
        here: &NumberRegistry,
        input: &mut dyn BufRead,
        each: &mut CellBatchSink<'_>,
    ) -> Result<u64, StatisticsExchangeError> {
        let mut reader = ExchangeReader::new(input);
        let opened = reader.header(&self.secret()?, here)?;
        let definitions: Vec<CellDefinition> = opened.decoder.definitions().cloned().collect();
        reader.cells(&opened, &mut |_, cells| {
            let spelled = cells.iter().filter_map(|cell| opened.decoder.spell(cell)).collect();
            each(&definitions, spelled).map_err(StatisticsExchangeError::Elsewhere)
        })
    }

    fn merge(
        &self,
        plan: &Plan,
        secret: &Secret,
        path: &Path,
        overlap: bool,
        tell: &mut dyn FnMut(u64),
    ) -> Result<LedgerImportReport, StatisticsExchangeError> {
        let input = || open(path).map(ExchangeReader::new).map_err(StatisticsExchangeError::Read);
        let (ledger, _) = self.open_ledger(Some(plan))?;
        let mut checked = input()?;
        let opened = checked.header(secret, &plan.numbers)?;
        self.keep_numbers(&opened.numbers).map_err(EngineOpenError::from)?;
        match ledger.merge_state(opened.id)? {
            Some(MergeState::Ended) => return Err(StatisticsExchangeError::Merged),
            Some(MergeState::Begun) => return Err(StatisticsExchangeError::Interrupted),
            None => {}
        }
        let mut importer = ledger.importer(&opened.decoder)?;
        checked.cells(&opened, &mut |line, cells| {
            for (cell, line) in cells.iter().zip(line..) {
                if !overlap && importer.overlaps(cell)? {
                    let statistic = opened.decoder.statistic(cell).to_owned();
                    return Err(StatisticsExchangeError::Overlap { line, statistic });
                }
            }
            Ok(())
        })?;
        let mut reader = input()?;
        if reader.header(secret, &plan.numbers)?.id != opened.id {
            return Err(StatisticsExchangeError::Format("it was changed while it was read".to_owned()));
        }
        ledger.set_merge_state(opened.id, MergeState::Begun)?;
        fill(&mut importer, &mut reader, &opened, tell)?;
        let imported = importer.finish()?;
        ledger.set_merge_state(opened.id, MergeState::Ended)?;
        ledger.close()?;
        Ok(imported)
    }

    /// Builds a ledger beside the present one, and puts it in its place.
    fn replace(
        &self,
        plan: &Plan,
        secret: &Secret,
        input: &mut dyn BufRead,
        how: ImportMode,
        tell: &mut dyn FnMut(u64),
    ) -> Result<LedgerImportReport, StatisticsExchangeError> {
        let lock = Arc::new(disk::FileDevice::open(self.ledger_path()).map_err(EngineOpenError::Device)?);
        let numbers = self.keep_numbers(&plan.numbers).map_err(EngineOpenError::from)?;
        if how == ImportMode::Fresh {
            let options = stats::Options {
                memory_bytes: plan.node.ledger_memory,
                segment_bytes: plan.node.ledger_segment,
                durability: plan.node.durability,
            };
            let (present, _) = EmbeddedLedger::open(lock.clone(), plan.catalog.clone(), options)?;
            let empty = present.is_empty()?;
            present.close()?;
            if !empty {
                return Err(StatisticsExchangeError::NotEmpty);
            }
        }
        let mut reader = ExchangeReader::new(input);
        let opened = reader.header(secret, &numbers)?;
        self.keep_numbers(&opened.numbers).map_err(EngineOpenError::from)?;
        let path = self.importing_path();
        if path.exists() {
            fs::remove_dir_all(&path).map_err(io_error(&path))?;
        }
        let built = build(&path, plan, &opened, &mut reader, tell);
        if built.is_err() {
            // It would be removed by the next import.
            let _ = fs::remove_dir_all(&path);
        }
        let imported = built?;
        let (ledger, replaced) = (self.ledger_path(), self.replaced_path());
        disk::place(&ledger, &replaced).map_err(io_error(&ledger))?;
        disk::place(&path, &ledger).map_err(io_error(&path))?;
        fs::remove_dir_all(&replaced).map_err(io_error(&replaced))?;
        drop(lock);
        Ok(imported)
    }

    fn importing_path(&self) -> PathBuf {
        self.path.join("ledger.importing")
    }

    fn replaced_path(&self) -> PathBuf {
        self.path.join("ledger.replaced")
    }
}

/// Ends what a crash has interrupted between taking a ledger away and putting a whole one in its place.
pub(super) fn finish_replacing(directory: &Directory) -> Result<(), DirectoryError> {
    let (ledger, new, old) = (directory.ledger_path(), directory.importing_path(), directory.replaced_path());
    if !old.exists() {
        return Ok(());
    }
    if !ledger.exists() {
        disk::place(&new, &ledger).map_err(io_error(&new))?;
    }
    fs::remove_dir_all(&old).map_err(io_error(&old))
}

fn build(
    path: &Path,
    plan: &Plan,
    opened: &DecodedHeader,
    reader: &mut ExchangeReader<impl BufRead>,
    tell: &mut dyn FnMut(u64),
) -> Result<LedgerImportReport, StatisticsExchangeError> {
    let device = disk::FileDevice::open(path).map_err(EngineOpenError::Device)?;
    let options = stats::Options {
        memory_bytes: plan.node.ledger_memory,
        segment_bytes: plan.node.ledger_segment,
        durability: stats::Durability::None,
    };
    let (ledger, _) = EmbeddedLedger::open(Arc::new(device), plan.catalog.clone(), options)?;
    let mut importer = ledger.importer(&opened.decoder)?;
    fill(&mut importer, reader, opened, tell)?;
    let imported = importer.finish()?;
    ledger.set_merge_state(opened.id, MergeState::Ended)?;
    ledger.close()?;
    disk::sync_directory(path).map_err(io_error(path))?;
    Ok(imported)
}

fn fill(
    importer: &mut LedgerImporter<'_>,
    reader: &mut ExchangeReader<impl BufRead>,
    opened: &DecodedHeader,
    tell: &mut dyn FnMut(u64),
) -> Result<u64, StatisticsExchangeError> {
    let mut done = 0;
    reader.cells(opened, &mut |_, cells| {
        importer.add(cells)?;
        done += cells.len() as u64;
        tell(done);
        Ok(())
    })
}

fn write(
    home: &mut dyn ExportableStatistics,
    secret: &Secret,
    numbers: &NumberRegistry,
    out: &mut dyn Write,
    tell: &mut dyn FnMut(u64),
) -> Result<LedgerExportReport, StatisticsExchangeError> {
    let mut id = [0; 8];
    getrandom::fill(&mut id)
        .map_err(|error| StatisticsExchangeError::Write(io::Error::other(error.to_string())))?;
    let definitions = home.definitions();
    let names = names(&definitions);
    // What was let go of has no name any more by which another ledger would know it.
    let is_in_use = |definition: &CellDefinition| {
        allotted_number(definition.space, definition.kind).is_none_or(|(number, _)| {
            let name = numbers.name(definition.space, number);
            name.is_none_or(|name| name.section != NumberedSection::Dropped)
        })
    };
    let in_use: Vec<bool> = definitions.iter().map(is_in_use).collect();
    let named = definitions.iter().zip(&names).zip(&in_use).filter(|(_, in_use)| **in_use);
    let definitions = named.map(|((definition, name), _)| DefinitionLine {
        name: name.clone(),
        statistic: definition.statistic.clone(),
        kind_name: definition.kind_name.clone(),
        space: definition.space.0,
        kind: definition.kind.0,
        measure: definition.measure.clone(),
    });
    let header = ExchangeHeader {
        format: FORMAT.into(),
        version: VERSION,
        id: format!("{:016x}", u64::from_le_bytes(id)),
        secret: secret_check(secret),
        names: numbers.to_string().lines().map(str::to_owned).collect(),
        definitions: definitions.collect(),
    };
    line(out, &header)?;
    let mut cells = 0u64;
    let exported = home.export(&mut |cell| {
        if !in_use.get(cell.definition).is_some_and(|in_use| *in_use) {
            return Ok(());
        }
        let name = names.get(cell.definition).map_or("", String::as_str);
        line(out, &cell_line(name, cell))?;
        cells += 1;
        if cells.is_multiple_of(4096) {
            tell(cells);
        }
        Ok(())
    })?;
    line(out, &EndLine { end: true, cells })?;
    tell(cells);
    Ok(exported)
}

fn line(out: &mut dyn Write, line: &impl Serialize) -> Result<(), StatisticsExchangeError> {
    serde_json::to_writer(&mut *out, line).map_err(|error| StatisticsExchangeError::Write(error.into()))?;
    out.write_all(b"\n").map_err(StatisticsExchangeError::Write)
}
