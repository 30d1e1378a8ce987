//! A bucket's files as a device, which is only read.

use std::collections::{HashMap, VecDeque};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use disk::{Blob, Device};
use parking_lot::Mutex;

use crate::bucket::{ObjectBucket, ObjectError};
use crate::layout;

/// Bytes that are read at once, at least: a request takes tens of milliseconds, however little it is for.
const CHUNK_BYTES: u64 = 512 << 10;
/// Chunks of a file that are kept.
const CHUNKS: usize = 6;
/// Longest file that says what rows mean.
const VERSION_BYTES_MAX: u64 = 64 << 20;

/// The files of a bucket that manifests name, by their names, and what says what rows mean.
#[derive(Debug)]
pub(crate) struct BucketDevice {
    bucket: ObjectBucket,
    /// The length of each.
    lengths: HashMap<String, u64>,
}

impl BucketDevice {
    pub(crate) fn new(bucket: ObjectBucket, lengths: HashMap<String, u64>) -> BucketDevice {
        BucketDevice { bucket, lengths }
    }
}

/// An error of a bucket as one of the system.
fn io_error(error: ObjectError) -> io::Error {
    match error {
        ObjectError::Io { error, .. } => error,
        other => io::Error::other(other),
    }
}

fn read_only<T>() -> io::Result<T> {
    Err(io::Error::new(ErrorKind::ReadOnlyFilesystem, "a bucket is only read"))
}

impl Device for BucketDevice {
    /// The names of what says what rows mean.
    fn list(&self) -> io::Result<Vec<String>> {
        let listed = self.bucket.wait(self.bucket.list(layout::VERSIONS)).map_err(io_error)?;
        let name = |name: String| name.rsplit('/').next().map(str::to_owned);
        Ok(listed.into_iter().filter_map(|(path, _)| name(path)).collect())
    }

    fn create(&self, _: &str) -> io::Result<Box<dyn Blob>> {
        read_only()
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn Blob>> {
        let Some(length) = self.lengths.get(name).copied() else {
            let path = format!("{}/{name}", layout::VERSIONS);
            let found = self.bucket.wait(self.bucket.get(&path, VERSION_BYTES_MAX)).map_err(io_error)?;
            let bytes = found.ok_or(ErrorKind::NotFound)?;
            let length = bytes.len() as u64;
            let blob =
                BucketBlob { bucket: self.bucket.clone(), name: path, length, chunks: Mutex::default() };
            blob.chunks.lock().push_back((0, bytes));
            return Ok(Box::new(blob));
        };
        // What is at the end is needed first, and tells whether the file is there.
        let tail = |length: u64| {
            let range = length.saturating_sub(CHUNK_BYTES)..length.max(1);
            self.bucket
                .wait(self.bucket.range(name, range.clone()))
                .map(|found| found.map(|it| (range.start, it)))
        };
        let is_as_stated = |(_, (_, whole)): &(u64, (Bytes, u64))| *whole == length;
        let found = match tail(length) {
            Ok(Some(found)) if is_as_stated(&found) => found,
            Ok(None) => return Err(ErrorKind::NotFound.into()),
            // It was written anew, and the manifest is about to be.
            _ => {
                let whole = self
                    .bucket
                    .wait(self.bucket.length(name))
                    .map_err(io_error)?
                    .ok_or(ErrorKind::NotFound)?;
                tail(whole).map_err(io_error)?.ok_or(ErrorKind::NotFound)?
            }
        };
        let (at, (bytes, length)) = found;
        let (bucket, name) = (self.bucket.clone(), name.to_owned());
        let blob = BucketBlob { bucket, name, length, chunks: Mutex::default() };
        blob.chunks.lock().push_back((at, bytes));
        Ok(Box::new(blob))
    }

    fn remove(&self, _: &str) -> io::Result<()> {
        read_only()
    }

    fn sync_names(&self) -> io::Result<()> {
        read_only()
    }

    fn replace(&self, _: &str, _: &[u8]) -> io::Result<()> {
        read_only()
    }

    fn rename(&self, _: &str, _: &str) -> io::Result<()> {
        read_only()
    }

    fn link(&self, _: &str, _: &str) -> io::Result<()> {
        read_only()
    }

    fn export(&self, _: &str, _: Option<u64>, _: &Path) -> io::Result<()> {
        read_only()
    }

    fn path(&self, name: &str) -> PathBuf {
        format!("{}/{name}", self.bucket.url().trim_end_matches('/')).into()
    }
}

/// A file of a bucket, which never changes while it is read.
#[derive(Debug)]
struct BucketBlob {
    bucket: ObjectBucket,
    name: String,
    length: u64,
    /// The stretches read last: where each begins, and its bytes.
    chunks: Mutex<VecDeque<(u64, Bytes)>>,
}

impl BucketBlob {
    fn fetch(&self, offset: u64, length: u64) -> io::Result<Bytes> {
        let end = offset.saturating_add(length.max(CHUNK_BYTES)).min(self.length);
        if offset >= end {
            return Ok(Bytes::new());
        }
        let found = self.bucket.wait(self.bucket.range(&self.name, offset..end)).map_err(io_error)?;
        let (bytes, _) = found.ok_or(ErrorKind::NotFound)?;
        let mut chunks = self.chunks.lock();
        if chunks.len() >= CHUNKS {
            chunks.pop_front();
        }
        chunks.push_back((offset, bytes.clone()));
        Ok(bytes)
    }

    fn known(&self, offset: u64) -> Option<Bytes> {
        let chunks = self.chunks.lock();
        let chunk = chunks.iter().rev().find(|(at, bytes)| (*at..*at + bytes.len() as u64).contains(&offset));
        chunk.map(|(at, bytes)| bytes.slice((offset - at) as usize..))
    }
}

impl Blob for BucketBlob {
    fn size(&self) -> io::Result<u64> {
        Ok(self.length)
    }

    fn append(&self, _: &[u8]) -> io::Result<()> {
        read_only()
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        let bytes = match self.known(offset) {
            Some(bytes) => bytes,
            None => self.fetch(offset, into.len() as u64)?,
        };
        let count = bytes.len().min(into.len());
        into[..count].copy_from_slice(&bytes[..count]);
        Ok(count)
    }

    fn overwrite(&self, _: u64, _: &[u8]) -> io::Result<()> {
        read_only()
    }

    fn truncate(&self, _: u64) -> io::Result<()> {
        read_only()
    }

    fn sync(&self) -> io::Result<()> {
        read_only()
    }
}
