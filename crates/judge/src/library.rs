//! Definitions that the rules of a set share: named constants, reusable expressions, sets and tables.
//!
//! A constant or an expression is put where its name stands before a condition is checked, as if it had been
//! written out in brackets: so a rule that uses one costs what it would cost without. Expressions may use each
//! other, but none itself; how large one becomes is bounded, so a few short ones cannot grow without end.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use crate::Diagnostic;
use crate::lookup::LookupTable;
use crate::set::Set;
use crate::syntax::{SyntaxKind, SyntaxNode};

/// Most parts of a condition once all names are replaced.
const NODES_MAX: usize = 4096;
/// Deepest nesting once all names are replaced.
pub(crate) const DEPTH_MAX: usize = 96;

/// Checked definitions.
#[derive(Clone, Debug, Default)]
pub struct Library {
    pub(crate) definitions: HashMap<String, LibraryDefinition>,
    pub(crate) sets: HashMap<String, Arc<Set>>,
    pub(crate) tables: HashMap<String, Arc<LookupTable>>,
    pub(crate) digest: [u8; 32],
}

#[derive(Clone, Debug)]
pub(crate) struct LibraryDefinition {
    pub(crate) node: SyntaxNode,
    nodes: usize,
    depth: usize,
}

impl Library {
    /// Most constants and expressions, and most sets and tables.
    pub const DEFINITIONS_MAX: usize = 4096;
    /// Longest name, in bytes.
    pub const NAME_BYTES_MAX: usize = 64;

    /// Returns whether a name is defined, well or not.
    pub fn is_known(&self, name: &str) -> bool {
        self.definitions.contains_key(name) || self.sets.contains_key(name) || self.tables.contains_key(name)
    }

    /// The set of this name.
    pub fn set(&self, name: &str) -> Option<&Arc<Set>> {
        self.sets.get(name)
    }

    /// The table of this name.
    pub(crate) fn table(&self, name: &str) -> Option<&Arc<LookupTable>> {
        self.tables.get(name)
    }

    /// All names defined.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.definitions.keys().chain(self.sets.keys()).chain(self.tables.keys()).map(String::as_str)
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

    /// Defines a name by a tree in which every name is replaced.
    pub(crate) fn define(&mut self, name: &str, mut node: SyntaxNode) {
        let (nodes, depth) = measure(&mut node);
        self.definitions.insert(name.to_owned(), LibraryDefinition { node, nodes, depth });
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

/// The number of a tree's parts and how deep they nest.
fn measure(node: &mut SyntaxNode) -> (usize, usize) {
    let children = node.children_mut().into_iter().map(measure);
    children.fold((1, 0), |(nodes, depth), (more, below)| (nodes + more, depth.max(below + 1)))
}
