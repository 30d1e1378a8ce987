//! Look-ups about a message, with a name server that each test starts.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::thread::scope;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{MAIL, MESSAGE, TestServer, configure, directory, start, switch_on};
use crate::name_server::{NameServer, Say, reverse};

/// A public address that nobody is asked about in earnest.
const CLIENT: &str = "Tollhouse-Client-Ip: 11.22.33.44";
const HELO: &str = "Tollhouse-Helo: mx.example.org";
const SENDER: &str = "Tollhouse-Mail-From: ann@example.org";

const LISTS: &str = r#"
[[dnsbl]]
name = "zen"
zone = "zen.lists.example"
of = ["client.ip"]
answers = ["127.0.0.2-127.0.0.3 sbl", "127.0.0.4 xbl"]

[[dnsbl]]
name = "hosts"
zone = "hosts.lists.example"
of = ["mail.link_hosts", "mail.from_domain"]
answers = ["&8 phish"]

[[dnsbl]]
name = "closed"
zone = "closed.lists.example"
of = ["client.ip"]

[[dnsbl]]
name = "parked"
zone = "parked.lists.example"
of = ["client.ip"]
"#;

fn txt(text: &str) -> Say {
    Say::Txt(text.to_owned())
}

fn usual() -> Vec<(&'static str, Say)> {
    vec![
        ("example.org", txt("v=spf1 ip4:11.22.33.0/24 -all")),
        ("_dmarc.example.org", txt("v=DMARC1; p=reject")),
        ("44.33.22.11.in-addr.arpa", Say::Ptr("mx.example.org".to_owned())),
        ("mx.example.org", Say::A(Ipv4Addr::new(11, 22, 33, 44))),
        ("44.33.22.11.zen.lists.example", Say::A(Ipv4Addr::new(127, 0, 0, 4))),
        ("example.org.hosts.lists.example", Say::A(Ipv4Addr::new(127, 0, 0, 10))),
        ("44.33.22.11.closed.lists.example", Say::A(Ipv4Addr::new(127, 255, 255, 254))),
        ("44.33.22.11.parked.lists.example", Say::A(Ipv4Addr::new(192, 0, 2, 80))),
    ]
}

/// Runs a test with a node that asks this name server.
fn with(server: &NameServer, more: &str, settings: &[(&str, &str)], test: impl FnOnce(&TestServer)) {
    let parent = tempfile::tempdir().unwrap();
    let directory = directory(&parent.path().join("data"));
    configure(&directory, more);
    let resolvers = server.setting();
    let own = settings
        .iter()
        .find(|(name, _)| *name == "dns.resolvers")
        .map_or(resolvers.as_str(), |(_, own)| *own);
    let others = settings.iter().copied().filter(|(name, _)| *name != "dns.resolvers");
    let settings: Vec<(&str, &str)> = others.chain([("dns.resolvers", own)]).collect();
    let running = start(&directory, &settings);
    test(&running);
    running.stop();
}

fn observe(node: &TestServer, headers: &[&str], message: &str) -> BTreeMap<String, Value> {
    let headers: Vec<&str> = [MAIL].into_iter().chain(headers.iter().copied()).collect();
    let answer = node.post("/v1/observe", &headers, message);
    assert_eq!(answer.status, 200, "{}", answer.body);
    let facts = answer.json()["facts"].as_object().unwrap().clone();
    let wanted = |name: &str| {
        name.starts_with("auth.") || name.starts_with("dnsbl.") || name.starts_with("client.ptr")
    };
    facts.into_iter().filter(|(name, _)| wanted(name)).collect()
}

fn check(facts: &BTreeMap<String, Value>, expected: &Value) {
    assert_eq!(serde_json::to_value(facts).unwrap(), *expected);
}

