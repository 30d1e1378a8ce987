//! Files of lists: one entry a line, with tabs between its fields.

use std::fmt;
use std::ops::Range;

/// The fault of a list's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListError {
    /// The bytes of the file that are wrong: a field, or a line.
    pub range: Range<usize>,
    /// The fault, without a full stop.
    pub message: String,
    /// The advice on what to do about it.
    pub help: Option<String>,
}

impl fmt::Display for ListError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ListError {}

/// Returns the lines with entries, and the byte where each begins: empty lines and such as begin with `#` are left out.
pub(crate) fn entries(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut start = 0;
    text.split_inclusive('\n').filter_map(move |line| {
        let from = start;
        start += line.len();
        let line = line.trim_end_matches(['\n', '\r']);
        (!line.trim().is_empty() && !line.starts_with('#')).then_some((from, line))
    })
}
