//! Where segments lie: a flat directory of append-only files.
//!
//! The store works on the [`Device`] trait so that tests can cut the power ([`crate::MemoryDevice`]). A device
//! holds no meaning and no cache; all it adds to a directory is a lock against a second process.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
#[cfg(target_os = "linux")]
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// A directory of append-only files. A file's bytes are durable after [`Blob::sync`], its name (or the absence of
/// a removed one) after [`Device::sync_names`].
pub trait Device: Send + Sync {
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
    /// Makes the directory `target` with files of the same names and bytes, durably. Files of `link` will never
    /// change and may be shared (as hard links), those of `copy` may not. `target` must be missing or empty.
    fn export(&self, link: &[String], copy: &[String], target: &Path) -> io::Result<()>;
}

/// An open append-only file.
pub trait Blob: Send + Sync {
    /// Its length in bytes.
    fn size(&self) -> io::Result<u64>;
    /// Adds bytes at the end. After an error any part of them may have been added.
    fn append(&self, bytes: &[u8]) -> io::Result<()>;
    /// Reads at `offset`; answers how many bytes were read, which may be fewer than fit. 0 is the end of the file.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize>;
    /// Cuts the file to `size` bytes.
    fn truncate(&self, size: u64) -> io::Result<()>;
    /// Makes the bytes and the length durable.
    fn sync(&self) -> io::Result<()>;
}

/// Whether a failed write, or a failed attempt to create or open a file, says that something is lacking for now (room,
/// descriptors, memory, or an interrupted call): it is tried again, and what was written of it is taken back first. All
/// other errors are the medium's, and whether what was written is there nobody knows then. A sync that fails is the
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
pub(crate) fn read_full(blob: &dyn Blob, offset: u64, into: &mut [u8]) -> io::Result<usize> {
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

/// Makes `target` for [`Device::export`].
pub(crate) fn create_empty(target: &Path) -> io::Result<()> {
    disk::create_directories(target)?;
    if fs::read_dir(target)?.next().is_some() {
        return Err(io::Error::new(
            io::ErrorKind::DirectoryNotEmpty,
            format!("{} is not empty", target.display()),
        ));
    }
    Ok(())
}

/// A directory of the operating system, locked against other processes for as long as the value lives.
#[derive(Debug)]
pub struct FileDevice {
    directory: PathBuf,
    /// Open all the time, so that names can be synced when no descriptor is left.
    names: File,
    _lock: File,
}

impl FileDevice {
    const LOCK: &'static str = "LOCK";

    /// Opens the directory, creating it where it is missing.
    ///
    /// # Errors
    /// Names the path; [`io::ErrorKind::WouldBlock`] if another process has it open.
    pub fn open(directory: impl Into<PathBuf>) -> io::Result<FileDevice> {
        let directory = directory.into();
        let named =
            |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", directory.display()));
        disk::create_directories(&directory).map_err(named)?;
        let path = directory.join(FileDevice::LOCK);
        let lock = disk::private().create(true).append(true).open(&path).map_err(named)?;
        match lock.try_lock() {
            Ok(()) => {
                disk::sync_parent(&directory).map_err(named)?;
                let names = File::open(&directory).map_err(named)?;
                Ok(FileDevice { directory, names, _lock: lock })
            }
            Err(TryLockError::WouldBlock) => Err(io::Error::new(
                io::ErrorKind::WouldBlock,
                format!(
                    "{} is in use by another process (it holds the lock on {})",
                    directory.display(),
                    path.display()
                ),
            )),
            Err(TryLockError::Error(error)) => Err(named(error)),
        }
    }
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
        let path = self.directory.join(name);
        let file = disk::private().read(true).append(true).create_new(true).open(path)?;
        Ok(FileBlob::boxed(file))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn Blob>> {
        Ok(FileBlob::boxed(OpenOptions::new().read(true).append(true).open(self.directory.join(name))?))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.directory.join(name))
    }

    fn sync_names(&self) -> io::Result<()> {
        self.names.sync_all()
    }

    fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        disk::replace(&self.directory.join(name), bytes)
    }

    fn export(&self, link: &[String], copy: &[String], target: &Path) -> io::Result<()> {
        create_empty(target)?;
        for name in link {
            let (from, to) = (self.directory.join(name), target.join(name));
            // Another file system, or one without hard links, has to copy.
            disk::link_or_copy(&from, &to)?;
        }
        for name in copy {
            disk::copy(&self.directory.join(name), &target.join(name), u64::MAX)?;
        }
        disk::sync_directory(target)?;
        disk::sync_parent(target)
    }
}

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
        read_some(&self.file, offset, into)
    }

    fn truncate(&self, size: u64) -> io::Result<()> {
        self.file.set_len(size)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}

#[cfg(unix)]
fn read_some(file: &File, offset: u64, into: &mut [u8]) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, into, offset)
}

#[cfg(windows)]
fn read_some(file: &File, offset: u64, into: &mut [u8]) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, into, offset)
}
