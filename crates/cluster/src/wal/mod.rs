//! The node's write-ahead log: what was added and is not known to be in the cluster for good.
//!
//! ```text
//! append ─► buffer ─► writer (one at a time, on a thread that may block) ─► segment ─► sync ─► who waits is told
//! trim   ─► the oldest segments, once the cluster has all batches that they name
//! ```
//!
//! Every addition is written with its partition and the number of the batch that it will be part of, so what a batch
//! was can be told again, in whatever order records lie. A batch is sent only when what it holds is written and, but
//! for the durability `none`, synced: the cluster never knows a batch that the journal does not, unless the machine
//! fails under `none`.
//!
//! A record has a mark and checksums; what does not fit is passed over, and said: at the end of a segment it is what a torn
//! write leaves. After opening
//! nothing is appended to what was found: a new segment begins. Segments are removed oldest first, so that what settles
//! an intent is never removed before it.

mod additions;
mod record;

use parking_lot::Mutex;
use std::io;
use std::sync::Arc;

use disk::log::{DAMAGED, SegmentWriter, keep_damaged};
use disk::{Blob, Device, is_lack, sync_error};
use event::Time;
use event_listener::{Event, Listener};
use hashbrown::{HashMap, HashSet};
use stats::{Durability, LedgerError};

pub(crate) use additions::{WalAddition, WalAdditions};
pub(crate) use record::{ClaimToken, WalRecord};
use record::{MAGIC, WalRecords, frame};

use crate::environment::Environment;

const PREFIX: &str = "wal-";
/// The files of a node's name: the second says what the first does.
const IDENTITIES: [&str; 2] = ["node", "node.copy"];

/// Returns the identity of a node for the cluster: the name under which a partition remembers its last batch. Made once, and
/// kept twice in the directory of the journal; a directory that is lost makes another node, and so do two damaged files where
/// nothing waits to be sent.
///
/// # Errors
/// The device's; [`io::ErrorKind::InvalidData`] if what is there is damaged.
pub fn identity(device: &dyn Device) -> io::Result<[u8; 16]> {
    let names = device.list()?;
    let (mut found, mut unsound) = (None, Vec::new());
    for name in IDENTITIES {
        match names.iter().any(|other| other == name).then(|| read(device, name)).transpose()? {
            Some(bytes) => match decode_identity(&bytes) {
                Some(id) => found = found.or(Some(id)),
                None => unsound.push((name, true)),
            },
            None => unsound.push((name, false)),
        }
    }
    let is_damaged = unsound.iter().any(|(_, is_damaged)| *is_damaged);
    let id = match found {
        Some(id) => id,
        None => {
            if is_damaged && is_pending(device, &names)? {
                let [one, other] = IDENTITIES;
                let why = format!(
                    "the name of this node is damaged (`{one}` and `{other}`), and the journal beside has additions that \
                     may not have been sent: put `{one}` back from a backup; or move the directory away, which loses them"
                );
                return Err(io::Error::new(io::ErrorKind::InvalidData, why));
            }
            let mut id = [0; 16];
            getrandom::fill(&mut id).map_err(|error| io::Error::other(error.to_string()))?;
            id
        }
    };
    let bytes = [&id[..], &crc32fast::hash(&id).to_le_bytes()].concat();
    for (name, is_damaged) in unsound {
        if is_damaged {
            tracing::error!(name, "the name of this node was damaged, is kept beside, and is written anew");
            keep_damaged(device, name)?;
        }
        device.replace(name, &bytes)?;
    }
    Ok(id)
}

fn decode_identity(bytes: &[u8]) -> Option<[u8; 16]> {
    let (id, sum) = bytes.split_first_chunk::<16>()?;
    (*sum == crc32fast::hash(id).to_le_bytes()).then_some(*id)
}

/// Returns true if the journal has anything that the cluster may not have.
fn is_pending(device: &dyn Device, names: &[String]) -> io::Result<bool> {
    let mut numbers: Vec<u64> = names.iter().filter_map(|name| number(name)).collect();
    numbers.sort_unstable();
    let is_pending = |record: &WalRecord| match record {
        WalRecord::Intent(..) => true,
        WalRecord::Addition { added, .. } => !added.is_empty(),
        _ => false,
    };
    let segments = sound(device, &numbers)?;
    Ok(segments.iter().any(|(_, records)| records.damaged > 0 || records.list.iter().any(is_pending)))
}

