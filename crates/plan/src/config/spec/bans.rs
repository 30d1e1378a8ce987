//! Settings of bans: who is never banned.

use super::{Section, SectionForm, SettingType, setting};

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
            "Names of hosts, whose addresses the system's name service is asked for every five minutes. Addresses that cannot be had anew count for a day",
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
