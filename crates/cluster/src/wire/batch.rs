//! Batches and claims as arguments of their scripts.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::Arc;

use event::{Span, Time};
use hashbrown::{DefaultHashBuilder, HashTable};
use stats::cell_export::{AggregateTotals, CellContent, HyperLogLogRegisters};
use stats::limit::{GcraOperation, nanoseconds};
use stats::{AggregateColumn, Evidence, Measure, TimelineBucket};

use super::form::{self, MergeForm, RUN, WindowDimensions};
use super::message_pack::{MessagePackWriter, clamped};
use super::name::NameCodec;
use crate::remote::{
    CellChange, CellForm, CellImage, CellWrite, MarkClaim, Partition, RemoteCell, WriteBatch,
};

/// The time for which a partition remembers the number of a node that writes nothing, in milliseconds: 30 days.
pub(super) const NUMBER_TTL: i64 = 30 * 86_400_000;
/// Parts of an aggregate's sum: the high one counts so many.
pub(super) const CARRY_BITS: u32 = 62;

/// The keys and the argument of a script.
#[derive(Debug)]
pub(super) struct ScriptArguments {
    pub(super) keys: Vec<Vec<u8>>,
    pub(super) argument: Vec<u8>,
}

/// The forms that writes name by their place.
#[derive(Default)]
pub(super) struct ScriptForms<'a> {
    places: HashMap<(usize, bool), i64>,
    list: Vec<(&'a Arc<CellForm>, bool)>,
}

impl<'a> ScriptForms<'a> {
    /// From one, as Lua counts. There are two of a form: one for cells whose time to live begins anew.
    pub(super) fn place(&mut self, form: &'a Arc<CellForm>, renews: bool) -> i64 {
        let list = &mut self.list;
        *self.places.entry((Arc::as_ptr(form) as usize, renews)).or_insert_with(|| {
            list.push((form, renews));
            list.len() as i64
        })
    }

    pub(super) fn pack(&self, pack: &mut MessagePackWriter) {
        pack.array(self.list.len());
        self.list.iter().for_each(|(form, renews)| form::pack(pack, form, *renews));
    }
}

/// The keys of a script, each once.
#[derive(Default)]
pub(super) struct ScriptKeys {
    hasher: DefaultHashBuilder,
    places: HashTable<usize>,
    pub(super) list: Vec<Vec<u8>>,
}

impl ScriptKeys {
    pub(super) fn place(&mut self, name: Vec<u8>) -> i64 {
        let ScriptKeys { hasher, places, list } = self;
        let hash = hasher.hash_one(&name);
        let found = places.find(hash, |at| list[*at] == name).copied();
        let at = found.unwrap_or_else(|| {
            list.push(name);
            places.insert_unique(hash, list.len() - 1, |at| hasher.hash_one(&list[*at]));
            list.len() - 1
        });
        at as i64 + 1
    }
}

/// The form and the key of a write.
#[derive(Clone, Copy)]
pub(super) struct WriteTarget {
    pub(super) form: i64,
    pub(super) key: i64,
}

impl WriteTarget {
    /// Begins a write that says so many values beside these.
    pub(super) fn begin(self, pack: &mut MessagePackWriter, values: usize) {
        pack.array(2 + values);
        pack.integer(self.form);
        pack.integer(self.key);
    }
}

