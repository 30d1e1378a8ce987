//! Closed segments as files of one table, pipeline and day each, for storage that many nodes share.
//!
//! A segment has whatever was decided one after the other. Its parts are Parquet files of the same form, with the rows of
//! one pipeline that arrived on one day, or with a day's feedback, so that whoever asks for those reads no others. They lie
//! beside the segments under names that the next start clears away.

use std::collections::{BTreeMap, HashMap, HashSet};

use disk::Blob;
use event::{Slot, Span, Time};

use super::columns::{ColumnarWriter, ColumnsFormat};
use super::conversion;
use super::file::JournalFile;
use super::files::{self, SegmentBlocks};
use super::visitor::RecordVisitor;
use super::{Journal, JournalError, Record, SkippedData, read_side_file};
use crate::bloom::{BloomFilter, VALUE_BITS};
use crate::id::RecordId;
use crate::{DESCRIPTION_SUFFIX, PIPELINE_SUFFIX};

/// Parts that are written at once, each of which has a group of rows in memory: where there are more the segment is read
/// again for the others.
const OPEN_MAX: usize = 6;
/// Ids and keys for which filters have room while a part is written, some megabytes each: of more, more others pass.
const IDS_ROOM: usize = 1 << 19;
const KEYS_ROOM: usize = 1 << 20;

/// The table that a file's rows belong to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SplitTable {
    /// Decisions of a pipeline.
    Decisions(String),
    /// Feedback, on decisions of any pipeline.
    Feedback,
}

/// A file with some of a segment's rows.
#[derive(Debug)]
pub struct SplitFile {
    /// The table of its rows.
    pub table: SplitTable,
    /// The day on which they arrived, counted from 1970.
    pub day: i64,
    /// The least of their ids.
    pub first: RecordId,
    /// The greatest of their ids.
    pub last: RecordId,
    /// The number of them.
    pub records: u64,
    /// The earliest and the latest time of their events, or of the feedback.
    pub times: (Time, Time),
    /// The ids of its rows.
    pub ids: BloomFilter,
    /// The shingles of their keys, and of reporters.
    pub keys: BloomFilter,
    file: JournalFile,
}

impl SplitFile {
    /// Opens the file.
    ///
    /// # Errors
    /// The system's.
    pub fn open(&self) -> Result<Box<dyn Blob>, JournalError> {
        self.file.open_present()
    }
}

/// A segment as files, which go with this value.
#[derive(Debug)]
pub struct SplitSegment {
    /// The segment.
    pub segment: ClosedSegment,
    /// Its files, in the order of tables and days.
    pub files: Vec<SplitFile>,
    /// The versions of its decisions.
    pub versions: Vec<String>,
    /// The data that is in no file because it is damaged.
    pub skipped: SkippedData,
}

impl Drop for SplitSegment {
    fn drop(&mut self) {
        for split in &self.files {
            // What cannot be removed now is at the next start.
            let _ = split.file.remove();
        }
    }
}

/// A segment to which nothing is added any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClosedSegment {
    /// Its first id, by which it is named.
    pub first: RecordId,
    /// The greatest id in it, if there is any.
    pub last: Option<RecordId>,
    /// The number of its records.
    pub records: u64,
    /// The latest arrival in it, about.
    pub newest: Time,
}

/// The day of a record, by its arrival.
fn day_of(id: RecordId) -> i64 {
    id.time().0.div_euclid(Span::days(1).0)
}

/// A part that is being written.
struct OpenSplit {
    writer: ColumnarWriter,
    file: JournalFile,
    first: RecordId,
    last: RecordId,
    records: u64,
    times: (Time, Time),
    ids: BloomFilter,
    /// With how many of them are different, about.
    keys: (BloomFilter, usize),
}

impl OpenSplit {
    fn note(&mut self, id: RecordId, record: &Record) {
        self.first = self.first.min(id);
        self.last = self.last.max(id);
        self.records += 1;
        self.ids.insert(id.0);
        let (keys, different) = &mut self.keys;
        let time = match record {
            Record::Decision(row) => {
                row.keys.iter().for_each(|key| *different += usize::from(keys.insert(key.shingle.0)));
                row.time
            }
            Record::Report(report) => {
                report.by.iter().for_each(|by| *different += usize::from(keys.insert(by.0)));
                report.time
            }
        };
        self.times = (self.times.0.min(time), self.times.1.max(time));
    }

