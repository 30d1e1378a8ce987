//! Definitions that the rules of a set share: named constants, reusable expressions, and sets.
//!
//! A constant or an expression is put where its name stands before a condition is checked, as if it had been
//! written out in brackets: so a rule that uses one costs what it would cost without. Expressions may use each
//! other, but none itself; how large one becomes is bounded, so a few short ones cannot grow without end.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::Diagnostic;
use crate::check::{ConditionContext, FUNCTIONS, check_expression};
use crate::lexer::RESERVED;
use crate::scope::Scope;
use crate::set::Set;
use crate::syntax::{SyntaxKind, SyntaxNode, parse};

/// Most parts of a condition once all names are replaced.
const NODES_MAX: usize = 4096;
/// Deepest nesting once all names are replaced.
const DEPTH_MAX: usize = 96;

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
}

/// A fault of a definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefinitionProblem {
    /// Its name.
    pub name: String,
    /// The fault; the range is in an expression's source, and empty at its start for all else.
    pub diagnostic: Diagnostic,
}

/// Checked definitions.
#[derive(Clone, Debug, Default)]
pub struct Library {
    definitions: HashMap<String, LibraryDefinition>,
    sets: HashMap<String, Arc<Set>>,
    digest: [u8; 32],
}

#[derive(Clone, Debug)]
struct LibraryDefinition {
    node: SyntaxNode,
    nodes: usize,
    depth: usize,
}

impl Library {
    /// Most constants and expressions, and most sets.
    pub const DEFINITIONS_MAX: usize = 4096;
    /// Longest name, in bytes.
    pub const NAME_BYTES_MAX: usize = 64;

    /// Checks definitions. What is wrong is told, and known by its name all the same, so that conditions that use
    /// it are not refused for that as well. Columns are set aside in `scope` for what expressions read.
    pub fn compile(source: LibrarySource, scope: &mut dyn Scope) -> (Library, Vec<DefinitionProblem>) {
        let mut problems = Vec::new();
        let mut library = Library { digest: digest(&source), ..Library::default() };
        let mut trees: HashMap<String, (SyntaxNode, bool)> = HashMap::new();
        let mut order = Vec::new();
        let LibrarySource { constants, expressions, sets } = source;
        let sources: HashMap<&str, &str> =
            expressions.iter().map(|(name, source)| (name.as_str(), source.as_str())).collect();

        for (name, set) in sets {
            let taken = library.sets.contains_key(&name) || library.sets.len() >= Library::DEFINITIONS_MAX;
            if allow(&name, taken, scope, &mut problems) {
                library.sets.insert(name, set);
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
                library.refuse(name);
            }
        }
        (library, problems)
    }

    /// Returns whether a name is defined, well or not.
    pub fn is_known(&self, name: &str) -> bool {
        self.definitions.contains_key(name) || self.sets.contains_key(name)
    }

    /// The set of this name.
    pub fn set(&self, name: &str) -> Option<&Arc<Set>> {
        self.sets.get(name)
    }

    /// All names defined.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.definitions.keys().chain(self.sets.keys()).map(String::as_str)
    }

    /// SHA-256 of everything defined, whatever the order.
    pub(crate) fn digest(&self) -> &[u8; 32] {
        &self.digest
    }

    /// The tree with every name that is defined replaced. All parts of what stands for a name have its place.
    pub(crate) fn expand(&self, mut node: SyntaxNode) -> Result<SyntaxNode, Diagnostic> {
        let range = node.range.clone();
        let (mut nodes, mut too_deep) = (0, false);
        self.replace(&mut node, 0, &mut nodes, &mut too_deep);
        too_large(nodes, too_deep, range).map_or(Ok(node), Err)
    }

    fn replace(&self, node: &mut SyntaxNode, depth: usize, nodes: &mut usize, too_deep: &mut bool) {
        *nodes += 1;
        *too_deep |= depth > DEPTH_MAX;
        if *too_deep || *nodes > NODES_MAX {
            return;
        }
        if let SyntaxKind::Name(name) = &node.kind {
            if let Some(definition) = self.definitions.get(name) {
                *nodes += definition.nodes;
                *too_deep |= depth + definition.depth > DEPTH_MAX;
                if !*too_deep && *nodes <= NODES_MAX {
                    let mut copy = definition.node.clone();
                    place(&mut copy, &node.range);
                    *node = copy;
                }
            }
            return;
        }
        for child in node.children_mut() {
            self.replace(child, depth + 1, nodes, too_deep);
        }
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
        let mut node = node;
        let (nodes, depth) = measure(&mut node);
        self.definitions.insert(name.to_owned(), LibraryDefinition { node, nodes, depth });
    }

    fn refuse(&mut self, name: &str) {
        let node = SyntaxNode { range: 0..0, kind: SyntaxKind::Refused };
        self.definitions.insert(name.to_owned(), LibraryDefinition { node, nodes: 1, depth: 0 });
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

fn too_large(nodes: usize, too_deep: bool, range: Range<usize>) -> Option<Diagnostic> {
    let message = if nodes > NODES_MAX {
        format!("with its expressions written out it has more than {NODES_MAX} parts")
    } else if too_deep {
        format!("with its expressions written out it nests more than {DEPTH_MAX} operators")
    } else {
        return None;
    };
    Some(Diagnostic::new(message, range).help("split it into several rules"))
}

/// Gives every part one place.
fn place(node: &mut SyntaxNode, range: &Range<usize>) {
    node.range = range.clone();
    if let SyntaxKind::Call(call) = &mut node.kind {
        call.name_range = range.clone();
    }
    node.children_mut().into_iter().for_each(|child| place(child, range));
}

/// The names in a tree, each with its place.
fn names(node: &mut SyntaxNode, found: &mut Vec<(String, Range<usize>)>) {
    if let SyntaxKind::Name(name) = &node.kind {
        found.push((name.clone(), node.range.clone()));
    }
    node.children_mut().into_iter().for_each(|child| names(child, found));
}

/// The number of a tree's parts and how deep they nest.
fn measure(node: &mut SyntaxNode) -> (usize, usize) {
    let children = node.children_mut().into_iter().map(measure);
    children.fold((1, 0), |(nodes, depth), (more, below)| (nodes + more, depth.max(below + 1)))
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
    } else if RESERVED.contains(&name) || ["true", "false", "null", "in", "now", "sets"].contains(&name) {
        format!("`{name}` is a reserved word")
    } else if FUNCTIONS.contains(&name) {
        format!("`{name}` is a function")
    } else if scope.fact(name).is_some() {
        format!("`{name}` is a fact")
    } else if scope.is_kind(name) {
        format!("`{name}` is a kind of keys")
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
    let mut lines: Vec<String> = constants.chain(expressions).chain(sets).collect();
    lines.sort_unstable();
    Sha256::digest(lines.join("\n")).into()
}
