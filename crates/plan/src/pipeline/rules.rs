//! The rules of a pipeline: labels, definitions, sets, groups, rules and bands.

use std::sync::Arc;

use data_encoding::HEXLOWER;
use event::{Column, SchemaBuilder, Table, Type};
use judge::{
    Band, BandPromise, Bands, CalibrationColumns, Constant, DefinitionProblem, Effect, GroupSource, Library,
    LibrarySource, Mode, Rule, RuleProblem, RuleSet, RuleSetPart, RuleSetSource, RuleSource, RuleTest,
    ScoreWindow, Set, SetMatch, SetType, Severity,
};
use sha2::{Digest, Sha256};
use stats::NumberedSection;

use super::candidate::CandidateDraft;
use super::draft::PipelineDraft;
use super::model::ModelPlan;
use super::reports::{FeedbackClass, FeedbackSide};
use super::scope::{PlanScope, report};
use super::tables::TablePlan;
use super::{EffectPlan, LabelPlan, Pipeline};
use crate::config::{
    ConfigOrigin, ConfigProblems, ConfigSource, ConfigView, Document, SourceKind, inside, parse_percentage,
};
use crate::label_span::LabelSpan;
use crate::limit::LimitPlan;
use crate::{RuleTestResult, entries};

/// A set and where it is defined.
pub(crate) struct SetDraft<'a> {
    pub(super) name: String,
    pub(super) set: Arc<Set>,
    origin: &'a ConfigOrigin,
}

/// Everything that a pipeline's verdicts depend on: its settings, what is in the files of its sets, tables, models and phrases,
/// and for which events limits are.
pub(crate) fn canonical(
    document: &Document,
    sets: &[SetDraft<'_>],
    tables: &[TablePlan],
    limits: &[Arc<LimitPlan>],
) -> String {
    let mut text = document.canonical();
    for SetDraft { name, set, .. } in sets.iter().filter(|set| document.list_file(&set.name).is_some()) {
        let digest: String = HEXLOWER.encode(set.digest());
        text += &format!("set.{name}.digest = \"{digest}\"\n");
    }
    for name in document.list("model").into_iter().filter_map(|view| view.str("name")) {
        if let Some(bytes) = document.model_file(name) {
            let digest: String = HEXLOWER.encode(&Sha256::digest(bytes));
            text += &format!("model.{name}.digest = \"{digest}\"\n");
        }
    }
    text += &super::tables::canonical(tables);
    text += &super::phrases::canonical(document);
    text += &super::patterns::canonical(document);
    text += &super::log::canonical(document);
    text += &super::robots::canonical(document);
    for limit in limits {
        if let Some(when) = &limit.when {
            text += &format!("limit.{}.when = {when:?}\n", limit.name);
        }
    }
    text
}

/// The sets of a pipeline.
pub(crate) fn sets<'a>(document: &'a Document, problems: &mut ConfigProblems) -> Vec<SetDraft<'a>> {
    let mut sets = Vec::new();
    for view in entries(document, "set", problems) {
        let kind = SetType::ALL.into_iter().find(|kind| Some(kind.name()) == view.str("type"));
        let (Some(name), Some(kind)) = (view.str("name"), kind) else { continue };
        let how =
            SetMatch::ALL.into_iter().find(|how| Some(how.name()) == view.str("match")).unwrap_or_default();
        if kind != SetType::String && how != SetMatch::Equal {
            let help =
                "leave it out, or write `type = \"string\"`: domains and networks have matches of their own";
            problems.add(
                view.origin("match"),
                "only strings are found otherwise than equal",
                Some(help.to_owned()),
            );
            continue;
        }
        let of = (kind, how);
        let set = match (view.is_given("values"), view.is_given("file")) {
            (true, false) => written_out(view, of, problems),
            // One that could not be read was told of.
            (false, true) => {
                document.list_file(name).and_then(|file| of_file(file, of, view.origin("file"), problems))
            }
            (both, _) => {
                let message = format!(
                    "set `{name}` has {}",
                    if both { "`values` and `file`" } else { "neither `values` nor `file`" }
                );
                let help = "give `values = [...]`, or `file = \"...\"`: one entry a line";
                problems.add(view.origin(""), message, Some(help.to_owned()));
                None
            }
        };
        if let Some(set) = set {
            sets.push(SetDraft { name: name.to_owned(), set: Arc::new(set), origin: view.origin("name") });
        }
    }
    sets
}

