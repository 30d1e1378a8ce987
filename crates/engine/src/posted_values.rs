//! Entries of the allow list and notes that people post about values, such as an address, a network, an account or a domain.

use std::collections::HashSet;

use event::Time;
use judge::Network;
use serde::{Deserialize, Serialize};

/// Most entries of the allow list that can be posted.
pub const ALLOW_ENTRIES_MAX: usize = 10_000;
/// Most notes.
pub const NOTES_MAX: usize = 10_000;

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

impl PostedValues {
    /// Lets go of values; answers how many entries and notes that were.
    pub(crate) fn forget(&mut self, is_meant: impl Fn(&str) -> bool) -> u64 {
        let before = self.allowed.len() + self.notes.len();
        self.allowed.retain(|entry| !is_meant(&entry.value));
        self.notes.retain(|note| !is_meant(&note.value));
        (before - self.allowed.len() - self.notes.len()) as u64
    }

    /// Takes changes over, in their order. What has ended, and what there is no room for, is left out.
    pub(crate) fn apply(&mut self, changes: Vec<PostedValueChange>, now: Time) {
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
