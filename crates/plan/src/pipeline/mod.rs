//! A pipeline, compiled: its columns, what is counted for it, what its rules read.

mod access_log;
pub(crate) mod authentication;
pub(crate) mod block_lists;
pub(crate) mod candidate;
pub(crate) mod challenge;
pub(crate) mod classifier;
pub(crate) mod columns;
mod compiler;
pub(crate) mod derived;
pub(crate) mod draft;
pub(crate) mod form;
pub(crate) mod functions;
pub(crate) mod header;
pub(crate) mod journal_content;
pub(crate) mod key_fields;
mod log;
pub(crate) mod model;
mod model_loader;
mod patterns;
pub(crate) mod phrases;
pub(crate) mod reports;
pub(crate) mod reputation;
mod reputation_compiler;
pub(crate) mod robots;
pub(crate) mod rules;
pub(crate) mod scope;
pub(crate) mod statistic;
pub(crate) mod tables;
pub(crate) mod value_addition;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use content::field::FieldColumns;
use content::mail::authentication::{AuthColumns, AuthenticationTrust};
use content::network::PrefixLengths;
use content::web::access_log::AccessLogError;
use content::web::log_format::AccessLogFormat;
use content::web::pattern::RequestPatterns;
use event::{Event, Facts, Kind, Schema, Slot, Space, Span, Table, TableIndex, Value};
use judge::{Action, Condition, Rule, RuleSet};
use logs::columns::LogColumns;
use logs::log_stream::LogSettings;
use stats::{AggregateColumn, AggregateLayout, BucketSeries, LayoutError, Measure, Tier};

use self::authentication::DnsListPlan;
use self::candidate::{Canary, Candidate};
use self::challenge::ChallengePlan;
use self::classifier::ClassifierPlan;
use self::derived::DerivedField;
use self::form::{BaitPlan, FormPlan};
use self::header::EventHeader;
use self::journal_content::JournalContent;
use self::key_fields::KeyFields;
use self::model::ModelPlan;
use self::phrases::PhrasePlan;
use self::reports::{REPORTER, ReportsPlan, reporter};
use self::reputation::ReputationPlan;
use self::robots::{ApplicationColumns, RobotsPlan};
use self::tables::TablePlan;
use crate::aggregate;
use crate::failure_mode::FailureMode;
use crate::label_span::LabelSpan;
use crate::limit::LimitPlan;
use crate::preset::Preset;
use block_lists::BlockListColumns;

/// The input that a pipeline reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PipelineInput {
    /// RFC 5322 messages.
    Message,
    /// Combined-format access-log lines.
    AccessLog,
    /// Lines of any log, by patterns of its own.
    Log,
    /// JSON objects with declared fields only.
    Json,
}

impl PipelineInput {
    /// All inputs, in the order in which they are documented.
    pub const ALL: [PipelineInput; 4] =
        [PipelineInput::Message, PipelineInput::AccessLog, PipelineInput::Log, PipelineInput::Json];

    /// Returns the name of the input in configurations.
    pub fn name(self) -> &'static str {
        match self {
            PipelineInput::Message => "message",
            PipelineInput::AccessLog => "access-log",
            PipelineInput::Log => "log",
            PipelineInput::Json => "json",
        }
    }
}

/// The handling of an event that has a field which the pipeline does not know, or none that it knows.
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
    /// The columns that every event has.
    pub struct EventColumns {
        time: Time "event.time" "Time of the event, clamped to its arrival and the allowed skew",
        arrival: Time "event.arrival" "Time of arrival",
    }
}

