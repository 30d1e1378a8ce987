//! A device in memory whose power can be cut: it knows which bytes and names were synced, gives images of what a
//! crash may leave, and fails on demand. For tests and for throw-away stores.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::device::{Blob, Device};

/// A directory in memory. Clones share it.
#[derive(Clone, Default)]
pub struct MemoryDevice(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    files: BTreeMap<String, Arc<Mutex<Content>>>,
    /// What a crash would find by name: the files that `sync_names` saw last.
    durable: BTreeMap<String, Arc<Mutex<Content>>>,
    faults: Arc<Mutex<Faults>>,
}

#[derive(Default)]
struct Faults {
    /// Changes (append, truncate, create, remove, sync) that still succeed; `None` for all of them.
    successes: Option<u64>,
}

impl Faults {
    fn take(&mut self) -> io::Result<()> {
        match &mut self.successes {
            None => Ok(()),
            Some(0) => Err(io::Error::other("injected fault")),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
        }
    }
}

#[derive(Clone, Default)]
struct Content {
    bytes: Vec<u8>,
    synced: Vec<u8>,
}

impl MemoryDevice {
    /// An empty directory.
    pub fn new() -> MemoryDevice {
        MemoryDevice::default()
    }

    /// Lets `successes` more changes through, then fails every one; a failing append leaves half its bytes.
    pub fn fail_after(&self, successes: u64) {
        lock(&lock(&self.0).faults).successes = Some(successes);
    }

    /// Ends [`MemoryDevice::fail_after`].
    pub fn heal(&self) {
        lock(&lock(&self.0).faults).successes = None;
    }

    /// A directory as a crash at this moment may leave it, chosen by `seed`: what was synced is there; of what was
    /// not, each file keeps some prefix whose last 512-byte blocks may be blank, and names that were not synced may
    /// have appeared, disappeared or stayed.
    pub fn crash(&self, seed: u64) -> MemoryDevice {
        let mut random = seed;
        let mut draw = |below: usize| {
            // SplitMix64: a full-period generator in three lines, seeded by any number.
            random = random.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut mixed = (random ^ (random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((mixed ^ (mixed >> 31)) % below.max(1) as u64) as usize
        };
        let state = lock(&self.0);
        let mut names: Vec<&String> = state.files.keys().chain(state.durable.keys()).collect();
        names.sort();
        names.dedup();
        let mut files = BTreeMap::new();
        for name in names {
            let (now, before) = (state.files.get(name), state.durable.get(name));
            let found = match (now, before) {
                (Some(file), Some(_)) => file,
                (Some(file), None) | (None, Some(file)) if draw(2) == 0 => file,
                _ => continue,
            };
            let content = lock(found);
            let mut bytes = content.synced.clone();
            if content.bytes.starts_with(&content.synced) {
                let tail = &content.bytes[bytes.len()..];
                let kept = draw(tail.len() + 1);
                bytes.extend_from_slice(&tail[..kept]);
                if kept > 0 && draw(3) == 0 {
                    let from = (content.synced.len() + draw(kept)).next_multiple_of(512).min(bytes.len());
                    bytes[from..].fill(0);
                }
            } else if draw(2) == 0 {
                bytes.clone_from(&content.bytes);
            }
            files.insert(name.clone(), Arc::new(Mutex::new(Content { synced: bytes.clone(), bytes })));
        }
        MemoryDevice(Arc::new(Mutex::new(State { durable: files.clone(), files, ..State::default() })))
    }

    /// The bytes of a file.
    pub fn read(&self, name: &str) -> Option<Vec<u8>> {
        lock(&self.0).files.get(name).map(|content| lock(content).bytes.clone())
    }

    /// Sets a file's bytes as if they had always been there.
    pub fn write(&self, name: &str, bytes: &[u8]) {
        let content = Arc::new(Mutex::new(Content { bytes: bytes.to_vec(), synced: bytes.to_vec() }));
        let mut state = lock(&self.0);
        state.files.insert(name.to_owned(), content.clone());
        state.durable.insert(name.to_owned(), content);
    }
}

impl Device for MemoryDevice {
    fn list(&self) -> io::Result<Vec<String>> {
        Ok(lock(&self.0).files.keys().cloned().collect())
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn Blob>> {
        let mut state = lock(&self.0);
        lock(&state.faults).take()?;
        if state.files.contains_key(name) {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, name.to_owned()));
        }
        let content = Arc::new(Mutex::new(Content::default()));
        state.files.insert(name.to_owned(), content.clone());
        Ok(Box::new(MemoryBlob { content, faults: state.faults.clone() }))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn Blob>> {
        let state = lock(&self.0);
        let content = state.files.get(name).ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?.clone();
        Ok(Box::new(MemoryBlob { content, faults: state.faults.clone() }))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = lock(&self.0);
        lock(&state.faults).take()?;
        state.files.remove(name).map(|_| ()).ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
    }

    fn sync_names(&self) -> io::Result<()> {
        let mut state = lock(&self.0);
        lock(&state.faults).take()?;
        state.durable = state.files.clone();
        Ok(())
    }
}

struct MemoryBlob {
    content: Arc<Mutex<Content>>,
    faults: Arc<Mutex<Faults>>,
}

impl Blob for MemoryBlob {
    fn size(&self) -> io::Result<u64> {
        Ok(lock(&self.content).bytes.len() as u64)
    }

    fn append(&self, bytes: &[u8]) -> io::Result<()> {
        let allowed = lock(&self.faults).take();
        let added = if allowed.is_ok() { bytes } else { &bytes[..bytes.len() / 2] };
        lock(&self.content).bytes.extend_from_slice(added);
        allowed
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        let content = lock(&self.content);
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(content.bytes.len());
        let count = into.len().min(content.bytes.len() - from);
        into[..count].copy_from_slice(&content.bytes[from..from + count]);
        Ok(count)
    }

    fn truncate(&self, size: u64) -> io::Result<()> {
        lock(&self.faults).take()?;
        lock(&self.content).bytes.truncate(usize::try_from(size).unwrap_or(usize::MAX));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        lock(&self.faults).take()?;
        let mut content = lock(&self.content);
        let Content { bytes, synced } = &mut *content;
        if bytes.starts_with(synced) {
            synced.extend_from_slice(&bytes[synced.len()..]);
        } else {
            synced.clone_from(bytes);
        }
        Ok(())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
