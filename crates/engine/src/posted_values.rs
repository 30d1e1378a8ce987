//! Entries of the allow list and notes that people post about values, such as an address, a network, an account or a domain.
//!
//! They are kept in `values.json` of the data directory, in the clear: whoever posts one wants to read it. Nodes of a cluster share
//! them: an entry is in force on all nodes, or refused.

use std::collections::HashSet;
use std::io;
use std::path::Path;

use event::{Shingle, Time};
use judge::Network;
use serde::{Deserialize, Serialize};

use crate::Engine;
use crate::directory::{DirectoryError, io_error, read_sealed};

/// Most entries of the allow list that can be posted.
pub const ALLOW_ENTRIES_MAX: usize = 10_000;
/// Most notes.
pub const NOTES_MAX: usize = 10_000;
/// Most notes on one value.
pub const NOTES_PER_VALUE_MAX: usize = 50;
/// Longest note, or reason of an entry, in bytes.
pub const NOTE_BYTES_MAX: usize = 1000;
/// Longest value, in bytes.
const VALUE_BYTES_MAX: usize = 1024;
/// Largest file that is read.
const FILE_BYTES_MAX: u64 = 1 << 28;

/// A posted entry of the allow list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllowEntry {
    /// The address, network, account or other piece of a key, as values are compared.
    pub value: String,
    /// The reason.
    pub why: String,
    /// The name of who posted it.
    pub by: String,
    /// The time at which it was posted.
    pub since: Time,
    /// The end; `None` for none.
    pub until: Option<Time>,
}

/// A note on a value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ValueNote {
    /// The value, as values are compared.
    pub value: String,
    /// The time of it, by which a value's notes are told apart.
    pub time: Time,
    /// The name of who wrote it.
    pub by: String,
    /// The text; empty takes the note away.
    pub text: String,
}

/// Reasons to refuse an entry or a note.
#[derive(Debug, thiserror::Error)]
pub enum PostedValueError {
    /// The value can be neither allowed nor noted on.
    #[error("value: {0}")]
    Value(&'static str),
    /// The text is empty or too long.
    #[error("{field}: expected 1 to {NOTE_BYTES_MAX} bytes")]
    Text {
        /// The member of the request.
        field: &'static str,
    },
    /// The end is not ahead.
    #[error("for: expected a length of time such as `7d`")]
    Over,
    /// The list is full.
    #[error("there are {0} already: remove some first")]
    Full(usize),
    /// Other nodes cannot be told of it.
    #[error("it cannot be shared with the other nodes: {0}")]
    Shared(String),
    /// The list could not be written.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
}

/// The entries and notes, as the file has them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct PostedValues {
    /// One for each value, the oldest first.
    pub(crate) allowed: Vec<AllowEntry>,
    /// Oldest first.
    pub(crate) notes: Vec<ValueNote>,
}

/// A change that was posted here, or to another node.
#[derive(Clone, Debug)]
pub(crate) enum PostedValueChange {
    Allow(AllowEntry),
    Disallow(String),
    Note(ValueNote),
}

/// Returns a value as values are compared: an address or a network in its usual form, all else in lower case.
pub fn posted_value(text: &str) -> String {
    let text = text.trim();
    match text.parse::<Network>() {
        Ok(network) => network.to_string(),
        Err(_) => text.to_lowercase(),
    }
}

fn checked_value(text: &str) -> Result<String, PostedValueError> {
    let value = posted_value(text);
    if value.is_empty() {
        return Err(PostedValueError::Value("is empty"));
    }
    if value.len() > VALUE_BYTES_MAX {
        return Err(PostedValueError::Value("has more than 1024 bytes"));
    }
    Ok(value)
}

