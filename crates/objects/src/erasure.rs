//! Taking out of a bucket all that it has of some keys, whichever node decided.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use disk::{Blob, Device, FileDevice};
use event::Shingle;
use journal::{ErasedRecords, Record, RecordId};

use crate::bucket::{ObjectBucket, ObjectError};
use crate::layout;
use crate::manifest::{INDEX_BYTES_MAX, ManifestFile, SegmentIndex, UploadManifest};
use crate::reader::{archive_of, manifests};

/// Bytes of a file that are fetched at once.
const FETCH_BYTES: u64 = 8 << 20;
/// The name of a file while it is written anew.
const SCRATCH: &str = "erasing.parquet";

impl ObjectBucket {
    /// Takes out every decision whose event had a key of one of these shingles, of whatever kind, and all feedback on it, and
    /// what reporters said who have one of them. Files that hold none, as their filters tell, are not read. Others are written
    /// anew, one by one, in `scratch`, a directory that is made and removed, and put in their places. Interrupted, it is to
    /// be begun again. With `pretend` nothing is changed. Nodes may go on uploading; what they upload later is not touched,
    /// so erase at them before.
    ///
    /// # Errors
    /// The storage's, or a damaged file: if none was found before, nothing was changed.
    pub fn erase(
        &self,
        shingles: &HashSet<Shingle>,
        pretend: bool,
        scratch: &Path,
    ) -> Result<ErasedRecords, ObjectError> {
        let manifests = self.wait(manifests(self))?;
        let mut erased = ErasedRecords::default();
        let mut decisions: HashSet<RecordId> = HashSet::new();
        let mut touched: BTreeMap<usize, HashSet<usize>> = BTreeMap::new();
        let mut indexes = Vec::with_capacity(manifests.len());
        for manifest in &manifests {
            let name = layout::segment(&manifest.node, manifest.segment, layout::INDEX);
            let found = self.wait(self.get(&name, INDEX_BYTES_MAX))?;
            // Without an index all files may have them.
            let index = found.and_then(|bytes| SegmentIndex::from_bytes(&bytes).ok()).unwrap_or_default();
            let may_hold: Vec<bool> = (0..manifest.files.len())
                .map(|at| shingles.iter().any(|shingle| index.may_hold_key(at, *shingle)))
                .collect();
            indexes.push(may_hold);
        }
        for (number, (manifest, may_hold)) in manifests.iter().zip(&indexes).enumerate() {
            for (at, file) in manifest.files.iter().enumerate() {
                if file.pipeline.is_none() || may_hold.get(at) != Some(&true) {
                    continue;
                }
                let before = decisions.len();
                self.visit(file, &mut |id, record| {
                    if let Record::Decision(row) = record
                        && row.keys.iter().any(|key| shingles.contains(&key.shingle))
                    {
                        decisions.insert(id);
                    }
                })?;
                if decisions.len() > before {
                    touched.entry(number).or_default().insert(at);
                }
            }
        }
        erased.decisions = decisions.len() as u64;
        for (number, (manifest, may_hold)) in manifests.iter().zip(&indexes).enumerate() {
            for (at, file) in manifest.files.iter().enumerate() {
                let may_be_of_them = !decisions.is_empty() || may_hold.get(at) == Some(&true);
                if file.pipeline.is_some() || !may_be_of_them {
                    continue;
                }
                let mut count = 0;
                self.visit(file, &mut |_, record| {
                    if let Record::Report(report) = record {
                        let is_by_them = report.by.is_some_and(|by| shingles.contains(&by));
                        count += u64::from(is_by_them || decisions.contains(&report.decision));
                    }
                })?;
                if count > 0 {
                    touched.entry(number).or_default().insert(at);
                    erased.feedback += count;
                }
            }
        }
        if pretend || touched.is_empty() {
            return Ok(erased);
        }
        let io = |error| ObjectError::Io { what: scratch.display().to_string(), error };
        let device: Arc<dyn Device> = Arc::new(FileDevice::unlocked(scratch).map_err(io)?);
        let mut result = Ok(());
        for (number, files) in touched {
            let Some(manifest) = manifests.get(number) else { continue };
            result = self.rewrite(manifest.clone(), &files, (&decisions, shingles), &device);
            if result.is_err() {
                break;
            }
        }
        // What is left of a file has what is erased.
        std::fs::remove_dir_all(scratch).map_err(io)?;
        result.map(|()| erased)
    }

    fn visit(&self, file: &ManifestFile, look: &mut dyn FnMut(RecordId, Record)) -> Result<(), ObjectError> {
        let skipped = archive_of(self, [file]).scan(|id, record| {
            look(id, record);
            true
        })?;
        if skipped.is_empty() { Ok(()) } else { Err(self.unsound(&file.name, "it is damaged")) }
    }

    /// Writes files of a segment anew, and then its manifest.
    fn rewrite(
        &self,
        mut manifest: UploadManifest,
        files: &HashSet<usize>,
        (decisions, reporters): (&HashSet<RecordId>, &HashSet<Shingle>),
        device: &Arc<dyn Device>,
    ) -> Result<(), ObjectError> {
        let mut empty = Vec::new();
        for (_, file) in manifest.files.iter_mut().enumerate().filter(|(at, _)| files.contains(at)) {
            let io = |error| ObjectError::Io { what: device.path(SCRATCH).display().to_string(), error };
            let local = disk::create_anew(&**device, SCRATCH).map_err(io)?;
            self.fetch(file, &*local)?;
            drop(local);
            file.records = journal::erase_of_file(device, SCRATCH, decisions, reporters)?;
            if file.records == 0 {
                empty.push(file.name.clone());
                continue;
            }
            let local = device.open(SCRATCH).map_err(io)?;
            file.bytes = self.wait(self.put_file(&file.name, &*local))?;
        }
        manifest.files.retain(|file| file.records > 0);
        let name = layout::segment(&manifest.node, manifest.segment, layout::MANIFEST);
        // The index tells files by their places: those that are left may have moved, and all that it says is that rows may be
        // there.
        let index = layout::segment(&manifest.node, manifest.segment, layout::INDEX);
        if !empty.is_empty() {
            self.wait(self.remove([index]))?;
        }
        self.wait(self.put(&name, manifest.to_bytes()))?;
        self.wait(self.remove(empty))
    }

    fn fetch(&self, file: &ManifestFile, to: &dyn Blob) -> Result<(), ObjectError> {
        let mut at = 0;
        loop {
            let end = at + FETCH_BYTES;
            let Some((bytes, length)) = self.wait(self.range(&file.name, at..end))? else {
                return Err(self.unsound(&file.name, "it is gone"));
            };
            to.append(&bytes).map_err(|error| ObjectError::Io { what: file.name.clone(), error })?;
            at += bytes.len() as u64;
            if at >= length || bytes.is_empty() {
                return Ok(());
            }
        }
    }
}
