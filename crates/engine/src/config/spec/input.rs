//! What a pipeline reads, and what is found out about it before anything is counted.

use super::{Form, Section, Shape, required, setting};

/// The words for what is counted from.
pub(in crate::config) const INPUTS: &[&str] = &["message", "access-log", "json"];

/// The key of a pipeline's candidate, which no verdict depends on.
pub(in crate::config) const CANDIDATE: &str = "candidate";

const TYPES: &[&str] = &["string", "integer", "float", "bool", "time", "ip", "bytes", "list"];

pub(super) const TOP: Section = Section {
    name: "",
    form: Form::Top,
    node: false,
    doc: "Name and input of the pipeline.",
    settings: &[
        setting(
            "preset",
            Shape::Name,
            None,
            "Preset that this file extends; without one the file stands alone",
        ),
        setting(
            "name",
            Shape::Name,
            None,
            "The pipeline's name in requests, metrics and the journal; without one the preset's",
        ),
        setting(
            "space",
            Shape::Integer(0, crate::limit::LIMITS.0 as i64 - 1),
            Some("1"),
            "Number of the space that the keys count in. Pipelines of one space share their statistics",
        ),
        setting(
            "input",
            Shape::Choice(INPUTS),
            Some("\"json\""),
            "Input of the pipeline: RFC 5322 messages, combined-format access-log lines, or JSON objects",
        ),
        setting(
            "on_error",
            Shape::Choice(&["open", "closed"]),
            Some("\"open\""),
            "When statistics cannot be had, the journal cannot be written, or a proxy's question finds no place or no time: judge by what there is (`open`) or answer `throttle` (`closed`)",
        ),
        setting(
            "unknown",
            Shape::Choice(&["error", "warn", "ignore"]),
            Some("\"warn\""),
            "Treatment of an event with an unknown field, or with none that is known: refused (`error`), or judged without the field, with a warning in the answer, a metric and the log (`warn`), or with the metric alone (`ignore`). See [http.md](http.md#unknown-fields)",
        ),
        setting(
            CANDIDATE,
            Shape::Text,
            None,
            "File of rules that are judged beside the enforced ones and change nothing, relative to this file. See [rules.md](../guides/rules.md#candidates)",
        ),
    ],
};

pub(super) const TIME: Section = Section {
    name: "time",
    form: Form::Table,
    node: false,
    doc: "Event time.",
    settings: &[
        setting(
            "skew_max",
            Shape::Span,
            Some("\"5m\""),
            "Furthest that an event's time may lie after its arrival; a later one is clamped and counted in a metric",
        ),
        setting(
            "dedupe",
            Shape::Span,
            Some("\"1d\""),
            "Time for which an event id is remembered: a second event of this id is not counted",
        ),
    ],
};

pub(super) const NETWORKS: Section = Section {
    name: "networks",
    form: Form::Table,
    node: false,
    doc: "Prefix lengths of networks.",
    settings: &[
        setting("ipv4", Shape::Integer(8, 32), Some("24"), "Prefix length of an IPv4 network"),
        setting("ipv6", Shape::Integer(16, 128), Some("64"), "Prefix length of an IPv6 network"),
    ],
};

pub(super) const AUTH: Section = Section {
    name: "auth",
    form: Form::Table,
    node: false,
    doc: "Sender authentication: SPF, DKIM, DMARC and ARC. See [authentication.md](../guides/authentication.md).",
    settings: &[
        setting(
            "checks",
            Shape::Bool,
            Some("true"),
            "Whether a server checks them itself where `[dns]` names resolvers and no trusted `Authentication-Results` has SPF, DKIM and DMARC already",
        ),
        setting(
            "servers",
            Shape::List(&Shape::Text),
            Some("[]"),
            "Names by which one's own servers identify themselves in `Authentication-Results`. They must remove such fields of others under their name",
        ),
        setting(
            "received",
            Shape::Integer(0, 50),
            Some("1"),
            "Number of `Received` fields that one's own servers put on top: an `Authentication-Results` below more of them is not read",
        ),
        setting(
            "sealers",
            Shape::List(&Shape::Text),
            Some("[]"),
            "Domains of ARC sealers whose record of earlier results is taken over, where the chain is intact",
        ),
    ],
};

pub(super) const DNSBL: Section = Section {
    name: "dnsbl",
    form: Form::List("name"),
    node: false,
    doc: "A DNS list of addresses or domains (RFC 5782) that is asked for each message where `[dns]` names resolvers.",
    settings: &[
        required("name", Shape::Name, "Its name in `dnsbl.ip`, `dnsbl.domains` and the other facts"),
        required("zone", Shape::Text, "Domain below which it answers, such as `zen.dnsbl.example`"),
        required(
            "of",
            Shape::List(&Shape::Name),
            "Facts that are asked for: addresses, as `client.ip`, or hosts, addresses and links, as `mail.link_hosts`",
        ),
        setting(
            "hosts",
            Shape::Choice(&["registrable", "whole"]),
            Some("\"registrable\""),
            "Whether a host is asked for as its registrable domain or as it stands",
        ),
        setting(
            "answers",
            Shape::List(&Shape::Text),
            Some("[]"),
            "Meaning of its answers, such as `127.0.0.2 sbl`, `127.0.0.4-127.0.0.7 xbl` or, for bits of the last number, `&8 phish`. Other answers are then none; without any, each within `127.0.0.0/8` is `listed`",
        ),
        setting("names_max", Shape::Integer(1, 200), Some("20"), "Most names that one message is asked for"),
        setting("description", Shape::Text, Some("\"\""), "Its contents, for people"),
    ],
};

pub(super) const FIELD: Section = Section {
    name: "field",
    form: Form::List("name"),
    node: false,
    doc: "A field that events bring beside those which the input defines.",
    settings: &[
        required("name", Shape::Name, "Dotted name, as in rules; nested JSON objects are flattened to it"),
        required("type", Shape::Choice(TYPES), "Type of its values"),
        setting("description", Shape::Text, Some("\"\""), "Description for people"),
    ],
};
