//! The way in which servers keep cells: in hashes that scripts change, or in tables of the module `tollhouse`. Chosen once
//! for a cluster, by asking its servers, and said there: nodes never write the one beside the other.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use cells::command::TableCommand;
use futures_util::future::join_all;
use redis::{Value, cmd};
use tokio::time::Instant;

use super::routing::{CommandFailure, RoutedCommand};
use super::server_link::{ConnectionClass, ExchangeError};
use super::topology::ServerAddress;
use super::{
    APART_TRIES, ClusterOpenError, HEAD, REFRESH_WITHIN, WireCore, named, number, sighting, tables,
    unexpected,
};
use crate::remote::{Partition, PartitionImages, PartitionRead, RemoteCell, RemoteError};
use crate::wire::CellName;

/// The layout of keys, said in the cluster beside the number of partitions: cells in hashes, and in tables. Layout 2, of more
/// tables, is refused.
const LAYOUT_HASHES: &str = "1";
const LAYOUT_TABLES: &str = "3";
/// The version of requests that this node makes.
const VERSION: i64 = cells::request::VERSION as i64;

/// The answer of a server about the module.
enum ModuleStatus {
    Fits,
    /// The server takes requests of these versions, and not of this node's.
    Other(i64, i64),
    Lacks,
    Refused,
    /// The server does not answer: a replica may be away.
    Away,
}

impl WireCore {
    /// Returns true if servers keep cells in tables.
    pub(super) fn has_tables(&self) -> bool {
        self.has_tables.load(Ordering::Acquire)
    }

    /// Asks every server, replicas too, for the module.
    async fn survey(&self) -> Vec<(ServerAddress, ModuleStatus)> {
        let servers = self.topology().servers.clone();
        let deadline = Instant::now() + self.settings.connect_within.max(REFRESH_WITHIN);
        let ask = servers.into_iter().map(|server| async move {
            let version = vec![cmd(TableCommand::Version.name())];
            let answer = self.link(&server).exchange(ConnectionClass::Reads, version, deadline).await;
            let status = match answer.map(|mut values| values.pop()) {
                Ok(Some(Value::ServerError(error))) if error.code() == "NOPERM" => ModuleStatus::Refused,
                Ok(Some(value)) => match tables::versions(&value) {
                    Some((oldest, newest)) if (oldest..=newest).contains(&VERSION) => ModuleStatus::Fits,
                    Some((oldest, newest)) => ModuleStatus::Other(oldest, newest),
                    None => ModuleStatus::Lacks,
                },
                Ok(None) | Err(ExchangeError::Open(_) | ExchangeError::Lost(_)) => ModuleStatus::Away,
            };
            (server, status)
        });
        join_all(ask).await
    }

    /// Looks who lacks the module, and says it as people read it; `None` if nobody does.
    async fn lacking(&self) -> (Option<String>, bool) {
        let servers = self.survey().await;
        let has_some = servers.iter().any(|(_, status)| matches!(status, ModuleStatus::Fits));
        let said = servers.iter().filter_map(|(server, status)| match status {
            ModuleStatus::Fits | ModuleStatus::Away => None,
            ModuleStatus::Other(oldest, newest) => Some(format!(
                "{server} takes requests of version {oldest} to {newest}, and this node makes {VERSION}"
            )),
            ModuleStatus::Lacks => Some(format!("{server} has no such module")),
            ModuleStatus::Refused => Some(format!("{server} does not let this user run its commands")),
        });
        let said: Vec<String> = said.collect();
        ((!said.is_empty() || !has_some).then(|| said.join("; ")), has_some)
    }

