//! A cluster in memory, with faults on demand. What a cell is it leaves to the plans of `stats`.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use cluster::Environment;
use cluster::remote::{
    CellChange, CellForm, ExactLimitBatch, ExactLimitRequest, LastWriter, MarkClaim, Partition,
    PartitionCount, PartitionGenerations, PartitionImages, PartitionRead, PriorReading, RemoteCell,
    RemoteCluster, RemoteError, RemoteFuture, SightingBatch, SightingCounts, SketchHalf, WriteBatch,
    WriteOutcome,
};
use event::{Key, Kind, Time};
use stats::random::Random;
use stats::{CellPlan, ObservationContext, Origin, Sketch, SketchPlace};

/// The fate of a call's part for one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Well,
    /// Nothing is done.
    Lost,
    /// All is done, and nobody is told.
    Unheard,
    /// All is done long after the caller was told that nothing was heard.
    Late,
    Moving,
    Full,
}

#[derive(Clone, Default)]
struct Part {
    numbers: HashMap<u64, u64>,
    /// The node that wrote last, and its batch.
    last: Option<(u64, u64)>,
    cells: BTreeMap<(Key, u32), Vec<u64>>,
    told: HashMap<[u8; 16], bool>,
    /// The number of each owner's last round, and its answer.
    rounds: HashMap<[u8; 16], (u64, Vec<PriorReading>)>,
    sketches: HashMap<SketchHalf, SketchCounters>,
    /// The number of each owner's last batch of sightings.
    sighters: HashMap<[u8; 16], u64>,
}

/// The counters of a sketch: by line, part and place in the part.
#[derive(Clone, Default)]
pub(crate) struct SketchCounters(HashMap<(u32, u32, u32), u32>);

impl SketchCounters {
    fn of(&mut self, SketchPlace { line, counters }: SketchPlace) -> [(u32, u32, u32); 4] {
        [0, 1, 2, 3].map(|part| (line, part, counters >> (5 * part) & 31))
    }

    pub(crate) fn count(&mut self, place: SketchPlace) -> u32 {
        let counters = self.of(place);
        counters.iter().map(|at| self.0.get(at).copied().unwrap_or(0)).min().unwrap()
    }

    pub(crate) fn add(&mut self, place: SketchPlace, sightings: u32) {
        let to = (self.count(place) + sightings).min(Sketch::COUNT_MAX);
        for at in self.of(place) {
            let count = self.0.entry(at).or_default();
            *count = to.max(*count);
        }
    }
}

struct State {
    parts: Vec<Part>,
    /// The parts as replicas have them.
    replicas: Vec<Part>,
    plans: HashMap<u32, CellPlan>,
    /// One call's part in so many fares badly; zero is none.
    faults: u64,
    /// One partition in so many has a failover before a write; zero is none.
    failovers: u64,
    random: Random,
    generations: PartitionGenerations,
    /// The partitions that answer nothing, and do nothing.
    away: Range<u16>,
    /// The writes that are on their way, where they are held there.
    held: Option<VecDeque<(u64, WriteBatch)>>,
    /// The longest that a write takes where no environment takes time.
    write_pause: Duration,
    reads: u64,
    writes: u64,
    /// Changes of the largest batch.
    largest: usize,
}

pub(crate) struct Cloud {
    partitions: PartitionCount,
    state: Mutex<State>,
}

impl Cloud {
    pub(crate) fn new(partitions: u16, seed: u64) -> Arc<Cloud> {
        let state = State {
            parts: vec![Part::default(); usize::from(partitions)],
            replicas: vec![Part::default(); usize::from(partitions)],
            plans: HashMap::new(),
            faults: 0,
            failovers: 0,
            random: Random::new(seed),
            generations: PartitionGenerations::default(),
            away: 0..0,
            held: None,
            write_pause: Duration::ZERO,
            reads: 0,
            writes: 0,
            largest: 0,
        };
        Arc::new(Cloud { partitions: PartitionCount::new(partitions).unwrap(), state: Mutex::new(state) })
    }

