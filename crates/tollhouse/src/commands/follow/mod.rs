//! `tollhouse follow`: growing files, the journal, a pipe, a topic of Kafka, or a stream of NATS JetStream, to a server.
//!
//! Lines of a log with patterns of its own are read here, by the patterns of the server's pipeline: what no pattern reads
//! does not travel.
//!
//! ```text
//! file ─► lines ─► events, named after the stream and their place in it ─► server ─► position kept
//! ```
//!
//! What can be had again is asked to be on the server's disk before it is answered, whatever durability the server is
//! configured for, and only then is the position kept or a message acknowledged: no crash loses any of it. What is sent
//! again after one, here or there, has the same names and counts once. Files and the journal are read as a server reads its
//! own sources (the crate `sources`).

mod backoff;
mod broker_options;
#[cfg(feature = "kafka")]
mod kafka;
mod line_reader;
mod nats;
mod partition_share;
mod window;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use judge::Action;
use logs::IPV6_PREFIX;
use serde::Serialize;
use serde::de::DeserializeOwned;
use server::api::BatchLine;
use sources::crowdsec_reader::CrowdsecReader;
use sources::file_follower::{FileFollower, FileStart};
use sources::journal_follower::{JournalFollower, JournalSelection};
use sources::line_reader::LinePlace;
use sources::path_pattern::PathPattern;
use sources::positions::SourcePositions;
use sources::{CHUNK_LINES_MAX as LINES_MAX, LINE_BYTES_MAX, NamedLine, SourceChunk};

use self::backoff::Backoff;
use self::line_reader::{FollowedLine, LineReader};
use self::partition_share::PartitionShare;
use self::window::{BatchWindow, LineBatch};
use crate::client::{ApiClient, BatchDurability, LineFormat};
use crate::clock;
use crate::console::{Output, printable, say};
use crate::exit::{CommandError, Exit};
use crate::input::messages::STDIN;
use crate::interrupt::Interrupt;
use crate::options::TargetServerOptions;

/// Send events to a server from growing logs, the journal, a pipe, a Kafka topic or a NATS stream
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse follow --server http://127.0.0.1:8377 --position at.json /var/log/nginx/access.log
  tollhouse follow --server http://127.0.0.1:8377 --position at.json '/var/log/nginx/*.log'
  tollhouse follow --server http://127.0.0.1:8377 --pipeline sshd --journald --unit ssh --position p
  some-program | tollhouse follow --server http://127.0.0.1:8377 -
  tollhouse follow --server http://127.0.0.1:8377 --position old.position --once access.log.1
  tollhouse follow --server http://127.0.0.1:8377 --pipeline sshd --position at /var/log/auth.log
  tollhouse follow --server http://127.0.0.1:8377 --position at.json kafka://10.0.0.5,10.0.0.6/ads
  tollhouse follow --server http://127.0.0.1:8377 --position 1.json --share 1/2 kafka://10.0.0.5/ads
  tollhouse follow --server http://127.0.0.1:8377 --nats nats://127.0.0.1:4222 --stream EVENTS
  tollhouse follow --server http://127.0.0.1:8377 --position p --in-flight 8 --batch-lines 2000 log

