//! Cells spelled out, so that they can leave one ledger and enter another: of another release, another layout, or none
//! of this program's.
//!
//! ```text
//! Embedded::export ─► Portable…     Portable ─► Decoder ─► Decoded ─► Embedded::import
//! ```
//!
//! A cell that is restored under its own definition answers every question as the one it was spelled from. The words of
//! the two may differ: the same counts can lie in several ways. Admission sketches are not exported: what was
//! sighted and not yet admitted starts anew.

use event::{Key, Time};

use crate::catalog::{Catalog, CatalogError, Measure};
use crate::definition::{CompiledDefinition, PAIR};
use crate::layout::{Layout, Tier};
use crate::ledger::{Evidence, TimelineBucket};

pub use crate::definition::CellDefinition;

/// One cell.
#[derive(Clone, Debug, PartialEq)]
pub struct ExportedCell {
    /// Whose it is. Of a pair's cell the shingle is the pair's.
    pub key: Key,
    /// True if it is the mark of a pair: an owner and a value of an exact distinct count.
    pub pair: bool,
    /// Index of its definition among those that it came with.
    pub definition: usize,
    /// First event.
    pub first: Time,
    /// Last event.
    pub last: Time,
    /// The counts.
    pub content: CellContent,
}

/// The content of a cell beside its times.
#[derive(Clone, Debug, PartialEq)]
pub enum CellContent {
    /// Of counters over windows, exact distinct counts, their pairs, and marks of requests: as in a
    /// [`crate::Timeline`].
    Buckets(Vec<TimelineBucket>),
    /// Of a track.
    Totals(AggregateTotals),
    /// Of what a classifier has learned. Only the last time of such a cell is kept.
    Evidence(Evidence),
    /// Of a bucket: its moment, in nanoseconds since 1970. The cell's times are no more than that.
    Moment(i64),
    /// Of an approximate distinct count: each period that has any.
    Registers(Vec<HyperLogLogRegisters>),
}

/// The columns of a track. What it does not keep is `None`, and so is what no event had.
#[derive(Clone, Debug, PartialEq)]
pub struct AggregateTotals {
    /// Events, at least one.
    pub count: u64,
    /// The sum of values, not clamped.
    pub sum: Option<i128>,
    /// The least value.
    pub min: Option<i64>,
    /// The greatest value.
    pub max: Option<i64>,
    /// Decayed sums as of the last event, in the order of the track's columns.
    pub decayed: Vec<f64>,
}

/// The HyperLogLog of one period.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HyperLogLogRegisters {
    /// Where the period starts.
    pub start: Time,
    /// Number and rank of each register that is not zero, in any order.
    pub ranks: Vec<(u32, u8)>,
}

/// A cell that was checked against its definition.
#[derive(Clone, Debug)]
pub struct CheckedCell {
    pub(crate) key: Key,
    pub(crate) pair: bool,
    pub(crate) definition: usize,
    pub(crate) words: Vec<u64>,
}

/// Makes cells of what is spelled out. Takes anything.
#[derive(Debug)]
pub struct CellDecoder {
    pub(crate) defined: Vec<CompiledDefinition>,
}

impl CellDecoder {
    /// Most definitions, as many as a ledger can have.
    pub const DEFINITIONS_MAX: usize = (1 << 15) - 1;

    /// A decoder of cells with these definitions. Windows of theirs are left out.
    ///
    /// # Errors
    /// [`CatalogError`] if there is none such statistic.
    pub fn new(definitions: Vec<CellDefinition>) -> Result<CellDecoder, CatalogError> {
        let compile = |mut definition: CellDefinition| {
            let named = |error| CatalogError::Layout { name: definition.statistic.clone(), error };
            if definition.kind.0 >= Catalog::KINDS {
                return Err(CatalogError::Reserved(definition.kind));
            }
            for name in [&definition.statistic, &definition.kind_name] {
                if name.is_empty() || name.len() > Layout::NAME_BYTES_MAX {
                    return Err(CatalogError::Name(name.clone()));
                }
            }
            definition.measure.check().map_err(named)?;
            definition.measure = without_windows(definition.measure.clone()).map_err(named)?;
            let plan = definition.plan().map_err(named)?;
            Ok(CompiledDefinition { definition, plan })
        };
        if definitions.len() > CellDecoder::DEFINITIONS_MAX {
            return Err(CatalogError::Stored("there are too many of them: at most 32,767".to_owned()));
        }
        Ok(CellDecoder { defined: definitions.into_iter().map(compile).collect::<Result<_, _>>()? })
    }

    /// The name of a cell's statistic.
    pub fn statistic(&self, cell: &CheckedCell) -> &str {
        self.defined.get(cell.definition).map_or("", |defined| &defined.definition.statistic)
    }

    /// The definitions, in the order of their numbers.
    pub fn definitions(&self) -> impl Iterator<Item = &CellDefinition> {
        self.defined.iter().map(|defined| &defined.definition)
    }

    /// A cell spelled out again.
    pub fn spell(&self, cell: &CheckedCell) -> Option<ExportedCell> {
        let defined = self.defined.get(cell.definition)?;
        let spelled = spelled(defined, cell.definition, cell.key, &cell.words)?;
        Some(ExportedCell { pair: cell.pair, ..spelled })
    }

    /// Checks a cell and packs it.
    ///
    /// # Errors
    /// Says what it cannot be.
    pub fn decode(&self, portable: &ExportedCell) -> Result<CheckedCell, &'static str> {
        let ExportedCell { key, pair, definition, first, last, content } = portable;
        let defined = self.defined.get(*definition).ok_or("it has no definition")?;
        if (key.space, key.kind) != (defined.definition.space, defined.definition.kind) {
            return Err("its space and kind are not those of its definition");
        }
        if *pair && !matches!(defined.definition.measure, Measure::Distinct { .. }) {
            return Err("only an exact distinct count has pairs");
        }
        let words = defined.plan.restore(*first, *last, content)?;
        Ok(CheckedCell { key: *key, pair: *pair, definition: *definition, words })
    }
}

/// The measure as far as cells depend on it.
pub(crate) fn without_windows(measure: Measure) -> Result<Measure, crate::LayoutError> {
    Ok(match measure {
        Measure::Windows(layout) => {
            let shape = layout.shape();
            let tiers: Vec<Tier> = [Some(shape.fine()), shape.coarse()].into_iter().flatten().collect();
            Measure::Windows(Layout::new(layout.counters().to_vec(), &tiers, Vec::new(), Some(shape.keep()))?)
        }
        Measure::Distinct { tier, .. } => Measure::Distinct { tier, windows: Vec::new() },
        Measure::Approx { tier, precision, .. } => Measure::Approx { tier, windows: Vec::new(), precision },
        measure @ (Measure::Aggregate(_)
        | Measure::Evidence { .. }
        | Measure::Gcra
        | Measure::Once { .. }) => measure,
    })
}

pub(crate) fn spelled(
    defined: &CompiledDefinition,
    definition: usize,
    key: Key,
    words: &[u64],
) -> Option<ExportedCell> {
    let (first, last) = defined.plan.times(words)?;
    let content = defined.plan.content(words)?;
    let pair = key.kind.0 & PAIR != 0;
    let key = Key { kind: event::Kind(key.kind.0 & !PAIR), ..key };
    Some(ExportedCell { key, pair, definition, first, last, content })
}