    pub(crate) fn partitions(&self) -> PartitionCount {
        self.partitions
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub(crate) fn set_faults(&self, faults: u64, failovers: u64) {
        let mut state = self.state();
        (state.faults, state.failovers) = (faults, failovers);
    }

    /// Answers nothing, and does nothing.
    pub(crate) fn set_down(&self, is_down: bool) {
        self.set_away(if is_down { 0..u16::MAX } else { 0..0 });
    }

    /// Lets these partitions answer nothing, and do nothing; all others are well.
    pub(crate) fn set_away(&self, partitions: Range<u16>) {
        self.state().away = partitions;
    }

    /// Lets each write take up to so long, of real time, before it is made.
    pub(crate) fn set_write_pause(&self, longest: Duration) {
        self.state().write_pause = longest;
    }

    /// Holds writes on their way, unanswered; or loses those that are held, and holds no more.
    pub(crate) fn hold_writes(&self, are_held: bool) {
        self.state().held = are_held.then(VecDeque::new);
    }

    /// Lets the first write that is held arrive.
    pub(crate) fn release_write(&self) -> WriteOutcome {
        let mut state = self.state();
        let (node, batch) = state.held.as_mut().and_then(VecDeque::pop_front).expect("a write that is held");
        state.write(node, &batch)
    }

    /// The number of changes in the largest batch that was made.
    pub(crate) fn largest_batch(&self) -> usize {
        self.state().largest
    }

    /// Brings all that masters have to their replicas.
    pub(crate) fn replicate(&self) {
        let mut state = self.state();
        state.replicas = state.parts.clone();
    }

    /// Cells read, and changes written.
    pub(crate) fn traffic(&self) -> (u64, u64) {
        let state = self.state();
        (state.reads, state.writes)
    }

    /// Returns what is kept of a key, whatever its form: the sum of a counter over all its buckets.
    pub(crate) fn total(&self, key: Key, counter: usize) -> u64 {
        let state = self.state();
        let part = &state.parts[usize::from(self.partitions.of(key.shingle).0)];
        let cells = part.cells.iter().filter(|((at, _), _)| *at == key);
        let rows = cells.flat_map(|((_, form), words)| state.plans[form].rows(words));
        rows.map(|row| row.counts.get(counter).copied().unwrap_or(0)).sum()
    }

    /// The column of an aggregate that counts its events, see [`stats::Plan::read`].
    pub(crate) fn column(&self, key: Key, column: usize) -> u64 {
        let state = self.state();
        let part = &state.parts[usize::from(self.partitions.of(key.shingle).0)];
        let found = part.cells.iter().find(|((at, _), _)| *at == key);
        found.map_or(0, |((_, form), words)| {
            let plan = &state.plans[form];
            let mut values = vec![0; plan.reading()];
            plan.read(words, Time(0), &mut values);
            values[column]
        })
    }

    /// A node's way to it. Calls take time where there is an environment to take it.
    pub(crate) fn line(self: &Arc<Cloud>, node: u64, pace: Option<Arc<dyn Environment>>) -> Line {
        Line { cloud: self.clone(), node, pace }
    }
}

impl Part {
    /// Returns the sightings of a place in a half, and in the one before.
    fn counts(&mut self, half: SketchHalf, place: SketchPlace) -> SightingCounts {
        let before = SketchHalf { number: half.number - 1, ..half };
        [half, before].map(|half| self.sketches.get_mut(&half).map_or(0, |counters| counters.count(place)))
    }
}

impl State {
    fn plan(&mut self, form: &CellForm) -> CellPlan {
        self.plans.entry(form.id).or_insert_with(|| form.definition.plan().unwrap()).clone()
    }

    fn fate(&mut self, partition: Partition) -> Fate {
        if self.away.contains(&partition.0) {
            return Fate::Lost;
        }
        if self.faults == 0 || !self.random.one_in(self.faults) {
            return Fate::Well;
        }
        *self.random.pick(&[Fate::Lost, Fate::Unheard, Fate::Late, Fate::Moving, Fate::Full])
    }

    fn live(
        &mut self,
        partition: Partition,
        key: Key,
        form: &CellForm,
        horizon: Time,
    ) -> (CellPlan, &mut Vec<u64>) {
        let plan = self.plan(form);
        let part = &mut self.parts[usize::from(partition.0)];
        let words = part.cells.entry((key, form.id)).or_default();
        if plan.expires(words) <= horizon {
            words.clear();
        }
        (plan, words)
    }

