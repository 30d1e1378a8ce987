//! SPF, signatures, seals and policies against records in memory; nobody is asked.

use std::collections::HashMap;
use std::net::IpAddr;

use futures_util::future::BoxFuture;
use mail_auth::AuthenticationResults;
use mail_auth::arc::ArcSealer;
use mail_auth::common::crypto::Ed25519Key;
use mail_auth::common::headers::HeaderWriter as _;
use mail_auth::dkim::DkimSigner;

use super::*;
use crate::dns::{DnsAnswer, DnsRecord, DnsRecordType, DnsReply, DnsUpstream, normal, reverse_name};

/// Records by name. A name with `broken` in it cannot be had.
#[derive(Clone, Debug, Default)]
struct Zone(HashMap<(DnsRecordType, Box<str>), Vec<DnsRecord>>);

impl Zone {
    fn add(&mut self, name: &str, kind: DnsRecordType, record: DnsRecord) {
        // Nobody can ask for what is no name.
        if let Some(name) = normal(name) {
            self.0.entry((kind, name)).or_default().push(record);
        }
    }

    fn txt(&mut self, name: &str, text: &str) {
        self.add(name, DnsRecordType::Txt, DnsRecord::Txt(text.as_bytes().into()));
    }

    fn address(&mut self, name: &str, ip: IpAddr) {
        match ip {
            IpAddr::V4(ip) => self.add(name, DnsRecordType::A, DnsRecord::A(ip)),
            IpAddr::V6(ip) => self.add(name, DnsRecordType::Aaaa, DnsRecord::Aaaa(ip)),
        }
    }

    /// One record a line: name, type, value.
    fn of(text: &str) -> Zone {
        let mut zone = Zone::default();
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            let words: Vec<&str> = line.trim().splitn(3, ' ').collect();
            let [name, kind, value] = words[..] else { panic!("{line}") };
            match kind {
                "A" => zone.address(name, value.parse().unwrap()),
                "MX" => zone.add(name, DnsRecordType::Mx, DnsRecord::Mx(10, value.into())),
                "PTR" => zone.add(
                    &reverse_name(name.parse().unwrap()),
                    DnsRecordType::Ptr,
                    DnsRecord::Ptr(value.into()),
                ),
                "TXT" => zone.txt(name, value),
                other => panic!("{other}"),
            }
        }
        zone
    }

    fn cache(self) -> Arc<DnsCache> {
        let limits = DnsCacheLimits {
            ttl_min: Duration::from_secs(1),
            ttl_max: Duration::from_secs(60),
            negative_max: Duration::from_secs(60),
            stale: Duration::from_secs(1),
            memory: 1 << 20,
            queries_max: 1000,
        };
        Arc::new(DnsCache::new(Box::new(self), limits, DnsMetrics::default()))
    }
}

impl DnsUpstream for Zone {
    fn query(&self, name: Box<str>, kind: DnsRecordType) -> BoxFuture<'static, DnsReply> {
        let below = format!(".{name}");
        let answer = match self.0.get(&(kind, name.clone())) {
            _ if name.contains("broken") || name.contains("_dns_error") => DnsAnswer::Failed,
            Some(records) => DnsAnswer::Found(records.clone().into()),
            None if self.0.keys().any(|(_, own)| *own == name || own.ends_with(&below)) => DnsAnswer::Nothing,
            None => DnsAnswer::NoName,
        };
        Box::pin(async move { DnsReply { answer, ttl: None } })
    }
}

fn later() -> Instant {
    Instant::now() + Duration::from_secs(10)
}

async fn spf_of(dns: &Arc<DnsCache>, client: &str, helo: &str, sender: &str) -> &'static str {
    let domain = spf_identity(Some(sender), Some(helo)).unwrap_or_default();
    let sender = if sender.contains('@') { sender.to_owned() } else { String::new() };
    let question = SpfQuery { client: client.parse().unwrap(), helo: helo.to_owned(), sender, domain };
    spf::result_name(spf::check(dns, later(), &question).await)
}

