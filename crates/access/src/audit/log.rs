//! The writing end of the log: appends, turns files, mends a torn end, forgets what is old.

use std::collections::BTreeMap;
use std::io;
use std::str::FromStr;

use disk::{Blob, Device};
use event::{Span, Time};
use serde::{Deserialize, Serialize};

use super::entry::{AuditEntry, AuditLine, CHANGE, ChainHash, LINE_BYTES_MAX, write_line};

/// The sealed file with the number and hash of a late line.
pub(super) const HEAD: &str = "head";
/// Detail of each file's first line: the hash before it.
pub(super) const PREVIOUS: &str = "previous";
/// The action of each file's first line.
pub(super) const SEGMENT: &str = "audit.segment";

/// Bounds of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuditOptions {
    /// Bytes at which a file is closed.
    pub segment_bytes: u64,
    /// Age of its last line at which a closed file is removed.
    pub keep: Span,
    /// Bytes of all files above which closed ones are removed, the oldest first.
    pub keep_bytes: u64,
}

impl Default for AuditOptions {
    fn default() -> AuditOptions {
        AuditOptions { segment_bytes: 8 << 20, keep: Span::days(400), keep_bytes: 1 << 30 }
    }
}

/// A line by its number and hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditHead {
    /// Its number; 0 before the first.
    pub number: u64,
    /// Its hash.
    pub chain: ChainHash,
}

impl FromStr for AuditHead {
    type Err = &'static str;

    /// Reads a number, a colon, and 64 hexadecimal digits.
    fn from_str(text: &str) -> Result<AuditHead, &'static str> {
        let read = || {
            let (number, chain) = text.split_once(':')?;
            Some(AuditHead { number: number.parse().ok()?, chain: ChainHash::from_hex(chain)? })
        };
        read().ok_or("expected a number, a colon, and 64 hexadecimal digits")
    }
}

/// Reasons for an entry that is not in the log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuditError {
    /// More is to be written than is written.
    #[error("the audit log does not keep up")]
    Busy,
    /// The log cannot be written.
    #[error("the audit log cannot be written: {0}")]
    Failed(String),
}

/// A file of the log.
#[derive(Clone, Debug)]
pub(super) struct AuditSegment {
    pub(super) name: String,
    /// The number of its first line.
    pub(super) first: u64,
}

fn segment_name(first: u64) -> String {
    format!("audit.{first:020}.ndjson")
}

/// The files of the log, in their order.
pub(super) fn segments(device: &dyn Device) -> io::Result<Vec<AuditSegment>> {
    let mut found: Vec<AuditSegment> = Vec::new();
    for name in device.list()? {
        let number = name.strip_prefix("audit.").and_then(|rest| rest.strip_suffix(".ndjson"));
        if let Some(first) = number.and_then(|digits| digits.parse().ok()) {
            found.push(AuditSegment { name, first });
        }
    }
    found.sort_unstable_by_key(|segment| segment.first);
    Ok(found)
}

/// Reads the noted head; `None` if there is none that can be read.
pub(super) fn read_head(device: &dyn Device) -> io::Result<Option<AuditHead>> {
    let blob = match device.open(HEAD) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        blob => blob?,
    };
    let bytes = disk::read_all(&*blob, 4096)?;
    Ok(disk::unseal(&bytes).and_then(|text| serde_json::from_slice(text).ok()))
}

/// The log of a directory, to be written by one alone: the caller holds the directory's lock.
#[derive(Debug)]
pub struct AuditLog {
    device: Box<dyn Device>,
    options: AuditOptions,
    head: AuditHead,
    /// The head that is noted in its file.
    noted: Option<AuditHead>,
    /// The file that is written, and its length.
    open: Option<(Box<dyn Blob>, u64)>,
    /// True if bytes may be there that are no line.
    is_torn: bool,
    is_synced: bool,
    changes: u64,
    /// The closed files: name, bytes, and the time of the last line.
    closed: Vec<(String, u64, Time)>,
    latest: Time,
    damage: Option<String>,
}

