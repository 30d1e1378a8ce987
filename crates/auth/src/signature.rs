//! DKIM, ARC and DMARC by `mail-auth`: signatures, seals, and what the domain in From has to say of them.
//!
//! The library finds what it needs in a map that is filled beforehand, so it computes and never asks: all keys and
//! policies are known by name from the message alone, and are looked up at once.

use std::borrow::{Borrow, Cow};
use std::collections::HashMap;
use std::hash::Hash;
use std::net::Ipv4Addr;
use std::sync::Arc;

use content::mail::authentication::best_dkim;
use content::web::domain::domain_to_ascii;
use futures_util::FutureExt as _;
use futures_util::future::join_all;
use mail_auth::common::crypto::Algorithm;
use mail_auth::common::parse::TxtRecordParser as _;
use mail_auth::common::verify::{DomainKey, VerifySignature as _};
use mail_auth::dkim::DkimError;
use mail_auth::dmarc::verify::DmarcParameters;
use mail_auth::dmarc::{Dmarc, Policy};
use mail_auth::{
    AuthenticatedMessage, DkimOutput, DkimResult, DmarcResult, DnsError, Error, MessageAuthenticator,
    Parameters, RecordSet, ResolverCache, SpfOutput, Txt,
};
use tokio::time::Instant;

use super::apart;
use super::spf::SpfResult;
use crate::dns::{DnsAnswer, DnsCache, DnsRecordType};

/// Most DKIM signatures that are verified; those of the domain in From go first.
pub(crate) const SIGNATURES_MAX: usize = 5;
/// Most sets of an ARC chain; a longer one fails. The RFC allows 50, and nothing real has ten.
const SETS_MAX: usize = 20;
/// Shortest and longest RSA keys, in bytes as they are published: 1024 bits without a frame (RFC 8301), and 8192 bits, of
/// which each signature costs sixty times as much.
const RSA_BYTES: std::ops::RangeInclusive<usize> = 140..=1100;
/// Largest header whose fields are hashed, and most fields of it: each seal hashes those of all before it, and each name
/// that a signature covers is looked for among all fields. Mail servers take less.
const HEADER_BYTES_MAX: usize = 256 << 10;
const FIELDS_MAX: usize = 2_000;
/// Most names that a signature covers.
const NAMES_MAX: usize = 200;
/// Most signatures that are read at all: a header with more is nobody's but an attacker's.
const READ_MAX: usize = 100;

/// The findings about signatures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SignatureOutcome {
    pub(crate) dkim: &'static str,
    pub(crate) pass_domains: Vec<String>,
    pub(crate) signatures: usize,
    /// A signature covers a part of the body only.
    pub(crate) partial: bool,
    pub(crate) arc: &'static str,
    /// Missing where SPF was not checked and could have changed it.
    pub(crate) dmarc: Option<&'static str>,
    pub(crate) policy: Option<&'static str>,
    pub(crate) dkim_aligned: bool,
    pub(crate) spf_aligned: bool,
}

/// A message with the line ends that were signed: mail that was stored has often lost its carriage returns, and may
/// have got the line of an mbox. Copies if it has to.
pub(crate) fn as_sent(raw: &[u8]) -> Cow<'_, [u8]> {
    let end = |text: &[u8]| text.iter().position(|byte| *byte == b'\n');
    let raw = if raw.starts_with(b"From ") { end(raw).map_or(raw, |end| &raw[end + 1..]) } else { raw };
    if end(raw).is_none_or(|end| end > 0 && raw[end - 1] == b'\r') {
        return Cow::Borrowed(raw);
    }
    let mut sent = Vec::with_capacity(raw.len() + raw.len() / 32);
    for line in raw.split_inclusive(|byte| *byte == b'\n') {
        match line.strip_suffix(b"\n") {
            Some(line) => {
                sent.extend_from_slice(line.strip_suffix(b"\r").unwrap_or(line));
                sent.extend_from_slice(b"\r\n");
            }
            None => sent.extend_from_slice(line),
        }
    }
    Cow::Owned(sent)
}

