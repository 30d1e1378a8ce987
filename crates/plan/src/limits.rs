//! `[[limit]]`, checked.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use event::{Kind, SchemaBuilder, Span};
use judge::{Conjunct, Severity, conjuncts};
use stats::{NumberRegistry, NumberedSection, RegisteredName};

use crate::config::{ConfigOrigin, ConfigProblems, ConfigView, Document, expected, inside};
use crate::entries;
use crate::failure_mode::FailureMode;
use crate::limit::{
    BanPlan, BucketError, Enforcement, FIELDS_MAX, FieldForm, LIMITS, LimitAlgorithm, LimitException,
    LimitField, LimitPlan, Period, WINDOW_MAX, Zone, interval,
};
use crate::pipeline::ReadingSource;
use crate::pipeline::draft::PipelineDraft;
use crate::pipeline::scope::EarlyScope;

/// The limits of the main file.
pub(super) fn compile(
    document: &Document,
    numbers: &mut NumberRegistry,
    problems: &mut ConfigProblems,
) -> Vec<Arc<LimitPlan>> {
    let mut names = HashSet::new();
    let mut limits = Vec::new();
    let views = entries(document, "limit", problems);
    for view in &views {
        // What is absent here failed its check, and the limit is never used.
        let Some(name) = view.str("name") else { continue };
        if !names.insert(name) {
            problems.add(view.origin("name"), format!("limit `{name}` is defined twice"), None);
            continue;
        }
        let registered =
            RegisteredName { space: LIMITS, section: NumberedSection::Limit, name: name.to_owned() };
        match numbers.allot(registered) {
            Ok(kind) => limits.extend(limit(view, name, kind, problems).map(Arc::new)),
            Err(error) => problems.add(view.origin("name"), error.to_string(), None),
        }
    }
    for view in &views {
        for (other, origin) in view.strings("also") {
            if !names.contains(other) || view.str("name") == Some(other) {
                let help = expected(other, names.iter().copied());
                problems.add(origin, format!("there is no other limit `{other}`"), Some(help));
            }
        }
    }
    limits
}

/// Warns of conditions that nothing asks for.
pub(super) fn warn_of_idle_conditions(
    main: &Document,
    drafts: &[PipelineDraft<'_>],
    problems: &mut ConfigProblems,
) {
    for view in main.list("limit") {
        let Some(name) = view.str("name").filter(|_| view.is_given("when")) else { continue };
        let is_asked_for =
            |draft: &PipelineDraft<'_>| draft.pipeline.limits.iter().any(|asked| *asked.limit.name == *name);
        if !drafts.iter().any(is_asked_for) {
            let message =
                format!("no rule asks for the limit `{name}`, and takes by its name do not ask for `when`");
            let help = format!("ask for it in a rule, with `over('{name}')`, or take `when` out");
            problems.push(Severity::Warning, view.origin("when"), message, Some(help));
        }
    }
}

/// A rule's use of a limit, and the events for which it needs the answer; `None` for all.
struct LimitUse {
    origin: ConfigOrigin,
    rule: String,
    of: Option<String>,
}

impl PipelineDraft<'_> {
    /// Compiles the conditions of the limits that rules ask for.
    pub(super) fn limit_conditions(
        &mut self,
        main: &Document,
        builder: &mut SchemaBuilder,
        problems: &mut ConfigProblems,
    ) {
        for view in main.list("limit") {
            let (Some(name), Some(when)) = (view.str("name"), view.str("when")) else { continue };
            let asked = self.pipeline.limits.position(|asked| *asked.limit.name == *name);
            let Some(at) = asked else { continue };
            let library = self.library.clone();
            let compiled = judge::compile(when, &library, &mut EarlyScope::new(self, builder));
            let found = match &compiled {
                Ok(condition) => condition.warnings().to_vec(),
                Err(found) => found.clone(),
            };
            for found in found {
                let place = inside(view.origin("when"), when, found.range);
                let message = format!("`{name}`, for events of `{}`: {}", self.pipeline.name, found.message);
                problems.push(found.severity, &place, message, found.help);
            }
            self.pipeline.limits[at].when =
                compiled.ok().map(|condition| (Arc::new(condition), judge::canonical(when)));
        }
    }

    /// Warns of limits that take for every event although all rules that ask for them need that for some events only.
    pub(super) fn wide_limits(&mut self, builder: &mut SchemaBuilder, problems: &mut ConfigProblems) {
        let mut asking: BTreeMap<String, Vec<LimitUse>> = BTreeMap::new();
        for view in self.document.list("rule") {
            let (Some(rule), Some(when)) = (view.str("name"), view.str("when")) else { continue };
            let limits = self.limits_of_rule(rule);
            if limits.is_empty() {
                continue;
            }
            let (mut of, mut asked) = (Vec::new(), Vec::new());
            for Conjunct { source, range } in conjuncts(when) {
                let library = self.library.clone();
                let mut scope = EarlyScope::new(self, builder);
                match judge::compile(&source, &library, &mut scope) {
                    Ok(_) => of.push(source),
                    Err(_) => asked.extend(scope.limits.into_iter().map(|limit| (limit, range.clone()))),
                }
            }
            for limit in limits {
                let place = asked.iter().find(|(name, _)| *name == limit).map(|(_, range)| range.clone());
                let of = Some(of.join(" && ")).filter(|of| place.is_some() && !of.is_empty());
                let origin = inside(view.origin("when"), when, place.unwrap_or(0..when.len()));
                asking.entry(limit).or_default().push(LimitUse { origin, rule: rule.to_owned(), of });
            }
        }
        for (limit, asking) in asking {
            let is_narrow = self.limits.iter().any(|known| *known.name == *limit && known.when.is_some());
            let mut of: Vec<&str> = asking.iter().filter_map(|asking| asking.of.as_deref()).collect();
            if is_narrow || of.len() < asking.len() {
                continue;
            }
            let Some(LimitUse { origin, rule, .. }) = asking.first() else { continue };
            of.sort_unstable();
            of.dedup();
            let of = match of.as_slice() {
                [one] => (*one).to_owned(),
                several => format!("({})", several.join(") || (")),
            };
            let message = format!(
                "`{rule}`: every event takes from the limit `{limit}`, also where `{of}` does not hold"
            );
            let line = |when: &str| format!("`when = {}`", toml_edit::Value::from(when).to_string().trim());
            let help = format!(
                "add {} to its [[limit]] if only those events are to be counted, or {} if all are",
                line(&of),
                line("true")
            );
            problems.push(Severity::Warning, origin, message, Some(help));
        }
    }

    /// The limits that a rule reads.
    fn limits_of_rule(&self, rule: &str) -> Vec<String> {
        let Some(rule) = self.pipeline.rules.rules().iter().find(|known| known.name == rule) else {
            return Vec::new();
        };
        let slots: Vec<_> = rule.reads().map(|read| read.slot).collect();
        let read = self.readings.iter().filter(|(slot, _)| slots.contains(slot));
        let mut limits: Vec<String> = read
            .filter_map(|(_, source)| match source {
                ReadingSource::Limit { limit, .. } => {
                    Some(self.pipeline.limits[*limit].limit.name.to_string())
                }
                _ => None,
            })
            .collect();
        limits.sort_unstable();
        limits.dedup();
        limits
    }
}

