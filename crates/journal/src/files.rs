//! The files of a journal, and reading through them in either form.
//!
//! A segment is `<first id>.journal` while it is written and until it has become `<first id>.parquet`. That file is
//! whole as soon as it has its name, and only then does the other go: whoever does not find the one finds the other,
//! and of two the first is whole in any case.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::columns::ColumnarSegment;
use super::format::{DamagedStretch, SegmentError};
use super::segment::{self, FileBlockIter, SegmentFaults, SegmentPiece, SegmentSummary};
use super::{Block, JournalError, Record, io_error, segment_error};
use crate::id::RecordId;

/// What the name of a segment of rows ends in.
pub(super) const ROWS: &str = "journal";
/// What the name of a segment by columns ends in.
pub(super) const COLUMNS: &str = "parquet";
/// What a file is called that is being written.
pub(super) const HALF: &str = "half";

/// Whether a segment is one by columns.
pub(super) fn is_columnar(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == COLUMNS)
}

/// The segments in a directory, oldest first.
pub(super) fn segments_in(directory: &Path) -> Result<Vec<(RecordId, PathBuf)>, JournalError> {
    /// A file that becomes another while a directory is listed may be missed under both names.
    const LISTINGS: usize = 5;
    let mut segments = listed(directory)?;
    for _ in 0..LISTINGS {
        let again = listed(directory)?;
        let same = again == segments;
        segments = again;
        if same {
            break;
        }
    }
    // Of two forms the rows come first.
    segments.dedup_by_key(|(first, _)| *first);
    Ok(segments)
}

fn listed(directory: &Path) -> Result<Vec<(RecordId, PathBuf)>, JournalError> {
    let mut segments = Vec::new();
    for entry in fs::read_dir(directory).map_err(io_error(directory))? {
        let path = entry.map_err(io_error(directory))?.path();
        let name = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.split_once('.'));
        if let Some((first, ROWS | COLUMNS)) = name
            && let Ok(first) = first.parse()
        {
            segments.push((first, path));
        }
    }
    segments.sort_unstable();
    Ok(segments)
}

/// Takes away what a crash left of files that were being written, and of segments that were becoming columns.
pub(super) fn mend(directory: &Path) -> Result<(), JournalError> {
    let mut useless: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(directory).map_err(io_error(directory))? {
        let path = entry.map_err(io_error(directory))?.path();
        let of_ours = path.extension().is_some_and(|extension| extension == HALF);
        if of_ours || (is_columnar(&path) && path.with_extension(ROWS).exists()) {
            useless.push(path);
        }
    }
    useless.iter().try_for_each(|path| fs::remove_file(path).map_err(io_error(path)))?;
    forget_torn(directory)
}

/// Of what crashes tore keeps the newest.
fn forget_torn(directory: &Path) -> Result<(), JournalError> {
    /// So many crashes back.
    const KEPT: usize = 16;
    let entries = fs::read_dir(directory).map_err(io_error(directory))?;
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut torn: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|it| it == segment::TORN)).collect();
    // Their names begin with the segment's, which rise.
    torn.sort_unstable();
    let old = torn.len().saturating_sub(KEPT);
    torn[..old].iter().try_for_each(|path| fs::remove_file(path).map_err(io_error(path)))
}

/// An open segment.
enum OpenJournalSegment {
    Rows(FileBlockIter),
    Columns(Arc<ColumnarSegment>),
    /// Nothing of it can be read.
    Damaged(DamagedStretch),
}

/// Opens a segment in the form that it has by now; `None` for one that is not there any more, as it was too old to be
/// kept.
fn open(path: &Path) -> Result<Option<(PathBuf, OpenJournalSegment)>, JournalError> {
    if !is_columnar(path)
        && let Some(rows) = segment::open(path)?
    {
        return Ok(Some((path.to_path_buf(), OpenJournalSegment::Rows(rows))));
    }
    let path = path.with_extension(COLUMNS);
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io_error(&path)(error)),
    };
    let length = file.metadata().map_err(io_error(&path))?.len();
    let opened = match open_columns(&path, file)? {
        Some(columns) => OpenJournalSegment::Columns(Arc::new(columns)),
        None => {
            OpenJournalSegment::Damaged(DamagedStretch { from: 0, to: length, records: 0, is_tail: false })
        }
    };
    Ok(Some((path, opened)))
}

/// Reads the index of a segment by columns; `None` for one whose head or index is damaged.
fn open_columns(path: &Path, file: File) -> Result<Option<ColumnarSegment>, JournalError> {
    match ColumnarSegment::open(file) {
        Ok(columns) => Ok(Some(columns)),
        Err(SegmentError::Damaged(_) | SegmentError::Magic) => Ok(None),
        Err(error) => Err(segment_error(path)(error)),
    }
}

/// Where the segment of this name is, in whichever form; `None` if it is not there. The rows come first: they go only after
/// the columns are there.
pub(super) fn path_of(directory: &Path, first: RecordId) -> Option<PathBuf> {
    let forms = [ROWS, COLUMNS].into_iter();
    forms.map(|form| directory.join(format!("{first}.{form}"))).find(|path| path.exists())
}

/// How many records a segment says that it has; `None` if it is not there any more. Reads heads, or the index.
pub(super) fn count(path: &Path) -> Result<Option<u64>, JournalError> {
    Ok(match open(path)? {
        None => None,
        Some((path, OpenJournalSegment::Rows(rows))) => Some(rows.count_records().map_err(io_error(&path))?),
        Some((_, OpenJournalSegment::Columns(columns))) => Some(columns.records_count()),
        Some((_, OpenJournalSegment::Damaged(_))) => Some(0),
    })
}

