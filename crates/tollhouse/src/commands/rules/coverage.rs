//! `tollhouse rules coverage`: which rules fire, which never do, and which only beside others.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use anstyle::Style;
use engine::Engine;
use event::Time;
use indicatif::HumanCount;
use journal::{JournalArchive, Record};
use judge::{Mode, Reason, Verdict};
use plan::{Pipeline, Plan};
use serde::Serialize;

use crate::client::LineFormat;
use crate::commands::config::checked;
use crate::console::{BOLD, DIM, Output, PLAIN, Progress, TableCell, TextTable, YELLOW, cut, say};
use crate::exit::{CommandError, Exit};
use crate::input::line_batch::BATCH;
use crate::input::messages::{EnvelopeOption, InputMessageIter, count_files};
use crate::interrupt::Interrupt;
use crate::log_input::{self, FileLine, LogFileFormat, LogFileReader};
use crate::losses::say_losses;
use crate::message_reader::{MessageOptions, ThreadsOption, each_message, message_pipeline};
use crate::options::{ConfigOptions, JsonOption, LocalEngine, pipelines, time};

/// Show which rules never fire, or always together, over a journal or a corpus
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse rules coverage --data ./data --from 2026-05-01       What was decided since May
  tollhouse rules coverage new.toml --mbox corpus.mbox           What a file would do to a corpus
  tollhouse rules coverage --preset web --log access.log
  tollhouse rules coverage --json --data ./data | jq -r 'select(.hits == 0) | .rule'

Over the journal of --data, also beside a server, hits are those logged while the rule existed. A
corpus is decided once, in memory, at the events' own times, and nothing is kept. Rules fire
together if they fired on exactly the same events. Memory does not grow with the events.")]
pub(crate) struct RulesCoverageArgs {
    #[command(flatten)]
    config: ConfigOptions,
    /// Log or NDJSON file to decide on instead of reading a journal; - is standard input
    #[arg(long, value_name = "FILE|-", conflicts_with_all = ["mbox", "from", "to"])]
    log: Option<PathBuf>,
    /// Mailbox, file or directory to decide on instead of reading a journal
    #[arg(long, value_name = "MBOX|DIR|-", conflicts_with_all = ["from", "to"])]
    mbox: Option<PathBuf>,
    /// Only events at this time or later
    #[arg(long, value_name = "TIME", value_parser = time)]
    from: Option<Time>,
    /// Only events before this time
    #[arg(long, value_name = "TIME", value_parser = time)]
    to: Option<Time>,
    /// Only rules of this pipeline
    #[arg(long, value_name = "NAME")]
    pipeline: Option<String>,
    #[command(flatten)]
    threads: ThreadsOption,
    #[command(flatten)]
    json: JsonOption,
}

pub(super) fn run(args: RulesCoverageArgs) -> Result<Exit, CommandError> {
    let mut out = Output::new(args.json.json);
    let corpus = match (&args.log, &args.mbox) {
        (Some(_), _) => Some("web"),
        (_, Some(_)) => Some("mail"),
        _ => None,
    };
    // Without a file, a corpus is decided by a preset and a journal has a configuration beside it.
    let (_, config) = args.config.load_or(corpus)?;
    let compiled = Plan::compile_untested(&config).map(|(plan, _)| plan);
    let Ok(plan) = checked(compiled, false, &mut out, false)? else { return Ok(Exit::Found) };
    let mut fired = BTreeMap::new();
    let (exit, plan) = match corpus {
        Some(_) => {
            let engine = Engine::ephemeral(plan).map_err(CommandError::new)?;
            let local = LocalEngine::new(engine);
            let exit = of_corpus(&args, &local, &mut fired)?;
            (exit, local.engine().plan())
        }
        None => (of_journal(&args, &mut fired)?, Arc::new(plan)),
    };
    // Of a corpus, only the pipeline that decided it can say anything.
    for pipeline in pipelines(&plan, args.pipeline.as_deref())? {
        let fired = match fired.remove(&pipeline.name) {
            None if corpus.is_some() => continue,
            fired => fired.unwrap_or_default(),
        };
        let lines = lines(pipeline, &fired);
        if out.is_json() {
            lines.iter().try_for_each(|line| out.json(line))?;
        } else {
            draw(&mut out, pipeline, &fired, &lines)?;
        }
    }
    out.flush()?;
    Ok(exit)
}

