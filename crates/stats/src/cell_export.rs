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

use crate::catalog::{Catalog, CatalogError};
use crate::definition::{CompiledDefinition, PAIR};
use crate::kind::windows::Layout;

pub use crate::definition::CellDefinition;
pub use crate::kind::CellContent;
pub use crate::kind::aggregate::AggregateTotals;
pub use crate::kind::hyperloglog::HyperLogLogRegisters;

/// One cell.
#[derive(Clone, Debug, PartialEq)]
pub struct ExportedCell {
    /// The key that the cell belongs to. Of a pair's cell the shingle is the pair's.
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
            definition.measure = definition.measure.without_windows();
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
        if *pair && !defined.definition.measure.has_pairs() {
            return Err("only an exact distinct count has pairs");
        }
        let words = defined.plan.restore(*first, *last, content)?;
        Ok(CheckedCell { key: *key, pair: *pair, definition: *definition, words })
    }
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
