//! Functions of expressions: those of the language, and CrowdSec's own.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use crate::crowdsec::evaluator::{EvaluationError, Evaluator, error};
use crate::crowdsec::json_path;
use crate::crowdsec::value::{ExprObject, ExprValue, TextMap};
use crate::crowdsec::{duration, go_date};

/// Names of the functions that are known, in order.
pub const FUNCTIONS: [&str; 127] = [
    "Atof",
    "AverageInterval",
    "B64Decode",
    "B64Encode",
    "Base64Encode",
    "Base64Decode",
    "Distance",
    "Distinct",
    "Fields",
    "File",
    "Flatten",
    "FlattenDistinct",
    "FloatApproxEqual",
    "Get",
    "GetActiveDecisionsCount",
    "GetActiveDecisionsTimeLeft",
    "GetDecisionsCount",
    "GetDecisionsSinceCount",
    "GetFromStash",
    "Hostname",
    "Index",
    "IndexAny",
    "IpInRange",
    "IpToRange",
    "IsIP",
    "IsIPV4",
    "IsIPV6",
    "Join",
    "JsonExtract",
    "JsonExtractObject",
    "JsonExtractSlice",
    "JsonExtractUnescape",
    "KeyExists",
    "LogInfo",
    "LookupFile",
    "Lower",
    "Match",
    "MedianInterval",
    "ParseKV",
    "ParseKVLax",
    "ParseUnix",
    "ParseUnixTime",
    "ParseUri",
    "PathEscape",
    "PathUnescape",
    "QueryEscape",
    "QueryUnescape",
    "RegexpInFile",
    "Replace",
    "ReplaceAll",
    "SetInStash",
    "Split",
    "SplitAfter",
    "SplitAfterN",
    "SplitN",
    "Sprintf",
    "String",
    "TimeNow",
    "ToJson",
    "ToJsonString",
    "ToString",
    "Trim",
    "TrimLeft",
    "TrimPrefix",
    "TrimRight",
    "TrimSpace",
    "TrimSuffix",
    "UnmarshalJSON",
    "Upper",
    "XMLGetAttributeValue",
    "XMLGetNodeValue",
    "abs",
    "basename",
    "bitand",
    "bitnand",
    "bitnot",
    "bitor",
    "bitshl",
    "bitshr",
    "bitushr",
    "bitxor",
    "ceil",
    "concat",
    "date",
    "duration",
    "first",
    "flatten",
    "float",
    "floor",
    "fromBase64",
    "fromJSON",
    "fromPairs",
    "get",
    "hasPrefix",
    "hasSuffix",
    "indexOf",
    "int",
    "join",
    "keys",
    "last",
    "lastIndexOf",
    "len",
    "lower",
    "max",
    "mean",
    "median",
    "min",
    "now",
    "repeat",
    "replace",
    "reverse",
    "round",
    "sort",
    "split",
    "splitAfter",
    "string",
    "take",
    "toBase64",
    "toJSON",
    "toPairs",
    "trim",
    "trimPrefix",
    "trimSuffix",
    "type",
    "uniq",
    "upper",
    "values",
];

/// Orders values of one kind.
pub(crate) fn order(one: &ExprValue, other: &ExprValue) -> Ordering {
    match (one, other) {
        (ExprValue::Text(one), ExprValue::Text(other)) => one.cmp(other),
        (ExprValue::Moment(one), ExprValue::Moment(other))
        | (ExprValue::Duration(one), ExprValue::Duration(other)) => one.cmp(other),
        _ => one.as_number().partial_cmp(&other.as_number()).unwrap_or(Ordering::Equal),
    }
}

/// A day of the week, from Sunday on.
#[derive(Debug)]
struct DayOfWeek(i8);

impl ExprObject for DayOfWeek {
    fn member(&self, _name: &str) -> Option<ExprValue> {
        None
    }

    fn call(&self, name: &str, _arguments: &[ExprValue]) -> Option<ExprValue> {
        let day = go_date::DAYS.get(usize::try_from(self.0).ok()?)?;
        (name == "String").then(|| ExprValue::from(*day))
    }
}

/// A method of a moment, in UTC.
pub(crate) fn moment_method(at: i64, name: &str, arguments: &[ExprValue]) -> Option<ExprValue> {
    let moment = jiff::Timestamp::from_nanosecond(i128::from(at)).ok()?;
    let local = jiff::tz::Offset::UTC.to_datetime(moment);
    Some(match name {
        "Hour" => ExprValue::Int(i64::from(local.hour())),
        "Minute" => ExprValue::Int(i64::from(local.minute())),
        "Second" => ExprValue::Int(i64::from(local.second())),
        "Year" => ExprValue::Int(i64::from(local.year())),
        "Month" => ExprValue::Int(i64::from(local.month())),
        "Day" => ExprValue::Int(i64::from(local.day())),
        "YearDay" => ExprValue::Int(i64::from(local.day_of_year())),
        "Weekday" => ExprValue::Object(Arc::new(DayOfWeek(local.weekday().to_sunday_zero_offset()))),
        "Unix" => ExprValue::Int(moment.as_second()),
        "UnixNano" => ExprValue::Int(at),
        "UTC" => ExprValue::Moment(at),
        "String" => ExprValue::from(crate::crowdsec::value::rfc3339(at, 0)),
        "Sub" => match arguments.first()? {
            ExprValue::Moment(other) => ExprValue::Duration(at.saturating_sub(*other)),
            _ => return None,
        },
        "Add" => match arguments.first()? {
            ExprValue::Duration(length) => ExprValue::Moment(at.saturating_add(*length)),
            _ => return None,
        },
        "After" | "Before" => match arguments.first()? {
            ExprValue::Moment(other) => {
                ExprValue::Bool(if name == "After" { at > *other } else { at < *other })
            }
            _ => return None,
        },
        _ => return None,
    })
}

