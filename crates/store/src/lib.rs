//! A durable map from short keys to small byte images, in the line of Bitcask: append-only segments behind an
//! in-memory key directory, so that a write is one append and a read at most one `pread`
//! (Sheehy and Smith, *Bitcask: A Log-Structured Hash Table for Fast Key/Value Data*, 2010).
//!
//! ```text
//! append([records]) ─► one group of frames ─► active segment ─► (sync) ─► key directory points at it
//! get(key)          ─► key directory ─► segment, offset ─► one read, checked
//! merge_step(now)   ─► expired keys leave the directory; the emptiest sealed segment's live images are
//!                      appended again, synced, and only then is its file removed
//! ```
//!
//! What is promised, and tested with crash images of a [`MemoryDevice`]:
//! * What one [`Store::append`] was given is found after a crash wholly or not at all; once an `append` with
//!   `sync` has answered, wholly.
//! * An image that was superseded or has expired never comes back, whatever the crash and whichever way the
//!   caller's clock jumps.
//! * A damaged stretch is reported, skipped and costs only the groups it touches.
//! * After a failed write or sync nothing is written any more ([`StoreError::Failed`]); reads go on.
//!
//! Every sealed segment whose records are more than half dead is merged, so the files take at most twice the live
//! bytes and their frame headers (40 bytes a group), plus the active segment and, while a merge runs, the images
//! that it has copied so far.
//!
//! The crate knows bytes only: not what an image means, not what a key names, and never what time it is.
//! `docs/format.md` draws the files.

mod device;
mod format;
mod memory;
mod store;

pub use device::{Blob, Device, FileDevice};
pub use format::{KEY_BYTES, VALUE_BYTES_MAX};
pub use memory::MemoryDevice;
pub use store::{
    Damage, Image, Merged, Options, Position, Record, Recovery, Store, StoreError, Usage, Verification,
};
