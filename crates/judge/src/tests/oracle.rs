//! The language a second time, slowly and plainly: walks the tree of the source with values that know their
//! type only when they are there. The compiled form must agree with it.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::net::IpAddr;

use event::{Facts, Schema, Span, Time, Value};

use super::{CONSTANTS, EXPRESSIONS, SETS};
use crate::SetType;
use crate::syntax::{ArithmeticOperator, CallNode, CompareOperator, SyntaxKind, SyntaxNode, parse};

/// The data that a condition is evaluated on.
#[derive(Clone)]
pub(super) struct OracleContext<'a> {
    pub(super) schema: &'a Schema,
    pub(super) row: &'a Facts,
    /// The results of rules and groups.
    pub(super) rules: HashMap<String, bool>,
    pub(super) groups: HashMap<String, f64>,
}

impl<'a> OracleContext<'a> {
    pub(super) fn new(schema: &'a Schema, row: &'a Facts) -> OracleContext<'a> {
        OracleContext { schema, row, rules: HashMap::new(), groups: HashMap::new() }
    }
}

/// Returns the definition of a name.
fn definition(name: &str) -> Option<SyntaxNode> {
    let (_, text) = CONSTANTS.iter().chain(&EXPRESSIONS).find(|(other, _)| *other == name)?;
    Some(parse(text).unwrap().0)
}

/// Returns true if a value is in a named set.
fn in_set(name: &str, value: &Dynamic) -> bool {
    let (_, kind, entries) = SETS.iter().find(|(other, ..)| *other == name).unwrap();
    entries.iter().any(|entry| match (kind, value) {
        (SetType::String, Text(text)) => text == entry,
        (SetType::Domain, Text(text)) => {
            let text = text.to_ascii_lowercase();
            let text = text.strip_suffix('.').unwrap_or(&text);
            text == *entry || text.ends_with(&format!(".{entry}"))
        }
        (SetType::Integer, Integer(integer)) => integer.to_string() == **entry,
        (SetType::Ip, Ip(ip)) => in_network(*ip, entry),
        other => panic!("{other:?} does not fit"),
    })
}

/// Returns true if an address is in a network, bit by bit.
fn in_network(ip: IpAddr, network: &str) -> bool {
    fn bits(ip: IpAddr) -> String {
        match ip {
            IpAddr::V4(ip) => ip.octets().iter().map(|octet| format!("{octet:08b}")).collect(),
            IpAddr::V6(ip) => ip.octets().iter().map(|octet| format!("{octet:08b}")).collect(),
        }
    }
    let (address, prefix) = network.split_once('/').unwrap_or((network, "128"));
    let address: IpAddr = address.parse().unwrap();
    let (address_bits, ip_bits) = (bits(address), bits(ip));
    let prefix = prefix.parse::<usize>().unwrap().min(address_bits.len());
    address.is_ipv4() == ip.is_ipv4() && address_bits[..prefix] == ip_bits[..prefix]
}

/// Returns the reading of a clock in a zone, field by field of a date and time as it prints.
fn clock(name: &str, micros: i64, zone: &str) -> Option<Dynamic> {
    let time = jiff::Timestamp::from_microsecond(micros).ok()?;
    let shown = time.in_tz(zone).unwrap().strftime("%Y %m %d %w %j %H %M %S").to_string();
    let fields: Vec<i64> = shown.split(' ').map(|field| field.parse().unwrap()).collect();
    Some(Integer(match name {
        "getFullYear" => fields[0],
        "getMonth" => fields[1] - 1,
        "getDate" => fields[2],
        "getDayOfMonth" => fields[2] - 1,
        "getDayOfWeek" => fields[3],
        "getDayOfYear" => fields[4] - 1,
        "getHours" => fields[5],
        "getMinutes" => fields[6],
        "getSeconds" => fields[7],
        other => panic!("no function {other}"),
    }))
}

#[derive(Clone, Debug, PartialEq)]
enum Dynamic {
    Bool(bool),
    Integer(i64),
    Float(f64),
    String(String),
    Time(i64),
    Duration(i64),
    Ip(IpAddr),
    List(Vec<String>),
    Bytes(usize),
}
use Dynamic::{Bool, Bytes, Duration, Float, Integer, Ip, List, String as Text};

