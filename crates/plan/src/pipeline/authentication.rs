//! Sources of authentication for a message: resolvers, trusted servers and sealers, DNS lists.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use content::mail::authentication::AuthenticationTrust;
use content::web::domain::domain_to_ascii;
use event::{Schema, Slot, Span, Type};
use judge::Severity;

use super::columns::fact;
use super::draft::PipelineDraft;
use crate::config::{ConfigProblems, Document};
use crate::entries;

/// The port of name service.
const PORT: u16 = 53;
/// Most lists of one pipeline.
const LISTS_MAX: usize = 64;
/// Longest zone; names below it have room for an IPv6 address, nibble by nibble, within the 253 bytes of a name.
const ZONE_BYTES_MAX: usize = 180;

/// Settings of name service.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DnsPlan {
    /// Resolvers that are named, in order.
    pub resolvers: Vec<SocketAddr>,
    /// True if the resolvers of the system are asked instead.
    pub system: bool,
    /// Longest time that one decision waits.
    pub timeout: Span,
    /// The shortest time for which an answer is kept.
    pub ttl_min: Span,
    /// The longest time for which an answer is kept.
    pub ttl_max: Span,
    /// The longest time for which the answer that there is nothing is kept.
    pub negative_max: Span,
    /// The time after that for which an answer may stand in for one that cannot be had.
    pub stale: Span,
    /// Bytes of all answers.
    pub memory: u64,
    /// Queries under way at once.
    pub queries_max: usize,
}

impl DnsPlan {
    /// Returns true if anything may be looked up at all.
    pub fn is_on(&self) -> bool {
        self.system || !self.resolvers.is_empty()
    }

    pub(crate) fn compile(document: &Document, problems: &mut ConfigProblems) -> DnsPlan {
        let Some(view) = document.section("dns") else { return DnsPlan::default() };
        let mut plan = DnsPlan {
            timeout: view.span("timeout").unwrap_or_default(),
            ttl_min: view.span("ttl_min").unwrap_or_default(),
            ttl_max: view.span("ttl_max").unwrap_or_default(),
            negative_max: view.span("negative_max").unwrap_or_default(),
            stale: view.span("stale").unwrap_or_default(),
            memory: view.size("memory").unwrap_or_default(),
            queries_max: view.integer("queries_max").and_then(|max| usize::try_from(max).ok()).unwrap_or(1),
            ..DnsPlan::default()
        };
        let resolvers = view.strings("resolvers");
        for (text, origin) in &resolvers {
            let address = text.parse::<SocketAddr>().ok();
            let address = address.or_else(|| {
                Some(SocketAddr::new(text.trim_matches(['[', ']']).parse::<IpAddr>().ok()?, PORT))
            });
            match address {
                Some(address) => plan.resolvers.push(address),
                None if *text == "system" && resolvers.len() == 1 => plan.system = true,
                None => {
                    let help = "expected an address such as \"127.0.0.1\", one with a port such as \"[::1]:5353\", or \
                                \"system\" alone";
                    problems.add(origin, format!("`{text}` is no resolver"), Some(help.to_owned()));
                }
            }
        }
        plan
    }
}

/// Answers of a list that have a meaning of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DnsListMeaning {
    /// From the first to the last.
    Range(Ipv4Addr, Ipv4Addr),
    /// Answers with one of these bits in the last number.
    Bits(u8),
}

impl DnsListMeaning {
    fn parse(text: &str) -> Option<DnsListMeaning> {
        if let Some(bits) = text.strip_prefix('&') {
            return bits.parse().ok().filter(|bits| *bits > 0).map(DnsListMeaning::Bits);
        }
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let (first, last): (Ipv4Addr, Ipv4Addr) = (first.parse().ok()?, last.parse().ok()?);
        let fits = first.octets()[0] == 127 && last.octets()[0] == 127 && first <= last;
        fits.then_some(DnsListMeaning::Range(first, last))
    }

    fn has(self, answer: Ipv4Addr) -> bool {
        match self {
            DnsListMeaning::Range(first, last) => (first..=last).contains(&answer),
            DnsListMeaning::Bits(bits) => answer.octets()[3] & bits != 0,
        }
    }
}

