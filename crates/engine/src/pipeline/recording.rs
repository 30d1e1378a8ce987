//! Stage 7: decisions are logged, and told to all who wait for them.

use std::sync::Arc;

use journal::{PendingDecision, RecordId};
use judge::Verdict;
use plan::ChallengePlan;

use super::observe::{ObservedBatch, ObservedEvent};
use super::watcher::StageWatcher;
use super::{Decision, JOURNAL_UNAVAILABLE, fail};
use crate::Engine;
use crate::metrics::{DisagreementLabel, label};

impl Engine {
    /// Stage 7. What cannot be logged is answered as the pipeline says.
    pub(crate) async fn log(
        &self,
        mut observed: ObservedBatch,
        ids: &[RecordId],
        verdicts: Vec<Verdict>,
        watcher: &dyn StageWatcher,
    ) -> Vec<Decision> {
        let decided = observed.events().zip(ids).zip(verdicts).map(|((observed, &id), verdict)| {
            let row = &observed.prepared.row;
            let decision = Decision {
                challenge: self.issue_challenge(row, id, &verdict),
                id,
                event_id: row.event_id.clone(),
                pipeline: Arc::clone(&row.pipeline),
                time: row.time,
                duplicate: observed.duplicate,
                uncounted: observed.uncounted,
                unlogged: false,
                bands: row.pipeline.rules.bands_for(&row.facts, &verdict),
                verdict,
            };
            self.compare(&observed, &decision);
            decision
        });
        let mut decisions: Vec<Decision> = decided.collect();
        for (prepared, decision) in observed.prepared_mut().iter_mut().zip(&decisions) {
            let row = &mut prepared.row;
            if let (Some(issued), Some(plan)) = (&decision.challenge, &row.pipeline.challenge) {
                row.facts.set(plan.cost, issued.units);
            }
        }
        let reviews = self.reviews_of(&observed, &decisions);
        let mut logged = Vec::with_capacity(decisions.len());
        for (prepared, decision) in observed.prepared_mut().iter_mut().zip(&decisions) {
            let row = &mut prepared.row;
            let keys = &self.content_keys;
            logged.push(keys.seal(decision.id, &row.pipeline, &mut row.facts, &decision.verdict));
            row.pipeline.schema.transient().iter().for_each(|slot| _ = row.facts.clear(*slot));
        }
        let Some(journal) = &self.journal else {
            self.queue_reviews(reviews, &decisions).await;
            self.show_live(&observed, &decisions);
            self.keep_notices(&observed, &decisions);
            report_decisions(watcher, &observed, &decisions);
            return decisions;
        };
        let mut records = self.records.take();
        for ((observed, decision), logged) in observed.events().zip(&decisions).zip(&logged) {
            let row = &observed.prepared.row;
            let decided = PendingDecision {
                id: decision.id,
                pipeline: &row.pipeline.name,
                version: &row.pipeline.version,
                event_id: decision.event_id.as_deref(),
                time: decision.time,
                arrival: row.arrival,
                duplicate: decision.duplicate,
                facts: &row.facts,
                verdict: logged.as_ref().unwrap_or(&decision.verdict),
            };
            records.push_decision(&decided, observed.known());
            records.expect(decisions.len());
        }
        match journal.append_all(&records).await {
            Ok(()) => {
                self.metrics.journal_records.inc_by(records.count() as u64);
                for (observed, decision) in observed.events().zip(&decisions) {
                    self.challenged.keep(observed.prepared, decision);
                }
            }
            Err(error) => {
                tracing::error!(%error, "decisions cannot be logged");
                self.metrics.journal_failures.inc_by(records.count() as u64);
                for decision in &mut decisions {
                    decision.unlogged = true;
                    let pipeline = &decision.pipeline;
                    fail(
                        pipeline,
                        &mut decision.verdict,
                        JOURNAL_UNAVAILABLE,
                        "the journal cannot be written",
                    );
                    if !ChallengePlan::is_for(decision.verdict.action) {
                        decision.challenge = None;
                    }
                }
            }
        }
        records.clear();
        self.records.give(records);
        // After the journal: who opens a review finds its decision there.
        self.queue_reviews(reviews, &decisions).await;
        self.show_live(&observed, &decisions);
        self.keep_notices(&observed, &decisions);
        report_decisions(watcher, &observed, &decisions);
        decisions
    }

    /// Has a candidate judge the same row, which changes nothing, or the enforced rules where it has decided.
    pub(crate) fn compare(&self, observed: &ObservedEvent<'_>, decision: &Decision) {
        let canary_of = observed.prepared.canary_of.as_ref();
        let pipeline = canary_of.unwrap_or(&decision.pipeline);
        if canary_of.is_some() {
            self.metrics.canary_decisions.get_or_create(&label(pipeline)).inc();
        }
        // Without statistics both would judge blindly.
        let Some(candidate) = pipeline.candidate.as_ref().filter(|_| !observed.is_blind) else { return };
        self.metrics.candidate_events.get_or_create(&label(pipeline)).inc();
        let tally = self.candidates.of(candidate);
        let facts = &observed.prepared.row.facts;
        if let Some((enforced, asked)) = tally.compare(pipeline, candidate, decision, facts) {
            let label = DisagreementLabel {
                pipeline: pipeline.name.clone(),
                enforced: enforced.to_string(),
                candidate: asked.to_string(),
            };
            self.metrics.candidate_disagreements.get_or_create(&label).inc();
        }
    }
}

/// Tells a watcher of decisions. Facts that are not journalled were taken away before.
fn report_decisions(watcher: &dyn StageWatcher, observed: &ObservedBatch, decisions: &[Decision]) {
    if watcher.wants_decisions() {
        for (observed, decision) in observed.events().zip(decisions) {
            watcher.decided(decision, &observed.prepared.row.facts);
        }
    }
}
