//! One simulation: a seed chooses the configuration, the load and what goes wrong, and every answer is compared with
//! the model's.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use disk::{Device, MemoryDevice};

use crate::LACKS;
use crate::home::{DurabilityPromise, HomeRefusal, HomeSettings, SimulatedHome};
use crate::oracle::{
    LedgerOracle, OracleAddition, OracleKey, OracleObservation, OracleOutcome, OracleReading, OracleRequest,
    OracleTimeline,
};
use crate::spec::{self, COUNTERS_MAX, StatisticSpec};
use stats::random::Random;
use stats::workload::{KeyDistribution, KeySource};

/// Steps that a failure shows.
const TRACE: usize = 400;
/// States that a crash may leave; beyond so many a simulation restarts cleanly.
const POSSIBLE_MAX: usize = 400;

/// The summary of what simulations did, to be seen that they do it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SimulationSummary {
    /// Simulations.
    pub seeds: u64,
    /// Steps of them.
    pub steps: u64,
    /// Looks at keys, each compared.
    pub looks: u64,
    /// Clean restarts.
    pub restarts: u64,
    /// Crashes, those while a disk failed included.
    pub crashes: u64,
    /// Requests and maintenance that a failing disk refused.
    pub refusals: u64,
    /// Times that bits flipped on the disk.
    pub flips: u64,
}

impl SimulationSummary {
    /// Adds another's.
    pub fn add(&mut self, other: &SimulationSummary) {
        self.seeds += other.seeds;
        self.steps += other.steps;
        self.looks += other.looks;
        self.restarts += other.restarts;
        self.crashes += other.crashes;
        self.refusals += other.refusals;
        self.flips += other.flips;
    }
}

/// A simulation that did not go as it must.
#[derive(Clone, Debug)]
pub struct SimulationFailure {
    /// The seed that the simulation replays by.
    pub seed: u64,
    /// The description of what was wrong.
    pub what: String,
    /// The configuration and the last steps.
    pub trace: Vec<String>,
}

impl std::fmt::Display for SimulationFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let SimulationFailure { seed, what, trace } = self;
        trace.iter().try_for_each(|step| writeln!(f, "  {step}"))?;
        writeln!(f, "seed {seed}: {what}")?;
        write!(f, "replay: SEEDS={seed} cargo test -p tollhouse-sim")
    }
}

impl std::error::Error for SimulationFailure {}

/// Runs the simulation of a seed.
///
/// # Errors
/// The first answer that is wrong, or a panic.
pub fn simulate(seed: u64) -> Result<SimulationSummary, Box<SimulationFailure>> {
    let mut simulation = LedgerSimulation::new(seed);
    let done = guarded(|| simulation.run());
    match done {
        Ok(()) => Ok(simulation.tally),
        Err(what) => {
            Err(Box::new(SimulationFailure { seed, what, trace: simulation.trace.into_iter().collect() }))
        }
    }
}

/// Returns the answer of `run`, or that it panicked.
pub(crate) fn guarded(run: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        Err(format!("panicked: {}", text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("?")))
    })
}

#[derive(Clone, Debug)]
enum SimulationStep {
    Observe(Vec<OracleRequest>),
    Tick(i64),
    Maintain(i64),
    /// Batches of several callers at once.
    Parallel(Vec<Vec<OracleRequest>>),
    Check,
    Hottest {
        kind: usize,
        window: usize,
        counter: usize,
        limit: usize,
    },
    Restart,
    Crash(u64),
    /// The disk lets so many more changes through.
    Fail(u64),
    /// The disk has room for so many more bytes.
    Fill(u64),
    /// The disk syncs nothing.
    FailSyncs,
    /// No file is created or opened, for want of something: the error's number.
    Lack(i32),
    /// All of that ends.
    Heal,
    /// Bits on the disk flip, while the ledger is open or before it is opened again.
    Flip {
        bits: u64,
        closed: bool,
    },
}

/// The frequency of each step; a seed leaves some out, so that combinations come that an even mix never has.
struct LoadProfile {
    weights: [(u64, StepKind); 15],
    keys: KeyDistribution,
    /// Looks of a request, requests of a batch, at most.
    looks: u64,
    asks: u64,
    /// Few values make distinct counts meet again.
    values: u64,
    steps: u64,
}