/// Returns the value of a condition for a row; readings are found by the name of their column.
pub(super) fn condition(node: &SyntaxNode, context: &OracleContext<'_>) -> Option<bool> {
    match eval(node, context)? {
        Bool(truth) => Some(truth),
        other => panic!("{other:?} is no truth"),
    }
}

/// Returns the value of a number in a row.
pub(super) fn number(node: &SyntaxNode, context: &OracleContext<'_>) -> Option<f64> {
    eval(node, context).map(|number| float(&number))
}

fn column(name: &str, age: bool, OracleContext { schema, row, .. }: &OracleContext<'_>) -> Option<Dynamic> {
    let slot = schema.slot(name).unwrap_or_else(|| panic!("no column {name}"));
    let value = row.get(slot)?;
    if value.type_of() != schema.column(slot).kind {
        return None;
    }
    Some(match value {
        Value::String(text) => Text(text.to_string()),
        Value::Integer(micros) if age => Duration(*micros),
        Value::Integer(integer) => Integer(*integer),
        Value::Float(float) => return finite(*float),
        Value::Bool(truth) => Bool(*truth),
        Value::Time(time) => Dynamic::Time(time.0),
        Value::Ip(ip) => Ip(*ip),
        Value::Bytes(bytes) => Bytes(bytes.len()),
        Value::List(items) => List(items.iter().map(|item| item.to_string()).collect()),
    })
}

fn finite(float: f64) -> Option<Dynamic> {
    float.is_finite().then_some(Float(float))
}

fn float(number: &Dynamic) -> f64 {
    match number {
        Integer(integer) => *integer as f64,
        Float(float) => *float,
        other => panic!("{other:?} is no number"),
    }
}

fn order(left: &Dynamic, right: &Dynamic) -> Ordering {
    match (left, right) {
        (Integer(left), Integer(right))
        | (Dynamic::Time(left), Dynamic::Time(right))
        | (Duration(left), Duration(right)) => left.cmp(right),
        (Integer(_) | Float(_), Integer(_) | Float(_)) => float(left).partial_cmp(&float(right)).unwrap(),
        (Text(left), Text(right)) => left.cmp(right),
        (Bool(left), Bool(right)) => left.cmp(right),
        (Ip(left), Ip(right)) => left.cmp(right),
        (Ip(left), Text(right)) => left.cmp(&right.parse().unwrap()),
        (Text(left), Ip(right)) => left.parse::<IpAddr>().unwrap().cmp(right),
        other => panic!("{other:?} are not compared"),
    }
}

fn arithmetic(operator: ArithmeticOperator, left: Dynamic, right: Dynamic) -> Option<Dynamic> {
    use ArithmeticOperator::{Add, Divide, Multiply, Remainder, Subtract};
    match (operator, &left, &right) {
        (Divide, ..) => finite(float(&left) / float(&right)),
        (Remainder, Integer(_), Integer(0)) => None,
        (Remainder, Integer(left), Integer(right)) => Some(Integer(left.checked_rem(*right).unwrap_or(0))),
        (Add, Text(left), Text(right)) => Some(Text(format!("{left}{right}"))),
        (Add, Integer(left), Integer(right)) => Some(Integer(left.saturating_add(*right))),
        (Subtract, Integer(left), Integer(right)) => Some(Integer(left.saturating_sub(*right))),
        (Multiply, Integer(left), Integer(right)) => Some(Integer(left.saturating_mul(*right))),
        (Add, Dynamic::Time(left), Duration(right)) | (Add, Duration(left), Dynamic::Time(right)) => {
            Some(Dynamic::Time(left.saturating_add(*right)))
        }
        (Subtract, Dynamic::Time(left), Duration(right)) => Some(Dynamic::Time(left.saturating_sub(*right))),
        (Subtract, Dynamic::Time(left), Dynamic::Time(right))
        | (Subtract, Duration(left), Duration(right)) => Some(Duration(left.saturating_sub(*right))),
        (Add, Duration(left), Duration(right)) => Some(Duration(left.saturating_add(*right))),
        (Add, ..) => finite(float(&left) + float(&right)),
        (Subtract, ..) => finite(float(&left) - float(&right)),
        (Multiply, ..) => finite(float(&left) * float(&right)),
        (Remainder, ..) => panic!("no remainder of {left:?} and {right:?}"),
    }
}

