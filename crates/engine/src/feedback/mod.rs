//! Feedback about events: weighed by the reporter's standing, limited a day, and revocable.
//!
//! A report is a reporter's *vote* on one event: a judgement of what it was, or a signal of what was done with it. The
//! last vote of each sort stands: another class replaces the one before, and [`WITHDRAWN`] takes back both. What a vote added is taken back by the paired counters of [`stats::Layout`], at the time
//! of the vote, so that every window reads as if only the last vote had been said, whatever came in between.
//!
//! All that a vote changes is one request to the ledger, and so kept or lost together in a crash: the counters, the
//! reporter's standing, and the vote itself, without which it could not be taken back exactly. The votes are an aggregate
//! of their own under keys that are hashes of several things:
//!
//! | key | value |
//! |---|---|
//! | reporter and event | the [`Vote`](vote::Vote) that stands |
//! | reporter and thing | that the reporter has spoken on it |
//! | thing and side | how many have, and whether one of them decides |
//! | thing, side and number | who was the first, second, ... to |
//!
//! A *thing* is what an event shares with its like ([`plan::ReportsPlan::alike`]), or else the event itself.
//!
//! Classifiers are taught what counts of a vote, after it was counted ([`crate::pipeline::trainer`]).
//!
//! The idea to weigh reporters by whom they agree with is that of the truth evaluation system of Vipul's Razor
//! (Prakash and O'Donnell, Fighting spam with reputation systems, ACM Queue 3(9), 2005).

mod challenged;
mod signed_id;
mod standing;
mod vote;

use std::collections::BTreeMap;
use std::sync::Arc;

use event::{Key, Secret, Shingle, Slot, TableIndex, Time, Value};
use futures_util::future::join_all;
use journal::{
    DecisionRow, JournalError, KeyReading, Record, RecordId, ReplacedReport, ReportRecord, VersionDescription,
};
use judge::Action;
use stats::{
    Addition, AggregateColumn, CounterAmounts, DedupeMark, LedgerError, Observation, ObserveRequest, Origin,
    Reading,
};

use crate::error::{DecisionLookupError, UnknownName};
use crate::judged_scores::{JudgedScores, LearnerScores, event_name};
use crate::metrics::{JudgementLabel, label};
use crate::pipeline::classifiers::TokenKeys;
use crate::pipeline::keys;
use crate::pipeline::reputation;
use crate::pipeline::trainer::{HeldEvent, TrainingFeedback};
use crate::{Engine, PreparedEvent};
use plan::{
    FeedbackClass, FeedbackKind, Grade, KindPlan, Pipeline, REPORT, REPORTER, ReportsPlan, ValueAddition,
    WITHDRAWN, reporter,
};

pub(crate) use challenged::ChallengedDecisions;
pub use signed_id::ID_FIELD;
pub use standing::ReporterStanding;
use standing::VoterKeys;
use vote::Vote;

/// Most keys that a report adds to: an event's first. What it adds and what it takes back fit into one request.
const KEYS_MAX: usize = 1900;
/// Most values of distinct counts that a report adds.
const VALUES_MAX: usize = 256;
/// Words that are taken in together: so many decisions are in memory.
const AT_ONCE: usize = 256;
/// The number of times that a report is begun anew because the same reporter said something else of the same event meanwhile.
const TRIES: usize = 8;

/// Reasons to refuse feedback.
#[derive(Debug, thiserror::Error)]
pub enum FeedbackError {
    /// The decision cannot be looked up.
    #[error(transparent)]
    Lookup(#[from] DecisionLookupError),
    /// A decision of a pipeline that this plan does not have any more.
    #[error("the decision was made by the pipeline `{0}`, which this configuration does not have")]
    PipelineGone(String),
    /// A decision of a node of which this one does not have the statistics.
    #[error(
        "the node `{0}` made the decision, and counts what is said of it: this one does not share its statistics"
    )]
    Foreign(String),
    /// A feedback class that the pipeline does not have.
    #[error(transparent)]
    Class(#[from] UnknownName),
    /// A reporter said several things of one event at once, or far too many.
    #[error("the same reporter says more of the same event than can be taken in")]
    Busy,
    /// The ledger.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The journal.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// The feedback of somebody on an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeedbackInput<'a> {
    /// One of the pipeline's feedback classes, or [`WITHDRAWN`].
    pub class: &'a str,
    /// The reporter, e.g. an address. `None` for the node's operator, who is believed and not limited.
    pub by: Option<&'a str>,
}

