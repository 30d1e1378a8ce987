//! Settings of rules.

use super::{ACTIONS, Section, SectionForm, SettingSpec, SettingType, required, setting};

/// The words for a rule's mode.
const MODES: &[&str] = &["enforce", "shadow", "off"];

const SET_TYPES: &[&str] = &["string", "domain", "integer", "ip"];
const SET_MATCHES: &[&str] = &["equal", "prefix", "suffix", "contains", "word", "regex"];

/// A row that a rule is tried on.
const TEST: &[SettingSpec] = &[
    required(
        "facts",
        SettingType::Facts,
        "Values of facts and readings, named as in rules; ages as text such as `\"2h\"`. Others are missing",
    ),
    required("fires", SettingType::Bool, "Expect the rule to fire"),
];

pub(super) const CONSTANTS: Section = Section {
    name: "constants",
    form: SectionForm::Map,
    node: false,
    doc: "Values that conditions can name.",
    settings: &[required("NAME", SettingType::Constant, "A number, a text, true or false, or a list")],
};

pub(super) const EXPRESSIONS: Section = Section {
    name: "expressions",
    form: SectionForm::Map,
    node: false,
    doc: "Named parts of conditions. They can use each other, but not in a circle.",
    settings: &[required("NAME", SettingType::Text, "Expression of any type")],
};

