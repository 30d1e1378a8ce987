//! Metrics of the engine, one prefix a stage. The server renders it; nothing here knows a wire format's framing or reads
//! a clock.

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

use gate::challenge::ChallengeRefusal;
use judge::Action;
use parking_lot::RwLock;
use plan::Pipeline;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// The pipeline that is counted.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct PipelineLabel {
    pub(crate) pipeline: String,
}

/// An action of a pipeline.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct ActionLabel {
    pub(crate) pipeline: String,
    pub(crate) action: String,
}

/// The action that was decided on an event, and the side of the judgement of it afterwards: `good` or `bad`.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct JudgementLabel {
    pub(crate) pipeline: String,
    pub(crate) action: String,
    pub(crate) side: &'static str,
}

/// A ban that the allow list has passed over: where it came from, and the setting that has what it is of.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct PassedOverLabel {
    pub(crate) origin: &'static str,
    pub(crate) setting: &'static str,
}

/// A pipeline's reviews that were decided: the verdict, and whether in time.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct ReviewLabel {
    pub(crate) pipeline: String,
    pub(crate) verdict: &'static str,
    pub(crate) in_time: &'static str,
}

/// A pipeline's reviews on which two reviewers had a word, and whether these agreed.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct ReviewVoteLabel {
    pub(crate) pipeline: String,
    pub(crate) agreed: &'static str,
}

/// Upper bounds of the buckets of the time until a review is decided, in seconds: minutes, hours and days.
const REVIEW_SECONDS: [f64; 12] = [
    60.0,
    300.0,
    900.0,
    1_800.0,
    3_600.0,
    7_200.0,
    14_400.0,
    28_800.0,
    86_400.0,
    172_800.0,
    604_800.0,
    2_592_000.0,
];

/// The histograms of the time until a review is decided.
#[derive(Clone, Debug)]
pub(crate) struct ReviewHistograms(pub(crate) Family<PipelineLabel, Histogram>);

impl Default for ReviewHistograms {
    fn default() -> ReviewHistograms {
        ReviewHistograms(Family::new_with_constructor(
            (|| Histogram::new(REVIEW_SECONDS)) as fn() -> Histogram,
        ))
    }
}

/// A rule of a pipeline that fired, and whether it is enforced.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct RuleLabel {
    pub(crate) pipeline: String,
    pub(crate) rule: String,
    pub(crate) mode: String,
}

/// A rule that notified somebody.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct NotifyLabel {
    pub(crate) pipeline: String,
    pub(crate) rule: String,
    pub(crate) whom: String,
}

/// A challenge that was issued, by the rule that asked for it first.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct ChallengeLabel {
    pub(crate) pipeline: String,
    pub(crate) rule: String,
}

/// A challenge that came back, and what came of it: `solved`, or why it was refused. The rule is empty where it is not known.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct ChallengeOutcomeLabel {
    pub(crate) pipeline: String,
    pub(crate) rule: String,
    pub(crate) outcome: &'static str,
}

/// The token of a form that was sent: `opened`, or why it was refused.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct FormLabel {
    pub(crate) pipeline: String,
    pub(crate) outcome: String,
}

/// Bait that was taken: `link`, `field` or `parameter`.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct BaitLabel {
    pub(crate) pipeline: String,
    pub(crate) bait: String,
}

/// A limit, and what it said: `allowed`, `refused`, `silent`, `would_refuse`, `exempt` or `unknown`.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct LimitLabel {
    pub(crate) limit: String,
    pub(crate) result: String,
}

/// The result of changing the rules.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct ReloadLabel {
    pub(crate) result: String,
}

/// The action that was enforced, and that of a candidate.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct DisagreementLabel {
    pub(crate) pipeline: String,
    pub(crate) enforced: String,
    pub(crate) candidate: String,
}

