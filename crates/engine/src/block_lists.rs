//! Block lists: addresses that others publish as bad, for rules, and with an `action` for enforcement points.
//!
//! A list is a sorted table of ranges: some eight bytes an entry of IPv4, and a look-up is one short search. Rules see it as a fact, which
//! is missing while the list was never had or has not been for too long. Entries of a list with an `action` are also bans of the ban
//! list, each as long as the list counts. What is on the allow list is on no block list.

use std::collections::HashMap;
use std::sync::Arc;

use event::{Facts, Time, Value};
use judge::{Network, Networks};
use plan::BlockListPlan;
use plan::formats::block_list::BlockListEntry;

use crate::Engine;

/// Most entries of a block list.
pub const BLOCK_LIST_ENTRIES_MAX: usize = 8_000_000;
/// Most entries of a block list that are bans: they cost some hundred bytes each.
const BANS_MAX: usize = 5_000_000;
/// Parts that a network with an allowed address in it is cut into at most. Beyond it none of it is banned.
const PARTS_MAX: usize = 256;

/// A block list that was read.
#[derive(Debug, Default)]
pub(crate) struct BlockList {
    networks: Arc<Networks>,
    /// Entries with an end of their own, the first to end first.
    timed: Vec<(Time, Network)>,
    /// Networks of these entries, for look-ups.
    timed_networks: Networks,
    until: Time,
    action: Option<String>,
}

impl BlockList {
    /// Makes the list of what was read.
    pub(crate) fn new(plan: &BlockListPlan, entries: Vec<BlockListEntry>, now: Time) -> BlockList {
        let timed = entries.iter().filter_map(|entry| Some((now + entry.lasts?, entry.network)));
        let mut timed: Vec<(Time, Network)> = timed.collect();
        timed.sort_unstable_by_key(|(end, _)| *end);
        let networks = entries.into_iter().filter(|entry| entry.lasts.is_none()).map(|entry| entry.network);
        let (until, action) = (now + plan.expires, plan.action.clone());
        let networks = Arc::new(Networks::new(networks));
        let mut list = BlockList { networks, timed, timed_networks: Networks::default(), until, action };
        list.expire(now);
        list
    }

    /// Lets go of entries that have ended.
    fn expire(&mut self, now: Time) {
        let ended = self.timed.partition_point(|(end, _)| *end <= now);
        self.timed.drain(..ended);
        self.timed_networks = Networks::new(self.timed.iter().map(|(_, network)| *network));
    }

    /// Returns the list without what has ended; `None` where nothing has.
    fn expired(&self, now: Time) -> Option<BlockList> {
        self.timed.first().filter(|(end, _)| *end <= now)?;
        let mut list = BlockList {
            networks: Arc::clone(&self.networks),
            timed: self.timed.clone(),
            timed_networks: Networks::default(),
            until: self.until,
            action: self.action.clone(),
        };
        list.expire(now);
        Some(list)
    }

    pub(crate) fn contains(&self, address: std::net::IpAddr) -> bool {
        self.networks.contain(address) || self.timed_networks.contain(address)
    }

    fn len(&self) -> usize {
        self.networks.len() + self.timed.len()
    }
}

/// The block lists that were read, by name.
pub(crate) type BlockLists = HashMap<Arc<str>, Arc<BlockList>>;

