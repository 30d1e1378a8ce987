//! Tables of cells as a server of Redis or Valkey keeps them, and the commands on them: what the module `tollhouse` does,
//! without the server. The module (`crates/module`) lends it the server's keys; nodes (`crates/cluster`) write what it
//! reads.
//!
//! ```text
//! node     request ──► WRITE key ... payload ──► command ─► table ─► leaf      cells, and what is answered
//!                                                  └► form: definition ─► stats::CellPlan, which decides
//! server   snapshot: a table as bytes and back (RDB, AOF, DUMP, RESTORE)
//! ```
//!
//! The plans of `stats` say what a cell means: here is no statistic. Everything that comes in is checked before
//! anything is changed, and bounded: requests, definitions, snapshots. All is a function of what comes in, so that a replica
//! that runs the same commands has the same tables; the server's clock comes in with a command.

#![forbid(unsafe_code)]

pub mod command;
mod form;
mod leaf;
pub mod memory;
pub mod request;
pub mod snapshot;
mod table;

pub use form::{FormRegistry, TableForm};
pub use leaf::TableKey;
pub use table::{CellTable, TableScratch};
