//! The ban list over HTTP: looked up, streamed, listed, put on and lifted, and as CrowdSec's bouncers read it.

use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use engine::Directory;
use plan::preset;
use serde_json::{Value, json};

use crate::harness::{JSON, LOG, PROBE, TestServer, check_problem, configure, start};

const LABELS: &str = "
[[label]]
name = \"scanner\"
of = \"ip\"
keep = \"4h\"
decision = \"ban\"

[[label]]
name = \"shady\"
of = \"net\"
keep = \"4h\"
decision = \"captcha\"

[[label]]
name = \"noted\"
of = \"ip\"
keep = \"4h\"

[[rule]]
name = \"KNOWN\"
when = \"ip.marked('scanner')\"
score = 0

[[rule]]
name = \"SCANS\"
when = \"http.probe\"
score = 0
effects = [\"mark ip as scanner for 1h\", \"mark ip as noted for 1h\"]
";

fn directory(path: &Path) -> Directory {
    let directory = Directory::create(path, &[preset::find("web").unwrap()]).unwrap();
    configure(&directory, LABELS);
    directory
}

fn with_labels(settings: &[(&str, &str)], test: impl FnOnce(&TestServer)) {
    let parent = tempfile::tempdir().unwrap();
    let running = start(&directory(&parent.path().join("data")), settings);
    test(&running);
    running.stop();
}

fn values(told: &Value) -> Vec<&str> {
    told.as_array().unwrap().iter().map(|told| told["value"].as_str().unwrap()).collect()
}

fn label(server: &TestServer, kind: &str, label: &str, value: &str) {
    let body = json!({"kind": kind, "label": label, "value": value, "for": "2h"}).to_string();
    let answer = server.post("/v1/bans", &[JSON], &body);
    assert_eq!(answer.status, 200, "{}", answer.body);
}

/// Bouncers get the whole list at their start, then its changes, each for itself.
#[test]
fn who_polls_is_told_what_has_changed() {
    with_labels(&[], |server| {
        let agents = ["User-Agent: crowdsec-firewall-bouncer/v0.0.34", "User-Agent: another"];
        let ask = |agent: usize, query: &str| {
            let answer =
                server.ask("GET", &format!("/crowdsec/v1/decisions/stream{query}"), &[agents[agent]], b"");
            assert_eq!(answer.status, 200, "{}", answer.body);
            answer.json()
        };
        assert_eq!(ask(0, "?startup=true"), json!({"new": [], "deleted": []}));
        assert_eq!(server.post("/v1/decide", &[LOG], PROBE).status, 200);
        let told = ask(0, "");
        assert_eq!(
            told["new"],
            json!([{
                "id": 1, "origin": "tollhouse", "type": "ban", "scope": "Ip", "value": "192.0.2.7",
                "duration": "3600s", "scenario": "web/scanner:SCANS", "until": "2026-05-17T11:00:00Z",
            }]),
            "a label without a decision is not told"
        );
        assert_eq!(ask(0, "?startup=false"), json!({"new": [], "deleted": []}));
        assert_eq!(values(&ask(1, "?startup=true&scopes=ip,range&origins=tollhouse")["new"]), ["192.0.2.7"]);
        label(server, "net", "shady", "198.51.100.0/24");
        assert_eq!(values(&ask(0, "?scopes=range")["new"]), ["198.51.100.0/24"]);
        assert_eq!(values(&ask(1, "?scenarios_not_containing=shady")["new"]), Vec::<&str>::new());
        let lifted = server.ask("DELETE", "/v1/bans?value=192.0.2.7", &[], b"").json();
        assert_eq!(lifted, json!({"lifted": 1}));
        let told = ask(0, "");
        assert_eq!((values(&told["deleted"]), &told["new"]), (vec!["192.0.2.7"], &json!([])));
        // One that has not asked yet, or whose place was forgotten, is told everything.
        let anew = server.ask("GET", "/crowdsec/v1/decisions/stream", &["User-Agent: new"], b"").json();
        assert_eq!(values(&anew["new"]), ["198.51.100.0/24"]);
    });
}

/// A ban says since when it holds and why: by which decision, or in the words of who banned by hand.
#[test]
fn bans_say_why() {
    with_labels(&[], |server| {
        let first = server.post("/v1/decide", &[LOG], PROBE).json();
        let ban = &server.get("/v1/bans?ip=192.0.2.7").json()[0];
        assert_eq!((&ban["by"], &ban["decision_id"]), (&json!("SCANS"), &first["id"]));
        assert_eq!((&ban["since"], &ban["why"]), (&json!("2026-05-17T10:00:00Z"), &Value::Null));
        assert_eq!(server.get(&format!("/v1/decisions/{}", first["id"].as_str().unwrap())).status, 200);
        let alert = &server.get("/crowdsec/v1/alerts?ip=192.0.2.7").json()[0];
        assert_eq!(alert["created_at"], ban["since"]);
        assert!(alert["message"].as_str().unwrap().ends_with(first["id"].as_str().unwrap()), "{alert}");
        let by_hand = |why: &str| {
            let body = json!({
                "kind": "ip", "label": "scanner", "value": "192.0.2.8", "for": "1h", "why": why,
            });
            server.post("/v1/bans", &[JSON], &body.to_string())
        };
        check_problem(
            &by_hand(&"x".repeat(1001)),
            400,
            "invalid-parameter",
            "why: it has more than 1000 bytes",
        );
        assert_eq!(server.get("/v1/bans?ip=192.0.2.8").json(), json!([]));
        assert_eq!(by_hand("  It tries <b>passwords</b> ").status, 200);
        let ban = &server.get("/v1/bans?ip=192.0.2.8").json()[0];
        assert_eq!((&ban["why"], &ban["decision_id"]), (&json!("It tries <b>passwords</b>"), &Value::Null));
    });
}

/// The allow list stands above bans by hand and of rules, says why, and is counted.
#[test]
fn what_is_allowed_is_not_banned() {
    let parent = tempfile::tempdir().unwrap();
    let directory = Directory::create(&parent.path().join("data"), &[preset::find("web").unwrap()]).unwrap();
    configure(&directory, &format!("{LABELS}[allow]\nnetworks = [\"192.0.2.7\"]\nnames = [\"localhost\"]\n"));
    let server = start(&directory, &[]);
    let post = |value: &str| {
        let body = json!({"kind": "ip", "label": "scanner", "value": value, "for": "2h"}).to_string();
        server.post("/v1/bans", &[JSON], &body)
    };
    let refused = post("192.0.2.7");
    check_problem(&refused, 400, "invalid-parameter", "`192.0.2.7` is on the allow list ([allow] networks)");
    let network = post("192.0.2.0/29");
    assert!(network.body.contains("192.0.2.0/30, 192.0.2.4/31, 192.0.2.6"), "{}", network.body);
    assert!(post("10.1.2.3").body.contains("[allow] private"));
    assert_eq!(post("192.0.2.8").status, 200);
    let decided = server.post("/v1/decide", &[LOG], PROBE);
    assert!(decided.body.contains("ON_ALLOW_LIST"), "{}", decided.body);
    assert_eq!(values(&server.get("/v1/bans/stream?startup=true").json()["new"]), ["192.0.2.8"]);
    let metrics = server.get("/metrics").body;
    let has = |origin: &str, setting: &str, count: u64| {
        let line =
            format!("tollhouse_bans_passed_over_total{{origin=\"{origin}\",setting=\"{setting}\"}} {count}");
        assert!(metrics.contains(&line), "{line}");
    };
    has("rule", "networks", 1);
    has("post", "networks", 2);
    has("post", "private", 1);
    server.stop();
}

/// A server of lists on the loopback interface, which answers everything with one text.
fn publish(list: &Arc<Mutex<String>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/list", listener.local_addr().unwrap());
    let list = Arc::clone(list);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut head = [0; 4096];
            let _ = stream.read(&mut head);
            let body = list.lock().unwrap().clone();
            let head =
                format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
            let _ = stream.write_all(format!("{head}{body}").as_bytes());
        }
    });
    url
}