/// The rules that fired in a pipeline's decisions.
#[derive(Debug, Default)]
struct FiredRules {
    decisions: u64,
    /// Decisions by the version that made them; empty where one made all.
    versions: HashMap<String, u64>,
    rules: HashMap<String, RuleHitCount>,
    /// The rules of each version.
    known: HashMap<String, Vec<String>>,
}

/// The events on which a rule fired.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct RuleHitCount {
    count: u64,
    /// The sum of the events' numbers, each mixed to 128 bits: two sets of events that differ have the same sum with a
    /// probability of about 2⁻¹²⁸.
    events: u128,
    last: Option<Time>,
}

impl FiredRules {
    fn add(&mut self, version: Option<&str>, time: Time, verdict: &Verdict) {
        let event = mixed(self.decisions);
        self.decisions += 1;
        if let Some(version) = version {
            match self.versions.get_mut(version) {
                Some(count) => *count += 1,
                None => _ = self.versions.insert(version.to_owned(), 1),
            }
        }
        for Reason { rule, .. } in verdict.reasons.iter().chain(&verdict.shadow) {
            let hits = match self.rules.get_mut(rule) {
                Some(hits) => hits,
                None => self.rules.entry(rule.clone()).or_default(),
            };
            hits.count += 1;
            hits.events = hits.events.wrapping_add(event);
            hits.last = hits.last.max(Some(time));
        }
    }

    /// The decisions that were made while a rule was there.
    fn with(&self, rule: &str) -> u64 {
        if self.versions.is_empty() {
            return self.decisions;
        }
        let had = |version: &String| {
            self.known.get(version).is_some_and(|rules| rules.iter().any(|known| known == rule))
        };
        self.versions.iter().filter(|(version, _)| had(version)).map(|(_, count)| count).sum()
    }
}

/// 128 bits that look like chance: SplitMix64 with two increments.
fn mixed(number: u64) -> u128 {
    let half = |increment: u64| {
        let mut word = number.wrapping_add(1).wrapping_mul(increment);
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        u128::from(word ^ (word >> 31))
    };
    half(0x9e37_79b9_7f4a_7c15) << 64 | half(0xd1b5_4a32_d192_ed03)
}

fn of_journal(
    args: &RulesCoverageArgs,
    fired: &mut BTreeMap<String, FiredRules>,
) -> Result<Exit, CommandError> {
    let archive = JournalArchive::open(&args.config.engine().directory()?.journal_path())?;
    let interrupt = Interrupt::watch(None);
    let progress = Progress::new("decisions", None);
    let mut exit = Exit::Fine;
    let skipped = archive.scan(|_, record| {
        progress.add(1);
        if let Record::Decision(row) = record
            && args.from.is_none_or(|from| row.time >= from)
            && args.to.is_none_or(|to| row.time < to)
        {
            let of = match fired.get_mut(&row.pipeline) {
                Some(fired) => fired,
                None => fired.entry(row.pipeline.clone()).or_default(),
            };
            of.add(Some(&row.version), row.time, &row.verdict);
        }
        if interrupt.raised() {
            exit = Exit::Interrupted;
        }
        exit == Exit::Fine
    })?;
    for of in fired.values_mut() {
        for version in of.versions.keys() {
            let rules = archive.description(version)?.rules;
            of.known.insert(version.clone(), rules.into_iter().map(|(name, _)| name).collect());
        }
    }
    drop(progress);
    match (exit, say_losses(&skipped, &archive.lacking()?)) {
        (Exit::Fine, true) => Ok(Exit::Found),
        (exit, _) => Ok(exit),
    }
}