/// The call of a batch; an error names the change that is not of its form.
pub(super) fn batch(names: &NameCodec, batch: &WriteBatch) -> Result<ScriptArguments, &'static str> {
    let (mut forms, mut keys) = (ScriptForms::default(), ScriptKeys::default());
    keys.place(names.number(batch.partition));
    keys.place(names.writer(batch.partition));
    let mut places = Vec::with_capacity(batch.writes.len());
    // What was told of a value is nothing where that is not known.
    let is_told = |write: &&CellWrite| match &write.change {
        CellChange::Merge(words) => write.cell.form.plan.content(words).is_some(),
        CellChange::Unique { .. } | CellChange::Flow { .. } => true,
    };
    let writes: Vec<&CellWrite> = batch.writes.iter().filter(is_told).collect();
    for CellWrite { cell, change, renews } in writes.iter().copied() {
        let key = keys.place(names.cell(batch.partition, cell));
        let pair = match change {
            CellChange::Unique { pair, .. } => keys.place(names.pair(batch.partition, cell, *pair)),
            _ => 0,
        };
        places.push((forms.place(&cell.form, *renews), key, pair));
    }
    let mut pack = MessagePackWriter::default();
    pack.array(6);
    pack.count(batch.number);
    pack.count(batch.previous);
    pack.time(batch.horizon);
    pack.integer(NUMBER_TTL);
    forms.pack(&mut pack);
    pack.array(writes.len());
    for (CellWrite { cell, change, .. }, (form, key, pair)) in writes.into_iter().zip(places) {
        let measure = &cell.form.definition.measure;
        let at = WriteTarget { form, key };
        match change {
            CellChange::Merge(image) => {
                merge(&mut pack, at, image, &cell.form, batch.horizon)?;
            }
            CellChange::Unique { time, .. } => {
                if !measure.has_pairs() {
                    return Err("only an exact distinct count has pairs");
                }
                at.begin(&mut pack, 2);
                pack.integer(pair);
                pack.text(clamped(*time).0);
            }
            CellChange::Flow { now, flow } => {
                if !matches!(MergeForm::of(measure), MergeForm::Moment) {
                    return Err("only a bucket flows");
                }
                flow_of(&mut pack, at, *now, *flow);
            }
        }
    }
    Ok(ScriptArguments { keys: keys.list, argument: pack.into_bytes() })
}

/// Writes what happens to a bucket.
pub(super) fn flow_of(pack: &mut MessagePackWriter, at: WriteTarget, now: Time, flow: GcraOperation) {
    let (what, one, other, counted) = match flow {
        GcraOperation::Take { cost, burst, counts_all } if cost > 0 => (1, cost, burst, counts_all),
        GcraOperation::Back { cost } => (2, cost.max(0), 0, false),
        GcraOperation::Set { ahead } => (3, ahead.max(0), 0, false),
        GcraOperation::Add { cost } if cost > 0 => (4, cost, 0, false),
        // Nothing changes.
        GcraOperation::Take { .. } | GcraOperation::Add { .. } => (2, 0, 0, false),
    };
    at.begin(pack, 5);
    pack.integer(what);
    pack.text(nanoseconds(clamped(now)));
    pack.text(one);
    pack.text(other);
    pack.yes_or_no(counted);
}

/// The call for claims of one partition.
pub(super) fn claims(
    names: &NameCodec,
    partition: Partition,
    claims: &[&MarkClaim],
) -> Result<ScriptArguments, &'static str> {
    let (mut forms, mut keys) = (ScriptForms::default(), ScriptKeys::default());
    let mut places = Vec::with_capacity(claims.len());
    for claim in claims {
        if !matches!(claim.cell.form.definition.measure, Measure::Once(_)) {
            return Err("only marks of requests are claimed");
        }
        let key = keys.place(names.cell(partition, &claim.cell));
        places.push((forms.place(&claim.cell.form, true), key));
    }
    let mut pack = MessagePackWriter::default();
    pack.array(2);
    forms.pack(&mut pack);
    pack.array(claims.len());
    for (claim, (form, key)) in claims.iter().zip(places) {
        pack.array(4);
        pack.integer(form);
        pack.integer(key);
        pack.time(claim.time);
        let mut token = [b't'; 17];
        token[1..].copy_from_slice(&claim.token);
        pack.bytes(&token);
    }
    Ok(ScriptArguments { keys: keys.list, argument: pack.into_bytes() })
}

