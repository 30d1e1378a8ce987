//! Classifiers within the stages: an event's tokens are keys, read with its others in stage 4; what was learned of them
//! becomes columns of the row before any model or rule sees it.

use std::collections::HashMap;

use content::classifier::{Judgement, Learned, lean, step};
use content::token::{TOKENS_MAX, tokens};
use event::{Facts, Key, Secret, Shingle, Time, Value};
use stats::{Add, Evidence, Observation, Quality, Request, View};

use crate::explain::ExplainedToken;
use crate::plan::{ClassifierPlan, Lesson, Pipeline};

/// What one unit of a stored weight is worth: a narrow cell holds weights up to 128.
const UNIT: f64 = 1.0 / 65_536.0;

/// An event's keys for one classifier.
#[derive(Clone, Debug)]
pub(crate) struct Tokens {
    /// What was learned of all events.
    all: Key,
    /// What was learned of this very event: of whatever has the same tokens.
    pub(crate) event: Key,
    tokens: Vec<Key>,
    owner: Option<Shingle>,
}

impl Tokens {
    /// Cuts and hashes; `owner` is that of a classifier that each key of a kind has for itself.
    pub(crate) fn of<'f>(
        pipeline: &Pipeline,
        plan: &ClassifierPlan,
        secret: &Secret,
        owner: Option<Shingle>,
        value: impl Fn(&str, event::Slot) -> Option<&'f Value>,
    ) -> Tokens {
        let mut shingles: Vec<Shingle> = Vec::with_capacity(2 * TOKENS_MAX);
        for (fact, slot) in &plan.of {
            tokens(fact, value(fact, *slot), &mut |token| shingles.push(secret.shingle(token.as_bytes())));
        }
        shingles.sort_unstable();
        shingles.dedup();
        // As good as any choice: which ones these are nobody can foresee who does not know the secret.
        shingles.truncate(TOKENS_MAX);
        let mut name = b"event".to_vec();
        shingles.iter().for_each(|shingle| name.extend_from_slice(&shingle.0.to_le_bytes()));
        let key = |shingle: Shingle| {
            let shingle = owner.map_or(shingle, |owner| secret.pair(owner, shingle));
            Key { space: pipeline.space, kind: plan.kind, shingle }
        };
        Tokens {
            all: key(secret.shingle(b"all")),
            event: key(secret.shingle(&name)),
            tokens: shingles.into_iter().map(key).collect(),
            owner,
        }
    }

    /// The keys for each classifier of a row that has none yet. A classifier for each key of a kind has none where the
    /// event has not exactly one such key.
    pub(crate) fn derive<'k>(
        pipeline: &Pipeline,
        facts: &Facts,
        secret: &Secret,
        of_kind: impl Fn(usize) -> &'k [Key],
    ) -> Vec<Option<Tokens>> {
        let of = |plan: &ClassifierPlan| {
            let owner = match plan.per {
                None => None,
                Some(kind) => match of_kind(kind) {
                    [owner] => Some(owner.shingle),
                    _ => return None,
                },
            };
            Some(Tokens::of(pipeline, plan, secret, owner, |_, slot| facts.get(slot)))
        };
        pipeline.classifiers.iter().map(of).collect()
    }

    /// Looks at what was learned: of all, of the event, of each token.
    pub(crate) fn look(&self, time: Time) -> Request {
        self.request(time, |_| Add::Nothing)
    }

    fn request(&self, time: Time, add: impl Fn(&Key) -> Add) -> Request {
        let keys = [self.all, self.event].into_iter().chain(self.tokens.iter().copied());
        let observations = keys.map(|key| Observation { key, time, add: add(&key) }).collect();
        Request { once: None, observations }
    }

    /// What is to be added so that the event counts as what is said of it, given the answer to [`Tokens::look`]; `None`
    /// if it does already. All of it is one request: kept or lost together in a crash.
    ///
    /// What the event has taught before is taken back to the last bit: its own key keeps what that was.
    pub(crate) fn lesson(&self, known: &Known, lesson: Lesson, time: Time) -> Option<Request> {
        if known.taught() == lesson {
            return None;
        }
        let count = self.tokens.len();
        let before = known.event;
        let all = known.all.plus(leaning(before, count).opposite());
        let mut now = Evidence::default();
        if lesson != Lesson::Forget {
            let is_bad = lesson == Lesson::Bad;
            let linear = known.judgement.linear - lean(before.weight as f64 * UNIT, count);
            let step = step(linear, is_bad, count, all.weight as f64 * UNIT);
            let weight = (step / UNIT).round() as i64;
            now = Evidence { bad: i64::from(is_bad), good: i64::from(!is_bad), weight };
        }
        let change = now.plus(before.opposite());
        let of_all = leaning(now, count).plus(leaning(before, count).opposite());
        Some(self.request(time, |key| Add::Evidence(if *key == self.all { of_all } else { change })))
    }

    /// Each token with what is known of it and what that adds, given the answer to [`Tokens::look`]. Their texts come
    /// from the same facts.
    pub(crate) fn shares<'f, 'v>(
        &self,
        plan: &ClassifierPlan,
        secret: &Secret,
        mut views: impl Iterator<Item = View<'v>>,
        value: impl Fn(&str) -> Option<&'f Value>,
    ) -> Vec<ExplainedToken> {
        let mut texts: HashMap<Key, String> = HashMap::new();
        for (fact, _) in &plan.of {
            tokens(fact, value(fact), &mut |token| {
                texts.insert(self.key(secret, secret.shingle(token.as_bytes())), token.to_owned());
            });
        }
        let mut next = || views.next().map(|view| Evidence::of(|window, column| view.sum(window, column)));
        let (all, _) = (next().unwrap_or_default(), next());
        let known: Vec<Evidence> = std::iter::from_fn(next).collect();
        let parts: Vec<Learned> = known.iter().map(|evidence| learned(*evidence)).collect();
        let shares = Judgement::shares(learned(all), &parts);
        let each = self.tokens.iter().zip(&known).zip(shares);
        each.filter_map(|((key, Evidence { bad, good, .. }), adds)| {
            Some(ExplainedToken { token: texts.remove(key)?, bad: *bad, good: *good, adds })
        })
        .collect()
    }

    fn key(&self, secret: &Secret, shingle: Shingle) -> Key {
        let shingle = self.owner.map_or(shingle, |owner| secret.pair(owner, shingle));
        Key { shingle, ..self.all }
    }

    pub(crate) fn len(&self) -> usize {
        self.tokens.len()
    }
}