#[derive(Clone, Copy)]
enum StepKind {
    Observe,
    Tick,
    Leap,
    Maintain,
    Parallel,
    Check,
    Hottest,
    Restart,
    Crash,
    Fail,
    Fill,
    FailSyncs,
    Lack,
    Heal,
    Flip,
}

/// The state of the disk since the ledger was opened, each worse than the one before. Mending the disk mends no open ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum DiskState {
    /// All is well.
    Sound,
    /// The disk has lacked something, or may have: additions may be refused until there is room.
    Lacking,
    /// The medium itself has failed, or may have, so that the ledger may stop.
    Broken,
    /// Additions were refused for good, so they must be until the ledger is reopened.
    Stopped,
}

/// The damage that flipped bits have done, each worse than the one before. None of it is ever undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum BitRot {
    /// No bits were flipped.
    Absent,
    /// Bits were flipped: answers are right or said to be missing. Of what was said to be missing any part may be told from
    /// then on, and nothing is invented.
    Flipped,
    /// The ledger said that it found damage when it was opened, or it is not known which state a crash left: all may be lost.
    Doubtful,
    /// The ledger refused to open what is left.
    Fatal,
}

struct LedgerSimulation {
    random: Random,
    kinds: Arc<Vec<StatisticSpec>>,
    settings: HomeSettings,
    style: LoadProfile,
    keys: KeySource,
    device: MemoryDevice,
    /// Most bytes that one read answers.
    read_bytes_max: Option<usize>,
    home: Option<SimulatedHome>,
    now: i64,
    /// The models of what the ledger holds. Several after a crash that left one of states that look the same: a pair's mark
    /// is not seen before its value comes again. Answers then tell which it is.
    models: Vec<LedgerOracle>,
    /// The states that a crash may leave: those since the last one that is certainly on disk.
    possible: Vec<LedgerOracle>,
    /// The latest time that the ledger was maintained at, in vain or not.
    maintained: i64,
    /// Every key that ever was asked for.
    seen: BTreeSet<OracleKey>,
    /// The amounts that were ever added to a key, whatever became of them.
    ever: BTreeMap<OracleKey, [u64; COUNTERS_MAX]>,
    disk: DiskState,
    rot: BitRot,
    /// Keys that were said to be missing.
    lost: BTreeSet<OracleKey>,
    tally: SimulationSummary,
    trace: VecDeque<String>,
}

type StepResult = Result<(), String>;

impl LedgerSimulation {
    fn new(seed: u64) -> LedgerSimulation {
        let mut random = Random::new(seed);
        let kinds = Arc::new(spec::random_kinds(&mut random));
        let promise = *random.pick(&[
            DurabilityPromise::Sync,
            DurabilityPromise::Interval,
            DurabilityPromise::Interval,
            DurabilityPromise::None,
            DurabilityPromise::Memory,
        ]);
        let read_bytes_max = random.one_in(3).then(|| 1 + random.below(60) as usize);
        let device = MemoryDevice::new();
        device.set_read_bytes_max(read_bytes_max);
        let settings = HomeSettings {
            promise,
            memory_bytes: *random.pick(&[0, 1 << 10, 4 << 10, 64 << 10, 64 << 20]),
            segment_bytes: *random.pick(&[1_000, 2_000, 8_000, 1 << 20]),
        };
        let style = LoadProfile::random(&mut random);
        let start = match random.below(4) {
            0 => random.between(-1_000_000_000, 1_000_000_000),
            _ => 1_790_000_000_000_000,
        };
        let model = LedgerOracle::new(kinds.clone());
        let trace = VecDeque::from([format!("{settings:?} {:?}", style.keys), format!("{kinds:?}")]);
        LedgerSimulation {
            keys: KeySource::new(style.keys),
            random,
            settings,
            style,
            device,
            read_bytes_max,
            home: None,
            now: start,
            possible: vec![model.clone()],
            models: vec![model],
            kinds,
            maintained: i64::MIN,
            seen: BTreeSet::new(),
            ever: BTreeMap::new(),
            disk: DiskState::Sound,
            rot: BitRot::Absent,
            lost: BTreeSet::new(),
            tally: SimulationSummary { seeds: 1, ..SimulationSummary::default() },
            trace,
        }
    }

