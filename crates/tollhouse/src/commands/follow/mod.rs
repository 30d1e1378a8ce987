//! `tollhouse follow`: a growing file, a pipe, a topic of Kafka, or a stream of NATS JetStream, to a server.
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
//! again after one, here or there, has the same names and counts once. A stream is known by its first line, so that a file
//! that was rotated away, copied or truncated is not taken for another or for the same.

mod backoff;
mod crowdsec_reader;
#[cfg(feature = "kafka")]
mod kafka;
mod line_reader;
mod nats;

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use content::web::access_log::LINE_BYTES_MAX;
use data_encoding::HEXLOWER;
use judge::Action;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use server::api::BatchLine;
use sha2::{Digest, Sha256};

use self::backoff::Backoff;
use self::crowdsec_reader::CrowdsecReader;
use self::line_reader::{LineReader, ReadLine};
use crate::client::{ApiClient, BatchDurability, CallError, LineFormat};
use crate::clock;
use crate::console::{Output, printable, say};
use crate::exit::{CommandError, Exit};
use crate::input::messages::STDIN;
use crate::interrupt::Interrupt;
use crate::options::TargetServerOptions;

/// Follow a growing log, a pipe, a Kafka topic or a NATS stream, and have a server judge each event as it comes
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse follow --server http://127.0.0.1:8377 --position at.json /var/log/nginx/access.log
  journalctl -fu caddy -o cat | tollhouse follow --server http://127.0.0.1:8377 -
  tollhouse follow --server http://127.0.0.1:8377 --position old.position --once access.log.1
  tollhouse follow --server http://127.0.0.1:8377 --pipeline sshd --position at /var/log/auth.log
  tollhouse follow --server http://127.0.0.1:8377 --position at.json kafka://10.0.0.5,10.0.0.6/ads
  tollhouse follow --server http://127.0.0.1:8377 --nats nats://127.0.0.1:4222 --stream EVENTS

Access logs are in the combined format, or JSON as Caddy, Traefik and nginx write it. Lines for a
pipeline with `input = \"log\"` are read by its patterns. The command follows rotation, resumes
after a restart, and counts nothing twice.")]
pub(crate) struct FollowArgs {
    /// File to follow, or topic as kafka://HOST[:PORT][,HOST...]/TOPIC; - is standard input
    #[arg(value_name = "FILE|-|URL", required_unless_present = "nats")]
    file: Option<PathBuf>,
    #[command(flatten)]
    nats: nats::NatsOptions,
    /// File that keeps the position; without it every start begins at the end of the file or topic
    #[arg(long, value_name = "FILE")]
    position: Option<PathBuf>,
    /// Format of the lines: of an access log, of another by the pipeline's patterns, or events as JSON objects; unless
    /// given, what the named pipeline reads, or else an access log
    #[arg(long, value_enum, value_name = "FORMAT")]
    format: Option<FollowFormat>,
    /// Print lines that no pattern of the pipeline reads
    #[arg(long)]
    unparsed: bool,
    /// Pipeline that judges, instead of the first one
    #[arg(long, value_name = "NAME")]
    pipeline: Option<String>,
    /// Folder of CrowdSec's parsers and scenarios, through which lines go: each overflow becomes an event
    #[arg(long, value_name = "DIR", conflicts_with_all = ["format", "nats"])]
    crowdsec: Option<PathBuf>,
    /// Type by which CrowdSec's parsers know the lines, such as syslog, nginx or apache2
    #[arg(long, value_name = "TYPE", default_value = "syslog", requires = "crowdsec")]
    log_type: String,
    /// Folder of the files that scenarios look into; unless given, `data` in the folder, or CrowdSec's own
    #[arg(long, value_name = "DIR", requires = "crowdsec")]
    data_files: Option<PathBuf>,
    /// End at the end of the file or topic, which is read from its beginning or the kept position
    #[arg(long)]
    once: bool,
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
}

