//! Settings of forms and bait.

use super::{Section, SectionForm, SettingType, setting};

pub(super) const FORM: Section = Section {
    name: "form",
    form: SectionForm::Table,
    node: false,
    doc: "Tokens that pages put into their forms, so that rules know when a form was rendered, for whom, and how often it was sent. See [forms.md](../guides/forms.md).",
    settings: &[
        setting(
            "expires",
            SettingType::Span,
            Some("\"12h\""),
            "Time for which a token holds, at most 7 days",
        ),
        setting(
            "visitor",
            SettingType::List(&SettingType::Text),
            None,
            "Facts that tell the visitor: a token holds where all of them are as they were. Unless given: `client.net` and `http.host` of an access log, and of other events none. A session's name is better than an address, which changes when a telephone leaves the house",
        ),
    ],
};

pub(super) const BAIT: Section = Section {
    name: "bait",
    form: SectionForm::Table,
    node: false,
    doc: "Fields, links and parameters that nobody takes who sees the page. See [forms.md](../guides/forms.md#bait).",
    settings: &[
        setting(
            "prefix",
            SettingType::Text,
            Some("\"/more/\""),
            "Beginning of the paths of links: a folder that the site does not have, and that its `robots.txt` forbids",
        ),
        setting(
            "parameters",
            SettingType::List(&SettingType::Text),
            Some("[]"),
            "Names of parameters and fields that only old or copied clients still send, at most 100",
        ),
    ],
};
