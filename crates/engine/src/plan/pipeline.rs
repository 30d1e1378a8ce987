//! A pipeline, compiled: its columns, what is counted for it, what its rules read.

use std::collections::BTreeMap;
use std::sync::Arc;

use content::mail::authentication::{AuthColumns, AuthenticationTrust};
use content::network::PrefixLengths;
use content::piece::Normalisation;
use content::web::pattern::RequestPatterns;
use event::{Facts, Kind, Schema, Slot, Space, Span};
use judge::{Action, Condition, RuleSet};
use stats::{AggregateLayout, LayoutError, Measure, Tier};

use super::{Candidate, ClassifierPlan, DnsListPlan, ModelPlan, PhrasePlan, REPORTER, ReportsPlan, reporter};
use crate::aggregate;
use crate::failure_mode::FailureMode;
use crate::preset::Preset;

/// What a pipeline reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PipelineInput {
    /// RFC 5322 messages.
    Message,
    /// Combined-format access-log lines.
    AccessLog,
    /// JSON objects with declared fields only.
    Json,
}

impl PipelineInput {
    /// All inputs, in the order in which they are documented.
    pub const ALL: [PipelineInput; 3] =
        [PipelineInput::Message, PipelineInput::AccessLog, PipelineInput::Json];

    /// What configurations call it.
    pub fn name(self) -> &'static str {
        match self {
            PipelineInput::Message => "message",
            PipelineInput::AccessLog => "access-log",
            PipelineInput::Json => "json",
        }
    }
}

/// What to do with an event that has a field which the pipeline does not know, or none that it knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownFieldPolicy {
    /// Refuse it.
    Error,
    /// Judge it without, and say so.
    Warn,
    /// Judge it without.
    Ignore,
}

event::columns! {
    /// What every event has.
    pub struct EventColumns {
        time: Time "event.time" "When the event happened, clamped to its arrival and the allowed skew",
        arrival: Time "event.arrival" "When the event arrived",
    }
}

/// One stream's way from event to verdict.
#[derive(Debug)]
pub struct Pipeline {
    /// Its name.
    pub name: String,
    /// The space its keys count in.
    pub space: Space,
    /// What it reads.
    pub input: PipelineInput,
    /// When statistics cannot be had.
    pub on_error: FailureMode,
    /// When an event has a field that the pipeline does not know.
    pub unknown: UnknownFieldPolicy,
    /// Hash of everything that its verdicts depend on: 16 hexadecimal digits.
    pub version: String,
    /// What [`Pipeline::version`] is the hash of, one setting a line.
    pub canonical: String,
    /// The preset that it changes, if there is one.
    pub preset: Option<&'static Preset>,
    /// The columns of its rows.
    pub schema: Arc<Schema>,
    /// Rules and bands.
    pub rules: RuleSet,
    /// Kinds of pieces, in the order of the configuration.
    pub kinds: Vec<KindPlan>,
    /// Distinct counts.
    pub distincts: Vec<DistinctPlan>,
    /// Labels that rules put on keys.
    pub labels: Vec<LabelPlan>,
    /// The limits that rules ask for.
    pub limits: Vec<RuleLimit>,
    pub(crate) columns: InputColumns,
    /// Sets of phrases.
    pub phrases: Vec<PhrasePlan>,
    /// Classifiers, asked before the models.
    pub classifiers: Vec<ClassifierPlan>,
    /// Models that say something of an event before it is judged.
    pub models: Vec<ModelPlan>,
    /// Rules that are judged beside the enforced ones.
    pub candidate: Option<Arc<Candidate>>,
    pub(crate) readings: Vec<ReadingColumn>,
    /// Whether a server is to check SPF, DKIM, DMARC and ARC itself.
    pub checks: bool,
    /// Whose `Authentication-Results` and ARC seals count.
    pub trust: AuthenticationTrust,
    /// DNS lists to ask.
    pub lists: Vec<DnsListPlan>,
    pub(crate) prefixes: PrefixLengths,
    pub(crate) skew_max: Span,
    /// What may be said of an event afterwards: the class, and the counters that it adds to.
    pub feedback: BTreeMap<String, Vec<String>>,
    /// How that is counted; `None` where nothing may be said.
    pub reports: Option<ReportsPlan>,
}

/// A limit that rules of a pipeline ask for.
#[derive(Debug)]
pub struct RuleLimit {
    /// Its name.
    pub name: String,
    /// What must hold for an event to take from it, and the source of that.
    pub(crate) when: Option<(Condition, String)>,
}

