//! The registry of numbers that all nodes share: one hash for all names, beside the layout.
//!
//! A field is a space and a number, such as `1 3`, and its value says what has it, such as `kind from`. Fields are only ever
//! added, by a script, and only if there are as many as when the registry was read: of two nodes that meet a new name
//! at the same time one finds the number that the other has given.

use event::{Kind, Space};
use redis::{Value, cmd};
use stats::{NumberRegistry, RegisteredName};
use tokio::time::Instant;

use super::generation::AT;
use super::server_link::ConnectionClass;
use super::{WireClient, WireCore, only, script, unexpected};
use crate::remote::RemoteError;

/// Attempts to be the only one that adds names. Nodes are hardly ever so many that meet new names at the same time.
const ATTEMPTS_MAX: usize = 100;

impl WireClient {
    /// Gives each of these names that has none in the cluster a number there, for good: what is `known` from before the one
    /// that it had, if it is free. Returns all names that have one.
    ///
    /// # Errors
    /// [`RemoteError`] if the cluster cannot be asked, or its registry is none.
    pub async fn allot_numbers(
        &self,
        known: &NumberRegistry,
        wanted: &NumberRegistry,
    ) -> Result<NumberRegistry, RemoteError> {
        let (inner, known, wanted) = (self.inner.clone(), known.clone(), wanted.clone());
        let one = self.on_runtime(1, async move { vec![inner.allot_numbers(&known, &wanted).await] });
        only(one.await)
    }
}

impl WireCore {
    async fn allot_numbers(
        &self,
        known: &NumberRegistry,
        wanted: &NumberRegistry,
    ) -> Result<NumberRegistry, RemoteError> {
        for _ in 0..ATTEMPTS_MAX {
            let there = self.numbers_there().await?;
            let mut all = there.restored(known);
            for (_, name) in wanted.iter().filter(|(_, name)| known.number(name).is_none()) {
                all.allot(name.clone()).map_err(|error| unexpected(AT, &error.to_string()))?;
            }
            let is_new = |(number, name): &(Kind, &RegisteredName)| there.name(name.space, *number).is_none();
            let mut lines = there.iter().count().to_string();
            for (Kind(number), RegisteredName { space: Space(space), section, name }) in
                all.iter().filter(is_new)
            {
                lines += &format!("\n{space} {number}\n{} {name}", section.name());
            }
            if !lines.contains('\n') {
                return Ok(all);
            }
            let command = script(&self.scripts.allot, vec![self.names.numbers()], Some(lines.into_bytes()));
            match self.one(ConnectionClass::Writes, command, self.number_deadline()).await? {
                Value::Int(1) => return Ok(all),
                Value::Int(0) => {}
                Value::Nil => return Err(self.unconfirmed()),
                _ => return Err(unexpected(AT, "no answer of the script that allots numbers")),
            }
        }
        Err(RemoteError::Unreachable("other nodes give names numbers all the time".into()))
    }

    async fn numbers_there(&self) -> Result<NumberRegistry, RemoteError> {
        let mut all = cmd("HGETALL");
        all.arg(self.names.numbers());
        let Value::Array(flat) = self.one(ConnectionClass::Reads, all, self.number_deadline()).await? else {
            return Err(unexpected(AT, "no answer of which names have numbers"));
        };
        registry(&flat).ok_or_else(|| unexpected(AT, "the registry of numbers is damaged"))
    }

    fn number_deadline(&self) -> Instant {
        Instant::now() + self.settings.connect_within.max(super::REFRESH_WITHIN)
    }
}

/// The registry that fields and values are.
fn registry(flat: &[Value]) -> Option<NumberRegistry> {
    let text = |value: &Value| match value {
        Value::BulkString(text) => String::from_utf8(text.clone()).ok(),
        _ => None,
    };
    let mut registry = NumberRegistry::default();
    for pair in flat.chunks(2) {
        let [field, value] = pair else { return None };
        let (field, value) = (text(field)?, text(value)?);
        let ((space, number), (section, name)) = (field.split_once(' ')?, value.split_once(' ')?);
        registry.add_line(&format!("{space} {section} {number} {name}")).ok()?;
    }
    Some(registry)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_registry_is_refused() {
        let of = |texts: &[&str]| {
            let flat: Vec<Value> =
                texts.iter().map(|text| Value::BulkString(text.as_bytes().to_vec())).collect();
            registry(&flat).map(|registry| registry.to_string())
        };
        let sound = of(&["1 2", "label odd", "1 1", "kind from"]);
        assert_eq!(sound.as_deref(), Some("1 kind 1 from\n1 label 2 odd\n"));
        assert_eq!(of(&[]).as_deref(), Some(""));
        for bad in
            [&["1 1"][..], &["11", "kind from"], &["1 1", "from"], &["1 1", "kind from", "1 2", "kind from"]]
        {
            assert_eq!(of(bad), None, "{bad:?}");
        }
    }
}
