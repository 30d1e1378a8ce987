//! A `[[statistic]]`, checked: counters over windows or an aggregate, and the sketch in front of either.

use event::{Schema, Slot, Span, Type};
use stats::{
    Admission, AggregateColumn, AggregateLayout, BucketSeries, DecayWeight, Layout, LayoutError, Measure,
    Sketch, Tier,
};

use crate::aggregate;
use crate::config::{ConfigProblems, ConfigView, expected};

/// Share of keys that a sketch made for a number of keys may admit too early.
const EARLY: f64 = 0.01;

/// A statistic as configured.
pub(crate) struct StatisticDraft<'a> {
    pub(crate) name: String,
    pub(crate) view: ConfigView<'a>,
    pub(crate) kept: DraftMeasure,
    pub(crate) admit: Option<Admission>,
    /// Decimals of values and amounts.
    pub(crate) decimals: u8,
}

/// The measure that is kept per key.
pub(crate) enum DraftMeasure {
    /// Counters; their windows are known once all rules have asked.
    ///
    /// The first `shown` of them count, the others hold what was taken back of those.
    ///
    /// `amounts` are those that go up by the fact `value`.
    Windows {
        counters: Vec<String>,
        shown: usize,
        tiers: Vec<Tier>,
        keep: Option<Span>,
        amounts: Vec<u8>,
        value: Option<Slot>,
    },
    /// An aggregate, and the fact that its values are taken from.
    ///
    /// Events are added to it, or only the values of effects.
    Aggregate { aggregate: AggregateLayout, value: Option<Slot>, takes_events: bool },
}

impl<'a> StatisticDraft<'a> {
    /// The statistic, and whether it can be kept; if not, it has been said why. Of its counters, feedback adds to those of the
    /// first list, and something is taken back of those of the second.
    pub(crate) fn compile(
        name: &str,
        view: ConfigView<'a>,
        schema: &Schema,
        (said, taken): (&[String], &[String]),
        problems: &mut ConfigProblems,
    ) -> (StatisticDraft<'a>, bool) {
        let (kept, sound) = if view.is_given("aggregate") {
            let kept = aggregate(name, view, schema, problems);
            let sound = kept.is_some();
            let none = DraftMeasure::Windows {
                counters: Vec::new(),
                shown: 0,
                tiers: Vec::new(),
                keep: None,
                amounts: Vec::new(),
                value: None,
            };
            (kept.unwrap_or(none), sound)
        } else {
            windows(name, view, schema, (said, taken), problems)
        };
        let keys = view.strings("keys");
        let admit = view.table("admit").and_then(|view| {
            let is_other = |kind: &str| keys.iter().all(|(key, _)| *key != kind);
            for (kind, origin) in view.strings("kinds").into_iter().filter(|(kind, _)| is_other(kind)) {
                let help = expected(kind, keys.iter().map(|(key, _)| *key));
                problems.add(origin, format!("`{kind}` is none of the `keys` of `{name}`"), Some(help));
            }
            admit(name, view, problems)
        });
        if let (Some(_), DraftMeasure::Aggregate { takes_events: false, .. }) = (admit, &kept) {
            let help = "a sketch counts events: leave `admit` out".to_owned();
            problems.add(view.origin("observe"), "an aggregate without events has no `admit`", Some(help));
        }
        if admit.is_some() && !view.strings("amounts").is_empty() {
            let help =
                "a sketch counts events: leave `admit` out, or count amounts in a statistic of their own";
            problems.add(view.origin("amounts"), "`amounts` have no `admit`", Some(help.to_owned()));
        }
        let is_fraction = match &kept {
            DraftMeasure::Windows { amounts, .. } => !amounts.is_empty(),
            DraftMeasure::Aggregate { value, takes_events, .. } => value.is_some() || !takes_events,
        };
        if sound && view.is_given("decimals") && !is_fraction {
            let help =
                "leave it out: it is for `amounts`, and for aggregates with a `value` or `observe = false`";
            problems.add(view.origin("decimals"), "nothing here has decimals", Some(help.to_owned()));
        }
        let decimals = view.integer("decimals").and_then(|decimals| u8::try_from(decimals).ok()).unwrap_or(0);
        (StatisticDraft { name: name.to_owned(), view, kept, admit, decimals }, sound)
    }

