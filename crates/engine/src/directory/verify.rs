//! Whether all that a data directory holds can still be read.

use std::path::PathBuf;

use event::Secret;
use stats::{Ledger, LedgerError};
use store::Losses;

use super::{Directory, DirectoryError};
use crate::{Config, OpenError, Overrides, Plan, journal};

/// What is being read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The ledger's files.
    Ledger,
    /// The journal's files.
    Journal,
}

/// What [`Directory::verify`] found.
#[derive(Debug, Default)]
pub struct Verified {
    /// The secret cannot be used.
    pub secret: Option<DirectoryError>,
    /// What the ledger's files hold; `None` if it cannot be opened.
    pub ledger: Option<stats::Verified>,
    /// Why the ledger cannot be opened.
    pub ledger_error: Option<LedgerError>,
    /// Bytes of a torn tail, which a crash leaves: nothing that was promised.
    pub ledger_torn_bytes: u64,
    /// What was skipped when the ledger was opened, and may have been tidied away since.
    pub ledger_skipped: Losses,
    /// Files of the ledger that only repeat what others say, and were made anew.
    pub ledger_made_anew: Vec<String>,
    /// What the journal's files hold.
    pub journal: journal::Verified,
    /// Other files that are not as they were written, or cannot be used, and why.
    pub settings: Vec<(PathBuf, String)>,
}

impl Verified {
    /// Whether nothing is lost.
    pub fn is_sound(&self) -> bool {
        let Verified { secret, ledger, ledger_error, ledger_skipped, journal, settings, .. } = self;
        secret.is_none()
            && settings.is_empty()
            && ledger_error.is_none()
            && ledger.as_ref().is_none_or(stats::Verified::is_sound)
            && ledger_skipped.is_empty()
            && journal.is_sound()
    }
}

impl Directory {
    /// Reads all files, checks every checksum, that every key's image is where it should be and is a cell of its
    /// definition, and that every row has its description. The directory is locked meanwhile. Of a crash before, the
    /// ledger's torn tail is cut off, as by any opening; nothing else changes. `progress` hears of bytes read and
    /// of all bytes.
    ///
    /// # Errors
    /// [`OpenError::Device`] of the kind `WouldBlock` if it is in use, and what the device says. What is damaged is in
    /// the answer.
    pub fn verify(&self, progress: &mut dyn FnMut(Part, u64, u64)) -> Result<Verified, OpenError> {
        let secret = self.secret();
        let mut verified = self.verify_data(secret.as_ref().ok().map(Secret::fingerprint), progress)?;
        verified.secret = secret.err();
        self.look_at_settings(&mut verified.settings);
        Ok(verified)
    }

    /// Writes anew what can be had of damaged files, and keeps these beside. What is missing is not missed any more.
    ///
    /// # Errors
    /// [`OpenError::Device`] of the kind `WouldBlock` if it is in use, and what cannot be read or written.
    pub fn repair(&self) -> Result<Vec<journal::Repaired>, OpenError> {
        let secret = self.secret()?.fingerprint();
        let lock = store::FileDevice::open(self.ledger_path()).map_err(OpenError::Device)?;
        let repaired = journal::repair(&self.journal_path(), secret)?;
        drop(lock);
        Ok(repaired)
    }

    /// Looks at all that is neither ledger nor journal.
    fn look_at_settings(&self, into: &mut Vec<(PathBuf, String)>) {
        into.extend(crate::limit::read_exceptions(&self.limits_path()).err().map(DirectoryError::parts));
        into.extend(crate::reload::check_shelf(&self.rules_path()));
        let labels = self.told_path();
        match crate::told::damaged_lines(&labels) {
            Ok(0) => {}
            Ok(lines) => into.push((labels, format!("{lines} labels cannot be read"))),
            Err(error) => into.push((labels, error.to_string())),
        }
        let path = self.config_path();
        // A snapshot may have none.
        if path.exists()
            && let Err(problems) = Plan::compile(&Config::load(&path, &Overrides::default()))
        {
            into.push((path, problems.to_string()));
        }
    }

    /// The same of ledger and journal alone, under the secret of this fingerprint, if there is one.
    pub(super) fn verify_data(
        &self,
        secret: Option<u64>,
        progress: &mut dyn FnMut(Part, u64, u64),
    ) -> Result<Verified, OpenError> {
        let mut verified = Verified::default();
        let ledger = match self.open_ledger(None) {
            Ok((ledger, recovery)) => {
                verified.ledger_torn_bytes = recovery.truncated_bytes;
                verified.ledger_skipped = recovery.losses;
                verified.ledger_made_anew = recovery.hints_ignored;
                let list = recovery.manifest_made_anew.then(|| store::log::MANIFEST.to_owned());
                verified.ledger_made_anew.extend(list);
                verified.ledger = Some(ledger.verify(&mut |done, all| progress(Part::Ledger, done, all))?);
                Some(ledger)
            }
            Err(OpenError::Ledger(error)) => {
                verified.ledger_error = Some(error);
                None
            }
            Err(other) => return Err(other),
        };
        // The ledger's lock is that of the whole directory.
        let path = self.journal_path();
        verified.journal =
            journal::verify(&path, secret, &mut |done, all| progress(Part::Journal, done, all))?;
        if let Some(ledger) = ledger {
            ledger.close()?;
        }
        Ok(verified)
    }
}
