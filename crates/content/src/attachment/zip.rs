//! ZIP archives (PKWARE APPNOTE 6.3): the directory at the end and the headers before each file, neither of them
//! believed, and files inflated within a budget.
//!
//! Own code, as it must read archives that are wrong on purpose and report how; a library returns an error there.

use flate2::{Decompress, FlushDecompress};
use memchr::memmem;

/// Most files of an archive that are looked at.
pub(super) const FILES_MAX: usize = 500;
/// How far from its end an archive's directory is looked for: the longest comment and the record itself.
const END_BYTES_MAX: usize = 65_557;

/// A file in an archive.
#[derive(Clone, Debug)]
pub(super) struct Entry<'z> {
    pub(super) name: String,
    pub(super) is_encrypted: bool,
    /// Checksum and size as the archive says, which are good for recognising the file but prove nothing.
    pub(super) crc: u32,
    pub(super) size: u64,
    method: u16,
    data: &'z [u8],
}

/// What was read of an archive.
#[derive(Debug, Default)]
pub(super) struct Archive<'z> {
    pub(super) entries: Vec<Entry<'z>>,
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
pub(super) fn read(content: &[u8]) -> Archive<'_> {
    let mut archive = Archive::default();
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
        if archive.entries.len() == FILES_MAX {
            archive.is_cut = true;
            return archive;
        }
        let Some((entry, next)) = central(content, start, shift, &mut archive.is_inconsistent) else { break };
        archive.entries.push(entry);
        at = Some(next);
    }
    if archive.entries.is_empty() {
        archive.is_inconsistent = end.is_none_or(|end| u16_at(content, end + 10) != Some(0));
        without_directory(content, &mut archive);
    }
    archive
}

/// Reads an entry of the directory and the header that it points to.
fn central<'z>(content: &'z [u8], at: usize, shift: usize, differs: &mut bool) -> Option<(Entry<'z>, usize)> {
    let lengths = [28, 30, 32].map(|field| u16_at(content, at + field).map(usize::from));
    let [Some(name_length), Some(extra), Some(comment)] = lengths else { return None };
    let name = content.get(at + 46..at + 46 + name_length)?;
    let (flags, method) = (u16_at(content, at + 8)?, u16_at(content, at + 10)?);
    let packed = usize_at(content, at + 20)?;
    let local = usize_at(content, at + 42)?.checked_add(shift)?;
    let data = match local_header(content, local) {
        Some((start, local_name, local_flags, local_method)) => {
            *differs |= local_name != name || local_method != method || (local_flags ^ flags) & 1 != 0;
            let data = content.get(start..).unwrap_or_default();
            &data[..packed.min(data.len())]
        }
        None => {
            *differs = true;
            &[]
        }
    };
    let entry = Entry {
        name: String::from_utf8_lossy(name).into_owned(),
        is_encrypted: flags & 1 != 0,
        crc: u32_at(content, at + 16)?,
        size: u32_at(content, at + 24)?.into(),
        method,
        data,
    };
    Some((entry, at + 46 + name_length + extra + comment))
}

/// Where the data behind a file's header begins, its name, flags and method.
fn local_header(content: &[u8], at: usize) -> Option<(usize, &[u8], u16, u16)> {
    if content.get(at..at.checked_add(4)?)? != b"PK\x03\x04" {
        return None;
    }
    let name_length = usize::from(u16_at(content, at + 26)?);
    let extra = usize::from(u16_at(content, at + 28)?);
    let name = content.get(at + 30..at + 30 + name_length)?;
    Some((at + 30 + name_length + extra, name, u16_at(content, at + 6)?, u16_at(content, at + 8)?))
}

/// Takes the files that have a header.
fn without_directory<'z>(content: &'z [u8], archive: &mut Archive<'z>) {
    let mut read_to = 0;
    for at in memmem::find_iter(content, b"PK\x03\x04") {
        if at < read_to {
            continue;
        }
        if archive.entries.len() == FILES_MAX {
            archive.is_cut = true;
            return;
        }
        let Some((start, name, flags, method)) = local_header(content, at) else { continue };
        let data = content.get(start..).unwrap_or_default();
        let packed = usize_at(content, at + 18).filter(|&packed| packed > 0).unwrap_or(data.len());
        let data = &data[..packed.min(data.len())];
        // Without a size the data goes on into the next header.
        if packed < content.len() - at {
            read_to = start + packed;
        }
        archive.entries.push(Entry {
            name: String::from_utf8_lossy(name).into_owned(),
            is_encrypted: flags & 1 != 0,
            crc: u32_at(content, at + 14).unwrap_or(0),
            size: u32_at(content, at + 22).unwrap_or(0).into(),
            method,
            data,
        });
    }
}

impl Entry<'_> {
    /// Length of the packed data that is there.
    pub(super) fn packed(&self) -> usize {
        self.data.len()
    }

    /// At most `bytes_max` bytes of the file, and whether there was more; `None` if it is encrypted or packed in
    /// a way that is not known here.
    pub(super) fn content(&self, bytes_max: usize) -> Option<(Vec<u8>, bool)> {
        match self.method {
            _ if self.is_encrypted => None,
            0 => Some((self.data[..self.data.len().min(bytes_max)].to_vec(), self.data.len() > bytes_max)),
            8 => Some(inflate(self.data, bytes_max, false)),
            _ => None,
        }
    }
}

/// At most `bytes_max` bytes of a deflated stream (RFC 1951, or RFC 1950 with a header), and whether there was
/// more. A damaged stream gives what comes before the damage. Memory grows with what comes out.
pub(super) fn inflate(packed: &[u8], bytes_max: usize, has_header: bool) -> (Vec<u8>, bool) {
    const STEP: usize = 32 * 1024;
    let mut inflater = Decompress::new(has_header);
    let mut out = Vec::new();
    loop {
        let before = (inflater.total_in(), out.len());
        out.reserve(STEP);
        let rest = &packed[usize::try_from(inflater.total_in()).unwrap_or(packed.len()).min(packed.len())..];
        let ends = match inflater.decompress_vec(rest, &mut out, FlushDecompress::None) {
            Ok(flate2::Status::StreamEnd) | Err(_) => true,
            Ok(_) => (inflater.total_in(), out.len()) == before,
        };
        if out.len() > bytes_max {
            out.truncate(bytes_max);
            return (out, true);
        }
        if ends {
            return (out, false);
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// An archive of files as they are, with a directory that calls the first one `first` where it is given.
    pub(in crate::attachment) fn archive(files: &[(&str, &[u8])], first: Option<&str>) -> Vec<u8> {
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
            let read = read(raw);
            let first = &read.entries[0];
            assert_eq!((first.name.as_str(), first.content(3)), ("a.txt", Some((b"hel".to_vec(), true))));
            assert_eq!(read.is_inconsistent, raw.len() == 60);
        }
        assert_eq!(read(&raw).entries.len(), 2);
        assert!(read(&archive(&[("a.exe", b"x")], Some("a.txt"))).is_inconsistent);
        assert!(read(b"PK\x05\x06").entries.is_empty());
    }

    #[test]
    fn inflating_is_bounded() {
        use std::io::Write;
        let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(&vec![0; 10_000_000]).unwrap();
        let packed = encoder.finish().unwrap();
        assert_eq!(inflate(&packed, 1_000, false), (vec![0; 1_000], true));
        assert_eq!(inflate(&packed, 20_000_000, false).0.len(), 10_000_000);
        assert!(!inflate(&packed[..10], 1_000_000, false).1);
        assert_eq!(inflate(b"\xff\xff\xff", 10, false), (Vec::new(), false));
    }
}
