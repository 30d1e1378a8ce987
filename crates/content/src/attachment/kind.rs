//! What a file is by its first bytes, whatever it calls itself.
//!
//! A short table of its own rather than a library's long one: what counts is whether a file runs, hides others
//! or can be looked into, and for that text forms (scripts, pages, calendars) matter as much as signatures.

use memchr::memmem;

/// The kinds of files that are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Elf,
    JavaClass,
    Lnk,
    MachO,
    Pe,
    Script,
    Installer,
    Chm,
    OneNote,
    Swf,
    Ace,
    Arj,
    Bzip2,
    Cab,
    Gzip,
    Rar,
    SevenZip,
    Tar,
    Xz,
    Zip,
    Zstd,
    Iso,
    Vhd,
    Ole,
    Office,
    Pdf,
    Rtf,
    Calendar,
    Tnef,
    Html,
    Svg,
    Message,
    Gif,
    Jpeg,
    Png,
    OtherImage,
    Media,
    Text,
    Data,
}

impl Kind {
    /// The name that the fact gives.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Elf => "elf",
            Kind::JavaClass => "java-class",
            Kind::Lnk => "lnk",
            Kind::MachO => "mach-o",
            Kind::Pe => "pe",
            Kind::Script => "script",
            Kind::Installer => "installer",
            Kind::Chm => "chm",
            Kind::OneNote => "onenote",
            Kind::Swf => "swf",
            Kind::Ace => "ace",
            Kind::Arj => "arj",
            Kind::Bzip2 => "bzip2",
            Kind::Cab => "cab",
            Kind::Gzip => "gzip",
            Kind::Rar => "rar",
            Kind::SevenZip => "7z",
            Kind::Tar => "tar",
            Kind::Xz => "xz",
            Kind::Zip => "zip",
            Kind::Zstd => "zstd",
            Kind::Iso => "iso",
            Kind::Vhd => "vhd",
            Kind::Ole => "ole",
            Kind::Office => "office",
            Kind::Pdf => "pdf",
            Kind::Rtf => "rtf",
            Kind::Calendar => "calendar",
            Kind::Tnef => "tnef",
            Kind::Html => "html",
            Kind::Svg => "svg",
            Kind::Message => "message",
            Kind::Gif => "gif",
            Kind::Jpeg => "jpeg",
            Kind::Png => "png",
            Kind::OtherImage => "image",
            Kind::Media => "media",
            Kind::Text => "text",
            Kind::Data => "data",
        }
    }

    /// Looks at the beginning of a file, and at the few places further on where some formats have their mark.
    pub(crate) fn of(content: &[u8]) -> Kind {
        let at =
            |offset: usize, mark: &[u8]| content.get(offset..).is_some_and(|rest| rest.starts_with(mark));
        match content {
            [b'M', b'Z', ..] if content.len() >= 64 => return Kind::Pe,
            [0x7F, b'E', b'L', b'F', ..] => return Kind::Elf,
            [0xFE, 0xED, 0xFA, 0xCE | 0xCF, ..] | [0xCE | 0xCF, 0xFA, 0xED, 0xFE, ..] => return Kind::MachO,
            // A fat Mach-O counts its few architectures where a class has its version, 45 or more.
            [0xCA, 0xFE, 0xBA, 0xBE, 0, 0, 0, n, ..] => {
                return if *n < 40 { Kind::MachO } else { Kind::JavaClass };
            }
            [0x4C, 0, 0, 0, 0x01, 0x14, 0x02, 0, ..] => return Kind::Lnk,
            [b'#', b'!', ..] => return Kind::Script,
            [b'I', b'T', b'S', b'F', ..] => return Kind::Chm,
            [0xE4, 0x52, 0x5C, 0x7B, 0x8C, 0xD8, 0xA7, 0x4D, ..] => return Kind::OneNote,
            [b'F' | b'C' | b'Z', b'W', b'S', 1..=50, ..] => return Kind::Swf,
            [0x60, 0xEA, _, _, ..] => return Kind::Arj,
            [b'B', b'Z', b'h', b'1'..=b'9', ..] => return Kind::Bzip2,
            [b'M', b'S', b'C', b'F', 0, ..] => return Kind::Cab,
            [0x1F, 0x8B, 8, ..] => return Kind::Gzip,
            [b'R', b'a', b'r', b'!', 0x1A, 0x07, ..] => return Kind::Rar,
            [b'7', b'z', 0xBC, 0xAF, 0x27, 0x1C, ..] => return Kind::SevenZip,
            [0xFD, b'7', b'z', b'X', b'Z', 0, ..] => return Kind::Xz,
            [b'P', b'K', 3, 4, ..] | [b'P', b'K', 5, 6, ..] => return Kind::Zip,
            [0x28, 0xB5, 0x2F, 0xFD, ..] => return Kind::Zstd,
            [0xD0, 0xCF, 0x11, 0xE0, 0xA1, 0xB1, 0x1A, 0xE1, ..] => return Kind::Ole,
            [b'{', b'\\', b'r', b't', ..] => return Kind::Rtf,
            [0x78, 0x9F, 0x3E, 0x22, ..] => return Kind::Tnef,
            [b'G', b'I', b'F', b'8', ..] => return Kind::Gif,
            [0xFF, 0xD8, 0xFF, ..] => return Kind::Jpeg,
            [0x89, b'P', b'N', b'G', ..] => return Kind::Png,
            [b'B', b'M', _, _, _, _, 0, 0, 0, 0, ..] | [b'I', b'I', 42, 0, ..] | [b'M', b'M', 0, 42, ..] => {
                return Kind::OtherImage;
            }
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => return Kind::OtherImage,
            [b'I', b'D', b'3', ..] | [b'O', b'g', b'g', b'S', ..] | [b'R', b'I', b'F', b'F', ..] => {
                return Kind::Media;
            }
            _ => {}
        }
        match () {
            () if at(7, b"**ACE**") => Kind::Ace,
            () if at(257, b"ustar") => Kind::Tar,
            () if at(4, b"ftyp") => Kind::Media,
            () if at(0x8001, b"CD001") => Kind::Iso,
            () if at(0, b"conectix") || at(0, b"vhdxfile") => Kind::Vhd,
            () if memmem::find(&content[..content.len().min(1_024)], b"%PDF-").is_some() => Kind::Pdf,
            () => Kind::of_text(content),
        }
    }

    /// Files of text, by what stands near their beginning.
    fn of_text(content: &[u8]) -> Kind {
        let start = &content[..content.len().min(1_024)];
        // UTF-16 is looked at without its zeros.
        let start: Vec<u8> = match start {
            [0xFF, 0xFE, ..] | [0xFE, 0xFF, ..] => {
                start[2..].iter().copied().filter(|byte| *byte != 0).collect()
            }
            _ => start.to_vec(),
        };
        let start = start.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(&start).to_ascii_lowercase();
        if start.contains(&0) {
            return Kind::Data;
        }
        let text = start.trim_ascii_start();
        let has = |mark: &[u8]| memmem::find(text, mark).is_some();
        let begins = |marks: &[&[u8]]| marks.iter().any(|mark| text.starts_with(mark));
        match () {
            () if begins(&[b"begin:vcalendar"]) => Kind::Calendar,
            () if has(b"<hta:application") || has(b"<job") && has(b"<script") => Kind::Script,
            () if begins(&[b"<svg"]) || has(b"<svg") && !has(b"<html") => Kind::Svg,
            () if has(b"<html") || has(b"<!doctype html") || has(b"<script") || has(b"<body") => Kind::Html,
            () if begins(&[b"<scriptlet", b"@echo off", b"on error resume next", b"[internetshortcut]"]) => {
                Kind::Script
            }
            () if has(b"wscript.")
                || has(b"activexobject(")
                || has(b"createobject(")
                || has(b"powershell") =>
            {
                Kind::Script
            }
            () if begins(&[b"received:", b"return-path:", b"mime-version:", b"delivered-to:"]) => {
                Kind::Message
            }
            () if text.is_empty() => Kind::Data,
            () => Kind::Text,
        }
    }

    /// Whether opening it runs what its author wrote.
    pub(crate) fn runs(self) -> bool {
        matches!(
            self,
            Kind::Elf
                | Kind::JavaClass
                | Kind::Lnk
                | Kind::MachO
                | Kind::Pe
                | Kind::Script
                | Kind::Installer
                | Kind::Chm
                | Kind::Swf
        )
    }

    /// Whether it holds other files.
    pub(crate) fn packs(self) -> bool {
        matches!(
            self,
            Kind::Ace
                | Kind::Arj
                | Kind::Bzip2
                | Kind::Cab
                | Kind::Gzip
                | Kind::Rar
                | Kind::SevenZip
                | Kind::Tar
                | Kind::Xz
                | Kind::Zip
                | Kind::Zstd
                | Kind::Iso
                | Kind::Vhd
        )
    }

    pub(crate) fn is_image(self) -> bool {
        matches!(self, Kind::Gif | Kind::Jpeg | Kind::Png | Kind::OtherImage)
    }

    /// Whether a file of this kind is not what its name or its declared type promises a reader: a program or an
    /// archive in the name of a document, a page in the name of an image. Kinds that programs write under each
    /// other's names are not told apart.
    pub(crate) fn belies(self, ending: &str, media_type: &str) -> bool {
        let promised = match ending {
            "pdf" => Kind::Pdf,
            "jpg" | "jpeg" | "png" | "gif" | "bmp" | "tif" | "tiff" | "webp" => Kind::Jpeg,
            "doc" | "xls" | "ppt" | "dot" | "xlt" | "pps" | "docx" | "xlsx" | "pptx" => Kind::Office,
            "txt" | "csv" | "log" => Kind::Text,
            "mp3" | "mp4" | "wav" | "avi" | "mov" => Kind::Media,
            "" => match media_type.split_once('/') {
                Some(("image", _)) => Kind::Jpeg,
                Some(("audio" | "video", _)) => Kind::Media,
                Some(("application", "pdf")) => Kind::Pdf,
                _ => return false,
            },
            _ => return false,
        };
        if self.runs() {
            return true;
        }
        match promised {
            Kind::Pdf => !matches!(self, Kind::Pdf | Kind::Data | Kind::Text),
            Kind::Jpeg => {
                self.packs() || matches!(self, Kind::Html | Kind::Pdf | Kind::Ole | Kind::Office | Kind::Rtf)
            }
            Kind::Office => self.packs() && self != Kind::Zip || self == Kind::Pdf,
            Kind::Text => self.packs() || matches!(self, Kind::Ole | Kind::Office),
            _ => self.packs() || matches!(self, Kind::Html | Kind::Ole | Kind::Office | Kind::Pdf),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_known_by_content() {
        let mut iso = vec![0; 0x8001];
        iso.extend(b"CD001");
        for (content, kind) in [
            ([b"MZ".as_slice(), &[0; 100]].concat().as_slice(), Kind::Pe),
            (b"\x7fELF\x02", Kind::Elf),
            (b"#!/bin/sh\n", Kind::Script),
            (b"\xca\xfe\xba\xbe\0\0\0\x02", Kind::MachO),
            (b"\xca\xfe\xba\xbe\0\0\0\x34", Kind::JavaClass),
            (b"%PDF-1.4", Kind::Pdf),
            (b"\n\n%PDF-1.4", Kind::Pdf),
            (b"  <!DOCTYPE html><p>", Kind::Html),
            (b"\xff\xfe<\0h\0t\0m\0l\0>\0", Kind::Html),
            (b"var x = new ActiveXObject('a')", Kind::Script),
            (b"BEGIN:VCALENDAR\r\n", Kind::Calendar),
            (b"<?xml version='1.0'?><svg/>", Kind::Svg),
            (b"hello", Kind::Text),
            (b"a\0b", Kind::Data),
            (&iso, Kind::Iso),
            (b"", Kind::Data),
        ] {
            assert_eq!(Kind::of(content), kind, "{:?}", &content[..content.len().min(20)]);
        }
    }

    #[test]
    fn files_belie_their_names() {
        assert!(
            Kind::Pe.belies("pdf", "") && Kind::Html.belies("pdf", "") && Kind::Pe.belies("", "image/png")
        );
        assert!(!Kind::Png.belies("jpg", "") && !Kind::Html.belies("xls", "") && !Kind::Pe.belies("exe", ""));
        assert!(!Kind::Html.belies("html", "text/html") && Kind::Rar.belies("docx", ""));
    }
}
