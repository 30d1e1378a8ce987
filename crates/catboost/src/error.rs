//! Reasons to refuse a model.

use std::fmt;

/// The refusal of a model: the fault, its place in the file, and the mend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelError {
    /// The fault, without a full stop.
    pub message: String,
    /// The place in the file, in the words of its format, e.g. `ctr_data` or `tree 12`.
    pub place: String,
    /// The mend, without a full stop.
    pub help: Option<String>,
}

impl ModelError {
    /// An error at a place of the file, or about the model that it holds.
    pub fn new(place: impl Into<String>, message: impl Into<String>) -> ModelError {
        ModelError { message: message.into(), place: place.into(), help: None }
    }

    /// Adds the mend.
    pub fn help(mut self, help: impl Into<String>) -> ModelError {
        self.help = Some(help.into());
        self
    }
}

impl fmt::Display for ModelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)?;
        match &self.help {
            Some(help) => write!(f, " ({help})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for ModelError {}