impl AuditLog {
    /// Opens the log of a directory. An end that a crash has torn is put aside and cut off.
    ///
    /// # Errors
    /// The device's.
    pub fn open(device: Box<dyn Device>, options: AuditOptions) -> io::Result<AuditLog> {
        let noted = read_head(&*device)?;
        let mut log = AuditLog {
            device,
            options,
            head: AuditHead { number: 0, chain: ChainHash::START },
            noted,
            open: None,
            is_torn: false,
            is_synced: true,
            changes: 0,
            closed: Vec::new(),
            latest: Time::default(),
            damage: None,
        };
        log.recover()?;
        if let Some(noted) = log.noted
            && noted.number > log.head.number
            && log.damage.is_none()
        {
            let lines = noted.number - log.head.number;
            log.damage = Some(format!("{lines} lines are missing at the end"));
            log.head = noted;
            log.open = None;
        }
        Ok(log)
    }

    /// Takes up the log where it ends.
    fn recover(&mut self) -> io::Result<()> {
        let mut found = segments(&*self.device)?;
        while let Some(segment) = found.pop() {
            let blob = self.device.open(&segment.name)?;
            let bytes = disk::read_all(&*blob, u64::MAX)?;
            let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            if end < bytes.len() {
                let torn = format!("{}.torn", segment.name);
                let aside = disk::create_anew(&*self.device, &torn)?;
                aside.append(&bytes[end..])?;
                aside.sync()?;
                blob.truncate(end as u64)?;
            }
            if end == 0 {
                // It was made, and no line of it was written.
                drop(blob);
                disk::remove_if_there(&*self.device, &segment.name)?;
                continue;
            }
            let mut last = None;
            for line in bytes[..end].split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                match AuditLine::read(line) {
                    Ok(line) => {
                        let change =
                            line.record.entry.detail.get(CHANGE).and_then(|number| number.parse().ok());
                        self.changes = self.changes.max(change.unwrap_or(0));
                        last = Some(line.record);
                    }
                    Err(error) => {
                        self.damage =
                            Some(format!("{} has a line that cannot be read: {error}", segment.name));
                        last = None;
                    }
                }
            }
            match last {
                Some(record) => {
                    self.head = AuditHead { number: record.number, chain: record.chain };
                    self.latest = record.entry.time;
                    self.open = Some((blob, end as u64));
                }
                // Its last line cannot be read: the chain goes on in a new file, from what is known.
                None => {
                    let lines = bytes[..end].iter().filter(|byte| **byte == b'\n').count() as u64;
                    let number = segment.first.saturating_add(lines).saturating_sub(1);
                    self.head = AuditHead { number, chain: ChainHash::START };
                    self.closed.push((segment.name.clone(), end as u64, Time::default()));
                }
            }
            break;
        }
        for segment in found {
            let blob = self.device.open(&segment.name)?;
            let bytes = blob.size()?;
            let last = last_line(&*blob, bytes)?.map_or(Time::default(), |record| record.entry.time);
            self.closed.push((segment.name, bytes, last));
        }
        self.closed.sort_unstable();
        Ok(())
    }

    /// The last line.
    pub fn head(&self) -> AuditHead {
        self.head
    }

    /// The number of the latest change of tokens that is in the log.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Returns what of the log was found to be damaged when it was opened.
    pub fn damage(&self) -> Option<&str> {
        self.damage.as_deref()
    }

    /// Appends entries. They are in the file when this returns, so that a process that is killed loses none; they are on the
    /// medium after [`AuditLog::sync`].
    ///
    /// # Errors
    /// The device's; nothing was appended then.
    pub fn append(&mut self, entries: impl IntoIterator<Item = AuditEntry>) -> io::Result<()> {
        let mut entries = entries.into_iter().map(AuditEntry::bounded).peekable();
        while let Some(first) = entries.peek() {
            self.latest = self.latest.max(first.time);
            self.mend()?;
            if self.open.as_ref().is_none_or(|(_, bytes)| *bytes >= self.options.segment_bytes) {
                self.turn(first.time)?;
            }
            let Some((blob, length)) = &mut self.open else {
                return Err(io::Error::other("no file is open"));
            };
            let (mut bytes, mut head, mut changes) = (Vec::new(), self.head, self.changes);
            while let Some(entry) =
                entries.next_if(|_| *length + (bytes.len() as u64) < self.options.segment_bytes.max(1))
            {
                head.number = head.number.saturating_add(1);
                let change = entry.detail.get(CHANGE).and_then(|number| number.parse().ok());
                changes = changes.max(change.unwrap_or(0));
                head.chain = write_line(head.number, &entry, head.chain, &mut bytes);
            }
            self.is_torn = true;
            self.is_synced = false;
            blob.append(&bytes)?;
            self.is_torn = false;
            *length += bytes.len() as u64;
            (self.head, self.changes) = (head, changes);
        }
        Ok(())
    }

    /// Cuts off what a failed write may have left.
    fn mend(&mut self) -> io::Result<()> {
        if self.is_torn
            && let Some((blob, length)) = &self.open
        {
            blob.truncate(*length)?;
        }
        self.is_torn = false;
        Ok(())
    }

    /// Begins a new file.
    fn turn(&mut self, now: Time) -> io::Result<()> {
        let number = self.head.number.saturating_add(1);
        let name = segment_name(number);
        let detail = BTreeMap::from([
            (PREVIOUS.to_owned(), self.head.chain.to_string()),
            (CHANGE.to_owned(), self.changes.to_string()),
        ]);
        let entry = AuditEntry {
            time: now,
            by: "tollhouse".to_owned(),
            from: None,
            action: SEGMENT.to_owned(),
            status: 200,
            detail,
        };
        let mut bytes = Vec::new();
        let chain = write_line(number, &entry, self.head.chain, &mut bytes);
        let blob = disk::create_anew(&*self.device, &name)?;
        blob.append(&bytes)?;
        blob.sync()?;
        self.device.sync_names()?;
        if let Some((old, length)) = self.open.take() {
            old.sync()?;
            let first = self.closed.last().map_or(0, |(name, _, _)| number_of(name));
            let open = segments(&*self.device)?;
            let named =
                open.into_iter().rev().find(|segment| segment.first < number && segment.first > first);
            self.closed.extend(named.map(|segment| (segment.name, length, self.latest)));
        }
        self.head = AuditHead { number, chain };
        self.open = Some((blob, bytes.len() as u64));
        self.is_synced = true;
        Ok(())
    }

    /// Makes all that was appended durable, and notes the head.
    ///
    /// # Errors
    /// The device's.
    pub fn sync(&mut self) -> io::Result<()> {
        if !self.is_synced
            && let Some((blob, _)) = &self.open
        {
            blob.sync().map_err(disk::sync_error)?;
            self.is_synced = true;
        }
        if self.noted != Some(self.head) && self.head.number > 0 {
            let text = serde_json::to_vec(&self.head)?;
            self.device.replace(HEAD, &disk::seal(&text))?;
            self.noted = Some(self.head);
        }
        Ok(())
    }

    /// Removes closed files that are too old, or too much, and says so in an entry of its own.
    ///
    /// # Errors
    /// The device's.
    pub fn forget(&mut self, now: Time) -> io::Result<()> {
        let open = self.open.as_ref().map_or(0, |(_, bytes)| *bytes);
        let mut all = self.closed.iter().map(|(_, bytes, _)| bytes).sum::<u64>() + open;
        let mut count = 0;
        for (_, bytes, latest) in &self.closed {
            if *latest + self.options.keep > now && all <= self.options.keep_bytes {
                break;
            }
            all -= bytes;
            count += 1;
        }
        let gone: Vec<_> = self.closed.drain(..count).collect();
        for (name, _, _) in &gone {
            disk::remove_if_there(&*self.device, name)?;
        }
        if let (Some((first, _, _)), Some((last, _, latest))) = (gone.first(), gone.last()) {
            let detail = [("first", first.clone()), ("last", last.clone()), ("until", latest.to_string())];
            self.append([AuditEntry {
                time: now,
                by: "tollhouse".to_owned(),
                from: None,
                action: "audit.forget".to_owned(),
                status: 200,
                detail: detail.map(|(name, text)| (name.to_owned(), text)).into(),
            }])?;
        }
        Ok(())
    }
}

fn number_of(name: &str) -> u64 {
    name.split('.').nth(1).and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

/// Reads the last line of a file, if that can be read.
fn last_line(blob: &dyn Blob, bytes: u64) -> io::Result<Option<super::AuditRecord>> {
    let from = bytes.saturating_sub(LINE_BYTES_MAX as u64);
    let mut tail = vec![0; (bytes - from) as usize];
    let read = disk::read_full(blob, from, &mut tail)?;
    tail.truncate(read);
    let line = tail.trim_ascii_end().rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
    Ok(AuditLine::read(line).ok().map(|line| line.record))
}
