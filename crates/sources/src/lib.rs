//! Lines from where they are written: growing files, the journal, senders of syslog; what `follow` and a server read.
//!
//! ```text
//! files, globs ─► FileFollower ────┐
//! journalctl ───► JournalFollower ─┼─► SourceChunk ─► SourceLineReader ─► events ─► decided ─► commit ─► positions kept
//! ```
//!
//! A chunk is handed out, and its position moves only when whoever took it says that it is safe (`commit`): what was read
//! and not committed is read again after a crash. Lines have names, so that what is sent again counts once.
//!
//! This crate reads no clock. It waits for `journalctl`, for files to grow as long as whoever polls says, and a moment for names.

#![forbid(unsafe_code)]

pub mod container_logs;
pub mod crowdsec_files;
pub mod crowdsec_reader;
pub mod file_follower;
mod followed_file;
#[cfg(target_os = "linux")]
mod growth_watch;
#[cfg(not(target_os = "linux"))]
#[path = "no_growth_watch.rs"]
mod growth_watch;
pub mod journal_follower;
pub mod line_reader;
pub mod path_pattern;
pub mod positions;
pub mod reverse_names;
pub mod syslog_frame;

use std::sync::Arc;

/// Lines of a chunk.
pub const CHUNK_LINES_MAX: usize = 256;
/// Bytes of a line that is read; the rest of a longer one is passed over.
pub const LINE_BYTES_MAX: usize = content::web::access_log::LINE_BYTES_MAX;

/// A line, and its name if it has a place where it can be had again.
pub type NamedLine = (Option<String>, Vec<u8>);

/// Lines of one origin, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceChunk {
    /// The file that they are from, or another name of where they came from.
    pub origin: Arc<str>,
    /// The heading that holds where they begin, such as the last `#Fields:` line.
    pub head: Option<String>,
    /// The lines.
    pub lines: Vec<NamedLine>,
}

/// Returns 16 hexadecimal digits that stand for bytes.
pub(crate) fn digest(bytes: &[u8]) -> String {
    use sha2::{Digest, Sha256};
    data_encoding::HEXLOWER.encode(&Sha256::digest(bytes)[..8])
}
