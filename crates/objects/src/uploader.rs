//! Uploads closed segments, on a thread of its own: decisions never wait for it.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use event::{Span, Time};
use futures_util::{StreamExt, TryStreamExt};
use journal::{ClosedSegment, FollowerStop, FollowerThreads, Journal, SplitSegment, retry_pause};

use crate::bucket::{AT_ONCE, ObjectBucket, ObjectError};
use crate::layout;
use crate::manifest::{SegmentIndex, UploadManifest};
use crate::reader::read_manifest;

/// The pause between two looks for segments, unless they are to be uploaded more often.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// The pause after a first failure, and the longest one.
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(300);
/// The pause between two looks for what is too old.
const EXPIRE_EVERY: Duration = Duration::from_secs(3600);
/// The number of failures in a row from which on people are told.
const FAILURES_SHOWN: u32 = 3;

/// Settings of uploads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UploadSettings {
    /// The name of this node: all that it uploads has it.
    pub node: String,
    /// The age at which a segment is closed, and uploaded.
    pub every: Span,
    /// The age at which this node's segments are removed from the bucket; `None` for never.
    pub keep: Option<Span>,
}

/// A source of the time; `None` while it is not certain.
type TimeSource = Box<dyn Fn() -> Option<Time> + Send>;
/// Told what is wrong, for people, and that nothing is any more.
type FaultReport = Box<dyn Fn(Option<String>) + Send>;

/// The thread that uploads. It ends when this value is dropped.
#[derive(Debug)]
pub struct Uploader {
    threads: FollowerThreads,
}

impl Uploader {
    /// Begins to upload the segments of a journal. The bucket need not be there.
    ///
    /// # Errors
    /// The system's, if it gives no thread.
    pub fn start(
        journal: Arc<Journal>,
        bucket: ObjectBucket,
        settings: UploadSettings,
        now: impl Fn() -> Option<Time> + Send + 'static,
        report: impl Fn(Option<String>) + Send + 'static,
    ) -> Result<Uploader, ObjectError> {
        journal.keep_for_upload();
        let mut threads = FollowerThreads::default();
        let mut work = UploadWork {
            journal,
            bucket,
            settings,
            now: Box::new(now),
            report: Box::new(report),
            stop: threads.stop(),
            versions: HashSet::new(),
            failures: 0,
            expired: None,
        };
        threads
            .spawn("upload", move || work.run())
            .map_err(|error| ObjectError::Io { what: "a thread for uploads".to_owned(), error })?;
        Ok(Uploader { threads })
    }

    /// Uploads what is left of a journal that was closed, as far as that takes no longer than this, and ends. The rest is
    /// uploaded after the next start.
    pub fn finish(self, within: Duration) {
        self.threads.finish(within);
    }
}

struct UploadWork {
    journal: Arc<Journal>,
    bucket: ObjectBucket,
    settings: UploadSettings,
    now: TimeSource,
    report: FaultReport,
    stop: Arc<FollowerStop>,
    /// Versions that are known to be there.
    versions: HashSet<String>,
    /// Failures in a row.
    failures: u32,
    /// The moment at which it was last looked for what is too old.
    expired: Option<Instant>,
}

impl UploadWork {
    fn run(&mut self) {
        let every = Duration::from_micros(self.settings.every.0.unsigned_abs());
        let look = LOOK_EVERY.min(every / 4).max(Duration::from_millis(20));
        while !self.stop.is_raised() {
            let is_last = self.stop.is_ending();
            let pause = match self.pass() {
                Ok(()) => {
                    if self.failures > 0 {
                        tracing::info!(bucket = self.bucket.url(), "segments are uploaded again");
                        (self.report)(None);
                    }
                    self.failures = 0;
                    look
                }
                Err(ObjectError::Stopped) => return,
                Err(error) => self.failed(&error),
            };
            if is_last {
                return;
            }
            let rest = self.bucket.wait(async {
                let _ = tokio::time::timeout(pause, self.stop.any()).await;
                Ok(())
            });
            if rest.is_err() {
                return;
            }
        }
    }

    /// Tells of a failure, and returns how long to wait after it.
    fn failed(&mut self, error: &ObjectError) -> Duration {
        self.journal.note_failed_upload();
        self.failures = self.failures.saturating_add(1);
        let pause = retry_pause(self.failures.into(), PAUSE, PAUSE_MAX);
        if self.failures == 1 {
            tracing::warn!(%error, "a segment cannot be uploaded: it is tried again");
        }
        if self.failures >= FAILURES_SHOWN {
            let waiting = self.journal.upload_census().waiting;
            (self.report)(Some(format!(
                "{waiting} segments of the journal wait to be uploaded, {} attempts in a row have failed: {error}",
                self.failures
            )));
        }
        // Nodes that failed together do not come back together.
        let share =
            f64::from(crc32fast::hash(self.settings.node.as_bytes()) ^ self.failures) / f64::from(u32::MAX);
        pause.mul_f64(0.5 + share / 2.0)
    }

    /// Waits for the bucket, unless all is to end.
    fn wait<T>(&self, call: impl Future<Output = Result<T, ObjectError>>) -> Result<T, ObjectError> {
        self.bucket.wait(async {
            tokio::select! {
                done = call => done,
                () = self.stop.raised() => Err(ObjectError::Stopped),
            }
        })
    }

