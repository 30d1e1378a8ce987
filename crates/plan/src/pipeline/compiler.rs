//! Compilation of a pipeline: sections in an order in which each finds what it needs.

use std::collections::BTreeMap;
use std::sync::Arc;

use content::mail::authentication::AuthenticationTrust;
use content::network::PrefixLengths;
use event::{Schema, SchemaBuilder, Space, Span, Table, TableIndex, Type};
use judge::{Action, AggregateFunction, Library, ReadingRequest, Scope, ScopeError};
use stats::{CancellationCheck, LayoutError, NumberRegistry, NumberedSection, Tier};

use super::columns::{columns, fact};
use super::draft::PipelineDraft;
use super::header::{self, EventHeader};
use super::journal_content::JournalContent;
use super::key_fields::KeyFields;
use super::scope::{EarlyScope, PlanScope, report, scope_error};
use super::statistic::{DraftMeasure, StatisticDraft};
use super::tables::TablePlan;
use super::{DistinctPlan, KindPlan, LastValuePlan, Pipeline, PipelineInput, UnknownFieldPolicy};
use super::{challenge, form, phrases, robots, rules};
use crate::config::{ConfigOrigin, ConfigProblems, ConfigView, Document, expected};
use crate::entries;
use crate::failure_mode::FailureMode;
use crate::limit::LimitPlan;
use crate::{aggregate, preset};

/// Bytes that the regular expressions of a pipeline may be compiled to: some thousands of usual ones.
const REGEX_BYTES_MAX: usize = 64 << 20;
/// Precision of an approximate count for which none is given.
const PRECISION: u8 = 12;

