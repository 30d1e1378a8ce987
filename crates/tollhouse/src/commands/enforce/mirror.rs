//! The copy of the ban list that a target is kept in step with, and the changes that keep it so.
//!
//! A value may have several bans: the longest counts. Networks may lie in each other, which sets of nftables refuse; so targets are
//! told of the outermost alone, and of those inside once it has gone. Everything is parsed here, and printed anew: no text of
//! the server reaches a target.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use event::Time;
use serde::Deserialize;

/// A ban as the server streams it.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct StreamedBan {
    pub(crate) pipeline: String,
    pub(crate) label: String,
    pub(crate) kind: String,
    pub(crate) value: String,
    pub(crate) until: String,
}

/// Changes of the ban list.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct StreamedChanges {
    pub(crate) new: Vec<StreamedBan>,
    pub(crate) deleted: Vec<StreamedBan>,
}

/// An address, or a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct BannedNetwork {
    pub(crate) is_v6: bool,
    bits: u128,
    length: u8,
}

impl BannedNetwork {
    fn whole(self) -> u8 {
        if self.is_v6 { 128 } else { 32 }
    }

    /// Returns the network of this many bits that it lies in.
    fn cut(self, length: u8) -> BannedNetwork {
        let hosts = self.whole() - length;
        let mask = u128::MAX.checked_shl(u32::from(hosts)).unwrap_or(0);
        BannedNetwork { bits: self.bits & mask, length, ..self }
    }

    fn last(self) -> u128 {
        let hosts = u32::from(self.whole() - self.length);
        self.bits | !u128::MAX.checked_shl(hosts).unwrap_or(0)
    }

    /// Returns true if it is more than one address.
    pub(crate) fn is_network(self) -> bool {
        self.length < self.whole()
    }
}

impl FromStr for BannedNetwork {
    type Err = ();

    /// Reads `192.0.2.7`, `192.0.2.0/24` or `2001:db8::/32`. Bits behind the prefix are let go of, and nobody is banned whole.
    fn from_str(text: &str) -> Result<BannedNetwork, ()> {
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length.parse::<u8>().map_err(|_| ())?)),
            None => (text, None),
        };
        let (is_v6, bits, length) = match address.parse::<IpAddr>().map_err(|_| ())? {
            IpAddr::V4(address) => (false, u128::from(address.to_bits()), length.unwrap_or(32)),
            IpAddr::V6(address) => match (address.to_ipv4_mapped(), length.unwrap_or(128)) {
                (Some(v4), length @ 97..=128) => (false, u128::from(v4.to_bits()), length - 96),
                (_, length) => (true, address.to_bits(), length),
            },
        };
        let whole = BannedNetwork { is_v6, bits, length: if is_v6 { 128 } else { 32 } };
        if length == 0 || length > whole.length { Err(()) } else { Ok(whole.cut(length)) }
    }
}

impl fmt::Display for BannedNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = match self.is_v6 {
            true => IpAddr::V6(Ipv6Addr::from_bits(self.bits)),
            false => IpAddr::V4(Ipv4Addr::from_bits(self.bits as u32)),
        };
        if self.is_network() { write!(f, "{address}/{}", self.length) } else { write!(f, "{address}") }
    }
}

/// A change of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TargetChange {
    /// The network is banned until then, whatever was said of it before.
    Ban(BannedNetwork, Time),
    /// The network is banned no longer.
    Lift(BannedNetwork),
}

/// The label that bans a value.
type LabelName = (String, String, String);

/// The bans that there are, and those that targets know.
#[derive(Debug, Default)]
pub(crate) struct BanMirror {
    /// Networks that are never told, whatever the server says.
    allowed: Vec<BannedNetwork>,
    held: BTreeMap<BannedNetwork, BTreeMap<LabelName, Time>>,
    /// The ends of all bans.
    ends: BTreeSet<(Time, BannedNetwork)>,
    /// The number of networks of each family and length.
    lengths: BTreeMap<(bool, u8), usize>,
    /// The bans that targets know: none lies in another.
    shown: BTreeMap<BannedNetwork, Time>,
}

impl BanMirror {
    pub(crate) fn new(allowed: Vec<BannedNetwork>) -> BanMirror {
        BanMirror { allowed, ..BanMirror::default() }
    }

    /// The bans that targets are to have, in order.
    pub(crate) fn shown(&self) -> &BTreeMap<BannedNetwork, Time> {
        &self.shown
    }

