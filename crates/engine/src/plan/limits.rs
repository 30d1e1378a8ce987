//! `[[limit]]`, checked.

use std::collections::HashSet;
use std::sync::Arc;

use event::{Kind, Span};

use super::{OnError, entries};
use crate::config::{Document, Problems, View, expected};
use crate::limit::{
    BanPlan, BucketError, Enforcement, Exception, FIELDS_MAX, FieldForm, LimitField, LimitPlan, Pace, Period,
    WINDOW_MAX, Zone, interval,
};

/// The limits of the main file.
pub(super) fn compile(document: &Document, problems: &mut Problems) -> Vec<Arc<LimitPlan>> {
    let (mut names, mut numbers) = (HashSet::new(), HashSet::new());
    let mut limits = Vec::new();
    let views = entries(document, "limit", problems);
    for view in &views {
        // What is absent here failed its check, and the limit is never used.
        let (Some(name), Some(number)) = (view.str("name"), view.integer("number")) else { continue };
        if !names.insert(name) {
            problems.add(view.origin("name"), format!("limit `{name}` is defined twice"), None);
            continue;
        }
        if !numbers.insert(number) {
            let help = Some("give another number".to_owned());
            problems.add(view.origin("number"), format!("number {number} is that of another limit"), help);
            continue;
        }
        limits.extend(limit(view, name, number, problems).map(Arc::new));
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

fn limit(view: &View<'_>, name: &str, number: i64, problems: &mut Problems) -> Option<LimitPlan> {
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
        None => is_shadow || !matches!(pace, Pace::Bucket { .. }),
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
    let exceptions = view.tables("override").into_iter().map(|view| Exception {
        limit: name.to_owned(),
        key: view.entries("key").into_iter().map(|(value, _)| value).collect(),
        count: view.integer("count").and_then(|count| u64::try_from(count).ok()),
        exempt: view.bool("exempt").unwrap_or_default(),
        until: view.time("until"),
    });
    let exceptions: Vec<Exception> = exceptions.collect();
    for (exception, view) in exceptions.iter().zip(view.tables("override")) {
        if exception.key.len() != key.len() {
            let message = format!("the key of `{name}` has {} values", key.len());
            problems.add(view.origin("key"), message, Some("give them in the order of its `key`".to_owned()));
        }
        if exception.exempt == exception.count.is_some() {
            let help = "give `count`, or `exempt = true`, one of both".to_owned();
            problems.add(view.origin(""), "it is not said what is excepted", Some(help));
        }
    }
    let plan = LimitPlan {
        name: name.into(),
        description: view.str("description").unwrap_or_default().to_owned(),
        kind: Kind(u16::try_from(number).ok()?),
        shares_kind: false,
        key,
        count,
        pace,
        cost: u64::try_from(view.integer("cost")?).ok()?,
        counts_all,
        enforcement,
        on_error: if view.str("on_error")? == "closed" { OnError::Closed } else { OnError::Open },
        exact: view.bool("exact").unwrap_or_default(),
        ban,
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

fn pace(view: &View<'_>, count: u64, problems: &mut Problems) -> Option<Pace> {
    let per = view.str("per")?;
    let period = Period::ALL.into_iter().find(|period| period.name() == per);
    let mode = view.str("mode").unwrap_or(if period.is_some() { "calendar" } else { "sliding" });
    let mut only = |key: &str, modes: &[&str]| {
        if view.is_given(key) && !modes.contains(&mode) {
            let message = format!("`{key}` says nothing of a limit whose mode is `{mode}`");
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
        return Some(Pace::Calendar { period, zone });
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
            Pace::Bucket { per: window, burst, interval }
        }
        _ => {
            let interpolated = mode == "interpolated";
            if interpolated && parts < 2 {
                let help = "expected at least 2".to_owned();
                problems.add(view.origin("windows"), "one sub-window has no share", Some(help));
            }
            Pace::Sliding { window, parts, interpolated }
        }
    })
}
