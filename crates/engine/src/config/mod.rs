//! The configuration: text in layers (defaults, preset, file, environment, flags), merged into one tree in which
//! every value knows its origin. What it means is compiled into a [`crate::Plan`].
//!
//! One language for all: a preset is a file of it without the node's sections, and so is the file of a further
//! pipeline. Reading never stops at the first error: [`Problems`] lists all.

mod layers;
mod layout;
mod problem;
mod spec;
mod tree;

use std::collections::HashMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use event::{Column, Span, Time, Value};
use judge::Constant;
use judge::catboost::Limits;
use sha2::{Digest, Sha256};

pub use layers::Files;
pub(crate) use layers::{Kept, Layer, Layers, Recipe};
use layers::{Main, source};
pub use layout::format;
pub(crate) use problem::expected;
pub use problem::{Origin, Problem, Problems, Source, SourceKind};
pub(crate) use spec::file_mode;
use spec::{Form, SECTIONS, Shape};
use tree::{Entry, Node, Table, Tree};

use crate::plan::phrases::list_key;
use crate::plan::{Input, input_facts};
use crate::preset;

/// Largest configuration file that is read.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// Largest file of a set, or of phrases, that is read.
const LIST_BYTES_MAX: u64 = 64 << 20;

/// Values from outside the files, laid over them. They speak of the node and of the main file's pipeline.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// Environment variables; those named `TOLLHOUSE_<SECTION>_<KEY>` after a setting are taken.
    pub environment: Vec<(String, String)>,
    /// `section.key` and value, as given to `--set`.
    pub flags: Vec<(String, String)>,
}

/// Text that was read: a document for each pipeline, the first of which also holds the node's sections, and what is
/// wrong with it so far. [`crate::Plan::compile`] finds the rest, so that all is shown at once.
#[derive(Debug)]
pub struct Config {
    documents: Vec<Document>,
    problems: Problems,
    /// Compiling would only tell what follows from the problems.
    broken: bool,
    recipe: Arc<Recipe>,
    files: Files,
    /// The files that `[envoy]` names.
    envoy: Vec<Arc<Source>>,
}

/// One pipeline's merged layers.
#[derive(Debug)]
pub struct Document {
    root: Table,
    /// The start of the file, for what is missing from it.
    origin: Origin,
    /// It is not known what the file extends or reads, or parts of it could not be read at all.
    broken: bool,
    /// The files of sets, by the set's name, and of phrases, by [`list_key`].
    lists: HashMap<String, Arc<Source>>,
    /// The files of models, by the model's name.
    models: HashMap<String, Vec<u8>>,
    /// The same with the candidate's rules, whose models are not read again.
    candidate: Option<Box<Document>>,
}

impl Config {
    /// Reads a main file and the pipelines it names.
    pub fn load(path: &Path, overrides: &Overrides) -> Config {
        let recipe = Recipe { main: Main::File(path.to_path_buf()), overrides: overrides.clone() };
        recipe.load(&Layers::default())
    }

    /// Reads a text as the main file; it cannot name further files.
    pub fn from_text(name: &str, text: &str, overrides: &Overrides) -> Config {
        let recipe = Recipe { main: Main::Text(source(name, text)), overrides: overrides.clone() };
        recipe.load(&Layers::default())
    }

    /// A preset by itself, everything else at its default.
    pub fn from_preset(name: &str, overrides: &Overrides) -> Config {
        Config::from_text(
            "--preset",
            &format!("preset = {}\n", Tree::String(name.to_owned()).to_toml()),
            overrides,
        )
    }

