//! Commands on their way to the servers that have their slots: grouped by server, one round trip each, redirected where
//! slots have moved.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures_util::future::join_all;
use redis::{Cmd, ServerError, Value, cmd};
use tokio::time::Instant;

use super::WireCore;
use super::counters::WireCounters;
use super::server_link::{ConnectionClass, ExchangeError};
use super::slot::slot_of;
use super::topology::ServerAddress;
use crate::remote::{Partition, RemoteError};

/// Round trips of a call at most: more would mean that servers send it round in circles.
const ATTEMPTS_MAX: usize = 8;

/// A command for a partition.
#[derive(Debug)]
pub(super) struct RoutedCommand {
    pub(super) partition: Partition,
    pub(super) command: Cmd,
}

/// Reasons for a command without an answer.
#[derive(Clone, Debug)]
pub(super) enum CommandFailure {
    /// The slot is on its way, and the routed command's keys lie apart. Nothing was done.
    Apart,
    /// Any other failure.
    Failure(RemoteError),
}

/// The next destination of a command.
#[derive(Clone, Debug)]
enum CommandRoute {
    /// To who has the slot.
    Home,
    /// To a server that was named.
    To(ServerAddress),
    /// To the server that takes the slot over.
    Asking(ServerAddress),
}

/// The meaning of an error that a server answered.
enum ErrorMeaning {
    Route(CommandRoute, Option<u16>),
    Unknown,
    Failure(CommandFailure, bool),
}

impl WireCore {
    /// Runs routed commands, and answers each, in order. With replicas to wait for, what fewer have confirmed counts as not
    /// answered.
    pub(super) async fn run(
        &self,
        line: ConnectionClass,
        routed_commands: &[RoutedCommand],
        deadline: Instant,
    ) -> Vec<Result<Value, CommandFailure>> {
        let mut answers: Vec<Option<Result<Value, CommandFailure>>> =
            routed_commands.iter().map(|_| None).collect();
        let mut pending: Vec<(usize, CommandRoute)> =
            (0..routed_commands.len()).map(|at| (at, CommandRoute::Home)).collect();
        // Servers that do not know the scripts yet.
        let mut ignorant = BTreeSet::<ServerAddress>::new();
        for _ in 0..ATTEMPTS_MAX {
            if pending.is_empty() {
                break;
            }
            let mut groups = BTreeMap::<ServerAddress, Vec<(usize, bool)>>::new();
            let topology = self.topology();
            for (at, way) in pending.drain(..) {
                let partition = routed_commands[at].partition;
                let (address, is_asking) = match way {
                    CommandRoute::To(address) => (address, false),
                    CommandRoute::Asking(address) => (address, true),
                    CommandRoute::Home => {
                        let slot = slot_of(partition, self.settings.partitions);
                        match topology.master(slot) {
                            Some(master) => (ServerAddress::clone(master), false),
                            None => {
                                self.please_refresh();
                                let why = format!("no server is known to have slot {slot}");
                                answers[at] = Some(Err(unreachable(why.into())));
                                continue;
                            }
                        }
                    }
                };
                groups.entry(address).or_default().push((at, is_asking));
            }
            let replicas = if line == ConnectionClass::Reads { 0 } else { self.settings.replicas };
            let sent = groups.into_iter().map(|(address, group)| {
                let is_ignorant = ignorant.remove(&address);
                self.send(line, address, group, routed_commands, (is_ignorant, replicas), deadline)
            });
            let mut found = Vec::new();
            for (address, group, values) in join_all(sent).await {
                let values = match values {
                    Ok(values) => values,
                    Err(silence) => {
                        self.please_refresh();
                        for (at, _) in group {
                            let failure = match &silence {
                                ExchangeError::Open(_) => {
                                    CommandFailure::Failure(RemoteError::Open(routed_commands[at].partition))
                                }
                                ExchangeError::Lost(lost) => unreachable(lost.why.clone()),
                            };
                            answers[at] = Some(Err(failure));
                        }
                        continue;
                    }
                };
                for ((at, is_asking), value) in group.into_iter().zip(values) {
                    let partition = routed_commands[at].partition;
                    let Value::ServerError(error) = value else {
                        answers[at] = Some(Ok(value));
                        continue;
                    };
                    match self.meaning(&error, partition, &address) {
                        ErrorMeaning::Route(way, slot) => {
                            if let (CommandRoute::To(address), Some(slot)) = (&way, slot) {
                                found.push((slot, address.clone()));
                            }
                            pending.push((at, way));
                        }
                        ErrorMeaning::Unknown => {
                            ignorant.insert(address.clone());
                            let again = address.clone();
                            pending.push((
                                at,
                                if is_asking { CommandRoute::Asking(again) } else { CommandRoute::To(again) },
                            ));
                        }
                        ErrorMeaning::Failure(failure, is_elsewhere) => {
                            if is_elsewhere {
                                self.please_refresh();
                            }
                            answers[at] = Some(Err(failure));
                        }
                    }
                }
            }
            self.learn(found);
        }
        let lost = || Err(unreachable("it was sent from server to server".into()));
        answers.into_iter().map(|answer| answer.unwrap_or_else(lost)).collect()
    }

