//! The reference of the configuration in Markdown, read off the lists of settings and facts.

use event::Column;

use crate::config::settings_reference;
use crate::pipeline::PipelineInput;
use crate::pipeline::columns::input_facts;

/// Returns the reference of every section, key and fact in Markdown, as `docs/reference/configuration.md` has it.
pub fn reference() -> String {
    let mut text = settings_reference();
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
