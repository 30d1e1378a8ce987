//! The editor of a pipeline's rules: a text, what is wrong with it, and what it would have done to past decisions. It works as a
//! plain form; the page's script puts CodeMirror in the place of its text, refreshes what a trial finds, and checks or tries while one
//! types.

use axum::Json;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use serde::Deserialize;

use super::assets::PageScripts;
use super::format::{CELL, clock, number, percent, plain, points, signed, time, url, value};
use super::frame::{ConsoleSection, done, redirect, secret};
use super::score_fit::{self, SPANS};
use super::texts::{counted, fill, t, word};
use super::visit::{ConsoleForm, ConsoleVisit, PageFailure};
use crate::api::{
    ActionChangeJson, BacktestJson, BacktestReportJson, BacktestRequest, DiagnosticJson, Length,
    PipelineJson, ReloadOutcomeJson, RuleJson,
};
use crate::core::problem::HttpFailure;
use crate::core::viewer::ViewerRight;
use crate::protocol::http::rules::{self, PostParams, RulesParams};
use crate::protocol::http::{JsonBody, QueryParams, backtests, node};

/// Rules that are shown with the number of times that they fire.
const RULES_SHOWN: usize = 30;
/// Lines of the text area.
const ROWS: usize = 22;

/// The text that is to be edited.
#[derive(Default, Deserialize)]
struct EditorQuery {
    pipeline: Option<String>,
    /// A rule that is to be added to the text.
    rule: Option<String>,
    /// The condition of a rule that is to be written.
    when: Option<String>,
    /// A trial, whose text it is.
    trial: Option<String>,
    /// True to begin with the candidate's text.
    #[serde(default)]
    candidate: bool,
    /// True to begin with the scores that the trial has fitted.
    #[serde(default)]
    fitted: bool,
}

/// A form of the editor.
#[derive(Deserialize)]
pub(super) struct EditorForm {
    pipeline: String,
    text: String,
    #[serde(default)]
    span: String,
    /// The trial before, which a new one takes the place of.
    #[serde(default)]
    trial: String,
    r#do: String,
}

/// The page with a text.
pub(super) async fn page(visit: ConsoleVisit) -> Result<Response, PageFailure> {
    visit.need(ViewerRight::Rules)?;
    let query: EditorQuery = visit.query()?;
    let pipeline = visit.node.pipeline(query.pipeline.as_deref())?.name.clone();
    let params = QueryParams(RulesParams { pipeline: Some(pipeline.clone()) });
    let standing = rules::rules(State(visit.node.clone()), params).await?.0;
    let trial = match &query.trial {
        Some(id) => {
            let text = backtests::found(&visit.node, id)?.order.text.clone().unwrap_or_default();
            let seen = backtests::backtest(State(visit.node.clone()), Path(id.clone())).await?.0;
            Some((text, seen))
        }
        None => None,
    };
    let fitted = |trial: &BacktestJson| trial.report.as_ref()?.fit.as_ref()?.text.clone();
    let mut text = match &trial {
        Some((text, trial)) => fitted(trial).filter(|_| query.fitted).unwrap_or_else(|| text.clone()),
        None if query.candidate => visit.node.engine.posted_candidate(&pipeline).unwrap_or_default(),
        None => standing.posted.unwrap_or_default(),
    };
    if let Some(name) = &query.rule {
        let pipelines = node::pipelines(State(visit.node.clone())).await.0.pipelines;
        let of = pipelines.iter().find(|it| it.name == pipeline);
        if let Some(rule) = of.and_then(|it: &PipelineJson| it.rules.iter().find(|rule| rule.name == *name)) {
            add_rule(&mut text, rule);
        }
    }
    if let Some(when) = query.when.as_deref().map(str::trim).filter(|when| !when.is_empty()) {
        let bands = visit.node.pipeline(Some(&pipeline))?;
        // Alone it reaches the last line.
        let score = bands.rules.bands().as_slice().last().map_or(10.0, |band| band.at.ceil());
        add_condition(&mut text, when, score);
    }
    let trial = trial.map(|(_, trial)| trial);
    let span = trial.as_ref().map(span_of).unwrap_or_default();
    let page = EditorPage { visit: &visit, pipeline: &pipeline, text: &text, span: &span };
    Ok(page.response(&html! {}, trial.as_ref()))
}

