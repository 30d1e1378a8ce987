//! Profiles: what is done about an overflow, and for how long.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::crowdsec::data_files::CrowdsecDataFiles;
use crate::crowdsec::duration;
use crate::crowdsec::evaluator::{ExprEnvironment, ExprMemory};
use crate::crowdsec::expression::CrowdsecExpression;
use crate::crowdsec::node::NodeReader;
use crate::crowdsec::record::{CrowdsecOverflow, OverflowSource};
use crate::crowdsec::scenario::CrowdsecScenario;
use crate::crowdsec::value::{ExprObject, ExprValue};
use crate::crowdsec::yaml::{self, DocumentNode};
use crate::crowdsec::{CrowdsecFiles, CrowdsecProblem};
use crate::grok::GrokLibrary;

/// The length of a decision that no profile names, in nanoseconds.
const LENGTH: i64 = 4 * 3_600_000_000_000;
/// The file of profiles.
pub const FILE: &str = "profiles.yaml";
/// Most profiles, and decisions of one.
const PROFILES_MAX: usize = 100;
/// The address that conditions are asked about; which one it will be is not known.
const ADDRESS: &str = "192.0.2.1";

/// A profile.
#[derive(Clone, Debug)]
pub struct CrowdsecProfile {
    /// The name.
    pub name: String,
    filters: Vec<CrowdsecExpression>,
    /// Kinds of decisions, such as `ban`, with their lengths in nanoseconds.
    decisions: Vec<(String, i64)>,
    /// The lines of these decisions.
    lines: Vec<usize>,
    length: Option<CrowdsecExpression>,
    /// True if no further profile is asked after this one.
    ends: bool,
}

/// A decision about an overflow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileDecision {
    /// The kind, such as `ban` or `captcha`.
    pub kind: String,
    /// The length in nanoseconds.
    pub length: i64,
}

impl CrowdsecProfile {
    /// The line of the first decision of a kind.
    pub fn line_of(&self, kind: &str) -> Option<usize> {
        self.decisions.iter().position(|(known, _)| known == kind).and_then(|at| self.lines.get(at)).copied()
    }

    fn holds(&self, scenario: &CrowdsecScenario, bans: i64) -> bool {
        self.filters
            .iter()
            .any(|filter| matches!(evaluate(filter, scenario, bans), Some(ExprValue::Bool(true))))
    }

    fn length(&self, given: i64, scenario: &CrowdsecScenario, bans: i64) -> i64 {
        let asked = self.length.as_ref().and_then(|length| evaluate(length, scenario, bans));
        let asked = match asked {
            Some(ExprValue::Text(text)) => duration::parse(&text),
            Some(ExprValue::Duration(length)) => Some(length),
            _ => None,
        };
        asked.filter(|length| *length > 0).unwrap_or(given)
    }
}

fn evaluate(expression: &CrowdsecExpression, scenario: &CrowdsecScenario, bans: i64) -> Option<ExprValue> {
    let source = OverflowSource {
        scope: Arc::clone(&scenario.scope),
        value: Arc::from(ADDRESS),
        ip: Arc::from(ADDRESS),
        ..OverflowSource::default()
    };
    let overflow = CrowdsecOverflow {
        scenario: Arc::clone(&scenario.name),
        sources: BTreeMap::from([(Arc::clone(&source.value), Arc::new(source))]),
        count: 1,
        remediation: scenario.remediation,
        ..CrowdsecOverflow::default()
    };
    let names = [("Alert", overflow.member("Alert")?)];
    let mut memory = ExprMemory { bans, ..ExprMemory::default() };
    let data = CrowdsecDataFiles::default();
    let mut environment =
        ExprEnvironment { record: None, names: &names, data: &data, memory: &mut memory, now: 0 };
    expression.evaluate(&mut environment).ok()
}

