//! The plan: what a [`Config`] means, checked and compiled. Nothing after this looks at text again.
//!
//! Columns are laid out in the order in which the stages fill them: what every event has, the fields, the content
//! features, the readings, what models say. A rule or a model that asks for a reading nobody asked for yet gets a
//! column of its own for it, so what is read is known before any event comes.

mod authentication;
mod classifier;
mod cluster;
mod envoy;
mod forward;
mod judging;
mod limits;
mod listener;
mod model;
pub(crate) mod phrases;
mod reports;
mod statistic;

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;

use content::authentication::{AuthColumns, Trust};
use content::network::Prefixes;
use content::piece::Normalise;
use event::{Column, ColumnError, Kind, Schema, SchemaBuilder, Slot, Space, Span, Type};
use judge::{
    Action, Condition, CounterSum, Diagnostic, Library, Mode, Names, ReadingRequest, RuleSet, Scope,
    ScopeError, TestRun, TrackValue,
};
use stats::{Admit, Catalog, CatalogBuilder, Durability, LayoutError, Measure, Statistic, Tier, Track};

use crate::candidate::Candidate;
use crate::config::{Config, Document, Files, Origin, Problems, Recipe, View, expected};
use crate::limit::{LIMITS, LimitPlan};
use crate::preset::{self, Preset};
use crate::track;
pub use authentication::{DnsListPlan, DnsPlan, Meaning};
pub use classifier::ClassifierPlan;
pub(crate) use classifier::Lesson;
pub use cluster::ClusterPlan;
pub use envoy::EnvoyPlan;
pub use forward::{FORWARD_FIELDS, ForwardPlan};
pub use listener::{Acting, Endpoint, EndpointError, Failing, ListenerPlan, MailReply, Protocol, Replies};
pub use model::ModelPlan;
pub use phrases::PhrasePlan;
pub use reports::{Class, ReportsPlan, Side};
pub(crate) use reports::{REPORT, REPORTER};
use statistic::{Kept, StatisticDraft};

/// Kind of the marks by which events and feedback with an id are counted once. Configured kinds start at 1.
pub(crate) const ONCE: Kind = Kind(0);

/// Precision of an approximate count for which none is given.
const PRECISION: u8 = 12;

/// Most entries of one list section of a pipeline.
const ENTRIES_MAX: usize = 4096;

/// What a node does: its own settings, its pipelines, and the statistics they share.
#[derive(Debug)]
pub struct Plan {
    /// Settings of the node.
    pub node: NodePlan,
    /// The pipelines; the first is the default one.
    pub pipelines: Vec<Arc<Pipeline>>,
    /// The statistic of every key kind in every space.
    pub catalog: Catalog,
    /// The limits of Envoy.
    pub envoy: Arc<EnvoyPlan>,
    /// Limits, in the order of the configuration.
    pub limits: Vec<Arc<LimitPlan>>,
    /// What proxies may ask.
    pub forwards: Vec<ForwardPlan>,
    /// What is legal and suspicious about the configuration.
    pub warnings: Problems,
    /// How the configuration is read again.
    pub(crate) recipe: Arc<Recipe>,
    /// The files that it was read from.
    pub(crate) files: Files,
}

/// What came of a test that a rule's file has.
#[derive(Clone, Debug)]
pub struct Tested {
    /// The pipeline.
    pub pipeline: String,
    /// The rule.
    pub rule: String,
    /// Where the test says whether the rule is to fire.
    pub origin: Origin,
    /// What was wanted, and found.
    pub run: TestRun,
}

/// Settings of the node.
#[derive(Clone, Debug, PartialEq)]
pub struct NodePlan {
    /// How often a server looks whether files of the configuration have changed; `None` for never.
    pub watch: Option<Span>,
    /// Versions of each pipeline that are kept.
    pub versions: usize,
    /// What is promised of statistics and journal after a crash.
    pub durability: Durability,
    /// The cluster that statistics live in; `None` if they live in the data directory.
    pub cluster: Option<ClusterPlan>,
    /// Bytes of cells and of the directory of keys: what the configured memory leaves beside the sketches.
    pub ledger_memory: usize,
    /// The configured memory.
    pub ledger_configured: usize,
    /// Bytes of a ledger segment.
    pub ledger_segment: u32,
    /// The journal.
    pub journal: JournalPlan,
    /// Name service.
    pub dns: DnsPlan,
    /// The HTTP listener.
    pub server: ServerPlan,
    /// Listeners of other protocols.
    pub listeners: Vec<ListenerPlan>,
}

/// Settings of the journal.
#[derive(Clone, Debug, PartialEq)]
pub struct JournalPlan {
    /// Bytes at which a segment is closed.
    pub segment: u64,
    /// Age at which a segment is closed.
    pub rotate: Span,
    /// Age at which a closed segment is deleted.
    pub keep: Span,
    /// Bytes of the whole journal above which closed segments are deleted, oldest first.
    pub keep_bytes: u64,
}

/// Settings of the HTTP listener.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerPlan {
    /// Where it listens.
    pub listen: SocketAddr,
    /// Bearer tokens, one of which a request must carry; none means that none is asked for.
    pub tokens: Vec<String>,
    /// Bytes of a request body.
    pub body_max: u64,
    /// Events of one batch.
    pub batch_max: usize,
    /// Requests at work at once.
    pub requests_max: usize,
    /// Open connections.
    pub connections_max: usize,
    /// Time for one request.
    pub timeout: Span,
}

/// What a pipeline reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// RFC 5322 messages.
    Message,
    /// Combined-format access-log lines.
    AccessLog,
    /// JSON objects with declared fields only.
    Json,
}

impl Input {
    /// All inputs, in the order in which they are documented.
    pub const ALL: [Input; 3] = [Input::Message, Input::AccessLog, Input::Json];

    /// What configurations call it.
    pub fn name(self) -> &'static str {
        match self {
            Input::Message => "message",
            Input::AccessLog => "access-log",
            Input::Json => "json",
        }
    }
}

