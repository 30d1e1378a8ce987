//! Answers drawn for the terminal: verdicts with their reasons, keys with their readings, timelines and rankings.
//!
//! Everything drawn here came from events or over the wire: it is escaped and cut to the terminal's width.

use event::Span;
use indicatif::HumanCount;
use server::api::{
    BandJson, ChallengeTallyJson, ConditionPartJson, ExplanationJson, FullestKeysJson, KeyReadingJson,
    RankedReputationJson, RankedReputationsJson, ReadingsJson, ReasonJson, RelatedKeysJson, ReputationJson,
    TierJson, TimelineJson, TopKeysJson,
};

use crate::console::{BOLD, DIM, Output, PLAIN, TableCell, TextTable, colour, cut, printable, say, width};
use crate::exit::CommandError;

/// Columns of a line of blocks, where there is no terminal.
const CHART_COLUMNS: usize = 120;
/// Facts that tell people which event it was.
const TELLING: [&str; 7] =
    ["mail.from", "mail.subject", "client.ip", "http.method", "http.path", "http.request", "http.agent"];

/// A verdict with its reasons: what was decided, about which event, by which rules, and what is next.
pub(crate) fn verdict(out: &mut Output, explained: &ExplanationJson) -> Result<(), CommandError> {
    let width = width();
    let id = explained.id.as_deref().unwrap_or("not decided");
    match (explained.action, explained.score) {
        (Some(action), Some(score)) => {
            let style = colour(action).bold();
            // One that nobody's judgement stands behind is for programs.
            let is_drawn = explained.facts.contains_key("calibration.slope");
            let bad = explained.probability.filter(|_| is_drawn);
            let bad = bad.map(|bad| format!("  {} bad", percent(bad))).unwrap_or_default();
            out.line(format_args!(
                "{style}{action}{style:#}  score {BOLD}{score:.1}{BOLD:#}{bad}  {}  {id}",
                explained.pipeline
            ))?;
        }
        _ => out.line(format_args!("{}  {id}", explained.pipeline))?,
    }
    let mut about = TextTable::default();
    let mut row = |name: &str, value: String| {
        about.row([TableCell::text(format!("  {name}"), DIM), TableCell::text(value, PLAIN)])
    };
    for name in TELLING {
        if let Some(value) = explained.facts.get(name) {
            row(name, json_text(value, width.saturating_sub(20)));
        }
    }
    row("happened", explained.time.to_string());
    row("arrived", explained.arrival.to_string());
    if let Some(id) = &explained.event_id {
        row("event id", cut(id, width.saturating_sub(20)));
    }
    if explained.duplicate {
        row("duplicate", "its id had been counted before; it was judged, and not counted again".to_owned());
    }
    row("version", cut(&explained.version, 40));
    if let Some(next) = &explained.next {
        row("next", format!("{} at {:.1} more", next.action, next.distance));
    }
    out.line(about)?;
    rules(out, "rules", &explained.reasons, explained, width)?;
    rules(out, "rules in shadow, without influence", &explained.shadow, explained, width)?;
    out.line("")
}

fn rules(
    out: &mut Output,
    title: &str,
    reasons: &[ReasonJson],
    explained: &ExplanationJson,
    width: usize,
) -> Result<(), CommandError> {
    if reasons.is_empty() {
        return Ok(());
    }
    out.line(format_args!("  {DIM}{title}{DIM:#}"))?;
    for reason in reasons {
        let room = width.saturating_sub(12);
        let name = cut(&reason.name, room);
        let text = explained.rules.get(&reason.name).map_or("", String::as_str);
        let text = cut(text, room.saturating_sub(name.chars().count() + 8));
        let text = if text.is_empty() { text } else { format!("  {text}") };
        let share = explained.shares.get(&reason.name);
        let share = share.map_or(String::new(), |share| format!("  {:.0} %", share.share * 100.0));
        out.line(format_args!("  {:>+7.1}  {BOLD}{name}{BOLD:#}{DIM}{share}{DIM:#}{text}", reason.score))?;
        if !reason.detail.is_empty() {
            out.line(format_args!("           {DIM}{}{DIM:#}", cut(&reason.detail, room)))?;
        }
    }
    Ok(())
}

