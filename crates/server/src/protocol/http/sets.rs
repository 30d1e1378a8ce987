//! Sets that conditions seek values in: which there are, and their entries, one by one.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use judge::Set;
use serde::Deserialize;
use utoipa::IntoParams;

use super::QueryParams;
use crate::api::{SetEntriesJson, SetJson, SetsJson};
use crate::core::node::Node;
use crate::core::problem::{HttpFailure, INVALID_PARAMETER, NOT_FOUND, ProblemResponses, shown};

/// Entries of a page, unless it is asked for fewer or more.
const PAGE: usize = 100;
/// Most entries of a page.
const PAGE_MAX: usize = 10_000;

/// The pipeline whose sets are asked for.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct SetsParams {
    /// The pipeline; the first of the configuration if none is named.
    pub(crate) pipeline: Option<String>,
}

/// Lists a pipeline's sets.
#[utoipa::path(
    get,
    path = "/v1/sets",
    tag = "rules",
    operation_id = "sets",
    params(SetsParams),
    responses((status = 200, description = "The sets", body = SetsJson), ProblemResponses),
)]
pub(crate) async fn sets(
    State(node): State<Arc<Node>>,
    QueryParams(SetsParams { pipeline }): QueryParams<SetsParams>,
) -> Result<Json<SetsJson>, HttpFailure> {
    let pipeline = node.pipeline(pipeline.as_deref())?;
    let sets = pipeline.sets.iter().map(|(name, set)| described(name, set)).collect();
    Ok(Json(SetsJson { pipeline: pipeline.name.clone(), sets }))
}

fn described(name: &str, set: &Set) -> SetJson {
    SetJson { name: name.to_owned(), kind: set.kind().name().to_owned(), entries: set.len() }
}

/// The entries that are asked for.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct SetEntryParams {
    /// The pipeline; the first of the configuration if none is named.
    pub(crate) pipeline: Option<String>,
    /// Only entries in which this stands, in letters of any size.
    pub(crate) text: Option<String>,
    /// Also returns whether this value is in the set.
    pub(crate) has: Option<String>,
    /// `next` of the page before.
    pub(crate) from: Option<usize>,
    /// Most entries of the page, up to 10,000; 100 if none is given.
    pub(crate) limit: Option<usize>,
}

/// Lists a set's entries. A page may come out short when its time is up; `next` continues.
#[utoipa::path(
    get,
    path = "/v1/sets/{name}",
    tag = "rules",
    operation_id = "set_entries",
    params(("name" = String, Path, description = "The set"), SetEntryParams),
    responses((status = 200, description = "A page of entries", body = SetEntriesJson), ProblemResponses),
)]
pub(crate) async fn entries(
    State(node): State<Arc<Node>>,
    Path(name): Path<String>,
    QueryParams(params): QueryParams<SetEntryParams>,
) -> Result<Json<SetEntriesJson>, HttpFailure> {
    let SetEntryParams { pipeline, text, has, from, limit } = params;
    let limit = limit.unwrap_or(PAGE);
    if !(1..=PAGE_MAX).contains(&limit) {
        return Err(INVALID_PARAMETER.failure(format!("limit: expected 1 to {PAGE_MAX}")));
    }
    let pipeline = node.pipeline(pipeline.as_deref())?;
    let set = pipeline.sets.iter().find(|(own, _)| *own == name).map(|(_, set)| Arc::clone(set));
    let set = set.ok_or_else(|| {
        NOT_FOUND.failure(format!("there is no set `{}`", shown(&name))).help("`/v1/sets` lists them")
    })?;
    let found = has.map(|value| set.has(&value));
    let shown = described(&name, &set);
    let (text, from) = (text.map(|text| text.to_lowercase()), from.unwrap_or(0));
    let work = move |is_over: &(dyn Fn() -> bool + Sync)| {
        let (mut page, mut next) = (Vec::new(), None);
        for (place, entry) in (from..).zip(set.entries_from(from)) {
            if page.len() == limit || place % CLOCK_ENTRIES == 0 && is_over() {
                next = Some(place);
                break;
            }
            if text.as_ref().is_none_or(|text| entry.to_lowercase().contains(text.as_str())) {
                page.push(entry);
            }
        }
        (page, next)
    };
    let (page, next) = node.lookups.run(node.timeout() / 2, work).await?;
    Ok(Json(SetEntriesJson { set: shown, page, next, found }))
}

/// Entries that are looked at before the clock is asked again.
const CLOCK_ENTRIES: usize = 1024;
