//! Evaluation of [expressions](crate::crowdsec::expression) on a record, with bounded work.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::crowdsec::evaluator::{
    EvaluationError, EvaluationResult, Evaluator, ExprEnvironment, OpenClosure, STEPS_MAX, error,
};
use crate::crowdsec::expression::{BinaryOperator, ClosurePart, CrowdsecExpression, ExprNode, compile_regex};
use crate::crowdsec::helpers;
use crate::crowdsec::value::{ExprObject, ExprValue};

/// Most closures inside of one another.
const CLOSURES_MAX: usize = 8;

impl CrowdsecExpression {
    /// Evaluates the expression.
    pub fn evaluate(&self, environment: &mut ExprEnvironment<'_>) -> Result<ExprValue, EvaluationError> {
        let mut evaluator =
            Evaluator { environment, steps: STEPS_MAX, closures: Vec::new(), variables: Vec::new() };
        evaluator.value(&self.root)
    }

    /// Evaluates a condition: false if it comes to no truth.
    pub fn is_true(&self, environment: &mut ExprEnvironment<'_>) -> bool {
        matches!(self.evaluate(environment), Ok(ExprValue::Bool(true)))
    }
}

impl Evaluator<'_, '_> {
    fn value(&mut self, node: &ExprNode) -> EvaluationResult {
        self.pay(1)?;
        Ok(match node {
            ExprNode::Nil => ExprValue::Nil,
            ExprNode::Bool(truth) => ExprValue::Bool(*truth),
            ExprNode::Int(number) => ExprValue::Int(*number),
            ExprNode::Float(number) => ExprValue::Float(*number),
            ExprNode::Text(text) => ExprValue::Text(Arc::clone(text)),
            ExprNode::Regex(_) => return error("a pattern is no value"),
            ExprNode::Name(name) => self.name(name)?,
            ExprNode::Closure(part) => {
                let Some(closure) = self.closures.last() else { return error("there is no element here") };
                match part {
                    ClosurePart::Element => closure.element.clone(),
                    ClosurePart::Index => ExprValue::Int(closure.index as i64),
                    ClosurePart::Accumulator => closure.accumulator.clone(),
                }
            }
            ExprNode::List(items) => ExprValue::List(Arc::new(
                items.iter().map(|item| self.value(item)).collect::<Result<_, _>>()?,
            )),
            ExprNode::Map(members) => {
                let mut map = BTreeMap::new();
                for (name, value) in members {
                    let ExprValue::Text(name) = self.value(name)? else { return error("a name is no text") };
                    map.insert(name, self.value(value)?);
                }
                ExprValue::Map(Arc::new(map))
            }
            ExprNode::Member { object, name, is_optional } => {
                let object = self.value(object)?;
                if *is_optional && matches!(object, ExprValue::Nil) {
                    return Ok(ExprValue::Nil);
                }
                let name = self.value(name)?;
                self.member(&object, &name)?
            }
            ExprNode::Slice { object, from, to } => self.slice(object, from.as_deref(), to.as_deref())?,
            ExprNode::Call { name, arguments } => {
                let arguments =
                    arguments.iter().map(|argument| self.value(argument)).collect::<Result<Vec<_>, _>>()?;
                helpers::call(self, name, &arguments)?
            }
            ExprNode::Each { name, list, closure, start } => {
                self.each(name, list, closure.as_deref(), start.as_deref())?
            }
            ExprNode::Method { object, name, arguments, is_optional } => {
                let object = self.value(object)?;
                if *is_optional && matches!(object, ExprValue::Nil) {
                    return Ok(ExprValue::Nil);
                }
                let arguments =
                    arguments.iter().map(|argument| self.value(argument)).collect::<Result<Vec<_>, _>>()?;
                self.method(&object, name, &arguments)?
            }
            ExprNode::Not(inner) => match self.value(inner)? {
                ExprValue::Bool(truth) => ExprValue::Bool(!truth),
                value => return error(format!("`not` wants a bool, not {}", value.kind())),
            },
            ExprNode::Negate(inner) => match self.value(inner)? {
                ExprValue::Int(number) => ExprValue::Int(number.wrapping_neg()),
                ExprValue::Float(number) => ExprValue::Float(-number),
                ExprValue::Duration(length) => ExprValue::Duration(length.wrapping_neg()),
                value => return error(format!("`-` wants a number, not {}", value.kind())),
            },
            ExprNode::Binary { operator, left, right } => self.binary(*operator, left, right)?,
            ExprNode::Conditional { condition, then, otherwise } => match self.value(condition)? {
                ExprValue::Bool(true) => self.value(then)?,
                ExprValue::Bool(false) => self.value(otherwise)?,
                value => return error(format!("a condition is {}, no bool", value.kind())),
            },
            ExprNode::Let { name, value, body } => {
                let value = self.value(value)?;
                self.variables.push((Arc::clone(name), value));
                let value = self.value(body);
                self.variables.pop();
                value?
            }
        })
    }

