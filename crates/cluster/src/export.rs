//! Statistics that leave a cluster: every cell of the definitions in force, spelled out.
//!
//! ```text
//! names, each once, some at a time ─► RemoteCluster::read, one round trip a shard ─► spelled
//! ```
//!
//! Each cell is as it was at one moment, those of different partitions at different ones: what nodes add meanwhile is in
//! some of them and not in others. Where that matters, stop them first.

use std::collections::{BTreeMap, HashMap};

use event::{Key, Kind};
use stats::Catalog;
use stats::cell_export::{CellDefinition, ExportedCell};

use crate::catalog::CompiledForm;
use crate::remote::{CellImage, Partition, PartitionRead, RemoteCell, RemoteCluster, RemoteError};
use crate::transfer::{WITHIN, again};
use crate::wire::{CellName, NameScan, SEEN_MAX, WireClient};

/// The report of what an export has gone through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClusterExportReport {
    /// Cells that were given out.
    pub cells: u64,
    /// Cells that are none of their definition.
    pub lost: u64,
    /// Cells of definitions that are not in force. What they mean is not in the cluster; they expire there.
    pub others: u64,
}

/// An export from a cluster.
pub struct ClusterExport {
    wire: WireClient,
    scan: NameScan,
    /// With the number that cells name them by.
    forms: HashMap<u32, (usize, CompiledForm)>,
    done: ClusterExportReport,
}

impl ClusterExport {
    /// The definitions of a catalog, as the cells of an export count them.
    pub fn definitions(catalog: &Catalog) -> Vec<CellDefinition> {
        catalog.iter().map(|(space, kind, statistic)| CellDefinition::new(space, kind, statistic)).collect()
    }

    /// Begins one. To be awaited where tokio's clock goes, as what follows.
    ///
    /// # Errors
    /// What the cluster answered last, or that slots are being moved.
    pub async fn begin(
        wire: &WireClient,
        definitions: &[CellDefinition],
    ) -> Result<ClusterExport, RemoteError> {
        ClusterExport::begin_in_shares(wire, definitions, SEEN_MAX).await
    }

    /// Begins an export as [`ClusterExport::begin`] does, with about so many names in memory: masters with more keys are gone
    /// through once for each so many.
    ///
    /// # Errors
    /// The same.
    pub async fn begin_in_shares(
        wire: &WireClient,
        definitions: &[CellDefinition],
        names_max: usize,
    ) -> Result<ClusterExport, RemoteError> {
        let mut forms = HashMap::new();
        for (number, definition) in definitions.iter().enumerate() {
            let known = CompiledForm::new(definition.clone());
            let known = known.map_err(|error| RemoteError::Unexpected(error.to_string().into()))?;
            forms.insert(known.form.id, (number, known));
        }
        let scan = NameScan::begin(wire, Some(names_max)).await?;
        Ok(ClusterExport { wire: wire.clone(), scan, forms, done: ClusterExportReport::default() })
    }

    /// Returns the report of what was found so far.
    pub fn done(&self) -> ClusterExportReport {
        self.done
    }

    /// The next cells, perhaps none; `None` at the end. Each comes once. What came is whole only when the end has.
    ///
    /// # Errors
    /// What the cluster answered last, or that slots were moved meanwhile.
    pub async fn next(&mut self) -> Result<Option<Vec<ExportedCell>>, RemoteError> {
        let Some(names) = self.scan.next().await? else { return Ok(None) };
        let mut parts = BTreeMap::<Partition, Vec<RemoteCell>>::new();
        for (partition, CellName { key, form }) in names {
            match self.forms.get(&form) {
                Some((_, known)) => {
                    parts.entry(partition).or_default().push(RemoteCell { key, form: known.form.clone() });
                }
                None => self.done.others += 1,
            }
        }
        let mut cells = Vec::new();
        let mut tries = 0;
        while !parts.is_empty() {
            let read = |(partition, cells): (&Partition, &Vec<RemoteCell>)| PartitionRead {
                partition: *partition,
                cells: cells.clone(),
                places: Vec::new(),
            };
            let found = self.wire.read(parts.iter().map(read).collect(), WITHIN).await;
            let mut failure = None;
            for (answer, (partition, asked)) in found.into_iter().zip(std::mem::take(&mut parts)) {
                match answer {
                    Ok(found) => {
                        self.done.lost += found.unsound.len() as u64;
                        let spelled = asked.into_iter().zip(found.images);
                        cells.extend(spelled.filter_map(|(cell, image)| self.spell(&cell, &image?)));
                    }
                    Err(why) => {
                        failure = Some(why);
                        parts.insert(partition, asked);
                    }
                }
            }
            if let Some(failure) = failure {
                again(&mut tries, failure).await?;
            }
        }
        self.done.cells += cells.len() as u64;
        Ok(Some(cells))
    }

    fn spell(&mut self, cell: &RemoteCell, image: &CellImage) -> Option<ExportedCell> {
        let Key { kind, .. } = cell.key;
        let (definition, _) = self.forms.get(&cell.form.id)?;
        let plan = &cell.form.plan;
        let Some(((first, last), content)) = plan.times(image).zip(plan.content(image)) else {
            self.done.lost += 1;
            return None;
        };
        let key = Key { kind: Kind(kind.0 & !RemoteCell::PAIR), ..cell.key };
        let pair = kind.0 & RemoteCell::PAIR != 0;
        Some(ExportedCell { key, pair, definition: *definition, first, last, content })
    }
}
