//! Corrections of a wrong rule: exact, once, and of nothing else.

use std::fs;
use std::thread::sleep;
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{JSON, TestServer, check_problem, directory, start};

/// A rule that is wrong, and one that is right, on the same events.
const CONFIG: &str = r#"
name = "hits"
[[field]]
name = "ip"
type = "ip"
[[field]]
name = "size"
type = "integer"
[[kind]]
name = "ip"
of = "ip"
[[statistic]]
name = "counts"
keys = ["ip"]
counts = ["seen", "refused", "taken", "caught", "lost"]
windows = ["1h x 48"]
[settle]
refused = ["reject"]
lost = ["reject"]
taken = ["accept"]
[feedback]
spam = ["refused", "caught"]
ham = ["taken"]
[[label]]
name = "wrong"
of = "ip"
keep = "7d"
decision = "ban"
[[label]]
name = "right"
of = "ip"
keep = "7d"
decision = "ban"
[[rule]]
name = "WRONG"
when = "size > 10"
score = 1
effects = ["mark ip as 'wrong' for 1d", "add ip.caught by 3"]
[[rule]]
name = "RIGHT"
when = "size > 20"
score = 1
effects = ["mark ip as 'right' for 1d"]
[[rule]]
name = "READ"
when = "ip.marked('wrong') || ip.marked('right') || ip.caught('1h') > 1000 || ip.lost('1h') > 1000"
score = 0
[[band]]
at = 1.0
action = "reject"
[node]
watch = "off"
"#;

fn with_hits(test: impl FnOnce(&TestServer)) {
    let parent = tempfile::tempdir().unwrap();
    let directory = directory(&parent.path().join("data"));
    fs::write(directory.config_path(), CONFIG).unwrap();
    let running = start(&directory, &[]);
    test(&running);
    running.stop();
}

fn decide(running: &TestServer, ip: &str, size: usize) -> Value {
    let answer = running.post("/v1/decide", &[JSON], &format!("{{\"ip\":\"{ip}\",\"size\":{size}}}"));
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.json()
}

/// The counts of an address in the last hour.
fn counts(running: &TestServer, ip: &str) -> Value {
    let line = running.get(&format!("/v1/timeline?kind=ip&value={ip}")).json();
    line["windows"][0]["counts"].clone()
}

fn banned(running: &TestServer, ip: &str) -> Vec<String> {
    let bans = running.get(&format!("/v1/bans?ip={ip}")).json();
    bans.as_array()
        .unwrap()
        .iter()
        .map(|ban| ban["scenario"].as_str().unwrap_or_default().to_owned())
        .collect()
}

/// Has what a rule did taken back, and waits for that.
#[track_caller]
fn corrected(running: &TestServer, request: &Value) -> Value {
    let answer = running.post("/v1/rules/corrections", &[JSON], &request.to_string());
    assert_eq!(answer.status, 202, "{}", answer.body);
    loop {
        let seen = running.get("/v1/rules/corrections").json();
        if seen["state"] != "running" {
            return seen;
        }
        sleep(Duration::from_millis(10));
    }
}

#[test]
fn what_a_wrong_rule_did_is_taken_back_once() {
    with_hits(|running| {
        let (wrong, both, fine) = ("192.0.2.1", "192.0.2.2", "192.0.2.3");
        for (ip, size) in [(wrong, 11), (wrong, 12), (both, 21), (fine, 1)] {
            decide(running, ip, size);
        }
        assert_eq!(counts(running, wrong), json!({"seen": 2, "refused": 2, "caught": 6, "lost": 2}));
        assert_eq!((banned(running, wrong).len(), banned(running, both).len()), (1, 2));

        let from = "2026-05-17T00:00:00Z";
        let impact = running.get(&format!("/v1/rules/impact?rule=WRONG&from={from}")).json();
        assert_eq!(
            (&impact["hits"], &impact["alone"], &impact["untold"]),
            (&json!(3), &json!(2), &json!(0)),
            "{impact}"
        );
        assert_eq!(impact["decisions"][0]["without"], "accept", "{impact}");
        assert_eq!(impact["decisions"][2]["without"], "reject", "{impact}");
        assert_eq!((&impact["labels"], &impact["bans"]), (&json!(2), &json!(2)), "{impact}");
        assert_eq!(impact["lasting"], json!({"ip.lost": 2}), "{impact}");
        assert_eq!(counts(running, wrong)["caught"], 6, "to look changes nothing");

        let order = json!({"rule": "WRONG", "from": from});
        let done = corrected(running, &order);
        assert_eq!((&done["state"], &done["hits"]), (&json!("done"), &json!(3)), "{done}");
        assert_eq!(done["impact"]["counts"], 5, "three times `caught`, twice `refused`: {done}");
        let after = json!({"seen": 2, "taken": 2, "lost": 2});
        assert_eq!(counts(running, wrong), after);
        // The other rule would have decided the same: what the action settled stays.
        assert_eq!(counts(running, both), json!({"seen": 1, "refused": 1, "lost": 1}));
        assert_eq!(counts(running, fine), json!({"seen": 1, "taken": 1}));
        assert_eq!((banned(running, wrong).len(), banned(running, both).len()), (0, 1));
        let seen = decide(running, wrong, 1);
        assert!(!seen["reasons"].to_string().contains("READ"), "{seen}");

        // Again: nothing.
        let again = corrected(running, &order);
        assert_eq!(
            (&again["impact"]["corrected"], &again["impact"]["counts"]),
            (&json!(3), &json!(0)),
            "{again}"
        );
        assert_eq!(counts(running, wrong), json!({"seen": 3, "taken": 3, "lost": 2}));
        let impact = running.get(&format!("/v1/rules/impact?rule=WRONG&from={from}")).json();
        assert_eq!(impact["decisions"][0]["corrected"], true, "{impact}");
    });
}

#[test]
fn what_cannot_be_taken_back_is_refused() {
    with_hits(|running| {
        let post = |request: Value| running.post("/v1/rules/corrections", &[JSON], &request.to_string());
        assert_eq!(running.get("/v1/rules/corrections").json()["state"], "none");
        check_problem(
            &post(json!({"rule": "", "from": "2026-05-17T00:00:00Z"})),
            400,
            "unknown-name",
            "rule",
        );
        let (from, to) = ("2026-05-17T00:00:00Z", "2026-05-16T00:00:00Z");
        check_problem(&post(json!({"rule": "A", "from": from, "to": to})), 400, "invalid-parameter", "to");
        assert_eq!(post(json!({"rule": "A", "from": from, "pipeline": "none"})).status / 100, 4);
        let none = corrected(running, &json!({"rule": "NONE", "from": from}));
        assert_eq!((&none["state"], &none["impact"]["hits"]), (&json!("done"), &json!(0)), "{none}");
    });
}
