//! The page of lines and learners: what bands promise and what came of it, whether probabilities come true, what classifiers and
//! models know; and a form that checks an event without a trace, or teaches it.

use std::time::Duration;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;
use event::{Span, Time};
use judge::Action;
use maud::{Markup, html};
use serde::Deserialize;

use super::assets::PageScripts;
use super::band_table::{lines, shown_share};
use super::charts::{ColumnAxis, StackedChart, UnitPlot, share_bar};
use super::decision;
use super::decisions::absent;
use super::format::{CELL, length, number, percent, plain, points, time, url, value};
use super::frame::{ConsoleSection, secret};
use super::relearning;
use super::score_fit;
use super::texts::{counted, fill, t, word};
use super::upload::UploadForm;
use super::visit::{ConsoleVisit, PageFailure};
use crate::api::{
    ClassifierJson, DecisionStatisticsJson, JudgedCountsJson, LearnersJson, ModelJson, MovedLineJson,
    PipelineJson, ProbabilityBinJson, ScoreBinJson, TrainingCountsJson,
};
use crate::core::grant::note;
use crate::core::problem::{HttpFailure, INVALID_BODY};
use crate::core::viewer::{UPLOAD, ViewerRight};
use crate::protocol::http::decisions::{self, DecisionFilterParams, StatisticsAge, StatisticsParams};
use crate::protocol::http::events::{self, EventParams};
use crate::protocol::http::feedback::{self, LearnParams};
use crate::protocol::http::learners::{self, LearnersParams};
use crate::protocol::http::{QueryParams, node};
use crate::protocol::input;

/// The time that is spent on statistics for a page.
const PATIENCE: Duration = Duration::from_millis(200);
/// The unit in which times of statistics begin.
const MINUTE: Span = Span::minutes(1);
/// Columns of the chart of scores.
const COLUMNS: i64 = 120;
/// Rows of the table of what lines would reach.
const ROWS: usize = 12;
/// Features that are shown of a model.
const FEATURES: usize = 40;
/// Lengths of time that can be looked back on.
const BACK: [&str; 4] = ["1d", "7d", "30d", "365d"];

/// A pipeline, a time, and a line to move.
#[derive(Default, Deserialize)]
#[serde(default)]
struct LearnersQuery {
    pipeline: String,
    last: String,
    line: String,
    at: String,
}

/// The page.
pub(super) async fn page(visit: ConsoleVisit) -> Result<Response, PageFailure> {
    let query: LearnersQuery = visit.query()?;
    let pipelines = node::pipelines(State(visit.node.clone())).await.0.pipelines;
    let wanted = Some(query.pipeline.clone()).filter(|name| !name.is_empty());
    let known = LearnersParams { pipeline: wanted };
    let known = learners::learners(State(visit.node.clone()), QueryParams(known)).await?.0;
    let made = statistics(&visit, &known.pipeline, &query).await;
    let page = LearnersPage { visit: &visit, query: &query, known: &known };
    let pipeline = pipelines.iter().find(|pipeline| pipeline.name == known.pipeline);
    let frame = visit.frame(t("learners.title"), ConsoleSection::Learners).with(PageScripts::Charts);
    Ok(frame.page(&html! {
        div.head {
            h1 { (fill("learners.of", &[("pipeline", &known.pipeline)])) }
            @if pipelines.len() > 1 { nav.tabs aria-label=(t("rules.pipelines")) { @for one in &pipelines {
                a href=(url("/console/learners", &[("pipeline", &one.name)])) aria-current=[(one.name == known.pipeline).then_some("true")] { (one.name) }
            } } }
        }
        @if !known.drift.is_empty() { ul.conditions role="status" { @for warning in &known.drift { li { (warning) } } } }
        (page.lines())
        @match &made {
            Ok(made) => {
                (page.moving(made))
                (scores(made))
                (reach(made))
                (calibration(&known, made))
            }
            Err(failure) => {
                @let problem = failure.problem();
                div.empty role="alert" { p.error { (plain(&problem.detail, CELL * 4)) } @if let Some(help) = &problem.help { p.dim { (plain(help, CELL * 4)) } } }
            }
        }
        (score_fit::form(&visit, &known.pipeline))
        (classifiers(&known.classifiers))
        (relearning::section(&visit, &known.pipeline, &known.classifiers).await)
        (models(&known.models))
        @if let Some(pipeline) = pipeline { (try_form(&visit, pipeline)) }
    }))
}

