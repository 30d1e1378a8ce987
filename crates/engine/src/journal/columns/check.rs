//! Whether every byte of a file is as it was written.

use std::fs::File;

use super::Columns;
use crate::id::RecordId;
use crate::journal::Record;
use crate::journal::segment::SegmentError;

/// What [`check`] found damaged.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::journal) struct Damaged {
    /// First byte.
    pub(in crate::journal) from: u64,
    /// Byte behind the last.
    pub(in crate::journal) to: u64,
    /// Records in there.
    pub(in crate::journal) records: u64,
}

/// Gets the records of a group.
type EachGroup<'a> = dyn FnMut(&[(RecordId, Record)]) + 'a;

/// Reads a whole file and checks every byte of it. `each` gets the records of intact groups, `progress` the bytes read.
pub(in crate::journal) fn check(
    file: File,
    progress: &mut dyn FnMut(u64),
    each: &mut EachGroup<'_>,
) -> Result<Vec<Damaged>, SegmentError> {
    let length = file.metadata()?.len();
    let columns = match Columns::open(file) {
        Ok(columns) => columns,
        Err(SegmentError::Damaged(_) | SegmentError::Magic) => {
            return Ok(vec![Damaged { from: 0, to: length, records: 0 }]);
        }
        Err(error) => return Err(error),
    };
    let mut damaged = Vec::new();
    for (number, group) in columns.index.groups.iter().enumerate() {
        progress(group.at);
        match columns.records(number, |_| true) {
            Ok(records) => each(&records),
            Err(SegmentError::Damaged(_)) => {
                let (from, to) = (group.at, group.at + group.bytes());
                damaged.push(Damaged { from, to, records: u64::from(group.rows) });
            }
            Err(error) => return Err(error),
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
        damaged.push(Damaged { from: footer, to: length, records: 0 });
    }
    progress(length);
    Ok(damaged)
}
