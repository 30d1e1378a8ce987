//! Checks that every byte of a file is as it was written.

use disk::Blob;

use super::reader::IndexCopy;
use super::{ColumnarSegment, ReadColumns};
use crate::Record;
use crate::format::{DamagedStretch, SegmentError};
use crate::id::RecordId;
use crate::summary::{self, STORED_BLOCK_BYTES};
use crate::visitor::FactChoice;

/// Gets the records of a group.
type GroupVisitor<'a> = dyn FnMut(&[(RecordId, Record)]) + 'a;

/// Reads a whole file and checks every byte of it. `each` gets the records of intact groups, `progress` the bytes read.
pub(crate) fn check(
    file: Box<dyn Blob>,
    progress: &mut dyn FnMut(u64),
    each: &mut GroupVisitor<'_>,
) -> Result<Vec<DamagedStretch>, SegmentError> {
    let length = file.size()?;
    let columns = match ColumnarSegment::open(file) {
        Ok(columns) => columns,
        Err(SegmentError::Damaged(_) | SegmentError::Magic) => {
            return Ok(vec![damaged(0, length, 0)]);
        }
        Err(error) => return Err(error),
    };
    let mut stretches = Vec::new();
    // Where one copy is damaged the other serves.
    stretches.extend(columns.damage_of(IndexCopy::First)?.map(|(from, to)| damaged(from, to, 0)));
    for (number, group) in columns.index.groups.iter().enumerate() {
        progress(group.at);
        match columns.records((number, &mut ReadColumns::default()), |_| true, FactChoice::All) {
            Ok(records) => each(&records),
            Err(SegmentError::Damaged(_)) => {
                let (from, to) = (group.at, group.at + group.bytes());
                stretches.push(damaged(from, to, group.rows));
            }
            Err(error) => return Err(error),
        }
        let filters = columns.filters(group)?;
        let is_whole = |block: &[u8; STORED_BLOCK_BYTES]| summary::stored_block(block, true).is_some();
        if !filters.as_chunks().0.iter().all(is_whole) {
            // Searches read the group where they are damaged.
            let from = group.filters_at();
            stretches.push(damaged(from, from + group.filters_bytes(), 0));
        }
    }
    let (footer, crc) = columns.footer;
    let mut hasher = crc32fast::Hasher::new();
    let mut bytes = vec![0; 64 << 10];
    let mut at = footer;
    while at < length {
        let part = usize::try_from(length - at).unwrap_or(usize::MAX).min(bytes.len());
        columns.source.read_at(&mut bytes[..part], at)?;
        hasher.update(&bytes[..part]);
        at += part as u64;
    }
    if hasher.finalize() != crc {
        // Of no use to us, but other programs need it.
        stretches.push(damaged(footer, length, 0));
    } else {
        // It is found by the footer's length.
        stretches.extend(columns.damage_of(IndexCopy::Second)?.map(|(from, to)| damaged(from, to, 0)));
    }
    progress(length);
    Ok(stretches)
}

fn damaged(from: u64, to: u64, records: u32) -> DamagedStretch {
    DamagedStretch { from, to, records: u64::from(records), is_tail: false }
}
