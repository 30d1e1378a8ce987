//! Functions, and methods of values.

use event::{Span, Time};
use jiff::tz::TimeZone;
use regex::RegexBuilder;

use super::*;
use crate::expr::{ClockPart, SubstringPosition, ZonedClock};
use crate::scope::{BucketFunction, LimitValue, ReputationValue};
use crate::syntax::CallNode;

/// Largest compiled regular expression, and largest cache of its lazy automaton, in bytes each.
const REGEX_BYTES_MAX: usize = 1 << 18;
/// Bytes that it may be compiled to, tried one after the other: which one fits is what it is taken to need.
const REGEX_BYTES: [usize; 3] = [REGEX_BYTES_MAX >> 4, REGEX_BYTES_MAX >> 2, REGEX_BYTES_MAX];

/// CEL's accessors of a time, and what people look for them under.
const CLOCKS: [(&str, ClockPart, &str); 9] = [
    ("getFullYear", ClockPart::Year, "year"),
    ("getMonth", ClockPart::Month, "month"),
    ("getDate", ClockPart::Date, "day"),
    ("getDayOfMonth", ClockPart::DayOfMonth, "dayofmonth"),
    ("getDayOfWeek", ClockPart::DayOfWeek, "weekday"),
    ("getDayOfYear", ClockPart::DayOfYear, "yearday"),
    ("getHours", ClockPart::Hours, "hour"),
    ("getMinutes", ClockPart::Minutes, "minute"),
    ("getSeconds", ClockPart::Seconds, "second"),
];

/// The zone of an IANA name or an offset such as `+02:00`, from the database in the binary: the same everywhere.
fn zone(text: &str) -> Option<TimeZone> {
    if let Some(offset) = text.strip_prefix(['+', '-']) {
        let (hours, minutes) = offset.split_once(':')?;
        let number =
            |text: &str| text.parse::<i32>().ok().filter(|_| text.len() == 2 && !text.starts_with('+'));
        let seconds = number(hours)? * 3600 + number(minutes).filter(|minutes| *minutes < 60)? * 60;
        let seconds = if text.starts_with('-') { -seconds } else { seconds };
        return jiff::tz::Offset::from_seconds(seconds).ok().map(TimeZone::fixed);
    }
    TimeZone::get(text).ok()
}