pub(crate) struct WalOptions {
    pub(crate) durability: Durability,
    pub(crate) segment_bytes: u64,
    pub(crate) partitions: usize,
}

pub(crate) struct WriteAheadLog {
    device: Arc<dyn Device>,
    environment: Arc<dyn Environment>,
    options: WalOptions,
    state: Mutex<WalState>,
    /// The file that is written to, while nobody does.
    file: Mutex<Option<(u64, SegmentWriter)>>,
    /// Notified when something was written, or cannot be.
    progress: Event,
    losses: WalLosses,
}

/// The parts that were not found as they were written when the journal was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct WalLosses {
    /// Numbers of segments that should be there: the first and the last of each gap.
    pub(crate) missing: Vec<(u64, u64)>,
    /// Segments of which bytes cannot be read, by name; how many, and the file in which the whole is kept.
    pub(crate) damaged: Vec<(String, u64, String)>,
}

impl WalLosses {
    /// Returns what is lost in a sentence, unless nothing is.
    pub(crate) fn sentence(&self) -> Option<String> {
        let missing = self.missing.iter().map(|(first, last)| match last - first {
            0 => format!("{} is missing", name(*first)),
            more => format!("{} and {more} after it are missing", name(*first)),
        });
        let damaged = self.damaged.iter().map(|(name, bytes, kept)| {
            format!("{bytes} bytes of {name} cannot be read, and the file is kept as {kept}")
        });
        let all: Vec<String> = missing.chain(damaged).collect();
        (!all.is_empty()).then(|| {
            format!(
                "the journal of what goes to the cluster is not as it was written: {}; what was in there and had not been sent \
                 is lost, all else is sent",
                all.join("; ")
            )
        })
    }
}

#[derive(Default)]
struct WalState {
    /// The bytes that are not written yet, by segment.
    chunks: Vec<(u64, Vec<u8>)>,
    /// Bytes since opening that were appended, written, synced; and up to where somebody waits for a sync.
    appended: u64,
    written: u64,
    synced: u64,
    wanted: u64,
    running: bool,
    /// The first segment that the writer has bytes for.
    writing: Option<u64>,
    /// The segments that are to be removed, in order, and whether anybody does.
    doomed: Vec<u64>,
    removing: bool,
    failed: Option<Arc<str>>,
    full: Option<Arc<str>>,
    /// Oldest first; the last is appended to.
    segments: Vec<WalSegment>,
    /// The latest batch of each partition that any record has named.
    latest: Vec<u64>,
    /// Intents that are not settled, and the segment of each.
    undecided: HashMap<ClaimToken, u64>,
    /// The segments of intents that are settled, each with a position that is only safe once what settles it is.
    settled: Vec<(u64, u64)>,
    /// The latest that any record has named.
    horizon: Option<Time>,
}

#[derive(Default)]
struct WalSegment {
    number: u64,
    bytes: u64,
    forms: HashSet<u32>,
    /// The latest batch of each partition that it names.
    needs: HashMap<u16, u64>,
}

impl WriteAheadLog {
    /// Opens what is there, tells its records, and begins a new segment.
    pub(crate) fn open(
        device: Arc<dyn Device>,
        environment: Arc<dyn Environment>,
        options: WalOptions,
        visit: &mut dyn FnMut(WalRecord),
    ) -> io::Result<WriteAheadLog> {
        let mut state = WalState { latest: vec![0; options.partitions], ..WalState::default() };
        let mut numbers: Vec<u64> = device.list()?.iter().filter_map(|name| number(name)).collect();
        numbers.sort_unstable();
        let mut losses = WalLosses::default();
        for (number, records) in sound(&*device, &numbers)? {
            if let Some(last) = state.segments.last().filter(|last| last.number + 1 < number) {
                losses.missing.push((last.number + 1, number - 1));
            }
            if records.damaged > 0 {
                let name = name(number);
                let kept = match kept_before(&*device, &name)? {
                    Some(kept) => kept,
                    None => keep_damaged(&*device, &name)?,
                };
                losses.damaged.push((name, records.damaged, kept));
            }
            let mut segment = WalSegment { number, bytes: records.bytes, ..WalSegment::default() };
            for record in records.list {
                state.note(&mut segment, &record);
                visit(record);
            }
            state.segments.push(segment);
        }
        // All of it was read from the disk.
        state.settled.clear();
        // What a checkpoint has made needless, and was not removed before a crash.
        for number in &numbers {
            if state.segments.first().is_some_and(|first| *number < first.number) {
                device.remove(&name(*number))?;
            }
        }
        let next = numbers.last().map_or(1, |last| last + 1);
        let journal = WriteAheadLog {
            device,
            environment,
            options,
            state: Mutex::new(state),
            file: Mutex::default(),
            progress: Event::new(),
            losses,
        };
        journal.state.lock().begin(next);
        Ok(journal)
    }

