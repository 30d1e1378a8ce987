//! Limits in the console: who is near, who has an exception, and what is reset.

use serde_json::{Value, json};

use crate::console::{FORM, check_page, form, hostile, secret, url_encoded};
use crate::harness::{JSON, TestServer, check_problem, configure, directory, start};
use crate::quotas::with_limits;

const LIMITS: &str = r#"
[[limit]]
name = "posts"
description = "<b>Posts</b> of an account"
key = ["user"]
count = 10
per = "1h"
counts = "allowed"
ban = { after = 2, within = "10m", for = "1h" }

[[limit.override]]
key = ["staff"]
count = 1000

[[limit]]
name = "visits"
key = ["ip", "user"]
count = 4
per = "1m"
mode = "gcra"
burst = 4
also = ["posts"]

[[limit]]
name = "idle"
key = ["user"]
count = 4
per = "1m"
enforcement = "off"
"#;

fn take(server: &TestServer, limit: &str, key: Value, cost: u64) {
    let body = json!({"key": key, "cost": cost}).to_string();
    let answer = server.post(&format!("/v1/limits/{limit}/take"), &[JSON], &body);
    assert!([200, 429].contains(&answer.status), "{}", answer.body);
}

fn put(server: &TestServer, limit: &str, body: &Value) {
    let url = format!("/v1/limits/{limit}/overrides");
    let answer = server.ask("PUT", &url, &[JSON], body.to_string().as_bytes());
    assert_eq!(answer.status, 200, "{}", answer.body);
}

#[test]
fn the_fullest_keys_of_limits_are_listed() {
    with_limits(LIMITS, |server| {
        for (user, cost) in [("ann", 8), ("bob", 2), ("eve", 10), ("staff", 10)] {
            take(server, "posts", json!({"user": user}), cost);
        }
        for _ in 0..3 {
            take(server, "posts", json!({"user": "eve"}), 1);
        }
        put(server, "posts", &json!({"key": {"user": "small"}, "count": 1}));
        take(server, "posts", json!({"user": "small"}), 1);
        let answer = server.get("/v1/limits/fullest?name=posts&limit=4").json();
        let (one, keys) = (&answer[0], answer[0]["keys"].as_array().unwrap());
        assert_eq!((&one["limit"], &one["fields"]), (&json!("posts"), &json!(["user"])));
        let used: Vec<_> = keys.iter().map(|key| (&key["used"], &key["quota"], &key["share"])).collect();
        assert_eq!(used[0], (&json!(10), &json!(10), &json!(1.0)));
        assert_eq!(used[1], (&json!(1), &json!(1), &json!(1.0)));
        assert_eq!(used[2], (&json!(8), &json!(10), &json!(0.8)));
        assert!(keys[0]["banned_until"].is_string() && keys[2].get("banned_until").is_none());
        assert_eq!((&keys[1]["key"], &keys[1]["overridden"]), (&json!({"user": "small"}), &json!(true)));
        let all = server.get("/v1/limits/fullest").json();
        let names: Vec<_> = all.as_array().unwrap().iter().map(|limit| &limit["limit"]).collect();
        assert_eq!(names, ["posts", "visits"], "one that is off is left out");
        let check = |query: &str, status: u16, word: &str, detail: &str| {
            check_problem(&server.get(&format!("/v1/limits/fullest?{query}")), status, word, detail);
        };
        check("name=none", 404, "not-found", "no limit `none`");
        check("limit=0", 400, "invalid-parameter", "1 to 1000");
        check("limit=1001", 400, "invalid-parameter", "1 to 1000");
        let page = server.get("/console/limits");
        let says =
            ["1 banned", "1 full", "1 near", "&lt;b&gt;Posts&lt;/b&gt;", "/console/limits/limit?name=visits"];
        check_page(&page, 200, &says);
    });
}

