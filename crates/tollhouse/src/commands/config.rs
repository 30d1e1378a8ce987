//! `tollhouse config`: checks a configuration and shows what it says.

use plan::{Config, ConfigProblem, ConfigProblems, Plan};
use serde::Serialize;

use crate::console::{BOLD, DIM, Output, say};
use crate::exit::{CommandError, Exit};
use crate::options::{ConfigOptions, JsonOption};

/// Check a configuration
#[derive(clap::Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
#[command(after_help = "\
Examples:
  tollhouse config check data/tollhouse.toml
  tollhouse config check data/tollhouse.toml --effective")]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(clap::Subcommand)]
enum ConfigCommand {
    Check(ConfigCheckArgs),
}

/// Check a configuration and show all problems
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse config check data/tollhouse.toml
  tollhouse config check --data ./data --set ledger.durability=sync
  tollhouse config check data/tollhouse.toml --effective | grep band

Exit codes: 0 no errors, 1 errors. --json prints an object per problem, with warnings, or with
--effective per value.")]
struct ConfigCheckArgs {
    #[command(flatten)]
    config: ConfigOptions,
    /// Treat warnings as errors
    #[arg(long)]
    strict: bool,
    /// Print every value and its origin: default, preset, file, environment or flag
    #[arg(long)]
    effective: bool,
    #[command(flatten)]
    json: JsonOption,
}

/// A problem as `--json` has it.
#[derive(Serialize)]
struct ProblemLine<'a> {
    severity: &'static str,
    file: &'a str,
    line: usize,
    column: usize,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    help: Option<&'a str>,
}

impl<'a> From<&'a ConfigProblem> for ProblemLine<'a> {
    fn from(problem: &'a ConfigProblem) -> ProblemLine<'a> {
        let (line, column) = problem.origin.line_column();
        let (file, help) = (&*problem.origin.source.name, problem.help.as_deref());
        let severity = problem.severity.name();
        ProblemLine { severity, file, line, column, message: &problem.message, help }
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

pub(crate) fn run(args: ConfigArgs) -> Result<Exit, CommandError> {
    let ConfigCommand::Check(check) = args.command;
    let mut out = Output::new(check.json.json);
    let (name, config) = check.config.load()?;
    let checked = checked(Plan::compile(&config), check.strict, &mut out, !check.effective)?;
    if let Ok(plan) = &checked {
        if check.effective {
            effective(&config, &mut out)?;
        }
        let names: Vec<&str> = plan.pipelines.iter().map(|pipeline| pipeline.name.as_str()).collect();
        say(format_args!("{name}: nothing is wrong; pipelines: {}", names.join(", ")));
    }
    out.flush()?;
    Ok(if checked.is_ok() { Exit::Fine } else { Exit::Found })
}

/// Tells all that is wrong with a configuration or suspicious about it, on standard error, and with `--json` as
/// objects too where `objects` says so. The plan, unless something is wrong, or with `strict` suspicious.
pub(super) fn checked(
    compiled: Result<Plan, ConfigProblems>,
    strict: bool,
    out: &mut Output,
    objects: bool,
) -> Result<Result<Plan, ()>, CommandError> {
    let mut tell = |problems: &ConfigProblems| {
        if problems.is_empty() {
            return Ok(());
        }
        if out.is_json() && objects {
            problems.list().iter().try_for_each(|problem| out.json(&ProblemLine::from(problem)))?;
        }
        say(problems);
        Ok::<_, CommandError>(())
    };
    match compiled {
        Ok(plan) => {
            tell(&plan.warnings)?;
            Ok(if strict && !plan.warnings.is_empty() { Err(()) } else { Ok(plan) })
        }
        Err(problems) => tell(&problems).map(|()| Err(())),
    }
}

fn effective(config: &Config, out: &mut Output) -> Result<(), CommandError> {
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
