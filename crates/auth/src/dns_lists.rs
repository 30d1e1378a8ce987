//! DNS lists: which have the client's address, or a domain that the message names? (RFC 5782)

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use content::network::is_public;
use content::web::link;
use event::{Facts, Slot, Value};
use futures_util::future::join_all;
use plan::DnsListPlan;
use tokio::time::Instant;

use crate::dns::{DnsAnswer, DnsCache, DnsRecord, DnsRecordType, reversed};

/// Most questions for one message, over all lists.
const QUESTIONS_MAX: usize = 400;

/// The answers of all lists, for people and rules; without repeats, in the order of the configuration.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct DnsListResults {
    /// Lists that have the client's address.
    pub(crate) ip: Vec<String>,
    /// Lists that have something else.
    pub(crate) domains: Vec<String>,
    pub(crate) answers: Vec<String>,
    pub(crate) listed: Vec<String>,
    pub(crate) failed: Vec<String>,
}

/// The subject that a list is asked for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum DnsListSubject {
    Address(IpAddr),
    Domain(String),
}

impl DnsListSubject {
    /// From a fact's value: an address, a host, an e-mail address or a link. Private addresses are on no list, and
    /// a name that has no registrable domain is nobody's.
    fn of(text: &str, whole_hosts: bool) -> Option<DnsListSubject> {
        let host = link::host(text)?;
        if let Ok(ip) = host.trim_matches(['[', ']']).parse::<IpAddr>() {
            return Some(DnsListSubject::Address(ip.to_canonical())).filter(|_| is_public(ip));
        }
        let registrable = link::registrable(&host)?;
        Some(DnsListSubject::Domain(if whole_hosts { host.clone() } else { registrable.to_owned() }))
    }

    fn label(&self) -> String {
        match self {
            DnsListSubject::Address(ip) => reversed(*ip),
            DnsListSubject::Domain(name) => name.clone(),
        }
    }

    fn text(&self) -> String {
        match self {
            DnsListSubject::Address(ip) => ip.to_string(),
            DnsListSubject::Domain(name) => name.clone(),
        }
    }
}

/// The things that a list is asked for, each with whether it is the client's address.
fn things(list: &DnsListPlan, (client, asked): (Slot, bool), facts: &Facts) -> Vec<(DnsListSubject, bool)> {
    let (mut things, mut seen) = (Vec::new(), BTreeSet::new());
    for slot in list.of.iter().filter(|slot| asked || **slot != client) {
        let found: Vec<DnsListSubject> = match facts.get(*slot) {
            Some(Value::Ip(ip)) => Some(DnsListSubject::Address(ip.to_canonical()))
                .filter(|_| is_public(*ip))
                .into_iter()
                .collect(),
            Some(Value::String(text)) => DnsListSubject::of(text, list.whole_hosts).into_iter().collect(),
            Some(Value::List(items)) => {
                items.iter().filter_map(|item| DnsListSubject::of(item, list.whole_hosts)).collect()
            }
            _ => Vec::new(),
        };
        for thing in found {
            if !list.addresses && matches!(thing, DnsListSubject::Address(_)) {
                continue;
            }
            if things.len() < list.names_max && seen.insert(thing.clone()) {
                things.push((thing, *slot == client));
            }
        }
    }
    things
}

/// Asks all lists at once. `client` is the fact that is the client's address, and whether it is asked for.
pub(crate) async fn ask(
    dns: &Arc<DnsCache>,
    deadline: Instant,
    lists: &[DnsListPlan],
    client: (Slot, bool),
    facts: &Facts,
) -> DnsListResults {
    let questions = lists.iter().flat_map(|list| {
        let things = things(list, client, facts).into_iter();
        things.map(move |(thing, is_client)| (list, thing, is_client))
    });
    let asked = questions.take(QUESTIONS_MAX).map(|(list, thing, is_client)| async move {
        let name = format!("{}.{}", thing.label(), list.zone);
        (list, thing, is_client, dns.lookup(&name, DnsRecordType::A, deadline).await)
    });
    let mut listed = DnsListResults::default();
    for (list, thing, is_client, answer) in join_all(asked).await {
        let add = |items: &mut Vec<String>, item: String| {
            if !items.contains(&item) {
                items.push(item);
            }
        };
        if answer.is_unknown() {
            add(&mut listed.failed, list.name.clone());
            continue;
        }
        let mut has = false;
        for ip in addresses(&answer) {
            if list.is_refusal(ip) {
                dns.metrics().refused(&list.name);
                add(&mut listed.failed, list.name.clone());
            }
            for word in list.meanings(ip) {
                has = true;
                add(&mut listed.answers, format!("{}:{word}", list.name));
            }
        }
        if has {
            add(&mut listed.listed, format!("{}:{}", list.name, thing.text()));
        }
        if has && !list.good {
            add(if is_client { &mut listed.ip } else { &mut listed.domains }, list.name.clone());
        }
    }
    listed
}

fn addresses(answer: &DnsAnswer) -> impl Iterator<Item = std::net::Ipv4Addr> {
    answer.records().iter().filter_map(|record| match record {
        DnsRecord::A(ip) => Some(*ip),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_addresses_and_links_are_asked_for() {
        let check = |text: &str, whole: bool, expected: Option<&str>| {
            assert_eq!(
                DnsListSubject::of(text, whole).map(|thing| thing.label()).as_deref(),
                expected,
                "{text}"
            );
        };
        check("www.shop.example.co.uk", false, Some("example.co.uk"));
        check("www.shop.example.co.uk", true, Some("www.shop.example.co.uk"));
        check("https://Login.Example.com/path?x=a@b", false, Some("example.com"));
        check("ann@mail.example.com", false, Some("example.com"));
        check("8.8.4.1", false, Some("1.4.8.8"));
        check("192.168.1.1", false, None);
        check("localhost", false, None);
        check("co.uk", false, None);
        check("", false, None);
    }
}
