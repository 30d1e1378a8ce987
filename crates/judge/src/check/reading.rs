//! Readings: what conditions ask of statistics, models and other rules.

use event::Span;

use super::*;
use crate::scope::{
    AggregateFunction, BucketFunction, CounterSum, GRADES, LimitValue, ReadingRequest, ReputationValue,
    ScopeError,
};
use crate::syntax::{ArithmeticOperator, CallNode};

impl Checker<'_> {
    pub(super) fn counter_method(
        &mut self,
        call: &CallNode,
        target: &SyntaxNode,
        range: &Range<usize>,
    ) -> Option<TypedExpr> {
        let SyntaxKind::Name(name) = &target.kind else {
            self.check(target)?;
            return self.unknown_method(call);
        };
        if self.scope.is_kind(name) {
            let request = match (call.name.as_str(), call.args.as_slice()) {
                ("marked", [label]) => {
                    let SyntaxKind::Text(text) = &label.kind else {
                        let help = format!("write it as in `{name}.marked('scanner')`");
                        return self.fail(&label.range, "a label is named in quotes", help);
                    };
                    ReadingRequest::Marked { kind: name, label: text }
                }
                ("marked", _) => {
                    let message = format!("`marked` takes one label, not {}", call.args.len());
                    return self.fail(range, message, format!("write it as in `{name}.marked('scanner')`"));
                }
                ("first_age", []) => ReadingRequest::FirstAge { kind: name },
                ("last_age", []) => ReadingRequest::LastAge { kind: name },
                ("first_age" | "last_age", _) => {
                    let message = format!("`{}` takes no argument", call.name);
                    return self.fail(range, message, format!("write `{name}.{}()`", call.name));
                }
                (value, args) if self.scope.is_aggregate(name) => {
                    let value = self.aggregate_function(value, name, args, call, range)?;
                    ReadingRequest::Aggregate { kind: name, value }
                }
                (counter, args) => {
                    let window = self.window(counter, name, args, range)?;
                    ReadingRequest::Count { kind: name, counter, window }
                }
            };
            return self.reading(&request, range, &[(&call.name, &call.name_range)], call.args.first());
        }
        if self.scope.fact(name).is_some() {
            return self.unknown_method(call);
        }
        let help = did_you_mean(name, self.scope.names(NameCategory::Kind));
        self.report(Diagnostic::new(format!("unknown kind `{name}`"), target.range.clone()).maybe_help(help));
        None
    }

    fn aggregate_function(
        &mut self,
        value: &str,
        kind: &str,
        args: &[SyntaxNode],
        call: &CallNode,
        range: &Range<usize>,
    ) -> Option<AggregateFunction> {
        let value = match (value, args) {
            ("count", []) => AggregateFunction::Count,
            ("sum", []) => AggregateFunction::Sum,
            ("min", []) => AggregateFunction::Min,
            ("max", []) => AggregateFunction::Max,
            ("decayed", [half_life]) => {
                let span = self.span(half_life, &format!("{kind}.decayed('1h')"))?;
                if span <= Span::ZERO {
                    let help = "write it as in `'1h'`";
                    return self.fail(&half_life.range, "a half-life is longer than 0", help);
                }
                AggregateFunction::Decayed(span)
            }
            ("decayed", _) => {
                let message = format!("`decayed` takes one half-life, not {}", args.len());
                return self.fail(range, message, format!("write it as in `{kind}.decayed('1h')`"));
            }
            (name, _) if AggregateFunction::NAMES.contains(&name) => {
                let message = format!("`{name}` takes no argument");
                let help = format!("an aggregate has no windows: write `{kind}.{name}()`");
                return self.fail(range, message, help);
            }
            (name, _) => {
                let names = AggregateFunction::NAMES.map(str::to_owned);
                let help = did_you_mean(name, &names).unwrap_or_else(|| format!("it has {}", listed(&names)));
                let message = format!("`{kind}` has an aggregate and no counter `{name}`");
                return self.fail(&call.name_range, message, help);
            }
        };
        Some(value)
    }

    fn unknown_method(&mut self, call: &CallNode) -> Option<TypedExpr> {
        let lower = ["lower", "lowerascii", "tolower", "tolowercase", "upperascii", "upper"];
        let help = if lower.contains(&call.name.to_ascii_lowercase().as_str()) {
            Some("letters of either case match with `.matches('(?i)...')`".to_owned())
        } else if matches!(call.name.as_str(), "first_age" | "last_age") {
            Some("ages are read of kinds, not of facts".to_owned())
        } else {
            did_you_mean(&call.name, VALUE_METHODS)
        };
        let message = format!("unknown method `{}`", call.name);
        self.report(Diagnostic::new(message, call.name_range.clone()).maybe_help(help));
        None
    }

    /// The window among the arguments of a counter; the outer `None` where it was reported.
    fn window(
        &mut self,
        counter: &str,
        kind: &str,
        args: &[SyntaxNode],
        range: &Range<usize>,
    ) -> Option<Option<Span>> {
        match args {
            [] => Some(None),
            [window] => {
                let span = self.span(window, &format!("{kind}.{counter}('1h')"))?;
                if span <= Span::ZERO {
                    return self.fail(&window.range, "a window is longer than 0", "write it as in `'1h'`");
                }
                Some(Some(span))
            }
            _ => {
                let message = format!("a counter takes one window, not {}", args.len());
                self.fail(range, message, format!("write it as in `{kind}.{counter}('1h')`"))
            }
        }
    }

    pub(super) fn reading(
        &mut self,
        request: &ReadingRequest<'_>,
        range: &Range<usize>,
        counters: &[(&str, &Range<usize>)],
        window: Option<&SyntaxNode>,
    ) -> Option<TypedExpr> {
        let of_quality;
        let request = if self.quality {
            of_quality = ReadingRequest::Estimated(Box::new(request.clone()));
            &of_quality
        } else {
            request
        };
        let slot = match self.scope.reading(request) {
            Ok(slot) => slot,
            Err(ScopeError::Counter { name: counter, known }) => {
                let help = did_you_mean(&counter, &known)
                    .or_else(|| (!known.is_empty()).then(|| format!("it has {}", listed(&known))));
                let message = format!("unknown counter `{counter}`");
                let written = counters.iter().find(|(name, _)| *name == counter);
                let range = written.map_or(range, |(_, range)| range);
                self.report(Diagnostic::new(message, range.clone()).maybe_help(help));
                return None;
            }
            Err(ScopeError::Label { name: label, known }) => {
                let help = did_you_mean(&label, &known).or_else(|| {
                    Some(if known.is_empty() {
                        "define it with [[label]]".to_owned()
                    } else {
                        format!("it has {}", listed(&known))
                    })
                });
                let range = window.map_or(range, |label| &label.range);
                self.report(
                    Diagnostic::new(format!("unknown label `{label}`"), range.clone()).maybe_help(help),
                );
                return None;
            }
            Err(ScopeError::Window(message)) => {
                let range = window.map_or(range, |window| &window.range);
                self.report(Diagnostic::new(message, range.clone()));
                return None;
            }
            Err(ScopeError::Unavailable(message)) => {
                self.report(Diagnostic::new(message, range.clone()));
                return None;
            }
        };
        self.read(slot, request.to_string(), request.is_age());
        let expr = match request.column_type() {
            _ if request.is_age() => TypedExpr::Duration(IntExpr::Fact(slot)),
            Type::Float => TypedExpr::Float(FloatExpr::Fact(slot)),
            Type::Integer if self.scope.is_fraction(request) => TypedExpr::Float(FloatExpr::Fact(slot)),
            Type::Bool => TypedExpr::Bool(BoolExpr::Fact(slot)),
            Type::String => TypedExpr::String(StrExpr::Fact(slot)),
            _ => TypedExpr::Integer(IntExpr::Fact(slot)),
        };
        if !request.is_signed() {
            self.base.slots.insert(slot, Interval::COUNT);
        }
        Some(expr)
    }

    /// `estimated(from.seen('1h'))`: whether a reading comes from a sketch.
    pub(super) fn estimated(&mut self, of: &SyntaxNode) -> Option<TypedExpr> {
        let is_reading = match &of.kind {
            SyntaxKind::Refused => return None,
            SyntaxKind::Call(call) => match (&call.target, call.name.as_str()) {
                (Some(_), "marked") => false,
                (Some(target), name) => {
                    matches!(&target.kind, SyntaxKind::Name(_)) && !VALUE_METHODS.contains(&name)
                }
                (None, name) => {
                    BucketFunction::NAMES.contains(&name)
                        || matches!(name, "distinct" | "is_new" | "last" | "ratio")
                }
            },
            _ => false,
        };
        if !is_reading {
            let help = "write it as in `estimated(from.seen('1h'))`";
            return self.fail(&of.range, "`estimated` takes a reading", help);
        }
        self.quality = true;
        let estimated = self.check(of);
        self.quality = false;
        estimated
    }

    /// `rate(from.seen('1h'), '1m')`: how many there were in a minute, on average over the hour.
    pub(super) fn rate(&mut self, count: &SyntaxNode, per: &SyntaxNode) -> Option<TypedExpr> {
        let per_span = self.span(per, "rate(from.seen('1h'), '1m')");
        let (_, CounterSum { window, .. }) = self.counters("rate", count, &mut Vec::new())?;
        let Some(window) = window else {
            let help = "write it as in `rate(from.seen('1h'), '1m')`";
            return self.fail(&count.range, "`rate` takes a counter over a window", help);
        };
        let counted = match self.check(count)? {
            TypedExpr::Integer(counted) => FloatExpr::from(counted),
            TypedExpr::Float(counted) => counted,
            _ => return None,
        };
        let per_span = per_span?;
        if per_span <= Span::ZERO {
            return self.fail(&per.range, "a rate is over more than 0", "write it as in `'1m'`");
        }
        let parts = FloatExpr::Const(window.0 as f64 / per_span.0 as f64);
        Some(TypedExpr::Float(FloatExpr::Quotient(pair(counted, parts))))
    }

    /// `trend(from.seen('1h'), from.seen('7d'), 20)`: how many times as often as usual. It is the ratio of both,
    /// and that times how often the short window fits into the long one.
    pub(super) fn trend(
        &mut self,
        short: &SyntaxNode,
        long: &SyntaxNode,
        at_least: Option<&SyntaxNode>,
        range: &Range<usize>,
    ) -> Option<TypedExpr> {
        const USAGE: &str = "write it as in `trend(from.seen('1h'), from.seen('7d'), 20)`";
        let (one, other) =
            (self.counters("trend", short, &mut Vec::new()), self.counters("trend", long, &mut Vec::new()));
        let ((kind, one), (other_kind, other)) = (one?, other?);
        if kind != other_kind || one.counters != other.counters {
            return self.fail(range, "`trend` compares the same counters over two windows", USAGE);
        }
        let (Some(short_window), Some(long_window)) = (one.window, other.window) else {
            return self.fail(range, "`trend` takes counters over windows", USAGE);
        };
        if short_window >= long_window {
            return self.fail(range, "the first window of `trend` is the shorter one", USAGE);
        }
        let TypedExpr::Float(ratio) = self.ratio(short, long, at_least, range)? else { return None };
        let times = FloatExpr::Const(long_window.0 as f64 / short_window.0 as f64);
        Some(TypedExpr::Float(FloatExpr::Product(pair(ratio, times))))
    }

    // What is not a column of the schema.

    /// The name in quotes that a function takes.
    fn quoted<'n>(&mut self, node: &'n SyntaxNode, usage: &str) -> Option<&'n str> {
        match &node.kind {
            SyntaxKind::Text(text) => Some(text),
            SyntaxKind::Refused => None,
            _ => self.fail(&node.range, "a name in quotes belongs here", format!("write it as in `{usage}`")),
        }
    }

    /// `model('spam')`: what a model said of the row, before any rule.
    pub(super) fn model(&mut self, node: &SyntaxNode) -> Option<TypedExpr> {
        let name = self.quoted(node, "model('spam')")?;
        let Some((slot, mode)) = self.scope.model(name) else {
            let known = self.scope.names(NameCategory::Model);
            let help = did_you_mean(name, &known).unwrap_or_else(|| {
                if known.is_empty() {
                    "define it with [[model]]; conditions of kinds and limits cannot ask for one".to_owned()
                } else {
                    format!("there is {}", listed(&known))
                }
            });
            return self.fail(&node.range, format!("there is no model `{name}`"), help);
        };
        let view = self.context.siblings.map(|(_, view)| view);
        match (mode, view) {
            // What is enforced must not hang on what is only tried.
            (Mode::Shadow | Mode::Off, Some(ResultView::Live)) => {
                let (how, help) = match mode {
                    Mode::Off => ("off", "turn the model on, or the rule off"),
                    _ => ("in shadow", "enforce the model, or put the rule in shadow, too"),
                };
                return self.fail(&node.range, format!("the model `{name}` is {how}"), help);
            }
            (Mode::Off, _) => {
                let message = format!("the model `{name}` is off, so this is always missing");
                let help = "take it out, or turn the model on";
                self.report(Diagnostic::new(message, node.range.clone()).help(help).warning());
            }
            (Mode::Enforce | Mode::Shadow, _) => {}
        }
        self.read(slot, format!("model('{name}')"), false);
        Some(TypedExpr::Float(FloatExpr::Fact(slot)))
    }

    /// `rule('NAME')`: whether another rule fired.
    pub(super) fn rule(&mut self, node: &SyntaxNode) -> Option<TypedExpr> {
        let name = self.quoted(node, "rule('NAME')")?;
        let Some((siblings, view)) = self.siblings(node)? else {
            return Some(TypedExpr::Bool(BoolExpr::Fired(0, ResultView::Live)));
        };
        let Some((index, mode)) = siblings.rules.get(name) else {
            let help = did_you_mean(name, siblings.rules.keys());
            self.report(
                Diagnostic::new(format!("there is no rule `{name}`"), node.range.clone()).maybe_help(help),
            );
            return None;
        };
        if *mode == Mode::Off || *mode == Mode::Shadow && view == ResultView::Live {
            let message = format!(
                "the rule `{name}` is {}, so this is always false",
                if *mode == Mode::Off { "off" } else { "in shadow" }
            );
            let help = if *mode == Mode::Off {
                "take it out, or turn the rule on"
            } else {
                "rules in shadow change nothing, so only others in shadow see them"
            };
            self.report(Diagnostic::new(message, node.range.clone()).help(help).warning());
        }
        self.refers.push((RuleReference::Rule(*index), node.range.clone()));
        Some(TypedExpr::Bool(BoolExpr::Fired(*index, view)))
    }

    /// `group('links')`: what the rules of a group add to the score, within its bounds.
    pub(super) fn group(&mut self, node: &SyntaxNode) -> Option<TypedExpr> {
        let name = self.quoted(node, "group('links')")?;
        let Some((siblings, view)) = self.siblings(node)? else {
            return Some(TypedExpr::Float(FloatExpr::Group(0, ResultView::Live)));
        };
        let Some(index) = siblings.groups.get(name) else {
            let help = did_you_mean(name, siblings.groups.keys());
            let help = help.unwrap_or_else(|| "define it with [[group]]".to_owned());
            return self.fail(&node.range, format!("there is no group `{name}`"), help);
        };
        self.refers.push((RuleReference::Group(*index), node.range.clone()));
        Some(TypedExpr::Float(FloatExpr::Group(*index, view)))
    }

    /// `over('logins')`: what a limit says of the event.
    pub(super) fn limit(
        &mut self,
        node: &SyntaxNode,
        value: LimitValue,
        range: &Range<usize>,
    ) -> Option<TypedExpr> {
        let usage = match value {
            LimitValue::Over => "over('logins')",
            LimitValue::Remaining => "remaining('logins')",
        };
        let name = self.quoted(node, usage)?;
        self.reading(&ReadingRequest::Limit { name, value }, range, &[], None)
    }

    /// `last('country')`: the value that a field had in the last event of a key.
    pub(super) fn last(&mut self, node: &SyntaxNode, range: &Range<usize>) -> Option<TypedExpr> {
        let name = self.quoted(node, "last('country')")?;
        self.reading(&ReadingRequest::Last { name }, range, &[], None)
    }

    /// `is_new('device_of_user')`: whether a key, or a value of a distinct count, was never seen before.
    pub(super) fn is_new(&mut self, node: &SyntaxNode, range: &Range<usize>) -> Option<TypedExpr> {
        let name = self.quoted(node, "is_new('device_of_user')")?;
        if !self.scope.is_kind(name) && !self.scope.is_distinct(name) {
            let mut known = self.scope.names(NameCategory::Kind);
            known.extend(self.scope.names(NameCategory::Distinct));
            let help = did_you_mean(name, &known);
            let message = format!("unknown kind or distinct statistic `{name}`");
            self.report(Diagnostic::new(message, node.range.clone()).maybe_help(help));
            return None;
        }
        self.reading(&ReadingRequest::New { name }, range, &[], None)
    }

    /// `reputation('account')`: a value of what is kept of a key.
    pub(super) fn reputation(
        &mut self,
        node: &SyntaxNode,
        value: ReputationValue,
        range: &Range<usize>,
    ) -> Option<TypedExpr> {
        let usage = match value {
            ReputationValue::Score => "reputation('account')",
            ReputationValue::Grade => "grade('account')",
            ReputationValue::Evidence => "evidence('account')",
        };
        let name = self.quoted(node, usage)?;
        let read = self.reading(&ReadingRequest::Reputation { name, value }, range, &[], None)?;
        if let TypedExpr::String(StrExpr::Fact(slot)) = read
            && !self.quality
        {
            self.graded.insert(slot);
        }
        Some(read)
    }

    /// Returns true if a text is the grade of a reputation.
    pub(super) fn is_grade(&self, text: &StrExpr) -> bool {
        matches!(text, StrExpr::Fact(slot) if self.graded.contains(slot))
    }

    /// Refuses words that no grade is called where a text is compared with them.
    pub(super) fn check_grades<'w>(
        &mut self,
        text: &StrExpr,
        words: impl IntoIterator<Item = &'w str>,
        range: &Range<usize>,
    ) -> Option<()> {
        if !self.is_grade(text) {
            return Some(());
        }
        let Some(unknown) = words.into_iter().find(|word| !GRADES.contains(word)) else { return Some(()) };
        let help = format!("grades are {}", listed(&GRADES.map(str::to_owned)));
        self.fail(range, format!("no grade is called `{unknown}`"), help)
    }

    pub(super) fn distinct(
        &mut self,
        name: &SyntaxNode,
        window: &SyntaxNode,
        range: &Range<usize>,
    ) -> Option<TypedExpr> {
        let span = self.span(window, "distinct('rcpts', '1d')");
        let SyntaxKind::Text(text) = &name.kind else {
            let help = "write it as in `distinct('rcpts', '1d')`";
            return self.fail(&name.range, "a distinct statistic is named in quotes", help);
        };
        if !self.scope.is_distinct(text) {
            let help = did_you_mean(text, self.scope.names(NameCategory::Distinct));
            let message = format!("unknown distinct statistic `{text}`");
            self.report(Diagnostic::new(message, name.range.clone()).maybe_help(help));
            return None;
        }
        let span = span?;
        if span <= Span::ZERO {
            return self.fail(&window.range, "a window is longer than 0", "write it as in `'1h'`");
        }
        let request = ReadingRequest::Distinct { name: text, window: span };
        self.reading(&request, range, &[], Some(window))
    }

    pub(super) fn ratio(
        &mut self,
        numerator: &SyntaxNode,
        denominator: &SyntaxNode,
        at_least: Option<&SyntaxNode>,
        range: &Range<usize>,
    ) -> Option<TypedExpr> {
        let at_least = match at_least.map(|node| (&node.kind, &node.range)) {
            None => Some(1),
            Some((SyntaxKind::Integer(at_least @ 1..), _)) => Some(at_least.unsigned_abs()),
            Some((_, range)) => {
                let help = "below it the ratio is 0: `ratio(from.spam('1d'), from.seen('1d'), 20)`";
                self.fail(range, "the least denominator is a whole number from 1", help)
            }
        };
        let mut written = Vec::new();
        let (above, below) = (
            self.counters("ratio", numerator, &mut written),
            self.counters("ratio", denominator, &mut written),
        );
        let ((kind, numerator), (other, denominator)) = (above?, below?);
        if kind != other {
            let message = format!("`ratio` divides counters of one kind, not of `{kind}` by `{other}`");
            return self.fail(range, message, "divide what is unlike with `/`");
        }
        let request = ReadingRequest::Ratio { kind, numerator, denominator, at_least: at_least? };
        self.reading(&request, range, &written, None)
    }

    /// The kind and the counters of a sum such as `link.spam('1d') + link.complaint('1d')`.
    /// Where each counter is written is added to `written`.
    pub(super) fn counters<'n>(
        &mut self,
        function: &str,
        node: &'n SyntaxNode,
        written: &mut Vec<(&'n str, &'n Range<usize>)>,
    ) -> Option<(&'n str, CounterSum<'n>)> {
        self.spend(1);
        match &node.kind {
            SyntaxKind::Refused => None,
            SyntaxKind::Arithmetic(ArithmeticOperator::Add, sides) => {
                let (left, right) =
                    (self.counters(function, &sides.0, written), self.counters(function, &sides.1, written));
                let ((kind, mut sum), (other, more)) = (left?, right?);
                if kind != other || sum.window != more.window {
                    let message = format!("`{function}` adds counters of one kind over one window");
                    return self.fail(
                        &node.range,
                        message,
                        format!("what differs is added up outside of `{function}`"),
                    );
                }
                sum.counters.extend(more.counters);
                Some((kind, sum))
            }
            SyntaxKind::Call(CallNode { name: counter, target: Some(target), args, name_range }) => {
                let SyntaxKind::Name(kind) = &target.kind else {
                    return self.no_counter(function, &node.range);
                };
                if VALUE_METHODS.contains(&counter.as_str()) || KIND_METHODS.contains(&counter.as_str()) {
                    return self.no_counter(function, &node.range);
                }
                if !self.scope.is_kind(kind) {
                    let help = did_you_mean(kind, self.scope.names(NameCategory::Kind));
                    let message = format!("unknown kind `{kind}`");
                    self.report(Diagnostic::new(message, target.range.clone()).maybe_help(help));
                    return None;
                }
                if self.scope.is_aggregate(kind) {
                    let message = format!("`{function}` takes counters, and `{kind}` has an aggregate");
                    let help = match BucketFunction::NAMES.contains(&function) {
                        true => {
                            "an aggregate has no buckets: count in a statistic with `counts` and `windows`"
                                .to_owned()
                        }
                        false => format!("divide its values with `/`: `{kind}.sum() / {kind}.count()`"),
                    };
                    return self.fail(&node.range, message, help);
                }
                let window = self.window(counter, kind, args, &node.range)?;
                written.push((counter, name_range));
                Some((kind, CounterSum { counters: vec![counter], window }))
            }
            _ => self.no_counter(function, &node.range),
        }
    }

    fn no_counter<T>(&mut self, function: &str, range: &Range<usize>) -> Option<T> {
        let help = match function {
            "rate" => "write it as in `rate(from.seen('1h'), '1m')`",
            "trend" => "write it as in `trend(from.seen('1h'), from.seen('7d'), 20)`",
            "max_bucket" => "write it as in `max_bucket(from.seen('2h'), '10m')`",
            "empty_buckets" => "write it as in `empty_buckets(from.seen('2h'), '10m')`",
            "dispersion" => "write it as in `dispersion(from.seen('2h'), '10m')`",
            "median_interval" => "write it as in `median_interval(from.seen('2h'), '10m')`",
            "interval_variation" => "write it as in `interval_variation(from.seen('2h'), '10m')`",
            _ => "divide other numbers with `/`; a ratio is `ratio(from.spam('1d'), from.seen('1d'), 20)`",
        };
        self.fail(range, format!("`{function}` takes counters of a kind"), help)
    }
}
