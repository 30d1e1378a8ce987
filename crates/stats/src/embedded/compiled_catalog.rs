//! The meaning of keys: the catalog, compiled against the definitions that stored cells name.

use std::sync::Arc;

use event::{Key, Kind, Space, Span, Time};
use store::{CellSemantics, RecordKey, Store};

use crate::catalog::{Catalog, CatalogError, Statistic};
pub(super) use crate::definition::PAIR;
use crate::definition::{CellDefinition, CompiledDefinition, DefinitionRegistry};
use crate::kind::CellPlan;
use crate::ledger::{LedgerError, ObserveRequest};
use crate::sketch::Sketch;

/// Space and kind of the images that hold definitions; no pair can have them, see [`Catalog::KINDS`].
pub(super) const DEFINITIONS: (u16, u16) = (u16::MAX, u16::MAX);

/// Space and kind of the images that say which exports were merged.
pub(super) const MERGED: (u16, u16) = (u16::MAX, u16::MAX - 2);

/// Space and kind of the images that hold sketches.
pub(super) const SKETCHES: (u16, u16) = (u16::MAX, u16::MAX - 1);

/// Space and kind of the image that has the fingerprint of the secret.
pub(super) const OWNER: (u16, u16) = (u16::MAX, u16::MAX - 3);

/// The meaning of one kind's keys.
pub(super) struct CompiledStatistic {
    pub(super) space: Space,
    pub(super) kind: Kind,
    pub(super) statistic: Arc<Statistic>,
    /// Number of the definition, which cells carry as their tag.
    pub(super) number: u16,
    pub(super) defined: Arc<CompiledDefinition>,
    /// The operations on the cells, with the windows that are asked for now.
    pub(super) plan: CellPlan,
    pub(super) columns: u8,
    pub(super) reading: usize,
    kept_for: Span,
    /// Shared by all kinds that name it.
    pub(super) sketch: Option<Arc<Sketch>>,
    pub(super) admit_after: u32,
    /// True if readings have values even for a new key.
    pub(super) reads_unseen: bool,
    /// True if readings are estimates.
    pub(super) is_estimate: bool,
    /// True if its values are marked in cells of their own.
    pub(super) has_pairs: bool,
    /// True if the directory has places reserved for its keys: those of limits and of labels.
    pub(super) is_reserved: bool,
}

pub(super) struct CompiledCatalog {
    pub(super) catalog: Catalog,
    pub(super) registry: DefinitionRegistry,
    pub(super) plans: Vec<CompiledStatistic>,
    /// A table of places in `plans`, plus one, by a hash of space and kind.
    table: Vec<u16>,
}

impl CompiledCatalog {
    /// Compiles a catalog against what is stored, and stores the definitions that are new. Sketches of `before` are
    /// kept where their options stay.
    pub(super) fn new(
        catalog: Catalog,
        mut registry: DefinitionRegistry,
        store: &Store,
        before: Option<&CompiledCatalog>,
    ) -> Result<CompiledCatalog, LedgerError> {
        let mut plans: Vec<CompiledStatistic> = Vec::new();
        let mut new = Vec::new();
        for (space, kind, statistic) in catalog.iter() {
            let (number, is_new) = registry.define(CellDefinition::new(space, kind, statistic))?;
            let Some(defined) = registry.get(number).cloned() else { continue };
            if is_new {
                new.push(CompiledCatalog::definition_image(number, &defined.definition));
            }
            let plan = CellPlan::new(&statistic.measure)
                .map_err(|error| CatalogError::Layout { name: statistic.name.clone(), error })?;
            let sketch = statistic.admit.as_ref().map(|admit| {
                let known = plans
                    .iter()
                    .chain(before.iter().flat_map(|catalog| &catalog.plans))
                    .find(|planned| planned.statistic.admit == statistic.admit);
                known
                    .and_then(|known| known.sketch.clone())
                    .unwrap_or_else(|| Arc::new(Sketch::new(admit.options())))
            });
            plans.push(CompiledStatistic {
                space,
                kind,
                number,
                columns: plan.columns() as u8,
                reading: plan.reading(),
                kept_for: plan.kept_for(),
                reads_unseen: statistic.measure.reads_unseen(),
                is_estimate: statistic.measure.is_estimate(),
                has_pairs: statistic.measure.has_pairs(),
                is_reserved: statistic.measure.decides(),
                admit_after: statistic.admit.as_ref().map_or(0, |admit| u32::from(admit.after)),
                statistic: statistic.clone(),
                defined,
                plan,
                sketch,
            });
        }
        store.put(&new, i64::MAX)?;
        let mut table = vec![0; (plans.len() * 4).next_power_of_two().max(16)];
        for (planned, number) in plans.iter().zip(1..) {
            let mut at = place(planned.space, planned.kind, table.len());
            while table[at] != 0 {
                at = (at + 1) % table.len();
            }
            table[at] = number;
        }
        Ok(CompiledCatalog { catalog, registry, plans, table })
    }

