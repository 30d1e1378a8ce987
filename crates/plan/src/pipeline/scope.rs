//! Names of conditions, and the columns behind them.

use std::sync::Arc;

use event::{Column, SchemaBuilder, Slot, Span, TableIndex, Type};
use judge::{
    AggregateFunction, BucketFunction, CounterSum, Diagnostic, Mode, NameCategory, ReadingRequest, Scope,
    ScopeError, TextFunction,
};
use stats::{AggregateColumn, BucketSeries};

use super::draft::PipelineDraft;
use super::functions;
use super::model::ModelPlan;
use super::reputation::ReputationPlan;
use super::statistic::{DraftMeasure, StatisticDraft};
use super::{KindPlan, LabelPlan, ReadingSource, RuleLimit};
use crate::config::{ConfigOrigin, ConfigProblems, expected, inside};

/// The names that rules can use: facts of the schema, and readings, which get a column when first asked for.
pub(crate) struct PlanScope<'d, 'a, 'b> {
    pub(crate) draft: &'d mut PipelineDraft<'a>,
    pub(crate) builder: &'b mut SchemaBuilder,
}

impl PlanScope<'_, '_, '_> {
    pub(crate) fn is_of_model(&self, slot: Slot) -> bool {
        self.draft.pipeline.models.iter().any(|model| model.slots().any(|other| other == slot))
    }

    /// The column of a reading, named as rules write it.
    fn column_of(
        &mut self,
        request: &ReadingRequest<'_>,
        doc: String,
        source: ReadingSource<Span, BucketSeries>,
    ) -> Result<Slot, ScopeError> {
        if let Some((slot, _)) = self.draft.readings.iter().find(|(_, known)| *known == source) {
            return Ok(*slot);
        }
        let kind = if self.is_fraction(request) { Type::Float } else { request.column_type() };
        let column = Column { name: request.to_string(), kind, doc, journalled: true };
        let slot = self.builder.add(column).map_err(|error| ScopeError::Unavailable(error.to_string()))?;
        self.draft.readings.push((slot, source));
        Ok(slot)
    }

    /// The index of a kind that has a statistic, or keeps a last value.
    fn kind(&self, name: &str) -> Result<TableIndex<KindPlan>, ScopeError> {
        let kinds = &self.draft.pipeline.kinds;
        let kind = kinds.position(|kind| kind.name == name);
        let has = |kind: &TableIndex<KindPlan>| {
            self.draft.statistic_of[*kind].is_some() || kinds[*kind].last.is_some()
        };
        kind.filter(has).ok_or_else(|| {
            let mend = "name it in the `keys` of a [[statistic]]";
            ScopeError::Unavailable(format!("nothing is counted for the kind `{name}`: {mend}"))
        })
    }

    fn counter_of(&self, kind: TableIndex<KindPlan>, name: &str) -> Result<TableIndex<String>, ScopeError> {
        let known = &self.draft.pipeline.kinds[kind].counters;
        let unknown = || ScopeError::Counter { name: name.to_owned(), known: known.as_slice().to_vec() };
        known.position(|counter| counter == name).ok_or_else(unknown)
    }

    /// Makes sure that the readings of a kind carry a window; none named is the longest that is kept.
    fn window(&mut self, kind: TableIndex<KindPlan>, window: Option<Span>) -> Result<Span, ScopeError> {
        let statistic = self.draft.statistic_of[kind];
        let statistic = statistic.ok_or_else(|| ScopeError::Unavailable("nothing is counted".to_owned()))?;
        let statistic = &self.draft.statistics[statistic];
        let DraftMeasure::Windows { tiers, .. } = &statistic.kept else {
            return Err(ScopeError::Window("an aggregate has no windows".to_owned()));
        };
        let longest = tiers.iter().map(|tier| tier.span()).max().unwrap_or_default();
        let window = window.unwrap_or(longest);
        statistic.measure(vec![window], Vec::new()).map_err(|error| ScopeError::Window(error.to_string()))?;
        let windows = &mut self.draft.pipeline.kinds[kind].windows;
        if windows.position(|known| *known == window).is_none() {
            windows.push(window);
        }
        Ok(window)
    }

    /// Makes sure that the readings of a kind sum up a series of buckets.
    fn series(
        &mut self,
        kind: TableIndex<KindPlan>,
        counter: TableIndex<String>,
        window: Span,
        width: Span,
    ) -> Result<BucketSeries, ScopeError> {
        let statistic = self.draft.statistic_of[kind];
        let statistic = statistic.ok_or_else(|| ScopeError::Unavailable("nothing is counted".to_owned()))?;
        // More than there can be are refused below.
        let buckets = u32::try_from(window.0 / width.0.max(1)).unwrap_or(u32::MAX);
        let counter = u8::try_from(counter.get()).unwrap_or(u8::MAX);
        let series = BucketSeries { counter, width, buckets };
        let known = &mut self.draft.pipeline.kinds[kind].series;
        if known.position(|other| *other == series).is_none() {
            let mut all = known.as_slice().to_vec();
            all.push(series);
            let layout = self.draft.statistics[statistic].measure(Vec::new(), all);
            layout.map_err(|error| ScopeError::Window(error.to_string()))?;
            known.push(series);
        }
        Ok(series)
    }

    /// The place among the values of a kind's aggregate of the first that is wanted.
    fn column(
        &self,
        kind: TableIndex<KindPlan>,
        name: &str,
        wanted: impl Fn(&AggregateColumn) -> bool,
    ) -> Result<TableIndex<AggregateColumn>, ScopeError> {
        let KindPlan { name: kind_name, aggregate, .. } = &self.draft.pipeline.kinds[kind];
        aggregate.position(wanted).ok_or_else(|| {
            let mend = format!("add \"{name}\" to `aggregate` of its [[statistic]]");
            ScopeError::Unavailable(format!("the aggregate of `{kind_name}` does not keep `{name}`: {mend}"))
        })
    }

    fn half_life(
        &self,
        kind: TableIndex<KindPlan>,
        wanted: Span,
    ) -> Result<TableIndex<AggregateColumn>, ScopeError> {
        let KindPlan { name, aggregate, .. } = &self.draft.pipeline.kinds[kind];
        let half_lives = || {
            aggregate.entries().filter_map(|(index, column)| match column {
                AggregateColumn::Decayed { half_life, .. } => Some((*half_life, index)),
                _ => None,
            })
        };
        half_lives().find(|(half_life, _)| *half_life == wanted).map(|(_, index)| index).ok_or_else(|| {
            let known: Vec<String> = half_lives().map(|(half_life, _)| half_life.to_string()).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            let mend = format!("it has {known}, and more may be added to `decay` of its [[statistic]]");
            ScopeError::Window(format!("the aggregate of `{name}` has no half-life {wanted}: {mend}"))
        })
    }

    /// Refuses an age that an aggregate is not to keep; other statistics have both.
    fn age(
        &self,
        kind: TableIndex<KindPlan>,
        name: &str,
        wanted: AggregateColumn,
    ) -> Result<TableIndex<KindPlan>, ScopeError> {
        let plan = &self.draft.pipeline.kinds[kind];
        if plan.last.is_some() && wanted == AggregateColumn::First {
            let why = format!("`{}` keeps its last value, and not when it was first seen", plan.name);
            return Err(ScopeError::Unavailable(why));
        }
        if !self.draft.pipeline.kinds[kind].aggregate.is_empty() {
            self.column(kind, name, |column| *column == wanted)?;
        }
        Ok(kind)
    }

    fn sum(
        &mut self,
        kind: TableIndex<KindPlan>,
        sum: &CounterSum<'_>,
    ) -> Result<Vec<(TableIndex<String>, Span)>, ScopeError> {
        let window = self.window(kind, sum.window)?;
        sum.counters.iter().map(|counter| Ok((self.counter_of(kind, counter)?, window))).collect()
    }
}