    fn assemble(recipe: &Recipe, layers: &Layers) -> Config {
        let mut problems = Problems::default();
        let mut reader = Reader { layers, files: Files::default() };
        let (text, directory) = match &recipe.main {
            Main::File(path) => (reader.file(path, None, &mut problems), path.parent()),
            Main::Text(text) => (Arc::clone(text), None),
        };
        let main = reader.document(&text, true, &recipe.overrides, directory, &mut problems);
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
    pub(crate) fn envoy(&self) -> &[Arc<Source>] {
        &self.envoy
    }

    /// How all is read again.
    pub(crate) fn recipe(&self) -> &Arc<Recipe> {
        &self.recipe
    }

    /// The files that were read.
    pub(crate) fn files(&self) -> &Files {
        &self.files
    }

    /// Other files are to be watched.
    pub(crate) fn watch(&mut self, files: Files) {
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

    /// What is wrong with the text, and whether it is worth compiling all the same.
    pub(crate) fn problems(&self) -> (&Problems, bool) {
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
    /// Where it was said.
    pub origin: String,
}

fn not_in_a_directory(file: &str, origin: &Origin, problems: &mut Problems) {
    let help = Some("this text is not in a directory".into());
    problems.add(origin, format!("`{file}` cannot be found"), help);
}

fn read_bytes(path: &Path, bytes_max: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(bytes_max + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        return Err(std::io::Error::other(format!("larger than {} MiB", bytes_max >> 20)));
    }
    Ok(bytes)
}

fn read(path: &Path, named_at: Option<&Origin>, bytes_max: u64, problems: &mut Problems) -> Arc<Source> {
    let name = path.display().to_string();
    let text = std::fs::metadata(path).and_then(|metadata| {
        if metadata.len() > bytes_max {
            return Err(std::io::Error::other(format!("larger than {} MiB", bytes_max >> 20)));
        }
        std::fs::read_to_string(path)
    });
    let (text, error) = match text {
        Ok(text) => (text, None),
        Err(error) => (String::new(), Some(error)),
    };
    let source = Arc::new(Source { kind: SourceKind::File, name, text });
    if let Some(error) = error {
        let here = Origin { source: Arc::clone(&source), range: 0..0 };
        problems.add(named_at.unwrap_or(&here), format!("cannot read {}: {error}", source.name), None);
    }
    source
}

/// Reads documents.
struct Reader<'a> {
    layers: &'a Layers,
    /// What was read.
    files: Files,
}

impl Reader<'_> {
    fn file(&mut self, path: &Path, named_at: Option<&Origin>, problems: &mut Problems) -> Arc<Source> {
        self.files.add(path);
        read(path, named_at, FILE_BYTES_MAX, problems)
    }

    /// The files that `[envoy]` names: of a folder those that look like YAML, in the order of their names.
    fn envoy(
        &mut self,
        main: &Document,
        directory: Option<&Path>,
        problems: &mut Problems,
    ) -> Vec<Arc<Source>> {
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
    fn document(
        &mut self,
        text: &Arc<Source>,
        main: bool,
        overrides: &Overrides,
        directory: Option<&Path>,
        problems: &mut Problems,
    ) -> Document {
        let before = problems.list().len();
        let (mut root, mut broken) = of_files(text, main, problems);
        let over = override_layers(main, overrides, problems);
        let named = over.iter().rev().chain([&root]).find_map(|layer| match &layer.get("name")?.value {
            Tree::String(name) => Some(name.clone()),
            _ => None,
        });
        let name = named.unwrap_or_else(|| name_of(&root));
        let none = Layer::default();
        let layers = self.layers;
        let Layer { posted, candidate, kept } = layers.of.get(&name).unwrap_or(&none);
        let candidate = self.candidate(&root, candidate.as_deref(), directory, problems);
        if let Some(posted) = posted {
            let layer = tree::parse(&source(POSTED, posted), problems);
            spec::check_layer(&layer, spec::Layer::Posted, problems);
            root.overlay(layer, &spec::identity);
        }
        let complete = |root: &mut Table, problems: &mut Problems| {
            over.iter().for_each(|layer| root.overlay(layer.clone(), &spec::identity));
            complete_entries(root, problems);
            name_from_preset(root);
        };
        complete(&mut root, problems);
        let origin = Origin { source: Arc::clone(text), range: 0..0 };
        let mut document = Document {
            root,
            origin,
            broken: false,
            lists: HashMap::new(),
            models: HashMap::new(),
            candidate: None,
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
            }));
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
        root: &Table,
        posted: Option<&str>,
        directory: Option<&Path>,
        problems: &mut Problems,
    ) -> Option<Table> {
        let text = match (posted, root.get(spec::CANDIDATE)) {
            (Some(posted), _) => source(CANDIDATE, posted),
            (None, Some(Node { value: Tree::String(file), origin })) => match directory {
                Some(directory) => self.file(&directory.join(file), Some(origin), problems),
                None => {
                    not_in_a_directory(file, origin, problems);
                    return None;
                }
            },
            (None, _) => return None,
        };
        let layer = tree::parse(&text, problems);
        spec::check_layer(&layer, spec::Layer::Candidate, problems);
        let mut candidate = root.clone();
        candidate.overlay(layer, &spec::identity);
        Some(candidate)
    }
}

/// What errors call a text that was posted.
const POSTED: &str = "posted rules";
/// What they call one that was posted as a candidate.
const CANDIDATE: &str = "candidate";

