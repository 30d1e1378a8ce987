//! Files beside a log for bytes cut off or found damaged.

use std::io::{self, ErrorKind};
use std::ops::Range;

use crate::device::{Blob, Device, create_anew, read_full};

/// The ending of the name of a file that has the cut off end of a segment.
pub const TORN: &str = ".torn";
/// The ending of the name of a damaged file that is kept.
pub const DAMAGED: &str = ".damaged";
/// Torn ends that are kept: of so many crashes back.
const TAILS: usize = 16;

/// Copies a stretch of a segment into a file of its own, durably but for its name, and returns that name.
///
/// # Errors
/// The device's; nothing is left of the file then, as far as it can be removed.
pub fn keep_tail(
    device: &dyn Device,
    segment: &str,
    blob: &dyn Blob,
    stretch: Range<u64>,
) -> io::Result<String> {
    const PIECE_BYTES: u64 = 1 << 20;
    let stem = segment.split_once('.').map_or(segment, |(stem, _)| stem);
    let name = format!("{stem}.{:08x}{TORN}", stretch.start);
    let write = || {
        let kept = create_anew(device, &name)?;
        let mut piece = Vec::new();
        let mut at = stretch.start;
        while at < stretch.end {
            piece.resize(PIECE_BYTES.min(stretch.end - at) as usize, 0);
            let read = read_full(blob, at, &mut piece)?;
            if read == 0 {
                break;
            }
            kept.append(&piece[..read])?;
            at += read as u64;
        }
        kept.sync()
    };
    match write() {
        Ok(()) => Ok(name),
        Err(error) => {
            // It says less than the segment does.
            let _ = device.remove(&name);
            Err(error)
        }
    }
}

/// Removes all but the newest ends that crashes tore.
pub fn forget_tails(device: &dyn Device) {
    let mut torn: Vec<String> = device.list().unwrap_or_default();
    torn.retain(|name| name.ends_with(TORN));
    // Their names begin with the segment's, which rise.
    torn.sort_unstable();
    let old = torn.len().saturating_sub(TAILS);
    // What stays is in nobody's way.
    torn[..old].iter().for_each(|name| _ = device.remove(name));
}

/// Keeps a damaged file, which must never change, under another name beside it, the first that is free, and returns that name.
///
/// # Errors
/// The device's.
pub fn keep_damaged(device: &dyn Device, name: &str) -> io::Result<String> {
    let numbered = (2_u64..).map(|number| format!("{name}.{number}{DAMAGED}"));
    for kept in std::iter::once(format!("{name}{DAMAGED}")).chain(numbered) {
        match device.link(name, &kept) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            linked => return linked.and_then(|()| device.sync_names()).map(|()| kept),
        }
    }
    Err(ErrorKind::AlreadyExists.into())
}
