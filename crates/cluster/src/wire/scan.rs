//! A pass through the names of all cells, in steps that no server is held up by.
//!
//! ```text
//! who has which slots ─► SCAN of each master, some names a step ─► each name once ─► who has which slots: the same?
//! ```
//!
//! `SCAN` tells every key that is there from its beginning to its end, some of them twice. Where each name is wanted once,
//! names are remembered: those of as many as fit into a bounded memory, so that a master with more is gone
//! through several times, for another share of the partitions each time.
//!
//! A key whose slot moves from one master to the other meanwhile could be told by neither, or a failover could lose it. So
//! it is looked before and afterwards who has which slots, since which epoch; if that has changed the pass has failed.

use std::collections::BTreeMap;

use hashbrown::HashSet;
use redis::{Cmd, Value, cmd};
use tokio::time::Instant;

use super::diagnosis;
use super::home::all_tables;
use super::name::CellName;
use super::server_link::{ConnectionClass, ExchangeError};
use super::slot::{SLOTS, slot_of};
use super::topology::ServerAddress;
use super::{WireClient, WireCore, unexpected};
use crate::remote::{Partition, RemoteError};
use crate::transfer::{WITHIN, again};

/// Names that a server looks at in one step.
pub(crate) const STEP: usize = 1000;
/// Names that are remembered at once, unless it is asked for otherwise: some 105 MB, and half as much again while the
/// table grows.
pub(crate) const SEEN_MAX: usize = 3 << 20;

/// Names that a step takes from each table.
const TABLE_STEP: usize = STEP / 16 + 1;

/// A pass. What it has told is all there is only when it has come to its end.
pub(crate) struct NameScan {
    wire: WireClient,
    masters: Vec<MasterServer>,
    /// The place of the master that is asked.
    at: usize,
    cursor: u64,
    /// The share of its partitions to look for, and the number of shares.
    share: u64,
    shares: u64,
    seen: Option<SeenNames>,
    /// The pass through tables, where the module keeps cells: each name is told once, and moving slots disturb nothing.
    tables: Option<TableScan>,
}

/// A pass through the tables of all partitions.
struct TableScan {
    partition: u16,
    /// Tables of this partition that have more, with where they go on.
    rest: Vec<(u8, Vec<u8>)>,
}

/// A master, with what it has said of its slots.
#[derive(Clone, PartialEq)]
struct MasterServer {
    address: ServerAddress,
    own: MasterSlots,
}

/// Names that were told.
struct SeenNames {
    names: HashSet<CellName>,
    /// About so many are remembered.
    most: usize,
}

impl NameScan {
    /// Begins a pass that tells each name once, and remembers about so many for that; or tells some of them twice, and
    /// remembers none.
    pub(crate) async fn begin(wire: &WireClient, names_max: Option<usize>) -> Result<NameScan, RemoteError> {
        let mut scan = NameScan {
            wire: wire.clone(),
            masters: Vec::new(),
            at: 0,
            cursor: 0,
            share: 0,
            shares: 0,
            seen: names_max.map(|most| SeenNames { names: HashSet::new(), most: most.max(1) }),
            tables: None,
        };
        if wire.has_tables() {
            scan.tables = Some(TableScan { partition: 0, rest: all_tables() });
            return Ok(scan);
        }
        scan.masters = scan.masters_now().await?;
        scan.reach().await?;
        Ok(scan)
    }

