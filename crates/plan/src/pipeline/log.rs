//! Patterns by which the lines of a log are read: `[log]`.

use std::collections::BTreeSet;

use logs::date_detector::DateDetector;
use logs::fail2ban::tag;
use logs::line_pattern::LinePattern;
use logs::log_reader::LogPatterns;
use logs::log_stream::{LogEnvelope, LogSettings, zone};
use logs::python_regex::LineAnchors;

use crate::config::{ConfigOrigin, ConfigProblems, Document};
use crate::entries;

/// Most patterns of a pipeline.
const PATTERNS_MAX: usize = 5_000;

/// Compiles the patterns of a pipeline. One that is wrong is told of, with its place, and left out.
pub(super) fn compile(document: &Document, problems: &mut ConfigProblems) -> LogSettings {
    let mut settings = LogSettings::default();
    let Some(view) = document.section("log").filter(|view| view.is_given("patterns")) else {
        let help = "add [log] with `patterns`, or let `tollhouse import fail2ban` write it".to_owned();
        let origin = document.top();
        problems.add(origin.origin("input"), "a log is read by patterns, and there are none", Some(help));
        return settings;
    };
    let lines = view.integer("lines").and_then(|lines| usize::try_from(lines).ok()).unwrap_or(1);
    let anchors = if lines > 1 { LineAnchors::Lines } else { LineAnchors::Text };
    let mut groups = BTreeSet::new();
    let mut check =
        |text: &str, origin: &ConfigOrigin, anchors: LineAnchors, problems: &mut ConfigProblems| {
            match LinePattern::new(&tag::groups(text), anchors) {
                Ok(pattern) => {
                    groups.extend(pattern.names().iter().map(|(_, name)| name.to_string()));
                    true
                }
                Err(error) => {
                    let help = "patterns are regular expressions of Python's".to_owned();
                    problems.add(origin, error.to_string(), Some(help));
                    false
                }
            }
        };
    let mut taken = |key: &str, anchors: LineAnchors, problems: &mut ConfigProblems| -> Vec<String> {
        let texts = view.strings(key);
        if texts.len() > PATTERNS_MAX {
            problems.add(view.origin(key), format!("more than {PATTERNS_MAX} patterns"), None);
        }
        let texts = texts.into_iter().take(PATTERNS_MAX);
        texts
            .filter(|(text, origin)| check(text, origin, anchors, problems))
            .map(|(text, _)| text.to_owned())
            .collect()
    };
    let patterns = taken("patterns", anchors, problems);
    let ignored = taken("ignored", LineAnchors::Text, problems);
    let prefix = view.str("prefix").filter(|prefix| !prefix.is_empty());
    let prefix = prefix.filter(|prefix| check(prefix, view.origin("prefix"), LineAnchors::Text, problems));
    let mut dates = Vec::new();
    for (date, origin) in view.strings("dates") {
        match DateDetector::new(&[date]) {
            Ok(_) => dates.push(date.to_owned()),
            Err(error) => problems.add(origin, error.to_string(), None),
        }
    }
    let zone_name = view.str("zone").filter(|zone| !zone.is_empty());
    if let Some(name) = zone_name
        && zone(name).is_none()
    {
        let help = "write a name such as `Europe/Berlin`, or an offset such as `UTC+0200`".to_owned();
        problems.add(view.origin("zone"), format!("there is no time zone `{name}`"), Some(help));
    }
    let fields = entries(document, "field", problems);
    let fields = fields.iter().filter_map(|view| view.str("name"));
    settings.fields = fields.filter(|name| groups.contains(*name)).map(str::to_owned).collect();
    settings.patterns = LogPatterns { prefix: prefix.map(str::to_owned), patterns, ignored, dates, lines };
    settings.envelope = view.str("envelope").and_then(LogEnvelope::named).unwrap_or_default();
    settings.zone = zone_name.map(str::to_owned);
    settings
}

/// Refuses patterns for a pipeline that reads no log: whoever names one believes that it does something.
pub(super) fn refuse(document: &Document, problems: &mut ConfigProblems) {
    let Some(view) = document.section("log").filter(|view| view.is_given("patterns")) else { return };
    let help = "leave it out, or write `input = \"log\"` at the top".to_owned();
    problems.add(view.origin("patterns"), "lines are read by patterns in logs only", Some(help));
}
