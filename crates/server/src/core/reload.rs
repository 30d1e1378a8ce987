//! Files of the configuration, taken over while the node runs.

use engine::{Engine, PipelineChange, Proposal, ReloadError, ReloadOutcome};
use event::Time;

/// Logs what came of a change of rules.
pub(crate) fn log_reload(changed: &Result<ReloadOutcome, ReloadError>) {
    match changed {
        Ok(reloaded) => {
            for PipelineChange { pipeline, before, after, candidate, .. } in &reloaded.changes {
                let [before, after, candidate] =
                    [before, after, candidate].map(|version| version.as_deref().unwrap_or("none"));
                tracing::info!(pipeline, before, after, candidate, "rules have changed");
            }
            for section in &reloaded.restart {
                tracing::warn!(section, "changed settings take effect at a restart");
            }
            for warning in reloaded.warnings.list() {
                tracing::warn!("{warning}");
            }
        }
        Err(error) => tracing::error!("rules were refused, the old stay in force:\n{error}"),
    }
}

/// Takes over what the configuration's files say now, whether or not they have changed, and logs what came of it.
/// Blocks.
pub fn reload(engine: &Engine, now: Time) {
    log_reload(&engine.change(Proposal::Files, now, false));
}