    /// Says how keys are laid out and which secret they have, if nobody has, and checks that it is so.
    pub(super) async fn agree(&self) -> Result<(), ClusterOpenError> {
        let name = self.names.layout();
        let (lacking, has_some) = self.lacking().await;
        let mut get = cmd("GET");
        get.arg(&name);
        let wanted = match self.ask_first(get.clone()).await? {
            Value::BulkString(found) if found.starts_with(b"3 ") => LAYOUT_TABLES,
            Value::BulkString(_) => LAYOUT_HASHES,
            _ if lacking.is_none() => LAYOUT_TABLES,
            _ => LAYOUT_HASHES,
        };
        match lacking {
            Some(said) if wanted == LAYOUT_TABLES => return Err(ClusterOpenError::Module { said }),
            Some(said) if has_some => {
                tracing::warn!("the module `tollhouse` is not used, as not all servers have it: {said}");
            }
            None if wanted == LAYOUT_HASHES => {
                tracing::info!(
                    "the module `tollhouse` is not used: scripts keep the statistics of this prefix"
                );
            }
            _ => {}
        }
        let expected = format!("{wanted} {}", self.settings.partitions.count());
        let secret = self.settings.secret.map(|secret| format!("{:016x}", u64::from_be_bytes(secret)));
        let whole = secret.iter().fold(expected.clone(), |whole, secret| format!("{whole} {secret}"));
        let set = |condition: Option<&str>| {
            let mut set = cmd("SET");
            set.arg(&name).arg(&whole);
            condition.iter().for_each(|condition| {
                set.arg(*condition);
            });
            set
        };
        self.ask_first(set(Some("NX"))).await?;
        let Value::BulkString(found) = self.ask_first(get).await? else {
            return Err(ClusterOpenError::Unready("it has lost what was just written".into()));
        };
        let found = String::from_utf8_lossy(&found).into_owned();
        let prefix = self.settings.prefix.clone();
        let (layout, theirs) = match found.match_indices(' ').nth(1) {
            Some((at, _)) => (&found[..at], Some(&found[at + 1..])),
            None => (found.as_str(), None),
        };
        if layout != expected {
            return Err(ClusterOpenError::Layout { prefix, found: layout.to_owned(), expected });
        }
        self.has_tables.store(wanted == LAYOUT_TABLES, Ordering::Release);
        match (theirs, secret) {
            (Some(theirs), Some(secret)) if theirs != secret => Err(ClusterOpenError::Secret { prefix }),
            (None, Some(_)) => self.ask_first(set(None)).await.map(|_| ()),
            _ => Ok(()),
        }
    }

    pub(super) async fn read_tables(
        &self,
        asked: Vec<PartitionRead>,
        deadline: Instant,
    ) -> Vec<Result<PartitionImages, RemoteError>> {
        let (mut routed_commands, mut spans) =
            (Vec::with_capacity(asked.len()), Vec::with_capacity(asked.len()));
        for read in &asked {
            spans.push(self.tables.read(&self.names, read).map(|calls| {
                let partition = read.partition;
                let from = routed_commands.len();
                routed_commands.extend(calls.into_iter().map(|command| RoutedCommand { partition, command }));
                routed_commands.len() - from
            }));
        }
        let mut answers = self.run(ConnectionClass::Reads, &routed_commands, deadline).await.into_iter();
        let mut found = Vec::with_capacity(asked.len());
        for (read, span) in asked.iter().zip(spans) {
            let partition = read.partition;
            let parts = match span {
                Ok(count) => answers.by_ref().take(count).collect::<Result<Vec<_>, _>>(),
                Err(why) => Err(CommandFailure::Failure(unexpected(partition, why))),
            };
            found.push(match parts {
                Ok(values) => self.joined(read, &values),
                Err(CommandFailure::Apart) => self.read_tables_apart(read, deadline).await,
                Err(CommandFailure::Failure(failure)) => Err(failure),
            });
        }
        found
    }

