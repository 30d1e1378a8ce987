//! Settings of challenges.

use super::{Section, SectionForm, SettingType, setting};

pub(super) const CHALLENGE: Section = Section {
    name: "challenge",
    form: SectionForm::Table,
    node: false,
    doc: "Work to be done before one may go on, for events on which `challenge` or `throttle` is decided, and the pass that it earns. See [challenges.md](../guides/challenges.md).",
    settings: &[
        setting(
            "cost",
            SettingType::Text,
            None,
            "Needed for challenges: work, in thousands of iterations of SHA-256: an expression of the rule language, a number. A browser does some thousands of these units a second; 500 is a good beginning",
        ),
        setting(
            "doublings",
            SettingType::Text,
            Some("\"0\""),
            "The number of times that the work is doubled, at most 16: an expression, such as the challenges that an address was given and did not solve",
        ),
        setting(
            "algorithm",
            SettingType::Choice(&["pbkdf2", "sha-256", "scrypt", "argon2id"]),
            Some("\"pbkdf2\""),
            "Function of the work. The page in front of a site solves `pbkdf2` and `sha-256`; the other two take 8 to 64 MiB here, too, for each solution that is verified",
        ),
        setting(
            "expires",
            SettingType::Span,
            Some("\"10m\""),
            "Time in which a challenge must be solved, at most a day",
        ),
        setting(
            "visitor",
            SettingType::List(&SettingType::Text),
            None,
            "Facts that tell the visitor: a challenge is of use where all of them are as they were. Unless given: `client.net` and `http.host` of an access log, and of other events none, so that anybody may solve it",
        ),
        setting("pass", SettingType::Span, Some("\"12h\""), "Time for which a pass holds, at most 30 days"),
        setting(
            "pass_bound_to",
            SettingType::List(&SettingType::Text),
            None,
            "Facts that must be as they were when the pass was earned. Unless given: `http.host` and `http.agent_family` of an access log, and of other events none",
        ),
        setting(
            "without_scripts",
            SettingType::Choice(&["rendered", "waited", "off"]),
            Some("\"rendered\""),
            "What visitors without scripts do in front of a site: wait, and load what a page shows (`rendered`), as text browsers do not; wait (`waited`); or `off`: they cannot pass",
        ),
        setting("wait", SettingType::Span, Some("\"6s\""), "Time that they wait"),
        setting("pass_without_scripts", SettingType::Span, Some("\"2h\""), "Time for which their pass holds"),
    ],
};
