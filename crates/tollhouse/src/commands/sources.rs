//! `tollhouse sources`: what a server reads by itself, and the brokers that it sends to.

use serde::Serialize;
use server::api::{SinkFaultJson, SinkJson, SourceFaultJson, SourceJson};

use crate::console::{BOLD, DIM, Output, PLAIN, RED, TableCell, TextTable, printable};
use crate::exit::{CommandError, Exit};
use crate::options::{JsonOption, NearServerOptions};

/// Show what a server reads and sends: counts, lag, faults
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse sources                                  Of the server on 127.0.0.1:8377
  tollhouse sources --server http://10.0.0.1:8377 --json

Counts are since the server's start. `unread` lines fit no pattern, `bad` ones are no events. `lag`
is what waits: bytes of a source, records of a sink. Exit code 1: one of them fails.")]
pub(crate) struct SourcesArgs {
    #[command(flatten)]
    server: NearServerOptions,
    #[command(flatten)]
    json: JsonOption,
}

/// A source or a sink in `--json`.
#[derive(Serialize)]
#[serde(tag = "of", rename_all = "lowercase")]
enum StreamLine<'a> {
    Source(&'a SourceJson),
    Sink(&'a SinkJson),
}

pub(crate) fn run(args: SourcesArgs) -> Result<Exit, CommandError> {
    let client = args.server.client()?;
    let (sources, sinks) = (client.sources()?.sources, client.sinks()?.sinks);
    let mut out = Output::new(args.json.json);
    if out.is_json() {
        sources.iter().try_for_each(|source| out.json(&StreamLine::Source(source)))?;
        sinks.iter().try_for_each(|sink| out.json(&StreamLine::Sink(sink)))?;
    } else {
        match sources.is_empty() {
            true => out.line("no [[source]] is configured")?,
            false => show_sources(&mut out, &sources)?,
        }
        match sinks.is_empty() {
            true => out.line("no [[sink]] is configured")?,
            false => show_sinks(&mut out, &sinks)?,
        }
    }
    out.flush()?;
    let is_failing = sources.iter().any(|source| source.fault.is_some());
    let is_failing = is_failing || sinks.iter().any(|sink| sink.fault.is_some());
    Ok(if is_failing { Exit::Found } else { Exit::Fine })
}

/// The head of a table: texts, and then numbers.
fn head(table: &mut TextTable, texts: &[&str], numbers: &[&str]) {
    let texts = texts.iter().map(|head| TableCell::text(*head, DIM));
    table.row(texts.chain(numbers.iter().map(|head| TableCell::number(head, DIM))));
}

fn show_sources(out: &mut Output, sources: &[SourceJson]) -> Result<(), CommandError> {
    let mut table = TextTable::default();
    let numbers = ["lines", "events", "unread", "bad", "dropped", "lag", "files"];
    head(&mut table, &["source", "kind", "pipeline", "state"], &numbers);
    for source in sources {
        let texts = [(&source.name, BOLD), (&source.kind, PLAIN), (&source.pipeline, PLAIN)];
        let texts = texts.map(|(text, style)| TableCell::text(printable(text), style));
        let counts = [source.lines, source.events, source.unread, source.bad, source.dropped, source.lag];
        let counts = counts.into_iter().chain([source.files]);
        let state = TableCell::text(&source.state, if source.fault.is_some() { RED } else { PLAIN });
        let row = texts.into_iter().chain([state]);
        table.row(row.chain(counts.map(|count| TableCell::number(count, PLAIN))));
    }
    out.line(table)?;
    for source in sources {
        let name = printable(&source.name);
        if let Some(SourceFaultJson { since, reason }) = &source.fault {
            out.line(format_args!("{name} fails since {since}: {}", printable(reason)))?;
        }
        if let Some(SourceFaultJson { since, reason }) = &source.last_bad {
            out.line(format_args!(
                "{name}: the last line that was no event, {since}: {}",
                printable(reason)
            ))?;
        }
    }
    Ok(())
}

fn show_sinks(out: &mut Output, sinks: &[SinkJson]) -> Result<(), CommandError> {
    let mut table = TextTable::default();
    let numbers = ["sent", "bytes", "shortened", "failures", "lag", "gaps"];
    head(&mut table, &["sink", "kind", "address", "state"], &numbers);
    for sink in sinks {
        let texts = [(&sink.name, BOLD), (&sink.kind, PLAIN), (&sink.address, PLAIN)];
        let texts = texts.map(|(text, style)| TableCell::text(printable(text), style));
        let counts = [sink.sent, sink.bytes, sink.shortened, sink.failures, sink.lag, sink.gaps];
        let state = TableCell::text(&sink.state, if sink.fault.is_some() { RED } else { PLAIN });
        let row = texts.into_iter().chain([state]);
        table.row(row.chain(counts.map(|count| TableCell::number(count, PLAIN))));
    }
    out.line(table)?;
    for sink in sinks {
        if let Some(SinkFaultJson { since, reason }) = &sink.fault {
            out.line(format_args!("{} fails since {since}: {}", printable(&sink.name), printable(reason)))?;
        }
    }
    Ok(())
}
