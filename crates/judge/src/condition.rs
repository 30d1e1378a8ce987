//! A compiled condition: what a rule asks of a row.

use std::ops::Range;

use event::{Facts, Slot};

use crate::Diagnostic;
use crate::expr::{BoolExpr, EvalEnv, FloatExpr};
use crate::outline::{ConditionOutline, OutlinePart, UnmetPart};

/// A condition, checked and compiled by [`crate::compile`]. Asking it is pure, cannot fail and allocates
/// nothing.
#[derive(Debug)]
pub struct Condition {
    root: BoolExpr,
    outline: ConditionOutline,
    reads: Vec<ColumnRead>,
    refers: Vec<(RuleReference, Range<usize>)>,
    cost: u32,
    warnings: Vec<Diagnostic>,
}

/// A reference of a rule to something in its set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RuleReference {
    Rule(u32),
    Group(u32),
}

/// A column that a condition reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnRead {
    /// The column.
    pub slot: Slot,
    /// The fact's name, or the reading as rules write it, e.g. `from.seen('1h')`.
    pub text: String,
    /// True if the column holds a length of time, in whole microseconds.
    pub is_age: bool,
}

/// A number by which a rule adds a part of its score.
#[derive(Debug)]
pub struct ScoreShare {
    root: FloatExpr,
    reads: Vec<ColumnRead>,
    refers: Vec<(RuleReference, Range<usize>)>,
    cost: u32,
    warnings: Vec<Diagnostic>,
}

impl ScoreShare {
    pub(crate) fn new(
        root: FloatExpr,
        reads: Vec<ColumnRead>,
        refers: Vec<(RuleReference, Range<usize>)>,
        cost: u32,
        warnings: Vec<Diagnostic>,
    ) -> ScoreShare {
        ScoreShare { root, reads, refers, cost, warnings }
    }

    /// Between 0 and 1; 0 where it depends on something missing.
    pub(crate) fn evaluate_in(&self, env: &EvalEnv<'_>) -> f64 {
        // What is evaluated is always finite.
        self.root.eval(env).map_or(0.0, |share| share.clamp(0.0, 1.0))
    }

    pub(crate) fn refers(&self) -> &[(RuleReference, Range<usize>)] {
        &self.refers
    }

    /// Returns what is legal and suspicious about it, in the order of the source.
    pub fn warnings(&self) -> &[Diagnostic] {
        &self.warnings
    }

    /// The columns that it reads, each once, in the order in which the source names them.
    pub fn reads(&self) -> &[ColumnRead] {
        &self.reads
    }

    /// Returns the work that it is, in the unit of [`Condition::cost`].
    pub fn cost(&self) -> u32 {
        self.cost
    }
}

impl Condition {
    pub(crate) fn new(
        root: BoolExpr,
        outline: ConditionOutline,
        reads: Vec<ColumnRead>,
        refers: Vec<(RuleReference, Range<usize>)>,
        cost: u32,
        warnings: Vec<Diagnostic>,
    ) -> Condition {
        Condition { root, outline, reads, refers, cost, warnings }
    }

    /// Evaluates the condition within a set.
    pub(crate) fn evaluate_in(&self, env: &EvalEnv<'_>) -> Option<bool> {
        self.root.eval(env)
    }

    /// Returns whether the condition is true within a set. Costs less than to tell what is false from what is missing.
    pub(crate) fn fires_in(&self, env: &EvalEnv<'_>) -> bool {
        self.root.is(env, true)
    }

    /// The fewest parts that would have to be otherwise for it to be true.
    pub(crate) fn changes(&self, env: &EvalEnv<'_>) -> Vec<OutlinePart<'_>> {
        self.outline.changes(&self.root, env, true)
    }

    /// The fewest parts that would have to be otherwise for it to be true of the row. None where it is true.
    pub fn unmet(&self, row: &Facts) -> Vec<UnmetPart> {
        self.changes(&EvalEnv::of(row)).into_iter().map(UnmetPart::from).collect()
    }

    /// Returns the references to its set, and where they are in its source.
    pub(crate) fn refers(&self) -> &[(RuleReference, Range<usize>)] {
        &self.refers
    }

    /// Returns what is legal and suspicious about it, in the order of the source.
    pub fn warnings(&self) -> &[Diagnostic] {
        &self.warnings
    }

    /// Returns whether the condition is true of the row. Neither false nor missing fires.
    pub fn fires(&self, row: &Facts) -> bool {
        self.fires_in(&EvalEnv::of(row))
    }

    /// True, false, or `None` where it depends on something missing.
    pub fn evaluate(&self, row: &Facts) -> Option<bool> {
        self.root.eval(&EvalEnv::of(row))
    }

    /// The columns that it reads, each once, in the order in which the source names them.
    pub fn reads(&self) -> &[ColumnRead] {
        &self.reads
    }

    /// Returns the work that it is: about 1 for every operand and operator, more for text, far more for regular
    /// expressions. A nanosecond or so a unit, for short texts.
    pub fn cost(&self) -> u32 {
        self.cost
    }
}
