//! `tollhouse rules list`: what rules there are, and what they cost and need.

use event::Time;
use judge::{Mode, Rule};
use plan::{Pipeline, Plan};
use serde::Serialize;

use crate::clock::now;
use crate::commands::config::checked;
use crate::console::{BOLD, DIM, Output, PLAIN, TableCell, TextTable, YELLOW, cut, width};
use crate::exit::{CommandError, Exit};
use crate::options::{ConfigOptions, JsonOption, pipelines};

/// List rules with their scores, costs and needs
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse rules list data/tollhouse.toml
  tollhouse rules list --preset web
  tollhouse rules list --json --data ./data | jq -r 'select(.mode == \"shadow\") | .name'
  tollhouse rules list --json --data ./data | jq -s 'sort_by(-.cost) | .[:5][] | [.name, .cost]'

`cost` is a bound: about a nanosecond a unit. `reads` are the facts and readings the rule needs.")]
pub(crate) struct RulesListArgs {
    #[command(flatten)]
    config: ConfigOptions,
    /// Only rules of this pipeline
    #[arg(long, value_name = "NAME")]
    pipeline: Option<String>,
    #[command(flatten)]
    json: JsonOption,
}

/// A rule as `--json` has it.
#[derive(Serialize)]
struct RulesListLine<'a> {
    pipeline: &'a str,
    name: &'a str,
    mode: Mode,
    score: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<&'a str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    owner: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    description: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires: Option<String>,
    expired: bool,
    cost: u32,
    reads: Vec<&'a str>,
    effects: Vec<String>,
    /// The number of tests that say that the rule fires, and that it does not.
    tests: RuleTests,
}

#[derive(Serialize)]
struct RuleTests {
    fire: usize,
    silent: usize,
}

fn group<'a>(pipeline: &'a Pipeline, rule: &Rule) -> Option<&'a str> {
    rule.group.map(|group| pipeline.rules.groups()[group].name.as_str())
}

fn has_expired(rule: &Rule, now: Time) -> bool {
    rule.expires.is_some_and(|expires| expires <= now)
}

fn line<'a>(pipeline: &'a Pipeline, rule: &'a Rule, now: Time) -> RulesListLine<'a> {
    let fire = rule.tests().filter(|fires| *fires).count();
    RulesListLine {
        pipeline: &pipeline.name,
        name: &rule.name,
        mode: rule.mode,
        score: rule.score,
        group: group(pipeline, rule),
        owner: &rule.owner,
        description: &rule.description,
        expires: rule.expires.map(|expires| expires.to_string()),
        expired: has_expired(rule, now),
        cost: rule.cost(),
        reads: rule.reads().map(|read| read.text.as_str()).collect(),
        effects: rule.effects.iter().map(ToString::to_string).collect(),
        tests: RuleTests { fire, silent: rule.tests().len() - fire },
    }
}

pub(super) fn run(args: RulesListArgs) -> Result<Exit, CommandError> {
    let mut out = Output::new(args.json.json);
    let (_, config) = args.config.load()?;
    let (compiled, now) = (Plan::compile_untested(&config).map(|(plan, _)| plan), now());
    let Ok(plan) = checked(compiled, false, &mut out, false)? else { return Ok(Exit::Found) };
    for pipeline in pipelines(&plan, args.pipeline.as_deref())? {
        if out.is_json() {
            pipeline.rules.rules().iter().try_for_each(|rule| out.json(&line(pipeline, rule, now)))?;
        } else {
            draw(&mut out, pipeline, now)?;
        }
    }
    out.flush()?;
    Ok(Exit::Fine)
}

fn draw(out: &mut Output, pipeline: &Pipeline, now: Time) -> Result<(), CommandError> {
    const NAME_CHARS: usize = 32;
    let rules = pipeline.rules.rules();
    out.line(format_args!(
        "{BOLD}{}{BOLD:#}  {} rules, cost {}, version {}",
        pipeline.name,
        rules.len(),
        pipeline.rules.cost(),
        pipeline.version
    ))?;
    if rules.is_empty() {
        return Ok(());
    }
    let mut table = TextTable::default();
    let head = ["  rule", "mode", "score", "cost", "tests", "group", "owner", "expires", "reads"];
    table.row(head.map(|head| match head {
        "score" | "cost" | "tests" => TableCell::number(head, DIM),
        _ => TableCell::text(head, DIM),
    }));
    let column =
        |of: &dyn Fn(&Rule) -> usize, head: &str| rules.iter().map(of).max().unwrap_or(0).max(head.len());
    let taken = column(&|rule| rule.name.chars().count().min(NAME_CHARS), "rule")
        + column(&|rule| group(pipeline, rule).map_or(0, |name| name.chars().count().min(16)), "group")
        + column(&|rule| rule.owner.chars().count().min(16), "owner")
        + column(&|rule| expires(rule, now).len(), "expires");
    // Mode, score, cost and tests are narrow; two blanks stand between columns.
    let room = width().saturating_sub(taken + 44).max(24);
    for rule in rules {
        let style = if rule.mode == Mode::Enforce { PLAIN } else { YELLOW };
        let reads: Vec<&str> = rule.reads().map(|read| read.text.as_str()).collect();
        table.row([
            TableCell::text(format!("  {}", cut(&rule.name, NAME_CHARS)), style),
            TableCell::text(rule.mode.name(), style),
            TableCell::number(format_args!("{:+.1}", rule.score), PLAIN),
            TableCell::number(rule.cost(), PLAIN),
            TableCell::number(rule.tests().len(), PLAIN),
            TableCell::text(cut(group(pipeline, rule).unwrap_or_default(), 16), PLAIN),
            TableCell::text(cut(&rule.owner, 16), PLAIN),
            TableCell::text(expires(rule, now), if has_expired(rule, now) { YELLOW } else { PLAIN }),
            TableCell::text(cut(&reads.join(", "), room), DIM),
        ]);
    }
    out.line(table)?;
    out.line("")
}

/// The day, or that it is past.
fn expires(rule: &Rule, now: Time) -> String {
    let Some(expires) = rule.expires else { return String::new() };
    let day: String = expires.to_string().chars().take(10).collect();
    if has_expired(rule, now) { format!("{day}, past") } else { day }
}