/// The engine's counters. All are cheap to add to and shared by their registry.
#[derive(Debug, Default)]
pub struct EngineMetrics {
    pub(crate) fields_events: Family<PipelineLabel, Counter>,
    pub(crate) fields_clamped: Family<PipelineLabel, Counter>,
    pub(crate) fields_ignored: Family<PipelineLabel, Counter>,
    pub(crate) unknown_events: Family<PipelineLabel, Counter>,
    pub(crate) keys_derived: Family<PipelineLabel, Counter>,
    pub(crate) observe_duplicates: Family<PipelineLabel, Counter>,
    pub(crate) observe_failures: Family<PipelineLabel, Counter>,
    pub(crate) judge_verdicts: Family<ActionLabel, Counter>,
    pub(crate) judge_fired: Family<RuleLabel, Counter>,
    pub(crate) judge_notified: Family<NotifyLabel, Counter>,
    pub(crate) candidate_events: Family<PipelineLabel, Counter>,
    pub(crate) canary_decisions: Family<PipelineLabel, Counter>,
    pub(crate) candidate_disagreements: Family<DisagreementLabel, Counter>,
    pub(crate) rules_reloads: Family<ReloadLabel, Counter>,
    pub(crate) limits_taken: Family<LimitLabel, Counter>,
    pub(crate) bans_passed_over: Family<PassedOverLabel, Counter>,
    pub(crate) settle_failures: Counter,
    pub(crate) journal_failures: Counter,
    pub(crate) journal_records: Counter,
    pub(crate) feedback_given: Family<PipelineLabel, Counter>,
    pub(crate) feedback_judged: Family<JudgementLabel, Counter>,
    pub(crate) reviews_queued: Family<ActionLabel, Counter>,
    pub(crate) reviews_refused: Family<ActionLabel, Counter>,
    pub(crate) reviews_crowded_out: Counter,
    pub(crate) reviews_decided: Family<ReviewLabel, Counter>,
    pub(crate) reviews_decided_seconds: ReviewHistograms,
    pub(crate) reviews_compared: Family<ReviewVoteLabel, Counter>,
    pub(crate) challenges: ChallengeMetrics,
    pub(crate) forms: FormMetrics,
    /// The counters that events add to, by pipeline.
    of_pipelines: RwLock<Vec<(String, Arc<PipelineCounters>)>>,
}

/// The counters of a pipeline that events add to: they are not sought by a label that is made for each event.
#[derive(Debug)]
pub(crate) struct PipelineCounters {
    pub(crate) fields_events: Counter,
    pub(crate) keys_derived: Counter,
    /// The counter of fields that were ignored, once any event was read that could have had some.
    fields_ignored: OnceLock<Counter>,
    /// The counters of verdicts, by the number of their action, from the first on.
    verdicts: [OnceLock<Counter>; Action::ALL.len()],
    /// The counters of rules that fired, enforced and in shadow, by the rule's name.
    fired: RwLock<HashMap<String, [Option<Counter>; 2]>>,
}

impl EngineMetrics {
    /// The counters of a pipeline.
    pub(crate) fn of_pipeline(&self, pipeline: &Pipeline) -> Arc<PipelineCounters> {
        let find = |known: &[(String, Arc<PipelineCounters>)]| {
            known.iter().find(|(name, _)| *name == pipeline.name).map(|(_, counters)| Arc::clone(counters))
        };
        if let Some(known) = find(&self.of_pipelines.read()) {
            return known;
        }
        let label = label(pipeline);
        let counters = Arc::new(PipelineCounters {
            fields_events: self.fields_events.get_or_create(&label).clone(),
            keys_derived: self.keys_derived.get_or_create(&label).clone(),
            fields_ignored: OnceLock::new(),
            verdicts: [const { OnceLock::new() }; Action::ALL.len()],
            fired: RwLock::default(),
        });
        let mut known = self.of_pipelines.write();
        find(&known).unwrap_or_else(|| {
            known.push((pipeline.name.clone(), Arc::clone(&counters)));
            counters
        })
    }

    /// Counts fields of an event of a pipeline that were ignored: often none.
    pub(crate) fn count_ignored(&self, pipeline: &Pipeline, count: u64) {
        let make = || self.fields_ignored.get_or_create(&label(pipeline)).clone();
        self.of_pipeline(pipeline).fields_ignored.get_or_init(make).inc_by(count);
    }

    /// Counts verdicts of a pipeline that have the same action.
    pub(crate) fn count_verdicts(
        &self,
        (pipeline, counters): (&Pipeline, &PipelineCounters),
        action: Action,
        count: u64,
    ) {
        let make = || {
            let label = ActionLabel { pipeline: pipeline.name.clone(), action: action.to_string() };
            self.judge_verdicts.get_or_create(&label).clone()
        };
        counters.verdicts[action as usize].get_or_init(make).inc_by(count);
    }

