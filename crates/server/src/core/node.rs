//! State that all routes share: the engine, the limits, the counters, and the clock.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

use access::{TokenGrant, TokenRefusal};
use axum::http::HeaderMap;
use data_encoding::HEXLOWER;
use engine::LimitFill;
use engine::{
    Decision, DecisionStatistics, Directory, Engine, FeedbackError, FeedbackInput, FeedbackOutcome, HotKey,
    Impact, PreparedEvent, RankedReputation, StatisticsQuery,
};
use event::Time;
use plan::{DecisionLogMode, ListenerPlan, Pipeline, ServerPlan};
use sha2::{Digest, Sha256};

use crate::core::admission::{AdmissionQueue, WaitingCollector};
use crate::core::anomaly_watch::AnomalyWatch;
use crate::core::answer_cache::{AnswerCache, FullestQuery, RankingQuery};
use crate::core::audit_trail::AuditTrail;
use crate::core::auth_failures::AuthFailures;
use crate::core::backtests::BacktestJobs;
use crate::core::block_list_metrics::BlockListMetrics;
use crate::core::clock::Clock;
use crate::core::corrections::CorrectionJobs;
use crate::core::costly_threads::CostlyThreads;
use crate::core::decision_log::DecisionWatcher;
use crate::core::descriptors::DescriptorBudget;
use crate::core::erasure::ErasureJobs;
use crate::core::first_visit::FirstVisit;
use crate::core::grant::RequestGrant;
#[cfg(feature = "grpc")]
use crate::core::grpc::GrpcResources;
use crate::core::http_date::HttpDate;
use crate::core::identity_provider::IdentityProvider;
use crate::core::key_cache::KeyCache;
use crate::core::load_shedding::{LoadShedder, Refusal};
use crate::core::lookups::MessageLookups;
use crate::core::metrics::ServerMetrics;
use crate::core::notifications::NotificationSet;
use crate::core::pace::Pace;
use crate::core::peers::PeerTable;
use crate::core::problem::{HttpFailure, OVERLOADED, UNKNOWN_NAME};
use crate::core::rate_meter::RateMeters;
use crate::core::reading_pool::ReadingPool;
use crate::core::relearning::RelearnJobs;
use crate::core::sessions::SessionAuthority;
use crate::core::shares::{Caller, Share, Shares};
use crate::core::signature_metrics::SignatureMetrics;
use crate::core::sources::SourceSet;
use crate::core::telemetry::{RequestTrace, Telemetry, TraceParent};
use crate::core::tls::TlsMetrics;
use crate::core::tokens::{TokenAuthority, bearer};
use crate::core::traffic::TrafficHistory;
use crate::core::viewer::{SecretGrant, ViewerSessions};

/// The number of largest bodies that may be in memory at once.
const BODIES: u64 = 8;

/// The conditions of tokens that cannot be read, and of an audit log that cannot be written or is damaged.
const TOKENS_CONDITION: &str = "tokens-unread";
const AUDIT_CONDITION: &str = "audit-failing";

/// Most copies of the data in [`SNAPSHOTS_IN`].
const SNAPSHOTS_MAX: usize = 4;
const SNAPSHOTS_IN: Duration = Duration::from_secs(60);
/// The processor time from which on a ranking is given again. One of few keys is made anew.
const RANKING_WORTH: Duration = Duration::from_millis(50);

