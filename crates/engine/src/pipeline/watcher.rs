//! Watchers of a decision's stages: the engine itself knows no clock.

use event::Facts;

use super::Decision;

/// A stage of a decision that may take time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecisionStage {
    /// Statistics are read and added.
    Observe,
    /// Models and rules judge.
    Judge,
    /// The additions that hang on verdicts are made.
    Settle,
    /// The decision is logged.
    Journal,
}

impl DecisionStage {
    /// The number of stages.
    pub const COUNT: usize = 4;

    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            DecisionStage::Observe => "observe",
            DecisionStage::Judge => "judge",
            DecisionStage::Settle => "settle",
            DecisionStage::Journal => "journal",
        }
    }
}

/// Somebody who is told when stages of a decision begin and end; the engine itself knows no clock.
pub trait StageWatcher: Send + Sync {
    /// Hears that a stage begins.
    fn begins(&self, stage: DecisionStage);

    /// Hears that a stage is at its end.
    fn ends(&self, stage: DecisionStage);

    /// Returns true if it wants to be told of each decision.
    fn wants_decisions(&self) -> bool {
        false
    }

    /// Hears of a decision that was logged, with the facts that the journal has in the clear.
    fn decided(&self, _decision: &Decision, _facts: &Facts) {}
}

/// A watcher that does nothing.
pub(crate) struct NoWatcher;

impl StageWatcher for NoWatcher {
    fn begins(&self, _: DecisionStage) {}

    fn ends(&self, _: DecisionStage) {}
}
