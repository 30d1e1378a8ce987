//! Erasure of what is known of some pieces, in a directory that nobody has open: their statistics, and the decisions on events that
//! had them.

use std::collections::HashSet;
use std::fs;
use std::io;

use event::Shingle;
use journal::{ErasedRecords, JournalError};
use stats::{CancellationCheck, ErasedKeys, Ledger};

use super::exchange::StatisticsExchangeError;
use super::{Directory, DirectoryError, io_error};
use crate::EngineOpenError;
use crate::ban_list::BanList;
use crate::posted_values::PostedValues;
use plan::Plan;

/// The report of an erasure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ErasureReport {
    /// Keys that had statistics, labels or distinct counts, and marks of distinct values.
    pub statistics: ErasedKeys,
    /// Decisions and feedback.
    pub records: ErasedRecords,
}

/// The report of an erasure in snapshots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotErasure {
    /// The number of those that were erased.
    pub erased: u64,
    /// The names of those that may still have something, each with the reason.
    pub left: Vec<(String, String)>,
    /// True if it was ended before all was done.
    pub is_ended: bool,
}

/// Reasons for an erasure that is missing or not complete.
#[derive(Debug, thiserror::Error)]
pub enum EraseError {
    /// Statistics.
    #[error(transparent)]
    Statistics(#[from] StatisticsExchangeError),
    /// The journal.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

impl Directory {
    /// Erases all that is known of pieces, by their shingles: every key of them, of whatever kind and space, and every
    /// decision on an event that had one, with what was said of it. Marks and admission: see [`Ledger::erase`]. What stays are
    /// numbers in which the piece was counted with others.
    ///
    /// No process may have the directory open. Without a plan the ledger is opened with the statistics that are stored. With
    /// `pretend` it only counts.
    ///
    /// # Errors
    /// [`EraseError`]; [`stats::LedgerError::Stopped`] once `is_over`. The statistics are erased first. It can be repeated.
    pub fn erase(
        &self,
        plan: Option<&Plan>,
        shingles: &HashSet<Shingle>,
        pretend: bool,
        is_over: CancellationCheck<'_>,
    ) -> Result<ErasureReport, EraseError> {
        let statistics = self.erase_statistics(plan, shingles, pretend, is_over)?;
        let records = self.erase_records(&self.lock()?, shingles, pretend)?;
        Ok(ErasureReport { statistics, records })
    }

    fn erase_statistics(
        &self,
        plan: Option<&Plan>,
        shingles: &HashSet<Shingle>,
        pretend: bool,
        is_over: CancellationCheck<'_>,
    ) -> Result<ErasedKeys, StatisticsExchangeError> {
        let (ledger, _) = self.open_ledger(plan)?;
        // The ledger of a directory waits for nothing but its disk.
        let erased = pollster::block_on(ledger.erase(shingles, pretend, is_over));
        ledger.close()?;
        Ok(erased?)
    }

    /// Erases the same in each snapshot that lies in this directory, unless `is_over`.
    ///
    /// # Errors
    /// If the snapshots cannot be listed. What is wrong with one of them is in the answer.
    pub fn erase_snapshots(
        &self,
        shingles: &HashSet<Shingle>,
        is_over: CancellationCheck<'_>,
    ) -> Result<SnapshotErasure, DirectoryError> {
        let mut done = SnapshotErasure::default();
        for name in self.snapshot_names()? {
            let snapshot = Directory::open(&self.snapshots_path().join(&name));
            let erased = match &snapshot {
                Ok(snapshot) => {
                    snapshot.erase(None, shingles, false, is_over).map_err(|error| error.to_string())
                }
                Err(error) => Err(error.to_string()),
            };
            // Then it has failed for that alone, or is not all that was to be done.
            if is_over() {
                done.is_ended = true;
                break;
            }
            match erased {
                Ok(report) if report.statistics.damaged == 0 => done.erased += 1,
                Ok(_) => done.left.push((name, "files of its ledger are damaged".to_owned())),
                Err(why) => done.left.push((name, why)),
            }
        }
        Ok(done)
    }

    /// Returns the names of the snapshots in the directory, oldest first.
    pub(crate) fn snapshot_names(&self) -> Result<Vec<String>, DirectoryError> {
        let path = self.snapshots_path();
        let entries = match fs::read_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(io_error(&path))?,
        };
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut names: Vec<String> = names.collect();
        names.sort();
        Ok(names)
    }

    /// Erases as [`Directory::erase`] does where statistics live elsewhere: what is here is erased, and then `elsewhere`
    /// erases those, or only counts them if it is told so; it answers how many keys there were.
    ///
    /// # Errors
    /// [`EraseError`].
    pub fn erase_over(
        &self,
        shingles: &HashSet<Shingle>,
        pretend: bool,
        elsewhere: impl FnOnce(&HashSet<Shingle>, bool) -> Result<u64, StatisticsExchangeError>,
    ) -> Result<ErasureReport, EraseError> {
        let lock = self.lock()?;
        let records = self.erase_records(&lock, shingles, pretend)?;
        let keys = elsewhere(shingles, pretend)?;
        Ok(ErasureReport { statistics: ErasedKeys { keys, ..ErasedKeys::default() }, records })
    }

    /// Sees to it that nobody else opens the directory.
    fn lock(&self) -> Result<disk::FileDevice, StatisticsExchangeError> {
        disk::FileDevice::open(self.ledger_path()).map_err(|error| EngineOpenError::Device(error).into())
    }

    /// Erases decisions and feedback, and what bouncers are told.
    fn erase_records(
        &self,
        _lock: &disk::FileDevice,
        shingles: &HashSet<Shingle>,
        pretend: bool,
    ) -> Result<ErasedRecords, EraseError> {
        let records = journal::erase(&self.journal_path(), shingles, pretend)?;
        if !pretend {
            let path = self.ban_list_path();
            let secret = self.secret().map_err(StatisticsExchangeError::Directory)?;
            BanList::erase(&path, |piece| shingles.contains(&secret.shingle(piece.as_bytes())))
                .map_err(|error| StatisticsExchangeError::Directory(io_error(&path)(error)))?;
            let is_meant = |value: &str| shingles.contains(&secret.shingle(value.as_bytes()));
            PostedValues::erase(&self.values_path(), is_meant).map_err(StatisticsExchangeError::Directory)?;
            let reviews = self.open_reviews().map_err(StatisticsExchangeError::Directory)?;
            let erased = reviews.erase(shingles);
            erased.map_err(|error| StatisticsExchangeError::Directory(io_error(self.path())(error)))?;
        }
        Ok(records)
    }
}