    fn run(&mut self) -> StepResult {
        self.home = Some(self.open()?);
        for number in 0..self.style.steps {
            let step = self.choose();
            if self.trace.len() >= TRACE {
                self.trace.remove(2);
            }
            self.trace.push_back(format!("{number} at {}: {step:?}", self.now));
            self.tally.steps += 1;
            self.take(step)?;
            if self.rot == BitRot::Fatal {
                return Ok(());
            }
        }
        self.check_all()?;
        Ok(())
    }

    fn choose(&mut self) -> SimulationStep {
        if self.possible.len() > POSSIBLE_MAX && self.disk < DiskState::Stopped {
            return SimulationStep::Restart;
        }
        // A stopped ledger is looked at for a while.
        if self.disk == DiskState::Stopped && self.random.one_in(3) {
            return if self.random.one_in(2) {
                SimulationStep::Restart
            } else {
                SimulationStep::Crash(self.random.bits())
            };
        }
        let total = self.style.weights.iter().map(|(weight, _)| weight).sum();
        let mut drawn = self.random.below(total);
        let chosen = self.style.weights.iter().find(|(weight, _)| {
            let found = drawn < *weight;
            drawn = drawn.saturating_sub(*weight);
            found
        });
        let disk = self.settings.promise != DurabilityPromise::Memory;
        match chosen.map_or(StepKind::Observe, |(_, kind)| *kind) {
            StepKind::Restart if disk => SimulationStep::Restart,
            StepKind::Crash if disk => SimulationStep::Crash(self.random.bits()),
            StepKind::Fail if disk => SimulationStep::Fail(self.random.below(12)),
            StepKind::Fill if disk => SimulationStep::Fill(self.random.below(2000)),
            StepKind::FailSyncs if disk => SimulationStep::FailSyncs,
            StepKind::Lack if disk => SimulationStep::Lack(*self.random.pick(&LACKS)),
            StepKind::Heal if disk => SimulationStep::Heal,
            StepKind::Flip if disk => {
                SimulationStep::Flip { bits: 1 + self.random.below(3), closed: self.random.one_in(3) }
            }
            StepKind::Tick => SimulationStep::Tick(self.random.between(0, 60_000_000)),
            StepKind::Leap => SimulationStep::Tick(match self.random.below(4) {
                0 => -self.random.between(0, 86_400_000_000),
                1 => self.random.between(0, 400 * 86_400_000_000),
                _ => self.random.between(0, 86_400_000_000),
            }),
            StepKind::Maintain => {
                SimulationStep::Maintain(self.now + self.random.between(-100_000_000, 10_000_000))
            }
            StepKind::Parallel if self.disk == DiskState::Sound && !self.is_rotten() => {
                let callers = 2 + self.random.below(2);
                SimulationStep::Parallel((0..callers).map(|_| self.share()).collect())
            }
            StepKind::Hottest => {
                // Of a distinct count it sums trailing windows, readings sum whole periods: no model of that here.
                let kind = self.random.below(2) as usize;
                let windows = self.kinds[kind].sums().len() as u64;
                let counter = self.random.below(self.kinds[kind].counters() as u64) as usize;
                let limit = self.random.below(12) as usize;
                match windows {
                    0 => SimulationStep::Check,
                    _ => SimulationStep::Hottest {
                        kind,
                        window: self.random.below(windows) as usize,
                        counter,
                        limit,
                    },
                }
            }
            StepKind::Check => SimulationStep::Check,
            _ => self.batch(),
        }
    }

    fn batch(&mut self) -> SimulationStep {
        let asks = 1 + self.random.below(self.style.asks);
        SimulationStep::Observe((0..asks).map(|_| self.ask()).collect())
    }

    /// Requests whose effect does not depend on what comes between them: a cell is a function of the set of its events,
    /// but a mark, or a value whose period is forgotten, counts for who came first.
    fn share(&mut self) -> Vec<OracleRequest> {
        let mut asks: Vec<OracleRequest> = (0..1 + self.random.below(40)).map(|_| self.ask()).collect();
        for ask in &mut asks {
            ask.mark = None;
            ask.looks.iter_mut().for_each(|look| look.time = self.now);
        }
        asks
    }