/// Defaults, preset and file, and whether it is worth going on.
fn of_files(source: &Arc<Source>, main: bool, problems: &mut Problems) -> (Table, bool) {
    let before = problems.list().len();
    let file = tree::parse(source, problems);
    let mut broken = problems.list().len() > before;
    spec::check(&file, main, problems);

    let mut root = defaults(main, problems);
    if let Some(Node { value: Tree::String(name), origin }) = file.get("preset") {
        match preset::find(name) {
            Some(preset) => {
                for preset in preset.layers() {
                    let (name, text) = (preset.name.to_owned(), preset.text.to_owned());
                    let source = Arc::new(Source { kind: SourceKind::Preset, name, text });
                    let layer = tree::parse(&source, problems);
                    spec::check(&layer, false, problems);
                    root.overlay(layer, &spec::identity);
                }
            }
            None => {
                let names = preset::ALL.iter().map(|preset| preset.name);
                problems.add(origin, format!("there is no preset `{name}`"), Some(expected(name, names)));
                broken = true;
            }
        }
    }
    root.overlay(file, &spec::identity);
    (root, broken)
}

/// What a pipeline without a name is called: after its preset, and without one after nothing in particular.
fn name_of(root: &Table) -> String {
    match root.get("preset") {
        Some(Node { value: Tree::String(preset), .. }) => preset.clone(),
        _ => NAMELESS.to_owned(),
    }
}

const NAMELESS: &str = "main";

fn name_from_preset(root: &mut Table) {
    if root.get("name").is_none() {
        let node = root.get("preset").cloned().unwrap_or_else(|| Node {
            value: Tree::String(NAMELESS.to_owned()),
            origin: default_origin("\"main\""),
        });
        let key_origin = node.origin.clone();
        root.entries.insert(0, Entry { key: "name".to_owned(), key_origin, node });
    }
}

impl Document {
    /// Puts a kept version in the place of all that the files say of the pipeline.
    fn take(&mut self, kept: &Kept, problems: &mut Problems) {
        let flat = tree::parse(&source("kept version", &kept.text), problems);
        self.root.entries.retain(|entry| spec::section(&entry.key).is_some_and(|section| section.node));
        self.root.entries.extend(flat.entries);
        self.lists = kept.lists.iter().map(|(set, text)| (set.clone(), source(set, text))).collect();
        self.models = kept.models.clone();
    }

    /// Everything that its verdicts depend on, to be kept; [`Document::take`] makes the same of it.
    pub(crate) fn keep(&self) -> Kept {
        let mut text = String::new();
        let write = |text: &mut String, entries: &[Entry]| {
            for Entry { key, node, .. } in entries {
                *text += &format!("{} = {}\n", tree::toml_key(key), node.value.to_toml());
            }
        };
        let is_top =
            |entry: &&Entry| SECTIONS[0].setting(&entry.key).is_some() && entry.key != spec::CANDIDATE;
        write(&mut text, &self.root.entries.iter().filter(is_top).cloned().collect::<Vec<_>>());
        for section in SECTIONS.iter().filter(|section| !section.node) {
            match section.form {
                Form::Top => {}
                Form::Table | Form::Map => {
                    let Some(view) = self.section(section.name) else { continue };
                    text += &format!("\n[{}]\n", section.name);
                    write(&mut text, &view.table.entries);
                }
                Form::List(_) => {
                    for view in self.list(section.name) {
                        text += &format!("\n[[{}]]\n", section.name);
                        write(&mut text, &view.table.entries);
                    }
                }
            }
        }
        let lists = self.lists.iter().map(|(set, source)| (set.clone(), source.text.clone())).collect();
        Kept { text, lists, models: self.models.clone() }
    }

