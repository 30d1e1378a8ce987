//! Statistics of the target over categories ("CTRs"), from tables that training filled.
//!
//! A combination of categorical features, and of bits that say whether splits pass, is hashed to a key. The table
//! has a row for each key that training saw. CatBoost computes the statistic from the row's counts for every row
//! that it scores; here it is computed once for each row of the table, at load, and only its bin is kept.

use std::collections::HashMap;
use std::ops::Range;

use crate::raw::{CtrKind, RawCtr, RawProjection, RawTable};
use crate::split::{BinSplit, PER_COLUMN};
use crate::{ModelError, ModelLimits};

/// The values that are hashed to the keys of some tables.
#[derive(Clone, Debug)]
pub(crate) struct Projection {
    /// Places among the model's categories.
    pub(crate) categories: Vec<usize>,
    pub(crate) bits: Vec<BinSplit>,
    pub(crate) tables: Vec<CtrTable>,
}

/// The row of each key in a table, and the bins of each row.
#[derive(Clone, Debug)]
pub(crate) struct CtrTable {
    keys: CtrKeyTable,
    pub(crate) columns: Vec<CtrColumn>,
}

#[derive(Clone, Debug)]
pub(crate) struct CtrColumn {
    pub(crate) column: usize,
    /// The bins of each row; the last row is for keys that the table does not have.
    pub(crate) bins: Vec<u8>,
}

impl CtrTable {
    /// The row of a key; the one after the last if it is not there.
    pub(crate) fn row(&self, key: u64) -> usize {
        self.keys.row(key)
    }
}

/// Adds a category or a bit to a key: `CalcHash` of CatBoost's `libs/model/hash.h`.
pub(crate) fn extend(key: u64, with: u64) -> u64 {
    const MULTIPLIER: u64 = 0x4906_ba49_4954_cb65;
    MULTIPLIER.wrapping_mul(key.wrapping_add(MULTIPLIER.wrapping_mul(with)))
}

/// A category as it goes into a key: the sign of its 32 bits is extended.
pub(crate) fn widened(category: u32) -> u64 {
    i64::from(category as i32) as u64
}

/// A table of keys with open addressing, at most half full.
#[derive(Clone, Debug)]
struct CtrKeyTable {
    multiplier: u64,
    shift: u32,
    /// Key and row; an empty place has [`CtrKeyTable::NONE`] and the row of keys that are not there.
    places: Vec<(u64, u32)>,
}

impl CtrKeyTable {
    const NONE: u64 = u64::MAX;
    /// Longest run of places that a key may have to pass. Keys that were not made to collide stay far below.
    const RUN: usize = 64;
    /// Multipliers that are tried until no run is too long.
    const TRIES: u64 = 8;

    fn new(keys: &[(u64, u32)], absent: u32) -> Result<CtrKeyTable, ModelError> {
        for attempt in 0..CtrKeyTable::TRIES {
            // Odd, and far from each other.
            let multiplier = 0x9e37_79b9_7f4a_7c15u64.wrapping_mul(2 * attempt + 1);
            if let Some(table) = CtrKeyTable::place(keys, absent, multiplier)? {
                return Ok(table);
            }
        }
        Err(ModelError::new("CTR tables", "its keys were made to collide"))
    }

    fn place(keys: &[(u64, u32)], absent: u32, multiplier: u64) -> Result<Option<CtrKeyTable>, ModelError> {
        let bits = (2 * keys.len()).next_power_of_two().max(2).trailing_zeros();
        let places = vec![(CtrKeyTable::NONE, absent); 1 << bits];
        let mut table = CtrKeyTable { multiplier, shift: u64::BITS - bits, places };
        let mask = table.places.len() - 1;
        for (key, row) in keys {
            let start = table.start(*key);
            let free = (start..start + CtrKeyTable::RUN).find(|place| {
                let held = table.places[place & mask].0;
                held == CtrKeyTable::NONE || held == *key
            });
            let Some(free) = free else { return Ok(None) };
            if table.places[free & mask].0 == *key {
                return Err(ModelError::new("CTR tables", "a key is there twice"));
            }
            table.places[free & mask] = (*key, *row);
        }
        Ok(Some(table))
    }

    fn start(&self, key: u64) -> usize {
        (key.wrapping_mul(self.multiplier) >> self.shift) as usize
    }

    fn row(&self, key: u64) -> usize {
        let mask = self.places.len() - 1;
        let mut place = self.start(key);
        loop {
            let (held, row) = self.places[place & mask];
            if held == key || held == CtrKeyTable::NONE {
                return row as usize;
            }
            place += 1;
        }
    }
}

/// A bound on what is made out of a file of some length.
pub(crate) struct CtrBudget {
    left: usize,
}

impl CtrBudget {
    pub(crate) fn new(file_bytes: usize) -> CtrBudget {
        CtrBudget { left: file_bytes.saturating_mul(ModelLimits::BINS_PER_BYTE) }
    }

    fn spend(&mut self, bins: usize) -> Result<(), ModelError> {
        let message = "the file repeats a table of counts too often";
        self.left = self.left.checked_sub(bins).ok_or_else(|| ModelError::new("CTR features", message))?;
        Ok(())
    }
}

/// Collects CTR features by what they hash and by the table that they look at.
#[derive(Default)]
pub(crate) struct ProjectionsBuilder {
    all: Vec<Projection>,
    by_name: HashMap<ProjectionKey, usize>,
    /// Projection and place in it, by the number of the table in the file.
    tables: HashMap<usize, (usize, usize)>,
}

