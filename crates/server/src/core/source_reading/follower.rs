//! The thread of a source: polls, decides, commits.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use event::Event;
use plan::SourceInput;
use sources::file_follower::FileFollower;
use sources::journal_follower::JournalFollower;
use sources::positions::SourcePositions;
use sources::{CHUNK_LINES_MAX, SourceChunk};
use tokio::runtime::Handle;
use tokio::sync::mpsc::Receiver;

use super::decider::{ReadChunk, SourceReader};
use super::keeper::PositionKeeper;
use crate::core::node::Node;
use crate::core::sources::{SentLine, SourceStatus};

/// The longest wait for entries of the journal.
const LOOK: Duration = Duration::from_millis(250);
/// Time before what could not be decided is tried again.
const AGAIN: Duration = Duration::from_secs(1);
/// The interval at which a busy source says where it is.
const TELL: Duration = Duration::from_millis(500);
/// The interval at which a source with buckets says where it is.
const TELL_BUCKETS: Duration = Duration::from_secs(3);

/// The reading of one source.
pub(super) struct SourceTask {
    pub(super) node: Arc<Node>,
    pub(super) status: Arc<SourceStatus>,
    pub(super) keeper: Arc<PositionKeeper>,
    pub(super) stop: Arc<AtomicBool>,
    pub(super) runtime: Handle,
}

/// The place that lines come from, as it is read.
enum OpenInput {
    Files(Box<FileFollower>),
    Journal(Box<JournalFollower>),
    Syslog(Receiver<SentLine>),
}

