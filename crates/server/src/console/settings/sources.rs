//! The page of sources and sinks: what the node reads and sends by itself, how far it is behind, and what is wrong.

use axum::extract::State;
use axum::response::Response;
use event::Time;
use maud::{Markup, html};

use super::SettingsTab;
use crate::api::{SinkJson, SourceJson, Timestamp};
use crate::console::format::{CELL, bytes, distance, number, plain, value};
use crate::console::texts::{t, word};
use crate::console::visit::{ConsoleVisit, PageFailure};
use crate::protocol::http::{sinks, sources};

/// The page.
pub(in crate::console) async fn page(visit: ConsoleVisit) -> Result<Response, PageFailure> {
    let read = sources::sources(State(visit.node.clone())).await.0.sources;
    let sent = sinks::sinks(State(visit.node.clone())).await.0.sinks;
    let content = html! {
        section {
            h2 #sources { (t("sources.sources")) }
            @if read.is_empty() { div.empty { p { (t("sources.none")) } p.dim { (t("sources.none_help")) } } } @else { (source_table(&read, visit.now)) }
        }
        section {
            h2 #sinks { (t("sources.sinks")) }
            @if sent.is_empty() { div.empty { p { (t("sources.no_sinks")) } p.dim { (t("sources.no_sinks_help")) } } } @else { (sink_table(&sent, visit.now)) }
        }
    };
    Ok(SettingsTab::Sources.page(&visit, &content))
}

/// The state, and since when and why it is no good one.
fn state(state: &str, fault: Option<(&Timestamp, &str)>, now: Time) -> Markup {
    let color = if fault.is_some() { "reject" } else { "accept" };
    html! {
        span.badge.(color) { (word("flow_state", state)) }
        @if let Some((since, reason)) = fault { " " (distance(since.0, now)) span.description { (value(reason, CELL * 2)) } }
    }
}

fn source_table(all: &[SourceJson], now: Time) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-labelledby="sources" { table.rows {
            thead { tr {
                th scope="col" { (t("sources.source")) }
                th scope="col" { (t("sources.state")) }
                th.number scope="col" { (t("sources.lag")) }
                th.number scope="col" { (t("sources.files")) }
                th.number scope="col" { (t("sources.lines")) }
                th.number scope="col" { (t("sources.events")) }
                th.number scope="col" { (t("sources.unread")) }
                th.number scope="col" { (t("sources.bad")) }
                th.number scope="col" { (t("sources.dropped")) }
                th scope="col" { (t("sources.last")) }
            } }
            tbody { @for one in all { tr {
                th scope="row" { b { (value(&one.name, CELL)) } span.description { (one.kind) " → " (plain(&one.pipeline, CELL)) } }
                td {
                    (state(&one.state, one.fault.as_ref().map(|fault| (&fault.since, fault.reason.as_str())), now))
                    @if let Some(bad) = &one.last_bad { span.description { (t("sources.last_bad")) " " (value(&bad.reason, CELL)) " " (distance(bad.since.0, now)) } }
                }
                td.number { (bytes(one.lag)) }
                td.number { (number(one.files)) }
                td.number { (number(one.lines)) }
                td.number { (number(one.events)) }
                td.number { (number(one.unread)) }
                td.number { (number(one.bad)) }
                td.number { (number(one.dropped)) }
                td { @match &one.last_line { Some(last) => { (distance(last.0, now)) } None => { (t("keys.never")) } } }
            } } }
        } }
        p.dim { (t("sources.help")) }
    }
}

fn sink_table(all: &[SinkJson], now: Time) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-labelledby="sinks" { table.rows {
            thead { tr {
                th scope="col" { (t("sources.sink")) }
                th scope="col" { (t("sources.state")) }
                th.number scope="col" { (t("sources.waiting")) }
                th.number scope="col" { (t("sources.sent")) }
                th.number scope="col" { (t("sources.bytes")) }
                th.number scope="col" { (t("sources.failures")) }
                th.number scope="col" { (t("sources.gaps")) }
                th.number scope="col" { (t("sources.shortened")) }
            } }
            tbody { @for one in all { tr {
                th scope="row" { b { (value(&one.name, CELL)) } span.description { (one.kind) " " (value(&one.address, CELL)) } }
                td { (state(&one.state, one.fault.as_ref().map(|fault| (&fault.since, fault.reason.as_str())), now)) }
                td.number { (number(one.lag)) }
                td.number { (number(one.sent)) }
                td.number { (bytes(one.bytes)) }
                td.number { (number(one.failures)) }
                td.number { (number(one.gaps)) }
                td.number { (number(one.shortened)) }
            } } }
        } }
        p.dim { (t("sources.sinks_help")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{SinkFaultJson, SourceFaultJson};

    const NOW: Time = Time::from_seconds(1_000_000);

    #[test]
    fn a_fault_says_since_when_and_why() {
        let since = Timestamp(Time::from_seconds(1_000_000 - 120));
        let fault = SourceFaultJson { since, reason: "<no> such\u{202e} file".to_owned() };
        let one = SourceJson {
            name: "<nginx>".to_owned(),
            kind: "files".to_owned(),
            pipeline: "web".to_owned(),
            state: "failing".to_owned(),
            lines: 10,
            events: 7,
            unread: 2,
            bad: 1,
            dropped: 0,
            lag: 2048,
            files: 1,
            last_line: None,
            fault: Some(fault.clone()),
            last_bad: Some(fault),
        };
        let page = source_table(&[one], NOW).into_string();
        for text in
            ["&lt;nginx&gt;", "&lt;no&gt; such⟨202E⟩ file", "2 min ago", "2.0 KiB", "failing", "never"]
        {
            assert!(page.contains(text), "{text}: {page}");
        }
        let one = SinkJson {
            name: "events".to_owned(),
            kind: "kafka".to_owned(),
            address: "<topic>".to_owned(),
            state: "sending".to_owned(),
            sent: 5,
            bytes: 100,
            shortened: 0,
            failures: 3,
            lag: 12_345,
            gaps: 0,
            last: None,
            fault: None,
        };
        let failing = SinkJson {
            state: "failing".to_owned(),
            fault: Some(SinkFaultJson { since, reason: "refused".to_owned() }),
            ..one.clone()
        };
        let page = sink_table(&[one], NOW).into_string();
        assert!(
            page.contains("&lt;topic&gt;") && page.contains("12\u{202f}345") && page.contains("sending"),
            "{page}"
        );
        assert!(!page.contains("reject"), "{page}");
        let page = sink_table(&[failing], NOW).into_string();
        assert!(page.contains("refused") && page.contains("2 min ago") && page.contains("reject"), "{page}");
    }
}
