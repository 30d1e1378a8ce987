//! Writing anew what can be had of a damaged journal.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use disk::log::keep_damaged;
use disk::{Device, FileDevice};

use super::erasure::SegmentRewriter;
use super::file::JournalFile;
use super::files::{self, segments_on};
use super::manifest::JournalManifest;
use super::{JournalError, SkippedData, io_error};

/// A segment that was written anew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentRepair {
    /// The damaged file, which is kept under this name.
    pub kept: PathBuf,
    /// Records that could be had.
    pub records: u64,
    /// The data that could not be had.
    pub skipped: SkippedData,
}

/// Writes each damaged segment of a journal anew that nobody has open, from what can be read of it, and keeps the damaged
/// file beside. Then lists the segments that are there: what is missing is not missed any more. Interrupted, it is to be
/// begun again.
///
/// # Errors
/// If something cannot be read or written.
pub fn repair(directory: &Path, secret: u64) -> Result<Vec<SegmentRepair>, JournalError> {
    if !directory.exists() {
        return Ok(Vec::new());
    }
    let device: Arc<dyn Device> = Arc::new(FileDevice::unlocked(directory).map_err(io_error(directory))?);
    files::mend(&device)?;
    let mut repaired = Vec::new();
    for (_, file) in segments_on(&device)? {
        if is_damaged(&file)? {
            repaired.push(anew(&file)?);
        }
    }
    JournalManifest::read(&*device)?.known(secret, &*device)?.write(&*device)?;
    JournalManifest::recount(&device)?;
    Ok(repaired)
}

fn is_damaged(file: &JournalFile) -> Result<bool, JournalError> {
    Ok(!files::check(file, &mut |_| {}, &mut |_| {})?.is_empty())
}

fn anew(file: &JournalFile) -> Result<SegmentRepair, JournalError> {
    let half = file.with_extension(files::HALF);
    let mut repaired = SegmentRepair { kept: PathBuf::new(), records: 0, skipped: SkippedData::default() };
    let mut writer = repaired.skipped.pass(SegmentRewriter::create(file, &half))?;
    for block in files::oldest_first(vec![file.clone()]) {
        let arrival = block.as_ref().map(|block| block.head.arrival).ok();
        let records = repaired.skipped.records(block)?;
        if let (Some(writer), Some(arrival)) = (&mut writer, arrival) {
            writer.write(&records, arrival)?;
            repaired.records += records.len() as u64;
        }
    }
    let keep = || {
        let kept = keep_damaged(&**file.device(), file.name()).map_err(|error| file.error(error))?;
        Ok::<_, JournalError>(file.device().path(&kept))
    };
    if let Some(writer) = writer {
        writer.finish()?;
        repaired.kept = keep()?;
        half.place(file)?;
    } else {
        repaired.kept = keep()?;
        file.remove()?;
    }
    Ok(repaired)
}
