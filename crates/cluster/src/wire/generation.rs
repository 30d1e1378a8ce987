//! The generation of cells that others than nodes change: one hash for all partitions, beside the layout.
//!
//! A field is the decimal number of a partition, or `n` for the last change of any; a value is a number drawn at random for
//! that change. All fields of a change are set by one command, so it can be sent twice, and a node that finds `n` as it
//! was needs nothing else.

use std::collections::HashMap;

use redis::{Cmd, Value, cmd};
use tokio::time::Instant;

use super::routing::RoutedCommand;
use super::server_link::ConnectionClass;
use super::{WireCore, named, unexpected};
use crate::remote::{Partition, PartitionGenerations, RemoteError};

/// The field of the last change of any partition.
const LATEST: &str = "n";
/// The partition of the hash.
pub(super) const AT: Partition = Partition(0);

impl WireCore {
    pub(super) async fn generations(
        &self,
        known: u64,
        deadline: Instant,
    ) -> Result<Option<PartitionGenerations>, RemoteError> {
        let mut latest = cmd("HGET");
        latest.arg(self.names.changed()).arg(LATEST);
        let latest = match self.one(ConnectionClass::Reads, latest, deadline).await? {
            Value::Nil => 0,
            value => number(&value).ok_or_else(|| unexpected(AT, "the number of a change is none"))?,
        };
        if latest == known {
            return Ok(None);
        }
        let mut all = cmd("HGETALL");
        all.arg(self.names.changed());
        let Value::Array(flat) = self.one(ConnectionClass::Reads, all, deadline).await? else {
            return Err(unexpected(AT, "no answer of which partitions were changed"));
        };
        Ok(Some(PartitionGenerations { latest, partitions: partitions(&flat) }))
    }

    pub(super) async fn renew(&self, partitions: &[Partition], deadline: Instant) -> Result<(), RemoteError> {
        let drawn = getrandom::u64().map_err(|error| unexpected(AT, &error.to_string()))?.max(1);
        let mut set = cmd("HSET");
        set.arg(self.names.changed()).arg(LATEST).arg(drawn);
        partitions.iter().for_each(|partition| {
            set.arg(partition.0).arg(drawn);
        });
        match self.one(ConnectionClass::Writes, set, deadline).await? {
            Value::Int(_) => Ok(()),
            Value::Nil => Err(self.unconfirmed()),
            _ => Err(unexpected(AT, "no answer to HSET")),
        }
    }

    pub(super) async fn one(
        &self,
        line: ConnectionClass,
        command: Cmd,
        deadline: Instant,
    ) -> Result<Value, RemoteError> {
        let answer = self.run(line, &[RoutedCommand { partition: AT, command }], deadline).await.pop();
        let none = || Err(RemoteError::Unreachable("it was not answered".into()));
        answer.map_or_else(none, |answer| answer.map_err(|failure| named(failure, AT)))
    }
}

/// Fields and values; what is neither is left out.
fn partitions(flat: &[Value]) -> HashMap<Partition, u64> {
    let pair = |pair: &[Value]| {
        let [field, value] = pair else { return None };
        Some((Partition(u16::try_from(number(field)?).ok()?), number(value)?))
    };
    flat.chunks(2).filter_map(pair).collect()
}

fn number(value: &Value) -> Option<u64> {
    match value {
        Value::BulkString(text) => std::str::from_utf8(text).ok()?.parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_partition_is_left_out() {
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let flat = ["n", "7", "3", "7", "70000", "1", "4", "x", "5"]
            .map(text)
            .into_iter()
            .chain([Value::Nil, Value::Nil]);
        let found = partitions(&flat.collect::<Vec<_>>());
        assert_eq!(found, HashMap::from([(Partition(3), 7)]));
    }
}
