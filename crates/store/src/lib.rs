//! A durable store of small values under short keys: an index of all keys and the values of the hot ones in memory,
//! behind them an append-only log.
//!
//! ```text
//! run   ─► find keys, change cells            flush ─► one atomic group of images ─► log
//! cold  ─► read_many ─► load                  merge ─► what is live in a mostly dead segment, again
//! ```
//!
//! The crate knows words only: not what a value means, not what a key names, and never what time it is.
//! `docs/internals/format.md` draws the files.

mod arena;
mod erasure;
mod index;
mod key_hash;
pub mod log;
mod merge;
mod repair;
mod shard;
mod slab;
mod store;

pub use erasure::StoreErasure;
pub use index::Vacancy;
pub use key_hash::KeyHash;
pub use log::{
    DamagedRange, LogLosses, LogRecord, Position, RecordKey, Recovery, StoreError, Verification,
    VisitedRecord,
};
pub use merge::MergeReport;
pub use repair::Repair;
pub use shard::{CellLocation, CellMut, KeyLookup};
pub use store::{CellSemantics, ColdKey, Options, ShardGuard, Store, StoreRun, StoreUsage};
