//! Every section and key of the configuration language, once. The checker, the defaults, the environment
//! variables, `--effective` and the generated reference are all read off this list.

use event::{Span, Time, Value};

use super::problem::{Origin, Problems, expected};
use super::tree::{Node, Table, Tree};
use crate::plan::Endpoint;

/// What a value must look like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Shape {
    /// Any text.
    Text,
    /// A name: letters, digits, `_`, `-` and `.`, at most 64 bytes.
    Name,
    /// A text that `--effective` does not show, of at least so many bytes.
    Secret(usize),
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A whole number within these bounds.
    Integer(i64, i64),
    /// A number.
    Float,
    /// An entry of a set: a text or an integer.
    Entry,
    /// A length of time such as `10m`.
    Span,
    /// `sync`, `none` or a length of time.
    Durability,
    /// `off` or a length of time.
    Interval,
    /// A number of bytes such as `64MiB`, up to this.
    Size(u64),
    /// Address and port of a socket.
    Socket,
    /// Address and port, or `unix:` and the path of a socket.
    Endpoint,
    /// A file's permissions as octal digits, such as `0660`.
    FileMode,
    /// An address, or a network in CIDR notation.
    Network,
    /// How often a key is to be seen before it is admitted: what a sketch can count to.
    Sightings,
    /// A list of values of another shape.
    List(&'static Shape),
    /// A table with these keys, none of which has a default.
    Table(&'static [Setting]),
    /// True or false.
    Bool,
    /// A point in time, as text or as TOML writes one.
    Time,
    /// A value that conditions can name: true or false, a number, a text, or a list of numbers and texts.
    Constant,
    /// A table whose keys are facts and readings, and whose values are theirs.
    Facts,
}

/// One key.
#[derive(Debug, PartialEq)]
pub(super) struct Setting {
    pub(super) key: &'static str,
    pub(super) shape: Shape,
    /// In TOML. `None` where there is none: then the key is `required`, or absent means what `doc` says.
    pub(super) default: Option<&'static str>,
    pub(super) required: bool,
    pub(super) doc: &'static str,
}

/// How a section is written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Form {
    /// Keys at the top of the file.
    Top,
    /// `[name]`.
    Table,
    /// `[[name]]`, entries told apart by this key; one of a preset's entries is changed by naming it.
    List(&'static str),
    /// `[name]` whose keys are chosen by the user; every value has the one shape that `settings[0]` gives.
    Map,
}

/// A group of keys.
pub(super) struct Section {
    pub(super) name: &'static str,
    pub(super) form: Form,
    /// Belongs to the node, not to a pipeline: stands in the main file only.
    pub(super) node: bool,
    pub(super) doc: &'static str,
    pub(super) settings: &'static [Setting],
}

const fn setting(
    key: &'static str,
    shape: Shape,
    default: Option<&'static str>,
    doc: &'static str,
) -> Setting {
    Setting { key, shape, default, required: false, doc }
}

const fn required(key: &'static str, shape: Shape, doc: &'static str) -> Setting {
    Setting { key, shape, default: None, required: true, doc }
}

/// The words for a rule's mode.
const MODES: &[&str] = &["enforce", "shadow", "off"];
/// The protocols of listeners.
const PROTOCOLS: &[&str] = &["milter", "policy", "rspamd", "spamc", "resp", "envoy", "grpc"];
/// The words for what is counted from.
pub(super) const INPUTS: &[&str] = &["message", "access-log", "json"];
const ACTIONS: &[&str] =
    &["accept", "tag", "quarantine", "reject", "throttle", "shadow", "challenge", "review"];
const TYPES: &[&str] = &["string", "integer", "float", "bool", "time", "ip", "bytes", "list"];
const SET_TYPES: &[&str] = &["string", "domain", "integer", "ip"];
/// What a track keeps, but for decayed sums.
const COLUMNS: &[&str] = &["first", "last", "count", "sum", "min", "max"];
/// Most keys that a sketch is made for.
const SKETCH_KEYS_MAX: i64 = 100_000_000_000;
/// The key of a pipeline's candidate, which no verdict depends on.
pub(super) const CANDIDATE: &str = "candidate";
/// Kinds above are the engine's and the ledger's own.
const KIND_MAX: i64 = stats::Catalog::KINDS as i64 - 3;

/// The greatest weight of what somebody says.
const WEIGHT_MAX: i64 = crate::report::WEIGHT_MAX as i64;

const PRECISION: Shape =
    Shape::Integer(stats::Measure::PRECISION_MIN as i64, stats::Measure::PRECISION_MAX as i64);

/// A sketch in front of a statistic.
const ADMIT: &[Setting] = &[
    required("after", Shape::Sightings, "The sighting that admits a key"),
    required("rotate", Shape::Span, "How long a sighting counts at most; within half of it, it always does"),
    setting(
        "memory",
        Shape::Size(1 << 40),
        None,
        "Memory of the sketch, taken from that of `[ledger]`; 12 bytes for each key seen within `rotate` let at most one in a hundred in too early",
    ),
    setting(
        "keys",
        Shape::Integer(1, SKETCH_KEYS_MAX),
        None,
        "Instead of `memory`: different keys expected within `rotate`, of which one in a hundred may be admitted too early",
    ),
];

/// When a key is refused whatever it has used.
const BAN: &[Setting] = &[
    required("after", Shape::Integer(1, 1_000_000), "So many refusals ban a key"),
    required("within", Shape::Span, "The time within which they come"),
    required("for", Shape::Span, "How long the ban lasts"),
];

/// A key for which a limit is another.
const OVERRIDE: &[Setting] = &[
    required("key", Shape::List(&Shape::Entry), "The key's values, in the order of the limit's `key`"),
    setting("count", Shape::Integer(0, i64::MAX), None, "Most that this key may have"),
    setting("exempt", Shape::Bool, None, "Whether this key is not limited"),
    setting("until", Shape::Time, None, "When it ends; never without"),
];

/// What a mail server can be asked to do.
const REPLY: Shape = Shape::Choice(&["pass", "tag", "quarantine", "redirect", "reject", "defer", "discard"]);

/// What a mail server is asked to do for each action.
const REPLIES: &[Setting] = &[
    setting(
        "accept",
        REPLY,
        None,
        "Unless given: `pass`, delivered with header fields that say what was found",
    ),
    setting("tag", REPLY, None, "Unless given: `tag`, delivered with header fields that call it spam"),
    setting("quarantine", REPLY, None, "Unless given: `quarantine`, held in the mail server's queue"),
    setting("reject", REPLY, None, "Unless given: `reject`, refused for good"),
    setting("throttle", REPLY, None, "Unless given: `defer`, refused for now"),
    setting("shadow", REPLY, None, "Unless given: `discard`, taken and delivered to nobody"),
    setting("challenge", REPLY, None, "Unless given: `tag`"),
    setting("review", REPLY, None, "Unless given: `tag`"),
];

/// A row that a rule is tried on.
const TEST: &[Setting] = &[
    required(
        "facts",
        Shape::Facts,
        "Facts and readings as rules name them, and their values; ages as text such as `\"2h\"`. What is not named is missing",
    ),
    required("fires", Shape::Bool, "Whether the rule is to fire"),
];

/// All sections, in the order in which data flows through them; the node's last.
pub(super) static SECTIONS: &[Section] = &[
    Section {
        name: "",
        form: Form::Top,
        node: false,
        doc: "What the pipeline is called and what it reads.",
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
                "What the pipeline reads: RFC 5322 messages, combined-format access-log lines, or JSON objects",
            ),
            setting(
                "on_error",
                Shape::Choice(&["open", "closed"]),
                Some("\"open\""),
                "When statistics cannot be had: judge without them (`open`) or answer `throttle` (`closed`)",
            ),
            setting(
                CANDIDATE,
                Shape::Text,
                None,
                "File of rules that are judged beside the enforced ones and change nothing, relative to this file. See [rules.md](rules.md#candidates)",
            ),
        ],
    },
    Section {
        name: "time",
        form: Form::Table,
        node: false,
        doc: "Event time.",
        settings: &[
            setting(
                "skew_max",
                Shape::Span,
                Some("\"5m\""),
                "How far in the future of its arrival an event may claim to be; what is beyond is clamped and counted in a metric",
            ),
            setting(
                "dedupe",
                Shape::Span,
                Some("\"1d\""),
                "How long an event id is remembered: the same id within this time is counted once",
            ),
        ],
    },
    Section {
        name: "networks",
        form: Form::Table,
        node: false,
        doc: "How much of an IP address is its network.",
        settings: &[
            setting("ipv4", Shape::Integer(8, 32), Some("24"), "Prefix length of an IPv4 network"),
            setting("ipv6", Shape::Integer(16, 128), Some("64"), "Prefix length of an IPv6 network"),
        ],
    },
    Section {
        name: "auth",
        form: Form::Table,
        node: false,
        doc: "Who vouches for a message: SPF, DKIM, DMARC and ARC. See [authentication.md](authentication.md).",
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
                "How many `Received` fields one's own servers put on top: an `Authentication-Results` below more of them is not read",
            ),
            setting(
                "sealers",
                Shape::List(&Shape::Text),
                Some("[]"),
                "Domains of ARC sealers whose record of earlier results is taken over, where the chain is intact",
            ),
        ],
    },
    Section {
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
                "What its answers mean, such as `127.0.0.2 sbl`, `127.0.0.4-127.0.0.7 xbl` or, for bits of the last number, `&8 phish`. Other answers are then none; without any, each within `127.0.0.0/8` is `listed`",
            ),
            setting(
                "names_max",
                Shape::Integer(1, 200),
                Some("20"),
                "Most names that one message is asked for",
            ),
            setting("description", Shape::Text, Some("\"\""), "What it lists, for people"),
        ],
    },
    Section {
        name: "field",
        form: Form::List("name"),
        node: false,
        doc: "A field that events bring beside those which the input defines.",
        settings: &[
            required(
                "name",
                Shape::Name,
                "Dotted name, as in rules; nested JSON objects are flattened to it",
            ),
            required("type", Shape::Choice(TYPES), "Type of its values"),
            setting("description", Shape::Text, Some("\"\""), "What it is, for people"),
        ],
    },
    Section {
        name: "kind",
        form: Form::List("name"),
        node: false,
        doc: "A kind of piece that is counted.",
        settings: &[
            required("name", Shape::Name, "Name by which statistics and rules call it"),
            required(
                "number",
                Shape::Integer(1, KIND_MAX),
                "Number under which its keys are stored. It must never change its meaning",
            ),
            required("of", Shape::Name, "Fact whose value, or each of whose values, is a piece"),
            setting(
                "normalise",
                Shape::Choice(&["exact", "text", "address", "host"]),
                Some("\"exact\""),
                "How a piece is normalised before it is hashed",
            ),
            setting(
                "when",
                Shape::Text,
                None,
                "Condition over the facts of the first two stages; an event for which it does not hold has no key of this kind",
            ),
            setting("description", Shape::Text, Some("\"\""), "What it is, for people"),
        ],
    },
    Section {
        name: "statistic",
        form: Form::List("name"),
        node: false,
        doc: "What is kept for each key of the kinds it names: either counters over windows (`counts` and `windows`) or a track of a few fixed values (`track` and `keep`).",
        settings: &[
            required("name", Shape::Name, "Its name"),
            required(
                "keys",
                Shape::List(&Shape::Name),
                "Kinds whose keys have it; a kind has one statistic at most",
            ),
            setting(
                "counts",
                Shape::List(&Shape::Name),
                None,
                "Names of its counters; first and last time are kept beside them",
            ),
            setting(
                "windows",
                Shape::List(&Shape::Text),
                None,
                "Tiers of buckets such as `10m x 144`: a fine one and, optionally, a coarse one into which it rolls up",
            ),
            setting(
                "readings",
                Shape::List(&Shape::Span),
                Some("[]"),
                "Trailing windows that are read for every event and journalled, beside those that rules ask for",
            ),
            setting(
                "track",
                Shape::List(&Shape::Choice(COLUMNS)),
                None,
                "Instead of `counts` and `windows`: what is kept over all events of a key. All of it is read for every event and journalled",
            ),
            setting(
                "value",
                Shape::Name,
                None,
                "Integer fact that `sum`, `min`, `max` and decayed sums of a track are over",
            ),
            setting(
                "decay",
                Shape::List(&Shape::Span),
                None,
                "Half-lives, at most four, of a track's decayed sums: of `value` where there is one, else of the number of events",
            ),
            setting(
                "keep",
                Shape::Span,
                None,
                "How long a key is kept after its last event. Needed for a track; without it counters are kept as long as the longest tier",
            ),
            setting(
                "admit",
                Shape::Table(ADMIT),
                None,
                "A sketch in front: a key costs nothing of its own until it was seen so often",
            ),
        ],
    },
    Section {
        name: "distinct",
        form: Form::List("name"),
        node: false,
        doc: "A count of distinct values for each key of a kind.",
        settings: &[
            required("name", Shape::Name, "Its name, as in `distinct('rcpts', '1d')`"),
            required(
                "number",
                Shape::Integer(1, KIND_MAX),
                "Number under which it is stored, beside those of the kinds",
            ),
            required("per", Shape::Name, "Kind for each of whose keys values are counted"),
            required("of", Shape::Name, "Fact whose values are counted"),
            required(
                "window",
                Shape::Text,
                "Period, such as `1d`, or `1d x 7` to keep seven before the current one",
            ),
            setting(
                "method",
                Shape::Choice(&["exact", "approximate"]),
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
    },
    Section {
        name: "label",
        form: Form::List("name"),
        node: false,
        doc: "A label that rules put on keys for a time, and that later events of the key show.",
        settings: &[
            required("name", Shape::Name, "Its name, as in `ip.marked('scanner')`"),
            required(
                "number",
                Shape::Integer(1, KIND_MAX),
                "Number under which it is stored, beside those of the kinds",
            ),
            required("of", Shape::Name, "Kind whose keys can have it"),
            required("keep", Shape::Span, "How long it can hold at most"),
            setting(
                "decision",
                Shape::Name,
                None,
                "What enforcement points are told to do with keys that have it, such as `ban` or `captcha`: they poll `/v1/decisions/stream`, and the piece is kept in the data directory until the label ends",
            ),
            setting("description", Shape::Text, Some("\"\""), "What it says of a key, for people"),
        ],
    },
    Section {
        name: "classifier",
        form: Form::List("name"),
        node: false,
        doc: "A statistical classifier that learns from feedback which tokens of some facts are those of bad or good events. What it says are facts: `NAME.probability`, `NAME.score`, `NAME.tokens`, `NAME.known`, `NAME.bad`, `NAME.good`. See [classifier.md](classifier.md).",
        settings: &[
            required("name", Shape::Name, "Its name, as in `NAME.probability > 0.99`"),
            required(
                "number",
                Shape::Integer(1, KIND_MAX),
                "Number under which its tokens are stored, beside those of the kinds. It must never change its meaning",
            ),
            required(
                "of",
                Shape::List(&Shape::Name),
                "Texts whose words and runs of characters it learns. Feedback can only learn from facts that are journalled",
            ),
            setting(
                "traits",
                Shape::List(&Shape::Name),
                Some("[]"),
                "Facts that say what is known beside the texts: of these it learns words, and items of lists as they stand",
            ),
            setting(
                "bad",
                Shape::List(&Shape::Name),
                Some("[\"spam\"]"),
                "Classes of `[feedback]` that teach it that an event is bad",
            ),
            setting(
                "good",
                Shape::List(&Shape::Name),
                Some("[\"ham\"]"),
                "Classes of `[feedback]` that teach it that an event is good",
            ),
            setting(
                "forget",
                Shape::List(&Shape::Name),
                Some("[]"),
                "Classes of `[feedback]` that take back what an event has taught it",
            ),
            setting(
                "per",
                Shape::Name,
                None,
                "Kind each of whose keys has a classifier of its own, such as the recipient's; it is asked and taught where an event has exactly one such key",
            ),
            setting(
                "keep",
                Shape::Span,
                Some("\"180d\""),
                "How long a token is kept after it was last learned",
            ),
            setting(
                "auto_bad_at",
                Shape::Float,
                None,
                "Learn an event as bad by itself if all rules but those that ask the classifier, or a model, score this much. Without it nothing bad is learned so",
            ),
            setting(
                "auto_good_at",
                Shape::Float,
                None,
                "Learn an event as good by itself if the same rules score this little. Without it nothing good is learned so",
            ),
            setting(
                "auto_rules",
                Shape::Integer(1, 1000),
                Some("3"),
                "Fewest of these rules that must say the same for an event to be learned so",
            ),
            setting(
                "auto_per_hour",
                Shape::Integer(1, 1_000_000),
                Some("200"),
                "Most events in an hour that are learned so; what people have said of an event is never overruled, and a class that has three times as many as the other gets no more",
            ),
        ],
    },
    Section {
        name: "observe",
        form: Form::Table,
        node: false,
        doc: "What every event counts, whatever its verdict.",
        settings: &[setting(
            "add",
            Shape::List(&Shape::Name),
            Some("[\"seen\"]"),
            "Counters that go up by one for each key of an event, where its statistic has them",
        )],
    },
    Section {
        name: "settle",
        form: Form::Map,
        node: false,
        doc: "What a verdict counts: a counter, and the actions that add to it.",
        settings: &[required(
            "COUNTER",
            Shape::List(&Shape::Choice(ACTIONS)),
            "Actions after which the counter goes up by one",
        )],
    },
    Section {
        name: "feedback",
        form: Form::Map,
        node: false,
        doc: "What people may say of an event afterwards: a class, and the counters that it adds to.",
        settings: &[required(
            "CLASS",
            Shape::List(&Shape::Name),
            "Counters that go up by the weight of who says it; `none` is no class, it takes back what was said",
        )],
    },
    Section {
        name: "reports",
        form: Form::Table,
        node: false,
        doc: "How much what people say counts. A reporter's word on an event replaces the one before. See [concepts.md](concepts.md#reports).",
        settings: &[
            setting(
                "bad",
                Shape::List(&Shape::Name),
                Some("[]"),
                "Classes that say an event was unwanted; the first is what a report means that only says so",
            ),
            setting(
                "good",
                Shape::List(&Shape::Name),
                Some("[]"),
                "Classes that say an event was wanted; the first is what a report means that only says so",
            ),
            setting(
                "alike",
                Shape::List(&Shape::Name),
                Some("[]"),
                "Kinds whose keys tell that events are alike: reporters agree on the first key of an event of these kinds, and where it has none on the event itself",
            ),
            setting(
                "senders",
                Shape::List(&Shape::Text),
                Some("[]"),
                "Addresses, and domains without `@`, whose mail may report although nobody was authenticated: envelope senders, so only where these cannot be forged",
            ),
            setting(
                "per_day",
                Shape::Integer(0, 1_000_000_000),
                Some("100"),
                "How often a reporter may say in 24 hours, to the hour, what `bad` and `good` name; what is beyond counts nothing",
            ),
            setting(
                "others_per_day",
                Shape::Integer(0, 1_000_000_000),
                Some("2000"),
                "The same for all other classes, such as `read`",
            ),
            setting(
                "weight_new",
                Shape::Integer(0, WEIGHT_MAX),
                Some("1"),
                "How much a word counts of a reporter of whom little is known",
            ),
            setting(
                "weight_trusted",
                Shape::Integer(0, WEIGHT_MAX),
                Some("2"),
                "How much a word counts of a trusted reporter",
            ),
            setting(
                "trusted_after",
                Shape::Integer(1, 1_000_000_000),
                Some("10"),
                "How often others must have agreed with a reporter in 90 days, and hardly contradicted, for trust: (agreed + 1) / (agreed + contradicted + reversed + 2) is at least 0.9",
            ),
            setting(
                "distrusted_after",
                Shape::Integer(1, 1_000_000_000),
                Some("3"),
                "How often a reporter must have been contradicted in 90 days, or have reversed a report, for the words to count nothing, if that share is below 0.5",
            ),
        ],
    },
    Section {
        name: "report_addresses",
        form: Form::Map,
        node: false,
        doc: "Addresses to which people send mail to report it, by what that says. See [http.md](http.md#post-v1report).",
        settings: &[required(
            "CLASS",
            Shape::List(&Shape::Text),
            "Addresses, such as `spam@example.org`; what is sent there is reported as the class of [feedback]",
        )],
    },
    Section {
        name: "constants",
        form: Form::Map,
        node: false,
        doc: "Values that conditions can name.",
        settings: &[required("NAME", Shape::Constant, "Value: a number, a text, true or false, or a list")],
    },
    Section {
        name: "expressions",
        form: Form::Map,
        node: false,
        doc: "Parts of conditions under a name. They can use each other, but none itself.",
        settings: &[required("NAME", Shape::Text, "Expression in the rule language, of any type")],
    },
    Section {
        name: "set",
        form: Form::List("name"),
        node: false,
        doc: "Many constants of one type that conditions seek a value in, written out or in a file.",
        settings: &[
            required("name", Shape::Name, "Its name, as in `mail.from_domain in freemail`"),
            required(
                "type",
                Shape::Choice(SET_TYPES),
                "What it holds. `domain`: names, each with all below it; `ip`: addresses and networks",
            ),
            setting("values", Shape::List(&Shape::Entry), None, "Its entries"),
            setting(
                "file",
                Shape::Text,
                None,
                "Instead of `values`: a file of one entry a line, relative to this file; empty lines and those that begin with `#` or `;` are left out, and but for strings what follows a blank, too",
            ),
            setting("description", Shape::Text, Some("\"\""), "What it is, for people"),
        ],
    },
    Section {
        name: "phrases",
        form: Form::List("name"),
        node: false,
        doc: "Many words and phrases that are looked for in texts in one pass. What is found is `phrases.NAME.weight`, `.count` and `.matched`, and for each class `phrases.NAME.CLASS.weight` and `.count`. See [phrases.md](phrases.md).",
        settings: &[
            required(
                "name",
                Shape::Name,
                "Its name, as in `phrases.NAME.weight > 3`: letters, digits and `_`",
            ),
            required(
                "files",
                Shape::List(&Shape::Text),
                "Its files, relative to this file: one entry a line, its class, weight, phrase and, if it has an end, date, with tabs between; empty lines and those that begin with `#` are left out",
            ),
            required("classes", Shape::List(&Shape::Name), "The classes that entries may have"),
            required(
                "of",
                Shape::List(&Shape::Text),
                "The facts in which it looks: texts and lists of texts",
            ),
            setting(
                "words",
                Shape::Bool,
                Some("true"),
                "Whether a phrase is found only as whole words; scripts without blanks between words have none",
            ),
            setting("description", Shape::Text, Some("\"\""), "What it is, for people"),
        ],
    },
    Section {
        name: "model",
        form: Form::List("name"),
        node: false,
        doc: "A CatBoost model that says something of each event before it is judged. Its features are named after the facts and readings that it takes. See [models.md](models.md).",
        settings: &[
            required("name", Shape::Name, "Its name, as in `model('spam') > 0.9`"),
            required("file", Shape::Text, "Its file, `.cbm` or CatBoost's JSON, relative to this file"),
            setting(
                "mode",
                Shape::Choice(MODES),
                Some("\"enforce\""),
                "`enforce`; `shadow`: computed and journalled, and only rules that are in shadow may read it; `off`: only checked",
            ),
            setting("description", Shape::Text, Some("\"\""), "What it says, for people"),
        ],
    },
    Section {
        name: "group",
        form: Form::List("name"),
        node: false,
        doc: "Rules that add to the score together.",
        settings: &[
            required("name", Shape::Name, "Its name"),
            setting("cap", Shape::Float, None, "What its rules add together at most, from 0 up"),
            setting("floor", Shape::Float, None, "What its rules add together at least, from 0 down"),
            setting("description", Shape::Text, Some("\"\""), "What its rules have in common, for people"),
        ],
    },
    Section {
        name: "rule",
        form: Form::List("name"),
        node: false,
        doc: "A condition over the facts, what it adds to the score, and what else it does.",
        settings: &[
            required("name", Shape::Name, "Its name, as verdicts give it"),
            required("when", Shape::Text, "Condition in the rule language"),
            required(
                "score",
                Shape::Float,
                "What it adds to the score when the condition holds; may be negative",
            ),
            setting(
                "share",
                Shape::Text,
                None,
                "A number in the rule language, cut to 0 to 1: the part of `score` that is added; nothing where it is missing",
            ),
            setting(
                "description",
                Shape::Text,
                Some("\"\""),
                "What it finds and why that matters, for people",
            ),
            setting(
                "mode",
                Shape::Choice(MODES),
                Some("\"enforce\""),
                "`enforce`; `shadow`: evaluated and journalled, changes nothing; `off`",
            ),
            setting("group", Shape::Name, None, "Group within whose bounds its score counts"),
            setting(
                "effects",
                Shape::List(&Shape::Text),
                None,
                "What else it does when it fires: `set ACTION`, `lift ACTION`, `mark KIND as LABEL for TIME`, `add KIND.COUNTER`, `add KIND.COUNTER by NUMBER`, `notify NAME`",
            ),
            setting("owner", Shape::Text, None, "Who answers for it, for people"),
            setting("expires", Shape::Time, None, "From this time of events on it is off"),
            setting(
                "test",
                Shape::List(&Shape::Table(TEST)),
                None,
                "Rows on which it must fire, or not, for the configuration to be accepted",
            ),
        ],
    },
    Section {
        name: "band",
        form: Form::List("action"),
        node: false,
        doc: "The action from a score upwards. Below the lowest band events are accepted.",
        settings: &[
            required("at", Shape::Float, "Lowest score of the band"),
            required("action", Shape::Choice(ACTIONS), "What the caller is asked to do"),
        ],
    },
    Section {
        name: "node",
        form: Form::Table,
        node: true,
        doc: "This node.",
        settings: &[
            setting(
                "pipelines",
                Shape::List(&Shape::Text),
                Some("[]"),
                "Files of further pipelines, relative to this file",
            ),
            setting(
                "watch",
                Shape::Interval,
                Some("\"2s\""),
                "How often a server looks whether the configuration's files have changed, to take them over; or `off`",
            ),
            setting(
                "versions",
                Shape::Integer(1, 1000),
                Some("20"),
                "Versions of each pipeline that are kept to be gone back to",
            ),
        ],
    },
    Section {
        name: "limit",
        form: Form::List("name"),
        node: true,
        doc: "How much of something a key may have in a time. See [limits.md](limits.md).",
        settings: &[
            required("name", Shape::Name, "Its name in requests and metrics"),
            required(
                "number",
                Shape::Integer(1, crate::limit::NUMBER_MAX as i64),
                "Number under which its keys are stored. It must never change its meaning",
            ),
            setting("description", Shape::Text, Some("\"\""), "What it is for, for people"),
            required(
                "key",
                Shape::List(&Shape::Text),
                "Fields of a request whose values together are the key, each with how it is normalised: `user`, `mail.from:address`, `client.ip:network` (an IPv6 address by its /64). Without any there is one key for all",
            ),
            required("count", Shape::Integer(0, i64::MAX), "Most that a key may have"),
            required(
                "per",
                Shape::Text,
                "In which time: a length of time such as `10m`, or `minute`, `hour`, `day`, `month` of the calendar",
            ),
            setting(
                "mode",
                Shape::Choice(&["sliding", "interpolated", "calendar", "gcra"]),
                None,
                "How it is counted. Unless given: `calendar` where `per` is a period of the calendar, else `sliding`",
            ),
            setting(
                "windows",
                Shape::Integer(1, 3600),
                Some("60"),
                "Sub-windows of a sliding window. The more, the less strict, and the more memory a key takes",
            ),
            setting("zone", Shape::Text, Some("\"UTC\""), "Time zone of the calendar"),
            setting(
                "burst",
                Shape::Integer(1, i64::MAX),
                None,
                "For `gcra`: how much can be taken at once. Unless given: `count`",
            ),
            setting("cost", Shape::Integer(1, i64::MAX), Some("1"), "What a take costs that does not say"),
            setting(
                "counts",
                Shape::Choice(&["all", "allowed"]),
                None,
                "What counts: `all` takes, so that who does not stop stays out, or those that are `allowed`. Unless given: `allowed` for `gcra` that is no shadow ban, else `all`",
            ),
            setting(
                "enforcement",
                Shape::Choice(&["enforce", "shadow_ban", "observe", "off"]),
                Some("\"enforce\""),
                "`enforce`; `shadow_ban`: callers are told that all is well, and the application alone that it is not; `observe`: all is allowed, and told what would have been; `off`: nothing is counted",
            ),
            setting(
                "on_error",
                Shape::Choice(&["open", "closed"]),
                Some("\"open\""),
                "When counts cannot be had: allow (`open`) or refuse (`closed`)",
            ),
            setting(
                "exact",
                Shape::Bool,
                Some("false"),
                "With `home = \"cluster\"`: whether nodes decide together, by a call of the cluster for each take, so that they let no more through than one would. Where the ledger is the node's own every limit is exact",
            ),
            setting("ban", Shape::Table(BAN), None, "When a key is refused whatever it has used"),
            setting(
                "also",
                Shape::List(&Shape::Name),
                Some("[]"),
                "Limits that are taken with this one: a request must be within all of them",
            ),
            setting(
                "override",
                Shape::List(&Shape::Table(OVERRIDE)),
                None,
                "Keys for which it is another, or none",
            ),
        ],
    },
    Section {
        name: "forward_auth",
        form: Form::List("name"),
        node: true,
        doc: "What proxies ask before they hand a request on, at `/v1/auth/NAME`. See [limits.md](limits.md#in-front-of-a-site).",
        settings: &[
            required("name", Shape::Name, "Its name in the URL"),
            setting(
                "hops",
                Shape::List(&Shape::Network),
                Some("[\"127.0.0.0/8\", \"::1\"]"),
                "Networks of the proxies, the one that asks included: who may ask, and whose `X-Forwarded-For` is believed",
            ),
            setting(
                "limits",
                Shape::List(&Shape::Name),
                Some("[]"),
                "Limits that each request takes from, counted by `client.ip`, `http.host`, `http.method`, `http.path`, `http.query`, `http.agent` and `http.referer`",
            ),
            setting(
                "pipeline",
                Shape::Name,
                None,
                "Pipeline that decides on requests within the limits; they have the same fields as events",
            ),
            setting(
                "refuse",
                Shape::Integer(400, 499),
                Some("429"),
                "Status of a request over a limit; nginx knows 401 and 403 only",
            ),
        ],
    },
    Section {
        name: "ledger",
        form: Form::Table,
        node: true,
        doc: "Where statistics live.",
        settings: &[
            setting(
                "home",
                Shape::Choice(&["embedded", "cluster"]),
                Some("\"embedded\""),
                "`embedded`: in the data directory; `cluster`: in a cluster of Redis, Valkey or Kvrocks, whose `nodes` are named here. All settings below but `durability`, `memory` and `segment` are for the cluster",
            ),
            setting(
                "durability",
                Shape::Durability,
                Some("\"1s\""),
                "`sync`: on disk before the answer; a length of time: at most that much is lost in a crash; `none`: written, never waited for",
            ),
            setting(
                "memory",
                Shape::Size(1 << 50),
                Some("\"1GiB\""),
                "Memory for statistics: cells, the directory of all keys in memory or on disk (some 15 bytes a key), and sketches. Cells that do not fit are on disk alone",
            ),
            setting(
                "segment",
                Shape::Size(1 << 30),
                Some("\"64MiB\""),
                "Size at which a segment file is closed and the next begun",
            ),
            setting(
                "nodes",
                Shape::List(&Shape::Text),
                Some("[]"),
                "Some servers of the cluster, each `host:port`; the others are found by asking these",
            ),
            setting("user", Shape::Text, None, "User of the cluster, where its servers have users"),
            setting("password", Shape::Secret(1), None, "Password for the cluster"),
            setting("tls", Shape::Bool, Some("false"), "Whether connections to the cluster are encrypted"),
            setting(
                "tls_ca",
                Shape::Text,
                None,
                "File of the authorities that the servers' certificates must lead to, in PEM; without it those of the system",
            ),
            setting(
                "prefix",
                Shape::Text,
                Some("\"tollhouse:\""),
                "What the names of all keys in the cluster begin with, at most 64 bytes without braces",
            ),
            setting(
                "partitions",
                Shape::Integer(1, 1 << 14),
                Some("1024"),
                "Parts that keys are divided into, a power of two; fixed once the cluster has any. More make a moving slot smaller, fewer make batches larger",
            ),
            setting(
                "replicas",
                Shape::Integer(0, 16),
                Some("0"),
                "Replicas that must have a write before the node takes it as made. With 0 what a failing master had not passed on is sent again by the node that has it",
            ),
            setting(
                "flush",
                Shape::Span,
                Some("\"1s\""),
                "How often each partition's sums are sent to the cluster",
            ),
            setting(
                "fresh",
                Shape::Span,
                Some("\"1s\""),
                "How long what was read of a key is answered from memory, with what this node has added since",
            ),
            setting(
                "stale",
                Shape::Span,
                Some("\"10s\""),
                "How long it is answered while it is being read anew; after that decisions wait for the reading",
            ),
            setting(
                "timeout",
                Shape::Span,
                Some("\"250ms\""),
                "How long a decision waits for the cluster. What is not known by then is missing, and the pipeline's `on_error` decides",
            ),
            setting(
                "retain",
                Shape::Span,
                Some("\"30s\""),
                "How long what the cluster has acknowledged is kept by the node, for a replica that takes over without it",
            ),
            setting(
                "backlog",
                Shape::Size(1 << 50),
                Some("\"1GiB\""),
                "Bytes on the node's disk of what the cluster has not got yet; beyond it nothing is added",
            ),
        ],
    },
    Section {
        name: "journal",
        form: Form::Table,
        node: true,
        doc: "The log of decisions.",
        settings: &[
            setting(
                "segment",
                Shape::Size(1 << 30),
                Some("\"64MiB\""),
                "Size at which a segment file is closed and the next begun",
            ),
            setting(
                "rotate",
                Shape::Span,
                Some("\"1d\""),
                "Span of arrivals after which a segment file is closed and the next begun",
            ),
            setting(
                "keep",
                Shape::Span,
                Some("\"30d\""),
                "Age at which a closed segment is deleted, counted from when it was last written",
            ),
            setting(
                "keep_bytes",
                Shape::Size(1 << 50),
                Some("\"8GiB\""),
                "Size of the whole journal beyond which its oldest segments are deleted",
            ),
        ],
    },
    Section {
        name: "dns",
        form: Form::Table,
        node: true,
        doc: "Name service, for authentication and DNS lists. Nothing is ever looked up unless resolvers are named.",
        settings: &[
            setting(
                "resolvers",
                Shape::List(&Shape::Text),
                Some("[]"),
                "Resolvers to ask: an address, or an address and a port, such as `127.0.0.1` or `[::1]:5353`; or `system` alone, for those of `/etc/resolv.conf`",
            ),
            setting(
                "timeout",
                Shape::Span,
                Some("\"3s\""),
                "Longest time that one decision waits for name service, at most half of the `timeout` of `[server]`. What is not known by then is decided without",
            ),
            setting(
                "ttl_min",
                Shape::Span,
                Some("\"10s\""),
                "How long an answer is kept at least, whatever it says",
            ),
            setting(
                "ttl_max",
                Shape::Span,
                Some("\"1d\""),
                "How long an answer is kept at most before it is asked for again",
            ),
            setting(
                "negative_max",
                Shape::Span,
                Some("\"15m\""),
                "The same for the answer that there is nothing",
            ),
            setting(
                "stale",
                Shape::Span,
                Some("\"1h\""),
                "How long after that an answer still stands in where the resolvers fail or are too slow",
            ),
            setting("memory", Shape::Size(1 << 40), Some("\"16MiB\""), "Memory for answers"),
            setting(
                "queries_max",
                Shape::Integer(1, 65_536),
                Some("512"),
                "Most queries under way at once; what would need more fails",
            ),
        ],
    },
    Section {
        name: "server",
        form: Form::Table,
        node: true,
        doc: "The HTTP listener.",
        settings: &[
            setting(
                "listen",
                Shape::Socket,
                Some("\"127.0.0.1:8377\""),
                "Address and port. Any address but a loopback one needs a token",
            ),
            setting(
                "tokens",
                Shape::List(&Shape::Secret(16)),
                Some("[]"),
                "Bearer tokens of which a request must carry one, if there are any",
            ),
            setting("body_max", Shape::Size(1 << 50), Some("\"32MiB\""), "Largest request body"),
            setting("batch_max", Shape::Integer(1, 1_000_000), Some("10000"), "Most events in one batch"),
            setting(
                "requests_max",
                Shape::Integer(1, 1_000_000),
                Some("512"),
                "Most requests at work at once; beyond it callers are told 503",
            ),
            setting(
                "connections_max",
                Shape::Integer(1, 1_000_000),
                Some("4096"),
                "Most open connections; beyond it they wait to be accepted",
            ),
            setting(
                "timeout",
                Shape::Span,
                Some("\"10s\""),
                "Longest time for one request, reading its body included",
            ),
        ],
    },
    Section {
        name: "envoy",
        form: Form::Table,
        node: true,
        doc: "Limits for Envoy, in the files of `envoyproxy/ratelimit`. See [envoy.md](envoy.md).",
        settings: &[
            setting(
                "config",
                Shape::List(&Shape::Text),
                Some("[]"),
                "Its files, or folders of them, relative to this file. They are read again like rules",
            ),
            setting(
                "merge_domains",
                Shape::Bool,
                Some("false"),
                "Whether files may add to the domain of another (`MERGE_DOMAIN_CONFIG`)",
            ),
            setting(
                "response_headers",
                Shape::Bool,
                Some("false"),
                "Whether answers carry `RateLimit-Limit`, `-Remaining` and `-Reset` of the limit with the least left (`LIMIT_RESPONSE_HEADERS_ENABLED`)",
            ),
            setting(
                "response_metadata",
                Shape::Bool,
                Some("false"),
                "Whether answers carry the descriptors, and what of `quota_mode` is over, as dynamic metadata (`RESPONSE_DYNAMIC_METADATA`)",
            ),
        ],
    },
    Section {
        name: "listener",
        form: Form::List("name"),
        node: true,
        doc: "A socket on which mail servers, clients of Redis (`resp`), Envoy (`envoy`) or senders of batches (`grpc`) ask in a protocol of theirs.",
        settings: &[
            required("name", Shape::Name, "Its name in the log and in metrics"),
            required("protocol", Shape::Choice(PROTOCOLS), "What is spoken there"),
            required(
                "listen",
                Shape::Endpoint,
                "Address and port, or `unix:` and the path of a socket. Any address but a loopback one needs `clients`",
            ),
            setting(
                "mode",
                Shape::FileMode,
                Some("\"0660\""),
                "Permissions of a unix socket: who may write may ask",
            ),
            setting(
                "clients",
                Shape::List(&Shape::Network),
                Some("[]"),
                "Networks whose hosts may ask over TCP, the own host included. Without any a loopback address is open to its host",
            ),
            setting(
                "pipeline",
                Shape::Name,
                None,
                "Pipeline that decides; without it the first whose input is `message`, or for `resp`, `envoy` and `grpc` the first",
            ),
            setting("user", Shape::Name, Some("\"default\""), "`resp`: name that goes with the `password`"),
            setting(
                "password",
                Shape::Secret(16),
                None,
                "`resp`: what a client has to say (`AUTH`, `HELLO`) before anything else",
            ),
            setting(
                "limits",
                Shape::List(&Shape::Name),
                Some("[]"),
                "Milter and policy delegation: limits that each envelope takes from before its message comes, counted by `client.ip`, `client.helo`, `client.user`, `mail.sender` and `mail.recipients`. What is over is asked to come again",
            ),
            setting(
                "on_error",
                Shape::Choice(&["open", "closed"]),
                Some("\"open\""),
                "What becomes of a message that could not be decided on (journal failing, `timeout`, too much at work): let it pass (`open`) or ask the client to come again (`closed`). Where statistics alone are missing, the pipeline's `on_error` says what that means",
            ),
            setting("timeout", Shape::Span, Some("\"5s\""), "Longest time for one decision"),
            setting(
                "idle",
                Shape::Span,
                Some("\"10m\""),
                "Time after which a connection is closed on which nothing comes",
            ),
            setting(
                "learn",
                Shape::Bool,
                Some("false"),
                "Whether all who may connect may also say what messages or events are: `spamc` and `rspamc` learn, `TOLL.LEARN` does. With one of the node's `tokens` as password `rspamc` may in any case, with the `password` clients of `resp`",
            ),
            setting(
                "ticket",
                Shape::Bool,
                Some("true"),
                "Whether messages get a field `X-Tollhouse-Id`, by which reports on them (`/v1/report`) find the decision. One that a message brings is taken away in any case, but for mail to `[report_addresses]` alone",
            ),
            setting(
                "body_max",
                Shape::Size(1 << 50),
                Some("\"32MiB\""),
                "Longest part of a message that is kept to be judged; all that is at work, requests to `[server]` included, takes at most eight of its `body_max`",
            ),
            setting(
                "oversize",
                Shape::Choice(&["judge", "error"]),
                Some("\"judge\""),
                "A message beyond `body_max`: judged by its first part, or as `on_error` says",
            ),
            setting(
                "connections_max",
                Shape::Integer(1, 1_000_000),
                Some("1000"),
                "Most open connections; beyond it they wait to be accepted",
            ),
            setting(
                "client_connections_max",
                Shape::Integer(1, 1_000_000),
                Some("500"),
                "Most open connections of one address; beyond it they are closed at once",
            ),
            setting(
                "act",
                Shape::Choice(&["enforce", "tag", "none"]),
                Some("\"enforce\""),
                "`enforce`: the mail server is told what `replies` say; `tag`: header fields at most, and every message passes; `none`: every message passes as it is, so that only statistics and journal tell what would have been done",
            ),
            setting(
                "replies",
                Shape::Table(REPLIES),
                None,
                "What the mail server is asked to do for an action, where that is not the usual",
            ),
            setting(
                "counts",
                Shape::Choice(&["refused", "always"]),
                Some("\"refused\""),
                "Policy delegation: count and log messages that are refused there (`refused`), since a milter counts the others later, or every one (`always`), where no milter follows",
            ),
            setting(
                "quarantine_to",
                Shape::Text,
                None,
                "Address of the mailbox to which `redirect` delivers",
            ),
            setting(
                "reject_text",
                Shape::Text,
                Some("\"5.7.1 Message refused, reference {id}\""),
                "Status and text of a refusal; `{id}` is the decision's id",
            ),
            setting(
                "defer_text",
                Shape::Text,
                Some("\"4.7.1 Not now, please try again later\""),
                "Status and text that ask to come again",
            ),
        ],
    },
];

/// The section of this name.
pub(super) fn section(name: &str) -> Option<&'static Section> {
    SECTIONS.iter().find(|section| section.name == name)
}

