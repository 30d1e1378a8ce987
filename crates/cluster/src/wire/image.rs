//! Images of cells, read from a cluster's answers. Any answer is taken.

use std::collections::BTreeMap;

use event::Time;
use stats::cell_export::{AggregateTotals, CellContent, HyperLogLogRegisters};
use stats::limit::nanoseconds;
use stats::{AggregateColumn, Evidence, Tier, TimelineBucket};

use super::batch::CARRY_BITS;
use super::form::{self, MergeForm, RUN, WindowDimensions};
use crate::remote::{CellForm, CellImage, TIME_MAX};

/// Most events that an aggregate says it has seen.
const AGGREGATE_COUNT_MAX: u64 = (1 << 62) - 1;

/// Makes an image of the fields of a cell's hash and their values; `None` if there are none. Allocates no more than some
/// times what is given, or as much as the form's cells have at most.
///
/// # Errors
/// Says what is no field of the form.
pub fn decode<'a>(
    form: &CellForm,
    fields: impl IntoIterator<Item = (&'a [u8], &'a [u8])>,
) -> Result<Option<CellImage>, &'static str> {
    let mut cell = CellFields::default();
    for (field, value) in fields {
        cell.is_there = true;
        match integer(field) {
            Some(place) => cell.places.push((place, value)),
            None => cell.named(field, value)?,
        }
    }
    if !cell.is_there {
        return Ok(None);
    }
    let merged = MergeForm::of(&form.definition.measure);
    if let MergeForm::Moment = merged {
        let moment = cell.least.ok_or("it has no moment")?;
        let micros = moment.div_euclid(1000).saturating_add(i64::from(moment.rem_euclid(1000) > 0));
        let time = Time(micros);
        return form.plan.restore(time, time, &CellContent::Moment(moment)).map(Some);
    }
    let last = cell.last.ok_or("it has no last event")?;
    let first = cell.first.unwrap_or(last);
    if first > last || [first, last].iter().any(|time| time.0.unsigned_abs() > TIME_MAX.0.unsigned_abs()) {
        return Err("its times cannot be");
    }
    let content = match merged {
        MergeForm::Ring(frame) => CellContent::Buckets(cell.buckets(&frame, last)?),
        MergeForm::Totals { columns, .. } => CellContent::Totals(cell.totals(columns)?),
        MergeForm::Register { .. } => {
            let value = std::str::from_utf8(cell.value.ok_or("it has no value")?);
            CellContent::Last(value.map_err(|_| "a value is no text")?.to_owned())
        }
        MergeForm::Sums { .. } => CellContent::Evidence(cell.evidence),
        MergeForm::Registers { tier, precision } => {
            CellContent::Registers(cell.registers(tier, precision, last)?)
        }
        MergeForm::Moment => CellContent::Moment(nanoseconds(last)),
    };
    form.plan.restore(first, last, &content).map(Some)
}

/// The fields of any cell.
#[derive(Default)]
struct CellFields<'a> {
    is_there: bool,
    first: Option<Time>,
    last: Option<Time>,
    count: Option<i64>,
    sums: [i64; 2],
    least: Option<i64>,
    greatest: Option<i64>,
    decayed: [f64; 4],
    evidence: Evidence,
    value: Option<&'a [u8]>,
    places: Vec<(i64, &'a [u8])>,
}

