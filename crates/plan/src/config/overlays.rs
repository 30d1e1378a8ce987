//! Overlays of the configuration's files at run time, and the reading of all of them.

use std::collections::{BTreeMap, HashMap};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::problem::{ConfigSource, SourceKind};
use super::{Config, Overrides};
use crate::CanaryScope;

/// The sources that a configuration was read from.
#[derive(Clone, Debug)]
pub(crate) struct ConfigRecipe {
    pub(super) main: MainFile,
    pub(super) overrides: Overrides,
}

/// The main file.
#[derive(Clone, Debug)]
pub(super) enum MainFile {
    File(PathBuf),
    Text(Arc<ConfigSource>),
}

impl ConfigRecipe {
    /// Reads everything again.
    pub(crate) fn load(&self, layers: &PipelineOverlays) -> Config {
        Config::assemble(self, layers)
    }
}

/// The overlays over the files of each pipeline, by its name.
#[derive(Clone, Debug, Default)]
pub struct PipelineOverlays {
    /// Overlays by the name of their pipeline.
    pub of: BTreeMap<String, PipelineOverlay>,
    /// A kept version of a pipeline is in force, so that errors in the pipeline's files change nothing.
    pub files_may_be_broken: bool,
}

/// The overlay over the files of one pipeline.
#[derive(Clone, Debug, Default)]
pub struct PipelineOverlay {
    /// A text that was posted: laid over the file as the file is over its preset.
    pub posted: Option<String>,
    /// A text that is judged beside what is enforced: what would be in force if it were posted.
    pub candidate: Option<String>,
    /// The events for which that text decides.
    pub canary: Option<CanaryScope>,
    /// A kept version, in force instead of the file and of what was posted.
    pub kept: Option<VersionSnapshot>,
}

/// A version as it is kept: all that its verdicts depend on.
#[derive(Clone, Debug, Default)]
pub struct VersionSnapshot {
    /// Every setting of the pipeline, as TOML.
    pub text: String,
    /// The texts of the files of sets, by the set's name.
    pub lists: HashMap<String, String>,
    /// The files of models, by the model's name.
    pub models: HashMap<String, Vec<u8>>,
}

/// A text that no file holds, as errors name it.
pub(super) fn source(name: &str, text: &str) -> Arc<ConfigSource> {
    Arc::new(ConfigSource { kind: SourceKind::File, name: name.to_owned(), text: text.to_owned() })
}

/// The state of a file as seen from outside, just before it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileStamp {
    length: u64,
    modified: (i64, i64),
    changed: (i64, i64),
    file: (u64, u64),
}

/// The files that were read, with what they looked like: two are equal if no file was written or replaced between.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileStamps(Vec<(PathBuf, Option<FileStamp>)>);

impl FileStamps {
    /// Looks at a file that is about to be read.
    pub(super) fn add(&mut self, path: &Path) {
        if !self.0.iter().any(|(other, _)| other == path) {
            self.0.push((path.to_path_buf(), stamp(path)));
        }
    }

    /// Looks at the same files again.
    pub fn look_again(&self) -> FileStamps {
        FileStamps(self.0.iter().map(|(path, _)| (path.clone(), stamp(path))).collect())
    }
}

/// Links are followed: what is replaced may be what a link names. `None` for a file that is not there.
fn stamp(path: &Path) -> Option<FileStamp> {
    let metadata = std::fs::metadata(path).ok()?;
    Some(FileStamp {
        length: metadata.len(),
        modified: (metadata.mtime(), metadata.mtime_nsec()),
        changed: (metadata.ctime(), metadata.ctime_nsec()),
        file: (metadata.dev(), metadata.ino()),
    })
}