fn text<'a>(name: &str, arguments: &'a [ExprValue], index: usize) -> Result<&'a Arc<str>, EvaluationError> {
    match arguments.get(index) {
        Some(ExprValue::Text(text)) => Ok(text),
        Some(value) => error(format!("`{name}` wants a text, not {}", value.kind())),
        None => error(format!("`{name}` wants more")),
    }
}

fn number(name: &str, arguments: &[ExprValue], index: usize) -> Result<f64, EvaluationError> {
    match arguments.get(index).and_then(ExprValue::as_number) {
        Some(number) => Ok(number),
        None => error(format!("`{name}` wants a number")),
    }
}

fn list<'a>(
    name: &str,
    arguments: &'a [ExprValue],
    index: usize,
) -> Result<&'a [ExprValue], EvaluationError> {
    match arguments.get(index) {
        Some(ExprValue::List(items)) => Ok(items),
        _ => error(format!("`{name}` wants a list")),
    }
}

fn texts(pieces: impl Iterator<Item = impl Into<Arc<str>>>) -> ExprValue {
    ExprValue::List(Arc::new(pieces.map(|piece| ExprValue::Text(piece.into())).collect()))
}

/// Calls a function.
pub(crate) fn call(
    evaluator: &mut Evaluator<'_, '_>,
    name: &str,
    arguments: &[ExprValue],
) -> Result<ExprValue, EvaluationError> {
    for argument in arguments {
        if let ExprValue::Text(text) = argument {
            evaluator.pay_text(text)?;
        }
    }
    let t = |index: usize| text(name, arguments, index);
    let optional = |index: usize| arguments.get(index).and_then(ExprValue::as_text);
    Ok(match name {
        "len" => match arguments.first() {
            Some(ExprValue::Text(text)) => ExprValue::Int(text.len() as i64),
            Some(ExprValue::List(items)) => ExprValue::Int(items.len() as i64),
            Some(ExprValue::Map(map)) => ExprValue::Int(map.len() as i64),
            Some(ExprValue::Texts(map)) => ExprValue::Int(map.len() as i64),
            _ => return error("`len` wants a text, list or map"),
        },
        "Upper" | "upper" => ExprValue::from(t(0)?.to_uppercase()),
        "Lower" | "lower" => ExprValue::from(t(0)?.to_lowercase()),
        "TrimSpace" => ExprValue::from(t(0)?.trim()),
        "trim" | "Trim" => match optional(1) {
            Some(cut) => ExprValue::from(t(0)?.trim_matches(|c| cut.contains(c))),
            None => ExprValue::from(t(0)?.trim()),
        },
        "TrimLeft" => {
            ExprValue::from(t(0)?.trim_start_matches(|c| optional(1).is_some_and(|cut| cut.contains(c))))
        }
        "TrimRight" => {
            ExprValue::from(t(0)?.trim_end_matches(|c| optional(1).is_some_and(|cut| cut.contains(c))))
        }
        "TrimPrefix" | "trimPrefix" => {
            let text = t(0)?;
            ExprValue::from(text.strip_prefix(t(1)?.as_ref()).unwrap_or(text))
        }
        "TrimSuffix" | "trimSuffix" => {
            let text = t(0)?;
            ExprValue::from(text.strip_suffix(t(1)?.as_ref()).unwrap_or(text))
        }
        "hasPrefix" => ExprValue::Bool(t(0)?.starts_with(t(1)?.as_ref())),
        "hasSuffix" => ExprValue::Bool(t(0)?.ends_with(t(1)?.as_ref())),
        "indexOf" | "Index" => ExprValue::Int(t(0)?.find(t(1)?.as_ref()).map_or(-1, |at| at as i64)),
        "IndexAny" => {
            let any = t(1)?;
            ExprValue::Int(t(0)?.find(|c| any.contains(c)).map_or(-1, |at| at as i64))
        }
        "lastIndexOf" => ExprValue::Int(t(0)?.rfind(t(1)?.as_ref()).map_or(-1, |at| at as i64)),
        "Split" | "split" | "SplitN" => {
            let (text, by) = (t(0)?, t(1)?);
            let most = arguments.get(2).and_then(ExprValue::as_number).filter(|most| *most >= 1.0);
            evaluator.pay(text.len())?;
            match (by.is_empty(), most) {
                (true, _) => texts(text.chars().map(|c| c.to_string())),
                (_, Some(most)) => texts(text.splitn(most as usize, by.as_ref())),
                (_, None) => texts(text.split(by.as_ref())),
            }
        }
        "splitAfter" | "SplitAfter" | "SplitAfterN" => {
            let (text, by) = (t(0)?, t(1)?);
            let most = arguments.get(2).and_then(ExprValue::as_number).filter(|most| *most >= 1.0);
            evaluator.pay(text.len())?;
            if by.is_empty() {
                texts(text.chars().map(|c| c.to_string()))
            } else {
                let mut pieces: Vec<&str> = text.split_inclusive(by.as_ref()).collect();
                // What stands behind the last separator is a piece, even if it is empty.
                if text.is_empty() || text.ends_with(by.as_ref()) {
                    pieces.push("");
                }
                let most = most.map_or(pieces.len(), |most| most as usize).max(1);
                if pieces.len() > most {
                    let length: usize = pieces[..most - 1].iter().map(|piece| piece.len()).sum();
                    pieces.truncate(most - 1);
                    pieces.push(&text[length..]);
                }
                texts(pieces.into_iter())
            }
        }
        "Fields" => texts(t(0)?.split_whitespace()),
        "Join" | "join" => {
            let items = list(name, arguments, 0)?;
            evaluator.pay(items.len())?;
            let mut joined = String::new();
            for (index, item) in items.iter().enumerate() {
                let Some(item) = item.as_text() else { return error("`join` wants texts") };
                evaluator.pay_text(item)?;
                if index > 0 {
                    joined.push_str(optional(1).unwrap_or_default());
                }
                joined.push_str(item);
            }
            ExprValue::from(joined)
        }
        "replace" | "Replace" | "ReplaceAll" => {
            let (text, from, to) = (t(0)?, t(1)?, t(2)?);
            let most = arguments.get(3).and_then(ExprValue::as_number).filter(|most| *most >= 0.0);
            evaluator.pay(text.len().saturating_add(1).saturating_mul(to.len() / 64 + 1))?;
            match most {
                Some(most) => ExprValue::from(text.replacen(from.as_ref(), to, most as usize)),
                None => ExprValue::from(text.replace(from.as_ref(), to)),
            }
        }
        "repeat" => {
            let times = number(name, arguments, 1)?.clamp(0.0, 1e6) as usize;
            evaluator.pay(t(0)?.len().saturating_mul(times))?;
            ExprValue::from(t(0)?.repeat(times))
        }
        "string" | "ToString" | "String" => match arguments.first() {
            Some(value) => ExprValue::from(value.to_string()),
            None => return error("`string` wants a value"),
        },
        "int" => match arguments.first() {
            Some(ExprValue::Int(number)) => ExprValue::Int(*number),
            Some(ExprValue::Float(number)) => ExprValue::Int(*number as i64),
            Some(ExprValue::Text(text)) => match text.parse() {
                Ok(number) => ExprValue::Int(number),
                Err(_) => return error("this is no int"),
            },
            _ => return error("`int` wants a number or text"),
        },
        "float" | "Atof" => match arguments.first() {
            Some(ExprValue::Text(text)) => match text.parse() {
                Ok(number) => ExprValue::Float(number),
                Err(_) if name == "Atof" => ExprValue::Float(0.0),
                Err(_) => return error("this is no float"),
            },
            Some(value) if value.as_number().is_some() => {
                ExprValue::Float(value.as_number().unwrap_or_default())
            }
            _ => return error("`float` wants a number or text"),
        },
        "abs" => ExprValue::Float(number(name, arguments, 0)?.abs()),
        "ceil" => ExprValue::Float(number(name, arguments, 0)?.ceil()),
        "floor" => ExprValue::Float(number(name, arguments, 0)?.floor()),
        "round" => ExprValue::Float(number(name, arguments, 0)?.round()),
        "min" | "max" => {
            let items = match arguments {
                [ExprValue::List(items)] => items.as_slice(),
                items => items,
            };
            evaluator.pay(items.len())?;
            let found = if name == "min" {
                items.iter().min_by(|one, other| order(one, other))
            } else {
                items.iter().max_by(|one, other| order(one, other))
            };
            found.cloned().unwrap_or(ExprValue::Nil)
        }
        "mean" | "median" => {
            let mut all = Vec::new();
            flatten(evaluator, arguments, &mut all, 0)?;
            let mut numbers = Vec::with_capacity(all.len());
            for item in &all {
                let Some(number) = item.as_number() else { return error("a mean wants numbers") };
                numbers.push(number);
            }
            if numbers.is_empty() {
                return Ok(ExprValue::Float(0.0));
            }
            evaluator.pay(numbers.len().saturating_mul(8))?;
            numbers.sort_by(f64::total_cmp);
            let middle = numbers.len() / 2;
            ExprValue::Float(match name {
                "mean" => numbers.iter().sum::<f64>() / numbers.len() as f64,
                _ if numbers.len() % 2 == 1 => numbers[middle],
                _ => f64::midpoint(numbers[middle - 1], numbers[middle]),
            })
        }
        "sort" => {
            let mut items = list(name, arguments, 0)?.to_vec();
            evaluator.pay(items.len().saturating_mul(16))?;
            items.sort_by(order);
            if optional(1) == Some("desc") {
                items.reverse();
            }
            ExprValue::List(Arc::new(items))
        }
        "take" => {
            let items = list(name, arguments, 0)?;
            let most = number(name, arguments, 1)?.max(0.0) as usize;
            ExprValue::List(Arc::new(items[..most.min(items.len())].to_vec()))
        }
        "values" | "toPairs" => {
            let members: Vec<(Arc<str>, ExprValue)> = match arguments.first() {
                Some(ExprValue::Map(map)) => {
                    map.iter().map(|(key, value)| (Arc::clone(key), value.clone())).collect()
                }
                Some(ExprValue::Texts(map)) => map
                    .iter()
                    .map(|(key, value)| (Arc::clone(key), ExprValue::Text(Arc::clone(value))))
                    .collect(),
                _ => return error(format!("`{name}` wants a map")),
            };
            evaluator.pay(members.len())?;
            let of = |(key, value)| match name {
                "values" => value,
                _ => ExprValue::List(Arc::new(vec![ExprValue::Text(key), value])),
            };
            ExprValue::List(Arc::new(members.into_iter().map(of).collect()))
        }
        "fromPairs" => {
            let pairs = list(name, arguments, 0)?;
            evaluator.pay(pairs.len())?;
            let mut map = BTreeMap::new();
            for pair in pairs {
                let ExprValue::List(pair) = pair else { return error("`fromPairs` wants pairs") };
                let [key, value] = pair.as_slice() else { return error("`fromPairs` wants pairs") };
                map.insert(Arc::from(key.to_string()), value.clone());
            }
            ExprValue::Map(Arc::new(map))
        }
        "type" => ExprValue::from(match arguments.first() {
            Some(ExprValue::List(_)) => "array",
            Some(value) => value.kind(),
            None => return error("`type` wants a value"),
        }),
        "bitand" | "bitor" | "bitxor" | "bitnand" | "bitshl" | "bitshr" | "bitushr" => match arguments {
            [ExprValue::Int(one), ExprValue::Int(other)] => {
                let places = u32::try_from((*other).clamp(0, 63)).unwrap_or(0);
                ExprValue::Int(match name {
                    "bitand" => one & other,
                    "bitor" => one | other,
                    "bitxor" => one ^ other,
                    "bitnand" => one & !other,
                    _ if !(0..64).contains(other) => return error("bits are moved by 0 to 63 places"),
                    "bitshl" => one.wrapping_shl(places),
                    "bitshr" => one >> places,
                    _ => (one.cast_unsigned() >> places).cast_signed(),
                })
            }
            _ => return error(format!("`{name}` wants two whole numbers")),
        },
        "bitnot" => match arguments.first() {
            Some(ExprValue::Int(one)) => ExprValue::Int(!one),
            _ => return error("`bitnot` wants a whole number"),
        },
        "first" => list(name, arguments, 0)?.first().cloned().unwrap_or(ExprValue::Nil),
        "last" => list(name, arguments, 0)?.last().cloned().unwrap_or(ExprValue::Nil),
        "reverse" => ExprValue::List(Arc::new(list(name, arguments, 0)?.iter().rev().cloned().collect())),
        "concat" | "flatten" | "Flatten" | "FlattenDistinct" | "Distinct" | "uniq" => {
            let mut all = Vec::new();
            flatten(evaluator, arguments, &mut all, 0)?;
            if name.ends_with("Distinct") || name == "uniq" {
                let mut distinct: Vec<ExprValue> = Vec::new();
                for item in all {
                    evaluator.pay(distinct.len() + 1)?;
                    if !distinct.contains(&item) {
                        distinct.push(item);
                    }
                }
                all = distinct;
            }
            ExprValue::List(Arc::new(all))
        }
        "keys" => match arguments.first() {
            Some(ExprValue::Map(map)) => texts(map.keys().map(Arc::clone)),
            Some(ExprValue::Texts(map)) => texts(map.keys().map(Arc::clone)),
            _ => return error("`keys` wants a map"),
        },
        "KeyExists" => match (t(0)?, arguments.get(1)) {
            (key, Some(ExprValue::Map(map))) => ExprValue::Bool(map.contains_key(key)),
            (key, Some(ExprValue::Texts(map))) => ExprValue::Bool(map.contains_key(key)),
            _ => ExprValue::Bool(false),
        },
        "get" => match arguments {
            [object, key] => evaluator.member(object, key).unwrap_or(ExprValue::Nil),
            _ => return error("`get` wants a map and a name"),
        },
        "Get" => match arguments {
            [object, key] => evaluator.member(object, key).unwrap_or_else(|_| ExprValue::from("")),
            _ => return error("`Get` wants a list and a number"),
        },
        "now" => ExprValue::Moment(evaluator.environment.now),
        "TimeNow" => ExprValue::from(crate::crowdsec::value::rfc3339(evaluator.environment.now, 0)),
        "duration" => match duration::parse(t(0)?) {
            Some(length) => ExprValue::Duration(length),
            None => return error("this is no duration"),
        },
        "toJSON" | "ToJson" | "ToJsonString" => match arguments.first() {
            Some(value) => {
                evaluator.pay(1_000)?;
                ExprValue::from(value.to_json().to_string())
            }
            None => return error("`toJSON` wants a value"),
        },
        "fromJSON" => match serde_json::from_str(t(0)?) {
            Ok(json) => ExprValue::of_json(&json),
            Err(_) => return error("this is no JSON"),
        },
        "fromBase64" | "Base64Decode" | "B64Decode" => match base64(t(0)?) {
            Some(bytes) => ExprValue::from(String::from_utf8_lossy(&bytes).into_owned()),
            None if name == "fromBase64" => return error("this is no Base64"),
            None => ExprValue::from(""),
        },
        "toBase64" | "B64Encode" | "Base64Encode" => ExprValue::from(to_base64(t(0)?.as_bytes())),
        "basename" => ExprValue::from(t(0)?.trim_end_matches('/').rsplit('/').next().unwrap_or_default()),
        "FloatApproxEqual" => {
            ExprValue::Bool((number(name, arguments, 0)? - number(name, arguments, 1)?).abs() < 1e-6)
        }
        "Sprintf" => ExprValue::from(sprintf(t(0)?, &arguments[1..])),
        "LogInfo" => ExprValue::Bool(true),
        "Match" => ExprValue::Bool(glob(evaluator, t(0)?, t(1)?)?),
        // Files.
        "File" => evaluator.environment.data.list(t(0)?),
        "RegexpInFile" => {
            let (text, file) = (t(0)?, t(1)?);
            let work = evaluator.environment.data.length(file).saturating_mul(1 + text.len() / 256);
            evaluator.pay(work)?;
            ExprValue::Bool(evaluator.environment.data.matches(file, text))
        }
        "LookupFile" => {
            let (text, file) = (t(0)?, t(1)?);
            let work = evaluator.environment.data.length(file).saturating_mul(1 + text.len() / 256);
            evaluator.pay(work)?;
            ExprValue::Text(evaluator.environment.data.look_up(file, text))
        }
        // Bans that a source had before.
        "GetDecisionsCount" | "GetDecisionsSinceCount" | "GetActiveDecisionsCount" => {
            ExprValue::Int(evaluator.environment.memory.bans)
        }
        "GetActiveDecisionsTimeLeft" => ExprValue::Duration(0),
        // What was put aside.
        "GetFromStash" => {
            let now = evaluator.environment.now;
            ExprValue::Text(evaluator.environment.memory.stash.get(t(0)?, t(1)?, now).unwrap_or_default())
        }
        "SetInStash" => {
            let until = duration::parse(optional(3).unwrap_or("1h")).unwrap_or_default();
            let until = evaluator.environment.now.saturating_add(until);
            evaluator.environment.memory.stash.put(t(0)?, t(1)?, t(2)?, until, 1_000);
            ExprValue::Nil
        }
        // JSON, XML, pairs.
        "JsonExtract" => {
            let path = t(1)?;
            let path = if path.starts_with('[') { path.to_string() } else { path.replace('[', ".[") };
            let steps: Vec<&str> = path.split('.').collect();
            ExprValue::from(json_path::get(t(0)?, &steps).map_or("", |found| found.text))
        }
        "JsonExtractUnescape" => {
            let mut steps = Vec::new();
            for argument in &arguments[1.min(arguments.len())..] {
                match argument {
                    ExprValue::List(items) => steps.extend(items.iter().filter_map(ExprValue::as_text)),
                    argument => steps.extend(argument.as_text()),
                }
            }
            let found = json_path::get(t(0)?, &steps).filter(|found| found.is_text);
            ExprValue::from(found.and_then(|found| found.unescaped()).unwrap_or_default())
        }
        "JsonExtractSlice" | "JsonExtractObject" => {
            let path = t(1)?;
            let path = if path.starts_with('[') { path.to_string() } else { path.replace('[', ".[") };
            let steps: Vec<&str> = path.split('.').collect();
            let found = json_path::get(t(0)?, &steps).and_then(|found| serde_json::from_str(found.text).ok());
            found.map_or(ExprValue::Nil, |json| ExprValue::of_json(&json))
        }
        "UnmarshalJSON" => {
            let Ok(json) = serde_json::from_str::<serde_json::Value>(t(0)?) else {
                return error("this is no JSON");
            };
            write_value(evaluator, arguments, ExprValue::of_json(&json))?
        }
        "ParseKV" => {
            let pairs = key_values(t(0)?);
            if pairs.is_empty() {
                return error("there are no pairs");
            }
            write_texts(evaluator, arguments, pairs)?
        }
        "ParseKVLax" => {
            let pairs = lax_key_values(t(0)?);
            if pairs.is_empty() {
                return error("there are no pairs");
            }
            write_texts(evaluator, arguments, pairs)?
        }
        "XMLGetNodeValue" => {
            let document = evaluator.environment.memory.xml.document(t(0)?);
            ExprValue::from(document.text(t(1)?))
        }
        "XMLGetAttributeValue" => {
            let document = evaluator.environment.memory.xml.document(t(0)?);
            ExprValue::from(document.attribute(t(1)?, t(2)?))
        }
        // Links.
        "PathUnescape" => ExprValue::from(unescape(t(0)?, false).unwrap_or_else(|| t_or_empty(arguments))),
        "QueryUnescape" => ExprValue::from(unescape(t(0)?, true).unwrap_or_else(|| t_or_empty(arguments))),
        "PathEscape" => ExprValue::from(escape(t(0)?, "$&+:=@", "%20")),
        "QueryEscape" => ExprValue::from(escape(t(0)?, "", "+")),
        "ParseUri" => parse_uri(t(0)?),
        "Hostname" => ExprValue::from(""),
        // Addresses.
        "IsIP" => ExprValue::Bool(t(0)?.parse::<IpAddr>().is_ok()),
        "IsIPV4" => ExprValue::Bool(t(0)?.parse::<IpAddr>().is_ok_and(|ip| ip.to_canonical().is_ipv4())),
        "IsIPV6" => ExprValue::Bool(t(0)?.parse::<IpAddr>().is_ok_and(|ip| ip.to_canonical().is_ipv6())),
        "IpInRange" => {
            let network = network(t(1)?);
            let ip = t(0)?.parse::<IpAddr>().ok().map(|ip| ip.to_canonical());
            ExprValue::Bool(ip.zip(network).is_some_and(|(ip, (base, bits))| masked(ip, bits) == Some(base)))
        }
        "IpToRange" => {
            let bits = t(1)?.trim_start_matches('/').parse::<u8>().ok();
            let ip = t(0)?.parse::<IpAddr>().ok().map(|ip| ip.to_canonical());
            let range = ip.zip(bits).and_then(|(ip, bits)| Some(format!("{}/{bits}", masked(ip, bits)?)));
            ExprValue::from(range.unwrap_or_default())
        }
        "Distance" => {
            let mut places = [0.0; 4];
            for (index, place) in places.iter_mut().enumerate() {
                let Ok(degrees) = t(index)?.parse::<f64>() else { return error("this is no place") };
                *place = degrees;
            }
            ExprValue::Float(kilometres(places))
        }
        "MedianInterval" | "AverageInterval" => {
            let mut times = Vec::new();
            for item in list(name, arguments, 0)? {
                let ExprValue::Moment(at) = item else { return error(format!("`{name}` wants times")) };
                times.push(*at);
            }
            evaluator.pay(times.len().saturating_mul(8))?;
            ExprValue::Duration(match (name, times.iter().min(), times.iter().max()) {
                ("AverageInterval", Some(first), Some(last)) if times.len() > 1 => {
                    last.saturating_sub(*first) / (times.len() as i64 - 1)
                }
                ("AverageInterval", ..) => 0,
                _ => median_interval(times),
            })
        }
        "ParseUnix" | "ParseUnixTime" => match t(0)?.parse::<f64>() {
            Ok(seconds) if seconds > 0.0 && seconds < 9e9 => {
                let at = (seconds * 1e3) as i64 * 1_000_000;
                if name == "ParseUnix" {
                    ExprValue::from(crate::crowdsec::value::rfc3339(at, 0))
                } else {
                    ExprValue::Moment(at)
                }
            }
            _ if name == "ParseUnix" => ExprValue::from(""),
            _ => return error("this is no time"),
        },
        "date" => match go_date::parse_usual(t(0)?, evaluator.environment.now) {
            Some(date) => ExprValue::Moment(date.time),
            None => return error("this is no date"),
        },
        _ => return error(format!("the function `{name}` is not known")),
    })
}

