//! The reference of the configuration in Markdown, read off the lists of settings and facts.

use content::field::ContentKind;
use event::{Column, Schema};

use crate::config::settings_reference;
use crate::pipeline::PipelineInput;
use crate::pipeline::columns::{content_facts, input_facts};
use crate::pipeline::robots::visitor_facts;

/// Returns the reference of every section, key and fact in Markdown, as `docs/reference/configuration.md` has it.
pub fn reference() -> String {
    let mut text = settings_reference();
    for input in PipelineInput::ALL {
        text += &format!("\n## Facts of `input = \"{}\"`\n\n", input.name());
        text += "Beside the fields that the pipeline declares.\n\n";
        text += &table(input_facts(input).columns());
    }
    text += "\n## Facts of who is asking\n\nFor pipelines that read requests, with a `[[robot]]`, `robots.hosts` or an \
             `[[application]]`.\n\n";
    text += &table(visitor_facts().columns());
    text += "\n## Facts of content\n\nFacts of a field `NAME`, by the `content` of its `[[field]]`.\n";
    for content in ContentKind::ALL {
        let facts = content_facts(content);
        text += &format!("\n### `content = \"{content}\"`\n\n");
        text += &beside_text(&facts);
    }
    text
}

/// The facts of a kind of content, said by those of `text` where it shares most of them.
fn beside_text(facts: &Schema) -> String {
    let text = content_facts(ContentKind::Text);
    let without = |some: &Schema, others: &Schema| -> Vec<Column> {
        some.columns().iter().filter(|column| others.slot(&column.name).is_none()).cloned().collect()
    };
    let names = |columns: &[Column]| {
        let names: Vec<String> = columns.iter().map(|column| format!("`{}`", column.name)).collect();
        names.join(", ")
    };
    let (own, lacking) = (without(facts, &text), without(&text, facts));
    match (own.as_slice(), lacking.as_slice()) {
        ([], []) => table(facts.columns()),
        (own, []) => format!("All of `text`, and:\n\n{}", table(own)),
        ([], lacking) if lacking.len() < facts.columns().len() => {
            format!("All of `text` except {}.\n", names(lacking))
        }
        ([], _) => format!("Of `text`: {}.\n", names(facts.columns())),
        _ => table(facts.columns()),
    }
}

fn table(columns: &[Column]) -> String {
    let mut text = "| fact | type | meaning |\n|---|---|---|\n".to_owned();
    for Column { name, kind, doc, journalled } in columns {
        let kept = if *journalled { "" } else { ". Not journalled" };
        text += &format!("| `{name}` | {kind} | {doc}{kept} |\n");
    }
    text
}
