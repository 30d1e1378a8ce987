//! `tollhouse anomalies`: what is unlike its past within the last hour.

use event::Time;
use server::api::{AnomaliesJson, AnomalyJson, Timestamp};

use crate::clock;
use crate::console::{DIM, Output, PLAIN, TableCell, TextTable, YELLOW, printable};
use crate::exit::{CommandError, Exit};
use crate::options::{Backend, EngineOptions, JsonOption, ServerOptions, time};
use crate::rendering::without_nodes;

/// Show what is unusual in the last hour: traffic, actions, rules, hot keys, promises
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse anomalies --server http://127.0.0.1:8377
  tollhouse anomalies --data ./data --pipeline mail --at 2026-05-17T10:00:00Z --json

Compares counts with the same hours of up to 14 days before (for a young pipeline, the hours of the
day before), and actions and rules by their share. Shows what is more than four standard deviations
and more than ten away. `tollhouse decisions --rule NAME --from TIME` shows the decisions behind it.
Exit code 1: there are anomalies.")]
pub(crate) struct AnomaliesArgs {
    /// Only this pipeline
    #[arg(long, value_name = "NAME")]
    pipeline: Option<String>,
    /// End of the hour [default: now]; offline only
    #[arg(long, value_name = "TIME", value_parser = time, conflicts_with = "server")]
    at: Option<Time>,
    #[command(flatten)]
    engine: EngineOptions,
    #[command(flatten)]
    server: ServerOptions,
    #[command(flatten)]
    json: JsonOption,
}

pub(crate) fn run(args: AnomaliesArgs) -> Result<Exit, CommandError> {
    let mut out = Output::new(args.json.json);
    let name = args.pipeline.as_deref();
    let found = match Backend::open(&args.engine, &args.server)? {
        Backend::Remote(client) => client.anomalies(name)?,
        Backend::Local(local) => {
            let at = args.at.unwrap_or_else(clock::now);
            let pipelines = match name {
                Some(_) => vec![local.pipeline(name, |_| true)?],
                None => local.engine().plan().pipelines.to_vec(),
            };
            let mut anomalies = Vec::new();
            for pipeline in &pipelines {
                let found = pollster::block_on(local.engine().anomalies(pipeline, at, &|| false))?;
                anomalies.extend(found.iter().map(|one| AnomalyJson::new(one, at, true)));
            }
            local.close()?;
            AnomaliesJson { at: Timestamp(at), anomalies, absent: Vec::new() }
        }
    };
    if out.is_json() {
        out.json(&found)?;
    } else if found.anomalies.is_empty() {
        out.line("nothing of the last hour stands out")?;
    } else {
        let mut table = TextTable::default();
        for one in &found.anomalies {
            let mut detail = printable(&one.detail).into_owned();
            if let Some(value) = &one.value {
                detail = format!("{}: {detail}", printable(value));
            }
            let of_node = one.node.iter().map(|node| TableCell::text(printable(node), DIM));
            table.row(of_node.chain([
                TableCell::text(&one.sort, YELLOW),
                TableCell::text(printable(&one.pipeline), DIM),
                TableCell::text(detail, PLAIN),
            ]));
        }
        out.line(table)?;
    }
    out.flush()?;
    without_nodes(&found.absent);
    Ok(if found.anomalies.is_empty() { Exit::Fine } else { Exit::Found })
}