fn t_or_empty(arguments: &[ExprValue]) -> String {
    arguments.first().and_then(ExprValue::as_text).unwrap_or_default().to_owned()
}

fn flatten(
    evaluator: &mut Evaluator<'_, '_>,
    items: &[ExprValue],
    all: &mut Vec<ExprValue>,
    depth: usize,
) -> Result<(), EvaluationError> {
    if depth > 16 {
        return error("lists are nested too deeply");
    }
    evaluator.pay(items.len())?;
    for item in items {
        match item {
            ExprValue::List(items) => flatten(evaluator, items, all, depth + 1)?,
            item => all.push(item.clone()),
        }
    }
    Ok(())
}

/// Puts a value under the name that the third argument gives, where the second says.
fn write_value(
    evaluator: &mut Evaluator<'_, '_>,
    arguments: &[ExprValue],
    value: ExprValue,
) -> Result<ExprValue, EvaluationError> {
    match (arguments.get(1), arguments.get(2), evaluator.record_values()) {
        (Some(ExprValue::RecordValues), Some(ExprValue::Text(name)), Some(values)) => {
            values.insert(Arc::clone(name), value);
            Ok(ExprValue::Nil)
        }
        _ => error("this can only be written to `evt.Unmarshaled`"),
    }
}

/// Adds texts to those under the name that the third argument gives.
fn write_texts(
    evaluator: &mut Evaluator<'_, '_>,
    arguments: &[ExprValue],
    pairs: TextMap,
) -> Result<ExprValue, EvaluationError> {
    let mut texts = match (arguments.get(2), evaluator.record_values()) {
        (Some(ExprValue::Text(name)), Some(values)) => match values.get(name) {
            Some(ExprValue::Texts(texts)) => TextMap::clone(texts),
            _ => TextMap::new(),
        },
        _ => TextMap::new(),
    };
    texts.extend(pairs);
    write_value(evaluator, arguments, ExprValue::Texts(Arc::new(texts)))
}

