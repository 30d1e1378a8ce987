//! Overlays of the configuration's files, and the earlier versions kept in the data directory.
//!
//! ```text
//! rules/state.json        what was posted, what was gone back to, candidates, the list of versions
//! rules/VERSION.toml      every setting of a version
//! rules/SHA256.file       the files of its sets and models, once however many versions have them
//! ```
//!
//! A file is written whole under another name and then renamed; the state, which names the others, comes last.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;
use event::Time;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::directory::{DirectoryError, io_error, read_sealed};
use crate::fleet::SharedState;
use plan::{CanaryScope, PipelineOverlay, PipelineOverlays, VersionSnapshot};

/// Largest state that is read.
const STATE_BYTES_MAX: u64 = 1 << 30;

/// The overlays of the files.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct RulesState {
    pub(super) pipelines: BTreeMap<String, PipelineRulesState>,
    /// The state that nodes share on which this one stands.
    #[serde(default)]
    pub(super) shared: SharedState,
}

/// The overlays of the files of one pipeline.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct PipelineRulesState {
    /// The text that was posted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) posted: Option<String>,
    /// The candidate that was posted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) candidate: Option<String>,
    /// The events for which the candidate decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) canary: Option<CanaryScope>,
    /// The version that was gone back to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) back: Option<PinnedVersion>,
    /// The versions that were in force, oldest first, each once.
    #[serde(default)]
    pub(super) versions: Vec<VersionEntry>,
}

/// A version that was gone back to, for as long as the files and what was posted stay as they were then.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct PinnedVersion {
    pub(super) version: String,
    /// The state of the files and of what was posted at that time.
    pub(super) over: String,
}

/// A version that can be gone back to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct VersionEntry {
    pub(super) version: String,
    /// The time at which it was last put in force, in microseconds; `None` at a start.
    pub(super) since: Option<i64>,
    /// The origin of the change.
    pub(super) by: String,
    /// The name of who made it, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) who: Option<String>,
    /// Digests of the files of its sets and models, by the names of those.
    #[serde(default)]
    sets: BTreeMap<String, String>,
    #[serde(default)]
    models: BTreeMap<String, String>,
}

/// The part of the overlays that nodes share: all but the versions that each of them keeps.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct SharedRules {
    pipelines: BTreeMap<String, PipelineRulesState>,
}

impl SharedRules {
    /// Returns what is to be shared of a node's overlays.
    pub(super) fn of(state: &RulesState) -> SharedRules {
        let bare = |it: &PipelineRulesState| PipelineRulesState { versions: Vec::new(), ..it.clone() };
        let pipelines = state.pipelines.iter().map(|(name, it)| (name.clone(), bare(it)));
        SharedRules { pipelines: pipelines.collect() }
    }
}

impl RulesState {
    /// Takes over what nodes share, of the pipelines that this node has.
    pub(super) fn adopt(&mut self, state: &SharedState, shared: &SharedRules, has: impl Fn(&str) -> bool) {
        self.shared = state.clone();
        let none = PipelineRulesState::default();
        let names = self.pipelines.keys().chain(shared.pipelines.keys()).filter(|name| has(name));
        let names: BTreeSet<String> = names.cloned().collect();
        for name in names {
            let PipelineRulesState { posted, candidate, canary, back, .. } =
                shared.pipelines.get(&name).unwrap_or(&none).clone();
            let own = self.pipelines.entry(name).or_default();
            (own.posted, own.candidate, own.canary, own.back) = (posted, candidate, canary, back);
        }
    }

    /// Returns the overlays of the files; `read` gives a version that was gone back to.
    pub(super) fn layers<E>(
        &self,
        mut read: impl FnMut(&str, &PinnedVersion) -> Result<Option<VersionSnapshot>, E>,
    ) -> Result<PipelineOverlays, E> {
        let mut layers = PipelineOverlays::default();
        for (pipeline, standing) in &self.pipelines {
            let kept = match &standing.back {
                Some(back) => read(pipeline, back)?,
                None => None,
            };
            let PipelineRulesState { posted, candidate, canary, .. } = standing.clone();
            layers.of.insert(pipeline.clone(), PipelineOverlay { posted, candidate, canary, kept });
        }
        Ok(layers)
    }

