//! Answers that were made a moment ago: pages show them to many, and each time they cost as much as a look at all there is.
//!
//! One that is not young any more is given for a while yet, so that nobody waits for the next one: who gets it first has that made.

use std::sync::Arc;
use std::time::{Duration, Instant};

use event::Span;
use parking_lot::Mutex;
use plan::limit::LimitPlan;

/// The age from which on an answer is made anew.
const YOUNG: Duration = Duration::from_secs(15);
/// The age from which on it is not given any more.
const AGE_MAX: Duration = Duration::from_secs(60);
/// Answers that are kept.
const KEPT_MAX: usize = 32;

/// Answers by what was asked.
#[derive(Debug)]
pub(crate) struct AnswerCache<Q, A> {
    /// The processor time from which on an answer is kept. One that took less is made anew.
    worth: Duration,
    kept: Mutex<KeptAnswers<Q, A>>,
}

#[derive(Debug)]
struct KeptAnswers<Q, A> {
    /// In the order of making, the first one first.
    answers: Vec<KeptAnswer<Q, A>>,
    /// The last time that all were forgotten.
    forgotten: Option<Instant>,
}

/// The keys of a pipeline that are asked for by their rank.
#[derive(Debug, PartialEq)]
pub(crate) struct RankingQuery {
    /// The name and the version of the pipeline.
    pub(crate) pipeline: (String, String),
    /// The kind and the counter, or the reputation and the order.
    pub(crate) by: (String, String),
    /// The time for which is counted.
    pub(crate) span: Span,
    /// Most keys that are wanted.
    pub(crate) limit: usize,
}

/// The limits whose fullest keys are asked for.
#[derive(Debug, PartialEq)]
pub(crate) struct FullestQuery {
    /// The limits, as they are configured.
    pub(crate) limits: Vec<Arc<LimitPlan>>,
    /// Most keys of each that are wanted.
    pub(crate) count: usize,
}

#[derive(Debug)]
struct KeptAnswer<Q, A> {
    query: Q,
    made: Arc<A>,
    at: Instant,
    /// Somebody has been told to renew it.
    is_renewed: bool,
}

/// An answer that was made before.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct KnownAnswer<A> {
    pub(crate) made: Arc<A>,
    /// True for the one who is to have it made anew.
    pub(crate) is_to_renew: bool,
}

impl<Q: PartialEq, A> AnswerCache<Q, A> {
    /// Makes room for answers, of which those are kept that took so long of a processor.
    pub(crate) fn new(worth: Duration) -> AnswerCache<Q, A> {
        AnswerCache { worth, kept: Mutex::new(KeptAnswers { answers: Vec::new(), forgotten: None }) }
    }

    /// Returns the answer that was made to this query, if it is not too old.
    pub(crate) fn of(&self, query: &Q, now: Instant) -> Option<KnownAnswer<A>> {
        let mut kept = self.kept.lock();
        let found = kept.answers.iter_mut().find(|kept| kept.query == *query)?;
        let age = now.saturating_duration_since(found.at);
        let is_to_renew = age >= YOUNG && !found.is_renewed;
        found.is_renewed |= is_to_renew;
        (age < AGE_MAX).then(|| KnownAnswer { made: Arc::clone(&found.made), is_to_renew })
    }

    /// Returns the answer that was made to this query, if it is young.
    pub(crate) fn young(&self, query: &Q, now: Instant) -> Option<Arc<A>> {
        let kept = self.kept.lock();
        let found = kept.answers.iter().find(|kept| kept.query == *query)?;
        (now.saturating_duration_since(found.at) < YOUNG).then(|| Arc::clone(&found.made))
    }

    /// Keeps the answer to a query whose making began then and took so long of a processor, if it is worth it. The one that was kept
    /// first makes room.
    pub(crate) fn keep(&self, query: Q, made: &Arc<A>, (at, took): (Instant, Duration)) {
        let mut kept = self.kept.lock();
        // One of before may hold what was to be forgotten.
        if took < self.worth || kept.forgotten.is_some_and(|forgotten| at <= forgotten) {
            return;
        }
        kept.answers.retain(|kept| kept.query != query);
        if kept.answers.len() >= KEPT_MAX {
            kept.answers.remove(0);
        }
        kept.answers.push(KeptAnswer { query, made: Arc::clone(made), at, is_renewed: false });
    }

    /// Forgets all, and those that are being made: something of what they are made of is gone.
    pub(crate) fn forget(&self, now: Instant) {
        let mut kept = self.kept.lock();
        kept.answers.clear();
        kept.forgotten = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORTH: Duration = Duration::from_millis(5);

    #[test]
    fn answers_are_kept_for_a_moment() {
        let (cache, now) = (AnswerCache::<usize, usize>::new(WORTH), Instant::now());
        for number in 0..=KEPT_MAX {
            cache.keep(number, &Arc::new(10 * number), (now, WORTH));
        }
        let known = |number, at| cache.of(&number, at).map(|known| *known.made);
        assert_eq!(
            (known(0, now), known(1, now), known(KEPT_MAX, now)),
            (None, Some(10), Some(10 * KEPT_MAX))
        );
        assert_eq!((known(1, now + AGE_MAX), known(1, now + AGE_MAX / 2)), (None, Some(10)));
        assert_eq!(known(1, now + AGE_MAX - Duration::from_millis(1)), Some(10));
        cache.keep(1, &Arc::new(11), (now + AGE_MAX, WORTH));
        assert_eq!((known(1, now + AGE_MAX), known(2, now)), (Some(11), Some(20)));
        let (then, later) = (now + AGE_MAX, now + 2 * AGE_MAX);
        cache.keep(2, &Arc::new(21), (now, WORTH / 2));
        assert_eq!(known(2, now), Some(20), "what took little is made anew");
        cache.forget(then);
        assert_eq!((known(1, then), known(2, now)), (None, None));
        cache.keep(1, &Arc::new(12), (then, WORTH));
        cache.keep(2, &Arc::new(22), (later, WORTH));
        assert_eq!((known(1, then), known(2, later)), (None, Some(22)), "what was begun before is not kept");
    }

    #[test]
    fn one_is_told_to_renew_what_is_not_young_any_more() {
        let (cache, now) = (AnswerCache::<usize, usize>::new(WORTH), Instant::now());
        cache.keep(1, &Arc::new(10), (now, WORTH));
        let is_to_renew = |at| cache.of(&1, at).unwrap().is_to_renew;
        let late = now + YOUNG;
        assert_eq!([now, late, late].map(is_to_renew), [false, true, false]);
        assert_eq!([now, late].map(|at| cache.young(&1, at).is_some()), [true, false]);
        cache.keep(1, &Arc::new(11), (late, WORTH));
        assert_eq!([late, late + YOUNG].map(is_to_renew), [false, true]);
    }
}
