use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::harness::{LOG, PROBE, check_problem, directory, start, with_server};

/// Every route, as the description names it.
pub(crate) const ROUTES: [(&str, &str); 120] = [
    ("delete", "/v1/allow"),
    ("delete", "/v1/backtests/{id}"),
    ("delete", "/v1/bans"),
    ("delete", "/v1/learners/relearn"),
    ("delete", "/v1/nodes/{number}"),
    ("delete", "/v1/notes"),
    ("delete", "/v1/searches"),
    ("delete", "/v1/sessions/{id}"),
    ("get", "/"),
    ("get", "/crowdsec/v1/alerts"),
    ("get", "/crowdsec/v1/alerts/{id}"),
    ("get", "/crowdsec/v1/decisions"),
    ("get", "/crowdsec/v1/decisions/stream"),
    ("get", "/crowdsec/v1/heartbeat"),
    ("get", "/healthz"),
    ("get", "/metrics"),
    ("get", "/openapi.json"),
    ("get", "/readyz"),
    ("get", "/v1/allow"),
    ("get", "/v1/anomalies"),
    ("get", "/v1/audit"),
    ("get", "/v1/audit/export"),
    ("get", "/v1/audit/verification"),
    ("get", "/v1/auth/{name}"),
    ("get", "/v1/backtests"),
    ("get", "/v1/backtests/{id}"),
    ("get", "/v1/baits"),
    ("get", "/v1/bans"),
    ("get", "/v1/bans/ips"),
    ("get", "/v1/bans/search"),
    ("get", "/v1/bans/stream"),
    ("get", "/v1/counts"),
    ("get", "/v1/decisions"),
    ("get", "/v1/decisions/common"),
    ("get", "/v1/decisions/export"),
    ("get", "/v1/decisions/statistics"),
    ("get", "/v1/decisions/stream"),
    ("get", "/v1/decisions/{id}"),
    ("get", "/v1/decisions/{id}/similar"),
    ("get", "/v1/erase"),
    ("get", "/v1/gate/{name}/{step}"),
    ("get", "/v1/keys"),
    ("get", "/v1/keys/related"),
    ("get", "/v1/learners"),
    ("get", "/v1/learners/relearn"),
    ("get", "/v1/limits"),
    ("get", "/v1/limits/fullest"),
    ("get", "/v1/limits/{name}/overrides"),
    ("get", "/v1/nodes"),
    ("get", "/v1/notes"),
    ("get", "/v1/notifications"),
    ("get", "/v1/pipelines"),
    ("get", "/v1/reputations"),
    ("get", "/v1/reviews"),
    ("get", "/v1/reviews/agreement"),
    ("get", "/v1/reviews/{id}"),
    ("get", "/v1/rules"),
    ("get", "/v1/rules/comparison"),
    ("get", "/v1/rules/corrections"),
    ("get", "/v1/rules/impact"),
    ("get", "/v1/rules/names"),
    ("get", "/v1/rules/versions/{version}"),
    ("get", "/v1/searches"),
    ("get", "/v1/sessions"),
    ("get", "/v1/sets"),
    ("get", "/v1/sets/{name}"),
    ("get", "/v1/settings"),
    ("get", "/v1/sinks"),
    ("get", "/v1/snapshots"),
    ("get", "/v1/sources"),
    ("get", "/v1/timeline"),
    ("get", "/v1/tokens"),
    ("get", "/v1/top"),
    ("post", "/crowdsec/v1/usage-metrics"),
    ("post", "/crowdsec/v1/watchers/login"),
    ("post", "/v1/allow"),
    ("post", "/v1/backtests"),
    ("post", "/v1/bans"),
    ("post", "/v1/bans/import"),
    ("post", "/v1/batch/decide"),
    ("post", "/v1/batch/observe"),
    ("post", "/v1/challenges"),
    ("post", "/v1/challenges/verify"),
    ("post", "/v1/check"),
    ("post", "/v1/decide"),
    ("post", "/v1/decide/batch"),
    ("post", "/v1/erase"),
    ("post", "/v1/feedback"),
    ("post", "/v1/feedback/batch"),
    ("post", "/v1/forms"),
    ("post", "/v1/learn"),
    ("post", "/v1/learners/relearn"),
    ("post", "/v1/learners/relearn/adopt"),
    ("post", "/v1/limits/{name}/peek"),
    ("post", "/v1/limits/{name}/refund"),
    ("post", "/v1/limits/{name}/reset"),
    ("post", "/v1/limits/{name}/settle"),
    ("post", "/v1/limits/{name}/take"),
    ("post", "/v1/notes"),
    ("post", "/v1/notifications/{name}/test"),
    ("post", "/v1/observe"),
    ("post", "/v1/peek"),
    ("post", "/v1/readings"),
    ("post", "/v1/report"),
    ("post", "/v1/reviews/decide"),
    ("post", "/v1/reviews/{id}/claim"),
    ("post", "/v1/reviews/{id}/comment"),
    ("post", "/v1/reviews/{id}/decide"),
    ("post", "/v1/reviews/{id}/escalate"),
    ("post", "/v1/reviews/{id}/release"),
    ("post", "/v1/rules"),
    ("post", "/v1/rules/canary"),
    ("post", "/v1/rules/corrections"),
    ("post", "/v1/rules/promote"),
    ("post", "/v1/rules/reload"),
    ("post", "/v1/rules/rollback"),
    ("post", "/v1/sessions"),
    ("post", "/v1/snapshots"),
    ("put", "/v1/limits/{name}/overrides"),
    ("put", "/v1/searches"),
];