impl<'a> PipelineDraft<'a> {
    pub(crate) fn compile(
        document: &'a Document,
        main: &Document,
        tables: Vec<TablePlan>,
        limits: &'a [Arc<LimitPlan>],
        numbers: &mut NumberRegistry,
        is_over: CancellationCheck<'a>,
        problems: &mut ConfigProblems,
    ) -> PipelineDraft<'a> {
        let top = document.top();
        let mut builder = SchemaBuilder::default();
        let input = match top.str("input") {
            Some("message") => PipelineInput::Message,
            Some("access-log") => PipelineInput::AccessLog,
            Some("log") => PipelineInput::Log,
            _ => PipelineInput::Json,
        };
        let mut columns = columns(document, input, &mut builder, problems);
        let challenge = challenge::columns(document, &mut builder, problems);
        let robots = robots::compile(document, main, input, &mut builder, problems);
        let applications = robots::application_columns(main, input, &mut builder, problems);
        let block_lists = super::block_lists::columns(main, input, &mut builder, problems);
        let form = form::form_columns(document, &mut builder, problems);
        let bait = form::bait_columns(document, &mut builder, problems);
        let phrases = phrases::compile(document, &columns, &mut builder, problems);
        // What is found of phrases is a fact of the event like its other features.
        columns.count = builder.schema().columns().len();
        let journal_content = JournalContent::compile(document, &mut builder, columns.count, problems);
        let sets = rules::sets(document, problems);
        let canonical = rules::canonical(document, &sets, &tables, limits);
        let networks = document.section("networks");
        let prefix = |key: &str, default: u8| {
            networks.and_then(|view| u8::try_from(view.integer(key)?).ok()).unwrap_or(default)
        };
        let time = document.section("time");
        let mut draft = PipelineDraft {
            limits,
            numbers: std::mem::take(numbers),
            pipeline: Pipeline {
                name: document.name().to_owned(),
                space: Space(top.integer("space").and_then(|number| u16::try_from(number).ok()).unwrap_or(0)),
                input,
                on_error: if top.str("on_error") == Some("closed") {
                    FailureMode::Closed
                } else {
                    FailureMode::Open
                },
                unknown: match top.str("unknown") {
                    Some("error") => UnknownFieldPolicy::Error,
                    Some("ignore") => UnknownFieldPolicy::Ignore,
                    _ => UnknownFieldPolicy::Warn,
                },
                version: crate::content_hash(canonical.as_bytes()),
                canonical,
                preset: top.str("preset").and_then(preset::find),
                schema: Arc::default(),
                rules: Arc::default(),
                effects: Table::default(),
                kinds: Table::default(),
                distincts: Table::default(),
                labels: Table::default(),
                reputations: Table::default(),
                reputation_order: Vec::new(),
                limits: Table::default(),
                cleared_limits: Table::default(),
                columns,
                tables,
                sets: sets.iter().map(|set| (set.name.clone(), Arc::clone(&set.set))).collect(),
                phrases,
                robots: robots.map(Arc::new),
                applications,
                block_lists,
                classifiers: Vec::new(),
                models: Vec::new(),
                challenge: None,
                form: None,
                bait: None,
                candidate: None,
                readings: Vec::new(),
                checks: false,
                trust: AuthenticationTrust::default(),
                lists: Vec::new(),
                prefixes: PrefixLengths { v4: prefix("ipv4", 24), v6: prefix("ipv6", 64) },
                header: EventHeader::default(),
                skew_max: time.and_then(|view| view.span("skew_max")).unwrap_or(Span::minutes(5)),
                feedback: BTreeMap::new(),
                reports: None,
                journal_content,
                journal_keep: document.top().span("journal_keep"),
            },
            statistics: Table::default(),
            statistic_of: Table::default(),
            readings: Vec::new(),
            reputations: Vec::new(),
            dedupe: time.and_then(|view| view.span("dedupe")).unwrap_or(Span::days(1)),
            document,
            library: Library::default(),
            tested: Vec::new(),
            candidate: None,
            frozen: false,
            regex_bytes: REGEX_BYTES_MAX,
            is_over,
        };
        draft.authentication(builder.schema(), problems);
        draft.define_constants(&sets, &mut builder);
        draft.derived_fields(&mut builder, problems);
        draft.pipeline.header = header::compile(time, builder.schema(), &draft.pipeline.columns, problems);
        draft.kinds(&mut builder, problems);
        draft.statistics(builder.schema(), problems);
        draft.distincts(builder.schema(), problems);
        draft.labels(problems);
        draft.lasts(builder.schema(), problems);
        draft.idle_kinds(problems);
        draft.adds(problems);
        draft.reports(problems);
        draft.configured_readings(&mut builder, problems);
        draft.aggregate_readings(&mut builder, problems);
        draft.reputations(&mut builder, problems);
        draft.classifiers(&mut builder, problems);
        draft.models(&mut builder, problems);
        draft.define(&sets, &mut builder, problems);
        draft.rules(&mut builder, problems);
        draft.challenge(challenge, &mut builder, problems);
        draft.form(form, builder.schema(), problems);
        draft.bait(bait, builder.schema(), problems);
        draft.pipeline.effects = draft.effects();
        draft.evidence_sources(problems);
        draft.partial_rules();
        draft.limit_conditions(main, &mut builder, problems);
        draft.wide_limits(&mut builder, problems);
        draft.candidate(&mut builder, problems);
        draft.pipeline.schema = Arc::new(builder.finish());
        *numbers = std::mem::take(&mut draft.numbers);
        draft
    }

    fn kinds(&mut self, builder: &mut SchemaBuilder, problems: &mut ConfigProblems) {
        for view in entries(self.document, "kind", problems) {
            let Some(name) = view.str("name") else { continue };
            let Some(kind) = self.claim(view, name, NumberedSection::Kind, problems) else { continue };
            let fields = KeyFields::compile(view, builder.schema(), problems);
            let when = view.str("when").and_then(|when| {
                let library = self.library.clone();
                let compiled = judge::compile(when, &library, &mut EarlyScope::new(self, builder));
                if let Ok(condition) = &compiled {
                    report(condition.warnings().to_vec(), view.origin("when"), when, name, problems);
                }
                let told = compiled.map_err(|found| report(found, view.origin("when"), when, name, problems));
                told.ok().map(Arc::new)
            });
            self.pipeline.kinds.push(KindPlan::new(kind, name.to_owned(), fields, when));
            self.statistic_of.push(None);
        }
    }

    fn statistics(&mut self, schema: &Schema, problems: &mut ConfigProblems) {
        let said: Vec<String> = self.counters_of_feedback().into_iter().map(str::to_owned).collect();
        for view in entries(self.document, "statistic", problems) {
            let Some(name) = view.str("name") else { continue };
            if self.statistics.iter().any(|other| other.name == name) {
                problems.add(view.origin("name"), format!("statistic `{name}` is defined twice"), None);
                continue;
            }
            let mut kinds = Vec::new();
            for (kind_name, origin) in view.strings("keys") {
                let Some(kind) = self.kind(kind_name, origin, problems) else { continue };
                let other = match self.statistic_of[kind] {
                    Some(other) => Some(self.statistics[other].name.as_str()),
                    None => kinds.contains(&kind).then_some(name),
                };
                match other {
                    Some(other) => {
                        let message = format!("kind `{kind_name}` already has the statistic `{other}`");
                        let help = "a kind has one statistic: put all counters there, or make another [[kind]] of the \
                                    same fact"
                            .to_owned();
                        problems.add(origin, message, Some(help));
                    }
                    None => kinds.push(kind),
                }
            }
            let taken = self.taken_back_of(view, &said);
            let (draft, sound) = StatisticDraft::compile(name, view, schema, (&said, &taken), problems);
            let index = self.statistics.push(draft);
            // Of one that is not sound nothing is kept.
            for kind in kinds.into_iter().filter(|_| sound) {
                self.statistic_of[kind] = Some(index);
                let (draft, kind) = (&self.statistics[index], &mut self.pipeline.kinds[kind]);
                kind.decimals = draft.decimals;
                match &draft.kept {
                    DraftMeasure::Windows { amounts, value, .. } => {
                        kind.counters = draft.counters().to_vec().into();
                        // What is cleared is taken back by nothing else.
                        let is_of_feedback = |of: u8| {
                            draft.counters().get(usize::from(of)).is_some_and(|name| said.contains(name))
                        };
                        let taken = draft.taken().into_iter();
                        kind.taken = taken.filter(|(of, _)| is_of_feedback(*of)).collect();
                        (kind.amounts, kind.value) = (amounts.clone(), *value);
                    }
                    DraftMeasure::Aggregate { aggregate, value, takes_events } => {
                        (kind.aggregate, kind.value) = (aggregate.columns().to_vec().into(), *value);
                        kind.takes_events = *takes_events;
                    }
                }
            }
        }
    }

    /// Returns the counters of a statistic of which something is taken back: those that feedback names, and those that effects
    /// of rules clear, in whatever mode: the keys' cells are not to change with it.
    fn taken_back_of(&self, statistic: ConfigView<'_>, said: &[String]) -> Vec<String> {
        let keys = statistic.strings("keys");
        let rules = self.document.list("rule");
        let effects = rules.iter().flat_map(|view| view.strings("effects"));
        let cleared = effects.filter_map(|(effect, _)| judge::cleared_counter(effect));
        let cleared = cleared.filter(|(kind, _)| keys.iter().any(|(key, _)| key == kind));
        said.iter().cloned().chain(cleared.map(|(_, counter)| counter.to_owned())).collect()
    }

    fn distincts(&mut self, schema: &Schema, problems: &mut ConfigProblems) {
        for view in entries(self.document, "distinct", problems) {
            let Some(name) = view.str("name") else { continue };
            let Some(kind) = self.claim(view, name, NumberedSection::Distinct, problems) else { continue };
            let per = view.str("per").and_then(|per| self.kind(per, view.origin("per"), problems));
            let of = KeyFields::compile(view, schema, problems);
            let text = view.str("window").unwrap_or_default();
            let tier = match text.parse::<Tier>() {
                Ok(tier) => tier,
                Err(error) => {
                    problems.add(
                        view.origin("window"),
                        format!("`{text}` is no window"),
                        Some(error.to_string()),
                    );
                    continue;
                }
            };
            let approximate = view.str("method") == Some("approximate");
            if view.is_given("precision") && !approximate {
                let help = "add `method = \"approximate\"`, or leave it out".to_owned();
                problems.add(view.origin("precision"), "an exact count has no precision", Some(help));
            }
            let given = view.integer("precision").and_then(|precision| u8::try_from(precision).ok());
            let Some(per) = per else { continue };
            let distinct = DistinctPlan {
                kind,
                name: name.to_owned(),
                per,
                of,
                members: None,
                tier,
                precision: approximate.then(|| given.unwrap_or(PRECISION)),
                windows: vec![tier.width].into(),
                keep: view.integer("keep").and_then(|keep| usize::try_from(keep).ok()).unwrap_or(0),
            };
            // A precision out of range was told of when the text was checked.
            match distinct.measure(distinct.windows.as_slice().to_vec()).check() {
                Ok(()) => _ = self.pipeline.distincts.push(distinct),
                Err(LayoutError::Precision(_)) => {}
                Err(error) => problems.add(view.origin("window"), error.to_string(), None),
            }
        }
    }

    /// The last values of facts. What keeps one has the keys of its kind, under a number of its own.
    fn lasts(&mut self, schema: &Schema, problems: &mut ConfigProblems) {
        for view in entries(self.document, "last", problems) {
            let Some(name) = view.str("name") else { continue };
            let Some(kind) = self.claim(view, name, NumberedSection::Last, problems) else { continue };
            let per = view.str("per").and_then(|per| self.kind(per, view.origin("per"), problems));
            let of_name = view.str("of").unwrap_or_default();
            let of = fact(schema, of_name, view.origin("of"), problems);
            if let Some(column) = schema.columns().get(usize::from(of.0)) {
                if column.kind != Type::String {
                    let help = "expected a fact of type string".to_owned();
                    let message = format!("`{of_name}` is of type {}", column.kind);
                    problems.add(view.origin("of"), message, Some(help));
                    continue;
                }
                if !column.journalled {
                    let help = "the value would be kept as it is: let it be journalled, or leave this out"
                        .to_owned();
                    let message = format!("`{of_name}` is not journalled");
                    problems.add(view.origin("of"), message, Some(help));
                    continue;
                }
            }
            let (Some(per), Some(keep)) = (per, view.span("keep")) else { continue };
            let owner = &self.pipeline.kinds[per];
            let mut plan = KindPlan::new(kind, name.to_owned(), owner.fields.clone(), owner.when.clone());
            plan.last = Some(LastValuePlan { of, per, keep });
            self.pipeline.kinds.push(plan);
            self.statistic_of.push(None);
        }
    }

    /// Tells of kinds of which nothing is kept.
    fn idle_kinds(&self, problems: &mut ConfigProblems) {
        let pipeline = &self.pipeline;
        for view in self.document.list("kind") {
            let named = |kind: &KindPlan| Some(kind.name.as_str()) == view.str("name");
            let Some(kind) = pipeline.kinds.iter().find(|kind| named(kind)) else { continue };
            let name = kind.name.as_str();
            // One that is not sound was told of, and so were its kinds.
            let counted = self
                .statistics
                .iter()
                .any(|statistic| statistic.view.strings("keys").iter().any(|(key, _)| *key == name));
            let names = |section: &str, key: &str| {
                self.document.list(section).iter().any(|view| view.str(key) == Some(name))
            };
            let owns = names("distinct", "per") || names("last", "per") || names("label", "of");
            let owns = owns || names("reputation", "of");
            if !counted && !owns && kind.fields.are_known() {
                let message = format!("nothing is kept of the kind `{name}`");
                let help = "name it in the `keys` of a [[statistic]], or take it out".to_owned();
                problems.push(judge::Severity::Warning, view.origin("name"), message, Some(help));
            }
        }
    }

    /// Reads what events, verdicts and feedback add.
    fn adds(&mut self, problems: &mut ConfigProblems) {
        let counters: Vec<&str> =
            self.statistics.iter().flat_map(StatisticDraft::counters).map(String::as_str).collect();
        let aggregates = self.statistics.iter().find_map(|statistic| match &statistic.kept {
            DraftMeasure::Aggregate { aggregate, .. } => Some((&statistic.name, aggregate)),
            DraftMeasure::Windows { .. } => None,
        });
        let mut known = |name: &str, origin: &ConfigOrigin| {
            let known = counters.contains(&name);
            if !known {
                let help = match aggregates {
                    Some((statistic, aggregate))
                        if counters.is_empty()
                            || aggregate.columns().iter().any(|column| aggregate::name(column) == name) =>
                    {
                        format!(
                            "the aggregate `{statistic}` has no counters, every event is added to it: what verdicts and \
                             feedback add is counted by a statistic with `counts` and `windows`"
                        )
                    }
                    _ => expected(name, counters.iter().copied()),
                };
                problems.add(origin, format!("no statistic has a counter `{name}`"), Some(help));
            }
            known
        };
        let mut observe = Vec::new();
        if let Some(view) = self.document.section("observe") {
            // A pipeline without counters counts nothing, and need not say so.
            let meant = !counters.is_empty() || view.is_given("add");
            let names = view.strings("add").into_iter().filter(|_| meant);
            observe.extend(names.filter(|(name, origin)| known(name, origin)).map(|(name, _)| name));
        }
        let mut settle: Vec<(Action, &str)> = Vec::new();
        let mut settled_values = Vec::new();
        // A counter's name has no blank, and all else is a value for an aggregate.
        let is_value = |name: &str| name.contains(char::is_whitespace);
        let (mut additions, mut feedback) = (ConfigProblems::default(), BTreeMap::new());
        for (name, origin, actions) in self.document.section("settle").iter().flat_map(ConfigView::map) {
            let actions = actions.iter().filter_map(|(action, _)| action.parse::<Action>().ok());
            if is_value(name) {
                let added = self.value_addition(name, origin, false, &mut additions);
                settled_values.extend(added.into_iter().zip(Some(actions.collect::<Vec<_>>())));
            } else if known(name, origin) {
                settle.extend(actions.map(|action| (action, name)));
            }
        }
        for (class, _, names) in self.document.section("feedback").iter().flat_map(ConfigView::map) {
            let is_distinct = |name: &str| self.pipeline.distincts.iter().any(|plan| plan.name == name);
            let names = names.into_iter().filter(|(name, origin)| match is_value(name) {
                true => self.value_addition(name, origin, true, &mut additions).is_some(),
                false => is_distinct(name) || known(name, origin),
            });
            feedback.insert(class.to_owned(), names.map(|(name, _)| name.to_owned()).collect());
        }
        problems.extend(additions);
        self.pipeline.feedback = feedback;
        for ((kind, value), actions) in settled_values {
            let values = &mut self.pipeline.kinds[kind].settle_values;
            values.extend(actions.into_iter().map(|action| (action, value)));
        }
        self.distincts_of_feedback(problems);
        for kind in &mut self.pipeline.kinds {
            let index = |name: &str| kind.counter(name);
            let mut adds: Vec<(u8, u64)> =
                observe.iter().filter_map(|name| Some((index(name)?, 1))).collect();
            adds.sort_unstable();
            adds.dedup();
            let mut settles: Vec<(Action, u8)> =
                settle.iter().filter_map(|(action, name)| Some((*action, index(name)?))).collect();
            settles.sort_unstable_by_key(|(action, index)| (action.name(), *index));
            settles.dedup();
            (kind.observe, kind.settle) = (adds, settles);
        }
    }

    /// Has the distinct counts that feedback names count the values of such events alone.
    fn distincts_of_feedback(&mut self, problems: &mut ConfigProblems) {
        let views = self.document.section("feedback");
        let named = views.iter().flat_map(ConfigView::map).flat_map(|(.., names)| names);
        for (name, origin) in named {
            let Some(index) = self.pipeline.distincts.position(|plan| plan.name == name) else { continue };
            let pipeline = &mut self.pipeline;
            let plan = &pipeline.distincts[index];
            let is_counted = |kind: TableIndex<KindPlan>| self.statistic_of[kind].is_some();
            let members =
                pipeline.kinds.entries().find(|(kind, other)| other.fields == plan.of && is_counted(*kind));
            let (what, help) = match members {
                _ if plan.precision.is_some() => ("is approximate", "count with `method = \"exact\"`"),
                _ if !is_counted(plan.per) => {
                    ("has an owner that is not counted", "give the kind of `per` a [[statistic]]")
                }
                None => ("has values of no kind", "define a [[kind]] of the same `of`, with a [[statistic]]"),
                Some((members, _)) => {
                    pipeline.distincts[index].members = Some(members);
                    continue;
                }
            };
            problems.add(
                origin,
                format!("feedback cannot add to `{name}`: it {what}"),
                Some(help.to_owned()),
            );
        }
    }

    /// Columns for the readings that the configuration asks for whether or not a rule does.
    fn configured_readings(&mut self, builder: &mut SchemaBuilder, problems: &mut ConfigProblems) {
        for statistic in self.statistics.indices() {
            let view = self.statistics[statistic].view;
            for (text, origin) in view.strings("readings") {
                let Ok(window) = text.parse() else { continue };
                if let Err(error) = self.read_all(statistic, window, builder) {
                    problems.add(origin, scope_error(error), None);
                }
            }
        }
    }

    /// Columns for every counter of every kind of a statistic over one window.
    fn read_all(
        &mut self,
        statistic: TableIndex<StatisticDraft<'a>>,
        window: Span,
        builder: &mut SchemaBuilder,
    ) -> Result<(), ScopeError> {
        for index in self.pipeline.kinds.indices() {
            if self.statistic_of[index] != Some(statistic) {
                continue;
            }
            let kind = self.pipeline.kinds[index].name.clone();
            for counter in self.statistics[statistic].counters().to_vec() {
                let request = ReadingRequest::Count { kind: &kind, counter: &counter, window: Some(window) };
                PlanScope { draft: self, builder }.reading(&request)?;
            }
        }
        Ok(())
    }

    /// Columns for all that aggregates keep.
    fn aggregate_readings(&mut self, builder: &mut SchemaBuilder, problems: &mut ConfigProblems) {
        for index in self.pipeline.kinds.indices() {
            let (kind, columns) = {
                let plan = &self.pipeline.kinds[index];
                (plan.name.clone(), plan.aggregate.as_slice().to_vec())
            };
            for column in columns {
                let kind = kind.as_str();
                let request = match column {
                    stats::AggregateColumn::First => ReadingRequest::FirstAge { kind },
                    stats::AggregateColumn::Last => ReadingRequest::LastAge { kind },
                    stats::AggregateColumn::Count => {
                        ReadingRequest::Aggregate { kind, value: AggregateFunction::Count }
                    }
                    stats::AggregateColumn::Sum => {
                        ReadingRequest::Aggregate { kind, value: AggregateFunction::Sum }
                    }
                    stats::AggregateColumn::Min => {
                        ReadingRequest::Aggregate { kind, value: AggregateFunction::Min }
                    }
                    stats::AggregateColumn::Max => {
                        ReadingRequest::Aggregate { kind, value: AggregateFunction::Max }
                    }
                    stats::AggregateColumn::Decayed { half_life, .. } => {
                        ReadingRequest::Aggregate { kind, value: AggregateFunction::Decayed(half_life) }
                    }
                };
                if let Err(error) = (PlanScope { draft: self, builder }).reading(&request) {
                    let statistic = self.statistic_of[index];
                    let view =
                        statistic.map_or(self.document.top(), |statistic| self.statistics[statistic].view);
                    problems.add(view.origin("aggregate"), scope_error(error), None);
                }
            }
        }
    }
}