    /// Takes over the whole list. Returns the changes since what targets knew.
    pub(crate) fn replace(&mut self, list: StreamedChanges, now: Time) -> Vec<TargetChange> {
        let before = std::mem::take(&mut self.shown);
        (self.held, self.ends, self.lengths) = Default::default();
        self.apply(list, now);
        let gone = before.keys().filter(|network| !self.shown.contains_key(network));
        let mut changes: Vec<TargetChange> = gone.map(|network| TargetChange::Lift(*network)).collect();
        let new = self.shown.iter().filter(|(network, until)| before.get(network) != Some(until));
        changes.extend(new.map(|(network, until)| TargetChange::Ban(*network, *until)));
        changes
    }

    /// Takes over changes, and lets go of what has ended. Returns the changes of targets, in their order.
    pub(crate) fn apply(&mut self, changes: StreamedChanges, now: Time) -> Vec<TargetChange> {
        let mut out = Vec::new();
        for ban in changes.deleted {
            let (Ok(network), label) = (ban.value.parse(), (ban.pipeline, ban.kind, ban.label)) else {
                continue;
            };
            self.lift(network, &label, &mut out);
        }
        for ban in changes.new {
            // What is no address is for others to enforce.
            let (Ok(network), Ok(until)) = (ban.value.parse::<BannedNetwork>(), ban.until.parse::<Time>())
            else {
                continue;
            };
            if until > now && !self.is_allowed(network) {
                self.ban(network, (ban.pipeline, ban.kind, ban.label), until, &mut out);
            }
        }
        self.expire(now, &mut out);
        out
    }

    /// Returns true if the network is one that is never told, or has one in it, or is in one.
    fn is_allowed(&self, network: BannedNetwork) -> bool {
        self.allowed.iter().any(|own| {
            let shorter = own.length.min(network.length);
            own.is_v6 == network.is_v6 && own.cut(shorter) == network.cut(shorter)
        })
    }

    fn ban(&mut self, network: BannedNetwork, label: LabelName, until: Time, out: &mut Vec<TargetChange>) {
        let labels = self.held.entry(network).or_default();
        if labels.is_empty() {
            *self.lengths.entry((network.is_v6, network.length)).or_default() += 1;
        } else if let Some(end) = labels.values().max() {
            self.ends.remove(&(*end, network));
        }
        labels.insert(label, until);
        let end = labels.values().max().copied().unwrap_or(until);
        self.ends.insert((end, network));
        if self.is_covered(network) || self.shown.get(&network) == Some(&end) {
            return;
        }
        if network.is_network() {
            let inside: Vec<BannedNetwork> =
                within(&self.shown, network).map(|(network, _)| *network).collect();
            for network in inside {
                self.shown.remove(&network);
                out.push(TargetChange::Lift(network));
            }
        }
        self.shown.insert(network, end);
        out.push(TargetChange::Ban(network, end));
    }

    fn lift(&mut self, network: BannedNetwork, label: &LabelName, out: &mut Vec<TargetChange>) {
        let Some(labels) = self.held.get_mut(&network) else { return };
        let before = labels.values().max().copied();
        labels.remove(label);
        let end = labels.values().max().copied();
        if before == end {
            return;
        }
        before.map(|before| self.ends.remove(&(before, network)));
        match end {
            Some(end) => {
                self.ends.insert((end, network));
                if let Some(shown) = self.shown.get_mut(&network) {
                    *shown = end;
                    out.push(TargetChange::Ban(network, end));
                }
            }
            None => self.forget(network, out),
        }
    }

    fn expire(&mut self, now: Time, out: &mut Vec<TargetChange>) {
        while let Some((end, network)) = self.ends.first().copied().filter(|(end, _)| *end <= now) {
            self.ends.remove(&(end, network));
            self.forget(network, out);
        }
    }