#[test]
fn answers_become_facts() {
    let server = NameServer::start(&usual());
    with(&server, LISTS, &[], |node| {
        let facts = observe(node, &[CLIENT, HELO, SENDER], MESSAGE);
        check(
            &facts,
            &json!({
                "auth.source": "own", "auth.spf": "pass", "auth.spf_domain": "example.org", "auth.spf_aligned": true,
                "auth.dkim": "none", "auth.dkim_aligned": false, "auth.dkim_signatures": 0, "auth.dkim_partial": false,
                "auth.dmarc": "pass", "auth.dmarc_policy": "reject", "auth.arc": "none",
                "client.ptr": "mx.example.org", "client.ptr_confirmed": true,
                "dnsbl.ip": ["zen"], "dnsbl.domains": ["hosts"],
                "dnsbl.answers": ["zen:xbl", "hosts:phish"],
                "dnsbl.listed": ["zen:11.22.33.44", "hosts:example.org"],
                "dnsbl.failed": ["closed"],
            }),
        );
        // A forger, from an address without a name.
        let facts = observe(node, &["Tollhouse-Client-Ip: 11.99.1.1", SENDER], MESSAGE);
        let of = |name: &str| facts.get(name).cloned().unwrap_or_default();
        assert_eq!((of("auth.spf"), of("auth.dmarc")), (json!("fail"), json!("fail")));
        assert_eq!((of("client.ptr"), of("client.ptr_confirmed")), (Value::Null, json!(false)));
        // The verdict is told with its reasons, and what was found is in the journal.
        let answer =
            node.post("/v1/decide", &[MAIL, "Tollhouse-Client-Ip: 11.99.1.1", SENDER], MESSAGE).json();
        let rules: Vec<&str> = answer["reasons"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|reason| reason["name"].as_str())
            .collect();
        assert!(rules.contains(&"DMARC_REJECT") && rules.contains(&"NO_REVERSE_NAME"), "{answer}");
        let before = server.asked().len();
        let id = answer["id"].as_str().unwrap();
        let logged = node.get(&format!("/v1/decisions/{id}"));
        assert_eq!(logged.json()["facts"]["auth.dmarc"], "fail", "{}", logged.body);
        // A client that has logged in may send from anywhere.
        let facts = observe(node, &[CLIENT, SENDER, "Tollhouse-User: ann"], MESSAGE);
        check(
            &facts,
            &json!({"dnsbl.domains": ["hosts"], "dnsbl.answers": ["hosts:phish"], "dnsbl.listed": ["hosts:example.org"]}),
        );
        assert_eq!(server.asked().len(), before);
        let metrics = node.get("/metrics").body;
        for name in [
            "tollhouse_dns_lookups_total{from=\"cache\"}",
            "tollhouse_dns_lookups_total{from=\"upstream\"}",
            "tollhouse_dns_query_seconds_count{outcome=\"found\"}",
            "tollhouse_dns_query_seconds_count{outcome=\"no-name\"}",
            "tollhouse_dnsbl_refusals_total{list=\"closed\"}",
        ] {
            assert!(metrics.contains(name), "{name}\n{metrics}");
        }
    });
}

#[test]
fn well_known_lists_are_one_switch() {
    let of_client =
        |zone: &str, answer: [u8; 4]| (format!("44.33.22.11.{zone}"), Say::A(Ipv4Addr::from(answer)));
    let of_domain =
        |zone: &str, answer: [u8; 4]| (format!("example.org.{zone}"), Say::A(Ipv4Addr::from(answer)));
    let asks = |answers: &[(String, Say)], modules: &[&str], expected: &Value, fired: &[&str]| {
        let answers: Vec<(&str, Say)> =
            answers.iter().map(|(name, say)| (name.as_str(), say.clone())).collect();
        let server = NameServer::start(&answers);
        let parent = tempfile::tempdir().unwrap();
        let directory = directory(&parent.path().join("data"));
        switch_on(&directory, modules);
        let node = start(&directory, &[("dns.resolvers", &server.setting()), ("auth.checks", "false")]);
        let mut facts = observe(&node, &[CLIENT, SENDER], MESSAGE);
        facts.retain(|name, _| name.starts_with("dnsbl."));
        check(&facts, expected);
        let decided = node.post("/v1/decide", &[MAIL, CLIENT, SENDER], MESSAGE).json();
        let names =
            decided["reasons"].as_array().unwrap().iter().filter_map(|reason| reason["name"].as_str());
        let mut names: Vec<&str> = names.filter(|name| name.starts_with("DNS")).collect();
        names.sort_unstable();
        assert_eq!(names, fired, "{decided}");
        node.stop();
        server.asked()
    };
    let modules = ["dns-lists", "dns-list-barracuda"];
    let asked = asks(&[], &modules, &json!({}), &[]);
    let zones = [
        "44.33.22.11.zen.spamhaus.org",
        "44.33.22.11.bl.spamcop.net",
        "44.33.22.11.psbl.surriel.com",
        "44.33.22.11.bl.mailspike.net",
        "44.33.22.11.list.dnswl.org",
        "44.33.22.11.b.barracudacentral.org",
        "example.org.dbl.spamhaus.org",
        "example.org.multi.surbl.org",
        "example.org.multi.uribl.com",
    ];
    for zone in zones {
        assert!(asked.iter().any(|question| question.contains(zone)), "{zone}: {asked:?}");
    }
    asks(
        &[
            of_client("zen.spamhaus.org", [127, 0, 0, 4]),
            of_client("list.dnswl.org", [127, 0, 5, 2]),
            of_domain("multi.surbl.org", [127, 0, 0, 72]),
            of_domain("multi.uribl.com", [127, 0, 0, 4]),
        ],
        &modules,
        &json!({
            "dnsbl.ip": ["spamhaus_zen"], "dnsbl.domains": ["surbl"],
            "dnsbl.answers": ["spamhaus_zen:xbl", "surbl:phish", "surbl:abuse", "dnswl:trusted"],
            "dnsbl.listed": ["spamhaus_zen:11.22.33.44", "surbl:example.org", "dnswl:11.22.33.44"],
        }),
        &["DNSBL_DANGEROUS_DOMAIN", "DNSBL_SPAMHAUS", "DNSBL_SURBL", "DNSWL_TRUSTED"],
    );
    // Lists that refuse us list nobody, and trust nobody.
    asks(
        &[
            of_client("zen.spamhaus.org", [127, 255, 255, 254]),
            of_client("list.dnswl.org", [127, 0, 0, 255]),
            of_domain("dbl.spamhaus.org", [127, 0, 1, 255]),
            of_domain("multi.surbl.org", [127, 0, 0, 1]),
            of_domain("multi.uribl.com", [127, 0, 0, 1]),
        ],
        &modules,
        &json!({"dnsbl.failed": ["spamhaus_zen", "spamhaus_dbl", "surbl", "uribl", "dnswl"]}),
        &[],
    );
    // Without the module nobody of them is asked.
    let asked = asks(&[], &[], &json!({}), &[]);
    assert!(asked.iter().all(|question| question.contains("in-addr.arpa")), "{asked:?}");
}

