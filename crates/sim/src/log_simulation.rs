//! The log alone: random groups, removals, crashes and failing disks, against a list of groups.

use std::collections::BTreeMap;
use std::sync::Arc;

use disk::MemoryDevice;
use store::log::{Log, LogOptions, LogRecord, Position, RecordKey, Recovery, StoreError, VisitedRecord};

use crate::LACKS;
use crate::simulation::{SimulationFailure, SimulationSummary, guarded};
use stats::random::Random;

/// Runs the simulation of a seed.
///
/// # Errors
/// The first answer that is wrong, or a panic.
pub fn simulate_log(seed: u64) -> Result<SimulationSummary, Box<SimulationFailure>> {
    let mut simulation = LogSimulation::new(seed);
    let done = guarded(|| simulation.run());
    match done {
        Ok(()) => Ok(simulation.tally),
        Err(what) => Err(Box::new(SimulationFailure { seed, what, trace: simulation.trace })),
    }
}

type LogStepResult = Result<(), String>;

/// A record; what is in it follows from its number.
#[derive(Clone, Copy)]
struct SimulatedRecord {
    id: u64,
    words: usize,
}

/// The certainty that a record went with its segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RecordRemoval {
    /// The removal failed.
    Maybe,
    Yes,
}

struct LogSimulation {
    random: Random,
    device: MemoryDevice,
    segment_bytes: u32,
    words_max: u64,
    read_bytes_max: Option<usize>,
    log: Option<Log>,
    /// Groups that may be found after a crash, in order; so many of the first are certain.
    groups: Vec<Vec<SimulatedRecord>>,
    durable: usize,
    removed: BTreeMap<u64, RecordRemoval>,
    positions: BTreeMap<u64, Position>,
    next: u64,
    floor: i64,
    floor_durable: i64,
    /// The disk has failed, or may have.
    suspect: bool,
    /// The medium itself has failed, so that it may stop.
    broken: bool,
    /// True once nothing may be written any more.
    failed: bool,
    tally: SimulationSummary,
    trace: Vec<String>,
}

impl LogSimulation {
    fn new(seed: u64) -> LogSimulation {
        let mut random = Random::new(seed);
        let segment_bytes = *random.pick(&[128, 300, 1000, 5000, 1 << 20]);
        let words_max = *random.pick(&[1, 8, 60, 400]);
        let read_bytes_max = random.one_in(3).then(|| 1 + random.below(100) as usize);
        let device = MemoryDevice::new();
        device.set_read_bytes_max(read_bytes_max);
        let about =
            format!("segments of {segment_bytes}, records of {words_max}, reads of {read_bytes_max:?}");
        LogSimulation {
            random,
            device,
            segment_bytes,
            words_max,
            read_bytes_max,
            log: None,
            groups: Vec::new(),
            durable: 0,
            removed: BTreeMap::new(),
            positions: BTreeMap::new(),
            next: 1,
            floor: i64::MIN,
            floor_durable: i64::MIN,
            suspect: false,
            broken: false,
            failed: false,
            tally: SimulationSummary { seeds: 1, ..SimulationSummary::default() },
            trace: vec![about],
        }
    }

    fn run(&mut self) -> LogStepResult {
        self.open()?;
        for _ in 0..20 + self.random.below(80) {
            self.tally.steps += 1;
            self.step()?;
        }
        self.restart(false)?;
        self.verify()
    }

    fn note(&mut self, step: String) {
        self.trace.push(format!("{}: {step}", self.tally.steps));
    }