/// A probability as people read it: the surer, the more digits, and never quite none or all.
fn percent(probability: f64) -> String {
    let sure = probability.min(1.0 - probability);
    match probability * 100.0 {
        percent if sure >= 0.05 => format!("{percent:.0} %"),
        percent if sure >= 0.001 => format!("{percent:.1} %"),
        percent if percent < 50.0 => "< 0.1 %".to_owned(),
        _ => "> 99.9 %".to_owned(),
    }
}

/// Prints the effects that rules asked for beside their scores.
pub(crate) fn effects(out: &mut Output, explained: &ExplanationJson) -> Result<(), CommandError> {
    if explained.effects.is_empty() {
        return Ok(());
    }
    out.line(format_args!("{BOLD}effects{BOLD:#}"))?;
    let mut table = TextTable::default();
    for due in &explained.effects {
        table.row([
            TableCell::text(format!("  {}", cut(&due.effect, 60)), PLAIN),
            TableCell::text(cut(&due.rule, 40), DIM),
        ]);
    }
    out.line(table)?;
    out.line("")
}

/// Prints the challenge that was asked for, and how those of its rule fare.
pub(crate) fn challenge(out: &mut Output, explained: &ExplanationJson) -> Result<(), CommandError> {
    let Some(challenge) = &explained.challenge else { return Ok(()) };
    let ChallengeTallyJson { rule, units, issued, solved, unsolved, mean_seconds } = challenge;
    out.line(format_args!("{BOLD}challenge{BOLD:#} of {units:.0} units, for {}", cut(rule, 40)))?;
    let time = mean_seconds.map_or_else(String::new, |seconds| format!(" in {seconds:.1} s on average"));
    out.line(format_args!(
        "  {DIM}of {issued} for this reason since the node was started, {solved} were solved{time}, {unsolved} wrongly{DIM:#}"
    ))?;
    out.line("")
}

/// The rules that came closest to firing, with what was missing to each and what would have been.
pub(crate) fn closest(out: &mut Output, explained: &ExplanationJson) -> Result<(), CommandError> {
    if let Some(unknown) = &explained.unknown {
        out.line(format_args!("{DIM}{}{DIM:#}", cut(unknown, width())))?;
    }
    if explained.closest.is_empty() {
        return if explained.unknown.is_some() { out.line("") } else { Ok(()) };
    }
    out.line(format_args!("{BOLD}closest rules{BOLD:#} that did not fire"))?;
    let room = width().saturating_sub(12);
    for close in &explained.closest {
        let shadow = if close.mode == "shadow" { ", in shadow" } else { "" };
        let (style, action) = (colour(close.action_with), close.action_with);
        let with = format!("{:.1}", close.score_with);
        out.line(format_args!(
            "  {:>+7.1}  {BOLD}{}{BOLD:#}{shadow}  {DIM}with it {with}, {DIM:#}{style}{action}{style:#}",
            close.score,
            cut(&close.name, room)
        ))?;
        missing(out, &close.missing, room)?;
        if !close.detail.is_empty() {
            out.line(format_args!("           {DIM}{}{DIM:#}", cut(&close.detail, room)))?;
        }
    }
    out.line("")
}

/// The parts of a condition that did not hold.
fn missing(out: &mut Output, parts: &[ConditionPartJson], room: usize) -> Result<(), CommandError> {
    for missing in parts {
        let was = match missing.was {
            Some(true) => "true",
            Some(false) => "false",
            None => "missing",
        };
        let part = cut(&missing.part, room.saturating_sub(12));
        out.line(format_args!("           {was}: {part}"))?;
    }
    Ok(())
}

/// The limits that did not apply to the event, and why.
pub(crate) fn limits(out: &mut Output, explained: &ExplanationJson) -> Result<(), CommandError> {
    let mut idle = explained.limits.iter().filter(|limit| !limit.applied).peekable();
    if idle.peek().is_none() {
        return Ok(());
    }
    out.line(format_args!("{BOLD}limits{BOLD:#} that this event took nothing from"))?;
    let room = width().saturating_sub(12);
    for limit in idle {
        let when = cut(&limit.when, room.saturating_sub(limit.limit.chars().count() + 7));
        out.line(format_args!("  {BOLD}{}{BOLD:#}  {DIM}when {when}{DIM:#}", limit.limit))?;
        missing(out, &limit.missing, room)?;
    }
    out.line("")
}