#[test]
fn nobody_is_asked_unless_it_is_switched_on() {
    let server = NameServer::start(&usual());
    with(&server, LISTS, &[("dns.resolvers", "[]")], |node| {
        check(&observe(node, &[CLIENT, HELO, SENDER], MESSAGE), &json!({}));
        // A trusted server's word is read all the same, and needs nobody.
        assert_eq!(server.asked(), Vec::<String>::new());
    });
    let trusting = format!("\n[auth]\nservers = [\"mx.example.net\"]\n{LISTS}");
    let told = format!(
        "Authentication-Results: mx.example.net; spf=pass smtp.mailfrom=example.org; dkim=none; dmarc=pass\r\n{MESSAGE}"
    );
    with(&server, &trusting, &[("dns.resolvers", "[]")], |node| {
        let facts = observe(node, &[CLIENT, SENDER], &told);
        assert_eq!(
            (&facts["auth.source"], &facts["auth.dmarc"]),
            (&json!("authentication-results"), &json!("pass"))
        );
        assert_eq!(server.asked(), Vec::<String>::new());
    });
    // With resolvers, too, what was told is not asked again.
    with(&server, "\n[auth]\nservers = [\"mx.example.net\"]\n", &[], |node| {
        assert_eq!(observe(node, &[CLIENT, SENDER], &told)["auth.source"], "authentication-results");
        assert!(server.asked().iter().all(|name| !name.contains("TXT")), "{:?}", server.asked());
    });
    // Learning looks nothing up.
    let before = server.asked().len();
    with(&server, LISTS, &[], |node| {
        let answer =
            node.post("/v1/learn?class=spam", &[MAIL, "Tollhouse-Client-Ip: 11.5.5.5", SENDER], MESSAGE);
        assert_eq!(answer.status, 200, "{}", answer.body);
        assert_eq!(server.asked().len(), before);
    });
}

#[test]
fn each_name_is_asked_for_once() {
    let server = NameServer::start(&usual());
    with(&server, LISTS, &[], |node| {
        scope(|scope| {
            let asks: Vec<_> = (0..20)
                .map(|_| scope.spawn(|| observe(node, &[CLIENT, HELO, SENDER], MESSAGE)["auth.spf"].clone()))
                .collect();
            assert!(asks.into_iter().all(|ask| ask.join().unwrap() == "pass"));
        });
        let mut asked = server.asked();
        let all = asked.len();
        asked.sort();
        asked.dedup();
        assert_eq!(asked.len(), all, "{:?}", server.asked());
        assert!(all >= 8, "{asked:?}");
    });
}

