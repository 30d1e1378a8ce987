//! Positions of a source: how far each file and the journal were taken, as they are kept in a file.

use std::collections::{BTreeMap, VecDeque};

use logs::crowdsec::kept_buckets::KeptBuckets;
use serde::{Deserialize, Serialize};

/// Most positions of files that are gone.
const RETIRED_MAX: usize = 256;

/// The place up to which a file was taken.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilePosition {
    /// The stream: 16 hexadecimal digits of the hash of its first line.
    pub stream: String,
    /// Bytes that were taken.
    pub offset: u64,
    /// The hash of the last bytes that were taken: files may begin alike.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tail: String,
    /// True if the offset is inside a line that is too long, whose rest is passed over.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_inside_line: bool,
    /// The heading that holds at the offset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<String>,
}

/// Positions of all that a source reads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SourcePositions {
    /// Files by their paths.
    pub files: BTreeMap<String, FilePosition>,
    /// The places in files that were replaced under their path: a renamed or copied one goes on there.
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    pub retired: VecDeque<FilePosition>,
    /// The journal's cursor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// CrowdSec's buckets as they were here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buckets: Option<KeptBuckets>,
}

impl SourcePositions {
    /// Keeps the place in a file that is no longer under its path.
    pub(crate) fn retire(&mut self, position: FilePosition) {
        if position.offset == 0 || self.retired.contains(&position) {
            return;
        }
        while self.retired.len() >= RETIRED_MAX {
            self.retired.pop_front();
        }
        self.retired.push_back(position);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_read_back() {
        let mut positions = SourcePositions::default();
        let position = FilePosition { stream: "00".into(), offset: 7, ..FilePosition::default() };
        positions.files.insert("a".to_owned(), position.clone());
        for offset in 0..RETIRED_MAX as u64 + 9 {
            positions.retire(FilePosition { offset, ..position.clone() });
        }
        assert_eq!(positions.retired.len(), RETIRED_MAX);
        positions.cursor = Some("s=1".to_owned());
        let text = serde_json::to_string(&positions).unwrap();
        assert_eq!(serde_json::from_str::<SourcePositions>(&text).unwrap(), positions);
        for wrong in ["nothing", "{\"files\":7}", "", "{\"topic\":\"t\",\"next\":{}}"] {
            assert!(serde_json::from_str::<SourcePositions>(wrong).is_err(), "{wrong}");
        }
    }
}
