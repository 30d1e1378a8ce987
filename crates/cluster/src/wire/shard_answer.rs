//! Answers of shards: each is asked for something in one of its slots, as readings are.

use std::collections::BTreeMap;

use redis::cmd;

use super::routing::{CommandFailure, RoutedCommand};
use super::server_link::ConnectionClass;
use super::slot::slot_of;
use super::{WireClient, WireCore};
use crate::remote::Partition;

/// A shard, and its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardAnswer {
    /// The address of its master, as the cluster announces it.
    pub name: String,
    /// The reason why it does not answer.
    pub failure: Option<String>,
}

impl WireClient {
    /// Asks every shard, at the same time.
    pub async fn shard_answers(&self) -> Vec<ShardAnswer> {
        let inner = self.inner.clone();
        let asked = self.on_runtime(1, async move { vec![Ok(inner.shard_answers().await)] });
        let mut answers = asked.await;
        answers.pop().and_then(Result::ok).unwrap_or_default()
    }
}

impl WireCore {
    async fn shard_answers(&self) -> Vec<ShardAnswer> {
        let topology = self.topology();
        // A partition of each shard; slots that nobody has are one, too.
        let mut first = BTreeMap::<usize, Partition>::new();
        for partition in (0..self.settings.partitions.count()).map(Partition) {
            first.entry(topology.place(slot_of(partition, self.settings.partitions))).or_insert(partition);
        }
        let routed = |partition: &Partition| {
            let mut command = cmd("GET");
            command.arg(self.names.number(*partition));
            RoutedCommand { partition: *partition, command }
        };
        let routed_commands: Vec<RoutedCommand> = first.values().map(routed).collect();
        let answers = self.run(ConnectionClass::Reads, &routed_commands, self.node_deadline()).await;
        let named = first.values().zip(answers).map(|(partition, answer)| {
            let master = topology.master(slot_of(*partition, self.settings.partitions));
            let name =
                master.map_or_else(|| "slots without a server".to_owned(), |master| master.to_string());
            let failure = match answer {
                Ok(_) | Err(CommandFailure::Apart) => None,
                Err(CommandFailure::Failure(failure)) => Some(failure.to_string()),
            };
            ShardAnswer { name, failure }
        });
        named.collect()
    }
}
