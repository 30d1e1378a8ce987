//! The language a second time, slowly and plainly: walks the tree of the source with values that know their
//! type only when they are there. The compiled form must agree with it.

use std::cmp::Ordering;
use std::net::IpAddr;

use event::{Facts, Schema, Span, Time, Value};

use crate::syntax::{Arithmetic, Call, Compare, Node, NodeKind};

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

/// What a condition says of a row; readings are found by the name of their column.
pub(super) fn condition(node: &Node, schema: &Schema, row: &Facts) -> Option<bool> {
    match eval(node, schema, row)? {
        Bool(truth) => Some(truth),
        other => panic!("{other:?} is no truth"),
    }
}

fn column(name: &str, age: bool, schema: &Schema, row: &Facts) -> Option<Dynamic> {
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

fn arithmetic(operator: Arithmetic, left: Dynamic, right: Dynamic) -> Option<Dynamic> {
    use Arithmetic::{Add, Divide, Multiply, Remainder, Subtract};
    match (operator, &left, &right) {
        (Divide, ..) => finite(float(&left) / float(&right)),
        (Remainder, Integer(_), Integer(0)) => None,
        (Remainder, Integer(left), Integer(right)) => Some(Integer(left.checked_rem(*right).unwrap_or(0))),
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

fn eval(node: &Node, schema: &Schema, row: &Facts) -> Option<Dynamic> {
    let value = |node: &Node| eval(node, schema, row);
    let truth = |node: &Node| condition(node, schema, row);
    match &node.kind {
        NodeKind::Refused | NodeKind::List(_) => panic!("refused"),
        NodeKind::Name(name) => column(if name == "now" { "event.time" } else { name }, false, schema, row),
        NodeKind::Text(text) => Some(Text(text.clone())),
        NodeKind::Integer(integer) => Some(Integer(*integer)),
        NodeKind::Float(float) => Some(Float(*float)),
        NodeKind::Bool(truth) => Some(Bool(*truth)),
        NodeKind::Not(operand) => Some(Bool(!truth(operand)?)),
        NodeKind::Negate(operand) => match value(operand)? {
            Float(float) => Some(Float(-float)),
            Duration(span) => Some(Duration(0i64.saturating_sub(span))),
            integer => arithmetic(Arithmetic::Subtract, Integer(0), integer),
        },
        NodeKind::All(parts) => {
            let parts: Vec<_> = parts.iter().map(truth).collect();
            if parts.contains(&Some(false)) {
                Some(Bool(false))
            } else {
                parts.iter().all(Option::is_some).then_some(Bool(true))
            }
        }
        NodeKind::Any(parts) => {
            let parts: Vec<_> = parts.iter().map(truth).collect();
            if parts.contains(&Some(true)) {
                Some(Bool(true))
            } else {
                parts.iter().all(Option::is_some).then_some(Bool(false))
            }
        }
        NodeKind::Compare(compare, sides) => {
            let order = order(&value(&sides.0)?, &value(&sides.1)?);
            Some(Bool(match compare {
                Compare::Equal => order == Ordering::Equal,
                Compare::NotEqual => order != Ordering::Equal,
                Compare::Less => order == Ordering::Less,
                Compare::LessOrEqual => order != Ordering::Greater,
                Compare::Greater => order == Ordering::Greater,
                Compare::GreaterOrEqual => order != Ordering::Less,
            }))
        }
        NodeKind::In(sides) => {
            let item = value(&sides.0)?;
            if let NodeKind::List(items) = &sides.1.kind {
                // A list with one float in it is a list of floats.
                let floats = items.iter().any(|item| matches!(item.kind, NodeKind::Float(_)));
                let item = if floats { Float(float(&item)) } else { item };
                return Some(Bool(items.iter().any(|other| order(&item, &value(other).unwrap()).is_eq())));
            }
            match (item, value(&sides.1)?) {
                (Text(item), List(items)) => Some(Bool(items.contains(&item))),
                other => panic!("{other:?} is no membership"),
            }
        }
        NodeKind::Arithmetic(operator, sides) => arithmetic(*operator, value(&sides.0)?, value(&sides.1)?),
        NodeKind::If(branches) => {
            let chosen = if truth(&branches.0)? { value(&branches.1) } else { value(&branches.2) };
            // Both branches have one type: a float where either is one.
            chosen.map(|chosen| match chosen {
                Integer(integer) if is_float(&branches.1, schema) || is_float(&branches.2, schema) => {
                    Float(integer as f64)
                }
                other => other,
            })
        }
        NodeKind::Call(call) => eval_call(call, schema, row),
    }
}

/// Whether an operand has the type float, whatever the row holds.
fn is_float(node: &Node, schema: &Schema) -> bool {
    match &node.kind {
        NodeKind::Float(_) => true,
        NodeKind::Name(name) => {
            schema.slot(name).is_some_and(|slot| schema.column(slot).kind == event::Type::Float)
        }
        NodeKind::Negate(operand) => is_float(operand, schema),
        NodeKind::Arithmetic(Arithmetic::Divide, _) => true,
        NodeKind::Arithmetic(_, sides) => is_float(&sides.0, schema) || is_float(&sides.1, schema),
        NodeKind::If(branches) => is_float(&branches.1, schema) || is_float(&branches.2, schema),
        NodeKind::Call(call) => match (call.name.as_str(), &call.target) {
            ("double" | "ratio", _) => true,
            ("or", Some(target)) => is_float(target, schema) || is_float(&call.args[0], schema),
            _ => false,
        },
        _ => false,
    }
}

fn eval_call(call: &Call, schema: &Schema, row: &Facts) -> Option<Dynamic> {
    let value = |node: &Node| eval(node, schema, row);
    let text = |node: &Node| match value(node)? {
        Text(text) => Some(text),
        other => panic!("{other:?} is no text"),
    };
    let size = |node: &Node| {
        Some(Integer(match value(node)? {
            Text(text) => text.chars().count() as i64,
            List(items) => items.len() as i64,
            Bytes(bytes) => bytes as i64,
            other => panic!("{other:?} has no size"),
        }))
    };
    match (call.name.as_str(), call.target.as_deref()) {
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
                Integer(integer) if is_float(target, schema) || is_float(&call.args[0], schema) => {
                    Some(Float(integer as f64))
                }
                other => Some(other),
            }
        }
        ("first_age", Some(Node { kind: NodeKind::Name(kind), .. })) => {
            column(&format!("{kind}.first_age()"), true, schema, row)
        }
        (counter, Some(Node { kind: NodeKind::Name(kind), .. })) => {
            let NodeKind::Text(window) = &call.args[0].kind else { panic!("no window") };
            column(&format!("{kind}.{counter}('{window}')"), false, schema, row)
        }
        (name, _) => panic!("no function {name}"),
    }
}
