//! The timeline of one key, and the hottest keys of a kind.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use event::{Event, Facts, Key, Kind, Secret, Shingle, Slot, Span, Time, Value};
use journal::{
    DecisionHead, DecisionOutcome, DecisionSource, IdRange, JournalError, RecordVisitor, SkippedData,
};
use plan::{KindPlan, Pipeline, ReputationPlan};
use stats::{
    Addition, HottestQuery, LedgerError, Observation, ObserveOutcomes, ObserveRequest, Origin, Quality,
    Reading, Timeline,
};

use crate::error::{PieceError, UnknownName};
use crate::pipeline::reputation::{self, ExplainedReputation, KnownReadings};
use crate::pipeline::{fields, keys};
use crate::{Engine, aggregate, find_kind};

/// Most rows of the journal in which values of keys are looked for.
pub(crate) const ROWS_NAMED: usize = 20_000;

/// Reasons for a key, or the keys of a kind, without readings.
#[derive(Debug, thiserror::Error)]
pub enum KeyStatisticsError {
    /// A kind or a counter that the pipeline does not have.
    #[error(transparent)]
    Unknown(#[from] UnknownName),
    /// No piece can be made of the value.
    #[error(transparent)]
    Piece(#[from] PieceError),
    /// More keys at once than [`KeyStatistics::KEYS_MAX`].
    #[error("{0} keys at once: at most {max}", max = KeyStatistics::KEYS_MAX)]
    TooMany(usize),
    /// One of several keys cannot be looked up.
    #[error("keys[{index}]: {error}")]
    Of {
        /// Its place among those that were asked for.
        index: usize,
        /// The reason.
        error: Box<KeyStatisticsError>,
    },
    /// Keys are ranked by a counter over a window, and the kind has none.
    #[error("the kind `{0}` has no counters over windows, by which its keys could be ranked")]
    NoCounters(String),
    /// The ledger.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The journal, which names keys.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// A key that is asked for.
#[derive(Clone, Copy, Debug)]
pub struct KeyName<'a> {
    /// The kind, or the distinct count.
    pub kind: &'a str,
    /// The value, as it stands in events.
    pub value: &'a str,
}

/// The readings of one key.
#[derive(Clone, Debug)]
pub struct KeyStatistics {
    /// The piece as it is hashed.
    pub piece: String,
    /// Its hash.
    pub shingle: Shingle,
    /// The time of its first event.
    pub first: Option<Time>,
    /// The time of its newest event.
    pub last: Option<Time>,
    /// Names of its counters.
    pub counters: Vec<String>,
    /// Trailing windows and, for each counter in order, what was counted in them.
    pub windows: Vec<(Span, Vec<u64>)>,
    /// The values that an aggregate has beside first and last time: `count`, `sum`, `min`, `max`, `decayed_1h`.
    pub values: Vec<(String, Value)>,
    /// The trust that all this deserves.
    pub quality: Quality,
}

impl KeyStatistics {
    /// Most keys that are read at once.
    pub const KEYS_MAX: usize = 1000;
}

/// A key that was found in the plan.
struct PlannedKey {
    key: Key,
    piece: String,
    counters: Vec<String>,
    windows: Vec<Span>,
    values: Vec<String>,
}

impl PlannedKey {
    fn statistics(self, reading: &Reading) -> KeyStatistics {
        let PlannedKey { key, piece, counters, windows, values } = self;
        let sums = |window: usize| (0..counters.len()).map(|counter| reading.sum(window, counter)).collect();
        KeyStatistics {
            piece,
            shingle: key.shingle,
            first: reading.first,
            last: reading.last,
            windows: windows.iter().enumerate().map(|(index, window)| (*window, sums(index))).collect(),
            values: aggregate::values(&values, reading),
            quality: reading.quality,
            counters,
        }
    }
}

/// The knowledge of one key.
#[derive(Clone, Debug)]
pub struct KeyTimeline {
    /// The piece as it is hashed.
    pub piece: String,
    /// Its hash.
    pub shingle: Shingle,
    /// Names of the counters that the buckets hold, in order.
    pub counters: Vec<String>,
    /// Trailing windows and, for each counter in order, what was counted in them.
    pub windows: Vec<(Span, Vec<u64>)>,
    /// The values that an aggregate has beside first and last time: `count`, `sum`, `min`, `max`, `decayed_1h`.
    pub values: Vec<(String, Value)>,
    /// The trust that all this deserves. Estimated without a timeline is a key that is not admitted yet.
    pub quality: Quality,
    /// The reputations that keys of the kind have, without those of what belongs to the key.
    pub reputations: Vec<ExplainedReputation>,
    /// All that is kept; `None` for a key never seen, forgotten, or not admitted.
    pub timeline: Option<Timeline>,
}

/// The measure by which keys are ranked.
#[derive(Clone, Copy, Debug)]
pub struct Ranking<'a> {
    /// The kind of the keys.
    pub kind: &'a str,
    /// The counter.
    pub counter: &'a str,
    /// The trailing window.
    pub window: Span,
    /// Most keys that are wanted.
    pub limit: usize,
}

/// A key that is hot now.
#[derive(Clone, Debug)]
pub struct HotKey {
    /// The hashed piece.
    pub shingle: Shingle,
    /// The piece, if a recent row of the journal shows it.
    pub piece: Option<String>,
    /// Its count.
    pub count: u64,
}

impl KeyTimeline {
    /// Leaves out the buckets that end before a time, or begin at another or later.
    pub fn cut(&mut self, from: Option<Time>, to: Option<Time>) {
        let Some(timeline) = &mut self.timeline else { return };
        timeline.buckets.retain(|bucket| {
            from.is_none_or(|from| bucket.start + bucket.width > from)
                && to.is_none_or(|to| bucket.start < to)
        });
    }
}

impl Engine {
    /// All that is kept of the key of a value, and its trailing sums as of a time.
    pub async fn timeline(
        &self,
        pipeline: &Arc<Pipeline>,
        kind: &str,
        value: &str,
        at: Time,
    ) -> Result<KeyTimeline, KeyStatisticsError> {
        let planned = self.planned_key(pipeline, KeyName { kind, value })?;
        let timeline = self.ledger.timeline(planned.key).await?;
        let outcomes = self.look_at(std::slice::from_ref(&planned), at).await?;
        let reading = outcomes.all().next().map(|reading| reading.to_reading()).unwrap_or_default();
        let reputations = self.reputations(pipeline, kind, value, at).await?;
        let KeyStatistics { piece, shingle, counters, windows, values, quality, .. } =
            planned.statistics(&reading);
        Ok(KeyTimeline { piece, shingle, counters, windows, values, quality, reputations, timeline })
    }

