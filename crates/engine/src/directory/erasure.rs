//! Erasure of what is known of some pieces: their statistics, and the decisions on events that had them.

use std::collections::HashSet;
use std::fs;
use std::io::{self, BufReader, BufWriter, Write};

use event::Shingle;
use journal::{ErasedRecords, JournalError};
use serde::Deserialize;
use stats::Ledger;

use super::exchange::{ImportMode, StatisticsExchangeError, StatisticsSource};
use super::{Directory, io_error};
use crate::EngineOpenError;
use crate::ban_list::BanList;
use plan::Plan;

/// The report of an erasure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ErasureReport {
    /// Keys that had statistics, labels or distinct counts.
    pub keys: u64,
    /// Decisions and feedback.
    pub records: ErasedRecords,
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
    /// Statistics that cannot be read would be lost by writing the others anew.
    #[error("{0} keys cannot be read; nothing was erased")]
    Damaged(u64),
}

impl Directory {
    /// Erases all that is known of pieces, by their shingles: every key of them, of whatever kind and space, and every
    /// decision on an event that had one, with what was said of it. Admission sketches that may have seen one are emptied, of
    /// all keys. What stays are marks of exact distinct counts, which
    /// do not tell whose they are and end with their period, and numbers in which the piece was counted with others.
    ///
    /// No process may have the directory open. Statistics are written anew beside and put in their place; this takes
    /// as much room again, and is to be begun again if it is interrupted. With `pretend` it only counts. `tell` hears of keys
    /// looked through.
    ///
    /// # Errors
    /// [`EraseError`]. The journal is erased first.
    pub fn erase(
        &self,
        plan: &Plan,
        shingles: &HashSet<Shingle>,
        pretend: bool,
        tell: &mut dyn FnMut(u64),
    ) -> Result<ErasureReport, EraseError> {
        let path = self.path().join("erase.half");
        let erased = self.erase_with(plan, shingles, pretend, tell, &path);
        // It has what is kept, too, and is of no use without the rest of this.
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                erased.and(Err(StatisticsExchangeError::Directory(io_error(&path)(error)).into()))
            }
            _ => erased,
        }
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
        Ok(ErasureReport { keys: elsewhere(shingles, pretend)?, records })
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
            let reviews = self.open_reviews().map_err(StatisticsExchangeError::Directory)?;
            let erased = reviews.erase(shingles);
            erased.map_err(|error| StatisticsExchangeError::Directory(io_error(self.path())(error)))?;
        }
        Ok(records)
    }

    fn erase_with(
        &self,
        plan: &Plan,
        shingles: &HashSet<Shingle>,
        pretend: bool,
        tell: &mut dyn FnMut(u64),
        path: &std::path::Path,
    ) -> Result<ErasureReport, EraseError> {
        let file = disk::create(path);
        let file = file.map_err(|error| StatisticsExchangeError::Directory(io_error(path)(error)))?;
        let mut leaving =
            ErasingWriter { out: BufWriter::new(file), line: Vec::new(), shingles, left_out: 0 };
        let exported = self.export_statistics(&mut self.statistics()?, &mut leaving, tell)?;
        if exported.lost > 0 {
            return Err(EraseError::Damaged(exported.lost));
        }
        leaving.flush().map_err(StatisticsExchangeError::Write)?;
        let keys = leaving.left_out;
        let records = self.erase_records(&self.lock()?, shingles, pretend)?;
        if !pretend && (keys > 0 || self.has_sighted(plan, shingles)?) {
            let file = fs::File::open(path)
                .map_err(|error| StatisticsExchangeError::Directory(io_error(path)(error)))?;
            let mut kept = BufReader::new(file);
            self.import_statistics(plan, StatisticsSource::Stream(&mut kept), ImportMode::Replace, tell)?;
        }
        Ok(ErasureReport { keys, records })
    }

    /// Returns true if admission sketches may have seen keys that have no statistics yet. They go with the ledger that has
    /// them.
    fn has_sighted(&self, plan: &Plan, shingles: &HashSet<Shingle>) -> Result<bool, StatisticsExchangeError> {
        let (ledger, _) = self.open_ledger(Some(plan))?;
        let has = ledger.may_have_sighted(shingles);
        ledger.close()?;
        Ok(has)
    }
}

/// The part of a line that is read.
#[derive(Deserialize)]
struct ExportLineKey<'a> {
    #[serde(borrow)]
    shingle: Option<&'a str>,
    cells: Option<u64>,
}

/// Passes an export on, line by line, without the cells of some shingles.
struct ErasingWriter<'a, W> {
    out: W,
    /// Begun and not ended.
    line: Vec<u8>,
    shingles: &'a HashSet<Shingle>,
    left_out: u64,
}

impl<W: Write> ErasingWriter<'_, W> {
    fn pass(&mut self, line: &[u8]) -> io::Result<()> {
        let ExportLineKey { shingle, cells } = serde_json::from_slice(line)?;
        let shingle = shingle.and_then(|digits| u64::from_str_radix(digits, 16).ok()).map(Shingle);
        match (shingle, cells) {
            (Some(shingle), _) if self.shingles.contains(&shingle) => {
                self.left_out += 1;
                Ok(())
            }
            (None, Some(cells)) => {
                let kept = cells.saturating_sub(self.left_out);
                writeln!(self.out, "{{\"end\":true,\"cells\":{kept}}}")
            }
            _ => self.out.write_all(line),
        }
    }
}

impl<W: Write> Write for ErasingWriter<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(part);
            if part.ends_with(b"\n") {
                let line = std::mem::take(&mut self.line);
                self.pass(&line)?;
                self.line = line;
                self.line.clear();
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