/// One stream's way from event to verdict.
#[derive(Clone, Debug)]
pub struct Pipeline {
    /// Its name.
    pub name: String,
    /// The space its keys count in.
    pub space: Space,
    /// The input that the pipeline reads.
    pub input: PipelineInput,
    /// The outcome when statistics cannot be had.
    pub on_error: FailureMode,
    /// The policy for fields that the pipeline does not know.
    pub unknown: UnknownFieldPolicy,
    /// Hash of everything that its verdicts depend on: 16 hexadecimal digits.
    pub version: String,
    /// The text that [`Pipeline::version`] is the hash of, one setting a line.
    pub canonical: String,
    /// The preset that it changes, if there is one.
    pub preset: Option<&'static Preset>,
    /// The columns of its rows.
    pub schema: Arc<Schema>,
    /// Rules and bands.
    pub rules: Arc<RuleSet>,
    /// The effects of each rule that are more than its verdict.
    pub effects: Table<Rule, Vec<EffectPlan>>,
    /// Kinds of pieces, in the order of the configuration.
    pub kinds: Table<KindPlan>,
    /// Distinct counts.
    pub distincts: Table<DistinctPlan>,
    /// Labels that rules put on keys.
    pub labels: Table<LabelPlan>,
    /// Reputations of keys.
    pub reputations: Table<ReputationPlan>,
    /// All reputations, each after those that it is made of.
    pub reputation_order: Vec<TableIndex<ReputationPlan>>,
    /// The limits that rules ask for.
    pub limits: Table<RuleLimit>,
    /// The limits that effects of rules clear. Events take from those alone that rules ask for.
    pub cleared_limits: Table<RuleLimit>,
    /// The columns that the first two stages fill.
    pub columns: InputColumns,
    /// The tables in which values are looked up.
    pub tables: Vec<TablePlan>,
    /// The sets that conditions seek values in, by name.
    pub sets: Vec<(String, Arc<judge::Set>)>,
    /// Sets of phrases.
    pub phrases: Vec<PhrasePlan>,
    /// Robots that say who they are, if requests are looked at for them.
    pub robots: Option<Arc<RobotsPlan>>,
    /// The columns of block lists, if there are any.
    pub block_lists: Option<BlockListColumns>,
    /// The columns of applications that sign requests, if there are any.
    pub applications: Option<ApplicationColumns>,
    /// Classifiers, asked before the models.
    pub classifiers: Vec<ClassifierPlan>,
    /// Models that say something of an event before it is judged.
    pub models: Vec<ModelPlan>,
    /// The journal's treatment of what events bring.
    pub journal_content: JournalContent,
    /// The age at which its decisions leave the journal, if that is not the journal's own.
    pub journal_keep: Option<Span>,
    /// Challenges for events on which they are decided.
    pub challenge: Option<Arc<ChallengePlan>>,
    /// Tokens of forms.
    pub form: Option<Arc<FormPlan>>,
    /// Bait in pages.
    pub bait: Option<Arc<BaitPlan>>,
    /// Rules that are judged beside the enforced ones.
    pub candidate: Option<Arc<Candidate>>,
    /// The columns that the observe stage fills.
    pub readings: Vec<ReadingColumn>,
    /// True if a server is to check SPF, DKIM, DMARC and ARC itself.
    pub checks: bool,
    /// The parties whose `Authentication-Results` and ARC seals count.
    pub trust: AuthenticationTrust,
    /// DNS lists to ask.
    pub lists: Vec<DnsListPlan>,
    /// The lengths of the prefixes that make an address a network.
    pub prefixes: PrefixLengths,
    /// The fields that have an event's time and id.
    pub header: EventHeader,
    /// The longest time by which an event may be dated ahead of its arrival.
    pub skew_max: Span,
    /// The feedback that may be given on an event afterwards: the class, and the counters and distinct counts that it adds to.
    pub feedback: BTreeMap<String, Vec<String>>,
    /// The way in which feedback is counted; `None` where none may be given.
    pub reports: Option<ReportsPlan>,
}

impl Pipeline {
    /// The canary: the candidate as far as it decides.
    pub fn canary(&self) -> Option<&Canary> {
        self.candidate.as_ref()?.canary.as_ref()
    }

    /// The field with the address that an event is from: that of requests, messages or logs, else the first declared one.
    pub fn address_field(&self) -> Option<&str> {
        let known = ["client.ip", "log.ip"].into_iter().find(|name| self.schema.slot(name).is_some());
        let declared = || self.columns.networks.first().map(|(slot, _)| *slot);
        known.or_else(|| declared().map(|slot| self.schema.column(slot).name.as_str()))
    }

