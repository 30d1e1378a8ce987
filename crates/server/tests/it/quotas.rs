//! Limits over HTTP.

use serde_json::{Value, json};

use crate::harness::{Answer, JSON, TestServer, check_problem, configure, directory, start};

const LIMITS: &str = r#"
[[limit]]
name = "second"
key = ["user"]
count = 2
per = "1s"
counts = "allowed"
also = ["hour"]

[[limit]]
name = "hour"
key = ["user"]
count = 100
per = "1h"
counts = "allowed"

[[limit]]
name = "quiet"
key = ["ip:network", "user"]
count = 1
per = "1m"
enforcement = "shadow_ban"

[[limit]]
name = "strict"
key = ["user"]
count = 1
per = "1m"
ban = { after = 1, within = "1m", for = "10m" }
"#;

pub(crate) fn with_limits(limits: &str, test: impl FnOnce(&TestServer)) {
    let parent = tempfile::tempdir().unwrap();
    let directory = directory(&parent.path().join("data"));
    configure(&directory, limits);
    let running = start(&directory, &[]);
    test(&running);
    running.stop();
}

fn ask(server: &TestServer, limit: &str, what: &str, body: Value) -> Answer {
    server.post(&format!("/v1/limits/{limit}/{what}"), &[JSON], &body.to_string())
}

#[test]
fn a_take_answers_with_the_fields_of_the_draft() {
    with_limits(LIMITS, |server| {
        let take = || ask(server, "second", "take", json!({"key": {"user": "ann"}}));
        let answer = take();
        assert_eq!(answer.status, 200, "{}", answer.body);
        assert_eq!(answer.header("ratelimit-policy"), Some("\"second\";q=2;w=1, \"hour\";q=100;w=3600"));
        assert_eq!(answer.header("ratelimit"), Some("\"second\";r=1;t=2, \"hour\";r=99;t=3660"));
        assert_eq!(answer.header("retry-after"), None);
        let told = answer.json();
        assert_eq!((&told["allowed"], &told["silent"]), (&json!(true), &json!(false)));
        assert_eq!(
            (&told["limits"][1]["limit"], &told["limits"][1]["remaining"]),
            (&json!("hour"), &json!(99))
        );
        assert_eq!(take().status, 200);
        let refused = take();
        assert_eq!(refused.status, 429);
        assert_eq!(refused.header("content-type"), Some("application/problem+json"));
        assert_eq!(refused.header("retry-after"), Some("2"));
        assert_eq!(refused.header("ratelimit"), Some("\"second\";r=0;t=2, \"hour\";r=98;t=3660"));
        let problem = refused.json();
        assert_eq!(problem["type"], "https://iana.org/assignments/http-problem-types#quota-exceeded");
        assert_eq!(problem["violated-policies"], json!(["second"]));
        assert_eq!((&problem["status"], &problem["allowed"]), (&json!(429), &json!(false)));
        let other = ask(server, "hour", "take", json!({"key": {"user": "bob"}, "cost": 30}));
        assert_eq!(other.json()["limits"][0]["remaining"], 70);
    });
}

#[test]
fn a_shadow_ban_is_one_flag_of_the_answer() {
    with_limits(LIMITS, |server| {
        let take =
            |ip: &str, user: &str| ask(server, "quiet", "take", json!({"key": {"ip": ip, "user": user}}));
        let first = take("2001:db8::1", "ann");
        let banned = take("2001:db8::2", "ann");
        assert_eq!(banned.status, 200);
        let (mut told, hidden) = (banned.json(), first.json());
        assert_eq!((&told["silent"], &hidden["silent"]), (&json!(true), &json!(false)));
        told["silent"] = json!(false);
        assert_eq!(told, hidden);
        let head = |answer: &Answer| answer.head.replace("true", "false").len();
        assert!(head(&banned).abs_diff(head(&first)) <= 1, "the length of the body alone");
        for field in ["ratelimit", "ratelimit-policy", "retry-after"] {
            assert_eq!(banned.header(field), first.header(field));
        }
        let peek = ask(server, "quiet", "peek", json!({"key": {"ip": "2001:db8::3", "user": "ann"}}));
        assert_eq!(peek.json()["allowed"], false);
    });
}

