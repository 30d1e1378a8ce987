//! Settings of a pipeline's input: its fields, and the look-ups before anything is counted.

use super::{Section, SectionForm, SettingType, required, setting};

/// The greatest number of a space.
pub(crate) const SPACE_MAX: u16 = 65_533;

/// The words for what is counted from.
pub(in crate::config) const INPUTS: &[&str] = &["message", "access-log", "log", "json"];

/// The key of a pipeline's candidate, which no verdict depends on.
pub(in crate::config) const CANDIDATE: &str = "candidate";

const TYPES: &[&str] = &["string", "integer", "float", "bool", "time", "ip", "bytes", "list"];

pub(super) const TOP: Section = Section {
    name: "",
    form: SectionForm::Top,
    node: false,
    doc: "Name and input of the pipeline.",
    settings: &[
        setting("preset", SettingType::Name, None, "Preset to extend. Default: none"),
        setting(
            "modules",
            SettingType::List(&SettingType::Name),
            Some("[]"),
            "Modules laid over the preset, in this order, such as `greylisting` and `dns-lists`. `tollhouse \
            preset list` names all",
        ),
        setting(
            "name",
            SettingType::Name,
            None,
            "Pipeline name in requests, metrics and the journal. Default: the preset's",
        ),
        setting(
            "space",
            SettingType::Integer(0, SPACE_MAX as i64),
            Some("1"),
            "Key space. Pipelines with the same number share statistics",
        ),
        setting(
            "input",
            SettingType::Choice(INPUTS),
            Some("\"json\""),
            "What the pipeline reads: RFC 5322 messages, combined-format access-log lines, lines of any \
            `log` by the patterns of `[log]`, or JSON objects",
        ),
        setting(
            "on_error",
            SettingType::Choice(&["open", "closed"]),
            Some("\"open\""),
            "Without statistics or writable journal, or when a proxy's question meets overload or a timeout: \
            decide on what is known (`open`) or answer `throttle` (`closed`)",
        ),
        setting(
            "journal_content",
            SettingType::Choice(&["plain", "encrypted", "none"]),
            None,
            "How the journal keeps texts, lists, addresses and bytes: `plain` (default), `encrypted` with a \
            key from `content.keys` in the data directory (not the secret), or `none`. See \
            [personal-data.md](../operating/personal-data.md)",
        ),
        setting(
            "journal_keep",
            SettingType::Span,
            None,
            "Age at which this pipeline's decisions leave the journal, instead of `keep` of `[journal]`. See \
            [personal-data.md](../operating/personal-data.md#retention)",
        ),
        setting(
            "unknown",
            SettingType::Choice(&["error", "warn", "ignore"]),
            Some("\"warn\""),
            "Events with an unknown field, or no known one: `error` rejects; `warn` decides without the \
            field, with a warning in answer, metric and log; `ignore` only counts it in the metric. See \
            [http.md](http.md#unknown-fields)",
        ),
        setting(
            CANDIDATE,
            SettingType::Text,
            None,
            "File of rules to run beside the enforced ones without effect. See \
            [rules.md](../guides/rules.md#candidates)",
        ),
    ],
};

pub(super) const TIME: Section = Section {
    name: "time",
    form: SectionForm::Table,
    node: false,
    doc: "Time and id of events.",
    settings: &[
        setting(
            "field",
            SettingType::Name,
            None,
            "Field with the event's time. Default, and when unreadable: the event's `time`, else its arrival",
        ),
        setting(
            "format",
            SettingType::Text,
            None,
            "Format of `field`: `rfc3339` (default), `epoch_s`, `epoch_ms`, `epoch_us`, or a `strptime` \
            pattern such as `%d/%b/%Y:%H:%M:%S %z`. UTC unless a zone is given",
        ),
        setting(
            "id",
            SettingType::Name,
            None,
            "Field with the event's id, a string or an integer. Default: the event's `id`",
        ),
        setting(
            "skew_max",
            SettingType::Span,
            Some("\"5m\""),
            "How far an event's time may lie after its arrival; later times are clamped and counted in a \
            metric",
        ),
        setting(
            "dedupe",
            SettingType::Span,
            Some("\"1d\""),
            "How long an event id is remembered; a repeat is not counted",
        ),
    ],
};

pub(super) const NETWORKS: Section = Section {
    name: "networks",
    form: SectionForm::Table,
    node: false,
    doc: "Prefix lengths of networks.",
    settings: &[
        setting("ipv4", SettingType::Integer(8, 32), Some("24"), "IPv4 prefix length"),
        setting("ipv6", SettingType::Integer(16, 128), Some("64"), "IPv6 prefix length"),
    ],
};

