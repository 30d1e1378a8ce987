//! Commands on their way to the servers that have their slots: grouped by server, one round trip each, redirected where
//! slots have moved.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures_util::future::join_all;
use redis::{Cmd, ServerError, Value, cmd};
use tokio::time::Instant;

use super::Inner;
use super::counters::Counters;
use super::link::{Line, Silence};
use super::slot::slot_of;
use super::topology::Address;
use crate::remote::{Failure, Partition};

/// Round trips of a call at most: more would mean that servers send it round in circles.
const ROUNDS_MAX: usize = 8;

/// A command for a partition.
#[derive(Debug)]
pub(super) struct Errand {
    pub(super) partition: Partition,
    pub(super) command: Cmd,
}

/// Why an errand has no answer.
#[derive(Clone, Debug)]
pub(super) enum Trouble {
    /// The slot is on its way, and the errand's keys lie apart. Nothing was done.
    Apart,
    /// Anything else.
    Failure(Failure),
}

/// Where an errand goes next.
#[derive(Clone, Debug)]
enum Way {
    /// To who has the slot.
    Home,
    /// To a server that was named.
    To(Address),
    /// To the server that takes the slot over.
    Asking(Address),
}

/// What an error that a server answered means.
enum Meaning {
    Way(Way, Option<u16>),
    Unknown,
    Trouble(Trouble, bool),
}

