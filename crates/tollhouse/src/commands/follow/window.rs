//! Batches that are sent and not yet confirmed, in the order in which their lines were read.
//!
//! ```text
//! submit ─► pending, by number ─┬─► a request each, so many at once ─┬─► answered, in any order ─► confirmed, the oldest first
//!                               └─► one that the server refuses waits ┘
//! ```
//!
//! Answers come in any order, and a batch is confirmed when all before it are: what is kept as a position never runs past
//! something that a server has not got. With one request at once, batches are decided in their order.
//!
//! A server that says that it has too much to do gets half as many requests at once, from the time in `Retry-After` on, and one
//! more for every so many answers.

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use server::api::BatchLine;

use super::{AGAIN, LINES_MAX, LOOK, is_whole};
use crate::client::{BatchDurability, CallError};
use crate::exit::CommandError;
use crate::interrupt::Interrupt;

/// Bytes of a batch's events from which on it is sent.
const BATCH_BYTES: usize = 4 << 20;
/// Bytes of events that wait for answers, from which on no batch is taken.
const WINDOW_BYTES: usize = 64 << 20;
/// The least and the most of the time that a server may ask to be left alone.
const RETRY_AFTER: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(60);

/// Returns the server's answers to events.
pub(super) type DecideCall =
    dyn Fn(&[String], BatchDurability) -> Result<Vec<BatchLine>, CallError> + Send + Sync;

/// Events of lines, each with the name of its line.
#[derive(Debug, Default)]
pub(super) struct LineBatch {
    names: Vec<Option<String>>,
    events: Vec<String>,
    bytes: usize,
    /// Lines that were read for it, with those that are no events.
    lines: usize,
}

impl LineBatch {
    /// Says that so many lines were read for it.
    pub(super) fn count_lines(&mut self, lines: usize) {
        self.lines += lines;
    }

    pub(super) fn push(&mut self, name: Option<String>, event: String) {
        self.bytes += event.len();
        self.names.push(name);
        self.events.push(event);
    }

    /// Returns true if another chunk of lines may be too much for a batch of so many.
    pub(super) fn is_full(&self, lines_max: usize) -> bool {
        self.lines.max(self.events.len()) + LINES_MAX > lines_max || self.bytes >= BATCH_BYTES
    }
}

/// A batch whose answers are there, as are those of all before it.
#[derive(Debug)]
pub(super) struct ConfirmedBatch<P> {
    /// The answers, each with the name of its line.
    pub(super) answers: Vec<(Option<String>, BatchLine)>,
    /// The position behind its lines.
    pub(super) position: P,
}

/// A batch that is sent.
struct PendingBatch<P> {
    names: Vec<Option<String>>,
    bytes: usize,
    position: P,
    answers: Option<Vec<BatchLine>>,
}

/// The number of a batch, and what became of it.
type NumberedAnswers = (u64, Result<Vec<BatchLine>, CommandError>);

/// Batches that are sent and not yet confirmed.
pub(super) struct BatchWindow<P> {
    pending: VecDeque<PendingBatch<P>>,
    /// The number of the oldest one that is pending.
    oldest: u64,
    bytes: usize,
    requests_max: usize,
    requests: Sender<BatchRequest>,
    answers: Receiver<NumberedAnswers>,
}

