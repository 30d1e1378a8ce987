//! A device in memory whose power can be cut: it knows which bytes and names were synced, gives images of what a
//! crash may leave, and fails on demand. For tests and for throw-away stores.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::device::{Blob, Device};

/// A directory in memory. Clones share it, and its faults.
#[derive(Clone, Debug, Default)]
pub struct MemoryDevice(Arc<Mutex<MemoryDeviceState>>);

#[derive(Debug, Default)]
struct MemoryDeviceState {
    files: MemoryFiles,
    /// The files that a crash would find by name: those that `sync_names` saw last.
    durable: MemoryFiles,
    faults: Arc<Mutex<InjectedFaults>>,
}

type MemoryFiles = BTreeMap<String, Arc<Mutex<MemoryFile>>>;

#[derive(Debug, Default)]
struct InjectedFaults {
    /// Changes (append, truncate, create, remove, sync) that still succeed; `None` for all of them.
    successes: Option<u64>,
    /// Bytes that all files together may have.
    capacity: Option<u64>,
    /// Bytes that they have, removed ones left out.
    used: u64,
    /// Most bytes that one read answers.
    read_bytes_max: Option<usize>,
    sync_fails: bool,
    /// The error number with which files are neither created nor opened.
    lack: Option<i32>,
}

impl InjectedFaults {
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

    fn take_handle(&self) -> io::Result<()> {
        self.lack.map_or(Ok(()), |number| Err(io::Error::from_raw_os_error(number)))
    }

    fn take_sync(&mut self) -> io::Result<()> {
        self.take()?;
        if self.sync_fails { Err(io::Error::other("injected failure of a sync")) } else { Ok(()) }
    }
}

#[derive(Debug, Default)]
struct MemoryFile {
    bytes: Vec<u8>,
    synced: Vec<u8>,
    removed: bool,
}

impl MemoryFile {
    fn settled(bytes: Vec<u8>) -> Arc<Mutex<MemoryFile>> {
        Arc::new(Mutex::new(MemoryFile { synced: bytes.clone(), bytes, removed: false }))
    }
}

impl MemoryDevice {
    /// An empty directory.
    pub fn new() -> MemoryDevice {
        MemoryDevice::default()
    }

    fn settled(files: BTreeMap<String, Vec<u8>>) -> MemoryDevice {
        let device = MemoryDevice::new();
        for (name, bytes) in files {
            device.write(&name, &bytes);
        }
        device
    }

    /// Lets `successes` more changes through, then fails every one; a failing append leaves half its bytes.
    pub fn fail_after(&self, successes: u64) {
        self.faults(|faults| faults.successes = Some(successes));
    }

    /// Ends [`MemoryDevice::fail_after`].
    pub fn heal(&self) {
        self.faults(|faults| faults.successes = None);
    }

    /// Lets all files together have so many bytes: an append of more leaves what still fits and fails with
    /// [`io::ErrorKind::StorageFull`]. `None` for no limit.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.faults(|faults| faults.capacity = bytes);
    }

    /// Bytes of all files.
    pub fn used(&self) -> u64 {
        let mut used = 0;
        self.faults(|faults| used = faults.used);
        used
    }

    /// Makes each read answer at most so many bytes, at least one.
    pub fn set_read_bytes_max(&self, bytes: Option<usize>) {
        self.faults(|faults| faults.read_bytes_max = bytes.map(|bytes| bytes.max(1)));
    }

    /// Makes every sync fail, of bytes and of names, and leaves what is durable as it was.
    pub fn set_sync_fails(&self, fails: bool) {
        self.faults(|faults| faults.sync_fails = fails);
    }

    /// Makes every creation and opening of a file fail with this error number of the system; with `None` no more.
    pub fn set_lack(&self, number: Option<i32>) {
        self.faults(|faults| faults.lack = number);
    }

    /// Flips the bits of `mask` in a byte, as rot would: durably. Nothing happens if there is no such byte.
    pub fn flip(&self, name: &str, offset: usize, mask: u8) {
        if let Some(content) = self.0.lock().files.get(name) {
            let MemoryFile { bytes, synced, .. } = &mut *content.lock();
            for byte in [bytes.get_mut(offset), synced.get_mut(offset)].into_iter().flatten() {
                *byte ^= mask;
            }
        }
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
        let state = self.0.lock();
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
            let content = found.lock();
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
            files.insert(name.clone(), bytes);
        }
        MemoryDevice::settled(files)
    }

    /// A directory as a crash may leave it in which every file keeps exactly `kept` bytes, or all there are, of
    /// what was not synced. All present names are there.
    pub fn torn(&self, kept: usize) -> MemoryDevice {
        let state = self.0.lock();
        let torn = |content: &Mutex<MemoryFile>| {
            let MemoryFile { bytes, synced, .. } = &*content.lock();
            let shared = bytes.iter().zip(synced).take_while(|(now, before)| now == before).count();
            let mut torn = synced.clone();
            if shared == synced.len() {
                torn.extend_from_slice(&bytes[shared..bytes.len().min(shared.saturating_add(kept))]);
            }
            torn
        };
        MemoryDevice::settled(state.files.iter().map(|(name, file)| (name.clone(), torn(file))).collect())
    }

    /// The bytes of a file.
    pub fn read(&self, name: &str) -> Option<Vec<u8>> {
        self.0.lock().files.get(name).map(|content| content.lock().bytes.clone())
    }

    /// Sets a file's bytes as if they had always been there.
    pub fn write(&self, name: &str, bytes: &[u8]) {
        let content = MemoryFile::settled(bytes.to_vec());
        let mut state = self.0.lock();
        let before = state.files.insert(name.to_owned(), content.clone()).map_or(0, |old| retire(&old));
        state.durable.insert(name.to_owned(), content);
        let mut faults = state.faults.lock();
        faults.used = faults.used.saturating_sub(before) + bytes.len() as u64;
    }

    /// Checks whether a file of so many bytes can be written as a whole now.
    fn take_whole(&self, bytes: usize) -> io::Result<()> {
        let state = self.0.lock();
        let mut faults = state.faults.lock();
        faults.take_handle()?;
        faults.take_sync()?;
        let room = faults.capacity.map_or(u64::MAX, |capacity| capacity.saturating_sub(faults.used));
        if room < bytes as u64 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    fn faults(&self, change: impl FnOnce(&mut InjectedFaults)) {
        change(&mut self.0.lock().faults.lock());
    }
}

