//! Closed segments become columns, in the background.
//!
//! ```text
//! id.journal ─► id.half ─► sync ─► every record compared ─► id.parquet ─► sync of the directory ─► id.journal goes
//! ```
//!
//! Blocks that are columns already are copied; of these the bytes are compared, by their checksums.
//!
//! A crash at any moment leaves the rows, the columns, or both; see [`super::files`]. The newest segment of rows stays,
//! and has a version of the format that earlier releases refuse: they would not see that there are files by columns.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use disk::Device;
use event::Slot;

use super::columns::{ColumnLayout, ColumnarSegment, ColumnarWriter, ColumnsFormat, ReadColumns};
use super::file::JournalFile;
use super::files::{self, SegmentBlocks};
use super::format::SegmentError;
use super::priority::{give_way, lower_priority};
use super::segment::SegmentSummary;
use super::visitor::{FactChoice, RecordVisitor};
use super::{Block, JournalCore, JournalError, JournalState, read_description, segment_error};

/// The time for which the conversion waits for room on a full disk before it tries again.
const PATIENCE: Duration = Duration::from_secs(60);

impl JournalState {
    /// The oldest segment that is to become columns.
    pub(super) fn to_convert(&self) -> Option<JournalFile> {
        let (newest, closed) = self.segments.split_last()?;
        if files::is_columnar(&newest.file) {
            return None;
        }
        let rows = closed.iter().find(|segment| !segment.stays && !files::is_columnar(&segment.file));
        rows.map(|segment| segment.file.clone())
    }

    /// The versions that decided in a segment, if they are known without reading it.
    fn versions(&self, file: &JournalFile) -> Option<Vec<String>> {
        self.segments.iter().find(|segment| segment.is(file))?.versions.clone()
    }
}

impl JournalCore {
    /// The thread that turns closed segments into columns.
    pub(super) fn convert_all(&self) {
        lower_priority();
        loop {
            let file = {
                let mut state = self.state.lock();
                loop {
                    if state.closing {
                        return;
                    }
                    if let Some(file) = state.to_convert() {
                        break file;
                    }
                    self.rotated.wait(&mut state);
                }
            };
            let alone = self.rewriting.lock();
            // It may have become columns meanwhile, by being written anew for another reason.
            let (versions, is_there) = {
                let state = self.state.lock();
                (state.versions(&file), state.segments.iter().any(|segment| segment.is(&file)))
            };
            if !is_there {
                continue;
            }
            let is_stopped = || {
                give_way();
                self.state.lock().closing
            };
            let converted = convert(&file, versions, &is_stopped);
            if let Err(error) = &converted {
                tracing::warn!(%error, segment = file.name(), "stays as rows");
            }
            match converted {
                Ok(None) => return,
                Ok(Some(summary)) => self.replace(&file, summary),
                Err(JournalError::Io { error, .. }) if disk::is_lack(&error) => {
                    drop(alone);
                    let waiting = |state: &mut JournalState| !state.closing;
                    self.rotated.wait_while_for(&mut self.state.lock(), waiting, PATIENCE);
                }
                Err(_) => {
                    let mut state = self.state.lock();
                    state.segments.iter_mut().filter(|it| it.is(&file)).for_each(|it| it.stays = true);
                }
            }
            self.written.notify(usize::MAX);
        }
    }

    /// Readers are sent to the columns; then the rows go.
    fn replace(&self, file: &JournalFile, summary: SegmentSummary) {
        let columns = file.with_extension(files::COLUMNS);
        let known = {
            let mut state = self.state.lock();
            let segment = state.segments.iter_mut().find(|segment| segment.is(file));
            segment.map(|segment| (segment.file, segment.summary) = (columns.clone(), summary)).is_some()
        };
        // It became too old to be kept meanwhile.
        let useless = if known { file } else { &columns };
        if let Err(error) = useless.remove() {
            tracing::warn!(%error, "cannot be removed");
        }
    }
}

/// Writes a segment of rows by columns, beside it; `None` if it was stopped before that was done.
///
/// # Errors
/// If something cannot be read or written, or a block is damaged. Nothing is left of the columns then.
fn convert(
    file: &JournalFile,
    versions: Option<Vec<String>>,
    stop: &dyn Fn() -> bool,
) -> Result<Option<SegmentSummary>, JournalError> {
    let half = file.with_extension(files::HALF);
    let converted = write(file, versions, &half, stop);
    if !matches!(converted, Ok(Some(_))) {
        // It is of no use; why is told.
        let _ = half.remove();
    }
    converted
}

