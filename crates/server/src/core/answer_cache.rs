//! Answers that were made a moment ago: pages show them to many, and each time they cost as much as a look at all there is.
//!
//! One that is not young any more is given for a while yet, so that nobody waits for the next one: who gets it first has that made.

use std::sync::Arc;
use std::time::{Duration, Instant};

use event::Span;
use parking_lot::Mutex;

/// The age from which on an answer is made anew.
const YOUNG: Duration = Duration::from_secs(15);
/// The age from which on it is not given any more.
const AGE_MAX: Duration = Duration::from_secs(60);
/// Answers that are kept.
const KEPT_MAX: usize = 32;

/// Answers by what was asked.
#[derive(Debug)]
pub(crate) struct AnswerCache<Q, A>(Mutex<Vec<KeptAnswer<Q, A>>>);

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

impl<Q, A> Default for AnswerCache<Q, A> {
    fn default() -> AnswerCache<Q, A> {
        AnswerCache(Mutex::default())
    }
}

impl<Q: PartialEq, A> AnswerCache<Q, A> {
    /// Returns the answer that was made to this query, if it is not too old.
    pub(crate) fn of(&self, query: &Q, now: Instant) -> Option<KnownAnswer<A>> {
        let mut kept = self.0.lock();
        let found = kept.iter_mut().find(|kept| kept.query == *query)?;
        let age = now.saturating_duration_since(found.at);
        let is_to_renew = age >= YOUNG && !found.is_renewed;
        found.is_renewed |= is_to_renew;
        (age < AGE_MAX).then(|| KnownAnswer { made: Arc::clone(&found.made), is_to_renew })
    }

    /// Returns the answer that was made to this query, if it is young.
    pub(crate) fn young(&self, query: &Q, now: Instant) -> Option<Arc<A>> {
        let kept = self.0.lock();
        let found = kept.iter().find(|kept| kept.query == *query)?;
        (now.saturating_duration_since(found.at) < YOUNG).then(|| Arc::clone(&found.made))
    }

    /// Keeps the answer to a query. The one that was kept first makes room.
    pub(crate) fn keep(&self, query: Q, made: &Arc<A>, at: Instant) {
        let mut kept = self.0.lock();
        kept.retain(|kept| kept.query != query);
        if kept.len() >= KEPT_MAX {
            kept.remove(0);
        }
        kept.push(KeptAnswer { query, made: Arc::clone(made), at, is_renewed: false });
    }

    /// Forgets all: something of what they were made of is gone.
    pub(crate) fn forget(&self) {
        self.0.lock().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_kept_for_a_moment() {
        let (cache, now) = (AnswerCache::<usize, usize>::default(), Instant::now());
        for number in 0..=KEPT_MAX {
            cache.keep(number, &Arc::new(10 * number), now);
        }
        let known = |number, at| cache.of(&number, at).map(|known| *known.made);
        assert_eq!(
            (known(0, now), known(1, now), known(KEPT_MAX, now)),
            (None, Some(10), Some(10 * KEPT_MAX))
        );
        assert_eq!((known(1, now + AGE_MAX), known(1, now + AGE_MAX / 2)), (None, Some(10)));
        assert_eq!(known(1, now + AGE_MAX - Duration::from_millis(1)), Some(10));
        cache.keep(1, &Arc::new(11), now + AGE_MAX);
        assert_eq!((known(1, now + AGE_MAX), known(2, now)), (Some(11), Some(20)));
        cache.forget();
        assert_eq!((known(1, now + AGE_MAX), known(2, now)), (None, None));
    }

    #[test]
    fn one_is_told_to_renew_what_is_not_young_any_more() {
        let (cache, now) = (AnswerCache::<usize, usize>::default(), Instant::now());
        cache.keep(1, &Arc::new(10), now);
        let is_to_renew = |at| cache.of(&1, at).unwrap().is_to_renew;
        let late = now + YOUNG;
        assert_eq!([now, late, late].map(is_to_renew), [false, true, false]);
        assert_eq!([now, late].map(|at| cache.young(&1, at).is_some()), [true, false]);
        cache.keep(1, &Arc::new(11), late);
        assert_eq!([late, late + YOUNG].map(is_to_renew), [false, true]);
    }
}
