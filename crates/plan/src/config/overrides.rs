//! The uppermost layers: the environment, and above it flags.

use std::collections::HashSet;
use std::sync::Arc;

use super::build_feature::BuildFeature;
use super::problem::{ConfigOrigin, ConfigProblems, ConfigSource, SourceKind, expected, nearest};
use super::spec::{self, SECTIONS, SectionForm, SettingType};
use super::tree::{self, TomlEntry, TomlNode, TomlTable, TomlValue};

/// Values from outside the files, laid over them, and what the program cannot do. They speak of the node and of the main
/// file's pipeline.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// Environment variables; those named `TOLLHOUSE_<SECTION>_<KEY>` after a setting are taken.
    pub environment: Vec<(String, String)>,
    /// `section.key` and value, as given to `--set`.
    pub flags: Vec<(String, String)>,
    /// Parts that the program was built without: settings that need one are refused.
    pub missing: &'static [BuildFeature],
}

/// Environment, then flags, as layers of their own.
pub(super) fn override_layers(
    main: bool,
    overrides: &Overrides,
    problems: &mut ConfigProblems,
) -> Vec<TomlTable> {
    let (mut layers, mut known) = (Vec::new(), HashSet::new());
    if !main {
        return layers;
    }
    for section in
        SECTIONS.iter().filter(|section| matches!(section.form, SectionForm::Top | SectionForm::Table))
    {
        for setting in section.settings {
            let variable = variable(&path_of(section, setting));
            if let Some((_, text)) = overrides.environment.iter().find(|(name, _)| *name == variable) {
                known.insert(variable.clone());
                let source =
                    ConfigSource { kind: SourceKind::Environment, name: variable, text: text.clone() };
                layers.push(override_layer(section, "", setting, source, problems));
            }
        }
    }
    for section in SECTIONS.iter().filter(|section| is_list_of_node(section)) {
        let prefix = format!("TOLLHOUSE_{}_", section.name.to_uppercase());
        for (variable, text) in &overrides.environment {
            let Some(path) = variable.strip_prefix(&prefix).map(str::to_lowercase) else { continue };
            // One key may end like another: the longest is meant.
            let named = |setting: &'static spec::SettingSpec| {
                let name = path.strip_suffix(setting.key)?.strip_suffix('_')?;
                Some((name, setting)).filter(|(name, _)| !name.is_empty())
            };
            let named =
                section.settings.iter().filter_map(named).max_by_key(|(_, setting)| setting.key.len());
            if let Some((name, setting)) = named {
                known.insert(variable.clone());
                let source = ConfigSource {
                    kind: SourceKind::Environment,
                    name: variable.clone(),
                    text: text.clone(),
                };
                layers.push(override_layer(section, name, setting, source, problems));
            }
        }
    }
    let others = overrides.environment.iter().filter(|(name, _)| !known.contains(name));
    for (name, text) in others.filter(|(name, _)| is_meant(name)) {
        let source = ConfigSource { kind: SourceKind::Environment, name: name.clone(), text: text.clone() };
        let origin = ConfigOrigin { range: 0..text.len(), source: Arc::new(source) };
        let variables: Vec<String> = paths().iter().map(|path| variable(path)).collect();
        let near = nearest(name, variables.iter().map(String::as_str));
        let help = near.map_or_else(
            || "variables are called TOLLHOUSE_<SECTION>_<KEY>: see the reference of settings".to_owned(),
            |near| format!("did you mean `{near}`?"),
        );
        problems.add(&origin, format!("there is no setting for the variable `{name}`"), Some(help));
    }
    for (path, text) in &overrides.flags {
        let (section_name, key) = path.rsplit_once('.').unwrap_or(("", path));
        let source =
            ConfigSource { kind: SourceKind::Flag, name: format!("--set {path}"), text: text.clone() };
        let of_table = || {
            let section = spec::section(section_name)?;
            Some((section, "")).filter(|_| matches!(section.form, SectionForm::Top | SectionForm::Table))
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
                let paths = paths();
                let origin = ConfigOrigin { range: 0..text.len(), source: Arc::new(source) };
                let help = expected(path, paths.iter().map(String::as_str));
                problems.add(&origin, format!("there is no setting `{path}`"), Some(help));
            }
        }
    }
    layers
}