impl Scope for PlanScope<'_, '_, '_> {
    fn regex_bytes(&mut self) -> Option<&mut usize> {
        Some(&mut self.draft.regex_bytes)
    }

    fn is_over(&self) -> bool {
        (self.draft.is_over)()
    }

    fn text_function(&self, name: &str) -> Option<TextFunction> {
        functions::text_function(name)
    }

    fn fact(&self, name: &str) -> Option<(Slot, Type)> {
        let schema = self.builder.schema();
        // Columns of readings and models are not named as facts: rules ask for the reading, or for the model.
        let slot = schema.slot(name).filter(|slot| !name.contains('(') && !self.is_of_model(*slot))?;
        Some((slot, schema.column(slot).kind))
    }

    fn model(&self, name: &str) -> Option<(Slot, Mode)> {
        let (model, slot) =
            self.draft.pipeline.models.iter().find_map(|model| Some((model, model.output(name)?)))?;
        Some((slot, self.draft.model_mode(model)))
    }

    fn reading(&mut self, request: &ReadingRequest<'_>) -> Result<Slot, ScopeError> {
        if self.draft.frozen {
            return self.known_reading(request);
        }
        let source = self.source(request)?;
        let over = "from before the event; the most telling of the event's keys";
        self.column_of(request, format!("Reading `{request}`, {over}"), source)
    }

    fn is_kind(&self, name: &str) -> bool {
        self.draft.pipeline.kinds.iter().any(|kind| kind.name == name)
    }

    fn is_aggregate(&self, kind: &str) -> bool {
        self.draft.pipeline.kinds.iter().any(|plan| plan.name == kind && !plan.aggregate.is_empty())
    }

    fn is_distinct(&self, name: &str) -> bool {
        self.draft.pipeline.distincts.iter().any(|distinct| distinct.name == name)
    }

    fn counter(&self, kind: &str, counter: &str) -> Result<(), ScopeError> {
        let index = self.kind(kind)?;
        if !self.draft.pipeline.kinds[index].aggregate.is_empty() {
            let why = format!(
                "`{kind}` has an aggregate and no counters: every event is added to it, and nothing else"
            );
            return Err(ScopeError::Unavailable(why));
        }
        self.counter_of(index, counter).map(|_| ())
    }

    fn clears(&self, kind: &str, counter: &str) -> Result<(), ScopeError> {
        self.counter(kind, counter)?;
        let (index, draft) = (self.kind(kind)?, &*self.draft);
        let number = draft.pipeline.kinds[index].counter(counter);
        let is_observed = draft.pipeline.kinds[index].observe.iter().any(|(of, _)| Some(*of) == number);
        let is_of_feedback = draft.counters_of_feedback().contains(&counter);
        let statistic = draft.statistic_of[index].map(|statistic| &draft.statistics[statistic]);
        let taken = statistic.map(StatisticDraft::taken).unwrap_or_default();
        let why = if is_observed {
            "every event adds to it: clear a counter that rules add to, by `add KIND.COUNTER`"
        } else if is_of_feedback {
            "feedback adds to it, and takes that back itself: clear a counter that no class of [feedback] names"
        } else if !taken.iter().any(|(of, _)| Some(*of) == number) {
            "the pipeline does not keep what is taken back of it: let a rule in shadow clear it first, or post the \
             candidate as the rules"
        } else {
            return Ok(());
        };
        Err(ScopeError::Unavailable(format!("`{kind}.{counter}` cannot be cleared: {why}")))
    }

    fn contributors(&self, distinct: &str, label: &str) -> Result<Span, ScopeError> {
        let pipeline = &self.draft.pipeline;
        let Some(plan) = pipeline.distincts.iter().find(|plan| plan.name == *distinct) else {
            let help = expected(distinct, pipeline.distincts.iter().map(|plan| plan.name.as_str()));
            return Err(ScopeError::Unavailable(format!("nothing distinct is called `{distinct}`: {help}")));
        };
        if plan.keep == 0 {
            let why = format!("`{distinct}` remembers no values: add `keep = 16` to its [[distinct]]");
            return Err(ScopeError::Unavailable(why));
        }
        if plan.members.is_some() {
            let why = format!("`{distinct}` counts what feedback says, and events add no values to it");
            return Err(ScopeError::Unavailable(why));
        }
        let is_of = |label: &LabelPlan| pipeline.kinds[label.of].fields == plan.of;
        let found = pipeline.labels.iter().find(|known| known.name == *label && is_of(known));
        found.map(|label| label.keep).ok_or_else(|| ScopeError::Label {
            name: label.to_owned(),
            known: pipeline
                .labels
                .iter()
                .filter(|label| is_of(label))
                .map(|plan| plan.name.clone())
                .collect(),
        })
    }

    fn clears_limit(&mut self, limit: &str) -> Result<(), ScopeError> {
        let found = self.rule_limit(limit)?;
        let cleared = &mut self.draft.pipeline.cleared_limits;
        if cleared.position(|known| *known.limit.name == *limit).is_none() {
            cleared.push(found);
        }
        Ok(())
    }

    fn is_fraction(&self, request: &ReadingRequest<'_>) -> bool {
        let (kind, counter) = match request {
            ReadingRequest::Count { kind, counter, .. } => (kind, Some(counter)),
            ReadingRequest::Buckets { kind, counter, value: BucketFunction::Max, .. } => {
                (kind, Some(counter))
            }
            ReadingRequest::Aggregate { kind, value } if *value != AggregateFunction::Count => (kind, None),
            _ => return false,
        };
        let plan = self.draft.pipeline.kinds.iter().find(|plan| plan.name == *kind);
        plan.is_some_and(|plan| match counter {
            Some(counter) => {
                plan.counter(counter).is_some_and(|counter| plan.decimals_of(usize::from(counter)) > 0)
            }
            None => plan.decimals > 0,
        })
    }

    fn takes_values(&self, kind: &str) -> Result<u8, ScopeError> {
        let index = self.kind(kind)?;
        if self.draft.pipeline.kinds[index].takes_events {
            let why = format!(
                "events alone are added to `{kind}`: effects add to an aggregate with `observe = false`"
            );
            return Err(ScopeError::Unavailable(why));
        }
        Ok(self.draft.pipeline.kinds[index].decimals)
    }

    fn label(&self, kind: &str, label: &str) -> Result<Span, ScopeError> {
        self.label_of(kind, label).map(|index| self.draft.pipeline.labels[index].keep)
    }

    fn names(&self, of: NameCategory) -> Vec<String> {
        let pipeline = &self.draft.pipeline;
        match of {
            NameCategory::Fact => {
                let columns = self.builder.schema().columns().iter().zip((0..).map(Slot));
                let facts =
                    columns.filter(|(column, slot)| !column.name.contains('(') && !self.is_of_model(*slot));
                facts.map(|(column, _)| column.name.clone()).collect()
            }
            NameCategory::Kind => pipeline.kinds.iter().map(|kind| kind.name.clone()).collect(),
            NameCategory::Distinct => {
                pipeline.distincts.iter().map(|distinct| distinct.name.clone()).collect()
            }
            NameCategory::Model => {
                pipeline.models.iter().flat_map(ModelPlan::names).map(str::to_owned).collect()
            }
        }
    }
}