/// The key that tells the entries of a list section apart.
pub(super) fn identity(section_name: &str) -> Option<&'static str> {
    match section(section_name)?.form {
        Form::List(key) => Some(key),
        _ => None,
    }
}

impl Section {
    /// The setting of this key.
    pub(super) fn setting(&self, key: &str) -> Option<&'static Setting> {
        match self.form {
            Form::Map => self.settings.first(),
            _ => self.settings.iter().find(|setting| setting.key == key),
        }
    }

    /// `[[rule]]`, for messages.
    pub(super) fn heading(&self) -> String {
        match self.form {
            Form::Top => "the top of the file".to_owned(),
            Form::Table | Form::Map => format!("[{}]", self.name),
            Form::List(_) => format!("[[{}]]", self.name),
        }
    }
}

/// Checks a whole document against [`SECTIONS`]. `main` allows the node's sections.
pub(super) fn check(root: &Table, main: bool, problems: &mut Problems) {
    let top = &SECTIONS[0];
    for entry in &root.entries {
        if let Some(setting) = top.setting(&entry.key) {
            check_value(&entry.key, &entry.node, setting.shape, problems);
            continue;
        }
        let Some(section) = section(&entry.key).filter(|section| !section.name.is_empty()) else {
            let names = SECTIONS.iter().filter(|section| main || !section.node).map(|section| section.name);
            let names =
                top.settings.iter().map(|setting| setting.key).chain(names.filter(|name| !name.is_empty()));
            problems.add(
                &entry.key_origin,
                format!("unknown key `{}`", entry.key),
                Some(expected(&entry.key, names)),
            );
            continue;
        };
        if section.node && !main {
            let message = format!("{} belongs to the node, not to a pipeline", section.heading());
            problems.add(&entry.key_origin, message, Some("move it to the main file".to_owned()));
            continue;
        }
        match (section.form, &entry.node.value) {
            (Form::List(_), Tree::List(items)) => {
                for item in items {
                    match &item.value {
                        Tree::Table(table) => check_table(section, table, problems),
                        other => wrong_type(&entry.key, &item.origin, other, "a table", problems),
                    }
                }
            }
            (Form::List(_), other) => {
                let wanted = format!("a list of tables, written {}", section.heading());
                wrong_type(&entry.key, &entry.node.origin, other, &wanted, problems);
            }
            (_, Tree::Table(table)) => check_table(section, table, problems),
            (_, other) => {
                let wanted = format!("a table, written {}", section.heading());
                wrong_type(&entry.key, &entry.node.origin, other, &wanted, problems);
            }
        }
    }
}