    fn name(&self, name: &str) -> EvaluationResult {
        if let Some((_, value)) = self.variables.iter().rev().find(|(known, _)| known.as_ref() == name) {
            return Ok(value.clone());
        }
        if name == "evt" && self.environment.record.is_some() {
            return Ok(ExprValue::Record);
        }
        match self.environment.names.iter().find(|(known, _)| *known == name) {
            Some((_, value)) => Ok(value.clone()),
            None => error(format!("`{name}` is not known")),
        }
    }

    fn slice(
        &mut self,
        object: &ExprNode,
        from: Option<&ExprNode>,
        to: Option<&ExprNode>,
    ) -> EvaluationResult {
        let object = self.value(object)?;
        let length = match &object {
            ExprValue::List(items) => items.len(),
            ExprValue::Text(text) => text.len(),
            object => return error(format!("{} has no parts", object.kind())),
        };
        let mut bound = |node: Option<&ExprNode>, otherwise: usize| match node {
            None => Ok(otherwise),
            Some(node) => match self.value(node)? {
                ExprValue::Int(at) if at < 0 => {
                    Ok(usize::try_from(at.saturating_add(length as i64)).unwrap_or(0))
                }
                ExprValue::Int(at) => Ok(usize::try_from(at).unwrap_or(length).min(length)),
                value => error(format!("an index is {}, no int", value.kind())),
            },
        };
        let from = bound(from, 0)?;
        let to = bound(to, length)?.max(from);
        Ok(match &object {
            ExprValue::List(items) => ExprValue::List(Arc::new(items[from..to].to_vec())),
            ExprValue::Text(text) => match text.get(from..to) {
                Some(part) => ExprValue::from(part),
                None => ExprValue::from(String::from_utf8_lossy(&text.as_bytes()[from..to]).into_owned()),
            },
            _ => ExprValue::Nil,
        })
    }

    fn method(&mut self, object: &ExprValue, name: &str, arguments: &[ExprValue]) -> EvaluationResult {
        let unknown = || error(format!("`{name}` is no method of {}", object.kind()));
        match object {
            ExprValue::Record => {
                let Some(record) = self.environment.record.as_deref_mut() else {
                    return error("there is no record");
                };
                if let ("SetMeta" | "SetParsed", [ExprValue::Text(key), ExprValue::Text(value)]) =
                    (name, arguments)
                {
                    let texts = if name == "SetMeta" { &mut record.meta } else { &mut record.parsed };
                    Arc::make_mut(texts).insert(Arc::clone(key), Arc::clone(value));
                    return Ok(ExprValue::Bool(true));
                }
                record.call(name, arguments).map_or_else(unknown, Ok)
            }
            ExprValue::Object(object) => object.call(name, arguments).map_or_else(unknown, Ok),
            ExprValue::Moment(at) => helpers::moment_method(*at, name, arguments).map_or_else(unknown, Ok),
            ExprValue::Duration(length) => match name {
                "Seconds" => Ok(ExprValue::Float(*length as f64 / 1e9)),
                "Minutes" => Ok(ExprValue::Float(*length as f64 / 60e9)),
                "Hours" => Ok(ExprValue::Float(*length as f64 / 3600e9)),
                "Milliseconds" => Ok(ExprValue::Int(length / 1_000_000)),
                _ => unknown(),
            },
            _ => unknown(),
        }
    }