/// The span that a trial was asked for, if it is one of those that are offered.
fn span_of(trial: &BacktestJson) -> String {
    let length = trial.to.0 - trial.from.0;
    let same = |(span, _): &&(&str, &str)| span.parse::<event::Span>().is_ok_and(|span| span == length);
    SPANS.iter().find(same).map(|(span, _)| (*span).to_owned()).unwrap_or_default()
}

/// Returns a text as TOML has it: a text of JSON is one of TOML, but for one sign.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

/// Adds a new rule with a condition to a text.
fn add_condition(text: &mut String, when: &str, score: f64) {
    let is_taken = |name: &str| text.lines().any(|line| line.trim() == format!("name = {}", quoted(name)));
    let mut names = std::iter::once("NEW_RULE".to_owned()).chain((2..1000).map(|n| format!("NEW_RULE_{n}")));
    let name = names.find(|name| !is_taken(name)).unwrap_or_default();
    begin_rule(text);
    text.push_str(&format!(
        "[[rule]]\nname = {}\nwhen = {}\nscore = {score:?}\n",
        quoted(&name),
        quoted(when)
    ));
}

/// Leaves a line free behind what is there.
fn begin_rule(text: &mut String) {
    if !text.is_empty() && !text.ends_with("\n\n") {
        text.push_str(if text.ends_with('\n') { "\n" } else { "\n\n" });
    }
}

/// Adds a rule to a text, unless it is there.
fn add_rule(text: &mut String, rule: &RuleJson) {
    let name = format!("name = {}", quoted(&rule.name));
    if text.lines().any(|line| line.trim() == name) {
        return;
    }
    begin_rule(text);
    text.push_str(&format!("[[rule]]\n{name}\nwhen = {}\nscore = {:?}\n", quoted(&rule.when), rule.score));
    if rule.mode != "enforce" {
        text.push_str(&format!("mode = {}\n", quoted(&rule.mode)));
    }
}

