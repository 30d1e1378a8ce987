//! `[allow]`, checked: the addresses, networks, names and accounts that nothing bans.
//!
//! The list stands above every ban, however it comes: a rule's effect, a posted ban, one of another node, a block list, or
//! one that was kept from before the list was changed.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;

use event::{Facts, Value};
use judge::{Network, Networks};

use crate::config::{ConfigProblems, Document, allow_key};
use crate::forward_auth::ForwardPlan;
use crate::pipeline::Pipeline;

/// Addresses that belong to nobody on the Internet: loopback, private and link-local ones.
const PRIVATE: [&str; 8] = [
    "127.0.0.0/8",
    "10.0.0.0/8",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "169.254.0.0/16",
    "::1",
    "fc00::/7",
    "fe80::/10",
];
/// Most entries of all files together.
const ENTRIES_MAX: usize = 1_000_000;
/// Longest text of an account, in bytes.
const ACCOUNT_BYTES_MAX: usize = 1024;

/// The allow list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AllowPlan {
    /// The networks, by where they were named.
    networks: Vec<(AllowSource, Networks)>,
    /// Keys that are no addresses, in lower case.
    accounts: HashSet<String>,
    /// Keys that were posted and are no addresses, in lower case.
    posted: HashSet<String>,
    /// Names of hosts whose addresses are allowed.
    pub names: Vec<String>,
    /// True if events of verified robots ban nobody.
    robots: bool,
}

/// The part of the allow list that something is on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AllowSource {
    /// `networks`.
    Networks,
    /// A file of `files`.
    File(Arc<str>),
    /// `accounts`.
    Accounts,
    /// An entry that was posted while the node runs.
    Posted,
    /// An address of a name of `names`.
    Name(Arc<str>),
    /// `private`: loopback, private and link-local addresses.
    Private,
    /// `proxies`: the trusted proxies of `[[forward_auth]]`.
    Proxies,
    /// `robots`: a network that the operator of a robot publishes, or a verified robot's request.
    Robots,
}

impl AllowSource {
    /// Returns the setting's name, as metrics have it.
    pub fn name(&self) -> &'static str {
        match self {
            AllowSource::Networks => "networks",
            AllowSource::File(_) => "files",
            AllowSource::Accounts => "accounts",
            AllowSource::Posted => "posted",
            AllowSource::Name(_) => "names",
            AllowSource::Private => "private",
            AllowSource::Proxies => "proxies",
            AllowSource::Robots => "robots",
        }
    }
}

impl std::fmt::Display for AllowSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            AllowSource::File(name) => write!(f, "[allow] files: {name}"),
            AllowSource::Name(name) => write!(f, "[allow] names: {name}"),
            AllowSource::Posted => f.write_str("a posted entry"),
            other => write!(f, "[allow] {}", other.name()),
        }
    }
}

impl AllowPlan {
    /// Returns the part of the list that a value is on: an address or an account that is on it, a network that has an
    /// allowed address in it, or a key of several fields of which one is.
    pub fn find(&self, value: &str) -> Option<&AllowSource> {
        if value.starts_with('[')
            && let Ok(parts) = serde_json::from_str::<Vec<String>>(value)
        {
            return parts.iter().find_map(|part| self.find_part(part));
        }
        self.find_part(value)
    }

    fn find_part(&self, value: &str) -> Option<&AllowSource> {
        if let Ok(network) = value.parse::<Network>() {
            return self.networks.iter().find(|(_, own)| own.overlap(network)).map(|(source, _)| source);
        }
        if self.accounts.is_empty() && self.posted.is_empty() {
            return None;
        }
        let value = value.to_lowercase();
        if self.accounts.contains(&value) {
            return Some(&AllowSource::Accounts);
        }
        self.posted.contains(&value).then_some(&AllowSource::Posted)
    }

    /// Returns true if an address is on the list.
    pub fn has_address(&self, address: IpAddr) -> bool {
        self.networks.iter().any(|(_, own)| own.contain(address))
    }

