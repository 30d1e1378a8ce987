//! Look-ups for a message before its keys are made: authentication (SPF, DKIM, DMARC, ARC), reverse DNS of the client,
//! and DNS lists of the addresses and domains in it.
//!
//! ```text
//! event ─► fields, content ─► lookups, all at once, until the deadline ─► facts ─► keys
//! ```
//!
//! What is not known in time is missing, or says `temperror`; it is never guessed. All of it becomes facts, which the
//! journal keeps: what is judged again later asks nobody.

#![forbid(unsafe_code)]

mod dns;
mod dns_lists;
mod metrics;
mod signature;
mod spf;
mod spf_record;
#[cfg(test)]
mod tests;

use std::future::ready;
use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use content::budget::Cancellation;
use content::mail::authentication::spf_identity;
use content::network::is_public;
use engine::{Engine, PreparedEvent, UnkeyedEvent};
use event::{Event, Slot, Span, Time, Value};
use futures_util::FutureExt as _;
use hickory_resolver::config::{ResolverConfig, ResolverOpts};
use mail_auth::MessageAuthenticator;
use plan::{NodePlan, Pipeline};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::time::Instant;

use dns::{DnsCache, DnsCacheLimits, HickoryResolver};
pub use metrics::DnsMetrics;
use signature::{HashedMessage, SignatureOutcome};
use spf::{AddressNames, SpfQuery, SpfResult};

/// Name service, and what uses it.
pub struct MessageChecks {
    dns: Arc<DnsCache>,
    authenticator: MessageAuthenticator,
    timeout: Duration,
}

fn duration(span: Span) -> Duration {
    Duration::from_micros(span.0.unsigned_abs())
}

impl std::fmt::Debug for MessageChecks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MessageChecks").finish_non_exhaustive()
    }
}

impl MessageChecks {
    /// Returns the checks that a configuration asks for; `None` where nothing is to be looked up. Within a runtime of tokio.
    pub fn new(plan: &NodePlan, metrics: &DnsMetrics) -> Option<MessageChecks> {
        let dns = &plan.dns;
        if !dns.is_on() {
            return None;
        }
        let limits = DnsCacheLimits {
            ttl_min: duration(dns.ttl_min),
            ttl_max: duration(dns.ttl_max),
            negative_max: duration(dns.negative_max),
            stale: duration(dns.stale),
            memory: dns.memory,
            queries_max: dns.queries_max,
        };
        // It never asks anybody: see `signature`.
        let none = ResolverConfig::from_parts(None, Vec::new(), Vec::new());
        let authenticator = MessageAuthenticator::new(none, ResolverOpts::default());
        let authenticator =
            authenticator.inspect_err(|error| tracing::error!(%error, "signatures are not verified")).ok()?;
        Some(MessageChecks {
            dns: Arc::new(DnsCache::new(Box::new(HickoryResolver::new(dns)?), limits, metrics.clone())),
            authenticator,
            timeout: duration(dns.timeout).min(duration(plan.server.timeout) / 2),
        })
    }

    /// Adds what can be learnt of a message, within the configured time for name service. Reading the message anew for its
    /// signatures waits for `place`, which is held meanwhile; without one its senders are not authenticated.
    pub async fn add<P>(&self, read: &mut UnkeyedEvent, raw: &[u8], place: impl Future<Output = Option<P>>) {
        let pipeline = Arc::clone(read.pipeline());
        let (Some(auth), Some(envelope)) = (pipeline.auth_columns(), pipeline.envelope_columns()) else {
            return;
        };
        let deadline = Instant::now() + self.timeout;
        let facts = read.facts();
        let has = |slot: Slot| facts.get(slot).is_some();
        let text = |slot: Slot| facts.get(slot).and_then(Value::as_str);
        let client = match facts.get(envelope.client_ip) {
            Some(Value::Ip(ip)) => Some(*ip),
            _ => None,
        };
        // Who has logged in sends from anywhere, for domains that do not know the place.
        let is_own = has(envelope.user);
        let told = [auth.spf, auth.dkim, auth.dmarc].into_iter().all(has);
        let question = client.zip(text(envelope.sender)).and_then(|(client, sender)| {
            let helo = text(envelope.helo);
            Some(SpfQuery {
                client,
                helo: helo.unwrap_or_default().to_owned(),
                sender: if sender.contains('@') { sender.to_owned() } else { String::new() },
                domain: spf_identity(Some(sender), helo)?,
            })
        });
        let checks = async {
            if !pipeline.checks || is_own || told {
                return None;
            }
            self.authenticate(deadline, raw, question, place).await
        };
        let asked =
            client.filter(|ip| is_public(*ip) && !is_own && !has(auth.ptr) && !has(auth.ptr_confirmed));
        let names = async {
            match asked {
                Some(client) => Some(spf::confirmed(&self.dns, deadline, client).await),
                None => None,
            }
        };
        // The list of dynamic addresses has those of one's own users, too.
        let of_client = (envelope.client_ip, !is_own);
        let lists = dns_lists::ask(&self.dns, deadline, &pipeline.lists, of_client, facts);
        let (checked, names, listed) = tokio::join!(checks, names, lists);
        if let Some((outcome, spf)) = checked {
            add_facts(read, &outcome, spf);
            read.seal(raw);
        }
        if let Some(AddressNames { answer, confirmed, .. }) = names.filter(|names| !names.answer.is_unknown())
        {
            let shown = confirmed.first().map(String::as_str).or_else(|| answer.names().next());
            if let Some(name) = shown {
                read.set(auth.ptr, Value::from(name));
            }
            read.set(auth.ptr_confirmed, Value::from(!confirmed.is_empty()));
        }
        let told = [
            (auth.dnsbl_ip, listed.ip),
            (auth.dnsbl_domains, listed.domains),
            (auth.dnsbl_answers, listed.answers),
            (auth.dnsbl_listed, listed.listed),
            (auth.dnsbl_failed, listed.failed),
        ];
        for (slot, items) in told.into_iter().filter(|(_, items)| !items.is_empty()) {
            read.set(slot, Value::from(items));
        }
    }