Access logs are combined, or JSON as Caddy, Traefik and nginx write it. A pipeline with
`input = \"log\"` reads lines by its patterns. The command follows rotation, resumes after a
restart, and counts nothing twice. With --in-flight 2 or more, batches may be decided in any
order: counts come out the same, but a rule on what came before (the third failure of an address)
may fire for another line than in the log's order.")]
pub(crate) struct FollowArgs {
    /// Files to follow, with quoted wildcards `*`, `?` and `[...]`; kafka://HOST[:PORT][,HOST...]/TOPIC; or - for standard
    /// input
    #[arg(value_name = "FILE|-|URL", required_unless_present_any = ["nats", "journald"])]
    files: Vec<PathBuf>,
    /// Follow this machine's journal through `journalctl -o json`, with or without files
    #[arg(long, conflicts_with = "nats")]
    journald: bool,
    /// Journal unit to follow; repeatable [default: all]
    #[arg(long, value_name = "UNIT", requires = "journald")]
    unit: Vec<String>,
    #[command(flatten)]
    nats: nats::NatsOptions,
    /// Read only this share of a Kafka topic's partitions: 1/4 to 4/4 are four processes
    #[arg(long, value_name = "I/N")]
    share: Option<PartitionShare>,
    #[command(flatten)]
    broker: broker_options::BrokerOptions,
    /// File that keeps the positions; without it each start begins at the end
    #[arg(long, value_name = "FILE")]
    position: Option<PathBuf>,
    /// Format of the lines; `log` uses the pipeline's patterns [default: what the named pipeline reads, else access-log]
    #[arg(long, value_enum, value_name = "FORMAT")]
    format: Option<FollowFormat>,
    /// Format of access logs: nginx's `log_format` or Apache's `LogFormat` [default: the usual ones]
    #[arg(long, value_name = "TEXT", conflicts_with = "crowdsec")]
    log_format: Option<String>,
    /// Column names of `csv`, separated by commas [default: the first line of each file]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    columns: Vec<String>,
    /// Column separator of `csv`
    #[arg(long, value_name = "CHARACTER", default_value = ",")]
    separator: String,
    /// Zone of dates without one, such as Europe/Berlin or UTC+0200 [default: the pipeline's, or this machine's]
    #[arg(long, value_name = "ZONE")]
    zone: Option<String>,
    /// Print lines that match no pattern of the pipeline
    #[arg(long)]
    unparsed: bool,
    /// Pipeline [default: the first]
    #[arg(long, value_name = "NAME")]
    pipeline: Option<String>,
    /// Folder of CrowdSec's parsers and scenarios to run lines through: each overflow is an event
    #[arg(long, value_name = "DIR", conflicts_with_all = ["format", "nats"])]
    crowdsec: Option<PathBuf>,
    /// CrowdSec's type of the lines, such as syslog, nginx or apache2
    #[arg(long, value_name = "TYPE", default_value = "syslog", requires = "crowdsec")]
    log_type: String,
    /// Folder of the scenarios' data files [default: `data` in the folder, or CrowdSec's own]
    #[arg(long, value_name = "DIR", requires = "crowdsec")]
    data_files: Option<PathBuf>,
    /// Bits by which IPv6 addresses fill one bucket of a scenario; 128: each its own
    #[arg(long, value_name = "N", requires = "crowdsec", default_value_t = IPV6_PREFIX, value_parser = clap::value_parser!(u8).range(16..=128))]
    ipv6_prefix: u8,
    /// Read from the beginning or the kept positions to the end, and exit
    #[arg(long)]
    once: bool,
    /// Most lines of a request
    #[arg(long, value_name = "N", default_value_t = LINES_MAX, value_parser = batch_lines)]
    batch_lines: usize,
    /// Requests under way at once; more than one may be decided in any order
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u16).range(1..=64))]
    in_flight: u16,
    #[command(flatten)]
    server: TargetServerOptions,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum FollowFormat {
    /// Combined format, or JSON objects of Caddy, Traefik or nginx.
    AccessLog,
    /// Lines of any log, by the patterns of a pipeline with `input = "log"`.
    Log,
    /// Events as `/v1/decide` takes them.
    Ndjson,
    /// Events as comma-separated values.
    Csv,
}

/// The scheme of addresses of topics.
const KAFKA_SCHEME: &str = "kafka://";
/// The interval at which a file that has not grown is looked at.
const LOOK: Duration = Duration::from_millis(250);
/// Time before a server that cannot be had is asked again.
const AGAIN: Duration = Duration::from_secs(1);
/// Bad lines that are named one by one.
const NAMED_MAX: u64 = 20;
/// Lines of a pipe that are read ahead.
const PIPED_MAX: usize = 1_024;
/// Chunks after which buckets are kept.
const KEEP_BUCKETS: u32 = 64;
/// Most origins whose unread lines are counted one by one.
const ORIGINS_MAX: usize = 1_000;