fn written_out(
    view: ConfigView<'_>,
    (kind, how): (SetType, SetMatch),
    problems: &mut ConfigProblems,
) -> Option<Set> {
    let entries = view.entries("values");
    match Set::matching(kind, how, entries.iter().map(|(text, _)| text.as_str())) {
        Ok(set) => Some(set),
        Err(error) => {
            let origin = entries.get(error.entry).map_or(view.origin("values"), |(_, origin)| origin);
            problems.add(origin, error.message, None);
            None
        }
    }
}

/// One entry a line. Lists that are shared have comments behind entries: they are let go where entries have no blanks.
fn of_file(
    file: &Arc<ConfigSource>,
    (kind, how): (SetType, SetMatch),
    named_at: &ConfigOrigin,
    problems: &mut ConfigProblems,
) -> Option<Set> {
    let lines = || {
        file.text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with(['#', ';'])).map(
            |line| match kind {
                SetType::String => line,
                _ => {
                    line.split(|c: char| c.is_whitespace() || c == ';' || c == '#').next().unwrap_or_default()
                }
            },
        )
    };
    match Set::matching(kind, how, lines()) {
        Ok(set) => Some(set),
        Err(error) => {
            let origin = lines().nth(error.entry).map_or_else(
                || named_at.clone(),
                |line| {
                    // A line is a piece of the text, so its place is the distance of their beginnings.
                    let start = line.as_ptr() as usize - file.text.as_ptr() as usize;
                    ConfigOrigin { source: Arc::clone(file), range: start..start + line.len() }
                },
            );
            problems.add(&origin, error.message, None);
            None
        }
    }
}

