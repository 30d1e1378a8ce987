//! Lines a second by 1, 100 and 1,000 patterns, beside `grep -E -f` with the same ones.
//!
//! `cargo bench -p tollhouse-logs --bench lines`

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Instant;

use event::Time;
use jiff::tz::TimeZone;
use logs::date::DateContext;
use logs::log_reader::{LineReading, LogLineReader, LogLineState, LogPatterns};

/// The part of a pattern that all have: words, then who it was.
fn pattern(number: usize) -> String {
    format!(
        "service{number}\\[[0-9]+\\]: (refused|denied) user [^ ]+ from ([0-9]{{1,3}}\\.){{3}}[0-9]{{1,3}}"
    )
}

/// A pattern with the address as a group.
fn named(number: usize) -> String {
    format!(
        "service{number}\\[[0-9]+\\]: (?:refused|denied) user (?P<user>[^ ]+) from (?P<ip4>(?:[0-9]{{1,3}}\\.){{3}}[0-9]{{1,3}})"
    )
}

/// Lines of which every tenth matches one of the patterns.
fn lines(count: usize, patterns: usize) -> Vec<String> {
    let line = |index: usize| {
        let (minute, second) = (index / 60 % 60, index % 60);
        let service = index / 10 % patterns;
        let text = match index % 10 {
            0 => format!("service{service}[{index}]: denied user u{index} from 192.0.2.{}", index % 250),
            _ => format!(
                "service{service}[{index}]: session {index} opened for user u{index} by the usual way"
            ),
        };
        format!("Aug 14 09:{minute:02}:{second:02} host {text}")
    };
    (0..count).map(line).collect()
}

/// Lines a second of `grep -E`, which counts matching lines of a file.
fn grep(lines: &str, patterns: usize) -> Option<f64> {
    let file = std::env::temp_dir().join(format!("tollhouse-patterns-{}", std::process::id()));
    let list: String = (0..patterns).map(|number| pattern(number) + "\n").collect();
    std::fs::write(&file, list).ok()?;
    let started = Instant::now();
    let mut child = Command::new("grep")
        .args(["-c", "-E", "-f"])
        .arg(&file)
        .env("LC_ALL", "C.UTF-8")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .ok()?;
    child.stdin.take()?.write_all(lines.as_bytes()).ok()?;
    child.wait().ok()?;
    let seconds = started.elapsed().as_secs_f64();
    std::fs::remove_file(&file).ok()?;
    Some(lines.lines().count() as f64 / seconds)
}

fn main() {
    // Under test, only whether it runs.
    let is_bench = std::env::args().any(|arg| arg == "--bench");
    let (count, sizes): (usize, &[usize]) =
        if is_bench { (200_000, &[1, 100, 1_000]) } else { (100, &[1, 3]) };
    let context =
        DateContext { now: "2005-08-14T10:00:00Z".parse::<Time>().expect("time"), zone: TimeZone::UTC };
    println!("{:>8} {:>10} {:>14} {:>14}", "patterns", "events", "lines/s", "grep -E");
    for &size in sizes {
        let patterns = LogPatterns { patterns: (0..size).map(named).collect(), ..LogPatterns::default() };
        let reader = LogLineReader::new(&patterns).expect("patterns");
        let lines = lines(count, size);
        let mut state = LogLineState::default();
        let started = Instant::now();
        let is_event =
            |line: &&String| matches!(reader.read(line, None, &context, &mut state), LineReading::Event(_));
        let events = lines.iter().filter(is_event).count();
        let rate = count as f64 / started.elapsed().as_secs_f64();
        assert_eq!(events, count.div_ceil(10));
        let beside =
            grep(&(lines.join("\n") + "\n"), size).map_or("none".to_owned(), |rate| format!("{rate:.0}"));
        println!("{size:>8} {events:>10} {rate:>14.0} {beside:>14}");
    }
}
