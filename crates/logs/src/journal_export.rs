//! The journal's export format, as `journalctl -o export` writes it: entries of several lines with an empty one behind each.
//!
//! ```text
//! __CURSOR=s=…             NAME=value, where the value is text of one line
//! MESSAGE                  NAME, then the length in 8 bytes (the lowest first), the value and a line's end
//! <length><any bytes>
//!                          the entry's end
//! ```
//!
//! The reader takes lines one by one, and a value of bytes may have line ends in it. It keeps of an entry only what an
//! [`EnvelopedLine`] shows, and no more of a value than an event has room for.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::envelope::EnvelopedLine;
use crate::log_reader::LINE_BYTES_MAX;

/// Fields that are kept.
const KEPT: [&str; 9] = [
    "MESSAGE",
    "_SOURCE_REALTIME_TIMESTAMP",
    "__REALTIME_TIMESTAMP",
    "_HOSTNAME",
    "SYSLOG_IDENTIFIER",
    "_COMM",
    "SYSLOG_PID",
    "_PID",
    "PRIORITY",
];
/// Longest name of a field, as the journal has it.
const NAME_BYTES_MAX: usize = 64;
/// Longest value, as the journal has it.
const VALUE_BYTES_MAX: u64 = 768 << 20;
/// Bytes that say how long a value is.
const LENGTH_BYTES: usize = 8;

/// A reader's state, as it is kept over a restart.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct KeptJournalEntry {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    fields: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    open: Option<KeptJournalValue>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_in_entry: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_behind_entry: bool,
}

/// A value that has not ended, as it is kept.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct KeptJournalValue {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    bytes: Vec<u8>,
    came: u64,
}

/// A value of bytes that has not ended.
#[derive(Debug)]
struct OpenValue {
    /// The name, if the field is kept.
    name: Option<&'static str>,
    /// The length's bytes, then those of the value that are kept.
    bytes: Vec<u8>,
    /// The number of bytes that came, those of the length among them.
    came: u64,
}

/// A reader of entries, line by line.
#[derive(Debug, Default)]
pub struct JournalExportReader {
    entry: BTreeMap<&'static str, Vec<u8>>,
    open: Option<OpenValue>,
    /// True from the beginning of an entry on, until its end.
    is_in_entry: bool,
    /// True if the next line begins an entry, whatever it is.
    is_behind_entry: bool,
}

