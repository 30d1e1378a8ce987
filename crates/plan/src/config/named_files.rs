//! Files that documents name, each bounded.

use std::collections::HashMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::file_stamps::FileStamps;
use super::problem::{ConfigOrigin, ConfigProblems, ConfigSource, SourceKind};

/// Largest file of a set, or of phrases, that is read.
pub(super) const LIST_BYTES_MAX: u64 = 64 << 20;

/// Largest file of grok patterns that is read.
pub(super) const GROK_BYTES_MAX: u64 = 1 << 20;

pub(super) fn not_in_a_directory(file: &str, origin: &ConfigOrigin, problems: &mut ConfigProblems) {
    let help = Some("this text is not in a directory".into());
    problems.add(origin, format!("`{file}` cannot be found"), help);
}

fn read_bytes(path: &Path, bytes_max: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(bytes_max + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        return Err(std::io::Error::other(format!("larger than {} MiB", bytes_max >> 20)));
    }
    Ok(bytes)
}

pub(super) fn read(
    path: &Path,
    named_at: Option<&ConfigOrigin>,
    bytes_max: u64,
    problems: &mut ConfigProblems,
) -> Arc<ConfigSource> {
    let name = path.display().to_string();
    let text = std::fs::metadata(path).and_then(|metadata| {
        if metadata.len() > bytes_max {
            return Err(std::io::Error::other(format!("larger than {} MiB", bytes_max >> 20)));
        }
        std::fs::read_to_string(path)
    });
    let (text, error) = match text {
        Ok(text) => (text, None),
        Err(error) => (String::new(), Some(error)),
    };
    let source = Arc::new(ConfigSource { kind: SourceKind::File, name, text });
    if let Some(error) = error {
        let here = ConfigOrigin { source: Arc::clone(&source), range: 0..0 };
        problems.add(named_at.unwrap_or(&here), format!("cannot read {}: {error}", source.name), None);
    }
    source
}

/// Reads the files that a document names, relative to its own directory.
pub(super) struct NamedFiles<'a> {
    directory: Option<&'a Path>,
    files: &'a mut FileStamps,
    problems: &'a mut ConfigProblems,
    /// The texts that were read, by key.
    pub(super) lists: HashMap<String, Arc<ConfigSource>>,
    /// The bytes that were read, by key.
    pub(super) models: HashMap<String, Vec<u8>>,
}

impl<'a> NamedFiles<'a> {
    pub(super) fn new(
        directory: Option<&'a Path>,
        files: &'a mut FileStamps,
        problems: &'a mut ConfigProblems,
    ) -> NamedFiles<'a> {
        NamedFiles { directory, files, problems, lists: HashMap::new(), models: HashMap::new() }
    }

    pub(super) fn read_text(&mut self, key: String, file: &str, origin: &ConfigOrigin, bytes_max: u64) {
        let Some(path) = self.path(file, origin) else { return };
        self.lists.insert(key, read(&path, Some(origin), bytes_max, self.problems));
    }

    pub(super) fn read_bytes(&mut self, key: String, file: &str, origin: &ConfigOrigin, bytes_max: u64) {
        let Some(path) = self.path(file, origin) else { return };
        match read_bytes(&path, bytes_max) {
            Ok(bytes) => _ = self.models.insert(key, bytes),
            Err(error) => self.problems.add(origin, format!("cannot read {}: {error}", path.display()), None),
        }
    }

    /// The path of a file, whose changes are noticed from now on.
    fn path(&mut self, file: &str, origin: &ConfigOrigin) -> Option<PathBuf> {
        let Some(directory) = self.directory else {
            not_in_a_directory(file, origin, self.problems);
            return None;
        };
        let path = directory.join(file);
        self.files.add(&path);
        Some(path)
    }
}
