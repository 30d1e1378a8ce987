//! Problems in JSON.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// An error, as RFC 9457 writes it (`application/problem+json`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Problem)]
pub struct ProblemJson {
    /// `urn:tollhouse:problem:` and a stable word to tell problems by.
    #[serde(rename = "type")]
    pub kind: String,
    /// The kind of the problem; the same for all of one type.
    pub title: String,
    /// The HTTP status. In the lines of a batch, the one that the line alone would have got.
    pub status: u16,
    /// The description of what is wrong here, and where.
    pub detail: String,
    /// The advice on what to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
    /// Every mistake in a configuration that was refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<DiagnosticJson>,
}

/// A mistake in a configuration, or something suspicious about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Diagnostic)]
pub struct DiagnosticJson {
    /// `error` or `warning`.
    pub severity: String,
    /// The name of the file, without its folder; `posted rules` or `candidate` for a text that was sent.
    pub file: String,
    /// The line, counted from 1.
    pub line: usize,
    /// The column, counted from 1 in characters.
    pub column: usize,
    /// The description of what is wrong.
    pub message: String,
    /// The advice on what to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
}

impl From<&plan::ConfigProblem> for DiagnosticJson {
    fn from(problem: &plan::ConfigProblem) -> DiagnosticJson {
        let (line, column) = problem.origin.line_column();
        // Where the node's files lie is for its log.
        let file = problem.origin.source.name.rsplit('/').next().unwrap_or_default().to_owned();
        DiagnosticJson {
            severity: problem.severity.name().to_owned(),
            file,
            line,
            column,
            message: problem.message.clone(),
            help: problem.help.clone(),
        }
    }
}