    /// Returns what is stored of a definition.
    pub(super) fn definition_image(number: u16, definition: &CellDefinition) -> (RecordKey, u16, Vec<u64>) {
        let (space, kind) = DEFINITIONS;
        (RecordKey { space, kind, shingle: u64::from(number) }, 0, definition.encode())
    }

    /// The place of a kind in the plans.
    #[inline]
    pub(super) fn find(&self, space: Space, kind: Kind) -> Result<u16, LedgerError> {
        let mut at = place(space, kind, self.table.len());
        while let Some(number) = self.table.get(at).copied().and_then(|number| number.checked_sub(1)) {
            if self
                .plans
                .get(usize::from(number))
                .is_some_and(|plan| plan.space == space && plan.kind == kind)
            {
                return Ok(number);
            }
            at = (at + 1) & (self.table.len() - 1);
        }
        Err(LedgerError::Unknown { space, kind })
    }

    pub(super) fn planned(&self, space: Space, kind: Kind) -> Result<&CompiledStatistic, LedgerError> {
        self.find(space, kind).map(|number| &self.plans[usize::from(number)])
    }

    /// Refuses what does not fit; puts the place of each observation's plan behind `plans`.
    pub(super) fn check(&self, request: &ObserveRequest, plans: &mut Vec<u16>) -> Result<(), LedgerError> {
        if request.observations.len() > ObserveRequest::OBSERVATIONS_MAX {
            return Err(LedgerError::TooLarge(request.observations.len()));
        }
        if let Some(once) = &request.once {
            let planned = self.planned(once.key.space, once.key.kind)?;
            planned.statistic.check_mark()?;
        }
        let mut last = 0;
        for observation in &request.observations {
            let Key { space, kind, .. } = observation.key;
            let is_of = |number: u16| {
                let plan = self.plans.get(usize::from(number));
                plan.is_some_and(|plan| plan.space == space && plan.kind == kind)
            };
            // An event's keys mostly come in the order of the catalog, or several of one kind.
            let number = match last {
                last if is_of(last + 1) => last + 1,
                last if is_of(last) => last,
                _ => self.find(space, kind)?,
            };
            last = number;
            self.plans[usize::from(number)].statistic.check(observation)?;
            plans.push(number);
        }
        Ok(())
    }

    /// The definition that a cell's tag names.
    pub(super) fn defined(&self, tag: u16) -> Option<&Arc<CompiledDefinition>> {
        self.registry.get(tag & !PAIR)
    }
}

impl CompiledStatistic {
    /// Returns whether a cell that saw its last event then is gone.
    #[inline]
    pub(super) fn is_gone(&self, last: Time, horizon: i64) -> bool {
        // Exactly when it goes takes a division.
        (last + self.kept_for).0 <= horizon && self.plan.expires_after(last).0 <= horizon
    }
}

impl CellSemantics for CompiledCatalog {
    fn kind(&self, tag: u16) -> (u16, u16) {
        // What has no definition can be found by nobody, and is let go by the next merge.
        self.defined(tag).map_or(SKETCHES, |defined| {
            let definition = &defined.definition;
            (definition.space.0, definition.kind.0 | tag & PAIR)
        })
    }

    fn expires(&self, tag: u16, words: &[u64]) -> i64 {
        self.defined(tag).map_or(i64::MIN, |defined| defined.plan.expires(words).0)
    }
}

fn place(space: Space, kind: Kind, len: usize) -> usize {
    let number = u32::from(space.0) << 16 | u32::from(kind.0);
    (number.wrapping_mul(0x9e37_79b9) >> 16) as usize & (len - 1)
}