/// The state of a running server.
pub(crate) struct Node {
    pub(crate) engine: Arc<Engine>,
    pub(crate) clock: Clock,
    /// The date of answers over HTTP.
    pub(crate) http_date: HttpDate,
    pub(crate) metrics: ServerMetrics,
    /// The lookups about messages.
    pub(crate) message_lookups: MessageLookups,
    /// The keys of those who sign requests.
    pub(crate) keys: Arc<KeyCache>,
    /// The counts of block lists that were read.
    pub(crate) block_lists: BlockListMetrics,
    /// The counters of signatures of requests.
    pub(crate) signatures: SignatureMetrics,
    /// The places that are told what happens.
    pub(crate) notifications: NotificationSet,
    /// The sources that it reads by itself.
    pub(crate) sources: SourceSet,
    /// The counters of TLS.
    pub(crate) tls: TlsMetrics,
    #[cfg(feature = "grpc")]
    pub(crate) grpc: GrpcResources,
    /// Its settings, as at the start.
    settings: ServerPlan,
    listeners: Vec<ListenerPlan>,
    /// Places for requests.
    places: Shares,
    /// The refusal for those that find no place.
    crowded: Refusal,
    /// The refusal for those whose batch could not even wait.
    queued: Refusal,
    pub(crate) shed: LoadShedder,
    /// Bytes for bodies.
    room: Arc<Shares>,
    /// The slowest pace of a body.
    pub(crate) pace: Pace,
    /// Places for batches.
    pub(crate) batches: AdmissionQueue,
    /// Places for calls that go through all there is.
    pub(crate) scans: AdmissionQueue,
    /// Places for calls that look up one thing on disk.
    pub(crate) lookups: AdmissionQueue,
    /// Places for calls that look for decisions in object storage.
    pub(crate) archives: AdmissionQueue,
    /// The place for a change of rules.
    pub(crate) changes: AdmissionQueue,
    /// Searches in past decisions.
    pub(crate) searches: AdmissionQueue,
    /// The threads of scans, searches and back-tests.
    pub(crate) costly: Arc<CostlyThreads>,
    /// Statistics that pages have shown a moment ago.
    pub(crate) statistics: AnswerCache<StatisticsQuery, DecisionStatistics>,
    /// Keys that were the hottest a moment ago.
    pub(crate) hottest: AnswerCache<RankingQuery, Vec<HotKey>>,
    /// Keys that were the fullest of limits a moment ago.
    pub(crate) fullest: AnswerCache<FullestQuery, Vec<LimitFill>>,
    /// Reputations that were the worst or the best a moment ago.
    pub(crate) reputations: AnswerCache<RankingQuery, Vec<RankedReputation>>,
    /// The place for a page of metrics.
    pub(crate) pages: AdmissionQueue,
    /// The descriptors of the process that connections may take.
    pub(crate) descriptors: Arc<DescriptorBudget>,
    /// The callers that have named wrong tokens and passwords.
    guesses: AuthFailures,
    /// The nodes that share this one's statistics.
    pub(crate) peers: PeerTable,
    /// Places in which is read what was sent.
    pub(crate) reading: ReadingPool,
    /// The times of the latest snapshots.
    snapshots: Mutex<VecDeque<Instant>>,
    pub(crate) tokens: TokenAuthority,
    /// People and their sessions.
    pub(crate) people: SessionAuthority,
    /// The audit log.
    pub(crate) audit: AuditTrail,
    /// The sessions of browsers that look at the console.
    pub(crate) viewers: ViewerSessions,
    /// The link by which the first person is added.
    pub(crate) first_visit: FirstVisit,
    pub(crate) identity_provider: IdentityProvider,
    /// The decisions that the log has lines of.
    pub(crate) decision_log: DecisionLogMode,
    /// The sender of spans and metrics, if there is a collector.
    pub(crate) telemetry: Option<Telemetry>,
    /// The erasure that is at work.
    pub(crate) erasures: ErasureJobs,
    /// The back-tests that are at work or ended last.
    pub(crate) backtests: BacktestJobs,
    pub(crate) relearning: RelearnJobs,
    /// The correction that is at work or was last.
    pub(crate) corrections: CorrectionJobs,
    /// The decisions of the last hour.
    pub(crate) traffic: TrafficHistory,
    /// The anomalies that were found last.
    pub(crate) anomalies: AnomalyWatch,
    stopping: AtomicBool,
    /// The time of its start, for differences.
    pub(crate) started: Instant,
    /// The time of its start.
    pub(crate) started_at: Time,
    /// Connections of clients of Redis so far.
    pub(crate) sessions: AtomicI64,
    /// Requests that proxies ask about.
    pub(crate) rates: RateMeters,
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node").finish_non_exhaustive()
    }
}

