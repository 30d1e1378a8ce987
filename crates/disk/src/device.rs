//! A flat directory of files that grow at their ends.
//!
//! Logs work on the [`Device`] trait so that tests can cut the power ([`crate::MemoryDevice`]). A device holds no meaning
//! and no cache.

use std::fmt::Debug;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Seek, SeekFrom, Write};
#[cfg(target_os = "linux")]
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::file;

/// A directory of files. A file's bytes are durable after [`Blob::sync`], its name (or the absence of a removed one) after
/// [`Device::sync_names`].
pub trait Device: Debug + Send + Sync {
    /// The names of all files, in any order.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Creates an empty file; an existing one of this name is an error.
    fn create(&self, name: &str) -> io::Result<Box<dyn Blob>>;
    /// Opens an existing file.
    fn open(&self, name: &str) -> io::Result<Box<dyn Blob>>;
    /// Removes a file; open handles may go on reading it.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Makes creations and removals durable.
    fn sync_names(&self) -> io::Result<()>;
    /// Gives a file these bytes, durably: whatever interrupts it, the file has them all or is what it was.
    fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()>;
    /// Gives a file that is written another name, in the place of any file of that name, durably.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Makes `to`, which must not exist, the same file or a copy of it: neither must ever change.
    fn link(&self, from: &str, to: &str) -> io::Result<()>;
    /// Makes the file `target` of the operating system, which must not exist, with the first bytes of a file, or with all of
    /// one that will never change and may be shared (as a hard link).
    fn export(&self, name: &str, bytes: Option<u64>, target: &Path) -> io::Result<()>;
    /// A file as messages call it.
    fn path(&self, name: &str) -> PathBuf {
        name.into()
    }
}

/// An open file.
pub trait Blob: Debug + Send + Sync {
    /// Its length in bytes.
    fn size(&self) -> io::Result<u64>;
    /// Adds bytes at the end. After an error any part of them may have been added.
    fn append(&self, bytes: &[u8]) -> io::Result<()>;
    /// Reads at `offset`; answers how many bytes were read, which may be fewer than fit. 0 is the end of the file.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize>;
    /// Puts bytes in the place of as many that are there. After an error any part of them may have been.
    fn overwrite(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Cuts the file to `size` bytes.
    fn truncate(&self, size: u64) -> io::Result<()>;
    /// Makes the bytes and the length durable.
    fn sync(&self) -> io::Result<()>;
}

/// Returns true if a failed write, or a failed attempt to create or open a file, says that something is lacking for now
/// (room, descriptors, memory, or an interrupted call): it is tried again, and what was written of it is taken back first.
/// All other errors are the medium's, and whether what was written is there nobody knows then. A sync that fails is the
/// medium's failure, whatever its error says.
pub fn is_lack(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, Interrupted, OutOfMemory, QuotaExceeded, StorageFull, WouldBlock};
    use rustix::io::Errno;
    let kind = matches!(
        error.kind(),
        StorageFull | QuotaExceeded | FileTooLarge | OutOfMemory | Interrupted | WouldBlock
    );
    let descriptors = [Errno::MFILE, Errno::NFILE].map(Errno::raw_os_error);
    kind || error.raw_os_error().is_some_and(|number| descriptors.contains(&number))
}

/// An error of a sync, which is never a mere lack ([`is_lack`]).
pub fn sync_error(error: io::Error) -> io::Error {
    io::Error::other(error)
}

