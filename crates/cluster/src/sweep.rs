//! A slow pass through the cells of a cluster, which makes those smaller that nobody writes any more.
//!
//! ```text
//! SCAN, some names a step ─► cells of windows ─► a script folds and removes what has aged out ─► rest, and the next step
//! ```
//!
//! Whoever writes a cell removes what has aged out of it. A cell that is not written again would keep its fine buckets
//! until it expires with its coarse ones, weeks later. Each node goes through all names on its own, from one end to the other
//! and then again: what one has made smaller is nothing to do for the next.
//!
//! Readings stay what they were: a window never reaches a fine bucket beyond its tier, and one over the coarse tier
//! takes whole coarse buckets. Only a timeline shows what is folded in fewer rows.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use event::Time;

use crate::cluster::Cluster;
use crate::core::ClusterCore;
use crate::remote::{CellForm, Partition, RemoteCell, RemoteError};
use crate::transfer::WITHIN;
use crate::wire::{CellName, NameScan, STEP, WireClient};

/// The longest rest before a pass, also after one that failed, as while slots are moved.
const BETWEEN: Duration = Duration::from_secs(3600);

/// A pass that begins anew when it has come to its end.
pub struct ClusterSweep {
    wire: WireClient,
    scan: Option<NameScan>,
    /// The partition that is swept, and its tables whose end is not reached, where servers keep cells in tables.
    tables: Option<(Partition, Vec<u8>)>,
}

/// The report of what a step has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SweepReport {
    /// Names that were looked at.
    pub looked: u64,
    /// Fields that were removed.
    pub removed: u64,
    /// True if it was the last step of a pass.
    pub ended: bool,
}

impl ClusterSweep {
    /// Begins nothing yet.
    pub fn new(wire: &WireClient) -> ClusterSweep {
        ClusterSweep { wire: wire.clone(), scan: None, tables: None }
    }

    /// Goes on by some names: what has aged out at `horizon` of those cells whose form is known is folded or removed. To be awaited where
    /// tokio's clock goes.
    ///
    /// # Errors
    /// What the cluster answered last, or that slots were moved meanwhile. The next step begins a pass anew.
    pub async fn step(
        &mut self,
        forms: &HashMap<u32, Arc<CellForm>>,
        horizon: Time,
    ) -> Result<SweepReport, RemoteError> {
        if self.wire.has_tables() {
            return self.step_of_tables(horizon).await;
        }
        let mut scan = match self.scan.take() {
            Some(scan) => scan,
            None => NameScan::begin(&self.wire, None).await?,
        };
        let Some(names) = scan.next().await? else {
            return Ok(SweepReport { ended: true, ..SweepReport::default() });
        };
        let mut swept = SweepReport { looked: names.len() as u64, ..SweepReport::default() };
        let mut parts = BTreeMap::<Partition, Vec<RemoteCell>>::new();
        for (partition, CellName { key, form }) in names {
            // Pairs and marks have one tier, and expire with it.
            if let Some(form) = forms.get(&form).filter(|form| key.kind == form.definition.kind) {
                parts.entry(partition).or_default().push(RemoteCell { key, form: form.clone() });
            }
        }
        for answer in self.wire.sweep(parts.into_iter().collect(), horizon, WITHIN).await {
            swept.removed += answer?;
        }
        self.scan = Some(scan);
        Ok(swept)
    }

    /// Removes what has expired from some tables. Servers do so themselves where somebody writes.
    async fn step_of_tables(&mut self, horizon: Time) -> Result<SweepReport, RemoteError> {
        let Some((partition, tables)) = self.tables.take().or_else(|| self.wire.first_tables()) else {
            return Ok(SweepReport { ended: true, ..SweepReport::default() });
        };
        let steps = (STEP / tables.len().max(1)) as u64;
        let (looked, removed, rest) =
            self.wire.sweep_tables((partition, tables), horizon, steps, WITHIN).await?;
        self.tables = rest;
        Ok(SweepReport { looked, removed, ended: self.tables.is_none() })
    }
}

impl Cluster {
    /// Returns what of the node's journal was not as it was written when it was opened, in a sentence for people.
    pub fn damage(&self) -> Option<String> {
        self.inner.wal.losses().sentence()
    }

    /// Goes on sweeping for as long as this node is open, about so many names a second; zero is never.
    pub fn sweep(&self, wire: &WireClient, a_second: u32) {
        if a_second == 0 {
            return;
        }
        let rest = Duration::from_secs(1).mul_f64(STEP as f64 / f64::from(a_second));
        let (inner, sweep) = (Arc::downgrade(&self.inner), ClusterSweep::new(wire));
        self.inner.environment.spawn(Box::pin(go_on(inner, sweep, rest)));
    }
}

async fn go_on(inner: Weak<ClusterCore>, mut sweep: ClusterSweep, rest: Duration) {
    let mut pause = BETWEEN;
    loop {
        let Some(node) = inner.upgrade() else { return };
        // Drawn for each pass, so that nodes that were started together do not go together.
        let part = node.random.lock().unit();
        let sleep = node.environment.sleep(if pause == rest { rest } else { pause.mul_f64(part) });
        drop(node);
        sleep.await;
        let Some(node) = inner.upgrade() else { return };
        let forms = node.catalog().forms.iter().map(|(id, known)| (*id, known.form.clone())).collect();
        let horizon = Time(node.horizon.load(Ordering::Acquire));
        drop(node);
        let swept = sweep.step(&forms, horizon).await;
        let Some(node) = inner.upgrade() else { return };
        pause = match swept {
            Ok(swept) => {
                node.counts.swept.fetch_add(swept.looked, Ordering::Relaxed);
                node.counts.aged.fetch_add(swept.removed, Ordering::Relaxed);
                if swept.ended { BETWEEN } else { rest }
            }
            Err(failure) => {
                tracing::debug!(%failure, "the sweep of the cluster begins anew");
                BETWEEN
            }
        };
    }
}