/// Reads profiles; if there is no file, one that bans addresses of scenarios with `remediation`.
pub fn read(files: &CrowdsecFiles, problems: &mut Vec<CrowdsecProblem>) -> Vec<CrowdsecProfile> {
    const USUAL: &str = "name: default\nfilters:\n - Alert.Remediation == true && Alert.GetScope() == 'Ip'\ndecisions:\n - type: ban\n   duration: 4h\non_success: break\n";
    let text = files.get(FILE).unwrap_or(USUAL);
    let documents = match yaml::documents(FILE, text) {
        Ok(documents) => documents,
        Err(problem) => {
            problems.push(problem);
            return Vec::new();
        }
    };
    if let Some(document) = documents.get(PROFILES_MAX) {
        let message = format!("more than {PROFILES_MAX} profiles: this one and those behind it are left out");
        problems.push(CrowdsecProblem { file: FILE.to_owned(), line: document.line, message });
    }
    documents.iter().take(PROFILES_MAX).filter_map(|document| profile(FILE, document, problems)).collect()
}

fn profile(
    file: &str,
    document: &DocumentNode,
    problems: &mut Vec<CrowdsecProblem>,
) -> Option<CrowdsecProfile> {
    let mut problem = |line: usize, message: String| {
        problems.push(CrowdsecProblem { file: file.to_owned(), line, message });
    };
    let (mut decisions, mut lines) = (Vec::new(), Vec::new());
    if let Some(item) = document.items_of("decisions").get(PROFILES_MAX) {
        problem(item.line, format!("more than {PROFILES_MAX} decisions of a profile"));
    }
    for item in document.items_of("decisions").iter().take(PROFILES_MAX) {
        for (name, node) in item.members() {
            if !matches!(name.as_str(), "type" | "duration") {
                problem(node.line, format!("`{name}` of a decision is not taken"));
            }
        }
        let Some(kind) = item.text_of("type") else {
            problem(item.line, "a decision without a type".to_owned());
            continue;
        };
        let length = match item.text_of("duration") {
            Some(text) => duration::parse(text).filter(|length| *length > 0),
            None => Some(LENGTH),
        };
        match length {
            Some(length) => {
                decisions.push((kind.to_owned(), length));
                lines.push(item.line);
            }
            None => problem(item.line, "this is no duration".to_owned()),
        }
    }
    for (name, node) in document.members() {
        match name.as_str() {
            "name" | "filters" | "decisions" | "duration_expr" | "on_success" | "debug" => {}
            "notifications" if node.items().is_empty() => {}
            "notifications" => {
                let line = node.items().first().map_or(node.line, |first| first.line);
                problem(line, "`notifications` are not sent".to_owned());
            }
            _ => problem(node.line, format!("`{name}` is not taken")),
        }
    }
    let before = problems.len();
    let mut library = GrokLibrary::default();
    let mut reader = NodeReader { file, library: &mut library, enrichment: None, problems };
    let filters: Vec<CrowdsecExpression> =
        document.items_of("filters").iter().filter_map(|filter| reader.expression(filter)).collect();
    let length =
        document.get("duration_expr").filter(|node| node.text().is_some_and(|text| !text.is_empty()));
    let length = length.and_then(|length| reader.expression(length));
    // A filter that is not read would let others through.
    if filters.is_empty() && problems.len() > before {
        return None;
    }
    for filter in document.items_of("filters") {
        let asks = |part: &str| filter.text().is_some_and(|text| text.contains(part));
        if asks("Alert.Source.") || asks("Alert.Events") || asks(".Enriched") {
            problems.push(CrowdsecProblem {
                file: file.to_owned(),
                line: filter.line,
                message: "this filter asks for the source or events, which are not known when profiles are read: it is taken as not true of them".to_owned(),
            });
        }
    }
    Some(CrowdsecProfile {
        name: document.text_of("name").unwrap_or_default().to_owned(),
        filters,
        decisions,
        lines,
        length,
        ends: document.text_of("on_success") == Some("break"),
    })
}

