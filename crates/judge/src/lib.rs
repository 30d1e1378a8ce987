//! Facts → verdict: rules over one row.
//!
//! A rule is a name, a condition, a score and effects. Its condition is written in CEL's syntax, checked against a
//! [`Scope`] and a [`Library`] of definitions when it is loaded, and compiled to a small tree over numbered slots of
//! the row. A [`RuleSet`] holds rules that are judged together; [`judge`] adds up the scores of those that fire;
//! [`Bands`] turn the sum into an [`Action`]; [`RuleSet::explain`] says why.
//!
//! Everything here is pure: no I/O, no clock, no state. The same row gives the same verdict, today or next
//! year. A condition always ends, and what it costs and reads is known before it runs. The language is
//! described in `docs/guides/rules.md`.

#![forbid(unsafe_code)]

mod action;
mod bound_model;
mod bounds;
mod calibration;
mod check;
mod condition;
mod conformal;
mod decimal;
mod definition;
mod diagnostic;
mod effect;
mod expr;
mod expression;
mod formatter;
mod learner;
mod lexer;
mod library;
mod lookup;
mod near_miss;
mod network_database;
mod network_index;
mod outline;
mod place;
mod rule;
mod scope;
mod score;
mod score_fit;
mod set;
mod syntax;
mod test_run;
mod text;
mod text_index;
mod text_patterns;
mod verdict;

#[cfg(test)]
mod tests;

pub use action::{
    Action, Band, BandPromise, Bands, BandsError, BandsInForce, CalibrationColumns, Mode, NextBand,
    UnknownKeyword,
};
pub use bound_model::BoundModel;
pub use calibration::{Calibration, ClassScores};
pub use check::{KIND_METHODS, TEXT_FUNCTIONS, VALUE_METHODS, compile, compile_expression, reading};
pub use condition::{ColumnRead, Condition, ScoreShare};
pub use conformal::ScoreWindow;
pub use decimal::{DECIMALS_MAX, decimal_text, decimal_units, decimal_value, nearest_units, whole_units};
pub use definition::{Constant, DefinitionProblem, LibrarySource};
pub use diagnostic::{Diagnostic, Severity};
pub use effect::{Effect, cleared_counter};
pub use expression::Expression;
pub use formatter::{canonical, format};
pub use learner::{ExampleLabel, FeatureBuilder, FeatureSet, LearnerFormatError, LinearLearner};
pub use library::Library;
pub use lookup::{LookupTable, LookupTableError};
pub use near_miss::NearMiss;
pub use outline::UnmetPart;
pub use outline::{Conjunct, conjuncts};
pub use rule::{
    GroupSource, Rule, RuleGroup, RuleProblem, RuleSelection, RuleSet, RuleSetPart, RuleSetSource,
    RuleSource, RuleTest,
};
pub use scope::{
    AggregateFunction, BucketFunction, CounterSum, GRADES, LimitValue, NameCategory, ReadingRequest,
    ReputationValue, Scope, ScopeError, TextFunction,
};
pub use score_fit::{FitExample, FitRule, FitRules, FitTerms, fit_scores};
pub use set::{Network, NetworkError, Networks, Set, SetError, SetType};
pub use test_run::TestRun;
pub use text_patterns::SetMatch;
pub use verdict::{Consequence, Evaluation, Reason, Verdict, judge};
