//! Errors that several operations share. Those of one operation stand beside it.

use event::Kind;
use journal::{JournalError, RecordId};
use plan::ConfigProblems;
use stats::{LedgerError, NumberRegisterError, RegisteredName};

use crate::directory::DirectoryError;

/// Reasons for names without numbers.
#[derive(Debug, thiserror::Error)]
pub enum NumberError {
    /// The register's files.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// The register itself.
    #[error(transparent)]
    Register(#[from] NumberRegisterError),
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
    Device(std::io::Error),
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
    /// The journal.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The data directory.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
}
