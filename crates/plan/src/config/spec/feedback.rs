//! Settings of feedback.

use super::{Section, SectionForm, SettingType, required, setting};

/// The greatest weight of what somebody says.
pub const WEIGHT_MAX: u8 = 7;

pub(super) const CLASSIFIER: Section = Section {
    name: "classifier",
    form: SectionForm::List("name"),
    node: false,
    doc: "A statistical classifier that learns from feedback which tokens mark bad and good events. Its results are facts: `NAME.probability`, `NAME.score`, `NAME.tokens`, `NAME.known`, `NAME.bad`, `NAME.good`. See [classifier.md](../guides/classifier.md).",
    settings: &[
        required("name", SettingType::Name, "Its name, as in `NAME.probability > 0.99`"),
        required(
            "of",
            SettingType::List(&SettingType::Name),
            "Texts whose words and runs of characters it learns. Feedback can only learn from facts that are journalled",
        ),
        setting(
            "traits",
            SettingType::List(&SettingType::Name),
            Some("[]"),
            "Further facts, of which it learns words, and items of lists as they are",
        ),
        setting(
            "runs",
            SettingType::List(&SettingType::Name),
            Some("[]"),
            "Texts whose runs of four bytes a linear model learns, beside the tokens: `NAME.linear`. With `per` it is one model, in which each key has features of its own beside the common ones",
        ),
        setting(
            "site_runs",
            SettingType::List(&SettingType::Name),
            Some("[]"),
            "Texts of what is usual on this site, with a linear model of their own: `NAME.site`",
        ),
        setting(
            "bad",
            SettingType::List(&SettingType::Name),
            Some("[\"spam\"]"),
            "Classes of `[feedback]` that teach it that an event is bad",
        ),
        setting(
            "good",
            SettingType::List(&SettingType::Name),
            Some("[\"ham\"]"),
            "Classes of `[feedback]` that teach it that an event is good",
        ),
        setting(
            "forget",
            SettingType::List(&SettingType::Name),
            Some("[]"),
            "Classes of `[feedback]` that undo what an event taught it",
        ),
        setting(
            "per",
            SettingType::Name,
            None,
            "Kind each of whose keys has its own classifier, such as the recipient's; used for events with exactly one such key",
        ),
        setting(
            "keep",
            SettingType::Span,
            Some("\"180d\""),
            "Time for which a token is kept after it was last learned",
        ),
        setting(
            "auto_bad_at",
            SettingType::Float,
            None,
            "Learn an event as bad without feedback if all rules, except those that read the classifier or a model, add up to this much. Default: never",
        ),
        setting(
            "auto_good_at",
            SettingType::Float,
            None,
            "Learn an event as good without feedback if the same rules add up to this little. Default: never",
        ),
        setting(
            "auto_rules",
            SettingType::Integer(1, 1000),
            Some("3"),
            "Fewest of these rules that must agree",
        ),
        setting(
            "auto_per_hour",
            SettingType::Integer(1, 1_000_000),
            Some("200"),
            "Most events an hour that are learned without feedback. Feedback is never overruled, and a class stops at three times the other",
        ),
    ],
};

pub(super) const FEEDBACK: Section = Section {
    name: "feedback",
    form: SectionForm::Map,
    node: false,
    doc: "Classes of feedback on an event, and the counters and distinct counts that each adds to.",
    settings: &[required(
        "CLASS",
        SettingType::List(&SettingType::Text),
        "Counters that go up by the reporter's weight, distinct counts of the values of such events, and values for tracks with `observe = false`, such as `karma by -20`; `none` is no class: it takes feedback back",
    )],
};

pub(super) const REPORTS: Section = Section {
    name: "reports",
    form: SectionForm::Table,
    node: false,
    doc: "Judgements among feedback, and their weight. `bad` and `good` name judgements: only they are ground truth for backtests and tables to train by. All other classes are signals of what was done with an event, but those that a classifier's `forget` names, which take back; where neither names any, all are judgements. A reporter's judgement of an event replaces the one before, a signal the signal before. See [feedback.md](../guides/feedback.md).",
    settings: &[
        setting(
            "bad",
            SettingType::List(&SettingType::Name),
            Some("[]"),
            "Classes for unwanted events; the first is used for reports that name no class",
        ),
        setting(
            "good",
            SettingType::List(&SettingType::Name),
            Some("[]"),
            "Classes for wanted events; the first is used for reports that name no class",
        ),
        setting(
            "alike",
            SettingType::List(&SettingType::Name),
            Some("[]"),
            "Kinds whose keys make events alike: reporters agree on an event's first key of these kinds, else on the event itself",
        ),
        setting(
            "senders",
            SettingType::List(&SettingType::Text),
            Some("[]"),
            "Addresses, and domains without `@`, whose mail may report although nobody was authenticated: envelope senders, so only where these cannot be forged",
        ),
        setting(
            "per_day",
            SettingType::Integer(0, 1_000_000_000),
            Some("100"),
            "Judgements (classes of `bad` and `good`) that a reporter may give in 24 hours, to the hour; further ones count nothing",
        ),
        setting(
            "others_per_day",
            SettingType::Integer(0, 1_000_000_000),
            Some("2000"),
            "Signals (all other classes, such as `read`) that a reporter may give in 24 hours",
        ),
        setting(
            "weight_new",
            SettingType::Integer(0, WEIGHT_MAX as i64),
            Some("1"),
            "Weight of a vote by a reporter who is neither `trusted` nor `bad`; one who is `bad` has none",
        ),
        setting(
            "weight_trusted",
            SettingType::Integer(0, WEIGHT_MAX as i64),
            Some("2"),
            "Weight of a vote by a reporter whose standing is `trusted`",
        ),
    ],
};

pub(super) const REPORT_ADDRESSES: Section = Section {
    name: "report_addresses",
    form: SectionForm::Map,
    node: false,
    doc: "Addresses to which people forward mail to report it, by class. See [http.md](http.md#post-v1report).",
    settings: &[required(
        "CLASS",
        SettingType::List(&SettingType::Text),
        "Addresses, such as `spam@example.org`; mail sent there is reported as this class of [feedback]",
    )],
};
