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
  tollhouse preset show mail | less")]
pub(crate) struct PresetArgs {
    #[command(subcommand)]
    command: PresetCommand,
}

#[derive(clap::Subcommand)]
enum PresetCommand {
    /// List the presets
    List(JsonOption),
    /// Print a preset: a configuration that others extend
    Show {
        /// Its name
        #[arg(value_name = "NAME", value_parser = preset_named)]
        preset: &'static Preset,
    },
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
            for preset in preset::ALL {
                let (name, summary) = (preset.name, preset.summary());
                if out.is_json() {
                    out.json(&PresetLine { name, summary })?;
                } else {
                    out.line(format_args!("{name:<12} {summary}"))?;
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