    fn write(&mut self, node: u64, batch: &WriteBatch) -> WriteOutcome {
        let at = usize::from(batch.partition.0);
        let has = self.parts[at].numbers.get(&node).copied().unwrap_or(0);
        if has >= batch.number {
            return WriteOutcome::Before;
        }
        if has != batch.previous {
            return WriteOutcome::Behind(has);
        }
        self.parts[at].numbers.insert(node, batch.number);
        let before = writer(self.parts[at].last.replace((node, batch.number)), node);
        self.writes += batch.writes.len() as u64;
        self.largest = self.largest.max(batch.writes.len());
        for write in batch.writes.iter() {
            let RemoteCell { key, form } = &write.cell;
            let (plan, words) = self.live(batch.partition, *key, form, batch.horizon);
            match &write.change {
                CellChange::Merge(other) => plan.merge(words, other),
                CellChange::Flow { now, flow } => plan.flow(words, *now, flow),
                CellChange::Unique { pair, time } => {
                    let pair = Key { kind: Kind(key.kind.0 | RemoteCell::PAIR), shingle: *pair, ..*key };
                    let (plan, marks) = self.live(batch.partition, pair, form, batch.horizon);
                    let (seen, kept) = plan.fine(marks, plan.bucket(*time));
                    let amount = u64::from(!seen && kept);
                    if amount > 0 {
                        plan.add(marks, *time, [(0, 1)]);
                    }
                    let (plan, words) = self.live(batch.partition, *key, form, batch.horizon);
                    plan.add(words, *time, [(0, amount)]);
                }
            }
        }
        WriteOutcome::Now(before)
    }

    fn take(&mut self, round: &ExactLimitBatch) -> Result<Vec<PriorReading>, RemoteError> {
        let at = usize::from(round.partition.0);
        if let Some((number, befores)) = self.parts[at].rounds.get(&round.owner)
            && *number >= round.number
        {
            let is_last = *number == round.number;
            return is_last
                .then(|| befores.clone())
                .ok_or(RemoteError::Unexpected("a later one was made".into()));
        }
        let befores: Vec<PriorReading> = round.asks.iter().map(|ask| self.ask(round, ask)).collect();
        self.parts[at].rounds.insert(round.owner, (round.number, befores.clone()));
        Ok(befores)
    }

    fn ask(
        &mut self,
        round: &ExactLimitBatch,
        ExactLimitRequest { cell, time, windows, add }: &ExactLimitRequest,
    ) -> PriorReading {
        let windows: Vec<_> = windows.iter().flatten().copied().collect();
        let plan = CellPlan::over(&cell.form.definition.measure, &windows).unwrap();
        let words = self.live(round.partition, cell.key, &cell.form, round.horizon).1;
        let times = plan.times(words);
        let as_of = add.as_of(*time, times.map(|(_, last)| last));
        let mut values = vec![0; plan.reading()];
        plan.read(words, as_of, &mut values);
        if add.adds() {
            let last = times.map(|(_, last)| last);
            let (origin, sightings) = (Origin::Event, 0);
            let context = ObservationContext { time: *time, last, values: &values, origin, sightings };
            plan.apply(words, &plan.change(add, &context));
        }
        let value = |at: usize| values.get(at).copied().unwrap_or(0);
        match times {
            Some((first, last)) => PriorReading::Held { first, last, values: [value(0), value(1)] },
            None => PriorReading::Nothing,
        }
    }

    fn sight(&mut self, batch: &SightingBatch) -> Vec<SightingCounts> {
        let part = &mut self.parts[usize::from(batch.partition.0)];
        let has = part.sighters.get(&batch.owner).copied().unwrap_or(0);
        if has < batch.number {
            part.sighters.insert(batch.owner, batch.number);
        }
        let mut counts = Vec::new();
        for of in batch.halves.iter() {
            for (place, sightings) in &of.places {
                assert!((1..=Sketch::COUNT_MAX).contains(sightings) && place.line < of.half.lines);
                if has < batch.number {
                    part.sketches.entry(of.half).or_default().add(*place, *sightings);
                }
                counts.push(part.counts(of.half, *place));
            }
        }
        counts
    }