    fn binary(&mut self, operator: BinaryOperator, left: &ExprNode, right: &ExprNode) -> EvaluationResult {
        use BinaryOperator as B;
        let left = match (operator, self.value(left)) {
            (B::Otherwise, Ok(ExprValue::Nil) | Err(_)) => return self.value(right),
            (B::Otherwise, left) => return left,
            (_, left) => left?,
        };
        match (operator, &left) {
            (B::And, ExprValue::Bool(false)) => return Ok(ExprValue::Bool(false)),
            (B::Or, ExprValue::Bool(true)) => return Ok(ExprValue::Bool(true)),
            (B::And | B::Or, ExprValue::Bool(_)) => {
                return match self.value(right)? {
                    ExprValue::Bool(truth) => Ok(ExprValue::Bool(truth)),
                    value => error(format!("a condition is {}, no bool", value.kind())),
                };
            }
            (B::And | B::Or, value) => return error(format!("a condition is {}, no bool", value.kind())),
            (B::Matches, ExprValue::Text(text)) => {
                self.pay_text(text)?;
                if let ExprNode::Regex(regex) = right {
                    return Ok(ExprValue::Bool(regex.is_match(text)));
                }
                let pattern = self.value(right)?;
                let Some(pattern) = pattern.as_text() else { return error("a pattern is no text") };
                self.pay(1_000 + pattern.len() * 10)?;
                let regex = compile_regex(pattern).map_err(|message| EvaluationError(message.into()))?;
                return Ok(ExprValue::Bool(regex.is_match(text)));
            }
            (B::Matches, value) => return error(format!("`matches` wants a text, not {}", value.kind())),
            _ => {}
        }
        let right = self.value(right)?;
        self.apply(operator, &left, &right)
    }

    fn apply(&mut self, operator: BinaryOperator, left: &ExprValue, right: &ExprValue) -> EvaluationResult {
        use BinaryOperator as B;
        use ExprValue as V;
        if let (V::Text(one), V::Text(other)) = (left, right) {
            self.pay(1 + (one.len() + other.len()) / 64)?;
            let truth = match operator {
                B::Contains => one.contains(other.as_ref()),
                B::StartsWith => one.starts_with(other.as_ref()),
                B::EndsWith => one.ends_with(other.as_ref()),
                B::Equal => one == other,
                B::NotEqual => one != other,
                B::Less => one < other,
                B::Greater => one > other,
                B::LessOrEqual => one <= other,
                B::GreaterOrEqual => one >= other,
                B::Add => return Ok(V::from(format!("{one}{other}"))),
                _ => return error("this cannot be done with texts"),
            };
            return Ok(V::Bool(truth));
        }
        match operator {
            B::Equal => return Ok(V::Bool(left == right)),
            B::NotEqual => return Ok(V::Bool(left != right)),
            B::In => return self.is_in(left, right),
            _ => {}
        }
        Ok(match (left, right) {
            (V::Int(one), V::Int(other)) => match operator {
                B::Add => V::Int(one.wrapping_add(*other)),
                B::Subtract => V::Int(one.wrapping_sub(*other)),
                B::Multiply => V::Int(one.wrapping_mul(*other)),
                B::Divide => V::Float(*one as f64 / *other as f64),
                B::Remainder if *other == 0 => return error("division by zero"),
                B::Remainder => V::Int(one.wrapping_rem(*other)),
                B::Power => V::Float((*one as f64).powf(*other as f64)),
                B::Range => {
                    let length = other.saturating_sub(*one).saturating_add(1).max(0);
                    self.pay(usize::try_from(length).unwrap_or(usize::MAX))?;
                    V::List(Arc::new((*one..=*other).map(V::Int).collect()))
                }
                B::Less => V::Bool(one < other),
                B::Greater => V::Bool(one > other),
                B::LessOrEqual => V::Bool(one <= other),
                B::GreaterOrEqual => V::Bool(one >= other),
                _ => return error("this cannot be done with numbers"),
            },
            (V::Int(_) | V::Float(_), V::Int(_) | V::Float(_)) => {
                let one = left.as_number().unwrap_or_default();
                let other = right.as_number().unwrap_or_default();
                match operator {
                    B::Add => V::Float(one + other),
                    B::Subtract => V::Float(one - other),
                    B::Multiply => V::Float(one * other),
                    B::Divide => V::Float(one / other),
                    B::Power => V::Float(one.powf(other)),
                    B::Less => V::Bool(one < other),
                    B::Greater => V::Bool(one > other),
                    B::LessOrEqual => V::Bool(one <= other),
                    B::GreaterOrEqual => V::Bool(one >= other),
                    _ => return error("this cannot be done with numbers"),
                }
            }
            (V::Moment(one), V::Moment(other)) | (V::Duration(one), V::Duration(other)) => match operator {
                B::Subtract => V::Duration(one.saturating_sub(*other)),
                B::Add if matches!(left, V::Duration(_)) => V::Duration(one.saturating_add(*other)),
                B::Less => V::Bool(one < other),
                B::Greater => V::Bool(one > other),
                B::LessOrEqual => V::Bool(one <= other),
                B::GreaterOrEqual => V::Bool(one >= other),
                _ => return error("this cannot be done with times"),
            },
            (V::Moment(at), V::Duration(length)) => match operator {
                B::Add => V::Moment(at.saturating_add(*length)),
                B::Subtract => V::Moment(at.saturating_sub(*length)),
                _ => return error("this cannot be done with times"),
            },
            (left, right) => {
                return error(format!("{} and {} do not go together here", left.kind(), right.kind()));
            }
        })
    }