    fn ask(&mut self) -> OracleRequest {
        // Once in a while one key many times.
        let (count, same) = match self.random.below(60) {
            0 => (self.random.below(200), Some(self.keys.draw(&mut self.random))),
            _ => (self.random.below(self.style.looks + 1), None),
        };
        let looks = (0..count).map(|_| self.look(same)).collect();
        let mark = self.random.one_in(3).then(|| (self.random.below(30), self.time(3)));
        OracleRequest { mark, looks }
    }

    fn look(&mut self, same: Option<u64>) -> OracleObservation {
        let kind = match same {
            Some(_) => 0,
            None => self.random.below(3) as usize,
        };
        let number = same.unwrap_or_else(|| self.keys.draw(&mut self.random));
        let time = self.time(kind);
        let add = if self.random.one_in(8) {
            OracleAddition::Nothing
        } else if kind == 2 {
            OracleAddition::Distinct(self.random.below(self.style.values))
        } else {
            let counters = self.kinds[kind].counters() as u64;
            let amounts = 0..self.random.below(counters + 2);
            let amount = |random: &mut Random| match random.below(50) {
                0 => u64::MAX - random.below(2),
                _ => random.below(4),
            };
            OracleAddition::Counters(
                amounts.map(|_| (self.random.below(counters) as u8, amount(&mut self.random))).collect(),
            )
        };
        OracleObservation { kind, number, time, add }
    }

    /// Mostly now; late and future ones too.
    fn time(&mut self, kind: usize) -> i64 {
        let (fine, longest) = {
            let kind = &self.kinds[kind];
            (kind.fine(), kind.coarse().unwrap_or(kind.fine()))
        };
        self.now
            + match self.random.below(20) {
                0..12 => 0,
                12..15 => -self.random.between(0, 2 * fine.width),
                15..17 => -self.random.between(0, 2 * fine.span()),
                17 => -self.random.between(0, 3 * longest.span()),
                18 => self.random.between(0, 3 * fine.width),
                _ => self.random.between(-1 << 50, longest.span()),
            }
    }

    fn take(&mut self, step: SimulationStep) -> StepResult {
        match step {
            SimulationStep::Observe(asks) => self.observe(&asks),
            SimulationStep::Tick(by) => {
                self.now += by;
                Ok(())
            }
            SimulationStep::Maintain(now) => self.maintain(now),
            SimulationStep::Parallel(shares) => self.parallel(&shares),
            SimulationStep::Check => self.check_some(),
            SimulationStep::Hottest { kind, window, counter, limit } => {
                self.hottest(kind, window, counter, limit)
            }
            SimulationStep::Restart => self.restart(),
            SimulationStep::Crash(seed) => self.crash(seed),
            SimulationStep::Fail(after) => {
                self.device.fail_after(after);
                self.worsen(DiskState::Broken);
                Ok(())
            }
            SimulationStep::Fill(room) => {
                self.device.set_capacity(Some(self.device.used() + room));
                self.worsen(DiskState::Lacking);
                Ok(())
            }
            SimulationStep::FailSyncs => {
                self.device.set_sync_fails(true);
                self.worsen(DiskState::Broken);
                Ok(())
            }
            SimulationStep::Lack(number) => {
                self.device.set_lack(Some(number));
                self.worsen(DiskState::Lacking);
                Ok(())
            }
            SimulationStep::Heal => {
                self.heal();
                Ok(())
            }
            SimulationStep::Flip { bits, closed } => self.flip(bits, closed),
        }
    }

    fn worsen(&mut self, disk: DiskState) {
        self.disk = self.disk.max(disk);
    }

    fn is_rotten(&self) -> bool {
        self.rot > BitRot::Absent
    }

    fn heal(&self) {
        self.device.heal();
        self.device.set_capacity(None);
        self.device.set_sync_fails(false);
        self.device.set_lack(None);
    }