    fn read(&mut self, node: u64, read: &PartitionRead) -> PartitionImages {
        self.reads += read.cells.len() as u64;
        let mut image = |RemoteCell { key, form }: &RemoteCell| {
            let plan = self.plan(form);
            let words = self.parts[usize::from(read.partition.0)].cells.get(&(*key, form.id))?;
            plan.times(words).is_some().then(|| words.clone())
        };
        let images = read.cells.iter().map(&mut image).collect();
        let number = self.parts[usize::from(read.partition.0)].numbers.get(&node).copied().unwrap_or(0);
        let writer = writer(self.parts[usize::from(read.partition.0)].last, node);
        let part = &mut self.parts[usize::from(read.partition.0)];
        let sightings = read.places.iter().map(|(half, place)| part.counts(*half, *place)).collect();
        PartitionImages { number, writer, images, unsound: Vec::new(), sightings }
    }

    fn claim(&mut self, partition: Partition, MarkClaim { cell, time, token }: &MarkClaim) -> bool {
        if let Some(told) = self.parts[usize::from(partition.0)].told.get(token) {
            return *told;
        }
        let (plan, words) = self.live(partition, cell.key, &cell.form, Time(i64::MIN));
        let bucket = plan.bucket(*time);
        let is_first = ![bucket - 1, bucket, bucket + 1].iter().any(|near| plan.fine(words, *near).0);
        if is_first {
            plan.add(words, *time, [(0, 1)]);
        }
        self.parts[usize::from(partition.0)].told.insert(*token, is_first);
        is_first
    }
}

/// Returns the last writer, as a node is answered.
fn writer(last: Option<(u64, u64)>, node: u64) -> LastWriter {
    match last {
        None => LastWriter::Unknown,
        Some((writer, number)) if writer == node => LastWriter::This(number),
        Some((writer, number)) => LastWriter::Other(u128::from(writer).to_le_bytes(), number),
    }
}

/// One node's connection.
pub(crate) struct Line {
    cloud: Arc<Cloud>,
    node: u64,
    pace: Option<Arc<dyn Environment>>,
}

fn unreachable() -> RemoteError {
    RemoteError::Unreachable("no answer in time".into())
}

impl Line {
    /// Takes some time, as long as a call may at most.
    async fn pause(&self, within: Duration) {
        if let Some(pace) = &self.pace {
            let time = within.mul_f64(self.cloud.state().random.unit());
            pace.sleep(time).await;
        }
    }

    fn outcome<T>(
        &self,
        fate: Fate,
        partition: Partition,
        act: impl FnOnce(&mut State) -> T,
    ) -> Result<T, RemoteError> {
        match fate {
            Fate::Well => Ok(act(&mut self.cloud.state())),
            Fate::Lost | Fate::Late => Err(unreachable()),
            Fate::Unheard => {
                act(&mut self.cloud.state());
                Err(unreachable())
            }
            Fate::Moving => Err(RemoteError::Moving(partition)),
            Fate::Full => Err(RemoteError::Full("OOM".into())),
        }
    }
}

impl RemoteCluster for Line {
    fn read(
        &self,
        asked: Vec<PartitionRead>,
        within: Duration,
    ) -> RemoteFuture<'_, Vec<Result<PartitionImages, RemoteError>>> {
        Box::pin(async move {
            self.pause(within / 2).await;
            let each = |read: &PartitionRead| {
                let fate = self.cloud.state().fate(read.partition);
                self.outcome(fate, read.partition, |state| state.read(self.node, read))
            };
            let found = asked.iter().map(each).collect();
            self.pause(within / 2).await;
            found
        })
    }

