//! `tollhouse demo`: the whole of it in a minute, without network or arguments.
//!
//! The demo shows what a service would see: the samples are sent to a server over HTTP in the order of their times,
//! which drive its clock and end now. Of the mail whose source says what it is, the server is told that of the earlier half,
//! once it is decided, as by its readers; the later half shows what came of it, beside what another server says of it that
//! was told nothing.

mod learning;
mod samples;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::env;
use std::fs;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anstyle::Style;
use engine::{Directory, Engine};
use event::{Span, Time};
use judge::Action;
use plan::{Config, Overrides, Plan, preset};
use server::api::{BatchLine, DecisionJson};
use server::{Clock, Server};
use tokio::sync::Notify;

use crate::client::{ApiClient, BatchDurability, LineFormat};
use crate::clock;
use crate::console::{self, BOLD, DIM, Output, Progress, TableCell, TextTable, colour, say};
use crate::corpora;
use crate::exit::{CommandError, Exit};
use crate::input::messages::EnvelopeOption;
use crate::interrupt::Interrupt;
use crate::rendering;
use crate::trust::TrustOptions;
use learning::LearningReport;
use samples::{Sample, samples};

/// Try Tollhouse on bundled mail and web events, without network
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse demo           Goes on serving afterwards, so that you can try it
  tollhouse demo --once    Ends when everything is shown

Runs in a temporary directory, removed at the end, on a free port of this machine.")]
pub(crate) struct Args {
    /// End after the demo instead of serving on
    #[arg(long)]
    once: bool,
}

/// Verdicts that are explained.
const EXPLAINED: usize = 5;
/// The number of samples of each pipeline, where there are that many.
const OF_EACH: usize = 2;
/// Lines of the access log that are sent at once.
const LINES: usize = 64;
/// The number of tries to remove a directory to which something is added meanwhile, and the time until the next one.
const REMOVALS_MAX: usize = 100;
const REMOVAL_PAUSE: Duration = Duration::from_millis(10);

pub(crate) fn run(args: Args) -> Result<Exit, CommandError> {
    let parent = tempfile::Builder::new().prefix("tollhouse-demo-").tempdir().map_err(CommandError::new)?;
    // The server waits for who is in the middle of a request; the user does not.
    let temporary = parent.path().to_owned();
    let interrupt = Interrupt::watch_or(move || remove(&temporary));
    let data = parent.path().join("data");
    let samples = samples(clock::now());
    let split = learning::split(&samples);
    let never = TrainingLimits { until: None, only_mail: true };
    let Some(untrained) = sent(&parent.path().join("untrained"), &samples, never, &interrupt)? else {
        remove(parent.path());
        return Ok(Exit::Interrupted);
    };
    let taught = TrainingLimits { until: Some(split), only_mail: false };
    let served = serve(&data, &samples, taught, &untrained, &interrupt, args.once);
    remove(parent.path());
    match served {
        // Nobody waits for what is thrown away, and it may be gone already, which is no failure to write.
        Err(_) if interrupt.raised() => Ok(Exit::Interrupted),
        served => served,
    }
}

/// The examples that a server gets, and its samples.
#[derive(Clone, Copy)]
struct TrainingLimits {
    /// The time before which it is told what mail is.
    until: Option<Time>,
    /// True if it is sent no access log.
    only_mail: bool,
}

/// Returns what a server of its own says of the samples, which then ends; `None` if the user stopped it.
fn sent(
    data: &Path,
    samples: &[(Time, Sample)],
    examples: TrainingLimits,
    interrupt: &Interrupt,
) -> Result<Option<Vec<DemoDecision>>, CommandError> {
    let (node, clock) = Node::start(data, samples)?;
    let client = ApiClient::new(&format!("http://{}", node.address), None, &TrustOptions::default())?;
    let judged = stream(&client, &clock, samples, examples, interrupt);
    node.stop()?;
    judged
}

