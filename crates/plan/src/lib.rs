//! Configuration: text in layers → [`Config`], what it means, checked and compiled → [`Plan`]. Nothing after this looks at text
//! again.
//!
//! Columns are laid out in the order in which the stages fill them: what every event has, the fields, the content
//! features, the readings, what models say. A rule or a model that asks for a reading nobody asked for yet gets a
//! column of its own for it, so what is read is known before any event comes.

#![forbid(unsafe_code)]

pub mod aggregate;
mod allow;
mod block_lists;
mod canary_scope;
mod catalog;
mod cluster;
mod config;
mod envoy;
mod failure_mode;
pub mod formats;
mod forward_auth;
mod identity_provider;
mod label_span;
pub mod limit;
mod limits;
mod listener;
mod node;
mod notification;
mod pipeline;
pub mod preset;
mod reference;
mod review;
mod saved_search;
mod signers;
mod sink;
mod source;
mod tls;
mod token;

use std::sync::Arc;

use data_encoding::HEXLOWER;
use event::Kind;
use judge::TestRun;
use stats::{CancellationCheck, Catalog, NumberRegistry};

use crate::limit::LimitPlan;
pub use allow::{AllowPlan, AllowSource};
pub use block_lists::{BlockListPlan, BlockListSource};
pub use canary_scope::CanaryScope;
use catalog::{beside_sketches, catalog, fit_sketches};
pub use cluster::{ClusterPlan, UnreadyShards};
pub use config::{
    BuildFeature, Config, ConfigOrigin, ConfigProblem, ConfigProblems, ConfigSource, Document,
    EffectiveValue, Endpoint, EndpointError, FileStamps, MissingFeature, Overrides, PipelineOverlay,
    PipelineOverlays, SourceKind, VersionSnapshot, WEIGHT_MAX, expected, format, nearest, with_scores,
};
use config::{ConfigRecipe, ConfigView};
pub use envoy::EnvoyPlan;
pub use failure_mode::FailureMode;
pub use forward_auth::{FORWARD_FIELDS, ForwardField, ForwardPlan, ForwardSource, SilentAnswer};
pub use identity_provider::{IdentityProviderPlan, OIDC_RETURN_PATH};
pub use label_span::LabelSpan;
pub use listener::{
    BatchStreamPlan, CountedEnvelopes, ListenerPlan, MailEnforcement, MailFailureMode, MailPlan, MailReply,
    MilterPlan, PolicyPlan, Protocol, ProtocolPlan, Replies, RespPlan,
};
pub use node::{
    AuditPlan, DecisionLogMode, JournalPlan, NodePlan, ServerPlan, TelemetryPlan, TelemetryProtocol,
    UploadPlan,
};
pub use notification::{
    MailDelivery, MailSecurity, NotificationForm, NotificationOccasion, NotificationPlan,
    NotificationTemplate, NotificationUrl, QuietHours,
};
pub use pipeline::authentication::{DnsListMeaning, DnsListPlan, DnsPlan};
pub use pipeline::block_lists::BlockListColumns;
pub use pipeline::candidate::{Canary, Candidate};
pub use pipeline::challenge::{CHALLENGE_COST, ChallengePlan, ScriptlessMethod};
pub use pipeline::classifier::TrainingLabel;
pub use pipeline::classifier::{ClassifierPlan, LinearView};
pub use pipeline::derived::DerivedField;
use pipeline::draft::PipelineDraft;
pub use pipeline::form::{BaitPlan, FormPlan};
pub use pipeline::functions::text_function;
pub use pipeline::header::EventHeader;
pub use pipeline::journal_content::{JournalContent, SEALED_COLUMN};
pub use pipeline::key_fields::{KeyField, KeyFields};
pub use pipeline::model::ModelPlan;
pub use pipeline::phrases::PhrasePlan;
pub use pipeline::reports::WITHDRAWN;
pub use pipeline::reports::{CLASS_TAG_BITS, FeedbackKind, REPORT, REPORTER, reporter};
pub use pipeline::reports::{FeedbackClass, FeedbackSide, ReportsPlan};
pub use pipeline::reputation::{
    EvidenceSource, Grade, GradeThresholds, HALF_LIVES, PartMeasure, PartWindows, ReputationFormula,
    ReputationPart, ReputationPlan, SCORE_MAX,
};
pub use pipeline::robots::{ApplicationColumns, RobotColumns, RobotProof, RobotsPlan};
pub use pipeline::tables::TablePlan;
pub use pipeline::value_addition::ValueAddition;
pub use pipeline::{ContentColumns, ReadingColumn, ReadingSource};
pub use pipeline::{
    DistinctPlan, EffectPlan, KindPlan, LabelPlan, Pipeline, PipelineInput, RuleLimit, UnknownFieldPolicy,
    amount,
};
pub use reference::reference;
pub use review::ReviewPlan;
pub use saved_search::SavedSearch;
pub use signers::{KeyDirectoryPlan, KeyDirectorySource, is_protected_url};
pub use sink::{BrokerSecurity, SaslMechanismName, SinkPlan, SinkTarget, is_kafka_topic, kafka_brokers};
pub use source::{CrowdsecPlan, SourceInput, SourcePlan, SyslogPlan, SyslogTransport};
pub use tls::{ClientCertificates, TlsPlan, TlsVersion};
pub use token::TokenPlan;

