//! A scenario: which records are poured into which bucket, and when it overflows.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::crowdsec::expression::CrowdsecExpression;
use crate::crowdsec::node::NodeReader;
use crate::crowdsec::yaml::DocumentNode;
use crate::crowdsec::{CrowdsecProblem, duration};
use crate::grok::GrokLibrary;

/// The kind of a scenario's buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScenarioKind {
    /// Each record overflows.
    Trigger,
    /// Records leak out one by one; more than fit overflow.
    Leaky,
    /// All records of a time are counted.
    Counter,
    /// A condition on what is in the bucket decides.
    Conditional,
    /// The probability after several conditions decides.
    Bayesian,
}

/// A condition of a Bayesian bucket.
#[derive(Clone, Debug)]
pub(crate) struct BayesianCondition {
    pub(crate) condition: CrowdsecExpression,
    pub(crate) given_evil: f64,
    pub(crate) given_benign: f64,
    /// True if it stays true once it was.
    pub(crate) is_guillotine: bool,
}

/// A scenario.
#[derive(Clone, Debug)]
pub struct CrowdsecScenario {
    /// The name, with its author.
    pub name: Arc<str>,
    /// The file that it stands in.
    pub file: Arc<str>,
    /// The line in the file, from 1.
    pub line: usize,
    /// The kind of its buckets.
    pub kind: ScenarioKind,
    /// A sentence about it.
    pub description: Arc<str>,
    pub(crate) filter: CrowdsecExpression,
    pub(crate) filter_text: Arc<str>,
    pub(crate) group_by: Option<CrowdsecExpression>,
    pub(crate) distinct: Option<CrowdsecExpression>,
    pub(crate) cancel_on: Option<CrowdsecExpression>,
    pub(crate) overflow_filter: Option<CrowdsecExpression>,
    pub(crate) condition: Option<CrowdsecExpression>,
    pub(crate) bayesian: Vec<BayesianCondition>,
    pub(crate) prior: f64,
    pub(crate) threshold: f64,
    /// The number of records that fit; none if all do.
    pub(crate) capacity: Option<usize>,
    /// The number of records that are kept, if not all.
    pub(crate) cache_size: Option<usize>,
    /// Nanoseconds until one record leaks out.
    pub(crate) leak_speed: i64,
    /// Nanoseconds that a counter lasts.
    pub(crate) duration: i64,
    /// Nanoseconds that an overflow hides others of the same group.
    pub(crate) blackhole: i64,
    pub(crate) reprocess: bool,
    /// The kind of what is overflowed by, such as `Ip`.
    pub scope: Arc<str>,
    pub(crate) scope_expression: Option<CrowdsecExpression>,
    /// Labels as they are written.
    pub labels: BTreeMap<String, String>,
    /// True if something is to be done about sources.
    pub remediation: bool,
    /// Files that it looks into.
    pub data: Vec<String>,
}

impl CrowdsecScenario {
    /// Nanoseconds after its last record at which a bucket is over.
    pub(crate) fn lifetime(&self) -> i64 {
        match self.kind {
            ScenarioKind::Conditional | ScenarioKind::Bayesian => self.leak_speed,
            ScenarioKind::Counter => self.duration,
            _ => {
                let capacity = self.capacity.and_then(|capacity| i64::try_from(capacity).ok()).unwrap_or(0);
                if capacity > 0 { self.leak_speed.saturating_mul(capacity + 1) } else { 0 }
            }
        }
    }
}

