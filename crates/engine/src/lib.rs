//! The pipeline: configuration → plan; event → verdict; feedback; the decision journal.
//!
//! [`Engine::decide`] reads like the picture of the flow. This crate knows no wire format and no async runtime: its
//! futures wait for the ledger and the journal only, and any executor can drive them. It reads no clock: arrivals
//! are passed in.

mod aggregate;
pub mod backtest;
mod ban_list;
pub mod batch;
mod candidate;
mod condition;
mod config;
mod directory;
pub mod envoy;
mod explanation;
mod failure_mode;
pub mod feedback;
pub mod limit;
mod limit_plan;
pub mod limitador;
mod metrics;
mod plan;
pub mod preset;
mod reload;
mod stage;
mod trainer;
mod unknown_fields;
mod verification;

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use content::budget::Cancellation;
use event::{Event, Key, Secret, Shingle, Span, Time, Value};
use futures_util::future::join;
use journal::{EncodedRecords, IdSource, Journal, JournalError, PendingDecision, Record, RecordId};
use judge::{Action, Evaluation, Reason, Verdict};
use stats::{EmbeddedLedger, Ledger, LedgerCensus, LedgerError, ObserveRequest, Quality, Timeline};
use store::Recovery;

pub use ban_list::{AddressRange, Ban, BanChanges, BanList, BanScope, LabelSource};
use candidate::CandidateTallies;
pub use candidate::{CandidateComparison, CandidateExample, ComparedVerdict};
pub use condition::{Impact, NodeCondition, NodeConditions};
pub use config::{
    Config, ConfigOrigin, ConfigProblem, ConfigProblems, ConfigSource, EffectiveValue, Endpoint,
    EndpointError, FileStamps, Overrides, SourceKind, format,
};
pub use directory::erasure::{EraseError, ErasureReport};
pub use directory::exchange::{
    CellBatchSink, CellSink, ExportableStatistics, ImportMode, StatisticsExchangeError, StatisticsSource,
    open as open_export,
};
pub use directory::snapshot::RestoreError;
pub use directory::verification::{DirectoryPart, DirectoryVerification, Repairs};
pub use directory::{Directory, DirectoryError, LooseModes, Missing};
pub use explanation::{
    ExplainedClassifier, ExplainedKey, ExplainedLimit, ExplainedModel, ExplainedNearMiss, Explanation,
};
pub use failure_mode::FailureMode;
pub use feedback::{FeedbackInput, FeedbackOutcome, ReporterStanding};
pub use judge::Severity;
pub use metrics::EngineMetrics;
use metrics::{ActionLabel, DisagreementLabel, NotifyLabel, PipelineLabel, RuleLabel};
pub use plan::{
    Candidate, ClassifierPlan, ClusterPlan, DistinctPlan, DnsListMeaning, DnsListPlan, DnsPlan, EnvoyPlan,
    FORWARD_FIELDS, FeedbackClass, FeedbackSide, ForwardPlan, JournalPlan, KindPlan, LabelPlan, ListenerPlan,
    MailEnforcement, MailFailureMode, MailReply, ModelPlan, NodePlan, PhrasePlan, Pipeline, PipelineInput,
    Plan, Protocol, Replies, ReportsPlan, RuleLimit, RuleTestResult, ServerPlan,
};
pub use plan::{UnknownFieldPolicy, WITHDRAWN, reference};
pub use reload::{PipelineChange, Proposal, ReloadError, ReloadOutcome, RulesInfo, VersionInfo};
use reload::{RulesState, VersionHistory};
pub use stage::classifiers::ExplainedToken;
pub use stage::features::UnkeyedEvent;
pub use stage::keys::{KEYS_MAX, PreparedEvent};
use stage::observe::{ObserveMode, ObservedBatch, ObservedEvent};
use stage::{features, fields, keys, log, observe, ranges, score, settle};
pub use trainer::TrainingTotal;
pub use unknown_fields::JsonEventError;

/// The rule that speaks when statistics cannot be had and the pipeline fails closed.
pub const LEDGER_UNAVAILABLE: &str = "LEDGER_UNAVAILABLE";
/// The name of the reason that stands for a journal that cannot be written, in pipelines that fail closed.
pub const JOURNAL_UNAVAILABLE: &str = "JOURNAL_UNAVAILABLE";

/// The ledger of an engine, by where its statistics live.
pub enum LedgerHome {
    /// In this process and its data directory.
    Embedded(EmbeddedLedger),
    /// Elsewhere.
    Elsewhere(Box<dyn Ledger>),
}

impl LedgerHome {
    fn embedded(&self) -> Option<&EmbeddedLedger> {
        match self {
            LedgerHome::Embedded(ledger) => Some(ledger),
            LedgerHome::Elsewhere(_) => None,
        }
    }
}

impl std::ops::Deref for LedgerHome {
    type Target = dyn Ledger;

    fn deref(&self) -> &(dyn Ledger + 'static) {
        match self {
            LedgerHome::Embedded(ledger) => ledger,
            LedgerHome::Elsewhere(ledger) => ledger.as_ref(),
        }
    }
}

/// A running engine: the plan, the ledger and the journal.
pub struct Engine {
    plan: RwLock<Arc<Plan>>,
    /// What stands over the configuration's files.
    standing: RwLock<Arc<RulesState>>,
    /// Keys for which limits are others.
    exceptions: RwLock<Arc<limit::LimitExceptions>>,
    /// Where that is kept; `None` for an engine in memory.
    version_history: Option<VersionHistory>,
    /// Held while the plan is changed.
    changing: Mutex<()>,
    watched: Mutex<FileStamps>,
    secret: Secret,
    ledger: LedgerHome,
    /// Held where the ledger does not lock the directory.
    _lock: Option<disk::FileDevice>,
    journal: Option<Journal>,
    /// `None` for an engine in memory.
    directory: Option<Directory>,
    /// Held while a snapshot is made.
    snapshot: Mutex<()>,
    trainer: trainer::Trainer,
    ids: IdSource,
    batches: batch::BufferPool<Vec<ObserveRequest>>,
    records: batch::BufferPool<EncodedRecords>,
    ban_list: BanList,
    candidates: CandidateTallies,
    /// The latest arrival of an event, in microseconds.
    latest: AtomicI64,
    /// When the log was told of unknown fields.
    unknown_field_throttle: unknown_fields::UnknownFieldThrottle,
    metrics: EngineMetrics,
    /// What is wrong with it now.
    health: NodeConditions,
}

