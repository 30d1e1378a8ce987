//! Back-tests over HTTP: what other rules would have decided, on the journal of the node that is asked.

use std::fs;
use std::thread::sleep;
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Answer, JSON, TestServer, check_problem, directory, start};

/// A pipeline of JSON objects with one rule, and feedback.
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
counts = ["seen", "spam", "ham"]
windows = ["1h x 48"]
[feedback]
spam = ["spam"]
ham = ["ham"]
[[rule]]
name = "LARGE"
when = "size > 10"
score = 1
[[band]]
at = 1.0
action = "reject"
[node]
watch = "off"
"#;

const SMALL: &str = "[[rule]]\nname = \"LARGE\"\nwhen = \"size <= 10\"\n[[rule]]\nname = \"NEW\"\nwhen = \"size == 3\"\nscore = 0.5\n";

fn with_hits(settings: &[(&str, &str)], test: impl FnOnce(&TestServer)) {
    let parent = tempfile::tempdir().unwrap();
    let directory = directory(&parent.path().join("data"));
    fs::write(directory.config_path(), CONFIG).unwrap();
    let running = start(&directory, settings);
    test(&running);
    running.stop();
}

fn get_with(running: &TestServer, url: &str, headers: &[&str]) -> Answer {
    running.ask("GET", url, headers, b"")
}

fn decide(running: &TestServer, size: usize) -> String {
    let answer = running.post("/v1/decide", &[JSON], &format!("{{\"ip\":\"192.0.2.1\",\"size\":{size}}}"));
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.json()["id"].as_str().unwrap().to_owned()
}

/// Begins a back-test and waits for its end.
#[track_caller]
fn tried(running: &TestServer, request: &Value) -> Value {
    let answer = running.post("/v1/backtests", &[JSON], &request.to_string());
    assert_eq!(answer.status, 202, "{}", answer.body);
    let id = answer.json()["id"].as_str().unwrap().to_owned();
    loop {
        let seen = running.get(&format!("/v1/backtests/{id}")).json();
        if !["waiting", "sampling", "running"].contains(&seen["state"].as_str().unwrap()) {
            return seen;
        }
        sleep(Duration::from_millis(10));
    }
}

#[test]
fn other_rules_are_tried_on_past_decisions() {
    with_hits(&[], |running| {
        let ids: Vec<String> = (1..=20).map(|size| decide(running, size)).collect();
        for (id, class) in [(&ids[2], "ham"), (&ids[14], "spam"), (&ids[15], "spam"), (&ids[15], "ham")] {
            let said = json!({"id": id, "class": class}).to_string();
            assert_eq!(running.post("/v1/feedback", &[JSON], &said).status, 200);
        }
        let done = tried(running, &json!({"rules": SMALL, "span": "1h"}));
        assert_eq!(done["state"], "done", "{done}");
        assert_eq!((&done["is_sample"], &done["progress"]), (&json!(false), &json!(1.0)), "{done}");
        let report = &done["report"];
        assert_eq!((&report["rows"], &report["changed"]), (&json!(20), &json!(20)), "{report}");
        let turned = json!([
            {"before": "accept", "after": "reject", "rows": 10},
            {"before": "reject", "after": "accept", "rows": 10},
        ]);
        assert_eq!(report["actions"], turned);
        let labels = &report["labels"];
        assert_eq!(
            (&labels[0]["label"], &labels[0]["rows"], &labels[0]["changed"]),
            (&json!("ham"), &json!(2), &json!(2))
        );
        assert_eq!((&labels[1]["label"], &labels[1]["is_bad"]), (&json!("spam"), &json!(true)));
        assert_eq!(report["after"]["false_negatives"], 1, "{report}");
        let hits = &report["rules"];
        assert_eq!(hits[0], json!({"rule": "LARGE", "mode": "enforce", "before": 10, "after": 10}));
        assert_eq!(hits[1], json!({"rule": "NEW", "mode": "enforce", "before": 0, "after": 1}));
        let examples = report["examples"].as_array().unwrap();
        assert_eq!(examples.len(), 20);
        assert!(examples[..3].iter().all(|example| example["label"].is_string()), "{examples:?}");
        assert!(examples[3..].iter().all(|example| example["label"].is_null()), "{examples:?}");
        assert_eq!(examples[0]["id"], *ids[2], "the one whose score moves most");
        assert_eq!(examples[0]["fires_now"], json!(["LARGE", "NEW"]));
        // Nothing was counted, and what is in force is as it was.
        assert_eq!(running.get("/v1/rules").json()["versions"].as_array().unwrap().len(), 1);
        assert_eq!(decide(running, 1).len(), ids[0].len());

        let sample = tried(running, &json!({"rules": SMALL, "span": "1h", "sample_only": true}));
        assert_eq!((&sample["state"], &sample["is_sample"]), (&json!("done"), &json!(true)), "{sample}");
        assert_eq!(sample["report"]["labels"][0]["label"], "ham", "{sample}");
        let same = tried(running, &json!({}));
        assert_eq!(same["report"]["changed"], 0, "{same}");
        let before = tried(running, &json!({"from": "2001-01-01T00:00:00Z", "to": "2001-01-02T00:00:00Z"}));
        assert_eq!(before["report"]["rows"], 0, "{before}");
    });
}

