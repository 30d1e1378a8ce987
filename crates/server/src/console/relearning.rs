//! Linear models that are made anew from the journal: begun, looked at, and put to work or let go.

use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use serde::Deserialize;

use super::format::{CELL, number, percent, plain, time, url};
use super::frame::{done, redirect, secret};
use super::texts::{fill, t, word};
use super::visit::{ConsoleForm, ConsoleVisit, PageFailure};
use crate::api::{ClassifierJson, RelearnReportJson, RelearningJson};
use crate::core::viewer::ViewerRight;
use crate::protocol::http::QueryParams;
use crate::protocol::http::learners::{self, AdoptParams, LearnersParams};

/// The time, in seconds, after which a page asks again how far they are.
const REFRESH: u32 = 1;

/// A form about the models of a pipeline.
#[derive(Deserialize)]
pub(super) struct RelearnForm {
    pipeline: String,
    /// Said to replace models that know more.
    replace: Option<String>,
}

/// The part of the page of learners about it, where the pipeline has linear models.
pub(super) async fn section(visit: &ConsoleVisit, pipeline: &str, classifiers: &[ClassifierJson]) -> Markup {
    if !visit.viewer.may(ViewerRight::Rules) || classifiers.iter().all(|one| one.linear.is_empty()) {
        return html! {};
    }
    let params = QueryParams(LearnersParams { pipeline: Some(pipeline.to_owned()) });
    let latest = learners::progress(State(visit.node.clone()), params).await.ok().map(|json| json.0);
    let form = |path: &'static str, fields: Markup| {
        html! {
            form.row method="post" action=(path) {
                (secret(&visit.viewer))
                input type="hidden" name="pipeline" value=(pipeline);
                (fields)
            }
        }
    };
    let discard = || {
        form(
            "/console/learners/relearn/discard",
            html! { button.quiet type="submit" { (t("relearn.discard")) } },
        )
    };
    html! {
        section #relearn {
            h2 { (t("relearn.title")) }
            p.dim { (t("relearn.help")) }
            @match latest.as_ref().map(|job| (job.state.as_str(), job)) {
                Some(("running", job)) => {
                    p role="status" { (fill("relearn.running", &[("n", &number(job.blocks))])) " "
                        a.button href=(url("/console/learners", &[("pipeline", pipeline)])) data-refresh=(REFRESH) data-of="relearn" data-label=(t("overview.go_on")) data-pause=(t("overview.pause")) { (t("editor.again")) }
                    }
                    (discard())
                }
                Some(("ready", RelearningJson { report: Some(report), .. })) => {
                    (preview(report))
                    div.row {
                        (form("/console/learners/relearn/adopt", html! {
                            @if knows_less(report) { label.check { input type="checkbox" name="replace" value="yes" required; (t("relearn.replace")) } }
                            button.primary type="submit" { (t("relearn.adopt")) }
                        }))
                        (discard())
                    }
                }
                latest => {
                    @if let Some((_, job)) = latest { p { (word("relearn_state", &job.state)) " " @if let Some(ended) = job.ended { (time(ended.0, visit.now)) } } }
                    @if let Some(why) = latest.and_then(|(_, job)| job.problem.as_deref()) { p.error { (plain(why, CELL * 4)) } }
                    (form("/console/learners/relearn", html! { button type="submit" { (t("relearn.begin")) } }))
                }
            }
        }
    }
}

/// True if those in use have learned more events of a class, which then have to be replaced on purpose.
fn knows_less(report: &RelearnReportJson) -> bool {
    report.known.good > report.examples.good || report.known.bad > report.examples.bad
}

fn preview(report: &RelearnReportJson) -> Markup {
    let RelearnReportJson { examples, known, check, known_check, undescribed, damaged } = report;
    let share = |wrong: u64, all: u64| match all {
        0 => "–".to_owned(),
        all => format!("{} / {} ({})", number(wrong), number(all), percent(wrong as f64 / all as f64)),
    };
    let rows = [
        (t("relearn.good"), number(known.good), number(examples.good)),
        (t("relearn.bad"), number(known.bad), number(examples.bad)),
        (
            t("relearn.good_wrong"),
            share(known_check.good_wrong, known_check.good),
            share(check.good_wrong, check.good),
        ),
        (
            t("relearn.bad_wrong"),
            share(known_check.bad_wrong, known_check.bad),
            share(check.bad_wrong, check.bad),
        ),
    ];
    html! {
        p role="status" { (t("relearn.ready")) }
        div.scroll tabindex="0" role="region" aria-label=(t("relearn.title")) { table {
            thead { tr { th scope="col" { (t("relearn.what")) } th.number scope="col" { (t("relearn.in_use")) } th.number scope="col" { (t("relearn.new")) } } }
            tbody { @for (what, known, new) in &rows { tr { th scope="row" { (what) } td.number { (known) } td.number { (new) } } } }
        } }
        p.dim { (t("relearn.fair")) }
        @if *undescribed > 0 { p.error { (fill("relearn.undescribed", &[("n", &number(*undescribed))])) } }
        @if *damaged > 0 { p.error { (t("editor.damaged")) } }
    }
}

fn back(pipeline: &str, text: &str) -> Response {
    redirect(&format!("{}#relearn", done(&url("/console/learners", &[("pipeline", pipeline)]), text, 0)))
}

/// Begins to make them.
pub(super) async fn begin(
    ConsoleForm { visit, form }: ConsoleForm<RelearnForm>,
) -> Result<Response, PageFailure> {
    visit.need(ViewerRight::Rules)?;
    let params = QueryParams(LearnersParams { pipeline: Some(form.pipeline.clone()) });
    let _ = learners::relearn(State(visit.node.clone()), params).await?;
    Ok(back(&form.pipeline, "relearning"))
}

/// Uses them.
pub(super) async fn adopt(
    ConsoleForm { visit, form }: ConsoleForm<RelearnForm>,
) -> Result<Response, PageFailure> {
    visit.need(ViewerRight::Rules)?;
    let replace = form.replace.as_deref() == Some("yes");
    let params = QueryParams(AdoptParams { pipeline: Some(form.pipeline.clone()), replace });
    let _ = learners::adopt(State(visit.node.clone()), params).await?;
    Ok(back(&form.pipeline, "relearned"))
}

/// Lets them go.
pub(super) async fn discard(
    ConsoleForm { visit, form }: ConsoleForm<RelearnForm>,
) -> Result<Response, PageFailure> {
    visit.need(ViewerRight::Rules)?;
    let params = QueryParams(LearnersParams { pipeline: Some(form.pipeline.clone()) });
    let _ = learners::discard(State(visit.node.clone()), params).await?;
    Ok(back(&form.pipeline, "discarded"))
}
