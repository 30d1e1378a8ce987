//! Limits, and who asks for them.

use super::{Section, SectionForm, SettingSpec, SettingType, required, setting};

/// Conditions of a ban: a key is refused whatever it has used.
const BAN: &[SettingSpec] = &[
    required("after", SettingType::Integer(1, 1_000_000), "Refusals that ban a key"),
    required("within", SettingType::Span, "Time within which they must come"),
    required("for", SettingType::Span, "Length of the ban"),
];

/// A key for which a limit is another.
const OVERRIDE: &[SettingSpec] = &[
    required(
        "key",
        SettingType::List(&SettingType::Entry),
        "The key's values, in the order of the limit's `key`",
    ),
    setting("count", SettingType::Integer(0, i64::MAX), None, "Most that this key may have"),
    setting("exempt", SettingType::Bool, None, "Whether this key is not limited"),
    setting("until", SettingType::Time, None, "When the exception ends; default: never"),
];

pub(super) const LIMIT: Section = Section {
    name: "limit",
    form: SectionForm::List("name"),
    node: true,
    doc: "How much of something a key may have in a time. See [limits.md](../guides/limits.md).",
    settings: &[
        required("name", SettingType::Name, "Its name in requests and metrics"),
        setting("description", SettingType::Text, Some("\"\""), "Purpose, for people"),
        required(
            "key",
            SettingType::List(&SettingType::Text),
            "Fields that make up the key, each with its normalisation: `user`, `mail.from:address`, `client.ip:network` (an IPv6 address by its /64). Empty: one key for all",
        ),
        required("count", SettingType::Integer(0, i64::MAX), "Most that a key may have"),
        required(
            "per",
            SettingType::Text,
            "The time: a length such as `10m`, or `minute`, `hour`, `day`, `month` of the calendar",
        ),
        setting(
            "mode",
            SettingType::Choice(&["sliding", "interpolated", "calendar", "gcra"]),
            None,
            "Way of counting. Unless given: `calendar` where `per` is a period of the calendar, else `sliding`",
        ),
        setting(
            "windows",
            SettingType::Integer(1, 3600),
            Some("60"),
            "Sub-windows of a sliding window. The more, the less strict, and the more memory a key takes",
        ),
        setting("zone", SettingType::Text, Some("\"UTC\""), "Time zone of the calendar"),
        setting(
            "burst",
            SettingType::Integer(1, i64::MAX),
            None,
            "For `gcra`: how much can be taken at once. Unless given: `count`",
        ),
        setting("cost", SettingType::Integer(1, i64::MAX), Some("1"), "Cost of a take that names none"),
        setting(
            "counts",
            SettingType::Choice(&["all", "allowed"]),
            None,
            "Takes that count: `all`, so that whoever keeps asking stays out, or only `allowed` ones. Unless given: `allowed` for `gcra` without a shadow ban, else `all`",
        ),
        setting(
            "enforcement",
            SettingType::Choice(&["enforce", "shadow_ban", "observe", "off"]),
            Some("\"enforce\""),
            "`enforce`; `shadow_ban`: callers see success, only the application sees the refusal; `observe`: everything is allowed, and the answer says what would have happened; `off`: nothing is counted",
        ),
        setting(
            "on_error",
            SettingType::Choice(&["open", "closed"]),
            Some("\"open\""),
            "When counts are unavailable: allow (`open`) or refuse (`closed`)",
        ),
        setting(
            "exact",
            SettingType::Bool,
            Some("false"),
            "With `[cluster]`: whether nodes decide together, with a call to the cluster for each take. With an embedded ledger every limit is exact",
        ),
        setting("ban", SettingType::Table(BAN), None, "A ban after repeated refusals"),
        setting(
            "when",
            SettingType::Text,
            None,
            "Condition over what is known of an event before its statistics are read. Other events take nothing and are not over the limit. Takes by name have no event, and ignore it",
        ),
        setting(
            "also",
            SettingType::List(&SettingType::Name),
            Some("[]"),
            "Limits taken together with this one; a request must be within all of them",
        ),
        setting(
            "override",
            SettingType::List(&SettingType::Table(OVERRIDE)),
            None,
            "Keys with another limit, or none",
        ),
    ],
};

