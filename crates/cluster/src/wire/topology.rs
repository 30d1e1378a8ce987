//! Slots of each server.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use redis::Value;

use super::slot::SLOTS;

/// The address of a server, as the cluster announces it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServerAddress {
    /// Name or number of the host.
    pub host: String,
    /// TCP port.
    pub port: u16,
}

impl ServerAddress {
    /// Reads `host:port`; an IPv6 address may be in brackets.
    pub fn parse(text: &str) -> Option<ServerAddress> {
        let (host, port) = text.rsplit_once(':')?;
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        (!host.is_empty()).then_some(())?;
        Some(ServerAddress { host: host.to_owned(), port: port.parse().ok()? })
    }
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// The masters of all slots, as of the last time that somebody said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SlotTopology {
    pub(super) masters: Vec<Arc<ServerAddress>>,
    /// The place of each slot's master, from one; zero for none.
    slots: Vec<u16>,
    /// All servers, replicas included.
    pub(super) servers: Vec<ServerAddress>,
}

impl SlotTopology {
    /// Returns the master that has a slot.
    pub(super) fn master(&self, slot: u16) -> Option<&Arc<ServerAddress>> {
        self.masters.get(self.place(slot).checked_sub(1)?)
    }

    /// Returns the master that has a slot as a number; zero is nobody.
    pub(super) fn place(&self, slot: u16) -> usize {
        self.slots.get(usize::from(slot)).copied().unwrap_or(0).into()
    }

    /// Gives a slot to another server.
    pub(super) fn set(&mut self, slot: u16, address: ServerAddress) {
        let place = self.masters.iter().position(|master| **master == address).unwrap_or_else(|| {
            self.masters.push(Arc::new(address));
            self.masters.len() - 1
        });
        self.slots.resize(usize::from(SLOTS), 0);
        if let (Some(slot), Ok(place)) = (self.slots.get_mut(usize::from(slot)), u16::try_from(place + 1)) {
            *slot = place;
        }
    }

    /// Reads the answer to `CLUSTER SLOTS`. A server without a host is the one that was asked.
    pub(super) fn parse(answer: &Value, asked: &ServerAddress) -> Option<SlotTopology> {
        let Value::Array(ranges) = answer else { return None };
        let mut topology = SlotTopology { slots: vec![0; usize::from(SLOTS)], ..SlotTopology::default() };
        let mut places = HashMap::<ServerAddress, u16>::new();
        for range in ranges {
            let Value::Array(range) = range else { return None };
            let [Value::Int(from), Value::Int(to), servers @ ..] = range.as_slice() else { return None };
            let mut servers = servers.iter().map(|server| address(server, asked));
            let master = servers.next()??;
            for server in std::iter::once(Some(master.clone())).chain(servers).flatten() {
                if !topology.servers.contains(&server) && topology.servers.len() < usize::from(SLOTS) {
                    topology.servers.push(server);
                }
            }
            let next = u16::try_from(places.len()).ok()?.checked_add(1)?;
            let place = *places.entry(master.clone()).or_insert(next);
            if place == next {
                topology.masters.push(Arc::new(master));
            }
            let range = usize::try_from(*from).ok()?..=usize::try_from(*to).ok()?;
            topology.slots.get_mut(range)?.fill(place);
        }
        (!topology.masters.is_empty()).then_some(topology)
    }
}

fn address(server: &Value, asked: &ServerAddress) -> Option<ServerAddress> {
    let Value::Array(parts) = server else { return None };
    let [host, Value::Int(port), ..] = parts.as_slice() else { return None };
    let host = match host {
        Value::BulkString(host) => String::from_utf8(host.clone()).ok()?,
        Value::SimpleString(host) => host.clone(),
        _ => String::new(),
    };
    let host = if host.is_empty() || host == "?" { asked.host.clone() } else { host };
    Some(ServerAddress { host, port: u16::try_from(*port).ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(host: &str, port: i64) -> Value {
        Value::Array(vec![Value::BulkString(host.into()), Value::Int(port), Value::BulkString("id".into())])
    }

    fn range(from: i64, to: i64, servers: Vec<Value>) -> Value {
        Value::Array([vec![Value::Int(from), Value::Int(to)], servers].concat())
    }

    #[test]
    fn slots_are_read() {
        let asked = ServerAddress::parse("10.0.0.9:7000").unwrap();
        let answer = Value::Array(vec![
            range(0, 99, vec![server("10.0.0.1", 7001), server("10.0.0.2", 7002)]),
            range(100, 16_382, vec![server("", 7003)]),
            range(16_383, 16_383, vec![server("10.0.0.1", 7001)]),
        ]);
        let mut topology = SlotTopology::parse(&answer, &asked).unwrap();
        let master = |topology: &SlotTopology, slot| topology.master(slot).unwrap().to_string();
        assert_eq!(master(&topology, 0), "10.0.0.1:7001");
        assert_eq!(master(&topology, 100), "10.0.0.9:7003");
        assert_eq!(master(&topology, 16_383), "10.0.0.1:7001");
        assert_eq!((topology.masters.len(), topology.servers.len()), (2, 3));
        topology.set(5, ServerAddress::parse("[::1]:1").unwrap());
        assert_eq!(master(&topology, 5), "[::1]:1");
        for wrong in [
            Value::Nil,
            Value::Array(vec![]),
            Value::Array(vec![range(0, 16_384, vec![server("a", 1)])]),
            Value::Array(vec![range(-1, 3, vec![server("a", 1)])]),
            Value::Array(vec![range(9, 3, vec![server("a", 1)])]),
            Value::Array(vec![range(0, 3, vec![server("a", 99_999)])]),
            Value::Array(vec![range(0, 3, vec![])]),
        ] {
            assert_eq!(SlotTopology::parse(&wrong, &asked), None, "{wrong:?}");
        }
    }
}