impl<P> BatchWindow<P> {
    /// An empty window, with a thread for each of so many requests at once. They end with it.
    pub(super) fn new(
        requests_max: usize,
        interrupt: &Interrupt,
        decide: Arc<DecideCall>,
    ) -> Result<BatchWindow<P>, CommandError> {
        let (requests, queue) = channel::<BatchRequest>();
        let (answered, answers) = channel();
        let queue = Arc::new(Mutex::new(queue));
        let pace = Arc::new(RequestPace::new(requests_max));
        for _ in 0..requests_max {
            let (queue, answered) = (Arc::clone(&queue), answered.clone());
            let sender = BatchSender {
                decide: Arc::clone(&decide),
                interrupt: interrupt.clone(),
                pace: Arc::clone(&pace),
            };
            let work = move || {
                loop {
                    let next = queue.lock().recv();
                    let Ok(request) = next else { return };
                    if answered.send((request.number, sender.answers(&request))).is_err() {
                        return;
                    }
                }
            };
            let spawned = thread::Builder::new().name("requests".to_owned()).spawn(work);
            spawned
                .map_err(|error| CommandError::new(format_args!("no thread for requests starts: {error}")))?;
        }
        Ok(BatchWindow { pending: VecDeque::new(), oldest: 0, bytes: 0, requests_max, requests, answers })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Returns true if another batch may be submitted.
    pub(super) fn has_room(&self) -> bool {
        self.pending.len() < self.requests_max && self.bytes < WINDOW_BYTES
    }

    /// Sends a batch, behind whose lines this position is. One without events is answered at once.
    pub(super) fn submit(&mut self, batch: LineBatch, position: P) -> Result<(), CommandError> {
        let LineBatch { names, events, bytes, .. } = batch;
        let answers = events.is_empty().then(Vec::new);
        if answers.is_none() {
            let number = self.oldest + self.pending.len() as u64;
            // What can be sent again is forgotten here once it is safe there.
            let held = match names.iter().all(Option::is_some) {
                true => BatchDurability::OnDisk,
                false => BatchDurability::AsConfigured,
            };
            self.requests.send(BatchRequest { number, held, events }).map_err(|_| ended())?;
        }
        self.bytes += bytes;
        self.pending.push_back(PendingBatch { names, bytes, position, answers });
        Ok(())
    }

    /// Returns the oldest batch, once it is answered; `None` if nothing is pending.
    pub(super) fn confirm_oldest(&mut self) -> Result<Option<ConfirmedBatch<P>>, CommandError> {
        while self.pending.front().is_some_and(|oldest| oldest.answers.is_none()) {
            let (number, answers) = self.answers.recv().map_err(|_| ended())?;
            let index = usize::try_from(number.saturating_sub(self.oldest)).unwrap_or(usize::MAX);
            if let Some(pending) = self.pending.get_mut(index) {
                pending.answers = Some(answers?);
            }
        }
        let Some(PendingBatch { names, bytes, position, answers }) = self.pending.pop_front() else {
            return Ok(None);
        };
        self.oldest += 1;
        self.bytes -= bytes;
        let answers = names.into_iter().zip(answers.unwrap_or_default()).collect();
        Ok(Some(ConfirmedBatch { answers, position }))
    }
}

fn ended() -> CommandError {
    CommandError::new("the threads that send requests have ended")
}

/// A batch on its way.
struct BatchRequest {
    number: u64,
    held: BatchDurability,
    events: Vec<String>,
}

/// A sender of batches: it does so until it has the answers.
struct BatchSender {
    decide: Arc<DecideCall>,
    interrupt: Interrupt,
    pace: Arc<RequestPace>,
}

impl BatchSender {
    /// Returns the server's answers, however long it cannot be had. What it does not answer in its time is sent in smaller
    /// parts, one after the other.
    fn answers(&self, request: &BatchRequest) -> Result<Vec<BatchLine>, CommandError> {
        let BatchRequest { held, events, .. } = request;
        let (mut answers, mut part) = (Vec::with_capacity(events.len()), events.len());
        while answers.len() < events.len() {
            let rest = &events[answers.len()..];
            let asked = &rest[..part.clamp(1, rest.len())];
            if !self.pace.begin(&self.interrupt) {
                return Err(CommandError::new("the server did not take all lines"));
            }
            let mut wait = AGAIN;
            let why = match (self.decide)(asked, *held) {
                Ok(answered) if is_whole(&answered, asked.len(), *held) => {
                    self.pace.answered();
                    answers.extend(answered);
                    continue;
                }
                // Lines without names would count twice.
                Ok(answered) if *held == BatchDurability::AsConfigured => {
                    self.pace.answered();
                    let (count, of) = (answered.len(), asked.len());
                    return Err(CommandError::new(format_args!("the server answered {count} of {of} lines"))
                        .help(
                            "is a Tollhouse server behind --server, without a proxy that changes answers?",
                        ));
                }
                Ok(_) => CommandError::new("the server could not take all of a batch"),
                Err(error @ CallError::Refused(..)) if !error.is_for_now() => {
                    self.pace.answered();
                    return Err(error.into());
                }
                Err(error) => {
                    if error.is_slow_answer() {
                        part = asked.len() / 2;
                    }
                    let asked = error.retry_after();
                    wait = asked.map_or(AGAIN, |wait| wait.clamp(*RETRY_AFTER.start(), *RETRY_AFTER.end()));
                    error.into()
                }
            };
            self.pace.refused(wait);
            if self.interrupt.raised() {
                return Err(why);
            }
        }
        Ok(answers)
    }
}

/// Requests that may be under way at once, and the time from which on.
struct RequestPace {
    state: Mutex<PaceState>,
    /// A request has ended.
    ended: Condvar,
}

#[derive(Debug)]
struct PaceState {
    requests_max: usize,
    /// Requests that may be under way now.
    allowed: usize,
    busy: usize,
    /// Answers since the number was changed.
    answered: usize,
    /// The time before which no request begins.
    not_before: Option<Instant>,
}

impl PaceState {
    fn new(requests_max: usize) -> PaceState {
        PaceState { requests_max, allowed: requests_max, busy: 0, answered: 0, not_before: None }
    }

