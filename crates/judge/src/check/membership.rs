//! `in`, and sets.

use std::sync::Arc;

use super::*;
use crate::bounds::Contradiction;
use crate::set::{Network, Networks, Set, SetType};

/// Returns the name of the entries of a set, for messages.
pub(super) fn held(kind: SetType) -> &'static str {
    match kind {
        SetType::String => "strings",
        SetType::Domain => "domain names",
        SetType::Integer => "integers",
        SetType::Ip => "addresses and networks",
    }
}

impl Checker<'_> {
    pub(super) fn membership(
        &mut self,
        item: &SyntaxNode,
        list: &SyntaxNode,
        range: &Range<usize>,
    ) -> Option<TypedExpr> {
        if let SyntaxKind::Name(name) = &list.kind
            && let Some(set) = self.context.library.set(name)
        {
            let set = Arc::clone(set);
            return self.in_set(item, name, set, list);
        }
        if let SyntaxKind::Name(name) = &list.kind
            && let Some(table) = self.context.library.table(name)
        {
            let table = Arc::clone(table);
            let key = self.lookup_key(item, name, &table)?;
            return Some(TypedExpr::Bool(BoolExpr::InTable(key, table)));
        }
        let found = self.check(item);
        let SyntaxKind::List(constants) = &list.kind else {
            let list_checked = self.check(list)?;
            let found = found?;
            self.spend(COST_SEEK);
            return match (found, list_checked) {
                (TypedExpr::String(text), TypedExpr::List(list)) => {
                    Some(TypedExpr::Bool(BoolExpr::ListHas(text, list)))
                }
                (other, TypedExpr::List(_)) => {
                    let message = format!("a list holds strings, not {}", other.kind().article());
                    self.mismatch(&item.range, message, other.kind(), other.kind())
                }
                (_, TypedExpr::String(_)) => {
                    let help = "a text is searched with `text.contains('a')`";
                    self.fail(&list.range, "`in` takes a list, not a string", help)
                }
                (_, other) => {
                    let message = format!("`in` takes a list, not {}", other.kind().article());
                    self.fail(&list.range, message, "write `x in ['a', 'b']`")
                }
            };
        };
        let constants: Vec<_> = constants.iter().map(|node| (node, self.check(node))).collect();
        let found = found?;
        self.spend(COST_SEEK);
        if constants.is_empty() {
            return self.fail(range, "this is always false", "the list is empty");
        }
        let wanted = found.kind();
        if !matches!(
            wanted,
            OperandType::String | OperandType::Integer | OperandType::Float | OperandType::Ip
        ) {
            let message = format!("`in` does not seek {}", wanted.article());
            return self.fail(&item.range, message, "it seeks strings, numbers and addresses");
        }
        let (mut strings, mut integers, mut floats, mut ips) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut wrong = false;
        for (node, constant) in constants {
            let Some(constant) = constant else {
                wrong = true;
                continue;
            };
            let kind = constant.kind();
            match (wanted, constant) {
                (OperandType::String, TypedExpr::String(StrExpr::Const(text))) => strings.push(text),
                (OperandType::Ip, TypedExpr::String(StrExpr::Const(text)))
                    if text.parse::<Network>().is_ok() =>
                {
                    ips.extend(text.parse::<Network>());
                }
                (OperandType::Integer | OperandType::Float, TypedExpr::Integer(IntExpr::Const(integer))) => {
                    integers.push(integer);
                    floats.push(integer as f64 + 0.0);
                }
                (OperandType::Integer | OperandType::Float, TypedExpr::Float(FloatExpr::Const(float))) => {
                    floats.push(float + 0.0)
                }
                (_, expr) if !expr.is_constant() => {
                    wrong = true;
                    self.report(
                        Diagnostic::new("the list holds something that is no constant", node.range.clone())
                            .help("compare with it by `==`"),
                    );
                }
                _ => {
                    wrong = true;
                    let message = format!("{} is sought, this is {}", wanted.article(), kind.article());
                    self.mismatch::<()>(&node.range, message, wanted, kind);
                }
            }
        }
        if wrong {
            return None;
        }
        if let TypedExpr::String(text) = &found {
            self.check_grades(text, strings.iter().map(|word| &**word), range)?;
        }
        integers.sort_unstable();
        floats.sort_unstable_by(f64::total_cmp);
        let truth = match found {
            TypedExpr::String(text) => BoolExpr::StrIn(text, TextConstants::new(strings)),
            TypedExpr::Ip(ip) => BoolExpr::IpIn(ip, Networks::new(ips)),
            TypedExpr::Integer(integer) if integers.len() == floats.len() => {
                BoolExpr::IntIn(integer, integers.into())
            }
            TypedExpr::Integer(integer) => BoolExpr::FloatIn(integer.into(), floats.into()),
            TypedExpr::Float(float) => BoolExpr::FloatIn(float, floats.into()),
            // Other types were refused above.
            _ => return None,
        };
        // A list that leaves nothing to find, or everything.
        match KnownConstraints::default().learn(&self.base, &truth, true) {
            Ok(()) => Some(TypedExpr::Bool(truth)),
            Err(Contradiction) => {
                let help = "counts, sizes, ages and ratios are never below 0";
                self.fail(range, "this is always false", help)
            }
        }
    }

    /// `mail.from_domain in disposable`, by the set's name.
    fn in_set(
        &mut self,
        item: &SyntaxNode,
        name: &str,
        set: Arc<Set>,
        list: &SyntaxNode,
    ) -> Option<TypedExpr> {
        let found = self.check(item)?;
        self.spend(COST_SEEK);
        if set.is_empty() {
            self.report(
                Diagnostic::new(
                    format!("the set `{name}` is empty, so this is never true"),
                    list.range.clone(),
                )
                .warning(),
            );
        }
        let kind = found.kind();
        Some(TypedExpr::Bool(match (found, set.kind()) {
            (TypedExpr::String(text), SetType::String | SetType::Domain) => BoolExpr::StrInSet(text, set),
            (TypedExpr::Integer(integer), SetType::Integer) => BoolExpr::IntInSet(integer, set),
            (TypedExpr::Ip(ip), SetType::Ip) => BoolExpr::IpInSet(ip, set),
            (TypedExpr::List(_), SetType::String | SetType::Domain) => {
                let message = format!("`in` seeks one value in the set `{name}`, not a list");
                let help = format!("items of a list are sought with `sets.intersects(mail.links, {name})`");
                return self.fail(&item.range, message, help);
            }
            (_, holds) => {
                let message = format!("the set `{name}` holds {}, this is {}", held(holds), kind.article());
                return self.mismatch(&item.range, message, kind, kind);
            }
        }))
    }

    /// `sets.intersects(list, set)`, as CEL's extension for sets calls it.
    pub(super) fn intersects(&mut self, list: &SyntaxNode, with: &SyntaxNode) -> Option<TypedExpr> {
        let checked = self.check(list);
        self.spend(COST_MEET);
        let set = match &with.kind {
            SyntaxKind::Refused => return None,
            SyntaxKind::Name(name) => match self.context.library.set(name) {
                Some(set) => Arc::clone(set),
                None => {
                    let names = self.context.library.names();
                    let help = did_you_mean(name, names);
                    let help =
                        help.unwrap_or_else(|| "define it with [[set]], or write `['a', 'b']`".to_owned());
                    return self.fail(&with.range, format!("there is no set `{name}`"), help);
                }
            },
            SyntaxKind::List(items) => {
                let texts: Option<Vec<&str>> = items
                    .iter()
                    .map(|item| match &item.kind {
                        SyntaxKind::Text(text) => Some(text.as_str()),
                        _ => None,
                    })
                    .collect();
                self.spend(items.len() as u32);
                match texts.map(|texts| Set::new(SetType::String, texts)) {
                    Some(Ok(set)) => Arc::new(set),
                    _ => {
                        return self.fail(
                            &with.range,
                            "the list holds something that is no text",
                            "write `['a', 'b']`",
                        );
                    }
                }
            }
            _ => {
                let help = "write it as in `sets.intersects(mail.link_hosts, bad_hosts)`";
                return self.fail(
                    &with.range,
                    "`sets.intersects` takes a named set or a list of texts",
                    help,
                );
            }
        };
        match (checked?, set.kind()) {
            (TypedExpr::List(list), SetType::String | SetType::Domain) => {
                Some(TypedExpr::Bool(BoolExpr::ListMeets(list, set)))
            }
            (TypedExpr::List(_), holds) => {
                let message = format!("a list holds strings, the set holds {}", held(holds));
                self.fail(&with.range, message, "take a set of type string or domain")
            }
            (other, _) => {
                let message = format!("`sets.intersects` takes a list, not {}", other.kind().article());
                self.fail(&list.range, message, "one value is sought with `x in ...`")
            }
        }
    }
}