fn checked_text(field: &'static str, text: &str) -> Result<String, PostedValueError> {
    match text.trim() {
        text if (1..=NOTE_BYTES_MAX).contains(&text.len()) => Ok(text.to_owned()),
        _ => Err(PostedValueError::Text { field }),
    }
}

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

    /// Lets go of values; answers how many entries and notes that were.
    fn forget(&mut self, is_meant: impl Fn(&str) -> bool) -> u64 {
        let before = self.allowed.len() + self.notes.len();
        self.allowed.retain(|entry| !is_meant(&entry.value));
        self.notes.retain(|note| !is_meant(&note.value));
        (before - self.allowed.len() - self.notes.len()) as u64
    }

    /// Takes changes over, in their order. What has ended, and what there is no room for, is left out.
    fn apply(&mut self, changes: Vec<PostedValueChange>, now: Time) {
        for change in changes {
            match change {
                PostedValueChange::Allow(entry) => {
                    self.allowed.retain(|other| other.value != entry.value);
                    if entry.until.is_none_or(|until| now < until) && self.allowed.len() < ALLOW_ENTRIES_MAX {
                        self.allowed.push(entry);
                    }
                }
                PostedValueChange::Disallow(value) => self.allowed.retain(|other| other.value != value),
                PostedValueChange::Note(note) => {
                    self.notes.retain(|other| (other.time, &other.value) != (note.time, &note.value));
                    if !note.text.is_empty() && self.notes.len() < NOTES_MAX {
                        let place = self.notes.partition_point(|other| other.time <= note.time);
                        self.notes.insert(place, note);
                    }
                }
            }
        }
        self.allowed.retain(|entry| entry.until.is_none_or(|until| now < until));
    }

    /// The networks and the other values of the allow list.
    pub(crate) fn networks_and_accounts(&self) -> (Vec<Network>, HashSet<String>) {
        let (mut networks, mut accounts) = (Vec::new(), HashSet::new());
        for entry in &self.allowed {
            match entry.value.parse::<Network>() {
                Ok(network) => networks.push(network),
                Err(_) => _ = accounts.insert(entry.value.clone()),
            }
        }
        (networks, accounts)
    }
}

impl Engine {
    /// Returns the posted entries of the allow list, the newest first.
    pub fn allow_entries(&self) -> Vec<AllowEntry> {
        self.posted_values.lock().allowed.iter().rev().cloned().collect()
    }

    /// Returns the notes on a value, the newest first.
    pub fn value_notes(&self, value: &str) -> Vec<ValueNote> {
        let value = posted_value(value);
        let posted = self.posted_values.lock();
        posted.notes.iter().rev().filter(|note| note.value == value).cloned().collect()
    }

    /// Puts a value on the allow list, instead of an earlier entry of the same value: bans of it end, and nothing bans it. Answers
    /// the entry. Of nodes that share their statistics all hear of it, or none. Blocks.
    ///
    /// # Errors
    /// [`PostedValueError`]; then nothing has changed, unless it could not be written.
    pub fn allow(&self, entry: AllowEntry, now: Time) -> Result<AllowEntry, PostedValueError> {
        let value = checked_value(&entry.value)?;
        if value.parse::<Network>().is_ok_and(Network::is_everything) {
            return Err(PostedValueError::Value("is everybody: nobody could be banned"));
        }
        let why = checked_text("why", &entry.why)?;
        if entry.until.is_some_and(|until| until <= now) {
            return Err(PostedValueError::Over);
        }
        let is_new = {
            let posted = self.posted_values.lock();
            let standing = posted.allowed.iter().filter(|own| own.until.is_none_or(|until| now < until));
            if standing.count() >= ALLOW_ENTRIES_MAX {
                !posted.allowed.iter().any(|own| own.value == value)
            } else {
                false
            }
        };
        if is_new {
            return Err(PostedValueError::Full(ALLOW_ENTRIES_MAX));
        }
        let entry = AllowEntry { value, why, ..entry };
        self.post_value(PostedValueChange::Allow(entry.clone()), now)?;
        Ok(entry)
    }

