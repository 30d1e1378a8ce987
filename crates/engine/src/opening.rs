//! Opening: a data directory, or nothing but memory, → an [`Engine`].

use parking_lot::{Mutex, RwLock};
use std::sync::atomic::AtomicI64;
use std::sync::{Arc, OnceLock};

use event::Secret;
use gate::keyring::Keyring;
use journal::{IdSource, Journal, NodeNumber, RecordId};
use plan::Plan;
use stats::EmbeddedLedger;
use store::Recovery;

use crate::ban_list::BanList;
use crate::candidate::CandidateTallies;
use crate::condition::{Impact, NodeConditions};
use crate::content_keys::ContentKeys;
use crate::decision_counts::DecisionCounts;
use crate::directory::{Directory, MissingFile};
use crate::error::EngineOpenError;
use crate::feedback::ChallengedDecisions;
use crate::fleet::MODELS_BEHIND;
use crate::fleet::SharedRegistries;
use crate::judged_scores::JudgedScores;
use crate::learners::{LearnerName, LinearLearners};
use crate::metrics::EngineMetrics;
use crate::pipeline::log;
use crate::pipeline::trainer::Trainer;
use crate::review_queue::ReviewQueue;
use crate::saved_searches::PostedSearches;
use crate::sharing::SharingState;
use crate::sinks::SinkTable;
use crate::{
    Engine, LedgerHome, batch, directory, limit, posted_values, reload, saved_searches, unknown_fields,
};

impl Engine {
    /// Opens a data directory: its ledger, which locks it, and its journal.
    pub fn open(directory: &Directory, plan: Plan) -> Result<Engine, EngineOpenError> {
        let mut damage = None;
        let device = directory.lock_ledger()?;
        directory.check_no_loss(&device)?;
        let engine = Engine::open_over(directory, plan, None, |plan| {
            let (ledger, recovery) = open_ledger(directory, device, plan)?;
            damage = ledger_damage(directory, &recovery);
            Ok(LedgerHome::Embedded(ledger))
        })?;
        engine.health().set("ledger-damaged", Impact::Degraded, damage);
        Ok(engine)
    }

