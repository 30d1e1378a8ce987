//! Links and contact data, collected from wherever a text or a page names them.

use std::collections::HashSet;

use event::Facts;

use super::columns::{ContactColumns, ITEMS_MAX, LINKS_MAX, LinkColumns};
use super::{cut, set_list};
use crate::address::MailAddress;
use crate::budget::Budget;
use crate::text::{contact, phone, wallet};
use crate::web::deobfuscation::{self, ObfuscatedReference};
use crate::web::link::{self, Link, LinkObfuscation, TextReference};
use crate::web::{impersonation, messenger, redirect};

/// Steps of a link, and of each of its bytes.
const LINK_STEPS: u64 = 2_000;
const STEPS_A_LINK_BYTE: u64 = 60;

/// A list without repeats, at most so long.
pub(crate) struct UniqueList {
    pub(crate) items: Vec<String>,
    seen: HashSet<String>,
    max: usize,
}

impl UniqueList {
    pub(crate) fn new(max: usize) -> UniqueList {
        UniqueList { items: Vec::new(), seen: HashSet::new(), max }
    }

    /// Adds an item if it is new and there is room; false when there is none.
    pub(crate) fn add(&mut self, item: String) -> bool {
        if self.items.len() < self.max && !item.is_empty() && !self.seen.contains(&item) {
            self.seen.insert(item.clone());
            self.items.push(item);
        }
        self.items.len() < self.max
    }
}

/// The targets of texts and links, and the tricks by which they are hidden.
pub(crate) struct LinkFeatures {
    urls: UniqueList,
    hosts: UniqueList,
    domains: UniqueList,
    addresses: UniqueList,
    phones: UniqueList,
    handles: UniqueList,
    poses_as: UniqueList,
    to_ip: bool,
    mismatch: bool,
    homograph: bool,
    user: bool,
    odd_ip: bool,
    odd_port: bool,
    double_encoded: bool,
    redirects: usize,
    scripts: usize,
}

impl Default for LinkFeatures {
    fn default() -> LinkFeatures {
        LinkFeatures {
            urls: UniqueList::new(LINKS_MAX),
            hosts: UniqueList::new(LINKS_MAX),
            domains: UniqueList::new(LINKS_MAX),
            addresses: UniqueList::new(ITEMS_MAX),
            phones: UniqueList::new(ITEMS_MAX),
            handles: UniqueList::new(ITEMS_MAX),
            poses_as: UniqueList::new(ITEMS_MAX),
            to_ip: false,
            mismatch: false,
            homograph: false,
            user: false,
            odd_ip: false,
            odd_port: false,
            double_encoded: false,
            redirects: 0,
            scripts: 0,
        }
    }
}

impl LinkFeatures {
    /// Adds what leads somewhere; false once there is no room for another link, or nothing to pay for it.
    pub(crate) fn add(&mut self, target: &str, budget: &Budget) -> bool {
        let bytes = target.len().min(link::LINK_BYTES_MAX);
        if !budget.spend(LINK_STEPS + STEPS_A_LINK_BYTE * bytes as u64) {
            return false;
        }
        let scheme = target.get(..7).unwrap_or_default().to_ascii_lowercase();
        if scheme.starts_with("mailto:") {
            let address = target[7..].split('?').next().and_then(MailAddress::parse);
            self.addresses.add(address.map(|address| address.full).unwrap_or_default());
            return true;
        }
        if scheme.starts_with("tel:") {
            let digits: String = target[4..].chars().filter(char::is_ascii_digit).take(20).collect();
            if phone::DIGITS.contains(&digits.len()) {
                self.phones.add(digits);
            }
            return true;
        }
        let Some(mut link) = Link::parse(target) else {
            let target = target.trim_start();
            let runs = |scheme: &&str| {
                target.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
            };
            self.scripts += usize::from(["javascript:", "vbscript:", "data:text/"].iter().any(runs));
            self.handles.add(messenger::of_uri(target).unwrap_or_default());
            return true;
        };
        for _ in 0..redirect::DEPTH_MAX {
            let target = redirect::target(&link);
            let room = self.add_link(link);
            let Some(target) = target.filter(|_| room && budget.spend(LINK_STEPS)) else { return room };
            self.redirects += 1;
            link = target;
        }
        self.add_link(link)
    }