    /// The readings of a value under every kind that takes it, with the kinds' names, in one request to the ledger; without those of
    /// which nothing is known. Nothing is counted.
    pub async fn statistics_of_value(
        &self,
        pipeline: &Pipeline,
        value: &str,
        at: Time,
    ) -> Result<Vec<(String, KeyStatistics)>, KeyStatisticsError> {
        // Of some kinds nothing is kept: they are for rules alone.
        let has_statistic = |kind: &&KindPlan| {
            !kind.counters.as_slice().is_empty()
                || !kind.aggregate.as_slice().is_empty()
                || kind.last.is_some()
        };
        let planned = pipeline.kinds.iter().filter(has_statistic).filter_map(|kind| {
            let planned = self.planned_key(pipeline, KeyName { kind: &kind.name, value }).ok()?;
            Some((kind.name.clone(), planned))
        });
        let (names, planned): (Vec<String>, Vec<PlannedKey>) = planned.take(KeyStatistics::KEYS_MAX).unzip();
        let outcomes = self.look_at(&planned, at).await?;
        let read = planned.into_iter().zip(outcomes.all());
        let known = read.map(|(planned, reading)| planned.statistics(&reading.to_reading()));
        let named = names.into_iter().zip(known);
        let is_known = |known: &KeyStatistics| {
            known.first.is_some() || known.windows.iter().any(|(_, sums)| sums.iter().any(|sum| *sum > 0))
        };
        Ok(named.filter(|(_, known)| is_known(known)).collect())
    }

