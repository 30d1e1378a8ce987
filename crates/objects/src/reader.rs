//! Reading a bucket as if one journal had all rows.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use event::Time;
use futures_util::{StreamExt, TryStreamExt};
use journal::{ArchivedFile, DecisionRow, JournalArchive, Record, RecordId};

use crate::bucket::{AT_ONCE, ObjectBucket, ObjectError};
use crate::device::BucketDevice;
use crate::layout;
use crate::manifest::{INDEX_BYTES_MAX, MANIFEST_BYTES_MAX, ManifestFile, SegmentIndex, UploadManifest};

/// Days of segments, up to that of an id, among which the segment of the id is: the last before it may be of an earlier day,
/// and so may that of ids that raced each other.
const DAYS: usize = 2;
/// Segments of a node that begin before an id and may have it.
const SEGMENTS: usize = 2;

/// The rows that are wanted of a bucket. Others may come, too.
#[derive(Clone, Debug, Default)]
pub struct BucketFilter {
    /// Events at this time or later.
    pub from: Option<Time>,
    /// Events before this time.
    pub to: Option<Time>,
    /// Decisions of this pipeline.
    pub pipeline: Option<String>,
}

impl BucketFilter {
    fn takes(&self, file: &ManifestFile) -> bool {
        // Feedback labels its decision however late it comes.
        file.pipeline.is_none()
            || self.from.is_none_or(|from| file.to >= from)
                && self.to.is_none_or(|to| file.from < to)
                && self.pipeline.as_ref().is_none_or(|wanted| file.pipeline.as_ref() == Some(wanted))
    }
}

/// The decisions of all nodes that upload to a bucket.
#[derive(Debug)]
pub struct BucketJournal {
    archive: JournalArchive,
    /// The segments of each node, and the rows in them.
    nodes: BTreeMap<String, (u64, u64)>,
}

/// A decision that was found in a bucket.
#[derive(Debug)]
pub struct FoundDecision {
    /// Its id.
    pub id: RecordId,
    /// The node that decided.
    pub node: String,
    /// The decision itself.
    pub row: Box<DecisionRow>,
    /// An archive that has it, and what its rows mean.
    pub archive: Arc<JournalArchive>,
}

impl BucketJournal {
    /// Looks what there is, of all nodes. Of a segment that is uploaded half nothing is.
    ///
    /// # Errors
    /// The storage's; a damaged manifest is one, as nobody would know what is missing.
    pub fn open(bucket: &ObjectBucket, filter: &BucketFilter) -> Result<BucketJournal, ObjectError> {
        let manifests = bucket.wait(manifests(bucket))?;
        let mut nodes: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        for manifest in &manifests {
            let of = nodes.entry(manifest.node.clone()).or_default();
            of.0 += 1;
            of.1 += manifest.files.iter().map(|file| file.records).sum::<u64>();
        }
        let mut files: Vec<(RecordId, &ManifestFile)> = Vec::new();
        for manifest in &manifests {
            let wanted = manifest.files.iter().filter(|file| filter.takes(file));
            files.extend(wanted.map(|file| (manifest.segment, file)));
        }
        // Feedback after the decisions of its segment, whichever id is the first.
        files.sort_by(|(one, its), (other, others)| {
            (one, its.pipeline.is_none(), its.first, &its.name).cmp(&(
                other,
                others.pipeline.is_none(),
                others.first,
                &others.name,
            ))
        });
        let archive = archive_of(bucket, files.into_iter().map(|(_, file)| file));
        Ok(BucketJournal { archive, nodes })
    }

    /// Returns its rows.
    pub fn archive(&self) -> &JournalArchive {
        &self.archive
    }

    /// Returns its rows, which then are read on without it.
    pub fn into_archive(self) -> JournalArchive {
        self.archive
    }

    /// Returns the nodes whose segments are there, with the number of these and of their rows.
    pub fn nodes(&self) -> impl Iterator<Item = (&str, u64, u64)> {
        self.nodes.iter().map(|(node, (segments, rows))| (node.as_str(), *segments, *rows))
    }

    /// Finds a decision by its id, with some requests for each node: its segments before the id are listed, and of the last of
    /// them the index tells which files may have it.
    ///
    /// # Errors
    /// The storage's, or what cannot be read.
    pub fn find(bucket: &ObjectBucket, id: RecordId) -> Result<Option<FoundDecision>, ObjectError> {
        Ok(BucketJournal::find_all(bucket, &BTreeSet::from([id]))?.pop())
    }

