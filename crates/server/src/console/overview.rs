//! The first page: what is decided now, how fast, and how the node is.

use axum::extract::State;
use axum::response::Response;
use event::{Span, Time};
use judge::Action;
use maud::{Markup, html};

use super::assets::PageScripts;
use super::charts::{ColumnAxis, StackedChart};
use super::format::{CELL, bytes, clock, key_url, length, number, plain, points, url, value};
use super::frame::ConsoleSection;
use super::reviews;
use super::texts::{fill, t, word};
use super::visit::{ConsoleVisit, PageFailure};
use crate::api::{AnomalyJson, NodeJson};
use crate::core::decision_times::TimeCounts;
use crate::core::traffic::{ActionCounts, TrafficSample, latency};
use crate::core::viewer::ViewerRight;
use crate::protocol::http::{learners, node, nodes, notifications, sinks, sources};

/// Columns of the chart, each of a minute.
const MINUTES: usize = 60;
/// The time whose decisions say how long one takes.
const LATENCY_OF: Span = Span::minutes(5);
/// The time after which what is shown is refreshed.
const REFRESH: Span = Span::seconds(5);
/// Nodes that are named as they take no requests.
const ABSENT: usize = 20;

/// The page.
pub(super) async fn page(visit: ConsoleVisit) -> Result<Response, PageFailure> {
    let times = visit.node.metrics.decision_times.counts();
    let samples = visit.node.traffic.up_to(&visit.node.engine, times, visit.now);
    let traffic = Traffic::of(&samples, visit.now);
    let latency = latency(&samples, LATENCY_OF);
    let nodes = nodes::nodes(State(visit.node.clone())).await.0.nodes;
    let frame = visit.frame(t("overview.title"), ConsoleSection::Overview).with(PageScripts::Charts);
    Ok(frame.page(&html! {
        div.head {
            h1 { (t("overview.title")) }
            a.button href="/console/" data-refresh=(REFRESH.0 / 1_000_000) data-of="now" data-label=(t("overview.go_on")) data-pause=(t("overview.pause")) { (t("overview.refresh")) }
        }
        div #now {
        (conditions(&visit).await)
        div.tiles {
            div.tile { h2 { (t("overview.rate")) } p { b.big { (rate(traffic.recent.iter().sum(), traffic.recent_span)) } " " span.dim { (t("overview.per_second")) } } }
            div.tile { h2 { (t("overview.latency")) } @match &latency {
                Some(of) => { p { b.big { (seconds(of.median)) } " " span.dim { (fill("overview.median", &[("p", &seconds(of.slow)), ("length", &length(LATENCY_OF))])) } } }
                None => { p.dim { (fill("overview.no_requests", &[("length", &length(LATENCY_OF))])) } }
            } }
            div.tile { h2 { (t("overview.reviews")) } p { (reviews::waiting(&visit)) } }
            div.tile { h2 { (t("overview.bans")) } p { a href="/console/bans" { b.big { (number(visit.node.engine.ban_list().size().0 as u64)) } } } }
        }
        (node_states(&nodes))
        (anomalies(&visit).await)
        section {
            h2 #traffic { (t("overview.traffic")) }
            (traffic.chart(visit.viewer.may(ViewerRight::ReadContent)))
            (traffic.table())
            (shared(&visit))
        }
        (backlog(&visit, &nodes).await)
        (storage(&visit))
        }
    }))
}

/// The ways to what the latest decisions have in common: the beginning of an answer to a wave.
fn shared(visit: &ConsoleVisit) -> Markup {
    let plan = visit.node.engine.plan();
    html! {
        @if visit.viewer.may(ViewerRight::ReadContent) && !plan.pipelines.is_empty() {
            p { (t("overview.shared")) @for (index, pipeline) in plan.pipelines.iter().enumerate() {
                @if index > 0 { "," } " "
                a href=(url("/console/decisions/common", &[("pipeline", &pipeline.name), ("last", "10m")])) { (pipeline.name) }
            } }
        }
    }
}

/// The decisions of the last hour.
struct Traffic {
    columns: Vec<(Time, ActionCounts)>,
    /// The decisions of the last minute or so, and how long that was.
    recent: ActionCounts,
    recent_span: Span,
    hour: ActionCounts,
    all: ActionCounts,
}

