//! `tollhouse demo`: the whole of it in a minute, without network or arguments.
//!
//! What is shown is what a service would see: the samples are sent to a server over HTTP in the order of their times,
//! which drive its clock, and mail whose source says what it is gets feedback once it is decided, as from its readers.

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
use engine::{Config, Directory, Engine, Overrides, Plan, preset};
use event::{Span, Time};
use judge::Action;
use server::api::{BatchLine, Decision};
use server::{Clock, Server};
use tokio::sync::Notify;

use crate::client::{Client, Held, LineForm};
use crate::console::{self, BOLD, Cell, DIM, Output, Progress, Table, colour, say};
use crate::corpora;
use crate::draw;
use crate::exit::{Exit, Failure};
use crate::input::messages::{Message, Messages};
use crate::interrupt::Interrupt;
use crate::reading::{EnvelopeSource, timed};

/// See it work on bundled mail and web events, without network
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse demo           Goes on serving afterwards, so that you can try it
  tollhouse demo --once    Ends when everything is shown

Everything happens in a temporary directory, which is removed at the end, and on a free port of
this machine.")]
pub(crate) struct Args {
    /// End when everything is shown, instead of serving on
    #[arg(long)]
    once: bool,
}

/// Verdicts that are explained.
const EXPLAINED: usize = 5;
/// Of each pipeline, where there are so many.
const OF_EACH: usize = 2;
/// Lines of the access log that are sent at once.
const LINES: usize = 64;
/// How often it is tried to remove a directory to which something is added meanwhile, and how long until the next time.
const REMOVALS_MAX: usize = 100;
const REMOVAL_PAUSE: Duration = Duration::from_millis(10);

