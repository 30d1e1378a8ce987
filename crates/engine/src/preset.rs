//! The presets: files of the configuration language, embedded in the binary.

/// A preset.
#[derive(Debug)]
pub struct Preset {
    /// What `preset = "..."` calls it.
    pub name: &'static str,
    /// The file's text.
    pub text: &'static str,
}

/// All presets.
pub static ALL: &[Preset] = &[
    Preset { name: "mail", text: include_str!("../../../presets/mail.toml") },
    Preset { name: "web", text: include_str!("../../../presets/web.toml") },
];

/// The preset of this name.
pub fn find(name: &str) -> Option<&'static Preset> {
    ALL.iter().find(|preset| preset.name == name)
}

impl Preset {
    /// A hash of its text, 16 hexadecimal digits.
    pub fn version(&self) -> String {
        crate::content_hash(self.text.as_bytes())
    }

    /// The comment that opens the file: what it is for, in one line.
    pub fn summary(&self) -> &'static str {
        self.text.lines().next().unwrap_or_default().trim_start_matches(['#', ' '])
    }
}
