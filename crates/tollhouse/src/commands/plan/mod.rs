//! `tollhouse plan`: how large a cluster for statistics has to be.

mod sizing;

use event::Span;

use self::sizing::{ClusterDemand, ClusterSizing, EngineSizing, PublishedSystem};
use crate::console::Output;
use crate::exit::{CommandError, Exit};
use crate::options::JsonOption;

/// A figure of an engine as it is printed.
type FigureText = fn(&EngineSizing) -> String;

/// Compute the size of a cluster for statistics
///
/// Reckons with bytes and CPU time as they were measured, see `docs/operating/cluster.md#sizing`, side by side for servers with
/// the module, for servers with scripts, and for an engine on disk such as Kvrocks, whose figures are estimates. Measure your own
/// keys and say so with `--bytes-per-key` where it matters.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse plan --keys-per-day 50000000 --updates-per-second 2000 --keep 14d
  tollhouse plan --keys-per-day 13000000000 --updates-per-second 220000 --keep 1d --json
  tollhouse plan --system mail-counters    A system whose figures were published")]
pub(crate) struct PlanArgs {
    /// System with published figures, instead of your own
    #[arg(long, value_name = "SYSTEM")]
    system: Option<PublishedSystem>,
    /// Distinct keys a day
    #[arg(long, value_name = "KEYS", required_unless_present = "system")]
    keys_per_day: Option<u64>,
    /// Additions a second
    #[arg(long, value_name = "UPDATES", required_unless_present = "system")]
    updates_per_second: Option<u64>,
    /// Lifetime of a key after its last event, such as `14d`
    #[arg(long, value_name = "SPAN", value_parser = crate::options::span, required_unless_present = "system")]
    keep: Option<Span>,
    /// Copies of each key, with the master's [default: 2]
    #[arg(long, value_name = "COPIES")]
    replication: Option<u64>,
    /// Bytes per key [default: 67 with the module, 225 with scripts, 100 on disk]
    #[arg(long, value_name = "BYTES")]
    bytes_per_key: Option<u64>,
    /// Memory per server, in GiB
    #[arg(long, value_name = "GIB", default_value_t = 64)]
    server_gib: u64,
    /// Disk per server with its engine on disk, in GiB
    #[arg(long, value_name = "GIB", default_value_t = 2048)]
    disk_gib: u64,
    /// Share of additions to known keys that nodes batch, 0 to 1 [default: 0]
    #[arg(long, value_name = "SHARE")]
    summed: Option<f64>,
    /// Share of readings of known keys that miss the caches, 0 to 1 [default: 1]
    #[arg(long, value_name = "SHARE")]
    missed: Option<f64>,
    /// Keys per event [default: 12]
    #[arg(long, value_name = "KEYS")]
    keys_per_event: Option<u64>,
    /// Cores per node
    #[arg(long, value_name = "CORES", default_value_t = 8)]
    node_cores: u64,
    /// Journal bytes per decision
    #[arg(long, value_name = "BYTES", default_value_t = 210)]
    decision_bytes: u64,
    /// Lifetime of decisions
    #[arg(long, value_name = "SPAN", value_parser = crate::options::span, default_value = "7d")]
    journal_keep: Span,
    #[command(flatten)]
    json: JsonOption,
}

impl PlanArgs {
    fn demand(&self) -> ClusterDemand {
        let of = self.system.map_or_else(ClusterDemand::default, PublishedSystem::demand);
        ClusterDemand {
            keys_per_day: self.keys_per_day.unwrap_or(of.keys_per_day),
            updates_per_second: self.updates_per_second.unwrap_or(of.updates_per_second),
            keep: self.keep.unwrap_or(of.keep),
            replication: self.replication.unwrap_or(of.replication),
            bytes_per_key: self.bytes_per_key,
            server_bytes: self.server_gib.saturating_mul(1 << 30),
            disk_bytes: self.disk_gib.saturating_mul(1 << 30),
            summed: self.summed.unwrap_or(of.summed),
            missed: self.missed.unwrap_or(of.missed),
            keys_per_event: self.keys_per_event.unwrap_or(of.keys_per_event),
            node_cores: self.node_cores,
            decision_bytes: self.decision_bytes,
            journal_keep: self.journal_keep,
        }
    }
}

pub(crate) fn run(args: PlanArgs) -> Result<Exit, CommandError> {
    let demand = args.demand();
    let sizing = demand.sizing();
    let mut out = Output::new(args.json.json);
    if out.is_json() {
        out.json(&sizing)?;
    } else {
        write(&mut out, &demand, &sizing)?;
    }
    out.flush()?;
    Ok(Exit::Fine)
}

fn gib(bytes: u64) -> f64 {
    bytes as f64 / (1u64 << 30) as f64
}

fn write(out: &mut Output, demand: &ClusterDemand, sizing: &ClusterSizing) -> Result<(), CommandError> {
    let ClusterDemand { keys_per_day, updates_per_second, keep, replication, .. } = *demand;
    let ClusterSizing { keys, made_per_second, changed_per_second, read_per_second, .. } = *sizing;
    let events = sizing.events_per_second;
    out.line(format_args!(
        "keys at a time  {keys} = {keys_per_day} a day, kept {keep} and the day they come"
    ))?;
    out.line(format_args!(
        "keys a second   {made_per_second} made, {changed_per_second} changed, {read_per_second} read"
    ))?;
    out.line(format_args!(
        "events          {events:.0} a second = {updates_per_second} updates / {} keys of an event",
        demand.keys_per_event
    ))?;
    out.line(format_args!(
        "journal         {:.1} GiB = {events:.0} a second x {} bytes, kept {}",
        gib(sizing.journal_bytes),
        demand.decision_bytes,
        demand.journal_keep
    ))?;
    out.line(format_args!(
        "network         {:.1} MiB a second = ({changed_per_second} changes x {replication} copies + {read_per_second} reads) x 48 bytes (an estimate)",
        sizing.network_bytes_per_second as f64 / (1 << 20) as f64
    ))?;
    out.line(format_args!(""))?;
    out.line(format_args!("{:24}{:>18}{:>18}{:>18}", "", "module", "scripts", "disk (estimate)"))?;
    let figures: [(&str, FigureText); 10] = [
        ("bytes a key", |of| format!("{:.0}", of.key_bytes)),
        ("GiB of one copy", |of| format!("{:.1}", gib(of.bytes))),
        ("GiB of all copies", |of| format!("{:.1}", gib(of.bytes_of_all))),
        ("busy cores of masters", |of| format!("{:.1}", of.cores)),
        ("masters for the room", |of| of.masters_by_room.to_string()),
        ("masters for the time", |of| of.masters_by_time.to_string()),
        ("masters for the reads", |of| of.masters_by_reads.to_string()),
        ("masters", |of| of.masters.to_string()),
        ("servers", |of| of.servers.to_string()),
        ("nodes", |of| format!("{} ({:.1} cores)", of.nodes, of.node_cores)),
    ];
    for (name, figure) in figures {
        let [module, scripts, disk] =
            [0, 1, 2].map(|at| sizing.engines.get(at).map(figure).unwrap_or_default());
        out.line(format_args!("{name:24}{module:>18}{scripts:>18}{disk:>18}"))?;
    }
    for engine in &sizing.engines {
        out.line(format_args!(""))?;
        out.line(format_args!("{}, as it is reckoned", engine.engine))?;
        engine.arithmetic.iter().try_for_each(|line| out.line(format_args!("  {line}")))?;
    }
    Ok(())
}
