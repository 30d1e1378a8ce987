//! Copies of files, durably.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

/// Makes a directory that only its owner can read; it must not exist.
pub(crate) fn make_private(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().mode(0o700).create(path)
}

/// Makes `to` the same file, if the file system can: it must never change again.
pub(crate) fn link_or_copy(from: &Path, to: &Path) -> io::Result<()> {
    match fs::hard_link(from, to) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => copy(from, to, u64::MAX, None),
        linked => linked,
    }
}

/// Copies the first `bytes` of a file to a new one, with this mode or its own.
pub(crate) fn copy(from: &Path, to: &Path, bytes: u64, mode: Option<u32>) -> io::Result<()> {
    if bytes == u64::MAX && mode.is_none() {
        // The system may share the blocks.
        fs::copy(from, to)?;
        return OpenOptions::new().append(true).open(to)?.sync_all();
    }
    let mut source = File::open(from)?.take(bytes);
    let mut target = OpenOptions::new().write(true).create_new(true).mode(mode.unwrap_or(0o644)).open(to)?;
    io::copy(&mut source, &mut target)?;
    target.flush()?;
    target.sync_all()
}

/// Copies a directory of plain files.
pub(crate) fn copy_flat(from: &Path, to: &Path) -> io::Result<()> {
    make_private(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            copy(&entry.path(), &to.join(entry.file_name()), u64::MAX, None)?;
        }
    }
    sync_directory(to)
}

/// Makes the names in a directory durable.
pub(crate) fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Makes the name of a file or directory durable.
pub(crate) fn sync_parent(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    sync_directory(parent.unwrap_or(Path::new(".")))
}