/// Takes a text: checks it, tries it, or puts it to work.
pub(super) async fn take(
    ConsoleForm { visit, form }: ConsoleForm<EditorForm>,
) -> Result<Response, PageFailure> {
    visit.need(ViewerRight::Rules)?;
    let EditorForm { pipeline, text, span, trial, r#do: what } = form;
    // Browsers send a text's lines with both signs at their ends.
    let text = text.replace("\r\n", "\n");
    let post = |dry_run: bool, candidate: bool| {
        let params = PostParams { pipeline: Some(pipeline.clone()), dry_run, candidate };
        rules::post(State(visit.node.clone()), QueryParams(params), text.clone().into())
    };
    let rules_page = url("/console/rules", &[("pipeline", &pipeline)]);
    let failed = match what.as_str() {
        "try" => {
            if let Ok(before) = backtests::found(&visit.node, &trial) {
                visit.node.backtests.cancel(&before, visit.now);
            }
            let request = BacktestRequest {
                pipeline: Some(pipeline.clone()),
                rules: Some(text.clone()),
                span: span.parse().ok().map(Length),
                ..BacktestRequest::default()
            };
            match backtests::begin(State(visit.node.clone()), JsonBody(request)).await {
                Ok((_, Json(begun))) => {
                    let params = [("pipeline", pipeline.as_str()), ("trial", &begun.id)];
                    return Ok(redirect(&format!("{}#trial", url("/console/rules/edit", &params))));
                }
                Err(failure) => failure,
            }
        }
        "shadow" => match post(false, true).await {
            Ok(_) => return Ok(redirect(&done(&rules_page, "shadowed", 0))),
            Err(failure) => failure,
        },
        "enforce" => match post(false, false).await {
            Ok(_) => return Ok(redirect(&done(&rules_page, "enforced", 0))),
            Err(failure) => failure,
        },
        _ => match post(true, false).await {
            Ok(Json(outcome)) => {
                let page = EditorPage { visit: &visit, pipeline: &pipeline, text: &text, span: &span };
                return Ok(page.response(&changes(&outcome, &text), None));
            }
            Err(failure) => failure,
        },
    };
    let problem = failed.problem();
    if problem.problems.is_empty() {
        return Err(failed.into());
    }
    // The page is what was asked for, and browsers report other statuses as errors of the page.
    let page = EditorPage { visit: &visit, pipeline: &pipeline, text: &text, span: &span };
    Ok(page.response(&mistakes(&problem.problems, &text), None))
}

/// A trial to cancel.
#[derive(Deserialize)]
pub(super) struct CancelForm {
    trial: String,
}

/// Cancels a trial.
pub(super) async fn cancel(
    ConsoleForm { visit, form }: ConsoleForm<CancelForm>,
) -> Result<Response, PageFailure> {
    visit.need(ViewerRight::Rules)?;
    let ended = backtests::cancel(State(visit.node.clone()), Path(form.trial)).await?.0;
    let params = [("pipeline", ended.pipeline.as_str()), ("trial", &ended.id)];
    Ok(redirect(&format!("{}#trial", url("/console/rules/edit", &params))))
}

/// The names that the script of this page and of the search in decisions completes.
pub(super) async fn names(visit: ConsoleVisit) -> Result<Response, HttpFailure> {
    let query: EditorQuery = visit.query()?;
    let params = QueryParams(RulesParams { pipeline: query.pipeline });
    Ok(rules::names(State(visit.node.clone()), params).await?.into_response())
}

/// The page.
struct EditorPage<'a> {
    visit: &'a ConsoleVisit,
    pipeline: &'a str,
    text: &'a str,
    span: &'a str,
}

