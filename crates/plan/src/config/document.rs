//! One pipeline's layers, merged: what is said of it, whatever said it.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use catboost::ModelLimits;
use data_encoding::HEXLOWER;
use judge::LookupTable;
use sha2::{Digest, Sha256};

use super::EffectiveValue;
use super::defaults::unsay_defaults;
use super::file_stamps::FileStamps;
use super::formatter;
use super::named_files::{GROK_BYTES_MAX, LIST_BYTES_MAX, NamedFiles};
use super::problem::{ConfigOrigin, ConfigProblems, ConfigSource, source};
use super::spec::{self, SECTIONS, SectionForm, SettingType};
use super::tree::{self, TomlEntry, TomlNode, TomlTable, TomlValue};
use super::version_snapshot::VersionSnapshot;
use super::view::ConfigView;
use crate::CanaryScope;

/// One pipeline's merged layers.
#[derive(Debug)]
pub struct Document {
    pub(super) root: TomlTable,
    /// The start of the file, for what is missing from it.
    pub(super) origin: ConfigOrigin,
    /// True if it is not known what the file extends or reads, or if parts of it could not be read at all.
    pub(super) broken: bool,
    /// The files of sets, by the set's name, of tables, by [`table_key`], of phrases, by [`list_key`], of patterns, by
    /// [`pattern_list_key`], of robots, by [`robot_key`], and of directories of keys, by [`key_directory_key`].
    pub(super) lists: HashMap<String, Arc<ConfigSource>>,
    /// The files of models, by the model's name, and of network databases, by [`table_key`].
    pub(super) models: HashMap<String, Vec<u8>>,
    /// The document with the candidate's rules, whose models are not read again.
    pub(super) candidate: Option<Box<Document>>,
    /// The events for which the candidate decides.
    pub(super) canary: Option<CanaryScope>,
}

impl Document {
    /// Puts a kept version in the place of all that the files say of the pipeline.
    pub(super) fn take(&mut self, kept: &VersionSnapshot, problems: &mut ConfigProblems) {
        let mut flat = tree::parse(&source("kept version", &kept.text), problems);
        unsay_defaults(&mut flat, problems);
        self.root.entries.retain(|entry| spec::section(&entry.key).is_some_and(|section| section.node));
        self.root.entries.extend(flat.entries);
        self.lists = kept.lists.iter().map(|(set, text)| (set.clone(), source(set, text))).collect();
        self.models = kept.models.clone();
    }

    /// Everything that its verdicts depend on, to be kept; [`Document::take`] makes the same of it.
    pub fn keep(&self) -> VersionSnapshot {
        let mut text = String::new();
        let write = |text: &mut String, entries: &[TomlEntry]| {
            for TomlEntry { key, node, .. } in entries {
                *text += &format!("{} = {}\n", tree::toml_key(key), node.value.to_toml());
            }
        };
        let is_top =
            |entry: &&TomlEntry| SECTIONS[0].setting(&entry.key).is_some() && entry.key != spec::CANDIDATE;
        write(&mut text, &self.root.entries.iter().filter(is_top).cloned().collect::<Vec<_>>());
        for section in SECTIONS.iter().filter(|section| !section.node) {
            match section.form {
                SectionForm::Top => {}
                SectionForm::Table | SectionForm::Map => {
                    let Some(view) = self.section(section.name) else { continue };
                    if section.is_nothing_by_default() && !view.is_written() {
                        continue;
                    }
                    text += &format!("\n[{}]\n", section.name);
                    write(&mut text, &view.table.entries);
                }
                SectionForm::List(_) => {
                    for view in self.list(section.name) {
                        text += &format!("\n[[{}]]\n", section.name);
                        write(&mut text, &view.table.entries);
                    }
                }
            }
        }
        let lists = self.lists.iter().map(|(set, source)| (set.clone(), source.text.clone())).collect();
        VersionSnapshot { text, lists, models: self.models.clone() }
    }

    /// Tells apart what files say: 16 hexadecimal digits, whatever is right or wrong about it.
    pub fn fingerprint(&self) -> String {
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
        HEXLOWER.encode(&digest.finalize()[..8])
    }

    /// The candidate that is judged beside it.
    pub fn candidate(&self) -> Option<&Document> {
        self.candidate.as_deref()
    }

    /// The events for which the candidate decides.
    pub(crate) fn canary(&self) -> Option<&CanaryScope> {
        self.canary.as_ref()
    }

    /// Everything that verdicts of the candidate depend on, to be kept as [`Document::keep`] does.
    pub fn keep_candidate(&self) -> Option<VersionSnapshot> {
        let kept = self.candidate.as_ref()?.keep();
        Some(VersionSnapshot { models: self.models.clone(), ..kept })
    }