impl RuleLimit {
    /// Whether an event takes from it, by what is known of the event before its statistics are read.
    pub(crate) fn applies(&self, facts: &Facts) -> bool {
        self.when.as_ref().is_none_or(|(condition, _)| condition.fires(facts))
    }
}

/// The columns that the first two stages fill.
#[derive(Debug)]
pub(crate) struct InputColumns {
    pub(crate) event: EventColumns,
    /// Declared IP fields and the column of each one's network.
    pub(crate) networks: Vec<(Slot, Slot)>,
    pub(crate) content: ContentColumns,
    /// How many there are: what lies behind them no event can bring.
    pub(crate) count: usize,
}

/// The columns of the content features, by input.
#[derive(Debug)]
pub(crate) enum ContentColumns {
    Message {
        envelope: content::mail::message::EnvelopeColumns,
        mail: Box<content::mail::message::MailColumns>,
        auth: Box<AuthColumns>,
    },
    AccessLog {
        columns: Box<content::web::access_log::HttpColumns>,
        patterns: Box<RequestPatterns>,
    },
    Json,
}

/// A kind of piece.
#[derive(Debug)]
pub struct KindPlan {
    /// Its stored number.
    pub kind: Kind,
    /// Its name.
    pub name: String,
    /// The fact that its pieces are taken from.
    pub slot: Slot,
    /// How a piece is normalised.
    pub normalise: Normalisation,
    /// What must hold for an event to have keys of this kind.
    pub(crate) when: Option<Arc<Condition>>,
    /// Names of the counters, empty for a kind that has none.
    pub counters: Vec<String>,
    /// Counters of which something can be taken back, and those that hold it: both by index.
    pub(crate) taken: Vec<(u8, u8)>,
    /// Trailing windows that its readings carry.
    pub windows: Vec<Span>,
    /// What its track keeps, in the order of a reading's values; empty for a kind that has none.
    pub aggregate: Vec<stats::AggregateColumn>,
    /// The fact that the track's values are taken from.
    pub(crate) value: Option<Slot>,
    /// The last value that is kept instead, if its keys have one.
    pub(crate) last: Option<LastValuePlan>,
    /// Counters that every event adds to.
    pub(crate) observe: Vec<(u8, u64)>,
    /// Counters that a verdict adds to, by action.
    pub(crate) settle: Vec<(Action, u8)>,
}

/// The last value of a fact: what is kept for each key of a kind under a number of its own.
#[derive(Clone, Debug)]
pub(crate) struct LastValuePlan {
    /// The fact.
    pub(crate) of: Slot,
    /// Index of the kind for whose keys it is kept.
    pub(crate) per: usize,
    /// The time for which it is kept.
    pub(crate) keep: Span,
}

/// A distinct count.
#[derive(Debug)]
pub struct DistinctPlan {
    /// The stored number of its counts.
    pub kind: Kind,
    /// Its name.
    pub name: String,
    /// Index of the kind for whose keys values are counted.
    pub(crate) per: usize,
    /// The fact whose values are counted.
    pub(crate) of: Slot,
    /// Periods kept, the width of one being the window that rules may ask for.
    pub tier: Tier,
    /// The precision of an approximate count; `None` for an exact one.
    pub precision: Option<u8>,
    pub(crate) windows: Vec<Span>,
}

/// A label that rules put on keys: the latest time until which it holds, as the greatest value of a track.
#[derive(Debug)]
pub struct LabelPlan {
    /// The stored number of its marks.
    pub kind: Kind,
    /// Its name.
    pub name: String,
    /// What it says of a key, for people.
    pub description: String,
    /// Index of the kind whose keys can have it.
    pub(crate) of: usize,
    /// How long it can hold.
    pub keep: Span,
    /// What enforcement points are told to do with keys that have it; `None` for a label that they are not told of.
    pub decision: Option<String>,
    /// Whether anything asks for it.
    pub(crate) is_read: bool,
}

impl LabelPlan {
    pub(super) fn measure(&self) -> Result<Measure, LayoutError> {
        AggregateLayout::new(vec![stats::AggregateColumn::Max], self.keep).map(Measure::Aggregate)
    }
}

/// A column that the observe stage fills.
#[derive(Clone, Debug)]
pub(crate) struct ReadingColumn {
    pub(crate) slot: Slot,
    pub(crate) source: ReadingSource,
}

