//! Explanation of a decision, with names instead of numbers and slots.

use std::collections::HashMap;

use catboost::ModelScratch;
use event::{Column, Facts, Kind, Schema, Secret, Shingle, Slot, Span, Time, Value};
use futures_util::FutureExt;
use journal::{DecisionRow, JournalArchive, KeyReading, Record, RecordId, VersionDescription};
use judge::{Mode, NearMiss, Rule, UnmetPart, Verdict};
use stats::{LedgerError, Quality, Reading};

use crate::content_keys::{ContentError, ContentKeys};
use crate::directory::Directory;
use crate::error::DecisionLookupError;
use crate::judged_scores::PromisedLine;
use crate::metrics::{ChallengeLabel, ChallengeTally};
use crate::pipeline::canary;
use crate::pipeline::classifiers::{ClassifierReading, ExplainedToken};
use crate::pipeline::keys::PreparedEvent;
use crate::pipeline::log;
use crate::pipeline::observe::{ObserveMode, ObservedEvent};
use crate::pipeline::reputation::{self, ExplainedReputation, KnownReadings};
use crate::pipeline::score;
use crate::{Engine, aggregate, reload};
use plan::{CHALLENGE_COST, ChallengePlan, LinearView, ModelPlan, Pipeline, Plan, RuleLimit};

/// A decision, or an event that was only counted, laid open.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// The decision; `None` for an event that was not judged.
    pub id: Option<RecordId>,
    /// The pipeline.
    pub pipeline: String,
    /// Its version.
    pub version: String,
    /// The caller's name for the event.
    pub event_id: Option<String>,
    /// The time of the event.
    pub time: Time,
    /// The time of its arrival.
    pub arrival: Time,
    /// An event of this id had been counted before.
    pub duplicate: bool,
    /// Every fact that has a value, readings included, in the order in which the stages fill them.
    pub facts: Vec<(String, Value)>,
    /// The keys with what was known of them before the event.
    pub keys: Vec<ExplainedKey>,
    /// The verdict that was decided; `None` for an event that was not judged.
    pub verdict: Option<Verdict>,
    /// The description of each rule that the verdict or `closest` names.
    pub descriptions: HashMap<String, String>,
    /// The part of the score that each reason adds, in their order: less than its own score where a group's bounds say so.
    /// `None` where it is not known.
    pub counted: Option<Vec<f64>>,
    /// The rules that came closest to firing, closest first.
    pub closest: Vec<ExplainedNearMiss>,
    /// The limits that are for some events only, and whether for this one.
    pub limits: Vec<ExplainedLimit>,
    /// The outputs of models, and the facts and readings that made them.
    pub models: Vec<ExplainedModel>,
    /// The present knowledge of classifiers on the event's tokens.
    pub classifiers: Vec<ExplainedClassifier>,
    /// The reputations of its keys, as they were before the event.
    pub reputations: Vec<ExplainedReputation>,
    /// The challenge that was asked for, as it fares with all who were asked for the same reason; `None` where none was asked for,
    /// and where no node was asked.
    pub challenge: Option<ExplainedChallenge>,
    /// The bands that promise a share of false positives, as they begin now; empty where no node was asked. The facts `line.ACTION`
    /// say where they began for the event.
    pub lines: Vec<PromisedLine>,
    /// The reason for content that cannot be shown, and for an empty or incomplete `closest` or `models`.
    pub unknown: Option<String>,
}

/// The challenge that a decision asked for.
#[derive(Clone, Debug)]
pub struct ExplainedChallenge {
    /// The rule that asked for it: the weightiest reason.
    pub rule: String,
    /// The work that was asked for, in thousands of iterations of SHA-256.
    pub units: f64,
    /// The challenges of this rule.
    pub tally: ChallengeTally,
}

/// A rule that did not fire: see [`judge::NearMiss`].
#[derive(Clone, Debug)]
pub struct ExplainedNearMiss {
    /// Its name.
    pub rule: String,
    /// The mode of the rule.
    pub mode: Mode,
    /// Its own score.
    pub score: f64,
    /// The near miss.
    pub miss: NearMiss,
}

/// A limit that is for some events only.
#[derive(Clone, Debug, PartialEq)]
pub struct ExplainedLimit {
    /// Its name.
    pub limit: String,
    /// The condition under which events take from it.
    pub when: String,
    /// The fewest parts of the condition that would have to be otherwise for the event to take from it. None where it took.
    pub unmet: Vec<UnmetPart>,
}