pub(crate) fn run(args: FollowArgs) -> Result<Exit, CommandError> {
    let client = args.server.client()?;
    let interrupt = Interrupt::watch(None);
    let lines = match &args.crowdsec {
        Some(directory) => {
            let mut told = Vec::new();
            let data_files = args.data_files.as_deref();
            let (kind, prefix) = (args.log_type.as_str(), args.ipv6_prefix);
            let reader = CrowdsecReader::open(directory, data_files, kind, prefix, &mut told);
            told.iter().for_each(|told| say(format_args!("not taken: {}", printable(told))));
            let reader = reader.map_err(CommandError::new)?;
            Some(LineReader::Crowdsec(Box::new(reader)))
        }
        None => LineReader::open(&client, &args, &interrupt)?,
    };
    let Some(lines) = lines else {
        return Ok(Exit::Interrupted);
    };
    let mut follow = Follower {
        out: Output::new(args.server.json.json),
        interrupt,
        client: &client,
        args: &args,
        lines,
        events: 0,
        bad: 0,
        unread: BTreeMap::new(),
    };
    let url = args.files.iter().find(|file| is_no_file(file));
    if let Some(url) = url.filter(|_| args.files.len() > 1 || args.journald) {
        return Err(CommandError::new(format_args!("{} is followed by itself", url.display()))
            .help("start `follow` once more for it, with a position file of its own"));
    }
    let is_kafka = url.is_some_and(|url| url.as_os_str() != STDIN);
    if args.broker.is_given() && args.nats.nats.is_none() && !is_kafka {
        return Err(CommandError::new("users and TLS are of a broker, and none is followed")
            .help("name a topic as kafka://HOST/TOPIC, or a server with --nats"));
    }
    if let Some(share) = args.share.filter(|_| args.nats.nats.is_some() || !is_kafka) {
        return Err(CommandError::new(format_args!(
            "--share {share} is of a topic of Kafka, and none is followed"
        ))
        .help("processes that name one consumer of NATS share its stream without it"));
    }
    let exit = match (&args.nats.nats, url) {
        (Some(_), _) => follow.nats()?,
        (None, Some(pipe)) if pipe.as_os_str() == STDIN => follow.pipe()?,
        (None, Some(url)) => follow.kafka(url.to_str().unwrap_or_default())?,
        (None, None) => follow.sources()?,
    };
    follow.out.flush()?;
    follow.summary();
    Ok(exit)
}

/// Reads the most lines of a request: at least a chunk of a source, and no more than a server takes unless it is told to.
fn batch_lines(text: &str) -> Result<usize, String> {
    const MOST: usize = 10_000;
    match text.parse() {
        Ok(lines) if (LINES_MAX..=MOST).contains(&lines) => Ok(lines),
        _ => Err(format!("expected {LINES_MAX} to {MOST} lines")),
    }
}

/// Returns true for what is written in place of a file.
fn is_no_file(file: &Path) -> bool {
    file.as_os_str() == STDIN || file.to_str().is_some_and(|file| file.starts_with(KAFKA_SCHEME))
}

struct Follower<'a> {
    out: Output,
    interrupt: Interrupt,
    client: &'a ApiClient,
    args: &'a FollowArgs,
    lines: LineReader,
    events: u64,
    bad: u64,
    /// Lines that no pattern reads, by origin.
    unread: BTreeMap<Arc<str>, u64>,
}