/// The decisions of profiles about an overflow of a scenario, whose source had so many bans before: the first of each kind.
pub fn decisions(
    profiles: &[CrowdsecProfile],
    scenario: &CrowdsecScenario,
    bans: i64,
) -> Vec<ProfileDecision> {
    let mut decisions: Vec<ProfileDecision> = Vec::new();
    for profile in profiles.iter().filter(|profile| profile.holds(scenario, bans)) {
        for (kind, given) in &profile.decisions {
            if !decisions.iter().any(|decision| decision.kind == *kind) {
                let length = profile.length(*given, scenario, bans);
                decisions.push(ProfileDecision { kind: kind.clone(), length });
            }
        }
        if profile.ends {
            break;
        }
    }
    decisions
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crowdsec::pipeline::read_scenarios;

    #[test]
    fn profiles_decide_by_scenario_and_by_bans_before() {
        let profiles = "name: ssh\nfilters:\n - Alert.Remediation == true && Alert.GetScenario() contains 'ssh'\n\
            decisions:\n - type: ban\n   duration: 2h\nduration_expr: Sprintf('%dh', (GetDecisionsCount(Alert.GetValue()) + 1) * 4)\non_success: break\n---\n\
            name: http\nfilters:\n - Alert.Remediation == true && Alert.GetScope() == 'Ip'\ndecisions:\n - type: captcha\n   duration: 30m\n - type: ban\n---\n\
            name: odd\nfilters:\n - Alert.Source.Cn == 'FR'\n - nobody(1)\ndecisions:\n - type: ban\n   duration: soon\n   scope: Range\n\
            notifications:\n - mail\non_failure: break\n";
        let scenario = |name: &str, remediation: bool| {
            format!("type: trigger\nname: me/{name}\nfilter: 'true'\nlabels:\n  remediation: {remediation}\n")
        };
        let text = [scenario("ssh-bf", true), scenario("http-probing", true), scenario("quiet", false)]
            .join("---\n");
        let files = CrowdsecFiles(
            [("profiles.yaml".to_owned(), profiles.to_owned()), ("scenarios/s.yaml".to_owned(), text)].into(),
        );
        let mut problems = Vec::new();
        let scenarios = read_scenarios(&files, &["scenarios/s.yaml".to_owned()], &mut problems);
        let profiles = read(&files, &mut problems);
        let check = |index: usize, bans: i64, expected: &[(&str, i64)]| {
            let found = decisions(&profiles, &scenarios[index], bans);
            let found: Vec<(&str, i64)> = found
                .iter()
                .map(|decision| (decision.kind.as_str(), decision.length / 60_000_000_000))
                .collect();
            assert_eq!(found, expected, "{index} {bans}");
        };
        check(0, 0, &[("ban", 240)]);
        check(0, 2, &[("ban", 720)]);
        check(1, 5, &[("captcha", 30), ("ban", 240)]);
        check(2, 0, &[]);
        let told: Vec<String> = problems.iter().map(ToString::to_string).collect();
        let expected = [
            ("profiles.yaml:25: ", "`scope` of a decision is not taken"),
            ("profiles.yaml:23: ", "this is no duration"),
            ("profiles.yaml:27: ", "`notifications` are not sent"),
            ("profiles.yaml:28: ", "`on_failure` is not taken"),
            ("profiles.yaml:21: ", "the function `nobody` is not known"),
            ("profiles.yaml:20: ", "asks for the source"),
        ];
        assert_eq!(told.len(), expected.len(), "{told:?}");
        for (told, (place, part)) in told.iter().zip(expected) {
            assert!(told.starts_with(place) && told.contains(part), "{told} {place}{part}");
        }
    }

    #[test]
    fn without_profiles_addresses_are_banned_for_four_hours() {
        let text = "type: trigger\nname: me/s\nfilter: 'true'\nlabels:\n  remediation: true\n";
        let files = CrowdsecFiles([("scenarios/s.yaml".to_owned(), text.to_owned())].into());
        let mut problems = Vec::new();
        let scenarios = read_scenarios(&files, &["scenarios/s.yaml".to_owned()], &mut problems);
        let profiles = read(&files, &mut problems);
        let expected = ProfileDecision { kind: "ban".to_owned(), length: LENGTH };
        assert_eq!((decisions(&profiles, &scenarios[0], 0), problems), (vec![expected], vec![]));
    }
}