    /// The format of access logs' lines that the pipeline reads; `None` for the usual ones.
    pub fn access_log_format(&self) -> Option<&Arc<AccessLogFormat>> {
        match &self.columns.content {
            ContentColumns::AccessLog { format, .. } => format.as_ref(),
            _ => None,
        }
    }

    /// Reads a line of an access log, by the pipeline's own format if it has one. A time that names no zone is UTC.
    ///
    /// # Errors
    /// If it is no such line.
    pub fn access_log_event(&self, line: &[u8]) -> Result<Event, AccessLogError> {
        match self.access_log_format() {
            Some(format) => format.event(line),
            None => content::web::access_log::event(line),
        }
    }

    /// The way in which lines of a log are read, if that is the input.
    pub fn log(&self) -> Option<&LogSettings> {
        match &self.columns.content {
            ContentColumns::Log { settings, .. } => Some(settings),
            _ => None,
        }
    }
}

/// A limit that rules of a pipeline ask for.
#[derive(Clone, Debug)]
pub struct RuleLimit {
    /// The limit.
    pub limit: Arc<LimitPlan>,
    /// The facts that are the fields of its key, in order.
    pub key: Vec<Slot>,
    /// The condition that must hold for an event to take from the limit, and the source of that.
    pub when: Option<(Arc<Condition>, String)>,
}

impl RuleLimit {
    /// Returns true if an event takes from the limit, by what is known of the event before its statistics are read.
    pub fn applies(&self, facts: &Facts) -> bool {
        self.when.as_ref().is_none_or(|(condition, _)| condition.fires(facts))
    }
}

/// The columns that the first two stages fill.
#[derive(Clone, Debug)]
pub struct InputColumns {
    pub event: EventColumns,
    /// Declared IP fields and the column of each one's network.
    pub networks: Vec<(Slot, Slot)>,
    pub content: ContentColumns,
    /// The columns of declared fields, of the networks of addresses among them, and of their content.
    pub(crate) declared: Range<usize>,
    /// Fields from whose content facts are read.
    pub fields: Vec<FieldContent>,
    /// The fields that are derived from others, each after those that it reads.
    pub derived: Vec<DerivedField>,
    /// The number of these columns: what lies behind them is not known before statistics are read.
    pub count: usize,
}

impl InputColumns {
    /// Returns true if an event can bring a value for a column: one that is not derived from others, not read from a
    /// field's content, and no reading.
    pub fn is_brought(&self, slot: Slot) -> bool {
        usize::from(slot.0) < self.count
            && !self.derived.iter().any(|field| field.slot == slot)
            && !self.is_content(slot)
    }

    /// Returns true if a column shows something of the content of a field.
    pub(crate) fn is_content(&self, slot: Slot) -> bool {
        self.fields.iter().any(|field| field.facts.contains(&slot.0))
    }

    /// The column of the network of an address in a declared field.
    pub fn network_of(&self, slot: Slot) -> Option<Slot> {
        self.networks.iter().find(|(field, _)| *field == slot).map(|(_, network)| *network)
    }

    /// Returns true if a column holds a text in the form in which phrases are looked for.
    pub(crate) fn is_normalised(&self, slot: Slot) -> bool {
        let is_body = match &self.content {
            ContentColumns::Message { mail, .. } => mail.body.words.text == slot,
            ContentColumns::AccessLog { .. } | ContentColumns::Log { .. } | ContentColumns::Json => false,
        };
        is_body || self.fields.iter().any(|field| field.columns.normalised() == Some(slot))
    }
}

/// A field from whose content facts are read.
#[derive(Clone, Debug)]
pub struct FieldContent {
    /// The field.
    pub slot: Slot,
    /// The columns of what it shows.
    pub columns: FieldColumns,
    /// The slots of these columns.
    pub facts: Range<u16>,
}

