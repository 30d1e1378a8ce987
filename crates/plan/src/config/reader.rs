//! Reading: the files of a configuration, each bounded, and the layers that they are.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::defaults::{complete_entries, default_origin, defaults};
use super::document::Document;
use super::file_stamps::FileStamps;
use super::named_files::{not_in_a_directory, read};
use super::overlays::{PipelineOverlay, PipelineOverlays};
use super::overrides::{Overrides, override_layers};
use super::problem::{ConfigOrigin, ConfigProblems, ConfigSource, SourceKind, expected, source};
use super::spec;
use super::tree::{self, TomlEntry, TomlNode, TomlTable, TomlValue};
use crate::preset::{self, Preset};

/// Largest configuration file that is read.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Reads documents.
pub(super) struct ConfigReader<'a> {
    pub(super) layers: &'a PipelineOverlays,
    /// The files that were read.
    pub(super) files: FileStamps,
}

impl ConfigReader<'_> {
    pub(super) fn file(
        &mut self,
        path: &Path,
        named_at: Option<&ConfigOrigin>,
        problems: &mut ConfigProblems,
    ) -> Arc<ConfigSource> {
        self.files.add(path);
        read(path, named_at, FILE_BYTES_MAX, problems)
    }

    /// The files that `[envoy]` names: of a folder those that look like YAML, in the order of their names.
    pub(super) fn envoy(
        &mut self,
        main: &Document,
        directory: Option<&Path>,
        problems: &mut ConfigProblems,
    ) -> Vec<Arc<ConfigSource>> {
        let mut sources = Vec::new();
        let named = main.section("envoy").map(|view| view.strings("config")).unwrap_or_default();
        for (name, origin) in named {
            let Some(directory) = directory else {
                not_in_a_directory(name, origin, problems);
                continue;
            };
            let path = directory.join(name);
            if !path.is_dir() {
                sources.push(self.file(&path, Some(origin), problems));
                continue;
            }
            // A file that is added later changes the folder.
            self.files.add(&path);
            let is_yaml = |path: &PathBuf| {
                path.extension().is_some_and(|it| it == "yaml" || it == "yml") && path.is_file()
            };
            let listed = std::fs::read_dir(&path).and_then(|entries| {
                entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>()
            });
            match listed {
                Ok(mut paths) => {
                    paths.retain(is_yaml);
                    paths.sort();
                    sources.extend(paths.iter().map(|path| self.file(path, Some(origin), problems)));
                }
                Err(error) => {
                    problems.add(origin, format!("cannot read {}: {error}", path.display()), None);
                }
            }
        }
        sources
    }

    /// A pipeline's layers, merged, and the files that it names.
    pub(super) fn document(
        &mut self,
        text: &Arc<ConfigSource>,
        main: bool,
        overrides: &Overrides,
        directory: Option<&Path>,
        problems: &mut ConfigProblems,
    ) -> Document {
        let before = problems.list().len();
        let (mut root, mut broken) = of_files(text, main, problems);
        let over = override_layers(main, overrides, problems);
        let named = over.iter().rev().chain([&root]).find_map(|layer| match &layer.get("name")?.value {
            TomlValue::String(name) => Some(name.clone()),
            _ => None,
        });
        let name = named.unwrap_or_else(|| name_of(&root));
        let none = PipelineOverlay::default();
        let layers = self.layers;
        let PipelineOverlay { posted, candidate, canary, kept } = layers.of.get(&name).unwrap_or(&none);
        let candidate = self.candidate(&root, candidate.as_deref(), directory, problems);
        if let Some(posted) = posted {
            let layer = tree::parse(&source(POSTED, posted), problems);
            spec::check_layer(&layer, spec::OverlayKind::Posted, problems);
            root.overlay(layer, &spec::identity);
        }
        let complete = |root: &mut TomlTable, problems: &mut ConfigProblems| {
            over.iter().for_each(|layer| root.overlay(layer.clone(), &spec::identity));
            complete_entries(root, problems);
            name_from_preset(root);
        };
        complete(&mut root, problems);
        let origin = ConfigOrigin { source: Arc::clone(text), range: 0..0 };
        let mut document = Document {
            root,
            origin,
            broken: false,
            lists: HashMap::new(),
            models: HashMap::new(),
            candidate: None,
            canary: None,
        };
        match kept {
            Some(kept) => {
                if layers.files_may_be_broken {
                    problems.truncate(before);
                    broken = false;
                }
                document.take(kept, problems);
            }
            None => document.read_files(directory, &mut self.files, problems),
        }
        let input = document.top().str("input").unwrap_or_default();
        broken |= !spec::INPUTS.contains(&input);
        if let Some(mut candidate) = candidate.filter(|_| problems.list().len() == before) {
            complete(&mut candidate, problems);
            let lists = match kept {
                Some(_) => HashMap::new(),
                None => document.lists.clone(),
            };
            let origin = document.origin.clone();
            document.candidate = Some(Box::new(Document {
                root: candidate,
                origin,
                broken: false,
                lists,
                models: HashMap::new(),
                candidate: None,
                canary: None,
            }));
            document.canary.clone_from(canary);
            if let (Some(_), Some(candidate)) = (kept, &mut document.candidate) {
                candidate.read_files(directory, &mut self.files, problems);
                candidate.models.clear();
            }
        }
        Document { broken, ..document }
    }

    /// The file's layers with the candidate over them, if there is one: what was posted as such, else its file.
    fn candidate(
        &mut self,
        root: &TomlTable,
        posted: Option<&str>,
        directory: Option<&Path>,
        problems: &mut ConfigProblems,
    ) -> Option<TomlTable> {
        let text = match (posted, root.get(spec::CANDIDATE)) {
            (Some(posted), _) => source(CANDIDATE, posted),
            (None, Some(TomlNode { value: TomlValue::String(file), origin })) => match directory {
                Some(directory) => self.file(&directory.join(file), Some(origin), problems),
                None => {
                    not_in_a_directory(file, origin, problems);
                    return None;
                }
            },
            (None, _) => return None,
        };
        let layer = tree::parse(&text, problems);
        spec::check_layer(&layer, spec::OverlayKind::Candidate, problems);
        let mut candidate = root.clone();
        candidate.overlay(layer, &spec::identity);
        Some(candidate)
    }
}