pub(super) const ACCESS_LOG: Section = Section {
    name: "access_log",
    form: SectionForm::Table,
    node: false,
    doc: "Format of lines for `input = \"access-log\"`. See [sources.md](../guides/sources.md#a-format-of-your-own).",
    settings: &[setting(
        "format",
        SettingType::Text,
        Some("\"\""),
        "nginx's `log_format` or Apache's `LogFormat`: `$remote_addr [$time_local] \"$request\" $status`. Other \
        variables become the `[[field]]` of their name. Default: the usual formats",
    )],
};

pub(super) const PATTERNS: Section = Section {
    name: "patterns",
    form: SectionForm::Table,
    node: false,
    doc: "Pattern files for `input = \"access-log\"` that replace the presets' lists. See \
        [patterns.md](../guides/patterns.md).",
    settings: &[
        setting("probes", SettingType::Text, None, "Paths that scanners look for: `http.probe`"),
        setting(
            "exploits",
            SettingType::Text,
            None,
            "Paths that only exploits and scanners request: `http.exploit`",
        ),
        setting(
            "attacks",
            SettingType::Text,
            None,
            "Code in path, query, agent and referer: `http.injection`",
        ),
        setting(
            "interfaces",
            SettingType::Text,
            None,
            "Paths that programs use, application by application: `http.interface`",
        ),
        setting(
            "tools",
            SettingType::Text,
            None,
            "Agents that are libraries, tools and scanners: `http.agent_tool`",
        ),
        setting("robots", SettingType::Text, None, "Agents that declare themselves robots: `http.agent_bot`"),
    ],
};

const MAP: &[super::SettingSpec] = &[
    setting("ip", SettingType::Text, None, "Address, perhaps with a port behind it: `log.ip`"),
    setting("user", SettingType::Text, None, "Account: `log.user`"),
    setting("port", SettingType::Text, None, "Client's port: `log.port`"),
    setting("id", SettingType::Text, None, "What is counted, if not the address: `log.id`"),
    setting("host", SettingType::Text, None, "Client's name: `log.host`"),
    setting(
        "time",
        SettingType::Text,
        None,
        "Time. Default: `time`, `ts`, `timestamp`, `@timestamp` or `t`, else a date in the text",
    ),
    setting("text", SettingType::Text, None, "Text that patterns read. Default: the whole line"),
];

pub(super) const LOG: Section = Section {
    name: "log",
    form: SectionForm::Table,
    node: false,
    doc: "Line patterns for `input = \"log\"`: Python regular expressions with named groups and fail2ban's \
        tags (`<HOST>`, `<F-USER>`), grok, or the names of a record's fields. See \
        [from-fail2ban.md](../guides/from-fail2ban.md#patterns-of-your-own).",
    settings: &[
        setting(
            "patterns",
            SettingType::List(&SettingType::Text),
            Some("[]"),
            "Lines that are events. The first match counts",
        ),
        setting(
            "grok",
            SettingType::List(&SettingType::Text),
            Some("[]"),
            "Grok patterns of lines that are events, after `patterns`: `^%{IP:ip} %{USER:user} failed$`. `ip`, \
            `host`, `user`, `port` and `id` become `log.ip`, ...; others fields of the same name",
        ),
        setting(
            "grok_files",
            SettingType::List(&SettingType::Text),
            Some("[]"),
            "Files of your own named grok patterns, each line a name and a pattern, beside the usual ones",
        ),
        setting(
            "format",
            SettingType::Choice(&logs::log_record::LogLineFormat::NAMES),
            Some("\"text\""),
            "Format of lines: `text`, `logfmt` (`key=value`) or `json`. Of records `map` says who it was; \
            without patterns each such record is an event",
        ),
        setting(
            "map",
            SettingType::Table(MAP),
            None,
            "Names of a record's fields by meaning: `{ ip = \"src_ip\", text = \"msg\" }`. Dots lead into objects",
        ),
        setting(
            "prefix",
            SettingType::Text,
            Some("\"\""),
            "Must match first; the other patterns read its group `content`",
        ),
        setting(
            "ignored",
            SettingType::List(&SettingType::Text),
            Some("[]"),
            "Lines to skip although one of `patterns` matches",
        ),
        setting(
            "dates",
            SettingType::List(&SettingType::Text),
            Some("[]"),
            "Date patterns: `%d/%b/%Y %H:%M:%S`, `{^LN-BEG}` or `EPOCH`. Default: all known forms",
        ),
        setting(
            "lines",
            SettingType::Integer(1, logs::log_reader::LINES_MAX as i64),
            Some("1"),
            "Most lines a pattern may span",
        ),
        setting(
            "zone",
            SettingType::Text,
            Some("\"\""),
            "Zone of dates without one: `Europe/Berlin`, `UTC+0200`. Default: that of the machine that \
            follows the log",
        ),
        setting(
            "envelope",
            SettingType::Choice(&logs::log_stream::LogEnvelope::NAMES),
            Some("\"lines\""),
            "Wrapping: none (`lines`), `journalctl -o json` (`journal`) or `-o export` (`journal-export`), \
            Docker's (`docker`) or other container runtimes' log files (`cri`), a leading syslog priority (`syslog`)",
        ),
    ],
};