    /// Returns the losses, which are what was not as it was written.
    pub(crate) fn losses(&self) -> &WalLosses {
        &self.losses
    }

    /// The latest batch of each partition that a record has named.
    pub(crate) fn latest(&self) -> Vec<u64> {
        self.state.lock().latest.clone()
    }

    /// Adds a record, and answers up to where the journal has to be written for it. `form` tells the words of a form's
    /// definition. Waits for nothing.
    pub(crate) fn append(&self, record: &WalRecord, form: &dyn Fn(u32) -> Option<Vec<u64>>) -> u64 {
        let payload = record.encode();
        let mut state = self.state.lock();
        if state.segments.last().is_none_or(|last| last.bytes >= self.options.segment_bytes) {
            state.roll();
        }
        state.append(record, &payload, form);
        state.appended
    }

    /// Adds records that say all that earlier segments do. They can go when the journal is written so far.
    pub(crate) fn checkpoint(
        &self,
        records: &[WalRecord],
        form: &dyn Fn(u32) -> Option<Vec<u64>>,
    ) -> (u64, u64) {
        let payloads: Vec<Vec<u8>> = records.iter().map(WalRecord::encode).collect();
        let mut state = self.state.lock();
        state.roll();
        let number = state.segments.last().map_or(0, |segment| segment.number);
        for (record, payload) in records.iter().zip(&payloads) {
            state.append(record, payload, form);
        }
        state.append(&WalRecord::Checkpoint, &WalRecord::Checkpoint.encode(), form);
        (number, state.appended)
    }

    /// Waits until all up to a position is as safe as configured.
    pub(crate) async fn settled(self: &Arc<WriteAheadLog>, position: u64) -> Result<(), LedgerError> {
        match self.options.durability {
            Durability::Sync => self.wait(position, true).await,
            Durability::Interval(_) | Durability::None => self.check(),
        }
    }

    /// Waits until what was appended by now may be sent.
    pub(crate) async fn safe(self: &Arc<WriteAheadLog>) -> Result<(), LedgerError> {
        let position = self.state.lock().appended;
        self.wait(position, self.options.durability != Durability::None).await
    }

    /// Waits until what was appended by now is synced.
    pub(crate) async fn synced(self: &Arc<WriteAheadLog>) -> Result<(), LedgerError> {
        let position = self.state.lock().appended;
        self.wait(position, true).await
    }

    /// Waits until all up to a position is written, or synced.
    pub(crate) async fn wait(
        self: &Arc<WriteAheadLog>,
        position: u64,
        sync: bool,
    ) -> Result<(), LedgerError> {
        loop {
            let progress = self.progress.listen();
            {
                let mut state = self.state.lock();
                if position <= if sync { state.synced } else { state.written } {
                    return Ok(());
                }
                state.check()?;
                self.run(&mut state, if sync { position } else { 0 });
            }
            progress.await;
        }
    }

    /// Writes and syncs everything, and waits for it: on a thread that may block.
    pub(crate) fn sync(self: &Arc<WriteAheadLog>) -> Result<(), LedgerError> {
        loop {
            let progress = self.progress.listen();
            {
                let mut state = self.state.lock();
                if state.synced >= state.appended {
                    return Ok(());
                }
                state.check()?;
                let wanted = state.appended;
                self.run(&mut state, wanted);
            }
            progress.wait();
        }
    }

    /// Writes what is not written, and waits for nothing.
    pub(crate) fn kick(self: &Arc<WriteAheadLog>, sync: bool) {
        let mut state = self.state.lock();
        // Whether there is room again is found by trying.
        let wanted = if sync { state.appended } else { 0 };
        if state.failed.is_none() && (state.written < state.appended || state.synced < wanted) {
            self.run(&mut state, wanted);
        }
    }