/// Prints the results of models, and the features that moved them most.
pub(crate) fn models(out: &mut Output, explained: &ExplanationJson) -> Result<(), CommandError> {
    for model in &explained.models {
        let name = cut(&model.name, 40);
        out.line(format_args!(
            "{BOLD}model {name}{BOLD:#} gives {BOLD}{:.4}{BOLD:#}  {DIM}raw {:+.4} from {:+.4}{DIM:#}",
            model.output, model.raw, model.expected
        ))?;
        let mut table = TextTable::default();
        for one in &model.contributions {
            let value = if one.value.is_null() { "missing".to_owned() } else { json_text(&one.value, 60) };
            table.row([
                TableCell::number(format_args!("  {:+.4}", one.adds), PLAIN),
                TableCell::text(cut(&one.feature, 60), PLAIN),
                TableCell::text(value, DIM),
            ]);
        }
        if model.others != 0.0 {
            let all_others = [
                TableCell::number(format_args!("  {:+.4}", model.others), PLAIN),
                TableCell::text("others", DIM),
            ];
            table.row(all_others);
        }
        out.line(table)?;
        out.line("")?;
    }
    Ok(())
}

/// Prints the knowledge of classifiers by now, and the tokens that move them most.
pub(crate) fn classifiers(out: &mut Output, explained: &ExplanationJson) -> Result<(), CommandError> {
    for classifier in &explained.classifiers {
        let name = cut(&classifier.name, 40);
        let probability = classifier.probability;
        out.line(format_args!(
            "{BOLD}classifier {name}{BOLD:#} says by now {BOLD}{probability:.4}{BOLD:#}, uncalibrated"
        ))?;
        let mut table = TextTable::default();
        for one in &classifier.tokens {
            table.row([
                TableCell::number(format_args!("  {:+.4}", one.adds), PLAIN),
                TableCell::text(cut(&one.token, 60), PLAIN),
                TableCell::text(format!("bad {}, good {}", one.bad, one.good), DIM),
            ]);
        }
        let others = [
            TableCell::number(format_args!("  {:+.4}", classifier.others), PLAIN),
            TableCell::text("others", DIM),
        ];
        table.row(others);
        for (odds, model) in
            [(classifier.linear, "linear model"), (classifier.site, "linear model of the site")]
        {
            let Some(odds) = odds else { continue };
            table.row([TableCell::number(format_args!("  {odds:+.4}"), PLAIN), TableCell::text(model, DIM)]);
        }
        out.line(table)?;
        out.line("")?;
    }
    Ok(())
}

/// Prints the bands that promise, as they begin now, and where they began for the event.
pub(crate) fn lines(out: &mut Output, explained: &ExplanationJson) -> Result<(), CommandError> {
    if explained.bands.is_empty() {
        return Ok(());
    }
    let begun = explained.bands.iter().map(|band| {
        let then = explained.facts.get(&format!("line.{}", band.action)).and_then(|at| at.as_f64());
        then.map_or_else(|| format!("{} by default", band.action), |at| format!("{} at {at:.2}", band.action))
    });
    let begun: Vec<String> = begun.collect();
    out.line(format_args!("{BOLD}lines{BOLD:#} then: {}; now:", begun.join(", ")))?;
    out.line(bands(&explained.bands))?;
    out.line("")
}

/// The bands of a pipeline: where they begin, what they promise, and what came of it.
pub(crate) fn bands(bands: &[BandJson]) -> TextTable {
    let mut table = TextTable::default();
    let heads = ["begins at", "promised", "reached", "caught", "judged good"];
    let heads = heads.map(|head| TableCell::number(head, DIM));
    table.row([TableCell::text("line", DIM)].into_iter().chain(heads));
    bands.iter().for_each(|band| table.row(line(band)));
    table
}

fn line(band: &BandJson) -> Vec<TableCell> {
    let share = |share: Option<f64>| {
        TableCell::number(share.map_or("-".to_owned(), |share| format!("{:.2} %", 100.0 * share)), BOLD)
    };
    let promise = band.promise.as_ref();
    let judged = promise.map_or("-".to_owned(), |promise| match promise.held {
        true => promise.good.to_string(),
        false => format!("{} of {}", promise.judged, promise.needed),
    });
    vec![
        TableCell::text(band.action.name(), colour(band.action)),
        TableCell::number(format_args!("{:.2}", band.at), BOLD),
        share(promise.map(|promise| promise.false_positives)),
        share(promise.and_then(|promise| promise.reached)),
        share(promise.and_then(|promise| promise.recall)),
        TableCell::number(judged, PLAIN),
    ]
}

