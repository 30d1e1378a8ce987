//! Entries of commands in the audit log of a data directory.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::MetadataExt;

use access::TokenFile;
use access::audit::{AuditEntry, AuditOptions, AuditPlace};
use engine::Directory;

use crate::clock::now;
use crate::exit::CommandError;

/// The user of the machine who runs the command, as the audit log names people there: by the number that the system gives, which
/// nobody chooses, and the name that the environment has.
pub(crate) fn user() -> String {
    let number = std::fs::metadata("/proc/self").map(|metadata| metadata.uid().to_string());
    let number = number.unwrap_or_else(|_| "?".to_owned());
    let name = ["SUDO_USER", "USER"].into_iter().find_map(|name| std::env::var(name).ok());
    let fits = |name: &String| !name.is_empty() && name.len() <= 40 && !name.chars().any(char::is_control);
    match name.filter(fits) {
        Some(name) => format!("{name} (uid {number})"),
        None => format!("uid {number}"),
    }
}

/// Adds entries to the audit log: the changes of tokens that are not in it, and these. Returns false if a server writes the log:
/// it adds changes of tokens by itself.
fn append(directory: &Directory, entries: Vec<AuditEntry>) -> io::Result<bool> {
    let place = AuditPlace::directory(directory.audit_path());
    let mut log = match place.open(AuditOptions::default()) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
        log => log?,
    };
    let store = TokenFile::in_directory(directory.path()).read().ok().flatten().unwrap_or_default();
    let changes: Vec<AuditEntry> = store.changes_after(log.changes()).map(AuditEntry::of_change).collect();
    log.append(changes.into_iter().chain(entries))?;
    log.sync()?;
    Ok(true)
}

/// Has the changes of tokens in the audit log, by now or, where a server runs, within a second.
pub(crate) fn note_tokens(directory: &Directory) -> Result<(), CommandError> {
    append(directory, Vec::new()).map(drop).map_err(unwritten)
}

/// Adds an entry of what this command did.
pub(crate) fn note(
    directory: &Directory,
    action: &str,
    detail: &[(&str, String)],
) -> Result<(), CommandError> {
    let detail: BTreeMap<String, String> =
        detail.iter().map(|(name, text)| ((*name).to_owned(), text.clone())).collect();
    let entry =
        AuditEntry { time: now(), by: user(), from: None, action: action.to_owned(), status: 200, detail };
    match append(directory, vec![entry]) {
        Ok(true) => Ok(()),
        Ok(false) => Err(CommandError::new("another process writes the audit log: this is not in it")),
        Err(error) => Err(unwritten(error)),
    }
}

fn unwritten(error: io::Error) -> CommandError {
    CommandError::new(format_args!("it is done, and the audit log could not be written: {error}"))
}