    /// Tells apart what files say: 16 hexadecimal digits, whatever is right or wrong about it.
    pub(crate) fn fingerprint(&self) -> String {
        let mut digest = Sha256::new_with_prefix(self.canonical());
        let mut parts: Vec<(&str, &[u8])> =
            self.lists.iter().map(|(name, source)| (name.as_str(), source.text.as_bytes())).collect();
        parts.extend(self.models.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice())));
        parts.sort_unstable();
        for (name, bytes) in parts {
            digest.update((name.len() as u64).to_le_bytes());
            digest.update(name);
            digest.update((bytes.len() as u64).to_le_bytes());
            digest.update(bytes);
        }
        digest.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
    }

    /// The candidate that is judged beside it.
    pub(crate) fn candidate(&self) -> Option<&Document> {
        self.candidate.as_deref()
    }

    /// Reads the files that sets, phrases and models name.
    fn read_files(&mut self, directory: Option<&Path>, files: &mut Files, problems: &mut Problems) {
        let (mut lists, mut models) = (HashMap::new(), HashMap::new());
        for view in self.list("set") {
            let (Some(name), Some(file)) = (view.str("name"), view.str("file")) else { continue };
            let origin = view.origin("file");
            match directory {
                Some(directory) => {
                    let path = directory.join(file);
                    files.add(&path);
                    lists.insert(name.to_owned(), read(&path, Some(origin), LIST_BYTES_MAX, problems));
                }
                None => not_in_a_directory(file, origin, problems),
            }
        }
        for view in self.list("phrases") {
            let Some(name) = view.str("name") else { continue };
            for (file, origin) in view.strings("files") {
                let Some(directory) = directory else {
                    not_in_a_directory(file, origin, problems);
                    continue;
                };
                let path = directory.join(file);
                files.add(&path);
                lists.insert(list_key(name, file), read(&path, Some(origin), LIST_BYTES_MAX, problems));
            }
        }
        for view in self.list("model") {
            let (Some(name), Some(file)) = (view.str("name"), view.str("file")) else { continue };
            let origin = view.origin("file");
            let Some(directory) = directory else {
                not_in_a_directory(file, origin, problems);
                continue;
            };
            let path = directory.join(file);
            files.add(&path);
            match read_bytes(&path, Limits::FILE_BYTES as u64) {
                Ok(bytes) => {
                    models.insert(name.to_owned(), bytes);
                }
                Err(error) => {
                    problems.add(origin, format!("cannot read {}: {error}", path.display()), None);
                }
            }
        }
        (self.lists, self.models) = (lists, models);
    }

    /// The content of the file that a model names.
    pub(crate) fn model_file(&self, model: &str) -> Option<&[u8]> {
        self.models.get(model).map(Vec::as_slice)
    }

    /// The text of a file that a set or phrases name.
    pub(crate) fn list_file(&self, set: &str) -> Option<&Arc<Source>> {
        self.lists.get(set)
    }

    /// The pipeline's name.
    pub fn name(&self) -> &str {
        self.top().str("name").unwrap_or_default()
    }

    /// The keys at the top.
    pub(crate) fn top(&self) -> View<'_> {
        View { table: &self.root, origin: &self.origin }
    }

    /// A `[section]`.
    pub(crate) fn section(&self, name: &str) -> Option<View<'_>> {
        match self.root.get(name)? {
            Node { value: Tree::Table(table), origin } => Some(View { table, origin }),
            _ => None,
        }
    }

    /// The entries of a `[[section]]`.
    pub(crate) fn list(&self, name: &str) -> Vec<View<'_>> {
        let Some(Node { value: Tree::List(items), .. }) = self.root.get(name) else { return Vec::new() };
        let tables = items.iter().filter_map(|item| match &item.value {
            Tree::Table(table) => Some(View { table, origin: &item.origin }),
            _ => None,
        });
        tables.collect()
    }

    /// The whole pipeline as one text in a fixed form, which its version is the hash of. The node's sections
    /// are left out: they change nothing about a verdict. So are the layout of conditions and the order of an entry's
    /// keys.
    pub(crate) fn canonical(&self) -> String {
        let mut lines: Vec<(String, String)> = Vec::new();
        let mut entry = (String::new(), 0);
        self.each(false, |section, name, key, node, _| {
            let value = match &node.value {
                Tree::String(text) if layout::is_condition(section.name, key) => {
                    Tree::String(judge::canonical(text)).to_toml()
                }
                other => other.to_toml(),
            };
            let of = format!("{}.{name}", section.name);
            if !matches!(section.form, Form::List(_)) || entry.0 != of {
                lines[entry.1..].sort();
                entry = (of, lines.len());
            }
            lines.push((path(section, name, key), value));
        });
        lines[entry.1..].sort();
        let lines = lines.iter().filter(|(path, _)| path != spec::CANDIDATE);
        lines.map(|(path, value)| format!("{path} = {value}\n")).collect()
    }

    fn effective(&self, main: bool, values: &mut Vec<EffectiveValue>) {
        self.each(main, |section, name, key, node, shape| {
            let hidden = matches!(shape, Some(Shape::Secret(_) | Shape::List(Shape::Secret(_))));
            let value = if hidden { "\"***\"".to_owned() } else { node.value.to_toml() };
            values.push(EffectiveValue {
                scope: if section.node { "node" } else { self.name() }.to_owned(),
                path: path(section, name, key),
                value,
                origin: node.origin.to_string(),
            });
        });
    }

    /// Visits every value with its section, the name of the entry of a list, and its key.
    fn each(&self, main: bool, mut visit: impl FnMut(&spec::Section, &str, &str, &Node, Option<Shape>)) {
        for section in SECTIONS.iter().filter(|section| main || !section.node) {
            match section.form {
                Form::Top => {
                    for setting in section.settings {
                        if let Some(node) = self.root.get(setting.key) {
                            visit(section, "", setting.key, node, Some(setting.shape));
                        }
                    }
                }
                Form::Table | Form::Map => {
                    for entry in self.section(section.name).iter().flat_map(|view| &view.table.entries) {
                        let shape = section.setting(&entry.key).map(|setting| setting.shape);
                        visit(section, "", &entry.key, &entry.node, shape);
                    }
                }
                Form::List(identity) => {
                    for view in self.list(section.name) {
                        let name = view.str(identity).unwrap_or_default();
                        for entry in view.table.entries.iter().filter(|entry| entry.key != identity) {
                            visit(section, name, &entry.key, &entry.node, None);
                        }
                    }
                }
            }
        }
    }
}