#[test]
fn keys_are_reset_and_excepted_from_the_console() {
    with_limits(LIMITS, |server| {
        let url = "/console/limits/limit?name=posts";
        put(server, "posts", &json!({"key": {"user": "ann"}, "count": 5}));
        take(server, "posts", json!({"user": "ann"}), 5);
        let answer = server.get(url);
        let own = secret(check_page(
            &answer,
            200,
            &["5 of 5", "Reset ann", "full", "staff", "configuration", "posted"],
        ));
        let send = |page: &str, fields: &[(&str, &str)]| {
            let mut all = vec![("secret", own.as_str()), ("name", "posts")];
            all.extend(fields);
            server.post(page, &[FORM], &form(&all))
        };
        let answer = send("/console/limits/reset", &[("value", "ann")]);
        let location = answer.header("location");
        assert_eq!(
            location,
            Some("/console/limits/limit?name=posts&done=limit_reset&n=0"),
            "{}",
            answer.body
        );
        check_page(&server.get(url), 200, &["No key has used anything"]);

        let overrides = || server.get("/v1/limits/posts/overrides").json();
        let answer = send(
            "/console/limits/override",
            &[("value", "bob"), ("count", ""), ("lasts", "1d"), ("do", "keep")],
        );
        assert_eq!(answer.status, 303, "{}", answer.body);
        let bob = &overrides()["overrides"][1];
        assert_eq!((&bob["key"], &bob["exempt"]), (&json!({"user": "bob"}), &json!(true)));
        assert_eq!(bob["until"], "2026-05-18T10:00:00Z");
        let answer = send(
            "/console/limits/override",
            &[("value", "bob"), ("count", "7"), ("lasts", ""), ("do", "keep")],
        );
        assert_eq!(answer.status, 303, "{}", answer.body);
        assert_eq!(overrides()["overrides"][1], json!({"key": {"user": "bob"}, "count": 7, "exempt": false}));
        let answer = send("/console/limits/override", &[("value", "ann"), ("do", "remove")]);
        assert_eq!(answer.status, 303, "{}", answer.body);
        assert_eq!(overrides()["overrides"].as_array().unwrap().len(), 1);
        assert_eq!(overrides()["configured"][0]["key"], json!({"user": "staff"}));
        let change = server.get("/console/limits/limit?name=posts&count=7&value=bob");
        check_page(&change, 200, &["value=\"bob\"", "value=\"7\""]);

        // What does not fit changes nothing.
        for fields in [
            &[("value", "bob"), ("do", "keep"), ("count", "-1")][..],
            &[("value", "bob"), ("do", "keep"), ("count", "x")],
            &[("value", "bob"), ("do", "keep"), ("lasts", "soon")],
            &[("value", "bob"), ("do", "erase")],
            &[("do", "keep")],
            &[("value", "bob"), ("value", "ann"), ("do", "keep")],
            &[("value", ""), ("do", "keep")],
        ] {
            let answer = send("/console/limits/override", fields);
            check_page(&answer, 400, &["<main"]);
        }
        for page in ["/console/limits/override", "/console/limits/reset"] {
            let foreign = form(&[("secret", "x"), ("name", "posts"), ("value", "bob"), ("do", "remove")]);
            assert_eq!(server.post(page, &[FORM], &foreign).status, 403, "{page}");
            let gone = form(&[("secret", &own), ("name", "<b>\u{202e}"), ("value", "bob"), ("do", "keep")]);
            check_page(&server.post(page, &[FORM], &gone), 404, &["There is no limit &lt;b&gt;⟨202E⟩"]);
        }
        assert_eq!(overrides()["overrides"].as_array().unwrap().len(), 1);

        // A limit with another that counts by less: both are reset, by the fields of both.
        take(server, "visits", json!({"ip": "192.0.2.1", "user": "ann"}), 3);
        let page = server.get("/console/limits/limit?name=visits");
        check_page(&page, 200, &["3 of 4", "So for what is taken with it: posts."]);
        let both = form(&[("secret", &own), ("name", "visits"), ("value", "192.0.2.1"), ("value", "ann")]);
        assert_eq!(server.post("/console/limits/reset", &[FORM], &both).status, 303);
        check_page(&server.get("/console/limits/limit?name=visits"), 200, &["No key has used anything"]);
        check_page(&server.get("/console/limits/limit?name=idle"), 200, &["This limit is off"]);
        check_page(&server.get("/console/limits/limit"), 404, &["There is no limit"]);
    });
}

#[test]
fn keys_of_strangers_stay_text() {
    with_limits(LIMITS, |server| {
        let mut own = None;
        for hostile in hostile() {
            let short: String = hostile.chars().filter(|sign| !sign.is_control()).take(300).collect();
            if short.trim().is_empty() {
                continue;
            }
            put(server, "posts", &json!({"key": {"user": short}, "count": 5}));
            take(server, "posts", json!({"user": short}), 4);
            let answer = server.get("/console/limits/limit?name=posts");
            own.get_or_insert(secret(check_page(&answer, 200, &["4 of 5"])));
            let query =
                url_encoded(&[("name", "posts"), ("count", &short), ("value", &short), ("done", &short)]);
            check_page(&server.get(&format!("/console/limits/limit?{query}")), 200, &["<main"]);
            let query = url_encoded(&[("name", &short)]);
            check_page(&server.get(&format!("/console/limits/limit?{query}")), 404, &["<main"]);
        }
        check_page(&server.get("/console/limits"), 200, &["near"]);
    });
}

#[test]
fn who_may_not_change_limits_is_offered_nothing() {
    let parent = tempfile::tempdir().unwrap();
    let directory = directory(&parent.path().join("data"));
    let token = |name: &str, scopes: &str| {
        format!("[[token]]\nname = \"{name}\"\nsecret = \"a-long-secret-of-{name}\"\nscopes = {scopes}\n")
    };
    let tokens = token("reader", "[\"read\"]") + &token("decider", "[\"decide\", \"rules\"]");
    configure(&directory, &(LIMITS.to_owned() + &tokens));
    let server = start(&directory, &[]);
    let body = json!({"key": {"user": "staff"}, "cost": 900}).to_string();
    let decider = "Authorization: Bearer a-long-secret-of-decider";
    assert_eq!(server.ask("POST", "/v1/limits/posts/take", &[JSON, decider], body.as_bytes()).status, 200);
    let answer = server.post("/console/login", &[FORM], &form(&[("token", "a-long-secret-of-reader")]));
    let cookie = answer.header("set-cookie").and_then(|cookie| cookie.split(';').next()).unwrap();
    let cookie = format!("Cookie: {cookie}");
    let answer = server.ask("GET", "/console/limits/limit?name=posts", &[&cookie], b"");
    let page = check_page(&answer, 200, &["900 of 1\u{202f}000"]);
    assert!(!page.contains("/console/limits/reset") && !page.contains("/console/limits/override"), "{page}");
    // The values of keys are the content of events.
    assert!(!page.contains("Reset staff"), "{page}");
    let own = secret(page);
    for url in ["/console/limits/reset", "/console/limits/override"] {
        let fields = form(&[("secret", &own), ("name", "posts"), ("value", "staff"), ("do", "keep")]);
        assert_eq!(server.ask("POST", url, &[&cookie, FORM], fields.as_bytes()).status, 403, "{url}");
    }
    server.stop();
}
