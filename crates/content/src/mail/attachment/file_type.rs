//! The type of a file by its first bytes, whatever its name.
//!
//! A short table of its own rather than a library's long one: what counts is whether a file runs, hides others
//! or can be looked into, and for that text forms (scripts, pages, calendars) matter as much as signatures.

use memchr::memmem;

/// The kinds of files that are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileType {
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

impl FileType {
    /// The name that the fact gives.
    pub(crate) fn name(self) -> &'static str {
        match self {
            FileType::Elf => "elf",
            FileType::JavaClass => "java-class",
            FileType::Lnk => "lnk",
            FileType::MachO => "mach-o",
            FileType::Pe => "pe",
            FileType::Script => "script",
            FileType::Installer => "installer",
            FileType::Chm => "chm",
            FileType::OneNote => "onenote",
            FileType::Swf => "swf",
            FileType::Ace => "ace",
            FileType::Arj => "arj",
            FileType::Bzip2 => "bzip2",
            FileType::Cab => "cab",
            FileType::Gzip => "gzip",
            FileType::Rar => "rar",
            FileType::SevenZip => "7z",
            FileType::Tar => "tar",
            FileType::Xz => "xz",
            FileType::Zip => "zip",
            FileType::Zstd => "zstd",
            FileType::Iso => "iso",
            FileType::Vhd => "vhd",
            FileType::Ole => "ole",
            FileType::Office => "office",
            FileType::Pdf => "pdf",
            FileType::Rtf => "rtf",
            FileType::Calendar => "calendar",
            FileType::Tnef => "tnef",
            FileType::Html => "html",
            FileType::Svg => "svg",
            FileType::Message => "message",
            FileType::Gif => "gif",
            FileType::Jpeg => "jpeg",
            FileType::Png => "png",
            FileType::OtherImage => "image",
            FileType::Media => "media",
            FileType::Text => "text",
            FileType::Data => "data",
        }
    }

    /// Looks at the beginning of a file, and at the few places further on where some formats have their mark.
    pub(crate) fn of(content: &[u8]) -> FileType {
        let at =
            |offset: usize, mark: &[u8]| content.get(offset..).is_some_and(|rest| rest.starts_with(mark));
        match content {
            [b'M', b'Z', ..] if content.len() >= 64 => return FileType::Pe,
            [0x7F, b'E', b'L', b'F', ..] => return FileType::Elf,
            [0xFE, 0xED, 0xFA, 0xCE | 0xCF, ..] | [0xCE | 0xCF, 0xFA, 0xED, 0xFE, ..] => {
                return FileType::MachO;
            }
            // A fat Mach-O counts its few architectures where a class has its version, 45 or more.
            [0xCA, 0xFE, 0xBA, 0xBE, 0, 0, 0, n, ..] => {
                return if *n < 40 { FileType::MachO } else { FileType::JavaClass };
            }
            [0x4C, 0, 0, 0, 0x01, 0x14, 0x02, 0, ..] => return FileType::Lnk,
            [b'#', b'!', ..] => return FileType::Script,
            [b'I', b'T', b'S', b'F', ..] => return FileType::Chm,
            [0xE4, 0x52, 0x5C, 0x7B, 0x8C, 0xD8, 0xA7, 0x4D, ..] => return FileType::OneNote,
            [b'F' | b'C' | b'Z', b'W', b'S', 1..=50, ..] => return FileType::Swf,
            [0x60, 0xEA, _, _, ..] => return FileType::Arj,
            [b'B', b'Z', b'h', b'1'..=b'9', ..] => return FileType::Bzip2,
            [b'M', b'S', b'C', b'F', 0, ..] => return FileType::Cab,
            [0x1F, 0x8B, 8, ..] => return FileType::Gzip,
            [b'R', b'a', b'r', b'!', 0x1A, 0x07, ..] => return FileType::Rar,
            [b'7', b'z', 0xBC, 0xAF, 0x27, 0x1C, ..] => return FileType::SevenZip,
            [0xFD, b'7', b'z', b'X', b'Z', 0, ..] => return FileType::Xz,
            [b'P', b'K', 3, 4, ..] | [b'P', b'K', 5, 6, ..] => return FileType::Zip,
            [0x28, 0xB5, 0x2F, 0xFD, ..] => return FileType::Zstd,
            [0xD0, 0xCF, 0x11, 0xE0, 0xA1, 0xB1, 0x1A, 0xE1, ..] => return FileType::Ole,
            [b'{', b'\\', b'r', b't', ..] => return FileType::Rtf,
            [0x78, 0x9F, 0x3E, 0x22, ..] => return FileType::Tnef,
            [b'G', b'I', b'F', b'8', ..] => return FileType::Gif,
            [0xFF, 0xD8, 0xFF, ..] => return FileType::Jpeg,
            [0x89, b'P', b'N', b'G', ..] => return FileType::Png,
            [b'B', b'M', _, _, _, _, 0, 0, 0, 0, ..] | [b'I', b'I', 42, 0, ..] | [b'M', b'M', 0, 42, ..] => {
                return FileType::OtherImage;
            }
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => return FileType::OtherImage,
            [b'I', b'D', b'3', ..] | [b'O', b'g', b'g', b'S', ..] | [b'R', b'I', b'F', b'F', ..] => {
                return FileType::Media;
            }
            _ => {}
        }
        match () {
            () if at(7, b"**ACE**") => FileType::Ace,
            () if at(257, b"ustar") => FileType::Tar,
            () if at(4, b"ftyp") => FileType::Media,
            () if at(0x8001, b"CD001") => FileType::Iso,
            () if at(0, b"conectix") || at(0, b"vhdxfile") => FileType::Vhd,
            () if memmem::find(&content[..content.len().min(1_024)], b"%PDF-").is_some() => FileType::Pdf,
            () => FileType::of_text(content),
        }
    }

    /// Files of text, by what stands near their beginning.
    fn of_text(content: &[u8]) -> FileType {
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
            return FileType::Data;
        }
        let text = start.trim_ascii_start();
        let has = |mark: &[u8]| memmem::find(text, mark).is_some();
        let begins = |marks: &[&[u8]]| marks.iter().any(|mark| text.starts_with(mark));
        match () {
            () if begins(&[b"begin:vcalendar"]) => FileType::Calendar,
            () if has(b"<hta:application") || has(b"<job") && has(b"<script") => FileType::Script,
            () if begins(&[b"<svg"]) || has(b"<svg") && !has(b"<html") => FileType::Svg,
            () if has(b"<html") || has(b"<!doctype html") || has(b"<script") || has(b"<body") => {
                FileType::Html
            }
            () if begins(&[b"<scriptlet", b"@echo off", b"on error resume next", b"[internetshortcut]"]) => {
                FileType::Script
            }
            () if has(b"wscript.")
                || has(b"activexobject(")
                || has(b"createobject(")
                || has(b"powershell") =>
            {
                FileType::Script
            }
            () if begins(&[b"received:", b"return-path:", b"mime-version:", b"delivered-to:"]) => {
                FileType::Message
            }
            () if text.is_empty() => FileType::Data,
            () => FileType::Text,
        }
    }

    /// Returns true if opening a file of this kind runs what its author wrote.
    pub(crate) fn runs(self) -> bool {
        matches!(
            self,
            FileType::Elf
                | FileType::JavaClass
                | FileType::Lnk
                | FileType::MachO
                | FileType::Pe
                | FileType::Script
                | FileType::Installer
                | FileType::Chm
                | FileType::Swf
        )
    }

    /// Returns true if a file of this kind holds other files.
    pub(crate) fn packs(self) -> bool {
        matches!(
            self,
            FileType::Ace
                | FileType::Arj
                | FileType::Bzip2
                | FileType::Cab
                | FileType::Gzip
                | FileType::Rar
                | FileType::SevenZip
                | FileType::Tar
                | FileType::Xz
                | FileType::Zip
                | FileType::Zstd
                | FileType::Iso
                | FileType::Vhd
        )
    }

    pub(crate) fn is_image(self) -> bool {
        matches!(self, FileType::Gif | FileType::Jpeg | FileType::Png | FileType::OtherImage)
    }

    /// Returns true if a file of this kind is not what its name or its declared type promises a reader: a program or an
    /// archive in the name of a document, a page in the name of an image. Kinds that programs write under each other's names
    /// are not told apart.
    pub(crate) fn belies(self, ending: &str, media_type: &str) -> bool {
        let promised = match ending {
            "pdf" => FileType::Pdf,
            "jpg" | "jpeg" | "png" | "gif" | "bmp" | "tif" | "tiff" | "webp" => FileType::Jpeg,
            "doc" | "xls" | "ppt" | "dot" | "xlt" | "pps" | "docx" | "xlsx" | "pptx" => FileType::Office,
            "txt" | "csv" | "log" => FileType::Text,
            "mp3" | "mp4" | "wav" | "avi" | "mov" => FileType::Media,
            "" => match media_type.split_once('/') {
                Some(("image", _)) => FileType::Jpeg,
                Some(("audio" | "video", _)) => FileType::Media,
                Some(("application", "pdf")) => FileType::Pdf,
                _ => return false,
            },
            _ => return false,
        };
        if self.runs() {
            return true;
        }
        match promised {
            FileType::Pdf => !matches!(self, FileType::Pdf | FileType::Data | FileType::Text),
            FileType::Jpeg => {
                self.packs()
                    || matches!(
                        self,
                        FileType::Html | FileType::Pdf | FileType::Ole | FileType::Office | FileType::Rtf
                    )
            }
            FileType::Office => self.packs() && self != FileType::Zip || self == FileType::Pdf,
            FileType::Text => self.packs() || matches!(self, FileType::Ole | FileType::Office),
            _ => {
                self.packs()
                    || matches!(self, FileType::Html | FileType::Ole | FileType::Office | FileType::Pdf)
            }
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
            ([b"MZ".as_slice(), &[0; 100]].concat().as_slice(), FileType::Pe),
            (b"\x7fELF\x02", FileType::Elf),
            (b"#!/bin/sh\n", FileType::Script),
            (b"\xca\xfe\xba\xbe\0\0\0\x02", FileType::MachO),
            (b"\xca\xfe\xba\xbe\0\0\0\x34", FileType::JavaClass),
            (b"%PDF-1.4", FileType::Pdf),
            (b"\n\n%PDF-1.4", FileType::Pdf),
            (b"  <!DOCTYPE html><p>", FileType::Html),
            (b"\xff\xfe<\0h\0t\0m\0l\0>\0", FileType::Html),
            (b"var x = new ActiveXObject('a')", FileType::Script),
            (b"BEGIN:VCALENDAR\r\n", FileType::Calendar),
            (b"<?xml version='1.0'?><svg/>", FileType::Svg),
            (b"hello", FileType::Text),
            (b"a\0b", FileType::Data),
            (&iso, FileType::Iso),
            (b"", FileType::Data),
        ] {
            assert_eq!(FileType::of(content), kind, "{:?}", &content[..content.len().min(20)]);
        }
    }

    #[test]
    fn files_belie_their_names() {
        assert!(
            FileType::Pe.belies("pdf", "")
                && FileType::Html.belies("pdf", "")
                && FileType::Pe.belies("", "image/png")
        );
        assert!(
            !FileType::Png.belies("jpg", "")
                && !FileType::Html.belies("xls", "")
                && !FileType::Pe.belies("exe", "")
        );
        assert!(!FileType::Html.belies("html", "text/html") && FileType::Rar.belies("docx", ""));
    }
}
