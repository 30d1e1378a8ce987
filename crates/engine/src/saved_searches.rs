//! Searches in past decisions that people have saved, beside those of the configuration. They are this node's.
//!
//! They are kept in `searches.json` of the data directory, in the clear: whoever saved one wants to read it. What is searched for may name
//! somebody, so they are shown to those alone who may read what events say.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use serde::{Deserialize, Serialize};

use crate::Engine;
use crate::directory::{Directory, DirectoryError, io_error, read_sealed};

/// Most searches that can be saved.
pub const POSTED_SEARCHES_MAX: usize = 200;
/// Largest file that is read.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// A search that somebody has saved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PostedSearch {
    /// Its name.
    pub name: String,
    /// The conditions that it asks for, by the names of the settings of `[[search]]`.
    pub asks: BTreeMap<String, String>,
}

/// Reasons for a search that is not saved.
#[derive(Debug, thiserror::Error)]
pub enum PostedSearchError {
    /// The list is full.
    #[error("there are {POSTED_SEARCHES_MAX} already: remove some first")]
    Full,
    /// The searches could not be written.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
}

/// The searches that were saved.
#[derive(Debug, Default)]
pub(crate) struct PostedSearches {
    kept: RwLock<Arc<Vec<PostedSearch>>>,
    /// Held while they are changed.
    changing: Mutex<()>,
}

impl PostedSearches {
    pub(crate) fn new(kept: Vec<PostedSearch>) -> PostedSearches {
        PostedSearches { kept: RwLock::new(Arc::new(kept)), changing: Mutex::default() }
    }
}

/// Reads what was saved; nothing was yet in a new directory.
pub(crate) fn read(path: &Path) -> Result<Vec<PostedSearch>, DirectoryError> {
    let bytes = read_sealed(path, FILE_BYTES_MAX, "the searches that were saved are then gone")?;
    let searches = bytes.map_or(Ok(Vec::new()), |bytes| serde_json::from_slice(&bytes));
    searches.map_err(|error| DirectoryError::Damaged { path: path.into(), why: error.to_string() })
}

impl Directory {
    /// Searches that were saved.
    pub(crate) fn searches_path(&self) -> PathBuf {
        self.path().join("searches.json")
    }
}

impl Engine {
    /// The searches that were saved, in the order of their names.
    pub fn posted_searches(&self) -> Arc<Vec<PostedSearch>> {
        Arc::clone(&self.searches.kept.read())
    }

    /// Saves a search, instead of one of the same name. Kept in the data directory, if there is one. Blocks.
    ///
    /// # Errors
    /// [`PostedSearchError`]; then nothing has changed.
    pub fn post_search(&self, search: PostedSearch) -> Result<(), PostedSearchError> {
        let _only = self.searches.changing.lock();
        let mut searches = self.posted_searches().to_vec();
        searches.retain(|other| other.name != search.name);
        if searches.len() >= POSTED_SEARCHES_MAX {
            return Err(PostedSearchError::Full);
        }
        searches.push(search);
        searches.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(self.keep_searches(searches)?)
    }

    /// Removes a search that was saved; returns false if there is none of this name. Blocks.
    ///
    /// # Errors
    /// If the others cannot be written; then nothing has changed.
    pub fn remove_search(&self, name: &str) -> Result<bool, PostedSearchError> {
        let _only = self.searches.changing.lock();
        let mut searches = self.posted_searches().to_vec();
        let before = searches.len();
        searches.retain(|search| search.name != name);
        if searches.len() == before {
            return Ok(false);
        }
        self.keep_searches(searches)?;
        Ok(true)
    }

    /// Removes the searches that ask for one of some values, and returns how many; with `pretend` they are only counted.
    pub(crate) fn erase_searches(
        &self,
        is_meant: impl Fn(&str) -> bool,
        pretend: bool,
    ) -> Result<u64, DirectoryError> {
        let _only = self.searches.changing.lock();
        let mut searches = self.posted_searches().to_vec();
        let before = searches.len();
        searches.retain(|search| !search.asks.values().any(|text| is_meant(text)));
        let erased = (before - searches.len()) as u64;
        if erased > 0 && !pretend {
            self.keep_searches(searches)?;
        }
        Ok(erased)
    }

    fn keep_searches(&self, searches: Vec<PostedSearch>) -> Result<(), DirectoryError> {
        if let Some(directory) = &self.directory {
            let path = directory.searches_path();
            let written = serde_json::to_vec_pretty(&searches).map_err(std::io::Error::from);
            written.and_then(|bytes| disk::replace(&path, &disk::seal(&bytes))).map_err(io_error(&path))?;
            directory.note_contents()?;
        }
        *self.searches.kept.write() = Arc::new(searches);
        Ok(())
    }
}