    fn run(self: &Arc<WriteAheadLog>, state: &mut WalState, wanted: u64) {
        state.wanted = state.wanted.max(wanted);
        if !state.running {
            state.running = true;
            let journal = self.clone();
            self.environment.block(Box::new(move || journal.work()));
        }
    }

    /// Refuses additions after a failure, or while there is no room.
    pub(crate) fn check(&self) -> Result<(), LedgerError> {
        self.state.lock().check()
    }

    /// Bytes of all segments.
    pub(crate) fn bytes(&self) -> u64 {
        self.state.lock().segments.iter().map(|segment| segment.bytes).sum()
    }

    /// The writer's work, as long as there is any.
    fn work(&self) {
        loop {
            let (chunks, target, sync) = {
                let mut state = self.state.lock();
                let sync = state.wanted > state.synced;
                state.writing = state.chunks.first().map(|(number, _)| *number);
                if state.failed.is_some() || state.chunks.is_empty() && !sync {
                    state.running = false;
                    return;
                }
                (std::mem::take(&mut state.chunks), state.appended, sync)
            };
            let mut file = self.file.lock().take();
            let mut done = 0;
            let result = self.write(&chunks, &mut done, &mut file, sync);
            *self.file.lock() = file;
            let mut state = self.state.lock();
            state.writing = None;
            match result {
                Ok(()) => {
                    state.written = target;
                    if sync {
                        state.synced = target;
                    }
                    state.full = None;
                }
                Err(error) if is_lack(&error) => {
                    let mut rest: Vec<_> = chunks.into_iter().skip(done).collect();
                    rest.append(&mut state.chunks);
                    state.chunks = rest;
                    state.full = Some(error.to_string().into());
                    // Whoever asks again wants it again.
                    state.wanted = 0;
                    state.running = false;
                    drop(state);
                    self.progress.notify(usize::MAX);
                    return;
                }
                Err(error) => state.failed = Some(error.to_string().into()),
            }
            drop(state);
            self.progress.notify(usize::MAX);
        }
    }

    fn write(
        &self,
        chunks: &[(u64, Vec<u8>)],
        done: &mut usize,
        file: &mut Option<(u64, SegmentWriter)>,
        sync: bool,
    ) -> io::Result<()> {
        for (number, bytes) in chunks {
            if file.as_ref().is_none_or(|(open, _)| open != number) {
                if let Some((_, writer)) = file.take() {
                    writer.sync()?;
                }
                let name = name(*number);
                let blob = match self.device.create(&name) {
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => self.device.open(&name)?,
                    created => created?,
                };
                self.device.sync_names().map_err(sync_error)?;
                *file = Some((*number, SegmentWriter::new(blob)?));
            }
            let Some((_, writer)) = file else { continue };
            if let Err(error) = writer.append(&[bytes]) {
                if is_lack(&error) {
                    writer.cut(writer.size()).map_err(sync_error)?;
                }
                return Err(error);
            }
            *done += 1;
        }
        match file {
            Some((_, writer)) if sync => writer.sync(),
            _ => Ok(()),
        }
    }

    /// Removes the oldest segments as long as `has` says that of each partition no batch so early can be needed.
    pub(crate) fn trim(self: &Arc<WriteAheadLog>, has: &dyn Fn(u16) -> u64) {
        let mut state = self.state.lock();
        let safe = if self.options.durability == Durability::None { state.written } else { state.synced };
        state.settled.retain(|(position, _)| *position > safe);
        let settled = state.settled.iter().map(|(_, segment)| segment);
        let early = state.undecided.values().chain(settled).min().copied().unwrap_or(u64::MAX);
        let mut count = 0;
        for segment in state.segments.iter().rev().skip(1).rev() {
            let needed = segment.needs.iter().any(|(partition, number)| has(*partition) < *number);
            if needed || early <= segment.number {
                break;
            }
            count += 1;
        }
        self.remove(&mut state, count);
    }

    /// Removes all segments before this.
    pub(crate) fn trim_before(self: &Arc<WriteAheadLog>, number: u64) {
        let mut state = self.state.lock();
        let count = state.segments.iter().take_while(|segment| segment.number < number).count();
        self.remove(&mut state, count);
    }

