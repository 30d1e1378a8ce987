//! TOML text as a tree in which every key and value knows where it came from, and the layering of such trees.

use std::ops::Range;
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::problem::{ConfigOrigin, ConfigProblems, ConfigSource};

/// A value and where it stands.
#[derive(Clone, Debug)]
pub(super) struct TomlNode {
    pub(super) value: TomlValue,
    pub(super) origin: ConfigOrigin,
}

/// A TOML value. Dates are kept as their text: no setting is one.
#[derive(Clone, Debug)]
pub(super) enum TomlValue {
    String(String),
    Integer(i64),
    Float(f64),
    Bool(bool),
    Date(String),
    List(Vec<TomlNode>),
    Table(TomlTable),
}

/// Entries in the order of the text.
#[derive(Clone, Debug, Default)]
pub(super) struct TomlTable {
    pub(super) entries: Vec<TomlEntry>,
}

/// One `key = value`.
#[derive(Clone, Debug)]
pub(super) struct TomlEntry {
    pub(super) key: String,
    pub(super) key_origin: ConfigOrigin,
    pub(super) node: TomlNode,
}

impl TomlValue {
    /// Returns the name of the value's type, for people.
    pub(super) fn type_name(&self) -> &'static str {
        match self {
            TomlValue::String(_) => "a string",
            TomlValue::Integer(_) => "an integer",
            TomlValue::Float(_) => "a float",
            TomlValue::Bool(_) => "a bool",
            TomlValue::Date(_) => "a date",
            TomlValue::List(_) => "a list",
            TomlValue::Table(_) => "a table",
        }
    }

    /// The value as TOML text on one line.
    pub(super) fn to_toml(&self) -> String {
        match self {
            // JSON's escapes are all TOML's, too; TOML wants one more.
            TomlValue::String(text) => {
                serde_json::Value::from(text.as_str()).to_string().replace('\u{7f}', "\\u007f")
            }
            TomlValue::Integer(integer) => integer.to_string(),
            TomlValue::Float(float) => format!("{float:?}"),
            TomlValue::Bool(truth) => truth.to_string(),
            TomlValue::Date(date) => date.clone(),
            TomlValue::List(items) => {
                format!("[{}]", items.iter().map(|item| item.value.to_toml()).collect::<Vec<_>>().join(", "))
            }
            TomlValue::Table(table) => {
                let entries = table
                    .entries
                    .iter()
                    .map(|entry| format!("{} = {}", toml_key(&entry.key), entry.node.value.to_toml()));
                format!("{{ {} }}", entries.collect::<Vec<_>>().join(", "))
            }
        }
    }
}

/// A key as TOML writes it: in quotes unless it is plain.
pub(super) fn toml_key(key: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if !key.is_empty() && key.bytes().all(plain) {
        key.to_owned()
    } else {
        serde_json::Value::from(key).to_string()
    }
}

impl TomlTable {
    /// The entry of this key.
    pub(super) fn get(&self, key: &str) -> Option<&TomlNode> {
        self.entries.iter().find(|entry| entry.key == key).map(|entry| &entry.node)
    }

    /// Drops the entries, here, for each of which another table has one that stands for it: a list in a file for one that is
    /// written out, and the other way around.
    fn drop_alternatives(&mut self, over: &TomlTable) {
        for (one, other) in [("values", "file"), ("file", "values")] {
            if over.get(one).is_some() && over.get(other).is_none() {
                self.entries.retain(|entry| entry.key != other);
            }
        }
    }

