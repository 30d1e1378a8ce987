//! File descriptors: so many for connections, and the others for files, which connections can never take.
//!
//! ```text
//! limit of the process = files open now + a reserve for files + connections of all listeners
//! ```

use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::sync::Notify;

/// The name of the condition that connections wait for descriptors.
pub(crate) const CONDITION: &str = "descriptors";
/// Descriptors that stay free for files: an eighth of all, within these bounds.
const RESERVE: (usize, usize) = (8, 1024);

/// Raises the limit of open files to the highest that this process may set, and logs it if that cannot be.
pub fn raise_file_limit() {
    let maximum = getrlimit(Resource::Nofile).maximum;
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        tracing::warn!(%error, "the limit of open files stays as it is");
    }
}

/// The descriptors of a process that its connections may have.
#[derive(Debug)]
pub(crate) struct DescriptorBudget {
    /// The limit of the process.
    limit: usize,
    /// Most open connections, as files are now.
    allowed: AtomicUsize,
    open: AtomicUsize,
    freed: Notify,
}

/// A connection's descriptor.
#[derive(Debug)]
pub(crate) struct DescriptorPermit(Arc<DescriptorBudget>);

impl DescriptorBudget {
    /// Returns those of this process.
    pub(crate) fn of_process() -> DescriptorBudget {
        let limit = getrlimit(Resource::Nofile).current.and_then(|limit| usize::try_from(limit).ok());
        let all = DescriptorBudget::new(limit.unwrap_or(usize::MAX), 0);
        all.look();
        all
    }

    fn new(limit: usize, files: usize) -> DescriptorBudget {
        let all = DescriptorBudget {
            limit,
            allowed: AtomicUsize::new(0),
            open: AtomicUsize::new(0),
            freed: Notify::new(),
        };
        all.leave_to(files);
        all
    }

    /// Counts anew what files there are, which grow in number with ledger and journal.
    pub(crate) fn look(&self) {
        // The directory that is read has a descriptor, too. Without one nothing is known anew.
        if let Ok(entries) = std::fs::read_dir("/dev/fd") {
            self.leave_to(entries.count().saturating_sub(self.open.load(Ordering::Relaxed)));
        }
    }

    fn leave_to(&self, files: usize) {
        let reserve = (self.limit / 8).clamp(RESERVE.0, RESERVE.1);
        // One connection at least, so that somebody can ask what is the matter.
        let allowed = self.limit.saturating_sub(files).saturating_sub(reserve).max(1);
        self.allowed.store(allowed, Ordering::Relaxed);
        self.freed.notify_waiters();
    }

    /// Waits for a descriptor for a connection that is about to be accepted.
    pub(crate) async fn take(self: &Arc<Self>) -> DescriptorPermit {
        loop {
            let freed = self.freed.notified();
            if let Some(descriptor) = self.try_take() {
                return descriptor;
            }
            freed.await;
        }
    }

    fn try_take(self: &Arc<Self>) -> Option<DescriptorPermit> {
        let allowed = self.allowed.load(Ordering::Relaxed);
        let more = |open: usize| (open < allowed).then_some(open + 1);
        self.open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(DescriptorPermit(Arc::clone(self)))
    }

    /// Returns what is wrong while connections wait for descriptors.
    pub(crate) fn shortage(&self) -> Option<String> {
        let (open, allowed) = (self.open.load(Ordering::Relaxed), self.allowed.load(Ordering::Relaxed));
        (open >= allowed).then(|| {
            let limit = self.limit;
            format!(
                "{open} connections are open, which is all that {limit} file descriptors leave room for: raise the limit \
                 (`ulimit -n`, `LimitNOFILE=`), or lower `connections_max`"
            )
        })
    }

    /// Returns how many connections one address may have, where so many are configured: never all that there are.
    pub(crate) fn share(&self, configured: usize) -> usize {
        let allowed = self.allowed.load(Ordering::Relaxed);
        configured.min(allowed - allowed / 4)
    }
}

impl Drop for DescriptorPermit {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
        self.0.freed.notify_waiters();
    }
}

/// Open connections by address.
#[derive(Debug, Default)]
pub(crate) struct ClientConnections(Mutex<HashMap<IpAddr, usize>>);

/// A connection's place among those of its client.
#[derive(Debug)]
pub(crate) struct ClientConnectionPermit {
    clients: Arc<ClientConnections>,
    client: IpAddr,
}

impl ClientConnections {
    /// Takes a place of a client that may have so many.
    pub(crate) fn take(self: &Arc<Self>, client: IpAddr, max: usize) -> Option<ClientConnectionPermit> {
        let mut open = self.0.lock();
        let count = open.entry(client).or_default();
        if *count >= max {
            return None;
        }
        *count += 1;
        Some(ClientConnectionPermit { clients: Arc::clone(self), client })
    }
}

impl Drop for ClientConnectionPermit {
    fn drop(&mut self) {
        let mut open = self.clients.0.lock();
        if let Some(count) = open.get_mut(&self.client) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn a_client_has_so_many_places() {
        let clients = Arc::new(ClientConnections::default());
        let (a, b) = (IpAddr::from(Ipv4Addr::new(192, 0, 2, 1)), IpAddr::from(Ipv4Addr::new(192, 0, 2, 2)));
        let first = clients.take(a, 2);
        let second = clients.take(a, 2);
        assert!(first.is_some() && second.is_some() && clients.take(a, 2).is_none());
        assert!(clients.take(b, 2).is_some(), "others have their own");
        drop(first);
        assert!(clients.take(a, 2).is_some());
        drop(second);
        assert!(clients.0.lock().is_empty(), "nothing is kept of clients that are gone");
    }

    #[tokio::test]
    async fn files_have_descriptors_that_connections_cannot_take() {
        let all = Arc::new(DescriptorBudget::new(64, 20));
        let held: Vec<DescriptorPermit> = std::iter::from_fn(|| all.try_take()).collect();
        assert_eq!(held.len(), 64 - 20 - 8);
        assert!(all.shortage().is_some_and(|failure| failure.starts_with("36 connections")));
        assert_eq!((all.share(500), all.share(5)), (27, 5));
        // Files that come take them from connections to come.
        all.leave_to(40);
        assert!(all.try_take().is_none() && all.share(500) == 12);
        drop(held);
        assert!(all.shortage().is_none());
        drop(all.take().await);
        all.leave_to(1000);
        let last = all.take().await;
        assert!(all.try_take().is_none(), "one can always ask");
        let (next, ()) = tokio::join!(all.take(), async {
            tokio::task::yield_now().await;
            drop(last);
        });
        drop(next);
    }
}