#[tokio::test]
async fn clients_are_allowed_or_not() {
    let zone = Zone::of(
        "plain.example TXT v=spf1 ip4:198.51.100.0/24 ip6:2001:db8:1::/48 ?ip4:192.0.2.9 ~all
         other.example TXT something else
         twice.example TXT v=spf1 -all
         twice.example TXT v=spf1 +all
         almost.example TXT v=spf10 -all
         a.example TXT v=spf1 a mx:mail.example -all
         a.example A 198.51.100.7
         mail.example MX mx1.mail.example
         mx1.mail.example A 198.51.100.8
         include.example TXT v=spf1 include:plain.example -all
         nowhere.example TXT v=spf1 include:other.example -all
         redirect.example TXT v=spf1 redirect=plain.example
         lost.example TXT v=spf1 redirect=missing.example
         loop.example TXT v=spf1 include:loop.example -all
         broken-include.example TXT v=spf1 -all
         temp.example TXT v=spf1 a:broken.example -all
         exists.example TXT v=spf1 exists:%{ir}.%{l1r-}.allow.example -all
         7.100.51.198.ann.allow.example A 127.0.0.2
         ptr.example TXT v=spf1 ptr -all
         198.51.100.7 PTR host.ptr.example
         host.ptr.example A 198.51.100.7
         198.51.100.66 PTR forged.ptr.example
         forged.ptr.example A 198.51.100.1
         p.example TXT v=spf1 exists:%{p}.p.example -all
         host.ptr.example.p.example A 127.0.0.2
         void.example TXT v=spf1 a:v1.void.test a:v2.void.test a:v3.void.test +all
         helo.example TXT v=spf1 ip4:198.51.100.7 -all",
    );
    let dns = zone.cache();
    for (client, sender, expected) in [
        ("198.51.100.7", "ann@plain.example", "pass"),
        ("::ffff:198.51.100.7", "ann@plain.example", "pass"),
        ("2001:db8:1::5", "ann@plain.example", "pass"),
        ("192.0.2.9", "ann@plain.example", "neutral"),
        ("192.0.2.1", "ann@plain.example", "softfail"),
        ("192.0.2.1", "ann@other.example", "none"),
        ("192.0.2.1", "ann@missing.example", "none"),
        ("192.0.2.1", "ann@localhost", "none"),
        ("192.0.2.1", "ann@twice.example", "permerror"),
        ("192.0.2.1", "ann@almost.example", "none"),
        ("198.51.100.7", "ann@a.example", "pass"),
        ("198.51.100.8", "ann@a.example", "pass"),
        ("198.51.100.9", "ann@a.example", "fail"),
        ("198.51.100.7", "ann@include.example", "pass"),
        ("192.0.2.1", "ann@include.example", "fail"),
        ("192.0.2.1", "ann@nowhere.example", "permerror"),
        ("192.0.2.1", "ann@redirect.example", "softfail"),
        ("192.0.2.1", "ann@lost.example", "permerror"),
        ("192.0.2.1", "ann@loop.example", "permerror"),
        ("192.0.2.1", "ann@temp.example", "temperror"),
        ("198.51.100.7", "ann-x@exists.example", "pass"),
        ("198.51.100.7", "bob@exists.example", "fail"),
        ("198.51.100.7", "ann@ptr.example", "pass"),
        // A reverse name that does not lead back is nobody's.
        ("198.51.100.66", "ann@ptr.example", "fail"),
        ("198.51.100.7", "ann@p.example", "pass"),
        ("198.51.100.66", "ann@p.example", "fail"),
        // Three empty answers are one too many.
        ("192.0.2.1", "ann@void.example", "permerror"),
        ("192.0.2.1", "ann@broken.example", "temperror"),
        // The null sender is asked for by its HELO name.
        ("198.51.100.7", "<>", "pass"),
        ("192.0.2.1", "<>", "fail"),
    ] {
        assert_eq!(spf_of(&dns, client, "helo.example", sender).await, expected, "{client} {sender}");
    }
}

