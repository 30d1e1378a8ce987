//! Typed values of fields and facts.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::Time;

/// The type of a field or a fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Type {
    /// Text, UTF-8.
    String,
    /// 64-bit signed integer.
    Integer,
    /// 64-bit float.
    Float,
    /// True or false.
    Bool,
    /// A point in time.
    Time,
    /// An IPv4 or IPv6 address; IPv4 mapped into IPv6 is IPv4.
    Ip,
    /// Raw bytes.
    Bytes,
    /// A list of strings.
    List,
}

impl Type {
    /// All types, in the order in which they are documented.
    pub const ALL: [Type; 8] =
        [Type::String, Type::Integer, Type::Float, Type::Bool, Type::Time, Type::Ip, Type::Bytes, Type::List];

    /// The name by which configurations and messages call the type.
    pub fn name(self) -> &'static str {
        match self {
            Type::String => "string",
            Type::Integer => "integer",
            Type::Float => "float",
            Type::Bool => "bool",
            Type::Time => "time",
            Type::Ip => "ip",
            Type::Bytes => "bytes",
            Type::List => "list",
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Type {
    type Err = ();

    fn from_str(text: &str) -> Result<Type, ()> {
        Type::ALL.into_iter().find(|kind| kind.name() == text).ok_or(())
    }
}

/// A value of a field or a fact. A missing value is no value: see [`crate::Facts::get`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Value {
    /// Text.
    String(Box<str>),
    /// 64-bit signed integer.
    Integer(i64),
    /// 64-bit float.
    Float(f64),
    /// True or false.
    Bool(bool),
    /// A point in time.
    Time(Time),
    /// An address, never an IPv4-mapped one when made by [`From`] or [`Value::coerce`].
    Ip(IpAddr),
    /// Raw bytes.
    Bytes(Box<[u8]>),
    /// A list of strings.
    List(Box<[Box<str>]>),
}

impl Value {
    /// The value's type.
    pub fn type_of(&self) -> Type {
        match self {
            Value::String(_) => Type::String,
            Value::Integer(_) => Type::Integer,
            Value::Float(_) => Type::Float,
            Value::Bool(_) => Type::Bool,
            Value::Time(_) => Type::Time,
            Value::Ip(_) => Type::Ip,
            Value::Bytes(_) => Type::Bytes,
            Value::List(_) => Type::List,
        }
    }

    /// The text, if this is one.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    /// The list, if this is one.
    pub fn as_list(&self) -> Option<&[Box<str>]> {
        match self {
            Value::List(items) => Some(items),
            _ => None,
        }
    }

    /// The value as `wanted`, where that loses nothing: text that reads as the wanted type, an integer as a float or as a
    /// time (seconds since the epoch), one text as a list of one, text as bytes, and every other scalar as the text that
    /// prints it. `None` where the value does not fit.
    pub fn coerce(self, wanted: Type) -> Option<Value> {
        match (self, wanted) {
            (Value::Ip(ip), Type::Ip) => Some(Value::from(ip)),
            (same, wanted) if same.type_of() == wanted => Some(same),
            (Value::String(text), Type::Integer) => text.trim().parse().ok().map(Value::Integer),
            (Value::String(text), Type::Float) => {
                text.trim().parse().ok().filter(|float: &f64| float.is_finite()).map(Value::Float)
            }
            (Value::String(text), Type::Bool) => text.trim().parse().ok().map(Value::Bool),
            (Value::String(text), Type::Time) => text.trim().parse().ok().map(Value::Time),
            (Value::String(text), Type::Ip) => {
                text.trim().trim_matches(['[', ']']).parse::<IpAddr>().ok().map(Value::from)
            }
            (Value::String(text), Type::Bytes) => Some(Value::Bytes(text.into_boxed_bytes())),
            (Value::String(text), Type::List) => Some(Value::List(Box::new([text]))),
            (Value::Integer(integer), Type::Float) => Some(Value::Float(integer as f64)),
            (Value::Integer(seconds), Type::Time) => Some(Value::Time(Time::from_seconds(seconds))),
            (Value::Float(seconds), Type::Time) if seconds.is_finite() => {
                Some(Value::Time(Time((seconds * 1e6).round() as i64)))
            }
            (
                scalar @ (Value::Integer(_)
                | Value::Float(_)
                | Value::Bool(_)
                | Value::Time(_)
                | Value::Ip(_)),
                Type::String,
            ) => Some(Value::from(scalar.to_string())),
            _ => None,
        }
    }
}

impl fmt::Display for Value {
    /// The value for people: text as it is, lists joined by `, `, bytes as their number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::String(text) => f.write_str(text),
            Value::Integer(integer) => write!(f, "{integer}"),
            Value::Float(float) => write!(f, "{float}"),
            Value::Bool(truth) => write!(f, "{truth}"),
            Value::Time(time) => write!(f, "{time}"),
            Value::Ip(ip) => write!(f, "{ip}"),
            Value::Bytes(bytes) => write!(f, "{} bytes", bytes.len()),
            Value::List(items) => f.write_str(&items.join(", ")),
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::String(text.into())
    }
}
impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::String(text.into())
    }
}
impl From<i64> for Value {
    fn from(integer: i64) -> Value {
        Value::Integer(integer)
    }
}
impl From<usize> for Value {
    fn from(count: usize) -> Value {
        Value::Integer(i64::try_from(count).unwrap_or(i64::MAX))
    }
}
impl From<f64> for Value {
    fn from(float: f64) -> Value {
        Value::Float(float)
    }
}
impl From<bool> for Value {
    fn from(truth: bool) -> Value {
        Value::Bool(truth)
    }
}
impl From<Time> for Value {
    fn from(time: Time) -> Value {
        Value::Time(time)
    }
}
impl From<IpAddr> for Value {
    fn from(ip: IpAddr) -> Value {
        Value::Ip(ip.to_canonical())
    }
}
impl From<Vec<String>> for Value {
    fn from(items: Vec<String>) -> Value {
        Value::List(items.into_iter().map(String::into_boxed_str).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(from: impl Into<Value>, wanted: Type, expected: Option<Value>) {
        assert_eq!(from.into().coerce(wanted), expected);
    }

    #[test]
    fn coercion_loses_nothing_or_refuses() {
        check("42", Type::Integer, Some(Value::Integer(42)));
        check("4x", Type::Integer, None);
        check("NaN", Type::Float, None);
        check(1.5, Type::Integer, None);
        check("[::ffff:192.0.2.7]", Type::Ip, Some(Value::Ip("192.0.2.7".parse().unwrap())));
        check("a", Type::List, Some(Value::List(Box::new(["a".into()]))));
        check(7i64, Type::String, Some(Value::from("7")));
        check(0i64, Type::Time, Some(Value::Time(Time::EPOCH)));
        check(vec!["a".to_owned()], Type::String, None);
    }

    #[test]
    fn a_value_stays_small() {
        assert_eq!(size_of::<Option<Value>>(), 24);
    }
}