    /// Takes a posted entry off the allow list; answers whether there was one. Blocks.
    ///
    /// # Errors
    /// As [`Engine::allow`].
    pub fn disallow(&self, value: &str, now: Time) -> Result<bool, PostedValueError> {
        let value = posted_value(value);
        if !self.posted_values.lock().allowed.iter().any(|entry| entry.value == value) {
            return Ok(false);
        }
        self.post_value(PostedValueChange::Disallow(value), now)?;
        Ok(true)
    }

    /// Adds a note to a value. Answers it as it is kept. Blocks.
    ///
    /// # Errors
    /// As [`Engine::allow`].
    pub fn add_note(&self, note: ValueNote, now: Time) -> Result<ValueNote, PostedValueError> {
        let value = checked_value(&note.value)?;
        let text = checked_text("text", &note.text)?;
        let mut time = note.time;
        {
            let posted = self.posted_values.lock();
            if posted.notes.len() >= NOTES_MAX {
                return Err(PostedValueError::Full(NOTES_MAX));
            }
            let own = || posted.notes.iter().filter(|other| other.value == value);
            if own().count() >= NOTES_PER_VALUE_MAX {
                return Err(PostedValueError::Full(NOTES_PER_VALUE_MAX));
            }
            while own().any(|other| other.time == time) {
                time = Time(time.0.saturating_add(1));
            }
        }
        let note = ValueNote { value, text, time, ..note };
        self.post_value(PostedValueChange::Note(note.clone()), now)?;
        Ok(note)
    }

    /// Removes the note that a value has of a time; answers whether there was one. Blocks.
    ///
    /// # Errors
    /// As [`Engine::allow`].
    pub fn remove_note(&self, value: &str, time: Time, now: Time) -> Result<bool, PostedValueError> {
        let value = posted_value(value);
        let is_meant = |note: &ValueNote| note.value == value && note.time == time;
        let Some(note) = self.posted_values.lock().notes.iter().find(|note| is_meant(note)).cloned() else {
            return Ok(false);
        };
        let gone = ValueNote { text: String::new(), ..note };
        self.post_value(PostedValueChange::Note(gone), now)?;
        Ok(true)
    }

    fn post_value(&self, change: PostedValueChange, now: Time) -> Result<(), PostedValueError> {
        self.share_posted_value(&change, now).map_err(PostedValueError::Shared)?;
        Ok(self.take_over_posted_values(vec![change], now)?)
    }

    /// Puts changes in force that were posted, here or to another node. Blocks.
    pub(crate) fn take_over_posted_values(
        &self,
        changes: Vec<PostedValueChange>,
        now: Time,
    ) -> Result<(), DirectoryError> {
        self.change_posted_values(|posted| posted.apply(changes, now)).map(drop)
    }

    /// Lets go of entries of the allow list that have ended. Blocks if there are any.
    ///
    /// # Errors
    /// If the list cannot be written.
    pub fn end_allow_entries(&self, now: Time) -> Result<(), DirectoryError> {
        let has_ended = |entry: &AllowEntry| entry.until.is_some_and(|until| until <= now);
        if !self.posted_values.lock().allowed.iter().any(has_ended) {
            return Ok(());
        }
        self.change_posted_values(|posted| posted.apply(Vec::new(), now)).map(drop)
    }

    /// Lets go of what is posted of some values; answers how many entries and notes that were.
    pub(crate) fn erase_posted_values(&self, is_meant: impl Fn(&str) -> bool) -> Result<u64, DirectoryError> {
        self.change_posted_values(|posted| posted.forget(is_meant))
    }

    /// Returns how many entries and notes there are of some values.
    pub(crate) fn count_posted_values(&self, is_meant: impl Fn(&str) -> bool) -> u64 {
        let posted = self.posted_values.lock();
        let values = posted.allowed.iter().map(|entry| &entry.value);
        values.chain(posted.notes.iter().map(|note| &note.value)).filter(|value| is_meant(value)).count()
            as u64
    }

