//! `in`, and sets.

use std::sync::Arc;

use super::*;
use crate::bounds::Contradiction;
use crate::set::{Network, Networks, Set, SetType};

/// Returns the name of the entries of a set, for messages.
fn held(kind: SetType) -> &'static str {
    match kind {
        SetType::String => "strings",
        SetType::Domain => "domain names",
        SetType::Integer => "integers",
        SetType::Ip => "addresses and networks",
    }
}

impl Checker<'_> {
    pub(super) fn membership(&mut self, item: &Node, list: &Node, range: &Range<usize>) -> Option<Expr> {
        if let NodeKind::Name(name) = &list.kind
            && let Some(set) = self.context.library.set(name)
        {
            let set = Arc::clone(set);
            return self.in_set(item, name, set, list);
        }
        let found = self.check(item);
        let NodeKind::List(constants) = &list.kind else {
            let list_checked = self.check(list)?;
            let found = found?;
            self.spend(COST_SEEK);
            return match (found, list_checked) {
                (Expr::String(text), Expr::List(slot)) => Some(Expr::Bool(Bool::ListHas(text, slot))),
                (other, Expr::List(_)) => {
                    let message = format!("a list holds strings, not {}", other.kind().article());
                    self.mismatch(&item.range, message, other.kind(), other.kind())
                }
                (_, Expr::String(_)) => {
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
        if !matches!(wanted, Kind::String | Kind::Integer | Kind::Float | Kind::Ip) {
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
                (Kind::String, Expr::String(Str::Const(text))) => strings.push(text),
                (Kind::Ip, Expr::String(Str::Const(text))) if text.parse::<Network>().is_ok() => {
                    ips.extend(text.parse::<Network>());
                }
                (Kind::Integer | Kind::Float, Expr::Integer(Int::Const(integer))) => {
                    integers.push(integer);
                    floats.push(integer as f64 + 0.0);
                }
                (Kind::Integer | Kind::Float, Expr::Float(Float::Const(float))) => floats.push(float + 0.0),
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
        strings.sort_unstable();
        integers.sort_unstable();
        floats.sort_unstable_by(f64::total_cmp);
        let truth = match found {
            Expr::String(text) => Bool::StrIn(text, strings.into()),
            Expr::Ip(ip) => Bool::IpIn(ip, Networks::new(ips)),
            Expr::Integer(integer) if integers.len() == floats.len() => Bool::IntIn(integer, integers.into()),
            Expr::Integer(integer) => Bool::FloatIn(integer.into(), floats.into()),
            Expr::Float(float) => Bool::FloatIn(float, floats.into()),
            // Other types were refused above.
            _ => return None,
        };
        // A list that leaves nothing to find, or everything.
        match Known::default().learn(&self.base, &truth, true) {
            Ok(()) => Some(Expr::Bool(truth)),
            Err(Contradiction) => {
                let help = "counts, sizes, ages and ratios are never below 0";
                self.fail(range, "this is always false", help)
            }
        }
    }

    /// `mail.from_domain in disposable`, by the set's name.
    fn in_set(&mut self, item: &Node, name: &str, set: Arc<Set>, list: &Node) -> Option<Expr> {
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
        Some(Expr::Bool(match (found, set.kind()) {
            (Expr::String(text), SetType::String | SetType::Domain) => Bool::StrInSet(text, set),
            (Expr::Integer(integer), SetType::Integer) => Bool::IntInSet(integer, set),
            (Expr::Ip(ip), SetType::Ip) => Bool::IpInSet(ip, set),
            (Expr::List(_), SetType::String | SetType::Domain) => {
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
    pub(super) fn intersects(&mut self, list: &Node, with: &Node) -> Option<Expr> {
        let checked = self.check(list);
        self.spend(COST_MEET);
        let set = match &with.kind {
            NodeKind::Refused => return None,
            NodeKind::Name(name) => match self.context.library.set(name) {
                Some(set) => Arc::clone(set),
                None => {
                    let names = self.context.library.names();
                    let help = did_you_mean(name, names);
                    let help =
                        help.unwrap_or_else(|| "define it with [[set]], or write `['a', 'b']`".to_owned());
                    return self.fail(&with.range, format!("there is no set `{name}`"), help);
                }
            },
            NodeKind::List(items) => {
                let texts: Option<Vec<&str>> = items
                    .iter()
                    .map(|item| match &item.kind {
                        NodeKind::Text(text) => Some(text.as_str()),
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
            (Expr::List(slot), SetType::String | SetType::Domain) => {
                Some(Expr::Bool(Bool::ListMeets(slot, set)))
            }
            (Expr::List(_), holds) => {
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
