//! Every section and key of the configuration language, once: a file for each subject. The checker, the defaults, the
//! environment variables, `--effective` and the generated reference are all read off this list.

mod bans;
mod challenge;
mod check;
mod feedback;
mod form;
mod input;
mod limits;
mod listeners;
mod node;
mod notifications;
mod reputation;
mod rules;
mod sinks;
mod sources;
mod statistics;
mod value;
mod visitors;

pub(super) use check::{OverlayKind, check, check_applies, check_complete, check_layer};
pub use feedback::WEIGHT_MAX;
pub(crate) use input::SPACE_MAX;
pub(super) use input::{CANDIDATE, INPUTS};
pub(super) use value::{fact_value, parse_size, print_size, time};
pub(crate) use value::{file_mode, parse_percentage};

/// The shape that a value must have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum SettingType {
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
    /// A share such as `0.5 %`, above 0 and up to half.
    Percentage,
    /// A file's permissions as octal digits, such as `0660`.
    FileMode,
    /// An address, or a network in CIDR notation.
    Network,
    /// The number of times that a key is to be seen before it is admitted: what a sketch can count to.
    Sightings,
    /// A list of values of another shape.
    List(&'static SettingType),
    /// A table with these keys, none of which has a default.
    Table(&'static [SettingSpec]),
    /// One, or a list of at least one.
    OneOrMore(&'static SettingType),
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
pub(super) struct SettingSpec {
    pub(super) key: &'static str,
    pub(super) shape: SettingType,
    /// In TOML. `None` where there is none: then the key is `required`, or absent means what `doc` says.
    pub(super) default: Option<&'static str>,
    pub(super) required: bool,
    /// The condition of the setting, if it does not apply everywhere.
    pub(super) only: Option<SettingCondition>,
    pub(super) doc: &'static str,
}

/// The values of another key of the same table with which a setting applies. With others it is refused, since whoever
/// wrote it believes that it does something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SettingCondition {
    pub(super) key: &'static str,
    pub(super) values: &'static [&'static str],
}

impl SettingSpec {
    /// Returns the setting so that it applies only where another key has one of these values.
    const fn only(mut self, key: &'static str, words: &'static [&'static str]) -> SettingSpec {
        self.only = Some(SettingCondition { key, values: words });
        self
    }
}

/// The form in which a section is written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum SectionForm {
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
    pub(super) form: SectionForm,
    /// Belongs to the node, not to a pipeline: stands in the main file only.
    pub(super) node: bool,
    pub(super) doc: &'static str,
    pub(super) settings: &'static [SettingSpec],
}

const fn setting(
    key: &'static str,
    shape: SettingType,
    default: Option<&'static str>,
    doc: &'static str,
) -> SettingSpec {
    SettingSpec { key, shape, default, required: false, only: None, doc }
}

const fn required(key: &'static str, shape: SettingType, doc: &'static str) -> SettingSpec {
    SettingSpec { key, shape, default: None, required: true, only: None, doc }
}

const ACTIONS: &[&str] = &[
    "accept",
    "tag",
    "quarantine",
    "reject",
    "throttle",
    "shadow",
    "challenge",
    "review_before",
    "review_after",
];

/// All sections, in the order in which data flows through them; the node's last.
pub(super) static SECTIONS: &[Section] = &[
    input::TOP,
    input::TIME,
    input::NETWORKS,
    input::ACCESS_LOG,
    input::PATTERNS,
    input::LOG,
    input::AUTH,
    input::DNSBL,
    input::FIELD,
    visitors::ROBOTS,
    visitors::ROBOT,
    statistics::KIND,
    statistics::STATISTIC,
    statistics::DISTINCT,
    statistics::LAST,
    statistics::LABEL,
    reputation::REPUTATION,
    feedback::CLASSIFIER,
    statistics::OBSERVE,
    statistics::SETTLE,
    feedback::FEEDBACK,
    feedback::REPORTS,
    feedback::REPORT_ADDRESSES,
    rules::CONSTANTS,
    rules::EXPRESSIONS,
    rules::SET,
    rules::TABLE,
    rules::PHRASES,
    rules::MODEL,
    rules::GROUP,
    rules::RULE,
    rules::BAND,
    challenge::CHALLENGE,
    form::FORM,
    form::BAIT,
    node::NODE,
    bans::ALLOW,
    bans::BLOCK_LIST,
    notifications::NOTIFICATION,
    limits::LIMIT,
    limits::FORWARD_AUTH,
    visitors::APPLICATION,
    visitors::KEY_DIRECTORY,
    node::LEDGER,
    node::CLUSTER,
    node::JOURNAL,
    node::REVIEW,
    node::DNS,
    listeners::SERVER,
    listeners::TOKEN,
    listeners::OIDC,
    listeners::SEARCH,
    listeners::AUDIT,
    listeners::TELEMETRY,
    limits::ENVOY,
    listeners::LISTENER,
    sources::SOURCE,
    sinks::SINK,
];

/// The section of this name.
pub(super) fn section(name: &str) -> Option<&'static Section> {
    SECTIONS.iter().find(|section| section.name == name)
}

/// The key that tells the entries of a list section apart.
pub(super) fn identity(section_name: &str) -> Option<&'static str> {
    match section(section_name)?.form {
        SectionForm::List(key) => Some(key),
        _ => None,
    }
}

/// Sections that do something only where somebody has written them, if only their name.
const NOTHING_BY_DEFAULT: [&str; 5] = ["challenge", "form", "bait", "log", "oidc"];

impl Section {
    /// Returns true if the section does nothing unless somebody has written it: its defaults alone are not kept.
    pub(super) fn is_nothing_by_default(&self) -> bool {
        NOTHING_BY_DEFAULT.contains(&self.name)
    }

    /// The setting of this key.
    pub(super) fn setting(&self, key: &str) -> Option<&'static SettingSpec> {
        match self.form {
            SectionForm::Map => self.settings.first(),
            _ => self.settings.iter().find(|setting| setting.key == key),
        }
    }

    /// `[[rule]]`, for messages.
    pub(super) fn heading(&self) -> String {
        match self.form {
            SectionForm::Top => "the top of the file".to_owned(),
            SectionForm::Table | SectionForm::Map => format!("[{}]", self.name),
            SectionForm::List(_) => format!("[[{}]]", self.name),
        }
    }
}