impl JournalExportReader {
    /// Reads a line, with or without its end; returns the entry that it ends, if that has a message.
    pub fn read(&mut self, line: &[u8]) -> Option<EnvelopedLine<'static>> {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        if let Some(mut open) = self.open.take() {
            match open.add(line) {
                OpenValueState::Open => self.open = Some(open),
                OpenValueState::Ended(name, value) => self.keep(name, value),
                OpenValueState::Damaged => self.lose(),
            }
            return None;
        }
        if line.is_empty() {
            let entry = std::mem::take(&mut self.entry);
            let is_whole = std::mem::take(&mut self.is_in_entry);
            self.is_behind_entry |= is_whole;
            return is_whole.then(|| enveloped(&entry)).flatten();
        }
        let (name, value) = match line.iter().position(|byte| *byte == b'=') {
            Some(at) => (&line[..at], Some(&line[at + 1..])),
            None => (line, None),
        };
        let is_name = |byte: &u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || *byte == b'_';
        if !(1..=NAME_BYTES_MAX).contains(&name.len()) || !name.iter().all(is_name) {
            self.lose();
            return None;
        }
        if !self.is_in_entry {
            // An entry's own fields begin with its address. In the middle of one, nobody knows where its values end.
            self.is_in_entry = std::mem::take(&mut self.is_behind_entry) || name.starts_with(b"__");
            if !self.is_in_entry {
                return None;
            }
        }
        let kept = KEPT.into_iter().find(|kept| kept.as_bytes() == name);
        match value {
            Some(value) => self.keep(kept, value.to_vec()),
            None => self.open = Some(OpenValue { name: kept, bytes: Vec::new(), came: 0 }),
        }
        None
    }

    /// Notes that a line was passed over, so that nobody knows where the entry's values end: reading goes on with an entry's address.
    pub fn lose(&mut self) {
        *self = JournalExportReader::default();
    }

    /// The state as it is kept over a restart.
    pub(crate) fn kept(&self) -> KeptJournalEntry {
        // Values are shown as texts, so texts are enough.
        let fields = self.entry.iter();
        let fields =
            fields.map(|(name, value)| ((*name).to_owned(), String::from_utf8_lossy(value).into_owned()));
        let open = self.open.as_ref().map(|open| KeptJournalValue {
            name: open.name.map(str::to_owned),
            bytes: open.bytes.clone(),
            came: open.came,
        });
        let (is_in_entry, is_behind_entry) = (self.is_in_entry, self.is_behind_entry);
        KeptJournalEntry { fields: fields.collect(), open, is_in_entry, is_behind_entry }
    }

    /// Goes on with a state that was kept.
    pub(crate) fn restore(kept: KeptJournalEntry) -> JournalExportReader {
        let known = |name: &str| KEPT.into_iter().find(|known| *known == name);
        let open = kept.open.map(|open| {
            let mut bytes = open.bytes;
            bytes.truncate(LENGTH_BYTES + LINE_BYTES_MAX);
            OpenValue { name: open.name.as_deref().and_then(known), bytes, came: open.came }
        });
        let (is_in_entry, is_behind_entry) = (kept.is_in_entry, kept.is_behind_entry);
        let mut reader =
            JournalExportReader { open, is_in_entry, is_behind_entry, ..JournalExportReader::default() };
        for (name, value) in kept.fields {
            reader.keep(known(&name), value.into_bytes());
        }
        reader
    }

    fn keep(&mut self, name: Option<&'static str>, mut value: Vec<u8>) {
        if let Some(name) = name {
            value.truncate(LINE_BYTES_MAX);
            // Of a field that an entry has several times the first counts.
            self.entry.entry(name).or_insert(value);
        }
    }
}

