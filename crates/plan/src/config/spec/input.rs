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
        setting(
            "preset",
            SettingType::Name,
            None,
            "Preset that this file extends; without one the file stands alone",
        ),
        setting(
            "modules",
            SettingType::List(&SettingType::Name),
            Some("[]"),
            "Parts that the preset leaves out, laid over it in this order, such as `greylisting` and `dns-lists`; `tollhouse preset list` has all",
        ),
        setting(
            "name",
            SettingType::Name,
            None,
            "The pipeline's name in requests, metrics and the journal; without one the preset's",
        ),
        setting(
            "space",
            SettingType::Integer(0, SPACE_MAX as i64),
            Some("1"),
            "Number of the space that the keys count in. Pipelines of one space share their statistics",
        ),
        setting(
            "input",
            SettingType::Choice(INPUTS),
            Some("\"json\""),
            "Input of the pipeline: RFC 5322 messages, combined-format access-log lines, lines of any `log` that `[log]` has patterns for, or JSON objects",
        ),
        setting(
            "on_error",
            SettingType::Choice(&["open", "closed"]),
            Some("\"open\""),
            "When statistics are unavailable, the journal cannot be written, or a proxy's question meets overload or a timeout: judge by what there is (`open`) or answer `throttle` (`closed`)",
        ),
        setting(
            "journal_content",
            SettingType::Choice(&["plain", "encrypted", "none"]),
            None,
            "Texts, lists, addresses and bytes of events in the journal: as they are (`plain`), encrypted by a key in `content.keys` of the data directory, which is not the secret (`encrypted`), or not at all (`none`). Without it: `plain`. See [personal-data.md](../operating/personal-data.md)",
        ),
        setting(
            "journal_keep",
            SettingType::Span,
            None,
            "Age at which the pipeline's decisions leave the journal, in place of `keep` of `[journal]`: earlier or later than those of other pipelines. See [personal-data.md](../operating/personal-data.md#retention)",
        ),
        setting(
            "unknown",
            SettingType::Choice(&["error", "warn", "ignore"]),
            Some("\"warn\""),
            "Treatment of an event with an unknown field, or no known one: refused (`error`); judged without the field, with a warning in answer, metric and log (`warn`); or with the metric alone (`ignore`). See [http.md](http.md#unknown-fields)",
        ),
        setting(
            CANDIDATE,
            SettingType::Text,
            None,
            "File of rules that run beside the enforced ones without effect, relative to this file. See [rules.md](../guides/rules.md#candidates)",
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
            "Field that has an event's time. Without it, and where it cannot be read, `time` of the event counts, or its arrival",
        ),
        setting(
            "format",
            SettingType::Text,
            None,
            "Format of `field`: `rfc3339` (default), `epoch_s`, `epoch_ms`, `epoch_us`, or as `strptime` reads it, such as `%d/%b/%Y:%H:%M:%S %z`; UTC without a zone",
        ),
        setting(
            "id",
            SettingType::Name,
            None,
            "Field that has an event's id, a string or an integer. Without it `id` of the event counts",
        ),
        setting(
            "skew_max",
            SettingType::Span,
            Some("\"5m\""),
            "How far an event's time may lie after its arrival; later times are clamped and counted in a metric",
        ),
        setting(
            "dedupe",
            SettingType::Span,
            Some("\"1d\""),
            "How long an event id is remembered; a second event with this id is not counted",
        ),
    ],
};

pub(super) const NETWORKS: Section = Section {
    name: "networks",
    form: SectionForm::Table,
    node: false,
    doc: "Prefix lengths of networks.",
    settings: &[
        setting("ipv4", SettingType::Integer(8, 32), Some("24"), "Prefix length of an IPv4 network"),
        setting("ipv6", SettingType::Integer(16, 128), Some("64"), "Prefix length of an IPv6 network"),
    ],
};

pub(super) const PATTERNS: Section = Section {
    name: "patterns",
    form: SectionForm::Table,
    node: false,
    doc: "Patterns in requests, for `input = \"access-log\"`: files that replace the presets' lists, relative to this file. See [patterns.md](../guides/patterns.md).",
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
            "tools",
            SettingType::Text,
            None,
            "Agents that are libraries, tools and scanners: `http.agent_tool`",
        ),
        setting("robots", SettingType::Text, None, "Agents that declare themselves robots: `http.agent_bot`"),
    ],
};

pub(super) const LOG: Section = Section {
    name: "log",
    form: SectionForm::Table,
    node: false,
    doc: "Patterns of lines, for `input = \"log\"`: regular expressions of Python's, with named groups and the tags of fail2ban's filters (`<HOST>`, `<F-USER>`). See [from-fail2ban.md](../guides/from-fail2ban.md#patterns-of-your-own).",
    settings: &[
        setting(
            "patterns",
            SettingType::List(&SettingType::Text),
            Some("[]"),
            "Patterns of lines that are events. The first one that matches counts",
        ),
        setting(
            "prefix",
            SettingType::Text,
            Some("\"\""),
            "Pattern that a line must match first; its group `content` is what the others read",
        ),
        setting(
            "ignored",
            SettingType::List(&SettingType::Text),
            Some("[]"),
            "Patterns of lines that are no events though one of `patterns` matches",
        ),
        setting(
            "dates",
            SettingType::List(&SettingType::Text),
            Some("[]"),
            "Patterns of dates, as `%d/%b/%Y %H:%M:%S`, `{^LN-BEG}` or `EPOCH`. Unless given: every form that is known",
        ),
        setting(
            "lines",
            SettingType::Integer(1, logs::log_reader::LINES_MAX as i64),
            Some("1"),
            "Most lines that a pattern may span",
        ),
        setting(
            "zone",
            SettingType::Text,
            Some("\"\""),
            "Zone of dates that name none: `Europe/Berlin`, `UTC+0200`. Unless given: that of the machine that follows the log",
        ),
        setting(
            "envelope",
            SettingType::Choice(&logs::log_stream::LogEnvelope::NAMES),
            Some("\"lines\""),
            "Form in which lines are handed over: as written (`lines`), by `journalctl -o json` (`journal`), in Docker's files (`docker`), in those of other container runtimes (`cri`), with a priority in front as syslog sends it (`syslog`)",
        ),
    ],
};

