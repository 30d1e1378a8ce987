//! Settings of sources.

use super::listeners::TLS;
use super::{Section, SectionForm, SettingSpec, SettingType, required, setting};

/// The settings of a source that is the journal.
const JOURNALD: &[SettingSpec] = &[setting(
    "units",
    SettingType::List(&SettingType::Text),
    None,
    "Units whose entries are read, such as `ssh`. Unless given: all",
)];

pub(super) const SOURCE: Section = Section {
    name: "source",
    form: SectionForm::List("name"),
    node: true,
    doc: "Lines that the server reads by itself: files, the journal, or what is sent to a port by syslog. Exactly one of `files`, `journald` and `syslog` is given. See [sources.md](../guides/sources.md).",
    settings: &[
        required("name", SettingType::Name, "Its name in the log, in metrics and at `/v1/sources`"),
        setting(
            "files",
            SettingType::List(&SettingType::Text),
            Some("[]"),
            "Files to follow, relative to the directory the server runs in; `*`, `?` and `[a-z]` stand for characters of one name. Rotated files are read to their end; compressed ones are none",
        ),
        setting(
            "journald",
            SettingType::Table(JOURNALD),
            None,
            "The journal of this machine, by `journalctl`; `{}` for all of it",
        ),
        setting(
            "syslog",
            SettingType::Text,
            None,
            "Address to listen on for syslog (RFC 3164 and 5424): `udp://127.0.0.1:5514`, `tcp://...` or `tls://...`. Any address but a loopback one needs `clients`",
        ),
        setting(
            "pipeline",
            SettingType::Name,
            None,
            "Pipeline that judges. Unless given: the first whose input is `log` or `access-log`",
        ),
        setting(
            "format",
            SettingType::Choice(&["lines", "csv"]),
            Some("\"lines\""),
            "Format of lines: what the pipeline reads (`lines`), where `json` reads objects, or `csv` for a pipeline of `json`, whose fields are named by columns",
        ),
        setting(
            "columns",
            SettingType::List(&SettingType::Text),
            Some("[]"),
            "Names of the columns of `csv`. Unless given: the first line of each file has them",
        ),
        setting(
            "crowdsec",
            SettingType::Text,
            None,
            "Folder of CrowdSec's parsers and scenarios, such as `/etc/crowdsec`, through which lines go: each overflow is an event of the pipeline. See [from-crowdsec.md](../guides/from-crowdsec.md)",
        ),
        setting(
            "log_type",
            SettingType::Text,
            Some("\"syslog\""),
            "Type by which CrowdSec's parsers know the lines, such as `syslog`, `nginx` or `apache2`",
        ),
        setting(
            "data_files",
            SettingType::Text,
            None,
            "Folder of the lists and databases (`.mmdb`) that CrowdSec's files look into. Unless given: `data` in the folder, or CrowdSec's own",
        ),
        setting("separator", SettingType::Text, Some("\",\""), "Character between the columns of `csv`"),
        setting(
            "zone",
            SettingType::Text,
            None,
            "Zone of dates that name none, in place of that of `[log]`: `Europe/Berlin`, `UTC+0200`. Unless either is given: that of the machine",
        ),
        setting(
            "start",
            SettingType::Choice(&["beginning", "end"]),
            Some("\"beginning\""),
            "Where files and the journal begin when the source is new",
        ),
        setting(
            "clients",
            SettingType::List(&SettingType::Network),
            Some("[]"),
            "Networks that may send to `syslog`, the own host included. By default a loopback address is open to its host",
        ),
        setting(
            "tls",
            SettingType::Table(TLS),
            None,
            "TLS of `syslog = \"tls://...\"`, with the keys of that of `[server]`",
        ),
        setting(
            "rate_max",
            SettingType::Integer(1, 1_000_000),
            Some("20000"),
            "Most lines a second that are taken from one address by `syslog`; further ones are dropped and counted",
        ),
        setting(
            "connections_max",
            SettingType::Integer(1, 100_000),
            Some("500"),
            "Most open connections of `syslog`; further ones wait",
        ),
        setting(
            "client_connections_max",
            SettingType::Integer(1, 100_000),
            Some("50"),
            "Most open connections of one address; further ones are closed at once",
        ),
        setting("idle", SettingType::Span, Some("\"1h\""), "Time after which a silent connection is closed"),
    ],
};
