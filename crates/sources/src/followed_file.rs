//! One growing file: which stream of lines it is, and the next whole lines behind a place in it.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use memchr::memchr;

use crate::positions::FilePosition;
use crate::{CHUNK_LINES_MAX, LINE_BYTES_MAX, NamedLine, digest};

/// Bytes of the first lines by which a stream is known.
const KNOWN_BY: usize = 4096;
/// Bytes before a place by which it is known.
const TAIL_BYTES: u64 = 256;
/// Bytes that are read at once. More than a line may have.
const READ_BYTES: usize = 256 << 10;

/// The number of looks at a file of unchanged length and time, after which it is believed to be unchanged: times of
/// files are coarse.
const LOOKS: u32 = 8;

/// A file that is read.
pub(crate) struct FollowedFile {
    file: File,
    /// Device and inode.
    pub(crate) id: (u64, u64),
    /// The hash of its first line, and of lines with `#` before that: logs of one server have the same headings.
    pub(crate) stream: String,
    /// Length and time of change when the file was last found to be the same, the place until which, and how often.
    seen: Option<((u64, i64, i64, u64), u32)>,
}

/// Lines with their names, and the place behind them.
pub(crate) struct ReadLines {
    pub(crate) lines: Vec<NamedLine>,
    pub(crate) next: FilePosition,
}

/// Returns device and inode.
pub(crate) fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

impl FollowedFile {
    /// Opens a file; `None` as long as there is no whole line, so that nobody knows what stream it is.
    ///
    /// # Errors
    /// If it cannot be read, or is no file with a length.
    pub(crate) fn open(path: &Path) -> io::Result<Option<FollowedFile>> {
        // A pipe's opening would wait for its writer.
        if !std::fs::metadata(path)?.is_file() {
            return Err(io::Error::other("it is no regular file"));
        }
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        let Some(stream) = stream_of(&file)? else { return Ok(None) };
        Ok(Some(FollowedFile { file, id: identity(&metadata), stream, seen: None }))
    }

    /// Returns true if the file begins as it did, and the place is where it was.
    pub(crate) fn is_same(&mut self, position: &FilePosition) -> io::Result<bool> {
        let metadata = self.file.metadata()?;
        let now = (metadata.len(), metadata.mtime(), metadata.mtime_nsec(), position.offset);
        let times = self.seen.filter(|(before, _)| *before == now).map_or(0, |(_, times)| times);
        if times >= LOOKS {
            return Ok(true);
        }
        let is_same = self.holds(position, metadata.len())?;
        self.seen = is_same.then_some((now, times + 1));
        Ok(is_same)
    }

    /// Has the next question whether the file is the same answered by looking at it.
    pub(crate) fn forget(&mut self) {
        self.seen = None;
    }

    /// Returns true if a place that was kept is one of this file.
    pub(crate) fn has(&self, position: &FilePosition) -> io::Result<bool> {
        Ok(self.stream == position.stream && self.holds(position, self.length()?)?)
    }

    fn holds(&self, position: &FilePosition, length: u64) -> io::Result<bool> {
        Ok(position.offset <= length
            && stream_of(&self.file)?.is_some_and(|stream| stream == self.stream)
            && (position.tail.is_empty() || self.tail(position.offset)? == position.tail))
    }