/// What an event's evidence is for all events: its weight counts as often as it has tokens.
fn leaning(of_event: Evidence, tokens: usize) -> Evidence {
    Evidence { weight: (lean(of_event.weight as f64, tokens)).round() as i64, ..of_event }
}

/// What a classifier knows of an event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    pub(crate) judgement: Judgement,
    all: Evidence,
    event: Evidence,
}

impl Known {
    /// Of the answer to [`Tokens::look`]; `None` if it could not be read.
    pub(crate) fn of<'v>(mut views: impl Iterator<Item = View<'v>>) -> Option<Known> {
        let mut next = || {
            let view = views.next().filter(|view| view.quality() != Quality::Missing)?;
            Some(Evidence::of(|window, column| view.sum(window, column)))
        };
        let (all, event) = (next()?, next()?);
        // A token that cannot be read is as good as one that was never learned.
        let tokens: Vec<Learned> =
            views.map(|view| learned(Evidence::of(|window, column| view.sum(window, column)))).collect();
        Some(Known { judgement: Judgement::of(learned(all), &tokens), all, event })
    }

    /// What was said of the event last.
    pub(crate) fn taught(&self) -> Lesson {
        match self.event {
            Evidence { bad: 1.., .. } => Lesson::Bad,
            Evidence { good: 1.., .. } => Lesson::Good,
            _ => Lesson::Forget,
        }
    }

    /// Whether anything was said of the event.
    pub(crate) fn is_taught(&self) -> bool {
        self.taught() != Lesson::Forget
    }

    /// Whether one class, after another lesson of it, would not outnumber the other by far.
    pub(crate) fn is_balanced(&self, lesson: Lesson) -> bool {
        const START: i64 = 50;
        const TIMES: i64 = 3;
        let Evidence { bad, good, .. } = self.all;
        match lesson {
            Lesson::Bad => bad < TIMES.saturating_mul(good).saturating_add(START),
            Lesson::Good => good < TIMES.saturating_mul(bad).saturating_add(START),
            Lesson::Forget => true,
        }
    }
}

fn learned(Evidence { bad, good, weight }: Evidence) -> Learned {
    Learned { bad: bad as f64, good: good as f64, weight: weight as f64 * UNIT }
}

/// Puts what is known into a row.
pub(crate) fn fill(plan: &ClassifierPlan, tokens: &Tokens, known: &Known, facts: &mut Facts) {
    let columns = &plan.columns;
    facts.set(columns.probability, known.judgement.probability());
    facts.set(columns.score, known.judgement.score);
    facts.set(columns.tokens, tokens.len());
    facts.set(columns.known, known.judgement.known);
    facts.set(columns.bad, Value::Integer(known.all.bad.max(0)));
    facts.set(columns.good, Value::Integer(known.all.good.max(0)));
}
