//! YAML as a tree whose nodes know where they stand, so that every mistake can be shown in its place.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{Location, Spanned};

use crate::config::{ConfigOrigin, ConfigProblems, ConfigSource};

/// Deepest nesting that is read.
const DEPTH_MAX: usize = 32;

/// The value of a node.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum YamlValue {
    Null,
    Bool(bool),
    Integer(i64),
    Float,
    Text(String),
    List(Vec<YamlNode>),
    Map(Vec<(YamlNode, YamlNode)>),
}

/// A value in its place.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct YamlNode {
    pub value: YamlValue,
    /// Bytes of the text.
    at: Range<usize>,
}

impl YamlNode {
    pub(crate) fn origin(&self, source: &Arc<ConfigSource>) -> ConfigOrigin {
        ConfigOrigin { source: Arc::clone(source), range: self.at.clone() }
    }

    /// Returns what stands in the text for a scalar. `on`, `5` and `0.10` are texts, too, where a text is wanted.
    pub(crate) fn text(&self, source: &ConfigSource) -> Option<String> {
        match &self.value {
            YamlValue::Text(text) => Some(text.clone()),
            YamlValue::Bool(_) | YamlValue::Integer(_) | YamlValue::Float => {
                source.text.get(self.at.clone()).map(|text| text.trim().to_owned())
            }
            _ => None,
        }
    }

    /// Returns the kind of the node, for messages.
    pub(crate) fn kind(&self) -> &'static str {
        match self.value {
            YamlValue::Null => "nothing",
            YamlValue::Bool(_) => "a boolean",
            YamlValue::Integer(_) | YamlValue::Float => "a number",
            YamlValue::Text(_) => "text",
            YamlValue::List(_) => "a list",
            YamlValue::Map(_) => "a mapping",
        }
    }
}

/// Reads a text of one document. What is wrong with it becomes a problem, and nothing is read then.
pub(crate) fn parse(source: &Arc<ConfigSource>, problems: &mut ConfigProblems) -> Option<YamlNode> {
    // The reader wants a document, and an empty text is one, too.
    if source.text.lines().all(|line| matches!(line.trim_start().bytes().next(), None | Some(b'#'))) {
        return Some(YamlNode { value: YamlValue::Null, at: 0..0 });
    }
    match serde_saphyr::from_str::<Spanned<YamlTree>>(&source.text) {
        Ok(tree) => {
            let node = node(tree);
            if depth(&node, DEPTH_MAX) {
                return Some(node);
            }
            let help = format!("at most {DEPTH_MAX} levels are read");
            problems.add(&node.origin(source), "it is nested too deeply".to_owned(), Some(help));
        }
        Err(error) => {
            let at = error.location().map_or(0..0, |location| range(&location));
            let origin = ConfigOrigin { source: Arc::clone(source), range: at };
            let error = error.without_snippet().to_string();
            let reason = error.lines().next().unwrap_or_default().trim().to_owned();
            problems.add(&origin, format!("this is no YAML: {reason}"), None);
        }
    }
    None
}

/// Returns true if a tree has at most so many levels.
fn depth(node: &YamlNode, left: usize) -> bool {
    match &node.value {
        YamlValue::List(items) => left > 0 && items.iter().all(|item| depth(item, left - 1)),
        YamlValue::Map(members) => left > 0 && members.iter().all(|(_, value)| depth(value, left - 1)),
        _ => true,
    }
}

fn range(location: &Location) -> Range<usize> {
    let span = location.span();
    let number = |number: Option<u64>| number.and_then(|number| usize::try_from(number).ok()).unwrap_or(0);
    let start = number(span.byte_offset());
    start..start.saturating_add(number(span.byte_len()))
}

fn node(tree: Spanned<YamlTree>) -> YamlNode {
    let at = range(&tree.referenced);
    let value = match tree.value {
        YamlTree::Scalar(value) => value,
        YamlTree::List(items) => YamlValue::List(items.into_iter().map(node).collect()),
        YamlTree::Map(members) => {
            YamlValue::Map(members.into_iter().map(|(key, value)| (node(key), node(value))).collect())
        }
    };
    YamlNode { value, at }
}