/// Measures what `docs/guides/authentication.md` says of costs: `cargo test -p tollhouse-server --test it --
/// what_lookups_cost --nocapture`.
#[test]
fn what_lookups_cost() {
    const TAKES: Duration = Duration::from_millis(250);
    let much = [
        ("news.example.org", txt("v=spf1 include:spf.sender.example include:_spf.example.org ~all")),
        ("spf.sender.example", txt("v=spf1 ip4:45.0.0.0/16 include:more.sender.example ~all")),
        ("more.sender.example", txt("v=spf1 ip4:46.0.0.0/16 ~all")),
        ("_spf.example.org", txt("v=spf1 ip4:11.22.33.0/24 -all")),
    ];
    let records: Vec<_> = usual().into_iter().chain(much).collect();
    let signature = |domain: &str, selector: &str| {
        format!(
            "DKIM-Signature: v=1; a=rsa-sha256; c=relaxed/relaxed; d={domain}; s={selector}; h=from:to:subject:date;\r\n \
             bh=2jUSOH9NhtVGCQWNr9BrIAPreKQjO6Sn7XIkfJVOzv8=;\r\n b=F45dVWDfMbQDGHJFlXUNB2HKfbCeLRyhDXgFpEL8GwpsRe0IeIixNTe3\r\n"
        )
    };
    let links: String = (0..5).map(|number| format!("https://shop{number}.example/\r\n")).collect();
    let newsletter = format!(
        "{}{}{}{links}",
        signature("example.org", "one"),
        signature("sender.example", "two"),
        MESSAGE.replace("ann@example.org", "ann@news.example.org"),
    );
    let sender = "Tollhouse-Mail-From: ann@news.example.org";
    for (what, lists, message, sender, questions) in [
        ("a message of one's own domain, no list", "", MESSAGE, SENDER, 5),
        ("a message of one's own domain, four lists", LISTS, MESSAGE, SENDER, 9),
        (
            "a newsletter of two signatures, four SPF records and five links, four lists",
            LISTS,
            &newsletter,
            sender,
            20,
        ),
    ] {
        let server = NameServer::slow(&records, TAKES);
        with(&server, lists, &[], |node| {
            let times: Vec<Duration> = (0..2)
                .map(|_| {
                    let begun = Instant::now();
                    let facts = observe(node, &[CLIENT, HELO, sender], message);
                    assert_eq!(facts["auth.spf"], "pass", "{facts:?}");
                    begun.elapsed()
                })
                .collect();
            let asked = server.asked().len();
            let trips = times[0].saturating_sub(times[1]).as_secs_f64() / TAKES.as_secs_f64();
            println!("{what}: {asked} questions, {trips:.1} round trips; none again");
            assert_eq!(asked, questions, "{what}: {:?}", server.asked());
        });
    }
}

#[test]
fn what_does_not_fit_comes_over_tcp() {
    let long = format!("v=spf1 {} ip4:11.22.33.44 -all", "ip4:192.0.2.1 ".repeat(150));
    let server = NameServer::start(&[("example.org", Say::Long(long))]);
    with(&server, "", &[], |node| {
        assert_eq!(observe(node, &[CLIENT, SENDER], MESSAGE)["auth.spf"], "pass");
        assert_eq!(server.asked().iter().filter(|name| *name == "example.org TXT").count(), 2);
    });
}

#[test]
fn what_cannot_be_had_is_no_guess() {
    let reverse = reverse("11.22.33.44");
    for failure in [Say::Silence, Say::Garbage, Say::Failure] {
        let server = NameServer::start(&[
            ("example.org", failure.clone()),
            ("_dmarc.example.org", failure.clone()),
            (reverse.as_str(), failure.clone()),
            ("44.33.22.11.zen.lists.example", failure.clone()),
        ]);
        with(&server, LISTS, &[("dns.timeout", "1500ms")], |node| {
            let facts = observe(node, &[CLIENT, HELO, SENDER], MESSAGE);
            let of = |name: &str| facts.get(name).cloned().unwrap_or_default();
            assert_eq!(of("auth.spf"), "temperror", "{failure:?} {facts:?}");
            assert_eq!(of("auth.dmarc"), "temperror", "{failure:?} {facts:?}");
            assert_eq!(of("client.ptr_confirmed"), Value::Null, "{failure:?}");
            assert_eq!(of("dnsbl.failed"), json!(["zen"]), "{failure:?}");
            // It is decided all the same.
            let answer = node.post("/v1/decide", &[MAIL, CLIENT, SENDER], MESSAGE);
            assert_eq!(answer.status, 200, "{}", answer.body);
        });
    }
}