fn eval(node: &SyntaxNode, context: &OracleContext<'_>) -> Option<Dynamic> {
    let value = |node: &SyntaxNode| eval(node, context);
    let truth = |node: &SyntaxNode| condition(node, context);
    match &node.kind {
        SyntaxKind::Refused | SyntaxKind::List(_) => panic!("refused"),
        SyntaxKind::Name(name) if definition(name).is_some() => eval(&definition(name)?, context),
        SyntaxKind::Name(name) => column(if name == "now" { "event.time" } else { name }, false, context),
        SyntaxKind::Text(text) => Some(Text(text.clone())),
        SyntaxKind::Integer(integer) => Some(Integer(*integer)),
        SyntaxKind::Float(float) => Some(Float(*float)),
        SyntaxKind::Bool(truth) => Some(Bool(*truth)),
        SyntaxKind::Not(operand) => Some(Bool(!truth(operand)?)),
        SyntaxKind::Negate(operand) => match value(operand)? {
            Float(float) => Some(Float(-float)),
            Duration(span) => Some(Duration(0i64.saturating_sub(span))),
            integer => arithmetic(ArithmeticOperator::Subtract, Integer(0), integer),
        },
        SyntaxKind::All(parts) => {
            let parts: Vec<_> = parts.iter().map(truth).collect();
            if parts.contains(&Some(false)) {
                Some(Bool(false))
            } else {
                parts.iter().all(Option::is_some).then_some(Bool(true))
            }
        }
        SyntaxKind::Any(parts) => {
            let parts: Vec<_> = parts.iter().map(truth).collect();
            if parts.contains(&Some(true)) {
                Some(Bool(true))
            } else {
                parts.iter().all(Option::is_some).then_some(Bool(false))
            }
        }
        SyntaxKind::Compare(compare, sides) => {
            let order = order(&value(&sides.0)?, &value(&sides.1)?);
            Some(Bool(match compare {
                CompareOperator::Equal => order == Ordering::Equal,
                CompareOperator::NotEqual => order != Ordering::Equal,
                CompareOperator::Less => order == Ordering::Less,
                CompareOperator::LessOrEqual => order != Ordering::Greater,
                CompareOperator::Greater => order == Ordering::Greater,
                CompareOperator::GreaterOrEqual => order != Ordering::Less,
            }))
        }
        SyntaxKind::In(sides) => {
            let item = value(&sides.0)?;
            let mut list = sides.1.clone();
            if let SyntaxKind::Name(name) = &sides.1.kind {
                if SETS.iter().any(|(other, ..)| other == name) {
                    return Some(Bool(in_set(name, &item)));
                }
                list = definition(name).unwrap_or(list);
            }
            if let (Ip(ip), SyntaxKind::List(items)) = (&item, &list.kind) {
                let text = |node: &SyntaxNode| match &node.kind {
                    SyntaxKind::Text(text) => text.clone(),
                    other => panic!("{other:?} is no address"),
                };
                return Some(Bool(items.iter().any(|item| in_network(*ip, &text(item)))));
            }
            if let SyntaxKind::List(items) = &list.kind {
                // A list with one float in it is a list of floats.
                let floats = items.iter().any(|item| matches!(item.kind, SyntaxKind::Float(_)));
                let item = if floats { Float(float(&item)) } else { item };
                return Some(Bool(items.iter().any(|other| order(&item, &value(other).unwrap()).is_eq())));
            }
            match (item, value(&sides.1)?) {
                (Text(item), List(items)) => Some(Bool(items.contains(&item))),
                other => panic!("{other:?} is no membership"),
            }
        }
        SyntaxKind::Arithmetic(operator, sides) => arithmetic(*operator, value(&sides.0)?, value(&sides.1)?),
        SyntaxKind::If(branches) => {
            let chosen = if truth(&branches.0)? { value(&branches.1) } else { value(&branches.2) };
            // Both branches have one type: a float where either is one.
            chosen.map(|chosen| match chosen {
                Integer(integer) if is_float(&branches.1, context) || is_float(&branches.2, context) => {
                    Float(integer as f64)
                }
                other => other,
            })
        }
        SyntaxKind::Index(sides) => match (value(&sides.0)?, value(&sides.1)?) {
            (List(items), Integer(at)) if at < 0 => {
                items.iter().rev().nth((-1 - at) as usize).cloned().map(Text)
            }
            (List(items), Integer(at)) => items.get(at as usize).cloned().map(Text),
            other => panic!("{other:?} is no item"),
        },
        SyntaxKind::Call(call) => eval_call(call, context),
    }
}

