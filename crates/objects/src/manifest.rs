//! The content of a bucket of one segment: its files, and filters that tell which of them may have an id or a key.
//!
//! ```text
//! manifest  JSON and its checksum
//! index     "TOLLIDX1"  for each file: bytes of its filter of ids (u32), of keys (u32), the filters  CRC-32 of all before
//! ```

use event::{Shingle, Time};
use journal::{BloomFilter, RecordId, SplitSegment, SplitTable};
use serde::{Deserialize, Serialize};

use crate::layout;

const MAGIC: &[u8; 8] = b"TOLLIDX1";
/// The version of manifests that is written and read.
const VERSION: u32 = 1;
/// Longest manifest, and index.
pub(crate) const MANIFEST_BYTES_MAX: u64 = 4 << 20;
pub(crate) const INDEX_BYTES_MAX: u64 = 256 << 20;
/// Most files of a segment.
const FILES_MAX: usize = 10_000;

/// A segment in a bucket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UploadManifest {
    version: u32,
    /// The node that decided.
    pub node: String,
    /// The first id of the segment, by which it is named.
    pub segment: RecordId,
    /// The number of records that the node's segment had.
    pub records: u64,
    /// The latest arrival in it.
    pub newest: Time,
    /// The versions of its decisions.
    pub versions: Vec<String>,
    /// Its files.
    pub files: Vec<ManifestFile>,
}

/// A file of a segment in a bucket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestFile {
    /// Its name in the bucket.
    pub name: String,
    /// The pipeline that decided; `None` for feedback.
    pub pipeline: Option<String>,
    /// The least of its ids.
    pub first: RecordId,
    /// The greatest of its ids.
    pub last: RecordId,
    /// The number of its rows.
    pub records: u64,
    /// Its length.
    pub bytes: u64,
    /// The earliest time of its events.
    pub from: Time,
    /// The latest time of its events.
    pub to: Time,
}

impl UploadManifest {
    /// Returns the manifest of a segment, of whose files the lengths are known when they are uploaded.
    pub(crate) fn of(node: &str, split: &SplitSegment) -> UploadManifest {
        let segment = split.segment.first;
        let file = |file: &journal::SplitFile| ManifestFile {
            name: layout::file(&file.table, file.day, node, segment),
            pipeline: match &file.table {
                SplitTable::Decisions(pipeline) => Some(pipeline.clone()),
                SplitTable::Feedback => None,
            },
            first: file.first,
            last: file.last,
            records: file.records,
            bytes: 0,
            from: file.times.0,
            to: file.times.1,
        };
        UploadManifest {
            version: VERSION,
            node: node.to_owned(),
            segment,
            records: split.segment.records,
            newest: split.segment.newest,
            versions: split.versions.clone(),
            files: split.files.iter().map(file).collect(),
        }
    }

    /// Returns the manifest as bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        disk::seal(&serde_json::to_vec(self).unwrap_or_default())
    }

    /// Reads a manifest.
    ///
    /// # Errors
    /// Says what is wrong with it.
    pub fn from_bytes(bytes: &[u8]) -> Result<UploadManifest, &'static str> {
        let text = disk::unseal(bytes).ok_or("it is damaged")?;
        let manifest: UploadManifest = serde_json::from_slice(text).map_err(|_| "it is no manifest")?;
        if manifest.version != VERSION {
            return Err("it was written by another release");
        }
        if manifest.files.len() > FILES_MAX {
            return Err("it has too many files");
        }
        let is_inside = |file: &ManifestFile| {
            let tables = ["decisions/", "feedback/"].iter().any(|table| file.name.starts_with(table));
            tables && file.name.ends_with(".parquet") && file.first <= file.last
        };
        if !manifest.files.iter().all(is_inside) {
            return Err("it names files elsewhere");
        }
        Ok(manifest)
    }
}

/// The filters of a segment's files, in the order of the manifest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SegmentIndex {
    files: Vec<(BloomFilter, BloomFilter)>,
}

impl SegmentIndex {
    pub(crate) fn of(split: &SplitSegment) -> SegmentIndex {
        SegmentIndex { files: split.files.iter().map(|file| (file.ids.clone(), file.keys.clone())).collect() }
    }

    /// Returns false if a file has no record of an id.
    pub fn may_hold(&self, file: usize, id: RecordId) -> bool {
        self.files.get(file).is_none_or(|(ids, _)| ids.may_hold(id.0))
    }