/// What a text says that is laid over a pipeline's file at run time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layer {
    /// It may change all but what the pipeline is.
    Posted,
    /// It may change what is judged, and nothing that is counted.
    Candidate,
}

/// The sections that judging alone depends on.
const JUDGING: [&str; 7] = ["constants", "expressions", "set", "model", "group", "rule", "band"];

/// Checks a text that came from outside: what it may speak of, and that it names no files of this machine.
pub(super) fn check_layer(root: &Table, layer: Layer, problems: &mut Problems) {
    check(root, false, problems);
    for entry in &root.entries {
        let Some(section) = section(&entry.key) else {
            if SECTIONS[0].setting(&entry.key).is_some() {
                let message = format!("`{}` says what the pipeline is", entry.key);
                let help = "it stands in the pipeline's file, over which this text is laid";
                problems.add(&entry.key_origin, message, Some(help.to_owned()));
            }
            continue;
        };
        if layer == Layer::Candidate && !section.node && !JUDGING.contains(&section.name) {
            let message = format!("{} changes what is counted", section.heading());
            let help = "a candidate judges what the enforced rules judge: change the pipeline's file first";
            problems.add(&entry.key_origin, message, Some(help.to_owned()));
        }
        let Tree::List(items) = &entry.node.value else { continue };
        for item in items {
            let Tree::Table(table) = &item.value else { continue };
            if let Some(file) =
                table.entries.iter().find(|entry| matches!(entry.key.as_str(), "file" | "files"))
            {
                let message = format!("{} of this text cannot name a file", section.heading());
                let help = "name it in the pipeline's file; this text may change the rest of its entry";
                problems.add(&file.key_origin, message, Some(help.to_owned()));
            }
        }
    }
}

