//! Values of expressions: texts, numbers, lists, maps, times, and parts of events.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Texts by their names: what a record was parsed into.
pub type TextMap = BTreeMap<Arc<str>, Arc<str>>;

/// A thing whose members an expression can ask for.
pub trait ExprObject: fmt::Debug + Send + Sync {
    /// The value of a member; none if there is no such member.
    fn member(&self, name: &str) -> Option<ExprValue>;

    /// The value of a method; none if there is no such method.
    fn call(&self, _name: &str, _arguments: &[ExprValue]) -> Option<ExprValue> {
        None
    }
}

/// A value of an expression.
#[derive(Clone, Debug)]
pub enum ExprValue {
    /// Nothing.
    Nil,
    /// A truth.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A number.
    Float(f64),
    /// A text.
    Text(Arc<str>),
    /// Values in order.
    List(Arc<Vec<ExprValue>>),
    /// Values by name; one that is missing is nothing.
    Map(Arc<BTreeMap<Arc<str>, ExprValue>>),
    /// Texts by name; one that is missing is empty.
    Texts(Arc<TextMap>),
    /// A moment, in nanoseconds since 1970.
    Moment(i64),
    /// A length of time in nanoseconds.
    Duration(i64),
    /// The record that is read, of which an expression may change parts.
    Record,
    /// The map of values of the record that is read, which functions write to.
    RecordValues,
    /// Another thing.
    Object(Arc<dyn ExprObject>),
}

impl From<&str> for ExprValue {
    fn from(text: &str) -> ExprValue {
        ExprValue::Text(Arc::from(text))
    }
}

impl From<String> for ExprValue {
    fn from(text: String) -> ExprValue {
        ExprValue::Text(Arc::from(text))
    }
}

impl From<bool> for ExprValue {
    fn from(truth: bool) -> ExprValue {
        ExprValue::Bool(truth)
    }
}

impl ExprValue {
    /// The kind of the value, for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            ExprValue::Nil => "nil",
            ExprValue::Bool(_) => "bool",
            ExprValue::Int(_) => "int",
            ExprValue::Float(_) => "float",
            ExprValue::Text(_) => "string",
            ExprValue::List(_) => "list",
            ExprValue::Map(_) | ExprValue::Texts(_) | ExprValue::RecordValues => "map",
            ExprValue::Moment(_) => "time",
            ExprValue::Duration(_) => "duration",
            ExprValue::Record | ExprValue::Object(_) => "object",
        }
    }

    /// The text, if the value is one.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            ExprValue::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The number, if the value is one.
    pub fn as_number(&self) -> Option<f64> {
        match self {
            ExprValue::Int(number) => Some(*number as f64),
            ExprValue::Float(number) => Some(*number),
            _ => None,
        }
    }

    /// A value of JSON; numbers are floating, as Go reads them.
    pub fn of_json(json: &serde_json::Value) -> ExprValue {
        match json {
            serde_json::Value::Null => ExprValue::Nil,
            serde_json::Value::Bool(truth) => ExprValue::Bool(*truth),
            serde_json::Value::Number(number) => ExprValue::Float(number.as_f64().unwrap_or_default()),
            serde_json::Value::String(text) => ExprValue::from(text.as_str()),
            serde_json::Value::Array(items) => {
                ExprValue::List(Arc::new(items.iter().map(ExprValue::of_json).collect()))
            }
            serde_json::Value::Object(members) => ExprValue::Map(Arc::new(
                members
                    .iter()
                    .map(|(name, value)| (Arc::from(name.as_str()), ExprValue::of_json(value)))
                    .collect(),
            )),
        }
    }

    /// The value as JSON; parts of events are null.
    pub fn to_json(&self) -> serde_json::Value {
        match self {
            ExprValue::Bool(truth) => (*truth).into(),
            ExprValue::Int(number) | ExprValue::Duration(number) => (*number).into(),
            ExprValue::Float(number) if number.fract() == 0.0 && number.abs() < 1e15 => {
                (*number as i64).into()
            }
            ExprValue::Float(number) => (*number).into(),
            ExprValue::Text(text) => text.as_ref().into(),
            ExprValue::Moment(at) => rfc3339(*at, 0).into(),
            ExprValue::List(items) => items.iter().map(ExprValue::to_json).collect::<Vec<_>>().into(),
            ExprValue::Map(members) => serde_json::Value::Object(
                members.iter().map(|(name, value)| (name.to_string(), value.to_json())).collect(),
            ),
            ExprValue::Texts(members) => serde_json::Value::Object(
                members.iter().map(|(name, value)| (name.to_string(), value.as_ref().into())).collect(),
            ),
            ExprValue::Nil | ExprValue::Record | ExprValue::RecordValues | ExprValue::Object(_) => {
                serde_json::Value::Null
            }
        }
    }
}

