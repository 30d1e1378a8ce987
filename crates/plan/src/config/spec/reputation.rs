//! Reputations of keys, made of their statistics.

use super::{Section, SectionForm, SettingSpec, SettingType, required, setting};

/// A part of a score.
const PART: &[SettingSpec] = &[
    setting("counter", SettingType::Name, None, "Counter of `kind`: what it counted within four half-lives"),
    setting(
        "distinct",
        SettingType::Name,
        None,
        "Distinct count per `kind`: how many different values it had within four half-lives",
    ),
    setting(
        "decayed",
        SettingType::Span,
        None,
        "Half-life of a decayed sum of the track of `kind`, which may be negative",
    ),
    setting("kind", SettingType::Name, None, "Kind of the same fields as `of`. Default: `of` itself"),
    required(
        "weight",
        SettingType::Float,
        "How much one of them says: for the key above zero, against it below",
    ),
    setting(
        "source",
        SettingType::Choice(&["outcome", "verdict"]),
        None,
        "Who said so: `outcome`, people and later systems; `verdict`, the engine itself. Default: `verdict` for what `[settle]` or an effect adds, else `outcome`",
    ),
];

/// The reputation that one begins with.
const INHERITS: &[SettingSpec] = &[
    required("from", SettingType::Name, "The other reputation, such as that of the address's network"),
    setting(
        "discount",
        SettingType::Float,
        None,
        "Share of its score that is inherited, 0 to 1. Default: 0.5",
    ),
];

/// A reputation that counts for another one.
const INCLUDED: &[SettingSpec] = &[
    required("reputation", SettingType::Name, "The other reputation, such as that of the account's address"),
    required("weight", SettingType::Float, "How much it says where its score is 100 or -100"),
];

/// The scores from which grades hold.
const GRADES: &[SettingSpec] = &[
    setting("trusted", SettingType::Float, None, "Least score that is `trusted`. Default: 70"),
    setting("known", SettingType::Float, None, "Least score that is `known`. Default: 25"),
    setting("suspicious", SettingType::Float, None, "Greatest score that is `suspicious`. Default: -25"),
    setting("bad", SettingType::Float, None, "Greatest score that is `bad`. Default: -70"),
    setting(
        "hysteresis",
        SettingType::Float,
        None,
        "Points by which a score must leave a grade's range before the grade is lost. Default: 5",
    ),
];

pub(super) const REPUTATION: Section = Section {
    name: "reputation",
    form: SectionForm::List("name"),
    node: false,
    doc: "A score from -100 to 100 and a grade for each key of a kind, computed from its statistics when it is read. See [reputation.md](../guides/reputation.md).",
    settings: &[
        required("name", SettingType::Name, "Its name, as in `reputation('account') < -25.0`"),
        required(
            "of",
            SettingType::Name,
            "Kind whose keys have it; of several keys in an event the worst counts. `reporter`: the standing of those who give [feedback](../guides/feedback.md#how-much-a-report-counts)",
        ),
        setting(
            "parts",
            SettingType::List(&SettingType::Table(PART)),
            Some("[]"),
            "What it is made of, at most 32: `{ counter = \"complaint\", weight = -5.0 }`",
        ),
        setting(
            "half_life",
            SettingType::Span,
            None,
            "Time after which counters and distinct counts weigh half; after four of them they are forgotten. Required for such parts",
        ),
        setting(
            "prior",
            SettingType::Float,
            Some("10.0"),
            "Weight of knowing nothing: evidence of the same weight gives half of its full score",
        ),
        setting("floor", SettingType::Float, Some("-100.0"), "Least score"),
        setting("ceiling", SettingType::Float, Some("100.0"), "Greatest score"),
        setting(
            "verdict_weight_max",
            SettingType::Float,
            Some("15.0"),
            "Most points by which parts of source `verdict` can move the score, up or down",
        ),
        setting(
            "inherits",
            SettingType::Table(INHERITS),
            None,
            "Reputation with which a key begins of which nothing is known",
        ),
        setting(
            "includes",
            SettingType::List(&SettingType::Table(INCLUDED)),
            Some("[]"),
            "Reputations of what belongs to the key in the same event, at most 32",
        ),
        setting("grades", SettingType::Table(GRADES), None, "Scores at which grades begin"),
        setting("description", SettingType::Text, Some("\"\""), "Description for people"),
    ],
};
