//! Decisions on events nearly like another's: they share near-duplicate fingerprints of text, attachments or images.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use engine::{DecisionFilter, KeyChoice};
use serde::Deserialize;
use tokio::time::Instant;
use utoipa::IntoParams;

use super::decisions::{self, DecisionPageParams};
use super::{QueryParams, feedback};
use crate::api::{ListedDecisionJson, SimilarDecisionJson, SimilarDecisionsJson};
use crate::core::node::Node;
use crate::core::problem::{HttpFailure, INVALID_PARAMETER, ProblemResponses};

/// Fingerprints that are looked for.
const FINGERPRINTS_MAX: usize = 24;
/// Decisions that are read of each.
const OF_EACH: usize = 100;
/// Decisions that are answered, unless fewer or more are asked for.
const ANSWERED: usize = 20;
/// Most decisions that are answered.
const ANSWERED_MAX: usize = 100;

/// The decisions that are wanted.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct SimilarParams {
    /// Most decisions, up to 100; 20 if none is given.
    pub(crate) limit: Option<usize>,
    /// The facts that are shown, separated by commas; `*` for all that have a value.
    pub(crate) facts: Option<String>,
}

/// Lists decisions on events nearly like this one's: those that share most near-duplicate fingerprints of its text, attachments or
/// images first. Reads the newest 100 decisions with each of up to 24 fingerprints, on all nodes.
#[utoipa::path(
    get,
    path = "/v1/decisions/{id}/similar",
    tag = "decide",
    operation_id = "similar_decisions",
    params(("id" = String, Path, description = "The decision's id"), SimilarParams),
    responses((status = 200, description = "The decisions", body = SimilarDecisionsJson), ProblemResponses),
)]
pub(crate) async fn similar(
    State(node): State<Arc<Node>>,
    Path(id): Path<String>,
    QueryParams(SimilarParams { limit, facts }): QueryParams<SimilarParams>,
) -> Result<Json<SimilarDecisionsJson>, HttpFailure> {
    let limit = limit.unwrap_or(ANSWERED);
    if !(1..=ANSWERED_MAX).contains(&limit) {
        return Err(INVALID_PARAMETER.failure(format!("limit: expected 1 to {ANSWERED_MAX}")));
    }
    let end = Instant::now() + node.timeout() / 3;
    let explained = feedback::explained(&node, &id, false).await?;
    let own = explained.id.as_deref().unwrap_or(&id);
    let pipeline = node.pipeline(Some(&explained.pipeline))?;
    let is_near_duplicate = |name: &str| {
        pipeline.kinds.iter().any(|kind| kind.name == name && pipeline.is_of_near_duplicates(kind))
    };
    let keys = explained.keys.iter().filter(|key| is_near_duplicate(&key.kind));
    let keys: Vec<KeyChoice> = keys
        .filter_map(|key| Some(KeyChoice { kind: key.kind.clone(), value: key.piece.clone()? }))
        .take(FINGERPRINTS_MAX)
        .collect();
    let mut found = SimilarDecisionsJson { fingerprints: keys.len(), ..SimilarDecisionsJson::default() };
    let mut shared: HashMap<String, (usize, ListedDecisionJson)> = HashMap::new();
    for key in keys {
        if Instant::now() >= end {
            found.partial = true;
            break;
        }
        let filter = DecisionFilter {
            pipeline: Some(pipeline.name.clone()),
            key: Some(key),
            ..DecisionFilter::default()
        };
        let asked =
            DecisionPageParams { facts: facts.clone(), limit: Some(OF_EACH), after: None, since: None };
        let page = decisions::page_of_all(&node, filter, asked).await?;
        found.partial |= page.partial;
        found.absent.extend(page.absent);
        for decision in page.decisions.into_iter().filter(|decision| decision.id != own) {
            shared.entry(decision.id.clone()).or_insert((0, decision)).0 += 1;
        }
    }
    found.absent.sort_unstable();
    found.absent.dedup();
    let all = shared.into_values().map(|(shared, decision)| SimilarDecisionJson { shared, decision });
    found.decisions = all.collect();
    found.decisions.sort_by(|one, other| {
        other.shared.cmp(&one.shared).then_with(|| other.decision.id.cmp(&one.decision.id))
    });
    found.decisions.truncate(limit);
    Ok(Json(found))
}