/// Reads `key=value` and `key="a value"`. A key has no blank; what stands between pairs is passed over.
fn key_values(text: &str) -> TextMap {
    let mut pairs = TextMap::new();
    let mut at = 0;
    while let Some(found) = text[at..].find('=') {
        let equals = at + found;
        let key = text[at..equals].rsplit(char::is_whitespace).next().unwrap_or_default();
        if key.is_empty() {
            at = equals + 1;
            continue;
        }
        let rest = &text[equals + 1..];
        let (value, length) = match quoted_length(rest) {
            Some(length) => (&rest[1..length - 1], length),
            None => {
                let end = rest.find(|c: char| c == '=' || c.is_whitespace()).unwrap_or(rest.len());
                (&rest[..end], end)
            }
        };
        pairs.insert(Arc::from(key), Arc::from(value));
        at = equals + 1 + length;
    }
    pairs
}

/// The length of a text in double quotes, with them.
fn quoted_length(text: &str) -> Option<usize> {
    if !text.starts_with('"') {
        return None;
    }
    let mut is_escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => return Some(at + 1),
            _ => {}
        }
    }
    None
}

/// Reads pairs whose values may have blanks without quotes: a value goes on until the next key.
fn lax_key_values(text: &str) -> TextMap {
    let is_key = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    let mut keys = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        let end = rest.find(|c| !is_key(c)).unwrap_or(rest.len());
        if end > 0 && rest[end..].starts_with('=') {
            keys.push((at, at + end));
            at += end + 1;
            at += quoted_length(&text[at..]).unwrap_or(0);
            continue;
        }
        let blank = rest.find(char::is_whitespace);
        let Some(blank) = blank else { break };
        at += blank + rest[blank..].chars().next().map_or(1, char::len_utf8);
    }
    let mut pairs = TextMap::new();
    for (index, (start, end)) in keys.iter().enumerate() {
        let until = keys.get(index + 1).map_or(text.len(), |(start, _)| *start);
        let value = text[end + 1..until].trim();
        let value = match quoted_length(value) {
            Some(length) if length == value.len() => &value[1..length - 1],
            _ => value,
        };
        pairs.insert(Arc::from(&text[*start..*end]), Arc::from(value));
    }
    pairs
}

