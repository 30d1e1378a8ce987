//! Compilation of `[[reputation]]`: its parts, relations and bounds.

use event::{Column, SchemaBuilder, Span, TableIndex, Type};
use judge::ReputationValue;

use super::draft::PipelineDraft;
use super::reports::{REPORTER_COUNTERS, REPORTER_NAME, ReportsPlan};
use super::reputation::{
    EvidenceSource, GradeThresholds, HALF_LIVES, PartMeasure, PartWindows, ReputationDraft,
    ReputationFormula, ReputationPart, ReputationPlan, SCORE_MAX,
};
use super::scope::{PlanScope, scope_error};
use super::statistic::DraftMeasure;
use super::{EffectPlan, KindPlan, Pipeline, ReadingSource};
use crate::config::{ConfigOrigin, ConfigProblems, ConfigView, expected};
use crate::entries;

/// Most parts of a reputation, and most others that it includes.
const PARTS_MAX: usize = 32;
/// Most reputations of a pipeline.
const REPUTATIONS_MAX: usize = 64;
/// The greatest weight.
const WEIGHT_MAX: f64 = 1e6;
/// The share of a score that is inherited unless another is given.
const DISCOUNT: f64 = 0.5;

impl<'a> PipelineDraft<'a> {
    /// Reputations, with the columns of their values.
    pub(crate) fn reputations(&mut self, builder: &mut SchemaBuilder, problems: &mut ConfigProblems) {
        let mut views = entries(self.document, "reputation", problems);
        if let Some(surplus) = views.get(REPUTATIONS_MAX) {
            let help = format!("at most {REPUTATIONS_MAX} are possible");
            problems.add(surplus.origin(""), format!("there are {} [[reputation]]", views.len()), Some(help));
            views.truncate(REPUTATIONS_MAX);
        }
        for view in views {
            let Some(name) = view.str("name") else { continue };
            let standing = self.pipeline.reports.as_ref().and_then(ReportsPlan::configured_standing);
            let formulas = self.pipeline.reputations.iter().map(|plan| &plan.formula);
            if formulas.chain(standing).any(|other| other.name == name) {
                problems.add(view.origin("name"), format!("reputation `{name}` is defined twice"), None);
            } else if self.pipeline.reports.is_some() && view.str("of") == Some(REPORTER_NAME) {
                self.standing(name, &view, problems);
            } else {
                self.reputation(name, view, builder, problems);
            }
        }
        self.relations(problems);
    }

    fn reputation(
        &mut self,
        name: &str,
        view: ConfigView<'a>,
        builder: &mut SchemaBuilder,
        problems: &mut ConfigProblems,
    ) {
        let of = view.str("of").and_then(|of| self.kind(of, view.origin("of"), problems));
        let Some(of) = of else { return };
        let (mut parts, mut sources) = (Vec::new(), Vec::new());
        for table in part_tables(name, &view, problems) {
            let Some(part) = self.part(of, &view, table, builder, problems) else { continue };
            parts.push(part);
            let source = match table.str("source") {
                Some("outcome") => Some(EvidenceSource::Outcome),
                Some("verdict") => Some(EvidenceSource::Verdict),
                _ => None,
            };
            sources.push((source, table.origin("source")));
        }
        let formula = ReputationFormula::compile(name, parts, &view, problems);
        let mut column = |value: ReputationValue, kind: Type, doc: &str| {
            let doc = format!(
                "{doc} of the reputation `{name}`, from before the event; of the event's keys the worst"
            );
            let column =
                Column { name: format!("{}('{name}')", value.function()), kind, doc, journalled: true };
            let added = builder.add(column);
            added.map_err(|error| problems.add(view.origin("name"), error.to_string(), None)).ok()
        };
        let score = column(ReputationValue::Score, Type::Float, "Score");
        let grade = column(ReputationValue::Grade, Type::String, "Grade");
        let evidence = column(ReputationValue::Evidence, Type::Float, "Weight of the evidence");
        let (Some(score), Some(grade), Some(evidence)) = (score, grade, evidence) else { return };
        let reputation = self.pipeline.reputations.push(ReputationPlan {
            formula,
            of,
            inherits: None,
            includes: Vec::new(),
            score,
            grade,
            evidence,
        });
        let values = [
            (score, ReputationValue::Score),
            (grade, ReputationValue::Grade),
            (evidence, ReputationValue::Evidence),
        ];
        let readings = values.map(|(slot, value)| (slot, ReadingSource::Reputation { reputation, value }));
        self.readings.extend(readings);
        self.reputations.push(ReputationDraft { view, sources });
    }