    fn observe(&mut self, asks: &[OracleRequest]) -> StepResult {
        for ask in asks {
            self.note(ask);
        }
        let adds = asks.iter().any(OracleRequest::adds);
        match self.home()?.observe(asks) {
            Ok(told) => {
                if self.disk == DiskState::Stopped && adds {
                    return Err("it took additions after it had refused some".to_owned());
                }
                if told.len() != asks.len() {
                    return Err(format!("{} answers to {} requests", told.len(), asks.len()));
                }
                for (ask, told) in asks.iter().zip(&told) {
                    self.tally.looks += ask.looks.len() as u64;
                    let mut fitting = Vec::new();
                    let mut wrong = Ok(());
                    for mut model in std::mem::take(&mut self.models) {
                        // A mark that was lost cannot be said to be.
                        let expected = model.ask_as(ask, self.is_rotten().then_some(told.duplicate));
                        match self.compare(ask, told, &expected) {
                            Ok(()) => fitting.push(model),
                            Err(what) => wrong = Err(what),
                        }
                    }
                    if fitting.is_empty() {
                        return wrong;
                    }
                    self.models = fitting;
                    for (look, _) in ask.looks.iter().zip(&told.reads).filter(|(_, read)| read.missing) {
                        self.lost.insert(OracleKey { kind: look.kind, number: look.number, value: None });
                    }
                    if ask.adds() {
                        self.possible.extend(self.models.iter().cloned());
                    }
                }
                if adds
                    && matches!(self.settings.promise, DurabilityPromise::Sync | DurabilityPromise::Memory)
                {
                    self.possible.clone_from(&self.models);
                }
                Ok(())
            }
            Err(refused @ (HomeRefusal::Stopped(_) | HomeRefusal::Full(_)))
                if adds && self.disk > DiskState::Sound =>
            {
                self.tally.refusals += 1;
                if self.disk < DiskState::Broken && matches!(refused, HomeRefusal::Stopped(_)) {
                    return Err(format!("a mere lack stopped it: {refused}"));
                }
                // Whatever was added before the failure is seen, and may be found after a crash.
                let mut reached = self.models.clone();
                let mut last = reached.clone();
                for ask in asks.iter().filter(|_| self.disk < DiskState::Stopped) {
                    last.iter_mut().for_each(|model| drop(model.ask(ask)));
                    reached.extend(last.iter().cloned());
                }
                if matches!(refused, HomeRefusal::Stopped(_)) {
                    self.disk = DiskState::Stopped;
                }
                self.models = self.agreeing(&reached, "after a refusal")?;
                self.possible.append(&mut reached);
                Ok(())
            }
            Err(refused) => Err(format!("{refused}")),
        }
    }

    /// Readings are what they happen to be; in the end the cells hold every event once.
    fn parallel(&mut self, shares: &[Vec<OracleRequest>]) -> StepResult {
        shares.iter().flatten().for_each(|ask| self.note(ask));
        let home = self.home()?;
        let maintained = self.maintained;
        let refused: Vec<HomeRefusal> = std::thread::scope(|scope| {
            let callers: Vec<_> = shares
                .iter()
                .map(|share| {
                    scope.spawn(move || -> Result<(), HomeRefusal> {
                        for (number, asks) in share.chunks(2).enumerate() {
                            home.observe(asks)?;
                            // At a time at which nothing more expires.
                            if number % 8 == 1 {
                                home.maintain(maintained)?;
                            }
                        }
                        Ok(())
                    })
                })
                .collect();
            callers
                .into_iter()
                .filter_map(|caller| match caller.join() {
                    Ok(done) => done.err(),
                    Err(_) => Some(HomeRefusal::Other("a caller panicked".to_owned())),
                })
                .collect()
        });
        if let Some(refused) = refused.first() {
            return Err(format!("one of several callers: {refused}"));
        }
        for model in &mut self.models {
            shares.iter().flatten().for_each(|ask| drop(model.ask(ask)));
        }
        let models = std::mem::take(&mut self.models);
        self.models = self.agreeing(&models, "after several callers")?;
        // What a crash may leave now is too much to list, unless it is all.
        match self.settings.promise {
            DurabilityPromise::Sync | DurabilityPromise::Memory => {
                self.possible.clone_from(&self.models);
                Ok(())
            }
            DurabilityPromise::Interval => self.maintain(self.maintained),
            DurabilityPromise::None => self.restart(),
        }
    }

