//! Settings of rules.

use super::{ACTIONS, Section, SectionForm, SettingSpec, SettingType, required, setting};

/// The words for a rule's mode.
const MODES: &[&str] = &["enforce", "shadow", "off"];

const SET_TYPES: &[&str] = &["string", "domain", "integer", "ip"];

/// A row that a rule is tried on.
const TEST: &[SettingSpec] = &[
    required(
        "facts",
        SettingType::Facts,
        "Facts and readings as rules name them, and their values; ages as text such as `\"2h\"`. What is not named is missing",
    ),
    required("fires", SettingType::Bool, "Whether the rule is to fire"),
];

pub(super) const CONSTANTS: Section = Section {
    name: "constants",
    form: SectionForm::Map,
    node: false,
    doc: "Values that conditions can name.",
    settings: &[required("NAME", SettingType::Constant, "Value: a number, a text, true or false, or a list")],
};

pub(super) const EXPRESSIONS: Section = Section {
    name: "expressions",
    form: SectionForm::Map,
    node: false,
    doc: "Named parts of conditions. They can use each other, without circles.",
    settings: &[required("NAME", SettingType::Text, "Expression in the rule language, of any type")],
};

pub(super) const SET: Section = Section {
    name: "set",
    form: SectionForm::List("name"),
    node: false,
    doc: "Many constants of one type, inline or in a file, for `in`.",
    settings: &[
        required("name", SettingType::Name, "Its name, as in `mail.from_domain in freemail`"),
        required(
            "type",
            SettingType::Choice(SET_TYPES),
            "Type of its items. `domain`: names, each with all below it; `ip`: addresses and networks",
        ),
        setting("values", SettingType::List(&SettingType::Entry), None, "Its entries"),
        setting(
            "file",
            SettingType::Text,
            None,
            "Instead of `values`: a file with one entry a line, relative to this file. Empty lines and lines with `#` or `;` in front are skipped; except in string sets, so is what follows a blank",
        ),
        setting("description", SettingType::Text, Some("\"\""), "Description for people"),
    ],
};

/// The names of separators.
const SEPARATORS: &[&str] = &["tab", "comma", "semicolon", "blank"];

/// The types of keys of tables.
const TABLE_TYPES: &[&str] = &["string", "domain", "ip"];

pub(super) const TABLE: Section = Section {
    name: "table",
    form: SectionForm::List("name"),
    node: false,
    doc: "Many keys with a value each, in a file, for `lookup`. See [fields.md](../guides/fields.md#tables).",
    settings: &[
        required("name", SettingType::Name, "Its name, as in `lookup('NAME', client.ip)`"),
        required(
            "type",
            SettingType::Choice(TABLE_TYPES),
            "Type of its keys. `domain`: names, each with all below it; `ip`: addresses and networks, of which the longest counts",
        ),
        required("file", SettingType::Text, "Its file, relative to this file"),
        setting(
            "format",
            SettingType::Choice(&["text", "mmdb"]),
            Some("\"text\""),
            "Format of the file. `text`: a line is a key, a separator and a value; empty lines and lines with `#` in front are skipped. `mmdb`: a network database in MaxMind's format",
        ),
        setting(
            "separator",
            SettingType::Choice(SEPARATORS),
            Some("\"tab\""),
            "What stands between key and value: the first of it in a line",
        )
        .only("format", &["text"]),
        setting("description", SettingType::Text, Some("\"\""), "Description for people"),
    ],
};

pub(super) const PHRASES: Section = Section {
    name: "phrases",
    form: SectionForm::List("name"),
    node: false,
    doc: "Many words and phrases, searched in one pass. Results are `phrases.NAME.weight`, `.count` and `.matched`, and for each class `phrases.NAME.CLASS.weight` and `.count`. See [phrases.md](../guides/phrases.md).",
    settings: &[
        required(
            "name",
            SettingType::Name,
            "Its name, as in `phrases.NAME.weight > 3`: letters, digits and `_`",
        ),
        setting(
            "files",
            SettingType::List(&SettingType::Text),
            Some("[]"),
            "Its files, relative to this file: an entry is a line of class, weight, phrase and an optional end, between tabs; empty lines and `#` comments are skipped",
        ),
        setting(
            "lists",
            SettingType::List(&SettingType::Choice(&["mail-phrases"])),
            Some("[]"),
            "Lists in the same form that come with Tollhouse; `tollhouse preset show mail-phrases` prints one",
        ),
        required("classes", SettingType::List(&SettingType::Name), "Classes of entries"),
        required("of", SettingType::List(&SettingType::Text), "Facts to search: texts and lists of texts"),
        setting(
            "words",
            SettingType::Bool,
            Some("true"),
            "Whether phrases match whole words only; ignored for scripts without blanks",
        ),
        setting("description", SettingType::Text, Some("\"\""), "Description for people"),
    ],
};

