//! Batches of events as Arrow IPC streams, in and out.
//!
//! ```text
//! body ─► check: frames, schema, lengths, buffers within the body ─► the library's reader ─► columns of the engine
//! ```
//!
//! Nothing of a body is copied on the way in, but for what has to be of another width: arrays lie where the body does. What
//! is hostile is refused by [`check`] before the library reads it: the library checks offsets and UTF-8, and is not asked
//! for types, nesting or compression that events have no use for.
//! (Arrow columnar format 1.5, "Serialization and Interprocess Communication".)

mod check;
mod reader;
mod writer;

use std::fmt;

pub use reader::{batch, read};
pub use writer::{BatchOutcome, write};

/// The limits of a stream.
#[derive(Clone, Copy, Debug)]
pub struct ArrowLimits {
    /// Rows of all record batches together.
    pub rows_max: usize,
}

impl ArrowLimits {
    /// Most columns.
    pub const COLUMNS_MAX: usize = 512;
    /// Most messages: the schema, dictionaries, record batches.
    pub const MESSAGES_MAX: usize = 8_192;
    /// Most values of a dictionary.
    pub const DICTIONARY_MAX: usize = 1 << 20;
}

/// Reasons to refuse bytes as a stream of events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArrowError {
    /// The bytes are no Arrow IPC stream.
    Broken(String),
    /// A column of a type that is not read.
    Type {
        /// Its name, cut if it is long.
        column: String,
        /// Its type.
        found: String,
    },
    /// A part of the format that is not supported.
    Unread(&'static str),
    /// An amount above its limit.
    Limit {
        /// The name of the limited part.
        what: &'static str,
        /// The most.
        max: usize,
    },
}

impl fmt::Display for ArrowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ArrowError::Broken(why) => write!(f, "expected an Arrow IPC stream: {why}"),
            ArrowError::Type { column, found } => write!(
                f,
                "column `{column}`: {found} is not read: expected integers, floats, booleans, texts, dictionaries of \
                 these, timestamps, or binaries of 4 or 16 bytes for addresses"
            ),
            ArrowError::Unread(what) => write!(f, "{what}"),
            ArrowError::Limit { what, max } => write!(f, "a stream has at most {max} {what}"),
        }
    }
}

impl std::error::Error for ArrowError {}

fn broken(why: impl fmt::Display) -> ArrowError {
    ArrowError::Broken(crate::core::problem::shown(&why.to_string()))
}

#[cfg(test)]
mod tests;
