//! The page that bans what a list has: looked at first, then imported.

use axum::body::Bytes;
use axum::extract::State;
use axum::response::Response;
use event::Span;
use maud::{Markup, html};
use plan::formats::block_list::BlockListFormat;

use super::format::{CELL, length, number, plain, value};
use super::frame::{ConsoleSection, secret};
use super::keys::BAN_LENGTHS;
use super::texts::{fill, t};
use super::upload::UploadForm;
use super::visit::{ConsoleVisit, PageFailure};
use crate::api::BanImportJson;
use crate::core::node::Node;
use crate::core::problem::{HttpFailure, INVALID_BODY};
use crate::core::viewer::{LIST_UPLOAD, ViewerRight};
use crate::protocol::http::QueryParams;
use crate::protocol::http::ban_import::{self, BanImportParams};

/// Longest list that is shown again, to be changed; of a longer one the file is chosen again.
const SHOWN_BYTES: usize = 1 << 20;

/// The choices of the form.
#[derive(Default)]
struct ImportChoice {
    /// Pipeline, kind and label, as a list in JSON.
    target: String,
    lasts: String,
    format: String,
    text: String,
    /// The entry behind which an import is to go on that has stopped.
    from: Option<usize>,
}

/// The form.
pub(super) async fn page(visit: ConsoleVisit) -> Result<Response, PageFailure> {
    visit.need(ViewerRight::Enforce)?;
    let choice = ImportChoice { lasts: "7d".to_owned(), ..ImportChoice::default() };
    Ok(shown(&visit, &choice, &html! {}))
}

/// Looks at a list, or bans what it has.
pub(super) async fn take(form: UploadForm) -> Result<Response, PageFailure> {
    let visit = &form.visit;
    visit.need(ViewerRight::Enforce)?;
    let unfit = || INVALID_BODY.failure(t("error.form"));
    let dry_run = match form.text("do").as_str() {
        "preview" => true,
        "import" => false,
        _ => return Err(unfit().into()),
    };
    let of_file = form.bytes("file");
    let list = if of_file.is_empty() { form.bytes("text") } else { of_file };
    let text =
        if list.len() <= SHOWN_BYTES { String::from_utf8_lossy(list).into_owned() } else { String::new() };
    let is_long = list.len() > SHOWN_BYTES;
    let mut choice = ImportChoice {
        target: form.text("target"),
        lasts: form.text("lasts"),
        format: form.text("format"),
        text,
        from: form.text("from").parse().ok(),
    };
    if list.trim_ascii().is_empty() {
        return Ok(shown(visit, &choice, &html! { p.notice role="status" { (t("bans.import_nothing")) } }));
    }
    let (pipeline, kind, label): (String, String, String) =
        serde_json::from_str(&choice.target).map_err(|_| unfit())?;
    let asked = BanImportParams {
        pipeline: Some(pipeline),
        kind: Some(kind),
        label,
        lasts: choice.lasts.clone(),
        format: (!choice.format.is_empty()).then(|| choice.format.clone()),
        from: choice.from,
        dry_run,
    };
    let list = Bytes::copy_from_slice(list);
    let said = match ban_import::import(State(visit.node.clone()), QueryParams(asked), list).await {
        Ok(done) => {
            choice.from = done.stopped.is_some().then_some(done.passed).filter(|_| !dry_run);
            outcome(&done.0, dry_run, is_long)
        }
        Err(failure) => refused(&failure),
    };
    Ok(shown(visit, &choice, &said))
}

/// Says why a list was not taken.
fn refused(failure: &HttpFailure) -> Markup {
    let problem = failure.problem();
    html! {
        section.card role="status" {
            h2 { (t("bans.import_failed")) }
            p { (plain(&problem.detail, CELL * 4)) }
            @if let Some(help) = &problem.help { p.dim { (plain(help, CELL * 4)) } }
        }
    }
}