/// A message whose bodies are hashed; linear in it.
pub(crate) struct HashedMessage<'x> {
    message: AuthenticatedMessage<'x>,
    from: Option<String>,
    signatures: usize,
    partial: bool,
    /// Signatures that are not verified: of SHA-1, which are as good as none (RFC 8301), or dearer than any real one.
    is_refused: bool,
    /// The header is dearer to hash than any real one.
    is_too_dear: bool,
}

impl<'x> HashedMessage<'x> {
    /// `None` if there is no header.
    pub(crate) fn read(raw: &'x [u8]) -> Option<HashedMessage<'x>> {
        let mut message = AuthenticatedMessage::parse(raw)?;
        let mut from = message.from.iter().filter_map(|from| from.rsplit_once('@'));
        let from = from.next().map(|(_, domain)| domain_to_ascii(domain));
        let is = |own: &Error, wanted: &DkimError| matches!(own, Error::Dkim(error) if error == wanted);
        let of_dkim = message.errors.iter().filter(|error| matches!(error.header, Error::Dkim(_)));
        let signatures = message.dkim_headers.len() + of_dkim.count();
        let partial = message.errors.iter().any(|error| is(&error.header, &DkimError::SignatureLength));
        let strong = |algorithm: Algorithm| algorithm != Algorithm::RsaSha1;
        let header_bytes = message.raw_headers().len();
        let is_too_dear = header_bytes > HEADER_BYTES_MAX || message.raw_parsed_headers().len() > FIELDS_MAX;
        let may_be_verified =
            |algorithm: Algorithm, names: usize| strong(algorithm) && names <= NAMES_MAX && !is_too_dear;
        let is_refused =
            message.dkim_headers.iter().any(|own| !may_be_verified(own.header.a, own.header.h.len()));
        message.dkim_headers.truncate(READ_MAX);
        message.dkim_headers.retain(|own| may_be_verified(own.header.a, own.header.h.len()));
        let foreign = |domain: &str| from.as_deref() != Some(&domain_to_ascii(domain));
        message.dkim_headers.sort_by_key(|own| foreign(&own.header.d));
        message.dkim_headers.truncate(SIGNATURES_MAX);
        for own in &mut message.dkim_headers {
            // Nobody reports, and third-party signatures by RFC 6541 never came to be.
            (own.header.r, own.header.atps) = (false, None);
        }
        Some(HashedMessage { message, from, signatures, partial, is_refused, is_too_dear })
    }

    /// Returns whether the ARC chain is verified, if there is one.
    fn reads_chain(&self) -> bool {
        let message = &self.message;
        let names = message.ams_headers.last().map_or(0, |own| own.header.h.len());
        message.as_headers.len() <= SETS_MAX && names <= NAMES_MAX && !self.is_too_dear
    }

    /// The names of the keys of the DKIM signatures that are verified.
    pub(crate) fn keys(&self) -> impl Iterator<Item = String> {
        self.message.dkim_headers.iter().map(|own| own.header.domain_key())
    }

    /// The names of all keys, and of the policies that the domain in From may have.
    fn names(&self) -> Vec<(TxtRecordRole, String)> {
        let message = &self.message;
        let mut names: Vec<String> = self.keys().collect();
        if self.reads_chain() {
            names.extend(message.ams_headers.last().map(|own| own.header.domain_key()));
            names.extend(message.as_headers.iter().map(|own| own.header.domain_key()));
        }
        let mut names: Vec<(TxtRecordRole, String)> =
            names.into_iter().map(|name| (TxtRecordRole::Key, fqdn(&name))).collect();
        names.extend(self.from.iter().flat_map(|from| policy_names(from)));
        names
    }
}

/// The role of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TxtRecordRole {
    Key,
    Policy,
}

/// The form in which the library asks for a name.
fn fqdn(name: &str) -> String {
    let name = name.to_lowercase();
    if name.ends_with('.') { name } else { name + "." }
}

/// The names of the tree walk of RFC 9989, section 4.10: the domain itself, and its parents from the seventh label.
fn policy_names(domain: &str) -> impl Iterator<Item = (TxtRecordRole, String)> {
    let labels: Vec<&str> = domain.split('.').filter(|label| !label.is_empty()).collect();
    let total = labels.len();
    let counts = [total].into_iter().chain((1..total.min(8)).rev()).filter(move |_| total > 1);
    let names: Vec<_> = counts.map(|count| labels[total - count..].join(".")).collect();
    names.into_iter().map(|name| (TxtRecordRole::Policy, fqdn(&format!("_dmarc.{name}"))))
}