/// The call that removes aged-out parts from cells of one partition; `None` if there are none.
pub(super) fn sweep(
    names: &NameCodec,
    partition: Partition,
    cells: &[RemoteCell],
    horizon: Time,
) -> Option<ScriptArguments> {
    let (mut forms, mut keys, mut places) = (ScriptForms::default(), Vec::new(), Vec::new());
    for cell in cells {
        if matches!(MergeForm::of(&cell.form.definition.measure), MergeForm::Ring(frame) if frame.outlives())
        {
            keys.push(names.cell(partition, cell));
            places.push(forms.place(&cell.form, false));
        }
    }
    let mut pack = MessagePackWriter::default();
    pack.array(3);
    pack.time(horizon);
    forms.pack(&mut pack);
    pack.array(places.len());
    places.iter().for_each(|place| pack.integer(*place));
    (!keys.is_empty()).then(|| ScriptArguments { keys, argument: pack.into_bytes() })
}

/// The names of the node's number, of who wrote last, and of cells.
pub(super) fn read(names: &NameCodec, partition: Partition, cells: &[RemoteCell]) -> Vec<Vec<u8>> {
    let cells = cells.iter().map(|cell| names.cell(partition, cell));
    [names.number(partition), names.writer(partition)].into_iter().chain(cells).collect()
}

/// Writes what another cell has seen.
fn merge(
    pack: &mut MessagePackWriter,
    at: WriteTarget,
    image: &CellImage,
    CellForm { definition, plan, .. }: &CellForm,
    horizon: Time,
) -> Result<(), &'static str> {
    let Some(((first, last), content)) = plan.times(image).zip(plan.content(image)) else {
        return Err("an image is of another form than its cell");
    };
    match (MergeForm::of(&definition.measure), &content) {
        (MergeForm::Ring(frame), CellContent::Buckets(buckets)) => {
            let rows = rows(&frame, last, buckets)?;
            at.begin(pack, 2 + 2 * rows.len());
            pack.text(clamped(first).0);
            pack.text(clamped(last).0);
            for (place, amount) in rows {
                pack.text(place);
                pack.count(amount);
            }
            Ok(())
        }
        (MergeForm::Totals { columns, .. }, CellContent::Totals(totals)) => {
            at.begin(pack, 1);
            totals_of(pack, columns, (first, last), totals)
        }
        (MergeForm::Sums { .. }, CellContent::Evidence(Evidence { bad, good, weight })) => {
            at.begin(pack, 2);
            pack.time(last);
            pack.array(3);
            [bad, good, weight].into_iter().for_each(|sum| pack.integer(*sum));
            Ok(())
        }
        (MergeForm::Register { .. }, CellContent::Last(value)) => {
            at.begin(pack, 2);
            pack.text(clamped(last).0);
            pack.bytes(value.as_bytes());
            Ok(())
        }
        (MergeForm::Moment, CellContent::Moment(moment)) => {
            // How long it is kept is counted from the horizon, or else it is a year.
            let now = nanoseconds(clamped(horizon)).max(moment.saturating_sub(nanoseconds(Time(0) + YEAR)));
            at.begin(pack, 5);
            pack.integer(5);
            pack.text(now);
            pack.text((*moment).max(i64::MIN + 1));
            pack.text(0);
            pack.yes_or_no(false);
            Ok(())
        }
        (MergeForm::Registers { tier, precision }, CellContent::Registers(periods)) => {
            at.begin(pack, 3);
            pack.text(clamped(first).0);
            pack.text(clamped(last).0);
            let newest = form::bucket(last, tier);
            let mut runs = Vec::new();
            for HyperLogLogRegisters { start, ranks } in periods {
                let period = form::bucket(*start, tier);
                if period > newest {
                    return Err("a period begins after the last event");
                }
                runs.extend(runs_of(ranks, precision)?.into_iter().map(|(run, ranks)| (period, run, ranks)));
            }
            pack.array(3 * runs.len());
            for (period, run, ranks) in runs {
                pack.integer(period);
                pack.integer(i64::from(run));
                pack.bytes(&ranks);
            }
            Ok(())
        }
        _ => Err("an image is of another form than its cell"),
    }
}