/// What to do when statistics cannot be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnError {
    /// Judge by what there is.
    Open,
    /// Answer `throttle`.
    Closed,
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
    pub input: Input,
    /// When statistics cannot be had.
    pub on_error: OnError,
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
    /// Names of the limits that rules ask for.
    pub limits: Vec<String>,
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
    pub trust: Trust,
    /// DNS lists to ask.
    pub lists: Vec<DnsListPlan>,
    pub(crate) prefixes: Prefixes,
    pub(crate) skew_max: Span,
    /// What may be said of an event afterwards: the class, and the counters that it adds to.
    pub feedback: BTreeMap<String, Vec<String>>,
    /// How that is counted; `None` where nothing may be said.
    pub reports: Option<ReportsPlan>,
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
        envelope: content::message::EnvelopeColumns,
        mail: Box<content::message::MailColumns>,
        auth: Box<AuthColumns>,
    },
    AccessLog(Box<content::log::HttpColumns>),
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
    pub normalise: Normalise,
    /// What must hold for an event to have keys of this kind.
    pub(crate) when: Option<Condition>,
    /// Names of the counters, empty for a kind that has none.
    pub counters: Vec<String>,
    /// Counters of which something can be taken back, and those that hold it: both by index.
    pub(crate) taken: Vec<(u8, u8)>,
    /// Trailing windows that its readings carry.
    pub windows: Vec<Span>,
    /// What its track keeps, in the order of a reading's values; empty for a kind that has none.
    pub track: Vec<stats::Column>,
    /// The fact that the track's values are taken from.
    pub(crate) value: Option<Slot>,
    /// Counters that every event adds to.
    pub(crate) observe: Vec<(u8, u64)>,
    /// Counters that a verdict adds to, by action.
    pub(crate) settle: Vec<(Action, u8)>,
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
    fn measure(&self) -> Result<Measure, LayoutError> {
        Track::new(vec![stats::Column::Max], self.keep).map(Measure::Track)
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
    Track { kind: usize, column: usize },
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
    fn measure(&self, windows: Vec<Span>) -> Measure {
        match self.precision {
            Some(precision) => Measure::Approx { tier: self.tier, windows, precision },
            None => Measure::Distinct { tier: self.tier, windows },
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
    pub fn envelope_columns(&self) -> Option<&content::message::EnvelopeColumns> {
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
    /// What the values of its track are called, in order.
    pub fn track_names(&self) -> Vec<String> {
        self.track.iter().map(track::name).collect()
    }

    /// Whether it has a statistic. The keys of one that has none can still own distinct values and labels.
    pub(crate) fn is_counted(&self) -> bool {
        !self.counters.is_empty() || !self.track.is_empty()
    }

    /// The index of a counter.
    pub(crate) fn counter(&self, name: &str) -> Option<u8> {
        let index = self.counters.iter().position(|counter| counter == name)?;
        u8::try_from(index).ok()
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
        let reporter = (self.kind == REPORTER).then(|| crate::report::reporter(value));
        let value = reporter.as_deref().unwrap_or(value);
        content::piece::pieces(&event::Value::from(value), self.normalise, &mut |piece| {
            shingles.push(secret.shingle(piece.as_bytes()));
        });
        shingles
    }
}

impl Plan {
    /// Compiles a configuration. All problems are found, not only the first; a rule that fails one of its tests is
    /// one.
    pub fn compile(config: &Config) -> Result<Plan, Problems> {
        Plan::compile_beside(config, None)
    }

    /// The same for a node that works by another plan now: what is kept of keys cannot change, windows of readings keep
    /// their order, and the node's settings stay.
    pub(crate) fn compile_beside(config: &Config, now: Option<&Plan>) -> Result<Plan, Problems> {
        let (plan, tests, mut problems) = Plan::draft(config, now)?;
        for tested in tests.iter().filter(|tested| !tested.run.passed()) {
            problems.add(&tested.origin, format!("`{}`: {}", tested.rule, tested.run), None);
        }
        Ok(Plan { warnings: problems.refuse()?, ..plan })
    }

    /// Compiles a configuration whose rules may fail their tests, and tells what came of each, in the order of the
    /// pipelines and their rules.
    pub fn compile_untested(config: &Config) -> Result<(Plan, Vec<Tested>), Problems> {
        let (plan, tested, problems) = Plan::draft(config, None)?;
        Ok((Plan { warnings: problems.refuse()?, ..plan }, tested))
    }

    /// A plan, what came of its tests, and what is wrong with the configuration: where that is more than warnings the
    /// plan is none.
    fn draft(config: &Config, now: Option<&Plan>) -> Result<(Plan, Vec<Tested>, Problems), Problems> {
        let (found, worth_compiling) = config.problems();
        let mut problems = found.clone();
        if !worth_compiling {
            return Err(problems.sorted());
        }
        let mut node = NodePlan::compile(config.main(), &mut problems);
        let limits = limits::compile(config.main(), &mut problems);
        let documents = config.documents().iter();
        let mut drafts: Vec<Draft> =
            documents.map(|document| Draft::compile(document, &limits, &mut problems)).collect();
        node.listeners = listener::compile(config.main(), &drafts, &limits, &mut problems);
        let forwards = forward::compile(config.main(), &drafts, &limits, &mut problems);
        let catalog = catalog(config, &mut drafts, &limits, now.map(|plan| &plan.catalog), &mut problems);
        node.ledger_memory = beside_sketches(node.ledger_memory, &drafts, &mut problems);
        let tested = drafts.iter_mut().flat_map(|draft| std::mem::take(&mut draft.tested)).collect();
        let pipelines = drafts.into_iter().map(|draft| Arc::new(draft.finish())).collect();
        let (recipe, files) = (Arc::clone(config.recipe()), config.files().clone());
        let envoy = Arc::new(EnvoyPlan::compile(config, &mut problems));
        let warnings = Problems::default();
        let plan = Plan { node, pipelines, catalog, limits, forwards, envoy, warnings, recipe, files };
        Ok((plan, tested, problems))
    }

    /// The limit of this name.
    pub fn limit(&self, name: &str) -> Option<&Arc<LimitPlan>> {
        self.limits.iter().find(|limit| *limit.name == *name)
    }

    /// The limits of these names and those that are taken with them, each once. Names that are none are left out.
    pub fn limits_of<'n>(&self, names: impl IntoIterator<Item = &'n str>) -> Vec<&Arc<LimitPlan>> {
        let mut all: Vec<&Arc<LimitPlan>> = Vec::new();
        for limit in names.into_iter().filter_map(|name| self.limit(name)) {
            let with = limit.also.iter().filter_map(|name| self.limit(name));
            for limit in std::iter::once(limit).chain(with) {
                if !all.iter().any(|known| known.name == limit.name) {
                    all.push(limit);
                }
            }
        }
        all
    }

    /// The pipeline of this name, or the default one if no name is given.
    pub fn pipeline(&self, name: Option<&str>) -> Option<&Arc<Pipeline>> {
        match name {
            Some(name) => self.pipelines.iter().find(|pipeline| pipeline.name == name),
            None => self.pipelines.first(),
        }
    }
}

impl NodePlan {
    fn compile(document: &Document, problems: &mut Problems) -> NodePlan {
        // The defaults are part of every document, so a value that is absent here is one that failed its check
        // and what stands in for it is never used.
        let size = |section: &str, key: &str| {
            document.section(section).and_then(|view| view.size(key)).unwrap_or(1 << 20)
        };
        let span = |section: &str, key: &str| {
            document.section(section).and_then(|view| view.span(key)).unwrap_or(Span::days(1))
        };
        let server = document.section("server");
        let count = |key: &str| {
            let number = server.and_then(|view| view.integer(key)).unwrap_or(1);
            usize::try_from(number).unwrap_or(1)
        };
        let listen = server.and_then(|view| view.str("listen")?.parse().ok());
        let listen: SocketAddr = listen.unwrap_or(SocketAddr::from(([127, 0, 0, 1], 0)));
        let tokens: Vec<String> = server
            .map(|view| view.strings("tokens").into_iter().map(|(token, _)| token.to_owned()).collect())
            .unwrap_or_default();
        if let (Some(view), false, true) = (server, listen.ip().is_loopback(), tokens.is_empty()) {
            let message = format!("{listen} can be reached from outside and no token is asked for");
            let help = "add tokens = [\"...\"] to [server], or listen on a loopback address".to_owned();
            problems.add(view.origin("listen"), message, Some(help));
        }
        let durability = document.section("ledger").and_then(|view| view.str("durability")?.parse().ok());
        let of_node = document.section("node");
        let versions = of_node.and_then(|view| usize::try_from(view.integer("versions")?).ok());
        NodePlan {
            watch: of_node.and_then(|view| view.span("watch")),
            versions: versions.unwrap_or(1),
            durability: durability.unwrap_or(Durability::Sync),
            cluster: ClusterPlan::compile(document, problems),
            ledger_memory: usize::try_from(size("ledger", "memory")).unwrap_or(usize::MAX),
            ledger_configured: usize::try_from(size("ledger", "memory")).unwrap_or(usize::MAX),
            ledger_segment: u32::try_from(size("ledger", "segment")).unwrap_or(u32::MAX),
            journal: JournalPlan {
                segment: size("journal", "segment"),
                rotate: span("journal", "rotate"),
                keep: span("journal", "keep"),
                keep_bytes: size("journal", "keep_bytes"),
            },
            dns: DnsPlan::compile(document, problems),
            server: ServerPlan {
                listen,
                tokens,
                body_max: size("server", "body_max"),
                batch_max: count("batch_max"),
                requests_max: count("requests_max"),
                connections_max: count("connections_max"),
                timeout: span("server", "timeout"),
            },
            listeners: Vec::new(),
        }
    }
}

/// A pipeline in the making.
struct Draft<'a> {
    pipeline: Pipeline,
    limits: &'a [Arc<LimitPlan>],
    statistics: Vec<StatisticDraft<'a>>,
    /// For each kind the statistic that it has.
    statistic_of: Vec<Option<usize>>,
    dedupe: Span,
    document: &'a Document,
    library: Library,
    tested: Vec<Tested>,
    /// No column is added any more: a candidate sees what the enforced rules can see.
    frozen: bool,
}

impl<'a> Draft<'a> {
    fn compile(document: &'a Document, limits: &'a [Arc<LimitPlan>], problems: &mut Problems) -> Draft<'a> {
        let top = document.top();
        let mut builder = SchemaBuilder::default();
        let input = match top.str("input") {
            Some("message") => Input::Message,
            Some("access-log") => Input::AccessLog,
            _ => Input::Json,
        };
        let mut columns = columns(document, input, &mut builder, problems);
        let phrases = phrases::compile(document, &mut builder, problems);
        // What is found of phrases is a fact of the event like its other features.
        columns.count = builder.schema().columns().len();
        let sets = judging::sets(document, problems);
        let canonical = judging::canonical(document, &sets);
        let networks = document.section("networks");
        let prefix = |key: &str, default: u8| {
            networks.and_then(|view| u8::try_from(view.integer(key)?).ok()).unwrap_or(default)
        };
        let time = document.section("time");
        let mut draft = Draft {
            limits,
            pipeline: Pipeline {
                name: document.name().to_owned(),
                space: Space(top.integer("space").and_then(|number| u16::try_from(number).ok()).unwrap_or(0)),
                input,
                on_error: if top.str("on_error") == Some("closed") { OnError::Closed } else { OnError::Open },
                version: crate::content_hash(canonical.as_bytes()),
                canonical,
                preset: top.str("preset").and_then(preset::find),
                schema: Arc::default(),
                rules: RuleSet::default(),
                kinds: Vec::new(),
                distincts: Vec::new(),
                labels: Vec::new(),
                limits: Vec::new(),
                columns,
                phrases,
                classifiers: Vec::new(),
                models: Vec::new(),
                candidate: None,
                readings: Vec::new(),
                checks: false,
                trust: Trust::default(),
                lists: Vec::new(),
                prefixes: Prefixes { v4: prefix("ipv4", 24), v6: prefix("ipv6", 64) },
                skew_max: time.and_then(|view| view.span("skew_max")).unwrap_or(Span::minutes(5)),
                feedback: BTreeMap::new(),
                reports: None,
            },
            statistics: Vec::new(),
            statistic_of: Vec::new(),
            dedupe: time.and_then(|view| view.span("dedupe")).unwrap_or(Span::days(1)),
            document,
            library: Library::default(),
            tested: Vec::new(),
            frozen: false,
        };
        draft.authentication(builder.schema(), problems);
        draft.define_constants(&sets, &mut builder);
        draft.kinds(&mut builder, problems);
        draft.statistics(builder.schema(), problems);
        draft.distincts(builder.schema(), problems);
        draft.labels(problems);
        draft.idle_kinds(problems);
        draft.adds(problems);
        draft.reports(problems);
        draft.configured_readings(&mut builder, problems);
        draft.track_readings(&mut builder, problems);
        draft.classifiers(&mut builder, problems);
        draft.models(&mut builder, problems);
        draft.define(&sets, &mut builder, problems);
        draft.rules(&mut builder, problems);
        draft.partial_rules();
        draft.candidate(&mut builder, problems);
        draft.pipeline.schema = Arc::new(builder.finish());
        draft
    }

    fn kinds(&mut self, builder: &mut SchemaBuilder, problems: &mut Problems) {
        for view in entries(self.document, "kind", problems) {
            let (Some(name), Some(number)) = (view.str("name"), view.integer("number")) else { continue };
            let kind = Kind(u16::try_from(number).unwrap_or(u16::MAX));
            if !self.claim(view, name, kind, problems) {
                continue;
            }
            let of = view.str("of").unwrap_or_default();
            let slot = fact(builder.schema(), of, view.origin("of"), problems);
            // Nothing is counted yet, so such a condition can only name facts.
            let when = view.str("when").and_then(|when| {
                let library = self.library.clone();
                let compiled = judge::compile(when, &library, &mut PlanScope { draft: self, builder });
                if let Ok(condition) = &compiled {
                    report(condition.warnings().to_vec(), view.origin("when"), when, name, problems);
                }
                compiled.map_err(|found| report(found, view.origin("when"), when, name, problems)).ok()
            });
            self.pipeline.kinds.push(KindPlan {
                kind,
                name: name.to_owned(),
                slot,
                normalise: view
                    .str("normalise")
                    .and_then(|name| name.parse().ok())
                    .unwrap_or(Normalise::Exact),
                when,
                counters: Vec::new(),
                taken: Vec::new(),
                windows: Vec::new(),
                track: Vec::new(),
                value: None,
                observe: Vec::new(),
                settle: Vec::new(),
            });
            self.statistic_of.push(None);
        }
    }

    /// Whether a kind's or distinct count's name and number are still free; if not, says so.
    fn claim(&self, view: View<'_>, name: &str, kind: Kind, problems: &mut Problems) -> bool {
        let kinds = self.pipeline.kinds.iter().map(|other| (other.kind, &other.name));
        let distincts = self.pipeline.distincts.iter().map(|other| (other.kind, &other.name));
        let labels = self.pipeline.labels.iter().map(|other| (other.kind, &other.name));
        let classifiers = self.pipeline.classifiers.iter().map(|other| (other.kind, &other.name));
        for (other_kind, other_name) in kinds.chain(distincts).chain(labels).chain(classifiers) {
            if other_name == name {
                let message = format!("`{name}` is defined twice");
                problems.add(
                    view.origin("name"),
                    message,
                    Some("names of kinds, distinct counts, labels and classifiers are given once".into()),
                );
                return false;
            }
            if other_kind == kind {
                let message = format!("number {} is already that of `{other_name}`", kind.0);
                problems.add(view.origin("number"), message, Some("give another number".into()));
                return false;
            }
        }
        true
    }

    fn statistics(&mut self, schema: &Schema, problems: &mut Problems) {
        let said: Vec<String> = self.counters_of_feedback().into_iter().map(str::to_owned).collect();
        for view in entries(self.document, "statistic", problems) {
            let Some(name) = view.str("name") else { continue };
            if self.statistics.iter().any(|other| other.name == name) {
                problems.add(view.origin("name"), format!("statistic `{name}` is defined twice"), None);
                continue;
            }
            let index = self.statistics.len();
            for (kind_name, origin) in view.strings("keys") {
                let Some(kind) = self.kind(kind_name, origin, problems) else { continue };
                match self.statistic_of[kind] {
                    Some(other) => {
                        let other = self.statistics.get(other).map_or(name, |other| other.name.as_str());
                        let message = format!("kind `{kind_name}` already has the statistic `{other}`");
                        let help = "a kind has one statistic: put all counters there, or make another [[kind]] of the \
                                    same fact"
                            .to_owned();
                        problems.add(origin, message, Some(help));
                    }
                    None => self.statistic_of[kind] = Some(index),
                }
            }
            let (draft, sound) = StatisticDraft::compile(name, view, schema, &said, problems);
            if !sound {
                for statistic in &mut self.statistic_of {
                    statistic.take_if(|own| *own == index);
                }
            }
            for (kind, _) in
                self.pipeline.kinds.iter_mut().zip(&self.statistic_of).filter(|(_, of)| **of == Some(index))
            {
                match &draft.kept {
                    Kept::Windows { .. } => {
                        (kind.counters, kind.taken) = (draft.counters().to_vec(), draft.taken())
                    }
                    Kept::Track { track, value } => {
                        (kind.track, kind.value) = (track.columns().to_vec(), *value);
                    }
                }
            }
            self.statistics.push(draft);
        }
    }

    fn distincts(&mut self, schema: &Schema, problems: &mut Problems) {
        for view in entries(self.document, "distinct", problems) {
            let (Some(name), Some(number)) = (view.str("name"), view.integer("number")) else { continue };
            let kind = Kind(u16::try_from(number).unwrap_or(u16::MAX));
            if !self.claim(view, name, kind, problems) {
                continue;
            }
            let per = view.str("per").and_then(|per| self.kind(per, view.origin("per"), problems));
            let of = fact(schema, view.str("of").unwrap_or_default(), view.origin("of"), problems);
            let text = view.str("window").unwrap_or_default();
            let tier = match text.parse::<Tier>() {
                Ok(tier) => tier,
                Err(error) => {
                    problems.add(
                        view.origin("window"),
                        format!("`{text}` is no window"),
                        Some(error.to_string()),
                    );
                    continue;
                }
            };
            let approximate = view.str("method") == Some("approximate");
            if view.is_given("precision") && !approximate {
                let help = "add `method = \"approximate\"`, or leave it out".to_owned();
                problems.add(view.origin("precision"), "an exact count has no precision", Some(help));
            }
            let given = view.integer("precision").and_then(|precision| u8::try_from(precision).ok());
            let Some(per) = per else { continue };
            let distinct = DistinctPlan {
                kind,
                name: name.to_owned(),
                per,
                of,
                tier,
                precision: approximate.then(|| given.unwrap_or(PRECISION)),
                windows: vec![tier.width],
            };
            // A precision out of range was told of when the text was checked.
            match distinct.measure(distinct.windows.clone()).check() {
                Ok(()) => self.pipeline.distincts.push(distinct),
                Err(LayoutError::Precision(_)) => {}
                Err(error) => problems.add(view.origin("window"), error.to_string(), None),
            }
        }
    }

    /// Tells of kinds of which nothing is kept.
    fn idle_kinds(&self, problems: &mut Problems) {
        let pipeline = &self.pipeline;
        for view in self.document.list("kind") {
            let named = |kind: &KindPlan| Some(kind.name.as_str()) == view.str("name");
            let Some(kind) = pipeline.kinds.iter().position(named) else { continue };
            let name = pipeline.kinds[kind].name.as_str();
            // One that is not sound was told of, and so were its kinds.
            let counted = self
                .statistics
                .iter()
                .any(|statistic| statistic.view.strings("keys").iter().any(|(key, _)| *key == name));
            let names = |section: &str, key: &str| {
                self.document.list(section).iter().any(|view| view.str(key) == Some(name))
            };
            let owns = names("distinct", "per") || names("label", "of");
            if !counted && !owns && pipeline.kinds[kind].slot != Slot(u16::MAX) {
                let message = format!("nothing is kept of the kind `{name}`");
                let help = "name it in the `keys` of a [[statistic]], or take it out".to_owned();
                problems.push(judge::Severity::Warning, view.origin("name"), message, Some(help));
            }
        }
    }

    /// What events, verdicts and feedback add.
    fn adds(&mut self, problems: &mut Problems) {
        let counters: Vec<&str> =
            self.statistics.iter().flat_map(StatisticDraft::counters).map(String::as_str).collect();
        let tracks = self.statistics.iter().find_map(|statistic| match &statistic.kept {
            Kept::Track { track, .. } => Some((&statistic.name, track)),
            Kept::Windows { .. } => None,
        });
        let mut known = |name: &str, origin: &Origin| {
            let known = counters.contains(&name);
            if !known {
                let help = match tracks {
                    Some((statistic, track))
                        if counters.is_empty()
                            || track.columns().iter().any(|column| track::name(column) == name) =>
                    {
                        format!(
                            "the track `{statistic}` has no counters, every event is added to it: what verdicts and \
                             feedback add is counted by a statistic with `counts` and `windows`"
                        )
                    }
                    _ => expected(name, counters.iter().copied()),
                };
                problems.add(origin, format!("no statistic has a counter `{name}`"), Some(help));
            }
            known
        };
        let mut observe = Vec::new();
        if let Some(view) = self.document.section("observe") {
            // A pipeline without counters counts nothing, and need not say so.
            let meant = !counters.is_empty() || view.is_given("add");
            let names = view.strings("add").into_iter().filter(|_| meant);
            observe.extend(names.filter(|(name, origin)| known(name, origin)).map(|(name, _)| name));
        }
        let mut settle: Vec<(Action, &str)> = Vec::new();
        for (name, origin, actions) in self.document.section("settle").iter().flat_map(View::map) {
            if known(name, origin) {
                let actions = actions.iter().filter_map(|(action, _)| action.parse().ok());
                settle.extend(actions.map(|action: Action| (action, name)));
            }
        }
        let mut feedback = BTreeMap::new();
        for (class, _, names) in self.document.section("feedback").iter().flat_map(View::map) {
            let names = names.into_iter().filter(|(name, origin)| known(name, origin));
            feedback.insert(class.to_owned(), names.map(|(name, _)| name.to_owned()).collect());
        }
        self.pipeline.feedback = feedback;
        for kind in &mut self.pipeline.kinds {
            let index = |name: &str| kind.counter(name);
            let mut adds: Vec<(u8, u64)> =
                observe.iter().filter_map(|name| Some((index(name)?, 1))).collect();
            adds.sort_unstable();
            adds.dedup();
            let mut settles: Vec<(Action, u8)> =
                settle.iter().filter_map(|(action, name)| Some((*action, index(name)?))).collect();
            settles.sort_unstable_by_key(|(action, index)| (action.name(), *index));
            settles.dedup();
            (kind.observe, kind.settle) = (adds, settles);
        }
    }

    /// Columns for the readings that the configuration asks for whether or not a rule does.
    fn configured_readings(&mut self, builder: &mut SchemaBuilder, problems: &mut Problems) {
        for statistic in 0..self.statistics.len() {
            let view = self.statistics[statistic].view;
            for (text, origin) in view.strings("readings") {
                let Ok(window) = text.parse() else { continue };
                if let Err(error) = self.read_all(statistic, window, builder) {
                    problems.add(origin, scope_error(error), None);
                }
            }
        }
    }

    /// Columns for every counter of every kind of a statistic over one window.
    fn read_all(
        &mut self,
        statistic: usize,
        window: Span,
        builder: &mut SchemaBuilder,
    ) -> Result<(), ScopeError> {
        for index in 0..self.pipeline.kinds.len() {
            if self.statistic_of[index] != Some(statistic) {
                continue;
            }
            let kind = self.pipeline.kinds[index].name.clone();
            for counter in self.statistics[statistic].counters().to_vec() {
                let request = ReadingRequest::Count { kind: &kind, counter: &counter, window: Some(window) };
                PlanScope { draft: self, builder }.reading(&request)?;
            }
        }
        Ok(())
    }

    /// Columns for all that tracks keep.
    fn track_readings(&mut self, builder: &mut SchemaBuilder, problems: &mut Problems) {
        for index in 0..self.pipeline.kinds.len() {
            let (kind, columns) = {
                let plan = &self.pipeline.kinds[index];
                (plan.name.clone(), plan.track.clone())
            };
            for column in columns {
                let kind = kind.as_str();
                let request = match column {
                    stats::Column::First => ReadingRequest::FirstAge { kind },
                    stats::Column::Last => ReadingRequest::LastAge { kind },
                    stats::Column::Count => ReadingRequest::Track { kind, value: TrackValue::Count },
                    stats::Column::Sum => ReadingRequest::Track { kind, value: TrackValue::Sum },
                    stats::Column::Min => ReadingRequest::Track { kind, value: TrackValue::Min },
                    stats::Column::Max => ReadingRequest::Track { kind, value: TrackValue::Max },
                    stats::Column::Decayed { half_life, .. } => {
                        ReadingRequest::Track { kind, value: TrackValue::Decayed(half_life) }
                    }
                };
                if let Err(error) = (PlanScope { draft: self, builder }).reading(&request) {
                    let statistic = self.statistic_of[index].and_then(|index| self.statistics.get(index));
                    let view = statistic.map_or(self.document.top(), |statistic| statistic.view);
                    problems.add(view.origin("track"), scope_error(error), None);
                }
            }
        }
    }

    fn kind(&self, name: &str, origin: &Origin, problems: &mut Problems) -> Option<usize> {
        let found = self.pipeline.kinds.iter().position(|kind| kind.name == name);
        if found.is_none() {
            let names = self.pipeline.kinds.iter().map(|kind| kind.name.as_str());
            problems.add(origin, format!("there is no kind `{name}`"), Some(expected(name, names)));
        }
        found
    }

    fn finish(self) -> Pipeline {
        self.pipeline
    }
}

