//! The queue's state machine: items, and what reviewers do with them. Pure: no clock, no file, no lock.
//!
//! ```text
//!          ┌── time-out, release ──┐
//!          ▼                       │        agreement
//! push ─► open ─────── claim ─► claimed ──── decide ───► decided
//!          │                       │                       ▲
//!          └─ escalate, or two votes that differ ─► escalated ── a lead decides
//! ```
//!
//! Whoever decides need not have claimed, but nobody decides what another has claimed.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use event::{Key, Time};
use journal::RecordId;
use judge::Action;
use plan::ReviewPlan;

use super::item::{
    REVIEW_COMMENTS_MAX, ReviewClaim, ReviewComment, ReviewEscalation, ReviewItem, ReviewOutcome,
    ReviewState, ReviewVerdict, ReviewVote, VOTES_MAX,
};

/// Items that one page looks at. A page of a rare filter may have fewer items than were asked for, and a next one.
const SCANNED_MAX: usize = 10_000;

/// Reasons to refuse what a reviewer wants to do.
#[derive(Debug, thiserror::Error)]
pub enum ReviewError {
    /// No item has this id.
    #[error("there is no review of {0}: it never was one, or is no longer kept")]
    Unknown(RecordId),
    /// The item is decided.
    #[error("it is decided already: {0}")]
    Decided(ReviewVerdict),
    /// Another reviewer works on it.
    #[error("{by} works on it until {until}")]
    Claimed {
        /// The other.
        by: String,
        /// The end of the claim.
        until: Time,
    },
    /// The item is not claimed by who releases it.
    #[error("it is not claimed by {0}")]
    NotClaimed(String),
    /// A reviewer has voted on it already, and another is to vote.
    #[error("{0} has voted on it already: another reviewer is asked")]
    Spoken(String),
    /// The item is escalated, and only leads decide it.
    #[error("it is escalated: only those whom `leads` of [review] names decide it")]
    Escalated,
    /// The item has as many comments or votes as one may have.
    #[error("it has as many {0} as it may have")]
    Full(&'static str),
    /// The class of feedback is none of the pipeline's, or says something else than the verdict.
    #[error("`{class}` is no feedback class of `{pipeline}` that says `{verdict}`")]
    Class {
        /// The class.
        class: String,
        /// The pipeline.
        pipeline: String,
        /// The verdict.
        verdict: ReviewVerdict,
    },
    /// The queue could not be written: a restart may lose it.
    #[error("the queue of reviews could not be written: {0}")]
    Unwritten(#[from] std::io::Error),
}

/// The order of a list of reviews.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReviewOrder {
    /// The oldest first.
    #[default]
    Oldest,
    /// The most exposed first, of equals the oldest.
    Exposed,
}

/// A choice among reviews.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReviewFilter {
    /// Only of this pipeline.
    pub pipeline: Option<String>,
    /// Only in this state; `None` for all that are not decided.
    pub state: Option<ReviewState>,
    /// Only those for which this rule fired.
    pub rule: Option<String>,
    /// Only with this action.
    pub action: Option<Action>,
    /// Only those that share this key.
    pub key: Option<Key>,
    /// Only of the event that the caller calls so.
    pub event_id: Option<String>,
}

impl ReviewFilter {
    fn takes(&self, item: &ReviewItem, now: Time) -> bool {
        self.pipeline.as_ref().is_none_or(|pipeline| *pipeline == item.pipeline)
            && self.state.is_none_or(|state| item.state(now) == state)
            && self.rule.as_ref().is_none_or(|rule| item.rules.contains(rule))
            && self.action.is_none_or(|action| item.action == action)
            && self.key.is_none_or(|key| item.whole_keys().any(|own| own == key))
            && self.event_id.as_ref().is_none_or(|id| item.event_id.as_ref() == Some(id))
    }
}

/// The place in a list behind which the next page begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReviewCursor {
    /// The rank in the order of exposure; 0 where the oldest come first.
    pub rank: u64,
    /// The item.
    pub id: RecordId,
}

/// A page of reviews.
#[derive(Clone, Debug, Default)]
pub struct ReviewPage {
    /// The items, in order.
    pub items: Vec<Arc<ReviewItem>>,
    /// The place behind which the next page begins; `None` if there is none.
    pub next: Option<ReviewCursor>,
}

