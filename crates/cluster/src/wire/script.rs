//! The scripts that run in the cluster. Each is known to a server by the SHA-1 of its text, once it was loaded there.

use sha1::{Digest, Sha1};

/// A script.
#[derive(Debug)]
pub(super) struct Script {
    pub(super) text: &'static str,
    pub(super) sha: String,
}

impl Script {
    fn new(text: &'static str) -> Script {
        let digest = Sha1::digest(text.as_bytes());
        Script { text, sha: digest.iter().map(|byte| format!("{byte:02x}")).collect() }
    }
}

/// All of them.
#[derive(Debug)]
pub(super) struct Scripts {
    pub(super) read: Script,
    pub(super) apply: Script,
    pub(super) claim: Script,
}

impl Scripts {
    pub(super) fn new() -> Scripts {
        Scripts {
            read: Script::new(include_str!("lua/read.lua")),
            apply: Script::new(concat!(include_str!("lua/cells.lua"), include_str!("lua/apply.lua"))),
            claim: Script::new(concat!(include_str!("lua/cells.lua"), include_str!("lua/claim.lua"))),
        }
    }

    /// All, to be loaded.
    pub(super) fn all(&self) -> [&Script; 3] {
        [&self.read, &self.apply, &self.claim]
    }
}
