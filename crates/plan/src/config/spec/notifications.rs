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
        "`webhook` (signed JSON), `slack` (incoming webhooks of Slack, Mattermost or Discord's `/slack`), \
        `matrix`, `abuseipdb` (reports of bans), or `smtp` (mail)",
    ),
    setting(
        "url",
        SettingType::Secret(8),
        None,
        "Target: `https://...`, or `http://` on loopback; for `matrix` the homeserver; for `smtp` \
        `smtps://HOST` or `smtp://HOST`, with optional port. Required except for `abuseipdb`. Never shown: \
        Slack's URLs are secret",
    ),
    setting(
        "on",
        SettingType::List(&SettingType::Choice(OCCASIONS)),
        Some("[]"),
        "Sent beside rule effects: `ban`, `anomaly`, `drift` (promises and probabilities that do not hold), \
        `condition` (a node fault begins or ends), `review_overdue`, `correction` (a wrong rule was undone)",
    ),
    setting(
        "pipelines",
        SettingType::List(&SettingType::Name),
        Some("[]"),
        "Only notifications of these pipelines, and those of none. Default: all",
    ),
    setting(
        "secret",
        SettingType::Secret(16),
        None,
        "`webhook`: signing key, best as `whsec_` and base64; `matrix`: access token; `abuseipdb`: API key; \
        `smtp`: password of `user`",
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
        `{decision}`, `{event}`, `{action}`, `{time}`, escaped for the target; `{{` is a brace. Default: \
        `{summary}`. Webhooks get it as `summary`",
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