/// The scheme of addresses of topics.
const KAFKA_SCHEME: &str = "kafka://";
/// Lines of a batch.
const LINES_MAX: usize = 256;
/// The interval at which a file that has not grown is looked at.
const LOOK: Duration = Duration::from_millis(250);
/// Time before a server that cannot be had is asked again.
const AGAIN: Duration = Duration::from_secs(1);
/// Bad lines that are named one by one.
const NAMED_MAX: u64 = 20;
/// Bytes of the first line by which a stream is known.
const KNOWN_BY: usize = 4096;

/// A line, and its name if it has a place where it can be had again.
type NamedLine = (Option<String>, Vec<u8>);

/// The position of a reader.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct FollowPosition {
    /// The stream: 16 hexadecimal digits of the hash of its first line.
    stream: String,
    /// Bytes that were taken.
    offset: u64,
}

pub(crate) fn run(args: FollowArgs) -> Result<Exit, CommandError> {
    let client = args.server.client()?;
    let interrupt = Interrupt::watch(None);
    let lines = match &args.crowdsec {
        Some(directory) => {
            let source = args.file.as_deref().unwrap_or(Path::new(STDIN));
            let reader = CrowdsecReader::open(directory, args.data_files.as_deref(), &args.log_type, source)?;
            Some(LineReader::Crowdsec(Box::new(reader)))
        }
        None => LineReader::open(&client, args.format, args.pipeline.as_deref(), &interrupt)?,
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
        unread: 0,
    };
    let exit = match (&args.nats.nats, &args.file) {
        (Some(_), _) => follow.nats()?,
        (None, Some(file)) if file.as_os_str() == STDIN => follow.pipe()?,
        (None, Some(file)) if file.to_str().is_some_and(|file| file.starts_with(KAFKA_SCHEME)) => {
            follow.kafka(file.to_str().unwrap_or_default())?
        }
        (None, file) => follow.file(file.as_deref().unwrap_or(Path::new(STDIN)))?,
    };
    follow.out.flush()?;
    match follow.lines.is_log() {
        true => say(format_args!(
            "{} events, {} lines that no pattern reads, {} that were refused",
            follow.events, follow.unread, follow.bad
        )),
        false => say(format_args!("{} events, {} lines that were none", follow.events, follow.bad)),
    }
    Ok(exit)
}

struct Follower<'a> {
    out: Output,
    interrupt: Interrupt,
    client: &'a ApiClient,
    args: &'a FollowArgs,
    lines: LineReader,
    events: u64,
    bad: u64,
    /// Lines that no pattern reads.
    unread: u64,
}

