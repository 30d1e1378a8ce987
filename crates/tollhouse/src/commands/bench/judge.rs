//! `tollhouse bench judge`: what rules and models cost on rows that are there already.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use catboost::{Model, ModelScratch};
use engine::Engine;
use event::{Event, Facts, Slot, Time, Type, Value};
use judge::{BoundModel, Evaluation, Mode};
use plan::{Pipeline, PipelineInput, Plan, preset};
use serde::Serialize;
use serde_json::json;

use crate::clock;
use crate::commands::config::checked;
use crate::console::{DIM, Output, Progress, say};
use crate::corpora;
use crate::exit::{CommandError, Exit};
use crate::input::messages::InputMessageIter;
use crate::interrupt::Interrupt;
use crate::message_reader::timed;
use crate::options::{ConfigOptions, JsonOption};

/// Measure rules and models alone, on rows of the bundled samples
///
/// Each row has the facts and readings that its event had when it was decided.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse bench judge                       The presets
  tollhouse bench judge --json new.toml       A file's rules and models
  taskset -c 0 tollhouse bench judge --preset mail

A pipeline without a model gets a made-up one: 200 symmetric trees of depth 6 over the numeric facts
and readings that its rules read.")]
pub(super) struct JudgeBenchArgs {
    #[command(flatten)]
    config: ConfigOptions,
    /// Time per pipeline
    #[arg(long, default_value_t = 3, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    #[command(flatten)]
    json: JsonOption,
}

/// A result. `docs/reference/cli.md` documents the fields.
#[derive(Debug, Serialize)]
struct JudgeMeasurement {
    bench: &'static str,
    pipeline: String,
    rows: usize,
    seconds: f64,
    rules: usize,
    fired_per_row: f64,
    us_per_row: f64,
    ns_per_rule: f64,
    us_per_row_explained: f64,
    models: String,
    model_trees: usize,
    model_ns_per_row: f64,
    model_ns_per_row_batch: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    model_us_per_row_explained: Option<f64>,
}

pub(super) fn run(args: &JudgeBenchArgs) -> Result<Exit, CommandError> {
    let mut out = Output::new(args.json.json);
    let configs = if args.config.is_named() {
        vec![args.config.load()?.1]
    } else {
        let overrides = args.config.engine().overrides();
        preset::ALL.iter().map(|preset| plan::Config::from_preset(preset.name, &overrides)).collect()
    };
    let interrupt = Interrupt::watch(None);
    for config in configs {
        let compiled = Plan::compile_untested(&config).map(|(plan, _)| plan);
        let Ok(plan) = checked(compiled, false, &mut out, false)? else { return Ok(Exit::Found) };
        let engine = Engine::ephemeral(plan).map_err(CommandError::new)?;
        let plan = engine.plan();
        for pipeline in &plan.pipelines {
            let progress = Progress::new("rows", None);
            let rows = rows(&engine, pipeline, &progress)?;
            if rows.is_empty() {
                say(format_args!("{}: there are no samples of {}", pipeline.name, pipeline.input.name()));
                continue;
            }
            let measured =
                measure(pipeline, &rows, Duration::from_secs(args.seconds), &progress, &interrupt)?;
            drop(progress);
            if interrupt.raised() {
                return Ok(Exit::Interrupted);
            }
            show(&mut out, &measured)?;
        }
    }
    out.flush()?;
    Ok(Exit::Fine)
}

fn show(out: &mut Output, measured: &JudgeMeasurement) -> Result<(), CommandError> {
    if out.is_json() {
        return out.json(measured);
    }
    let fields = serde_json::to_value(measured).map_err(CommandError::new)?;
    for (name, value) in fields.as_object().into_iter().flatten() {
        let value = match value {
            serde_json::Value::String(text) => text.clone(),
            value if value.is_f64() => format!("{:.2}", value.as_f64().unwrap_or_default()),
            value => value.to_string(),
        };
        out.line(format_args!("{DIM}{name:<26}{DIM:#} {value}"))?;
    }
    out.line("")
}