/// The memory that sketches leave to cells and directory. Kinds of a statistic share its sketch, and so do
/// statistics of equal name.
fn beside_sketches(memory: usize, drafts: &[Draft<'_>], problems: &mut Problems) -> usize {
    let mut sketches: Vec<(&str, Admit, View<'_>)> = Vec::new();
    for statistic in drafts.iter().flat_map(|draft| &draft.statistics) {
        let (name, Some(admit)) = (statistic.name.as_str(), statistic.admit) else { continue };
        if !sketches.iter().any(|(other, known, _)| (*other, *known) == (name, admit)) {
            sketches.push((name, admit, statistic.view));
        }
    }
    let total = sketches.iter().fold(0usize, |total, (_, admit, _)| total.saturating_add(admit.bytes));
    if total > memory / 2
        && let Some((name, admit, view)) = sketches.iter().max_by_key(|(_, admit, _)| admit.bytes)
    {
        let message = format!(
            "the sketch of `{name}` takes {} bytes, and all sketches more than half of the {memory} of [ledger]",
            admit.bytes
        );
        let help = "expect fewer keys or give less memory here, or raise `memory` of [ledger]".to_owned();
        problems.add(view.origin("admit"), message, Some(help));
    }
    memory.saturating_sub(total)
}

/// Merges the pipelines' statistics: where two share a space, a kind number must mean the same to both, and its
/// readings carry the windows of either. Beside a catalog in force nothing in that changes its meaning or its place:
/// events that are at work read by the order of its windows, and what nobody asks for any more is kept all the same.
fn catalog(
    config: &Config,
    drafts: &mut [Draft<'_>],
    limits: &[Arc<LimitPlan>],
    now: Option<&Catalog>,
    problems: &mut Problems,
) -> Catalog {
    let mut windows: HashMap<(Space, Kind), Vec<Span>> = HashMap::new();
    for draft in drafts.iter() {
        let space = draft.pipeline.space;
        let kinds = draft.pipeline.kinds.iter().map(|kind| (kind.kind, &kind.windows));
        let distincts = draft.pipeline.distincts.iter().map(|distinct| (distinct.kind, &distinct.windows));
        for (kind, wanted) in kinds.chain(distincts) {
            let all = windows.entry((space, kind)).or_default();
            all.extend(wanted);
            all.sort_unstable();
            all.dedup();
        }
    }
    for (space, kind, statistic) in now.iter().flat_map(|catalog| catalog.iter()) {
        let all = windows.entry((space, kind)).or_default();
        let known = statistic.measure.windows();
        all.retain(|window| !known.contains(window));
        all.splice(..0, known.iter().copied());
    }
    let mut builder = CatalogBuilder::default();
    for draft in drafts.iter_mut() {
        let space = draft.pipeline.space;
        let mut add = |kind: Kind, name: &str, kind_name: &str, (measure, admit), origin: &Origin| {
            let statistic = Statistic {
                name: name.to_owned(),
                kind_name: kind_name.to_owned(),
                measure,
                admit,
                exact: false,
            };
            if let Some((message, help)) = now.and_then(|now| clash(now, space, kind, &statistic)) {
                return problems.add(origin, message, Some(help));
            }
            if let Err(error) = builder.add(space, kind, statistic) {
                problems.add(
                    origin,
                    error.to_string(),
                    Some("pipelines of one space share their kinds".into()),
                );
            }
        };
        let start = draft.document.top().origin("space");
        add(ONCE, "once", "once", (Measure::Once { window: draft.dedupe }, None), start);
        let mut unfit = Vec::new();
        for (kind, statistic) in draft.pipeline.kinds.iter_mut().zip(&draft.statistic_of) {
            let Some(statistic) = statistic.and_then(|index| draft.statistics.get(index)) else { continue };
            kind.windows = windows.get(&(space, kind.kind)).cloned().unwrap_or_default();
            let origin = statistic.view.origin("keys");
            match statistic.measure(kind.windows.clone()) {
                Ok(measure) => {
                    add(kind.kind, &statistic.name, &kind.name, (measure, statistic.admit), origin);
                }
                Err(error) => unfit.push((origin, error)),
            }
        }
        for distinct in &mut draft.pipeline.distincts {
            distinct.windows = windows.get(&(space, distinct.kind)).cloned().unwrap_or_default();
            let measure = distinct.measure(distinct.windows.clone());
            add(distinct.kind, &distinct.name, &distinct.name, (measure, None), start);
        }
        for plan in &draft.pipeline.classifiers {
            add(plan.kind, &plan.name, &plan.name, (plan.measure(), None), start);
        }
        for label in &draft.pipeline.labels {
            // One that cannot be kept was told of.
            if let Ok(measure) = label.measure() {
                add(label.kind, &label.name, &label.name, (measure, None), start);
            }
        }
        if draft.pipeline.reports.is_some() {
            // Constants, which fit.
            for (kind, name, measure) in ReportsPlan::measures().into_iter().flatten() {
                add(kind, "reports", name, (measure, None), start);
            }
        }
        // Each window was looked at when it was asked for: together they can be too many.
        for (origin, error) in unfit {
            let help =
                "a node that runs keeps windows that no rule asks for any more: restart it, or ask for fewer";
            problems.add(origin, error.to_string(), Some(help.to_owned()));
        }
    }
    add_limits(&mut builder, config, limits, now, problems);
    for (space, kind, statistic) in now.iter().flat_map(|catalog| catalog.iter()) {
        builder.keep(space, kind, statistic);
    }
    builder.build()
}

/// Adds what limits count.
fn add_limits(
    builder: &mut CatalogBuilder,
    config: &Config,
    limits: &[Arc<LimitPlan>],
    now: Option<&Catalog>,
    problems: &mut Problems,
) {
    let mut add = |kind: Kind, name: &str, kind_name: &str, (measure, exact), origin: &Origin| {
        let statistic =
            Statistic { name: name.to_owned(), kind_name: kind_name.to_owned(), measure, admit: None, exact };
        if let Some((message, help)) = now.and_then(|now| clash(now, LIMITS, kind, &statistic)) {
            return problems.add(origin, message, Some(help));
        }
        if let Err(error) = builder.add(LIMITS, kind, statistic) {
            problems.add(origin, error.to_string(), None);
        }
    };
    let views = config.main().list("limit");
    for limit in limits {
        let view = views.iter().find(|view| view.str("name") == Some(&*limit.name));
        let origin = view.map_or_else(|| config.main().top().origin(""), |view| view.origin("number"));
        // What cannot be kept was told of.
        for (kind, name, measure) in limit.measures().into_iter().flatten() {
            // Refusals and bans are counted like other statistics.
            add(kind, name, &limit.name, (measure, limit.exact && kind == limit.kind), origin);
        }
    }
    // Constants, which fit.
    for (kind, name, measure) in LimitPlan::shared_measures().into_iter().flatten() {
        add(kind, "limits", &name, (measure, false), config.main().top().origin(""));
    }
}

/// Why a statistic cannot come to be while a node runs by this catalog, and what to do.
fn clash(now: &Catalog, space: Space, kind: Kind, new: &Statistic) -> Option<(String, String)> {
    let restart = "restart the node to change it: what is stored is then translated";
    match now.get(space, kind) {
        Some(known)
            if (&known.name, &known.kind_name, known.admit) != (&new.name, &new.kind_name, new.admit)
                || !known.measure.keeps_what(&new.measure) =>
        {
            let (kind, name) = (&known.kind_name, &known.name);
            let message = format!("what is kept of `{kind}` by `{name}` cannot change while it is counted");
            Some((message, restart.to_owned()))
        }
        None if new.admit.is_some_and(|admit| {
            now.iter().all(|(_, _, known)| (&known.name, known.admit) != (&new.name, Some(admit)))
        }) =>
        {
            let message =
                format!("the sketch of `{}` takes memory, which is given out when a node starts", new.name);
            Some((message, "restart the node, or leave `admit` out".to_owned()))
        }
        _ => None,
    }
}

/// Adds the columns that an input fills by itself.
fn input_columns(input: Input, builder: &mut SchemaBuilder) -> (EventColumns, ContentColumns) {
    let mut register = || -> Result<_, ColumnError> {
        let event = EventColumns::register(builder)?;
        let content = match input {
            Input::Message => ContentColumns::Message {
                envelope: content::message::EnvelopeColumns::register(builder)?,
                mail: Box::new(content::message::MailColumns::register(builder)?),
                auth: Box::new(AuthColumns::register(builder)?),
            },
            Input::AccessLog => {
                ContentColumns::AccessLog(Box::new(content::log::HttpColumns::register(builder)?))
            }
            Input::Json => ContentColumns::Json,
        };
        Ok((event, content))
    };
    // The columns of an input have names of their own: every test that compiles a preset holds them to that.
    register().unwrap_or_else(|error| unreachable!("columns of {input:?}: {error}"))
}

/// The facts that events of an input bring, before readings and declared fields.
pub(crate) fn input_facts(input: Input) -> Schema {
    let mut builder = SchemaBuilder::default();
    input_columns(input, &mut builder);
    builder.finish()
}

fn columns(
    document: &Document,
    input: Input,
    builder: &mut SchemaBuilder,
    problems: &mut Problems,
) -> InputColumns {
    let (event, content) = input_columns(input, builder);
    let mut networks = Vec::new();
    for view in entries(document, "field", problems) {
        let (Some(name), Some(kind)) =
            (view.str("name"), view.str("type").and_then(|kind| kind.parse().ok()))
        else {
            continue;
        };
        let doc = view.str("description").unwrap_or_default().to_owned();
        let mut add = |name: String, kind: Type, doc: String| {
            let added = builder.add(Column { name: name.clone(), kind, doc, journalled: true });
            added.map_err(|error| problems.add(view.origin("name"), format!("`{name}`: {error}"), None)).ok()
        };
        let Some(slot) = add(name.to_owned(), kind, doc) else { continue };
        if kind == Type::Ip {
            let doc = format!("The network of {name}");
            networks.extend(add(format!("{name}_net"), Type::String, doc).map(|net| (slot, net)));
        }
    }
    InputColumns { event, networks, content, count: builder.schema().columns().len() }
}

fn fact(schema: &Schema, name: &str, origin: &Origin, problems: &mut Problems) -> Slot {
    schema.slot(name).unwrap_or_else(|| {
        let names = schema.columns().iter().map(|column| column.name.as_str());
        problems.add(origin, format!("there is no fact `{name}`"), Some(expected(name, names)));
        Slot(u16::MAX)
    })
}

fn scope_error(error: ScopeError) -> String {
    match error {
        ScopeError::Counter { name, known } => format!("no counter `{name}` among {}", known.join(", ")),
        ScopeError::Label { name, known } => format!("no label `{name}` among {}", known.join(", ")),
        ScopeError::Window(why) | ScopeError::Unavailable(why) => why,
    }
}

/// What is wrong with the condition of a rule or a kind.
fn report(diagnostics: Vec<Diagnostic>, origin: &Origin, when: &str, name: &str, problems: &mut Problems) {
    for diagnostic in diagnostics {
        let place = inside(origin, when, diagnostic.range);
        problems.push(
            diagnostic.severity,
            &place,
            format!("`{name}`: {}", diagnostic.message),
            diagnostic.help,
        );
    }
}

/// The entries of a list section; too many are said, and the surplus left out.
fn entries<'a>(document: &'a Document, name: &str, problems: &mut Problems) -> Vec<View<'a>> {
    let mut entries = document.list(name);
    if let Some(surplus) = entries.get(ENTRIES_MAX) {
        let message = format!("there are {} [[{name}]]", entries.len());
        problems.add(surplus.origin(""), message, Some(format!("at most {ENTRIES_MAX} are possible")));
        entries.truncate(ENTRIES_MAX);
    }
    entries
}

/// The place of a range of a TOML string's value: exact where the string has no escapes.
pub(crate) fn inside(origin: &Origin, value: &str, range: std::ops::Range<usize>) -> Origin {
    let raw = origin.source.text.get(origin.range.clone()).unwrap_or_default();
    match raw.find(value) {
        Some(start) => origin.within(start + range.start..start + range.end),
        None => origin.clone(),
    }
}

/// What rules can name: facts of the schema, and readings, which get a column when first asked for.
struct PlanScope<'d, 'a, 'b> {
    draft: &'d mut Draft<'a>,
    builder: &'b mut SchemaBuilder,
}

