//! Errors: why an engine cannot be opened, and why it cannot do what was asked.

use event::Kind;
use journal::{JournalError, RecordId};
use plan::ConfigProblems;
use stats::{LedgerError, NumberRegisterError, RegisteredName};

use crate::directory::DirectoryError;

/// Why names have no numbers.
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

/// Why an engine cannot be opened.
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

/// Why the engine cannot do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The ledger.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The journal.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A name that the plan does not have.
    #[error("there is no {what} `{name}`: {help}")]
    Unknown {
        /// The sort of thing that was looked for: a pipeline, a kind, a counter, a feedback class.
        what: &'static str,
        /// Its name.
        name: String,
        /// Near and possible names.
        help: String,
    },
    /// No record has this id.
    #[error("there is no decision {0}: it never was, or the journal no longer keeps it")]
    NoDecision(RecordId),
    /// A decision of a pipeline that this plan does not have any more.
    #[error("the decision was made by the pipeline `{0}`, which this configuration does not have")]
    PipelineGone(String),
    /// No piece can be made of a value.
    #[error("`{value}` gives no piece of the kind `{kind}`")]
    NoPiece {
        /// The kind.
        kind: String,
        /// The value.
        value: String,
    },
    /// A value of a kind of addresses is neither an address nor a network.
    #[error(
        "`{value}` is no address, and no network such as `192.0.2.0/24`: the keys of `{kind}` are addresses"
    )]
    NoAddress {
        /// The kind.
        kind: String,
        /// The value.
        value: String,
    },
    /// A value is an address at which this machine itself is, or has one in it.
    #[error("`{0}` is, or has in it, an address of this machine itself, such as 127.0.0.1")]
    OwnAddress(String),
    /// Keys are ranked by a counter over a window, and the kind has none.
    #[error("the kind `{0}` has no counters over windows, by which its keys could be ranked")]
    NoCounters(String),
    /// An engine without a data directory keeps no journal.
    #[error("there is no journal: this engine was started without a data directory")]
    NoJournal,
    /// An engine without a data directory has nothing to copy.
    #[error("there is nothing to make a snapshot of: this engine was started without a data directory")]
    NoDirectory,
    /// A reporter said several things of one event at once, or far too many.
    #[error("too much feedback of one reporter on one event")]
    ReportBusy,
    /// Statistics are kept by the cluster.
    #[error(
        "the statistics are in the cluster, not in this data directory: copies are made with its own means"
    )]
    NotHere,
    /// One snapshot at a time is made.
    #[error("another snapshot is being made")]
    SnapshotBusy,
    /// Nobody waits for a snapshot any more.
    #[error("the snapshot was not made: nobody waits for it any more")]
    SnapshotEnded,
    /// The data directory.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// The ban list could not be written.
    #[error("labels could not be written: {0}")]
    BanList(std::io::Error),
    /// A label that enforcement points are not told of.
    #[error("the label `{0}` has no `decision`: it is for rules alone")]
    NotOnBanList(String),
}