impl Traffic {
    fn of(samples: &[TrafficSample], now: Time) -> Traffic {
        let minute = Span::minutes(1);
        let last = now.bucket(minute);
        let first = last - (MINUTES as i64 - 1);
        let mut columns: Vec<(Time, ActionCounts)> = (0..MINUTES as i64)
            .map(|index| (Time((first + index) * minute.0), ActionCounts::default()))
            .collect();
        let mut hour = ActionCounts::default();
        for pair in samples.windows(2) {
            let [before, after] = pair else { continue };
            let came = after.since(before);
            let index = usize::try_from(after.time.bucket(minute) - first).ok();
            if let Some((_, column)) = index.and_then(|index| columns.get_mut(index)) {
                add(column, &came);
            }
            add(&mut hour, &came);
        }
        let nothing = TrafficSample { time: now, pipelines: Vec::new(), times: TimeCounts::default() };
        let newest = samples.last().unwrap_or(&nothing);
        let earlier = samples.iter().rev().find(|sample| now - sample.time >= minute).or(samples.first());
        let earlier = earlier.unwrap_or(&nothing);
        let recent_span = (now - earlier.time).max(Span::seconds(1));
        let recent = newest.since(earlier);
        Traffic { columns, recent, recent_span, hour, all: newest.since(&nothing) }
    }

    /// The decisions of each minute by action, each minute a way to them for who may see them.
    fn chart(&self, opens: bool) -> Markup {
        let (first, last) = (self.columns.first(), self.columns.last());
        let chart = StackedChart {
            axis: ColumnAxis::of_time(first.map_or(Time(0), |(first, _)| *first), Span::minutes(1)),
            across: t("decisions.when"),
            sorts: Action::ALL
                .map(|action| (word("action", action.name()), format!("part-{}", action.name())))
                .to_vec(),
            columns: self.columns.iter().map(|(_, counts)| counts.to_vec()).collect(),
            open: opens.then(|| "/console/decisions".to_owned()),
        };
        html! {
            figure.chart {
                figcaption { span.dim { (fill("overview.chart", &[("most", &number(chart.most()))])) } }
                (chart.draw())
                div.axis aria-hidden="true" {
                    span { @if let Some((first, _)) = first { (clock(*first)) } }
                    span { @if let Some((last, _)) = last { (clock(*last)) } }
                }
            }
        }
    }

    fn table(&self) -> Markup {
        let all: u64 = self.all.iter().sum();
        html! {
            @if all == 0 {
                div.empty { p { (t("overview.nothing")) } p.dim { (t("overview.nothing_help")) } }
            } @else {
                div.scroll tabindex="0" role="region" aria-labelledby="traffic" { table {
                    thead { tr {
                        th scope="col" { (t("overview.action")) }
                        th.number scope="col" { (t("overview.per_second")) }
                        th.number scope="col" { (t("overview.hour")) }
                        th.number scope="col" { (t("overview.all")) }
                    } }
                    tbody { @for (index, action) in Action::ALL.into_iter().enumerate().filter(|(index, _)| self.all.get(*index).is_some_and(|count| *count > 0)) {
                        tr {
                            th scope="row" { a href=(url("/console/decisions", &[("action", action.name())])) { span.badge.(action.name()) { (word("action", action.name())) } } }
                            td.number { (rate(self.recent.get(index).copied().unwrap_or(0), self.recent_span)) }
                            td.number { (number(self.hour.get(index).copied().unwrap_or(0))) }
                            td.number { (number(self.all.get(index).copied().unwrap_or(0))) }
                        }
                    } }
                } }
            }
        }
    }
}

fn add(counts: &mut ActionCounts, more: &ActionCounts) {
    counts.iter_mut().zip(more).for_each(|(count, more)| *count += more);
}

fn rate(count: u64, span: Span) -> String {
    points(count as f64 / span.as_seconds_f64().max(1.0))
}

/// The conditions that are wrong with the node.
async fn conditions(visit: &ConsoleVisit) -> Markup {
    match node::readyz(State(visit.node.clone())).await {
        Ok(health) if health.conditions.is_empty() => html! { p.good { (t("overview.well")) } },
        Ok(health) => html! {
            ul.conditions role="status" { @for one in &health.conditions { li { b { (one.name) } " " (one.detail) } } }
        },
        Err(failure) => html! { ul.conditions role="alert" { li { (failure.problem().detail) } } },
    }
}

