//! The queue against a plain model, with restarts and failing disks.

use std::collections::BTreeMap;

use disk::{Device, MemoryDevice};
use event::{Key, Kind, Shingle, Space, Span, Time};
use journal::RecordId;
use judge::Action;
use plan::ReviewPlan;
use pollster::block_on;
use proptest::prelude::*;

use super::*;

const REVIEWERS: [&str; 4] = ["ann", "bob", "cid", "lea"];
const START: Time = Time::from_seconds(1_779_012_000);

fn plan(agreement: usize, leads: &[&str]) -> ReviewPlan {
    ReviewPlan {
        items: 12,
        claim: Span::minutes(10),
        within: Span::hours(4),
        keep: Span::days(30),
        agreement,
        exposure: None,
        leads: leads.iter().map(|lead| (*lead).to_owned()).collect(),
    }
}

fn item(id: u64, action: Action, exposure: f64, keys: u8, time: Time) -> ReviewItem {
    let keys = (0..4).filter(|bit| keys & 1 << bit != 0);
    ReviewItem {
        id: RecordId(id),
        event_id: id.is_multiple_of(3).then(|| format!("e{id}")),
        pipeline: ["posts", "mail"][(id % 2) as usize].to_owned(),
        space: Space(3),
        action,
        time,
        score: exposure / 2.0,
        exposure,
        rules: vec![["LINK", "NEW"][(id / 2 % 2) as usize].to_owned()],
        keys: keys.map(|key| (Kind(1 + key % 2), Shingle(u64::from(key)))).collect(),
        claim: None,
        escalation: None,
        votes: Vec::new(),
        comments: Vec::new(),
        outcome: None,
    }
}

fn key_of(number: u8) -> Key {
    Key { space: Space(3), kind: Kind(u16::from(1 + number % 2)), shingle: Shingle(u64::from(number)) }
}

fn open(device: &MemoryDevice) -> ReviewQueue {
    ReviewQueue::open(Box::new(device.clone())).unwrap()
}

/// Everything in a queue, through its pages.
fn all(queue: &ReviewQueue, now: Time) -> BTreeMap<RecordId, ReviewItem> {
    let mut found = BTreeMap::new();
    for state in [None, Some(ReviewState::Decided)] {
        let filter = ReviewFilter { state, ..ReviewFilter::default() };
        let page = queue.page(&filter, ReviewOrder::Oldest, None, usize::MAX, now);
        assert_eq!(page.next, None);
        found.extend(page.items.iter().map(|item| (item.id, ReviewItem::clone(item))));
    }
    found
}

/// The name of what was said.
fn told<T>(result: &Result<T, ReviewError>) -> &'static str {
    match result {
        Ok(_) => "ok",
        Err(ReviewError::Unknown(_)) => "unknown",
        Err(ReviewError::Decided(_)) => "decided",
        Err(ReviewError::Claimed { .. }) => "claimed",
        Err(ReviewError::NotClaimed(_)) => "not claimed",
        Err(ReviewError::Spoken(_)) => "spoken",
        Err(ReviewError::Escalated) => "escalated",
        Err(ReviewError::Full(_)) => "full",
        Err(ReviewError::Class { .. }) => "class",
        Err(ReviewError::Unwritten(_)) => "unwritten",
    }
}

#[derive(Clone, Debug)]
enum Step {
    Push { is_held: bool, exposure: u8, keys: u8 },
    Claim { item: u8, by: usize },
    Release { item: u8, by: usize },
    Escalate { item: u8, by: usize },
    Comment { item: u8, by: usize },
    Decide { item: u8, by: usize, refuse: bool },
    DecideAlike { key: u8, by: usize, refuse: bool, most: u8 },
    Pass { minutes: u16 },
    Maintain,
    Save,
    Reopen,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let of = || (any::<u8>(), 0..REVIEWERS.len());
    let step = prop_oneof![
        4 => (any::<bool>(), 0..5u8, any::<u8>())
            .prop_map(|(is_held, exposure, keys)| Step::Push { is_held, exposure, keys }),
        3 => of().prop_map(|(item, by)| Step::Claim { item, by }),
        1 => of().prop_map(|(item, by)| Step::Release { item, by }),
        1 => of().prop_map(|(item, by)| Step::Escalate { item, by }),
        1 => of().prop_map(|(item, by)| Step::Comment { item, by }),
        5 => (of(), any::<bool>()).prop_map(|((item, by), refuse)| Step::Decide { item, by, refuse }),
        1 => (0..4u8, 0..REVIEWERS.len(), any::<bool>(), 1..4u8)
            .prop_map(|(key, by, refuse, most)| Step::DecideAlike { key, by, refuse, most }),
        2 => (1..800u16).prop_map(|minutes| Step::Pass { minutes }),
        1 => Just(Step::Maintain),
        1 => Just(Step::Save),
        1 => Just(Step::Reopen),
    ];
    prop::collection::vec(step, 1..80)
}

