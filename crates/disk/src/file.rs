//! Files and directories by their paths: private ones, and ones that are replaced as a whole.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Bits of a mode that let others in.
const OTHERS: u32 = 0o077;
/// A file of its owner.
const FILE: u32 = 0o600;
/// A directory of its owner.
const DIRECTORY: u32 = 0o700;

/// Options that make files which only their owner can read.
pub fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(FILE);
    options
}

/// Makes an empty file, in the place of any that is there, to be read and written.
pub fn create(path: &Path) -> io::Result<File> {
    remove(path)?;
    private().read(true).write(true).create_new(true).open(path)
}

/// Removes a file, if it is there.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Makes a directory that must not exist.
pub fn create_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(DIRECTORY).create(path)
}

/// Makes a directory, and those above it, as far as they are missing, and makes their names durable.
pub fn create_directories(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    DirBuilder::new().recursive(true).mode(DIRECTORY).create(path)?;
    sync_parent(path)
}

/// Puts bytes in the place of a file, or where there was none: a crash leaves the old ones or the new ones.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut draft = AtomicFile::of(path)?;
    draft.write_all(bytes)?;
    draft.commit().map(drop)
}

/// Gives a file or directory that is written another name, in the place of any file of that name, durably.
pub fn place(from: &Path, to: &Path) -> io::Result<()> {
    File::open(from)?.sync_all()?;
    fs::rename(from, to)?;
    sync_parent(to)
}

/// The bytes that stand before the checksum of a sealed text, and those behind it.
const SEAL: (&[u8], &[u8]) = (b"\n# crc32 ", b"\n");
/// Digits of the checksum.
const DIGITS: usize = 8;

/// Puts a text's checksum behind it, as a line of its own.
pub fn seal(text: &[u8]) -> Vec<u8> {
    let digits = format!("{:0DIGITS$x}", crc32fast::hash(text));
    [text, SEAL.0, digits.as_bytes(), SEAL.1].concat()
}

/// Returns a sealed text without its checksum; `None` if it is not as it was sealed.
pub fn unseal(bytes: &[u8]) -> Option<&[u8]> {
    let text = bytes.get(..bytes.len().checked_sub(SEAL.0.len() + DIGITS + SEAL.1.len())?)?;
    (seal(text) == bytes).then_some(text)
}

/// A file that is being written beside its place. It goes if it is dropped before it is placed.
#[derive(Debug)]
pub struct AtomicFile {
    file: File,
    half: TemporaryName,
    path: PathBuf,
    is_new: bool,
}

impl AtomicFile {
    /// The ending of a draft's name.
    pub const EXTENSION: &'static str = "half";

    /// A draft that will replace a file, if there is one.
    pub fn of(path: &Path) -> io::Result<AtomicFile> {
        let mut half = path.as_os_str().to_owned();
        half.push(".");
        half.push(AtomicFile::EXTENSION);
        let half = TemporaryName(half.into());
        Ok(AtomicFile { file: create(&half.0)?, half, path: path.to_path_buf(), is_new: false })
    }

    /// A draft of a file that must not exist, neither now nor when it is placed.
    pub fn of_new(path: &Path) -> io::Result<AtomicFile> {
        if path.symlink_metadata().is_ok() {
            return Err(ErrorKind::AlreadyExists.into());
        }
        Ok(AtomicFile { is_new: true, ..AtomicFile::of(path)? })
    }

    /// The file as it is by now.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Puts the file where it belongs, durably, and returns it.
    pub fn commit(self) -> io::Result<File> {
        let AtomicFile { file, half, path, is_new } = self;
        file.sync_all()?;
        if !is_new {
            fs::rename(&half.0, &path)?;
        } else if let Err(error) = fs::hard_link(&half.0, &path) {
            if error.kind() == ErrorKind::AlreadyExists || path.symlink_metadata().is_ok() {
                return Err(ErrorKind::AlreadyExists.into());
            }
            // Some file systems have no hard links.
            fs::rename(&half.0, &path)?;
        }
        sync_parent(&path)?;
        Ok(file)
    }
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// The name of a draft, which goes with it.
#[derive(Debug)]
struct TemporaryName(PathBuf);

impl Drop for TemporaryName {
    fn drop(&mut self) {
        // It has its own name by now, or is of no use.
        let _ = fs::remove_file(&self.0);
    }
}

/// Makes `to` the same file, if the file system can: it must never change again.
pub(crate) fn link_or_copy(from: &Path, to: &Path) -> io::Result<()> {
    match fs::hard_link(from, to) {
        Err(error) if error.kind() != ErrorKind::NotFound => copy(from, to, u64::MAX),
        linked => linked,
    }
}

/// Copies the first `bytes` of a file to a new one, durably.
pub fn copy(from: &Path, to: &Path, bytes: u64) -> io::Result<()> {
    let mut target = private().write(true).create_new(true).open(to)?;
    io::copy(&mut File::open(from)?.take(bytes), &mut target)?;
    target.sync_all()
}

/// Copies a directory of plain files to a new one, durably.
pub fn copy_flat(from: &Path, to: &Path) -> io::Result<()> {
    create_directory(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            copy(&entry.path(), &to.join(entry.file_name()), u64::MAX)?;
        }
    }
    sync_directory(to)
}

/// Makes the names in a directory durable.
pub fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Makes the name of a file or directory durable.
pub fn sync_parent(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    sync_directory(parent.unwrap_or(Path::new(".")))
}

/// Returns a file's mode if others than its owner can read or write it.
pub fn exposed(path: &Path) -> io::Result<Option<u32>> {
    let mode = fs::metadata(path)?.permissions().mode() & 0o777;
    Ok((mode & OTHERS != 0).then_some(mode))
}