/// The anomalies of the last hour, each with the decisions behind it.
async fn anomalies(visit: &ConsoleVisit) -> Markup {
    let found = learners::anomalies_at_hand(&visit.node).await;
    html! {
        section {
            h2 #anomalies { (t("overview.anomalies")) }
            @if let Some(node) = visit.node.own_name() { p.dim { (fill("overview.anomalies_of", &[("node", &plain(&node, CELL))])) } }
            @match &found {
                None => { p.dim { (t("overview.anomalies_later")) } }
                Some(found) if found.anomalies.is_empty() => { p.dim { (t("overview.no_anomalies")) } }
                Some(found) => { ul.anomalies { @for one in &found.anomalies { li {
                    span.badge.{ "anomaly-" (one.sort) } { (word("anomaly", &one.sort)) } " "
                    (value(&one.detail, CELL * 3)) " "
                    @if let Some(key) = &one.value { a href=(key_url(&one.pipeline, &one.subject, key)) { (value(key, CELL / 2)) } " " }
                    @if let Some(behind) = behind(visit, one) { a href=(behind) { (t("overview.behind")) span.unseen { ": " (plain(&one.detail, CELL)) } } }
                } } } }
            }
        }
    }
}

/// The page of the decisions behind an anomaly, if there is one for the viewer: drift is about lines.
fn behind(visit: &ConsoleVisit, one: &AnomalyJson) -> Option<String> {
    if one.sort == "drift" {
        return Some(url("/console/learners", &[("pipeline", &one.pipeline)]));
    }
    let found = one.search.iter().filter(|(name, _)| *name != "from");
    let mut found: Vec<(&str, &str)> = found.map(|(name, text)| (name.as_str(), text.as_str())).collect();
    found.push(("last", "1h"));
    visit.viewer.may(ViewerRight::ReadContent).then(|| url("/console/decisions", &found))
}

/// The nodes, if there are several: how many take requests, and those that do not.
fn node_states(nodes: &[NodeJson]) -> Markup {
    let ready = nodes.iter().filter(|node| matches!(node.state.as_str(), "here" | "ready")).count();
    let absent = || nodes.iter().filter(|node| !matches!(node.state.as_str(), "here" | "ready"));
    html! {
        @if nodes.len() > 1 {
            section {
                h2 { a href="/console/settings/nodes" { (t("overview.nodes")) } }
                p { (fill("overview.nodes_ready", &[("ready", &number(ready as u64)), ("all", &number(nodes.len() as u64))])) }
                @if ready < nodes.len() {
                    ul.conditions role="status" { @for node in absent().take(ABSENT) { li {
                        b { (value(&node.name, CELL)) } " " (word("node_state", &node.state))
                        @if let Some(why) = &node.unready { ": " (value(why, CELL)) }
                    } } }
                }
            }
        }
    }
}

/// The work that waits, each with the page that shows more of it.
async fn backlog(visit: &ConsoleVisit, nodes: &[NodeJson]) -> Markup {
    let node = &visit.node;
    let sources = sources::sources(State(node.clone())).await.0.sources;
    let sinks = sinks::sinks(State(node.clone())).await.0.sinks;
    let told = notifications::notifications(State(node.clone())).await.0.notifications;
    let journal = node.engine.journal().map(|journal| journal.census()).unwrap_or_default();
    let here = nodes.iter().filter(|node| node.state == "here").flat_map(|node| node.models.values());
    let examples = sum(here.clone().map(|model| model.lag.saturating_add(model.waiting)));
    let administers = visit.viewer.may(ViewerRight::Administer);
    html! {
        section {
            h2 { (t("overview.backlog")) }
            dl.figures {
                div { dt { (t("overview.requests_wait")) } dd { (linked(&number(node.waiting() as u64), administers.then_some("/console/settings"))) } }
                div { dt { (t("overview.journal_pending")) } dd { (linked(&bytes(journal.pending_bytes as u64), Some("#storage"))) } }
                @if !sources.is_empty() {
                    div { dt { (t("overview.sources")) } dd { (linked(&bytes(sum(sources.iter().map(|one| one.lag))), Some("/console/settings/sources#sources"))) } }
                }
                @if !sinks.is_empty() {
                    div { dt { (t("overview.sinks")) } dd { (linked(&number(sum(sinks.iter().map(|one| one.lag))), Some("/console/settings/sources#sinks"))) } }
                }
                @if !told.is_empty() {
                    div { dt { (t("overview.notifications")) } dd { (linked(&number(sum(told.iter().map(|one| one.waiting))), administers.then_some("/console/settings#notifications"))) } }
                }
                @if here.count() > 0 {
                    div { dt { (t("overview.examples")) } dd { (linked(&number(examples), Some("/console/settings/nodes"))) } }
                }
            }
        }
    }
}