    fn step(&mut self) -> LogStepResult {
        match self.random.below(100) {
            0..45 => self.group(),
            45..50 => {
                let floor = self.random.between(-1000, 1 << 40);
                self.note(format!("floor {floor}"));
                self.floor = self.floor.max(floor);
                self.log()?.raise_floor(floor);
                Ok(())
            }
            50..60 => self.read(),
            60..66 => self.remove(),
            66..70 => self.verify(),
            70..75 => self.restart(true),
            75..79 => self.restart(false),
            79..89 => self.crash(),
            89..93 => {
                let after = self.random.below(15);
                self.note(format!("fail after {after}"));
                self.device.fail_after(after);
                (self.suspect, self.broken) = (true, true);
                Ok(())
            }
            93..95 => {
                let room = self.random.below(3000);
                self.note(format!("room for {room}"));
                self.device.set_capacity(Some(self.device.used() + room));
                self.suspect = true;
                Ok(())
            }
            95 => {
                let number = *self.random.pick(&LACKS);
                self.note(format!("lack {number}"));
                self.device.set_lack(Some(number));
                self.suspect = true;
                Ok(())
            }
            96 => {
                self.note("syncs fail".to_owned());
                self.device.set_sync_fails(true);
                (self.suspect, self.broken) = (true, true);
                Ok(())
            }
            97..99 => {
                self.note("heal".to_owned());
                self.heal();
                Ok(())
            }
            _ => {
                self.note("seal".to_owned());
                let sealed = self.log()?.begin().and_then(|mut writer| {
                    writer.seal()?;
                    writer.commit(false)
                });
                match sealed {
                    Ok(()) if self.failed => Err("it went on after it had failed".to_owned()),
                    Ok(()) => Ok(()),
                    Err(error) => self.refused(&error),
                }
            }
        }
    }

    fn heal(&self) {
        self.device.heal();
        self.device.set_capacity(None);
        self.device.set_sync_fails(false);
        self.device.set_lack(None);
    }

    fn log(&self) -> Result<&Log, String> {
        self.log.as_ref().ok_or_else(|| "the log is not open".to_owned())
    }

    /// A group that was not written is as if it had never been; after another failure nothing is.
    fn refused(&mut self, error: &StoreError) -> LogStepResult {
        self.tally.refusals += 1;
        if !self.suspect {
            return Err(error.to_string());
        }
        let stops = !matches!(error, StoreError::Full { .. });
        if stops && !self.broken {
            return Err(format!("a mere lack stopped it: {error}"));
        }
        self.failed |= stops;
        Ok(())
    }

    fn group(&mut self) -> LogStepResult {
        let count = match self.random.below(8) {
            0 => 0,
            1 => self.random.below(60),
            _ => self.random.below(8),
        };
        let (sync, commit) = (self.random.one_in(3), !self.random.one_in(10));
        self.append(count, sync, commit)
    }

    fn append(&mut self, count: u64, sync: bool, commit: bool) -> LogStepResult {
        self.note(format!("{count} records from {}, sync {sync}, commit {commit}", self.next));
        let pieces: Vec<SimulatedRecord> = (self.next..self.next + count)
            .map(|id| SimulatedRecord { id, words: self.random.below(self.words_max + 1) as usize })
            .collect();
        self.next += count;
        let log = self.log.take().ok_or("the log is not open")?;
        let floor = log.floor();
        let mut positions = Vec::new();
        let mut write = || -> Result<(), StoreError> {
            let mut writer = log.begin()?;
            for piece in &pieces {
                let expires = self.random.between(0, 1 << 41);
                let position = writer.push(key(piece.id), tag(piece.id), expires, &content(*piece))?;
                positions.push((piece.id, position));
            }
            if commit { writer.commit(sync) } else { Ok(()) }
        };
        let written = write();
        let readable = positions.iter().all(|(_, position)| log.is_written(*position));
        self.log = Some(log);
        match written {
            Ok(()) if self.failed => Err("it went on after it had failed".to_owned()),
            Ok(()) if commit && !readable => Err("a committed record cannot be read".to_owned()),
            Ok(()) => {
                if commit {
                    self.groups.push(pieces);
                    self.positions.extend(positions);
                }
                if commit && sync {
                    self.durable = self.groups.len();
                    self.floor_durable = self.floor_durable.max(if count > 0 { floor } else { i64::MIN });
                }
                Ok(())
            }
            Err(error) => {
                if !matches!(error, StoreError::Full { .. } | StoreError::Failed(_)) {
                    self.groups.push(pieces);
                }
                self.refused(&error)
            }
        }
    }

