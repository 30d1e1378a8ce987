//! View of a merged configuration, by key.

use event::{Span, Time, Value};
use judge::Constant;

use super::problem::{ConfigOrigin, SourceKind};
use super::spec;
use super::tree::{TomlNode, TomlTable, TomlValue};

/// A table's values by key, typed. A value that failed its check is as good as absent: its problem is recorded.
#[derive(Clone, Copy)]
pub(crate) struct ConfigView<'a> {
    pub(super) table: &'a TomlTable,
    pub(super) origin: &'a ConfigOrigin,
}

impl<'a> ConfigView<'a> {
    /// The place of a key's value, or of the table if the key is absent.
    pub(crate) fn origin(&self, key: &str) -> &'a ConfigOrigin {
        self.table.get(key).map_or(self.origin, |node| &node.origin)
    }

    /// Returns true if somebody has given the key, not only a default.
    pub(crate) fn is_given(&self, key: &str) -> bool {
        self.table.get(key).is_some_and(|node| node.origin.source.kind != SourceKind::Default)
    }

    /// Returns true if somebody has written the table, with or without keys.
    pub(crate) fn is_written(&self) -> bool {
        self.first_origin().source.kind != SourceKind::Default
    }

    /// The place of the first key that is given, or of the table if there is none.
    pub(crate) fn first_origin(&self) -> &'a ConfigOrigin {
        let mut origins = self.table.entries.iter().map(|entry| &entry.key_origin);
        origins.find(|origin| origin.source.kind != SourceKind::Default).unwrap_or(self.origin)
    }

    /// The table that a key's value is.
    pub(crate) fn table(&self, key: &str) -> Option<ConfigView<'a>> {
        match self.table.get(key)? {
            TomlNode { value: TomlValue::Table(table), origin } => Some(ConfigView { table, origin }),
            _ => None,
        }
    }

    pub(crate) fn str(&self, key: &str) -> Option<&'a str> {
        match &self.table.get(key)?.value {
            TomlValue::String(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn integer(&self, key: &str) -> Option<i64> {
        match self.table.get(key)?.value {
            TomlValue::Integer(number) => Some(number),
            _ => None,
        }
    }

    pub(crate) fn float(&self, key: &str) -> Option<f64> {
        match self.table.get(key)?.value {
            TomlValue::Float(number) => Some(number),
            TomlValue::Integer(number) => Some(number as f64),
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
    pub(crate) fn strings(&self, key: &str) -> Vec<(&'a str, &'a ConfigOrigin)> {
        self.table.get(key).map(strings).unwrap_or_default()
    }

    /// The string that a value is, or those of a list, each with its place.
    pub(crate) fn one_or_more(&self, key: &str) -> Vec<(&'a str, &'a ConfigOrigin)> {
        match self.table.get(key) {
            Some(TomlNode { value: TomlValue::String(text), origin }) => vec![(text, origin)],
            Some(node) => strings(node),
            None => Vec::new(),
        }
    }

    /// The tables of a list.
    pub(crate) fn tables(&self, key: &str) -> Vec<ConfigView<'a>> {
        let Some(TomlNode { value: TomlValue::List(items), .. }) = self.table.get(key) else {
            return Vec::new();
        };
        let tables = items.iter().filter_map(|item| match &item.value {
            TomlValue::Table(table) => Some(ConfigView { table, origin: &item.origin }),
            _ => None,
        });
        tables.collect()
    }

    pub(crate) fn bool(&self, key: &str) -> Option<bool> {
        match self.table.get(key)?.value {
            TomlValue::Bool(truth) => Some(truth),
            _ => None,
        }
    }

    pub(crate) fn time(&self, key: &str) -> Option<Time> {
        spec::time(&self.table.get(key)?.value)
    }

    /// The entries of a set, each with its place.
    pub(crate) fn entries(&self, key: &str) -> Vec<(String, &'a ConfigOrigin)> {
        let Some(TomlNode { value: TomlValue::List(items), .. }) = self.table.get(key) else {
            return Vec::new();
        };
        let entries = items.iter().filter_map(|item| match &item.value {
            TomlValue::String(text) => Some((text.clone(), &item.origin)),
            TomlValue::Integer(integer) => Some((integer.to_string(), &item.origin)),
            _ => None,
        });
        entries.collect()
    }

    /// The keys of a map section with their places, and their values as texts.
    pub(crate) fn texts(
        &self,
    ) -> impl Iterator<Item = (&'a str, &'a ConfigOrigin, &'a str, &'a ConfigOrigin)> {
        self.table.entries.iter().filter_map(|entry| match &entry.node.value {
            TomlValue::String(text) => {
                Some((entry.key.as_str(), &entry.key_origin, text.as_str(), &entry.node.origin))
            }
            _ => None,
        })
    }

    /// The keys of a map section with their places, and their values as constants.
    pub(crate) fn constants(&self) -> impl Iterator<Item = (&'a str, &'a ConfigOrigin, Constant)> {
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
    pub(crate) fn map(
        &self,
    ) -> impl Iterator<Item = (&'a str, &'a ConfigOrigin, Vec<(&'a str, &'a ConfigOrigin)>)> {
        self.table.entries.iter().map(|entry| (entry.key.as_str(), &entry.key_origin, strings(&entry.node)))
    }
}

fn constant(value: &TomlValue) -> Option<Constant> {
    Some(match value {
        TomlValue::String(text) => Constant::String(text.clone()),
        TomlValue::Integer(integer) => Constant::Integer(*integer),
        TomlValue::Float(float) => Constant::Float(*float),
        TomlValue::Bool(truth) => Constant::Bool(*truth),
        TomlValue::List(items) => {
            Constant::List(items.iter().map(|item| constant(&item.value)).collect::<Option<_>>()?)
        }
        TomlValue::Date(_) | TomlValue::Table(_) => return None,
    })
}

fn strings(node: &TomlNode) -> Vec<(&str, &ConfigOrigin)> {
    let TomlValue::List(items) = &node.value else { return Vec::new() };
    let strings = items.iter().filter_map(|item| match &item.value {
        TomlValue::String(text) => Some((text.as_str(), &item.origin)),
        _ => None,
    });
    strings.collect()
}