/// A projection as something that can be looked up.
#[derive(PartialEq, Eq, Hash)]
struct ProjectionKey {
    categorical: Vec<i32>,
    numeric: Vec<(i32, u32)>,
    one_hot: Vec<(i32, i32)>,
}

impl ProjectionKey {
    fn of(projection: &RawProjection) -> ProjectionKey {
        let numeric = projection.numeric.iter().map(|(index, border)| (*index, border.to_bits()));
        ProjectionKey {
            categorical: projection.categorical.clone(),
            numeric: numeric.collect(),
            one_hot: projection.one_hot.clone(),
        }
    }
}

impl ProjectionsBuilder {
    pub(crate) fn add(
        &mut self,
        ctr: &RawCtr,
        table: &RawTable,
        categories: Vec<usize>,
        bits: Vec<BinSplit>,
        columns: Range<usize>,
        budget: &mut CtrBudget,
    ) -> Result<(), ModelError> {
        let rows = rows(table)?;
        if !target_border_fits(ctr, table) {
            return Err(ModelError::new(
                "CTR features",
                "a CTR is of a class of the target that is not there",
            ));
        }
        let (projection, place) = match self.tables.get(&ctr.table) {
            Some(known) => *known,
            None => {
                if table.keys.iter().any(|(_, row)| *row as usize >= rows) {
                    return Err(ModelError::new("CTR tables", "a key has no counts"));
                }
                let absent = u32::try_from(rows);
                let absent = absent.map_err(|_| ModelError::new("CTR tables", "a table is too large"))?;
                let next = self.all.len();
                let projection = *self.by_name.entry(ProjectionKey::of(&table.projection)).or_insert(next);
                if projection == next {
                    self.all.push(Projection { categories, bits, tables: Vec::new() });
                }
                let tables = &mut self.all[projection].tables;
                tables.push(CtrTable { keys: CtrKeyTable::new(&table.keys, absent)?, columns: Vec::new() });
                let place = (projection, tables.len() - 1);
                self.tables.insert(ctr.table, place);
                place
            }
        };
        budget.spend((rows + 1).saturating_mul(columns.len()))?;
        let columns = ctr.borders.chunks(PER_COLUMN).zip(columns);
        let columns = columns.map(|(borders, column)| {
            let bin = |row| {
                let value = value(ctr, table, row);
                borders.partition_point(|border| value > *border) as u8
            };
            let bins = (0..rows).map(|row| bin(Some(row))).chain([bin(None)]);
            CtrColumn { column, bins: bins.collect() }
        });
        self.all[projection].tables[place].columns.extend(columns);
        Ok(())
    }

    pub(crate) fn finish(self) -> Vec<Projection> {
        self.all
    }
}

/// Returns the number of rows of a table.
fn rows(table: &RawTable) -> Result<usize, ModelError> {
    let refuse = || ModelError::new("CTR tables", "a table has no whole number of rows");
    match table.kind {
        CtrKind::Mean => Ok(table.means.len()),
        CtrKind::Counter => Ok(table.counts.len()),
        CtrKind::Borders | CtrKind::Buckets => {
            let classes = usize::try_from(table.classes).ok().filter(|classes| *classes >= 2);
            let classes = classes.filter(|classes| table.counts.len().is_multiple_of(*classes));
            Ok(table.counts.len() / classes.ok_or_else(refuse)?)
        }
    }
}

fn target_border_fits(ctr: &RawCtr, table: &RawTable) -> bool {
    match table.kind {
        CtrKind::Borders => (0..table.classes - 1).contains(&ctr.target_border),
        CtrKind::Buckets => (0..table.classes).contains(&ctr.target_border),
        CtrKind::Mean | CtrKind::Counter => true,
    }
}

/// The statistic of a row of a table, or of a key that it does not have: `TStaticCtrProvider::CalcCtrs`.
fn value(ctr: &RawCtr, table: &RawTable, row: Option<usize>) -> f32 {
    let calculate = |good: f32, total: f32| {
        ((good + ctr.prior_numerator) / (total + ctr.prior_denominator) + ctr.shift) * ctr.scale
    };
    let sum = |counts: &[i32]| counts.iter().fold(0i32, |sum, count| sum.wrapping_add(*count));
    match table.kind {
        CtrKind::Mean => {
            let (sum, count) = row.and_then(|row| table.means.get(row)).copied().unwrap_or((0.0, 0));
            calculate(sum, count as f32)
        }
        CtrKind::Counter => {
            let count = row.and_then(|row| table.counts.get(row)).copied().unwrap_or(0);
            calculate(count as f32, table.denominator as f32)
        }
        CtrKind::Borders | CtrKind::Buckets => {
            let classes = usize::try_from(table.classes).unwrap_or(0);
            let counts = row.and_then(|row| table.counts.get(row * classes..(row + 1) * classes));
            let counts = counts.unwrap_or(&[]);
            let border = usize::try_from(ctr.target_border).unwrap_or(0);
            let good = match table.kind {
                CtrKind::Buckets => counts.get(border).copied().unwrap_or(0),
                _ => sum(counts.get(border + 1..).unwrap_or(&[])),
            };
            calculate(good as f32, sum(counts) as f32)
        }
    }
}
