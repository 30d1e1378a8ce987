//! Effects of rules beside what they add to the score, written as a short sentence:
//!
//! ```text
//! set throttle
//! set throttle unless reject
//! lift reject
//! mark ip as "scanner" for 1d
//! mark ip as "scanner" for 1h to 2h
//! mark contributors of "addresses" as "scanner" for 1h
//! add ip.caught by 5
//! add karma by -20
//! add karma by -20 times share
//! clear login.failed
//! clear limit logins
//! notify "operators"
//! ```
//!
//! Effects are data: whoever judges an event carries them out, nothing here does.

use std::fmt;
use std::ops::Range;

use event::Span;
use serde::{Deserialize, Serialize};

use crate::Diagnostic;
use crate::action::Action;
use crate::decimal::{decimal_text, decimal_units};
use crate::diagnostic::did_you_mean;
use crate::scope::{NameCategory, Scope, ScopeError};

/// One thing that a rule does when it fires. Journals store it by the order of variants and fields: new ones come last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Effect {
    /// The verdict's action is this one, whatever the score; of several rules, the last has the say.
    Set(Action),
    /// The verdict's action is not this one: the next lower band's is taken. It prevails over `set`.
    Lift(Action),
    /// The event's keys of a kind have a label from now on.
    Mark {
        /// The kind.
        kind: String,
        /// The label.
        label: String,
        /// The time for which it holds from the event's time on.
        lasts: Span,
    },
    /// A counter of the event's keys of a kind goes up.
    Add {
        /// The kind.
        kind: String,
        /// The counter.
        counter: String,
        /// The amount, at least 1.
        amount: u64,
    },
    /// Somebody is told.
    Notify(
        /// The one who is notified.
        String,
    ),
    /// A value is added to the aggregate of the event's keys of a kind.
    AddValue {
        /// The kind.
        kind: String,
        /// The value in units, which is not zero.
        value: i64,
        /// The number of decimals that a unit has.
        decimals: u8,
    },
    /// A value, times the rule's share, is added to the aggregate of the event's keys of a kind.
    AddShare {
        /// The kind.
        kind: String,
        /// The value of a whole share in units, which is not zero.
        value: i64,
        /// The number of decimals that a unit has.
        decimals: u8,
    },
    /// The verdict's action is set, but where it is a certain one already, by the score or by an effect before.
    SetUnless {
        /// The action that is set.
        action: Action,
        /// The action that stands.
        unless: Action,
    },
    /// The event's keys of a kind have a label from now on, each for a time that is drawn for it, so that nobody can tell
    /// when it ends.
    MarkBetween {
        /// The kind.
        kind: String,
        /// The label.
        label: String,
        /// The least time for which it holds from the event's time on.
        least: Span,
        /// The greatest.
        most: Span,
    },
    /// A counter of the event's keys of a kind starts again from zero.
    Clear {
        /// The kind.
        kind: String,
        /// The counter.
        counter: String,
    },
    /// All that was taken from a limit is given back to the event's keys.
    ClearLimit(
        /// The limit.
        String,
    ),
    /// The latest values of a distinct count of the event have a label from now on.
    MarkContributors {
        /// The distinct count.
        distinct: String,
        /// The label, of a kind of the same fields.
        label: String,
        /// The time for which it holds from the event's time on.
        lasts: Span,
    },
}

impl fmt::Display for Effect {
    /// The effect as rules write it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Effect::Set(action) => write!(f, "set {action}"),
            Effect::SetUnless { action, unless } => write!(f, "set {action} unless {unless}"),
            Effect::Lift(action) => write!(f, "lift {action}"),
            Effect::Mark { kind, label, lasts } => write!(f, "mark {kind} as \"{label}\" for {lasts}"),
            Effect::MarkBetween { kind, label, least, most } => {
                write!(f, "mark {kind} as \"{label}\" for {least} to {most}")
            }
            Effect::Add { kind, counter, amount: 1 } => write!(f, "add {kind}.{counter}"),
            Effect::Add { kind, counter, amount } => write!(f, "add {kind}.{counter} by {amount}"),
            Effect::Clear { kind, counter } => write!(f, "clear {kind}.{counter}"),
            Effect::MarkContributors { distinct, label, lasts } => {
                write!(f, "mark contributors of \"{distinct}\" as \"{label}\" for {lasts}")
            }
            Effect::ClearLimit(limit) => write!(f, "clear limit {limit}"),
            Effect::Notify(whom) => write!(f, "notify \"{whom}\""),
            Effect::AddValue { kind, value, decimals } => {
                write!(f, "add {kind} by {}", decimal_text(*value, *decimals))
            }
            Effect::AddShare { kind, value, decimals } => {
                write!(f, "add {kind} by {} times share", decimal_text(*value, *decimals))
            }
        }
    }
}