    /// The sketch in front of one of its kinds, by the kind's name.
    pub(crate) fn admit_of(&self, kind: &str) -> Option<Admission> {
        let view = self.view.table("admit")?;
        let is_meant = !view.is_given("kinds") || view.strings("kinds").iter().any(|(name, _)| *name == kind);
        self.admit.filter(|_| is_meant)
    }

    /// Names of the counters; an aggregate has none.
    pub(crate) fn counters(&self) -> &[String] {
        match &self.kept {
            DraftMeasure::Windows { counters, shown, .. } => &counters[..*shown],
            DraftMeasure::Aggregate { .. } => &[],
        }
    }

    /// Counters of which something can be taken back, and those that hold it: both by index.
    pub(crate) fn taken(&self) -> Vec<(u8, u8)> {
        let DraftMeasure::Windows { counters, shown, .. } = &self.kept else { return Vec::new() };
        let taken = counters.iter().enumerate().skip(*shown).filter_map(|(index, name)| {
            let of = name.strip_prefix(Layout::TAKEN_BACK)?;
            let of = counters.iter().position(|counter| counter == of)?;
            Some((u8::try_from(of).ok()?, u8::try_from(index).ok()?))
        });
        taken.collect()
    }

    /// Returns the measure that is kept, with readings over these windows and series.
    pub(crate) fn measure(
        &self,
        windows: Vec<Span>,
        series: Vec<BucketSeries>,
    ) -> Result<Measure, LayoutError> {
        match &self.kept {
            DraftMeasure::Windows { counters, tiers, keep, .. } => {
                let layout = Layout::new(counters.clone(), tiers, windows, *keep)?;
                layout.with_series(series).map(Measure::Windows)
            }
            DraftMeasure::Aggregate { aggregate, .. } => Ok(Measure::Aggregate(aggregate.clone())),
        }
    }
}

fn windows(
    name: &str,
    view: ConfigView<'_>,
    schema: &Schema,
    (said, taken): (&[String], &[String]),
    problems: &mut ConfigProblems,
) -> (DraftMeasure, bool) {
    if view.is_given("observe") {
        let help = "leave it out: counters go up by what [observe], [settle], [feedback] and effects name";
        problems.add(view.origin("observe"), "`observe` is for aggregates", Some(help.to_owned()));
    }
    let is_over_amounts = |key: &str| key == "value" && view.is_given("amounts");
    for key in ["value", "decay"].into_iter().filter(|key| view.is_given(key) && !is_over_amounts(key)) {
        let help = match key {
            "value" => {
                "add `aggregate = [...]` instead of `counts` and `windows`, or `amounts = [...]`, the counters that go up by it"
            }
            _ => "add `aggregate = [...]` instead of `counts` and `windows`, or leave it out",
        };
        problems.add(view.origin(key), format!("`{key}` is for aggregates"), Some(help.to_owned()));
    }
    let lacks: Vec<&str> = ["counts", "windows"].into_iter().filter(|key| !view.is_given(key)).collect();
    match lacks[..] {
        [] => {}
        [key] => {
            let message = format!("[[statistic]] has no `{key}`");
            problems.add(view.origin(""), message, Some(format!("add `{key} = [...]`")));
        }
        _ => {
            let help = "add `counts = [...]` and `windows = [...]` for counters over time, or `aggregate = [...]` and \
                        `keep = ...` for a few values over all events";
            let message = "[[statistic]] has neither `counts` nor `aggregate`";
            problems.add(view.origin(""), message, Some(help.to_owned()));
        }
    }
    let (mut tiers, mut sound) = (Vec::new(), lacks.is_empty());
    for (text, origin) in view.strings("windows") {
        match text.parse::<Tier>() {
            Ok(tier) => tiers.push(tier),
            Err(error) => {
                problems.add(origin, format!("`{text}` is no tier"), Some(error.to_string()));
                sound = false;
            }
        }
    }
    let mut counters: Vec<String> =
        view.strings("counts").into_iter().map(|(name, _)| name.to_owned()).collect();
    let shown = counters.len();
    let taken = counters.iter().filter(|name| taken.contains(name));
    let taken: Vec<String> = taken.map(|name| format!("{}{name}", Layout::TAKEN_BACK)).collect();
    counters.extend(taken);
    for (counter, origin) in view.strings("counts") {
        if judge::KIND_METHODS.contains(&counter) || judge::VALUE_METHODS.contains(&counter) {
            let message = format!("a counter cannot be called `{counter}`");
            problems.add(origin, message, Some("rules call something else by that name".to_owned()));
        }
    }
    let (amounts, value) = self::amounts(name, view, schema, &counters[..shown], said, problems);
    let keep = view.span("keep");
    // The layout is made again with its windows: now what is wrong with the tiers is said once.
    if let (true, Err(error)) = (sound, Layout::new(counters.clone(), &tiers, Vec::new(), keep)) {
        problems.add(view.origin("windows"), error.to_string(), None);
        sound = false;
    }
    (DraftMeasure::Windows { counters, shown, tiers, keep, amounts, value }, sound)
}