#[tokio::test]
async fn a_record_asks_ten_times_at_most() {
    for (count, expected) in [(10, "pass"), (11, "permerror")] {
        let mut zone = Zone::default();
        let includes: String = (0..count).map(|number| format!(" include:i{number}.example")).collect();
        zone.txt("many.example", &format!("v=spf1{includes} +all"));
        (0..count).for_each(|number| zone.txt(&format!("i{number}.example"), "v=spf1 ip4:192.0.2.77 -all"));
        assert_eq!(spf_of(&zone.cache(), "198.51.100.1", "h.example", "a@many.example").await, expected);
    }
}

/// A published case: the records, who asks, and what is to come of it.
#[derive(Clone, Debug, Default)]
struct SpfCase {
    zone: Zone,
    ip: String,
    /// The name that the client introduced itself by.
    helo: String,
    sender: String,
    expected: String,
}

/// The cases of a document of `mail-auth`'s SPF tests.
fn spf_cases(text: &str) -> Vec<SpfCase> {
    let (mut cases, mut case, mut shared) = (Vec::new(), SpfCase::default(), Zone::default());
    let mut in_tests = false;
    for line in text.lines().filter(|line| !line.trim_start().starts_with('#')) {
        let Some((key, value)) = line.split_once(':') else { continue };
        let (is_new, key) = (key.trim_start().starts_with("- "), key.trim_start().trim_start_matches("- "));
        let value = value.trim().trim_matches('"');
        match key {
            // A group of cases with records of its own, whose clients are those said before.
            "name" if is_new => case.zone = shared.clone(),
            "name" | "records" => {}
            "tests" => {
                in_tests = true;
                shared = case.zone.clone();
            }
            "ip" => case.ip = value.to_owned(),
            "domain" | "sender" if is_new => {
                case = SpfCase { zone: shared.clone(), ..SpfCase::default() };
                *(if key == "domain" { &mut case.helo } else { &mut case.sender }) = value.to_owned();
            }
            "domain" => case.helo = value.to_owned(),
            "sender" => case.sender = value.to_owned(),
            "expect" => {
                case.expected = value.split(' ').next().unwrap().to_lowercase();
                cases.push(case.clone());
            }
            // What a refusal is to say.
            "exp" if in_tests => {}
            _ => {
                let (name, value) = value.split_once(' ').unwrap();
                record_of(&mut case.zone, key, name, value);
            }
        }
    }
    cases
}

fn record_of(zone: &mut Zone, kind: &str, name: &str, value: &str) {
    let items = value.split(',').map(str::trim).filter(|item| !item.is_empty());
    match kind {
        "spf" | "exp" => zone.txt(name, value),
        "a" | "aaaa" => items.for_each(|ip| zone.address(name, ip.parse().unwrap())),
        "mx" => items.zip(0..).for_each(|(ip, number)| {
            let exchange = format!("mx{number}.of.{}", name.trim_end_matches('.'));
            zone.address(&exchange, ip.parse().unwrap());
            zone.add(name, DnsRecordType::Mx, DnsRecord::Mx(10, exchange.into()));
        }),
        "ptr" => items.for_each(|host| {
            let host = host.trim_end_matches('.').into();
            zone.add(&reverse_name(name.parse().unwrap()), DnsRecordType::Ptr, DnsRecord::Ptr(host));
        }),
        other => panic!("{other}: {name} {value}"),
    }
}

/// Published cases that end otherwise here, and why.
const OTHERWISE: [(&str, &str); 6] = [
    // `ip:` is no mechanism: an error anywhere in a record is one, also behind `all` (4.6).
    ("all test.org 10.0.0.1 sender@test.org", "permerror"),
    // Ten names that do not exist: more than two lookups come back empty (RFC 7208, 4.6.4).
    ("basic ok.test.org 172.168.0.1 sender@ok.test.org", "permerror"),
    // Eleven mail exchangers are too many whether or not one of the first ten would match: which these are, DNS
    // does not say (4.6.4).
    ("basic mx.test.org 10.0.0.8 sender@mx.test.org", "permerror"),
    // `exists` asks for A records only, and the names have none (5.7).
    ("exists ip6.test.org 167.1.2.3 sender@ip6.test.org", "fail"),
    ("macro mx.example.org 2001:db8::cb01 strong-bad@email.example.com", "fail"),
    // `ip6` does not match a client of IPv4, which an address mapped into IPv6 is (5, 5.6).
    ("ip test.org 10.1.2.3 sender@test.org", "fail"),
];

