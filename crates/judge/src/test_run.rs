//! The tests that rules bring, run.

use std::fmt;

use event::{Schema, Value};

use crate::expr::EvalEnv;
use crate::rule::RuleSet;
use crate::verdict::{Evaluation, detail};

/// A test that was run.
#[derive(Clone, Debug, PartialEq)]
pub struct TestRun {
    /// The rule's index.
    pub rule: usize,
    /// The test's index among the rule's.
    pub test: usize,
    /// True if it was to fire.
    pub fires: bool,
    /// The value of its condition; `None` is missing.
    pub found: Option<bool>,
    /// The values that it read, as one line, as [`Reason::detail`](crate::Reason::detail) tells it.
    pub detail: String,
    /// The values that it read, as [`Reason::values`](crate::Reason::values) has it.
    pub values: Vec<(String, Option<Value>)>,
}

impl TestRun {
    /// Returns whether the rule does what the test says.
    pub fn passed(&self) -> bool {
        (self.found == Some(true)) == self.fires
    }
}

/// Writes what the test wants and what it found, as is said of one that fails.
impl fmt::Display for TestRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let expected = if self.fires { "fires" } else { "does not fire" };
        let found = match self.found {
            Some(true) => "true",
            Some(false) => "false",
            None => "missing",
        };
        write!(f, "the test says that it {expected}, and its condition is {found}")?;
        if self.detail.is_empty() { Ok(()) } else { write!(f, ": {}", self.detail) }
    }
}

impl RuleSet {
    /// Runs the tests that rules bring, on rows of this schema, in the order of the rules. A rule that is off is
    /// tried all the same, and none has expired.
    pub fn test(&self, schema: &Schema) -> Vec<TestRun> {
        let mut runs = Vec::new();
        let mut outcome = Evaluation::default();
        for (index, rule) in self.rules.iter().enumerate() {
            for (number, test) in rule.tests.iter().enumerate() {
                let mut row = schema.empty_row();
                for (slot, value) in &test.facts {
                    row.set(*slot, value.clone());
                }
                self.evaluate(&row, &mut outcome);
                let found = rule.condition.evaluate_in(&EvalEnv::new(&row, &outcome.results));
                let (values, detail) = detail(rule, &row);
                runs.push(TestRun { rule: index, test: number, fires: test.fires, found, detail, values });
            }
        }
        runs
    }
}
