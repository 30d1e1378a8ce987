//! Settings of notifications.

use super::{Section, SectionForm, SettingSpec, SettingType, required, setting};

/// The names of the ways in which notifications are sent.
const TYPES: &[&str] = &["webhook", "slack", "matrix", "abuseipdb", "smtp"];

/// The names of the occasions.
const OCCASIONS: &[&str] = &["ban", "anomaly", "drift", "condition", "review_overdue", "correction"];

/// The names of all that may be urgent.
const URGENT: &[&str] = &["rule", "ban", "anomaly", "drift", "condition", "review_overdue", "correction"];

const SETTINGS: &[SettingSpec] = &[
    required("name", SettingType::Name, "Its name: a rule's effect `notify 'NAME'` is sent there"),
    setting(
        "type",
        SettingType::Choice(TYPES),
        Some("\"webhook\""),
        "Form in which it is sent: `webhook` (JSON, signed), `slack` (an incoming webhook of Slack, Mattermost or Discord's `/slack`), `matrix`, `abuseipdb` (a report of each ban), `smtp` (mail)",
    ),
    setting(
        "url",
        SettingType::Secret(8),
        None,
        "Where it is sent: `https://...`, or `http://` with a loopback address; of `matrix` the homeserver; of `smtp` `smtps://HOST` or `smtp://HOST` with a port if need be. Needed but for `abuseipdb`. It is not shown: those of Slack are secret",
    ),
    setting(
        "on",
        SettingType::List(&SettingType::Choice(OCCASIONS)),
        Some("[]"),
        "What is sent beside effects of rules: `ban`, `anomaly`, `drift` (promises and probabilities that do not come true), `condition` (a fault of the node, and its end), `review_overdue`, `correction` (what a wrong rule did was taken back)",
    ),
    setting(
        "pipelines",
        SettingType::List(&SettingType::Name),
        Some("[]"),
        "Only notifications of these pipelines, and of none. Unless given: of all",
    ),
    setting(
        "secret",
        SettingType::Secret(16),
        None,
        "Of `webhook`: the key of signatures, best as `whsec_` and base64. Of `matrix` the access token, of `abuseipdb` the API key, of `smtp` the password of `user`",
    ),
    setting(
        "authority",
        SettingType::Text,
        None,
        "File of certificates in PEM, relative to this file: who vouches for the host of `url`, instead of public authorities",
    ),
    setting("room", SettingType::Text, None, "Of `matrix`: the room, as `!id:example.org`"),
    setting(
        "categories",
        SettingType::List(&SettingType::Integer(1, 23)),
        Some("[]"),
        "Of `abuseipdb`: the numbers of the categories of a report, at least one",
    ),
    setting(
        "user",
        SettingType::Text,
        None,
        "Of `smtp`: the user to log in as; needs TLS or a loopback address",
    ),
    setting("from", SettingType::Text, None, "Of `smtp`: the address that mail comes from"),
    setting(
        "to",
        SettingType::List(&SettingType::Text),
        Some("[]"),
        "Of `smtp`: the addresses that mail goes to",
    ),
    setting(
        "template",
        SettingType::Text,
        None,
        "Text of each for people, with `{kind}`, `{summary}`, `{pipeline}`, `{rule}`, `{value}`, `{until}`, `{decision}`, `{event}`, `{action}`, `{time}`; `{{` is a brace. Values are escaped for the form. Unless given: `{summary}`. Webhooks carry fields, and it as `summary`",
    ),
    setting(
        "digest",
        SettingType::Interval,
        Some("\"off\""),
        "Time for which notifications are gathered into one. `off`: each is sent at once",
    ),
    setting(
        "quiet",
        SettingType::Text,
        None,
        "Hours of the day in which nothing is sent but what is urgent, such as `22:00-07:00`; the rest is sent at their end as one",
    ),
    setting("zone", SettingType::Text, Some("\"UTC\""), "Zone of `quiet`: `Europe/Berlin`, `UTC+0200`"),
    setting(
        "urgent",
        SettingType::List(&SettingType::Choice(URGENT)),
        Some("[\"condition\"]"),
        "What waits neither for a digest nor for the end of quiet hours; `rule` is what rules send",
    ),
    setting(
        "rate_max",
        SettingType::Integer(1, 6000),
        Some("60"),
        "Most requests or mails a minute; more wait. Up to 1,000 notifications wait, and further ones are dropped and counted",
    ),
    setting("timeout", SettingType::Span, Some("\"10s\""), "Longest time for one request or mail"),
    setting(
        "retry",
        SettingType::Span,
        Some("\"5s\""),
        "Time before what failed is sent again, doubled each time up to 10 minutes, each by chance up to a half longer",
    ),
    setting(
        "give_up",
        SettingType::Span,
        Some("\"1h\""),
        "Time after which what fails is given up, and counted",
    ),
];

pub(super) const NOTIFICATION: Section = Section {
    name: "notification",
    form: SectionForm::List("name"),
    node: true,
    doc: "A place for notifications: a webhook, a chat, AbuseIPDB, or people by mail. It is read again at a reload. See [notifications.md](../guides/notifications.md).",
    settings: SETTINGS,
};