/// The statistics of the latest decisions of a pipeline, as they are at hand.
pub(super) async fn latest(
    visit: &ConsoleVisit,
    pipeline: &str,
) -> Result<DecisionStatisticsJson, HttpFailure> {
    statistics(visit, pipeline, &LearnersQuery::default()).await
}

/// The statistics of the decisions that are looked at.
async fn statistics(
    visit: &ConsoleVisit,
    pipeline: &str,
    query: &LearnersQuery,
) -> Result<DecisionStatisticsJson, HttpFailure> {
    let back = query.last.parse::<Span>().ok();
    let filter = DecisionFilterParams {
        pipeline: Some(pipeline.to_owned()),
        // To a minute, so that who looks again a moment later sees what was made for the first.
        from: back.map(|back| Time((visit.now - back).bucket(MINUTE) * MINUTE.0).to_string()),
        ..DecisionFilterParams::default()
    };
    // A decimal comma is one, too.
    let at = query.at.trim().replace(',', ".").replace('−', "-").parse::<f64>().ok();
    let line = Some(query.line.clone()).filter(|line| !line.is_empty() && at.is_some());
    let params = StatisticsParams { bin: None, at: at.filter(|_| line.is_some()), line };
    let age = StatisticsAge::Recent;
    decisions::statistics_of_all(&visit.node, filter.read()?, params, PATIENCE, age).await
}

struct LearnersPage<'a> {
    visit: &'a ConsoleVisit,
    query: &'a LearnersQuery,
    known: &'a LearnersJson,
}

impl LearnersPage<'_> {
    fn lines(&self) -> Markup {
        let bands = &self.known.bands;
        html! {
            section {
                h2 #lines { (t("learners.lines")) }
                @if bands.is_empty() { div.empty { p { (t("learners.no_lines")) } } } @else { (lines(bands)) }
            }
        }
    }

    /// The form that moves a line, and what that would change.
    fn moving(&self, made: &DecisionStatisticsJson) -> Markup {
        let (query, known) = (self.query, self.known);
        html! {
            @if !known.bands.is_empty() {
                section {
                    h2 { (t("learners.move")) }
                    form.search action="/console/learners" {
                        input type="hidden" name="pipeline" value=(known.pipeline);
                        div.row {
                            select name="line" aria-label=(t("learners.line")) {
                                @for band in &known.bands { option value=(band.action.name()) selected[query.line == band.action.name()] { (fill("decision.line", &[("action", &word("action", band.action.name()))])) } }
                            }
                            input name="at" inputmode="decimal" value=(query.at) aria-label=(t("learners.to")) placeholder=(t("learners.to")) maxlength="16" autocomplete="off";
                            select name="last" aria-label=(t("decisions.when")) {
                                option value="" selected[query.last.is_empty()] { (t("decisions.any_time")) }
                                @for last in BACK { option value=(last) selected[query.last == last] { (fill("decisions.last", &[("length", &length(last.parse().unwrap_or(Span::days(1))))])) } }
                            }
                            button.primary type="submit" { (t("learners.show")) }
                        }
                    }
                    @if let Some(moved) = &made.moved { (self.moved(moved)) }
                    p.dim {
                        (counted("learners.judged_one", "learners.judged", total(&made.decisions)))
                        " " (fill("learners.sides", &[("good", &number(made.decisions.good)), ("bad", &number(made.decisions.bad))]))
                        @if let Some(reached) = &made.reached { " " (t("learners.back_to")) " " (time(reached.0, self.visit.now)) "." }
                    }
                    (absent(&made.absent))
                }
            }
        }
    }

    fn moved(&self, moved: &MovedLineJson) -> Markup {
        let MovedLineJson { action, at, to, between } = moved;
        let (low, high) = (at.min(*to).to_string(), at.max(*to).to_string());
        let text = if to < at { "learners.would" } else { "learners.would_not" };
        let found =
            [("pipeline", self.known.pipeline.as_str()), ("score_from", &low), ("score_below", &high)];
        let found = found
            .into_iter()
            .chain(Some(("last", self.query.last.as_str())).filter(|(_, last)| !last.is_empty()));
        html! {
            p.moved role="status" {
                (fill(text, &[("n", &number(total(between))), ("action", &word("action", action.name())), ("from", &points(*at)), ("to", &points(*to))]))
                " " (fill("learners.sides", &[("good", &number(between.good)), ("bad", &number(between.bad))]))
                @if self.visit.viewer.may(ViewerRight::ReadContent) {
                    " " a href=(url("/console/decisions", &found.collect::<Vec<_>>())) { (t("learners.which")) }
                }
            }
        }
    }
}

