//! The time and the id of events, in fields of whatever name and format.

use event::{Event, Schema, Time, Type, Value};
use jiff::Timestamp;
use jiff::fmt::strtime;
use jiff::tz::TimeZone;

use super::InputColumns;
use crate::config::{ConfigOrigin, ConfigProblems, ConfigView, expected};

/// The fields that have an event's time and id.
#[derive(Clone, Debug, Default)]
pub struct EventHeader {
    time: Option<(String, TimeFormat)>,
    id: Option<String>,
}

/// The format in which a field has a time.
#[derive(Clone, Debug)]
enum TimeFormat {
    /// RFC 3339.
    Rfc3339,
    /// A number of so many microseconds since 1970 each.
    Epoch(i64),
    /// A pattern of `strptime`; without a zone it is UTC.
    Pattern(String),
}

impl EventHeader {
    /// Returns true if events have their time and id where all have them.
    pub fn is_usual(&self) -> bool {
        self.time.is_none() && self.id.is_none()
    }

    /// The time in an event's own field; `None` where it has none that can be read.
    pub fn time(&self, event: &Event) -> Option<Time> {
        let (field, format) = self.time.as_ref()?;
        format.read(event.get(field)?)
    }

    /// Returns true if an event has a time in its own field that cannot be read.
    pub fn is_time_unread(&self, event: &Event) -> bool {
        let value = self.time.as_ref().and_then(|(field, format)| Some((format, event.get(field)?)));
        value.is_some_and(|(format, value)| format.read(value).is_none())
    }

    /// The id in an event's own field.
    pub fn id(&self, event: &Event) -> Option<String> {
        match event.get(self.id.as_ref()?)? {
            Value::String(text) => Some(text.to_string()),
            value @ Value::Integer(_) => Some(value.to_string()),
            _ => None,
        }
    }
}

impl TimeFormat {
    fn read(&self, value: &Value) -> Option<Time> {
        match (self, value) {
            (_, Value::Time(time)) => Some(*time),
            (TimeFormat::Rfc3339, Value::String(text)) => text.trim().parse().ok(),
            (TimeFormat::Epoch(micros), Value::Integer(count)) => Some(Time(count.saturating_mul(*micros))),
            (TimeFormat::Epoch(micros), Value::Float(count)) => {
                count.is_finite().then(|| Time((count * *micros as f64).round() as i64))
            }
            (TimeFormat::Epoch(_), Value::String(text)) => {
                let text = text.trim();
                let integer = text.parse().ok().map(Value::Integer);
                self.read(&integer.or_else(|| text.parse().ok().map(Value::Float))?)
            }
            (TimeFormat::Pattern(pattern), Value::String(text)) => {
                let read = strtime::parse(pattern, text.trim()).ok()?;
                let zoned = read.to_timestamp().ok();
                let time = zoned.or_else(|| TimeZone::UTC.to_timestamp(read.to_datetime().ok()?).ok())?;
                Some(Time(time.as_microsecond()))
            }
            _ => None,
        }
    }
}

/// Reads the settings; the columns of fields are known.
pub(crate) fn compile(
    time: Option<ConfigView<'_>>,
    schema: &Schema,
    columns: &InputColumns,
    problems: &mut ConfigProblems,
) -> EventHeader {
    let Some(view) = time else { return EventHeader::default() };
    let mut header = EventHeader::default();
    if let Some(field) = view.str("field") {
        let format = match view.str("format").unwrap_or("rfc3339") {
            "rfc3339" => Some(TimeFormat::Rfc3339),
            "epoch_s" => Some(TimeFormat::Epoch(1_000_000)),
            "epoch_ms" => Some(TimeFormat::Epoch(1_000)),
            "epoch_us" => Some(TimeFormat::Epoch(1)),
            pattern => checked_pattern(pattern, view.origin("format"), problems),
        };
        let kinds = [Type::String, Type::Integer, Type::Float, Type::Time];
        let is_field = is_field(field, &kinds, view.origin("field"), schema, columns, problems);
        header.time = format.filter(|_| is_field).map(|format| (field.to_owned(), format));
    } else if view.is_given("format") {
        let help = "name the field that has the time: `field = \"ts\"`".to_owned();
        problems.add(view.origin("format"), "`format` does nothing without `field`", Some(help));
    }
    if let Some(field) = view.str("id") {
        let kinds = [Type::String, Type::Integer];
        let is_field = is_field(field, &kinds, view.origin("id"), schema, columns, problems);
        header.id = Some(field.to_owned()).filter(|_| is_field);
    }
    header
}