/// The number of items by state, and the service level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReviewCensus {
    /// The number of items by state, in the order of [`ReviewState::ALL`].
    pub states: [u64; ReviewState::ALL.len()],
    /// The arrival of the oldest that is not decided.
    pub oldest: Option<Time>,
    /// The number of those that are not decided and should be by now.
    pub overdue: u64,
}

/// Items that share a key.
#[derive(Debug, Default)]
pub struct AlikeReviews {
    /// Items that wait for a reviewer's vote.
    pub waiting: Vec<Arc<ReviewItem>>,
    /// Items that he cannot decide now, and why.
    pub passed_over: Vec<(RecordId, ReviewError)>,
    /// True if more wait for his vote.
    pub has_more: bool,
}

/// The fate of an item that was to be queued.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum QueueOutcome {
    /// The item is in the queue.
    Taken,
    /// The item is in the queue, and another had to make room.
    InPlaceOf(RecordId),
    /// The queue is full of what matters more.
    Refused,
}

/// All items.
#[derive(Debug, Default)]
pub(crate) struct ReviewTable {
    items: BTreeMap<RecordId, Arc<ReviewItem>>,
    /// Items by whether they are decided, and age.
    by_age: BTreeSet<(bool, RecordId)>,
    /// Items by whether they are decided, and exposure.
    by_exposure: BTreeSet<(bool, u64, RecordId)>,
    /// Items that are published and not decided: those that make room, the least exposed first.
    spare: BTreeSet<(u64, RecordId)>,
    by_key: BTreeSet<(Key, RecordId)>,
}

/// Returns a number that falls as an exposure rises.
fn rank(exposure: f64) -> u64 {
    let bits = exposure.to_bits();
    // The order of the bits of floats, from the greatest down.
    let rising = if bits >> 63 == 0 { bits | 1 << 63 } else { !bits };
    !rising
}

impl ReviewCursor {
    /// Returns the place of an item in an order.
    pub fn of(item: &ReviewItem, order: ReviewOrder) -> ReviewCursor {
        let rank = if order == ReviewOrder::Exposed { rank(item.exposure) } else { 0 };
        ReviewCursor { rank, id: item.id }
    }
}

impl ReviewTable {
    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    pub(crate) fn get(&self, id: RecordId) -> Option<&Arc<ReviewItem>> {
        self.items.get(&id)
    }

    /// All items, the oldest first.
    pub(crate) fn all(&self) -> Vec<Arc<ReviewItem>> {
        self.items.values().map(Arc::clone).collect()
    }

    /// Puts an item in, in the place of one that has its id.
    pub(crate) fn put(&mut self, item: Arc<ReviewItem>) {
        self.remove(item.id);
        let (decided, rank, id) = (item.outcome.is_some(), rank(item.exposure), item.id);
        self.by_age.insert((decided, id));
        self.by_exposure.insert((decided, rank, id));
        if !decided && item.action == Action::ReviewAfter {
            self.spare.insert((rank, id));
        }
        self.by_key.extend(item.whole_keys().map(|key| (key, id)));
        self.items.insert(id, item);
    }

    /// Takes an item out.
    pub(crate) fn remove(&mut self, id: RecordId) -> Option<Arc<ReviewItem>> {
        let item = self.items.remove(&id)?;
        let (decided, rank) = (item.outcome.is_some(), rank(item.exposure));
        self.by_age.remove(&(decided, id));
        self.by_exposure.remove(&(decided, rank, id));
        self.spare.remove(&(rank, id));
        item.whole_keys().for_each(|key| _ = self.by_key.remove(&(key, id)));
        Some(item)
    }

    /// Queues an item. Where there is no room the oldest that is decided goes, or else the least exposed of those that are
    /// published; what is held stays.
    pub(crate) fn push(&mut self, item: ReviewItem, plan: &ReviewPlan) -> QueueOutcome {
        if self.len() < plan.items || self.items.contains_key(&item.id) {
            self.put(Arc::new(item));
            return QueueOutcome::Taken;
        }
        let decided = self.by_age.range((true, RecordId(0))..).next().map(|(_, id)| *id);
        let spare = || self.spare.last().copied();
        let own = (rank(item.exposure), item.id);
        let victim = decided.or_else(|| {
            let spare = spare()?;
            (item.action != Action::ReviewAfter || own < spare).then_some(spare.1)
        });
        let Some(victim) = victim.filter(|_| plan.items > 0) else { return QueueOutcome::Refused };
        self.remove(victim);
        self.put(Arc::new(item));
        QueueOutcome::InPlaceOf(victim)
    }

