//! Indices of files that were opened before.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::{ColumnsIndex, HEAD_BYTES};

/// Bytes of indices that are kept, about. Those that were used longest ago make room.
const INDICES_BYTES_MAX: usize = 32 << 20;

/// The bytes by which a file is known again: its head has the checksum of its index, which has those of all columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileIdentity {
    pub(super) head: [u8; HEAD_BYTES],
    pub(super) bytes: u64,
}

/// The indices of files that were opened before: whoever searches opens all of them again and again.
#[derive(Debug, Default)]
pub(crate) struct IndexCache(Mutex<KnownIndices>);

#[derive(Debug, Default)]
struct KnownIndices {
    of: HashMap<String, KnownIndex>,
    bytes: usize,
    /// The number of uses so far.
    uses: u64,
}

#[derive(Debug)]
struct KnownIndex {
    identity: FileIdentity,
    index: Arc<ColumnsIndex>,
    footer: (u64, u32),
    bytes: usize,
    used: u64,
}

impl IndexCache {
    /// Returns what is kept of a file, if it is still that one.
    pub(super) fn of(&self, name: &str, identity: &FileIdentity) -> Option<(Arc<ColumnsIndex>, (u64, u32))> {
        let mut known = self.0.lock();
        known.uses += 1;
        let uses = known.uses;
        let found = known.of.get_mut(name).filter(|found| found.identity == *identity)?;
        found.used = uses;
        Some((Arc::clone(&found.index), found.footer))
    }

    /// Keeps the index of a file, and the start of its footer and that one's checksum.
    pub(super) fn keep(
        &self,
        name: &str,
        identity: FileIdentity,
        (index, footer): (&Arc<ColumnsIndex>, (u64, u32)),
    ) {
        let bytes = 1024 + index.groups.iter().map(|group| 128 + 8 * group.chunks.len()).sum::<usize>();
        let mut known = self.0.lock();
        let used = known.uses;
        let kept = KnownIndex { identity, index: Arc::clone(index), footer, bytes, used };
        known.bytes += bytes;
        if let Some(before) = known.of.insert(name.to_owned(), kept) {
            known.bytes -= before.bytes;
        }
        while known.bytes > INDICES_BYTES_MAX {
            let oldest = known.of.iter().min_by_key(|(_, index)| index.used).map(|(name, _)| name.clone());
            let Some(oldest) = oldest.and_then(|name| known.of.remove(&name)) else { break };
            known.bytes -= oldest.bytes;
        }
    }
}