impl Engine {
    /// Puts what was read of a block list in force, instead of what was read before. Answers how many ranges it is.
    pub fn put_block_list(&self, plan: &BlockListPlan, entries: Vec<BlockListEntry>, now: Time) -> usize {
        let allow = self.ban_list.allow();
        if let Some(action) = &plan.action {
            let mut bans = Vec::new();
            for BlockListEntry { network, lasts } in &entries {
                let until = lasts.map_or(plan.expires, |lasts| lasts.min(plan.expires));
                // What is allowed is cut out.
                let parts = allow.parts_beside(*network, PARTS_MAX).unwrap_or_default();
                bans.extend(parts.into_iter().map(|part| (part.to_string(), now + until)));
                if bans.len() >= BANS_MAX {
                    tracing::warn!(list = %plan.name, most = BANS_MAX, "a block list has more entries than are banned");
                    break;
                }
            }
            self.ban_list.replace_list(&plan.name, Some(action), bans, now);
        } else {
            self.ban_list.replace_list(&plan.name, None, Vec::new(), now);
        }
        let list = BlockList::new(plan, entries, now);
        let length = list.len();
        self.change_block_lists(|lists| _ = lists.insert(Arc::clone(&plan.name), Arc::new(list)));
        length
    }

    /// Lets go of block lists that the plan does not name any more, and of entries that have ended.
    pub fn keep_block_lists(&self, now: Time) {
        let (plan, lists) = (self.plan(), Arc::clone(&self.block_lists.read()));
        for (name, list) in lists.iter() {
            if !plan.block_lists.iter().any(|own| own.name == *name) {
                self.change_block_lists(|lists| _ = lists.remove(name));
                if list.action.is_some() {
                    self.ban_list.replace_list(name, None, Vec::new(), now);
                }
            } else if let Some(list) = list.expired(now) {
                self.change_block_lists(|lists| _ = lists.insert(Arc::clone(name), Arc::new(list)));
            }
        }
    }

    fn change_block_lists(&self, change: impl FnOnce(&mut BlockLists)) {
        let mut own = self.block_lists.write();
        let mut lists = BlockLists::clone(&own);
        change(&mut lists);
        *own = Arc::new(lists);
    }

    /// Fills the facts of block lists.
    pub(crate) fn read_block_lists(&self, pipeline: &plan::Pipeline, facts: &mut Facts, arrival: Time) {
        let Some(columns) = &pipeline.block_lists else { return };
        let Some(Value::Ip(address)) = facts.get(columns.client) else { return };
        let (address, lists) = (*address, Arc::clone(&self.block_lists.read()));
        for (name, slot) in &columns.lists {
            // What is missing says so: nothing is guessed, nor taken from the event.
            facts.clear(*slot);
            let Some(list) = lists.get(name).filter(|list| list.until > arrival) else { continue };
            let is_on_it = list.contains(address) && !self.ban_list.allow().has_address(address);
            facts.set(*slot, is_on_it);
        }
    }
}

#[cfg(test)]
mod tests {
    use event::Span;
    use plan::BlockListSource;

    use super::*;

    /// With `TOLLHOUSE_KEYS=5000000` it says how much memory a list takes, and how long a look-up.
    #[test]
    fn a_look_up_is_one_search() {
        let wanted = std::env::var("TOLLHOUSE_KEYS").ok().and_then(|keys| keys.parse::<u32>().ok());
        let keys = wanted.unwrap_or(20_000);
        let plan = BlockListPlan {
            name: Arc::from("bad"),
            source: BlockListSource::Url(String::new()),
            format: None,
            refresh: Span::hours(1),
            expires: Span::days(1),
            action: None,
        };
        let address = |at: u32| {
            std::net::Ipv4Addr::from_bits(0x0100_0000 + at.wrapping_mul(2_654_435_761) % 0xD000_0000)
        };
        let entries =
            (0..keys).map(|at| BlockListEntry { network: Network::of(address(at).into()), lasts: None });
        let list = BlockList::new(&plan, entries.collect(), Time(0));
        assert!((0..keys).step_by(97).all(|at| list.contains(address(at).into())));
        assert!(list.len() > keys as usize / 2);
        if wanted.is_some() {
            let started = std::time::Instant::now();
            let found =
                (0..1_000_000u32).filter(|at| list.contains(address(at.wrapping_mul(7)).into())).count();
            let each = started.elapsed() / 1_000_000;
            println!("{keys} entries in {} ranges of 8 bytes: {each:?} a look-up, {found} found", list.len());
        }
    }
}
