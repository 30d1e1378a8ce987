//! Routes of searches in past decisions that have a name.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use engine::{PostedSearch, PostedSearchError};
use event::Span;
use serde::Deserialize;
use utoipa::IntoParams;

use super::decisions::DecisionFilterParams;
use super::{JsonBody, QueryParams};
use crate::api::{SearchJson, SearchRequest, SearchesJson};
use crate::core::blocking::blocking;
use crate::core::grant::note;
use crate::core::node::Node;
use crate::core::problem::{
    CONFLICT, HttpFailure, INTERNAL, INVALID_PARAMETER, NOT_FOUND, OVERLOADED, ProblemResponses, shown,
};

/// Most characters of a name.
const NAME_CHARS_MAX: usize = 100;
/// Most bytes of all that a search asks for.
const ASKS_BYTES_MAX: usize = 8 << 10;

/// Lists the searches that have a name: those of the configuration, and those saved on this node.
#[utoipa::path(
    get,
    path = "/v1/searches",
    tag = "feedback",
    operation_id = "searches",
    responses((status = 200, description = "The searches", body = SearchesJson), ProblemResponses),
)]
pub(crate) async fn searches(State(node): State<Arc<Node>>) -> Json<SearchesJson> {
    let plan = node.engine.plan();
    let configured = plan.searches.iter().map(|search| SearchJson {
        name: search.name.clone(),
        description: search.description.clone(),
        asks: search.asks.iter().map(|(name, text)| ((*name).to_owned(), text.clone())).collect(),
        configured: true,
    });
    let posted = node.engine.posted_searches();
    let posted = posted.iter().map(|search| SearchJson {
        name: search.name.clone(),
        description: search.name.clone(),
        asks: search.asks.clone(),
        configured: false,
    });
    Json(SearchesJson { searches: configured.chain(posted).collect() })
}

/// Saves a search on this node, replacing one of the same name. There can be 200.
#[utoipa::path(
    put,
    path = "/v1/searches",
    tag = "feedback",
    operation_id = "save_search",
    request_body = SearchRequest,
    responses((status = 200, description = "The searches by now", body = SearchesJson), ProblemResponses),
)]
pub(crate) async fn save(
    State(node): State<Arc<Node>>,
    JsonBody(wanted): JsonBody<SearchRequest>,
) -> Result<Json<SearchesJson>, HttpFailure> {
    note("name", wanted.name.clone());
    check(&node, &wanted)?;
    let (engine, SearchRequest { name, asks }) = (Arc::clone(&node.engine), wanted);
    blocking(move || engine.post_search(PostedSearch { name, asks })).await.map_err(unsaved)?;
    Ok(searches(State(node)).await)
}

/// The search that is to be removed.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct SearchRemovalParams {
    /// Its name.
    pub(crate) name: String,
}

/// Removes a search that was saved on this node.
#[utoipa::path(
    delete,
    path = "/v1/searches",
    tag = "feedback",
    operation_id = "remove_search",
    params(SearchRemovalParams),
    responses((status = 200, description = "The searches by now", body = SearchesJson), ProblemResponses),
)]
pub(crate) async fn remove(
    State(node): State<Arc<Node>>,
    QueryParams(SearchRemovalParams { name }): QueryParams<SearchRemovalParams>,
) -> Result<Json<SearchesJson>, HttpFailure> {
    note("name", name.clone());
    let (engine, of) = (Arc::clone(&node.engine), name.clone());
    if !blocking(move || engine.remove_search(&of)).await.map_err(unsaved)? {
        let failure = NOT_FOUND.failure(format!("no search `{}` was saved here", shown(&name)));
        return Err(failure.help("`/v1/searches` lists them; those of the configuration are changed there"));
    }
    Ok(searches(State(node)).await)
}

fn unsaved(error: PostedSearchError) -> HttpFailure {
    match error {
        PostedSearchError::Full => OVERLOADED.failure(error.to_string()),
        PostedSearchError::Directory(error) => {
            tracing::error!(%error, "a search could not be kept");
            INTERNAL.failure("searches could not be written").help("the node's log says why")
        }
    }
}

/// Checks that a search can be asked.
fn check(node: &Node, wanted: &SearchRequest) -> Result<(), HttpFailure> {
    let SearchRequest { name, asks } = wanted;
    let is_name = !name.trim().is_empty()
        && name.chars().count() <= NAME_CHARS_MAX
        && !name.chars().any(char::is_control);
    if !is_name {
        let detail = format!("name: expected 1 to {NAME_CHARS_MAX} characters, and no control characters");
        return Err(INVALID_PARAMETER.failure(detail));
    }
    if node.engine.plan().searches.iter().any(|search| search.name == *name) {
        let failure = CONFLICT.failure(format!("the configuration has a search `{}`", shown(name)));
        return Err(failure.help("take another name"));
    }
    if asks.values().map(String::len).sum::<usize>() > ASKS_BYTES_MAX {
        return Err(INVALID_PARAMETER.failure(format!("asks: more than {ASKS_BYTES_MAX} bytes")));
    }
    let mut filter = DecisionFilterParams::default();
    for (key, text) in asks {
        let unfit = |why: &str| INVALID_PARAMETER.failure(format!("asks: {key}: {why}"));
        let place = match key.as_str() {
            "pipeline" => {
                node.pipeline(Some(text))?;
                &mut filter.pipeline
            }
            "text" => &mut filter.text,
            "action" => &mut filter.action,
            "rule" => &mut filter.rule,
            "kind" => &mut filter.kind,
            "value" => &mut filter.value,
            "where" => &mut filter.r#where,
            "label" => &mut filter.label,
            "score_from" | "score_below" => {
                let score = text.parse::<f64>().ok().filter(|score| score.is_finite());
                score.ok_or_else(|| unfit("expected a number"))?;
                continue;
            }
            "last" => {
                text.parse::<Span>().map_err(|error| unfit(&error.to_string()))?;
                continue;
            }
            "facts" => continue,
            _ => {
                let detail = format!("asks: a search does not ask for `{}`", shown(key));
                return Err(INVALID_PARAMETER.failure(detail));
            }
        };
        *place = Some(text.clone());
    }
    filter.read().map(drop)
}