    /// Uploads what there is.
    fn pass(&mut self) -> Result<(), ObjectError> {
        let now = (self.now)();
        if let Some(now) = now {
            self.journal.close_older(self.settings.every, now);
        }
        let waiting = self.journal.closed_segments();
        let waiting: Vec<ClosedSegment> =
            waiting.into_iter().filter(|segment| !self.journal.is_uploaded(segment.first)).collect();
        for some in waiting.chunks(AT_ONCE) {
            let known = self.wait(self.known(some))?;
            for (segment, known) in some.iter().zip(known) {
                let is_too_old =
                    self.settings.keep.zip(now).is_some_and(|(keep, now)| segment.newest < now - keep);
                match known {
                    _ if is_too_old || segment.records == 0 => self.journal.note_upload(segment.first, None),
                    Some(known) if known.records == segment.records => {
                        self.journal.note_upload(segment.first, None);
                    }
                    before => self.upload(segment, before)?,
                }
            }
        }
        self.expire(now)
    }

    /// Reads what the bucket has of segments.
    async fn known(&self, segments: &[ClosedSegment]) -> Result<Vec<Option<UploadManifest>>, ObjectError> {
        let names: Vec<String> = segments
            .iter()
            .map(|it| layout::segment(&self.settings.node, it.first, layout::MANIFEST))
            .collect();
        let read = |name: String| async move {
            match read_manifest(&self.bucket, &name).await {
                // It is written anew.
                Err(ObjectError::Unsound { .. }) => Ok(None),
                read => read,
            }
        };
        futures_util::stream::iter(names).map(read).buffered(AT_ONCE).try_collect().await
    }

    /// Uploads a segment, in the place of what is there of it.
    fn upload(&mut self, segment: &ClosedSegment, before: Option<UploadManifest>) -> Result<(), ObjectError> {
        let Some(split) = self.journal.split(segment, &|| self.stop.is_raised())? else {
            // It became too old to be kept.
            return if self.stop.is_raised() { Err(ObjectError::Stopped) } else { Ok(()) };
        };
        if !split.skipped.is_empty() {
            tracing::error!(segment = %segment.first, skipped = %split.skipped, "is uploaded without what is damaged");
        }
        for version in &split.versions {
            if self.versions.contains(version) {
                continue;
            }
            let files = self.journal.version_files(version)?;
            for (name, bytes) in files {
                self.wait(self.bucket.put(&format!("{}/{name}", layout::VERSIONS), bytes))?;
            }
            self.versions.insert(version.clone());
        }
        let bytes = self.wait(self.put(&split, before))?;
        self.journal.note_upload(segment.first, Some(bytes));
        Ok(())
    }

    /// Puts the files, then the index, and the manifest at last.
    async fn put(&self, split: &SplitSegment, before: Option<UploadManifest>) -> Result<u64, ObjectError> {
        let node = &self.settings.node;
        let mut manifest = UploadManifest::of(node, split);
        let mut bytes = 0;
        for (of, file) in manifest.files.iter_mut().zip(&split.files) {
            let blob = file.open()?;
            of.bytes = self.bucket.put_file(&of.name, &*blob).await?;
            bytes += of.bytes;
        }
        let index = layout::segment(node, split.segment.first, layout::INDEX);
        self.bucket.put(&index, SegmentIndex::of(split).to_bytes()).await?;
        let name = layout::segment(node, split.segment.first, layout::MANIFEST);
        self.bucket.put(&name, manifest.to_bytes()).await?;
        // Files that the segment does not have any more, as rows of it were erased.
        let gone = before.into_iter().flat_map(|before| before.files).map(|file| file.name);
        let gone = gone.filter(|name| manifest.files.iter().all(|file| file.name != *name));
        self.bucket.remove(gone.collect::<Vec<_>>()).await?;
        Ok(bytes)
    }

    /// Removes segments that are too old: this node's, and those of nodes that have uploaded nothing for so long. One that uploads
    /// removes its own, by what is configured there.
    fn expire(&mut self, now: Option<Time>) -> Result<(), ObjectError> {
        let (Some(keep), Some(now)) = (self.settings.keep, now) else { return Ok(()) };
        if self.expired.is_some_and(|at| at.elapsed() < EXPIRE_EVERY) {
            return Ok(());
        }
        self.wait(async {
            let oldest = layout::date((now - keep).0.div_euclid(Span::days(1).0));
            for node in self.bucket.folders(layout::SEGMENTS).await? {
                let folder = format!("{}/{node}", layout::SEGMENTS);
                let dates = self.bucket.folders(&folder).await?;
                let is_gone = dates.last().is_some_and(|last| *last < oldest);
                if is_gone || node == self.settings.node {
                    for date in dates.iter().filter(|date| **date <= oldest) {
                        self.expire_day(&format!("{folder}/{date}"), now - keep).await?;
                    }
                }
            }
            Ok(())
        })?;
        self.expired = Some(Instant::now());
        Ok(())
    }

    /// Removes the segments of a folder whose latest arrival is before a time, each with its manifest at last.
    async fn expire_day(&self, folder: &str, before: Time) -> Result<(), ObjectError> {
        for (name, _) in self.bucket.list(folder).await? {
            let Some(stem) = name.strip_suffix(".manifest") else { continue };
            let Some(manifest) = read_manifest(&self.bucket, &name).await? else { continue };
            if manifest.newest >= before {
                continue;
            }
            let files = manifest.files.into_iter().map(|file| file.name);
            let files: Vec<String> = files.chain([format!("{stem}.{}", layout::INDEX)]).collect();
            self.bucket.remove(files).await?;
            self.bucket.remove([name]).await?;
        }
        Ok(())
    }
}
