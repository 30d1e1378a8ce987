//! Whether all that a journal holds can still be read.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::columns;
use super::files::{self, segments_in};
use super::segment::{self, Checked};
use super::{
    Description, JournalError, Record, SIDE_FILE_BYTES_MAX, description_file, io_error, segment_error,
};
use crate::id::RecordId;

/// What [`verify`] found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Segments read.
    pub segments: u64,
    /// Records in intact blocks.
    pub records: u64,
    /// What cannot be read.
    pub damage: Vec<Damage>,
    /// Bytes of a torn tail, which a crash leaves: nothing that was promised. The next start cuts them off.
    pub torn_bytes: u64,
    /// Versions whose description is missing or cannot be read, and how many rows cannot be understood without it.
    pub undescribed: Vec<(String, u64)>,
}

/// A stretch of a segment that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The file's name.
    pub segment: String,
    /// First byte.
    pub from: u64,
    /// Byte behind the last.
    pub to: u64,
    /// Records in it, as far as it says.
    pub records: u64,
    /// It is in the newest segment: the next start cuts off everything from there on.
    pub cut: bool,
}

impl Verified {
    /// Whether nothing is lost.
    pub fn is_sound(&self) -> bool {
        self.damage.is_empty() && self.undescribed.is_empty()
    }
}

/// Reads all segments in a directory that no process has open, checks every block and column, and that
/// every row has a description. Changes nothing. `progress` hears of bytes read and of all bytes.
///
/// # Errors
/// What the operating system says, or a segment of a later release. Damage is in the answer.
pub fn verify(directory: &Path, progress: &mut dyn FnMut(u64, u64)) -> Result<Verified, JournalError> {
    let mut verified = Verified::default();
    if !directory.exists() {
        return Ok(verified);
    }
    let segments = segments_in(directory)?;
    let length = |path: &Path| fs::metadata(path).map_or(0, |metadata| metadata.len());
    let all: u64 = segments.iter().map(|(_, path)| length(path)).sum();
    let mut done = 0;
    let mut versions: BTreeMap<String, u64> = BTreeMap::new();
    for (index, (_, path)) in segments.iter().enumerate() {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut count = |records: &[(RecordId, Record)]| {
            verified.records += records.len() as u64;
            for (_, record) in records {
                if let Record::Decision(row) = record {
                    *versions.entry(row.version.clone()).or_default() += 1;
                }
            }
        };
        verified.segments += 1;
        if files::is_columnar(path) {
            let file = fs::File::open(path).map_err(io_error(path))?;
            let damaged = columns::check(file, &mut |at| progress(done + at, all), &mut count);
            verified.damage.extend(damaged.map_err(segment_error(path))?.into_iter().map(|it| Damage {
                segment: name.clone(),
                from: it.from,
                to: it.to,
                records: it.records,
                cut: false,
            }));
            done += length(path);
            continue;
        }
        // Where each intact block begins, and how many records it has.
        let mut blocks: Vec<(u64, u64)> = Vec::new();
        let newest = index + 1 == segments.len();
        let checked = segment::check(path, &mut |at| progress(done + at, all), &mut |at, records| {
            if newest {
                blocks.push((at, records.len() as u64));
            }
            count(records);
        })?;
        done += checked.bytes;
        report(&mut verified, name, newest, &checked, &blocks);
        progress(done, all);
    }
    for (version, rows) in versions {
        if !is_described(directory, &version)? {
            verified.undescribed.push((version, rows));
        }
    }
    Ok(verified)
}

fn report(verified: &mut Verified, segment: String, newest: bool, checked: &Checked, blocks: &[(u64, u64)]) {
    let end = checked.tail.map(|from| (from, checked.bytes, 0));
    match checked.damage.first() {
        // A crash tears the end of what was written last.
        None if newest => verified.torn_bytes += end.map_or(0, |(from, to, _)| to - from),
        // At the next start the segment ends before it.
        Some((from, ..)) if newest && *from > 0 => {
            let said: u64 = checked.damage.iter().map(|(.., records)| records).sum();
            let intact: u64 = blocks.iter().filter(|(at, _)| at > from).map(|(_, records)| records).sum();
            let (to, records) = (checked.bytes, said + intact);
            verified.damage.push(Damage { segment, from: *from, to, records, cut: true });
        }
        _ => {
            verified.damage.extend(checked.damage.iter().copied().chain(end).map(|(from, to, records)| {
                Damage { segment: segment.clone(), from, to, records, cut: false }
            }))
        }
    }
}

fn is_described(directory: &Path, version: &str) -> Result<bool, JournalError> {
    if !version.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return Ok(false);
    }
    let path = directory.join(description_file(version));
    match fs::metadata(&path) {
        Ok(metadata) if metadata.len() <= SIDE_FILE_BYTES_MAX => {
            let bytes = fs::read(&path).map_err(io_error(&path))?;
            Ok(serde_json::from_slice::<Description>(&bytes).is_ok())
        }
        Ok(_) => Ok(false),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(io_error(&path)(error)),
    }
}