/// Kind of the marks by which events and feedback with an id are counted once. Configured kinds start at 1.
pub const ONCE: Kind = Kind(0);

/// Most entries of one list section of a pipeline.
const ENTRIES_MAX: usize = 4096;

/// The work of a node: its own settings, its pipelines, and the statistics they share.
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
    /// The numbers of all names: those that the plan was compiled with, and those of names that were new.
    pub numbers: NumberRegistry,
    /// Limits, in the order of the configuration.
    pub limits: Vec<Arc<LimitPlan>>,
    /// The checks that proxies may ask for.
    pub forwards: Vec<ForwardPlan>,
    /// The allow list.
    pub allow: Arc<AllowPlan>,
    /// Lists of addresses that others publish.
    pub block_lists: Vec<BlockListPlan>,
    /// The places that are told what happens.
    pub notifications: Vec<NotificationPlan>,
    /// Applications that sign their requests.
    pub applications: Vec<gate::application::Application>,
    /// The keys of those who sign requests of robots.
    pub key_directories: Vec<KeyDirectoryPlan>,
    /// Named tokens of clients.
    pub tokens: Vec<TokenPlan>,
    /// The identity provider at which people log in to the console.
    pub identity_provider: Option<Arc<IdentityProviderPlan>>,
    /// Searches in past decisions that the console offers.
    pub searches: Vec<SavedSearch>,
    /// The warnings about what is legal and suspicious in the configuration.
    pub warnings: ConfigProblems,
    /// The recipe by which the configuration is read again.
    pub(crate) recipe: Arc<ConfigRecipe>,
    /// The files that it was read from.
    pub files: FileStamps,
}

/// The result of a test that a rule's file has.
#[derive(Clone, Debug)]
pub struct RuleTestResult {
    /// The pipeline.
    pub pipeline: String,
    /// The rule.
    pub rule: String,
    /// The line of the test's expectation.
    pub origin: ConfigOrigin,
    /// The result that was wanted, and the one that was found.
    pub run: TestRun,
}

impl Plan {
    /// Compiles a configuration whose names have no numbers yet: they get them in its order. All problems are found, not
    /// only the first; a rule that fails one of its tests is one.
    pub fn compile(config: &Config) -> Result<Plan, ConfigProblems> {
        Plan::compile_with(config, &NumberRegistry::default())
    }

    /// Compiles a configuration as [`Plan::compile`] does, with the numbers that its names have had before.
    pub fn compile_with(config: &Config, numbers: &NumberRegistry) -> Result<Plan, ConfigProblems> {
        Plan::compile_beside(config, numbers, None, &|| false)
    }

    /// Compiles a configuration for a node that works by another plan now: what is kept of keys cannot change, windows of
    /// readings keep their order, and the node's settings stay. It ends early, refused, once it is over.
    pub fn compile_beside(
        config: &Config,
        numbers: &NumberRegistry,
        now: Option<&Plan>,
        is_over: CancellationCheck<'_>,
    ) -> Result<Plan, ConfigProblems> {
        let (plan, tests, mut problems) = Plan::draft(config, numbers.clone(), now, is_over)?;
        for tested in tests.iter().filter(|tested| !tested.run.passed()) {
            problems.add(&tested.origin, format!("`{}`: {}", tested.rule, tested.run), None);
        }
        Ok(Plan { warnings: problems.refuse()?, ..plan })
    }

    /// Compiles a configuration whose rules may fail their tests, and tells what came of each, in the order of the
    /// pipelines and their rules.
    pub fn compile_untested(config: &Config) -> Result<(Plan, Vec<RuleTestResult>), ConfigProblems> {
        let (plan, tested, problems) = Plan::draft(config, NumberRegistry::default(), None, &|| false)?;
        Ok((Plan { warnings: problems.refuse()?, ..plan }, tested))
    }

