//! Settings of statistics.

use super::{ACTIONS, Section, SectionForm, SettingSpec, SettingType, required, setting};

/// The columns that an aggregate keeps, but for decayed sums.
const COLUMNS: &[&str] = &["first", "last", "count", "sum", "min", "max"];

/// Most keys that a sketch is made for.
const SKETCH_KEYS_MAX: i64 = 100_000_000_000;

const PRECISION: SettingType =
    SettingType::Integer(stats::Measure::PRECISION_MIN as i64, stats::Measure::PRECISION_MAX as i64);

/// A sketch in front of a statistic.
const ADMIT: &[SettingSpec] = &[
    required("after", SettingType::Sightings, "Sighting that admits a key"),
    required(
        "rotate",
        SettingType::Span,
        "Longest time a sighting counts; it always counts for half of this",
    ),
    setting(
        "memory",
        SettingType::Size(1 << 40),
        None,
        "Memory of the sketch, out of `[ledger]`'s; 12 bytes per key seen within `rotate` let at most 1 % of \
        keys in too early",
    ),
    setting(
        "keys",
        SettingType::Integer(1, SKETCH_KEYS_MAX),
        None,
        "Instead of `memory`: distinct keys expected within `rotate`; 1 % of them may get in too early",
    ),
    setting(
        "kinds",
        SettingType::List(&SettingType::Name),
        None,
        "Kinds in `keys` that the sketch guards. Default: all. Distinct values count only for admitted keys",
    ),
];

/// The networks that addresses are cut into.
const PREFIX: &[SettingSpec] = &[
    required("ipv4", SettingType::Integer(8, 32), "IPv4 prefix length"),
    required("ipv6", SettingType::Integer(16, 128), "IPv6 prefix length"),
];

pub(super) const KIND: Section = Section {
    name: "kind",
    form: SectionForm::List("name"),
    node: false,
    doc: "A kind of key to count.",
    settings: &[
        required("name", SettingType::Name, "Name in statistics and rules"),
        required(
            "of",
            SettingType::OneOrMore(&SettingType::Name),
            "Fact whose value, or each of whose values, is counted; or up to eight facts, counted in every \
            combination of their values",
        ),
        setting(
            "normalise",
            SettingType::OneOrMore(&SettingType::Choice(&["exact", "text", "address", "host"])),
            Some("\"exact\""),
            "Normalisation before hashing; for several facts one for all, or a list with one each",
        ),
        setting(
            "prefix",
            SettingType::Table(PREFIX),
            None,
            "Count networks of these lengths instead of the addresses among `of`, such as `{ ipv4 = 16, ipv6 \
            = 48 }`",
        ),
        setting(
            "when",
            SettingType::Text,
            None,
            "Condition over fields and content; other events have no key of this kind",
        ),
        setting("description", SettingType::Text, Some("\"\""), "For people"),
    ],
};

pub(super) const STATISTIC: Section = Section {
    name: "statistic",
    form: SectionForm::List("name"),
    node: false,
    doc: "A statistic for every key of its kinds: counters over windows (`counts` and `windows`), or an \
        aggregate (`aggregate` and `keep`).",
    settings: &[
        required("name", SettingType::Name, "Its name"),
        required(
            "keys",
            SettingType::List(&SettingType::Name),
            "Kinds that have it; a kind has at most one statistic",
        ),
        setting(
            "counts",
            SettingType::List(&SettingType::Name),
            None,
            "Counter names. First and last time are kept, too",
        ),
        setting(
            "windows",
            SettingType::List(&SettingType::Text),
            None,
            "Tiers of buckets such as `10m x 144`: a fine one and, optionally, a coarse one it rolls up into",
        ),
        setting(
            "readings",
            SettingType::List(&SettingType::Span),
            Some("[]"),
            "Trailing windows to read and journal for every event, beside those that rules use",
        ),
        setting(
            "aggregate",
            SettingType::List(&SettingType::Choice(COLUMNS)),
            None,
            "Instead of `counts` and `windows`: values over all events of a key, all read and journalled for \
            every event",
        ),
        setting(
            "value",
            SettingType::Name,
            None,
            "Integer fact (float with `decimals`) for an aggregate's `sum`, `min`, `max` and decayed sums, and \
            for `amounts`",
        ),
        setting(
            "amounts",
            SettingType::List(&SettingType::Name),
            None,
            "Counters of `counts` that rise by `value` instead of one. See \
            [statistics.md](../guides/statistics.md#amounts)",
        ),
        setting(
            "decimals",
            SettingType::Integer(1, judge::DECIMALS_MAX as i64),
            None,
            "Decimals of `value`, `amounts` and what effects add, counted exactly: `2` for `12.34`. Rules \
            read fractions",
        ),
        setting(
            "observe",
            SettingType::Bool,
            None,
            "`false`: events add nothing to the aggregate; only rule effects such as `add karma by -20`, \
            verdicts and feedback do",
        ),
        setting(
            "decay",
            SettingType::List(&SettingType::Span),
            None,
            "Half-lives (at most four) of an aggregate's decayed sums, of `value` or else of the number of events",
        ),
        setting(
            "keep",
            SettingType::Span,
            None,
            "How long to keep a key after its last event. Required with `aggregate`; default for counters: the \
            longest tier",
        ),
        setting(
            "admit",
            SettingType::Table(ADMIT),
            None,
            "A sketch in front: a key costs nothing until seen often enough",
        ),
    ],
};