/// The columns of the content features, by input.
#[derive(Clone, Debug)]
pub enum ContentColumns {
    /// The features of mail.
    Message {
        /// The columns of what SMTP said.
        envelope: content::mail::message::EnvelopeColumns,
        /// The columns of what the message shows.
        mail: Box<content::mail::message::MailColumns>,
        /// The columns of the result of the message's authentication.
        auth: Box<AuthColumns>,
    },
    /// The features of requests.
    AccessLog {
        /// The columns of what the request shows.
        columns: Box<content::web::access_log::HttpColumns>,
        /// The lists that it is searched by.
        patterns: Arc<RequestPatterns>,
        /// The format of lines; `None` for the usual ones.
        format: Option<Arc<AccessLogFormat>>,
    },
    /// Lines of a log.
    Log {
        /// The columns of what a line says.
        columns: LogColumns,
        /// The way in which lines are read.
        settings: Box<LogSettings>,
    },
    /// Fields alone.
    Json,
}

/// A kind of piece.
#[derive(Clone, Debug)]
pub struct KindPlan {
    /// Its stored number.
    pub kind: Kind,
    /// Its name.
    pub name: String,
    /// The fields that its keys are made of.
    pub fields: KeyFields,
    /// The condition that must hold for an event to have keys of this kind.
    pub when: Option<Arc<Condition>>,
    /// Names of the counters, empty for a kind that has none.
    pub counters: Table<String>,
    /// Counters of which something can be taken back, and those that hold it: both by their number in the ledger.
    pub taken: Vec<(u8, u8)>,
    /// Trailing windows that its readings carry.
    pub windows: Table<Span>,
    /// Series of buckets that its readings sum up.
    pub series: Table<BucketSeries>,
    /// The columns that its aggregate keeps, in the order of a reading's values; empty for a kind that has none.
    pub aggregate: Table<AggregateColumn>,
    /// Counters that go up by the value of an event wherever others go up by one, by their number in the ledger.
    pub amounts: Vec<u8>,
    /// The fact that the aggregate's values, or the amounts, are taken from.
    pub value: Option<Slot>,
    /// Decimals of the values and amounts, which are kept as whole numbers of the last one.
    pub decimals: u8,
    /// True if events are added to the aggregate, and not the values of effects alone.
    pub takes_events: bool,
    /// The last value that is kept instead, if its keys have one.
    pub last: Option<LastValuePlan>,
    /// Counters that every event adds to, by their number in the ledger.
    pub observe: Vec<(u8, u64)>,
    /// Counters that a verdict adds to, by action, and their number in the ledger.
    pub settle: Vec<(Action, u8)>,
    /// Values that a verdict adds to the aggregate, by action.
    pub settle_values: Vec<(Action, i64)>,
}

/// The last value of a fact: what is kept for each key of a kind under a number of its own.
#[derive(Clone, Debug)]
pub struct LastValuePlan {
    /// The fact.
    pub of: Slot,
    /// The kind for whose keys it is kept.
    pub per: TableIndex<KindPlan>,
    /// The time for which it is kept.
    pub keep: Span,
}

/// A distinct count.
#[derive(Clone, Debug)]
pub struct DistinctPlan {
    /// The stored number of its counts.
    pub kind: Kind,
    /// Its name.
    pub name: String,
    /// The kind for whose keys values are counted.
    pub per: TableIndex<KindPlan>,
    /// The fields whose values are counted.
    pub of: KeyFields,
    /// The kind of the same fields whose keys feedback counts; `None` for a count of every event's values.
    pub members: Option<TableIndex<KindPlan>>,
    /// Periods kept, the width of one being the window that rules may ask for.
    pub tier: Tier,
    /// The precision of an approximate count; `None` for an exact one.
    pub precision: Option<u8>,
    /// The windows that are read.
    pub windows: Table<Span>,
    /// The number of the latest values of a key that a node remembers in clear text.
    pub keep: usize,
}

/// A label that rules put on keys: the latest time until which it holds, as the greatest value of an aggregate.
#[derive(Clone, Debug)]
pub struct LabelPlan {
    /// The stored number of its marks.
    pub kind: Kind,
    /// Its name.
    pub name: String,
    /// The description of what the label says of a key, for people.
    pub description: String,
    /// The kind whose keys can have it.
    pub of: TableIndex<KindPlan>,
    /// The longest time for which the label can hold.
    pub keep: Span,
    /// The decision that enforcement points are given for keys that have the label; `None` for a label that they are not
    /// given.
    pub decision: Option<String>,
    /// True if anything asks for the label.
    pub is_read: bool,
}

