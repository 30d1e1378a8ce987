//! Changes that hold on all nodes: bans and their lifting, and what was posted: exceptions of limits, entries of the allow list, notes.
//!
//! ```text
//! ban, lift ─► here at once ─► not shared yet ─► the cluster's list, at the next beat ─┐
//! what is posted ─► the cluster's list, or refused ────────────────────────────────────┤
//!                here, and on all nodes, in the list's order  ◄──────── changes since ◄┘
//! ```
//!
//! The list is ordered by the cluster, and of two changes of a subject the later stands. While the cluster is away, bans hold where they
//! were made; they come into the list, and so behind what others did meanwhile, once it is back. A node that starts reads the whole list
//! before it serves, and so does one that finds that a failover has forgotten what it had read: then it says again what is gone.
//!
//! In the cluster stands what a firewall must be told, such as addresses; so texts are encrypted, and subjects hashed, by keys that follow
//! from the secret: 8 bytes of the shingle of the value, by which it can be erased, and 16 bytes of the tag of all that names it.

use std::collections::HashSet;

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use event::{Shingle, Span, Time};
use gate::keyring::{Keyring, SigningPurpose};
use plan::limit::LimitException;
use serde::{Deserialize, Serialize};

use crate::Engine;
use crate::ban_list::{Ban, BanCause, LabelSource, NewBan, SharedBan, UnsharedBan};
use crate::fleet::{
    CHANGE_SUBJECT_BYTES, ChangePage, ChangePosition, ChangeRegistry, SharedChange, SharedChangeKind,
};
use crate::posted_values::{AllowEntry, PostedValueChange, ValueNote};

/// Most changes that are put into the list with one call.
const PAGE: usize = 500;
/// Calls that put changes into the list before the list is read again.
const CALLS_MAX: usize = 20;
/// Longest text of a change, in bytes.
const TEXT_BYTES_MAX: usize = 8 << 10;
/// The time for which what has ended stays in the list, so that clocks may differ.
const GRACE: Span = Span::hours(1);
/// The time between two looks for what has ended.
const TRIM_EVERY: Span = Span::minutes(1);
/// The time for which it is known that a lasting exception, an entry or a note was taken away.
const LIFT_KEPT: Span = Span::days(366);
const NONCE_BYTES: usize = 24;
/// The keys are the same on all days: what was shared long ago is read by who starts today.
const KEY_DAY: Time = Time(0);

type Subject = [u8; CHANGE_SUBJECT_BYTES];

/// A node's place in the list.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SharingState {
    /// `None` until all of the list was read.
    position: Option<ChangePosition>,
    trimmed: Option<Time>,
    /// Changes for which the list had no room.
    refused: usize,
}

/// The content of a change.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum SharedRecord {
    Ban {
        pipeline: String,
        kind: String,
        label: String,
        decision: String,
        value: String,
        by: String,
        since: Time,
        until: Time,
        cause: BanCause,
    },
    /// One that says nothing takes the other away.
    Exception(LimitException),
    Allow(AllowEntry),
    Note(ValueNote),
}

/// Encrypts and reads texts of changes.
struct ChangeSealer<'k>(&'k Keyring);

impl ChangeSealer<'_> {
    fn cipher(&self) -> XChaCha20Poly1305 {
        XChaCha20Poly1305::new(&self.0.key(SigningPurpose::SharedText, KEY_DAY).into())
    }

    fn bound(subject: &Subject, kind: SharedChangeKind) -> Vec<u8> {
        let kind = match kind {
            SharedChangeKind::Put => b'p',
            SharedChangeKind::Set => b's',
            SharedChangeKind::Lift => b'l',
        };
        [subject.as_slice(), &[kind]].concat()
    }

    /// Returns nothing where the text would be too long, or the system has no random numbers.
    fn seal(
        &self,
        subject: Subject,
        kind: SharedChangeKind,
        until: Time,
        record: &SharedRecord,
    ) -> Option<SharedChange> {
        let mut nonce = [0; NONCE_BYTES];
        getrandom::fill(&mut nonce).ok()?;
        let msg = serde_json::to_vec(record).ok()?;
        let payload = Payload { msg: &msg, aad: &ChangeSealer::bound(&subject, kind) };
        let sealed = self.cipher().encrypt(&XNonce::from(nonce), payload).ok()?;
        let text = [nonce.as_slice(), &sealed].concat();
        (text.len() <= TEXT_BYTES_MAX).then_some(SharedChange { subject, kind, until, text })
    }

    /// Returns nothing for what no node of this secret has written.
    fn open(&self, change: &SharedChange) -> Option<SharedRecord> {
        let (nonce, sealed) = change.text.split_first_chunk::<NONCE_BYTES>()?;
        let payload = Payload { msg: sealed, aad: &ChangeSealer::bound(&change.subject, change.kind) };
        let text = self.cipher().decrypt(&XNonce::from(*nonce), payload).ok()?;
        serde_json::from_slice(&text).ok()
    }

    fn subject(&self, shingle: Shingle, names: &[&str]) -> Subject {
        let mut message = Vec::new();
        for name in names {
            message.extend_from_slice(&(name.len() as u64).to_le_bytes());
            message.extend_from_slice(name.as_bytes());
        }
        let tag = self.0.tag(SigningPurpose::SharedSubject, KEY_DAY, &message);
        let mut subject = [0; CHANGE_SUBJECT_BYTES];
        subject[..8].copy_from_slice(&shingle.0.to_be_bytes());
        subject[8..].copy_from_slice(&tag);
        subject
    }
}