fn of_corpus(
    args: &RulesCoverageArgs,
    local: &LocalEngine,
    fired: &mut BTreeMap<String, FiredRules>,
) -> Result<Exit, CommandError> {
    let name = args.pipeline.as_deref();
    let (exit, unreadable, pipeline, of) = match (&args.mbox, &args.log) {
        (Some(path), _) => {
            let pipeline = message_pipeline(local, name)?;
            let files = vec![path.clone()];
            let options = MessageOptions {
                message_time: true,
                envelope: EnvelopeOption::Headers,
                pipeline: args.pipeline.clone(),
                threads: args.threads,
            };
            let progress = Progress::new("messages", count_files(&files));
            let mut of = FiredRules::default();
            let messages = InputMessageIter::new(files);
            let (exit, bad) = each_message(
                local,
                &pipeline,
                messages,
                &options,
                &progress,
                |_| (),
                |ready| {
                    for decision in pollster::block_on(local.engine().decide(vec![ready.prepared])) {
                        of.add(None, decision.time, &decision.verdict);
                    }
                    Ok(())
                },
            )?;
            (exit, bad, pipeline, of)
        }
        (None, path) => {
            let path = path.clone().unwrap_or_default();
            let (reader, form) = log_input::open(&path, LogFileFormat::Auto)?;
            let wanted = |pipeline: &Pipeline| {
                form == LineFormat::Json || pipeline.input == plan::PipelineInput::AccessLog
            };
            let pipeline = local.pipeline(name, wanted)?;
            let (progress, mut of, mut bad) = (Progress::new("events", None), FiredRules::default(), 0);
            let threads = args.threads;
            let lines =
                LogFileReader { local, pipeline: &pipeline, form, by_patterns: true, threads, size: BATCH };
            let exit = lines.read(
                reader,
                |_| (),
                |batch| {
                    let batch = batch
                        .map_err(|error| CommandError::new(format_args!("{}: {error}", path.display())))?;
                    bad += batch.iter().filter(|(_, line)| matches!(line, FileLine::Bad(_))).count() as u64;
                    progress.add(batch.len() as u64);
                    let ready: Vec<_> =
                        batch.into_iter().filter_map(|(_, line)| Some(line.event()?.prepared)).collect();
                    for decision in pollster::block_on(local.engine().decide(ready)) {
                        of.add(None, decision.time, &decision.verdict);
                    }
                    Ok(())
                },
            )?;
            (exit, bad, pipeline, of)
        }
    };
    fired.insert(pipeline.name.clone(), of);
    if unreadable > 0 {
        say(format_args!("{} were no events and are left out", HumanCount(unreadable)));
    }
    Ok(match exit {
        Exit::Fine if unreadable > 0 => Exit::Found,
        exit => exit,
    })
}

/// A rule as `--json` has it.
#[derive(Debug, Serialize)]
struct RulesCoverageLine<'a> {
    pipeline: &'a str,
    rule: &'a str,
    mode: Mode,
    /// Decisions that were made while the rule was there.
    decisions: u64,
    hits: u64,
    /// Its share of those decisions.
    share: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    last: Option<String>,
    /// The rules that fired on the very same events.
    together: Vec<&'a str>,
    tests: CoverageTests,
}

#[derive(Debug, Serialize)]
struct CoverageTests {
    fire: usize,
    silent: usize,
}

/// The rules of a pipeline, those that fired most first.
fn lines<'a>(pipeline: &'a Pipeline, fired: &FiredRules) -> Vec<RulesCoverageLine<'a>> {
    let rules = pipeline.rules.rules();
    let hits = |name: &str| fired.rules.get(name).copied().unwrap_or_default();
    let mut together: HashMap<(u64, u128), Vec<&str>> = HashMap::new();
    for rule in rules {
        let RuleHitCount { count, events, .. } = hits(&rule.name);
        if count > 0 {
            together.entry((count, events)).or_default().push(&rule.name);
        }
    }
    let mut lines: Vec<RulesCoverageLine<'_>> = rules
        .iter()
        .map(|rule| {
            let (RuleHitCount { count, events, last }, decisions) =
                (hits(&rule.name), fired.with(&rule.name));
            let others = together.get(&(count, events)).into_iter().flatten().copied();
            let fire = rule.tests().filter(|fires| *fires).count();
            RulesCoverageLine {
                pipeline: &pipeline.name,
                rule: &rule.name,
                mode: rule.mode,
                decisions,
                hits: count,
                share: if decisions == 0 { 0.0 } else { count as f64 / decisions as f64 },
                last: last.map(|last| last.to_string()),
                together: others.filter(|other| *other != rule.name).collect(),
                tests: CoverageTests { fire, silent: rule.tests().len() - fire },
            }
        })
        .collect();
    lines.sort_by(|a, b| b.hits.cmp(&a.hits).then_with(|| a.rule.cmp(b.rule)));
    lines
}