    /// Lets go of a network that nothing bans any more; those inside of it are told now.
    fn forget(&mut self, network: BannedNetwork, out: &mut Vec<TargetChange>) {
        self.held.remove(&network);
        if let Some(count) = self.lengths.get_mut(&(network.is_v6, network.length)) {
            *count -= 1;
            if *count == 0 {
                self.lengths.remove(&(network.is_v6, network.length));
            }
        }
        if self.shown.remove(&network).is_none() {
            return;
        }
        out.push(TargetChange::Lift(network));
        let mut inside: Vec<(BannedNetwork, Time)> = Vec::new();
        for (network, labels) in within(&self.held, network) {
            let is_covered = inside.last().is_some_and(|(outer, _)| network.bits <= outer.last());
            if let (false, Some(end)) = (is_covered, labels.values().max()) {
                inside.push((*network, *end));
            }
        }
        for (network, end) in inside {
            self.shown.insert(network, end);
            out.push(TargetChange::Ban(network, end));
        }
    }

    /// Returns true if a network lies in another one that is held.
    fn is_covered(&self, network: BannedNetwork) -> bool {
        let mut shorter = self.lengths.range((network.is_v6, 0)..(network.is_v6, network.length));
        shorter.any(|((_, length), _)| self.held.contains_key(&network.cut(*length)))
    }
}