/// Runs the server, shows what it says, and leaves it to the user.
fn serve(
    data: &Path,
    samples: &[(Time, Sample)],
    examples: TrainingLimits,
    untrained: &[DemoDecision],
    interrupt: &Interrupt,
    once: bool,
) -> Result<Exit, CommandError> {
    let (node, clock) = Node::start(data, samples)?;
    let client = ApiClient::new(&format!("http://{}", node.address), None, &TrustOptions::default())?;
    say(format_args!(
        "{BOLD}Tollhouse{BOLD:#} runs on {} and is sent real mail and real requests, as if they came now.",
        client.base()
    ));
    let shown = stream(&client, &clock, samples, examples, interrupt).and_then(|judged| {
        let Some(judged) = judged else { return Ok(Exit::Interrupted) };
        clock.set(clock::now());
        show(&client, &judged, untrained, examples)?;
        if !once && !interrupt.raised() {
            try_it(&client, data, &judged)?;
            while !interrupt.raised() {
                thread::park_timeout(Duration::from_millis(100));
            }
        }
        Ok(Exit::Fine)
    });
    node.stop()?;
    shown
}

/// Removes a directory in which the engine may be writing its last files, and which may be gone.
fn remove(directory: &Path) {
    for _ in 0..REMOVALS_MAX {
        match fs::remove_dir_all(directory) {
            Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => thread::sleep(REMOVAL_PAUSE),
            Err(error) if error.kind() != ErrorKind::NotFound => return console::error(error),
            _ => return,
        }
    }
    console::error(format_args!("{} stays behind", directory.display()));
}

fn open(data: &Path) -> Result<Engine, CommandError> {
    let presets: Vec<_> = ["mail", "web"].into_iter().filter_map(preset::find).collect();
    let directory = Directory::create(data, &presets)?;
    // Nobody else waits for it, and a machine that does much else is no reason to show nothing.
    let flags = [("server.listen", "127.0.0.1:0"), ("server.timeout", "2m")];
    let flags = flags.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    let config = Config::load(&directory.config_path(), &Overrides { flags, ..Overrides::default() });
    Engine::open(&directory, Plan::compile(&config)?).map_err(CommandError::new)
}

/// The server, on threads of its own.
struct Node {
    address: SocketAddr,
    stop: Arc<Notify>,
    thread: thread::JoinHandle<Result<(), CommandError>>,
}

impl Node {
    /// Starts a server over a new data directory, with a clock that stands where the samples begin.
    fn start(data: &Path, samples: &[(Time, Sample)]) -> Result<(Node, Arc<SampleClock>), CommandError> {
        let engine = Arc::new(open(data)?);
        let clock = SampleClock::new();
        // The first housekeeping must not be ahead of the samples, or it would take them for long out of date.
        clock.set(samples.first().map_or(Time::EPOCH, |(time, _)| *time));
        let driven = Arc::clone(&clock);
        let server = Server::bind(engine, Clock::driven(move || driven.now()))?;
        let address = server.local_addr();
        let stop = Arc::new(Notify::new());
        let runtime =
            tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(CommandError::new)?;
        let stopped = Arc::clone(&stop);
        let serve = move || Ok(runtime.block_on(server.serve(async move { stopped.notified().await }))?);
        let thread =
            thread::Builder::new().name("server".to_owned()).spawn(serve).map_err(CommandError::new)?;
        Ok((Node { address, stop, thread }, clock))
    }

    fn stop(self) -> Result<(), CommandError> {
        self.stop.notify_one();
        self.thread.join().unwrap_or_else(|_| Err(CommandError::new("the server has failed")))
    }
}

/// A decision and what the sample's source says of it.
struct DemoDecision {
    decision: DecisionJson,
    /// The time at which the sample came.
    time: Time,
    label: Option<&'static str>,
}

fn show(
    client: &ApiClient,
    judged: &[DemoDecision],
    untrained: &[DemoDecision],
    examples: TrainingLimits,
) -> Result<(), CommandError> {
    let mut out = Output::new(false);
    out.line(format_args!("\n{BOLD}What was decided{BOLD:#}"))?;
    out.line(by_action(judged))?;
    if let Some(split) = examples.until {
        LearningReport::of(judged, untrained, split).show(client, &mut out)?;
    }
    out.line(format_args!("\n{BOLD}The clearest verdicts{BOLD:#}\n"))?;
    for judged in clearest(judged) {
        rendering::verdict(&mut out, &client.explain(&judged.decision.id)?)?;
    }
    out.flush()
}

