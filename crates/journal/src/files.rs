//! The files of a journal, and reading through them in either form.
//!
//! A segment is `<first id>.journal` while it is written and until it has become `<first id>.parquet`. That file is
//! whole as soon as it has its name, and only then does the other go: whoever does not find the one finds the other,
//! and of two the first is whole in any case.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use disk::log::forget_tails;
use disk::{Blob, Device};

use super::columns::{self, ColumnarSegment};
use super::file::JournalFile;
use super::format::{DamagedStretch, SegmentError};
use super::known_files::KnownFiles;
use super::segment::{self, BlockIter, SegmentFaults, SegmentPiece, SegmentSummary};
use super::visitor::FactChoice;
use super::{Block, BlockInfo, FEW, JournalError, Record, io_error, segment_error};
use crate::id::RecordId;

/// The ending of the name of a segment of rows.
pub(super) const ROWS: &str = "journal";
/// The ending of the name of a segment by columns.
pub(super) const COLUMNS: &str = "parquet";
/// The ending of the name of a file that is being written.
pub(super) const HALF: &str = "half";

/// Returns true if a segment is one by columns.
pub(super) fn is_columnar(file: &JournalFile) -> bool {
    file.extension() == Some(COLUMNS)
}

/// The names of all files on a device; none where the directory is missing.
pub(super) fn names_on(device: &dyn Device) -> Result<Vec<String>, JournalError> {
    match device.list() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        listed => listed.map_err(io_error(&device.path(""))),
    }
}

/// The segments on a device, oldest first.
pub(super) fn segments_on(device: &Arc<dyn Device>) -> Result<Vec<(RecordId, JournalFile)>, JournalError> {
    /// A file that becomes another while a directory is listed may be missed under both names.
    const LISTINGS: usize = 5;
    let mut segments = listed(&**device)?;
    for _ in 0..LISTINGS {
        let again = listed(&**device)?;
        let same = again == segments;
        segments = again;
        if same {
            break;
        }
    }
    // Of two forms the rows come first.
    segments.dedup_by_key(|(first, _)| *first);
    Ok(segments.into_iter().map(|(first, name)| (first, JournalFile::new(device, name))).collect())
}

fn listed(device: &dyn Device) -> Result<Vec<(RecordId, String)>, JournalError> {
    let mut segments = Vec::new();
    for name in names_on(device)? {
        if let Some((first, ROWS | COLUMNS)) = name.split_once('.')
            && let Ok(first) = first.parse()
        {
            segments.push((first, name));
        }
    }
    segments.sort_unstable();
    Ok(segments)
}

/// Takes away what a crash left of files that were being written, and of segments that were becoming columns.
pub(super) fn mend(device: &Arc<dyn Device>) -> Result<(), JournalError> {
    let names = names_on(&**device)?;
    for file in names.iter().map(|name| JournalFile::new(device, name)) {
        let is_copy =
            || is_columnar(&file) && names.iter().any(|name| *name == file.with_extension(ROWS).name());
        if file.extension() == Some(HALF) || is_copy() {
            file.remove()?;
        }
    }
    forget_tails(&**device);
    Ok(())
}

/// An open segment.
enum OpenJournalSegment {
    Rows(BlockIter),
    Columns(Arc<ColumnarSegment>),
    /// Nothing of it can be read.
    Damaged(DamagedStretch),
}

/// Opens a segment in the form that it has by now; `None` for one that is not there any more, as it was too old to be
/// kept.
fn open(file: &JournalFile) -> Result<Option<(JournalFile, OpenJournalSegment)>, JournalError> {
    open_by(file, None)
}

/// Opens a segment as [`open`] does, by what may be known of it.
fn open_by(
    file: &JournalFile,
    known: Option<&KnownFiles>,
) -> Result<Option<(JournalFile, OpenJournalSegment)>, JournalError> {
    if !is_columnar(file)
        && let Some(rows) = segment::open(file)?
    {
        return Ok(Some((file.clone(), OpenJournalSegment::Rows(rows))));
    }
    let file = file.with_extension(COLUMNS);
    let times_forgotten = known.map_or(0, |known| known.groups.times_forgotten());
    let Some(blob) = file.open()? else { return Ok(None) };
    let length = blob.size().map_err(|error| file.error(error))?;
    let known = known.map(|known| (known, times_forgotten));
    let opened = match open_columns(&file, blob, known)? {
        Some(columns) => OpenJournalSegment::Columns(Arc::new(columns)),
        None => {
            OpenJournalSegment::Damaged(DamagedStretch { from: 0, to: length, records: 0, is_tail: false })
        }
    };
    Ok(Some((file, opened)))
}