    fn finish(self, (table, day): (SplitTable, i64)) -> Result<SplitFile, JournalError> {
        self.writer.finish()?;
        let OpenSplit { file, first, last, records, times, mut ids, keys: (mut keys, different), .. } = self;
        ids.fold(usize::try_from(records).unwrap_or(usize::MAX), VALUE_BITS);
        keys.fold(different, VALUE_BITS);
        Ok(SplitFile { table, day, first, last, records, times, ids, keys, file })
    }
}

/// The versions of each pipeline that decided.
#[derive(Default)]
struct PipelineVersions(BTreeMap<String, Vec<String>>);

impl<'w> RecordVisitor<'w> for PipelineVersions {
    fn version(&mut self, pipeline: &str, version: &str) -> Option<&'w [Option<Slot>]> {
        let versions = self.0.entry(pipeline.to_owned()).or_default();
        if !versions.iter().any(|known| known == version) {
            versions.push(version.to_owned());
        }
        None
    }
}

/// The parts that are being written, by table and day.
type OpenSplits = HashMap<(SplitTable, i64), OpenSplit>;
/// The parts that are written.
type SplitNames = HashSet<(SplitTable, i64)>;

impl Journal {
    /// Closes the newest segment if it has records that arrived so long ago, even if nothing follows; so that its files do not
    /// wait for what comes next. Done by the writer, soon.
    pub fn close_older(&self, age: Span, now: Time) {
        let mut state = self.shared.state.lock();
        let newest = state.segments.last().map(|segment| &segment.summary);
        if newest
            .is_some_and(|summary| !summary.is_closed && summary.records > 0 && summary.from <= now - age)
        {
            state.is_closing_newest = true;
            self.shared.wake.notify_one();
        }
    }

    /// Has the next record begin a segment, whatever is in the newest. To be called before anything is appended: what has
    /// been uploaded of a segment stays all of it.
    pub fn begin_anew(&self) {
        self.shared.state.lock().is_closing_newest = true;
    }

    /// Returns the segments to which nothing is added any more, oldest first: of a closed journal all.
    pub fn closed_segments(&self) -> Vec<ClosedSegment> {
        let state = self.shared.state.lock();
        let rotate = self.shared.options.rotate;
        let newest = state.segments.len().saturating_sub(1);
        let closed = state.segments.iter().enumerate();
        let closed =
            closed.filter(|(at, segment)| *at < newest || segment.summary.is_closed || state.closing);
        closed
            .map(|(_, segment)| ClosedSegment {
                first: segment.first,
                last: segment.summary.last,
                records: segment.summary.records,
                newest: segment.newest(rotate),
            })
            .collect()
    }

    /// Writes a closed segment as files of one table, pipeline and day each; `None` if it is not there any more, or `stop`
    /// says so. Takes memory for a group of rows and the filters of some files, and room on the disk for a copy. Blocks.
    ///
    /// # Errors
    /// If a file cannot be read or written. Nothing is left of the files then.
    pub fn split(
        &self,
        segment: &ClosedSegment,
        stop: &dyn Fn() -> bool,
    ) -> Result<Option<SplitSegment>, JournalError> {
        let device = &self.shared.device;
        let file = JournalFile::new(device, format!("{}.{}", segment.first, files::ROWS));
        let mut versions = PipelineVersions::default();
        let mut split = SplitSegment {
            segment: *segment,
            files: Vec::new(),
            versions: Vec::new(),
            skipped: SkippedData::default(),
        };
        let mut state = self.shared.state.lock();
        state.segments.iter_mut().filter(|it| it.first == segment.first).for_each(|it| it.is_erased = false);
        drop(state);
        let Some(blocks) = SegmentBlocks::open(&file, false)? else { return Ok(None) };
        for block in blocks.forwards() {
            if let Some(block) = split.skipped.pass(block)? {
                split.skipped.pass(block.look(&mut versions).map_err(|error| block.error(error)))?;
            }
            if stop() {
                return Ok(None);
            }
        }
        let versions = versions.0;
        let mut all: Vec<String> = versions.values().flatten().cloned().collect();
        all.dedup();
        split.versions = all;
        let mut done: SplitNames = HashSet::new();
        loop {
            let mut open: OpenSplits = HashMap::new();
            let mut is_left = false;
            let passed = self.write_splits(&file, &versions, (&done, &mut open, &mut is_left), stop);
            if !matches!(passed, Ok(Some(()))) {
                // Half of a file is of no use.
                open.values().for_each(|part| drop(part.file.remove()));
                return passed.map(|_| None);
            }
            for (key, part) in open {
                done.insert(key.clone());
                split.files.push(part.finish(key)?);
            }
            if !is_left {
                break;
            }
        }
        split.files.sort_by(|one, other| (&one.table, one.day).cmp(&(&other.table, other.day)));
        Ok(Some(split))
    }