    /// Returns the names of an address that name service has forward and back, within the configured time; `None` if that
    /// cannot be known now. An address that is nobody's has none.
    pub async fn confirmed_names(&self, client: IpAddr) -> Option<Vec<String>> {
        if !is_public(client) {
            return Some(Vec::new());
        }
        let deadline = Instant::now() + self.timeout;
        let names = spf::confirmed(&self.dns, deadline, client).await;
        // A name that could not be looked up may be the one that is asked for.
        (names.is_whole || !names.confirmed.is_empty()).then_some(names.confirmed)
    }

    async fn authenticate<P>(
        &self,
        deadline: Instant,
        raw: &[u8],
        question: Option<SpfQuery>,
        place: impl Future<Output = Option<P>>,
    ) -> Option<(SignatureOutcome, Option<(SpfResult, String)>)> {
        let work = async {
            let place = place.await?;
            let sent = signature::as_sent(raw);
            let signed = apart(|| HashedMessage::read(&sent))?;
            drop(place);
            let spf = async {
                let question = question?;
                let result = spf::check(&self.dns, deadline, &question).await;
                Some((result, question.domain))
            };
            Some(signature::verify(&self.dns, deadline, &self.authenticator, &signed, spf).await)
        };
        // A message that the library stumbles over is judged without it.
        let done = AssertUnwindSafe(work).catch_unwind().await;
        done.inspect_err(|_| tracing::error!("authentication of a message crashed")).ok().flatten()
    }
}

/// Does what takes long in a way that lets others go on.
fn apart<T>(work: impl FnOnce() -> T) -> T {
    if Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread {
        tokio::task::block_in_place(work)
    } else {
        work()
    }
}

/// Own results as facts; they take the place of what others said.
fn add_facts(read: &mut UnkeyedEvent, outcome: &SignatureOutcome, spf: Option<(SpfResult, String)>) {
    let pipeline = Arc::clone(read.pipeline());
    let Some(auth) = pipeline.auth_columns() else { return };
    for slot in [auth.dkim_pass_domains, auth.dmarc, auth.dmarc_policy, auth.arc_sealer, auth.arc_trusted] {
        read.clear(slot);
    }
    read.set(auth.source, Value::from("own"));
    if let Some((result, domain)) = spf {
        read.set(auth.spf, Value::from(spf::result_name(result)));
        read.set(auth.spf_domain, Value::from(domain));
        read.set(auth.spf_aligned, Value::from(outcome.spf_aligned));
    }
    read.set(auth.dkim, Value::from(outcome.dkim));
    read.set(auth.dkim_aligned, Value::from(outcome.dkim_aligned));
    read.set(auth.dkim_signatures, Value::from(outcome.signatures));
    read.set(auth.dkim_partial, Value::from(outcome.partial));
    if !outcome.pass_domains.is_empty() {
        read.set(auth.dkim_pass_domains, Value::from(outcome.pass_domains.clone()));
    }
    read.set(auth.arc, Value::from(outcome.arc));
    for (slot, word) in [(auth.dmarc, outcome.dmarc), (auth.dmarc_policy, outcome.policy)] {
        if let Some(word) = word {
            read.set(slot, Value::from(word));
        }
    }
}

/// Lookups for a program that judges messages without a server, by the same settings.
#[derive(Debug)]
pub struct NameService(MessageChecks);

impl NameService {
    /// `None` where `[dns]` of the configuration names no resolvers. Within a runtime of tokio.
    pub fn new(plan: &NodePlan) -> Option<NameService> {
        MessageChecks::new(plan, &DnsMetrics::default()).map(NameService)
    }

    /// All that comes before statistics, lookups included: as [`Engine::prepare`], but that it ends within the configured
    /// time for name service.
    pub async fn prepare(
        &self,
        engine: &Engine,
        pipeline: &Arc<Pipeline>,
        event: Event,
        arrival: Time,
    ) -> PreparedEvent {
        let raw = event.raw.clone();
        let mut read = engine.read(pipeline, event, arrival, &Cancellation::default());
        if let Some(raw) = raw {
            self.0.add(&mut read, &raw, ready(Some(()))).await;
        }
        engine.key(read)
    }
}
