//! Changes of rules, and candidates, in JSON.

use std::collections::BTreeMap;

use judge::Action;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{DiagnosticJson, Timestamp, action_schema};

/// The text that stands over the file of a pipeline, and the versions that can be gone back to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Rules)]
pub struct RulesJson {
    /// The pipeline.
    pub pipeline: String,
    /// The version in force, which every decision names.
    pub version: String,
    /// True if a kept version is in force that was gone back to, and not what file and posted text say.
    pub back: bool,
    /// The text that is laid over the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub posted: Option<String>,
    /// The version that the pipeline would have with its candidate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub candidate: Option<String>,
    /// The versions that were in force, the newest first, each once.
    pub versions: Vec<VersionJson>,
}

/// A version that can be gone back to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Version)]
pub struct VersionJson {
    /// Its name.
    pub version: String,
    /// The time at which it was last put in force; left out if that was at a start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// The origin of the change: `start`, `files`, `post`, `promote` or `back`.
    pub by: String,
}

impl From<&engine::RulesInfo> for RulesJson {
    fn from(info: &engine::RulesInfo) -> RulesJson {
        let versions = info.versions.iter().map(|version| VersionJson {
            version: version.version.clone(),
            since: version.since.map(Timestamp),
            by: version.by.clone(),
        });
        RulesJson {
            pipeline: info.pipeline.clone(),
            version: info.version.clone(),
            back: info.back,
            posted: info.posted.clone(),
            candidate: info.candidate.clone(),
            versions: versions.collect(),
        }
    }
}

/// The effect that a change of rules had, or would have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = ReloadOutcome)]
pub struct ReloadOutcomeJson {
    /// A trial run: nothing was changed.
    pub dry_run: bool,
    /// The pipelines that are judged otherwise; none if all is as it was.
    pub changes: Vec<PipelineChangeJson>,
    /// The warnings of what is suspicious about the configuration.
    pub warnings: Vec<DiagnosticJson>,
    /// Sections of the node whose settings have changed, and are heeded by a restart only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub restart: Vec<String>,
    /// Other nodes of the cluster, by number and name, on which what was posted is not in force yet: they are away, or their
    /// conditions say why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub behind: Vec<String>,
}

/// The change in how a pipeline is judged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = PipelineChange)]
pub struct PipelineChangeJson {
    /// The pipeline.
    pub pipeline: String,
    /// Its version before; left out for a pipeline that is new.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// Its version now; left out for a pipeline that is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// The version that it would have with its candidate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub candidate: Option<String>,
    /// Entries that are new, such as `rule.NAME` or `constants.bulk`.
    pub added: Vec<String>,
    /// Entries that are gone.
    pub removed: Vec<String>,
    /// Entries that say something else.
    pub changed: Vec<String>,
    /// Kinds that are counted from now on.
    pub counted: Vec<String>,
}

impl ReloadOutcomeJson {
    /// Returns the outcome that the engine gives of a change.
    pub fn new(reloaded: &engine::ReloadOutcome, dry_run: bool) -> ReloadOutcomeJson {
        let changes = reloaded.changes.iter().cloned().map(|change| PipelineChangeJson {
            pipeline: change.pipeline,
            before: change.before,
            after: change.after,
            candidate: change.candidate,
            added: change.added,
            removed: change.removed,
            changed: change.changed,
            counted: change.counted,
        });
        ReloadOutcomeJson {
            dry_run,
            changes: changes.collect(),
            warnings: reloaded.warnings.list().iter().map(DiagnosticJson::from).collect(),
            restart: reloaded.restart.iter().map(|section| (*section).to_owned()).collect(),
            behind: Vec::new(),
        }
    }
}

/// The version to go back to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RollbackRequest {
    /// The version, or as much of its beginning as no other has.
    pub version: String,
    /// The pipeline; the first of the configuration if none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pipeline: Option<String>,
}

/// The comparison of a candidate with what is enforced, since either was changed or the node was started.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Comparison)]
pub struct ComparisonJson {
    /// The pipeline.
    pub pipeline: String,
    /// The version that is enforced.
    pub version: String,
    /// The version that it would have with the candidate.
    pub candidate: String,
    /// Events that both judged.
    pub events: u64,
    /// Events for which they ask for different actions.
    pub disagreements: u64,
    /// `disagreements / events`; 0 without events.
    pub rate: f64,
    /// Events for which they ask for the same action by different scores.
    pub rescored: u64,
    /// The number of times for each pair of actions, one enforced and one that the candidate asked for: by the enforced
    /// action, then the candidate's.
    pub actions: BTreeMap<String, BTreeMap<String, u64>>,
    /// The latest events for which they disagree, the newest first.
    pub examples: Vec<DisagreementJson>,
}

/// An event for which enforced rules and candidate ask for different actions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Disagreement)]
pub struct DisagreementJson {
    /// The decision's name, for `GET /v1/decisions/{id}`.
    pub id: String,
    /// The caller's name for the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_id: Option<String>,
    /// The time of the event.
    pub time: Timestamp,
    /// The verdict that was enforced.
    pub enforced: ComparedVerdictJson,
    /// The verdict of the candidate.
    pub candidate: ComparedVerdictJson,
}

/// The verdict of rules on an event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = ComparedVerdict)]
pub struct ComparedVerdictJson {
    /// The action.
    #[schema(schema_with = action_schema)]
    pub action: Action,
    /// The score.
    pub score: f64,
    /// Rules that fired, at most 32.
    pub rules: Vec<String>,
}

impl From<&engine::ComparedVerdict> for ComparedVerdictJson {
    fn from(judged: &engine::ComparedVerdict) -> ComparedVerdictJson {
        ComparedVerdictJson { action: judged.action, score: judged.score, rules: judged.rules.clone() }
    }
}

impl From<&engine::CandidateComparison> for ComparisonJson {
    fn from(comparison: &engine::CandidateComparison) -> ComparisonJson {
        let mut actions: BTreeMap<String, BTreeMap<String, u64>> = BTreeMap::new();
        for (enforced, candidate, count) in &comparison.actions {
            actions.entry(enforced.to_string()).or_default().insert(candidate.to_string(), *count);
        }
        let examples = comparison.examples.iter().map(|example| DisagreementJson {
            id: example.id.to_string(),
            event_id: example.event_id.clone(),
            time: Timestamp(example.time),
            enforced: ComparedVerdictJson::from(&example.enforced),
            candidate: ComparedVerdictJson::from(&example.candidate),
        });
        ComparisonJson {
            pipeline: comparison.pipeline.clone(),
            version: comparison.version.clone(),
            candidate: comparison.candidate.clone(),
            events: comparison.events,
            disagreements: comparison.disagreements,
            rate: comparison.disagreements as f64 / comparison.events.max(1) as f64,
            rescored: comparison.rescored,
            actions,
            examples: examples.collect(),
        }
    }
}
