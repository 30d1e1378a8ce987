//! The reading end of the log: pages of entries, and the verification of the chain.

use std::collections::VecDeque;
use std::io;

use disk::{Blob, Device};
use event::Time;
use serde::Deserialize;

use super::entry::{AuditLine, AuditRecord, ChainHash, LINE_BYTES_MAX};
use super::log::{AuditHead, AuditSegment, PREVIOUS, SEGMENT, read_head, segments};

/// Most faults that a verification lists.
const FAULTS_MAX: usize = 100;
/// Bytes that are read at once.
const CHUNK_BYTES: usize = 256 << 10;

/// The order of entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AuditOrder {
    /// The oldest first.
    #[default]
    Oldest,
    /// The newest first.
    Newest,
}

/// The entries that are asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditQuery {
    /// Only those behind this number.
    pub after: u64,
    /// Only those before this number.
    pub before: Option<u64>,
    /// The order in which they come.
    pub order: AuditOrder,
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
            && self.before.is_none_or(|before| *number < before)
            && self.since.is_none_or(|since| entry.time >= since)
            && self.by.as_ref().is_none_or(|by| *by == entry.by)
            && self.action.as_ref().is_none_or(is_action)
    }
}

/// Entries in the order that was asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditPage {
    /// The entries.
    pub records: Vec<AuditRecord>,
    /// The number of the last of them, if there is more: what `after`, or in the order of the newest `before`, of the next page is.
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
    // All lines of a file are before the next file's first.
    let ends = found.iter().skip(1).map(|next| next.first.saturating_sub(1)).chain([u64::MAX]);
    let is_asked = |(segment, last): &(&AuditSegment, u64)| {
        *last > query.after && query.before.is_none_or(|before| segment.first < before)
    };
    let mut asked: Vec<&AuditSegment> = found.iter().zip(ends).filter(is_asked).map(|(one, _)| one).collect();
    let mut page = AuditPage::default();
    if query.order == AuditOrder::Newest {
        asked.reverse();
    }
    for segment in asked {
        // One more than fits says that there is more.
        let wanted = query.limit.saturating_add(1).saturating_sub(page.records.len());
        let mut fitting = VecDeque::new();
        let is_read = scan(device, segment, go_on, &mut page.unread, &mut |record| {
            if !query.fits(&record) {
                return true;
            }
            if query.order == AuditOrder::Newest && fitting.len() >= wanted {
                fitting.pop_front();
            }
            fitting.push_back(record);
            query.order == AuditOrder::Newest || fitting.len() < wanted
        })?;
        match query.order {
            AuditOrder::Oldest => page.records.extend(fitting),
            AuditOrder::Newest => page.records.extend(fitting.into_iter().rev()),
        }
        if page.records.len() > query.limit {
            page.records.truncate(query.limit);
            page.next = page.records.last().map(|last| last.number);
            break;
        }
        if !is_read {
            break;
        }
    }
    Ok(page)
}

/// Hands the entries of a file to `take`, until that says that it has enough; returns false once nobody waits for them.
fn scan(
    device: &dyn Device,
    segment: &AuditSegment,
    go_on: &dyn Fn() -> bool,
    unread: &mut u64,
    take: &mut dyn FnMut(AuditRecord) -> bool,
) -> io::Result<bool> {
    let Some(mut lines) = open(device, segment)? else { return Ok(true) };
    let mut count: u32 = 0;
    while let Some(line) = lines.next_line()? {
        count = count.wrapping_add(1);
        if count.is_multiple_of(1024) && !go_on() {
            return Ok(false);
        }
        let read = match line {
            RawLine::Whole(line) => AuditLine::read(&line).ok(),
            RawLine::Torn => None,
        };
        match read {
            Some(AuditLine { record, .. }) => {
                if !take(record) {
                    return Ok(true);
                }
            }
            None => *unread += 1,
        }
    }
    Ok(true)
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
/// it was then. `go_on` is asked now and then whether anybody still waits.
///
/// # Errors
/// The device's, and one of the kind [`io::ErrorKind::Interrupted`] once nobody waits. A directory that is missing has no lines.
pub fn verify(
    device: &dyn Device,
    expected: Option<AuditHead>,
    go_on: &dyn Fn() -> bool,
) -> io::Result<AuditVerification> {
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
            if number.is_multiple_of(1024) && !go_on() {
                return Err(io::ErrorKind::Interrupted.into());
            }
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use disk::MemoryDevice;

    use super::super::entry::AuditEntry;
    use super::super::log::{AuditLog, AuditOptions};
    use super::*;

    /// A log of several files, with entries of two people.
    fn filled() -> MemoryDevice {
        let device = MemoryDevice::new();
        let options = AuditOptions { segment_bytes: 1000, ..AuditOptions::default() };
        let mut log = AuditLog::open(Box::new(device.clone()), options).unwrap();
        for second in 0..40 {
            let entry = AuditEntry {
                time: Time::from_seconds(second),
                by: if second % 2 == 0 { "ann" } else { "bob" }.to_owned(),
                from: None,
                action: "ban.add".to_owned(),
                status: 200,
                detail: BTreeMap::new(),
            };
            log.append([entry]).unwrap();
        }
        assert!(segments(&device).unwrap().len() > 3);
        device
    }

    #[test]
    fn pages_lead_through_the_log_from_either_end() {
        let device = filled();
        let query = AuditQuery { action: Some("ban".to_owned()), ..AuditQuery::default() };
        for (by, since, limit) in [(None, 0, 7), (Some("ann"), 0, 3), (None, 11, 1), (None, 0, 1000)] {
            let query = AuditQuery {
                by: by.map(str::to_owned),
                since: Some(Time::from_seconds(since)),
                limit,
                ..query.clone()
            };
            let through = |order: AuditOrder| {
                let mut query = AuditQuery { order, ..query.clone() };
                let mut numbers = Vec::new();
                loop {
                    let page = read(&device, &query, &|| true).unwrap();
                    assert!(page.records.len() <= limit && page.unread == 0);
                    numbers.extend(page.records.iter().map(|record| record.number));
                    match (order, page.next) {
                        (_, None) => return numbers,
                        (AuditOrder::Oldest, Some(next)) => query.after = next,
                        (AuditOrder::Newest, next) => query.before = next,
                    }
                }
            };
            let (oldest, mut newest) = (through(AuditOrder::Oldest), through(AuditOrder::Newest));
            newest.reverse();
            assert_eq!(oldest, newest, "{by:?} {since} {limit}");
            let expected = (since..40).filter(|second| by.is_none() || second % 2 == 0).count();
            assert_eq!(oldest.len(), expected, "{by:?} {since} {limit}");
        }
        let between = AuditQuery { after: 10, before: Some(12), limit: 5, ..AuditQuery::default() };
        let numbers: Vec<u64> =
            read(&device, &between, &|| true).unwrap().records.iter().map(|one| one.number).collect();
        assert_eq!(numbers, [11]);
    }

    #[test]
    fn nobody_is_told_of_a_chain_that_was_not_read_to_its_end() {
        let device = filled();
        assert_eq!(verify(&device, None, &|| true).unwrap().fault_count, 0);
        let long = MemoryDevice::new();
        let mut log = AuditLog::open(Box::new(long.clone()), AuditOptions::default()).unwrap();
        let entry = AuditEntry {
            time: Time::from_seconds(1),
            by: "ann".to_owned(),
            from: None,
            action: "ban.add".to_owned(),
            status: 200,
            detail: BTreeMap::new(),
        };
        log.append(std::iter::repeat_n(entry, 3000)).unwrap();
        let error = verify(&long, None, &|| false).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Interrupted);
    }
}
