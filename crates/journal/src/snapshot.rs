//! Copies of a journal.

use std::io;
use std::path::Path;
use std::sync::Arc;

use disk::{Device, FileDevice};

use super::file::JournalFile;
use super::files::{COLUMNS, is_columnar, names_on, segments_on};
use super::manifest::JournalManifest;
use super::upload::NODE_FILE;
use super::{DESCRIPTION_SUFFIX, JournalError, PIPELINE_SUFFIX, io_error};

/// Makes `target` a copy of a journal that nobody has open. See [`super::Journal::snapshot`].
pub fn snapshot(directory: &Path, target: &Path) -> Result<(), JournalError> {
    let device: Arc<dyn Device> = Arc::new(FileDevice::read_only(directory));
    let segments = segments_on(&device)?.into_iter().map(|(_, file)| (file, u64::MAX)).collect();
    let manifest = JournalManifest::read(&*device)?.sound();
    snapshot_of(&device, segments, manifest, target)
}

/// Copies segments, of the newest so many bytes, and what says what their rows mean.
pub(super) fn snapshot_of(
    device: &Arc<dyn Device>,
    mut segments: Vec<(JournalFile, u64)>,
    manifest: Option<JournalManifest>,
    target: &Path,
) -> Result<(), JournalError> {
    disk::create_directory(target).map_err(io_error(target))?;
    let mut copied: Vec<JournalFile> = segments.iter().map(|(file, _)| file.clone()).collect();
    let newest = segments.pop();
    let mut links: Vec<JournalFile> = segments.into_iter().map(|(file, _)| file).collect();
    let mut names = names_on(&**device)?;
    // With its name, so that what a restored node uploads takes the place of what it has uploaded.
    names.retain(|name| {
        name.ends_with(DESCRIPTION_SUFFIX) || name.ends_with(PIPELINE_SUFFIX) || name == NODE_FILE
    });
    links.extend(names.into_iter().map(|name| JournalFile::new(device, name)));
    // Whether it was there.
    let export = |file: &JournalFile, bytes: Option<u64>| match device.export(
        file.name(),
        bytes,
        &target.join(file.name()),
    ) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        exported => exported.map(|()| true).map_err(|error| file.error(error)),
    };
    for file in links {
        // It has become columns meanwhile, or was too old to be kept.
        if !export(&file, None)? && (is_columnar(&file) || !export(&file.with_extension(COLUMNS), None)?) {
            copied.retain(|other| other.name() != file.name());
        }
    }
    if let Some((file, bytes)) = newest
        && !export(&file, Some(bytes))?
    {
        // It was closed meanwhile.
        export(&file.with_extension(COLUMNS), None)?;
    }
    if let Some(mut manifest) = manifest {
        manifest.keep(&copied);
        manifest.write(&FileDevice::unlocked(target).map_err(io_error(target))?)?;
    }
    disk::sync_directory(target).map_err(io_error(target))
}
