//! fail2ban's own configuration, read as fail2ban reads it: `jail.conf`, `jail.local`, `jail.d`, `filter.d`.
//!
//! ```text
//! files ─► ini: sections of a file ─► merged: includes, `.local`, %(interpolation)s ─┬─► filter: patterns of lines
//!                                                                                    └─► jail: what is done about whom
//! ```
//!
//! Files are passed in as texts by their paths; nothing is read from disk here. What cannot be taken is a
//! [`Fail2banProblem`] with its file and line.

pub mod duration;
pub mod filter;
pub mod formula;
pub mod ini;
pub mod jail;
pub mod merged;
pub mod option_list;
pub mod tag;

use std::collections::BTreeMap;
use std::fmt;

/// Most bytes of one file.
pub const FILE_BYTES_MAX: usize = 1 << 20;

/// Texts of files by their paths below the configuration's folder, such as `filter.d/sshd.conf`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fail2banFiles(pub BTreeMap<String, String>);

impl Fail2banFiles {
    /// The text of a file.
    pub fn get(&self, path: &str) -> Option<&str> {
        self.0.get(path).map(String::as_str)
    }

    /// Files right inside of a folder with an extension, in order.
    pub fn inside<'f>(&'f self, folder: &'f str, extension: &'f str) -> impl Iterator<Item = &'f str> {
        self.0.keys().map(String::as_str).filter(move |path| {
            path.strip_prefix(folder)
                .and_then(|rest| rest.strip_prefix('/'))
                .is_some_and(|name| !name.contains('/') && name.ends_with(extension))
        })
    }
}

/// A part of a configuration that was not taken.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fail2banProblem {
    /// The file, below the configuration's folder.
    pub file: String,
    /// The line, from 1; 0 if the whole file is meant.
    pub line: usize,
    /// The reason why it was not taken.
    pub message: String,
}

impl fmt::Display for Fail2banProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.file, self.message),
            line => write!(f, "{}:{line}: {}", self.file, self.message),
        }
    }
}