impl Follower<'_> {
    fn ended(&self) -> Exit {
        if self.args.once { Exit::Fine } else { Exit::Interrupted }
    }

    /// Says what came of all lines.
    fn summary(&self) {
        if !self.lines.is_log() {
            say(format_args!("{} events, {} lines that were none", self.events, self.bad));
            return;
        }
        let unread: u64 = self.unread.values().sum();
        say(format_args!(
            "{} events, {unread} lines that no pattern reads, {} that were refused",
            self.events, self.bad
        ));
        if self.has_several() {
            for (origin, count) in &self.unread {
                say(format_args!("{}: {count} lines that no pattern reads", printable(origin)));
            }
        }
    }

    /// Returns true if lines may come from more than one place.
    fn has_several(&self) -> bool {
        let globs = self.args.files.iter().filter(|file| file.to_string_lossy().contains(['*', '?', '[']));
        self.args.files.len() + usize::from(self.args.journald) + globs.count() > 1
    }

    /// A pipe has no place to come back to, so its lines have no names.
    fn pipe(&mut self) -> Result<Exit, CommandError> {
        let origin: Arc<str> = Arc::from(STDIN);
        let (mut window, mut batch) = (self.window()?, LineBatch::default());
        let lines = piped_lines()?;
        loop {
            // What is there already goes together; a single line does not wait for others.
            let mut chunk = Vec::new();
            while chunk.len() < LINES_MAX {
                match lines.try_recv() {
                    Ok(line) => chunk.push((None, line.map_err(piped_error)?)),
                    Err(_) => break,
                }
            }
            let is_idle = chunk.is_empty();
            self.read_lines(&origin, chunk, &mut batch)?;
            if is_idle || batch.is_full(self.args.batch_lines) {
                self.submit(&mut window, &mut batch, ())?;
            }
            if is_idle {
                self.settle(&mut window)?;
                match lines.recv_timeout(LOOK) {
                    Ok(line) => {
                        self.read_lines(&origin, vec![(None, line.map_err(piped_error)?)], &mut batch)?;
                    }
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => return Ok(Exit::Fine),
                }
            }
            if self.interrupt.raised() {
                self.submit(&mut window, &mut batch, ())?;
                self.settle(&mut window)?;
                return Ok(Exit::Interrupted);
            }
        }
    }

    /// Messages are acknowledged once they are on the server's disk; a connection that breaks is made again, and what was not
    /// acknowledged then comes again. What is wrong with address, login or names is told at once; later the server may be away
    /// for a while.
    fn nats(&mut self) -> Result<Exit, CommandError> {
        let (lines_max, in_flight) = (self.args.batch_lines, usize::from(self.args.in_flight));
        let source = nats::NatsSource::new(&self.args.nats, &self.args.broker, lines_max * (in_flight + 1))?;
        let (mut backoff, origin) = (Backoff::new("NATS"), Arc::from("NATS"));
        let mut consumer = Some(nats::NatsConsumer::open(&source)?);
        let (mut window, mut batch) = (self.window()?, LineBatch::default());
        // The acknowledgements of what is in the batch.
        let mut taken = Vec::new();
        loop {
            let is_stopped = self.interrupt.raised();
            let note = match &mut consumer {
                None if is_stopped => break,
                None if !backoff.is_due() => {
                    // What is to be acknowledged comes again, on another connection.
                    self.submit(&mut window, &mut batch, mem::take(&mut taken))?;
                    self.settle(&mut window)?;
                    thread::sleep(LOOK);
                    continue;
                }
                None => match nats::NatsConsumer::open(&source) {
                    Ok(open) => {
                        consumer = Some(open);
                        continue;
                    }
                    Err(problem) => backoff.failed(problem.why),
                },
                Some(open) => {
                    let messages = if is_stopped { Ok(Vec::new()) } else { open.take() };
                    let why = messages.as_ref().err().cloned();
                    let (lines, receipts): (Vec<_>, Vec<_>) =
                        messages.unwrap_or_default().into_iter().unzip();
                    taken.extend(receipts);
                    let is_caught_up = is_stopped || self.is_caught_up(lines.len());
                    self.read_lines(&origin, lines, &mut batch)?;
                    let mut confirmed = Vec::new();
                    if is_caught_up || batch.is_full(lines_max) || in_flight > 1 {
                        confirmed = self.submit(&mut window, &mut batch, mem::take(&mut taken))?;
                    }
                    if is_caught_up {
                        confirmed.extend(self.settle(&mut window)?);
                    }
                    let acknowledged = open.acknowledge(confirmed.into_iter().flatten());
                    match why.map_or(acknowledged, Err) {
                        Ok(()) => backoff.answered(),
                        Err(why) => backoff.failed(why),
                    }
                }
            };
            note.iter().for_each(|note| say(printable(note)));
            if !backoff.is_due() {
                consumer = None;
            }
            if is_stopped {
                break;
            }
        }
        Ok(Exit::Interrupted)
    }

    /// Files and the journal: positions are kept once what is before them is on the server's disk.
    fn sources(&mut self) -> Result<Exit, CommandError> {
        let patterns = self.patterns()?;
        let position = self.args.position.as_deref();
        let kept = position.map(read_position::<SourcePositions>).transpose()?.flatten();
        let is_from_end = position.is_none() && !self.args.once;
        let start = if is_from_end { FileStart::End } else { FileStart::Beginning };
        let mut kept = kept.unwrap_or_default();
        if let (LineReader::Crowdsec(reader), Some(buckets)) = (&mut self.lines, kept.buckets.take()) {
            reader.restore(buckets, clock::now());
        }
        // Chunks since all that was read was confirmed.
        let mut unkept = 0;
        let mut journal = self.args.journald.then(|| {
            let selection =
                JournalSelection { units: self.args.unit.clone(), start, is_once: self.args.once };
            JournalFollower::new(selection, kept.cursor.clone())
        });
        let mut files = FileFollower::new(patterns.clone(), start, kept).of_headed(self.lines.is_headed());
        let (mut window, mut batch) = (self.window()?, LineBatch::default());
        let mut told = BTreeSet::new();
        let mut is_first = true;
        loop {
            let chunk = files.poll();
            self.check_files(&files, &patterns, is_first)?;
            is_first = false;
            let problems = files.problems().iter().map(|(path, why)| format!("{}: {why}", path.display()));
            let problems =
                problems.chain(journal.iter().filter_map(|journal| journal.problem().map(str::to_owned)));
            for problem in problems.filter(|problem| !told.contains(problem)).collect::<Vec<_>>() {
                say(printable(&problem));
                told.insert(problem);
            }
            let mut is_idle = chunk.is_none();
            if let Some(chunk) = chunk {
                if files.has_begun() {
                    // All before it is confirmed, and so its beginning can be kept.
                    self.submit(&mut window, &mut batch, source_positions(&files, journal.as_ref()))?;
                    self.settle(&mut window)?;
                    self.keep(position, &source_positions(&files, journal.as_ref()), true)?;
                }
                let head = self.read_chunk(chunk, &mut batch)?;
                files.commit(head);
                unkept += 1;
            }
            if batch.is_full(self.args.batch_lines) {
                let behind = source_positions(&files, journal.as_ref());
                self.pass_on(position, &mut window, &mut batch, behind)?;
            }
            if let Some(journal) = &mut journal {
                let wait = if is_idle && unkept == 0 { files.pause() } else { Duration::ZERO };
                if let Some(chunk) = journal.poll(wait) {
                    self.read_chunk(chunk, &mut batch)?;
                    journal.commit();
                    (is_idle, unkept) = (false, unkept + 1);
                }
                let is_broken = journal.problem().filter(|_| self.args.once);
                if let Some(problem) = is_broken {
                    return Err(CommandError::new(problem).help("is systemd running here?"));
                }
            } else if is_idle && unkept == 0 && !self.args.once {
                files.wait();
            }
            let is_stopped = self.interrupt.raised();
            // Buckets are large. What is read again after a crash goes through those of then, and comes to the same events.
            let is_due = is_idle || is_stopped || (self.has_buckets() && unkept >= KEEP_BUCKETS);
            if unkept > 0 && (is_due || batch.is_full(self.args.batch_lines)) {
                let behind = source_positions(&files, journal.as_ref());
                self.pass_on(position, &mut window, &mut batch, behind)?;
                if is_due {
                    unkept = 0;
                    self.settle(&mut window)?;
                    self.keep(position, &source_positions(&files, journal.as_ref()), true)?;
                }
            } else if self.args.once && is_idle && journal.as_ref().is_none_or(JournalFollower::is_at_end) {
                return Ok(Exit::Fine);
            }
            if is_stopped {
                return Ok(self.ended());
            }
        }
    }

    fn has_buckets(&self) -> bool {
        matches!(self.lines, LineReader::Crowdsec(_))
    }

    /// Has a batch of files and journal decided, behind which they are there, and keeps the position of what is confirmed
    /// meanwhile.
    fn pass_on(
        &mut self,
        position: Option<&Path>,
        window: &mut BatchWindow<SourcePositions>,
        batch: &mut LineBatch,
        behind: SourcePositions,
    ) -> Result<(), CommandError> {
        let confirmed = self.submit(window, batch, behind)?;
        match confirmed.last() {
            Some(behind) if !self.has_buckets() => self.keep(position, behind, false),
            _ => Ok(()),
        }
    }

    /// Keeps positions of files and journal, if they are to be kept, and buckets with those of all that was read.
    fn keep(
        &self,
        position: Option<&Path>,
        behind: &SourcePositions,
        is_all: bool,
    ) -> Result<(), CommandError> {
        let Some(path) = position else { return Ok(()) };
        match &self.lines {
            LineReader::Crowdsec(reader) if is_all => {
                let buckets = Some(reader.kept_buckets());
                write_position(path, &SourcePositions { buckets, ..behind.clone() })
            }
            _ => write_position(path, behind),
        }
    }

    fn patterns(&self) -> Result<Vec<PathPattern>, CommandError> {
        let mut patterns = Vec::with_capacity(self.args.files.len());
        for file in &self.args.files {
            let text = file
                .to_str()
                .ok_or_else(|| CommandError::new(format_args!("{}: the name is no UTF-8", file.display())))?;
            let pattern = PathPattern::new(text).map_err(CommandError::new)?;
            if !pattern.is_glob() {
                self.is_file_to_be(file)?;
            }
            patterns.push(pattern);
        }
        Ok(patterns)
    }

    /// A file that was named and cannot be read ends the command at its beginning, and what is not there ends one that
    /// does not wait.
    fn check_files(
        &self,
        files: &FileFollower,
        patterns: &[PathPattern],
        is_first: bool,
    ) -> Result<(), CommandError> {
        let named = patterns.iter().filter(|pattern| !pattern.is_glob() && is_first);
        for path in named.map(|pattern| Path::new(pattern.as_str())) {
            if let Some(why) = files.problems().get(path) {
                return Err(CommandError::new(format_args!("{}: {why}", path.display())));
            }
            if self.args.once && !files.is_open(&path.to_string_lossy()) {
                let what = if path.exists() { "has no whole line yet" } else { "is not there" };
                return Err(CommandError::new(format_args!("{} {what}", path.display()))
                    .help("without --once it is waited for"));
            }
        }
        Ok(())
    }

    /// Says so if there is no file yet; that there can never be one is an error.
    fn is_file_to_be(&self, path: &Path) -> Result<(), CommandError> {
        match fs::metadata(path) {
            Ok(found) if found.is_dir() => {
                Err(CommandError::new(format_args!("{} is a directory", path.display()))
                    .help("name one of its files"))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
                if let Some(parent) = parent.filter(|parent| !parent.is_dir()) {
                    let message = format!("{}: there is no directory {}", path.display(), parent.display());
                    return Err(CommandError::new(message).help("is it written correctly?"));
                }
                if !self.args.once {
                    say(format_args!("{} does not exist yet: waiting for it", path.display()));
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// A window of requests to the server. Of lines with a name nothing is lost by what happens to the server after its
    /// answer: they are on its disk.
    fn window<P>(&self) -> Result<BatchWindow<P>, CommandError> {
        let (client, pipeline) = (self.client.clone(), self.args.pipeline.clone());
        let decide = move |events: &[String], held: BatchDurability| {
            client.decide_lines(pipeline.as_deref(), LineFormat::Json, held, events)
        };
        BatchWindow::new(usize::from(self.args.in_flight), &self.interrupt, Arc::new(decide))
    }

    /// Returns true if a broker had fewer messages than it was asked for. With several requests at once that is when it has
    /// none: others may come before the answers do.
    fn is_caught_up(&self, lines: usize) -> bool {
        lines == 0 || (self.args.in_flight == 1 && lines < LINES_MAX)
    }

    /// Reads lines of a source that knows of no headings into a batch.
    fn read_lines(
        &mut self,
        origin: &Arc<str>,
        lines: Vec<NamedLine>,
        batch: &mut LineBatch,
    ) -> Result<(), CommandError> {
        self.read_chunk(SourceChunk { origin: Arc::clone(origin), head: None, lines }, batch).map(|_| ())
    }

    /// Reads the lines of a chunk into a batch. Returns the heading that holds behind it.
    fn read_chunk(
        &mut self,
        chunk: SourceChunk,
        batch: &mut LineBatch,
    ) -> Result<Option<String>, CommandError> {
        let SourceChunk { origin, mut head, lines } = chunk;
        let now = clock::now();
        batch.count_lines(lines.len());
        for (name, line) in lines {
            let Some(line) = self.lines.trimmed(&line) else { continue };
            let place = LinePlace { origin: &origin, name: name.as_deref() };
            match self.lines.read(line, place, &mut head, now) {
                Ok(FollowedLine::Events(objects)) => {
                    objects.into_iter().for_each(|object| batch.push(name.clone(), object.to_string()));
                }
                Ok(FollowedLine::Unread) => self.count_unread(&origin, line)?,
                Err(why) => self.bad_at(name.as_deref(), &why),
            }
        }
        self.out.flush()?;
        Ok(self.lines.head_behind(&origin, head))
    }

    /// Has a batch decided, behind whose lines this position is. Waits until there is room for it, and returns the positions
    /// behind the batches that are confirmed meanwhile, in order.
    fn submit<P>(
        &mut self,
        window: &mut BatchWindow<P>,
        batch: &mut LineBatch,
        position: P,
    ) -> Result<Vec<P>, CommandError> {
        let mut confirmed = Vec::new();
        while !window.has_room() {
            confirmed.extend(self.confirm_next(window)?);
        }
        window.submit(mem::take(batch), position)?;
        Ok(confirmed)
    }

    /// Waits until all batches are confirmed. Returns the positions behind them, in order.
    fn settle<P>(&mut self, window: &mut BatchWindow<P>) -> Result<Vec<P>, CommandError> {
        let mut confirmed = Vec::new();
        while !window.is_empty() {
            confirmed.extend(self.confirm_next(window)?);
        }
        Ok(confirmed)
    }

    /// Waits for the oldest batch's answers and reports them. Returns the position behind it.
    fn confirm_next<P>(&mut self, window: &mut BatchWindow<P>) -> Result<Option<P>, CommandError> {
        let Some(confirmed) = window.confirm_oldest()? else { return Ok(None) };
        for (name, answer) in confirmed.answers {
            self.report_answer(name.as_deref(), answer)?;
        }
        self.out.flush()?;
        Ok(Some(confirmed.position))
    }

    fn count_unread(&mut self, origin: &Arc<str>, line: &[u8]) -> Result<(), CommandError> {
        if self.unread.contains_key(origin) || self.unread.len() < ORIGINS_MAX {
            *self.unread.entry(Arc::clone(origin)).or_default() += 1;
        }
        if !self.args.unparsed {
            return Ok(());
        }
        let text = String::from_utf8_lossy(line);
        match self.has_several() {
            true => self.out.line(format_args!("{}: {}", printable(origin), printable(&text))),
            false => self.out.line(printable(&text)),
        }
    }

    fn report_answer(&mut self, name: Option<&str>, answer: BatchLine) -> Result<(), CommandError> {
        let decision = match answer {
            BatchLine::Decision(decision) => decision,
            BatchLine::Error(error) => {
                self.bad_at(name, &error.error.detail);
                return Ok(());
            }
        };
        self.events += 1;
        if decision.action == Action::Accept {
            return Ok(());
        }
        if self.out.is_json() {
            return self.out.json(&decision);
        }
        let names: Vec<&str> = decision.reasons.iter().map(|reason| reason.name.as_str()).collect();
        let (time, action) = (decision.time, decision.action);
        self.out.line(format_args!("{time}  {action:<13}  {}", names.join(", ")))
    }

    fn bad_at(&mut self, name: Option<&str>, why: &str) {
        match name {
            Some(name) => self.bad(&format!("{name}: {why}")),
            None => self.bad(why),
        }
    }

    fn bad(&mut self, why: &str) {
        self.bad += 1;
        if self.bad <= NAMED_MAX {
            say(printable(why));
        } else if self.bad == NAMED_MAX + 1 {
            say("further lines that are no events are only counted");
        }
    }
}

#[cfg(not(feature = "kafka"))]
impl Follower<'_> {
    fn kafka(&mut self, _: &str) -> Result<Exit, CommandError> {
        Err(plan::MissingFeature(plan::BuildFeature::Kafka).into())
    }
}

/// Returns true if a batch was answered as a whole. An error of the server itself leaves events to be sent again, where that
/// can be done without counting them twice.
fn is_whole(answers: &[BatchLine], events: usize, held: BatchDurability) -> bool {
    let is_own = |answer: &BatchLine| matches!(answer, BatchLine::Error(error) if error.error.status >= 500);
    answers.len() == events && (held == BatchDurability::AsConfigured || !answers.iter().any(is_own))
}

/// The positions of files and journal, behind all that they have handed out.
fn source_positions(files: &FileFollower, journal: Option<&JournalFollower>) -> SourcePositions {
    let cursor = journal.and_then(|journal| journal.cursor().map(str::to_owned));
    SourcePositions { cursor, buckets: None, ..files.positions().clone() }
}

/// A pipe's lines, as they come, with a bounded number of them ahead of who takes them.
fn piped_lines() -> Result<Receiver<io::Result<Vec<u8>>>, CommandError> {
    let (sender, lines) = sync_channel(PIPED_MAX);
    let read = move || {
        let mut reader = BufReader::new(io::stdin());
        loop {
            let mut line = Vec::new();
            let read = reader.by_ref().take(LINE_BYTES_MAX as u64 + 1).read_until(b'\n', &mut line);
            let line = match read {
                Ok(0) => return,
                read => read.map(|_| line),
            };
            let is_last = line.is_err();
            if sender.send(line).is_err() || is_last {
                return;
            }
        }
    };
    let spawned = thread::Builder::new().name("pipe".to_owned()).spawn(read);
    spawned.map_err(|error| CommandError::new(format_args!("no thread for {STDIN} starts: {error}")))?;
    Ok(lines)
}

fn piped_error(error: io::Error) -> CommandError {
    CommandError::new(format_args!("{STDIN}: {error}"))
}

fn read_position<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, CommandError> {
    let failed =
        |error: &dyn std::fmt::Display| CommandError::new(format_args!("{}: {error}", path.display()));
    match fs::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|error| {
            failed(&error).help("it is no position of this; remove it to begin at the beginning")
        }),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(&error)),
    }
}

/// Replaces the file, so that a crash leaves the old position or the new one.
fn write_position(path: &Path, position: &impl Serialize) -> Result<(), CommandError> {
    let write = || disk::replace(path, &serde_json::to_vec(position)?);
    write().map_err(|error| CommandError::new(format_args!("{}: {error}", path.display())))
}