/// Marks a file as removed; answers the bytes that it no longer takes.
fn retire(content: &Mutex<MemoryFile>) -> u64 {
    let mut content = content.lock();
    content.removed = true;
    content.bytes.len() as u64
}

impl Device for MemoryDevice {
    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.0.lock().files.keys().cloned().collect())
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn Blob>> {
        let mut state = self.0.lock();
        {
            let mut faults = state.faults.lock();
            faults.take_handle()?;
            faults.take()?;
        }
        if state.files.contains_key(name) {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, name.to_owned()));
        }
        let content = Arc::new(Mutex::new(MemoryFile::default()));
        state.files.insert(name.to_owned(), content.clone());
        Ok(Box::new(MemoryBlob { content, faults: state.faults.clone() }))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn Blob>> {
        let state = self.0.lock();
        state.faults.lock().take_handle()?;
        let content = state.files.get(name).ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?.clone();
        Ok(Box::new(MemoryBlob { content, faults: state.faults.clone() }))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.0.lock();
        state.faults.lock().take()?;
        let content = state.files.remove(name).ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        let bytes = retire(&content);
        let mut faults = state.faults.lock();
        faults.used = faults.used.saturating_sub(bytes);
        Ok(())
    }

    fn sync_names(&self) -> io::Result<()> {
        let mut state = self.0.lock();
        state.faults.lock().take_sync()?;
        state.durable = state.files.clone();
        Ok(())
    }

    fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.take_whole(bytes.len())?;
        self.write(name, bytes);
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.take_whole(0)?;
        let bytes = self.read(from).ok_or(io::ErrorKind::NotFound)?;
        self.write(to, &bytes);
        let mut state = self.0.lock();
        state.durable.remove(from);
        if let Some(old) = state.files.remove(from) {
            let bytes = retire(&old);
            let mut faults = state.faults.lock();
            faults.used = faults.used.saturating_sub(bytes);
        }
        Ok(())
    }

    fn link(&self, from: &str, to: &str) -> io::Result<()> {
        let bytes = self.read(from).ok_or(io::ErrorKind::NotFound)?;
        if self.read(to).is_some() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.replace(to, &bytes)
    }

    /// Writes an ordinary file, which is not synced.
    fn export(&self, name: &str, bytes: Option<u64>, target: &Path) -> io::Result<()> {
        let mut content = self.read(name).ok_or(io::ErrorKind::NotFound)?;
        content.truncate(bytes.map_or(usize::MAX, |bytes| bytes as usize));
        std::fs::write(target, content)
    }
}

/// The locks are taken in the order faults, content.
#[derive(Debug)]
struct MemoryBlob {
    content: Arc<Mutex<MemoryFile>>,
    faults: Arc<Mutex<InjectedFaults>>,
}

impl Blob for MemoryBlob {
    fn size(&self) -> io::Result<u64> {
        Ok(self.content.lock().bytes.len() as u64)
    }

    fn append(&self, bytes: &[u8]) -> io::Result<()> {
        let mut faults = self.faults.lock();
        let mut content = self.content.lock();
        let mut done = faults.take();
        let mut added = if done.is_ok() { bytes } else { &bytes[..bytes.len() / 2] };
        let room = faults.capacity.map_or(u64::MAX, |capacity| capacity.saturating_sub(faults.used));
        if room < added.len() as u64 {
            added = &added[..room as usize];
            done = done.and(Err(io::Error::from(io::ErrorKind::StorageFull)));
        }
        content.bytes.extend_from_slice(added);
        if !content.removed {
            faults.used += added.len() as u64;
        }
        done
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        let most = self.faults.lock().read_bytes_max.unwrap_or(usize::MAX);
        let content = self.content.lock();
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(content.bytes.len());
        let count = into.len().min(content.bytes.len() - from).min(most);
        into[..count].copy_from_slice(&content.bytes[from..from + count]);
        Ok(count)
    }

    fn overwrite(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.faults.lock().take()?;
        let mut content = self.content.lock();
        let place = usize::try_from(offset)
            .ok()
            .and_then(|from| content.bytes.get_mut(from..)?.get_mut(..bytes.len()));
        place.ok_or(io::ErrorKind::UnexpectedEof)?.copy_from_slice(bytes);
        Ok(())
    }

    fn truncate(&self, size: u64) -> io::Result<()> {
        let mut faults = self.faults.lock();
        faults.take()?;
        let mut content = self.content.lock();
        let before = content.bytes.len();
        content.bytes.truncate(usize::try_from(size).unwrap_or(usize::MAX));
        if !content.removed {
            faults.used = faults.used.saturating_sub((before - content.bytes.len()) as u64);
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.faults.lock().take_sync()?;
        let mut content = self.content.lock();
        let MemoryFile { bytes, synced, .. } = &mut *content;
        if bytes.starts_with(synced) {
            synced.extend_from_slice(&bytes[synced.len()..]);
        } else {
            synced.clone_from(bytes);
        }
        Ok(())
    }
}
