//! Past decisions as a file: CSV for spreadsheets, a JSON object a line, or Parquet for notebooks.

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
use journal::export::ExportError;
use serde::Deserialize;
use utoipa::IntoParams;

use super::decisions::{DecisionPageParams, FilterQuery, page_of_all};
use crate::api::{DecisionPageJson, DecisionTable, ListedDecisionJson, column_type, csv_head, csv_row};
use crate::core::blocking::blocking;
use crate::core::grant::note;
use crate::core::node::Node;
use crate::core::problem::{HttpFailure, INTERNAL, INVALID_PARAMETER, ProblemResponses, UNAVAILABLE};
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
    /// Apache Parquet, with a column of its type for each fact.
    Parquet,
}

/// The export that is asked for.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ExportParams {
    /// `csv`, which is the default, `ndjson` or `parquet`.
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
            content(
                (String = "text/csv"),
                (ListedDecisionJson = "application/x-ndjson"),
                (Vec<u8> = "application/vnd.apache.parquet"),
            ),
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
    /// The file, if it is Parquet and has not ended.
    table: Option<DecisionTable>,
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

    /// Writes a page, and the end behind the last one.
    async fn written(&mut self, page: DecisionPageJson) -> Result<Bytes, ExportError> {
        if let Some(mut table) = self.table.take() {
            let is_last = self.after.is_none();
            // Groups of rows are compressed.
            let (table, bytes) = blocking(move || {
                page.decisions.iter().try_for_each(|one| table.put(one))?;
                if is_last {
                    return Ok::<_, ExportError>((None, table.finish()?));
                }
                let bytes = table.take();
                Ok((Some(table), bytes))
            })
            .await?;
            self.table = table;
            return Ok(bytes.into());
        }
        let mut text = String::new();
        for one in &page.decisions {
            match self.format {
                ExportFormat::Csv => csv_row(&mut text, one, &self.columns),
                // No type here refuses to be written.
                ExportFormat::Ndjson | ExportFormat::Parquet => {
                    text.push_str(&serde_json::to_string(one).unwrap_or_default());
                    text.push('\n');
                }
            }
        }
        Ok(text.into())
    }
}

/// Begins a Parquet file whose facts have the types that the pipelines give them.
fn table(node: &Node, pipeline: Option<&str>, facts: &[String]) -> Result<DecisionTable, HttpFailure> {
    let plan = node.engine.plan();
    let kinds = |fact: &String| {
        let pipelines = plan.pipelines.iter().filter(|of| pipeline.is_none_or(|name| of.name == name));
        let schemas = pipelines.map(|pipeline| &pipeline.schema);
        let kinds = schemas.filter_map(|schema| Some(schema.column(schema.slot(fact)?).kind));
        (fact.clone(), column_type(kinds))
    };
    DecisionTable::new(facts.iter().map(kinds).collect()).map_err(|error| unwritten(&error))
}

fn unwritten(error: &ExportError) -> HttpFailure {
    tracing::error!(%error, "decisions cannot be exported");
    INTERNAL.failure("the export cannot be written").help("the node's log says why")
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
        return Err(failure.help("`tollhouse export` writes more"));
    }
    let format = params.format.unwrap_or_default();
    let facts = params.facts.filter(|facts| !facts.trim().is_empty());
    if format != ExportFormat::Ndjson && facts.as_deref().is_some_and(|facts| facts.trim() == "*") {
        let failure = INVALID_PARAMETER.failure("facts: CSV and Parquet need names, as each is a column");
        return Err(failure.help("name them, or ask for `format=ndjson`"));
    }
    let named = facts.as_deref().unwrap_or_default().split(',').map(str::trim);
    let columns: Vec<String> = named.filter(|name| !name.is_empty()).map(str::to_owned).collect();
    let (media, name) = match format {
        ExportFormat::Csv => ("text/csv; charset=utf-8; header=present", "decisions.csv"),
        ExportFormat::Ndjson => (JSON_LINES, "decisions.ndjson"),
        ExportFormat::Parquet => ("application/vnd.apache.parquet", "decisions.parquet"),
    };
    let is_table = format == ExportFormat::Parquet;
    let table = is_table.then(|| table(node, filter.pipeline.as_deref(), &columns)).transpose()?;
    node.audit.check()?;
    note("export", name);
    note("pipeline", filter.pipeline.clone().unwrap_or_default());
    let (node, after, end) = (Arc::clone(node), params.after, Instant::now() + PATIENCE);
    let mut running = RunningExport { node, filter, format, facts, columns, table, after, left, end };
    // What is wrong with a query is said before anything is sent.
    let first = running.page().await?;
    let mut begin =
        if format == ExportFormat::Csv { csv_head(&running.columns) } else { String::new() }.into_bytes();
    begin.extend_from_slice(&running.written(first).await.map_err(|error| unwritten(&error))?);
    let begin = once(std::future::ready(Ok(Bytes::from(begin))));
    let rest = unfold(Some(running), async |running| {
        let mut running = running?;
        running.after.as_ref()?;
        let is_late = Instant::now() >= running.end || running.node.is_stopping();
        let page = match is_late {
            true => Err(io::Error::other("the export takes too long")),
            false => running.page().await.map_err(|failure| io::Error::other(failure.problem().detail)),
        };
        let written = match page {
            Ok(page) => running.written(page).await.map_err(io::Error::other),
            Err(error) => Err(error),
        };
        match written {
            Ok(written) => Some((Ok(written), Some(running))),
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