impl SourceTask {
    pub(super) fn run(self) {
        let Some((mut reader, mut input)) = self.open() else { return };
        let mut told = Instant::now();
        let mut is_reported = true;
        while !self.is_stopped() {
            let chunks = self.poll(&mut input);
            let is_idle = chunks.is_empty();
            if let OpenInput::Files(files) = &mut input
                && files.has_begun()
            {
                let buckets = reader.kept_buckets();
                let positions = SourcePositions { buckets, ..files.positions().clone() };
                self.keeper.put(&self.status.plan.name, positions);
                self.runtime.block_on(self.keeper.keep(&self.node));
            }
            for chunk in chunks {
                let now = self.node.now();
                let ReadChunk { events, head } = reader.read(&self.node, &self.status, &chunk, now);
                if !self.decide(&reader, &events) {
                    return;
                }
                commit(&mut input, head);
                is_reported = false;
            }
            // Buckets are large. What is read again after a crash goes through those of then, and comes to the same events.
            let tell = if reader.has_buckets() { TELL_BUCKETS } else { TELL };
            let is_quiet = is_idle && !reader.has_buckets();
            if !is_reported && (is_quiet || told.elapsed() >= tell) {
                self.tell(&reader, &input);
                (is_reported, told) = (true, Instant::now());
            }
            if is_idle {
                self.rest(&mut input);
            }
        }
        if let OpenInput::Syslog(from) = &mut input {
            // What was taken is decided, too: its senders believe so.
            from.close();
            loop {
                let chunks = received(from);
                if chunks.is_empty() {
                    break;
                }
                for chunk in chunks {
                    let read = reader.read(&self.node, &self.status, &chunk, self.node.now());
                    if !self.decide(&reader, &read.events) {
                        return;
                    }
                }
            }
        }
        self.tell(&reader, &input);
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Opens reader and input, however long that takes.
    fn open(&self) -> Option<(SourceReader, OpenInput)> {
        let name = &self.status.plan.name;
        let mut reader = loop {
            match SourceReader::open(&self.node, &self.status.plan) {
                Ok(reader) => break reader,
                Err(why) => self.status.fail(self.node.now(), why),
            }
            if self.is_stopped() {
                return None;
            }
            thread::park_timeout(AGAIN);
        };
        self.status.recover();
        let mut kept = self.keeper.of(name);
        if let Some(buckets) = kept.as_mut().and_then(|kept| kept.buckets.take()) {
            reader.restore(buckets, self.node.now());
        }
        let input = match &self.status.plan.input {
            SourceInput::Files { patterns, start } => {
                // Only a source that is new begins at the end.
                let start = if kept.is_some() { Default::default() } else { *start };
                let files = FileFollower::new(patterns.clone(), start, kept.unwrap_or_default());
                OpenInput::Files(Box::new(files.of_headed(reader.is_headed())))
            }
            SourceInput::Docker { containers, start } => {
                let start = if kept.is_some() { Default::default() } else { *start };
                let files = FileFollower::new(Vec::new(), start, kept.unwrap_or_default());
                let files = files.of_containers(containers.clone());
                OpenInput::Files(Box::new(files.of_headed(reader.is_headed())))
            }
            SourceInput::Journal(selection) => {
                let cursor = kept.and_then(|kept| kept.cursor);
                OpenInput::Journal(Box::new(JournalFollower::new(selection.clone(), cursor)))
            }
            SourceInput::Syslog(_) => OpenInput::Syslog(self.node.sources.inbox(name)?.receiver()?),
        };
        Some((reader, input))
    }

    /// The next lines, and how the source is.
    fn poll(&self, input: &mut OpenInput) -> Vec<SourceChunk> {
        let (chunks, problem) = match input {
            OpenInput::Files(files) => {
                let chunk = files.poll();
                self.status.files.set(i64::try_from(files.file_count()).unwrap_or(i64::MAX));
                let problem = files.problems().iter().next();
                let problem = problem.map(|(path, why)| format!("{}: {why}", path.display()));
                (chunk.into_iter().collect(), problem)
            }
            OpenInput::Journal(journal) => {
                let chunk = journal.poll(LOOK);
                (chunk.into_iter().collect(), journal.problem().map(str::to_owned))
            }
            OpenInput::Syslog(from) => (received(from), None),
        };
        match problem {
            Some(why) => self.status.fail(self.node.now(), why),
            None => self.status.recover(),
        }
        chunks
    }

    /// Waits for more.
    fn rest(&self, input: &mut OpenInput) {
        match input {
            // That waits for its program.
            OpenInput::Journal(_) => {}
            OpenInput::Files(files) => files.wait(),
            OpenInput::Syslog(_) => thread::park_timeout(LOOK / 25),
        }
    }

    /// Has events decided until they are counted and logged; false if the node ends before. Without a name they count once
    /// for each time that this is tried.
    fn decide(&self, reader: &SourceReader, events: &[Event]) -> bool {
        if events.is_empty() {
            return true;
        }
        loop {
            let prepared = reader.prepare(&self.node, events, self.node.now());
            let decisions = self.runtime.block_on(self.node.decide(prepared));
            let is_whole = !decisions.iter().any(|decision| decision.uncounted || decision.unlogged);
            if is_whole {
                self.status.events.inc_by(events.len() as u64);
                return true;
            }
            self.status.fail(self.node.now(), "its events cannot be counted and logged now".to_owned());
            if self.is_stopped() {
                return false;
            }
            thread::park_timeout(AGAIN);
        }
    }

    /// Says how far the source was taken.
    fn tell(&self, reader: &SourceReader, input: &OpenInput) {
        let name = &self.status.plan.name;
        let lag = match input {
            OpenInput::Files(files) => {
                let buckets = reader.kept_buckets();
                self.keeper.put(name, SourcePositions { buckets, ..files.positions().clone() });
                files.lag()
            }
            OpenInput::Journal(journal) => {
                let cursor = journal.cursor().map(str::to_owned);
                self.keeper.put(
                    name,
                    SourcePositions { cursor, buckets: reader.kept_buckets(), ..SourcePositions::default() },
                );
                0
            }
            OpenInput::Syslog(_) => self.node.sources.inbox(name).map_or(0, |inbox| inbox.waiting() as u64),
        };
        self.status.lag.set(i64::try_from(lag).unwrap_or(i64::MAX));
    }
}

/// Moves the position behind the lines that were decided last.
fn commit(input: &mut OpenInput, head: Option<String>) {
    match input {
        OpenInput::Files(files) => files.commit(head),
        OpenInput::Journal(journal) => journal.commit(),
        OpenInput::Syslog(_) => {}
    }
}

/// The lines that wait, by sender: what one of them says is not joined with what another does.
fn received(from: &mut Receiver<SentLine>) -> Vec<SourceChunk> {
    let mut by_sender: BTreeMap<Option<IpAddr>, Vec<_>> = BTreeMap::new();
    for _ in 0..CHUNK_LINES_MAX {
        let Ok(sent) = from.try_recv() else { break };
        by_sender.entry(sent.sender).or_default().push((None, sent.line));
    }
    let origin = |sender: Option<IpAddr>| sender.map_or_else(|| "local".to_owned(), |ip| ip.to_string());
    let chunk = |(sender, lines)| SourceChunk { origin: Arc::from(origin(sender)), head: None, lines };
    by_sender.into_iter().map(chunk).collect()
}
