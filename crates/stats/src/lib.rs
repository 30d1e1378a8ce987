//! Windowed statistics per key: what is kept ([`Layout`], [`Catalog`]), how it is kept ([`Cell`]), and where: behind
//! the [`Ledger`] trait, whose embedded home is [`Embedded`].
//!
//! ```text
//! Request { once, observations } ─► Ledger::observe ─► Outcome { duplicate, readings }
//!                                   one batch            as they were before each observation's own add
//! ```
//!
//! A cell's state depends on the *set* of events it has seen and not on their order ([`Cell`] says exactly how), so
//! buffers, logs, replays and late arrivals are the same operation. Times are event times and are passed in; the
//! caller's clock is only heard by [`Ledger::maintain`], and only to let go of what has expired.
//!
//! The crate knows keys and counts: not what a kind means, not what is decided by a reading, and no async runtime.

mod bytes;
mod catalog;
mod cell;
mod definition;
mod embedded;
mod layout;
mod ledger;

pub use catalog::{Catalog, CatalogBuilder, CatalogError, Measure, Statistic};
pub use cell::{Cell, CellError};
pub use embedded::{Durability, DurabilityError, Embedded, Options};
pub use layout::{Layout, LayoutError, Shape, Tier, TierError};
pub use ledger::{
    Add, Amounts, Answer, Bucket, Census, Ledger, LedgerError, Observation, Once, Outcome, Quality, Reading,
    Request, Timeline,
};