impl<'a> From<&'a str> for FeedbackInput<'a> {
    fn from(class: &'a str) -> FeedbackInput<'a> {
        FeedbackInput { class, by: None }
    }
}

impl<'a> From<&'a String> for FeedbackInput<'a> {
    fn from(class: &'a String) -> FeedbackInput<'a> {
        FeedbackInput { class, by: None }
    }
}

/// The outcome of feedback.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedbackOutcome {
    /// Keys that were added to.
    pub keys: usize,
    /// Tokens of which classifiers know something else now.
    pub tokens: usize,
    /// True if the same feedback had been given before, and was not counted again.
    pub duplicate: bool,
    /// The amount by which each counter went up.
    pub weight: u8,
    /// More than a reporter may say in a day: it is taken in and counts nothing.
    pub limited: bool,
    /// The degree to which the reporter is believed.
    pub standing: ReporterStanding,
    /// The class that the same reporter had said of the same event before, which was taken back.
    pub replaced: Option<String>,
}

/// An event that is spoken of.
struct FeedbackSubject<'a> {
    pipeline: &'a Pipeline,
    /// Tells it from all others of the pipeline.
    name: String,
    /// Keys of the kinds that are counted.
    keys: &'a [Key],
    amounts: EventAmounts,
    /// Its tokens for each classifier; empty if there is none.
    tokens: &'a [Option<TokenKeys>],
    /// The hold on its tokens, if they were looked up before.
    held: Option<HeldEvent<'a>>,
    /// The time at which the feedback counts.
    time: Time,
    /// The time at which it is given.
    now: Time,
}

/// A decision that is spoken of, as far as feedback needs it.
struct DecidedEvent<'a> {
    id: RecordId,
    pipeline: &'a Pipeline,
    keys: &'a [Key],
    amounts: EventAmounts,
    tokens: &'a [Option<TokenKeys>],
    score: f64,
    learners: LearnerScores,
    action: Action,
}

/// The values by which votes on an event add to counters of amounts, by the kind that has these.
#[derive(Clone, Debug, Default)]
pub(crate) struct EventAmounts(Vec<(TableIndex<KindPlan>, i64)>);

impl EventAmounts {
    /// Returns true if a class of a pipeline's feedback adds to a counter of amounts.
    fn are_counted(pipeline: &Pipeline) -> bool {
        pipeline.kinds.iter().any(KindPlan::takes_amounts_back)
    }

    /// The values of an event, whose facts are asked for by slot.
    pub(crate) fn of<'f>(pipeline: &Pipeline, fact: impl Fn(Slot) -> Option<&'f Value>) -> EventAmounts {
        let plans = pipeline.kinds.entries().filter(|(_, plan)| plan.takes_amounts_back());
        EventAmounts(plans.filter_map(|(kind, plan)| Some((kind, plan.units(fact(plan.value?)?)?))).collect())
    }

    /// Bytes on the heap.
    fn bytes(&self) -> usize {
        self.0.len() * size_of::<(TableIndex<KindPlan>, i64)>()
    }

    fn get(&self, kind: TableIndex<KindPlan>) -> Option<i64> {
        self.0.iter().find(|(of, _)| *of == kind).map(|(_, value)| *value)
    }
}

/// The part of an event that votes add to.
#[derive(Clone, Copy)]
pub(crate) struct VoteTarget<'a> {
    pub(crate) pipeline: &'a Pipeline,
    pub(crate) secret: &'a Secret,
    pub(crate) keys: &'a [Key],
    pub(crate) amounts: &'a EventAmounts,
}

