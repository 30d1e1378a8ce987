//! The reference in Markdown, read off the lists of settings and facts.

use event::Column;

use super::spec::{self, SECTIONS, SectionForm, SettingType};
use crate::plan::{PipelineInput, input_facts};

/// Returns the reference of every section, key and fact in Markdown, as `docs/reference/configuration.md` has it.
pub fn reference() -> String {
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
    }
    for input in PipelineInput::ALL {
        text += &format!("\n## Facts of `input = \"{}\"`\n\n", input.name());
        text += "Rules and kinds can name these, beside the fields that the pipeline declares.\n\n";
        text += "| fact | type | meaning |\n|---|---|---|\n";
        for Column { name, kind, doc, journalled } in input_facts(input).columns() {
            let kept = if *journalled { "" } else { ". Not journalled" };
            text += &format!("| `{name}` | {kind} | {doc}{kept} |\n");
        }
    }
    text
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
        SettingType::Span => "length of time".into(),
        SettingType::Durability => "`sync`, `none`, length of time".into(),
        SettingType::Interval => "`off`, length of time".into(),
        SettingType::Size(max) => format!("size such as `64MiB`, up to {}", spec::print_size(*max)),
        SettingType::Socket => "address and port".into(),
        SettingType::Endpoint => "address and port, or `unix:PATH`".into(),
        SettingType::FileMode => "octal digits".into(),
        SettingType::Network => "address or network".into(),
        SettingType::Sightings => {
            format!("integer, {} to {}", stats::Admission::AFTER.start(), stats::Admission::AFTER.end())
        }
        SettingType::List(inner) => format!("list of: {}", shape_doc(inner)),
        SettingType::Table(_) => "table".into(),
        SettingType::Bool => "`true` or `false`".into(),
        SettingType::Time => "time".into(),
        SettingType::Entry => "string or integer".into(),
        SettingType::Constant => "any value, or a list".into(),
        SettingType::Facts => "table".into(),
    }
}