/// The name of a setting outside files: `section.key`.
fn path_of(section: &spec::Section, setting: &spec::SettingSpec) -> String {
    [section.name, setting.key].join(".").trim_start_matches('.').to_owned()
}

/// All that are no entries of a list.
fn paths() -> Vec<String> {
    let tables =
        SECTIONS.iter().filter(|section| matches!(section.form, SectionForm::Top | SectionForm::Table));
    tables.flat_map(|section| section.settings.iter().map(move |setting| path_of(section, setting))).collect()
}

/// The environment variable of such a name.
fn variable(path: &str) -> String {
    format!("TOLLHOUSE_{}", path.replace('.', "_").to_uppercase())
}

/// Returns true if a variable can have been meant to be a setting. The program's own are none, and neither are those that
/// Kubernetes and Docker set for a service which is called `tollhouse`.
fn is_meant(name: &str) -> bool {
    const OWN: [&str; 3] = ["CA", "DATA", "TOKEN"];
    let Some(rest) = name.strip_prefix("TOLLHOUSE_") else { return false };
    let is_of_service = rest == "PORT"
        || rest == "NAME"
        || rest == "SERVICE_HOST"
        || rest.starts_with("SERVICE_PORT")
        || rest.starts_with("PORT_")
        || rest.starts_with("ENV_");
    !OWN.contains(&rest) && !is_of_service
}

/// Returns true if entries of a section can be given from outside by their name. Pipelines are what their files say.
fn is_list_of_node(section: &spec::Section) -> bool {
    section.node && matches!(section.form, SectionForm::List(_))
}

/// A layer of one setting; `name` is that of the entry where the section is a list.
fn override_layer(
    section: &spec::Section,
    name: &str,
    setting: &spec::SettingSpec,
    source: ConfigSource,
    problems: &mut ConfigProblems,
) -> TomlTable {
    let text = source.text.clone();
    let origin = ConfigOrigin { range: 0..text.len(), source: Arc::new(source) };
    let bare = matches!(
        setting.shape,
        SettingType::Bool
            | SettingType::Integer(..)
            | SettingType::Float
            | SettingType::List(_)
            | SettingType::Table(_)
    );
    let value = if bare {
        let assignment = ConfigSource {
            kind: SourceKind::Flag,
            name: origin.source.name.clone(),
            text: format!("value = {text}"),
        };
        let table = tree::parse(&Arc::new(assignment), problems);
        table.entries.into_iter().next().map_or(TomlValue::String(text), |entry| entry.node.value)
    } else {
        TomlValue::String(text)
    };
    let wrap = |key: &str, node: TomlNode| TomlTable {
        entries: vec![TomlEntry { key: key.to_owned(), key_origin: origin.clone(), node }],
    };
    let table = wrap(setting.key, TomlNode { value, origin: origin.clone() });
    let layer = match section.form {
        SectionForm::Top => table,
        SectionForm::List(identity) => {
            let node = TomlNode { value: TomlValue::String(name.to_owned()), origin: origin.clone() };
            let mut entry = wrap(identity, node);
            entry.entries.extend(table.entries);
            let entry = TomlNode { value: TomlValue::Table(entry), origin: origin.clone() };
            wrap(section.name, TomlNode { value: TomlValue::List(vec![entry]), origin: origin.clone() })
        }
        _ => wrap(section.name, TomlNode { value: TomlValue::Table(table), origin: origin.clone() }),
    };
    spec::check(&layer, true, problems);
    layer
}
