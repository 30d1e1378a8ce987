//! The lowest layer: what holds where nothing is said.

use std::sync::Arc;

use super::problem::{Origin, Problems, Source, SourceKind};
use super::spec::{self, Form, SECTIONS};
use super::tree::{self, Entry, Node, Table, Tree};

pub(super) fn default_origin(text: &str) -> Origin {
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
pub(super) fn defaults(main: bool, problems: &mut Problems) -> Table {
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
pub(super) fn complete_entries(root: &mut Table, problems: &mut Problems) {
    for entry in &mut root.entries {
        let Some(section) = spec::section(&entry.key) else { continue };
        let items = match &mut entry.node.value {
            Tree::List(items) => items,
            Tree::Table(table) if section.form == Form::Table => {
                spec::check_applies(section, table, problems);
                continue;
            }
            _ => continue,
        };
        for item in items {
            let Tree::Table(table) = &mut item.value else { continue };
            spec::check_applies(section, table, problems);
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
