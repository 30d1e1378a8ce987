//! The allow list as time goes on: posted entries end, and addresses of names are asked for in the background, of the system's name
//! service.
//!
//! No request waits for it. A name that cannot be had keeps its addresses for a day.

use std::collections::HashMap;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::core::blocking::blocking;
use crate::core::node::Node;

/// The interval at which it is looked whether names have changed.
const LOOK: Duration = Duration::from_secs(1);
/// The interval at which names are asked for.
const REFRESH: Duration = Duration::from_secs(300);
/// The time for which addresses count that could not be had again.
const STALE_MAX: Duration = Duration::from_secs(24 * 3600);
/// Most addresses of a name.
const ADDRESSES_MAX: usize = 256;

/// Keeps the addresses of names as they are found, until the server ends.
pub(crate) async fn keep(node: Arc<Node>) {
    let mut known: HashMap<String, (Instant, Vec<IpAddr>)> = HashMap::new();
    let (mut names, mut asked): (Vec<String>, Option<Instant>) = (Vec::new(), None);
    let mut ticks = tokio::time::interval(LOOK);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let (engine, now) = (Arc::clone(&node.engine), node.now());
        if let Err(error) = blocking(move || engine.end_allow_entries(now)).await {
            tracing::error!(%error, "entries of the allow list that have ended are still in force");
        }
        let plan = node.engine.plan();
        let is_due = plan.allow.names != names || asked.is_none_or(|asked| asked.elapsed() >= REFRESH);
        if !is_due || (plan.allow.names.is_empty() && names.is_empty()) {
            continue;
        }
        names.clone_from(&plan.allow.names);
        known.retain(|name, (found, _)| names.contains(name) && found.elapsed() < STALE_MAX);
        for name in &names {
            let of = name.clone();
            match blocking(move || addresses(&of)).await {
                Ok(found) if !found.is_empty() => _ = known.insert(name.clone(), (Instant::now(), found)),
                Ok(_) => tracing::warn!(name, "a name of the allow list has no address"),
                Err(error) => tracing::warn!(name, %error, "a name of the allow list cannot be looked up"),
            }
        }
        asked = Some(Instant::now());
        let found =
            known.iter().map(|(name, (_, found))| (Arc::from(name.as_str()), found.clone())).collect();
        let engine = Arc::clone(&node.engine);
        blocking(move || engine.allow_addresses(found)).await;
    }
}

fn addresses(name: &str) -> std::io::Result<Vec<IpAddr>> {
    let found = (name, 0).to_socket_addrs()?.take(ADDRESSES_MAX);
    Ok(found.map(|address| address.ip().to_canonical()).collect())
}