/// `section.key`, for lists `section.NAME.key`.
fn path(section: &spec::Section, name: &str, key: &str) -> String {
    match (section.form, section.name) {
        (Form::Top, _) => key.to_owned(),
        (Form::List(_), section) => format!("{section}.{name}.{key}"),
        (Form::Table | Form::Map, section) => format!("{section}.{key}"),
    }
}

fn default_origin(text: &str) -> Origin {
    let source = Source { kind: SourceKind::Default, name: "default".to_owned(), text: text.to_owned() };
    Origin { source: Arc::new(source), range: 0..text.len() }
}

/// A setting's default as a node whose origin says so.
fn default_node(text: &str, problems: &mut Problems) -> Node {
    let origin = default_origin(text);
    let source =
        Source { kind: SourceKind::Default, name: "default".to_owned(), text: format!("value = {text}") };
    let table = tree::parse(&Arc::new(source), problems);
    let value = table.entries.into_iter().next().map_or(Tree::Bool(false), |entry| entry.node.value);
    Node { value, origin }
}

/// The lowest layer: every default of a top-level key or a table.
fn defaults(main: bool, problems: &mut Problems) -> Table {
    let mut root = Table::default();
    for section in SECTIONS.iter().filter(|section| main || !section.node) {
        let entries: Vec<Entry> = section
            .settings
            .iter()
            .filter_map(|setting| {
                let node = default_node(setting.default?, problems);
                Some(Entry { key: setting.key.to_owned(), key_origin: node.origin.clone(), node })
            })
            .collect();
        match section.form {
            Form::Top => root.entries.extend(entries),
            Form::Table => {
                let origin = default_origin("");
                let node = Node { value: Tree::Table(Table { entries }), origin: origin.clone() };
                root.entries.push(Entry { key: section.name.to_owned(), key_origin: origin, node });
            }
            Form::List(_) | Form::Map => {}
        }
    }
    root
}

/// Checks the entries of list sections and gives them their defaults, once all layers are merged.
fn complete_entries(root: &mut Table, problems: &mut Problems) {
    for entry in &mut root.entries {
        let (Some(section), Tree::List(items)) = (spec::section(&entry.key), &mut entry.node.value) else {
            continue;
        };
        for item in items {
            let Tree::Table(table) = &mut item.value else { continue };
            spec::check_complete(section, table, &item.origin, problems);
            for setting in section.settings {
                if let (Some(text), None) = (setting.default, table.get(setting.key)) {
                    let node = default_node(text, problems);
                    let key_origin = node.origin.clone();
                    table.entries.push(Entry { key: setting.key.to_owned(), key_origin, node });
                }
            }
        }
    }
}

