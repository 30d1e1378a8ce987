//! The JSON of the HTTP interface: what clients read and write, apart from what the engine holds.
//!
//! These shapes are a promise: members may be added, but none is renamed, retyped or taken away within `/v1`. Times
//! are RFC 3339 in UTC, spans are text such as `1h` or `14d`, shingles are 16 hexadecimal digits. A member that has
//! no value is left out. Counts are 64-bit and written as plain numbers.

use std::fmt;
use std::str::FromStr;

use event::{Span, Time};
use judge::Action;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use utoipa::ToSchema;
use utoipa::openapi::schema::{ObjectBuilder, Type};

mod access;
mod anomaly;
mod backtest;
mod ban;
mod ban_import;
mod challenge;
mod correction;
mod decision;
mod decision_csv;
mod decision_parquet;
mod erasure;
mod explanation;
mod feedback;
mod form;
mod learners;
mod limits;
mod node;
mod notification;
mod posted_value;
mod problem;
mod reputation;
mod review;
mod review_agreement;
mod rules;
mod saved_search;
mod score_fit;
mod search;
mod set;
mod similar;
mod sink;
mod source;
mod statistics;
mod sums;

pub use access::*;
pub use anomaly::*;
pub use backtest::*;
pub use ban::*;
pub use ban_import::*;
pub use challenge::*;
pub use correction::*;
pub use decision::*;
pub use decision_csv::*;
pub(crate) use decision_parquet::*;
pub use erasure::*;
pub use explanation::*;
pub use feedback::*;
pub use form::*;
pub use learners::*;
pub use limits::*;
pub use node::*;
pub use notification::*;
pub use posted_value::*;
pub use problem::*;
pub use reputation::*;
pub use review::*;
pub use review_agreement::*;
pub use rules::*;
pub use saved_search::*;
pub use score_fit::*;
pub use search::*;
pub use set::*;
pub use similar::*;
pub use sink::*;
pub use source::*;
pub use statistics::*;

/// Implements a type that JSON writes as the text that it prints.
macro_rules! text {
    ($(#[$meta:meta])* $name:ident($inner:ty) $($format:ident)?) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ToSchema)]
        #[schema(value_type = String $(, format = $format)?)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl From<$inner> for $name {
            fn from(inner: $inner) -> $name {
                $name(inner)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<$name, D::Error> {
                let text = String::deserialize(deserializer)?;
                <$inner>::from_str(&text).map($name).map_err(de::Error::custom)
            }
        }
    };
}

text! {
    /// A point in time, RFC 3339 in UTC.
    Timestamp(Time) DateTime
}

text! {
    /// A length of time, such as `10m`, `1h` or `14d`.
    Length(Span)
}

fn action_schema() -> utoipa::openapi::schema::Object {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .enum_values(Some(Action::ALL.map(Action::name)))
        .description(Some("What the caller is asked to do"))
        .build()
}

#[cfg(test)]
mod tests {
    use event::{Shingle, Value};
    use journal::json_value;
    use serde_json::json;

    use super::*;

    #[test]
    fn values_become_natural_json() {
        let check = |value: Value, expected: serde_json::Value| assert_eq!(json_value(&value), expected);
        check(Value::from("a\n"), json!("a\n"));
        check(Value::Integer(i64::MIN), json!(i64::MIN));
        check(Value::Float(0.5), json!(0.5));
        check(Value::Float(f64::NAN), json!(null));
        check(Value::Bool(true), json!(true));
        check(Value::Time(Time::from_millis(1_431_857_103_500)), json!("2015-05-17T10:05:03.5Z"));
        check(Value::Ip("2001:db8::1".parse().unwrap()), json!("2001:db8::1"));
        check(Value::Bytes(Box::new([0, 255])), json!("00ff"));
        check(Value::from(vec!["a".to_owned(), "b".to_owned()]), json!(["a", "b"]));
    }

    #[test]
    fn a_timeline_is_cut_into_its_tiers() {
        let bucket =
            |start, width, counts| stats::TimelineBucket { start: Time::from_seconds(start), width, counts };
        let timeline = stats::Timeline {
            counters: vec!["seen".to_owned(), "spam".to_owned()],
            first: Time::from_seconds(10),
            last: Time::from_seconds(86_999),
            buckets: vec![
                bucket(0, Span::days(1), vec![3, 1]),
                bucket(86_400, Span::minutes(10), vec![1, 0]),
                bucket(87_000, Span::minutes(10), vec![2, 2]),
            ],
        };
        let known = engine::KeyTimeline {
            piece: "ann@example.org".to_owned(),
            shingle: Shingle(7),
            counters: timeline.counters.clone(),
            windows: vec![(Span::hours(1), vec![2, 0])],
            values: vec![("max".to_owned(), Value::Integer(7))],
            quality: stats::Quality::Exact,
            reputations: Vec::new(),
            timeline: Some(timeline),
        };
        let written = serde_json::to_value(TimelineJson::new("mail", "from", &known)).unwrap();
        assert_eq!(
            written,
            json!({
                "pipeline": "mail",
                "kind": "from",
                "piece": "ann@example.org",
                "shingle": "0000000000000007",
                "quality": "exact",
                "values": {"max": 7},
                "first": "1970-01-01T00:00:10Z",
                "last": "1970-01-02T00:09:59Z",
                "counters": ["seen", "spam"],
                "windows": [{"window": "1h", "counts": {"seen": 2}}],
                "tiers": [
                    {"width": "1d", "buckets": [{"start": "1970-01-01T00:00:00Z", "counts": {"seen": 3, "spam": 1}}]},
                    {"width": "10m", "buckets": [
                        {"start": "1970-01-02T00:00:00Z", "counts": {"seen": 1}},
                        {"start": "1970-01-02T00:10:00Z", "counts": {"seen": 2, "spam": 2}},
                    ]},
                ],
            })
        );
        assert_eq!(
            serde_json::from_value::<TimelineJson>(written).unwrap(),
            TimelineJson::new("mail", "from", &known)
        );
    }

    #[test]
    fn both_kinds_of_batch_lines_read_back() {
        let check = |text: &str, is_error: bool| {
            let line: BatchLine = serde_json::from_str(text).unwrap();
            assert_eq!(matches!(line, BatchLine::Error(_)), is_error, "{text}");
            assert_eq!(serde_json::to_string(&line).unwrap(), text);
        };
        check(
            r#"{"id":"0000000000001","pipeline":"web","version":"00","time":"2026-05-17T10:00:00Z","action":"review_after","score":3.0,"probability":0.25,"next":{"action":"challenge","distance":2.0},"duplicate":false,"reasons":[{"name":"PROBE","score":3.0,"detail":"http.probe = true","values":{"http.probe":true}}],"shadow":[]}"#,
            false,
        );
        check(
            r#"{"line":7,"error":{"type":"urn:tollhouse:problem:invalid-event","title":"t","status":422,"detail":"d"}}"#,
            true,
        );
    }
}