/// A format as `strptime` has it, that says a date and a time.
fn checked_pattern(
    pattern: &str,
    origin: &ConfigOrigin,
    problems: &mut ConfigProblems,
) -> Option<TimeFormat> {
    let format = TimeFormat::Pattern(pattern.to_owned());
    let sample = Timestamp::constant(1_779_012_303, 0);
    let written = strtime::format(pattern, sample).map_err(|error| error.to_string());
    let read = written.map(|text| format.read(&Value::from(text)));
    let why = match read {
        Ok(Some(time))
            if pattern.contains('%') && (time.0 - sample.as_microsecond()).abs() < 86_400_000_000 =>
        {
            return Some(format);
        }
        Ok(_) => "it does not say date and time".to_owned(),
        Err(error) => error,
    };
    let help =
        "write `rfc3339`, `epoch_s`, `epoch_ms`, `epoch_us`, or as in `%d/%b/%Y:%H:%M:%S %z`".to_owned();
    problems.add(origin, format!("`{pattern}` is no format of times: {why}"), Some(help));
    None
}

/// Returns true if events bring a field of one of these types; if not, says so.
fn is_field(
    name: &str,
    kinds: &[Type],
    origin: &ConfigOrigin,
    schema: &Schema,
    columns: &InputColumns,
    problems: &mut ConfigProblems,
) -> bool {
    let brought = |name: &str| schema.slot(name).filter(|slot| columns.is_brought(*slot));
    let Some(slot) = brought(name) else {
        let names = schema.columns().iter().map(|column| column.name.as_str());
        let help = expected(name, names.filter(|name| brought(name).is_some()));
        problems.add(origin, format!("events bring no field `{name}`"), Some(help));
        return false;
    };
    let kind = schema.column(slot).kind;
    let fits = kinds.contains(&kind);
    if !fits {
        let kinds: Vec<&str> = kinds.iter().map(|kind| kind.name()).collect();
        let help = format!("expected a field of type {}", kinds.join(" or "));
        problems.add(origin, format!("`{name}` is of type {kind}"), Some(help));
    }
    fits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_in_their_format() {
        let check = |format: &TimeFormat, value: Value, expected: Option<&str>| {
            let expected = expected.map(|text| text.parse::<Time>().unwrap());
            assert_eq!(format.read(&value), expected, "{format:?} {value:?}");
        };
        let pattern = |text: &str| TimeFormat::Pattern(text.to_owned());
        let at = Some("2026-05-17T10:05:03Z");
        check(&TimeFormat::Rfc3339, Value::from("2026-05-17T12:05:03+02:00"), at);
        check(&TimeFormat::Rfc3339, Value::from("noon"), None);
        check(&TimeFormat::Epoch(1_000_000), Value::from(1_779_012_303i64), at);
        check(&TimeFormat::Epoch(1_000), Value::from(1_779_012_303_250i64), Some("2026-05-17T10:05:03.25Z"));
        check(&TimeFormat::Epoch(1_000), Value::from("1779012303250"), Some("2026-05-17T10:05:03.25Z"));
        check(
            &TimeFormat::Epoch(1),
            Value::from(1_779_012_303_000_007i64),
            Some("2026-05-17T10:05:03.000007Z"),
        );
        check(&TimeFormat::Epoch(1_000_000), Value::from(1_779_012_303.5), Some("2026-05-17T10:05:03.5Z"));
        check(&TimeFormat::Epoch(1_000_000), Value::from(f64::NAN), None);
        check(&TimeFormat::Epoch(1_000_000), Value::from("x"), None);
        check(&pattern("%d/%b/%Y:%H:%M:%S %z"), Value::from("17/May/2026:12:05:03 +0200"), at);
        check(&pattern("%Y-%m-%d %H:%M:%S"), Value::from("2026-05-17 10:05:03"), at);
        check(&pattern("%Y-%m-%d %H:%M:%S"), Value::from("17.5.2026"), None);
    }
}
