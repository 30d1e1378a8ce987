//! Requests that are to be counted once in the whole cluster.
//!
//! ```text
//! intent (token, request) ─► journal ─► RemoteCluster::claim ─► yes: its additions, with the token ─► journal
//!                                                    ├─► no: duplicate, with the token ─► journal
//!                                                    └─► no answer: unconfirmed; claimed again with the same token
//! ```
//!
//! Only a claim that the cluster has answered settles an intent. What was told of it, and what the request adds, are one
//! record of the journal: after a crash an intent without such a record is claimed again with its token, and the cluster
//! tells the same token the same. So a request is counted by the node that has its mark, once, though its caller may
//! have been told that nothing is known; if he sends it again before, that claim has a token of its own, and one of
//! the two is refused.

use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

use stats::{LedgerError, ObserveRequest};

use crate::catalog::ClusterCatalog;
use crate::core::ClusterCore;
use crate::in_flight::{InFlightCall, InFlightGuard};
use crate::intent::{Intent, MarkStatus, MarkStatuses};
use crate::remote::{MarkClaim, RemoteCell, RemoteError};
use crate::wal::{ClaimToken, WalAdditions, WalRecord};

/// The intents of a call. Those that are not settled when it is let go of are claimed again.
pub(crate) struct CallIntents {
    inner: Arc<ClusterCore>,
    /// One a request.
    tokens: Vec<Option<ClaimToken>>,
    claims: Vec<MarkClaim>,
    at: Duration,
}

/// A claim under way.
pub(crate) struct PendingClaim {
    flight: Arc<InFlightCall>,
    answer: Arc<Mutex<Vec<Result<bool, RemoteError>>>>,
}

impl Drop for CallIntents {
    fn drop(&mut self) {
        let mut intents = self.inner.intents.0.lock();
        for token in self.tokens.iter().flatten() {
            if let Some(intent) = intents.get_mut(token) {
                intent.is_held = false;
            }
        }
    }
}

impl CallIntents {
    /// Begins to claim.
    pub(crate) fn claim(&mut self) -> Option<PendingClaim> {
        if self.claims.is_empty() {
            return None;
        }
        Some(self.inner.claim(std::mem::take(&mut self.claims)))
    }

    /// Waits for what is told.
    pub(crate) async fn verdicts(&self, claiming: Option<PendingClaim>) -> MarkStatuses {
        let mut verdicts =
            MarkStatuses { list: Vec::with_capacity(self.tokens.len()), failure: None, at: self.at };
        let answers = match claiming {
            Some(PendingClaim { flight, answer }) => {
                flight.wait().await;
                std::mem::take(&mut *answer.lock())
            }
            None => Vec::new(),
        };
        let mut answers = answers.into_iter();
        for token in &self.tokens {
            verdicts.list.push(match token.map(|token| (token, answers.next())) {
                None => MarkStatus::Unmarked,
                Some((token, Some(Ok(true)))) => MarkStatus::Had(token),
                Some((token, Some(Ok(false)))) => MarkStatus::Refused(token),
                Some((_, failed)) => {
                    let why = failed.and_then(Result::err).map(|failure| failure.to_string());
                    verdicts.failure = Some(why.unwrap_or_else(|| "the node is stopping".to_owned()).into());
                    MarkStatus::Unknown
                }
            });
        }
        verdicts
    }
}

impl ClusterCore {
    /// Writes down what requests with a mark are about to do.
    pub(crate) async fn intend(
        self: &Arc<ClusterCore>,
        catalog: &ClusterCatalog,
        requests: &[ObserveRequest],
    ) -> Result<CallIntents, LedgerError> {
        let at = self.environment.now();
        let mut intended = CallIntents { inner: self.clone(), tokens: Vec::new(), claims: Vec::new(), at };
        let mut position = None;
        for request in requests {
            let token = request.once.as_ref().map(|_| self.token());
            if let Some(token) = token
                && let Some(claim) = claim_of(catalog, token, request)
            {
                let intent = Intent { request: request.clone(), is_held: true, attempts: 0, not_before: at };
                self.intents.0.lock().insert(token, intent);
                position = Some(self.wal.append(&WalRecord::Intent(token, request.clone()), &|_| None));
                intended.claims.push(claim);
            }
            intended.tokens.push(token);
        }
        if let Some(position) = position {
            self.wal.settled(position).await?;
        }
        Ok(intended)
    }

    fn claim(self: &Arc<ClusterCore>, claims: Vec<MarkClaim>) -> PendingClaim {
        let claiming = PendingClaim { flight: Arc::default(), answer: Arc::default() };
        let (inner, answer) = (self.clone(), claiming.answer.clone());
        let landing = InFlightGuard(claiming.flight.clone());
        self.counts.claims(claims.len());
        self.environment.spawn(Box::pin(async move {
            let answers = inner.remote.claim(claims, inner.settings.within).await;
            *answer.lock() = answers;
            drop(landing);
        }));
        claiming
    }

    /// Notes that another request had the mark.
    pub(crate) fn refuse(&self, tokens: Vec<ClaimToken>) {
        let _adding = self.adding.read();
        let record =
            WalRecord::Addition { had: Vec::new(), refused: tokens.clone(), added: WalAdditions::default() };
        self.wal.append(&record, &|_| None);
        self.intents.settle(&tokens);
    }
}

/// Returns what a request with a mark claims.
pub(crate) fn claim_of(
    catalog: &ClusterCatalog,
    token: ClaimToken,
    request: &ObserveRequest,
) -> Option<MarkClaim> {
    let once = request.once.as_ref()?;
    let planned = catalog.planned(once.key.space, once.key.kind).ok()?;
    let cell = RemoteCell { key: once.key, form: planned.known.form.clone() };
    Some(MarkClaim { cell, time: once.time, token })
}
