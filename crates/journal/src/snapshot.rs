//! Copies of a journal.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::files::{COLUMNS, is_columnar, segments_in};
use super::manifest::{JournalManifest, ManifestState};
use super::{DESCRIPTION_SUFFIX, JournalError, PIPELINE_SUFFIX, io_error, sync_directory};

/// Makes `target` a copy of a journal that nobody has open. See [`super::Journal::snapshot`].
pub fn snapshot(directory: &Path, target: &Path) -> Result<(), JournalError> {
    let (segments, manifest) = match directory.exists() {
        true => (segments_in(directory)?, JournalManifest::read(directory)?),
        false => (Vec::new(), ManifestState::Absent),
    };
    let segments = segments.into_iter().map(|(_, path)| (path, u64::MAX)).collect();
    let manifest = if let ManifestState::Sound(manifest) = manifest { Some(manifest) } else { None };
    snapshot_of(directory, segments, manifest, target)
}

/// Copies segments, of the newest so many bytes, and what says what their rows mean.
pub(super) fn snapshot_of(
    directory: &Path,
    mut segments: Vec<(PathBuf, u64)>,
    manifest: Option<JournalManifest>,
    target: &Path,
) -> Result<(), JournalError> {
    disk::create_directory(target).map_err(io_error(target))?;
    let mut copied: Vec<PathBuf> = segments.iter().map(|(path, _)| path.clone()).collect();
    let newest = segments.pop();
    let mut links: Vec<PathBuf> = segments.into_iter().map(|(path, _)| path).collect();
    if directory.exists() {
        for entry in fs::read_dir(directory).map_err(io_error(directory))? {
            let path = entry.map_err(io_error(directory))?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if name.ends_with(DESCRIPTION_SUFFIX) || name.ends_with(PIPELINE_SUFFIX) {
                links.push(path);
            }
        }
    }
    let to = |path: &Path| target.join(path.file_name().unwrap_or_default());
    let link = |path: &Path| match disk::link_or_copy(path, &to(path)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        linked => linked.map(|()| true).map_err(io_error(path)),
    };
    for path in links {
        // It has become columns meanwhile, or was too old to be kept.
        if !link(&path)? && (is_columnar(&path) || !link(&path.with_extension(COLUMNS))?) {
            copied.retain(|other| *other != path);
        }
    }
    if let Some((path, bytes)) = newest {
        match disk::copy(&path, &to(&path), bytes) {
            // It was closed meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                link(&path.with_extension(COLUMNS))?;
            }
            copied => copied.map_err(io_error(&path))?,
        }
    }
    if let Some(mut manifest) = manifest {
        manifest.keep(&copied);
        manifest.write(target)?;
    }
    sync_directory(target)
}