#[tokio::test]
async fn published_spf_cases_hold() {
    let folder = corpora::folder("mail/auth/spf").unwrap();
    let (mut count, mut wrong, mut otherwise) = (0, Vec::new(), OTHERWISE.to_vec());
    for path in corpora::files(&folder) {
        let name = path.file_stem().unwrap().to_string_lossy();
        for case in std::fs::read_to_string(&path).unwrap().split("\n---").flat_map(spf_cases) {
            let SpfCase { zone, ip, helo, sender, expected } = case;
            let dns = zone.cache();
            let domain = spf_identity(Some(&sender), None).unwrap_or_default();
            let helo = if helo.is_empty() { domain.clone() } else { helo };
            let sender = if sender.is_empty() { format!("@{helo}") } else { sender };
            let of = |domain: &str| SpfQuery {
                client: ip.parse().unwrap(),
                helo: helo.clone(),
                sender: sender.clone(),
                domain: domain.to_owned(),
            };
            // There the client's name is checked first, and the sender only where that passes.
            let mut result = spf::result_name(spf::check(&dns, later(), &of(&helo)).await);
            if result == "pass" && !domain.is_empty() && domain != helo {
                result = spf::result_name(spf::check(&dns, later(), &of(&domain)).await);
            }
            count += 1;
            let case = format!("{name} {helo} {ip} {sender}");
            let differs = otherwise.iter().position(|(other, word)| *other == case && *word == result);
            match differs {
                _ if result == expected => {}
                Some(at) => {
                    otherwise.remove(at);
                }
                None => wrong.push(format!("{case}: {result}, not {expected}")),
            }
        }
    }
    assert!(count > 125, "only {count}");
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(otherwise.is_empty(), "these end as published: {otherwise:?}");
}

#[tokio::test]
async fn a_record_with_an_error_is_none_to_go_by() {
    let dns = Zone::of(
        "late.example TXT v=spf1 ip4:198.51.100.7 -all unknown:thing
         address.example TXT v=spf1 ip4:198.51.100.7 ip4:198.51.100.300 -all
         twice.example TXT v=spf1 redirect=a.example redirect=b.example
         odd.example TXT v=spf1 ip4:198.51.100.7 x-note=%{l} -all",
    )
    .cache();
    for (domain, expected) in
        [("late", "permerror"), ("address", "permerror"), ("twice", "permerror"), ("odd", "pass")]
    {
        let sender = format!("ann@{domain}.example");
        assert_eq!(spf_of(&dns, "198.51.100.7", "helo.example", &sender).await, expected, "{domain}");
    }
}

fn authenticator() -> MessageAuthenticator {
    MessageAuthenticator::new(
        ResolverConfig::from_parts(None, Vec::new(), Vec::new()),
        ResolverOpts::default(),
    )
    .unwrap()
}

async fn outcome(zone: Zone, raw: &[u8], spf: Option<(SpfResult, &str)>) -> SignatureOutcome {
    let sent = signature::as_sent(raw);
    let signed = HashedMessage::read(&sent).unwrap();
    let spf = spf.map(|(result, domain)| (result, domain.to_owned()));
    signature::verify(&zone.cache(), later(), &authenticator(), &signed, async { spf }).await.0
}