    /// Counts that a rule of a pipeline has fired, enforced or in shadow.
    pub(crate) fn count_fired(
        &self,
        (pipeline, counters): (&Pipeline, &PipelineCounters),
        (rule, is_shadow): (&str, bool),
        count: u64,
    ) {
        let place = usize::from(is_shadow);
        if let Some(counter) = counters.fired.read().get(rule).and_then(|both| both[place].as_ref()) {
            counter.inc_by(count);
            return;
        }
        let mode = if is_shadow { "shadow" } else { "enforce" };
        let label =
            RuleLabel { pipeline: pipeline.name.clone(), rule: rule.to_owned(), mode: mode.to_owned() };
        let counter = self.judge_fired.get_or_create(&label).clone();
        counter.inc_by(count);
        counters.fired.write().entry(rule.to_owned()).or_default()[place] = Some(counter);
    }
}

/// The counters of forms and bait.
#[derive(Debug, Default)]
pub(crate) struct FormMetrics {
    pub(crate) issued: Family<PipelineLabel, Counter>,
    pub(crate) sent: Family<FormLabel, Counter>,
    pub(crate) bait: Family<BaitLabel, Counter>,
}

impl FormMetrics {
    fn register(&self, registry: &mut Registry) {
        registry.register("tollhouse_forms_issued", "Form tokens issued", self.issued.clone());
        registry.register(
            "tollhouse_forms_sent",
            "Forms sent with a token, by result: `opened`, or why the token was refused",
            self.sent.clone(),
        );
        registry.register(
            "tollhouse_bait_taken",
            "Events that took bait, by what they took: `link`, `field` or `parameter`",
            self.bait.clone(),
        );
    }
}

/// The challenges that a rule has asked for, and what came of them. Those that are neither solved nor answered wrongly were given
/// up, or are still worked on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChallengeTally {
    /// Challenges that were issued.
    pub issued: u64,
    /// Challenges that came back solved.
    pub solved: u64,
    /// Challenges that came back with a wrong solution.
    pub unsolved: u64,
    /// The mean time from issue to solution.
    pub mean_seconds: Option<f64>,
}

/// The word for a challenge that was solved.
pub(crate) const SOLVED: &str = "solved";

/// The counters of challenges.
#[derive(Debug)]
pub(crate) struct ChallengeMetrics {
    pub(crate) issued: Family<ChallengeLabel, Counter>,
    pub(crate) shown: Family<ChallengeOutcomeLabel, Counter>,
    pub(crate) seconds: Family<ChallengeLabel, Histogram>,
    /// The sums of `seconds`, which cannot be read back from it.
    solving: Family<ChallengeLabel, Counter<f64, AtomicU64>>,
}

/// Bounds of the times in which challenges are solved, in seconds.
const SOLVING_SECONDS: [f64; 10] = [0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 60.0, 300.0];

impl Default for ChallengeMetrics {
    fn default() -> ChallengeMetrics {
        let histogram = (|| Histogram::new(SOLVING_SECONDS)) as fn() -> Histogram;
        ChallengeMetrics {
            issued: Family::default(),
            shown: Family::default(),
            seconds: Family::new_with_constructor(histogram),
            solving: Family::default(),
        }
    }
}

impl ChallengeMetrics {
    /// Counts the time that a challenge took from its issue to its solution.
    pub(crate) fn solved_in(&self, of: &ChallengeLabel, seconds: f64) {
        self.seconds.get_or_create(of).observe(seconds);
        self.solving.get_or_create(of).inc_by(seconds);
    }

    /// The challenges of a rule that this node has issued since it was started, and what came of them.
    pub(crate) fn tally(&self, of: &ChallengeLabel) -> ChallengeTally {
        let shown = |outcome| {
            let label =
                ChallengeOutcomeLabel { pipeline: of.pipeline.clone(), rule: of.rule.clone(), outcome };
            self.shown.get(&label).map_or(0, |counter| counter.get())
        };
        let solved = shown(SOLVED);
        let seconds = self.solving.get(of).map_or(0.0, |counter| counter.get());
        ChallengeTally {
            issued: self.issued.get(of).map_or(0, |counter| counter.get()),
            solved,
            unsolved: shown(ChallengeRefusal::Unsolved.word()),
            mean_seconds: (solved > 0).then(|| seconds / solved as f64),
        }
    }

    fn register(&self, registry: &mut Registry) {
        registry.register(
            "tollhouse_challenges_issued",
            "Challenges issued, by the rule with the highest score that asked for them",
            self.issued.clone(),
        );
        registry.register(
            "tollhouse_challenges_shown",
            "Challenges answered, by that rule and result: `solved`, or why they were refused; without scripts `rendered` or `waited`. Those that were issued and not answered were given up",
            self.shown.clone(),
        );
        registry.register(
            "tollhouse_challenge_seconds",
            "Seconds from the issue of a challenge to its solution, by that rule",
            self.seconds.clone(),
        );
    }
}

