//! Limits for Envoy: the files that `[envoy]` names, and what answers carry.

use crate::config::{Config, ConfigProblems};
use crate::formats::envoy::Domains;

/// The settings by which Envoy's requests are answered.
#[derive(Debug, Default)]
pub struct EnvoyPlan {
    /// The limits.
    pub domains: Domains,
    /// True if answers carry header fields for the client.
    pub response_headers: bool,
    /// True if answers carry metadata for Envoy's other filters.
    pub response_metadata: bool,
}

impl EnvoyPlan {
    pub(super) fn compile(config: &Config, problems: &mut ConfigProblems) -> EnvoyPlan {
        let view = config.main().section("envoy");
        let is = |key: &str| view.and_then(|view| view.bool(key)).unwrap_or_default();
        EnvoyPlan {
            domains: Domains::compile(config.envoy(), is("merge_domains"), problems),
            response_headers: is("response_headers"),
            response_metadata: is("response_metadata"),
        }
    }
}