    /// A part of a reputation of the kind `of`.
    fn part(
        &mut self,
        of: TableIndex<KindPlan>,
        view: &ConfigView<'a>,
        part: ConfigView<'a>,
        builder: &mut SchemaBuilder,
        problems: &mut ConfigProblems,
    ) -> Option<ReputationPart> {
        let given: Vec<&str> =
            ["counter", "distinct", "decayed"].into_iter().filter(|key| part.is_given(key)).collect();
        let [what] = given[..] else {
            let message = match given[..] {
                [] => "the part has nothing that it counts".to_owned(),
                _ => format!("the part has `{}`", given.join("` and `")),
            };
            let help = "name one `counter`, one `distinct` or one `decayed`".to_owned();
            problems.add(part.origin(""), message, Some(help));
            return None;
        };
        let weight = weight_of(&part, problems)?;
        let name = part.str(what)?;
        let source = EvidenceSource::Outcome;
        if what == "distinct" {
            let distincts = &self.pipeline.distincts;
            let Some(distinct) = distincts.position(|plan| plan.name == name) else {
                let help = expected(name, distincts.iter().map(|plan| plan.name.as_str()));
                problems.add(part.origin(what), format!("nothing distinct is called `{name}`"), Some(help));
                return None;
            };
            let per = self.pipeline.distincts[distinct].per;
            if part.is_given("kind") {
                let help = "leave it out: a distinct count says per which kind it is".to_owned();
                problems.add(part.origin("kind"), "`kind` does nothing beside `distinct`", Some(help));
            }
            if self.pipeline.distincts[distinct].members.is_none() {
                let help = "name it in a class of [feedback], which then counts its values".to_owned();
                let message = format!("every event adds to `{name}`: that is no evidence");
                problems.add(part.origin(what), message, Some(help));
                return None;
            }
            self.same_keys(of, per, part.origin(what), problems)?;
            let tier = self.pipeline.distincts[distinct].tier;
            let fits = |plan: &PipelineDraft<'_>, window| {
                let measure = plan.pipeline.distincts[distinct].measure(vec![window]);
                measure.check().map_err(|error| error.to_string())
            };
            let spans = self.half_lives(view, tier.span(), part.origin(what), fits, problems)?;
            let windows = PartWindows::among(&mut self.pipeline.distincts[distinct].windows, spans);
            let measure = PartMeasure::Distinct { distinct, windows };
            return Some(ReputationPart { name: format!("distinct('{name}')"), measure, weight, source });
        }
        let kind = match part.str("kind") {
            Some(kind) => self.kind(kind, part.origin("kind"), problems)?,
            None => of,
        };
        self.same_keys(of, kind, part.origin("kind"), problems)?;
        let kind_name = self.pipeline.kinds[kind].name.clone();
        let scope = PlanScope { draft: self, builder };
        let told = |error| problems.add(part.origin(what), scope_error(error), None);
        if what == "decayed" {
            let half_life = part.span("decayed")?;
            let column = scope.decayed_sum(&kind_name, half_life).map_err(told).ok()?;
            let measure = PartMeasure::Decayed { kind, column };
            let name = format!("{kind_name}.decayed('{half_life}')");
            return Some(ReputationPart { name, measure, weight, source });
        }
        let counter = scope.counter_place(&kind_name, name).map_err(told).ok()?;
        let statistic = self.statistic_of[kind].map(|index| &self.statistics[index]);
        let longest = match statistic.map(|statistic| &statistic.kept) {
            Some(DraftMeasure::Windows { tiers, .. }) => tiers.iter().map(|tier| tier.span()).max(),
            _ => None,
        };
        let fits = |plan: &PipelineDraft<'_>, window| {
            let statistic = plan.statistic_of[kind].map(|index| &plan.statistics[index]);
            let measure = statistic.map(|statistic| statistic.measure(vec![window], Vec::new()));
            measure.map_or(Ok(()), |measure| measure.map(|_| ()).map_err(|error| error.to_string()))
        };
        let spans = self.half_lives(view, longest?, part.origin(what), fits, problems)?;
        let windows = PartWindows::among(&mut self.pipeline.kinds[kind].windows, spans);
        let measure = PartMeasure::Counter { kind, counter, windows };
        Some(ReputationPart { name: format!("{kind_name}.{name}"), measure, weight, source })
    }

    /// The reputation of reporters.
    fn standing(&mut self, name: &str, view: &ConfigView<'a>, problems: &mut ConfigProblems) {
        for key in ["inherits", "includes", "verdict_weight_max"].into_iter().filter(|key| view.is_given(key))
        {
            let help =
                "leave it out: the standing of reporters is made of what they reported alone".to_owned();
            problems.add(view.origin(key), format!("`{key}` does nothing for reporters"), Some(help));
        }
        let standing = self.pipeline.reports.as_ref().and_then(ReportsPlan::configured_standing);
        if let Some(first) = standing {
            let message = format!("reporters have the reputation `{}` already", first.name);
            problems.add(view.origin("of"), message, Some("let there be one".to_owned()));
        }
        let mut parts = Vec::new();
        for part in part_tables(name, view, problems) {
            let others = ["distinct", "decayed", "kind", "source"];
            if let Some(key) = others.into_iter().find(|key| part.is_given(key)) {
                let help = format!("parts of it are `counter` and `weight`; {}", counters_of_reporters());
                problems.add(part.origin(key), format!("`{key}` does nothing for reporters"), Some(help));
            }
            let Some(counter_name) = part.str("counter") else {
                let help = format!("name one `counter`; {}", counters_of_reporters());
                problems.add(part.origin(""), "the part has nothing that it counts", Some(help));
                continue;
            };
            let Some(weight) = weight_of(&part, problems) else { continue };
            let reports = self.pipeline.reports.as_ref();
            let counter =
                reports.and_then(|reports| reports.reporter.counters.position(|known| known == counter_name));
            let Some(counter) = counter else {
                let message = format!("reporters have no counter `{counter_name}`");
                problems.add(part.origin("counter"), message, Some(counters_of_reporters()));
                continue;
            };
            let fits = |_: &PipelineDraft<'_>, window| ReportsPlan::is_readable(window);
            let Some(spans) =
                self.half_lives(view, ReportsPlan::KEEP, part.origin("counter"), fits, problems)
            else {
                continue;
            };
            parts.push((counter, spans, weight));
        }
        let Some(reports) = &mut self.pipeline.reports else { return };
        let parts = parts.into_iter().map(|(counter, spans, weight)| reports.part(counter, spans, weight));
        let parts = parts.collect();
        reports.set_standing(ReputationFormula::compile(name, parts, view, problems));
    }

    /// Refuses a part whose keys are not those of the reputation, in every event.
    fn same_keys(
        &self,
        of: TableIndex<KindPlan>,
        kind: TableIndex<KindPlan>,
        origin: &ConfigOrigin,
        problems: &mut ConfigProblems,
    ) -> Option<()> {
        let kinds = &self.pipeline.kinds;
        let (owner, part) = (&kinds[of], &kinds[kind]);
        if owner.fields != part.fields {
            let message = format!("`{}` has other keys than `{}`", part.name, owner.name);
            let help =
                "parts are of the same fields, normalised alike; for others use `inherits` or `includes`";
            problems.add(origin, message, Some(help.to_owned()));
            return None;
        }
        if of != kind && part.when.is_some() {
            let message = format!("`{}` has keys in some events only", part.name);
            let help = "its statistics would be missing in the others: take its `when` out, and count with the effect of a rule";
            problems.add(origin, message, Some(help.to_owned()));
            return None;
        }
        Some(())
    }

    /// The windows of one half-life, of two, and so on, as far as something is kept.
    fn half_lives(
        &self,
        view: &ConfigView<'_>,
        longest: Span,
        origin: &ConfigOrigin,
        fits: impl Fn(&PipelineDraft<'_>, Span) -> Result<(), String>,
        problems: &mut ConfigProblems,
    ) -> Option<Vec<Span>> {
        let Some(half_life) = view.span("half_life") else {
            // One that failed its check has been told of.
            if !view.is_given("half_life") {
                let help = "add `half_life = \"3d\"` to the reputation".to_owned();
                problems.add(origin, "the part has no half-life", Some(help));
            }
            return None;
        };
        if half_life > longest {
            let message = format!("`half_life` is {half_life}, and {longest} are kept");
            let help = "take a shorter one, or let the statistic keep more".to_owned();
            problems.add(view.origin("half_life"), message, Some(help));
            return None;
        }
        let mut spans = Vec::with_capacity(HALF_LIVES);
        for times in 1..=HALF_LIVES as i64 {
            let window = half_life.times(times);
            if window > longest {
                break;
            }
            if let Err(why) = fits(self, window) {
                let message = format!("`half_life` is {half_life}, and a window of {window} is read: {why}");
                problems.add(view.origin("half_life"), message, None);
                return None;
            }
            spans.push(window);
        }
        Some(spans)
    }

    /// Resolves the reputations that others inherit from or include.
    fn relations(&mut self, problems: &mut ConfigProblems) {
        let names: Vec<String> =
            self.pipeline.reputations.iter().map(|plan| plan.formula.name.clone()).collect();
        let find = |reputations: &event::Table<ReputationPlan>,
                    view: &ConfigView<'_>,
                    key: &str,
                    problems: &mut ConfigProblems| {
            let name = view.str(key)?;
            let found = reputations.position(|plan| plan.formula.name == name);
            if found.is_none() {
                let help = expected(name, names.iter().map(String::as_str));
                problems.add(view.origin(key), format!("there is no reputation `{name}`"), Some(help));
            }
            found
        };
        for at in self.pipeline.reputations.indices() {
            let view = self.reputations[at.get()].view;
            if let Some(inherits) = view.table("inherits") {
                let discount = inherits.float("discount").unwrap_or(DISCOUNT);
                let discount = bounded(&inherits, "discount", discount, 0.0, 1.0, problems);
                let from = find(&self.pipeline.reputations, &inherits, "from", problems);
                self.pipeline.reputations[at].inherits = from.map(|from| (from, discount));
            }
            let includes = view.tables("includes");
            if includes.len() > PARTS_MAX {
                let help = format!("at most {PARTS_MAX} are possible");
                let message = format!("`{}` includes {}", names[at.get()], includes.len());
                problems.add(view.origin("includes"), message, Some(help));
            }
            for included in includes.into_iter().take(PARTS_MAX) {
                let Some(weight) = included.float("weight") else { continue };
                let weight = bounded(&included, "weight", weight, f64::MIN_POSITIVE, WEIGHT_MAX, problems);
                let of = find(&self.pipeline.reputations, &included, "reputation", problems);
                self.pipeline.reputations[at].includes.extend(of.map(|of| (of, weight)));
            }
        }
        self.order(problems);
        self.check_verdict_bounds(problems);
    }

    /// Refuses reputations that depend on themselves, and leaves an order in which each comes after those that it needs.
    fn order(&mut self, problems: &mut ConfigProblems) {
        let reputations = &self.pipeline.reputations;
        let mut order: Vec<TableIndex<ReputationPlan>> = Vec::with_capacity(reputations.len());
        let needs = |plan: &ReputationPlan| -> Vec<TableIndex<ReputationPlan>> {
            plan.inherits.iter().chain(&plan.includes).map(|(of, _)| *of).collect()
        };
        while let Some(next) = reputations.entries().find(|(index, plan)| {
            !order.contains(index) && needs(plan).iter().all(|needed| order.contains(needed))
        }) {
            order.push(next.0);
        }
        for (index, plan) in reputations.entries().filter(|(index, _)| !order.contains(index)) {
            let message = format!("reputation `{}` depends on itself", plan.formula.name);
            let help = "let `inherits` and `includes` lead one way".to_owned();
            problems.add(self.reputations[index.get()].view.origin("name"), message, Some(help));
        }
        self.pipeline.reputation_order = order;
    }

    /// Refuses bounds by which verdicts alone, or with what others have earned, could make a grade bad or trusted.
    fn check_verdict_bounds(&self, problems: &mut ConfigProblems) {
        let reputations = &self.pipeline.reputations;
        for (index, plan) in reputations.entries() {
            let inherited = plan.inherits.map(|(from, discount)| {
                let from = &reputations[from].formula;
                (-from.floor * discount, from.ceiling * discount)
            });
            let (below, above) = inherited.unwrap_or((0.0, 0.0));
            let formula = &plan.formula;
            let reaches = |threshold: f64, inherited: f64| inherited + formula.verdict_max >= threshold;
            if reaches(-formula.grades.bad, below) || reaches(formula.grades.trusted, above) {
                let message =
                    format!("verdicts alone could make the reputation `{}` bad or trusted", formula.name);
                let help = "let `verdict_weight_max`, and what can be inherited, together stay below the grades `bad` and \
                            `trusted`: give less, or a smaller `discount`";
                let origin = self.reputations[index.get()].view.origin("verdict_weight_max");
                problems.add(origin, message, Some(help.to_owned()));
            }
        }
    }

    /// Decides whose evidence each part is, once it is known what verdicts and rules add to.
    pub(crate) fn evidence_sources(&mut self, problems: &mut ConfigProblems) {
        let Pipeline { kinds, effects, reputations, .. } = &mut self.pipeline;
        let effects: Vec<EffectPlan> = effects.iter().flatten().copied().collect();
        for (plan, draft) in reputations.iter_mut().zip(&self.reputations) {
            for (part, (given, origin)) in plan.formula.parts.iter_mut().zip(&draft.sources) {
                let (is_settled, is_effect) = match &part.measure {
                    PartMeasure::Counter { kind, counter, .. } => {
                        let number = counter.get();
                        let settled =
                            kinds[*kind].settle.iter().any(|(_, other)| usize::from(*other) == number);
                        let effect = effects.iter().any(|effect| {
                            matches!(effect, EffectPlan::Add { kind: of, counter: other, .. }
                                if of == kind && usize::from(*other) == number)
                        });
                        (settled, effect)
                    }
                    PartMeasure::Decayed { kind, .. } => (false, !kinds[*kind].takes_events),
                    PartMeasure::Distinct { .. } | PartMeasure::Report { .. } => (false, false),
                };
                part.source = match given {
                    Some(EvidenceSource::Outcome) if is_settled => {
                        let message = format!("`{}` counts verdicts: [settle] adds to it", part.name);
                        let help =
                            "leave `source` out, or count outcomes in a counter of their own".to_owned();
                        problems.add(origin, message, Some(help));
                        EvidenceSource::Verdict
                    }
                    Some(given) => *given,
                    None if is_settled || is_effect => EvidenceSource::Verdict,
                    None => EvidenceSource::Outcome,
                };
            }
        }
    }
}