    /// Reads the files that sets, tables, phrases, patterns and models name.
    pub(super) fn read_files(
        &mut self,
        directory: Option<&Path>,
        files: &mut FileStamps,
        problems: &mut ConfigProblems,
    ) {
        let mut named = NamedFiles::new(directory, files, problems);
        for (section, field, key) in [
            ("set", "file", str::to_owned as fn(&str) -> String),
            ("key_directory", "file", key_directory_key),
            ("key_directory", "authority", key_authority_key),
            ("notification", "authority", notification_authority_key),
            ("forward_auth", "template", template_key),
        ] {
            for view in self.list(section) {
                let (Some(name), Some(file)) = (view.str("name"), view.str(field)) else { continue };
                named.read_text(key(name), file, view.origin(field), LIST_BYTES_MAX);
            }
        }
        for view in self.list("table") {
            let (Some(name), Some(file)) = (view.str("name"), view.str("file")) else { continue };
            let (key, origin, bytes_max) =
                (table_key(name), view.origin("file"), LookupTable::FILE_BYTES_MAX as u64);
            match view.str("format") {
                Some("mmdb") => named.read_bytes(key, file, origin, bytes_max),
                _ => named.read_text(key, file, origin, bytes_max),
            }
        }
        for (section, key) in [("phrases", list_key as fn(&str, &str) -> String), ("robot", robot_key)] {
            for view in self.list(section) {
                let Some(name) = view.str("name") else { continue };
                for (file, origin) in view.strings("files") {
                    named.read_text(key(name, file), file, origin, LIST_BYTES_MAX);
                }
            }
        }
        for (file, origin) in self.section("allow").iter().flat_map(|view| view.strings("files")) {
            named.read_text(allow_key(file), file, origin, LIST_BYTES_MAX);
        }
        for (file, origin) in self.section("log").iter().flat_map(|view| view.strings("grok_files")) {
            named.read_text(grok_key(file), file, origin, GROK_BYTES_MAX);
        }
        if let Some(view) = self.section("oidc")
            && let Some(file) = view.str("authority")
        {
            named.read_text(PROVIDER_AUTHORITY.to_owned(), file, view.origin("authority"), LIST_BYTES_MAX);
        }
        if let Some(view) = self.section("patterns") {
            for name in PATTERN_LISTS {
                let Some(file) = view.str(name) else { continue };
                named.read_text(pattern_list_key(name), file, view.origin(name), LIST_BYTES_MAX);
            }
        }
        for view in self.list("model") {
            let (Some(name), Some(file)) = (view.str("name"), view.str("file")) else { continue };
            named.read_bytes(name.to_owned(), file, view.origin("file"), ModelLimits::FILE_BYTES as u64);
        }
        let NamedFiles { lists, models, .. } = named;
        (self.lists, self.models) = (lists, models);
    }

    /// The content of the file that a model, or a table that is a network database, names.
    pub(crate) fn model_file(&self, model: &str) -> Option<&[u8]> {
        self.models.get(model).map(Vec::as_slice)
    }

    /// The text of a file that a set, a table, phrases or patterns name.
    pub(crate) fn list_file(&self, set: &str) -> Option<&Arc<ConfigSource>> {
        self.lists.get(set)
    }

    /// The pipeline's name.
    pub fn name(&self) -> &str {
        self.top().str("name").unwrap_or_default()
    }