    /// Takes out what was decided before a time, and what was published before it and nobody looked at.
    pub(crate) fn expire(&mut self, before: Time) -> Vec<RecordId> {
        let is_old = |item: &ReviewItem| match item.outcome {
            Some(outcome) => outcome.time < before,
            None => item.action == Action::ReviewAfter && item.time < before,
        };
        let old: Vec<RecordId> =
            self.items.values().filter(|item| is_old(item)).map(|item| item.id).collect();
        old.iter().for_each(|id| _ = self.remove(*id));
        old
    }

    /// Returns the number of items by state.
    pub(crate) fn census(&self, plan: &ReviewPlan, now: Time) -> ReviewCensus {
        let mut census = ReviewCensus::default();
        for item in self.items.values() {
            let state = item.state(now);
            if let Some(count) = census.states.get_mut(state as usize) {
                *count += 1;
            }
            if state != ReviewState::Decided {
                census.oldest = Some(census.oldest.map_or(item.time, |oldest| oldest.min(item.time)));
                census.overdue += u64::from(item.due(plan.within) < now);
            }
        }
        census
    }

    /// Returns the number of items that are not decided and share a key, counted up to `most`.
    pub(crate) fn waiting_with(&self, key: Key, most: usize) -> usize {
        self.with_key(key).filter(|item| item.outcome.is_none()).take(most).count()
    }

    fn with_key(&self, key: Key) -> impl Iterator<Item = &Arc<ReviewItem>> {
        let ids = self.by_key.range((key, RecordId(0))..=(key, RecordId(u64::MAX)));
        ids.filter_map(|(_, id)| self.items.get(id))
    }

    /// Returns decided items before one, or the latest, the newest first.
    pub(crate) fn decided_before(&self, before: Option<RecordId>, most: usize) -> Vec<Arc<ReviewItem>> {
        let end =
            before.map_or(Bound::Included((true, RecordId(u64::MAX))), |id| Bound::Excluded((true, id)));
        let ids = self.by_age.range((Bound::Included((true, RecordId(0))), end)).rev().take(most);
        ids.filter_map(|(_, id)| self.items.get(id).map(Arc::clone)).collect()
    }

    /// Returns keys of items with these, the ones after a place, in the order of the keys and then of age. The verdict is that of
    /// an item that is decided, of this pipeline if one is named.
    pub(crate) fn keys_after(
        &self,
        after: Option<(Key, RecordId)>,
        pipeline: Option<&str>,
        most: usize,
    ) -> Vec<(Key, RecordId, Option<ReviewVerdict>)> {
        let begin = after.map_or(Bound::Unbounded, Bound::Excluded);
        let verdict = |id: &RecordId| {
            let item = self.items.get(id).filter(|item| pipeline.is_none_or(|name| name == item.pipeline))?;
            item.outcome.map(|outcome| outcome.verdict)
        };
        let entries = self.by_key.range((begin, Bound::Unbounded)).take(most);
        entries.map(|(key, id)| (*key, *id, verdict(id))).collect()
    }

    /// Returns the items that share a key and wait for a reviewer's vote, the oldest first, at most so many; and as many others
    /// at most, which he cannot decide now. Those on which he has said the same are neither.
    pub(crate) fn alike(
        &self,
        key: Key,
        (by, verdict): (&str, ReviewVerdict),
        most: usize,
        plan: &ReviewPlan,
        now: Time,
    ) -> AlikeReviews {
        let mut alike = AlikeReviews::default();
        let waiting = self.with_key(key).filter(|item| item.outcome.is_none());
        for item in waiting.take(SCANNED_MAX) {
            if item.escalation.is_none() && item.vote_of(by).is_some_and(|vote| vote.verdict == verdict) {
                continue;
            }
            match self.may_decide(item.id, by, verdict, plan, now) {
                Ok(()) if alike.waiting.len() < most => alike.waiting.push(Arc::clone(item)),
                Ok(()) => {
                    alike.has_more = true;
                    break;
                }
                Err(error) if alike.passed_over.len() < most => alike.passed_over.push((item.id, error)),
                Err(_) => {}
            }
        }
        alike
    }

