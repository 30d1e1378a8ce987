//! `tollhouse settings`: the settings of a running server, with their origins.

use server::api::SettingJson;

use crate::console::{BOLD, DIM, Output, printable};
use crate::exit::{CommandError, Exit};
use crate::options::{JsonOption, NearServerOptions};

/// Show a running server's settings and their origins
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse settings                                 All that somebody has set
  tollhouse settings ledger --defaults               With `ledger` in their name, also defaults
  tollhouse settings --scope mail --json             Those of the pipeline `mail`

Origins are a preset, a file with its line, the environment, a flag or `default`. Secrets are
hidden. Reads the files as they are now. Needs a token with scope administer.
`tollhouse config check --effective` shows the same without a server.")]
pub(crate) struct SettingsArgs {
    /// Text in the name
    #[arg(value_name = "TEXT")]
    text: Option<String>,
    /// Only `node`, or the settings of the pipeline of this name
    #[arg(long, value_name = "SCOPE")]
    scope: Option<String>,
    /// Show defaults too
    #[arg(long)]
    defaults: bool,
    #[command(flatten)]
    server: NearServerOptions,
    #[command(flatten)]
    json: JsonOption,
}

pub(crate) fn run(args: SettingsArgs) -> Result<Exit, CommandError> {
    let given = [("scope", &args.scope), ("text", &args.text)];
    let query: Vec<(&str, &str)> =
        given.iter().filter_map(|(name, value)| Some((*name, value.as_deref()?))).collect();
    let mut settings = args.server.client()?.settings(&query)?.settings;
    settings.retain(|setting| args.defaults || setting.origin != "default");
    let mut out = Output::new(args.json.json);
    if out.is_json() {
        settings.iter().try_for_each(|setting| out.json(setting))?;
    } else if settings.is_empty() {
        out.line(match args.defaults {
            true => "there is no such setting",
            false => "nobody has set such a setting: --defaults shows what holds",
        })?;
    } else {
        show(&mut out, &settings)?;
    }
    out.flush()?;
    Ok(Exit::Fine)
}

fn show(out: &mut Output, settings: &[SettingJson]) -> Result<(), CommandError> {
    let mut last = "";
    for SettingJson { scope, path, value, origin } in settings {
        if scope != last {
            last = scope;
            out.line(format_args!("{BOLD}# {}{BOLD:#}", printable(scope)))?;
        }
        let (path, value, origin) = (printable(path), printable(value), printable(origin));
        out.line(format_args!("{path} = {value}  {DIM}# {origin}{DIM:#}"))?;
    }
    Ok(())
}
