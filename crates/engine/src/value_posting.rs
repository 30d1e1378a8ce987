//! The posting of entries of the allow list and of notes.
//!
//! They are kept in `values.json` of the data directory, in the clear: whoever posts one wants to read it. Nodes of a cluster share
//! them: an entry is in force on all nodes, or refused.

use event::Time;
use judge::Network;

use crate::Engine;
use crate::directory::{DirectoryError, io_error};
use crate::posted_values::{
    ALLOW_ENTRIES_MAX, AllowEntry, NOTES_MAX, PostedValueChange, PostedValues, ValueNote, posted_value,
};

/// Most notes on one value.
pub const NOTES_PER_VALUE_MAX: usize = 50;
/// Longest note, or reason of an entry, in bytes.
pub const NOTE_BYTES_MAX: usize = 1000;
/// Longest value, in bytes.
const VALUE_BYTES_MAX: usize = 1024;

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
        let has_room = {
            let posted = self.posted_values.lock();
            let standing = posted.allowed.iter().filter(|own| own.until.is_none_or(|until| now < until));
            // Another entry of the same value takes its place.
            standing.count() < ALLOW_ENTRIES_MAX || posted.allowed.iter().any(|own| own.value == value)
        };
        if !has_room {
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
}
