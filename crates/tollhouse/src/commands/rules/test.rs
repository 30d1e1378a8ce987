//! `tollhouse rules test`: the tests that rules bring.

use std::collections::BTreeMap;

use journal::json_value;
use plan::{Plan, RuleTestResult};
use serde::Serialize;

use crate::commands::config::checked;
use crate::console::{BOLD, DIM, GREEN, Output, RED, printable, say};
use crate::exit::{CommandError, Exit};
use crate::options::{ConfigOptions, JsonOption, pipelines};

/// Run the tests of rules
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse rules test data/tollhouse.toml
  tollhouse rules test --all --rule NIGHT_FLOOD data/tollhouse.toml
  tollhouse rules test --json new.toml | jq -r 'select(.passed | not) | .rule'

A test stands beside its rule: facts and readings, and whether the rule fires on them:

  [[rule.test]]
  facts = { \"from.seen('1h')\" = 1001, \"mail.has_list_headers\" = false }
  fires = true

Failing tests are shown with what the rule read. A server rejects a file with one.
Exit codes: 0 all passed, 1 one failed, or the file has other errors.")]
pub(crate) struct RulesTestArgs {
    #[command(flatten)]
    config: ConfigOptions,
    /// Only tests of this pipeline
    #[arg(long, value_name = "NAME")]
    pipeline: Option<String>,
    /// Only tests of this rule
    #[arg(long, value_name = "NAME")]
    rule: Option<String>,
    /// Also show tests that pass
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    json: JsonOption,
}

/// A test as `--json` has it.
#[derive(Serialize)]
struct RulesTestLine<'a> {
    pipeline: &'a str,
    rule: &'a str,
    /// From 1.
    test: usize,
    file: &'a str,
    line: usize,
    passed: bool,
    fires: bool,
    /// The value of the condition; absent where it was missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    condition: Option<bool>,
    detail: &'a str,
    values: BTreeMap<&'a str, serde_json::Value>,
}

impl<'a> From<&'a RuleTestResult> for RulesTestLine<'a> {
    fn from(RuleTestResult { pipeline, rule, origin, run }: &'a RuleTestResult) -> RulesTestLine<'a> {
        let values = run.values.iter();
        RulesTestLine {
            pipeline,
            rule,
            test: run.test + 1,
            file: &origin.source.name,
            line: origin.line_column().0,
            passed: run.passed(),
            fires: run.fires,
            condition: run.found,
            detail: &run.detail,
            values: values.filter_map(|(name, value)| Some((&**name, json_value(value.as_ref()?)))).collect(),
        }
    }
}

pub(super) fn run(args: RulesTestArgs) -> Result<Exit, CommandError> {
    let mut out = Output::new(args.json.json);
    let (_, config) = args.config.load()?;
    let (compiled, tests) = match Plan::compile_untested(&config) {
        Ok((plan, tests)) => (Ok(plan), tests),
        Err(problems) => (Err(problems), Vec::new()),
    };
    // Problems go to standard error only: objects are tests.
    let Ok(plan) = checked(compiled, false, &mut out, false)? else { return Ok(Exit::Found) };
    let chosen = pipelines(&plan, args.pipeline.as_deref())?;
    if let Some(name) = &args.rule
        && chosen.iter().all(|pipeline| pipeline.rules.rule(name).is_none())
    {
        return Err(CommandError::new(format_args!("there is no rule `{name}`"))
            .help("`tollhouse rules list` names all of them"));
    }
    let is_wanted = |rule: &str| args.rule.as_deref().is_none_or(|wanted| wanted == rule);
    let wanted = tests
        .iter()
        .filter(|test| chosen.iter().any(|pipeline| pipeline.name == test.pipeline) && is_wanted(&test.rule));
    let (mut passed, mut failed) = (0usize, 0usize);
    for test in wanted {
        let fine = test.run.passed();
        *(if fine { &mut passed } else { &mut failed }) += 1;
        if out.is_json() {
            out.json(&RulesTestLine::from(test))?;
        } else if args.all || !fine {
            draw(&mut out, test)?;
        }
    }
    out.flush()?;
    let rules = chosen.iter().flat_map(|pipeline| pipeline.rules.rules());
    let untested = rules.filter(|rule| is_wanted(&rule.name) && rule.tests().len() == 0).count();
    let untested = if untested == 0 { String::new() } else { format!("; {untested} rules have no test") };
    say(format_args!("{passed} passed, {failed} failed{untested}"));
    Ok(if failed == 0 { Exit::Fine } else { Exit::Found })
}

fn draw(out: &mut Output, test: &RuleTestResult) -> Result<(), CommandError> {
    let RuleTestResult { rule, origin, run, .. } = test;
    let (style, word) = if run.passed() { (GREEN, "passed") } else { (RED, "failed") };
    let (line, _) = origin.line_column();
    let place = format!("{}:{line}", origin.source.name);
    out.line(format_args!(
        "{style}{word}{style:#}  {BOLD}{}{BOLD:#} test {}  {DIM}{place}{DIM:#}",
        printable(rule),
        run.test + 1
    ))?;
    let wanted = if run.fires { "fires" } else { "does not fire" };
    let found = match run.found {
        Some(true) => "true",
        Some(false) => "false",
        None => "missing",
    };
    out.line(format_args!("  the test says that it {wanted}; its condition is {found}"))?;
    for (name, value) in &run.values {
        match value {
            Some(value) => out.line(format_args!("    {name} = {}", printable(&value.to_string())))?,
            None => out.line(format_args!("    {name} is missing"))?,
        }
    }
    Ok(())
}