    /// Notes that a version is in force, and forgets the oldest beyond so many.
    pub(super) fn note(&mut self, pipeline: &str, version: VersionEntry, keep: usize) {
        let standing = self.pipelines.entry(pipeline.to_owned()).or_default();
        standing.versions.retain(|other| other.version != version.version);
        standing.versions.push(version);
        let surplus = standing.versions.len().saturating_sub(keep);
        standing.versions.drain(..surplus);
    }

    /// Notes that a version decides for a part of the events, behind the one that is in force.
    pub(super) fn note_canary(&mut self, pipeline: &str, version: VersionEntry, keep: usize) {
        let standing = self.pipelines.entry(pipeline.to_owned()).or_default();
        let newest = standing.versions.pop();
        self.note(pipeline, version, keep);
        if let Some(newest) = newest {
            self.note(pipeline, newest, keep);
        }
    }

    /// Goes on without versions that were gone back to and cannot be read; says which.
    pub(super) fn let_go_of_unreadable(&mut self, history: &VersionHistory) -> Vec<String> {
        let mut told = Vec::new();
        for (pipeline, standing) in &mut self.pipelines {
            let Some(PinnedVersion { version, .. }) = &standing.back else { continue };
            let why = match standing.versions.iter().find(|kept| kept.version == *version) {
                Some(kept) => history.read(kept).err().map(|error| error.to_string()),
                None => Some("it is not in the list of versions".to_owned()),
            };
            if let Some(why) = why {
                told.push(format!(
                    "version {version} of `{pipeline}`, which was gone back to, cannot be had ({why}): what the files and \
                     what was posted say is in force instead"
                ));
                standing.back = None;
            }
        }
        told
    }

    pub(super) fn standing(&self, pipeline: &str) -> Option<&PipelineRulesState> {
        self.pipelines.get(pipeline)
    }
}

impl VersionEntry {
    /// Time as it is told.
    pub(super) fn since(&self) -> Option<Time> {
        self.since.map(Time)
    }
}

/// The name of a kept file: its content's digest.
fn digest(bytes: &[u8]) -> String {
    HEXLOWER.encode(&Sha256::digest(bytes))
}

/// The place where all that is kept.
#[derive(Debug)]
pub(crate) struct VersionHistory {
    path: PathBuf,
}

impl VersionHistory {
    pub(super) fn new(path: PathBuf) -> VersionHistory {
        VersionHistory { path }
    }

    fn state_path(&self) -> PathBuf {
        self.path.join("state.json")
    }

    /// The state; none was written yet in a new directory.
    pub(super) fn state(&self) -> Result<RulesState, DirectoryError> {
        let path = self.state_path();
        let bytes = read_sealed(&path, STATE_BYTES_MAX, "the configuration's files are then in force")?;
        let state = bytes.map_or(Ok(RulesState::default()), |bytes| serde_json::from_slice(&bytes));
        state.map_err(|error| DirectoryError::Damaged { path, why: error.to_string() })
    }

    /// The damaged or missing files, each with its consequence.
    pub(super) fn check(&self) -> Vec<(PathBuf, String)> {
        let state = match self.state() {
            Ok(state) => state,
            Err(error) => return vec![error.parts()],
        };
        let mut found = Vec::new();
        for version in state.pipelines.values().flat_map(|standing| &standing.versions) {
            let cost = format!("version {} cannot be gone back to", version.version);
            let name = format!("{}.toml", version.version);
            let mut lost = Vec::new();
            lost.extend((!matches!(self.text(&name), Ok(Some(_)))).then_some(name));
            let digests = version.sets.values().chain(version.models.values());
            let is_other = |of: &&String| {
                let bytes = read(&self.path.join(format!("{of}.file")), u64::MAX);
                bytes.is_ok_and(|bytes| digest(&bytes) == **of)
            };
            lost.extend(digests.filter(|of| !is_other(of)).map(|of| format!("{of}.file")));
            found.extend(lost.into_iter().map(|name| (self.path.join(name), cost.clone())));
        }
        found
    }