/// A DNS list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DnsListPlan {
    /// Its name.
    pub name: String,
    /// The domain below which it answers, in lower-case A-labels.
    pub zone: String,
    /// The facts that are asked for.
    pub of: Vec<Slot>,
    /// True if hosts are asked for as they stand.
    pub whole_hosts: bool,
    /// Most names that one message is asked for.
    pub names_max: usize,
    /// The meanings of answers, each with the word for it; empty where every answer means the same.
    pub answers: Vec<(DnsListMeaning, String)>,
    /// The answers by which the list refuses to serve, beside those that all lists use for it.
    pub refusals: Vec<DnsListMeaning>,
    /// True if it lists whom to trust.
    pub good: bool,
    /// True if it is asked for addresses, too.
    pub addresses: bool,
}

impl DnsListPlan {
    /// The words for an answer; none where it says nothing. Only answers within `127.0.0.0/8` do (RFC 5782,
    /// section 2.1): others are those of a parked domain, or of a resolver that answers for names that are not there.
    pub fn meanings(&self, answer: Ipv4Addr) -> Vec<&str> {
        if answer.octets()[0] != 127 || self.is_refusal(answer) {
            return Vec::new();
        }
        if self.answers.is_empty() {
            return vec!["listed"];
        }
        let fitting = self.answers.iter().filter(|(meaning, _)| meaning.has(answer));
        fitting.map(|(_, word)| word.as_str()).collect()
    }

    /// Returns true if an answer says that the list does not serve us, as `127.255.255.0/24` does for Spamhaus, and
    /// `127.0.0.1` for the URI lists.
    pub fn is_refusal(&self, answer: Ipv4Addr) -> bool {
        answer == Ipv4Addr::LOCALHOST
            || answer.octets()[..3] == [127, 255, 255]
            || self.refusals.iter().any(|refusal| refusal.has(answer))
    }
}

