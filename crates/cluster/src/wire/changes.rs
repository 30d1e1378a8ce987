//! The list of changes that nodes share: bans and their lifting, exceptions of limits.
//!
//! ```text
//! #cn   subject ─► number of its last change, from 1; in the order of these numbers
//! #cv   subject ─► that change: a letter for its kind, when it ends, and a text that only nodes can read
//! #ce   subject ─► when it ends
//! #ch   n ─► the last number, c ─► the number of calls, call modulo 65,536 ─► its tag, which its node has drawn by chance
//! ```
//!
//! Only the last change of a subject is kept, so the list is as long as what holds, and a node that was away for however long reads
//! what it has missed, or all, and nothing twice. The order is the cluster's: of two changes of a subject the one that came later
//! stands. The tags tell a node whether what it has read is still there: a failover may have forgotten the last calls, and others have
//! their numbers by now.

use std::collections::HashSet;

use event::Shingle;
use redis::{Value, cmd};
use tokio::time::Instant;

use super::generation::AT;
use super::server_link::ConnectionClass;
use super::{WireClient, WireCore, number, only, script, unexpected};
use crate::remote::RemoteError;

/// Bytes of a subject.
pub const SUBJECT_BYTES: usize = 24;
/// Most changes of a call, and of a page.
const PAGE: usize = 500;
/// Largest text of a change, in bytes.
const TEXT_BYTES_MAX: usize = 8 << 10;
/// Most subjects in the list.
const SUBJECTS_MAX: usize = 1_000_000;
/// Calls whose tags are remembered.
const CALLS: u64 = 1 << 16;
/// The greatest number that scripts count exactly.
const EXACT_MAX: u64 = (1 << 53) - 1;

/// The sort of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeEntryKind {
    /// A change that holds to its end, unless it holds for longer already.
    Put,
    /// A change that stands instead of what was there.
    Set,
    /// A change that takes away what was there; that is known until its end.
    Lift,
}

impl ChangeEntryKind {
    const ALL: [(ChangeEntryKind, u8); 3] =
        [(ChangeEntryKind::Put, b'p'), (ChangeEntryKind::Set, b's'), (ChangeEntryKind::Lift, b'l')];

    fn letter(self) -> &'static str {
        match self {
            ChangeEntryKind::Put => "p",
            ChangeEntryKind::Set => "s",
            ChangeEntryKind::Lift => "l",
        }
    }
}

/// A change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeEntry {
    /// The thing that it changes.
    pub subject: [u8; SUBJECT_BYTES],
    /// Its sort.
    pub kind: ChangeEntryKind,
    /// Its end, in microseconds since the epoch; none has one later than 2^53.
    pub until: u64,
    /// Its text.
    pub text: Vec<u8>,
}

/// A place in the list: what a node has read, and what it has heard of last. The default is its beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChangeListPosition {
    /// The number of the last change that was read.
    pub number: u64,
    /// The last call.
    pub call: u64,
    /// Its tag.
    pub tag: u64,
}

/// Some changes behind a place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangeEntryPage {
    /// The changes, in their order.
    pub entries: Vec<ChangeEntry>,
    /// The place behind them.
    pub position: ChangeListPosition,
    /// True if there are more.
    pub has_more: bool,
}

impl WireClient {
    /// The changes behind a place; `None` if some of those before it are forgotten.
    ///
    /// # Errors
    /// [`RemoteError`] if the cluster cannot be asked.
    pub async fn changes_since(
        &self,
        position: ChangeListPosition,
    ) -> Result<Option<ChangeEntryPage>, RemoteError> {
        let inner = self.inner.clone();
        only(self.on_runtime(1, async move { vec![inner.changes_since(position).await] }).await)
    }

    /// Puts changes behind those that are there, of which those go that ended before a time, some with each call. Returns for how
    /// many there was no room. What was not confirmed can be said again.
    ///
    /// # Errors
    /// [`RemoteError`] if the cluster cannot be asked, and if there are too many changes, or too long ones.
    pub async fn append_changes(
        &self,
        entries: Vec<ChangeEntry>,
        horizon: u64,
    ) -> Result<usize, RemoteError> {
        let inner = self.inner.clone();
        only(self.on_runtime(1, async move { vec![inner.append_changes(&entries, horizon).await] }).await)
    }
}

