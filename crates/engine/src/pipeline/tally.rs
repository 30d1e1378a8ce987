//! The metrics of the stages: what came of a batch, counted once for all events that have the same labels.

use std::collections::HashMap;

use event::{Time, Value};
use judge::{Action, Rule, Verdict};
use plan::Pipeline;

use super::fields::RowDraft;
use super::keys::PreparedEvent;
use super::observe::ObservedBatch;
use crate::Engine;
use crate::metrics::{ActionLabel, BaitLabel, FormLabel, NotifyLabel, PipelineLabel, RuleLabel, label};

impl Engine {
    pub(super) fn count_prepared(&self, prepared: &PreparedEvent) {
        let pipeline = &prepared.row.pipeline;
        let counters = self.metrics.of_pipeline(pipeline);
        counters.fields_events.inc();
        counters.keys_derived.inc_by(prepared.keys.len() as u64);
        if prepared.row.clamped {
            self.metrics.fields_clamped.get_or_create(&label(pipeline)).inc();
        }
        if prepared.row.ignored > 0 {
            let ignored = u64::from(prepared.row.ignored);
            self.metrics.fields_ignored.get_or_create(&label(pipeline)).inc_by(ignored);
        }
        self.count_form(&prepared.row);
    }

    /// Counts what came of a form's token, and bait that was taken.
    fn count_form(&self, row: &RowDraft) {
        let (facts, pipeline) = (&row.facts, &row.pipeline);
        if let Some(columns) = pipeline.form.as_ref().map(|plan| &plan.columns) {
            let outcome = match (facts.get(columns.refused), facts.get(columns.opened)) {
                (Some(Value::String(refusal)), _) => Some(&**refusal),
                (_, Some(Value::Bool(true))) => Some("opened"),
                _ => None,
            };
            if let Some(outcome) = outcome {
                let label = FormLabel { pipeline: pipeline.name.clone(), outcome: outcome.to_owned() };
                self.metrics.forms.sent.get_or_create(&label).inc();
            }
        }
        let bait = pipeline.bait.as_ref().and_then(|plan| facts.get(plan.columns.taken));
        if let Some(Value::String(bait)) = bait {
            let label = BaitLabel { pipeline: pipeline.name.clone(), bait: bait.to_string() };
            self.metrics.forms.bait.get_or_create(&label).inc();
        }
    }

    /// Returns the number of events for which a rule of a pipeline has fired since the start, enforced or in shadow.
    pub fn fired(&self, pipeline: &Pipeline, rule: &Rule) -> u64 {
        let count = |mode: &str| {
            let [pipeline, rule, mode] = [&pipeline.name, &rule.name, mode].map(str::to_owned);
            self.metrics.judge_fired.get(&RuleLabel { pipeline, rule, mode }).map_or(0, |count| count.get())
        };
        count("enforce") + count("shadow")
    }

    /// Returns the number of verdicts of a pipeline since the start, in the order of [`Action::ALL`].
    pub fn verdicts(&self, pipeline: &Pipeline) -> [u64; Action::ALL.len()] {
        Action::ALL.map(|action| {
            let label = ActionLabel { pipeline: pipeline.name.clone(), action: action.to_string() };
            self.metrics.judge_verdicts.get(&label).map_or(0, |count| count.get())
        })
    }

    /// Counts a batch. Labels are made once for all events that have the same: a label costs more than a rule.
    pub(super) fn count_verdicts(&self, observed: &ObservedBatch, verdicts: &[Verdict]) {
        // A batch has events of few pipelines.
        let mut all: Vec<BatchCounts<'_>> = Vec::new();
        for (observed, verdict) in observed.events().zip(verdicts) {
            let pipeline = observed.prepared.row.pipeline.name.as_str();
            let minute = observed.prepared.row.arrival.0.div_euclid(60_000_000);
            let known = all.iter().position(|counts| counts.pipeline == pipeline && counts.minute == minute);
            let at = known.unwrap_or_else(|| {
                all.push(BatchCounts { pipeline, minute, ..BatchCounts::default() });
                all.len() - 1
            });
            let counts = &mut all[at];
            counts.duplicates += u64::from(observed.duplicate);
            counts.failures += u64::from(observed.is_blind);
            counts.actions[verdict.action as usize] += 1;
            for (mode, reasons) in [("enforce", &verdict.reasons), ("shadow", &verdict.shadow)] {
                for reason in reasons {
                    *counts.fired.entry((mode, &reason.rule)).or_default() += 1;
                }
            }
            for due in &verdict.effects {
                if let judge::Effect::Notify(whom) = &due.effect {
                    tracing::info!(pipeline, rule = %due.rule, %whom, "a rule notifies");
                    let (rule, whom) = (due.rule.clone(), whom.clone());
                    let notified = NotifyLabel { pipeline: pipeline.to_owned(), rule, whom };
                    self.metrics.judge_notified.get_or_create(&notified).inc();
                }
            }
        }
        for BatchCounts { pipeline, minute, duplicates, failures, actions, fired } in all {
            let by_rule = fired.iter().map(|((mode, rule), count)| (*rule, *mode == "shadow", *count));
            self.counts.add(pipeline, Time(minute.saturating_mul(60_000_000)), &actions, by_rule);
            let label = PipelineLabel { pipeline: pipeline.to_owned() };
            if duplicates > 0 {
                self.metrics.observe_duplicates.get_or_create(&label).inc_by(duplicates);
            }
            if failures > 0 {
                self.metrics.observe_failures.get_or_create(&label).inc_by(failures);
            }
            for (action, count) in Action::ALL.into_iter().zip(actions).filter(|(_, count)| *count > 0) {
                let label = ActionLabel { pipeline: pipeline.to_owned(), action: action.to_string() };
                self.metrics.judge_verdicts.get_or_create(&label).inc_by(count);
            }
            for ((mode, rule), count) in fired {
                let [pipeline, rule, mode] = [pipeline, rule, mode].map(str::to_owned);
                self.metrics.judge_fired.get_or_create(&RuleLabel { pipeline, rule, mode }).inc_by(count);
            }
        }
    }
}

/// The counts of the events of one pipeline in a batch that arrived within a minute.
#[derive(Default)]
struct BatchCounts<'a> {
    pipeline: &'a str,
    minute: i64,
    duplicates: u64,
    failures: u64,
    /// The decisions by the number of their action.
    actions: [u64; Action::ALL.len()],
    /// The rules that fired, by mode and name.
    fired: HashMap<(&'static str, &'a str), u64>,
}
