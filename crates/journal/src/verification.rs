//! Verification that all records of a journal can still be read.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use disk::log::{DAMAGED, TORN};
use disk::{Device, FileDevice};

use super::file::JournalFile;
use super::files::{self, names_on, segments_on};
use super::manifest::JournalManifest;
use super::{
    DESCRIPTION_SUFFIX, JournalDamage, JournalError, MissingRecords, PIPELINE_SUFFIX, Record,
    read_description, read_side_file,
};
use crate::id::RecordId;

/// The findings of [`verify`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JournalVerification {
    /// Segments read.
    pub segments: u64,
    /// Records in intact blocks.
    pub records: u64,
    /// The parts that cannot be read.
    pub damage: Vec<JournalDamage>,
    /// The records that once were there, and are not in [`JournalVerification::damage`].
    pub lacking: Vec<MissingRecords>,
    /// The list of segments is missing or damaged.
    pub is_unlisted: bool,
    /// The keys were made with another secret than the one beside.
    pub is_of_another_secret: bool,
    /// Bytes of a torn tail, which a crash leaves: nothing that was promised. The next start puts them aside.
    pub torn_bytes: u64,
    /// Files with what was put aside, of torn tails or by a repair, and their bytes.
    pub kept: Vec<(String, u64)>,
    /// Versions whose description is missing or cannot be read, and how many rows cannot be understood without it.
    pub undescribed: Vec<(String, u64)>,
    /// Other files beside the segments that are missing or not as they were written.
    pub side_files: Vec<String>,
}

impl JournalVerification {
    /// Returns true if nothing is lost.
    pub fn is_sound(&self) -> bool {
        self.damage.is_empty()
            && self.lacking.is_empty()
            && self.undescribed.is_empty()
            && self.side_files.is_empty()
            && !self.is_unlisted
            && !self.is_of_another_secret
    }
}

/// Reads all segments in a directory that no process has open, checks every block and column, that every row has a
/// description, and that nothing is missing. Changes nothing. `secret` is the fingerprint of the secret, if there is one.
/// `progress` hears of bytes read and of all bytes.
///
/// # Errors
/// What the operating system says, or a segment of another format. Damage is in the answer.
pub fn verify(
    directory: &Path,
    secret: Option<u64>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<JournalVerification, JournalError> {
    let mut verified = JournalVerification::default();
    let device: Arc<dyn Device> = Arc::new(FileDevice::read_only(directory));
    let segments = segments_on(&device)?;
    let length = |file: &JournalFile| file.length().unwrap_or(0);
    let all: u64 = segments.iter().map(|(_, file)| length(file)).sum();
    let mut done = 0;
    let mut versions: BTreeMap<String, u64> = BTreeMap::new();
    let mut there: BTreeMap<RecordId, u64> = BTreeMap::new();
    let mut tail: Option<JournalDamage> = None;
    for (index, (first, file)) in segments.iter().enumerate() {
        let mut records = 0;
        let stretches = files::check(file, &mut |at| progress(done + at, all), &mut |read| {
            records += read.len() as u64;
            for (_, record) in read {
                if let Record::Decision(row) = record {
                    *versions.entry(row.version.clone()).or_default() += 1;
                }
            }
        })?;
        verified.segments += 1;
        verified.records += records;
        for stretch in stretches {
            let damage = stretch.in_file(file.name());
            match stretch.is_tail && index + 1 == segments.len() {
                true => tail = Some(damage),
                false => {
                    records += damage.records;
                    verified.damage.push(damage);
                }
            }
        }
        there.insert(*first, records);
        done += length(file);
        progress(done, all);
    }
    let found = JournalManifest::read(&*device)?;
    verified.is_unlisted = found.is_lost(&segments);
    match secret.map_or(Ok(JournalManifest::default()), |secret| found.known(secret, &*device)) {
        Ok(manifest) => verified.lacking = manifest.lacking(&there),
        Err(JournalError::Secret(_)) => verified.is_of_another_secret = true,
        Err(error) => return Err(error),
    }
    if let Some(tail) = tail {
        verified.add_tail(tail, segments.last().map(|(first, _)| *first));
    }
    verified.look_beside(&device)?;
    let undescribed = versions.into_iter().filter(|(version, _)| !is_described(&device, version));
    verified.undescribed.extend(undescribed);
    Ok(verified)
}

impl JournalVerification {
    /// Takes in the end of the newest segment: a crash tears what was written last, unless more was there once.
    fn add_tail(&mut self, tail: JournalDamage, newest: Option<RecordId>) {
        let lack = self.lacking.iter().position(|lack| Some(lack.first) == newest);
        match lack {
            None => self.torn_bytes += tail.to - tail.from,
            Some(lack) => {
                let MissingRecords { records, .. } = self.lacking.remove(lack);
                self.damage.push(JournalDamage { records: records.max(tail.records), ..tail });
            }
        }
    }

    /// Looks at the files beside the segments.
    fn look_beside(&mut self, device: &Arc<dyn Device>) -> Result<(), JournalError> {
        let names = names_on(&**device)?;
        for name in names.iter().cloned() {
            let file = JournalFile::new(device, name.as_str());
            let is_sealed = name.ends_with(DESCRIPTION_SUFFIX) || name.ends_with(PIPELINE_SUFFIX);
            if is_sealed && !matches!(read_side_file(&file), Ok(Some(_))) {
                self.side_files.push(name);
            } else if let Some(version) = name.strip_suffix(DESCRIPTION_SUFFIX) {
                let beside = format!("{version}{PIPELINE_SUFFIX}");
                self.side_files.extend((!names.contains(&beside)).then_some(beside));
            } else if name.ends_with(TORN) || name.ends_with(DAMAGED) {
                self.kept.push((name, file.length().unwrap_or(0)));
            }
        }
        self.side_files.sort_unstable();
        self.kept.sort_unstable();
        Ok(())
    }
}

fn is_described(device: &Arc<dyn Device>, version: &str) -> bool {
    version.bytes().all(|byte| byte.is_ascii_alphanumeric()) && read_description(device, version).is_ok()
}
