//! Wrong tokens and passwords: each is counted, told in the log, and answered late, the later the more an address has named.
//! Tokens that have expired, or lack a scope, are counted and told with their name, and not answered late: they are no guesses.
//!
//! A right one is never late, whoever else has named wrong ones before it: tokens and passwords are too long to be found by
//! trying, and a program with an outdated one must not lock out its neighbours.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::core::metrics::ServerMetrics;
use crate::core::trusted_proxies::network;

/// Most addresses that are remembered.
const ADDRESSES_MAX: usize = 4096;
/// Addresses of which the one that was silent longest makes room for another.
const CANDIDATES: usize = 16;
/// The delay of the first wrong one. Each further one doubles it.
const DELAY: Duration = Duration::from_millis(100);
const DELAY_MAX: Duration = Duration::from_secs(5);
/// Silence after which half of an address's wrong ones are forgotten.
const HALF_LIFE: Duration = Duration::from_secs(60);
/// Time between two lines in the log.
const QUIET: Duration = Duration::from_secs(1);

/// The addresses that have named wrong tokens or passwords.
#[derive(Debug, Default)]
pub(crate) struct AuthFailures {
    addresses: Mutex<HashMap<IpAddr, AuthFailureCount>>,
    log_throttle: LogThrottle,
}

#[derive(Clone, Copy, Debug)]
struct AuthFailureCount {
    wrong: u32,
    latest: Instant,
}

impl AuthFailureCount {
    /// Returns the wrong ones that are not forgotten.
    fn remembered(self, now: Instant) -> u32 {
        let halvings = now.saturating_duration_since(self.latest).as_secs() / HALF_LIFE.as_secs();
        self.wrong.checked_shr(u32::try_from(halvings).unwrap_or(u32::MAX)).unwrap_or(0)
    }
}

impl AuthFailures {
    /// Counts a wrong token or password, says so, and waits until it may be answered. A client over a unix socket has no
    /// address; all of them are one.
    pub(crate) async fn wrong(&self, metrics: &ServerMetrics, listener: &str, client: Option<IpAddr>) {
        metrics.wrong_token(listener);
        metrics.refused_token(listener, "unknown");
        let client = client.unwrap_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED)).to_canonical();
        let delay = self.delay(client, Instant::now());
        if let Some(more) = self.log_throttle.pass() {
            tracing::warn!(listener, %client, more, "a wrong token or password");
        }
        sleep(delay).await;
    }

    /// Counts a token that no longer holds, and says whose it is. It is no guess, so nobody waits for it.
    pub(crate) fn expired(
        &self,
        metrics: &ServerMetrics,
        listener: &str,
        token: &str,
        client: Option<IpAddr>,
    ) {
        metrics.refused_token(listener, "expired");
        self.tell(listener, token, client, "a token that no longer holds");
    }

    /// Counts a token that may not be used for what was asked, and says whose it is.
    pub(crate) fn unscoped(
        &self,
        metrics: &ServerMetrics,
        listener: &str,
        token: &str,
        client: Option<IpAddr>,
    ) {
        metrics.refused_token(listener, "scope");
        self.tell(listener, token, client, "a token was used for what it may not do");
    }

    fn tell(&self, listener: &str, token: &str, client: Option<IpAddr>, what: &str) {
        if let Some(more) = self.log_throttle.pass() {
            let client = client.unwrap_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED)).to_canonical();
            tracing::warn!(listener, token, %client, more, "{what}");
        }
    }

    fn delay(&self, client: IpAddr, now: Instant) -> Duration {
        let of = network(client);
        let mut addresses = self.addresses.lock();
        if addresses.len() >= ADDRESSES_MAX && !addresses.contains_key(&of) {
            make_room(&mut addresses);
        }
        let guesser = addresses.entry(of).or_insert(AuthFailureCount { wrong: 0, latest: now });
        let wrong = guesser.remembered(now);
        *guesser = AuthFailureCount { wrong: wrong.saturating_add(1), latest: now };
        DELAY.saturating_mul(1 << wrong.min(16)).min(DELAY_MAX)
    }
}

fn make_room(addresses: &mut HashMap<IpAddr, AuthFailureCount>) {
    let candidates = addresses.iter().take(CANDIDATES);
    let oldest = candidates.min_by_key(|(_, guesser)| guesser.latest).map(|(address, _)| *address);
    oldest.map(|address| addresses.remove(&address));
}

/// A gate for lines of the log that strangers can cause: one a second passes, and says how many did not.
#[derive(Debug)]
pub(crate) struct LogThrottle {
    since: Instant,
    /// The time at which the next may pass, in milliseconds after `since`.
    next: AtomicU64,
    held: AtomicU64,
}

impl Default for LogThrottle {
    fn default() -> LogThrottle {
        LogThrottle { since: Instant::now(), next: AtomicU64::new(0), held: AtomicU64::new(0) }
    }
}

impl LogThrottle {
    /// Lets a line pass, with the number of those that did not since the last.
    pub(crate) fn pass(&self) -> Option<u64> {
        let now = self.since.elapsed().as_millis() as u64;
        let later = |next: u64| (next <= now).then_some(now + QUIET.as_millis() as u64);
        if self.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, later).is_ok() {
            return Some(self.held.swap(0, Ordering::Relaxed));
        }
        self.held.fetch_add(1, Ordering::Relaxed);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(number: u32) -> IpAddr {
        IpAddr::from(number.to_be_bytes())
    }

    #[tokio::test(start_paused = true)]
    async fn delays_grow_for_each_address_and_are_forgotten() {
        let guesses = AuthFailures::default();
        let now = Instant::now();
        let delays = |count: usize, client: IpAddr| -> Vec<u64> {
            (0..count).map(|_| guesses.delay(client, now).as_millis() as u64).collect()
        };
        assert_eq!(delays(8, address(1)), [100, 200, 400, 800, 1600, 3200, 5000, 5000]);
        assert_eq!(delays(1, address(2)), [100], "another address has done nothing");
        // One network of IPv6 is one client.
        let [a, b] = ["2001:db8::1", "2001:db8::2"].map(|text| text.parse().unwrap());
        assert_eq!((delays(1, a), delays(1, b)), (vec![100], vec![200]));
        assert_eq!(guesses.delay(address(1), now + 2 * HALF_LIFE), DELAY * 4);
        assert_eq!(guesses.delay(address(1), now + 100 * HALF_LIFE), DELAY);
    }

    #[tokio::test(start_paused = true)]
    async fn memory_is_bounded() {
        let guesses = AuthFailures::default();
        for number in 0..3 * ADDRESSES_MAX as u32 {
            guesses.delay(address(number), Instant::now());
        }
        assert_eq!(guesses.addresses.lock().len(), ADDRESSES_MAX);
    }

    #[tokio::test(start_paused = true)]
    async fn lines_are_seldom() {
        let seldom = LogThrottle::default();
        let passed: Vec<Option<u64>> = (0..4).map(|_| seldom.pass()).collect();
        assert_eq!(passed, [Some(0), None, None, None]);
        tokio::time::advance(QUIET).await;
        assert_eq!((seldom.pass(), seldom.pass()), (Some(3), None));
    }
}
