//! Medians over the rounds, as a table for people.

use std::collections::HashMap;
use std::fmt::Write;

use crate::engine::Peer;
use crate::measure::Run;

/// A table's row for one peer: each figure is its own median.
struct Row {
    peer: Peer,
    version: String,
    rounds: usize,
    per_second: f64,
    spread: (f64, f64),
    per_cpu_second: f64,
    load_per_second: f64,
    p50_ms: f64,
    p99_ms: f64,
    memory: f64,
    disk: f64,
    restart: f64,
    others: f64,
}

impl Row {
    fn of(peer: Peer, runs: &[Run]) -> Option<Row> {
        let version = runs.first()?.version.clone();
        let sorted = |figure: fn(&Run) -> f64| {
            let mut figures: Vec<f64> = runs.iter().map(figure).collect();
            figures.sort_by(f64::total_cmp);
            figures
        };
        let median = |figure: fn(&Run) -> f64| sorted(figure)[runs.len() / 2];
        let speeds = sorted(|run| run.per_second);
        Some(Row {
            peer,
            version,
            rounds: runs.len(),
            per_second: median(|run| run.per_second),
            spread: (speeds[0], speeds[runs.len() - 1]),
            per_cpu_second: median(|run| run.per_cpu_second),
            load_per_second: median(|run| run.load_per_second),
            p50_ms: median(|run| run.p50_ms),
            p99_ms: median(|run| run.p99_ms),
            memory: median(memory),
            disk: median(|run| run.disk_bytes_per_key),
            restart: median(|run| run.restart_seconds),
            others: median(|run| run.other_cpu_seconds / run.seconds),
        })
    }
}

/// Redis is taken at its own word, which is kinder to it than the resident size; all others by their process.
fn memory(run: &Run) -> f64 {
    match run.peer {
        Peer::RedisCommands | Peer::RedisScript => {
            run.counted_bytes_per_key.unwrap_or(run.resident_bytes_per_key)
        }
        _ => run.resident_bytes_per_key,
    }
}

/// The table of one workload; the fastest comes first.
pub(crate) fn table(runs: &HashMap<Peer, Vec<Run>>) -> String {
    let mut rows: Vec<Row> = runs.iter().filter_map(|(peer, runs)| Row::of(*peer, runs)).collect();
    rows.sort_by(|left, right| right.per_second.total_cmp(&left.per_second));
    let ours = rows.iter().find(|row| row.peer == Peer::Tollhouse);
    let times = |ours: Option<f64>, theirs: f64| match ours {
        Some(ours) if theirs > 0.0 => format!("{:.2}", ours / theirs),
        _ => "-".to_owned(),
    };
    let mut cells = vec![
        [
            "engine",
            "observes/s",
            "lowest",
            "highest",
            "ours is",
            "per CPU-s",
            "ours is",
            "load/s",
            "p50 ms",
            "p99 ms",
            "RAM B/key",
            "disk B/key",
            "restart s",
            "others' CPU",
        ]
        .map(str::to_owned),
    ];
    for row in &rows {
        cells.push([
            row.peer.name().to_owned(),
            thousands(row.per_second),
            thousands(row.spread.0),
            thousands(row.spread.1),
            times(ours.map(|ours| ours.per_second), row.per_second),
            thousands(row.per_cpu_second),
            times(ours.map(|ours| ours.per_cpu_second), row.per_cpu_second),
            thousands(row.load_per_second),
            format!("{:.2}", row.p50_ms),
            format!("{:.2}", row.p99_ms),
            format!("{:.0}", row.memory),
            format!("{:.0}", row.disk),
            format!("{:.2}", row.restart),
            format!("{:.2}", row.others),
        ]);
    }
    let widths: Vec<usize> = (0..cells[0].len())
        .map(|column| cells.iter().map(|row| row[column].len()).max().unwrap_or(0))
        .collect();
    let mut text = String::new();
    for row in &cells {
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            // Writing to a string cannot fail.
            let _ = match column {
                0 => write!(text, "{cell:<width$}"),
                _ => write!(text, "  {cell:>width$}"),
            };
        }
        text.push('\n');
    }
    let versions: Vec<String> = rows
        .iter()
        .map(|row| format!("{} {}, {} of them", row.peer.name(), row.version, row.rounds))
        .collect();
    let _ = writeln!(text, "runs: {}", versions.join("; "));
    text
}

/// A whole number with its thousands apart.
fn thousands(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn thousands_are_apart() {
        for (number, text) in [(0.4, "0"), (999.0, "999"), (1000.0, "1 000"), (1_234_567.6, "1 234 568")] {
            assert_eq!(super::thousands(number), text);
        }
    }
}
