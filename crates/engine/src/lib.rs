//! The engine: a plan at work. Events → decisions in [`pipeline`]; feedback; limits; the ban list; what is posted while it runs.
//!
//! This crate knows no wire format and no async runtime: its
//! futures wait for the ledger and the journal only, and any executor can drive them. It reads no clock: arrivals
//! are passed in.

#![forbid(unsafe_code)]

mod aggregate;
mod anomalies;
pub mod backtest;
mod ban;
mod ban_list;
pub mod batch;
mod block_lists;
mod candidate;
mod challenge;
mod condition;
mod content_keys;
mod correction;
mod decision_archive;
mod decision_counts;
mod directory;
mod drift;
mod erasure;
mod error;
mod explanation;
pub mod feedback;
mod fleet;
mod judged_scores;
mod key_timeline;
mod learner_states;
mod learners;
pub mod limit;
mod limit_ranking;
mod maintenance;
mod metrics;
mod opening;
mod pipeline;
mod posted_values;
mod related_keys;
mod relearning;
mod reload;
mod reputation_ranking;
mod review;
mod review_queue;
mod rule_notices;
mod saved_searches;
mod search;
mod sender_history;
mod sharing;
mod sinks;
mod source_positions;
mod unknown_fields;
mod used_once;
mod value_posting;
mod verification;

use parking_lot::{Mutex, RwLock};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};

use event::{Secret, Time};
use gate::keyring::Keyring;
use journal::{EncodedRecords, IdSource, Journal, RecordId};
use plan::{FileStamps, KindPlan, Pipeline, Plan};
use stats::{EmbeddedLedger, Ledger, LedgerCensus, ObserveRequest};

use candidate::CandidateTallies;
use content_keys::ContentKeys;
use reload::{RulesState, VersionHistory};