/// Tells what a list has, or what was banned by it.
fn outcome(done: &BanImportJson, dry_run: bool, is_long: bool) -> Markup {
    let n = |n: usize| number(n as u64);
    let title = if dry_run { t("bans.import_preview") } else { t("bans.import_done") };
    let banned = if dry_run { "bans.import_would" } else { "bans.import_banned" };
    html! {
        section.card role="status" {
            h2 { (title) }
            p {
                (fill(banned, &[("banned", &n(done.banned)), ("entries", &n(done.entries))])) " "
                (fill("bans.import_refused", &[("n", &n(done.refused))])) " "
                (fill("bans.import_bad", &[("n", &number(done.bad_lines))]))
            }
            @if let Some(why) = &done.stopped {
                p { b { (fill("bans.import_stopped", &[("passed", &n(done.passed)), ("why", &plain(why, CELL * 2))])) } }
            }
            @if done.unshared { p { (t("bans.import_unshared")) } }
            @if dry_run && is_long { p.dim { (t("bans.import_again")) } }
            @if !done.refusals.is_empty() {
                h3 { (t("bans.import_refusals")) }
                ul { @for refusal in &done.refusals { li { (value(&refusal.value, CELL)) " " span.dim { (plain(&refusal.detail, CELL * 2)) } } } }
            }
            @if !done.bad.is_empty() {
                h3 { (t("bans.import_bad_lines")) }
                ul { @for bad in &done.bad { li { (fill("bans.import_line", &[("n", &number(bad.line))])) " " (value(&bad.detail, CELL * 2)) } } }
            }
            @if !done.first.is_empty() {
                h3 { (t("bans.import_first")) }
                p { @for (index, entry) in done.first.iter().enumerate() {
                    @if index > 0 { ", " } (value(&entry.value, CELL)) @if let Some(lasts) = &entry.lasts { " " span.dim { (length(lasts.0)) } }
                } @if done.banned > done.first.len() { " …" } }
            }
        }
    }
}

fn shown(visit: &ConsoleVisit, choice: &ImportChoice, said: &Markup) -> Response {
    let targets = targets(&visit.node);
    let frame = visit.frame(t("bans.import_title"), ConsoleSection::Bans);
    frame.page(&html! {
        h1 { (t("bans.import_title")) }
        (said)
        section.card {
            h2 { (t("bans.import_list")) }
            @if targets.is_empty() {
                p.dim { (t("bans.no_labels")) }
            } @else {
                p.dim { (t("bans.import_help")) }
                form.stacked method="post" action=(LIST_UPLOAD) enctype="multipart/form-data" {
                    (secret(&visit.viewer))
                    label { (t("bans.target")) select name="target" { @for (target, text) in &targets {
                        option value=(target) selected[*target == choice.target] { (text) }
                    } } }
                    label { (t("bans.import_for")) select name="lasts" { @for lasts in BAN_LENGTHS {
                        option value=(lasts) selected[lasts == choice.lasts] { (length(lasts.parse().unwrap_or(Span::days(1)))) }
                    } } }
                    label { (t("bans.import_format")) select name="format" {
                        option value="" { (t("bans.import_detected")) }
                        @for (name, _) in BlockListFormat::NAMES { option value=(name) selected[name == choice.format] { (name) } }
                    } }
                    label { (t("bans.import_text")) textarea name="text" rows="8" spellcheck="false" autocomplete="off" { (choice.text) } }
                    @if let Some(from) = choice.from { label { (t("bans.import_from")) input type="number" name="from" min="0" value=(from); } }
                    label { (t("bans.import_file")) input type="file" name="file"; }
                    div.buttons {
                        button.primary type="submit" name="do" value="preview" { (t("bans.import_look")) }
                        button.danger type="submit" name="do" value="import" { (t("bans.import_ban")) }
                    }
                    p.dim { (t("bans.keep_help")) }
                }
            }
        }
    })
}

/// The labels that addresses can be banned by, each with the text of its choice.
fn targets(node: &Node) -> Vec<(String, String)> {
    let plan = node.engine.plan();
    let mut targets = Vec::new();
    for pipeline in plan.pipelines.iter() {
        for label in &pipeline.labels {
            let kind = &pipeline.kinds[label.of].name;
            let Some(decision) = &label.decision else { continue };
            let target = serde_json::json!([pipeline.name, kind, label.name]).to_string();
            targets.push((target, format!("{} · {decision} {kind} ({})", pipeline.name, label.name)));
        }
    }
    targets
}