/// Records that were looked up. What was not is unknown.
#[derive(Clone, Default)]
struct TxtRecords(HashMap<Box<str>, Txt>);

impl TxtRecords {
    /// Looks up what is not known yet.
    async fn fetch(&mut self, dns: &Arc<DnsCache>, deadline: Instant, names: Vec<(TxtRecordRole, String)>) {
        let mut new: Vec<(TxtRecordRole, String)> = Vec::new();
        for name in names {
            if !self.0.contains_key(name.1.as_str()) && !new.contains(&name) {
                new.push(name);
            }
        }
        let asked = new.into_iter().map(|(role, name)| async move {
            let answer = dns.lookup(&name, DnsRecordType::Txt, deadline).await;
            (name.into_boxed_str(), record(role, &answer))
        });
        self.0.extend(join_all(asked).await);
    }

    fn has_policy(&self, domain: &str) -> bool {
        matches!(self.0.get(fqdn(&format!("_dmarc.{domain}")).as_str()), Some(Txt::Dmarc(_)))
    }
}

impl ResolverCache<Box<str>, Txt> for TxtRecords {
    fn get<Q>(&self, name: &Q) -> Option<Txt>
    where
        Box<str>: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        // Always an answer, so that the library never asks by itself.
        Some(self.0.get(name).cloned().unwrap_or_else(|| Txt::Error(unknown())))
    }

    fn remove<Q>(&self, _: &Q) -> Option<Txt>
    where
        Box<str>: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        None
    }

    fn insert(&self, _: Box<str>, _: Txt, _: std::time::Instant) {}
}

/// Says of every name that it exists.
struct AnyNameExists;

impl ResolverCache<Box<str>, RecordSet<Ipv4Addr>> for AnyNameExists {
    fn get<Q>(&self, _: &Q) -> Option<RecordSet<Ipv4Addr>>
    where
        Box<str>: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        Some(RecordSet { rrset: Arc::new([]), dnssec_status: Default::default() })
    }

    fn remove<Q>(&self, _: &Q) -> Option<RecordSet<Ipv4Addr>>
    where
        Box<str>: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        None
    }

    fn insert(&self, _: Box<str>, _: RecordSet<Ipv4Addr>, _: std::time::Instant) {}
}

/// The library's word for an answer that is not known: results become temporary errors.
fn unknown() -> Error {
    Error::Dns(DnsError::Resolver(String::new()))
}

fn record(role: TxtRecordRole, answer: &DnsAnswer) -> Txt {
    use hickory_resolver::proto::op::ResponseCode;
    match answer {
        DnsAnswer::Failed | DnsAnswer::TimedOut => return Txt::Error(unknown()),
        DnsAnswer::NoName => return Txt::Error(Error::Dns(DnsError::RecordNotFound(ResponseCode::NXDomain))),
        DnsAnswer::Nothing => return Txt::Error(Error::Dns(DnsError::RecordNotFound(ResponseCode::NoError))),
        DnsAnswer::Found(_) => {}
    }
    let mut found = answer.texts().filter_map(|text| match role {
        TxtRecordRole::Key => DomainKey::parse(text).ok().filter(|_| is_fit(text)).map(Txt::from),
        TxtRecordRole::Policy => Dmarc::parse(text).ok().map(Txt::from),
    });
    found.next().unwrap_or_else(|| Txt::Error(Error::Dns(DnsError::InvalidRecordType)))
}

/// Returns whether a published key is neither too short to count nor longer than any real one.
fn is_fit(record: &[u8]) -> bool {
    let record = String::from_utf8_lossy(record);
    let tag = |wanted: &str| {
        let mut tags = record.split(';').filter_map(|tag| tag.split_once('='));
        tags.find(|(name, _)| name.trim() == wanted).map(|(_, value)| value)
    };
    let is_rsa = tag("k").is_none_or(|kind| kind.trim().eq_ignore_ascii_case("rsa"));
    let digits =
        tag("p").unwrap_or_default().bytes().filter(|byte| !byte.is_ascii_whitespace() && *byte != b'=');
    let bytes = digits.count() * 3 / 4;
    !is_rsa || bytes == 0 || RSA_BYTES.contains(&bytes)
}