/// Prints reputations, and what made them.
pub(crate) fn reputations(out: &mut Output, reputations: &[ReputationJson]) -> Result<(), CommandError> {
    for reputation in reputations {
        let ReputationJson { name, score, grade, evidence, .. } = reputation;
        let (name, grade) = (cut(name, 40), cut(grade, 20));
        out.line(format_args!(
            "{BOLD}reputation {name}{BOLD:#} is {BOLD}{grade}{BOLD:#}, {score:+.1}  {DIM}evidence {evidence:.1}{DIM:#}"
        ))?;
        if !reputation.history.is_empty() {
            let past = reputation.history.iter().map(|past| format!("{:+.1} {} ago", past.score, past.ago.0));
            out.line(format_args!("{DIM}  {}{DIM:#}", past.collect::<Vec<_>>().join(", ")))?;
        }
        let mut table = TextTable::default();
        for reason in &reputation.reasons {
            table.row([
                TableCell::number(format_args!("  {:+.1}", reason.adds), PLAIN),
                TableCell::text(cut(&reason.part, 60), PLAIN),
                TableCell::text(format!("{}, {:.1}", cut(&reason.source, 20), reason.amount), DIM),
            ]);
        }
        if !reputation.reasons.is_empty() {
            out.line(table)?;
        }
    }
    Ok(())
}

/// The keys of an event, each with what was known of it before.
pub(crate) fn keys(out: &mut Output, explained: &ExplanationJson) -> Result<(), CommandError> {
    if explained.keys.is_empty() {
        return Ok(());
    }
    out.line(format_args!("{BOLD}keys{BOLD:#}, with what was known before"))?;
    let mut table = TextTable::default();
    for key in &explained.keys {
        let piece = key.piece.as_deref().map_or_else(|| format!("#{}", key.shingle), |piece| cut(piece, 40));
        let cells = [(format!("  {}", key.kind), DIM), (piece, PLAIN), (known(key), PLAIN)];
        table.row(cells.map(|(text, style)| TableCell::text(text, style)));
    }
    out.line(table)?;
    out.line("")
}

/// `seen 1h 3, 14d 20; spam 14d 2; since 2026-05-17T10:05:03Z`, or `count 5, decayed_1h 2.4; since ...; estimated`
fn known(key: &KeyReadingJson) -> String {
    let mut parts: Vec<String> = Vec::new();
    for (counter, windows) in &key.counts {
        let mut windows: Vec<(&str, u64)> =
            windows.iter().map(|(window, count)| (window.as_str(), *count)).collect();
        windows.sort_by_key(|(window, _)| window.parse::<Span>().unwrap_or(Span::MAX));
        let windows: Vec<String> =
            windows.iter().map(|(window, count)| format!("{window} {}", HumanCount(*count))).collect();
        parts.push(format!("{counter} {}", windows.join(", ")));
    }
    if !key.values.is_empty() {
        let values = key.values.iter().map(|(name, value)| format!("{} {}", cut(name, 30), number(value)));
        parts.push(values.collect::<Vec<_>>().join(", "));
    }
    parts.extend(key.first.map(|first| format!("since {first}")));
    if parts.is_empty() {
        parts.push("nothing".to_owned());
    }
    if key.quality != "exact" {
        parts.push(key.quality.clone());
    }
    parts.join("; ")
}

/// A value of an aggregate: digits in groups, and two behind the point.
fn number(value: &serde_json::Value) -> String {
    match (value.as_u64(), value.as_f64()) {
        (Some(integer), _) => HumanCount(integer).to_string(),
        (None, Some(float)) if value.is_f64() => format!("{float:.2}"),
        _ => json_text(value, 30),
    }
}

/// The facts of an event, without the readings, which stand with their keys.
pub(crate) fn facts(out: &mut Output, explained: &ExplanationJson) -> Result<(), CommandError> {
    let room = width().saturating_sub(36);
    out.line(format_args!("{BOLD}facts{BOLD:#}"))?;
    let mut table = TextTable::default();
    for (name, value) in explained.facts.iter().filter(|(name, _)| !name.contains('(')) {
        table
            .row([TableCell::text(format!("  {name}"), DIM), TableCell::text(json_text(value, room), PLAIN)]);
    }
    out.line(table)
}

