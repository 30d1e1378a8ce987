//! Statistics per key: what is kept ([`Measure`], [`Catalog`]), how it is kept (a cell of packed words, on which a
//! [`CellPlan`] operates), and where: behind the [`Ledger`] trait.
//!
//! ```text
//! Request { once, observations } ─► Ledger::observe ─► Outcomes: duplicate, readings
//!                                   one batch           as they were before each observation's own add
//! ```
//!
//! A cell's state depends on the *set* of events it has seen and not on their order ([`CellPlan`] says exactly how), so
//! buffers, logs, replays and late arrivals are the same operation. Times are event times and are passed in; the
//! caller's clock is only heard by [`Ledger::maintain`], and only to let go of what has expired.
//!
//! The crate knows keys and counts: not what a kind means, not what is decided by a reading, and no async runtime.

#![forbid(unsafe_code)]

pub mod bytes;
mod catalog;
mod cell;
pub mod cell_export;
mod definition;
mod embedded;
mod hottest_keys;
mod kind;
mod layout;
mod ledger;
mod number_registry;
mod overlay;
pub mod random;
mod sketch;
pub mod workload;

pub use catalog::{Admission, Catalog, CatalogBuilder, CatalogError, Statistic};
pub use cell::CellBuffer;
pub use embedded::{
    Ahead, Durability, DurabilityError, EmbeddedLedger, LedgerExportReport, LedgerImportReport,
    LedgerImporter, LedgerVerification, MergeState, Options,
};
pub use hottest_keys::HottestKeys;
pub use kind::aggregate::{AggregateColumn, AggregateLayout, AggregateValue, DecayWeight};
pub use kind::distinct::DistinctForm;
pub use kind::evidence::{Evidence, EvidenceForm};
pub use kind::gcra::GcraForm;
pub use kind::hyperloglog::ApproximateDistinctForm;
pub use kind::last::LastValueForm;
pub use kind::mark::MarkForm;
pub use kind::series::{BucketSeries, BucketSummary};
pub use kind::windows::{CounterAmounts, CounterSet, Layout, TimelineBucket};
pub use kind::{Addition, CellPlan, Measure, ObservationContext, Origin, StatisticChange, limit};
pub use layout::{CellShape, LayoutError, Tier, TierError};
pub use ledger::{
    CancellationCheck, DedupeMark, ErasedKeys, HottestQuery, Ledger, LedgerCensus, LedgerError, LedgerFuture,
    LedgerMetric, Observation, ObserveOutcome, ObserveOutcomes, ObserveRequest, Quality, Reading,
    ReadingHead, ReadingView, Readings, Timeline,
};
pub use number_registry::{NumberRegistry, NumberRegistryError, NumberedSection, RegisteredName};
pub use overlay::AdditionOverlay;
pub use sketch::{Sketch, SketchOptions, SketchPlace};
