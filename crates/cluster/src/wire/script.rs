//! The scripts that run in the cluster. Each is known to a server by the SHA-1 of its text, once it was loaded there.

use data_encoding::HEXLOWER;
use sha1::{Digest, Sha1};

/// A script.
#[derive(Debug)]
pub(super) struct LuaScript {
    pub(super) text: &'static str,
    pub(super) sha: String,
}

impl LuaScript {
    fn new(text: &'static str) -> LuaScript {
        let digest = Sha1::digest(text.as_bytes());
        LuaScript { text, sha: HEXLOWER.encode(&digest) }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Words in quotes and capitals: the commands.
    fn commands(text: &str) -> BTreeSet<&str> {
        let words = text.split('\'').filter(|word| word.len() > 2);
        words.filter(|word| word.bytes().all(|byte| byte.is_ascii_uppercase())).collect()
    }

    #[test]
    fn all_that_scripts_call_is_tried_out_when_a_node_is_opened() {
        let scripts = LuaScripts::new();
        let probed = commands(scripts.probe.text);
        for script in scripts.all() {
            let called = commands(script.text);
            assert!(!called.is_empty() && called.is_subset(&probed), "{called:?} {probed:?}");
        }
    }
}

/// All of them.
#[derive(Debug)]
pub(super) struct LuaScripts {
    pub(super) read: LuaScript,
    pub(super) sight: LuaScript,
    pub(super) apply: LuaScript,
    pub(super) claim: LuaScript,
    pub(super) take: LuaScript,
    pub(super) sweep: LuaScript,
    pub(super) allot: LuaScript,
    pub(super) teach: LuaScript,
    pub(super) examples: LuaScript,
    pub(super) publish: LuaScript,
    pub(super) append: LuaScript,
    pub(super) since: LuaScript,
    /// Not one of those that are loaded where they are missed: it is run when a node is opened.
    pub(super) probe: LuaScript,
}

impl LuaScripts {
    pub(super) fn new() -> LuaScripts {
        LuaScripts {
            read: LuaScript::new(concat!(include_str!("lua/sketch.lua"), include_str!("lua/read.lua"))),
            sight: LuaScript::new(concat!(include_str!("lua/sketch.lua"), include_str!("lua/sight.lua"))),
            apply: LuaScript::new(concat!(include_str!("lua/cells.lua"), include_str!("lua/apply.lua"))),
            claim: LuaScript::new(concat!(include_str!("lua/cells.lua"), include_str!("lua/claim.lua"))),
            take: LuaScript::new(concat!(include_str!("lua/cells.lua"), include_str!("lua/take.lua"))),
            sweep: LuaScript::new(concat!(include_str!("lua/cells.lua"), include_str!("lua/sweep.lua"))),
            allot: LuaScript::new(include_str!("lua/allot.lua")),
            teach: LuaScript::new(include_str!("lua/teach.lua")),
            examples: LuaScript::new(include_str!("lua/examples.lua")),
            publish: LuaScript::new(include_str!("lua/publish.lua")),
            append: LuaScript::new(include_str!("lua/append.lua")),
            since: LuaScript::new(include_str!("lua/since.lua")),
            probe: LuaScript::new(include_str!("lua/probe.lua")),
        }
    }

    /// All that nodes work with, to be loaded.
    pub(super) fn all(&self) -> [&LuaScript; 12] {
        [
            &self.read,
            &self.sight,
            &self.apply,
            &self.claim,
            &self.take,
            &self.sweep,
            &self.allot,
            &self.teach,
            &self.examples,
            &self.publish,
            &self.append,
            &self.since,
        ]
    }
}
