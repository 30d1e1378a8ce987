//! Decisions of all nodes in object storage: closed segments of the journal are uploaded, and read from there.
//!
//! ```text
//! segment ─► files of one table, pipeline and day ─► versions, files, index, manifest ─► the journal may forget it
//! bucket  ─► manifests of all nodes ─► an archive, as if one journal had all rows
//! ```
//!
//! The crate is the only one that knows object storage, and is blocking for its callers: it has a small runtime of its own.
//! Time is passed in. `layout` says what lies where.
//!
//! A segment is there from the moment that its manifest is. All names follow from the segment, so that what is uploaded
//! again takes the place of what was, and what was uploaded half is not seen. (Programs that list files see it: they have
//! each row once all the same, some of them before others.)

#![forbid(unsafe_code)]

mod bucket;
mod device;
mod erasure;
mod layout;
mod manifest;
mod reader;
mod uploader;

pub use bucket::{ObjectBucket, ObjectError};
pub use manifest::{ManifestFile, SegmentIndex, UploadManifest};
pub use reader::{BucketFilter, BucketJournal, FoundDecision};
pub use uploader::{UploadSettings, Uploader};
