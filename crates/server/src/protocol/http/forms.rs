//! Forms and bait for applications: what a page is to have, before it comes back with an event.

use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::HeaderMap;
use gate::bait::BaitNames;
use gate::form::{NAME_BYTES_MAX, is_form_name};
use plan::{BaitPlan, Pipeline};
use serde::Deserialize;
use utoipa::IntoParams;

use super::QueryParams;
use crate::api;
use crate::core::node::Node;
use crate::core::preparation::LookupMode;
use crate::core::problem::{HttpFailure, INTERNAL, INVALID_PARAMETER, ProblemResponses, shown};
use crate::protocol::input::{self, MessageReadOptions};

/// The form that is rendered.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct FormParams {
    /// The pipeline that will decide on what is sent; the first of the configuration if none is named.
    pipeline: Option<String>,
    /// The name of the form: up to 32 letters, digits, `_`, `-` and `.`. `form` if none is given.
    form: Option<String>,
}

/// The pipeline whose bait is asked for.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct BaitParams {
    /// The pipeline; the first of the configuration if none is named.
    pipeline: Option<String>,
}

/// Issues a form's token for a visitor. Nothing is decided or logged.
#[utoipa::path(
    post,
    path = "/v1/forms",
    tag = "forms",
    operation_id = "issue_form",
    params(FormParams),
    request_body(
        description = "The event, as for /v1/decide: at least the fields that tell the visitor",
        content((serde_json::Value = "application/json")),
    ),
    responses((status = 200, description = "The token", body = api::FormTokenJson), ProblemResponses),
)]
pub(super) async fn issue(
    State(node): State<Arc<Node>>,
    QueryParams(params): QueryParams<FormParams>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Json<api::FormTokenJson>, HttpFailure> {
    let pipeline = node.pipeline(params.pipeline.as_deref())?;
    let Some(plan) = &pipeline.form else { return Err(lacks(&pipeline, "forms", "[form]")) };
    let form = params.form.as_deref().unwrap_or("form");
    if !is_form_name(form) {
        let failure = INVALID_PARAMETER.failure(format!("form: `{}` is no name", shown(form)));
        return Err(failure.help(format!("take 1 to {NAME_BYTES_MAX} letters, digits, `_`, `-` and `.`")));
    }
    let reading = MessageReadOptions::default();
    let event = input::submitted(&node, &pipeline, &headers, reading, body, LookupMode::None).await?;
    let token = node.engine.issue_form(&pipeline, event.prepared.facts(), form, node.now());
    let token = token.ok_or_else(|| INTERNAL.failure("no token can be made"))?;
    Ok(Json(api::FormTokenJson { token, seconds: seconds(plan.expires) }))
}

/// Returns the current names of honeypot fields and links, with their HTML.
#[utoipa::path(
    get,
    path = "/v1/baits",
    tag = "forms",
    params(BaitParams),
    responses((status = 200, description = "Names and HTML", body = api::BaitsJson), ProblemResponses),
)]
pub(super) async fn baits(
    State(node): State<Arc<Node>>,
    QueryParams(params): QueryParams<BaitParams>,
) -> Result<Json<api::BaitsJson>, HttpFailure> {
    let pipeline = node.pipeline(params.pipeline.as_deref())?;
    let Some(plan) = &pipeline.bait else { return Err(lacks(&pipeline, "bait", "[bait]")) };
    let now = node.now();
    Ok(Json(page(plan, &node.engine.bait_names(&pipeline, now), seconds(BaitNames::remaining(now)))))
}

/// The bait of a page. All parts of the HTML have safe signs only: the names by how they are made, the prefix by its check.
fn page(plan: &BaitPlan, names: &BaitNames, seconds: u32) -> api::BaitsJson {
    let BaitNames { fields, links, class } = names;
    let prefix = &plan.prefix;
    // The text is for people without style sheets. Off the tab order and hidden from screen readers, so that nobody is led in.
    let field = |name: &String| api::BaitJson {
        html: format!(
            "<div class=\"{class}\" aria-hidden=\"true\"><label for=\"{name}\">Leave this empty</label> \
             <input type=\"text\" id=\"{name}\" name=\"{name}\" value=\"\" tabindex=\"-1\" autocomplete=\"off\"></div>"
        ),
        name: name.clone(),
    };
    let link = |name: &String| api::BaitJson {
        html: format!(
            "<a href=\"{prefix}{name}\" rel=\"nofollow\" hidden aria-hidden=\"true\" tabindex=\"-1\">More</a>"
        ),
        name: format!("{prefix}{name}"),
    };
    api::BaitsJson {
        fields: fields.iter().map(field).collect(),
        links: links.iter().map(link).collect(),
        css: format!(
            ".{class} {{ position: absolute; width: 1px; height: 1px; margin: -1px; overflow: hidden; \
             clip-path: inset(50%); white-space: nowrap }}"
        ),
        robots: format!("User-agent: *\nDisallow: {prefix}\n"),
        parameters: plan.parameters.clone(),
        seconds,
    }
}

fn seconds(span: event::Span) -> u32 {
    u32::try_from(span.0 / 1_000_000).unwrap_or(u32::MAX)
}

fn lacks(pipeline: &Pipeline, what: &str, section: &str) -> HttpFailure {
    let failure = INVALID_PARAMETER.failure(format!("the pipeline `{}` has no {what}", pipeline.name));
    failure.help(format!("add `{section}` to its configuration, or name another one"))
}
