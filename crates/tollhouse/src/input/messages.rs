//! Messages, one after the other: each file is one, a mailbox holds many, a directory is read with all below it in
//! the order of names.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use content::mail::message::{self, Envelope, MESSAGE_BYTES_MAX};
use event::{Event, Time};

use super::mbox::{self, MboxIter, StoredMessage};

/// A message and where it was found.
pub(crate) struct InputMessage {
    /// Its file; `#N` is the N-th message of a mailbox that holds more than one.
    pub(crate) name: String,
    /// Its bytes.
    pub(crate) stored: StoredMessage,
    /// The number of its set, where several are read by turns.
    pub(crate) set: usize,
}

/// The source of the envelope of stored mail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum EnvelopeOption {
    /// `Return-Path`, `Delivered-To` and the topmost `Received` with a public address.
    Headers,
    /// The message has none.
    None,
}

impl EnvelopeOption {
    /// The envelope of a message.
    pub(crate) fn of(self, message: &InputMessage) -> Envelope {
        match self {
            EnvelopeOption::Headers => message.envelope(),
            EnvelopeOption::None => Envelope::default(),
        }
    }
}

/// Input that cannot be read.
pub(crate) struct UnreadableInput {
    /// The file or directory.
    pub(crate) name: String,
    /// The cause.
    pub(crate) error: io::Error,
}

impl InputMessage {
    /// The time at which the message says it was received.
    pub(crate) fn time(&self) -> Option<Time> {
        message::time(&self.stored.bytes)
    }

    /// Returns the envelope of the session in which the message came, as its fields and its mailbox give it.
    pub(crate) fn envelope(&self) -> Envelope {
        Envelope::from_headers(self.stored.with_sender())
    }

    /// The event of the message; its time is left open.
    pub(crate) fn event(&self, envelope: Envelope) -> Event {
        message::event(self.stored.message(), envelope)
    }
}

/// Reads messages. What cannot be read is said and passed over.
pub(crate) struct InputMessageIter {
    /// Paths to come: the arguments, and within them directory in directory.
    pending: Vec<std::vec::IntoIter<PathBuf>>,
    open: Option<OpenMailbox>,
}

/// A mailbox that is being read.
struct OpenMailbox {
    name: String,
    mbox: std::iter::Peekable<MboxIter<Box<dyn BufRead + Send>>>,
    /// Messages that were read of it.
    count: u64,
}

/// The argument for standard input.
pub(crate) const STDIN: &str = "-";

impl InputMessageIter {
    /// The messages of files, directories and mailboxes; `-` is standard input.
    pub(crate) fn new(paths: Vec<PathBuf>) -> InputMessageIter {
        InputMessageIter { pending: vec![paths.into_iter()], open: None }
    }

    /// The messages of a mailbox in memory.
    pub(crate) fn of_mbox(name: &str, bytes: &'static [u8]) -> InputMessageIter {
        let mut messages = InputMessageIter { pending: Vec::new(), open: None };
        messages.open(name.to_owned(), Box::new(bytes));
        messages
    }

    fn open(&mut self, name: String, reader: Box<dyn BufRead + Send>) {
        self.open = Some(OpenMailbox { name, mbox: MboxIter::new(reader).peekable(), count: 0 });
    }

    fn read(&mut self, path: &Path, name: String) -> Result<Option<InputMessage>, UnreadableInput> {
        let argument = self.pending.len() == 1;
        let stdin = argument && path.as_os_str() == STDIN;
        let read = (|| -> io::Result<Option<StoredMessage>> {
            let file: Box<dyn Read + Send> = if stdin {
                Box::new(io::stdin())
            } else {
                let metadata = fs::metadata(path)?;
                if metadata.is_dir() {
                    self.pending.push(listing(path)?.into_iter());
                    return Ok(None);
                }
                Box::new(File::open(path)?)
            };
            let mut reader = BufReader::with_capacity(64 << 10, file);
            let mut start = Vec::new();
            reader.by_ref().take(5).read_to_end(&mut start)?;
            let mbox = mbox::is_mbox(&start);
            let reader = Box::new(io::Cursor::new(start).chain(reader));
            if mbox {
                self.open(name.clone(), reader);
                return Ok(None);
            }
            let mut bytes = Vec::new();
            reader.take(MESSAGE_BYTES_MAX as u64).read_to_end(&mut bytes)?;
            if bytes.is_empty() {
                return Err(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    "it is empty: there is no message in it",
                ));
            }
            Ok(Some(StoredMessage::bare(bytes)))
        })();
        match read {
            Ok(stored) => Ok(stored.map(|stored| InputMessage { name, stored, set: 0 })),
            Err(error) => Err(UnreadableInput { name, error }),
        }
    }
}

impl Iterator for InputMessageIter {
    type Item = Result<InputMessage, UnreadableInput>;

    fn next(&mut self) -> Option<Result<InputMessage, UnreadableInput>> {
        loop {
            if let Some(open) = &mut self.open {
                match open.mbox.next() {
                    Some(Ok(stored)) => {
                        open.count += 1;
                        let only = open.count == 1 && open.mbox.peek().is_none();
                        let name =
                            if only { open.name.clone() } else { format!("{}#{}", open.name, open.count) };
                        return Some(Ok(InputMessage { name, stored, set: 0 }));
                    }
                    Some(Err(error)) => {
                        let name = open.name.clone();
                        self.open = None;
                        return Some(Err(UnreadableInput { name, error }));
                    }
                    None => self.open = None,
                }
            }
            let Some(path) = self.pending.last_mut()?.next() else {
                self.pending.pop();
                continue;
            };
            let name = path.display().to_string();
            match self.read(&path, name) {
                Ok(Some(message)) => return Some(Ok(message)),
                Ok(None) => {}
                Err(unreadable) => return Some(Err(unreadable)),
            }
        }
    }
}