impl Node {
    pub(crate) fn new(engine: Arc<Engine>, clock: Clock) -> Node {
        let plan = engine.plan().node.server.clone();
        let bodies = usize::try_from(plan.body_max.saturating_mul(BODIES)).unwrap_or(usize::MAX);
        let mut metrics = ServerMetrics::new(&engine, &clock);
        let crowded = OVERLOADED
            .failure(format!("{} requests are at work", plan.requests_max))
            .help("try again after the time in Retry-After");
        let timeout = Duration::from_micros(plan.timeout.0.unsigned_abs());
        let (batches, costly) = (AdmissionQueue::of_batches(), CostlyThreads::new());
        let directory = engine.directory();
        let (tokens, unread) = TokenAuthority::new(&engine.plan(), directory.map(Directory::path));
        let (audit, unwritten) =
            AuditTrail::open(directory.map(Directory::audit_path), &engine.plan().node.audit);
        let (people, unknown) = SessionAuthority::new(directory.map(Directory::path));
        if people.has_users() || unknown.is_some() {
            tokens.ask();
        }
        let unread = unread.or(unknown).map(|error| error.to_string());
        engine.health().set(TOKENS_CONDITION, Impact::Degraded, unread);
        engine.health().set(AUDIT_CONDITION, Impact::Degraded, unwritten);
        audit.append_changes(&tokens.store());
        let (scans, searches) = (AdmissionQueue::of_scans(&costly), AdmissionQueue::of_searches(&costly));
        let (lookups, changes) = (AdmissionQueue::of_lookups(), AdmissionQueue::of_changes());
        let waiting = WaitingCollector::of(&[&batches, &scans, &lookups, &changes, &searches]);
        metrics.registry().register_collector(Box::new(waiting));
        Node {
            message_lookups: MessageLookups::new(&engine.plan().node, metrics.registry()),
            keys: Arc::new(KeyCache::new(metrics.registry())),
            block_lists: BlockListMetrics::new(metrics.registry()),
            signatures: SignatureMetrics::new(metrics.registry()),
            notifications: NotificationSet::new(&engine.plan().notifications, metrics.registry()),
            sources: SourceSet::new(&engine.plan().node.sources, metrics.registry()),
            tls: TlsMetrics::new(metrics.registry()),
            #[cfg(feature = "grpc")]
            grpc: GrpcResources::new(bodies / 2, metrics.registry()),
            places: Shares::new(plan.requests_max),
            crowded: Refusal::new(crowded),
            queued: Refusal::new(batches.queued()),
            shed: LoadShedder::new(timeout),
            batches,
            scans,
            lookups,
            archives: AdmissionQueue::of_archives(),
            changes,
            searches,
            costly,
            statistics: AnswerCache::new(Duration::ZERO),
            hottest: AnswerCache::new(RANKING_WORTH),
            fullest: AnswerCache::new(RANKING_WORTH),
            reputations: AnswerCache::new(RANKING_WORTH),
            pages: AdmissionQueue::of_pages(),
            descriptors: Arc::new(DescriptorBudget::of_process()),
            guesses: AuthFailures::default(),
            peers: PeerTable::new(timeout, plan.tls.as_ref(), engine.plan().node.cluster.as_ref()),
            reading: ReadingPool::of_machine(),
            snapshots: Mutex::default(),
            room: Arc::new(Shares::new(bodies)),
            pace: Pace::of(&plan),
            tokens,
            people,
            audit,
            viewers: ViewerSessions::default(),
            first_visit: FirstVisit::default(),
            identity_provider: IdentityProvider::default(),
            decision_log: engine.plan().node.decision_log,
            telemetry: engine
                .plan()
                .node
                .telemetry
                .as_ref()
                .map(|plan| Telemetry::new(plan, metrics.registry())),
            erasures: ErasureJobs::default(),
            backtests: BacktestJobs::default(),
            relearning: RelearnJobs::default(),
            corrections: CorrectionJobs::default(),
            traffic: TrafficHistory::default(),
            anomalies: AnomalyWatch::default(),
            stopping: AtomicBool::new(false),
            started: Instant::now(),
            started_at: clock.now(),
            sessions: AtomicI64::new(1),
            rates: RateMeters::default(),
            http_date: HttpDate::default(),
            metrics,
            settings: plan,
            listeners: engine.plan().node.listeners.clone(),
            engine,
            clock,
        }
    }

