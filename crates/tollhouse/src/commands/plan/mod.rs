//! `tollhouse plan`: how large a cluster for statistics has to be.

mod sizing;

use event::Span;

use self::sizing::{ClusterDemand, ClusterSizing, KEY_BYTES};
use crate::console::Output;
use crate::exit::{CommandError, Exit};
use crate::options::JsonOption;

/// Compute the size of a cluster for statistics
///
/// Reckons with bytes and CPU time as they were measured, see `docs/operating/cluster.md`. Measure your own keys and say so with
/// `--bytes-per-key` where it matters.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse plan --keys-per-day 50000000 --updates-per-second 2000 --keep 14d
  tollhouse plan --keys-per-day 13000000000 --updates-per-second 220000 --keep 1d --json")]
pub(crate) struct PlanArgs {
    /// Different keys a day
    #[arg(long, value_name = "KEYS")]
    keys_per_day: u64,
    /// Additions a second
    #[arg(long, value_name = "UPDATES")]
    updates_per_second: u64,
    /// Time for which a key is kept after its last event, such as `14d`
    #[arg(long, value_name = "SPAN", value_parser = crate::options::span)]
    keep: Span,
    /// Copies of each key, the master's included
    #[arg(long, value_name = "COPIES", default_value_t = 2)]
    replication: u64,
    /// Bytes of a key
    #[arg(long, value_name = "BYTES", default_value_t = KEY_BYTES)]
    bytes_per_key: u64,
    /// Memory of a server, in GiB
    #[arg(long, value_name = "GIB", default_value_t = 64)]
    server_gib: u64,
    /// Share of additions to known keys that nodes sum up, 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    summed: f64,
    /// Share of readings of known keys that miss the nodes' caches, 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 1.0)]
    missed: f64,
    #[command(flatten)]
    json: JsonOption,
}

pub(crate) fn run(args: PlanArgs) -> Result<Exit, CommandError> {
    let demand = ClusterDemand {
        keys_per_day: args.keys_per_day,
        updates_per_second: args.updates_per_second,
        keep: args.keep,
        replication: args.replication,
        bytes_per_key: args.bytes_per_key,
        server_bytes: args.server_gib.saturating_mul(1 << 30),
        summed: args.summed,
        missed: args.missed,
    };
    let sizing = demand.sizing();
    let mut out = Output::new(args.json.json);
    if out.is_json() {
        out.json(&sizing)?;
    } else {
        let ClusterSizing {
            keys,
            bytes,
            bytes_of_all,
            made_per_second,
            changed_per_second,
            read_per_second,
            cores,
            masters_by_memory,
            masters_by_time,
            masters,
            servers,
        } = sizing;
        let gib = |bytes: u64| bytes as f64 / (1u64 << 30) as f64;
        out.line(format_args!("keys at a time        {keys}"))?;
        out.line(format_args!("memory of one copy    {:.1} GiB", gib(bytes)))?;
        out.line(format_args!("memory of all copies  {:.1} GiB", gib(bytes_of_all)))?;
        out.line(format_args!("keys made             {made_per_second} a second"))?;
        out.line(format_args!("keys changed          {changed_per_second} a second"))?;
        out.line(format_args!("keys read             {read_per_second} a second"))?;
        out.line(format_args!("busy cores            {cores:.1}"))?;
        out.line(format_args!(
            "masters               {masters} (memory asks for {masters_by_memory}, time for {masters_by_time})"
        ))?;
        out.line(format_args!("servers               {servers}"))?;
    }
    out.flush()?;
    Ok(Exit::Fine)
}
