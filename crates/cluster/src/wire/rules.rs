//! States of rules that were posted over the files of configurations, for all nodes.
//!
//! ```text
//! #r   number of a state, from 1 ─► digest of the state
//! #x   digest ─► the state, of the last ones
//! ```
//!
//! A state is put behind the last one by the script that allots numbers, and only if there are as many as its node knew of: of two
//! nodes that post at the same time one is told so, and changes nothing. A node looks at the number and the digest, which are
//! short; the digest tells it also where a failover has forgotten a state and another one has its number by now.

use redis::{Value, cmd};
use tokio::time::Instant;

use super::generation::AT;
use super::server_link::ConnectionClass;
use super::{WireClient, WireCore, only, script, unexpected};
use crate::remote::RemoteError;

/// Largest state, in bytes.
const STATE_BYTES_MAX: usize = 16 << 20;
/// States that are kept: a node that reads one while the next is posted still finds it.
const KEPT: u64 = 4;

impl WireClient {
    /// The number of the last state and its digest; 0 and nothing before the first.
    ///
    /// # Errors
    /// [`RemoteError`] if the cluster cannot be asked.
    pub async fn last_rules(&self) -> Result<(u64, String), RemoteError> {
        let inner = self.inner.clone();
        only(self.on_runtime(1, async move { vec![inner.last_rules().await] }).await)
    }

    /// The state of a digest.
    ///
    /// # Errors
    /// [`RemoteError`] if the cluster cannot be asked, or does not have the state.
    pub async fn rules(&self, digest: String) -> Result<String, RemoteError> {
        let inner = self.inner.clone();
        only(self.on_runtime(1, async move { vec![inner.rules(&digest).await] }).await)
    }

    /// Puts a state behind the last one; returns false if there are others behind the one that is known.
    ///
    /// # Errors
    /// [`RemoteError`] if the cluster cannot be asked, and if the state is too large.
    pub async fn put_rules(&self, known: u64, digest: String, state: String) -> Result<bool, RemoteError> {
        let inner = self.inner.clone();
        only(self.on_runtime(1, async move { vec![inner.put_rules(known, &digest, state).await] }).await)
    }
}

impl WireCore {
    async fn last_rules(&self) -> Result<(u64, String), RemoteError> {
        let mut length = cmd("HLEN");
        length.arg(self.names.rule_states());
        let Value::Int(last) = self.one(ConnectionClass::Reads, length, self.rules_deadline()).await? else {
            return Err(unexpected(AT, "no answer to HLEN"));
        };
        let last = u64::try_from(last).unwrap_or_default();
        if last == 0 {
            return Ok((0, String::new()));
        }
        Ok((last, self.text_of(self.names.rule_states(), &last.to_string()).await?))
    }

    async fn rules(&self, digest: &str) -> Result<String, RemoteError> {
        self.text_of(self.names.rule_texts(), digest).await
    }

    async fn text_of(&self, hash: Vec<u8>, field: &str) -> Result<String, RemoteError> {
        let mut get = cmd("HGET");
        get.arg(hash).arg(field);
        match self.one(ConnectionClass::Reads, get, self.rules_deadline()).await? {
            Value::BulkString(text) => {
                String::from_utf8(text).map_err(|_| unexpected(AT, "what was posted is no text"))
            }
            _ => Err(unexpected(AT, "what was posted last is missing")),
        }
    }

    async fn put_rules(&self, known: u64, digest: &str, state: String) -> Result<bool, RemoteError> {
        if state.len() > STATE_BYTES_MAX {
            return Err(unexpected(AT, "what is posted is too large"));
        }
        // Before anybody is told of it.
        self.set_rules(digest, &state).await?;
        let lines = format!("{known}\n{}\n{digest}", known + 1);
        let command = script(&self.scripts.allot, vec![self.names.rule_states()], Some(lines.into_bytes()));
        match self.one(ConnectionClass::Writes, command, self.rules_deadline()).await? {
            Value::Int(1) => {}
            Value::Int(0) => {
                // A text that stays takes room, and nothing else.
                let _ = self.forget_rules(digest).await;
                return Ok(false);
            }
            Value::Nil => return Err(self.unconfirmed()),
            _ => return Err(unexpected(AT, "no answer of the script that puts rules")),
        }
        // Another node that was refused with the same text may have taken it away in between.
        self.set_rules(digest, &state).await?;
        if let Some(past @ 1..) = (known + 1).checked_sub(KEPT)
            && let Ok(gone) = self.text_of(self.names.rule_states(), &past.to_string()).await
        {
            let _ = self.forget_rules(&gone).await;
        }
        Ok(true)
    }

    async fn set_rules(&self, digest: &str, state: &str) -> Result<(), RemoteError> {
        let mut set = cmd("HSET");
        set.arg(self.names.rule_texts()).arg(digest).arg(state);
        match self.one(ConnectionClass::Writes, set, self.rules_deadline()).await? {
            Value::Int(_) => Ok(()),
            Value::Nil => Err(self.unconfirmed()),
            _ => Err(unexpected(AT, "no answer to HSET")),
        }
    }

    /// Takes a text away, unless one of the last states has it.
    async fn forget_rules(&self, digest: &str) -> Result<(), RemoteError> {
        let (last, _) = self.last_rules().await?;
        for number in last.saturating_sub(KEPT - 1).max(1)..=last {
            if self.text_of(self.names.rule_states(), &number.to_string()).await? == digest {
                return Ok(());
            }
        }
        let mut delete = cmd("HDEL");
        delete.arg(self.names.rule_texts()).arg(digest);
        self.one(ConnectionClass::Writes, delete, self.rules_deadline()).await.map(|_| ())
    }

    fn rules_deadline(&self) -> Instant {
        Instant::now() + self.settings.connect_within.max(super::REFRESH_WITHIN)
    }
}
