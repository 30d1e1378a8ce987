//! Distances of conditions that do not hold from holding.

use std::ops::Range;

use crate::expr::{Bool, Env};
use crate::layout::canonical;
use crate::syntax::{Node, NodeKind, parse};

/// A part of a condition all of whose parts must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conjunct {
    /// Its source in canonical layout, in brackets where it needs them beside others.
    pub source: String,
    /// Its place in the condition's source.
    pub range: Range<usize>,
}

/// The parts between the outermost `&&` of a condition's source; none of one that has no `&&` there, or cannot be read. Names
/// are not looked at.
pub fn conjuncts(source: &str) -> Vec<Conjunct> {
    let Ok((Node { kind: NodeKind::All(parts), .. }, _)) = parse(source) else { return Vec::new() };
    let conjunct = |Node { range, kind }: &Node| {
        let text = canonical(source.get(range.clone()).unwrap_or_default());
        let bracketed = matches!(kind, NodeKind::Any(_) | NodeKind::If(_));
        Conjunct { source: if bracketed { format!("({text})") } else { text }, range: range.clone() }
    };
    parts.iter().map(conjunct).collect()
}

/// The `&&`, `||`, `!` and `?` of a condition, and the source of the parts between them.
#[derive(Debug)]
pub(crate) enum Outline {
    /// A comparison, a function, a fact: true, false or missing as one.
    Part(Box<str>),
    Not(Box<Outline>),
    All(Box<[Outline]>),
    Any(Box<[Outline]>),
    If(Box<[Outline; 3]>),
}

/// A part of a condition that would have to be otherwise, and what it is; `None` is missing.
pub(crate) type Change<'a> = (&'a str, Option<bool>);

impl Outline {
    /// Of a condition's tree and what was compiled of it.
    pub(crate) fn of(node: &Node, compiled: &Bool, source: &str) -> Outline {
        let all = |nodes: &[Node], parts: &[Bool]| -> Box<[Outline]> {
            nodes.iter().zip(parts).map(|(node, part)| Outline::of(node, part, source)).collect()
        };
        match (&node.kind, compiled) {
            (NodeKind::Not(node), Bool::Not(inner)) => {
                Outline::Not(Box::new(Outline::of(node, inner, source)))
            }
            (NodeKind::All(nodes), Bool::All(parts)) if nodes.len() == parts.len() => {
                Outline::All(all(nodes, parts))
            }
            (NodeKind::Any(nodes), Bool::Any(parts)) if nodes.len() == parts.len() => {
                Outline::Any(all(nodes, parts))
            }
            (NodeKind::If(nodes), Bool::If(parts)) => Outline::If(Box::new([
                Outline::of(&nodes.0, &parts.0, source),
                Outline::of(&nodes.1, &parts.1, source),
                Outline::of(&nodes.2, &parts.2, source),
            ])),
            _ => Outline::Part(canonical(source.get(node.range.clone()).unwrap_or_default()).into()),
        }
    }

    /// The fewest parts that would have to be otherwise for the condition to be `wanted`: none if it is. Each part is
    /// taken to be free of the others. Of equally few, those that stand first.
    ///
    /// Takes time in the order of the condition's length times its nesting.
    pub(crate) fn changes<'a>(&'a self, compiled: &Bool, env: Env<'_>, wanted: bool) -> Vec<Change<'a>> {
        let found = compiled.eval(env);
        if found == Some(wanted) {
            return Vec::new();
        }
        match (self, compiled) {
            (Outline::Not(inner), Bool::Not(compiled)) => inner.changes(compiled, env, !wanted),
            (Outline::All(inner), Bool::All(parts)) | (Outline::Any(inner), Bool::Any(parts)) => {
                let of_parts = inner.iter().zip(parts).map(|(inner, part)| inner.changes(part, env, wanted));
                // `&&` is true if all parts are, and false if one is; `||` the other way round.
                if matches!(self, Outline::All(_)) == wanted {
                    of_parts.flatten().collect()
                } else {
                    of_parts.min_by_key(Vec::len).unwrap_or_default()
                }
            }
            (Outline::If(inner), Bool::If(branches)) => {
                let [test, yes, no] = &**inner;
                let way = |truth: bool, of: &'a Outline, branch: &Bool| {
                    let mut changes = test.changes(&branches.0, env, truth);
                    changes.extend(of.changes(branch, env, wanted));
                    changes
                };
                let (one, other) = (way(true, yes, &branches.1), way(false, no, &branches.2));
                if other.len() < one.len() { other } else { one }
            }
            (Outline::Part(source), _) => vec![(source, found)],
            // An outline is made of what it is asked about.
            _ => Vec::new(),
        }
    }
}
