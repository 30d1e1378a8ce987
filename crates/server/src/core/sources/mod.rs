//! Sources that the server reads by itself, as they are: what was read of each, and the lines that were sent to listeners and
//! wait. They are read by [`source_reading`](super::source_reading).

mod inbox;
mod status;

use std::collections::BTreeMap;
use std::sync::Arc;

use plan::{SourceInput, SourcePlan};
use prometheus_client::registry::Registry;

pub(crate) use self::inbox::{SentLine, SourceInbox};
use self::status::SourceMetrics;
pub(crate) use self::status::SourceStatus;

/// The sources of a node.
#[derive(Debug)]
pub(crate) struct SourceSet {
    statuses: Vec<Arc<SourceStatus>>,
    inboxes: BTreeMap<String, SourceInbox>,
}

impl SourceSet {
    pub(crate) fn new(plans: &[SourcePlan], registry: &mut Registry) -> SourceSet {
        let metrics = SourceMetrics::new(registry);
        let statuses: Vec<_> =
            plans.iter().map(|plan| Arc::new(SourceStatus::new(plan.clone(), &metrics))).collect();
        let inboxes = statuses.iter().filter_map(|status| match &status.plan.input {
            SourceInput::Syslog(syslog) => {
                Some((status.plan.name.clone(), SourceInbox::new(syslog.rate_max, Arc::clone(status))))
            }
            _ => None,
        });
        SourceSet { inboxes: inboxes.collect(), statuses }
    }

    /// The state of each source.
    pub(crate) fn statuses(&self) -> &[Arc<SourceStatus>] {
        &self.statuses
    }

    /// The place that a source's listener puts lines into.
    pub(crate) fn inbox(&self, name: &str) -> Option<&SourceInbox> {
        self.inboxes.get(name)
    }

    /// Returns what is wrong with sources.
    pub(crate) fn fault(&self) -> Option<String> {
        let faults = self.statuses.iter().filter_map(|status| {
            status.fault().map(|(_, why)| format!("source `{}`: {why}", status.plan.name))
        });
        let faults: Vec<String> = faults.take(3).collect();
        (!faults.is_empty()).then(|| faults.join("; "))
    }
}
