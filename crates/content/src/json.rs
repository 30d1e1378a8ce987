//! JSON: one object → an event, checked against the schema that will receive it.
//!
//! The object is never built as a tree: values go straight into the event's fields, so memory is bounded by what
//! the schema has columns for and not by what the sender nests.

use std::fmt;

use event::{Event, Schema, Time, Type, Value};
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::mail::message::MESSAGE_BYTES_MAX;
use crate::text::truncate;

/// Most bytes of an event in JSON; a message in it may need escapes.
pub const JSON_BYTES_MAX: usize = 2 * MESSAGE_BYTES_MAX;
/// Most levels of objects, the outermost included.
pub const DEPTH_MAX: usize = 8;
/// Most members of all objects together.
pub const MEMBERS_MAX: usize = 2_048;
/// Most items of a list.
pub const LIST_ITEMS_MAX: usize = 1_000;
/// Longest string but for `raw`, in bytes, and longest dotted name.
pub const STRING_BYTES_MAX: usize = 64 * 1024;
/// The number of bytes that are shown of a value that does not fit.
const SHOWN_BYTES_MAX: usize = 40;
/// Longest reason of a syntax error.
const REASON_BYTES_MAX: usize = 160;

/// Names of what was left out that are kept.
const UNKNOWN_MAX: usize = 8;

/// An event and what was left out of it.
#[derive(Clone, Debug, PartialEq)]
pub struct ParsedEvent {
    /// The event; its fields have the types of the schema's columns.
    pub event: Event,
    /// The number of values whose names the schema does not have.
    pub ignored: usize,
    /// The first of these names, cut if they are long.
    pub unknown: Vec<String>,
}

/// Reasons to refuse bytes as an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JsonError {
    /// The bytes are not one JSON object. The reason is short and mostly names line and column.
    Syntax(String),
    /// A value does not fit the column of its name.
    Type {
        /// The dotted name, cut if it is long.
        field: String,
        /// The kind of value that is wanted.
        expected: &'static str,
        /// The value that was found, cut if it is long.
        found: String,
    },
    /// A limit of this module is passed.
    Limit {
        /// The thing that there is too much of.
        what: &'static str,
        /// The most that is accepted.
        max: usize,
    },
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JsonError::Syntax(reason) => write!(f, "expected one JSON object: {reason}"),
            JsonError::Type { field, expected, found } => {
                write!(f, "field `{field}`: expected {expected}, found {found}")
            }
            JsonError::Limit { what, max } => write!(f, "an event has at most {max} {what}"),
        }
    }
}

impl std::error::Error for JsonError {}

/// Reads one object. The members `id` (a string), `time` (RFC 3339, or seconds since 1970) and `raw` (a string:
/// the message that content features are read from) go to the event itself; all others to the column of their
/// name, nested objects by dotted names (`{"user": {"ip": ..}}` is `user.ip`), values converted as
/// [`Value::coerce`] does, arrays of scalars as lists. `null` is a missing value. What the schema has no column
/// for is counted and left out. Linear in the bytes.
pub fn event(bytes: &[u8], schema: &Schema) -> Result<ParsedEvent, JsonError> {
    if bytes.len() > JSON_BYTES_MAX {
        return Err(JsonError::Limit { what: "bytes", max: JSON_BYTES_MAX });
    }
    let mut sink = EventSink {
        schema,
        parsed: ParsedEvent { event: Event::default(), ignored: 0, unknown: Vec::new() },
        name: String::new(),
        depth: 0,
        members: 0,
        error: None,
    };
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let outcome = EventSeed(&mut sink).deserialize(&mut deserializer).and_then(|()| deserializer.end());
    match (sink.error, outcome) {
        (Some(error), _) => Err(error),
        // The reason may quote what was found, however long it is.
        (None, Err(error)) => {
            Err(JsonError::Syntax(truncate(&error.to_string(), REASON_BYTES_MAX).to_owned()))
        }
        (None, Ok(())) => Ok(sink.parsed),
    }
}

struct EventSink<'s> {
    schema: &'s Schema,
    parsed: ParsedEvent,
    /// The dotted name of the member that is being read.
    name: String,
    depth: usize,
    members: usize,
    /// The error that stopped the reading, where it was not the syntax.
    error: Option<JsonError>,
}