    /// The keys at the top.
    pub(crate) fn top(&self) -> ConfigView<'_> {
        ConfigView { table: &self.root, origin: &self.origin }
    }

    /// A `[section]`.
    pub(crate) fn section(&self, name: &str) -> Option<ConfigView<'_>> {
        match self.root.get(name)? {
            TomlNode { value: TomlValue::Table(table), origin } => Some(ConfigView { table, origin }),
            _ => None,
        }
    }

    /// The entries of a `[[section]]`.
    pub(crate) fn list(&self, name: &str) -> Vec<ConfigView<'_>> {
        let Some(TomlNode { value: TomlValue::List(items), .. }) = self.root.get(name) else {
            return Vec::new();
        };
        let tables = items.iter().filter_map(|item| match &item.value {
            TomlValue::Table(table) => Some(ConfigView { table, origin: &item.origin }),
            _ => None,
        });
        tables.collect()
    }

    /// The whole pipeline as one text in a fixed form, which its version is the hash of. The node's sections
    /// are left out: they change nothing about a verdict. So are the layout of conditions and the order of an entry's
    /// keys.
    pub fn canonical(&self) -> String {
        let mut lines: Vec<(String, String)> = Vec::new();
        let mut entry = (String::new(), 0);
        self.each(false, |section, name, key, node, _| {
            let value = match &node.value {
                TomlValue::String(text) if formatter::is_condition(section.name, key) => {
                    TomlValue::String(judge::canonical(text)).to_toml()
                }
                other => other.to_toml(),
            };
            let of = format!("{}.{name}", section.name);
            if !matches!(section.form, SectionForm::List(_)) || entry.0 != of {
                lines[entry.1..].sort();
                entry = (of, lines.len());
            }
            lines.push((path(section, name, key), value));
        });
        lines[entry.1..].sort();
        let lines = lines.iter().filter(|(path, _)| path != spec::CANDIDATE);
        lines.map(|(path, value)| format!("{path} = {value}\n")).collect()
    }

    pub(super) fn effective(&self, main: bool, values: &mut Vec<EffectiveValue>) {
        self.each(main, |section, name, key, node, shape| {
            let hidden = shape.is_some_and(has_secret);
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
    fn each(
        &self,
        main: bool,
        mut visit: impl FnMut(&spec::Section, &str, &str, &TomlNode, Option<SettingType>),
    ) {
        for section in SECTIONS.iter().filter(|section| main || !section.node) {
            match section.form {
                SectionForm::Top => {
                    for setting in section.settings {
                        if let Some(node) = self.root.get(setting.key) {
                            visit(section, "", setting.key, node, Some(setting.shape));
                        }
                    }
                }
                SectionForm::Table | SectionForm::Map => {
                    let view = self.section(section.name);
                    let view = view.filter(|view| !section.is_nothing_by_default() || view.is_written());
                    for entry in view.iter().flat_map(|view| &view.table.entries) {
                        let shape = section.setting(&entry.key).map(|setting| setting.shape);
                        visit(section, "", &entry.key, &entry.node, shape);
                    }
                }
                SectionForm::List(identity) => {
                    for view in self.list(section.name) {
                        let name = view.str(identity).unwrap_or_default();
                        for entry in view.table.entries.iter().filter(|entry| entry.key != identity) {
                            let shape = section.setting(&entry.key).map(|setting| setting.shape);
                            visit(section, name, &entry.key, &entry.node, shape);
                        }
                    }
                }
            }
        }
    }
}

/// Returns true if a value of the shape has a secret somewhere in it: then none of it is shown.
fn has_secret(shape: SettingType) -> bool {
    match shape {
        SettingType::Secret(_) => true,
        SettingType::List(inner) | SettingType::OneOrMore(inner) => has_secret(*inner),
        SettingType::Table(settings) => settings.iter().any(|setting| has_secret(setting.shape)),
        _ => false,
    }
}

/// `section.key`, for lists `section.NAME.key`.
fn path(section: &spec::Section, name: &str, key: &str) -> String {
    match (section.form, section.name) {
        (SectionForm::Top, _) => key.to_owned(),
        (SectionForm::List(_), section) => format!("{section}.{name}.{key}"),
        (SectionForm::Table | SectionForm::Map, section) => format!("{section}.{key}"),
    }
}

/// The names of the lists of patterns that are looked for in requests.
pub(crate) const PATTERN_LISTS: [&str; 6] =
    ["probes", "exploits", "attacks", "interfaces", "tools", "robots"];

/// The key among a document's lists of a file of patterns.
pub(crate) fn pattern_list_key(name: &str) -> String {
    format!("patterns/{name}")
}

/// The key among a document's lists of the template of a page.
pub(crate) fn template_key(name: &str) -> String {
    format!("templates/{name}")
}

/// The key among a document's lists of the file of a table.
pub(crate) fn table_key(name: &str) -> String {
    format!("tables/{name}")
}

/// The key among a document's lists of a file of a robot's networks.
pub(crate) fn robot_key(robot: &str, file: &str) -> String {
    format!("robots/{robot}/{file}")
}

/// The key among a document's lists of a file of the allow list.
pub(crate) fn allow_key(file: &str) -> String {
    format!("allow/{file}")
}

/// The key among a document's lists of a file of grok patterns.
pub(crate) fn grok_key(file: &str) -> String {
    format!("grok/{file}")
}

/// The key among a document's lists of the file of a directory of keys.
pub(crate) fn key_directory_key(name: &str) -> String {
    format!("keys/{name}")
}

/// The key of the authorities that vouch for the host of a directory of keys.
pub(crate) fn key_authority_key(name: &str) -> String {
    format!("authorities/{name}")
}

/// The key of the authorities that vouch for the host of the identity provider.
pub(crate) const PROVIDER_AUTHORITY: &str = "oidc/authority";

/// The key of the authorities that vouch for the host of a notification.
pub(crate) fn notification_authority_key(name: &str) -> String {
    format!("notifications/{name}")
}

/// The key among a document's lists of a file of phrases.
pub(crate) fn list_key(set: &str, file: &str) -> String {
    format!("phrases/{set}/{file}")
}