    /// Sends a group to its server; answers the values of its routed commands.
    async fn send(
        &self,
        line: ConnectionClass,
        address: ServerAddress,
        group: Vec<(usize, bool)>,
        routed_commands: &[RoutedCommand],
        (is_ignorant, replicas): (bool, u8),
        deadline: Instant,
    ) -> (ServerAddress, Vec<(usize, bool)>, Result<Vec<Value>, ExchangeError>) {
        let mut commands = Vec::with_capacity(group.len() + 1);
        let mut places = Vec::with_capacity(group.len());
        if is_ignorant {
            for script in self.scripts.all() {
                let mut load = cmd("SCRIPT");
                load.arg("LOAD").arg(script.text);
                commands.push(load);
            }
            WireCounters::add(&self.counters.loaded, 1);
        }
        for (at, is_asking) in &group {
            if *is_asking {
                commands.push(cmd("ASKING"));
            }
            places.push(commands.len());
            commands.push(routed_commands[*at].command.clone());
        }
        if replicas > 0 {
            // It must come back before the deadline does.
            let left = deadline.saturating_duration_since(Instant::now());
            let mut wait = cmd("WAIT");
            wait.arg(replicas).arg((left.as_millis() as u64 * 4 / 5).max(1));
            commands.push(wait);
        }
        let link = self.link(&address);
        let values = link.exchange(line, commands, deadline).await.map(|mut values| {
            let confirmed = values.last().and_then(|last| match last {
                Value::Int(confirmed) => Some(*confirmed),
                _ => None,
            });
            let mut values: Vec<Value> =
                places.iter().map(|place| std::mem::take(&mut values[*place])).collect();
            if replicas > 0 && confirmed.is_none_or(|confirmed| confirmed < i64::from(replicas)) {
                let made = values.iter_mut().filter(|value| !matches!(value, Value::ServerError(_)));
                let unconfirmed = made.map(|value| *value = Value::Nil).count();
                WireCounters::add(&self.counters.unconfirmed, unconfirmed as u64);
            }
            values
        });
        (address, group, values)
    }

    fn meaning(&self, error: &ServerError, partition: Partition, asked: &ServerAddress) -> ErrorMeaning {
        let details = error.details().unwrap_or("");
        let text: Arc<str> = format!("{asked}: {} {details}", error.code()).into();
        let failed = |failure| ErrorMeaning::Failure(CommandFailure::Failure(failure), false);
        match error.code() {
            code @ ("MOVED" | "ASK") => {
                let Some((slot, address)) = redirection(details, asked) else {
                    return failed(RemoteError::Unexpected(text));
                };
                if code == "ASK" {
                    WireCounters::add(&self.counters.asked, 1);
                    ErrorMeaning::Route(CommandRoute::Asking(address), None)
                } else {
                    WireCounters::add(&self.counters.moved, 1);
                    ErrorMeaning::Route(CommandRoute::To(address), Some(slot))
                }
            }
            "NOSCRIPT" => ErrorMeaning::Unknown,
            "TRYAGAIN" => {
                WireCounters::add(&self.counters.apart, 1);
                ErrorMeaning::Failure(CommandFailure::Apart, false)
            }
            "OOM" | "MISCONF" => failed(RemoteError::Full(text)),
            "CLUSTERDOWN" | "LOADING" | "MASTERDOWN" | "READONLY" => {
                ErrorMeaning::Failure(unreachable(text), true)
            }
            "BUSY" | "NOREPLICAS" | "UNBLOCKED" => ErrorMeaning::Failure(unreachable(text), false),
            _ => {
                tracing::warn!(partition = partition.0, "unexpected answer of the cluster: {text}");
                failed(RemoteError::Unexpected(text))
            }
        }
    }
}

pub(super) fn unreachable(why: Arc<str>) -> CommandFailure {
    CommandFailure::Failure(RemoteError::Unreachable(why))
}

/// The destination of `3999 127.0.0.1:6381`.
fn redirection(details: &str, asked: &ServerAddress) -> Option<(u16, ServerAddress)> {
    let (slot, address) = details.split_once(' ')?;
    let slot = slot.parse().ok()?;
    let address = address.trim();
    let address = match address.strip_prefix(':').filter(|port| !port.contains(':')) {
        Some(port) => ServerAddress { host: asked.host.clone(), port: port.parse().ok()? },
        None => ServerAddress::parse(address)?,
    };
    Some((slot, address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirections_are_read() {
        let asked = ServerAddress { host: "a".into(), port: 1 };
        let read = |text| redirection(text, &asked).map(|(slot, address)| (slot, address.to_string()));
        assert_eq!(read("3999 127.0.0.1:6381"), Some((3999, "127.0.0.1:6381".to_owned())));
        assert_eq!(read("1 :6381"), Some((1, "a:6381".to_owned())));
        assert_eq!(read("1 ::1:6381"), Some((1, "[::1]:6381".to_owned())));
        for wrong in ["", "1", "x a:1", "1 a", "1 a:99999", "70000 a:1"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
