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

use hashbrown::HashSet;
use redis::{Cmd, Value, cmd};
use tokio::time::Instant;

use super::link::{Line, Silence};
use super::name::Name;
use super::opening;
use super::slot::slot_of;
use super::topology::Address;
use super::{Inner, Wire, unexpected};
use crate::remote::{Failure, Partition};
use crate::transfer::{WITHIN, again};

/// Names that a server looks at in one step.
pub(crate) const STEP: usize = 1000;
/// Names that are remembered at once, unless it is asked for otherwise: some 140 MB.
pub(crate) const SEEN_MAX: usize = 1 << 22;

/// A pass. What it has told is all there is only when it has come to its end.
pub(crate) struct Scan {
    wire: Wire,
    /// With what each has said of its slots.
    masters: Vec<(Address, String)>,
    /// The place of the master that is asked.
    at: usize,
    cursor: u64,
    /// Which share of its partitions is looked for, and of how many.
    share: u64,
    shares: u64,
    seen: Option<Seen>,
}

/// Names that were told.
struct Seen {
    names: HashSet<Name>,
    /// About so many are remembered.
    most: usize,
}

impl Scan {
    /// Begins a pass that tells each name once, and remembers about so many for that; or tells some of them twice, and
    /// remembers none.
    pub(crate) async fn begin(wire: &Wire, names_max: Option<usize>) -> Result<Scan, Failure> {
        let mut scan = Scan {
            wire: wire.clone(),
            masters: Vec::new(),
            at: 0,
            cursor: 0,
            share: 0,
            shares: 0,
            seen: names_max.map(|most| Seen { names: HashSet::new(), most: most.max(1) }),
        };
        scan.masters = scan.masters_now().await?;
        scan.reach().await?;
        Ok(scan)
    }

    /// The next names with their partitions, perhaps none; `None` at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<(Partition, Name)>>, Failure> {
        let Some((address, _)) = self.masters.get(self.at).cloned() else { return Ok(None) };
        let mut scan = cmd("SCAN");
        scan.arg(self.cursor).arg("MATCH").arg(self.wire.inner.names.pattern()).arg("COUNT").arg(STEP);
        let value = self.ask(&address, scan).await?;
        let parts = match &value {
            Value::Array(parts) => parts.as_slice(),
            _ => &[],
        };
        let [Value::BulkString(cursor), Value::Array(texts)] = parts else {
            return Err(Failure::Unexpected(format!("{address}: no answer to SCAN").into()));
        };
        let cursor = std::str::from_utf8(cursor).ok().and_then(|cursor| cursor.parse().ok());
        let cursor =
            cursor.ok_or_else(|| Failure::Unexpected(format!("{address}: a cursor is no number").into()))?;
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

    /// Comes to a master.
    async fn reach(&mut self) -> Result<(), Failure> {
        let Some((address, _)) = self.masters.get(self.at).cloned() else { return Ok(()) };
        let Value::Int(keys) = self.ask(&address, cmd("DBSIZE")).await? else {
            return Err(Failure::Unexpected(format!("{address}: no answer to DBSIZE").into()));
        };
        let shares = self.seen.as_ref().map_or(1, |seen| keys.unsigned_abs().div_ceil(seen.most as u64));
        let partitions = self.wire.inner.settings.partitions.count();
        (self.share, self.shares) = (0, shares.clamp(1, u64::from(partitions)));
        Ok(())
    }

    fn is_home(&self, partition: Partition, address: &Address) -> bool {
        let inner = &self.wire.inner;
        let slot = slot_of(partition, inner.settings.partitions);
        inner.topology().master(slot).is_some_and(|master| **master == *address)
    }

    /// The masters of all partitions, with their epochs and slots.
    async fn masters_now(&self) -> Result<Vec<(Address, String)>, Failure> {
        let inner = &self.wire.inner;
        let mut tries = 0;
        while let Err(said) = inner.refresh_now().await {
            again(&mut tries, Failure::Unreachable(opening::list(&said).into())).await?;
        }
        let topology = inner.topology();
        let mut masters = Vec::new();
        for partition in (0..inner.settings.partitions.count()).map(Partition) {
            let slot = slot_of(partition, inner.settings.partitions);
            let Some(master) = topology.master(slot) else {
                return Err(unexpected(partition, "no server has its slot: its statistics would be missing"));
            };
            masters.push(master.clone());
        }
        masters.sort_unstable();
        masters.dedup();
        let mut said = Vec::with_capacity(masters.len());
        for master in masters {
            let slots = self.slots_of(&master).await?;
            said.push((Address::clone(&master), slots));
        }
        Ok(said)
    }

    /// What a master says of itself: its name, its epoch and its slots.
    async fn slots_of(&self, address: &Address) -> Result<String, Failure> {
        let mut ask = cmd("CLUSTER");
        ask.arg("NODES");
        let text = match self.ask(address, ask).await {
            Ok(Value::BulkString(text)) => String::from_utf8_lossy(&text).into_owned(),
            Ok(Value::VerbatimString { text, .. } | Value::SimpleString(text)) => text,
            // A server that is no cluster.
            Err(Failure::Unexpected(why)) if why.to_ascii_lowercase().contains("cluster support") => {
                return Ok(String::new());
            }
            Ok(_) => {
                return Err(Failure::Unexpected(format!("{address}: no answer to CLUSTER NODES").into()));
            }
            Err(failure) => return Err(failure),
        };
        let mut lines = text.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        let own = lines.find(|words| words.get(2).is_some_and(|flags| flags.contains("myself")));
        let own = own.unwrap_or_default();
        let [name, _, flags, _, _, _, epoch, _, slots @ ..] = own.as_slice() else {
            return Err(Failure::Unexpected(format!("{address} does not say which slots it has").into()));
        };
        // A slot on its way is in brackets.
        if !flags.contains("master") || slots.iter().any(|slot| slot.starts_with('[')) {
            return Err(moved());
        }
        Ok(format!("{name} {epoch} {}", slots.join(" ")))
    }

    /// Asks a server until it answers, for a while. What is asked changes nothing.
    async fn ask(&self, address: &Address, command: Cmd) -> Result<Value, Failure> {
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

impl Inner {
    /// Sends one command to one server.
    async fn exchange_one(
        &self,
        address: &Address,
        command: Cmd,
        deadline: Instant,
    ) -> Result<Value, Failure> {
        let answer = self.link(address).exchange(Line::Reads, vec![command], deadline).await;
        match answer.map(|mut values| values.pop()) {
            Ok(Some(Value::ServerError(error))) => {
                let text = format!("{address}: {} {}", error.code(), error.details().unwrap_or(""));
                let is_passing = ["LOADING", "CLUSTERDOWN", "BUSY", "MASTERDOWN"].contains(&error.code());
                let failure = if is_passing { Failure::Unreachable } else { Failure::Unexpected };
                Err(failure(text.into()))
            }
            Ok(Some(value)) => Ok(value),
            Ok(None) => Err(Failure::Unexpected(format!("{address} has answered nothing").into())),
            Err(Silence::Open(lost) | Silence::Lost(lost)) => Err(Failure::Unreachable(lost.why)),
        }
    }
}

fn moved() -> Failure {
    Failure::Unexpected(
        "slots are moved from server to server, or a replica has taken over: begin again when that has ended"
            .into(),
    )
}