/// Verifies signatures and seals, and asks for the policy. `spf` is the result and the domain it is about, once it is
/// known.
pub(crate) async fn verify(
    dns: &Arc<DnsCache>,
    deadline: Instant,
    authenticator: &MessageAuthenticator,
    signed: &HashedMessage<'_>,
    spf: impl Future<Output = Option<(SpfResult, String)>>,
) -> (SignatureOutcome, Option<(SpfResult, String)>) {
    let message = &signed.message;
    let mut known = TxtRecords::default();
    let ((), spf) = tokio::join!(known.fetch(dns, deadline, signed.names()), spf);
    // With all answers at hand these are over at once, but they hash and compute.
    let (dkim, arc) = apart(|| {
        let dkim = authenticator.verify_dkim(Parameters::new(message).with_txt_cache(&known)).now_or_never();
        let verify_arc = || {
            let arc =
                authenticator.verify_arc(Parameters::new(message).with_txt_cache(&known)).now_or_never();
            arc.map_or("temperror", |arc| arc_name(arc.result()))
        };
        let has_chain = !message.as_headers.is_empty();
        let arc = if has_chain && !signed.reads_chain() { "fail" } else { verify_arc() };
        (dkim.unwrap_or_default(), arc)
    });
    let mut outcome = SignatureOutcome {
        signatures: signed.signatures,
        partial: signed.partial,
        arc,
        ..SignatureOutcome::default()
    };
    let words = dkim.iter().map(|output| dkim_name(output.result()));
    outcome.dkim = best_dkim(words.chain(signed.is_refused.then_some("policy")));
    for output in dkim.iter().filter(|output| *output.result() == DkimResult::Pass) {
        let domain = output.signature().map(|signature| domain_to_ascii(&signature.d));
        outcome.pass_domains.extend(domain.filter(|domain| !outcome.pass_domains.contains(domain)));
    }
    if let Some(from) = &signed.from {
        let passed = spf.iter().filter(|(result, _)| *result == SpfResult::Pass).map(|(_, domain)| domain);
        let others = outcome.pass_domains.iter().chain(passed).filter(|domain| *domain != from);
        let names = others.flat_map(|domain| policy_names(domain)).collect();
        let mut policies = known.clone();
        policies.fetch(dns, deadline, names).await;
        dmarc(dns, deadline, authenticator, signed, &policies, (&dkim, spf.as_ref()), from, &mut outcome)
            .await;
    }
    (outcome, spf)
}