pub use anomalies::{ANOMALY_SPAN, Anomaly, AnomalySort};
pub use ban::{BANS_AT_ONCE, BanError, BannableLabel, CheckedBan};
pub use ban_list::{AddressRange, Ban, BanCause, BanChanges, BanList, BanScope, LabelSource};
pub use block_lists::BLOCK_LIST_ENTRIES_MAX;
pub use candidate::{CandidateComparison, CandidateExample, ComparedVerdict};
pub use challenge::EarnedPass;
pub use condition::{Impact, NodeCondition, NodeConditions};
pub use content_keys::ContentError;
pub use correction::{CorrectionFailure, CorrectionOrder, CorrectionProgress, RuleHit, RuleImpact};
pub use decision_archive::{ArchivedDecision, ArchivedDecisions, DecisionArchive};
pub use decision_counts::{DecisionSeries, SeriesBucket, SeriesError};
pub use directory::erasure::{EraseError, ErasureReport, SnapshotErasure};
pub use directory::exchange::{
    CellBatchSink, CellSink, ExportableStatistics, ImportMode, StatisticsExchangeError, StatisticsSource,
    open as open_export,
};
pub use directory::snapshot::{KeptSnapshot, RestoreError};
pub use directory::verification::{DirectoryPart, DirectoryVerification, Repairs};
pub use directory::{Directory, LooseModes, MissingFile, NumberAllotment};
pub use drift::{CalibrationDrift, PromiseDrift};
pub use erasure::{ErasureFailure, ErasureOrder, ErasureOutcome, ErasurePhase, ErasureProgress};
pub use error::{DecisionLookupError, DirectoryError, EngineOpenError, NumberError, PieceError, UnknownName};
pub use explanation::{
    ExplainedChallenge, ExplainedClassifier, ExplainedKey, ExplainedLimit, ExplainedModel, ExplainedNearMiss,
    Explanation,
};
pub use feedback::{FeedbackError, FeedbackInput, FeedbackOutcome, ReporterStanding};
pub use fleet::{
    CHANGE_SUBJECT_BYTES, ChangePage, ChangePosition, ChangeRegistry, NodeEntries, NodeRegistry,
    RulesRegistry, ShardHealth, ShardMonitor, SharedChange, SharedChangeKind, SharedRegistries, SharedState,
};
pub use judge::Severity;
pub use judged_scores::{PipelineCalibration, PromisedLine};
pub use key_timeline::{HotKey, KeyName, KeyStatistics, KeyStatisticsError, KeyTimeline, Ranking};
pub use learner_states::{ClassifierState, LinearState, ModelState};
pub use learners::{
    ExampleId, ExamplePage, ExamplePosition, ExampleReceipt, ModelSnapshot, RelearnError, SharedExample,
    SharedModelName, SharedModelState, SnapshotStream, TrainingBounds, TrainingCounts, TrainingStreams,
};
pub use limit_ranking::{FullestKey, LimitFill};
pub use maintenance::{MaintenanceError, SnapshotError, SyncError};
pub use metrics::{ChallengeTally, EngineMetrics};
pub use pipeline::canary::DECIDED_BY_CANDIDATE;
pub use pipeline::challenge::{ChallengeCause, IssuedChallenge};
pub use pipeline::classifiers::ExplainedToken;
pub use pipeline::features::UnkeyedEvent;
pub use pipeline::keys::{KEYS_MAX, PreparedEvent};
pub use pipeline::reputation::{ExplainedReputation, PastScore, ReputationReason};
pub use pipeline::trainer::TrainingTotal;
pub use pipeline::{
    Decision, DecisionStage, JOURNAL_UNAVAILABLE, LEDGER_UNAVAILABLE, ON_ALLOW_LIST, StageWatcher, UNDECIDED,
};
pub use posted_values::{ALLOW_ENTRIES_MAX, AllowEntry, NOTES_MAX, ValueNote, posted_value};
pub use related_keys::{RELATED_DECISIONS, RelatedKey, RelatedKeys};
pub use relearning::{KnownModels, ModelCheck, RelearnProgress, RelearnReport, RelearnedModels};
pub use reload::{PipelineChange, Proposal, ReloadError, ReloadOutcome, RulesInfo, VersionInfo, VersionText};
pub use reputation_ranking::{RankedReputation, ReputationRanking};
pub use review::{ReviewInput, ReviewKeyError, ReviewedItem};
pub use review_queue::{
    AlikeReviews, REVIEW_COMMENTS_MAX, REVIEW_TEXT_BYTES_MAX, ReviewAgreement, ReviewCensus, ReviewClaim,
    ReviewComment, ReviewCursor, ReviewError, ReviewEscalation, ReviewFilter, ReviewItem, ReviewNameError,
    ReviewOrder, ReviewOutcome, ReviewPage, ReviewQueue, ReviewState, ReviewVerdict, ReviewVote,
    ReviewerRecord, UnequalKey, VerdictCounts, VotePairCounts, VoteTimes,
};
pub use rule_notices::RuleNotice;
pub use saved_searches::{POSTED_SEARCHES_MAX, PostedSearch, PostedSearchError};
pub use search::common::{CommonFact, CommonFacts, fact_conditions};
pub use search::live::{DecisionWatch, WATCHERS_MAX, WatchedEvent};
pub use search::statistics::{
    DecisionStatistics, JudgedCounts, MovedLine, ProbabilityBin, RuleStatistics, StatisticsQuery,
};
pub use search::{
    DecisionFilter, DecisionPage, DecisionQuery, DecisionSearchError, FactSelection, KeyChoice, LabelFilter,
    ListedDecision,
};
pub use sender_history::{HistoryError, HistoryOutcome, SenderHistory};
pub use sinks::{SinkStatus, SinkTable};
pub use unknown_fields::JsonEventError;
pub use used_once::UseResult;
pub use value_posting::{NOTE_BYTES_MAX, NOTES_PER_VALUE_MAX, PostedValueError};

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
    /// The overlays of the configuration's files.
    standing: RwLock<Arc<RulesState>>,
    /// Keys for which limits are others.
    exceptions: RwLock<Arc<limit::LimitExceptions>>,
    /// Searches that people have saved.
    searches: saved_searches::PostedSearches,
    /// The version history; `None` for an engine in memory.
    version_history: Option<VersionHistory>,
    /// Held while the plan is changed.
    changing: Mutex<()>,
    watched: Mutex<FileStamps>,
    secret: Secret,
    /// The keys of what is given to visitors.
    keyring: Keyring,
    ledger: LedgerHome,
    /// The registers that nodes share with their statistics.
    shared: Option<SharedRegistries>,
    /// The place up to which the changes that nodes share are in force here; nothing while somebody looks for more.
    sharing: Mutex<Option<sharing::SharingState>>,
    /// Held where the ledger does not lock the directory.
    _lock: Option<disk::FileDevice>,
    journal: Option<Arc<Journal>>,
    /// Asked for decisions that the journal does not have.
    archive: OnceLock<Box<dyn DecisionArchive>>,
    /// `None` for an engine in memory.
    directory: Option<Directory>,
    /// Held while a snapshot is made.
    snapshot: Mutex<()>,
    trainer: pipeline::trainer::Trainer,
    judged: judged_scores::JudgedScores,
    counts: decision_counts::DecisionCounts,
    learners: learners::LinearLearners,
    ids: IdSource,
    batches: batch::BufferPool<Vec<ObserveRequest>>,
    records: batch::BufferPool<EncodedRecords>,
    ban_list: BanList,
    /// The latest values of distinct counts.
    contributors: pipeline::contributors::ContributorLists,
    block_lists: RwLock<Arc<block_lists::BlockLists>>,
    /// Entries of the allow list and notes, as they were posted.
    posted_values: Mutex<posted_values::PostedValues>,
    /// The addresses of the names of the allow list, as they were last found.
    allowed_addresses: Mutex<Vec<(Arc<str>, Vec<std::net::IpAddr>)>>,
    /// The queues of all who watch decisions as they are made.
    live: Arc<search::live::LiveDecisions>,
    /// The notices of rules that wait for who sends them on.
    notices: rule_notices::RuleNotices,
    reviews: ReviewQueue,
    challenged: feedback::ChallengedDecisions,
    sinks: SinkTable,
    candidates: CandidateTallies,
    /// The keys of content that is logged encrypted.
    content_keys: ContentKeys,
    /// The latest arrival of an event, in microseconds.
    latest: AtomicI64,
    /// The last report of unknown fields to the log.
    unknown_field_throttle: unknown_fields::UnknownFieldThrottle,
    metrics: EngineMetrics,
    /// The conditions that are wrong with the engine now.
    health: NodeConditions,
}