impl<'a> VoteTarget<'a> {
    /// Returns what a vote adds to the keys, or takes back: of the counters, values and distinct counts of its class. Values
    /// that were counted once stay counted.
    pub(crate) fn counted(
        self,
        counters: &'a [String],
        (weight, time): (u8, Time),
        taken_back: bool,
    ) -> impl Iterator<Item = Observation> + 'a {
        let VoteTarget { pipeline, secret, keys, amounts } = self;
        let is_counted = weight > 0 && !taken_back;
        let named = pipeline.distincts.iter().filter(move |plan| is_counted && counters.contains(&plan.name));
        let values = named.filter_map(|plan| Some((plan, pipeline.kinds[plan.members?].kind)));
        let values = values.flat_map(move |(plan, members)| {
            let owners = keys.iter().filter(|key| key.kind == pipeline.kinds[plan.per].kind);
            owners.flat_map(move |owner| {
                let members = keys.iter().filter(move |key| key.kind == members);
                members.map(move |member| Observation {
                    key: Key { kind: plan.kind, ..*owner },
                    time,
                    add: Addition::Distinct { pair: secret.pair(owner.shingle, member.shingle) },
                })
            })
        });
        let counts = keys.iter().take(KEYS_MAX).filter(move |_| weight > 0).filter_map(move |key| {
            let (kind, plan) = pipeline.kinds.entries().find(|(_, plan)| plan.kind == key.kind)?;
            let add = match plan.takes_events {
                true => count_additions(plan, counters, (weight, amounts.get(kind)), taken_back)?,
                false => Addition::Value(Some(value_addition(plan, counters, weight, taken_back)?)),
            };
            Some(Observation { key: *key, time, add })
        });
        counts.chain(values.take(VALUES_MAX))
    }
}

/// Returns what a vote of a weight adds to a kind's counters, or takes back, for an event of a value; `None` for nothing.
fn count_additions(
    plan: &KindPlan,
    counters: &[String],
    (weight, value): (u8, Option<i64>),
    taken_back: bool,
) -> Option<Addition> {
    let times = counters.iter().filter_map(|name| Some((plan.counter(name)?, u64::from(weight))));
    let into = |counter: u8| if taken_back { plan.taken_back(counter) } else { Some(counter) };
    let added = plan.amounts(times, value).filter_map(|(counter, amount)| Some((into(counter)?, amount)));
    let added: CounterAmounts = added.collect();
    added.iter().next()?;
    Some(Addition::Counters(added))
}

/// Returns the sum that a vote of a weight adds to a kind's aggregate, or takes back; `None` for nothing.
fn value_addition(plan: &KindPlan, counters: &[String], weight: u8, taken_back: bool) -> Option<i64> {
    let added = counters.iter().filter_map(|text| ValueAddition::parse(text));
    let units = added.filter(|added| added.kind == plan.name).filter_map(|added| added.units(plan.decimals));
    let weight = i64::from(weight);
    let sum = units.fold(0i64, i64::saturating_add);
    Some(sum.saturating_mul(if taken_back { -weight } else { weight })).filter(|sum| *sum != 0)
}

impl Engine {
    /// Takes in what somebody says about a past decision: the counters of the class go up for the keys that the
    /// decision's row names, at the time it is said, by the weight that the reporter's standing has. The same said
    /// twice by one reporter counts once, and something else of the same sort replaces it, for 90 days. Blocks while the
    /// decision is sought.
    pub async fn feedback(
        &self,
        id: RecordId,
        said: impl Into<FeedbackInput<'_>>,
        now: Time,
    ) -> Result<FeedbackOutcome, FeedbackError> {
        let journal = self.journal.as_ref().ok_or(DecisionLookupError::NoJournal)?;
        let Some(Record::Decision(row)) = journal.find(id)? else {
            return Err(DecisionLookupError::NoDecision(id).into());
        };
        self.feedback_on(id, row, None, said.into(), now).await
    }

