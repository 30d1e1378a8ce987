//! Statistics that were exported, into a cluster.

use std::io::{self, BufRead, BufReader};
use std::path::Path;

use ::cluster::ClusterTransferReport;
use engine::{Directory, StatisticsExchangeError};
use indicatif::HumanCount;
use plan::{ClusterPlan, Plan};
use serde::Serialize;

use super::explained;
use crate::cluster_home;
use crate::console::{Output, Progress, say};
use crate::exit::{CommandError, Exit};

/// The line of `--json` for a cluster.
#[derive(Serialize)]
struct ClusterImportLine {
    same: u64,
    created: u64,
    changed: u64,
    lost_batches: u64,
}

pub(super) fn run(
    directory: &Directory,
    plan: Plan,
    of: &ClusterPlan,
    file: &Path,
    writes: bool,
    out: &mut Output,
) -> Result<Exit, CommandError> {
    let mut input: Box<dyn BufRead> = if file == Path::new("-") {
        Box::new(BufReader::new(io::stdin()))
    } else {
        engine::open_export(file)
            .map_err(|error| CommandError::new(format_args!("{}: {error}", file.display())))?
    };
    let progress = Progress::new("keys", None);
    let mut told = 0;
    let mut tell = |cells: u64| {
        progress.add(cells - told);
        told = cells;
    };
    let done = cluster_home::transfer(directory, plan, of, &mut input, writes, &mut tell);
    drop(progress);
    let done = done.map_err(|error| match error {
        StatisticsExchangeError::Elsewhere(_) => explained(error, file, directory)
            .help("what came before is in the cluster; the same import goes on with the rest"),
        error => explained(error, file, directory),
    })?;
    let ClusterTransferReport { same, created, changed, lost_batches } = done;
    if out.is_json() {
        out.json(&ClusterImportLine { same, created, changed, lost_batches })?;
    }
    out.flush()?;
    let [were, verb] =
        if writes { ["have been made so", "created"] } else { ["are otherwise", "are not there"] };
    say(format_args!(
        "{} keys are in the cluster as in the export; {} {verb}, {} {were}",
        HumanCount(same),
        HumanCount(created),
        HumanCount(changed)
    ));
    if lost_batches > 0 {
        crate::console::error(format_args!("a failover has lost {lost_batches} batches: import once more"));
    }
    let is_whole = lost_batches == 0 && (writes || created + changed == 0);
    Ok(if is_whole { Exit::Fine } else { Exit::Found })
}