    /// Returns a page of those that are wanted, behind a place.
    pub(crate) fn page(
        &self,
        filter: &ReviewFilter,
        order: ReviewOrder,
        after: Option<ReviewCursor>,
        limit: usize,
        now: Time,
    ) -> ReviewPage {
        let decided = filter.state == Some(ReviewState::Decided);
        let cursor = |item: &ReviewItem| ReviewCursor::of(item, order);
        if let Some(key) = filter.key {
            let of_key = self.with_key(key).filter(|item| item.outcome.is_some() == decided);
            let mut found: Vec<&Arc<ReviewItem>> = of_key.take(SCANNED_MAX).collect();
            found.sort_by_key(|item| cursor(item));
            let later = found.into_iter().filter(|item| after.is_none_or(|after| cursor(item) > after));
            return page(later, usize::MAX, filter, limit, now, cursor);
        }
        let first = after.unwrap_or(ReviewCursor { rank: 0, id: RecordId(0) });
        let is_later = |item: &ReviewItem| after.is_none_or(|after| cursor(item) > after);
        let get = |id: &RecordId| self.items.get(id).filter(|item| is_later(item));
        match order {
            ReviewOrder::Oldest => {
                let ids = self.by_age.range((decided, first.id)..=(decided, RecordId(u64::MAX)));
                page(ids.filter_map(|(_, id)| get(id)), SCANNED_MAX, filter, limit, now, cursor)
            }
            ReviewOrder::Exposed => {
                let from = (decided, first.rank, first.id);
                let ids = self.by_exposure.range(from..=(decided, u64::MAX, RecordId(u64::MAX)));
                page(ids.filter_map(|(.., id)| get(id)), SCANNED_MAX, filter, limit, now, cursor)
            }
        }
    }

    /// Changes an item.
    fn change<T>(
        &mut self,
        id: RecordId,
        change: impl FnOnce(&mut ReviewItem) -> Result<T, ReviewError>,
    ) -> Result<(Arc<ReviewItem>, T), ReviewError> {
        let known = self.items.get(&id).ok_or(ReviewError::Unknown(id))?;
        let mut item = ReviewItem::clone(known);
        let outcome = change(&mut item)?;
        let item = Arc::new(item);
        self.put(Arc::clone(&item));
        Ok((item, outcome))
    }

    /// Gives an item to a reviewer for a time, or for longer.
    pub(crate) fn claim(
        &mut self,
        id: RecordId,
        by: &str,
        plan: &ReviewPlan,
        now: Time,
    ) -> Result<Arc<ReviewItem>, ReviewError> {
        let changed = self.change(id, |item| {
            is_free(item, by, now)?;
            may_speak(item, by, plan)?;
            item.claim = Some(ReviewClaim { by: by.to_owned(), until: now + plan.claim });
            Ok(())
        });
        changed.map(|(item, ())| item)
    }

    /// Takes back a reviewer's claim.
    pub(crate) fn release(
        &mut self,
        id: RecordId,
        by: &str,
        now: Time,
    ) -> Result<Arc<ReviewItem>, ReviewError> {
        let changed = self.change(id, |item| {
            is_free(item, by, now)?;
            if item.claimed_by(now).is_none() {
                return Err(ReviewError::NotClaimed(by.to_owned()));
            }
            item.claim = None;
            Ok(())
        });
        changed.map(|(item, ())| item)
    }

    /// Has a lead decide an item.
    pub(crate) fn escalate(
        &mut self,
        id: RecordId,
        by: &str,
        why: &str,
        now: Time,
    ) -> Result<Arc<ReviewItem>, ReviewError> {
        let changed = self.change(id, |item| {
            is_free(item, by, now)?;
            item.claim = None;
            item.escalation.get_or_insert_with(|| ReviewEscalation {
                by: Some(by.to_owned()),
                time: now,
                why: why.to_owned(),
            });
            Ok(())
        });
        changed.map(|(item, ())| item)
    }

    /// Adds a comment, whoever works on the item, and also once it is decided.
    pub(crate) fn comment(
        &mut self,
        id: RecordId,
        by: &str,
        text: &str,
        now: Time,
    ) -> Result<Arc<ReviewItem>, ReviewError> {
        let changed = self.change(id, |item| {
            if item.comments.len() >= REVIEW_COMMENTS_MAX {
                return Err(ReviewError::Full("comments"));
            }
            item.comments.push(ReviewComment { by: by.to_owned(), time: now, text: text.to_owned() });
            Ok(())
        });
        changed.map(|(item, ())| item)
    }