/// The clock of the demo's server: at each sample it stands at that sample's time, and goes on from there.
struct SampleClock {
    started: Instant,
    offset: AtomicI64,
}

impl SampleClock {
    fn new() -> Arc<SampleClock> {
        Arc::new(SampleClock { started: Instant::now(), offset: AtomicI64::new(0) })
    }

    fn elapsed(&self) -> i64 {
        i64::try_from(self.started.elapsed().as_micros()).unwrap_or(i64::MAX)
    }

    fn set(&self, time: Time) {
        self.offset.store(time.0.saturating_sub(self.elapsed()), Ordering::Relaxed);
    }

    fn now(&self) -> Time {
        Time(self.offset.load(Ordering::Relaxed).saturating_add(self.elapsed()))
    }
}

/// Sends the samples, each when it is its time, and reports mail as a user would whose source says what it is, up to when
/// the examples end; `None` if the user stopped it.
fn stream(
    client: &ApiClient,
    clock: &SampleClock,
    samples: &[(Time, Sample)],
    examples: TrainingLimits,
    interrupt: &Interrupt,
) -> Result<Option<Vec<DemoDecision>>, CommandError> {
    let progress = Progress::new("events", Some(samples.len() as u64));
    let mut judged = Vec::with_capacity(samples.len());
    let together = |(before, a): &(Time, Sample), (after, b): &(Time, Sample)| {
        matches!((a, b), (Sample::Web(_), Sample::Web(_))) && *after - *before < Span::minutes(1)
    };
    for chunk in samples.chunk_by(together).flat_map(|run| run.chunks(LINES)) {
        let Some((time, last)) = chunk.last() else { continue };
        clock.set(*time);
        match last {
            Sample::Mail(message) => {
                let decision =
                    client.decide_message(Some("mail"), message, Some(*time), EnvelopeOption::Headers)?;
                let label = message.stored.origin().and_then(corpora::label);
                if let Some(label) = label.filter(|_| examples.until.is_some_and(|until| *time < until)) {
                    client.feedback(&decision.id, label)?;
                }
                judged.push(DemoDecision { decision, time: *time, label });
            }
            Sample::Web(_) if examples.only_mail => {}
            Sample::Web(_) => {
                let lines = chunk.iter().filter_map(|(_, sample)| match sample {
                    Sample::Web(line) => Some(line),
                    Sample::Mail(_) => None,
                });
                let lines: Vec<&Vec<u8>> = lines.collect();
                let form = LineFormat::AccessLog;
                for answer in client.decide_lines(Some("web"), form, BatchDurability::AsConfigured, &lines)? {
                    if let BatchLine::Decision(decision) = answer {
                        judged.push(DemoDecision { decision: *decision, time: *time, label: None });
                    }
                }
            }
        }
        progress.add(chunk.len() as u64);
        if interrupt.raised() {
            return Ok(None);
        }
    }
    Ok(Some(judged))
}

/// Actions by pipeline.
fn by_action(judged: &[DemoDecision]) -> TextTable {
    let mut counts: BTreeMap<&str, HashMap<Action, u64>> = BTreeMap::new();
    for DemoDecision { decision, .. } in judged {
        *counts.entry(&decision.pipeline).or_default().entry(decision.action).or_default() += 1;
    }
    table("  pipeline", counts.iter().map(|(name, counts)| (*name, counts)))
}

/// Makes a table of how many events had which action, row by row.
fn table<'a>(
    title: &str,
    rows: impl Iterator<Item = (&'a str, &'a HashMap<Action, u64>)> + Clone,
) -> TextTable {
    let used = |action: &Action| rows.clone().any(|(_, counts)| counts.contains_key(action));
    let actions: Vec<Action> = Action::ALL.into_iter().filter(used).collect();
    let mut table = TextTable::default();
    let head = [TableCell::text(title, DIM), TableCell::number("events", DIM)];
    table
        .row(head.into_iter().chain(actions.iter().map(|action| TableCell::number(action, colour(*action)))));
    for (name, counts) in rows {
        let all: u64 = counts.values().sum();
        let cells = actions.iter().map(|action| counts.get(action).copied().unwrap_or(0));
        let cells = cells.map(|count| TableCell::number(count, Style::new()));
        let row = [TableCell::text(format!("  {name}"), Style::new()), TableCell::number(all, Style::new())];
        table.row(row.into_iter().chain(cells));
    }
    table
}

