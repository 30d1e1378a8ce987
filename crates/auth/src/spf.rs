//! SPF: may this client send for that domain? (RFC 7208)
//!
//! Records and macros are read by `mail-auth`, once [`record`] has found nothing wrong with them. The evaluation is here, since the library's own counts no void
//! lookups, believes a client's reverse name without looking back, and asks by itself instead of through a resolver
//! that is given to it.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use mail_auth::common::parse::TxtRecordParser as _;
use mail_auth::spf::{Macro, Mechanism, Qualifier, Spf, Variables};
use tokio::time::Instant;

use super::spf_record;
use crate::dns::{DnsAnswer, DnsCache, DnsRecordType, reverse_name};

pub(crate) use mail_auth::SpfResult;

/// Mechanisms and modifiers that ask name service (section 4.6.4).
const LOOKUPS_MAX: u32 = 10;
/// The number of those that may come back empty.
const VOIDS_MAX: u32 = 2;
/// Longest record: those that are published have some hundred bytes, and the RFC wants them to fit into an answer of 512.
const RECORD_BYTES_MAX: usize = 8 << 10;
/// Longest sender, and greeting, that is put into a name: SMTP allows 256 bytes.
const SENDER_BYTES_MAX: usize = 512;
/// Mail exchangers of one `mx`, names of one `ptr`.
const NAMES_MAX: usize = 10;

/// The question that is asked.
#[derive(Clone, Debug)]
pub(crate) struct SpfQuery {
    pub(crate) client: IpAddr,
    /// Empty if it is not known.
    pub(crate) helo: String,
    /// The envelope sender; `postmaster@HELO` stands in for the null sender.
    pub(crate) sender: String,
    /// The domain whose record counts.
    pub(crate) domain: String,
}

/// Answers it, at the latest at the deadline.
pub(crate) async fn check(dns: &Arc<DnsCache>, deadline: Instant, question: &SpfQuery) -> SpfResult {
    if question.sender.len() > SENDER_BYTES_MAX || question.helo.len() > SENDER_BYTES_MAX {
        return SpfResult::PermError;
    }
    let client = question.client.to_canonical();
    let mut check = SpfEvaluation { dns, deadline, question, client, lookups: 0, voids: 0, validated: None };
    check.host(question.domain.clone()).await.unwrap_or_else(|early| early)
}

/// An evaluation. What ends it early is an error: `TempError` or `PermError`.
struct SpfEvaluation<'a> {
    dns: &'a Arc<DnsCache>,
    deadline: Instant,
    question: &'a SpfQuery,
    client: IpAddr,
    lookups: u32,
    voids: u32,
    /// The names of the client that lead back to it, once they were looked for.
    validated: Option<Vec<String>>,
}

