//! Facts → verdict: rules over one row.
//!
//! A rule is a name, a condition and a score. Its condition is written in CEL's syntax, checked against a
//! [`Scope`] when it is loaded and compiled to a small tree over numbered slots of the row. [`judge`] adds up
//! the scores of the rules that fire; [`Bands`] turn the sum into an [`Action`]; [`RuleSet::explain`] says
//! why.
//!
//! Everything here is pure: no I/O, no clock, no state. The same row gives the same verdict, today or next
//! year. A condition always ends, and what it costs and reads is known before it runs. The language is
//! described in `docs/rules.md`.

mod action;
pub mod catboost;
mod check;
mod condition;
mod diagnostic;
mod expr;
mod scope;
mod syntax;
mod token;
mod verdict;

#[cfg(test)]
mod tests;

pub use action::{Action, Band, Bands, BandsError, Mode, Next, UnknownWord};
pub use check::{VALUE_METHODS, compile};
pub use condition::{Condition, Read};
pub use diagnostic::Diagnostic;
pub use scope::{CounterSum, Names, ReadingRequest, Scope, ScopeError, TrackValue};
pub use verdict::{Reason, Rule, RuleSet, RuleSetError, RuleSource, Verdict, judge};