    /// Begins the trace of what came in at this moment, if it is sampled. The caller's own trace, in its header fields, counts
    /// for who `is_known`, by a token or as this host where no token is asked for, and for configured networks.
    pub(crate) fn begin_trace(
        &self,
        started: Instant,
        headers: Option<&HeaderMap>,
        is_known: bool,
        peer: Option<IpAddr>,
    ) -> Option<Arc<RequestTrace>> {
        let telemetry = self.telemetry.as_ref()?;
        let counts = headers.filter(|_| is_known || telemetry.is_trusted(peer));
        telemetry.begin(started, counts.and_then(TraceParent::of), || self.now())
    }

    /// Decides on events as [`Node::decide`] does, with a line in the log for each where that is wanted.
    pub(crate) async fn decide_for(&self, listener: &str, prepared: Vec<PreparedEvent>) -> Vec<Decision> {
        match self.decision_watcher(RequestTrace::current(), listener) {
            None => self.engine.decide(prepared).await,
            Some(watcher) => self.engine.decide_watched(prepared, &watcher).await,
        }
    }

    /// Returns who watches decisions of a listener, if anybody does.
    pub(crate) fn decision_watcher<'a>(
        &self,
        trace: Option<Arc<RequestTrace>>,
        listener: &'a str,
    ) -> Option<DecisionWatcher<'a>> {
        DecisionWatcher::new(trace, self.decision_log, listener)
    }

    /// Decides on events, with a span for each stage if the request is traced.
    pub(crate) async fn decide(&self, prepared: Vec<PreparedEvent>) -> Vec<Decision> {
        match RequestTrace::current() {
            None => self.engine.decide(prepared).await,
            Some(trace) => self.engine.decide_watched(prepared, &*trace).await,
        }
    }

    pub(crate) fn plan(&self) -> &ServerPlan {
        &self.settings
    }

    /// The listeners of mail protocols, as at the start.
    pub(crate) fn listeners(&self) -> &[ListenerPlan] {
        &self.listeners
    }

    /// The longest time for a request.
    pub(crate) fn timeout(&self) -> Duration {
        Duration::from_micros(self.plan().timeout.0.unsigned_abs())
    }

    /// A place for a request, of which only the head is known: a batch, or another one.
    ///
    /// # Errors
    /// What it is told if there is none.
    pub(crate) fn admit(&self, is_batch: bool, caller: Caller) -> Result<Share, Refusal> {
        let place = self.place(caller).ok_or_else(|| {
            self.metrics.refused.inc();
            self.crowded.clone()
        })?;
        // It will be thousands of events, which need not be read first.
        if is_batch && self.batches.is_crowded() {
            return Err(self.queued.clone());
        }
        Ok(place)
    }

    /// Takes a place among the requests at work.
    pub(crate) fn place(&self, caller: Caller) -> Option<Share> {
        self.places.take(caller, 1)
    }

    /// Room in memory for what requests bring.
    pub(crate) fn room(&self) -> &Arc<Shares> {
        &self.room
    }

    /// Room in memory for so many bytes of a body.
    pub(crate) fn body_room(&self, caller: Caller, bytes: usize) -> Result<Share, HttpFailure> {
        self.room.take(caller, bytes).ok_or_else(|| {
            self.metrics.refused.inc();
            OVERLOADED
                .failure("the bodies being worked on are too large together")
                .help("try again a little later")
        })
    }

    /// Returns how many places for requests are free.
    #[cfg(test)]
    pub(crate) fn free_places(&self) -> usize {
        self.places.free()
    }

    /// Claims the next copy of the data, unless many were made just now: each keeps files that would be tidied away.
    pub(crate) fn claim_snapshot(&self) -> Result<(), HttpFailure> {
        let mut made = self.snapshots.lock();
        while made.front().is_some_and(|first| first.elapsed() >= SNAPSHOTS_IN) {
            made.pop_front();
        }
        if let Some(first) = made.front().filter(|_| made.len() >= SNAPSHOTS_MAX) {
            let left = SNAPSHOTS_IN.saturating_sub(first.elapsed());
            return Err(OVERLOADED
                .failure(format!("{SNAPSHOTS_MAX} snapshots were made within {} s", SNAPSHOTS_IN.as_secs()))
                .help("try again after the time in Retry-After")
                .retry_after(left.as_secs() + 1));
        }
        made.push_back(Instant::now());
        Ok(())
    }

    /// Returns how many requests wait for a place.
    pub(crate) fn waiting(&self) -> usize {
        [&self.batches, &self.scans, &self.lookups, &self.changes, &self.searches]
            .iter()
            .map(|gate| gate.waiting())
            .sum()
    }

    /// Waits until no request is at work.
    pub(crate) async fn idle(&self) {
        self.places.all_back().await;
    }

    /// Now.
    pub(crate) fn now(&self) -> Time {
        self.clock.now()
    }

    /// Compares the machine's clocks, and has the node's conditions say what is wrong with them. Answers whether the time
    /// is certain.
    pub(crate) fn look_at_clock(&self) -> bool {
        let doubt = self.clock.look();
        let is_certain = doubt.is_none();
        self.engine.health().set("clock-jump", Impact::Degraded, doubt);
        is_certain
    }

    /// Returns whether requests must carry a token.
    pub(crate) fn wants_token(&self) -> bool {
        self.tokens.is_asking()
    }

    /// Returns the rights of a person's session, or of a token; `None` for what is neither.
    pub(crate) fn find_grant(&self, secret: &[u8]) -> Option<SecretGrant> {
        let now = self.now();
        match self.people.find(secret, now) {
            Some(session) => {
                let grant = RequestGrant::of_session(session, None).token();
                Some(SecretGrant { grant, is_person: true })
            }
            None => self.tokens.find(secret, now).ok().map(|grant| SecretGrant { grant, is_person: false }),
        }
    }

    /// Makes the key of the link for the first visit, where nobody could log in otherwise.
    pub(crate) fn offer_first_visit(&self) -> Option<String> {
        let nobody = self.wants_token()
            && self.tokens.is_empty()
            && !self.people.has_users()
            && self.engine.plan().identity_provider.is_none();
        if nobody && self.engine.directory().is_some() { self.first_visit.offer(self.now()) } else { None }
    }

    /// Returns the rights of a password that is one of the tokens; a wrong one is answered late. `None` where no token is asked
    /// for, too.
    pub(crate) async fn rights_of(
        &self,
        token: &[u8],
        listener: &str,
        client: Option<IpAddr>,
    ) -> Option<Arc<TokenGrant>> {
        match self.tokens.find(token, self.now()) {
            Ok(grant) => return Some(grant),
            Err(TokenRefusal::Expired { name }) => {
                self.guesses.expired(&self.metrics, listener, &name, client)
            }
            Err(TokenRefusal::Unknown) if self.wants_token() => self.wrong_token(listener, client).await,
            Err(TokenRefusal::Unknown) => {}
        }
        None
    }

    /// Returns the rights of the token that a request carries, as a bearer or as bouncers say it. A wrong one is answered late.
    pub(crate) async fn check_token(
        &self,
        headers: &HeaderMap,
        listener: &str,
        client: Option<IpAddr>,
    ) -> Result<Arc<RequestGrant>, HttpFailure> {
        let now = self.now();
        if let Some(session) = bearer(headers).and_then(|secret| self.people.find(secret, now)) {
            return Ok(RequestGrant::of_session(session, client));
        }
        match self.tokens.check(headers, now) {
            Ok(token) => Ok(RequestGrant::of_token(token, client)),
            Err(refused) => {
                if let Some(name) = &refused.expired {
                    self.guesses.expired(&self.metrics, listener, name, client);
                }
                if refused.is_guess {
                    self.wrong_token(listener, client).await;
                }
                Err(refused.failure)
            }
        }
    }

    /// Counts a token that may not be used for what was asked.
    pub(crate) fn unscoped(&self, listener: &str, token: &str, client: Option<IpAddr>) {
        self.guesses.unscoped(&self.metrics, listener, token, client);
    }

    /// Takes over the tokens of the data directory and of the configuration, and the people, as they are now. Blocks.
    pub(crate) fn renew_tokens(&self) {
        let read = self.tokens.read_file().and_then(|()| self.people.read_file());
        if self.people.has_users() {
            self.tokens.ask();
        }
        match &read {
            Ok(()) => tracing::info!("tokens or people have changed"),
            Err(error) => tracing::error!(%error, "tokens could not be read: those of before stay in force"),
        }
        self.tokens.rebuild(&self.engine.plan());
        self.audit.append_changes(&self.tokens.store());
        let fault = read.err().map(|error| error.to_string());
        self.engine.health().set(TOKENS_CONDITION, Impact::Degraded, fault);
    }

    /// Does the housekeeping of tokens and of the audit log. Blocks.
    pub(crate) fn keep_access(&self, now: Option<Time>) {
        if let Err(error) = self.tokens.write_uses() {
            tracing::warn!(%error, "the times at which tokens were used could not be written");
        }
        if let Some(now) = now {
            self.audit.forget(now);
        }
        let fault = self.audit.reopen();
        self.engine.health().set(AUDIT_CONDITION, Impact::Degraded, fault);
    }

    /// Counts a wrong token or password that a client has named, and waits until it may be answered. To be called with
    /// nothing held that others could use.
    pub(crate) async fn wrong_token(&self, listener: &str, client: Option<IpAddr>) {
        self.guesses.wrong(&self.metrics, listener, client).await;
    }

    /// The pipeline of this name, or the default one, as it is now, if the request that is being worked on is for it.
    pub(crate) fn pipeline(&self, name: Option<&str>) -> Result<Arc<Pipeline>, HttpFailure> {
        let plan = self.engine.plan();
        let pipeline = plan.pipeline(name).cloned().ok_or_else(|| {
            let names: Vec<&str> = plan.pipelines.iter().map(|pipeline| pipeline.name.as_str()).collect();
            let what = crate::core::problem::shown(name.unwrap_or_default());
            UNKNOWN_NAME
                .failure(format!("there is no pipeline `{what}`"))
                .help(format!("there are: {}", names.join(", ")))
        })?;
        if let Some(grant) = RequestGrant::current() {
            grant.check_pipeline(&pipeline.name)?;
        }
        Ok(pipeline)
    }

    /// Takes in what somebody says about an event that was not decided here. Without an id the same of the same body
    /// counts once.
    pub(crate) async fn learn(
        &self,
        prepared: PreparedEvent,
        id: Option<String>,
        body: &[u8],
        said: impl Into<FeedbackInput<'_>>,
    ) -> Result<(String, FeedbackOutcome), FeedbackError> {
        let digest = || HEXLOWER.encode(&Sha256::digest(body));
        let id = id.unwrap_or_else(digest);
        let outcome = self.engine.learn(prepared, &id, said).await?;
        Ok((id, outcome))
    }

    /// The reason why requests should go elsewhere, if there is one.
    pub(crate) fn unready(&self) -> Option<String> {
        if self.is_stopping() {
            return Some("the node is shutting down".to_owned());
        }
        let ledger = self.engine.census();
        let journal = self.engine.journal().map(|journal| journal.census()).unwrap_or_default();
        let parts = [("ledger", ledger.poisoned), ("journal", journal.poisoned)];
        if let Some((broken, _)) = parts.into_iter().find(|(_, poisoned)| *poisoned) {
            return Some(format!(
                "the {broken} refuses writes since one failed: remove the cause and restart"
            ));
        }
        if ledger.full {
            return Some("the ledger counts nothing for now: the disk is full, or no file can be opened; the log says which".to_owned());
        }
        if journal.full {
            return Some("the journal takes nothing for now: the disk is full, or no file can be opened; the log says which".to_owned());
        }
        let conditions = self.engine.health().list();
        conditions.into_iter().find(|one| one.impact == Impact::Unready).map(|one| one.detail)
    }

    /// Returns whether the node is ending.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// No more requests are wanted.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }
}