impl Engine {
    /// The plan in force. Whoever takes it goes on with it, whatever is in force by then.
    pub fn plan(&self) -> Arc<Plan> {
        Arc::clone(&self.plan.read())
    }

    /// Returns the metrics that the engine counts about itself.
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

    /// Returns the ban list: keys that have a label now.
    pub fn ban_list(&self) -> &BanList {
        &self.ban_list
    }

    /// Returns the size of what the ledger holds.
    pub fn census(&self) -> LedgerCensus {
        self.ledger.census()
    }

    /// Returns the metrics that only this kind of ledger has.
    pub fn figures(&self) -> Vec<stats::LedgerMetric> {
        self.ledger.figures()
    }

    /// Returns the lines of the bands of a pipeline that promise a share of false positives.
    pub fn promised_lines(&self, pipeline: &Pipeline) -> Vec<PromisedLine> {
        self.judged.lines(pipeline)
    }

    /// Returns what the latest judged events say of each learner of a pipeline, by the name of its fact: whether what it said came
    /// true as often as before.
    pub fn learner_drifts(&self, pipeline: &Pipeline) -> Vec<(String, CalibrationDrift)> {
        self.judged.learner_drifts(pipeline)
    }

    /// Returns the curve from scores to probabilities of a pipeline.
    pub fn calibration(&self, pipeline: &Pipeline) -> PipelineCalibration {
        self.judged.calibration(pipeline)
    }

    /// The data directory; `None` for an engine in memory.
    pub fn directory(&self) -> Option<&Directory> {
        self.directory.as_ref()
    }

    /// Returns the journal, if there is one.
    pub fn journal(&self) -> Option<&Journal> {
        self.journal.as_deref()
    }

    /// Returns the journal, for who uploads what it has.
    pub fn shared_journal(&self) -> Option<Arc<Journal>> {
        self.journal.clone()
    }
}

fn find_kind<'a>(pipeline: &'a Pipeline, name: &str) -> Result<&'a KindPlan, UnknownName> {
    pipeline.kinds_and_reporters().find(|kind| kind.name == name).ok_or_else(|| {
        let help = plan::expected(name, pipeline.kinds.iter().map(|kind| kind.name.as_str()));
        UnknownName { what: "kind", name: name.to_owned(), help }
    })
}