    /// The next names with their partitions, perhaps none; `None` at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<(Partition, CellName)>>, RemoteError> {
        if self.tables.is_some() {
            return self.next_of_tables().await;
        }
        let Some(MasterServer { address, .. }) = self.masters.get(self.at).cloned() else { return Ok(None) };
        let mut scan = cmd("SCAN");
        scan.arg(self.cursor).arg("MATCH").arg(self.wire.inner.names.pattern()).arg("COUNT").arg(STEP);
        let value = self.ask(&address, scan).await?;
        let parts = match &value {
            Value::Array(parts) => parts.as_slice(),
            _ => &[],
        };
        let [Value::BulkString(cursor), Value::Array(texts)] = parts else {
            return Err(RemoteError::Unexpected(format!("{address}: no answer to SCAN").into()));
        };
        let cursor = std::str::from_utf8(cursor).ok().and_then(|cursor| cursor.parse().ok());
        let cursor = cursor
            .ok_or_else(|| RemoteError::Unexpected(format!("{address}: a cursor is no number").into()))?;
        let mut names = Vec::with_capacity(texts.len());
        for text in texts {
            let Value::BulkString(text) = text else { continue };
            let Some((partition, name)) = self.wire.inner.names.read(text) else { continue };
            if !self.is_home(partition, &address) {
                return Err(moved());
            }
            let is_wanted = u64::from(partition.0) % self.shares == self.share;
            if is_wanted && self.seen.as_mut().is_none_or(|seen| seen.names.insert(name)) {
                names.push((partition, name));
            }
        }
        self.cursor = cursor;
        if cursor == 0 {
            self.seen.iter_mut().for_each(|seen| seen.names.clear());
            self.share += 1;
            if self.share >= self.shares {
                self.at += 1;
                self.reach().await?;
            }
        }
        if self.at >= self.masters.len() && self.masters_now().await? != self.masters {
            return Err(moved());
        }
        Ok(Some(names))
    }

    /// The next names of tables.
    async fn next_of_tables(&mut self) -> Result<Option<Vec<(Partition, CellName)>>, RemoteError> {
        let inner = &self.wire.inner;
        let Some(scan) = &mut self.tables else { return Ok(None) };
        if scan.partition >= inner.settings.partitions.count() {
            return Ok(None);
        }
        let partition = Partition(scan.partition);
        let mut tries = 0;
        let (more, names) = loop {
            match inner.scan_tables(partition, &scan.rest, TABLE_STEP, Instant::now() + WITHIN).await {
                Ok(found) => break found,
                Err(failure) => again(&mut tries, failure).await?,
            }
        };
        scan.rest = more;
        if scan.rest.is_empty() {
            scan.partition += 1;
            scan.rest = all_tables();
        }
        Ok(Some(names.into_iter().map(|name| (partition, name)).collect()))
    }

    /// Comes to a master.
    async fn reach(&mut self) -> Result<(), RemoteError> {
        let Some(MasterServer { address, .. }) = self.masters.get(self.at).cloned() else { return Ok(()) };
        let Value::Int(keys) = self.ask(&address, cmd("DBSIZE")).await? else {
            return Err(RemoteError::Unexpected(format!("{address}: no answer to DBSIZE").into()));
        };
        let shares = self.seen.as_ref().map_or(1, |seen| keys.unsigned_abs().div_ceil(seen.most as u64));
        let partitions = self.wire.inner.settings.partitions.count();
        (self.share, self.shares) = (0, shares.clamp(1, u64::from(partitions)));
        Ok(())
    }

    fn is_home(&self, partition: Partition, address: &ServerAddress) -> bool {
        let inner = &self.wire.inner;
        let slot = slot_of(partition, inner.settings.partitions);
        inner.topology().master(slot).is_some_and(|master| **master == *address)
    }

    /// The masters of all partitions. Each has to say itself that the slots are its own: who tells where slots are may not
    /// have heard of the last change.
    async fn masters_now(&self) -> Result<Vec<MasterServer>, RemoteError> {
        let inner = &self.wire.inner;
        let mut tries = 0;
        while let Err(said) = inner.refresh_now().await {
            again(&mut tries, RemoteError::Unreachable(diagnosis::list(&said).into())).await?;
        }
        let topology = inner.topology();
        let mut slots = BTreeMap::<ServerAddress, Vec<u16>>::new();
        for partition in (0..inner.settings.partitions.count()).map(Partition) {
            let slot = slot_of(partition, inner.settings.partitions);
            let Some(master) = topology.master(slot) else {
                return Err(unexpected(partition, "no server has its slot: its statistics would be missing"));
            };
            slots.entry(ServerAddress::clone(master)).or_default().push(slot);
        }
        let mut masters = Vec::with_capacity(slots.len());
        for (address, slots) in slots {
            let own = self.own(&address).await?;
            if !slots.into_iter().all(|slot| own.has(slot)) {
                return Err(moved());
            }
            masters.push(MasterServer { address, own });
        }
        Ok(masters)
    }

    async fn own(&self, address: &ServerAddress) -> Result<MasterSlots, RemoteError> {
        let mut ask = cmd("CLUSTER");
        ask.arg("NODES");
        let text = match self.ask(address, ask).await {
            Ok(Value::BulkString(text)) => String::from_utf8_lossy(&text).into_owned(),
            Ok(Value::VerbatimString { text, .. } | Value::SimpleString(text)) => text,
            // A server that is no cluster.
            Err(RemoteError::Unexpected(why)) if why.to_ascii_lowercase().contains("cluster support") => {
                return Ok(MasterSlots { identity: String::new(), slots: vec![(0, SLOTS - 1)] });
            }
            Ok(_) => String::new(),
            Err(failure) => return Err(failure),
        };
        let unreadable =
            || RemoteError::Unexpected(format!("{address} does not say which slots it has").into());
        let own = MasterSlots::parse(&text).ok_or_else(unreadable)?;
        own.ok_or_else(moved)
    }

    /// Asks a server until it answers, for a while. What is asked changes nothing.
    async fn ask(&self, address: &ServerAddress, command: Cmd) -> Result<Value, RemoteError> {
        let mut tries = 0;
        loop {
            let deadline = Instant::now() + WITHIN;
            let answer = self.wire.inner.exchange_one(address, command.clone(), deadline).await;
            match answer {
                Ok(value) => return Ok(value),
                Err(failure) => again(&mut tries, failure).await?,
            }
        }
    }
}

