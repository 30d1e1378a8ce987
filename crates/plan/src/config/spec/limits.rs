//! Limits, and who asks for them.

use super::{Section, SectionForm, SettingSpec, SettingType, required, setting};

/// Conditions of a ban: a key is refused whatever it has used.
const BAN: &[SettingSpec] = &[
    required("after", SettingType::Integer(1, 1_000_000), "Refusals that ban a key"),
    required("within", SettingType::Span, "Time in which they must come"),
    required("for", SettingType::Span, "Length of the ban"),
];

/// A key for which a limit is another.
const OVERRIDE: &[SettingSpec] = &[
    required("key", SettingType::List(&SettingType::Entry), "Key values, in the order of the limit's `key`"),
    setting("count", SettingType::Integer(0, i64::MAX), None, "Count for this key"),
    setting("exempt", SettingType::Bool, None, "Do not limit this key"),
    setting("until", SettingType::Time, None, "When the exception ends. Default: never"),
];

pub(super) const LIMIT: Section = Section {
    name: "limit",
    form: SectionForm::List("name"),
    node: true,
    doc: "How much a key may have in a time. See [limits.md](../guides/limits.md).",
    settings: &[
        required("name", SettingType::Name, "Name in requests and metrics"),
        setting("description", SettingType::Text, Some("\"\""), "Purpose, for people"),
        required(
            "key",
            SettingType::List(&SettingType::Text),
            "Fields of the key, with an optional normalisation: `user`, `mail.from:address`, \
            `client.ip:network` (IPv6 by its /64). Empty: one key for all",
        ),
        required("count", SettingType::Integer(0, i64::MAX), "Most a key may have"),
        required(
            "per",
            SettingType::Text,
            "Period: a length such as `10m`, or the calendar's `minute`, `hour`, `day`, `month`",
        ),
        setting(
            "mode",
            SettingType::Choice(&["sliding", "interpolated", "calendar", "gcra"]),
            None,
            "Algorithm. Default: `calendar` for a calendar period, else `sliding`",
        ),
        setting(
            "windows",
            SettingType::Integer(1, 3600),
            Some("60"),
            "Sub-windows of a sliding window. More are stricter and take more memory per key",
        ),
        setting("zone", SettingType::Text, Some("\"UTC\""), "Zone of the calendar"),
        setting(
            "burst",
            SettingType::Integer(1, i64::MAX),
            None,
            "For `gcra`: most to take at once. Default: `count`",
        ),
        setting("cost", SettingType::Integer(1, i64::MAX), Some("1"), "Cost of a take that names none"),
        setting(
            "counts",
            SettingType::Choice(&["all", "allowed"]),
            None,
            "Takes that count: `all`, which locks out clients that keep asking, or `allowed` ones. Default: \
            `allowed` for `gcra` without a shadow ban, else `all`",
        ),
        setting(
            "enforcement",
            SettingType::Choice(&["enforce", "shadow_ban", "observe", "off"]),
            Some("\"enforce\""),
            "`shadow_ban`: callers see success, only the application the refusal; `observe`: all pass, and \
            the answer says what would have happened; `off`: not counted",
        ),
        setting(
            "on_error",
            SettingType::Choice(&["open", "closed"]),
            Some("\"open\""),
            "Without counts: allow (`open`) or refuse (`closed`)",
        ),
        setting(
            "exact",
            SettingType::Bool,
            Some("false"),
            "With `[cluster]`: nodes decide together, at one cluster call per take. With an embedded ledger \
            every limit is exact",
        ),
        setting("ban", SettingType::Table(BAN), None, "Ban after repeated refusals"),
        setting(
            "when",
            SettingType::Text,
            None,
            "Condition over an event before its statistics are read. Other events take nothing and are not \
            over the limit. Ignored for takes by name, which have no event",
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

const SILENT: &[SettingSpec] = &[
    setting(
        "status",
        SettingType::Integer(200, 399),
        Some("303"),
        "Status of the application's answer to a form. Below 300 only behind nginx (`refuse = 403`): others take \
        it for a pass",
    ),
    setting("location", SettingType::Text, None, "`Location` of a 3xx: a path of the site, or a URL"),
    setting("content_type", SettingType::Text, None, "`Content-Type` of the body"),
    setting("body", SettingType::Text, Some("\"\""), "Body, at most 16 KiB"),
    required("earliest", SettingType::Span, "The application's usual time for such an answer, at best"),
    required("latest", SettingType::Span, "At worst; at most `200ms`, as proxies wait no longer"),
];

pub(super) const FORWARD_AUTH: Section = Section {
    name: "forward_auth",
    form: SectionForm::List("name"),
    node: true,
    doc: "A proxy's question about a request before passing it on: `/v1/auth/NAME`. See \
        [limits.md](../guides/limits.md#in-front-of-a-site).",
    settings: &[
        required("name", SettingType::Name, "Name in the URL"),
        setting(
            "trusted_proxies",
            SettingType::List(&SettingType::Network),
            Some("[\"127.0.0.0/8\", \"::1\"]"),
            "Networks of all proxies. They may ask, and their `X-Forwarded-For` is trusted",
        ),
        setting(
            "limits",
            SettingType::List(&SettingType::Name),
            Some("[]"),
            "Limits that each request takes from, keyed by `client.ip`, `http.host`, `http.method`, \
            `http.path_normal`, `http.path`, `http.query`, `http.agent` and `http.referer`",
        ),
        setting(
            "pipeline",
            SettingType::Name,
            None,
            "Pipeline that decides on requests within the limits; its events have the same fields",
        ),
        setting(
            "refuse",
            SettingType::Integer(400, 499),
            Some("429"),
            "Status for a request over a limit; nginx accepts only 401 and 403",
        ),
        setting(
            "fields",
            SettingType::Facts,
            None,
            "Event fields from the request: `{ language = \"header accept-language\", session = \"hash \
            cookie sid\", form = \"body\" }`. `hash` gives a keyed hash of 16 digits. Declare them as \
            `[[field]]` in the pipeline",
        ),
        setting(
            "body_max",
            SettingType::Size(64 << 10),
            Some("\"8KiB\""),
            "Most bytes of the body to read, where a field needs it and the proxy sends it",
        ),
        setting(
            "contact",
            SettingType::Text,
            None,
            "Mail address or URL of the site's owner, for [challenged](../guides/challenges.md) visitors",
        ),
        setting(
            "template",
            SettingType::Text,
            None,
            "Your own layout of the [page](../guides/challenge-page.md#your-own-layout) for challenged \
            visitors",
        ),
        setting(
            "silent",
            SettingType::Table(SILENT),
            None,
            "Answer to `POST`, `PUT`, `PATCH` and `DELETE` that are refused [silently](../guides/forms.md#the-gate), in place of the \
            application's",
        ),
        setting(
            "load_field",
            SettingType::Text,
            None,
            "Header in which the proxy reports the site's load as a number; 1 is full. Fact `gate.load`",
        ),
        setting(
            "capacity",
            SettingType::Float,
            None,
            "Requests a second that the site can serve: without `load_field`, `gate.load` is the share of it \
            that proxies ask about",
        ),
    ],
};

pub(super) const ENVOY: Section = Section {
    name: "envoy",
    form: SectionForm::Table,
    node: true,
    doc: "Limits for Envoy, in `envoyproxy/ratelimit` files. See [envoy.md](../guides/envoy.md).",
    settings: &[
        setting(
            "config",
            SettingType::List(&SettingType::Text),
            Some("[]"),
            "Files or folders. They reload like rules",
        ),
        setting(
            "merge_domains",
            SettingType::Bool,
            Some("false"),
            "Allow several files to define one domain (`MERGE_DOMAIN_CONFIG`)",
        ),
        setting(
            "response_headers",
            SettingType::Bool,
            Some("false"),
            "Send `RateLimit-Limit`, `-Remaining` and `-Reset` of the limit with the least left \
            (`LIMIT_RESPONSE_HEADERS_ENABLED`)",
        ),
        setting(
            "response_metadata",
            SettingType::Bool,
            Some("false"),
            "Send descriptors and exceeded quotas as dynamic metadata (`RESPONSE_DYNAMIC_METADATA`)",
        ),
    ],
};
