//! Rules that are judged beside the enforced ones, and may decide for a part of the events: a canary.

use std::sync::Arc;

use event::Table;
use judge::{Rule, RuleSet};

use super::{EffectPlan, Pipeline};
use crate::canary_scope::{ALL, CanaryScope};

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