/// The counters that go up by a fact, by index, and the fact.
fn amounts(
    name: &str,
    view: ConfigView<'_>,
    schema: &Schema,
    counters: &[String],
    said: &[String],
    problems: &mut ConfigProblems,
) -> (Vec<u8>, Option<Slot>) {
    let given = view.strings("amounts");
    if given.is_empty() {
        return (Vec::new(), None);
    }
    let mut amounts = Vec::new();
    for (counter, origin) in given.iter().copied() {
        let Some(index) = counters.iter().position(|known| known == counter) else {
            let help = expected(counter, counters.iter().map(String::as_str));
            problems.add(origin, format!("`{counter}` is none of the `counts` of `{name}`"), Some(help));
            continue;
        };
        amounts.extend(u8::try_from(index).ok());
    }
    let Some(value) = view.str("value") else {
        let help = "add `value = ...`: the integer fact by which they go up".to_owned();
        problems.add(view.origin("amounts"), "`amounts` have no value", Some(help));
        return (Vec::new(), None);
    };
    let slot = value_slot(value, view, schema, problems);
    let of_feedback = given.iter().find(|(counter, _)| said.iter().any(|said| said == counter));
    if let (Some(slot), Some((counter, origin))) = (slot, of_feedback)
        && !schema.column(slot).journalled
    {
        let message = format!("feedback adds to `{counter}`, and `{value}` is not in the journal");
        let help = "feedback goes by what was logged: take a fact that is journalled".to_owned();
        problems.add(origin, message, Some(help));
    }
    (amounts, slot)
}