/// The name in errors of a text that was posted.
const POSTED: &str = "posted rules";

/// The name in errors of a text that was posted as a candidate.
const CANDIDATE: &str = "candidate";

/// Defaults, preset, modules and file, and whether it is worth going on.
fn of_files(source: &Arc<ConfigSource>, main: bool, problems: &mut ConfigProblems) -> (TomlTable, bool) {
    let before = problems.list().len();
    let file = tree::parse(source, problems);
    let mut broken = problems.list().len() > before;
    spec::check(&file, main, problems);

    let mut root = defaults(main, problems);
    if let Some(TomlNode { value: TomlValue::String(name), origin }) = file.get("preset") {
        match preset::find(name) {
            Some(preset) => {
                for preset in preset.layers() {
                    lay(&mut root, preset, SourceKind::Preset, problems);
                }
            }
            None => {
                let names = preset::pipelines().map(|preset| preset.name);
                problems.add(origin, format!("there is no preset `{name}`"), Some(expected(name, names)));
                broken = true;
            }
        }
    }
    if let Some(TomlNode { value: TomlValue::List(modules), .. }) = file.get("modules") {
        for TomlNode { value, origin } in modules {
            let TomlValue::String(name) = value else { continue };
            match preset::module(name) {
                Some(module) => lay(&mut root, module, SourceKind::Module, problems),
                None => {
                    let names = preset::MODULES.iter().map(|module| module.name);
                    let message = format!("there is no module `{name}`");
                    problems.add(origin, message, Some(expected(name, names)));
                    broken = true;
                }
            }
        }
    }
    root.overlay(file, &spec::identity);
    (root, broken)
}

/// Lays a preset, or a module of one, over what there is.
fn lay(root: &mut TomlTable, preset: &Preset, kind: SourceKind, problems: &mut ConfigProblems) {
    let (name, text) = (preset.name.to_owned(), preset.text.to_owned());
    let layer = tree::parse(&Arc::new(ConfigSource { kind, name, text }), problems);
    spec::check(&layer, false, problems);
    root.overlay(layer, &spec::identity);
}

/// Returns the name of a pipeline that is given none: after its preset, and without one after nothing in particular.
fn name_of(root: &TomlTable) -> String {
    match root.get("preset") {
        Some(TomlNode { value: TomlValue::String(preset), .. }) => preset.clone(),
        _ => NAMELESS.to_owned(),
    }
}

const NAMELESS: &str = "main";

fn name_from_preset(root: &mut TomlTable) {
    if root.get("name").is_none() {
        let node = root.get("preset").cloned().unwrap_or_else(|| TomlNode {
            value: TomlValue::String(NAMELESS.to_owned()),
            origin: default_origin("\"main\""),
        });
        let key_origin = node.origin.clone();
        root.entries.insert(0, TomlEntry { key: "name".to_owned(), key_origin, node });
    }
}
