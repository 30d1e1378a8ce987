//! The uppermost layers: the environment, and above it flags.

use std::sync::Arc;

use super::problem::{Origin, Problems, Source, SourceKind, expected};
use super::spec::{self, Form, SECTIONS, Shape};
use super::tree::{self, Entry, Node, Table, Tree};

/// Values from outside the files, laid over them. They speak of the node and of the main file's pipeline.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// Environment variables; those named `TOLLHOUSE_<SECTION>_<KEY>` after a setting are taken.
    pub environment: Vec<(String, String)>,
    /// `section.key` and value, as given to `--set`.
    pub flags: Vec<(String, String)>,
}

/// Environment, then flags, as layers of their own.
pub(super) fn override_layers(main: bool, overrides: &Overrides, problems: &mut Problems) -> Vec<Table> {
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