/// Reads the index of a segment by columns, by what may be known of it, and how often that was forgotten before; `None` for one
/// whose head or index is damaged.
fn open_columns(
    file: &JournalFile,
    blob: Box<dyn Blob>,
    known: Option<(&KnownFiles, u64)>,
) -> Result<Option<ColumnarSegment>, JournalError> {
    let opened = match known {
        Some((known, times_forgotten)) => ColumnarSegment::open_known(blob, file.name(), &known.indices)
            .map(|opened| opened.with_cache(&known.groups, times_forgotten)),
        None => ColumnarSegment::open(blob),
    };
    match opened {
        Ok(columns) => Ok(Some(columns)),
        Err(SegmentError::Damaged(_) | SegmentError::Magic) => Ok(None),
        Err(error) => Err(segment_error(&file.path())(error)),
    }
}

/// The segment of this name, in either form; `None` if it does not exist. The rows come first: they go only after the
/// columns are there.
pub(super) fn file_of(device: &Arc<dyn Device>, first: RecordId) -> Option<JournalFile> {
    let files = [ROWS, COLUMNS].map(|form| JournalFile::new(device, format!("{first}.{form}")));
    files.into_iter().find(|file| matches!(file.open(), Ok(Some(_))))
}

/// Returns the number of records that a segment states; `None` if it is not there any more. Reads heads, or the index.
pub(super) fn count(file: &JournalFile) -> Result<Option<u64>, JournalError> {
    Ok(match open(file)? {
        None => None,
        Some((file, OpenJournalSegment::Rows(rows))) => {
            Some(rows.count_records().map_err(|error| file.error(error))?)
        }
        Some((_, OpenJournalSegment::Columns(columns))) => Some(columns.records_count()),
        Some((_, OpenJournalSegment::Damaged(_))) => Some(0),
    })
}

/// The blocks of a segment.
#[derive(Debug)]
pub(super) struct SegmentBlocks {
    file: JournalFile,
    blocks: BlockPositions,
}

#[derive(Debug)]
enum BlockPositions {
    /// The head of each, and the bytes between them.
    Rows(BlockIter, Vec<SegmentPiece<BlockInfo>>),
    Columns(Arc<ColumnarSegment>),
    Damaged(DamagedStretch),
}

impl SegmentBlocks {
    /// The blocks of a segment. Of one that may be written to, the part that is just being written, or torn, is left out.
    pub(super) fn open(file: &JournalFile, growing: bool) -> Result<Option<SegmentBlocks>, JournalError> {
        SegmentBlocks::open_by(file, growing, None)
    }

    /// The blocks of a segment, by what may be known of it.
    pub(super) fn open_by(
        file: &JournalFile,
        growing: bool,
        known: Option<&KnownFiles>,
    ) -> Result<Option<SegmentBlocks>, JournalError> {
        let opened = open_by(file, known)?;
        let Some((file, opened)) = opened else { return Ok(None) };
        let blocks = match opened {
            OpenJournalSegment::Rows(mut rows) => {
                let before = known.map(|known| known.places(file.name())).unwrap_or_default();
                let places = rows.places(growing, before).map_err(|error| file.error(error))?;
                if let Some(known) = known {
                    known.keep_places(file.name(), &places);
                }
                BlockPositions::Rows(rows, places)
            }
            OpenJournalSegment::Columns(columns) => BlockPositions::Columns(columns),
            OpenJournalSegment::Damaged(stretch) => BlockPositions::Damaged(stretch),
        };
        Ok(Some(SegmentBlocks { file, blocks }))
    }

    pub(super) fn len(&self) -> usize {
        match &self.blocks {
            BlockPositions::Rows(_, places) => places.len(),
            BlockPositions::Columns(columns) => columns.groups(),
            BlockPositions::Damaged(_) => 1,
        }
    }

