//! Writing anew what can be had of a damaged journal.

use std::fs;
use std::path::{Path, PathBuf};

use super::erasure::SegmentRewriter;
use super::files::{self, segments_in};
use super::manifest::JournalManifest;
use super::{JournalError, SkippedData, columns, io_error, segment};

/// What the name of a damaged file ends in that is kept.
pub(super) const DAMAGED: &str = "damaged";

/// A segment that was written anew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentRepair {
    /// The damaged file, which is kept under this name.
    pub kept: PathBuf,
    /// Records that could be had.
    pub records: u64,
    /// What could not.
    pub skipped: SkippedData,
}

/// Writes each damaged segment of a journal anew that nobody has open, from what can be read of it, and keeps the damaged
/// file beside. Then lists the segments that are there: what is missing is not missed any more. Interrupted, it is to be
/// begun again.
///
/// # Errors
/// What cannot be read or written.
pub fn repair(directory: &Path, secret: u64) -> Result<Vec<SegmentRepair>, JournalError> {
    if !directory.exists() {
        return Ok(Vec::new());
    }
    files::mend(directory)?;
    let mut repaired = Vec::new();
    for (_, path) in segments_in(directory)? {
        if is_damaged(&path)? {
            repaired.push(anew(&path)?);
        }
    }
    JournalManifest::read(directory)?.known(secret, directory)?.write(directory)?;
    JournalManifest::recount(directory)?;
    Ok(repaired)
}

fn is_damaged(path: &Path) -> Result<bool, JournalError> {
    if !files::is_columnar(path) {
        return Ok(!segment::check(path, &mut |_| {}, &mut |_| {})?.is_empty());
    }
    let file = fs::File::open(path).map_err(io_error(path))?;
    let damaged = columns::check(file, &mut |_| {}, &mut |_| {}).map_err(super::segment_error(path))?;
    Ok(!damaged.is_empty())
}

fn anew(path: &Path) -> Result<SegmentRepair, JournalError> {
    let half = path.with_extension(files::HALF);
    let mut repaired = SegmentRepair { kept: PathBuf::new(), records: 0, skipped: SkippedData::default() };
    let mut writer = repaired.skipped.pass(SegmentRewriter::create(path, &half))?;
    for block in files::oldest_first(vec![path.to_path_buf()]) {
        let arrival = block.as_ref().map(|block| block.head.arrival).ok();
        let records = repaired.skipped.records(block)?;
        if let (Some(writer), Some(arrival)) = (&mut writer, arrival) {
            writer.write(&records, arrival)?;
            repaired.records += records.len() as u64;
        }
    }
    let Some(writer) = writer else {
        repaired.kept = disk::keep_damaged(path).map_err(io_error(path))?;
        return disk::remove(path).map(|()| repaired).map_err(io_error(path));
    };
    writer.finish()?;
    let mut placed = || {
        repaired.kept = disk::keep_damaged(path)?;
        disk::place(&half, path)
    };
    placed().map_err(io_error(path))?;
    Ok(repaired)
}
