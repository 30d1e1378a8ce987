use serde_json::{Value, json};

use crate::harness::{JSON, LOG, PROBE, TestServer, check_problem, with_server};

fn seen(server: &TestServer) -> Value {
    server.post("/v1/peek?pipeline=web", &[LOG], PROBE).json()["facts"]["ip.seen('1h')"].clone()
}

#[test]
fn observing_counts_and_peeking_does_not() {
    with_server(&[], |server| {
        assert_eq!(seen(server), 0);
        let observed = server.post("/v1/observe?pipeline=web", &[LOG], PROBE).json();
        assert_eq!(observed["facts"]["ip.seen('1h')"], 0, "readings are from before the event");
        assert_eq!(observed["id"], Value::Null, "nothing is judged or logged");
        assert_eq!(observed["reasons"], json!([]));
        assert_eq!(seen(server), 1);
        assert_eq!(seen(server), 1);
        let peeked = server.post("/v1/peek?pipeline=web", &[LOG], PROBE).json();
        let key = peeked["keys"].as_array().unwrap().iter().find(|key| key["kind"] == "ip").unwrap();
        assert_eq!(key["counts"]["seen"]["1h"], 1, "{key}");
        assert_eq!(key["first"], "2026-05-17T09:59:30Z");
    });
}

#[test]
fn one_key_has_a_timeline() {
    with_server(&[], |server| {
        for _ in 0..3 {
            server.post("/v1/observe?pipeline=web", &[LOG], PROBE);
        }
        let line = server.get("/v1/timeline?pipeline=web&kind=ip&value=192.0.2.7").json();
        assert_eq!((&line["kind"], &line["piece"]), (&json!("ip"), &json!("192.0.2.7")));
        assert_eq!(line["first"], "2026-05-17T09:59:30Z");
        assert_eq!(line["last"], "2026-05-17T09:59:30Z");
        assert_eq!(line["counters"][0], "seen");
        let minute = line["tiers"].as_array().unwrap().iter().find(|tier| tier["width"] == "1m").unwrap();
        assert_eq!(minute["buckets"], json!([{"start": "2026-05-17T09:59:00Z", "counts": {"seen": 3}}]));
        let pages = server.get("/v1/timeline?pipeline=web&kind=pages&value=192.0.2.7").json();
        assert_eq!(pages["tiers"][0]["buckets"][0]["counts"], json!({"pages": 1}), "{pages}");
        let within = |from: &str, to: &str| {
            let query = format!("pipeline=web&kind=ip&value=192.0.2.7&from={from}&to={to}");
            let line = server.get(&format!("/v1/timeline?{query}")).json();
            line["tiers"].as_array().unwrap().iter().map(|tier| tier["width"].clone()).collect::<Vec<_>>()
        };
        assert_eq!(
            within("2026-05-17T09:59:59Z", "2026-05-17T10:00:00Z"),
            ["1m"],
            "the bucket is cut in two"
        );
        assert!(within("2026-05-17T10:00:00Z", "2026-05-18T10:00:00Z").is_empty());
        assert!(within("2026-05-17T09:00:00Z", "2026-05-17T09:59:00Z").is_empty());
        let unknown = server.get("/v1/timeline?pipeline=web&kind=ip&value=192.0.2.8");
        assert_eq!((unknown.status, &unknown.json()["tiers"]), (200, &json!([])));

        let check = |query: &str, status: u16, word: &str, detail: &str| {
            check_problem(&server.get(&format!("/v1/timeline?{query}")), status, word, detail);
        };
        check("kind=ip", 400, "invalid-parameter", "missing field `value`");
        check("pipeline=web&kind=pi&value=x", 400, "unknown-name", "there is no kind `pi`");
        check("kind=from&value=", 422, "not-applicable", "gives no piece of the kind `from`");
        check("kind=from&value=a&from=then", 400, "invalid-parameter", "from: ");
        let same = "from=2026-05-17T10:00:00Z&to=2026-05-17T10:00:00Z";
        check(&format!("kind=from&value=a&{same}"), 400, "invalid-parameter", "to: it is not after `from`");
    });
}