    /// Remembers which keys there are, and an upper bound of what is ever added to them.
    fn note(&mut self, ask: &OracleRequest) {
        if let Some((number, _)) = ask.mark {
            self.seen.insert(OracleKey { kind: self.kinds.len() - 1, number, value: None });
        }
        for look in &ask.looks {
            let name = OracleKey { kind: look.kind, number: look.number, value: None };
            self.seen.insert(name);
            let ever = self.ever.entry(name).or_default();
            match &look.add {
                OracleAddition::Nothing => {}
                OracleAddition::Counters(amounts) => amounts.iter().for_each(|(counter, amount)| {
                    let sum = &mut ever[usize::from(*counter)];
                    *sum = sum.saturating_add(*amount);
                }),
                OracleAddition::Distinct(_) => ever[0] += 1,
            }
        }
    }

    fn compare(&self, ask: &OracleRequest, told: &OracleOutcome, expected: &OracleOutcome) -> StepResult {
        let wrong =
            |what: &str| Err(format!("{what}: told {told:?}\n  expected {expected:?}\n  asked {ask:?}"));
        if told.duplicate != expected.duplicate {
            return wrong("a mark");
        }
        if told.reads.len() != expected.reads.len() {
            return wrong("number of readings");
        }
        let mut lost = if self.is_rotten() { self.lost.clone() } else { BTreeSet::new() };
        for (index, (read, expected)) in told.reads.iter().zip(&expected.reads).enumerate() {
            let look = &ask.looks[index];
            if read.missing {
                lost.insert(OracleKey { kind: look.kind, number: look.number, value: None });
            }
            if !self.fits(look, read, expected, &lost) {
                return wrong(&format!("look {index} ({look:?}), told {read:?}, expected {expected:?}"));
            }
        }
        Ok(())
    }

    fn fits(
        &self,
        look: &OracleObservation,
        read: &OracleReading,
        expected: &OracleReading,
        lost: &BTreeSet<OracleKey>,
    ) -> bool {
        if !self.is_rotten() {
            return read == expected;
        }
        let name = OracleKey { kind: look.kind, number: look.number, value: None };
        let ever = self.ever.get(&name).copied().unwrap_or_default();
        let counters = self.kinds[look.kind].counters();
        // Nothing is invented: at most what was ever added is told.
        let bounded = read.sums.iter().enumerate().all(|(at, sum)| *sum <= ever[at % counters]);
        bounded && (self.rot == BitRot::Doubtful || lost.contains(&name) || read == expected)
    }

    fn maintain(&mut self, now: i64) -> StepResult {
        self.maintained = self.maintained.max(now);
        let done = self.home()?.maintain(now);
        self.models.iter_mut().for_each(|model| model.raise(now));
        match done {
            Ok(()) if self.disk == DiskState::Stopped => {
                Err("it was maintained after it had stopped".to_owned())
            }
            Ok(())
                if matches!(self.settings.promise, DurabilityPromise::Sync | DurabilityPromise::Interval) =>
            {
                self.possible.clone_from(&self.models);
                Ok(())
            }
            Ok(()) => {
                self.raise_possible();
                Ok(())
            }
            Err(HomeRefusal::Stopped(_) | HomeRefusal::Full(_)) if self.disk > DiskState::Sound => {
                self.tally.refusals += 1;
                self.raise_possible();
                Ok(())
            }
            Err(refused) => Err(format!("{refused}")),
        }
    }

    /// Adds to the possible states: what was let go may be gone from each of them or not.
    fn raise_possible(&mut self) {
        let mut raised = self.possible.clone();
        raised.iter_mut().for_each(|state| state.raise(self.maintained));
        self.possible.append(&mut raised);
        self.possible.extend(self.models.iter().cloned());
    }

    fn hottest(&mut self, kind: usize, window: usize, counter: usize, limit: usize) -> StepResult {
        let span = self.kinds[kind].sums()[window].window;
        // The ledger answers from the finest tier that can, as readings do.
        let told = self.home()?.hottest(kind, span, counter, self.now, limit);
        // Of cold keys it does not hide what expired at a later time than the one that it is asked for.
        if self.is_rotten() || self.now < self.maintained {
            return Ok(());
        }
        let now = self.now;
        let mut expected =
            self.models.iter_mut().map(|model| model.hottest(kind, window, counter, now, limit));
        match told {
            Ok(told) if expected.any(|expected| told == expected) => Ok(()),
            told => Err(format!(
                "hottest: told {told:?}, expected {:?}",
                self.models[0].hottest(kind, window, counter, now, limit)
            )),
        }
    }