/// Lists of others are facts of rules, from a file that changes and a URL; with an action they are bans, but for what is allowed.
#[test]
fn block_lists_are_seen_by_rules_and_bouncers() {
    let published = Arc::new(Mutex::new("{\"cidr\":\"192.0.2.0/24\"}\nnobody\n".to_owned()));
    let url = publish(&published);
    let parent = tempfile::tempdir().unwrap();
    let directory = Directory::create(&parent.path().join("data"), &[preset::find("web").unwrap()]).unwrap();
    let own = directory.config_path().with_file_name("own.txt");
    std::fs::write(&own, "198.51.100.0/24 # bad\n203.0.113.7\n").unwrap();
    let lists = format!(
        "[allow]\nnetworks = [\"198.51.100.1\"]\n\n\
         [[block_list]]\nname = \"published\"\nurl = \"{url}\"\nrefresh = \"1s\"\nformat = \"spamhaus-json\"\n\n\
         [[block_list]]\nname = \"own\"\nfile = \"own.txt\"\naction = \"ban\"\n\n\
         [[rule]]\nname = \"PUBLISHED\"\nwhen = \"block_list.published\"\nscore = 0\n\n\
         [[rule]]\nname = \"CLEAN\"\nwhen = \"!block_list.published\"\nscore = 0\n"
    );
    configure(&directory, &format!("{LABELS}{lists}"));
    let server = start(&directory, &[]);
    let wait = |what: &str, holds: &dyn Fn() -> bool| {
        let started = Instant::now();
        while !holds() {
            assert!(started.elapsed() < Duration::from_secs(60), "{what}");
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    let fires = |rule: &str, ip: &str| {
        let line = PROBE.replace("192.0.2.7", ip).replace("/.env", "/");
        let decided = server.post("/v1/decide", &[LOG], &line);
        assert_eq!(decided.status, 200, "{}", decided.body);
        decided.body.contains(rule)
    };
    wait("the list is fetched", &|| fires("PUBLISHED", "192.0.2.99"));
    assert!(fires("CLEAN", "203.0.113.99"));
    let banned = || {
        let told = server.get("/v1/bans/stream?startup=true").json();
        let mut values: Vec<String> = values(&told["new"]).iter().map(|value| (*value).to_owned()).collect();
        values.sort();
        values
    };
    wait("the file is read", &|| banned().contains(&"203.0.113.7".to_owned()));
    let all = banned();
    assert!(
        all.contains(&"198.51.100.0".to_owned()) && all.contains(&"198.51.100.128/25".to_owned()),
        "{all:?}"
    );
    let held = |ip: &str| !server.get(&format!("/v1/bans?ip={ip}")).json().as_array().unwrap().is_empty();
    assert!(held("198.51.100.2") && !held("198.51.100.1"));
    std::fs::write(&own, "203.0.113.8\n").unwrap();
    wait("the file is read again", &|| banned() == ["203.0.113.8"]);
    *published.lock().unwrap() = "{\"cidr\":\"203.0.113.0/24\"}\n".to_owned();
    wait("the list is fetched again", &|| fires("PUBLISHED", "203.0.113.99"));
    assert!(fires("CLEAN", "192.0.2.99"));
    let metrics = server.get("/metrics").body;
    for line in [
        "tollhouse_block_list_ranges{list=\"published\"} 1",
        "tollhouse_block_list_reads_total{list=\"own\",result=\"ok\"} 2",
        "tollhouse_block_list_reads_total{list=\"published\",result=\"bad-lines\"}",
    ] {
        assert!(metrics.contains(line), "{line}");
    }
    server.stop();
}

/// The two forms of the stream have each their own position.
#[test]
fn changes_are_streamed() {
    with_labels(&[], |server| {
        let ask = |query: &str| {
            let answer = server.get(&format!("/v1/bans/stream{query}"));
            assert_eq!(answer.status, 200, "{}", answer.body);
            answer.json()
        };
        let nothing = json!({"new": [], "deleted": []});
        assert_eq!(ask(""), nothing);
        label(server, "ip", "scanner", "192.0.2.9");
        assert_eq!(values(&server.get("/crowdsec/v1/decisions/stream").json()["new"]), ["192.0.2.9"]);
        let ban = json!({
            "id": 1, "pipeline": "web", "label": "scanner", "type": "ban", "kind": "ip",
            "value": "192.0.2.9", "by": "API", "since": "2026-05-17T10:00:00Z", "until": "2026-05-17T12:00:00Z",
        });
        assert_eq!(ask(""), json!({"new": [ban], "deleted": []}));
        assert_eq!(ask(""), nothing);
        assert_eq!(ask("?startup=true&type=captcha"), nothing);
        assert_eq!(ask("?startup=true&label=scanner")["new"], json!([ban]));
        server.ask("DELETE", "/v1/bans?value=192.0.2.9", &[], b"");
        assert_eq!(values(&ask("")["deleted"]), ["192.0.2.9"]);
    });
}

/// A question that waits has its answer when something changes, and only then.
#[test]
fn a_question_waits_for_a_change() {
    with_labels(&[], |server| {
        let nothing = json!({"new": [], "deleted": []});
        // An answer that was waited for comes in chunks, each behind a line with its length.
        let ask = |query: &str| {
            let answer = server.get(&format!("/v1/bans/stream{query}"));
            let object = answer.body.lines().find(|line| line.starts_with('{')).unwrap_or_default();
            serde_json::from_str::<Value>(object).unwrap()
        };
        // Who asks for the first time is told everything at once.
        assert_eq!(ask("?wait_ms=10000"), nothing);
        assert_eq!(ask("?wait_ms=1"), nothing);
        for value in ["192.0.2.9", "192.0.2.10"] {
            std::thread::scope(|scope| {
                let asked = scope.spawn(|| ask("?wait_ms=10000"));
                // Either the question is there before the ban, and waits, or the ban before the question.
                std::thread::sleep(Duration::from_millis(50));
                label(server, "ip", "scanner", value);
                assert_eq!(values(&asked.join().unwrap()["new"]), [value]);
            });
        }
        // What somebody else does not ask for ends the wait, too.
        std::thread::scope(|scope| {
            let asked = scope.spawn(|| ask("?wait_ms=10000&label=other"));
            std::thread::sleep(Duration::from_millis(50));
            server.ask("DELETE", "/v1/bans?value=192.0.2.9", &[], b"");
            assert_eq!(asked.join().unwrap(), nothing);
        });
        check_problem(&server.get("/v1/bans/stream?wait_ms=soon"), 400, "invalid-parameter", "wait_ms");
    });
}

#[test]
fn what_is_lifted_rules_do_not_see_any_more() {
    with_labels(&[], |server| {
        let is_known = |minute: &str| {
            let line =
                PROBE.replace("192.0.2.7", "192.0.2.9").replace("/.env", "/").replace("09:59:30", minute);
            let decided = server.post("/v1/decide", &[LOG], &line);
            assert_eq!(decided.status, 200, "{}", decided.body);
            decided.body.contains("KNOWN")
        };
        assert!(!is_known("10:00:00"));
        label(server, "ip", "scanner", "192.0.2.9");
        assert!(is_known("10:00:00"));
        let lift = || server.ask("DELETE", "/v1/bans?value=192.0.2.9", &[], b"").json();
        assert_eq!(lift(), json!({"lifted": 1}));
        assert!(!is_known("10:00:00"));
        assert!(!is_known("09:59:30"), "marks go by arrival, whatever an event says of its time");
        assert_eq!(lift(), json!({"lifted": 0}));
        label(server, "ip", "scanner", "192.0.2.9");
        assert!(is_known("10:00:00"));
    });
}

#[test]
fn addresses_are_listed_and_looked_up() {
    with_labels(&[], |server| {
        label(server, "ip", "scanner", "192.0.2.9");
        label(server, "ip", "scanner", "2001:db8::9");
        label(server, "net", "shady", "198.51.100.0/24");
        let answer = server.get("/v1/bans/ips");
        assert_eq!(answer.header("content-type"), Some("text/plain; charset=utf-8"));
        assert_eq!(answer.body, "192.0.2.9\n198.51.100.0/24\n2001:db8::9\n");
        assert_eq!(server.get("/v1/bans/ips?type=captcha").body, "198.51.100.0/24\n");
        assert_eq!(server.get("/v1/bans/ips?label=scanner&pipeline=web").body, "192.0.2.9\n2001:db8::9\n");
        let found = server.get("/v1/bans?ip=198.51.100.77").json();
        assert_eq!(
            found,
            json!([{
                "id": 3, "pipeline": "web", "label": "shady", "type": "captcha", "kind": "net",
                "value": "198.51.100.0/24", "by": "API", "since": "2026-05-17T10:00:00Z", "until": "2026-05-17T12:00:00Z",
            }])
        );
        assert_eq!(server.get("/v1/bans?value=198.51.100.0/24").json(), found);
        // A network of full length is its address, in whatever form somebody asks.
        let of = |query: &str| server.get(&format!("/v1/bans?{query}")).json();
        let found = of("value=192.0.2.9");
        assert_eq!(values(&found), ["192.0.2.9"]);
        for query in ["ip=192.0.2.9/32", "value=192.0.2.9/32", "ip=192.0.2.9&value=192.0.2.9/32"] {
            assert_eq!(of(query), found, "{query}");
        }
        assert_eq!(values(&of("value=2001:DB8::9/128")), ["2001:db8::9"]);
        assert_eq!(values(&server.get("/v1/bans/search?text=192.0.2.9/32").json()["bans"]), ["192.0.2.9"]);
        assert_eq!(values(&server.get("/crowdsec/v1/decisions?value=192.0.2.9/32").json()), ["192.0.2.9"]);
        assert_eq!(server.get("/v1/bans?value=198.51.100.0/24&type=ban").json(), json!([]));
        assert_eq!(server.get("/v1/bans?ip=203.0.113.1").json(), json!([]));
        let found = server.get("/crowdsec/v1/decisions?ip=198.51.100.77").json();
        assert_eq!((values(&found), &found[0]["scope"]), (vec!["198.51.100.0/24"], &json!("Range")));
        assert_eq!(server.get("/crowdsec/v1/decisions?ip=203.0.113.1").json(), Value::Null);
        check_problem(&server.get("/crowdsec/v1/decisions"), 400, "invalid-parameter", "ip: missing");
        check_problem(&server.get("/v1/bans?ip=x"), 400, "invalid-parameter", "no address");
        // Rules see what was labelled by hand.
        let bad = json!({"kind": "ip", "label": "noted", "value": "192.0.2.9", "for": "1h"}).to_string();
        check_problem(&server.post("/v1/bans", &[JSON], &bad), 400, "invalid-parameter", "no `decision`");
        let bad = json!({"kind": "ip", "label": "scaner", "value": "192.0.2.9", "for": "1h"}).to_string();
        check_problem(&server.post("/v1/bans", &[JSON], &bad), 400, "unknown-name", "no label `scaner`");
    });
}

/// A network that is on the list for addresses holds for each of them, in rules as for firewalls.
#[test]
fn networks_hold_for_their_addresses() {
    with_labels(&[], |server| {
        let is_known = |address: &str| {
            let line =
                PROBE.replace("192.0.2.7", address).replace("/.env", "/").replace("09:59:30", "10:00:00");
            let [decided, peeked] = ["/v1/decide", "/v1/peek"]
                .map(|url| server.post(url, &[LOG], &line))
                .map(|answer| answer.body);
            assert!(peeked.contains("ip.marked('scanner')"), "{peeked}");
            decided.contains("KNOWN")
        };
        assert!(!is_known("198.51.100.77"));
        let body = json!({"kind": "ip", "label": "scanner", "value": "198.51.100.9/24", "for": "2h"});
        let answer = server.post("/v1/bans", &[JSON], &body.to_string()).json();
        assert_eq!(answer["value"], "198.51.100.0/24");
        assert!(is_known("198.51.100.77") && !is_known("198.51.101.77"));
        let found = server.get("/crowdsec/v1/decisions?ip=198.51.100.77").json();
        assert_eq!((values(&found), &found[0]["scope"]), (vec!["198.51.100.0/24"], &json!("Range")));
        assert_eq!(
            values(&server.get("/crowdsec/v1/decisions?range=198.51.100.0/24").json()),
            ["198.51.100.0/24"]
        );
        label(server, "ip", "scanner", "2001:db8:7::/48");
        assert!(is_known("2001:db8:7::1") && !is_known("2001:db8:8::1"));
        let lifted = server.ask("DELETE", "/v1/bans?value=198.51.100.0/24", &[], b"").json();
        assert_eq!((lifted, is_known("198.51.100.77")), (json!({"lifted": 1}), false));
        label(server, "ip", "scanner", "203.0.113.7/32");
        assert!(is_known("203.0.113.7"));
        let lifted = server.ask("DELETE", "/v1/bans?value=203.0.113.7/32", &[], b"").json();
        assert_eq!((lifted, is_known("203.0.113.7")), (json!({"lifted": 1}), false));
    });
}

#[test]
fn values_are_checked_against_their_kind() {
    with_labels(&[], |server| {
        let check = |kind: &str, label: &str, value: &str, detail: &str| {
            let body = json!({"kind": kind, "label": label, "value": value, "for": "2h"}).to_string();
            check_problem(&server.post("/v1/bans", &[JSON], &body), 400, "invalid-parameter", detail);
        };
        check("ip", "scanner", "not an address", "`not an address` is no address");
        check("ip", "scanner", "198.51.100.0/99", "is no address");
        for own in ["127.0.0.1", "::1", "0.0.0.0", "::", "0.0.0.0/0", "127.0.0.0/8", "::ffff:127.0.0.1"] {
            check("ip", "scanner", own, "address of this machine itself");
        }
        check("net", "shady", "127.0.0.0/24", "address of this machine itself");
        check_problem(&server.get("/v1/bans"), 400, "invalid-parameter", "ip: missing");
        assert_eq!(server.get("/v1/bans/ips").body, "");
    });
}

/// More than one page of bans, of which each is sent once.
#[test]
fn many_bans_are_sent_page_by_page() {
    let parent = tempfile::tempdir().unwrap();
    let directory = directory(&parent.path().join("data"));
    let line = |number: u32| {
        let value = std::net::Ipv4Addr::from(0x0b00_0000 + number);
        let text =
            json!({"put": {"id": number, "pipeline": "web", "kind": "ip", "scope": "Ip", "label": "scanner",
            "decision": "ban", "value": value.to_string(), "by": "R",
            "since": crate::harness::NOW.0, "until": crate::harness::NOW.0 + 3_600_000_000i64}})
            .to_string();
        format!("{text}\t{:08x}\n", crc32fast::hash(text.as_bytes()))
    };
    let lines: String = (0..2500).map(line).collect();
    std::fs::write(directory.path().join("labels.ndjson"), lines).unwrap();
    let running = start(&directory, &[]);
    let all = |query: &str| {
        // The harness reads no chunks: HTTP/1.0 has none.
        let head = format!("GET /{query} HTTP/1.0\r\nHost: localhost\r\n\r\n");
        let mut stream = running.connect();
        std::io::Write::write_all(&mut stream, head.as_bytes()).unwrap();
        crate::harness::answer(&mut stream)
    };
    let told = all("crowdsec/v1/decisions/stream?startup=true").json();
    let values: std::collections::BTreeSet<&str> = values(&told["new"]).into_iter().collect();
    assert_eq!((values.len(), told["deleted"].as_array().unwrap().len()), (2500, 0));
    assert_eq!(all("crowdsec/v1/decisions/stream").json(), json!({"new": [], "deleted": []}));
    assert_eq!(all("v1/bans/ips").body.lines().count(), 2500);
    assert_eq!(running.get("/v1/bans?ip=11.0.9.195").json()[0]["value"], "11.0.9.195");
    assert_eq!(running.get("/crowdsec/v1/decisions?ip=11.0.9.196").json(), Value::Null);
    running.stop();
}

#[test]
fn a_restart_tells_the_same() {
    let parent = tempfile::tempdir().unwrap();
    let directory = directory(&parent.path().join("data"));
    let running = start(&directory, &[]);
    label(&running, "ip", "scanner", "192.0.2.9");
    running.stop();
    let running = start(&directory, &[]);
    assert_eq!(running.get("/v1/bans/ips").body, "192.0.2.9\n");
    running.stop();
}

#[test]
fn bouncers_show_their_key() {
    with_labels(&[("server.tokens", "[\"secret-of-bouncers\"]")], |server| {
        let ask = |header: &str| {
            server.ask("GET", "/crowdsec/v1/decisions/stream?startup=true", &[header], b"").status
        };
        assert_eq!(ask("X-Api-Key: secret-of-bouncers"), 200);
        assert_eq!(ask("X-Api-Key: another"), 403);
        assert_eq!(ask("Accept: */*"), 401);
    });
}

/// `cscli` reads bans as alerts, each with its decision, after a login that grants nothing by itself.
#[test]
fn bans_are_alerts_of_crowdsecs_tools() {
    with_labels(&[("server.tokens", "[\"secret-of-cscli-desk\"]")], |server| {
        let login =
            json!({"machine_id": "desk", "password": "secret-of-cscli-desk", "scenarios": []}).to_string();
        let told = server.post("/crowdsec/v1/watchers/login", &[JSON], &login).json();
        assert_eq!((&told["code"], &told["token"]), (&json!(200), &json!("secret-of-cscli-desk")));
        assert_eq!(told["expire"], "2026-05-17T11:00:00Z");
        let bearer = "Authorization: Bearer secret-of-cscli-desk";
        let ask = |path: &str| server.ask("GET", &format!("/crowdsec/v1/{path}"), &[bearer], b"");
        assert_eq!(server.get("/crowdsec/v1/alerts").status, 401);
        assert_eq!(ask("alerts").json(), json!([]));
        for (kind, label, value) in [
            ("ip", "scanner", "192.0.2.9"),
            ("net", "shady", "198.51.100.0/24"),
            ("ip", "scanner", "2001:db8::9"),
        ] {
            let body = json!({"kind": kind, "label": label, "value": value, "for": "2h"}).to_string();
            assert_eq!(server.post("/v1/bans", &[JSON, bearer], &body).status, 200, "{value}");
        }
        let check = |query: &str, expected: &[&str]| {
            let found = ask(&format!("alerts{query}")).json();
            let found: Vec<&str> = found
                .as_array()
                .unwrap()
                .iter()
                .map(|alert| {
                    assert_eq!(alert["decisions"][0]["value"], alert["source"]["value"]);
                    alert["source"]["value"].as_str().unwrap()
                })
                .collect();
            assert_eq!(found, expected, "{query}");
        };
        check("?has_active_decision=true&limit=0", &["2001:db8::9", "198.51.100.0/24", "192.0.2.9"]);
        check("?limit=1", &["2001:db8::9"]);
        check("?scope=range", &["198.51.100.0/24"]);
        check("?ip=198.51.100.77", &["198.51.100.0/24"]);
        check("?value=192.0.2.9&decision_type=ban", &["192.0.2.9"]);
        check("?scenario=web/shady:API", &["198.51.100.0/24"]);
        check("?origin=CAPI", &[]);
        check_problem(&ask("alerts?ip=x"), 400, "invalid-parameter", "no address");
        let one = ask("alerts/1").json();
        assert_eq!((&one["id"], &one["scenario"]), (&json!(1), &json!("web/scanner:API")));
        assert_eq!(one["decisions"][0]["duration"], "7200s");
        check_problem(&ask("alerts/7"), 404, "not-found", "no ban of the number 7");
        assert_eq!(ask("heartbeat").status, 200);
        let metrics = r#"{"remediation_components": [{"type": "firewall"}], "log_processors": null}"#;
        assert_eq!(server.post("/crowdsec/v1/usage-metrics", &[JSON, bearer], metrics).status, 201);
        assert_eq!(server.post("/crowdsec/v1/usage-metrics", &[JSON], metrics).status, 401);
    });
}

/// CrowdSec's own `cscli` lists them.
#[test]
fn the_real_cscli_lists_them() {
    let Some(program) = bouncer("cscli") else { return };
    with_labels(&[("server.tokens", "[\"secret-of-cscli-desk\"]")], |server| {
        let bearer = "Authorization: Bearer secret-of-cscli-desk";
        let body = json!({"kind": "ip", "label": "scanner", "value": "192.0.2.9", "for": "2h"}).to_string();
        assert_eq!(server.post("/v1/bans", &[JSON, bearer], &body).status, 200);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().display();
        let address = server.address;
        let config = format!(
            "common:\n  log_media: stdout\nconfig_paths:\n  config_dir: {path}\n  data_dir: {path}\n  hub_dir: {path}\n  index_path: {path}/index.json\n\
             api:\n  client:\n    credentials_path: {path}/credentials.yaml\n"
        );
        std::fs::write(folder.path().join("config.yaml"), config).unwrap();
        let credentials =
            format!("url: http://{address}/crowdsec/\nlogin: desk\npassword: secret-of-cscli-desk\n");
        std::fs::write(folder.path().join("credentials.yaml"), credentials).unwrap();
        for what in ["alerts", "decisions"] {
            let mut command = Command::new(&program);
            command.arg("-c").arg(folder.path().join("config.yaml")).args([what, "list", "-o", "raw"]);
            let output = command.output().unwrap();
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(
                text.contains("192.0.2.9") && text.contains("web/scanner:API"),
                "{what}: {text} {output:?}"
            );
        }
    });
}

/// A process that ends with the test.
struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn bouncer(name: &str) -> Option<PathBuf> {
    let unpacked = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("mail-clients/usr/bin").join(name);
    let found = [Path::new("/usr/bin").join(name), unpacked].into_iter().find(|path| path.exists());
    if found.is_none() {
        println!("skipped: {name} is not installed, and scripts/mail-clients has not unpacked it");
    }
    found
}

fn run(bouncer: &Path, config: &Path) -> Ends {
    let mut command = Command::new(bouncer);
    command.arg("-c").arg(config).stdout(Stdio::null()).stderr(Stdio::null());
    Ends(command.spawn().unwrap())
}

/// CrowdSec's own bouncer, which runs a program for each decision.
#[test]
fn a_real_bouncer_enforces_them() {
    let Some(program) = bouncer("crowdsec-custom-bouncer") else { return };
    with_labels(&[("server.tokens", "[\"secret-of-bouncers\"]")], |server| {
        let parent = tempfile::tempdir().unwrap();
        let (script, done) = (parent.path().join("script"), parent.path().join("done"));
        std::fs::write(&script, format!("#!/bin/sh\necho \"$1 $2\" >> {}\n", done.display())).unwrap();
        std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
        let token = "Authorization: Bearer secret-of-bouncers";
        let body = json!({"kind": "ip", "label": "scanner", "value": "192.0.2.9", "for": "2h"}).to_string();
        assert_eq!(server.post("/v1/bans", &[JSON, token], &body).status, 200);
        let config = parent.path().join("bouncer.yaml");
        let text = format!(
            "bin_path: {}\nfeed_via_stdin: false\ntotal_retries: 0\npiddir: {1}\nupdate_frequency: 1s\n\
             cache_retention_duration: 1s\ndaemonize: false\nlog_mode: file\nlog_dir: {1}/\nlog_level: info\n\
             api_url: http://{2}/crowdsec/\napi_key: secret-of-bouncers\nprometheus:\n  enabled: false\n",
            script.display(),
            parent.path().display(),
            server.address
        );
        std::fs::write(&config, text).unwrap();
        let _bouncer = run(&program, &config);
        let wait = |line: &str| {
            let started = Instant::now();
            while !std::fs::read_to_string(&done).unwrap_or_default().lines().any(|own| own == line) {
                let log = std::fs::read_to_string(parent.path().join("crowdsec-custom-bouncer.log"));
                let log = log.unwrap_or_default();
                assert!(started.elapsed() < Duration::from_secs(60), "no `{line}`; the bouncer's log: {log}");
                std::thread::sleep(Duration::from_millis(50));
            }
        };
        wait("add 192.0.2.9");
        assert_eq!(server.post("/v1/decide", &[LOG, token], PROBE).status, 200);
        wait("add 192.0.2.7");
        assert_eq!(server.ask("DELETE", "/v1/bans?value=192.0.2.9", &[token], b"").status, 200);
        wait("del 192.0.2.9");
    });
}

/// Set in the process that runs in a network namespace of its own.
const NAMESPACE: &str = "TOLLHOUSE_TEST_NAMESPACE";
/// Gives the namespace its loopback interface and two addresses beside it.
const INTERFACES: &str = "ip link set lo up && ip address add 192.0.2.9/32 dev lo && \
                          ip address add 192.0.2.10/32 dev lo && exec \"$0\" \"$@\"";

/// CrowdSec's bouncer for nftables. Rules of the firewall belong to a network namespace, so the test runs itself in a new one.
#[test]
fn a_real_firewall_drops_packets() {
    let Some(program) = bouncer("crowdsec-firewall-bouncer") else { return };
    if std::env::var_os(NAMESPACE).is_some() {
        return drop_packets(&program);
    }
    let unshare = |command: &[&str]| {
        Command::new("unshare").args(["--map-root-user", "--net", "sh", "-c"]).args(command).output()
    };
    match unshare(&[INTERFACES, "true"]) {
        Ok(output) if output.status.success() => {}
        Ok(output) => {
            return println!(
                "skipped: no network namespace: {}",
                String::from_utf8_lossy(&output.stderr).trim()
            );
        }
        Err(error) => return println!("skipped: no network namespace: unshare: {error}"),
    }
    let mut command = Command::new("unshare");
    command.args(["--map-root-user", "--net", "sh", "-c", INTERFACES]).arg(std::env::current_exe().unwrap());
    command.args(["bans::a_real_firewall_drops_packets", "--exact", "--nocapture"]).env(NAMESPACE, "1");
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
    for line in text(&output.stdout).lines().filter(|line| line.starts_with("skipped: ")) {
        println!("{line}");
    }
}

fn drop_packets(program: &Path) {
    with_labels(&[("server.tokens", "[\"secret-of-bouncers\"]")], |server| {
        let parent = tempfile::tempdir().unwrap();
        let config = parent.path().join("bouncer.yaml");
        let text = format!(
            "mode: nftables\npid_dir: {0}/\nupdate_frequency: 1s\ndaemonize: false\nlog_mode: file\n\
             log_dir: {0}/\nlog_level: info\napi_url: http://{1}/crowdsec/\napi_key: secret-of-bouncers\n\
             deny_action: DROP\nsupported_decisions_types:\n  - ban\nblacklists_ipv4: bans\nblacklists_ipv6: bans6\n\
             nftables:\n  ipv4:\n    enabled: true\n    set-only: false\n    table: crowdsec\n    chain: input\n  \
             ipv6:\n    enabled: false\nprometheus:\n  enabled: false\n",
            parent.path().display(),
            server.address
        );
        std::fs::write(&config, text).unwrap();
        let bouncer = run(program, &config);
        let [receiver, banned, other] =
            ["127.0.0.1:0", "192.0.2.9:0", "192.0.2.10:0"].map(|address| UdpSocket::bind(address).unwrap());
        receiver.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let to = receiver.local_addr().unwrap();
        // A packet of the other address comes behind it, so nothing waits for one that was dropped.
        let passes = || {
            let from = || receiver.recv_from(&mut [0; 8]).unwrap().1.ip();
            banned.send_to(b"packet", to).unwrap();
            other.send_to(b"packet", to).unwrap();
            from() == banned.local_addr().unwrap().ip() && from() == other.local_addr().unwrap().ip()
        };
        let wait = |expected: bool| {
            let started = Instant::now();
            while passes() != expected {
                let log = std::fs::read_to_string(parent.path().join("crowdsec-firewall-bouncer.log"));
                let log = log.unwrap_or_default();
                assert!(started.elapsed() < Duration::from_secs(60), "{expected}; the bouncer's log: {log}");
                std::thread::sleep(Duration::from_millis(50));
            }
        };
        assert!(passes());
        let token = "Authorization: Bearer secret-of-bouncers";
        let body = json!({"kind": "ip", "label": "scanner", "value": "192.0.2.9", "for": "2h"}).to_string();
        assert_eq!(server.post("/v1/bans", &[JSON, token], &body).status, 200);
        wait(false);
        assert_eq!(server.ask("DELETE", "/v1/bans?value=192.0.2.9", &[token], b"").status, 200);
        wait(true);
        drop(bouncer);
    });
}
