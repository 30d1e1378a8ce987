//! Housekeeping, snapshots, and the end.

use event::{Span, Time};
use futures_util::future::join;
use journal::{Journal, JournalError};
use stats::{LedgerCensus, LedgerError};

use crate::condition::Impact;
use crate::directory::DirectoryError;
use crate::{Engine, KeptSnapshot, ban_list, directory};

/// Reasons for housekeeping that was not done.
#[derive(Debug, thiserror::Error)]
pub enum MaintenanceError {
    /// The keys of content.
    #[error("no key for content could be made: {0}")]
    ContentKeys(std::io::Error),
    /// The ledger.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The journal.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The ban list could not be written.
    #[error("labels could not be written: {0}")]
    BanList(std::io::Error),
    /// The judged scores could not be written.
    #[error(transparent)]
    Scores(#[from] DirectoryError),
}

/// Reasons for data that is not on disk.
#[derive(Debug, thiserror::Error)]
pub enum SyncError {
    /// The ledger.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The journal.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The data directory.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
}

/// Reasons for a failed snapshot.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// An engine without a data directory has nothing to copy.
    #[error("there is nothing to make a snapshot of: this engine was started without a data directory")]
    NoDirectory,
    /// Statistics are kept by the cluster.
    #[error(
        "the statistics are in the cluster, not in this data directory: copies are made with its own means"
    )]
    NotHere,
    /// One snapshot at a time is made.
    #[error("another snapshot is being made")]
    Busy,
    /// Nobody waits for a snapshot any more.
    #[error("the snapshot was not made: nobody waits for it any more")]
    Ended,
    /// The ledger.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The journal.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The data directory.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
}

impl Engine {
    /// Housekeeping: expired statistics and old segments go; nothing does where the time is not certain. To be called now
    /// and then, on a thread that may block.
    pub fn maintain(&self, now: Option<Time>) -> Result<(), MaintenanceError> {
        self.maintain_statistics(now.unwrap_or(Time(i64::MIN)))?;
        if let Some(now) = now {
            let renewed = self.content_keys.ensure(self.plan().pipelines.iter(), Some(now));
            renewed.map_err(MaintenanceError::ContentKeys)?;
        }
        match &self.journal {
            Some(journal) => {
                let Some(time) = now else { return Ok(()) };
                let plan = self.plan();
                let kept = plan.pipelines.iter();
                let kept: Vec<(String, Span)> = kept
                    .filter_map(|pipeline| Some((pipeline.name.clone(), pipeline.journal_keep?)))
                    .collect();
                journal.expire_pipelines(&kept, time)?;
                Ok(journal.expire(now)?)
            }
            None => Ok(()),
        }
    }

    /// Does the housekeeping after events that came with times of their own, as of the latest: they may all be older than the
    /// journal is kept, and were logged to be looked at.
    pub fn maintain_replayed(&self, latest: Time) -> Result<(), MaintenanceError> {
        self.maintain_statistics(latest)?;
        self.journal.as_ref().map_or(Ok(()), |journal| Ok(journal.expire(None)?))
    }

    fn maintain_statistics(&self, horizon: Time) -> Result<(), MaintenanceError> {
        self.ban_list.maintain(horizon).map_err(MaintenanceError::BanList)?;
        let (keys, crowded_out) = self.ban_list.size();
        let full = (keys >= ban_list::KEYS_MAX).then(|| {
            format!(
                "{keys} keys have labels that enforcement points are told of, which is the most there can be: \
                 {crowded_out} that ended first had to make room; let labels end earlier"
            )
        });
        self.maintain_reviews(horizon);
        self.judged.save()?;
        self.counts.save()?;
        self.learners.maintain()?;
        self.health.set("labels-full", Impact::Degraded, full);
        self.health.set("drift", Impact::Degraded, self.drift());
        self.health.set("ledger-directory", Impact::Degraded, directory_nearly_full(&self.ledger.census()));
        Ok(self.ledger.maintain(horizon)?)
    }

    /// Makes a copy of the data directory in its `snapshots`, and answers the copy's name, which is made of the time.
    /// Decisions go on meanwhile, but wait while files are linked. Files that will never change are hard links where
    /// the file system can; they take up room once the original is tidied away. Blocks.
    ///
    /// # Errors
    /// [`SnapshotError::Busy`] while another is being made, [`SnapshotError::Ended`] once nobody waits for it, and
    /// what could not be read or written. Then nothing of the copy is left.
    pub fn snapshot(
        &self,
        now: Time,
        is_over: stats::CancellationCheck<'_>,
    ) -> Result<String, SnapshotError> {
        const SAME_SECOND_MAX: u32 = 100;
        let directory = self.directory.as_ref().ok_or(SnapshotError::NoDirectory)?;
        let journal = self.journal.as_ref().ok_or(SnapshotError::NoDirectory)?;
        let Some(_alone) = self.snapshot.try_lock() else { return Err(SnapshotError::Busy) };
        let parent = directory.snapshots_path();
        let first = directory::snapshot::name(now);
        let names = (2..SAME_SECOND_MAX).map(|number| format!("{first}-{number}"));
        let name = std::iter::once(first.clone()).chain(names).find(|name| !parent.join(name).exists());
        let name = name.ok_or(SnapshotError::Busy)?;
        let ledger = self.ledger.embedded().ok_or(SnapshotError::NotHere)?;
        self.judged.save()?;
        self.counts.save()?;
        self.learners.save()?;
        self.reviews.save().map_err(directory::io_error(directory.path()))?;
        let go_on = || if is_over() { Err(SnapshotError::Ended) } else { Ok(()) };
        directory.snapshot_of(&parent.join(&name), ledger, |to| journal.snapshot(to), &go_on)?;
        Ok(name)
    }

    /// Returns the snapshots in the data directory, the newest first; none without one. Blocks.
    ///
    /// # Errors
    /// If their folder cannot be read.
    pub fn snapshots(
        &self,
        is_over: stats::CancellationCheck<'_>,
    ) -> Result<Vec<KeptSnapshot>, SnapshotError> {
        Ok(self
            .directory
            .as_ref()
            .map(|directory| directory.snapshots(is_over))
            .transpose()?
            .unwrap_or_default())
    }

    /// Waits until all that was counted and logged by now is on disk, whatever the durability: for who forgets what it
    /// has sent once it was answered.
    pub async fn sync(&self) -> Result<(), SyncError> {
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
    pub fn close(&self) -> Result<(), SyncError> {
        let journal = self.journal().map_or(Ok(()), Journal::close);
        if let Some(Err(why)) = self.training_streams().map(|streams| self.learners.exchange_last(streams)) {
            tracing::warn!("training examples of linear models wait for the next start: {why}");
        }
        let lines = self.judged.save().and_then(|()| self.counts.save()).and_then(|()| self.learners.save());
        if let Err(error) = self.reviews.save() {
            tracing::error!(%error, "the queue of reviews cannot be written as a whole: its log has it");
        }
        self.ledger.close()?;
        journal?;
        Ok(lines?)
    }
}

impl Engine {
    /// Returns the sentences for people about what does not come true any more of what pipelines promise and their probabilities.
    fn drift(&self) -> Option<String> {
        let plan = self.plan();
        let warnings: Vec<String> =
            plan.pipelines.iter().flat_map(|pipeline| self.drift_warnings(pipeline)).collect();
        (!warnings.is_empty()).then(|| warnings.join("; "))
    }
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
