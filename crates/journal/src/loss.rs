//! Unreadable parts of a journal: reported by the reader that finds them, and passed over.

use std::fmt;
use std::path::PathBuf;

use super::format::DamagedStretch;
use super::{Block, JournalError, Record};
use crate::id::RecordId;

/// A stretch of a file that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalDamage {
    /// The file's name.
    pub segment: String,
    /// First byte.
    pub from: u64,
    /// Byte behind the last.
    pub to: u64,
    /// Records in it, as far as it says.
    pub records: u64,
}

impl DamagedStretch {
    /// A loss in this file.
    pub(super) fn in_file(self, name: &str) -> JournalDamage {
        let DamagedStretch { from, to, records, .. } = self;
        JournalDamage { segment: name.to_owned(), from, to, records }
    }
}

impl fmt::Display for JournalDamage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let JournalDamage { segment, from, to, records } = self;
        write!(f, "{segment}: bytes {from} to {to} are damaged, with {records} records or more")
    }
}

/// A segment that has fewer records than were once in it, or is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingRecords {
    /// The first id that it may have, which is its name.
    pub first: RecordId,
    /// Records that it lacks.
    pub records: u64,
    /// The file does not exist.
    pub is_gone: bool,
}

impl fmt::Display for MissingRecords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MissingRecords { first, records, is_gone } = self;
        match is_gone {
            true => write!(f, "segment {first} is missing, with {records} records or more"),
            false => write!(f, "segment {first} lacks {records} records"),
        }
    }
}

/// Everything that was found wrong with a journal when it was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JournalLosses {
    /// The parts that cannot be read, of those looked at: all of the newest segment, the heads of others.
    pub damage: Vec<JournalDamage>,
    /// The records that once were there.
    pub lacking: Vec<MissingRecords>,
    /// The list of segments is missing or damaged, so that it cannot be known whether any is missing.
    pub is_unlisted: bool,
    /// The end of the newest segment that a crash tore: the file that has it now, and its bytes.
    pub torn: Option<(PathBuf, u64)>,
}

impl JournalLosses {
    /// Returns a sentence that says what is lost, unless nothing is. A torn tail is no loss: it was not promised.
    pub fn sentence(&self) -> Option<String> {
        /// The number of losses reported one by one.
        const SHOWN_MAX: usize = 3;
        let unlisted = self.is_unlisted.then(|| "its list of segments is missing or damaged".to_owned());
        let damage = self.damage.iter().map(JournalDamage::to_string);
        let all: Vec<String> = unlisted
            .into_iter()
            .chain(damage)
            .chain(self.lacking.iter().map(MissingRecords::to_string))
            .collect();
        let more = all.len().saturating_sub(SHOWN_MAX);
        let more = if more > 0 { format!("; and {more} more") } else { String::new() };
        let told = all.iter().take(SHOWN_MAX).cloned().collect::<Vec<_>>().join("; ");
        let mend = "all else is served; `tollhouse verify` says what is lost, and `tollhouse verify --repair` settles it";
        (!all.is_empty()).then(|| format!("the journal is damaged: {told}{more}; {mend}"))
    }
}

/// The data that a reader passed over because it is damaged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SkippedData {
    /// Stretches of files.
    pub stretches: u64,
    /// The bytes of the stretches.
    pub bytes: u64,
    /// Records in them, as far as they say.
    pub records: u64,
}

impl SkippedData {
    /// Hands on what could be read, and notes what is damaged, for which there is nothing.
    ///
    /// # Errors
    /// Everything but damage.
    pub fn pass<T>(&mut self, read: Result<T, JournalError>) -> Result<Option<T>, JournalError> {
        match read {
            Ok(read) => Ok(Some(read)),
            Err(JournalError::Damaged(damage)) => {
                self.stretches += 1;
                self.bytes += damage.to - damage.from;
                self.records += damage.records;
                tracing::warn!(%damage, "passed over");
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// The records of a block, none if it is damaged.
    ///
    /// # Errors
    /// Everything but damage.
    pub fn records(
        &mut self,
        block: Result<Block, JournalError>,
    ) -> Result<Vec<(RecordId, Record)>, JournalError> {
        let Some(block) = self.pass(block)? else { return Ok(Vec::new()) };
        let records = self.pass(block.records().map_err(|error| block.error(error)))?;
        Ok(records.unwrap_or_default())
    }

    /// Returns true if nothing was passed over.
    pub fn is_empty(&self) -> bool {
        self.stretches == 0
    }
}

impl fmt::Display for SkippedData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SkippedData { stretches, bytes, records } = self;
        write!(f, "{stretches} damaged stretches of the journal ({bytes} bytes, {records} records or more)")
    }
}
