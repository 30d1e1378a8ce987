//! Tables.

use std::sync::Arc;

use super::membership::held;
use super::*;
use crate::expr::LookupKey;
use crate::lookup::LookupTable;
use crate::set::SetType;

impl Checker<'_> {
    /// `lookup('table', key)`.
    pub(super) fn lookup(&mut self, table: &SyntaxNode, of: &SyntaxNode) -> Option<TypedExpr> {
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
        let key = self.lookup_key(of, name, &found)?;
        Some(TypedExpr::String(StrExpr::LookedUp(Box::new(key), found)))
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