/// Environment, then flags, as layers of their own.
fn override_layers(main: bool, overrides: &Overrides, problems: &mut Problems) -> Vec<Table> {
    let mut layers = Vec::new();
    if !main {
        return layers;
    }
    for section in SECTIONS.iter().filter(|section| matches!(section.form, Form::Top | Form::Table)) {
        for setting in section.settings {
            let path = [section.name, setting.key].join("_");
            let variable = format!("TOLLHOUSE_{}", path.trim_start_matches('_').to_uppercase());
            if let Some((_, text)) = overrides.environment.iter().find(|(name, _)| *name == variable) {
                let source = Source { kind: SourceKind::Environment, name: variable, text: text.clone() };
                layers.push(override_layer(section, "", setting, source, problems));
            }
        }
    }
    for section in SECTIONS.iter().filter(|section| is_list_of_node(section)) {
        let prefix = format!("TOLLHOUSE_{}_", section.name.to_uppercase());
        for (variable, text) in &overrides.environment {
            let Some(path) = variable.strip_prefix(&prefix).map(str::to_lowercase) else { continue };
            // One key may end like another: the longest is meant.
            let named = |setting: &'static spec::Setting| {
                let name = path.strip_suffix(setting.key)?.strip_suffix('_')?;
                Some((name, setting)).filter(|(name, _)| !name.is_empty())
            };
            let named =
                section.settings.iter().filter_map(named).max_by_key(|(_, setting)| setting.key.len());
            if let Some((name, setting)) = named {
                let source =
                    Source { kind: SourceKind::Environment, name: variable.clone(), text: text.clone() };
                layers.push(override_layer(section, name, setting, source, problems));
            }
        }
    }
    for (path, text) in &overrides.flags {
        let (section_name, key) = path.rsplit_once('.').unwrap_or(("", path));
        let source = Source { kind: SourceKind::Flag, name: format!("--set {path}"), text: text.clone() };
        let of_table = || {
            let section = spec::section(section_name)?;
            Some((section, "")).filter(|_| matches!(section.form, Form::Top | Form::Table))
        };
        let of_list = || {
            let (section, name) = section_name.split_once('.')?;
            Some((spec::section(section).filter(|section| is_list_of_node(section))?, name))
        };
        let section = of_table().or_else(of_list);
        match section.and_then(|(section, name)| Some((section, name, section.setting(key)?))) {
            Some((section, name, setting)) => {
                layers.push(override_layer(section, name, setting, source, problems));
            }
            None => {
                let paths: Vec<String> = SECTIONS
                    .iter()
                    .filter(|section| matches!(section.form, Form::Top | Form::Table))
                    .flat_map(|section| section.settings.iter().map(|setting| (section.name, setting.key)))
                    .map(|(section, key)| [section, key].join(".").trim_start_matches('.').to_owned())
                    .collect();
                let origin = Origin { range: 0..text.len(), source: Arc::new(source) };
                let help = expected(path, paths.iter().map(String::as_str));
                problems.add(&origin, format!("there is no setting `{path}`"), Some(help));
            }
        }
    }
    layers
}

/// Whether entries of a section can be given from outside by their name. Pipelines are what their files say.
fn is_list_of_node(section: &spec::Section) -> bool {
    section.node && matches!(section.form, Form::List(_))
}

/// A layer of one setting; `name` is that of the entry where the section is a list.
fn override_layer(
    section: &spec::Section,
    name: &str,
    setting: &spec::Setting,
    source: Source,
    problems: &mut Problems,
) -> Table {
    let text = source.text.clone();
    let origin = Origin { range: 0..text.len(), source: Arc::new(source) };
    let bare = matches!(
        setting.shape,
        Shape::Bool | Shape::Integer(..) | Shape::Float | Shape::List(_) | Shape::Table(_)
    );
    let value = if bare {
        let assignment = Source {
            kind: SourceKind::Flag,
            name: origin.source.name.clone(),
            text: format!("value = {text}"),
        };
        let table = tree::parse(&Arc::new(assignment), problems);
        table.entries.into_iter().next().map_or(Tree::String(text), |entry| entry.node.value)
    } else {
        Tree::String(text)
    };
    let wrap = |key: &str, node: Node| Table {
        entries: vec![Entry { key: key.to_owned(), key_origin: origin.clone(), node }],
    };
    let table = wrap(setting.key, Node { value, origin: origin.clone() });
    let layer = match section.form {
        Form::Top => table,
        Form::List(identity) => {
            let node = Node { value: Tree::String(name.to_owned()), origin: origin.clone() };
            let mut entry = wrap(identity, node);
            entry.entries.extend(table.entries);
            let entry = Node { value: Tree::Table(entry), origin: origin.clone() };
            wrap(section.name, Node { value: Tree::List(vec![entry]), origin: origin.clone() })
        }
        _ => wrap(section.name, Node { value: Tree::Table(table), origin: origin.clone() }),
    };
    spec::check(&layer, true, problems);
    layer
}

/// A table's values by key, typed. A value that failed its check is as good as absent: its problem is recorded.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    table: &'a Table,
    origin: &'a Origin,
}

