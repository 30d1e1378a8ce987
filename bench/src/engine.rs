//! The operations that an engine offers the benchmarks, and the list of engines.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::cell::Reading;
use crate::peers;
use crate::workload::{Batch, Micros, Statistic};

/// Anything that can go wrong ends the run of that engine.
pub(crate) type Error = Box<dyn std::error::Error + Send + Sync>;

/// An engine that keeps the statistic of one workload.
pub(crate) trait Engine {
    /// Reads the statistic of each key of the batch, in order, and then adds its event. Answers the sum of
    /// [`Reading::counted`] over what was read.
    fn observe(&mut self, batch: &Batch) -> Result<u64, Error>;

    /// Reads keys without adding, as of a time.
    fn read(&mut self, keys: &[u64], time: Micros) -> Result<Vec<Reading>, Error>;

    /// Makes all that was observed as durable as the engine was configured to, now.
    fn settle(&mut self) -> Result<(), Error>;

    /// The process of the engine, if it is a server.
    fn server(&self) -> Option<u32> {
        None
    }

    /// The engine's own figure of its memory, where it has more than its process is resident with.
    fn memory_bytes(&mut self) -> Result<Option<u64>, Error> {
        Ok(None)
    }

    /// Ends it so that it can be opened again.
    fn close(self: Box<Self>) -> Result<(), Error>;
}

/// Options of opening an engine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EngineOptions<'a> {
    /// An empty directory, or the one of an engine that was closed.
    pub(crate) directory: &'a Path,
    pub(crate) statistic: Statistic,
    /// The memory for caches of data on disk; for servers, the limit.
    pub(crate) memory_bytes: u64,
}

/// The engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Peer {
    /// Tollhouse's embedded ledger.
    Tollhouse,
    /// Redis, plain commands in a pipeline.
    RedisCommands,
    /// Redis, one Lua script a message.
    RedisScript,
    /// Tarantool, one stored procedure in Lua a message.
    Tarantool,
    /// RocksDB, MultiGet and a merge operator.
    RocksdbMerge,
    /// RocksDB, MultiGet and Put.
    RocksdbPut,
    /// fjall, get and insert.
    Fjall,
    /// redb, get and insert in a write transaction.
    Redb,
}

impl Peer {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Peer::Tollhouse => "tollhouse",
            Peer::RedisCommands => "redis-commands",
            Peer::RedisScript => "redis-script",
            Peer::Tarantool => "tarantool",
            Peer::RocksdbMerge => "rocksdb-merge",
            Peer::RocksdbPut => "rocksdb-put",
            Peer::Fjall => "fjall",
            Peer::Redb => "redb",
        }
    }

    /// The version that would be measured, or why it cannot be.
    pub(crate) fn version(self) -> Result<String, String> {
        match self {
            Peer::Tollhouse => Ok("this tree".to_owned()),
            Peer::RedisCommands | Peer::RedisScript => peers::redis::version(),
            Peer::Tarantool => peers::tarantool::version(),
            Peer::RocksdbMerge | Peer::RocksdbPut => peers::rocksdb_version(),
            Peer::Fjall => Ok(locked_version("fjall")),
            Peer::Redb => Ok(locked_version("redb")),
        }
    }

    pub(crate) fn open(self, opening: EngineOptions<'_>) -> Result<Box<dyn Engine>, Error> {
        match self {
            Peer::Tollhouse => peers::tollhouse::open(opening),
            Peer::RedisCommands => peers::redis::open(opening, peers::redis::RedisMethod::Commands),
            Peer::RedisScript => peers::redis::open(opening, peers::redis::RedisMethod::Script),
            Peer::Tarantool => peers::tarantool::open(opening),
            Peer::RocksdbMerge => peers::open_rocksdb(opening, true),
            Peer::RocksdbPut => peers::open_rocksdb(opening, false),
            Peer::Fjall => peers::fjall::open(opening),
            Peer::Redb => peers::redb::open(opening),
        }
    }
}

/// The version of a package in this workspace's lock file.
fn locked_version(package: &str) -> String {
    let lock = include_str!("../Cargo.lock");
    let entry = lock.split("[[package]]").find(|entry| entry.contains(&format!("\nname = \"{package}\"\n")));
    let version = entry.and_then(|entry| entry.split("version = \"").nth(1)?.split('"').next());
    version.unwrap_or("unknown").to_owned()
}
