//! What is learned of what people say of events afterwards.

use super::{KIND_MAX, Section, SectionForm, SettingType, required, setting};

/// The greatest weight of what somebody says.
pub const WEIGHT_MAX: u8 = 7;

pub(super) const CLASSIFIER: Section = Section {
    name: "classifier",
    form: SectionForm::List("name"),
    node: false,
    doc: "A statistical classifier that learns from feedback which tokens of some facts are those of bad or good events. What it says are facts: `NAME.probability`, `NAME.score`, `NAME.tokens`, `NAME.known`, `NAME.bad`, `NAME.good`. See [classifier.md](../guides/classifier.md).",
    settings: &[
        required("name", SettingType::Name, "Its name, as in `NAME.probability > 0.99`"),
        required(
            "number",
            SettingType::Integer(1, KIND_MAX),
            "Number under which its tokens are stored, beside those of the kinds. It must never change its meaning",
        ),
        required(
            "of",
            SettingType::List(&SettingType::Name),
            "Texts whose words and runs of characters it learns. Feedback can only learn from facts that are journalled",
        ),
        setting(
            "traits",
            SettingType::List(&SettingType::Name),
            Some("[]"),
            "Facts that say what is known beside the texts: of these it learns words, and items of lists as they stand",
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
            "Classes of `[feedback]` that take back what an event has taught it",
        ),
        setting(
            "per",
            SettingType::Name,
            None,
            "Kind each of whose keys has a classifier of its own, such as the recipient's; it is asked and taught where an event has exactly one such key",
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
            "Learn an event as bad by itself if all rules but those that ask the classifier, or a model, score this much. Without it nothing bad is learned so",
        ),
        setting(
            "auto_good_at",
            SettingType::Float,
            None,
            "Learn an event as good by itself if the same rules score this little. Without it nothing good is learned so",
        ),
        setting(
            "auto_rules",
            SettingType::Integer(1, 1000),
            Some("3"),
            "Fewest of these rules that must say the same for an event to be learned so",
        ),
        setting(
            "auto_per_hour",
            SettingType::Integer(1, 1_000_000),
            Some("200"),
            "Most events in an hour that are learned so; what people have said of an event is never overruled, and a class that has three times as many as the other gets no more",
        ),
    ],
};

pub(super) const FEEDBACK: Section = Section {
    name: "feedback",
    form: SectionForm::Map,
    node: false,
    doc: "Classes of feedback on an event, and the counters that each adds to.",
    settings: &[required(
        "CLASS",
        SettingType::List(&SettingType::Name),
        "Counters that go up by the weight of who says it; `none` is no class, it takes back what was said",
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
            "Classes that say an event was unwanted; the first is what a report means that only says so",
        ),
        setting(
            "good",
            SettingType::List(&SettingType::Name),
            Some("[]"),
            "Classes that say an event was wanted; the first is what a report means that only says so",
        ),
        setting(
            "alike",
            SettingType::List(&SettingType::Name),
            Some("[]"),
            "Kinds whose keys tell that events are alike: reporters agree on the first key of an event of these kinds, and where it has none on the event itself",
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
            "Weight of a vote of a reporter of whom little is known",
        ),
        setting(
            "weight_trusted",
            SettingType::Integer(0, WEIGHT_MAX as i64),
            Some("2"),
            "Weight of a vote of a trusted reporter",
        ),
        setting(
            "trusted_after",
            SettingType::Integer(1, 1_000_000_000),
            Some("10"),
            "Agreements of others within 90 days, with hardly a contradiction, that make a reporter trusted: (agreed + 1) / (agreed + contradicted + reversed + 2) is at least 0.9",
        ),
        setting(
            "distrusted_after",
            SettingType::Integer(1, 1_000_000_000),
            Some("3"),
            "Contradictions by others and own reversals within 90 days after which a reporter's votes count nothing, if that share is below 0.5",
        ),
    ],
};

pub(super) const REPORT_ADDRESSES: Section = Section {
    name: "report_addresses",
    form: SectionForm::Map,
    node: false,
    doc: "Addresses to which people send mail to report it, by what that says. See [http.md](http.md#post-v1report).",
    settings: &[required(
        "CLASS",
        SettingType::List(&SettingType::Text),
        "Addresses, such as `spam@example.org`; what is sent there is reported as the class of [feedback]",
    )],
};