/// What was decided about an event.
#[derive(Clone, Debug)]
pub struct Decision {
    /// Its name, for feedback and `explain`.
    pub id: RecordId,
    /// The caller's name for the event.
    pub event_id: Option<String>,
    /// The pipeline that decided.
    pub pipeline: Arc<Pipeline>,
    /// When the event happened.
    pub time: Time,
    /// An event of this id had been counted before.
    pub duplicate: bool,
    /// Statistics could not be had: the event was judged without them, and not counted.
    pub uncounted: bool,
    /// The journal could not be written: nobody can ask for it later.
    pub unlogged: bool,
    /// Score, action and reasons.
    pub verdict: Verdict,
}

/// The name of the reason that stands for an event that found no place, or was not read or decided in time, in pipelines
/// that fail closed.
pub const UNDECIDED: &str = "UNDECIDED";

/// The pipeline's word for an event of which something failed.
fn fail(pipeline: &Pipeline, verdict: &mut Verdict, rule: &str, what: &str) {
    if pipeline.on_error == FailureMode::Open {
        return;
    }
    verdict.action = pipeline.on_error.action(verdict.action);
    verdict.next = None;
    verdict.reasons.push(Reason {
        rule: rule.to_owned(),
        score: 0.0,
        detail: format!("{what} and the pipeline fails closed"),
        values: Vec::new(),
    });
}

/// What verdicts ask for, to be done once all events of a batch are judged.
#[derive(Default)]
struct PendingEffects {
    adds: Vec<ObserveRequest>,
    bans: Vec<ban_list::NewBan>,
    training_examples: Vec<trainer::AutoTrainingExample>,
}

/// Why an engine cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum EngineOpenError {
    /// The data directory.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// The ledger's directory, which may be in use by another process.
    #[error("{0}")]
    Device(std::io::Error),
    /// The ledger's files.
    #[error(transparent)]
    Store(#[from] store::StoreError),
    /// The ledger.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The journal.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The configuration and what was posted to the data directory do not fit together.
    #[error(
        "{0}\nwhat was posted stands over the configuration: mend its files, or remove `rules/state.json`"
    )]
    Rules(ConfigProblems),
    /// What stands over the configuration cannot be had.
    #[error("{0}")]
    Resume(String),
    /// The cluster that statistics live in.
    #[error("{0}")]
    Cluster(String),
    /// The operating system's random source.
    #[error("no random secret could be made: {0}")]
    Random(String),
}

/// Why the engine cannot do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The ledger.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The journal.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A name that the plan does not have.
    #[error("there is no {what} `{name}`: {help}")]
    Unknown {
        /// What was looked for: a pipeline, a kind, a counter, a feedback class.
        what: &'static str,
        /// Its name.
        name: String,
        /// Near and possible names.
        help: String,
    },
    /// No record has this id.
    #[error("there is no decision {0}: it never was, or the journal no longer keeps it")]
    NoDecision(RecordId),
    /// A decision of a pipeline that this plan does not have any more.
    #[error("the decision was made by the pipeline `{0}`, which this configuration does not have")]
    PipelineGone(String),
    /// No piece can be made of a value.
    #[error("`{value}` gives no piece of the kind `{kind}`")]
    NoPiece {
        /// The kind.
        kind: String,
        /// The value.
        value: String,
    },
    /// A value of a kind of addresses is neither an address nor a network.
    #[error(
        "`{value}` is no address, and no network such as `192.0.2.0/24`: the keys of `{kind}` are addresses"
    )]
    NoAddress {
        /// The kind.
        kind: String,
        /// The value.
        value: String,
    },
    /// A value is an address at which this machine itself is, or has one in it.
    #[error("`{0}` is, or has in it, an address of this machine itself, such as 127.0.0.1")]
    OwnAddress(String),
    /// Keys are ranked by a counter over a window, and the kind has none.
    #[error("the kind `{0}` has no counters over windows, by which its keys could be ranked")]
    NoCounters(String),
    /// An engine without a data directory keeps no journal.
    #[error("there is no journal: this engine was started without a data directory")]
    NoJournal,
    /// An engine without a data directory has nothing to copy.
    #[error("there is nothing to make a snapshot of: this engine was started without a data directory")]
    NoDirectory,
    /// A reporter said several things of one event at once, or far too many.
    #[error("the same reporter says more of the same event than can be taken in")]
    ReportBusy,
    /// Statistics are kept by the cluster.
    #[error(
        "the statistics are in the cluster, not in this data directory: copies are made with its own means"
    )]
    NotHere,
    /// One snapshot at a time is made.
    #[error("another snapshot is being made")]
    SnapshotBusy,
    /// Nobody waits for a snapshot any more.
    #[error("the snapshot was not made: nobody waits for it any more")]
    SnapshotEnded,
    /// The data directory.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// What enforcement points are told could not be written.
    #[error("labels could not be written: {0}")]
    BanList(std::io::Error),
    /// A label that enforcement points are not told of.
    #[error("the label `{0}` has no `decision`: it is for rules alone")]
    NotOnBanList(String),
}

/// What is known of one key.
#[derive(Clone, Debug)]
pub struct KeyTimeline {
    /// The piece as it is hashed.
    pub piece: String,
    /// Its hash.
    pub shingle: Shingle,
    /// Names of the counters that the buckets hold, in order.
    pub counters: Vec<String>,
    /// Trailing windows and, for each counter in order, what was counted in them.
    pub windows: Vec<(Span, Vec<u64>)>,
    /// What a track knows of it beside first and last time: `count`, `sum`, `min`, `max`, `decayed_1h`.
    pub values: Vec<(String, Value)>,
    /// How far all this can be trusted. Estimated without a timeline is a key that is not admitted yet.
    pub quality: Quality,
    /// All that is kept; `None` for a key never seen, forgotten, or not admitted.
    pub timeline: Option<Timeline>,
}