fn unescape(text: &str, is_query: bool) -> Option<String> {
    let bytes = text.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'%' => {
                let hex = text
                    .get(at + 1..at + 3)
                    .filter(|hex| hex.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
                plain.push(u8::from_str_radix(hex, 16).ok()?);
                at += 2;
            }
            b'+' if is_query => plain.push(b' '),
            byte => plain.push(byte),
        }
        at += 1;
    }
    Some(String::from_utf8_lossy(&plain).into_owned())
}

fn escape(text: &str, also_plain: &str, blank: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        let character = char::from(byte);
        if character.is_ascii_alphanumeric() || "-_.~".contains(character) || also_plain.contains(character) {
            escaped.push(character);
        } else if character == ' ' {
            escaped.push_str(blank);
        } else {
            let _ = write!(escaped, "%{byte:02X}");
        }
    }
    escaped
}

fn parse_uri(text: &str) -> ExprValue {
    let query = text.split_once('?').map_or("", |(_, query)| query);
    let query = query.split('#').next().unwrap_or_default();
    let mut members: BTreeMap<Arc<str>, Vec<ExprValue>> = BTreeMap::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()).take(1_000) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        if let (Some(name), Some(value)) = (unescape(name, true), unescape(value, true)) {
            members.entry(Arc::from(name)).or_default().push(ExprValue::from(value));
        }
    }
    let members = members.into_iter().map(|(name, values)| (name, ExprValue::List(Arc::new(values))));
    ExprValue::Map(Arc::new(members.collect()))
}

