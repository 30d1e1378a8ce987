//! Requests that are to be counted once in the whole cluster.
//!
//! ```text
//! intent (token, request) ─► journal ─► Remote::claim ─► yes: its additions, with the token ─► journal
//!                                                    ├─► no: duplicate, with the token ─► journal
//!                                                    └─► no answer: an error; claimed again with the same token
//! ```
//!
//! Only a claim that the cluster has answered settles an intent. What was told of it, and what the request adds, are one
//! record of the journal: after a crash an intent without such a record is claimed again with its token, and the cluster
//! tells the same token the same. So a request is counted by the node that has its mark, once, though its caller may
//! have been told that nothing is known; if he sends it again before, that claim has a token of its own, and one of
//! the two is refused.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hashbrown::HashMap;
use stats::{LedgerError, Request};

use crate::cache::{Flight, Landing};
use crate::cluster::Inner;
use crate::journal::{Record, Token};
use crate::lock;
use crate::remote::{Cell, Claim, Failure};
use crate::world::World;

/// Intents that are claimed again together.
const TOGETHER: usize = 256;

/// What is known of a request's mark.
#[derive(Clone, Copy)]
pub(crate) enum Verdict {
    /// It has none.
    Unmarked,
    /// It was the first.
    Had(Token),
    /// Another was.
    Refused(Token),
    /// The cluster has not said.
    Unknown,
}

/// What is known of the marks of a call's requests.
pub(crate) struct Verdicts {
    pub(crate) list: Vec<Verdict>,
    /// Why something is not known.
    pub(crate) failure: Option<Arc<str>>,
    /// When the call began.
    pub(crate) at: Duration,
}

impl Verdicts {
    pub(crate) fn had(token: Token) -> Verdicts {
        Verdicts { list: vec![Verdict::Had(token)], failure: None, at: Duration::MAX }
    }

    /// Whether a request adds. Where something is not known all can be sent again, so what has no mark waits for that.
    pub(crate) fn adds(&self, request: usize) -> bool {
        match self.list.get(request) {
            Some(Verdict::Had(_)) => true,
            Some(Verdict::Unmarked) => self.failure.is_none(),
            _ => false,
        }
    }
}

/// Intents that are not settled.
#[derive(Default)]
pub(crate) struct Intents(Mutex<HashMap<Token, Intent>>);

struct Intent {
    request: Request,
    /// Somebody sees to it.
    is_held: bool,
    attempts: u32,
    not_before: Duration,
}

impl Intents {
    /// Takes in one that nobody sees to.
    pub(crate) fn restore(&self, token: Token, request: Request) {
        let intent = Intent { request, is_held: false, attempts: 0, not_before: Duration::ZERO };
        lock(&self.0).insert(token, intent);
    }

    pub(crate) fn settle(&self, tokens: &[Token]) {
        if !tokens.is_empty() {
            let mut intents = lock(&self.0);
            tokens.iter().for_each(|token| drop(intents.remove(token)));
        }
    }

    pub(crate) fn list(&self) -> Vec<(Token, Request)> {
        lock(&self.0).iter().map(|(token, intent)| (*token, intent.request.clone())).collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        lock(&self.0).is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        lock(&self.0).len()
    }
}

/// The intents of a call. Those that are not settled when it is let go of are claimed again.
pub(crate) struct Intended {
    inner: Arc<Inner>,
    /// One a request.
    tokens: Vec<Option<Token>>,
    claims: Vec<Claim>,
    at: Duration,
}

/// A claim under way.
pub(crate) struct Claiming {
    flight: Arc<Flight>,
    answer: Arc<Mutex<Vec<Result<bool, Failure>>>>,
}

impl Drop for Intended {
    fn drop(&mut self) {
        let mut intents = lock(&self.inner.intents.0);
        for token in self.tokens.iter().flatten() {
            if let Some(intent) = intents.get_mut(token) {
                intent.is_held = false;
            }
        }
    }
}

impl Intended {
    /// Begins to claim.
    pub(crate) fn claim(&mut self) -> Option<Claiming> {
        if self.claims.is_empty() {
            return None;
        }
        Some(self.inner.claim(std::mem::take(&mut self.claims)))
    }

