//! Settings of who is asking: robots that say who they are, directories of keys, and one's own applications.

use super::{Section, SectionForm, SettingSpec, SettingType, required, setting};

/// A version of an application.
const VERSION: &[SettingSpec] = &[
    required("version", SettingType::Name, "Its name: signatures name the key `APPLICATION/VERSION`"),
    setting("secret", SettingType::Secret(16), None, "Secret that it signs with (`hmac-sha256`)"),
    setting("public_key", SettingType::Text, None, "Instead: public key of ed25519, 32 bytes in base64"),
    setting(
        "state",
        SettingType::Choice(&["active", "watched", "retired"]),
        None,
        "`active`, unless given; `watched`: its signatures count, and `app.watched` says that others may have the key; `retired`: they do not count",
    ),
];

pub(super) const ROBOTS: Section = Section {
    name: "robots",
    form: SectionForm::Table,
    node: false,
    doc: "Robots that say who they are, in requests: facts `bot.*`. They exist with `hosts` or a `[[robot]]`; the module `declared-robots` has the well-known ones. See [robots.md](../guides/robots.md).",
    settings: &[
        setting(
            "hosts",
            SettingType::List(&SettingType::Text),
            Some("[]"),
            "Hosts of the site, such as `www.example.org`: signatures that are for others do not count. Without any, none counts",
        ),
        setting(
            "age_max",
            SettingType::Span,
            Some("\"1d\""),
            "Longest time for which a robot's signature may hold",
        ),
        setting("skew", SettingType::Span, Some("\"1m\""), "Time by which a robot's clock may be ahead"),
        setting(
            "nonce",
            SettingType::Bool,
            Some("true"),
            "Whether signatures need a nonce. One without can be sent again until it expires",
        ),
    ],
};

pub(super) const ROBOT: Section = Section {
    name: "robot",
    form: SectionForm::List("name"),
    node: false,
    doc: "A robot that says who it is. See [robots.md](../guides/robots.md).",
    settings: &[
        required("name", SettingType::Name, "Its name: `bot.claimed`"),
        setting("operator", SettingType::Text, Some("\"\""), "Who runs it: `bot.operator`"),
        setting(
            "agents",
            SettingType::List(&SettingType::Text),
            Some("[]"),
            "Names in `http.agent` by which a request claims to be of it, in any case. Of several robots that with the longest counts",
        ),
        setting(
            "domains",
            SettingType::List(&SettingType::Text),
            Some("[]"),
            "Domains of the names of its addresses, which name service must have forward and back",
        ),
        setting(
            "files",
            SettingType::List(&SettingType::Text),
            Some("[]"),
            "Files of its networks, relative to this file: a network a line, or JSON with `prefixes` as operators publish it",
        ),
        setting("description", SettingType::Text, Some("\"\""), "Description for people"),
    ],
};

pub(super) const KEY_DIRECTORY: Section = Section {
    name: "key_directory",
    form: SectionForm::List("name"),
    node: true,
    doc: "The public keys of somebody who signs requests of robots (Web Bot Auth). No other key counts, and no other host is asked for keys. See [robots.md](../guides/robots.md#signed-requests).",
    settings: &[
        required("name", SettingType::Name, "Who signs: `bot.operator`"),
        setting(
            "agent",
            SettingType::Text,
            None,
            "Host that `Signature-Agent` of its requests names. Without one its keys count where the field is not sent",
        ),
        setting(
            "file",
            SettingType::Text,
            None,
            "File of the keys, relative to this file: JSON web keys (`{\"keys\": [...]}`)",
        ),
        setting(
            "url",
            SettingType::Text,
            None,
            "Instead of `file`: where the keys are fetched, in the background. Unless given: `/.well-known/http-message-signatures-directory` of `agent`. `https`, or `http` on a loopback address",
        ),
        setting(
            "authority",
            SettingType::Text,
            None,
            "File of certificates in PEM, relative to this file: who vouches for the host of `url`, instead of public authorities",
        ),
        setting(
            "refresh",
            SettingType::Span,
            Some("\"1h\""),
            "Interval at which keys are fetched; those of before count for a day while they cannot be",
        ),
    ],
};

pub(super) const APPLICATION: Section = Section {
    name: "application",
    form: SectionForm::List("name"),
    node: true,
    doc: "An application of one's own that signs its requests: facts `app.*`. See [signed-requests.md](../guides/signed-requests.md).",
    settings: &[
        required("name", SettingType::Name, "Its name: `app.name`"),
        required(
            "hosts",
            SettingType::OneOrMore(&SettingType::Text),
            "Hosts that it sends requests to: signatures for others do not count",
        ),
        required(
            "versions",
            SettingType::List(&SettingType::Table(VERSION)),
            "Its versions, each with a key of its own",
        ),
        setting("window", SettingType::Span, Some("\"5m\""), "Time for which a signature holds"),
        setting("skew", SettingType::Span, Some("\"1m\""), "Time by which clocks of its users may be ahead"),
        setting("description", SettingType::Text, Some("\"\""), "Description for people"),
    ],
};
