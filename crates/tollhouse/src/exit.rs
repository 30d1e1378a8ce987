//! Exit codes of the program, and the one error that ends a command.

use std::fmt;
use std::io;
use std::process::ExitCode;

/// The result of a command that ran to its end. `docs/reference/cli.md` documents the codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// All is well.
    Fine,
    /// The command did its work, and something about the data is wrong: a configuration has errors, a file could
    /// not be read, a line was no event.
    Found,
    /// The user stopped it; what was done is kept.
    Interrupted,
}

/// Usage and environment: what keeps a command from doing its work. Clap ends with the same code.
const FAILURE: u8 = 2;

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(match exit {
            Exit::Fine => 0,
            Exit::Found => 1,
            Exit::Interrupted => 130,
        })
    }
}

/// Reasons for a command to fail.
#[derive(Debug)]
pub(crate) enum CommandError {
    /// The reader of standard output has gone, as `head` does: nobody is left to tell, and nothing is wrong.
    ClosedPipe,
    /// Any other cause.
    Because {
        /// The fault.
        message: String,
        /// The advice on what to do about it.
        help: Option<String>,
    },
}

impl CommandError {
    /// A failure for this reason.
    pub(crate) fn new(message: impl fmt::Display) -> CommandError {
        CommandError::Because { message: message.to_string(), help: None }
    }

    /// Says what to do about it.
    pub(crate) fn help(self, help: impl Into<String>) -> CommandError {
        match self {
            CommandError::ClosedPipe => CommandError::ClosedPipe,
            CommandError::Because { message, .. } => {
                CommandError::Because { message, help: Some(help.into()) }
            }
        }
    }

    /// A failure of writing to standard output.
    pub(crate) fn output(error: io::Error) -> CommandError {
        match error.kind() {
            io::ErrorKind::BrokenPipe => CommandError::ClosedPipe,
            _ => CommandError::new(format_args!("standard output cannot be written: {error}")),
        }
    }
}

impl From<&CommandError> for ExitCode {
    fn from(error: &CommandError) -> ExitCode {
        match error {
            CommandError::ClosedPipe => ExitCode::SUCCESS,
            CommandError::Because { .. } => ExitCode::from(FAILURE),
        }
    }
}

impl From<plan::MissingFeature> for CommandError {
    fn from(missing: plan::MissingFeature) -> CommandError {
        CommandError::new(missing).help(missing.help())
    }
}

/// Every error that a command meets and cannot go on from becomes a [`CommandError`] by what it says.
macro_rules! failures {
    ($($error:ty),* $(,)?) => {
        $(impl From<$error> for CommandError {
            fn from(error: $error) -> CommandError {
                CommandError::new(error)
            }
        })*
    };
}

failures!(
    engine::DecisionLookupError,
    engine::FeedbackError,
    engine::KeyStatisticsError,
    engine::MaintenanceError,
    engine::SyncError,
    stats::LedgerError,
    journal::JournalError,
    engine::DirectoryError,
    engine::EngineOpenError,
    plan::ConfigProblems,
    journal::RecordIdError,
    journal::export::ExportError,
    server::ServeError,
);