impl<'a> CellFields<'a> {
    fn named(&mut self, field: &[u8], value: &'a [u8]) -> Result<(), &'static str> {
        let number = || integer(value).ok_or("a field is no integer");
        match field {
            b"f" => self.first = Some(Time(number()?)),
            b"l" => self.last = Some(Time(number()?)),
            b"c" => self.count = Some(number()?),
            b"s" => self.sums[0] = number()?,
            b"S" => self.sums[1] = number()?,
            b"m" => self.least = Some(number()?),
            b"M" => self.greatest = Some(number()?),
            b"b" => self.evidence.bad = number()?,
            b"g" => self.evidence.good = number()?,
            b"w" => self.evidence.weight = number()?,
            b"v" => self.value = Some(value),
            [b'd', at @ b'1'..=b'4'] => {
                let sum = f64::from_le_bytes(value.try_into().map_err(|_| "a decayed sum is no number")?);
                if !sum.is_finite() {
                    return Err("a decayed sum is no finite number");
                }
                self.decayed[usize::from(at - b'1')] = sum;
            }
            _ => return Err("a field has no known name"),
        }
        Ok(())
    }

    fn buckets(&self, frame: &WindowDimensions, last: Time) -> Result<Vec<TimelineBucket>, &'static str> {
        let counters = frame.counters as i64;
        let fine_slots = WindowDimensions::slots(frame.fine);
        // Coarse ones come first.
        let mut rows = BTreeMap::<(bool, i64), Vec<u64>>::new();
        for (place, value) in &self.places {
            let count = match value {
                // A mark says who left it.
                [b't', token @ ..] if token.len() == 16 => 1,
                _ => integer(value).and_then(|count| u64::try_from(count).ok()).ok_or("a count is none")?,
            };
            let (slot, counter) = (place.div_euclid(counters), place.rem_euclid(counters));
            let (tier, slot) = match frame.coarse {
                _ if (0..fine_slots).contains(&slot) => (frame.fine, slot),
                Some(coarse)
                    if (fine_slots..fine_slots + WindowDimensions::slots(coarse)).contains(&slot) =>
                {
                    (coarse, slot - fine_slots)
                }
                _ => return Err("a place is none of the form's"),
            };
            let newest = form::bucket(last, tier);
            let bucket = newest - (newest - slot).rem_euclid(WindowDimensions::slots(tier));
            let row = rows.entry((tier == frame.fine, bucket));
            let counts = row.or_insert_with(|| vec![0; frame.counters]);
            if let Some(place) = counts.get_mut(counter as usize) {
                *place = count;
            }
        }
        let row = |((is_fine, bucket), counts)| {
            let tier = if is_fine { frame.fine } else { frame.coarse.unwrap_or(frame.fine) };
            TimelineBucket { start: form::start(bucket, tier), width: tier.width, counts }
        };
        Ok(rows.into_iter().map(row).collect())
    }

    fn totals(&self, columns: &[AggregateColumn]) -> Result<AggregateTotals, &'static str> {
        let count = self.count.and_then(|count| u64::try_from(count).ok()).filter(|count| *count > 0);
        let keeps = |column: AggregateColumn| columns.contains(&column);
        let [low, high] = self.sums.map(i128::from);
        let decays =
            columns.iter().filter(|column| matches!(column, AggregateColumn::Decayed { .. })).count();
        if !self.places.is_empty() {
            return Err("an aggregate has no places");
        }
        Ok(AggregateTotals {
            count: count.ok_or("an aggregate has no count")?.min(AGGREGATE_COUNT_MAX),
            sum: keeps(AggregateColumn::Sum).then(|| (high << CARRY_BITS).saturating_add(low)),
            min: self.least.filter(|least| keeps(AggregateColumn::Min) && *least < i64::MAX),
            max: self.greatest.filter(|greatest| keeps(AggregateColumn::Max) && *greatest > i64::MIN),
            decayed: self.decayed.iter().take(decays).copied().collect(),
        })
    }

    fn registers(
        &self,
        tier: Tier,
        precision: u8,
        last: Time,
    ) -> Result<Vec<HyperLogLogRegisters>, &'static str> {
        let (runs, slots) = (i64::from(form::runs(precision)), WindowDimensions::slots(tier));
        let newest = form::bucket(last, tier);
        let mut periods = BTreeMap::<i64, Vec<(u32, u8)>>::new();
        for (place, value) in &self.places {
            let (slot, run) = (place.div_euclid(runs), place.rem_euclid(runs) as u32);
            let Some((from, ranks)) = value.split_first().filter(|_| (0..slots).contains(&slot)) else {
                return Err("a run of registers has no place");
            };
            if usize::from(*from) + ranks.len() > RUN as usize {
                return Err("a run of registers is too long");
            }
            let bucket = newest - (newest - slot).rem_euclid(slots);
            let list = periods.entry(bucket).or_default();
            for (rank, at) in ranks.iter().zip(u32::from(*from)..).filter(|(rank, _)| **rank > 0) {
                let register = run * RUN + at;
                if *rank > form::rank_max(precision) || register >> precision != 0 {
                    return Err("a register's number or rank is out of range");
                }
                list.push((register, *rank));
            }
        }
        let period = |(bucket, mut ranks): (i64, Vec<(u32, u8)>)| {
            ranks.sort_unstable();
            HyperLogLogRegisters { start: form::start(bucket, tier), ranks }
        };
        Ok(periods.into_iter().map(period).collect())
    }
}

/// A whole decimal number.
fn integer(text: &[u8]) -> Option<i64> {
    // Longer ones are texts of their own, such as registers; a sign that is no minus is none.
    let plain = text.len() <= 20 && text.first().is_some_and(|byte| *byte == b'-' || byte.is_ascii_digit());
    if plain { std::str::from_utf8(text).ok()?.parse().ok() } else { None }
}
