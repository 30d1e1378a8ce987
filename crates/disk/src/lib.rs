//! The disk: devices, files that a crash leaves whole, and what the segments of all logs have in common.
//!
//! ```text
//! Device      a directory ─► list, create, open, remove, replace, rename; Blob: append, read, cut, sync
//! AtomicFile  NAME.half, 0600 ─► write ─► sync ─► NAME ─► sync the directory
//! ```
//!
//! Everything that a data directory holds is made here: files with the mode 0600, directories with 0700, whatever the
//! process's mask says, because they hold addresses, subjects and secrets.

#![forbid(unsafe_code)]

mod device;
mod file;
pub mod log;
mod memory;

pub use device::{
    Blob, Device, FileDevice, create_anew, export, is_lack, read_all, read_full, remove_if_there, sync_error,
};
pub use file::{
    AtomicFile, copy, copy_flat, create, create_directories, create_directory, exposed, place, private,
    replace, seal, sync_directory, sync_parent, unseal,
};
pub use memory::MemoryDevice;
