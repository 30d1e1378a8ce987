//! One run of one engine, in a process of its own: memory and processor time are the engine's and not what the one
//! before it left.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::check::ExpectedAnswers;
use crate::engine::{Engine, EngineOptions, Error, Peer};
use crate::process::{cpu_seconds, disk_bytes, machine_cpu_seconds, resident_bytes};
use crate::workload::{Batch, Stream, Workload};

/// Specification of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Spec {
    pub(crate) peer: Peer,
    pub(crate) workload: Workload,
    /// Length of the timed phase.
    pub(crate) seconds: f64,
    /// The memory that the engine may use.
    pub(crate) memory_bytes: u64,
    /// The folder of the engine's directory; the system's place for temporary files if there is none.
    pub(crate) parent: Option<PathBuf>,
}

/// Figures of a run whose answers were right.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Run {
    pub(crate) peer: Peer,
    pub(crate) version: String,
    pub(crate) workload: Workload,
    /// Observes a second of the loading phase.
    pub(crate) load_per_second: f64,
    /// The observes of the timed phase, as in the fields below.
    pub(crate) observes: u64,
    pub(crate) seconds: f64,
    pub(crate) per_second: f64,
    /// Processor time of this process, without making the stream.
    pub(crate) client_cpu_seconds: f64,
    /// Processor time of the server.
    pub(crate) server_cpu_seconds: f64,
    pub(crate) per_cpu_second: f64,
    /// Processor time of everything else on the machine: where it is much, only figures per CPU second say something.
    pub(crate) other_cpu_seconds: f64,
    /// Processor time of making the stream, which is in none of the others.
    pub(crate) stream_cpu_seconds: f64,
    /// Time of a batch.
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    /// After the loading phase: growth of the resident size of the engine's process.
    pub(crate) resident_bytes_per_key: f64,
    /// Bytes per key as the engine counts them; absent if it does not.
    pub(crate) counted_bytes_per_key: Option<f64>,
    pub(crate) disk_bytes_per_key: f64,
    /// After the timed phase.
    pub(crate) end_resident_bytes_per_key: f64,
    pub(crate) end_disk_bytes_per_key: f64,
    /// From opening what was closed to the first answer, files still in the system's cache.
    pub(crate) restart_seconds: f64,
}

