//! Conditions: what is wrong with a node right now, under a name that monitoring can watch.
//!
//! Whoever notices that something is wrong raises a condition, and clears it once it is well again. The log has each change,
//! `/readyz` lists those that stand, and `/metrics` has a gauge for each.

use parking_lot::Mutex;
use std::collections::BTreeMap;

/// The effect of a condition on those who send requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Impact {
    /// Requests are answered; somebody should look.
    Degraded,
    /// Requests should go to another node.
    Unready,
}

/// A fault of the node at present.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeCondition {
    /// The name in metrics and logs, in lower case with dashes, such as `clock-jump`.
    pub name: &'static str,
    /// The effect.
    pub impact: Impact,
    /// The sentence for people: what is wrong, where, and the mend.
    pub detail: String,
}

/// The conditions of a node that stand now, by name.
#[derive(Debug, Default)]
pub struct NodeConditions {
    standing: Mutex<BTreeMap<&'static str, NodeCondition>>,
}

impl NodeConditions {
    /// Raises a condition, or replaces the one of this name. The log has it where it is new or its impact is another: a
    /// detail may change at each look, as a number of bytes does.
    pub fn raise(&self, name: &'static str, impact: Impact, detail: impl Into<String>) {
        let detail = detail.into();
        let condition = NodeCondition { name, impact, detail: detail.clone() };
        let before = self.standing.lock().insert(name, condition);
        if before.is_none_or(|before| before.impact != impact) {
            tracing::warn!(condition = name, "{detail}");
        }
    }

    /// Clears a condition, if it stands.
    pub fn clear(&self, name: &'static str) {
        let stood = self.standing.lock().remove(name);
        if stood.is_some() {
            tracing::info!(condition = name, "well again");
        }
    }

    /// Raises the condition where there is a detail, and clears it where there is none.
    pub fn set(&self, name: &'static str, impact: Impact, detail: Option<String>) {
        match detail {
            Some(detail) => self.raise(name, impact, detail),
            None => self.clear(name),
        }
    }

    /// The conditions that stand, by name.
    pub fn list(&self) -> Vec<NodeCondition> {
        self.standing.lock().values().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_stands_until_it_is_cleared() {
        let conditions = NodeConditions::default();
        conditions.raise("b", Impact::Degraded, "first");
        conditions.raise("a", Impact::Unready, "other");
        conditions.raise("b", Impact::Unready, "second");
        let shown = |conditions: &NodeConditions| -> Vec<(&str, Impact, String)> {
            conditions.list().into_iter().map(|one| (one.name, one.impact, one.detail)).collect()
        };
        let both = [("a", Impact::Unready, "other".to_owned()), ("b", Impact::Unready, "second".to_owned())];
        assert_eq!(shown(&conditions), both);
        conditions.set("a", Impact::Unready, None);
        conditions.clear("never-raised");
        assert_eq!(shown(&conditions), both[1..]);
    }
}