/// The entries of a map that lie in a network and are not it, in order: the outer ones before those inside of them.
fn within<T>(
    map: &BTreeMap<BannedNetwork, T>,
    network: BannedNetwork,
) -> impl Iterator<Item = (&BannedNetwork, &T)> {
    let first = BannedNetwork { length: network.length.saturating_add(1), ..network };
    let last = BannedNetwork { bits: network.last(), length: network.whole(), ..network };
    // An address has nothing in it.
    (first <= last).then(|| map.range(first..=last)).into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use event::Span;

    use super::*;

    const NOW: Time = Time::from_seconds(1_779_012_000);

    fn ban(label: &str, value: &str, seconds: i64) -> StreamedBan {
        let [pipeline, kind] = ["web", "ip"].map(str::to_owned);
        let until = (NOW + Span::seconds(seconds)).to_string();
        StreamedBan { pipeline, kind, label: label.to_owned(), value: value.to_owned(), until }
    }

    fn text(changes: &[TargetChange]) -> Vec<String> {
        let text = |change: &TargetChange| match change {
            TargetChange::Ban(network, until) => format!("+{network} {}", (*until - NOW).0 / 1_000_000),
            TargetChange::Lift(network) => format!("-{network}"),
        };
        changes.iter().map(text).collect()
    }

    #[test]
    fn what_is_no_address_reaches_no_target() {
        for value in [
            "ann",
            "192.0.2.7; flush ruleset",
            "192.0.2.7\n",
            "0.0.0.0/0",
            "::/0",
            "1.2.3.4/33",
            "-A",
            "",
            "1.2.3.4/",
        ] {
            assert!(value.parse::<BannedNetwork>().is_err(), "{value}");
        }
        for (value, expected) in [
            ("192.0.2.7/24", "192.0.2.0/24"),
            ("::ffff:192.0.2.7", "192.0.2.7"),
            ("::ffff:192.0.2.7/120", "192.0.2.0/24"),
            ("2001:DB8::7/64", "2001:db8::/64"),
            ("128.0.0.0/1", "128.0.0.0/1"),
        ] {
            assert_eq!(value.parse::<BannedNetwork>().unwrap().to_string(), expected);
        }
    }

    #[test]
    fn the_longest_of_several_bans_counts() {
        let mut mirror = BanMirror::default();
        let new = |new: Vec<StreamedBan>| StreamedChanges { new, deleted: Vec::new() };
        let deleted = |deleted: Vec<StreamedBan>| StreamedChanges { new: Vec::new(), deleted };
        let mut step = |changes, second: i64, expected: &[&str]| {
            assert_eq!(text(&mirror.apply(changes, NOW + Span::seconds(second))), expected);
        };
        step(new(vec![ban("a", "192.0.2.7", 60)]), 0, &["+192.0.2.7 60"]);
        step(new(vec![ban("b", "192.0.2.7", 30)]), 0, &[]);
        step(new(vec![ban("a", "192.0.2.7", 90)]), 0, &["+192.0.2.7 90"]);
        step(deleted(vec![ban("a", "192.0.2.7", 90)]), 0, &["+192.0.2.7 30"]);
        step(deleted(vec![ban("c", "192.0.2.7", 90)]), 29, &[]);
        step(deleted(vec![]), 30, &["-192.0.2.7"]);
        step(new(vec![ban("a", "ann", 90), ban("a", "192.0.2.9", 20)]), 30, &[]);
    }

    #[test]
    fn of_networks_in_each_other_the_outermost_is_told() {
        let mut mirror = BanMirror::new(vec!["198.51.100.7".parse().unwrap()]);
        let mut step = |new: &[(&str, i64)], gone: &[&str], second: i64, expected: &[&str]| {
            let new = new.iter().map(|(value, seconds)| ban("a", value, *seconds)).collect();
            let deleted = gone.iter().map(|value| ban("a", value, 0)).collect();
            let told = mirror.apply(StreamedChanges { new, deleted }, NOW + Span::seconds(second));
            assert_eq!(text(&told), expected);
        };
        step(&[("192.0.2.7", 60), ("192.0.2.9", 600)], &[], 0, &["+192.0.2.7 60", "+192.0.2.9 600"]);
        let all = ["-192.0.2.7", "-192.0.2.9", "+192.0.2.0/24 100"];
        step(&[("192.0.2.0/24", 100)], &[], 0, &all);
        step(&[("192.0.2.8/29", 300), ("192.0.2.11", 300)], &[], 0, &[]);
        step(&[], &["192.0.2.9"], 0, &[]);
        step(&[("192.0.2.9", 600)], &[], 0, &[]);
        // The address that has ended meanwhile does not come again.
        step(&[], &[], 100, &["-192.0.2.0/24", "+192.0.2.8/29 300"]);
        step(&[], &["192.0.2.8/29"], 100, &["-192.0.2.8/29", "+192.0.2.9 600", "+192.0.2.11 300"]);
        step(&[("198.51.100.0/24", 60), ("198.51.100.7", 60)], &[], 100, &[]);
        step(&[("198.51.100.8/29", 600)], &[], 100, &["+198.51.100.8/29 600"]);
    }

    /// Bans, lifts and ends in any order: what targets were told covers exactly the addresses that are banned, until when they are.
    #[test]
    fn targets_ban_what_the_list_bans() {
        let mut state = 7u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        let (mut mirror, mut now) = (BanMirror::default(), NOW);
        let mut list: BTreeMap<(String, String), Time> = BTreeMap::new();
        let mut target: BTreeMap<BannedNetwork, Time> = BTreeMap::new();
        for step in 0..3000 {
            let mut changes = StreamedChanges::default();
            for _ in 0..random(4) {
                let length = 24 + random(9);
                let value = format!("192.0.2.{}/{length}", random(256) >> (32 - length) << (32 - length));
                let (label, value) = (["a", "b"][random(2) as usize], value.replace("/32", ""));
                let until = now + Span::seconds(1 + random(200) as i64);
                let ban = StreamedBan { until: until.to_string(), ..ban(label, &value, 0) };
                if random(3) == 0 {
                    list.remove(&(label.to_owned(), value));
                    changes.deleted.push(ban);
                } else {
                    changes.new.push(ban);
                }
            }
            for ban in &changes.new {
                list.insert((ban.label.clone(), ban.value.clone()), ban.until.parse().unwrap());
            }
            now = now + Span::seconds(random(5) as i64);
            list.retain(|_, until| *until > now);
            let told = match step % 50 {
                49 => {
                    let new = list.iter().map(|((label, value), until)| StreamedBan {
                        until: until.to_string(),
                        ..ban(label, value, 0)
                    });
                    mirror.replace(StreamedChanges { new: new.collect(), deleted: Vec::new() }, now)
                }
                _ => mirror.apply(changes, now),
            };
            for change in told {
                match change {
                    TargetChange::Ban(network, until) => {
                        target.insert(network, until);
                    }
                    TargetChange::Lift(network) => assert!(target.remove(&network).is_some(), "{network}"),
                }
            }
            assert_eq!(&target, mirror.shown());
            let networks: Vec<BannedNetwork> =
                list.keys().map(|(_, value)| value.parse().unwrap()).collect::<Vec<_>>();
            let ends: Vec<u128> = target.keys().map(|network| network.last()).collect();
            let starts: Vec<u128> = target.keys().map(|network| network.bits).collect();
            assert!(ends.iter().zip(starts.iter().skip(1)).all(|(end, start)| end < start), "none overlap");
            for last in (0..256).step_by(3) {
                let address: BannedNetwork = format!("192.0.2.{last}").parse().unwrap();
                let covers = |network: &BannedNetwork| address.cut(network.length) == *network;
                assert_eq!(target.keys().any(covers), networks.iter().any(covers), "{address}");
            }
        }
    }
}
