//! The allow list, notes, and the reset of a key: all that people post about values.

use engine::Directory;
use plan::preset;
use serde_json::{Value, json};

use crate::harness::{JSON, LOG, SetClock, TestServer, configure, start, start_by};

const LABELS: &str = "
[allow]
networks = [\"203.0.113.0/28\"]

[[label]]
name = \"scanner\"
of = \"ip\"
keep = \"30d\"
decision = \"ban\"
";

fn directory(path: &std::path::Path) -> Directory {
    let directory = Directory::create(path, &[preset::find("web").unwrap()]).unwrap();
    configure(&directory, LABELS);
    directory
}

fn ban(server: &TestServer, value: &str) -> u16 {
    let ban = json!({"pipeline": "web", "kind": "ip", "label": "scanner", "value": value, "for": "7d"});
    server.post("/v1/bans", &[JSON], &ban.to_string()).status
}

fn bans(server: &TestServer, value: &str) -> usize {
    server.get(&format!("/v1/bans?ip={value}")).json().as_array().unwrap().len()
}

fn allow(server: &TestServer, value: &str, lasts: Option<&str>) -> (u16, Value) {
    let mut wanted = json!({"value": value, "why": "The office"});
    if let Some(lasts) = lasts {
        wanted["for"] = json!(lasts);
    }
    let answer = server.post("/v1/allow", &[JSON], &wanted.to_string());
    (answer.status, answer.json())
}

#[test]
fn nothing_bans_what_is_allowed_until_it_is_not() {
    let parent = tempfile::tempdir().unwrap();
    let directory = directory(&parent.path().join("data"));
    let clock = SetClock::default();
    clock.set(0);
    let server = start_by(&directory, &[], |_| clock.clock());
    assert_eq!((ban(&server, "192.0.2.9"), bans(&server, "192.0.2.9")), (200, 1));
    let (status, entry) = allow(&server, "192.0.2.77/24", Some("1h"));
    assert_eq!((status, &entry["value"], &entry["by"]), (200, &json!("192.0.2.0/24"), &json!("local")));
    assert_eq!(bans(&server, "192.0.2.9"), 0, "its bans have ended");
    assert_eq!(ban(&server, "192.0.2.9"), 400);
    let found = |value: &str| server.get(&format!("/v1/allow?value={value}")).json()["found"].clone();
    assert_eq!(found("192.0.2.9"), json!("a posted entry"));
    assert_eq!(found("203.0.113.3"), json!("[allow] networks"));
    assert_eq!(found("198.51.100.1"), Value::Null);
    // What is posted outlives the node, and ends in time.
    server.stop();
    let server = start_by(&directory, &[], |_| clock.clock());
    let listed = server.get("/v1/allow").json();
    assert_eq!((listed["entries"].as_array().unwrap().len(), &listed["entries"][0]), (1, &entry));
    assert_eq!(ban(&server, "192.0.2.9"), 400);
    clock.set(3601);
    let ends = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while ban(&server, "192.0.2.9") != 200 {
        assert!(std::time::Instant::now() < ends, "the entry does not end");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert_eq!(server.get("/v1/allow").json()["entries"], json!([]));
    // An account is compared without regard to capitals, and replaced by a later entry.
    assert_eq!(allow(&server, " Ann@Example.ORG", None).0, 200);
    assert_eq!(allow(&server, "ann@example.org", None).0, 200);
    let listed = server.get("/v1/allow").json();
    assert_eq!(listed["entries"].as_array().unwrap().len(), 1);
    assert_eq!(listed["entries"][0].get("until"), None);
    let removed = |value: &str| {
        server.ask("DELETE", &format!("/v1/allow?value={value}"), &[], b"").json()["removed"].clone()
    };
    assert_eq!(removed("ANN@example.org"), json!(true));
    assert_eq!(removed("ann@example.org"), json!(false));
    for (value, lasts) in [("0.0.0.0/0", None), ("::/0", None), ("", None), ("ann", Some("0s"))] {
        assert_eq!(allow(&server, value, lasts).0, 400, "{value} {lasts:?}");
    }
    assert_eq!(allow(&server, &"a".repeat(1025), None).0, 400);
    let empty = json!({"value": "ann", "why": " "}).to_string();
    assert_eq!(server.post("/v1/allow", &[JSON], &empty).status, 400);
    server.stop();
}

#[test]
fn notes_stay_with_their_value() {
    let parent = tempfile::tempdir().unwrap();
    let directory = directory(&parent.path().join("data"));
    let server = start(&directory, &[]);
    let add = |server: &TestServer, value: &str, text: &str| {
        server.post("/v1/notes", &[JSON], &json!({"value": value, "text": text}).to_string())
    };
    for text in ["first", "second <b>\u{202e}"] {
        assert_eq!(add(&server, "Ann@example.org", text).status, 200);
    }
    assert_eq!(add(&server, "ann", "").status, 400);
    assert_eq!(add(&server, "ann", &"x".repeat(1001)).status, 400);
    server.stop();
    let server = start(&directory, &[]);
    let notes = |server: &TestServer| server.get("/v1/notes?value=ann@example.org").json()["notes"].clone();
    let texts: Vec<Value> =
        notes(&server).as_array().unwrap().iter().map(|note| note["text"].clone()).collect();
    assert_eq!(texts, [json!("second <b>\u{202e}"), json!("first")]);
    let time = notes(&server)[1]["time"].as_str().unwrap().to_owned();
    let remove =
        |time: &str| server.ask("DELETE", &format!("/v1/notes?value=ann@example.org&time={time}"), &[], b"");
    assert_eq!(remove(&time).json(), json!({"removed": true}));
    assert_eq!(remove(&time).json(), json!({"removed": false}));
    assert_eq!(remove("yesterday").status, 400);
    assert_eq!(notes(&server).as_array().unwrap().len(), 1);
    for _ in 1..50 {
        assert_eq!(add(&server, "ann@example.org", "more").status, 200);
    }
    assert_eq!(add(&server, "ann@example.org", "too many").status, 503);
    // Erasing the value takes its notes.
    let web = "GET / HTTP/1.1";
    let line = format!("192.0.2.7 - - [17/May/2026:09:59:30 +0000] \"{web}\" 200 10 \"-\" \"curl/8.0\"");
    assert_eq!(server.post("/v1/decide?pipeline=web", &[LOG], &line).status, 200);
    assert_eq!(add(&server, "192.0.2.7", "a host").status, 200);
    for (name, asks) in
        [("his", json!({"kind": "ip", "value": "192.0.2.7"})), ("others", json!({"text": ".env"}))]
    {
        let search = json!({"name": name, "asks": asks}).to_string();
        assert_eq!(server.ask("PUT", "/v1/searches", &[JSON], search.as_bytes()).status, 200);
    }
    let erased = erase(&server, json!({"dry_run": true}));
    assert_eq!(erased["posted"], 2);
    let erased = erase(&server, json!({}));
    assert_eq!((&erased["posted"], erased["decisions"].as_u64()), (&json!(2), Some(1)));
    let kept = server.get("/v1/searches").json()["searches"].clone();
    assert_eq!((kept.as_array().unwrap().len(), &kept[0]["name"]), (1, &json!("others")));
    assert_eq!(server.get("/v1/notes?value=192.0.2.7").json()["notes"], json!([]));
    server.stop();
}

/// Erases, or resets, what is known of an address, and waits for it.
fn erase(server: &TestServer, more: Value) -> Value {
    let mut order = json!({"pipeline": "web", "keys": [{"kind": "ip", "value": "192.0.2.7"}]});
    order.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    assert_eq!(server.post("/v1/erase", &[JSON], &order.to_string()).status, 202);
    loop {
        let seen = server.get("/v1/erase").json();
        match seen["state"].as_str() {
            Some("running") => std::thread::sleep(std::time::Duration::from_millis(20)),
            state => {
                assert_eq!(state, Some("done"), "{seen}");
                return seen;
            }
        }
    }
}

#[test]
fn a_reset_key_begins_anew_and_its_decisions_stay() {
    let parent = tempfile::tempdir().unwrap();
    let directory = directory(&parent.path().join("data"));
    let server = start(&directory, &[]);
    let mut id = String::new();
    for address in ["192.0.2.7", "198.51.100.3"] {
        for _ in 0..3 {
            let line = format!(
                "{address} - - [17/May/2026:09:59:30 +0000] \"GET /.env HTTP/1.1\" 404 10 \"-\" \"curl/8.0\""
            );
            let answer = server.post("/v1/decide?pipeline=web", &[LOG], &line);
            if address == "192.0.2.7" {
                id = answer.json()["id"].as_str().unwrap().to_owned();
            }
        }
    }
    assert_eq!(ban(&server, "192.0.2.7"), 200);
    let note = json!({"value": "192.0.2.7", "text": "a host"}).to_string();
    assert_eq!(server.post("/v1/notes", &[JSON], &note).status, 200);
    let first = |address: &str| {
        server.get(&format!("/v1/timeline?pipeline=web&kind=ip&value={address}")).json()["first"].clone()
    };
    assert_ne!(first("192.0.2.7"), Value::Null);
    let pretended = erase(&server, json!({"reset": true, "dry_run": true}));
    assert!(pretended["statistics"].as_u64() > Some(0), "{pretended}");
    assert_ne!(first("192.0.2.7"), Value::Null);
    let done = erase(&server, json!({"reset": true}));
    assert_eq!((&done["reset"], &done["decisions"], &done["bans"]), (&json!(true), &json!(0), &json!(1)));
    assert_eq!((first("192.0.2.7"), bans(&server, "192.0.2.7")), (Value::Null, 0));
    assert_ne!(first("198.51.100.3"), Value::Null);
    assert_eq!(server.get(&format!("/v1/decisions/{id}")).status, 200);
    assert_eq!(server.get("/v1/notes?value=192.0.2.7").json()["notes"].as_array().unwrap().len(), 1);
    server.stop();
}