impl WireClient {
    /// Removes all changes whose subjects begin with one of these shingles; returns how many.
    ///
    /// # Errors
    /// [`RemoteError`] if the cluster cannot be asked. Some may be gone; it can be repeated.
    pub async fn erase_changes(&self, shingles: &HashSet<Shingle>) -> Result<usize, RemoteError> {
        let (inner, shingles) = (self.inner.clone(), shingles.clone());
        only(self.on_runtime(1, async move { vec![inner.erase_changes(&shingles).await] }).await)
    }
}

impl WireCore {
    async fn erase_changes(&self, shingles: &HashSet<Shingle>) -> Result<usize, RemoteError> {
        let names = self.names.changes();
        let [numbers, changes, ends, _] = names.as_slice() else { return Ok(0) };
        let mut all = cmd("HKEYS");
        all.arg(changes);
        let Value::Array(there) = self.one(ConnectionClass::Reads, all, self.change_deadline()).await? else {
            return Err(unexpected(AT, "no answer to HKEYS"));
        };
        let is_meant = |value: &Value| match value {
            Value::BulkString(subject) => subject
                .first_chunk::<8>()
                .is_some_and(|shingle| shingles.contains(&Shingle(u64::from_be_bytes(*shingle)))),
            _ => false,
        };
        let meant: Vec<Vec<u8>> = there
            .into_iter()
            .filter(is_meant)
            .filter_map(|value| match value {
                Value::BulkString(subject) => Some(subject),
                _ => None,
            })
            .collect();
        for subjects in meant.chunks(PAGE) {
            for (command, name) in [("ZREM", numbers), ("ZREM", ends), ("HDEL", changes)] {
                let mut remove = cmd(command);
                remove.arg(name).arg(subjects);
                match self.one(ConnectionClass::Writes, remove, self.change_deadline()).await? {
                    Value::Int(_) => {}
                    Value::Nil => return Err(self.unconfirmed()),
                    _ => return Err(unexpected(AT, "no answer of what removes changes")),
                }
            }
        }
        Ok(meant.len())
    }

    async fn changes_since(
        &self,
        position: ChangeListPosition,
    ) -> Result<Option<ChangeEntryPage>, RemoteError> {
        let ChangeListPosition { number: from, call, tag } = position;
        let mut command = script(&self.scripts.since, self.names.changes(), None);
        command.arg(from).arg(call).arg(format!("{tag:016x}")).arg(PAGE).arg(CALLS);
        let answer = self.one(ConnectionClass::Reads, command, self.change_deadline()).await?;
        let Value::Array(answer) = answer else {
            return Err(unexpected(AT, "no answer of which changes there are"));
        };
        page(&answer).map_err(|why| unexpected(AT, why))
    }

    async fn append_changes(&self, entries: &[ChangeEntry], horizon: u64) -> Result<usize, RemoteError> {
        if entries.len() > PAGE || entries.iter().any(|entry| entry.text.len() > TEXT_BYTES_MAX) {
            return Err(unexpected(AT, "changes are too many or too long"));
        }
        let tag = getrandom::u64().map_err(|error| unexpected(AT, &format!("no random number: {error}")))?;
        let mut command = script(&self.scripts.append, self.names.changes(), None);
        command.arg(format!("{tag:016x}")).arg(horizon).arg(SUBJECTS_MAX).arg(CALLS);
        for ChangeEntry { subject, kind, until, text } in entries {
            let until = (*until).min(EXACT_MAX);
            command.arg(subject.as_slice()).arg(kind.letter()).arg(until).arg(text.as_slice());
        }
        match self.one(ConnectionClass::Writes, command, self.change_deadline()).await? {
            Value::Array(counts) => match counts.as_slice() {
                [Value::Int(_), Value::Int(full)] => Ok(usize::try_from(*full).unwrap_or_default()),
                _ => Err(unexpected(AT, "no answer of how many changes were put there")),
            },
            Value::Nil => Err(self.unconfirmed()),
            _ => Err(unexpected(AT, "no answer of the script that puts changes there")),
        }
    }