impl PipelineDraft<'_> {
    /// Constants and sets alone, for the conditions of kinds: expressions may read what is not counted yet.
    pub(crate) fn define_constants(&mut self, sets: &[SetDraft<'_>], builder: &mut SchemaBuilder) {
        let source = LibrarySource { expressions: Vec::new(), ..self.library_source(sets) };
        // What is wrong is told when all is defined.
        self.library = Library::compile(source, &mut PlanScope { draft: self, builder }).0;
    }

    /// Constants, expressions and sets.
    pub(crate) fn define(
        &mut self,
        sets: &[SetDraft<'_>],
        builder: &mut SchemaBuilder,
        problems: &mut ConfigProblems,
    ) {
        let source = self.library_source(sets);
        let (library, found) = Library::compile(source, &mut PlanScope { draft: self, builder });
        self.library = library;
        let document = self.document;
        for DefinitionProblem { name, diagnostic } in found {
            let expressions = document.section("expressions");
            let expression = expressions.and_then(|view| view.texts().find(|(other, ..)| *other == name));
            let constants = document.section("constants");
            let constant = constants.and_then(|view| view.constants().find(|(other, ..)| *other == name));
            let set = sets.iter().rev().find(|set| set.name == name);
            match (expression, constant, set) {
                // What is wrong with a name has no place in the expression.
                (Some((_, key, ..)), ..) if diagnostic.range.is_empty() => {
                    problems.push(diagnostic.severity, key, diagnostic.message, diagnostic.help);
                }
                (Some((_, _, text, origin)), ..) => report(vec![diagnostic], origin, text, &name, problems),
                (_, Some((_, key, _)), _) => {
                    problems.push(diagnostic.severity, key, diagnostic.message, diagnostic.help);
                }
                (.., set) => {
                    let tables = document.list("table");
                    let table = tables.iter().find(|view| view.str("name") == Some(&name));
                    let table = table.map(|view| view.origin("name"));
                    let origin = set.map(|set| set.origin).or(table).unwrap_or(document.top().origin("set"));
                    problems.push(diagnostic.severity, origin, diagnostic.message, diagnostic.help);
                }
            }
        }
    }

    fn library_source(&self, sets: &[SetDraft<'_>]) -> LibrarySource {
        let constants = self.document.section("constants");
        let constants = constants.iter().flat_map(ConfigView::constants);
        let expressions = self.document.section("expressions");
        let expressions = expressions.iter().flat_map(ConfigView::texts);
        LibrarySource {
            constants: constants.map(|(name, _, value): (_, _, Constant)| (name.to_owned(), value)).collect(),
            expressions: expressions.map(|(name, _, text, _)| (name.to_owned(), text.to_owned())).collect(),
            sets: sets.iter().map(|set| (set.name.clone(), Arc::clone(&set.set))).collect(),
            tables: self
                .pipeline
                .tables
                .iter()
                .map(|plan| (plan.name.clone(), Arc::clone(&plan.table)))
                .collect(),
        }
    }

    pub(crate) fn labels(&mut self, problems: &mut ConfigProblems) {
        for view in entries(self.document, "label", problems) {
            let (Some(name), Some(keep)) = (view.str("name"), view.span("keep")) else { continue };
            let Some(kind) = self.claim(view, name, NumberedSection::Label, problems) else { continue };
            let of = view.str("of").and_then(|of| self.kind(of, view.origin("of"), problems));
            let Some(of) = of else { continue };
            let description = view.str("description").unwrap_or_default().to_owned();
            let decision = view.str("decision").map(str::to_owned);
            let name = name.to_owned();
            let label = LabelPlan { kind, name, description, of, keep, decision, is_read: false };
            if let Err(error) = label.measure() {
                problems.add(view.origin("keep"), error.to_string(), None);
            }
            self.pipeline.labels.push(label);
        }
    }

    pub(crate) fn rules(&mut self, builder: &mut SchemaBuilder, problems: &mut ConfigProblems) {
        let groups = entries(self.document, "group", problems);
        let group = |view: &ConfigView<'_>| GroupSource {
            name: view.str("name").unwrap_or_default().to_owned(),
            description: view.str("description").unwrap_or_default().to_owned(),
            cap: view.float("cap"),
            floor: view.float("floor"),
            default_share: view.float("default_share"),
        };
        let mut rules = entries(self.document, "rule", problems);
        // What a rule lacks was told of.
        rules.retain(|view| view.str("name").is_some() && view.str("when").is_some());
        let source = RuleSetSource {
            rules: rules.iter().map(rule_source).collect(),
            groups: groups.iter().map(group).collect(),
            bands: self.bands(builder, problems),
            library: self.library.clone(),
        };
        let compiled = RuleSet::compile(source, &mut PlanScope { draft: self, builder });
        let found = match &compiled {
            Ok(set) => set.warnings(),
            Err(found) => found,
        };
        for problem in found {
            self.report_rule(problem, &rules, &groups, problems);
        }
        let Ok(set) = compiled else { return };
        let is_changed = self.changed_by_lists(&rules);
        for run in set.test(builder.schema()) {
            let Some(view) = rules.get(run.rule) else { continue };
            let tests = view.tables("test");
            let origin = tests.get(run.test).map_or(view.origin("test"), |test| test.origin("fires")).clone();
            // A preset tests its rules with its own lists.
            if is_changed[run.rule] && origin.source.kind == SourceKind::Preset {
                continue;
            }
            let rule = view.str("name").unwrap_or_default().to_owned();
            self.tested.push(RuleTestResult { pipeline: self.pipeline.name.clone(), rule, origin, run });
        }
        self.pipeline.rules = Arc::new(set);
    }

    /// Returns for each rule of a preset whether it reads a set, constant or expression that no preset has defined, or another rule
    /// that does.
    fn changed_by_lists(&self, rules: &[ConfigView<'_>]) -> Vec<bool> {
        let is_own = |origin: &ConfigOrigin| origin.source.kind != SourceKind::Preset;
        let sets = self.document.list("set");
        let sets = sets.iter().filter(|set| is_own(set.origin("values")) || is_own(set.origin("file")));
        let mut names: Vec<String> = sets.filter_map(|set| set.str("name").map(str::to_owned)).collect();
        for section in
            ["constants", "expressions"].map(|name| self.document.section(name)).into_iter().flatten()
        {
            let own = section.constants().filter(|(_, origin, _)| is_own(origin));
            names.extend(own.map(|(name, ..)| name.to_owned()));
        }
        let mentions = |text: &str, name: &str| {
            let is_of_word = |c: char| c.is_alphanumeric() || c == '_';
            text.match_indices(name).any(|(at, _)| {
                !text[..at].ends_with(is_of_word) && !text[at + name.len()..].starts_with(is_of_word)
            })
        };
        let mut is_changed = vec![false; rules.len()];
        // Each name is looked for once, that of a rule when it is found to be changed.
        while let Some(name) = names.pop() {
            for (rule, is_changed) in rules.iter().zip(&mut is_changed) {
                let is_preset = !is_own(rule.origin("when"));
                if is_preset && !*is_changed && rule.str("when").is_some_and(|when| mentions(when, &name)) {
                    *is_changed = true;
                    names.extend(rule.str("name").map(str::to_owned));
                }
            }
        }
        is_changed
    }

    /// Resolves the names in the effects of the rules that were compiled last.
    ///
    /// # Panics
    /// If a name means nothing: each was looked up when its rule was compiled.
    pub(crate) fn effects(&self) -> Table<Rule, Vec<EffectPlan>> {
        let Pipeline { rules, kinds, distincts, labels, cleared_limits, .. } = &self.pipeline;
        let mark = |kind: &str, label: &str, (least, most)| {
            let is_meant = |plan: &LabelPlan| plan.name == *label && kinds[plan.of].name == *kind;
            let label = labels.position(is_meant).expect("rules compile only with labels that there are");
            Some(EffectPlan::Mark { label, lasts: LabelSpan { least, most } })
        };
        let counter_of = |kind: &str, counter: &str| {
            let kind = kinds.position(|plan| plan.name == *kind);
            let found = kind.and_then(|kind| Some((kind, kinds[kind].counter(counter)?)));
            found.expect("rules compile only with counters that there are")
        };
        let resolve = |effect: &Effect| match effect {
            Effect::Mark { kind, label, lasts } => mark(kind, label, (*lasts, *lasts)),
            Effect::MarkBetween { kind, label, least, most } => mark(kind, label, (*least, *most)),
            Effect::Add { kind, counter, amount } => {
                let (kind, counter) = counter_of(kind, counter);
                Some(EffectPlan::Add { kind, counter, amount: *amount })
            }
            Effect::Clear { kind, counter } => {
                let (kind, counter) = counter_of(kind, counter);
                Some(EffectPlan::Clear { kind, counter })
            }
            Effect::MarkContributors { distinct, label, lasts } => {
                let distinct = distincts.position(|plan| plan.name == *distinct);
                let distinct = distinct.expect("rules compile only with distinct counts that there are");
                let label = labels
                    .position(|plan| plan.name == *label && kinds[plan.of].fields == distincts[distinct].of);
                let label = label.expect("rules compile only with labels that there are");
                let lasts = LabelSpan { least: *lasts, most: *lasts };
                Some(EffectPlan::MarkContributors { distinct, label, lasts })
            }
            Effect::ClearLimit(name) => {
                let limit = cleared_limits.position(|of| *of.limit.name == *name);
                let limit = limit.expect("rules compile only with limits that there are");
                Some(EffectPlan::ClearLimit { limit })
            }
            Effect::AddValue { kind, value, .. } | Effect::AddShare { kind, value, .. } => {
                let kind = kinds.position(|plan| plan.name == *kind);
                let kind = kind.expect("rules compile only with kinds that there are");
                let by_share = matches!(effect, Effect::AddShare { .. });
                Some(EffectPlan::AddValue { kind, value: *value, by_share })
            }
            Effect::Set(_) | Effect::SetUnless { .. } | Effect::Lift(_) | Effect::Notify(_) => None,
        };
        rules.rules().map(|rule| rule.effects.iter().filter_map(resolve).collect())
    }

    /// Compiles the rules that are judged beside the enforced ones, on the same row.
    pub(crate) fn candidate(&mut self, builder: &mut SchemaBuilder, problems: &mut ConfigProblems) {
        let Some(document) = self.document.candidate() else { return };
        let enforced = std::mem::take(&mut self.pipeline.rules);
        let (of, library) = (self.document, std::mem::take(&mut self.library));
        (self.document, self.frozen) = (document, true);
        let sets = sets(document, problems);
        let tables = &self.pipeline.tables;
        let canonical = canonical(document, &sets, tables, self.limits);
        self.define(&sets, builder, problems);
        self.rules(builder, problems);
        let effects = self.effects();
        (self.document, self.library, self.frozen) = (of, library, false);
        let rules = std::mem::replace(&mut self.pipeline.rules, enforced);
        let scope = of.canary().cloned();
        self.candidate = Some(CandidateDraft { canonical, rules, effects, scope });
    }

    /// Returns how seriously a model is taken: by a candidate, as it says, unless nobody asks the model.
    pub(crate) fn model_mode(&self, model: &ModelPlan) -> Mode {
        if !self.frozen || model.mode == Mode::Off {
            return model.mode;
        }
        let named = self.document.list("model");
        let own = named.iter().find(|view| view.str("name") == Some(&model.name));
        own.map_or(model.mode, mode)
    }

    fn bands(&self, builder: &mut SchemaBuilder, problems: &mut ConfigProblems) -> Bands {
        let views = self.document.list("band");
        let band = |view: &ConfigView<'_>| {
            Some(Band { at: view.float("at")?, action: view.str("action")?.parse().ok()? })
        };
        let mut bands: Vec<Band> = views.iter().filter_map(band).collect();
        // A layer may have moved one band past another.
        bands.sort_by(|a, b| a.at.total_cmp(&b.at));
        let origin = views.first().map_or(self.document.top().origin("band"), |view| view.origin("at"));
        let bands = Bands::new(bands).map_err(|error| problems.add(origin, error.to_string(), None)).ok();
        let promises = views.iter().filter_map(|view| self.promise(view, builder, problems)).collect();
        let bands = bands.map(|bands| bands.with_promises(promises)).unwrap_or_default();
        match self.calibration(builder, problems) {
            Some(columns) => bands.with_calibration(columns),
            None => bands,
        }
    }

    /// The columns of the curve through judged scores, where somebody can say which events are good and which are bad.
    fn calibration(
        &self,
        builder: &mut SchemaBuilder,
        problems: &mut ConfigProblems,
    ) -> Option<CalibrationColumns> {
        let classes = || self.pipeline.reports.iter().flat_map(|reports| &reports.classes);
        let has = |side| classes().any(|class: &FeedbackClass| class.side == Some(side));
        if !has(FeedbackSide::Good) || !has(FeedbackSide::Bad) {
            return None;
        }
        let mut column = |name: &str, doc: &str| match builder.schema().slot(name) {
            Some(slot) if self.frozen => Some(slot),
            _ if self.frozen => None,
            _ => {
                let column = Column {
                    name: name.to_owned(),
                    kind: Type::Float,
                    doc: format!("{doc}; missing where too few events are judged"),
                    journalled: true,
                };
                let added = builder.add(column).map_err(|error| format!("`{name}`: {error}"));
                added.map_err(|message| problems.add(self.document.top().origin("band"), message, None)).ok()
            }
        };
        let slope =
            column("calibration.slope", "Log-odds of being bad for a point of score, by judged events");
        let offset = column("calibration.offset", "Log-odds of being bad at a score of 0, by judged events");
        Some(CalibrationColumns { slope: slope?, offset: offset? })
    }

    /// The promise of a band, with a column for where it lets the band begin. A candidate is held against the lines of the
    /// rules in force, as it is judged on their row.
    fn promise(
        &self,
        view: &ConfigView<'_>,
        builder: &mut SchemaBuilder,
        problems: &mut ConfigProblems,
    ) -> Option<BandPromise> {
        let (text, action) = (view.str("false_positives")?, view.str("action")?);
        let false_positives = parse_percentage(text)?;
        if ScoreWindow::needed(false_positives) > ScoreWindow::LENGTH_MAX {
            let help = format!(
                "{} good events would have to be known, and {} are kept: promise 0.01 % or more",
                ScoreWindow::needed(false_positives),
                ScoreWindow::LENGTH_MAX
            );
            problems.add(view.origin("false_positives"), format!("`{text}` cannot be promised"), Some(help));
            return None;
        }
        let name = format!("line.{action}");
        let line = match builder.schema().slot(&name) {
            Some(line) if self.frozen => line,
            _ if self.frozen => return None,
            _ => {
                let doc = format!(
                    "Score from which `{action}` is asked for, so that at most the promised share of good events reaches it; \
                     missing where too few are known"
                );
                let column = Column { name, kind: Type::Float, doc, journalled: true };
                let added = builder.add(column).map_err(|error| format!("`line.{action}`: {error}"));
                added.map_err(|message| problems.add(view.origin("action"), message, None)).ok()?
            }
        };
        let good = |class: &FeedbackClass| class.side == Some(FeedbackSide::Good);
        if !self.pipeline.reports.iter().flat_map(|reports| &reports.classes).any(good) {
            let help = "name the classes that call an event good in `[reports] good = [...]`".to_owned();
            let message = "nobody can say which events are good, so the band begins at its `at`";
            problems.push(Severity::Warning, view.origin("false_positives"), message.to_owned(), Some(help));
        }
        let line_alone = view.bool("line_alone").unwrap_or_default();
        Some(BandPromise { action: action.parse().ok()?, false_positives, line, line_alone })
    }

    fn report_rule(
        &self,
        RuleProblem { part, diagnostic }: &RuleProblem,
        rules: &[ConfigView<'_>],
        groups: &[ConfigView<'_>],
        problems: &mut ConfigProblems,
    ) {
        let mut tell = |origin: &ConfigOrigin| {
            problems.push(diagnostic.severity, origin, diagnostic.message.clone(), diagnostic.help.clone());
        };
        let top = self.document.top();
        let key = |view: Option<&ConfigView<'_>>, key: &str, section: &str| match view {
            Some(view) => view.origin(key).clone(),
            None => top.origin(section).clone(),
        };
        match *part {
            RuleSetPart::Set => tell(top.origin("rule")),
            RuleSetPart::Group(index) => tell(&key(groups.get(index), "name", "group")),
            RuleSetPart::Name(index) => tell(&key(rules.get(index), "name", "rule")),
            RuleSetPart::Score(index) => tell(&key(rules.get(index), "score", "rule")),
            RuleSetPart::GroupOf(index) => tell(&key(rules.get(index), "group", "rule")),
            RuleSetPart::When(index) | RuleSetPart::Share(index) => {
                let Some(view) = rules.get(index) else { return };
                let key = if matches!(part, RuleSetPart::Share(_)) { "share" } else { "when" };
                let (name, source) =
                    (view.str("name").unwrap_or_default(), view.str(key).unwrap_or_default());
                report(vec![diagnostic.clone()], view.origin(key), source, name, problems);
            }
            RuleSetPart::Effect(index, number) => {
                let effects = rules.get(index).map(|view| view.strings("effects")).unwrap_or_default();
                match effects.get(number) {
                    Some((text, origin)) => tell(&inside(origin, text, diagnostic.range.clone())),
                    None => tell(&key(rules.get(index), "effects", "rule")),
                }
            }
            RuleSetPart::Test(index, number) => {
                let tests = rules.get(index).map(|view| view.tables("test")).unwrap_or_default();
                match tests.get(number) {
                    Some(test) => tell(test.origin("facts")),
                    None => tell(&key(rules.get(index), "test", "rule")),
                }
            }
        }
    }
}

/// The mode of a rule or a model.
pub(crate) fn mode(view: &ConfigView<'_>) -> Mode {
    match view.str("mode") {
        Some("shadow") => Mode::Shadow,
        Some("off") => Mode::Off,
        _ => Mode::Enforce,
    }
}

fn rule_source(view: &ConfigView<'_>) -> RuleSource {
    let text = |key: &str| view.str(key).unwrap_or_default().to_owned();
    let test = |test: &ConfigView<'_>| RuleTest {
        facts: test.table("facts").map(|facts| facts.facts()).unwrap_or_default(),
        fires: test.bool("fires").unwrap_or_default(),
    };
    RuleSource {
        name: text("name"),
        when: text("when"),
        score: view.float("score").unwrap_or(0.0),
        share: view.str("share").map(str::to_owned),
        description: text("description"),
        owner: text("owner"),
        mode: mode(view),
        group: view.str("group").map(str::to_owned),
        expires: view.time("expires"),
        effects: view.strings("effects").into_iter().map(|(effect, _)| effect.to_owned()).collect(),
        tests: view.tables("test").iter().map(test).collect(),
    }
}