/// By what keys are ranked.
#[derive(Clone, Copy, Debug)]
pub struct Ranking<'a> {
    /// The kind of the keys.
    pub kind: &'a str,
    /// The counter.
    pub counter: &'a str,
    /// The trailing window.
    pub window: Span,
    /// Most keys that are wanted.
    pub limit: usize,
}

/// A key that is hot now.
#[derive(Clone, Debug)]
pub struct HotKey {
    /// The hashed piece.
    pub shingle: Shingle,
    /// The piece, if a recent row of the journal shows it.
    pub piece: Option<String>,
    /// Its count.
    pub count: u64,
}

impl Engine {
    /// Opens a data directory: its ledger, which locks it, and its journal.
    pub fn open(directory: &Directory, plan: Plan) -> Result<Engine, EngineOpenError> {
        let mut damage = None;
        let engine = Engine::open_over(directory, plan, |plan| {
            let (ledger, recovery) = open_ledger(directory, plan)?;
            damage = ledger_damage(directory, &recovery);
            Ok(LedgerHome::Embedded(ledger))
        })?;
        engine.health().set("ledger-damaged", Impact::Degraded, damage);
        Ok(engine)
    }

    /// The same with a ledger that the caller opens, with the plan in force: what was posted to the data directory
    /// stands over the one given here. The directory is locked by then.
    pub fn open_over(
        directory: &Directory,
        plan: Plan,
        ledger: impl FnOnce(&Plan) -> Result<LedgerHome, EngineOpenError>,
    ) -> Result<Engine, EngineOpenError> {
        let secret = directory.secret()?;
        let mut aside = Vec::new();
        let gone = directory::or_put_aside(directory.missing(), &mut aside)?;
        let (plan, mut state, shelf, config) = reload::resume(directory, plan, &mut aside)?;
        let lock = match &plan.node.cluster {
            Some(_) => {
                Some(disk::FileDevice::open(directory.ledger_path()).map_err(EngineOpenError::Device)?)
            }
            None => None,
        };
        let ledger = ledger(&plan)?;
        let journal = Journal::open(
            &directory.journal_path(),
            log::options(&plan.node),
            plan.node.durability,
            secret.fingerprint(),
        )?;
        let health = NodeConditions::default();
        let losses = journal.losses();
        if let Some((kept, bytes)) = &losses.torn {
            tracing::warn!(bytes, kept = %kept.display(), "the journal's tail was torn by a crash and is put aside");
        }
        health.set("exposed-files", Impact::Degraded, directory.exposure());
        let (journal_gone, gone): (Vec<Missing>, Vec<Missing>) =
            gone.into_iter().partition(|missing| missing.file.starts_with("journal/"));
        aside.extend(gone.iter().map(Missing::to_string));
        // A list that is missing beside segments is told with these.
        let all_gone = journal_gone.first().filter(|_| journal.census().segments == 0);
        let losses = losses.sentence().or_else(|| all_gone.map(|missing| missing.to_string()));
        health.set("journal-damaged", Impact::Degraded, losses);
        for warning in plan.warnings.list() {
            tracing::warn!("{warning}");
        }
        let ids = journal.last_id().map(IdSource::after).unwrap_or_default();
        for pipeline in &plan.pipelines {
            log::describe(&journal, pipeline)?;
        }
        reload::keep_first(&plan, &config, &mut state, &shelf)?;
        let posted = limit::read_exceptions(&directory.limits_path());
        let posted = directory::or_put_aside(posted, &mut aside)?;
        let aside = (!aside.is_empty()).then(|| aside.join("; "));
        health.set("settings-damaged", Impact::Degraded, aside);
        let exceptions = limit::LimitExceptions::new(&plan, posted, &secret);
        let told = BanList::open(&directory.ban_list_path()).map_err(EngineOpenError::Device)?;
        directory.note_contents()?;
        Ok(Engine {
            exceptions: RwLock::new(Arc::new(exceptions)),
            watched: Mutex::new(plan.files.clone()),
            plan: RwLock::new(Arc::new(plan)),
            standing: RwLock::new(Arc::new(state)),
            version_history: Some(shelf),
            changing: Mutex::default(),
            secret,
            ledger,
            _lock: lock,
            journal: Some(journal),
            directory: Some(directory.clone()),
            snapshot: Mutex::default(),
            trainer: trainer::Trainer::default(),
            ids,
            batches: batch::BufferPool::default(),
            records: batch::BufferPool::default(),
            ban_list: told,
            candidates: CandidateTallies::default(),
            latest: AtomicI64::new(i64::MIN),
            unknown_field_throttle: unknown_fields::UnknownFieldThrottle::default(),
            metrics: EngineMetrics::default(),
            health,
        })
    }

    /// An engine in memory, with a secret of its own and no journal: nothing of it is left when it is dropped.
    pub fn ephemeral(plan: Plan) -> Result<Engine, EngineOpenError> {
        let mut secret = [0; Secret::BYTES];
        getrandom::fill(&mut secret).map_err(|error| EngineOpenError::Random(error.to_string()))?;
        Engine::ephemeral_with(plan, Secret::new(secret))
    }