impl Engine {
    fn sealer(&self) -> ChangeSealer<'_> {
        ChangeSealer(&self.keyring)
    }

    fn ban_subject(&self, ban: &Ban) -> Subject {
        let LabelSource { pipeline, kind, label, .. } = &*ban.source;
        let shingle = self.secret.shingle(ban.value.as_bytes());
        self.sealer().subject(shingle, &["ban", pipeline, kind, label, &ban.value])
    }

    /// Tells the other nodes of this one's bans, and takes over theirs, and posted exceptions. Returns false if that is being done
    /// already. Does nothing for a node of its own. Blocks.
    ///
    /// # Errors
    /// Says why the registry cannot be asked: what was changed here holds here, and is told later.
    pub fn share(&self, now: Time) -> Result<bool, String> {
        let Some(registries) = &self.shared else { return Ok(true) };
        let Some(mut state) = self.sharing.lock().take() else { return Ok(false) };
        let shared = self.share_from(&*registries.changes, &mut state, now);
        *self.sharing.lock() = Some(state);
        shared.map(|()| true)
    }

    fn share_from(
        &self,
        registry: &dyn ChangeRegistry,
        state: &mut SharingState,
        now: Time,
    ) -> Result<(), String> {
        let position = match state.position {
            Some(position) => position,
            None => self.read_whole_list(registry, now)?,
        };
        state.position = Some(position);
        // What others have changed is taken over also where they cannot be told, as while a replica is missing.
        let told = self.tell_others(registry, state, now);
        let read = self.read_changes(registry, state, position, now);
        told.and(read)
    }

    fn tell_others(
        &self,
        registry: &dyn ChangeRegistry,
        state: &mut SharingState,
        now: Time,
    ) -> Result<(), String> {
        for _ in 0..CALLS_MAX {
            let unshared = self.ban_list.unshared(PAGE, now);
            if unshared.is_empty() {
                break;
            }
            let changes: Vec<SharedChange> =
                unshared.iter().filter_map(|unshared| self.change_of(unshared)).collect();
            let untold = unshared.len() - changes.len();
            if untold > 0 {
                tracing::error!(untold, "bans whose names are too long hold on this node alone");
            }
            state.refused += registry.append(changes, now - GRACE)?;
            self.ban_list.acknowledge(&unshared);
        }
        if state.trimmed.is_none_or(|trimmed| now - trimmed >= TRIM_EVERY) {
            registry.append(Vec::new(), now - GRACE)?;
            state.trimmed = Some(now);
        }
        Ok(())
    }

    fn read_changes(
        &self,
        registry: &dyn ChangeRegistry,
        state: &mut SharingState,
        mut position: ChangePosition,
        now: Time,
    ) -> Result<(), String> {
        loop {
            let Some(page) = registry.since(position)? else {
                // What was read is forgotten: all is read again, and what is gone told again, at the next beat.
                state.position = None;
                return Ok(());
            };
            self.take_over(&page, now);
            position = page.position;
            state.position = Some(position);
            if !page.has_more {
                return Ok(());
            }
        }
    }

    /// Takes over all that is in the list, and has told again what is not there any more.
    fn read_whole_list(&self, registry: &dyn ChangeRegistry, now: Time) -> Result<ChangePosition, String> {
        let (mut position, mut seen) = (ChangePosition::default(), HashSet::<Subject>::new());
        loop {
            let page = registry.since(position)?;
            let page = page.ok_or("the list of changes was lost while it was read")?;
            // One that has ended says nothing of what holds longer.
            let holding = page.changes.iter().filter(|change| change.until > now);
            seen.extend(holding.map(|change| change.subject));
            self.take_over(&page, now);
            position = page.position;
            if !page.has_more {
                break;
            }
        }
        self.ban_list.share_again(|ban| seen.contains(&self.ban_subject(ban)));
        let plan = self.plan();
        let posted = self.posted_values.lock().clone();
        let entries = posted.allowed.into_iter().map(PostedValueChange::Allow);
        let values = entries.chain(posted.notes.into_iter().map(PostedValueChange::Note));
        let values = values.filter_map(|change| self.posted_value_change(&change, now));
        let exceptions = self.exceptions();
        let exceptions = exceptions.posted().iter();
        let missing: Vec<SharedChange> = exceptions
            .filter_map(|exception| self.exception_change(&plan, exception, now))
            .chain(values)
            .filter(|change| !seen.contains(&change.subject))
            .collect();
        for page in missing.chunks(PAGE) {
            registry.append(page.to_vec(), now - GRACE)?;
        }
        Ok(position)
    }

    fn take_over(&self, page: &ChangePage, now: Time) {
        let (sealer, mut bans, mut exceptions) = (self.sealer(), Vec::new(), Vec::new());
        let mut values = Vec::new();
        for change in &page.changes {
            match sealer.open(change) {
                Some(SharedRecord::Ban {
                    pipeline,
                    kind,
                    label,
                    decision,
                    value,
                    by,
                    since,
                    until,
                    cause,
                }) => {
                    let is_lift = change.kind == SharedChangeKind::Lift;
                    if until > now {
                        let ban = NewBan { pipeline, kind, label, decision, value, by, since, until, cause };
                        bans.push(SharedBan { ban, is_lift });
                    }
                }
                Some(SharedRecord::Exception(exception)) => exceptions.push(exception),
                Some(SharedRecord::Allow(entry)) => values.push(match change.kind {
                    SharedChangeKind::Lift => PostedValueChange::Disallow(entry.value),
                    _ => PostedValueChange::Allow(entry),
                }),
                Some(SharedRecord::Note(note)) => values.push(PostedValueChange::Note(note)),
                None => tracing::warn!("a change that nodes share cannot be read, and is passed over"),
            }
        }
        if !bans.is_empty() {
            self.ban_list.apply(bans, now);
        }
        if !exceptions.is_empty()
            && let Err(error) = self.take_over_posted_exceptions(exceptions, now)
        {
            tracing::error!(%error, "exceptions that other nodes have posted are not kept");
        }
        if !values.is_empty()
            && let Err(error) = self.take_over_posted_values(values, now)
        {
            tracing::error!(%error, "entries of the allow list and notes that other nodes have posted are not kept");
        }
    }

    fn change_of(&self, unshared: &UnsharedBan) -> Option<SharedChange> {
        let ban = &unshared.ban;
        let LabelSource { pipeline, kind, label, decision, by } = (*ban.source).clone();
        let (value, since, until) = (ban.value.to_string(), ban.since, ban.until);
        let cause = ban.cause.as_deref().cloned().unwrap_or_default();
        let record = SharedRecord::Ban { pipeline, kind, label, decision, value, by, since, until, cause };
        let kind = if unshared.is_lift() { SharedChangeKind::Lift } else { SharedChangeKind::Put };
        self.sealer().seal(self.ban_subject(ban), kind, until, &record)
    }

    fn exception_change(
        &self,
        plan: &plan::Plan,
        exception: &LimitException,
        now: Time,
    ) -> Option<SharedChange> {
        let key = self.exception_key(plan, exception).ok()?;
        let subject = self.sealer().subject(key, &["exception", &exception.limit]);
        let stands = exception.exempt || exception.count.is_some();
        let (kind, until) = match exception.until {
            until if stands => (SharedChangeKind::Set, until.unwrap_or(Time(i64::MAX))),
            until => (SharedChangeKind::Lift, until.unwrap_or(now + LIFT_KEPT).max(now + LIFT_KEPT)),
        };
        self.sealer().seal(subject, kind, until, &SharedRecord::Exception(exception.clone()))
    }

    /// Puts a posted exception into the list that nodes share. Does nothing for a node of its own. Blocks.
    ///
    /// # Errors
    /// Says why it is not there.
    pub(crate) fn share_exception(
        &self,
        plan: &plan::Plan,
        exception: &LimitException,
        now: Time,
    ) -> Result<(), String> {
        self.share_posted(|| self.exception_change(plan, exception, now), now)
    }

    /// Puts a change of what is posted about a value into the list that nodes share. Does nothing for a node of its own. Blocks.
    ///
    /// # Errors
    /// Says why it is not there.
    pub(crate) fn share_posted_value(&self, change: &PostedValueChange, now: Time) -> Result<(), String> {
        self.share_posted(|| self.posted_value_change(change, now), now)
    }

    fn share_posted(&self, change: impl FnOnce() -> Option<SharedChange>, now: Time) -> Result<(), String> {
        let Some(registries) = &self.shared else { return Ok(()) };
        let change = change().ok_or("its key is too long to be shared by nodes")?;
        match registries.changes.append(vec![change], now - GRACE)? {
            0 => Ok(()),
            _ => Err("the list that nodes share is full".to_owned()),
        }
    }

    fn posted_value_change(&self, change: &PostedValueChange, now: Time) -> Option<SharedChange> {
        let (forever, gone) = (Time(i64::MAX), now + LIFT_KEPT);
        let (value, kind, until, record) = match change.clone() {
            PostedValueChange::Allow(entry) => {
                let until = entry.until.unwrap_or(forever);
                (entry.value.clone(), SharedChangeKind::Set, until, SharedRecord::Allow(entry))
            }
            PostedValueChange::Disallow(value) => {
                let (why, by) = (String::new(), String::new());
                let entry = AllowEntry { value: value.clone(), why, by, since: now, until: None };
                (value, SharedChangeKind::Lift, gone, SharedRecord::Allow(entry))
            }
            PostedValueChange::Note(note) => {
                let (kind, until) = match note.text.is_empty() {
                    true => (SharedChangeKind::Lift, gone),
                    false => (SharedChangeKind::Set, forever),
                };
                (note.value.clone(), kind, until, SharedRecord::Note(note))
            }
        };
        let shingle = self.secret.shingle(value.as_bytes());
        let sealer = self.sealer();
        let subject = match &record {
            SharedRecord::Note(note) => sealer.subject(shingle, &["note", &value, &note.time.0.to_string()]),
            _ => sealer.subject(shingle, &["allow", &value]),
        };
        sealer.seal(subject, kind, until, &record)
    }

    /// Returns the number of bans and lifts that other nodes have not been told of, and of those for which there was no room where
    /// nodes share them.
    pub fn unshared_changes(&self) -> (usize, usize) {
        let refused = self.sharing.lock().map_or(0, |state| state.refused);
        (self.ban_list.unshared_count(), refused)
    }
}

