//! Places and memory that all who ask share: what is kept for those who are known, and what one address can hold.
//!
//! ```text
//! all = a quarter for callers of the API + the rest, for anybody
//!                                          no other host takes more of it than three times what it leaves
//! ```
//!
//! So one host alone gets three quarters of the rest, two get as much each of what the other leaves, and whoever comes last
//! still finds something. What this host's own programs ask is not bounded by address: its proxy and its mail server have
//! the same one.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::core::trusted_proxies::network;

/// One in so many places and bytes is kept for callers of the API.
const RESERVED: usize = 4;
/// The most that one address may hold, in multiples of what it leaves to others.
const SHARE: usize = 3;

/// The caller, as far as its connection and its head show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    /// A caller of the API: it has shown a token, or none is needed.
    Known,
    /// A program of this host that was asked for no token: a proxy, a mail server.
    Local,
    /// Another host that was asked for no token, or all hosts of its network.
    Stranger(IpAddr),
}

impl Caller {
    /// Returns the caller at the other end of a connection; over a unix socket it has no address.
    pub(crate) fn of_peer(peer: Option<IpAddr>) -> Caller {
        match peer.map(|peer| peer.to_canonical()) {
            Some(peer) if !peer.is_loopback() => Caller::Stranger(network(peer)),
            _ => Caller::Local,
        }
    }
}

/// A resource that addresses share.
#[derive(Debug)]
pub(crate) struct Shares {
    open: Arc<Semaphore>,
    reserved: Arc<Semaphore>,
    holders: Arc<Holders>,
    /// The sizes of both parts.
    all: [usize; 2],
}

/// The amounts that other hosts hold.
#[derive(Debug, Default)]
struct Holders(Mutex<HashMap<IpAddr, usize>>);

/// A part that was taken. It comes back when this is dropped.
#[derive(Debug)]
pub(crate) struct Share {
    permit: OwnedSemaphorePermit,
    holder: Option<(Arc<Holders>, IpAddr)>,
}

impl Shares {
    /// Returns so much, with a reserve for callers of the API.
    pub(crate) fn new(all: usize) -> Shares {
        Shares::with_reserve(all, all.min(Semaphore::MAX_PERMITS) / RESERVED)
    }

    /// Returns so much for anybody.
    pub(crate) fn for_anybody(all: usize) -> Shares {
        Shares::with_reserve(all, 0)
    }

    fn with_reserve(all: usize, reserved: usize) -> Shares {
        let all = all.min(Semaphore::MAX_PERMITS);
        Shares {
            open: Arc::new(Semaphore::new(all - reserved)),
            reserved: Arc::new(Semaphore::new(reserved)),
            holders: Arc::default(),
            all: [all - reserved, reserved],
        }
    }

    /// Waits until all of it has come back.
    pub(crate) async fn all_back(&self) {
        for (part, all) in [&self.open, &self.reserved].into_iter().zip(self.all) {
            // The semaphores are never closed.
            let _ = part.acquire_many(u32::try_from(all).unwrap_or(u32::MAX)).await;
        }
    }

    /// Returns how much nobody has.
    #[cfg(test)]
    pub(crate) fn free(&self) -> usize {
        self.open.available_permits() + self.reserved.available_permits()
    }

    /// Takes a part, of the rest before the reserve.
    pub(crate) fn take(&self, caller: Caller, amount: usize) -> Option<Share> {
        let holder = match caller {
            Caller::Stranger(address) => Some((Arc::clone(&self.holders), address)),
            Caller::Known | Caller::Local => None,
        };
        let open = Share::of(Arc::clone(&self.open), holder, amount);
        match caller {
            Caller::Known => open.or_else(|| Share::of(Arc::clone(&self.reserved), None, amount)),
            Caller::Local | Caller::Stranger(_) => open,
        }
    }
}