fn limit(view: &ConfigView<'_>, name: &str, kind: Kind, problems: &mut ConfigProblems) -> Option<LimitPlan> {
    let before = problems.list().len();
    let count = u64::try_from(view.integer("count")?).ok()?;
    let pace = pace(view, count, problems)?;
    let mut key = Vec::new();
    for (text, origin) in view.strings("key") {
        let (field, how) = text.split_once(':').unwrap_or((text, "exact"));
        match how.parse() {
            Ok(how) if !field.is_empty() => key.push(LimitField { name: field.to_owned(), how }),
            _ => {
                let help = expected(how, FieldForm::names());
                problems.add(origin, format!("`{text}` is no field of a key"), Some(help));
            }
        }
    }
    if key.len() > FIELDS_MAX {
        let message = format!("the key has {} fields", key.len());
        problems.add(view.origin("key"), message, Some(format!("at most {FIELDS_MAX} are possible")));
    }
    let word = view.str("enforcement")?;
    let enforcement = Enforcement::WORDS.iter().find(|(_, known)| *known == word)?.0;
    let is_shadow = enforcement == Enforcement::ShadowBan;
    let counts_all = match view.str("counts") {
        Some(word) => word == "all",
        None => is_shadow || !matches!(pace, LimitAlgorithm::Bucket { .. }),
    };
    if is_shadow && !counts_all {
        let message = "a ban in the shadow counts all: what is not counted is answered sooner";
        problems.add(view.origin("counts"), message, Some("leave `counts` out".to_owned()));
    }
    let ban = view.table("ban").and_then(|view| {
        let after = u64::try_from(view.integer("after")?).ok()?;
        Some(BanPlan { after, within: view.span("within")?, lasts: view.span("for")? })
    });
    if let (Some(ban), Some(view)) = (ban, view.table("ban")) {
        for (key, span) in [("within", ban.within), ("for", ban.lasts)] {
            if span > WINDOW_MAX {
                problems.add(view.origin(key), format!("`{key}` is too long"), Some(longest()));
            }
        }
    }
    let exceptions = view.tables("override").into_iter().map(|view| LimitException {
        limit: name.to_owned(),
        key: view.entries("key").into_iter().map(|(value, _)| value).collect(),
        count: view.integer("count").and_then(|count| u64::try_from(count).ok()),
        exempt: view.bool("exempt").unwrap_or_default(),
        until: view.time("until"),
    });
    let exceptions: Vec<LimitException> = exceptions.collect();
    for (exception, view) in exceptions.iter().zip(view.tables("override")) {
        if exception.key.len() != key.len() {
            let message = format!("the key of `{name}` has {} values", key.len());
            problems.add(view.origin("key"), message, Some("give them in the order of its `key`".to_owned()));
        }
        if exception.exempt == exception.count.is_some() {
            let help = "give either `count` or `exempt = true`".to_owned();
            problems.add(
                view.origin(""),
                "the exception has neither `count` nor `exempt`, or both",
                Some(help),
            );
        }
    }
    let plan = LimitPlan {
        name: name.into(),
        description: view.str("description").unwrap_or_default().to_owned(),
        kind,
        shares_kind: false,
        key,
        count,
        pace,
        cost: u64::try_from(view.integer("cost")?).ok()?,
        counts_all,
        enforcement,
        on_error: if view.str("on_error")? == "closed" { FailureMode::Closed } else { FailureMode::Open },
        exact: view.bool("exact").unwrap_or_default(),
        ban,
        when: view.str("when").map(judge::canonical),
        also: view.strings("also").into_iter().map(|(name, _)| name.to_owned()).collect(),
        exceptions,
    };
    if let Err(error) = plan.measures() {
        problems.add(view.origin("per"), error.to_string(), None);
    }
    (problems.list().len() == before).then_some(plan)
}