fn aggregate(
    name: &str,
    view: ConfigView<'_>,
    schema: &Schema,
    problems: &mut ConfigProblems,
) -> Option<DraftMeasure> {
    // An empty list, which kept versions have, asks for nothing.
    let asks = |key: &&str| view.is_given(key) && !view.strings(key).is_empty();
    if let Some(key) = ["counts", "windows", "readings", "amounts"].into_iter().find(asks) {
        let message = format!("`{name}` has `aggregate` and `{key}`");
        let help = match key {
            "readings" => {
                "an aggregate has no windows, and all of it is read for every event: leave `readings` out"
            }
            _ => {
                "a statistic has counters or an aggregate: make a [[kind]] of the same fact for the other one"
            }
        };
        problems.add(view.origin(key), message, Some(help.to_owned()));
        return None;
    }
    let takes_events = view.bool("observe") != Some(false);
    if !takes_events && view.is_given("value") {
        let help = "leave it out: effects say what they add".to_owned();
        problems.add(view.origin("value"), "an aggregate without events has no `value`", Some(help));
    }
    let value = view.str("value").map(|value| value_slot(value, view, schema, problems));
    let has_values = value.is_some() || !takes_events;
    let mut columns = Vec::new();
    for (word, origin) in view.strings("aggregate") {
        let of_value = matches!(word, "sum" | "min" | "max");
        if of_value && !has_values {
            let help = "add `value = ...`: the integer fact that it is over".to_owned();
            problems.add(origin, format!("`{word}` has no value"), Some(help));
        }
        columns.extend(aggregate::column(word));
    }
    let weight = if has_values { DecayWeight::Value } else { DecayWeight::One };
    let half_lives = view.strings("decay");
    if let Some((_, origin)) = half_lives.get(AggregateLayout::DECAYED_MAX) {
        let message = format!("`decay` has {} half-lives", half_lives.len());
        problems.add(origin, message, Some(format!("at most {} are kept", AggregateLayout::DECAYED_MAX)));
        return None;
    }
    let parsed = half_lives.iter().filter_map(|(text, _)| text.parse().ok());
    columns.extend(parsed.map(|half_life| AggregateColumn::Decayed { half_life, weight }));
    let is_used = |column: &AggregateColumn| {
        !matches!(column, AggregateColumn::First | AggregateColumn::Last | AggregateColumn::Count)
    };
    if value.is_some() && !columns.iter().any(is_used) {
        let help = "add `sum`, `min` or `max` to `aggregate`, or `decay`".to_owned();
        problems.add(view.origin("value"), "nothing is kept of `value`", Some(help));
    }
    let Some(keep) = view.span("keep") else {
        // One that failed its check has been told of.
        if !view.is_given("keep") {
            let help = "add `keep = \"30d\"`: how long a key is kept after its last event".to_owned();
            problems.add(view.origin("aggregate"), "an aggregate has no `keep`", Some(help));
        }
        return None;
    };
    if columns.is_empty() && (!view.strings("aggregate").is_empty() || !half_lives.is_empty()) {
        // None of the words is one: that has been told.
        return None;
    }
    match AggregateLayout::new(columns, keep) {
        Ok(aggregate) => Some(DraftMeasure::Aggregate { aggregate, value: value.flatten(), takes_events }),
        Err(error) => {
            problems.add(view.origin("aggregate"), error.to_string(), None);
            None
        }
    }
}

fn value_slot(
    value: &str,
    view: ConfigView<'_>,
    schema: &Schema,
    problems: &mut ConfigProblems,
) -> Option<Slot> {
    let origin = view.origin("value");
    let Some(slot) = schema.slot(value) else {
        let integers = schema.columns().iter().filter(|column| column.kind == Type::Integer);
        let help = expected(value, integers.map(|column| column.name.as_str()));
        problems.add(origin, format!("there is no fact `{value}`"), Some(help));
        return None;
    };
    let kind = schema.column(slot).kind;
    if kind != Type::Integer && !(kind == Type::Float && view.is_given("decimals")) {
        let help = match kind {
            Type::Float => {
                "sums are exact: add `decimals = 2`, or send it as an integer of a smaller unit, such as cents"
            }
            _ => "expected a fact of type integer",
        };
        problems.add(origin, format!("`{value}` is of type {kind}"), Some(help.to_owned()));
        return None;
    }
    Some(slot)
}

fn admit(name: &str, view: ConfigView<'_>, problems: &mut ConfigProblems) -> Option<Admission> {
    let bytes = match (view.is_given("memory"), view.is_given("keys")) {
        (true, false) => usize::try_from(view.size("memory")?).ok()?,
        (false, true) => Sketch::bytes_for(u64::try_from(view.integer("keys")?).ok()?, EARLY),
        (true, true) => {
            let help = "leave one of them out: `keys` is how much memory so many keys need".to_owned();
            problems.add(view.origin("keys"), "`admit` has both `memory` and `keys`", Some(help));
            return None;
        }
        (false, false) => {
            let help =
                "add `memory = \"64MiB\"`, or `keys = ...`: how many keys are expected within `rotate`";
            let message = "`admit` has neither `memory` nor `keys`";
            problems.add(view.origin(""), message, Some(help.to_owned()));
            return None;
        }
    };
    // What does not fit was told of when the text was checked.
    let after = u8::try_from(view.integer("after")?).ok().filter(|after| Admission::AFTER.contains(after))?;
    Some(Admission { sketch: Admission::sketch_of(name), after, rotate: view.span("rotate")?, bytes })
}
