//! Past decisions as a file: CSV for spreadsheets, or a JSON object a line.
//!
//! Spreadsheets take a cell that begins with `=`, `+`, `-` or `@` for a formula, and what strangers sent stands in cells: such texts get an
//! apostrophe in front (OWASP, "CSV Injection").

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
use serde_json::Value;
use utoipa::IntoParams;

use super::decisions::{DecisionPageParams, FilterQuery, own_page};
use crate::api::{DecisionPageJson, ListedDecisionJson};
use crate::core::grant::note;
use crate::core::node::Node;
use crate::core::problem::{HttpFailure, INVALID_PARAMETER, ProblemResponses};
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

/// Past decisions of this node as a file, newest first, by the filters of `GET /v1/decisions`. In CSV, texts that a spreadsheet would
/// take for formulas get an apostrophe in front. An export that cannot be finished breaks off, so that nobody takes a part for the
/// whole.
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
    own_export(&node, filter, params).await
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
        let page = own_page(&self.node, self.filter.clone(), params).await?;
        self.left = self.left.saturating_sub(page.decisions.len());
        self.after = page.next.clone().filter(|_| self.left > 0);
        Ok(page)
    }

    fn written(&self, page: &DecisionPageJson) -> Bytes {
        let mut text = String::new();
        for one in &page.decisions {
            match self.format {
                ExportFormat::Csv => row(&mut text, one, &self.columns),
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

/// Exports past decisions of this node.
pub(crate) async fn own_export(
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
        if format == ExportFormat::Csv { head(&running.columns) } else { String::new() }.into_bytes();
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

/// The columns before those of facts.
const COLUMNS: [&str; 11] = [
    "id",
    "event_id",
    "pipeline",
    "version",
    "time",
    "action",
    "score",
    "probability",
    "rules",
    "shadow",
    "label",
];

fn head(facts: &[String]) -> String {
    let mut text = COLUMNS.join(",");
    for fact in facts {
        text.push(',');
        cell(&mut text, fact);
    }
    text.push_str("\r\n");
    text
}

fn row(text: &mut String, one: &ListedDecisionJson, facts: &[String]) {
    let rules: Vec<&str> = one.rules.iter().map(|rule| rule.name.as_str()).collect();
    let cells = [
        one.id.as_str(),
        one.event_id.as_deref().unwrap_or_default(),
        &one.pipeline,
        &one.version,
        &one.time.to_string(),
        one.action.name(),
    ];
    for of in cells {
        cell(text, of);
        text.push(',');
    }
    text.push_str(&format!("{},{},", one.score, one.probability));
    for (index, of) in [&rules.join(" "), &one.shadow.join(" "), one.label.as_deref().unwrap_or_default()]
        .into_iter()
        .enumerate()
    {
        if index > 0 {
            text.push(',');
        }
        cell(text, of);
    }
    for fact in facts {
        text.push(',');
        match one.facts.get(fact) {
            None | Some(Value::Null) => {}
            Some(Value::Number(number)) => text.push_str(&number.to_string()),
            Some(Value::Bool(truth)) => text.push_str(if *truth { "true" } else { "false" }),
            Some(Value::String(of)) => cell(text, of),
            Some(other) => cell(text, &other.to_string()),
        }
    }
    text.push_str("\r\n");
}

/// Writes a text as a cell that is no formula.
fn cell(into: &mut String, text: &str) {
    // Spreadsheets pass over blanks before a formula, and some take what follows a tab or an end of line for one.
    let first = text.trim_start().chars().next();
    let is_formula = first
        .is_some_and(|sign| matches!(sign, '=' | '+' | '-' | '@' | '＝' | '＋' | '－' | '＠' | '|'))
        || text.starts_with(['\t', '\r', '\n']);
    let is_quoted = is_formula || text.contains([',', '"', '\r', '\n', ';', '\t']) || text.trim() != text;
    if !is_quoted {
        return into.push_str(text);
    }
    into.push('"');
    if is_formula {
        into.push('\'');
    }
    into.push_str(&text.replace('"', "\"\"").replace('\0', ""));
    into.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_strangers_sent_is_no_formula() {
        let check = |text: &str, expected: &str| {
            let mut found = String::new();
            cell(&mut found, text);
            assert_eq!(found, expected, "{text:?}");
        };
        check("ann@example.org", "ann@example.org");
        check("", "");
        check("a,b", "\"a,b\"");
        check("say \"a\"", "\"say \"\"a\"\"\"");
        check("=HYPERLINK(\"http://evil.example\")", "\"'=HYPERLINK(\"\"http://evil.example\"\")\"");
        for sign in ["=", "+", "-", "@", "\t=", " =", "＝", "\r", "\n@"] {
            let text = format!("{sign}1+1");
            let mut found = String::new();
            cell(&mut found, &text);
            assert!(found.starts_with("\"'"), "{text:?}: {found}");
        }
        check("a=1", "a=1");
        check("two\r\nlines", "\"two\r\nlines\"");
    }
}
