//! The list of a data directory's files, by which a lost one is noticed: `contents.json`. Segments of ledger and journal,
//! and versions of rules, have lists of their own.

use std::collections::BTreeSet;
use std::io;

use serde::{Deserialize, Serialize};

use super::numbers::NAMES;
use super::{Directory, DirectoryError, io_error, read_sealed};

/// The list's own name.
const NAME: &str = "contents.json";
/// Largest list that is read.
const BYTES_MAX: u64 = 64 << 10;
/// Files that are listed once they are there, and what is gone with them.
const LISTED: [(&str, &str); 16] = [
    ("counts.bin", "what was counted of decisions over time"),
    ("journal/segments", "the decisions that were logged"),
    ("labels.ndjson", "the labels that enforcement points were told of"),
    ("learners.bin", "what linear models have learned"),
    ("limits.json", "the posted exceptions from limits"),
    (NAMES[0], "which names the stored numbers stand for"),
    (crate::review_queue::IMAGES, "the reviews that are not decided, and what is held for them"),
    ("rules/state.json", "what was posted over the configuration's files, and the versions to go back to"),
    ("scores.json", "the scores that lines by promise are drawn from"),
    ("searches.json", "the searches that were saved"),
    ("sinks.json", "how far decisions were sent to brokers"),
    ("sources.json", "how far the server has read its own sources"),
    ("tokens.json", "the tokens that were made: none of them is accepted"),
    ("tollhouse.toml", "the configuration"),
    ("users.json", "the people who may begin sessions"),
    ("values.json", "the posted entries of the allow list, and notes on values"),
];

/// The list, as it is in the file.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Contents {
    files: BTreeSet<String>,
}

/// A file that once was there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingFile {
    /// Its path in the data directory.
    pub file: &'static str,
    /// The loss that comes with it.
    pub cost: &'static str,
}

impl std::fmt::Display for MissingFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} is missing, and with it {}: restore it from a backup", self.file, self.cost)
    }
}

impl Directory {
    /// Files that once were there and are not. A directory that no engine has opened yet lists none.
    ///
    /// # Errors
    /// [`DirectoryError::Damaged`] if the list is, or what the system says.
    pub(crate) fn missing(&self) -> Result<Vec<MissingFile>, DirectoryError> {
        let known = self.contents()?.unwrap_or_default();
        let listed = LISTED.into_iter().filter(|(file, _)| known.files.contains(*file));
        let exists = |file: &str| self.path.join(file).exists();
        // Of the registry of numbers there is a copy, which is as good.
        let is_there = |file: &str| exists(file) || file == NAMES[0] && exists(NAMES[1]);
        let missing = listed.filter(|(file, _)| !is_there(file));
        Ok(missing.map(|(file, cost)| MissingFile { file, cost }).collect())
    }

    /// Lists the files that are there now.
    pub(crate) fn note_contents(&self) -> Result<(), DirectoryError> {
        let there = LISTED.into_iter().map(|(file, _)| file).filter(|file| self.path.join(file).exists());
        let contents = Contents { files: there.map(str::to_owned).collect() };
        if matches!(self.contents(), Ok(Some(known)) if known == contents) {
            return Ok(());
        }
        let path = self.path.join(NAME);
        let written = serde_json::to_vec_pretty(&contents).map_err(io::Error::from);
        written.and_then(|bytes| disk::replace(&path, &disk::seal(&bytes))).map_err(io_error(&path))
    }

    fn contents(&self) -> Result<Option<Contents>, DirectoryError> {
        let path = self.path.join(NAME);
        let Some(bytes) = read_sealed(&path, BYTES_MAX, "the next start makes it anew")? else {
            return Ok(None);
        };
        let contents = serde_json::from_slice(&bytes);
        contents.map(Some).map_err(|error| DirectoryError::Damaged { path, why: error.to_string() })
    }

    /// Returns true if the list itself is gone, of a directory that an engine has opened.
    pub(crate) fn lacks_contents(&self) -> bool {
        !self.path.join(NAME).exists() && self.path.join("rules/state.json").exists()
    }
}