#[test]
fn the_description_names_every_route() {
    with_server(&[], |server| {
        let answer = server.get("/openapi.json");
        assert_eq!(answer.header("content-type"), Some("application/json"));
        let description = answer.json();
        assert!(description["openapi"].as_str().unwrap().starts_with("3.1"));
        let paths = description["paths"].as_object().unwrap();
        let mut named: Vec<(&str, &str)> = Vec::new();
        for (path, item) in paths {
            named.extend(item.as_object().unwrap().keys().map(|method| (method.as_str(), path.as_str())));
        }
        named.sort_unstable();
        assert_eq!(named, ROUTES);

        // Routes that are declared beside the description are in it, too.
        let source = include_str!("../../src/protocol/http/mod.rs");
        for route in source.split(".route(\"").skip(1) {
            let route = route.split('"').next().unwrap();
            let route = route.trim_end_matches("/{*rest}").trim_end_matches('/');
            assert!(paths.contains_key(route), "{route} is not in the description");
        }
        let ids: Vec<&str> = paths
            .values()
            .flat_map(|item| item.as_object().unwrap().values())
            .map(|operation| operation["operationId"].as_str().unwrap())
            .collect();
        let unique: BTreeSet<&&str> = ids.iter().collect();
        assert_eq!(unique.len(), ids.len(), "clients are generated by these names: {ids:?}");

        // Each has examples: of its path, of one form of its body, and of its answer, if that has a body.
        for operation in paths.values().flat_map(|item| item.as_object().unwrap().values()) {
            let id = operation["operationId"].as_str().unwrap();
            let parameters = operation["parameters"].as_array().into_iter().flatten();
            for parameter in parameters.filter(|parameter| parameter["required"] == true) {
                assert!(!parameter["example"].is_null(), "{id}: {parameter}");
            }
            let is_shown = |contents: &Value| {
                let mut contents = contents.as_object().into_iter().flat_map(|contents| contents.values());
                contents.any(|content| !content["example"].is_null())
            };
            let answers = operation["responses"].as_object().unwrap().iter();
            let good =
                answers.filter(|(status, _)| status.starts_with('2')).map(|(_, answer)| &answer["content"]);
            let bodies = good.chain(operation.get("requestBody").map(|body| &body["content"]));
            for body in bodies.filter(|body| body.is_object() && id != "openapi") {
                assert!(is_shown(body), "{id}: {body}");
            }
        }

        // Every schema that is referred to is there.
        let schemas: BTreeSet<&str> =
            description["components"]["schemas"].as_object().unwrap().keys().map(String::as_str).collect();
        let text = description.to_string();
        let wanted: BTreeSet<&str> =
            text.split("#/components/schemas/").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
        assert!(wanted.is_subset(&schemas), "{wanted:?} {schemas:?}");
        assert!(wanted.contains("Decision") && wanted.contains("Problem"));
        let parameters = &description["paths"]["/v1/decide"]["post"]["parameters"];
        let names: Vec<&str> =
            parameters.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
        assert!(names.contains(&"pipeline") && names.contains(&"tollhouse-rcpt-to"), "{names:?}");
        // The index for people names the same.
        let index = server.get("/").body;
        for (method, path) in ROUTES {
            let path = format!("{path} ");
            assert!(
                index.lines().any(|line| line.starts_with(&method.to_uppercase()) && line.contains(&path)),
                "{path}"
            );
        }
    });
}

#[test]
fn the_node_says_what_it_runs_and_how_it_is() {
    with_server(&[], |server| {
        let pipelines = server.get("/v1/pipelines").json();
        let names: Vec<&str> = pipelines["pipelines"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["mail", "web"]);
        let mail = &pipelines["pipelines"][0];
        assert_eq!(mail["input"], "message");
        assert_eq!(mail["version"].as_str().unwrap().len(), 16);
        assert!(
            mail["kinds"]
                .as_array()
                .unwrap()
                .iter()
                .any(|kind| kind["name"] == "from" && kind["of"] == "mail.from")
        );
        assert!(mail["rules"].as_array().unwrap().iter().all(|rule| rule["description"].is_string()));
        assert_eq!(mail["bands"][0]["action"], "tag");
        let promise = &mail["bands"][0]["promise"];
        let told = serde_json::json!({"false_positives": 0.005, "held": false, "good": 0, "judged": 0, "needed": 199});
        assert_eq!((promise, &mail["bands"][0]["at"]), (&told, &serde_json::json!(4.0)));
        assert!(pipelines["pipelines"][1]["bands"][0].get("promise").is_none());
        let page = server.get("/metrics").body;
        for line in [
            "tollhouse_band_score{pipeline=\"mail\",action=\"tag\"} 4.0",
            "tollhouse_band_promised_ratio{pipeline=\"mail\",action=\"quarantine\"} 0.001",
            "tollhouse_band_promise_held{pipeline=\"mail\",action=\"reject\"} 0.0",
        ] {
            assert!(page.contains(line), "{line}: {page}");
        }

        for url in ["/healthz", "/readyz"] {
            assert_eq!(server.get(url).json()["status"], "ok");
        }
        check_problem(&server.get("/v1/nowhere"), 404, "not-found", "there is no URL `/v1/nowhere`");
        let wrong = server.get("/v1/decide");
        check_problem(&wrong, 405, "method-not-allowed", "GET /v1/decide");
        assert_eq!(wrong.header("allow"), Some("POST"));
    });
}

