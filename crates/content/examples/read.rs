//! What reading mail costs: `cargo run --release -p tollhouse-content --example read -- FOLDER...`
//!
//! Reads every file beneath the folders as a message, several times, and prints the time of one reading; then
//! messages made to be costly, with the time of each and the most memory that the process had until then.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use content::message::{self, Envelope, EnvelopeColumns, MailColumns};
use content::network::Prefixes;
use event::{Schema, SchemaBuilder};

const ROUNDS: usize = 3;

struct Mail {
    schema: Schema,
    envelope: EnvelopeColumns,
    columns: MailColumns,
}

impl Mail {
    fn read(&self, raw: &[u8]) -> Duration {
        let start = Instant::now();
        let mut row = self.schema.empty_row();
        for (name, value) in message::event(raw, Envelope::from_headers(raw)).fields {
            row.set(self.schema.slot(&name).expect("the envelope's columns are registered"), value);
        }
        message::envelope_features(&self.envelope, Prefixes::default(), &mut row);
        message::features(raw, &self.envelope, &self.columns, &mut row);
        std::hint::black_box(row);
        start.elapsed()
    }
}

fn main() -> std::io::Result<()> {
    let mut builder = SchemaBuilder::default();
    let envelope = EnvelopeColumns::register(&mut builder).expect("no column is there twice");
    let columns = MailColumns::register(&mut builder).expect("no column is there twice");
    let mail = Mail { schema: builder.finish(), envelope, columns };

    let mut folders: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let mut messages = Vec::new();
    while let Some(path) = folders.pop() {
        if path.is_dir() {
            for entry in std::fs::read_dir(&path)? {
                folders.push(entry?.path());
            }
        } else {
            messages.push(std::fs::read(&path)?);
        }
    }
    for round in 0..ROUNDS {
        let mut times: Vec<Duration> = messages.iter().map(|raw| mail.read(raw)).collect();
        times.sort();
        let Some(worst) = times.last() else { break };
        let total: Duration = times.iter().sum();
        println!(
            "round {round}: {} messages, {:.1} µs each, median {:.1}, 99 of 100 within {:.1}, worst {:.1}",
            times.len(),
            micros(total) / times.len() as f64,
            micros(times[times.len() / 2]),
            micros(times[times.len() * 99 / 100]),
            micros(*worst),
        );
    }
    messages.clear();
    for (name, make) in COSTLY {
        let raw = make().into_bytes();
        let time = mail.read(&raw);
        let (size, memory) = (raw.len() as f64 / 1e6, peak_memory_kib() / 1024);
        println!("{name}: {size:.1} MB, {:.1} ms, {memory} MiB at most until now", micros(time) / 1e3);
    }
    Ok(())
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// The most memory that the process had, as Linux tells it; zero elsewhere.
fn peak_memory_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    line.and_then(|line| line.split_ascii_whitespace().nth(1)?.parse().ok()).unwrap_or(0)
}

const HEAD: &str = "From: a@b.example\nContent-Type: multipart/mixed; boundary=b\n\n";
const PART: &str = "--b\nContent-Type: application/x; name=a.bin\nContent-Transfer-Encoding: base64\n\n";
const HTML: &str = "From: a@b.example\nContent-Type: text/html\n\n";

type Make = fn() -> String;

/// Messages that cost much, from the one that needs least memory to the one that needs most.
const COSTLY: [(&str, Make); 5] = [
    ("10,000 parts", || format!("{HEAD}{}", format!("{PART}aGVsbG8=\n").repeat(10_000))),
    ("100,000 links", || {
        let link = |n| format!("<a href=http://h{n}.example.com/p{n}>http://h{n}.example.com/</a> ");
        format!("{HTML}{}", (0..100_000).map(link).collect::<String>())
    }),
    ("25 MB of text", || format!("From: a@b.example\n\n{}", noise(25_000_000))),
    ("25 MB of HTML", || format!("{HTML}{}", "<p style=color:#fff>hidden<b>x</b></p>".repeat(660_000))),
    ("25 MB attachment", || format!("{HEAD}{PART}{}\n--b--\n", noise(25_000_000))),
];

/// Lines of base64 that say nothing.
fn noise(bytes: usize) -> String {
    let digits = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut state = 1u64;
    let mut next = |at: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        if at % 77 == 76 { '\n' } else { char::from(digits[(state >> 58) as usize]) }
    };
    (0..bytes).map(&mut next).collect()
}