    fn is_in(&mut self, value: &ExprValue, container: &ExprValue) -> EvaluationResult {
        let truth = match (value, container) {
            (value, ExprValue::List(items)) => {
                self.pay(items.len())?;
                items.contains(value)
            }
            (ExprValue::Text(name), ExprValue::Map(map)) => map.contains_key(name),
            (ExprValue::Text(name), ExprValue::Texts(texts)) => texts.contains_key(name),
            (ExprValue::Text(name), ExprValue::RecordValues) => {
                self.environment.record.as_deref().is_some_and(|record| record.values.contains_key(name))
            }
            (_, ExprValue::Nil) => false,
            (_, container) => return error(format!("nothing is in {}", container.kind())),
        };
        Ok(ExprValue::Bool(truth))
    }

    fn each(
        &mut self,
        name: &str,
        list: &ExprNode,
        closure: Option<&ExprNode>,
        start: Option<&ExprNode>,
    ) -> EvaluationResult {
        let items = match self.value(list)? {
            ExprValue::List(items) => items,
            value => return error(format!("`{name}` wants a list, not {}", value.kind())),
        };
        if self.closures.len() >= CLOSURES_MAX {
            return error("closures are nested too deeply");
        }
        let mut accumulator = match start {
            Some(start) => self.value(start)?,
            None => ExprValue::Nil,
        };
        let (mut kept, mut sum, mut number_of_true) = (Vec::new(), 0.0, 0usize);
        let (mut is_whole, mut first, mut last) = (true, None, None);
        let mut groups: BTreeMap<Arc<str>, Vec<ExprValue>> = BTreeMap::new();
        let mut keyed = Vec::new();
        for (index, element) in items.iter().enumerate() {
            let value = match closure {
                None => element.clone(),
                Some(closure) => {
                    let open =
                        OpenClosure { element: element.clone(), index, accumulator: accumulator.clone() };
                    self.closures.push(open);
                    let value = self.value(closure);
                    self.closures.pop();
                    value?
                }
            };
            match name {
                "map" => kept.push(value),
                "sum" => {
                    is_whole &= matches!(value, ExprValue::Int(_));
                    sum += value.as_number().ok_or(EvaluationError("a sum wants numbers".into()))?;
                }
                "reduce" => accumulator = value,
                "groupBy" | "countBy" => {
                    groups.entry(Arc::from(value.to_string())).or_default().push(element.clone());
                }
                "sortBy" => keyed.push((value, element.clone())),
                _ => {
                    let ExprValue::Bool(truth) = value else {
                        return error(format!("`{name}` asks for a bool, not {}", value.kind()));
                    };
                    match name {
                        "any" if truth => return Ok(ExprValue::Bool(true)),
                        "all" if !truth => return Ok(ExprValue::Bool(false)),
                        "none" if truth => return Ok(ExprValue::Bool(false)),
                        "find" if truth => return Ok(element.clone()),
                        "findIndex" if truth => return Ok(ExprValue::Int(index as i64)),
                        "filter" if truth => kept.push(element.clone()),
                        _ => {}
                    }
                    if truth {
                        number_of_true += 1;
                        first = first.or(Some(index));
                        last = Some(index);
                    }
                }
            }
        }
        Ok(match name {
            "any" => ExprValue::Bool(false),
            "all" | "none" => ExprValue::Bool(true),
            "one" => ExprValue::Bool(number_of_true == 1),
            "count" => ExprValue::Int(number_of_true as i64),
            "filter" | "map" => ExprValue::List(Arc::new(kept)),
            "sum" if is_whole => ExprValue::Int(sum as i64),
            "sum" => ExprValue::Float(sum),
            "reduce" => accumulator,
            "findLast" => last.map_or(ExprValue::Nil, |last| items[last].clone()),
            "findLastIndex" => last.map_or(ExprValue::Nil, |last| ExprValue::Int(last as i64)),
            "groupBy" => ExprValue::Map(Arc::new(
                groups.into_iter().map(|(key, group)| (key, ExprValue::List(Arc::new(group)))).collect(),
            )),
            "countBy" => ExprValue::Map(Arc::new(
                groups.into_iter().map(|(key, group)| (key, ExprValue::Int(group.len() as i64))).collect(),
            )),
            "sortBy" => {
                keyed.sort_by(|(one, _), (other, _)| helpers::order(one, other));
                ExprValue::List(Arc::new(keyed.into_iter().map(|(_, element)| element).collect()))
            }
            _ => ExprValue::Nil,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crowdsec::data_files::CrowdsecDataFiles;
    use crate::crowdsec::evaluator::ExprMemory;
    use crate::crowdsec::record::CrowdsecRecord;

    fn evaluate(expression: &str, record: &mut CrowdsecRecord) -> String {
        let data = CrowdsecDataFiles::default();
        let mut environment = ExprEnvironment {
            record: Some(record),
            names: &[],
            data: &data,
            memory: &mut ExprMemory::default(),
            now: 0,
        };
        match CrowdsecExpression::parse(expression) {
            Ok(expression) => match expression.evaluate(&mut environment) {
                Ok(value) => value.to_string(),
                Err(error) => format!("error: {error}"),
            },
            Err(error) => format!("no expression: {error}"),
        }
    }

    fn record() -> CrowdsecRecord {
        let mut record = CrowdsecRecord::default();
        record.set("evt.Parsed.message", r#"{"a":{"b":[1,"x"],"c":200},"d":"e\"f"}"#);
        record.set("evt.Meta.source_ip", "192.0.2.7");
        record.set("evt.Parsed.pairs", r#"a=1 b="x y" c=z"#);
        record
    }

    #[test]
    fn expressions_come_to_what_they_do_in_expr() {
        let check = |expression: &str, expected: &str| {
            assert_eq!(evaluate(expression, &mut record()), expected, "{expression}");
        };
        check("1 + 2 * 3 == 7 and not false", "true");
        check("'a' in ['b', 'a'] && 'c' not in [\"d\"]", "true");
        check("not ('abc' contains 'd') || evt.Nobody", "true");
        check("evt.Parsed.missing == '' && evt.Unmarshaled.missing == nil", "true");
        check("'source_ip' in evt.Meta ? evt.Meta.source_ip : 'none'", "192.0.2.7");
        check("let x = Split('a,b,c', ','); x[-1] + x[0]", "ca");
        check("'abcdef'[2:4] + 'abc'[:-1]", "cdab");
        check("any([1, 2, 3], { # > 2 }) && all([{'k': 1}], { .k == 1 })", "true");
        check("filter([1, 2, 3], {# != 2}) | map(# * 10)", "[10 30]");
        check("len(map(1..3, {#})) == 3 && count(['a', 'b'], # startsWith 'a') == 1", "true");
        check("'xAy' matches '^x[A-Z]y$' && 'b' not matches 'a'", "true");
        check("evt.Unmarshaled.missing?.more ?? 'other'", "other");
        check(
            "UnmarshalJSON(evt.Parsed.message, evt.Unmarshaled, 'j') in ['', nil] && evt.Unmarshaled.j.a.c == 200",
            "true",
        );
        check("JsonExtract(evt.Parsed.message, 'a.b[1]') + JsonExtract(evt.Parsed.message, 'd')", r#"xe\"f"#);
        check("ParseKV(evt.Parsed.pairs, evt.Unmarshaled, 'p') == nil ? evt.Unmarshaled.p.b : ''", "x y");
        check("ParseKVLax('a=x y b=2', evt.Unmarshaled, 'p') == nil ? evt.Unmarshaled.p.a : ''", "x y");
        check("IpInRange(evt.Meta.source_ip, '192.0.2.0/24') && !IsIPV6(evt.Meta.source_ip)", "true");
        check("duration('20m') > duration('90s') && int('7') + 1 == 8", "true");
        check("Sprintf('%s-%05.1f-%d', 'a', 2.25, 3)", "a-002.2-3");
        check("PathUnescape('%2e%zz') + QueryUnescape('a+%41')", "%2e%zza A");
        check("evt.SetMeta('k', 'v') && evt.Meta.k == 'v'", "true");
        check("if 1 > 2 { 'a' } else if true { 1; let x = 'b'; x + 'c' } else { 'd' }", "bc");
        check("evt.Time.Hour() == 0 && evt.Time.Weekday().String() == 'Thursday'", "true");
        check("/* a comment */ 1 // another", "1");
        check("splitAfter('a,b,', ',') | join('|')", "a,|b,|");
        check("SplitAfterN('a,b,c', ',', 2)", "[a, b,c]");
        check("toBase64('ab') + B64Encode('') + fromBase64('YWJj')", "YWI=abc");
        check("median([3, 1, 2]) + mean([1, 2])", "3.5");
        check("uniq([1, 2, 1]) | sort('desc') | take(1)", "[2]");
        check("values({'a': 1, 'b': 2}) | sum()", "3");
        check("fromPairs(toPairs({'a': 1})).a + len(Flatten([[1], [2]]))", "3");
        check("type([1]) + type('x') + type(nil)", "arraystringnil");
        check("bitand(6, 3) + bitshl(1, 4) + bitnot(0) + bitushr(-1, 63)", "18");
        check(
            "AverageInterval([date('2024-01-01T00:00:10Z'), date('2024-01-01T00:00:00Z')]) == duration('10s')",
            "true",
        );
        check("Sprintf('%dh', (GetDecisionsCount('192.0.2.7') + 1) * 4)", "4h");
    }

    #[test]
    fn wrong_expressions_are_errors() {
        let check = |expression: &str, expected: &str| {
            let found = evaluate(expression, &mut record());
            assert!(found.starts_with(expected), "{expression}: {found}");
        };
        check("evt.Overflow.Alert.Remediation", "error");
        check("[1][5]", "error");
        check("nobody(1)", "error");
        check("len(1..9000000) > 0", "error: it takes too many steps");
        check(r"all(1..3000, {all(1..3000, {# > 0})})", "error: it takes too many steps");
        check("bitshl(1, 64)", "error");
        check("'a' +", "no expression");
        check("a b", "no expression");
        check("'a' matches '('", "no expression");
        check(&"(".repeat(5_000), "no expression");
        check(&format!("1{}", " + 1".repeat(5_000)), "no expression");
        check(&format!("a{}", ".b".repeat(5_000)), "no expression");
    }
}
