//! The configuration: text in layers (defaults, preset, file, environment, flags), merged into one tree in which
//! every value knows its origin. What it means is compiled into a [`crate::Plan`].
//!
//! One language for all: a preset is a file of it without the node's sections, and so is the file of a further
//! pipeline. Reading never stops at the first error: [`ConfigProblems`] lists all.

mod build_feature;
mod defaults;
mod document;
mod endpoint;
mod file_stamps;
mod formatter;
mod named_files;
mod overlays;
mod overrides;
mod problem;
mod reader;
mod reference;
mod scores;
mod spec;
mod tree;
mod version_snapshot;
mod view;

use std::path::Path;
use std::sync::Arc;

pub use build_feature::{BuildFeature, MissingFeature};
pub use document::Document;
pub(crate) use document::{
    PATTERN_LISTS, PROVIDER_AUTHORITY, allow_key, grok_key, key_authority_key, key_directory_key, list_key,
    notification_authority_key, pattern_list_key, robot_key, table_key, template_key,
};
pub use endpoint::{Endpoint, EndpointError};
pub use file_stamps::FileStamps;
pub use formatter::format;
use named_files::not_in_a_directory;
pub(crate) use overlays::ConfigRecipe;
use overlays::MainFile;
pub use overlays::{PipelineOverlay, PipelineOverlays};
pub use overrides::Overrides;
pub(crate) use problem::inside;
use problem::source;
pub use problem::{ConfigOrigin, ConfigProblem, ConfigProblems, ConfigSource, SourceKind};
pub use problem::{expected, nearest};
use reader::ConfigReader;
pub(crate) use reference::settings_reference;
pub use scores::with_scores;
pub use spec::WEIGHT_MAX;
pub(crate) use spec::{SPACE_MAX, file_mode, parse_percentage};
use tree::TomlValue;
pub use version_snapshot::VersionSnapshot;
pub(crate) use view::ConfigView;

/// Text that was read: a document for each pipeline, the first of which also holds the node's sections, and what is
/// wrong with it so far. [`crate::Plan::compile`] finds the rest, so that all is shown at once.
#[derive(Debug)]
pub struct Config {
    documents: Vec<Document>,
    problems: ConfigProblems,
    /// Compiling would only tell what follows from the problems.
    broken: bool,
    recipe: Arc<ConfigRecipe>,
    files: FileStamps,
    /// The files that `[envoy]` names.
    envoy: Vec<Arc<ConfigSource>>,
}

impl Config {
    /// Reads a main file and the pipelines it names.
    pub fn load(path: &Path, overrides: &Overrides) -> Config {
        let recipe = ConfigRecipe { main: MainFile::File(path.to_path_buf()), overrides: overrides.clone() };
        recipe.load(&PipelineOverlays::default())
    }

    /// Reads a text as the main file; it cannot name further files.
    pub fn from_text(name: &str, text: &str, overrides: &Overrides) -> Config {
        let recipe = ConfigRecipe { main: MainFile::Text(source(name, text)), overrides: overrides.clone() };
        recipe.load(&PipelineOverlays::default())
    }

    /// A preset by itself, everything else at its default.
    pub fn from_preset(name: &str, overrides: &Overrides) -> Config {
        Config::from_text(
            "--preset",
            &format!("preset = {}\n", TomlValue::String(name.to_owned()).to_toml()),
            overrides,
        )
    }

    fn assemble(recipe: &ConfigRecipe, layers: &PipelineOverlays) -> Config {
        let mut problems = ConfigProblems::default();
        let mut reader = ConfigReader { layers, files: FileStamps::default() };
        let (text, directory) = match &recipe.main {
            MainFile::File(path) => (reader.file(path, None, &mut problems), path.parent()),
            MainFile::Text(text) => (Arc::clone(text), None),
        };
        let main = reader.document(&text, true, &recipe.overrides, directory, &mut problems);
        for feature in recipe.overrides.missing {
            MissingFeature(*feature).refuse(&main, &mut problems);
        }
        let files = main.section("node").map(|view| view.strings("pipelines")).unwrap_or_default();
        let mut others = Vec::new();
        for (file, origin) in files {
            match directory {
                Some(directory) => {
                    let path = directory.join(file);
                    let text = reader.file(&path, Some(origin), &mut problems);
                    let none = Overrides::default();
                    others.push(reader.document(&text, false, &none, path.parent(), &mut problems));
                }
                None => not_in_a_directory(file, origin, &mut problems),
            }
        }
        let envoy = reader.envoy(&main, directory, &mut problems);
        let mut documents = vec![main];
        for document in others {
            if let Some(twin) = documents.iter().find(|other| other.name() == document.name()) {
                let message = format!("two pipelines are called `{}`", document.name());
                problems.add(&document.origin, message, Some(format!("the other is {}", twin.origin)));
            }
            documents.push(document);
        }
        let broken = documents.iter().any(|document| document.broken);
        Config { documents, problems, broken, recipe: Arc::new(recipe.clone()), files: reader.files, envoy }
    }

    /// The files that `[envoy]` names, those of folders included.
    pub(crate) fn envoy(&self) -> &[Arc<ConfigSource>] {
        &self.envoy
    }

    /// Returns the recipe by which all is read again.
    pub(crate) fn recipe(&self) -> &Arc<ConfigRecipe> {
        &self.recipe
    }

    /// The files that were read.
    pub fn files(&self) -> &FileStamps {
        &self.files
    }

    /// Other files are to be watched.
    pub fn watch(&mut self, files: FileStamps) {
        self.files = files;
    }

    /// Takes `bytes` for the file of a pipeline's model. Whether there is a model of this name.
    pub fn replace_model(&mut self, pipeline: Option<&str>, model: &str, bytes: Vec<u8>) -> bool {
        let meant = |document: &&mut Document| pipeline.is_none_or(|name| document.name() == name);
        let Some(document) = self.documents.iter_mut().find(meant) else { return false };
        let known = document.list("model").into_iter().any(|view| view.str("name") == Some(model));
        if known {
            document.models.insert(model.to_owned(), bytes);
        }
        known
    }

    /// Returns the problems of the text, and whether it is worth compiling all the same.
    pub fn problems(&self) -> (&ConfigProblems, bool) {
        (&self.problems, !self.broken)
    }

    /// The pipelines' documents; the first is the main file's.
    pub fn documents(&self) -> &[Document] {
        &self.documents
    }

    /// The document that holds the node's sections.
    pub fn main(&self) -> &Document {
        &self.documents[0]
    }

    /// Every value with its origin, one a line: `section.key = value  # origin`. Secrets are not shown.
    pub fn effective(&self) -> Vec<EffectiveValue> {
        let mut values = Vec::new();
        for (document, main) in self.documents.iter().zip([true].into_iter().chain(std::iter::repeat(false)))
        {
            document.effective(main, &mut values);
        }
        values
    }
}

/// One line of `tollhouse config check --effective`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EffectiveValue {
    /// The pipeline, or `node`.
    pub scope: String,
    /// `section.key`, for lists `section.NAME.key`.
    pub path: String,
    /// In TOML.
    pub value: String,
    /// The place in the configuration.
    pub origin: String,
}