impl GradeThresholds {
    fn compile(view: Option<ConfigView<'_>>, problems: &mut ConfigProblems) -> GradeThresholds {
        let default = GradeThresholds::default();
        let Some(view) = view else { return default };
        let of = |key: &str, default: f64| view.float(key).unwrap_or(default);
        let grades = GradeThresholds {
            trusted: of("trusted", default.trusted),
            known: of("known", default.known),
            suspicious: of("suspicious", default.suspicious),
            bad: of("bad", default.bad),
            hysteresis: of("hysteresis", default.hysteresis),
        };
        let GradeThresholds { trusted, known, suspicious, bad, hysteresis } = grades;
        let ordered = -SCORE_MAX <= bad && bad < suspicious && suspicious < 0.0;
        if !(ordered && 0.0 < known && known < trusted && trusted <= SCORE_MAX) {
            let message = format!(
                "the grades are bad {bad}, suspicious {suspicious}, known {known}, trusted {trusted}"
            );
            let help = "let each be above the one before, bad and suspicious from -100 to below 0, known and trusted above 0 \
                        to 100: 0 is unknown";
            problems.add(view.origin(""), message, Some(help.to_owned()));
        } else if !(0.0..known.min(-suspicious)).contains(&hysteresis) {
            let message = format!("`hysteresis` is {hysteresis}");
            let help = format!(
                "expected 0 to below {}: a score of 0 is unknown, whatever was before",
                known.min(-suspicious)
            );
            problems.add(view.origin("hysteresis"), message, Some(help));
        }
        grades
    }
}