impl Follower<'_> {
    fn ended(&self) -> Exit {
        if self.args.once { Exit::Fine } else { Exit::Interrupted }
    }

    fn unreadable(&self, error: &io::Error) -> CommandError {
        let file = self.args.file.as_deref().unwrap_or(Path::new(STDIN));
        CommandError::new(format_args!("{}: {error}", file.display()))
    }

    /// A pipe has no place to come back to, so its lines have no names.
    fn pipe(&mut self) -> Result<Exit, CommandError> {
        let mut reader = BufReader::new(io::stdin());
        loop {
            let mut lines = Vec::new();
            // What is there already goes together; a single line does not wait for others.
            loop {
                let mut line = Vec::new();
                let read = reader.by_ref().take(LINE_BYTES_MAX as u64 + 1).read_until(b'\n', &mut line);
                if read.map_err(|error| self.unreadable(&error))? == 0 {
                    self.send(lines)?;
                    return Ok(Exit::Fine);
                }
                lines.push((None, line));
                if lines.len() == LINES_MAX || !reader.buffer().contains(&b'\n') {
                    break;
                }
            }
            self.send(lines)?;
            if self.interrupt.raised() {
                return Ok(Exit::Interrupted);
            }
        }
    }

    /// Messages are acknowledged once they are on the server's disk; a connection that breaks is made again, and what was not
    /// acknowledged then comes again. What is wrong with address, login or names is told at once; later the server may be away
    /// for a while.
    fn nats(&mut self) -> Result<Exit, CommandError> {
        let source = nats::NatsSource::new(&self.args.nats)?;
        let mut backoff = Backoff::new("NATS");
        let mut consumer = Some(nats::NatsConsumer::open(&source)?);
        while !self.interrupt.raised() {
            let note = match &mut consumer {
                None if !backoff.is_due() => {
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
                    let taken = match open.take() {
                        Ok(lines) => {
                            self.send(lines)?;
                            open.acknowledge()
                        }
                        Err(why) => Err(why),
                    };
                    match taken {
                        Ok(()) => backoff.answered(),
                        Err(why) => backoff.failed(why),
                    }
                }
            };
            note.iter().for_each(|note| say(printable(note)));
            if !backoff.is_due() {
                consumer = None;
            }
        }
        Ok(Exit::Interrupted)
    }

    fn file(&mut self, path: &Path) -> Result<Exit, CommandError> {
        self.is_file_to_be(path)?;
        let kept = self.args.position.as_deref().map(read_position).transpose()?.flatten();
        let mut start_at_end = kept.is_none() && !self.args.once && self.args.position.is_none();
        let mut kept = kept.unwrap_or_default();
        // What was rotated away meanwhile is finished first.
        if let Some(rotated) = self.rotated(path, &kept)? {
            self.whole(path, rotated, &mut kept)?;
        }
        loop {
            let Some(opened) = self.open(path)? else {
                if self.args.once {
                    let what = if path.exists() { "has no whole line yet" } else { "is not there" };
                    return Err(CommandError::new(format_args!("{} {what}", path.display()))
                        .help("without --once it is waited for"));
                }
                if self.interrupt.raised() {
                    return Ok(self.ended());
                }
                thread::sleep(LOOK);
                continue;
            };
            if opened.stream != kept.stream {
                kept = FollowPosition { stream: opened.stream.clone(), offset: 0 };
                if start_at_end {
                    kept.offset = opened.length().map_err(|error| self.unreadable(&error))?;
                }
            }
            start_at_end = false;
            let ended = self.whole(path, opened, &mut kept)?;
            if ended || self.args.once {
                return Ok(self.ended());
            }
        }
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

    /// Takes a file until it was replaced by another; true if the user wants it to stop.
    fn whole(
        &mut self,
        path: &Path,
        mut opened: FollowedFile,
        position: &mut FollowPosition,
    ) -> Result<bool, CommandError> {
        loop {
            // Truncated and written anew, perhaps to the same length: another stream in the same file.
            if !opened.is_same().map_err(|error| self.unreadable(&error))? {
                return Ok(false);
            }
            let (lines, next) = opened.lines(position).map_err(|error| self.unreadable(&error))?;
            if !lines.is_empty() {
                self.send(lines)?;
                position.offset = next;
                if let Some(file) = &self.args.position {
                    write_position(file, position)?;
                }
                if self.interrupt.raised() {
                    return Ok(true);
                }
                continue;
            }
            if self.args.once {
                return Ok(false);
            }
            if self.interrupt.raised() {
                return Ok(true);
            }
            // Another file under this name: it was rotated, and there was nothing left in it.
            let replaced = fs::metadata(path).is_ok_and(|now| (now.dev(), now.ino()) != opened.id);
            if replaced {
                let (late, _) = opened.lines(position).map_err(|error| self.unreadable(&error))?;
                if late.is_empty() {
                    return Ok(false);
                }
                continue;
            }
            thread::sleep(LOOK);
        }
    }

    /// Opens a file that has a first line.
    fn open(&self, path: &Path) -> Result<Option<FollowedFile>, CommandError> {
        match FollowedFile::new(path) {
            Ok(opened) => Ok(opened),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.unreadable(&error)),
        }
    }

    /// The file of the kept stream, where it was renamed as `logrotate` does.
    fn rotated(&self, path: &Path, kept: &FollowPosition) -> Result<Option<FollowedFile>, CommandError> {
        if kept.stream.is_empty() || self.open(path)?.is_some_and(|own| own.stream == kept.stream) {
            return Ok(None);
        }
        let mut name = path.as_os_str().to_owned();
        name.push(".1");
        Ok(self.open(Path::new(&name))?.filter(|rotated| rotated.stream == kept.stream))
    }

    /// Has lines judged, however long the server cannot be had. Of those with a name nothing is lost by what happens to
    /// the server afterwards: they are on its disk.
    fn send(&mut self, lines: Vec<NamedLine>) -> Result<(), CommandError> {
        let mut events = Vec::with_capacity(lines.len());
        let now = clock::now();
        for (name, line) in lines {
            // Patterns mind spaces in front.
            let line = if self.lines.is_log() { line.trim_ascii_end() } else { line.trim_ascii() };
            if line.is_empty() {
                continue;
            }
            match self.lines.read(line, name.as_deref(), now) {
                Ok(ReadLine::Event(object)) => events.push((name, object.to_string())),
                Ok(ReadLine::Events(objects)) => {
                    events.extend(objects.into_iter().map(|object| (name.clone(), object.to_string())));
                }
                Ok(ReadLine::Silent) => {}
                Ok(ReadLine::Unread) => {
                    self.unread += 1;
                    if self.args.unparsed {
                        self.out.line(printable(&String::from_utf8_lossy(line)))?;
                    }
                }
                Err(why) => self.bad_at(name.as_deref(), &why),
            }
        }
        if events.is_empty() {
            return self.out.flush();
        }
        let (names, events): (Vec<_>, Vec<_>) = events.into_iter().unzip();
        // What can be sent again is forgotten here once it is safe there.
        let held = match names.iter().all(Option::is_some) {
            true => BatchDurability::OnDisk,
            false => BatchDurability::AsConfigured,
        };
        let answers = self.decided(&events, held)?;
        for (name, answer) in names.iter().zip(answers) {
            self.report_answer(name.as_deref(), answer)?;
        }
        self.out.flush()
    }

    /// Returns the server's answers to events, however long it cannot be had.
    fn decided(&self, events: &[String], held: BatchDurability) -> Result<Vec<BatchLine>, CommandError> {
        let pipeline = self.args.pipeline.as_deref();
        loop {
            match self.client.decide_lines(pipeline, LineFormat::Json, held, events) {
                Ok(answers) if held == BatchDurability::AsConfigured || is_whole(&answers, events.len()) => {
                    return Ok(answers);
                }
                Err(error @ CallError::Refused(_)) if !error.is_for_now() => return Err(error.into()),
                Err(error) if self.interrupt.raised() => return Err(error.into()),
                Ok(_) if self.interrupt.raised() => {
                    return Err(CommandError::new("the server could not take all of a batch"));
                }
                Ok(_) | Err(_) => thread::sleep(AGAIN),
            }
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

/// Returns true if a batch was answered as a whole: an error of the server itself leaves events to be sent again.
fn is_whole(answers: &[BatchLine], events: usize) -> bool {
    let is_own = |answer: &BatchLine| matches!(answer, BatchLine::Error(error) if error.error.status >= 500);
    answers.len() == events && !answers.iter().any(is_own)
}

/// A file that is read.
struct FollowedFile {
    reader: BufReader<File>,
    /// Device and inode.
    id: (u64, u64),
    stream: String,
    /// The place of the reader.
    at: u64,
}

/// Lines with their names, and the offset behind them.
type LineChunk = (Vec<NamedLine>, u64);

impl FollowedFile {
    /// `None` as long as there is no whole line, so that nobody knows what stream it is.
    fn new(path: &Path) -> io::Result<Option<FollowedFile>> {
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        let Some(stream) = stream_of(&file)? else { return Ok(None) };
        let reader = BufReader::with_capacity(256 << 10, file);
        Ok(Some(FollowedFile { reader, id: (metadata.dev(), metadata.ino()), stream, at: 0 }))
    }

    /// Returns true if the file still begins as it did.
    fn is_same(&self) -> io::Result<bool> {
        Ok(stream_of(self.reader.get_ref())?.is_some_and(|stream| stream == self.stream))
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.reader.get_ref().metadata()?.len())
    }

    /// The next whole lines. One that is longer than any event may be is passed over, and one that is not at its end is
    /// left for later.
    fn lines(&mut self, position: &FollowPosition) -> io::Result<LineChunk> {
        if self.at != position.offset {
            self.reader.seek(SeekFrom::Start(position.offset))?;
            self.at = position.offset;
        }
        let (mut lines, mut next) = (Vec::new(), position.offset);
        while lines.len() < LINES_MAX {
            let mut line = Vec::new();
            let read = self.reader.by_ref().take(LINE_BYTES_MAX as u64 + 1).read_until(b'\n', &mut line)?;
            self.at += read as u64;
            if !line.ends_with(b"\n") {
                if read <= LINE_BYTES_MAX {
                    break;
                }
                let skipped = self.reader.skip_until(b'\n')?;
                self.at += skipped as u64;
            }
            lines.push((Some(name_of(&self.stream, next, &line)), line));
            next = self.at;
        }
        Ok((lines, next))
    }
}

/// The name of a line: its stream, its offset there, and a hash of what it says, as two streams may have begun alike.
fn name_of(stream: &str, offset: u64, line: &[u8]) -> String {
    format!("{stream}:{offset}:{}", hash(line.trim_ascii()))
}

/// 16 hexadecimal digits that stand for bytes.
fn hash(bytes: &[u8]) -> String {
    HEXLOWER.encode(&Sha256::digest(bytes)[..8])
}

/// The hash of a file's first line; `None` as long as that is not whole. The file's own place stays.
fn stream_of(file: &File) -> io::Result<Option<String>> {
    let mut first = vec![0; KNOWN_BY];
    let mut length = 0;
    while length < first.len() {
        match file.read_at(&mut first[length..], length as u64)? {
            0 => break,
            read => length += read,
        }
    }
    first.truncate(length);
    match first.iter().position(|byte| *byte == b'\n') {
        Some(end) => first.truncate(end),
        None if length < KNOWN_BY => return Ok(None),
        None => {}
    }
    Ok(Some(hash(&first)))
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

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn texts(lines: &[(Option<String>, Vec<u8>)]) -> Vec<String> {
        lines.iter().map(|(_, line)| String::from_utf8_lossy(line).trim().chars().take(9).collect()).collect()
    }

    #[test]
    fn only_whole_lines_are_taken() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("log");
        fs::write(&path, "first").unwrap();
        assert!(FollowedFile::new(&path).unwrap().is_none(), "nobody knows what stream it will be");
        fs::write(&path, format!("first\nsecond\n{}\nfourth\nfif", "x".repeat(LINE_BYTES_MAX + 9))).unwrap();
        let mut opened = FollowedFile::new(&path).unwrap().unwrap();
        let mut position = FollowPosition { stream: opened.stream.clone(), offset: 0 };
        let (lines, next) = opened.lines(&position).unwrap();
        assert_eq!(texts(&lines), ["first", "second", "xxxxxxxxx", "fourth"]);
        assert_eq!(lines[1].0, Some(name_of(&opened.stream, 6, b"second")));
        position.offset = next;
        assert_eq!(opened.lines(&position).unwrap(), (vec![], next));
        File::options().append(true).open(&path).unwrap().write_all(b"th\n").unwrap();
        let (lines, _) = opened.lines(&position).unwrap();
        assert_eq!(texts(&lines), ["fifth"]);
        // The same from the beginning has the same names.
        let again = FollowedFile::new(&path).unwrap().unwrap().lines(&FollowPosition::default()).unwrap();
        assert_eq!(again.0[1].0, Some(name_of(&opened.stream, 6, b"second")));
    }

    #[test]
    fn positions_read_back() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("position");
        assert!(read_position::<FollowPosition>(&path).unwrap().is_none());
        let position = FollowPosition { stream: "00".into(), offset: 7 };
        write_position(&path, &position).unwrap();
        assert_eq!(read_position(&path).unwrap(), Some(position));
        fs::write(&path, "nothing").unwrap();
        assert!(read_position::<FollowPosition>(&path).is_err());
    }
}
