//! Facts of a file's name, and the tricks that hide its type.

/// Endings of names that some mail reader or shell runs when they are opened.
const EXECUTABLE_ENDINGS: [&str; 51] = [
    "ade",
    "adp",
    "apk",
    "app",
    "appx",
    "bat",
    "chm",
    "cmd",
    "com",
    "cpl",
    "dll",
    "exe",
    "gadget",
    "hta",
    "img",
    "inf",
    "ins",
    "iqy",
    "iso",
    "jar",
    "jnlp",
    "js",
    "jse",
    "lnk",
    "mde",
    "msc",
    "msi",
    "msix",
    "msp",
    "one",
    "pif",
    "ps1",
    "psm1",
    "reg",
    "scf",
    "scr",
    "sct",
    "settingcontent-ms",
    "slk",
    "udl",
    "url",
    "vb",
    "vbe",
    "vbs",
    "vhd",
    "vhdx",
    "wll",
    "wsf",
    "wsh",
    "xll",
    "xlam",
];

/// Endings of documents that people open without a thought.
const DOCUMENT_ENDINGS: [&str; 17] = [
    "csv", "doc", "docx", "gif", "htm", "html", "jpeg", "jpg", "mp3", "mp4", "pdf", "png", "ppt", "pptx",
    "txt", "xls", "xlsx",
];

/// A name, read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FileName {
    /// In lower case, without the folders before it.
    pub(crate) text: String,
    /// True if the name ends like a program's.
    pub(crate) runs: bool,
    /// True if the name poses as a document's and ends otherwise, such as `a.pdf.exe`.
    pub(crate) is_double: bool,
    /// True if the name turns the direction of writing around, or pushes its ending out of sight.
    pub(crate) is_obfuscated: bool,
}

impl FileName {
    pub(crate) fn read(name: &str) -> FileName {
        let text = name.trim().rsplit(['/', '\\']).next().unwrap_or_default().to_lowercase();
        let turns = |c: char| matches!(c, '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}');
        let is_turned = text.contains(turns);
        // A mail reader shows the whole name; a shell goes by the letters, without what shows nothing.
        let shown: String = text.chars().filter(|&c| !crate::text::is_invisible(c)).collect();
        let mut endings = shown.trim_end_matches(['.', ' ']).rsplit('.').map(str::trim);
        let ending = endings.next().unwrap_or_default();
        let before = endings.next();
        let runs = before.is_some() && EXECUTABLE_ENDINGS.contains(&ending);
        let poses = before.is_some_and(|before| DOCUMENT_ENDINGS.contains(&before));
        let is_double = poses && (runs || matches!(ending, "htm" | "html" | "shtml" | "svg" | "zip"));
        let is_padded = shown.contains("        ") || shown.contains("________________");
        FileName { runs, is_double, is_obfuscated: is_turned || is_padded && runs, text: shown }
    }

    /// Returns true if a browser opens the file as a page, whatever it begins with.
    pub(crate) fn is_page(&self) -> bool {
        matches!(self.ending(), "htm" | "html" | "shtml" | "xhtml")
    }

    /// Returns the text behind the last dot.
    pub(crate) fn ending(&self) -> &str {
        self.text.trim_end_matches(['.', ' ']).rsplit_once('.').map_or("", |(_, ending)| ending.trim())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read() {
        for (name, runs, is_double, is_obfuscated) in [
            ("Invoice.PDF.exe", true, true, false),
            ("invoice.pdf", false, false, false),
            ("exe", false, false, false),
            ("a.pdf .exe ", true, true, false),
            ("a.exe.", true, false, false),
            ("annex\u{202E}fdp.exe", true, false, true),
            ("photo\u{202E}gpj.scr", true, false, true),
            ("a.pdf                .exe", true, true, true),
            ("report.html.zip", false, true, false),
            ("dir.exe/readme.txt", false, false, false),
            ("a.e\u{200B}xe", true, false, false),
        ] {
            let read = FileName::read(name);
            assert_eq!(
                (read.runs, read.is_double, read.is_obfuscated),
                (runs, is_double, is_obfuscated),
                "{name:?}"
            );
        }
        assert!(FileName::read("Fax.SHTML").is_page() && !FileName::read("html").is_page());
        assert_eq!(FileName::read("C:\\x\\A.Txt").ending(), "txt");
    }
}
