//! Settings of statistics.

use super::{ACTIONS, Section, SectionForm, SettingSpec, SettingType, required, setting};

/// The columns that a track keeps, but for decayed sums.
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
        "Longest time for which a sighting counts; within half of it, it always does",
    ),
    setting(
        "memory",
        SettingType::Size(1 << 40),
        None,
        "Memory of the sketch, taken from that of `[ledger]`; 12 bytes for each key seen within `rotate` let at most one in a hundred in too early",
    ),
    setting(
        "keys",
        SettingType::Integer(1, SKETCH_KEYS_MAX),
        None,
        "Instead of `memory`: different keys expected within `rotate`, of which one in a hundred may be admitted too early",
    ),
    setting(
        "kinds",
        SettingType::List(&SettingType::Name),
        None,
        "Those of the statistic's `keys` behind the sketch; default: all. Distinct values are counted for admitted keys only",
    ),
];

/// The networks that addresses are cut into.
const PREFIX: &[SettingSpec] = &[
    required("ipv4", SettingType::Integer(8, 32), "Prefix length of an IPv4 network"),
    required("ipv6", SettingType::Integer(16, 128), "Prefix length of an IPv6 network"),
];

pub(super) const KIND: Section = Section {
    name: "kind",
    form: SectionForm::List("name"),
    node: false,
    doc: "A kind of piece that is counted.",
    settings: &[
        required("name", SettingType::Name, "Name by which statistics and rules call it"),
        required(
            "of",
            SettingType::OneOrMore(&SettingType::Name),
            "Fact whose value, or each of whose values, is a piece; or up to eight facts, of whose values each combination is one",
        ),
        setting(
            "normalise",
            SettingType::OneOrMore(&SettingType::Choice(&["exact", "text", "address", "host"])),
            Some("\"exact\""),
            "Form into which a piece is brought before it is hashed; of several facts one for all, or a list with one for each",
        ),
        setting(
            "prefix",
            SettingType::Table(PREFIX),
            None,
            "Networks of these lengths in place of the addresses among `of`, such as `{ ipv4 = 16, ipv6 = 48 }`",
        ),
        setting(
            "when",
            SettingType::Text,
            None,
            "Condition over fields and content; events for which it does not hold have no key of this kind",
        ),
        setting("description", SettingType::Text, Some("\"\""), "Description for people"),
    ],
};

pub(super) const STATISTIC: Section = Section {
    name: "statistic",
    form: SectionForm::List("name"),
    node: false,
    doc: "A statistic for each key of the kinds that it names: counters over windows (`counts` and `windows`) or an aggregate of a few fixed values (`track` and `keep`).",
    settings: &[
        required("name", SettingType::Name, "Its name"),
        required(
            "keys",
            SettingType::List(&SettingType::Name),
            "Kinds whose keys have it; a kind has one statistic at most",
        ),
        setting(
            "counts",
            SettingType::List(&SettingType::Name),
            None,
            "Names of its counters; first and last time are kept beside them",
        ),
        setting(
            "windows",
            SettingType::List(&SettingType::Text),
            None,
            "Tiers of buckets such as `10m x 144`: a fine one and, optionally, a coarse one into which it rolls up",
        ),
        setting(
            "readings",
            SettingType::List(&SettingType::Span),
            Some("[]"),
            "Trailing windows that are read and journalled for every event, beside those that rules use",
        ),
        setting(
            "track",
            SettingType::List(&SettingType::Choice(COLUMNS)),
            None,
            "Instead of `counts` and `windows`: values over all events of a key. All are read and journalled for every event",
        ),
        setting(
            "value",
            SettingType::Name,
            None,
            "Integer fact, or with `decimals` a float one, that `sum`, `min`, `max` and decayed sums of a track are over, and by which `amounts` go up",
        ),
        setting(
            "amounts",
            SettingType::List(&SettingType::Name),
            None,
            "Those of `counts` that go up by `value` wherever others go up by one. See [statistics.md](../guides/statistics.md#amounts)",
        ),
        setting(
            "decimals",
            SettingType::Integer(1, judge::DECIMALS_MAX as i64),
            None,
            "Decimals of `value`, `amounts` and what effects add, which are then counted exactly in units of the last one: `2` for `12.34`. Rules read fractions",
        ),
        setting(
            "observe",
            SettingType::Bool,
            None,
            "`false`: no event is added to a track, only what effects of rules add, such as `add karma by -20`, verdicts and feedback",
        ),
        setting(
            "decay",
            SettingType::List(&SettingType::Span),
            None,
            "Half-lives, at most four, of a track's decayed sums: of `value` where there is one, else of the number of events",
        ),
        setting(
            "keep",
            SettingType::Span,
            None,
            "How long a key is kept after its last event. Required for an aggregate (`track`); default for counters: the longest tier",
        ),
        setting(
            "admit",
            SettingType::Table(ADMIT),
            None,
            "A sketch in front: a key costs nothing until it was seen often enough",
        ),
    ],
};

pub(super) const DISTINCT: Section = Section {
    name: "distinct",
    form: SectionForm::List("name"),
    node: false,
    doc: "A count of distinct values for each key of a kind.",
    settings: &[
        required("name", SettingType::Name, "Its name, as in `distinct('rcpts', '1d')`"),
        required("per", SettingType::Name, "Kind for each of whose keys values are counted"),
        required(
            "of",
            SettingType::OneOrMore(&SettingType::Name),
            "Fact whose values are counted, or up to eight of whose values each combination is one",
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
            "`exact`: paired shingles, one stored mark for each value of each key; `approximate`: a HyperLogLog for each key and period",
        ),
        setting(
            "precision",
            PRECISION,
            None,
            "Of an approximate count, 12 unless given: the standard error is `1.04 / sqrt(2^precision)`, 1.6 % for 12",
        ),
    ],
};

pub(super) const LAST: Section = Section {
    name: "last",
    form: SectionForm::List("name"),
    node: false,
    doc: "The value of a field in the last event of each key of a kind. It is kept in the clear, not as a hash.",
    settings: &[
        required("name", SettingType::Name, "Its name, as in `last('country')`"),
        required("per", SettingType::Name, "Kind for each of whose keys the value is kept"),
        required(
            "of",
            SettingType::Name,
            "Text fact whose value is kept, up to 63 bytes; after a longer one the last value is unknown. The fact must be journalled",
        ),
        required("keep", SettingType::Span, "Time for which the value is kept after the event that had it"),
    ],
};

pub(super) const LABEL: Section = Section {
    name: "label",
    form: SectionForm::List("name"),
    node: false,
    doc: "A label that rules put on keys for a time, and that later events of the key show.",
    settings: &[
        required("name", SettingType::Name, "Its name, as in `ip.marked('scanner')`"),
        required("of", SettingType::Name, "Kind whose keys can have it"),
        required("keep", SettingType::Span, "Longest time for which a key can have it"),
        setting(
            "decision",
            SettingType::Name,
            None,
            "Puts labelled keys on the ban list, as a decision such as `ban` or `captcha`; firewalls poll `/v1/bans/stream`. The piece is kept in the data directory until the label ends",
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
        "Counters that go up by one for each key of an event, where its statistic has them",
    )],
};

pub(super) const SETTLE: Section = Section {
    name: "settle",
    form: SectionForm::Map,
    node: false,
    doc: "Counters of verdicts: a counter, and the actions that add to it. `\"karma by -5\"` in place of a counter adds a value to a track with `observe = false`.",
    settings: &[required(
        "COUNTER",
        SettingType::List(&SettingType::Choice(ACTIONS)),
        "Actions after which the counter goes up by one, or the value is added",
    )],
};
