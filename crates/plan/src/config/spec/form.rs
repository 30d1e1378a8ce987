//! Settings of forms and bait.

use super::{Section, SectionForm, SettingType, setting};

pub(super) const FORM: Section = Section {
    name: "form",
    form: SectionForm::Table,
    node: false,
    doc: "Tokens for your forms: rules know when a form was rendered, for whom, and how often it was sent. \
        See [forms.md](../guides/forms.md).",
    settings: &[
        setting("expires", SettingType::Span, Some("\"12h\""), "Validity of a token, at most 7 days"),
        setting(
            "visitor",
            SettingType::List(&SettingType::Text),
            None,
            "Facts that identify the visitor and must be unchanged. Default: `client.net` and `http.host` \
            for access logs; otherwise none. Prefer a session to an address, which changes when a phone \
            leaves the house",
        ),
    ],
};

pub(super) const BAIT: Section = Section {
    name: "bait",
    form: SectionForm::Table,
    node: false,
    doc: "Fields, links and parameters that nobody who sees the page uses. See \
        [forms.md](../guides/forms.md#bait).",
    settings: &[
        setting(
            "prefix",
            SettingType::Text,
            Some("\"/more/\""),
            "Path prefix of bait links: a folder your site does not have and its `robots.txt` forbids",
        ),
        setting(
            "parameters",
            SettingType::List(&SettingType::Text),
            Some("[]"),
            "Parameters and fields that only old or copied clients still send, at most 100",
        ),
    ],
};
