//! The nodes that share a cluster: a number for each, and what it says of itself.
//!
//! ```text
//! #o   number ─► identity of the node that has it, in hexadecimal digits; set once by HSETNX, for good
//! #e   number ─► what the node says of itself, set anew at each announcement
//! ```
//!
//! A number that a failover has forgotten is taken again by the node that had it, at its next announcement. A node that is gone for good
//! loses its entry, and nobody gets its number: ids with it may be asked for, and its directory may come back.

use std::collections::BTreeMap;

use data_encoding::HEXLOWER;
use redis::{Value, cmd};
use tokio::time::Instant;

use super::generation::AT;
use super::server_link::ConnectionClass;
use super::{WireClient, WireCore, number, only, unexpected};
use crate::remote::RemoteError;

/// Attempts to take a number that is free. Nodes are hardly ever so many that come at the same time.
const ATTEMPTS_MAX: usize = 100;
/// Largest entry of a node that is read or written, in bytes.
const ENTRY_BYTES_MAX: usize = 16 << 10;

/// The entries of nodes, by number.
pub(crate) type NodeEntryMap = BTreeMap<u16, String>;

impl WireClient {
    /// The number of this node from 1 to `max`: the one that it has had since it first asked.
    ///
    /// # Errors
    /// [`RemoteError`] if the cluster cannot be asked, and where all numbers are taken.
    pub async fn node_number(&self, max: u16) -> Result<u16, RemoteError> {
        let inner = self.inner.clone();
        only(self.on_runtime(1, async move { vec![inner.node_number(max).await] }).await)
    }

    /// Says something of this node, and returns what all nodes have said last, this one included.
    ///
    /// # Errors
    /// [`RemoteError`] if the cluster cannot be asked, if the number is another node's by now, and if the entry is too long.
    pub async fn announce(&self, own: u16, entry: String) -> Result<NodeEntryMap, RemoteError> {
        let inner = self.inner.clone();
        only(self.on_runtime(1, async move { vec![inner.announce(own, entry).await] }).await)
    }
}

impl WireClient {
    /// Takes what a node has said of itself out of the registry; its number stays its own. Returns false if there is nothing of it.
    ///
    /// # Errors
    /// [`RemoteError`] if the cluster cannot be asked.
    pub async fn forget_node(&self, number: u16) -> Result<bool, RemoteError> {
        let inner = self.inner.clone();
        only(self.on_runtime(1, async move { vec![inner.forget_node(number).await] }).await)
    }
}

impl WireCore {
    async fn forget_node(&self, number: u16) -> Result<bool, RemoteError> {
        let mut delete = cmd("HDEL");
        delete.arg(self.names.node_entries()).arg(number);
        match self.one(ConnectionClass::Writes, delete, self.node_deadline()).await? {
            Value::Int(gone) => Ok(gone == 1),
            Value::Nil => Err(self.unconfirmed()),
            _ => Err(unexpected(AT, "no answer to HDEL")),
        }
    }

    async fn node_number(&self, max: u16) -> Result<u16, RemoteError> {
        let own = HEXLOWER.encode(&self.settings.node);
        for _ in 0..ATTEMPTS_MAX {
            let there = self.hash(self.names.node_numbers()).await?;
            if let Some((number, _)) = there.iter().find(|(_, identity)| **identity == own) {
                return Ok(*number);
            }
            let Some(free) = (1..=max).find(|number| !there.contains_key(number)) else {
                return Err(unexpected(AT, &format!("all {max} numbers of nodes are taken")));
            };
            if self.take_number(free, &own).await? {
                return Ok(free);
            }
        }
        Err(RemoteError::Unreachable("other nodes take numbers all the time".into()))
    }

    /// Takes a number that nobody has; returns false if somebody has it.
    async fn take_number(&self, wanted: u16, own: &str) -> Result<bool, RemoteError> {
        let mut set = cmd("HSETNX");
        set.arg(self.names.node_numbers()).arg(wanted).arg(own);
        match self.one(ConnectionClass::Writes, set, self.node_deadline()).await? {
            Value::Int(added) => Ok(added == 1),
            Value::Nil => Err(self.unconfirmed()),
            _ => Err(unexpected(AT, "no answer to HSETNX")),
        }
    }

    async fn announce(&self, own: u16, entry: String) -> Result<NodeEntryMap, RemoteError> {
        if entry.len() > ENTRY_BYTES_MAX {
            return Err(unexpected(AT, "a node says too much of itself"));
        }
        let identity = HEXLOWER.encode(&self.settings.node);
        if !self.take_number(own, &identity).await? {
            let mut get = cmd("HGET");
            get.arg(self.names.node_numbers()).arg(own);
            let there = self.one(ConnectionClass::Reads, get, self.node_deadline()).await?;
            if there != Value::BulkString(identity.into_bytes()) {
                return Err(unexpected(AT, &format!("the node number {own} is another node's")));
            }
        }
        let mut set = cmd("HSET");
        set.arg(self.names.node_entries()).arg(own).arg(entry);
        match self.one(ConnectionClass::Writes, set, self.node_deadline()).await? {
            // What was not confirmed is said anew a little later.
            Value::Int(_) | Value::Nil => {}
            _ => return Err(unexpected(AT, "no answer to HSET")),
        }
        self.hash(self.names.node_entries()).await
    }

    /// The fields of a hash that are numbers of nodes. What is none, or too long, is left out.
    async fn hash(&self, name: Vec<u8>) -> Result<NodeEntryMap, RemoteError> {
        let mut all = cmd("HGETALL");
        all.arg(name);
        let Value::Array(flat) = self.one(ConnectionClass::Reads, all, self.node_deadline()).await? else {
            return Err(unexpected(AT, "no answer of which nodes there are"));
        };
        let pair = |pair: &[Value]| match pair {
            [field, Value::BulkString(value)] if value.len() <= ENTRY_BYTES_MAX => {
                let of = u16::try_from(number(field)?).ok()?;
                Some((of, String::from_utf8(value.clone()).ok()?))
            }
            _ => None,
        };
        Ok(flat.chunks(2).filter_map(pair).collect())
    }

    pub(super) fn node_deadline(&self) -> Instant {
        Instant::now() + self.settings.connect_within.max(super::REFRESH_WITHIN)
    }
}
