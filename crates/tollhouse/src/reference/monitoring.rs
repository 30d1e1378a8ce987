//! Means to watch a node, made of the list of metrics: Grafana's dashboard, and of `packaging/prometheus/alerts.toml` the alert
//! rules, their tests and the runbook.

use std::collections::BTreeMap;
use std::fmt::Write;

use regex::Regex;
use serde::Deserialize;
use serde_json::{Value, json};
use toml_edit::{DocumentMut, Item};

use super::{MetricFamily, hold_file, hold_parts, root};

/// The first lines of generated files.
const HEAD: &str = "# Generated from alerts.toml: UPDATE=1 cargo test -p tollhouse reference\n";

/// An alert, as `alerts.toml` describes it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Alert {
    name: String,
    severity: String,
    expr: String,
    r#for: String,
    /// The minute at which it is looked for in its tests; ten minutes after `for` where it is not given.
    at: Option<u32>,
    fires: BTreeMap<String, String>,
    quiet: BTreeMap<String, String>,
    summary: String,
    means: String,
    r#do: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AlertFile {
    alert: Vec<Alert>,
}

/// Returns the values of a part of a TOML file.
fn plain(item: &Item) -> Value {
    if let Some(text) = item.as_str() {
        json!(text)
    } else if let Some(number) = item.as_integer() {
        json!(number)
    } else if let Some(array) = item.as_array() {
        array.iter().map(|value| plain(&Item::Value(value.clone()))).collect()
    } else if let Some(tables) = item.as_array_of_tables() {
        tables.iter().map(|table| plain(&Item::Table(table.clone()))).collect()
    } else {
        let members = item.as_table_like().expect("a text, a number, a list or a table").iter();
        members.map(|(name, value)| (name.to_owned(), plain(value))).collect()
    }
}