impl Inner {
    /// Runs errands, and answers each, in order. With replicas to wait for, what fewer have confirmed counts as not
    /// answered.
    pub(super) async fn run(
        &self,
        line: Line,
        errands: &[Errand],
        deadline: Instant,
    ) -> Vec<Result<Value, Trouble>> {
        let mut answers: Vec<Option<Result<Value, Trouble>>> = errands.iter().map(|_| None).collect();
        let mut pending: Vec<(usize, Way)> = (0..errands.len()).map(|at| (at, Way::Home)).collect();
        // Servers that do not know the scripts yet.
        let mut ignorant = BTreeSet::<Address>::new();
        for _ in 0..ROUNDS_MAX {
            if pending.is_empty() {
                break;
            }
            let mut groups = BTreeMap::<Address, Vec<(usize, bool)>>::new();
            let topology = self.topology();
            for (at, way) in pending.drain(..) {
                let partition = errands[at].partition;
                let (address, is_asking) = match way {
                    Way::To(address) => (address, false),
                    Way::Asking(address) => (address, true),
                    Way::Home => {
                        let slot = slot_of(partition, self.settings.partitions);
                        match topology.master(slot) {
                            Some(master) => (Address::clone(master), false),
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
            let replicas = if line == Line::Reads { 0 } else { self.settings.replicas };
            let sent = groups.into_iter().map(|(address, group)| {
                let is_ignorant = ignorant.remove(&address);
                self.send(line, address, group, errands, (is_ignorant, replicas), deadline)
            });
            let mut found = Vec::new();
            for (address, group, values) in join_all(sent).await {
                let values = match values {
                    Ok(values) => values,
                    Err(silence) => {
                        self.please_refresh();
                        for (at, _) in group {
                            let trouble = match &silence {
                                Silence::Open(_) => Trouble::Failure(Failure::Open(errands[at].partition)),
                                Silence::Lost(lost) => unreachable(lost.why.clone()),
                            };
                            answers[at] = Some(Err(trouble));
                        }
                        continue;
                    }
                };
                for ((at, is_asking), value) in group.into_iter().zip(values) {
                    let partition = errands[at].partition;
                    let Value::ServerError(error) = value else {
                        answers[at] = Some(Ok(value));
                        continue;
                    };
                    match self.meaning(&error, partition, &address) {
                        Meaning::Way(way, slot) => {
                            if let (Way::To(address), Some(slot)) = (&way, slot) {
                                found.push((slot, address.clone()));
                            }
                            pending.push((at, way));
                        }
                        Meaning::Unknown => {
                            ignorant.insert(address.clone());
                            let again = address.clone();
                            pending.push((at, if is_asking { Way::Asking(again) } else { Way::To(again) }));
                        }
                        Meaning::Trouble(trouble, is_elsewhere) => {
                            if is_elsewhere {
                                self.please_refresh();
                            }
                            answers[at] = Some(Err(trouble));
                        }
                    }
                }
            }
            self.learn(found);
        }
        let lost = || Err(unreachable("it was sent from server to server".into()));
        answers.into_iter().map(|answer| answer.unwrap_or_else(lost)).collect()
    }

    /// Sends a group to its server; answers the values of its errands.
    async fn send(
        &self,
        line: Line,
        address: Address,
        group: Vec<(usize, bool)>,
        errands: &[Errand],
        (is_ignorant, replicas): (bool, u8),
        deadline: Instant,
    ) -> (Address, Vec<(usize, bool)>, Result<Vec<Value>, Silence>) {
        let mut commands = Vec::with_capacity(group.len() + 1);
        let mut places = Vec::with_capacity(group.len());
        if is_ignorant {
            for script in self.scripts.all() {
                let mut load = cmd("SCRIPT");
                load.arg("LOAD").arg(script.text);
                commands.push(load);
            }
            Counters::add(&self.counters.loaded, 1);
        }
        for (at, is_asking) in &group {
            if *is_asking {
                commands.push(cmd("ASKING"));
            }
            places.push(commands.len());
            commands.push(errands[*at].command.clone());
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
                Counters::add(&self.counters.unconfirmed, unconfirmed as u64);
            }
            values
        });
        (address, group, values)
    }

    fn meaning(&self, error: &ServerError, partition: Partition, asked: &Address) -> Meaning {
        let details = error.details().unwrap_or("");
        let text: Arc<str> = format!("{asked}: {} {details}", error.code()).into();
        let failed = |failure| Meaning::Trouble(Trouble::Failure(failure), false);
        match error.code() {
            code @ ("MOVED" | "ASK") => {
                let Some((slot, address)) = redirection(details, asked) else {
                    return failed(Failure::Unexpected(text));
                };
                if code == "ASK" {
                    Counters::add(&self.counters.asked, 1);
                    Meaning::Way(Way::Asking(address), None)
                } else {
                    Counters::add(&self.counters.moved, 1);
                    Meaning::Way(Way::To(address), Some(slot))
                }
            }
            "NOSCRIPT" => Meaning::Unknown,
            "TRYAGAIN" => {
                Counters::add(&self.counters.apart, 1);
                Meaning::Trouble(Trouble::Apart, false)
            }
            "OOM" | "MISCONF" => failed(Failure::Full(text)),
            "CLUSTERDOWN" | "LOADING" | "MASTERDOWN" | "READONLY" => {
                Meaning::Trouble(unreachable(text), true)
            }
            "BUSY" | "NOREPLICAS" | "UNBLOCKED" => Meaning::Trouble(unreachable(text), false),
            _ => {
                tracing::warn!(partition = partition.0, "unexpected answer of the cluster: {text}");
                failed(Failure::Unexpected(text))
            }
        }
    }
}

pub(super) fn unreachable(why: Arc<str>) -> Trouble {
    Trouble::Failure(Failure::Unreachable(why))
}

/// Where `3999 127.0.0.1:6381` leads.
fn redirection(details: &str, asked: &Address) -> Option<(u16, Address)> {
    let (slot, address) = details.split_once(' ')?;
    let slot = slot.parse().ok()?;
    let address = address.trim();
    let address = match address.strip_prefix(':').filter(|port| !port.contains(':')) {
        Some(port) => Address { host: asked.host.clone(), port: port.parse().ok()? },
        None => Address::parse(address)?,
    };
    Some((slot, address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirections_are_read() {
        let asked = Address { host: "a".into(), port: 1 };
        let read = |text| redirection(text, &asked).map(|(slot, address)| (slot, address.to_string()));
        assert_eq!(read("3999 127.0.0.1:6381"), Some((3999, "127.0.0.1:6381".to_owned())));
        assert_eq!(read("1 :6381"), Some((1, "a:6381".to_owned())));
        assert_eq!(read("1 ::1:6381"), Some((1, "[::1]:6381".to_owned())));
        for wrong in ["", "1", "x a:1", "1 a", "1 a:99999", "70000 a:1"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
