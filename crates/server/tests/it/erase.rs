//! Erasure of what is known of somebody while the node runs; the audit log proves it.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use access::audit::{AuditPlace, AuditQuery};
use engine::{Directory, ErasureReport};
use event::Shingle;
use serde_json::{Value, json};

use crate::harness::{JSON, LOG, PROBE, TestServer, check_problem, directory, start};

/// Waits until the erasure is at its end.
fn ended(server: &TestServer) -> Value {
    let begun = Instant::now();
    loop {
        let seen = server.get("/v1/erase").json();
        if seen["state"] != "running" {
            return seen;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{seen}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn erase(server: &TestServer, body: &Value) -> Value {
    let answer = server.post("/v1/erase", &[JSON], &body.to_string());
    assert_eq!(answer.status, 202, "{}", answer.body);
    ended(server)
}

fn audited(directory: &Directory, action: &str) -> Vec<access::audit::AuditRecord> {
    let query = AuditQuery { action: Some(action.to_owned()), limit: 100, ..AuditQuery::default() };
    AuditPlace::directory(directory.audit_path()).read(&query, &|| true).unwrap().records
}

#[test]
fn a_subject_is_erased_while_others_are_decided_on() {
    let parent = tempfile::tempdir().unwrap();
    let directory = directory(&parent.path().join("data"));
    let server = start(&directory, &[]);
    assert_eq!(server.get("/v1/erase").json()["state"], "none");
    let decide = |line: &str| server.post("/v1/decide?pipeline=web", &[LOG], line).json();
    let id = decide(PROBE)["id"].as_str().unwrap().to_owned();
    let other = decide(&PROBE.replace("192.0.2.7", "192.0.2.8"))["id"].as_str().unwrap().to_owned();
    assert_eq!(server.post("/v1/snapshots", &[], "").status, 201);
    let copy = std::fs::read_dir(directory.snapshots_path()).unwrap().next().unwrap().unwrap().path();
    let of =
        |kind: &str, value: &str| json!({ "pipeline": "web", "keys": [{ "kind": kind, "value": value }] });
    for (body, status, problem, what) in [
        (of("from", "192.0.2.7"), 400, "unknown-name", "there is no kind `from`"),
        (of("ip", ""), 422, "not-applicable", "ip"),
        (json!({ "keys": [] }), 400, "invalid-parameter", "keys"),
    ] {
        check_problem(&server.post("/v1/erase", &[JSON], &body.to_string()), status, problem, what);
    }
    let mut dry = of("ip", "192.0.2.7");
    dry["dry_run"] = true.into();
    let would = erase(&server, &dry);
    assert_eq!((&would["state"], &would["decisions"]), (&"done".into(), &1.into()), "{would}");
    assert_eq!(server.get(&format!("/v1/decisions/{id}")).status, 200);
    let hash = would["keys"][0].as_str().unwrap().strip_prefix("ip:").unwrap();
    let shingles = HashSet::from([Shingle(u64::from_str_radix(hash, 16).unwrap())]);
    let in_copy = || Directory::open(&copy).unwrap().erase(None, &shingles, true, &|| false).unwrap();
    assert!(in_copy().records.decisions == 1 && in_copy().statistics.keys > 0, "{:?}", in_copy());
    assert_eq!(audited(&directory, "erase.done").len(), 0);

    let done = erase(&server, &of("ip", "192.0.2.7"));
    assert_eq!((&done["state"], &done["dry_run"]), (&"done".into(), &false.into()), "{done}");
    assert_eq!(done["decisions"], 1);
    assert!(done["statistics"].as_u64().unwrap() > 0, "{done}");
    assert_eq!((&done["snapshots"], &done["snapshots_left"]), (&1.into(), &Value::Null), "{done}");
    assert_eq!(in_copy(), ErasureReport::default());
    let sound = Directory::open(&copy).unwrap().verify(None, &mut |_, _, _| ()).unwrap();
    assert!(sound.journal.is_sound(), "{sound:?}");
    assert_eq!(server.get(&format!("/v1/decisions/{id}")).status, 404);
    assert_eq!(server.get(&format!("/v1/decisions/{other}")).status, 200);
    let found = server.get("/v1/decisions?pipeline=web").json();
    assert!(!found.to_string().contains(&id) && found.to_string().contains(&other), "{found}");

    // The proof names the key by its hash alone.
    let proof = audited(&directory, "erase.done").pop().unwrap();
    assert_eq!(proof.entry.detail["decisions"], "1");
    assert!(proof.entry.detail["keys"].starts_with("ip:"), "{:?}", proof.entry.detail);
    assert_eq!(proof.entry.detail["snapshots_left"], "0");
    let ordered = audited(&directory, "erase").len();
    assert!(ordered >= 3, "{ordered}");
    let all: Vec<String> = audited(&directory, "erase").iter().map(|record| format!("{record:?}")).collect();
    assert!(all.iter().all(|entry| !entry.contains("192.0.2.7")), "{all:?}");
    server.stop();
}

#[test]
fn what_was_begun_goes_on_at_the_next_start() {
    let parent = tempfile::tempdir().unwrap();
    let directory = directory(&parent.path().join("data"));
    let server = start(&directory, &[]);
    let id = server.post("/v1/decide?pipeline=web", &[LOG], PROBE).json()["id"].as_str().unwrap().to_owned();
    server.stop();
    // As it is after the process was killed in the middle.
    let config = plan::Config::load(&directory.config_path(), &plan::Overrides::default());
    let engine = engine::Engine::open(&directory, plan::Plan::compile(&config).unwrap()).unwrap();
    let in_force = engine.plan();
    let web = in_force.pipeline(Some("web")).unwrap();
    let order =
        engine.erasure_order(web, [("ip", "192.0.2.7")].into_iter(), "ann", crate::harness::NOW).unwrap();
    engine.note_erasure(&order).unwrap();
    engine.close().unwrap();
    drop(engine);
    let server = start(&directory, &[]);
    let done = ended(&server);
    assert_eq!((&done["state"], &done["by"], &done["decisions"]), (&"done".into(), &"ann".into(), &1.into()));
    assert_eq!(server.get(&format!("/v1/decisions/{id}")).status, 404);
    assert_eq!(audited(&directory, "erase.done")[0].entry.by, "ann");
    assert!(!directory.path().join("erasure.json").exists());
    server.stop();
}