pub(super) const DISTINCT: Section = Section {
    name: "distinct",
    form: SectionForm::List("name"),
    node: false,
    doc: "Distinct values per key of a kind.",
    settings: &[
        required("name", SettingType::Name, "Name, as in `distinct('rcpts', '1d')`"),
        required("per", SettingType::Name, "Kind whose keys have the count"),
        required(
            "of",
            SettingType::OneOrMore(&SettingType::Name),
            "Fact to count the values of, or up to eight to count every combination of",
        ),
        required(
            "window",
            SettingType::Text,
            "Period, such as `1d`, or `1d x 7` to keep seven before the current one",
        ),
        setting(
            "method",
            SettingType::Choice(&["exact", "approximate"]),
            Some("\"exact\""),
            "`exact`: one stored mark per key and value; `approximate`: a HyperLogLog per key and period",
        ),
        setting(
            "precision",
            PRECISION,
            None,
            "For `approximate`; default 12. Standard error `1.04 / sqrt(2^precision)`: 1.6 % for 12",
        ),
        setting(
            "keep",
            SettingType::Integer(1, 64),
            None,
            "Latest values of each key that the node remembers in clear text, for `mark contributors of`. Default: none",
        ),
    ],
};

pub(super) const LAST: Section = Section {
    name: "last",
    form: SectionForm::List("name"),
    node: false,
    doc: "A field's value in the last event of each key of a kind, kept in the clear, not as a hash.",
    settings: &[
        required("name", SettingType::Name, "Name, as in `last('country')`"),
        required("per", SettingType::Name, "Kind whose keys have the value"),
        required(
            "of",
            SettingType::Name,
            "Text fact to keep; it must be journalled. After a value over 63 bytes the last value is unknown",
        ),
        required("keep", SettingType::Span, "How long to keep the value after its event"),
    ],
};

pub(super) const LABEL: Section = Section {
    name: "label",
    form: SectionForm::List("name"),
    node: false,
    doc: "A label that rules put on keys for a time and later events of the key show.",
    settings: &[
        required("name", SettingType::Name, "Name, as in `ip.marked('scanner')`"),
        required("of", SettingType::Name, "Kind whose keys can have it"),
        required("keep", SettingType::Span, "Longest time a key can have it"),
        setting(
            "decision",
            SettingType::Name,
            None,
            "Put labelled keys on the ban list with this decision, such as `ban` or `captcha`; firewalls \
            poll `/v1/bans/stream`. The value stays in the data directory until the label ends",
        ),
        setting("description", SettingType::Text, Some("\"\""), "Meaning for a key, for people"),
    ],
};

pub(super) const OBSERVE: Section = Section {
    name: "observe",
    form: SectionForm::Table,
    node: false,
    doc: "Counters of every event, whatever its verdict.",
    settings: &[setting(
        "add",
        SettingType::List(&SettingType::Name),
        Some("[\"seen\"]"),
        "Counters to raise by one for each key of an event whose statistic has them",
    )],
};

pub(super) const SETTLE: Section = Section {
    name: "settle",
    form: SectionForm::Map,
    node: false,
    doc: "Counters of verdicts: each counter, and the actions that raise it. `\"karma by -5\"` instead of a \
        counter adds a value to an aggregate with `observe = false`.",
    settings: &[required(
        "COUNTER",
        SettingType::List(&SettingType::Choice(ACTIONS)),
        "Actions that raise the counter by one, or add the value",
    )],
};
