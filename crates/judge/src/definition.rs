//! Definitions as their file has them, checked and compiled to a [`Library`].

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::Diagnostic;
use crate::check::{ConditionContext, FUNCTIONS, check_expression};
use crate::lexer::RESERVED;
use crate::library::{DEPTH_MAX, Library};
use crate::lookup::LookupTable;
use crate::scope::Scope;
use crate::set::Set;
use crate::syntax::{SyntaxKind, SyntaxNode, parse};

/// The value of a named constant.
#[derive(Clone, Debug, PartialEq)]
pub enum Constant {
    /// True or false.
    Bool(bool),
    /// 64-bit signed integer.
    Integer(i64),
    /// A finite float.
    Float(f64),
    /// A text; stands wherever a text may, so also for a window or a regular expression.
    String(String),
    /// Texts and numbers, to the right of `in`.
    List(Vec<Constant>),
}

/// Definitions as the file has them.
#[derive(Clone, Debug, Default)]
pub struct LibrarySource {
    /// Names and values.
    pub constants: Vec<(String, Constant)>,
    /// Names and sources of expressions, in any order.
    pub expressions: Vec<(String, String)>,
    /// Names and sets.
    pub sets: Vec<(String, Arc<Set>)>,
    /// Names and tables.
    pub tables: Vec<(String, Arc<LookupTable>)>,
}

/// A fault of a definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefinitionProblem {
    /// Its name.
    pub name: String,
    /// The fault; the range is in an expression's source, and empty at its start for all else.
    pub diagnostic: Diagnostic,
}

impl Library {
    /// Checks definitions. What is wrong is told, and known by its name all the same, so that conditions that use
    /// it are not refused for that as well. Columns are set aside in `scope` for what expressions read.
    pub fn compile(source: LibrarySource, scope: &mut dyn Scope) -> (Library, Vec<DefinitionProblem>) {
        let mut problems = Vec::new();
        let mut library = Library { digest: digest(&source), ..Library::default() };
        let mut trees: HashMap<String, (SyntaxNode, bool)> = HashMap::new();
        let mut order = Vec::new();
        let LibrarySource { constants, expressions, sets, tables } = source;
        let sources: HashMap<&str, &str> =
            expressions.iter().map(|(name, source)| (name.as_str(), source.as_str())).collect();

        for (name, set) in sets {
            let taken = library.sets.contains_key(&name) || library.sets.len() >= Library::DEFINITIONS_MAX;
            if allow(&name, taken, scope, &mut problems) {
                library.sets.insert(name, set);
            }
        }
        for (name, table) in tables {
            let taken = library.is_known(&name) || library.tables.len() >= Library::DEFINITIONS_MAX;
            if allow(&name, taken, scope, &mut problems) {
                library.tables.insert(name, table);
            }
        }
        for (name, value) in constants {
            let taken = library.is_known(&name) || trees.len() >= Library::DEFINITIONS_MAX;
            if allow(&name, taken || trees.contains_key(&name), scope, &mut problems) {
                order.push(name.clone());
                trees.insert(name, (SyntaxNode { range: 0..0, kind: value.node() }, false));
            }
        }
        for (name, source) in &expressions {
            let taken = library.is_known(name) || trees.len() >= Library::DEFINITIONS_MAX;
            if !allow(name, taken || trees.contains_key(name), scope, &mut problems) {
                continue;
            }
            let tree = match parse(source) {
                Ok((node, found)) if found.is_empty() => node,
                Ok((_, found)) | Err(found) => {
                    let tell = |diagnostic| DefinitionProblem { name: name.clone(), diagnostic };
                    problems.extend(found.into_iter().map(tell));
                    SyntaxNode { range: 0..0, kind: SyntaxKind::Refused }
                }
            };
            order.push(name.clone());
            trees.insert(name.clone(), (tree, true));
        }
        for name in &order {
            library.resolve(name, &mut trees, &mut Vec::new(), &mut problems);
        }
        for name in order.iter().filter(|name| sources.contains_key(name.as_str())) {
            let Some(definition) = library.definitions.get(name) else { continue };
            let context = ConditionContext { library: &library, siblings: None };
            let source = sources.get(name.as_str()).copied().unwrap_or_default();
            if let Err(found) = check_expression(source, &definition.node, context, scope) {
                let tell = |diagnostic| DefinitionProblem { name: name.clone(), diagnostic };
                problems.extend(found.into_iter().map(tell));
                library.define(name, SyntaxNode { range: 0..0, kind: SyntaxKind::Refused });
            }
        }
        (library, problems)
    }

