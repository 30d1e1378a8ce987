//! `tollhouse enforce ipset`: two sets of `hash:net`, for rules of iptables.
//!
//! The whole list is filled into sets beside these, which are then swapped with them: packets see the one or the other.

use event::Time;

use super::mirror::{BanMirror, BannedNetwork, TargetChange};
use super::{EnforcementTarget, program};

/// Longest time-out that sets know, in seconds.
const TIMEOUT_MAX: i64 = 2_147_483;

/// Sets of the kernel for iptables.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct IpsetOptions {
    /// Set of IPv4 addresses and networks, created if missing
    #[arg(long, value_name = "NAME", default_value = "tollhouse4", value_parser = super::set_name)]
    pub(super) set4: String,
    /// Set of IPv6 addresses and networks
    #[arg(long, value_name = "NAME", default_value = "tollhouse6", value_parser = super::set_name)]
    pub(super) set6: String,
    /// Most entries of a set
    #[arg(long, value_name = "NUMBER", default_value = "1048576")]
    pub(super) entries: u32,
    /// The program
    #[arg(long, value_name = "PATH", default_value = "ipset")]
    pub(super) ipset: String,
}

/// Sets of the kernel that are kept in step.
pub(super) struct IpsetTarget {
    pub(super) options: IpsetOptions,
}

impl IpsetTarget {
    fn set(&self, network: BannedNetwork) -> &str {
        if network.is_v6 { &self.options.set6 } else { &self.options.set4 }
    }
}

impl EnforcementTarget for IpsetTarget {
    fn all(&self, mirror: &BanMirror, now: Time) -> Option<String> {
        let IpsetOptions { set4, set6, entries, .. } = &self.options;
        let mut out = String::new();
        for (set, family, is_v6) in [(set4, "inet", false), (set6, "inet6", true)] {
            let made = format!("hash:net family {family} timeout 0 maxelem {entries}");
            out += &format!("create {set} {made}\ncreate {set}-new {made}\nflush {set}-new\n");
            for (network, until) in mirror.shown().iter().filter(|(network, _)| network.is_v6 == is_v6) {
                out += &format!("add {set}-new {network} timeout {}\n", left(*until, now));
            }
            out += &format!("swap {set}-new {set}\ndestroy {set}-new\n");
        }
        Some(out)
    }

    fn changes(&self, changes: &[TargetChange], now: Time) -> Option<String> {
        let line = |change: &TargetChange| match *change {
            TargetChange::Ban(network, until) => {
                format!("add {} {network} timeout {}\n", self.set(network), left(until, now))
            }
            TargetChange::Lift(network) => format!("del {} {network}\n", self.set(network)),
        };
        Some(changes.iter().map(line).collect())
    }

    fn run(&mut self, script: &str) -> Result<(), String> {
        program::run(&self.options.ipset, &["restore".to_owned(), "-exist".to_owned()], Some(script))
    }
}

/// The seconds that are left of a ban, at least one: none would be for ever.
fn left(until: Time, now: Time) -> i64 {
    ((until - now).0.saturating_add(999_999) / 1_000_000).clamp(1, TIMEOUT_MAX)
}
