//! The data directory: secret, configuration, ledger and journal.

mod contents;
pub(crate) mod erasure;
pub(crate) mod exchange;
mod numbers;
pub(crate) mod snapshot;
mod values;
pub(crate) mod verification;

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use std::sync::Arc;

pub use contents::MissingFile;
use disk::AtomicFile;
use event::Secret;
pub use numbers::NumberAllotment;
use stats::{Catalog, Durability, EmbeddedLedger};
use store::Recovery;

use crate::EngineOpenError;
pub(crate) use crate::error::{DirectoryError, io_error};
use crate::review_queue::ReviewQueue;
use plan::Plan;
use plan::preset::Preset;

/// A data directory.
#[derive(Clone, Debug)]
pub struct Directory {
    path: PathBuf,
}

/// Reads a sealed file of at most so many bytes; `None` if there is none. `instead` says what comes of its removal.
pub(crate) fn read_sealed(
    path: &Path,
    bytes_max: u64,
    instead: &str,
) -> Result<Option<Vec<u8>>, DirectoryError> {
    let mut bytes = Vec::new();
    match fs::File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file.and_then(|file| file.take(bytes_max).read_to_end(&mut bytes)).map_err(io_error(path))?,
    };
    let why = || format!("its checksum does not fit; restore it from a backup, or remove it: {instead}");
    let text =
        disk::unseal(&bytes).ok_or_else(|| DirectoryError::Damaged { path: path.into(), why: why() })?;
    Ok(Some(text.to_vec()))
}

/// Returns what was read of a file. One that is damaged is put aside, and told: all else does not wait for it.
pub(crate) fn or_put_aside<T: Default>(
    read: Result<T, DirectoryError>,
    told: &mut Vec<String>,
) -> Result<T, DirectoryError> {
    match read {
        Err(DirectoryError::Damaged { path, why }) => {
            let mut aside = path.as_os_str().to_owned();
            aside.push(".damaged");
            disk::place(&path, Path::new(&aside)).map_err(io_error(&path))?;
            told.push(format!("{} is damaged, and put aside as {}: {why}", path.display(), aside.display()));
            Ok(T::default())
        }
        read => read,
    }
}

impl Directory {
    /// Makes a data directory: a new secret readable by the owner only, and a configuration that extends the
    /// presets, the first in the main file and each further one in a file of its own. Refuses to touch an existing
    /// one.
    pub fn create(path: &Path, presets: &[&Preset]) -> Result<Directory, DirectoryError> {
        let presets: Vec<(&Preset, &str)> = presets.iter().map(|preset| (*preset, "")).collect();
        Directory::create_with(path, &presets, "")
    }

    /// Makes a data directory as [`Directory::create`] does, with more settings for each pipeline, and at the end of the main file.
    ///
    /// # Errors
    /// As [`Directory::create`].
    pub fn create_with(
        path: &Path,
        presets: &[(&Preset, &str)],
        settings: &str,
    ) -> Result<Directory, DirectoryError> {
        let directory = Directory { path: path.to_path_buf() };
        match directory.look() {
            Ok(()) => return Err(DirectoryError::Present(path.to_path_buf())),
            Err(DirectoryError::Absent(_)) => {}
            Err(error) => return Err(error),
        }
        disk::create_directories(path).map_err(io_error(path))?;
        let (main, others) =
            presets.split_first().map_or((None, presets), |(main, others)| (Some(main), others));
        for preset in others {
            directory.write(&format!("{}.toml", preset.0.name), &pipeline_text(preset))?;
        }
        directory.write("tollhouse.toml", &(main_text(main, others) + settings))?;
        // The secret comes last: a directory with one is whole.
        directory.write_secret(None)?;
        Ok(directory)
    }

    /// Makes a data directory whose configuration is elsewhere, with this secret or a new one, and returns true; returns
    /// false if it is there already.
    ///
    /// # Errors
    /// If it is there with another secret than this one, has lost its secret, or cannot be written.
    pub fn ensure_secret(path: &Path, secret: Option<&Secret>) -> Result<bool, DirectoryError> {
        let directory = Directory { path: path.to_path_buf() };
        match directory.look() {
            Ok(()) => {
                let other = match secret {
                    Some(secret) => directory.secret()? != *secret,
                    None => false,
                };
                if other { Err(DirectoryError::OtherSecret(path.to_path_buf())) } else { Ok(false) }
            }
            Err(DirectoryError::Absent(_)) => {
                disk::create_directories(path).map_err(io_error(path))?;
                directory.write_secret(secret)?;
                Ok(true)
            }
            Err(error) => Err(error),
        }
    }