/// Reads a network: its base and bits.
pub(crate) fn network(text: &str) -> Option<(IpAddr, u8)> {
    let (base, bits) = text.split_once('/')?;
    let (base, bits) = (base.parse::<IpAddr>().ok()?, bits.parse::<u8>().ok()?);
    Some((masked(base, bits)?, bits))
}

/// Returns the base of the network of so many bits that an address is in.
pub(crate) fn masked(ip: IpAddr, bits: u8) -> Option<IpAddr> {
    match ip {
        IpAddr::V4(ip) if bits <= 32 => {
            let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
            Some(Ipv4Addr::from_bits(ip.to_bits() & mask).into())
        }
        IpAddr::V6(ip) if bits <= 128 => {
            let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
            Some(Ipv6Addr::from_bits(ip.to_bits() & mask).into())
        }
        _ => None,
    }
}

/// The way between two places on the earth; none if one of them is not known.
fn kilometres([latitude, longitude, other_latitude, other_longitude]: [f64; 4]) -> f64 {
    if (latitude == 0.0 && longitude == 0.0) || (other_latitude == 0.0 && other_longitude == 0.0) {
        return 0.0;
    }
    let (one, other) = (latitude.to_radians(), other_latitude.to_radians());
    let across = (other_longitude - longitude).to_radians();
    let half = |angle: f64| (angle / 2.0).sin().powi(2);
    let chord = half(other - one) + one.cos() * other.cos() * half(across);
    2.0 * 6371.0 * chord.sqrt().min(1.0).asin()
}