/// The samples of a page of metrics by name and labels; fails on a line that is neither a comment nor a sample.
fn samples(page: &str) -> BTreeMap<String, f64> {
    assert!(page.ends_with("# EOF\n"), "{page}");
    let lines = page.lines().filter(|line| !line.starts_with("# "));
    lines
        .map(|line| {
            let (name, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line}"));
            (name.to_owned(), value.parse().unwrap_or_else(|_| panic!("{line}")))
        })
        .collect()
}

#[test]
fn metrics_count_stages_and_requests() {
    with_server(&[], |server| {
        server.post("/v1/decide?pipeline=web", &[LOG], PROBE);
        server.post("/v1/decide?pipeline=web", &[LOG], "nonsense");
        server.get("/v1/some/secret/path");
        let answer = server.get("/metrics");
        assert!(answer.header("content-type").unwrap().starts_with("application/openmetrics-text"));
        let samples = samples(&answer.body);
        let check =
            |name: &str, value: f64| assert_eq!(samples.get(name), Some(&value), "{name}\n{}", answer.body);
        check(r#"tollhouse_fields_events_total{pipeline="web"}"#, 1.0);
        check(r#"tollhouse_http_request_seconds_count{route="/v1/decide",status="200"}"#, 1.0);
        check(r#"tollhouse_http_request_seconds_count{route="/v1/decide",status="422"}"#, 1.0);
        check(r#"tollhouse_http_request_seconds_count{route="other",status="404"}"#, 1.0);
        check("tollhouse_ledger_poisoned", 0.0);
        check("tollhouse_ledger_full", 0.0);
        // Those of the requests before may not be closed yet.
        assert!(samples["tollhouse_http_connections"] >= 1.0);
        assert!(samples["tollhouse_ledger_cells"] > 0.0);
        assert!(!answer.body.contains("secret"));
    });
}

#[test]
fn a_broken_journal_makes_the_node_unready() {
    let parent = tempfile::tempdir().unwrap();
    let directory = directory(&parent.path().join("data"));
    let server = start(&directory, &[("journal.segment", "1KiB"), ("ledger.durability", "sync")]);
    assert_eq!(server.get("/readyz").status, 200);
    // The next segment cannot be made.
    std::fs::remove_dir_all(directory.journal_path()).unwrap();
    let mut answers = (0..50).map(|_| server.post("/v1/decide?pipeline=web", &[LOG], PROBE));
    let unlogged = answers.find(|answer| answer.json()["unlogged"] == true).unwrap();
    assert_eq!(
        (unlogged.status, &unlogged.json()["action"]),
        (200, &"review_after".into()),
        "{}",
        unlogged.body
    );
    let lasting = server.post("/v1/decide?pipeline=web&durability=sync", &[LOG], PROBE);
    check_problem(&lasting, 503, "unavailable", "not all events could be counted and logged");
    check_problem(&server.get("/readyz"), 503, "unavailable", "the journal refuses writes");
    assert_eq!(server.get("/healthz").status, 200);
}

#[test]
fn wrong_tokens_are_counted_and_answered_late_and_a_right_one_is_not() {
    with_server(&[("server.tokens", "[\"a-token-of-some-length\"]")], |server| {
        let ask = |header: &str| server.ask("GET", "/v1/pipelines", &[header], b"").status;
        let begun = std::time::Instant::now();
        assert_eq!(ask("Authorization: Bearer wrong"), 401);
        assert_eq!(ask("X-Api-Key: wrong"), 403);
        assert_eq!(ask("Authorization: Basic wrong"), 401);
        // Each waits for its time, however fast the machine is.
        assert!(begun.elapsed() >= std::time::Duration::from_millis(100 + 200 + 400));
        assert_eq!(server.ask("GET", "/v1/pipelines", &[], b"").status, 401, "no token is no guess");
        assert_eq!(ask("Authorization: Bearer a-token-of-some-length"), 200);
        let right = ["Authorization: Bearer a-token-of-some-length"];
        let page = server.ask("GET", "/metrics", &right, b"").body;
        assert!(page.contains("tollhouse_wrong_tokens_total{listener=\"http\"} 3"), "{page}");
    });
}
