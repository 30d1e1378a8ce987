//! The reading end of the log: pages of entries, and the verification of the chain.

use std::io;

use disk::{Blob, Device};
use event::Time;

use super::entry::{AuditLine, AuditRecord, ChainHash, LINE_BYTES_MAX};
use super::log::{AuditHead, AuditSegment, PREVIOUS, SEGMENT, read_head, segments};

/// Most faults that a verification lists.
const FAULTS_MAX: usize = 100;
/// Bytes that are read at once.
const CHUNK_BYTES: usize = 256 << 10;

/// The entries that are asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditQuery {
    /// Only those behind this number.
    pub after: u64,
    /// Only those of this time and later.
    pub since: Option<Time>,
    /// Only those of this token or user.
    pub by: Option<String>,
    /// Only those whose action is this, or begins with this and a dot.
    pub action: Option<String>,
    /// Most entries.
    pub limit: usize,
}

impl AuditQuery {
    fn fits(&self, record: &AuditRecord) -> bool {
        let AuditRecord { number, entry, .. } = record;
        let is_action = |wanted: &String| {
            entry
                .action
                .strip_prefix(wanted.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        *number > self.after
            && self.since.is_none_or(|since| entry.time >= since)
            && self.by.as_ref().is_none_or(|by| *by == entry.by)
            && self.action.as_ref().is_none_or(is_action)
    }
}

/// Entries, the oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditPage {
    /// The entries.
    pub records: Vec<AuditRecord>,
    /// The number behind which the next page begins, if there is more.
    pub next: Option<u64>,
    /// The number of lines that could not be read.
    pub unread: u64,
}

/// The lines of a file, one after the other.
struct AuditLines {
    blob: Box<dyn Blob>,
    at: u64,
    /// Bytes that were read and not yet given out, from `from` on.
    ahead: Vec<u8>,
    from: usize,
}

/// A line of a file, without its end.
enum RawLine {
    Whole(Vec<u8>),
    /// Bytes without an end, or a line that is too long.
    Torn,
}

impl AuditLines {
    fn of(blob: Box<dyn Blob>) -> AuditLines {
        AuditLines { blob, at: 0, ahead: Vec::new(), from: 0 }
    }

    fn next_line(&mut self) -> io::Result<Option<RawLine>> {
        let mut is_long = false;
        let mut searched = self.from;
        loop {
            if let Some(end) = self.ahead[searched..].iter().position(|byte| *byte == b'\n') {
                let line = self.ahead[self.from..searched + end].to_vec();
                self.from = searched + end + 1;
                return Ok(Some(if is_long { RawLine::Torn } else { RawLine::Whole(line) }));
            }
            self.ahead.drain(..self.from);
            self.from = 0;
            if self.ahead.len() > LINE_BYTES_MAX {
                is_long = true;
                self.ahead.clear();
            }
            searched = self.ahead.len();
            self.ahead.resize(searched + CHUNK_BYTES, 0);
            let read = disk::read_full(&*self.blob, self.at, &mut self.ahead[searched..])?;
            self.ahead.truncate(searched + read);
            self.at += read as u64;
            if read == 0 {
                let is_torn = is_long || !self.ahead.is_empty();
                self.ahead.clear();
                return Ok(is_torn.then_some(RawLine::Torn));
            }
        }
    }
}

fn open(device: &dyn Device, segment: &AuditSegment) -> io::Result<Option<AuditLines>> {
    match device.open(&segment.name) {
        // It was forgotten meanwhile.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        blob => Ok(Some(AuditLines::of(blob?))),
    }
}

/// Reads entries, beside whoever writes them. `go_on` is asked now and then whether anybody still waits.
///
/// # Errors
/// The device's. A directory that is missing has no entries.
pub fn read(device: &dyn Device, query: &AuditQuery, go_on: &dyn Fn() -> bool) -> io::Result<AuditPage> {
    let found = match segments(device) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(AuditPage::default()),
        found => found?,
    };
    let mut page = AuditPage::default();
    for (at, segment) in found.iter().enumerate() {
        // All of its lines are before the next file's first.
        if found.get(at + 1).is_some_and(|next| next.first <= query.after.saturating_add(1)) {
            continue;
        }
        let Some(mut lines) = open(device, segment)? else { continue };
        let mut count: u32 = 0;
        while let Some(line) = lines.next_line()? {
            count = count.wrapping_add(1);
            if count.is_multiple_of(1024) && !go_on() {
                return Ok(page);
            }
            let RawLine::Whole(line) = line else {
                page.unread += 1;
                continue;
            };
            match AuditLine::read(&line) {
                Ok(AuditLine { record, .. }) if query.fits(&record) => {
                    if page.records.len() >= query.limit {
                        page.next = page.records.last().map(|last| last.number);
                        return Ok(page);
                    }
                    page.records.push(record);
                }
                Ok(_) => {}
                Err(_) => page.unread += 1,
            }
        }
    }
    Ok(page)
}