    /// Returns true if an event bans nobody: it is of a robot that was verified.
    pub fn is_of_robot(&self, pipeline: &Pipeline, facts: &Facts) -> bool {
        let verified = pipeline.robots.as_ref().map(|robots| robots.columns.verified);
        self.robots && verified.is_some_and(|slot| facts.get(slot) == Some(&Value::Bool(true)))
    }

    /// Returns the parts of a network that are not on the list, as networks, the lowest first; `None` if there would be
    /// more than so many.
    pub fn parts_beside(&self, network: Network, most: usize) -> Option<Vec<Network>> {
        let mut parts = Vec::new();
        let mut rest = vec![network];
        while let Some(network) = rest.pop() {
            if !self.networks.iter().any(|(_, own)| own.overlap(network)) {
                parts.push(network);
                if parts.len() > most {
                    return None;
                }
            } else if !self.networks.iter().any(|(_, own)| own.contain_all(network))
                && let Some((low, high)) = network.halves()
            {
                rest.extend([high, low]);
            }
        }
        Some(parts)
    }

    /// Returns the list with the addresses of names, as they were found.
    pub fn with_addresses(&self, found: &[(Arc<str>, Vec<IpAddr>)]) -> AllowPlan {
        let mut list = self.clone();
        list.networks.retain(|(source, _)| !matches!(source, AllowSource::Name(_)));
        for (name, addresses) in found.iter().filter(|(name, _)| self.names.iter().any(|own| **own == **name))
        {
            let networks = Networks::new(addresses.iter().map(|address| Network::of(*address)));
            list.networks.push((AllowSource::Name(Arc::clone(name)), networks));
        }
        list
    }
}

impl AllowPlan {
    /// Returns the list with these posted entries, and no others.
    pub fn with_posted(&self, networks: Vec<Network>, accounts: HashSet<String>) -> AllowPlan {
        let mut list = self.clone();
        list.networks.retain(|(source, _)| *source != AllowSource::Posted);
        list.add(AllowSource::Posted, networks);
        list.posted = accounts;
        list
    }
}

/// The settings of the main file.
pub(crate) fn compile(
    document: &Document,
    forwards: &[ForwardPlan],
    pipelines: &[Arc<Pipeline>],
    problems: &mut ConfigProblems,
) -> AllowPlan {
    let Some(view) = document.section("allow") else { return AllowPlan::default() };
    let mut list = AllowPlan { robots: view.bool("robots").unwrap_or(true), ..AllowPlan::default() };
    let named = view.strings("networks").into_iter().filter_map(|(text, _)| text.parse().ok());
    let named: Vec<Network> = named.collect();
    for (text, origin) in view.strings("networks") {
        if text.parse().is_ok_and(Network::is_everything) {
            let help = "name the networks of your own".to_owned();
            problems.add(origin, format!("`{text}` is everybody: nobody could be banned"), Some(help));
        }
    }
    list.add(AllowSource::Networks, named);
    list.accounts.extend(view.strings("accounts").into_iter().map(|(text, _)| text.to_lowercase()));
    let mut entries = 0;
    for (file, origin) in view.strings("files") {
        let Some(source) = document.list_file(&allow_key(file)) else { continue };
        let mut networks = Vec::new();
        for (at, line) in source.text.lines().enumerate() {
            let text = line.split(['#', ';']).next().unwrap_or_default().trim();
            if text.is_empty() {
                continue;
            }
            entries += 1;
            match text.parse::<Network>() {
                _ if entries > ENTRIES_MAX => {
                    let message = format!("{file}: the files have more than {ENTRIES_MAX} lines together");
                    problems.add(origin, message, None);
                    break;
                }
                Ok(network) if network.is_everything() => {
                    problems.add(origin, format!("{file}:{}: `{text}` is everybody", at + 1), None);
                }
                Ok(network) => networks.push(network),
                // What looks like an address and is none was meant as one.
                Err(_) if text.contains('/') || text.contains(char::is_whitespace) => {
                    let message = format!("{file}:{}: no address, network or account", at + 1);
                    problems.add(origin, message, None);
                }
                Err(_) if text.len() <= ACCOUNT_BYTES_MAX => _ = list.accounts.insert(text.to_lowercase()),
                Err(_) => problems.add(origin, format!("{file}:{}: the line is too long", at + 1), None),
            }
        }
        list.add(AllowSource::File(Arc::from(file)), networks);
    }
    for (name, origin) in view.strings("names") {
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        if (1..=253).contains(&name.len()) && name.bytes().all(is_name) {
            list.names.push(name.to_ascii_lowercase());
        } else {
            problems.add(origin, format!("`{name}` is no name of a host"), None);
        }
    }
    if view.bool("private").unwrap_or(true) {
        list.add(AllowSource::Private, PRIVATE.iter().filter_map(|text| text.parse().ok()));
    }
    if view.bool("proxies").unwrap_or(true) {
        // Who trusts all that ask, as on a network of its own, does not allow everybody.
        let trusted = forwards.iter().flat_map(|forward| forward.trusted_proxies.ranges_within());
        list.add(AllowSource::Proxies, trusted.filter(|network| !network.is_everything()));
    }
    if list.robots {
        let published = pipelines.iter().filter_map(|pipeline| pipeline.robots.as_ref());
        list.add(AllowSource::Robots, published.flat_map(|robots| robots.published()));
    }
    list
}