/// The rows of the bundled samples as rules see them: each event is looked up, then decided, one after the other.
fn rows(engine: &Engine, pipeline: &Arc<Pipeline>, progress: &Progress) -> Result<Vec<Facts>, CommandError> {
    let mut rows = Vec::new();
    let mut take = |event: &dyn Fn() -> Event, arrival: Time| {
        progress.add(1);
        let before = pollster::block_on(engine.peek(engine.prepare(pipeline, event(), arrival)))?;
        pollster::block_on(engine.decide(vec![engine.prepare(pipeline, event(), arrival)]));
        let mut row = pipeline.schema.empty_row();
        for (name, value) in before.facts {
            if let Some(slot) = pipeline.schema.slot(&name) {
                row.set(slot, value);
            }
        }
        rows.push(row);
        Ok::<_, CommandError>(())
    };
    match pipeline.input {
        PipelineInput::Message => {
            for (message, time) in
                timed(InputMessageIter::of_mbox("mail.mbox", corpora::MAIL), true).flatten()
            {
                take(&|| message.event(message.envelope()), time.unwrap_or_else(clock::now))?;
            }
        }
        PipelineInput::AccessLog => {
            for line in corpora::WEB.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                let Ok(event) = content::web::access_log::event(line) else { continue };
                take(&|| event.clone(), event.time.unwrap_or_else(clock::now))?;
            }
        }
        PipelineInput::Log | PipelineInput::Json => {}
    }
    Ok(rows)
}

fn measure(
    pipeline: &Pipeline,
    rows: &[Facts],
    time: Duration,
    progress: &Progress,
    interrupt: &Interrupt,
) -> Result<JudgeMeasurement, CommandError> {
    /// Rows that are scored together, as the server does.
    const BATCH: usize = 256;
    /// Rows that are explained: that is far dearer.
    const EXPLAINED: usize = 200;
    let started = Instant::now();
    // Five things are measured, each for a fifth of the time.
    let per_row = |rows: usize, pass: &mut dyn FnMut()| {
        let mut passes = Vec::new();
        let begun = Instant::now();
        while passes.is_empty() || begun.elapsed() < time / 5 && !interrupt.raised() {
            let pass_begun = Instant::now();
            pass();
            passes.push(pass_begun.elapsed());
            progress.add(rows as u64);
        }
        passes.sort_unstable();
        // The middle one: passes that the machine interrupted are no measure.
        let middle = passes.get(passes.len() / 2).copied().unwrap_or_default();
        middle.as_secs_f64() * 1e9 / rows.max(1) as f64
    };
    let rules = pipeline.rules.rules().iter().filter(|rule| rule.mode != Mode::Off).count();
    let (mut outcome, mut fired) = (Evaluation::default(), 0);
    let judged = per_row(rows.len(), &mut || {
        fired = 0;
        for row in rows {
            pipeline.rules.evaluate(black_box(row), &mut outcome);
            fired += black_box(&outcome).fired().len() + outcome.shadow().len();
        }
    });
    let explained = per_row(rows.len(), &mut || {
        for row in rows {
            let mut verdict = judge::judge(&pipeline.rules, black_box(row));
            pipeline.rules.explain(&mut verdict, row);
            black_box(verdict);
        }
    });

    let made = made_up(pipeline, rows)?;
    let configured = pipeline.models.iter().filter(|model| model.mode != Mode::Off);
    let (names, mut models): (Vec<&str>, Vec<&BoundModel>) =
        configured.map(|model| (model.name.as_str(), model.bound())).unzip();
    let mut names = names.join(", ");
    if models.is_empty() {
        names = format!("made up, over {} facts", made.model().features().len());
        models.push(&made);
    }
    let mut scratch = ModelScratch::default();
    let alone = per_row(rows.len(), &mut || {
        for row in rows {
            for model in &models {
                black_box(model.raw(black_box(row), &mut scratch));
            }
        }
    });
    let row_refs: Vec<&Facts> = rows.iter().collect();
    let dimension = models.iter().map(|model| model.model().dimension()).max().unwrap_or(1);
    let mut said = vec![0.0; BATCH * dimension];
    let batched = per_row(rows.len(), &mut || {
        for rows in row_refs.chunks(BATCH) {
            for model in &models {
                let said = &mut said[..rows.len() * model.model().dimension()];
                // There is room for each of them, so the shape is right.
                let _ = model.raw_batch(black_box(rows), &mut scratch, said);
                black_box(said);
            }
        }
    });
    let few = &rows[..rows.len().min(EXPLAINED)];
    // A file without the weights of its leaves has no contributions.
    let mut has_weights = true;
    let contributions = per_row(few.len(), &mut || {
        for row in few {
            for model in &models {
                has_weights &= black_box(model.contributions(black_box(row), &mut scratch)).is_ok();
            }
        }
    });
    Ok(JudgeMeasurement {
        bench: "judge",
        pipeline: pipeline.name.clone(),
        rows: rows.len(),
        seconds: started.elapsed().as_secs_f64(),
        rules,
        fired_per_row: fired as f64 / rows.len() as f64,
        us_per_row: judged / 1e3,
        ns_per_rule: judged / rules.max(1) as f64,
        us_per_row_explained: explained / 1e3,
        models: names,
        model_trees: models.iter().map(|model| model.model().tree_count()).sum(),
        model_ns_per_row: alone,
        model_ns_per_row_batch: batched,
        model_us_per_row_explained: has_weights.then_some(contributions / 1e3),
    })
}

