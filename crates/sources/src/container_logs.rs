//! Logs of Docker's containers by the containers' names, which stand in a file beside each log.
//!
//! ```text
//! /var/lib/docker/containers/ID/config.v2.json   {"Name":"/web-1",...}
//!                               ID-json.log      what the container writes (`json-file`)
//! ```
//!
//! Files are read again when they change: containers come, go, and are renamed.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::Deserialize;

use crate::path_pattern::{PathPattern, PathPatternError, is_match};

/// The folder in which Docker keeps containers.
pub const DOCKER_FOLDER: &str = "/var/lib/docker/containers";
/// Most names of a selection.
pub const NAMES_MAX: usize = 100;
/// The file that names a container.
const DESCRIPTION: &str = "config.v2.json";
/// Most bytes of such a file.
const DESCRIPTION_BYTES_MAX: u64 = 4 << 20;
/// Most containers that are looked at.
const CONTAINERS_MAX: usize = 20_000;

/// The choice of containers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerSelection {
    folder: PathBuf,
    /// Patterns of names; all containers, if there are none.
    names: Vec<PathPattern>,
}

impl ContainerSelection {
    /// Selects containers in a folder by names, in which wildcards may stand.
    ///
    /// # Errors
    /// If a name is none.
    pub fn new(folder: &Path, names: &[&str]) -> Result<ContainerSelection, PathPatternError> {
        let pattern = |name: &&str| PathPattern::of_name(name.strip_prefix('/').unwrap_or(name));
        let names = names.iter().map(pattern).collect::<Result<_, _>>()?;
        Ok(ContainerSelection { folder: folder.to_owned(), names })
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The names, as they were written.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(PathPattern::as_str)
    }

    fn wants(&self, name: &str) -> bool {
        let is_of = |pattern: &PathPattern| is_match(pattern.as_str().as_bytes(), name.as_bytes());
        self.names.is_empty() || self.names.iter().any(is_of)
    }
}

/// A container as it was described when that was last read.
#[derive(Debug)]
struct KnownContainer {
    /// The time and length of its description.
    stamp: (Option<SystemTime>, u64),
    name: Option<String>,
}

/// The part of a description that names a container.
#[derive(Deserialize)]
struct ContainerDescription {
    #[serde(rename = "Name")]
    name: String,
}

/// The logs of selected containers.
#[derive(Debug)]
pub(crate) struct ContainerLogs {
    selection: ContainerSelection,
    known: BTreeMap<PathBuf, KnownContainer>,
}

impl ContainerLogs {
    pub(crate) fn new(selection: ContainerSelection) -> ContainerLogs {
        ContainerLogs { selection, known: BTreeMap::new() }
    }

    /// The folder of the containers.
    pub(crate) fn folder(&self) -> &Path {
        &self.selection.folder
    }

    /// Returns the paths of the logs that there are, sorted, at most so many; and of the first description that cannot be read, why.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub(crate) fn expand(&mut self, max: usize) -> io::Result<(Vec<PathBuf>, Option<String>)> {
        let (mut logs, mut problem) = (Vec::new(), None);
        let mut known = BTreeMap::new();
        for entry in fs::read_dir(&self.selection.folder)?.flatten().take(CONTAINERS_MAX) {
            let folder = entry.path();
            let Some(id) = folder.file_name().and_then(|id| id.to_str()) else { continue };
            let (description, log) = (folder.join(DESCRIPTION), folder.join(format!("{id}-json.log")));
            // One that is being made or removed has no description.
            let Ok(metadata) = fs::metadata(&description) else { continue };
            let stamp = (metadata.modified().ok(), metadata.len());
            let before = self.known.remove(&folder).filter(|known| known.stamp == stamp);
            let container = before.or_else(|| match name(&description) {
                Ok(name) => Some(KnownContainer { stamp, name: Some(name) }),
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                Err(error) => {
                    problem.get_or_insert_with(|| format!("{}: {error}", description.display()));
                    None
                }
            });
            let Some(container) = container else { continue };
            if container.name.as_deref().is_some_and(|name| self.selection.wants(name)) && log.is_file() {
                logs.push(log);
            }
            known.insert(folder, container);
        }
        self.known = known;
        logs.sort_unstable();
        logs.truncate(max);
        Ok((logs, problem))
    }
}

/// The name in a container's description, without the slash in front.
fn name(description: &Path) -> io::Result<String> {
    let mut text = Vec::new();
    File::open(description)?.take(DESCRIPTION_BYTES_MAX).read_to_end(&mut text)?;
    let read: ContainerDescription = serde_json::from_slice(&text)?;
    Ok(read.name.strip_prefix('/').map(str::to_owned).unwrap_or(read.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn describe(folder: &Path, id: &str, description: &str) {
        fs::create_dir_all(folder.join(id)).unwrap();
        fs::write(folder.join(id).join(DESCRIPTION), description).unwrap();
        fs::write(folder.join(id).join(format!("{id}-json.log")), "").unwrap();
    }

    #[test]
    fn containers_are_found_by_name_as_they_come_and_go() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let named = |name: &str| format!("{{\"ID\":\"x\",\"Name\":\"/{name}\",\"State\":{{}}}}");
        describe(folder, "a1", &named("web-1"));
        describe(folder, "b2", &named("db"));
        describe(folder, "c3", "{}");
        fs::create_dir(folder.join("d4")).unwrap();
        let mut logs = ContainerLogs::new(ContainerSelection::new(folder, &["web*", "/shop_?"]).unwrap());
        let check = |logs: &mut ContainerLogs, expected: &[&str], is_well: bool| {
            let (found, problem) = logs.expand(9).unwrap();
            let expected: Vec<_> =
                expected.iter().map(|id| folder.join(id).join(format!("{id}-json.log"))).collect();
            assert_eq!((found, problem.is_none()), (expected, is_well), "{problem:?}");
        };
        check(&mut logs, &["a1"], false);
        fs::remove_dir_all(folder.join("c3")).unwrap();
        check(&mut logs, &["a1"], true);
        describe(folder, "e5", &named("shop_1"));
        describe(folder, "b2", &named("website"));
        check(&mut logs, &["a1", "b2", "e5"], true);
        describe(folder, "a1", &named("other-name"));
        fs::remove_dir_all(folder.join("b2")).unwrap();
        check(&mut logs, &["e5"], true);
        assert_eq!(logs.known.len(), 2);
        let all = ContainerSelection::new(folder, &[]).unwrap();
        check(&mut ContainerLogs::new(all.clone()), &["a1", "e5"], true);
        assert_eq!(ContainerLogs::new(all).expand(1).unwrap().0.len(), 1);
        let nowhere = ContainerSelection::new(&folder.join("nowhere"), &[]).unwrap();
        assert!(ContainerLogs::new(nowhere).expand(9).is_err());
        for wrong in ["", "/", "a/b", "a[", "**"] {
            assert!(ContainerSelection::new(folder, &[wrong]).is_err(), "{wrong}");
        }
    }
}
