//! Settings of sources.

use super::listeners::TLS;
use super::{Section, SectionForm, SettingSpec, SettingType, required, setting};

/// The settings of a source that is the journal.
const JOURNALD: &[SettingSpec] = &[setting(
    "units",
    SettingType::List(&SettingType::Text),
    None,
    "Units to read, such as `ssh`. Default: all",
)];

/// The settings of a source that is the logs of containers.
const DOCKER: &[SettingSpec] = &[
    setting(
        "containers",
        SettingType::List(&SettingType::Text),
        None,
        "Names of containers; `*`, `?` and `[a-z]` match. Default: all",
    ),
    setting(
        "directory",
        SettingType::Text,
        None,
        "Folder of the containers. Default: `/var/lib/docker/containers`",
    ),
];

pub(super) const SOURCE: Section = Section {
    name: "source",
    form: SectionForm::List("name"),
    node: true,
    doc: "Lines that the server reads itself, from exactly one of `files`, `docker`, `journald` and \
        `syslog`. See [sources.md](../guides/sources.md).",
    settings: &[
        required("name", SettingType::Name, "Name in the log, in metrics and at `/v1/sources`"),
        setting(
            "files",
            SettingType::List(&SettingType::Text),
            Some("[]"),
            "Files to follow; `*`, `?` and `[a-z]` match within one name. Rotated files are read to their \
            end; compressed ones are skipped",
        ),
        setting(
            "docker",
            SettingType::Table(DOCKER),
            None,
            "Logs of Docker's containers (`json-file`) by the containers' names; `{}` for all",
        ),
        setting(
            "journald",
            SettingType::Table(JOURNALD),
            None,
            "This machine's journal, through `journalctl`; `{}` for all of it",
        ),
        setting(
            "syslog",
            SettingType::Text,
            None,
            "Syslog address (RFC 3164 and 5424): `udp://127.0.0.1:5514`, `tcp://...` or `tls://...`. Any \
            address but a loopback one needs `clients`",
        ),
        setting(
            "pipeline",
            SettingType::Name,
            None,
            "Pipeline that decides. Default: the first with input `log` or `access-log`",
        ),
        setting(
            "format",
            SettingType::Choice(&["lines", "csv"]),
            Some("\"lines\""),
            "`lines`: what the pipeline reads (`json`: objects); `csv`: columns that name the fields of a \
            `json` pipeline",
        ),
        setting(
            "columns",
            SettingType::List(&SettingType::Text),
            Some("[]"),
            "Column names of `csv`. Default: the first line of each file",
        ),
        setting(
            "crowdsec",
            SettingType::Text,
            None,
            "Folder of CrowdSec's parsers and scenarios to run lines through, such as `/etc/crowdsec`: each \
            overflow is an event. See [from-crowdsec.md](../guides/from-crowdsec.md)",
        ),
        setting(
            "log_type",
            SettingType::Text,
            Some("\"syslog\""),
            "CrowdSec's type of the lines, such as `syslog`, `nginx` or `apache2`",
        ),
        setting(
            "data_files",
            SettingType::Text,
            None,
            "Folder of the lists and databases (`.mmdb`) that CrowdSec's files use. Default: `data` in the \
            folder, or CrowdSec's own",
        ),
        setting("separator", SettingType::Text, Some("\",\""), "Column separator of `csv`"),
        setting(
            "zone",
            SettingType::Text,
            None,
            "Zone of dates without one, instead of `[log]`'s: `Europe/Berlin`, `UTC+0200`. Default: the \
            machine's",
        ),
        setting(
            "envelope",
            SettingType::Choice(&logs::log_stream::LogEnvelope::NAMES),
            None,
            "Wrapping of lines for `input = \"log\"`, instead of `[log]`'s: `docker` or `cri` for containers. \
            Default: that of `docker`, `journald` and `syslog`, else `[log]`'s",
        ),
        setting(
            "start",
            SettingType::Choice(&["beginning", "end"]),
            Some("\"beginning\""),
            "Where a new source starts in files, containers and the journal",
        ),
        setting(
            "clients",
            SettingType::List(&SettingType::Network),
            Some("[]"),
            "Networks that may send to `syslog`; list your own host, too. Default: loopback addresses are \
            open to their host",
        ),
        setting(
            "tls",
            SettingType::Table(TLS),
            None,
            "TLS of `syslog = \"tls://...\"`, with the keys of `[server] tls`",
        ),
        setting(
            "rate_max",
            SettingType::Integer(1, 1_000_000),
            Some("20000"),
            "Most lines a second from one `syslog` address; more are dropped and counted",
        ),
        setting(
            "connections_max",
            SettingType::Integer(1, 100_000),
            Some("500"),
            "Most open `syslog` connections; more wait",
        ),
        setting(
            "client_connections_max",
            SettingType::Integer(1, 100_000),
            Some("50"),
            "Most open connections per address; more are closed at once",
        ),
        setting("idle", SettingType::Span, Some("\"1h\""), "Time after which a silent connection is closed"),
    ],
};