/// An item as a plain list of what happened to it.
#[derive(Clone, Debug, PartialEq)]
struct ModelItem {
    item: ReviewItem,
    claim: Option<(usize, Time)>,
    escalated: bool,
    votes: Vec<(usize, bool)>,
    comments: usize,
    outcome: Option<(bool, Time)>,
}

/// The queue as it is meant.
struct Model {
    plan: ReviewPlan,
    items: BTreeMap<u64, ModelItem>,
    now: Time,
}

impl Model {
    fn claimant(&self, item: &ModelItem) -> Option<usize> {
        item.claim.filter(|(_, until)| *until > self.now).map(|(by, _)| by)
    }

    fn is_lead(&self, by: usize) -> bool {
        self.plan.leads.iter().any(|lead| lead == REVIEWERS[by])
    }

    /// Says why somebody may not touch an item.
    fn blocked(&self, item: &ModelItem, by: usize) -> Option<&'static str> {
        if item.outcome.is_some() {
            return Some("decided");
        }
        self.claimant(item).filter(|other| *other != by).map(|_| "claimed")
    }

    /// Says why somebody's vote is not waited for.
    fn unwanted(&self, item: &ModelItem, by: usize) -> Option<&'static str> {
        let has_leads = !self.plan.leads.is_empty();
        if item.escalated && has_leads {
            return (!self.is_lead(by)).then_some("escalated");
        }
        item.votes.iter().any(|(other, _)| *other == by).then_some("spoken")
    }

    fn may_decide(&self, item: &ModelItem, by: usize, refuse: bool) -> &'static str {
        let said = item.votes.iter().find(|(other, _)| *other == by).map(|(_, vote)| *vote);
        if item.outcome.is_some() {
            return if said == Some(refuse) { "ok" } else { "decided" };
        }
        let unwanted = || item.escalated.then(|| self.unwanted(item, by)).flatten();
        self.blocked(item, by).or_else(unwanted).unwrap_or("ok")
    }

    fn decide(&mut self, id: u64, by: usize, refuse: bool) -> &'static str {
        let Some(item) = self.items.get(&id) else { return "unknown" };
        let answer = self.may_decide(item, by, refuse);
        let is_repeated = item.votes.contains(&(by, refuse)) && !(item.escalated && item.outcome.is_none());
        if answer != "ok" || is_repeated {
            return answer;
        }
        let (agreement, now) = (self.plan.agreement, self.now);
        let item = self.items.get_mut(&id).unwrap();
        item.claim = None;
        item.votes.retain(|(other, _)| *other != by);
        item.votes.push((by, refuse));
        let alike = item.votes.iter().filter(|(_, vote)| *vote == refuse).count();
        match alike == item.votes.len() {
            _ if item.escalated => item.outcome = Some((refuse, now)),
            true if alike >= agreement => item.outcome = Some((refuse, now)),
            true => {}
            false => item.escalated = true,
        }
        answer
    }

    fn push(&mut self, item: ReviewItem) {
        if self.items.len() >= self.plan.items {
            let by_exposure = |(_, one): &(&u64, &ModelItem), (_, other): &(&u64, &ModelItem)| {
                let of = |it: &ModelItem| (it.item.exposure, std::cmp::Reverse(it.item.id));
                of(one).partial_cmp(&of(other)).unwrap()
            };
            let decided = self.items.iter().find(|(_, one)| one.outcome.is_some()).map(|(id, _)| *id);
            let spare = self.items.iter().filter(|(_, one)| one.item.action == Action::ReviewAfter);
            let spare = spare.min_by(by_exposure).map(|(id, one)| (*id, one.item.exposure));
            let victim = match (decided, spare) {
                (Some(id), _) => Some(id),
                // Of equals the new one is the latest, and goes.
                (None, Some((id, exposure))) => {
                    (item.action == Action::ReviewBefore || item.exposure > exposure).then_some(id)
                }
                (None, None) => None,
            };
            let Some(victim) = victim else { return };
            self.items.remove(&victim);
        }
        let id = item.id.0;
        let (claim, escalated, votes, comments, outcome) = (None, false, Vec::new(), 0, None);
        self.items.insert(id, ModelItem { item, claim, escalated, votes, comments, outcome });
    }
}

