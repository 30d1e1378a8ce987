//! The keys of a batch, column by column, and the ledger's requests for them.

use std::ops::Range;
use std::sync::Arc;

use content::composite::CompositePiece;
use content::network::PrefixLengths;
use content::piece::Normalisation;
use event::{Event, Facts, Key, Kind, Secret, Shingle, Slot, Table, TableIndex, Time, Type};
use judge::Condition;
use stats::{Addition, DedupeMark, Observation, ObserveRequest};

use super::columns::{BatchColumn, ColumnParts, EventBatch, RowValues};
use crate::pipeline::fields::RowDraft;
use crate::pipeline::keys::{self, DistinctPair, PreparedEvent};
use crate::pipeline::observe::counters;
use plan::{
    ContentColumns, DistinctPlan, KeyField, KeyFields, KindPlan, LabelPlan, ONCE, Pipeline, PipelineInput,
};

/// Observations of a request that is for several rows: the ledger applies about so many together.
const TOGETHER: usize = 1000;
/// Most kinds, distinct counts and labels of a pipeline whose keys are made by column.
const SOURCES_MAX: usize = 2000;

/// A batch whose keys are known.
pub(super) struct BatchKeys<'a> {
    pub(super) pipeline: &'a Arc<Pipeline>,
    arrival: Time,
    times: Vec<Time>,
    /// The mark of each row that has a name.
    marks: Option<RowValues<Shingle>>,
    /// The batch's name.
    id: Option<(&'a str, &'a Secret)>,
    /// The shingles of the rows, by kind.
    kinds: Table<KindPlan, Arc<RowValues<Shingle>>>,
    /// The values of the rows, for kinds with an aggregate's value or with amounts.
    values: Table<KindPlan, Option<RowValues<i64>>>,
    /// The values that are counted, by distinct count.
    distincts: Table<DistinctPlan, Arc<RowValues<Shingle>>>,
    /// The shingle of the same pair, once for each row.
    pairs: Table<DistinctPlan, Vec<Shingle>>,
    /// Events that claimed to come from too far in the future.
    pub(super) clamped: u64,
    /// Values that the pipeline has no field for.
    pub(super) ignored: u64,
    rows: usize,
}

/// The source of a row's observations, in the order in which they are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ObservationSource {
    Kind(TableIndex<KindPlan>),
    Distinct(TableIndex<DistinctPlan>),
    Label(TableIndex<LabelPlan>),
}

/// The columns of a [`ObservationSource`].
struct SourceColumns<'a> {
    kind: Kind,
    /// The shingles of the key, or of a distinct count's owner.
    shingles: &'a RowValues<Shingle>,
    /// The addition of every row, but for values.
    add: Addition,
    /// The values that rows add to an aggregate, or their amounts.
    values: Option<&'a RowValues<i64>>,
    /// The kind, if some of its counters go up by the values.
    amounts: Option<&'a KindPlan>,
    /// The values of a distinct count, and their pairs with the owners.
    pairs: Option<(&'a RowValues<Shingle>, &'a [Shingle])>,
}

