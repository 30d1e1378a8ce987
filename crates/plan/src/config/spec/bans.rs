//! Settings of bans: who is never banned, and whom others ban.

use super::{Section, SectionForm, SettingType, required, setting};

pub(super) const ALLOW: Section = Section {
    name: "allow",
    form: SectionForm::Table,
    node: true,
    doc: "The allow list, above every ban: no rule, posted ban, other node or block list bans what is on it. See [bans.md](../guides/bans.md#the-allow-list).",
    settings: &[
        setting(
            "networks",
            SettingType::List(&SettingType::Network),
            Some("[]"),
            "Addresses and networks that are never banned. A network that has one of them in it is not banned either",
        ),
        setting(
            "accounts",
            SettingType::List(&SettingType::Text),
            Some("[]"),
            "Accounts, sessions and other keys that are no addresses, as the ban list would have them, in letters of any size",
        ),
        setting(
            "names",
            SettingType::List(&SettingType::Text),
            Some("[]"),
            "Names of hosts, whose addresses the system's name service is asked for every five minutes. Addresses that cannot be looked up again count for a day",
        ),
        setting(
            "files",
            SettingType::List(&SettingType::Text),
            Some("[]"),
            "Files of addresses, networks and accounts, relative to this file: one a line, with `#` before remarks",
        ),
        setting(
            "robots",
            SettingType::Bool,
            Some("true"),
            "Whether verified robots are never banned: their published networks, and by events with `bot.verified`",
        ),
        setting(
            "private",
            SettingType::Bool,
            Some("true"),
            "Whether loopback, private (RFC 1918, RFC 4193) and link-local addresses are never banned",
        ),
        setting(
            "proxies",
            SettingType::Bool,
            Some("true"),
            "Whether the `trusted_proxies` of [[forward_auth]] are never banned",
        ),
    ],
};

pub(super) const BLOCK_LIST: Section = Section {
    name: "block_list",
    form: SectionForm::List("name"),
    node: true,
    doc: "A list of addresses that others publish. Rules of pipelines with `client.ip` see it as the fact `block_list.NAME`. See [bans.md](../guides/bans.md#block-lists).",
    settings: &[
        required("name", SettingType::Name, "Its name: `block_list.NAME` is the fact"),
        setting(
            "file",
            SettingType::Text,
            None,
            "File of the list, relative to this file. It is read again when it changes",
        ),
        setting(
            "url",
            SettingType::Text,
            None,
            "Instead of `file`: where the list is fetched, in the background. `https`, or `http` on a loopback address",
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
            "Format of the list. Unless given, its beginning shows it",
        ),
        setting("refresh", SettingType::Span, Some("\"1h\""), "How often a list at a URL is fetched"),
        setting(
            "expires",
            SettingType::Span,
            Some("\"7d\""),
            "How long what was read counts if it cannot be read again; after that the fact is missing",
        ),
        setting(
            "action",
            SettingType::Name,
            None,
            "Measure for enforcement points, such as `ban`: entries are put on the ban list, a million of a list at most. Unless given the list is for rules alone",
        ),
    ],
};
