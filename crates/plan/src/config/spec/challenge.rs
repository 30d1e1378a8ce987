//! Settings of challenges.

use super::{Section, SectionForm, SettingType, setting};

pub(super) const CHALLENGE: Section = Section {
    name: "challenge",
    form: SectionForm::Table,
    node: false,
    doc: "A proof of work for events decided as `challenge` or `throttle`, and the pass that it earns. See \
        [challenges.md](../guides/challenges.md).",
    settings: &[
        setting(
            "cost",
            SettingType::Text,
            None,
            "Work in thousands of SHA-256 iterations, an expression; required for challenges. Browsers do \
            some thousands a second; start with 500",
        ),
        setting(
            "doublings",
            SettingType::Text,
            Some("\"0\""),
            "Expression for how often to double the work, at most 16: for example the challenges an address \
            got and did not solve",
        ),
        setting(
            "algorithm",
            SettingType::Choice(&["pbkdf2", "sha-256", "scrypt", "argon2id"]),
            Some("\"pbkdf2\""),
            "Function of the work. The page in front of a site solves `pbkdf2` and `sha-256`; the others \
            also take up to 64 MiB here per verified solution",
        ),
        setting("expires", SettingType::Span, Some("\"10m\""), "Time to solve a challenge, at most a day"),
        setting(
            "visitor",
            SettingType::List(&SettingType::Text),
            None,
            "Facts that identify the visitor and must be unchanged. Default: `client.net` and `http.host` \
            for access logs; otherwise none, so anybody may solve it",
        ),
        setting("pass", SettingType::Span, Some("\"12h\""), "Validity of a pass, at most 30 days"),
        setting(
            "pass_bound_to",
            SettingType::List(&SettingType::Text),
            None,
            "Facts that must be unchanged. Default: `http.host` and `http.agent_family` for access logs; \
            otherwise none",
        ),
        setting(
            "without_scripts",
            SettingType::Choice(&["rendered", "waited", "off"]),
            Some("\"rendered\""),
            "Visitors without scripts in front of a site: wait and load what a page shows, unlike text \
            browsers (`rendered`); wait (`waited`); or cannot pass (`off`)",
        ),
        setting("wait", SettingType::Span, Some("\"6s\""), "How long they wait"),
        setting("pass_without_scripts", SettingType::Span, Some("\"2h\""), "Validity of their pass"),
    ],
};