enum OpenValueState {
    Open,
    Ended(Option<&'static str>, Vec<u8>),
    Damaged,
}

impl OpenValue {
    /// Adds a line, and the end of it that is part of the value or behind it.
    fn add(&mut self, line: &[u8]) -> OpenValueState {
        self.came += line.len() as u64 + 1;
        let room = LENGTH_BYTES + LINE_BYTES_MAX - self.bytes.len().min(LENGTH_BYTES + LINE_BYTES_MAX);
        self.bytes.extend(line.iter().chain(b"\n").take(room));
        let Some(length) = self.bytes.first_chunk::<LENGTH_BYTES>() else { return OpenValueState::Open };
        let length = u64::from_le_bytes(*length);
        if length > VALUE_BYTES_MAX {
            return OpenValueState::Damaged;
        }
        let whole = LENGTH_BYTES as u64 + length + 1;
        match self.came.cmp(&whole) {
            std::cmp::Ordering::Less => OpenValueState::Open,
            std::cmp::Ordering::Equal => {
                let mut value = self.bytes.split_off(LENGTH_BYTES);
                value.truncate(usize::try_from(length).unwrap_or(usize::MAX));
                OpenValueState::Ended(self.name, value)
            }
            std::cmp::Ordering::Greater => OpenValueState::Damaged,
        }
    }
}

fn enveloped(entry: &BTreeMap<&'static str, Vec<u8>>) -> Option<EnvelopedLine<'static>> {
    let text = |name: &str| entry.get(name).map(|value| String::from_utf8_lossy(value).into_owned());
    EnvelopedLine::of_journal(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A field as systemd writes it where its value is no text of one line.
    fn bytes(name: &str, value: &[u8]) -> Vec<u8> {
        let length = (value.len() as u64).to_le_bytes();
        [name.as_bytes(), b"\n", &length, value, b"\n"].concat()
    }

    /// The entries of an export. They are the same with a restart after each line.
    fn read(raw: &[u8]) -> Vec<String> {
        let found = read_with(raw, false);
        assert_eq!(read_with(raw, true), found, "{raw:?}");
        found
    }

    fn read_with(raw: &[u8], restarts: bool) -> Vec<String> {
        let mut reader = JournalExportReader::default();
        let mut found = Vec::new();
        for line in raw.split_inclusive(|byte| *byte == b'\n') {
            if restarts {
                let kept = serde_json::to_string(&reader.kept()).expect("text");
                reader = JournalExportReader::restore(serde_json::from_str(&kept).expect("state"));
            }
            found.extend(reader.read(line).map(|line| line.as_short()));
        }
        found
    }

    const HEAD: &[u8] = b"__CURSOR=s=1;i=2\n__REALTIME_TIMESTAMP=1106513999000000\n_HOSTNAME=h\nSYSLOG_IDENTIFIER=x\n_PID=7\n";

    fn entry(message: &[u8]) -> Vec<u8> {
        [HEAD, message, b"\n"].concat()
    }

    #[test]
    fn entries_with_text_and_bytes() {
        let check = |raw: &[u8], expected: &[&str]| assert_eq!(read(raw), expected, "{raw:?}");
        check(&entry(b"MESSAGE=a=b c\n"), &["h x[7]: a=b c"]);
        // Lengths and values that have ends of lines in them.
        for length in [0, 1, 9, 10, 11, 266] {
            let value: String = (0..length).map(|at| if at % 7 == 3 { '\n' } else { 'a' }).collect();
            let shown = format!("h x[7]: {}", value.trim_end_matches('\n').replace('\n', " "));
            check(&entry(&bytes("MESSAGE", value.as_bytes())), &[&shown]);
        }
        check(&entry(&bytes("MESSAGE", b"a\n\nMESSAGE=forged\n\n")), &["h x[7]: a  MESSAGE=forged"]);
        check(&entry(&[bytes("_OTHER", b"\n\n\xff"), b"MESSAGE=m\n".to_vec()].concat()), &["h x[7]: m"]);
        let two = [
            entry(b"MESSAGE=a\n"),
            b"MESSAGE=without an address\n\n".to_vec(),
            entry(b"_X=1\n"),
            entry(b"MESSAGE=b\n"),
        ];
        check(&two.concat(), &["h x[7]: a", "without an address", "h x[7]: b"]);
    }

    #[test]
    fn what_is_damaged_costs_its_entry() {
        let after = entry(b"MESSAGE=after\n");
        for damaged in [
            // In the middle of an entry, of which nobody knows what it is.
            b"MESSAGE=rest\n\n".to_vec(),
            entry(b"lower=1\nMESSAGE=m\n"),
            entry(&[b"MESSAGE\n".as_slice(), &u64::MAX.to_le_bytes(), b"x\n"].concat()),
            // Longer than it says.
            entry(&[b"MESSAGE\n".as_slice(), &2u64.to_le_bytes(), b"long\n"].concat()),
        ] {
            assert_eq!(read(&[damaged.clone(), after.clone()].concat()), ["h x[7]: after"], "{damaged:?}");
        }
    }

    #[test]
    fn values_are_bounded() {
        let value = vec![b'\n'; 3 * LINE_BYTES_MAX];
        let mut reader = JournalExportReader::default();
        let mut most = 0;
        let raw = entry(&[bytes("MESSAGE", &value), bytes("_HOSTNAME", &value)].concat());
        for line in raw.split_inclusive(|byte| *byte == b'\n') {
            reader.read(line);
            most = most.max(reader.open.as_ref().map_or(0, |open| open.bytes.len()));
        }
        assert_eq!(most, LENGTH_BYTES + LINE_BYTES_MAX);
    }
}
