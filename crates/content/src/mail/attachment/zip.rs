//! ZIP archives (PKWARE APPNOTE 6.3): the directory at the end and the headers before each file, neither of them
//! believed, and files inflated within a budget. Files that lie over each other are not read twice.
//!
//! Own code, as it must read archives that are wrong on purpose and report how; a library returns an error there.

use memchr::memmem;

use crate::budget::Budget;
use crate::deflate::{DeflateFormat, inflate};

/// Most files of an archive that are looked at.
pub(super) const FILES_MAX: usize = 500;
/// Most bytes of a name that are kept.
const NAME_BYTES_MAX: usize = 2_048;
/// Steps to read an entry, and for each byte of its name.
const ENTRY_STEPS: u64 = 300;
const STEPS_A_NAME_BYTE: u64 = 2;
/// The distance from its end within which an archive's directory is looked for: the longest comment and the record itself.
const END_BYTES_MAX: usize = 65_557;

/// A file in an archive.
#[derive(Clone, Debug)]
pub(super) struct ZipEntry<'z> {
    pub(super) name: String,
    pub(super) is_encrypted: bool,
    /// Checksum and size as the archive says, which are good for recognising the file but prove nothing.
    pub(super) crc: u32,
    pub(super) size: u64,
    method: u16,
    /// The start of its data.
    start: usize,
    data: &'z [u8],
    /// Its data lies over that of an entry before it, and is not read again.
    is_over_another: bool,
}

/// The part of an archive that was read.
#[derive(Debug, Default)]
pub(super) struct ZipArchive<'z> {
    pub(super) entries: Vec<ZipEntry<'z>>,
    /// The directory names other files than stand in the archive, or none can be read.
    pub(super) is_inconsistent: bool,
    pub(super) is_cut: bool,
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn usize_at(bytes: &[u8], at: usize) -> Option<usize> {
    usize::try_from(u32_at(bytes, at)?).ok()
}

/// Reads an archive's directory, or the headers of its files where there is none.
pub(super) fn read<'z>(content: &'z [u8], budget: &Budget) -> ZipArchive<'z> {
    let mut archive = listed(content, budget);
    if archive.entries.is_empty() {
        without_directory(content, budget, &mut archive);
    }
    archive.part_entries();
    archive
}

/// The entries of the directory at the end.
fn listed<'z>(content: &'z [u8], budget: &Budget) -> ZipArchive<'z> {
    let mut archive = ZipArchive::default();
    let tail = content.len().saturating_sub(END_BYTES_MAX);
    let end = memmem::rfind(&content[tail..], b"PK\x05\x06").map(|at| tail + at);
    let mut at = end.and_then(|end| {
        let size = usize_at(content, end + 12)?;
        let offset = usize_at(content, end + 16)?;
        // Something may stand before the archive: its directory ends where its end begins.
        [offset, end.checked_sub(size)?]
            .into_iter()
            .find(|&at| content.get(at..at + 4) == Some(b"PK\x01\x02"))
    });
    let shift = end.zip(at).and_then(|(end, at)| at.checked_sub(usize_at(content, end + 16)?)).unwrap_or(0);
    while let Some(start) = at.filter(|&at| content.get(at..at + 4) == Some(b"PK\x01\x02")) {
        let Some((entry, next)) = central(content, start, shift, &mut archive.is_inconsistent) else { break };
        if archive.entries.len() == FILES_MAX || !budget.spend(entry_steps(next - start)) {
            archive.is_cut = true;
            return archive;
        }
        archive.entries.push(entry);
        at = Some(next);
    }
    if archive.entries.is_empty() {
        archive.is_inconsistent = end.is_none_or(|end| u16_at(content, end + 10) != Some(0));
    }
    archive
}

/// Steps to read an entry whose names have so many bytes.
fn entry_steps(bytes: usize) -> u64 {
    ENTRY_STEPS + STEPS_A_NAME_BYTE * bytes as u64
}

/// A name as text, cut.
fn name_text(name: &[u8]) -> String {
    String::from_utf8_lossy(&name[..name.len().min(NAME_BYTES_MAX)]).into_owned()
}

impl ZipArchive<'_> {
    /// Finds the entries whose data lies over another's, as that of no honest archive does: such an entry has no content.
    fn part_entries(&mut self) {
        let mut order: Vec<usize> = (0..self.entries.len()).collect();
        order.sort_by_key(|&at| self.entries[at].start);
        let mut end = 0;
        for at in order {
            let entry = &mut self.entries[at];
            entry.is_over_another = !entry.data.is_empty() && entry.start < end;
            if entry.is_over_another {
                self.is_inconsistent = true;
            } else {
                end = end.max(entry.start + entry.data.len());
            }
        }
    }
}