fn median_interval(mut times: Vec<i64>) -> i64 {
    times.sort_unstable();
    let mut intervals: Vec<i64> = times.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).collect();
    intervals.sort_unstable();
    let middle = intervals.len() / 2;
    match intervals.len() {
        0 => 0,
        length if length % 2 == 1 => intervals[middle],
        _ => (intervals[middle - 1] / 2).saturating_add(intervals[middle] / 2),
    }
}

fn base64(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() * 3 / 4);
    let (mut bits, mut count) = (0u32, 0);
    for byte in text.trim_end_matches('=').bytes() {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return None,
        };
        bits = (bits << 6 | u32::from(value)) & 0xff_ffff;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    Some(bytes)
}

fn to_base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |index: usize| u32::from(group.get(index).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for letter in 0..4 {
            text.push(if letter <= group.len() {
                char::from(LETTERS[(bits >> (18 - 6 * letter) & 63) as usize])
            } else {
                '='
            });
        }
    }
    text
}

/// Writes values into a text, as Go's `Sprintf` does with its usual signs.
fn sprintf(form: &str, arguments: &[ExprValue]) -> String {
    let mut text = String::new();
    let mut arguments = arguments.iter();
    let mut rest = form;
    while let Some(at) = rest.find('%') {
        text.push_str(&rest[..at]);
        let Some(end) = rest[at + 1..].find(|c: char| !c.is_ascii_digit() && !".+-# ".contains(c)) else {
            break;
        };
        let flags = &rest[at + 1..at + 1 + end];
        let Some(verb) = rest[at + 1 + end..].chars().next() else { break };
        rest = &rest[at + 1 + end + verb.len_utf8()..];
        let (width, precision) = flags.split_once('.').unwrap_or((flags, ""));
        let number = |text: &str| text.trim_start_matches(['+', '-', '#', ' ']).parse::<usize>().ok();
        let precision = number(precision).map(|precision| precision.min(100));
        let value = match (verb, arguments.next()) {
            ('%', _) => "%".to_owned(),
            (_, None) => format!("%!{verb}(MISSING)"),
            ('f' | 'F', Some(value)) => {
                format!("{:.*}", precision.unwrap_or(6), value.as_number().unwrap_or_default())
            }
            ('x', Some(ExprValue::Int(number))) => format!("{number:x}"),
            ('X', Some(ExprValue::Int(number))) => format!("{number:X}"),
            ('q', Some(value)) => format!("{:?}", value.to_string()),
            (_, Some(value)) => value.to_string(),
        };
        let width = number(width).unwrap_or(0).min(1_000);
        if flags.starts_with('-') {
            let _ = write!(text, "{value:<width$}");
        } else if flags.starts_with('0') {
            let _ = write!(text, "{value:0>width$}");
        } else {
            let _ = write!(text, "{value:>width$}");
        }
        if text.len() > 1 << 20 {
            break;
        }
    }
    text.push_str(rest);
    text
}

/// Returns true if a text matches a pattern with `*` and `?`.
fn glob(evaluator: &mut Evaluator<'_, '_>, pattern: &str, text: &str) -> Result<bool, EvaluationError> {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    evaluator.pay(pattern.len().saturating_mul(text.len() + 1) / 16)?;
    let (mut at, mut in_text, mut star) = (0, 0, None);
    while in_text < text.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, in_text));
                at += 1;
            }
            Some(byte) if *byte == b'?' || *byte == text[in_text] => {
                at += 1;
                in_text += 1;
            }
            _ => {
                let Some((star_at, from)) = star else { return Ok(false) };
                star = Some((star_at, from + 1));
                (at, in_text) = (star_at + 1, from + 1);
            }
        }
    }
    Ok(pattern[at..].iter().all(|byte| *byte == b'*'))
}