    /// The readings of many keys as of a time, in one request to the ledger. Nothing is counted.
    ///
    /// # Errors
    /// [`KeyStatisticsError::TooMany`], [`KeyStatisticsError::Of`] the first key that cannot be, and the ledger's.
    pub async fn key_statistics(
        &self,
        pipeline: &Pipeline,
        keys: &[KeyName<'_>],
        at: Time,
    ) -> Result<Vec<KeyStatistics>, KeyStatisticsError> {
        if keys.len() > KeyStatistics::KEYS_MAX {
            return Err(KeyStatisticsError::TooMany(keys.len()));
        }
        let planned = keys.iter().enumerate().map(|(index, name)| {
            let planned = self.planned_key(pipeline, *name);
            planned.map_err(|error| KeyStatisticsError::Of { index, error: Box::new(error) })
        });
        let planned: Vec<PlannedKey> = planned.collect::<Result<_, _>>()?;
        let outcomes = self.look_at(&planned, at).await?;
        let read = planned.into_iter().zip(outcomes.all());
        Ok(read.map(|(planned, reading)| planned.statistics(&reading.to_reading())).collect())
    }

    fn planned_key(
        &self,
        pipeline: &Pipeline,
        KeyName { kind, value }: KeyName<'_>,
    ) -> Result<PlannedKey, KeyStatisticsError> {
        let distinct = pipeline.distincts.iter().find(|distinct| distinct.name == kind);
        let (per, kind, counters, windows, values) = match distinct {
            Some(plan) => {
                let per = &pipeline.kinds[plan.per];
                (per, plan.kind, vec![plan.name.clone()], &plan.windows, Vec::new())
            }
            None => {
                let plan = find_kind(pipeline, kind)?;
                (plan, plan.kind, plan.counters.as_slice().to_vec(), &plan.windows, plan.aggregate_names())
            }
        };
        let (piece, shingle) = self.piece(per, value)?;
        let key = Key { space: pipeline.space, kind, shingle };
        Ok(PlannedKey { key, piece, counters, windows: windows.as_slice().to_vec(), values })
    }

    /// Reads keys, and adds nothing.
    async fn look_at(&self, keys: &[PlannedKey], at: Time) -> Result<ObserveOutcomes, LedgerError> {
        let peek = |planned: &PlannedKey| Observation { key: planned.key, time: at, add: Addition::Nothing };
        let observations = keys.iter().map(peek).collect();
        self.ledger.observe(&[ObserveRequest { observations, ..ObserveRequest::default() }]).await
    }

    /// The reputations of the keys of a value, as of a time. Others that they inherit from count where their keys follow from
    /// the value.
    pub(crate) async fn reputations(
        &self,
        pipeline: &Arc<Pipeline>,
        kind: &str,
        value: &str,
        at: Time,
    ) -> Result<Vec<ExplainedReputation>, KeyStatisticsError> {
        if let Some(reports) = pipeline.reports.as_ref().filter(|reports| reports.reporter.name == kind) {
            let (_, shingle) = self.piece(&reports.reporter, value)?;
            let assessed = self.assess_keys(pipeline, &reports.standing, &[shingle], at).await?;
            return Ok(assessed.into_iter().map(|(_, reputation)| reputation).collect());
        }
        let kind = pipeline.kinds.position(|plan| plan.name == kind);
        let is_of = |plan: &&ReputationPlan| Some(plan.of) == kind;
        let Some(of) = kind.filter(|_| pipeline.reputations.iter().any(|plan| is_of(&plan))) else {
            return Ok(Vec::new());
        };
        let (fields, shingles) =
            (&pipeline.kinds[of].fields, pipeline.kinds[of].shingles(value, &self.secret));
        let mut event = Event { time: Some(at), ..Event::default() };
        if let Some(field) = fields.single() {
            let name = pipeline.schema.column(field.slot).name.clone();
            event.push(name, value);
        }
        let row = fields::fill(pipeline, event, at);
        let prepared = keys::derive_with(row, &self.secret, |other| {
            (pipeline.kinds[other].fields == *fields).then(|| shingles.clone())
        });
        let keys: HashSet<Key> = pipeline
            .reputations
            .iter()
            .flat_map(|plan| {
                let numbers = plan.formula.parts.iter().map(|part| reputation::number_of(pipeline, part));
                numbers.flat_map(|number| {
                    prepared.of_kind(plan.of).iter().map(move |key| Key { kind: number, ..*key })
                })
            })
            .collect();
        let keys: Vec<Key> = keys.into_iter().take(ObserveRequest::OBSERVATIONS_MAX).collect();
        let look = |key: &Key| Observation { key: *key, time: at, add: Addition::Nothing };
        let observations = keys.iter().map(look).collect();
        let request = ObserveRequest { origin: Origin::Look, observations, ..ObserveRequest::default() };
        let outcomes = self.ledger.observe(&[request]).await?;
        let readings = keys.iter().zip(outcomes.all());
        let readings: Vec<_> =
            readings.map(|(key, reading)| (key.kind, key.shingle, reading.to_reading())).collect();
        let place = reputation::place_of(pipeline);
        let mut explained =
            reputation::explain_all(pipeline, &KnownReadings { pipeline, readings: &readings, place });
        explained.retain(|known| {
            pipeline.reputations.iter().any(|plan| is_of(&plan) && plan.formula.name == known.name)
        });
        Ok(explained)
    }

    pub(crate) fn piece(&self, plan: &KindPlan, value: &str) -> Result<(String, Shingle), PieceError> {
        piece(plan, value, &self.secret)
    }

    /// The keys of a kind with the largest counts in a trailing window; see [`Ledger::hottest`] for what it costs.
    /// Pieces are not stored with statistics: those that recent rows of the journal show are named.
    ///
    /// # Errors
    /// A kind or counter that the pipeline does not have, the ledger's and the journal's.
    pub async fn hottest(
        &self,
        pipeline: &Pipeline,
        Ranking { kind, counter, window, limit }: Ranking<'_>,
        now: Time,
        is_over: stats::CancellationCheck<'_>,
    ) -> Result<Vec<HotKey>, KeyStatisticsError> {
        let plan = find_kind(pipeline, kind)?;
        if plan.counters.is_empty() {
            return Err(KeyStatisticsError::NoCounters(plan.name.clone()));
        }
        let index = plan.counter(counter).ok_or_else(|| {
            let help = plan::expected(counter, plan.counters.iter().map(String::as_str));
            UnknownName { what: "counter", name: counter.to_owned(), help }
        })?;
        let query = HottestQuery {
            space: pipeline.space,
            kind: plan.kind,
            counter: index,
            window,
            since: None,
            limit,
        };
        let found = self.ledger.hottest(&[query], now, is_over).await?;
        let hottest: Vec<(Key, u64)> = found.into_iter().flatten().collect();
        let shingles: Vec<Shingle> = hottest.iter().map(|(key, _)| key.shingle).collect();
        let pieces = self.pieces_of(pipeline, plan, &shingles)?;
        let hot = hottest.into_iter().zip(pieces);
        Ok(hot.map(|((key, count), piece)| HotKey { shingle: key.shingle, piece, count }).collect())
    }

    /// The pieces of keys of a kind that recent rows of the journal show.
    pub(crate) fn pieces_of(
        &self,
        pipeline: &Pipeline,
        plan: &KindPlan,
        shingles: &[Shingle],
    ) -> Result<Vec<Option<String>>, JournalError> {
        let mut pieces: Vec<Option<String>> = vec![None; shingles.len()];
        let Some(journal) = self.journal.as_ref().filter(|_| !pieces.is_empty()) else { return Ok(pieces) };
        let slots = slots_of(pipeline, plan);
        let mut finder = PieceFinder::new(pipeline, plan, &self.secret, &slots, shingles);
        let (mut blocks, mut skipped, mut rows) =
            (journal.ranked(IdRange::default())?, SkippedData::default(), 0);
        while rows < ROWS_NAMED && !finder.has_all() {
            let Some(block) = blocks.next_block()? else { break };
            rows += block.head.count as usize;
            skipped.pass(block.look(&mut finder).map_err(|error| block.error(error)))?;
        }
        for (piece, shingle) in pieces.iter_mut().zip(shingles) {
            *piece = finder.pieces.get(shingle).cloned();
        }
        Ok(pieces)
    }
}

/// The facts that a kind's keys are made of, each in its own slot, as rows of the pipeline's version have them.
fn slots_of(pipeline: &Pipeline, plan: &KindPlan) -> Vec<Option<Slot>> {
    let mut slots = vec![None; pipeline.schema.columns().len()];
    let fields = plan.fields.as_slice().iter().map(|field| field.slot);
    let asked = plan.when.iter().flat_map(|when| when.reads()).map(|read| read.slot);
    for slot in fields.chain(asked) {
        if let Some(place) = slots.get_mut(usize::from(slot.0)) {
            *place = Some(slot);
        }
    }
    slots
}

/// Finds the pieces that some keys of a kind are made of, in rows that have these keys.
struct PieceFinder<'a> {
    pipeline: &'a Pipeline,
    plan: &'a KindPlan,
    secret: &'a Secret,
    slots: &'a [Option<Slot>],
    wanted: HashSet<Shingle>,
    pieces: HashMap<Shingle, String>,
    facts: Facts,
    has_wanted_key: bool,
}

impl<'a> PieceFinder<'a> {
    fn new(
        pipeline: &'a Pipeline,
        plan: &'a KindPlan,
        secret: &'a Secret,
        slots: &'a [Option<Slot>],
        shingles: &[Shingle],
    ) -> PieceFinder<'a> {
        PieceFinder {
            pipeline,
            plan,
            secret,
            slots,
            wanted: shingles.iter().copied().collect(),
            pieces: HashMap::new(),
            facts: pipeline.schema.empty_row(),
            has_wanted_key: false,
        }
    }

