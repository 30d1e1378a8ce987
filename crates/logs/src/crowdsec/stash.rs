//! Texts that parsers put aside for later lines, such as the program of a process.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Most texts of one cache.
const ENTRIES_MAX: usize = 100_000;
/// Most caches.
const CACHES_MAX: usize = 1_000;

#[derive(Debug, Default)]
struct StashCache {
    texts: BTreeMap<Arc<str>, (Arc<str>, i64)>,
    order: VecDeque<Arc<str>>,
}

/// Caches by their names. The oldest text leaves a cache that is full.
#[derive(Debug, Default)]
pub struct CrowdsecStash {
    caches: BTreeMap<Arc<str>, StashCache>,
}

impl CrowdsecStash {
    /// Puts a text aside until a time, in nanoseconds since 1970, in a cache of at most so many.
    pub fn put(&mut self, cache: &Arc<str>, key: &str, text: &str, until: i64, most: usize) {
        if !self.caches.contains_key(cache) && self.caches.len() >= CACHES_MAX {
            return;
        }
        let cache = self.caches.entry(Arc::clone(cache)).or_default();
        let key: Arc<str> = Arc::from(key);
        if cache.texts.insert(Arc::clone(&key), (Arc::from(text), until)).is_none() {
            cache.order.push_back(key);
        }
        while cache.order.len() > most.clamp(1, ENTRIES_MAX) {
            if let Some(oldest) = cache.order.pop_front() {
                cache.texts.remove(&oldest);
            }
        }
    }

    /// The text of a key, unless its time is over.
    pub fn get(&self, cache: &str, key: &str, now: i64) -> Option<Arc<str>> {
        let (text, until) = self.caches.get(cache)?.texts.get(key)?;
        (*until > now).then(|| Arc::clone(text))
    }
}