impl PlanScope<'_, '_, '_> {
    fn is_of_model(&self, slot: Slot) -> bool {
        self.draft.pipeline.models.iter().any(|model| model.slots().any(|other| other == slot))
    }

    /// The column of a reading, named as rules write it.
    fn column_of(
        &mut self,
        request: &ReadingRequest<'_>,
        doc: String,
        source: ReadingSource,
    ) -> Result<Slot, ScopeError> {
        if let Some(known) = self.draft.pipeline.readings.iter().find(|column| column.source == source) {
            return Ok(known.slot);
        }
        let column = Column { name: request.to_string(), kind: request.column_type(), doc, journalled: true };
        let slot = self.builder.add(column).map_err(|error| ScopeError::Unavailable(error.to_string()))?;
        self.draft.pipeline.readings.push(ReadingColumn { slot, source });
        Ok(slot)
    }

    /// The index of a kind that has a statistic.
    fn kind(&self, name: &str) -> Result<usize, ScopeError> {
        let kind = self.draft.pipeline.kinds.iter().position(|kind| kind.name == name);
        kind.filter(|kind| self.draft.statistic_of[*kind].is_some()).ok_or_else(|| {
            let mend = "name it in the `keys` of a [[statistic]]";
            ScopeError::Unavailable(format!("nothing is counted for the kind `{name}`: {mend}"))
        })
    }

    fn counter_of(&self, kind: usize, name: &str) -> Result<usize, ScopeError> {
        let known = &self.draft.pipeline.kinds[kind].counters;
        known
            .iter()
            .position(|counter| counter == name)
            .ok_or_else(|| ScopeError::Counter { name: name.to_owned(), known: known.clone() })
    }

    /// Makes sure that the readings of a kind carry a window; none named is the longest that is kept.
    fn window(&mut self, kind: usize, window: Option<Span>) -> Result<Span, ScopeError> {
        let statistic = self.draft.statistic_of[kind].and_then(|index| self.draft.statistics.get(index));
        let statistic = statistic.ok_or_else(|| ScopeError::Unavailable("nothing is counted".to_owned()))?;
        let Kept::Windows { tiers, .. } = &statistic.kept else {
            return Err(ScopeError::Window("a track has no windows".to_owned()));
        };
        let longest = tiers.iter().map(|tier| tier.span()).max().unwrap_or_default();
        let window = window.unwrap_or(longest);
        statistic.measure(vec![window]).map_err(|error| ScopeError::Window(error.to_string()))?;
        let windows = &mut self.draft.pipeline.kinds[kind].windows;
        if !windows.contains(&window) {
            windows.push(window);
        }
        Ok(window)
    }

    /// The place among the values of a kind's track of the first that is wanted.
    fn column(
        &self,
        kind: usize,
        name: &str,
        wanted: impl Fn(&stats::Column) -> bool,
    ) -> Result<usize, ScopeError> {
        let KindPlan { name: kind_name, track, .. } = &self.draft.pipeline.kinds[kind];
        track.iter().position(wanted).ok_or_else(|| {
            let mend = format!("add \"{name}\" to `track` of its [[statistic]]");
            ScopeError::Unavailable(format!("the track of `{kind_name}` does not keep `{name}`: {mend}"))
        })
    }

    fn half_life(&self, kind: usize, wanted: Span) -> Result<usize, ScopeError> {
        let KindPlan { name, track, .. } = &self.draft.pipeline.kinds[kind];
        let half_lives = || {
            track.iter().zip(0..).filter_map(|(column, index)| match column {
                stats::Column::Decayed { half_life, .. } => Some((*half_life, index)),
                _ => None,
            })
        };
        half_lives().find(|(half_life, _)| *half_life == wanted).map(|(_, index)| index).ok_or_else(|| {
            let known: Vec<String> = half_lives().map(|(half_life, _)| half_life.to_string()).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            let mend = format!("it has {known}, and more may be added to `decay` of its [[statistic]]");
            ScopeError::Window(format!("the track of `{name}` has no half-life {wanted}: {mend}"))
        })
    }

    /// Refuses an age that a track is not to keep; other statistics have both.
    fn age(&self, kind: usize, name: &str, wanted: stats::Column) -> Result<usize, ScopeError> {
        if !self.draft.pipeline.kinds[kind].track.is_empty() {
            self.column(kind, name, |column| *column == wanted)?;
        }
        Ok(kind)
    }

    fn sum(&mut self, kind: usize, sum: &CounterSum<'_>) -> Result<Vec<(usize, Span)>, ScopeError> {
        let window = self.window(kind, sum.window)?;
        sum.counters.iter().map(|counter| Ok((self.counter_of(kind, counter)?, window))).collect()
    }
}

