//! `tollhouse bench costly`: what messages cost that were made to cost much, from bytes to verdict.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use content::budget::Cancellation;
use content::mail::message::{self, Envelope};
use content::worst_case::{FAMILIES, WorstCaseFamily};
use event::Value;
use plan::Pipeline;
use serde::Serialize;

use super::{Stopwatch, in_memory};
use crate::clock;
use crate::console::{DIM, Output, Progress};
use crate::exit::{CommandError, Exit};
use crate::input::messages::{EnvelopeOption, InputMessageIter};
use crate::message_reader::{MessageOptions, PreparedMessage, ThreadsOption, each_message, message_pipeline};
use crate::options::{JsonOption, LocalEngine};

/// Measure costly messages, from bytes to verdict, in memory
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse bench costly
  taskset -c 0 tollhouse bench costly --json
  tollhouse bench costly --ham ~/Maildir/cur --spam ~/Maildir/.Junk/cur

Each message is read, cut into keys and tokens, counted, looked up, decided and explained, once and
alone: large ones first, then for each reader the worst known ones of a megabyte, the slowest of
each family. Mail of --ham and --spam is learned first, so that the classifier has something to look
up. Memory is the peak of the process, message and engine included.")]
pub(super) struct CostlyBenchArgs {
    /// Size of the messages, in percent
    #[arg(long, default_value_t = 100, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(1..=100))]
    percent: u32,
    /// Wanted mail to learn first
    #[arg(long, value_name = "PATH")]
    ham: Vec<PathBuf>,
    /// Spam to learn first
    #[arg(long, value_name = "PATH")]
    spam: Vec<PathBuf>,
    #[command(flatten)]
    json: JsonOption,
}

/// A result. `docs/reference/cli.md` documents the fields.
#[derive(Serialize)]
struct CostlyMeasurement {
    bench: &'static str,
    message: &'static str,
    /// The text that the message repeats, where it is of a family.
    #[serde(skip_serializing_if = "Option::is_none")]
    unit: Option<String>,
    /// Messages that were learned before.
    learned: u64,
    bytes: usize,
    read_cpu_ms: f64,
    key_cpu_ms: f64,
    decide_cpu_ms: f64,
    /// Missing where the system does not tell it.
    #[serde(skip_serializing_if = "Option::is_none")]
    peak_mib: Option<f64>,
    action: String,
    /// True if reading ended before the message did.
    is_cut_short: bool,
}

/// Bytes of a message of a family.
const FAMILY_BYTES: usize = 1_000_000;

/// Text of a message; of so many pieces, bytes and the like where the largest has 100 percent.
type MessageMaker = fn(u32) -> String;

const HEAD: &str =
    "From: a@b.example\nTo: c@d.example\nSubject: costly\nDate: Sun, 17 May 2026 10:00:00 +0000\n";

fn html(body: &str) -> String {
    format!("{HEAD}Content-Type: text/html\n\n{body}")
}

fn mixed(parts: &str) -> String {
    format!("{HEAD}Content-Type: multipart/mixed; boundary=b\n\n{parts}")
}

fn attached(content: &str) -> String {
    format!("--b\nContent-Type: application/x; name=a.bin\nContent-Transfer-Encoding: base64\n\n{content}\n")
}

/// Names of the messages, and how they are made.
const COSTLY: [(&str, MessageMaker); 8] = [
    ("10,000 parts", |percent| mixed(&attached("aGVsbG8=").repeat(100 * percent as usize))),
    ("10,000 parts within each other", |percent| {
        let open = |n| format!("Content-Type: multipart/mixed; boundary=b{n}\n\n--b{n}\n");
        format!("{HEAD}{}", (0..100 * percent).map(open).collect::<String>())
    }),
    ("100,000 header fields", |percent| {
        format!(
            "{}\nHello\n",
            (0..1000 * percent).fold(HEAD.to_owned(), |text, n| text + &format!("X-F{n}: {n}\n"))
        )
    }),
    ("100,000 links", |percent| {
        let link = |n| format!("<a href=http://h{n}.example.com/p{n}>http://h{n}.example.com/</a> ");
        html(&(0..1000 * percent).map(link).collect::<String>())
    }),
    ("25 MB of text", |percent| format!("{HEAD}\n{}", noise(250_000 * percent as usize, b' '))),
    ("25 MB of HTML", |percent| {
        html(&"<p style=color:#fff>hidden<b>x</b></p>".repeat(6_600 * percent as usize))
    }),
    ("25 MB attached", |percent| mixed(&(attached(&noise(250_000 * percent as usize, b'\n')) + "--b--\n"))),
    ("25 MB attached as 1,000 files", |percent| {
        mixed(&attached(&noise(250 * percent as usize, b'\n')).repeat(1000))
    }),
];

/// Digits of base64 that say nothing, with something between each 76 of them.
fn noise(bytes: usize, between: u8) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut state = 1u64;
    let mut next = |at: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(if at % 77 == 76 { between } else { DIGITS[(state >> 58) as usize] })
    };
    (0..bytes).map(&mut next).collect()
}

/// KiB that the process had at most since [`forget_peak`], as Linux tells it. What was given back to the allocator may be
/// among it: so it is a bound.
fn peak() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// Makes the most memory until now what there is (proc(5), `clear_refs`).
fn forget_peak() -> bool {
    std::fs::write("/proc/self/clear_refs", "5").is_ok()
}