    /// Checks whether a reviewer may vote so on an item now.
    ///
    /// # Errors
    /// As [`ReviewTable::decide`].
    pub(crate) fn may_decide(
        &self,
        id: RecordId,
        by: &str,
        verdict: ReviewVerdict,
        plan: &ReviewPlan,
        now: Time,
    ) -> Result<(), ReviewError> {
        let item = self.items.get(&id).ok_or(ReviewError::Unknown(id))?;
        let said = item.vote_of(by).map(|vote| vote.verdict);
        match item.outcome {
            // Said again, as by somebody whose answer was lost.
            Some(_) if said == Some(verdict) => Ok(()),
            Some(outcome) => Err(ReviewError::Decided(outcome.verdict)),
            None => {
                is_free(item, by, now)?;
                if item.escalation.is_some() {
                    may_speak(item, by, plan)?;
                }
                if said.is_none() && item.votes.len() >= VOTES_MAX {
                    return Err(ReviewError::Full("votes"));
                }
                Ok(())
            }
        }
    }

    /// Takes a reviewer's vote. It decides the item once enough say the same, or if a lead says it of one that is escalated;
    /// two votes that differ escalate it. The same vote again changes nothing. Answers whether anything has changed.
    pub(crate) fn decide(
        &mut self,
        id: RecordId,
        by: &str,
        verdict: ReviewVerdict,
        plan: &ReviewPlan,
        now: Time,
    ) -> Result<(Arc<ReviewItem>, bool), ReviewError> {
        self.may_decide(id, by, verdict, plan, now)?;
        let known = self.items.get(&id).ok_or(ReviewError::Unknown(id))?;
        let is_stated = known.vote_of(by).is_some_and(|vote| vote.verdict == verdict);
        // A lead says the same again where it has come to an escalation since.
        if is_stated && (known.outcome.is_some() || known.escalation.is_none()) {
            return Ok((Arc::clone(known), false));
        }
        let (item, ()) = self.change(id, |item| {
            item.claim = None;
            item.votes.retain(|vote| vote.by != by);
            item.votes.push(ReviewVote { by: by.to_owned(), verdict, time: now });
            let alike = item.votes.iter().filter(|vote| vote.verdict == verdict).count();
            let differ = alike < item.votes.len();
            if item.escalation.is_some() || !differ && alike >= plan.agreement {
                let in_time = now <= item.due(plan.within);
                item.outcome = Some(ReviewOutcome { verdict, time: now, in_time });
            } else if differ {
                let why = "reviewers disagree".to_owned();
                item.escalation = Some(ReviewEscalation { by: None, time: now, why });
            }
            Ok(())
        })?;
        Ok((item, true))
    }
}

/// The next of some items that are wanted. `scanned` is the number of them that may be looked at.
fn page<'a>(
    items: impl Iterator<Item = &'a Arc<ReviewItem>>,
    scanned: usize,
    filter: &ReviewFilter,
    limit: usize,
    now: Time,
    cursor: impl Fn(&ReviewItem) -> ReviewCursor,
) -> ReviewPage {
    let mut page = ReviewPage::default();
    for (number, item) in items.enumerate() {
        if page.items.len() >= limit || number >= scanned {
            return page;
        }
        page.next = Some(cursor(item));
        if filter.takes(item, now) {
            page.items.push(Arc::clone(item));
        }
    }
    page.next = None;
    page
}

/// Checks that an item is not decided, and that no other reviewer works on it.
fn is_free(item: &ReviewItem, by: &str, now: Time) -> Result<(), ReviewError> {
    if let Some(outcome) = item.outcome {
        return Err(ReviewError::Decided(outcome.verdict));
    }
    match item.claimed_by(now) {
        Some(ReviewClaim { by: other, until }) if other != by => {
            Err(ReviewError::Claimed { by: other.clone(), until: *until })
        }
        _ => Ok(()),
    }
}

/// Checks that a reviewer's vote is what an item waits for.
fn may_speak(item: &ReviewItem, by: &str, plan: &ReviewPlan) -> Result<(), ReviewError> {
    let is_lead = plan.leads.iter().any(|lead| lead == by);
    match (item.escalation.is_some(), plan.leads.is_empty()) {
        (true, false) if !is_lead => Err(ReviewError::Escalated),
        // A lead who disagreed with somebody has the last vote.
        (true, false) => Ok(()),
        _ if item.vote_of(by).is_some() => Err(ReviewError::Spoken(by.to_owned())),
        _ => Ok(()),
    }
}
