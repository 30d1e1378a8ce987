//! Tables.

use std::sync::Arc;

use super::membership::held;
use super::*;
use crate::expr::LookupKey;
use crate::lookup::LookupTable;
use crate::network_database::RecordPath;
use crate::set::SetType;

impl Checker<'_> {
    /// `lookup('table', key)`, and `lookup('database', ip, 'country.iso_code')`.
    pub(super) fn lookup(
        &mut self,
        table: &SyntaxNode,
        of: &SyntaxNode,
        path: Option<&SyntaxNode>,
    ) -> Option<TypedExpr> {
        let SyntaxKind::Text(name) = &table.kind else {
            let help = "write it out: `lookup('table', mail.from)`";
            return self.fail(&table.range, "a table is named in quotes", help);
        };
        let Some(found) = self.context.library.table(name) else {
            let help = did_you_mean(name, self.context.library.tables.keys().cloned());
            let help = help.unwrap_or_else(|| "define it with [[table]]".to_owned());
            return self.fail(&table.range, format!("there is no table `{name}`"), help);
        };
        let found = Arc::clone(found);
        let key = self.lookup_key(of, name, &found);
        match (path, found.is_database()) {
            (None, false) => Some(TypedExpr::String(StrExpr::LookedUp(Box::new(key?), found))),
            (Some(path), true) => {
                let path = self.record_path(path, name, &found)?;
                let LookupKey::Ip(ip) = key? else { return None };
                Some(TypedExpr::String(StrExpr::OfRecord(Box::new((ip, path)), found)))
            }
            (None, true) => {
                let paths = found.record_paths();
                let first = paths.first().map_or("country.iso_code", String::as_str);
                let mut help = format!("name one by its path: `lookup('{name}', client.ip, '{first}')`");
                if !paths.is_empty() {
                    help += &format!("; it has {}", listed(&paths));
                }
                self.fail(&of.range, format!("a record of `{name}` has many values"), help)
            }
            (Some(path), false) => {
                let help = format!("write `lookup('{name}', ...)` without it");
                self.fail(&path.range, format!("an entry of the table `{name}` has one value"), help)
            }
        }
    }

    /// The path of a value in the records of a network database.
    fn record_path(&mut self, node: &SyntaxNode, name: &str, table: &LookupTable) -> Option<RecordPath> {
        let SyntaxKind::Text(text) = &node.kind else {
            let help = format!("write it out: `lookup('{name}', client.ip, 'country.iso_code')`");
            return self.fail(&node.range, "the path of a value is a text in quotes", help);
        };
        let Some(path) = RecordPath::parse(text) else {
            let most = RecordPath::STEPS_MAX;
            let help = format!("it has 1 to {most} names with dots between them, as in `country.iso_code`");
            return self.fail(&node.range, format!("`{text}` is no path"), help);
        };
        if !table.is_empty() && !table.has_path(&path) {
            let message = format!("no record of `{name}` that was looked at has a value `{text}`");
            let paths = table.record_paths();
            let help = did_you_mean(text, &paths).unwrap_or_else(|| match paths.is_empty() {
                true => "a path leads to a text, a number or a truth".to_owned(),
                false => format!("it has {}", listed(&paths)),
            });
            self.report(Diagnostic::new(message, node.range.clone()).help(help).warning());
        }
        Some(path)
    }

    /// A value of the type that the keys of a table have.
    pub(super) fn lookup_key(
        &mut self,
        of: &SyntaxNode,
        name: &str,
        table: &LookupTable,
    ) -> Option<LookupKey> {
        let checked = self.check(of)?;
        self.spend(COST_LOOKUP);
        let kind = checked.kind();
        match (checked, table.kind()) {
            (TypedExpr::Ip(ip), SetType::Ip) => Some(LookupKey::Ip(ip)),
            (TypedExpr::String(text), SetType::String | SetType::Domain) => Some(LookupKey::Str(text)),
            (TypedExpr::Integer(integer), SetType::String) => {
                Some(LookupKey::Str(StrExpr::Printed(Box::new(ValueExpr::Integer(integer)))))
            }
            (_, holds) => {
                let message =
                    format!("the keys of the table `{name}` are {}, this is {}", held(holds), kind.article());
                let help = match (kind, holds) {
                    (OperandType::String, SetType::Ip) => "`ip(...)` reads an address",
                    (OperandType::Ip, _) => "`string(...)` prints an address",
                    _ => "seek one value of their type",
                };
                self.fail(&of.range, message, help)
            }
        }
    }
}
