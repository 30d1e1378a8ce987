//! Reputations of keys, made of their statistics.

use super::{Section, SectionForm, SettingSpec, SettingType, required, setting};

/// A part of a score.
const PART: &[SettingSpec] = &[
    setting("counter", SettingType::Name, None, "Counter of `kind`, over four half-lives"),
    setting("distinct", SettingType::Name, None, "Distinct count per `kind`, over four half-lives"),
    setting(
        "decayed",
        SettingType::Span,
        None,
        "Half-life of a decayed sum of the aggregate of `kind`; the sum may be negative",
    ),
    setting("kind", SettingType::Name, None, "Kind with the same fields as `of`. Default: `of`"),
    required("weight", SettingType::Float, "Weight of one: positive for the key, negative against it"),
    setting(
        "source",
        SettingType::Choice(&["outcome", "verdict"]),
        None,
        "Source: `outcome` (people and later systems) or `verdict` (the engine itself). Default: `verdict` \
        for what `[settle]` or an effect adds, else `outcome`",
    ),
];

/// The reputation that one begins with.
const INHERITS: &[SettingSpec] = &[
    required("from", SettingType::Name, "The other reputation, such as that of the address's network"),
    setting("discount", SettingType::Float, None, "Share of its score to inherit, 0 to 1. Default: 0.5"),
];

/// A reputation that counts for another one.
const INCLUDED: &[SettingSpec] = &[
    required("reputation", SettingType::Name, "The other reputation, such as that of the account's address"),
    required("weight", SettingType::Float, "Weight at a score of 100 or -100"),
];

/// The scores from which grades hold.
const GRADES: &[SettingSpec] = &[
    setting("trusted", SettingType::Float, None, "Lowest `trusted` score. Default: 70"),
    setting("known", SettingType::Float, None, "Lowest `known` score. Default: 25"),
    setting("suspicious", SettingType::Float, None, "Highest `suspicious` score. Default: -25"),
    setting("bad", SettingType::Float, None, "Highest `bad` score. Default: -70"),
    setting(
        "hysteresis",
        SettingType::Float,
        None,
        "Points beyond a grade's range before the grade is lost. Default: 5",
    ),
];

pub(super) const REPUTATION: Section = Section {
    name: "reputation",
    form: SectionForm::List("name"),
    node: false,
    doc: "A score from -100 to 100 and a grade for each key of a kind, computed from its statistics when \
        read. See [reputation.md](../guides/reputation.md).",
    settings: &[
        required("name", SettingType::Name, "Name, as in `reputation('account') < -25.0`"),
        required(
            "of",
            SettingType::Name,
            "Kind that has it; of several keys in an event the worst counts. `reporter`: the standing of \
            those who give [feedback](../guides/feedback.md#how-much-a-report-counts)",
        ),
        setting(
            "parts",
            SettingType::List(&SettingType::Table(PART)),
            Some("[]"),
            "Parts of the score, at most 32: `{ counter = \"complaint\", weight = -5.0 }`",
        ),
        setting(
            "half_life",
            SettingType::Span,
            None,
            "Time after which counters and distinct counts weigh half; after four half-lives they are \
            forgotten. Required for such parts",
        ),
        setting(
            "prior",
            SettingType::Float,
            Some("10.0"),
            "Weight of no evidence: evidence of the same weight gives half its full score",
        ),
        setting("floor", SettingType::Float, Some("-100.0"), "Least score"),
        setting("ceiling", SettingType::Float, Some("100.0"), "Highest score"),
        setting(
            "verdict_weight_max",
            SettingType::Float,
            Some("15.0"),
            "Most points that parts of source `verdict` can move the score, up or down",
        ),
        setting("inherits", SettingType::Table(INHERITS), None, "Starting reputation of an unknown key"),
        setting(
            "includes",
            SettingType::List(&SettingType::Table(INCLUDED)),
            Some("[]"),
            "Reputations of what belongs to the key in the same event, at most 32",
        ),
        setting("grades", SettingType::Table(GRADES), None, "Scores where grades begin"),
        setting("description", SettingType::Text, Some("\"\""), "For people"),
    ],
};