impl PlanScope<'_, '_, '_> {
    /// The column of a reading that the enforced rules have filled, by whatever name; nothing is added.
    fn known_reading(&mut self, request: &ReadingRequest<'_>) -> Result<Slot, ScopeError> {
        let pipeline = &self.draft.pipeline;
        let kinds: Vec<(usize, usize)> =
            pipeline.kinds.iter().map(|kind| (kind.windows.len(), kind.series.len())).collect();
        let distincts: Vec<usize> =
            pipeline.distincts.iter().map(|distinct| distinct.windows.len()).collect();
        let read: Vec<bool> = pipeline.labels.iter().map(|label| label.is_read).collect();
        let limits = pipeline.limits.len();
        let source = self.source(request);
        let pipeline = &mut self.draft.pipeline;
        pipeline.limits.truncate(limits);
        // What was asked for on the way is not kept.
        for (kind, (windows, series)) in pipeline.kinds.iter_mut().zip(kinds) {
            kind.windows.truncate(windows);
            kind.series.truncate(series);
        }
        pipeline.distincts.iter_mut().zip(distincts).for_each(|(plan, count)| plan.windows.truncate(count));
        pipeline.labels.iter_mut().zip(read).for_each(|(label, read)| label.is_read = read);
        let source = source?;
        let known = self.draft.readings.iter().find(|(_, known)| *known == source);
        known.map(|(slot, _)| *slot).ok_or_else(|| {
            let mend = "let a rule in shadow read it first, or post the candidate as the rules";
            ScopeError::Unavailable(format!("the pipeline does not fill `{request}`: {mend}"))
        })
    }

    /// Returns the source that a reading is taken from.
    fn source(
        &mut self,
        request: &ReadingRequest<'_>,
    ) -> Result<ReadingSource<Span, BucketSeries>, ScopeError> {
        Ok(match request {
            ReadingRequest::Count { kind, counter, window } => {
                let kind = self.kind(kind)?;
                let counter = self.counter_of(kind, counter)?;
                ReadingSource::Count { kind, counter, window: self.window(kind, *window)? }
            }
            ReadingRequest::Ratio { kind, numerator, denominator, at_least } => {
                let kind = self.kind(kind)?;
                let (over, under) = (self.sum(kind, numerator)?, self.sum(kind, denominator)?);
                ReadingSource::Ratio { kind, over, under, at_least: *at_least }
            }
            ReadingRequest::Buckets { kind, counter, window, width, value } => {
                let kind = self.kind(kind)?;
                let counter = self.counter_of(kind, counter)?;
                let series = self.series(kind, counter, *window, *width)?;
                ReadingSource::Buckets { kind, series, count: series.buckets, value: *value }
            }
            ReadingRequest::FirstAge { kind } => {
                let kind = self.age(self.kind(kind)?, "first", AggregateColumn::First)?;
                ReadingSource::FirstAge { kind }
            }
            ReadingRequest::LastAge { kind } => {
                let kind = self.age(self.kind(kind)?, "last", AggregateColumn::Last)?;
                ReadingSource::LastAge { kind }
            }
            ReadingRequest::Aggregate { kind, value } => {
                let kind = self.kind(kind)?;
                let of = |name: &str, wanted| self.column(kind, name, |column| *column == wanted);
                let column = match value {
                    AggregateFunction::Count => of("count", AggregateColumn::Count)?,
                    AggregateFunction::Sum => of("sum", AggregateColumn::Sum)?,
                    AggregateFunction::Min => of("min", AggregateColumn::Min)?,
                    AggregateFunction::Max => of("max", AggregateColumn::Max)?,
                    AggregateFunction::Decayed(half_life) => self.half_life(kind, *half_life)?,
                };
                ReadingSource::Aggregate { kind, column }
            }
            ReadingRequest::Distinct { name, window } => {
                let distincts = &mut self.draft.pipeline.distincts;
                let index = distincts
                    .position(|distinct| distinct.name == *name)
                    .ok_or_else(|| ScopeError::Unavailable(format!("nothing distinct is called `{name}`")))?;
                let plan = &mut distincts[index];
                plan.measure(vec![*window]).check().map_err(|error| ScopeError::Window(error.to_string()))?;
                if plan.windows.position(|known| known == window).is_none() {
                    plan.windows.push(*window);
                }
                ReadingSource::Distinct { distinct: index, window: *window }
            }
            ReadingRequest::Last { name } => {
                let kinds = &self.draft.pipeline.kinds;
                let kind = kinds.position(|kind| kind.name == *name && kind.last.is_some());
                let kept = kinds.iter().filter(|kind| kind.last.is_some()).map(|kind| kind.name.as_str());
                ReadingSource::Last {
                    kind: kind.ok_or_else(|| {
                        let help = expected(name, kept);
                        ScopeError::Unavailable(format!("no [[last]] is called `{name}`: {help}"))
                    })?,
                }
            }
            ReadingRequest::New { name } => self.new_reading(name)?,
            ReadingRequest::Marked { kind, label } => {
                let label = self.label_of(kind, label)?;
                self.draft.pipeline.labels[label].is_read = true;
                ReadingSource::Marked { label }
            }
            ReadingRequest::Reputation { name, value } => {
                ReadingSource::Reputation { reputation: self.reputation(name)?, value: *value }
            }
            ReadingRequest::Limit { name, value } => {
                ReadingSource::Limit { limit: self.limit(name)?, value: *value }
            }
            ReadingRequest::Estimated(of) => match self.source(of)? {
                ReadingSource::Count { kind, .. }
                | ReadingSource::Ratio { kind, .. }
                | ReadingSource::Buckets { kind, .. }
                | ReadingSource::FirstAge { kind }
                | ReadingSource::LastAge { kind }
                | ReadingSource::Last { kind }
                | ReadingSource::New { kind }
                | ReadingSource::Aggregate { kind, .. }
                | ReadingSource::Estimated { kind } => ReadingSource::Estimated { kind },
                ReadingSource::Distinct { distinct, .. }
                | ReadingSource::NewValue { distinct }
                | ReadingSource::EstimatedDistinct { distinct } => {
                    ReadingSource::EstimatedDistinct { distinct }
                }
                ReadingSource::Limit { .. } => {
                    return Err(ScopeError::Unavailable("a limit is never an estimate".to_owned()));
                }
                ReadingSource::Reputation { .. } => {
                    let why = "ask whether a counter that the reputation is made of is an estimate";
                    return Err(ScopeError::Unavailable(why.to_owned()));
                }
                ReadingSource::Marked { .. } => {
                    return Err(ScopeError::Unavailable("a label is never an estimate".to_owned()));
                }
            },
        })
    }

    /// The source of whether something of this name is new.
    fn new_reading(&self, name: &str) -> Result<ReadingSource<Span, BucketSeries>, ScopeError> {
        let pipeline = &self.draft.pipeline;
        if let Some(distinct) = pipeline.distincts.position(|distinct| distinct.name == name) {
            if pipeline.distincts[distinct].precision.is_some() {
                let why = format!("`{name}` is counted approximately, and does not know its values");
                return Err(ScopeError::Unavailable(format!("{why}: count with `method = \"exact\"`")));
            }
            if pipeline.distincts[distinct].members.is_some() {
                let why =
                    format!("`{name}` is counted by feedback, and not asked about the values of events");
                return Err(ScopeError::Unavailable(why));
            }
            return Ok(ReadingSource::NewValue { distinct });
        }
        Ok(ReadingSource::New { kind: self.kind(name)? })
    }

    /// The index of a reputation.
    fn reputation(&self, name: &str) -> Result<TableIndex<ReputationPlan>, ScopeError> {
        let reputations = &self.draft.pipeline.reputations;
        reputations.position(|plan| plan.formula.name == name).ok_or_else(|| {
            let reports = self.draft.pipeline.reports.as_ref();
            if reports.is_some_and(|reports| reports.standing.name == name) {
                let message = format!("`{name}` is the reputation of reporters, and no event has one");
                return ScopeError::Unavailable(message);
            }
            let help = expected(name, reputations.iter().map(|plan| plan.formula.name.as_str()));
            ScopeError::Unavailable(format!("there is no reputation `{name}`: {help}"))
        })
    }

    /// The place of a decayed sum among the values of a kind's aggregate.
    pub(crate) fn decayed_sum(
        &self,
        kind: &str,
        half_life: Span,
    ) -> Result<TableIndex<AggregateColumn>, ScopeError> {
        self.half_life(self.kind(kind)?, half_life)
    }

    /// The place of a counter among those of a kind.
    pub(crate) fn counter_place(&self, kind: &str, name: &str) -> Result<TableIndex<String>, ScopeError> {
        let index = self.kind(kind)?;
        if !self.draft.pipeline.kinds[index].aggregate.is_empty() {
            let why =
                format!("`{kind}` has an aggregate and no counters: name its decayed sum with `decayed`");
            return Err(ScopeError::Unavailable(why));
        }
        self.counter_of(index, name)
    }

    /// The index of a limit whose fields are facts of the pipeline.
    fn limit(&mut self, name: &str) -> Result<TableIndex<RuleLimit>, ScopeError> {
        let limit = self.rule_limit(name)?;
        let used = &mut self.draft.pipeline.limits;
        let known = used.position(|known| *known.limit.name == *name);
        // Its condition is compiled once all that conditions can name is defined.
        Ok(known.unwrap_or_else(|| used.push(limit)))
    }

    /// A limit with the facts that its key is made of.
    fn rule_limit(&self, name: &str) -> Result<RuleLimit, ScopeError> {
        let limits = self.draft.limits;
        let Some(limit) = limits.iter().find(|limit| *limit.name == *name) else {
            let help = expected(name, limits.iter().map(|limit| &*limit.name));
            return Err(ScopeError::Unavailable(format!("there is no limit `{name}`: {help}")));
        };
        let mut key = Vec::with_capacity(limit.key.len());
        for field in &limit.key {
            let Some((slot, _)) = self.fact(&field.name) else {
                let field = &field.name;
                let why =
                    format!("the limit `{name}` counts by `{field}`, which is no fact of this pipeline");
                return Err(ScopeError::Unavailable(why));
            };
            key.push(slot);
        }
        Ok(RuleLimit { limit: Arc::clone(limit), key, when: None })
    }

    /// The index of a label that the keys of a kind can have.
    fn label_of(&self, kind: &str, label: &str) -> Result<TableIndex<LabelPlan>, ScopeError> {
        let pipeline = &self.draft.pipeline;
        let is_of = |plan: &LabelPlan| pipeline.kinds[plan.of].name == kind;
        let found = pipeline.labels.position(|plan| is_of(plan) && plan.name == label);
        found.ok_or_else(|| ScopeError::Label {
            name: label.to_owned(),
            known: pipeline.labels.iter().filter(|plan| is_of(plan)).map(|plan| plan.name.clone()).collect(),
        })
    }
}