fn check_table(section: &Section, table: &Table, problems: &mut Problems) {
    let of = |key: &str| section.setting(key);
    check_entries(&section.heading(), section.settings, of, table, problems);
}

fn check_entries(
    heading: &str,
    settings: &[Setting],
    of: impl Fn(&str) -> Option<&'static Setting>,
    table: &Table,
    problems: &mut Problems,
) {
    for entry in &table.entries {
        match of(&entry.key) {
            Some(setting) => check_value(&entry.key, &entry.node, setting.shape, problems),
            None => {
                let message = format!("unknown key `{}` in {heading}", entry.key);
                let names = settings.iter().map(|setting| setting.key);
                problems.add(&entry.key_origin, message, Some(expected(&entry.key, names)));
            }
        }
    }
}

/// Checks that nothing is missing from an entry of a list section, once all layers are merged.
pub(super) fn check_complete(section: &Section, table: &Table, origin: &Origin, problems: &mut Problems) {
    complete(&section.heading(), section.settings, table, origin, problems);
}

fn complete(heading: &str, settings: &[Setting], table: &Table, origin: &Origin, problems: &mut Problems) {
    for setting in settings {
        match (setting.shape, table.get(setting.key)) {
            (_, None) if setting.required => {
                let message = format!("{heading} has no `{}`", setting.key);
                problems.add(origin, message, Some(format!("add `{} = ...`: {}", setting.key, setting.doc)));
            }
            (Shape::Table(settings), Some(Node { value: Tree::Table(inner), origin })) => {
                complete(&format!("`{}`", setting.key), settings, inner, origin, problems);
            }
            (Shape::List(Shape::Table(settings)), Some(Node { value: Tree::List(items), .. })) => {
                for item in items {
                    let Tree::Table(inner) = &item.value else { continue };
                    complete(&format!("`{}`", setting.key), settings, inner, &item.origin, problems);
                }
            }
            _ => {}
        }
    }
}