    fn restart(&mut self) -> StepResult {
        self.tally.restarts += 1;
        self.close()?;
        self.reopen()
    }

    fn close(&mut self) -> StepResult {
        match self.home()?.close() {
            Ok(()) if self.disk == DiskState::Stopped => {
                return Err("it was closed well after it had stopped".to_owned());
            }
            Ok(()) => self.possible.clone_from(&self.models),
            Err(HomeRefusal::Stopped(_) | HomeRefusal::Full(_)) if self.disk > DiskState::Sound => {
                self.possible.extend(self.models.iter().cloned())
            }
            Err(refused) => return Err(format!("closing: {refused}")),
        }
        self.home = None;
        self.heal();
        Ok(())
    }

    fn crash(&mut self, seed: u64) -> StepResult {
        self.tally.crashes += 1;
        let image = self.device.crash(seed);
        self.home = None;
        self.device = image;
        self.device.set_read_bytes_max(self.read_bytes_max);
        // The disk may fail, or the power, while the ledger recovers.
        if self.random.one_in(4) {
            self.device.fail_after(self.random.below(6));
            drop(SimulatedHome::open(&self.device, &self.kinds, self.settings));
            // What it found and mended, the next start does not find again.
            if self.is_rotten() {
                self.rot = BitRot::Doubtful;
            }
            self.device.heal();
            if self.random.one_in(2) {
                self.device = self.device.crash(seed.wrapping_add(1));
                self.device.set_read_bytes_max(self.read_bytes_max);
            }
        }
        self.reopen()
    }

    /// Opens what is on the disk, and finds out which of the possible states it is.
    fn reopen(&mut self) -> StepResult {
        match self.open() {
            Ok(home) => self.home = Some(home),
            Err(_) if self.is_rotten() => {
                self.rot = BitRot::Fatal;
                return Ok(());
            }
            Err(why) => return Err(why),
        }
        if self.is_rotten() && self.home()?.found_damage() {
            self.rot = BitRot::Doubtful;
        }
        self.disk = DiskState::Sound;
        let possible = std::mem::take(&mut self.possible);
        self.models = self.agreeing(&possible, "after opening")?;
        self.possible.clone_from(&self.models);
        // States may look the same and differ in what had been let go: brings them together.
        if self.maintained > i64::MIN {
            self.maintain(self.maintained)?;
        }
        Ok(())
    }

    fn open(&self) -> Result<SimulatedHome, String> {
        SimulatedHome::open(&self.device, &self.kinds, self.settings)
            .map_err(|refused| format!("opening: {refused}"))
    }

    fn home(&self) -> Result<&SimulatedHome, String> {
        self.home.as_ref().ok_or_else(|| "the ledger is not open".to_owned())
    }

    /// The states that look like what the ledger holds, each once.
    fn agreeing(&mut self, states: &[LedgerOracle], when: &str) -> Result<Vec<LedgerOracle>, String> {
        let lines = self.lines()?;
        let (mut essences, mut agreeing) = (Vec::new(), Vec::new());
        for state in states.iter().rev().filter(|state| self.differs(state, &lines).is_none()) {
            let essence = state.clone().essence();
            if !essences.contains(&essence) {
                essences.push(essence);
                agreeing.push(state.clone());
            }
        }
        if agreeing.is_empty() && self.is_rotten() {
            if states.len() > 1 {
                self.rot = BitRot::Doubtful;
            }
            agreeing.extend(states.last().cloned());
        }
        if agreeing.is_empty() {
            let whys: BTreeSet<String> =
                states.iter().rev().take(8).filter_map(|state| self.differs(state, &lines)).collect();
            return Err(format!(
                "{when}: none of {} states, the last of which differ in {whys:#?}",
                states.len()
            ));
        }
        Ok(agreeing)
    }

