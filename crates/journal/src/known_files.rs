//! Facts about files that were opened before: whoever searches opens all of them again and again.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::block::BlockInfo;
use super::columns::{GroupCache, IndexCache};
use super::segment::SegmentPiece;

/// Segments of rows of which it is kept where their blocks lie: the one that is written to, and those that are to become columns.
const ROWS_MAX: usize = 16;

/// The indices of files by columns and what was read of their groups, and the places of blocks in files of rows.
#[derive(Debug, Default)]
pub(crate) struct KnownFiles {
    pub(super) indices: IndexCache,
    pub(super) groups: Arc<GroupCache>,
    places: Mutex<BTreeMap<String, Vec<SegmentPiece<BlockInfo>>>>,
}

impl KnownFiles {
    /// The places of blocks in a file of rows as far as they are known; the last is that of a block. Blocks are only ever added to
    /// such a file, behind all others.
    pub(super) fn places(&self, name: &str) -> Vec<SegmentPiece<BlockInfo>> {
        self.places.lock().get(name).cloned().unwrap_or_default()
    }

    /// Keeps the places of blocks in a file of rows, up to the last block.
    pub(super) fn keep_places(&self, name: &str, places: &[SegmentPiece<BlockInfo>]) {
        let is_block = |piece: &SegmentPiece<BlockInfo>| matches!(piece, SegmentPiece::Sound(_));
        let Some(last) = places.iter().rposition(is_block) else { return };
        let mut known = self.places.lock();
        if known.get(name).is_some_and(|known| known.last() == places.get(last)) {
            return;
        }
        known.insert(name.to_owned(), places[..=last].to_vec());
        while known.len() > ROWS_MAX {
            // Names rise with the ids in them.
            known.pop_first();
        }
    }
}

#[cfg(test)]
mod tests {
    use disk::{Device, MemoryDevice};
    use event::{Span, Time};
    use stats::Durability;

    use super::*;
    use crate::file::JournalFile;
    use crate::files::{SegmentBlocks, segments_on};
    use crate::id::RecordId;
    use crate::{Journal, Options, Record, samples};

    fn heads(file: &JournalFile, known: Option<&KnownFiles>) -> Vec<Option<BlockInfo>> {
        let blocks = SegmentBlocks::open_by(file, true, known).unwrap().unwrap();
        (0..blocks.len()).map(|number| blocks.head(number)).collect()
    }

    /// Known places are those that are read of the file as it is: while it grows, and if another has its name.
    #[test]
    fn known_places_are_those_of_the_file() {
        let options =
            Options { segment: 1 << 30, rotate: Span::days(1), keep: Span::days(30), keep_bytes: 1 << 40 };
        let known = KnownFiles::default();
        let mut counts = Vec::new();
        for (rounds, texts) in [(12, 1), (5, 40)] {
            let device: Arc<dyn Device> = Arc::new(MemoryDevice::new());
            let journal = Journal::over(Arc::clone(&device), options, Durability::Sync, 7).unwrap();
            for round in 0..rounds {
                let at = Time::from_seconds(1_700_000_000 + round);
                let row = samples::row(vec![Some(event::Value::from("text ".repeat(texts)))]);
                let record = (RecordId::first_of(at), at, Record::Decision(Box::new(row)));
                pollster::block_on(journal.append(&[record])).unwrap();
                let (_, file) = segments_on(&device).unwrap().pop().unwrap();
                let read = heads(&file, None);
                assert_eq!(heads(&file, Some(&known)), read);
                assert_eq!(known.places(file.name()).len(), read.len());
                counts.push(read.len());
            }
        }
        assert_eq!(counts, (1..=12).chain(1..=5).collect::<Vec<_>>());
    }
}