impl ReputationFormula {
    fn compile(
        name: &str,
        parts: Vec<ReputationPart>,
        view: &ConfigView<'_>,
        problems: &mut ConfigProblems,
    ) -> ReputationFormula {
        let number = |key: &str, default: f64| view.float(key).unwrap_or(default);
        let prior = bounded(view, "prior", number("prior", 10.0), f64::MIN_POSITIVE, WEIGHT_MAX, problems);
        let floor = bounded(view, "floor", number("floor", -SCORE_MAX), -SCORE_MAX, 0.0, problems);
        let ceiling = bounded(view, "ceiling", number("ceiling", SCORE_MAX), 0.0, SCORE_MAX, problems);
        let most = number("verdict_weight_max", 15.0);
        let verdict_max = bounded(view, "verdict_weight_max", most, 0.0, SCORE_MAX, problems);
        let grades = GradeThresholds::compile(view.table("grades"), problems);
        ReputationFormula { name: name.to_owned(), parts, prior, floor, ceiling, verdict_max, grades }
    }
}

/// The parts of a reputation, as they are written.
fn part_tables<'a>(name: &str, view: &ConfigView<'a>, problems: &mut ConfigProblems) -> Vec<ConfigView<'a>> {
    let mut tables = view.tables("parts");
    if tables.len() > PARTS_MAX {
        let help = format!("at most {PARTS_MAX} are possible");
        problems.add(view.origin("parts"), format!("`{name}` has {} parts", tables.len()), Some(help));
        tables.truncate(PARTS_MAX);
    }
    if tables.is_empty() && view.tables("includes").is_empty() {
        let help = "add `parts = [{ counter = ..., weight = ... }]`, or `includes`".to_owned();
        problems.add(view.origin("name"), format!("`{name}` is made of nothing"), Some(help));
    }
    tables
}

fn weight_of(part: &ConfigView<'_>, problems: &mut ConfigProblems) -> Option<f64> {
    let weight = part.float("weight")?;
    if !(weight.is_finite() && weight != 0.0 && weight.abs() <= WEIGHT_MAX) {
        let help = format!("expected a number from -{WEIGHT_MAX} to {WEIGHT_MAX} that is not 0");
        problems.add(part.origin("weight"), format!("`weight` is {weight}"), Some(help));
    }
    Some(weight)
}

/// The advice that names the counters of reporters.
fn counters_of_reporters() -> String {
    format!("counters of reporters are {}", REPORTER_COUNTERS.join(", "))
}

/// A number, told of and brought into bounds where it is beyond them.
fn bounded(
    view: &ConfigView<'_>,
    key: &str,
    number: f64,
    least: f64,
    most: f64,
    problems: &mut ConfigProblems,
) -> f64 {
    if (least..=most).contains(&number) {
        return number;
    }
    let least = if least == f64::MIN_POSITIVE { "above 0".to_owned() } else { least.to_string() };
    problems.add(
        view.origin(key),
        format!("`{key}` is {number}"),
        Some(format!("expected a number, {least} to {most}")),
    );
    most
}