/// A model of a usual size over the numeric facts and readings that rules read, for where none is configured: 200 trees
/// of depth 6, whose splits and leaves are drawn from a fixed sequence and whose borders are values that rows have.
fn made_up(pipeline: &Pipeline, rows: &[Facts]) -> Result<BoundModel, CommandError> {
    const BORDERS: usize = 32;
    let mut features = Vec::new();
    let reads = pipeline.rules.rules().iter().flat_map(|rule| rule.reads());
    let mut slots: Vec<Slot> = reads.map(|read| read.slot).collect();
    slots.sort_unstable_by_key(|slot| slot.0);
    slots.dedup();
    for slot in slots {
        let column = pipeline.schema.column(slot);
        if !matches!(column.kind, Type::Integer | Type::Float | Type::Bool) {
            continue;
        }
        let mut values: Vec<f32> = rows
            .iter()
            .filter_map(|row| match row.get(slot)? {
                Value::Integer(integer) => Some(*integer as f32),
                Value::Float(float) => Some(*float as f32),
                Value::Bool(truth) => Some(f32::from(u8::from(*truth))),
                _ => None,
            })
            .collect();
        values.sort_by(f32::total_cmp);
        let step = values.len().div_ceil(BORDERS).max(1);
        let mut borders: Vec<f32> = values.into_iter().step_by(step).map(|value| value + 0.5).collect();
        borders.dedup();
        if borders.is_empty() {
            borders.push(0.5);
        }
        features.push((column.name.clone(), borders));
    }
    let model = Model::from_bytes(&made_up_file(features)?).map_err(CommandError::new)?;
    let fact = |name: &str| {
        let slot = pipeline.schema.slot(name).ok_or(None)?;
        Ok((slot, pipeline.schema.column(slot).kind))
    };
    BoundModel::new(model, fact, Vec::new).map_err(|errors| {
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        CommandError::new(errors.join("; "))
    })
}

/// CatBoost's JSON of such a model over features of these names and borders.
pub(super) fn made_up_file(named: Vec<(String, Vec<f32>)>) -> Result<Vec<u8>, CommandError> {
    const TREES: usize = 200;
    const DEPTH: usize = 6;
    let splits: usize = named.iter().map(|(_, borders)| borders.len()).sum();
    let features: Vec<serde_json::Value> = named
        .into_iter()
        .enumerate()
        .map(|(index, (name, borders))| {
            json!({
                "feature_index": index,
                "flat_feature_index": index,
                "feature_id": name,
                "has_nans": true,
                "nan_value_treatment": "AsFalse",
                "borders": borders,
            })
        })
        .collect();
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut drawn = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let trees: Vec<serde_json::Value> = (0..TREES)
        .map(|_| {
            let drawn_splits: Vec<_> =
                (0..DEPTH).map(|_| json!({ "split_index": drawn() % splits.max(1) as u64 })).collect();
            let leaves: Vec<f64> = (0..1 << DEPTH).map(|_| (drawn() % 2001) as f64 / 1e5 - 0.01).collect();
            json!({ "splits": drawn_splits, "leaf_values": leaves, "leaf_weights": vec![10.0; 1 << DEPTH] })
        })
        .collect();
    let model = json!({
        "features_info": { "float_features": features },
        "oblivious_trees": trees,
        "scale_and_bias": [1.0, [0.0]],
    });
    serde_json::to_vec(&model).map_err(CommandError::new)
}