impl Checker<'_> {
    pub(super) fn function(&mut self, call: &CallNode, range: &Range<usize>) -> Option<TypedExpr> {
        match (call.name.as_str(), call.args.as_slice()) {
            ("has", [of]) => self.has(of),
            ("size", [of]) => {
                let checked = self.check(of)?;
                self.size(checked, &of.range)
            }
            ("duration", [text]) => {
                let span = self.span(text, "duration('1d')")?;
                Some(TypedExpr::Duration(IntExpr::Const(span.0)))
            }
            ("timestamp", [text]) => {
                let SyntaxKind::Text(written) = &text.kind else {
                    let help = "write it out: `timestamp('2026-05-17T10:05:03Z')`";
                    return self.fail(&text.range, "a point in time is a text in quotes", help);
                };
                match written.parse::<Time>() {
                    Ok(time) => Some(TypedExpr::Time(IntExpr::Const(time.0))),
                    Err(error) => {
                        self.fail(&text.range, format!("`{written}` is no point in time"), error.to_string())
                    }
                }
            }
            ("double", [of]) => {
                let checked = self.check(of)?;
                match checked.promoted() {
                    expr @ TypedExpr::Float(_) => Some(expr),
                    TypedExpr::String(text) if !matches!(text, StrExpr::Const(_)) => {
                        self.spend(COST_SEEK);
                        Some(TypedExpr::Float(FloatExpr::Parsed(Box::new(text))))
                    }
                    TypedExpr::Time(micros) | TypedExpr::Duration(micros) => {
                        Some(TypedExpr::Float(FloatExpr::Seconds(Box::new(micros))))
                    }
                    other => {
                        let message = format!("`double` takes a number, not {}", other.kind().article());
                        self.mismatch(&of.range, message, other.kind(), other.kind())
                    }
                }
            }
            ("int", [of]) => {
                let checked = self.check(of)?;
                match checked {
                    TypedExpr::Integer(_) => Some(checked),
                    TypedExpr::Float(float) => {
                        Some(TypedExpr::Integer(fold(IntExpr::Whole(Box::new(float)))))
                    }
                    TypedExpr::String(text) if !matches!(text, StrExpr::Const(_)) => {
                        self.spend(COST_SEEK);
                        Some(TypedExpr::Integer(IntExpr::Parsed(Box::new(text))))
                    }
                    TypedExpr::Time(micros) | TypedExpr::Duration(micros) => {
                        Some(TypedExpr::Integer(IntExpr::Seconds(Box::new(micros))))
                    }
                    other => {
                        let message = format!("`int` takes a number, not {}", other.kind().article());
                        self.mismatch(&of.range, message, other.kind(), other.kind())
                    }
                }
            }
            ("age", [of]) => {
                let checked = self.check(of)?;
                let TypedExpr::Time(time) = checked else {
                    let message = format!("`age` takes a time, not {}", checked.kind().article());
                    let help = "the age of a key is `from.first_age()` or `from.last_age()`";
                    return self.fail(&of.range, message, help);
                };
                match self.fact("now", range)? {
                    TypedExpr::Time(now) => {
                        Some(TypedExpr::Duration(fold(IntExpr::Difference(pair(now, time)))))
                    }
                    _ => None,
                }
            }
            ("lookup", [table, of]) => self.lookup(table, of, None),
            ("lookup", [table, of, path]) => self.lookup(table, of, Some(path)),
            ("distance", [from, to]) => self.distance(from, to),
            ("string", [of]) => self.printed(of),
            ("ip", [of]) => self.parsed_ip(of),
            (name, [of]) if TEXT_FUNCTIONS.contains(&name) => self.applied(name, of, range),
            ("estimated", [of]) => self.estimated(of),
            ("max_bucket", [count, width]) => self.buckets(BucketFunction::Max, count, width, range),
            ("empty_buckets", [count, width]) => self.buckets(BucketFunction::Empty, count, width, range),
            ("dispersion", [count, width]) => self.buckets(BucketFunction::Dispersion, count, width, range),
            ("median_interval", [count, width]) => {
                self.buckets(BucketFunction::MedianInterval, count, width, range)
            }
            ("interval_variation", [count, width]) => {
                self.buckets(BucketFunction::IntervalVariation, count, width, range)
            }
            ("rate", [count, per]) => self.rate(count, per),
            ("trend", [short, long]) => self.trend(short, long, None, range),
            ("trend", [short, long, at_least]) => self.trend(short, long, Some(at_least), range),
            ("model", [name]) => self.model(name),
            ("rule", [name]) => self.rule(name),
            ("group", [name]) => self.group(name),
            ("distinct", [name, window]) => self.distinct(name, window, range),
            ("is_new", [name]) => self.is_new(name, range),
            ("last", [name]) => self.last(name, range),
            ("over", [name]) => self.limit(name, LimitValue::Over, range),
            ("remaining", [name]) => self.limit(name, LimitValue::Remaining, range),
            ("reputation", [name]) => self.reputation(name, ReputationValue::Score, range),
            ("grade", [name]) => self.reputation(name, ReputationValue::Grade, range),
            ("evidence", [name]) => self.reputation(name, ReputationValue::Evidence, range),
            ("ratio", [numerator, denominator]) => self.ratio(numerator, denominator, None, range),
            ("ratio", [numerator, denominator, at_least]) => {
                self.ratio(numerator, denominator, Some(at_least), range)
            }
            (name, args) => {
                let usage = match name {
                    "has" => "has(mail.subject)",
                    "size" => "size(mail.links)",
                    "duration" => "duration('1d')",
                    "timestamp" => "timestamp('2026-05-17T10:05:03Z')",
                    "double" => "double(mail.size)",
                    "int" => "int(mail.score)",
                    "age" => "age(mail.date)",
                    "dispersion" => "dispersion(from.seen('2h'), '10m')",
                    "empty_buckets" => "empty_buckets(from.seen('2h'), '10m')",
                    "interval_variation" => "interval_variation(from.seen('2h'), '10m')",
                    "max_bucket" => "max_bucket(from.seen('2h'), '10m')",
                    "median_interval" => "median_interval(from.seen('2h'), '10m')",
                    "distance" => "distance(place, last('place'))",
                    "lookup" => "lookup('table', mail.from)",
                    "domain" => "domain(mail.from)",
                    "registrable" => "registrable(mail.from_domain)",
                    "string" => "string(mail.size)",
                    "ip" => "ip(mail.subject)",
                    "estimated" => "estimated(from.seen('1h'))",
                    "rate" => "rate(from.seen('1h'), '1m')",
                    "trend" => "trend(from.seen('1h'), from.seen('7d'), 20)",
                    "model" => "model('spam')",
                    "rule" => "rule('NAME')",
                    "group" => "group('links')",
                    "distinct" => "distinct('rcpts', '1d')",
                    "is_new" => "is_new('device_of_user')",
                    "last" => "last('country')",
                    "over" => "over('logins')",
                    "remaining" => "remaining('logins')",
                    "reputation" => "reputation('account')",
                    "grade" => "grade('account')",
                    "evidence" => "evidence('account')",
                    "ratio" => "ratio(from.spam('1d'), from.seen('1d'), 20)",
                    _ => return self.unknown_function(call),
                };
                let message = format!("`{name}` does not take {}", counted(args.len(), "argument"));
                self.fail(range, message, format!("write it as in `{usage}`"))
            }
        }
    }

    pub(super) fn unknown_function(&mut self, call: &CallNode) -> Option<TypedExpr> {
        let name = call.name.as_str();
        let clock = CLOCKS.iter().find(|(_, _, word)| *word == name);
        let help = if name == "matches" || VALUE_METHODS.contains(&name) && !name.starts_with("get") {
            Some(format!("it follows a value and a dot: `mail.subject.{name}(...)`"))
        } else if name.starts_with("get") && VALUE_METHODS.contains(&name) {
            Some(format!("it follows a time and a dot: `now.{name}('Europe/Berlin')`"))
        } else if let Some((getter, ..)) = clock {
            Some(format!("write `now.{getter}('Europe/Berlin')`"))
        } else {
            did_you_mean(&call.name, FUNCTIONS)
        };
        let message = format!("unknown function `{}`", call.name);
        self.report(Diagnostic::new(message, call.name_range.clone()).maybe_help(help));
        None
    }

    pub(super) fn has(&mut self, of: &SyntaxNode) -> Option<TypedExpr> {
        match self.check(of)?.column() {
            Some((slot, kind)) => Some(TypedExpr::Bool(BoolExpr::Has(slot, kind))),
            None => {
                let help = "write it as in `has(mail.subject)` or `has(from.seen('1h'))`";
                self.fail(&of.range, "`has` takes a fact or a reading", help)
            }
        }
    }

    pub(super) fn size(&mut self, of: TypedExpr, range: &Range<usize>) -> Option<TypedExpr> {
        let size = match of {
            TypedExpr::String(text) => {
                self.spend(COST_SEEK);
                fold(IntExpr::Chars(Box::new(text)))
            }
            TypedExpr::List(list) => {
                if matches!(list, ListExpr::Split(_)) {
                    self.spend(COST_SEEK);
                }
                IntExpr::Items(Box::new(list))
            }
            TypedExpr::Bytes(slot) => IntExpr::Bytes(slot),
            other => {
                let message = format!("{} has no size", other.kind().article());
                return self.fail(range, message, "texts, lists and bytes have one");
            }
        };
        Some(TypedExpr::Integer(size))
    }

    pub(super) fn span(&mut self, node: &SyntaxNode, usage: &str) -> Option<Span> {
        let SyntaxKind::Text(text) = &node.kind else {
            let help = format!("write it out: `{usage}`");
            return self.fail(&node.range, "a length of time is a text in quotes", help);
        };
        match text.parse::<Span>() {
            Ok(span) => Some(span),
            Err(error) => self.fail(&node.range, format!("`{text}` is no length of time"), error.to_string()),
        }
    }

    pub(super) fn method(
        &mut self,
        call: &CallNode,
        target: &SyntaxNode,
        range: &Range<usize>,
    ) -> Option<TypedExpr> {
        if let (SyntaxKind::Name(of), "intersects" | "contains" | "equivalent") =
            (&target.kind, call.name.as_str())
            && of == "sets"
        {
            return match (call.name.as_str(), call.args.as_slice()) {
                ("intersects", [list, set]) => self.intersects(list, set),
                _ => {
                    let help = "write `sets.intersects(mail.link_hosts, bad_hosts)`";
                    self.fail(
                        range,
                        "of the functions on sets rules have `sets.intersects` with two arguments",
                        help,
                    )
                }
            };
        }
        if let (SyntaxKind::Name(of), "extract" | "replace") = (&target.kind, call.name.as_str())
            && of == "regex"
        {
            return self.regex_function(call, range);
        }
        if !VALUE_METHODS.contains(&call.name.as_str()) {
            return self.counter_method(call, target, range);
        }
        let before = self.divisions.len();
        let (checked, args) = (self.check(target), call.args.as_slice());
        match (call.name.as_str(), args) {
            ("size", []) => self.size(checked?, &target.range),
            ("or", [default]) => {
                // A division by zero is missing, and then there is the other value.
                self.divisions.truncate(before);
                let default = self.check(default);
                self.default(checked?, default?, range)
            }
            ("matches", [pattern]) => {
                let regex = self.regex(pattern);
                let text = self.text(checked?, &target.range, "matches")?;
                Some(TypedExpr::Bool(BoolExpr::Matches(text, Box::new(regex?))))
            }
            (name @ ("contains" | "startsWith" | "endsWith"), [sought]) => {
                self.spend(COST_SEEK);
                let place = match name {
                    "startsWith" => SubstringPosition::Start,
                    "endsWith" => SubstringPosition::End,
                    _ => SubstringPosition::Anywhere,
                };
                let sought_checked = self.check(sought);
                let text = self.text(checked?, &target.range, name);
                let sought = self.text(sought_checked?, &sought.range, name);
                Some(TypedExpr::Bool(BoolExpr::Contains(place, text?, sought?)))
            }
            (name, args) if name.starts_with("get") => self.clock(checked?, name, args, range),
            ("lower", []) => self.lower(checked?, &target.range),
            ("split", [between]) => self.split(checked?, &target.range, between),
            ("join", [between]) => self.join(checked?, &target.range, between),
            ("substring", [start]) => self.substring(checked?, &target.range, start, None),
            ("substring", [start, end]) => self.substring(checked?, &target.range, start, Some(end)),
            (name, args) => {
                let usage = match name {
                    "lower" => "mail.subject.lower()",
                    "split" => "mail.subject.split(' ')",
                    "join" => "mail.links.join(' ')",
                    "substring" => "mail.subject.substring(0, 4)",
                    "size" => "mail.links.size()",
                    "or" => "mail.subject.or('')",
                    "matches" => r"mail.subject.matches(r'^re:\s')",
                    "contains" => "mail.subject.contains('a')",
                    "startsWith" => "mail.subject.startsWith('a')",
                    _ => "mail.subject.endsWith('a')",
                };
                let message = format!("`{name}` does not take {}", counted(args.len(), "argument"));
                self.fail(range, message, format!("write it as in `{usage}`"))
            }
        }
    }

    pub(super) fn text(&mut self, checked: TypedExpr, range: &Range<usize>, method: &str) -> Option<StrExpr> {
        match checked {
            TypedExpr::String(text) => Some(text),
            TypedExpr::List(_) => {
                let message = format!("`{method}` takes a string, not a list");
                self.fail(range, message, "an item is sought with `'a' in mail.links`")
            }
            other => {
                let message = format!("`{method}` takes a string, not {}", other.kind().article());
                self.mismatch(range, message, other.kind(), other.kind())
            }
        }
    }

    pub(super) fn default(
        &mut self,
        value: TypedExpr,
        default: TypedExpr,
        range: &Range<usize>,
    ) -> Option<TypedExpr> {
        let kinds = (value.kind(), default.kind());
        Some(match unify(value, default) {
            (TypedExpr::Bool(value), TypedExpr::Bool(default)) => {
                TypedExpr::Bool(BoolExpr::Default(pair(value, default)))
            }
            (TypedExpr::Integer(value), TypedExpr::Integer(default)) => {
                TypedExpr::Integer(IntExpr::Default(pair(value, default)))
            }
            (TypedExpr::Time(value), TypedExpr::Time(default)) => {
                TypedExpr::Time(IntExpr::Default(pair(value, default)))
            }
            (TypedExpr::Duration(value), TypedExpr::Duration(default)) => {
                TypedExpr::Duration(IntExpr::Default(pair(value, default)))
            }
            (TypedExpr::Float(value), TypedExpr::Float(default)) => {
                TypedExpr::Float(FloatExpr::Default(pair(value, default)))
            }
            (TypedExpr::String(value), TypedExpr::String(default)) => {
                TypedExpr::String(StrExpr::Default(pair(value, default)))
            }
            _ if kinds.0 == kinds.1 || kinds.0 == OperandType::Ip => {
                let message = format!("`or` does not replace values of type {}", kinds.0.name());
                return self.fail(range, message, "ask with `has(...)`");
            }
            _ => {
                let message = format!("`or` replaces {} with {}", kinds.0.article(), kinds.1.article());
                return self.mismatch(range, message, kinds.0, kinds.1);
            }
        })
    }

    /// `now.getHours('Europe/Berlin')`, as in CEL.
    pub(super) fn clock(
        &mut self,
        of: TypedExpr,
        name: &str,
        args: &[SyntaxNode],
        range: &Range<usize>,
    ) -> Option<TypedExpr> {
        self.spend(COST_CLOCK);
        let TypedExpr::Time(time) = of else {
            let message = format!("`{name}` takes a time, not {}", of.kind().article());
            return self.fail(range, message, format!("write it as in `now.{name}('Europe/Berlin')`"));
        };
        let zone = match args {
            [] => jiff::tz::TimeZone::UTC,
            [node] => {
                let SyntaxKind::Text(text) = &node.kind else {
                    let help = format!("write it out: `now.{name}('Europe/Berlin')`");
                    return self.fail(&node.range, "a time zone is a text in quotes", help);
                };
                match zone(text) {
                    Some(zone) => zone,
                    None => {
                        let names =
                            jiff::tz::db().available().map(|name| name.to_string()).collect::<Vec<_>>();
                        let help = did_you_mean(text, names);
                        let help = help.unwrap_or_else(|| {
                            "zones are named as in `Europe/Berlin` or `+02:00`".to_owned()
                        });
                        return self.fail(&node.range, format!("there is no time zone `{text}`"), help);
                    }
                }
            }
            _ => {
                let message = format!("`{name}` does not take {}", counted(args.len(), "argument"));
                return self.fail(range, message, format!("write it as in `now.{name}('Europe/Berlin')`"));
            }
        };
        let (_, part, _) = CLOCKS.iter().find(|(getter, ..)| *getter == name)?;
        Some(TypedExpr::Integer(IntExpr::Clock(Box::new((time, ZonedClock { part: *part, zone })))))
    }

    /// Builds a regular expression within the room that there is, and takes what it needs off it: trying costs no more than
    /// about what it needs, so that what is built and what is refused are paid for alike.
    fn build(&mut self, text: &str) -> Result<regex::Regex, regex::Error> {
        let mut built = Err(regex::Error::CompiledTooBig(0));
        for limit in REGEX_BYTES {
            if self.scope.is_over() || self.scope.regex_bytes().is_some_and(|left| *left < limit) {
                return Err(regex::Error::CompiledTooBig(limit));
            }
            built = RegexBuilder::new(text)
                .size_limit(limit)
                .dfa_size_limit(REGEX_BYTES_MAX)
                .nest_limit(50)
                .build();
            let is_last = limit == REGEX_BYTES_MAX;
            if is_last || !matches!(built, Err(regex::Error::CompiledTooBig(_))) {
                if let Some(left) = self.scope.regex_bytes() {
                    *left -= limit;
                }
                break;
            }
        }
        built
    }

    fn is_out_of_room(&mut self) -> bool {
        self.scope.regex_bytes().is_some_and(|left| *left < REGEX_BYTES_MAX)
    }

    pub(super) fn regex(&mut self, pattern: &SyntaxNode) -> Option<regex::Regex> {
        self.spend(COST_REGEX);
        let SyntaxKind::Text(text) = &pattern.kind else {
            let help = r"write it out: `.matches(r'^re:\s')`";
            return self.fail(&pattern.range, "a regular expression is a text in quotes", help);
        };
        if self.cost > COST_MAX {
            return None;
        }
        match self.build(text) {
            Ok(regex) => Some(regex),
            Err(regex::Error::CompiledTooBig(_)) if self.is_out_of_room() => {
                let help = "use fewer, or smaller ones: `[0-9]` and `(?-u:\\w)` instead of Unicode classes; a set for words";
                self.fail(&pattern.range, "the regular expressions take too much memory together", help)
            }
            Err(regex::Error::CompiledTooBig(_)) => {
                let help = r"repeat less, or use `[0-9]` and `(?-u:\w)` instead of Unicode classes";
                self.fail(&pattern.range, "the regular expression is too large", help)
            }
            Err(error) => {
                let text = error.to_string();
                let reason = text.rsplit("error: ").next().unwrap_or_default().trim().to_owned();
                self.fail(&pattern.range, "the regular expression cannot be read", reason)
            }
        }
    }
}