    /// Lays another table over this one. Tables are merged key by key; lists of tables in which `identity`
    /// names a key are merged entry by entry, an entry of the same identity key by key; all else is replaced.
    pub(super) fn overlay(&mut self, over: TomlTable, identity: &dyn Fn(&str) -> Option<&'static str>) {
        for entry in over.entries {
            let Some(own) = self.entries.iter_mut().find(|own| own.key == entry.key) else {
                self.entries.push(entry);
                continue;
            };
            match (&mut own.node.value, entry.node.value, identity(&entry.key)) {
                (TomlValue::Table(table), TomlValue::Table(over), _) => {
                    table.overlay(over, &|_| None);
                    own.node.origin = entry.node.origin;
                }
                (TomlValue::List(own), TomlValue::List(over), Some(name)) => overlay_list(own, over, name),
                (_, value, _) => {
                    own.node = TomlNode { value, origin: entry.node.origin };
                    own.key_origin = entry.key_origin;
                }
            }
        }
    }
}

fn overlay_list(own: &mut Vec<TomlNode>, over: Vec<TomlNode>, name: &'static str) {
    fn identity_of<'a>(node: &'a TomlNode, name: &str) -> Option<&'a str> {
        match &node.value {
            TomlValue::Table(table) => match &table.get(name)?.value {
                TomlValue::String(text) => Some(text),
                _ => None,
            },
            _ => None,
        }
    }
    // Entries are matched with the lower layer only: a name given twice in one text stays twice, to be refused.
    let lower = own.len();
    for node in over {
        let same = identity_of(&node, name)
            .and_then(|wanted| own[..lower].iter().position(|own| identity_of(own, name) == Some(wanted)));
        match (same.map(|index| &mut own[index]), node) {
            (
                Some(TomlNode { value: TomlValue::Table(own), .. }),
                TomlNode { value: TomlValue::Table(over), .. },
            ) => {
                own.drop_alternatives(&over);
                own.overlay(over, &|_| None);
            }
            (_, node) => own.push(node),
        }
    }
}

/// Reads TOML; every syntax error becomes a problem and what could be read is returned.
pub(super) fn parse(source: &Arc<ConfigSource>, problems: &mut ConfigProblems) -> TomlTable {
    let (table, errors) = DeTable::parse_recoverable(&source.text);
    let reader = TomlReader { source };
    for error in errors {
        let range = error.span().unwrap_or(0..0);
        problems.add(&reader.origin(range), error.message().lines().collect::<Vec<_>>().join(", "), None);
    }
    reader.table(table.into_inner(), problems)
}

struct TomlReader<'a> {
    source: &'a Arc<ConfigSource>,
}

impl TomlReader<'_> {
    fn origin(&self, range: Range<usize>) -> ConfigOrigin {
        ConfigOrigin { source: Arc::clone(self.source), range }
    }

    fn table(&self, table: DeTable<'_>, problems: &mut ConfigProblems) -> TomlTable {
        let entries = table.into_iter().map(|(key, value)| TomlEntry {
            key_origin: self.origin(key.span()),
            key: key.into_inner().into_owned(),
            node: self.node(value, problems),
        });
        TomlTable { entries: entries.collect() }
    }

    fn node(&self, value: Spanned<DeValue<'_>>, problems: &mut ConfigProblems) -> TomlNode {
        let origin = self.origin(value.span());
        let value = match value.into_inner() {
            DeValue::String(text) => TomlValue::String(text.into_owned()),
            DeValue::Integer(integer) => match i64::from_str_radix(integer.as_str(), integer.radix()) {
                Ok(integer) => TomlValue::Integer(integer),
                Err(_) => {
                    problems.add(&origin, format!("{integer} does not fit into 64 bits"), None);
                    TomlValue::Integer(0)
                }
            },
            DeValue::Float(float) => match float.as_str().parse::<f64>() {
                Ok(float) if float.is_finite() => TomlValue::Float(float),
                _ => {
                    problems.add(&origin, format!("{float} is not a finite number"), None);
                    TomlValue::Float(0.0)
                }
            },
            DeValue::Boolean(truth) => TomlValue::Bool(truth),
            DeValue::Datetime(date) => TomlValue::Date(date.to_string()),
            DeValue::Array(items) => {
                TomlValue::List(items.into_iter().map(|item| self.node(item, problems)).collect())
            }
            DeValue::Table(table) => TomlValue::Table(self.table(table, problems)),
        };
        TomlNode { value, origin }
    }
}