    /// Returns an engine as [`Engine::ephemeral`] does, with a secret that is known: what it estimates is the same each time.
    ///
    /// # Errors
    /// As [`Engine::ephemeral`].
    pub fn ephemeral_with(plan: Plan, secret: Secret) -> Result<Engine, EngineOpenError> {
        let ledger = EmbeddedLedger::in_memory(plan.catalog.clone(), plan.node.ledger_memory)?;
        let exceptions = limit::LimitExceptions::new(&plan, Vec::new(), &secret);
        Ok(Engine {
            exceptions: RwLock::new(Arc::new(exceptions)),
            watched: Mutex::new(plan.files.clone()),
            plan: RwLock::new(Arc::new(plan)),
            standing: RwLock::default(),
            version_history: None,
            changing: Mutex::default(),
            secret,
            ledger: LedgerHome::Embedded(ledger),
            _lock: None,
            journal: None,
            directory: None,
            snapshot: Mutex::default(),
            trainer: trainer::Trainer::default(),
            ids: IdSource::default(),
            batches: batch::BufferPool::default(),
            records: batch::BufferPool::default(),
            ban_list: BanList::default(),
            candidates: CandidateTallies::default(),
            latest: AtomicI64::new(i64::MIN),
            unknown_field_throttle: unknown_fields::UnknownFieldThrottle::default(),
            metrics: EngineMetrics::default(),
            health: NodeConditions::default(),
        })
    }