    /// Takes in what is said of many decisions, which are looked up together. What is said of one decision counts in the
    /// order given. The answers are in that order, too. Blocks.
    ///
    /// # Errors
    /// If the journal cannot be read: then nothing was taken in.
    pub async fn feedback_all(
        &self,
        said: &[(RecordId, FeedbackInput<'_>)],
        now: Time,
    ) -> Result<Vec<Result<FeedbackOutcome, FeedbackError>>, FeedbackError> {
        let journal = self.journal.as_ref().ok_or(DecisionLookupError::NoJournal)?;
        let mut answers: Vec<Option<Result<FeedbackOutcome, FeedbackError>>> =
            said.iter().map(|_| None).collect();
        let numbers: Vec<usize> = (0..said.len()).collect();
        for part in numbers.chunks(AT_ONCE) {
            let of = |number: &usize| said.get(*number).map(|(id, _)| *id);
            let known = journal.find_all(&part.iter().filter_map(of).collect())?;
            let mut by_decision: BTreeMap<RecordId, Vec<usize>> = BTreeMap::new();
            for number in part {
                by_decision.entry(of(number).unwrap_or(RecordId(0))).or_default().push(*number);
            }
            // Those of different decisions share what they wait for.
            let all = by_decision.into_iter().map(|(id, numbers)| {
                let known = &known;
                async move {
                    let mut outcomes = Vec::with_capacity(numbers.len());
                    for number in numbers {
                        let outcome = match known.get(&id) {
                            Some(Record::Decision(row)) => {
                                self.feedback_on(id, row.clone(), None, said[number].1, now).await
                            }
                            _ => Err(DecisionLookupError::NoDecision(id).into()),
                        };
                        outcomes.push((number, outcome));
                    }
                    outcomes
                }
            });
            for (number, outcome) in join_all(all).await.into_iter().flatten() {
                answers[number] = Some(outcome);
            }
        }
        let answers = answers.into_iter().zip(said);
        Ok(answers
            .map(|(answer, (id, _))| answer.unwrap_or(Err(DecisionLookupError::NoDecision(*id).into())))
            .collect())
    }

    /// Takes in what is said of a decision, of which this is known. Without a description it is the journal's.
    pub(crate) async fn feedback_on(
        &self,
        id: RecordId,
        mut row: Box<DecisionRow>,
        description: Option<Arc<VersionDescription>>,
        said: FeedbackInput<'_>,
        now: Time,
    ) -> Result<FeedbackOutcome, FeedbackError> {
        let journal = self.journal.as_ref().ok_or(DecisionLookupError::NoJournal)?;
        let plan = self.plan();
        let pipeline = plan
            .pipeline(Some(&row.pipeline))
            .ok_or_else(|| FeedbackError::PipelineGone(row.pipeline.clone()))?;
        let keys = keys_of(pipeline, &row);
        let holds_models = !pipeline.models.is_empty() && JudgedScores::are_held(pipeline);
        let reads_facts =
            !pipeline.classifiers.is_empty() || holds_models || EventAmounts::are_counted(pipeline);
        let (tokens, amounts, learners) = match reads_facts {
            false => Default::default(),
            true => {
                let description = match description {
                    Some(description) => description,
                    None => journal.description(&row.version)?,
                };
                if let Err(error) = self.content_keys.unseal(id, &mut row, &description) {
                    tracing::warn!(%id, "feedback counts for the keys of a decision, and teaches no texts: {error}");
                }
                let fact = |slot| row.facts.get(description.slot(&pipeline.schema.column(slot).name)?);
                (
                    self.tokens_of_row(pipeline, &row, &description),
                    EventAmounts::of(pipeline, fact),
                    LearnerScores::of(pipeline, fact),
                )
            }
        };
        let of = DecidedEvent {
            id,
            pipeline,
            keys: &keys,
            amounts,
            tokens: &tokens,
            score: row.verdict.score,
            learners,
            action: row.verdict.action,
        };
        self.feedback_about(of, said, now).await
    }

    /// Takes in what is said of a decision, of which all is known that feedback needs.
    async fn feedback_about(
        &self,
        of: DecidedEvent<'_>,
        said: FeedbackInput<'_>,
        now: Time,
    ) -> Result<FeedbackOutcome, FeedbackError> {
        let journal = self.journal.as_ref().ok_or(DecisionLookupError::NoJournal)?;
        let DecidedEvent { id, pipeline, keys, amounts, tokens, score, learners, action } = of;
        let name = format!("decision\0{id}");
        let subject = FeedbackSubject { pipeline, name, keys, amounts, tokens, held: None, time: now, now };
        let (outcome, reports) = self.vote(&subject, said).await?;
        self.hold_score(&subject, said, &outcome, score, &learners);
        self.count_judgement(pipeline, said, &outcome, action);
        for report in &reports {
            if let Some(Some(class)) = report.label() {
                self.counts.add_label(&pipeline.name, now, class);
            }
        }
        let record =
            |report| (self.ids.next(now), now, Record::Report(ReportRecord { decision: id, ..report }));
        let records: Vec<_> = reports.into_iter().map(record).collect();
        journal.append(&records).await?;
        self.metrics.journal_records.inc_by(records.len() as u64);
        Ok(outcome)
    }

    /// Takes in what somebody says about an event that was not decided here: the counters of the class go up for
    /// its keys, at the event's time. `id` tells events apart, e.g. a hash of the message; the same event learned
    /// twice as the same class counts once, and learned as another class it is no longer learned as the first.
    pub async fn learn(
        &self,
        prepared: PreparedEvent,
        id: &str,
        said: impl Into<FeedbackInput<'_>>,
    ) -> Result<FeedbackOutcome, FeedbackError> {
        let said = said.into();
        let (held, score, prepared) = match JudgedScores::are_held(&prepared.row.pipeline) {
            false => (None, None, prepared),
            // Before anything is learned of it. What is looked up for that the example goes by, too.
            true => {
                let held = self.hold(&prepared.tokens).await;
                let (score, prepared) = self.score_of(prepared).await?;
                (Some(held), Some(score), prepared)
            }
        };
        let row = &prepared.row;
        let subject = FeedbackSubject {
            pipeline: &row.pipeline,
            name: format!("learn\0{id}"),
            keys: &prepared.keys,
            amounts: EventAmounts::of(&row.pipeline, |slot| row.facts.get(slot)),
            tokens: &prepared.tokens,
            held,
            time: row.time,
            now: row.arrival,
        };
        let (outcome, _) = self.vote(&subject, said).await?;
        if let Some(score) = score {
            let learners = LearnerScores::of(&row.pipeline, |slot| row.facts.get(slot));
            self.hold_score(&subject, said, &outcome, score, &learners);
        }
        Ok(outcome)
    }

    fn count_judgement(
        &self,
        pipeline: &Pipeline,
        said: FeedbackInput<'_>,
        outcome: &FeedbackOutcome,
        action: Action,
    ) {
        let class = find_class(pipeline, said.class).ok().and_then(|(_, class)| class);
        let side = class.filter(|class| class.sort == FeedbackKind::Judgement).and_then(|class| class.side);
        if let Some(side) = side
            && outcome.is_decisive()
        {
            let label = JudgementLabel {
                pipeline: pipeline.name.clone(),
                action: action.to_string(),
                side: side.name(),
            };
            self.metrics.feedback_judged.get_or_create(&label).inc();
        }
    }

    /// Keeps the score of an event that somebody judged who is believed whatever others say, and what learners said of it.
    fn hold_score(
        &self,
        subject: &FeedbackSubject<'_>,
        said: FeedbackInput<'_>,
        outcome: &FeedbackOutcome,
        score: f64,
        learners: &LearnerScores,
    ) {
        if let Ok((_, class)) = find_class(subject.pipeline, said.class)
            && outcome.is_decisive()
        {
            let name = event_name(&self.secret, &subject.name);
            self.judged.add(subject.pipeline, name, class, score, learners);
        }
    }

    async fn vote(
        &self,
        subject: &FeedbackSubject<'_>,
        said: FeedbackInput<'_>,
    ) -> Result<(FeedbackOutcome, Vec<ReportRecord>), FeedbackError> {
        let pipeline = subject.pipeline;
        let (plan, class) = find_class(pipeline, said.class)?;
        self.metrics.feedback_given.get_or_create(&label(pipeline)).inc();
        let by = said.by.map(reporter).filter(|by| !by.is_empty());
        let place = |place| VoteRequest { plan, class, by: by.as_deref(), place };
        let Some(class) = class else {
            let (judged, first) = self.vote_in_slot(subject, &place(VoteSlot::Judgement)).await?;
            let (signalled, second) = self.vote_in_slot(subject, &place(VoteSlot::Signal)).await?;
            return Ok((judged.and(signalled), first.into_iter().chain(second).collect()));
        };
        let (outcome, report) = self.vote_in_slot(subject, &place(VoteSlot::of(class))).await?;
        Ok((outcome, report.into_iter().collect()))
    }

    /// Puts a vote in its place.
    async fn vote_in_slot(
        &self,
        subject: &FeedbackSubject<'_>,
        spoken: &VoteRequest<'_>,
    ) -> Result<(FeedbackOutcome, Option<ReportRecord>), FeedbackError> {
        let pipeline = subject.pipeline;
        let VoteRequest { plan, class, by, .. } = *spoken;
        let mut begun = PendingVote::new(self, subject, spoken);
        for _ in 0..TRIES {
            begun.read(self).await?;
            let before = begun.before();
            if before.class == class.map_or(Vote::NO_CLASS, |class| class.tag) {
                let (weight, standing) = (before.weight, begun.standing());
                let training = TrainingFeedback {
                    class: class.filter(|_| weight > 0),
                    was: None,
                    by: by.is_some(),
                    again: true,
                };
                let tokens = self
                    .teach(pipeline, subject.tokens, training, subject.time, subject.held.as_ref())
                    .await?;
                let outcome = FeedbackOutcome {
                    keys: 0,
                    tokens,
                    duplicate: tokens == 0,
                    weight,
                    limited: false,
                    standing,
                    replaced: None,
                };
                return Ok((outcome, None));
            }
            if let Some((mut outcome, report)) = begun.write(self).await? {
                let was = plan.class_of(before.class).filter(|_| before.weight > 0);
                let training = TrainingFeedback {
                    class: class.filter(|_| outcome.weight > 0),
                    was,
                    by: by.is_some(),
                    again: false,
                };
                outcome.tokens = self
                    .teach(pipeline, subject.tokens, training, subject.time, subject.held.as_ref())
                    .await?;
                return Ok((outcome, report));
            }
        }
        Err(FeedbackError::Busy)
    }
}

impl FeedbackOutcome {
    /// Returns true if it was said for the first time by somebody who is believed whatever others say.
    fn is_decisive(&self) -> bool {
        self.standing.decides() && !self.limited && !self.duplicate
    }

    /// Joins the outcomes of taking back a judgement and a signal.
    fn and(self, signal: FeedbackOutcome) -> FeedbackOutcome {
        FeedbackOutcome {
            keys: self.keys + signal.keys,
            tokens: self.tokens + signal.tokens,
            duplicate: self.duplicate && signal.duplicate,
            replaced: self.replaced.or(signal.replaced),
            ..self
        }
    }
}

/// The place of a reporter's latest vote on an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum VoteSlot {
    Judgement,
    Signal,
}

impl VoteSlot {
    fn of(class: &FeedbackClass) -> VoteSlot {
        match class.sort {
            FeedbackKind::Judgement | FeedbackKind::Retraction => VoteSlot::Judgement,
            FeedbackKind::Signal => VoteSlot::Signal,
        }
    }