/// Warns of DNS lists that nobody asks, as no resolver is named.
pub(crate) fn warn_of_unasked_lists(
    dns: &DnsPlan,
    drafts: &[PipelineDraft<'_>],
    problems: &mut ConfigProblems,
) {
    if dns.is_on() {
        return;
    }
    for draft in drafts {
        let views = draft.document.list("dnsbl");
        let asked: Vec<_> = views.iter().filter(|view| !view.strings("of").is_empty()).collect();
        let Some((first, name)) = asked.first().and_then(|view| Some((view, view.str("name")?))) else {
            continue;
        };
        let message = match asked.len() {
            1 => format!("the DNS list `{name}` is never asked: no resolver is named"),
            lists => format!(
                "`{name}` and the other {} DNS lists are never asked: no resolver is named",
                lists - 1
            ),
        };
        let help =
            "name a resolver of your own in tollhouse.toml: `[dns]` with `resolvers = [\"127.0.0.1\"]`";
        problems.push(Severity::Warning, first.origin("name"), message, Some(help.to_owned()));
    }
}

impl PipelineDraft<'_> {
    pub(crate) fn authentication(&mut self, schema: &Schema, problems: &mut ConfigProblems) {
        if let Some(view) = self.document.section("auth") {
            let names = |key| view.strings(key).into_iter().map(|(name, _)| domain_to_ascii(name)).collect();
            self.pipeline.checks = view.bool("checks").unwrap_or(true);
            self.pipeline.trust = AuthenticationTrust {
                servers: names("servers"),
                received: view.integer("received").and_then(|count| usize::try_from(count).ok()).unwrap_or(0),
                sealers: names("sealers"),
            };
        }
        let mut views = entries(self.document, "dnsbl", problems);
        if let Some(surplus) = views.get(LISTS_MAX) {
            let message = format!("there are {} [[dnsbl]]", views.len());
            problems.add(surplus.origin(""), message, Some(format!("at most {LISTS_MAX} are possible")));
            views.truncate(LISTS_MAX);
        }
        for view in views {
            let (Some(name), Some(zone)) = (view.str("name"), view.str("zone")) else { continue };
            let zone = domain_to_ascii(zone.trim_matches('.'));
            let labels = || zone.split('.');
            if zone.len() > ZONE_BYTES_MAX || labels().any(|label| !(1..=63).contains(&label.len())) {
                let help = format!(
                    "expected a domain of at most {ZONE_BYTES_MAX} bytes such as \"zen.dnsbl.example\""
                );
                problems.add(view.origin("zone"), format!("`{zone}` is no zone"), Some(help));
                continue;
            }
            let mut of = Vec::new();
            for (fact_name, origin) in view.strings("of") {
                let slot = fact(schema, fact_name, origin, problems);
                if slot == Slot(u16::MAX) {
                    continue;
                }
                match schema.column(slot).kind {
                    Type::Ip | Type::String | Type::List => of.push(slot),
                    other => {
                        let help = "expected a fact that is an address, a text or a list".to_owned();
                        problems.add(origin, format!("`{fact_name}` is of type {other}"), Some(help));
                    }
                }
            }
            let mut answers = Vec::new();
            for (text, origin) in view.strings("answers") {
                let meaning = text.split_once(' ').and_then(|(answer, word)| {
                    let word = word.trim();
                    let sound = !word.is_empty() && !word.contains(|c: char| c.is_whitespace() || c == ':');
                    Some((DnsListMeaning::parse(answer)?, word.to_owned())).filter(|_| sound)
                });
                match meaning {
                    Some(meaning) => answers.push(meaning),
                    None => {
                        let help = "expected an answer within 127.0.0.0/8, a range or a bit, and a word for it, such as \
                                    \"127.0.0.2 sbl\", \"127.0.0.4-127.0.0.7 xbl\" or \"&8 phish\"";
                        problems.add(
                            origin,
                            format!("`{text}` gives no answer a meaning"),
                            Some(help.to_owned()),
                        );
                    }
                }
            }
            let mut refusals = Vec::new();
            for (text, origin) in view.strings("refusals") {
                match DnsListMeaning::parse(text) {
                    Some(refusal) => refusals.push(refusal),
                    None => {
                        let help =
                            "expected an answer within 127.0.0.0/8, or a range, such as \"127.0.0.255\"";
                        problems.add(origin, format!("`{text}` is no answer"), Some(help.to_owned()));
                    }
                }
            }
            self.pipeline.lists.push(DnsListPlan {
                name: name.to_owned(),
                zone,
                of,
                whole_hosts: view.str("hosts") == Some("whole"),
                names_max: view.integer("names_max").and_then(|max| usize::try_from(max).ok()).unwrap_or(1),
                answers,
                refusals,
                good: view.bool("good").unwrap_or(false),
                addresses: view.bool("addresses").unwrap_or(true),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_have_meanings() {
        let list = |answers: &[&str]| DnsListPlan {
            name: "list".to_owned(),
            zone: "list.example".to_owned(),
            of: Vec::new(),
            whole_hosts: false,
            names_max: 1,
            answers: answers
                .iter()
                .map(|text| (DnsListMeaning::parse(text).unwrap(), (*text).to_owned()))
                .collect(),
            refusals: vec![DnsListMeaning::parse("127.0.0.255").unwrap()],
            good: false,
            addresses: true,
        };
        let check = |answers: &[&str], answer: &str, expected: &[&str]| {
            assert_eq!(list(answers).meanings(answer.parse().unwrap()), expected, "{answers:?} {answer}");
        };
        check(&[], "127.0.0.2", &["listed"]);
        // A resolver that sends everybody to its own page.
        check(&[], "192.0.2.80", &[]);
        check(&[], "127.255.255.254", &[]);
        check(&[], "127.0.0.1", &[]);
        let zen = ["127.0.0.2", "127.0.0.4-127.0.0.7"];
        check(&zen, "127.0.0.2", &["127.0.0.2"]);
        check(&zen, "127.0.0.6", &["127.0.0.4-127.0.0.7"]);
        check(&zen, "127.0.0.10", &[]);
        let bits = ["&8", "&64"];
        check(&bits, "127.0.0.72", &["&8", "&64"]);
        check(&bits, "127.0.0.64", &["&64"]);
        check(&bits, "127.0.0.2", &[]);
        // A refusal of its own, whose bits would mean all that the list can say.
        check(&bits, "127.0.0.255", &[]);
    }

    #[test]
    fn what_is_no_meaning_is_none() {
        for text in ["", "&", "&0", "&256", "10.0.0.1", "127.0.0.9-127.0.0.2", "127.0.0.1-10.0.0.1", "x"] {
            assert_eq!(DnsListMeaning::parse(text), None, "{text}");
        }
    }
}