/// Reads from `offset` until `into` is full or the file ends; answers how many bytes were read.
pub fn read_full<B: Blob + ?Sized>(blob: &B, offset: u64, into: &mut [u8]) -> io::Result<usize> {
    let mut done = 0;
    while done < into.len() {
        match blob.read_at(offset.saturating_add(done as u64), &mut into[done..]) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// The bytes of a file, or so many of the first.
pub fn read_all(blob: &dyn Blob, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; blob.size()?.min(bytes_max) as usize];
    let count = read_full(blob, 0, &mut bytes)?;
    bytes.truncate(count);
    Ok(bytes)
}

/// Removes a file, if it is there.
pub fn remove_if_there(device: &dyn Device, name: &str) -> io::Result<()> {
    match device.remove(name) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Makes an empty file, in the place of any that is there.
pub fn create_anew(device: &dyn Device, name: &str) -> io::Result<Box<dyn Blob>> {
    remove_if_there(device, name)?;
    device.create(name)
}

/// Makes `target`, a directory that is missing or empty, with files of the same names and bytes, durably. Files of `link`
/// will never change and may be shared, those of `copy` may not.
pub fn export(device: &dyn Device, link: &[String], copy: &[String], target: &Path) -> io::Result<()> {
    file::create_directories(target)?;
    if fs::read_dir(target)?.next().is_some() {
        let why = format!("{} is not empty", target.display());
        return Err(io::Error::new(ErrorKind::DirectoryNotEmpty, why));
    }
    link.iter().try_for_each(|name| device.export(name, None, &target.join(name)))?;
    copy.iter().try_for_each(|name| device.export(name, Some(u64::MAX), &target.join(name)))?;
    file::sync_directory(target)?;
    file::sync_parent(target)
}

/// A directory of the operating system.
#[derive(Debug)]
pub struct FileDevice {
    directory: PathBuf,
    /// Open all the time, so that names can be synced when no descriptor is left.
    names: Option<File>,
    /// Held against other processes for as long as the value lives.
    _lock: Option<File>,
}

impl FileDevice {
    const LOCK: &'static str = "LOCK";

    /// Opens the directory, creating it where it is missing, and locks it against other processes.
    ///
    /// # Errors
    /// Names the path; [`io::ErrorKind::WouldBlock`] if another process has it open.
    pub fn open(directory: impl Into<PathBuf>) -> io::Result<FileDevice> {
        let device = FileDevice::unlocked(directory)?;
        let directory = &device.directory;
        let named = |error: io::Error| named(directory, error);
        let path = directory.join(FileDevice::LOCK);
        let lock = file::private().create(true).append(true).open(&path).map_err(named)?;
        match lock.try_lock() {
            Ok(()) => {
                file::sync_parent(directory).map_err(named)?;
                Ok(FileDevice { _lock: Some(lock), ..device })
            }
            Err(TryLockError::WouldBlock) => {
                let why = format!(
                    "{} is in use by another process (it holds the lock on {})",
                    directory.display(),
                    path.display()
                );
                Err(io::Error::new(ErrorKind::WouldBlock, why))
            }
            Err(TryLockError::Error(error)) => Err(named(error)),
        }
    }

    /// Opens a directory that another lock guards, creating it where it is missing.
    ///
    /// # Errors
    /// Names the path.
    pub fn unlocked(directory: impl Into<PathBuf>) -> io::Result<FileDevice> {
        let directory = directory.into();
        let opened = file::create_directories(&directory).and_then(|()| File::open(&directory));
        match opened {
            Ok(names) => Ok(FileDevice { directory, names: Some(names), _lock: None }),
            Err(error) => Err(named(&directory, error)),
        }
    }

    /// A directory whose files are only read, beside whoever writes them. It may be missing.
    pub fn read_only(directory: impl Into<PathBuf>) -> FileDevice {
        FileDevice { directory: directory.into(), names: None, _lock: None }
    }
}

/// An error that names a directory.
fn named(directory: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", directory.display()))
}

impl Device for FileDevice {
    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.directory)? {
            if let Ok(name) = entry?.file_name().into_string() {
                names.push(name);
            }
        }
        Ok(names)
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn Blob>> {
        let file = file::private().read(true).write(true).create_new(true).open(self.path(name))?;
        Ok(FileBlob::boxed(file))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn Blob>> {
        let is_written = self.names.is_some();
        let mut file = OpenOptions::new().read(true).write(is_written).open(self.path(name))?;
        if is_written {
            file.seek(SeekFrom::End(0))?;
        }
        Ok(FileBlob::boxed(file))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path(name))
    }

    fn sync_names(&self) -> io::Result<()> {
        match &self.names {
            Some(names) => names.sync_all(),
            None => file::sync_directory(&self.directory),
        }
    }

    fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        file::replace(&self.path(name), bytes)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        file::place(&self.path(from), &self.path(to))
    }

    fn link(&self, from: &str, to: &str) -> io::Result<()> {
        file::link_or_copy(&self.path(from), &self.path(to))
    }

    fn export(&self, name: &str, bytes: Option<u64>, target: &Path) -> io::Result<()> {
        match bytes {
            // Another file system, or one without hard links, has to copy.
            None => file::link_or_copy(&self.path(name), target),
            Some(bytes) => file::copy(&self.path(name), target, bytes),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }
}

/// A file whose position is its end, unless it is only read.
#[derive(Debug)]
struct FileBlob {
    file: File,
    /// Bytes appended that the system was not asked to write yet.
    lazy: AtomicU64,
}

impl FileBlob {
    /// The system is asked to begin writing whenever so much was appended, so that a sync finds little left to do.
    const EAGER_BYTES: u64 = 4 << 20;

    fn boxed(file: File) -> Box<dyn Blob> {
        Box::new(FileBlob { file, lazy: AtomicU64::new(0) })
    }
}

/// Asks the system to write the end of a file soon. It waits for nothing, and its failure means nothing.
#[cfg(target_os = "linux")]
fn write_soon(file: &File, bytes: u64) {
    use rustix::fs::{Advice, fadvise};
    let end = file.metadata().map_or(0, |metadata| metadata.len());
    // Of what is not written yet, this advice begins the writing, and drops nothing.
    let _ = fadvise(file, end.saturating_sub(bytes), NonZeroU64::new(bytes), Advice::DontNeed);
}

#[cfg(not(target_os = "linux"))]
fn write_soon(_: &File, _: u64) {}

impl Blob for FileBlob {
    fn size(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn append(&self, bytes: &[u8]) -> io::Result<()> {
        (&self.file).write_all(bytes)?;
        let lazy = self.lazy.fetch_add(bytes.len() as u64, Ordering::Relaxed) + bytes.len() as u64;
        if lazy >= FileBlob::EAGER_BYTES {
            self.lazy.store(0, Ordering::Relaxed);
            write_soon(&self.file, lazy);
        }
        Ok(())
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(into, offset)
    }

    fn overwrite(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    fn truncate(&self, size: u64) -> io::Result<()> {
        self.file.set_len(size)?;
        (&self.file).seek(SeekFrom::Start(size)).map(drop)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}