    /// A plan, what came of its tests, and what is wrong with the configuration: where that is more than warnings the
    /// plan is none.
    fn draft(
        config: &Config,
        mut numbers: NumberRegistry,
        now: Option<&Plan>,
        is_over: CancellationCheck<'_>,
    ) -> Result<(Plan, Vec<RuleTestResult>, ConfigProblems), ConfigProblems> {
        let (found, worth_compiling) = config.problems();
        let mut problems = found.clone();
        if !worth_compiling {
            return Err(problems.sorted());
        }
        let tokens = token::tokens(config.main(), &mut problems);
        let mut node = NodePlan::compile(config.main(), &tokens, &mut problems);
        let identity_provider = identity_provider::compile(config.main(), &mut problems).map(Arc::new);
        let searches = saved_search::searches(config, &mut problems);
        let limits = limits::compile(config.main(), &mut numbers, &mut problems);
        let documents = config.documents().iter();
        let mut drafts: Vec<PipelineDraft> = documents
            .map(|document| {
                let of_name = |pipeline: &&Arc<Pipeline>| pipeline.name == document.name();
                let tables = now.and_then(|now| now.pipelines.iter().find(of_name));
                let tables = tables.map(|pipeline| pipeline.tables.as_slice()).unwrap_or_default();
                let tables = pipeline::tables::compile(document, tables, &mut problems);
                let main = config.main();
                PipelineDraft::compile(document, main, tables, &limits, &mut numbers, is_over, &mut problems)
            })
            .collect();
        limits::warn_of_idle_conditions(config.main(), &drafts, &mut problems);
        review::check_exposure(config.main(), &drafts, &mut problems);
        pipeline::authentication::warn_of_unasked_lists(&node.dns, &drafts, &mut problems);
        node.listeners = listener::compile(config.main(), &drafts, &limits, &mut problems);
        node.sources = source::compile(config.main(), &drafts, &node.listeners, &mut problems);
        let forwards = forward_auth::compile(config.main(), &drafts, &limits, &mut problems);
        let applications = signers::applications(config.main(), &mut problems);
        let key_directories = signers::key_directories(config.main(), &mut problems);
        fit_sketches(node.ledger_memory, &mut drafts);
        let catalog = catalog(config, &mut drafts, &limits, now.map(|plan| &plan.catalog), &mut problems);
        node.ledger_memory = beside_sketches(node.ledger_memory, &drafts, &mut problems);
        let tested = drafts.iter_mut().flat_map(|draft| std::mem::take(&mut draft.tested)).collect();
        let pipelines: Vec<Arc<Pipeline>> =
            drafts.into_iter().map(|draft| Arc::new(draft.finish())).collect();
        let block_lists = block_lists::compile(config.main(), &mut problems);
        let notifications = notification::compile(config.main(), &pipelines, &mut problems);
        notification::warn_of_unknown(config, &pipelines, &notifications, &mut problems);
        let allow = Arc::new(allow::compile(config.main(), &forwards, &pipelines, &mut problems));
        let (recipe, files) = (Arc::clone(config.recipe()), config.files().clone());
        let envoy = Arc::new(EnvoyPlan::compile(config, &mut problems));
        let warnings = ConfigProblems::default();
        let plan = Plan {
            node,
            pipelines,
            catalog,
            numbers,
            limits,
            forwards,
            allow,
            block_lists,
            notifications,
            applications,
            key_directories,
            tokens,
            identity_provider,
            searches,
            envoy,
            warnings,
            recipe,
            files,
        };
        Ok((plan, tested, problems))
    }

    /// Reads the configuration again as it was read for this plan, with these layers over its files.
    pub fn read_again(&self, overlays: &PipelineOverlays) -> Config {
        self.recipe.load(overlays)
    }

    /// The pipelines that decide: those in force, and those of their canaries.
    pub fn deciding(&self) -> impl Iterator<Item = &Arc<Pipeline>> {
        let canaries = self.pipelines.iter().filter_map(|pipeline| pipeline.canary());
        self.pipelines.iter().chain(canaries.map(|canary| &canary.pipeline))
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

/// The entries of a list section; too many are said, and the surplus left out.
fn entries<'a>(document: &'a Document, name: &str, problems: &mut ConfigProblems) -> Vec<ConfigView<'a>> {
    let mut entries = document.list(name);
    if let Some(surplus) = entries.get(ENTRIES_MAX) {
        let message = format!("there are {} [[{name}]]", entries.len());
        problems.add(surplus.origin(""), message, Some(format!("at most {ENTRIES_MAX} are possible")));
        entries.truncate(ENTRIES_MAX);
    }
    entries
}

/// 16 hexadecimal digits that stand for a content.
fn content_hash(bytes: &[u8]) -> String {
    use sha2::Digest;
    HEXLOWER.encode(&sha2::Sha256::digest(bytes)[..8])
}