impl LabelPlan {
    pub(crate) fn measure(&self) -> Result<Measure, LayoutError> {
        AggregateLayout::new(vec![AggregateColumn::Max], self.keep).map(Measure::Aggregate)
    }
}

/// An effect of a rule on statistics, its names resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EffectPlan {
    /// The event's keys of a label's kind have the label from now on.
    Mark {
        /// The label.
        label: TableIndex<LabelPlan>,
        /// The time for which it holds.
        lasts: LabelSpan,
    },
    /// A counter of the event's keys of a kind goes up.
    Add {
        /// The kind.
        kind: TableIndex<KindPlan>,
        /// The counter, by its number in the ledger.
        counter: u8,
        /// The amount.
        amount: u64,
    },
    /// A value is added to the aggregate of the event's keys of a kind.
    AddValue {
        /// The kind.
        kind: TableIndex<KindPlan>,
        /// The value.
        value: i64,
        /// True if the rule's share of it is added.
        by_share: bool,
    },
    /// A counter of the event's keys of a kind starts again from zero.
    Clear {
        /// The kind.
        kind: TableIndex<KindPlan>,
        /// The counter, by its number in the ledger.
        counter: u8,
    },
    /// All that was taken from a limit is given back to the event's keys.
    ClearLimit {
        /// The limit among the pipeline's `cleared_limits`.
        limit: TableIndex<RuleLimit>,
    },
    /// The latest values of a distinct count of the event have a label from now on.
    MarkContributors {
        /// The distinct count.
        distinct: TableIndex<DistinctPlan>,
        /// The label, whose kind has the fields of the count's values.
        label: TableIndex<LabelPlan>,
        /// The time for which it holds.
        lasts: LabelSpan,
    },
}

/// A column that the observe stage fills.
#[derive(Clone, Debug)]
pub struct ReadingColumn {
    /// Its place in the row.
    pub slot: Slot,
    /// Its content.
    pub source: ReadingSource,
}

/// The content of a reading column, over all keys of its kind in an event.
///
/// A window is named by its length until all pipelines have said which ones they read, and then by its index among those that
/// the readings of the kind or the distinct count carry; and so is a series of buckets.
#[derive(Clone, Debug, PartialEq)]
pub enum ReadingSource<W = TableIndex<Span>, B = TableIndex<BucketSeries>> {
    /// The largest count.
    Count {
        /// The kind.
        kind: TableIndex<KindPlan>,
        /// The counter of the kind.
        counter: TableIndex<String>,
        /// The trailing window.
        window: W,
    },
    /// The largest share, of keys whose denominator is at least so much.
    Ratio {
        /// The kind.
        kind: TableIndex<KindPlan>,
        /// Counters and windows whose sum is the numerator.
        over: Vec<(TableIndex<String>, W)>,
        /// Counters and windows whose sum is the denominator.
        under: Vec<(TableIndex<String>, W)>,
        /// The least denominator.
        at_least: u64,
    },
    /// The greatest of the largest buckets, or the least of the other values.
    Buckets {
        /// The kind.
        kind: TableIndex<KindPlan>,
        /// The buckets.
        series: B,
        /// The number of whole ones.
        count: u32,
        /// The value of the buckets.
        value: judge::BucketFunction,
    },
    /// The age of the key that was first seen last; zero for one never seen.
    FirstAge {
        /// The kind.
        kind: TableIndex<KindPlan>,
    },
    /// The time since the key seen most recently was last seen; missing if none was.
    LastAge {
        /// The kind.
        kind: TableIndex<KindPlan>,
    },
    /// The largest of a value of an aggregate, or the least of least ones.
    Aggregate {
        /// The kind.
        kind: TableIndex<KindPlan>,
        /// The value of the aggregate.
        column: TableIndex<AggregateColumn>,
    },
    /// The last value of the key that had one last.
    Last {
        /// The kind.
        kind: TableIndex<KindPlan>,
    },
    /// True if one of the keys was never seen.
    New {
        /// The kind.
        kind: TableIndex<KindPlan>,
    },
    /// True if one of the values is none of those that were counted in the period.
    NewValue {
        /// The distinct count.
        distinct: TableIndex<DistinctPlan>,
    },
    /// The largest number of distinct values.
    Distinct {
        /// The distinct count.
        distinct: TableIndex<DistinctPlan>,
        /// The trailing window.
        window: W,
    },
    /// The value of a limit.
    Limit {
        /// The limit.
        limit: TableIndex<RuleLimit>,
        /// The value of the limit.
        value: judge::LimitValue,
    },
    /// True if a key has a label.
    Marked {
        /// The label.
        label: TableIndex<LabelPlan>,
    },
    /// A value of a reputation: that of the worst key.
    Reputation {
        /// The reputation.
        reputation: TableIndex<ReputationPlan>,
        /// One of its values.
        value: judge::ReputationValue,
    },
    /// True if the statistics of a key are an estimate.
    Estimated {
        /// The kind.
        kind: TableIndex<KindPlan>,
    },
    /// True if a number of distinct values is an estimate.
    EstimatedDistinct {
        /// The distinct count.
        distinct: TableIndex<DistinctPlan>,
    },
}

