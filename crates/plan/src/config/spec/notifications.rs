//! Settings of notifications.

use super::{Section, SectionForm, SettingSpec, SettingType, required, setting};

/// The names of the ways in which notifications are sent.
const TYPES: &[&str] = &["webhook", "slack", "matrix", "abuseipdb", "smtp"];

/// The names of the occasions.
const OCCASIONS: &[&str] = &["ban", "anomaly", "drift", "condition", "review_overdue", "correction"];

/// The names of all that may be urgent.
const URGENT: &[&str] = &["rule", "ban", "anomaly", "drift", "condition", "review_overdue", "correction"];

const SETTINGS: &[SettingSpec] = &[
    required("name", SettingType::Name, "Name, for a rule's effect `notify 'NAME'`"),
    setting(
        "type",
        SettingType::Choice(TYPES),
        Some("\"webhook\""),
        "`webhook` (signed JSON), `slack` (an incoming webhook of Slack, Mattermost or Discord's `/slack`), \
        `matrix`, `abuseipdb` (a report of each ban), or `smtp` (mail)",
    ),
    setting(
        "url",
        SettingType::Secret(8),
        None,
        "Target: `https://...`, or `http://` on a loopback address; for `matrix` the homeserver; for `smtp` \
        `smtps://HOST` or `smtp://HOST`, with an optional port. Required except for `abuseipdb`. Never \
        shown, because Slack's URLs are secret",
    ),
    setting(
        "on",
        SettingType::List(&SettingType::Choice(OCCASIONS)),
        Some("[]"),
        "What to send beside rule effects: `ban`, `anomaly`, `drift` (promises and probabilities that do not \
        hold), `condition` (a node fault begins or ends), `review_overdue`, `correction` (a wrong rule's \
        effects were undone)",
    ),
    setting(
        "pipelines",
        SettingType::List(&SettingType::Name),
        Some("[]"),
        "Notify only for these pipelines, and not for the node. Default: everything",
    ),
    setting(
        "secret",
        SettingType::Secret(16),
        None,
        "For `webhook` the signing key, best as `whsec_` and base64; for `matrix` the access token; for \
        `abuseipdb` the API key; for `smtp` the password of `user`",
    ),
    setting(
        "authority",
        SettingType::Text,
        None,
        "PEM certificates to trust for the host of `url` instead of public authorities",
    ),
    setting("room", SettingType::Text, None, "For `matrix`: the room, as `!id:example.org`"),
    setting(
        "categories",
        SettingType::List(&SettingType::Integer(1, 23)),
        Some("[]"),
        "For `abuseipdb`: category numbers of reports, at least one",
    ),
    setting("user", SettingType::Text, None, "For `smtp`: login user; needs TLS or a loopback address"),
    setting("from", SettingType::Text, None, "For `smtp`: sender address"),
    setting("to", SettingType::List(&SettingType::Text), Some("[]"), "For `smtp`: recipient addresses"),
    setting(
        "template",
        SettingType::Text,
        None,
        "Text for people, with `{kind}`, `{summary}`, `{pipeline}`, `{rule}`, `{value}`, `{until}`, \
        `{decision}`, `{event}`, `{action}`, `{time}`; `{{` is a brace. Values are escaped for the target. \
        Default: `{summary}`. Webhooks send it as `summary` beside the fields",
    ),
    setting(
        "digest",
        SettingType::Interval,
        Some("\"off\""),
        "Gather notifications for this long into one; `off` sends each at once",
    ),
    setting(
        "quiet",
        SettingType::Text,
        None,
        "Hours that send only urgent notifications, such as `22:00-07:00`; the rest follow at the end as one",
    ),
    setting("zone", SettingType::Text, Some("\"UTC\""), "Zone of `quiet`: `Europe/Berlin`, `UTC+0200`"),
    setting(
        "urgent",
        SettingType::List(&SettingType::Choice(URGENT)),
        Some("[\"condition\"]"),
        "Notifications exempt from `digest` and `quiet`; `rule` means those of rules",
    ),
    setting(
        "rate_max",
        SettingType::Integer(1, 6000),
        Some("60"),
        "Requests or mails a minute; more wait. Up to 1,000 notifications wait; further ones are dropped and \
        counted",
    ),
    setting("timeout", SettingType::Span, Some("\"10s\""), "Time limit of one request or mail"),
    setting(
        "retry",
        SettingType::Span,
        Some("\"5s\""),
        "Delay before a retry, doubled each time up to 10 minutes, with up to half as much random jitter",
    ),
    setting(
        "give_up",
        SettingType::Span,
        Some("\"1h\""),
        "How long to retry before dropping and counting the notification",
    ),
];

pub(super) const NOTIFICATION: Section = Section {
    name: "notification",
    form: SectionForm::List("name"),
    node: true,
    doc: "A target for notifications: webhook, chat, AbuseIPDB or mail. Reloads apply. See \
        [notifications.md](../guides/notifications.md).",
    settings: SETTINGS,
};
