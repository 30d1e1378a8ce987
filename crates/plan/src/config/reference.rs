//! The reference of settings in Markdown, read off their lists.

use event::{ColumnError, SchemaBuilder};
use gate::columns::{BaitColumns, ChallengeColumns, FormColumns};

use super::spec::{self, SECTIONS, SectionForm, SettingType};

/// Returns the reference of every section and key in Markdown.
pub(crate) fn settings_reference() -> String {
    let mut text = String::new();
    for section in SECTIONS {
        text += &format!(
            "\n## {}\n\n{}",
            if section.name.is_empty() {
                "Top of the file".into()
            } else {
                format!("`{}`", section.heading())
            },
            section.doc
        );
        if section.node {
            text += " Main file only.";
        }
        text += "\n\n| key | value | default | meaning |\n|---|---|---|---|\n";
        for setting in section.settings {
            text += &row(setting, "", setting.required && section.form != SectionForm::Map);
            let inner = match setting.shape {
                SettingType::Table(inner) | SettingType::List(&SettingType::Table(inner)) => inner,
                _ => &[],
            };
            inner.iter().for_each(|one| text += &row(one, &format!("{}.", setting.key), one.required));
        }
        text += &facts_reference(section.name).unwrap_or_default();
    }
    text
}

/// Returns the facts that a pipeline has by one of its sections, if it has some.
fn facts_reference(section: &str) -> Option<String> {
    let register: fn(&mut SchemaBuilder) -> Result<(), ColumnError> = match section {
        "challenge" => |builder| ChallengeColumns::register(builder).map(drop),
        "form" => |builder| FormColumns::register(builder).map(drop),
        "bait" => |builder| BaitColumns::register(builder).map(drop),
        _ => return None,
    };
    let mut builder = SchemaBuilder::default();
    register(&mut builder).ok()?;
    let mut text = "\n| fact | type | meaning |\n|---|---|---|\n".to_owned();
    for column in builder.finish().columns() {
        text += &format!("| `{}` | {} | {} |\n", column.name, column.kind, column.doc);
    }
    Some(text)
}

/// A setting's line in the reference.
fn row(setting: &spec::SettingSpec, within: &str, required: bool) -> String {
    let default = match (setting.default, required) {
        (Some(default), _) => format!("`{default}`"),
        (None, true) => "required".to_owned(),
        (None, false) => String::new(),
    };
    let only = setting.only.map_or_else(String::new, |only| {
        let words: Vec<String> = only.values.iter().map(|word| format!("`{word}`")).collect();
        format!("With `{}` {}: ", only.key, words.join(", "))
    });
    let doc = setting.doc;
    format!("| `{within}{}` | {} | {default} | {only}{doc} |\n", setting.key, shape_doc(&setting.shape))
}

fn shape_doc(shape: &SettingType) -> String {
    match shape {
        SettingType::Text => "string".into(),
        SettingType::Name => "name".into(),
        SettingType::Secret(1) => "string".into(),
        SettingType::Secret(least) => format!("string of at least {least} bytes"),
        SettingType::Choice(words) => {
            words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
        }
        SettingType::Integer(min, max) => format!("integer, {min} to {max}"),
        SettingType::Float => "number".into(),
        SettingType::Span => "duration".into(),
        SettingType::Durability => "`sync`, `none`, duration".into(),
        SettingType::Interval => "`off`, duration".into(),
        SettingType::Size(max) => format!("size, up to {}", spec::print_size(*max)),
        SettingType::Socket => "address and port".into(),
        SettingType::Endpoint => "address and port, or `unix:PATH`".into(),
        SettingType::Percentage => "percentage".into(),
        SettingType::FileMode => "octal digits".into(),
        SettingType::Network => "address or network".into(),
        SettingType::Sightings => {
            format!("integer, {} to {}", stats::Admission::AFTER.start(), stats::Admission::AFTER.end())
        }
        SettingType::List(inner) => format!("list of: {}", shape_doc(inner)),
        SettingType::OneOrMore(inner) => format!("{}, or a list", shape_doc(inner)),
        SettingType::Table(_) => "table".into(),
        SettingType::Bool => "bool".into(),
        SettingType::Time => "time".into(),
        SettingType::Entry => "string or integer".into(),
        SettingType::Constant => "any value, or a list".into(),
        SettingType::Facts => "table".into(),
    }
}
