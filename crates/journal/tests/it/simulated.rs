//! The journal on a disk that fails, fills up and loses its power, as a seed says. What was acknowledged is there again, once
//! and as it was; what was not is there once or not at all.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use disk::{Device, MemoryDevice};
use event::{Span, Time};
use journal::{Journal, JournalArchive, JournalError, Options, Record, RecordId, ReportRecord, SkippedData};
use sim::{LACKS, Random, SimulationFailure, SimulationSummary};
use stats::Durability;

const NOW: Time = Time::from_seconds(1_700_000_000);
const SECRET: u64 = 7;

/// A record; all of it follows from its number.
fn record(number: u64) -> (RecordId, Time, Record) {
    let mut random = Random::new(number);
    let words = *random.pick(&[0, 3, 20, 400]);
    let class: String = (0..words).map(|_| format!("{:x}", random.bits())).collect();
    let report = ReportRecord::judgement(RecordId(number), class, NOW);
    (RecordId(number), NOW + Span(number as i64), Record::Report(report))
}

struct JournalSimulation {
    random: Random,
    device: MemoryDevice,
    options: Options,
    durability: Durability,
    journal: Option<Journal>,
    /// Records that are there whatever happens.
    safe: BTreeSet<u64>,
    /// Records that were taken, and are safe after the next sync.
    taken: BTreeSet<u64>,
    /// Records that were refused: parts of what an append was given may have been taken before.
    refused: BTreeSet<u64>,
    next: u64,
    /// The disk lacks something, or has failed.
    is_suspect: bool,
    /// True if the disk has lacked something, or has failed, since the journal was opened: a segment may wait for its turn to
    /// become columns.
    was_suspect: bool,
    /// The medium itself has failed, so that the journal may stop.
    is_broken: bool,
    summary: SimulationSummary,
    trace: Vec<String>,
}

type StepResult = Result<(), String>;

fn simulate(seed: u64) -> Result<SimulationSummary, Box<SimulationFailure>> {
    let mut random = Random::new(seed);
    let segment = *random.pick(&[200, 2 << 10, 20 << 10, 1 << 20]);
    let durability = *random.pick(&[
        Durability::Sync,
        Durability::Sync,
        Durability::Interval(Span(5_000)),
        Durability::None,
    ]);
    let mut simulation = JournalSimulation {
        random,
        device: MemoryDevice::new(),
        options: Options { segment, rotate: Span::days(1), keep: Span::days(30), keep_bytes: 1 << 40 },
        durability,
        journal: None,
        safe: BTreeSet::new(),
        taken: BTreeSet::new(),
        refused: BTreeSet::new(),
        next: 1,
        is_suspect: false,
        was_suspect: false,
        is_broken: false,
        summary: SimulationSummary { seeds: 1, ..SimulationSummary::default() },
        trace: vec![format!("segments of {segment}, {durability:?}")],
    };
    match simulation.run() {
        Ok(()) => Ok(simulation.summary),
        Err(what) => Err(Box::new(SimulationFailure { seed, what, trace: simulation.trace })),
    }
}

impl JournalSimulation {
    fn run(&mut self) -> StepResult {
        self.open()?;
        for _ in 0..10 + self.random.below(40) {
            self.summary.steps += 1;
            self.step()?;
        }
        self.restart()?;
        self.rot()
    }

    fn note(&mut self, step: String) {
        self.trace.push(format!("{}: {step}", self.summary.steps));
        self.was_suspect |= self.is_suspect;
    }

    fn journal(&self) -> Result<&Journal, String> {
        self.journal.as_ref().ok_or_else(|| "the journal is not open".to_owned())
    }