    /// Returns the timeline that the ledger holds of every key.
    fn lines(&self) -> Result<BTreeMap<OracleKey, Option<OracleTimeline>>, String> {
        let home = self.home()?;
        let line = |name: &OracleKey| match home.line(*name) {
            Ok(line) => Ok((*name, line)),
            // What rot has hit may be said to be damaged.
            Err(_) if self.is_rotten() => Ok((*name, None)),
            Err(refused) => Err(format!("{name:?}: {refused}")),
        };
        self.seen.iter().map(line).collect()
    }

    /// The first key of which a state does not hold the same.
    fn differs(
        &self,
        state: &LedgerOracle,
        lines: &BTreeMap<OracleKey, Option<OracleTimeline>>,
    ) -> Option<String> {
        let mut state = state.clone();
        lines.iter().find_map(|(name, line)| {
            let expected = state.line(*name);
            (*line != expected).then(|| format!("{name:?}: found {line:?}, expected {expected:?}"))
        })
    }

    fn check_some(&mut self) -> StepResult {
        let names: Vec<OracleKey> = self.seen.iter().copied().collect();
        let stranger = OracleKey { kind: 0, number: u64::MAX, value: None };
        let mut asked = vec![stranger];
        for _ in 0..names.len().min(6) {
            asked.push(*self.random.pick(&names));
        }
        for name in asked {
            // States that differ in what is seen here would have been told apart.
            let (found, expected) = (self.home()?.line(name), self.models[0].line(name));
            match found {
                Ok(found) if found == expected => {}
                _ if self.is_rotten() => {}
                found => return Err(format!("{name:?}: found {found:?}, expected {expected:?}")),
            }
        }
        Ok(())
    }

    fn check_all(&mut self) -> StepResult {
        let lines = self.lines()?;
        match self.differs(&self.models[0], &lines) {
            Some(why) if !self.is_rotten() => Err(format!("in the end: {why}")),
            _ => Ok(()),
        }
    }

    /// Flips bits on the disk. From then on answers are right or said to be missing; where a start found damage they
    /// may lack anything.
    fn flip(&mut self, bits: u64, closed: bool) -> StepResult {
        if closed {
            self.close()?;
        }
        self.tally.flips += 1;
        self.rot = self.rot.max(BitRot::Flipped);
        let names = self.device.list().map_err(|error| error.to_string())?;
        for _ in 0..bits {
            let name = self.random.pick(&names).clone();
            let length = self.device.read(&name).map_or(0, |bytes| bytes.len() as u64);
            self.device.flip(&name, self.random.below(length) as usize, 1 << self.random.below(8));
        }
        if closed { self.reopen() } else { Ok(()) }
    }
}

impl LoadProfile {
    fn random(random: &mut Random) -> LoadProfile {
        let keys = random.between(1, 60).cast_unsigned();
        let keys = match random.below(6) {
            0 | 1 => KeyDistribution::Uniform { keys },
            2 | 3 => KeyDistribution::Zipf { keys: keys * 4, exponent: random.unit() * 1.6 },
            4 => KeyDistribution::Hot { keys, share: random.unit() },
            _ => KeyDistribution::New,
        };
        // Rot leaves little that is certain: most seeds are without.
        let rot = u64::from(random.one_in(8));
        let mut weight = |most: u64| if random.one_in(4) { 0 } else { 1 + random.below(most) };
        let weights = [
            (60, StepKind::Observe),
            (10, StepKind::Tick),
            (weight(4), StepKind::Leap),
            (weight(8), StepKind::Maintain),
            (weight(3), StepKind::Parallel),
            (weight(6), StepKind::Check),
            (weight(4), StepKind::Hottest),
            (weight(4), StepKind::Restart),
            (weight(6), StepKind::Crash),
            (weight(4), StepKind::Fail),
            (weight(3), StepKind::Fill),
            (weight(2), StepKind::FailSyncs),
            (weight(3), StepKind::Lack),
            (weight(4), StepKind::Heal),
            (rot, StepKind::Flip),
        ];
        LoadProfile {
            weights,
            keys,
            looks: *random.pick(&[1, 3, 8]),
            asks: *random.pick(&[1, 3, 12]),
            values: 1 + random.below(12),
            steps: 40 + random.below(120),
        }
    }
}
