//! Linear models that are made anew over HTTP, beside those in use.

use std::thread::sleep;
use std::time::Duration;

use engine::Directory;
use plan::preset;
use serde_json::{Value, json};

use crate::harness::{JSON, TestServer, check_problem, start};

const RELEARN: &str = "/v1/learners/relearn?pipeline=comments";
const ADOPT: &str = "/v1/learners/relearn/adopt?pipeline=comments";

fn post(number: usize, is_spam: bool) -> String {
    let text = match is_spam {
        true => format!("Cheap pills and a casino bonus for you, number {number}, at pills.example"),
        false => format!("Thank you for the patch, I have read all {number} parts of it and it works here"),
    };
    json!({"user": "ann", "ip": "192.0.2.9", "place": "thread", "text": text}).to_string()
}

/// Decides on a post, and says what it was.
fn judge(server: &TestServer, number: usize, class: &str) {
    let decided = server.post("/v1/decide?pipeline=comments", &[JSON], &post(number, class == "spam"));
    let said = json!({"id": decided.json()["id"], "class": class}).to_string();
    assert_eq!(server.post("/v1/feedback", &[JSON], &said).status, 200);
}

/// Begins, and waits until it is over.
fn relearn(server: &TestServer) -> Value {
    let begun = server.post(RELEARN, &[], "");
    assert_eq!(begun.status, 202, "{}", begun.body);
    loop {
        let seen = server.get(RELEARN).json();
        if seen["state"] != "running" {
            return seen;
        }
        sleep(Duration::from_millis(10));
    }
}

/// The examples of the linear models in use.
fn learned(server: &TestServer) -> Value {
    let known = server.get("/v1/learners?pipeline=comments").json();
    let models = known["classifiers"][0]["linear"].as_array().unwrap().iter();
    let sum = |side: &str| models.clone().map(|model| model["learned"][side].as_u64().unwrap()).sum::<u64>();
    json!({"good": sum("good"), "bad": sum("bad")})
}

#[test]
fn models_are_made_anew_looked_at_and_used() {
    let parent = tempfile::tempdir().unwrap();
    let presets = ["comments", "web"].map(|name| preset::find(name).unwrap());
    let directory = Directory::create(&parent.path().join("data"), &presets).unwrap();
    let server = start(&directory, &[]);
    check_problem(&server.get(RELEARN), 404, "not-found", "no linear models of `comments`");
    check_problem(&server.post(ADOPT, &[], ""), 404, "not-found", "no linear models of `comments`");
    for number in 0..12 {
        judge(&server, number, if number % 2 == 0 { "spam" } else { "ham" });
    }
    let ready = relearn(&server);
    assert_eq!((&ready["state"], &ready["by"]), (&json!("ready"), &json!("local")), "{ready}");
    let report = &ready["report"];
    assert_eq!((&report["examples"], &report["known"]), (&learned(&server), &learned(&server)), "{ready}");
    // The later half: each text is like one that was learned before.
    assert_eq!(report["check"], json!({"good": 3, "good_wrong": 0, "bad": 3, "bad_wrong": 0}), "{ready}");
    assert_eq!(report["known_check"], report["check"]);
    assert!(ready["blocks"].as_u64() >= Some(2));

    // What is judged while they wait is not lost.
    judge(&server, 20, "spam");
    let known = learned(&server);
    assert_ne!(known, report["known"]);
    let used = server.post(ADOPT, &[], "");
    assert_eq!((used.status, &used.json()["state"]), (200, &json!("adopted")), "{}", used.body);
    assert_eq!(learned(&server), known);
    check_problem(&server.post(ADOPT, &[], ""), 422, "not-applicable", "the models are adopted");

    // What was learned without a decision is in no journal, and not given up unasked.
    let text = post(30, true);
    assert_eq!(server.post("/v1/learn?pipeline=comments&class=spam", &[JSON], &text).status, 200);
    let more = learned(&server);
    assert_ne!(more, known);
    assert_eq!(relearn(&server)["report"]["examples"], known);
    check_problem(&server.post(ADOPT, &[], ""), 422, "not-applicable", "have learned");
    assert_eq!(learned(&server), more);
    assert_eq!(server.post(&format!("{ADOPT}&replace=true"), &[], "").status, 200);
    assert_eq!(learned(&server), known);

    // Those that nobody wants.
    assert_eq!(relearn(&server)["state"], "ready");
    let discarded = server.ask("DELETE", RELEARN, &[], b"");
    assert_eq!((discarded.status, &discarded.json()["state"]), (200, &json!("discarded")));
    check_problem(&server.post(ADOPT, &[], ""), 422, "not-applicable", "the models are discarded");

    // A pipeline without such models has none to make, and what waits goes on waiting.
    assert_eq!(relearn(&server)["state"], "ready");
    let none = RELEARN.replace("comments", "web");
    check_problem(&server.post(&none, &[], ""), 422, "not-applicable", "no classifier with `runs`");
    assert_eq!(server.get(RELEARN).json()["state"], "ready");
    // Others take the place of those that wait.
    judge(&server, 40, "ham");
    assert_eq!(relearn(&server)["state"], "ready");
    assert_eq!(server.post(ADOPT, &[], "").status, 200);
    for url in [RELEARN, ADOPT] {
        let url = url.replace("comments", "nowhere");
        check_problem(&server.post(&url, &[], ""), 400, "unknown-name", "nowhere");
    }
    server.stop();
}

/// Models that were put to use are there after a restart, and go on learning.
#[test]
fn models_that_were_made_anew_stay() {
    let parent = tempfile::tempdir().unwrap();
    let directory =
        Directory::create(&parent.path().join("data"), &[preset::find("comments").unwrap()]).unwrap();
    let server = start(&directory, &[]);
    for number in 0..6 {
        judge(&server, number, if number % 2 == 0 { "spam" } else { "ham" });
    }
    let text = post(30, true);
    assert_eq!(server.post("/v1/learn?pipeline=comments&class=spam", &[JSON], &text).status, 200);
    let before = learned(&server);
    let ready = relearn(&server);
    assert_eq!(server.post(&format!("{ADOPT}&replace=true"), &[], "").status, 200);
    judge(&server, 7, "ham");
    let known = learned(&server);
    assert_ne!(known, before);
    assert_eq!(ready["report"]["known"], before);
    server.stop();
    let server = start(&directory, &[]);
    assert_eq!(learned(&server), known);
    server.stop();
}