fn verdict(refuse: bool) -> ReviewVerdict {
    if refuse { ReviewVerdict::Refuse } else { ReviewVerdict::Publish }
}

/// Compares everything that can be seen of a queue with the model.
fn compare(queue: &ReviewQueue, model: &Model) {
    let (found, now) = (all(queue, model.now), model.now);
    assert_eq!(
        found.keys().map(|id| id.0).collect::<Vec<_>>(),
        model.items.keys().copied().collect::<Vec<_>>()
    );
    let mut census = ReviewCensus::default();
    for (id, expected) in &model.items {
        let found = &found[&RecordId(*id)];
        let state = match (expected.outcome, model.claimant(expected), expected.escalated) {
            (Some(_), ..) => ReviewState::Decided,
            (None, Some(_), _) => ReviewState::Claimed,
            (None, None, true) => ReviewState::Escalated,
            (None, None, false) => ReviewState::Open,
        };
        assert_eq!(found.state(now), state, "{id}");
        let votes: Vec<(&str, bool)> = found
            .votes
            .iter()
            .map(|vote| (vote.by.as_str(), vote.verdict == ReviewVerdict::Refuse))
            .collect();
        let expected_votes: Vec<(&str, bool)> =
            expected.votes.iter().map(|(by, refuse)| (REVIEWERS[*by], *refuse)).collect();
        assert_eq!(votes, expected_votes, "{id}");
        assert_eq!(found.escalation.is_some(), expected.escalated, "{id}");
        assert_eq!(found.comments.len(), expected.comments, "{id}");
        let due = expected.item.time + model.plan.within;
        let outcome = expected.outcome.map(|(refuse, time)| ReviewOutcome {
            verdict: verdict(refuse),
            time,
            in_time: time <= due,
        });
        assert_eq!(found.outcome, outcome, "{id}");
        census.states[state as usize] += 1;
        if outcome.is_none() {
            let time = expected.item.time;
            census.oldest = Some(census.oldest.map_or(time, |oldest| oldest.min(time)));
            census.overdue += u64::from(due < now);
        }
    }
    assert_eq!(queue.census(&model.plan, now), census);
    let by_key = |number: u8| {
        let wanted = key_of(number);
        let mut waiting = found.values().filter(|item| item.outcome.is_none());
        waiting.by_ref().filter(|item| item.whole_keys().any(|key| key == wanted)).count()
    };
    for number in 0..4 {
        assert_eq!(queue.waiting_with(key_of(number), usize::MAX), by_key(number));
    }
    // Pages of any length put together are the whole list, in order, each item once.
    let filters = [
        ReviewFilter::default(),
        ReviewFilter { state: Some(ReviewState::Decided), ..ReviewFilter::default() },
        ReviewFilter { rule: Some("LINK".to_owned()), ..ReviewFilter::default() },
        ReviewFilter { key: Some(key_of(1)), pipeline: Some("mail".to_owned()), ..ReviewFilter::default() },
        ReviewFilter { action: Some(Action::ReviewBefore), ..ReviewFilter::default() },
    ];
    for filter in filters {
        for (order, limit) in [
            (ReviewOrder::Oldest, 1),
            (ReviewOrder::Oldest, 3),
            (ReviewOrder::Exposed, 1),
            (ReviewOrder::Exposed, 4),
        ] {
            let (mut listed, mut after) = (Vec::new(), None);
            loop {
                let page = queue.page(&filter, order, after, limit, now);
                assert!(page.items.len() <= limit);
                listed.extend(page.items.iter().map(|item| item.id));
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
            let decided = filter.state.is_some();
            let wanted = |item: &&ReviewItem| {
                item.outcome.is_some() == decided
                    && filter.rule.as_ref().is_none_or(|rule| item.rules.contains(rule))
                    && filter.pipeline.as_ref().is_none_or(|name| *name == item.pipeline)
                    && filter.action.is_none_or(|action| action == item.action)
                    && filter.key.is_none_or(|key| item.whole_keys().any(|own| own == key))
            };
            let mut expected: Vec<&ReviewItem> = found.values().filter(wanted).collect();
            if order == ReviewOrder::Exposed {
                expected.sort_by(|one, other| other.exposure.total_cmp(&one.exposure));
            }
            assert_eq!(
                listed,
                expected.iter().map(|item| item.id).collect::<Vec<_>>(),
                "{filter:?} {order:?}"
            );
        }
    }
}

fn run(steps: Vec<Step>, plan: ReviewPlan) {
    let device = MemoryDevice::new();
    let mut queue = open(&device);
    let mut model = Model { plan, items: BTreeMap::new(), now: START };
    let mut last = 0;
    for step in steps {
        let (plan, now) = (model.plan.clone(), model.now);
        let pick = |item: u8| u64::from(item) % (last + 2);
        match step.clone() {
            Step::Push { is_held, exposure, keys } => {
                last += 1;
                let action = if is_held { Action::ReviewBefore } else { Action::ReviewAfter };
                let new = item(last, action, f64::from(exposure) - 2.0, keys, now);
                block_on(queue.push(vec![new.clone()], &plan)).1.unwrap();
                model.push(new);
            }
            Step::Claim { item, by } => {
                let id = pick(item);
                let expected = match model.items.get(&id) {
                    None => "unknown",
                    Some(item) => {
                        model.blocked(item, by).or_else(|| model.unwanted(item, by)).unwrap_or("ok")
                    }
                };
                let found = block_on(queue.claim(RecordId(id), REVIEWERS[by], &plan, now));
                assert_eq!(told(&found), expected, "{step:?}");
                if expected == "ok" {
                    model.items.get_mut(&id).unwrap().claim = Some((by, now + plan.claim));
                }
            }
            Step::Release { item, by } => {
                let id = pick(item);
                let expected = match model.items.get(&id) {
                    None => "unknown",
                    Some(item) => match model.blocked(item, by) {
                        Some(why) => why,
                        None if model.claimant(item).is_none() => "not claimed",
                        None => "ok",
                    },
                };
                let found = block_on(queue.release(RecordId(id), REVIEWERS[by], now));
                assert_eq!(told(&found), expected, "{step:?}");
                if expected == "ok" {
                    model.items.get_mut(&id).unwrap().claim = None;
                }
            }
            Step::Escalate { item, by } => {
                let id = pick(item);
                let expected =
                    model.items.get(&id).map_or("unknown", |item| model.blocked(item, by).unwrap_or("ok"));
                let found = block_on(queue.escalate(RecordId(id), REVIEWERS[by], "odd", now));
                assert_eq!(told(&found), expected, "{step:?}");
                if expected == "ok" {
                    let item = model.items.get_mut(&id).unwrap();
                    (item.claim, item.escalated) = (None, true);
                }
            }
            Step::Comment { item, by } => {
                let id = pick(item);
                let expected = if model.items.contains_key(&id) { "ok" } else { "unknown" };
                assert_eq!(
                    told(&block_on(queue.comment(RecordId(id), REVIEWERS[by], "hm \u{1}", now))),
                    expected
                );
                if let Some(item) = model.items.get_mut(&id) {
                    item.comments += 1;
                }
            }
            Step::Decide { item, by, refuse } => {
                let id = pick(item);
                let found = block_on(queue.decide(RecordId(id), REVIEWERS[by], verdict(refuse), &plan, now));
                assert_eq!(told(&found), model.decide(id, by, refuse), "{step:?}");
            }
            Step::DecideAlike { key, by, refuse, most } => {
                let vote = (REVIEWERS[by], verdict(refuse));
                let alike = queue.alike(key_of(key), vote, usize::from(most), &plan, now);
                let wanted = |item: &&ModelItem| {
                    let is_stated = !item.escalated && item.votes.contains(&(by, refuse));
                    let has = item.item.whole_keys().any(|own| own == key_of(key));
                    has && item.outcome.is_none() && !is_stated && model.may_decide(item, by, refuse) == "ok"
                };
                let expected: Vec<u64> =
                    model.items.values().filter(wanted).map(|item| item.item.id.0).collect();
                let shown = usize::from(most).min(expected.len());
                let found: Vec<u64> = alike.waiting.iter().map(|item| item.id.0).collect();
                assert_eq!((&found[..], alike.has_more), (&expected[..shown], shown < expected.len()));
                for id in found {
                    block_on(queue.decide(RecordId(id), REVIEWERS[by], verdict(refuse), &plan, now)).unwrap();
                    assert_eq!(model.decide(id, by, refuse), "ok");
                }
            }
            Step::Pass { minutes } => model.now = now + Span::minutes(i64::from(minutes)),
            Step::Maintain => {
                let before = now - Span::hours(12);
                queue.maintain(Some(before)).unwrap();
                model.items.retain(|_, item| match item.outcome {
                    Some((_, time)) => time >= before,
                    None => item.item.action == Action::ReviewBefore || item.item.time >= before,
                });
            }
            Step::Save => queue.save().unwrap(),
            // As after a kill: nothing was closed.
            Step::Reopen => {
                queue = open(&device);
                assert_eq!(queue.lost_bytes(), 0);
            }
        }
        compare(&queue, &model);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_queue_is_as_the_model_says(steps in steps(), agreement in 1..3usize, has_leads in any::<bool>()) {
        run(steps, plan(agreement, if has_leads { &["lea"] } else { &[] }));
    }

    /// Answered changes are there after a crash of the process, whatever the disk refused before.
    #[test]
    fn what_is_acknowledged_outlives_a_failing_disk(
        changes in prop::collection::vec((0..6u64, any::<bool>()), 1..40), fails in 0..30u64, heals in 0..40usize,
    ) {
        let device = MemoryDevice::new();
        let (queue, plan) = (open(&device), plan(9, &[]));
        // The images of each item, and how many of them must be there.
        let mut images: BTreeMap<u64, (Vec<ReviewItem>, usize)> = BTreeMap::new();
        device.fail_after(fails);
        for (number, (id, is_saved)) in changes.into_iter().enumerate() {
            if number == heals {
                device.heal();
            }
            let now = START + Span::seconds(number as i64);
            let written = match images.contains_key(&id) {
                false => block_on(queue.push(vec![item(id, Action::ReviewBefore, 1.0, 3, now)], &plan)).1.is_ok(),
                true => block_on(queue.comment(RecordId(id), "ann", &number.to_string(), now)).is_ok(),
            };
            let (known, acknowledged) = images.entry(id).or_default();
            known.push(ReviewItem::clone(&queue.get(RecordId(id)).unwrap()));
            if written {
                *acknowledged = known.len();
            }
            if is_saved {
                let _ = queue.maintain(None);
            }
        }
        let again = open(&device);
        for (id, (known, acknowledged)) in &images {
            let found = again.get(RecordId(*id)).ok();
            let place = found.and_then(|found| known.iter().rposition(|known| *known == *found));
            prop_assert!(place.map_or(0, |place| place + 1) >= *acknowledged, "{id}: {place:?} {acknowledged}");
        }
        device.heal();
        queue.maintain(None).unwrap();
        prop_assert_eq!(all(&open(&device), START), all(&queue, START));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// A queue opens whatever stands in its files, and what is written behind it is there again, as is all that could be read.
    #[test]
    fn any_bytes_are_files_of_a_queue(
        changes in prop::collection::vec((0..2usize, any::<u16>(), any::<u8>(), any::<bool>()), 0..12),
        tail in prop::collection::vec(any::<u8>(), 0..64),
    ) {
        let device = MemoryDevice::new();
        let (queue, plan) = (open(&device), plan(1, &[]));
        block_on(queue.push((1..4).map(|id| item(id, Action::ReviewBefore, 1.0, 3, START)).collect(), &plan)).1.unwrap();
        queue.save().unwrap();
        block_on(queue.push((4..7).map(|id| item(id, Action::ReviewAfter, 2.0, 5, START)).collect(), &plan)).1.unwrap();
        let log = device.list().unwrap().into_iter().find(|name| name.ends_with(".log")).unwrap();
        let mut files = [IMAGES, log.as_str()].map(|name| (name.to_owned(), device.read(name).unwrap()));
        for (file, at, byte, is_cut) in changes {
            let bytes = &mut files[file].1;
            let at = usize::from(at) % (bytes.len() + 1);
            match bytes.get_mut(at) {
                Some(place) if !is_cut => *place ^= byte,
                _ => bytes.truncate(at),
            }
        }
        files[1].1.extend(tail);
        let damaged = MemoryDevice::new();
        files.iter().for_each(|(name, bytes)| damaged.write(name, bytes));
        let found = open(&damaged);
        let before = all(&found, START);
        prop_assert!(before.values().all(|item| (1..7).contains(&item.id.0)));
        block_on(found.push(vec![item(9, Action::ReviewBefore, 1.0, 1, START)], &plan)).1.unwrap();
        let with = all(&found, START);
        prop_assert_eq!(with.len(), before.len() + 1);
        prop_assert_eq!(&all(&open(&damaged), START), &with);
        found.save().unwrap();
        let again = open(&damaged);
        prop_assert_eq!((all(&again, START), again.lost_bytes()), (with, 0));
    }
}

/// A log that is cut off anywhere is one of a killed process: it has what was whole, and is no damage.
#[test]
fn a_log_that_is_cut_off_has_what_was_whole() {
    let device = MemoryDevice::new();
    let (queue, plan) = (open(&device), plan(1, &[]));
    let mut states = vec![all(&queue, START)];
    for id in 1..4 {
        block_on(queue.push(vec![item(id, Action::ReviewAfter, id as f64, 5, START)], &plan)).1.unwrap();
        states.push(all(&queue, START));
        block_on(queue.decide(RecordId(id), "ann", ReviewVerdict::Refuse, &plan, START)).unwrap();
        states.push(all(&queue, START));
    }
    let name = "reviews.0.log";
    let whole = device.read(name).unwrap();
    let mut reached = 0;
    for length in 0..=whole.len() {
        let cut = MemoryDevice::new();
        cut.write(name, &whole[..length]);
        let found = open(&cut);
        assert_eq!(found.lost_bytes(), 0, "{length}");
        let state = states.iter().position(|state| *state == all(&found, START)).unwrap();
        assert!(state >= reached, "{length}");
        reached = state;
        // It goes on behind the torn end, in a log of its own.
        block_on(found.push(vec![item(9, Action::ReviewBefore, 1.0, 1, START)], &plan)).1.unwrap();
        assert!(open(&cut).get(RecordId(9)).is_ok());
    }
    assert_eq!(reached, states.len() - 1);
}

/// A damaged byte costs the item that it is in, and is told.
#[test]
fn damage_is_told_and_the_other_items_stand() {
    let device = MemoryDevice::new();
    let (queue, plan) = (open(&device), plan(1, &[]));
    let items = (1..6).map(|id| item(id, Action::ReviewBefore, 1.0, 1, START)).collect();
    block_on(queue.push(items, &plan)).1.unwrap();
    queue.save().unwrap();
    let bytes = device.read(IMAGES).unwrap();
    let device_of = |bytes: &[u8]| {
        let device = MemoryDevice::new();
        device.write(IMAGES, bytes);
        device
    };
    for at in (20..bytes.len()).step_by(7) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x20;
        let found = open(&device_of(&damaged));
        assert_eq!(all(&found, START).len(), 4, "{at}");
        assert!(found.lost_bytes() > 0, "{at}");
    }
    // Images are never half written: whatever is missing is told, and so is a head that cannot be read.
    for length in 0..bytes.len() {
        assert!(open(&device_of(&bytes[..length])).lost_bytes() > 0, "{length}");
    }
    let mut headless = bytes.clone();
    headless[3] ^= 1;
    let found = open(&device_of(&headless));
    assert_eq!((all(&found, START).len(), found.lost_bytes()), (5, 20));
    assert_eq!(all(&open(&device_of(&bytes)), START), all(&queue, START));
    assert!(device.list().unwrap().iter().all(|name| name == IMAGES), "{:?}", device.list());
}

#[test]
fn agreement_goes_through_all_of_the_queue() {
    let queue = ReviewQueue::default();
    let plan = ReviewPlan { items: 5000, ..plan(1, &[]) };
    let items = (1..=1500).map(|id| item(id, Action::ReviewBefore, 1.0, 1, START)).collect();
    block_on(queue.push(items, &plan)).1.unwrap();
    for id in 1..=1400 {
        let verdict = ReviewVerdict::ALL[usize::from(id % 7 == 0)];
        block_on(queue.decide(RecordId(id), REVIEWERS[(id % 2) as usize], verdict, &plan, START)).unwrap();
    }
    let found = queue.agreement(None, &|| false);
    assert_eq!(found.decided, VerdictCounts { publish: 1200, refuse: 200 });
    assert_eq!((found.in_time, found.escalated, found.is_partial), (1400, 0, false));
    let of_key = found.unequal.first().map(|of| (of.key, of.counts, of.published, of.refused));
    assert_eq!(of_key, Some((key_of(0), found.decided, RecordId(1399), RecordId(1400))));
    let of_mail = queue.agreement(Some("mail"), &|| false);
    assert_eq!((of_mail.decided.all(), of_mail.reviewers.len(), of_mail.unequal.len()), (700, 1, 1));
    let cut = queue.agreement(None, &|| true);
    assert!(cut.is_partial && (1..1400).contains(&cut.decided.all()), "{cut:?}");
}
