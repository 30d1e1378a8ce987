//! `tollhouse config`: checks a configuration and shows what it says.

use std::path::PathBuf;

use engine::{Config, Plan, Problem, Problems};
use serde::Serialize;

use crate::console::{BOLD, DIM, Output, say};
use crate::exit::{Exit, Failure};
use crate::options::{EngineOptions, JsonOption};

/// Check a configuration
#[derive(clap::Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
#[command(after_help = "\
Examples:
  tollhouse config check data/tollhouse.toml
  tollhouse config check data/tollhouse.toml --effective")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Check(Check),
}

/// Show everything that is wrong with a configuration, or that nothing is
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse config check data/tollhouse.toml
  tollhouse config check --data ./data --set ledger.durability=sync
  tollhouse config check data/tollhouse.toml --effective | grep band

Exit codes: 0 nothing is wrong, 1 something is. With --json there is one object for each problem,
or with --effective one for each value.")]
struct Check {
    /// The configuration's main file; without it that of the data directory
    #[arg(value_name = "FILE", conflicts_with = "config")]
    file: Option<PathBuf>,
    /// Print every value with its origin: default, preset, file, environment or flag
    #[arg(long)]
    effective: bool,
    #[command(flatten)]
    engine: EngineOptions,
    #[command(flatten)]
    json: JsonOption,
}

/// A problem as `--json` has it.
#[derive(Serialize)]
struct ProblemLine<'a> {
    file: &'a str,
    line: usize,
    column: usize,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    help: Option<&'a str>,
}

impl<'a> From<&'a Problem> for ProblemLine<'a> {
    fn from(problem: &'a Problem) -> ProblemLine<'a> {
        let (line, column) = problem.origin.line_column();
        let (file, help) = (&*problem.origin.source.name, problem.help.as_deref());
        ProblemLine { file, line, column, message: &problem.message, help }
    }
}

/// A value as `--json` has it.
#[derive(Serialize)]
struct ValueLine<'a> {
    scope: &'a str,
    path: &'a str,
    value: &'a str,
    origin: &'a str,
}

pub(crate) fn run(args: Args) -> Result<Exit, Failure> {
    let Command::Check(check) = args.command;
    let path = match check.file.or_else(|| check.engine.config.clone()) {
        Some(path) => path,
        None => check.engine.directory()?.config_path(),
    };
    let mut out = Output::new(check.json.json);
    let config = Config::load(&path, &check.engine.overrides());
    let exit = match Plan::compile(&config) {
        Ok(plan) => {
            if check.effective {
                effective(&config, &mut out)?;
            }
            if !plan.warnings.is_empty() {
                say(&plan.warnings);
            }
            let names: Vec<&str> = plan.pipelines.iter().map(|pipeline| pipeline.name.as_str()).collect();
            say(format_args!("{}: nothing is wrong; pipelines: {}", path.display(), names.join(", ")));
            Exit::Fine
        }
        Err(problems) => {
            report(&problems, &mut out)?;
            Exit::Found
        }
    };
    out.flush()?;
    Ok(exit)
}

fn effective(config: &Config, out: &mut Output) -> Result<(), Failure> {
    let mut scope = String::new();
    for value in config.effective() {
        if out.is_json() {
            let (scope, path, origin) = (&value.scope, &value.path, &value.origin);
            out.json(&ValueLine { scope, path, value: &value.value, origin })?;
            continue;
        }
        if value.scope != scope {
            scope = value.scope;
            out.line(format_args!("{BOLD}# {scope}{BOLD:#}"))?;
        }
        out.line(format_args!("{} = {}  {DIM}# {}{DIM:#}", value.path, value.value, value.origin))?;
    }
    Ok(())
}

fn report(problems: &Problems, out: &mut Output) -> Result<(), Failure> {
    if out.is_json() {
        problems.list().iter().try_for_each(|problem| out.json(&ProblemLine::from(problem)))?;
    }
    say(problems);
    Ok(())
}