#[cfg(test)]
mod tests {
    use event::Secret;

    use super::*;

    #[test]
    fn a_change_is_read_by_who_has_the_secret_as_it_was_written() {
        let [own, other] = [7, 8].map(|byte| Keyring::new(Secret::new([byte; Secret::BYTES])));
        let exception = LimitException {
            limit: "invites".to_owned(),
            key: vec!["ann".to_owned()],
            count: Some(3),
            exempt: false,
            until: None,
        };
        let (sealer, subject) = (ChangeSealer(&own), [1; CHANGE_SUBJECT_BYTES]);
        let record = SharedRecord::Exception(exception);
        let change = sealer.seal(subject, SharedChangeKind::Set, Time(5), &record).unwrap();
        let reads = |change: &SharedChange| sealer.open(change).is_some();
        assert!(reads(&change) && ChangeSealer(&other).open(&change).is_none());
        assert!(!change.text.windows(3).any(|part| part == b"ann"), "it is not in the clear");
        assert!(!reads(&SharedChange { kind: SharedChangeKind::Lift, ..change.clone() }));
        assert!(!reads(&SharedChange { subject: [2; CHANGE_SUBJECT_BYTES], ..change.clone() }));
        for at in 0..change.text.len() {
            let mut text = change.text.clone();
            text[at] ^= 1;
            assert!(!reads(&SharedChange { text, ..change.clone() }), "byte {at}");
            assert!(
                !reads(&SharedChange { text: change.text[..at].to_vec(), ..change.clone() }),
                "cut at {at}"
            );
        }
        // What names it is told with its length.
        let [one, another] = [["a", "bc"], ["ab", "c"]].map(|names| sealer.subject(Shingle(9), &names));
        assert_ne!(one, another);
        assert_eq!(one[..8], 9u64.to_be_bytes());
    }
}
