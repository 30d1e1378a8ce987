//! The audit log: who did what, in lines that are chained by hashes, apart from the journal.
//!
//! ```text
//! audit/audit.00000000000000000001.ndjson     a line an entry, numbered from 1; the name is the number of its first line
//! audit/head                                  number and hash of a late line, sealed
//!
//! line    {"number":7,"time":"…","by":"ann",…,"chain":"<64 hex digits>"}
//! chain   SHA-256(the chain of the line before, 32 bytes ‖ the line without its member `chain`)
//! ```
//!
//! The first line of each file is a `audit.segment` and names the chain before it, so files can be removed at the front (as
//! retention does), and what is left still proves itself.
//!
//! The chain shows lines that were changed, removed or put in after they were written. It cannot show that somebody who may
//! write the files rewrote all of them from some line on, or removed lines at the end together with `head`: to be safe from
//! that, the head is noted elsewhere now and then (the server logs it), and given to the verification.

mod entry;
mod log;
mod place;
mod reader;
mod writer;

pub use entry::{AuditEntry, AuditRecord, AuditRecordError, ChainHash, LINE_BYTES_MAX};
pub use log::{AuditError, AuditHead, AuditLog, AuditOptions};
pub use place::AuditPlace;
pub use reader::{AuditFault, AuditOrder, AuditPage, AuditQuery, AuditVerification, read, verify};
pub use writer::{AuditReceipt, AuditWriter};