pub(super) const AUTH: Section = Section {
    name: "auth",
    form: SectionForm::Table,
    node: false,
    doc: "Sender authentication: SPF, DKIM, DMARC and ARC. See \
        [authentication.md](../guides/authentication.md).",
    settings: &[
        setting(
            "checks",
            SettingType::Bool,
            Some("true"),
            "Check SPF, DKIM and DMARC here if `[dns]` names resolvers and no trusted \
            `Authentication-Results` has all three",
        ),
        setting(
            "servers",
            SettingType::List(&SettingType::Text),
            Some("[]"),
            "Your servers' names in `Authentication-Results`. They must remove fields that others add under \
            these names",
        ),
        setting(
            "received",
            SettingType::Integer(0, 50),
            Some("1"),
            "`Received` fields that your own servers add; an `Authentication-Results` below more of them is \
            ignored",
        ),
        setting(
            "sealers",
            SettingType::List(&SettingType::Text),
            Some("[]"),
            "Trusted ARC sealers, by domain: their recorded results count while the chain is intact",
        ),
    ],
};

pub(super) const DNSBL: Section = Section {
    name: "dnsbl",
    form: SectionForm::List("name"),
    node: false,
    doc: "A DNS list of addresses or domains (RFC 5782), queried for each message when `[dns]` names \
        resolvers.",
    settings: &[
        required("name", SettingType::Name, "Name in `dnsbl.ip`, `dnsbl.domains` and the other facts"),
        required("zone", SettingType::Text, "Domain to query below, such as `zen.dnsbl.example`"),
        required(
            "of",
            SettingType::List(&SettingType::Name),
            "Facts to look up: addresses (`client.ip`), or hosts, addresses and links (`mail.link_hosts`)",
        ),
        setting(
            "hosts",
            SettingType::Choice(&["registrable", "whole"]),
            Some("\"registrable\""),
            "Look up a host's registrable domain or the whole host",
        ),
        setting(
            "answers",
            SettingType::List(&SettingType::Text),
            Some("[]"),
            "Meanings of answers: `127.0.0.2 sbl`, `127.0.0.4-127.0.0.7 xbl` or, for bits of the last \
            number, `&8 phish`. Others are ignored. Default: all in `127.0.0.0/8` are `listed`",
        ),
        setting(
            "refusals",
            SettingType::List(&SettingType::Text),
            Some("[]"),
            "Answers, or ranges, by which the list refuses to serve, beside `127.0.0.1` and \
            `127.255.255.0`-`127.255.255.255`",
        ),
        setting(
            "good",
            SettingType::Bool,
            Some("false"),
            "An allow list: its answers go to `dnsbl.answers` and `dnsbl.listed`, not to `dnsbl.ip` and \
            `dnsbl.domains`",
        ),
        setting(
            "addresses",
            SettingType::Bool,
            Some("true"),
            "Query addresses, too; `false` for domain lists that refuse them",
        ),
        setting("names_max", SettingType::Integer(1, 200), Some("20"), "Most names looked up per message"),
        setting("description", SettingType::Text, Some("\"\""), "For people"),
    ],
};

pub(super) const FIELD: Section = Section {
    name: "field",
    form: SectionForm::List("name"),
    node: false,
    doc: "An event field beside those of the input, or one derived from others, and the facts to read from \
        its content. See [fields.md](../guides/fields.md).",
    settings: &[
        required("name", SettingType::Name, "Dotted name, as in rules; nested JSON objects flatten to it"),
        required("type", SettingType::Choice(TYPES), "Type of its values"),
        setting(
            "value",
            SettingType::Text,
            None,
            "Expression that derives the field from others, before keys are made; events cannot set it then",
        ),
        setting(
            "content",
            SettingType::Choice(&["text", "html", "link", "email", "phone", "name"]),
            None,
            "Content of a `string` (or a `list`, except `email` and `phone`) to read \
            [facts](#facts-of-content) from: a field `body` gets `body.links`, `body.phones`, ... Works on \
            facts of the input, too. See [content.md](../guides/content.md)",
        ),
        setting(
            "journal",
            SettingType::Bool,
            Some("true"),
            "Journal the value. With `false`, rules and content still see it; explanations and backtests do \
            not",
        ),
        setting("description", SettingType::Text, Some("\"\""), "For people"),
    ],
};
