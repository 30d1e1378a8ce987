//! A test of the hub: a log, what is installed, and expressions that must be true of what comes out.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::crowdsec::data_files::CrowdsecDataFiles;
use crate::crowdsec::evaluator::{ExprEnvironment, ExprMemory};
use crate::crowdsec::expression::CrowdsecExpression;
use crate::crowdsec::pipeline::{CrowdsecPipeline, CrowdsecSelection};
use crate::crowdsec::record::{CrowdsecLine, CrowdsecRecord};
use crate::crowdsec::value::{ExprObject, ExprValue, TextMap};
use crate::crowdsec::yaml::{self, DocumentNode};
use crate::crowdsec::{CrowdsecFiles, CrowdsecProblem};

/// Most lines of a log.
const LINES_MAX: usize = 1_000_000;
/// Most expressions that must be true.
const ASSERTIONS_MAX: usize = 1_000_000;

/// An expression that was not true.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedAssertion {
    /// The line in its file, from 1.
    pub line: usize,
    /// The expression.
    pub expression: String,
    /// The value that was there instead, or the reason why it could not be told.
    pub instead: String,
}

impl fmt::Display for FailedAssertion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}: {}", self.line, self.expression, self.instead)
    }
}

/// The outcome of one file of expressions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AssertionReport {
    /// The number of expressions.
    pub count: usize,
    /// Expressions that were not true.
    pub failed: Vec<FailedAssertion>,
    /// Expressions that were not true and compare nothing by `==`: CrowdSec passes over them.
    pub passed_over: Vec<FailedAssertion>,
}

/// The outcome of a test.
#[derive(Clone, Debug, Default)]
pub struct HubTestReport {
    /// The outcome of parsers, if the test asks for it.
    pub parsers: Option<AssertionReport>,
    /// The outcome of scenarios, if the test asks for it.
    pub scenarios: Option<AssertionReport>,
    /// Parts that could not be taken.
    pub problems: Vec<CrowdsecProblem>,
}

impl HubTestReport {
    /// Returns true if all expressions were true.
    pub fn is_passed(&self) -> bool {
        let reports = self.parsers.iter().chain(&self.scenarios);
        reports.clone().all(|report| report.failed.is_empty()) && reports.clone().count() > 0
    }
}

/// A test: its files by their names.
pub struct HubTest<'t> {
    /// The text of `config.yaml`.
    pub config: &'t str,
    /// Files of the test's folder, by name.
    pub files: &'t BTreeMap<String, String>,
}

/// The outcome of a node for a line, as expressions see it.
#[derive(Debug)]
struct ParserOutcome {
    is_success: bool,
    record: Arc<CrowdsecRecord>,
}

impl ExprObject for ParserOutcome {
    fn member(&self, name: &str) -> Option<ExprValue> {
        match name {
            "Success" => Some(ExprValue::Bool(self.is_success)),
            "Evt" => Some(ExprValue::from(Arc::clone(&self.record))),
            _ => None,
        }
    }
}

type Outcomes = BTreeMap<Arc<str>, BTreeMap<Arc<str>, Vec<ExprValue>>>;