pub(crate) fn run(args: Args) -> Result<Exit, Failure> {
    let parent = tempfile::Builder::new().prefix("tollhouse-demo-").tempdir().map_err(Failure::new)?;
    // The server waits for who is in the middle of a request; the user does not.
    let temporary = parent.path().to_owned();
    let interrupt = Interrupt::watch_or(move || remove(&temporary));
    let data = parent.path().join("data");
    let engine = open(&data)?;
    let samples = samples();
    let clock = SampleClock::new();
    // The first housekeeping must not be ahead of the samples, or it would take them for long out of date.
    clock.set(samples.first().map_or(Time::EPOCH, |(time, _)| *time));
    let node = Node::start(Arc::new(engine), &clock)?;
    let client = Client::new(&format!("http://{}", node.address), None)?;
    let shown = show(&client, &clock, &samples, &interrupt);
    if shown.is_ok() && !args.once && !interrupt.raised() {
        try_it(&client, &data);
        while !interrupt.raised() {
            thread::park_timeout(Duration::from_millis(100));
        }
    }
    node.stop()?;
    remove(parent.path());
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

fn open(data: &Path) -> Result<Engine, Failure> {
    let presets: Vec<_> = ["mail", "web"].into_iter().filter_map(preset::find).collect();
    let directory = Directory::create(data, &presets)?;
    let flags = vec![("server.listen".to_owned(), "127.0.0.1:0".to_owned())];
    let config = Config::load(&directory.config_path(), &Overrides { environment: Vec::new(), flags });
    Engine::open(&directory, Plan::compile(&config)?).map_err(Failure::new)
}

/// The server, on threads of its own.
struct Node {
    address: SocketAddr,
    stop: Arc<Notify>,
    thread: thread::JoinHandle<Result<(), Failure>>,
}

impl Node {
    fn start(engine: Arc<Engine>, clock: &Arc<SampleClock>) -> Result<Node, Failure> {
        let clock = Arc::clone(clock);
        let server = Server::bind(engine, Clock::driven(move || clock.now()))?;
        let address = server.local_addr();
        let stop = Arc::new(Notify::new());
        let runtime =
            tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(Failure::new)?;
        let stopped = Arc::clone(&stop);
        let serve = move || Ok(runtime.block_on(server.serve(async move { stopped.notified().await }))?);
        let thread = thread::Builder::new().name("server".to_owned()).spawn(serve).map_err(Failure::new)?;
        Ok(Node { address, stop, thread })
    }

    fn stop(self) -> Result<(), Failure> {
        self.stop.notify_one();
        self.thread.join().unwrap_or_else(|_| Err(Failure::new("the server has failed")))
    }
}

/// A decision and what the sample's source says of it.
struct Judged {
    decision: Decision,
    label: Option<&'static str>,
}

fn show(
    client: &Client,
    clock: &SampleClock,
    samples: &[(Time, Sample)],
    interrupt: &Interrupt,
) -> Result<Exit, Failure> {
    let mut out = Output::new(false);
    say(format_args!(
        "{BOLD}Tollhouse{BOLD:#} runs on {} and is sent real mail and real requests.",
        client.base()
    ));
    let Some(judged) = stream(client, clock, samples, interrupt)? else { return Ok(Exit::Interrupted) };
    out.line(format_args!("\n{BOLD}What was decided{BOLD:#}"))?;
    out.line(by_action(&judged))?;
    out.line(format_args!(
        "\n{BOLD}What the sources of the mail say of it{BOLD:#}, which the server was told after each verdict"
    ))?;
    out.line(by_label(&judged))?;
    out.line(format_args!("\n{BOLD}The clearest verdicts{BOLD:#}\n"))?;
    for judged in clearest(&judged) {
        draw::verdict(&mut out, &client.explain(&judged.decision.id)?)?;
    }
    out.flush()?;
    Ok(Exit::Fine)
}

/// A sample.
enum Sample {
    Mail(Box<Message>),
    Web(&'static [u8]),
}

/// All samples in the order of their times.
fn samples() -> Vec<(Time, Sample)> {
    let mail = timed(Messages::of_mbox("mail.mbox", corpora::MAIL), true).flatten();
    let mail = mail.filter_map(|(message, time)| Some((time?, Sample::Mail(Box::new(message)))));
    let web = corpora::WEB.split_inclusive(|byte| *byte == b'\n');
    let web = web.filter_map(|line| Some((content::log::event(line).ok()?.time?, Sample::Web(line))));
    let mut samples: Vec<(Time, Sample)> = mail.chain(web).collect();
    samples.sort_by_key(|(time, _)| *time);
    samples
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

/// Sends the samples, each when it is its time, and reports mail as a user would whose source says what it is;
/// `None` if the user stopped it.
fn stream(
    client: &Client,
    clock: &SampleClock,
    samples: &[(Time, Sample)],
    interrupt: &Interrupt,
) -> Result<Option<Vec<Judged>>, Failure> {
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
                    client.decide_message(Some("mail"), message, Some(*time), EnvelopeSource::Headers)?;
                let label = message.stored.origin().and_then(corpora::label);
                if let Some(label) = label {
                    client.feedback(&decision.id, label)?;
                }
                judged.push(Judged { decision, label });
            }
            Sample::Web(_) => {
                let lines = chunk.iter().filter_map(|(_, sample)| match sample {
                    Sample::Web(line) => Some(*line),
                    Sample::Mail(_) => None,
                });
                let lines: Vec<&[u8]> = lines.map(|line| line.trim_ascii_end()).collect();
                let form = LineForm::AccessLog;
                for answer in client.decide_lines(Some("web"), form, Held::AsConfigured, &lines)? {
                    if let BatchLine::Decision(decision) = answer {
                        judged.push(Judged { decision: *decision, label: None });
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
fn by_action(judged: &[Judged]) -> Table {
    let mut counts: BTreeMap<&str, HashMap<Action, u64>> = BTreeMap::new();
    for Judged { decision, .. } in judged {
        *counts.entry(&decision.pipeline).or_default().entry(decision.action).or_default() += 1;
    }
    table("  pipeline", counts.iter().map(|(name, counts)| (*name, counts)), |count, _| count.to_string())
}

/// Actions by what the sample's source says, in shares.
fn by_label(judged: &[Judged]) -> Table {
    let mut counts: BTreeMap<&str, HashMap<Action, u64>> = BTreeMap::new();
    for Judged { decision, label } in judged {
        if let Some(label) = label {
            *counts.entry(label).or_default().entry(decision.action).or_default() += 1;
        }
    }
    table("  source says", counts.iter().map(|(name, counts)| (*name, counts)), |count, all| {
        format!("{:.0} %", 100.0 * count as f64 / all.max(1) as f64)
    })
}

fn table<'a>(
    title: &str,
    rows: impl Iterator<Item = (&'a str, &'a HashMap<Action, u64>)> + Clone,
    cell: impl Fn(u64, u64) -> String,
) -> Table {
    let used = |action: &Action| rows.clone().any(|(_, counts)| counts.contains_key(action));
    let actions: Vec<Action> = Action::ALL.into_iter().filter(used).collect();
    let mut table = Table::default();
    let head = [Cell::text(title, DIM), Cell::number("events", DIM)];
    table.row(head.into_iter().chain(actions.iter().map(|action| Cell::number(action, colour(*action)))));
    for (name, counts) in rows {
        let all: u64 = counts.values().sum();
        let cells = actions.iter().map(|action| cell(counts.get(action).copied().unwrap_or(0), all));
        let cells = cells.map(|cell| Cell::number(cell, Style::new()));
        let row = [Cell::text(format!("  {name}"), Style::new()), Cell::number(all, Style::new())];
        table.row(row.into_iter().chain(cells));
    }
    table
}

/// The highest scores, each for another weightiest reason, with some of each pipeline.
fn clearest(judged: &[Judged]) -> Vec<&Judged> {
    let mut ranked: Vec<&Judged> = judged.iter().collect();
    ranked.sort_by(|a, b| b.decision.score.total_cmp(&a.decision.score));
    let mut reasons = HashSet::new();
    ranked.retain(|judged| {
        let pipeline = judged.decision.pipeline.as_str();
        judged.decision.reasons.first().is_some_and(|reason| reasons.insert((pipeline, reason.name.as_str())))
    });
    let mut rank_in_pipeline: HashMap<&str, usize> = HashMap::new();
    let mut ranked: Vec<(bool, &Judged)> = ranked
        .into_iter()
        .map(|judged| {
            let rank = rank_in_pipeline.entry(&judged.decision.pipeline).or_default();
            *rank += 1;
            (*rank > OF_EACH, judged)
        })
        .collect();
    // First the best of each pipeline; the sort is stable, so scores still fall within both parts.
    ranked.sort_by_key(|(later, _)| *later);
    let mut clearest: Vec<&Judged> = ranked.into_iter().map(|(_, judged)| judged).take(EXPLAINED).collect();
    clearest.sort_by(|a, b| b.decision.score.total_cmp(&a.decision.score));
    clearest
}

fn try_it(client: &Client, data: &Path) {
    let url = client.base();
    // As it was called: from `cargo run` it is on nobody's path.
    let program = env::args_os().next().unwrap_or_else(|| "tollhouse".into());
    let program = program.display();
    say(format_args!(
        "The server goes on at {BOLD}{url}{BOLD:#}; its data is in {}. Try:

  {url}/                  where everything is
  {url}/openapi.json      the description of the interface
  {url}/metrics           what it counts about itself

  printf 'From: a@example.com\\nSubject: CHEAP PILLS!!!\\n\\nhttp://192.0.2.7/buy\\n' |
    curl -H 'content-type: message/rfc822' --data-binary @- '{url}/v1/decide'
  curl '{url}/v1/decisions/ID'     with its id, or one from above
  curl '{url}/v1/timeline?kind=from&value=a@example.com'

  {program} explain --server {url} ID
  {program} stats --server {url} from a@example.com
  {program} top --server {url} from

Its clock stands where the samples end, and goes on from there.
Ctrl-C ends it and removes the data.",
        data.display()
    ));
}