impl EventSink<'_> {
    /// Leaves the member out.
    fn ignore(&mut self) {
        self.parsed.ignored += 1;
        if self.parsed.unknown.len() < UNKNOWN_MAX {
            self.parsed.unknown.push(truncate(&self.name, SHOWN_BYTES_MAX).to_owned());
        }
    }

    /// Stops the reading.
    fn refuse<E: serde::de::Error>(&mut self, error: JsonError) -> E {
        self.error = Some(error);
        E::custom("refused")
    }

    fn mismatch<E: serde::de::Error>(&mut self, expected: &'static str, found: &Value) -> E {
        let text = found.to_string();
        let shown = truncate(&text, SHOWN_BYTES_MAX);
        let dots = if shown.len() < text.len() { "..." } else { "" };
        let found = match found {
            Value::String(_) => format!("{shown:?}{dots}"),
            Value::List(_) => "a list".to_owned(),
            _ => format!("{shown}{dots}"),
        };
        let field = truncate(&self.name, 2 * SHOWN_BYTES_MAX).to_owned();
        self.refuse(JsonError::Type { field, expected, found })
    }

    /// Takes a value under the current name.
    fn take<E: serde::de::Error>(&mut self, value: Value) -> Result<(), E> {
        match self.name.as_str() {
            "id" => match value {
                Value::String(id) if (1..=Event::ID_BYTES_MAX).contains(&id.len()) => {
                    self.parsed.event.id = Some(id.into());
                }
                other => return Err(self.mismatch("a string of 1 to 256 bytes", &other)),
            },
            "time" => match value.clone().coerce(Type::Time) {
                Some(Value::Time(time)) if is_plausible(time) => self.parsed.event.time = Some(time),
                _ => return Err(self.mismatch("a time in RFC 3339 or in seconds since 1970", &value)),
            },
            "raw" => match value {
                Value::String(raw) if raw.len() <= MESSAGE_BYTES_MAX => {
                    self.parsed.event.raw = Some(raw.into_boxed_bytes().into());
                }
                Value::String(_) => {
                    return Err(
                        self.refuse(JsonError::Limit { what: "bytes in `raw`", max: MESSAGE_BYTES_MAX })
                    );
                }
                other => return Err(self.mismatch("a message as a string", &other)),
            },
            name => {
                let Some(slot) = self.schema.slot(name) else {
                    self.ignore();
                    return Ok(());
                };
                if matches!(&value, Value::String(text) if text.len() > STRING_BYTES_MAX) {
                    return Err(
                        self.refuse(JsonError::Limit { what: "bytes in a string", max: STRING_BYTES_MAX })
                    );
                }
                let kind = self.schema.column(slot).kind;
                match value.clone().coerce(kind) {
                    Some(value) => self.parsed.event.push(self.name.clone(), value),
                    None => return Err(self.mismatch(kind.name(), &value)),
                }
            }
        }
        Ok(())
    }
}

/// Years 0 to 9999, so that every time can be printed and added to.
fn is_plausible(time: Time) -> bool {
    (-62_167_219_200..253_402_300_800).contains(&time.seconds())
}

struct EventSeed<'a, 's>(&'a mut EventSink<'s>);

impl<'de> DeserializeSeed<'de> for EventSeed<'_, '_> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(ObjectVisitor(self.0))
    }
}

struct ObjectVisitor<'a, 's>(&'a mut EventSink<'s>);

impl<'de> Visitor<'de> for ObjectVisitor<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let sink = self.0;
        if sink.depth >= DEPTH_MAX {
            return Err(sink.refuse(JsonError::Limit { what: "levels of objects", max: DEPTH_MAX }));
        }
        sink.depth += 1;
        let outer = sink.name.len();
        while let Some(()) = map.next_key_seed(MemberNameSeed(sink))? {
            sink.members += 1;
            if sink.members > MEMBERS_MAX {
                return Err(sink.refuse(JsonError::Limit { what: "members", max: MEMBERS_MAX }));
            }
            map.next_value_seed(MemberValueSeed(sink))?;
            sink.name.truncate(outer);
        }
        sink.depth -= 1;
        Ok(())
    }
}

/// Appends a member's name to the dotted name.
struct MemberNameSeed<'a, 's>(&'a mut EventSink<'s>);

