//! The file of what people post about values.

use std::io;
use std::path::Path;

use super::{DirectoryError, io_error, read_sealed};
use crate::posted_values::PostedValues;

/// Largest file that is read.
const FILE_BYTES_MAX: u64 = 1 << 28;

impl PostedValues {
    /// Reads the file; nothing was posted in a new directory.
    pub(crate) fn read(path: &Path) -> Result<PostedValues, DirectoryError> {
        let instead = "posted entries of the allow list and notes on values are then gone";
        let bytes = read_sealed(path, FILE_BYTES_MAX, instead)?;
        let read = bytes.map_or(Ok(PostedValues::default()), |bytes| serde_json::from_slice(&bytes));
        read.map_err(|error| DirectoryError::Damaged { path: path.into(), why: error.to_string() })
    }

    pub(crate) fn write(&self, path: &Path) -> io::Result<()> {
        disk::replace(path, &disk::seal(&serde_json::to_vec(self)?))
    }

    /// Writes the file of a data directory anew without some values; answers how many entries and notes went.
    pub(crate) fn erase(path: &Path, is_meant: impl Fn(&str) -> bool) -> Result<u64, DirectoryError> {
        let mut read = PostedValues::read(path)?;
        let gone = read.forget(is_meant);
        if gone > 0 {
            read.write(path).map_err(io_error(path))?;
        }
        Ok(gone)
    }
}

#[cfg(test)]
mod tests {
    use event::Time;

    use super::*;
    use crate::posted_values::{AllowEntry, PostedValueChange, ValueNote};

    #[test]
    fn a_file_is_read_as_it_was_written() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("values.json");
        assert_eq!(PostedValues::read(&path).unwrap(), PostedValues::default());
        let (why, by) = ("ours".to_owned(), "ann".to_owned());
        let entry =
            AllowEntry { value: "10.9.8.0/24".to_owned(), why, by, since: Time(0), until: Some(Time(9)) };
        let note = |time, text: &str| ValueNote {
            value: "a".to_owned(),
            time: Time(time),
            by: "b".to_owned(),
            text: text.to_owned(),
        };
        let mut posted = PostedValues::default();
        let changes = [
            PostedValueChange::Allow(entry),
            PostedValueChange::Note(note(5, "later")),
            PostedValueChange::Note(note(3, "earlier")),
        ];
        posted.apply(changes.into(), Time(1));
        posted.write(&path).unwrap();
        assert_eq!(PostedValues::read(&path).unwrap(), posted);
        assert_eq!(posted.notes.iter().map(|note| note.time.0).collect::<Vec<_>>(), [3, 5]);
        assert_eq!(PostedValues::erase(&path, |value| value == "a").unwrap(), 2);
        assert!(PostedValues::read(&path).unwrap().notes.is_empty());
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[20] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        assert!(matches!(PostedValues::read(&path), Err(DirectoryError::Damaged { .. })));
    }
}
