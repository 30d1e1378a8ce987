//! The requests of a call, and what each of them looks at.

use stats::{Observation, ObserveRequest, Origin};

use crate::catalog::{ClusterCatalog, ClusterStatistic};
use crate::cell::CellId;

/// An observation of a call, with what is asked of it first: of many thousands in the order of partitions each lies elsewhere
/// in memory.
#[derive(Clone, Copy)]
pub(crate) struct CallObservation<'a> {
    pub(crate) observation: &'a Observation,
    pub(crate) id: CellId,
    pub(crate) request: u32,
    /// Among those of all requests.
    pub(crate) reading: u32,
    pub(crate) plan: u16,
    pub(crate) partition: u16,
    pub(crate) shard: u16,
    pub(crate) origin: Origin,
}

/// Requests that fit the catalog, with what they look at.
pub(crate) struct ObserveCall<'a> {
    pub(crate) requests: &'a [ObserveRequest],
    /// The observations, by partition and so by shard; in the order of the requests within each.
    pub(crate) places: Vec<CallObservation<'a>>,
}

impl ObserveCall<'_> {
    /// Returns what is asked of exact limits: the number of its request and of its reading, how it is understood, and what it
    /// is. In the order of the requests for each key.
    pub(crate) fn exact<'c>(
        &'c self,
        catalog: &'c ClusterCatalog,
    ) -> impl Iterator<Item = (usize, u32, &'c ClusterStatistic, &'c Observation)> {
        self.places.iter().filter_map(|place| {
            let planned = catalog.plans.get(usize::from(place.plan)).filter(|planned| planned.is_exact)?;
            Some((place.request as usize, place.reading, planned, place.observation))
        })
    }
}
