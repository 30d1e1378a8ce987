//! The journal of all nodes in object storage: segments are uploaded by `serve`, and commands read them.

use std::collections::HashSet;
#[cfg(feature = "object-store")]
use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;
#[cfg(feature = "object-store")]
use std::time::Duration;

use event::{Shingle, Time};
use journal::{ErasedRecords, JournalArchive, RecordId};

use crate::exit::CommandError;

/// `--journal`, of commands that read decisions.
#[derive(clap::Args)]
pub(crate) struct JournalOption {
    /// Read all nodes' uploaded decisions instead of the data directory's: s3://BUCKET/PREFIX, gs://..., az://... or
    /// file:///DIRECTORY
    #[arg(long, value_name = "URL")]
    journal: Option<String>,
}

impl JournalOption {
    /// Returns true if a place is named.
    pub(crate) fn is_named(&self) -> bool {
        self.journal.is_some()
    }
}

#[cfg(feature = "object-store")]
impl JournalOption {
    /// Opens the archive, if one is named. Files without such rows are left out.
    pub(crate) fn open(
        &self,
        from: Option<Time>,
        to: Option<Time>,
        pipeline: Option<&str>,
    ) -> Result<Option<JournalArchive>, CommandError> {
        let Some(url) = &self.journal else { return Ok(None) };
        let bucket = objects::ObjectBucket::open(url).map_err(CommandError::new)?;
        let filter = objects::BucketFilter { from, to, pipeline: pipeline.map(str::to_owned) };
        let journal = objects::BucketJournal::open(&bucket, &filter).map_err(CommandError::new)?;
        let nodes: Vec<String> = journal
            .nodes()
            .map(|(node, segments, rows)| format!("{node} ({segments} segments, {rows} rows)"))
            .collect();
        if nodes.is_empty() {
            return Err(CommandError::new(format_args!("{url}: no node has uploaded anything there")));
        }
        crate::console::say(format_args!("nodes: {}", nodes.join(", ")));
        Ok(Some(journal.into_archive()))
    }

    /// Erases what all nodes have uploaded of keys, if a place is named.
    pub(crate) fn erase(
        &self,
        shingles: &HashSet<Shingle>,
        pretend: bool,
        scratch: &Path,
    ) -> Result<Option<ErasedRecords>, CommandError> {
        let Some(url) = &self.journal else { return Ok(None) };
        let bucket = objects::ObjectBucket::open(url).map_err(CommandError::new)?;
        bucket.erase(shingles, pretend, scratch).map(Some).map_err(CommandError::new)
    }

    /// Finds the archive that has a decision, if any is named.
    pub(crate) fn find(&self, id: RecordId) -> Result<Option<Arc<JournalArchive>>, CommandError> {
        let Some(url) = &self.journal else { return Ok(None) };
        let bucket = objects::ObjectBucket::open(url).map_err(CommandError::new)?;
        let found = objects::BucketJournal::find(&bucket, id).map_err(CommandError::new)?;
        let found = found.ok_or_else(|| {
            CommandError::new(format_args!("{url}: no node has uploaded the decision {id}")).help(
                "a decision is there once its segment is closed and uploaded (`upload_every` of [journal])",
            )
        })?;
        crate::console::say(format_args!("decided by the node {}", found.node));
        Ok(Some(found.archive))
    }
}

#[cfg(not(feature = "object-store"))]
impl JournalOption {
    fn refuse<T>(&self) -> Result<Option<T>, CommandError> {
        match self.journal {
            None => Ok(None),
            Some(_) => {
                let missing = plan::MissingFeature(plan::BuildFeature::ObjectStore);
                Err(CommandError::new(missing).help(missing.help()))
            }
        }
    }

    /// Refuses a place in object storage.
    pub(crate) fn open(
        &self,
        _: Option<Time>,
        _: Option<Time>,
        _: Option<&str>,
    ) -> Result<Option<JournalArchive>, CommandError> {
        self.refuse()
    }

    /// Refuses a place in object storage.
    pub(crate) fn erase(
        &self,
        _: &HashSet<Shingle>,
        _: bool,
        _: &Path,
    ) -> Result<Option<ErasedRecords>, CommandError> {
        self.refuse()
    }

    /// Refuses a place in object storage.
    pub(crate) fn find(&self, _: RecordId) -> Result<Option<Arc<JournalArchive>>, CommandError> {
        self.refuse()
    }
}

/// The longest that a server which ends uploads what is left.
#[cfg(feature = "object-store")]
pub(crate) const FINISH_WITHIN: Duration = Duration::from_secs(10);

/// A bucket as the archive of an engine's decisions and those of other nodes.
#[cfg(feature = "object-store")]
struct BucketArchive {
    bucket: objects::ObjectBucket,
    /// The name of this node there.
    node: String,
}

#[cfg(feature = "object-store")]
impl engine::DecisionArchive for BucketArchive {
    fn address(&self) -> &str {
        self.bucket.url()
    }

    fn find_all(
        &self,
        ids: &BTreeSet<RecordId>,
        within: Duration,
    ) -> Result<engine::ArchivedDecisions, String> {
        let bucket = self.bucket.within(within);
        let found = objects::BucketJournal::find_all(&bucket, ids).map_err(|error| error.to_string())?;
        let mut descriptions: HashMap<String, Arc<journal::VersionDescription>> = HashMap::new();
        let mut decisions = engine::ArchivedDecisions::with_capacity(found.len());
        for objects::FoundDecision { id, node, row, archive } in found {
            let description = match descriptions.get(&row.version) {
                Some(known) => Arc::clone(known),
                None => {
                    let read = archive.description(&row.version).map_err(|error| error.to_string())?;
                    let read = Arc::new(read);
                    descriptions.insert(row.version.clone(), Arc::clone(&read));
                    read
                }
            };
            let is_own = node == self.node;
            decisions.insert(id, engine::ArchivedDecision { node, is_own, row, description });
        }
        Ok(decisions)
    }
}

/// Begins to upload the segments of an engine's journal, if its configuration says where to. The engine finds there what its journal
/// does not have.
#[cfg(feature = "object-store")]
pub(crate) fn upload(
    engine: &Arc<engine::Engine>,
    clock: &server::Clock,
) -> Result<Option<objects::Uploader>, CommandError> {
    let settings = engine.plan().node.journal.upload.clone();
    let (Some(settings), Some(journal)) = (settings, engine.shared_journal()) else { return Ok(None) };
    let bucket = objects::ObjectBucket::open(&settings.url).map_err(CommandError::new)?;
    // The engine has given it one.
    let node = journal.node_name("node")?;
    let (clock, reported) = (clock.clone(), Arc::clone(engine));
    engine.set_archive(Box::new(BucketArchive { bucket: bucket.clone(), node: node.clone() }));
    let uploads = objects::UploadSettings { node, every: settings.every, keep: settings.keep };
    let now = move || clock.certain_now();
    let report = move |fault| reported.health().set("journal-upload", engine::Impact::Degraded, fault);
    objects::Uploader::start(journal, bucket, uploads, now, report).map(Some).map_err(CommandError::new)
}
