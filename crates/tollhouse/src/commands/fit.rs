//! `tollhouse fit`: fits the scores of rules to judged events.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use data_encoding::HEXLOWER;
use engine::Decision;
use engine::backtest::{Backtest, BacktestQuery, ScoreFit, ScoreFitError, ScoreFitQuery};
use event::Time;
use indicatif::HumanCount;
use journal::JournalArchive;
use judge::{FitExample, FitTerms};
use plan::preset::Preset;
use plan::{Config, Pipeline, Plan};
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::backtest;
use crate::console::{BOLD, DIM, Output, Progress, TableCell, TextTable, help, printable, say};
use crate::exit::{CommandError, Exit};
use crate::input::messages::{EnvelopeOption, InputMessage, InputMessageIter, count_files};
use crate::losses::say_losses;
use crate::message_reader::{ThreadsOption, message_pipeline};
use crate::options::{EngineOptions, JsonOption, LocalEngine, preset_named, time};

/// Fit the scores of rules to judged events, and test them on later ones
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse fit --data ./data                                 By the judged decisions of the journal
  tollhouse fit --data ./data --from 2026-05-01 --write fitted.toml
  tollhouse fit --spam ~/Maildir/.Junk --ham ~/Maildir/cur    By folders, in order of time
  tollhouse fit --spam spam.mbox --ham ham.mbox --config own.toml --fix learned

A logistic regression: where the lowest band begins, an event is bad with even odds, and a point of
score is a point of log-odds. Scores stay near the present ones and keep their sign, also in groups.
The fit on the earlier part is measured on the later one; the written scores are fitted to all, and
have no effect until put into tollhouse.toml or posted.

Folders are read into memory and decided in order of time, each message before it is learned.")]
pub(crate) struct FitArgs {
    /// Spam: files, directories and mailboxes
    #[arg(long, value_name = "PATH", num_args = 1.., requires = "ham", conflicts_with_all = ["data", "from", "to", "bad"])]
    spam: Vec<PathBuf>,
    /// Wanted mail: files, directories and mailboxes
    #[arg(long, value_name = "PATH", num_args = 1.., requires = "spam")]
    ham: Vec<PathBuf>,
    /// Messages between a folder's message and its judgement
    #[arg(long, value_name = "N", default_value_t = 100)]
    delay: usize,
    /// Preset for deciding on folders in memory [default: mail]
    #[arg(long, value_name = "NAME", value_parser = preset_named, requires = "spam")]
    preset: Option<&'static Preset>,
    /// Pipeline whose rules to fit [default: the first]
    #[arg(long, value_name = "NAME")]
    pipeline: Option<String>,
    /// Only events at this time or later
    #[arg(long, value_name = "TIME", value_parser = time)]
    from: Option<Time>,
    /// Only events before this time
    #[arg(long, value_name = "TIME", value_parser = time)]
    to: Option<Time>,
    /// Class of bad events [default: `bad` of `[reports]`]
    #[arg(long, value_name = "CLASS")]
    bad: Vec<String>,
    /// Rule whose score stays, or group whose scores do
    #[arg(long, value_name = "NAME")]
    fix: Vec<String>,
    /// Share of the events, the earliest, that the measured fit sees
    #[arg(long, value_name = "SHARE", default_value_t = 0.6, value_parser = share)]
    split: f64,
    /// Missed bad events that one false positive is worth
    #[arg(long, value_name = "N", default_value_t = FitTerms::default().false_positive, value_parser = positive)]
    false_positive: f64,
    /// Inertia of the present scores, in contrary events
    #[arg(long, value_name = "N", default_value_t = FitTerms::default().prior, value_parser = positive)]
    prior: f64,
    /// Largest score; those of rules with a `share` may double
    #[arg(long, value_name = "SCORE", default_value_t = FitTerms::default().most, value_parser = positive)]
    most: f64,
    /// File to write the scores to, as configuration rules
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
    #[command(flatten)]
    threads: ThreadsOption,
    #[command(flatten)]
    engine: EngineOptions,
    #[command(flatten)]
    json: JsonOption,
}

/// Most bytes of folders that are read.
const BYTES_MAX: u64 = 4 << 30;

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.0..1.0).contains(share) && *share > 0.0);
    share.ok_or_else(|| "expected a number between 0 and 1, such as 0.6".to_owned())
}

fn positive(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| number.is_finite() && *number > 0.0);
    number.ok_or_else(|| "expected a number above 0".to_owned())
}