    /// Waits for what is told.
    pub(crate) async fn verdicts(&self, claiming: Option<Claiming>) -> Verdicts {
        let mut verdicts =
            Verdicts { list: Vec::with_capacity(self.tokens.len()), failure: None, at: self.at };
        let answers = match claiming {
            Some(Claiming { flight, answer }) => {
                flight.wait().await;
                std::mem::take(&mut *lock(&answer))
            }
            None => Vec::new(),
        };
        let mut answers = answers.into_iter();
        for token in &self.tokens {
            verdicts.list.push(match token.map(|token| (token, answers.next())) {
                None => Verdict::Unmarked,
                Some((token, Some(Ok(true)))) => Verdict::Had(token),
                Some((token, Some(Ok(false)))) => Verdict::Refused(token),
                Some((_, failed)) => {
                    let why = failed.and_then(Result::err).map(|failure| failure.to_string());
                    verdicts.failure = Some(why.unwrap_or_else(|| "the node is stopping".to_owned()).into());
                    Verdict::Unknown
                }
            });
        }
        verdicts
    }
}

impl Inner {
    /// Writes down what requests with a mark are about to do.
    pub(crate) async fn intend(
        self: &Arc<Inner>,
        world: &World,
        requests: &[Request],
    ) -> Result<Intended, LedgerError> {
        let at = self.surroundings.now();
        let mut intended = Intended { inner: self.clone(), tokens: Vec::new(), claims: Vec::new(), at };
        let mut position = None;
        for request in requests {
            let token = request.once.as_ref().map(|_| self.token());
            if let Some(token) = token
                && let Some(claim) = claim_of(world, token, request)
            {
                let intent = Intent { request: request.clone(), is_held: true, attempts: 0, not_before: at };
                lock(&self.intents.0).insert(token, intent);
                position = Some(self.journal.append(&Record::Intent(token, request.clone()), &|_| None));
                intended.claims.push(claim);
            }
            intended.tokens.push(token);
        }
        if let Some(position) = position {
            self.journal.settled(position).await?;
        }
        Ok(intended)
    }

    fn claim(self: &Arc<Inner>, claims: Vec<Claim>) -> Claiming {
        let claiming = Claiming { flight: Arc::default(), answer: Arc::default() };
        let (inner, answer) = (self.clone(), claiming.answer.clone());
        let landing = Landing(claiming.flight.clone());
        self.counts.claims(claims.len());
        self.surroundings.spawn(Box::pin(async move {
            let answers = inner.remote.claim(claims, inner.settings.within).await;
            *lock(&answer) = answers;
            drop(landing);
        }));
        claiming
    }

    /// Claims again what nobody waits for any more.
    pub(crate) fn resolve(self: &Arc<Inner>, now: Duration) {
        let world = self.world();
        let (mut again, mut claims, mut gone) = (Vec::new(), Vec::new(), Vec::new());
        for (token, intent) in lock(&self.intents.0).iter_mut() {
            if intent.is_held || now < intent.not_before || again.len() >= TOGETHER {
                continue;
            }
            intent.is_held = true;
            match claim_of(&world, *token, &intent.request) {
                Some(claim) => {
                    claims.push(claim);
                    again.push((*token, intent.request.clone(), intent.attempts));
                }
                None => gone.push(*token),
            }
        }
        // There are no such marks any more.
        if !gone.is_empty() {
            self.refuse(gone);
        }
        if again.is_empty() {
            return;
        }
        let inner = self.clone();
        self.surroundings.spawn(Box::pin(async move {
            inner.counts.claims(claims.len());
            let mut answers = inner.remote.claim(claims, inner.settings.within).await.into_iter();
            for (token, request, attempts) in again {
                match answers.next() {
                    Some(Ok(true)) => inner.settle(token, &request).await,
                    Some(Ok(false)) => inner.refuse(vec![token]),
                    Some(Err(_)) | None => {
                        let not_before = inner.surroundings.now() + inner.again(attempts);
                        if let Some(intent) = lock(&inner.intents.0).get_mut(&token) {
                            intent.is_held = false;
                            intent.attempts = attempts.saturating_add(1);
                            intent.not_before = not_before;
                        }
                    }
                }
            }
            inner.kick.notify(1);
        }));
    }

    /// Notes that another request had the mark.
    fn refuse(&self, tokens: Vec<Token>) {
        let _adding = self.adding.read().unwrap_or_else(PoisonError::into_inner);
        let record = Record::Addition { had: Vec::new(), refused: tokens.clone(), added: Vec::new() };
        self.journal.append(&record, &|_| None);
        self.intents.settle(&tokens);
    }
}

fn claim_of(world: &World, token: Token, request: &Request) -> Option<Claim> {
    let once = request.once.as_ref()?;
    let planned = world.planned(once.key.space, once.key.kind).ok()?;
    let cell = Cell { key: once.key, form: planned.known.form.clone() };
    Some(Claim { cell, time: once.time, token })
}