/// The message of RFC 8463, appendix A, signed by Ed25519 and RSA, and its keys.
const FOOTBALL: &str = "DKIM-Signature: v=1; a=ed25519-sha256; c=relaxed/relaxed;\n d=football.example.com; i=@football.example.com;\n q=dns/txt; s=brisbane; t=1528637909; h=from : to :\n subject : date : message-id : from : subject : date;\n bh=2jUSOH9NhtVGCQWNr9BrIAPreKQjO6Sn7XIkfJVOzv8=;\n b=/gCrinpcQOoIfuHNQIbq4pgh9kyIK3AQUdt9OdqQehSwhEIug4D11Bus\n Fa3bT3FY5OsU7ZbnKELq+eXdp1Q1Dw==\nDKIM-Signature: v=1; a=rsa-sha256; c=relaxed/relaxed;\n d=football.example.com; i=@football.example.com;\n q=dns/txt; s=test; t=1528637909; h=from : to : subject :\n date : message-id : from : subject : date;\n bh=2jUSOH9NhtVGCQWNr9BrIAPreKQjO6Sn7XIkfJVOzv8=;\n b=F45dVWDfMbQDGHJFlXUNB2HKfbCeLRyhDXgFpEL8GwpsRe0IeIixNTe3\n DhCVlUrSjV4BwcVcOF6+FF3Zo9Rpo1tFOeS9mPYQTnGdaSGsgeefOsk2Jz\n dA+L10TeYt9BgDfQNZtKdN1WO//KgIqXP7OdEFE4LjFYNcUxZQ4FADY+8=\nFrom: Joe SixPack <joe@football.example.com>\nTo: Suzie Q <suzie@shopping.example.net>\nSubject: Is dinner ready?\nDate: Fri, 11 Jul 2003 21:00:37 -0700 (PDT)\nMessage-ID: <20030712040037.46341.5F8J@football.example.com>\n\nHi.\n\nWe lost the game.  Are you hungry yet?\n\nJoe.\n";
const ED_KEY: &str = "v=DKIM1; k=ed25519; p=11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=";
const RSA_KEY: &str = "v=DKIM1; k=rsa; p=MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQDkHlOQoBTzWRiGs5V6NpP3idY6Wk08a5qhdR6wy5bdOKb2jLQiY/J16JYi0Qvx/byYzCNb3W91y3FutACDfzwQ/BC/e/8uBsCR+yz1Lxj+PL6lHvqMKrM3rG4hstT5QjvHO9PzoxZyVYLzBfO2EeC3Ip3G+2kryOTIKT+l/K4w3QIDAQAB";

fn football() -> Zone {
    let mut zone = Zone::default();
    zone.txt("brisbane._domainkey.football.example.com", ED_KEY);
    zone.txt("test._domainkey.football.example.com", RSA_KEY);
    zone
}

#[tokio::test]
async fn signatures_of_the_rfc_are_valid() {
    let found = outcome(football(), FOOTBALL.as_bytes(), None).await;
    assert_eq!((found.dkim, found.signatures, found.dmarc), ("pass", 2, Some("none")));
    assert_eq!(found.pass_domains, ["football.example.com"]);
    // Either key alone will do.
    for key in ["brisbane", "test"] {
        let mut zone = football();
        zone.0.retain(|(_, name), _| name.starts_with(key));
        assert_eq!(outcome(zone, FOOTBALL.as_bytes(), None).await.dkim, "pass", "{key}");
    }
    let changed = |from: &str, to: &str| FOOTBALL.replacen(from, to, 1).into_bytes();
    assert_eq!(outcome(football(), &changed("We lost", "We won"), None).await.dkim, "fail");
    assert_eq!(outcome(football(), &changed("dinner", "lunch"), None).await.dkim, "fail");
    assert_eq!(outcome(Zone::default(), FOOTBALL.as_bytes(), None).await.dkim, "permerror");
    let lost = FOOTBALL.replace("s=brisbane", "s=broken").replace("s=test", "s=broken");
    assert_eq!(outcome(football(), lost.as_bytes(), None).await.dkim, "temperror");
    let old = FOOTBALL.replace("rsa-sha256", "rsa-sha1").replace("s=brisbane", "s=none");
    assert_eq!(outcome(football(), old.as_bytes(), None).await.dkim, "policy");
    let unsigned = "From: a@football.example.com\n\nHi\n";
    assert_eq!(outcome(football(), unsigned.as_bytes(), None).await.dkim, "none");
}