    /// The smallest and the greatest id of a block; `None` for what cannot be read.
    pub(super) fn ids(&self, number: usize) -> Option<(RecordId, RecordId)> {
        match &self.blocks {
            BlockPositions::Rows(_, places) => match places.get(number)? {
                SegmentPiece::Sound(head) => Some((head.first, head.last)),
                SegmentPiece::Damaged(_) => None,
            },
            BlockPositions::Columns(columns) => columns.ids(number),
            BlockPositions::Damaged(_) => None,
        }
    }

    /// The head of a block; `None` for what cannot be read.
    pub(super) fn head(&self, number: usize) -> Option<BlockInfo> {
        match &self.blocks {
            BlockPositions::Rows(_, places) => match places.get(number)? {
                SegmentPiece::Sound(head) => Some(head.clone()),
                SegmentPiece::Damaged(_) => None,
            },
            BlockPositions::Columns(columns) => BlockInfo::of_group(columns, number),
            BlockPositions::Damaged(_) => None,
        }
    }

    /// Returns true if the blocks are groups of columns.
    pub(super) fn is_columnar(&self) -> bool {
        matches!(self.blocks, BlockPositions::Columns(_))
    }

    /// Returns the number of records of a block, as it says.
    pub(super) fn count(&self, number: usize) -> u64 {
        match &self.blocks {
            BlockPositions::Rows(_, places) => match places.get(number) {
                Some(SegmentPiece::Sound(head)) => u64::from(head.count),
                Some(SegmentPiece::Damaged(stretch)) => stretch.records,
                None => 0,
            },
            BlockPositions::Columns(columns) => {
                columns.group(number).map_or(0, |group| u64::from(group.rows))
            }
            BlockPositions::Damaged(stretch) => stretch.records,
        }
    }

    pub(super) fn block(&mut self, number: usize) -> Result<Option<Block>, JournalError> {
        let damaged = |stretch: DamagedStretch| Err(JournalError::Damaged(stretch.in_file(self.file.name())));
        let block = match &mut self.blocks {
            BlockPositions::Rows(blocks, places) => {
                let at = match places.get(number) {
                    None => return Ok(None),
                    Some(SegmentPiece::Damaged(stretch)) => return damaged(*stretch),
                    Some(SegmentPiece::Sound(head)) => head.at,
                };
                match blocks.block_at(at).map_err(|error| self.file.error(error))? {
                    Some(SegmentPiece::Damaged(stretch)) => return damaged(stretch),
                    Some(SegmentPiece::Sound(block)) => Some(block),
                    None => None,
                }
            }
            BlockPositions::Columns(columns) => Block::of_columns(columns, number),
            BlockPositions::Damaged(stretch) => return damaged(*stretch),
        };
        Ok(block.map(|block| block.in_file(&self.file)))
    }

    /// One after another. What is damaged is an error in its place, and the next ones follow.
    pub(super) fn forwards(mut self) -> impl Iterator<Item = Result<Block, JournalError>> + Send {
        (0..self.len()).filter_map(move |number| self.block(number).transpose())
    }
}

/// The blocks of segments, the last one first. What is damaged is an error in its place, and the next ones follow.
#[derive(Debug)]
pub(super) struct NewestFirstIter {
    segments: Vec<JournalFile>,
    is_first: bool,
    /// The segment at work, and how many of its blocks are still to come.
    open: Option<(SegmentBlocks, usize)>,
}

impl NewestFirstIter {
    /// An iterator over segments given oldest first.
    pub(super) fn new(segments: Vec<JournalFile>) -> NewestFirstIter {
        NewestFirstIter { segments, is_first: true, open: None }
    }

    fn advance(&mut self) -> Result<Option<Block>, JournalError> {
        loop {
            if let Some((blocks, left)) = &mut self.open
                && *left > 0
            {
                *left -= 1;
                return blocks.block(*left);
            }
            let Some(file) = self.segments.pop() else { return Ok(None) };
            let newest = std::mem::take(&mut self.is_first);
            self.open = None;
            self.open = SegmentBlocks::open(&file, newest)?.map(|blocks| {
                let left = blocks.len();
                (blocks, left)
            });
        }
    }
}

impl Iterator for NewestFirstIter {
    type Item = Result<Block, JournalError>;

    fn next(&mut self) -> Option<Result<Block, JournalError>> {
        self.advance().transpose()
    }
}