    /// A version's settings, if they are there.
    fn text(&self, name: &str) -> Result<Option<Vec<u8>>, DirectoryError> {
        read_sealed(&self.path.join(name), STATE_BYTES_MAX, "the version cannot be gone back to then")
    }

    /// Replaces the state, and removes what it does not name.
    pub(super) fn save(&self, state: &RulesState) -> Result<(), DirectoryError> {
        let path = self.state_path();
        let bytes = serde_json::to_vec_pretty(state).map_err(io::Error::other).map_err(io_error(&path))?;
        self.write("state.json", &disk::seal(&bytes))?;
        self.tidy(state).map_err(io_error(&self.path))
    }

    /// Keeps a version.
    pub(super) fn keep(
        &self,
        version: &str,
        snapshot: VersionSnapshot,
        since: Option<Time>,
        by: &str,
    ) -> Result<VersionEntry, DirectoryError> {
        let VersionSnapshot { text, lists, models } = snapshot;
        let mut kept = VersionEntry {
            version: version.to_owned(),
            since: since.map(|time| time.0),
            by: by.to_owned(),
            who: None,
            sets: BTreeMap::new(),
            models: BTreeMap::new(),
        };
        for (set, text) in lists {
            kept.sets.insert(set, self.keep_file(text.as_bytes())?);
        }
        for (model, bytes) in models {
            kept.models.insert(model, self.keep_file(&bytes)?);
        }
        self.write(&format!("{version}.toml"), &disk::seal(text.as_bytes()))?;
        Ok(kept)
    }

    fn keep_file(&self, bytes: &[u8]) -> Result<String, DirectoryError> {
        let digest = digest(bytes);
        let name = format!("{digest}.file");
        if !self.path.join(&name).exists() {
            self.write(&name, bytes)?;
        }
        Ok(digest)
    }

    /// A version that was kept.
    pub(super) fn read(&self, version: &VersionEntry) -> Result<VersionSnapshot, DirectoryError> {
        let file = |name: &String| {
            let path = self.path.join(format!("{name}.file"));
            let bytes = read(&path, u64::MAX).map_err(io_error(&path))?;
            let why = || "its content is not what its name says; restore it from a backup".to_owned();
            if digest(&bytes) == *name {
                Ok(bytes)
            } else {
                Err(DirectoryError::Damaged { path, why: why() })
            }
        };
        let text = |name: &String| {
            let text = String::from_utf8(file(name)?).map_err(io::Error::other);
            text.map_err(io_error(&self.path.join(format!("{name}.file"))))
        };
        let name = format!("{}.toml", version.version);
        let missing = || io_error(&self.path.join(&name))(io::ErrorKind::NotFound.into());
        let settings = String::from_utf8(self.text(&name)?.ok_or_else(missing)?).map_err(io::Error::other);
        let settings = settings.map_err(io_error(&self.path.join(&name)))?;
        let mut kept = VersionSnapshot { text: settings, ..VersionSnapshot::default() };
        for (set, digest) in &version.sets {
            kept.lists.insert(set.clone(), text(digest)?);
        }
        for (model, digest) in &version.models {
            kept.models.insert(model.clone(), file(digest)?);
        }
        Ok(kept)
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), DirectoryError> {
        let path = self.path.join(name);
        let written = disk::create_directories(&self.path).and_then(|()| disk::replace(&path, bytes));
        written.map_err(io_error(&path))
    }

    /// Removes the files of versions that are forgotten.
    fn tidy(&self, state: &RulesState) -> io::Result<()> {
        let mut named: BTreeSet<String> = BTreeSet::from(["state.json".to_owned()]);
        for version in state.pipelines.values().flat_map(|standing| &standing.versions) {
            named.insert(format!("{}.toml", version.version));
            named.extend(version.sets.values().chain(version.models.values()).map(|it| format!("{it}.file")));
        }
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            if entry
                .file_name()
                .to_str()
                .is_some_and(|name| !named.contains(name) && !name.ends_with(".damaged"))
            {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }
}

fn read(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(bytes_max).read_to_end(&mut bytes)?;
    Ok(bytes)
}