/// Returns true if an operand has the type float, whatever the row holds.
fn is_float(node: &SyntaxNode, context: &OracleContext<'_>) -> bool {
    let schema = context.schema;
    match &node.kind {
        SyntaxKind::Float(_) => true,
        SyntaxKind::Name(name) if definition(name).is_some() => is_float(&definition(name).unwrap(), context),
        SyntaxKind::Name(name) => {
            schema.slot(name).is_some_and(|slot| schema.column(slot).kind == event::Type::Float)
        }
        SyntaxKind::Negate(operand) => is_float(operand, context),
        SyntaxKind::Arithmetic(ArithmeticOperator::Divide, _) => true,
        SyntaxKind::Arithmetic(_, sides) => is_float(&sides.0, context) || is_float(&sides.1, context),
        SyntaxKind::If(branches) => is_float(&branches.1, context) || is_float(&branches.2, context),
        SyntaxKind::Call(call) => match (call.name.as_str(), &call.target) {
            (
                "double" | "ratio" | "rate" | "trend" | "model" | "group" | "dispersion"
                | "interval_variation",
                _,
            ) => true,
            ("or", Some(target)) => is_float(target, context) || is_float(&call.args[0], context),
            _ => false,
        },
        _ => false,
    }
}

fn eval_call(call: &CallNode, context: &OracleContext<'_>) -> Option<Dynamic> {
    let value = |node: &SyntaxNode| eval(node, context);
    let text = |node: &SyntaxNode| match value(node)? {
        Text(text) => Some(text),
        other => panic!("{other:?} is no text"),
    };
    let size = |node: &SyntaxNode| {
        Some(Integer(match value(node)? {
            Text(text) => text.chars().count() as i64,
            List(items) => items.len() as i64,
            Bytes(bytes) => bytes as i64,
            other => panic!("{other:?} has no size"),
        }))
    };
    match (call.name.as_str(), call.target.as_deref()) {
        ("age", None) => match (column("event.time", false, context)?, value(&call.args[0])?) {
            (Dynamic::Time(now), Dynamic::Time(then)) => Some(Duration(now.saturating_sub(then))),
            other => panic!("{other:?} have no age"),
        },
        ("rate", None) => {
            let (SyntaxKind::Call(count), Some(Text(per))) = (&call.args[0].kind, value(&call.args[1]))
            else {
                panic!("no rate")
            };
            let window = text(&count.args[0])?.parse::<Span>().unwrap();
            let counted = float(&value(&call.args[0])?);
            finite(counted / (window.as_seconds_f64() / per.parse::<Span>().unwrap().as_seconds_f64()))
        }
        ("trend", None) => {
            let side = |node: &SyntaxNode| match &node.kind {
                SyntaxKind::Call(CallNode { name, target: Some(kind), args, .. }) => match &kind.kind {
                    SyntaxKind::Name(kind) => {
                        let window = text(&args[0]).unwrap().parse::<Span>().unwrap();
                        (format!("{kind}.{name}('{window}')"), window.as_seconds_f64())
                    }
                    other => panic!("{other:?} is no kind"),
                },
                other => panic!("{other:?} is no counter"),
            };
            let ((short, short_seconds), (long, long_seconds)) = (side(&call.args[0]), side(&call.args[1]));
            let SyntaxKind::Integer(least) = call.args[2].kind else { panic!("no least") };
            let ratio = column(&format!("ratio({short}, {long}, {least})"), false, context)?;
            finite(float(&ratio) * (long_seconds / short_seconds))
        }
        ("max_bucket" | "dispersion" | "interval_variation", None) => {
            let SyntaxKind::Call(CallNode { name, target: Some(kind), args, .. }) = &call.args[0].kind else {
                panic!("no counter")
            };
            let SyntaxKind::Name(kind) = &kind.kind else { panic!("no kind") };
            let (window, width) = (text(&args[0])?, text(&call.args[1])?);
            column(&format!("{}({kind}.{name}('{window}'), '{width}')", call.name), false, context)
        }
        ("model", None) => column(&format!("model('{}')", text(&call.args[0])?), false, context),
        ("rule", None) => Some(Bool(context.rules[&text(&call.args[0])?])),
        ("group", None) => Some(Float(context.groups[&text(&call.args[0])?])),
        ("estimated", None) => match &call.args[0].kind {
            SyntaxKind::Call(CallNode { name, target: Some(kind), args, .. }) => match &kind.kind {
                SyntaxKind::Name(kind) => {
                    column(&format!("estimated({kind}.{name}('{}'))", text(&args[0])?), false, context)
                }
                other => panic!("{other:?} is no kind"),
            },
            other => panic!("{other:?} is no reading"),
        },
        ("intersects", Some(_)) => {
            let List(items) = value(&call.args[0])? else { panic!("no list") };
            Some(Bool(items.into_iter().any(|item| match &call.args[1].kind {
                SyntaxKind::Name(set) => in_set(set, &Text(item)),
                SyntaxKind::List(texts) => texts.iter().any(|text| value(text) == Some(Text(item.clone()))),
                other => panic!("{other:?} is no set"),
            })))
        }
        (name, Some(target)) if name.starts_with("get") => {
            let Dynamic::Time(micros) = value(target)? else { panic!("no time") };
            let zone = call.args.first().map_or("UTC".to_owned(), |zone| text(zone).unwrap());
            clock(name, micros, &zone)
        }
        ("string", None) => Some(Text(match value(&call.args[0])? {
            Integer(integer) => integer.to_string(),
            Ip(ip) => ip.to_string(),
            other => panic!("{other:?} is not printed"),
        })),
        ("lower", Some(target)) => Some(Text(text(target)?.to_lowercase())),
        ("join", Some(target)) => match value(target)? {
            List(items) => Some(Text(items.join(&text(&call.args[0])?))),
            other => panic!("{other:?} is no list"),
        },
        ("split", Some(target)) => {
            let between = text(&call.args[0])?;
            Some(List(text(target)?.split(&between).map(str::to_owned).collect()))
        }
        ("substring", Some(target)) => {
            let (Integer(start), Integer(end)) = (value(&call.args[0])?, value(&call.args[1])?) else {
                panic!("no places")
            };
            let count = (end - start).max(0) as usize;
            Some(Text(text(target)?.chars().skip(start as usize).take(count).collect()))
        }
        ("has", None) => Some(Bool(value(&call.args[0]).is_some())),
        ("size", None) => size(&call.args[0]),
        ("duration", None) => text(&call.args[0]).map(|text| Duration(text.parse::<Span>().unwrap().0)),
        ("timestamp", None) => text(&call.args[0]).map(|text| Dynamic::Time(text.parse::<Time>().unwrap().0)),
        ("double", None) => value(&call.args[0]).map(|number| Float(float(&number))),
        ("int", None) => match value(&call.args[0])? {
            Float(float) => Some(Integer(float.trunc() as i64)),
            integer => Some(integer),
        },
        ("size", Some(target)) => size(target),
        ("contains", Some(target)) => Some(Bool(text(target)?.contains(&text(&call.args[0])?))),
        ("startsWith", Some(target)) => Some(Bool(text(target)?.starts_with(&text(&call.args[0])?))),
        ("endsWith", Some(target)) => Some(Bool(text(target)?.ends_with(&text(&call.args[0])?))),
        ("matches", Some(target)) => {
            let pattern = text(&call.args[0])?;
            Some(Bool(regex::Regex::new(&pattern).unwrap().is_match(&text(target)?)))
        }
        ("or", Some(target)) => {
            let chosen = value(target).or_else(|| value(&call.args[0]))?;
            match chosen {
                Integer(integer) if is_float(target, context) || is_float(&call.args[0], context) => {
                    Some(Float(integer as f64))
                }
                other => Some(other),
            }
        }
        ("first_age", Some(SyntaxNode { kind: SyntaxKind::Name(kind), .. })) => {
            column(&format!("{kind}.first_age()"), true, context)
        }
        (counter, Some(SyntaxNode { kind: SyntaxKind::Name(kind), .. })) => {
            let window = text(&call.args[0])?;
            column(&format!("{kind}.{counter}('{window}')"), false, context)
        }
        (name, _) => panic!("no function {name}"),
    }
}
