//! Settings of feedback.

use super::{Section, SectionForm, SettingType, required, setting};

/// The greatest weight of what somebody says.
pub const WEIGHT_MAX: u8 = 7;

pub(super) const CLASSIFIER: Section = Section {
    name: "classifier",
    form: SectionForm::List("name"),
    node: false,
    doc: "A classifier that learns from feedback which tokens mark bad and good events. Facts: \
        `NAME.probability`, `NAME.score`, `NAME.tokens`, `NAME.known`, `NAME.bad`, `NAME.good`. See \
        [classifier.md](../guides/classifier.md).",
    settings: &[
        required("name", SettingType::Name, "Name, as in `NAME.probability > 0.99`"),
        required(
            "of",
            SettingType::List(&SettingType::Name),
            "Texts to learn words and runs of characters from. Feedback can only teach facts that are \
            journalled",
        ),
        setting(
            "traits",
            SettingType::List(&SettingType::Name),
            Some("[]"),
            "More facts to learn: words of texts, whole items of lists",
        ),
        setting(
            "runs",
            SettingType::List(&SettingType::Name),
            Some("[]"),
            "Texts whose four-byte runs a linear model learns, beside the tokens: `NAME.linear`. With `per` \
            it is one shared model with extra features per key",
        ),
        setting(
            "site_runs",
            SettingType::List(&SettingType::Name),
            Some("[]"),
            "Texts that show what is usual on this site, with their own linear model: `NAME.site`",
        ),
        setting(
            "bad",
            SettingType::List(&SettingType::Name),
            Some("[\"spam\"]"),
            "Classes of `[feedback]` that teach bad",
        ),
        setting(
            "good",
            SettingType::List(&SettingType::Name),
            Some("[\"ham\"]"),
            "Classes of `[feedback]` that teach good",
        ),
        setting(
            "forget",
            SettingType::List(&SettingType::Name),
            Some("[]"),
            "Classes of `[feedback]` that undo what an event taught",
        ),
        setting(
            "per",
            SettingType::Name,
            None,
            "Kind whose keys each have their own classifier, such as the recipient's; used for events with \
            exactly one such key",
        ),
        setting(
            "keep",
            SettingType::Span,
            Some("\"180d\""),
            "How long to keep a token after it was last learned",
        ),
        setting(
            "auto_bad_at",
            SettingType::Float,
            None,
            "Learn an event as bad without feedback when all rules, except those that read the classifier or \
            a model, total at least this. Default: never",
        ),
        setting(
            "auto_good_at",
            SettingType::Float,
            None,
            "Learn an event as good without feedback when the same rules total at most this. Default: never",
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
            "Events an hour to learn without feedback. Feedback is never overruled, and a class stops at \
            three times the other",
        ),
    ],
};

pub(super) const FEEDBACK: Section = Section {
    name: "feedback",
    form: SectionForm::Map,
    node: false,
    doc: "Classes of feedback, and the counters and distinct counts that each adds to.",
    settings: &[required(
        "CLASS",
        SettingType::List(&SettingType::Text),
        "Counters (raised by the reporter's weight), distinct counts of such events' values, and values for \
        aggregates with `observe = false`, such as `karma by -20`. `none` is no class: it withdraws feedback",
    )],
};

pub(super) const REPORTS: Section = Section {
    name: "reports",
    form: SectionForm::Table,
    node: false,
    doc: "Which feedback is a judgement, and its weight. Only classes in `bad` and `good` are judgements: \
        ground truth for backtests and training tables. Classes in a classifier's `forget` withdraw; all \
        others are signals of what was done with an event. With neither list, every class is a judgement. A \
        reporter's new judgement of an event replaces the last, a new signal the last signal. See \
        [feedback.md](../guides/feedback.md).",
    settings: &[
        setting(
            "bad",
            SettingType::List(&SettingType::Name),
            Some("[]"),
            "Classes for unwanted events; the first is for reports that name no class",
        ),
        setting(
            "good",
            SettingType::List(&SettingType::Name),
            Some("[]"),
            "Classes for wanted events; the first is for reports that name no class",
        ),
        setting(
            "alike",
            SettingType::List(&SettingType::Name),
            Some("[]"),
            "Kinds that make events alike: reporters agree on an event's first key of these kinds, else on \
            the event",
        ),
        setting(
            "senders",
            SettingType::List(&SettingType::Text),
            Some("[]"),
            "Envelope senders, or domains without `@`, that may report by mail without authentication. List \
            only those nobody can forge",
        ),
        setting(
            "per_day",
            SettingType::Integer(0, 1_000_000_000),
            Some("100"),
            "Judgements (classes of `bad` and `good`) per reporter in 24 hours, to the hour; more count \
            nothing",
        ),
        setting(
            "others_per_day",
            SettingType::Integer(0, 1_000_000_000),
            Some("2000"),
            "Signals (all other classes, such as `read`) per reporter in 24 hours",
        ),
        setting(
            "weight_new",
            SettingType::Integer(0, WEIGHT_MAX as i64),
            Some("1"),
            "Vote weight of a reporter who is neither `trusted` nor `bad`; a `bad` one has none",
        ),
        setting(
            "weight_trusted",
            SettingType::Integer(0, WEIGHT_MAX as i64),
            Some("2"),
            "Vote weight of a `trusted` reporter",
        ),
    ],
};

pub(super) const REPORT_ADDRESSES: Section = Section {
    name: "report_addresses",
    form: SectionForm::Map,
    node: false,
    doc: "Addresses that people forward mail to in order to report it, by class. See \
        [http.md](http.md#post-v1report).",
    settings: &[required(
        "CLASS",
        SettingType::List(&SettingType::Text),
        "Addresses, such as `spam@example.org`, for reports of this class of `[feedback]`",
    )],
};