/// The output of a model for an event.
#[derive(Clone, Debug, PartialEq)]
pub struct ExplainedModel {
    /// The name by which rules call the output: the model, or the class or target that it gave most to.
    pub name: String,
    /// The output, as it was logged.
    pub output: f64,
    /// The raw value that this is made of: the sum of `expected`, of the contributions and of `others`.
    pub raw: f64,
    /// The raw value that is expected of no event in particular.
    pub expected: f64,
    /// The features that moved it most, each with its value, `None` where missing, and what it added: exact Shapley
    /// values. The one that moved it most first.
    pub contributions: Vec<(String, Option<Value>, f64)>,
    /// The sum of what all other features added.
    pub others: f64,
}

/// The knowledge of a classifier on an event's tokens now, which need not be what it knew then.
#[derive(Clone, Debug, PartialEq)]
pub struct ExplainedClassifier {
    /// Its name.
    pub name: String,
    /// The probability that it gives now.
    pub probability: f64,
    /// The log-odds that its linear model of contents gives now.
    pub linear: Option<f64>,
    /// The log-odds that its linear model of this site gives now.
    pub site: Option<f64>,
    /// The tokens that move it most, the one that does most first.
    pub tokens: Vec<ExplainedToken>,
    /// The sum of what all other tokens add to the log-odds.
    pub others: f64,
}

/// Rules that did not fire that are shown.
const CLOSEST: usize = 5;
/// Features of a model that are shown.
const FEATURES: usize = 8;

/// A key and its reading.
#[derive(Clone, Debug)]
pub struct ExplainedKey {
    /// The kind, or the distinct count.
    pub kind: String,
    /// The hashed piece, unless its fact is not journalled.
    pub piece: Option<String>,
    /// Its hash.
    pub shingle: Shingle,
    /// The reliability of the reading.
    pub quality: Quality,
    /// First and last time anything was counted.
    pub first: Option<Time>,
    /// See `first`.
    pub last: Option<Time>,
    /// Counts that are not zero: counter, window, count.
    pub counts: Vec<(String, Span, u64)>,
    /// The values that an aggregate has beside first and last time: `count`, `sum`, `min`, `max`, `decayed_1h`.
    pub values: Vec<(String, Value)>,
}

/// Tokens of a classifier that are shown.
const TOKENS_SHOWN: usize = 15;

impl Engine {
    /// A past decision with everything that it was made of, as it was logged. Which rules came closest and what moved
    /// models is told while the version that decided is in force or kept. Blocks.
    pub fn explain(&self, id: RecordId) -> Result<Explanation, DecisionLookupError> {
        let journal = self.journal.as_ref().ok_or(DecisionLookupError::NoJournal)?;
        match journal.find(id)? {
            Some(Record::Decision(row)) => {
                let description = journal.description(&row.version)?;
                Ok(self.explain_row(id, row, &description))
            }
            _ => Err(DecisionLookupError::NoDecision(id)),
        }
    }

    /// Explains a decision by its row.
    pub(crate) fn explain_row(
        &self,
        id: RecordId,
        mut row: Box<DecisionRow>,
        description: &VersionDescription,
    ) -> Explanation {
        let content = self.content_keys.unseal(id, &mut row, description);
        let decided_by = self.pipeline_of(&row.pipeline, &row.version);
        let classifiers = self.explain_classifiers(&row, description);
        let decided_by = decided_by.as_deref();
        let mut explanation = Explanation::of_row(id, *row, description, decided_by, &self.secret);
        explanation.classifiers = classifiers;
        explanation.lines = self.lines_of(&explanation.pipeline);
        explanation.note_content(content);
        explanation.challenge = self.explain_challenge(&explanation);
        explanation
    }

    /// Returns the lines of a pipeline as they are now.
    fn lines_of(&self, pipeline: &str) -> Vec<PromisedLine> {
        let plan = self.plan();
        plan.pipeline(Some(pipeline)).map_or_else(Vec::new, |pipeline| self.promised_lines(pipeline))
    }