/// The key of RFC 8463, whose public half is [`ED_KEY`].
fn key() -> Ed25519Key {
    let bytes = |hex: &str| -> Vec<u8> {
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
    };
    let seed = bytes("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60");
    let public = bytes("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a");
    Ed25519Key::from_seed_and_public_key(&seed, &public).unwrap()
}

fn sign(message: &str, domain: &str, partly: bool) -> String {
    let signer = DkimSigner::from_key(key()).domain(domain).selector("s").headers(["From", "Subject"]);
    let signature = signer.body_length(partly).sign(message.as_bytes()).unwrap();
    format!("{}{message}", signature.to_header())
}

const PLAIN: &str = "From: Ann <ann@news.example.org>\r\nSubject: Hello\r\n\r\nHello Bob\r\n";

#[tokio::test]
async fn policies_go_by_the_domain_in_from() {
    let zone = |policy: &str| {
        let mut zone = Zone::default();
        for domain in ["example.org", "news.example.org", "other.example", "a.example.org"] {
            zone.txt(&format!("s._domainkey.{domain}"), ED_KEY);
        }
        zone.txt("_dmarc.example.org", policy);
        zone.address("news.example.org", "192.0.2.1".parse().unwrap());
        zone
    };
    let reject = "v=DMARC1; p=quarantine; sp=reject";
    let pass = |domain| Some((SpfResult::Pass, domain));
    let fail = Some((SpfResult::Fail, "news.example.org"));
    let own = sign(PLAIN, "example.org", false);
    let foreign = sign(PLAIN, "other.example", false);
    let sibling = sign(PLAIN, "a.example.org", false);
    for (policy, raw, spf, expected) in [
        (reject, &own, fail, (Some("pass"), Some("reject"), true, false)),
        (reject, &sibling, fail, (Some("pass"), Some("reject"), true, false)),
        (reject, &foreign, fail, (Some("fail"), Some("reject"), false, false)),
        (reject, &foreign, pass("bounce.example.org"), (Some("pass"), Some("reject"), false, true)),
        (reject, &foreign, pass("other.example"), (Some("fail"), Some("reject"), false, false)),
        // Without SPF it cannot be said that nobody vouches for it.
        (reject, &foreign, None, (None, Some("reject"), false, false)),
        (reject, &own, None, (Some("pass"), Some("reject"), true, false)),
        (
            reject,
            &foreign,
            Some((SpfResult::TempError, "x.example")),
            (Some("temperror"), Some("reject"), false, false),
        ),
        ("v=DMARC1; p=none; adkim=s", &own, fail, (Some("fail"), Some("none"), false, false)),
        ("v=DMARC1; p=reject; t=y", &foreign, fail, (Some("fail"), Some("quarantine"), false, false)),
        ("nothing of the kind", &foreign, fail, (Some("none"), None, false, false)),
    ] {
        let found = outcome(zone(policy), raw.as_bytes(), spf).await;
        let found = (found.dmarc, found.policy, found.dkim_aligned, found.spf_aligned);
        assert_eq!(found, expected, "{policy} {spf:?}\n{raw}");
    }
    // What the owner asks for names that are not there.
    let np = "v=DMARC1; p=none; sp=none; np=reject";
    let ghost = PLAIN.replace("news.", "ghost.");
    let found = outcome(zone(np), ghost.as_bytes(), fail).await;
    assert_eq!((found.dmarc, found.policy), (Some("fail"), Some("reject")));
    let found = outcome(zone(np), PLAIN.as_bytes(), fail).await;
    assert_eq!((found.dmarc, found.policy), (Some("fail"), Some("none")));
    // A policy that cannot be had is not none.
    let found =
        outcome(Zone::default(), PLAIN.replace("news.example.org", "broken.example").as_bytes(), fail).await;
    assert_eq!(found.dmarc, Some("temperror"));
    // Two authors of two domains have none.
    let two = PLAIN.replace("From: ", "From: x@other.example, ");
    assert_eq!(outcome(zone(reject), two.as_bytes(), fail).await.dmarc, Some("none"));
}

