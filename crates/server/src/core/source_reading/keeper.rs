//! Positions of all sources in one file of the data directory, written once what is before them is on disk.

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::Impact;
use parking_lot::Mutex;
use serde_json::Value;
use sources::positions::SourcePositions;

use super::{POSITIONS_DAMAGED, POSITIONS_UNWRITTEN};
use crate::core::blocking::blocking;
use crate::core::node::Node;

/// The positions by source.
#[derive(Debug, Default)]
struct KeptPositions {
    all: BTreeMap<String, SourcePositions>,
    /// The number of changes, and of those that are written.
    changes: u64,
    written: u64,
}

/// The keeper of positions.
#[derive(Debug, Default)]
pub(crate) struct PositionKeeper {
    kept: Mutex<KeptPositions>,
    /// Held by who writes the file, so that older positions never replace newer ones. Requests do not take it.
    writing: tokio::sync::Mutex<()>,
}

impl PositionKeeper {
    /// Reads what was kept. What is damaged is put aside and told; the sources are then read as new ones.
    pub(super) fn open(node: &Node) -> PositionKeeper {
        let Some(directory) = node.engine.directory() else { return PositionKeeper::default() };
        let (value, told) = match directory.source_positions() {
            Ok(read) => read,
            Err(error) => (None, vec![error.to_string()]),
        };
        let read = value.map(serde_json::from_value::<BTreeMap<String, SourcePositions>>).transpose();
        let (all, why) = match read {
            Ok(all) => (all.unwrap_or_default(), told.into_iter().next()),
            Err(error) => (BTreeMap::new(), Some(format!("positions of sources cannot be read: {error}"))),
        };
        node.engine.health().set(POSITIONS_DAMAGED, Impact::Degraded, why);
        PositionKeeper {
            kept: Mutex::new(KeptPositions { all, ..KeptPositions::default() }),
            ..PositionKeeper::default()
        }
    }

    /// The positions of a source; `None` if it is new.
    pub(super) fn of(&self, source: &str) -> Option<SourcePositions> {
        self.kept.lock().all.get(source).cloned()
    }

    /// Takes the positions of a source: what is before them is decided.
    pub(super) fn put(&self, source: &str, positions: SourcePositions) {
        let mut kept = self.kept.lock();
        if kept.all.get(source) != Some(&positions) {
            kept.all.insert(source.to_owned(), positions);
            kept.changes += 1;
        }
    }

    /// Writes the positions if they have changed, after all that was decided before is on disk.
    pub(crate) async fn keep(&self, node: &Arc<Node>) {
        let _writing = self.writing.lock().await;
        let (changes, taken) = {
            let kept = self.kept.lock();
            (kept.changes, (kept.changes != kept.written).then(|| serde_json::to_value(&kept.all)))
        };
        let Some(Ok(positions)) = taken else { return };
        let written = match node.engine.sync().await {
            Ok(()) => self.write(node, positions).await,
            Err(error) => Err(error.to_string()),
        };
        if written.is_ok() {
            self.kept.lock().written = changes;
        }
        if node.engine.directory().is_some() {
            let fault = written.err().map(|why| format!("positions of sources cannot be kept: {why}"));
            node.engine.health().set(POSITIONS_UNWRITTEN, Impact::Degraded, fault);
        }
    }

    async fn write(&self, node: &Arc<Node>, positions: Value) -> Result<(), String> {
        let engine = Arc::clone(&node.engine);
        blocking(move || match engine.directory() {
            Some(directory) => {
                directory.write_source_positions(&positions).map_err(|error| error.to_string())
            }
            None => Ok(()),
        })
        .await
    }
}