#[test]
fn limits_are_looked_at_given_back_settled_and_reset() {
    with_limits(LIMITS, |server| {
        let key = json!({"user": 7});
        let used = |answer: Answer| {
            assert_eq!(answer.status, 200, "{}", answer.body);
            answer.json()["limits"][0]["used"].clone()
        };
        let taken = ask(server, "hour", "take", json!({"key": key, "cost": 10})).json();
        let time = taken["time"].clone();
        assert_eq!(used(ask(server, "hour", "refund", json!({"key": key, "amount": 3, "taken": time}))), 7);
        assert_eq!(
            used(ask(server, "hour", "settle", json!({"key": key, "reserved": 7, "cost": 9, "taken": time}))),
            9
        );
        assert_eq!(used(ask(server, "hour", "reset", json!({"key": key, "used": 50}))), 50);
        assert_eq!(used(ask(server, "hour", "peek", json!({"key": key, "cost": 51}))), 50);
        assert_eq!(used(ask(server, "hour", "reset", json!({"key": key}))), 0);

        for _ in 0..2 {
            ask(server, "strict", "take", json!({"key": key}));
        }
        let banned = ask(server, "strict", "take", json!({"key": key}));
        assert_eq!((banned.status, banned.header("retry-after")), (429, Some("600")));
        assert_eq!(
            banned.json()["type"],
            "https://iana.org/assignments/http-problem-types#abnormal-usage-detected"
        );
    });
}

#[test]
fn overrides_are_posted_listed_and_taken_away() {
    with_limits(LIMITS, |server| {
        let put = |body: Value| {
            server.ask("PUT", "/v1/limits/hour/overrides", &[JSON], body.to_string().as_bytes())
        };
        let posted = put(json!({"key": {"user": "ann"}, "count": 5, "until": "2030-01-01T00:00:00Z"}));
        assert_eq!(posted.status, 200, "{}", posted.body);
        let expected =
            json!([{"key": {"user": "ann"}, "count": 5, "exempt": false, "until": "2030-01-01T00:00:00Z"}]);
        assert_eq!(server.get("/v1/limits/hour/overrides").json()["overrides"], expected);
        let peek = ask(server, "hour", "peek", json!({"key": {"user": "ann"}}));
        assert_eq!(peek.json()["limits"][0]["quota"], 5);
        assert_eq!(server.get("/v1/limits").json()[1]["overrides"], 1);
        assert_eq!(put(json!({"key": {"user": "ann"}})).json()["overrides"], json!([]));
        check_problem(&put(json!({"key": {}, "exempt": true})), 400, "invalid-parameter", "counts by `user`");
    });
}

#[test]
fn what_does_not_fit_is_said() {
    with_limits(LIMITS, |server| {
        let check = |limit: &str, body: Value, status: u16, word: &str, detail: &str| {
            check_problem(&ask(server, limit, "take", body), status, word, detail);
        };
        check("minute", json!({}), 404, "not-found", "no limit `minute`");
        check(
            "hour",
            json!({}),
            400,
            "invalid-parameter",
            "the limit `hour` counts by `user`, which is not given",
        );
        check(
            "hour",
            json!({"key": {"user": "a", "ip": "b"}}),
            400,
            "invalid-parameter",
            "does not count by `ip`",
        );
        check("hour", json!({"key": {"user": ["a"]}}), 400, "invalid-parameter", "`user` is no text");
        check("quiet", json!({"key": {"user": "a", "ip": ""}}), 400, "invalid-parameter", "no value of `ip`");
        check("hour", json!({"kye": {}}), 400, "invalid-body", "kye");
        check("hour", json!({"cost": -1}), 400, "invalid-body", "");
        let listed = server.get("/v1/limits").json();
        assert_eq!(listed.as_array().unwrap().len(), 4);
        assert_eq!(
            (&listed[2]["enforcement"], &listed[2]["key"]),
            (&json!("shadow_ban"), &json!(["ip", "user"]))
        );
        let metrics = server.get("/metrics").body;
        assert!(!metrics.contains("tollhouse_limits_taken_total{limit=\"hour\""), "none was counted");
    });
}