    /// Returns how the challenge fares that a decision asked for.
    fn explain_challenge(&self, explanation: &Explanation) -> Option<ExplainedChallenge> {
        let verdict = explanation.verdict.as_ref().filter(|verdict| ChallengePlan::is_for(verdict.action))?;
        let cost = explanation.facts.iter().find(|(name, _)| name == CHALLENGE_COST)?;
        let Value::Float(units) = cost.1 else { return None };
        let rule = verdict.reasons.first().map_or_else(String::new, |reason| reason.rule.clone());
        let of = ChallengeLabel { pipeline: explanation.pipeline.clone(), rule: rule.clone() };
        Some(ExplainedChallenge { rule, units, tally: self.metrics.challenges.tally(&of) })
    }

    /// Returns what classifiers know of a past decision's tokens; none where the ledger cannot be asked.
    fn explain_classifiers(
        &self,
        row: &DecisionRow,
        description: &VersionDescription,
    ) -> Vec<ExplainedClassifier> {
        let plan = self.plan();
        let Some(pipeline) = plan.pipeline(Some(&row.pipeline)) else { return Vec::new() };
        let mut explained = Vec::new();
        for (plan, tokens) in pipeline.classifiers.iter().zip(self.tokens_of_row(pipeline, row, description))
        {
            let Some(tokens) = tokens else { continue };
            // A look adds nothing, so it waits for no flush.
            let looked = [tokens.look(row.time)];
            let Some(Ok(outcomes)) = self.ledger.observe(&looked).now_or_never() else { continue };
            let Some(known) = ClassifierReading::of(&tokens, outcomes.readings(0).iter()) else { continue };
            let value = |name: &str| description.slot(name).and_then(|slot| row.facts.get(slot));
            let mut shares = tokens.shares(plan, &self.secret, outcomes.readings(0).iter(), value);
            shares.sort_by(|one, other| other.adds.abs().total_cmp(&one.adds.abs()));
            let others =
                shares.split_off(shares.len().min(TOKENS_SHOWN)).iter().map(|token| token.adds).sum();
            explained.push(ExplainedClassifier {
                name: plan.name.clone(),
                probability: known.judgement.probability(),
                linear: self.learners.log_odds(&tokens, LinearView::Content),
                site: self.learners.log_odds(&tokens, LinearView::Site),
                tokens: shares,
                others,
            });
        }
        explained
    }

    /// Counts an event without judging it, and gives its keys' readings from before it.
    pub async fn observe(&self, prepared: PreparedEvent) -> Result<Explanation, LedgerError> {
        let observed = self.observe_one(prepared, ObserveMode::Seen).await?;
        Ok(Explanation::of_observed(&observed.event(0), &self.secret))
    }

    /// Returns what would be decided on an event by what is known now, laid open. Nothing is counted, learned, settled or logged.
    ///
    /// # Errors
    /// If statistics cannot be had, whatever the pipeline's `on_error` says.
    pub async fn check(&self, prepared: PreparedEvent) -> Result<Explanation, LedgerError> {
        let mut observed = self.observe_one(prepared, ObserveMode::Nothing).await?;
        score::score(observed.prepared_mut());
        let event = observed.event(0);
        let row = &event.prepared.row;
        let mut verdict = judge::judge(&row.pipeline.rules, &row.facts);
        row.pipeline.rules.explain(&mut verdict, &row.facts);
        verdict.reasons.extend(canary::reason(event.prepared));
        let mut explanation = Explanation::of_peeked(&event, &self.secret);
        let fired = verdict.reasons.iter().chain(&verdict.shadow);
        let rules = row.pipeline.rules.rules().iter();
        let description =
            |name: &str| rules.clone().find(|rule| rule.name == name).map(|rule| &rule.description);
        explanation.descriptions =
            fired.filter_map(|fired| Some((fired.rule.clone(), description(&fired.rule)?.clone()))).collect();
        explanation.verdict = Some(verdict);
        explanation.lines = self.promised_lines(&row.pipeline);
        let limits = std::mem::take(&mut explanation.limits);
        explanation.add_near_misses(&row.facts, &row.pipeline);
        // Here all facts are known, also those that the journal would not keep.
        explanation.limits = limits;
        Ok(explanation)
    }

    /// Returns what is known of an event's keys; counts nothing and creates nothing.
    pub async fn peek(&self, prepared: PreparedEvent) -> Result<Explanation, LedgerError> {
        let observed = self.observe_one(prepared, ObserveMode::Nothing).await?;
        Ok(Explanation::of_peeked(&observed.event(0), &self.secret))
    }
}

