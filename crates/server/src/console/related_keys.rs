//! Keys that share decisions with a key: as a table, and as a small picture.

use axum::extract::State;
use maud::{Markup, html};

use super::charts::share_bar;
use super::decisions::absent;
use super::format::{CELL, distance, key_url, number, plain, value};
use super::texts::{fill, t};
use super::visit::ConsoleVisit;
use crate::api::{RelatedKeyJson, RelatedKeysJson};
use crate::core::grant::note;
use crate::core::viewer::ViewerRight;
use crate::protocol::http::QueryParams;
use crate::protocol::http::statistics::{self, RelatedKeyParams};

/// Keys that are drawn.
const DRAWN: usize = 16;
/// Units from one drawn key to the next.
const STEP: usize = 26;
/// Characters of a drawn key.
const CHARS: usize = 42;

/// The keys that share decisions with a key; nothing for who may not read what events say.
pub(super) async fn section(visit: &ConsoleVisit, pipeline: &str, kind: &str, value: &str) -> Markup {
    if !visit.viewer.may(ViewerRight::ReadContent) {
        return html! {};
    }
    let (of, kind, value) = (Some(pipeline.to_owned()), kind.to_owned(), value.to_owned());
    let asked = RelatedKeyParams { pipeline: of, kind, value, from: None };
    // A distinct count has none, and a journal that cannot be searched takes nothing from what is known of the key.
    let Ok(found) = statistics::related(State(visit.node.clone()), None, QueryParams(asked)).await else {
        return html! {};
    };
    note("key", found.piece.clone());
    note("pipeline", found.pipeline.clone());
    let help = if found.partial { "related.help_partial" } else { "related.help" };
    html! {
        section {
            h2 #related { (t("related.title")) }
            (absent(&found.absent))
            @if found.keys.is_empty() { p.dim { (t("related.none")) } } @else {
                p.dim { (fill(help, &[("n", &number(found.decisions))])) }
                (table(visit, &found))
                figure.chart.graph {
                    figcaption { span.dim { (t("related.graph")) } }
                    (graph(&found))
                }
            }
        }
    }
}

fn table(visit: &ConsoleVisit, found: &RelatedKeysJson) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-labelledby="related" { table.rows.stacks {
            thead { tr {
                th scope="col" { (t("keys.kind")) }
                th scope="col" { (t("keys.value")) }
                th.number scope="col" { (t("related.shared")) }
                th.bar scope="col" { (t("related.share")) }
                th scope="col" { (t("related.judged")) }
                th scope="col" { (t("keys.last")) }
            } }
            tbody { @for key in &found.keys { tr {
                td.dim { (key.kind) }
                td { a href=(key_url(&found.pipeline, &key.kind, &key.piece)) { (value(&key.piece, CELL / 2)) } }
                td.number { (number(key.decisions)) }
                td.bar { (share_bar(key.decisions as f64 / found.decisions.max(1) as f64)) }
                td.whole { @if key.good + key.bad > 0 { (fill("related.good_bad", &[("good", &number(key.good)), ("bad", &number(key.bad))])) } @else { span.dim { (t("decisions.not_judged")) } } }
                td.nowrap { (distance(key.last.0, visit.now)) }
            } } }
        } }
    }
}

/// The keys that share most, in their order by kind.
fn drawn(found: &RelatedKeysJson) -> Vec<&RelatedKeyJson> {
    let mut most: Vec<usize> = (0..found.keys.len()).collect();
    most.sort_by_key(|place| std::cmp::Reverse(found.keys[*place].decisions));
    most.truncate(DRAWN);
    most.sort_unstable();
    most.into_iter().map(|place| &found.keys[place]).collect()
}

/// The key on the left, and lines to those on the right. What it shows is in the table, too.
fn graph(found: &RelatedKeysJson) -> Markup {
    let others = drawn(found);
    let height = (others.len() * STEP + STEP).max(3 * STEP);
    let middle = height / 2;
    let top = (height - others.len() * STEP) / 2 + STEP / 2;
    let share = |key: &RelatedKeyJson| key.decisions as f64 / found.decisions.max(1) as f64;
    let class = |key: &RelatedKeyJson| match (key.good, key.bad) {
        (0, 0) => "other",
        (good, bad) if bad > good => "bad",
        _ => "good",
    };
    html! {
        svg.related viewBox=(format!("0 0 720 {height}")) aria-hidden="true" focusable="false" {
            @for (index, key) in others.iter().enumerate() {
                line x1="220" y1=(middle) x2="330" y2=(top + index * STEP) stroke-width=(format!("{:.1}", 0.8 + 4.0 * share(key).clamp(0.0, 1.0))) {}
            }
            circle.own cx="220" cy=(middle) r="7" {}
            text x="206" y=(middle.saturating_sub(6)) text-anchor="end" { (plain(&found.piece, CHARS / 2)) }
            text.kind x="206" y=(middle + 12) text-anchor="end" { (plain(&found.kind, CHARS / 2)) }
            @for (index, key) in others.iter().enumerate() {
                circle class=(class(key)) cx="330" cy=(top + index * STEP) r="5" {}
                text x="342" y=(top + index * STEP + 4) { (plain(&key.piece, CHARS)) " " tspan.kind { (plain(&key.kind, CHARS / 2)) " · " (number(key.decisions)) } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use event::Time;

    use super::*;
    use crate::api::Timestamp;

    fn related(counts: &[u64]) -> RelatedKeysJson {
        let key = |(number, decisions): (usize, &u64)| RelatedKeyJson {
            kind: "ip".to_owned(),
            piece: format!("<{number}>\u{202e}"),
            decisions: *decisions,
            good: 0,
            bad: 0,
            first: Timestamp(Time(0)),
            last: Timestamp(Time(0)),
        };
        RelatedKeysJson {
            pipeline: "web".to_owned(),
            kind: "user".to_owned(),
            piece: "x".repeat(5000),
            decisions: 10,
            partial: false,
            keys: counts.iter().enumerate().map(key).collect(),
            absent: Vec::new(),
        }
    }

    #[test]
    fn a_picture_has_the_keys_that_share_most_and_stays_small() {
        let counts: Vec<u64> = (0..60).collect();
        let found = related(&counts);
        let pieces: Vec<u64> = drawn(&found).iter().map(|key| key.decisions).collect();
        assert_eq!(pieces, (44..60).collect::<Vec<u64>>());
        let text = graph(&found).into_string();
        assert!(text.len() < 16 << 10 && text.contains("&lt;59&gt;⟨202E⟩"), "{text}");
        assert_eq!(graph(&related(&[])).into_string().matches("<circle").count(), 1);
    }
}