impl<'a> BatchKeys<'a> {
    /// The keys of a batch; `None` if the pipeline's events must be taken one by one.
    pub(super) fn of(
        pipeline: &'a Arc<Pipeline>,
        batch: &'a EventBatch<'_>,
        arrival: Time,
        secret: &'a Secret,
    ) -> Option<BatchKeys<'a>> {
        let sources = pipeline.kinds.len() + pipeline.distincts.len() + pipeline.labels.len();
        let is_plain = pipeline.input == PipelineInput::Json
            && matches!(pipeline.columns.content, ContentColumns::Json)
            && pipeline.columns.derived.is_empty()
            && pipeline.header.is_usual()
            && pipeline.columns.fields.is_empty()
            && pipeline.phrases.is_empty()
            && pipeline.robots.is_none()
            && pipeline.applications.is_none()
            && pipeline.block_lists.is_none()
            && pipeline.classifiers.is_empty()
            && pipeline.challenge.is_none()
            && pipeline.form.is_none()
            && pipeline.bait.is_none()
            && pipeline.kinds.iter().all(|kind| kind.last.is_none())
            && sources <= SOURCES_MAX;
        if !is_plain {
            return None;
        }
        let rows = batch.rows;
        let named = |name: &str| batch.columns.iter().rev().find(|(own, _)| own == name).map(|(_, it)| it);
        let (times, clamped) = times(pipeline, named("time"), rows, arrival);
        let marks = named("id").map(|column| marks(pipeline, column, rows, secret));
        let mut hashing = ColumnHasher { pipeline, rows, secret, brought: Vec::new(), done: Vec::new() };
        let mut ignored = 0;
        for (name, column) in &batch.columns {
            match pipeline.schema.slot(name) {
                _ if matches!(name.as_ref(), "id" | "time") => {}
                Some(slot) if usize::from(slot.0) < pipeline.columns.count => {
                    hashing.brought.push((slot, column));
                }
                _ => ignored += rows as u64,
            }
        }
        // A network is made of its address, and not brought, and the time is not a field.
        let own = [pipeline.columns.event.time, pipeline.columns.event.arrival];
        let is_own = |slot: &Slot| {
            own.contains(slot) || pipeline.columns.networks.iter().any(|(_, network)| network == slot)
        };
        if hashing.brought.iter().any(|(slot, _)| is_own(slot)) {
            return None;
        }
        let hashed = pipeline.kinds.iter().map(|kind| hashing.of(&kind.fields));
        let mut kinds: Table<KindPlan, Arc<RowValues<Shingle>>> = hashed.collect::<Option<_>>()?;
        let hashed = pipeline.distincts.iter().map(|distinct| hashing.of(&distinct.of));
        let distincts: Table<DistinctPlan, Arc<RowValues<Shingle>>> = hashed.collect::<Option<_>>()?;
        let values = pipeline.kinds.map(|kind| kind.value.and_then(|slot| hashing.units(slot, kind)));
        if pipeline.kinds.iter().any(|kind| kind.when.is_some()) {
            conditions(pipeline, &hashing.brought, &times, arrival, &mut kinds);
        }
        let pairs = pipeline.distincts.iter().zip(&distincts).map(|(plan, values)| {
            let owners = &kinds[plan.per];
            let pair = |row| {
                owners
                    .get(row)
                    .zip(values.get(row))
                    .map(|(owner, value)| secret.pair(owner, value))
                    .unwrap_or_default()
            };
            (0..rows).map(pair).collect()
        });
        let pairs = pairs.collect();
        let id = batch.id.as_deref().map(|id| (id, secret));
        Some(BatchKeys {
            pipeline,
            arrival,
            times,
            marks,
            id,
            values,
            pairs,
            kinds,
            distincts,
            clamped,
            ignored,
            rows,
        })
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the number of keys.
    pub(super) fn keys(&self) -> usize {
        let counted = self.pipeline.kinds.iter().zip(&self.kinds).filter(|(plan, _)| plan.is_counted());
        counted.map(|(_, shingles)| shingles.count()).sum()
    }

    /// The time of a row's event.
    pub(super) fn time(&self, row: usize) -> Time {
        self.times[row]
    }

    /// The times of some rows' events.
    pub(super) fn times(&self, rows: Range<usize>) -> &[Time] {
        &self.times[rows]
    }

    /// The values that rows add to a kind's aggregate, or their amounts.
    pub(super) fn values(&self, kind: TableIndex<KindPlan>) -> Option<&RowValues<i64>> {
        self.values[kind].as_ref()
    }

    /// The key of a source in a row.
    #[inline]
    pub(super) fn key(&self, source: ObservationSource, row: usize) -> Option<Key> {
        let pipeline = self.pipeline;
        let key = |kind: Kind, shingle| Key { space: pipeline.space, kind, shingle };
        match source {
            ObservationSource::Kind(at) => Some(key(pipeline.kinds[at].kind, self.kinds[at].get(row)?)),
            ObservationSource::Distinct(at) => {
                let plan = &pipeline.distincts[at];
                if plan.members.is_none() {
                    self.distincts[at].get(row)?;
                }
                Some(key(plan.kind, self.kinds[plan.per].get(row)?))
            }
            ObservationSource::Label(at) => {
                let plan = &pipeline.labels[at];
                Some(key(plan.kind, self.kinds[plan.of].get(row)?))
            }
        }
    }

    /// Returns true if a row has a key of a source.
    #[inline]
    pub(super) fn has(&self, source: ObservationSource, row: usize) -> bool {
        self.key(source, row).is_some()
    }

