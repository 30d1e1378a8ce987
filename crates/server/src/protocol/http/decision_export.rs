//! Past decisions as a file: CSV for spreadsheets, or a JSON object a line.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use engine::DecisionFilter;
use futures_util::StreamExt;
use futures_util::stream::{once, unfold};
use serde::Deserialize;
use utoipa::IntoParams;

use super::decisions::{DecisionPageParams, FilterQuery, page_of_all};
use crate::api::{DecisionPageJson, ListedDecisionJson, csv_head, csv_row};
use crate::core::grant::note;
use crate::core::node::Node;
use crate::core::problem::{HttpFailure, INVALID_PARAMETER, ProblemResponses, UNAVAILABLE};
use crate::protocol::input::JSON_LINES;

/// Most decisions of an export; more are for `tollhouse export`.
pub(crate) const EXPORT_MAX: usize = 100_000;
/// Decisions of an export, unless it is asked for fewer or more.
const EXPORT: usize = 10_000;
/// Decisions that are looked up at once.
const PAGE: usize = 500;
/// The time within which an export has to end.
const PATIENCE: Duration = Duration::from_secs(120);

/// The form of an export.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ExportFormat {
    /// Comma-separated values (RFC 4180), with a line of names.
    #[default]
    Csv,
    /// A JSON object a line, as lists have it.
    Ndjson,
}

/// The export that is asked for.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ExportParams {
    /// `csv`, which is the default, or `ndjson`.
    #[param(inline)]
    pub(crate) format: Option<ExportFormat>,
    /// The facts that are exported, separated by commas, a column each; `*` for all that have a value, for `ndjson` alone.
    pub(crate) facts: Option<String>,
    /// Most decisions, up to 100,000; 10,000 if none is given.
    pub(crate) limit: Option<usize>,
    /// Only decisions below this one: `next` of a list.
    pub(crate) after: Option<String>,
}

/// Exports past decisions of all nodes as a file, newest first, with the filters of `GET /v1/decisions`. A failed export
/// breaks off.
///
/// In CSV, texts that a spreadsheet would take for formulas get an apostrophe in front.
#[utoipa::path(
    get,
    path = "/v1/decisions/export",
    tag = "feedback",
    operation_id = "decisions_export",
    params(super::decisions::DecisionFilterParams, ExportParams),
    responses(
        (
            status = 200,
            description = "The decisions",
            content((String = "text/csv"), (ListedDecisionJson = "application/x-ndjson")),
        ),
        ProblemResponses,
    ),
)]
pub(super) async fn export(
    State(node): State<Arc<Node>>,
    FilterQuery(filter, params): FilterQuery<ExportParams>,
) -> Result<Response, HttpFailure> {
    exported(&node, filter, params).await
}

/// An export that goes on page by page.
struct RunningExport {
    node: Arc<Node>,
    filter: DecisionFilter,
    format: ExportFormat,
    facts: Option<String>,
    columns: Vec<String>,
    after: Option<String>,
    left: usize,
    end: Instant,
}

impl RunningExport {
    async fn page(&mut self) -> Result<DecisionPageJson, HttpFailure> {
        let params = DecisionPageParams {
            facts: self.facts.clone(),
            limit: Some(self.left.clamp(1, PAGE)),
            after: self.after.take(),
            since: None,
        };
        let page = page_of_all(&self.node, self.filter.clone(), params).await?;
        if let Some(absent) = page.absent.first() {
            let failure =
                UNAVAILABLE.failure(format!("node {absent} does not answer: its decisions would be missing"));
            return Err(
                failure.help("ask again once it is back; `tollhouse export` exports the journal of one node")
            );
        }
        self.left = self.left.saturating_sub(page.decisions.len());
        self.after = page.next.clone().filter(|_| self.left > 0);
        Ok(page)
    }

    fn written(&self, page: &DecisionPageJson) -> Bytes {
        let mut text = String::new();
        for one in &page.decisions {
            match self.format {
                ExportFormat::Csv => csv_row(&mut text, one, &self.columns),
                // No type here refuses to be written.
                ExportFormat::Ndjson => {
                    text.push_str(&serde_json::to_string(one).unwrap_or_default());
                    text.push('\n');
                }
            }
        }
        text.into()
    }
}

/// Exports past decisions of all nodes.
pub(crate) async fn exported(
    node: &Arc<Node>,
    filter: DecisionFilter,
    params: ExportParams,
) -> Result<Response, HttpFailure> {
    let left = params.limit.unwrap_or(EXPORT);
    if !(1..=EXPORT_MAX).contains(&left) {
        let failure = INVALID_PARAMETER.failure(format!("limit: expected 1 to {EXPORT_MAX}"));
        return Err(failure.help("`tollhouse export` writes more, also as Parquet"));
    }
    let format = params.format.unwrap_or_default();
    let facts = params.facts.filter(|facts| !facts.trim().is_empty());
    if format == ExportFormat::Csv && facts.as_deref().is_some_and(|facts| facts.trim() == "*") {
        let failure = INVALID_PARAMETER.failure("facts: CSV needs names, as each is a column");
        return Err(failure.help("name them, or ask for `format=ndjson`"));
    }
    let named = facts.as_deref().unwrap_or_default().split(',').map(str::trim);
    let columns: Vec<String> = named.filter(|name| !name.is_empty()).map(str::to_owned).collect();
    let (media, name) = match format {
        ExportFormat::Csv => ("text/csv; charset=utf-8; header=present", "decisions.csv"),
        ExportFormat::Ndjson => (JSON_LINES, "decisions.ndjson"),
    };
    node.audit.check()?;
    note("export", name);
    note("pipeline", filter.pipeline.clone().unwrap_or_default());
    let (node, after, end) = (Arc::clone(node), params.after, Instant::now() + PATIENCE);
    let mut running = RunningExport { node, filter, format, facts, columns, after, left, end };
    // What is wrong with a query is said before anything is sent.
    let first = running.page().await?;
    let mut begin =
        if format == ExportFormat::Csv { csv_head(&running.columns) } else { String::new() }.into_bytes();
    begin.extend_from_slice(&running.written(&first));
    let begin = once(std::future::ready(Ok(Bytes::from(begin))));
    let rest = unfold(Some(running), async |running| {
        let mut running = running?;
        running.after.as_ref()?;
        let is_late = Instant::now() >= running.end || running.node.is_stopping();
        let page = match is_late {
            true => Err(io::Error::other("the export takes too long")),
            false => running.page().await.map_err(|failure| io::Error::other(failure.problem().detail)),
        };
        match page {
            Ok(page) => Some((Ok(running.written(&page)), Some(running))),
            Err(error) => Some((Err(error), None)),
        }
    });
    let body = Body::from_stream(begin.chain(rest));
    let disposition = HeaderValue::try_from(format!("attachment; filename=\"{name}\""));
    let disposition = disposition.unwrap_or_else(|_| HeaderValue::from_static("attachment"));
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(media)),
        (header::CONTENT_DISPOSITION, disposition),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    ];
    Ok((headers, body).into_response())
}