fn wrong_type(key: &str, origin: &Origin, found: &Tree, wanted: &str, problems: &mut Problems) {
    let message = format!("`{key}` is {}", found.type_name());
    problems.add(origin, message, Some(format!("expected {wanted}")));
}

fn check_value(key: &str, node: &Node, shape: Shape, problems: &mut Problems) {
    if let (Shape::Table(settings), Tree::Table(table)) = (shape, &node.value) {
        let of = |key: &str| settings.iter().find(|setting| setting.key == key);
        check_entries(&format!("`{key}`"), settings, of, table, problems);
        return;
    }
    let wanted = match fit(&node.value, shape) {
        Ok(()) => return,
        Err(wanted) => wanted,
    };
    if let (Shape::List(inner), Tree::List(items)) = (shape, &node.value) {
        for item in items {
            check_value(key, item, *inner, problems);
        }
        return;
    }
    match &node.value {
        Tree::String(_) if matches!(shape, Shape::Secret(_)) => {
            problems.add(&node.origin, format!("`{key}` is too short"), Some(wanted))
        }
        Tree::String(text) => {
            let message = format!("`{key}` cannot be {}", excerpt(text));
            problems.add(&node.origin, message, Some(wanted));
        }
        Tree::Integer(number) => {
            problems.add(&node.origin, format!("`{key}` cannot be {number}"), Some(wanted))
        }
        other => problems.add(&node.origin, format!("`{key}` is {}", other.type_name()), Some(wanted)),
    }
}

