//! The state of an evaluation: what it sees, and what it may still spend.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::crowdsec::data_files::CrowdsecDataFiles;
use crate::crowdsec::record::CrowdsecRecord;
use crate::crowdsec::stash::CrowdsecStash;
use crate::crowdsec::value::{ExprObject, ExprValue};
use crate::crowdsec::xml::XmlCache;

/// Most steps of one evaluation: a node is a step, and so are 64 bytes of text that are searched or copied.
pub const STEPS_MAX: usize = 4_000_000;

/// An evaluation that did not come to a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct EvaluationError(pub Cow<'static, str>);

pub(crate) fn error<T>(message: impl Into<Cow<'static, str>>) -> Result<T, EvaluationError> {
    Err(EvaluationError(message.into()))
}

/// The memory that functions have between evaluations.
#[derive(Debug, Default)]
pub struct ExprMemory {
    /// Texts that parsers put aside.
    pub stash: CrowdsecStash,
    pub(crate) xml: XmlCache,
    /// The number of bans that a source is taken to have had, for functions that ask.
    pub bans: i64,
}

/// The environment of an evaluation.
pub struct ExprEnvironment<'e> {
    /// The record under `evt`.
    pub record: Option<&'e mut CrowdsecRecord>,
    /// Other names with their values.
    pub names: &'e [(&'e str, ExprValue)],
    /// Files that functions look into.
    pub data: &'e CrowdsecDataFiles,
    /// The memory of functions.
    pub memory: &'e mut ExprMemory,
    /// The present, in nanoseconds since 1970.
    pub now: i64,
}

pub(super) struct OpenClosure {
    pub(super) element: ExprValue,
    pub(super) index: usize,
    pub(super) accumulator: ExprValue,
}

pub(crate) struct Evaluator<'v, 'e> {
    pub(crate) environment: &'v mut ExprEnvironment<'e>,
    pub(super) steps: usize,
    pub(super) closures: Vec<OpenClosure>,
    pub(super) variables: Vec<(Arc<str>, ExprValue)>,
}

pub(super) type EvaluationResult = Result<ExprValue, EvaluationError>;

impl Evaluator<'_, '_> {
    /// Pays for work.
    pub(crate) fn pay(&mut self, steps: usize) -> Result<(), EvaluationError> {
        match self.steps.checked_sub(steps) {
            Some(left) => {
                self.steps = left;
                Ok(())
            }
            None => error("it takes too many steps"),
        }
    }

    /// Pays for text that is searched or copied.
    pub(crate) fn pay_text(&mut self, text: &str) -> Result<(), EvaluationError> {
        self.pay(1 + text.len() / 64)
    }

    /// The values of the record, which functions write to.
    pub(crate) fn record_values(&mut self) -> Option<&mut BTreeMap<Arc<str>, ExprValue>> {
        Some(Arc::make_mut(&mut self.environment.record.as_deref_mut()?.values))
    }

    pub(crate) fn member(&self, object: &ExprValue, name: &ExprValue) -> EvaluationResult {
        let missing = |name: &str| error(format!("`{name}` is not known of this {}", object.kind()));
        Ok(match (object, name) {
            (ExprValue::Record, ExprValue::Text(name)) => {
                let Some(record) = self.environment.record.as_deref() else {
                    return error("there is no record");
                };
                match name.as_ref() {
                    "Unmarshaled" => ExprValue::RecordValues,
                    name => match record.member(name) {
                        Some(value) => value,
                        None => return missing(name),
                    },
                }
            }
            (ExprValue::RecordValues, ExprValue::Text(name)) => {
                let values = self.environment.record.as_deref().map(|record| &record.values);
                values.and_then(|values| values.get(name)).cloned().unwrap_or(ExprValue::Nil)
            }
            (ExprValue::Texts(texts), ExprValue::Text(name)) => {
                ExprValue::Text(texts.get(name).map(Arc::clone).unwrap_or_default())
            }
            (ExprValue::Map(map), ExprValue::Text(name)) => map.get(name).cloned().unwrap_or(ExprValue::Nil),
            (ExprValue::Map(map), ExprValue::Int(number)) => {
                map.get(number.to_string().as_str()).cloned().unwrap_or(ExprValue::Nil)
            }
            (ExprValue::Object(object), ExprValue::Text(name)) => match object.member(name) {
                Some(value) => value,
                None => return missing(name),
            },
            (ExprValue::List(items), index) => {
                let index = match index {
                    ExprValue::Int(index) => *index,
                    ExprValue::Float(index) => *index as i64,
                    _ => return error("an index is no number"),
                };
                let at = if index < 0 { index.saturating_add(items.len() as i64) } else { index };
                match usize::try_from(at).ok().and_then(|at| items.get(at)) {
                    Some(item) => item.clone(),
                    None => return error(format!("there is no element {index} of {}", items.len())),
                }
            }
            (ExprValue::Text(text), ExprValue::Int(index)) => {
                let at = if *index < 0 { index.saturating_add(text.len() as i64) } else { *index };
                match usize::try_from(at).ok().and_then(|at| text.get(at..at + 1)) {
                    Some(letter) => ExprValue::from(letter),
                    None => return error("there is no such letter"),
                }
            }
            (_, name) => return error(format!("`{name}` cannot be taken of {}", object.kind())),
        })
    }
}