pub(super) fn total(counts: &JudgedCountsJson) -> u64 {
    counts.good.saturating_add(counts.bad).saturating_add(counts.unjudged)
}

/// A part of a whole; none of nothing.
fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// Decisions by score, by the side that they were judged.
fn scores(made: &DecisionStatisticsJson) -> Markup {
    let (Some(first), Some(last)) = (made.scores.first(), made.scores.last()) else { return html! {} };
    let bin = 0.5;
    let place = |bin_from: f64| (bin_from / bin).round() as i64;
    let (low, high) = (place(first.from), place(last.from));
    let low = low.max(high - COLUMNS + 1);
    let columns = (low..=high).map(|number| {
        let of = made.scores.iter().filter(|of| place(of.from).max(low) == number);
        let sums = of.fold(JudgedCountsJson::default(), |sum, of| JudgedCountsJson {
            good: sum.good + of.decisions.good,
            bad: sum.bad + of.decisions.bad,
            unjudged: sum.unjudged + of.decisions.unjudged,
        });
        vec![sums.good, sums.unjudged, sums.bad]
    });
    let sorts = [
        ("learners.good", "part-good"),
        ("learners.unjudged", "part-unjudged"),
        ("learners.bad", "part-bad"),
    ];
    let chart = StackedChart {
        axis: ColumnAxis::Points { first: low as f64 * bin, width: bin },
        across: t("learners.to"),
        sorts: sorts.map(|(text, class)| (t(text).to_owned(), class.to_owned())).to_vec(),
        columns: columns.collect(),
        open: None,
    };
    html! {
        section {
            h2 { (t("learners.scores")) }
            figure.chart {
                figcaption { span.dim { (t("learners.scores_help")) } }
                (chart.draw())
                div.axis aria-hidden="true" { span { (points(low as f64 * bin)) } span { (points((high + 1) as f64 * bin)) } }
            }
        }
    }
}

/// The decisions of each side that reach a score.
#[derive(Clone, Copy, Debug, PartialEq)]
struct ReachPoint {
    from: f64,
    good: u64,
    bad: u64,
}

/// The decisions of each side that reach each score, falling.
fn reached(scores: &[ScoreBinJson]) -> Vec<ReachPoint> {
    let mut sum = ReachPoint { from: 0.0, good: 0, bad: 0 };
    let points = scores.iter().rev().map(|bin| {
        let JudgedCountsJson { good, bad, .. } = bin.decisions;
        sum = ReachPoint { from: bin.from, good: sum.good + good, bad: sum.bad + bad };
        sum
    });
    points.collect()
}

/// The shares of both sides that a line at each score would reach (receiver operating characteristic).
fn reach(made: &DecisionStatisticsJson) -> Markup {
    let points_of = reached(&made.scores);
    let JudgedCountsJson { good, bad, .. } = made.decisions;
    if good == 0 || bad == 0 {
        return html! { section { h2 { (t("learners.reach")) } p.dim { (t("learners.no_sides")) } } };
    }
    let xy = |point: &ReachPoint| (point.good as f64 / good as f64, point.bad as f64 / bad as f64);
    let curve: Vec<(f64, f64)> = std::iter::once((0.0, 0.0)).chain(points_of.iter().map(xy)).collect();
    // The bin in which a line lies, and others at equal steps between.
    let marks = made.bands.iter().filter_map(|band| {
        let point = points_of.iter().rev().find(|point| point.from >= band.at - 0.25)?;
        Some((band.action, point))
    });
    let marks: Vec<(Action, &ReachPoint)> = marks.collect();
    let step = points_of.len().div_ceil(ROWS).max(1);
    let rows = points_of
        .iter()
        .enumerate()
        .filter(|(index, point)| index % step == 0 || marks.iter().any(|(_, mark)| mark.from == point.from));
    html! {
        section {
            h2 #reach { (t("learners.reach")) }
            div.beside {
                figure.chart {
                    figcaption { span.dim { (t("learners.reach_help")) } }
                    (UnitPlot { curve: &curve, dots: &marks.iter().map(|(_, point)| xy(point)).collect::<Vec<_>>(), across: t("learners.of_good"), up: t("learners.of_bad") }.draw())
                    div.axis aria-hidden="true" { span { "0 %" } span { (t("learners.of_good")) } span { "100 %" } }
                }
                div.scroll tabindex="0" role="region" aria-labelledby="reach" { table {
                    thead { tr {
                        th.number scope="col" { (t("learners.from_score")) }
                        th.number scope="col" { (t("learners.of_good")) }
                        th.number scope="col" { (t("learners.of_bad")) }
                        th.number scope="col" { (t("learners.precision")) }
                        th scope="col" { (t("learners.line")) }
                    } }
                    tbody { @for (_, point) in rows { tr {
                        th.number scope="row" { (points(point.from)) }
                        td.number { (shown_share(share(point.good, good))) }
                        td.number { (shown_share(share(point.bad, bad))) }
                        td.number { (shown_share(share(point.bad, point.good + point.bad))) }
                        td { @for (action, _) in marks.iter().filter(|(_, mark)| mark.from == point.from) { span.badge.(action.name()) { (word("action", action.name())) } " " } }
                    } } }
                } }
            }
        }
    }
}

