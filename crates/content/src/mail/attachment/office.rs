//! Documents of office programs: what in them runs, hides or leads elsewhere.
//!
//! Compound files (MS-CFB) are looked over in slots of 128 bytes, each read as an entry of the directory:
//! entries always lie so, and no chain of sectors has to be followed, which a hostile file would have broken,
//! crossed or closed into a circle.

use memchr::memmem;

use super::zip::ZipArchive;

/// The findings about a document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct OfficeFindings {
    pub(super) macros: bool,
    /// A macro that runs when the document is opened or closed.
    pub(super) auto: bool,
    pub(super) is_encrypted: bool,
    /// Another program's object or file within.
    pub(super) object: bool,
    /// A template, frame or object that is fetched when the document is opened.
    pub(super) fetches: bool,
    /// True if the document installs programs.
    pub(super) installs: bool,
}

/// Looks over a compound file.
pub(super) fn compound(content: &[u8]) -> OfficeFindings {
    const ENTRY: usize = 128;
    let mut found = OfficeFindings::default();
    for slot in content.chunks_exact(ENTRY) {
        let length = usize::from(u16::from_le_bytes([slot[64], slot[65]]));
        if !matches!(slot[66], 1 | 2 | 5) || !(4..=64).contains(&length) || length % 2 != 0 {
            continue;
        }
        let units = slot[..length - 2].chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
        // Names of installers are packed into characters of their own.
        if slot[0..2] == [0x40, 0x48] {
            found.installs = true;
        }
        let name: String = char::decode_utf16(units).map(|c| c.unwrap_or('\u{FFFD}')).collect();
        match name.as_str() {
            "_VBA_PROJECT" | "_VBA_PROJECT_CUR" | "VBA" | "Macros" => found.macros = true,
            "EncryptedPackage" | "EncryptionInfo" => found.is_encrypted = true,
            "\u{1}Ole10Native" | "Equation Native" | "ObjectPool" => found.object = true,
            _ => {}
        }
    }
    if found.macros {
        found.auto = runs_by_itself(content);
    }
    found.is_encrypted |= word_is_encrypted(content);
    found
}

/// Names that office programs call by themselves; they stand in the clear beside the packed source.
fn runs_by_itself(content: &[u8]) -> bool {
    const NAMES: [&[u8]; 10] = [
        b"AutoOpen",
        b"Auto_Open",
        b"AutoExec",
        b"AutoClose",
        b"Auto_Close",
        b"Document_Open",
        b"DocumentOpen",
        b"Document_Close",
        b"Workbook_Open",
        b"Workbook_BeforeClose",
    ];
    NAMES.iter().any(|name| memmem::find(content, name).is_some())
}

/// The flag fEncrypted in the FIB of a Word document (MS-DOC, 2.5.2), which begins a sector.
fn word_is_encrypted(content: &[u8]) -> bool {
    let fib = |sector: &[u8]| sector[..2] == [0xEC, 0xA5] && sector[11] & 1 != 0;
    content.get(512..).is_some_and(|rest| rest.chunks_exact(512).take(4).any(fib))
}

/// Looks over the names in a package (ECMA-376, or OpenDocument). What its relations say is for [`relations`].
pub(super) fn package(archive: &ZipArchive<'_>) -> Option<OfficeFindings> {
    let has = |is: &dyn Fn(&str) -> bool| archive.entries.iter().any(|entry| is(&entry.name));
    if archive.entries.first().is_some_and(|first| first.name == "mimetype")
        && has(&|name| name == "content.xml")
    {
        return Some(OfficeFindings {
            macros: has(&|name| name.starts_with("Basic/")),
            ..OfficeFindings::default()
        });
    }
    if !has(&|name| name.eq_ignore_ascii_case("[Content_Types].xml")) {
        return None;
    }
    let lower_ends = |name: &str, end: &str| name.to_ascii_lowercase().ends_with(end);
    Some(OfficeFindings {
        macros: has(&|name| lower_ends(name, "vbaproject.bin") || name.contains("macrosheets/")),
        object: has(&|name| name.contains("embeddings/") && lower_ends(name, ".bin")),
        ..OfficeFindings::default()
    })
}

/// Returns true if a part of a package is one whose content matters here.
pub(super) fn is_telling(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.ends_with(".rels") || name == "[content_types].xml" || name.ends_with(".bin")
}