/// Holds the files of `packaging` and the runbook to these metrics.
pub(super) fn hold(metrics: &[MetricFamily]) {
    let text = std::fs::read_to_string(root().join("packaging/prometheus/alerts.toml")).unwrap();
    let file: DocumentMut = text.parse().unwrap();
    let AlertFile { alert: alerts } = serde_json::from_value(plain(file.as_item())).unwrap();
    for alert in &alerts {
        check_expression(&alert.name, &alert.expr, metrics);
        assert!(["page", "ticket"].contains(&alert.severity.as_str()), "{}", alert.name);
        assert!(!alert.r#do.is_empty(), "{}: what to do", alert.name);
    }
    hold_file("packaging/prometheus/tollhouse.rules.yml", &rules(&alerts));
    hold_file("packaging/prometheus/tollhouse.test.yml", &tests(&alerts));
    hold_parts("docs/operating/runbook.md", &[("alerts".to_owned(), runbook(&alerts))]);
    let board = dashboard(metrics);
    for expr in expressions(&board) {
        check_expression("the dashboard", &expr, metrics);
    }
    hold_file("packaging/grafana/tollhouse.json", &(serde_json::to_string_pretty(&board).unwrap() + "\n"));
}

/// The names of a metric's samples.
fn samples(metric: &MetricFamily) -> Vec<String> {
    let ends: &[&str] = match metric.kind.as_str() {
        "counter" => &["_total"],
        "histogram" => &["_bucket", "_sum", "_count"],
        "info" => &["_info"],
        _ => &[""],
    };
    ends.iter().map(|end| format!("{}{end}", metric.name)).collect()
}

/// Every metric that is named exists.
fn check_expression(place: &str, expr: &str, metrics: &[MetricFamily]) {
    for name in Regex::new(r"\btollhouse_\w+").unwrap().find_iter(expr) {
        let exists =
            metrics.iter().any(|metric| samples(metric).iter().any(|sample| sample == name.as_str()));
        assert!(exists, "{place}: there is no sample `{}`", name.as_str());
    }
}

/// A text as YAML takes it, which is as JSON writes it.
fn quoted(text: &str) -> String {
    serde_json::to_string(text.trim()).unwrap()
}

fn rules(alerts: &[Alert]) -> String {
    let mut text = format!("{HEAD}groups:\n  - name: tollhouse\n    rules:\n");
    for alert in alerts {
        let page = format!("docs/operating/runbook.md#{}", alert.name.to_lowercase());
        write!(
            text,
            "      - alert: {}\n        expr: {}\n        for: {}\n        labels: {{ severity: {} }}\n        annotations:\n          \
             summary: {}\n          description: {}\n          runbook: {}\n",
            alert.name,
            quoted(&alert.expr),
            alert.r#for,
            alert.severity,
            quoted(&alert.summary),
            quoted(&alert.means),
            quoted(&page),
        )
        .unwrap();
    }
    text
}

fn tests(alerts: &[Alert]) -> String {
    let mut text = format!("{HEAD}rule_files: [tollhouse.rules.yml]\nevaluation_interval: 1m\ntests:\n");
    for alert in alerts {
        let minutes: u32 = alert.r#for.strip_suffix('m').unwrap().parse().unwrap();
        let at = alert.at.unwrap_or(minutes + 10);
        for (series, fires) in [(&alert.fires, true), (&alert.quiet, false)] {
            text += "  - interval: 1m\n    input_series:\n";
            for (name, values) in series {
                writeln!(text, "      - {{ series: {}, values: {} }}", quoted(name), quoted(values)).unwrap();
            }
            let expr = format!("count(ALERTS{{alertname=\"{}\",alertstate=\"firing\"}})", alert.name);
            let samples = if fires { "[{ labels: \"{}\", value: 1 }]" } else { "[]" };
            write!(
                text,
                "    promql_expr_test:\n      - expr: {}\n        eval_time: {at}m\n        exp_samples: {samples}\n",
                quoted(&expr)
            )
            .unwrap();
        }
    }
    text
}

fn runbook(alerts: &[Alert]) -> String {
    let mut text = "| alert | severity | says |\n|---|---|---|\n".to_owned();
    for Alert { name, severity, summary, .. } in alerts {
        writeln!(text, "| [{name}](#{}) | {severity} | {summary} |", name.to_lowercase()).unwrap();
    }
    for alert in alerts {
        let Alert { name, severity, summary, means, expr, r#for, .. } = alert;
        let lasting = if r#for == "0m" { String::new() } else { format!(" for {for}") };
        write!(
            text,
            "\n### {name}\n\n**{summary}** ({severity}). {means}\n\n```promql\n{}{lasting}\n```\n\n",
            expr.trim()
        )
        .unwrap();
        alert.r#do.iter().enumerate().for_each(|(at, step)| writeln!(text, "{}. {step}", at + 1).unwrap());
    }
    text
}

/// The series of the chosen nodes.
fn of_nodes(sample: &str, labels: &str) -> String {
    let labels = if labels.is_empty() { String::new() } else { format!("{labels},") };
    format!("{sample}{{{labels}job=~\"$job\",instance=~\"$instance\"}}")
}

/// The growth of a counter a second.
fn rate(sample: &str, labels: &str) -> String {
    format!("rate({}[$__rate_interval])", of_nodes(sample, labels))
}

/// A quantile of a histogram, by labels besides.
fn quantile(share: &str, name: &str, labels: &str, by: &str) -> String {
    format!("histogram_quantile({share}, sum by (le{by}) ({}))", rate(&format!("{name}_bucket"), labels))
}

/// A panel of a dashboard: what it shows, in which unit, and of each line the expression and the legend.
struct Panel {
    title: String,
    meaning: String,
    unit: &'static str,
    lines: Vec<(String, &'static str)>,
}

/// The panels that are looked at first.
fn overview() -> Vec<Panel> {
    let panel = |title: &str, meaning: &str, unit, lines| Panel {
        title: title.to_owned(),
        meaning: meaning.to_owned(),
        unit,
        lines,
    };
    let sum = |by: &str, expr: String| format!("sum by ({by}) ({expr})");
    let decide = "route=\"/v1/decide\"";
    let seconds = "tollhouse_http_request_seconds";
    vec![
        panel(
            "Verdicts",
            "Events judged, by action",
            "ops",
            vec![(sum("action", rate("tollhouse_judge_verdicts_total", "")), "{{action}}")],
        ),
        panel(
            "Time of a decision over HTTP",
            "Half of them, and 99 of 100, are answered within",
            "s",
            vec![
                (quantile("0.5", seconds, decide, ""), "p50"),
                (quantile("0.99", seconds, decide, ""), "p99"),
            ],
        ),
        panel(
            "Not decided, refused, not logged",
            "Above zero somebody is not served",
            "ops",
            vec![
                (sum("pipeline", rate("tollhouse_undecided_total", "")), "undecided {{pipeline}}"),
                (sum("instance", rate("tollhouse_http_refused_total", "")), "refused {{instance}}"),
                (sum("instance", rate("tollhouse_journal_failures_total", "")), "unlogged {{instance}}"),
            ],
        ),
        panel(
            "Conditions",
            "What is wrong now: docs/operating/hardening.md",
            "short",
            vec![(of_nodes("tollhouse_condition", ""), "{{instance}} {{name}}")],
        ),
        panel(
            "Answers by status",
            "Requests over HTTP",
            "reqps",
            vec![(sum("status", rate(&format!("{seconds}_count"), "")), "{{status}}")],
        ),
        panel(
            "Limits",
            "Takes from limits, by result",
            "ops",
            vec![(sum("limit, result", rate("tollhouse_limits_taken_total", "")), "{{limit}} {{result}}")],
        ),
        panel(
            "Memory of the ledger",
            "Cells, the directory of keys and sketches",
            "bytes",
            vec![(of_nodes("tollhouse_ledger_memory_bytes", ""), "{{instance}}")],
        ),
        panel(
            "Files",
            "Ledger and journal on disk",
            "bytes",
            vec![
                (of_nodes("tollhouse_ledger_disk_bytes", ""), "ledger {{instance}}"),
                (of_nodes("tollhouse_journal_bytes", ""), "journal {{instance}}"),
            ],
        ),
    ]
}

/// The panel of one metric.
fn panel_of(metric: &MetricFamily) -> Panel {
    let MetricFamily { name, kind, help } = metric;
    let unit = match name.rsplit('_').next() {
        Some("bytes") => "bytes",
        Some("seconds") => "s",
        Some("ratio") => "percentunit",
        _ => "short",
    };
    let (unit, lines) = match kind.as_str() {
        "counter" if unit == "bytes" => ("Bps", vec![(rate(&format!("{name}_total"), ""), "__auto")]),
        "counter" => ("ops", vec![(rate(&format!("{name}_total"), ""), "__auto")]),
        "histogram" => {
            (unit, vec![(quantile("0.5", name, "", ""), "p50"), (quantile("0.99", name, "", ""), "p99")])
        }
        "info" => (unit, vec![(of_nodes(&format!("{name}_info"), ""), "__auto")]),
        _ => (unit, vec![(of_nodes(name, ""), "__auto")]),
    };
    Panel {
        title: name.trim_start_matches("tollhouse_").replace('_', " "),
        meaning: help.clone(),
        unit,
        lines,
    }
}

/// Columns of a dashboard.
const COLUMNS: usize = 24;

/// Places panels in rows of so many, from a line on.
fn place(panels: &[Panel], id: &mut u32, line: usize, in_row: usize) -> Vec<Value> {
    let (width, height) = (COLUMNS / in_row, 7);
    let each = panels.iter().enumerate().map(|(at, panel)| {
        *id += 1;
        let targets: Vec<Value> = panel
            .lines
            .iter()
            .zip('A'..)
            .map(|((expr, legend), letter)| {
                let letter = letter.to_string();
                json!({ "refId": letter, "expr": expr, "legendFormat": legend, "datasource": source() })
            })
            .collect();
        json!({
            "id": *id,
            "type": "timeseries",
            "title": panel.title,
            "description": panel.meaning,
            "datasource": source(),
            "fieldConfig": { "defaults": { "unit": panel.unit, "min": 0 }, "overrides": [] },
            "gridPos": { "x": at % in_row * width, "y": line + at / in_row * height, "w": width, "h": height },
            "targets": targets,
        })
    });
    each.collect()
}

fn source() -> Value {
    json!({ "type": "prometheus", "uid": "${source}" })
}

/// Grafana's dashboard: an overview, and a row for each family of metrics with a panel for every metric.
fn dashboard(metrics: &[MetricFamily]) -> Value {
    let mut id = 0;
    let first = overview();
    let mut panels = place(&first, &mut id, 0, 4);
    let mut line = first.len().div_ceil(4) * 7;
    let mut families: BTreeMap<&str, Vec<Panel>> = BTreeMap::new();
    for metric in metrics {
        let family = metric.name.trim_start_matches("tollhouse_").split('_').next().unwrap();
        families.entry(family).or_default().push(panel_of(metric));
    }
    for (family, members) in families {
        id += 1;
        let row = id;
        let inside = place(&members, &mut id, line + 1, 4);
        panels.push(json!({
            "id": row,
            "type": "row",
            "title": family,
            "collapsed": true,
            "gridPos": { "x": 0, "y": line, "w": COLUMNS, "h": 1 },
            "panels": inside,
        }));
        line += 1;
    }
    let variable = |name: &str, label: &str, query: &str| {
        json!({
            "name": name, "label": label, "type": "query", "datasource": source(), "query": query, "refresh": 2,
            "multi": true, "includeAll": true, "current": { "text": "All", "value": "$__all" },
        })
    };
    json!({
        "title": "Tollhouse",
        "uid": "tollhouse",
        "tags": ["tollhouse"],
        "schemaVersion": 39,
        "editable": true,
        "refresh": "30s",
        "time": { "from": "now-6h", "to": "now" },
        "templating": { "list": [
            { "name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus" },
            variable("job", "Job", "label_values(tollhouse_ledger_keys, job)"),
            variable("instance", "Node", "label_values(tollhouse_ledger_keys{job=~\"$job\"}, instance)"),
        ] },
        "panels": panels,
    })
}

/// All expressions of a dashboard.
fn expressions(board: &Value) -> Vec<String> {
    match board {
        Value::Object(members) => members
            .iter()
            .flat_map(|(name, value)| match (name.as_str(), value.as_str()) {
                ("expr" | "query", Some(text)) => vec![text.to_owned()],
                _ => expressions(value),
            })
            .collect(),
        Value::Array(items) => items.iter().flat_map(expressions).collect(),
        _ => Vec::new(),
    }
}
