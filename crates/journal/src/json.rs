//! Values as JSON has them.

use data_encoding::HEXLOWER;
use event::Value;

/// A value as JSON: lists as arrays, times as RFC 3339, addresses as text, bytes as hexadecimal digits. A float
/// that JSON cannot write is `null`.
pub fn json_value(value: &Value) -> serde_json::Value {
    match value {
        Value::String(text) => (&**text).into(),
        Value::Integer(integer) => (*integer).into(),
        Value::Float(float) => (*float).into(),
        Value::Bool(truth) => (*truth).into(),
        Value::Time(time) => time.to_string().into(),
        Value::Ip(ip) => ip.to_string().into(),
        Value::Bytes(bytes) => HEXLOWER.encode(bytes).into(),
        Value::List(items) => items.iter().map(|item| &**item).collect(),
    }
}
