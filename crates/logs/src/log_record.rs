//! Lines that are records, as key=value (logfmt) or JSON: their fields by name, and which of them mean something.
//!
//! ```text
//! {"ts":"…","remote":{"ip":"192.0.2.7"},"msg":"login failed","user":"ann"}
//!      │              │                        │                 └► log.user    map = { user = "user",
//!      └► the time    └► log.ip                └► patterns                              ip = "remote.ip", text = "msg" }
//! ```

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use event::{Time, Value};
use serde_json::{Map, Value as Json};

use crate::date::DateContext;
use crate::date_detector::{DateDetector, LastDate};
use crate::logfmt;

/// Most bytes of a field's text.
const FIELD_BYTES_MAX: usize = 1024;
/// Names under which a time is looked for, if none is named.
const TIME_NAMES: [&str; 5] = ["time", "ts", "timestamp", "@timestamp", "t"];

/// The format of a log's own lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogLineFormat {
    /// Text, of which patterns say what it means.
    #[default]
    Text,
    /// `key=value`, with values in quotes.
    Logfmt,
    /// A JSON object.
    Json,
}

impl LogLineFormat {
    /// Names, in the order in which they are documented.
    pub const NAMES: [&str; 3] = ["text", "logfmt", "json"];

    /// The format of a name.
    pub fn named(name: &str) -> Option<LogLineFormat> {
        [LogLineFormat::Text, LogLineFormat::Logfmt, LogLineFormat::Json]
            .into_iter()
            .find(|format| format.name() == name)
    }

    /// The name.
    pub fn name(self) -> &'static str {
        LogLineFormat::NAMES[self as usize]
    }
}

/// The names of the record's fields that mean something; a dotted name leads into nested objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogFieldMap {
    /// The address: `log.ip`. A port behind it is taken off.
    pub ip: Option<String>,
    /// The account: `log.user`.
    pub user: Option<String>,
    /// The client's port: `log.port`.
    pub port: Option<String>,
    /// The thing that is counted, if not the address: `log.id`.
    pub id: Option<String>,
    /// The client's name: `log.host`.
    pub host: Option<String>,
    /// The time.
    pub time: Option<String>,
    /// The text that patterns read.
    pub text: Option<String>,
}

impl LogFieldMap {
    /// Names of what fields can mean, in the order in which they are documented.
    pub const NAMES: [&str; 7] = ["ip", "user", "port", "id", "host", "time", "text"];

    /// Makes a map of the record's names by their meanings; a meaning that there is not is passed over.
    pub fn new<'n>(names: impl IntoIterator<Item = (&'n str, &'n str)>) -> LogFieldMap {
        let mut map = LogFieldMap::default();
        for (meaning, name) in names {
            if let Some(field) = map.field(meaning) {
                *field = Some(name.to_owned());
            }
        }
        map
    }

    fn field(&mut self, meaning: &str) -> Option<&mut Option<String>> {
        Some(match meaning {
            "ip" => &mut self.ip,
            "user" => &mut self.user,
            "port" => &mut self.port,
            "id" => &mut self.id,
            "host" => &mut self.host,
            "time" => &mut self.time,
            "text" => &mut self.text,
            _ => return None,
        })
    }

    /// Returns the record's names by their meanings.
    pub fn names(&self) -> BTreeMap<&'static str, String> {
        let own = [&self.ip, &self.user, &self.port, &self.id, &self.host, &self.time, &self.text];
        let named = LogFieldMap::NAMES.into_iter().zip(own);
        named.filter_map(|(meaning, name)| Some((meaning, name.clone()?))).collect()
    }
}

/// A line as a record.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum StructuredLine {
    Pairs(Vec<(String, String)>),
    Object(Map<String, Json>),
}

impl StructuredLine {
    /// Reads a line; `None` if it is no record.
    pub(crate) fn read(format: LogLineFormat, line: &str) -> Option<StructuredLine> {
        match format {
            LogLineFormat::Text => None,
            LogLineFormat::Logfmt => {
                let pairs: Vec<(String, String)> =
                    logfmt::pairs(line).into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
                // Words alone are text.
                let is_record = line.contains('=') && !pairs.is_empty();
                is_record.then_some(StructuredLine::Pairs(pairs))
            }
            LogLineFormat::Json => Some(StructuredLine::Object(serde_json::from_str(line).ok()?)),
        }
    }