const YEAR: Span = Span::days(366);

/// Places of counts, as they lie in a cell with that last event, and what is counted there. What its fine tier does not
/// reach is in the coarse one, or nowhere.
fn rows(
    frame: &WindowDimensions,
    last: Time,
    buckets: &[TimelineBucket],
) -> Result<Vec<(i64, u64)>, &'static str> {
    let mut rows = Vec::with_capacity(buckets.len());
    for TimelineBucket { start, width, counts } in buckets {
        let coarse = frame.coarse.filter(|tier| tier.width == *width);
        let (tier, is_fine) = match coarse {
            _ if frame.fine.width == *width => (frame.fine, true),
            Some(coarse) => (coarse, false),
            None => return Err("a bucket has no tier's width"),
        };
        if form::bucket(*start, tier) > form::bucket(last, tier) {
            return Err("a bucket begins after the last event");
        }
        if counts.len() > frame.counters {
            return Err("a bucket has more counts than there are counters");
        }
        let Some(slot) = frame.slot(*start, last, is_fine) else { continue };
        let amounts = counts.iter().zip(0i64..).filter(|(amount, _)| **amount > 0);
        rows.extend(amounts.map(|(amount, counter)| (slot * frame.counters as i64 + counter, *amount)));
    }
    Ok(rows)
}

/// Writes what an aggregate has seen.
fn totals_of(
    pack: &mut MessagePackWriter,
    columns: &[AggregateColumn],
    (first, last): (Time, Time),
    totals: &AggregateTotals,
) -> Result<(), &'static str> {
    let AggregateTotals { count, sum, min, max, decayed } = totals;
    let decays = columns.iter().filter(|column| matches!(column, AggregateColumn::Decayed { .. })).count();
    if decayed.len() != decays || decayed.iter().any(|sum| !sum.is_finite()) {
        return Err("its decayed sums are not those that the form keeps");
    }
    pack.array(7 + decays);
    pack.text(clamped(first).0);
    pack.text(clamped(last).0);
    pack.count(*count);
    match sum.filter(|_| columns.contains(&AggregateColumn::Sum)) {
        Some(sum) => {
            // The low part is in [-2^61, 2^61).
            let high = sum.saturating_add(1 << (CARRY_BITS - 1)) >> CARRY_BITS;
            let low = sum.wrapping_sub(high << CARRY_BITS);
            pack.integer(i64::try_from(low).unwrap_or(0));
            pack.integer(i64::try_from(high).unwrap_or(if high < 0 { i64::MIN } else { i64::MAX }));
        }
        None => [(); 2].iter().for_each(|()| pack.none()),
    }
    for (value, column) in [(min, AggregateColumn::Min), (max, AggregateColumn::Max)] {
        match value.filter(|_| columns.contains(&column)) {
            Some(value) => pack.text(value),
            None => pack.none(),
        }
    }
    decayed.iter().for_each(|sum| pack.float(*sum));
    Ok(())
}

/// Registers by their runs: where a run's registers begin, and the rank of each.
fn runs_of(ranks: &[(u32, u8)], precision: u8) -> Result<Vec<(u32, Vec<u8>)>, &'static str> {
    let mut sorted = ranks.to_vec();
    sorted.sort_unstable();
    let mut runs: Vec<(u32, Vec<u8>)> = Vec::new();
    for (register, rank) in sorted {
        if register >> precision != 0 || rank == 0 || rank > form::rank_max(precision) {
            return Err("a register's number or rank is out of range");
        }
        let (run, place) = (register / RUN, (register % RUN) as u8);
        match runs.last_mut().filter(|(last, _)| *last == run) {
            Some((_, bytes)) => {
                let from = bytes.first().copied().unwrap_or(place);
                // Of a register that is there twice the greater rank comes last.
                bytes.resize(usize::from(place.saturating_sub(from)) + 1, 0);
                bytes.push(rank);
            }
            None => runs.push((run, vec![place, rank])),
        }
    }
    Ok(runs)
}
