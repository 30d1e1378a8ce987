//! Verdicts beside the flow: of what is not counted, and of what could not be decided.

use std::sync::Arc;

use event::{Facts, Time};
use judge::{Action, Evaluation, Verdict};
use plan::Pipeline;
use stats::LedgerError;

use super::keys::PreparedEvent;
use super::observe::{self, ObserveMode, ObservedBatch};
use super::{Decision, UNDECIDED, canary, fail, ranges, score};
use crate::{Engine, limit};

impl Engine {
    /// Returns what `on_error` of a pipeline says of an event that was not read or not decided: nothing is counted or logged.
    pub fn undecided(&self, pipeline: &Arc<Pipeline>, arrival: Time, why: &str) -> Decision {
        let mut verdict = Verdict {
            score: 0.0,
            probability: 0.0,
            action: Action::Accept,
            reasons: Vec::new(),
            shadow: Vec::new(),
            next: None,
            effects: Vec::new(),
        };
        let bands = pipeline.rules.bands().in_force(&Facts::default());
        verdict.probability = bands.probability(verdict.score);
        fail(pipeline, &mut verdict, UNDECIDED, why);
        Decision {
            id: self.ids.next(arrival),
            event_id: None,
            pipeline: Arc::clone(pipeline),
            time: arrival,
            duplicate: false,
            uncounted: true,
            unlogged: true,
            verdict,
            bands,
            challenge: None,
        }
    }

    /// Returns what would be decided on an event, by what is known of its keys now. Nothing is counted, logged or settled.
    ///
    /// # Errors
    /// If statistics cannot be had, whatever the pipeline's `on_error` says.
    pub async fn consult(&self, prepared: PreparedEvent) -> Result<Verdict, LedgerError> {
        let mut observed = self.observe_one(prepared, ObserveMode::Nothing).await?;
        score::score(observed.prepared_mut());
        let prepared = observed.event(0).prepared;
        let (rules, facts) = (&prepared.row.pipeline.rules, &prepared.row.facts);
        let mut verdict = judge::judge(rules, facts);
        rules.explain(&mut verdict, facts);
        verdict.reasons.extend(canary::reason(prepared));
        Ok(verdict)
    }

    /// Returns the score that an event would have, with the event itself.
    pub(crate) async fn score_of(
        &self,
        prepared: PreparedEvent,
    ) -> Result<(f64, PreparedEvent), LedgerError> {
        let mut observed = self.observe_one(prepared, ObserveMode::Nothing).await?;
        score::score(observed.prepared_mut());
        let mut outcome = Evaluation::default();
        let PreparedEvent { row, .. } = observed.event(0).prepared;
        row.pipeline.rules.evaluate(&row.facts, &mut outcome);
        Ok((outcome.score(), observed.into_first()))
    }

    pub(crate) async fn observe_one(
        &self,
        prepared: PreparedEvent,
        what: ObserveMode,
    ) -> Result<ObservedBatch, LedgerError> {
        let exceptions = self.exceptions();
        let limits =
            limit::LimitContext { exceptions: &exceptions, secret: &self.secret, ban_list: &self.ban_list };
        // Of what is only counted rules are not asked, so what they would take from limits is not taken.
        let limits = (what == ObserveMode::Nothing).then_some(&limits);
        let mut observed = observe::observe_one(&*self.ledger, prepared, limits, what).await?;
        ranges::fill(&self.ban_list, observed.prepared_mut());
        self.learners.fill(observed.prepared_mut());
        self.judged.fill(observed.prepared_mut());
        if what == ObserveMode::Nothing {
            self.route_to_canaries(observed.prepared_mut());
        }
        Ok(observed)
    }
}
