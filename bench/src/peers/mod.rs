//! One module for each engine.

pub(crate) mod fjall;
mod group;
mod message_pack;
pub(crate) mod redb;
pub(crate) mod redis;
#[cfg(librocksdb)]
mod rocksdb;
pub(crate) mod tarantool;
pub(crate) mod tollhouse;

use crate::engine::{Engine, EngineOptions, Error};

/// The version of RocksDB that this program was built against.
pub(crate) fn rocksdb_version() -> Result<String, String> {
    option_env!("LIBROCKSDB_VERSION").map(str::to_owned).ok_or_else(|| {
        "librocksdb was not installed when this was built (apt-get install librocksdb-dev, then build again)".to_owned()
    })
}

#[cfg(librocksdb)]
pub(crate) fn open_rocksdb(opening: EngineOptions<'_>, merge: bool) -> Result<Box<dyn Engine>, Error> {
    rocksdb::open(opening, merge)
}

#[cfg(not(librocksdb))]
pub(crate) fn open_rocksdb(_: EngineOptions<'_>, _: bool) -> Result<Box<dyn Engine>, Error> {
    Err(rocksdb_version().err().unwrap_or_default().into())
}