    /// Writes this secret, or a new one.
    fn write_secret(&self, secret: Option<&Secret>) -> Result<(), DirectoryError> {
        let text = match secret {
            Some(secret) => secret.to_hex(),
            None => {
                let mut bytes = [0; Secret::BYTES];
                getrandom::fill(&mut bytes)
                    .map_err(|error| io_error(&self.path)(io::Error::other(error.to_string())))?;
                Secret::new(bytes).to_hex()
            }
        };
        self.write("secret", &format!("{text}\n"))
    }

    /// Opens a data directory; does not lock it yet.
    pub fn open(path: &Path) -> Result<Directory, DirectoryError> {
        let directory = Directory { path: path.to_path_buf() };
        directory.look()?;
        Ok(directory)
    }

    /// Checks that the directory is there: that it cannot be looked into, or has data and no secret, is something else than
    /// its absence.
    fn look(&self) -> Result<(), DirectoryError> {
        let secret = self.secret_path();
        match fs::metadata(&secret) {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let has = |path: &Path| fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some());
                let has_data = [self.ledger_path(), self.cluster_path(), self.journal_path()];
                Err(match has_data.iter().any(|path| has(path)) {
                    true => DirectoryError::Lost(self.path.clone()),
                    false => DirectoryError::Absent(self.path.clone()),
                })
            }
            Err(error) => Err(io_error(&secret)(error)),
        }
    }

    fn write(&self, name: &str, text: &str) -> Result<(), DirectoryError> {
        let path = self.path.join(name);
        let written = AtomicFile::of_new(&path).and_then(|mut draft| {
            draft.write_all(text.as_bytes())?;
            draft.commit()
        });
        written.map(drop).map_err(io_error(&path))
    }

    /// The secret that keys every shingle.
    pub fn secret(&self) -> Result<Secret, DirectoryError> {
        let path = self.secret_path();
        if let Some(mode) = disk::exposed(&path).map_err(io_error(&path))? {
            return Err(DirectoryError::Exposed { path, mode });
        }
        Directory::read_secret(&path)
    }

    /// Returns the secret that a file holds, whoever may read it.
    ///
    /// # Errors
    /// If the file cannot be read, or holds something else.
    pub fn read_secret(path: &Path) -> Result<Secret, DirectoryError> {
        let file = fs::File::open(path).map_err(io_error(path))?;
        let mut text = String::new();
        file.take(1024).read_to_string(&mut text).map_err(io_error(path))?;
        Secret::from_hex(&text).ok_or_else(|| DirectoryError::Secret(path.to_path_buf()))
    }

    /// Locks the directory, by the device of its ledger.
    pub(crate) fn lock_ledger(&self) -> Result<Arc<disk::FileDevice>, EngineOpenError> {
        exchange::finish_replacing(self)?;
        disk::FileDevice::open(self.ledger_path()).map(Arc::new).map_err(EngineOpenError::Device)
    }

    /// Opens the ledger, and with it locks the directory: with the plan's statistics, or without a plan with those that
    /// are stored alone.
    pub(crate) fn open_ledger(
        &self,
        plan: Option<&Plan>,
    ) -> Result<(EmbeddedLedger, Recovery), EngineOpenError> {
        self.open_ledger_of(self.lock_ledger()?, plan)
    }

    /// Opens the ledger of a directory that is locked, as [`Directory::open_ledger`] does.
    pub(crate) fn open_ledger_of(
        &self,
        device: Arc<disk::FileDevice>,
        plan: Option<&Plan>,
    ) -> Result<(EmbeddedLedger, Recovery), EngineOpenError> {
        /// The memory of maintenance, which reads files from front to back.
        const MEMORY_BYTES: usize = 256 << 20;
        if let Some(plan) = plan {
            self.check_no_loss(&device)?;
            self.keep_numbers(&plan.numbers)?;
        }
        let options = stats::Options {
            memory_bytes: plan.map_or(MEMORY_BYTES, |plan| plan.node.ledger_memory),
            segment_bytes: plan
                .map_or(store::log::LogOptions::SEGMENT_BYTES_MAX, |plan| plan.node.ledger_segment),
            durability: plan.map_or(Durability::None, |plan| plan.node.durability),
        };
        let catalog = plan.map_or_else(Catalog::default, |plan| plan.catalog.clone());
        let opened = EmbeddedLedger::open(device, catalog, options)?;
        // A copy that is being restored has its secret last.
        if let Ok(secret) = self.secret() {
            opened.0.claim(secret.fingerprint())?;
        }
        Ok(opened)
    }

    /// Returns what others than its owner can read, in a sentence with the mend; nothing if they cannot enter the directory.
    pub(crate) fn exposure(&self) -> Option<String> {
        let exposed = self.exposed();
        let ((path, mode), more) = (exposed.files.first()?, exposed.files.len() - 1);
        let more = if more > 0 { format!(", and {more} more") } else { String::new() };
        let directory = self.path.display();
        Some(format!(
            "others can read {} (mode {mode:03o}){more}: addresses and messages are in there; mend it with `chmod -R go= {directory}`",
            path.display()
        ))
    }

    /// Returns what others than its owner can get at, as the modes are now.
    pub(crate) fn exposed(&self) -> LooseModes {
        let mut exposed = LooseModes::default();
        exposed.look(&self.path);
        exposed.files.sort_unstable();
        exposed.directories.sort_unstable();
        exposed
    }

    /// The directory's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn secret_path(&self) -> PathBuf {
        self.path.join("secret")
    }

    /// The main configuration file.
    pub fn config_path(&self) -> PathBuf {
        self.path.join("tollhouse.toml")
    }

    /// The ledger's files.
    pub fn ledger_path(&self) -> PathBuf {
        self.path.join("ledger")
    }

    /// Returns the path of what a node in front of a cluster has not sent yet.
    pub fn cluster_path(&self) -> PathBuf {
        self.path.join("cluster")
    }

    /// Returns the path of what stands over the configuration's files, and of kept versions.
    pub fn rules_path(&self) -> PathBuf {
        self.path.join("rules")
    }

    /// Exceptions from limits that were posted.
    pub fn limits_path(&self) -> PathBuf {
        self.path.join("limits.json")
    }

    /// Returns the path of posted entries of the allow list, and notes on values.
    pub fn values_path(&self) -> PathBuf {
        self.path.join("values.json")
    }

    /// Returns the path of the ban list: labels with the pieces that they are on.
    pub(crate) fn ban_list_path(&self) -> PathBuf {
        self.path.join("labels.ndjson")
    }

    /// Opens the queue of reviews.
    pub(crate) fn open_reviews(&self) -> Result<ReviewQueue, DirectoryError> {
        let device = disk::FileDevice::unlocked(&self.path);
        let opened = device.and_then(|device| ReviewQueue::open(Box::new(device)));
        opened.map_err(io_error(&self.path))
    }

    /// The audit log's files.
    pub fn audit_path(&self) -> PathBuf {
        self.path.join("audit")
    }

    /// The journal's files.
    pub fn journal_path(&self) -> PathBuf {
        self.path.join("journal")
    }
}

