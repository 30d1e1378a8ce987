//! Cost of reading mail: `cargo run --release -p tollhouse-content --example read -- FOLDER...`
//!
//! Reads every file beneath the folders as a message, several times, and prints the time of one reading. `tollhouse bench
//! costly` measures messages that were made to be costly.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use content::budget::{Budget, Cancellation};
use content::mail::message::{self, Envelope, EnvelopeColumns, MailColumns};
use content::network::PrefixLengths;
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
        message::envelope_features(&self.envelope, PrefixLengths::default(), &mut row);
        let budget = Budget::of_message(raw.len(), &Cancellation::default());
        message::features(raw, &budget, &self.envelope, &self.columns, &mut row);
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
    Ok(())
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
