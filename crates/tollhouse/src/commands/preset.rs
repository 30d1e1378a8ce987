//! `tollhouse preset`: the configurations in the binary.

use plan::preset::{self, Preset};
use serde::Serialize;

use crate::console::Output;
use crate::exit::{CommandError, Exit};
use crate::options::{JsonOption, preset_named};

/// List and print the presets
#[derive(clap::Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
#[command(after_help = "\
Examples:
  tollhouse preset list
  tollhouse preset show mail | less
  tollhouse preset show mail-phrases > phrases.tsv")]
pub(crate) struct PresetArgs {
    #[command(subcommand)]
    command: PresetCommand,
}

#[derive(clap::Subcommand)]
enum PresetCommand {
    /// List presets, modules for `modules`, and phrase lists
    List(JsonOption),
    /// Print a preset, base configuration, module, or list
    Show {
        /// Name
        #[arg(value_name = "NAME", value_parser = shown)]
        preset: &'static Preset,
    },
}

/// The preset, the module of presets, or the list, of a name.
fn shown(name: &str) -> Result<&'static Preset, String> {
    preset::module(name).or_else(|| preset::list(name)).map_or_else(|| preset_named(name), Ok)
}

/// A preset as `--json` has it.
#[derive(Serialize)]
struct PresetLine {
    name: &'static str,
    summary: &'static str,
}

pub(crate) fn run(args: PresetArgs) -> Result<Exit, CommandError> {
    match args.command {
        PresetCommand::List(json) => {
            let mut out = Output::new(json.json);
            for preset in preset::pipelines().chain(preset::MODULES).chain(preset::LISTS) {
                let (name, summary) = (preset.name, preset.summary());
                if out.is_json() {
                    out.json(&PresetLine { name, summary })?;
                } else {
                    out.line(format_args!("{name:<18} {summary}"))?;
                }
            }
            out.flush()?;
        }
        PresetCommand::Show { preset } => {
            let mut out = Output::new(false);
            out.line(preset.text.trim_end())?;
            out.flush()?;
        }
    }
    Ok(Exit::Fine)
}
