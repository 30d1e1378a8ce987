//! The page of a version of a pipeline's rules: who put it in force and when, its text, and how it differs from another.

use axum::extract::{Path, State};
use axum::response::Response;
use maud::{Markup, html};
use serde::Deserialize;

use super::format::{CELL, number, plain, time, url, value};
use super::frame::{ConsoleSection, secret};
use super::texts::{fill, t, word};
use super::visit::{ConsoleVisit, PageFailure};
use crate::api::{RulesJson, VersionDifferenceJson, VersionTextJson};
use crate::core::viewer::ViewerRight;
use crate::protocol::http::QueryParams;
use crate::protocol::http::rules::{self, RulesParams, VersionParams};

/// Most characters of a text that are shown.
const TEXT_CHARS_MAX: usize = 400_000;
/// Most lines that differ that are shown.
const LINES_MAX: usize = 5_000;

/// A version, and the one that it is compared with.
#[derive(Deserialize)]
struct VersionQuery {
    pipeline: Option<String>,
    version: String,
    against: Option<String>,
}

/// The page.
pub(super) async fn page(visit: ConsoleVisit) -> Result<Response, PageFailure> {
    let query: VersionQuery = visit.query()?;
    let params = QueryParams(RulesParams { pipeline: query.pipeline.clone() });
    let standing = rules::rules(State(visit.node.clone()), params).await?.0;
    let against = query.against.filter(|against| !against.is_empty());
    // By itself a version is compared with the one in force, and that one with the one before.
    let other = |version: &String| !version.starts_with(&query.version);
    let mut others = std::iter::once(&standing.version)
        .chain(standing.versions.iter().map(|version| &version.version))
        .filter(|version| other(version));
    let against = against.or_else(|| others.next().cloned());
    let params = VersionParams { pipeline: Some(standing.pipeline.clone()), against };
    let shown =
        rules::version(State(visit.node.clone()), Path(query.version.clone()), QueryParams(params)).await?.0;
    let title = fill("version.title", &[("version", &plain(&query.version, CELL))]);
    let content = content(&visit, &standing, &query.version, &shown);
    Ok(visit.frame(title, ConsoleSection::Rules).page(&content))
}

fn content(visit: &ConsoleVisit, standing: &RulesJson, asked: &str, shown: &VersionTextJson) -> Markup {
    let pipeline = standing.pipeline.as_str();
    let version = &shown.version;
    let is_candidate = version.by == "candidate";
    let is_current = !is_candidate && version.version == standing.version;
    let against = shown.difference.as_ref().map(|difference| difference.against.version.as_str());
    html! {
        div.head {
            h1 { (fill("version.title", &[("version", &version.version)])) }
            p.crumbs { a href=(url("/console/rules", &[("pipeline", pipeline)])) { (fill("rules.title", &[("pipeline", &pipeline)])) } }
            dl.figures {
                div { dt { (t("version.origin")) } dd { (word("origin", &version.by)) @if is_current { " " span.tag { (t("rules.in_force")) } } } }
                @if let Some(who) = &version.who { div { dt { (t("version.who")) } dd { (value(who, CELL)) } } }
                @if let Some(since) = version.since { div { dt { (t("version.since")) } dd { (time(since.0, visit.now)) } } }
            }
            @if visit.viewer.may(ViewerRight::Rules) && !is_current {
                form method="post" action={ "/console/rules/" (if is_candidate { "promote" } else { "rollback" }) } {
                    (secret(&visit.viewer))
                    input type="hidden" name="pipeline" value=(pipeline);
                    input type="hidden" name="version" value=(version.version);
                    button.primary type="submit" { (t(if is_candidate { "rules.promote" } else { "version.back" })) }
                }
            }
        }
        form.row action="/console/rules/version" {
            input type="hidden" name="pipeline" value=(pipeline);
            input type="hidden" name="version" value=(asked);
            select name="against" aria-label=(t("version.against")) {
                @for other in &standing.versions {
                    option value=(other.version) selected[Some(other.version.as_str()) == against] { (other.version) }
                }
            }
            button type="submit" { (t("version.compare")) }
        }
        @if let Some(difference) = &shown.difference { (differences(difference)) }
        section {
            h2 { (t("version.text")) }
            details { summary { (t("version.whole")) } pre tabindex="0" { (plain(&shown.text, TEXT_CHARS_MAX)) } }
        }
    }
}

fn differences(difference: &VersionDifferenceJson) -> Markup {
    let counts: [(&str, &dyn std::fmt::Display); 3] = [
        ("version", &difference.against.version),
        ("added", &number(difference.added as u64)),
        ("removed", &number(difference.removed as u64)),
    ];
    html! {
        section {
            h2 { (fill("version.differs", &counts)) }
            @if difference.lines.is_empty() { p.dim { (t("version.same")) } } @else {
                pre.difference tabindex="0" {
                    @for line in difference.lines.iter().take(LINES_MAX) {
                        @let text = plain(line, CELL * 4);
                        @match line.as_bytes().first() {
                            Some(b'+') => ins { (text) },
                            Some(b'-') => del { (text) },
                            _ => span { (text) },
                        }
                        "\n"
                    }
                }
            }
        }
    }
}