pub(super) const SET: Section = Section {
    name: "set",
    form: SectionForm::List("name"),
    node: false,
    doc: "Many constants of one type, inline or in a file, for `in`.",
    settings: &[
        required("name", SettingType::Name, "Name, as in `mail.from_domain in freemail`"),
        required(
            "type",
            SettingType::Choice(SET_TYPES),
            "Type of its items. `domain`: a name and all below it; `ip`: addresses and networks",
        ),
        setting(
            "match",
            SettingType::Choice(SET_MATCHES),
            Some("\"equal\""),
            "Where a `string` set finds its entries: the text is one (`equal`), begins (`prefix`) or ends (`suffix`) \
            with one, has one in it (`contains`), also as a `word`, or matches one (`regex`). Beyond `equal`, entries \
            have at most 8 MiB; at most 1,000 `regex`, of which the first 8 KiB of a text are searched",
        ),
        setting("values", SettingType::List(&SettingType::Entry), None, "Its entries"),
        setting(
            "file",
            SettingType::Text,
            None,
            "Instead of `values`: a file with one entry a line. Skipped: empty lines, those starting with \
            `#` or `;` and, except in string sets, text after a blank",
        ),
        setting("description", SettingType::Text, Some("\"\""), "For people"),
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
    doc: "Keys with a value each, in a file, for `lookup`. See [fields.md](../guides/fields.md#tables).",
    settings: &[
        required("name", SettingType::Name, "Name, as in `lookup('NAME', client.ip)`"),
        required(
            "type",
            SettingType::Choice(TABLE_TYPES),
            "Type of its keys. `domain`: a name and all below it; `ip`: addresses and networks, the longest \
            match wins",
        ),
        required("file", SettingType::Text, "Path of the file"),
        setting(
            "format",
            SettingType::Choice(&["text", "mmdb"]),
            Some("\"text\""),
            "`text`: lines of key, separator and value, where empty lines and lines starting with `#` are \
            skipped; `mmdb`: a MaxMind network database",
        ),
        setting(
            "separator",
            SettingType::Choice(SEPARATORS),
            Some("\"tab\""),
            "Separator of key and value: the first in a line",
        )
        .only("format", &["text"]),
        setting("description", SettingType::Text, Some("\"\""), "For people"),
    ],
};

pub(super) const PHRASES: Section = Section {
    name: "phrases",
    form: SectionForm::List("name"),
    node: false,
    doc: "Many words and phrases, searched in one pass. Facts: `phrases.NAME.weight`, `.count` and \
        `.matched`, and for each class `phrases.NAME.CLASS.weight` and `.count`. See \
        [phrases.md](../guides/phrases.md).",
    settings: &[
        required("name", SettingType::Name, "Name, as in `phrases.NAME.weight > 3`: letters, digits and `_`"),
        setting(
            "files",
            SettingType::List(&SettingType::Text),
            Some("[]"),
            "Files of tab-separated lines: class, weight, phrase and an optional end. Empty lines and `#` \
            comments are skipped",
        ),
        setting(
            "lists",
            SettingType::List(&SettingType::Choice(&["mail-phrases"])),
            Some("[]"),
            "Lists in the same form that ship with Tollhouse; `tollhouse preset show mail-phrases` prints \
            one",
        ),
        required("classes", SettingType::List(&SettingType::Name), "Classes of entries"),
        required("of", SettingType::List(&SettingType::Text), "Facts to search: texts and lists of texts"),
        setting(
            "words",
            SettingType::Bool,
            Some("true"),
            "Match whole words only; ignored for scripts without blanks",
        ),
        setting("description", SettingType::Text, Some("\"\""), "For people"),
    ],
};

pub(super) const MODEL: Section = Section {
    name: "model",
    form: SectionForm::List("name"),
    node: false,
    doc: "A CatBoost model that scores each event before the rules. Features are named after facts and \
        readings. See [models.md](../guides/models.md).",
    settings: &[
        required("name", SettingType::Name, "Name, as in `model('spam') > 0.9`"),
        required("file", SettingType::Text, "Model file: `.cbm` or CatBoost's JSON"),
        setting(
            "mode",
            SettingType::Choice(MODES),
            Some("\"enforce\""),
            "`shadow`: scored and journalled, for shadow rules only; `off`: only checked",
        ),
        setting("description", SettingType::Text, Some("\"\""), "For people"),
    ],
};

pub(super) const GROUP: Section = Section {
    name: "group",
    form: SectionForm::List("name"),
    node: false,
    doc: "Rules that share bounds on their scores.",
    settings: &[
        required("name", SettingType::Name, "Its name"),
        setting("cap", SettingType::Float, None, "Most that its rules add together, 0 or above"),
        setting("floor", SettingType::Float, None, "Least that its rules add together, 0 or below"),
        setting(
            "default_share",
            SettingType::Float,
            None,
            "Share, 0 to 1, of what its rules add above 0 that counts towards the `at` of a band with \
            `false_positives`, which an event must reach wherever the band begins",
        ),
        setting("description", SettingType::Text, Some("\"\""), "What its rules have in common, for people"),
    ],
};

pub(super) const RULE: Section = Section {
    name: "rule",
    form: SectionForm::List("name"),
    node: false,
    doc: "A condition over the facts, the score it adds, and its effects.",
    settings: &[
        required("name", SettingType::Name, "Name in verdicts"),
        required("when", SettingType::Text, "Condition"),
        required("score", SettingType::Float, "Added to the score when the condition holds; may be negative"),
        setting(
            "share",
            SettingType::Text,
            None,
            "Expression for the part of `score` to add, clamped to 0 to 1; missing adds nothing",
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
            "`shadow`: evaluated and journalled, without effect",
        ),
        setting("group", SettingType::Name, None, "Group that bounds its score"),
        setting(
            "effects",
            SettingType::List(&SettingType::Text),
            None,
            "Effects beside the score: `set ACTION`, `lift ACTION`, `mark KIND as LABEL for TIME`, `mark \
            KIND as LABEL for TIME to TIME`, `add KIND.COUNTER`, `add KIND.COUNTER by NUMBER`, \
            `clear KIND.COUNTER`, `clear limit NAME`, `mark contributors of DISTINCT as LABEL for TIME`, `notify NAME`",
        ),
        setting("owner", SettingType::Text, None, "Owner, for people"),
        setting("expires", SettingType::Time, None, "Event time from which it is off"),
        setting(
            "test",
            SettingType::List(&SettingType::Table(TEST)),
            None,
            "Examples on which it must or must not fire; a failing one is a configuration error",
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
            "Lowest score; with `false_positives`, only until enough good events are known",
        ),
        setting(
            "false_positives",
            SettingType::Percentage,
            None,
            "Share of good events that may reach the band, such as `0.5 %`: it begins where the latest \
            events judged good put it",
        ),
        setting(
            "line_alone",
            SettingType::Bool,
            Some("false"),
            "Let the line of `false_positives` alone decide, whatever the `default_share` of groups asks for",
        ),
        required("action", SettingType::Choice(ACTIONS), "Action the caller should take"),
    ],
};