/// Reads a scenario; none if a part that decides is not taken.
pub(crate) fn read(
    file: &str,
    document: &DocumentNode,
    problems: &mut Vec<CrowdsecProblem>,
) -> Option<CrowdsecScenario> {
    let problem = |line: usize, message: &str| CrowdsecProblem {
        file: file.to_owned(),
        line,
        message: message.to_owned(),
    };
    let Some(name) = document.text_of("name") else {
        problems.push(problem(document.line, "a scenario without a name"));
        return None;
    };
    let kind = match document.text_of("type").unwrap_or_default() {
        "trigger" => ScenarioKind::Trigger,
        "leaky" => ScenarioKind::Leaky,
        "counter" => ScenarioKind::Counter,
        "conditional" => ScenarioKind::Conditional,
        "bayesian" => ScenarioKind::Bayesian,
        other => {
            problems.push(problem(document.line, &format!("`{other}` is no type of scenarios")));
            return None;
        }
    };
    let mut length = |name: &str| match document.get(name).filter(|node| node.text().is_some()) {
        None => Some(0),
        Some(node) => {
            let read = node.text().and_then(duration::parse);
            if read.is_none() {
                problems.push(problem(node.line, "this is no duration"));
            }
            read
        }
    };
    let (leak_speed, duration, blackhole) = (length("leakspeed")?, length("duration")?, length("blackhole")?);
    let needs = match kind {
        ScenarioKind::Leaky | ScenarioKind::Conditional if leak_speed <= 0 => {
            "a leaky bucket wants a `leakspeed`"
        }
        ScenarioKind::Counter if duration <= 0 => "a counter wants a `duration`",
        ScenarioKind::Conditional if document.text_of("condition").is_none() => "a condition is missing",
        _ if document.text_of("filter").is_none() => "a filter is missing",
        _ => "",
    };
    if !needs.is_empty() {
        problems.push(problem(document.line, needs));
        return None;
    }
    let mut library = GrokLibrary::default();
    let before = problems.len();
    let mut reader = NodeReader { file, library: &mut library, enrichment: None, problems };
    let mut expression = |document: &DocumentNode, name: &str| {
        let node = document.get(name).filter(|node| node.text().is_some_and(|text| !text.is_empty()))?;
        reader.expression(node)
    };
    let filter = expression(document, "filter");
    let group_by = expression(document, "groupby");
    let distinct = expression(document, "distinct");
    let cancel_on = expression(document, "cancel_on");
    let overflow_filter = expression(document, "overflow_filter");
    let condition = expression(document, "condition");
    let scope = document.get("scope");
    let scope_expression = scope.and_then(|scope| expression(scope, "expression"));
    let number = |document: &DocumentNode, name: &str| {
        document.text_of(name).and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0)
    };
    let mut bayesian = Vec::new();
    for item in document.items_of("bayesian_conditions") {
        if let Some(condition) = expression(item, "condition") {
            bayesian.push(BayesianCondition {
                condition,
                given_evil: number(item, "prob_given_evil"),
                given_benign: number(item, "prob_given_benign"),
                is_guillotine: item.text_of("guillotine") == Some("true"),
            });
        }
    }
    // Without one of its expressions it would find others than it means.
    if problems.len() > before {
        return None;
    }
    let filter = filter?;
    let capacity = document.text_of("capacity").and_then(|capacity| capacity.parse::<i64>().ok());
    let labels = document.get("labels");
    let labels: BTreeMap<String, String> = labels
        .map_or(&[][..], DocumentNode::members)
        .iter()
        .filter_map(|(name, node)| Some((name.clone(), node.text()?.to_owned())))
        .collect();
    let data =
        document.items_of("data").iter().filter_map(|item| item.text_of("dest_file")).map(str::to_owned);
    Some(CrowdsecScenario {
        name: Arc::from(name),
        file: Arc::from(file),
        line: document.line,
        kind,
        description: Arc::from(document.text_of("description").unwrap_or_default()),
        filter,
        filter_text: Arc::from(document.text_of("filter").unwrap_or_default()),
        group_by,
        distinct,
        cancel_on,
        overflow_filter,
        condition,
        bayesian,
        prior: number(document, "bayesian_prior"),
        threshold: number(document, "bayesian_threshold"),
        capacity: capacity
            .and_then(|capacity| usize::try_from(capacity).ok())
            .or((kind == ScenarioKind::Leaky).then_some(0)),
        cache_size: document
            .text_of("cache_size")
            .and_then(|size| size.parse().ok())
            .filter(|size| *size > 0),
        leak_speed,
        duration,
        blackhole,
        reprocess: document.text_of("reprocess") == Some("true"),
        scope: Arc::from(scope.and_then(|scope| scope.text_of("type")).unwrap_or("Ip")),
        scope_expression,
        remediation: labels.get("remediation").is_some_and(|remediation| remediation == "true"),
        labels,
        data: data.collect(),
    })
}
