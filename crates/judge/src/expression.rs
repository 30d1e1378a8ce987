//! A compiled expression that gives a value: what a derived field is computed by.

use event::{Facts, Value};

use crate::Diagnostic;
use crate::condition::ColumnRead;
use crate::expr::{EvalEnv, ValueExpr};

/// A value computed from a row, checked and compiled by [`crate::compile_expression`]. Computing it is pure and cannot
/// fail; a text that it makes has at most 16 KiB.
#[derive(Debug)]
pub struct Expression {
    root: ValueExpr,
    reads: Vec<ColumnRead>,
    cost: u32,
    warnings: Vec<Diagnostic>,
}

impl Expression {
    pub(crate) fn new(
        root: ValueExpr,
        reads: Vec<ColumnRead>,
        cost: u32,
        warnings: Vec<Diagnostic>,
    ) -> Expression {
        Expression { root, reads, cost, warnings }
    }

    /// The value, of the type that it was compiled for, or `None` where it depends on something missing.
    pub fn evaluate(&self, row: &Facts) -> Option<Value> {
        self.root.eval(&EvalEnv::of(row))
    }

    /// The columns that it reads, each once, in the order in which the source names them.
    pub fn reads(&self) -> &[ColumnRead] {
        &self.reads
    }

    /// Returns the work that it is, in the unit of [`Condition::cost`](crate::Condition::cost).
    pub fn cost(&self) -> u32 {
        self.cost
    }

    /// Returns what is legal and suspicious about it, in the order of the source.
    pub fn warnings(&self) -> &[Diagnostic] {
        &self.warnings
    }
}
