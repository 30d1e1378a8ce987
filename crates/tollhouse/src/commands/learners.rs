//! `tollhouse learners`: lines and what came of their promises, classifiers and what they were taught, models.

use server::api::{ClassifierJson, LearnersJson, ModelJson};

use crate::clock;
use crate::console::{BOLD, DIM, Output, YELLOW, printable};
use crate::exit::{CommandError, Exit};
use crate::options::{Backend, EngineOptions, JsonOption, ServerOptions};
use crate::rendering;

/// Show the bands' promises and outcomes, and what classifiers and models know
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse learners --data ./data
  tollhouse learners --server http://127.0.0.1:8377 --pipeline mail --json

`promised` is the most good events that may reach a band, `reached` the share of the latest good
ones that did, `caught` that of the latest bad ones.
`tollhouse decisions --summary --line ACTION=SCORE` shows what moving a band would change.
Exit code 1: a promise no longer holds.")]
pub(crate) struct LearnersArgs {
    /// Pipeline [default: the first]
    #[arg(long, value_name = "NAME")]
    pipeline: Option<String>,
    #[command(flatten)]
    engine: EngineOptions,
    #[command(flatten)]
    server: ServerOptions,
    #[command(flatten)]
    json: JsonOption,
}

pub(crate) fn run(args: LearnersArgs) -> Result<Exit, CommandError> {
    let mut out = Output::new(args.json.json);
    let name = args.pipeline.as_deref();
    let known = match Backend::open(&args.engine, &args.server)? {
        Backend::Remote(client) => client.learners(name)?,
        Backend::Local(local) => {
            let pipeline = local.pipeline(name, |_| true)?;
            let states = local.engine().classifier_states(&pipeline, clock::now());
            let known = LearnersJson::new(&pipeline, local.engine(), &pollster::block_on(states)?);
            local.close()?;
            known
        }
    };
    if out.is_json() {
        out.json(&known)?;
    } else {
        show(&mut out, &known)?;
    }
    out.flush()?;
    Ok(if known.drift.is_empty() { Exit::Fine } else { Exit::Found })
}

fn show(out: &mut Output, known: &LearnersJson) -> Result<(), CommandError> {
    out.line(format_args!("{BOLD}{}{BOLD:#}", printable(&known.pipeline)))?;
    for warning in &known.drift {
        out.line(format_args!("{YELLOW}{}{YELLOW:#}", printable(warning)))?;
    }
    if !known.bands.is_empty() {
        out.line(format_args!("\n{}", rendering::bands(&known.bands)))?;
    }
    let curve = &known.calibration;
    let drawn = if curve.drawn { "drawn" } else { "assumed" };
    let brier = curve.brier.map_or(String::new(), |brier| format!(", mean squared error {brier:.3}"));
    out.line(format_args!(
        "\nprobabilities: {drawn}, {} judged good and {} bad{brier}",
        curve.good, curve.bad
    ))?;
    for classifier in &known.classifiers {
        show_classifier(out, classifier)?;
    }
    known.models.iter().try_for_each(|model| show_model(out, model))
}

fn show_classifier(out: &mut Output, classifier: &ClassifierJson) -> Result<(), CommandError> {
    let learned = match (&classifier.learned, &classifier.per) {
        (Some(learned), _) => format!("learned {} good and {} bad", learned.good, learned.bad),
        (None, Some(per)) => format!("one for each `{}`", printable(per)),
        (None, None) => "learned nothing".to_owned(),
    };
    out.line(format_args!("\nclassifier {BOLD}{}{BOLD:#}: {learned}", printable(&classifier.name)))?;
    out.line(format_args!("  {DIM}of {}{DIM:#}", printable(&classifier.of.join(", "))))?;
    for linear in &classifier.linear {
        let learned = linear.learned;
        out.line(format_args!(
            "  {} ({}): learned {} good and {} bad",
            printable(&linear.fact),
            linear.view,
            learned.good,
            learned.bad
        ))?;
    }
    Ok(())
}

fn show_model(out: &mut Output, model: &ModelJson) -> Result<(), CommandError> {
    out.line(format_args!(
        "\nmodel {BOLD}{}{BOLD:#} ({}): {} trees look at {} features, {} were dropped",
        printable(&model.name),
        model.mode,
        model.trees,
        model.used.len(),
        model.unused.len()
    ))?;
    out.line(format_args!("  {DIM}{}{DIM:#}", printable(&model.used.join(", "))))
}