impl Directory {
    /// A past decision as the journal has it, with what the version that decided tells where it is in force or kept.
    /// Nothing is locked: a server may run on the directory. Statistics are not asked, so nothing is told of classifiers.
    ///
    /// # Errors
    /// [`DecisionLookupError::NoDecision`] for one that is not in the files, and what cannot be read.
    pub fn explain(&self, plan: &Plan, id: RecordId) -> Result<Explanation, DecisionLookupError> {
        self.explain_in(&JournalArchive::open(&self.journal_path())?, plan, id)
    }

    /// A past decision as an archive has it, perhaps of another node with the same secret.
    ///
    /// # Errors
    /// As [`Directory::explain`].
    pub fn explain_in(
        &self,
        archive: &JournalArchive,
        plan: &Plan,
        id: RecordId,
    ) -> Result<Explanation, DecisionLookupError> {
        let Some(Record::Decision(mut row)) = archive.find(id)? else {
            return Err(DecisionLookupError::NoDecision(id));
        };
        let description = archive.description(&row.version)?;
        // Keys that cannot be read are as good as lost.
        let keys = ContentKeys::open(self.path()).unwrap_or_default();
        let content = keys.unseal(id, &mut row, &description);
        let decided_by = reload::kept_pipeline(self, plan, &row.pipeline, &row.version);
        let mut explained =
            Explanation::of_row(id, *row, &description, decided_by.as_deref(), &self.secret()?);
        explained.note_content(content);
        Ok(explained)
    }
}

impl Explanation {
    /// The explanation of a logged decision. What the pipeline that decided can tell is told where it is at hand.
    pub(crate) fn of_row(
        id: RecordId,
        row: DecisionRow,
        description: &VersionDescription,
        decided_by: Option<&Pipeline>,
        secret: &Secret,
    ) -> Explanation {
        // A later release may have other columns.
        let decided_by = decided_by.filter(|it| it.schema.columns() == description.columns);
        let facts = decided_by.map(|_| row.facts.clone());
        let reputations = decided_by.map(|pipeline| logged_reputations(pipeline, &row, description));
        let mut explanation = Explanation::of_row_alone(id, row, description, secret);
        explanation.reputations = reputations.unwrap_or_default();
        if let (Some(pipeline), Some(facts)) = (decided_by, facts) {
            explanation.add_near_misses(&facts, pipeline);
        }
        explanation
    }

    fn of_row_alone(
        id: RecordId,
        row: DecisionRow,
        description: &VersionDescription,
        secret: &Secret,
    ) -> Explanation {
        let names: HashMap<&str, &str> =
            description.rules.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        let reasons = row.verdict.reasons.iter().chain(&row.verdict.shadow);
        let descriptions = reasons
            .filter_map(|reason| Some((reason.rule.clone(), (*names.get(reason.rule.as_str())?).to_owned())))
            .collect();
        Explanation {
            id: Some(id),
            keys: explain_keys(row.keys, &row.facts, description, secret),
            facts: named(&description.columns, &row.facts),
            pipeline: row.pipeline,
            version: row.version,
            event_id: row.event_id,
            time: row.time,
            arrival: row.arrival,
            duplicate: row.duplicate,
            verdict: Some(row.verdict),
            descriptions,
            counted: None,
            closest: Vec::new(),
            limits: Vec::new(),
            models: Vec::new(),
            classifiers: Vec::new(),
            reputations: Vec::new(),
            challenge: None,
            lines: Vec::new(),
            unknown: Some("the configuration that decided is not at hand".to_owned()),
        }
    }