/// The names that conditions of kinds and limits can use: facts that are known before statistics are read.
pub(crate) struct EarlyScope<'d, 'a, 'b> {
    plan: PlanScope<'d, 'a, 'b>,
    /// Limits that were asked for, in vain.
    pub(crate) limits: Vec<String>,
}

impl<'d, 'a, 'b> EarlyScope<'d, 'a, 'b> {
    pub(crate) fn new(
        draft: &'d mut PipelineDraft<'a>,
        builder: &'b mut SchemaBuilder,
    ) -> EarlyScope<'d, 'a, 'b> {
        EarlyScope { plan: PlanScope { draft, builder }, limits: Vec::new() }
    }
}

impl Scope for EarlyScope<'_, '_, '_> {
    fn regex_bytes(&mut self) -> Option<&mut usize> {
        self.plan.regex_bytes()
    }

    fn is_over(&self) -> bool {
        self.plan.is_over()
    }

    fn text_function(&self, name: &str) -> Option<TextFunction> {
        functions::text_function(name)
    }

    fn fact(&self, name: &str) -> Option<(Slot, Type)> {
        let count = self.plan.draft.pipeline.columns.count;
        self.plan.fact(name).filter(|(slot, _)| usize::from(slot.0) < count)
    }

    fn reading(&mut self, request: &ReadingRequest<'_>) -> Result<Slot, ScopeError> {
        if let ReadingRequest::Limit { name, .. } = request {
            self.limits.push((*name).to_owned());
        }
        let why = "it is read in the step that this condition comes before";
        Err(ScopeError::Unavailable(format!("`{request}` is not known yet: {why}; name facts of the event")))
    }

    fn is_kind(&self, name: &str) -> bool {
        self.plan.is_kind(name)
    }

    fn is_aggregate(&self, kind: &str) -> bool {
        self.plan.is_aggregate(kind)
    }

    fn is_distinct(&self, name: &str) -> bool {
        self.plan.is_distinct(name)
    }

    fn names(&self, of: NameCategory) -> Vec<String> {
        match of {
            NameCategory::Fact => {
                self.plan.names(of).into_iter().filter(|name| self.fact(name).is_some()).collect()
            }
            NameCategory::Kind | NameCategory::Distinct => self.plan.names(of),
            NameCategory::Model => Vec::new(),
        }
    }
}

pub(crate) fn scope_error(error: ScopeError) -> String {
    match error {
        ScopeError::Counter { name, known } => format!("no counter `{name}` among {}", known.join(", ")),
        ScopeError::Label { name, known } => format!("no label `{name}` among {}", known.join(", ")),
        ScopeError::Window(why) | ScopeError::Unavailable(why) => why,
    }
}

/// Reports what is wrong with the condition of a rule or a kind.
pub(crate) fn report(
    diagnostics: Vec<Diagnostic>,
    origin: &ConfigOrigin,
    when: &str,
    name: &str,
    problems: &mut ConfigProblems,
) {
    for diagnostic in diagnostics {
        let place = inside(origin, when, diagnostic.range);
        problems.push(
            diagnostic.severity,
            &place,
            format!("`{name}`: {}", diagnostic.message),
            diagnostic.help,
        );
    }
}