    /// Returns a field's value, if it is a scalar. Of a name that a line has several times the last counts, in both formats.
    pub(crate) fn value(&self, name: &str) -> Option<Value> {
        match self {
            StructuredLine::Pairs(pairs) => {
                let (_, value) = pairs.iter().rfind(|(own, _)| own == name)?;
                Some(Value::from(cut(value)))
            }
            StructuredLine::Object(object) => match at(object, name)? {
                Json::String(text) => Some(Value::from(cut(text))),
                Json::Bool(truth) => Some(Value::Bool(*truth)),
                Json::Number(number) => match number.as_i64() {
                    Some(integer) => Some(Value::Integer(integer)),
                    None => number.as_f64().map(Value::Float),
                },
                Json::Null | Json::Array(_) | Json::Object(_) => None,
            },
        }
    }

    /// Returns a field's text, if it has any.
    pub(crate) fn text(&self, name: Option<&String>) -> Option<String> {
        let text = match self.value(name?)? {
            Value::String(text) => text.into_string(),
            other => other.to_string(),
        };
        Some(text).filter(|text| !text.is_empty())
    }

    /// Returns a whole text for patterns.
    pub(crate) fn whole_text(&self, name: &str) -> Option<&str> {
        match self {
            StructuredLine::Pairs(pairs) => {
                pairs.iter().rfind(|(own, _)| own == name).map(|(_, value)| value.as_str())
            }
            StructuredLine::Object(object) => at(object, name)?.as_str(),
        }
    }

    /// Returns the time that the record shows.
    pub(crate) fn time(
        &self,
        map: &LogFieldMap,
        dates: &DateDetector,
        context: &DateContext,
    ) -> Option<Time> {
        let names: &[&str] = match &map.time {
            Some(name) => &[name.as_str()],
            None => &TIME_NAMES,
        };
        let found = names.iter().find_map(|name| self.value(name))?;
        let text = match found {
            Value::Integer(number) => return epoch(number as f64),
            Value::Float(number) => return epoch(number),
            Value::String(text) => text,
            _ => return None,
        };
        if let Ok(number) = text.parse::<f64>() {
            return epoch(number);
        }
        text.parse().ok().or_else(|| dates.find(&text, context, &mut LastDate::default())?.time)
    }

    /// Returns what the record's fields mean, by the names of a pattern's groups.
    pub(crate) fn groups(&self, map: &LogFieldMap) -> BTreeMap<Arc<str>, String> {
        let mut groups = BTreeMap::new();
        let mut add = |name: &str, value: Option<String>| {
            if let Some(value) = value {
                groups.entry(Arc::from(name)).or_insert(value);
            }
        };
        add("fport", self.text(map.port.as_ref()));
        if let Some(ip) = self.text(map.ip.as_ref()) {
            let text = ip.trim();
            let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
            match (bare.parse::<IpAddr>(), text.parse::<SocketAddr>()) {
                (Ok(address), _) => add("ip4", Some(address.to_canonical().to_string())),
                (Err(_), Ok(socket)) => {
                    add("ip4", Some(socket.ip().to_canonical().to_string()));
                    add("fport", Some(socket.port().to_string()));
                }
                (Err(_), Err(_)) => add("dns", Some(text.to_owned()).filter(|text| !text.is_empty())),
            }
        }
        add("dns", self.text(map.host.as_ref()));
        add("user", self.text(map.user.as_ref()));
        add("fid", self.text(map.id.as_ref()));
        groups
    }
}

/// Returns the value of a name: of a key that is called so, or of one in objects inside of each other.
fn at<'o>(object: &'o Map<String, Json>, name: &str) -> Option<&'o Json> {
    if let Some(value) = object.get(name) {
        return Some(value);
    }
    let dots = name.match_indices('.');
    dots.into_iter().find_map(|(dot, _)| match object.get(&name[..dot])? {
        Json::Object(inner) => at(inner, &name[dot + 1..]),
        _ => None,
    })
}

/// Returns the time of a number of seconds, milliseconds, microseconds or nanoseconds since 1970, told apart by their size.
fn epoch(number: f64) -> Option<Time> {
    let per_second = match number.abs() {
        n if n < 1e11 => 1.0,
        n if n < 1e14 => 1e3,
        n if n < 1e17 => 1e6,
        n if n < 1e20 => 1e9,
        _ => return None,
    };
    // A number that is none has no size.
    (number > 0.0).then(|| Time((number / per_second * 1e6).round() as i64))
}

fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(FIELD_BYTES_MAX)]
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;

    use super::*;

    fn shown(format: LogLineFormat, map: &LogFieldMap, line: &str) -> String {
        let Some(record) = StructuredLine::read(format, line) else { return "none".to_owned() };
        let dates = DateDetector::new(&[]).expect("dates");
        let context = DateContext { now: Time::from_seconds(1_700_000_000), zone: TimeZone::UTC };
        let time = record.time(map, &dates, &context).map_or_else(|| "-".to_owned(), |time| time.to_string());
        let groups = record.groups(map);
        let groups: Vec<String> = groups.iter().map(|(name, value)| format!("{name}={value}")).collect();
        format!("{time} {}", groups.join(" "))
    }

    #[test]
    fn records_say_who_and_when() {
        let map = LogFieldMap::new([("ip", "remote.ip"), ("user", "user"), ("id", "sid"), ("wrong", "x")]);
        assert_eq!(map.names().into_keys().collect::<Vec<_>>(), ["id", "ip", "user"]);
        let check = |format: LogLineFormat, line: &str, expected: &str| {
            assert_eq!(shown(format, &map, line), expected, "{line}");
        };
        use LogLineFormat::{Json, Logfmt, Text};
        let at = "2005-01-23T20:59:59Z";
        check(
            Json,
            r#"{"ts":"2005-01-23T20:59:59Z","remote":{"ip":"192.0.2.7"},"user":"ann"}"#,
            &format!("{at} ip4=192.0.2.7 user=ann"),
        );
        check(
            Json,
            r#"{"time":1106513999,"remote.ip":"192.0.2.7:4711","user":7}"#,
            &format!("{at} fport=4711 ip4=192.0.2.7 user=7"),
        );
        check(
            Json,
            r#"{"ts":1106513999000,"remote":{"ip":"[2001:db8::7]:4711"},"sid":"a"}"#,
            &format!("{at} fid=a fport=4711 ip4=2001:db8::7"),
        );
        check(
            Json,
            r#"{"timestamp":"23/Jan/2005:20:59:59 +0000","remote":{"ip":"[::ffff:192.0.2.7]"}}"#,
            &format!("{at} ip4=192.0.2.7"),
        );
        check(Json, r#"{"remote":{"ip":"host.example"},"user":""}"#, "- dns=host.example");
        check(Json, r#"{"remote":["ip"],"user":{"ip":1},"ts":null}"#, "- ");
        check(Json, r#"{"remote":"#, "none");
        check(Json, "[1]", "none");
        check(
            Logfmt,
            r#"ts=2005-01-23T20:59:59Z remote.ip=192.0.2.7:1 user="a b""#,
            &format!("{at} fport=1 ip4=192.0.2.7 user=a b"),
        );
        check(Logfmt, "ts=1106513999.0 user=a user=b", &format!("{at} user=b"));
        check(Logfmt, "only words", "none");
        check(Text, "a=b", "none");
    }

    #[test]
    fn numbers_are_times_by_their_size() {
        for (number, expected) in [
            (1_106_513_999.5, Some(1_106_513_999_500_000)),
            (1_106_513_999_500.0, Some(1_106_513_999_500_000)),
            (1_106_513_999_500_000.0, Some(1_106_513_999_500_000)),
            (0.0, None),
            (-5.0, None),
            (1e30, None),
            (f64::NAN, None),
            (f64::INFINITY, None),
        ] {
            assert_eq!(epoch(number).map(|time| time.0), expected, "{number}");
        }
    }

    #[test]
    fn names_lead_into_objects() {
        let object: Map<String, Json> =
            serde_json::from_str(r#"{"a":{"b.c":1,"b":{"c":2}},"a.b":{"d":3},"l":[1]}"#).expect("object");
        let check = |name: &str, expected: Option<i64>| {
            assert_eq!(at(&object, name).and_then(Json::as_i64), expected, "{name}");
        };
        check("a.b.c", Some(1));
        check("a.b.d", Some(3));
        check("a.x", None);
        check("l.0", None);
        check("", None);
    }

    #[test]
    fn formats_have_names() {
        for name in LogLineFormat::NAMES {
            assert_eq!(LogLineFormat::named(name).map(LogLineFormat::name), Some(name));
        }
    }
}