/// Promised probabilities against what came of them.
fn calibration(known: &LearnersJson, made: &DecisionStatisticsJson) -> Markup {
    let judged = |bin: &ProbabilityBinJson| bin.decisions.good + bin.decisions.bad;
    let bins: Vec<&ProbabilityBinJson> = made.probabilities.iter().filter(|bin| judged(bin) > 0).collect();
    let xy = |bin: &&ProbabilityBinJson| {
        let all = judged(bin).max(1) as f64;
        (bin.expected / all, bin.decisions.bad as f64 / all)
    };
    let dots: Vec<(f64, f64)> = bins.iter().map(xy).collect();
    let curve = &known.calibration;
    html! {
        section {
            h2 #calibration { (t("learners.calibration")) }
            p.dim {
                @if curve.drawn { (fill("learners.drawn", &[("good", &number(curve.good as u64)), ("bad", &number(curve.bad as u64))])) }
                @else { (t("learners.assumed")) }
                @if let Some(brier) = curve.brier { " " (fill("learners.brier", &[("brier", &format!("{brier:.3}"))])) }
            }
            @if bins.is_empty() { p.dim { (t("learners.no_probabilities")) } } @else {
                div.beside {
                    figure.chart {
                        figcaption { span.dim { (t("learners.calibration_help")) } }
                        (UnitPlot { curve: &dots, dots: &dots, across: t("learners.said"), up: t("learners.came_share") }.draw())
                        div.axis aria-hidden="true" { span { "0 %" } span { (t("learners.said")) } span { "100 %" } }
                    }
                    div.scroll tabindex="0" role="region" aria-labelledby="calibration" { table {
                        thead { tr {
                            th scope="col" { (t("learners.said")) }
                            th.number scope="col" { (t("learners.judged_column")) }
                            th.number scope="col" { (t("learners.expected")) }
                            th.number scope="col" { (t("learners.came")) }
                            th.number scope="col" { (t("learners.came_share")) }
                        } }
                        tbody { @for bin in &bins { tr {
                            th.nowrap scope="row" { (percent(bin.from)) " – " (percent(bin.to)) }
                            td.number { (number(judged(bin))) }
                            td.number { (points(bin.expected)) }
                            td.number { (number(bin.decisions.bad)) }
                            td.number { (shown_share(share(bin.decisions.bad, judged(bin)))) }
                        } } }
                    } }
                }
            }
        }
    }
}

/// The examples that were taught, as a bar of the bad ones.
fn examples(learned: TrainingCountsJson) -> Markup {
    let TrainingCountsJson { good, bad } = learned;
    html! {
        p { b { (number(good)) } " " (t("learners.good")) ", " b { (number(bad)) } " " (t("learners.bad")) }
        @if good + bad > 0 { (share_bar(bad as f64 / (good + bad) as f64)) }
    }
}

