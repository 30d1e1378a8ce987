//! Events for which a candidate decides.

use serde::{Deserialize, Serialize};

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
pub(crate) const ALL: u32 = 1_000_000;

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
