//! Distances of conditions that do not hold from holding.

use std::ops::Range;

use crate::expr::{BoolExpr, EvalEnv, Junction};
use crate::formatter::canonical;
use crate::syntax::{SyntaxKind, SyntaxNode, parse};

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
    let Ok((SyntaxNode { kind: SyntaxKind::All(parts), .. }, _)) = parse(source) else { return Vec::new() };
    let conjunct = |SyntaxNode { range, kind }: &SyntaxNode| {
        let text = canonical(source.get(range.clone()).unwrap_or_default());
        let bracketed = matches!(kind, SyntaxKind::Any(_) | SyntaxKind::If(_));
        Conjunct { source: if bracketed { format!("({text})") } else { text }, range: range.clone() }
    };
    parts.iter().map(conjunct).collect()
}

/// The `&&`, `||`, `!` and `?` of a condition, and the source of the parts between them.
#[derive(Debug)]
pub(crate) enum ConditionOutline {
    /// A comparison, a function, a fact: true, false or missing as one.
    Part(Box<str>),
    Not(Box<ConditionOutline>),
    All(Box<[ConditionOutline]>),
    Any(Box<[ConditionOutline]>),
    If(Box<[ConditionOutline; 3]>),
}

/// A part of a condition that would have to be otherwise for it to hold.
#[derive(Clone, Debug, PartialEq)]
pub struct UnmetPart {
    /// The part as its source has it, in canonical layout.
    pub part: String,
    /// Its value; `None` is missing.
    pub was: Option<bool>,
    /// The smaller of two compared numbers as a share of the larger, from 0 to below 1: 0.9 for a count of 90 that would have to
    /// be 100. `None` for what is no comparison in order of numbers that are not negative.
    pub reached: Option<f64>,
}

impl From<OutlinePart<'_>> for UnmetPart {
    fn from(OutlinePart { source, found, reached }: OutlinePart<'_>) -> UnmetPart {
        UnmetPart { part: source.to_owned(), was: found, reached }
    }
}

/// A part of an outline that would have to be otherwise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct OutlinePart<'a> {
    /// Its source.
    pub(crate) source: &'a str,
    /// Its value; `None` is missing.
    pub(crate) found: Option<bool>,
    /// See [`UnmetPart::reached`].
    pub(crate) reached: Option<f64>,
}

impl ConditionOutline {
    /// The outline of a condition's tree and its compiled form.
    pub(crate) fn of(node: &SyntaxNode, compiled: &BoolExpr, source: &str) -> ConditionOutline {
        let all = |nodes: &[SyntaxNode], parts: &Junction| -> Box<[ConditionOutline]> {
            nodes
                .iter()
                .zip(parts.iter())
                .map(|(node, part)| ConditionOutline::of(node, part, source))
                .collect()
        };
        match (&node.kind, compiled) {
            (SyntaxKind::Not(node), BoolExpr::Not(inner)) => {
                ConditionOutline::Not(Box::new(ConditionOutline::of(node, inner, source)))
            }
            (SyntaxKind::All(nodes), BoolExpr::All(parts)) if nodes.len() == parts.iter().len() => {
                ConditionOutline::All(all(nodes, parts))
            }
            (SyntaxKind::Any(nodes), BoolExpr::Any(parts)) if nodes.len() == parts.iter().len() => {
                ConditionOutline::Any(all(nodes, parts))
            }
            (SyntaxKind::If(nodes), BoolExpr::If(parts)) => ConditionOutline::If(Box::new([
                ConditionOutline::of(&nodes.0, &parts.0, source),
                ConditionOutline::of(&nodes.1, &parts.1, source),
                ConditionOutline::of(&nodes.2, &parts.2, source),
            ])),
            _ => ConditionOutline::Part(canonical(source.get(node.range.clone()).unwrap_or_default()).into()),
        }
    }

    /// The fewest parts that would have to be otherwise for the condition to be `wanted`: none if it is. Each part is
    /// taken to be free of the others. Of equally few, those that stand first.
    ///
    /// Takes time in the order of the condition's length times its nesting.
    pub(crate) fn changes<'a>(
        &'a self,
        compiled: &BoolExpr,
        env: &EvalEnv<'_>,
        wanted: bool,
    ) -> Vec<OutlinePart<'a>> {
        let found = compiled.eval(env);
        if found == Some(wanted) {
            return Vec::new();
        }
        match (self, compiled) {
            (ConditionOutline::Not(inner), BoolExpr::Not(compiled)) => inner.changes(compiled, env, !wanted),
            (ConditionOutline::All(inner), BoolExpr::All(parts))
            | (ConditionOutline::Any(inner), BoolExpr::Any(parts)) => {
                let of_parts =
                    inner.iter().zip(parts.iter()).map(|(inner, part)| inner.changes(part, env, wanted));
                // `&&` is true if all parts are, and false if one is; `||` the other way round.
                if matches!(self, ConditionOutline::All(_)) == wanted {
                    of_parts.flatten().collect()
                } else {
                    of_parts.min_by_key(Vec::len).unwrap_or_default()
                }
            }
            (ConditionOutline::If(inner), BoolExpr::If(branches)) => {
                let [test, yes, no] = &**inner;
                let way = |truth: bool, of: &'a ConditionOutline, branch: &BoolExpr| {
                    let mut changes = test.changes(&branches.0, env, truth);
                    changes.extend(of.changes(branch, env, wanted));
                    changes
                };
                let (one, other) = (way(true, yes, &branches.1), way(false, no, &branches.2));
                if other.len() < one.len() { other } else { one }
            }
            (ConditionOutline::Part(source), _) => {
                vec![OutlinePart { source, found, reached: compiled.reached(env) }]
            }
            // An outline is made of what it is asked about.
            _ => Vec::new(),
        }
    }
}