impl HubTest<'_> {
    /// Runs the test with the hub's files, at a present in nanoseconds since 1970.
    pub fn run(&self, hub: &CrowdsecFiles, data: CrowdsecDataFiles, now: i64) -> HubTestReport {
        let mut report = HubTestReport::default();
        let config = match yaml::documents("config.yaml", self.config) {
            Ok(mut documents) if !documents.is_empty() => documents.remove(0),
            Ok(_) => return report,
            Err(problem) => {
                report.problems.push(problem);
                return report;
            }
        };
        let mut pipeline = self.pipeline(&config, hub, data, &mut report.problems);
        let (outcomes, overflows) = self.outcomes(&config, &mut pipeline, now);
        let ignores_parsers = config.text_of("ignore_parsers") == Some("true");
        if let Some(text) = self.files.get("parser.assert").filter(|_| !ignores_parsers) {
            let results = outcomes.into_iter().map(|(stage, parsers)| {
                let parsers =
                    parsers.into_iter().map(|(name, outcomes)| (name, ExprValue::List(Arc::new(outcomes))));
                (stage, ExprValue::Map(Arc::new(parsers.collect())))
            });
            report.parsers = Some(check(text, &ExprValue::Map(Arc::new(results.collect())), now));
        }
        let has_scenarios =
            config.items_of("scenarios").iter().any(|item| item.text().is_some_and(|text| !text.is_empty()));
        if let Some(text) = self.files.get("scenario.assert").filter(|_| has_scenarios) {
            report.scenarios = Some(check(text, &sorted(overflows), now));
        }
        report
    }

    fn pipeline(
        &self,
        config: &DocumentNode,
        hub: &CrowdsecFiles,
        data: CrowdsecDataFiles,
        problems: &mut Vec<CrowdsecProblem>,
    ) -> CrowdsecPipeline {
        // A file of the test's own folder stands beside the hub's.
        let mut files = hub.clone();
        files.0.extend(self.files.iter().map(|(name, text)| (name.clone(), text.clone())));
        let mut paths = |name: &str| {
            let mut paths = Vec::new();
            for item in config.items_of(name) {
                let Some(text) = item.text().filter(|text| !text.is_empty()) else { continue };
                match files.find(name, text) {
                    Some(path) => paths.push(path.to_owned()),
                    None => problems.push(CrowdsecProblem {
                        file: "config.yaml".to_owned(),
                        line: item.line,
                        message: format!("there is no `{text}`"),
                    }),
                }
            }
            paths
        };
        let selection = CrowdsecSelection {
            parsers: paths("parsers"),
            scenarios: paths("scenarios"),
            postoverflows: paths("postoverflows"),
        };
        CrowdsecPipeline::of(&files, &selection, data, config.items_of("override_statics"), problems)
    }

    fn outcomes(
        &self,
        config: &DocumentNode,
        pipeline: &mut CrowdsecPipeline,
        now: i64,
    ) -> (Outcomes, Vec<CrowdsecRecord>) {
        let log = config.text_of("log_file").unwrap_or_default();
        let mut labels = TextMap::new();
        for (name, value) in config.get("labels").map_or(&[][..], DocumentNode::members) {
            labels.insert(Arc::from(name.as_str()), Arc::from(value.text().unwrap_or_default()));
        }
        if let Some(kind) = config.text_of("log_type") {
            labels.insert(Arc::from("type"), Arc::from(kind));
        }
        let labels = Arc::new(labels);
        let mut outcomes = Outcomes::new();
        let mut overflows = Vec::new();
        let text = self.files.get(log).map_or("", String::as_str);
        for line in text.lines().filter(|line| !line.is_empty()).take(LINES_MAX) {
            let line = CrowdsecLine {
                raw: Arc::from(line),
                source: Arc::from(log),
                module: Arc::from("file"),
                labels: Arc::clone(&labels),
            };
            let mut stages = Vec::new();
            let mut see =
                |(stage, name, is_success, record): (&Arc<str>, &Arc<str>, bool, &CrowdsecRecord)| {
                    let outcome = ParserOutcome { is_success, record: Arc::new(record.clone()) };
                    let parsers = outcomes.entry(Arc::clone(stage)).or_default();
                    parsers.entry(Arc::clone(name)).or_default().push(ExprValue::Object(Arc::new(outcome)));
                };
            let reading =
                pipeline.read_and_see(line, now, &mut see, &mut |stage| stages.push(Arc::clone(stage)));
            for stage in stages {
                outcomes.entry(stage).or_default();
            }
            overflows.extend(reading.overflows);
        }
        // CrowdSec's tests know a stage of this name, with a parser that has no name and no outcome.
        outcomes.entry(Arc::from("success")).or_default().insert(Arc::default(), Vec::new());
        (outcomes, overflows)
    }
}

/// Puts overflows into the order in which the hub numbers them: scenarios backwards by name and sources, then by time.
fn sorted(mut overflows: Vec<CrowdsecRecord>) -> ExprValue {
    let key = |record: &CrowdsecRecord| {
        let overflow = record.overflow.as_ref();
        let name =
            overflow.map(|overflow| format!("{}{}", overflow.scenario, overflow.source_names().join("@")));
        (std::cmp::Reverse(name), overflow.map(|overflow| overflow.first))
    };
    overflows.sort_by_cached_key(key);
    ExprValue::List(Arc::new(overflows.into_iter().map(|record| ExprValue::from(Arc::new(record))).collect()))
}

/// Checks expressions, one a line.
fn check(text: &str, results: &ExprValue, now: i64) -> AssertionReport {
    let mut report = AssertionReport::default();
    let data = CrowdsecDataFiles::default();
    let mut memory = ExprMemory::default();
    let names = [("results", results.clone())];
    let mut evaluate = |expression: &str| {
        let expression = CrowdsecExpression::parse(expression).map_err(|error| error.to_string())?;
        let mut environment =
            ExprEnvironment { record: None, names: &names, data: &data, memory: &mut memory, now };
        expression.evaluate(&mut environment).map_err(|error| error.to_string())
    };
    for (index, line) in text.lines().enumerate().take(ASSERTIONS_MAX) {
        let expression = line.trim();
        if expression.is_empty() {
            continue;
        }
        report.count += 1;
        let value = evaluate(expression);
        let is_passed_over = matches!(value, Ok(ExprValue::Bool(false))) && !expression.contains(" == ");
        let instead = match value {
            Ok(ExprValue::Bool(true)) => continue,
            Ok(_) => match expression.split_once(" == ").map(|(left, _)| evaluate(left)) {
                Some(Ok(value)) => format!("it is {value}"),
                Some(Err(error)) => error,
                None => "it is not so".to_owned(),
            },
            Err(error) => error,
        };
        let failed = FailedAssertion { line: index + 1, expression: expression.to_owned(), instead };
        if is_passed_over {
            report.passed_over.push(failed);
        } else {
            report.failed.push(failed);
        }
    }
    report
}