fn longest() -> String {
    format!("at most {WINDOW_MAX}")
}

fn pace(view: &ConfigView<'_>, count: u64, problems: &mut ConfigProblems) -> Option<LimitAlgorithm> {
    let per = view.str("per")?;
    let period = Period::ALL.into_iter().find(|period| period.name() == per);
    let mode = view.str("mode").unwrap_or(if period.is_some() { "calendar" } else { "sliding" });
    let mut only = |key: &str, modes: &[&str]| {
        if view.is_given(key) && !modes.contains(&mode) {
            let message = format!("`{key}` has no meaning for a limit of mode `{mode}`");
            let help = format!("leave it out, or let `mode` be `{}`", modes.join("` or `"));
            problems.add(view.origin(key), message, Some(help));
        }
    };
    only("zone", &["calendar"]);
    only("windows", &["sliding", "interpolated"]);
    only("burst", &["gcra"]);
    if let Some(period) = period {
        if mode != "calendar" {
            let help = format!("write a length of time, such as \"1{}\"", &per[..1]);
            problems.add(view.origin("per"), format!("`{per}` is a period of the calendar"), Some(help));
            return None;
        }
        let name = view.str("zone")?;
        let Some(zone) = Zone::named(name) else {
            let help = "expected a name of the time zone database, such as \"UTC\" or \"Europe/Berlin\"";
            problems.add(
                view.origin("zone"),
                format!("there is no time zone `{name}`"),
                Some(help.to_owned()),
            );
            return None;
        };
        return Some(LimitAlgorithm::Calendar { period, zone });
    }
    let window =
        per.parse::<Span>().ok().filter(|window| *window >= Span::seconds(1) && *window <= WINDOW_MAX);
    let Some(window) = window.filter(|_| mode != "calendar") else {
        let periods: Vec<&str> = Period::ALL.into_iter().map(Period::name).collect();
        let help = if mode == "calendar" {
            format!("expected one of {}", periods.join(", "))
        } else {
            format!(
                "expected a length of time from \"1s\" to \"{WINDOW_MAX}\", or one of {}",
                periods.join(", ")
            )
        };
        problems.add(view.origin("per"), format!("`{per}` is no time of a limit"), Some(help));
        return None;
    };
    let parts = u32::try_from(view.integer("windows")?).ok()?;
    Some(match mode {
        "gcra" => {
            let burst = match view.integer("burst") {
                Some(burst) => u64::try_from(burst).ok()?,
                None => count,
            };
            let interval = interval(count, window);
            // Below a nanosecond there is no rate to keep.
            let is_too_fast = u128::from(count) > u128::from(window.0.unsigned_abs()) * 1000;
            let checked =
                if is_too_fast { Err(BucketError::Rate) } else { BucketError::check(interval, burst) };
            if let Err(error) = checked {
                let key = if error == BucketError::Rate { "count" } else { "burst" };
                let at = if view.is_given(key) { key } else { "count" };
                problems.add(view.origin(at), error.to_string(), Some("give a smaller number".to_owned()));
            }
            LimitAlgorithm::Bucket { per: window, burst, interval }
        }
        _ => {
            let interpolated = mode == "interpolated";
            if interpolated && parts < 2 {
                let help = "expected at least 2".to_owned();
                problems.add(view.origin("windows"), "one sub-window has no share", Some(help));
            }
            LimitAlgorithm::Sliding { window, parts, interpolated }
        }
    })
}