pub(super) const MODEL: Section = Section {
    name: "model",
    form: SectionForm::List("name"),
    node: false,
    doc: "A CatBoost model that scores each event before rules judge it. Its features are named after facts and readings. See [models.md](../guides/models.md).",
    settings: &[
        required("name", SettingType::Name, "Its name, as in `model('spam') > 0.9`"),
        required("file", SettingType::Text, "Its file, `.cbm` or CatBoost's JSON, relative to this file"),
        setting(
            "mode",
            SettingType::Choice(MODES),
            Some("\"enforce\""),
            "`enforce`; `shadow`: scored and journalled, for shadow rules only; `off`: only checked",
        ),
        setting("description", SettingType::Text, Some("\"\""), "Description for people"),
    ],
};

pub(super) const GROUP: Section = Section {
    name: "group",
    form: SectionForm::List("name"),
    node: false,
    doc: "Rules whose scores have a common bound.",
    settings: &[
        required("name", SettingType::Name, "Its name"),
        setting("cap", SettingType::Float, None, "Most that its rules add together, from 0 up"),
        setting("floor", SettingType::Float, None, "Least that its rules add together, from 0 down"),
        setting(
            "default_share",
            SettingType::Float,
            None,
            "Share, from 0 to 1, of what its rules add above 0 with which an event must reach the `at` of a band with \
             `false_positives`, wherever that begins",
        ),
        setting("description", SettingType::Text, Some("\"\""), "What its rules have in common, for people"),
    ],
};

pub(super) const RULE: Section = Section {
    name: "rule",
    form: SectionForm::List("name"),
    node: false,
    doc: "A condition over the facts, what it adds to the score, and what else it does.",
    settings: &[
        required("name", SettingType::Name, "Its name, as verdicts give it"),
        required("when", SettingType::Text, "Condition in the rule language"),
        required(
            "score",
            SettingType::Float,
            "Addition to the score when the condition holds; may be negative",
        ),
        setting(
            "share",
            SettingType::Text,
            None,
            "A number in the rule language, clamped to 0 to 1: the part of `score` that is added; nothing where it is missing",
        ),
        setting(
            "description",
            SettingType::Text,
            Some("\"\""),
            "What it found and why that matters, for people",
        ),
        setting(
            "mode",
            SettingType::Choice(MODES),
            Some("\"enforce\""),
            "`enforce`; `shadow`: judged and journalled, without effect; `off`",
        ),
        setting("group", SettingType::Name, None, "Group within whose bounds its score counts"),
        setting(
            "effects",
            SettingType::List(&SettingType::Text),
            None,
            "Effects beside the score: `set ACTION`, `lift ACTION`, `mark KIND as LABEL for TIME`, `mark KIND as LABEL for TIME to TIME`, `add KIND.COUNTER`, `add KIND.COUNTER by NUMBER`, `notify NAME`",
        ),
        setting("owner", SettingType::Text, None, "Owner, for people"),
        setting("expires", SettingType::Time, None, "From this time of events on it is off"),
        setting(
            "test",
            SettingType::List(&SettingType::Table(TEST)),
            None,
            "Rows on which it must or must not fire; otherwise the configuration is refused",
        ),
    ],
};

pub(super) const BAND: Section = Section {
    name: "band",
    form: SectionForm::List("action"),
    node: false,
    doc: "The action from a score on. Below the lowest band events are accepted.",
    settings: &[
        required(
            "at",
            SettingType::Float,
            "Lowest score of the band; with `false_positives`, as long as too few good events are known",
        ),
        setting(
            "false_positives",
            SettingType::Percentage,
            None,
            "Share of good events that may reach the band, such as `0.5 %`: it then begins where the scores of the latest events that were judged good say so",
        ),
        setting(
            "line_alone",
            SettingType::Bool,
            Some("false"),
            "True if what `false_positives` says decides alone, whatever the `default_share` of groups asks for",
        ),
        required("action", SettingType::Choice(ACTIONS), "Action that the caller is asked to take"),
    ],
};