/// The parts of a data directory that others than its owner can get at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LooseModes {
    /// Files that they can read or write, and their modes.
    pub files: Vec<(PathBuf, u32)>,
    /// Directories whose names they can list or change, and their modes.
    pub directories: Vec<(PathBuf, u32)>,
}

impl LooseModes {
    /// Looks through a directory, as far as others can enter it. Links are not followed.
    fn look(&mut self, directory: &Path) {
        /// Bits of a mode by which others list or change names, and by which they enter.
        const NAMES: u32 = 0o066;
        const ENTER: u32 = 0o011;
        let Ok(Some(mode)) = disk::exposed(directory) else { return };
        if mode & NAMES != 0 {
            self.directories.push((directory.to_path_buf(), mode));
        }
        if mode & ENTER == 0 {
            return;
        }
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            let path = entry.path();
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => self.look(&path),
                Ok(kind) if kind.is_file() => {
                    self.files.extend(disk::exposed(&path).ok().flatten().map(|mode| (path, mode)));
                }
                _ => {}
            }
        }
    }
}

fn pipeline_text((preset, more): &(&Preset, &str)) -> String {
    format!(
        "# A pipeline of Tollhouse: the preset `{name}` and what differs from it here.\n\
         # `tollhouse preset show {name}` prints what is extended; an entry of the same name changes it key by key:\n\
         #\n\
         #   [[rule]]\n\
         #   name = \"SOME_RULE\"\n\
         #   score = 0.5\n\n\
         preset = \"{name}\"\n{more}",
        name = preset.name
    )
}

