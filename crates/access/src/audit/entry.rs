//! Entries, and their form as lines.

use std::collections::BTreeMap;
use std::fmt;

use data_encoding::HEXLOWER;
use event::Time;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};

use crate::TokenChange;

/// Longest line that is written or read.
pub const LINE_BYTES_MAX: usize = 64 << 10;
/// Characters of a text, and number of details; what is longer is cut.
const TEXT_CHARS_MAX: usize = 512;
const DETAILS_MAX: usize = 24;

/// Detail of entries about tokens, and of each file's first line: the number of the latest [`TokenChange`] in the log.
pub(super) const CHANGE: &str = "change";

/// The hash of a line and of all before it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ChainHash(pub [u8; 32]);

impl ChainHash {
    /// The hash before the first line.
    pub const START: ChainHash = ChainHash([0; 32]);

    /// Returns the hash of a line that follows this one; `text` is the line without its member `chain`.
    fn next(self, text: &str) -> ChainHash {
        let mut hash = Sha256::new();
        hash.update(self.0);
        hash.update(text);
        ChainHash(hash.finalize().into())
    }

    /// Reads 64 hexadecimal digits.
    pub fn from_hex(text: &str) -> Option<ChainHash> {
        Some(ChainHash(HEXLOWER.decode(text.as_bytes()).ok()?.try_into().ok()?))
    }
}

impl fmt::Display for ChainHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&HEXLOWER.encode(&self.0))
    }
}

impl fmt::Debug for ChainHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ChainHash({self})")
    }
}

impl Serialize for ChainHash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ChainHash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ChainHash, D::Error> {
        let text = String::deserialize(deserializer)?;
        ChainHash::from_hex(&text).ok_or_else(|| serde::de::Error::custom("expected 64 hexadecimal digits"))
    }
}

/// An action of somebody.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditEntry {
    /// The time at which it was done.
    #[serde(with = "crate::time_text")]
    pub time: Time,
    /// The name of the token, or the user of the machine.
    pub by: String,
    /// The address that it came from; none where it was done on the machine itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The action, such as `rules.post`.
    pub action: String,
    /// The status of the answer, as HTTP has it: 200 and above it was done, 400 and above it was not.
    pub status: u16,
    /// The objects of the action: a pipeline, a key, a decision's id.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub detail: BTreeMap<String, String>,
}

impl AuditEntry {
    /// Returns the entry of a change of tokens.
    pub fn of_change(change: &TokenChange) -> AuditEntry {
        let detail = [
            (change.action.split('.').next().unwrap_or("token"), change.name.clone()),
            ("scopes", change.scopes.to_string()),
            (CHANGE, change.number.to_string()),
        ];
        AuditEntry {
            time: change.time,
            by: change.by.clone(),
            from: None,
            action: change.action.clone(),
            status: 200,
            detail: detail.map(|(name, text)| (name.to_owned(), text)).into(),
        }
    }

    /// Returns an entry whose texts are all short enough.
    pub(super) fn bounded(mut self) -> AuditEntry {
        let cut = |text: &mut String| {
            if let Some((end, _)) = text.char_indices().nth(TEXT_CHARS_MAX) {
                text.truncate(end);
                text.push('…');
            }
        };
        cut(&mut self.by);
        cut(&mut self.action);
        self.from.as_mut().map(cut);
        let details = std::mem::take(&mut self.detail).into_iter().take(DETAILS_MAX);
        self.detail = details
            .map(|(mut name, mut text)| {
                cut(&mut name);
                cut(&mut text);
                (name, text)
            })
            .collect();
        self
    }
}

/// An entry with its place in the chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditRecord {
    /// Its number: 1, 2, 3 …
    pub number: u64,
    /// The entry.
    #[serde(flatten)]
    pub entry: AuditEntry,
    /// The hash of this line and of all before it.
    pub chain: ChainHash,
}