    fn read(&mut self) -> LogStepResult {
        self.note("read".to_owned());
        let known: Vec<(u64, Position)> = self.positions.iter().map(|(id, at)| (*id, *at)).collect();
        if known.is_empty() {
            return Ok(());
        }
        let pieces: BTreeMap<u64, SimulatedRecord> =
            self.groups.iter().flatten().map(|piece| (piece.id, *piece)).collect();
        let wanted: Vec<(u64, Position)> = (0..10).map(|_| *self.random.pick(&known)).collect();
        let hinted: Vec<(Position, usize)> =
            wanted.iter().map(|(_, at)| (*at, self.random.below(20) as usize)).collect();
        let mut read = Vec::new();
        self.log()?.read_many(&hinted, &mut |index, record| read.push((index, record)));
        if read.len() != wanted.len() {
            return Err(format!("{} of {} records were read", read.len(), wanted.len()));
        }
        for (index, (at, hint)) in hinted.iter().enumerate() {
            read.push((index, self.log()?.read(*at, *hint)));
        }
        for (index, record) in read {
            self.tally.looks += 1;
            let (id, _) = wanted[index];
            let right = |record: &LogRecord| {
                let words = trimmed(content(pieces[&id]));
                record.key == key(id) && record.tag == tag(id) && record.words == words
            };
            if !record.as_ref().is_ok_and(right) {
                return Err(format!("record {id}: {record:?}"));
            }
        }
        Ok(())
    }

    fn remove(&mut self) -> LogStepResult {
        // Records count as long as there is a group behind them; a store's own later records are that.
        self.append(1, true, true)?;
        let segments = self.log()?.segments();
        let segment = *self.random.pick(&segments);
        self.note(format!("remove slot {}", segment.slot));
        let of_last = self.positions.last_key_value().is_some_and(|(_, at)| at.slot() == segment.slot);
        if segment.sealed && of_last {
            return Ok(());
        }
        let floor = self.log()?.floor();
        let removed = self.log()?.remove(segment.slot);
        let gone = match removed {
            Ok(removed) if removed != segment.sealed => return Err(format!("removal answered {removed}")),
            Ok(false) => return Ok(()),
            Ok(true) => {
                self.durable = self.groups.len();
                self.floor_durable = self.floor_durable.max(floor);
                RecordRemoval::Yes
            }
            Err(_) if self.suspect => {
                self.tally.refusals += 1;
                let failed = self.log()?.begin().is_err();
                self.failed |= failed;
                RecordRemoval::Maybe
            }
            Err(error) => return Err(error.to_string()),
        };
        let here = self.positions.extract_if(.., |_, at| at.slot() == segment.slot);
        self.removed.extend(here.map(|(id, _)| (id, gone)));
        Ok(())
    }

    fn verify(&mut self) -> LogStepResult {
        self.note("verify".to_owned());
        let found = self.log()?.verify(&mut |_, _| {}, &mut |_| {}).map_err(|error| error.to_string())?;
        // What a failure has left half written is no loss.
        if found.losses.is_empty() || self.failed { Ok(()) } else { Err(format!("{:?}", found.losses)) }
    }

    fn restart(&mut self, close: bool) -> LogStepResult {
        self.note(format!("restart, close {close}"));
        self.tally.restarts += 1;
        if close {
            match self.log()?.close() {
                Ok(()) => self.durable = self.groups.len(),
                Err(_) if self.suspect => {}
                Err(error) => return Err(format!("closing: {error}")),
            }
        }
        self.log = None;
        self.heal();
        self.open()
    }