impl WireCore {
    /// Sends one command to one server.
    async fn exchange_one(
        &self,
        address: &ServerAddress,
        command: Cmd,
        deadline: Instant,
    ) -> Result<Value, RemoteError> {
        let answer = self.link(address).exchange(ConnectionClass::Reads, vec![command], deadline).await;
        match answer.map(|mut values| values.pop()) {
            Ok(Some(Value::ServerError(error))) => {
                let text = format!("{address}: {} {}", error.code(), error.details().unwrap_or(""));
                let is_passing = ["LOADING", "CLUSTERDOWN", "BUSY", "MASTERDOWN"].contains(&error.code());
                let failure = if is_passing { RemoteError::Unreachable } else { RemoteError::Unexpected };
                Err(failure(text.into()))
            }
            Ok(Some(value)) => Ok(value),
            Ok(None) => Err(RemoteError::Unexpected(format!("{address} has answered nothing").into())),
            Err(ExchangeError::Open(lost) | ExchangeError::Lost(lost)) => {
                Err(RemoteError::Unreachable(lost.why))
            }
        }
    }
}

/// The description that a master gives of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
struct MasterSlots {
    /// Its name, its epoch and its slots: another epoch may have had other slots in between.
    identity: String,
    /// The first and the last of each run of slots.
    slots: Vec<(u16, u16)>,
}

impl MasterSlots {
    /// Reads the answer to `CLUSTER NODES`. `Some(None)` if it is no master, or slots of its own are on their way.
    fn parse(text: &str) -> Option<Option<MasterSlots>> {
        let mut lines = text.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        let own = lines.find(|words| words.get(2).is_some_and(|flags| flags.contains("myself")))?;
        let [name, _, flags, _, _, _, epoch, _, slots @ ..] = own.as_slice() else { return None };
        // A slot on its way is in brackets.
        if !flags.contains("master") || slots.iter().any(|slot| slot.starts_with('[')) {
            return Some(None);
        }
        let run = |text: &&str| {
            let (from, to) = text.split_once('-').unwrap_or((text, text));
            Some((from.parse::<u16>().ok()?, to.parse::<u16>().ok()?))
        };
        let said = format!("{name} {epoch} {}", slots.join(" "));
        Some(Some(MasterSlots { identity: said, slots: slots.iter().map(run).collect::<Option<_>>()? }))
    }

    fn has(&self, slot: u16) -> bool {
        self.slots.iter().any(|(from, to)| (*from..=*to).contains(&slot))
    }
}

fn moved() -> RemoteError {
    RemoteError::Unexpected(
        "slots are moved from server to server, or a replica has taken over: begin again when that has ended"
            .into(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_master_says_which_slots_are_its_own() {
        let other = "b0 127.0.0.1:2@3 master - 0 17 2 connected 0-99\n";
        let read = |own: &str| MasterSlots::parse(&format!("{other}{own}\n"));
        let own = read("a1 127.0.0.1:1@2 myself,master - 0 17 5 connected 100-5460 7000").unwrap().unwrap();
        assert_eq!(own.identity, "a1 5 100-5460 7000");
        let has = [99, 100, 5460, 5461, 7000, 7001].map(|slot| own.has(slot));
        assert_eq!(has, [false, true, true, false, true, false]);
        let none = read("a1 127.0.0.1:1@2 myself,master - 0 17 5 connected").unwrap().unwrap();
        assert!(!none.has(0));
        for passing in [
            "a1 127.0.0.1:1@2 myself,master - 0 17 5 connected 1-2 [3->-b0]",
            "a1 127.0.0.1:1@2 myself,master - 0 17 5 connected 1-2 [93-<-b0]",
            "a1 127.0.0.1:1@2 myself,slave b0 0 17 5 connected",
        ] {
            assert_eq!(read(passing), Some(None), "{passing}");
        }
        for wrong in ["", "a1 x myself", "a1 127.0.0.1:1@2 myself,master - 0 17 5 connected x 70000"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