    /// Adds what only the pipeline that decided can tell, from the facts as they were logged.
    pub(crate) fn add_near_misses(&mut self, facts: &Facts, pipeline: &Pipeline) {
        let Some(verdict) = &self.verdict else { return };
        let is_kept = |slot: Slot| pipeline.schema.column(slot).journalled;
        let rules = &pipeline.rules;
        let is_known = |rule: &Rule| rule.reads().all(|read| is_kept(read.slot));
        self.closest = rules
            .nearest(verdict, facts, CLOSEST, is_known)
            .into_iter()
            .map(|miss| {
                let rule = &rules.rules()[miss.rule];
                self.descriptions.insert(rule.name.clone(), rule.description.clone());
                ExplainedNearMiss { rule: rule.name.clone(), mode: rule.mode, score: rule.score, miss }
            })
            .collect();
        self.counted = Some(rules.counted(verdict));
        self.limits = explain_limits(pipeline, facts, is_kept);
        let mut scratch = ModelScratch::default();
        let enabled = pipeline.models.iter().filter(|model| model.mode != Mode::Off);
        let explained: Vec<Option<ExplainedModel>> =
            enabled.map(|model| explain_model(model, facts, &pipeline.schema, &mut scratch)).collect();
        let all_known = rules.rules().iter().all(is_known);
        let unknown = if explained.iter().any(Option::is_none) {
            Some("a model takes facts that are not journalled, or its file has no weights of leaves")
        } else if !all_known {
            Some("rules that read facts which are not journalled are left out")
        } else {
            None
        };
        self.unknown = unknown.map(str::to_owned);
        self.models = explained.into_iter().flatten().collect();
    }

    /// Says why content is not shown, if it could not be read.
    fn note_content(&mut self, content: Result<(), ContentError>) {
        let Err(error) = content else { return };
        self.unknown = Some(match self.unknown.take() {
            Some(unknown) => format!("{error}; {unknown}"),
            None => error.to_string(),
        });
    }

    /// An event that was looked up as if it were to be decided.
    pub(crate) fn of_peeked(observed: &ObservedEvent<'_>, secret: &Secret) -> Explanation {
        let row = &observed.prepared.row;
        let limits = explain_limits(&row.pipeline, &row.facts, |_| true);
        Explanation { limits, ..Explanation::of_observed(observed, secret) }
    }

    /// An event that was only counted.
    pub(crate) fn of_observed(observed: &ObservedEvent<'_>, secret: &Secret) -> Explanation {
        let prepared = observed.prepared;
        let keys = observed.known().map(|(key, reading)| KeyReading::new(key, &reading.to_reading()));
        let pipeline = &prepared.row.pipeline;
        Explanation {
            id: None,
            pipeline: pipeline.name.clone(),
            version: pipeline.version.clone(),
            event_id: prepared.row.event_id.clone(),
            time: prepared.row.time,
            arrival: prepared.row.arrival,
            duplicate: observed.duplicate,
            facts: named(pipeline.schema.columns(), &prepared.row.facts),
            keys: explain_keys(keys.collect(), &prepared.row.facts, &log::description(pipeline), secret),
            verdict: None,
            descriptions: HashMap::new(),
            counted: None,
            closest: Vec::new(),
            limits: Vec::new(),
            models: Vec::new(),
            classifiers: Vec::new(),
            reputations: reputation::explain_all(pipeline, &observed.for_reputations()),
            challenge: None,
            lines: Vec::new(),
            unknown: None,
        }
    }
}

/// The reputations of a row's keys, by the readings that were logged.
fn logged_reputations(
    pipeline: &Pipeline,
    row: &DecisionRow,
    description: &VersionDescription,
) -> Vec<ExplainedReputation> {
    if pipeline.reputations.is_empty() {
        return Vec::new();
    }
    let known = row.keys.iter().map(|key| (key.kind, key.shingle, key.reading.clone()));
    let readings: Vec<_> = known.collect();
    let place = |kind: Kind, window: Span| {
        let kind = description.kinds.iter().find(|known| known.kind == kind)?;
        kind.windows.iter().position(|known| *known == window)
    };
    reputation::explain_all(pipeline, &KnownReadings { pipeline, readings: &readings, place })
}

/// The limits of a pipeline whose conditions read nothing that is not there any more.
fn explain_limits(pipeline: &Pipeline, facts: &Facts, is_kept: impl Fn(Slot) -> bool) -> Vec<ExplainedLimit> {
    let limits = pipeline.limits.iter().filter_map(|RuleLimit { limit, when, .. }| {
        let (condition, source) = when.as_ref()?;
        condition.reads().iter().all(|read| is_kept(read.slot)).then(|| ExplainedLimit {
            limit: limit.name.to_string(),
            when: source.clone(),
            unmet: condition.unmet(facts),
        })
    });
    limits.collect()
}