fn json_text(value: &serde_json::Value, chars_max: usize) -> String {
    match value {
        serde_json::Value::String(text) => cut(text, chars_max),
        serde_json::Value::Array(items) => {
            let items: Vec<String> = items.iter().map(|item| json_text(item, chars_max)).collect();
            cut(&items.join(", "), chars_max)
        }
        other => cut(&other.to_string(), chars_max),
    }
}

/// All that is kept of a key: totals, and a line of blocks for each counter and width of buckets.
pub(crate) fn timeline(out: &mut Output, timeline: &TimelineJson) -> Result<(), CommandError> {
    let TimelineJson { pipeline, kind, .. } = timeline;
    let piece = cut(&timeline.piece, width().saturating_sub(30));
    out.line(format_args!("{pipeline} {kind} {BOLD}{piece}{BOLD:#}  {DIM}#{}{DIM:#}", timeline.shingle))?;
    reputations(out, &timeline.reputations)?;
    let (Some(first), Some(last)) = (timeline.first, timeline.last) else {
        return match (timeline.quality.as_str(), timeline.values.get("count")) {
            ("estimated", Some(count)) => {
                out.line(format_args!("  not admitted yet: seen about {} times lately", number(count)))
            }
            ("estimated", None) => out.line("  not admitted yet: seen lately, but not often enough"),
            ("missing", _) => out.line("  what was kept of it could not be read"),
            _ => out.line("  nothing is known of it: never seen, or forgotten"),
        };
    };
    out.line(format_args!("  first {first}, last {last}"))?;
    if timeline.quality != "exact" {
        out.line(format_args!("  {}", cut(&timeline.quality, 30)))?;
    }
    if !timeline.values.is_empty() {
        let mut table = TextTable::default();
        for (name, value) in &timeline.values {
            let name = TableCell::text(format!("  {}", cut(name, 30)), DIM);
            table.row([name, TableCell::number(number(value), PLAIN)]);
        }
        out.line(table)?;
    }
    if timeline.counters.is_empty() {
        return Ok(());
    }
    let mut table = TextTable::default();
    let windows =
        timeline.windows.iter().map(|window| TableCell::number(format_args!("last {}", window.window), DIM));
    table.row([TableCell::text("  counter", DIM), TableCell::number("all", DIM)].into_iter().chain(windows));
    for counter in &timeline.counters {
        let buckets = timeline.tiers.iter().flat_map(|tier| &tier.buckets);
        let counts = buckets.filter_map(|bucket| bucket.counts.get(counter));
        let all = counts.fold(0, |all: u64, count| all.saturating_add(*count));
        let sums = timeline.windows.iter().map(|window| window.counts.get(counter).copied().unwrap_or(0));
        let cells = [all].into_iter().chain(sums).map(|sum| TableCell::number(HumanCount(sum), PLAIN));
        table.row([TableCell::text(format!("  {}", cut(counter, 30)), PLAIN)].into_iter().chain(cells));
    }
    out.line(table)?;
    for tier in &timeline.tiers {
        blocks(out, timeline, tier)?;
    }
    Ok(())
}

/// The counts of many keys, a row each; of windows those that have counts.
pub(crate) fn readings(out: &mut Output, told: &ReadingsJson) -> Result<(), CommandError> {
    let mut table = TextTable::default();
    for key in &told.keys {
        let windows = key.windows.iter().flat_map(|window| {
            let count = |(counter, count): (&String, &u64)| {
                format!("{}({}) {}", cut(counter, 30), window.window, HumanCount(*count))
            };
            window.counts.iter().map(count)
        });
        let values = key.values.iter().map(|(name, value)| format!("{} {}", cut(name, 30), number(value)));
        let mut known: Vec<String> = windows.chain(values).collect();
        if key.quality != "exact" {
            known.push(cut(&key.quality, 30));
        } else if key.last.is_none() && known.is_empty() {
            known.push("never seen, or forgotten".to_owned());
        }
        table.row([
            TableCell::text(cut(&key.kind, 30), DIM),
            TableCell::text(cut(&key.piece, 60), BOLD),
            TableCell::text(known.join(", "), PLAIN),
        ]);
    }
    out.line(table)
}