pub(super) const AUTH: Section = Section {
    name: "auth",
    form: SectionForm::Table,
    node: false,
    doc: "Sender authentication: SPF, DKIM, DMARC and ARC. See [authentication.md](../guides/authentication.md).",
    settings: &[
        setting(
            "checks",
            SettingType::Bool,
            Some("true"),
            "Whether a server checks them itself, if `[dns]` names resolvers and no trusted `Authentication-Results` has SPF, DKIM and DMARC",
        ),
        setting(
            "servers",
            SettingType::List(&SettingType::Text),
            Some("[]"),
            "Names of your own servers in `Authentication-Results`. They must remove fields of others under these names",
        ),
        setting(
            "received",
            SettingType::Integer(0, 50),
            Some("1"),
            "Number of `Received` fields that your own servers put on top; an `Authentication-Results` below more of them is ignored",
        ),
        setting(
            "sealers",
            SettingType::List(&SettingType::Text),
            Some("[]"),
            "Domains of trusted ARC sealers: their record of earlier results is used where the chain is intact",
        ),
    ],
};

pub(super) const DNSBL: Section = Section {
    name: "dnsbl",
    form: SectionForm::List("name"),
    node: false,
    doc: "A DNS list of addresses or domains (RFC 5782), asked for each message if `[dns]` names resolvers.",
    settings: &[
        required("name", SettingType::Name, "Its name in `dnsbl.ip`, `dnsbl.domains` and the other facts"),
        required("zone", SettingType::Text, "Domain below which it answers, such as `zen.dnsbl.example`"),
        required(
            "of",
            SettingType::List(&SettingType::Name),
            "Facts to look up: addresses (`client.ip`), or hosts, addresses and links (`mail.link_hosts`)",
        ),
        setting(
            "hosts",
            SettingType::Choice(&["registrable", "whole"]),
            Some("\"registrable\""),
            "Whether to look up a host's registrable domain or the whole host",
        ),
        setting(
            "answers",
            SettingType::List(&SettingType::Text),
            Some("[]"),
            "Meaning of its answers, such as `127.0.0.2 sbl`, `127.0.0.4-127.0.0.7 xbl` or, for bits of the last number, `&8 phish`. Other answers are ignored; without any, every answer within `127.0.0.0/8` is `listed`",
        ),
        setting(
            "refusals",
            SettingType::List(&SettingType::Text),
            Some("[]"),
            "Answers, or ranges of them, by which the list refuses to serve, beside `127.0.0.1` and `127.255.255.0`-`127.255.255.255`",
        ),
        setting(
            "good",
            SettingType::Bool,
            Some("false"),
            "Whether it lists whom to trust: then its answers are in `dnsbl.answers` and `dnsbl.listed`, not in `dnsbl.ip` and `dnsbl.domains`",
        ),
        setting(
            "addresses",
            SettingType::Bool,
            Some("true"),
            "Whether it is asked for addresses; `false` for lists of domains that refuse them",
        ),
        setting(
            "names_max",
            SettingType::Integer(1, 200),
            Some("20"),
            "Most names that are looked up for one message",
        ),
        setting("description", SettingType::Text, Some("\"\""), "Its contents, for people"),
    ],
};

pub(super) const FIELD: Section = Section {
    name: "field",
    form: SectionForm::List("name"),
    node: false,
    doc: "A field of events, beside those of the input, or one that is derived from others, and what is read from its content. See [fields.md](../guides/fields.md).",
    settings: &[
        required(
            "name",
            SettingType::Name,
            "Dotted name, as in rules; nested JSON objects are flattened to it",
        ),
        required("type", SettingType::Choice(TYPES), "Type of its values"),
        setting(
            "value",
            SettingType::Text,
            None,
            "Expression in the rule language that derives the field from others, before keys are made; events cannot bring it then",
        ),
        setting(
            "content",
            SettingType::Choice(&["text", "html", "link", "email", "phone", "name"]),
            None,
            "Content of a `string` (or, but for `email` and `phone`, a `list`), from which [facts](#facts-of-content) are read: `body.links`, `body.phones`, ... of a field `body`. A fact of the input may be named as well. See [content.md](../guides/content.md)",
        ),
        setting(
            "journal",
            SettingType::Bool,
            Some("true"),
            "Whether the journal keeps the value; if not, rules and content see it, explanations and backtests do not",
        ),
        setting("description", SettingType::Text, Some("\"\""), "Description for people"),
    ],
};