impl EditorPage<'_> {
    fn response(&self, found: &Markup, trial: Option<&BacktestJson>) -> Response {
        let title = fill("editor.title", &[("pipeline", &self.pipeline)]);
        let content = html! {
            div.head {
                h1 { (title) }
                p.crumbs { a href=(url("/console/rules", &[("pipeline", self.pipeline)])) { (fill("rules.title", &[("pipeline", &self.pipeline)])) } }
            }
            (self.form(trial))
            section #found aria-live="polite" { (found) }
            section #trial data-state=(trial.map_or("none", |trial| trial.state.as_str())) aria-label=(t("editor.trial")) {
                @if let Some(trial) = trial { (self.trial(trial)) } @else { p.dim { (t("editor.no_trial")) } }
            }
        };
        self.visit.frame(title.clone(), ConsoleSection::Rules).with(PageScripts::Editor).page(&content)
    }

    fn form(&self, trial: Option<&BacktestJson>) -> Markup {
        let names = url("/console/rules/names", &[("pipeline", self.pipeline)]);
        let span = if self.span.is_empty() { "1d" } else { self.span };
        html! {
            form #editor.editor method="post" action="/console/rules/edit" data-names=(names) data-label=(t("editor.text")) data-phrases=(phrases()) {
                (secret(&self.visit.viewer))
                input type="hidden" name="pipeline" value=(self.pipeline);
                input type="hidden" name="trial" value=(trial.map_or("", |trial| trial.id.as_str()));
                label for="text" { (t("editor.text")) }
                p.dim #text-help { (t("editor.help")) }
                textarea #text name="text" rows=(ROWS) spellcheck="false" autocomplete="off" autocapitalize="off" wrap="off" aria-describedby="text-help" {
                    // The first end of a line in it is left out by browsers.
                    "\n" (self.text)
                }
                div.row {
                    button type="submit" name="do" value="check" { (t("editor.check")) }
                    select name="span" aria-label=(t("editor.span")) {
                        @for (of, text) in SPANS { option value=(of) selected[of == span] { (t(text)) } }
                    }
                    button.primary type="submit" name="do" value="try" { (t("editor.try")) }
                    label.check #live hidden { input type="checkbox"; (t("editor.live")) }
                    button type="submit" name="do" value="shadow" { (t("editor.shadow")) }
                    button.danger type="submit" name="do" value="enforce" { (t("editor.enforce")) }
                }
            }
        }
    }

    fn trial(&self, trial: &BacktestJson) -> Markup {
        let is_pending = ["waiting", "sampling", "running"].contains(&trial.state.as_str());
        let span = [("from", clock(trial.from.0)), ("to", clock(trial.to.0))];
        html! {
            h2 { (t("editor.trial")) }
            p.dim { (fill("editor.of", &[("from", &span[0].1), ("to", &span[1].1)])) " · " code { (trial.version) } }
            div.row role="status" {
                span.tag { (word("trial", &trial.state)) }
                @if trial.state == "running" {
                    progress max="1" value=(trial.progress) aria-label=(t("editor.progress")) {}
                    span { (percent(trial.progress)) }
                }
                @if trial.is_sample { span { (t("editor.is_sample")) } }
                @if is_pending {
                    a.again href={ (url("/console/rules/edit", &[("pipeline", self.pipeline), ("trial", &trial.id)])) "#trial" } { (t("editor.again")) }
                    form method="post" action="/console/rules/trial/cancel" {
                        (secret(&self.visit.viewer))
                        input type="hidden" name="trial" value=(trial.id);
                        button.quiet type="submit" { (t("editor.cancel")) }
                    }
                }
            }
            @if let Some(problem) = &trial.problem { p.error { (plain(problem, CELL * 2)) } }
            @if trial.damaged > 0 { p.error { (t("editor.damaged")) } }
            @if let Some(report) = &trial.report {
                (score_fit::preview(self.pipeline, trial, report))
                (self.report(report))
            }
        }
    }

    fn report(&self, report: &BacktestReportJson) -> Markup {
        let share = |share: Option<f64>| share.map_or("–".to_owned(), percent);
        html! {
            dl.figures {
                div { dt { (t("editor.judged")) } dd { (number(report.rows)) } }
                div { dt { (t("editor.changed")) } dd { (number(report.changed)) " " span.dim { (percent(report.changed as f64 / report.rows.max(1) as f64)) } } }
                div { dt { (t("editor.rescored")) } dd { (number(report.rescored)) } }
                @if report.labelled > 0 {
                    div { dt { (t("editor.precision")) } dd { (share(report.before.precision)) " → " (share(report.after.precision)) } }
                    div { dt { (t("editor.recall")) } dd { (share(report.before.recall)) " → " (share(report.after.recall)) } }
                    div { dt { (t("editor.lost")) } dd { (share(report.before.false_positive_rate)) " → " (share(report.after.false_positive_rate)) } }
                }
            }
            @for missing in &report.not_logged {
                p.error { (fill("editor.not_logged", &[("fact", &plain(&missing.fact, CELL)), ("rules", &plain(&missing.needed_by.join(", "), CELL))])) }
            }
            div.tiles {
                div.tile {
                    h2 { (t("editor.by_action")) }
                    (self.actions(&report.actions))
                }
                @if !report.labels.is_empty() {
                    div.tile {
                        h2 { (t("editor.by_label")) }
                        @for label in &report.labels {
                            p { b { (value(&label.label, CELL)) } " " (number(label.changed)) span.dim { " / " (number(label.rows)) } }
                            (self.actions(&label.actions))
                        }
                    }
                }
                (self.hits(report))
            }
            (self.examples(report))
        }
    }

    fn actions(&self, actions: &[ActionChangeJson]) -> Markup {
        let changes: Vec<_> = actions.iter().filter(|change| change.before != change.after).collect();
        html! {
            @if changes.is_empty() { p.dim { (t("editor.none_changed")) } } @else {
                table { tbody { @for change in changes {
                    tr {
                        td { (badge(change.before.name())) " → " (badge(change.after.name())) }
                        td.number { (number(change.rows)) }
                    }
                } } }
            }
        }
    }

    fn hits(&self, report: &BacktestReportJson) -> Markup {
        let mut changed: Vec<_> = report.rules.iter().filter(|rule| rule.before != rule.after).collect();
        changed.sort_by_key(|rule| std::cmp::Reverse(rule.before.abs_diff(rule.after)));
        html! {
            @if !changed.is_empty() {
                div.tile {
                    h2 { (t("editor.hits")) }
                    table {
                        thead { tr { th scope="col" { (t("decision.rule")) } th.number scope="col" { (t("editor.before")) } th.number scope="col" { (t("editor.after")) } } }
                        tbody { @for rule in changed.iter().take(RULES_SHOWN) {
                            tr {
                                th scope="row" { span.rule { (value(&rule.rule, CELL)) } @if rule.mode.is_none() { " " span.tag { (t("editor.is_gone")) } } }
                                td.number { (number(rule.before)) }
                                td.number { (number(rule.after)) }
                            }
                        } }
                    }
                }
            }
        }
    }

    fn examples(&self, report: &BacktestReportJson) -> Markup {
        if report.examples.is_empty() {
            return html! {};
        }
        html! {
            h3 #examples { (counted("editor.example", "editor.examples", report.examples.len() as u64)) }
            div.scroll tabindex="0" role="region" aria-labelledby="examples" { table.rows.stacks {
                thead { tr {
                    th scope="col" { (t("editor.decision")) }
                    th scope="col" { (t("editor.before")) }
                    th scope="col" { (t("editor.after")) }
                    th scope="col" { (t("editor.label")) }
                    th scope="col" { (t("editor.rules")) }
                } }
                tbody { @for example in &report.examples {
                    tr {
                        th.whole scope="row" {
                            a href={ "/console/decisions/" (example.id) } { code { (example.id) } } " "
                            @if let Ok(at) = example.time.parse() { (time(at, self.visit.now)) }
                            @if let Some(id) = &example.event_id { " " (value(id, CELL / 4)) }
                        }
                        td { (badge(example.before.action.name())) " " (points(example.before.score)) }
                        td { (badge(example.after.action.name())) " " (points(example.after.score)) " " span.dim { (signed(example.after.score - example.before.score)) } }
                        td { @if let Some(label) = &example.label { (value(label, CELL / 4)) } }
                        td.saw {
                            @for rule in &example.fires_now { span.count { "+" (value(rule, CELL / 2)) } }
                            @for rule in &example.fires_no_more { span.count { "−" (value(rule, CELL / 2)) } }
                        }
                    }
                } }
            } }
        }
    }
}