/// Reasons for a line that is no record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuditRecordError {
    /// The line is no UTF-8.
    #[error("it is no UTF-8 text")]
    Text,
    /// The line does not end with its hash.
    #[error("it does not end with its hash")]
    Chain,
    /// The line is no entry.
    #[error("it is no entry: {0}")]
    Json(String),
}

#[derive(Serialize)]
struct UnchainedRecord<'a> {
    number: u64,
    #[serde(flatten)]
    entry: &'a AuditEntry,
}

const CHAIN: &str = ",\"chain\":\"";
const END: &str = "\"}";
const DIGITS: usize = 64;

/// Writes an entry as the line that follows `before`; returns its hash.
pub(super) fn write_line(
    number: u64,
    entry: &AuditEntry,
    before: ChainHash,
    into: &mut Vec<u8>,
) -> ChainHash {
    // No type here refuses to be written.
    let text = serde_json::to_string(&UnchainedRecord { number, entry }).unwrap_or_default();
    let chain = before.next(&text);
    into.extend_from_slice(text.strip_suffix('}').unwrap_or(&text).as_bytes());
    into.extend_from_slice(format!("{CHAIN}{chain}{END}\n").as_bytes());
    chain
}

/// A line as it is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AuditLine {
    pub(super) record: AuditRecord,
    /// The line without its member `chain`.
    text: String,
}

impl AuditLine {
    /// Reads a line, without its end.
    pub(super) fn read(line: &[u8]) -> Result<AuditLine, AuditRecordError> {
        let line = str::from_utf8(line).map_err(|_| AuditRecordError::Text)?;
        let body = line.strip_suffix(END).ok_or(AuditRecordError::Chain)?;
        let at = body.len().checked_sub(DIGITS).ok_or(AuditRecordError::Chain)?;
        let (body, digits) = body.split_at_checked(at).ok_or(AuditRecordError::Chain)?;
        let body = body.strip_suffix(CHAIN).ok_or(AuditRecordError::Chain)?;
        let chain = ChainHash::from_hex(digits).ok_or(AuditRecordError::Chain)?;
        let record: AuditRecord =
            serde_json::from_str(line).map_err(|error| AuditRecordError::Json(error.to_string()))?;
        if record.chain != chain {
            return Err(AuditRecordError::Chain);
        }
        Ok(AuditLine { record, text: format!("{body}}}") })
    }

    /// Returns true if the line was written after the one with this hash, and not changed since.
    pub(super) fn follows(&self, before: ChainHash) -> bool {
        before.next(&self.text) == self.record.chain
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_back_and_say_what_was_changed() {
        let entry = AuditEntry {
            time: Time::from_seconds(1_779_012_000),
            by: "ann".to_owned(),
            from: Some("192.0.2.7".to_owned()),
            action: "ban.add".to_owned(),
            status: 200,
            detail: BTreeMap::from([("value".to_owned(), "a\"},\"chain\":\"b\n\u{202e}".to_owned())]),
        };
        let mut bytes = Vec::new();
        let chain = write_line(7, &entry, ChainHash::START, &mut bytes);
        assert_eq!(bytes.iter().filter(|byte| **byte == b'\n').count(), 1);
        let line = AuditLine::read(bytes.trim_ascii_end()).unwrap();
        assert_eq!(line.record, AuditRecord { number: 7, entry: entry.clone(), chain });
        assert!(line.follows(ChainHash::START) && !line.follows(chain));
        let text = String::from_utf8(bytes).unwrap();
        let changed = text.replace("ann", "bob");
        assert!(!AuditLine::read(changed.trim_end().as_bytes()).unwrap().follows(ChainHash::START));
        for wrong in ["", "}", "\"}", "{}", &text[..text.len() / 2], "{\"chain\":\"é\"}"] {
            assert!(AuditLine::read(wrong.as_bytes()).is_err(), "{wrong}");
        }
        let long = AuditEntry { by: "é".repeat(10_000), ..entry }.bounded();
        assert_eq!(long.by.chars().count(), TEXT_CHARS_MAX + 1);
    }
}