    /// Returns the time that a request has to wait for; zero if only others keep it from beginning.
    fn begin(&mut self, now: Instant) -> Result<(), Duration> {
        let wait = self.not_before.map_or(Duration::ZERO, |time| time.saturating_duration_since(now));
        if !wait.is_zero() || self.busy >= self.allowed {
            return Err(wait);
        }
        self.busy += 1;
        Ok(())
    }

    fn answered(&mut self) {
        self.busy = self.busy.saturating_sub(1);
        self.answered += 1;
        if self.answered >= self.allowed {
            self.answered = 0;
            self.allowed = (self.allowed + 1).min(self.requests_max);
        }
    }

    fn refused(&mut self, now: Instant, wait: Duration) {
        // What was sent together is refused together, and counts as one.
        if self.not_before.is_none_or(|time| time <= now) {
            self.allowed = (self.allowed / 2).max(1);
        }
        self.busy = self.busy.saturating_sub(1);
        self.answered = 0;
        self.not_before = self.not_before.max(Some(now + wait));
    }
}

impl RequestPace {
    fn new(requests_max: usize) -> RequestPace {
        RequestPace { state: Mutex::new(PaceState::new(requests_max)), ended: Condvar::new() }
    }

    /// Waits until a request may begin. Returns false if the user does not want to wait for the server.
    fn begin(&self, interrupt: &Interrupt) -> bool {
        let mut state = self.state.lock();
        loop {
            let Err(wait) = state.begin(Instant::now()) else { return true };
            if !wait.is_zero() && interrupt.raised() {
                return false;
            }
            let wait = if wait.is_zero() { LOOK } else { wait.min(LOOK) };
            self.ended.wait_for(&mut state, wait);
        }
    }

    fn answered(&self) {
        self.state.lock().answered();
        self.ended.notify_all();
    }