pub(super) const FORWARD_AUTH: Section = Section {
    name: "forward_auth",
    form: SectionForm::List("name"),
    node: true,
    doc: "A proxy's question about a request before it passes it on, at `/v1/auth/NAME`. See [limits.md](../guides/limits.md#in-front-of-a-site).",
    settings: &[
        required("name", SettingType::Name, "Its name in the URL"),
        setting(
            "trusted_proxies",
            SettingType::List(&SettingType::Network),
            Some("[\"127.0.0.0/8\", \"::1\"]"),
            "Networks of all proxies: they may ask, and their `X-Forwarded-For` is believed",
        ),
        setting(
            "limits",
            SettingType::List(&SettingType::Name),
            Some("[]"),
            "Limits that each request takes from, counted by `client.ip`, `http.host`, `http.method`, `http.path_normal`, `http.path`, `http.query`, `http.agent` and `http.referer`",
        ),
        setting(
            "pipeline",
            SettingType::Name,
            None,
            "Pipeline that decides on requests within the limits; they have the same fields as events",
        ),
        setting(
            "refuse",
            SettingType::Integer(400, 499),
            Some("429"),
            "Status of a request over a limit; nginx knows 401 and 403 only",
        ),
        setting(
            "fields",
            SettingType::Facts,
            None,
            "Fields of the event that are taken from the request: `{ language = \"header accept-language\", session = \"hash cookie sid\", form = \"body\" }`. `hash` gives a keyed hash of 16 digits instead of the value. The pipeline declares them as [[field]]",
        ),
        setting(
            "body_max",
            SettingType::Size(64 << 10),
            Some("\"8KiB\""),
            "Most bytes of a body that are read, where a field is taken from it and the proxy sends it",
        ),
        setting(
            "contact",
            SettingType::Text,
            None,
            "Mail address or URL of the site's owner, for visitors who are [challenged](../guides/challenges.md)",
        ),
        setting(
            "template",
            SettingType::Text,
            None,
            "File with your own layout of the [page](../guides/challenge-page.md#your-own-layout) for visitors who are challenged, relative to this file",
        ),
        setting(
            "load_field",
            SettingType::Text,
            None,
            "Header field in which the proxy says how busy the site is, a number; 1 is as much as it can take. Fact `gate.load`",
        ),
        setting(
            "capacity",
            SettingType::Float,
            None,
            "Requests a second that the site is made for: without such a field `gate.load` is the share of it that proxies ask about",
        ),
    ],
};

pub(super) const ENVOY: Section = Section {
    name: "envoy",
    form: SectionForm::Table,
    node: true,
    doc: "Limits for Envoy, in the files of `envoyproxy/ratelimit`. See [envoy.md](../guides/envoy.md).",
    settings: &[
        setting(
            "config",
            SettingType::List(&SettingType::Text),
            Some("[]"),
            "Files or folders, relative to this file. They reload like rules",
        ),
        setting(
            "merge_domains",
            SettingType::Bool,
            Some("false"),
            "Whether several files may define one domain (`MERGE_DOMAIN_CONFIG`)",
        ),
        setting(
            "response_headers",
            SettingType::Bool,
            Some("false"),
            "Whether answers carry `RateLimit-Limit`, `-Remaining` and `-Reset` of the limit with the least left (`LIMIT_RESPONSE_HEADERS_ENABLED`)",
        ),
        setting(
            "response_metadata",
            SettingType::Bool,
            Some("false"),
            "Whether answers carry descriptors and exceeded quotas as dynamic metadata (`RESPONSE_DYNAMIC_METADATA`)",
        ),
    ],
};
