//! Notes on a value, and the reset of what is counted of a key.

use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use serde::Deserialize;

use super::format::{CELL, plain, time, value};
use super::frame::{done, redirect, secret};
use super::texts::{fill, t};
use super::visit::{ConsoleForm, ConsoleVisit, PageFailure, next_page};
use crate::api::{EraseKeyJson, EraseRequest, NoteRequest, TimelineJson};
use crate::core::viewer::ViewerRight;
use crate::protocol::http::erasure;
use crate::protocol::http::posted_values::{self, NoteParams, NotesParams};
use crate::protocol::http::{JsonBody, QueryParams};

/// The card of the notes on a value.
pub(super) async fn card(visit: &ConsoleVisit, of: &str, back: &str) -> Markup {
    let asked = NotesParams { value: of.to_owned() };
    let notes = posted_values::notes(State(visit.node.clone()), QueryParams(asked)).await.0.notes;
    let may_write = visit.viewer.may(ViewerRight::Teach);
    html! {
        @if may_write || !notes.is_empty() { section.card #notes {
            h2 { (t("notes.title")) }
            @for note in &notes {
                div.note {
                    p { (value(&note.text, CELL * 8)) }
                    p.dim { (value(&note.by, CELL / 2)) " · " (time(note.time.0, visit.now)) }
                    @if may_write { form method="post" action="/console/notes/remove" {
                        (secret(&visit.viewer))
                        input type="hidden" name="value" value=(note.value);
                        input type="hidden" name="time" value=(note.time);
                        input type="hidden" name="next" value=(back);
                        button.quiet type="submit" aria-label=(fill("notes.remove_one", &[("text", &plain(&note.text, CELL / 4))])) { (t("notes.remove")) }
                    } }
                }
            }
            @if may_write { form.stacked method="post" action="/console/notes/add" {
                (secret(&visit.viewer))
                input type="hidden" name="value" value=(of);
                input type="hidden" name="next" value=(back);
                label { (t("notes.text")) textarea name="text" required maxlength="500" rows="3" {} }
                button type="submit" { (t("notes.add")) }
            } }
        } }
    }
}

/// A note that is to be added.
#[derive(Deserialize)]
pub(super) struct NoteForm {
    value: String,
    text: String,
    next: Option<String>,
}

/// Adds a note.
pub(super) async fn add(ConsoleForm { visit, form }: ConsoleForm<NoteForm>) -> Result<Response, PageFailure> {
    visit.need(ViewerRight::Teach)?;
    let NoteForm { value, text, next } = form;
    let written = NoteRequest { value, text };
    let _ = posted_values::add_note(State(visit.node.clone()), JsonBody(written)).await?;
    Ok(redirect(&done(&next_page(next), "noted", 0)))
}

/// A note that is to be removed.
#[derive(Deserialize)]
pub(super) struct NoteRemovalForm {
    value: String,
    time: String,
    next: Option<String>,
}

/// Removes a note.
pub(super) async fn remove(
    ConsoleForm { visit, form }: ConsoleForm<NoteRemovalForm>,
) -> Result<Response, PageFailure> {
    visit.need(ViewerRight::Teach)?;
    let NoteRemovalForm { value, time, next } = form;
    let asked = QueryParams(NoteParams { value, time });
    let _ = posted_values::remove_note(State(visit.node.clone()), asked).await?;
    Ok(redirect(&done(&next_page(next), "note_removed", 0)))
}

/// The card that resets a key.
pub(super) fn reset_card(visit: &ConsoleVisit, known: &TimelineJson, back: &str) -> Markup {
    html! {
        @if visit.viewer.may(ViewerRight::Administer) { section.card {
            h2 { (t("reset.title")) }
            p.dim { (t("reset.help")) }
            form method="post" action="/console/key/reset" {
                (secret(&visit.viewer))
                input type="hidden" name="pipeline" value=(known.pipeline);
                input type="hidden" name="kind" value=(known.kind);
                input type="hidden" name="value" value=(known.piece);
                input type="hidden" name="next" value=(back);
                label.check { input type="checkbox" name="sure" value="yes" required; (t("reset.sure")) }
                button.danger type="submit" { (t("reset.do")) }
            }
        } }
    }
}

/// A key that is to be reset.
#[derive(Deserialize)]
pub(super) struct ResetForm {
    pipeline: String,
    kind: String,
    value: String,
    #[serde(default)]
    sure: String,
    next: Option<String>,
}

/// Has the statistics of a key begin anew.
pub(super) async fn reset(
    ConsoleForm { visit, form }: ConsoleForm<ResetForm>,
) -> Result<Response, PageFailure> {
    visit.need(ViewerRight::Administer)?;
    let ResetForm { pipeline, kind, value, sure, next } = form;
    let back = next_page(next);
    if sure != "yes" {
        return Ok(redirect(&done(&back, "not_sure", 0)));
    }
    let keys = vec![EraseKeyJson { kind, value }];
    let order = EraseRequest { pipeline: Some(pipeline), keys, dry_run: false, reset: true };
    let _ = erasure::erase(State(visit.node.clone()), None, JsonBody(order)).await?;
    Ok(redirect(&done(&back, "resetting", 0)))
}