    /// Changes what is posted: first in the file, then in force.
    fn change_posted_values<T>(
        &self,
        change: impl FnOnce(&mut PostedValues) -> T,
    ) -> Result<T, DirectoryError> {
        let _only = self.changing.lock();
        let before = self.posted_values.lock().clone();
        let mut after = before.clone();
        let made = change(&mut after);
        if after == before {
            return Ok(made);
        }
        if let Some(directory) = &self.directory {
            let path = directory.values_path();
            after.write(&path).map_err(io_error(&path))?;
            directory.note_contents()?;
        }
        let is_allow_list = after.allowed != before.allowed;
        *self.posted_values.lock() = after;
        if is_allow_list {
            self.take_over_allow_list(&self.plan());
        }
        Ok(made)
    }

    /// Returns the shingle by which an erasure finds a value.
    pub(crate) fn posted_value_shingle(&self, value: &str) -> Shingle {
        self.secret.shingle(value.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entry(value: &str, until: Option<i64>) -> AllowEntry {
        let (why, by) = ("ours".to_owned(), "ann".to_owned());
        AllowEntry { value: posted_value(value), why, by, since: Time(0), until: until.map(Time) }
    }

    #[test]
    fn values_are_compared_in_their_usual_form() {
        let check = |text: &str, value: &str| assert_eq!(posted_value(text), value);
        check(" Ann@Example.ORG ", "ann@example.org");
        check("192.0.2.7/32", "192.0.2.7");
        check("192.0.2.77/24", "192.0.2.0/24");
        check("2001:DB8:0::7", "2001:db8::7");
        check("::ffff:192.0.2.7", "192.0.2.7");
    }

    #[test]
    fn a_file_is_read_as_it_was_written() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("values.json");
        assert_eq!(PostedValues::read(&path).unwrap(), PostedValues::default());
        let mut posted = PostedValues::default();
        let note = |time, text: &str| ValueNote {
            value: "a".into(),
            time: Time(time),
            by: "b".into(),
            text: text.into(),
        };
        let changes = [
            PostedValueChange::Allow(entry("10.9.8.0/24", Some(9))),
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

    proptest! {
        #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

        /// Beside a map of what holds.
        #[test]
        fn of_each_value_the_last_change_holds(steps in prop::collection::vec((0..6u8, 0..8u8, 0..40i64), 0..60)) {
            let mut posted = PostedValues::default();
            let (mut allowed, mut notes) = (std::collections::BTreeMap::new(), std::collections::BTreeMap::new());
            for (at, (step, of, until)) in steps.into_iter().enumerate() {
                let (now, value) = (Time(at as i64), format!("user{of}"));
                let change = match step {
                    0..=2 => {
                        let until = (until > 20).then_some(until);
                        allowed.insert(value.clone(), until);
                        PostedValueChange::Allow(entry(&value, until))
                    }
                    3 => {
                        allowed.remove(&value);
                        PostedValueChange::Disallow(value)
                    }
                    step => {
                        let text = if step == 4 { "text".to_owned() } else { String::new() };
                        notes.insert((Time(until), value.clone()), text.clone());
                        PostedValueChange::Note(ValueNote { value, time: Time(until), by: String::new(), text })
                    }
                };
                posted.apply(vec![change], now);
                allowed.retain(|_, until| until.is_none_or(|until| now < Time(until)));
                notes.retain(|_, text: &mut String| !text.is_empty());
                let mut held: Vec<(&str, Option<i64>)> =
                    posted.allowed.iter().map(|entry| (entry.value.as_str(), entry.until.map(|until| until.0))).collect();
                held.sort_unstable();
                let wanted: Vec<(&str, Option<i64>)> = allowed.iter().map(|(value, until)| (value.as_str(), *until)).collect();
                prop_assert_eq!(held, wanted);
                let mut held: Vec<(Time, &str)> = posted.notes.iter().map(|note| (note.time, note.value.as_str())).collect();
                prop_assert!(held.is_sorted_by_key(|(time, _)| *time));
                held.sort_unstable();
                let wanted: Vec<(Time, &str)> = notes.keys().map(|(time, value)| (*time, value.as_str())).collect();
                prop_assert_eq!(held, wanted);
            }
        }
    }
}