    /// The plan in force. Whoever takes it goes on with it, whatever is in force by then.
    pub fn plan(&self) -> Arc<Plan> {
        Arc::clone(&self.plan.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// What it counts about itself.
    pub fn metrics(&self) -> &EngineMetrics {
        &self.metrics
    }

    /// The conditions of the node: what is wrong with it now.
    pub fn health(&self) -> &NodeConditions {
        &self.health
    }

    /// The time of the newest decision in the journal, to a millisecond.
    pub fn newest_decision(&self) -> Option<Time> {
        self.journal.as_ref()?.last_id().map(RecordId::time)
    }

    /// The latest arrival of an event since the engine was opened: how far its time has come where events drive it.
    pub fn latest_arrival(&self) -> Option<Time> {
        Some(Time(self.latest.load(Ordering::Relaxed))).filter(|time| time.0 > i64::MIN)
    }

    /// What enforcement points are told: keys that have a label now.
    pub fn ban_list(&self) -> &BanList {
        &self.ban_list
    }

    /// Puts a label on the key of a value, as a rule would; for a kind of addresses also on all of a network. The label must be
    /// one that enforcement points are told of. Answers until when it holds, and the value as they are told it.
    ///
    /// # Errors
    /// A kind or label that the pipeline does not have, a value that gives no piece, is no address where the kind is of
    /// addresses, or is of this machine itself, and the ledger's.
    pub async fn mark(
        &self,
        pipeline: &Pipeline,
        kind: &str,
        label: &str,
        value: &str,
        lasts: Span,
        now: Time,
    ) -> Result<(Time, String), EngineError> {
        let plan = find_kind(pipeline, kind)?;
        let found = pipeline.labels.iter().find(|own| {
            own.name == label && pipeline.kinds.get(own.of).is_some_and(|kind| kind.kind == plan.kind)
        });
        let found = found.ok_or_else(|| {
            let help = config::expected(label, pipeline.labels.iter().map(|label| label.name.as_str()));
            EngineError::Unknown { what: "label", name: label.to_owned(), help }
        })?;
        let decision = found.decision.clone().ok_or_else(|| EngineError::NotOnBanList(label.to_owned()))?;
        let range = AddressRange::parse(value.trim());
        let slot = usize::from(plan.slot.0);
        let is_of_addresses =
            pipeline.schema.columns().get(slot).is_some_and(|column| column.kind == event::Type::Ip);
        if is_of_addresses && range.is_none() {
            return Err(EngineError::NoAddress { kind: kind.to_owned(), value: value.to_owned() });
        }
        if range.is_some_and(AddressRange::is_of_this_machine) {
            return Err(EngineError::OwnAddress(value.to_owned()));
        }
        let range = range.filter(|_| is_of_addresses).map(|range| range.to_string());
        let (piece, shingle) = self.piece(plan, range.as_deref().unwrap_or(value))?;
        let until = now + lasts.min(found.keep);
        let observation = stats::Observation {
            key: Key { space: pipeline.space, kind: found.kind, shingle },
            time: now,
            add: stats::Addition::Value(Some(until.0)),
        };
        self.ledger
            .observe(&[ObserveRequest { observations: vec![observation], ..ObserveRequest::default() }])
            .await?;
        let told = piece.clone();
        self.ban_list.put(vec![ban_list::NewBan {
            pipeline: pipeline.name.clone(),
            kind: kind.to_owned(),
            label: label.to_owned(),
            decision,
            value: piece,
            by: "API".to_owned(),
            until,
        }]);
        Ok((until, told))
    }

    /// Takes the labels that enforcement points are told of off the keys of a value, as of a time: rules see them for events
    /// that arrived before it alone. In a cluster, where what was said of a key cannot be taken back, rules see them until they
    /// end. Answers how many.
    ///
    /// # Errors
    /// The ledger's; then nothing was taken off.
    pub async fn lift(&self, value: &str, now: Time) -> Result<usize, EngineError> {
        let plan = self.plan();
        let shingle = self.secret.shingle(value.as_bytes());
        let mut observations = Vec::new();
        for source in self.ban_list.labels_of(value) {
            // What is gone from the configuration no rule can see.
            let Some(pipeline) = plan.pipeline(Some(&source.pipeline)) else { continue };
            let found = pipeline.labels.iter().find(|own| {
                own.name == source.label
                    && pipeline.kinds.get(own.of).is_some_and(|plan| plan.name == source.kind)
            });
            observations.extend(found.map(|label| stats::Observation {
                key: Key { space: pipeline.space, kind: label.kind, shingle },
                time: now,
                add: stats::Addition::Lower(now.0),
            }));
        }
        let requests: Vec<ObserveRequest> = observations
            .chunks(ObserveRequest::OBSERVATIONS_MAX)
            .map(|part| ObserveRequest { observations: part.to_vec(), ..ObserveRequest::default() })
            .collect();
        if self.ledger.embedded().is_some() {
            self.ledger.observe(&requests).await?;
        }
        Ok(self.ban_list.lift(value))
    }

    /// How much the ledger holds.
    pub fn census(&self) -> LedgerCensus {
        self.ledger.census()
    }

    /// What only this kind of ledger has to say of itself.
    pub fn figures(&self) -> Vec<stats::LedgerMetric> {
        self.ledger.figures()
    }

    /// How much the journal holds, if there is one.
    pub fn journal(&self) -> Option<&Journal> {
        self.journal.as_ref()
    }

    /// Stages 1 to 3: all that needs no statistics, and most of the work. Pure, so it can be done on any thread
    /// and ahead of time.
    ///
    /// ```text
    /// event ─► 1 fields ─► 2 content features ─► 3 keys
    /// ```
    ///
    /// Who has something to add to the facts of the content, or wants to end the reading before it is done, calls
    /// [`Engine::read`] and [`Engine::key`] instead.
    pub fn prepare(&self, pipeline: &Arc<Pipeline>, event: Event, arrival: Time) -> PreparedEvent {
        self.key(self.read(pipeline, event, arrival, &Cancellation::default()))
    }

    /// Stages 1 and 2: the facts that the event and its content show. Pure.
    ///
    /// Costs what a message of its size may cost ([`content::budget`]) and ends within milliseconds once it is
    /// cancelled: the facts are then those of what was read, and `mail.cut_short` says so.
    pub fn read(
        &self,
        pipeline: &Arc<Pipeline>,
        event: Event,
        arrival: Time,
        cancellation: &Cancellation,
    ) -> UnkeyedEvent {
        UnkeyedEvent(features::fill(fields::fill(pipeline, event, arrival), cancellation))
    }

    /// Stage 3: the keys of these facts. Pure.
    pub fn key(&self, read: UnkeyedEvent) -> PreparedEvent {
        let arrival = read.0.arrival;
        let prepared = keys::derive(read.0, &self.secret);
        self.latest.fetch_max(arrival.0, Ordering::Relaxed);
        self.count_prepared(&prepared);
        prepared
    }

    /// Stages 4 to 7: counts the events as one batch, has models score them, judges each, and logs what was decided.
    ///
    /// ```text
    /// ─► 4 observe ─► 5 models, then rules ─► 6 settle ─► 7 journal
    /// ```
    ///
    /// Answers once the configured durability holds for all of it. Within a batch each event's readings include
    /// those before it, but what hangs on verdicts is added after the whole batch is judged.
    pub async fn decide(&self, prepared: Vec<PreparedEvent>) -> Result<Vec<Decision>, EngineError> {
        let mut observed = self.observe_all(prepared).await;
        score::score(&mut observed);
        Ok(self.conclude(observed).await)
    }

    /// Stage 4, with the limits that rules ask for. Statistics that cannot be had are missing then, and say so.
    async fn observe_all(&self, prepared: Vec<PreparedEvent>) -> ObservedBatch {
        let (plan, exceptions) = (self.plan(), self.exceptions());
        let limits = limit::LimitContext { plan: &plan, exceptions: &exceptions, secret: &self.secret };
        let (mut observed, failure) = observe::observe(&*self.ledger, prepared, Some(&limits)).await;
        if let Some(error) = failure {
            tracing::error!(%error, "statistics cannot be had");
        }
        ranges::fill(&self.ban_list, observed.prepared_mut());
        observed
    }

    /// Stages 5 to 7 of events that models have scored.
    async fn conclude(&self, observed: ObservedBatch) -> Vec<Decision> {
        let mut due = PendingEffects::default();
        let verdicts = self.judge_all(&observed, &mut due);
        // Neither waits for the other's disk: both go by what was observed and judged.
        let ((), decisions) = join(self.carry_out(due), self.log(observed, verdicts)).await;
        decisions
    }

    /// Stage 5. What verdicts ask for is put behind what is due.
    fn judge_all(&self, observed: &ObservedBatch, due: &mut PendingEffects) -> Vec<Verdict> {
        let mut outcome = Evaluation::default();
        let verdicts: Vec<Verdict> =
            observed.events().map(|observed| self.judge(&observed, &mut outcome)).collect();
        self.count_verdicts(observed, &verdicts);
        due.adds.extend(settle::requests(observed, &verdicts));
        due.bans.extend(settle::new_bans(observed, &verdicts));
        due.training_examples.extend(self.auto_training_examples(observed, &verdicts));
        verdicts
    }

    /// Stage 6.
    async fn carry_out(&self, due: PendingEffects) {
        let PendingEffects { adds, bans: told, training_examples: lessons } = due;
        self.ban_list.put(told);
        if let Err(error) = settle::settle(&*self.ledger, &adds).await {
            tracing::error!(%error, "verdicts cannot be counted");
            self.metrics.settle_failures.inc_by(adds.len() as u64);
        }
        self.learn_examples(&lessons).await;
    }

    /// Returns what `on_error` of a pipeline says of an event that was not read or not decided: nothing is counted or logged.
    pub fn undecided(&self, pipeline: &Arc<Pipeline>, arrival: Time, why: &str) -> Decision {
        let mut verdict = Verdict {
            score: 0.0,
            action: Action::Accept,
            reasons: Vec::new(),
            shadow: Vec::new(),
            next: None,
            effects: Vec::new(),
        };
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
        }
    }

    /// What would be decided on an event, by what is known of its keys now. Nothing is counted, logged or settled.
    ///
    /// # Errors
    /// If statistics cannot be had, whatever the pipeline's `on_error` says.
    pub async fn consult(&self, prepared: PreparedEvent) -> Result<Verdict, EngineError> {
        let pipeline = Arc::clone(&prepared.row.pipeline);
        let mut observed = self.observe_one(prepared, ObserveMode::Nothing).await?;
        score::score(&mut observed);
        let row = &observed.event(0).prepared.row.facts;
        let mut verdict = judge::judge(&pipeline.rules, row);
        pipeline.rules.explain(&mut verdict, row);
        Ok(verdict)
    }

    async fn observe_one(
        &self,
        prepared: PreparedEvent,
        what: ObserveMode,
    ) -> Result<ObservedBatch, LedgerError> {
        let (plan, exceptions) = (self.plan(), self.exceptions());
        let limits = limit::LimitContext { plan: &plan, exceptions: &exceptions, secret: &self.secret };
        // Of what is only counted rules are not asked, so what they would take from limits is not taken.
        let limits = (what == ObserveMode::Nothing).then_some(&limits);
        let mut observed = observe::observe_one(&*self.ledger, prepared, limits, what).await?;
        ranges::fill(&self.ban_list, observed.prepared_mut());
        Ok(observed)
    }

    /// Stage 5 for one row, with the pipeline's word for lost statistics. The memory of `outcome` is used again.
    fn judge(&self, observed: &ObservedEvent<'_>, outcome: &mut Evaluation) -> Verdict {
        let pipeline = &observed.prepared.row.pipeline;
        let row = &observed.prepared.row.facts;
        pipeline.rules.evaluate(row, outcome);
        let mut verdict = pipeline.rules.verdict(outcome);
        pipeline.rules.explain(&mut verdict, row);
        if observed.failed {
            fail(pipeline, &mut verdict, LEDGER_UNAVAILABLE, "statistics cannot be had");
        }
        verdict
    }

    /// Stage 7. What cannot be logged is answered as the pipeline says.
    async fn log(&self, mut observed: ObservedBatch, verdicts: Vec<Verdict>) -> Vec<Decision> {
        let decided = observed.events().zip(verdicts).map(|(observed, verdict)| {
            let row = &observed.prepared.row;
            let decision = Decision {
                id: self.ids.next(row.arrival),
                event_id: row.event_id.clone(),
                pipeline: Arc::clone(&row.pipeline),
                time: row.time,
                duplicate: observed.duplicate,
                uncounted: observed.failed,
                unlogged: false,
                verdict,
            };
            self.compare(&observed, &decision);
            decision
        });
        let mut decisions: Vec<Decision> = decided.collect();
        let Some(journal) = &self.journal else { return decisions };
        let mut records = self.records.take();
        for prepared in observed.prepared_mut() {
            let row = &mut prepared.row;
            row.pipeline.schema.transient().iter().for_each(|slot| _ = row.facts.clear(*slot));
        }
        for (observed, decision) in observed.events().zip(&decisions) {
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
                verdict: &decision.verdict,
            };
            records.push_decision(&decided, observed.known());
            records.expect(decisions.len());
        }
        match journal.append_all(&records).await {
            Ok(()) => _ = self.metrics.journal_records.inc_by(records.count() as u64),
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
                }
            }
        }
        records.clear();
        self.records.give(records);
        decisions
    }

    /// Has a candidate judge the same row. It changes nothing.
    fn compare(&self, observed: &ObservedEvent<'_>, decision: &Decision) {
        let pipeline = &decision.pipeline;
        // Without statistics both would judge blindly.
        let Some(candidate) = pipeline.candidate.as_ref().filter(|_| !observed.failed) else { return };
        self.metrics.candidate_events.get_or_create(&label(pipeline)).inc();
        let tally = self.candidates.of(candidate);
        if let Some(action) = tally.compare(candidate, decision, &observed.prepared.row.facts) {
            let label = DisagreementLabel {
                pipeline: pipeline.name.clone(),
                enforced: decision.verdict.action.to_string(),
                candidate: action.to_string(),
            };
            self.metrics.candidate_disagreements.get_or_create(&label).inc();
        }
    }

    /// Counts an event without judging it, and gives its keys' readings from before it.
    pub async fn observe(&self, prepared: PreparedEvent) -> Result<Explanation, EngineError> {
        let observed = self.observe_one(prepared, ObserveMode::Seen).await?;
        Ok(Explanation::of_observed(&observed.event(0), &self.secret))
    }

    /// What is known of an event's keys; counts nothing and creates nothing.
    pub async fn peek(&self, prepared: PreparedEvent) -> Result<Explanation, EngineError> {
        let observed = self.observe_one(prepared, ObserveMode::Nothing).await?;
        Ok(Explanation::of_peeked(&observed.event(0), &self.secret))
    }

    /// A past decision with everything that it was made of, as it was logged. Which rules came closest and what moved
    /// models is told while the version that decided is in force or kept. Blocks.
    pub fn explain(&self, id: RecordId) -> Result<Explanation, EngineError> {
        let journal = self.journal.as_ref().ok_or(EngineError::NoJournal)?;
        match journal.find(id)? {
            Some(Record::Decision(row)) => {
                let description = journal.description(&row.version)?;
                let decided_by = self.pipeline_of(&row.pipeline, &row.version);
                let classifiers = self.explain_classifiers(&row, &description);
                let decided_by = decided_by.as_deref();
                let mut explanation = Explanation::of_row(id, *row, &description, decided_by, &self.secret);
                explanation.classifiers = classifiers;
                Ok(explanation)
            }
            _ => Err(EngineError::NoDecision(id)),
        }
    }

    /// All that is kept of the key of a value, and its trailing sums as of a time.
    pub async fn timeline(
        &self,
        pipeline: &Pipeline,
        kind: &str,
        value: &str,
        at: Time,
    ) -> Result<KeyTimeline, EngineError> {
        let distinct = pipeline.distincts.iter().find(|distinct| distinct.name == kind);
        let (per, number, counters, windows, track) = match distinct {
            Some(plan) => {
                let per = pipeline
                    .kinds
                    .get(plan.per)
                    .ok_or(LedgerError::Unknown { space: pipeline.space, kind: plan.kind })?;
                (per, plan.kind, vec![plan.name.clone()], &plan.windows, Vec::new())
            }
            None => {
                let plan = find_kind(pipeline, kind)?;
                (plan, plan.kind, plan.counters.clone(), &plan.windows, plan.aggregate_names())
            }
        };
        let (piece, shingle) = self.piece(per, value)?;
        let key = Key { space: pipeline.space, kind: number, shingle };
        let timeline = self.ledger.timeline(key).await?;
        let peek = stats::Observation { key, time: at, add: stats::Addition::Nothing };
        let outcomes = self
            .ledger
            .observe(&[ObserveRequest { observations: vec![peek], ..ObserveRequest::default() }])
            .await?;
        let reading = outcomes.all().next().map(|reading| reading.to_reading()).unwrap_or_default();
        let sums = |window: usize| (0..counters.len()).map(|counter| reading.sum(window, counter)).collect();
        let windows = windows.iter().enumerate().map(|(index, window)| (*window, sums(index))).collect();
        let values = aggregate::values(&track, &reading);
        Ok(KeyTimeline { piece, shingle, counters, windows, values, quality: reading.quality, timeline })
    }

    fn piece(&self, plan: &KindPlan, value: &str) -> Result<(String, Shingle), EngineError> {
        let mut first = None;
        let lower = (plan.kind == plan::REPORTER).then(|| plan::reporter(value));
        let value = lower.as_deref().unwrap_or(value);
        content::piece::pieces(&event::Value::from(value), plan.normalise, &mut |piece| {
            first.get_or_insert_with(|| piece.to_owned());
        });
        let piece =
            first.ok_or_else(|| EngineError::NoPiece { kind: plan.name.clone(), value: value.to_owned() })?;
        let shingle = self.secret.shingle(piece.as_bytes());
        Ok((piece, shingle))
    }

    /// The keys of a kind with the largest counts in a trailing window; see [`Ledger::hottest`] for what it costs.
    /// Pieces are not stored with statistics: those that recent rows of the journal show are named.
    ///
    /// # Errors
    /// A kind or counter that the pipeline does not have, the ledger's and the journal's.
    pub async fn hottest(
        &self,
        pipeline: &Pipeline,
        Ranking { kind, counter, window, limit }: Ranking<'_>,
        now: Time,
        is_over: stats::CancellationCheck<'_>,
    ) -> Result<Vec<HotKey>, EngineError> {
        let plan = find_kind(pipeline, kind)?;
        if plan.counters.is_empty() {
            return Err(EngineError::NoCounters(plan.name.clone()));
        }
        let index = plan.counter(counter).ok_or_else(|| {
            let help = config::expected(counter, plan.counters.iter().map(String::as_str));
            EngineError::Unknown { what: "counter", name: counter.to_owned(), help }
        })?;
        let hottest =
            self.ledger.hottest((pipeline.space, plan.kind), index, window, now, limit, is_over).await?;
        let mut hot: Vec<HotKey> = hottest
            .into_iter()
            .map(|(key, count)| HotKey { shingle: key.shingle, piece: None, count })
            .collect();
        if let Some(journal) = &self.journal {
            const ROWS: usize = 20_000;
            for (_, record) in journal.recent(ROWS)?.into_iter().rev() {
                if hot.iter().all(|hot| hot.piece.is_some()) {
                    break;
                }
                let Record::Decision(row) = record else { continue };
                // Rows of another version may have their facts in other slots.
                if row.version != pipeline.version {
                    continue;
                }
                let wanted = |shingle| hot.iter().any(|hot| hot.shingle == shingle && hot.piece.is_none());
                if !row.keys.iter().any(|key| key.kind == plan.kind && wanted(key.shingle)) {
                    continue;
                }
                keys::labels(pipeline, &self.secret, &row.facts, |other, shingle, piece| {
                    if other == plan.kind
                        && let Some(hot) = hot.iter_mut().find(|hot| hot.shingle == shingle)
                    {
                        hot.piece.get_or_insert_with(|| piece.to_owned());
                    }
                });
            }
        }
        Ok(hot)
    }

    /// Housekeeping: expired statistics and old segments go; nothing does where the time is not certain. To be called now
    /// and then, on a thread that may block.
    pub fn maintain(&self, now: Option<Time>) -> Result<(), EngineError> {
        self.maintain_statistics(now.unwrap_or(Time(i64::MIN)))?;
        match &self.journal {
            Some(journal) if now.is_some() => Ok(journal.expire(now)?),
            _ => Ok(()),
        }
    }

    /// The same after events that came with times of their own, as of the latest: they may all be older than the journal is
    /// kept, and were logged to be looked at.
    pub fn maintain_replayed(&self, latest: Time) -> Result<(), EngineError> {
        self.maintain_statistics(latest)?;
        self.journal.as_ref().map_or(Ok(()), |journal| Ok(journal.expire(None)?))
    }

    fn maintain_statistics(&self, horizon: Time) -> Result<(), EngineError> {
        self.ban_list.maintain(horizon).map_err(EngineError::BanList)?;
        let (keys, crowded_out) = self.ban_list.size();
        let full = (keys >= ban_list::KEYS_MAX).then(|| {
            format!(
                "{keys} keys have labels that enforcement points are told of, which is the most there can be: \
                 {crowded_out} that ended first had to make room; let labels end earlier"
            )
        });
        self.health.set("labels-full", Impact::Degraded, full);
        self.health.set("ledger-directory", Impact::Degraded, directory_nearly_full(&self.ledger.census()));
        Ok(self.ledger.maintain(horizon)?)
    }

    /// Makes a copy of the data directory in its `snapshots`, and answers the copy's name, which is made of the time.
    /// Decisions go on meanwhile, but wait while files are linked. Files that will never change are hard links where
    /// the file system can; they take up room once the original is tidied away. Blocks.
    ///
    /// # Errors
    /// [`EngineError::SnapshotBusy`] while another is being made, [`EngineError::SnapshotEnded`] once nobody waits for it, and
    /// what could not be read or written. Then nothing of the copy is left.
    pub fn snapshot(&self, now: Time, is_over: stats::CancellationCheck<'_>) -> Result<String, EngineError> {
        const SAME_SECOND_MAX: u32 = 100;
        let directory = self.directory.as_ref().ok_or(EngineError::NoDirectory)?;
        let journal = self.journal.as_ref().ok_or(EngineError::NoDirectory)?;
        let Ok(_alone) = self.snapshot.try_lock() else { return Err(EngineError::SnapshotBusy) };
        let parent = directory.snapshots_path();
        let first = directory::snapshot::name(now);
        let names = (2..SAME_SECOND_MAX).map(|number| format!("{first}-{number}"));
        let name = std::iter::once(first.clone()).chain(names).find(|name| !parent.join(name).exists());
        let name = name.ok_or(EngineError::SnapshotBusy)?;
        let ledger = self.ledger.embedded().ok_or(EngineError::NotHere)?;
        let go_on = || if is_over() { Err(EngineError::SnapshotEnded) } else { Ok(()) };
        directory.snapshot_of(&parent.join(&name), ledger, |to| journal.snapshot(to), &go_on)?;
        Ok(name)
    }

    /// Waits until all that was counted and logged by now is on disk, whatever the durability: for who forgets what it
    /// has sent once it was answered.
    pub async fn sync(&self) -> Result<(), EngineError> {
        let journal = async {
            match &self.journal {
                Some(journal) => journal.synced().await,
                None => Ok(()),
            }
        };
        let (ledger, journal) = join(self.ledger.sync(), journal).await;
        ledger?;
        Ok(journal?)
    }

    /// Writes and syncs everything. Blocks.
    pub fn close(&self) -> Result<(), EngineError> {
        let journal = self.journal.as_ref().map_or(Ok(()), Journal::close);
        self.ledger.close()?;
        Ok(journal?)
    }

    fn count_prepared(&self, prepared: &PreparedEvent) {
        let label = label(&prepared.row.pipeline);
        self.metrics.fields_events.get_or_create(&label).inc();
        self.metrics.keys_derived.get_or_create(&label).inc_by(prepared.keys.len() as u64);
        if prepared.row.clamped {
            self.metrics.fields_clamped.get_or_create(&label).inc();
        }
        if prepared.row.ignored > 0 {
            self.metrics.fields_ignored.get_or_create(&label).inc_by(u64::from(prepared.row.ignored));
        }
    }

    /// Counts a batch. Labels are made once for all events that have the same: a label costs more than a rule.
    fn count_verdicts(&self, observed: &ObservedBatch, verdicts: &[Verdict]) {
        // A batch has events of few pipelines.
        let mut all: Vec<BatchCounts<'_>> = Vec::new();
        for (observed, verdict) in observed.events().zip(verdicts) {
            let pipeline = observed.prepared.row.pipeline.name.as_str();
            let known = all.iter().position(|counts| counts.pipeline == pipeline);
            let at = known.unwrap_or_else(|| {
                all.push(BatchCounts { pipeline, ..BatchCounts::default() });
                all.len() - 1
            });
            let counts = &mut all[at];
            counts.duplicates += u64::from(observed.duplicate);
            counts.failures += u64::from(observed.failed);
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
        for BatchCounts { pipeline, duplicates, failures, actions, fired } in all {
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

/// What metrics are told of the events of one pipeline in a batch.
#[derive(Default)]
struct BatchCounts<'a> {
    pipeline: &'a str,
    duplicates: u64,
    failures: u64,
    /// By the number of the action.
    actions: [u64; Action::ALL.len()],
    /// By mode and rule.
    fired: HashMap<(&'static str, &'a str), u64>,
}

fn open_ledger(directory: &Directory, plan: &Plan) -> Result<(EmbeddedLedger, Recovery), EngineOpenError> {
    let path = directory.ledger_path();
    let (ledger, recovery) = directory.open_ledger(Some(plan))?;
    if recovery.truncated_bytes > 0 {
        let (bytes, path) = (recovery.truncated_bytes, path.display());
        tracing::warn!(bytes, %path, "the ledger's tail was torn by a crash and is cut off");
    }
    for damage in &recovery.losses.ranges {
        let path = path.join(&damage.segment);
        tracing::error!(path = %path.display(), from = damage.from, to = damage.to, "damaged bytes are skipped");
    }
    for segment in &recovery.losses.missing {
        tracing::error!(path = %path.join(segment).display(), "a segment is missing");
    }
    Ok((ledger, recovery))
}

/// What of the ledger could not be read when it was opened, for people.
fn ledger_damage(directory: &Directory, recovery: &Recovery) -> Option<String> {
    let Recovery { losses, .. } = recovery;
    if losses.is_empty() {
        return None;
    }
    let mut files: Vec<&str> = losses.ranges.iter().map(|damage| damage.segment.as_str()).collect();
    files.extend(losses.missing.iter().map(String::as_str));
    files.dedup();
    Some(format!(
        "{}: {} bytes cannot be read, with at least {} records, and {} segments are missing ({}); all else is served. \
         `tollhouse verify` says more, and a snapshot can be restored",
        directory.ledger_path().display(),
        losses.bytes,
        losses.records,
        losses.missing.len(),
        files.join(", ")
    ))
}

/// Says so when the directory of keys comes near its bound, for people.
fn directory_nearly_full(ledger: &LedgerCensus) -> Option<String> {
    let LedgerCensus { directory_bytes, directory_max_bytes, keys, unplaced, .. } = *ledger;
    let nearly = directory_max_bytes > 0 && directory_bytes >= directory_max_bytes / 5 * 4;
    nearly.then(|| {
        format!(
            "the directory of {keys} keys takes {directory_bytes} bytes; from {directory_max_bytes} on new keys are only \
             estimated, which has happened {unplaced} times: raise `memory` of [ledger], or have statistics that strangers \
             can fill admit keys (`admit`)"
        )
    })
}

fn label(pipeline: &Pipeline) -> PipelineLabel {
    PipelineLabel { pipeline: pipeline.name.clone() }
}

fn find_kind<'a>(pipeline: &'a Pipeline, name: &str) -> Result<&'a KindPlan, EngineError> {
    pipeline.kinds_and_reporters().find(|kind| kind.name == name).ok_or_else(|| {
        let help = config::expected(name, pipeline.kinds.iter().map(|kind| kind.name.as_str()));
        EngineError::Unknown { what: "kind", name: name.to_owned(), help }
    })
}

/// 16 hexadecimal digits that stand for a content.
fn content_hash(bytes: &[u8]) -> String {
    use sha2::Digest;
    sha2::Sha256::digest(bytes).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}
