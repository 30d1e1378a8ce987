//! The statistics of every key in every space: those of all pipelines, merged.

use std::collections::HashMap;
use std::sync::Arc;

use event::{Kind, Space, Span};
use stats::{Admission, BucketSeries, Catalog, CatalogBuilder, Measure, Statistic};

use crate::ONCE;
use crate::config::{Config, ConfigOrigin, ConfigProblems, ConfigView, SourceKind};
use crate::limit::{LIMITS, LimitPlan};
use crate::pipeline::draft::PipelineDraft;
use crate::pipeline::reports::REPORTER;

/// Gives the sketches that presets ask for less where the ledger has little memory: all of theirs together take at most a
/// quarter of it.
pub(super) fn fit_sketches(memory: usize, drafts: &mut [PipelineDraft<'_>]) {
    let of_presets = drafts.iter_mut().flat_map(|draft| &mut draft.statistics);
    let of_presets =
        of_presets.filter(|statistic| statistic.view.origin("admit").source.kind == SourceKind::Preset);
    let mut admits: Vec<&mut Admission> =
        of_presets.filter_map(|statistic| statistic.admit.as_mut()).collect();
    let mut known: Vec<Admission> = Vec::new();
    for admit in &admits {
        if !known.contains(admit) {
            known.push(**admit);
        }
    }
    let total = known.iter().fold(0usize, |total, admit| total.saturating_add(admit.bytes));
    let share = memory / 4;
    if total > share {
        for admit in &mut admits {
            admit.bytes = (admit.bytes as u128 * share as u128 / total as u128) as usize;
        }
    }
}

/// The memory that sketches leave to cells and directory. Kinds of a statistic share its sketch, and so do
/// statistics of equal name.
pub(super) fn beside_sketches(
    memory: usize,
    drafts: &[PipelineDraft<'_>],
    problems: &mut ConfigProblems,
) -> usize {
    let mut sketches: Vec<(&str, Admission, ConfigView<'_>)> = Vec::new();
    for statistic in drafts.iter().flat_map(|draft| &draft.statistics) {
        let (name, Some(admit)) = (statistic.name.as_str(), statistic.admit) else { continue };
        if !sketches.iter().any(|(_, known, _)| *known == admit) {
            sketches.push((name, admit, statistic.view));
        }
    }
    let total = sketches.iter().fold(0usize, |total, (_, admit, _)| total.saturating_add(admit.bytes));
    if total > memory / 2
        && let Some((name, admit, view)) = sketches.iter().max_by_key(|(_, admit, _)| admit.bytes)
    {
        let message = format!(
            "the sketch of `{name}` takes {} bytes, and all sketches more than half of the {memory} of [ledger]",
            admit.bytes
        );
        let help = "expect fewer keys or give less memory here, or raise `memory` of [ledger]".to_owned();
        problems.add(view.origin("admit"), message, Some(help));
    }
    memory.saturating_sub(total)
}

/// The windows and series that the readings of a kind carry.
#[derive(Default)]
struct ReadingParts {
    windows: Vec<Span>,
    series: Vec<BucketSeries>,
}

/// Puts what is known first, and behind it, in order, what else is wanted.
fn merge<T: Ord + Copy>(all: &mut Vec<T>, known: &[T]) {
    all.sort_unstable();
    all.dedup();
    all.retain(|wanted| !known.contains(wanted));
    all.splice(..0, known.iter().copied());
}

/// Merges the pipelines' statistics: where two share a space, a kind number must mean the same to both, and its
/// readings carry the windows of either. Beside a catalog in force nothing in that changes its meaning or its place:
/// events that are at work read by the order of its windows, and what nobody asks for any more is kept all the same.
pub(super) fn catalog(
    config: &Config,
    drafts: &mut [PipelineDraft<'_>],
    limits: &[Arc<LimitPlan>],
    now: Option<&Catalog>,
    problems: &mut ConfigProblems,
) -> Catalog {
    let mut parts: HashMap<(Space, Kind), ReadingParts> = HashMap::new();
    for draft in drafts.iter() {
        let space = draft.pipeline.space;
        for kind in &draft.pipeline.kinds {
            let all = parts.entry((space, kind.kind)).or_default();
            all.windows.extend(&kind.windows);
            all.series.extend(&kind.series);
        }
        for distinct in &draft.pipeline.distincts {
            parts.entry((space, distinct.kind)).or_default().windows.extend(&distinct.windows);
        }
        if let Some(reports) = &draft.pipeline.reports {
            parts.entry((space, REPORTER)).or_default().windows.extend(&reports.reporter.windows);
        }
    }
    for all in parts.values_mut() {
        merge(&mut all.windows, &[]);
        merge(&mut all.series, &[]);
    }
    for (space, kind, statistic) in now.iter().flat_map(|catalog| catalog.iter()) {
        let all = parts.entry((space, kind)).or_default();
        merge(&mut all.windows, statistic.measure.windows());
        merge(&mut all.series, statistic.measure.series());
    }
    let mut builder = CatalogBuilder::default();
    for draft in drafts.iter_mut() {
        let space = draft.pipeline.space;
        let mut add = |kind: Kind, name: &str, kind_name: &str, (measure, admit), origin: &ConfigOrigin| {
            let statistic = Statistic {
                name: name.to_owned(),
                kind_name: kind_name.to_owned(),
                measure,
                admit,
                exact: false,
            };
            if let Some((message, help)) = now.and_then(|now| clash(now, space, kind, &statistic)) {
                return problems.add(origin, message, Some(help));
            }
            if let Err(error) = builder.add(space, kind, statistic) {
                problems.add(
                    origin,
                    error.to_string(),
                    Some("pipelines of one space share their kinds".into()),
                );
            }
        };
        let start = draft.document.top().origin("space");
        add(ONCE, "once", "once", (Measure::once(draft.dedupe), None), start);
        let mut unfit = Vec::new();
        let owners = draft.pipeline.kinds.map(|kind| kind.name.clone());
        for (kind, statistic) in draft.pipeline.kinds.iter_mut().zip(&draft.statistic_of) {
            if let Some(last) = &kind.last {
                // As for distinct values, below.
                let statistic = draft.statistic_of[last.per].map(|index| &draft.statistics[index]);
                let admit = statistic.and_then(|statistic| statistic.admit_of(&owners[last.per]));
                add(kind.kind, &kind.name, &kind.name, (Measure::last(last.keep), admit), start);
                continue;
            }
            let Some(statistic) = statistic.map(|index| &draft.statistics[index]) else { continue };
            let ReadingParts { windows, series } = &parts[&(space, kind.kind)];
            (kind.windows, kind.series) = (windows.clone().into(), series.clone().into());
            let origin = statistic.view.origin("keys");
            match statistic.measure(windows.clone(), series.clone()) {
                Ok(measure) => {
                    let admit = statistic.admit_of(&kind.name);
                    add(kind.kind, &statistic.name, &kind.name, (measure, admit), origin);
                }
                Err(error) => unfit.push((origin, error)),
            }
        }
        for distinct in &mut draft.pipeline.distincts {
            let windows = &parts[&(space, distinct.kind)].windows;
            distinct.windows = windows.clone().into();
            let measure = distinct.measure(windows.clone());
            // Values are counted of keys that are admitted where the keys' own statistic has a sketch in front: whoever
            // can make up owners without end could make up as many counts.
            let statistic = draft.statistic_of[distinct.per].map(|index| &draft.statistics[index]);
            let admit = statistic.and_then(|statistic| statistic.admit_of(&owners[distinct.per]));
            add(distinct.kind, &distinct.name, &distinct.name, (measure, admit), start);
        }
        for plan in &draft.pipeline.classifiers {
            add(plan.kind, &plan.name, &plan.name, (plan.measure(), None), start);
        }
        for label in &draft.pipeline.labels {
            // One that cannot be kept was told of.
            if let Ok(measure) = label.measure() {
                add(label.kind, &label.name, &label.name, (measure, None), start);
            }
        }
        if let Some(reports) = &mut draft.pipeline.reports {
            reports.reporter.windows = parts[&(space, REPORTER)].windows.clone().into();
            // Each window was looked at when it was asked for, and there are few.
            for (kind, name, measure) in reports.measures().into_iter().flatten() {
                add(kind, "reports", name, (measure, None), start);
            }
        }
        // Each window was looked at when it was asked for: together they can be too many.
        for (origin, error) in unfit {
            let help =
                "a node that runs keeps windows that no rule asks for any more: restart it, or ask for fewer";
            problems.add(origin, error.to_string(), Some(help.to_owned()));
        }
    }
    add_limits(&mut builder, config, limits, now, problems);
    for (space, kind, statistic) in now.iter().flat_map(|catalog| catalog.iter()) {
        builder.keep(space, kind, statistic);
    }
    builder.build()
}

/// Adds what limits count.
fn add_limits(
    builder: &mut CatalogBuilder,
    config: &Config,
    limits: &[Arc<LimitPlan>],
    now: Option<&Catalog>,
    problems: &mut ConfigProblems,
) {
    let mut add = |kind: Kind, name: &str, kind_name: &str, (measure, exact), origin: &ConfigOrigin| {
        let statistic =
            Statistic { name: name.to_owned(), kind_name: kind_name.to_owned(), measure, admit: None, exact };
        if let Some((message, help)) = now.and_then(|now| clash(now, LIMITS, kind, &statistic)) {
            return problems.add(origin, message, Some(help));
        }
        if let Err(error) = builder.add(LIMITS, kind, statistic) {
            problems.add(origin, error.to_string(), None);
        }
    };
    let views = config.main().list("limit");
    for limit in limits {
        let view = views.iter().find(|view| view.str("name") == Some(&*limit.name));
        let origin = view.map_or_else(|| config.main().top().origin(""), |view| view.origin("name"));
        // What cannot be kept was told of.
        for (kind, name, measure) in limit.measures().into_iter().flatten() {
            // Refusals and bans are counted like other statistics.
            add(kind, name, &limit.name, (measure, limit.exact && kind == limit.kind), origin);
        }
    }
    // Constants, which fit.
    for (kind, name, measure, exact) in LimitPlan::shared_measures().into_iter().flatten() {
        add(kind, "limits", &name, (measure, exact), config.main().top().origin(""));
    }
}

/// The reason why a statistic cannot be added while a node runs by this catalog, and the mend.
fn clash(now: &Catalog, space: Space, kind: Kind, new: &Statistic) -> Option<(String, String)> {
    let restart = "restart the node to change it: what is stored is then translated";
    match now.get(space, kind) {
        Some(known)
            if (&known.name, &known.kind_name, known.admit) != (&new.name, &new.kind_name, new.admit)
                || !known.measure.keeps_what(&new.measure) =>
        {
            let (kind, name) = (&known.kind_name, &known.name);
            let message = format!("what is kept of `{kind}` by `{name}` cannot change while it is counted");
            Some((message, restart.to_owned()))
        }
        None if new.admit.is_some_and(|admit| now.iter().all(|(_, _, known)| known.admit != Some(admit))) => {
            let message =
                format!("the sketch of `{}` takes memory, which is given out when a node starts", new.name);
            Some((message, "restart the node, or leave `admit` out".to_owned()))
        }
        _ => None,
    }
}