fn excerpt(text: &str) -> String {
    const SHOWN_MAX: usize = 40;
    let cut: String = text.chars().take(SHOWN_MAX).collect();
    if cut.len() < text.len() { format!("{cut:?}...") } else { format!("{cut:?}") }
}

/// Whether a value has a shape; if not, what was expected.
fn fit(value: &Tree, shape: Shape) -> Result<(), String> {
    let text = match value {
        Tree::String(text) => Some(text.as_str()),
        _ => None,
    };
    let (fits, wanted) = match shape {
        Shape::Text => (text.is_some(), "expected a string".to_owned()),
        Shape::Name => {
            let fits = text.is_some_and(|text| {
                (1..=64).contains(&text.len())
                    && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte))
            });
            (fits, "expected a name of letters, digits, `_`, `-` and `.`, at most 64 bytes".to_owned())
        }
        Shape::Secret(least) => (
            text.is_some_and(|text| text.len() >= least),
            format!("expected a string of at least {least} bytes"),
        ),
        Shape::Choice(words) => (
            text.is_some_and(|text| words.contains(&text)),
            expected(text.unwrap_or_default(), words.iter().copied()),
        ),
        Shape::Integer(min, max) => (
            matches!(value, Tree::Integer(number) if (min..=max).contains(number)),
            format!("expected an integer from {min} to {max}"),
        ),
        Shape::Float => (matches!(value, Tree::Float(_) | Tree::Integer(_)), "expected a number".to_owned()),
        Shape::Span => (
            text.is_some_and(|text| text.parse::<Span>().is_ok_and(|span| span > Span::ZERO)),
            "expected a length of time such as \"90s\", \"10m\" or \"14d\"".to_owned(),
        ),
        Shape::Durability => (
            text.is_some_and(|text| {
                matches!(text, "sync" | "none") || text.parse::<Span>().is_ok_and(|span| span > Span::ZERO)
            }),
            "expected \"sync\", \"none\" or a length of time such as \"1s\"".to_owned(),
        ),
        Shape::Interval => (
            text.is_some_and(|text| {
                text == "off" || text.parse::<Span>().is_ok_and(|span| span >= Span(100_000))
            }),
            "expected \"off\", or a length of time such as \"2s\", at least \"100ms\"".to_owned(),
        ),
        Shape::Size(max) => (
            text.is_some_and(|text| parse_size(text).is_some_and(|bytes| (1024..=max).contains(&bytes))),
            format!("expected a number of bytes such as \"64MiB\", from 1KiB to {}", print_size(max)),
        ),
        Shape::Socket => (
            text.is_some_and(|text| text.parse::<std::net::SocketAddr>().is_ok()),
            "expected an IP address and a port such as \"127.0.0.1:8377\" or \"[::1]:8377\"".to_owned(),
        ),
        Shape::Endpoint => (
            text.is_some_and(|text| text.parse::<Endpoint>().is_ok()),
            "expected an address and a port such as \"127.0.0.1:11332\", or a path such as \"unix:/run/tollhouse/milter.sock\"".to_owned(),
        ),
        Shape::FileMode => (
            text.is_some_and(|text| file_mode(text).is_some()),
            "expected permissions of a file as octal digits such as \"0660\"".to_owned(),
        ),
        Shape::Network => (
            text.is_some_and(|text| text.parse::<judge::Network>().is_ok()),
            "expected an address or a network such as \"10.0.0.0/8\" or \"2001:db8::/32\"".to_owned(),
        ),
        Shape::Sightings => {
            let (least, most) = (*stats::Admit::AFTER.start(), *stats::Admit::AFTER.end());
            (
                matches!(value, Tree::Integer(number) if (i64::from(least)..=i64::from(most)).contains(number)),
                format!("counters have four bits: write an integer from {least} to {most}"),
            )
        }
        Shape::Entry => (
            matches!(value, Tree::String(_) | Tree::Integer(_)),
            "expected a string or an integer".to_owned(),
        ),
        Shape::Bool => (matches!(value, Tree::Bool(_)), "expected true or false".to_owned()),
        Shape::Time => (time(value).is_some(), "expected a time such as \"2026-12-01T00:00:00Z\"".to_owned()),
        Shape::Constant => (
            match value {
                Tree::List(items) => items
                    .iter()
                    .all(|item| matches!(item.value, Tree::String(_) | Tree::Integer(_) | Tree::Float(_))),
                other => matches!(other, Tree::String(_) | Tree::Integer(_) | Tree::Float(_) | Tree::Bool(_)),
            },
            "expected a number, a string, true or false, or a list of numbers and strings".to_owned(),
        ),
        Shape::Facts => match value {
            Tree::Table(table) => (
                table.entries.iter().all(|entry| fact_value(&entry.node.value).is_some()),
                "expected numbers, strings, true, false, times and lists of strings".to_owned(),
            ),
            _ => (false, "expected a table, written { \"mail.size\" = 7 }".to_owned()),
        },
        Shape::Table(settings) => {
            let needed = settings.iter().filter(|setting| setting.required);
            let needed: Vec<String> = needed.map(|setting| format!("{} = ...", setting.key)).collect();
            (false, format!("expected a table, written {{ {} }}", needed.join(", ")))
        }
        Shape::List(inner) => match value {
            Tree::List(items) if items.iter().all(|item| fit(&item.value, *inner).is_ok()) => {
                (true, String::new())
            }
            Tree::List(_) => (false, String::new()),
            _ => (false, "expected a list, written [...]".to_owned()),
        },
    };
    if fits { Ok(()) } else { Err(wanted) }
}