impl Scope for PlanScope<'_, '_, '_> {
    fn fact(&self, name: &str) -> Option<(Slot, Type)> {
        let schema = self.builder.schema();
        // Columns of readings and models are not named as facts: rules ask for the reading, or for the model.
        let slot = schema.slot(name).filter(|slot| !name.contains('(') && !self.is_of_model(*slot))?;
        Some((slot, schema.column(slot).kind))
    }

    fn model(&self, name: &str) -> Option<(Slot, Mode)> {
        let (model, slot) =
            self.draft.pipeline.models.iter().find_map(|model| Some((model, model.output(name)?)))?;
        Some((slot, self.draft.model_mode(model)))
    }

    fn reading(&mut self, request: &ReadingRequest<'_>) -> Result<Slot, ScopeError> {
        if self.draft.frozen {
            return self.known_reading(request);
        }
        let source = self.source(request)?;
        let over = "from before the event; the most telling of the event's keys";
        self.column_of(request, format!("Reading `{request}`, {over}"), source)
    }

    fn is_kind(&self, name: &str) -> bool {
        self.draft.pipeline.kinds.iter().any(|kind| kind.name == name)
    }

    fn is_track(&self, kind: &str) -> bool {
        self.draft.pipeline.kinds.iter().any(|plan| plan.name == kind && !plan.track.is_empty())
    }

    fn is_distinct(&self, name: &str) -> bool {
        self.draft.pipeline.distincts.iter().any(|distinct| distinct.name == name)
    }

    fn counter(&self, kind: &str, counter: &str) -> Result<(), ScopeError> {
        let index = self.kind(kind)?;
        if !self.draft.pipeline.kinds[index].track.is_empty() {
            let why =
                format!("`{kind}` has a track and no counters: every event is added to it, and nothing else");
            return Err(ScopeError::Unavailable(why));
        }
        self.counter_of(index, counter).map(|_| ())
    }

    fn label(&self, kind: &str, label: &str) -> Result<Span, ScopeError> {
        self.label_of(kind, label).map(|index| self.draft.pipeline.labels[index].keep)
    }

    fn names(&self, of: Names) -> Vec<String> {
        let pipeline = &self.draft.pipeline;
        match of {
            Names::Fact => {
                let columns = self.builder.schema().columns().iter().zip((0..).map(Slot));
                let facts =
                    columns.filter(|(column, slot)| !column.name.contains('(') && !self.is_of_model(*slot));
                facts.map(|(column, _)| column.name.clone()).collect()
            }
            Names::Kind => pipeline.kinds.iter().map(|kind| kind.name.clone()).collect(),
            Names::Distinct => pipeline.distincts.iter().map(|distinct| distinct.name.clone()).collect(),
            Names::Model => pipeline.models.iter().flat_map(ModelPlan::names).map(str::to_owned).collect(),
        }
    }
}