/// The judged events, and the rules that judged them.
struct FitData {
    pipeline: Arc<Pipeline>,
    examples: Vec<FitExample>,
    is_whole: bool,
}

/// A message of a folder.
struct FolderMessage {
    time: Time,
    /// `spam` or `ham`.
    class: &'static str,
    message: InputMessage,
}

/// The line of `--json`.
#[derive(Serialize)]
struct FitLine<'a> {
    pipeline: &'a str,
    #[serde(flatten)]
    fit: &'a ScoreFit,
}

pub(crate) fn run(args: FitArgs) -> Result<Exit, CommandError> {
    let mut out = Output::new(args.json.json);
    let query = ScoreFitQuery {
        fixed: args.fix.clone(),
        split: args.split,
        false_positive: args.false_positive,
        prior: args.prior,
        most: args.most,
    };
    let data = if args.spam.is_empty() { of_journal(&args, &query)? } else { of_folders(&args)? };
    let Some(FitData { pipeline, examples, is_whole }) = data else { return Ok(Exit::Interrupted) };
    let fit = ScoreFit::of(&pipeline, &examples, &query).map_err(|error| match error {
        ScoreFitError::TooFew { .. } => CommandError::new(&error).help(
            "say of decisions what they were with `tollhouse feedback`, or give folders by --spam and --ham"
                .to_owned(),
        ),
        ScoreFitError::UnknownRule { .. } => CommandError::new(&error),
    })?;
    if out.is_json() {
        out.json(&FitLine { pipeline: &pipeline.name, fit: &fit })?;
    } else {
        show(&fit, &mut out)?;
    }
    out.flush()?;
    if let Some(path) = &args.write {
        write(path, &fit)?;
        say(format_args!(
            "{} is written: put its rules into your configuration, or post them",
            path.display()
        ));
    }
    Ok(if is_whole { Exit::Fine } else { Exit::Found })
}

/// The judged decisions of a journal, by the rules of its configuration as it is now.
fn of_journal(args: &FitArgs, query: &ScoreFitQuery) -> Result<Option<FitData>, CommandError> {
    let directory = args.engine.directory()?;
    let path = args.engine.config.clone().unwrap_or_else(|| directory.config_path());
    let plan = Plan::compile(&Config::load(&path, &args.engine.overrides()))?;
    let pipeline = plan.pipeline(args.pipeline.as_deref()).map(Arc::clone).ok_or_else(|| {
        let name = args.pipeline.as_deref().unwrap_or_default();
        CommandError::new(format_args!("{} has no pipeline `{name}`", path.display()))
    })?;
    let archive = JournalArchive::open(&directory.journal_path())?;
    let descriptions = archive.descriptions()?;
    let question = BacktestQuery {
        from: args.from,
        to: args.to,
        bad: args.bad.clone(),
        fit: Some(query.clone()),
        ..BacktestQuery::default()
    };
    let backtest = Backtest::new(Arc::clone(&pipeline), question, &descriptions);
    let Some((mut tally, skipped)) = backtest::judge(&backtest, &archive, args.threads.count())? else {
        return Ok(None);
    };
    let is_less = say_losses(&skipped, &archive.lacking()?);
    Ok(Some(FitData { pipeline, examples: tally.take_examples(), is_whole: !is_less }))
}

/// The messages of two folders in the order of their times, each judged before it is learned.
fn of_folders(args: &FitArgs) -> Result<Option<FitData>, CommandError> {
    let config = match (&args.engine.config, args.preset) {
        (Some(_), Some(_)) => return Err(CommandError::new("--preset and --config contradict each other")),
        (Some(path), None) => Config::load(path, &args.engine.overrides()),
        (None, preset) => {
            Config::from_preset(preset.map_or("mail", |preset| preset.name), &args.engine.overrides())
        }
    };
    let engine = engine::Engine::ephemeral(Plan::compile(&config)?).map_err(CommandError::new)?;
    let local = LocalEngine::new(engine);
    let pipeline = message_pipeline(&local, args.pipeline.as_deref())?;
    let (messages, is_whole) = messages(args)?;
    let progress = Progress::new("messages", Some(messages.len() as u64));
    let (mut examples, mut waiting) = (Vec::with_capacity(messages.len()), VecDeque::new());
    for FolderMessage { time, class, message } in messages {
        if local.interrupt.raised() {
            return Ok(None);
        }
        progress.add(1);
        let prepare =
            |arrival| local.prepare(&pipeline, message.event(EnvelopeOption::Headers.of(&message)), arrival);
        for decision in pollster::block_on(local.engine().decide(vec![prepare(time)])) {
            examples.push(example(&pipeline, &decision, class == "spam"));
        }
        let id = HEXLOWER.encode(&Sha256::digest(message.stored.message()));
        waiting.push_back((prepare(time), id, class));
        if waiting.len() > args.delay
            && let Some((prepared, id, class)) = waiting.pop_front()
        {
            pollster::block_on(local.engine().learn(prepared, &id, class))?;
        }
    }
    Ok(Some(FitData { pipeline, examples, is_whole }))
}