fn badge(action: &str) -> Markup {
    html! { span.badge.(action) { (word("action", action)) } }
}

/// The mistakes of a text, each with its line.
fn mistakes(problems: &[DiagnosticJson], text: &str) -> Markup {
    html! {
        h2 { (counted("editor.mistake", "editor.mistakes", problems.len() as u64)) }
        ol.mistakes { @for problem in problems { (mistake(problem, text)) } }
    }
}

fn mistake(problem: &DiagnosticJson, text: &str) -> Markup {
    // What is in a file of the node is not in the text.
    let is_own = problem.file.ends_with("rules") || problem.file == "candidate";
    let line = text.lines().nth(problem.line.saturating_sub(1)).filter(|_| is_own);
    html! {
        li {
            @if line.is_some() {
                a.at href="#text" data-line=(problem.line) data-column=(problem.column)
                    data-severity=(problem.severity) data-message=(explained(problem)) { (fill("editor.at", &[("line", &problem.line), ("column", &problem.column)])) }
            } @else {
                code { (plain(&problem.file, CELL)) ":" (problem.line) ":" (problem.column) }
            }
            " " @if problem.severity == "error" { b.error { (plain(&problem.message, CELL * 4)) } } @else { (plain(&problem.message, CELL * 4)) }
            @if let Some(line) = line { pre { (plain(line, CELL)) "\n" (" ".repeat(problem.column.saturating_sub(1).min(CELL))) "^" } }
            @if let Some(help) = &problem.help { p.dim { (plain(help, CELL * 4)) } }
        }
    }
}