fn sum(counts: impl Iterator<Item = u64>) -> u64 {
    counts.fold(0, u64::saturating_add)
}

/// A figure, with the page that shows more of it if the viewer may open that.
fn linked(figure: &str, page: Option<&str>) -> Markup {
    html! { @match page { Some(page) => { a href=(page) { (figure) } } None => { (figure) } } }
}

/// A time that something stayed below.
fn seconds(bound: f64) -> String {
    match bound {
        bound if !bound.is_finite() => fill("overview.more_than", &[("time", &"10 s")]),
        bound if bound < 0.001 => format!("{} µs", bound * 1e6),
        bound if bound < 1.0 => format!("{} ms", points(bound * 1e3)),
        bound => format!("{} s", points(bound)),
    }
}

/// Memory and disk.
fn storage(visit: &ConsoleVisit) -> Markup {
    let engine = &visit.node.engine;
    let (ledger, journal) =
        (engine.census(), engine.journal().map(|journal| journal.census()).unwrap_or_default());
    let uptime = Span(i64::try_from(visit.node.started.elapsed().as_micros()).unwrap_or(i64::MAX));
    html! {
        section {
            h2 #storage { (t("overview.storage")) }
            dl.figures {
                div { dt { (t("overview.keys")) } dd { (number(ledger.keys)) } }
                div { dt { (t("overview.memory")) } dd { (bytes(ledger.memory_bytes)) } }
                div { dt { (t("overview.unwritten")) } dd { (bytes(ledger.dirty_bytes)) } }
                div { dt { (t("overview.ledger_disk")) } dd { (bytes(ledger.disk_bytes)) } }
                div { dt { (t("overview.journal_disk")) } dd { (bytes(journal.bytes)) } }
                div { dt { (t("overview.uptime")) } dd { (length(uptime)) } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::api::Timestamp;

    #[test]
    fn decisions_are_laid_over_the_minutes() {
        let sample = |seconds: i64, accepted: u64| {
            let mut counts = ActionCounts::default();
            counts[0] = accepted;
            TrafficSample {
                time: Time::from_seconds(seconds),
                pipelines: vec![("a".to_owned(), counts)],
                times: TimeCounts::default(),
            }
        };
        let samples = [sample(3000, 10), sample(3550, 20), sample(3590, 50), sample(3600, 60)];
        let traffic = Traffic::of(&samples, Time::from_seconds(3600));
        let columns: Vec<u64> = traffic.columns.iter().map(|(_, counts)| counts[0]).collect();
        assert_eq!((columns[59], columns[58]), (10, 40));
        assert_eq!((traffic.hour[0], traffic.all[0]), (50, 60));
        assert_eq!((traffic.recent[0], traffic.recent_span), (50, Span::seconds(600)));
        let empty = Traffic::of(&[], Time::from_seconds(0));
        assert_eq!((empty.all[0], rate(0, empty.recent_span)), (0, "0".to_owned()));
    }

    #[test]
    fn nodes_are_shown_where_there_are_several() {
        let node = |name: &str, state: &str| NodeJson {
            number: Some(1),
            name: name.to_owned(),
            url: None,
            release: String::new(),
            started: Timestamp(Time::from_seconds(0)),
            state: state.to_owned(),
            silent: None,
            unready: None,
            conditions: Vec::new(),
            rules: 0,
            pipelines: BTreeMap::new(),
            models: BTreeMap::new(),
        };
        assert_eq!(node_states(&[node("a", "here")]).into_string(), "");
        let well = node_states(&[node("a", "here"), node("b", "ready")]).into_string();
        assert!(well.contains("2 of 2") && !well.contains("<li"), "{well}");
        let away = node_states(&[node("a", "here"), node("<b>\u{202e}", "away")]).into_string();
        assert!(
            away.contains("1 of 2") && away.contains("&lt;b&gt;⟨202E⟩") && away.contains("away"),
            "{away}"
        );
    }
}