    pub(crate) fn length(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    /// Returns true if no name leads to the file any more.
    pub(crate) fn is_deleted(&self) -> io::Result<bool> {
        Ok(self.file.metadata()?.nlink() == 0)
    }

    /// The place at the file's end; the rest of a line that is being written is passed over. The heading that holds there is
    /// the first line, if such logs begin with one.
    pub(crate) fn end(&self, is_headed: bool) -> io::Result<FilePosition> {
        let offset = self.length()?;
        let mut last = [b'\n'];
        if offset > 0 {
            self.file.read_at(&mut last, offset - 1)?;
        }
        let head = if is_headed { self.first_line()? } else { self.fields_line(offset)? };
        Ok(FilePosition {
            stream: self.stream.clone(),
            offset,
            tail: self.tail(offset)?,
            is_inside_line: last != [b'\n'],
            head,
        })
    }

    fn first_line(&self) -> io::Result<Option<String>> {
        let mut first = vec![0; LINE_BYTES_MAX];
        let length = read_fully(&self.file, &mut first, 0)?;
        let end = first[..length].iter().position(|byte| *byte == b'\n');
        Ok(end.map(|end| String::from_utf8_lossy(first[..end].trim_ascii_end()).into_owned()))
    }

    /// The last heading of the extended log format before a place: not far before it, or at the beginning.
    fn fields_line(&self, before: u64) -> io::Result<Option<String>> {
        for start in [before.saturating_sub(READ_BYTES as u64), 0] {
            let mut bytes = vec![0; READ_BYTES.min(usize::try_from(before - start).unwrap_or(READ_BYTES))];
            let length = read_fully(&self.file, &mut bytes, start)?;
            let mut lines = bytes[..length].split_inclusive(|byte| *byte == b'\n');
            let found = lines.rfind(|line| line.starts_with(b"#Fields:") && line.ends_with(b"\n"));
            if let Some(found) = found.filter(|line| line.len() <= LINE_BYTES_MAX) {
                return Ok(Some(String::from_utf8_lossy(found.trim_ascii_end()).into_owned()));
            }
        }
        Ok(None)
    }

    /// The hash of the bytes before a place; empty at the beginning.
    fn tail(&self, offset: u64) -> io::Result<String> {
        if offset == 0 {
            return Ok(String::new());
        }
        let length = offset.min(TAIL_BYTES);
        let mut bytes = vec![0; length as usize];
        let read = read_fully(&self.file, &mut bytes, offset - length)?;
        Ok(digest(&bytes[..read]))
    }

    /// Reads the next whole lines. One that is longer than any event may be is handed out cut, for its reader to refuse, and
    /// its rest is passed over; one that is not at its end is left for later.
    pub(crate) fn lines(&self, position: &FilePosition, buffer: &mut Vec<u8>) -> io::Result<ReadLines> {
        buffer.resize(READ_BYTES, 0);
        let read = read_fully(&self.file, buffer, position.offset)?;
        let (mut lines, mut rest, mut next) = (Vec::new(), &buffer[..read], position.clone());
        if next.is_inside_line {
            let end = memchr(b'\n', rest);
            let passed = end.map_or(rest.len(), |end| end + 1);
            (rest, next.is_inside_line) = (&rest[passed..], end.is_none());
            next.offset += passed as u64;
        }
        while lines.len() < CHUNK_LINES_MAX {
            let end = memchr(b'\n', &rest[..rest.len().min(LINE_BYTES_MAX + 1)]);
            let (line, passed) = match end {
                Some(end) => (&rest[..=end], end + 1),
                None if rest.len() > LINE_BYTES_MAX => {
                    let passed = memchr(b'\n', rest);
                    next.is_inside_line = passed.is_none();
                    (&rest[..=LINE_BYTES_MAX], passed.map_or(rest.len(), |end| end + 1))
                }
                None => break,
            };
            lines.push((Some(name_of(&self.stream, next.offset, line)), line.to_vec()));
            next.offset += passed as u64;
            rest = &rest[passed..];
        }
        if next.offset != position.offset {
            next.tail = self.tail(next.offset)?;
        }
        next.stream.clone_from(&self.stream);
        Ok(ReadLines { lines, next })
    }
}

/// The name of a line: its stream, its offset there, and a hash of what it says, as two streams may have begun alike.
pub(crate) fn name_of(stream: &str, offset: u64, line: &[u8]) -> String {
    format!("{stream}:{offset}:{}", digest(line.trim_ascii()))
}

fn read_fully(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut length = 0;
    while length < bytes.len() {
        match file.read_at(&mut bytes[length..], offset + length as u64) {
            Ok(0) => break,
            Ok(read) => length += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}

/// The hash of a file's first line and of the headings before it; `None` as long as they are not whole.
fn stream_of(file: &File) -> io::Result<Option<String>> {
    let mut first = vec![0; KNOWN_BY];
    let length = read_fully(file, &mut first, 0)?;
    first.truncate(length);
    let mut start = 0;
    while let Some(end) = first[start..].iter().position(|byte| *byte == b'\n') {
        if first[start] != b'#' {
            return Ok(Some(digest(&first[..start + end])));
        }
        start += end + 1;
    }
    Ok((length == KNOWN_BY).then(|| digest(&first)))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;

    use super::*;

    fn texts(read: &ReadLines) -> Vec<String> {
        let lines = read.lines.iter();
        lines.map(|(_, line)| String::from_utf8_lossy(line).trim().chars().take(9).collect()).collect()
    }

    fn append(path: &Path, text: &str) {
        File::options().append(true).open(path).unwrap().write_all(text.as_bytes()).unwrap();
    }

    #[test]
    fn only_whole_lines_are_taken() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("log");
        let mut buffer = Vec::new();
        fs::write(&path, "first").unwrap();
        assert!(FollowedFile::open(&path).unwrap().is_none(), "nobody knows what stream it will be");
        fs::write(&path, format!("first\nsecond\n{}\nfourth\nfif", "x".repeat(LINE_BYTES_MAX + 9))).unwrap();
        let mut opened = FollowedFile::open(&path).unwrap().unwrap();
        let read = opened.lines(&FilePosition::default(), &mut buffer).unwrap();
        assert_eq!(texts(&read), ["first", "second", "xxxxxxxxx", "fourth"]);
        assert_eq!(read.lines[2].1.len(), LINE_BYTES_MAX + 1, "its reader sees that it is too long");
        assert_eq!(read.lines[1].0, Some(name_of(&opened.stream, 6, b"second")));
        let position = read.next;
        assert!(opened.is_same(&position).unwrap());
        assert!(opened.lines(&position, &mut buffer).unwrap().lines.is_empty());
        append(&path, "th\n");
        assert_eq!(texts(&opened.lines(&position, &mut buffer).unwrap()), ["fifth"]);
        // Another line at the place: the file was written anew, if only from there on.
        let whole = fs::read_to_string(&path).unwrap();
        fs::write(&path, whole.replace("fourth", "FOURTH")).unwrap();
        assert!(!opened.is_same(&position).unwrap());
        fs::write(&path, "first\n").unwrap();
        assert!(!opened.is_same(&position).unwrap());
    }

    #[test]
    fn the_rest_of_an_endless_line_is_passed_over() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("log");
        fs::write(&path, format!("a\n{}", "x".repeat(3 * READ_BYTES))).unwrap();
        let opened = FollowedFile::open(&path).unwrap().unwrap();
        let (mut position, mut taken, mut buffer) = (FilePosition::default(), Vec::new(), Vec::new());
        for _ in 0..6 {
            let read = opened.lines(&position, &mut buffer).unwrap();
            taken.extend(texts(&read));
            position = read.next;
        }
        assert_eq!(position.offset, 2 + 3 * READ_BYTES as u64);
        append(&path, "\nb\n");
        taken.extend(texts(&opened.lines(&position, &mut buffer).unwrap()));
        assert_eq!(taken, ["a", "xxxxxxxxx", "b"]);
    }

    #[test]
    fn streams_are_known_by_their_first_line_behind_headings() {
        let parent = tempfile::tempdir().unwrap();
        let stream = |name: &str, text: &str| {
            let path = parent.path().join(name);
            fs::write(&path, text).unwrap();
            FollowedFile::open(&path).unwrap().map(|opened| opened.stream)
        };
        assert_eq!(stream("a", "#Fields: a\n"), None);
        assert_ne!(stream("a", "#Fields: a\n1\n"), stream("b", "#Fields: a\n2\n"));
        assert_eq!(stream("a", "1\n2\n"), stream("b", "1\n3\n"));
        assert!(stream("a", &"#\n".repeat(KNOWN_BY)).is_some());
        let path = parent.path().join("log");
        fs::write(&path, "#Version: 1.0\n#Fields: a b\n1 2\n#Fields: b a\n2 1\n3").unwrap();
        let end = FollowedFile::open(&path).unwrap().unwrap().end(false).unwrap();
        assert_eq!((end.head.as_deref(), end.is_inside_line), (Some("#Fields: b a"), true));
        let end = FollowedFile::open(&path).unwrap().unwrap().end(true).unwrap();
        assert_eq!(end.head.as_deref(), Some("#Version: 1.0"));
        assert!(FollowedFile::open(parent.path()).is_err());
    }
}