    /// Returns false if a file has no row of a key, of whatever kind.
    pub fn may_hold_key(&self, file: usize, shingle: Shingle) -> bool {
        self.files.get(file).is_none_or(|(_, keys)| keys.may_hold(shingle.0))
    }

    /// Returns the index as bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        for (ids, keys) in &self.files {
            let [ids, keys] = [ids, keys].map(BloomFilter::to_bytes);
            // At most some megabytes.
            bytes.extend_from_slice(&(ids.len() as u32).to_le_bytes());
            bytes.extend_from_slice(&(keys.len() as u32).to_le_bytes());
            bytes.extend_from_slice(&ids);
            bytes.extend_from_slice(&keys);
        }
        bytes.extend_from_slice(&crc32fast::hash(&bytes).to_le_bytes());
        bytes
    }

    /// Reads an index.
    ///
    /// # Errors
    /// Says what is wrong with it.
    pub fn from_bytes(bytes: &[u8]) -> Result<SegmentIndex, &'static str> {
        const DAMAGED: &str = "it is damaged";
        let (content, sum) = bytes.split_last_chunk::<4>().ok_or(DAMAGED)?;
        if u32::from_le_bytes(*sum) != crc32fast::hash(content) {
            return Err(DAMAGED);
        }
        let mut rest = content.strip_prefix(MAGIC).ok_or("it was written by another release")?;
        let mut index = SegmentIndex::default();
        while !rest.is_empty() {
            let (lengths, behind) = rest.split_first_chunk::<8>().ok_or(DAMAGED)?;
            let length = |at: usize| {
                u32::from_le_bytes([lengths[at], lengths[at + 1], lengths[at + 2], lengths[at + 3]])
            };
            let (ids, behind) = behind.split_at_checked(length(0) as usize).ok_or(DAMAGED)?;
            let (keys, behind) = behind.split_at_checked(length(4) as usize).ok_or(DAMAGED)?;
            let filter = |bytes: &[u8]| BloomFilter::from_bytes(bytes).ok_or(DAMAGED);
            index.files.push((filter(ids)?, filter(keys)?));
            if index.files.len() > FILES_MAX {
                return Err("it has too many files");
            }
            rest = behind;
        }
        Ok(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_reads_back_and_nothing_else_does() {
        let filter = |from: u64| BloomFilter::of((from..from + 1000).collect::<Vec<_>>().into_iter());
        let index = SegmentIndex { files: vec![(filter(0), filter(5000)), (filter(9000), filter(0))] };
        let bytes = index.to_bytes();
        assert_eq!(SegmentIndex::from_bytes(&bytes), Ok(index.clone()));
        assert!(index.may_hold(0, RecordId(7)) && !index.may_hold(1, RecordId(7)));
        assert!(index.may_hold_key(0, Shingle(5001)) && !index.may_hold_key(0, Shingle(1)));
        // Without filters a file may have it.
        assert!(index.may_hold_key(2, Shingle(1)) && index.may_hold(2, RecordId(7)));
        for cut in 0..bytes.len().min(200) {
            assert!(SegmentIndex::from_bytes(&bytes[..cut]).is_err(), "{cut}");
        }
        for at in (0..bytes.len()).step_by(7) {
            let mut other = bytes.clone();
            other[at] ^= 0x40;
            assert!(SegmentIndex::from_bytes(&other).is_err(), "{at}");
        }
    }

    #[test]
    fn a_manifest_names_files_of_the_bucket_only() {
        let of = |name: &str| UploadManifest {
            version: VERSION,
            node: "a".to_owned(),
            segment: RecordId(1),
            records: 1,
            newest: Time(5),
            versions: vec!["v".to_owned()],
            files: vec![ManifestFile {
                name: name.to_owned(),
                pipeline: None,
                first: RecordId(1),
                last: RecordId(2),
                records: 1,
                bytes: 7,
                from: Time(1),
                to: Time(2),
            }],
        };
        let sound = of("feedback/date=1970-01-01/a-1.parquet");
        assert_eq!(UploadManifest::from_bytes(&sound.to_bytes()), Ok(sound));
        assert!(UploadManifest::from_bytes(&of("_tollhouse/versions/x.parquet").to_bytes()).is_err());
        assert!(UploadManifest::from_bytes(b"{}").is_err());
    }
}