/// What a reading column holds, over all keys of its kind in an event.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ReadingSource {
    /// The largest count.
    Count { kind: usize, counter: usize, window: Span },
    /// The largest share, of keys whose denominator is at least so much.
    Ratio { kind: usize, over: Vec<(usize, Span)>, under: Vec<(usize, Span)>, at_least: u64 },
    /// The age of the key that was first seen last; zero for one never seen.
    FirstAge { kind: usize },
    /// The time since the key seen most recently was last seen; missing if none was.
    LastAge { kind: usize },
    /// The largest of a value of a track, or the least of least ones.
    Aggregate { kind: usize, column: usize },
    /// The last value of the key that had one last.
    Last { kind: usize },
    /// The largest number of distinct values.
    Distinct { distinct: usize, window: Span },
    /// What a limit says; by its place among those of the pipeline.
    Limit { limit: usize, value: judge::LimitValue },
    /// Whether a key has a label.
    Marked { label: usize },
    /// Whether the statistics of a key are an estimate.
    Estimated { kind: usize },
    /// Whether a number of distinct values is an estimate.
    EstimatedDistinct { distinct: usize },
}

impl DistinctPlan {
    pub(super) fn measure(&self, windows: Vec<Span>) -> Measure {
        match self.precision {
            Some(precision) => Measure::approx(self.tier, windows, precision),
            None => Measure::distinct(self.tier, windows),
        }
    }
}

impl Pipeline {
    /// The columns of what is looked up about a message; none for a pipeline that reads something else.
    pub fn auth_columns(&self) -> Option<&AuthColumns> {
        match &self.columns.content {
            ContentColumns::Message { auth, .. } => Some(auth),
            _ => None,
        }
    }

    /// The columns of a message's envelope.
    pub fn envelope_columns(&self) -> Option<&content::mail::message::EnvelopeColumns> {
        match &self.columns.content {
            ContentColumns::Message { envelope, .. } => Some(envelope),
            _ => None,
        }
    }

    /// Name and version of every model: the hash of its file, which [`Pipeline::canonical`] has.
    pub fn model_versions(&self) -> Vec<(String, String)> {
        let digests = self.canonical.lines().filter_map(|line| {
            let (name, digest) = line.strip_prefix("model.")?.split_once(".digest = \"")?;
            Some((name.to_owned(), digest.trim_end_matches('"').to_owned()))
        });
        digests.collect()
    }
}

impl Pipeline {
    /// The kinds of pieces, and that of reporters.
    pub fn kinds_and_reporters(&self) -> impl Iterator<Item = &KindPlan> {
        self.kinds.iter().chain(self.reports.iter().map(|reports| &reports.reporter))
    }
}

impl KindPlan {
    /// What the values that are kept of its keys are called, in order: those of its track, or the last value.
    pub fn aggregate_names(&self) -> Vec<String> {
        match self.last {
            Some(_) => vec![aggregate::LAST_VALUE.to_owned()],
            None => self.aggregate.iter().map(aggregate::name).collect(),
        }
    }

    /// Whether it has a statistic. The keys of one that has none can still own distinct values and labels.
    pub(crate) fn is_counted(&self) -> bool {
        !self.counters.is_empty() || !self.aggregate.is_empty() || self.last.is_some()
    }

    /// The index of a counter.
    pub(crate) fn counter(&self, name: &str) -> Option<u8> {
        let index = self.counters.iter().position(|counter| counter == name)?;
        u8::try_from(index).ok()
    }

    /// The index of a window.
    pub(crate) fn window(&self, window: Span) -> Option<usize> {
        self.windows.iter().position(|other| *other == window)
    }

    /// The index of what holds how much of a counter was taken back.
    pub(crate) fn taken_back(&self, name: &str) -> Option<u8> {
        let counter = self.counter(name)?;
        self.taken.iter().find(|(of, _)| *of == counter).map(|(_, taken)| *taken)
    }
}

impl KindPlan {
    /// The shingle of each piece that a value gives.
    pub fn shingles(&self, value: &str, secret: &event::Secret) -> Vec<event::Shingle> {
        let mut shingles = Vec::new();
        let reporter = (self.kind == REPORTER).then(|| reporter(value));
        let value = reporter.as_deref().unwrap_or(value);
        content::piece::pieces(&event::Value::from(value), self.normalise, &mut |piece| {
            shingles.push(secret.shingle(piece.as_bytes()));
        });
        shingles
    }
}