impl<'a> View<'a> {
    /// Where a key's value stands, or the table if it is absent.
    pub(crate) fn origin(&self, key: &str) -> &'a Origin {
        self.table.get(key).map_or(self.origin, |node| &node.origin)
    }

    /// Whether somebody has given it, not only a default.
    pub(crate) fn is_given(&self, key: &str) -> bool {
        self.table.get(key).is_some_and(|node| node.origin.source.kind != SourceKind::Default)
    }

    /// The table that a key's value is.
    pub(crate) fn table(&self, key: &str) -> Option<View<'a>> {
        match self.table.get(key)? {
            Node { value: Tree::Table(table), origin } => Some(View { table, origin }),
            _ => None,
        }
    }

    pub(crate) fn str(&self, key: &str) -> Option<&'a str> {
        match &self.table.get(key)?.value {
            Tree::String(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn integer(&self, key: &str) -> Option<i64> {
        match self.table.get(key)?.value {
            Tree::Integer(number) => Some(number),
            _ => None,
        }
    }

    pub(crate) fn float(&self, key: &str) -> Option<f64> {
        match self.table.get(key)?.value {
            Tree::Float(number) => Some(number),
            Tree::Integer(number) => Some(number as f64),
            _ => None,
        }
    }

    pub(crate) fn span(&self, key: &str) -> Option<Span> {
        self.str(key)?.parse().ok()
    }

    pub(crate) fn size(&self, key: &str) -> Option<u64> {
        spec::parse_size(self.str(key)?)
    }

    /// The strings of a list, each with its place.
    pub(crate) fn strings(&self, key: &str) -> Vec<(&'a str, &'a Origin)> {
        self.table.get(key).map(strings).unwrap_or_default()
    }

    /// The tables of a list.
    pub(crate) fn tables(&self, key: &str) -> Vec<View<'a>> {
        let Some(Node { value: Tree::List(items), .. }) = self.table.get(key) else { return Vec::new() };
        let tables = items.iter().filter_map(|item| match &item.value {
            Tree::Table(table) => Some(View { table, origin: &item.origin }),
            _ => None,
        });
        tables.collect()
    }

    pub(crate) fn bool(&self, key: &str) -> Option<bool> {
        match self.table.get(key)?.value {
            Tree::Bool(truth) => Some(truth),
            _ => None,
        }
    }

    pub(crate) fn time(&self, key: &str) -> Option<Time> {
        spec::time(&self.table.get(key)?.value)
    }

    /// The entries of a set, each with its place.
    pub(crate) fn entries(&self, key: &str) -> Vec<(String, &'a Origin)> {
        let Some(Node { value: Tree::List(items), .. }) = self.table.get(key) else { return Vec::new() };
        let entries = items.iter().filter_map(|item| match &item.value {
            Tree::String(text) => Some((text.clone(), &item.origin)),
            Tree::Integer(integer) => Some((integer.to_string(), &item.origin)),
            _ => None,
        });
        entries.collect()
    }

    /// The keys of a map section with their places, and their values as texts.
    pub(crate) fn texts(&self) -> impl Iterator<Item = (&'a str, &'a Origin, &'a str, &'a Origin)> {
        self.table.entries.iter().filter_map(|entry| match &entry.node.value {
            Tree::String(text) => {
                Some((entry.key.as_str(), &entry.key_origin, text.as_str(), &entry.node.origin))
            }
            _ => None,
        })
    }

    /// The keys of a map section with their places, and their values as constants.
    pub(crate) fn constants(&self) -> impl Iterator<Item = (&'a str, &'a Origin, Constant)> {
        let entries = self.table.entries.iter();
        entries
            .filter_map(|entry| Some((entry.key.as_str(), &entry.key_origin, constant(&entry.node.value)?)))
    }

    /// The keys of a table, and their values as those of facts.
    pub(crate) fn facts(&self) -> Vec<(String, Value)> {
        let entries = self.table.entries.iter();
        entries.filter_map(|entry| Some((entry.key.clone(), spec::fact_value(&entry.node.value)?))).collect()
    }

    /// The entries of a map section: key, its place, and the strings of its list.
    pub(crate) fn map(&self) -> impl Iterator<Item = (&'a str, &'a Origin, Vec<(&'a str, &'a Origin)>)> {
        self.table.entries.iter().map(|entry| (entry.key.as_str(), &entry.key_origin, strings(&entry.node)))
    }
}

