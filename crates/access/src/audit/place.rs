//! The place of a log: a directory, or memory for a node that keeps nothing.

use std::io;
use std::path::PathBuf;

use disk::{FileDevice, MemoryDevice};

use super::log::{AuditHead, AuditLog, AuditOptions};
use super::reader::{AuditPage, AuditQuery, AuditVerification, read, verify};

/// The place of a log.
#[derive(Clone, Debug)]
pub struct AuditPlace(Place);

#[derive(Clone, Debug)]
enum Place {
    Directory(PathBuf),
    Memory(MemoryDevice),
}

impl AuditPlace {
    /// A directory, which may be missing.
    pub fn directory(path: PathBuf) -> AuditPlace {
        AuditPlace(Place::Directory(path))
    }

    /// Memory, which is lost with the process.
    pub fn memory() -> AuditPlace {
        AuditPlace(Place::Memory(MemoryDevice::new()))
    }

    /// Opens the log to write it, and locks it against other processes.
    ///
    /// # Errors
    /// Of the kind [`io::ErrorKind::WouldBlock`] if another process writes it; or the device's.
    pub fn open(&self, options: AuditOptions) -> io::Result<AuditLog> {
        match &self.0 {
            Place::Directory(path) => AuditLog::open(Box::new(FileDevice::open(path)?), options),
            Place::Memory(device) => AuditLog::open(Box::new(device.clone()), options),
        }
    }

    /// Reads entries, as [`read()`] does.
    ///
    /// # Errors
    /// The device's.
    pub fn read(&self, query: &AuditQuery, go_on: &dyn Fn() -> bool) -> io::Result<AuditPage> {
        match &self.0 {
            Place::Directory(path) => read(&FileDevice::read_only(path), query, go_on),
            Place::Memory(device) => read(device, query, go_on),
        }
    }

    /// Verifies the chain, as [`verify()`] does.
    ///
    /// # Errors
    /// The device's, and one of the kind [`io::ErrorKind::Interrupted`] once nobody waits.
    pub fn verify(
        &self,
        expected: Option<AuditHead>,
        go_on: &dyn Fn() -> bool,
    ) -> io::Result<AuditVerification> {
        match &self.0 {
            Place::Directory(path) => verify(&FileDevice::read_only(path), expected, go_on),
            Place::Memory(device) => verify(device, expected, go_on),
        }
    }
}