fn draw(
    out: &mut Output,
    pipeline: &Pipeline,
    fired: &FiredRules,
    lines: &[RulesCoverageLine<'_>],
) -> Result<(), CommandError> {
    let (name, decisions) = (&pipeline.name, HumanCount(fired.decisions));
    out.line(format_args!("{BOLD}{name}{BOLD:#}  {decisions} decisions, {} rules", lines.len()))?;
    let mut table = TextTable::default();
    let head = [("  rule", false), ("hits", true), ("share", true), ("last", false)];
    table.row(head.map(
        |(head, number)| if number { TableCell::number(head, DIM) } else { TableCell::text(head, DIM) },
    ));
    for line in lines.iter().filter(|line| line.hits > 0) {
        table.row([
            TableCell::text(
                format!("  {}", cut(line.rule, 40)),
                if line.mode == Mode::Enforce { PLAIN } else { YELLOW },
            ),
            TableCell::number(HumanCount(line.hits), PLAIN),
            TableCell::number(format_args!("{:.2} %", line.share * 100.0), PLAIN),
            TableCell::text(line.last.clone().unwrap_or_default(), DIM),
        ]);
    }
    out.line(table)?;
    let never = lines.iter().filter(|line| line.hits == 0 && line.mode != Mode::Off);
    list(out, "never fired", never, |line| match line.decisions == fired.decisions {
        true => String::new(),
        false => format!("there for {} of the decisions", HumanCount(line.decisions)),
    })?;
    // Of rules that go together, the first by name tells of all.
    let pairs =
        lines.iter().filter(|line| line.together.iter().min().is_some_and(|first| line.rule < *first));
    list(out, "always fire together", pairs, |line| {
        format!("and {}, {} times", line.together.join(", "), HumanCount(line.hits))
    })?;
    let untested = lines.iter().filter(|line| line.tests.fire == 0 || line.tests.silent == 0);
    list(out, "not covered by their tests", untested, |line| {
        match (line.tests.fire, line.tests.silent) {
            (0, 0) => "no test",
            (0, _) => "none in which it fires",
            _ => "none in which it does not fire",
        }
        .to_owned()
    })?;
    out.line("")
}

fn list<'a>(
    out: &mut Output,
    title: &str,
    lines: impl Iterator<Item = &'a RulesCoverageLine<'a>>,
    about: impl Fn(&RulesCoverageLine<'_>) -> String,
) -> Result<(), CommandError> {
    let lines: Vec<&RulesCoverageLine<'_>> = lines.collect();
    out.line(format_args!("  {BOLD}{title}{BOLD:#}: {}", lines.len()))?;
    let mut table = TextTable::default();
    for line in &lines {
        table.row([
            TableCell::text(format!("    {}", cut(line.rule, 40)), Style::new()),
            TableCell::text(about(line), DIM),
        ]);
    }
    if lines.is_empty() { Ok(()) } else { out.line(table) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_events_are_told_apart() {
        let verdict = |rules: &[&str]| {
            let reason = |rule: &&str| Reason {
                rule: (*rule).to_owned(),
                score: 1.0,
                detail: String::new(),
                values: Vec::new(),
            };
            let mut verdict = judge::judge(&judge::RuleSet::default(), &event::Schema::default().empty_row());
            verdict.reasons = rules.iter().map(reason).collect();
            verdict
        };
        let mut fired = FiredRules::default();
        for rules in [&["a", "b", "c"][..], &["a", "b"], &["c"], &[]] {
            fired.add(None, Time(fired.decisions as i64), &verdict(rules));
        }
        // All three fired twice, and `c` not on the events of the others.
        assert_eq!(fired.rules["a"], fired.rules["b"]);
        assert_eq!(fired.rules["a"].count, fired.rules["c"].count);
        assert_ne!(fired.rules["a"].events, fired.rules["c"].events);
        assert_eq!((fired.with("a"), fired.decisions), (4, 4));
        assert_eq!(fired.rules["a"].last, Some(Time(1)));
    }

    #[test]
    fn sums_of_neighbours_do_not_meet() {
        let mut sums = std::collections::HashSet::new();
        for first in 0..200 {
            for second in first + 1..200 {
                assert!(sums.insert(mixed(first).wrapping_add(mixed(second))), "{first} {second}");
            }
        }
    }
}