    fn remove(self: &Arc<WriteAheadLog>, state: &mut WalState, count: usize) {
        // What is not written yet belongs to a file that would come back. The writer may never come to rest, so that nobody waits
        // for that.
        let waiting = state.chunks.first().map(|(number, _)| *number);
        let unwritten = state.writing.into_iter().chain(waiting).min().unwrap_or(u64::MAX);
        let numbers = state.segments[..count].iter().map(|segment| segment.number);
        let gone: Vec<u64> = numbers.take_while(|number| *number < unwritten).collect();
        if gone.is_empty() && state.doomed.is_empty() {
            return;
        }
        state.segments.drain(..gone.len());
        state.doomed.extend(gone);
        // One after the other: what settles an intent is not to go before it.
        if !std::mem::replace(&mut state.removing, true) {
            let journal = self.clone();
            self.environment.block(Box::new(move || journal.remove_doomed()));
        }
    }

    fn remove_doomed(&self) {
        loop {
            let doomed = {
                let mut state = self.state.lock();
                state.removing = !state.doomed.is_empty();
                if !state.removing {
                    return;
                }
                std::mem::take(&mut state.doomed)
            };
            for (at, number) in doomed.iter().enumerate() {
                if let Err(error) = self.device.remove(&name(*number))
                    && error.kind() != io::ErrorKind::NotFound
                {
                    tracing::warn!(%error, "a segment of the journal could not be removed: it is tried again");
                    let mut state = self.state.lock();
                    state.doomed.splice(..0, doomed[at..].iter().copied());
                    state.removing = false;
                    return;
                }
            }
            if let Err(error) = self.device.sync_names() {
                tracing::warn!(%error, "the journal's directory could not be synced");
            }
        }
    }

    /// Reads all that was appended by now.
    pub(crate) async fn reread(self: &Arc<WriteAheadLog>) -> Result<Vec<WalRecord>, LedgerError> {
        let position = self.state.lock().appended;
        self.wait(position, false).await?;
        let numbers: Vec<u64> = self.state.lock().segments.iter().map(|segment| segment.number).collect();
        let answer = Arc::new((Mutex::new(None), Event::new()));
        let (journal, told) = (self.clone(), answer.clone());
        self.environment.block(Box::new(move || {
            let read = sound(&*journal.device, &numbers);
            *told.0.lock() = Some(read);
            told.1.notify(usize::MAX);
        }));
        loop {
            let listener = answer.1.listen();
            if let Some(read) = answer.0.lock().take() {
                let segments =
                    read.map_err(|error| LedgerError::Poisoned { why: error.to_string().into() })?;
                return Ok(segments.into_iter().flat_map(|(_, records)| records.list).collect());
            }
            listener.await;
        }
    }
}

impl WalState {
    fn check(&self) -> Result<(), LedgerError> {
        match (&self.failed, &self.full) {
            (Some(why), _) => Err(LedgerError::Poisoned { why: why.clone() }),
            (None, Some(why)) => Err(LedgerError::Full { why: why.clone() }),
            (None, None) => Ok(()),
        }
    }

    /// Keeps in mind what a record means for how long its segment is needed.
    fn note(&mut self, segment: &mut WalSegment, record: &WalRecord) {
        match record {
            WalRecord::Form(form, _) => {
                segment.forms.insert(*form);
            }
            WalRecord::Numbers(numbers) => {
                for (latest, number) in self.latest.iter_mut().zip(numbers) {
                    *latest = (*latest).max(*number);
                }
            }
            WalRecord::Intent(token, _) => {
                self.undecided.insert(*token, segment.number);
            }
            WalRecord::Addition { had, refused, added } => {
                let segments = had.iter().chain(refused).filter_map(|token| self.undecided.remove(token));
                self.settled.extend(segments.map(|segment| (self.appended + 1, segment)));
                for (partition, number) in added.batches() {
                    let need = segment.needs.entry(partition.0).or_default();
                    *need = (*need).max(number);
                    if let Some(latest) = self.latest.get_mut(usize::from(partition.0)) {
                        *latest = (*latest).max(number);
                    }
                }
            }
            WalRecord::Horizon(time) => self.horizon = self.horizon.max(Some(*time)),
            WalRecord::Checkpoint => {}
        }
    }

    fn roll(&mut self) {
        let next = self.segments.last().map_or(1, |last| last.number + 1);
        self.begin(next);
    }

