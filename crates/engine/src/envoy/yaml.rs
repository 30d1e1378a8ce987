//! YAML as a tree whose nodes know where they stand, so that every mistake can be shown in its place.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{Location, Spanned};

use crate::config::{Origin, Problems, Source};

/// Deepest nesting that is read.
const DEPTH_MAX: usize = 32;

/// What a node is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Integer(i64),
    Float,
    Text(String),
    List(Vec<Node>),
    Map(Vec<(Node, Node)>),
}

/// A value in its place.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    pub(crate) value: Value,
    /// Bytes of the text.
    at: Range<usize>,
}

impl Node {
    pub(crate) fn origin(&self, source: &Arc<Source>) -> Origin {
        Origin { source: Arc::clone(source), range: self.at.clone() }
    }

    /// What stands in the text for a scalar. `on`, `5` and `0.10` are texts, too, where a text is wanted.
    pub(crate) fn text(&self, source: &Source) -> Option<String> {
        match &self.value {
            Value::Text(text) => Some(text.clone()),
            Value::Bool(_) | Value::Integer(_) | Value::Float => {
                source.text.get(self.at.clone()).map(|text| text.trim().to_owned())
            }
            _ => None,
        }
    }

    /// What kind of thing it is, for messages.
    pub(crate) fn kind(&self) -> &'static str {
        match self.value {
            Value::Null => "nothing",
            Value::Bool(_) => "a boolean",
            Value::Integer(_) | Value::Float => "a number",
            Value::Text(_) => "text",
            Value::List(_) => "a list",
            Value::Map(_) => "a mapping",
        }
    }
}

/// Reads a text of one document. What is wrong with it becomes a problem, and nothing is read then.
pub(crate) fn parse(source: &Arc<Source>, problems: &mut Problems) -> Option<Node> {
    // The reader wants a document, and an empty text is one, too.
    if source.text.lines().all(|line| matches!(line.trim_start().bytes().next(), None | Some(b'#'))) {
        return Some(Node { value: Value::Null, at: 0..0 });
    }
    match serde_saphyr::from_str::<Spanned<Tree>>(&source.text) {
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
            let origin = Origin { source: Arc::clone(source), range: at };
            let error = error.without_snippet().to_string();
            let reason = error.lines().next().unwrap_or_default().trim().to_owned();
            problems.add(&origin, format!("this is no YAML: {reason}"), None);
        }
    }
    None
}

/// Whether a tree has at most so many levels.
fn depth(node: &Node, left: usize) -> bool {
    match &node.value {
        Value::List(items) => left > 0 && items.iter().all(|item| depth(item, left - 1)),
        Value::Map(members) => left > 0 && members.iter().all(|(_, value)| depth(value, left - 1)),
        _ => true,
    }
}

fn range(location: &Location) -> Range<usize> {
    let span = location.span();
    let number = |number: Option<u64>| number.and_then(|number| usize::try_from(number).ok()).unwrap_or(0);
    let start = number(span.byte_offset());
    start..start.saturating_add(number(span.byte_len()))
}

fn node(tree: Spanned<Tree>) -> Node {
    let at = range(&tree.referenced);
    let value = match tree.value {
        Tree::Scalar(value) => value,
        Tree::List(items) => Value::List(items.into_iter().map(node).collect()),
        Tree::Map(members) => {
            Value::Map(members.into_iter().map(|(key, value)| (node(key), node(value))).collect())
        }
    };
    Node { value, at }
}

/// As it is read.
enum Tree {
    Scalar(Value),
    List(Vec<Spanned<Tree>>),
    Map(Vec<(Spanned<Tree>, Spanned<Tree>)>),
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Tree, D::Error> {
        deserializer.deserialize_any(Any)
    }
}

struct Any;

impl<'de> Visitor<'de> for Any {
    type Value = Tree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_bool<E>(self, truth: bool) -> Result<Tree, E> {
        Ok(Tree::Scalar(Value::Bool(truth)))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Tree, E> {
        Ok(Tree::Scalar(Value::Integer(number)))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Tree, E> {
        Ok(Tree::Scalar(i64::try_from(number).map_or(Value::Float, Value::Integer)))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Tree, E> {
        Ok(Tree::Scalar(Value::Float))
    }

    fn visit_str<E>(self, text: &str) -> Result<Tree, E> {
        Ok(Tree::Scalar(Value::Text(text.to_owned())))
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Scalar(Value::Null))
    }

    fn visit_none<E>(self) -> Result<Tree, E> {
        Ok(Tree::Scalar(Value::Null))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Tree, D::Error> {
        Tree::deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Tree, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Tree::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Tree, A::Error> {
        let mut map = Vec::new();
        while let Some(member) = members.next_entry()? {
            map.push(member);
        }
        Ok(Tree::Map(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::SourceKind;

    fn source(text: &str) -> Arc<Source> {
        Arc::new(Source { kind: SourceKind::File, name: "a.yaml".into(), text: text.into() })
    }

    #[test]
    fn nodes_know_their_place() {
        let source = source("# é\nkey: [0.10, on]\n0.25: x\n");
        let mut problems = Problems::default();
        let node = parse(&source, &mut problems).unwrap();
        let Value::Map(members) = &node.value else { panic!("{node:?}") };
        let Value::List(items) = &members[0].1.value else { panic!("{node:?}") };
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
            let mut problems = Problems::default();
            assert!(parse(&source(text), &mut problems).is_none(), "{text}");
            assert!(problems.list()[0].message.starts_with(message), "{}", problems.list()[0]);
        }
        for empty in ["", "\n", "# nothing\n"] {
            let node = parse(&source(empty), &mut Problems::default()).unwrap();
            assert_eq!(node.value, Value::Null);
        }
    }
}