    /// Returns the prefix of the names of votes there.
    fn prefix(self) -> &'static str {
        match self {
            VoteSlot::Judgement => "",
            VoteSlot::Signal => "signal\0",
        }
    }
}

/// The vote, its reporter, and the place where it is kept.
struct VoteRequest<'a> {
    plan: &'a ReportsPlan,
    /// `None` takes back what is there.
    class: Option<&'a FeedbackClass>,
    by: Option<&'a str>,
    place: VoteSlot,
}

/// A report on its way.
struct PendingVote<'a> {
    subject: &'a FeedbackSubject<'a>,
    plan: &'a ReportsPlan,
    class: Option<&'a FeedbackClass>,
    place: VoteSlot,
    by: Option<Shingle>,
    /// The name of the reporter and the event.
    name: String,
    /// The key of the vote.
    vote: Key,
    voters: Option<VoterKeys>,
    known: Vec<Reading>,
}

impl<'a> PendingVote<'a> {
    fn new(engine: &Engine, subject: &'a FeedbackSubject<'a>, spoken: &VoteRequest<'a>) -> PendingVote<'a> {
        let VoteRequest { plan, class, by, place } = *spoken;
        let (pipeline, secret) = (subject.pipeline, &engine.secret);
        let by_name = by.unwrap_or_default();
        let name = format!("{}{}\0{}\0{by_name}", place.prefix(), subject.name, pipeline.name);
        let key = |what: &str| Key {
            space: pipeline.space,
            kind: REPORT,
            shingle: secret.shingle(what.as_bytes()),
        };
        let side = class.and_then(|class| class.side);
        let alike = || subject.keys.iter().find(|key| plan.alike.contains(&key.kind));
        let thing = side.map(|_| match alike() {
            Some(key) => format!("thing\0{}\0{}", key.kind.0, key.shingle),
            None => format!("thing\0{}\0{}", subject.name, pipeline.name),
        });
        let voices = side.zip(thing).map(|(side, thing)| VoterKeys::new(side, &thing, by_name, key));
        PendingVote {
            subject,
            plan,
            class,
            place,
            by: by.map(|by| secret.shingle(by.as_bytes())),
            vote: key(&format!("word\0{name}")),
            name,
            voters: voices,
            known: Vec::new(),
        }
    }

    fn reporter(&self) -> Option<Key> {
        self.by.map(|shingle| reporter_key(self.subject.pipeline, shingle))
    }

    /// Reads the vote that stands, the reporter's statistics, and who else has spoken.
    async fn read(&mut self, engine: &Engine) -> Result<(), LedgerError> {
        let voices = self.voters.iter().flat_map(|voices| voices.keys.iter().copied());
        let keys = [self.vote].into_iter().chain(voices).chain(self.reporter());
        let look = |key| Observation { key, time: self.subject.now, add: Addition::Nothing };
        let request = ObserveRequest { observations: keys.map(look).collect(), ..ObserveRequest::default() };
        let outcomes = engine.ledger.observe(&[request]).await?;
        self.known = outcomes.all().map(|reading| reading.to_reading()).collect();
        Ok(())
    }

    fn before(&self) -> Vote {
        self.known.first().and_then(greatest).map_or_else(Vote::default, Vote::unpack)
    }

    fn standing(&self) -> ReporterStanding {
        let Some(by) = self.by else { return ReporterStanding::Operator };
        let grade = self.known.last().map(|reading| reputation::standing(&self.plan.standing, by, reading));
        ReporterStanding::Reporter(grade.unwrap_or(Grade::Unknown))
    }

    /// Adds all that the report changes; `None` if another of the same reporter on the same event came first.
    async fn write(
        &self,
        engine: &Engine,
    ) -> Result<Option<(FeedbackOutcome, Option<ReportRecord>)>, FeedbackError> {
        let FeedbackSubject { pipeline, keys, ref amounts, time, now, .. } = *self.subject;
        let (before, standing) = (self.before(), self.standing());
        let side = self.class.and_then(|class| class.side);
        let limited = match (self.class, self.known.last()) {
            (Some(_), Some(reading)) if self.by.is_some() => {
                standing::votes_today(self.plan, reading, side) >= self.plan.per_day(side)
            }
            _ => false,
        };
        let weight = match self.class {
            Some(_) if !limited => standing.weight(self.plan),
            _ => 0,
        };
        let Some(vote) = before.next(self.class.map_or(Vote::NO_CLASS, |class| class.tag), time, weight)
        else {
            return Err(FeedbackError::Busy);
        };
        let replaced = self.plan.class_of(before.class);
        let mut observations = Vec::new();
        let counters = self.class.map_or(&[][..], |class| &class.counters[..]);
        let target = VoteTarget { pipeline, secret: &engine.secret, keys, amounts };
        observations.extend(target.counted(counters, (weight, vote.time()), false));
        let added = observations.len();
        if let Some(class) = replaced {
            let of = (before.weight, before.time());
            observations.extend(target.counted(&class.counters, of, true));
        }
        let value = |key, value: i64| Observation { key, time: now, add: Addition::Value(Some(value)) };
        observations.push(value(self.vote, vote.pack()));
        if let Some(reporter) = self.reporter() {
            let reversed = replaced.is_some_and(|class| class.side.is_some());
            let own = standing::counts(self.class, limited, reversed);
            observations.push(Observation { key: reporter, time: now, add: Addition::Counters(own) });
        }
        if let Some(voices) = self.voters.as_ref().filter(|_| !limited && standing.counts()) {
            let known = self.known.get(1..).unwrap_or_default();
            voices.speak(known, self.by, standing.decides(), |key, value| match value {
                standing::VoteEffect::Voice(of) => {
                    observations.push(Observation { key, time: now, add: Addition::Value(of) })
                }
                standing::VoteEffect::Judged { who, agreed } => observations.push(Observation {
                    key: reporter_key(pipeline, who),
                    time: now,
                    add: Addition::Counters(standing::judged(agreed)),
                }),
            });
        }
        let mark = keys::once(pipeline, &engine.secret, "report", &format!("{}\0{}", self.name, vote.number));
        let request = ObserveRequest {
            once: Some(DedupeMark { key: mark, time: now }),
            origin: Origin::Report,
            observations,
        };
        let outcomes = engine.ledger.observe(std::slice::from_ref(&request)).await?;
        if outcomes.duplicate(0) {
            return Ok(None);
        }
        let replaced_class = replaced.map(|class| class.name.clone());
        let report = ReportRecord {
            decision: RecordId(0),
            class: self
                .class
                .filter(|class| class.sort != FeedbackKind::Retraction)
                .map(|class| class.name.clone()),
            signal: self.place == VoteSlot::Signal,
            time: vote.time(),
            by: self.by,
            weight,
            limited,
            counters: counters.to_vec(),
            replaced: replaced.map(|class| ReplacedReport {
                class: class.name.clone(),
                counters: class.counters.clone(),
                time: before.time(),
                weight: before.weight,
            }),
        };
        let outcome = FeedbackOutcome {
            keys: added,
            tokens: 0,
            duplicate: false,
            weight,
            limited,
            standing,
            replaced: replaced_class,
        };
        Ok(Some((outcome, Some(report))))
    }
}

fn reporter_key(pipeline: &Pipeline, shingle: Shingle) -> Key {
    Key { space: pipeline.space, kind: REPORTER, shingle }
}

/// The keys that a decision's row names, of the kinds that are counted.
fn keys_of(pipeline: &Pipeline, row: &DecisionRow) -> Vec<Key> {
    let key = |KeyReading { kind, shingle, .. }: &KeyReading| {
        let counted = pipeline.kinds.iter().any(|plan| plan.kind == *kind);
        counted.then_some(Key { space: pipeline.space, kind: *kind, shingle: *shingle })
    };
    row.keys.iter().filter_map(key).collect()
}

/// The greatest value that was added to a key of votes.
pub(crate) fn greatest(reading: &Reading) -> Option<i64> {
    // Columns are in the order count, greatest.
    match AggregateColumn::Max.value(reading.sum(0, 1)) {
        stats::AggregateValue::Integer(value) if reading.first.is_some() => value,
        _ => None,
    }
}

/// The class of a name; `None` for what takes back.
fn find_class<'a>(
    pipeline: &'a Pipeline,
    name: &str,
) -> Result<(&'a ReportsPlan, Option<&'a FeedbackClass>), UnknownName> {
    let unknown = || {
        let known = pipeline.feedback.keys().map(String::as_str);
        let help = plan::expected(name, known.chain([WITHDRAWN]));
        UnknownName { what: "feedback class", name: name.to_owned(), help }
    };
    let plan = pipeline.reports.as_ref().ok_or_else(unknown)?;
    if name == WITHDRAWN {
        return Ok((plan, None));
    }
    let class = plan.classes.iter().find(|class| class.name == name).ok_or_else(unknown)?;
    Ok((plan, Some(class)))
}
