//! A compiled condition: what a rule asks of a row.

use event::{Facts, Slot};

use crate::expr::Bool;

/// A condition, checked and compiled by [`crate::compile`]. Asking it is pure, cannot fail and allocates
/// nothing.
#[derive(Debug)]
pub struct Condition {
    root: Bool,
    reads: Vec<Read>,
    cost: u32,
}

/// A column that a condition reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    /// The column.
    pub slot: Slot,
    /// The fact's name, or the reading as rules write it, e.g. `from.seen('1h')`.
    pub text: String,
    /// Whether the column holds a length of time, in whole microseconds.
    pub is_age: bool,
}

impl Condition {
    pub(crate) fn new(root: Bool, reads: Vec<Read>, cost: u32) -> Condition {
        Condition { root, reads, cost }
    }

    /// Whether the condition is true of the row. Neither false nor missing fires.
    pub fn fires(&self, row: &Facts) -> bool {
        self.root.eval(row) == Some(true)
    }

    /// True, false, or `None` where it depends on something missing.
    pub fn evaluate(&self, row: &Facts) -> Option<bool> {
        self.root.eval(row)
    }

    /// The columns that it reads, each once, in the order in which the source names them.
    pub fn reads(&self) -> &[Read] {
        &self.reads
    }

    /// How much work it is: about 1 for every operand and operator, more for text, far more for regular
    /// expressions. A nanosecond or so a unit, for short texts.
    pub fn cost(&self) -> u32 {
        self.cost
    }
}
