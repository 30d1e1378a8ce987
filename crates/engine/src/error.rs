//! Errors that several operations share. Those of one operation stand beside it.

use std::io;
use std::path::{Path, PathBuf};

use event::Kind;
use journal::{JournalError, RecordId};
use plan::ConfigProblems;
use stats::{LedgerError, NumberRegistryError, RegisteredName};

/// Reasons not to make or use a data directory.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    /// The data directory does not exist.
    #[error("{0} is no data directory: it has no `secret`; make one with `tollhouse init --data {0}`")]
    Absent(PathBuf),
    /// Its secret is gone.
    #[error(
        "{0} has lost its `secret`, without which nothing of what was counted there can be found: restore that file from a \
         backup or a snapshot; a new one would make every key unknown"
    )]
    Lost(PathBuf),
    /// The data directory exists already.
    #[error(
        "{0} already is a data directory; its secret is never replaced, as all that was counted hangs on it"
    )]
    Present(PathBuf),
    /// The data directory has another secret than the one that it should have.
    #[error("{0} has another secret; all that was counted hangs on it, so it is never replaced")]
    OtherSecret(PathBuf),
    /// Others may read the secret.
    #[error("{path} can be read by others (mode {mode:03o}); mend it with `chmod 600 {path}`")]
    Exposed {
        /// The secret's file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// The secret's file holds something else.
    #[error("{0} holds no secret: expected 32 hexadecimal digits; restore it from a backup")]
    Secret(PathBuf),
    /// A file is not as it was written.
    #[error("{path} is damaged: {why}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The fault, and the mend.
        why: String,
    },
    /// The operating system said no.
    #[error("{path}: {error}")]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The error of the operating system.
        error: io::Error,
    },
}

pub(crate) fn io_error(path: &Path) -> impl FnOnce(io::Error) -> DirectoryError {
    let path = path.to_path_buf();
    move |error| DirectoryError::Io { path, error }
}

impl DirectoryError {
    /// The file or directory, and what is wrong with it.
    pub(crate) fn parts(self) -> (PathBuf, String) {
        match self {
            DirectoryError::Damaged { path, why } => (path, format!("damaged: {why}")),
            DirectoryError::Io { path, error } => (path, error.to_string()),
            DirectoryError::Exposed { ref path, .. }
            | DirectoryError::Absent(ref path)
            | DirectoryError::Lost(ref path)
            | DirectoryError::Present(ref path)
            | DirectoryError::OtherSecret(ref path)
            | DirectoryError::Secret(ref path) => (path.clone(), self.to_string()),
        }
    }
}

/// Reasons for names without numbers.
#[derive(Debug, thiserror::Error)]
pub enum NumberError {
    /// The registry's files.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// The registry itself.
    #[error(transparent)]
    Registry(#[from] NumberRegistryError),
    /// The place that several nodes share.
    #[error("names get their numbers in the cluster, and it cannot be asked: {0}")]
    Shared(String),
    /// The place that several nodes share says otherwise than what this node has counted by.
    #[error(
        "{name} has the number {number} here, and not in the cluster: counts would be mixed up. If the cluster is right, move \
         `numbers.txt` and `numbers.copy` away", number = .number.0
    )]
    Changed {
        /// The name.
        name: RegisteredName,
        /// Its number here.
        number: Kind,
    },
    /// A plan was compiled without the numbers that names have had before.
    #[error("the configuration was compiled with other numbers than those that its names have here")]
    Others,
}

/// Reasons for an engine that cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum EngineOpenError {
    /// The data directory.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// The ledger's directory, which may be in use by another process.
    #[error("{0}")]
    Device(io::Error),
    /// The ledger's files.
    #[error(transparent)]
    Store(#[from] store::StoreError),
    /// The ledger.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The numbers of names.
    #[error(transparent)]
    Numbers(#[from] NumberError),
    /// The journal.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The configuration and what was posted to the data directory do not fit together.
    #[error(
        "{0}\nwhat was posted stands over the configuration: mend its files, or remove `rules/state.json`"
    )]
    Rules(ConfigProblems),
    /// The overlays of the configuration cannot be had.
    #[error("{0}")]
    Resume(String),
    /// The cluster that statistics live in.
    #[error("{0}")]
    Cluster(String),
    /// The operating system's random source.
    #[error("no random secret could be made: {0}")]
    Random(String),
}

impl From<ConfigProblems> for EngineOpenError {
    fn from(problems: ConfigProblems) -> EngineOpenError {
        EngineOpenError::Resume(problems.to_string())
    }
}

/// A name that a pipeline does not have.
#[derive(Debug, thiserror::Error)]
#[error("there is no {what} `{name}`: {help}")]
pub struct UnknownName {
    /// The sort of thing that was looked for: a kind, a label, a counter, a feedback class.
    pub what: &'static str,
    /// Its name.
    pub name: String,
    /// Near and possible names.
    pub help: String,
}

/// A value of which no piece can be made.
#[derive(Debug, thiserror::Error)]
#[error("`{value}` gives no piece of the kind `{kind}`{}", form(*fields))]
pub struct PieceError {
    /// The kind.
    pub kind: String,
    /// The value.
    pub value: String,
    /// The number of fields that keys of the kind have.
    pub fields: usize,
}

/// Returns how values of so many fields are written.
fn form(fields: usize) -> String {
    match fields {
        0 | 1 => String::new(),
        fields => format!(": write the values of its {fields} fields in order, as [\"...\",\"...\"]"),
    }
}

/// Reasons for a failed look-up of a past decision.
#[derive(Debug, thiserror::Error)]
pub enum DecisionLookupError {
    /// No record has this id.
    #[error("there is no decision {0}: it never was, or the journal no longer keeps it")]
    NoDecision(RecordId),
    /// An engine without a data directory keeps no journal.
    #[error("there is no journal: this engine was started without a data directory")]
    NoJournal,
    /// The archive cannot be asked.
    #[error("the decision may be in {address}, which cannot be asked: {why}")]
    Archive {
        /// The archive's address.
        address: String,
        /// The reason.
        why: String,
    },
    /// The journal.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The data directory.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
}
