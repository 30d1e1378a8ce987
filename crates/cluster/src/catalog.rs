//! The catalog, compiled into the meaning of keys.

use std::sync::Arc;
use std::time::Duration;

use event::{Key, Kind, Space};
use hashbrown::HashMap;
use stats::cell_export::CellDefinition;
use stats::{Addition, Catalog, CatalogError, CellPlan, LedgerError, ObserveRequest, Statistic};

use crate::remote::{CellForm, PartitionCount};
use crate::sighting::SharedSketch;

/// A form, and how its cells are kept.
#[derive(Debug)]
pub(crate) struct CompiledForm {
    pub(crate) form: Arc<CellForm>,
    /// The time to live of a cell is begun anew after so long at the latest.
    pub(crate) renew_after: Duration,
}

impl CompiledForm {
    pub(crate) fn new(definition: CellDefinition) -> Result<CompiledForm, CatalogError> {
        let name = definition.statistic.clone();
        let form = CellForm::new(definition).map_err(|error| CatalogError::Layout { name, error })?;
        let renew_after = Duration::from_micros(form.definition.measure.slack().0.unsigned_abs() / 2);
        Ok(CompiledForm { form: Arc::new(form), renew_after })
    }
}

/// The statistic by which one kind's keys are understood.
pub(crate) struct ClusterStatistic {
    pub(crate) statistic: Arc<Statistic>,
    pub(crate) known: Arc<CompiledForm>,
    /// The operations on the cells, with the windows that are asked for now.
    pub(crate) plan: CellPlan,
    pub(crate) sketch: Option<Arc<SharedSketch>>,
    pub(crate) admit_after: u32,
    /// True if readings have values even for a new key.
    pub(crate) reads_unseen: bool,
    /// True if readings are estimates.
    pub(crate) is_estimate: bool,
    /// True if the statistic's values are marked in cells of their own.
    pub(crate) has_pairs: bool,
    /// True if the statistic is that of a limit, which other nodes may change without a batch.
    pub(crate) is_limit: bool,
    /// True if the cluster decides on what is taken.
    pub(crate) is_exact: bool,
}

pub(crate) struct ClusterCatalog {
    pub(crate) catalog: Catalog,
    pub(crate) plans: Vec<ClusterStatistic>,
    places: HashMap<(Space, Kind), u16>,
    /// The forms by number: those in force, and those that deltas may still have.
    pub(crate) forms: HashMap<u32, Arc<CompiledForm>>,
}

impl ClusterCatalog {
    /// Compiles a catalog. Sketches of `before` are kept where their options stay, and so are its forms.
    pub(crate) fn new(
        catalog: Catalog,
        before: Option<&ClusterCatalog>,
        partitions: PartitionCount,
    ) -> Result<ClusterCatalog, CatalogError> {
        let mut forms = before.map(|before| before.forms.clone()).unwrap_or_default();
        let (mut plans, mut places) = (Vec::<ClusterStatistic>::new(), HashMap::new());
        for (space, kind, statistic) in catalog.iter() {
            let definition = CellDefinition::new(space, kind, statistic);
            for known in forms.values().map(|known| &known.form.definition) {
                let other = (known.space, known.kind) == (space, kind);
                if other && !known.has_form_of(&definition) {
                    return Err(CatalogError::Meaning {
                        space,
                        kind,
                        stored: known.meaning(),
                        configured: definition.meaning(),
                    });
                }
            }
            let known = match forms.get(&definition.id()) {
                Some(known) if known.form.definition == definition => known.clone(),
                _ => Arc::new(CompiledForm::new(definition)?),
            };
            forms.insert(known.form.id, known.clone());
            let plan = CellPlan::new(&statistic.measure)
                .map_err(|error| CatalogError::Layout { name: statistic.name.clone(), error })?;
            let sketch = statistic.admit.as_ref().map(|admit| {
                let same = |planned: &&ClusterStatistic| planned.statistic.admit == statistic.admit;
                let kept = plans.iter().chain(before.iter().flat_map(|catalog| &catalog.plans)).find(same);
                kept.and_then(|planned| planned.sketch.clone())
                    .unwrap_or_else(|| Arc::new(SharedSketch::new(admit, partitions)))
            });
            places.insert((space, kind), plans.len() as u16);
            plans.push(ClusterStatistic {
                known,
                plan,
                sketch,
                admit_after: statistic.admit.as_ref().map_or(0, |admit| u32::from(admit.after)),
                reads_unseen: statistic.measure.reads_unseen(),
                is_estimate: statistic.measure.is_estimate(),
                has_pairs: statistic.measure.has_pairs(),
                is_limit: statistic.measure.is_limit(),
                is_exact: statistic.exact,
                statistic: statistic.clone(),
            });
        }
        Ok(ClusterCatalog { catalog, plans, places, forms })
    }

    pub(crate) fn find(&self, space: Space, kind: Kind) -> Result<u16, LedgerError> {
        self.places.get(&(space, kind)).copied().ok_or(LedgerError::Unknown { space, kind })
    }

    pub(crate) fn planned(&self, space: Space, kind: Kind) -> Result<&ClusterStatistic, LedgerError> {
        self.find(space, kind).map(|place| &self.plans[usize::from(place)])
    }

    /// Returns true if a key is that of a limit.
    pub(crate) fn is_limit(&self, Key { space, kind, .. }: Key) -> bool {
        self.planned(space, kind).is_ok_and(|planned| planned.is_limit)
    }

    /// Refuses what does not fit; puts the place of each observation's plan behind `plans`.
    pub(crate) fn check(&self, request: &ObserveRequest, plans: &mut Vec<u16>) -> Result<(), LedgerError> {
        if request.observations.len() > ObserveRequest::OBSERVATIONS_MAX {
            return Err(LedgerError::TooLarge(request.observations.len()));
        }
        if let Some(once) = &request.once {
            self.planned(once.key.space, once.key.kind)?.statistic.check_mark()?;
        }
        for observation in &request.observations {
            let place = self.find(observation.key.space, observation.key.kind)?;
            let statistic = &self.plans[usize::from(place)].statistic;
            statistic.check(observation)?;
            if let Addition::Lower(_) = observation.add {
                let why = "a label cannot be lifted in a cluster: it ends by itself".to_owned();
                return Err(LedgerError::Unfit { statistic: statistic.name.clone(), why });
            }
            plans.push(place);
        }
        Ok(())
    }

    /// Returns the words of a form's definition.
    pub(crate) fn words_of(&self, form: u32) -> Option<Vec<u64>> {
        self.forms.get(&form).map(|known| known.form.definition.encode())
    }

    pub(crate) fn sketch_bytes(&self) -> u64 {
        let mut sketches: Vec<&Arc<SharedSketch>> =
            self.plans.iter().filter_map(|plan| plan.sketch.as_ref()).collect();
        sketches.sort_by_key(|sketch| Arc::as_ptr(sketch));
        sketches.dedup_by(|a, b| Arc::ptr_eq(a, b));
        sketches.iter().map(|sketch| sketch.counters.memory_bytes() as u64).sum()
    }
}