    fn step(&mut self) -> StepResult {
        match self.random.below(100) {
            0..50 => self.append(),
            50..57 => self.sync(),
            57..65 => self.find(),
            65..70 => self.restart(),
            70..82 => self.crash(),
            82..85 => {
                let after = self.random.below(25);
                self.note(format!("fail after {after}"));
                self.device.fail_after(after);
                (self.is_suspect, self.is_broken) = (true, true);
                Ok(())
            }
            85..89 => {
                let room = self.random.below(6000);
                self.note(format!("room for {room}"));
                self.device.set_capacity(Some(self.device.used() + room));
                self.is_suspect = true;
                Ok(())
            }
            89..92 => {
                let number = *self.random.pick(&LACKS);
                self.note(format!("lack {number}"));
                self.device.set_lack(Some(number));
                self.is_suspect = true;
                Ok(())
            }
            92 => {
                self.note("syncs fail".to_owned());
                self.device.set_sync_fails(true);
                (self.is_suspect, self.is_broken) = (true, true);
                Ok(())
            }
            93..98 => self.mend(),
            _ if self.is_suspect || self.was_suspect => Ok(()),
            _ => {
                self.note("settle".to_owned());
                self.journal()?.settle();
                Ok(())
            }
        }
    }

    fn heal(&self) {
        self.device.heal();
        self.device.set_capacity(None);
        self.device.set_sync_fails(false);
        self.device.set_lack(None);
    }

    /// Brings back what was lacking: unless the medium has failed the journal goes on by itself, and keeps what it has taken.
    fn mend(&mut self) -> StepResult {
        self.note("heal".to_owned());
        self.heal();
        if !self.is_broken {
            while self.journal()?.census().full {
                std::thread::yield_now();
            }
            self.is_suspect = false;
        }
        Ok(())
    }

    /// After a mere lack the journal must not stop.
    fn refusal(&mut self, error: &JournalError) -> StepResult {
        self.summary.refusals += 1;
        let stops = match error {
            JournalError::Full(_) => false,
            JournalError::Io { error, .. } => !disk::is_lack(error),
            _ => true,
        };
        if self.is_broken || (self.is_suspect && !stops) { Ok(()) } else { Err(format!("refused: {error}")) }
    }

    fn append(&mut self) -> StepResult {
        let numbers = self.next..self.next + 1 + self.random.below(6);
        self.note(format!("append {numbers:?}"));
        self.next = numbers.end;
        let records: Vec<_> = numbers.clone().map(record).collect();
        let appended = pollster::block_on(self.journal()?.append(&records));
        match (appended, self.durability) {
            (Ok(()), Durability::Sync) => self.safe.extend(numbers),
            (Ok(()), _) => self.taken.extend(numbers),
            (Err(error), _) => {
                self.refused.extend(numbers);
                self.refusal(&error)?;
            }
        }
        Ok(())
    }

    fn sync(&mut self) -> StepResult {
        self.note("sync".to_owned());
        match self.journal()?.sync() {
            Ok(()) => self.safe.append(&mut self.taken),
            Err(error) => self.refusal(&error)?,
        }
        Ok(())
    }