/// The tree as it is read.
enum YamlTree {
    Scalar(YamlValue),
    List(Vec<Spanned<YamlTree>>),
    Map(Vec<(Spanned<YamlTree>, Spanned<YamlTree>)>),
}

impl<'de> Deserialize<'de> for YamlTree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<YamlTree, D::Error> {
        deserializer.deserialize_any(YamlVisitor)
    }
}

struct YamlVisitor;

impl<'de> Visitor<'de> for YamlVisitor {
    type Value = YamlTree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_bool<E>(self, truth: bool) -> Result<YamlTree, E> {
        Ok(YamlTree::Scalar(YamlValue::Bool(truth)))
    }

    fn visit_i64<E>(self, number: i64) -> Result<YamlTree, E> {
        Ok(YamlTree::Scalar(YamlValue::Integer(number)))
    }

    fn visit_u64<E>(self, number: u64) -> Result<YamlTree, E> {
        Ok(YamlTree::Scalar(i64::try_from(number).map_or(YamlValue::Float, YamlValue::Integer)))
    }

    fn visit_f64<E>(self, _: f64) -> Result<YamlTree, E> {
        Ok(YamlTree::Scalar(YamlValue::Float))
    }

    fn visit_str<E>(self, text: &str) -> Result<YamlTree, E> {
        Ok(YamlTree::Scalar(YamlValue::Text(text.to_owned())))
    }

    fn visit_unit<E>(self) -> Result<YamlTree, E> {
        Ok(YamlTree::Scalar(YamlValue::Null))
    }

    fn visit_none<E>(self) -> Result<YamlTree, E> {
        Ok(YamlTree::Scalar(YamlValue::Null))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<YamlTree, D::Error> {
        YamlTree::deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<YamlTree, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(YamlTree::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<YamlTree, A::Error> {
        let mut map = Vec::new();
        while let Some(member) = members.next_entry()? {
            map.push(member);
        }
        Ok(YamlTree::Map(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::SourceKind;

    fn source(text: &str) -> Arc<ConfigSource> {
        Arc::new(ConfigSource { kind: SourceKind::File, name: "a.yaml".into(), text: text.into() })
    }

    #[test]
    fn nodes_know_their_place() {
        let source = source("# é\nkey: [0.10, on]\n0.25: x\n");
        let mut problems = ConfigProblems::default();
        let node = parse(&source, &mut problems).unwrap();
        let YamlValue::Map(members) = &node.value else { panic!("{node:?}") };
        let YamlValue::List(items) = &members[0].1.value else { panic!("{node:?}") };
        assert_eq!(items[0].text(&source).as_deref(), Some("0.10"));
        assert_eq!(items[1].text(&source).as_deref(), Some("on"));
        assert_eq!(members[1].0.kind(), "a number");
        assert_eq!(members[1].0.origin(&source).line_column(), (3, 1));
        assert!(problems.list().is_empty());
    }

    #[test]
    fn what_is_no_yaml_is_told_with_its_place() {
        let deep = "[".repeat(DEPTH_MAX + 1) + &"]".repeat(DEPTH_MAX + 1);
        for (text, message) in [
            ("'''\n", "this is no YAML: "),
            ("a: 1\na: 2\n", "this is no YAML: "),
            (deep.as_str(), "it is nested too deeply"),
        ] {
            let mut problems = ConfigProblems::default();
            assert!(parse(&source(text), &mut problems).is_none(), "{text}");
            assert!(problems.list()[0].message.starts_with(message), "{}", problems.list()[0]);
        }
        for empty in ["", "\n", "# nothing\n"] {
            let node = parse(&source(empty), &mut ConfigProblems::default()).unwrap();
            assert_eq!(node.value, YamlValue::Null);
        }
    }
}