/// The messages of both folders in the order of their times; false if some could not be read.
fn messages(args: &FitArgs) -> Result<(Vec<FolderMessage>, bool), CommandError> {
    let paths: Vec<PathBuf> = args.ham.iter().chain(&args.spam).cloned().collect();
    let progress = Progress::new("messages read", count_files(&paths));
    let (mut messages, mut is_whole, mut bytes) = (Vec::new(), true, 0u64);
    for (class, paths) in [("ham", &args.ham), ("spam", &args.spam)] {
        let mut before = Time(0);
        for read in InputMessageIter::new(paths.clone()) {
            progress.add(1);
            match read {
                Ok(message) => {
                    bytes += message.stored.bytes.len() as u64;
                    if bytes > BYTES_MAX {
                        return Err(CommandError::new("the folders have more than 4 GiB")
                            .help("give a sample of them: some thousand messages are enough".to_owned()));
                    }
                    before = message.time().unwrap_or(before);
                    messages.push(FolderMessage { time: before, class, message });
                }
                Err(unread) => {
                    is_whole = false;
                    progress.say(format_args!("{}: {}", printable(&unread.name), unread.error));
                }
            }
        }
    }
    messages.sort_by_key(|message| message.time);
    Ok((messages, is_whole))
}

/// A decision as an example.
fn example(pipeline: &Pipeline, decision: &Decision, is_bad: bool) -> FitExample {
    let shares = pipeline.rules.verdict_shares(&decision.verdict);
    FitExample { is_bad, shares: shares.map(|(rule, share)| (rule.get(), share as f32)).collect() }
}

fn show(fit: &ScoreFit, out: &mut Output) -> Result<(), CommandError> {
    let mut table = TextTable::default();
    table.row(["rule", "score", "fitted", "by the earlier", "good", "bad"].map(|head| match head {
        "rule" => TableCell::text(head, DIM),
        head => TableCell::number(head, DIM),
    }));
    for rule in &fit.rules {
        table.row([
            TableCell::text(&rule.name, BOLD),
            TableCell::number(format_args!("{:.2}", rule.score), DIM),
            TableCell::number(format_args!("{:.2}", rule.fitted), BOLD),
            TableCell::number(format_args!("{:.2}", rule.earlier), DIM),
            TableCell::number(HumanCount(rule.good), DIM),
            TableCell::number(HumanCount(rule.bad), DIM),
        ]);
    }
    out.line(format_args!("{table}"))?;
    let Some((before, after)) = fit.before.zip(fit.after) else {
        out.line(format_args!("The later events have one class only: nothing can be measured on them."))?;
        return Ok(());
    };
    out.line(format_args!(
        "On the later {} good and {} bad events, by the fit to those before them:",
        HumanCount(before.good as u64),
        HumanCount(before.bad as u64)
    ))?;
    for (name, quality) in [("as they are", before), ("fitted", after)] {
        out.line(format_args!(
            "  {name:<12} 1 − AUC {:.3} %, recall {:.3} where .1 % of good ones are lost, {:.3} where .5 % are",
            100.0 * quality.one_minus_auc,
            quality.recall_at_01,
            quality.recall_at_05
        ))?;
    }
    if fit.is_worse() {
        help("the fit finds less than the scores that are: keep them, or give more events");
    }
    Ok(())
}

/// Writes the scores that changed as rules of a configuration.
fn write(path: &Path, fit: &ScoreFit) -> Result<(), CommandError> {
    let failed =
        |error: &dyn std::fmt::Display| CommandError::new(format_args!("{}: {error}", path.display()));
    let (good, bad) = (fit.events - fit.bad, fit.bad);
    let rules = plan::with_scores("", fit.changed()).map_err(|error| failed(&error))?;
    let text =
        format!("# Scores that `tollhouse fit` has fitted to {good} good and {bad} bad events.\n{rules}");
    disk::replace(path, text.as_bytes()).map_err(|error| failed(&error))
}
