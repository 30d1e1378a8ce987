//! What conversations take at the same moment, as one batch.
//!
//! A thread that serves many connections finds many of them readable at once. Each conversation puts its takes into the
//! round that is open on its thread and lets the others go first. Who comes back first decides them all, and the others
//! find what came of theirs. So the ledger is asked once for all of them, and their answers are written one right after
//! the other: a client with many connections is woken once and not by each, which costs as much as many takes.
//!
//! A round never waits for more to come: it ends as soon as nobody else of the thread is ready.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Instant;

use engine::limit::{Take, Taken};
use prometheus_client::metrics::histogram::Histogram;
use tokio::sync::OnceCell;
use tokio::task::yield_now;

use super::session::in_time;
use super::take::Asked;
use crate::mail::{Face, Trouble};

/// Takes that are decided as one batch: what is made of them stays in the processor's caches.
pub(super) const TAKES_MAX: usize = 256;

thread_local! {
    /// The round that conversations of this thread join. Weak, so that it ends with the last of them.
    static OPEN: RefCell<Weak<Round>> = const { RefCell::new(Weak::new()) };
}

#[derive(Debug)]
struct Round {
    /// Only conversations of one listener decide together: they have its patience in common.
    face: Arc<Face>,
    /// What is to be taken, until somebody decides.
    asked: Mutex<Option<Vec<Asked>>>,
    decided: OnceCell<Result<Decided, String>>,
}

/// What was to be taken, and what came of each.
#[derive(Debug)]
struct Decided {
    asked: Vec<Asked>,
    taken: Vec<Taken>,
}

/// A conversation's part of a round.
#[derive(Debug)]
pub(super) struct Seat {
    round: Arc<Round>,
    places: Range<usize>,
}

impl Seat {
    /// Puts takes, at most [`TAKES_MAX`], into the round of this thread, which is then decided before long.
    pub(super) async fn join(face: &Arc<Face>, takes: &mut Vec<Asked>) -> Seat {
        let seat = OPEN.with_borrow_mut(|open| {
            let known = open.upgrade().filter(|round| Arc::ptr_eq(&round.face, face));
            if let Some(round) = known
                && let Some(places) = round.add(takes)
            {
                return Seat { round, places };
            }
            let places = 0..takes.len();
            let asked = Mutex::new(Some(std::mem::take(takes)));
            let round = Arc::new(Round { face: Arc::clone(face), asked, decided: OnceCell::new() });
            *open = Arc::downgrade(&round);
            Seat { round, places }
        });
        yield_now().await;
        seat
    }

    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// What was to be taken, and what came of it, in its order.
    ///
    /// # Errors
    /// Why nothing can be told, as an answer.
    pub(super) async fn taken(
        &self,
        batches: &Histogram,
    ) -> Result<impl Iterator<Item = (&Asked, &Taken)>, &str> {
        let decided = self.round.decided.get_or_init(|| self.round.decide(batches)).await;
        let Decided { asked, taken } = decided.as_ref().map_err(String::as_str)?;
        let asked = asked.get(self.places.clone()).unwrap_or_default();
        Ok(asked.iter().zip(taken.get(self.places.clone()).unwrap_or_default()))
    }
}

impl Round {
    /// Adds takes, unless it is being decided already or would become too long.
    fn add(&self, takes: &mut Vec<Asked>) -> Option<Range<usize>> {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let asked = asked.as_mut().filter(|asked| asked.len() + takes.len() <= TAKES_MAX)?;
        let start = asked.len();
        asked.append(takes);
        Some(start..asked.len())
    }

    async fn decide(&self, batches: &Histogram) -> Result<Decided, String> {
        let started = Instant::now();
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner).take();
        // Only where whoever was to decide has panicked, or was given up meanwhile: whether anything was taken is not known.
        let asked = asked.ok_or_else(|| format!("TRYAGAIN {}", Trouble::Defect))?;
        let takes: Vec<Take<'_>> = asked.iter().map(Asked::take).collect();
        let taken =
            in_time(&self.face, |engine, now| async move { engine.take_each(&takes, now).await }).await;
        batches.observe(started.elapsed().as_secs_f64());
        Ok(Decided { taken: taken?, asked })
    }
}