#[expect(clippy::too_many_arguments, reason = "all that has been found so far")]
async fn dmarc(
    dns: &Arc<DnsCache>,
    deadline: Instant,
    authenticator: &MessageAuthenticator,
    signed: &HashedMessage<'_>,
    known: &TxtRecords,
    (dkim, spf): (&[DkimOutput<'_>], Option<&(SpfResult, String)>),
    from: &str,
    outcome: &mut SignatureOutcome,
) {
    let (spf_result, spf_domain) = spf.map_or((SpfResult::None, ""), |(result, domain)| (*result, domain));
    let spf_output = SpfOutput::new(spf_domain.to_owned()).with_result(spf_result);
    let parameters = DmarcParameters::new(&signed.message, dkim, spf_domain, &spf_output);
    let parameters = Parameters::new(parameters).with_txt_cache(known).with_ipv4_cache(&AnyNameExists);
    let Some(output) = authenticator.verify_dmarc(parameters).now_or_never() else { return };
    outcome.dkim_aligned = *output.dkim_result() == DmarcResult::Pass;
    outcome.spf_aligned = *output.spf_result() == DmarcResult::Pass;
    let temporary = [output.dkim_result(), output.spf_result()]
        .iter()
        .any(|result| matches!(result, DmarcResult::TempError(_)));
    let Some(record) = output.dmarc_record() else {
        outcome.dmarc = Some(if temporary { "temperror" } else { "none" });
        return;
    };
    let mut policy = output.policy();
    if record.np != record.sp && !known.has_policy(from) {
        // What the domain's owner asks for names that do not exist.
        match dns.lookup(from, DnsRecordType::A, deadline).await {
            DnsAnswer::NoName => policy = if record.t { milder(record.np) } else { record.np },
            answer if answer.is_unknown() => policy = Policy::Unspecified,
            _ => {}
        }
    }
    outcome.policy = match policy {
        Policy::None => Some("none"),
        Policy::Quarantine => Some("quarantine"),
        Policy::Reject => Some("reject"),
        Policy::Unspecified => None,
    };
    let unsure = outcome.dkim == "temperror"
        || spf_result == SpfResult::TempError
        || dkim.iter().any(|output| dkim_name(output.result()) == "temperror");
    outcome.dmarc = if outcome.dkim_aligned || outcome.spf_aligned {
        Some("pass")
    } else if unsure {
        Some("temperror")
    } else {
        spf.map(|_| "fail")
    };
}

/// The policy of a record in test mode (RFC 9989, section 4.7).
fn milder(policy: Policy) -> Policy {
    match policy {
        Policy::Reject => Policy::Quarantine,
        Policy::Quarantine => Policy::None,
        other => other,
    }
}

/// Returns what the result is called (RFC 8601).
fn dkim_name(result: &DkimResult) -> &'static str {
    match result {
        DkimResult::Pass => "pass",
        DkimResult::Fail(_) | DkimResult::Neutral(Error::Dkim(DkimError::FailedBodyHashMatch)) => "fail",
        DkimResult::Neutral(Error::Dkim(DkimError::SignatureLength)) => "policy",
        DkimResult::Neutral(_) => "neutral",
        DkimResult::PermError(_) => "permerror",
        DkimResult::TempError(_) => "temperror",
        DkimResult::None => "none",
    }
}

/// A chain is intact or it is not (RFC 8617, section 5.2); what cannot be said yet is an error.
fn arc_name(result: &DkimResult) -> &'static str {
    match result {
        DkimResult::Pass => "pass",
        DkimResult::None => "none",
        DkimResult::TempError(_) => "temperror",
        DkimResult::Fail(_) | DkimResult::Neutral(_) | DkimResult::PermError(_) => "fail",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_sought_up_the_tree() {
        let check = |domain: &str, expected: &[&str]| {
            let names: Vec<String> = policy_names(domain).map(|(_, name)| name).collect();
            assert_eq!(names, expected, "{domain}");
        };
        check("org", &[]);
        check("a.Example.org", &["_dmarc.a.example.org.", "_dmarc.example.org.", "_dmarc.org."]);
        let deep = policy_names("j.i.h.g.f.e.d.c.b.a").map(|(_, name)| name).collect::<Vec<_>>();
        assert_eq!(deep.len(), 8);
        assert_eq!(deep[..2], ["_dmarc.j.i.h.g.f.e.d.c.b.a.", "_dmarc.g.f.e.d.c.b.a."]);
    }

    #[test]
    fn keys_of_no_real_length_do_not_count() {
        let record = |kind: &str, bytes: usize| format!("v=DKIM1; k={kind}; p={}", "A".repeat(bytes * 4 / 3));
        assert!(!is_fit(record("rsa", 94).as_bytes()));
        assert!(is_fit(record("rsa", 162).as_bytes()));
        assert!(is_fit(record("rsa", 550).as_bytes()));
        assert!(!is_fit(record("rsa", 16_000).as_bytes()));
        assert!(is_fit(record("ed25519", 32).as_bytes()));
        assert!(!is_fit(b"p=AAAA"));
        // A key that was taken back says so itself.
        assert!(is_fit(b"v=DKIM1; p="));
    }

    #[test]
    fn line_ends_are_those_of_the_wire() {
        let check = |raw: &str, expected: &str| {
            assert_eq!(String::from_utf8_lossy(&as_sent(raw.as_bytes())), expected, "{raw:?}");
        };
        check("A: b\r\n\r\nc\r\n", "A: b\r\n\r\nc\r\n");
        check("A: b\n\nc\nd", "A: b\r\n\r\nc\r\nd");
        check("From x Mon\nA: b\r\n\r\nc\r\n", "A: b\r\n\r\nc\r\n");
        check("\nx", "\r\nx");
        check("", "");
    }
}
