//! Requests with a mark that nobody waits for any more: their claims are made again, and those that are the first are
//! counted.

use std::sync::Arc;
use std::time::Duration;

use stats::ObserveRequest;

use crate::claim::claim_of;
use crate::core::ClusterCore;
use crate::exact_queue::ExactLimitReadings;
use crate::intent::MarkStatuses;
use crate::wal::{ClaimToken, WalAdditions, WalRecord};

/// Intents that are claimed again together.
const TOGETHER: usize = 256;

impl ClusterCore {
    /// Claims again what nobody waits for any more.
    pub(crate) fn resolve(self: &Arc<ClusterCore>, now: Duration) {
        let catalog = self.catalog();
        let (mut again, mut claims, mut gone) = (Vec::new(), Vec::new(), Vec::new());
        for (token, intent) in self.intents.0.lock().iter_mut() {
            if intent.is_held || now < intent.not_before || again.len() >= TOGETHER {
                continue;
            }
            intent.is_held = true;
            match claim_of(&catalog, *token, &intent.request) {
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
        self.environment.spawn(Box::pin(async move {
            inner.counts.claims(claims.len());
            let mut answers = inner.remote.claim(claims, inner.settings.within).await.into_iter();
            for (token, request, attempts) in again {
                match answers.next() {
                    Some(Ok(true)) => inner.settle(token, &request).await,
                    Some(Ok(false)) => inner.refuse(vec![token]),
                    Some(Err(_)) | None => {
                        let not_before = inner.environment.now() + inner.again(attempts);
                        if let Some(intent) = inner.intents.0.lock().get_mut(&token) {
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

    /// Adds a request whose mark is its own: without an answer, after its caller has gone.
    async fn settle(self: &Arc<ClusterCore>, token: ClaimToken, request: &ObserveRequest) {
        let catalog = self.catalog();
        let requests = std::slice::from_ref(request);
        let running = self.running.begin();
        // What it was checked against may be gone.
        let Ok(call) = self.call(&catalog, requests) else {
            let _adding = self.adding.read();
            let record =
                WalRecord::Addition { had: vec![token], refused: Vec::new(), added: WalAdditions::default() };
            self.wal.append(&record, &|_| None);
            self.intents.settle(&[token]);
            return;
        };
        let hints = self.gather(&catalog, &call, running.stamp).await;
        // What it takes from exact limits may have been taken before a crash: it is not taken again.
        self.apply(
            &catalog,
            (&call, &hints),
            &MarkStatuses::had(token),
            &ExactLimitReadings::default(),
            running.stamp,
        );
    }
}