    /// Makes the definition of a name from its tree, those that it uses first.
    fn resolve(
        &mut self,
        name: &str,
        trees: &mut HashMap<String, (SyntaxNode, bool)>,
        path: &mut Vec<String>,
        problems: &mut Vec<DefinitionProblem>,
    ) {
        if self.definitions.contains_key(name) {
            return;
        }
        let Some((mut tree, _)) = trees.get(name).cloned() else { return };
        path.push(name.to_owned());
        let mut used = Vec::new();
        names(&mut tree, &mut used);
        for (other, range) in used {
            let circle = path.iter().position(|step| *step == other);
            let problem = match circle {
                Some(start) => {
                    let circle: Vec<&str> =
                        path[start..].iter().map(String::as_str).chain([&*other]).collect();
                    let message = format!("`{name}` is made of itself: {}", circle.join(" → "));
                    Diagnostic::new(message, range).help("write out what it stands for")
                }
                None if path.len() >= DEPTH_MAX && trees.contains_key(&other) => {
                    let message = format!("expressions use each other more than {DEPTH_MAX} deep");
                    Diagnostic::new(message, range).help("write out what some of them stand for")
                }
                None => {
                    self.resolve(&other, trees, path, problems);
                    continue;
                }
            };
            problems.push(DefinitionProblem { name: name.to_owned(), diagnostic: problem });
            tree.kind = SyntaxKind::Refused;
            break;
        }
        path.pop();
        let node = match self.expand(tree) {
            Ok(node) => node,
            Err(diagnostic) => {
                problems.push(DefinitionProblem { name: name.to_owned(), diagnostic });
                SyntaxNode { range: 0..0, kind: SyntaxKind::Refused }
            }
        };
        self.define(name, node);
    }
}

impl Constant {
    fn node(self) -> SyntaxKind {
        match self {
            Constant::Bool(truth) => SyntaxKind::Bool(truth),
            Constant::Integer(integer) => SyntaxKind::Integer(integer),
            Constant::Float(float) => SyntaxKind::Float(float),
            Constant::String(text) => SyntaxKind::Text(text),
            Constant::List(items) => SyntaxKind::List(
                items.into_iter().map(|item| SyntaxNode { range: 0..0, kind: item.node() }).collect(),
            ),
        }
    }
}

/// The names in a tree, each with its place.
fn names(node: &mut SyntaxNode, found: &mut Vec<(String, Range<usize>)>) {
    if let SyntaxKind::Name(name) = &node.kind {
        found.push((name.clone(), node.range.clone()));
    }
    node.children_mut().into_iter().for_each(|child| names(child, found));
}

/// Returns whether something can have this name; if not, says why.
fn allow(name: &str, taken: bool, scope: &dyn Scope, problems: &mut Vec<DefinitionProblem>) -> bool {
    let plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && !name.starts_with(|first: char| first.is_ascii_digit());
    let shown: String = name.chars().take(40).collect();
    let message = if name.is_empty() || name.len() > Library::NAME_BYTES_MAX || !plain {
        format!(
            "`{}` is no name: it has 1 to {} letters, digits and `_`",
            shown.escape_debug(),
            Library::NAME_BYTES_MAX
        )
    } else if RESERVED.contains(&name)
        || ["true", "false", "null", "in", "now", "regex", "sets"].contains(&name)
    {
        format!("`{name}` is a reserved word")
    } else if scope.fact(name).is_some() {
        format!("`{name}` is a fact")
    } else if scope.is_kind(name) {
        format!("`{name}` is a kind of keys")
    } else if FUNCTIONS.contains(&name) {
        format!("`{name}` is a function")
    } else if taken {
        format!("`{name}` is defined twice, or there are more than {} definitions", Library::DEFINITIONS_MAX)
    } else {
        return true;
    };
    let diagnostic = Diagnostic::new(message, 0..0).help("give it another name");
    problems.push(DefinitionProblem { name: name.to_owned(), diagnostic });
    false
}

fn digest(source: &LibrarySource) -> [u8; 32] {
    let constants = source.constants.iter().map(|(name, value)| format!("constant {name:?} {value:?}"));
    let expressions = source.expressions.iter();
    let expressions =
        expressions.map(|(name, text)| format!("expression {name:?} {:?}", crate::canonical(text)));
    let sets = source.sets.iter().map(|(name, set)| format!("set {name:?} {:?}", set.digest()));
    let tables = source.tables.iter().map(|(name, table)| format!("table {name:?} {:?}", table.digest()));
    let mut lines: Vec<String> = constants.chain(expressions).chain(sets).chain(tables).collect();
    lines.sort_unstable();
    Sha256::digest(lines.join("\n")).into()
}