/// Sets of messages, read by turns: of each as large a share is read at any time.
pub(crate) struct InterleavedMessageIter {
    sets: Vec<MessageSet>,
}

/// A set that is being read.
struct MessageSet {
    messages: InputMessageIter,
    number: usize,
    bytes: u64,
    read: u64,
}

impl InterleavedMessageIter {
    /// The messages of sets of files, directories and mailboxes.
    pub(crate) fn new(sets: Vec<Vec<PathBuf>>) -> InterleavedMessageIter {
        let of = |(number, paths): (usize, Vec<PathBuf>)| MessageSet {
            number,
            bytes: paths.iter().map(|path| bytes_below(path)).fold(1, u64::saturating_add),
            read: 0,
            messages: InputMessageIter::new(paths),
        };
        InterleavedMessageIter { sets: sets.into_iter().enumerate().map(of).collect() }
    }
}

impl Iterator for InterleavedMessageIter {
    type Item = Result<InputMessage, UnreadableInput>;

    fn next(&mut self) -> Option<Result<InputMessage, UnreadableInput>> {
        let share = |set: &MessageSet| set.read as f64 / set.bytes as f64;
        loop {
            let order = |a: &&mut MessageSet, b: &&mut MessageSet| share(a).total_cmp(&share(b));
            let set = self.sets.iter_mut().min_by(order)?;
            match set.messages.next() {
                Some(Ok(message)) => {
                    set.read += message.stored.bytes.len() as u64;
                    return Some(Ok(InputMessage { set: set.number, ..message }));
                }
                Some(unreadable) => return Some(unreadable),
                None => {
                    let number = set.number;
                    self.sets.retain(|set| set.number != number);
                }
            }
        }
    }
}

/// Returns the bytes of a file, or of all files below a directory; what cannot be looked at is told where it is read.
fn bytes_below(path: &Path) -> u64 {
    let Ok(metadata) = fs::metadata(path) else { return 0 };
    if !metadata.is_dir() {
        return metadata.len();
    }
    listing(path).unwrap_or_default().iter().map(|path| bytes_below(path)).fold(0, u64::saturating_add)
}

/// Returns the content of a directory, by name: directories and regular files. Links to directories are not followed, so no
/// circle is walked for ever.
fn listing(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut names: Vec<OsString> = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        let link_to_file =
            || kind.is_symlink() && fs::metadata(entry.path()).is_ok_and(|target| target.is_file());
        if kind.is_dir() || kind.is_file() || link_to_file() {
            names.push(entry.file_name());
        }
    }
    names.sort_unstable();
    Ok(names.into_iter().map(|name| directory.join(name)).collect())
}

/// Returns the number of files that there are to read, for a progress bar: exact where all arguments are directories of
/// messages, unknown where a mailbox or standard input is among them.
pub(crate) fn count_files(paths: &[PathBuf]) -> Option<u64> {
    const FILES_MAX: u64 = 10_000_000;
    let mut count = 0;
    let mut pending: Vec<PathBuf> = Vec::new();
    for path in paths {
        match fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => pending.push(path.clone()),
            Ok(_) if paths.len() > 1 => count += 1,
            _ => return None,
        }
    }
    while let Some(directory) = pending.pop() {
        for entry in fs::read_dir(&directory).ok()?.flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => pending.push(entry.path()),
                _ => count += 1,
            }
            if count > FILES_MAX {
                return None;
            }
        }
    }
    Some(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(paths: Vec<PathBuf>) -> Vec<String> {
        let shown = |item: Result<InputMessage, UnreadableInput>| match item {
            Ok(message) => message.name,
            Err(unreadable) => format!("unreadable {}", unreadable.name),
        };
        InputMessageIter::new(paths).map(shown).collect()
    }

    #[test]
    fn directories_are_walked_in_order_and_mailboxes_numbered() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        fs::create_dir(path("b")).unwrap();
        fs::write(path("b/2.eml"), "A: 1\n\n").unwrap();
        fs::write(path("b/10.eml"), "A: 1\n\n").unwrap();
        let line = "From a@example.com Thu Oct  3 20:04:09 1991\n";
        fs::write(path("a.mbox"), format!("{line}A: 1\n\n\n{line}A: 2\n\n")).unwrap();
        fs::write(path("one.mbox"), format!("{line}A: 1\n\n")).unwrap();
        std::os::unix::fs::symlink(directory.path(), path("circle")).unwrap();
        let shown = |name: &str| path(name).display().to_string();
        assert_eq!(
            names(vec![directory.path().to_path_buf(), path("none")]),
            [
                shown("a.mbox#1"),
                shown("a.mbox#2"),
                shown("b/10.eml"),
                shown("b/2.eml"),
                shown("one.mbox"),
                format!("unreadable {}", shown("none")),
            ]
        );
        let sets =
            vec![vec![path("b")], vec![path("a.mbox"), path("one.mbox")], vec![path("none")], Vec::new()];
        let turns = InterleavedMessageIter::new(sets).map(|read| match read {
            Ok(message) => (message.set, message.name),
            Err(unreadable) => (9, unreadable.name),
        });
        assert_eq!(
            turns.collect::<Vec<_>>(),
            [
                (0, shown("b/10.eml")),
                (1, shown("a.mbox#1")),
                (9, shown("none")),
                (1, shown("a.mbox#2")),
                (0, shown("b/2.eml")),
                (1, shown("one.mbox")),
            ]
        );
        assert_eq!(count_files(&[path("b")]), Some(2));
        assert_eq!(count_files(&[path("a.mbox")]), None);
    }
}