impl<'de> DeserializeSeed<'de> for MemberNameSeed<'_, '_> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for MemberNameSeed<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<(), E> {
        let sink = self.0;
        if sink.name.len() + name.len() >= STRING_BYTES_MAX {
            return Err(sink.refuse(JsonError::Limit { what: "bytes in a name", max: STRING_BYTES_MAX }));
        }
        if sink.depth > 1 {
            sink.name.push('.');
        }
        sink.name.push_str(name);
        Ok(())
    }
}

/// A member's value.
struct MemberValueSeed<'a, 's>(&'a mut EventSink<'s>);

impl<'de> DeserializeSeed<'de> for MemberValueSeed<'_, '_> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for MemberValueSeed<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E: serde::de::Error>(self, truth: bool) -> Result<(), E> {
        self.0.take(Value::Bool(truth))
    }

    fn visit_i64<E: serde::de::Error>(self, integer: i64) -> Result<(), E> {
        self.0.take(Value::Integer(integer))
    }

    fn visit_u64<E: serde::de::Error>(self, integer: u64) -> Result<(), E> {
        // What does not fit an integer still fits a string, exactly, or a float.
        self.0.take(i64::try_from(integer).map_or_else(|_| Value::from(integer.to_string()), Value::Integer))
    }

    fn visit_f64<E: serde::de::Error>(self, float: f64) -> Result<(), E> {
        self.0.take(Value::Float(float))
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<(), E> {
        self.0.take(Value::from(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let sink = self.0;
        if sink.schema.slot(&sink.name).is_none() {
            sink.ignore();
            while items.next_element::<IgnoredAny>()?.is_some() {}
            return Ok(());
        }
        let mut list = Vec::new();
        while let Some(ListItem(item)) = items.next_element()? {
            let Some(item) = item else {
                return Err(sink.mismatch("a list of strings, numbers or bools", &Value::from(list)));
            };
            if list.len() >= LIST_ITEMS_MAX {
                return Err(sink.refuse(JsonError::Limit { what: "items in a list", max: LIST_ITEMS_MAX }));
            }
            if item.len() > STRING_BYTES_MAX {
                return Err(
                    sink.refuse(JsonError::Limit { what: "bytes in a string", max: STRING_BYTES_MAX })
                );
            }
            list.push(item);
        }
        sink.take(Value::from(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<(), A::Error> {
        ObjectVisitor(self.0).visit_map(map)
    }
}

/// An item of a list, printed; `None` for what is no scalar.
struct ListItem(Option<String>);

impl<'de> serde::Deserialize<'de> for ListItem {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<ListItem, D::Error> {
        deserializer.deserialize_any(ListItemVisitor)
    }
}

struct ListItemVisitor;

impl<'de> Visitor<'de> for ListItemVisitor {
    type Value = ListItem;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<ListItem, E> {
        Ok(ListItem(None))
    }

    fn visit_bool<E>(self, truth: bool) -> Result<ListItem, E> {
        Ok(ListItem(Some(truth.to_string())))
    }

    fn visit_i64<E>(self, integer: i64) -> Result<ListItem, E> {
        Ok(ListItem(Some(integer.to_string())))
    }

    fn visit_u64<E>(self, integer: u64) -> Result<ListItem, E> {
        Ok(ListItem(Some(integer.to_string())))
    }

    fn visit_f64<E>(self, float: f64) -> Result<ListItem, E> {
        Ok(ListItem(Some(float.to_string())))
    }

    fn visit_str<E>(self, text: &str) -> Result<ListItem, E> {
        Ok(ListItem(Some(text.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<ListItem, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(ListItem(None))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ListItem, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(ListItem(None))
    }
}

#[cfg(test)]
mod tests {
    use event::{Column, SchemaBuilder};

    use super::*;

    fn schema() -> Schema {
        let mut builder = SchemaBuilder::default();
        for (name, kind) in [
            ("user", Type::String),
            ("user.ip", Type::Ip),
            ("count", Type::Integer),
            ("share", Type::Float),
            ("ok", Type::Bool),
            ("tags", Type::List),
        ] {
            let column = Column { name: name.into(), kind, doc: String::new(), journalled: true };
            builder.add(column).unwrap();
        }
        builder.finish()
    }

    fn check(text: &str, expected: &[&str], ignored: usize) {
        let parsed = event(text.as_bytes(), &schema()).unwrap_or_else(|error| panic!("{text}: {error}"));
        let fields: Vec<String> = parsed
            .event
            .fields
            .iter()
            .map(|(name, value)| format!("{name}:{}={value}", value.type_of()))
            .collect();
        assert_eq!(fields, expected, "{text}");
        assert_eq!(parsed.ignored, ignored, "{text}");
    }

    #[test]
    fn objects_become_events() {
        check("{}", &[], 0);
        check(
            r#"{"user": "ann", "count": "7", "share": 1, "ok": true}"#,
            &["user:string=ann", "count:integer=7", "share:float=1", "ok:bool=true"],
            0,
        );
        check(
            r#"{"user": {"ip": "::ffff:192.0.2.1", "x": {"y": 1}}, "z": [1, {}]}"#,
            &["user.ip:ip=192.0.2.1"],
            2,
        );
        check(
            r#"{"user.ip": "192.0.2.1", "tags": ["a", 1, false], "count": null}"#,
            &["user.ip:ip=192.0.2.1", "tags:list=a, 1, false"],
            0,
        );
        check(
            r#"{"user": 18446744073709551615, "share": 18446744073709551615, "tags": "one"}"#,
            &["user:string=18446744073709551615", "share:float=18446744073709552000", "tags:list=one"],
            0,
        );
        let parsed = event(br#"{"id": "e1", "time": 1431857103.5, "raw": "Subject: x\n\n"}"#, &schema())
            .unwrap()
            .event;
        assert_eq!(parsed.id.as_deref(), Some("e1"));
        assert_eq!(parsed.time, Some(Time::from_millis(1_431_857_103_500)));
        assert_eq!(parsed.raw.as_deref(), Some(&b"Subject: x\n\n"[..]));
    }

    fn check_error(text: &str, expected: &str) {
        assert_eq!(event(text.as_bytes(), &schema()).unwrap_err().to_string(), expected);
    }

    #[test]
    fn errors_name_the_field() {
        check_error(r#"{"count": "many"}"#, "field `count`: expected integer, found \"many\"");
        check_error(r#"{"count": 1.5}"#, "field `count`: expected integer, found 1.5");
        check_error(
            r#"{"count": 18446744073709551615}"#,
            "field `count`: expected integer, found \"18446744073709551615\"",
        );
        check_error(r#"{"user": {"ip": ["a"]}}"#, "field `user.ip`: expected ip, found a list");
        check_error(
            r#"{"tags": [[1]]}"#,
            "field `tags`: expected a list of strings, numbers or bools, found a list",
        );
        check_error(
            r#"{"time": "noon"}"#,
            "field `time`: expected a time in RFC 3339 or in seconds since 1970, found \"noon\"",
        );
        check_error(
            r#"{"time": 1e300}"#,
            "field `time`: expected a time in RFC 3339 or in seconds since 1970, found 1000000000000000000000000000000000000000...",
        );
        check_error(r#"{"id": 7}"#, "field `id`: expected a string of 1 to 256 bytes, found 7");
        check_error(
            "[]",
            "expected one JSON object: invalid type: sequence, expected an object at line 1 column 0",
        );
        check_error("{} x", "expected one JSON object: trailing characters at line 1 column 4");
        check_error(
            &format!("\"{}\"", "x".repeat(10_000)),
            &format!("expected one JSON object: invalid type: string \"{}", "x".repeat(138)),
        );
        check_error(&r#"{"a":"#.repeat(10_000), "an event has at most 8 levels of objects");
        check_error(
            &format!("{{\"z\":{}", "[".repeat(10_000)),
            "expected one JSON object: EOF while parsing a list at line 1 column 10005",
        );
        let members: Vec<String> = (0..3_000).map(|i| format!("\"m{i}\":0")).collect();
        check_error(&format!("{{{}}}", members.join(",")), "an event has at most 2048 members");
        check_error(
            &format!("{{\"user\":\"{}\"}}", "x".repeat(70_000)),
            "an event has at most 65536 bytes in a string",
        );
        check_error(
            &format!("{{\"tags\":[{}0]}}", "0,".repeat(2_000)),
            "an event has at most 1000 items in a list",
        );
    }
}