/// Loads, times, checks, closes, opens again and checks again.
pub(crate) fn run(spec: &Spec) -> Result<Run, Error> {
    let Spec { peer, workload, .. } = *spec;
    let version = peer.version()?;
    let parent = spec.parent.clone().unwrap_or_else(std::env::temp_dir);
    let directory = tempfile::Builder::new().prefix("tollhouse-bench.").tempdir_in(parent)?;
    let place = directory.path().canonicalize()?;
    let opening =
        EngineOptions { directory: &place, statistic: workload.statistic, memory_bytes: spec.memory_bytes };
    let own = std::process::id();

    let (mut stream, mut batch) = (Stream::new(workload), Batch::default());
    let mut took: Vec<Duration> = Vec::with_capacity(1 << 20);
    // Makes what a batch needs before memory is looked at; the stream begins anew then.
    stream.fill(&mut batch);
    stream = Stream::new(workload);
    let before_opening = resident_bytes(own)?;
    let mut engine = peer.open(opening)?;
    let (process, base) = match engine.server() {
        Some(server) => (server, resident_bytes(server)?),
        None => (own, before_opening),
    };
    let base_counted = engine.memory_bytes()?;

    let (mut batches, mut counted) = (0, 0u64);
    let mut loading = Duration::ZERO;
    for _ in 0..workload.load_batches() {
        stream.fill(&mut batch);
        let started = Instant::now();
        counted += engine.observe(&batch)?;
        loading += started.elapsed();
        batches += 1;
    }
    engine.settle()?;
    let per_key = |bytes: u64| bytes as f64 / workload.keys as f64;
    let resident = resident_bytes(process)?.saturating_sub(base);
    let counts_bytes = engine.memory_bytes()?.zip(base_counted).map(|(now, then)| now.saturating_sub(then));
    let disk = disk_bytes(&place)?;

    let (mut wall, mut making) = (Duration::ZERO, Duration::ZERO);
    let used = |engine: &dyn Engine| -> Result<[f64; 3], Error> {
        Ok([cpu_seconds(own)?, engine.server().map_or(Ok(0.0), cpu_seconds)?, machine_cpu_seconds()?])
    };
    let before = used(engine.as_ref())?;
    while wall.as_secs_f64() < spec.seconds {
        let start = thread_cpu();
        stream.fill(&mut batch);
        making += thread_cpu().saturating_sub(start);
        let started = Instant::now();
        counted += engine.observe(&batch)?;
        let elapsed = started.elapsed();
        wall += elapsed;
        took.push(elapsed);
        batches += 1;
    }
    let after = used(engine.as_ref())?;
    engine.settle()?;
    let end_resident = resident_bytes(process)?.saturating_sub(base);
    let end_disk = disk_bytes(&place)?;

    let expected = ExpectedAnswers::after(workload, batches);
    if counted != expected.counted {
        return Err(format!("the readings counted {counted} events, not {}", expected.counted).into());
    }
    compare(engine.as_mut(), &expected)?;
    engine.close()?;
    let started = Instant::now();
    let mut engine = peer.open(opening)?;
    let first = expected.sample.first().map_or(0, |(key, _)| *key);
    engine.read(&[first], expected.time)?;
    let restart = started.elapsed();
    compare(engine.as_mut(), &expected).map_err(|error| format!("after a restart: {error}"))?;
    engine.close()?;

    let observes = took.len() as u64 * workload.batch() as u64;
    let [all_client_cpu, server_cpu, machine_cpu] = std::array::from_fn(|at| after[at] - before[at]);
    let client_cpu = (all_client_cpu - making.as_secs_f64()).max(0.0);
    took.sort_unstable();
    let quantile = |share: f64| {
        let rank = (took.len() as f64 * share) as usize;
        took.get(rank.min(took.len().saturating_sub(1))).map_or(0.0, |took| took.as_secs_f64() * 1e3)
    };
    Ok(Run {
        peer,
        version,
        workload,
        load_per_second: (workload.load_batches() * workload.batch() as u64) as f64 / loading.as_secs_f64(),
        observes,
        seconds: wall.as_secs_f64(),
        per_second: observes as f64 / wall.as_secs_f64(),
        client_cpu_seconds: client_cpu,
        server_cpu_seconds: server_cpu,
        // Processor time has a resolution of a tick.
        per_cpu_second: observes as f64 / (client_cpu + server_cpu).max(0.01),
        stream_cpu_seconds: making.as_secs_f64(),
        other_cpu_seconds: (machine_cpu - all_client_cpu - server_cpu).max(0.0),
        p50_ms: quantile(0.50),
        p99_ms: quantile(0.99),
        resident_bytes_per_key: per_key(resident),
        counted_bytes_per_key: counts_bytes.map(per_key),
        disk_bytes_per_key: per_key(disk),
        end_resident_bytes_per_key: per_key(end_resident),
        end_disk_bytes_per_key: per_key(end_disk),
        restart_seconds: restart.as_secs_f64(),
    })
}

fn compare(engine: &mut dyn Engine, expected: &ExpectedAnswers) -> Result<(), Error> {
    let keys: Vec<u64> = expected.sample.iter().map(|(key, _)| *key).collect();
    let readings = engine.read(&keys, expected.time)?;
    if readings.len() != keys.len() {
        return Err(format!("{} keys were asked for and {} answered", keys.len(), readings.len()).into());
    }
    for ((key, wanted), read) in expected.sample.iter().zip(readings) {
        if *wanted != read {
            return Err(format!("key {key:x} reads {read:?}, not {wanted:?}").into());
        }
    }
    Ok(())
}

/// Processor time of this thread.
fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.cast_unsigned(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;
    use crate::workload::{Spread, Statistic};

    /// A run checks its answers; here event time goes on for so long that buckets are folded.
    #[test]
    fn every_engine_answers_rightly_before_and_after_a_restart() {
        for peer in Peer::value_variants() {
            if let Err(why) = peer.version() {
                println!("skipped: {}: {why}", peer.name());
                continue;
            }
            for (statistic, spread) in [
                (Statistic::Fixed, Spread::Zipf),
                (Statistic::Windowed, Spread::Uniform),
                (Statistic::Windowed, Spread::Zipf),
            ] {
                let workload = Workload { statistic, spread, keys: 300, events: 16, event_keys: 7, seed: 3 };
                let spec = Spec { peer: *peer, workload, seconds: 0.5, memory_bytes: 64 << 20, parent: None };
                let run = run(&spec).unwrap_or_else(|error| panic!("{}: {error}", peer.name()));
                assert!(run.observes > 0 && run.per_second > 0.0, "{run:?}");
            }
        }
    }
}
