//! The report as one file that needs nothing else: no script, no font, no picture of anybody's.
//!
//! Texts of strangers stand in it as text alone: each is escaped, and a policy in the file's head lets nothing be fetched or run.

use std::fmt::Write;

use crate::console::printable;

use super::summary::{FlaggedSource, LogSummary, RequestCounts, TopEntry};
use super::{Section, sections};

/// Columns of the picture over time.
const BARS: i64 = 120;

const HEAD: &str = "<!doctype html>
<html lang=\"en\"><head><meta charset=\"utf-8\">
<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">
<meta name=\"viewport\" content=\"width=device-width\"><meta name=\"referrer\" content=\"no-referrer\">
<style>
:root { color-scheme: light dark; --bar: #4a7dbd; --bad: #c0392b; --line: #8884; }
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; } td, th { padding: .2rem .5rem; border-bottom: 1px solid var(--line); text-align: left; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; } td.t { overflow-wrap: anywhere; }
td.b { width: 20%; } .bar { background: var(--bar); height: .7rem; } .bar.bad { background: var(--bad); }
.time { display: flex; align-items: flex-end; height: 8rem; gap: 1px; border-bottom: 1px solid var(--line); }
.time div { flex: 1; background: var(--bar); display: flex; align-items: flex-end; min-height: 1px; }
.time div div { background: var(--bad); min-height: 0; } .axis { display: flex; justify-content: space-between; } .dim { opacity: .7; }
</style>
";

/// Returns a text as it may stand in an element or a quoted attribute.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in printable(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
    }
    out
}

/// Returns the report.
pub(super) fn page(name: &str, summary: &LogSummary, most: usize) -> String {
    let mut out = String::from(HEAD);
    // Writing to a text cannot fail.
    let _ = writeln!(out, "<title>{0}</title></head><body><h1>{0}</h1>", escaped(name));
    let RequestCounts { requests, failed, flagged, bytes } = &summary.all;
    let _ = write!(
        out,
        "<p><b>{requests}</b> {}, <b>{flagged}</b> flagged, <b>{failed}</b> failed, <b>{bytes}</b> bytes",
        summary.unit
    );
    if let Some((first, last)) = summary.span {
        let _ = write!(out, ", from {first} to {last}");
    }
    let _ = write!(out, "; {} lines are no {}", summary.bad, summary.unit);
    let _ = writeln!(out, "; {} lines are read by no pattern.</p>", summary.unread);
    timeline(&mut out, summary);
    let sources = summary.sources.top(most);
    if !sources.is_empty() {
        flagged_sources(&mut out, &sources, summary);
    }
    for Section { title, entries, missed } in sections(summary, most) {
        table(&mut out, title, summary.unit, &entries, missed);
    }
    out.push_str("</body></html>\n");
    out
}

fn timeline(out: &mut String, summary: &LogSummary) {
    let bars = summary.timeline.bars(BARS);
    let highest = bars.iter().map(|(_, counts)| counts.requests).max().unwrap_or(0);
    let (Some((first, _)), Some((last, _)), 1..) = (bars.first(), bars.last(), highest) else { return };
    out.push_str("<h2>Over time <span class=\"dim\">(flagged in red)</span></h2><div class=\"time\">");
    for (start, counts) in &bars {
        let share = |part: u64, whole: u64| part.saturating_mul(1000) / whole.max(1);
        let (height, bad) = (share(counts.requests, highest), share(counts.flagged, counts.requests));
        let _ = write!(
            out,
            "<div style=\"height:{}.{}%\" title=\"{start}: {} {}, {} flagged\"><div style=\"height:{}.{}%;flex:1\"></div></div>",
            height / 10,
            height % 10,
            counts.requests,
            summary.unit,
            counts.flagged,
            bad / 10,
            bad % 10
        );
    }
    let _ = writeln!(out, "</div><div class=\"axis dim\"><span>{first}</span><span>{last}</span></div>");
}

fn flagged_sources(out: &mut String, sources: &[FlaggedSource], summary: &LogSummary) {
    let _ =
        write!(out, "<h2>Flagged addresses <span class=\"dim\">{}</span></h2><table>", summary.sources.len());
    out.push_str("<tr><th>address</th><th class=\"n\">events</th><th>actions</th><th>rules</th><th>first</th><th>last</th></tr>\n");
    let list = |counts: &std::collections::BTreeMap<String, u64>| {
        let texts: Vec<String> = counts.iter().map(|(name, count)| format!("{name} {count}")).collect();
        escaped(&texts.join(", "))
    };
    for source in sources {
        let FlaggedSource { address, events, rules, actions, first, last } = source;
        let _ = writeln!(
            out,
            "<tr><td class=\"t\">{}</td><td class=\"n\">{events}</td><td>{}</td><td class=\"t\">{}</td><td>{first}</td><td>{last}</td></tr>",
            escaped(address),
            list(actions),
            list(rules)
        );
    }
    out.push_str("</table>\n");
}

fn table(out: &mut String, title: &str, unit: &str, entries: &[TopEntry], missed: u64) {
    let Some(highest) = entries.iter().map(|entry| entry.counts.requests).max() else { return };
    let _ = write!(out, "<h2>{}", escaped(title));
    if missed > 0 {
        let _ = write!(out, " <span class=\"dim\">(counts may be up to {missed} too low)</span>");
    }
    let _ = writeln!(
        out,
        "</h2><table><tr><th class=\"n\">{unit}</th><th class=\"n\">flagged</th><th class=\"n\">failed</th><th class=\"n\">bytes</th><th></th><th></th></tr>"
    );
    for TopEntry { name, counts } in entries {
        let width = counts.requests.saturating_mul(100) / highest.max(1);
        let class = if counts.flagged * 2 > counts.requests { "bar bad" } else { "bar" };
        let RequestCounts { requests, failed, flagged, bytes } = counts;
        let _ = writeln!(
            out,
            "<tr><td class=\"n\">{requests}</td><td class=\"n\">{flagged}</td><td class=\"n\">{failed}</td><td class=\"n\">{bytes}</td><td class=\"b\"><div class=\"{class}\" style=\"width:{width}%\"></div></td><td class=\"t\">{}</td></tr>",
            escaped(name)
        );
    }
    out.push_str("</table>\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_strangers_stay_texts() {
        let text = escaped("</td><script>alert('x')</script>\"&\u{1b}[2J\u{202e}");
        assert_eq!(
            text,
            "&lt;/td&gt;&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&quot;&amp;\\u{1b}[2J\\u{202e}"
        );
    }
}