    fn crash(&mut self) -> LogStepResult {
        self.tally.crashes += 1;
        let image = if self.random.one_in(3) {
            let kept = self.random.below(3000) as usize;
            self.note(format!("crash, {kept} bytes kept"));
            self.device.torn(kept)
        } else {
            let seed = self.random.bits();
            self.note(format!("crash {seed}"));
            self.device.crash(seed)
        };
        self.log = None;
        self.device = image;
        self.device.set_read_bytes_max(self.read_bytes_max);
        // The disk may fail, or the power, while it recovers.
        while self.random.one_in(3) {
            let after = self.random.below(12);
            self.device.fail_after(after);
            drop(self.recover());
            self.device.heal();
            let again = self.random.one_in(2);
            self.note(format!("recovery fails after {after}, crash {again}"));
            if again {
                self.device = self.device.crash(self.random.bits());
                self.device.set_read_bytes_max(self.read_bytes_max);
            }
        }
        self.open()
    }

    fn recover(&self) -> Result<(Log, Recovery, Vec<VisitedRecord>), StoreError> {
        let mut visits = Vec::new();
        let options = LogOptions { segment_bytes: self.segment_bytes };
        let (log, recovery) =
            Log::open(Arc::new(self.device.clone()), options, &mut |visit| visits.push(*visit))?;
        Ok((log, recovery, visits))
    }

    /// Opens what is on the disk, and finds out how many groups there are.
    fn open(&mut self) -> LogStepResult {
        let (log, recovery, visits) = self.recover().map_err(|error| format!("opening: {error}"))?;
        if !recovery.losses.is_empty() {
            return Err(format!("losses: {:?}", recovery.losses));
        }
        if !(self.floor_durable..=self.floor).contains(&recovery.floor) {
            return Err(format!("floor {} of {}..={}", recovery.floor, self.floor_durable, self.floor));
        }
        let Some(count) = (self.durable..=self.groups.len()).rev().find(|count| self.holds(*count, &visits))
        else {
            let found: Vec<u64> = visits.iter().map(|visit| visit.key.shingle).collect();
            let ids = |group: &Vec<SimulatedRecord>| group.iter().map(|piece| piece.id).collect();
            let groups: Vec<Vec<u64>> = self.groups.iter().map(ids).collect();
            return Err(format!(
                "found {found:?}, expected {} groups or more of {groups:?} without {:?}; {recovery:?}",
                self.durable, self.removed
            ));
        };
        self.groups.truncate(count);
        self.durable = count;
        self.positions = visits.iter().map(|visit| (visit.key.shingle, visit.position)).collect();
        let positions = &self.positions;
        self.removed.retain(|id, gone| {
            let stays = *gone == RecordRemoval::Yes || !positions.contains_key(id);
            *gone = RecordRemoval::Yes;
            stays
        });
        (self.floor, self.floor_durable) = (recovery.floor, recovery.floor);
        (self.suspect, self.broken, self.failed) = (false, false, false);
        self.log = Some(log);
        Ok(())
    }

    /// Returns true if the records are those of the first groups, in order, but for removed ones.
    fn holds(&self, count: usize, visits: &[VisitedRecord]) -> bool {
        let mut rest = visits;
        for piece in self.groups[..count].iter().flatten() {
            let words = trimmed(content(*piece)).len();
            match (rest.split_first(), self.removed.get(&piece.id)) {
                (_, Some(RecordRemoval::Yes)) => {}
                (Some((visit, tail)), _) if visit.key == key(piece.id) && visit.words == words => rest = tail,
                (_, Some(RecordRemoval::Maybe)) => {}
                (_, None) => return false,
            }
        }
        rest.is_empty()
    }
}

fn key(id: u64) -> RecordKey {
    RecordKey { space: id as u16, kind: 7, shingle: id }
}

fn tag(id: u64) -> u16 {
    id as u16 & 0x7fff
}

/// Zero words among them, at the end too.
fn content(piece: SimulatedRecord) -> Vec<u64> {
    let mut random = Random::new(piece.id);
    (0..piece.words).map(|_| if random.one_in(3) { 0 } else { random.bits() | 1 }).collect()
}

fn trimmed(mut words: Vec<u64>) -> Vec<u64> {
    while words.last() == Some(&0) {
        words.pop();
    }
    words
}
