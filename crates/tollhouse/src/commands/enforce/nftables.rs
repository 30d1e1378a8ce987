//! `tollhouse enforce nftables`: named sets with time-outs.
//!
//! A batch of changes is one transaction: packets see the sets before it or after it. Where one fails, as when somebody else has changed
//! the sets, they are emptied and filled anew, in one transaction, too.

use event::Time;

use super::mirror::{BanMirror, BannedNetwork, TargetChange};
use super::{EnforcementTarget, program};

/// Elements of one statement.
const ELEMENTS: usize = 1000;

/// Sets of nftables.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct NftablesOptions {
    /// Family of the table
    #[arg(long, value_name = "FAMILY", default_value = "inet", value_parser = ["inet", "ip", "ip6", "bridge", "netdev"])]
    pub(super) family: String,
    /// Table, created if missing
    #[arg(long, value_name = "NAME", default_value = "tollhouse", value_parser = super::set_name)]
    pub(super) table: String,
    /// Set of IPv4 addresses and networks
    #[arg(long, value_name = "NAME", default_value = "banned4", value_parser = super::set_name)]
    pub(super) set4: String,
    /// Set of IPv6 addresses and networks
    #[arg(long, value_name = "NAME", default_value = "banned6", value_parser = super::set_name)]
    pub(super) set6: String,
    /// Also create a chain `banned`, before other input chains, that drops their packets
    #[arg(long)]
    pub(super) drop: bool,
    /// The program
    #[arg(long, value_name = "PATH", default_value = "nft")]
    pub(super) nft: String,
}

/// Sets of nftables that are kept in step.
pub(super) struct NftablesTarget {
    pub(super) options: NftablesOptions,
}

impl NftablesTarget {
    fn set(&self, network: BannedNetwork) -> &str {
        if network.is_v6 { &self.options.set6 } else { &self.options.set4 }
    }

    fn head(&self, out: &mut String) {
        let NftablesOptions { family, table, set4, set6, drop, .. } = &self.options;
        *out += &format!("add table {family} {table}\n");
        for (set, kind) in self.sets() {
            *out += &format!("add set {family} {table} {set} {{ type {kind}; flags interval, timeout; }}\n");
        }
        if *drop {
            let chain = format!("{family} {table} banned");
            *out += &format!("add chain {chain} {{ type filter hook input priority -10; policy accept; }}\n");
            *out += &format!("flush chain {chain}\n");
            if family != "ip6" {
                *out += &format!("add rule {chain} ip saddr @{set4} drop\n");
            }
            if family != "ip" {
                *out += &format!("add rule {chain} ip6 saddr @{set6} drop\n");
            }
        }
    }

    /// The sets that a table of this family can have.
    fn sets(&self) -> Vec<(&str, &'static str)> {
        let NftablesOptions { family, set4, set6, .. } = &self.options;
        let both = [(set4.as_str(), "ipv4_addr", "ip6"), (set6.as_str(), "ipv6_addr", "ip")];
        let own = both.into_iter().filter(|(.., other)| family != other);
        own.map(|(set, kind, _)| (set, kind)).collect()
    }

    /// Writes statements about many elements.
    fn elements(&self, verb: &str, elements: &[(BannedNetwork, Option<i64>)], out: &mut String) {
        let NftablesOptions { family, table, .. } = &self.options;
        for (set, _) in self.sets() {
            let own: Vec<_> = elements.iter().filter(|(network, _)| self.set(*network) == set).collect();
            for part in own.chunks(ELEMENTS) {
                *out += &format!("{verb} element {family} {table} {set} {{ ");
                for (at, (network, left)) in part.iter().enumerate() {
                    *out += if at == 0 { "" } else { ", " };
                    *out += &network.to_string();
                    if let Some(left) = left {
                        *out += &format!(" timeout {}s{}ms", left / 1000, left % 1000);
                    }
                }
                *out += " }\n";
            }
        }
    }
}

impl EnforcementTarget for NftablesTarget {
    fn all(&self, mirror: &BanMirror, now: Time) -> Option<String> {
        let NftablesOptions { family, table, .. } = &self.options;
        let mut out = String::new();
        self.head(&mut out);
        for (set, _) in self.sets() {
            out += &format!("flush set {family} {table} {set}\n");
        }
        let elements: Vec<_> =
            mirror.shown().iter().map(|(network, until)| (*network, Some(left(*until, now)))).collect();
        self.elements("add", &elements, &mut out);
        Some(out)
    }

    fn changes(&self, changes: &[TargetChange], now: Time) -> Option<String> {
        // An element that is there would keep its time-out, so it goes first; and one that has ended by itself could not go, so it
        // is put there before. Of several changes of a network the last one counts.
        let mut last = std::collections::BTreeMap::new();
        for change in changes {
            match *change {
                TargetChange::Ban(network, until) => last.insert(network, Some(left(until, now))),
                TargetChange::Lift(network) => last.insert(network, None),
            };
        }
        let mut out = String::new();
        // What is in the set may lie in what comes, so all that goes does so before.
        let known: Vec<_> = last.keys().map(|network| (*network, None)).collect();
        let gone: Vec<_> = known.iter().filter(|(network, _)| last[network].is_none()).copied().collect();
        self.elements("add", &gone, &mut out);
        self.elements("delete", &gone, &mut out);
        let new: Vec<_> =
            last.iter().filter(|(_, left)| left.is_some()).map(|(n, left)| (*n, *left)).collect();
        let bare: Vec<_> = new.iter().map(|(network, _)| (*network, None)).collect();
        self.elements("add", &bare, &mut out);
        self.elements("delete", &bare, &mut out);
        self.elements("add", &new, &mut out);
        Some(out)
    }

    fn run(&mut self, script: &str) -> Result<(), String> {
        program::run(&self.options.nft, &["-f".to_owned(), "-".to_owned()], Some(script))
    }
}

/// The milliseconds that are left of a ban, at least one.
fn left(until: Time, now: Time) -> i64 {
    ((until - now).0 / 1000).max(1)
}