/// Reads an entry of the directory and the header that it points to.
fn central<'z>(
    content: &'z [u8],
    at: usize,
    shift: usize,
    differs: &mut bool,
) -> Option<(ZipEntry<'z>, usize)> {
    let lengths = [28, 30, 32].map(|field| u16_at(content, at + field).map(usize::from));
    let [Some(name_length), Some(extra), Some(comment)] = lengths else { return None };
    let name = content.get(at + 46..at + 46 + name_length)?;
    let (flags, method) = (u16_at(content, at + 8)?, u16_at(content, at + 10)?);
    let packed = usize_at(content, at + 20)?;
    let local = usize_at(content, at + 42)?.checked_add(shift)?;
    let (start, data) = match local_header(content, local) {
        Some((start, local_name, local_flags, local_method)) => {
            *differs |= local_name != name || local_method != method || (local_flags ^ flags) & 1 != 0;
            let data = content.get(start..).unwrap_or_default();
            (start, &data[..packed.min(data.len())])
        }
        None => {
            *differs = true;
            (local, [].as_slice())
        }
    };
    let entry = ZipEntry {
        name: name_text(name),
        is_encrypted: flags & 1 != 0,
        crc: u32_at(content, at + 16)?,
        size: u32_at(content, at + 24)?.into(),
        method,
        start,
        data,
        is_over_another: false,
    };
    Some((entry, at + 46 + name_length + extra + comment))
}

/// The start of the data behind a file's header, its name, flags and method.
fn local_header(content: &[u8], at: usize) -> Option<(usize, &[u8], u16, u16)> {
    if content.get(at..at.checked_add(4)?)? != b"PK\x03\x04" {
        return None;
    }
    let name_length = usize::from(u16_at(content, at + 26)?);
    let extra = usize::from(u16_at(content, at + 28)?);
    let name = content.get(at + 30..at + 30 + name_length)?;
    Some((at + 30 + name_length + extra, name, u16_at(content, at + 6)?, u16_at(content, at + 8)?))
}

/// Takes the files that have a header. The data of each ends before the next header, whatever its own says.
fn without_directory<'z>(content: &'z [u8], budget: &Budget, archive: &mut ZipArchive<'z>) {
    let mut read_to = 0;
    for at in memmem::find_iter(content, b"PK\x03\x04") {
        if at < read_to {
            continue;
        }
        let Some((start, name, flags, method)) = local_header(content, at) else { continue };
        if archive.entries.len() == FILES_MAX || !budget.spend(entry_steps(name.len())) {
            archive.is_cut = true;
            return;
        }
        if let Some(last) = archive.entries.last_mut() {
            last.data = &last.data[..last.data.len().min(at.saturating_sub(last.start))];
        }
        let data = content.get(start..).unwrap_or_default();
        let packed = usize_at(content, at + 18).filter(|&packed| packed > 0);
        let data = &data[..packed.unwrap_or(data.len()).min(data.len())];
        // Without a size the data goes on to the next header, with one there is none within.
        read_to =
            if packed.is_some_and(|packed| packed < content.len() - at) { start + data.len() } else { start };
        archive.entries.push(ZipEntry {
            name: name_text(name),
            is_encrypted: flags & 1 != 0,
            crc: u32_at(content, at + 14).unwrap_or(0),
            size: u32_at(content, at + 22).unwrap_or(0).into(),
            method,
            start,
            data,
            is_over_another: false,
        });
    }
}