/// A place at which the chain does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditFault {
    /// The file.
    pub file: String,
    /// The line in it, from 1 on; 0 for the file as a whole.
    pub line: u64,
    /// The fault.
    pub why: String,
}

/// The result of a verification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditVerification {
    /// The number of lines that were read.
    pub lines: u64,
    /// The number of the first line that is there; 0 if there is none.
    pub first: u64,
    /// The last line.
    pub head: AuditHead,
    /// The places at which the chain does not hold; the first hundred of them.
    pub faults: Vec<AuditFault>,
    /// The number of all faults.
    pub fault_count: u64,
    /// Bytes at the end that are no whole line: a crash, or a write under way.
    pub is_torn: bool,
}

impl AuditVerification {
    fn fault(&mut self, file: &str, line: u64, why: impl Into<String>) {
        self.fault_count += 1;
        if self.faults.len() < FAULTS_MAX {
            self.faults.push(AuditFault { file: file.to_owned(), line, why: why.into() });
        }
    }
}

/// Verifies the chain of a directory: that no line was changed, removed or put in since it was written, as far as the files
/// themselves can prove that. `expected` is a line that was noted elsewhere: with it, all up to that line is proved to be what
/// it was then.
///
/// # Errors
/// The device's. A directory that is missing has no lines.
pub fn verify(device: &dyn Device, expected: Option<AuditHead>) -> io::Result<AuditVerification> {
    let mut found = AuditVerification {
        lines: 0,
        first: 0,
        head: AuditHead { number: 0, chain: ChainHash::START },
        faults: Vec::new(),
        fault_count: 0,
        is_torn: false,
    };
    let files = match segments(device) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        files => files?,
    };
    // Read before the lines, so that none is written in between.
    let noted = read_head(device)?;
    let (mut noted_seen, mut expected_seen) = (false, false);
    let mut before: Option<AuditHead> = None;
    let count = files.len();
    for (at, segment) in files.iter().enumerate() {
        let Some(mut lines) = open(device, segment)? else { continue };
        let mut number: u64 = 0;
        while let Some(line) = lines.next_line()? {
            number += 1;
            let line = match line {
                RawLine::Whole(line) => line,
                RawLine::Torn if at + 1 == count => {
                    found.is_torn = true;
                    continue;
                }
                RawLine::Torn => {
                    found.fault(&segment.name, number, "it has no end");
                    continue;
                }
            };
            found.lines += 1;
            let line = match AuditLine::read(&line) {
                Ok(line) => line,
                Err(error) => {
                    found.fault(&segment.name, number, error.to_string());
                    continue;
                }
            };
            let record = &line.record;
            if number == 1 && (record.number != segment.first || record.entry.action != SEGMENT) {
                found.fault(&segment.name, 1, "the file does not begin with its first line");
            }
            let previous = || record.entry.detail.get(PREVIOUS).and_then(|hex| ChainHash::from_hex(hex));
            let last = match before {
                Some(last) => last,
                // What was before is not there: the first file names it.
                None => AuditHead {
                    number: record.number.saturating_sub(1),
                    chain: previous().filter(|_| number == 1).unwrap_or(ChainHash::START),
                },
            };
            if found.first == 0 {
                found.first = record.number;
            }
            let expects = last.number.saturating_add(1);
            if record.number != expects {
                let why = format!(
                    "the number {} follows {}: lines are missing or were put in",
                    record.number, last.number
                );
                found.fault(&segment.name, number, why);
            } else if !line.follows(last.chain) {
                let why = "it was changed, or a line before it was changed, removed or put in";
                found.fault(&segment.name, number, why);
            }
            let here = AuditHead { number: record.number, chain: record.chain };
            for (wanted, seen) in [(noted, &mut noted_seen), (expected, &mut expected_seen)] {
                if wanted == Some(here) {
                    *seen = true;
                }
            }
            before = Some(here);
        }
    }
    found.head = before.unwrap_or(found.head);
    for (wanted, seen, origin) in
        [(noted, noted_seen, "`head` notes"), (expected, expected_seen, "was expected")]
    {
        let Some(wanted) = wanted.filter(|_| !seen) else { continue };
        let why = if wanted.number > found.head.number {
            let lines = wanted.number - found.head.number;
            format!("{lines} lines are missing at the end: line {} {origin}", wanted.number)
        } else if wanted.number < found.first {
            format!("line {} {origin}, and was forgotten since: it can no longer be compared", wanted.number)
        } else {
            format!("line {} is not the one that {origin}: lines were rewritten", wanted.number)
        };
        found.fault("head", 0, why);
    }
    Ok(found)
}
