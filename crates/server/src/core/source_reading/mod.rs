//! Sources that the server reads by itself: a thread each, from lines to decisions, and positions that are kept once what is
//! before them is on disk.
//!
//! ```text
//! files, journal ──► chunk ─┐
//! syslog ──► inbox (bounded)┴─► lines ─► events ─► decided ─► committed ─► journal synced ─► sources.json
//! ```
//!
//! One chunk of a source is worked on at a time: whoever writes faster than it is judged is read later (files, the journal,
//! connections), or loses datagrams, which are counted. A chunk that could not be counted and logged is decided again until
//! it is; lines with a name count once. Settings are those of the start, as those of listeners are; patterns are the
//! pipeline's, as they are now.

mod decider;
mod follower;
mod keeper;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use engine::Impact;
use tokio::runtime::Handle;

use self::follower::SourceTask;
pub(crate) use self::keeper::PositionKeeper;
use crate::core::node::Node;

/// The condition that a source cannot be read, or that its lines cannot be decided.
const CONDITION: &str = "sources-failing";
/// The condition that positions were damaged at the start. Sources were read as new ones, so that it stays.
const POSITIONS_DAMAGED: &str = "source-positions-damaged";
/// The condition that positions cannot be written.
const POSITIONS_UNWRITTEN: &str = "source-positions-unwritten";

/// Sources that are being read.
pub(crate) struct RunningSources {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    keeper: Arc<PositionKeeper>,
}

impl RunningSources {
    /// Begins to read all sources of a node. To be called within the runtime.
    pub(crate) fn start(node: &Arc<Node>) -> RunningSources {
        let keeper = Arc::new(PositionKeeper::open(node));
        let stop = Arc::new(AtomicBool::new(false));
        let mut threads = Vec::new();
        for status in node.sources.statuses() {
            let task = SourceTask {
                node: Arc::clone(node),
                status: Arc::clone(status),
                keeper: Arc::clone(&keeper),
                stop: Arc::clone(&stop),
                runtime: Handle::current(),
            };
            let named = thread::Builder::new().name(format!("source-{}", status.plan.name));
            match named.spawn(move || task.run()) {
                Ok(thread) => threads.push(thread),
                Err(error) => status.fail(node.now(), format!("there is no thread for it: {error}")),
            }
            tracing::info!(source = status.plan.name, pipeline = status.plan.pipeline, "reading");
        }
        RunningSources { stop, threads, keeper }
    }

    /// Keeps positions, and says how the sources are. To be called again and again.
    pub(crate) async fn keep(keeper: &PositionKeeper, node: &Arc<Node>) {
        keeper.keep(node).await;
        node.engine.health().set(CONDITION, Impact::Degraded, node.sources.fault());
    }

    /// The keeper of positions.
    pub(crate) fn keeper(&self) -> Arc<PositionKeeper> {
        Arc::clone(&self.keeper)
    }

    /// Reads no further chunk.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.iter().for_each(|thread| thread.thread().unpark());
    }

    /// Waits until the last chunks are decided. Blocks.
    pub(crate) fn join(mut self) {
        for thread in std::mem::take(&mut self.threads) {
            if thread.join().is_err() {
                tracing::error!("a source ended by a defect");
            }
        }
    }
}

impl Drop for RunningSources {
    /// A server that is dropped in the middle reads no further.
    fn drop(&mut self) {
        self.stop();
    }
}