    /// The images that the parts of a reading have together: all of them of one moment.
    fn joined(&self, read: &PartitionRead, values: &[Value]) -> Result<PartitionImages, RemoteError> {
        let wrong = |why| unexpected(read.partition, why);
        let mut all: Option<PartitionImages> = None;
        // A reading of places alone has no cells.
        let mut cells = read.cells.chunks(cells::request::PLACES_MAX);
        for value in values {
            let Value::Array(parts) = value else { return Err(wrong("no answer of the command that reads")) };
            let [first, writer, Value::BulkString(images), counted @ ..] = parts.as_slice() else {
                return Err(wrong("the command that reads answered too little"));
            };
            let (images, unsound) =
                tables::images(images, cells.next().unwrap_or_default()).map_err(wrong)?;
            let sightings = match counted {
                [] => Vec::new(),
                [Value::BulkString(text)] => sighting::decode(text, read.places.len()).map_err(wrong)?,
                _ => return Err(wrong("the command that reads answered too much")),
            };
            let number = number(first).ok_or_else(|| wrong("a number of a node is none"))?;
            let part = PartitionImages { number, writer: self.writer(writer), images, unsound, sightings };
            match &mut all {
                None => all = Some(part),
                Some(all) if (all.number, all.writer) == (part.number, part.writer) => {
                    let before = all.images.len();
                    all.unsound.extend(part.unsound.into_iter().map(|at| before + at));
                    all.images.extend(part.images);
                }
                Some(_) => {
                    return Err(RemoteError::Unreachable("it was written to while it was read".into()));
                }
            }
        }
        all.ok_or_else(|| wrong("nothing was read"))
    }

    /// Reads cells of a partition that is being moved, table by table.
    async fn read_tables_apart(
        &self,
        read: &PartitionRead,
        deadline: Instant,
    ) -> Result<PartitionImages, RemoteError> {
        let partition = read.partition;
        let wrong = |why| unexpected(partition, why);
        let head = [self.names.number(partition), self.names.writer(partition)].map(|name| {
            let mut command = cmd("GET");
            command.arg(name);
            RoutedCommand { partition, command }
        });
        let calls = self.tables.read_table(&self.names, partition, &read.cells).map_err(wrong)?;
        let (places, routed_commands): (Vec<_>, Vec<_>) =
            calls.into_iter().map(|(places, command)| (places, RoutedCommand { partition, command })).unzip();
        let whole = |answers: Vec<Result<Value, CommandFailure>>| -> Result<Vec<Value>, RemoteError> {
            answers.into_iter().map(|answer| answer.map_err(|failure| named(failure, partition))).collect()
        };
        for _ in 0..APART_TRIES {
            let before = whole(self.run(ConnectionClass::Reads, &head, deadline).await)?;
            let found = whole(self.run(ConnectionClass::Reads, &routed_commands, deadline).await)?;
            let after = whole(self.run(ConnectionClass::Reads, &head, deadline).await)?;
            if before != after || before.len() != HEAD {
                continue;
            }
            let (mut images, mut unsound) = (vec![None; read.cells.len()], Vec::new());
            for (places, value) in places.iter().zip(found) {
                let Value::BulkString(answer) = value else {
                    return Err(wrong("no answer of the command that reads"));
                };
                let cells: Vec<RemoteCell> = places.iter().map(|at| read.cells[*at].clone()).collect();
                let (part, wrong_ones) = tables::images(&answer, &cells).map_err(wrong)?;
                places.iter().zip(part).for_each(|(at, image)| images[*at] = image);
                unsound.extend(wrong_ones.into_iter().filter_map(|at| places.get(at)));
            }
            unsound.sort_unstable();
            let number = number(&before[0]).ok_or_else(|| wrong("a number of a node is none"))?;
            return Ok(PartitionImages {
                number,
                writer: self.writer(&before[1]),
                images,
                unsound,
                sightings: Vec::new(),
            });
        }
        Err(RemoteError::Moving(partition))
    }