    /// Fills requests for the rows from one on, with about so many observations at most; answers the row behind each of
    /// them. Rows that have no name of their own share requests.
    pub(super) fn fill(
        &self,
        first: usize,
        at_once: usize,
        requests: &mut Vec<ObserveRequest>,
    ) -> Vec<usize> {
        let sources: Vec<SourceColumns<'_>> =
            sources(self.pipeline).into_iter().map(|source| self.sourced(source)).collect();
        let width = sources.len().max(1);
        let together = (TOGETHER / width).max(1);
        let (mut row, mut ends, mut observed) = (first, Vec::new(), 0);
        while row < self.rows && observed < at_once {
            let mark = self.mark(row);
            // What is sent again must be cut at the same places.
            let boundary = (row / together + 1) * together;
            let mut end = row + 1;
            if mark.is_none() {
                while end < self.rows && end < boundary && self.mark(end).is_none() {
                    end += 1;
                }
            }
            let used = ends.len();
            if used == requests.len() {
                requests.push(ObserveRequest {
                    observations: Vec::with_capacity((end - row) * width),
                    ..ObserveRequest::default()
                });
            }
            let request = &mut requests[used];
            request.observations.clear();
            request.once = self.once(row, mark);
            for row in row..end {
                let time = self.time(row);
                for source in &sources {
                    let Some(shingle) = source.shingles.get(row) else { continue };
                    let key = Key { space: self.pipeline.space, kind: source.kind, shingle };
                    let value = || source.values.and_then(|values| values.get(row));
                    let add = match (&source.add, source.pairs, source.amounts) {
                        (_, Some((values, pairs)), _) => match values.get(row) {
                            Some(_) => Addition::Distinct { pair: pairs[row] },
                            None => continue,
                        },
                        (Addition::Value(_), ..) => Addition::Value(value()),
                        (_, _, Some(plan)) => counters(plan.amounts(plan.observe.iter().copied(), value())),
                        (add, ..) => add.clone(),
                    };
                    request.observations.push(Observation { key, time, add });
                }
            }
            observed += request.observations.len();
            ends.push(end);
            row = end;
        }
        ends
    }

    /// Returns what is asked of a source, and what every row adds to it.
    fn sourced(&self, source: ObservationSource) -> SourceColumns<'_> {
        let plain = |kind: Kind, of: TableIndex<KindPlan>| SourceColumns {
            kind,
            shingles: &self.kinds[of],
            add: Addition::Nothing,
            values: None,
            amounts: None,
            pairs: None,
        };
        match source {
            ObservationSource::Kind(at) => {
                let plan = &self.pipeline.kinds[at];
                let add = match plan.aggregate.is_empty() {
                    true => counters(plan.observe.iter().copied()),
                    false if plan.takes_events => Addition::Value(None),
                    false => Addition::Nothing,
                };
                let amounts = Some(plan).filter(|plan| !plan.amounts.is_empty());
                SourceColumns { add, values: self.values[at].as_ref(), amounts, ..plain(plan.kind, at) }
            }
            ObservationSource::Distinct(at) => {
                let plan = &self.pipeline.distincts[at];
                // What feedback counts is only looked at.
                let pairs = (&*self.distincts[at], self.pairs[at].as_slice());
                let pairs = Some(pairs).filter(|_| plan.members.is_none());
                SourceColumns { pairs, ..plain(plan.kind, plan.per) }
            }
            ObservationSource::Label(at) => {
                let plan = &self.pipeline.labels[at];
                plain(plan.kind, plan.of)
            }
        }
    }

    fn mark(&self, row: usize) -> Option<Shingle> {
        self.marks.as_ref()?.get(row)
    }

    fn once(&self, row: usize, mark: Option<Shingle>) -> Option<DedupeMark> {
        let time = self.time(row);
        let key = match (mark, self.id) {
            (Some(shingle), _) => Key { space: self.pipeline.space, kind: ONCE, shingle },
            (None, Some((id, secret))) => keys::once(self.pipeline, secret, "batch", &format!("{id}\0{row}")),
            (None, None) => return None,
        };
        Some(DedupeMark { key, time })
    }

    /// Some rows with their facts, to be judged.
    pub(super) fn prepared(
        &self,
        batch: &EventBatch<'_>,
        rows: Range<usize>,
        secret: &Secret,
    ) -> Vec<PreparedEvent> {
        let pipeline = self.pipeline;
        let brought = |name: &str| {
            let slot = pipeline.schema.slot(name)?;
            (usize::from(slot.0) < pipeline.columns.count).then_some(slot)
        };
        let brought: Vec<(Slot, &BatchColumn<'_>)> = batch
            .columns
            .iter()
            .filter(|(name, _)| !matches!(name.as_ref(), "id" | "time"))
            .filter_map(|(name, column)| Some((brought(name)?, column)))
            .collect();
        let ids = batch.columns.iter().rev().find(|(name, _)| name == "id").map(|(_, column)| column);
        let row = |row: usize| {
            let mut facts = pipeline.schema.empty_row();
            fill(pipeline, &brought, row, self.time(row), self.arrival, &mut facts);
            let id = ids.and_then(|ids| ids.text(row)).filter(|id| is_id(id)).map(|id| id.into_owned());
            let mark = self.mark(row).map(|shingle| Key { space: pipeline.space, kind: ONCE, shingle });
            let of_batch = || {
                let id = batch.id.as_ref()?;
                Some(keys::once(pipeline, secret, "batch row", &format!("{id}\0{row}")))
            };
            let fielded = RowDraft {
                pipeline: Arc::clone(pipeline),
                event_id: id,
                time: self.time(row),
                arrival: self.arrival,
                clamped: false,
                ignored: 0,
                facts,
                raw: None,
            };
            let of_kind = |kind| self.key(ObservationSource::Kind(kind), row);
            let pair = |at| {
                let owner = self.key(ObservationSource::Distinct(at), row)?;
                Some(DistinctPair { owner, pair: self.pairs[at][row] })
            };
            let label = |at| self.key(ObservationSource::Label(at), row);
            PreparedEvent::of_columns(fielded, of_kind, pair, label, mark.or_else(of_batch))
        };
        rows.map(row).collect()
    }
}