    /// Finds decisions by their ids, as [`BucketJournal::find`] does one, those of a file together.
    ///
    /// # Errors
    /// The storage's, or what cannot be read.
    pub fn find_all(
        bucket: &ObjectBucket,
        ids: &BTreeSet<RecordId>,
    ) -> Result<Vec<FoundDecision>, ObjectError> {
        let mut candidates = bucket.wait(async {
            let nodes = bucket.folders(layout::SEGMENTS).await?;
            let found = futures_util::stream::iter(nodes)
                .map(|node| async move { candidates_of(bucket, &node, ids).await })
                .buffer_unordered(AT_ONCE)
                .try_collect::<Vec<_>>()
                .await?;
            Ok(found.into_iter().flatten().collect::<Vec<_>>())
        })?;
        // Most ids say which node made them. Those of journals that never knew of others say anything.
        candidates.sort_by_cached_key(|one| {
            let is_of = |id: &RecordId| id.node() == one.manifest.segment.node();
            (!one.ids.iter().any(is_of), one.manifest.node.clone(), one.manifest.segment)
        });
        let (mut found, mut missing) = (Vec::new(), ids.clone());
        for SegmentCandidate { manifest, ids } in candidates {
            let wanted: BTreeSet<RecordId> = ids.intersection(&missing).copied().collect();
            let may_hold = |file: &ManifestFile| wanted.iter().any(|id| holds(file, *id));
            if !manifest.files.iter().any(may_hold) {
                continue;
            }
            let index = layout::segment(&manifest.node, manifest.segment, layout::INDEX);
            // Without an index, all that may have it are looked through. One at a time is in memory.
            let index = match bucket.wait(bucket.get(&index, INDEX_BYTES_MAX))? {
                Some(bytes) => SegmentIndex::from_bytes(&bytes).unwrap_or_default(),
                None => SegmentIndex::default(),
            };
            for (at, file) in manifest.files.iter().enumerate() {
                let held = wanted.iter().filter(|id| holds(file, **id) && index.may_hold(at, **id));
                let held: BTreeSet<RecordId> = held.copied().collect();
                if held.is_empty() {
                    continue;
                }
                let archive = Arc::new(archive_of(bucket, [file]));
                for (id, record) in archive.find_all(&held)? {
                    if let Record::Decision(row) = record
                        && missing.remove(&id)
                    {
                        let (node, archive) = (manifest.node.clone(), Arc::clone(&archive));
                        found.push(FoundDecision { id, node, row, archive });
                    }
                }
            }
            if missing.is_empty() {
                break;
            }
        }
        Ok(found)
    }
}

pub(crate) fn archive_of<'f>(
    bucket: &ObjectBucket,
    files: impl IntoIterator<Item = &'f ManifestFile>,
) -> JournalArchive {
    let mut lengths = HashMap::new();
    let mut list = Vec::new();
    for file in files {
        // A name stands for one file, whoever names it.
        if lengths.insert(file.name.clone(), file.bytes).is_none() {
            list.push(ArchivedFile { name: file.name.clone(), first: file.first, last: file.last });
        }
    }
    JournalArchive::of_files(Arc::new(BucketDevice::new(bucket.clone(), lengths)), list)
}

/// Reads all manifests.
pub(crate) async fn manifests(bucket: &ObjectBucket) -> Result<Vec<UploadManifest>, ObjectError> {
    let listed = bucket.list(layout::SEGMENTS).await?;
    let names = listed.into_iter().map(|(name, _)| name);
    let names = names.filter(|name| name.ends_with(&format!(".{}", layout::MANIFEST)));
    let read =
        futures_util::stream::iter(names).map(|name| async move { read_manifest(bucket, &name).await });
    let all: Vec<Option<UploadManifest>> = read.buffer_unordered(AT_ONCE).try_collect().await?;
    Ok(all.into_iter().flatten().collect())
}

/// Reads a manifest; `None` if it is not there.
pub(crate) async fn read_manifest(
    bucket: &ObjectBucket,
    name: &str,
) -> Result<Option<UploadManifest>, ObjectError> {
    let Some(bytes) = bucket.get(name, MANIFEST_BYTES_MAX).await? else { return Ok(None) };
    UploadManifest::from_bytes(&bytes).map(Some).map_err(|why| bucket.unsound(name, why))
}

/// A segment that may have some of the ids that are looked for.
struct SegmentCandidate {
    manifest: UploadManifest,
    ids: BTreeSet<RecordId>,
}

/// The segments of a node that may have ids.
async fn candidates_of(
    bucket: &ObjectBucket,
    node: &str,
    ids: &BTreeSet<RecordId>,
) -> Result<Vec<SegmentCandidate>, ObjectError> {
    let folder = format!("{}/{node}", layout::SEGMENTS);
    let dates = bucket.folders(&folder).await?;
    // Dates of four digits are in order as texts.
    let days: BTreeSet<String> = ids.iter().map(|id| layout::date(layout::day_of(*id))).collect();
    let before = |day: &String| {
        let up_to = dates.partition_point(|date| date <= day);
        dates[up_to.saturating_sub(DAYS)..up_to].iter()
    };
    let wanted: BTreeSet<&String> = days.iter().flat_map(before).collect();
    let mut names: Vec<(RecordId, String)> = Vec::new();
    for date in wanted {
        let listed = bucket.list(&format!("{folder}/{date}")).await?;
        let segment =
            |name: &str| name.rsplit('/').next()?.strip_suffix(".manifest")?.parse::<RecordId>().ok();
        names.extend(listed.into_iter().filter_map(|(name, _)| Some((segment(&name)?, name))));
    }
    names.sort_unstable();
    let mut segments: BTreeMap<&String, BTreeSet<RecordId>> = BTreeMap::new();
    for id in ids {
        let up_to = names.partition_point(|(first, _)| first <= id);
        for (_, name) in &names[up_to.saturating_sub(SEGMENTS)..up_to] {
            segments.entry(name).or_default().insert(*id);
        }
    }
    let mut candidates = Vec::new();
    for (name, ids) in segments {
        let Some(manifest) = read_manifest(bucket, name).await? else { continue };
        candidates.push(SegmentCandidate { manifest, ids });
    }
    Ok(candidates)
}

fn holds(file: &ManifestFile, id: RecordId) -> bool {
    file.pipeline.is_some() && (file.first..=file.last).contains(&id)
}