    fn begin(&mut self, number: u64) {
        self.segments.push(WalSegment { number, ..WalSegment::default() });
        self.chunks.push((number, MAGIC.to_vec()));
        self.account(MAGIC.len());
        let numbers = WalRecord::Numbers(self.latest.clone());
        self.append(&numbers, &numbers.encode(), &|_| None);
        if let Some(horizon) = self.horizon.map(WalRecord::Horizon) {
            self.append(&horizon, &horizon.encode(), &|_| None);
        }
    }

    fn append(&mut self, record: &WalRecord, payload: &[u8], form: &dyn Fn(u32) -> Option<Vec<u64>>) {
        let Some(mut segment) = self.segments.pop() else { return };
        let (mut bytes, start) = (Vec::new(), segment.bytes);
        if let WalRecord::Addition { added, .. } = record {
            for number in added.forms() {
                if segment.forms.insert(number) {
                    let words = form(number).unwrap_or_default();
                    let at = start + bytes.len() as u64;
                    frame(&WalRecord::Form(number, words).encode(), at, &mut bytes);
                }
            }
        }
        self.note(&mut segment, record);
        frame(payload, start + bytes.len() as u64, &mut bytes);
        match self.chunks.last_mut() {
            Some((number, chunk)) if *number == segment.number => chunk.extend_from_slice(&bytes),
            _ => self.chunks.push((segment.number, bytes.clone())),
        }
        self.segments.push(segment);
        self.account(bytes.len());
    }

    fn account(&mut self, bytes: usize) {
        self.appended += bytes as u64;
        if let Some(last) = self.segments.last_mut() {
            last.bytes += bytes as u64;
        }
    }
}

fn name(number: u64) -> String {
    format!("{PREFIX}{number:016x}")
}

fn number(name: &str) -> Option<u64> {
    u64::from_str_radix(name.strip_prefix(PREFIX).filter(|digits| digits.len() == 16)?, 16).ok()
}

fn read(device: &dyn Device, name: &str) -> io::Result<Vec<u8>> {
    disk::read_all(&*device.open(name)?, u64::MAX)
}

/// Returns the number of records that a segment's bytes are read as, for fuzzing.
#[doc(hidden)]
pub fn count_records(segment: Box<dyn Blob>) -> io::Result<usize> {
    Ok(WalRecords::read(segment)?.list.len())
}

/// The format that a segment says it has, if it is one of Tollhouse and not this one's. A flipped bit looks like that, too, but
/// then there are records.
fn other_format(magic: &[u8]) -> Option<&str> {
    let format = std::str::from_utf8(magic).ok()?;
    let is_one = format.strip_prefix("thwal")?.bytes().all(|byte| byte.is_ascii_digit());
    (is_one && format.as_bytes() != MAGIC).then_some(format)
}

/// The file that has a damaged segment's bytes already, from an earlier start.
fn kept_before(device: &dyn Device, name: &str) -> io::Result<Option<String>> {
    let bytes = read(device, name)?;
    for kept in device.list()?.into_iter().filter(|kept| kept.starts_with(name) && kept.ends_with(DAMAGED)) {
        if read(device, &kept)? == bytes {
            return Ok(Some(kept));
        }
    }
    Ok(None)
}

/// The segments of these numbers, from the last checkpoint on. One that was removed meanwhile is none.
fn sound(device: &dyn Device, numbers: &[u64]) -> io::Result<Vec<(u64, WalRecords)>> {
    let mut segments = Vec::new();
    for number in numbers {
        let blob = match device.open(&name(*number)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            blob => blob?,
        };
        let mut magic = [0; MAGIC.len()];
        disk::read_full(&*blob, 0, &mut magic)?;
        let records = WalRecords::read(blob)?;
        if let Some(format) = other_format(&magic).filter(|_| records.list.is_empty()) {
            let why = format!(
                "`{}` was written by another release (format {format}, this one reads {}): start that release, let it send \
                 what waits, stop it, and move the `wal-` files away",
                name(*number),
                String::from_utf8_lossy(MAGIC)
            );
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        if records.list.contains(&WalRecord::Checkpoint) {
            segments.clear();
        }
        segments.push((*number, records));
    }
    Ok(segments)
}

#[cfg(test)]
mod tests;
