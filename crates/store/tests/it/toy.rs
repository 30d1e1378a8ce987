//! A small user of the store: values of any length that say themselves when they expire, changed several keys at a time.

use std::collections::HashMap;
use std::sync::Arc;

use disk::MemoryDevice;
use store::{
    CellSemantics, ColdKey, KeyHash, KeyLookup, LogRecord, Options, Position, RecordKey, Recovery, Store,
    StoreError,
};

/// The kind is the tag, and the first word says when a value expires.
pub(crate) struct Toy;

impl CellSemantics for Toy {
    fn kind(&self, tag: u16) -> (u16, u16) {
        (1, tag)
    }

    fn expires(&self, _tag: u16, words: &[u64]) -> i64 {
        expires(words)
    }
}

pub(crate) fn expires(words: &[u64]) -> i64 {
    words.first().map_or(i64::MIN, |word| word.cast_signed())
}

/// Keys in three shards, so that few keys suffice to fill one.
pub(crate) fn key(number: u64) -> RecordKey {
    let mixed = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ mixed >> 31).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    RecordKey { space: 1, kind: number as u16 % 5, shingle: mixed >> 9 | (number % 3) << 55 }
}

pub(crate) fn open(device: &MemoryDevice, options: Options) -> (Store, Recovery) {
    Store::open(Arc::new(device.clone()), options, &mut |_| {}).unwrap()
}

/// Gives `change` the words of each key, none if there is no live value, and keeps what it leaves of them. All changes are in one flush.
pub(crate) fn transact(
    store: &Store,
    keys: &[RecordKey],
    floor: i64,
    mut change: impl FnMut(usize, &mut Vec<u64>),
) -> Result<u64, StoreError> {
    let hashed: Vec<(usize, KeyHash)> =
        keys.iter().map(|key| KeyHash::of(key.space, key.kind, key.shingle)).collect();
    let mut images: HashMap<KeyHash, (Position, Option<LogRecord>)> = HashMap::new();
    loop {
        let run = store.run();
        let mut missing = Vec::new();
        for ((shard, hash), key) in hashed.iter().zip(keys) {
            let mut keys = run.shard(*shard);
            keys.pin();
            if let KeyLookup::Cold(_, position, words) = keys.find(*hash) {
                match images.get(hash) {
                    Some((at, image)) if *at == position => {
                        let words = image.as_ref().map(|image| image.words.as_slice());
                        keys.load(*hash, position, key.kind, words);
                    }
                    _ => missing.push(ColdKey { shard: *shard, hash: *hash, position, words }),
                }
            }
        }
        if missing.is_empty() {
            for (at, (shard, hash)) in hashed.iter().enumerate() {
                let mut cells = run.shard(*shard);
                cells.unpin();
                let mut place = cells.again(*hash, None);
                if let Some(found) = place {
                    let (tag, lost, _) = cells.visit(found);
                    assert_eq!((tag, lost), (keys[at].kind, false));
                    if expires(cells.words(found)) <= floor {
                        cells.forget(found);
                        place = None;
                    }
                }
                let mut words = place.map(|place| cells.words(place).to_vec()).unwrap_or_default();
                change(at, &mut words);
                let place = place.unwrap_or_else(|| cells.create(*hash, keys[at].kind, 1));
                let mut cell = cells.change(place, *hash);
                cell.resize(words.len());
                cell.words_mut().fill(0);
                cell.words_mut()[..words.len()].copy_from_slice(&words);
            }
            return Ok(run.epoch());
        }
        hashed.iter().for_each(|(shard, _)| run.shard(*shard).unpin());
        drop(run);
        store.read_many(&missing, &mut |at, record| {
            images.insert(missing[at].hash, (missing[at].position, record));
        })?;
    }
}