fn blocks(out: &mut Output, timeline: &TimelineJson, tier: &TierJson) -> Result<(), CommandError> {
    let (Some(first), Some(last)) = (tier.buckets.first(), tier.buckets.last()) else { return Ok(()) };
    let columns = width().min(CHART_COLUMNS).saturating_sub(20);
    out.line(format_args!("  {DIM}{} buckets, {} to {}{DIM:#}", tier.width, first.start, last.start))?;
    for counter in &timeline.counters {
        let counts = tier
            .buckets
            .iter()
            .filter_map(|bucket| Some((bucket.start.0.bucket(tier.width.0), *bucket.counts.get(counter)?)));
        let range = (first.start.0.bucket(tier.width.0), last.start.0.bucket(tier.width.0));
        if let Some((line, peak)) = spark(counts, range, columns) {
            out.line(format_args!(
                "  {:<12} {line} {DIM}peak {}{DIM:#}",
                cut(counter, 12),
                HumanCount(peak)
            ))?;
        }
    }
    Ok(())
}

/// Counts by bucket number as blocks of eight heights, neighbours summed up where there are more buckets than
/// columns, and the highest sum; none where nothing was counted.
fn spark(
    counts: impl Iterator<Item = (i64, u64)>,
    (first, last): (i64, i64),
    columns: usize,
) -> Option<(String, u64)> {
    const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let buckets = u64::try_from(i128::from(last) - i128::from(first) + 1).ok()?;
    let group = buckets.div_ceil(columns.max(1) as u64).max(1);
    let mut sums = vec![0u64; usize::try_from(buckets.div_ceil(group)).ok()?];
    for (bucket, count) in counts {
        let offset = u64::try_from(i128::from(bucket) - i128::from(first)).ok()?;
        if let Some(sum) = sums.get_mut(usize::try_from(offset / group).ok()?) {
            *sum = sum.saturating_add(count);
        }
    }
    let peak = sums.iter().copied().max().filter(|peak| *peak > 0)?;
    let height = |sum: &u64| match u128::from(*sum) * 8 {
        0 => ' ',
        eighths => HEIGHTS[(eighths.div_ceil(u128::from(peak)) - 1).min(7) as usize],
    };
    Some((sums.iter().map(height).collect(), peak))
}

/// The hottest keys, with bars.
/// Prints the keys with the worst or the best reputations.
pub(crate) fn ranked(out: &mut Output, ranked: &RankedReputationsJson) -> Result<(), CommandError> {
    let RankedReputationsJson { pipeline, reputation, order, within, keys } = ranked;
    out.line(format_args!("{pipeline} {BOLD}{reputation}{BOLD:#}, {order} of the last {within}"))?;
    if keys.is_empty() {
        return out.line("  none");
    }
    let room = width().saturating_sub(40);
    let mut table = TextTable::default();
    for RankedReputationJson { piece, reputation } in keys {
        let piece = piece.as_deref();
        let piece = piece.map_or_else(|| format!("#{}", reputation.shingle), |piece| cut(piece, room));
        table.row([
            TableCell::number(format_args!("  {:+.1}", reputation.score), PLAIN),
            TableCell::text(cut(&reputation.grade, 20), DIM),
            TableCell::text(piece, PLAIN),
        ]);
    }
    out.line(table)
}

pub(crate) fn related(out: &mut Output, found: &RelatedKeysJson) -> Result<(), CommandError> {
    let RelatedKeysJson { pipeline, kind, piece, decisions, partial, keys, .. } = found;
    let more = if *partial { ", the latest" } else { "" };
    out.line(format_args!(
        "{pipeline} {BOLD}{kind}{BOLD:#} {}: {decisions} decisions{more}",
        printable(piece)
    ))?;
    if keys.is_empty() {
        return out.line("  no other key");
    }
    let room = width().saturating_sub(50);
    let mut table = TextTable::default();
    let heads = ["decisions", "good", "bad"].map(|head| TableCell::number(head, DIM));
    table.row(heads.into_iter().chain(["kind", "value"].map(|head| TableCell::text(head, DIM))));
    for key in keys {
        table.row([
            TableCell::number(HumanCount(key.decisions), PLAIN),
            TableCell::number(HumanCount(key.good), PLAIN),
            TableCell::number(HumanCount(key.bad), PLAIN),
            TableCell::text(printable(&key.kind), DIM),
            TableCell::text(cut(&key.piece, room), BOLD),
        ]);
    }
    out.line(table)
}