    fn has_all(&self) -> bool {
        self.pieces.len() == self.wanted.len()
    }
}

impl<'a> RecordVisitor<'a> for PieceFinder<'a> {
    fn version(&mut self, _pipeline: &str, version: &str) -> Option<&'a [Option<Slot>]> {
        // Rows of another version may have their facts in other slots.
        (version == self.pipeline.version).then_some(self.slots)
    }

    fn decision(&mut self, head: &DecisionHead<'_>) -> Option<&mut Facts> {
        if head.version != self.pipeline.version || self.has_all() {
            return None;
        }
        for slot in self.slots.iter().flatten() {
            self.facts.clear(*slot);
        }
        // Kinds without statistics are not among a row's keys.
        self.has_wanted_key = !self.plan.is_counted();
        Some(&mut self.facts)
    }

    fn wants_keys(&self) -> bool {
        self.plan.is_counted()
    }

    fn key(&mut self, kind: Kind, shingle: Shingle) {
        let is_wanted = kind == self.plan.kind && self.wanted.contains(&shingle);
        self.has_wanted_key |= is_wanted && !self.pieces.contains_key(&shingle);
    }

    fn decided(&mut self, _decided: DecisionOutcome) {
        if !self.has_wanted_key {
            return;
        }
        keys::pieces(self.plan, &self.facts, |piece| {
            let shingle = self.secret.shingle(piece.as_bytes());
            if self.wanted.contains(&shingle) && !self.pieces.contains_key(&shingle) {
                self.pieces.insert(shingle, piece.to_owned());
            }
        });
    }
}

/// The first piece of a value of a kind, and its hash.
pub(crate) fn piece(plan: &KindPlan, value: &str, secret: &Secret) -> Result<(String, Shingle), PieceError> {
    let mut first = None;
    let lower = (plan.kind == plan::REPORTER).then(|| plan::reporter(value));
    let value = lower.as_deref().unwrap_or(value);
    plan.fields.pieces_of(value, &mut |piece| {
        first.get_or_insert_with(|| piece.to_owned());
    });
    let piece = first.ok_or_else(|| PieceError {
        kind: plan.name.clone(),
        value: value.to_owned(),
        fields: plan.fields.as_slice().len(),
    })?;
    let shingle = secret.shingle(piece.as_bytes());
    Ok((piece, shingle))
}