/// Longest accepted source of an effect.
const SOURCE_BYTES_MAX: usize = 512;
/// Longest name of a label or of somebody to tell.
const NAME_BYTES_MAX: usize = 64;
/// Greatest amount that an effect adds.
const AMOUNT_MAX: u64 = 1_000_000;

const VERBS: [&str; 6] = ["add", "clear", "lift", "mark", "notify", "set"];

struct EffectWord<'a> {
    text: &'a str,
    range: Range<usize>,
}

/// Reads and checks an effect.
pub(crate) fn compile(source: &str, scope: &mut dyn Scope) -> Result<Effect, Diagnostic> {
    if source.len() > SOURCE_BYTES_MAX {
        return Err(Diagnostic::new(format!("an effect is at most {SOURCE_BYTES_MAX} bytes long"), 0..0));
    }
    let words = words(source)?;
    let Some((verb, rest)) = words.split_first() else {
        let help = "write it as in `mark ip as \"scanner\" for 1d`";
        return Err(Diagnostic::new("the effect is empty", 0..0).help(help));
    };
    let texts: Vec<&str> = rest.iter().map(|word| word.text).collect();
    match (verb.text, texts.as_slice()) {
        ("set", [action]) => Ok(Effect::Set(self::action(action, &rest[0])?)),
        ("set", [action, "unless", unless]) => Ok(Effect::SetUnless {
            action: self::action(action, &rest[0])?,
            unless: self::action(unless, &rest[2])?,
        }),
        ("lift", [action]) => match self::action(action, &rest[0])? {
            Action::Accept => {
                let help = "to lift all of them, lift each";
                let message = "`accept` cannot be lifted: it is what is left when all else is";
                Err(Diagnostic::new(message, rest[0].range.clone()).help(help))
            }
            action => Ok(Effect::Lift(action)),
        },
        ("mark", ["contributors", "of", distinct, "as", label, "for", lasts]) => {
            name(&rest[4])?;
            let longest = scope.contributors(distinct, label).map_err(|error| {
                let word = if matches!(error, ScopeError::Label { .. }) { &rest[4] } else { &rest[2] };
                refused(error, word)
            })?;
            let lasts = label_span(lasts, label, longest, &rest[6])?;
            Ok(Effect::MarkContributors {
                distinct: (*distinct).to_owned(),
                label: (*label).to_owned(),
                lasts,
            })
        }
        ("mark", [kind, "as", label, "for", lasts]) => {
            known_kind(kind, &rest[0], scope)?;
            name(&rest[2])?;
            let longest = scope.label(kind, label).map_err(|error| refused(error, &rest[2]))?;
            let lasts = label_span(lasts, label, longest, &rest[4])?;
            Ok(Effect::Mark { kind: (*kind).to_owned(), label: (*label).to_owned(), lasts })
        }
        ("mark", [kind, "as", label, "for", least, "to", most]) => {
            known_kind(kind, &rest[0], scope)?;
            name(&rest[2])?;
            let longest = scope.label(kind, label).map_err(|error| refused(error, &rest[2]))?;
            let least = label_span(least, label, longest, &rest[4])?;
            let most = label_span(most, label, longest, &rest[6])?;
            if least > most {
                let help = "write the lesser one first";
                let message = format!("no time is from {least} to {most}");
                return Err(Diagnostic::new(message, rest[4].range.start..rest[6].range.end).help(help));
            }
            Ok(Effect::MarkBetween { kind: (*kind).to_owned(), label: (*label).to_owned(), least, most })
        }
        ("add", [kind, "by", value]) if scope.is_aggregate(kind) => {
            let (value, decimals) = aggregate_value(value, rest, scope)?;
            Ok(Effect::AddValue { kind: (*kind).to_owned(), value, decimals })
        }
        ("add", [kind, "by", value, "times", "share"]) if scope.is_aggregate(kind) => {
            let (value, decimals) = aggregate_value(value, rest, scope)?;
            Ok(Effect::AddShare { kind: (*kind).to_owned(), value, decimals })
        }
        ("add", [_, "by", _, "times", "share"]) => {
            let help = "a share of a value goes to an aggregate with `observe = false`";
            Err(Diagnostic::new("counters go up by whole numbers", rest[3].range.clone()).help(help))
        }
        ("add", [counter]) => add(counter, &rest[0], 1, scope),
        ("add", [counter, "by", amount]) => {
            let wanted = 1..=AMOUNT_MAX;
            match amount.parse::<u64>() {
                Ok(amount) if wanted.contains(&amount) => add(counter, &rest[0], amount, scope),
                _ => {
                    let help = format!("write a whole number from 1 to {AMOUNT_MAX}");
                    Err(Diagnostic::new(format!("`{amount}` cannot be added"), rest[2].range.clone())
                        .help(help))
                }
            }
        }
        ("clear", ["limit", limit]) => {
            scope.clears_limit(limit).map_err(|error| refused(error, &rest[1]))?;
            Ok(Effect::ClearLimit((*limit).to_owned()))
        }
        ("clear", [counter]) => {
            let (kind, counter) = counter_of(counter, &rest[0], scope)?;
            scope.clears(kind, counter).map_err(|error| refused(error, &rest[0]))?;
            Ok(Effect::Clear { kind: kind.to_owned(), counter: counter.to_owned() })
        }
        ("notify", [whom]) => {
            name(&rest[0])?;
            Ok(Effect::Notify((*whom).to_owned()))
        }
        (other, _) => {
            let usage = match other {
                "set" => "set throttle` or `set throttle unless reject",
                "lift" => "lift reject",
                "mark" => "mark ip as \"scanner\" for 1d",
                "add" => "add ip.caught` or `add ip.caught by 5",
                "clear" => "clear ip.caught` or `clear limit logins",
                "notify" => "notify \"operators\"",
                _ => {
                    let help = did_you_mean(other, VERBS).unwrap_or_else(|| {
                        "an effect begins with set, lift, mark, add, clear or notify".to_owned()
                    });
                    let message = format!("unknown effect `{other}`");
                    return Err(Diagnostic::new(message, verb.range.clone()).help(help));
                }
            };
            let message = format!("`{other}` is not followed by what it needs");
            Err(Diagnostic::new(message, 0..source.len()).help(format!("write it as in `{usage}`")))
        }
    }
}