/// The blocks of a segment.
#[derive(Debug)]
pub(super) struct SegmentBlocks {
    path: Arc<Path>,
    blocks: BlockPositions,
}

#[derive(Debug)]
enum BlockPositions {
    /// Where each begins, and what lies between them.
    Rows(FileBlockIter, Vec<SegmentPiece<u64>>),
    Columns(Arc<ColumnarSegment>),
    Damaged(DamagedStretch),
}

impl SegmentBlocks {
    /// Of a segment. Of one that may be written to, what is just being written, or torn, is left out.
    pub(super) fn open(path: &Path, growing: bool) -> Result<Option<SegmentBlocks>, JournalError> {
        let Some((path, opened)) = open(path)? else { return Ok(None) };
        let blocks = match opened {
            OpenJournalSegment::Rows(mut rows) => {
                let places = rows.places(growing).map_err(io_error(&path))?;
                BlockPositions::Rows(rows, places)
            }
            OpenJournalSegment::Columns(columns) => BlockPositions::Columns(columns),
            OpenJournalSegment::Damaged(stretch) => BlockPositions::Damaged(stretch),
        };
        Ok(Some(SegmentBlocks { path: path.into(), blocks }))
    }

    fn len(&self) -> usize {
        match &self.blocks {
            BlockPositions::Rows(_, places) => places.len(),
            BlockPositions::Columns(columns) => columns.groups(),
            BlockPositions::Damaged(_) => 1,
        }
    }

    fn block(&mut self, number: usize) -> Result<Option<Block>, JournalError> {
        let damaged = |stretch: DamagedStretch| Err(JournalError::Damaged(stretch.in_file(&self.path)));
        let block = match &mut self.blocks {
            BlockPositions::Rows(blocks, places) => {
                let at = match places.get(number) {
                    None => return Ok(None),
                    Some(SegmentPiece::Damaged(stretch)) => return damaged(*stretch),
                    Some(SegmentPiece::Sound(at)) => *at,
                };
                match blocks.block_at(at).map_err(io_error(&self.path))? {
                    Some(SegmentPiece::Damaged(stretch)) => return damaged(stretch),
                    Some(SegmentPiece::Sound(block)) => Some(block),
                    None => None,
                }
            }
            BlockPositions::Columns(columns) => Block::of_columns(columns, number),
            BlockPositions::Damaged(stretch) => return damaged(*stretch),
        };
        Ok(block.map(|block| block.in_file(&self.path)))
    }

    /// One after another. What is damaged is an error in its place, and the next ones follow.
    pub(super) fn forwards(mut self) -> impl Iterator<Item = Result<Block, JournalError>> + Send {
        (0..self.len()).filter_map(move |number| self.block(number).transpose())
    }
}

/// The blocks of segments, the last one first. What is damaged is an error in its place, and the next ones follow.
#[derive(Debug)]
pub(super) struct NewestFirstIter {
    segments: Vec<PathBuf>,
    is_first: bool,
    /// The segment at work, and how many of its blocks are still to come.
    open: Option<(SegmentBlocks, usize)>,
}

impl NewestFirstIter {
    /// Of segments given oldest first.
    pub(super) fn new(segments: Vec<PathBuf>) -> NewestFirstIter {
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
            let Some(path) = self.segments.pop() else { return Ok(None) };
            let newest = std::mem::take(&mut self.is_first);
            self.open = None;
            self.open = SegmentBlocks::open(&path, newest)?.map(|blocks| {
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
    segments: Vec<PathBuf>,
) -> impl Iterator<Item = Result<Block, JournalError>> + Send {
    let newest = segments.len().saturating_sub(1);
    segments.into_iter().enumerate().flat_map(move |(index, path)| {
        let (opened, failure) = match SegmentBlocks::open(&path, index == newest) {
            Ok(opened) => (opened, None),
            Err(error) => (None, Some(Err(error))),
        };
        failure.into_iter().chain(opened.into_iter().flat_map(SegmentBlocks::forwards))
    })
}

/// The record of this id; of rows, among the blocks from `at` to `end`. What is damaged is passed over.
pub(super) fn find(path: &Path, at: u64, end: u64, id: RecordId) -> Result<Option<Record>, JournalError> {
    match open(path)? {
        None | Some((_, OpenJournalSegment::Damaged(_))) => Ok(None),
        Some((path, OpenJournalSegment::Rows(rows))) => rows.find(at, end, id).map_err(io_error(&path)),
        Some((path, OpenJournalSegment::Columns(columns))) => {
            for block in (0..columns.groups()).filter_map(|number| Block::of_columns(&columns, number)) {
                match block.find(id) {
                    Ok(Some(record)) => return Ok(Some(record)),
                    Ok(None) | Err(SegmentError::Damaged(_)) => {}
                    Err(error) => return Err(segment_error(&path)(error)),
                }
            }
            Ok(None)
        }
    }
}

/// What a segment holds, and what is wrong with it. See [`segment::summary`]; of one by columns its index is read.
pub(super) fn summary(path: &Path, newest: bool) -> Result<(SegmentSummary, SegmentFaults), JournalError> {
    if !is_columnar(path) {
        return segment::summary(path, newest);
    }
    let file = File::open(path).map_err(io_error(path))?;
    if let Some(columns) = open_columns(path, file)? {
        return Ok((of_columns(&columns), SegmentFaults::default()));
    }
    let length = fs::metadata(path).map_err(io_error(path))?.len();
    let whole = DamagedStretch { from: 0, to: length, records: 0, is_tail: false };
    let wounds = SegmentFaults { damage: vec![whole.in_file(path)], torn: None };
    Ok((SegmentSummary::unknown(length), wounds))
}

/// What a file by columns holds.
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