#[test]
fn many_keys_are_read_at_once() {
    with_server(&[], |server| {
        for _ in 0..3 {
            server.post("/v1/observe?pipeline=web", &[LOG], PROBE);
        }
        let ask = |body: &Value| server.post("/v1/readings", &[JSON], &body.to_string());
        let key = |kind: &str, value: &str| json!({"kind": kind, "value": value});
        let keys = [
            key("ip", "192.0.2.8"),
            key("ip", "192.0.2.7"),
            key("pages", "192.0.2.7"),
            key("ip", "192.0.2.7"),
        ];
        let told = ask(&json!({"pipeline": "web", "keys": keys})).json();
        let found = told["keys"].as_array().unwrap();
        assert_eq!((&told["pipeline"], found.len()), (&json!("web"), 4));
        assert_eq!((&found[0]["piece"], &found[0]["first"]), (&json!("192.0.2.8"), &Value::Null));
        let line = server.get("/v1/timeline?pipeline=web&kind=ip&value=192.0.2.7").json();
        for part in ["kind", "piece", "shingle", "quality", "first", "last", "windows"] {
            assert_eq!(found[1][part], line[part], "{part}");
        }
        assert_eq!(found[1], found[3]);
        assert_eq!((&found[2]["kind"], &found[2]["quality"]), (&json!("pages"), &json!("estimated")));
        assert_eq!(ask(&json!({"keys": []})).json()["keys"], json!([]));

        let check = |body: &Value, status: u16, word: &str, detail: &str| {
            check_problem(&ask(body), status, word, detail);
        };
        let wrong = json!({"pipeline": "web", "keys": [key("ip", "192.0.2.7"), key("pi", "x")]});
        check(&wrong, 400, "unknown-name", "keys[1]: there is no kind `pi`");
        let empty = json!({"keys": [key("from", "")]});
        check(&empty, 422, "not-applicable", "keys[0]: ");
        let many = vec![key("from", "ann@example.org"); 1001];
        check(&json!({"keys": many}), 413, "too-large", "1001 keys at once: at most 1000");
    });
}

#[test]
fn hot_keys_come_first_and_are_named() {
    with_server(&[], |server| {
        for (ip, count) in [("192.0.2.1", 2), ("192.0.2.2", 5), ("192.0.2.3", 1)] {
            for _ in 0..count {
                let object = json!({"client.ip": ip});
                server.post("/v1/decide?pipeline=web", &[JSON], &object.to_string());
            }
        }
        let top = server.get("/v1/top?pipeline=web&kind=ip&counter=seen&window=1h&limit=2").json();
        let keys: Vec<(&str, u64)> = top["keys"]
            .as_array()
            .unwrap()
            .iter()
            .map(|key| (key["piece"].as_str().unwrap(), key["count"].as_u64().unwrap()))
            .collect();
        assert_eq!(keys, [("192.0.2.2", 5), ("192.0.2.1", 2)]);
        assert_eq!(server.get("/v1/top?pipeline=web&kind=ip").json()["counter"], "seen");

        let check = |query: &str, word: &str, detail: &str| {
            check_problem(&server.get(&format!("/v1/top?pipeline=web&{query}")), 400, word, detail);
        };
        check("kind=pi", "unknown-name", "there is no kind `pi`");
        check("kind=ip&counter=sene", "unknown-name", "there is no counter `sene`");
        check("kind=ip&window=soon", "invalid-parameter", "window: expected a length of time");
        check("kind=ip&window=400d", "invalid-parameter", "window");
        check("kind=ip&limit=0", "invalid-parameter", "limit: expected 1 to 1000");
        check("kind=ip&limit=9999999", "invalid-parameter", "limit: expected 1 to 1000");
    });
}