impl EngineMetrics {
    /// Counts bans that the allow list has passed over.
    pub(crate) fn count_passed_over(&self, origin: &'static str, setting: &'static str, count: u64) {
        self.bans_passed_over.get_or_create(&PassedOverLabel { origin, setting }).inc_by(count);
    }

    /// Registers all counters under `tollhouse_`.
    pub fn register(&self, registry: &mut Registry) {
        let mut register = |name: &str, help: &str, metric: &Family<PipelineLabel, Counter>| {
            registry.register(name, help, metric.clone());
        };
        register("tollhouse_fields_events", "Events taken in", &self.fields_events);
        register(
            "tollhouse_fields_clamped",
            "Events whose time was too far in the future",
            &self.fields_clamped,
        );
        register(
            "tollhouse_fields_ignored",
            "Fields that were unknown or of the wrong type",
            &self.fields_ignored,
        );
        register(
            "tollhouse_events_unknown",
            "Events with a field that the pipeline does not define, or with no field that it defines",
            &self.unknown_events,
        );
        register("tollhouse_keys_derived", "Keys that events were counted under", &self.keys_derived);
        register(
            "tollhouse_observe_duplicates",
            "Events that had been counted before",
            &self.observe_duplicates,
        );
        register("tollhouse_observe_failures", "Events judged without statistics", &self.observe_failures);
        register("tollhouse_feedback_given", "Feedback and training requests accepted", &self.feedback_given);
        register(
            "tollhouse_candidate_events",
            "Events that a candidate judged beside the enforced rules",
            &self.candidate_events,
        );
        register(
            "tollhouse_canary_decisions",
            "Events for which a candidate decided, as a canary",
            &self.canary_decisions,
        );
        registry.register(
            "tollhouse_candidate_disagreements",
            "Events for which a candidate's action differs from the enforced one",
            self.candidate_disagreements.clone(),
        );
        registry.register(
            "tollhouse_rules_reloads",
            "Reloads of rules, by result: ok, unchanged, refused",
            self.rules_reloads.clone(),
        );
        registry.register(
            "tollhouse_limits_taken",
            "Takes from limits, by result",
            self.limits_taken.clone(),
        );
        registry.register(
            "tollhouse_feedback_judged",
            "Decisions that a trusted reporter has judged, by action and side: the share of `good` ones that were acted on is the false positive rate",
            self.feedback_judged.clone(),
        );
        self.challenges.register(registry);
        registry.register("tollhouse_reviews_queued", "Reviews queued", self.reviews_queued.clone());
        registry.register(
            "tollhouse_reviews_refused",
            "Reviews not queued because the queue is full of more important ones",
            self.reviews_refused.clone(),
        );
        registry.register(
            "tollhouse_reviews_crowded_out",
            "Reviews removed from a full queue to make room",
            self.reviews_crowded_out.clone(),
        );
        registry.register(
            "tollhouse_reviews_decided",
            "Reviews decided, by verdict and whether within the service level",
            self.reviews_decided.clone(),
        );
        registry.register(
            "tollhouse_reviews_decided_seconds",
            "Time from an event to the decision of reviewers, in seconds",
            self.reviews_decided_seconds.0.clone(),
        );
        registry.register(
            "tollhouse_reviews_compared",
            "Votes of reviewers on reviews that another reviewer had voted on, by whether they agreed",
            self.reviews_compared.clone(),
        );
        self.forms.register(registry);
        let unlogged = self.journal_failures.clone();
        registry.register("tollhouse_journal_failures", "Decisions that could not be logged", unlogged);
        registry.register(
            "tollhouse_bans_passed_over",
            "Bans without effect because of the allow list, by origin (`rule`, `post`, or `list` for older ones) and by its setting",
            self.bans_passed_over.clone(),
        );
        let failures = self.settle_failures.clone();
        registry.register("tollhouse_settle_failures", "Verdicts that could not be counted", failures);
        registry.register("tollhouse_judge_verdicts", "Verdicts by action", self.judge_verdicts.clone());
        registry.register("tollhouse_judge_fired", "Rules that fired", self.judge_fired.clone());
        registry.register("tollhouse_judge_notified", "Notifications of rules", self.judge_notified.clone());
        registry.register(
            "tollhouse_journal_records",
            "Records appended to the journal",
            self.journal_records.clone(),
        );
    }
}

/// Returns the label of a pipeline.
pub(crate) fn label(pipeline: &Pipeline) -> PipelineLabel {
    PipelineLabel { pipeline: pipeline.name.clone() }
}