impl ZipEntry<'_> {
    /// Length of the packed data that is there.
    pub(super) fn packed(&self) -> usize {
        self.data.len()
    }

    /// At most `bytes_max` bytes of the file, and whether there was more; `None` if it is encrypted, packed in
    /// a way that is not known here, or lies over another.
    pub(super) fn content(&self, bytes_max: usize, budget: &Budget) -> Option<(Vec<u8>, bool)> {
        match self.method {
            _ if self.is_encrypted || self.is_over_another => None,
            0 => {
                let content = budget.cut_bytes(&self.data[..self.data.len().min(bytes_max)], 1);
                Some((content.to_vec(), self.data.len() > content.len()))
            }
            8 => {
                let inflated = inflate(self.data, DeflateFormat::Raw, bytes_max, budget);
                let is_cut = inflated.is_cut();
                Some((inflated.bytes, is_cut))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// An archive of files as they are, with a directory that calls the first one `first` where it is given.
    pub(in crate::mail::attachment) fn archive(files: &[(&str, &[u8])], first: Option<&str>) -> Vec<u8> {
        let mut out = Vec::new();
        let mut directory = Vec::new();
        for (number, (name, content)) in files.iter().enumerate() {
            let offset = out.len() as u32;
            let size = (content.len() as u32).to_le_bytes();
            let sizes = [[1, 2, 3, number as u8], size, size].concat();
            let lengths = |name: &str| [(name.len() as u16).to_le_bytes(), [0, 0]].concat();
            out.extend_from_slice(b"PK\x03\x04\x14\0\0\0\0\0\0\0\0\0");
            out.extend([sizes.as_slice(), &lengths(name), name.as_bytes(), content].concat());
            let name = first.filter(|_| number == 0).unwrap_or(name);
            directory.extend_from_slice(b"PK\x01\x02\x14\0\x14\0\0\0\0\0\0\0\0\0");
            directory.extend([sizes.as_slice(), &lengths(name), &[0; 10]].concat());
            directory.extend([offset.to_le_bytes().as_slice(), name.as_bytes()].concat());
        }
        let count = (files.len() as u16).to_le_bytes();
        let (size, offset) = ((directory.len() as u32).to_le_bytes(), (out.len() as u32).to_le_bytes());
        out.extend(directory);
        out.extend([b"PK\x05\x06\0\0\0\0".as_slice(), &count, &count, &size, &offset, &[0, 0]].concat());
        out
    }

    #[test]
    fn archives_are_read_with_and_without_directory() {
        let raw = archive(&[("a.txt", b"hello"), ("dir/b.exe", b"MZ")], None);
        for raw in [raw.as_slice(), &[b"before".as_slice(), &raw].concat(), &raw[..60]] {
            let read = read(raw, &Budget::ample());
            let first = &read.entries[0];
            assert_eq!(
                (first.name.as_str(), first.content(3, &Budget::ample())),
                ("a.txt", Some((b"hel".to_vec(), true)))
            );
            assert_eq!(read.is_inconsistent, raw.len() == 60);
        }
        assert_eq!(read(&raw, &Budget::ample()).entries.len(), 2);
        assert!(read(&archive(&[("a.exe", b"x")], Some("a.txt")), &Budget::ample()).is_inconsistent);
        assert!(read(b"PK\x05\x06", &Budget::ample()).entries.is_empty());
    }

    /// An archive whose directory points so many times at one file.
    fn overlapping(entries: usize, data: &[u8]) -> Vec<u8> {
        let size = (data.len() as u32).to_le_bytes();
        let sizes = [[0; 4], size, size].concat();
        let local =
            [b"PK\x03\x04\x14\0\0\0\x08\0\0\0\0\0".as_slice(), &sizes, &[1, 0, 0, 0], b"a", data].concat();
        let entry =
            [b"PK\x01\x02\x14\0\x14\0\0\0\x08\0\0\0\0\0".as_slice(), &sizes, &[1, 0, 0, 0], &[0; 14], b"a"];
        let directory = entry.concat().repeat(entries);
        let count = (entries as u16).to_le_bytes();
        let (size, at) = ((directory.len() as u32).to_le_bytes(), (local.len() as u32).to_le_bytes());
        [local, directory, [b"PK\x05\x06\0\0\0\0".as_slice(), &count, &count, &size, &at, &[0, 0]].concat()]
            .concat()
    }

    #[test]
    fn files_that_lie_over_each_other_are_inflated_once() {
        let mut spent = Vec::new();
        for entries in [1, 200] {
            let raw = overlapping(entries, &b"\x02\x08\x20\x80\0".repeat(500));
            let budget = Budget::ample();
            let archive = read(&raw, &budget);
            assert_eq!((archive.entries.len(), archive.is_inconsistent), (entries, entries > 1));
            let read = archive.entries.iter().filter(|entry| entry.content(1_000, &budget).is_some()).count();
            assert_eq!(read, 1);
            spent.push(budget.spent());
        }
        assert!(spent[1] < spent[0] + 200 * entry_steps(200), "{spent:?}");
    }

    #[test]
    fn files_without_a_directory_end_before_the_next() {
        let header = b"PK\x03\x04\x14\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\0\0\0a";
        let raw = [header.as_slice(), b"one", header, b"three"].concat();
        let archive = read(&raw, &Budget::ample());
        let contents: Vec<_> =
            archive.entries.iter().map(|entry| entry.content(100, &Budget::ample()).unwrap().0).collect();
        assert_eq!(contents, [b"one".to_vec(), b"three".to_vec()]);
    }
}
