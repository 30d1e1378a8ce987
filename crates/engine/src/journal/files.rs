//! The files of a journal, and reading through them in either form.
//!
//! A segment is `<first id>.journal` while it is written and until it has become `<first id>.parquet`. That file is
//! whole as soon as it has its name, and only then does the other go: whoever does not find the one finds the other,
//! and of two the first is whole in any case.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::columns::Columns;
use super::segment::{self, FileBlocks, SegmentError, Summary};
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
    useless.iter().try_for_each(|path| fs::remove_file(path).map_err(io_error(path)))
}

/// An open segment.
enum Opened {
    Rows(FileBlocks),
    Columns(Arc<Columns>),
}

/// Opens a segment in the form that it has by now; `None` for one that is not there any more, as it was too old to be
/// kept.
fn open(path: &Path) -> Result<Option<(PathBuf, Opened)>, JournalError> {
    if !is_columnar(path)
        && let Some(rows) = segment::open(path)?
    {
        return Ok(Some((path.to_path_buf(), Opened::Rows(rows))));
    }
    let path = path.with_extension(COLUMNS);
    match File::open(&path) {
        Ok(file) => {
            let columns = Columns::open(file).map_err(segment_error(&path))?;
            Ok(Some((path, Opened::Columns(Arc::new(columns)))))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(io_error(&path)(error)),
    }
}

/// The blocks of a segment.
#[derive(Debug)]
pub(super) struct SegmentBlocks {
    path: Arc<Path>,
    blocks: Places,
}

#[derive(Debug)]
enum Places {
    /// Where each begins.
    Rows(FileBlocks, Vec<u64>),
    Columns(Arc<Columns>),
}

impl SegmentBlocks {
    /// Of a segment. Of one that may be written to, what is just being written, or torn, is left out.
    pub(super) fn open(path: &Path, growing: bool) -> Result<Option<SegmentBlocks>, JournalError> {
        let opened = match open(path) {
            Err(JournalError::Segment { error: SegmentError::Magic, .. })
                if growing && segment::is_begun(path) =>
            {
                return Ok(None);
            }
            opened => opened?,
        };
        let Some((path, opened)) = opened else { return Ok(None) };
        let blocks = match opened {
            Opened::Rows(mut rows) => {
                let begins = rows.begins(&path, growing)?;
                Places::Rows(rows, begins)
            }
            Opened::Columns(columns) => Places::Columns(columns),
        };
        Ok(Some(SegmentBlocks { path: path.into(), blocks }))
    }

    fn len(&self) -> usize {
        match &self.blocks {
            Places::Rows(_, begins) => begins.len(),
            Places::Columns(columns) => columns.groups(),
        }
    }

    fn block(&mut self, number: usize) -> Result<Option<Block>, JournalError> {
        let block = match &mut self.blocks {
            Places::Rows(blocks, begins) => {
                let Some(at) = begins.get(number) else { return Ok(None) };
                blocks.block_at(*at).map_err(segment_error(&self.path))?
            }
            Places::Columns(columns) => Block::of_columns(columns, number),
        };
        Ok(block.map(|block| block.in_file(&self.path)))
    }

    /// One after another; ends after the first that is damaged.
    pub(super) fn forwards(mut self) -> impl Iterator<Item = Result<Block, JournalError>> + Send {
        let mut failed = false;
        (0..self.len()).map_while(move |number| {
            let block = if failed { None } else { self.block(number).transpose() };
            failed = matches!(block, Some(Err(_)));
            block
        })
    }
}

/// The blocks of segments, the last one first.
#[derive(Debug)]
pub(super) struct NewestFirst {
    segments: Vec<PathBuf>,
    is_first: bool,
    /// The segment at work, and how many of its blocks are still to come.
    open: Option<(SegmentBlocks, usize)>,
}

impl NewestFirst {
    /// Of segments given oldest first.
    pub(super) fn new(segments: Vec<PathBuf>) -> NewestFirst {
        NewestFirst { segments, is_first: true, open: None }
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
            self.open = SegmentBlocks::open(&path, newest)?.map(|blocks| {
                let left = blocks.len();
                (blocks, left)
            });
        }
    }
}

impl Iterator for NewestFirst {
    type Item = Result<Block, JournalError>;

    fn next(&mut self) -> Option<Result<Block, JournalError>> {
        let block = self.advance().transpose();
        if matches!(block, None | Some(Err(_))) {
            (self.segments, self.open) = (Vec::new(), None);
        }
        block
    }
}

/// The blocks of segments given oldest first, in that order; ends after the first that is damaged.
pub(super) fn oldest_first(
    segments: Vec<PathBuf>,
) -> impl Iterator<Item = Result<Block, JournalError>> + Send {
    let newest = segments.len().saturating_sub(1);
    let mut failed = false;
    let blocks = segments.into_iter().enumerate().flat_map(move |(index, path)| {
        let (opened, failure) = match SegmentBlocks::open(&path, index == newest) {
            Ok(opened) => (opened, None),
            Err(error) => (None, Some(Err(error))),
        };
        failure.into_iter().chain(opened.into_iter().flat_map(SegmentBlocks::forwards))
    });
    blocks.take_while(move |block| !std::mem::replace(&mut failed, block.is_err()))
}

/// The record of this id; of rows, among the blocks from `at` to `end`.
pub(super) fn find(path: &Path, at: u64, end: u64, id: RecordId) -> Result<Option<Record>, JournalError> {
    match open(path)? {
        None => Ok(None),
        Some((path, Opened::Rows(rows))) => rows.find(at, end, id).map_err(segment_error(&path)),
        Some((path, Opened::Columns(columns))) => {
            for number in 0..columns.groups() {
                let found = Block::of_columns(&columns, number).map(|block| block.find(id)).transpose();
                if let Some(record) = found.map_err(segment_error(&path))?.flatten() {
                    return Ok(Some(record));
                }
            }
            Ok(None)
        }
    }
}

/// What a segment holds, and how many bytes of a torn tail were cut off. The newest segment is checked byte by byte and
/// what follows its last whole block is cut off; of an older one only the heads are read, and damage is left as it is
/// for readers to report.
pub(super) fn summary(path: &Path, newest: bool) -> Result<(Summary, u64), JournalError> {
    if !is_columnar(path) {
        return segment::summary(path, newest);
    }
    let file = File::open(path).map_err(io_error(path))?;
    let length = file.metadata().map_err(io_error(path))?.len();
    match Columns::open(file) {
        Ok(columns) => Ok((of_columns(&columns), 0)),
        Err(error @ (SegmentError::Newer(_) | SegmentError::Io(_))) => Err(segment_error(path)(error)),
        Err(_) => Ok((Summary::unknown(length), 0)),
    }
}

/// What a file by columns holds.
pub(super) fn of_columns(columns: &Columns) -> Summary {
    let mut summary = Summary::unknown(columns.bytes());
    for group in (0..columns.groups()).filter_map(|number| columns.group(number)) {
        summary.last = summary.last.max(Some(group.last));
        summary.from = summary.from.min(group.arrival);
    }
    summary
}
