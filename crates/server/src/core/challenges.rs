//! Challenges that come back, in every protocol: opened, verified where that holds up nobody, counted.

use std::sync::Arc;

use engine::{EarnedPass, PreparedEvent, UnkeyedEvent};
use event::{Event, Time, Value};
use gate::challenge::{ChallengeRefusal, PAYLOAD_BYTES_MAX};
use plan::Pipeline;
use tokio::runtime::Handle;

use crate::core::deadline::Late;
use crate::core::node::Node;

/// The field of an event that has a solved challenge.
const SOLUTION: &str = "challenge.solution";
/// The word for one that is solved.
const SOLVED: &str = "solved";

/// Takes the solved challenge out of an event, where its pipeline has challenges.
pub(crate) fn take_solution(pipeline: &Pipeline, event: &mut Event) -> Option<String> {
    pipeline.challenge.as_ref()?;
    let at = event.fields.iter().position(|(name, _)| name == SOLUTION)?;
    match event.fields.swap_remove(at).1 {
        Value::String(payload) => Some(payload.to_string()),
        _ => Some(String::new()),
    }
}

impl Node {
    /// Prepares an event with which a solved challenge came. What came of the challenge is a fact of the event.
    ///
    /// # Errors
    /// If the current deadline comes first.
    pub(crate) async fn prepare_solved(
        &self,
        pipeline: &Arc<Pipeline>,
        event: Event,
        payload: &str,
        arrival: Time,
    ) -> Result<(PreparedEvent, Option<EarnedPass>), Late> {
        let mut read = self.read(pipeline, event, arrival).await?;
        let redeemed = self.redeem(&read, payload.as_bytes(), arrival).await;
        if let Some(plan) = &pipeline.challenge {
            let word = redeemed.as_ref().map_or_else(|refusal| refusal.word(), |_| SOLVED);
            read.set(plan.columns.result, Value::from(word));
        }
        Ok((self.engine.key(read), redeemed.ok()))
    }

    /// Redeems a challenge that a visitor has solved.
    ///
    /// # Errors
    /// If it is refused.
    pub(crate) async fn redeem(
        &self,
        event: &UnkeyedEvent,
        payload: &[u8],
        now: Time,
    ) -> Result<EarnedPass, ChallengeRefusal> {
        let opened = self.engine.open_challenge(event, payload, now).await?;
        // One derivation by a hash takes a millisecond at most, one that takes memory a place among the readings.
        let is_solved = if opened.is_memory_hard() {
            let solved = opened.clone();
            let verified = self.reading.read(PAYLOAD_BYTES_MAX, move |_| solved.is_solved()).await;
            verified.unwrap_or(false)
        } else {
            opened.is_solved()
        };
        let closed = self.engine.close_challenge(event, &opened, is_solved, now);
        if let Some(id) = self.engine.report_challenge(event.pipeline(), &opened, is_solved, now).await {
            // Its decision is sought in the journal, which blocks. What is not counted there is in the metrics all the same.
            let engine = Arc::clone(&self.engine);
            let report = self.lookups.run(self.timeout() / 4, move |_| {
                Handle::current().block_on(engine.report_challenge_of(id, is_solved, now));
            });
            let _ = report.await;
        }
        closed
    }
}