impl ReadingSource<Span, BucketSeries> {
    /// Names the window or the series by its index.
    ///
    /// # Panics
    /// If the readings do not carry it: what a reading is over is added to them when the reading is asked for, and none
    /// is ever taken away.
    fn compile(self, pipeline: &Pipeline) -> ReadingSource {
        let find = |windows: &Table<Span>, window: Span| {
            let index = windows.position(|known| *known == window);
            index.unwrap_or_else(|| panic!("readings lack the window {window} that they were asked for"))
        };
        let of_kind = |kind, window| find(&pipeline.kinds[kind].windows, window);
        let sum = |kind, terms: Vec<(TableIndex<String>, Span)>| {
            terms.into_iter().map(|(counter, window)| (counter, of_kind(kind, window))).collect()
        };
        match self {
            ReadingSource::Count { kind, counter, window } => {
                ReadingSource::Count { kind, counter, window: of_kind(kind, window) }
            }
            ReadingSource::Ratio { kind, over, under, at_least } => {
                ReadingSource::Ratio { kind, over: sum(kind, over), under: sum(kind, under), at_least }
            }
            ReadingSource::Buckets { kind, series, count, value } => {
                let index = pipeline.kinds[kind].series.position(|known| *known == series);
                let index =
                    index.unwrap_or_else(|| panic!("readings lack the {series:?} that they were asked for"));
                ReadingSource::Buckets { kind, series: index, count, value }
            }
            ReadingSource::Distinct { distinct, window } => {
                let window = find(&pipeline.distincts[distinct].windows, window);
                ReadingSource::Distinct { distinct, window }
            }
            ReadingSource::FirstAge { kind } => ReadingSource::FirstAge { kind },
            ReadingSource::LastAge { kind } => ReadingSource::LastAge { kind },
            ReadingSource::Aggregate { kind, column } => ReadingSource::Aggregate { kind, column },
            ReadingSource::Last { kind } => ReadingSource::Last { kind },
            ReadingSource::New { kind } => ReadingSource::New { kind },
            ReadingSource::NewValue { distinct } => ReadingSource::NewValue { distinct },
            ReadingSource::Limit { limit, value } => ReadingSource::Limit { limit, value },
            ReadingSource::Marked { label } => ReadingSource::Marked { label },
            ReadingSource::Reputation { reputation, value } => {
                ReadingSource::Reputation { reputation, value }
            }
            ReadingSource::Estimated { kind } => ReadingSource::Estimated { kind },
            ReadingSource::EstimatedDistinct { distinct } => ReadingSource::EstimatedDistinct { distinct },
        }
    }
}