impl PlanScope<'_, '_, '_> {
    /// The column of a reading that the enforced rules have filled, by whatever name; nothing is added.
    fn known_reading(&mut self, request: &ReadingRequest<'_>) -> Result<Slot, ScopeError> {
        let pipeline = &self.draft.pipeline;
        let kinds: Vec<usize> = pipeline.kinds.iter().map(|kind| kind.windows.len()).collect();
        let distincts: Vec<usize> =
            pipeline.distincts.iter().map(|distinct| distinct.windows.len()).collect();
        let read: Vec<bool> = pipeline.labels.iter().map(|label| label.is_read).collect();
        let limits = pipeline.limits.len();
        let source = self.source(request);
        let pipeline = &mut self.draft.pipeline;
        pipeline.limits.truncate(limits);
        // What was asked for on the way is not kept.
        pipeline.kinds.iter_mut().zip(kinds).for_each(|(kind, count)| kind.windows.truncate(count));
        pipeline.distincts.iter_mut().zip(distincts).for_each(|(plan, count)| plan.windows.truncate(count));
        pipeline.labels.iter_mut().zip(read).for_each(|(label, read)| label.is_read = read);
        let source = source?;
        let known = pipeline.readings.iter().find(|column| column.source == source);
        known.map(|column| column.slot).ok_or_else(|| {
            let mend = "let a rule in shadow read it first, or post the candidate as the rules";
            ScopeError::Unavailable(format!("the pipeline does not fill `{request}`: {mend}"))
        })
    }

    /// What a reading is taken from.
    fn source(&mut self, request: &ReadingRequest<'_>) -> Result<ReadingSource, ScopeError> {
        Ok(match request {
            ReadingRequest::Count { kind, counter, window } => {
                let kind = self.kind(kind)?;
                let counter = self.counter_of(kind, counter)?;
                ReadingSource::Count { kind, counter, window: self.window(kind, *window)? }
            }
            ReadingRequest::Ratio { kind, numerator, denominator, at_least } => {
                let kind = self.kind(kind)?;
                let (over, under) = (self.sum(kind, numerator)?, self.sum(kind, denominator)?);
                ReadingSource::Ratio { kind, over, under, at_least: *at_least }
            }
            ReadingRequest::FirstAge { kind } => {
                let kind = self.age(self.kind(kind)?, "first", stats::Column::First)?;
                ReadingSource::FirstAge { kind }
            }
            ReadingRequest::LastAge { kind } => {
                let kind = self.age(self.kind(kind)?, "last", stats::Column::Last)?;
                ReadingSource::LastAge { kind }
            }
            ReadingRequest::Track { kind, value } => {
                let kind = self.kind(kind)?;
                let of = |name: &str, wanted| self.column(kind, name, |column| *column == wanted);
                let column = match value {
                    TrackValue::Count => of("count", stats::Column::Count)?,
                    TrackValue::Sum => of("sum", stats::Column::Sum)?,
                    TrackValue::Min => of("min", stats::Column::Min)?,
                    TrackValue::Max => of("max", stats::Column::Max)?,
                    TrackValue::Decayed(half_life) => self.half_life(kind, *half_life)?,
                };
                ReadingSource::Track { kind, column }
            }
            ReadingRequest::Distinct { name, window } => {
                let distincts = &mut self.draft.pipeline.distincts;
                let index = distincts.iter().position(|distinct| distinct.name == *name);
                let (index, plan) = index
                    .and_then(|index| Some((index, distincts.get_mut(index)?)))
                    .ok_or_else(|| ScopeError::Unavailable(format!("nothing distinct is called `{name}`")))?;
                plan.measure(vec![*window]).check().map_err(|error| ScopeError::Window(error.to_string()))?;
                if !plan.windows.contains(window) {
                    plan.windows.push(*window);
                }
                ReadingSource::Distinct { distinct: index, window: *window }
            }
            ReadingRequest::Marked { kind, label } => {
                let label = self.label_of(kind, label)?;
                self.draft.pipeline.labels[label].is_read = true;
                ReadingSource::Marked { label }
            }
            ReadingRequest::Limit { name, value } => {
                ReadingSource::Limit { limit: self.limit(name)?, value: *value }
            }
            ReadingRequest::Estimated(of) => match self.source(of)? {
                ReadingSource::Count { kind, .. }
                | ReadingSource::Ratio { kind, .. }
                | ReadingSource::FirstAge { kind }
                | ReadingSource::LastAge { kind }
                | ReadingSource::Track { kind, .. }
                | ReadingSource::Estimated { kind } => ReadingSource::Estimated { kind },
                ReadingSource::Distinct { distinct, .. } | ReadingSource::EstimatedDistinct { distinct } => {
                    ReadingSource::EstimatedDistinct { distinct }
                }
                ReadingSource::Limit { .. } => {
                    return Err(ScopeError::Unavailable("a limit is never an estimate".to_owned()));
                }
                ReadingSource::Marked { .. } => {
                    return Err(ScopeError::Unavailable("a label is never an estimate".to_owned()));
                }
            },
        })
    }

    /// The place of a limit whose fields are facts of the pipeline.
    fn limit(&mut self, name: &str) -> Result<usize, ScopeError> {
        let limits = self.draft.limits;
        let Some(limit) = limits.iter().find(|limit| *limit.name == *name) else {
            let help = expected(name, limits.iter().map(|limit| &*limit.name));
            return Err(ScopeError::Unavailable(format!("there is no limit `{name}`: {help}")));
        };
        let unknown = limit.key.iter().find(|field| self.fact(&field.name).is_none());
        if let Some(field) = unknown {
            let why =
                format!("the limit `{name}` counts by `{}`, which is no fact of this pipeline", field.name);
            return Err(ScopeError::Unavailable(why));
        }
        let used = &mut self.draft.pipeline.limits;
        Ok(used.iter().position(|known| known == name).unwrap_or_else(|| {
            used.push(name.to_owned());
            used.len() - 1
        }))
    }

    /// The index of a label that the keys of a kind can have.
    fn label_of(&self, kind: &str, label: &str) -> Result<usize, ScopeError> {
        let pipeline = &self.draft.pipeline;
        let is_of = |plan: &LabelPlan| pipeline.kinds.get(plan.of).is_some_and(|of| of.name == kind);
        let found = pipeline.labels.iter().position(|plan| is_of(plan) && plan.name == label);
        found.ok_or_else(|| ScopeError::Label {
            name: label.to_owned(),
            known: pipeline.labels.iter().filter(|plan| is_of(plan)).map(|plan| plan.name.clone()).collect(),
        })
    }
}
