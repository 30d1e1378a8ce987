//! How keys are to be understood: the catalog, compiled.

use std::sync::Arc;
use std::time::Duration;

use event::{Kind, Space};
use hashbrown::HashMap;
use stats::portable::Definition;
use stats::{
    Add, Catalog, CatalogError, LedgerError, Measure, Plan, Request, Sketch, SketchOptions, Statistic,
};

use crate::remote::Form;

/// A form, and the operations on its cells.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) form: Arc<Form>,
    pub(crate) plan: Plan,
    /// The time to live of a cell is begun anew after so long at the latest.
    pub(crate) renew_after: Duration,
}

impl Known {
    pub(crate) fn new(definition: Definition) -> Result<Known, CatalogError> {
        let plan = definition
            .plan()
            .map_err(|error| CatalogError::Layout { name: definition.statistic.clone(), error })?;
        let form = Form { id: definition.id(), definition };
        let renew_after = Duration::from_micros(form.slack().0.unsigned_abs() / 2);
        Ok(Known { form: Arc::new(form), plan, renew_after })
    }
}

/// What is understood of one kind's keys.
pub(crate) struct Planned {
    pub(crate) statistic: Arc<Statistic>,
    pub(crate) known: Arc<Known>,
    /// The operations on the cells, with the windows that are asked for now.
    pub(crate) plan: Plan,
    pub(crate) sketch: Option<Arc<Sketch>>,
    pub(crate) admit_after: u32,
    pub(crate) is_track: bool,
    pub(crate) is_approx: bool,
    /// Whether it is that of a limit, which other nodes may change without a batch.
    pub(crate) is_limit: bool,
    /// Whether the cluster decides on what is taken.
    pub(crate) is_exact: bool,
}

pub(crate) struct World {
    pub(crate) catalog: Catalog,
    pub(crate) plans: Vec<Planned>,
    places: HashMap<(Space, Kind), u16>,
    /// By their number: those in force, and those that deltas may still have.
    pub(crate) forms: HashMap<u32, Arc<Known>>,
}

impl World {
    /// Compiles a catalog. Sketches of `before` are kept where their options stay, and so are its forms.
    pub(crate) fn new(
        catalog: Catalog,
        before: Option<&World>,
        shards: usize,
    ) -> Result<World, CatalogError> {
        let mut forms = before.map(|before| before.forms.clone()).unwrap_or_default();
        let (mut plans, mut places) = (Vec::<Planned>::new(), HashMap::new());
        for (space, kind, statistic) in catalog.iter() {
            let definition = Definition::new(space, kind, statistic)?;
            for known in forms.values().map(|known| &known.form.definition) {
                let other = (known.space, known.kind) == (space, kind);
                if other && known.meaning() != definition.meaning() {
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
                _ => Arc::new(Known::new(definition)?),
            };
            forms.insert(known.form.id, known.clone());
            let plan = Plan::new(&statistic.measure)
                .map_err(|error| CatalogError::Layout { name: statistic.name.clone(), error })?;
            let sketch = statistic.admit.as_ref().map(|admit| {
                let same = |planned: &&Planned| planned.statistic.admit == statistic.admit;
                let kept = plans.iter().chain(before.iter().flat_map(|world| &world.plans)).find(same);
                let options = SketchOptions { shards, bytes: admit.bytes, rotate: admit.rotate };
                kept.and_then(|planned| planned.sketch.clone())
                    .unwrap_or_else(|| Arc::new(Sketch::new(options)))
            });
            places.insert((space, kind), plans.len() as u16);
            plans.push(Planned {
                known,
                plan,
                sketch,
                admit_after: statistic.admit.as_ref().map_or(0, |admit| u32::from(admit.after)),
                is_track: matches!(statistic.measure, Measure::Track(_)),
                is_approx: matches!(statistic.measure, Measure::Approx { .. }),
                is_limit: statistic.measure.is_limit(),
                is_exact: statistic.exact,
                statistic: statistic.clone(),
            });
        }
        Ok(World { catalog, plans, places, forms })
    }

    pub(crate) fn find(&self, space: Space, kind: Kind) -> Result<u16, LedgerError> {
        self.places.get(&(space, kind)).copied().ok_or(LedgerError::Unknown { space, kind })
    }

    pub(crate) fn planned(&self, space: Space, kind: Kind) -> Result<&Planned, LedgerError> {
        self.find(space, kind).map(|place| &self.plans[usize::from(place)])
    }

    /// Refuses what does not fit; puts the place of each observation's plan behind `plans`.
    pub(crate) fn check(&self, request: &Request, plans: &mut Vec<u16>) -> Result<(), LedgerError> {
        if request.observations.len() > Request::OBSERVATIONS_MAX {
            return Err(LedgerError::TooLarge(request.observations.len()));
        }
        if let Some(once) = &request.once {
            self.planned(once.key.space, once.key.kind)?.statistic.check_mark()?;
        }
        for observation in &request.observations {
            let place = self.find(observation.key.space, observation.key.kind)?;
            let statistic = &self.plans[usize::from(place)].statistic;
            statistic.check(observation)?;
            if let Add::Lower(_) = observation.add {
                let why =
                    "what was said of a key cannot be taken back in a cluster, it ends by itself".to_owned();
                return Err(LedgerError::Unfit { statistic: statistic.name.clone(), why });
            }
            plans.push(place);
        }
        Ok(())
    }

    pub(crate) fn sketch_bytes(&self) -> u64 {
        let mut sketches: Vec<&Arc<Sketch>> =
            self.plans.iter().filter_map(|plan| plan.sketch.as_ref()).collect();
        sketches.sort_by_key(|sketch| Arc::as_ptr(sketch));
        sketches.dedup_by(|a, b| Arc::ptr_eq(a, b));
        sketches.iter().map(|sketch| sketch.memory_bytes() as u64).sum()
    }
}