impl DistinctPlan {
    pub(crate) fn measure(&self, windows: Vec<Span>) -> Measure {
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

    /// Returns whether a kind counts near-duplicate fingerprints: events that share one say nearly the same.
    pub fn is_of_near_duplicates(&self, kind: &KindPlan) -> bool {
        let field =
            kind.fields.single().and_then(|field| self.schema.columns().get(usize::from(field.slot.0)));
        let name = field.and_then(|column| column.name.rsplit('.').next());
        name.is_some_and(|name| content::NEAR_DUPLICATE_FEATURES.contains(&name))
    }
}

/// Most that an event's value adds to a counter of amounts.
const AMOUNT_MAX: u64 = 1 << 40;

/// Returns the amount that a value is: none where it is missing or negative, and no more than some 10^12.
pub fn amount(value: Option<i64>) -> u64 {
    value.and_then(|value| u64::try_from(value).ok()).unwrap_or(0).min(AMOUNT_MAX)
}

impl KindPlan {
    /// A kind of which nothing is kept yet.
    pub(crate) fn new(kind: Kind, name: String, fields: KeyFields, when: Option<Arc<Condition>>) -> KindPlan {
        KindPlan {
            kind,
            name,
            fields,
            when,
            counters: Table::default(),
            taken: Vec::new(),
            windows: Table::default(),
            series: Table::default(),
            aggregate: Table::default(),
            amounts: Vec::new(),
            value: None,
            decimals: 0,
            takes_events: true,
            last: None,
            observe: Vec::new(),
            settle: Vec::new(),
            settle_values: Vec::new(),
        }
    }

    /// The units of a value that the kind's statistic is over; `None` of what is no number.
    pub fn units(&self, value: &Value) -> Option<i64> {
        match value {
            Value::Integer(integer) => Some(judge::whole_units(*integer, self.decimals)),
            Value::Float(float) => judge::nearest_units(*float, self.decimals),
            _ => None,
        }
    }

    /// The decimals of a counter, by its number in the ledger: those of an amount.
    pub fn decimals_of(&self, counter: usize) -> u8 {
        let is_amount = self.amounts.iter().any(|amount| usize::from(*amount) == counter);
        if is_amount { self.decimals } else { 0 }
    }

    /// Returns what is added to counters, of which each goes up so many times, for an event of this value.
    pub fn amounts(
        &self,
        adds: impl Iterator<Item = (u8, u64)>,
        value: Option<i64>,
    ) -> impl Iterator<Item = (u8, u64)> {
        let added = adds.map(move |(counter, times)| match self.amounts.contains(&counter) {
            true => (counter, times.saturating_mul(amount(value))),
            false => (counter, times),
        });
        added.filter(|(_, amount)| *amount > 0)
    }

    /// Returns the names of the values that are kept of its keys, in order: those of its aggregate, or the last value.
    pub fn aggregate_names(&self) -> Vec<String> {
        match self.last {
            Some(_) => vec![aggregate::LAST_VALUE.to_owned()],
            None => self.aggregate.iter().map(aggregate::name).collect(),
        }
    }

    /// Returns true if the kind has a statistic. The keys of one that has none can still own distinct values and labels.
    pub fn is_counted(&self) -> bool {
        !self.counters.is_empty() || !self.aggregate.is_empty() || self.last.is_some()
    }

    /// The number of a counter in the ledger.
    pub fn counter(&self, name: &str) -> Option<u8> {
        let index = self.counters.position(|counter| counter == name)?;
        u8::try_from(index.get()).ok()
    }

    /// Returns true if feedback adds to a counter of amounts.
    pub fn takes_amounts_back(&self) -> bool {
        self.taken.iter().any(|(of, _)| self.amounts.contains(of))
    }

    /// The number in the ledger of what holds how much of a counter, by its number there, was taken back.
    pub fn taken_back(&self, counter: u8) -> Option<u8> {
        self.taken.iter().find(|(of, _)| *of == counter).map(|(_, taken)| *taken)
    }
}

impl KindPlan {
    /// The shingle of each piece that a value gives.
    pub fn shingles(&self, value: &str, secret: &event::Secret) -> Vec<event::Shingle> {
        let mut shingles = Vec::new();
        let reporter = (self.kind == REPORTER).then(|| reporter(value));
        let value = reporter.as_deref().unwrap_or(value);
        self.fields.pieces_of(value, &mut |piece| shingles.push(secret.shingle(piece.as_bytes())));
        shingles
    }
}