/// Returns what is asked of each row, in order: keys that are counted, distinct values, labels that anything asks for.
pub(super) fn sources(pipeline: &Pipeline) -> Vec<ObservationSource> {
    let kinds = pipeline.kinds.entries().filter(|(_, plan)| plan.is_counted());
    let labels = pipeline.labels.entries().filter(|(_, plan)| plan.is_read);
    kinds
        .map(|(at, _)| ObservationSource::Kind(at))
        .chain(pipeline.distincts.indices().map(ObservationSource::Distinct))
        .chain(labels.map(|(at, _)| ObservationSource::Label(at)))
        .collect()
}

fn is_id(id: &str) -> bool {
    !id.is_empty() && id.len() <= Event::ID_BYTES_MAX
}

fn marks(pipeline: &Pipeline, column: &BatchColumn<'_>, rows: usize, secret: &Secret) -> RowValues<Shingle> {
    let mark = |row| {
        let id = column.text(row).filter(|id| is_id(id))?;
        Some(keys::once(pipeline, secret, "event", &id).shingle)
    };
    RowValues::of((0..rows).map(mark), rows)
}

/// The times of the events, none later than may be.
fn times(
    pipeline: &Pipeline,
    column: Option<&BatchColumn<'_>>,
    rows: usize,
    arrival: Time,
) -> (Vec<Time>, u64) {
    let latest = arrival + pipeline.skew_max;
    let Some(column) = column else { return (vec![arrival.min(latest); rows], 0) };
    let (claimed, mut clamped) = (column.times(rows), 0);
    let time = |row| {
        let claimed = claimed.get(row).map_or(arrival, Time);
        clamped += u64::from(claimed > latest);
        claimed.min(latest)
    };
    ((0..rows).map(time).collect(), clamped)
}

/// The fields of a key, and the shingles of the rows.
type HashedColumn<'a> = (&'a KeyFields, Arc<RowValues<Shingle>>);

/// Shingles of columns, each made once for all that ask for the same.
struct ColumnHasher<'a, 'b> {
    pipeline: &'a Pipeline,
    rows: usize,
    secret: &'a Secret,
    brought: Vec<(Slot, &'a BatchColumn<'b>)>,
    done: Vec<HashedColumn<'a>>,
}