/// The blocks of segments given oldest first, in that order. What is damaged is an error in its place, and the next ones
/// follow.
pub(super) fn oldest_first(
    segments: Vec<JournalFile>,
) -> impl Iterator<Item = Result<Block, JournalError>> + Send {
    let newest = segments.len().saturating_sub(1);
    segments.into_iter().enumerate().flat_map(move |(index, file)| {
        let (opened, failure) = match SegmentBlocks::open(&file, index == newest) {
            Ok(opened) => (opened, None),
            Err(error) => (None, Some(Err(error))),
        };
        failure.into_iter().chain(opened.into_iter().flat_map(SegmentBlocks::forwards))
    })
}

/// The record of this id; of rows, among the blocks from `at` to `end`. What is damaged is passed over.
pub(super) fn find(
    file: &JournalFile,
    at: u64,
    end: u64,
    id: RecordId,
) -> Result<Option<Record>, JournalError> {
    match open(file)? {
        None | Some((_, OpenJournalSegment::Damaged(_))) => Ok(None),
        Some((file, OpenJournalSegment::Rows(rows))) => {
            rows.find(at, end, id).map_err(|error| file.error(error))
        }
        Some((file, OpenJournalSegment::Columns(columns))) => {
            for block in (0..columns.groups()).filter_map(|number| Block::of_columns(&columns, number)) {
                match block.find(id) {
                    Ok(Some(record)) => return Ok(Some(record)),
                    Ok(None) | Err(SegmentError::Damaged(_)) => {}
                    Err(error) => return Err(segment_error(&file.path())(error)),
                }
            }
            Ok(None)
        }
    }
}

/// Adds the records of these ids that a segment has. A few are looked up one by one; for more each block that has some of them is
/// read once. What is damaged is passed over. Of a segment that grows, the part that is being written is left out.
pub(super) fn find_all(
    file: &JournalFile,
    growing: bool,
    ids: &BTreeSet<RecordId>,
    found: &mut HashMap<RecordId, Record>,
) -> Result<(), JournalError> {
    if ids.len() <= FEW {
        for id in ids {
            found.extend(find(file, 0, u64::MAX, *id)?.map(|record| (*id, record)));
        }
        return Ok(());
    }
    let Some(blocks) = SegmentBlocks::open(file, growing)? else { return Ok(()) };
    for block in blocks.forwards() {
        let records =
            block.and_then(|block| block.find_all(ids, FactChoice::All).map_err(|error| block.error(error)));
        match records {
            Ok(records) => found.extend(records),
            // Passed over, as where one record is looked for.
            Err(JournalError::Damaged(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Returns a summary of what a segment holds, and of what is wrong with it. See [`segment::summary`]; of one by columns its
/// index is read.
pub(super) fn summary(
    file: &JournalFile,
    newest: bool,
) -> Result<(SegmentSummary, SegmentFaults), JournalError> {
    if !is_columnar(file) {
        return segment::summary(file, newest);
    }
    let blob = file.open_present()?;
    let length = blob.size().map_err(|error| file.error(error))?;
    if let Some(columns) = open_columns(file, blob, None)? {
        return Ok((of_columns(&columns), SegmentFaults::default()));
    }
    let whole = DamagedStretch { from: 0, to: length, records: 0, is_tail: false };
    let wounds = SegmentFaults { damage: vec![whole.in_file(file.name())], torn: None };
    Ok((SegmentSummary::unknown(length), wounds))
}

/// Reads a segment in whichever form it has, and returns what is damaged. `each` gets the records of what is intact,
/// `progress` the bytes read.
pub(super) fn check(
    file: &JournalFile,
    progress: &mut dyn FnMut(u64),
    each: &mut segment::BlockVisitor<'_>,
) -> Result<Vec<DamagedStretch>, JournalError> {
    if !is_columnar(file) {
        return segment::check(file, progress, each);
    }
    columns::check(file.open_present()?, progress, each).map_err(segment_error(&file.path()))
}

/// Returns a summary of what a file by columns holds.
pub(super) fn of_columns(columns: &ColumnarSegment) -> SegmentSummary {
    let mut summary = SegmentSummary::unknown(columns.bytes());
    for group in (0..columns.groups()).filter_map(|number| columns.group(number)) {
        summary.last = summary.last.max(Some(group.last));
        summary.from = summary.from.min(group.arrival);
        summary.to = summary.to.max(Some(group.arrival));
        summary.records += u64::from(group.rows);
    }
    summary
}