/// Returns true if a part of a package is a picture in a document.
pub(super) fn is_picture(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.contains("/media/") && [".png", ".jpg", ".jpeg", ".gif"].iter().any(|ending| name.ends_with(ending))
}

/// Reads relations or content types: what is fetched, what runs, and targets outside, given to `link`.
pub(super) fn relations(xml: &[u8], found: &mut OfficeFindings, mut link: impl FnMut(&str)) {
    found.macros |=
        memmem::find(xml, b"vbaProject").is_some() || memmem::find(xml, b"macroEnabled").is_some();
    let mut read_to = 0;
    for at in memmem::find_iter(xml, b"<Relationship ") {
        if at < read_to {
            continue;
        }
        let element = &xml[at..xml.len().min(at + 4_096)];
        let element = &element[..memchr::memchr(b'>', element).unwrap_or(element.len())];
        read_to = at + element.len();
        let attribute = |name: &[u8]| {
            let value = &element[memmem::find(element, name)? + name.len()..];
            let value = &value[..memchr::memchr(b'"', value)?];
            std::str::from_utf8(value).ok()
        };
        if attribute(b"TargetMode=\"") != Some("External") {
            continue;
        }
        let kind = attribute(b"Type=\"").unwrap_or_default();
        let fetched = ["/attachedTemplate", "/oleObject", "/frame", "/subDocument", "/externalLinkPath"];
        found.fetches |= fetched.iter().any(|end| kind.ends_with(end));
        if let Some(target) = attribute(b" Target=\"") {
            link(&target.replace("&amp;", "&"));
        }
    }
}

/// Finds out whether a rich text document holds another program's object, and whether it is fetched or run on opening.
pub(super) fn rich_text(content: &[u8]) -> OfficeFindings {
    let has = |mark: &[u8]| memmem::find(content, mark).is_some();
    let fetches = has(b"\\objupdate") || has(b"\\objautlink") || has(b"\\*\\template http");
    OfficeFindings {
        object: has(b"\\objdata") || has(b"\\objemb") || fetches,
        fetches,
        ..OfficeFindings::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Budget;
    use crate::mail::attachment::zip;

    fn entry(name: &str) -> Vec<u8> {
        let mut slot: Vec<u8> = name.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let length = slot.len() as u16 + 2;
        slot.resize(128, 0);
        slot[64..66].copy_from_slice(&length.to_le_bytes());
        slot[66] = 1;
        slot
    }

    #[test]
    fn compound_files_tell_what_they_hold() {
        let file = |names: &[&str], tail: &[u8]| {
            let mut file = vec![0xD0; 512];
            names.iter().for_each(|name| file.extend(entry(name)));
            file.extend_from_slice(tail);
            compound(&file)
        };
        assert_eq!(file(&["Root Entry", "WordDocument"], b""), OfficeFindings::default());
        let macros = OfficeFindings { macros: true, ..OfficeFindings::default() };
        assert_eq!(file(&["VBA"], b""), macros);
        assert_eq!(file(&["_VBA_PROJECT"], b"AutoOpen"), OfficeFindings { auto: true, ..macros });
        assert!(file(&["EncryptedPackage"], b"").is_encrypted && file(&["\u{1}Ole10Native"], b"").object);
        assert!(file(&["\u{4840}\u{3F7F}"], b"").installs);
    }

    #[test]
    fn packages_tell_what_they_hold() {
        let raw = zip::tests::archive(&[("[Content_Types].xml", b""), ("word/vbaProject.bin", b"")], None);
        assert!(
            package(&zip::read(&raw, &Budget::ample())).is_some_and(|found| found.macros && !found.object)
        );
        assert!(
            package(&zip::read(&zip::tests::archive(&[("a.txt", b"")], None), &Budget::ample())).is_none()
        );
        let mut found = OfficeFindings::default();
        let mut links = Vec::new();
        relations(
            br#"<Relationship Id="1" Type="http://x/attachedTemplate" Target="http://e.example/a?b&amp;c" TargetMode="External"/><Relationship Type="x/image" Target="media/a.png"/>"#,
            &mut found,
            |link| links.push(link.to_owned()),
        );
        assert!(found.fetches && !found.macros);
        assert_eq!(links, ["http://e.example/a?b&c"]);
        assert!(rich_text(b"{\\rtf1{\\object\\objdata 0105}").object);
    }
}