/// The highest scores, each for another weightiest reason, with some of each pipeline.
fn clearest(judged: &[DemoDecision]) -> Vec<&DemoDecision> {
    let mut ranked: Vec<&DemoDecision> = judged.iter().collect();
    ranked.sort_by(|a, b| b.decision.score.total_cmp(&a.decision.score));
    let mut reasons = HashSet::new();
    ranked.retain(|judged| {
        let pipeline = judged.decision.pipeline.as_str();
        judged.decision.reasons.first().is_some_and(|reason| reasons.insert((pipeline, reason.name.as_str())))
    });
    let mut rank_in_pipeline: HashMap<&str, usize> = HashMap::new();
    let mut ranked: Vec<(bool, &DemoDecision)> = ranked
        .into_iter()
        .map(|judged| {
            let rank = rank_in_pipeline.entry(&judged.decision.pipeline).or_default();
            *rank += 1;
            (*rank > OF_EACH, judged)
        })
        .collect();
    // First the best of each pipeline; the sort is stable, so scores still fall within both parts.
    ranked.sort_by_key(|(later, _)| *later);
    let mut clearest: Vec<&DemoDecision> =
        ranked.into_iter().map(|(_, judged)| judged).take(EXPLAINED).collect();
    clearest.sort_by(|a, b| b.decision.score.total_cmp(&a.decision.score));
    clearest
}

/// Says what can be done with the server now. Each line behind the blanks is a command that can be pasted.
fn try_it(client: &ApiClient, data: &Path, judged: &[DemoDecision]) -> Result<(), CommandError> {
    let url = client.base();
    // As it was called: from `cargo run` it is on nobody's path.
    let program = env::args_os().next().unwrap_or_else(|| "tollhouse".into());
    let program = program.to_string_lossy();
    let program = quoted(&program);
    let clearest = clearest(judged).into_iter().find(|judged| judged.decision.pipeline == "mail");
    let id = clearest.map_or("", |judged| judged.decision.id.as_str());
    let hottest = client.top(Some("mail"), "from", "seen", Span::days(1), 1)?.keys.into_iter().next();
    let from = hottest.and_then(|key| key.piece).unwrap_or_else(|| "a@example.com".to_owned());
    let value = percent_encoding::utf8_percent_encode(&from, percent_encoding::NON_ALPHANUMERIC);
    let from = quoted(&from);
    let message = "From: a@example.com\\nSubject: CHEAP PILLS!!!\\n\\nhttp://192.0.2.7/buy\\n";
    say(format_args!(
        "The server goes on at {BOLD}{url}{BOLD:#}; its data is in {}. In a browser:
{url}/console/

Or try:

  {program} top --server {url} from --window 1d        # who sends most
  {program} top --server {url} ip --pipeline web --window 1d
  {program} stats --server {url} from {from}    # all that is kept of one of them
  {program} explain --server {url} {id}    # why that was decided

  curl -s {url}/v1/decisions/{id}
  curl -s '{url}/v1/timeline?kind=from&value={value}'
  printf '{message}' | curl -s -H 'content-type: message/rfc822' --data-binary @- {url}/v1/decide
  curl -s {url}/metrics        # what it counts about itself
  curl -s {url}/openapi.json   # the description of the interface
  curl -s {url}/               # where everything is

Ctrl-C ends it and removes the data.",
        data.display()
    ));
    Ok(())
}

/// A word of a shell's command.
fn quoted(word: &str) -> Cow<'_, str> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+=:,@".contains(&byte);
    if !word.is_empty() && word.bytes().all(is_plain) {
        return Cow::Borrowed(word);
    }
    Cow::Owned(format!("'{}'", word.replace('\'', "'\\''")))
}