    /// Writes parts that are not done, as many as are written at once. `None` if it was stopped.
    fn write_splits(
        &self,
        file: &JournalFile,
        versions: &BTreeMap<String, Vec<String>>,
        (done, open, is_left): (&SplitNames, &mut OpenSplits, &mut bool),
        stop: &dyn Fn() -> bool,
    ) -> Result<Option<()>, JournalError> {
        let device = &self.shared.device;
        let Some(blocks) = SegmentBlocks::open(file, false)? else { return Ok(None) };
        let mut skipped = SkippedData::default();
        for block in blocks.forwards() {
            let Some(block) = skipped.pass(block)? else { continue };
            let arrival = block.head.arrival;
            let records = skipped.pass(block.records().map_err(|error| block.error(error)))?;
            for (id, record) in records.unwrap_or_default() {
                let table = match &record {
                    Record::Decision(row) => SplitTable::Decisions(row.pipeline.clone()),
                    Record::Report(_) => SplitTable::Feedback,
                };
                let key = (table, day_of(id));
                if done.contains(&key) {
                    continue;
                }
                if !open.contains_key(&key) {
                    if open.len() >= OPEN_MAX {
                        *is_left = true;
                        continue;
                    }
                    let name = format!("upload-{}.{}", done.len() + open.len(), files::HALF);
                    let its = match &key.0 {
                        SplitTable::Decisions(pipeline) => {
                            versions.get(pipeline).map_or(&[][..], Vec::as_slice)
                        }
                        SplitTable::Feedback => &[],
                    };
                    let to = JournalFile::new(device, name);
                    let writer =
                        ColumnarWriter::create(&to, conversion::layout(device, its), ColumnsFormat::Sealed)?;
                    let part = OpenSplit {
                        writer,
                        file: to,
                        first: id,
                        last: id,
                        records: 0,
                        times: (Time(i64::MAX), Time(i64::MIN)),
                        ids: BloomFilter::with_room(IDS_ROOM),
                        keys: (BloomFilter::with_room(KEYS_ROOM), 0),
                    };
                    open.insert(key.clone(), part);
                }
                if let Some(part) = open.get_mut(&key) {
                    part.writer.push_all(&record.encode(id), arrival)?;
                    part.note(id, &record);
                }
            }
            if stop() {
                return Ok(None);
            }
        }
        Ok(Some(()))
    }

    /// Returns the files that say what the rows of a version mean, by name, as far as they are there.
    ///
    /// # Errors
    /// The system's.
    pub fn version_files(&self, version: &str) -> Result<Vec<(String, Vec<u8>)>, JournalError> {
        let mut found = Vec::new();
        for suffix in [PIPELINE_SUFFIX, DESCRIPTION_SUFFIX] {
            let name = format!("{version}{suffix}");
            match read_side_file(&JournalFile::new(&self.shared.device, name.clone())) {
                Ok(Some(content)) => found.push((name, disk::seal(&content))),
                Ok(None) | Err(JournalError::Damaged(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }
}