    fn refused(&self, wait: Duration) {
        self.state.lock().refused(Instant::now(), wait);
        self.ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use server::api::{BatchError, ProblemJson};

    use super::*;

    fn problem(kind: &str, detail: &str) -> ProblemJson {
        ProblemJson {
            kind: format!("urn:tollhouse:problem:{kind}"),
            title: String::new(),
            status: 422,
            detail: detail.to_owned(),
            help: None,
            problems: Vec::new(),
        }
    }

    fn refusal(kind: &str) -> CallError {
        CallError::Refused(Box::new(problem(kind, kind)), Some(Duration::ZERO))
    }

    /// Answers that repeat the lines.
    fn echoed(events: &[String]) -> Vec<BatchLine> {
        let answer = |event: &String| BatchLine::Error(BatchError { line: 1, error: problem("", event) });
        events.iter().map(answer).collect()
    }

    fn batch(number: usize, lines: usize) -> LineBatch {
        let mut batch = LineBatch::default();
        (0..lines).for_each(|line| batch.push(Some(String::new()), format!("{number}:{line}")));
        batch
    }

    /// Sends so many batches of three lines, and checks that each is confirmed once, whole, and in its order.
    #[track_caller]
    fn check(requests_max: usize, batches: usize, decide: Arc<DecideCall>) {
        let mut window = BatchWindow::new(requests_max, &Interrupt::default(), decide).unwrap();
        let (mut submitted, mut confirmed) = (0, 0);
        while confirmed < batches {
            while submitted < batches && window.has_room() {
                // One without events goes through all the same.
                window.submit(batch(submitted, if submitted == 5 { 0 } else { 3 }), submitted).unwrap();
                submitted += 1;
            }
            assert!(submitted - confirmed <= requests_max);
            let ConfirmedBatch { answers, position } = window.confirm_oldest().unwrap().unwrap();
            assert_eq!(position, confirmed);
            let said: Vec<String> = answers
                .into_iter()
                .map(|(_, answer)| match answer {
                    BatchLine::Error(error) => error.error.detail,
                    BatchLine::Decision(_) => panic!("no decision was made"),
                })
                .collect();
            let lines = if confirmed == 5 { 0 } else { 3 };
            assert_eq!(said, (0..lines).map(|line| format!("{confirmed}:{line}")).collect::<Vec<_>>());
            confirmed += 1;
        }
        assert!(window.is_empty() && window.confirm_oldest().unwrap().is_none());
    }

    #[test]
    fn one_request_at_once_keeps_the_order() {
        let last = Mutex::new(String::new());
        let decide = move |events: &[String], _: BatchDurability| {
            let mut last = last.lock();
            assert!(events[0] > *last, "{events:?} after {last}");
            last.clone_from(&events[0]);
            Ok(echoed(events))
        };
        check(1, 9, Arc::new(decide));
    }

    /// Four requests are answered only when all are there, the last one first.
    #[test]
    fn answers_in_reverse_are_confirmed_in_order() {
        let (waiting, turn) = (Mutex::new(BTreeSet::new()), Condvar::new());
        let decide = move |events: &[String], _: BatchDurability| {
            let number: usize = events[0].split(':').next().unwrap().parse().unwrap();
            let mut waiting = waiting.lock();
            waiting.insert(number);
            turn.notify_all();
            let group = number - number % 4..number - number % 4 + 4;
            // The sixth batch, number 5, has no events.
            let is_there = |waiting: &BTreeSet<usize>, other| other == 5 || waiting.contains(&other);
            while !group.clone().all(|other| is_there(&waiting, other)) {
                turn.wait(&mut waiting);
            }
            let answered = usize::MAX - number;
            while !(number + 1..group.end).all(|other| other == 5 || waiting.contains(&(usize::MAX - other)))
            {
                turn.wait(&mut waiting);
            }
            waiting.insert(answered);
            turn.notify_all();
            Ok(echoed(events))
        };
        check(4, 16, Arc::new(decide));
    }

    #[test]
    fn refused_and_slow_batches_are_sent_again() {
        let calls = AtomicUsize::new(0);
        let decide =
            move |events: &[String], _: BatchDurability| match calls.fetch_add(1, Ordering::Relaxed) % 5 {
                0 => Err(refusal("overloaded")),
                1 => Err(refusal("unavailable")),
                _ if events.len() > 1 => Err(refusal("slow-answer")),
                _ => Ok(echoed(events)),
            };
        check(1, 9, Arc::new(decide));
    }

    #[test]
    fn what_the_server_will_never_take_ends_it() {
        let mut window = BatchWindow::new(
            2,
            &Interrupt::default(),
            Arc::new(|_: &[String], _: BatchDurability| Err(refusal("forbidden"))),
        )
        .unwrap();
        window.submit(batch(0, 1), ()).unwrap();
        assert!(window.confirm_oldest().is_err());
    }

    #[test]
    fn a_server_that_refuses_gets_fewer_requests() {
        let now = Instant::now();
        let mut pace = PaceState::new(8);
        (0..8).for_each(|_| assert_eq!(pace.begin(now), Ok(())));
        assert_eq!(pace.begin(now), Err(Duration::ZERO), "there are eight");
        let wait = Duration::from_secs(3);
        (0..8).for_each(|_| pace.refused(now, wait));
        assert_eq!(pace.begin(now), Err(wait));
        let later = now + wait;
        (0..4).for_each(|_| assert_eq!(pace.begin(later), Ok(())));
        assert!(pace.begin(later).is_err(), "half of them");
        (0..4).for_each(|_| pace.answered());
        (0..5).for_each(|_| assert_eq!(pace.begin(later), Ok(())));
        assert!(pace.begin(later).is_err(), "one more");
        for again in 1..9u32 {
            pace.refused(later + wait * again, wait);
            assert!(pace.allowed >= 1);
        }
        assert_eq!(pace.allowed, 1);
    }
}