    /// Removes cells; each has the answer of its partition.
    pub(super) async fn remove_from_tables(
        &self,
        cells: &[(Partition, CellName)],
        deadline: Instant,
    ) -> Vec<Result<(), RemoteError>> {
        let mut parts = BTreeMap::<Partition, Vec<CellName>>::new();
        cells.iter().for_each(|(partition, name)| parts.entry(*partition).or_default().push(*name));
        let routed_commands: Vec<RoutedCommand> = parts
            .iter()
            .flat_map(|(partition, names)| {
                names.chunks(cells::request::PLACES_MAX).map(|names| RoutedCommand {
                    partition: *partition,
                    command: self.tables.remove(&self.names, *partition, names),
                })
            })
            .collect();
        let mut answers = BTreeMap::<Partition, Result<(), RemoteError>>::new();
        for (routed, answer) in
            routed_commands.iter().zip(self.run(ConnectionClass::Writes, &routed_commands, deadline).await)
        {
            let partition = routed.partition;
            let removed = match answer {
                Ok(Value::Int(_)) => Ok(()),
                Ok(Value::Nil) => Err(self.unconfirmed()),
                Ok(_) => Err(unexpected(partition, "no answer of the command that removes")),
                Err(failure) => Err(named(failure, partition)),
            };
            let all = answers.entry(partition).or_insert(Ok(()));
            if all.is_ok() {
                *all = removed;
            }
        }
        let lost = || Err(RemoteError::Unreachable("it was not answered".into()));
        cells.iter().map(|(partition, _)| answers.get(partition).cloned().unwrap_or_else(lost)).collect()
    }

    /// Removes what has expired from tables of a partition; answers how many cells were looked at and removed, and of each
    /// table whether its end was reached.
    pub(super) async fn sweep_tables(
        &self,
        partition: Partition,
        tables: &[u8],
        (horizon, steps): (event::Time, u64),
        deadline: Instant,
    ) -> Result<(u64, u64, Vec<bool>), RemoteError> {
        let routed = |table: &u8| {
            let command = tables::sweep(&self.names, partition, *table, horizon, steps);
            RoutedCommand { partition, command }
        };
        let routed_commands: Vec<RoutedCommand> = tables.iter().map(routed).collect();
        let (mut looked, mut removed, mut ended) = (0, 0, Vec::with_capacity(tables.len()));
        for answer in self.run(ConnectionClass::Writes, &routed_commands, deadline).await {
            let value = answer.map_err(|failure| named(failure, partition))?;
            let parts = match &value {
                Value::Array(parts) => parts.as_slice(),
                Value::Nil => return Err(self.unconfirmed()),
                _ => &[],
            };
            let [Value::Int(more), Value::Int(gone), Value::Int(is_over)] = parts else {
                return Err(unexpected(partition, "no answer of the command that sweeps"));
            };
            looked += more.unsigned_abs();
            removed += gone.unsigned_abs();
            ended.push(*is_over != 0);
        }
        Ok((looked, removed, ended))
    }

    /// Names cells of tables of a partition, each from a place on; answers the tables that have more, with where they go on.
    pub(super) async fn scan_tables(
        &self,
        partition: Partition,
        from: &[(u8, Vec<u8>)],
        count: usize,
        deadline: Instant,
    ) -> Result<(Vec<(u8, Vec<u8>)>, Vec<CellName>), RemoteError> {
        let routed = |(table, from): &(u8, Vec<u8>)| {
            let command = tables::scan(&self.names, partition, *table, from, count);
            RoutedCommand { partition, command }
        };
        let routed_commands: Vec<RoutedCommand> = from.iter().map(routed).collect();
        let answers = self.run(ConnectionClass::Reads, &routed_commands, deadline).await;
        let (mut more, mut all) = (Vec::new(), Vec::new());
        for ((table, _), answer) in from.iter().zip(answers) {
            let value = answer.map_err(|failure| named(failure, partition))?;
            let (next, names) = tables::names_of(&value).map_err(|why| unexpected(partition, why))?;
            all.extend(names);
            if !next.is_empty() {
                more.push((*table, next));
            }
        }
        Ok((more, all))
    }
}

/// All tables of a partition, from their beginnings.
pub(super) fn all_tables() -> Vec<(u8, Vec<u8>)> {
    (0..tables::TABLES).map(|table| (table, Vec::new())).collect()
}