fn write(
    file: &JournalFile,
    versions: Option<Vec<String>>,
    half: &JournalFile,
    stop: &dyn Fn() -> bool,
) -> Result<Option<SegmentSummary>, JournalError> {
    let versions = match versions {
        Some(versions) => VersionCollector(versions),
        None => {
            let mut versions = VersionCollector::default();
            for block in blocks(file)? {
                block?.look(&mut versions).map_err(segment_error(&file.path()))?;
                if stop() {
                    return Ok(None);
                }
            }
            versions
        }
    };
    let mut writer = ColumnarWriter::create(half, layout(file.device(), &versions.0), ColumnsFormat::Sealed)?;
    for block in blocks(file)? {
        let block = block?;
        if let Some(columns) = block.file()
            && writer.copy(columns)?
        {
            if stop() {
                return Ok(None);
            }
            continue;
        }
        let bytes = block.bytes().map_err(segment_error(&file.path()))?;
        if writer.push_all(&bytes, block.head.arrival)? != block.head.count {
            return Err(segment_error(&file.path())(SegmentError::Damaged(block.head.at)));
        }
        if stop() {
            return Ok(None);
        }
    }
    writer.finish()?;
    let columns = Arc::new(open(half)?);
    if !same(file, &columns, stop)? {
        return Ok(None);
    }
    half.place(&file.with_extension(files::COLUMNS))?;
    Ok(Some(files::of_columns(&columns)))
}

/// The columns for rows of these versions.
pub(super) fn layout(device: &Arc<dyn Device>, versions: &[String]) -> ColumnLayout {
    let described = |version: &String| {
        // What its rows mean is not needed to keep them.
        let description = read_description(device, version).ok();
        (version.clone(), description)
    };
    ColumnLayout::of(&versions.iter().map(described).collect::<Vec<_>>())
}

fn open(half: &JournalFile) -> Result<ColumnarSegment, JournalError> {
    ColumnarSegment::open(half.open_present()?).map_err(segment_error(&half.path()))
}

/// The blocks of a segment that is closed.
fn blocks(
    file: &JournalFile,
) -> Result<impl Iterator<Item = Result<Block, JournalError>> + use<>, JournalError> {
    Ok(SegmentBlocks::open(file, false)?.into_iter().flat_map(SegmentBlocks::forwards))
}

/// Returns true if the columns have every record as the rows have it: `false` if it was stopped before all were compared.
fn same(
    file: &JournalFile,
    columns: &Arc<ColumnarSegment>,
    stop: &dyn Fn() -> bool,
) -> Result<bool, JournalError> {
    let (mut groups, mut written, mut at) = (0..columns.groups(), Vec::new(), 0);
    let mut is_same = true;
    for block in blocks(file)? {
        let block = block?;
        if let Some(copied) = block.file()
            && at == written.len()
            && is_copy(columns, &groups, copied).map_err(segment_error(&file.path()))?
        {
            groups.nth(copied.groups().saturating_sub(1));
            continue;
        }
        let bytes = block.bytes().map_err(segment_error(&file.path()))?;
        while written.len() - at < bytes.len()
            && let Some(number) = groups.next()
        {
            written.drain(..std::mem::take(&mut at));
            columns
                .rows((number, &mut ReadColumns::default()), |_| true, FactChoice::All, &mut written)
                .map_err(segment_error(&file.path()))?;
        }
        is_same = written[at..].starts_with(&bytes);
        if !is_same {
            break;
        }
        at += bytes.len();
        if stop() {
            return Ok(false);
        }
    }
    if is_same && at == written.len() && groups.next().is_none() {
        return Ok(true);
    }
    same_records(file, columns, stop)
}

/// Returns true if the next groups are those of this file.
fn is_copy(
    columns: &ColumnarSegment,
    groups: &Range<usize>,
    copied: &ColumnarSegment,
) -> Result<bool, SegmentError> {
    for (its, number) in (0..copied.groups()).zip(groups.start..) {
        if !columns.is_copy(number, copied, its)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns whether the columns have the same records, one by one.
fn same_records(
    file: &JournalFile,
    columns: &Arc<ColumnarSegment>,
    stop: &dyn Fn() -> bool,
) -> Result<bool, JournalError> {
    let other = || file.error(io::Error::other("the columns that were written of it say something else"));
    let mut groups = 0..columns.groups();
    let mut written = Vec::new().into_iter();
    let mut next = || loop {
        if let Some(record) = written.next() {
            break Ok::<_, JournalError>(Some(record));
        }
        let Some(number) = groups.next() else { break Ok(None) };
        written = columns
            .records((number, &mut ReadColumns::default()), |_| true, FactChoice::All)
            .map_err(segment_error(&file.path()))?
            .into_iter();
    };
    for block in blocks(file)? {
        for (id, record) in block?.records().map_err(segment_error(&file.path()))? {
            let (of, it) = next()?.ok_or_else(other)?;
            // By their bytes: a float that is no number does not equal itself.
            if of != id || it.encode(of) != record.encode(id) {
                return Err(other());
            }
        }
        if stop() {
            return Ok(false);
        }
    }
    if next()?.is_none() { Ok(true) } else { Err(other()) }
}

/// The versions that decided, in the order in which they first appear.
#[derive(Default)]
struct VersionCollector(Vec<String>);

impl<'w> RecordVisitor<'w> for VersionCollector {
    fn version(&mut self, _: &str, version: &str) -> Option<&'w [Option<Slot>]> {
        if !self.0.iter().any(|known| known == version) {
            self.0.push(version.to_owned());
        }
        None
    }
}