/// The point in time that a value is.
pub(super) fn time(value: &Tree) -> Option<Time> {
    match value {
        Tree::String(text) | Tree::Date(text) => text.parse().ok(),
        _ => None,
    }
}

/// The value of a fact that a value of the configuration is.
pub(super) fn fact_value(value: &Tree) -> Option<Value> {
    Some(match value {
        Tree::String(text) => Value::from(text.as_str()),
        Tree::Integer(integer) => Value::from(*integer),
        Tree::Float(float) => Value::from(*float),
        Tree::Bool(truth) => Value::from(*truth),
        Tree::Date(text) => Value::from(text.parse::<Time>().ok()?),
        Tree::List(items) => {
            let texts = items.iter().map(|item| match &item.value {
                Tree::String(text) => Some(text.clone()),
                _ => None,
            });
            Value::from(texts.collect::<Option<Vec<String>>>()?)
        }
        Tree::Table(_) => return None,
    })
}

/// The permissions that octal digits stand for.
pub(crate) fn file_mode(text: &str) -> Option<u32> {
    let digits = (3..=4).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    u32::from_str_radix(text, 8).ok().filter(|mode| digits && *mode <= 0o777)
}

/// The form that [`parse_size`] reads, for a whole number of the largest fitting unit.
pub(super) fn print_size(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let index = (bytes.checked_ilog2().unwrap_or(0) / 10).min(4);
    format!("{}{}", bytes >> (10 * index), units[index as usize])
}

/// `512`, `64KiB`, `64MiB`, `2GiB`, `1TiB`.
pub(super) fn parse_size(text: &str) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let number: u64 = text[..digits].parse().ok()?;
    let scale: u64 = match text[digits..].trim() {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "TiB" => 1 << 40,
        _ => return None,
    };
    number.checked_mul(scale)
}