#[test]
fn scores_are_fitted_to_what_was_said_and_posted() {
    with_hits(&[], |running| {
        let fit = |terms: Value| {
            let done = tried(running, &json!({"span": "1h", "fit": terms}));
            assert_eq!(done["state"], "done", "{done}");
            done["report"].clone()
        };
        for number in 0..80 {
            let (size, class) = if number % 2 == 0 { (20, "spam") } else { (5, "ham") };
            let said = json!({"id": decide(running, size), "class": class}).to_string();
            assert_eq!(running.post("/v1/feedback", &[JSON], &said).status, 200);
            if number == 30 {
                let report = fit(json!({}));
                let problem = report["fit_problem"].as_str().unwrap();
                assert!(problem.starts_with("15 good and 16 bad events are judged"), "{report}");
                assert!(report["fit"].is_null(), "{report}");
            }
        }
        let report = fit(json!({"prior": 2}));
        let fitted = &report["fit"];
        assert_eq!((&fitted["events"], &fitted["bad"]), (&json!(80), &json!(40)), "{fitted}");
        // The rule tells both apart already, on the later two fifths as on all.
        assert_eq!(
            (&fitted["before"]["good"], &fitted["before"]["bad"]),
            (&json!(16), &json!(16)),
            "{fitted}"
        );
        assert_eq!((&fitted["after"]["recall_at_01"], &fitted["is_worse"]), (&json!(1.0), &json!(false)));
        let rule = &fitted["rules"][0];
        assert_eq!((&rule["rule"], &rule["score"]), (&json!("LARGE"), &json!(1.0)), "{fitted}");
        assert_eq!((&rule["good"], &rule["bad"]), (&json!(0), &json!(40)), "{fitted}");
        let score = rule["fitted"].as_f64().unwrap();
        assert!(score > 2.0, "all that it fires on is bad: {fitted}");
        let text = fitted["text"].as_str().unwrap();
        assert_eq!(text, format!("[[rule]]\nname = \"LARGE\"\nscore = {score:?}\n"));
        assert_eq!(report["changed"], 0, "the rules in force are what is judged by");

        let kept = fit(json!({"fixed": ["LARGE"]}));
        assert_eq!((&kept["fit"]["rules"], &kept["fit"]["text"]), (&json!([]), &json!("")), "{kept}");
        let first = running.get("/v1/rules").json()["version"].clone();
        let toml = "Content-Type: application/toml";
        assert_eq!(running.post("/v1/rules", &[toml], text).status, 200);
        let decided = running.post("/v1/decide", &[JSON], r#"{"ip":"192.0.2.1","size":20}"#).json();
        assert_eq!(decided["score"], score, "{decided}");
        // A text that was posted keeps what else it says.
        let own = format!("# ours\n{text}");
        let again = tried(running, &json!({"rules": own, "fit": {"prior": 1}}));
        let again = again["report"]["fit"]["text"].as_str().unwrap();
        assert!(again.starts_with("# ours\n[[rule]]\n") && again != own, "{again}");
        let version = tried(running, &json!({"version": first, "fit": {}}));
        let fitted = &version["report"]["fit"];
        assert_eq!((&fitted["events"], &fitted["text"]), (&json!(80), &json!(null)), "{version}");
    });
}

#[test]
fn versions_and_candidates_are_tried_too() {
    with_hits(&[], |running| {
        let first = running.get("/v1/rules").json()["version"].as_str().unwrap().to_owned();
        decide(running, 1);
        let toml = "Content-Type: application/toml";
        assert_eq!(running.post("/v1/rules?candidate=true", &[toml], SMALL).status, 200);
        let done = tried(running, &json!({"candidate": true}));
        assert_eq!(done["report"]["changed"], 1, "{done}");
        assert_eq!(running.post("/v1/rules/promote", &[], "").status, 200);
        assert_eq!(tried(running, &json!({}))["report"]["changed"], 1);
        let done = tried(running, &json!({"version": &first[..6]}));
        assert_eq!((&done["report"]["changed"], &done["version"]), (&json!(0), &json!(first)), "{done}");
    });
}

#[test]
fn what_cannot_be_tried_is_refused() {
    with_hits(&[], |running| {
        let post = |request: Value| running.post("/v1/backtests", &[JSON], &request.to_string());
        let refused = post(json!({"rules": "\n[[rule]]\nname = \"LARGE\"\nwhen = \"sise > 1\"\n"}));
        check_problem(&refused, 422, "invalid-rules", "");
        assert_eq!(refused.json()["problems"][0]["line"], 4, "{}", refused.body);
        check_problem(&post(json!({"rules": "", "candidate": true})), 400, "invalid-parameter", "");
        check_problem(
            &post(json!({"span": "1h", "from": "2001-01-01T00:00:00Z"})),
            400,
            "invalid-parameter",
            "",
        );
        check_problem(
            &post(json!({"to": "2001-01-01T00:00:00Z", "from": "2001-01-01T00:00:00Z"})),
            400,
            "invalid-parameter",
            "",
        );
        for (fit, what) in [
            (json!({"fixed": ["NONE"]}), "`hits` has no rule and no group `NONE`"),
            (json!({"fixed": vec!["LARGE"; 101]}), "at most 100"),
            (json!({"split": 1}), "between 0 and 1"),
            (json!({"prior": 0}), "fit.prior: expected a number above 0"),
            (json!({"most": -1}), "fit.most: expected a number above 0"),
        ] {
            let refused = post(json!({"fit": fit}));
            check_problem(&refused, 400, "invalid-parameter", "");
            assert!(refused.body.contains(what), "{}", refused.body);
        }
        assert_eq!(post(json!({"fit": {"unknown": 1}})).status / 100, 4);
        assert_eq!(post(json!({"candidate": true})).status / 100, 4);
        assert_eq!(post(json!({"version": "none"})).status / 100, 4);
        assert_eq!(post(json!({"pipeline": "none"})).status / 100, 4);
        check_problem(&running.get("/v1/backtests/0"), 404, "not-found", "");
        check_problem(&running.ask("DELETE", "/v1/backtests/0", &[], b""), 404, "not-found", "");
        // What has ended is kept for a while, and cancelling it changes nothing.
        let all: Vec<Value> = (0..20).map(|_| tried(running, &json!({"sample_only": true}))).collect();
        let last = all.last().unwrap();
        let listed = running.get("/v1/backtests").json();
        assert_eq!(listed["backtests"].as_array().unwrap().len(), 16);
        assert_eq!(
            (&listed["backtests"][0]["id"], &listed["backtests"][0]["report"]),
            (&last["id"], &json!(null))
        );
        let cancelled =
            running.ask("DELETE", &format!("/v1/backtests/{}", last["id"].as_str().unwrap()), &[], b"");
        assert_eq!((cancelled.status, &cancelled.json()["state"]), (200, &json!("done")));
    });
}

#[test]
fn versions_are_shown_with_what_differs_and_who_made_them() {
    with_hits(&[("server.tokens", "[\"correct-horse-battery\"]")], |running| {
        let toml = "Content-Type: application/toml";
        let token = "Authorization: Bearer correct-horse-battery";
        let first = get_with(running, "/v1/rules", &[token]).json()["version"].as_str().unwrap().to_owned();
        assert_eq!(running.post("/v1/rules?candidate=true", &[toml, token], SMALL).status, 200);
        let path = format!("/v1/rules/versions/candidate?against={first}");
        let candidate = get_with(running, &path, &[token]).json();
        let lines = &candidate["difference"]["lines"];
        assert!(lines.as_array().unwrap().contains(&json!("-when = \"size > 10\"")), "{candidate}");
        assert!(lines.as_array().unwrap().contains(&json!("+when = \"size <= 10\"")), "{candidate}");
        assert_eq!(running.post("/v1/rules/promote", &[token], "").status, 200);
        let rules = get_with(running, "/v1/rules", &[token]).json();
        assert_eq!(rules["versions"][0]["by"], "promote", "{rules}");
        assert!(rules["versions"][0]["who"].is_string(), "{rules}");
        let of = format!("/v1/rules/versions/{}?against={first}", rules["version"].as_str().unwrap());
        let version = get_with(running, &of, &[token]).json();
        assert_eq!(version["difference"], {
            let mut same = candidate["difference"].clone();
            same["against"] = version["difference"]["against"].clone();
            same
        });
        assert!(version["text"].as_str().unwrap().contains("[[rule]]"), "{version}");
        check_problem(&get_with(running, "/v1/rules/versions/zz", &[token]), 422, "not-applicable", "");
        let names = get_with(running, "/v1/rules/names", &[token]).json();
        let has = |name: &str| names["names"].as_array().unwrap().iter().any(|known| known["name"] == name);
        assert!(has("size") && has("ip.seen('1h')") && has("NEW"), "{names}");
    });
}
