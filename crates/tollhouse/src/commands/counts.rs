//! `tollhouse counts`: decisions over time.

use std::collections::{BTreeMap, BTreeSet};

use event::{Span, Time};
use server::api::{CountBucketJson, DecisionCountsJson};

use crate::console::{BOLD, DIM, Output, PLAIN, TableCell, TextTable, colour, printable};
use crate::exit::{CommandError, Exit};
use crate::options::{JsonOption, NearServerOptions, span, time};
use crate::rendering::without_nodes;

/// Show a server's decisions over time, by action, label and rule
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse counts                                   The last hour, by the minute
  tollhouse counts --pipeline mail --width 1h        The last day, by the hour
  tollhouse counts --width 1d --from 2026-05-01 --to 2026-06-01 --rules BULK,PHISHING --json

Widths are whole minutes that divide an hour, kept for a day, or whole hours, kept for 60 days.")]
pub(crate) struct CountsArgs {
    /// Pipeline [default: the first]
    #[arg(long, value_name = "NAME")]
    pipeline: Option<String>,
    /// Width of a bucket [default: 1m]
    #[arg(long, value_name = "SPAN", value_parser = span)]
    width: Option<Span>,
    /// From this time on [default: an hour, or 24 buckets that are wider, before the end]
    #[arg(long, value_name = "TIME", value_parser = time)]
    from: Option<Time>,
    /// Up to this time [default: now]
    #[arg(long, value_name = "TIME", value_parser = time)]
    to: Option<Time>,
    /// Rules to count, separated by commas; `*` for all
    #[arg(long, value_name = "NAMES")]
    rules: Option<String>,
    #[command(flatten)]
    server: NearServerOptions,
    #[command(flatten)]
    json: JsonOption,
}

pub(crate) fn run(args: CountsArgs) -> Result<Exit, CommandError> {
    let [from, to] = [args.from, args.to].map(|time| time.map(|time| time.to_string()));
    let width = args.width.map(|width| width.to_string());
    let given = [
        ("pipeline", &args.pipeline),
        ("width", &width),
        ("from", &from),
        ("to", &to),
        ("rules", &args.rules),
    ];
    let query: Vec<(&str, &str)> =
        given.iter().filter_map(|(name, value)| Some((*name, value.as_deref()?))).collect();
    let counts = args.server.client()?.counts(&query)?;
    let mut out = Output::new(args.json.json);
    if out.is_json() {
        out.json(&counts)?;
    } else {
        show(&mut out, &counts)?;
    }
    out.flush()?;
    without_nodes(&counts.absent);
    Ok(Exit::Fine)
}

/// Counts of a bucket by name.
type BucketCounts = fn(&CountBucketJson) -> &BTreeMap<String, u64>;

fn show(out: &mut Output, counts: &DecisionCountsJson) -> Result<(), CommandError> {
    let all: u64 = counts.buckets.iter().map(|bucket| bucket.decisions).sum();
    out.line(format_args!("{BOLD}{all}{BOLD:#} decisions of {}", printable(&counts.pipeline)))?;
    if counts.buckets.is_empty() {
        return Ok(());
    }
    let of: [(BucketCounts, &str, &str); 4] = [
        (|bucket| &bucket.actions, "", ""),
        (|bucket| &bucket.labels, "label ", ""),
        (|bucket| &bucket.rules, "", ""),
        (|bucket| &bucket.shadow, "", " in shadow"),
    ];
    // A column for each name that has a count.
    let mut columns = Vec::new();
    for (counts_of, before, behind) in of {
        let named = counts.buckets.iter().flat_map(counts_of);
        let names: BTreeSet<&String> = named.filter(|(_, count)| **count > 0).map(|(name, _)| name).collect();
        columns.extend(
            names.into_iter().map(|name| (counts_of, name, format!("{before}{}{behind}", printable(name)))),
        );
    }
    let mut table = TextTable::default();
    let heads =
        columns.iter().map(|(_, name, head)| TableCell::number(head, name.parse().map_or(DIM, colour)));
    table.row([TableCell::text("start", DIM), TableCell::number("decisions", DIM)].into_iter().chain(heads));
    for bucket in &counts.buckets {
        let count = |(counts_of, name, _): &(BucketCounts, &String, String)| {
            TableCell::number(counts_of(bucket).get(*name).copied().unwrap_or(0), PLAIN)
        };
        let first =
            [TableCell::text(bucket.start.to_string(), DIM), TableCell::number(bucket.decisions, BOLD)];
        table.row(first.into_iter().chain(columns.iter().map(count)));
    }
    out.line(table)
}
