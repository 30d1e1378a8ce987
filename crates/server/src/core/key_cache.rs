//! Keys of those who sign requests: fetched in the background from the URLs that the configuration names, and from nowhere else.
//!
//! ```text
//! every second ─► due? ─► GET, at most 256 KiB within ten seconds, no redirections ─► the keys, or those of before for a day
//! request ─► keys at hand, or none; a key that is not among them makes its directory due, once a minute at most
//! ```
//!
//! No request waits for it. There are as many entries as directories in the configuration.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gate::signature::{DIRECTORY_BYTES_MAX, KeyDirectory};
use parking_lot::Mutex;
use plan::{KeyDirectoryPlan, KeyDirectorySource};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use crate::core::blocking::blocking;
use crate::core::http_client::http_client;

/// The interval at which it is looked which directories are due.
pub(crate) const LOOK: Duration = Duration::from_millis(250);
/// The shortest time between two fetches of a directory that nobody configured.
const PAUSE: Duration = Duration::from_secs(60);
/// The time for which keys count that could not be fetched again.
const STALE_MAX: Duration = Duration::from_secs(24 * 3600);
/// The time for one fetch.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A result of a fetch.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct FetchLabel {
    directory: String,
    result: &'static str,
}

/// The keys that were fetched, by the name of the directory.
#[derive(Debug, Default)]
pub(crate) struct KeyCache {
    entries: Mutex<HashMap<String, CachedKeys>>,
    fetches: Family<FetchLabel, Counter>,
}

#[derive(Debug)]
struct CachedKeys {
    /// The place that they are of: another one, or one that somebody else vouches for, has its own.
    source: KeyDirectorySource,
    keys: Option<Arc<KeyDirectory>>,
    /// The time of the last fetch that succeeded.
    fetched: Option<Instant>,
    /// The time of the last fetch.
    tried: Instant,
    due: Instant,
}

impl KeyCache {
    pub(crate) fn new(registry: &mut Registry) -> KeyCache {
        let cache = KeyCache::default();
        registry.register(
            "tollhouse_key_directory_fetches",
            "Fetches of directories of keys, by result: `ok` or `failed`",
            cache.fetches.clone(),
        );
        cache
    }

    /// Returns the keys of a directory, if they are at hand.
    pub(crate) fn keys(&self, directory: &KeyDirectoryPlan) -> Option<Arc<KeyDirectory>> {
        match &directory.source {
            KeyDirectorySource::File(keys) => Some(Arc::clone(keys)),
            KeyDirectorySource::Url { .. } => {
                let entries = self.entries.lock();
                let entry = entries.get(&directory.name).filter(|entry| entry.source == directory.source)?;
                entry.fetched.filter(|fetched| fetched.elapsed() < STALE_MAX)?;
                entry.keys.clone()
            }
        }
    }

    /// Makes a directory due, as somebody uses a key that is not in it: it may be new.
    pub(crate) fn miss(&self, directory: &KeyDirectoryPlan) {
        if let Some(entry) = self.entries.lock().get_mut(&directory.name)
            && entry.source == directory.source
        {
            entry.due = entry.due.min(entry.tried + PAUSE);
        }
    }

    /// Fetches the directories that are due, one after the other.
    pub(crate) async fn refresh(self: &Arc<Self>, directories: &[KeyDirectoryPlan]) {
        self.entries.lock().retain(|known, entry| {
            directories.iter().any(|directory| directory.name == *known && directory.source == entry.source)
        });
        for directory in directories {
            let KeyDirectorySource::Url { url, refresh, authority } = &directory.source else { continue };
            let (name, now) = (&directory.name, Instant::now());
            if self.entries.lock().get(name).is_some_and(|entry| entry.due > now) {
                continue;
            }
            let (asked, authority) = (url.clone(), authority.clone());
            let fetched = blocking(move || fetch(&asked, authority.as_deref())).await;
            let refresh = Duration::from_micros(refresh.0.unsigned_abs());
            let result = if fetched.is_ok() { "ok" } else { "failed" };
            self.fetches.get_or_create(&FetchLabel { directory: name.clone(), result }).inc();
            let now = Instant::now();
            let mut entries = self.entries.lock();
            let entry = entries.entry(name.clone()).or_insert_with(|| CachedKeys {
                source: directory.source.clone(),
                keys: None,
                fetched: None,
                tried: now,
                due: now,
            });
            entry.tried = now;
            match fetched {
                Ok(keys) => {
                    entry.keys = Some(Arc::new(keys));
                    entry.fetched = Some(now);
                    entry.due = now + refresh;
                }
                Err(why) => {
                    tracing::warn!(directory = %name, %why, "the keys of a signer cannot be fetched");
                    entry.due = now + refresh.min(PAUSE);
                }
            }
        }
    }
}

/// Fetches a directory from a host that public authorities vouch for, or those of a configuration.
fn fetch(url: &str, authority: Option<&str>) -> Result<KeyDirectory, String> {
    let agent = http_client(authority, TIMEOUT, false);
    let mut answer = agent.get(url).call().map_err(|error| error.to_string())?;
    let body = answer.body_mut().with_config().limit(DIRECTORY_BYTES_MAX as u64);
    let bytes = body.read_to_vec().map_err(|error| error.to_string())?;
    KeyDirectory::read(&bytes).map_err(|error| error.to_string())
}
