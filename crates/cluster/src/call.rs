//! The requests of a call, and what each of them looks at.

use stats::{Observation, ObserveRequest, Origin};

use crate::catalog::{ClusterCatalog, ClusterStatistic};

/// An observation of a call.
#[derive(Clone, Copy)]
pub(crate) struct CallObservation {
    pub(crate) request: u32,
    pub(crate) observation: u32,
    /// Among those of all requests.
    pub(crate) reading: u32,
    pub(crate) plan: u16,
    pub(crate) partition: u16,
    pub(crate) shard: u16,
}

/// Requests that fit the catalog, with what they look at.
pub(crate) struct ObserveCall<'a> {
    pub(crate) requests: &'a [ObserveRequest],
    /// The places of the observations, by partition and so by shard; in the order of the requests within each.
    pub(crate) places: Vec<CallObservation>,
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
            Some((place.request as usize, place.reading, planned, place.of(self.requests)?))
        })
    }
}

impl CallObservation {
    pub(crate) fn of<'a>(&self, requests: &'a [ObserveRequest]) -> Option<&'a Observation> {
        requests.get(self.request as usize)?.observations.get(self.observation as usize)
    }

    pub(crate) fn origin(&self, requests: &[ObserveRequest]) -> Origin {
        requests.get(self.request as usize).map_or(Origin::Look, |request| request.origin)
    }
}
