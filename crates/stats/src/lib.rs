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
mod definition;
mod embedded;
mod hottest;
mod layout;
mod ledger;
pub mod limit;
pub mod portable;
pub mod random;
mod sketch;
mod v1;
pub mod workload;

pub use catalog::{Admit, Catalog, CatalogBuilder, CatalogError, Measure, Statistic};
pub use cell::{Plan, Room};
pub use embedded::{
    Ahead, Durability, DurabilityError, Embedded, Exported, Imported, Importer, MergeState, Options, Verified,
};
pub use hottest::Hottest;
pub use layout::{Column, Layout, LayoutError, Shape, Tier, TierError, Track, Value, Weight};
pub use ledger::{
    Add, Amounts, Answer, Bucket, Census, Evidence, Figure, IsOver, Ledger, LedgerError, Observation, Once,
    Origin, Outcome, Outcomes, Quality, Reading, Readings, Request, Timeline, Told, View,
};
pub use sketch::{Sketch, SketchOptions};