impl<'a> ColumnHasher<'a, '_> {
    fn column(&self, slot: Slot) -> Option<&BatchColumn<'_>> {
        self.brought.iter().rev().find(|(own, _)| *own == slot).map(|(_, column)| *column)
    }

    /// The shingles of a key's fields; `None` if a value of one can have several, or does not come from a column.
    fn of(&mut self, fields: &'a KeyFields) -> Option<Arc<RowValues<Shingle>>> {
        if let Some((_, done)) = self.done.iter().find(|(of, _)| *of == fields) {
            return Some(Arc::clone(done));
        }
        if !fields.as_slice().iter().all(|field| self.is_by_column(*field)) {
            return None;
        }
        let spread = match fields.single() {
            Some(field) => self.shingles(field),
            None => self.composite(fields.as_slice()),
        };
        let spread = Arc::new(spread.unwrap_or_else(|| RowValues::none(self.rows)));
        self.done.push((fields, Arc::clone(&spread)));
        Some(spread)
    }

    fn is_by_column(&self, field: KeyField) -> bool {
        let columns = &self.pipeline.columns;
        let KeyField { slot, kind: wanted, normalise } = field;
        let is_event = slot == columns.event.time || slot == columns.event.arrival;
        let is_network = columns.networks.iter().any(|(_, network)| *network == slot);
        !is_event
            && normalise != Normalisation::Address
            && !matches!(wanted, Type::List | Type::Bytes)
            && (normalise == Normalisation::Exact || !is_network)
    }

    /// The column that has a fact, and the prefixes by which its addresses are cut if the fact is their network.
    fn source(&self, slot: Slot) -> Option<(&BatchColumn<'_>, Option<PrefixLengths>)> {
        let pipeline = self.pipeline;
        match pipeline.columns.networks.iter().find(|(_, network)| *network == slot) {
            Some((address, _)) => Some((self.column(*address)?, Some(pipeline.prefixes))),
            None => Some((self.column(slot)?, None)),
        }
    }

    /// The shingles of one field; `None` if no row has it.
    fn shingles(&self, KeyField { slot, kind, normalise }: KeyField) -> Option<RowValues<Shingle>> {
        let (column, prefixes) = self.source(slot)?;
        Some(match prefixes {
            Some(prefixes) => column.networks(self.rows, prefixes, self.secret),
            None => column.shingles(self.rows, kind, normalise, self.secret),
        })
    }

    /// The shingles of several fields together; `None` if no row has one of them.
    fn composite(&self, fields: &[KeyField]) -> Option<RowValues<Shingle>> {
        let parts = fields.iter().map(|KeyField { slot, kind, normalise }| {
            let (column, prefixes) = self.source(*slot)?;
            Some(column.parts(*kind, *normalise, prefixes))
        });
        let parts: Vec<ColumnParts<'_, '_>> = parts.collect::<Option<_>>()?;
        let mut piece = CompositePiece::default();
        let shingle = |row| {
            let piece = piece.of(parts.iter().map(|parts| parts.get(row)))?;
            Some(self.secret.shingle(piece.as_bytes()))
        };
        Some(RowValues::of((0..self.rows).map(shingle), self.rows))
    }

    fn units(&self, slot: Slot, plan: &KindPlan) -> Option<RowValues<i64>> {
        let wanted = self.pipeline.schema.column(slot).kind;
        self.column(slot).map(|column| column.units(self.rows, wanted, plan))
    }
}

/// Takes the keys away that a row does not have because its facts do not meet the kind's condition.
fn conditions(
    pipeline: &Pipeline,
    brought: &[(Slot, &BatchColumn<'_>)],
    times: &[Time],
    arrival: Time,
    kinds: &mut Table<KindPlan, Arc<RowValues<Shingle>>>,
) {
    let with: Vec<(TableIndex<KindPlan>, &Condition)> =
        pipeline.kinds.entries().filter_map(|(at, plan)| Some((at, plan.when.as_deref()?))).collect();
    let mut holds = vec![vec![false; times.len()]; with.len()];
    let mut facts = pipeline.schema.empty_row();
    for (row, time) in times.iter().enumerate() {
        facts.clear_all();
        fill(pipeline, brought, row, *time, arrival, &mut facts);
        for ((_, when), holds) in with.iter().zip(&mut holds) {
            holds[row] = when.fires(&facts);
        }
    }
    for ((at, _), holds) in with.into_iter().zip(holds) {
        Arc::make_mut(&mut kinds[at]).retain(|row| holds[row]);
    }
}

/// Fills the facts of a row, as [`crate::pipeline::fields::fill`] does.
fn fill(
    pipeline: &Pipeline,
    brought: &[(Slot, &BatchColumn<'_>)],
    row: usize,
    time: Time,
    arrival: Time,
    facts: &mut Facts,
) {
    facts.set(pipeline.columns.event.time, time);
    facts.set(pipeline.columns.event.arrival, arrival);
    for (slot, column) in brought {
        column.fill(row, pipeline.schema.column(*slot).kind, *slot, facts);
    }
    for (field, network) in &pipeline.columns.networks {
        if let Some(event::Value::Ip(ip)) = facts.get(*field) {
            let text = content::network::network(*ip, pipeline.prefixes);
            facts.set(*network, text);
        }
    }
}