/// Reads a time for which a label holds, which is kept for at most `longest`.
fn label_span(text: &str, label: &str, longest: Span, word: &EffectWord<'_>) -> Result<Span, Diagnostic> {
    let refuse = |message: String| Diagnostic::new(message, word.range.clone());
    match text.parse::<Span>() {
        Ok(lasts) if lasts > longest => {
            let message = format!("the label `{label}` is kept for {longest}, not for {lasts}");
            Err(refuse(message).help("raise `keep` of its [[label]]"))
        }
        Ok(lasts) if lasts > Span::ZERO => Ok(lasts),
        Ok(_) => Err(refuse("a label holds longer than 0".to_owned())),
        Err(error) => Err(refuse(format!("`{text}` is no length of time")).help(error.to_string())),
    }
}

/// Reads what is added to an aggregate, in units, and the decimals of one: `rest` is its kind, `by`, and the value.
fn aggregate_value(value: &str, rest: &[EffectWord<'_>], scope: &dyn Scope) -> Result<(i64, u8), Diagnostic> {
    let decimals = scope.takes_values(rest[0].text).map_err(|error| refused(error, &rest[0]))?;
    if let Some(value) = decimal_units(value, decimals, AMOUNT_MAX).filter(|value| *value != 0) {
        return Ok((value, decimals));
    }
    let number = match decimals {
        0 => "a whole number".to_owned(),
        decimals => format!("a number with at most {decimals} decimals"),
    };
    let help = format!("write {number} from -{AMOUNT_MAX} to {AMOUNT_MAX}, but 0");
    Err(Diagnostic::new(format!("`{value}` cannot be added"), rest[2].range.clone()).help(help))
}

/// Words between blanks; one in quotes may hold blanks.
fn words(source: &str) -> Result<Vec<EffectWord<'_>>, Diagnostic> {
    let mut words = Vec::new();
    let mut at = 0;
    while let Some(next) = source[at..].chars().next() {
        if next.is_whitespace() {
            at += next.len_utf8();
        } else if let '\'' | '"' = next {
            let Some(length) = source[at + 1..].find(next) else {
                return Err(Diagnostic::new("the text is never closed", at..source.len()));
            };
            let end = at + length + 2;
            words.push(EffectWord { text: &source[at + 1..end - 1], range: at..end });
            at = end;
        } else {
            let rest = &source[at..];
            let end =
                at + rest.find(|c: char| c.is_whitespace() || c == '\'' || c == '"').unwrap_or(rest.len());
            words.push(EffectWord { text: &source[at..end], range: at..end });
            at = end;
        }
    }
    Ok(words)
}

