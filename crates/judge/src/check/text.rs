//! Functions that make texts, cut them, and read other values out of them.

use super::*;
use crate::syntax::CallNode;

impl Checker<'_> {
    /// An expression as the value of a column of a type.
    pub(super) fn value(
        &mut self,
        checked: TypedExpr,
        wanted: Type,
        range: &Range<usize>,
    ) -> Option<ValueExpr> {
        let found = checked.kind();
        Some(match (checked, wanted) {
            (TypedExpr::Bool(truth), Type::Bool) => ValueExpr::Bool(truth),
            (TypedExpr::Integer(integer), Type::Integer) => ValueExpr::Integer(integer),
            (TypedExpr::Integer(integer), Type::Float) => ValueExpr::Float(integer.into()),
            (TypedExpr::Float(float), Type::Float) => ValueExpr::Float(float),
            (TypedExpr::String(text), Type::String) => ValueExpr::String(text),
            (TypedExpr::Time(micros), Type::Time) => ValueExpr::Time(micros),
            (TypedExpr::Ip(ip), Type::Ip) => ValueExpr::Ip(ip),
            (TypedExpr::List(list), Type::List) => ValueExpr::List(list),
            (_, wanted) => {
                let message = format!("the field is of type {wanted}, this is {}", found.article());
                let help = match (found, wanted) {
                    (OperandType::Duration, Type::Integer | Type::Float) => {
                        "`int(...)` and `double(...)` give its seconds"
                    }
                    (OperandType::Float, Type::Integer) => "`int(...)` drops the fraction",
                    (OperandType::String, Type::Integer) => "`int(...)` reads a number",
                    (OperandType::String, Type::Float) => "`double(...)` reads a number",
                    (OperandType::String, Type::Ip) => "`ip(...)` reads an address",
                    (OperandType::List, Type::String) => {
                        "take one item, as in `...[0]`, or all of them with `.join(',')`"
                    }
                    (_, Type::String) => "`string(...)` prints a number, a bool, a time or an address",
                    _ => "change the field's `type`",
                };
                return self.fail(range, message, help);
            }
        })
    }

    /// `string(value)`.
    pub(super) fn printed(&mut self, of: &SyntaxNode) -> Option<TypedExpr> {
        let checked = self.check(of)?;
        self.spend(COST_MAKE);
        let value = match checked {
            TypedExpr::String(_) => return Some(checked),
            TypedExpr::Bool(truth) => ValueExpr::Bool(truth),
            TypedExpr::Integer(integer) => ValueExpr::Integer(integer),
            TypedExpr::Float(float) => ValueExpr::Float(float),
            TypedExpr::Time(micros) => ValueExpr::Time(micros),
            TypedExpr::Ip(ip) => ValueExpr::Ip(ip),
            other => {
                let message = format!("`string` does not take {}", other.kind().article());
                let help =
                    "it prints numbers, bools, times and addresses; a list is joined: `mail.links.join(' ')`";
                return self.fail(&of.range, message, help);
            }
        };
        Some(TypedExpr::String(StrExpr::Printed(Box::new(value))))
    }

    /// `distance(place, place)`.
    pub(super) fn distance(&mut self, from: &SyntaxNode, to: &SyntaxNode) -> Option<TypedExpr> {
        self.spend(COST_APPLY);
        let (one, other) = (self.check(from), self.check(to));
        let one = self.text(one?, &from.range, "distance");
        let other = self.text(other?, &to.range, "distance");
        Some(TypedExpr::Float(FloatExpr::Distance(pair(one?, other?))))
    }

    /// `ip(text)`.
    pub(super) fn parsed_ip(&mut self, of: &SyntaxNode) -> Option<TypedExpr> {
        let checked = self.check(of)?;
        self.spend(COST_MAKE);
        if let TypedExpr::Ip(_) = checked {
            return Some(checked);
        }
        let text = self.text(checked, &of.range, "ip")?;
        Some(TypedExpr::Ip(IpExpr::Parsed(Box::new(text))))
    }

    /// `domain(text)` and other functions that the scope has.
    pub(super) fn applied(&mut self, name: &str, of: &SyntaxNode, range: &Range<usize>) -> Option<TypedExpr> {
        let checked = self.check(of)?;
        self.spend(COST_APPLY);
        let text = self.text(checked, &of.range, name)?;
        match self.scope.text_function(name) {
            Some(function) => Some(TypedExpr::String(StrExpr::Applied(Box::new(text), function))),
            None => self.fail(range, format!("`{name}` is not known here"), "leave it out"),
        }
    }

    /// `text.lower()`.
    pub(super) fn lower(&mut self, of: TypedExpr, range: &Range<usize>) -> Option<TypedExpr> {
        self.spend(COST_MAKE);
        let text = self.text(of, range, "lower")?;
        Some(TypedExpr::String(StrExpr::Lower(Box::new(text))))
    }

    /// `text.split(',')`.
    pub(super) fn split(
        &mut self,
        of: TypedExpr,
        range: &Range<usize>,
        between: &SyntaxNode,
    ) -> Option<TypedExpr> {
        self.spend(COST_MAKE);
        let between = self.separator(between, "mail.subject.split(' ')");
        let text = self.text(of, range, "split")?;
        Some(TypedExpr::List(ListExpr::Split(Box::new((text, between?)))))
    }

    /// `list.join(',')`.
    pub(super) fn join(
        &mut self,
        of: TypedExpr,
        range: &Range<usize>,
        between: &SyntaxNode,
    ) -> Option<TypedExpr> {
        self.spend(COST_MAKE);
        let SyntaxKind::Text(between) = &between.kind else {
            let help = "write it out: `mail.links.join(' ')`";
            return self.fail(&between.range, "what stands between items is a text in quotes", help);
        };
        let between: Box<str> = between.as_str().into();
        match of {
            TypedExpr::List(list) => Some(TypedExpr::String(StrExpr::Items(Box::new(list), between))),
            other => {
                let message = format!("`join` takes a list, not {}", other.kind().article());
                self.fail(range, message, "texts are joined with `+`")
            }
        }
    }

    /// `text.substring(0, 4)`.
    pub(super) fn substring(
        &mut self,
        of: TypedExpr,
        range: &Range<usize>,
        start: &SyntaxNode,
        end: Option<&SyntaxNode>,
    ) -> Option<TypedExpr> {
        self.spend(COST_SEEK);
        let start = self.place(start);
        let end = match end {
            Some(end) => Some(self.place(end)?),
            None => None,
        };
        let text = self.text(of, range, "substring")?;
        Some(TypedExpr::String(StrExpr::Substring(Box::new((text, start?, end)))))
    }

    /// The number of a character, from 0.
    fn place(&mut self, node: &SyntaxNode) -> Option<IntExpr> {
        match self.check(node)? {
            TypedExpr::Integer(IntExpr::Const(place)) if place < 0 => self.fail(
                &node.range,
                "characters are counted from 0",
                "`size(...)` is the number of all of them",
            ),
            TypedExpr::Integer(place) => Some(place),
            other => {
                let message = format!("`substring` takes whole numbers, not {}", other.kind().article());
                self.fail(&node.range, message, "write it as in `mail.subject.substring(0, 4)`")
            }
        }
    }

    /// `list[0]`.
    pub(super) fn item(&mut self, list: &SyntaxNode, index: &SyntaxNode) -> Option<TypedExpr> {
        let (checked, place) = (self.check(list), self.check(index));
        self.spend(COST_SEEK);
        let list = match checked? {
            TypedExpr::List(list) => list,
            other => {
                let message = format!("{} has no items", other.kind().article());
                let help = "a text is cut with `split` or `substring`: `mail.subject.split(' ')[0]`";
                return self.fail(&list.range, message, help);
            }
        };
        match place? {
            TypedExpr::Integer(IntExpr::Const(place)) => {
                Some(TypedExpr::String(StrExpr::Item(Box::new(list), place)))
            }
            _ => {
                let help = "write it out: `mail.links[0]` is the first item, `mail.links[-1]` the last";
                self.fail(&index.range, "the place of an item is a whole number", help)
            }
        }
    }

    /// `regex.extract(text, pattern)` and `regex.replace(text, pattern, text)`, as CEL's extension for them calls them.
    pub(super) fn regex_function(&mut self, call: &CallNode, range: &Range<usize>) -> Option<TypedExpr> {
        let name = call.name.as_str();
        match (name, call.args.as_slice()) {
            ("extract", [of, pattern]) => {
                let checked = self.check(of);
                let regex = self.regex(pattern);
                let text = self.text(checked?, &of.range, name)?;
                Some(TypedExpr::String(StrExpr::Extracted(Box::new((text, regex?)))))
            }
            ("replace", [of, pattern, by]) => {
                self.spend(COST_MAKE);
                let checked = self.check(of);
                let regex = self.regex(pattern);
                let SyntaxKind::Text(by) = &by.kind else {
                    let help = "write it out, as in `regex.replace(mail.subject, '[0-9]+', '0')`";
                    return self.fail(&by.range, "what replaces is a text in quotes", help);
                };
                let by: Box<str> = by.as_str().into();
                let text = self.text(checked?, &of.range, name)?;
                Some(TypedExpr::String(StrExpr::Replaced(Box::new((text, regex?, by)))))
            }
            (_, args) => {
                let usage = if name == "extract" {
                    "regex.extract(mail.subject, r'order ([0-9]+)')"
                } else {
                    "regex.replace(mail.subject, '[0-9]+', '0')"
                };
                let message = format!("`regex.{name}` does not take {}", counted(args.len(), "argument"));
                self.fail(range, message, format!("write it as in `{usage}`"))
            }
        }
    }

    fn separator(&mut self, node: &SyntaxNode, usage: &str) -> Option<Box<str>> {
        match &node.kind {
            SyntaxKind::Text(text) if !text.is_empty() => Some(text.as_str().into()),
            SyntaxKind::Text(_) => {
                let help = format!("give the text between the parts, as in `{usage}`");
                self.fail(&node.range, "the separator is empty", help)
            }
            _ => {
                let help = format!("write it out: `{usage}`");
                self.fail(&node.range, "a separator is a text in quotes", help)
            }
        }
    }
}