/// Values are equal as expr has it: numbers by their value, others of one kind by theirs.
impl PartialEq for ExprValue {
    fn eq(&self, other: &ExprValue) -> bool {
        match (self, other) {
            (ExprValue::Nil, ExprValue::Nil) => true,
            (ExprValue::Bool(one), ExprValue::Bool(other)) => one == other,
            (ExprValue::Int(one), ExprValue::Int(other))
            | (ExprValue::Moment(one), ExprValue::Moment(other))
            | (ExprValue::Duration(one), ExprValue::Duration(other)) => one == other,
            (ExprValue::Text(one), ExprValue::Text(other)) => one == other,
            (ExprValue::List(one), ExprValue::List(other)) => one == other,
            (ExprValue::Map(one), ExprValue::Map(other)) => one == other,
            (ExprValue::Texts(one), ExprValue::Texts(other)) => one == other,
            (one, other) => match (one.as_number(), other.as_number()) {
                (Some(one), Some(other)) => one == other,
                _ => false,
            },
        }
    }
}

/// Writes as Go's `%v` does.
impl fmt::Display for ExprValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExprValue::Nil => f.write_str("<nil>"),
            ExprValue::Bool(truth) => write!(f, "{truth}"),
            ExprValue::Int(number) => write!(f, "{number}"),
            ExprValue::Float(number) if number.abs() >= 1e21 || (*number != 0.0 && number.abs() < 1e-4) => {
                let text = format!("{number:e}");
                let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
                let exponent: i32 = exponent.parse().unwrap_or(0);
                write!(f, "{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
            }
            ExprValue::Float(number) => write!(f, "{number}"),
            ExprValue::Text(text) => f.write_str(text),
            ExprValue::Moment(at) => f.write_str(&rfc3339(*at, 0)),
            ExprValue::Duration(nanoseconds) => write!(f, "{}s", *nanoseconds as f64 / 1e9),
            ExprValue::List(items) => {
                f.write_str("[")?;
                for (index, item) in items.iter().enumerate() {
                    write!(f, "{}{item}", if index > 0 { " " } else { "" })?;
                }
                f.write_str("]")
            }
            ExprValue::Map(members) => {
                f.write_str("map[")?;
                for (index, (name, value)) in members.iter().enumerate() {
                    write!(f, "{}{name}:{value}", if index > 0 { " " } else { "" })?;
                }
                f.write_str("]")
            }
            ExprValue::Texts(members) => {
                f.write_str("map[")?;
                for (index, (name, value)) in members.iter().enumerate() {
                    write!(f, "{}{name}:{value}", if index > 0 { " " } else { "" })?;
                }
                f.write_str("]")
            }
            ExprValue::Record | ExprValue::RecordValues | ExprValue::Object(_) => f.write_str("{}"),
        }
    }
}

/// Writes a moment as RFC 3339 has it, in a zone that is so many seconds off UTC.
pub fn rfc3339(nanoseconds: i64, offset: i32) -> String {
    let Ok(moment) = jiff::Timestamp::from_nanosecond(i128::from(nanoseconds)) else { return String::new() };
    let zone = jiff::tz::Offset::from_seconds(offset).unwrap_or(jiff::tz::Offset::UTC);
    let local = zone.to_datetime(moment);
    let mut text = format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}",
        local.year(),
        local.month(),
        local.day(),
        local.hour(),
        local.minute(),
        local.second()
    );
    if local.subsec_nanosecond() != 0 {
        let fraction = format!("{:09}", local.subsec_nanosecond());
        text.push('.');
        text.push_str(fraction.trim_end_matches('0'));
    }
    if offset == 0 {
        text.push('Z');
    } else {
        let sign = if offset < 0 { '-' } else { '+' };
        text.push_str(&format!("{sign}{:02}:{:02}", offset.abs() / 3600, offset.abs() / 60 % 60));
    }
    text
}