#[tokio::test]
async fn signatures_are_bounded_and_cover_all() {
    let mut zone = Zone::default();
    zone.txt("s._domainkey.news.example.org", ED_KEY);
    let partly = outcome(zone.clone(), sign(PLAIN, "news.example.org", true).as_bytes(), None).await;
    assert_eq!((partly.dkim, partly.partial, partly.pass_domains.len()), ("policy", true, 0));
    // Junk above the signature of From's domain does not hide it.
    let junk = sign(PLAIN, "junk.example", false).replace(PLAIN, "");
    let buried = junk.repeat(50) + &sign(PLAIN, "news.example.org", false);
    let found = outcome(zone.clone(), buried.as_bytes(), None).await;
    assert_eq!((found.dkim, found.signatures), ("pass", 51));
    // But it is not all verified.
    let signed = HashedMessage::read(buried.as_bytes()).unwrap();
    assert_eq!(signed.keys().count(), signature::SIGNATURES_MAX);
}

/// Names that a signature covers are looked for among all fields, by each signature: what no mail server sends is not
/// verified, and says so, while From's policy is asked for all the same.
#[tokio::test]
async fn signatures_dearer_than_any_real_one_are_not_verified() {
    let mut zone = Zone::default();
    zone.txt("s._domainkey.news.example.org", ED_KEY);
    zone.txt("_dmarc.news.example.org", "v=DMARC1; p=reject");
    let signed = sign(PLAIN, "news.example.org", false);
    let spf = Some((SpfResult::Fail, "news.example.org"));
    let names: String = (0..50_000).map(|number| format!("x{number}:")).collect();
    let covers_many = signed.replacen("h=", &format!("h={names}"), 1);
    let has_many = signed.replacen("\r\nFrom:", &format!("\r\n{}From:", "a:\r\n".repeat(100_000)), 1);
    let has_long = signed.replacen("\r\nFrom:", &format!("\r\nX: {}\r\nFrom:", "a".repeat(1 << 20)), 1);
    for (message, what) in [(covers_many, "names"), (has_many, "fields"), (has_long, "bytes")] {
        let sent = signature::as_sent(message.as_bytes());
        let read = HashedMessage::read(&sent).unwrap();
        assert_eq!(read.keys().count(), 0, "{what}: none is looked up or verified");
        let found = outcome(zone.clone(), message.as_bytes(), spf).await;
        assert_eq!((found.dkim, found.signatures), ("policy", 1), "{what}");
        assert_eq!((found.dmarc, found.policy), (Some("fail"), Some("reject")), "{what}");
    }
    assert_eq!(outcome(zone, signed.as_bytes(), spf).await.dmarc, Some("pass"));
}

/// Records and senders that would be expanded to megabytes are refused before they are.
#[tokio::test]
async fn spf_records_made_to_cost_are_errors() {
    let mut zone = Zone::default();
    let long = "a".repeat(500);
    let all = |count: usize| "%{s}".repeat(count);
    zone.txt("macros.example", &format!("v=spf1 exists:{}.macros.example +all", all(15_000)));
    zone.txt("template.example", &format!("v=spf1 exists:{}.template.example +all", all(150)));
    zone.txt("many.example", &format!("v=spf1 {}+all", "ip4:10.0.0.1 ".repeat(5_000)));
    zone.txt("fine.example", &format!("v=spf1 exists:{}.fine.example +all", all(100)));
    for (domain, expected) in
        [("macros", "permerror"), ("template", "permerror"), ("many", "permerror"), ("fine", "pass")]
    {
        let domain = format!("{domain}.example");
        let question = |sender: String| spf::SpfQuery {
            client: "192.0.2.1".parse().unwrap(),
            helo: String::new(),
            sender,
            domain: domain.clone(),
        };
        let asked = spf::check(&zone.clone().cache(), later(), &question(format!("ann@{domain}"))).await;
        assert_eq!(spf::result_name(asked), expected, "{domain}");
        let asked =
            spf::check(&zone.clone().cache(), later(), &question(format!("{long}{long}@{domain}"))).await;
        assert_eq!(spf::result_name(asked), "permerror", "{domain}: a sender that no mail server takes");
    }
}