impl SpfEvaluation<'_> {
    /// `check_host()` of section 4. It calls itself for `include` and `redirect`, each of which costs a lookup: so
    /// it is at most [`LOOKUPS_MAX`] deep.
    fn host(&mut self, domain: String) -> BoxFuture<'_, Result<SpfResult, SpfResult>> {
        self.evaluate(domain).boxed()
    }

    async fn evaluate(&mut self, domain: String) -> Result<SpfResult, SpfResult> {
        let domain = domain.strip_suffix('.').unwrap_or(&domain).to_owned();
        let labels = || domain.split('.');
        if domain.len() > 253
            || labels().count() < 2
            || labels().any(|label| !(1..=63).contains(&label.len()))
        {
            return Ok(SpfResult::None);
        }
        let Some(record) = self.record(&domain).await? else { return Ok(SpfResult::None) };
        for directive in &record.directives {
            if self.matches(&directive.mechanism, &domain).await? {
                return Ok(match directive.qualifier {
                    Qualifier::Pass => SpfResult::Pass,
                    Qualifier::Fail => SpfResult::Fail,
                    Qualifier::SoftFail => SpfResult::SoftFail,
                    Qualifier::Neutral => SpfResult::Neutral,
                });
            }
        }
        let Some(redirect) = &record.redirect else { return Ok(SpfResult::Neutral) };
        self.count()?;
        let target = self.expand(redirect, &domain).await?;
        match self.host(target).await? {
            SpfResult::None => Err(SpfResult::PermError),
            other => Ok(other),
        }
    }

    /// The record of a domain: none, or one.
    async fn record(&mut self, domain: &str) -> Result<Option<Spf>, SpfResult> {
        let answer = self.ask(domain, DnsRecordType::Txt).await?;
        let is_record = |text: &&[u8]| {
            let version = text.get(..6).is_some_and(|version| version.eq_ignore_ascii_case(b"v=spf1"));
            version && text.get(6).is_none_or(|after| *after == b' ')
        };
        let mut records = answer.texts().filter(is_record);
        match (records.next(), records.next()) {
            (None, _) => Ok(None),
            (Some(record), None) if record.len() > RECORD_BYTES_MAX => Err(SpfResult::PermError),
            (Some(record), None) if !spf_record::is_sound(record) => Err(SpfResult::PermError),
            (Some(record), None) => Spf::parse(record).map(Some).map_err(|_| SpfResult::PermError),
            (Some(_), Some(_)) => Err(SpfResult::PermError),
        }
    }

    async fn matches(&mut self, mechanism: &Mechanism, domain: &str) -> Result<bool, SpfResult> {
        match mechanism {
            Mechanism::All => Ok(true),
            Mechanism::Ip4 { addr, mask } => Ok(same_network(self.client, (*addr).into(), *mask, 0)),
            Mechanism::Ip6 { addr, mask } => Ok(same_network(self.client, (*addr).into(), 0, *mask)),
            Mechanism::A { macro_string, ip4_mask, ip6_mask } => {
                self.count()?;
                let target = self.expand(macro_string, domain).await?;
                let answer = self.addresses(&target).await?;
                Ok(answer.addresses().any(|ip| same_network(self.client, ip, *ip4_mask, *ip6_mask)))
            }
            Mechanism::Mx { macro_string, ip4_mask, ip6_mask } => {
                self.count()?;
                let target = self.expand(macro_string, domain).await?;
                let answer = self.ask_counted(&target, DnsRecordType::Mx).await?;
                let mut exchanges: Vec<(u16, &str)> = answer.exchanges().collect();
                if exchanges.len() > NAMES_MAX {
                    return Err(SpfResult::PermError);
                }
                exchanges.sort_unstable();
                for (_, exchange) in exchanges {
                    let answer = self.addresses(exchange).await?;
                    if answer.addresses().any(|ip| same_network(self.client, ip, *ip4_mask, *ip6_mask)) {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Mechanism::Include { macro_string } => {
                self.count()?;
                let target = self.expand(macro_string, domain).await?;
                match self.host(target).await? {
                    SpfResult::Pass => Ok(true),
                    SpfResult::None => Err(SpfResult::PermError),
                    _ => Ok(false),
                }
            }
            Mechanism::Exists { macro_string } => {
                self.count()?;
                let target = self.expand(macro_string, domain).await?;
                // Of an IPv6 client, too, only A records are asked for (section 5.7).
                Ok(!self.ask_counted(&target, DnsRecordType::A).await?.records().is_empty())
            }
            Mechanism::Ptr { macro_string } => {
                self.count()?;
                let target = self.expand(macro_string, domain).await?.to_ascii_lowercase();
                let target = target.strip_suffix('.').unwrap_or(&target);
                let below = |name: &String| {
                    name.strip_suffix(target).is_some_and(|before| before.is_empty() || before.ends_with('.'))
                };
                Ok(self.validated().await.iter().any(below))
            }
        }
    }

    /// Expands a name; over-long ones lose labels from the left (section 7.3).
    async fn expand(&mut self, name: &Macro, domain: &str) -> Result<String, SpfResult> {
        let question = self.question;
        let sender = match question.sender.as_str() {
            "" => Cow::Owned(format!("postmaster@{}", question.domain)),
            sender if sender.starts_with('@') => Cow::Owned(format!("postmaster{sender}")),
            sender if !sender.contains('@') => Cow::Owned(format!("postmaster@{sender}")),
            sender => Cow::Borrowed(sender),
        };
        let mut variables = Variables::new();
        variables.set_ip(&self.client);
        variables.set_helo_domain(question.helo.as_bytes());
        variables.set_domain(domain.as_bytes());
        variables.set_sender(sender.as_bytes());
        if name.needs_ptr() {
            let names = self.validated().await;
            let inside = |name: &&String| name.ends_with(&format!(".{domain}"));
            let best = names.iter().find(|name| *name == domain).or_else(|| names.iter().find(inside));
            let best = best.or_else(|| names.first()).map_or("unknown", String::as_str);
            variables.set_validated_domain(best.as_bytes().to_vec());
        }
        let expanded = name.eval(&variables, domain, true);
        let mut expanded = expanded.strip_suffix('.').unwrap_or(&expanded);
        while expanded.len() > 253 {
            expanded = expanded.split_once('.').ok_or(SpfResult::PermError)?.1;
        }
        Ok(expanded.to_owned())
    }

    /// The names of the client that lead back to it (section 5.5). What fails on the way is as if it were not there.
    async fn validated(&mut self) -> &[String] {
        if self.validated.is_none() {
            let names = confirmed(self.dns, self.deadline, self.client).await.confirmed;
            self.validated = Some(names);
        }
        self.validated.as_deref().unwrap_or_default()
    }

    /// Counts a lookup.
    fn count(&mut self) -> Result<(), SpfResult> {
        self.lookups += 1;
        if self.lookups > LOOKUPS_MAX { Err(SpfResult::PermError) } else { Ok(()) }
    }

    async fn addresses(&mut self, name: &str) -> Result<DnsAnswer, SpfResult> {
        self.ask_counted(name, address_kind(self.client)).await
    }

    /// Asks, and counts the answer if it is empty.
    async fn ask_counted(&mut self, name: &str, kind: DnsRecordType) -> Result<DnsAnswer, SpfResult> {
        let answer = self.ask(name, kind).await?;
        if answer.records().is_empty() {
            self.voids += 1;
            if self.voids > VOIDS_MAX {
                return Err(SpfResult::PermError);
            }
        }
        Ok(answer)
    }

    async fn ask(&mut self, name: &str, kind: DnsRecordType) -> Result<DnsAnswer, SpfResult> {
        let answer = self.dns.lookup(name, kind, self.deadline).await;
        if answer.is_unknown() { Err(SpfResult::TempError) } else { Ok(answer) }
    }
}

fn address_kind(client: IpAddr) -> DnsRecordType {
    if client.is_ipv4() { DnsRecordType::A } else { DnsRecordType::Aaaa }
}

/// Returns whether two addresses agree in these bits, where they are of one family.
fn same_network(client: IpAddr, other: IpAddr, v4: u32, v6: u128) -> bool {
    match (client, other) {
        (IpAddr::V4(client), IpAddr::V4(other)) => client.to_bits() & v4 == other.to_bits() & v4,
        (IpAddr::V6(client), IpAddr::V6(other)) => client.to_bits() & v6 == other.to_bits() & v6,
        _ => false,
    }
}

/// The names of an address.
pub(crate) struct AddressNames {
    /// The answer of reverse DNS.
    pub(crate) answer: DnsAnswer,
    /// The names that lead back to the address.
    pub(crate) confirmed: Vec<String>,
    /// True if all of it could be looked up.
    pub(crate) is_whole: bool,
}

/// Returns what reverse DNS says of an address, and those of its names that lead back to it, at most ten of them.
pub(crate) async fn confirmed(dns: &Arc<DnsCache>, deadline: Instant, client: IpAddr) -> AddressNames {
    let answer = dns.lookup(&reverse_name(client), DnsRecordType::Ptr, deadline).await;
    let (mut confirmed, mut is_whole) = (Vec::new(), !answer.is_unknown());
    for name in answer.names().take(NAMES_MAX) {
        let back = dns.lookup(name, address_kind(client), deadline).await;
        is_whole &= !back.is_unknown();
        if back.addresses().any(|ip| ip == client) {
            confirmed.push(name.to_owned());
        }
    }
    AddressNames { answer, confirmed, is_whole }
}

/// Returns what the result is called (RFC 8601).
pub(crate) fn result_name(result: SpfResult) -> &'static str {
    match result {
        SpfResult::Pass => "pass",
        SpfResult::Fail => "fail",
        SpfResult::SoftFail => "softfail",
        SpfResult::Neutral => "neutral",
        SpfResult::TempError => "temperror",
        SpfResult::PermError => "permerror",
        SpfResult::None => "none",
    }
}