    fn change_deadline(&self) -> Instant {
        Instant::now() + self.settings.connect_within.max(super::REFRESH_WITHIN)
    }
}

/// Reads an answer of `since.lua`. A change that is none is left out.
fn page(answer: &[Value]) -> Result<Option<ChangeEntryPage>, &'static str> {
    let unread = "no page of changes";
    let [Value::Int(is_known), answer @ ..] = answer else { return Err(unread) };
    if *is_known == 0 {
        return Ok(None);
    }
    let [Value::Int(more), last, call, Value::BulkString(tag), changes @ ..] = answer else {
        return Err(unread);
    };
    let hex = |text: &[u8]| u64::from_str_radix(std::str::from_utf8(text).ok()?, 16).ok();
    let position = ChangeListPosition {
        number: number(last).ok_or(unread)?,
        call: number(call).ok_or(unread)?,
        tag: if tag.is_empty() { 0 } else { hex(tag).ok_or(unread)? },
    };
    let entry = |pair: &[Value]| match pair {
        [Value::BulkString(subject), Value::BulkString(change)] => entry(subject, change),
        _ => None,
    };
    let entries = changes.chunks(2).take(PAGE).filter_map(entry).collect();
    Ok(Some(ChangeEntryPage { entries, position, has_more: *more == 1 }))
}

/// Reads a change of a subject: `p1779012000000000 text`.
fn entry(subject: &[u8], change: &[u8]) -> Option<ChangeEntry> {
    let (letter, rest) = change.split_first()?;
    let (kind, _) = ChangeEntryKind::ALL.into_iter().find(|(_, own)| own == letter)?;
    let space = rest.iter().take(17).position(|byte| *byte == b' ')?;
    let (until, text) = rest.split_at(space);
    let until = std::str::from_utf8(until).ok()?.parse().ok()?;
    let text = text.get(1..).filter(|text| text.len() <= TEXT_BYTES_MAX)?;
    Some(ChangeEntry { subject: subject.try_into().ok()?, kind, until, text: text.to_vec() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_read_or_left_out() {
        let subject = [7; SUBJECT_BYTES];
        let check = |change: &[u8], expected: Option<(ChangeEntryKind, u64, &[u8])>| {
            let read = entry(&subject, change);
            assert_eq!(
                read.as_ref().map(|read| (read.kind, read.until, &*read.text)),
                expected,
                "{change:?}"
            );
        };
        check(b"p17 a b", Some((ChangeEntryKind::Put, 17, b"a b")));
        check(b"l9007199254740991 ", Some((ChangeEntryKind::Lift, EXACT_MAX, b"")));
        check(b"s0  ", Some((ChangeEntryKind::Set, 0, b" ")));
        for bad in [&b""[..], b"p", b"p17", b"x17 a", b"p a", b"p-1 a", b"p1x a", b"p99999999999999999 a"] {
            check(bad, None);
        }
        check(&[b"p1 ".as_slice(), &vec![0; TEXT_BYTES_MAX + 1]].concat(), None);
        assert_eq!(entry(b"short", b"p17 a"), None);
    }

    #[test]
    fn what_is_no_page_is_refused() {
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        assert_eq!(page(&[Value::Int(0)]), Ok(None));
        let position = ChangeListPosition { number: 3, call: 2, tag: 0xab };
        let head = [Value::Int(1), Value::Int(1), text("3"), text("2"), text("00000000000000ab")];
        let read = page(&head).unwrap().unwrap();
        assert_eq!(read, ChangeEntryPage { entries: Vec::new(), position, has_more: true });
        for bad in
            [&head[..4], &[Value::Nil], &[], &[Value::Int(1), Value::Int(0), text("x"), text("2"), text("")]]
        {
            assert!(page(bad).is_err(), "{bad:?}");
        }
    }
}
