//! The reference in Markdown, read off the lists of settings and facts.

use event::Column;

use super::spec::{self, Form, SECTIONS, Shape};
use crate::plan::{Input, input_facts};

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
            text += &row(setting, "", setting.required && section.form != Form::Map);
            let inner = match setting.shape {
                Shape::Table(inner) | Shape::List(&Shape::Table(inner)) => inner,
                _ => &[],
            };
            inner.iter().for_each(|one| text += &row(one, &format!("{}.", setting.key), one.required));
        }
    }
    for input in Input::ALL {
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
fn row(setting: &spec::Setting, within: &str, required: bool) -> String {
    let default = match (setting.default, required) {
        (Some(default), _) => format!("`{default}`"),
        (None, true) => "required".to_owned(),
        (None, false) => String::new(),
    };
    let only = setting.only.map_or_else(String::new, |only| {
        let words: Vec<String> = only.words.iter().map(|word| format!("`{word}`")).collect();
        format!("With `{}` {}: ", only.key, words.join(", "))
    });
    let doc = setting.doc;
    format!("| `{within}{}` | {} | {default} | {only}{doc} |\n", setting.key, shape_doc(&setting.shape))
}

fn shape_doc(shape: &Shape) -> String {
    match shape {
        Shape::Text => "string".into(),
        Shape::Name => "name".into(),
        Shape::Secret(1) => "string".into(),
        Shape::Secret(least) => format!("string of at least {least} bytes"),
        Shape::Choice(words) => words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", "),
        Shape::Integer(min, max) => format!("integer, {min} to {max}"),
        Shape::Float => "number".into(),
        Shape::Span => "length of time".into(),
        Shape::Durability => "`sync`, `none`, length of time".into(),
        Shape::Interval => "`off`, length of time".into(),
        Shape::Size(max) => format!("size such as `64MiB`, up to {}", spec::print_size(*max)),
        Shape::Socket => "address and port".into(),
        Shape::Endpoint => "address and port, or `unix:PATH`".into(),
        Shape::FileMode => "octal digits".into(),
        Shape::Network => "address or network".into(),
        Shape::Sightings => {
            format!("integer, {} to {}", stats::Admit::AFTER.start(), stats::Admit::AFTER.end())
        }
        Shape::List(inner) => format!("list of: {}", shape_doc(inner)),
        Shape::Table(_) => "table".into(),
        Shape::Bool => "`true` or `false`".into(),
        Shape::Time => "time".into(),
        Shape::Entry => "string or integer".into(),
        Shape::Constant => "any value, or a list".into(),
        Shape::Facts => "table".into(),
    }
}