impl AllowPlan {
    fn add(&mut self, source: AllowSource, networks: impl IntoIterator<Item = Network>) {
        let networks = Networks::new(networks);
        if !networks.is_empty() {
            self.networks.push((source, networks));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list() -> AllowPlan {
        let mut list = AllowPlan { accounts: HashSet::from(["ann".to_owned()]), ..AllowPlan::default() };
        list.add(AllowSource::Private, PRIVATE.iter().map(|text| text.parse().unwrap()));
        let own = ["203.0.113.7", "2001:db8:7::/48"].map(|text| text.parse().unwrap());
        list.add(AllowSource::Networks, own);
        list
    }

    #[test]
    fn what_is_on_the_list_is_found() {
        let list = list();
        for (value, expected) in [
            ("203.0.113.7", Some("networks")),
            ("::ffff:203.0.113.7", Some("networks")),
            ("203.0.113.8", None),
            ("203.0.113.0/24", Some("networks")),
            ("203.0.113.8/29", None),
            ("0.0.0.0/0", Some("private")),
            ("::/0", Some("private")),
            ("::ffff:0:0/90", Some("private")),
            ("2001:db8:7:1::/64", Some("networks")),
            ("2001:db8:8::/64", None),
            ("192.168.7.7", Some("private")),
            ("fe80::1", Some("private")),
            ("Ann", Some("accounts")),
            ("bob", None),
            (r#"["bob","203.0.113.7"]"#, Some("networks")),
            (r#"["bob","203.0.113.8"]"#, None),
            (r#"["ann"#, None),
        ] {
            assert_eq!(list.find(value).map(AllowSource::name), expected, "{value}");
        }
    }

    #[test]
    fn parts_of_a_network_beside_the_list_leave_nothing_out() {
        let list = list();
        let parts = |text: &str, most| -> Option<Vec<String>> {
            let parts = list.parts_beside(text.parse().unwrap(), most)?;
            Some(parts.iter().map(ToString::to_string).collect())
        };
        let expected = ["203.0.113.0/30", "203.0.113.4/31", "203.0.113.6", "203.0.113.8/29"];
        assert_eq!(parts("203.0.113.0/28", 8).unwrap(), expected);
        assert_eq!(parts("203.0.113.0/28", 3), None);
        assert_eq!(parts("10.0.0.0/8", 3).unwrap(), Vec::<String>::new());
        assert_eq!(parts("198.51.100.0/24", 1).unwrap(), ["198.51.100.0/24"]);
    }
}