fn action(text: &str, word: &EffectWord<'_>) -> Result<Action, Diagnostic> {
    text.parse().map_err(|_| {
        let names = Action::ALL.map(Action::name);
        let help =
            did_you_mean(text, names).unwrap_or_else(|| format!("expected one of {}", names.join(", ")));
        Diagnostic::new(format!("unknown action `{text}`"), word.range.clone()).help(help)
    })
}

fn name(word: &EffectWord<'_>) -> Result<(), Diagnostic> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    if (1..=NAME_BYTES_MAX).contains(&word.text.len()) && word.text.bytes().all(plain) {
        return Ok(());
    }
    let help = format!("it has 1 to {NAME_BYTES_MAX} letters, digits, `_`, `-` and `.`");
    Err(Diagnostic::new("this is no name", word.range.clone()).help(help))
}

fn known_kind(kind: &str, word: &EffectWord<'_>, scope: &dyn Scope) -> Result<(), Diagnostic> {
    if scope.is_kind(kind) {
        return Ok(());
    }
    let help = did_you_mean(kind, scope.names(NameCategory::Kind));
    Err(Diagnostic::new(format!("unknown kind `{kind}`"), word.range.clone()).maybe_help(help))
}

fn add(text: &str, word: &EffectWord<'_>, amount: u64, scope: &dyn Scope) -> Result<Effect, Diagnostic> {
    let (kind, counter) = counter_of(text, word, scope)?;
    scope.counter(kind, counter).map_err(|error| refused(error, word))?;
    Ok(Effect::Add { kind: kind.to_owned(), counter: counter.to_owned(), amount })
}

/// Reads a counter with its kind, which there is.
fn counter_of<'t>(
    text: &'t str,
    word: &EffectWord<'_>,
    scope: &dyn Scope,
) -> Result<(&'t str, &'t str), Diagnostic> {
    let Some((kind, counter)) = text.rsplit_once('.') else {
        let help = "write it as in `add ip.caught`";
        return Err(Diagnostic::new("a counter is named with its kind", word.range.clone()).help(help));
    };
    known_kind(kind, word, scope)?;
    Ok((kind, counter))
}

/// The kind and the counter that an effect clears, by its text alone: statistics have to keep what is taken back of a counter before
/// rules are compiled with them.
pub fn cleared_counter(source: &str) -> Option<(&str, &str)> {
    let mut words = source.split_whitespace();
    let counter = words.next().filter(|verb| *verb == "clear").and_then(|_| words.next())?;
    counter.trim_matches(['\'', '"']).rsplit_once('.')
}

fn refused(error: ScopeError, word: &EffectWord<'_>) -> Diagnostic {
    let known = |what: &str, name: &str, known: &[String]| {
        let listed = known.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        let help =
            did_you_mean(name, known).or_else(|| (!known.is_empty()).then(|| format!("it has {listed}")));
        Diagnostic::new(format!("unknown {what} `{name}`"), word.range.clone()).maybe_help(help)
    };
    match error {
        ScopeError::Counter { name, known: all } => known("counter", &name, &all),
        ScopeError::Label { name, known: all } if all.is_empty() => {
            known("label", &name, &all).help("define it with [[label]]")
        }
        ScopeError::Label { name, known: all } => known("label", &name, &all),
        ScopeError::Window(why) | ScopeError::Unavailable(why) => Diagnostic::new(why, word.range.clone()),
    }
}