/// Learns mail as of a class; answers how many messages that were.
fn learn(
    local: &LocalEngine,
    pipeline: &Arc<Pipeline>,
    paths: &[PathBuf],
    class: &str,
) -> Result<u64, CommandError> {
    if paths.is_empty() {
        return Ok(0);
    }
    let options = MessageOptions {
        message_time: false,
        envelope: EnvelopeOption::Headers,
        pipeline: None,
        threads: ThreadsOption::default(),
    };
    let mut learned = 0;
    let take = |ready: PreparedMessage<()>| {
        pollster::block_on(local.engine().learn(ready.prepared, &ready.name, class))?;
        learned += 1;
        Ok(())
    };
    each_message(
        local,
        pipeline,
        InputMessageIter::new(paths.to_vec()),
        &options,
        &Progress::hidden(),
        |_| (),
        take,
    )?;
    Ok(learned)
}

/// Judges a message, once and alone.
fn measure(
    local: &LocalEngine,
    pipeline: &Arc<Pipeline>,
    raw: Vec<u8>,
) -> Result<CostlyMeasurement, CommandError> {
    let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
    let raw: Arc<[u8]> = raw.into();
    let bytes = raw.len();
    let is_fresh = forget_peak();
    let watch = Stopwatch::start();
    let event = message::event(Arc::clone(&raw), Envelope::from_headers(&raw));
    let read = local.engine().read(pipeline, event, clock::now(), &Cancellation::default());
    let read_cpu = watch.cpu();
    let cut_short = pipeline.schema.slot("mail.cut_short").and_then(|slot| read.facts().get(slot));
    let is_cut_short = cut_short == Some(&Value::Bool(true));
    let prepared = local.engine().key(read);
    let key_cpu = watch.cpu();
    let decision = pollster::block_on(local.engine().decide(vec![prepared])).remove(0);
    let decide_cpu = watch.cpu();
    let peak = peak().filter(|_| is_fresh);
    Ok(CostlyMeasurement {
        bench: "costly",
        message: "",
        unit: None,
        learned: 0,
        bytes,
        read_cpu_ms: milliseconds(read_cpu),
        key_cpu_ms: milliseconds(key_cpu.saturating_sub(read_cpu)),
        decide_cpu_ms: milliseconds(decide_cpu.saturating_sub(key_cpu)),
        peak_mib: peak.map(|kib| kib as f64 / 1024.0),
        action: decision.verdict.action.to_string(),
        is_cut_short,
    })
}

/// Judges the messages of a family; answers what the one cost that was read slowest.
fn worst(
    local: &LocalEngine,
    pipeline: &Arc<Pipeline>,
    family: &WorstCaseFamily,
    bytes: usize,
) -> Result<CostlyMeasurement, CommandError> {
    let mut worst: Option<CostlyMeasurement> = None;
    for unit in family.units {
        let measured = measure(local, pipeline, family.message(unit, bytes))?;
        if worst.as_ref().is_none_or(|worst| worst.read_cpu_ms < measured.read_cpu_ms) {
            let unit = unit.escape_ascii().to_string().chars().take(60).collect();
            worst = Some(CostlyMeasurement { message: family.name, unit: Some(unit), ..measured });
        }
    }
    worst.ok_or_else(|| CommandError::new("a family has no messages"))
}

impl CostlyMeasurement {
    fn tell(&self, out: &mut Output) -> Result<(), CommandError> {
        if out.is_json() {
            out.json(self)?;
            return Ok(());
        }
        let CostlyMeasurement { message, read_cpu_ms, key_cpu_ms, decide_cpu_ms, .. } = self;
        let cut = if self.is_cut_short { " (cut short)" } else { "" };
        out.line(format_args!(
            "{message:<32} {:>5.1} MB {DIM}read{DIM:#} {read_cpu_ms:>7.1} ms {DIM}cut{DIM:#} {key_cpu_ms:>6.1} ms {DIM}decided{DIM:#} \
             {decide_cpu_ms:>6.1} ms {DIM}memory{DIM:#} {:>6.1} MiB{cut}",
            self.bytes as f64 / 1e6,
            self.peak_mib.unwrap_or_default(),
        ))?;
        Ok(())
    }
}

pub(super) fn run(args: &CostlyBenchArgs) -> Result<Exit, CommandError> {
    let mut out = Output::new(args.json.json);
    let local = in_memory("mail")?;
    let pipeline = message_pipeline(&local, None)?;
    let learned = learn(&local, &pipeline, &args.ham, "ham")? + learn(&local, &pipeline, &args.spam, "spam")?;
    for (name, make) in COSTLY {
        let measured = measure(&local, &pipeline, make(args.percent).into_bytes())?;
        CostlyMeasurement { message: name, learned, ..measured }.tell(&mut out)?;
    }
    for family in FAMILIES {
        let measured = worst(&local, &pipeline, family, FAMILY_BYTES / 100 * args.percent as usize)?;
        CostlyMeasurement { learned, ..measured }.tell(&mut out)?;
    }
    out.flush()?;
    Ok(Exit::Fine)
}
