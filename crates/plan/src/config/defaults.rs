//! The lowest layer: what holds where nothing is said.

use std::sync::Arc;

use super::problem::{ConfigOrigin, ConfigProblems, ConfigSource, SourceKind};
use super::spec::{self, SECTIONS, SectionForm};
use super::tree::{self, TomlEntry, TomlNode, TomlTable, TomlValue};

pub(super) fn default_origin(text: &str) -> ConfigOrigin {
    let source =
        ConfigSource { kind: SourceKind::Default, name: "default".to_owned(), text: text.to_owned() };
    ConfigOrigin { source: Arc::new(source), range: 0..text.len() }
}

/// A setting's default as a node whose origin says so.
fn default_node(text: &str, problems: &mut ConfigProblems) -> TomlNode {
    let origin = default_origin(text);
    let source = ConfigSource {
        kind: SourceKind::Default,
        name: "default".to_owned(),
        text: format!("value = {text}"),
    };
    let table = tree::parse(&Arc::new(source), problems);
    let value = table.entries.into_iter().next().map_or(TomlValue::Bool(false), |entry| entry.node.value);
    TomlNode { value, origin }
}

/// The lowest layer: every default of a top-level key or a table.
pub(super) fn defaults(main: bool, problems: &mut ConfigProblems) -> TomlTable {
    let mut root = TomlTable::default();
    for section in SECTIONS.iter().filter(|section| main || !section.node) {
        let entries: Vec<TomlEntry> = section
            .settings
            .iter()
            .filter_map(|setting| {
                let node = default_node(setting.default?, problems);
                Some(TomlEntry { key: setting.key.to_owned(), key_origin: node.origin.clone(), node })
            })
            .collect();
        match section.form {
            SectionForm::Top => root.entries.extend(entries),
            SectionForm::Table => {
                let origin = default_origin("");
                let node =
                    TomlNode { value: TomlValue::Table(TomlTable { entries }), origin: origin.clone() };
                root.entries.push(TomlEntry { key: section.name.to_owned(), key_origin: origin, node });
            }
            SectionForm::List(_) | SectionForm::Map => {}
        }
    }
    root
}

/// Makes those settings of tables that say their default nobody's again: a kept version has all that holds, also what
/// nobody has said.
pub(super) fn unsay_defaults(root: &mut TomlTable, problems: &mut ConfigProblems) {
    for entry in &mut root.entries {
        let Some(section) = spec::section(&entry.key).filter(|section| section.form == SectionForm::Table)
        else {
            continue;
        };
        let TomlValue::Table(table) = &mut entry.node.value else { continue };
        for TomlEntry { key, node, .. } in &mut table.entries {
            let Some(text) = section.setting(key).and_then(|setting| setting.default) else { continue };
            let default = default_node(text, problems);
            if default.value.to_toml() == node.value.to_toml() {
                node.origin = default.origin;
            }
        }
    }
}

/// Checks the entries of list sections and gives them their defaults, once all layers are merged.
pub(super) fn complete_entries(root: &mut TomlTable, problems: &mut ConfigProblems) {
    for entry in &mut root.entries {
        let Some(section) = spec::section(&entry.key) else { continue };
        let items = match &mut entry.node.value {
            TomlValue::List(items) => items,
            TomlValue::Table(table) if section.form == SectionForm::Table => {
                spec::check_applies(section, table, problems);
                continue;
            }
            _ => continue,
        };
        for item in items {
            let TomlValue::Table(table) = &mut item.value else { continue };
            spec::check_applies(section, table, problems);
            spec::check_complete(section, table, &item.origin, problems);
            for setting in section.settings {
                if let (Some(text), None) = (setting.default, table.get(setting.key)) {
                    let node = default_node(text, problems);
                    let key_origin = node.origin.clone();
                    table.entries.push(TomlEntry { key: setting.key.to_owned(), key_origin, node });
                }
            }
        }
    }
}