fn main_text(main: Option<&(&Preset, &str)>, others: &[(&Preset, &str)]) -> String {
    let mut text = main.map(pipeline_text).unwrap_or_default();
    // Each pipeline counts in a space of its own unless it is told otherwise by its preset.
    let files: Vec<String> = others.iter().map(|(preset, _)| format!("\"{}.toml\"", preset.name)).collect();
    if !files.is_empty() {
        text += &format!("\n[node]\npipelines = [{}]\n", files.join(", "));
    }
    text + "\n# The node. `tollhouse config check --effective` shows every value and where it comes from.\n\
            [ledger]\n\
            durability = \"1s\"  # \"sync\": on disk before the answer; \"none\"\n\
            \n\
            [server]\n\
            listen = \"127.0.0.1:8377\"\n"
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_directory_is_made_once_and_its_secret_is_private() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("data");
        assert!(matches!(Directory::open(&path), Err(DirectoryError::Absent(_))));
        let directory = Directory::create(&path, &[&plan::preset::ALL[0], &plan::preset::ALL[1]]).unwrap();
        let secret = directory.secret().unwrap();
        assert!(matches!(Directory::create(&path, &[]), Err(DirectoryError::Present(_))));
        assert_eq!(Directory::open(&path).unwrap().secret().unwrap(), secret);

        fs::set_permissions(directory.secret_path(), fs::Permissions::from_mode(0o644)).unwrap();
        assert!(matches!(directory.secret(), Err(DirectoryError::Exposed { mode: 0o644, .. })));
        fs::set_permissions(directory.secret_path(), fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(directory.secret_path(), "not a secret").unwrap();
        assert!(matches!(directory.secret(), Err(DirectoryError::Secret(_))));
    }

    #[test]
    fn a_directory_whose_configuration_is_elsewhere_gets_a_secret_once() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("data");
        assert!(Directory::ensure_secret(&path, None).unwrap());
        let secret = Directory::open(&path).unwrap().secret().unwrap();
        assert!(!Directory::ensure_secret(&path, None).unwrap(), "it is there");
        assert!(!Directory::ensure_secret(&path, Some(&secret)).unwrap(), "with this secret");
        let other = Secret::new([7; Secret::BYTES]);
        let refused = Directory::ensure_secret(&path, Some(&other));
        assert!(matches!(refused, Err(DirectoryError::OtherSecret(_))), "{refused:?}");
        let copy = parent.path().join("copy");
        assert!(Directory::ensure_secret(&copy, Some(&other)).unwrap());
        assert_eq!(Directory::open(&copy).unwrap().secret().unwrap(), other);
        fs::create_dir(copy.join("journal")).unwrap();
        fs::write(copy.join("journal/1"), "").unwrap();
        fs::remove_file(copy.join("secret")).unwrap();
        let refused = Directory::ensure_secret(&copy, None);
        assert!(matches!(refused, Err(DirectoryError::Lost(_))), "{refused:?}");
    }

    #[test]
    fn what_is_made_in_a_directory_of_all_is_its_owners() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("data");
        fs::create_dir(&path).unwrap();
        let set = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        set(&path, 0o755);
        let directory = Directory::create(&path, &[&plan::preset::ALL[0], &plan::preset::ALL[1]]).unwrap();
        let config = plan::Config::load(&directory.config_path(), &plan::Overrides::default());
        let engine = crate::Engine::open(&directory, plan::Plan::compile(&config).unwrap()).unwrap();
        assert_eq!(engine.health().list(), [], "{:?}", directory.exposure());
        engine.close().unwrap();
        drop(engine);
        let mut found = 0;
        for part in [path.clone(), directory.ledger_path(), directory.journal_path(), directory.rules_path()]
        {
            for entry in fs::read_dir(part).unwrap().map(|entry| entry.unwrap().path()) {
                assert_eq!(disk::exposed(&entry).unwrap(), None, "{}", entry.display());
                found += 1;
            }
        }
        assert!(found > 10, "{found} files and directories");
        set(&directory.config_path(), 0o640);
        let said = directory.exposure().unwrap();
        assert!(said.contains("tollhouse.toml (mode 640): "), "{said}");
        set(&path, 0o700);
        assert_eq!(directory.exposure(), None, "nobody else gets there");
    }

    #[test]
    fn what_init_writes_loads_and_compiles() {
        let parent = tempfile::tempdir().unwrap();
        let presets: Vec<&Preset> = plan::preset::ALL.iter().collect();
        let directory = Directory::create(&parent.path().join("data"), &presets).unwrap();
        let config = plan::Config::load(&directory.config_path(), &plan::Overrides::default());
        let plan = plan::Plan::compile(&config);
        let plan = plan.unwrap_or_else(|problems| panic!("{problems}"));
        let names: Vec<&str> = plan.pipelines.iter().map(|pipeline| pipeline.name.as_str()).collect();
        assert_eq!(names, plan::preset::ALL.iter().map(|preset| preset.name).collect::<Vec<_>>());
    }
}