fn classifiers(all: &[ClassifierJson]) -> Markup {
    html! {
        section {
            h2 { (t("learners.classifiers")) }
            @if all.is_empty() { p.dim { (t("learners.no_classifiers")) } }
            ul.cards { @for one in all { li.learner {
                p { b { (value(&one.name, CELL / 2)) } @if let Some(per) = &one.per { " " span.dim { (fill("learners.per", &[("kind", per)])) } } }
                @match one.learned {
                    Some(learned) => { (examples(learned)) }
                    None => { p.dim { (t("learners.of_each")) } }
                }
                @if one.learned.is_some_and(|learned| learned == TrainingCountsJson::default()) { p.dim { (t("learners.untaught")) } }
                dl.stack {
                    dt { (t("learners.facts")) } dd { code { (plain(&one.of.join(", "), CELL * 4)) } }
                    dt { (t("learners.by")) } dd {
                        (t("learners.bad")) ": " (plain(&one.bad.join(", "), CELL)) "; " (t("learners.good")) ": " (plain(&one.good.join(", "), CELL))
                        @if one.auto { "; " (t("learners.auto")) }
                    }
                    @for linear in &one.linear {
                        dt { (t("learners.linear")) " " code { (plain(&linear.fact, CELL)) } }
                        dd { (fill("learners.examples", &[("good", &number(linear.learned.good)), ("bad", &number(linear.learned.bad))])) }
                    }
                }
            } } }
        }
    }
}

fn models(all: &[ModelJson]) -> Markup {
    html! {
        @if !all.is_empty() {
            section {
                h2 { (t("learners.models")) }
                ul.cards { @for one in all { li.learner {
                    p { b { (value(&one.name, CELL / 2)) } " " span.tag { (word("mode", &one.mode)) } }
                    @if !one.description.is_empty() { p { (value(&one.description, CELL * 2)) } }
                    p.dim { (fill("learners.trees", &[("n", &number(one.trees as u64)), ("used", &number(one.used.len() as u64)), ("unused", &number(one.unused.len() as u64))])) }
                    details {
                        summary { (t("learners.features")) }
                        p { @for (index, feature) in one.used.iter().take(FEATURES).enumerate() { @if index > 0 { ", " } code { (plain(feature, CELL)) } } @if one.used.len() > FEATURES { " …" } }
                    }
                } } }
            }
        }
    }
}

/// The form that takes an event, to check it or to teach it.
fn try_form(visit: &ConsoleVisit, pipeline: &PipelineJson) -> Markup {
    let (may_check, may_teach) =
        (visit.viewer.may(ViewerRight::ReadContent), visit.viewer.may(ViewerRight::Teach));
    html! {
        @if may_check || may_teach {
            section.card #try {
                h2 { (t("learners.try")) }
                p.dim { (t("learners.try_help")) }
                form.stacked method="post" action=(UPLOAD) enctype="multipart/form-data" {
                    (secret(&visit.viewer))
                    input type="hidden" name="pipeline" value=(pipeline.name);
                    label { (t("learners.text")) textarea name="text" rows="8" spellcheck="false" autocomplete="off" {} }
                    label { (t("learners.file")) input type="file" name="file"; }
                    div.buttons {
                        @if may_check { button.primary type="submit" name="class" value="" { (t("learners.check")) } }
                        @if may_teach { @for class in &pipeline.feedback {
                            button type="submit" name="class" value=(class) { (fill("learners.teach", &[("class", class)])) }
                        } }
                    }
                }
            }
        }
    }
}

/// Checks an event, or teaches it.
pub(super) async fn try_event(form: UploadForm) -> Result<Response, PageFailure> {
    let visit = &form.visit;
    let (class, name) = (form.text("class"), form.text("pipeline"));
    let pipelines = node::pipelines(State(visit.node.clone())).await.0.pipelines;
    let pipeline = pipelines.into_iter().find(|pipeline| pipeline.name == name);
    let pipeline = pipeline.ok_or_else(|| INVALID_BODY.failure(t("error.form")))?;
    let of_file = form.bytes("file");
    let sent = if of_file.is_empty() { form.bytes("text") } else { of_file };
    if sent.trim_ascii().is_empty() {
        return Err(INVALID_BODY.failure(t("learners.nothing")).into());
    }
    let facts = visit.node.engine.plan().pipeline(Some(&name)).and_then(|pipeline| {
        let of = pipeline.classifiers.iter().flat_map(|classifier| &classifier.of);
        of.map(|(fact, ..)| fact.clone()).next()
    });
    let (media, body) = as_event(&pipeline.input, facts.as_deref(), sent);
    let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, HeaderValue::from_static(media))]);
    let frame = visit.frame(t("learners.try"), ConsoleSection::Learners);
    let back = url("/console/learners", &[("pipeline", &name)]);
    if class.is_empty() {
        visit.need(ViewerRight::ReadContent)?;
        note("form", "check");
        note("pipeline", name.clone());
        let params = EventParams { pipeline: Some(name), ..EventParams::default() };
        let checked = events::check(State(visit.node.clone()), QueryParams(params), headers, body).await?.0;
        return Ok(frame.page(&html! {
            p.crumbs { a href=(back) { (t("learners.back")) } span.tag { (t("learners.checked")) } }
            @if !checked.warnings.is_empty() { ul.conditions { @for warning in &checked.warnings { li { (value(warning, CELL * 4)) } } } }
            (decision::without_trace(visit, &checked, &pipeline))
        }));
    }
    visit.need(ViewerRight::Teach)?;
    note("form", "learn");
    let params = LearnParams { class, by: None, pipeline: Some(name), message_time: false, envelope: None };
    let learned = feedback::learn(State(visit.node.clone()), QueryParams(params), headers, body).await?.0;
    Ok(frame.page(&html! {
        h1 { (t("learners.try")) }
        p.notice role="status" {
            @if learned.duplicate { (t("done.feedback_again")) } @else {
                (fill("learners.taught", &[("class", &plain(&learned.class, CELL)), ("keys", &number(learned.keys as u64)), ("tokens", &number(learned.tokens as u64))]))
            }
        }
        @if !learned.warnings.is_empty() { ul.conditions { @for warning in &learned.warnings { li { (value(warning, CELL * 4)) } } } }
        p { a href=(back) { (t("learners.back")) } }
    }))
}

