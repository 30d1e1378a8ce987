//! Overlays of the configuration's files at run time, and the reading of all of them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use super::Config;
use super::overrides::Overrides;
use super::problem::ConfigSource;
use super::version_snapshot::VersionSnapshot;
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
