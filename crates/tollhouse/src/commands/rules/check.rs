//! `tollhouse rules check`: all that is wrong with rules, or suspicious.

use judge::{Mode, RuleSet};
use plan::{Pipeline, Plan};

use crate::commands::config::checked;
use crate::console::{Output, say};
use crate::exit::{CommandError, Exit};
use crate::options::{ConfigOptions, JsonOption};

/// Check rules, and show all problems and suspicious parts
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse rules check data/tollhouse.toml
  tollhouse rules check --strict new.toml && echo fine
  tollhouse rules check --json new.toml | jq -r .message

Checks the whole file, as `config check` does, since rules depend on its kinds, statistics and
definitions, and runs the rules' tests.

Exit codes: 0 no errors, 1 errors, or with --strict warnings. --json prints an object per problem.")]
pub(crate) struct RulesCheckArgs {
    #[command(flatten)]
    config: ConfigOptions,
    /// Treat warnings as errors
    #[arg(long)]
    strict: bool,
    #[command(flatten)]
    json: JsonOption,
}

pub(super) fn run(args: RulesCheckArgs) -> Result<Exit, CommandError> {
    let mut out = Output::new(args.json.json);
    let (name, config) = args.config.load()?;
    let plan = checked(Plan::compile(&config), args.strict, &mut out, true)?;
    out.flush()?;
    let Ok(plan) = plan else { return Ok(Exit::Found) };
    say(format_args!("{name}: nothing is wrong"));
    for pipeline in &plan.pipelines {
        say(summary(pipeline));
    }
    Ok(Exit::Fine)
}

/// `mail: 43 rules (2 in shadow, 1 off), 12 tests, cost 812 of at most 500000`
fn summary(pipeline: &Pipeline) -> String {
    let rules = pipeline.rules.rules();
    let tests: usize = rules.iter().map(|rule| rule.tests().len()).sum();
    let of = |mode: Mode| rules.iter().filter(|rule| rule.mode == mode).count();
    let (shadow, off) = (of(Mode::Shadow), of(Mode::Off));
    let resting = match (shadow, off) {
        (0, 0) => String::new(),
        (shadow, 0) => format!(" ({shadow} in shadow)"),
        (0, off) => format!(" ({off} off)"),
        (shadow, off) => format!(" ({shadow} in shadow, {off} off)"),
    };
    format!(
        "{}: {} rules{resting}, {tests} tests, cost {} of at most {}",
        pipeline.name,
        rules.len(),
        pipeline.rules.cost(),
        RuleSet::COST_MAX
    )
}