fn constant(value: &Tree) -> Option<Constant> {
    Some(match value {
        Tree::String(text) => Constant::String(text.clone()),
        Tree::Integer(integer) => Constant::Integer(*integer),
        Tree::Float(float) => Constant::Float(*float),
        Tree::Bool(truth) => Constant::Bool(*truth),
        Tree::List(items) => {
            Constant::List(items.iter().map(|item| constant(&item.value)).collect::<Option<_>>()?)
        }
        Tree::Date(_) | Tree::Table(_) => return None,
    })
}

fn strings(node: &Node) -> Vec<(&str, &Origin)> {
    let Tree::List(items) = &node.value else { return Vec::new() };
    let strings = items.iter().filter_map(|item| match &item.value {
        Tree::String(text) => Some((text.as_str(), &item.origin)),
        _ => None,
    });
    strings.collect()
}

/// The reference of every section, key and fact in Markdown: `docs/reference.md` is this text.
pub fn reference() -> String {
    let mut text = String::from(
        "# Configuration reference\n\nGenerated from the lists of settings and facts that the program itself reads; a test holds it to that.\n\
         A setting of a table can also be given as the environment variable `TOLLHOUSE_<SECTION>_<KEY>` or as\n\
         `--set section.key=value`, one of an entry of `[[listener]]` as `TOLLHOUSE_LISTENER_<NAME>_<KEY>` (for names in lower\n\
         case without `-` and `.`) or `--set listener.name.key=value`; flags override the environment, that the file, that the preset, that the default.\n",
    );
    for section in SECTIONS {
        text += &format!(
            "\n## {}\n\n{}",
            if section.name.is_empty() {
                "Top of the file".into()
            } else {
                format!("`{}`", section.heading())
            },
            section.doc
        );
        if section.node {
            text += " Main file only.";
        }
        text += "\n\n| key | value | default | meaning |\n|---|---|---|---|\n";
        for setting in section.settings {
            text += &row(setting, "", setting.required && section.form != Form::Map);
            let inner = match setting.shape {
                Shape::Table(inner) | Shape::List(&Shape::Table(inner)) => inner,
                _ => &[],
            };
            inner.iter().for_each(|one| text += &row(one, &format!("{}.", setting.key), one.required));
        }
    }
    for input in Input::ALL {
        text += &format!("\n## Facts of `input = \"{}\"`\n\n", input.name());
        text += "What rules and kinds can name, beside the fields that the pipeline declares.\n\n";
        text += "| fact | type | meaning |\n|---|---|---|\n";
        for Column { name, kind, doc, journalled } in input_facts(input).columns() {
            let kept = if *journalled { "" } else { ". Not journalled" };
            text += &format!("| `{name}` | {kind} | {doc}{kept} |\n");
        }
    }
    text
}

/// A setting's line in the reference.
fn row(setting: &spec::Setting, within: &str, required: bool) -> String {
    let default = match (setting.default, required) {
        (Some(default), _) => format!("`{default}`"),
        (None, true) => "required".to_owned(),
        (None, false) => String::new(),
    };
    format!("| `{within}{}` | {} | {default} | {} |\n", setting.key, shape_doc(&setting.shape), setting.doc)
}

fn shape_doc(shape: &Shape) -> String {
    match shape {
        Shape::Text => "string".into(),
        Shape::Name => "name".into(),
        Shape::Secret(1) => "string".into(),
        Shape::Secret(least) => format!("string of at least {least} bytes"),
        Shape::Choice(words) => words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", "),
        Shape::Integer(min, max) => format!("integer, {min} to {max}"),
        Shape::Float => "number".into(),
        Shape::Span => "length of time".into(),
        Shape::Durability => "`sync`, `none`, length of time".into(),
        Shape::Interval => "`off`, length of time".into(),
        Shape::Size(max) => format!("size such as `64MiB`, up to {}", spec::print_size(*max)),
        Shape::Socket => "address and port".into(),
        Shape::Endpoint => "address and port, or `unix:PATH`".into(),
        Shape::FileMode => "octal digits".into(),
        Shape::Network => "address or network".into(),
        Shape::Sightings => {
            format!("integer, {} to {}", stats::Admit::AFTER.start(), stats::Admit::AFTER.end())
        }
        Shape::List(inner) => format!("list of: {}", shape_doc(inner)),
        Shape::Table(_) => "table".into(),
        Shape::Bool => "`true` or `false`".into(),
        Shape::Time => "time".into(),
        Shape::Entry => "string or integer".into(),
        Shape::Constant => "any value, or a list".into(),
        Shape::Facts => "table".into(),
    }
}
