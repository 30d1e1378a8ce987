//! Settings of bans: who is never banned, and whom others ban.

use super::{Section, SectionForm, SettingType, required, setting};

pub(super) const ALLOW: Section = Section {
    name: "allow",
    form: SectionForm::Table,
    node: true,
    doc: "The allow list. Nothing on it is ever banned, by rule, request, other node or block list. See \
        [bans.md](../guides/bans.md#the-allow-list).",
    settings: &[
        setting(
            "networks",
            SettingType::List(&SettingType::Network),
            Some("[]"),
            "Addresses and networks never to ban; neither are networks that contain one",
        ),
        setting(
            "accounts",
            SettingType::List(&SettingType::Text),
            Some("[]"),
            "Accounts, sessions and other non-address keys, as on the ban list, in any case",
        ),
        setting(
            "names",
            SettingType::List(&SettingType::Text),
            Some("[]"),
            "Host names, resolved every five minutes; addresses that no longer resolve count for a day",
        ),
        setting(
            "files",
            SettingType::List(&SettingType::Text),
            Some("[]"),
            "Files of addresses, networks and accounts: one a line, `#` starts a remark",
        ),
        setting(
            "robots",
            SettingType::Bool,
            Some("true"),
            "Never ban verified robots: their published networks, and events with `bot.verified`",
        ),
        setting(
            "private",
            SettingType::Bool,
            Some("true"),
            "Never ban loopback, private (RFC 1918, RFC 4193) and link-local addresses",
        ),
        setting(
            "proxies",
            SettingType::Bool,
            Some("true"),
            "Never ban the `trusted_proxies` of `[[forward_auth]]`",
        ),
    ],
};

pub(super) const BLOCK_LIST: Section = Section {
    name: "block_list",
    form: SectionForm::List("name"),
    node: true,
    doc: "A published list of addresses. Rules of pipelines with `client.ip` see it as the fact \
        `block_list.NAME`. See [bans.md](../guides/bans.md#block-lists).",
    settings: &[
        required("name", SettingType::Name, "Name in the fact `block_list.NAME`"),
        setting("file", SettingType::Text, None, "File of the list, reread when it changes"),
        setting(
            "url",
            SettingType::Text,
            None,
            "Instead of `file`: URL fetched in the background; `https`, or `http` on loopback",
        ),
        setting(
            "format",
            SettingType::Choice(&[
                "plain",
                "cidr",
                "firehol",
                "spamhaus-drop",
                "spamhaus-json",
                "ipset",
                "crowdsec-json",
                "crowdsec-csv",
            ]),
            None,
            "Format of the list. Default: detected from its beginning",
        ),
        setting("refresh", SettingType::Span, Some("\"1h\""), "Fetch interval of a URL"),
        setting(
            "expires",
            SettingType::Span,
            Some("\"7d\""),
            "How long the last good copy counts when the list cannot be read; then the fact is missing",
        ),
        setting(
            "action",
            SettingType::Name,
            None,
            "Put entries on the ban list with this decision, such as `ban`; at most five million. Default: \
            rules only",
        ),
    ],
};
