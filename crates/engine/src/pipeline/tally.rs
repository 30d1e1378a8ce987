//! The metrics of the stages: what came of a batch, counted once for all events that have the same labels.

use std::collections::BTreeMap;

use event::{Time, Value};
use judge::{Action, Rule, Verdict};
use plan::Pipeline;

use super::fields::RowDraft;
use super::keys::PreparedEvent;
use super::observe::ObservedBatch;
use crate::Engine;
use crate::metrics::{ActionLabel, BaitLabel, FormLabel, NotifyLabel, RuleLabel, label};

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

    /// Counts a batch, once for all events that count alike.
    pub(super) fn count_verdicts(&self, observed: &ObservedBatch, verdicts: &[Verdict]) {
        // A batch has events of few pipelines.
        let mut all: Vec<BatchCounts<'_>> = Vec::new();
        for (observed, verdict) in observed.events().zip(verdicts) {
            let row = &observed.prepared.row;
            let (of, minute) = (&*row.pipeline, row.arrival.0.div_euclid(60_000_000));
            let pipeline = of.name.as_str();
            let known =
                all.iter().position(|counts| counts.pipeline.name == pipeline && counts.minute == minute);
            let at = known.unwrap_or_else(|| {
                all.push(BatchCounts::new(of, minute));
                all.len() - 1
            });
            let counts = &mut all[at];
            counts.duplicates += u64::from(observed.duplicate);
            counts.failures += u64::from(observed.is_blind);
            counts.actions[verdict.action as usize] += 1;
            for (is_shadow, reasons) in [(false, &verdict.reasons), (true, &verdict.shadow)] {
                for reason in reasons {
                    *counts.fired.entry((reason.rule.as_str(), is_shadow)).or_default() += 1;
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
            let by_rule = fired.iter().map(|((rule, is_shadow), count)| (*rule, *is_shadow, *count));
            self.counts.add(&pipeline.name, Time(minute.saturating_mul(60_000_000)), &actions, by_rule);
            if duplicates > 0 {
                self.metrics.observe_duplicates.get_or_create(&label(pipeline)).inc_by(duplicates);
            }
            if failures > 0 {
                self.metrics.observe_failures.get_or_create(&label(pipeline)).inc_by(failures);
            }
            let counters = self.metrics.of_pipeline(pipeline);
            for (action, count) in Action::ALL.into_iter().zip(actions).filter(|(_, count)| *count > 0) {
                self.metrics.count_verdicts((pipeline, &counters), action, count);
            }
            for (of, count) in fired {
                self.metrics.count_fired((pipeline, &counters), of, count);
            }
        }
    }
}

/// The counts of the events of one pipeline in a batch that arrived within a minute.
struct BatchCounts<'a> {
    pipeline: &'a Pipeline,
    minute: i64,
    duplicates: u64,
    failures: u64,
    /// The decisions by the number of their action.
    actions: [u64; Action::ALL.len()],
    /// The rules that fired, each enforced or in shadow.
    fired: BTreeMap<(&'a str, bool), u64>,
}

impl<'a> BatchCounts<'a> {
    fn new(pipeline: &'a Pipeline, minute: i64) -> BatchCounts<'a> {
        let actions = [0; Action::ALL.len()];
        BatchCounts { pipeline, minute, duplicates: 0, failures: 0, actions, fired: BTreeMap::new() }
    }
}