/// A mistake and its mend, as the editor shows them at their place.
fn explained(problem: &DiagnosticJson) -> String {
    let help = problem.help.iter().map(|help| format!("\n{}", plain(help, CELL * 4)));
    std::iter::once(plain(&problem.message, CELL * 4)).chain(help).collect()
}

/// The texts of CodeMirror, by what they are called there, as JSON.
fn phrases() -> String {
    let texts = [
        ("Completions", t("code.completions")),
        ("Control character", t("code.control_character")),
        ("Diagnostics", t("code.diagnostics")),
        ("No diagnostics", t("code.no_diagnostics")),
        ("Selection deleted", t("code.selection_deleted")),
        ("Find", t("code.find")),
        ("Replace", t("code.replace")),
        ("next", t("code.next")),
        ("previous", t("code.previous")),
        ("all", t("code.all")),
        ("match case", t("code.match_case")),
        ("regexp", t("code.regexp")),
        ("by word", t("code.by_word")),
        ("replace", t("code.replace_one")),
        ("replace all", t("code.replace_all")),
        ("replaced match on line $", t("code.replaced_one")),
        ("replaced $ matches", t("code.replaced")),
        ("current match", t("code.current_match")),
        ("on line", t("code.on_line")),
        ("Go to line", t("code.go_to_line")),
        ("go", t("code.go")),
        ("close", t("code.close")),
    ];
    serde_json::Value::Object(texts.map(|(of, text)| (of.to_owned(), text.into())).into_iter().collect())
        .to_string()
}

/// The changes that a text would make.
fn changes(outcome: &ReloadOutcomeJson, text: &str) -> Markup {
    let lists = |change: &crate::api::PipelineChangeJson| {
        [
            ("editor.adds", change.added.clone()),
            ("editor.removes", change.removed.clone()),
            ("editor.changes", change.changed.clone()),
            ("editor.counts", change.counted.clone()),
        ]
    };
    html! {
        p.good { (t(if outcome.changes.is_empty() { "editor.fine_same" } else { "editor.fine" })) }
        @for change in &outcome.changes { @for (text, entries) in lists(change) { @if !entries.is_empty() {
            p { (t(text)) " " @for entry in entries.iter().take(RULES_SHOWN) { code.count { (plain(entry, CELL)) } } }
        } } }
        @if !outcome.warnings.is_empty() {
            ol.mistakes { @for warning in outcome.warnings.iter().take(RULES_SHOWN) { (mistake(warning, text)) } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_added_once() {
        let rule: RuleJson = serde_json::from_value(serde_json::json!({
            "name": "A\"\u{7f}", "score": 1.5, "mode": "shadow", "when": "x == 'a'\nb", "description": "",
        }))
        .unwrap_or_else(|error| panic!("{error}"));
        let mut text = "# mine".to_owned();
        add_rule(&mut text, &rule);
        let once = text.clone();
        let expected = "# mine\n\n[[rule]]\nname = \"A\\\"\\u007f\"\nwhen = \"x == 'a'\\nb\"\nscore = 1.5\nmode = \"shadow\"\n";
        assert_eq!(once, expected);
        assert!(toml::de::DeTable::parse(&once).is_ok());
        add_rule(&mut text, &rule);
        assert_eq!(text, once);
    }
}