/// None where the model does not say again what it said then: something that it took is not in the facts any more.
fn explain_model(
    plan: &ModelPlan,
    facts: &Facts,
    schema: &Schema,
    scratch: &mut ModelScratch,
) -> Option<ExplainedModel> {
    /// The rounding that is allowed for: what is computed again in the same way differs in nothing else.
    const SLACK: f64 = 1e-9;
    let logged = |slot: Slot| match facts.get(slot) {
        Some(Value::Float(float)) => Some(*float),
        _ => None,
    };
    let raw = plan.bound().raw(facts, scratch).to_vec();
    let mut again = vec![0.0; raw.len()];
    plan.predict(&raw, &mut again);
    let said: Vec<f64> = plan.slots().map(logged).collect::<Option<_>>()?;
    let alike = |(said, again): (&f64, &f64)| (said - again).abs() <= SLACK * said.abs().max(1.0);
    if said.len() != again.len() || !said.iter().zip(&again).all(alike) {
        return None;
    }
    let (output, _) = said.iter().enumerate().max_by(|(_, a), (_, b)| a.total_cmp(b))?;
    let features = plan.model().features();
    let all = plan.bound().contributions(facts, scratch).ok()?;
    let of_output = all.chunks_exact(features.len() + 1).nth(output)?;
    let (expected, of_features) = of_output.split_last()?;
    let mut order: Vec<usize> = (0..features.len()).filter(|index| of_features[*index] != 0.0).collect();
    order.sort_by(|a, b| of_features[*b].abs().total_cmp(&of_features[*a].abs()).then(a.cmp(b)));
    let others = order.iter().skip(FEATURES).map(|index| of_features[*index]).sum();
    let feature = |index: &usize| {
        let name = features[*index].name.clone();
        let value = schema.slot(&name).and_then(|slot| facts.get(slot)).cloned();
        (name, value, of_features[*index])
    };
    Some(ExplainedModel {
        name: plan.names().nth(output)?.to_owned(),
        output: said[output],
        raw: raw[output],
        expected: *expected,
        contributions: order.iter().take(FEATURES).map(feature).collect(),
        others,
    })
}

fn named(columns: &[Column], facts: &Facts) -> Vec<(String, Value)> {
    let values = columns.iter().zip(facts.values());
    values.filter_map(|(column, value)| Some((column.name.clone(), value.clone()?))).collect()
}

fn explain_keys(
    keys: Vec<KeyReading>,
    facts: &Facts,
    description: &VersionDescription,
    secret: &Secret,
) -> Vec<ExplainedKey> {
    let mut pieces: HashMap<(Kind, Shingle), String> = HashMap::new();
    let kinds: HashMap<Kind, _> = description.kinds.iter().map(|kind| (kind.kind, kind)).collect();
    for kind in &description.kinds {
        let mut named = |piece: &str| {
            pieces.insert((kind.kind, secret.shingle(piece.as_bytes())), piece.to_owned());
        };
        let fields = kind.fields().map(|(slot, normalise)| Some((facts.get(*slot), normalise.parse().ok()?)));
        let Some(fields) = fields.collect::<Option<Vec<_>>>() else { continue };
        match fields[..] {
            [] => {}
            [(Some(value), normalise)] => content::piece::pieces(value, normalise, &mut named),
            _ => content::composite::pieces(fields, &mut named),
        }
    }
    let mut explained: Vec<ExplainedKey> = Vec::with_capacity(keys.len());
    for KeyReading { kind, shingle, reading } in keys {
        let Some(description) = kinds.get(&kind) else { continue };
        let key = ExplainedKey {
            kind: description.name.clone(),
            piece: pieces.get(&(kind, shingle)).cloned(),
            shingle,
            quality: reading.quality,
            first: reading.first,
            last: reading.last,
            counts: counts(&reading, &description.counters, &description.windows),
            values: aggregate::values(&description.aggregate, &reading),
        };
        explained.push(key);
    }
    explained
}

fn counts(reading: &Reading, counters: &[String], windows: &[Span]) -> Vec<(String, Span, u64)> {
    let mut counts = Vec::new();
    for (counter, name) in counters.iter().enumerate() {
        for (index, window) in windows.iter().enumerate() {
            let count = reading.sum(index, counter);
            if count > 0 {
                counts.push((name.clone(), *window, count));
            }
        }
    }
    counts
}
