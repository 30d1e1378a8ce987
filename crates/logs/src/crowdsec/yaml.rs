//! YAML documents as trees whose nodes know their line.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{Location, Spanned};

use crate::crowdsec::{CROWDSEC_FILE_BYTES_MAX, CrowdsecProblem};

/// Deepest nesting that is read.
const DEPTH_MAX: usize = 32;

/// The value of a node.
#[derive(Clone, Debug)]
pub(crate) enum DocumentValue {
    Null,
    /// A scalar as it stands, without quotes.
    Scalar(String),
    List(Vec<DocumentNode>),
    Map(Vec<(String, DocumentNode)>),
}

/// A value, and the line where it stands.
#[derive(Clone, Debug)]
pub(crate) struct DocumentNode {
    pub(crate) value: DocumentValue,
    pub(crate) line: usize,
}

impl DocumentNode {
    /// The node of a name.
    pub(crate) fn get(&self, name: &str) -> Option<&DocumentNode> {
        match &self.value {
            DocumentValue::Map(members) => {
                members.iter().find(|(known, _)| known == name).map(|(_, node)| node)
            }
            _ => None,
        }
    }

    /// The text of a scalar.
    pub(crate) fn text(&self) -> Option<&str> {
        match &self.value {
            DocumentValue::Scalar(text) => Some(text),
            _ => None,
        }
    }

    /// The text of a name; empty texts are left out.
    pub(crate) fn text_of(&self, name: &str) -> Option<&str> {
        self.get(name).and_then(DocumentNode::text).filter(|text| !text.is_empty())
    }

    /// The elements of a list.
    pub(crate) fn items(&self) -> &[DocumentNode] {
        match &self.value {
            DocumentValue::List(items) => items,
            _ => &[],
        }
    }

    /// The elements of the list of a name.
    pub(crate) fn items_of(&self, name: &str) -> &[DocumentNode] {
        self.get(name).map_or(&[], DocumentNode::items)
    }

    /// The members of a map.
    pub(crate) fn members(&self) -> &[(String, DocumentNode)] {
        match &self.value {
            DocumentValue::Map(members) => members,
            _ => &[],
        }
    }
}

/// Reads the documents of a file.
pub(crate) fn documents(file: &str, text: &str) -> Result<Vec<DocumentNode>, CrowdsecProblem> {
    let problem = |line: usize, message: String| CrowdsecProblem { file: file.to_owned(), line, message };
    if text.len() > CROWDSEC_FILE_BYTES_MAX {
        return Err(problem(0, "the file is too large".to_owned()));
    }
    // The reader wants a document, and an empty text is one, too.
    if text.lines().all(|line| matches!(line.trim_start().bytes().next(), None | Some(b'#'))) {
        return Ok(Vec::new());
    }
    let trees = serde_saphyr::from_multiple::<Spanned<Tree>>(text).map_err(|error| {
        let line = error.location().map_or(0, |location| line(&location));
        let message = error.without_snippet().to_string();
        problem(line, format!("this is no YAML: {}", message.lines().next().unwrap_or_default().trim()))
    })?;
    let mut documents = Vec::new();
    for tree in trees {
        let line = line(&tree.referenced);
        documents.push(
            node(tree, text, DEPTH_MAX).ok_or_else(|| problem(line, "it is nested too deeply".to_owned()))?,
        );
    }
    Ok(documents)
}

fn line(location: &Location) -> usize {
    usize::try_from(location.line()).unwrap_or(0)
}

fn node(tree: Spanned<Tree>, text: &str, depth: usize) -> Option<DocumentNode> {
    let depth = depth.checked_sub(1)?;
    let span = tree.referenced.span();
    let line = line(&tree.referenced);
    let value = match tree.value {
        Tree::Null => DocumentValue::Null,
        Tree::Text(text) => DocumentValue::Scalar(text),
        Tree::Plain(otherwise) => {
            let number = |number: Option<u64>| number.and_then(|number| usize::try_from(number).ok());
            let written = number(span.byte_offset())
                .zip(number(span.byte_len()))
                .and_then(|(start, length)| text.get(start..start.checked_add(length)?));
            DocumentValue::Scalar(written.map_or(otherwise, |written| written.trim().to_owned()))
        }
        Tree::List(items) => {
            DocumentValue::List(items.into_iter().map(|item| node(item, text, depth)).collect::<Option<_>>()?)
        }
        Tree::Map(members) => {
            let mut map = Vec::with_capacity(members.len());
            for (name, value) in members {
                if let DocumentValue::Scalar(name) = node(name, text, depth)?.value {
                    map.push((name, node(value, text, depth)?));
                }
            }
            DocumentValue::Map(map)
        }
    };
    Some(DocumentNode { value, line })
}

/// The tree as it is read.
enum Tree {
    Null,
    Text(String),
    /// A truth or number, which is taken as it is written.
    Plain(String),
    List(Vec<Spanned<Tree>>),
    Map(Vec<(Spanned<Tree>, Spanned<Tree>)>),
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Tree, D::Error> {
        deserializer.deserialize_any(TreeVisitor)
    }
}

struct TreeVisitor;

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Tree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_bool<E>(self, truth: bool) -> Result<Tree, E> {
        Ok(Tree::Plain(truth.to_string()))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Tree, E> {
        Ok(Tree::Plain(number.to_string()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Tree, E> {
        Ok(Tree::Plain(number.to_string()))
    }

    fn visit_i128<E>(self, number: i128) -> Result<Tree, E> {
        Ok(Tree::Plain(number.to_string()))
    }

    fn visit_u128<E>(self, number: u128) -> Result<Tree, E> {
        Ok(Tree::Plain(number.to_string()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Tree, E> {
        Ok(Tree::Plain(number.to_string()))
    }

    fn visit_str<E>(self, text: &str) -> Result<Tree, E> {
        Ok(Tree::Text(text.to_owned()))
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Null)
    }

    fn visit_none<E>(self) -> Result<Tree, E> {
        Ok(Tree::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Tree, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = sequence.next_element()? {
            items.push(item);
        }
        Ok(Tree::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tree, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = map.next_entry()? {
            members.push(member);
        }
        Ok(Tree::Map(members))
    }
}