    fn find(&mut self) -> StepResult {
        let known: Vec<u64> = self.safe.iter().copied().collect();
        if known.is_empty() {
            return Ok(());
        }
        let number = *self.random.pick(&known);
        self.note(format!("find {number}"));
        self.summary.looks += 1;
        match self.journal()?.find(RecordId(number)) {
            Ok(found) if found.as_ref() == Some(&record(number).2) => Ok(()),
            Ok(found) => Err(format!("record {number} is {found:?}")),
            Err(_) if self.is_suspect => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    }

    fn restart(&mut self) -> StepResult {
        self.note("restart".to_owned());
        self.summary.restarts += 1;
        match self.journal()?.close() {
            Ok(()) => self.safe.append(&mut self.taken),
            Err(error) => self.refusal(&error)?,
        }
        self.journal = None;
        self.heal();
        self.open()
    }

    fn crash(&mut self) -> StepResult {
        self.summary.crashes += 1;
        let seed = self.random.bits();
        self.note(format!("crash {seed}"));
        let image = if self.random.one_in(3) {
            self.device.torn((seed % 5000) as usize)
        } else {
            self.device.crash(seed)
        };
        self.heal();
        self.journal = None;
        self.device = image;
        // The disk may fail, or the power, while it is opened.
        while self.random.one_in(3) {
            let after = self.random.below(8);
            self.device.fail_after(after);
            drop(self.opened());
            self.device.heal();
            let again = self.random.one_in(2);
            self.note(format!("opening fails after {after}, crash {again}"));
            if again {
                self.device = self.device.crash(self.random.bits());
            }
        }
        self.open()
    }

    fn opened(&self) -> Result<Journal, JournalError> {
        Journal::over(Arc::new(self.device.clone()), self.options, self.durability, SECRET)
    }

    /// Opens what is on the disk, and looks what there is.
    fn open(&mut self) -> StepResult {
        let journal = self.opened().map_err(|error| format!("opening: {error}"))?;
        if let Some(sentence) = journal.losses().sentence() {
            return Err(sentence);
        }
        let (found, skipped) = self.found()?;
        if !skipped.is_empty() {
            return Err(skipped.to_string());
        }
        let lost: Vec<&u64> = self.safe.iter().filter(|number| !found.contains_key(number)).collect();
        if !lost.is_empty() {
            return Err(format!("{lost:?} are lost"));
        }
        // What is not there now never comes back.
        for (number, count) in found {
            let is_known =
                [&self.safe, &self.taken, &self.refused].iter().any(|known| known.contains(&number));
            if count > 1 || !is_known {
                return Err(format!("record {number} is there {count} times"));
            }
            self.safe.insert(number);
        }
        self.taken.clear();
        self.refused.clear();
        (self.is_suspect, self.was_suspect, self.is_broken) = (false, false, false);
        self.journal = Some(journal);
        Ok(())
    }

    /// Counts how often each record is there, and collects what is damaged.
    fn found(&self) -> Result<(BTreeMap<u64, u64>, SkippedData), String> {
        let mut found: BTreeMap<u64, u64> = BTreeMap::new();
        let mut other = None;
        let archive =
            JournalArchive::over(Arc::new(self.device.clone())).map_err(|error| error.to_string())?;
        let scanned = archive.scan(|id, read| {
            if read != record(id.0).2 {
                other = Some(id.0);
            }
            *found.entry(id.0).or_default() += 1;
            true
        });
        let skipped = scanned.map_err(|error| error.to_string())?;
        match other {
            None => Ok((found, skipped)),
            Some(number) => Err(format!("record {number} has changed")),
        }
    }

    /// One byte of one segment flips: it costs a block, which is said, and the journal opens.
    fn rot(&mut self) -> StepResult {
        self.journal()?.close().map_err(|error| error.to_string())?;
        self.journal = None;
        let names = self.device.list().map_err(|error| error.to_string())?;
        let is_segment = |name: &String| name.ends_with(".journal") || name.ends_with(".parquet");
        let segments: Vec<String> = names.into_iter().filter(is_segment).collect();
        if segments.is_empty() {
            return Ok(());
        }
        let name = self.random.pick(&segments).clone();
        let at = self.random.below(self.device.read(&name).map_or(1, |bytes| bytes.len() as u64)) as usize;
        self.note(format!("byte {at} of {name} flips"));
        self.summary.flips += 1;
        self.device.flip(&name, at, 1 << self.random.below(8));
        let journal = self.opened().map_err(|error| format!("opening: {error}"))?;
        let (found, skipped) = self.found()?;
        let lost: Vec<u64> = self.safe.iter().copied().filter(|number| !found.contains_key(number)).collect();
        let kept_between =
            lost.first().zip(lost.last()).map_or(0, |(first, last)| found.range(first..last).count());
        if kept_between > 0 {
            return Err(format!("more than a block is lost: {lost:?}"));
        }
        let losses = journal.losses();
        let is_stated = losses.sentence().is_some() || losses.torn.is_some() || !skipped.is_empty();
        if lost.is_empty() || is_stated { Ok(()) } else { Err(format!("{lost:?} are lost in silence")) }
    }
}

#[test]
fn what_was_acknowledged_outlives_faults_and_crashes() {
    const FEW: u64 = 30;
    let asked = std::env::var("SEEDS").ok();
    let seeds =
        asked.as_deref().map_or(Some(0..FEW), sim::seeds).expect("SEEDS is `first..end`, or one seed");
    let summary = sim::run(seeds, 2, simulate).unwrap_or_else(|failure| panic!("{failure}"));
    // What is not done is not tested.
    let done = [summary.looks, summary.restarts, summary.crashes, summary.refusals, summary.flips];
    assert!(asked.is_some() || done.iter().all(|count| *count > 0), "{summary:?}");
}