    fn write(
        &self,
        batches: Vec<WriteBatch>,
        within: Duration,
    ) -> RemoteFuture<'_, Vec<Result<WriteOutcome, RemoteError>>> {
        Box::pin(async move {
            self.pause(within / 2).await;
            let write_pause = {
                let mut state = self.cloud.state();
                state.write_pause.mul_f64(state.random.unit())
            };
            std::thread::sleep(write_pause);
            let mut written = Vec::new();
            for batch in batches {
                let at = usize::from(batch.partition.0);
                let fate = {
                    let mut state = self.cloud.state();
                    if let Some(held) = &mut state.held {
                        held.push_back((self.node, batch));
                        written.push(Err(unreachable()));
                        continue;
                    }
                    let failovers = state.failovers;
                    if failovers > 0 && state.random.one_in(failovers) {
                        state.parts[at] = state.replicas[at].clone();
                    }
                    state.fate(batch.partition)
                };
                written.push(self.outcome(fate, batch.partition, |state| state.write(self.node, &batch)));
                if let (Fate::Late, Some(pace)) = (fate, &self.pace) {
                    let (cloud, node) = (self.cloud.clone(), self.node);
                    let late = pace.sleep(Duration::from_secs_f64(4.0 * self.cloud.state().random.unit()));
                    pace.spawn(Box::pin(async move {
                        late.await;
                        cloud.state().write(node, &batch);
                    }));
                }
            }
            self.pause(within / 2).await;
            written
        })
    }

    fn claim(
        &self,
        claims: Vec<MarkClaim>,
        within: Duration,
    ) -> RemoteFuture<'_, Vec<Result<bool, RemoteError>>> {
        Box::pin(async move {
            self.pause(within / 2).await;
            let each = |claim: &MarkClaim| {
                let partition = self.cloud.partitions.of(claim.cell.key.shingle);
                let fate = self.cloud.state().fate(partition);
                self.outcome(fate, partition, |state| state.claim(partition, claim))
            };
            let told = claims.iter().map(each).collect();
            self.pause(within / 2).await;
            told
        })
    }

    fn take(
        &self,
        rounds: Vec<ExactLimitBatch>,
        within: Duration,
    ) -> RemoteFuture<'_, Vec<Result<Vec<PriorReading>, RemoteError>>> {
        Box::pin(async move {
            self.pause(within / 2).await;
            let mut told = Vec::new();
            for round in rounds {
                let fate = self.cloud.state().fate(round.partition);
                let answer = self.outcome(fate, round.partition, |state| state.take(&round));
                told.push(answer.and_then(|answer| answer));
                if let (Fate::Late, Some(pace)) = (fate, &self.pace) {
                    let cloud = self.cloud.clone();
                    let late = pace.sleep(Duration::from_secs_f64(4.0 * self.cloud.state().random.unit()));
                    pace.spawn(Box::pin(async move {
                        late.await;
                        let _ = cloud.state().take(&round);
                    }));
                }
            }
            self.pause(within / 2).await;
            told
        })
    }

    fn sight(
        &self,
        batches: Vec<SightingBatch>,
        within: Duration,
    ) -> RemoteFuture<'_, Vec<Result<Vec<SightingCounts>, RemoteError>>> {
        Box::pin(async move {
            self.pause(within / 2).await;
            let mut told = Vec::new();
            for batch in batches {
                let fate = self.cloud.state().fate(batch.partition);
                told.push(self.outcome(fate, batch.partition, |state| state.sight(&batch)));
                if let (Fate::Late, Some(pace)) = (fate, &self.pace) {
                    let cloud = self.cloud.clone();
                    let late = pace.sleep(Duration::from_secs_f64(4.0 * self.cloud.state().random.unit()));
                    pace.spawn(Box::pin(async move {
                        late.await;
                        cloud.state().sight(&batch);
                    }));
                }
            }
            self.pause(within / 2).await;
            told
        })
    }

    fn numbers(&self, within: Duration) -> RemoteFuture<'_, Vec<Result<u64, RemoteError>>> {
        Box::pin(async move {
            self.pause(within / 2).await;
            let each = |at| {
                let fate = self.cloud.state().fate(Partition(at));
                self.outcome(fate, Partition(at), |state| {
                    state.parts[usize::from(at)].numbers.get(&self.node).copied().unwrap_or(0)
                })
            };
            let numbers = (0..self.cloud.partitions.count()).map(each).collect();
            self.pause(within / 2).await;
            numbers
        })
    }

    fn generations(
        &self,
        known: u64,
        within: Duration,
    ) -> RemoteFuture<'_, Result<Option<PartitionGenerations>, RemoteError>> {
        Box::pin(async move {
            self.pause(within / 2).await;
            let fate = self.cloud.state().fate(Partition(0));
            let found = self.outcome(fate, Partition(0), |state| {
                (state.generations.latest != known).then(|| state.generations.clone())
            });
            self.pause(within / 2).await;
            found
        })
    }

    fn renew(
        &self,
        partitions: Vec<Partition>,
        within: Duration,
    ) -> RemoteFuture<'_, Result<(), RemoteError>> {
        Box::pin(async move {
            self.pause(within).await;
            let fate = self.cloud.state().fate(Partition(0));
            self.outcome(fate, Partition(0), |state| {
                let PartitionGenerations { latest, partitions: all } = &mut state.generations;
                *latest += 1;
                all.extend(partitions.into_iter().map(|partition| (partition, *latest)));
            })
        })
    }
}
