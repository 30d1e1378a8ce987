//! Syntax of values: times, facts, permissions and sizes.

use event::{Time, Value};

use crate::config::tree::TomlValue;

/// The point in time that a value is.
pub(in crate::config) fn time(value: &TomlValue) -> Option<Time> {
    match value {
        TomlValue::String(text) | TomlValue::Date(text) => text.parse().ok(),
        _ => None,
    }
}

/// The value of a fact that a value of the configuration is.
pub(in crate::config) fn fact_value(value: &TomlValue) -> Option<Value> {
    Some(match value {
        TomlValue::String(text) => Value::from(text.as_str()),
        TomlValue::Integer(integer) => Value::from(*integer),
        TomlValue::Float(float) => Value::from(*float),
        TomlValue::Bool(truth) => Value::from(*truth),
        TomlValue::Date(text) => Value::from(text.parse::<Time>().ok()?),
        TomlValue::List(items) => {
            let texts = items.iter().map(|item| match &item.value {
                TomlValue::String(text) => Some(text.clone()),
                _ => None,
            });
            Value::from(texts.collect::<Option<Vec<String>>>()?)
        }
        TomlValue::Table(_) => return None,
    })
}

/// The permissions that octal digits stand for.
pub(crate) fn file_mode(text: &str) -> Option<u32> {
    let digits = (3..=4).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    u32::from_str_radix(text, 8).ok().filter(|mode| digits && *mode <= 0o777)
}

/// The share that a percentage such as `0.5 %` is.
pub(crate) fn parse_percentage(text: &str) -> Option<f64> {
    let number = text.strip_suffix('%')?.trim_end();
    let is_plain = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let share = number.parse::<f64>().ok().filter(|_| is_plain)? / 100.0;
    (share > 0.0 && share <= 0.5).then_some(share)
}

/// The form that [`parse_size`] reads, for a whole number of the largest fitting unit.
pub(in crate::config) fn print_size(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let index = (bytes.checked_ilog2().unwrap_or(0) / 10).min(4);
    format!("{}{}", bytes >> (10 * index), units[index as usize])
}

/// `512`, `64KiB`, `64MiB`, `2GiB`, `1TiB`.
pub(in crate::config) fn parse_size(text: &str) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let number: u64 = text[..digits].parse().ok()?;
    let scale: u64 = match text[digits..].trim() {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "TiB" => 1 << 40,
        _ => return None,
    };
    number.checked_mul(scale)
}
