//! Rules that are judged beside the enforced ones.

use judge::RuleSet;

/// A candidate: rules that change nothing, and are compared with the enforced ones.
#[derive(Debug)]
pub struct Candidate {
    /// The version that the pipeline would have with it.
    pub version: String,
    /// Its rules and bands.
    pub rules: RuleSet,
}