    fn add_link(&mut self, link: Link) -> bool {
        if self.urls.seen.contains(&link.url) && link.obfuscation == LinkObfuscation::default() {
            return self.urls.items.len() < LINKS_MAX;
        }
        self.to_ip |= link.is_ip;
        self.odd_ip |= link.obfuscation.odd_ip;
        self.odd_port |= link.obfuscation.odd_port.is_some();
        self.double_encoded |= link.obfuscation.double_encoded;
        self.user |= !link.obfuscation.user.is_empty();
        if let Some(domain) = link::registrable(&link.host) {
            self.domains.add(domain.to_owned());
        }
        if !self.hosts.seen.contains(&link.host) || !link.obfuscation.user.is_empty() {
            let impersonation = impersonation::of(&link.host, &link.obfuscation.user);
            self.homograph |= impersonation.is_homograph;
            for domain in impersonation.domains {
                self.poses_as.add(domain);
            }
        }
        self.handles.add(messenger::of_link(&link.host, &link.url).unwrap_or_default());
        self.hosts.add(link.host);
        self.urls.add(cut(&link.url))
    }

    pub(crate) fn add_text(&mut self, text: &str, budget: &Budget) {
        link::find(budget.cut(text, link::STEPS_A_BYTE), |found| match found {
            TextReference::Url(url) => self.add(url, budget),
            TextReference::Address(address) => {
                self.addresses
                    .add(MailAddress::parse(address).map(|address| address.full).unwrap_or_default());
                budget.spend(LINK_STEPS)
            }
        });
    }

    /// Adds the contact data of a text, as it is written, as [`crate::text::plain`] reads it and deobfuscated, and sets the facts
    /// of what of it was hidden.
    pub(crate) fn add_contacts(
        &mut self,
        written: &str,
        plain: &str,
        undone: &str,
        budget: &Budget,
        columns: &ContactColumns,
        facts: &mut Facts,
    ) {
        let (mut addresses, mut links) = (0usize, 0usize);
        let obfuscated_phones = contact::phones(written, plain, |digits| _ = self.phones.add(digits));
        deobfuscation::find(plain, |found| match found {
            ObfuscatedReference::Url(url) => {
                links += 1;
                self.add(&url, budget);
            }
            ObfuscatedReference::Address(address) => {
                addresses += 1;
                self.addresses
                    .add(MailAddress::parse(&address).map(|address| address.full).unwrap_or_default());
            }
        });
        let known = self.handles.items.len();
        messenger::find(plain, |handle| _ = self.handles.add(handle));
        // What is read for letters may be digits of a name, so it is asked only where nothing else is found.
        if self.handles.items.len() == known && undone != plain {
            messenger::find(undone, |handle| _ = self.handles.add(handle));
        }
        let mut wallets = UniqueList::new(ITEMS_MAX);
        wallet::find(written, |wallet| _ = wallets.add(wallet));
        facts.set(columns.obfuscated_phones, obfuscated_phones);
        facts.set(columns.obfuscated_addresses, addresses);
        facts.set(columns.obfuscated_links, links);
        facts.set(columns.card_numbers, contact::card_numbers(plain));
        set_list(facts, columns.wallets, wallets.items);
    }

    /// Notes whether the text of an anchor shows another registrable domain than it leads to.
    pub(crate) fn compare(&mut self, target: &str, shown: &str) {
        if self.mismatch || !shown.contains('.') {
            return;
        }
        let Some(target) = Link::parse(target) else { return };
        let leads_to = redirect::target(&target);
        let target = link::organisation(&target.host);
        let leads_to = leads_to.as_ref().map(|link| link::organisation(&link.host));
        link::find(shown, |found| {
            if let TextReference::Url(url) = found
                && let Some(shown) = Link::parse(url)
                && let Some(shown) = link::registrable(&shown.host)
            {
                self.mismatch = shown != target && Some(shown) != leads_to;
            }
            false
        });
    }

    /// Sets the facts of the links.
    pub(crate) fn fill(self, columns: &LinkColumns, facts: &mut Facts) {
        facts.set(columns.link_count, self.urls.items.len());
        facts.set(columns.link_ip_host, self.to_ip);
        facts.set(columns.link_text_mismatch, self.mismatch);
        facts.set(columns.redirects, self.redirects);
        facts.set(columns.link_homograph, self.homograph);
        facts.set(columns.link_user, self.user);
        facts.set(columns.link_odd_ip, self.odd_ip);
        facts.set(columns.link_odd_port, self.odd_port);
        facts.set(columns.link_double_encoded, self.double_encoded);
        facts.set(columns.script_links, self.scripts);
        set_list(facts, columns.link_poses_as, self.poses_as.items);
        set_list(facts, columns.links, self.urls.items);
        set_list(facts, columns.link_hosts, self.hosts.items);
        set_list(facts, columns.link_domains, self.domains.items);
        set_list(facts, columns.handles, self.handles.items);
    }

    /// Sets the facts of who can be reached.
    pub(crate) fn fill_contacts(&mut self, columns: &ContactColumns, facts: &mut Facts) {
        for (slot, list) in [(columns.addresses, &mut self.addresses), (columns.phones, &mut self.phones)] {
            set_list(facts, slot, std::mem::take(&mut list.items));
        }
    }
}
