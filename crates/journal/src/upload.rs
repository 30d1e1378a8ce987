//! Uploads of segments, as the journal knows of them: which are done, and how it went. Who uploads is elsewhere.

use event::Time;

use super::file::JournalFile;
use super::{Journal, JournalError, read_side_file};
use crate::id::RecordId;

/// The file with a node's name.
pub(super) const NODE_FILE: &str = "node.txt";
/// Longest name of a node.
const NODE_NAME_BYTES_MAX: usize = 64;

/// Counts of uploads since the journal was opened.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct UploadCounters {
    segments: u64,
    bytes: u64,
    failures: u64,
    pub(super) lost: u64,
}

/// The state of uploads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UploadCensus {
    /// True if segments are uploaded.
    pub is_on: bool,
    /// Segments with records that are not uploaded, the newest among them.
    pub waiting: u64,
    /// The earliest arrival of what is not uploaded.
    pub oldest: Option<Time>,
    /// Segments that were uploaded since the journal was opened.
    pub segments: u64,
    /// Bytes that were uploaded.
    pub bytes: u64,
    /// Attempts that failed.
    pub failures: u64,
    /// Records that became too many to be kept before they were uploaded.
    pub lost: u64,
}

impl Journal {
    /// Says that segments are uploaded: from now on none becomes too old before it is.
    pub fn keep_for_upload(&self) {
        self.shared.state.lock().upload.get_or_insert_default();
    }

    /// Says that a segment was uploaded, or had been; with how many bytes, if that was now.
    pub fn note_upload(&self, first: RecordId, bytes: Option<u64>) {
        let mut state = self.shared.state.lock();
        let named = state.segments.iter_mut().filter(|it| it.first == first);
        named.for_each(|it| it.is_uploaded = !it.is_erased);
        if let (Some(bytes), Some(upload)) = (bytes, &mut state.upload) {
            upload.segments += 1;
            upload.bytes += bytes;
        }
    }

    /// Says that an attempt to upload failed.
    pub fn note_failed_upload(&self) {
        self.shared.state.lock().upload.iter_mut().for_each(|upload| upload.failures += 1);
    }

    /// Returns true if a segment is known to be uploaded.
    pub fn is_uploaded(&self, first: RecordId) -> bool {
        self.shared.state.lock().segments.iter().any(|it| it.first == first && it.is_uploaded)
    }

    /// Returns the state of uploads.
    pub fn upload_census(&self) -> UploadCensus {
        let state = self.shared.state.lock();
        let Some(UploadCounters { segments, bytes, failures, lost }) = state.upload else {
            return UploadCensus::default();
        };
        let waiting = || state.segments.iter().filter(|it| !it.is_uploaded && it.summary.records > 0);
        UploadCensus {
            is_on: true,
            waiting: waiting().count() as u64,
            oldest: waiting().map(|it| it.summary.from).min(),
            segments,
            bytes,
            failures,
            lost,
        }
    }

    /// Returns the name of this node among those that upload to one place, which stays the same: `fresh` if it has none yet.
    ///
    /// # Errors
    /// The system's, if it cannot be read or written.
    pub fn node_name(&self, fresh: &str) -> Result<String, JournalError> {
        let file = JournalFile::new(&self.shared.device, NODE_FILE);
        // A damaged one is as good as none: what was uploaded under it is uploaded again under another.
        if let Ok(Some(content)) = read_side_file(&file)
            && let Ok(name) = String::from_utf8(content)
            && is_node_name(&name)
        {
            return Ok(name);
        }
        file.replace(&disk::seal(fresh.as_bytes()))?;
        Ok(fresh.to_owned())
    }
}

/// Returns true for what can be a part of a file's name anywhere.
fn is_node_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    !name.is_empty() && name.len() <= NODE_NAME_BYTES_MAX && name.bytes().all(is_plain)
}
