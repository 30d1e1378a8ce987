//! Archives beside ZIP: tar (POSIX.1-1988 `ustar`) and TNEF (MS-OXTNEF, `winmail.dat`).

use memchr::{memchr, memmem};

use super::zip::FILES_MAX;

/// The files of a tar archive, in order.
pub(super) fn tar(content: &[u8]) -> Vec<(String, &[u8])> {
    const BLOCK: usize = 512;
    let mut files = Vec::new();
    let mut rest = content;
    while let Some((header, after)) = rest.split_at_checked(BLOCK) {
        let field = |at: usize, length: usize| {
            let field = &header[at..at + length];
            &field[..memchr(0, field).unwrap_or(length)]
        };
        let name = field(0, 100);
        if name.is_empty() || files.len() == FILES_MAX {
            break;
        }
        let octal = |text: &[u8]| usize::from_str_radix(std::str::from_utf8(text).ok()?.trim(), 8).ok();
        let Some(size) = octal(field(124, 12)) else { break };
        let content = &after[..size.min(after.len())];
        if matches!(header[156], 0 | b'0' | b'7') {
            files.push((String::from_utf8_lossy(name).into_owned(), content));
        }
        let Some(padded) = size.checked_next_multiple_of(BLOCK) else { break };
        rest = after.get(padded..).unwrap_or_default();
    }
    files
}

/// The attachments in a TNEF stream: names, where they have one, and contents.
pub(super) fn tnef(content: &[u8]) -> Vec<(Option<String>, &[u8])> {
    const RENDER_DATA: u32 = 0x0006_9002;
    const TITLE: u32 = 0x0001_8010;
    const DATA: u32 = 0x0006_800F;
    const PROPERTIES: u32 = 0x0006_9005;
    let mut files: Vec<(Option<String>, &[u8])> = Vec::new();
    let mut rest = content.get(6..).unwrap_or_default();
    while let Some((head, after)) = rest.split_at_checked(9) {
        let number = |at: usize| head[at..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
        let (id, length) = (number(1), usize::try_from(number(5)).unwrap_or(usize::MAX));
        let data = &after[..length.min(after.len())];
        if id == RENDER_DATA {
            if files.len() == FILES_MAX {
                break;
            }
            files.push((None, &[]));
        }
        if let Some((name, content)) = files.last_mut() {
            match id {
                TITLE if name.is_none() => *name = text(data),
                DATA => *content = data,
                // The long name says more than the one of eight letters and three.
                PROPERTIES => *name = long_name(data).or(name.take()),
                _ => {}
            }
        }
        // A checksum of two bytes follows.
        rest = after.get(length.saturating_add(2)..).unwrap_or_default();
    }
    files
}

fn text(data: &[u8]) -> Option<String> {
    let data = &data[..memchr(0, data).unwrap_or(data.len())];
    Some(String::from_utf8_lossy(data).into_owned()).filter(|text| !text.is_empty())
}

/// The property PidTagAttachLongFilename (0x3707), in UTF-16 or bytes.
fn long_name(properties: &[u8]) -> Option<String> {
    let value = |tag: &[u8]| {
        let at = memmem::find(properties, tag)? + tag.len();
        // A count of values, then a length, then the value.
        let length = u32::from_le_bytes(*properties.get(at + 4..)?.first_chunk()?);
        let value = properties.get(at + 8..)?;
        Some(&value[..usize::try_from(length).ok()?.min(value.len()).min(1_024)])
    };
    if let Some(value) = value(&[0x1F, 0, 0x07, 0x37]) {
        let units = value.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
        let units: Vec<u16> = units.take_while(|unit| *unit != 0).collect();
        return Some(String::from_utf16_lossy(&units)).filter(|name| !name.is_empty());
    }
    text(value(&[0x1E, 0, 0x07, 0x37])?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tar_files_are_found() {
        let mut raw = vec![0; 512];
        raw[..5].copy_from_slice(b"a.exe");
        raw[124..135].copy_from_slice(b"00000000003");
        raw[156] = b'0';
        raw.extend_from_slice(b"MZ!");
        raw.resize(1_024, 0);
        raw.extend_from_slice(&[0; 1_024]);
        assert_eq!(tar(&raw), [("a.exe".to_owned(), b"MZ!".as_slice())]);
        assert!(tar(&raw[..100]).is_empty());
    }

    #[test]
    fn tnef_attachments_are_found() {
        let attribute = |id: u32, data: &[u8]| {
            let length = (data.len() as u32).to_le_bytes();
            [&[2], id.to_le_bytes().as_slice(), &length, data, &[0, 0]].concat()
        };
        let mut long = vec![0x1F, 0, 0x07, 0x37, 1, 0, 0, 0, 12, 0, 0, 0];
        long.extend("long.e".encode_utf16().flat_map(u16::to_le_bytes));
        let raw = [
            b"\x78\x9f\x3e\x22\x01\0".to_vec(),
            attribute(0x0006_9002, &[0; 14]),
            attribute(0x0001_8010, b"A.EXE\0"),
            attribute(0x0006_800F, b"MZ"),
            attribute(0x0006_9002, &[0; 14]),
            attribute(0x0001_8010, b"LONG~1.E\0"),
            attribute(0x0006_9005, &long),
        ]
        .concat();
        let expected =
            [(Some("A.EXE".to_owned()), b"MZ".as_slice()), (Some("long.e".to_owned()), b"".as_slice())];
        assert_eq!(tnef(&raw), expected);
        assert!(tnef(b"\x78\x9f").is_empty());
    }
}
