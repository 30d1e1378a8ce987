//! Verification that all data of a directory can still be read.

use std::collections::BTreeSet;
use std::path::PathBuf;

use disk::FileDevice;
use disk::log::{DAMAGED, SEGMENT_LIST, TORN, keep_damaged};
use event::{Span, Time};
use stats::{Ledger, LedgerError};
use store::LogLosses;

use super::{Directory, DirectoryError, LooseModes, MissingFile, io_error};
use crate::EngineOpenError;
use plan::{Config, Overrides, Plan};

/// The part of a directory that is being read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirectoryPart {
    /// The ledger's files.
    Ledger,
    /// The journal's files.
    Journal,
}

/// The findings of [`Directory::verify`].
#[derive(Debug, Default)]
pub struct DirectoryVerification {
    /// The secret cannot be used.
    pub secret: Option<DirectoryError>,
    /// The content of the ledger's files; `None` if it cannot be opened.
    pub ledger: Option<stats::LedgerVerification>,
    /// The error that keeps the ledger from opening.
    pub ledger_error: Option<LedgerError>,
    /// Bytes of a torn tail, which a crash leaves: nothing that was promised.
    pub ledger_torn_bytes: u64,
    /// Files of the ledger with what was put aside, of torn tails or by a repair, and their bytes.
    pub ledger_kept: Vec<(String, u64)>,
    /// The losses that were skipped when the ledger was opened, and may have been tidied away since.
    pub ledger_skipped: LogLosses,
    /// Files of the ledger that only repeat what others say, and were made anew.
    pub ledger_made_anew: Vec<String>,
    /// The content of the journal's files.
    pub journal: journal::JournalVerification,
    /// Other files that are not as they were written, or cannot be used, and why.
    pub settings: Vec<(PathBuf, String)>,
    /// Files that once were there.
    pub missing: Vec<MissingFile>,
    /// The files that others than the owner can get at: nothing is lost by that.
    pub exposed: LooseModes,
}

/// The work of [`Directory::repair`].
#[derive(Debug, Default)]
pub struct Repairs {
    /// Segments of the journal that were written anew.
    pub journal: Vec<journal::SegmentRepair>,
    /// Damaged segments of the ledger, which are kept under these names; all that could be had of them was written anew.
    pub ledger: Vec<PathBuf>,
    /// Segments of the ledger that are gone, and not missed any more.
    pub missing: Vec<String>,
    /// Keys of the ledger that were let go of, as their newest event lay ahead of the time.
    pub freed: u64,
    /// The distance by which that was ahead.
    pub ahead: stats::Ahead,
}

impl DirectoryVerification {
    /// Returns true if nothing is lost.
    pub fn is_sound(&self) -> bool {
        let DirectoryVerification {
            secret,
            ledger,
            ledger_error,
            ledger_skipped,
            journal,
            settings,
            missing,
            ..
        } = self;
        secret.is_none()
            && settings.is_empty()
            && missing.is_empty()
            && ledger_error.is_none()
            && ledger.as_ref().is_none_or(stats::LedgerVerification::is_sound)
            && ledger_skipped.is_empty()
            && journal.is_sound()
    }
}

impl Directory {
    /// Writes anew what can be had of damaged files, and keeps these beside. What is missing is not missed any more. Keys whose
    /// newest event lies ahead of `now` are let go of: their limits are open again, their counts begin anew.
    ///
    /// # Errors
    /// [`EngineOpenError::Device`] of the kind `WouldBlock` if it is in use, and what cannot be read or written.
    pub fn repair(&self, now: Time) -> Result<Repairs, EngineOpenError> {
        let secret = self.secret()?.fingerprint();
        let mut repaired = Repairs::default();
        let lock = FileDevice::open(self.ledger_path()).map_err(EngineOpenError::Device)?;
        repaired.journal = journal::repair(&self.journal_path(), secret)?;
        self.note_contents()?;
        drop(lock);
        self.repair_ledger(now, &mut repaired)?;
        Ok(repaired)
    }

    fn repair_ledger(&self, now: Time, repaired: &mut Repairs) -> Result<(), EngineOpenError> {
        let latest = Some(self.latest(now));
        let (ledger, recovery) = self.open_ledger(None)?;
        let found = ledger.verify(latest, &mut |_, _| {})?;
        let losses = [&recovery.losses, &found.files.losses];
        let damaged: BTreeSet<String> =
            losses.iter().flat_map(|losses| &losses.ranges).map(|range| range.segment.clone()).collect();
        if found.is_sound() && recovery.losses.is_empty() {
            ledger.close()?;
            return Ok(());
        }
        let path = self.ledger_path();
        let device = FileDevice::unlocked(&path).map_err(EngineOpenError::Device)?;
        for name in &damaged {
            repaired.ledger.push(path.join(keep_damaged(&device, name).map_err(io_error(&path))?));
        }
        repaired.freed = ledger.repair(damaged.into_iter().collect(), latest)?;
        repaired.ahead = found.ahead;
        repaired.missing = found.files.losses.missing;
        Ok(ledger.close()?)
    }

    /// The latest time that an event may have: as far ahead as pipelines allow.
    pub(crate) fn latest(&self, now: Time) -> Time {
        const UNKNOWN: Span = Span::hours(1);
        let plan = Plan::compile(&Config::load(&self.config_path(), &Overrides::default()));
        let skew = |plan: Plan| plan.pipelines.iter().map(|pipeline| pipeline.skew_max).max();
        now + plan.ok().and_then(skew).unwrap_or(UNKNOWN)
    }

    /// Files beside the ledger's that have what was put aside.
    fn kept_of_ledger(&self) -> Vec<(String, u64)> {
        let entries = std::fs::read_dir(self.ledger_path()).into_iter().flatten().flatten();
        let kept = entries.filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let is_kept = name.ends_with(TORN) || name.ends_with(DAMAGED);
            is_kept.then(|| entry.metadata().ok().map(|metadata| (name, metadata.len())))?
        });
        let mut kept: Vec<(String, u64)> = kept.collect();
        kept.sort_unstable();
        kept
    }

    /// Reads ledger and journal, under the secret of this fingerprint, if there is one.
    pub(crate) fn verify_data(
        &self,
        secret: Option<u64>,
        latest: Option<Time>,
        progress: &mut dyn FnMut(DirectoryPart, u64, u64),
    ) -> Result<DirectoryVerification, EngineOpenError> {
        let mut verified = DirectoryVerification::default();
        let ledger = match self.open_ledger(None) {
            Ok((ledger, recovery)) => {
                verified.ledger_torn_bytes = recovery.truncated_bytes;
                verified.ledger_kept = self.kept_of_ledger();
                verified.ledger_skipped = recovery.losses;
                verified.ledger_made_anew = recovery.hints_ignored;
                let list = recovery.manifest_made_anew.then(|| SEGMENT_LIST.to_owned());
                verified.ledger_made_anew.extend(list);
                verified.ledger =
                    Some(ledger.verify(latest, &mut |done, all| progress(DirectoryPart::Ledger, done, all))?);
                Some(ledger)
            }
            Err(EngineOpenError::Ledger(error)) => {
                verified.ledger_error = Some(error);
                None
            }
            Err(other) => return Err(other),
        };
        // The ledger's lock is that of the whole directory.
        let path = self.journal_path();
        verified.journal =
            journal::verify(&path, secret, &mut |done, all| progress(DirectoryPart::Journal, done, all))?;
        if let Some(ledger) = ledger {
            ledger.close()?;
        }
        Ok(verified)
    }
}