impl Share {
    fn of(from: Arc<Semaphore>, holder: Option<(Arc<Holders>, IpAddr)>, amount: usize) -> Option<Share> {
        // Its lock is held meanwhile, so that two of one address do not both see the same room.
        let mut held = holder.as_ref().map(|(holders, _)| holders.0.lock());
        if let (Some(held), Some((_, address))) = (&mut held, &holder) {
            let own = held.get(address).copied().unwrap_or(0);
            let left = from.available_permits().checked_sub(amount)?;
            // The first is let through, so that there is one where there are few.
            if own > 0 && own.saturating_add(amount) > left.saturating_mul(SHARE) {
                return None;
            }
        }
        let permit = from.try_acquire_many_owned(u32::try_from(amount).ok()?).ok()?;
        if let (Some(held), Some((_, address))) = (&mut held, &holder) {
            *held.entry(*address).or_default() += amount;
        }
        drop(held);
        Some(Share { permit, holder })
    }

    /// Returns how much it is.
    pub(crate) fn amount(&self) -> usize {
        self.permit.num_permits()
    }

    /// Gives some of it back.
    #[cfg(any(test, feature = "grpc"))]
    pub(crate) fn shrink(&mut self, amount: usize) {
        let gone = self.permit.split(amount).map_or(0, |gone| gone.num_permits());
        if let Some((holders, address)) = &self.holder {
            holders.give_back(*address, gone);
        }
    }

    /// Takes more, from where it was taken. Says whether that could be.
    pub(crate) fn grow(&mut self, amount: usize) -> bool {
        let more = Share::of(Arc::clone(self.permit.semaphore()), self.holder.clone(), amount);
        more.is_some_and(|mut more| {
            // What is moved here is no longer its.
            if let Some(moved) = more.permit.split(amount) {
                self.permit.merge(moved);
            }
            true
        })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        if let Some((holders, address)) = &self.holder {
            holders.give_back(*address, self.permit.num_permits());
        }
    }
}

impl Holders {
    fn give_back(&self, address: IpAddr, amount: usize) {
        let mut held = self.0.lock();
        if let Some(own) = held.get_mut(&address) {
            *own = own.saturating_sub(amount);
            if *own == 0 {
                held.remove(&address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stranger(address: &str) -> Caller {
        Caller::of_peer(Some(address.parse().unwrap()))
    }

    /// Takes one by one as long as there is any.
    fn all(shares: &Shares, caller: Caller) -> Vec<Share> {
        std::iter::from_fn(|| shares.take(caller, 1)).collect()
    }

    #[test]
    fn those_who_are_known_have_a_reserve() {
        let shares = Shares::new(10);
        let local = all(&shares, Caller::Local);
        assert_eq!((local.len(), all(&shares, Caller::Known).len()), (8, 2));
        assert!(shares.take(stranger("192.0.2.1"), 1).is_none());
        drop(local);
        assert_eq!(all(&shares, Caller::Known).len(), 10, "who is known may have all");
    }

    #[test]
    fn no_address_takes_what_all_others_need() {
        let shares = Shares::new(128);
        let first = all(&shares, stranger("192.0.2.1"));
        assert_eq!(first.len(), 72, "three quarters of the 96 that anybody may have");
        let second = all(&shares, stranger("192.0.2.2"));
        assert_eq!(second.len(), 18);
        // A network of IPv6 is one.
        let third = all(&shares, stranger("2001:db8::1"));
        assert_eq!((third.len(), all(&shares, stranger("2001:db8::2")).len()), (4, 0));
        assert_eq!(all(&shares, Caller::Local).len(), 2, "this host's own take what is left");
        drop((second, third));
        assert!(shares.take(stranger("192.0.2.3"), 1).is_some());
        drop(first);
        assert_eq!(shares.free(), 128);
        assert!(shares.holders.0.lock().is_empty(), "nothing is kept of those that are gone");
    }

    #[test]
    fn what_grows_is_counted_once() {
        let shares = Shares::new(128);
        let mut share = shares.take(stranger("192.0.2.1"), 40).unwrap();
        assert!(share.grow(32) && !share.grow(1));
        assert_eq!((share.amount(), shares.free()), (72, 56));
        share.shrink(2);
        assert!(share.grow(2) && !share.grow(1));
        let mut own = shares.take(Caller::Local, 1).unwrap();
        assert!(own.grow(23) && !own.grow(1));
        drop((share, own));
        assert_eq!((shares.free(), shares.holders.0.lock().len()), (128, 0));
    }

    #[test]
    fn where_there_is_one_an_address_gets_it() {
        let shares = Shares::new(1);
        assert_eq!(all(&shares, stranger("192.0.2.1")).len(), 1);
    }
}
