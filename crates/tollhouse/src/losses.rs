//! Telling what of a journal could not be read.

use journal::{MissingRecords, SkippedData};

use crate::console::{error, help};

/// Says what is damaged or missing of a journal that was read, and answers whether anything is.
pub(crate) fn say_losses(skipped: &SkippedData, lacking: &[MissingRecords]) -> bool {
    if !skipped.is_empty() {
        error(format_args!("{skipped} were skipped"));
    }
    for lack in lacking {
        error(format_args!("journal: {lack}"));
    }
    let is_less = !skipped.is_empty() || !lacking.is_empty();
    if is_less {
        help("`tollhouse verify` says where files are damaged");
    }
    is_less
}