/// Makes an event of what was pasted or uploaded: as it stands if it is one, or else as its text.
fn as_event(of: &str, fact: Option<&str>, sent: &[u8]) -> (&'static str, Bytes) {
    match of {
        "message" => {
            let first = sent.split(|byte| *byte == b'\n').next().unwrap_or_default();
            let name = first.split(|byte| *byte == b':').next().unwrap_or_default();
            let is_field =
                name.len() < first.len() && name.iter().all(u8::is_ascii_graphic) && !name.is_empty();
            let is_message = is_field || first.starts_with(b"From ");
            let head: &[u8] = if is_message { b"" } else { b"\r\n" };
            (input::MESSAGE, [head, sent].concat().into())
        }
        "json" => {
            let is_object = sent.trim_ascii().starts_with(b"{");
            match fact.filter(|_| !is_object) {
                None => (input::JSON, sent.to_vec().into()),
                Some(fact) => {
                    let text = String::from_utf8_lossy(sent);
                    (input::JSON, serde_json::json!({ fact: text.trim_end() }).to_string().into())
                }
            }
        }
        _ => (input::LOG, sent.trim_ascii_end().to_vec().into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pasted_text_becomes_an_event() {
        let check = |of: &str, sent: &str, media: &str, expected: &str| {
            let (found, body) = as_event(of, Some("text"), sent.as_bytes());
            assert_eq!((found, std::str::from_utf8(&body).unwrap()), (media, expected), "{of} {sent}");
        };
        check("message", "Subject: a\r\n\r\nb", input::MESSAGE, "Subject: a\r\n\r\nb");
        check(
            "message",
            "From a@b.example Thu\nSubject: a\n\nb",
            input::MESSAGE,
            "From a@b.example Thu\nSubject: a\n\nb",
        );
        check("message", "Buy now: pills\r\n", input::MESSAGE, "\r\nBuy now: pills\r\n");
        check("message", "Buy now", input::MESSAGE, "\r\nBuy now");
        check("json", " {\"text\": \"a\"}", input::JSON, " {\"text\": \"a\"}");
        check("json", "say \"a\"\r\n", input::JSON, "{\"text\":\"say \\\"a\\\"\"}");
        check("access-log", "a line\r\n", input::LOG, "a line");
        assert_eq!(as_event("json", None, b"a").1, Bytes::from_static(b"a"));
    }

    #[test]
    fn lines_reach_what_lies_above_them() {
        let bin = |from: f64, good: u64, bad: u64| ScoreBinJson {
            from,
            decisions: JudgedCountsJson { good, bad, unjudged: 7 },
        };
        let found = reached(&[bin(-1.0, 5, 0), bin(0.0, 3, 1), bin(4.5, 1, 2)]);
        let found: Vec<_> = found.iter().map(|point| (point.from, point.good, point.bad)).collect();
        assert_eq!(found, [(4.5, 1, 2), (0.0, 4, 3), (-1.0, 9, 3)]);
        assert_eq!((share(1, 0), share(1, 4)), (None, Some(0.25)));
    }
}
