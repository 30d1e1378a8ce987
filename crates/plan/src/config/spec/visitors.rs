//! Settings of who is asking: robots that say who they are, directories of keys, and one's own applications.

use super::{Section, SectionForm, SettingSpec, SettingType, required, setting};

/// A version of an application.
const VERSION: &[SettingSpec] = &[
    required("version", SettingType::Name, "Version; signatures name the key `APPLICATION/VERSION`"),
    setting("secret", SettingType::Secret(16), None, "Signing secret (`hmac-sha256`)"),
    setting("public_key", SettingType::Text, None, "Instead: ed25519 public key, 32 bytes in base64"),
    setting(
        "state",
        SettingType::Choice(&["active", "watched", "retired"]),
        None,
        "`active` (default); `watched`: signatures count, and `app.watched` tells rules that the key may \
        have leaked; `retired`: signatures do not count",
    ),
];

pub(super) const ROBOTS: Section = Section {
    name: "robots",
    form: SectionForm::Table,
    node: false,
    doc: "Robots that identify themselves in requests: facts `bot.*`, available with `hosts` or a \
        `[[robot]]`. The module `declared-robots` has the well-known ones. See \
        [robots.md](../guides/robots.md).",
    settings: &[
        setting(
            "hosts",
            SettingType::List(&SettingType::Text),
            Some("[]"),
            "Hosts of your site, such as `www.example.org`. Signatures for other hosts do not count; without \
            `hosts`, none do",
        ),
        setting("age_max", SettingType::Span, Some("\"1d\""), "Longest validity of a robot's signature"),
        setting("skew", SettingType::Span, Some("\"1m\""), "How far a robot's clock may be ahead"),
        setting(
            "nonce",
            SettingType::Bool,
            Some("true"),
            "Require a nonce. A signature without one can be replayed until it expires",
        ),
    ],
};

pub(super) const ROBOT: Section = Section {
    name: "robot",
    form: SectionForm::List("name"),
    node: false,
    doc: "A robot that identifies itself. See [robots.md](../guides/robots.md).",
    settings: &[
        required("name", SettingType::Name, "Name in `bot.claimed`"),
        setting("operator", SettingType::Text, Some("\"\""), "Operator, in `bot.operator`"),
        setting(
            "agents",
            SettingType::List(&SettingType::Text),
            Some("[]"),
            "Names in `http.agent` that claim to be this robot, in any case. The longest match of all robots \
            wins",
        ),
        setting(
            "domains",
            SettingType::List(&SettingType::Text),
            Some("[]"),
            "Domains that its addresses' names must be in, confirmed by reverse and forward DNS",
        ),
        setting(
            "files",
            SettingType::List(&SettingType::Text),
            Some("[]"),
            "Files of its networks: one network a line, or the JSON with `prefixes` that operators publish",
        ),
        setting("description", SettingType::Text, Some("\"\""), "For people"),
    ],
};

pub(super) const KEY_DIRECTORY: Section = Section {
    name: "key_directory",
    form: SectionForm::List("name"),
    node: true,
    doc: "Public keys of a signer of robot requests (Web Bot Auth). Other keys do not count, and no other \
        host is asked for keys. See [robots.md](../guides/robots.md#signed-requests).",
    settings: &[
        required("name", SettingType::Name, "Signer, in `bot.operator`"),
        setting(
            "agent",
            SettingType::Text,
            None,
            "Host in the requests' `Signature-Agent`. Default: the keys count where that field is absent",
        ),
        setting("file", SettingType::Text, None, "File of JSON web keys (`{\"keys\": [...]}`)"),
        setting(
            "url",
            SettingType::Text,
            None,
            "Instead of `file`: URL fetched in the background; `https`, or `http` on loopback. Default: \
            `/.well-known/http-message-signatures-directory` of `agent`",
        ),
        setting(
            "authority",
            SettingType::Text,
            None,
            "PEM certificates to trust for the host of `url` instead of public authorities",
        ),
        setting(
            "refresh",
            SettingType::Span,
            Some("\"1h\""),
            "Fetch interval; when fetching fails, the old keys count for a day",
        ),
    ],
};

pub(super) const APPLICATION: Section = Section {
    name: "application",
    form: SectionForm::List("name"),
    node: true,
    doc: "An application of yours that signs its requests: facts `app.*`. See \
        [signed-requests.md](../guides/signed-requests.md).",
    settings: &[
        required("name", SettingType::Name, "Name in `app.name`"),
        required(
            "hosts",
            SettingType::OneOrMore(&SettingType::Text),
            "Hosts it calls; signatures for others do not count",
        ),
        required(
            "versions",
            SettingType::List(&SettingType::Table(VERSION)),
            "Versions, each with its own key",
        ),
        setting("window", SettingType::Span, Some("\"5m\""), "Validity of a signature"),
        setting("skew", SettingType::Span, Some("\"1m\""), "How far its users' clocks may be ahead"),
        setting("description", SettingType::Text, Some("\"\""), "For people"),
    ],
};