/// Names the nodes whose decisions are missing, if there are any.
pub(crate) fn without_nodes(absent: &[String]) {
    if !absent.is_empty() {
        say(format_args!("without nodes that do not answer: {}", printable(&absent.join(", "))));
    }
}

pub(crate) fn top(out: &mut Output, top: &TopKeysJson) -> Result<(), CommandError> {
    let TopKeysJson { pipeline, kind, counter, window, keys } = top;
    out.line(format_args!("{pipeline} {BOLD}{kind}{BOLD:#} by {counter} within {window}"))?;
    if keys.is_empty() {
        return out.line("  none");
    }
    const BAR: u128 = 20;
    let most = keys.iter().map(|key| key.count).max().unwrap_or(1).max(1);
    let room = width().saturating_sub(40);
    let mut table = TextTable::default();
    for key in keys {
        let bar = "█".repeat((u128::from(key.count) * BAR).div_ceil(u128::from(most)).min(BAR) as usize);
        let piece =
            key.piece.as_deref().map_or_else(|| format!("#{}", key.shingle), |piece| cut(piece, room));
        table.row([
            TableCell::number(HumanCount(key.count), PLAIN),
            TableCell::text(bar, DIM),
            TableCell::text(piece, PLAIN),
        ]);
    }
    out.line(table)
}

/// The keys that have used most of a limit.
pub(crate) fn fullest(out: &mut Output, fill: &FullestKeysJson) -> Result<(), CommandError> {
    out.line(format_args!(
        "{BOLD}{}{BOLD:#} by {}",
        cut(&fill.limit, 60),
        cut(&fill.fields.join(" + "), 60)
    ))?;
    if fill.keys.is_empty() {
        return out.line("  none");
    }
    const BAR: f64 = 20.0;
    let room = width().saturating_sub(60);
    let mut table = TextTable::default();
    for key in &fill.keys {
        let bar = "█".repeat((key.share.clamp(0.0, 1.0) * BAR).ceil() as usize);
        let text =
            |value: &serde_json::Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let name = key.key.as_ref().map_or_else(
            || format!("#{}", key.shingle),
            |values| {
                let values = fill.fields.iter().filter_map(|field| values.get(field)).map(text);
                cut(&values.collect::<Vec<_>>().join(" + "), room)
            },
        );
        let ban = key.banned_until.map(|until| format!("banned until {}", until.0));
        let state = ban.unwrap_or_else(|| if key.overridden { "override".to_owned() } else { String::new() });
        table.row([
            TableCell::number(format_args!("{} of {}", HumanCount(key.used), HumanCount(key.quota)), PLAIN),
            TableCell::text(bar, DIM),
            TableCell::text(name, PLAIN),
            TableCell::text(state, DIM),
        ]);
    }
    out.line(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(counts: &[(i64, u64)], range: (i64, i64), columns: usize, expected: Option<(&str, u64)>) {
        let drawn = spark(counts.iter().copied(), range, columns);
        assert_eq!(drawn.as_ref().map(|(line, peak)| (line.as_str(), *peak)), expected, "{counts:?}");
    }

    #[test]
    fn probabilities_are_as_exact_as_they_are_sure() {
        let check =
            |probability: f64, expected: &str| assert_eq!(percent(probability), expected, "{probability}");
        check(0.5, "50 %");
        check(0.944, "94 %");
        check(0.9876, "98.8 %");
        check(0.012, "1.2 %");
        check(0.999_5, "> 99.9 %");
        check(1.0, "> 99.9 %");
        check(0.0, "< 0.1 %");
    }

    #[test]
    fn counts_become_blocks() {
        check(&[(10, 1), (11, 4), (13, 8)], (10, 13), 80, Some(("▁▄ █", 8)));
        check(&[(0, 1), (1, 1), (2, 1), (3, 5)], (0, 3), 2, Some(("▃█", 6)));
        check(&[], (0, 3), 80, None);
        check(&[(0, u64::MAX), (1, u64::MAX)], (0, 1), 1, Some(("█", u64::MAX)));
    }

    #[test]
    fn a_range_from_a_strange_server_costs_nothing() {
        check(&[(i64::MIN, 1), (i64::MAX, 1)], (i64::MIN, i64::MAX), 4, None);
        check(&[(-5, 1)], (0, i64::MAX - 1), 4, None);
        check(&[(0, 2)], (5, 0), 4, None);
    }
}
