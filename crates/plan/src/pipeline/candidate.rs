//! Rules that are judged beside the enforced ones, and may decide for a part of the events: a canary.

use std::sync::Arc;

use event::Table;
use judge::{Rule, RuleSet};
use serde::{Deserialize, Serialize};

use super::{EffectPlan, Pipeline};

/// A candidate: rules that are compared with the enforced ones. Without a canary they change nothing.
#[derive(Debug)]
pub struct Candidate {
    /// The version that the pipeline would have with it.
    pub version: String,
    /// Its rules and bands.
    pub rules: Arc<RuleSet>,
    /// The effects of each rule that are more than its verdict.
    pub effects: Table<Rule, Vec<EffectPlan>>,
    /// The events for which it decides.
    pub canary: Option<Canary>,
}

/// A candidate that decides for some events.
#[derive(Debug)]
pub struct Canary {
    /// The events.
    pub scope: CanaryScope,
    /// The pipeline as it would be with the candidate: the same row, other rules. It has no candidate itself.
    pub pipeline: Arc<Pipeline>,
}

/// The events for which a candidate decides: a share of them, on all nodes or some.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CanaryScope {
    /// The share of the events, in millionths.
    pub millionths: u32,
    /// The numbers of the nodes; empty for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<u16>,
}

/// The share that is all events.
const ALL: u32 = 1_000_000;

impl CanaryScope {
    /// Most nodes that are named.
    pub const NODES_MAX: usize = 1023;

    /// Returns the scope of a share from above 0 up to 1; `None` for any other number, and for too many nodes.
    pub fn new(share: f64, nodes: Vec<u16>) -> Option<CanaryScope> {
        if !(share > 0.0 && share <= 1.0) || nodes.len() > CanaryScope::NODES_MAX {
            return None;
        }
        // At least the smallest share there is: a share that was asked for is not none.
        let millionths = (share * f64::from(ALL)).round().max(1.0) as u32;
        Some(CanaryScope { millionths, nodes })
    }

    /// The share of the events.
    pub fn share(&self) -> f64 {
        f64::from(self.millionths) / f64::from(ALL)
    }

    /// Returns true if it has events of a node; `None` is a node that has no others.
    pub fn has_node(&self, node: Option<u16>) -> bool {
        self.nodes.is_empty() || node.is_some_and(|node| self.nodes.contains(&node))
    }
}

impl Canary {
    /// Returns true if it has the events that a hash stands for; `None` stands for events that nothing tells apart, which belong to
    /// the whole only. A larger share has all that a smaller one has, and another version has others.
    pub fn has_event(&self, hash: Option<u64>) -> bool {
        let Some(hash) = hash else { return self.scope.millionths >= ALL };
        let version = u64::from_str_radix(&self.pipeline.version, 16).unwrap_or_default();
        mixed(hash ^ version) % u64::from(ALL) < u64::from(self.scope.millionths)
    }
}

/// The finisher of SplitMix64: each bit of the result depends on all bits.
fn mixed(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// A candidate in the making.
#[derive(Debug)]
pub(crate) struct CandidateDraft {
    /// The text that its version is the hash of.
    pub(super) canonical: String,
    pub(super) rules: Arc<RuleSet>,
    pub(super) effects: Table<Rule, Vec<EffectPlan>>,
    pub(super) scope: Option<CanaryScope>,
}

impl CandidateDraft {
    /// Returns the candidate of a pipeline that is otherwise done.
    pub(super) fn finish(self, of: &Pipeline) -> Candidate {
        let CandidateDraft { canonical, rules, effects, scope } = self;
        let version = crate::content_hash(canonical.as_bytes());
        let canary = scope.map(|scope| {
            let pipeline = Pipeline {
                version: version.clone(),
                canonical,
                rules: Arc::clone(&rules),
                effects: effects.clone(),
                candidate: None,
                ..of.clone()
            };
            Canary { scope, pipeline: Arc::new(pipeline) }
        });
        Candidate { version, rules, effects, canary }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_millionths_above_none() {
        fn check(share: f64, millionths: Option<u32>) {
            assert_eq!(
                CanaryScope::new(share, Vec::new()).map(|scope| scope.millionths),
                millionths,
                "{share}"
            );
        }
        check(0.05, Some(50_000));
        check(1.0, Some(1_000_000));
        check(1e-9, Some(1));
        for share in [0.0, -0.5, 1.000_1, f64::NAN, f64::INFINITY] {
            check(share, None);
        }
        assert!(CanaryScope::new(0.5, vec![1; 2000]).is_none());
    }

    #[test]
    fn nodes_are_all_or_those_that_are_named() {
        fn check(nodes: &[u16], node: Option<u16>, has: bool) {
            let scope = CanaryScope::new(1.0, nodes.to_vec()).unwrap();
            assert_eq!(scope.has_node(node), has, "{nodes:?} {node:?}");
        }
        check(&[], None, true);
        check(&[], Some(3), true);
        check(&[1, 3], Some(3), true);
        check(&[1, 3], Some(2), false);
        check(&[1], None, false);
    }
}
