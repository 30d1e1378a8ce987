//! Statistics per key: what is kept ([`Measure`], [`Catalog`]), how it is kept (a cell of packed words, on which a
//! [`Plan`] operates), and where: behind the [`Ledger`] trait.
//!
//! ```text
//! Request { once, observations } ─► Ledger::observe ─► Outcomes: duplicate, readings
//!                                   one batch           as they were before each observation's own add
//! ```
//!
//! A cell's state depends on the *set* of events it has seen and not on their order ([`Plan`] says exactly how), so
//! buffers, logs, replays and late arrivals are the same operation. Times are event times and are passed in; the
//! caller's clock is only heard by [`Ledger::maintain`], and only to let go of what has expired.
//!
//! The crate knows keys and counts: not what a kind means, not what is decided by a reading, and no async runtime.

pub mod bytes;
mod catalog;
mod cell;
pub mod cell_export;
mod definition;
mod embedded;
mod hottest_keys;
mod layout;
mod ledger;
pub mod limit;
pub mod random;
mod sketch;
pub mod workload;

pub use catalog::{Admission, Catalog, CatalogBuilder, CatalogError, Measure, Statistic};
pub use cell::{CellBuffer, CellPlan};
pub use embedded::{
    Ahead, Durability, DurabilityError, EmbeddedLedger, LedgerExportReport, LedgerImportReport,
    LedgerImporter, LedgerVerification, MergeState, Options,
};
pub use hottest_keys::HottestKeys;
pub use layout::{
    AggregateColumn, AggregateLayout, AggregateValue, CellShape, DecayWeight, Layout, LayoutError, Tier,
    TierError,
};
pub use ledger::{
    Addition, CancellationCheck, CounterAmounts, DedupeMark, Evidence, Ledger, LedgerCensus, LedgerError,
    LedgerFuture, LedgerMetric, Observation, ObserveOutcome, ObserveOutcomes, ObserveRequest, Origin,
    Quality, Reading, ReadingHead, ReadingView, Readings, Timeline, TimelineBucket,
};
pub use sketch::{Sketch, SketchOptions};