    /// Opens a data directory with a ledger that the caller opens, with the plan in force: what was posted to the data
    /// directory stands over the one given here. The directory is locked by then, and names have their numbers: by
    /// the registries of `shared` where several nodes share the ledger.
    pub fn open_over(
        directory: &Directory,
        plan: Plan,
        shared: Option<SharedRegistries>,
        ledger: impl FnOnce(&Plan) -> Result<LedgerHome, EngineOpenError>,
    ) -> Result<Engine, EngineOpenError> {
        let secret = directory.secret()?;
        let mut aside = Vec::new();
        let gone = directory::or_put_aside(directory.missing(), &mut aside)?;
        let (plan, mut state, history, config) = reload::resume(directory, plan, &mut aside)?;
        let lock = match &plan.node.cluster {
            Some(_) => {
                Some(disk::FileDevice::open(directory.ledger_path()).map_err(EngineOpenError::Device)?)
            }
            None => None,
        };
        let faults = directory.stored_numbers()?.faults;
        aside.extend(faults.into_iter().map(|(path, why)| format!("{} is {why}", path.display())));
        let plan = reload::numbered::<EngineOpenError>(plan, &config, None, |wanted| {
            directory.allot_numbers(shared.as_ref().map(|shared| &*shared.numbers), wanted)
        })?;
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
        let (journal_gone, gone): (Vec<MissingFile>, Vec<MissingFile>) =
            gone.into_iter().partition(|missing| missing.file.starts_with("journal/"));
        aside.extend(gone.iter().map(MissingFile::to_string));
        // A list that is missing beside segments is told with these.
        let all_gone = journal_gone.first().filter(|_| journal.census().segments == 0);
        let losses = losses.sentence().or_else(|| all_gone.map(|missing| missing.to_string()));
        health.set("journal-damaged", Impact::Degraded, losses);
        for warning in plan.warnings.list() {
            tracing::warn!("{warning}");
        }
        let content_keys = ContentKeys::open(directory.path()).map_err(EngineOpenError::Device)?;
        // The time of a first key is known once there is one: housekeeping dates it.
        content_keys.ensure(plan.pipelines.iter(), None).map_err(EngineOpenError::Device)?;
        let mut number = shared.as_ref().map(|shared| shared.nodes.number());
        if plan.node.journal.upload.is_some() {
            // Of nodes that share no statistics, what was decided can lie together all the same.
            number = number.or(Some(NodeNumber::of_hash(node_hash(&journal)?)));
            // What was uploaded of the newest segment is all of it.
            journal.begin_anew();
            journal.keep_for_upload();
        }
        let ids = IdSource::after(journal.last_id().unwrap_or(RecordId(0)), number);
        for pipeline in plan.deciding() {
            log::describe(&journal, pipeline)?;
        }
        reload::keep_first(&plan, &config, &mut state, &history)?;
        let posted = limit::read_exceptions(&directory.limits_path());
        let posted = directory::or_put_aside(posted, &mut aside)?;
        let values = posted_values::PostedValues::read(&directory.values_path());
        let values = directory::or_put_aside(values, &mut aside)?;
        let searches = saved_searches::read(&directory.searches_path());
        let searches = directory::or_put_aside(searches, &mut aside)?;
        let scores = directory::or_put_aside(directory.stored_scores(), &mut aside)?;
        let counts = directory::or_put_aside(directory.stored_counts(), &mut aside)?;
        let learners = directory::or_put_aside(directory.stored_learners(), &mut aside)?;
        let damaged = learners.damaged_logs().iter();
        aside.extend(damaged.map(|(path, why)| format!("{}: {why}", path.display())));
        let examples = shared.as_ref().and_then(|shared| shared.examples.as_deref());
        let learners = LinearLearners::new(directory, learners, examples.is_some())?;
        // What other nodes have taught while this one was away is known before it serves, if the cluster says it.
        let behind = examples
            .and_then(|streams| learners.exchange(streams, LearnerName::named(&plan.pipelines)).err());
        if let Some(why) = &behind {
            tracing::warn!("linear models are as this node last knew them: {why}");
        }
        health.set(MODELS_BEHIND, Impact::Degraded, behind);
        let sinks = SinkTable::open(directory, &plan.node.sinks, &mut aside)?;
        let aside = (!aside.is_empty()).then(|| aside.join("; "));
        health.set("settings-damaged", Impact::Degraded, aside);
        let exceptions = limit::LimitExceptions::new(&plan, posted, &secret);
        let told =
            BanList::open(&directory.ban_list_path(), shared.is_some()).map_err(EngineOpenError::Device)?;
        let (networks, accounts) = values.networks_and_accounts();
        told.set_allow(Arc::new(plan.allow.with_posted(networks, accounts)));
        let reviews = directory.open_reviews()?;
        health.set("reviews-damaged", Impact::Degraded, review_damage(&reviews));
        directory.note_contents()?;
        Ok(Engine {
            exceptions: RwLock::new(Arc::new(exceptions)),
            searches: PostedSearches::new(searches),
            watched: Mutex::new(plan.files.clone()),
            plan: RwLock::new(Arc::new(plan)),
            standing: RwLock::new(Arc::new(state)),
            version_history: Some(history),
            changing: Mutex::default(),
            keyring: Keyring::new(secret.clone()),
            secret,
            ledger,
            shared,
            sharing: Mutex::new(Some(SharingState::default())),
            _lock: lock,
            journal: Some(Arc::new(journal)),
            archive: OnceLock::new(),
            directory: Some(directory.clone()),
            snapshot: Mutex::default(),
            trainer: Trainer::default(),
            judged: JudgedScores::new(directory, scores),
            counts: DecisionCounts::new(directory, counts),
            learners,
            ids,
            batches: batch::BufferPool::default(),
            records: batch::BufferPool::default(),
            ban_list: told,
            contributors: Default::default(),
            block_lists: RwLock::default(),
            posted_values: Mutex::new(values),
            allowed_addresses: Mutex::default(),
            live: Arc::default(),
            reviews,
            challenged: ChallengedDecisions::default(),
            sinks,
            candidates: CandidateTallies::default(),
            content_keys,
            latest: AtomicI64::new(i64::MIN),
            unknown_field_throttle: unknown_fields::UnknownFieldThrottle::default(),
            notices: crate::rule_notices::RuleNotices::default(),
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
        let ban_list = BanList::default();
        ban_list.set_allow(Arc::clone(&plan.allow));
        Ok(Engine {
            exceptions: RwLock::new(Arc::new(exceptions)),
            searches: PostedSearches::default(),
            watched: Mutex::new(plan.files.clone()),
            plan: RwLock::new(Arc::new(plan)),
            standing: RwLock::default(),
            version_history: None,
            changing: Mutex::default(),
            keyring: Keyring::new(secret.clone()),
            secret,
            ledger: LedgerHome::Embedded(ledger),
            shared: None,
            sharing: Mutex::default(),
            _lock: None,
            journal: None,
            archive: OnceLock::new(),
            directory: None,
            snapshot: Mutex::default(),
            trainer: Trainer::default(),
            judged: JudgedScores::default(),
            counts: DecisionCounts::default(),
            learners: LinearLearners::default(),
            ids: IdSource::default(),
            batches: batch::BufferPool::default(),
            records: batch::BufferPool::default(),
            ban_list,
            contributors: Default::default(),
            block_lists: RwLock::default(),
            posted_values: Mutex::default(),
            allowed_addresses: Mutex::default(),
            live: Arc::default(),
            reviews: ReviewQueue::default(),
            challenged: ChallengedDecisions::default(),
            sinks: SinkTable::default(),
            candidates: CandidateTallies::default(),
            content_keys: ContentKeys::default(),
            latest: AtomicI64::new(i64::MIN),
            unknown_field_throttle: unknown_fields::UnknownFieldThrottle::default(),
            notices: crate::rule_notices::RuleNotices::default(),
            metrics: EngineMetrics::default(),
            health: NodeConditions::default(),
        })
    }
}

/// Returns what of the queue of reviews could not be read when it was opened, for people.
fn review_damage(reviews: &ReviewQueue) -> Option<String> {
    let lost = reviews.lost_bytes();
    (lost > 0).then(|| {
        format!(
            "{lost} bytes of the queue of reviews cannot be read: reviews are missing, or are as they were before a reviewer's last word"
        )
    })
}

fn open_ledger(
    directory: &Directory,
    device: Arc<disk::FileDevice>,
    plan: &Plan,
) -> Result<(EmbeddedLedger, Recovery), EngineOpenError> {
    let path = directory.ledger_path();
    let (ledger, recovery) = directory.open_ledger_of(device, Some(plan))?;
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

/// Returns what of the ledger could not be read when it was opened, for people.
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

/// Returns the hash by which ids of this node differ from those of others: of its name, which it gets now if it has none.
fn node_hash(journal: &Journal) -> Result<u32, EngineOpenError> {
    let fresh = getrandom::u64().map_err(|error| EngineOpenError::Random(error.to_string()))?;
    let name = journal.node_name(&format!("{fresh:016x}"))?;
    Ok(name.bytes().fold(0x811c_9dc5, |hash: u32, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)))
}