#[tokio::test]
async fn seals_are_verified() {
    let mut zone = Zone::default();
    zone.txt("s._domainkey.lists.example.com", ED_KEY);
    let none = authenticator();
    let message = mail_auth::AuthenticatedMessage::parse(PLAIN.as_bytes()).unwrap();
    let arc = none.verify_arc(mail_auth::Parameters::new(&message)).now_or_never().unwrap();
    let results = AuthenticationResults::new("lists.example.com");
    let sealer =
        ArcSealer::from_key(key()).domain("lists.example.com").selector("s").headers(["From", "Subject"]);
    let set = sealer.seal(&message, &results, &arc).unwrap();
    let sealed = format!("{}{PLAIN}", set.to_header());
    assert_eq!(outcome(zone.clone(), sealed.as_bytes(), None).await.arc, "pass");
    assert_eq!(outcome(zone.clone(), sealed.replace("Bob", "Eve").as_bytes(), None).await.arc, "fail");
    assert_eq!(outcome(zone.clone(), PLAIN.as_bytes(), None).await.arc, "none");
    assert_eq!(outcome(Zone::default(), sealed.as_bytes(), None).await.arc, "fail");
    let lost = sealed.replace("lists.example.com", "broken.example");
    assert_eq!(outcome(zone, lost.as_bytes(), None).await.arc, "temperror");
}

#[tokio::test]
async fn published_signatures_and_seals_hold() {
    for kind in ["auth/dkim", "auth/arc"] {
        let folder = corpora::folder(&format!("mail/{kind}")).unwrap();
        let cases = corpora::files(&folder);
        assert!(!cases.is_empty());
        for path in cases {
            let text = std::fs::read(&path).unwrap();
            let end = text.windows(2).position(|two| two == b"\n\n").unwrap();
            let mut zone = Zone::default();
            for line in String::from_utf8_lossy(&text[..end]).lines() {
                let (name, record) = line.split_once(' ').unwrap();
                zone.txt(name, record);
            }
            let found = outcome(zone.clone(), &text[end + 2..], None).await;
            // One of them was good for a day.
            let is_over = text.windows(4).any(|four| four == b" x=1");
            assert_eq!(found.dkim, if is_over { "neutral" } else { "pass" }, "{}", path.display());
            assert_eq!(found.arc, if kind == "auth/arc" { "pass" } else { found.arc }, "{}", path.display());
            // Without keys nothing passes.
            let found = outcome(Zone::default(), &text[end + 2..], None).await;
            assert_ne!(found.dkim, "pass", "{}", path.display());
        }
    }
}

/// Nothing that is odd about them passes, or stops us, where no key is published.
#[tokio::test]
async fn odd_messages_are_survived() {
    for kind in
        ["edge-spamassassin/dkim", "edge-spamassassin/nice", "edge-spamassassin/dkim/arc", "edge-rspamd"]
    {
        let Some(folder) = corpora::folder(&format!("mail/{kind}")) else { continue };
        for path in corpora::files(&folder) {
            let raw = std::fs::read(&path).unwrap();
            let sent = signature::as_sent(&raw);
            let Some(signed) = HashedMessage::read(&sent) else { continue };
            let found =
                signature::verify(&Zone::default().cache(), later(), &authenticator(), &signed, async {
                    None
                })
                .await
                .0;
            assert!(
                found.dkim != "pass" && found.arc != "pass" && found.pass_domains.is_empty(),
                "{}",
                path.display()
            );
        }
    }
}
